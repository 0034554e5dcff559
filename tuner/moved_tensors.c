/* What holds each tensor of a policy where it is: the plan with that tensor alone saved, offloaded or recomputed. What
 * the integer program's reduced costs would say of its relaxation, full predictions say of the plan itself. */
#include "tuner/policies.h"

static enum tuner_place place_of(const struct model_saved *policy, unsigned name)
{
    return policy->device & name ? TUNER_ON_DEVICE : policy->host & name ? TUNER_ON_HOST : TUNER_RECOMPUTED;
}

static struct model_saved with_place(struct model_saved policy, unsigned name, enum tuner_place place)
{
    policy.device &= ~name, policy.host &= ~name;
    if (place == TUNER_ON_DEVICE) policy.device |= name;
    if (place == TUNER_ON_HOST) policy.host |= name;
    return policy;
}

/* *starts: false where the cluster refuses such a policy, as one without a link to the host does. */
static enum base_status predict_policy(const struct tuner_space *space, struct tuner_plan plan,
                                       const struct model_saved *policy, struct sim_prediction *out, bool *starts,
                                       struct base_error *error)
{
    struct sim_plan checked;
    struct base_error why;
    struct sim_plan_text text = tuner_plan_text(space, plan);
    text.values[SIM_REMAT_POLICY] = model_saved_text(space->arena, policy);
    *starts =
        sim_plan_check(space->cache, space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &checked, &why) == BASE_OK;
    if (!*starts) return BASE_OK;
    BASE_TRY(sim_predict(space->cache, &checked, out, NULL, error));
    out->profile = base_copy(space->arena, out->profile);
    return BASE_OK;
}

enum base_status tuner_moved_tensors(const struct tuner_space *space, struct tuner_plan plan,
                                     struct tuner_moved_tensor **out, int *count, struct base_error *error)
{
    const int variant = space->groups[plan.group].variant;
    struct model_saved policy;
    *count = 0;
    if (!tuner_variant_is_saved(space, variant)) return BASE_OK;
    const char *text = tuner_plan_text(space, plan).values[SIM_REMAT_POLICY];
    BASE_TRY(model_saved_parse(text, &policy, error));
    if (place_of(&policy, tuner_input_name) == TUNER_RECOMPUTED) policy.device |= tuner_input_name; /* unsaid */
    *out = base_new(space->arena, struct tuner_moved_tensor, (MODEL_SAVED_WO + 1) * TUNER_PLACE_COUNT);
    for (unsigned rest = tuner_saved_useful(&space->saved) | tuner_input_name; rest; rest &= rest - 1) {
        const unsigned name = rest & -rest;
        const enum tuner_place from = place_of(&policy, name);
        for (int to = name == tuner_input_name ? TUNER_ON_DEVICE : TUNER_RECOMPUTED; to < TUNER_PLACE_COUNT; to++) {
            const struct model_saved moved = with_place(policy, name, (enum tuner_place)to);
            if (to == (int)from) continue;
            struct tuner_moved_tensor *m = &(*out)[*count];
            bool starts;
            *m = (struct tuner_moved_tensor){.from = from, .to = (enum tuner_place)to};
            while (name >> m->tensor > 1) m->tensor++;
            BASE_TRY(predict_policy(space, plan, &moved, &m->prediction, &starts, error));
            *count += starts;
        }
    }
    return BASE_OK;
}
