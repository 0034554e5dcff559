/* Bounds of families. Relaxed programs and their shardings are built once. */
#include "tuner/search.h"

#include <math.h>

/* ---- bounds ---- */

enum base_status tuner_search_find_relaxed(struct search *s, int variant, const struct sim_plan *plan,
                                           enum tuner_batch batch, const struct tuner_relaxed_program **out)
{
    const struct tuner_relaxed_program **slot =
        &s->space->relaxed_programs[2 * variant + (batch == TUNER_IN_MICROBATCHES)];
    if (!*slot) BASE_TRY(tuner_relaxed_program_build(s->space->arena, s->space->cache, plan, batch, slot, s->error));
    *out = *slot;
    return BASE_OK;
}

/* The shards that a group's rules give to the classes of its relaxed program. */
static enum base_status find_ruled(struct search *s, int group, enum tuner_batch batch,
                                   const struct tuner_relaxed_program **relaxed, const struct tuner_ruled **out)
{
    struct tuner_ruled **slot = &s->ruled[2 * group + (batch == TUNER_IN_MICROBATCHES)];
    int variant = s->space->groups[group].variant;
    if (!*slot) {
        struct sim_plan plan;
        struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){group, 0, 0, 0});
        BASE_TRY(sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan,
                                s->error));
        BASE_TRY(tuner_search_find_relaxed(s, variant, &plan, batch, relaxed));
        struct tuner_ruled *ruled = base_new(s->space->arena, struct tuner_ruled, 1);
        BASE_TRY(tuner_rule_classes(*relaxed, plan.rules, &plan, ruled, s->error));
        *slot = ruled;
    }
    *relaxed = s->space->relaxed_programs[2 * variant + (batch == TUNER_IN_MICROBATCHES)];
    *out = *slot;
    return BASE_OK;
}

enum base_status tuner_search_bound_family(struct search *s, int group, int microbatches, struct node *node)
{
    int64_t n = tuner_search_microbatch_count(s, group, microbatches);
    const struct tuner_relaxed_program *relaxed;
    const struct tuner_ruled *ruled;
    *node = (struct node){.kind = FAMILY, .group = group, .microbatches = microbatches};
    if (!s->use_bounds) return BASE_OK;
    BASE_TRY(find_ruled(s, group, n > 1 ? TUNER_IN_MICROBATCHES : TUNER_WHOLE_BATCH, &relaxed, &ruled));
    struct tuner_bound bound = tuner_bound_of(relaxed, ruled, &s->best_links[s->space->groups[group].shape],
                                              tuner_search_batch_size(s, group), n, s->links);
    node->bound = tuner_search_cost_of(s, group, bound.step_s) * (1 - slack);
    node->peak_bytes = bound.state_bytes * (1 - slack);
    return BASE_OK;
}

enum base_status tuner_search_bound_propagated(struct search *s, struct node *node)
{
    const int64_t n = tuner_search_microbatch_count(s, node->group, node->microbatches);
    const struct tuner_relaxed_program *relaxed;
    struct tuner_ruled ruled;
    struct sim_plan plan;
    struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){node->group, 0, node->microbatches, 0});
    double step_s;
    node->propagated = true;
    if (!s->use_bounds || !s->links || tuner_variant_is_saved(s->space, s->space->groups[node->group].variant))
        return BASE_OK;
    BASE_TRY(
        sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, s->error));
    BASE_TRY(tuner_search_find_relaxed(s, s->space->groups[node->group].variant, &plan,
                                       n > 1 ? TUNER_IN_MICROBATCHES : TUNER_WHOLE_BATCH, &relaxed));
    BASE_TRY(tuner_rule_classes(relaxed, plan.rules, &plan, &ruled, s->error));
    BASE_TRY(tuner_propagated_s(s->space->cache, relaxed, &ruled, &s->best_links[s->space->groups[node->group].shape],
                                &plan, tuner_search_batch_size(s, node->group), n, s->links,
                                tuner_search_slow_s(s, node->group), &step_s, s->error));
    node->bound = fmax(node->bound, tuner_search_cost_of(s, node->group, step_s) * (1 - slack));
    return BASE_OK;
}
