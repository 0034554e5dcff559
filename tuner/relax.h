/* Private to tuner/: all rule sets of a cell (a mesh shape with a number of microbatches) at once. */
#ifndef TUNER_RELAX_H
#define TUNER_RELAX_H

#include "tuner/bounds.h"
#include "tuner/ilp.h"

enum { TUNER_MOST_COMPONENTS = 4 };

/* What choices cost and weigh: one context is taken, and one option of each component under that context. Seconds and
 * bytes of the whole are sums. A named rule set is a context by itself. */
struct tuner_table {
    int context_count, component_count;
    int option_counts[TUNER_MOST_COMPONENTS];
    double *context_s, *context_bytes; /* INFINITY: closed */
    double *option_s[TUNER_MOST_COMPONENTS],
        *option_bytes[TUNER_MOST_COMPONENTS]; /* [context * option_count + option] */
};

struct tuner_table tuner_table_new(struct base_arena *arena, int context_count, int component_count,
                                   const int *option_counts);
/* The least seconds of a choice that weighs no more than the limit: an integer program. Outcomes as in ilp.h. */
enum tuner_choices_outcome tuner_table_least(struct base_arena *arena, const struct tuner_table *table,
                                             double limit_bytes, double *least_s);
/* A lower bound on every rule set whose classes are sharded by no more than `any`. */
double tuner_relaxed_s(const struct tuner_outline *outline, const unsigned char (*any)[MODEL_MAX_RANK],
                       const struct sim_placement *placement, int64_t batch, int64_t microbatches,
                       struct tuner_charges charges);

#endif
