/* Megatron-LM: defaults of omitted arguments (megatron/training/arguments.py). */
#include "model/import/import_draft.h"

#include <string.h>

static enum base_status put_stages(struct import_draft *draft)
{
    int64_t stages, each, layers, chunks;
    const struct import_slot *slot = model_import_slot(draft, ".layers_of_chunk");
    BASE_TRY(model_import_int(draft, "pipeline_stages", 1, &stages));
    BASE_TRY(model_import_int(draft, "model.num_layers", 1, &layers));
    BASE_TRY(model_import_int(draft, ".layers_of_chunk", 1, &each));
    if (slot && stages > 1) {
        if (stages > 65536 || each > 65536 || layers % (stages * each))
            return model_import_fail(draft, slot, "%lld layers are no multiple of %lld stages x %lld layers of a chunk",
                                     (long long)layers, (long long)stages, (long long)each);
        model_import_put_int(draft, "virtual_stages", layers / stages / each);
    }
    BASE_TRY(model_import_int(draft, "virtual_stages", 1, &chunks));
    if (stages > 1) model_import_put(draft, "pipeline_schedule", chunks > 1 ? "interleaved" : "1f1b");
    return BASE_OK;
}

/* "[core_attn, mlp]" and "core_attn mlp" as "core_attn+mlp". */
static const char *joined(struct base_arena *arena, const char *list)
{
    struct base_text out = {.arena = arena};
    base_put(&out, "");
    for (const char *at = list; *at;) {
        const size_t gap = strspn(at, "[]\"', +"), length = strcspn(at + gap, "[]\"', +");
        if (length && out.length) base_put(&out, "+");
        base_put_bytes(&out, at + gap, length);
        at += gap + length;
    }
    return out.data;
}

static enum base_status put_remat(struct import_draft *draft)
{
    const char *granularity = model_import_said(draft, ".granularity", NULL),
               *modules = model_import_said(draft, ".recompute_modules", NULL);
    int64_t count, layers, stages, chunks;
    BASE_TRY(model_import_int(draft, ".recompute_layers", 1, &count));
    BASE_TRY(model_import_int(draft, "model.num_layers", 0, &layers));
    BASE_TRY(model_import_int(draft, "pipeline_stages", 1, &stages));
    BASE_TRY(model_import_int(draft, "virtual_stages", 1, &chunks));
    const int64_t each = layers / stages / chunks;
    if (!granularity) return BASE_OK;
    if (!strcmp(granularity, "selective"))
        model_import_put(draft, "remat_policy",
                         modules && strcmp(joined(draft->arena, modules), "core_attn") != 0
                             ? base_print(draft->arena, "modules:%.100s", joined(draft->arena, modules))
                             : "selective");
    else {
        const bool block = !strcmp(model_import_said(draft, ".recompute_method", "uniform"), "block");
        if (block ? each > 0 && count < each : count > 1)
            model_import_warn(
                draft, model_import_slot(draft, ".recompute_layers")->place,
                block ? "%lld layers of each stage are recomputed; the prediction recomputes all"
                      : "inputs are saved once for each %lld layers; the prediction saves those of each layer",
                (long long)count);
        model_import_put(draft, "remat_policy", "full");
    }
    return BASE_OK;
}

static enum base_status put_mlp(struct import_draft *draft)
{
    const bool gated = !strcmp(model_import_said(draft, "model.mlp_activations", "gelu"), "silu+linear");
    int64_t width;
    BASE_TRY(model_import_int(draft, "model.emb_dim", 0, &width));
    if (width > 1 << 20) return BASE_OK;
    if (gated && width && !model_import_slot(draft, "model.mlp_dim"))
        model_import_put_int(draft, "model.mlp_dim", width * 4 * 2 / 3 / 64 * 64);
    return BASE_OK;
}

/* NullTokenizer adds one token, for the end of a document. A zoo model keeps its own vocabulary. */
static void put_vocabulary(struct import_draft *draft)
{
    const char *name = model_import_said(draft, ".tokenizer_model", "");
    int64_t size;
    int count;
    struct model_config config;
    struct base_error ignored;
    if (!strcmp(model_import_said(draft, ".tokenizer", ""), "NullTokenizer") &&
        model_import_int(draft, "model.vocab_size", 0, &size) == BASE_OK && size)
        model_import_put_int(draft, "model.vocab_size", size + 1);
    const struct model_zoo_model *zoo = model_zoo(draft->arena, &count);
    const char *meant = model_zoo_meant(zoo, count, name);
    if (meant && model_config_parse(draft->arena, meant, &config, &ignored) == BASE_OK)
        model_import_default(draft, "model.vocab_size", base_print(draft->arena, "%lld", (long long)config.vocab_size));
}

/* arguments.py: sequence parallelism without tensor parallelism is turned off. */
static void put_sequence(struct import_draft *draft)
{
    if (!strcmp(model_import_said(draft, ".tensor", "1"), "1") && model_import_slot(draft, "sequence_parallel"))
        model_import_put(draft, "sequence_parallel", "0");
}

/* Modules of a layer, the whole layer if none is named, or the whole iteration. Graphs came with core 0.14; rows of
 * import_defaults.csv say the version with its kernels, and Megatron-LM's own defaults beside it. */
static void put_graphs(struct import_draft *draft)
{
    const char *by = model_import_said(draft, ".graphs", "none"),
               *modules = joined(draft->arena, model_import_said(draft, ".graph_modules", ""));
    if (!strcmp(by, "none")) return;
    if (!*modules || !strcmp(modules, "full"))
        modules = model_import_slot(draft, "model.num_experts") ? "attn+moe" : "attn+mlp";
    const bool whole = !strcmp(by, "full_iteration") || strstr(modules, "full_iteration");
    model_import_put(draft, "cuda_graphs",
                     whole ? "full_iteration" : base_print(draft->arena, "%s:%.100s", by, modules));
    if (model_import_slot(draft, "model.num_experts"))
        model_import_default(draft, "expert_tensor_parallel", model_import_said(draft, ".tensor", "1"));
}

enum base_status model_import_megatron(struct import_draft *draft)
{
    BASE_TRY(put_stages(draft));
    put_sequence(draft);
    BASE_TRY(put_remat(draft));
    BASE_TRY(put_mlp(draft));
    put_vocabulary(draft);
    put_graphs(draft);
    if (!strcmp(draft->kind, "megatron") && model_import_slot(draft, ".fp8")) model_import_put(draft, "dtype", "fp8");
    model_import_defaults(draft);
    if (!strcmp(model_import_said(draft, "model.position_encoding", ""), "learned") &&
        model_import_slot(draft, ".positions"))
        model_import_default(draft, "model.num_positions", model_import_said(draft, ".positions", NULL));
    return BASE_OK;
}
