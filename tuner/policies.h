/* Private to tuner/: shared by the files that choose between per-tensor remat policies. */
#ifndef TUNER_POLICIES_H
#define TUNER_POLICIES_H

#include "tuner/cheapest.h"
#include "tuner/search.h"

enum {
    MOST_ATTENTION = 5,
    MOST_MLP = 2,
    MOST_OF_PART = MOST_ATTENTION + MOST_MLP,
    TUNER_MOST_POLICY_OPTIONS = 4400 /* a layer's seven tensors in three places, its input in two */
};

extern const unsigned tuner_attention_names, tuner_mlp_names, tuner_input_name;

/* A set of tensors whose subsets are patterns. */
struct tuner_names {
    int list[MOST_OF_PART], count;
};

/* The price of a step that keeps one pattern of a layer's tensors on the device. */
struct tuner_pattern_price {
    bool known;
    double step_s, forward_s, backward_s;
};

/* One device order of the submesh, and its best rankable policy so far. */
struct tuner_order {
    struct tuner_pattern_price *patterns;
    double best_s, best_host_bytes;
};

struct tuner_chooser {
    struct base_arena own; /* memory for one family */
    struct search *s;
    const struct node *node;
    struct sim_plan plan; /* with the best links of any order: its time is a lower bound for each */
    struct model_saved all;
    double all_s, forward_s, backward_s, host_rate, host_capacity_bytes;
    double all_bytes;                               /* peak bytes */
    unsigned lighter_offloaded, lighter_recomputed; /* tensors that lower the device's peak so: see is_lighter */
    double state_bytes, bytes[MODEL_SAVED_WO + 1], host_bytes[MODEL_SAVED_WO + 1]; /* per microbatch; host: per step */
    struct tuner_names attention, mlp, layer;
    double layer_s[1 << MOST_OF_PART]; /* extra time by the pattern of saved tensors, relative to saving all */
    struct tuner_order *orders;
    int order_count;
    struct model_saved *options; /* by choice */
    struct tuner_choices choices;
    struct model_saved *tried;
    int tried_count, tried_capacity;
};

/* ---- tried_policies.c ---- */

void tuner_policy_note_tried(struct tuner_chooser *c, const struct model_saved *policy);
/* No policy with this cost or more is the best of any order of the submesh, since each has a ranked one. */
double tuner_policy_slowest_order(const struct tuner_chooser *c);

/* Tries policies one by one: for --no-integer-program, and if prices do not add up. c: NULL, or a chooser that has
 * tried some already. */
enum base_status tuner_policy_try_every(struct search *s, const struct tuner_chooser *c, const struct node *node,
                                        int first);

/* ---- policy_orders.c: policies on each device order of the family's submesh ---- */

/* Prices what may still beat the ranked plans. */
enum base_status tuner_orders_price(struct tuner_chooser *c);
/* A lower bound on the step time, on the policy's fastest order. */
double tuner_orders_least_s(const struct tuner_chooser *c, const struct model_saved *policy);
/* No policy with this cost or more is the best of any order. */
double tuner_orders_slowest(const struct tuner_chooser *c);
/* Predicts the policy on each order for which it may be the best. *asked: on at least one; *found is set only then. */
enum base_status tuner_orders_try(struct tuner_chooser *c, const struct model_saved *policy, bool *asked,
                                  struct tuner_found *found, bool *adds_up);

/* ---- saved_prices.c: time and memory of a family's policies, by full predictions ---- */

struct tuner_names tuner_names_of(unsigned set);
unsigned tuner_names_in(const struct tuner_names *names, int pattern);
int tuner_pattern_of(const struct tuner_names *names, unsigned set);
enum base_status tuner_policy_price(struct tuner_chooser *c, struct model_saved policy, struct sim_prediction *out,
                                    struct sim_detail *detail);
/* Computation time of a step's passes. */
void tuner_policy_passes(const struct sim_timeline *timeline, double *forward_s, double *backward_s);
/* The extra time of a step that recomputes these tensors, relative to all_s. */
enum base_status tuner_policy_price_without(struct tuner_chooser *c, unsigned names, double *more_s);
/* Call in this order: the plan that saves all; each tensor; each pattern of recomputation. */
enum base_status tuner_policies_price_kept(struct tuner_chooser *c);
enum base_status tuner_policies_weigh(struct tuner_chooser *c, int name);
enum base_status tuner_policies_price_patterns(struct tuner_chooser *c);

#endif
