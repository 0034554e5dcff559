/* Private to tuner/: bounds for all rule sets of a cell (a mesh shape with a number of microbatches) at once. */
#ifndef TUNER_RELAX_H
#define TUNER_RELAX_H

#include "tuner/bounds.h"

enum { TUNER_MOST_COMPONENTS = 4 };

/* Costs and weights of choices: one context, and one option of each component under it. Total seconds and bytes are
 * sums. A named rule set is a context of its own. */
struct tuner_table {
    int context_count, component_count;
    int option_counts[TUNER_MOST_COMPONENTS];
    double *context_s, *context_bytes; /* INFINITY: excluded */
    double *option_s[TUNER_MOST_COMPONENTS],
        *option_bytes[TUNER_MOST_COMPONENTS]; /* [context * option_count + option] */
};

struct tuner_table tuner_table_new(struct base_arena *arena, int context_count, int component_count,
                                   const int *option_counts);
/* A lower bound on every rule set that shards its classes by at most `any`. */
double tuner_relaxed_s(const struct tuner_relaxed_program *relaxed, const unsigned char (*any)[MODEL_MAX_RANK],
                       const struct sim_placement *placement, int64_t batch, int64_t microbatches,
                       struct tuner_charges charges);

#endif
