/* Checks that hold for every program's cost. The property tests run them over many programs. */
#include "sim/cost/cost.h"

static bool all_below(const int *list, int first, int count, int list_count, int bound)
{
    if (first < 0 || count < 0 || first + count > list_count) return false;
    for (int i = first; i < first + count; i++)
        if (list[i] < 0 || list[i] >= bound) return false;
    return true;
}

/* Loops are closed, and events allocate and free only shapes of the list. */
static bool events_balance(const struct sim_cost_program *list)
{
    int depth = 0;
    for (int i = 0; i < list->event_count && depth >= 0; i++) {
        const struct sim_price_event *event = &list->events[i];
        if (!event->bracket && (event->shape < 0 || event->shape >= list->shape_count)) return false;
        depth += event->bracket;
    }
    return depth == 0;
}

const char *sim_cost_check(const struct sim_cost_program *list)
{
    for (int i = 0; i < list->kernel_count; i++) {
        const struct sim_price_kernel *k = &list->kernels[i];
        if (!all_below(list->touched, k->first_shape, k->shape_count, list->touched_count, list->shape_count) ||
            !all_below(list->kernel_dots, k->first_dot, k->dot_count, list->kernel_dot_count, list->dot_count))
            return "a kernel touches shapes or products that the list lacks";
        if (k->read_count + k->write_count > k->shape_count) return "a kernel reads and writes more than it touches";
    }
    for (int i = 0; i < list->collective_count; i++)
        if (list->collectives[i].shape < 0 || list->collectives[i].shape >= list->shape_count ||
            !list->collectives[i].axes)
            return "a collective moves no shape of the list, or goes over no axis";
    for (int i = 0; i < list->step_count; i++) {
        const struct sim_price_step *step = &list->steps[i];
        if (step->what >= (step->communicates ? list->collective_count : list->kernel_count) ||
            step->repeats >= list->repeat_count)
            return "a step is none of the list's kernels and collectives";
    }
    if (!all_below(list->persistent_shapes, 0, list->persistent_count, list->persistent_count, list->shape_count))
        return "a persistent buffer has no shape";
    return events_balance(list) ? NULL : "buffers are allocated in loops that are not closed";
}
