/* Bounds for all rule sets of a cell. A choice of rules has a price and a weight, both sums over parts. */
#include "tuner/relax.h"

struct tuner_table tuner_table_new(struct base_arena *arena, int context_count, int component_count,
                                   const int *option_counts)
{
    struct tuner_table table = {.context_count = context_count, .component_count = component_count};
    table.context_s = base_new(arena, double, context_count);
    table.context_bytes = base_new(arena, double, context_count);
    for (int c = 0; c < component_count; c++) {
        table.option_counts[c] = option_counts[c];
        table.option_s[c] = base_new(arena, double, (int64_t)context_count *option_counts[c]);
        table.option_bytes[c] = base_new(arena, double, (int64_t)context_count *option_counts[c]);
    }
    return table;
}

double tuner_relaxed_s(const struct tuner_relaxed_program *relaxed, const unsigned char (*any)[MODEL_MAX_RANK],
                       const struct sim_placement *placement, int64_t batch, int64_t microbatches,
                       struct tuner_charges charges)
{
    struct tuner_work w;
    double s = 0;
    tuner_work_begin(&w, relaxed, any, placement, batch, microbatches, charges);
    w.exact = 0;
    for (int k = 0; k < relaxed->kernel_count; k++) s += tuner_work_kernel_s(&w, k);
    return s;
}
