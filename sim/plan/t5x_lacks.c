/* Features of a plan that no version of T5X has: a T5X run file would silently train without them. */
#include "sim/plan/plan.h"

#include <string.h>

enum { MOST = SIM_KEY_COUNT + 16 };

/* Model features, and values that T5X supports only for some models. */
static int add_model(const struct sim_plan *plan, const char **out)
{
    const struct model_config *config = plan->config;
    const struct {
        bool asked;
        const char *what;
    } wishes[] = {
        {config->num_kv_heads != config->num_heads, "num_kv_heads"},
        {config->parallel_block, "parallel_block"},
        {config->position_encoding != MODEL_POSITION_RELATIVE_BIAS, "this position_encoding"},
        {config->norm != MODEL_NORM_RMS, "norm=layer"},
        {config->biases, "biases"},
        {config->qk_norm, "qk_norm"},
        {config->sliding_window > 0, "sliding windows"},
        {config->scan_layers && !config->encoder, "a scanned decoder-only network (its module has to be added)"},
        {plan->options.remat == MODEL_REMAT_SELECTIVE, "remat_policy selective"},
        {plan->options.remat == MODEL_REMAT_TENSORS, "a remat_policy that names tensors"},
        {plan->remat_every > 0, "remat_policy full;every"},
        {plan->remat_layers > 0, "remat_policy full;layers"},
        {!config->scan_layers && plan->options.remat != MODEL_REMAT_NONE &&
             plan->options.remat != MODEL_REMAT_SELECTIVE,
         "remat of a model that is not scanned"},
        {model_dtype_is_quantized(plan->options.dtype), model_dtype_name(plan->options.dtype)},
        {model_infers(plan->options.step) && plan->options.parameter_dtype == MODEL_INT8, "parameter_dtype int8"},
    };
    int count = 0;
    for (int i = 0; i < BASE_COUNT(wishes); i++)
        if (wishes[i].asked) out[count++] = wishes[i].what;
    return count;
}

static int list(struct base_arena *arena, const struct sim_plan *plan, const char *out[MOST])
{
    struct sim_plan_text filled = sim_plan_filled(arena, plan);
    int count = add_model(plan, out);
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const struct sim_plan_key *row = &sim_plan_keys[key];
        if (row->t5x_lacks && filled.values[key] && (!row->fallback || strcmp(filled.values[key], row->fallback) != 0))
            out[count++] = row->t5x_lacks;
    }
    return count;
}

const char *sim_t5x_lacks(struct base_arena *arena, const struct sim_plan *plan, const struct sim_plan *but_not)
{
    const char *lacks[MOST], *known[MOST];
    int count = list(arena, plan, lacks), known_count = but_not ? list(arena, but_not, known) : 0;
    struct base_text joined = {.arena = arena};
    for (int i = 0; i < count; i++) {
        bool new = true;
        for (int k = 0; k < known_count; k++) new = new &&strcmp(lacks[i], known[k]) != 0;
        if (new) base_putf(&joined, "%s%s", joined.length ? ", " : "", lacks[i]);
    }
    return joined.length ? joined.data : NULL;
}
