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

struct coded_class {
    unsigned scope; /* bits of the digits that affect it */
    int count;      /* product of their radices */
    unsigned char (*spec)[MODEL_MAX_RANK];
    int64_t divides[MODEL_MAX_RANK]; /* number that the shards of each dimension must divide, as JAX requires; 0: no
                                        condition */
};

struct component {
    unsigned scope;
    int option_count;
};

/* The shardings that each rule set gives to the classes of a relaxed program. */
struct tuner_coding {
    const struct tuner_rule_space *space;
    const struct tuner_relaxed_program *o;
    struct coded_class classes[TUNER_MOST_CLASSES];
    unsigned char any[TUNER_MOST_CLASSES][MODEL_MAX_RANK];
    unsigned context_scope, *kernel_scopes;
    struct component components[TUNER_MOST_COMPONENTS];
    int component_count, context_count;
    int *alike[TUNER_MOST_COMPONENTS]; /* by context and option: the first option with equal specs */
};

enum base_status tuner_code_rules(struct base_arena *arena, const struct tuner_rule_space *space,
                                  const struct tuner_relaxed_program *relaxed, const struct sim_plan *plan,
                                  const struct tuner_coding **out, struct base_error *error);

/* The rule sets of one cell (a mesh shape with a number of microbatches). Rule sets that shard all tensors alike count
 * as one. */
struct tuner_rule_cell {
    const struct tuner_coding *coding;
    /* Of one context, and of one option of each component under it [context * option_count + option]: total seconds and
     * bytes are sums. INFINITY: excluded. */
    double *context_s, *context_bytes, *option_s[TUNER_MOST_COMPONENTS], *option_bytes[TUNER_MOST_COMPONENTS];
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

/* ---- between rule_codings.c and rule_prices.c ---- */

int tuner_rules_count_of(const struct tuner_rule_space *space, unsigned scope);
int tuner_rules_number_of(const struct tuner_rule_space *space, unsigned scope, const int *digits);
void tuner_rules_put_digits(const struct tuner_rule_space *space, unsigned scope, int number, int *digits);
const unsigned char *tuner_rules_spec_under(const struct tuner_coding *coding, int c, const int *digits);
/* Checks the dimensions of one scope, or those decided by the context of all scopes. */
enum tuner_scope { TUNER_OWN_AXES, TUNER_AXES_IN_CONTEXT };
bool tuner_rules_all_divide(const struct tuner_coding *coding, unsigned scope, enum tuner_scope within,
                            const int *digits, const struct topo_axes *mesh);
bool tuner_rules_batch_divides(const struct tuner_coding *coding, const int *digits, const struct topo_axes *mesh,
                               int64_t batch);

#endif
