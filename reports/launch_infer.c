/* Bindings of T5X's infer.py besides model and partitioner: the mode, the dtype of restored parameters, and decoding.
 */
#include "reports/launch.h"

#include <string.h>

/* Owner of each given key's parameter. NULL: the model's class itself. */
static const struct {
    enum sim_key key;
    const char *callee, *parameter;
} bindings[] = {
    {SIM_TEMPERATURE, "decoding.temperature_sample", "temperature"},
    {SIM_TOPK, "decoding.temperature_sample", "topk"},
    {SIM_TOPP, "decoding.temperature_sample", "topp"},
    {SIM_RESCALE_LOG_PROBS, "decoding.temperature_sample", "rescale_log_probs"},
    {SIM_MAX_DECODE_STEPS, "decoding.temperature_sample", "max_decode_steps"},
    {SIM_MAX_DECODE_STEPS_HARD_LIMIT, "decoding.temperature_sample", "max_decode_steps_hard_limit"},
    {SIM_ALPHA, "decoding.beam_search", "alpha"},
    {SIM_MAX_DECODE_LEN, "decoding.beam_search", "max_decode_len"},
    {SIM_MAX_DECODE_STEP, "decoding.beam_search", "max_decode_step"},
    {SIM_MIN_LOG_PROB, "decoding.beam_search", "min_log_prob"},
    {SIM_NUM_DECODES, "predict_batch_with_aux", "num_decodes"},
    {SIM_PROMPT_WITH_TARGETS, "predict_batch_with_aux", "prompt_with_targets"},
    {SIM_INPUTS_BIDIRECTIONAL_ATTENTION, NULL, "inputs_bidirectional_attention"},
};

static bool is_truth(enum sim_key key)
{
    return key == SIM_RESCALE_LOG_PROBS || key == SIM_PROMPT_WITH_TARGETS || key == SIM_INPUTS_BIDIRECTIONAL_ATTENTION;
}

static void put_binding(const struct sim_plan *plan, int which, const char *value, struct base_text *out)
{
    const char *class = plan->config->encoder ? "models.EncoderDecoderModel" : "models.DecoderOnlyModel",
               *callee = bindings[which].callee;
    const enum sim_key key = bindings[which].key;
    if (!callee) base_putf(out, "%s.", class);
    else if (!strchr(callee, '.')) base_putf(out, "%s.%s.", class, callee);
    else base_putf(out, "%s.", callee);
    if (is_truth(key)) value = strcmp(value, "0") != 0 ? "True" : "False";
    base_putf(out, "%s = %s\n", bindings[which].parameter, value);
}

/* A temperature an example is no constant that gin could bind. */
static bool can_be_bound(enum sim_key key, const char *value)
{
    return key != SIM_TEMPERATURE || !strpbrk(value, "[,");
}

void reports_launch_put_infer(const struct sim_plan_text *text, const struct sim_plan *plan, struct base_text *out)
{
    base_putf(out, "infer_script.infer.mode = '%s'\n", plan->options.step == MODEL_STEP_SCORE ? "score" : "predict");
    base_putf(out, "utils.RestoreCheckpointConfig.dtype = '%s'\n",
              plan->options.parameter_dtype == MODEL_FLOAT32 ? "float32" : "bfloat16");
    if (plan->options.step != MODEL_STEP_GENERATE) return;
    if (sim_key_is_given(text, SIM_DECODE_FN) && plan->decoding.word != SIM_MODEL_DEFAULT)
        base_putf(out, "%s.decode_fn = @decoding.%s\n",
                  plan->config->encoder ? "models.EncoderDecoderModel" : "models.DecoderOnlyModel",
                  text->values[SIM_DECODE_FN]);
    for (int i = 0; i < BASE_COUNT(bindings); i++) {
        const char *value = text->values[bindings[i].key];
        if (sim_key_is_given(text, bindings[i].key) && can_be_bound(bindings[i].key, value))
            put_binding(plan, i, value, out);
    }
}
