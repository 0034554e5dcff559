/* A step as spans on a clock, for programs without asynchronous collectives: in program order, with memory over time
 * (see exposure.c for the other clock). */
#include "sim/cost/cost.h"

static int put(struct sim_schedule_event *out, int count, enum sim_schedule_event_kind kind, int what)
{
    out[count] = (struct sim_schedule_event){kind, what};
    return count + 1;
}

/* Loops are brackets among the memory events, each with the index of the next step. */
int sim_synchronous_moments(const struct sim_cost_context *p, struct sim_schedule_event *out)
{
    const struct sim_cost_program *list = p->list;
    int count = 0, starts = 0;
    for (int step = 0, event = 0; step <= list->step_count; step++) {
        for (; event < list->event_count; event++) {
            const struct sim_price_event *bracket = &list->events[event];
            if (!bracket->bracket) continue;
            if (bracket->step > step && step < list->step_count) break;
            count = put(out, count, bracket->bracket > 0 ? SIM_EVENT_LOOP : SIM_EVENT_END, bracket->trips);
        }
        if (step == list->step_count) break;
        const int what = list->steps[step].what;
        if (!list->steps[step].communicates) {
            count = put(out, count, SIM_EVENT_WORK, what);
            continue;
        }
        count = put(out, count, SIM_EVENT_START, what);
        count = put(out, count, SIM_EVENT_WAIT, starts++);
    }
    return count;
}

void sim_curve_by_spans(struct sim_memory_curve *curve, const struct sim_spans *spans)
{
    const struct sim_span *before = NULL, *behind = spans->spans, *end = spans->spans + spans->count;
    for (int i = 0; i < curve->count; i++) {
        const double at_s = curve->points[i].at_s;
        for (; behind < end && (behind->kind == SIM_SPAN_COLLECTIVE || behind->serial_s <= at_s); behind++)
            if (behind->kind != SIM_SPAN_COLLECTIVE) before = behind;
        const double from_s = before ? before->serial_s : 0, from_now_s = before ? before->start_s : 0,
                     to_now_s = behind < end ? behind->start_s : spans->end_s,
                     to_s = behind < end ? behind->serial_s : at_s;
        curve->points[i].at_s =
            to_s > from_s ? from_now_s + (to_now_s - from_now_s) * (at_s - from_s) / (to_s - from_s) : from_now_s;
    }
}
