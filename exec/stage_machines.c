/* One step of a pipeline: passes and messages in timetable order. A message stays at its sender's place until the
 * pass that needs it takes it. */
#include "exec/stage_machines.h"

#include <string.h>

/* ---- ranks of a stage ---- */

static void exchange_inside(void *self, int to, const void *out, size_t out_bytes, int from, void *in, size_t in_bytes)
{
    const struct exec_stages *stages = self;
    const int first = stages->own_stage * stages->device_count;
    stages->transport->exchange(stages->transport->self, first + to, out, out_bytes, first + from, in, in_bytes);
}

static void tell_storing_inside(void *self, enum exec_storing storing)
{
    const struct exec_stages *stages = self;
    exec_tell_storing(stages->transport, storing);
}

static enum base_status find_place(struct exec_stages *stages, struct base_error *error)
{
    const struct exec_transport *t = stages->transport;
    const int devices = stages->device_count, count = devices * stages->program.stages;
    stages->own_stage = -1;
    if (!t) return BASE_OK;
    if (t->rank_count != count)
        return base_fail(error, BASE_INPUT,
                         "topology: has %d devices, but there are %d ranks; use as many ranks as devices", count,
                         t->rank_count);
    stages->own_stage = t->rank / devices;
    stages->inside = (struct exec_transport){.rank = t->rank % devices,
                                             .rank_count = devices,
                                             .self = stages,
                                             .exchange = exchange_inside,
                                             .storing = tell_storing_inside};
    return BASE_OK;
}

struct exec_machine **exec_own_machines(struct base_arena *arena, const struct exec_stages *stages, int *count)
{
    struct exec_machine **own = base_new(arena, struct exec_machine *, exec_stage_chunk_count(stages));
    *count = 0;
    for (int i = 0; i < exec_stage_chunk_count(stages); i++)
        if (exec_is_own_stage_chunk(stages, i)) own[(*count)++] = &stages->machines[i];
    return own;
}

static enum base_status begin_machine(struct base_arena *arena, struct exec_stages *stages, int stage_chunk,
                                      enum exec_clock clock, struct base_error *error)
{
    const struct sim_executable_chunk *of = &stages->program.pieces[stage_chunk];
    struct exec_machine *m = &stages->machines[stage_chunk];
    const int stage = stage_chunk % stages->program.stages;
    *m = (struct exec_machine){.processor_time = clock == EXEC_PROCESSOR_CLOCK,
                               .transport = stages->transport ? &stages->inside : NULL,
                               .stages = stages,
                               .stage_chunk = of,
                               .arenas = stage_chunk == stage ? NULL : stages->machines[stage].arenas};
    return exec_machine_begin(arena, &of->program, &of->plan, m, error);
}

/* What every rank knows of a stage chunk, whoever runs it. */
static void describe_stage_chunk(struct exec_stages *stages, int stage_chunk)
{
    const struct sim_executable_chunk *of = &stages->program.pieces[stage_chunk];
    struct exec_machine *m = &stages->machines[stage_chunk];
    *m = (struct exec_machine){.s = of->program.sharded,
                               .plan = &of->plan,
                               .stages = stages,
                               .stage_chunk = of,
                               .mesh = of->plan.placement->axes,
                               .device_count = stages->device_count};
    memcpy(m->sizes, of->program.sizes, sizeof m->sizes);
}

enum base_status exec_stages_begin(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                   enum exec_clock clock, struct exec_stages *out, struct base_error *error)
{
    struct sim_prediction predicted;
    BASE_TRY(sim_predict(cache, plan, &predicted, NULL, error));
    out->plan = plan;
    out->reported_stage = predicted.pipeline.slowest_stage;
    BASE_TRY(sim_executable_pipeline(cache, arena, plan, &out->program, error));
    out->device_count = topo_axes_product(&plan->placement->axes, topo_axes_all(&plan->placement->axes));
    BASE_TRY(find_place(out, error));
    const int stage_chunks = exec_stage_chunk_count(out), passes = out->program.timetable.first[out->program.stages];
    out->machines = base_new(arena, struct exec_machine, stage_chunks);
    out->start_s = base_new(arena, double, passes);
    out->end_s = base_new(arena, double, passes);
    for (int i = 0; i < stage_chunks; i++) {
        describe_stage_chunk(out, i);
        if (exec_is_own_stage_chunk(out, i)) BASE_TRY(begin_machine(arena, out, i, clock, error));
    }
    BASE_TRY(exec_check_messages(out, error));
    return exec_shared_find(arena, out, error);
}

/* ---- a step ---- */

static void run_pass(struct exec_stages *stages, const struct sim_pass_of *pass, int at)
{
    const int stage_chunk = exec_stage_chunk_of(stages, pass);
    struct exec_machine *m = &stages->machines[stage_chunk];
    const struct sim_pass_bounds *b = &m->stage_chunk->bounds;
    m->index[MODEL_MICROBATCHES] = pass->microbatch;
    m->slot = m->stage_chunk->slots[pass->microbatch];
    stages->running = at;
    stages->start_s[at] = exec_seconds(m) - stages->step_start_s;
    if (pass->backward) exec_run_range(m, b->backward, b->end);
    else exec_run_range(m, b->loop + 1, b->backward);
    stages->end_s[at] = exec_seconds(m) - stages->step_start_s;
    m->index[MODEL_MICROBATCHES] = 0;
    m->slot = 0;
}

enum side { BEHIND_LOOP, BEFORE_LOOP };

/* Runs the operations before or after the loop over microbatches. */
static void run_outside(struct exec_stages *stages, enum side side)
{
    for (int i = 0; i < exec_stage_chunk_count(stages); i++) {
        struct exec_machine *m = &stages->machines[i];
        if (!exec_is_own_stage_chunk(stages, i)) continue;
        if (side == BEFORE_LOOP) exec_run_range(m, 0, m->stage_chunk->bounds.loop);
        else exec_run_range(m, m->stage_chunk->bounds.end + 1, m->s->op_count);
    }
}

void exec_stages_step(struct exec_stages *stages)
{
    const struct sim_timetable *timetable = &stages->program.timetable;
    const struct sim_event_order *order = &stages->program.order;
    int next[SIM_MOST_STAGES];
    memcpy(next, timetable->first, (size_t)timetable->stages * sizeof *next);
    for (int i = 0; i < exec_stage_chunk_count(stages); i++)
        if (exec_is_own_stage_chunk(stages, i)) exec_begin_step(&stages->machines[i]);
    stages->step_start_s = exec_seconds(&stages->machines[stages->own_stage < 0 ? 0 : stages->own_stage]);
    run_outside(stages, BEFORE_LOOP);
    for (int i = 0; i < order->count; i++) {
        const struct sim_pass_of *pass = &order->events[i].pass;
        const int at = order->events[i].is_message ? -1 : next[pass->stage]++;
        if (!exec_is_own_stage_chunk(stages, exec_stage_chunk_of(stages, pass))) continue;
        if (at >= 0) run_pass(stages, pass, at);
        else if (stages->transport) exec_send(stages, pass);
    }
    exec_shared_sum(stages);
    run_outside(stages, BEHIND_LOOP);
}
