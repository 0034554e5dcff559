/* Private to tuner/: what the files that choose between remat policies by tensor share. */
#ifndef TUNER_POLICIES_H
#define TUNER_POLICIES_H

#include "tuner/search.h"

enum {
    MOST_ATTENTION = 5,
    MOST_MLP = 2,
    MOST_OF_PART = MOST_ATTENTION + MOST_MLP,
    TUNER_MOST_POLICY_OPTIONS = 4400 /* each of a layer's seven tensors in one of three places, and its input in two */
};

extern const unsigned tuner_attention_names, tuner_mlp_names, tuner_result_of_attention, tuner_input_name;

/* Tensors of which each choice of places is an option. */
struct tuner_names {
    int list[MOST_OF_PART], count;
};

/* A step that saves these of a layer's names on the device: what it takes, and its passes, beside which tensors move.
 */
struct tuner_pattern_price {
    bool known;
    double step_s, forward_s, backward_s;
};

/* One order of the submesh: the best policy found for it that may be ranked. */
struct tuner_order {
    struct tuner_pattern_price *patterns;
    double best_s, best_host_bytes;
};

struct tuner_chooser {
    struct base_arena own; /* of all that is needed for one family alone */
    struct search *s;
    const struct node *node;
    struct sim_plan plan; /* over the best links of any order: what it takes is a bound for each */
    struct model_saved all;
    double all_s, forward_s, backward_s, host_rate, host_capacity_bytes;
    double all_bytes;                               /* at the peak */
    unsigned lighter_offloaded, lighter_recomputed; /* names that take less of the device's memory so: see is_lighter */
    double state_bytes, bytes[MODEL_SAVED_WO + 1], host_bytes[MODEL_SAVED_WO + 1]; /* of a microbatch; of the step */
    struct tuner_names attention, mlp, layer;
    double layer_s[1 << MOST_OF_PART]; /* by which of a layer's names are saved anywhere: beside all saved */
    struct tuner_order *orders;
    int order_count;
    struct model_saved *options;
    int option_count;
    struct tuner_choices *choices;
    struct model_saved *tried;
    int tried_count, tried_capacity;
};

/* ---- tried_policies.c ---- */

/* Predicts one policy of the family in full, and ranks it. */
enum base_status tuner_policy_try(struct search *s, const struct node *node, int first,
                                  const struct model_saved *policy, struct tuner_found *found);
void tuner_policy_note_tried(struct tuner_chooser *c, const struct model_saved *policy);
/* The cost above which no policy is the best of any order of the submesh: each has one that is ranked. */
double tuner_policy_slowest_order(const struct tuner_chooser *c);

/* One policy after the other: --no-integer-program, and where prices do not add up. c: NULL, or what has tried some
 * already. */
enum base_status tuner_policy_try_every(struct search *s, const struct tuner_chooser *c, const struct node *node,
                                        int first);

/* ---- policy_orders.c: policies on each order of the family's submesh ---- */

/* Prices what may still be better than what is ranked. */
enum base_status tuner_orders_price(struct tuner_chooser *c);
/* What a step takes at least, on the order on which it takes least. */
double tuner_orders_least_s(const struct tuner_chooser *c, const struct model_saved *policy);
/* The cost above which no policy is the best of any order. */
double tuner_orders_slowest(const struct tuner_chooser *c);
/* Predicts the policy on each order for which it may be the best. *asked: on one at the least, and then *found. */
enum base_status tuner_orders_try(struct tuner_chooser *c, const struct model_saved *policy, bool *asked,
                                  struct tuner_found *found, bool *adds_up);

/* ---- saved_prices.c: what policies of one family take and weigh, by full predictions ---- */

struct tuner_names tuner_names_of(unsigned set);
unsigned tuner_names_in(const struct tuner_names *names, int pattern);
int tuner_pattern_of(const struct tuner_names *names, unsigned set);
enum base_status tuner_policy_price(struct tuner_chooser *c, struct model_saved policy, struct sim_prediction *out,
                                    struct sim_detail *detail);
/* How long a step's passes compute. */
void tuner_policy_passes(const struct sim_timeline *timeline, double *forward_s, double *backward_s);
/* What a step takes more where these names are recomputed than where none is, which all_s says. */
enum base_status tuner_policy_price_without(struct tuner_chooser *c, unsigned names, double *more_s);
/* In this order: the plan that saves all; each tensor; each pattern of what is recomputed. */
enum base_status tuner_policies_price_kept(struct tuner_chooser *c);
enum base_status tuner_policies_weigh(struct tuner_chooser *c, int name);
enum base_status tuner_policies_price_patterns(struct tuner_chooser *c);

#endif
