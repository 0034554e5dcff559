/* Tests of memory as compiled: tests/data/compiled_memory.csv has the bytes that XLA:TPU (libtpu of the column,
 * compiled ahead of time for slices that nobody had) totals for a step of T5X, and whether it refused it. */
#include "sim/compile/compiled_buffers.h"
#include "sim/compile/passes.h"
#include "tests/rows.h"

#include <math.h>
#include <stdlib.h>

/* What must hold of all answers of a file together: mean of the absolute errors, the share within 8 %, verdicts that
 * are right, how many refused steps may be said to fit with more than 2 % of the limit to spare, and of how many plans
 * it is said whether the compiler rematerialises. Plans drawn at random (scripts/oracle_aot.py) are of five kinds:
 * mechanisms were chosen on some; the blind ones judged those, and of the next mechanisms three of their misses gave
 * the reason; of those that judged these again it was two, and so it was of the fresh ones behind them, and one each of
 * the unseen and of the later ones, which judged all the others; the next ones judged all but the last two
 * mechanisms, and seven behind them the heap. A third of the plans is not scanned. No mechanism was chosen on the last
 * ten of those asked (seed 462811, near the limit): mean error 9.5 %, but 3.0 % of the six that the compiler takes, as
 * two unscanned ones that it refuses are 23 and 35 % too small. Those of MaxText were compiled by its own train_compile
 * (0.2.5). */
static const struct answers {
    const char *path;
    double most_mean_frac, least_within_frac, least_right_frac, most_false_fits_frac, least_recomputed_frac;
    double least_plainly_frac; /* of steps that the compiler takes, said to fit and not to be tight; half of MaxText's
                                  were drawn at the limit */
    bool all_metrics;          /* each step gave out T5X's; else some the first four of them */
} files[] = {{"tests/data/compiled_memory.csv", 0.026, 0.91, 0.95, 0.03, 0.95, 0.55, true},
             {"tests/data/compiled_memory_drawn.csv", 0.029, 0.92, 0.96, 0.03, 0.95, 0.7, false},
             {"tests/data/compiled_memory_blind.csv", 0.031, 0.91, 0.97, 0.02, 1, 0.7, true},
             {"tests/data/compiled_memory_judged.csv", 0.026, 0.95, 0.97, 0.03, 1, 0.7, true},
             {"tests/data/compiled_memory_fresh.csv", 0.022, 1, 1, 0, 0.84, 0.7, true},
             {"tests/data/compiled_memory_unseen.csv", 0.029, 0.92, 1, 0, 1, 0.7, true},
             {"tests/data/compiled_memory_later.csv", 0.042, 0.92, 1, 0, 1, 0.7, true},
             {"tests/data/compiled_memory_next.csv", 0.032, 0.89, 1, 0, 0.94, 0.7, true},
             {"tests/data/compiled_memory_asked.csv", 0.036, 0.85, 0.95, 0.03, 0.8, 0.6, true},
             {"tests/data/measured/aot_maxtext_drawn.csv", 0.018, 0.96, 1, 0, 1, 0.5, false},
             {"tests/data/measured/aot_maxtext_blind.csv", 0.039, 0.89, 0.96, 0.02, 1, 0.5, false},
             {"tests/data/measured/aot_maxtext.csv", 0.036, 0.92, 1, 0, 1, 0.4, false}};
static const double within_frac = 0.08, tight_frac = 0.02;

struct judged {
    int count, within_count, right_count, false_fit_count, recomputed_count, recomputed_right_count;
    int plainly_fit_count, plainly_false_count, taken_count; /* said to fit and not tight; of these refused */
    double error_frac_sum;
};

static double number_of(const struct base_csv *csv, const char *column)
{
    return strtod(row_field(csv, column), NULL);
}

/* Exact, but for metrics that the step did not give out: an array of one element and an entry of the table each. */
static void check_signature(const struct base_csv *csv, const struct sim_memory *memory, bool all_metrics)
{
    double argument_bytes = number_of(csv, "argument_bytes"), output_bytes = number_of(csv, "output_bytes"),
           missing_bytes = (double)memory->output_bytes - output_bytes;
    if (argument_bytes == 0) return;
    assert_near((double)memory->argument_bytes, argument_bytes, 0);
    if (all_metrics || missing_bytes == 0) assert_near((double)memory->output_bytes, output_bytes, 0);
    else assert_true(missing_bytes >= 26 * 512 && missing_bytes <= 30 * 1024 + 512);
}

static void judge(struct sim_cache *cache, struct base_arena *arena, const struct base_csv *csv, bool all_metrics,
                  struct judged *judged)
{
    struct sim_plan_text text = row_plan(arena, csv);
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    double measured_bytes = number_of(csv, "measured_peak_memory_bytes"),
           off_frac = fabs((double)prediction.memory.peak_bytes / measured_bytes - 1);
    bool refused = number_of(csv, "measured_oom") == 1;
    judged->count++;
    check_signature(csv, &prediction.memory, all_metrics);
    judged->error_frac_sum += off_frac;
    judged->within_count += off_frac <= within_frac;
    judged->right_count += prediction.fits != refused;
    double free_frac = 1 - (double)prediction.memory.peak_bytes /
                               (double)(prediction.memory.capacity_bytes -
                                        (int64_t)plan.placement->profile.constants[SIM_RESERVED_BYTES]);
    if (*row_field(csv, "rematerialized")) {
        judged->recomputed_count++;
        judged->recomputed_right_count += prediction.memory.rematerializes == (number_of(csv, "rematerialized") > 0);
    }
    judged->false_fit_count += refused && prediction.fits && free_frac > tight_frac;
    const enum sim_verdict verdict = sim_confidence_of(NULL, &plan, &prediction).verdict;
    assert_true(prediction.fits == (verdict != SIM_FITS_NOT && verdict != SIM_PROBABLY_FITS));
    judged->plainly_fit_count += verdict == SIM_FITS;
    judged->plainly_false_count += verdict == SIM_FITS && refused;
    judged->taken_count += !refused;
}

static void judge_file(struct base_arena *arena, const struct answers *file)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    struct judged judged = {0};
    bool more = true;
    assert_ok(base_csv_open(&csv, arena, file->path, &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error))
        judge(cache, arena, &csv, file->all_metrics, &judged);
    base_csv_close(&csv);
    sim_cache_free(cache);
    assert_true(judged.count > 10);
    assert_int_equal(judged.plainly_false_count, 0);
    assert_true(judged.plainly_fit_count >= file->least_plainly_frac * judged.taken_count);
    if (judged.recomputed_right_count < file->least_recomputed_frac * judged.recomputed_count)
        fail_msg("%s: of %d that are recomputed or not %d right", file->path, judged.recomputed_count,
                 judged.recomputed_right_count);
    double mean_frac = judged.error_frac_sum / judged.count;
    if (judged.false_fit_count > file->most_false_fits_frac * judged.count || mean_frac > file->most_mean_frac ||
        judged.within_count < file->least_within_frac * judged.count ||
        judged.right_count < file->least_right_frac * judged.count)
        fail_msg("%s: of %d compiled steps %d are within 8 %%, mean error %.1f %%, %d verdicts right, %d false fits",
                 file->path, judged.count, judged.within_count, 100 * mean_frac, judged.right_count,
                 judged.false_fit_count);
}

static void compiled_peaks_are_what_the_compiler_says(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(files); i++) judge_file(arena, &files[i]);
}

/* MaxText's scan_layers: a decoder whose layers are no loop is the same whatever its name is. */
static void decoders_can_be_unrolled(struct base_arena *arena)
{
    static const char *const spelled =
        "decoder_only:vocab_size=256128,emb_dim=3072,num_heads=16,head_dim=256,mlp_dim=24576,num_layers=28,"
        "mlp_activations=gelu+linear,logits_via_embedding=1,position_encoding=rotary";
    const struct {
        const char *model, *scanned, *part;
    } rows[] = {{"gemma_7b", "0", NULL},
                {spelled, "0", NULL},
                {"gemma_7b", "1", NULL},
                {spelled, "", NULL},
                {"scalable_t5_1_1_base", "0", "without scalable_"},
                {"mixtral_8x7b", "0", "leave it out"}};
    struct sim_cache *cache = sim_cache_new(arena);
    int64_t peak_bytes[4] = {0};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = {{0}};
        struct sim_plan plan;
        struct sim_prediction prediction;
        struct base_error error;
        TEST_ROW("%d", i);
        text.values[SIM_MODEL] = rows[i].model, text.values[SIM_SCANNED] = rows[i].scanned;
        text.values[SIM_TOPOLOGY] = "v5e-32", text.values[SIM_SOFTWARE] = "maxtext";
        text.values[SIM_BATCH_SIZE] = "32", text.values[SIM_TARGETS_LENGTH] = "1024";
        text.values[SIM_COMPILER] = "today", text.values[SIM_REMAT_POLICY] = "full";
        const enum base_status status =
            sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error);
        if (rows[i].part) {
            assert_fails(status, BASE_INPUT, &error, rows[i].part);
            continue;
        }
        assert_ok(status, &error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        peak_bytes[i] = prediction.memory.peak_bytes;
    }
    assert_int_equal(peak_bytes[0], peak_bytes[1]);
    assert_true(peak_bytes[0] != peak_bytes[2]);
    assert_int_equal(peak_bytes[3], peak_bytes[2]);
    sim_cache_free(cache);
}

/* MaxText's axis of experts is one more of fsdp in a dense model. */
static void dense_models_shard_over_the_axis_of_experts(struct base_arena *arena)
{
    static const char *const meshes[] = {"data=1,fsdp=32", "data=1,fsdp=8,expert=4"};
    struct sim_cache *cache = sim_cache_new(arena);
    int64_t peak_bytes[2];
    for (int i = 0; i < 2; i++) {
        struct sim_plan_text text = {{0}};
        struct sim_plan plan;
        struct sim_prediction prediction;
        struct base_error error;
        text.values[SIM_MODEL] = "gemma_7b", text.values[SIM_ICI_MESH] = meshes[i];
        text.values[SIM_TOPOLOGY] = "v5e-32", text.values[SIM_SOFTWARE] = "maxtext";
        text.values[SIM_BATCH_SIZE] = "32", text.values[SIM_TARGETS_LENGTH] = "1024";
        text.values[SIM_REMAT_POLICY] = "full";
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_null(sim_plan_idle_axes(arena, &plan));
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        peak_bytes[i] = prediction.memory.peak_bytes;
    }
    assert_int_equal(peak_bytes[0], peak_bytes[1]);
    sim_cache_free(cache);
}

/* A backward layer that computes all of the forward layer again holds both layers' scores at its peak: the compiler
 * makes those of self-attention once more, and a step ends at 94.93 of 95.74 GiB with 64 arrays made again (libtpu
 * 0.0.42.1, asked of it). What is saved across the loop stays, so that half as many rows again fit into no order. */
static void bodies_of_loops_are_made_once_more(struct base_arena *arena)
{
    static const struct {
        const char *batch_size;
        bool fits;
    } cases[] = {{"26112", true}, {"36288", false}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = {{0}};
    struct base_error error;
    text.values[SIM_MODEL] = "scalable_t5_1_1_xl", text.values[SIM_TOPOLOGY] = "v5p-64";
    text.values[SIM_SUBMESH] = "1,1,1,1", text.values[SIM_REMAT_POLICY] = "full";
    text.values[SIM_INPUTS_LENGTH] = text.values[SIM_TARGETS_LENGTH] = "512";
    text.values[SIM_NUM_MICROBATCHES] = "2", text.values[SIM_COMPILER] = "today";
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        struct sim_plan plan;
        struct sim_prediction prediction;
        text.values[SIM_BATCH_SIZE] = cases[i].batch_size;
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        assert_int_equal(prediction.fits, cases[i].fits);
        assert_true(prediction.memory.rematerializes);
    }
    sim_cache_free(cache);
}

/* A kernel writes over an operand that is the one result of its own fusion, whatever else the kernel makes: where the
 * gradient of so many probabilities is not summed up by the product that makes it, softmax's derivative takes its
 * place, sum for the bias or not (drawn-7309-1). What windowed weight gradients wait for goes with the loop that reads
 * it, and is dropped in the body of one like anything else (drawn-8301-14). On TPU7x the gradient of the logits is an
 * array of its own, and these are gone when it is made (drawn-8301-11, whose heap has holes of 6 %; that of the first
 * has holes of 15 %). */
static void derivatives_take_the_place_of_what_they_read(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh, *rules, *batch_size;
        double compiled_bytes, most_off_frac;
    } cases[] = {{"v5p-64", "2,2,1,1", "standard:2,2", "41344", 73311574112, 0.18},
                 {"v4-64", "2,1,1,1", "standard:1,2", "24368", 44173219328, 0.08},
                 {"tpu7x:2x2x4", "2,2,1,1", "standard:2,1", "45344", 89037867552, 0.1}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = {{0}};
    struct base_error error;
    text.values[SIM_MODEL] = "scalable_t5_1_1_base", text.values[SIM_REMAT_POLICY] = "full";
    text.values[SIM_INPUTS_LENGTH] = "512", text.values[SIM_TARGETS_LENGTH] = "114";
    text.values[SIM_COMPILER] = "today", text.values[SIM_MEMORY_KIND] = "compiled";
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        struct sim_plan plan;
        struct sim_prediction prediction;
        text.values[SIM_TOPOLOGY] = cases[i].topology, text.values[SIM_SUBMESH] = cases[i].submesh;
        text.values[SIM_RULES] = cases[i].rules, text.values[SIM_BATCH_SIZE] = cases[i].batch_size;
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        assert_near((double)prediction.memory.peak_bytes, cases[i].compiled_bytes, cases[i].most_off_frac);
    }
    sim_cache_free(cache);
}

/* Steps whose dumps gave a mechanism that they show most plainly: without it they are off by more. */
static void explained_steps_are_near(struct base_arena *arena)
{
    static const struct {
        const char *path, *id;
        double most_off_frac;
    } cases[] = {
        /* the decoder's table is looked up right behind the encoder's, before any layer: 27 % */
        {"tests/data/compiled_memory_judged.csv", "drawn-8401-19", 0.05},
        /* weights that 64 devices gather in small pieces come all at once, those of the backward pass, too: 17, 28 % */
        {"tests/data/compiled_memory_drawn.csv", "drawn-7208-1", 0.07},
        {"tests/data/compiled_memory_drawn.csv", "drawn-7220-2", 0.1},
        /* a list makes weight gradients of a scanned layer at once, and keeps what was gathered for them: 15, 10 % */
        {"tests/data/compiled_memory_judged.csv", "drawn-8401-7", 0.05},
        {"tests/data/compiled_memory_blind.csv", "drawn-7401-25", 0.05},
        /* rows of the second lookup are there while the first one's are gathered: 7 % */
        {"tests/data/measured/aot_t5x_later.csv", "aot_t5x_t3-h4", 0.04},
        /* scores that are kept stand for their quotient in the gradient, 9 %; one copy of weights beside microbatches
         */
        {"tests/data/measured/aot_t5x_later.csv", "aot_t5x_t3-f22", 0.02},
        {"tests/data/compiled_memory.csv", "aot-r14", 0.02},
        /* arrays are recomputed in the order that the scheduler chose, not in a list's: 11, 7 % */
        {"tests/data/compiled_memory_fresh.csv", "drawn-8501-1", 0.03},
        {"tests/data/compiled_memory_drawn.csv", "drawn-7314-2", 0.03},
        /* a list's zeros stand from the start, and a post order's logits behind combined sums: another order: 14 % */
        {"tests/data/compiled_memory_drawn.csv", "drawn-7328-1", 0.05},
        /* weight gradients come behind sums that are on their way: 16 % */
        {"tests/data/compiled_memory_drawn.csv", "drawn-7215-1", 0.05},
        /* a list makes gathers for weight gradients in the forward pass, so that it is not chosen: 20, 11 % */
        {"tests/data/compiled_memory_drawn.csv", "drawn-7206-1", 0.1},
        {"tests/data/compiled_memory_judged.csv", "drawn-8101-5", 0.03},
        /* and a scanned layer's list keeps what was gathered for them on chips that have no windows, too: 19 % */
        {"tests/data/compiled_memory_later.csv", "drawn-8701-1", 0.08},
        /* on TPU7x tables of sharded columns go to the rows that look them up, and sums are scattered: 50, 10 % */
        {"tests/data/compiled_memory_unseen.csv", "drawn-8601-8", 0.04},
        {"tests/data/compiled_memory_unseen.csv", "drawn-8601-1", 0.06},
        /* layers that are no loops leave holes in the heap: 14, 8 % */
        {"tests/data/compiled_memory_drawn.csv", "drawn-7225-1", 0.05},
        {"tests/data/compiled_memory_blind.csv", "drawn-7401-9", 0.04},
        /* on TPU7x the gradient of the logits is an array of its own: 9 and, fresh, 5 % */
        {"tests/data/compiled_memory_judged.csv", "drawn-8101-6", 0.07},
        {"tests/data/compiled_memory_next.csv", "drawn-9802-1", 0.02},
        /* and in a loop over microbatches it is not: 9 % */
        {"tests/data/compiled_memory_drawn.csv", "drawn-7304-1", 0.03},
        /* loops over layers leave holes, too, where there is room for them: 9 and 7 % */
        {"tests/data/compiled_memory_unseen.csv", "drawn-8602-2", 0.03},
        {"tests/data/compiled_memory_judged.csv", "drawn-8102-9", 0.03},
        /* a list does not leave a large gradient of the logits' weights to the end: 7 and, with holes, 14 % */
        {"tests/data/compiled_memory_drawn.csv", "drawn-7333-2", 0.03},
        {"tests/data/compiled_memory_fresh.csv", "drawn-8502-2", 0.03},
        /* a sum over the devices that share rows of logits is joined with the loss: 12 and, with holes, 17 % */
        {"tests/data/compiled_memory_blind.csv", "drawn-7401-11", 0.02},
        /* gradients of softmaxes are made twice where queries and keys are saved: 5 and 3 % */
        {"tests/data/compiled_memory_asked.csv", "drawn-20261129-8", 0.02},
        {"tests/data/compiled_memory_judged.csv", "drawn-8101-13", 0.01},
        /* what is recomputed in a loop over microbatches is made for its own layer where that has room: 20 % */
        {"tests/data/compiled_memory_drawn.csv", "drawn-7234-1", 0.05},
        /* MaxText's rows of experts have room for all that other devices may send, saved ones, too: 31 and 25 % */
        {"tests/data/measured/aot_maxtext_blind.csv", "c9", 0.02},
        {"tests/data/measured/aot_maxtext_blind.csv", "c16", 0.02},
        /* its policy minimal saves no second up-projection of them, and no result that norms behind products read:
           26 and 6 % */
        {"tests/data/measured/aot_maxtext_blind.csv", "c19", 0.07},
        {"tests/data/measured/aot_maxtext_blind.csv", "x1", 0.02},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s", cases[i].id);
        struct base_csv csv;
        struct base_error error;
        bool more = true;
        assert_ok(base_csv_open(&csv, arena, cases[i].path, &error), &error);
        do {
            assert_ok(base_csv_next(&csv, &more, &error), &error);
            assert_true(more);
        } while (strcmp(row_field(&csv, "id"), cases[i].id) != 0);
        struct sim_plan_text text = row_plan(arena, &csv);
        struct sim_plan plan;
        struct sim_prediction prediction;
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        assert_near((double)prediction.memory.peak_bytes, number_of(&csv, "measured_peak_memory_bytes"),
                    cases[i].most_off_frac);
        base_csv_close(&csv);
    }
    sim_cache_free(cache);
}

/* By hand: 4 and 2 bytes, then 3 in the place of the 4, so that 2 more find no room in what is left of it. */
static void holes_of_heaps_are_too_small(struct base_arena *arena)
{
    struct sim_op ops[3];
    for (int i = 0; i < BASE_COUNT(ops); i++) ops[i] = (struct sim_op){.kind = SIM_COMPUTE, .loop = -1};
    const struct sim_sharded sharded = {.ops = ops, .op_count = BASE_COUNT(ops)};
    const struct sim_settings settings = {.packed_holes_frac = 0.125};
    enum { ALIVE = 7 };
    for (int scanned = 0; scanned < 2; scanned++) {
        struct sim_compiled_options options = {.limit_bytes = 8, .settings = &settings, .scanned = scanned};
        struct sim_assigner a = {.s = &sharded, .options = &options, .arena = arena, .to_limit_bytes = INFINITY};
        sim_add_buffer(&a, 0, 0, 4, 4, MODEL_TEMPORARY);
        sim_add_buffer(&a, 0, 2, 2, 2, MODEL_TEMPORARY);
        sim_add_buffer(&a, 1, 2, 3, 3, MODEL_TEMPORARY);
        sim_add_buffer(&a, 2, 2, 2, 2, MODEL_TEMPORARY);
        assert_near(sim_heap_bytes(&a, ALIVE), 4 + 2 + 2, 0);
        sim_add_buffer(&a, 2, 2, 1, 1, MODEL_TEMPORARY); /* this one does */
        assert_near(sim_heap_bytes(&a, ALIVE), 4 + 2 + 2, 0);
        options.in_order_over_bytes = -1; /* that is too large: packed by size it has few holes, or none */
        assert_near(sim_heap_bytes(&a, ALIVE), scanned ? ALIVE : 8, 0);
        assert_near(a.from_limit_bytes, 8, 0); /* and would be under any limit less than 9 */
        assert_near(a.to_limit_bytes, 9, 1e-9);
        options.checkpoints = true; /* but for what a policy recomputes in layers that are no loops */
        assert_near(sim_heap_bytes(&a, ALIVE), scanned ? ALIVE : 4 + 2 + 2, 0);
    }
}

/* By hand: three layers save 10 bytes each behind a transient one of 1 byte; backward each makes 6 that stay to the
 * end, before its own 10 have gone: the first behind all others, the second in the place of the last layer's. */
static void layers_stand_in_a_heap_one_by_one(struct base_arena *arena)
{
    enum { FORWARD = 1, FORWARD_END = 4, BACKWARD = 5, BACKWARD_END = 8, LAST = 9 };
    static const int brackets[][2] = {{FORWARD, FORWARD_END}, {BACKWARD, BACKWARD_END}};
    struct sim_op ops[LAST + 1];
    int64_t sizes[MODEL_SIZE_COUNT] = {[MODEL_ENCODER_LAYERS] = 3};
    for (int i = 0; i < BASE_COUNT(ops); i++) ops[i] = (struct sim_op){.kind = SIM_COMPUTE, .loop = -1};
    for (int b = 0; b < BASE_COUNT(brackets); b++) {
        const int begin = brackets[b][0], end = brackets[b][1];
        for (int i = begin + 1; i < end; i++) ops[i].loop = begin;
        ops[begin] = (struct sim_op){SIM_LOOP_BEGIN, .trips = MODEL_ENCODER_LAYERS, .match = end, .loop = -1};
        ops[end] = (struct sim_op){SIM_LOOP_END, .trips = MODEL_ENCODER_LAYERS, .match = begin, .loop = -1};
    }
    const struct sim_sharded sharded = {.ops = ops, .op_count = BASE_COUNT(ops)};
    const struct sim_compiled_options options = {.sizes = sizes, .limit_bytes = INFINITY};
    struct sim_assigner a = {.s = &sharded, .options = &options, .arena = arena};
    sim_add_buffer(&a, FORWARD + 1, FORWARD + 2, 1, 1, MODEL_TEMPORARY);
    sim_add_arrays(&a, &(struct sim_layer_arrays){FORWARD, FORWARD + 1, BACKWARD, BACKWARD + 1, 0, 3, 10});
    assert_near(sim_heap_bytes(&a, 0), 1 + 30, 0);
    sim_add_arrays(&a, &(struct sim_layer_arrays){BACKWARD, BACKWARD + 1, -1, LAST, 0, 3, 6});
    assert_near(sim_heap_bytes(&a, 0), 1 + 30 + 6, 0);
    sim_add_buffer(&a, LAST, LAST, 11, 11, MODEL_TEMPORARY); /* holes of 11 in front, of 4 and 4 behind */
    assert_near(sim_heap_bytes(&a, 0), 1 + 30 + 6, 0);
    sim_add_buffer(&a, LAST, LAST, 5, 5, MODEL_TEMPORARY);
    assert_near(sim_heap_bytes(&a, 0), 1 + 30 + 6 + 5, 0);
}

/* What the compiler answered for arrays of random extents: which dimensions are minor, and the tile of those. */
static void arguments_are_laid_out_as_the_compiler_does(struct base_arena *arena)
{
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int count = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/argument_layouts.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        double extents[MODEL_MAX_RANK];
        int rank = 0;
        for (const char *at = row_field(&csv, "shape"); *at; at += *at == 'x')
            extents[rank++] = (double)strtol(at, (char **)&at, 10);
        assert_near(sim_argument_bytes(extents, rank, (int)number_of(&csv, "tile_rows"), 4), number_of(&csv, "bytes"),
                    0);
        count++;
    }
    base_csv_close(&csv);
    assert_true(count > 100);
}

static struct sim_prediction answer(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

/* As often the same microbatch leaves a device a little less room, by the batch: beside others a plan is answered as by
 * itself. */
static void layouts_that_plans_share_are_their_own(struct base_arena *arena)
{
    static const int times[] = {1, 3, 64};
    struct sim_cache *shared = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int count = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/compiled_memory_judged.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        struct sim_plan_text text = row_plan(arena, &csv);
        if (number_of(&csv, "num_microbatches") < 2) continue;
        for (int i = 0; i < BASE_COUNT(times); i++) {
            struct sim_cache *alone = sim_cache_new(arena);
            text.values[SIM_BATCH_SIZE] = base_print(arena, "%.0f", times[i] * number_of(&csv, "batch_size"));
            text.values[SIM_NUM_MICROBATCHES] =
                base_print(arena, "%.0f", times[i] * number_of(&csv, "num_microbatches"));
            TEST_ROW("%s, %d times", row_field(&csv, "id"), times[i]);
            const struct sim_prediction a = answer(shared, arena, &text), b = answer(alone, arena, &text);
            assert_int_equal(a.memory.peak_bytes, b.memory.peak_bytes);
            assert_int_equal(a.memory.activation_bytes, b.memory.activation_bytes);
            assert_string_equal(a.memory.peak_at, b.memory.peak_at);
            assert_near(a.step_s, b.step_s, 0);
            sim_cache_free(alone);
            count++;
        }
    }
    base_csv_close(&csv);
    sim_cache_free(shared);
    assert_true(count > 30);
}

static void compilers_are_named_by_date_and_version(struct base_arena *arena)
{
    static const struct {
        const char *compiler;
        bool compiled;
    } cases[] = {{"", true},         {"latest", true},  {"software", false}, {"today", true},
                 {"2023-01", false}, {"2026-06", true}, {"0.0.42.1", true},  {"0.0.42", true}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = {{0}};
    struct sim_plan plan;
    struct base_error error;
    text.values[SIM_MODEL] = "scalable_t5_1_1_small", text.values[SIM_TOPOLOGY] = "v4-16";
    text.values[SIM_BATCH_SIZE] = "64", text.values[SIM_INPUTS_LENGTH] = text.values[SIM_TARGETS_LENGTH] = "128";
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        text.values[SIM_COMPILER] = cases[i].compiler;
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_int_equal(plan.compiled, cases[i].compiled);
        assert_int_equal(sim_passes_of(&plan) >> SIM_PASS_REASSOCIATE_ALL_REDUCE & 1, cases[i].compiled);
    }
    static const char *const unknown[] = {"0.0.4", "0.0.421", "yesterday", "2018-01", "2023-1", "2027-01-31"};
    for (int i = 0; i < BASE_COUNT(unknown); i++) {
        text.values[SIM_COMPILER] = unknown[i];
        assert_int_equal(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error),
                         BASE_INPUT);
        assert_non_null(strstr(error.text, "; use "));
    }
    sim_cache_free(cache);
}

static const struct test tests[] = {
    TEST(compiled_peaks_are_what_the_compiler_says),
    TEST(decoders_can_be_unrolled),
    TEST(dense_models_shard_over_the_axis_of_experts),
    TEST(bodies_of_loops_are_made_once_more),
    TEST(derivatives_take_the_place_of_what_they_read),
    TEST(explained_steps_are_near),
    TEST(holes_of_heaps_are_too_small),
    TEST(layers_stand_in_a_heap_one_by_one),
    TEST(arguments_are_laid_out_as_the_compiler_does),
    TEST(layouts_that_plans_share_are_their_own),
    TEST(compilers_are_named_by_date_and_version),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
