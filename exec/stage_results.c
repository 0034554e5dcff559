/* Collects the measurements of a pipeline's ranks: one stage is reported, and each pass has its times. */
#include "exec/stage_machines.h"

#include <string.h>

/* A collective's row in a message; its pointers are invalid elsewhere. */
struct travelling_row {
    struct sim_collective_row row;
    int first_op; /* of the program */
};

static int op_called(const struct sim_sharded *s, const char *name)
{
    int at = 0;
    while (at < s->op_count && s->ops[at].op->name != name) at++;
    return at;
}

/* From the rank that has it to rank 0, then to all ranks. */
static void bring(const struct exec_transport *t, int from, void *bytes, int64_t count)
{
    if (from != 0 && t->rank == from) exec_swap(t, 0, bytes, count, 0, NULL, 0);
    if (from != 0 && t->rank == 0) exec_swap(t, from, NULL, 0, from, bytes, count);
    exec_broadcast(t, bytes, count);
}

static void bring_collectives(struct base_arena *arena, const struct exec_transport *t, int from,
                              struct exec_machine *m)
{
    int64_t count = m->collectives.count;
    bring(t, from, &count, sizeof count);
    struct travelling_row *rows = base_new(arena, struct travelling_row, count + 1);
    for (int i = 0; i < count && t->rank == from; i++)
        rows[i] = (struct travelling_row){m->collectives.rows[i], op_called(m->s, m->collectives.rows[i].first_op)};
    for (int i = 0; i < count; i++) bring(t, from, &rows[i], sizeof rows[i]);
    if (t->rank == from) return;
    m->collectives.rows = base_new(arena, struct sim_collective_row, count + 1);
    m->collectives.count = m->collectives.capacity = (int)count;
    for (int i = 0; i < count; i++) {
        m->collectives.rows[i] = rows[i].row;
        m->collectives.rows[i].first_op = m->s->ops[rows[i].first_op].op->name;
        m->collectives.rows[i].ops = NULL;
        m->collectives.rows[i].op_count = m->collectives.rows[i].op_capacity = 0;
    }
}

static void bring_operations(struct base_arena *arena, const struct exec_transport *t, int from, struct exec_machine *m)
{
    const int count = m->s->op_count;
    double *op_s = base_new(arena, double, count + 1);
    int64_t *op_runs = base_new(arena, int64_t, count + 1);
    if (t->rank == from) memcpy(op_s, m->op_s, (size_t)count * sizeof *op_s);
    if (t->rank == from) memcpy(op_runs, m->op_runs, (size_t)count * sizeof *op_runs);
    for (int at = 0; at < count; at += EXEC_MOST_NUMBERS) {
        const int n = count - at < EXEC_MOST_NUMBERS ? count - at : EXEC_MOST_NUMBERS;
        bring(t, from, op_s + at, n * (int64_t)sizeof *op_s);
        bring(t, from, op_runs + at, n * (int64_t)sizeof *op_runs);
    }
    m->op_s = op_s, m->op_runs = op_runs;
}

struct exec_machine **exec_reported_machines(struct base_arena *arena, struct exec_stages *stages, int *count)
{
    struct exec_machine **machines = base_new(arena, struct exec_machine *, stages->program.chunks);
    const int stage = stages->reported_stage;
    *count = stages->program.chunks;
    for (int c = 0; c < *count; c++) {
        machines[c] = &stages->machines[c * stages->program.stages + stage];
        if (!stages->transport) continue;
        bring_operations(arena, stages->transport, stage * stages->device_count, machines[c]);
        bring_collectives(arena, stages->transport, stage * stages->device_count, machines[c]);
    }
    return machines;
}

static void agree_on_passes(const struct exec_stages *stages, double *at_s, int count)
{
    const struct exec_transport *t = stages->transport;
    for (int i = 0; i < count && t; i += EXEC_MOST_NUMBERS) {
        const int n = count - i < EXEC_MOST_NUMBERS ? count - i : EXEC_MOST_NUMBERS;
        exec_sum_numbers(t, at_s + i, n);
        for (int k = i; k < i + n; k++) at_s[k] /= stages->device_count;
    }
}

void exec_list_passes(struct base_arena *arena, struct exec_stages *stages, struct sim_passes *out)
{
    int64_t *bytes = base_new(arena, int64_t, stages->program.stages);
    const struct sim_timetable *timetable = &stages->program.timetable;
    const int count = timetable->first[timetable->stages];
    agree_on_passes(stages, stages->start_s, count);
    agree_on_passes(stages, stages->end_s, count);
    for (int i = 0; i < stages->program.stages; i++) bytes[i] = stages->program.of_stage[i].arena_bytes;
    *out = (struct sim_passes){timetable->passes, stages->start_s, stages->end_s, count, bytes, stages->program.stages};
}

const struct sim_executable_stage *exec_worst_stage(const struct exec_stages *stages)
{
    const struct sim_executable_stage *worst = stages->program.of_stage;
    for (int i = 1; i < stages->program.stages && !stages->plan->first_stage_memory; i++)
        if (stages->program.of_stage[i].arena_bytes > worst->arena_bytes) worst = &stages->program.of_stage[i];
    return worst;
}
