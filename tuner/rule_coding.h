/* Private to tuner/: shared by rule_codings.c and rule_prices.c. */
#ifndef TUNER_RULE_CODING_H
#define TUNER_RULE_CODING_H

#include "tuner/rule_space.h"

enum { MOST_RULES = 24 };

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
