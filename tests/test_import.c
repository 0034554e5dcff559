/* Files of other software: what export writes is read back as the same plan; real files' ways of saying things come to
 * what they say (tests/data/imports.csv); what is hostile ends with a message. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "model/import/import.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

static char folder[] = "/tmp/meshwright-import-XXXXXX";

static const char *written(struct base_arena *arena, const char *name, const char *text, size_t length)
{
    struct base_error error;
    const char *path = base_print(arena, "%s/%s", folder, name);
    assert_ok(base_write_file(path, text, length, &error), &error);
    return path;
}

static struct sim_plan_text text_of(const struct model_import *import)
{
    struct sim_plan_text text = {{0}};
    for (int i = 0; i < import->value_count; i++) {
        const int key = sim_plan_key_named(import->values[i].key);
        if (key >= 0) text.values[key] = import->values[i].value;
    }
    return text;
}

/* ---- round trips ---- */

static const struct format {
    const char *name, *ending, *software;
} formats[] = {{"megatron", "args", "megatron"}, {"torchtitan", "toml", "torchtitan"},
               {"nanotron", "yaml", "nanotron"}, {"deepspeed", "json", "deepspeed"},
               {"maxtext", "sh", "maxtext"},     {"slurm", "sh", "megatron"},
               {"slurm", "sh", "torchtitan"},    {"slurm", "sh", "nanotron"}};

#define PICKED(random, ...)                                                                                            \
    ((const char *const[]){__VA_ARGS__})[base_random_below(                                                            \
        random, (int64_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))]

/* A plan that may be one of the software's; the check and the writer say whether it is. */
static struct sim_plan_text random_plan(struct base_arena *arena, struct base_random *random, const char *software)
{
    struct sim_plan_text text = {{0}};
    const char **v = text.values;
    const bool tpu = !strcmp(software, "maxtext"), megatron = !strcmp(software, "megatron"),
               alone = !strcmp(software, "deepspeed"), titan = !strcmp(software, "torchtitan");
    v[SIM_SOFTWARE] = software;
    v[SIM_MODEL] = base_print(
        arena,
        "%sdecoder_only:emb_dim=512,num_heads=8,num_kv_heads=%s,head_dim=64,mlp_dim=2048,num_layers=8,vocab_size=%s,"
        "mlp_activations=silu+linear,logits_via_embedding=%s,position_encoding=rotary,norm=rms,biases=0",
        tpu ? "scalable_" : "", PICKED(random, "2", "8"), PICKED(random, "1024", "32000"),
        titan ? "0" : PICKED(random, "0", "1"));
    v[SIM_TOPOLOGY] =
        tpu ? PICKED(random, "v5e-16", "v5p-32", "v4-64") : PICKED(random, "h100:1x8", "h100:2x8", "a100-80g:4x8");
    v[SIM_TARGETS_LENGTH] = PICKED(random, "256", "1024");
    v[SIM_BATCH_SIZE] = PICKED(random, "16", "32", "64", "128");
    v[SIM_OPTIMIZER] = "adamw";
    v[SIM_REMAT_POLICY] = PICKED(random, "none", "full");
    v[SIM_LEARNING_RATE] = PICKED(random, "0.001", "0.0003");
    if (!tpu) v[SIM_NUM_MICROBATCHES] = PICKED(random, "0", "2", "4");
    if (titan) v[SIM_SOFTWARE_VERSION] = "0.2.2", v[SIM_COMPILE] = PICKED(random, "0", "1");
    if (alone) v[SIM_OPTIMIZER_PARTITIONING] = PICKED(random, "none", "data", "data+gradients");
    if (alone)
        v[SIM_RULES] = v[SIM_OPTIMIZER_PARTITIONING][0] == 'n' ? PICKED(random, "zero3", "data_only") : "data_only";
    if (alone) return text;
    if (tpu) {
        v[SIM_ICI_MESH] = PICKED(random, "fsdp=-1,tensor=1", "data=1,fsdp=-1,tensor=4", "data=2,fsdp=-1,tensor=1");
        v[SIM_SPLIT_PHYSICAL_AXES] = "1";
        v[SIM_REMAT_POLICY] =
            PICKED(random, "full", "minimal", "device:query_proj+key_proj", "device:query_proj;offload:out_proj+mlpwo");
        return text;
    }
    v[SIM_NUM_PARTITIONS] = PICKED(random, "1", "2", "4");
    v[SIM_SEQUENCE_PARALLEL] = titan && *v[SIM_NUM_PARTITIONS] != '1' ? "1"
                               : *v[SIM_NUM_PARTITIONS] == '1'        ? "0"
                                                                      : PICKED(random, "0", "1");
    v[SIM_PIPELINE_STAGES] = PICKED(random, "1", "1", "2");
    if (*v[SIM_PIPELINE_STAGES] == '2') v[SIM_NUM_MICROBATCHES] = "4";
    if (!strcmp(software, "nanotron")) v[SIM_PIPELINE_PARTITION] = "compute_cost"; /* it has no other */
    if ((megatron || titan) && *v[SIM_PIPELINE_STAGES] == '2' && base_random_below(random, 2))
        v[SIM_VIRTUAL_STAGES] = "2", v[SIM_PIPELINE_SCHEDULE] = "interleaved";
    if (titan && *v[SIM_PIPELINE_STAGES] == '2' && base_random_below(random, 2)) { /* layers of each stage */
        if (v[SIM_VIRTUAL_STAGES]) v[SIM_PIPELINE_LAYOUT] = PICKED(random, "Et*1|t*3|t*2|t*2L", "E|t*3|t*3|t*2L");
        else v[SIM_PIPELINE_LAYERS] = PICKED(random, "3,5", "5,3");
    }
    if (!titan) v[SIM_OPTIMIZER_PARTITIONING] = PICKED(random, "none", "data");
    if (megatron) v[SIM_REMAT_POLICY] = PICKED(random, "none", "full", "selective", "full;layers:1");
    if (megatron && base_random_below(random, 3) == 0) {
        v[SIM_MODEL] = base_print(arena, "%s,num_experts=8,num_selected_experts=2,expert_mlp_dim=%s", v[SIM_MODEL],
                                  PICKED(random, "512", "1024"));
        v[SIM_EXPERT_PARALLEL] = PICKED(random, "1", "2", "4");
        v[SIM_MOE_DISPATCHER] = PICKED(random, "alltoall", "deepep");
    }
    if (megatron && base_random_below(random, 6) == 0)
        v[SIM_MODEL] = base_print(
            arena,
            "scalable_decoder_only:emb_dim=512,num_heads=8,head_dim=96,mlp_dim=2048,num_layers=8,vocab_size=32000,"
            "mlp_activations=silu+linear,logits_via_embedding=0,position_encoding=rotary,norm=rms,biases=0,"
            "kv_lora_rank=64,qk_rope_head_dim=32,v_head_dim=64,num_experts=8,num_selected_experts=2,expert_mlp_dim=512,"
            "first_dense_layers=%s,router_score=sigmoid%s",
            PICKED(random, "0", "1", "3"), PICKED(random, "", ",q_lora_rank=128", ",shared_expert_mlp_dim=512"));
    if (megatron && base_random_below(random, 4) == 0) {
        v[SIM_SOFTWARE_VERSION] = "Megatron-Bridge";
        v[SIM_CUDA_GRAPHS] = PICKED(random, "full_iteration", "local:attn", "transformer_engine:attn+mlp");
    }
    if (titan && base_random_below(random, 4) == 0) { /* replicas of sharded devices */
        v[SIM_NUM_PARTITIONS] = NULL;
        v[SIM_PIPELINE_STAGES] = v[SIM_CONTEXT_PARALLEL] = "1";
        v[SIM_NUM_MICROBATCHES] = v[SIM_SEQUENCE_PARALLEL] = "0";
        v[SIM_TOPOLOGY] = "h100:2x8";
        v[SIM_ICI_MESH] = PICKED(random, "data=2,fsdp=8", "data=4,fsdp=4");
        v[SIM_RULES] = "maxtext";
        return text;
    }
    if ((megatron || titan) && !v[SIM_EXPERT_PARALLEL]) v[SIM_CONTEXT_PARALLEL] = PICKED(random, "1", "1", "2");
    if (megatron && v[SIM_CONTEXT_PARALLEL] && *v[SIM_CONTEXT_PARALLEL] == '2')
        v[SIM_CP_COMM_TYPE] = PICKED(random, "software", "all_gather", "a2a");
    if (megatron || titan) v[SIM_DTYPE] = PICKED(random, "bfloat16", "fp8");
    if (titan && !strcmp(v[SIM_DTYPE], "fp8")) v[SIM_FP8_RECIPE] = PICKED(random, "tensorwise", "rowwise");
    if (titan) v[SIM_REMAT_POLICY] = PICKED(random, "none", "full", "selective");
    return text;
}

/* form 1: two stages, tensor parallelism; 2: experts. */
static struct sim_plan_text plain_plan(struct base_arena *arena, const char *software, int form)
{
    struct sim_plan_text text = {{0}};
    const char **v = text.values;
    const bool tpu = !strcmp(software, "maxtext"), titan = !strcmp(software, "torchtitan");
    v[SIM_SOFTWARE] = software;
    v[SIM_MODEL] = base_print(
        arena,
        "%sdecoder_only:emb_dim=512,num_heads=8,num_kv_heads=2,head_dim=64,mlp_dim=2048,num_layers=8,vocab_size=1024,"
        "mlp_activations=silu+linear,logits_via_embedding=0,position_encoding=rotary,norm=rms,biases=0%s",
        tpu ? "scalable_" : "", form == 2 ? ",num_experts=8,num_selected_experts=2,expert_mlp_dim=512" : "");
    v[SIM_TOPOLOGY] = tpu ? "v5p-32" : "h100:2x8";
    v[SIM_TARGETS_LENGTH] = "256";
    v[SIM_BATCH_SIZE] = "64";
    v[SIM_OPTIMIZER] = "adamw";
    if (tpu) v[SIM_REMAT_POLICY] = "full";
    if (tpu) v[SIM_ICI_MESH] = form ? "data=1,fsdp=4,tensor=4" : "data=1,fsdp=16,tensor=1";
    if (titan) v[SIM_SOFTWARE_VERSION] = "0.2.2";
    if (form == 2 && !strcmp(software, "megatron")) v[SIM_EXPERT_PARALLEL] = "4";
    if (tpu || form != 1 || !strcmp(software, "deepspeed")) return text;
    v[SIM_NUM_PARTITIONS] = v[SIM_PIPELINE_STAGES] = "2";
    v[SIM_SEQUENCE_PARALLEL] = "1";
    v[SIM_NUM_MICROBATCHES] = "4";
    if (!strcmp(software, "nanotron")) v[SIM_PIPELINE_PARTITION] = "compute_cost";
    return text;
}

/* The same model, however its line is written. */
static void check_same_model(const struct model_config *a, const struct model_config *b)
{
    assert_int_equal(a->emb_dim, b->emb_dim);
    assert_int_equal(a->num_kv_heads, b->num_kv_heads);
    assert_int_equal(a->mlp_dim, b->mlp_dim);
    assert_int_equal(a->num_decoder_layers, b->num_decoder_layers);
    assert_int_equal(a->vocab_size, b->vocab_size);
    assert_int_equal(a->logits_via_embedding, b->logits_via_embedding);
    assert_int_equal(a->norm, b->norm);
    assert_int_equal(a->experts.count, b->experts.count);
    assert_int_equal(a->experts.selected, b->experts.selected);
    assert_int_equal(a->experts.mlp_dim, b->experts.mlp_dim);
    assert_int_equal(a->experts.first_dense_layers, b->experts.first_dense_layers);
    assert_int_equal(a->experts.shared_mlp_dim, b->experts.shared_mlp_dim);
    assert_int_equal(a->experts.score, b->experts.score);
    assert_memory_equal(&a->latent, &b->latent, sizeof a->latent);
}

/* The same layers in each part of the model, however a file says them. */
static void check_same_stages(const struct sim_plan *a, const struct sim_plan *b)
{
    struct sim_stage_chunk was[SIM_MOST_STAGE_CHUNKS], is[SIM_MOST_STAGE_CHUNKS];
    struct sim_pipeline_traits traits;
    struct base_error error;
    assert_int_equal(a->pipeline.stages, b->pipeline.stages);
    assert_int_equal(a->pipeline.chunks, b->pipeline.chunks);
    if (a->pipeline.stages == 1) return;
    assert_ok(sim_pipeline_traits_find(a->software, &traits, &error), &error);
    assert_ok(sim_split_model(a->config, &a->pipeline, traits.division, was, &error), &error);
    assert_ok(sim_split_model(b->config, &b->pipeline, traits.division, is, &error), &error);
    for (int64_t i = 0; i < a->pipeline.stages * a->pipeline.chunks; i++)
        assert_int_equal(was[i].decoder_layers, is[i].decoder_layers);
}

static bool goes_round(struct base_arena *arena, struct sim_cache *cache, const struct format *format,
                       const struct sim_plan_text *text)
{
    struct sim_plan plan, again;
    struct base_text out = {.arena = arena};
    struct base_error error;
    struct model_import import;
    if (sim_plan_check_another(cache, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) != BASE_OK) return false;
    if (reports_launch(arena, format->name, text, &plan, &out, &error) != BASE_OK) return false;
    const char *path = written(arena, base_print(arena, "plan.%s", format->ending), out.data, out.length);
    const struct model_import_request request = {
        .paths = &path, .path_count = 1, .topology = text->values[SIM_TOPOLOGY]};
    TEST_ROW("%s of %s\n%s", format->name, format->software, out.data);
    assert_ok(model_import_read(arena, &request, &import, &error), &error);
    struct sim_plan_text read = text_of(&import);
    const bool says_model = read.values[SIM_MODEL] != NULL, says_length = read.values[SIM_TARGETS_LENGTH] != NULL;
    if (!says_model) read.values[SIM_MODEL] = text->values[SIM_MODEL];
    if (!says_length) read.values[SIM_TARGETS_LENGTH] = text->values[SIM_TARGETS_LENGTH];
    assert_ok(sim_plan_check_another(cache, &read, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &again, &error), &error);
    check_same_model(plan.config, again.config);
    const struct sim_plan_text a = sim_plan_filled(arena, &plan), b = sim_plan_filled(arena, &again);
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *was = a.values[key] ? a.values[key] : "", *is = b.values[key] ? b.values[key] : "";
        const bool is_mesh = key == SIM_ICI_MESH; /* its axes of 1 need not be said */
        const bool left_to_software = (key == SIM_GRADIENT_DTYPE || key == SIM_EXPERT_TENSOR_PARALLEL ||
                                       key == SIM_DDP_BUCKET_SIZE || key == SIM_FP8_RECIPE) &&
                                      !*was;
        const bool of_stages =
            key == SIM_PIPELINE_PARTITION || key == SIM_PIPELINE_LAYERS || key == SIM_PIPELINE_LAYOUT;
        const bool whole = key == SIM_RULES && !strcmp(was, "standard:1,1") && !strcmp(is, "data_only");
        const bool fsdp = key == SIM_RULES && !strcmp(was, "zero3") && !strcmp(is, "maxtext");
        const bool one_part = key == SIM_PIPELINE_SCHEDULE && plan.pipeline.chunks == 1 &&
                              (plan.pipeline.stages == 1 || !strcmp(was, "interleaved"));
        const bool idle = (key == SIM_MOE_DISPATCHER && !plan.config->experts.count) ||
                          (key == SIM_CP_COMM_TYPE && plan.context_parallel == 1) ||
                          (key == SIM_TP_COMM_OVERLAP && !plan.sequence_parallel);
        if (of_stages || fsdp || whole || one_part || idle) continue;
        if (key == SIM_MODEL || (is_mesh && strchr(was, '=')) || left_to_software) continue;
        if (strcmp(was, is) != 0) fail_msg("%s: was %s, is %s\n%s", sim_plan_keys[key].name, was, is, out.data);
    }
    check_same_stages(&plan, &again);
    for (int i = 0; i < plan.placement->axes.count; i++) {
        const char *name = plan.placement->axes.names[i];
        const int at = topo_axis_named(&again.placement->axes, name);
        assert_int_equal(at < 0 ? 1 : again.placement->axes.sizes[at], plan.placement->axes.sizes[i]);
    }
    return true;
}

static void what_is_written_is_read_back(struct base_arena *arena)
{
    enum { TRIES_A_PLAN = 20 };
    const char *given = getenv("IMPORT_TRIPS");
    const int64_t enough = given ? strtoll(given, NULL, 10) : 200;
    for (int f = 0; f < BASE_COUNT(formats); f++) {
        struct base_random random;
        int64_t done = 0;
        base_random_seed(&random, 43 + (uint64_t)f);
        for (int64_t i = 0; i < TRIES_A_PLAN * enough && done < enough; i++) {
            struct base_arena question = {0};
            struct sim_cache *cache = sim_cache_new(&question);
            const struct sim_plan_text text = random_plan(&question, &random, formats[f].software);
            done += goes_round(&question, cache, &formats[f], &text);
            sim_cache_free(cache);
            base_arena_free(&question);
        }
        TEST_ROW("%s of %s: %lld", formats[f].name, formats[f].software, (long long)done);
        assert_int_equal(done, enough);
    }
    (void)arena;
}

/* Every word of every key, and some numbers: a file that cannot express one is refused, and never silent. */
static void every_setting_is_written_or_refused(struct base_arena *arena)
{
    static const struct {
        enum sim_key key;
        const char *values[16];
    } more[] = {
        {SIM_REMAT_POLICY,
         {"full;every:2", "full;layers:1", "modules:layernorm", "modules:core_attn+mlp", "save_qkv_proj",
          "save_dot_except_mlp", "minimal_offloaded", "device:query_proj", "device:query_proj;layers:2",
          "offload:mlpwo", "device:context;offload:out_proj"}},
        {SIM_PIPELINE_LAYERS, {"3,5"}},
        {SIM_PIPELINE_LAYOUT, {"Et*3|t*5L", "even over 10 slots"}},
        {SIM_MTP_LAYERS, {"1"}},
        {SIM_VIRTUAL_STAGES, {"2"}},
        {SIM_LORA_RANK, {"8"}},
        {SIM_DROPOUT_RATE, {"0.1"}},
        {SIM_SCANNED, {"0"}},
        {SIM_CAPACITY_FACTOR, {"1.25"}},
        {SIM_OVERLAP_MOE_A2A, {"1"}},
        {SIM_CUDA_GRAPHS, {"full_iteration", "local:attn"}},
        {SIM_TP_COMM_OVERLAP, {"0", "1"}},
        {SIM_OVERLAP_GRAD_REDUCE, {"0", "1"}},
        {SIM_OVERLAP_PARAM_GATHER, {"0", "1"}},
        {SIM_DDP_BUCKET_SIZE, {"1000000"}},
        {SIM_COMPILE, {"0", "1"}},
        {SIM_LOSS, {"fused", "chunked:4"}},
        {SIM_Z_LOSS, {"0.01"}},
        {SIM_RULES, {"zero3", "data_only", "standard:1,1", "maxtext", "megatron"}},
        {SIM_ICI_MESH, {"data=2,fsdp=8", "fsdp=4,tensor=4", "fsdp=8,context=2", "fsdp=8,stage=2"}},
    };
    int written_count = 0;
    for (int f = 0; f < BASE_COUNT(formats); f++)
        for (int key = 0; key < SIM_KEY_COUNT; key++) {
            const char *values[SIM_MOST_WORDS + 16] = {0};
            if (!strncmp(sim_plan_keys[key].name, "memory_", 7)) continue; /* questions about the plan, not in files */
            int count = 0;
            for (int i = 0; i < SIM_MOST_WORDS && sim_plan_keys[key].words[i].name; i++)
                if (key != SIM_PIPELINE_PARTITION || strcmp(formats[f].software, "nanotron") != 0)
                    values[count++] = sim_plan_keys[key].words[i].name;
            for (int m = 0; m < BASE_COUNT(more); m++)
                for (int i = 0; i < 16 && more[m].key == (enum sim_key)key && more[m].values[i]; i++)
                    values[count++] = more[m].values[i];
            for (int i = 0; i < 3 * count; i++) {
                struct base_arena question = {0};
                struct sim_cache *cache = sim_cache_new(&question);
                struct sim_plan_text text = plain_plan(&question, formats[f].software, i / count);
                text.values[key] = values[i % count];
                written_count += goes_round(&question, cache, &formats[f], &text);
                sim_cache_free(cache);
                base_arena_free(&question);
            }
        }
    assert_true(written_count > 300);
    (void)arena;
}

/* ---- what files say ---- */

static const char *said(struct base_arena *arena, const char *path, const char *topology, bool *refused)
{
    const struct model_import_request request = {
        .paths = &path, .path_count = 1, .topology = *topology ? topology : NULL};
    struct model_import import;
    struct base_error error;
    struct base_text out = {.arena = arena};
    struct base_json_writer writer = {.text = &out, .layout = BASE_JSON_ONE_LINE};
    *refused = model_import_read(arena, &request, &import, &error) != BASE_OK;
    if (*refused) return base_copy(arena, error.text);
    const struct sim_plan_text text = text_of(&import);
    sim_plan_put_json(arena, &text, &writer);
    for (int i = 0; i < import.warning_count; i++) base_putf(&out, "%s\n", import.warnings[i]);
    return out.data;
}

/* expected: lines, each of which must be in the answer, or, behind a "!", not. A row without a text is of the file
 * before it. */
static void files_say_what_they_say(struct base_arena *arena)
{
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    const char *path = NULL;
    int rows = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/imports.csv", &error), &error);
    for (;; rows++) {
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        bool refused;
        const char *name = base_csv_field(&csv, 0), *outcome = base_csv_field(&csv, 2),
                   *expected = base_csv_field(&csv, 3), *text = base_csv_field(&csv, 4);
        TEST_ROW("%s on %s", name, base_csv_field(&csv, 1));
        if (*text) path = written(arena, name, text, strlen(text));
        const char *answer = said(arena, path, base_csv_field(&csv, 1), &refused);
        if (refused != !strcmp(outcome, "refused")) fail_msg("is to be %s, and gives %s", outcome, answer);
        for (const char *at = expected; *at; at += strcspn(at, "\n"), at += *at == '\n') {
            const bool absent = *at == '!';
            const char *what = base_copy_bytes(arena, at + absent, strcspn(at, "\n") - absent);
            if (!strstr(answer, what) != absent) fail_msg("\"%s\" is %sin: %s", what, absent ? "" : "not ", answer);
        }
    }
    assert_true(rows > 15);
    base_csv_close(&csv);
}

/* libyaml would take minutes for the first; an included file is YAML by its name, whatever it links to or waits for. */
static void hostile_yaml_is_refused_at_once(struct base_arena *arena)
{
    enum { DEEP = 200000 };
    char *deep = memset(base_alloc(arena, DEEP + 1, 1), '[', DEEP);
    const struct {
        const char *text, *says;
    } rows[] = {{deep, "nested too deep"},
                {"a: &a {<<: *a}\n", "nested too deep"},
                {"a: !include /etc/passwd\n", "ends with .yaml"},
                {"a: !include /dev/zero\n", "ends with .yaml"},
                {"a: !include .\n", "ends with .yaml"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *text = base_print(arena, "trainer: {train_batch_size: 64}\n%s", rows[i].text);
        bool refused = false;
        TEST_ROW("%.40s", rows[i].text);
        assert_non_null(
            strstr(said(arena, written(arena, "x.yaml", text, strlen(text)), "v4-32", &refused), rows[i].says));
        assert_true(refused);
    }
}

/* Cut anywhere, or with a byte changed, a file is read or refused, and never more than that. */
static void damaged_files_end_with_a_message(struct base_arena *arena)
{
    enum { TRIES = 600 };
    static const char *const texts[][2] = {
        {"x.sh", "A=(--num-layers $((2*4)) --hidden-size \"${H:-512}\" )\nif [[ $A == 3 ]]; then B+=(1); fi\n"
                 "torchrun --nproc_per_node 8 pretrain_gpt.py ${A[@]} --num-attention-heads 8 --micro-batch-size 1 \\\n"
                 " --global-batch-size 64 --seq-length 128 --tensor-model-parallel-size 2 --vocab-size 1000\n"},
        {"x.toml", "[model]\nname = \"llama3\"\nflavor='8B'\n[training]\nbatch_size = 0x2\nseq_len=1_024\n"
                   "[parallelism]\ndata_parallel_shard_degree = -1\nlist = [\"a\", 'b', 3.5e2, true]\n"},
        {"x.yaml", "a: &x {b: [1, 2, {c: d}]}\ntokens:\n  micro_batch_size: 2\n  batch_accumulation_per_replica: 4\n"
                   "  sequence_length: ${multiply:4, 128}\nmodel:\n  model_config: *x\n"}};
    struct base_random random;
    base_random_seed(&random, 4300);
    for (int i = 0; i < TRIES; i++) {
        struct base_arena question = {0};
        const char *const *which = texts[i % BASE_COUNT(texts)];
        char *text = base_copy(&question, which[1]);
        size_t length = strlen(text);
        bool refused;
        for (int64_t n = base_random_below(&random, 4); n >= 0; n--)
            text[base_random_below(&random, (int64_t)length)] = (char)base_random_below(&random, 256);
        if (i % 5 == 0) length = (size_t)base_random_below(&random, (int64_t)length);
        const char *path = written(&question, which[0], text, length);
        assert_non_null(said(&question, path, "h100:1x8", &refused));
        base_arena_free(&question);
    }
    (void)arena;
}

static const struct test tests[] = {
    TEST(files_say_what_they_say),
    TEST(hostile_yaml_is_refused_at_once),
    TEST(damaged_files_end_with_a_message),
    TEST(what_is_written_is_read_back),
    TEST(every_setting_is_written_or_refused),
};

int main(int argument_count, char **arguments)
{
    assert_non_null(mkdtemp(folder));
    const int status = test_main(tests, BASE_COUNT(tests), argument_count, arguments);
    struct base_arena arena = {0};
    const int left = system(base_print(&arena, "rm -rf '%s'", folder));
    base_arena_free(&arena);
    return status | left;
}
