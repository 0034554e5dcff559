/* Copies a cost program into as much memory as it needs. */
#include "sim/cost/cost.h"

#include <string.h>

/* Lists were built in scratch, since their lengths were unknown; the copy has exactly their size. */
static void *copied(struct base_arena *arena, const void *list, int count, size_t size_bytes)
{
    void *copy = base_reserve(arena, (size_t)count, size_bytes);
    if (count) memcpy(copy, list, (size_t)count * size_bytes);
    return copy;
}

void sim_cost_program_keep(struct base_arena *arena, struct sim_cost_program *out)
{
    out->shapes = copied(arena, out->shapes, out->shape_count, sizeof *out->shapes);
    out->dots = copied(arena, out->dots, out->dot_count, sizeof *out->dots);
    out->kernels = copied(arena, out->kernels, out->kernel_count, sizeof *out->kernels);
    out->collectives = copied(arena, out->collectives, out->collective_count, sizeof *out->collectives);
    out->repeats = copied(arena, out->repeats, out->repeat_count, sizeof *out->repeats);
    out->products = copied(arena, out->products, out->product_count, sizeof *out->products);
    out->touched = copied(arena, out->touched, out->touched_count, sizeof *out->touched);
    out->kernel_dots = copied(arena, out->kernel_dots, out->kernel_dot_count, sizeof *out->kernel_dots);
    out->steps = copied(arena, out->steps, out->step_count, sizeof *out->steps);
    out->schedule_events = copied(arena, out->schedule_events, out->schedule_event_count, sizeof *out->schedule_events);
    out->needs = copied(arena, out->needs, out->need_count, sizeof *out->needs);
    out->events = copied(arena, out->events, out->event_count, sizeof *out->events);
    out->event_names = copied(arena, out->event_names, out->event_name_count, sizeof *out->event_names);
    out->event_places = copied(arena, out->event_places, out->event_name_count, sizeof *out->event_places);
    out->persistent_shapes =
        copied(arena, out->persistent_shapes, out->persistent_count, sizeof *out->persistent_shapes);
    out->matrices = copied(arena, out->matrices, out->matrix_count, sizeof *out->matrices);
    out->persistent_categories =
        copied(arena, out->persistent_categories, out->persistent_count, sizeof *out->persistent_categories);
    out->saved = copied(arena, out->saved, out->saved_count, sizeof *out->saved);
    out->offloaded_shapes = copied(arena, out->offloaded_shapes, out->offloaded_count, sizeof *out->offloaded_shapes);
    out->offloaded_repeats =
        copied(arena, out->offloaded_repeats, out->offloaded_count, sizeof *out->offloaded_repeats);
}
