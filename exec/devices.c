/* The devices of this process: their arenas, initial values, and a step's batch. */
#include "exec/kernels.h"

#include <string.h>

enum { ALIGNMENT = 64 };

static char *aligned(char *at)
{
    return at + (ALIGNMENT - (uintptr_t)at % ALIGNMENT) % ALIGNMENT;
}

/* Zeroed, in large pages. With pages of 4 KiB, each row of a product's operand would be on its own page, too many
 * for a TLB. */
static char *make_arena(struct base_arena *arena, size_t bytes)
{
    char *at = aligned(base_reserve(arena, bytes + ALIGNMENT, 1));
    base_prefer_large_pages(at, bytes);
    return memset(at, 0, bytes);
}

static enum base_status check_size(const struct exec_machine *m, const struct sim_plan *plan, struct base_error *error)
{
    int64_t bytes = m->map.arena_bytes,
            capacity_bytes = (int64_t)plan->placement->profile.constants[SIM_CAPACITY_BYTES];
    if (m->device_count > EXEC_MOST_DEVICES)
        return base_fail(error, BASE_INPUT, "topology: %d devices in one process are too many; at most %d run",
                         m->device_count, EXEC_MOST_DEVICES);
    if (bytes <= capacity_bytes) return BASE_OK;
    return base_fail(error, BASE_NO_FIT,
                     "the plan does not fit: needs %s on each device; %s available; `meshwright predict` lists changes "
                     "that make it fit",
                     base_bytes(bytes), base_bytes(capacity_bytes));
}

enum base_status exec_machine_begin(struct base_arena *arena, const struct sim_executable *program,
                                    const struct sim_plan *plan, struct exec_machine *out, struct base_error *error)
{
    struct exec_machine *m = out;
    *m = (struct exec_machine){.s = program->sharded,
                               .plan = plan,
                               .map = program->map,
                               .processor_time = out->processor_time,
                               .transport = out->transport,
                               .stages = out->stages,
                               .stage_chunk = out->stage_chunk,
                               .arenas = out->arenas,
                               .error = error};
    memcpy(m->sizes, program->sizes, sizeof m->sizes);
    m->mesh = plan->placement->axes;
    m->device_count = topo_axes_product(&m->mesh, topo_axes_all(&m->mesh));
    m->first_device = m->transport ? m->transport->rank : 0;
    m->end_device = m->transport ? m->transport->rank + 1 : m->device_count;
    if (m->transport && m->transport->rank_count != m->device_count)
        return base_fail(error, BASE_INPUT,
                         "topology: has %d devices, but there are %d ranks; use as many ranks as devices",
                         m->device_count, m->transport->rank_count);
    BASE_TRY(check_size(m, plan, error));
    BASE_TRY(exec_check_program(m));
    m->op_s = base_new(arena, double, m->s->op_count + 1);
    m->op_runs = base_new(arena, int64_t, m->s->op_count + 1);
    m->arena = arena;
    const bool shares = m->arenas != NULL;
    if (!shares) m->arenas = base_new(arena, char *, m->device_count);
    for (int d = m->first_device; d < m->end_device && !shares; d++)
        m->arenas[d] = make_arena(arena, (size_t)m->map.arena_bytes);
    for (int i = 0; i < 2 && m->transport; i++)
        m->buffers[i] = aligned(base_alloc(arena, EXEC_SEGMENT_BYTES + ALIGNMENT, 1));
    return BASE_OK;
}

static const char *feature_tensor(int feature, char buffer[80])
{
    snprintf(buffer, 80, "batch/%s", exec_feature_names[feature]);
    return buffer;
}

/* The feature that a value holds before the step; EXEC_FEATURE_COUNT: none. */
static int feature_of(const struct exec_machine *m, int v)
{
    char name[80];
    const struct sim_value *value = &m->s->values[v];
    const struct model_tensor *tensor = &m->s->program->tensors[value->tensor];
    int feature = 0;
    if (tensor->category != MODEL_INPUT || value->definition >= 0 || !value->persistent) return EXEC_FEATURE_COUNT;
    while (feature < EXEC_FEATURE_COUNT && strcmp(feature_tensor(feature, name), tensor->name) != 0) feature++;
    return feature;
}

void exec_fed_rows(const struct exec_machine *m, int64_t *first, int64_t *end)
{
    for (int v = 0; v < m->s->value_count; v++)
        for (int device = m->first_device; device < m->end_device && feature_of(m, v) < EXEC_FEATURE_COUNT; device++) {
            struct exec_range rows = exec_range_of(m, device, m->plan->batch_size, m->s->values[v].spec[0]);
            if (rows.valid && rows.start < *first) *first = rows.start;
            if (rows.start + rows.valid > *end) *end = rows.start + rows.valid;
        }
}

/* One sequence's tokens in the devices' order. */
static void feed_row(const struct exec_machine *m, const int32_t *tokens, int64_t length,
                     const struct exec_range *columns, int32_t *to)
{
    const int pieces = m->s->program->sequence_pieces;
    for (int64_t i = 0; i < columns->valid; i++)
        to[i] = tokens[model_sequence_position(pieces, length, columns->start + i)];
}

void exec_feed(struct exec_machine *m, const struct exec_batch *batch)
{
    for (int v = 0; v < m->s->value_count; v++) {
        const struct sim_value *value = &m->s->values[v];
        int feature = feature_of(m, v);
        if (feature == EXEC_FEATURE_COUNT) continue;
        const struct model_tensor *tensor = &m->s->program->tensors[value->tensor];
        int64_t length = m->sizes[tensor->dims[1]];
        for (int device = m->first_device; device < m->end_device; device++) {
            struct exec_range rows = exec_range_of(m, device, m->sizes[tensor->dims[0]], value->spec[0]),
                              columns = exec_range_of(m, device, length, value->spec[1]);
            int32_t *to = (int32_t *)(void *)exec_address(m, v, device);
            for (int64_t r = 0; r < rows.valid; r++)
                feed_row(m, batch->tokens[feature] + (rows.start + r) * length, length, &columns,
                         to + r * columns.extent);
        }
    }
}
