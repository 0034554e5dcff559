/* Opens families whose plans differ in ways that no bound sees: predicts plans, or skips those that are too slow. */
#include "tuner/search.h"

#include <math.h>

/* A lower bound on a step with rematerialisation by the compiler (tuner.h). */
static double least_recomputed_s(const struct sim_prediction *p, double step_s)
{
    return step_s - p->memory_bound_s;
}

static bool are_siblings_slow(const struct search *s, const struct node *node, const struct tuner_found *found,
                              const struct sim_detail *detail)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[node->group].shape];
    for (int i = 0; i < shape->submesh_count; i++) {
        const double step_s =
            tuner_search_sibling_s(&found->prediction, detail, s->space->placements[shape->first_submesh + i]);
        if (least_recomputed_s(&found->prediction, step_s) < detail->slow_s) return false;
    }
    return true;
}

static void count_as_slow(struct search *s, const struct node *node, const struct tuner_found *found)
{
    s->result->counts.priced++;
    s->result->counts.by_time += tuner_search_plans_of(s, node);
    if (s->options->looked)
        s->options->looked(s->options->looked_where,
                           &(struct tuner_looked){found->plan, NULL,
                                                  least_recomputed_s(&found->prediction, found->prediction.step_s),
                                                  node->peak_bytes, false});
}

/* Predicts one plan of the family. *slow: none of its plans is useful, and rematerialisation was not predicted. */
static enum base_status predict_first(struct search *s, const struct node *node, int first, struct sim_detail *detail,
                                      struct tuner_found *found, bool *slow)
{
    const double slow_s = tuner_search_slow_s(s, node->group);
    detail->slow_s = isfinite(slow_s) ? slow_s : 0;
    BASE_TRY(tuner_search_predict(s, node, first, detail, found));
    *slow = detail->is_slow && are_siblings_slow(s, node, found, detail);
    if (*slow) return count_as_slow(s, node, found), BASE_OK;
    if (detail->is_slow) {
        detail->slow_s = 0;
        BASE_TRY(tuner_search_predict(s, node, first, detail, found));
    }
    s->result->counts.evaluated++;
    tuner_search_note_predicted(s, node, found);
    return BASE_OK;
}

enum base_status tuner_search_open_family(struct search *s, const struct node *node)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[node->group].shape];
    struct sim_detail detail = {.lists_collectives = true, .collectives = s->rows, .arena = s->space->arena};
    struct tuner_found found;
    int first = tuner_search_quickest_submesh(s, shape);
    bool slow;
    if (!node->propagated && node->group >= s->base_groups && tuner_search_refuses(s, node)) return BASE_OK;
    if (!node->propagated && isfinite(tuner_search_best_threshold(s))) { /* the first plan must not be ruled out */
        struct node bounded = *node;
        BASE_TRY(tuner_search_bound_propagated(s, &bounded));
        if (bounded.bound > node->bound) return tuner_search_push(s, bounded), BASE_OK;
    }
    BASE_TRY(predict_first(s, node, first, &detail, &found, &slow));
    s->rows = detail.collectives;
    if (slow || s->restart) return BASE_OK;
    bool saved = tuner_variant_is_saved(s->space, s->space->groups[node->group].variant);
    int64_t orders = shape->submesh_count * s->space->groups[node->group].rule_set_count;
    s->result->counts.by_sibling += orders - 1;
    s->result->counts.by_program += tuner_search_plans_of(s, node) - orders;
    bool fits = sim_leaves_free(&found.prediction, s->options->headroom_frac);
    if (found.prediction.fits) tuner_search_push_siblings(s, node, first, &found, &detail);
    bool chooses = false;
    if (saved) BASE_TRY(tuner_search_needs_choice(s, node, first, fits ? TUNER_FITS : TUNER_DOES_NOT_FIT, &chooses));
    return chooses ? tuner_search_choose_saved(s, node, first) : BASE_OK;
}

enum base_status tuner_search_open_plan(struct search *s, const struct node *node)
{
    struct tuner_found found;
    struct tuner_counts *counts = &s->result->counts;
    --*(node->saved ? &counts->by_program : &counts->by_sibling); /* undo how it was counted so far */
    return tuner_search_evaluate(s, node, node->submesh, NULL, &found);
}

enum base_status tuner_search_open_every_plan(struct search *s, const struct node *node)
{
    struct tuner_found found;
    for (int i = 0; i < tuner_group_submesh_count(s->space, node->group); i++)
        BASE_TRY(tuner_search_evaluate(s, node, i, NULL, &found));
    return BASE_OK;
}
