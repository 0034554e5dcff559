/* One step of a pipeline: passes and messages in the order of its timetable. A message waits where its sender made it
 * until the pass that needs it takes it. */
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

/* ---- beginning ---- */

int exec_piece_count(const struct exec_stages *stages)
{
    return stages->program.stages * stages->program.chunks;
}

bool exec_is_own_piece(const struct exec_stages *stages, int piece)
{
    return stages->own_stage < 0 || piece % stages->program.stages == stages->own_stage;
}

struct exec_machine **exec_own_machines(struct base_arena *arena, const struct exec_stages *stages, int *count)
{
    struct exec_machine **own = base_new(arena, struct exec_machine *, exec_piece_count(stages));
    *count = 0;
    for (int i = 0; i < exec_piece_count(stages); i++)
        if (exec_is_own_piece(stages, i)) own[(*count)++] = &stages->machines[i];
    return own;
}

static enum base_status begin_machine(struct base_arena *arena, struct exec_stages *stages, int piece,
                                      enum exec_clock clock, struct base_error *error)
{
    const struct sim_executable_piece *of = &stages->program.pieces[piece];
    struct exec_machine *m = &stages->machines[piece];
    const int stage = piece % stages->program.stages;
    *m = (struct exec_machine){.processor_time = clock == EXEC_PROCESSOR_CLOCK,
                               .transport = stages->transport ? &stages->inside : NULL,
                               .stages = stages,
                               .piece = of,
                               .arenas = piece == stage ? NULL : stages->machines[stage].arenas};
    return exec_machine_begin(arena, &of->program, &of->plan, m, error);
}

/* ---- messages ---- */

static int piece_of(const struct exec_stages *stages, const struct sim_pass_of *pass)
{
    return pass->chunk * stages->program.stages + pass->stage;
}

enum pass { FORWARD, BACKWARD };

/* The operation that sends (or receives) the n-th message of a pass; -1: there are no more. */
static int message_at(const struct exec_machine *m, enum pass pass, enum model_function function, int n)
{
    const struct sim_pass_bounds *b = &m->stages->program.pieces[m - m->stages->machines].bounds;
    for (int i = pass == BACKWARD ? b->backward : b->loop; i < (pass == BACKWARD ? b->end : b->backward); i++)
        if (m->s->ops[i].kind == SIM_COMPUTE && m->s->ops[i].op->function == function && n-- == 0) return i;
    return -1;
}

static int64_t message_bytes(const struct exec_machine *m, int value)
{
    const struct sim_value *v = &m->s->values[value];
    const struct model_tensor *tensor = &m->s->program->tensors[v->tensor];
    int64_t bytes = model_dtype_bytes(v->dtype);
    for (int d = 0; d < tensor->rank; d++)
        bytes *= exec_range_of(m, m->first_device, m->sizes[tensor->dims[d]], v->spec[d]).extent;
    return bytes;
}

/* One way alone, in pieces that any transport takes. */
static void pass_on(const struct exec_stages *stages, int peer_stage, char *out, char *in, int64_t bytes)
{
    const int peer = peer_stage * stages->device_count + stages->inside.rank;
    for (int64_t at = 0; at < bytes; at += EXEC_SEGMENT_BYTES) {
        const int64_t n = bytes - at < EXEC_SEGMENT_BYTES ? bytes - at : EXEC_SEGMENT_BYTES;
        exec_swap(stages->transport, peer, out ? out + at : NULL, out ? n : 0, peer, in ? in + at : NULL, in ? n : 0);
    }
}

static void send(struct exec_stages *stages, const struct sim_pass_of *pass)
{
    const int piece = piece_of(stages, pass), to = pass->backward ? piece - 1 : piece + 1;
    struct exec_machine *m = &stages->machines[piece];
    const double start_s = exec_seconds(m);
    for (int n = 0, at; (at = message_at(m, pass->backward ? BACKWARD : FORWARD, MODEL_SEND, n)) >= 0; n++) {
        const int value = m->s->ops[at].outputs[0];
        pass_on(stages, to % stages->program.stages, exec_address(m, value, m->first_device), NULL,
                message_bytes(m, value));
    }
    m->communication_s += exec_seconds(m) - start_s;
    m->exposed_s += exec_seconds(m) - start_s;
}

/* Which message of its pass it is. */
static int number_of(const struct exec_machine *m, const struct sim_op *op, enum pass pass)
{
    int n = 0;
    while (message_at(m, pass, MODEL_RECEIVE, n) != op - m->s->ops) n++;
    return n;
}

void exec_receive(struct exec_machine *m, const struct sim_op *op)
{
    struct exec_stages *stages = m->stages;
    const bool backward = op->op->phase == MODEL_BACKWARD;
    const int piece = (int)(m - stages->machines), from = backward ? piece + 1 : piece - 1, value = op->outputs[0];
    const int64_t bytes = message_bytes(m, value);
    const double start_s = exec_seconds(m);
    if (stages->transport) {
        pass_on(stages, from % stages->program.stages, NULL, exec_address(m, value, m->first_device), bytes);
    } else {
        const struct exec_machine *sender = &stages->machines[from];
        const int sent = sender->s
                             ->ops[message_at(sender, backward ? BACKWARD : FORWARD, MODEL_SEND,
                                              number_of(m, op, backward ? BACKWARD : FORWARD))]
                             .outputs[0];
        for (int d = 0; d < m->device_count; d++)
            memcpy(exec_address(m, value, d), exec_address(sender, sent, d), (size_t)bytes);
    }
    stages->start_s[stages->running] = exec_seconds(m) - stages->step_start_s; /* it has waited for that until now */
    m->communication_s += exec_seconds(m) - start_s;
    m->exposed_s += exec_seconds(m) - start_s;
    m->op_s[op - m->s->ops] += exec_seconds(m) - start_s;
    m->op_runs[op - m->s->ops]++;
}

/* What one piece sends is what the other receives. */
static bool fits(const struct exec_stages *stages, int from, int to, enum pass pass)
{
    const struct exec_machine *sender = &stages->machines[from], *receiver = &stages->machines[to];
    for (int n = 0;; n++) {
        const int out = message_at(sender, pass, MODEL_SEND, n), in = message_at(receiver, pass, MODEL_RECEIVE, n);
        if (out < 0 || in < 0) return out == in;
        const struct sim_value *sent = &sender->s->values[sender->s->ops[out].outputs[0]],
                               *received = &receiver->s->values[receiver->s->ops[in].outputs[0]];
        const struct model_tensor *a = &sender->s->program->tensors[sent->tensor],
                                  *b = &receiver->s->program->tensors[received->tensor];
        if (sent->dtype != received->dtype || memcmp(sent->spec, received->spec, sizeof sent->spec) != 0 ||
            sent->partial || strcmp(a->labels, b->labels) != 0)
            return false;
    }
}

static enum base_status check_messages(const struct exec_stages *stages, struct base_error *error)
{
    for (int i = 0; i + 1 < exec_piece_count(stages); i++)
        if (!fits(stages, i, i + 1, FORWARD) || !fits(stages, i + 1, i, BACKWARD))
            return base_fail(error, BASE_INPUT,
                             "pipeline_stages: what stage %d sends is not what stage %d receives; use other stages",
                             i % stages->program.stages, (i + 1) % stages->program.stages);
    return BASE_OK;
}

/* What every rank knows of a piece, whoever runs it. */
static void describe_piece(struct exec_stages *stages, int piece)
{
    const struct sim_executable_piece *of = &stages->program.pieces[piece];
    struct exec_machine *m = &stages->machines[piece];
    *m = (struct exec_machine){.s = of->program.sharded,
                               .plan = &of->plan,
                               .stages = stages,
                               .piece = of,
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
    const int pieces = exec_piece_count(out), passes = out->program.timetable.first[out->program.stages];
    out->machines = base_new(arena, struct exec_machine, pieces);
    out->start_s = base_new(arena, double, passes);
    out->end_s = base_new(arena, double, passes);
    for (int i = 0; i < pieces; i++) {
        describe_piece(out, i);
        if (exec_is_own_piece(out, i)) BASE_TRY(begin_machine(arena, out, i, clock, error));
    }
    BASE_TRY(check_messages(out, error));
    return exec_shared_find(arena, out, error);
}

/* ---- a step ---- */

static void run_pass(struct exec_stages *stages, const struct sim_pass_of *pass, int at)
{
    const int piece = piece_of(stages, pass);
    struct exec_machine *m = &stages->machines[piece];
    const struct sim_pass_bounds *b = &m->piece->bounds;
    m->index[MODEL_MICROBATCHES] = pass->microbatch;
    m->slot = m->piece->slots[pass->microbatch];
    stages->running = at;
    stages->start_s[at] = exec_seconds(m) - stages->step_start_s;
    if (pass->backward) exec_run_range(m, b->backward, b->end);
    else exec_run_range(m, b->loop + 1, b->backward);
    stages->end_s[at] = exec_seconds(m) - stages->step_start_s;
    m->index[MODEL_MICROBATCHES] = 0;
    m->slot = 0;
}

enum side { BEHIND_LOOP, BEFORE_LOOP };

/* What stands before the loop over microbatches, or behind it. */
static void run_outside(struct exec_stages *stages, enum side side)
{
    for (int i = 0; i < exec_piece_count(stages); i++) {
        struct exec_machine *m = &stages->machines[i];
        if (!exec_is_own_piece(stages, i)) continue;
        if (side == BEFORE_LOOP) exec_run_range(m, 0, m->piece->bounds.loop);
        else exec_run_range(m, m->piece->bounds.end + 1, m->s->op_count);
    }
}

void exec_stages_step(struct exec_stages *stages)
{
    const struct sim_timetable *timetable = &stages->program.timetable;
    const struct sim_event_order *order = &stages->program.order;
    int next[SIM_MOST_STAGES];
    memcpy(next, timetable->first, (size_t)timetable->stages * sizeof *next);
    for (int i = 0; i < exec_piece_count(stages); i++)
        if (exec_is_own_piece(stages, i)) exec_begin_step(&stages->machines[i]);
    stages->step_start_s = exec_seconds(&stages->machines[stages->own_stage < 0 ? 0 : stages->own_stage]);
    run_outside(stages, BEFORE_LOOP);
    for (int i = 0; i < order->count; i++) {
        const struct sim_pass_of *pass = &order->events[i].pass;
        const int at = order->events[i].is_message ? -1 : next[pass->stage]++;
        if (!exec_is_own_piece(stages, piece_of(stages, pass))) continue;
        if (at >= 0) run_pass(stages, pass, at);
        else if (stages->transport) send(stages, pass);
    }
    exec_shared_sum(stages);
    run_outside(stages, BEHIND_LOOP);
}
