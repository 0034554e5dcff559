/* Tests of pipelines, and of sequences over several devices, that run: what they lose together is what one device
 * loses, whatever the cut and the schedule, in the memory that was predicted; between processes as in one. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "tests/sockets.h"

#include <math.h>

enum { STEPS = 3 };

#define DECODER                                                                                                        \
    "decoder_only:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=48,num_layers=4,vocab_size=96,mlp_activations=relu,"       \
    "logits_via_embedding=1"
#define SCANNED                                                                                                        \
    "scalable_decoder_only:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=48,num_layers=5,vocab_size=48,mlp_activations="   \
    "gelu+linear,logits_via_embedding=0"
#define BOTH                                                                                                           \
    "encoder_decoder:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=36,num_encoder_layers=2,num_decoder_layers=4,vocab_"    \
    "size=48,mlp_activations=gelu+linear,logits_via_embedding=0"

#define EXPERTS                                                                                                        \
    "moe_encoder_decoder:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=36,num_encoder_layers=4,num_decoder_layers=4,"      \
    "vocab_"                                                                                                           \
    "size=48,mlp_activations=gelu+linear,logits_via_embedding=0,num_experts=4,num_selected_experts=1,expert_mlp_dim="  \
    "48,num_encoder_sparse_layers=2,num_decoder_sparse_layers=2,group_size=8"
#define DECODER_EXPERTS                                                                                                \
    "decoder_only:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=48,num_layers=4,vocab_size=96,mlp_activations=gelu,"       \
    "logits_via_embedding=1,num_experts=4,num_selected_experts=2,expert_mlp_dim=48,moe_every=2"
#define SCANNED_EXPERTS                                                                                                \
    "scalable_decoder_only:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=48,num_layers=4,vocab_size=96,mlp_activations="   \
    "gelu,logits_via_embedding=1,num_experts=4,num_selected_experts=2,expert_mlp_dim=48,moe_every=2"

struct setting {
    const char *model, *topology, *partitions, *stages, *chunks, *schedule, *microbatches, *optimizer, *dtype, *remat,
        *optimizer_partitioning, *context, *sequence_parallel;
};
static const struct setting settings[] = {
    {DECODER, "local:2", "1", "2", "1", "1f1b", "4", "adamw", "float32", "none", "none", NULL, NULL},
    {DECODER, "local:2", "1", "2", "1", "gpipe", "4", "adamw", "float32", "none", "none", NULL, NULL},
    {DECODER, "local:4", "1", "4", "1", "1f1b", "2", "sgd", "float32", "none", "none", NULL, NULL},
    {DECODER, "local:2", "1", "2", "2", "interleaved", "4", "adafactor", "float32", "none", "none", NULL, NULL},
    {DECODER, "local:4", "2", "2", "1", "1f1b", "4", "adamw", "float32", "minimal", "none", NULL, NULL},
    {DECODER ",position_encoding=alibi", "local:4", "2", "2", "1", "1f1b", "4", "adamw", "float32", "none", "none",
     NULL, NULL},
    {DECODER ",attention_softcap=0.5,logits_softcap=2", "local:4", "2", "2", "1", "1f1b", "4", "adamw", "float32",
     "full", "none", NULL, NULL},
    {DECODER, "local:8", "2", "2", "2", "interleaved", "2", "adamw", "float32", "full", "data", NULL, NULL},
    {DECODER, "local:6", "1", "2", "1", "1f1b", "2", "adamw", "bfloat16", "none", "data+gradients", NULL, NULL},
    {SCANNED, "local:3", "1", "3", "1", "1f1b", "3", "adafactor", "float32", "full", "none", NULL, NULL},
    {SCANNED, "local:4", "2", "2", "1", "gpipe", "1", "adamw", "float32", "none", "none", NULL, NULL},
    {BOTH, "local:2", "1", "2", "1", "1f1b", "4", "adafactor", "float32", "none", "none", NULL, NULL},
    {BOTH, "local:4", "1", "4", "1", "1f1b", "4", "adamw", "float32", "none", "none", NULL, NULL},
    {BOTH, "local:8", "2", "4", "1", "gpipe", "3", "adafactor", "float32", "minimal", "none", NULL, NULL},
    {EXPERTS, "local:4", "1", "4", "1", "1f1b", "3", "adamw", "float32", "none", "none", NULL, NULL},
    {DECODER_EXPERTS, "local:2", "1", "2", "1", "1f1b", "3", "adafactor", "float32", "none", "none", NULL, NULL},
    {SCANNED_EXPERTS, "local:2", "1", "2", "1", "1f1b", "3", "adamw", "float32", "none", "none", NULL, NULL},
};

static struct sim_plan_text plan_of(const struct setting *s)
{
    return (struct sim_plan_text){.values = {[SIM_MODEL] = s->model,
                                             [SIM_TOPOLOGY] = s->topology,
                                             [SIM_NUM_PARTITIONS] = s->partitions,
                                             [SIM_PIPELINE_STAGES] = s->stages,
                                             [SIM_VIRTUAL_STAGES] = s->chunks,
                                             [SIM_PIPELINE_SCHEDULE] = s->schedule,
                                             [SIM_NUM_MICROBATCHES] = s->microbatches,
                                             [SIM_OPTIMIZER] = s->optimizer,
                                             [SIM_DTYPE] = s->dtype,
                                             [SIM_REMAT_POLICY] = s->remat,
                                             [SIM_OPTIMIZER_PARTITIONING] = s->optimizer_partitioning,
                                             [SIM_CONTEXT_PARALLEL] = s->context,
                                             [SIM_SEQUENCE_PARALLEL] = s->sequence_parallel,
                                             [SIM_INPUTS_LENGTH] = "10",
                                             [SIM_TARGETS_LENGTH] = s->context ? "28" : "14",
                                             [SIM_BATCH_SIZE] = "36",
                                             [SIM_LEARNING_RATE] = "1e-3"}};
}

/* The same, on one device. */
static struct sim_plan_text alone(const struct setting *s)
{
    struct sim_plan_text text = plan_of(s);
    text.values[SIM_TOPOLOGY] = "local:1";
    text.values[SIM_NUM_PARTITIONS] = text.values[SIM_PIPELINE_STAGES] = text.values[SIM_VIRTUAL_STAGES] = "1";
    text.values[SIM_OPTIMIZER_PARTITIONING] = "none";
    text.values[SIM_CONTEXT_PARALLEL] = text.values[SIM_SEQUENCE_PARALLEL] = NULL;
    return text;
}

struct outcome {
    enum base_status status;
    char message[300];
    double loss[STEPS], gradient_norm[STEPS], accuracy[STEPS], weight[STEPS];
    int64_t arena_bytes, predicted_bytes;
    int collective_count, predicted_count, pass_count;
    int64_t collectives, predicted; /* how many there are of all kinds */
    double last_end_s;
    int64_t stage_bytes[8], predicted_stage_bytes[8];
};

static int64_t count_of(const struct sim_collective_row *rows, int count)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++) sum += rows[i].count * (rows[i].bytes + 1);
    return sum;
}

static enum base_status run_and_predict(struct base_arena *arena, struct sim_cache *cache,
                                        const struct sim_plan_text *text, const struct exec_request *request,
                                        struct outcome *out, struct base_error *error)
{
    struct exec_result result;
    struct sim_plan plan;
    struct sim_prediction predicted;
    struct sim_passes passes;
    struct sim_detail detail = {.lists_collectives = true, .passes = &passes, .arena = arena};
    const enum model_step step = request->evaluates ? MODEL_STEP_EVALUATE : MODEL_STEP_TRAIN;
    BASE_TRY(sim_plan_check(cache, arena, text, step, SIM_AS_EXECUTED, &plan, error));
    BASE_TRY(exec_run(arena, cache, &plan, request, &result, error));
    BASE_TRY(sim_predict(cache, &plan, &predicted, &detail, error));
    memcpy(out->loss, result.loss, sizeof out->loss);
    memcpy(out->gradient_norm, result.gradient_norm, sizeof out->gradient_norm);
    memcpy(out->accuracy, result.accuracy, sizeof out->accuracy);
    memcpy(out->weight, result.weight, sizeof out->weight);
    out->arena_bytes = result.memory.peak_bytes, out->predicted_bytes = predicted.memory.peak_bytes;
    out->collective_count = result.collective_count, out->predicted_count = detail.collectives.count;
    out->collectives = count_of(result.collectives, result.collective_count);
    out->predicted = count_of(detail.collectives.rows, detail.collectives.count);
    out->pass_count = result.passes.count;
    for (int i = 0; i < result.passes.stage_count; i++) out->stage_bytes[i] = result.passes.stage_bytes[i];
    for (int i = 0; passes.count && i < passes.stage_count; i++) out->predicted_stage_bytes[i] = passes.stage_bytes[i];
    for (int i = 0; i < result.passes.count; i++) out->last_end_s = fmax(out->last_end_s, result.passes.end_s[i]);
    return BASE_OK;
}

static void run_one(const struct sim_plan_text *text, const struct exec_request *request, struct outcome *out)
{
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    struct base_error error = {.status = BASE_OK};
    memset(out, 0, sizeof *out);
    out->status = BASE_INTERNAL;
    if (setjmp(exhausted)) return;
    struct sim_cache *cache = sim_cache_new(&arena);
    out->status = run_and_predict(&arena, cache, text, request, out, &error);
    snprintf(out->message, sizeof out->message, "%.299s", error.text);
    sim_cache_free(cache);
    base_arena_free(&arena);
}

static void check_losses(const struct outcome *o, const struct outcome *reference, double tolerance)
{
    if (o->status != BASE_OK) fail_msg("%s", o->message);
    for (int i = 0; i < STEPS; i++) {
        assert_near(o->loss[i] / reference->loss[i], 1, tolerance);
        assert_near(o->gradient_norm[i] / reference->gradient_norm[i], 1, 10 * tolerance);
    }
}

static const struct exec_request in_process = {.steps = STEPS};

static void stages_lose_what_one_device_does(struct base_arena *arena)
{
    (void)arena;
    for (int i = 0; i < BASE_COUNT(settings); i++) {
        const struct setting *s = &settings[i];
        const struct sim_plan_text text = plan_of(s), one = alone(s);
        struct outcome outcome, reference;
        TEST_ROW("row %d: %s, %s stages, %s", i, s->topology, s->stages, s->schedule);
        run_one(&one, &in_process, &reference);
        if (reference.status != BASE_OK) fail_msg("%s", reference.message);
        run_one(&text, &in_process, &outcome);
        check_losses(&outcome, &reference, strcmp(s->dtype, "float32") ? 1e-2 : 1e-6);
        assert_int_equal(outcome.arena_bytes, outcome.predicted_bytes);
        assert_memory_equal(outcome.stage_bytes, outcome.predicted_stage_bytes, sizeof outcome.stage_bytes);
        assert_true(outcome.stage_bytes[atoi(s->stages) - 1] > 0);
        assert_int_equal(outcome.collective_count, outcome.predicted_count);
        assert_int_equal(outcome.collectives, outcome.predicted);
        assert_int_equal(outcome.pass_count, 2 * atoi(s->stages) * atoi(s->chunks) * atoi(s->microbatches));
    }
}

/* A stage's layers draw the masks that they have in the whole model. */
static void stages_drop_what_one_device_does(struct base_arena *arena)
{
    static const int rows[] = {0, 3, 4, 7, 9, 11};
    (void)arena;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct setting *s = &settings[rows[i]];
        struct sim_plan_text text = plan_of(s), one = alone(s);
        struct outcome outcome, reference;
        TEST_ROW("row %d: %s, %s stages, %s", rows[i], s->topology, s->stages, s->schedule);
        text.values[SIM_DROPOUT_RATE] = one.values[SIM_DROPOUT_RATE] = "0.25";
        run_one(&one, &in_process, &reference);
        run_one(&text, &in_process, &outcome);
        check_losses(&outcome, &reference, 2e-6);
        assert_int_equal(outcome.arena_bytes, outcome.predicted_bytes);
    }
}

/* Held-out batches go forward alone, and nothing is kept for a way back. */
static void check_evaluation(const struct outcome *o, const struct outcome *reference, double tolerance)
{
    if (o->status != BASE_OK) fail_msg("%s", o->message);
    for (int i = 0; i < STEPS; i++) {
        assert_near(o->loss[i] / reference->loss[i], 1, tolerance);
        assert_near(o->accuracy[i], reference->accuracy[i], tolerance);
        assert_near(o->weight[i], reference->weight[i], 0);
    }
}

static const struct exec_request evaluation = {.steps = STEPS, .evaluates = true};

static void stages_evaluate_as_one_device_does(struct base_arena *arena)
{
    (void)arena;
    for (int i = 0; i < BASE_COUNT(settings); i++) {
        const struct setting *s = &settings[i];
        const struct sim_plan_text one = alone(s);
        struct sim_plan_text text = plan_of(s);
        struct outcome outcome, fewer, trained, reference;
        const bool routes = strstr(s->model, "num_experts") != NULL; /* by groups of what goes through at once */
        if (routes) text.values[SIM_NUM_MICROBATCHES] = "1";
        TEST_ROW("row %d: %s, %s stages, %s", i, s->topology, s->stages, s->schedule);
        run_one(&one, &evaluation, &reference);
        if (reference.status != BASE_OK) fail_msg("%s", reference.message);
        run_one(&text, &evaluation, &outcome);
        check_evaluation(&outcome, &reference, strcmp(s->dtype, "float32") ? 1e-2 : 1e-6);
        assert_int_equal(outcome.arena_bytes, outcome.predicted_bytes);
        assert_memory_equal(outcome.stage_bytes, outcome.predicted_stage_bytes, sizeof outcome.stage_bytes);
        assert_int_equal(outcome.collective_count, outcome.predicted_count);
        assert_int_equal(outcome.collectives, outcome.predicted);
        assert_int_equal(outcome.pass_count,
                         atoi(s->stages) * atoi(s->chunks) * atoi(text.values[SIM_NUM_MICROBATCHES]));
        run_one(&text, &in_process, &trained);
        assert_true(outcome.arena_bytes < trained.arena_bytes);
        if (routes) continue;
        text.values[SIM_NUM_MICROBATCHES] = "12"; /* none of which waits in memory */
        run_one(&text, &evaluation, &fewer);
        check_evaluation(&fewer, &reference, strcmp(s->dtype, "float32") ? 1e-2 : 1e-6);
        assert_true(fewer.arena_bytes < outcome.arena_bytes);
    }
}

/* No schedule changes who adds what to what. */
static void schedules_lose_the_same_bits(struct base_arena *arena)
{
    (void)arena;
    struct sim_plan_text text = plan_of(&settings[0]);
    struct outcome one, other;
    run_one(&text, &in_process, &one);
    text.values[SIM_PIPELINE_SCHEDULE] = "gpipe";
    run_one(&text, &in_process, &other);
    assert_memory_equal(one.loss, other.loss, sizeof one.loss);
    assert_true(other.arena_bytes > one.arena_bytes); /* all microbatches are in flight at once */
}

/* ---- between ranks ---- */

struct job {
    struct sim_plan_text text;
    const char *checkpoint;
    int64_t steps;
    struct outcome outcomes[MOST_RANKS];
};

static void run_job(const struct exec_transport *transport, void *shared)
{
    struct job *job = shared;
    const int64_t steps = job->steps ? job->steps : STEPS;
    run_one(&job->text, &(struct exec_request){.steps = steps, .transport = transport, .checkpoint = job->checkpoint},
            &job->outcomes[transport->rank]);
}

static void ranks_are_stages(struct base_arena *arena)
{
    (void)arena;
    struct job *job = shared_memory(sizeof *job);
    for (int i = 0; i < BASE_COUNT(settings); i++) {
        const struct setting *s = &settings[i];
        const int ranks = atoi(strchr(s->topology, ':') + 1);
        struct outcome reference;
        TEST_ROW("row %d: %s, %s stages, %s", i, s->topology, s->stages, s->schedule);
        *job = (struct job){.text = plan_of(s)};
        run_one(&job->text, &in_process, &reference);
        assert_int_equal(run_ranks(ranks, run_job, job), 0);
        for (int r = 0; r < ranks; r++) {
            const struct outcome *o = &job->outcomes[r];
            check_losses(o, &reference, strcmp(s->dtype, "float32") ? 1e-2 : 1e-6);
            assert_memory_equal(o->loss, job->outcomes[0].loss, sizeof o->loss);
            assert_int_equal(o->arena_bytes, reference.arena_bytes);
            assert_int_equal(o->collectives, reference.collectives);
            assert_int_equal(o->pass_count, reference.pass_count);
            assert_true(o->last_end_s > 0);
        }
    }
    munmap(job, sizeof *job);
}

static void run_evaluation(const struct exec_transport *transport, void *shared)
{
    struct job *job = shared;
    struct exec_request request = evaluation;
    request.transport = transport;
    run_one(&job->text, &request, &job->outcomes[transport->rank]);
}

static void ranks_evaluate_as_stages_do(struct base_arena *arena)
{
    static const int rows[] = {0, 3, 4, 9, 11};
    (void)arena;
    struct job *job = shared_memory(sizeof *job);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct setting *s = &settings[rows[i]];
        const int ranks = atoi(strchr(s->topology, ':') + 1);
        struct outcome reference;
        TEST_ROW("row %d: %s, %s stages, %s", rows[i], s->topology, s->stages, s->schedule);
        *job = (struct job){.text = plan_of(s)};
        run_one(&job->text, &evaluation, &reference);
        assert_int_equal(run_ranks(ranks, run_evaluation, job), 0);
        for (int r = 0; r < ranks; r++) {
            check_evaluation(&job->outcomes[r], &reference, 1e-6);
            assert_int_equal(job->outcomes[r].arena_bytes, reference.arena_bytes);
            assert_int_equal(job->outcomes[r].collectives, reference.collectives);
        }
    }
    munmap(job, sizeof *job);
}

/* ---- sequences over several devices ---- */

#define GROUPED                                                                                                        \
    "decoder_only:emb_dim=24,num_heads=6,num_kv_heads=2,head_dim=4,mlp_dim=48,num_layers=2,vocab_size=96,mlp_"         \
    "activations=relu,logits_via_embedding=1"

#define TURNED                                                                                                         \
    "decoder_only:emb_dim=24,num_heads=6,num_kv_heads=2,head_dim=4,mlp_dim=48,num_layers=4,vocab_size=96,mlp_"         \
    "activations=silu+linear,logits_via_embedding=1,position_encoding=rotary"
#define PLACED                                                                                                         \
    "scalable_decoder_only:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=48,num_layers=2,vocab_size=96,mlp_activations="   \
    "gelu,logits_via_embedding=0,position_encoding=learned,num_positions=28"
#define WINDOWED                                                                                                       \
    "decoder_only:emb_dim=24,num_heads=6,num_kv_heads=1,head_dim=4,mlp_dim=48,num_layers=3,vocab_size=96,mlp_"         \
    "activations=gelu,logits_via_embedding=1,position_encoding=rotary,sliding_window=5,sliding_window_every=2"

/* 10 inputs do not fall into four parts alike: that is a row, too. Causal sequences of 28 lie over devices in pieces
 * that share the work evenly, but where a table of relative positions keeps them in order. */
static const struct setting over_context[] = {
    {DECODER, "local:2", "1", "1", "1", "1f1b", "1", "adamw", "float32", "none", "none", "2", "0"},
    {DECODER, "local:4", "2", "1", "1", "1f1b", "2", "adafactor", "float32", "full", "none", "2", "0"},
    {DECODER, "local:4", "2", "1", "1", "1f1b", "1", "sgd", "float32", "none", "none", "2", "1"},
    {DECODER, "local:8", "2", "2", "1", "1f1b", "4", "adamw", "float32", "none", "data", "2", "0"},
    {DECODER, "local:4", "1", "1", "1", "1f1b", "1", "adamw", "float32", "none", "none", "4", "0"},
    {GROUPED, "local:4", "1", "1", "1", "1f1b", "3", "adamw", "float32", "minimal", "data+gradients", "2", "0"},
    {BOTH, "local:2", "1", "1", "1", "1f1b", "1", "adafactor", "float32", "none", "none", "2", "0"},
    {SCANNED, "local:2", "1", "1", "1", "1f1b", "2", "adamw", "bfloat16", "full", "none", "2", "0"},
    {TURNED, "local:2", "1", "1", "1", "1f1b", "1", "adamw", "float32", "none", "none", "2", "0"},
    {PLACED, "local:2", "1", "1", "1", "1f1b", "3", "adamw", "float32", "minimal", "none", "2", "0"},
    {WINDOWED, "local:4", "2", "1", "1", "1f1b", "1", "sgd", "float32", "none", "none", "2", "0"},
    {TURNED, "local:8", "2", "2", "1", "1f1b", "4", "adamw", "float32", "full", "data", "2", "1"},
};

/* Keys and values go round a ring, of 2 and of 7 devices. */
static const struct setting round_rings[] = {
    {TURNED, "local:2", "1", "1", "1", "1f1b", "1", "adamw", "float32", "none", "none", "2", "0"},
    {TURNED, "local:7", "1", "1", "1", "1f1b", "3", "sgd", "float32", "minimal", "none", "7", "0"},
    {TURNED, "local:7", "1", "1", "1", "1f1b", "1", "adafactor", "float32", "full", "none", "7", "0"},
    {TURNED, "local:4", "2", "1", "1", "1f1b", "2", "adafactor", "float32", "full", "none", "2", "0"},
    {TURNED, "local:4", "2", "1", "1", "1f1b", "1", "sgd", "float32", "selective", "none", "2", "1"},
    {TURNED, "local:8", "2", "2", "1", "1f1b", "4", "adamw", "float32", "none", "data", "2", "0"},
    {TURNED, "local:4", "1", "2", "2", "interleaved", "4", "adamw", "float32", "full", "none", "2", "0"},
    {PLACED, "local:4", "1", "1", "1", "1f1b", "3", "adamw", "float32", "minimal", "data+gradients", "2", "0"},
    {DECODER ",position_encoding=alibi", "local:4", "1", "1", "1", "1f1b", "2", "adamw", "float32", "none", "none", "4",
     "0"},
    {PLACED, "local:2", "1", "1", "1", "1f1b", "2", "adamw", "bfloat16", "full", "none", "2", "0"},
    {WINDOWED, "local:7", "1", "1", "1", "1f1b", "1", "adamw", "float32", "device:context", "none", "7", "0"},
};

/* Devices exchange parts of sequences for heads. */
#define MANY_HEADS                                                                                                     \
    "decoder_only:emb_dim=24,num_heads=8,num_kv_heads=4,head_dim=4,mlp_dim=48,num_layers=4,vocab_size=96,mlp_"         \
    "activations=silu+linear,logits_via_embedding=1,position_encoding=rotary"
static const struct setting for_heads[] = {
    {DECODER, "local:2", "1", "1", "1", "1f1b", "1", "adamw", "float32", "none", "none", "2", "0"},
    {GROUPED, "local:2", "1", "1", "1", "1f1b", "3", "adamw", "float32", "minimal", "data+gradients", "2", "0"},
    {PLACED, "local:2", "1", "1", "1", "1f1b", "3", "adamw", "float32", "selective", "none", "2", "0"},
    {BOTH, "local:2", "1", "1", "1", "1f1b", "1", "adafactor", "float32", "none", "none", "2", "0"},
    {MANY_HEADS ",sliding_window=5,sliding_window_every=2", "local:4", "1", "1", "1", "1f1b", "2", "adafactor",
     "float32", "full", "none", "4", "0"},
    {DECODER ",position_encoding=alibi", "local:2", "1", "1", "1", "1f1b", "1", "adamw", "float32", "none", "none", "2",
     "0"},
    {MANY_HEADS, "local:8", "1", "2", "1", "1f1b", "4", "adamw", "float32", "none", "data", "2", "0"},
    {MANY_HEADS, "local:4", "2", "1", "1", "1f1b", "2", "adamw", "float32", "none", "data", "2", "0"},
    {MANY_HEADS, "local:8", "2", "1", "1", "1f1b", "1", "adamw", "float32", "full", "none", "2", "1"},
};

static void check_context(const struct setting *s, const struct outcome *o, const struct outcome *reference)
{
    check_losses(o, reference, strcmp(s->dtype, "float32") ? 1e-2 : 1e-6);
    assert_int_equal(o->arena_bytes, o->predicted_bytes);
    assert_int_equal(o->collective_count, o->predicted_count);
    assert_int_equal(o->collectives, o->predicted);
}

/* Losses, gradients, memory and collectives are what they are to be, in one process and as ranks. */
static void lose_what_one_does(const struct setting *rows, int count, const char *cp_comm_type)
{
    struct job *job = shared_memory(sizeof *job);
    for (int i = 0; i < count; i++) {
        const struct setting *s = &rows[i];
        const int ranks = atoi(strchr(s->topology, ':') + 1);
        const struct sim_plan_text one = alone(s);
        struct outcome reference, outcome;
        TEST_ROW("row %d: %s, context %s of %s", i, s->topology, s->context, s->model);
        run_one(&one, &in_process, &reference);
        if (reference.status != BASE_OK) fail_msg("%s", reference.message);
        *job = (struct job){.text = plan_of(s)};
        job->text.values[SIM_CP_COMM_TYPE] = cp_comm_type;
        run_one(&job->text, &in_process, &outcome);
        check_context(s, &outcome, &reference);
        assert_int_equal(run_ranks(ranks, run_job, job), 0);
        for (int r = 0; r < ranks; r++) check_context(s, &job->outcomes[r], &reference);
        run_one(&one, &evaluation, &reference);
        run_one(&job->text, &evaluation, &outcome);
        check_evaluation(&outcome, &reference, strcmp(s->dtype, "float32") ? 1e-2 : 1e-6);
        assert_int_equal(outcome.arena_bytes, outcome.predicted_bytes);
    }
    munmap(job, sizeof *job);
}

/* Keys and values are gathered for each layer. */
static void sequences_over_devices_lose_what_one_does(struct base_arena *arena)
{
    (void)arena;
    lose_what_one_does(over_context, BASE_COUNT(over_context), "all_gather");
}

static void rings_lose_what_one_device_does(struct base_arena *arena)
{
    (void)arena;
    lose_what_one_does(round_rings, BASE_COUNT(round_rings), "p2p");
}

static void exchanged_heads_lose_what_one_device_does(struct base_arena *arena)
{
    (void)arena;
    lose_what_one_does(for_heads, BASE_COUNT(for_heads), "a2a");
}

/* A sequence over one device is over none: the same bits, bytes and collectives. */
static void context_of_one_is_none(struct base_arena *arena)
{
    (void)arena;
    for (int i = 0; i < BASE_COUNT(over_context); i++) {
        struct sim_plan_text none = plan_of(&over_context[i]), one;
        struct outcome without, with;
        TEST_ROW("row %d", i);
        none.values[SIM_CONTEXT_PARALLEL] = NULL;
        one = none;
        one.values[SIM_CONTEXT_PARALLEL] = "1";
        run_one(&none, &in_process, &without);
        run_one(&one, &in_process, &with);
        if (without.status != BASE_OK) fail_msg("%s", without.message);
        assert_int_equal(with.status, BASE_OK);
        assert_memory_equal(with.loss, without.loss, sizeof with.loss);
        assert_memory_equal(with.gradient_norm, without.gradient_norm, sizeof with.gradient_norm);
        assert_int_equal(with.arena_bytes, without.arena_bytes);
        assert_int_equal(with.collectives, without.collectives);
    }
}

/* Of a run in two parts, the steps of the second. */
static void check_rest(const struct outcome *o, const struct outcome *reference, int first_step)
{
    if (o->status != BASE_OK) fail_msg("%s", o->message);
    for (int i = first_step; i < STEPS; i++) assert_near(o->loss[i - first_step] / reference->loss[i], 1, 2e-6);
}

/* Stages leave a checkpoint that one device resumes from, and stages resume from one device's, in one process or
 * as ranks; what they share is written once. */
static void checkpoints_of_stages_are_those_of_any_mesh(struct base_arena *arena)
{
    struct job *job = shared_memory(sizeof *job);
    for (int i = 0; i < BASE_COUNT(settings); i++) {
        const struct setting *s = &settings[i];
        const struct sim_plan_text one = alone(s);
        struct outcome reference, rest;
        if (strcmp(s->dtype, "float32") != 0) continue;
        TEST_ROW("row %d: %s, %s stages, %s", i, s->topology, s->stages, s->schedule);
        const char *from_stages = test_folder(arena, "stages"), *from_one = test_folder(arena, "stages");
        run_one(&one, &in_process, &reference);
        *job = (struct job){.text = plan_of(s), .checkpoint = from_stages, .steps = 1};
        assert_int_equal(run_ranks(atoi(strchr(s->topology, ':') + 1), run_job, job), 0);
        run_one(&one, &(struct exec_request){.steps = STEPS, .checkpoint = from_stages}, &rest);
        check_rest(&rest, &reference, 1);
        run_one(&one, &(struct exec_request){.steps = 1, .checkpoint = from_one}, &rest);
        run_one(&job->text, &(struct exec_request){.steps = 2, .checkpoint = from_one}, &rest);
        job->checkpoint = from_one, job->steps = STEPS;
        assert_int_equal(run_ranks(atoi(strchr(s->topology, ':') + 1), run_job, job), 0);
        check_rest(&job->outcomes[0], &reference, 2);
        base_directory_remove(arena, from_stages);
        base_directory_remove(arena, from_one);
    }
    munmap(job, sizeof *job);
}

static void what_stages_cannot_do_is_refused(struct base_arena *arena)
{
    struct sim_plan_text text = plan_of(&settings[0]);
    struct outcome outcome;
    (void)arena;
    text.values[SIM_PIPELINE_STAGES] = "3";
    run_one(&text, &in_process, &outcome);
    assert_int_equal(outcome.status, BASE_INPUT);
    text = plan_of(&settings[0]); /* a layer with experts, and the one before it, are not parted */
    text.values[SIM_MODEL] = DECODER_EXPERTS;
    text.values[SIM_NUM_MICROBATCHES] = "3";
    text.values[SIM_TOPOLOGY] = "local:4";
    text.values[SIM_PIPELINE_STAGES] = "4";
    run_one(&text, &in_process, &outcome);
    assert_int_equal(outcome.status, BASE_INPUT);
    assert_non_null(strstr(outcome.message, "whole runs of 2"));
}

/* ---- the order of events ---- */

struct room {
    int waiting[2 * SIM_MOST_STAGE_CHUNKS]; /* by piece and way: the microbatch whose message waits there; -1: none */
};

/* Messages go when there is something to go, passes run when what they need has just come and there is room. */
static void check_order(const struct sim_timetable *t, const struct sim_event_order *order)
{
    const int pieces = t->stages * t->chunks;
    struct room room;
    int passes = 0, microbatch[2 * SIM_MOST_STAGE_CHUNKS];
    for (int i = 0; i < 2 * pieces; i++) room.waiting[i] = microbatch[i] = -1;
    for (int i = 0; i < order->count; i++) {
        const struct sim_pass_of *pass = &order->events[i].pass;
        const int piece = pass->chunk * t->stages + pass->stage, at = pass->backward * pieces + piece,
                  to = at + (pass->backward ? -1 : 1);
        if (order->events[i].is_message) {
            assert_int_equal(room.waiting[at], pass->microbatch);
            room.waiting[at] = -1;
            microbatch[to] = pass->microbatch;
            continue;
        }
        passes++;
        const bool begins = piece == (pass->backward ? pieces - 1 : 0),
                   ends = piece == (pass->backward ? 0 : pieces - 1);
        if (!begins) assert_int_equal(microbatch[at], pass->microbatch);
        if (!ends) assert_int_equal(room.waiting[at], -1);
        if (!ends) room.waiting[at] = pass->microbatch;
    }
    assert_int_equal(passes, t->first[t->stages]);
    for (int i = 0; i < 2 * pieces; i++) assert_int_equal(room.waiting[i], -1);
}

static void every_schedule_has_an_order(struct base_arena *arena)
{
    for (int stages = 2; stages <= 8; stages++)
        for (int chunks = 1; chunks <= 4; chunks++)
            for (int kind = 0; kind < SIM_SCHEDULE_KINDS; kind++)
                for (int rounds = 1; rounds <= 3; rounds++) {
                    const struct sim_pipeline pipeline = {
                        .stages = stages, .chunks = chunks, .schedule = (enum sim_schedule_kind)kind};
                    struct sim_timetable timetable;
                    struct sim_event_order order;
                    struct base_error error = {.status = BASE_OK};
                    if (chunks > 1 && kind != SIM_INTERLEAVED) continue;
                    TEST_ROW("%d stages, %d chunks, schedule %d, %d rounds", stages, chunks, kind, rounds);
                    assert_ok(sim_timetable_make(arena, &pipeline, rounds * stages, &timetable, &error), &error);
                    assert_ok(sim_event_order_make(arena, &timetable, &order, &error), &error);
                    check_order(&timetable, &order);
                }
}

/* As many places as are in flight at the most, and none for two at once. */
static void places_are_used_again(struct base_arena *arena)
{
    enum { MICROBATCHES = 12, STAGES = 4 };
    for (int kind = 0; kind < SIM_SCHEDULE_KINDS; kind++) {
        const int chunks = kind == SIM_INTERLEAVED ? 3 : 1;
        const struct sim_pipeline pipeline = {
            .stages = STAGES, .chunks = chunks, .schedule = (enum sim_schedule_kind)kind};
        struct sim_timetable t;
        struct base_error error = {.status = BASE_OK};
        int slots[MICROBATCHES];
        assert_ok(sim_timetable_make(arena, &pipeline, MICROBATCHES, &t, &error), &error);
        for (int stage = 0; stage < STAGES; stage++) {
            int count = 0, owner[MICROBATCHES];
            for (int c = 0; c < chunks; c++) {
                const int own = sim_slots_assign(arena, &t, stage, c, slots);
                count += own;
                for (int i = 0; i < MICROBATCHES; i++) owner[i] = -1;
                for (int i = t.first[stage]; i < t.first[stage + 1]; i++) {
                    const struct sim_pass_of *pass = &t.passes[i];
                    int *place = &owner[slots[pass->microbatch]];
                    if (pass->chunk != c) continue;
                    assert_int_equal(*place, pass->backward ? pass->microbatch : -1);
                    *place = pass->backward ? -1 : pass->microbatch;
                }
            }
            if (chunks == 1) assert_near(count, sim_most_in_flight(&t, stage), 0);
            else assert_true(count >= sim_most_in_flight(&t, stage) * chunks);
        }
    }
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {
        TEST(every_schedule_has_an_order),
        TEST(places_are_used_again),
        TEST(stages_lose_what_one_device_does),
        TEST(stages_drop_what_one_device_does),
        TEST(schedules_lose_the_same_bits),
        TEST(ranks_are_stages),
        TEST(what_stages_cannot_do_is_refused),
        TEST(checkpoints_of_stages_are_those_of_any_mesh),
        TEST(stages_evaluate_as_one_device_does),
        TEST(ranks_evaluate_as_stages_do),
        TEST(sequences_over_devices_lose_what_one_does),
        TEST(rings_lose_what_one_device_does),
        TEST(exchanged_heads_lose_what_one_device_does),
        TEST(context_of_one_is_none),
    };
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
