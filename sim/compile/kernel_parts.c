/* Kernels' reads, writes and contractions, as consecutive lists. */
#include "sim/compile/passes.h"

#include <string.h>

static void append(int *list, int *count, const int *part, int part_count)
{
    if (part_count) memcpy(list + *count, part, (size_t)part_count * sizeof *list);
    *count += part_count;
}

void sim_lay_out_kernels(struct base_arena *arena, struct sim_sharded *s, const struct sim_kernel_parts *parts)
{
    struct sim_kernel_parts all = {.read_count = 0};
    for (int k = 0; k < s->kernel_count; k++) {
        all.read_count += parts[k].read_count;
        all.write_count += parts[k].write_count;
        all.dot_count += parts[k].dot_count;
    }
    s->reads = base_reserve(arena, (size_t)all.read_count, sizeof *s->reads);
    s->writes = base_reserve(arena, (size_t)all.write_count, sizeof *s->writes);
    s->dots = base_reserve(arena, (size_t)all.dot_count, sizeof *s->dots);
    s->read_count = s->write_count = s->dot_count = 0;
    for (int k = 0; k < s->kernel_count; k++) {
        struct sim_kernel *kernel = &s->kernels[k];
        kernel->first_read = s->read_count, kernel->read_count = parts[k].read_count;
        kernel->first_write = s->write_count, kernel->write_count = parts[k].write_count;
        kernel->first_dot = s->dot_count, kernel->dot_count = parts[k].dot_count;
        append(s->reads, &s->read_count, parts[k].reads, parts[k].read_count);
        append(s->writes, &s->write_count, parts[k].writes, parts[k].write_count);
        append(s->dots, &s->dot_count, parts[k].dots, parts[k].dot_count);
    }
}
