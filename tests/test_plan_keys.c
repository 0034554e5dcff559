/* Tests of the table of a plan's keys: its rows are whole, and by them every plan comes back as it was. */
#include "tests/test.h"

#include "sim/predict/predict.h"

static void every_row_is_whole(struct base_arena *arena)
{
    int places = 0, shown = 0;
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const struct sim_plan_key *row = &sim_plan_keys[key];
        assert_non_null(row->name);
        TEST_ROW("%s", row->name);
        assert_int_equal(sim_plan_key_named(row->name), key);
        assert_true(row->json != 0);
        assert_true(row->option.name || row->feature || key == SIM_STEP); /* predict's --step has more words */
        assert_true(!row->option.name || strlen(row->option.help) > 0);
        assert_true(!row->option.name || row->option.value || row->words[0].name);
        assert_true((row->type == SIM_OF_MESH) == (row->size == 0));
        assert_true((row->type == SIM_OF_WORD) == (row->words[0].name != NULL));
        assert_true((row->type == SIM_OF_WHOLE || row->type == SIM_OF_REAL) == (row->high > row->low));
        assert_true(!row->default_unsaid || row->fallback);
        assert_true(!row->t5x_lacks || row->fallback || row->type == SIM_OF_MESH);
        assert_true(!row->example || row->option.name);
        for (int i = 0; i < SIM_MOST_WORDS && row->words[i].name; i++) { /* a key's own word is no synonym of another */
            const char *own = row->words[i].name, *meant = base_synonym(row->name, own, strlen(own), BASE_TAKEN);
            if (meant) assert_string_equal(meant, own);
        }
        if (row->option.name && !row->feature) {
            char *spelt = base_print(arena, "--%s", row->name);
            for (char *at = spelt; *at; at++) *at = *at == '_' ? '-' : *at;
            assert_string_equal(row->option.name, spelt);
        }
        shown += row->chart.place > 0;
        places |= row->chart.place ? 1 << (row->chart.place - 1) : 0;
    }
    assert_int_equal(places, (1 << shown) - 1);
}

static struct sim_plan_text another_value(struct base_arena *arena, struct sim_plan_text text, enum sim_key key)
{
    const struct sim_plan_key *row = &sim_plan_keys[key];
    if (row->type == SIM_OF_WORD) text.values[key] = row->words[1].name;
    if (row->type == SIM_OF_WHOLE) text.values[key] = base_print(arena, "%d", row->high > 1 ? 8 : 1);
    if (row->type == SIM_OF_REAL) text.values[key] = "0.25";
    bool staged = key == SIM_PIPELINE_STAGES || key == SIM_VIRTUAL_STAGES || key == SIM_PIPELINE_SPLIT_RANK ||
                  key == SIM_FIRST_STAGE_LAYERS;
    if (staged) text.values[SIM_TOPOLOGY] = "a100-80g:2x8", text.values[SIM_PIPELINE_STAGES] = "2";
    if (key == SIM_COMPILE || key == SIM_CPU_OFFLOAD)
        text.values[SIM_TOPOLOGY] = "h100:1x1", text.values[SIM_SOFTWARE] = "torchtitan";
    if (key == SIM_EXPANDABLE_SEGMENTS)
        text.values[SIM_TOPOLOGY] = "h100:1x1", text.values[SIM_SOFTWARE] = "transformers";
    if ((key >= SIM_TP_COMM_OVERLAP && key <= SIM_DDP_BUCKET_SIZE) || key == SIM_GRADIENT_DTYPE) {
        text.values[SIM_TOPOLOGY] = "h100:1x4", text.values[SIM_SOFTWARE] = "megatron";
        text.values[SIM_OPTIMIZER_PARTITIONING] = "data";
    }
    if (key >= SIM_OVERLAP_COMM && key <= SIM_STAGE3_MAX_REUSE_DISTANCE) {
        text.values[SIM_TOPOLOGY] = "h100:1x4", text.values[SIM_SOFTWARE] = "deepspeed";
        text.values[SIM_RULES] = "data_only"; /* without overlap, unless it is said */
    }
    if (key == SIM_LORA_ALPHA || key == SIM_LORA_TARGETS) text.values[SIM_LORA_RANK] = "4";
    if (key == SIM_CUDA_GRAPHS) {
        text.values[SIM_TOPOLOGY] = "h100:1x4", text.values[SIM_SOFTWARE] = "megatron";
        text.values[SIM_SOFTWARE_VERSION] = "Megatron-Bridge", text.values[key] = "attn moe_router";
    }
    if (key == SIM_TP_COMM_OVERLAP) text.values[key] = "0"; /* it is on */
    if (key == SIM_CONTEXT_PARALLEL) text.values[SIM_TOPOLOGY] = "a100-80g:2x8";
    if (key == SIM_VIRTUAL_STAGES) text.values[SIM_PIPELINE_SCHEDULE] = "interleaved";
    if (key == SIM_SUBMESH) text.values[key] = "2,2,1,1";
    if (key == SIM_NUM_PARTITIONS) text.values[key] = "4";
    if (key >= SIM_ICI_MESH && key <= SIM_JAX) text.values[SIM_ICI_MESH] = "data=4,model=2";
    if (key == SIM_DCN_MESH) text.values[key] = "data=1";
    if (key == SIM_JAX) text.values[key] = "0.11.0";
    if (key == SIM_SPLIT_PHYSICAL_AXES) text.values[key] = "1";
    if (key == SIM_RULES) text.values[key] = "[[\"batch\",\"data\"],[\"mlp\",\"model\"]]";
    if (key == SIM_TEMPERATURE) text.values[key] = "0.25";
    if (key == SIM_RESCALE_LOG_PROBS) text.values[key] = "0";
    if (key == SIM_MIN_LOG_PROB) text.values[key] = "-6";
    if (key == SIM_TOPP) text.values[SIM_TOPK] = "0";
    if (key == SIM_MAX_DECODE_STEPS || key == SIM_MAX_DECODE_STEPS_HARD_LIMIT)
        text.values[SIM_DECODE_FN] = "temperature_sample";
    if (key == SIM_MAX_DECODE_LEN || key == SIM_MAX_DECODE_STEP) text.values[SIM_DECODE_FN] = "beam_search";
    if (key == SIM_INPUTS_BIDIRECTIONAL_ATTENTION) {
        text.values[SIM_MODEL] = "decoder_only_base";
        text.values[SIM_INPUTS_LENGTH] = NULL;
    }
    if (key == SIM_MTP_LAYERS) {
        text.values[SIM_MODEL] = "llama3_8b";
        text.values[SIM_TOPOLOGY] = "h100:1x8", text.values[SIM_SOFTWARE] = "megatron";
        text.values[SIM_INPUTS_LENGTH] = NULL;
    }
    if (key == SIM_CAPACITY_FACTOR) {
        text.values[SIM_MODEL] = "mixtral_8x7b:num_layers=1";
        text.values[SIM_MOE_DISPATCHER] = "dense", text.values[key] = "1.25";
        text.values[SIM_INPUTS_LENGTH] = NULL;
    }
    if (key == SIM_SCANNED) {
        text.values[key] = "0";
        text.values[SIM_MODEL] = "decoder_only_base";
        text.values[SIM_INPUTS_LENGTH] = NULL;
    }
    if (key == SIM_FP8_RECIPE) {
        text.values[SIM_DTYPE] = "fp8";
        text.values[SIM_TOPOLOGY] = "h100:1x8", text.values[SIM_SOFTWARE] = "megatron";
    }
    if (key == SIM_LOSS) {
        text.values[key] = "chunked:4";
        text.values[SIM_MODEL] = "llama3_8b";
        text.values[SIM_TOPOLOGY] = "h100:1x8", text.values[SIM_SOFTWARE] = "torchtitan";
        text.values[SIM_INPUTS_LENGTH] = NULL;
    }
    if (key == SIM_MOMENT_DTYPE) text.values[SIM_OPTIMIZER] = "adamw";
    if (key == SIM_MOE_IMBALANCE) text.values[key] = "1.25";
    if (key == SIM_ADAFACTOR) text.values[key] = "{\"factored\":0}";
    return text;
}

/* Any one key with a value that is not its default: what is said of the plan is read as the same plan again. */
static void a_filled_plan_is_the_plan(struct base_arena *arena)
{
    const struct sim_plan_text start = {.values = {[SIM_MODEL] = "t5_1_1_base",
                                                   [SIM_TOPOLOGY] = "v4:2x2x2",
                                                   [SIM_INPUTS_LENGTH] = "64",
                                                   [SIM_TARGETS_LENGTH] = "64",
                                                   [SIM_BATCH_SIZE] = "16"}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        struct sim_plan_text text = another_value(arena, start, (enum sim_key)key), read;
        struct sim_plan plan, again;
        struct base_error error;
        struct base_text document = {.arena = arena};
        struct base_json_writer writer = {.text = &document};
        const struct base_json *json;
        TEST_ROW("%s: %s", sim_plan_keys[key].name, text.values[key] ? text.values[key] : "");
        const enum model_step step = key == SIM_STEP        ? MODEL_STEP_GRADIENT
                                     : key >= SIM_DECODE_FN ? MODEL_STEP_GENERATE
                                                            : MODEL_STEP_TRAIN;
        assert_ok(sim_plan_check(cache, arena, &text, step, SIM_AS_COMPILED, &plan, &error), &error);
        struct sim_plan_text filled = sim_plan_filled(arena, &plan);
        if (text.values[key]) assert_string_equal(filled.values[key], text.values[key]);
        sim_plan_put_json(arena, &filled, &writer);
        assert_ok(base_json_parse(arena, document.data, document.length, &json, &error), &error);
        assert_ok(sim_plan_from_json(arena, json, &read, &error), &error);
        assert_ok(sim_plan_check(cache, arena, &read, step, SIM_AS_COMPILED, &again, &error), &error);
        struct sim_plan_text filled_again = sim_plan_filled(arena, &again);
        for (int k = 0; k < SIM_KEY_COUNT; k++) {
            const char *a = filled.values[k], *b = filled_again.values[k];
            TEST_ROW("%s changed: %s", sim_plan_keys[key].name, sim_plan_keys[k].name);
            assert_string_equal(a && *a ? a : "nothing", b && *b ? b : "nothing");
        }
    }
    sim_cache_free(cache);
}

static void defaults_depend_on_model_and_topology(struct base_arena *arena)
{
    (void)arena;
    assert_string_equal(sim_key_fallback(SIM_REMAT_POLICY, (struct sim_key_setting){false, false, NULL}), "none");
    assert_string_equal(sim_key_fallback(SIM_REMAT_POLICY, (struct sim_key_setting){true, false, NULL}), "minimal");
    assert_string_equal(sim_key_fallback(SIM_REMAT_POLICY, (struct sim_key_setting){true, false, "fsdp"}), "full");
    assert_string_equal(sim_key_fallback(SIM_OPTIMIZER, (struct sim_key_setting){true, false, "t5x"}), "adafactor");
    assert_string_equal(sim_key_fallback(SIM_DTYPE, (struct sim_key_setting){true, false, NULL}), "bfloat16");
    assert_string_equal(sim_key_fallback(SIM_DTYPE, (struct sim_key_setting){false, true, NULL}), "float32");
    assert_null(sim_key_fallback(SIM_BATCH_SIZE, (struct sim_key_setting){true, true, NULL}));
}

/* What a plan leaves out is its software's own; what it says stands. */
static void a_software_brings_its_defaults(struct base_arena *arena)
{
    static const struct {
        const char *topology, *software, *words[4], *rules, *optimizer, *remat, *attention, *ici_mesh, *dcn_mesh;
    } rows[] = {
        {"h100:2x8", "fsdp", {NULL}, "zero3", "adamw", "full", "flash", NULL, NULL},
        {"h100:2x8",
         "fsdp",
         {"adafactor", "standard:1,1", "none", "unfused"},
         "standard:1,1",
         "adafactor",
         "none",
         "unfused",
         NULL,
         NULL},
        {"h100:2x8", "torchtitan", {"lion"}, "zero3", "lion", "selective", "flash", NULL, NULL},
        {"h100:2x8", "megatron", {NULL}, "standard:1,1", "adamw", "none", "flash", NULL, NULL},
        {"v5e-256", "maxtext", {NULL}, "maxtext", "adamw", "full", "flash", "fsdp=256,tensor=1", NULL},
        {"v5e-256@slices=2",
         "maxtext",
         {NULL},
         "maxtext",
         "adamw",
         "full",
         "flash",
         "data=1,fsdp=256,tensor=1",
         "data=2"},
        {"v4-64", "maxtext", {NULL, "standard:1,1"}, "standard:1,1", "adamw", "full", "flash", NULL, NULL},
        {"v4-64", "t5x", {NULL}, "standard:1,1", "adafactor", "minimal", "unfused", NULL, NULL},
    };
    static const enum sim_key keys[] = {SIM_OPTIMIZER, SIM_RULES, SIM_REMAT_POLICY, SIM_ATTENTION};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = {{0}};
        struct sim_plan plan;
        struct base_error error;
        text.values[SIM_MODEL] = "llama2_7b", text.values[SIM_TOPOLOGY] = rows[i].topology;
        text.values[SIM_SOFTWARE] = rows[i].software;
        text.values[SIM_BATCH_SIZE] = "512", text.values[SIM_TARGETS_LENGTH] = "2048";
        for (int k = 0; k < BASE_COUNT(keys); k++) text.values[keys[k]] = rows[i].words[k];
        TEST_ROW("%s on %s, %d", rows[i].software, rows[i].topology, i);
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        const struct sim_plan_text filled = sim_plan_filled(arena, &plan);
        assert_string_equal(filled.values[SIM_RULES], rows[i].rules);
        assert_string_equal(filled.values[SIM_OPTIMIZER], rows[i].optimizer);
        assert_string_equal(filled.values[SIM_REMAT_POLICY], rows[i].remat);
        assert_string_equal(filled.values[SIM_ATTENTION], rows[i].attention);
        assert_string_equal(filled.values[SIM_ICI_MESH] ? filled.values[SIM_ICI_MESH] : "",
                            rows[i].ici_mesh ? rows[i].ici_mesh : "");
        assert_string_equal(filled.values[SIM_DCN_MESH] ? filled.values[SIM_DCN_MESH] : "",
                            rows[i].dcn_mesh ? rows[i].dcn_mesh : "");
        assert_int_equal(sim_is_assumed(&text, SIM_OPTIMIZER), !rows[i].words[0] && strcmp(rows[i].software, "t5x"));
    }
    sim_cache_free(cache);
}

/* A switch that a software lacks, or that needs another one, is refused. */
static void switches_are_of_software_that_has_them(struct base_arena *arena)
{
    static const struct {
        const char *software, *partitioning, *sequence;
        enum sim_key key;
        const char *value, *part; /* NULL: it is taken */
    } rows[] = {
        {"megatron", "data", "1", SIM_TP_COMM_OVERLAP, "1", NULL},
        {"megatron", "data", "0", SIM_TP_COMM_OVERLAP, "1", "requires sequence_parallel"},
        {"megatron", "none", "0", SIM_OVERLAP_PARAM_GATHER, "1", "requires optimizer_partitioning"},
        {"megatron", "data", "0", SIM_OVERLAP_PARAM_GATHER, "1", NULL},
        {"nemo", "data", "0", SIM_OVERLAP_GRAD_REDUCE, "1", "has no such switch"},
        {"fsdp", NULL, NULL, SIM_DDP_BUCKET_SIZE, "1000000", "has no such buckets"},
        {"torchtitan", NULL, NULL, SIM_GRADIENT_DTYPE, "bfloat16", "leaves no choice"},
        {"fsdp", NULL, NULL, SIM_GRADIENT_DTYPE, "bfloat16", NULL},
        {"megatron", "data", "0", SIM_GRADIENT_DTYPE, "bfloat16", NULL},
        {"fsdp", NULL, NULL, SIM_REDUCE_BUCKET_SIZE, "1000000", "is DeepSpeed's"},
        {"fsdp", NULL, NULL, SIM_LORA_ALPHA, "8", "use lora_rank"},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = {{0}};
        struct sim_plan plan;
        struct base_error error;
        text.values[SIM_MODEL] = "llama2_7b", text.values[SIM_TOPOLOGY] = "h100:1x8";
        text.values[SIM_SOFTWARE] = rows[i].software, text.values[SIM_OPTIMIZER_PARTITIONING] = rows[i].partitioning;
        text.values[SIM_BATCH_SIZE] = "64", text.values[SIM_TARGETS_LENGTH] = "2048";
        text.values[SIM_NUM_PARTITIONS] = "2", text.values[SIM_SEQUENCE_PARALLEL] = rows[i].sequence;
        text.values[rows[i].key] = rows[i].value;
        TEST_ROW("%s %s", rows[i].software, sim_plan_keys[rows[i].key].name);
        const enum base_status status =
            sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error);
        if (rows[i].part) assert_fails(status, BASE_INPUT, &error, rows[i].part);
        else assert_ok(status, &error);
    }
    sim_cache_free(cache);
}

static const struct test tests[] = {
    TEST(every_row_is_whole),
    TEST(a_filled_plan_is_the_plan),
    TEST(defaults_depend_on_model_and_topology),
    TEST(a_software_brings_its_defaults),
    TEST(switches_are_of_software_that_has_them),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
