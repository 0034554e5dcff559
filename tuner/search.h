/* Private to tuner/: shared by the files of a search. */
#ifndef TUNER_SEARCH_H
#define TUNER_SEARCH_H

#include "tuner/rule_space.h"
#include "tuner/space.h"

/* Relative rounding error between two ways of adding the same seconds. */
static const double slack = 1e-9;

/* The kind of a search node; a node opens into nodes of later kinds. */
enum kind {
    RULES, /* all unnamed rule sets on one mesh shape with one number of microbatches: a cell */
    FAMILY,
    PLAN /* one plan of a family, whose time is known except for rounding; or a plan with stages */
};

struct node {
    double bound, peak_bytes;
    enum kind kind;
    int group /* of a cell: its first */, microbatches, submesh /* of a plan */;
    bool tight;      /* a plan that fits without the headroom, so it will not be ranked */
    bool propagated; /* a family bounded by the propagation of its rules */
    bool unpriced;   /* it has no bound yet, and comes last */
    int saved;       /* as in struct tuner_plan */
};

/* The cells of one phase of a search. */
struct phase {
    bool named_policies, policies_by_tensor, unnamed_rules; /* unnamed_rules: otherwise named ones */
};

struct search;
/* What the nodes of a space do. */
struct search_kind {
    bool (*decided)(const struct search *s, const struct node *node);    /* by what is known of it: it is not opened */
    void (*count)(struct search *s, const struct node *node);            /* of a decided one, its plans */
    enum base_status (*open)(struct search *s, const struct node *node); /* predicts, or pushes closer nodes */
    bool decides_all; /* a decided node decides all nodes with larger bounds */
};

struct search {
    struct tuner_space *space;
    const struct search_kind *kind;
    const struct tuner_options *options;
    struct tuner_result *result;
    struct base_error *error;
    struct sim_placement *best_links; /* by shape: the best rates of its submeshes */
    struct tuner_ruled **ruled;       /* by group, twice: without and with microbatches; NULL: not yet built */
    int *cell_end;                    /* by a cell's first group: the first group after the cell */
    int base_groups;                  /* groups of named rule sets; later groups are of found rule sets */
    struct tuner_rule_space rule_space;
    const struct tuner_coding **codings; /* by variant, twice */
    int64_t *rule_counts;                /* by a cell's first group: unnamed rule sets that JAX accepts */
    int rule_capacity, group_capacity, front_capacity;
    struct node *heap;
    int64_t heap_count, heap_capacity;
    struct node *too_large; /* families whose memory bound exceeds the device */
    int64_t too_large_count, too_large_capacity;
    struct sim_collective_list rows; /* of the last predicted plan; its memory is reused */
    bool links;                      /* bounds charge collectives */
    double least_open;               /* smallest bound that was given up; INFINITY: none */
    bool use_bounds, restart, stopped, cells_are_complete, rules_are_counted;
    double limit_bytes; /* the most device memory of a ranked plan */
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
enum base_status tuner_search_find_relaxed(struct search *s, int variant, const struct sim_plan *plan,
                                           enum tuner_batch batch, const struct tuner_relaxed_program **out);
int64_t tuner_search_plans_of(const struct search *s, const struct node *node);
enum base_status tuner_search_bound_family(struct search *s, int group, int microbatches, struct node *node);
/* Raises a family's time bound if the propagation of its rules gives a higher one (propagated_bound.c). */
enum base_status tuner_search_bound_propagated(struct search *s, struct node *node);
double tuner_search_seconds_of_cost(const struct search *s, int group, double cost);
enum base_status tuner_search_open_rules(struct search *s, const struct node *node);
void tuner_search_find_cells(struct search *s);
/* Counts each cell's unnamed rule sets; only the first call does any work. */
enum base_status tuner_search_count_rules(struct search *s);
enum base_status tuner_search_add_cells(struct search *s, const struct phase *phase);

/* saved_choice.c, for a family whose plan saves all tensors: chooses another policy if that may change the answer. */
enum tuner_fit { TUNER_DOES_NOT_FIT, TUNER_FITS };
enum base_status tuner_search_choose_saved(struct search *s, const struct node *node, int first, enum tuner_fit fit);

/* ---- ranking.c ---- */

/* A plan with this cost or more does not change the answer; the second is for the best plan alone. */
double tuner_search_threshold(const struct search *s);
double tuner_search_best_threshold(const struct search *s);
bool tuner_search_is_same_plan(const struct tuner_plan *a, const struct tuner_plan *b);
double tuner_search_found_cost(const struct search *s, const struct tuner_found *found);
/* Inserts by cost into the best `top` plans. */
void tuner_search_insert_plan(const struct search *s, struct tuner_found *plans, int *count,
                              const struct tuner_found *found);
void tuner_search_insert_front(struct search *s, const struct tuner_found *found);
/* Some plan of the front is as good in both measures. */
bool tuner_search_is_dominated(const struct search *s, double cost, double peak_bytes);
bool tuner_search_note_nearest(const struct search *s, const struct tuner_found *found); /* true: it is nearer */
void tuner_search_note_unfit(struct search *s, const struct tuner_found *found);
bool tuner_search_decided(const struct search *s, const struct node *node);

double tuner_search_slow_s(const struct search *s, int group); /* a step longer than this is useless; or INFINITY */

/* ---- predicted_plans.c ---- */

/* Counts the prediction, and ranks it if allowed. */
void tuner_search_note_predicted(struct search *s, const struct node *node, const struct tuner_found *found);
/* Predicts and notes. */
enum base_status tuner_search_evaluate(struct search *s, const struct node *node, int submesh,
                                       struct sim_detail *detail, struct tuner_found *found);
int tuner_search_quickest_submesh(const struct search *s, const struct tuner_shape *shape); /* over all axes together */
/* A lower bound on the time of the same plan with another submesh of the same shape. */
double tuner_search_sibling_s(const struct sim_prediction *p, const struct sim_detail *detail,
                              const struct sim_placement *placement);
bool tuner_search_refuses(struct search *s, const struct node *node); /* JAX rejects it; counts it as refused */
/* Adds the other device orders of a plan's submesh that may be better. */
void tuner_search_push_siblings(struct search *s, const struct node *node, int first, const struct tuner_found *found,
                                const struct sim_detail *detail);

/* Tells whoever asked of a plan that a bound decided by itself. */
void tuner_search_show_bound(const struct search *s, const struct node *node, bool by_memory);

/* ---- stage_search.c ---- */

void tuner_staged_begin(struct search *s);
bool tuner_staged_decided(const struct search *s, const struct node *node);
void tuner_staged_count(struct search *s, const struct node *node); /* of a decided one */
enum base_status tuner_staged_open(struct search *s, const struct node *node);
/* Decides what is left. BASE_INPUT: no plan of the space can be predicted. */
enum base_status tuner_staged_end(struct search *s);

#endif
