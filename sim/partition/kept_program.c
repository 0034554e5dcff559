/* Copies a sharded program from temporary tables to arrays of its final size. */
#include "sim/partition/partition.h"

#include <string.h>

static void *copied(struct base_arena *arena, const void *list, int count, size_t size_bytes)
{
    void *copy = base_reserve(arena, (size_t)count + 1, size_bytes);
    if (count) memcpy(copy, list, (size_t)count * size_bytes);
    return copy;
}

static bool is_of_model(const struct model_program *program, const struct model_op *op)
{
    for (int b = 0; b < program->block_count; b++)
        if (op >= program->blocks[b].ops && op < program->blocks[b].ops + program->blocks[b].op_count) return true;
    return false;
}

/* Copies operations that the partitioner and passes added to the model's, each once. */
static void keep_added(struct base_arena *arena, struct sim_sharded *s)
{
    const struct model_op *last = NULL, *copy = NULL;
    for (int i = 0; i < s->op_count; i++) {
        const struct model_op *op = s->ops[i].op;
        if (!op || is_of_model(s->program, op)) continue;
        if (op != last) copy = copied(arena, op, 1, sizeof *op);
        last = op;
        s->ops[i].op = copy;
    }
}

struct sim_sharded *sim_sharded_keep(struct base_arena *arena, const struct sim_sharded *sharded)
{
    struct sim_sharded *s = copied(arena, sharded, 1, sizeof *sharded);
    s->values = copied(arena, s->values, s->value_count, sizeof *s->values);
    s->shapes = copied(arena, s->shapes, s->shape_count, sizeof *s->shapes);
    s->ops = copied(arena, s->ops, s->op_count, sizeof *s->ops);
    s->kernels = copied(arena, s->kernels, s->kernel_count, sizeof *s->kernels);
    s->reads = copied(arena, s->reads, s->read_count, sizeof *s->reads);
    s->writes = copied(arena, s->writes, s->write_count, sizeof *s->writes);
    s->dots = copied(arena, s->dots, s->dot_count, sizeof *s->dots);
    s->events = copied(arena, s->events, s->event_count, sizeof *s->events);
    s->persistent = copied(arena, s->persistent, s->persistent_count, sizeof *s->persistent);
    s->shape_index = (struct base_index){.count = 0};
    keep_added(arena, s);
    return s;
}
