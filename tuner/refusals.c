/* Counts why plans are invalid: each reason once, with an example. */
#include "tuner/space.h"

#include <ctype.h>
#include <string.h>

/* Messages that differ only in numbers are one reason. */
static const char *reason_of(struct base_arena *arena, const char *message)
{
    char *reason = base_copy(arena, message), *out = reason;
    for (const char *at = message; *at;) {
        if (!isdigit((unsigned char)*at)) {
            *out++ = *at++;
            continue;
        }
        *out++ = 'N';
        while (isdigit((unsigned char)*at)) at++;
    }
    *out = '\0';
    return reason;
}

void tuner_refuse(struct tuner_space *space, const char *message, int64_t plan_count)
{
    const char *reason = reason_of(space->arena, message);
    int i = 0;
    while (i < space->refusal_count && strcmp(space->refusals[i].reason, reason) != 0) i++;
    if (i == TUNER_MOST_REFUSALS) i = TUNER_MOST_REFUSALS - 1;
    if (i == space->refusal_count)
        space->refusals[space->refusal_count++] = (struct tuner_refusal){reason, base_copy(space->arena, message), 0};
    space->refusals[i].plan_count += plan_count;
    space->refused_count += plan_count;
}

enum base_status tuner_refuse_all(const struct tuner_space *space, struct base_error *error)
{
    int most = 0;
    for (int i = 1; i < space->refusal_count; i++)
        if (space->refusals[i].plan_count > space->refusals[most].plan_count) most = i;
    return base_fail(error, BASE_INPUT, "no plan of the space can be launched, and all %lld are refused: %s",
                     (long long)space->refused_count,
                     space->refusal_count ? space->refusals[most].example : "it is empty");
}

enum base_status tuner_check_micro_batch(const struct sim_plan *plan, int64_t micro_batch, struct base_error *error)
{
    const int64_t replicas = sim_plan_replicas(plan), steps = plan->num_microbatches;
    if (!micro_batch || plan->batch_size == micro_batch * replicas * steps) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "num_microbatches: %lld microbatches of %lld sequences on %lld replicas are not micro batches of %lld",
        (long long)steps, (long long)plan->batch_size, (long long)replicas, (long long)micro_batch);
}

enum base_status tuner_check_said(const struct sim_plan_text *plan, struct base_error *error)
{
    if (!plan->values[SIM_MODEL])
        return base_fail(error, BASE_INPUT,
                         "model: is missing; a zoo name such as t5_1_1_xxl, or a line such as decoder_only:emb_dim=…");
    if (!plan->values[SIM_TOPOLOGY])
        return base_fail(error, BASE_INPUT, "topology: is missing; an accelerator type such as v4-512, or h100:4x8");
    if (sim_key_is_given(plan, SIM_LORA_RANK) && strcmp(plan->values[SIM_LORA_RANK], "0") != 0)
        return base_fail(error, BASE_INPUT,
                         "lora_rank: plans with adapters are predicted, not searched; use predict, or sweep");
    return BASE_OK;
}
