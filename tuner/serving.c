/* Plans of inference: keys of training do not vary. Nothing bounds them, so all plans of their space are predicted. A
 * space has few programs, one per mesh and rule set, shared by batches and beams; each prediction takes microseconds.
 */
#include "tuner/space.h"

static const char *step_word(enum model_step step)
{
    const struct sim_plan_key *key = &sim_plan_keys[SIM_STEP];
    for (int i = 0; i < SIM_MOST_WORDS && key->words[i].name; i++)
        if (key->words[i].value == (int)step) return key->words[i].name;
    return NULL;
}

const struct tuner_request *tuner_serving_request(struct base_arena *arena, const struct tuner_request *asked)
{
    static const struct {
        enum tuner_dimension dimension;
        const char *value;
    } pinned[] = {
        {TUNER_REMAT, "none"}, {TUNER_PARTITIONING, "none"}, {TUNER_SEQUENCE, "0"}, {TUNER_MICROBATCHES, "0"}};
    struct tuner_request *request = base_new(arena, struct tuner_request, 1);
    *request = *asked;
    for (int i = 0; i < BASE_COUNT(pinned); i++) {
        struct tuner_values *given = &request->given[pinned[i].dimension];
        if (given->count) continue;
        *given = (struct tuner_values){base_new(arena, const char *, 1), 1};
        given->values[0] = pinned[i].value;
    }
    struct tuner_values *dtypes = &request->given[TUNER_PARAMETER_DTYPE];
    if (!dtypes->count && request->beyond_t5x) {
        *dtypes = (struct tuner_values){base_new(arena, const char *, 2), 2}; /* the first: as it is computed in */
        dtypes->values[1] = "int8";
    }
    request->plan.values[SIM_STEP] = step_word(request->step);
    return request;
}
