/* The step's sequence with asynchronous collectives: their starts and waits between kernels. */
#include "sim/cost/cost.h"

static void put_moment(struct sim_cost_program *out, enum sim_schedule_event_kind kind, int what)
{
    out->schedule_events[out->schedule_event_count++] = (struct sim_schedule_event){kind, what};
}

/* Before an operation, waits for all collectives that it needs, in the order of their starts. */
static void put_waits(const struct sim_sharded *s, const int *sent_as, const int *start_of, int before,
                      struct sim_cost_program *out)
{
    for (int i = 0; i < s->op_count; i++)
        if (sent_as[i] >= 0 && s->ops[i].done == before && start_of[i] >= 0)
            put_moment(out, SIM_EVENT_WAIT, start_of[i]);
}

void sim_list_schedule_events(struct base_arena *scratch, const struct sim_sharded *s, const int *sent_as,
                              const int *kernel_of, struct sim_cost_program *out)
{
    int *start_of = base_new(scratch, int, s->op_count + 1), starts = 0;
    bool asynchronous = false, *waits = base_new(scratch, bool, s->op_count + 1);
    for (int i = 0; i < s->op_count; i++) {
        if (sent_as[i] < 0) continue;
        start_of[i] = s->ops[i].beside ? -1 : starts++;
        waits[s->ops[i].done] = s->ops[i].done;
        asynchronous = asynchronous || s->ops[i].done || s->ops[i].beside;
    }
    if (!asynchronous) return;
    out->schedule_events = base_new(scratch, struct sim_schedule_event, 2 * s->op_count + 1);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (waits[i]) put_waits(s, sent_as, start_of, i, out);
        if (op->kind == SIM_LOOP_BEGIN) put_moment(out, SIM_EVENT_LOOP, op->trips);
        if (op->kind == SIM_LOOP_END) put_moment(out, SIM_EVENT_END, 0);
        if (sent_as[i] >= 0) put_moment(out, op->beside ? SIM_EVENT_SIDE_STREAM : SIM_EVENT_START, sent_as[i]);
        if (sent_as[i] >= 0 && !op->done && !op->beside) put_moment(out, SIM_EVENT_WAIT, start_of[i]);
        if (op->kind == SIM_COMPUTE && op->kernel >= 0 && s->kernels[op->kernel].op == i)
            put_moment(out, SIM_EVENT_WORK, kernel_of[op->kernel]);
    }
}
