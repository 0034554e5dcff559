/* A plan as MaxText's command line: KEY=VALUE over base.yml (AI-Hypercomputer/maxtext src/MaxText/configs/base.yml of
 * maxtext 0.2.5, its names unchanged since 2024). */
#include "reports/launch.h"
#include "reports/reports.h"
#include "reports/template.h"

#include <string.h>

extern const char embedded_reports_maxtext_sh_txt[];

/* ---- mesh, batch, remat ---- */

/* MaxText's axes, and those of T5X's mesh under its names. */
static const char *axis_name(const struct sim_plan *plan, const char *axis)
{
    if (!strcmp(axis, "stage")) return "pipeline";
    if (!strcmp(axis, "model")) return "tensor";
    return !strcmp(axis, "data") && !strcmp(plan->rules_text, "zero3") ? "fsdp" : axis;
}

/* base.yml's defaults of omitted axes: fsdp inside a slice, data over slices. */
static void put_axes(const struct sim_plan *plan, const char *level, const struct topo_axes *axes, const char *between,
                     struct base_text *out)
{
    for (int i = 0; i < axes->count; i++)
        if (axes->sizes[i] > 1 || !strcmp(axis_name(plan, axes->names[i]), "fsdp"))
            base_putf(out, "%s_%s_parallelism=%d%s", level, axis_name(plan, axes->names[i]), axes->sizes[i], between);
}

/* device:query_proj+key_proj;offload:out_proj as custom, tensor by tensor. */
static void put_saved(const char *policy, const char *between, struct base_text *out)
{
    base_putf(out, "%sremat_policy=custom", between);
    for (const char *at = policy; *at; at += strcspn(at, ";"), at += *at == ';') {
        const int place = (int)strcspn(at, ":"), end = (int)strcspn(at, ";");
        for (int i = place + 1; i < end; i += (int)strcspn(at + i, "+;") + 1)
            if (strncmp(at, "layers", 6) != 0)
                base_putf(out, "%s%.*s=%.*s", between, (int)strcspn(at + i, "+;"), at + i, place, at);
    }
}

void reports_put_maxtext_plan(const struct sim_plan *plan, const char *between, struct base_text *out)
{
    const struct topo_mesh_request *request = &plan->request;
    const struct topo_axes *axes = request->ici_mesh.count ? &request->ici_mesh : &plan->placement->axes;
    const double devices = topo_axes_product(&plan->placement->axes, topo_axes_all(&plan->placement->axes));
    const char *remat = sim_plan_filled(out->arena, plan).values[SIM_REMAT_POLICY];
    put_axes(plan, "ici", axes, between, out);
    put_axes(plan, "dcn", &request->dcn_mesh, between, out);
    base_put(out, "per_device_batch_size=");
    base_put_double(out, (double)plan->batch_size / devices / (double)plan->num_microbatches);
    if (plan->num_microbatches > 1)
        base_putf(out, "%sgradient_accumulation_steps=%lld", between, (long long)plan->num_microbatches);
    base_putf(out, "%smax_target_length=%lld", between, (long long)plan->targets_length);
    if (plan->loss_tiles > 1) base_putf(out, "%snum_vocab_tiling=%lld", between, (long long)plan->loss_tiles);
    if (strchr(remat, ':')) put_saved(remat, between, out);
    else base_putf(out, "%sremat_policy=%s", between, remat);
    base_putf(out, "%sattention=%s", between, plan->options.flash_attention ? "flash" : "dot_product");
    if (request->split_physical_axes) base_putf(out, "%sallow_split_physical_axes=true", between);
    if (plan->options.dtype == MODEL_INT8 || plan->options.dtype == MODEL_FP8)
        base_putf(out, "%squantization=%s", between, model_dtype_name(plan->options.dtype));
}

/* ---- the model ---- */

/* MaxText's model_name of a zoo's model: file names of src/MaxText/configs/models. */
static const char *const models[] = {
    "llama2-7b",       "llama2-13b",    "llama2-70b",     "llama3-8b",      "llama3-70b",     "llama3-405b",
    "mistral-7b",      "mixtral-8x7b",  "mixtral-8x22b",  "gemma-2b",       "gemma-7b",       "gemma2-2b",
    "gemma2-9b",       "gemma2-27b",    "gemma3-4b",      "gemma3-12b",     "gemma3-27b",     "qwen3-0.6b",
    "qwen3-1.7b",      "qwen3-4b",      "qwen3-8b",       "qwen3-14b",      "qwen3-32b",      "qwen3-30b-a3b",
    "qwen3-235b-a22b", "deepseek2-16b", "deepseek2-236b", "deepseek3-671b", "llama4-17b-16e", "llama4-17b-128e"};

const char *reports_maxtext_model(struct base_arena *arena, const char *model)
{
    const char *asked = model_zoo_name(arena, model);
    for (int i = 0; i < BASE_COUNT(models) && asked; i++) {
        const char *name = model_zoo_name(arena, models[i]);
        if (name && !strcmp(name, asked)) return models[i];
    }
    return NULL;
}

static enum base_status put_sizes(const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const struct model_config *c = plan->config;
    const bool gated = c->mlp_activation_count == 2 && c->mlp_activations[0] == MODEL_SILU;
    const struct {
        bool lacks;
        const char *key;
    } lacks[] = {{c->encoder, "model, an encoder"},
                 {c->position_encoding != MODEL_POSITION_ROTARY, "position_encoding"},
                 {c->norm != MODEL_NORM_RMS, "norm"},
                 {c->biases, "biases"},
                 {!gated, "mlp_activations"},
                 {c->experts.count > 0, "num_experts"},
                 {c->latent.key_value_rank > 0, "latent attention"}};
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"base_emb_dim", c->emb_dim},
                 {"base_num_query_heads", c->num_heads},
                 {"base_num_kv_heads", c->num_kv_heads},
                 {"base_mlp_dim", c->mlp_dim},
                 {"base_num_decoder_layers", c->num_decoder_layers},
                 {"head_dim", c->head_dim},
                 {"vocab_size", c->vocab_size}};
    for (int i = 0; i < BASE_COUNT(lacks); i++)
        if (lacks[i].lacks)
            return base_fail(error, BASE_INPUT,
                             "%s: sizes of MaxText's default model cannot express it; use a model that MaxText has by "
                             "name, such as llama3_8b",
                             lacks[i].key);
    base_put(out, "model_name=default decoder_block=llama2");
    for (int i = 0; i < BASE_COUNT(sizes); i++)
        base_putf(out, " \\\n    %s=%lld", sizes[i].name, (long long)sizes[i].value);
    base_putf(out, " \\\n    mlp_activations=[silu,linear] logits_via_embedding=%s use_qk_norm=%s",
              c->logits_via_embedding ? "True" : "False", c->qk_norm ? "True" : "False");
    return BASE_OK;
}

enum base_status reports_launch_maxtext(struct base_arena *arena, const struct sim_plan_text *text,
                                        const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const char *name = reports_maxtext_model(arena, plan->model_text);
    const bool shards = !strcmp(plan->rules_text, "zero3"); /* over data, which is MaxText's fsdp */
    const bool named = shards ? topo_axis_named(&plan->request.ici_mesh, "fsdp") < 0 : plan->request.ici_mesh.count > 0;
    (void)text;
    if (!named || (strcmp(plan->rules_text, "maxtext") != 0 && !shards))
        return base_fail(error, BASE_INPUT,
                         "logical_axis_rules: MaxText shards by its own rules on its own mesh; use --software maxtext");
    BASE_TRY(reports_check_written(arena, "maxtext", plan, error));
    if (plan->options.saved.layers)
        return base_fail(error, BASE_INPUT, "remat_policy: MaxText's is that of all layers; use full");
    const enum model_dtype dtype = plan->options.dtype;
    const enum model_moment moment = plan->options.moment_dtype;
    const bool is_dense = plan->moe_dispatcher == SIM_DISPATCH_DENSE && plan->capacity_factor > 0;
    struct base_text sizes = {.arena = arena}, settings = {.arena = arena};
    struct reports_values values = {.arena = arena};
    if (name) base_putf(&sizes, "model_name=%s", name);
    else BASE_TRY(put_sizes(plan, &sizes, error));
    reports_put_maxtext_plan(plan, " \\\n    ", &settings);
    reports_value(&values, "title", reports_launch_line(arena, plan));
    reports_value(&values, "model", sizes.data);
    reports_value(&values, "plan", settings.data);
    reports_value(&values, "dtype",
                  model_dtype_name(dtype == MODEL_FLOAT32 || dtype == MODEL_FLOAT16 ? dtype : MODEL_BFLOAT16));
    reports_value(&values, "weight_dtype", model_dtype_name(plan->options.weight_dtype));
    reports_value(&values, "optimizer", plan->options.optimizer == MODEL_SGD ? "sgd" : "adamw");
    reports_value_double(&values, "learning_rate", plan->learning_rate);
    if (is_dense) reports_value_double(&values, "capacity_factor", plan->capacity_factor);
    else reports_value(&values, "capacity_factor", NULL);
    reports_value(&values, "moment_dtype",
                  moment == MODEL_MOMENT_AS_WEIGHTS ? NULL
                  : moment == MODEL_MOMENT_BFLOAT16 ? "bfloat16"
                                                    : "float32");
    reports_value_double(&values, "dropout", plan->options.dropout ? plan->dropout_rate : 0);
    reports_value(&values, "scanned", plan->config->scan_layers ? "True" : "False");
    reports_put_template(embedded_reports_maxtext_sh_txt, &values, out);
    return BASE_OK;
}
