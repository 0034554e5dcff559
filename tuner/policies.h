/* Private to tuner/: the choice between per-tensor remat policies (saved_choice.c), and their times on each device
 * order of the family's submesh (policy_orders.c). */
#ifndef TUNER_POLICIES_H
#define TUNER_POLICIES_H

#include "tuner/search.h"

enum { TUNER_INPUT_NAME = 1 << MODEL_SAVED_LAYER_INPUT, TUNER_POLICY_SETS = 1 << MODEL_SAVED_WO /* of names */ };

/* The price of a step that keeps one set of a layer's tensors on the device. */
struct tuner_set_price {
    double step_s, forward_s, backward_s; /* the passes: their computation */
};

/* One device order of the submesh, and its best rankable policy so far. */
struct tuner_order {
    struct tuner_set_price *sets; /* by set of kept names */
    double best_s, best_host_bytes;
};

/* A policy to choose: its least time on any order, and what it holds at least. */
struct tuner_choice {
    struct model_saved policy;
    double step_s, weight_bytes;
    bool cut, tried;
};

struct tuner_chooser {
    struct base_arena own; /* memory for one family */
    struct search *s;
    const struct node *node;
    struct sim_plan plan; /* with the best links of any order */
    struct model_saved all;
    double all_s, all_bytes; /* of the policy that saves all: step and peak */
    double host_rate, host_capacity_bytes;
    unsigned lighter_offloaded, lighter_recomputed; /* tensors that lower the device's peak so: see is_lighter */
    double state_bytes, bytes[MODEL_SAVED_WO + 1], host_bytes[MODEL_SAVED_WO + 1]; /* per microbatch; host: per step */
    struct tuner_order *orders;
    int order_count;
    struct tuner_choice *choices;
    int choice_count, choice_capacity;
};

enum base_status tuner_policy_price(struct tuner_chooser *c, struct model_saved policy, struct sim_prediction *out,
                                    struct sim_detail *detail);
/* Prices every set of kept tensors on every order. */
enum base_status tuner_orders_price(struct tuner_chooser *c);
/* A lower bound on the step time, on the policy's fastest order. */
double tuner_orders_least_s(const struct tuner_chooser *c, const struct model_saved *policy);
/* No policy with this cost or more is the best of any order of the submesh, since each has a ranked one. */
double tuner_policy_slowest_order(const struct tuner_chooser *c);
/* The same, or since each has a policy that fits. */
double tuner_orders_slowest(const struct tuner_chooser *c);
/* Predicts the policy on each order for which it may be the best. *asked: on at least one; *found is set only then.
 * *adds_up: it takes no less than its price. */
enum base_status tuner_orders_try(struct tuner_chooser *c, const struct model_saved *policy, bool *asked,
                                  struct tuner_found *found, bool *adds_up);

#endif
