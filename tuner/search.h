/* Private to tuner/: what the files of a search share. */
#ifndef TUNER_SEARCH_H
#define TUNER_SEARCH_H

#include "tuner/rule_space.h"
#include "tuner/space.h"

/* Rounding: two ways of adding up the same seconds. */
static const double slack = 1e-9;

/* What a node of the search stands for; each kind is opened into those after it. */
enum kind {
    CELL,    /* all rule sets on one mesh shape with one number of microbatches */
    PROGRAM, /* the same, bounded by an integer program */
    RULES,   /* the same two for the rule sets that nobody has named */
    RULES_PROGRAM,
    FAMILY,
    PLAN /* one plan of a family, whose time is known but for rounding */
};

struct node {
    double bound, peak_bytes;
    enum kind kind;
    int group /* of a cell its first */, microbatches, submesh /* of a plan */;
    struct tuner_rule_cell *rules;
    const struct tuner_table *families; /* of a cell, once they are bounded: costs and bytes of its groups */
    bool tight;                         /* of a plan: it fits, and will not be ranked */
    bool propagated;                    /* of a family: bounded by what propagation makes of its rules */
    int saved;                          /* as of struct tuner_plan */
};

/* Cells of one phase of a search. */
struct phase {
    bool named_policies, policies_by_tensor, unnamed_rules; /* or, of rules, those that have a name */
};

struct search {
    struct tuner_space *space;
    const struct tuner_options *options;
    struct tuner_result *result;
    struct base_error *error;
    struct sim_placement *best_links; /* by shape: the best rate of any of its submeshes */
    struct tuner_ruled **ruled;       /* by group, twice: without and with microbatches; NULL: not asked for yet */
    struct tuner_ruled **any;         /* by first group of a cell, twice: all its rule sets together */
    int *cell_end;                    /* by first group of a cell: the group behind it */
    int base_groups;                  /* groups of named rule sets; those behind are of rule sets that were found */
    struct tuner_rule_space rule_space;
    const struct tuner_coding **codings; /* by variant, twice */
    int64_t *rule_counts;                /* by first group of a cell: rule sets without a name that JAX accepts */
    int rule_capacity, group_capacity, front_capacity;
    struct node *heap;
    int64_t heap_count, heap_capacity;
    struct node *too_large; /* families and cells whose memory bound is above the device's */
    int64_t too_large_count, too_large_capacity;
    struct sim_collective_list rows; /* of the plan that was predicted last; its room is used again */
    struct tuner_charges charges;
    double least_open; /* bound of what was given up; INFINITY: nothing was */
    bool use_bounds, restart, stopped, cells_are_complete, rules_are_counted;
    double limit_bytes; /* what a plan that is ranked may take of a device */
    double start_s;
};

int64_t tuner_search_batch_size(const struct search *s, int group);
int64_t tuner_search_microbatch_count(const struct search *s, int group, int microbatches);
double tuner_search_cost_of(const struct search *s, int group, double step_s);
bool tuner_search_before(const struct node *a, const struct node *b);
struct node tuner_search_pop(struct search *s);
void tuner_search_push(struct search *s, struct node node);
void tuner_search_set_aside(struct search *s, struct node node);
bool tuner_search_time_is_up(struct search *s);
enum base_status tuner_search_place_shape(struct search *s, int group);
enum base_status tuner_search_find_outline(struct search *s, int variant, const struct sim_plan *plan,
                                           enum tuner_batch batch, const struct tuner_outline **out);
int64_t tuner_search_plans_of(const struct search *s, const struct node *node);
enum base_status tuner_search_add_cell(struct search *s, int first, int microbatches);
/* memo: of the groups of one cell; or NULL. */
enum base_status tuner_search_bound_family(struct search *s, int group, int microbatches, struct tuner_dot_memo *memo,
                                           struct node *node);
/* A higher bound on the time of a family, if what propagation makes of its rules gives one (propagated_bound.c). */
enum base_status tuner_search_bound_propagated(struct search *s, struct node *node);
enum base_status tuner_search_family_of(struct search *s, const struct node *cell, int group, struct node *node);
double tuner_search_seconds_of_cost(const struct search *s, int group, double cost);
enum base_status tuner_search_bound_rules(struct search *s, struct node node);
void *tuner_search_more(struct base_arena *arena, void *old, int count, int *capacity, size_t size);
enum base_status tuner_search_open_rules(struct search *s, const struct node *node);
enum base_status tuner_search_open_cell(struct search *s, const struct node *cell);
void tuner_search_find_cells(struct search *s);
/* How many rule sets without a name each cell has, once, however often it is asked for. */
enum base_status tuner_search_count_rules(struct search *s);
enum base_status tuner_search_add_cells(struct search *s, const struct phase *phase);

struct tuner_charges tuner_search_charges(const struct search *s, int variant);
/* saved_choice.c: of a family whose plan saves all tensors: whether another policy may change the answer; which to save
 */
enum tuner_fit { TUNER_DOES_NOT_FIT, TUNER_FITS };
enum base_status tuner_search_needs_choice(struct search *s, const struct node *node, int first, enum tuner_fit fit,
                                           bool *needs);
enum base_status tuner_search_choose_saved(struct search *s, const struct node *node, int first);

/* ---- ranking.c ---- */

/* No plan whose cost is this, or more, changes the answer; nor which plan is the best. */
double tuner_search_threshold(const struct search *s);
double tuner_search_best_threshold(const struct search *s);
bool tuner_search_is_same_plan(const struct tuner_plan *a, const struct tuner_plan *b);
double tuner_search_found_cost(const struct search *s, const struct tuner_found *found);
/* Among the best so many, by cost. */
void tuner_search_insert_plan(const struct search *s, struct tuner_found *plans, int *count,
                              const struct tuner_found *found);
void tuner_search_insert_front(struct search *s, const struct tuner_found *found);
void tuner_search_note_nearest(struct search *s, const struct tuner_found *found);
void tuner_search_note_unfit(struct search *s, const struct tuner_found *found);
bool tuner_search_decided(const struct search *s, const struct node *node);

double tuner_search_slow_s(const struct search *s, int group); /* a step that takes more is of no use; INFINITY */

/* ---- predicted_plans.c ---- */

enum base_status tuner_search_predict(struct search *s, const struct node *node, int submesh, struct sim_detail *detail,
                                      struct tuner_found *found);
/* Counts it, and ranks it if it may be ranked. */
void tuner_search_note_predicted(struct search *s, const struct node *node, const struct tuner_found *found);
/* Both. */
enum base_status tuner_search_evaluate(struct search *s, const struct node *node, int submesh,
                                       struct sim_detail *detail, struct tuner_found *found);
int tuner_search_quickest_submesh(const struct search *s, const struct tuner_shape *shape); /* all axes together */
/* What a plan of the same mesh takes there, at least. */
double tuner_search_sibling_s(const struct sim_prediction *p, const struct sim_detail *detail,
                              const struct sim_placement *placement);
bool tuner_search_refuses(struct search *s, const struct node *node); /* JAX refuses it; counts it so */
/* The other orders of a plan's submesh, as far as they may be better. */
void tuner_search_push_siblings(struct search *s, const struct node *node, int first, const struct tuner_found *found,
                                const struct sim_detail *detail);

/* ---- search_plans.c ---- */

enum base_status tuner_search_open_family(struct search *s, const struct node *node);
enum base_status tuner_search_open_plan(struct search *s, const struct node *node);
enum base_status tuner_search_open_every_plan(struct search *s, const struct node *node);

#endif
