/* Private to tuner/: unnamed rule sets. Each logical axis takes a mesh axis or none, in one of several priority
 * orders; the resolver turns them into shardings. */
#ifndef TUNER_RULE_SPACE_H
#define TUNER_RULE_SPACE_H

#include "tuner/bounds.h"

enum { TUNER_MOST_DIGITS = 12, TUNER_MOST_COMPONENTS = 4 };

/* A rule set is a mixed-radix number: one digit per axis for its mesh axis, and one for whether embed comes before
 * it. */
struct tuner_digit {
    const char *axis;
    bool order;
    int radix;
};
struct tuner_rule_space {
    struct tuner_digit digits[TUNER_MOST_DIGITS];
    int digit_count;
    int64_t count;
};

/* The axes that occur in the classes of a relaxed program. */
struct tuner_rule_space tuner_rule_space_of(const struct tuner_relaxed_program *relaxed);
/* The rules as a JSON list for T5X. */
const char *tuner_rule_text(struct base_arena *arena, const struct tuner_rule_space *space,
                            const int digits[TUNER_MOST_DIGITS]);

/* The shardings that each rule set gives to the classes of a relaxed program. */
struct tuner_coding;
enum base_status tuner_code_rules(struct base_arena *arena, const struct tuner_rule_space *space,
                                  const struct tuner_relaxed_program *relaxed, const struct sim_plan *plan,
                                  const struct tuner_coding **out, struct base_error *error);

/* Costs and weights of choices: one context, and one option of each component under it. Total seconds and bytes are
 * sums. */
struct tuner_table {
    int context_count, component_count;
    int option_counts[TUNER_MOST_COMPONENTS];
    double *context_s, *context_bytes; /* INFINITY: excluded */
    double *option_s[TUNER_MOST_COMPONENTS],
        *option_bytes[TUNER_MOST_COMPONENTS]; /* [context * option_count + option] */
};

/* The rule sets of one cell (a mesh shape with a number of microbatches). Rule sets that shard all tensors alike count
 * as one. */
struct tuner_rule_cell {
    struct tuner_table table;
    int64_t rule_set_count; /* accepted by JAX */
    const struct tuner_coding *coding;
    int *equals[TUNER_MOST_COMPONENTS]; /* by context and option: number of equal options; 0: it belongs to another one
                                         */
};
/* Number of rule sets that JAX accepts on a mesh of that shape. */
int64_t tuner_count_rule_sets(const struct tuner_coding *coding, const struct topo_axes *mesh, int64_t batch);
/* A lower bound on every rule set. */
double tuner_rule_space_s(const struct tuner_coding *coding, const struct sim_placement *placement, int64_t batch,
                          int64_t microbatches, bool links);
/* Contexts without a rule set below limit_s are excluded. */
struct tuner_rule_cell *tuner_rule_cell_price(struct base_arena *arena, const struct tuner_coding *coding,
                                              const struct sim_placement *placement, int64_t batch,
                                              int64_t microbatches, bool links, double limit_s);
/* The specs that rules give directly to classes, over the mesh axes `live`. Rule sets with equal specs have the same
 * program and prediction. */
struct tuner_rules_given {
    unsigned char spec[TUNER_MOST_CLASSES][MODEL_MAX_RANK];
};
void tuner_rules_given(const struct tuner_coding *coding, unsigned live, const int *digits,
                       struct tuner_rules_given *out);
/* Calls visit for each choice below limit_s and within limit_bytes, with the number of rule sets that it represents. */
typedef void tuner_visit_rules(void *where, const int digits[TUNER_MOST_DIGITS], double s, double bytes,
                               int64_t equals);
void tuner_rule_cell_visit(const struct tuner_rule_cell *cell, double limit_s, double limit_bytes,
                           tuner_visit_rules *visit, void *where);

#endif
