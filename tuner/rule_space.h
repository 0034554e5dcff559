/* Private to tuner/: rule sets that nobody has named. Each logical axis takes a mesh axis or none, in one order of
 * priority or another; what they make of a tensor is the resolver's business. */
#ifndef TUNER_RULE_SPACE_H
#define TUNER_RULE_SPACE_H

#include "tuner/relax.h"

enum { TUNER_MOST_DIGITS = 12 };

/* A rule set is a number in mixed radix: a digit for what each axis takes, and one for whether embed comes before it.
 */
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

/* The axes that the classes of an outline have. */
struct tuner_rule_space tuner_rule_space_of(const struct tuner_outline *outline);
/* The rules as a JSON list that T5X takes. */
const char *tuner_rule_text(struct base_arena *arena, const struct tuner_rule_space *space,
                            const int digits[TUNER_MOST_DIGITS]);

/* What every rule set makes of the classes of an outline. */
struct tuner_coding;
enum base_status tuner_code_rules(struct base_arena *arena, const struct tuner_rule_space *space,
                                  const struct tuner_outline *outline, const struct sim_plan *plan,
                                  const struct tuner_coding **out, struct base_error *error);

/* The rule sets of one cell. Those whose tensors are all sharded alike are one. */
struct tuner_rule_cell {
    struct tuner_table table;
    int64_t rule_set_count; /* that JAX accepts */
    const struct tuner_coding *coding;
    int *equals[TUNER_MOST_COMPONENTS]; /* by context and option: how many options are one; 0: it is another's */
};
/* How many rule sets JAX accepts on a mesh of that shape. */
int64_t tuner_count_rule_sets(const struct tuner_coding *coding, const struct topo_axes *mesh, int64_t batch);
double tuner_rule_space_s(const struct tuner_coding *coding, const struct sim_placement *placement, int64_t batch,
                          int64_t microbatches, struct tuner_charges charges);
/* Contexts that no rule set of less than limit_s has are closed. */
struct tuner_rule_cell *tuner_rule_cell_price(struct base_arena *arena, const struct tuner_coding *coding,
                                              const struct sim_placement *placement, int64_t batch,
                                              int64_t microbatches, struct tuner_charges charges, double limit_s);
/* What rules give the classes that they shard themselves, of the outline and of that of least memory, over the axes
 * `live`: rule sets that give the same have one program, and one prediction. */
struct tuner_rules_given {
    unsigned char spec[2][TUNER_MOST_CLASSES][MODEL_MAX_RANK];
};
void tuner_rules_given(const struct tuner_coding *coding, unsigned live, const int *digits,
                       struct tuner_rules_given *out);
/* Calls visit for each choice below limit_s and within limit_bytes, with how many rule sets it stands for. */
typedef void tuner_visit_rules(void *where, const int digits[TUNER_MOST_DIGITS], double s, double bytes,
                               int64_t equals);
void tuner_rule_cell_visit(const struct tuner_rule_cell *cell, double limit_s, double limit_bytes,
                           tuner_visit_rules *visit, void *where);

#endif
