/* `tune` of plans with pipeline stages, where pipeline_stages is given as more than one value, or as another than 1. */
#include "commands/tune.h"

#include <string.h>

bool commands_tunes_stages(const struct sim_plan_text *plan)
{
    const char *stages = plan->values[SIM_PIPELINE_STAGES];
    return stages && *stages && strcmp(stages, "1") != 0;
}

/* A search of plans without stages takes one value of each. */
enum base_status commands_tune_refuse_lists(const struct sim_plan_text *plan, struct base_error *error)
{
    static const enum sim_key keys[] = {SIM_VIRTUAL_STAGES, SIM_PIPELINE_SCHEDULE, SIM_PIPELINE_PARTITION,
                                        SIM_CONTEXT_PARALLEL, SIM_CP_COMM_TYPE};
    for (int i = 0; i < BASE_COUNT(keys); i++) {
        const char *text = plan->values[keys[i]];
        if (text && (strchr(text, ',') || !strcmp(text, "auto")))
            return base_fail(error, BASE_INPUT,
                             "%s: \"%.60s\" is searched only together with stages; use one value, or, on nodes of "
                             "GPUs, add pipeline_stages auto",
                             sim_plan_keys[keys[i]].name, text);
    }
    return BASE_OK;
}

/* Options that a search of pipeline plans does not support, each with the reason and an alternative. */
static const struct {
    const char *option, *why;
} others[] = {
    {"--fit", ": sizes T5X's model axis, but stages split a model, too; use --pareto"},
    {"--step", ": is for inference, whose plans have no stages; use pipeline_stages 1"},
    {"--network", ": messages between stages are not sent link by link; leave it out, or use pipeline_stages 1"},
    {"--beyond-t5x",
     ": plans with stages are for software other than T5X, and all of its options are searched; leave it out"},
    {"--search",
     ": searches rules and remat by tensor only for plans without stages; leave it out, and list the values "
     "to try: --remat-policy full,'device:context;offload:mlpwo'"}};

bool commands_tune_lacks_stages(const struct base_arguments *arguments)
{
    bool lacks = false;
    for (int i = 0; i < BASE_COUNT(others); i++) lacks = lacks || base_argument(arguments, others[i].option);
    return lacks;
}

enum base_status commands_tune_read_stages(struct commands_context *context, const struct base_arguments *arguments,
                                           const struct sim_plan_text *plan, struct commands_tune_asked *asked,
                                           struct base_error *error)
{
    struct tuner_request *out = &asked->request;
    *out = (struct tuner_request){.plan = *plan, .micro_batch = context->micro_batch};
    const bool searches_stages = !strcmp(plan->values[SIM_PIPELINE_STAGES], "auto"),
               looks_around = context->page || base_argument(arguments, "--detail");
    for (int i = 0; i < BASE_COUNT(others); i++)
        BASE_TRY(commands_refuse_options(arguments, &others[i].option, 1, BASE_INPUT, others[i].why, error));
    for (int i = 0; i < TUNER_STAGED_COUNT; i++)
        BASE_TRY(commands_tune_dimension(context->arena, tuner_staged_dimension(i), out, error));
    const char **layers = &out->plan.values[SIM_PIPELINE_LAYERS];
    out->assigns_layers = *layers && !strcmp(*layers, "auto");
    if (out->assigns_layers) *layers = NULL;
    if (out->assigns_layers && base_argument(arguments, "--pareto"))
        return base_fail(error, BASE_INPUT,
                         "--pareto: cannot be combined with pipeline_layers auto, which finds only the fastest layers "
                         "that fit; leave one out");
    out->assigns_uneven = searches_stages && !out->assigns_layers && !looks_around &&
                          !base_argument(arguments, "--pareto") && !sim_key_is_given(plan, SIM_PIPELINE_LAYERS);
    return BASE_OK;
}
