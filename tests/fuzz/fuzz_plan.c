/* Plans: a plan that is accepted has a prediction, the same from a fresh cache as from a used one, and the plan that
 * the answer carries has that prediction again. An input is a document, or a "#" and bytes that choose a value for each
 * key: mutations of a document are seldom plans, choices often are. */
#include "reports/reports.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

/* Lives as long as the process, as in `batch`. */
static struct sim_cache *used_cache(void)
{
    static struct base_arena arena;
    static jmp_buf exhausted;
    static struct sim_cache *cache;
    if (cache) return cache;
    arena.exhausted = &exhausted;
    return cache = sim_cache_new(&arena);
}

/* The document of predict, or its refusal. */
static const char *predict(struct base_arena *arena, struct sim_cache *cache, const struct base_json *document,
                           bool *accepted)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct sim_change changes[SIM_MOST_CHANGES];
    struct base_error error = {0};
    struct base_text out = {.arena = arena};
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    enum base_status status = sim_plan_from_json(arena, document, &text, &error);
    if (status == BASE_OK)
        status = sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error);
    if (status == BASE_OK) status = sim_predict(cache, &plan, &prediction, &detail, &error);
    *accepted = status == BASE_OK;
    if (status != BASE_OK) {
        FUZZ_CHECK(status == BASE_INPUT && error.status == status && *error.text);
        return base_copy(arena, error.text);
    }
    FUZZ_CHECK(isfinite(prediction.step_s) && prediction.step_s > 0 && isfinite(prediction.tokens_per_s) &&
               prediction.memory.peak_bytes > 0);
    struct reports_prediction report = {.plan = text,
                                        .checked = &plan,
                                        .prediction = &prediction,
                                        .collectives = detail.collectives.rows,
                                        .collective_count = detail.collectives.count,
                                        .changes = changes};
    if (!prediction.fits) report.change_count = sim_changes_that_fit(cache, arena, &text, &plan, changes);
    reports_prediction_json(&report, true, &out);
    return out.data;
}

/* What is written for T5X as gin is read again as the same plan. */
static void check_gin(struct base_arena *arena, const struct base_json *document)
{
    static const enum sim_key kept[] = {SIM_MODEL,
                                        SIM_TOPOLOGY,
                                        SIM_SUBMESH,
                                        SIM_INPUTS_LENGTH,
                                        SIM_TARGETS_LENGTH,
                                        SIM_BATCH_SIZE,
                                        SIM_NUM_MICROBATCHES,
                                        SIM_OPTIMIZER,
                                        SIM_DTYPE,
                                        SIM_ATTENTION,
                                        SIM_OPTIMIZER_PARTITIONING,
                                        SIM_SOFTWARE,
                                        SIM_MEMORY_KIND};
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_gin_plan again;
    struct base_error error = {0};
    struct base_text gin_text = {.arena = arena};
    struct model_gin *gin;
    struct sim_cache *cache = sim_cache_new(arena);
    FUZZ_CHECK(sim_plan_from_json(arena, document, &text, &error) == BASE_OK &&
               sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_OK);
    bool written = reports_launch(arena, "gin", &text, &plan, &gin_text, &error) == BASE_OK;
    FUZZ_CHECK(written || (error.status == BASE_INPUT && *error.text));
    if (written) {
        bool read = model_gin_parse(arena, "fuzz.gin", gin_text.data, &gin, &error) == BASE_OK &&
                    sim_plan_from_gin(gin, &again, &error) == BASE_OK;
        if (!read) fprintf(stderr, "%s\n%s\n", error.text, gin_text.data);
        FUZZ_CHECK(read);
        struct sim_plan same;
        FUZZ_CHECK(sim_plan_check(cache, arena, &again.text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &same, &error) ==
                   BASE_OK);
        for (int i = 0; i < BASE_COUNT(kept); i++) {
            const char *a = text.values[kept[i]], *b = again.text.values[kept[i]];
            if (a && *a && !fuzz_same(a, b))
                fprintf(stderr, "%s: %s became %s\n%s\n", sim_plan_keys[kept[i]].name, a, b ? b : "nothing",
                        gin_text.data);
            FUZZ_CHECK(!a || !*a || fuzz_same(a, b));
        }
    }
    sim_cache_free(cache);
}

enum { MOST_CHOICES = 24 };

static const struct {
    const char *key, *values[MOST_CHOICES];
} menu[] = {
    {"model",
     {"\"t5_1_1_small\"", "\"t5_1_0_11B\"", "\"scalable_t5_1_1_xl\"", "\"mt5_base\"", "\"byt5_large\"",
      "\"decoder_only_base\"",
      "\"decoder_only:emb_dim=8192,num_heads=64,num_kv_heads=8,head_dim=128,mlp_dim=28672,num_layers=80,vocab_size="
      "128256,mlp_activations=silu+linear\"",
      "\"scalable_decoder_only:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=128,num_layers=1,vocab_size=256\"",
      "\"decoder_only:emb_dim=96,num_heads=6,num_kv_heads=1,head_dim=16,mlp_dim=96,num_layers=3,vocab_size=33,parallel_"
      "block=1\"",
      "\"encoder_decoder:emb_dim=1,num_heads=1,head_dim=1,mlp_dim=1,num_layers=1024,vocab_size=1\"",
      "\"decoder_only:emb_dim=262144,num_heads=4096,head_dim=4096,mlp_dim=4194304,num_layers=4096,vocab_size="
      "67108864\""}},
    {"topology",
     {"\"v4:2x2x2\"", "\"v4-512\"", "\"v3-32\"", "\"v5e:4x4\"", "\"v5p:4x4x4\"", "\"h100:4x8\"", "\"a100-80g:1x3\"",
      "\"local:4\"", "\"local:3x2\"", "\"cpu:2x2\"", "\"v4:2x2x1@memory_gib=0.01\"", "\"v4:2x2x4@slices=2\"",
      "\"v4:1x1x1\"", "\"h100:1x1\"", "\"v4:16x16x16\""}},
    {"model_parallel_submesh",
     {NULL, NULL, NULL, "[1, 1, 1, 1]", "[2, 1, 1, 1]", "[2, 2, 1, 1]", "[1, 2]", "[1, 4]", "[2, 2, 2, 2]",
      "[4, 4, 4, 1]", "[1, 3]", "[3, 1]", "[8, 1, 1, 1]"}},
    {"num_partitions", {NULL, "1", "2", "3", "4", "8", "16", "4096"}},
    {"logical_axis_rules",
     {NULL, "\"standard:1,2\"", "\"standard:2,1\"", "\"standard:2,2\"", "\"data_only\"", "\"zero3\"", "\"megatron\"",
      "\"optimus\"", "\"gshard\"", "[]", "[[\"batch\", [\"data\", \"model\"]]]",
      "[[\"length\", \"model\"], [\"batch\", \"data\"]]", "[[\"heads\", \"data\"], [\"kv\", \"model\"]]",
      "[[\"embed\", [\"model\", \"data\"]]]", "[[\"layers\", \"data\"]]", "[[\"batch\", \"__UNCONSTRAINED__\"]]"}},
    {"inputs_length", {"512", NULL, "1", "7", "16777216"}},
    {"targets_length", {"512", NULL, "1", "114", "16777216"}},
    {"batch_size", {"64", "1", "3", "12", "128", "896", "1073741824"}},
    {"num_microbatches", {NULL, "0", "1", "2", "3", "64", "1073741824"}},
    {"optimizer", {NULL, "\"adafactor\"", "\"adamw\"", "\"sgd\""}},
    {"remat_policy", {NULL, "\"none\"", "\"minimal\"", "\"selective\"", "\"full\""}},
    {"dtype", {NULL, "\"bfloat16\"", "\"float32\"", "\"float16\"", "\"fp8\""}},
    {"attention", {NULL, "\"unfused\"", "\"flash\""}},
    {"optimizer_partitioning", {NULL, "\"none\"", "\"data\"", "\"data+gradients\""}},
    {"sequence_parallel", {NULL, "0", "1"}},
    {"memory_kind", {NULL, "\"device\"", "\"reserved\"", "\"allocated\""}},
};

static int count_choices(const char *const *values)
{
    int count = MOST_CHOICES;
    while (!values[count - 1]) count--;
    return count;
}

/* The document that the bytes choose; a byte that is missing counts as 0. */
static const char *choose(struct base_arena *arena, const char *bytes, size_t length)
{
    struct base_text document = {.arena = arena};
    for (size_t i = 0; i < (size_t)BASE_COUNT(menu); i++) {
        const char *value = menu[i].values[i < length ? (unsigned char)bytes[i] % count_choices(menu[i].values) : 0];
        if (value) base_putf(&document, "%s\"%s\": %s", document.length ? ", " : "{", menu[i].key, value);
    }
    base_put(&document, "}");
    return document.data;
}

static void check(struct base_arena *arena, const char *text, size_t length)
{
    const struct base_json *document;
    struct base_error error = {0};
    bool accepted, accepted_again;
    if (*text == '#') {
        text = choose(arena, text + 1, length - 1);
        length = strlen(text);
    }
    if (base_json_parse(arena, text, length, &document, &error) != BASE_OK) {
        FUZZ_CHECK(error.status == BASE_INPUT && *error.text);
        return;
    }
    const char *printed = fuzz_print(arena, document);
    FUZZ_CHECK(fuzz_same(printed, fuzz_print(arena, fuzz_parse(arena, printed))));

    struct sim_cache *fresh = sim_cache_new(arena);
    const char *answer = predict(arena, fresh, document, &accepted);
    FUZZ_CHECK(fuzz_same(answer, predict(arena, fresh, document, &accepted_again)));
    FUZZ_CHECK(fuzz_same(answer, predict(arena, used_cache(), document, &accepted_again)));
    sim_cache_free(fresh);
    if (!accepted) return;
    check_gin(arena, document);
    const struct base_json *parsed = fuzz_parse(arena, answer), *plan = base_json_get(parsed, "plan");
    FUZZ_CHECK(plan);
    const struct base_json *again = fuzz_parse(arena, predict(arena, used_cache(), plan, &accepted_again));
    static const char *const parts[] = {"mesh", "fits", "memory", "time", "throughput", "collectives"};
    for (int i = 0; i < BASE_COUNT(parts); i++)
        FUZZ_CHECK(fuzz_same(fuzz_print(arena, base_json_get(parsed, parts[i])),
                             fuzz_print(arena, base_json_get(again, parts[i]))));
}

FUZZ_TARGET(check, 300)
