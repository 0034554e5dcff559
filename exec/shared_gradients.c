/* Gradients of parameters that several stage chunks of a pipeline share: summed on the first chunk, in order, and
 * sent back, so that all chunks make the same update. */
#include "exec/row.h"
#include "exec/stage_machines.h"

#include <string.h>

enum { PIECE = 1024 };

/* The chunk's gradient accumulator of that name; -1: none. */
static int accumulator_of(const struct sim_sharded *s, const char *name)
{
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->function != MODEL_ACCUMULATE) continue;
        const struct model_tensor *tensor = &s->program->tensors[s->values[op->outputs[0]].tensor];
        if (tensor->layers == MODEL_ONE && !strcmp(tensor->name, name)) return op->outputs[0];
    }
    return -1;
}

static bool is_known(const struct exec_stages *stages, const char *name)
{
    for (int i = 0; i < stages->shared_count; i++)
        if (!strcmp(stages->shared[i].name, name)) return true;
    return false;
}

static bool alike(const struct sim_value *a, const struct sim_value *b)
{
    return a->partial == b->partial && a->dtype == b->dtype && !memcmp(a->spec, b->spec, sizeof a->spec);
}

static enum base_status add_shared(struct exec_stages *stages, const char *name, struct base_error *error)
{
    struct exec_shared *shared = &stages->shared[stages->shared_count];
    *shared = (struct exec_shared){.name = name};
    for (int i = 0; i < exec_stage_chunk_count(stages); i++) {
        const struct sim_sharded *s = stages->machines[i].s;
        const int value = accumulator_of(s, name);
        if (value < 0) continue;
        const struct sim_value *first =
            shared->stage_chunk_count ? &stages->machines[shared->stage_chunks[0]].s->values[shared->values[0]] : NULL;
        if (first && !alike(first, &s->values[value]))
            return base_fail(error, BASE_INPUT,
                             "%s: stages shard shared parameters in different ways; use other logical_axis_rules",
                             name);
        shared->stage_chunks[shared->stage_chunk_count] = i;
        shared->values[shared->stage_chunk_count++] = value;
    }
    stages->shared_count += shared->stage_chunk_count > 1;
    return BASE_OK;
}

/* "…/kernel/accumulated gradient" belongs to "…/kernel". */
static void count_elsewhere(struct base_arena *arena, struct exec_stages *stages, const struct exec_shared *shared,
                            int at)
{
    struct exec_machine *m = &stages->machines[shared->stage_chunks[at]];
    const size_t length = strlen(shared->name) - strlen(strrchr(shared->name, '/'));
    if (!m->counted_elsewhere) m->counted_elsewhere = base_new(arena, bool, m->s->program->tensor_count);
    for (int t = 0; t < m->s->program->tensor_count; t++) {
        const struct model_tensor *tensor = &m->s->program->tensors[t];
        if (tensor->category == MODEL_PARAMETER && strlen(tensor->name) == length &&
            !strncmp(tensor->name, shared->name, length))
            m->counted_elsewhere[t] = true;
    }
}

enum base_status exec_shared_find(struct base_arena *arena, struct exec_stages *stages, struct base_error *error)
{
    enum { MOST_SHARED = 16 };
    stages->shared = base_new(arena, struct exec_shared, MOST_SHARED + 1);
    stages->buffer = base_alloc(arena, EXEC_SEGMENT_BYTES, 1);
    for (int i = 0; i < exec_stage_chunk_count(stages); i++) {
        const struct model_program *program = stages->machines[i].s->program;
        for (int t = 0; t < program->tensor_count; t++) {
            const struct model_tensor *tensor = &program->tensors[t];
            if (tensor->category != MODEL_GRADIENT || tensor->layers != MODEL_ONE || is_known(stages, tensor->name) ||
                accumulator_of(stages->machines[i].s, tensor->name) < 0)
                continue;
            if (stages->shared_count == MOST_SHARED)
                return base_fail(error, BASE_INTERNAL, "stages share more than %d parameters", MOST_SHARED);
            BASE_TRY(add_shared(stages, tensor->name, error));
        }
    }
    for (int i = 0; i < stages->shared_count; i++)
        for (int k = 1; k < stages->shared[i].stage_chunk_count; k++)
            count_elsewhere(arena, stages, &stages->shared[i], k);
    return BASE_OK;
}

/* ---- summing ---- */

static void add(enum model_dtype dtype, char *sum, const char *part, int64_t n)
{
    const int64_t bytes = model_dtype_bytes(dtype);
    float wide[PIECE], other[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = n - at < PIECE ? n - at : PIECE;
        exec_load(dtype, sum + at * bytes, 1, wide, count);
        exec_load(dtype, part + at * bytes, 1, other, count);
        for (int64_t i = 0; i < count; i++) wide[i] += other[i];
        exec_store(dtype, wide, sum + at * bytes, 1, count);
    }
}

enum direction { TO_HOME, BACK };

/* Moves data between the k-th sharing chunk and the first: its part goes there, or the sum comes back. */
static void move(struct exec_stages *stages, const struct exec_shared *shared, int k, enum direction direction)
{
    const int home = shared->stage_chunks[0], away = shared->stage_chunks[k],
              home_stage = home % stages->program.stages, away_stage = away % stages->program.stages;
    const bool at_home = exec_is_own_stage_chunk(stages, home), is_away = exec_is_own_stage_chunk(stages, away);
    if (!at_home && !is_away) return;
    struct exec_machine *m = &stages->machines[at_home ? home : away];
    const enum model_dtype dtype = m->s->values[shared->values[at_home ? 0 : k]].dtype;
    const int64_t count = exec_part_elements(m, shared->values[at_home ? 0 : k], m->first_device, EXEC_WITH_PADDING),
                  bytes = model_dtype_bytes(dtype);
    for (int device = m->first_device; device < m->end_device; device++) {
        char *first = at_home ? exec_address(&stages->machines[home], shared->values[0], device) : NULL,
             *other = is_away ? exec_address(&stages->machines[away], shared->values[k], device) : NULL;
        const int peer = (at_home ? away_stage : home_stage) * stages->device_count + device;
        for (int64_t at = 0; at < count; at += EXEC_SEGMENT_BYTES / bytes) {
            const int64_t n = count - at < EXEC_SEGMENT_BYTES / bytes ? count - at : EXEC_SEGMENT_BYTES / bytes;
            char *here = (at_home ? first : other) + at * bytes;
            if (at_home && is_away && direction == BACK) memcpy(other + at * bytes, here, (size_t)(n * bytes));
            else if (at_home && is_away) add(dtype, here, other + at * bytes, n);
            else if (at_home == (direction == BACK)) exec_swap(stages->transport, peer, here, n * bytes, peer, NULL, 0);
            else exec_swap(stages->transport, peer, NULL, 0, peer, at_home ? stages->buffer : here, n * bytes);
            if (at_home && !is_away && direction == TO_HOME) add(dtype, here, stages->buffer, n);
        }
    }
}

void exec_shared_sum(struct exec_stages *stages)
{
    for (int i = 0; i < stages->shared_count; i++) {
        const struct exec_shared *shared = &stages->shared[i];
        for (int k = 1; k < shared->stage_chunk_count; k++) move(stages, shared, k, TO_HOME);
        for (int k = 1; k < shared->stage_chunk_count; k++) move(stages, shared, k, BACK);
    }
}
