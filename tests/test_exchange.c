/* Ranks as processes of this test, joined by sockets in place of MPI: what they compute together is what one process
 * computes, whatever the algorithm; what they agree on; checkpoints that they write together. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "exec/exec.h"
#include "exec/this_machine.h"
#include "tests/sockets.h"

enum { MOST_STEPS = 8 };

/* ---- plans ---- */

#define BOTH                                                                                                           \
    "encoder_decoder:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=36,num_encoder_layers=2,num_decoder_layers=2,vocab_"    \
    "size=48,mlp_activations=gelu+linear,logits_via_embedding=0"
#define DECODER                                                                                                        \
    "decoder_only:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=48,num_layers=3,vocab_size=96,mlp_activations=relu,"       \
    "logits_via_embedding=1"
#define SCANNED                                                                                                        \
    "scalable_decoder_only:emb_dim=24,num_heads=6,head_dim=4,mlp_dim=48,num_layers=2,vocab_size=48,mlp_activations="   \
    "gelu+linear,logits_via_embedding=0"
#define SCANNED_PRIMES                                                                                                 \
    "scalable_encoder_decoder:emb_dim=22,num_heads=5,head_dim=2,mlp_dim=13,num_encoder_layers=3,num_decoder_layers=2," \
    "vocab_size=46,mlp_activations=relu,logits_via_embedding=1"

static const struct setting {
    int ranks;
    const char *model, *topology, *submesh, *rules, *optimizer, *microbatches, *dtype, *partitioning,
        *sequence_parallel;
} settings[] = {
    {2, BOTH, "local:2", "1,1", "standard:1,1", "adafactor", "0", "float32", "none", "0"},
    {2, DECODER, "local:2", "1,2", "megatron", "adamw", "2", "float32", "none", "0"},
    {3, BOTH, "local:3", "1,3", "standard:1,1", "adafactor", "2", "float32", "none", "0"},
    {3, DECODER, "local:3", "1,1", "zero3", "adamw", "0", "float32", "none", "0"},
    {4, BOTH, "local:4", "1,2", "standard:2,2", "adafactor", "3", "float32", "none", "0"},
    {4, SCANNED, "local:4", "1,2", "gshard", "adafactor", "0", "float32", "none", "0"},
    {4, DECODER, "local:2x2", "1,2", "optimus", "sgd", "0", "bfloat16", "none", "0"},
    {4, DECODER, "local:4", "1,2", "megatron", "adamw", "2", "float32", "data", "1"},
    {6, BOTH, "local:6", "1,3", "standard:2,1", "adamw", "2", "float32", "data+gradients", "0"},
    {6, BOTH, "local:6", "1,2", "standard:1,2", "adafactor", "0", "bfloat16", "none", "0"},
    {4, SCANNED, "local:4", "1,2", "standard:1,1", "adafactor", "3", "bfloat16", "data", "0"},
    {4, SCANNED, "local:4", "1,2", "megatron", "adamw", "0", "float32", "data", "0"},
    {8, DECODER, "v4:2x2x2", "2,1,1,1", "standard:2,2", "adafactor", "0", "float32", "none", "0"},
    {2, SCANNED_PRIMES, "local:2", "1,1", "standard:1,1", "adamw", "0", "float32", "data", "0"},
};

static struct sim_plan_text plan_of(const struct setting *s)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = s->model,
                                            [SIM_TOPOLOGY] = s->topology,
                                            [SIM_SUBMESH] = s->submesh,
                                            [SIM_RULES] = s->rules,
                                            [SIM_OPTIMIZER] = s->optimizer,
                                            [SIM_NUM_MICROBATCHES] = s->microbatches,
                                            [SIM_DTYPE] = s->dtype,
                                            [SIM_OPTIMIZER_PARTITIONING] = s->partitioning,
                                            [SIM_SEQUENCE_PARALLEL] = s->sequence_parallel,
                                            [SIM_INPUTS_LENGTH] = "12",
                                            [SIM_TARGETS_LENGTH] = "18",
                                            [SIM_BATCH_SIZE] = "72",
                                            [SIM_LEARNING_RATE] = "1e-2"}};
    return text;
}

enum { MOST_ROWS = 192 };

/* What a run gave; the collectives without their times. */
struct outcome {
    enum base_status status;
    char message[300];
    int64_t first_step, step_count, arena_bytes, predicted_bytes;
    double loss[MOST_STEPS], gradient_norm[MOST_STEPS];
    int row_count;
    struct {
        int kind, axes, dtype;
        int64_t count, bytes;
    } rows[MOST_ROWS];
};

static bool overlaps; /* collectives are started and waited for apart */

static void ask_for_overlap(struct base_arena *arena, struct sim_cache *cache)
{
    static const char profile[] = "{\"constants\": {}, \"passes\": {\"overlap_collectives\": true}}";
    const struct base_json *document;
    struct base_error error;
    if (overlaps && base_json_parse(arena, profile, strlen(profile), &document, &error) == BASE_OK)
        sim_cache_override(cache, document);
}

static void run_one(const struct sim_plan_text *text, const struct exec_request *request, struct outcome *out)
{
    struct sim_prediction predicted;
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    struct base_error error = {.status = BASE_OK};
    struct exec_result result;
    struct sim_plan plan;
    memset(out, 0, sizeof *out);
    out->status = BASE_INTERNAL;
    if (setjmp(exhausted)) return;
    struct sim_cache *cache = sim_cache_new(&arena);
    ask_for_overlap(&arena, cache);
    out->status = sim_plan_check(cache, &arena, text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, &error);
    if (out->status == BASE_OK) out->status = sim_predict(cache, &plan, &predicted, NULL, &error);
    if (out->status == BASE_OK) out->status = exec_run(&arena, cache, &plan, request, &result, &error);
    if (out->status == BASE_OK) {
        out->first_step = result.first_step, out->step_count = result.step_count, out->arena_bytes = result.arena_bytes;
        out->predicted_bytes = predicted.memory.peak_bytes - predicted.memory.reserved_bytes;
        assert_true(result.collective_count <= MOST_ROWS);
        out->row_count = result.collective_count;
        memcpy(out->loss, result.loss, (size_t)result.step_count * sizeof *result.loss);
        memcpy(out->gradient_norm, result.gradient_norm, (size_t)result.step_count * sizeof *result.loss);
        for (int i = 0; i < result.collective_count; i++) {
            const struct sim_collective_row *row = &result.collectives[i];
            out->rows[i].kind = row->kind, out->rows[i].axes = (int)row->axes, out->rows[i].dtype = row->dtype,
            out->rows[i].count = row->count, out->rows[i].bytes = row->bytes;
        }
    } else {
        snprintf(out->message, sizeof out->message, "%.299s", error.text);
    }
    sim_cache_free(cache);
    base_arena_free(&arena);
}

struct job {
    struct sim_plan_text text;
    struct exec_request request;
    struct outcome outcomes[MOST_RANKS];
};

static void run_job(const struct exec_transport *transport, void *shared)
{
    struct job *job = shared;
    struct exec_request request = job->request;
    request.transport = transport;
    run_one(&job->text, &request, &job->outcomes[transport->rank]);
}

static void check_ranks(const struct job *job, int ranks, const struct outcome *alone, double tolerance)
{
    for (int r = 0; r < ranks; r++) {
        const struct outcome *o = &job->outcomes[r];
        if (o->status != BASE_OK) fail_msg("rank %d: %s", r, o->message);
        assert_int_equal(o->step_count, alone->step_count);
        assert_int_equal(o->arena_bytes, alone->arena_bytes);
        assert_int_equal(o->row_count, alone->row_count);
        assert_memory_equal(o->rows, alone->rows, (size_t)o->row_count * sizeof *o->rows);
        assert_memory_equal(o->loss, job->outcomes[0].loss, sizeof o->loss);
        for (int i = 0; i < o->step_count; i++) {
            assert_near(o->loss[i], alone->loss[i], tolerance);
            assert_near(o->gradient_norm[i], alone->gradient_norm[i], 10 * tolerance);
        }
    }
}

static void ranks_compute_what_one_process_does(struct base_arena *arena)
{
    (void)arena;
    struct job *job = shared_memory(sizeof *job);
    struct outcome alone, again;
    for (int i = 0; i < BASE_COUNT(settings); i++) {
        const struct setting *s = &settings[i];
        TEST_ROW("%d ranks, %s, %s, %s, %s, %s, %s", s->ranks, s->topology, s->submesh, s->rules, s->optimizer,
                 s->dtype, s->partitioning);
        *job = (struct job){.text = plan_of(s), .request = {.steps = 2}};
        run_one(&job->text, &job->request, &alone);
        if (alone.status != BASE_OK) fail_msg("%s", alone.message);
        assert_int_equal(run_ranks(s->ranks, run_job, job), 0);
        check_ranks(job, s->ranks, &alone, strcmp(s->dtype, "float32") ? 2e-2 : 2e-5);
        if (i % 3 != 0) continue;
        again = job->outcomes[0];
        assert_int_equal(run_ranks(s->ranks, run_job, job), 0);
        assert_memory_equal(&again, &job->outcomes[0], sizeof again);
    }
    munmap(job, sizeof *job);
}

static void run_overlapping_job(const struct exec_transport *transport, void *shared)
{
    overlaps = true;
    run_job(transport, shared);
}

/* Where there is no second way, each is waited for where it starts. */
static void run_waiting_job(const struct exec_transport *transport, void *shared)
{
    struct exec_transport one_way = *transport;
    one_way.aside = NULL;
    run_overlapping_job(&one_way, shared);
}

static int *warnings; /* of all ranks */

static void count_warning(const char *text)
{
    assert_non_null(strstr(text, "MPI_THREAD_MULTIPLE"));
    ++*warnings;
}

/* That nothing is hidden is said once, and only where something was to be. */
static void a_missing_second_way_is_said(struct base_arena *arena)
{
    static const struct {
        rank_function *run;
        int warnings;
    } rows[] = {{run_job, 0}, {run_overlapping_job, 0}, {run_waiting_job, 1}};
    (void)arena;
    struct job *job = shared_memory(sizeof *job);
    warnings = shared_memory(sizeof *warnings);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("row %d", i);
        *job = (struct job){.text = plan_of(&settings[0]), .request = {.steps = 1, .warn = count_warning}};
        *warnings = 0;
        assert_int_equal(run_ranks(settings[0].ranks, rows[i].run, job), 0);
        if (job->outcomes[0].status != BASE_OK) fail_msg("%s", job->outcomes[0].message);
        assert_int_equal(*warnings, rows[i].warnings);
    }
    munmap(warnings, sizeof *warnings);
    munmap(job, sizeof *job);
}

static void collectives_on_their_way_give_the_same_bits(struct base_arena *arena)
{
    struct job *job = shared_memory(sizeof *job);
    struct outcome *at_once = base_new(arena, struct outcome, 1), *waiting = base_new(arena, struct outcome, 1);
    for (int i = 0; i < BASE_COUNT(settings); i++) {
        const struct setting *s = &settings[i];
        TEST_ROW("%d ranks, %s, %s, %s, %s, %s, %s", s->ranks, s->topology, s->submesh, s->rules, s->optimizer,
                 s->dtype, s->partitioning);
        *job = (struct job){.text = plan_of(s), .request = {.steps = 2}};
        assert_int_equal(run_ranks(s->ranks, run_job, job), 0);
        *at_once = job->outcomes[0];
        assert_int_equal(run_ranks(s->ranks, run_waiting_job, job), 0);
        *waiting = job->outcomes[0];
        assert_int_equal(run_ranks(s->ranks, run_overlapping_job, job), 0);
        if (at_once->status != BASE_OK) fail_msg("%s", at_once->message);
        check_ranks(job, s->ranks, waiting, 0);
        if (!strncmp(s->topology, "local", 5)) assert_int_equal(waiting->arena_bytes, waiting->predicted_bytes);
        assert_memory_equal(waiting->loss, at_once->loss, sizeof waiting->loss);
        for (int k = 0; k < 2; k++) /* its squares are added in the order of the updates */
            assert_near(waiting->gradient_norm[k] / at_once->gradient_norm[k], 1, 1e-14);
    }
    munmap(job, sizeof *job);
}

/* Large operands go in many segments, and round rings; small ones double. */
static void long_operands_go_in_segments(struct base_arena *arena)
{
    (void)arena;
    struct job *job = shared_memory(sizeof *job);
    struct outcome alone;
    static const char *const rules[] = {"standard:1,1", "zero3"};
    for (int i = 0; i < 2; i++) {
        struct setting s = {3,
                            "decoder_only:emb_dim=384,num_heads=6,head_dim=64,mlp_dim=768,num_layers=1,vocab_size=3072,"
                            "mlp_activations=relu,logits_via_embedding=1",
                            "local:3",
                            "1,1",
                            rules[i],
                            "sgd",
                            "0",
                            "float32",
                            "none",
                            "0"};
        TEST_ROW("%s", rules[i]);
        *job = (struct job){.text = plan_of(&s), .request = {.steps = 2}};
        job->text.values[SIM_BATCH_SIZE] = "3";
        run_one(&job->text, &job->request, &alone);
        assert_int_equal(run_ranks(3, run_job, job), 0);
        check_ranks(job, 3, &alone, 2e-5);
    }
    munmap(job, sizeof *job);
}

/* ---- what ranks agree on ---- */

struct agreement {
    enum base_status status[MOST_RANKS];
    char message[MOST_RANKS][100];
    double sum[MOST_RANKS][2], largest[MOST_RANKS];
    char text[MOST_RANKS][6];
};

static void agree(const struct exec_transport *t, void *shared)
{
    struct agreement *a = shared;
    struct base_error error;
    bool well = t->rank < 3 || t->rank == 4;
    double numbers[2] = {t->rank, 1}, largest[1] = {-t->rank * 1.5};
    char *text = a->text[t->rank];
    if (t->rank == 0) snprintf(text, sizeof a->text[0], "hello");
    exec_broadcast(t, text, sizeof a->text[0]);
    exec_sum_numbers(t, numbers, 2);
    exec_largest_numbers(t, largest, 1);
    memcpy(a->sum[t->rank], numbers, sizeof numbers);
    a->largest[t->rank] = largest[0];
    a->status[t->rank] = exec_agree(t, well ? BASE_OK : base_fail(&error, BASE_INPUT, "no"), &error);
    snprintf(a->message[t->rank], sizeof a->message[0], "%.99s", a->status[t->rank] == BASE_OK ? "" : error.text);
}

static void ranks_agree(struct base_arena *arena)
{
    (void)arena;
    struct agreement *a = shared_memory(sizeof *a);
    for (int count = 1; count <= MOST_RANKS; count++) {
        TEST_ROW("%d ranks", count);
        memset(a, 0, sizeof *a);
        assert_int_equal(run_ranks(count, agree, a), 0);
        for (int r = 0; r < count; r++) {
            assert_int_equal(a->status[r], count > 3 ? BASE_INPUT : BASE_OK);
            assert_string_equal(a->message[r], count > 3 ? "rank 3: no" : "");
            assert_near(a->sum[r][0], count * (count - 1) / 2.0, 0);
            assert_near(a->sum[r][1], count, 0);
            assert_near(a->largest[r], 0, 0);
            assert_string_equal(a->text[r], "hello");
        }
    }
    munmap(a, sizeof *a);
}

/* ---- checkpoints ---- */

/* Two steps on some ranks, two more on others, from what the first left: as four steps in one process. */
static void checkpoints_go_from_ranks_to_ranks(struct base_arena *arena)
{
    struct job *job = shared_memory(sizeof *job);
    struct outcome alone;
    for (int i = 0; i + 1 < BASE_COUNT(settings); i += 2) {
        const struct setting *first = &settings[i];
        struct setting second = settings[i + 1];
        if (strcmp(first->dtype, "float32")) continue;
        second.model = first->model, second.optimizer = first->optimizer, second.dtype = first->dtype;
        TEST_ROW("%d ranks %s, then %d ranks %s, %s", first->ranks, first->rules, second.ranks, second.rules,
                 first->optimizer);
        const char *folder = test_folder(arena, "exchange");
        *job = (struct job){.text = plan_of(first), .request = {.steps = 4}};
        run_one(&job->text, &job->request, &alone);
        job->request = (struct exec_request){.steps = 2, .checkpoint = folder};
        assert_int_equal(run_ranks(first->ranks, run_job, job), 0);
        if (job->outcomes[0].status != BASE_OK) fail_msg("%s", job->outcomes[0].message);
        job->text = plan_of(&second);
        job->request.steps = 4;
        assert_int_equal(run_ranks(second.ranks, run_job, job), 0);
        if (job->outcomes[0].status != BASE_OK) fail_msg("%s", job->outcomes[0].message);
        assert_int_equal(job->outcomes[0].first_step, 2);
        for (int step = 0; step < 2; step++) assert_near(job->outcomes[0].loss[step], alone.loss[step + 2], 2e-5);
        base_directory_remove(arena, folder);
    }
    munmap(job, sizeof *job);
}

/* What one rank cannot read, all refuse, and say which rank it was. */
static void a_rank_that_cannot_begin_stops_all(struct base_arena *arena)
{
    struct job *job = shared_memory(sizeof *job);
    const char *folder = test_folder(arena, "exchange");
    struct base_error error;
    *job = (struct job){.text = plan_of(&settings[1]), .request = {.steps = 1, .checkpoint = folder}};
    assert_int_equal(run_ranks(2, run_job, job), 0);
    const char *chunk = base_print(arena, "%s/checkpoint_1/target.decoder.layers_0.mlp.wi.kernel/0.1", folder);
    assert_ok(base_write_file(chunk, "nonsense", 8, &error), &error);
    job->request.steps = 2;
    assert_int_equal(run_ranks(2, run_job, job), 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(job->outcomes[r].status, BASE_INPUT);
        assert_non_null(strstr(job->outcomes[r].message, "rank 1: "));
        assert_non_null(strstr(job->outcomes[r].message, "wi.kernel/0.1: is no gzip file, or is damaged"));
    }
    base_directory_remove(arena, folder);
    munmap(job, sizeof *job);
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {
        TEST(collectives_on_their_way_give_the_same_bits),
        TEST(a_missing_second_way_is_said),
        TEST(ranks_compute_what_one_process_does),
        TEST(long_operands_go_in_segments),
        TEST(ranks_agree),
        TEST(checkpoints_go_from_ranks_to_ranks),
        TEST(a_rank_that_cannot_begin_stops_all),
    };
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
