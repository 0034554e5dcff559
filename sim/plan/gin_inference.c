/* Reads gin files of infer.py and eval.py: a plan of inference, its parameters' dtype, and its decoding. Both restore a
 * checkpoint and run the model's predict or score over a data set; neither has an optimizer. */
#include "sim/plan/gin_draft.h"

#include <string.h>

/* ---- the script ---- */

/* Bindings of each script's entry point. */
static const struct {
    const char *function, *parameter;
} entries[] = {{"infer", "mode"},           {"infer", "model"},
               {"infer", "dataset_cfg"},    {"infer", "partitioner"},
               {"evaluate", "model"},       {"evaluate", "dataset_cfg"},
               {"evaluate", "partitioner"}, {"evaluate", "inference_evaluator_cls"},
               {"precompile", "model"},     {"precompile", "train_dataset_cfg"}};

enum base_status sim_gin_find_script(struct sim_gin_draft *draft)
{
    if (model_gin_find(draft->gin, "", "train", "model")) return BASE_OK;
    for (int i = BASE_COUNT(entries) - 1; i >= 0; i--)
        if (model_gin_find(draft->gin, "", entries[i].function, entries[i].parameter))
            draft->script = entries[i].function;
    return BASE_OK;
}

bool sim_gin_infers(const struct sim_gin_draft *draft)
{
    return !strcmp(draft->script, "infer") || !strcmp(draft->script, "evaluate");
}

/* ---- the step ---- */

static enum base_status read_mode(struct sim_gin_draft *draft)
{
    static const char *const modes[] = {"predict", "predict_with_aux", "score"};
    struct model_gin_place place = {0};
    const struct sim_gin_callee script = {"", draft->script};
    const struct model_gin_value *mode = sim_gin_get(draft, script, "mode", &place);
    for (int i = 0; mode && i < BASE_COUNT(modes); i++)
        if (mode->kind == MODEL_GIN_STRING && !strcmp(mode->text, modes[i]))
            return sim_gin_set(draft, SIM_STEP, i == 2 ? "score" : "generate", place), BASE_OK;
    if (mode && strcmp(draft->script, "infer") == 0)
        return model_gin_fail_at(draft->gin, place, "mode: is %.60s; predict, predict_with_aux or score is needed",
                                 mode->text ? mode->text : sim_gin_kind_name(mode->kind));
    for (int i = 0; i < BASE_COUNT(entries) && !place.file; i++) {
        const struct model_gin_binding *binding = model_gin_find(draft->gin, "", draft->script, entries[i].parameter);
        if (binding) place = binding->place;
    }
    if (!strcmp(draft->script, "evaluate"))
        model_gin_warn(draft->gin, place,
                       "eval.py predicts or scores, depending on its task's metrics; predict is assumed, step = score "
                       "is the other");
    sim_gin_set(draft, SIM_STEP, "generate", place); /* infer.gin's mode, too */
    return BASE_OK;
}

/* The dtype in memory. T5X's default is float32; its infer.gin says bfloat16. */
static enum base_status read_parameter_dtype(struct sim_gin_draft *draft)
{
    static const char *const dtypes[] = {"bfloat16", "float32"};
    struct model_gin_place place = draft->plan.places[SIM_STEP];
    const struct sim_gin_callee restore =
        sim_gin_find_callee(draft, "restore_checkpoint_cfg", "", "RestoreCheckpointConfig");
    const struct model_gin_value *value = sim_gin_get(draft, restore, "dtype", &place);
    const char *name = !value || value->kind == MODEL_GIN_NONE ? "float32"
                       : value->text                           ? model_gin_last_part(value->text)
                                                               : "";
    for (int i = 0; i < BASE_COUNT(dtypes); i++)
        if (!strcmp(dtypes[i], name)) return sim_gin_set(draft, SIM_PARAMETER_DTYPE, dtypes[i], place), BASE_OK;
    return model_gin_fail_at(draft->gin, place, "dtype: parameters are restored as bfloat16 or float32, not %.60s",
                             name);
}

/* ---- how answers are decoded ---- */

/* Parameters are named as the plan's keys are. */
enum { MOST_PARAMETERS = 6 };
static const struct {
    const char *function;
    int count;
    enum sim_key keys[MOST_PARAMETERS];
} decodings[] = {
    {"temperature_sample",
     6,
     {SIM_TEMPERATURE, SIM_TOPK, SIM_TOPP, SIM_RESCALE_LOG_PROBS, SIM_MAX_DECODE_STEPS,
      SIM_MAX_DECODE_STEPS_HARD_LIMIT}},
    {"beam_search", 4, {SIM_ALPHA, SIM_MAX_DECODE_LEN, SIM_MAX_DECODE_STEP, SIM_MIN_LOG_PROB}},
    {"predict_batch_with_aux", 2, {SIM_NUM_DECODES, SIM_PROMPT_WITH_TARGETS}},
};

/* A number, or True and False as 1 and 0; None is T5X's default. */
static enum base_status set_decoding(struct sim_gin_draft *draft, enum sim_key key, const struct model_gin_value *value,
                                     struct model_gin_place place)
{
    const struct sim_plan_key *row = &sim_plan_keys[key];
    double number;
    if (sim_gin_is_open(draft, row->name, value, place)) return BASE_OK;
    if (value->kind == MODEL_GIN_BOOL) return sim_gin_set(draft, key, *value->text == 'T' ? "1" : "0", place), BASE_OK;
    if (value->kind != MODEL_GIN_NUMBER) return sim_gin_wrong_kind(draft, row->name, "a number", value, place);
    if (row->type != SIM_OF_TEXT && /* temperature, which is checked with the batch */
        base_parse_double(value->text, row->name, row->low, row->high, &number, draft->gin->error) != BASE_OK)
        return model_gin_fail_in(draft->gin, place);
    sim_gin_set(draft, key, value->text, place);
    return BASE_OK;
}

static enum base_status read_function(struct sim_gin_draft *draft)
{
    static const char *const functions[] = {"temperature_sample", "beam_search"};
    struct model_gin_place place = {0};
    const struct model_gin_value *model = draft->model.model,
                                 *value =
                                     model ? model_gin_get(draft->gin, model->scope, model->text, "decode_fn", &place)
                                           : NULL;
    if (!value || value->kind != MODEL_GIN_REFERENCE) return BASE_OK;
    for (int i = 0; i < BASE_COUNT(functions); i++)
        if (!strcmp(model_gin_last_part(value->text), functions[i]))
            return sim_gin_set(draft, SIM_DECODE_FN, functions[i], place), BASE_OK;
    return model_gin_fail_at(draft->gin, place,
                             "decode_fn: @%.100s is none of T5X's; use temperature_sample or beam_search", value->text);
}

static enum base_status read_decoding(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *model = draft->model.model, *value;
    BASE_TRY(read_function(draft));
    for (int i = 0; i < BASE_COUNT(decodings); i++)
        for (int k = 0; k < decodings[i].count; k++) {
            const enum sim_key key = decodings[i].keys[k];
            value = model_gin_get(draft->gin, "", decodings[i].function, sim_plan_keys[key].name, &place);
            if (value) BASE_TRY(set_decoding(draft, key, value, place));
        }
    const enum sim_key key = SIM_INPUTS_BIDIRECTIONAL_ATTENTION;
    value = model ? model_gin_get(draft->gin, model->scope, model->text, sim_plan_keys[key].name, &place) : NULL;
    return value ? set_decoding(draft, key, value, place) : BASE_OK;
}

/* Training-only keys; a model's own file may bind them. */
static void leave_training_out(struct sim_gin_draft *draft)
{
    static const enum sim_key keys[] = {SIM_NUM_MICROBATCHES, SIM_OPTIMIZER,    SIM_ADAFACTOR,
                                        SIM_LEARNING_RATE,    SIM_DROPOUT_RATE, SIM_LOSS_NORMALIZING_FACTOR,
                                        SIM_Z_LOSS,           SIM_SEED};
    for (int i = 0; i < BASE_COUNT(keys); i++) draft->plan.text.values[keys[i]] = NULL;
}

enum base_status sim_gin_read_inference(struct sim_gin_draft *draft)
{
    if (!sim_gin_infers(draft)) return BASE_OK;
    leave_training_out(draft);
    BASE_TRY(read_mode(draft));
    BASE_TRY(read_parameter_dtype(draft));
    return strcmp(draft->plan.text.values[SIM_STEP], "generate") == 0 ? read_decoding(draft) : BASE_OK;
}
