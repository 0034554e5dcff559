/* Decoding of a plan, and the program sizes that follow from it. */
#include "sim/plan/plan_parts.h"

#include <string.h>

static const double least_temperature = 1e-4; /* T5X's: below it there is nothing to draw */

/* Numbers, one for every example or one a row: "0.7", "0,0.5" or [0, 0.5]. */
static enum base_status read_temperatures(struct base_arena *arena, const struct sim_plan *plan, const char *text,
                                          struct sim_decoding *out, struct base_error *error)
{
    const double highest = 1e6;
    size_t length = strlen(text);
    bool list = *text == '[' && text[length - 1] == ']';
    char *copy = base_copy_bytes(arena, text + list, length - 2 * (size_t)list), *rest = copy;
    double *temperatures = base_new(arena, double, (int)length + 1);
    int count = 0;
    for (char *item = copy; rest; item = rest) {
        rest = strchr(item, ',');
        if (rest) *rest++ = '\0';
        while (*item == ' ') item++;
        BASE_TRY(base_parse_double(item, "temperature", 0, highest, &temperatures[count++], error));
    }
    if (count != 1 && count != plan->batch_size)
        return base_fail(error, BASE_INPUT, "temperature: has %d numbers; use one, or one for each of %lld examples",
                         count, (long long)plan->batch_size);
    out->temperatures = temperatures;
    out->temperature_count = count;
    return BASE_OK;
}

static enum base_status check(const struct sim_plan *plan, const struct sim_decoding *d, struct base_error *error)
{
    if (d->function == MODEL_TEMPERATURE_SAMPLE && d->topk && d->topp > 0)
        return base_fail(error, BASE_INPUT, "topp: T5X filters by topk or by topp, not by both; use topk 0, or topp 0");
    if (d->max_decode_steps > plan->targets_length)
        return base_fail(error, BASE_INPUT,
                         "max_decode_steps: %lld is more than the length of the targets; at most %lld",
                         (long long)d->max_decode_steps, (long long)plan->targets_length);
    if (d->prompt_with_targets && !plan->config->encoder)
        return base_fail(error, BASE_INPUT,
                         "prompt_with_targets: a decoder's prompts are its inputs anyway; leave it out");
    if (d->inputs_bidirectional_attention && plan->config->encoder)
        return base_fail(error, BASE_INPUT,
                         "inputs_bidirectional_attention: is a decoder's; an encoder sees all inputs anyway");
    return BASE_OK;
}

/* The decoding function that the plan names, or else its model's: beams with an encoder, sampling without. */
static void resolve(const struct sim_plan *plan, struct sim_decoding *d)
{
    bool beams = d->word == SIM_BEAM_SEARCH || (d->word == SIM_MODEL_DEFAULT && plan->config->encoder);
    d->function = beams ? MODEL_BEAM_SEARCH : MODEL_TEMPERATURE_SAMPLE;
}

static struct model_decoding shape_of(const struct sim_plan *plan, const struct sim_decoding *d)
{
    struct model_decoding shape;
    memset(&shape, 0, sizeof shape); /* compared with its padding */
    bool samples = d->function == MODEL_TEMPERATURE_SAMPLE;
    shape.function = d->function;
    shape.several = d->num_decodes > 1;
    for (int i = 0; i < d->temperature_count; i++)
        shape.draws = shape.draws || (samples && d->temperatures[i] > least_temperature);
    shape.top_k = shape.draws && d->topk > 0;
    shape.top_p = shape.draws && d->topp > 0;
    shape.rescales = samples && d->rescale_log_probs;
    shape.prompts = d->prompt_with_targets;
    shape.bidirectional = d->inputs_bidirectional_attention;
    for (int i = 0; i < plan->rules->count; i++)
        shape.cache_rules = shape.cache_rules || (plan->rules->rules[i].logical &&
                                                  !strncmp(plan->rules->rules[i].logical, "cache_", strlen("cache_")));
    shape.bounded = !samples && d->min_log_prob < 0;
    return shape;
}

static bool is_given(const struct sim_plan_text *text, int key)
{
    return sim_key_is_given(text, (enum sim_key)key);
}

/* T5X's decoding functions refuse each other's bounds: Python knows no such argument. */
static enum base_status check_bounds(const struct sim_plan_text *text, const struct sim_decoding *d,
                                     struct base_error *error)
{
    static const struct {
        enum sim_key key;
        enum model_decode_function of;
        const char *instead;
    } bounds[] = {{SIM_MAX_DECODE_LEN, MODEL_BEAM_SEARCH, "temperature_sample has max_decode_steps"},
                  {SIM_MAX_DECODE_STEP, MODEL_BEAM_SEARCH, "temperature_sample has max_decode_steps"},
                  {SIM_MAX_DECODE_STEPS, MODEL_TEMPERATURE_SAMPLE, "beam_search has max_decode_len"},
                  {SIM_MAX_DECODE_STEPS_HARD_LIMIT, MODEL_TEMPERATURE_SAMPLE, "beam_search has max_decode_len"}};
    for (int i = 0; i < BASE_COUNT(bounds); i++)
        if (is_given(text, (int)bounds[i].key) && d->function != bounds[i].of)
            return base_fail(error, BASE_INPUT, "%s: T5X's %s; use that, or decode_fn %s",
                             sim_plan_keys[bounds[i].key].name, bounds[i].instead,
                             bounds[i].of == MODEL_BEAM_SEARCH ? "beam_search" : "temperature_sample");
    return BASE_OK;
}

enum base_status sim_plan_read_decoding(struct base_arena *arena, const struct sim_plan_text *text,
                                        struct sim_plan *plan, struct base_error *error)
{
    struct sim_decoding *d = &plan->decoding;
    memset(&plan->options.decoding, 0, sizeof plan->options.decoding);
    plan->temperature_text =
        is_given(text, SIM_TEMPERATURE) ? text->values[SIM_TEMPERATURE] : sim_plan_keys[SIM_TEMPERATURE].fallback;
    for (int key = SIM_DECODE_FN; key <= SIM_PARAMETER_DTYPE && !model_infers(plan->options.step); key++)
        if (is_given(text, key))
            return base_fail(error, BASE_INPUT, "%s: is of inference; leave it out of a step that trains",
                             sim_plan_keys[key].name);
    if (!model_infers(plan->options.step)) return BASE_OK;
    BASE_TRY(read_temperatures(arena, plan, plan->temperature_text, d, error));
    resolve(plan, d);
    BASE_TRY(check_bounds(text, d, error));
    if (plan->config->encoder && plan->options.step == MODEL_STEP_PREFILL)
        return base_fail(error, BASE_INPUT, "--step: models with an encoder have no prefill; use encode");
    if (!plan->config->encoder && plan->options.step == MODEL_STEP_ENCODE)
        return base_fail(error, BASE_INPUT, "--step: %s has no encoder; use prefill", plan->config->name);
    plan->options.decoding = shape_of(plan, d);
    plan->options.parameter_dtype = d->parameter_dtype == SIM_AS_COMPUTED
                                        ? plan->options.dtype == MODEL_FLOAT32 ? MODEL_FLOAT32 : MODEL_BFLOAT16
                                        : (enum model_dtype)d->parameter_dtype;
    return check(plan, d, error);
}

/* ---- the step ---- */

enum base_status sim_plan_step(const struct sim_plan_text *text, enum model_step *out, struct base_error *error)
{
    const struct sim_word *words = sim_plan_keys[SIM_STEP].words;
    const char *names[SIM_MOST_WORDS];
    int count = 0, which;
    while (count < SIM_MOST_WORDS && words[count].name) names[count] = words[count].name, count++;
    *out = MODEL_STEP_TRAIN;
    if (!is_given(text, SIM_STEP)) return BASE_OK;
    BASE_TRY(base_parse_word(text->values[SIM_STEP], "step", names, count, &which, error));
    *out = (enum model_step)words[which].value;
    return BASE_OK;
}

enum base_status sim_plan_take_step(const struct sim_plan_text *text, enum model_step step, struct sim_plan *plan,
                                    struct base_error *error)
{
    enum model_step said = step;
    if (is_given(text, SIM_STEP)) BASE_TRY(sim_plan_step(text, &said, error));
    plan->options.step = step;
    if (said == step) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "step: the plan is for %s, which is another step than this command's; use predict, tune or infer, "
                     "or leave step out",
                     text->values[SIM_STEP]);
}
