/* Megatron-LM: defaults of omitted arguments (megatron/training/arguments.py). */
#include "model/import/import_draft.h"

#include <string.h>

/* Embedding and loss are counted as layers, each where its option says so. */
static int64_t count_ends(const struct import_draft *draft)
{
    return (model_import_slot(draft, ".counts_embedding") != NULL) + (model_import_slot(draft, ".counts_loss") != NULL);
}

static enum base_status put_stages(struct import_draft *draft)
{
    int64_t stages, each, layers, chunks;
    const struct import_slot *slot = model_import_slot(draft, ".layers_of_chunk");
    BASE_TRY(model_import_int(draft, "pipeline_stages", 1, &stages));
    BASE_TRY(model_import_int(draft, "model.num_layers", 1, &layers));
    BASE_TRY(model_import_int(draft, ".layers_of_chunk", 1, &each));
    layers += count_ends(draft);
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

/* Stage chunks of Et|(tt|)*30mL: ends of chunks in the text up to a bracket that closes, and one. */
static int64_t count_chunks(const char **at, int depth)
{
    enum { MOST = 1 << 16 };
    int64_t sum = 0;
    while (**at && **at != ')' && sum < MOST) {
        const char one = *(*at)++;
        int64_t count = one == '|', times = 0;
        if (one == '(' && depth < 8) {
            count = count_chunks(at, depth + 1);
            *at += **at == ')';
        }
        if (**at != '*') {
            sum += count;
            continue;
        }
        for (++*at; **at >= '0' && **at <= '9' && times < MOST; ++*at) times = 10 * times + (**at - '0');
        sum += count * times;
    }
    return sum;
}

static enum base_status put_layers(struct import_draft *draft, int64_t stages, int64_t layers, int64_t chunks)
{
    const struct import_slot *first = model_import_slot(draft, ".layers_first"),
                             *last = model_import_slot(draft, ".layers_last"), *slot = first ? first : last;
    struct base_text text = {.arena = draft->arena};
    int64_t ends[2] = {0};
    if (!slot || stages < 2) return BASE_OK;
    BASE_TRY(model_import_int(draft, ".layers_first", 0, &ends[0]));
    BASE_TRY(model_import_int(draft, ".layers_last", 0, &ends[1]));
    const int64_t others = stages - (first != NULL) - (last != NULL), rest = layers - ends[0] - ends[1];
    if (stages > 1024 || rest < 0 || (others ? rest % (others * chunks) != 0 : rest != 0))
        return model_import_fail(draft, slot, "leaves %lld layers, which %lld stages of %lld chunks do not divide",
                                 (long long)rest, (long long)others, (long long)chunks);
    if (chunks > 1) {
        model_import_warn(draft, slot->place, "%.100s with chunks of stages is modelled as even", slot->from);
        return BASE_OK;
    }
    for (int64_t i = 0; i < stages; i++)
        base_putf(&text, "%s%lld", i ? "," : "",
                  (long long)(!i && first               ? ends[0]
                              : i == stages - 1 && last ? ends[1]
                                                        : rest / others));
    model_import_put(draft, "pipeline_layers", text.data);
    return BASE_OK;
}

/* What the layers of stages are, where they are not even. */
static enum base_status put_uneven(struct import_draft *draft)
{
    const struct import_slot *embedding = model_import_slot(draft, ".counts_embedding"),
                             *loss = model_import_slot(draft, ".counts_loss"),
                             *layout = model_import_slot(draft, "pipeline_layout");
    int64_t stages, layers, chunks;
    BASE_TRY(model_import_int(draft, "pipeline_stages", 1, &stages));
    BASE_TRY(model_import_int(draft, "model.num_layers", 0, &layers));
    if (layout) {
        const char *at = layout->value;
        const int64_t count = count_chunks(&at, 0) + 1;
        if (stages > 1 && count > stages && count % stages == 0)
            model_import_put_int(draft, "virtual_stages", count / stages);
    }
    BASE_TRY(model_import_int(draft, "virtual_stages", 1, &chunks));
    if (embedding && loss) model_import_put(draft, "pipeline_partition", "layers+embeddings");
    else if (embedding || loss)
        model_import_warn(draft, embedding ? embedding->place : loss->place,
                          "%.100s alone is not modelled: stages are taken as even",
                          embedding ? embedding->from : loss->from);
    return put_layers(draft, stages, layers, chunks);
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
        if (block && each > 0 && count < each)
            return model_import_put(draft, "remat_policy",
                                    base_print(draft->arena, "full;layers:%lld", (long long)count)),
                   BASE_OK;
        if (!block && count > 1)
            model_import_warn(draft, model_import_slot(draft, ".recompute_layers")->place,
                              "inputs are saved once for each %lld layers; the prediction saves those of each layer",
                              (long long)count);
        model_import_put(draft, "remat_policy", "full");
    }
    return BASE_OK;
}

/* arguments.py: --num-query-groups counts with --group-query-attention alone. */
static void put_groups(struct import_draft *draft)
{
    const struct import_slot *groups = model_import_slot(draft, "model.num_kv_heads");
    if (!groups || strcmp(draft->kind, "megatron") != 0 || model_import_slot(draft, ".groups")) return;
    if (strcmp(groups->from, "num_query_groups") != 0) return;
    model_import_warn(draft, groups->place,
                      "num_query_groups = %.20s has no effect without --group-query-attention: each head has its own "
                      "keys",
                      groups->value);
    model_import_put(draft, "model.num_kv_heads", model_import_said(draft, "model.num_heads", ""));
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

/* "([0]*3+[1]*58)": layers without experts before the others. */
static void put_dense_layers(struct import_draft *draft)
{
    static const char form[] = "([0]*", then[] = "+[1]*", digits[] = "0123456789";
    const struct import_slot *slot = model_import_slot(draft, ".dense_layers");
    if (!slot) return;
    const bool begins = !strncmp(slot->value, form, strlen(form));
    const char *count = slot->value + (begins ? strlen(form) : 0), *rest = count + strspn(count, digits);
    const size_t length = (size_t)(rest - count);
    const bool goes_on = begins && length && !strncmp(rest, then, strlen(then));
    if (goes_on) rest += strlen(then), rest += strspn(rest, digits);
    if (goes_on && !strcmp(rest, ")"))
        model_import_put(draft, "model.first_dense_layers", base_copy_bytes(draft->arena, count, length));
    else
        model_import_warn(draft, slot->place, "moe_layer_freq = %.60s changes the answer and is not modelled",
                          slot->value);
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

/* arguments.py: sequence parallelism without tensor parallelism is turned off, and its exchanges overlap only where
 * --tp-comm-overlap says so. */
static void put_sequence(struct import_draft *draft)
{
    const bool shards = strcmp(model_import_said(draft, ".tensor", "1"), "1") != 0;
    if (!shards && model_import_slot(draft, "sequence_parallel")) model_import_put(draft, "sequence_parallel", "0");
    if (shards && (!strcmp(draft->kind, "megatron") || model_import_slot(draft, ".bridge")) &&
        !strcmp(model_import_said(draft, "sequence_parallel", "0"), "1"))
        model_import_default(draft, "tp_comm_overlap", "0");
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

static bool is_uneven(const struct import_draft *draft)
{
    static const char *const names[] = {".counts_embedding", ".counts_loss", ".layers_first", ".layers_last",
                                        "pipeline_layout"};
    for (int i = 0; i < BASE_COUNT(names); i++)
        if (model_import_slot(draft, names[i])) return true;
    return false;
}

/* Divisibility that megatron/training/arguments.py and its models assert. */
static enum base_status check_divisors(const struct import_draft *draft)
{
    static const struct {
        const char *size, *by[2];
    } rows[] = {{"model.num_layers", {"pipeline_stages", "virtual_stages"}},
                {"model.num_heads", {".tensor"}},
                {"model.num_kv_heads", {".tensor"}},
                {"model.num_experts", {"expert_parallel"}}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        int64_t size, factors[2] = {1, 1};
        const struct import_slot *slot = model_import_slot(draft, rows[i].size);
        BASE_TRY(model_import_int(draft, rows[i].size, 0, &size));
        for (int f = 0; f < 2 && rows[i].by[f]; f++) BASE_TRY(model_import_int(draft, rows[i].by[f], 1, &factors[f]));
        if (!size || !slot->place.line || (i == 0 && is_uneven(draft))) continue;
        if (factors[0] > 65536 || factors[1] > 65536 || size % (factors[0] * factors[1]) == 0) continue;
        if (size < factors[0] && !strcmp(rows[i].size, "model.num_kv_heads")) continue; /* copied to each */
        return model_import_fail(draft, slot, "%lld is no multiple of %s %lld, and Megatron refuses that",
                                 (long long)size, model_import_slot(draft, rows[i].by[0])->from,
                                 (long long)(factors[0] * factors[1]));
    }
    return BASE_OK;
}

static enum base_status check_positions(const struct import_draft *draft)
{
    int64_t length, positions;
    const struct import_slot *slot = model_import_slot(draft, ".positions");
    BASE_TRY(model_import_int(draft, "targets_length", 0, &length));
    BASE_TRY(model_import_int(draft, ".positions", length, &positions));
    if (positions >= length) return BASE_OK;
    return model_import_fail(draft, slot, "%lld is below the sequence length %lld, and Megatron refuses that",
                             (long long)positions, (long long)length);
}

enum base_status model_import_megatron(struct import_draft *draft)
{
    BASE_TRY(put_uneven(draft));
    BASE_TRY(put_stages(draft));
    if (!strcmp(draft->kind, "megatron")) {
        BASE_TRY(check_divisors(draft));
        BASE_TRY(check_positions(draft));
    }
    put_sequence(draft);
    put_groups(draft);
    BASE_TRY(put_remat(draft));
    BASE_TRY(put_mlp(draft));
    put_vocabulary(draft);
    put_dense_layers(draft);
    put_graphs(draft);
    if (!strcmp(draft->kind, "megatron") && model_import_slot(draft, ".fp8")) model_import_put(draft, "dtype", "fp8");
    model_import_defaults(draft);
    if (!strcmp(model_import_said(draft, "model.position_encoding", ""), "learned") &&
        model_import_slot(draft, ".positions"))
        model_import_default(draft, "model.num_positions", model_import_said(draft, ".positions", NULL));
    return BASE_OK;
}

/* NeMo 2's "nemo.collections.llm.gpt.model.llama.Llama3Config8B" as llama3_8b. */
static void name_target(struct import_draft *draft)
{
    const struct import_slot *target = model_import_slot(draft, ".target");
    if (!target) return;
    const char *dot = strrchr(target->value, '.'), *name = dot ? dot + 1 : target->value,
               *config = strstr(name, "Config");
    int count;
    const struct model_zoo_model *zoo = model_zoo(draft->arena, &count);
    const char *meant = config ? model_zoo_meant(zoo, count,
                                                 base_print(draft->arena, "%.*s_%s", (int)(config - name), name,
                                                            config + strlen("Config")))
                               : NULL;
    if (meant && !model_import_slot(draft, "model")) model_import_put_from(draft, "model", meant, target->place);
    if (!meant)
        model_import_warn(draft, target->place, "%.100s is no model of the zoo; give --model with its config.json",
                          target->value);
}

/* Groups of Megatron-Bridge and NeMo 2, which NeMo's files of 2023 lack; a recipe is Python, which is not read. */
void model_import_bridge(struct import_draft *draft)
{
    static const char *const groups[] = {"train.", "ddp.", "comm_overlap.", "mixed_precision", "trainer.strategy."};
    const struct import_slot *recipe = model_import_slot(draft, ".recipe");
    bool any = recipe != NULL;
    for (int i = 0; i < draft->settings.count; i++)
        for (int g = 0; g < BASE_COUNT(groups); g++)
            any = any || !strncmp(draft->settings.items[i].name, groups[g], strlen(groups[g]));
    if (!any) return;
    name_target(draft);
    model_import_put(draft, ".bridge", "1");
    model_import_default(draft, "software_version", "Megatron-Bridge");
    model_import_default(draft, "dtype", "bfloat16");
    if (recipe)
        model_import_warn(draft, recipe->place,
                          "%.100s is Python and is not read: give what it sets as KEY=VALUE, or --model and options",
                          recipe->value);
}
