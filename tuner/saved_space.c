/* Per-tensor remat in the space. Tensors that a policy does not name are recomputed, and the layer's input is always
 * saved. A search finds a few of these policies and names them as it finds them. */
#include "tuner/space.h"

#include <string.h>

enum { STATES = 3 /* on the device, on the host, recomputed */, STATES_OF_INPUT = 2 };

static unsigned names_of(const struct model_config *config)
{
    const bool gated = config->mlp_activation_count == 2;
    unsigned names = 0;
    for (int name = MODEL_SAVED_QUERY; name <= MODEL_SAVED_WO; name++)
        if (name != MODEL_SAVED_WI_1 || gated) names |= 1u << name;
    return names;
}

/* Nothing reads the MLP's last product again, so saving it saves no time. */
unsigned tuner_saved_useful(const struct tuner_saved_space *saved)
{
    return saved->names & ~(1u << MODEL_SAVED_WO);
}

enum base_status tuner_saved_open(struct tuner_space *space, const struct model_config *config,
                                  struct base_error *error)
{
    struct tuner_saved_space *saved = &space->saved;
    struct tuner_values *values = &space->values[TUNER_REMAT];
    if (config->experts.count > 0)
        return base_fail(error, BASE_INPUT,
                         "--search remat: names the tensors of dense layers, and this model has experts; leave it out");
    saved->names = names_of(config);
    saved->plan_count = STATES_OF_INPUT;
    for (unsigned rest = saved->names; rest; rest &= rest - 1) saved->plan_count *= STATES;
    const struct model_saved all = {tuner_saved_useful(saved) | 1u << MODEL_SAVED_LAYER_INPUT, 0, 0};
    const char **more = base_new(space->arena, const char *, values->count + 1);
    for (int i = 0; i < values->count; i++) more[i] = values->values[i];
    more[values->count] = model_saved_text(space->arena, &all);
    *values = (struct tuner_values){more, values->count + 1};
    saved->value = values->count;
    saved->found = base_grown(space->arena, NULL, 0, &saved->found_capacity, sizeof *saved->found);
    saved->found_count = 1; /* 0 is not a policy */
    return BASE_OK;
}

bool tuner_variant_is_saved(const struct tuner_space *space, int variant)
{
    for (int d = TUNER_BATCH - 1; d > TUNER_REMAT; d--) variant /= space->values[d].count;
    return space->saved.value && variant % space->values[TUNER_REMAT].count == space->saved.value - 1;
}

int64_t tuner_variant_plan_count(const struct tuner_space *space, int variant)
{
    return tuner_variant_is_saved(space, variant) ? space->saved.plan_count : 1;
}

int tuner_saved_found(struct tuner_space *space, const struct model_saved *policy)
{
    struct tuner_saved_space *saved = &space->saved;
    const char *text = model_saved_text(space->arena, policy);
    for (int i = 1; i < saved->found_count; i++)
        if (!strcmp(saved->found[i], text)) return i;
    saved->found =
        base_grown(space->arena, saved->found, saved->found_count, &saved->found_capacity, sizeof *saved->found);
    saved->found[saved->found_count] = text;
    return saved->found_count++;
}
