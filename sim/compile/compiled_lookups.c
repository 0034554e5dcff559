/* One-hot rows that devices gather from each other, where tables are looked up by products. */
#include "sim/compile/compiled_buffers.h"

bool sim_is_gathered_one_hot(const struct sim_assigner *a, const struct sim_value *value)
{
    return a->is_one_hot[value->tensor] && value->definition >= 0 &&
           a->s->ops[value->definition].kind == SIM_COMMUNICATE;
}

/* One-hot rows that all devices ask for: a device's own stand beside all of them, unless they came from others
 * themselves, and are an array that is counted; or, where products are not windowed
 * otherwise, the rows go round, one device's in use while the next one's arrive. */
double sim_gathered_rows_bytes(const struct sim_assigner *a, const struct sim_op *gather, double bytes)
{
    double own_bytes = bytes / (double)topo_axes_product(a->options->mesh, gather->axes);
    if (a->options->window_rows <= 0) return 2 * own_bytes;
    return sim_is_gathered_one_hot(a, &a->s->values[gather->inputs[0]]) ? bytes : bytes + own_bytes;
}

/* Where rows are gathered whole, encoder's and decoder's tables are looked up one right behind the other, at the
 * start: a device's own rows for the second are there while the first one's are gathered. Where a gather is on its way
 * while others compute, the rows of one have a place beside those that the other's product reads, if the device has
 * room for both. */
void sim_move_beside_first(struct sim_assigner *a, int v, int *birth, int *death)
{
    const struct sim_sharded *s = a->s;
    const bool overlaps = a->options->async_gathers && !a->in_haste;
    if (!sim_is_gathered_one_hot(a, &s->values[v])) return;
    const int own = s->ops[s->values[v].definition].inputs[0];
    const struct sim_value *other = NULL;
    for (int i = 0; i < a->gathered_one_hot_count; i++) {
        const struct sim_value *first = &s->values[a->gathered_one_hots[i]];
        if (first->loop != s->values[v].loop || first->definition >= *birth || own == a->gathered_one_hots[i]) continue;
        *birth = overlaps ? first->definition : first->last_use + 1;
        *death = overlaps ? first->last_use : first->last_use + 1;
        other = first;
    }
    if (!other) return;
    const double own_bytes = sim_value_bytes(a, &s->values[own]);
    sim_add_buffer(a, other->definition, other->last_use, own_bytes, own_bytes, MODEL_TEMPORARY);
}
