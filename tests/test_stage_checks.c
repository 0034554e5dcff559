/* What must hold between the stages of a prediction, over the rows of tables of plans: T5X on TPUs, Alpa on V100s,
 * torchtitan and Hugging Face on GPUs, memory as compiled; and over pipelines, inference, and runs on this machine. */
#include "tests/rows.h"

#include <string.h>

static void check_program(struct sim_cache *cache, const struct sim_plan *plan)
{
    const struct sim_program *program;
    struct base_error error;
    assert_ok(sim_program_find(cache, plan, plan->options.remat, 0, SIM_PRICES_ALONE, &program, &error), &error);
    const char *fault = sim_cost_check(&program->prices);
    assert_true(fault == NULL);
}

static bool check_plan(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                       enum model_step step)
{
    struct sim_timeline timeline = {0};
    struct sim_peak_buffers peak = {0};
    struct sim_spans spans = {0};
    struct sim_detail detail = {
        .lists_collectives = true, .timeline = &timeline, .peak = &peak, .spans = &spans, .arena = arena};
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    if (sim_plan_check(cache, arena, text, step, SIM_AS_COMPILED, &plan, &error) != BASE_OK ||
        sim_predict(cache, &plan, &prediction, &detail, &error) != BASE_OK)
        return false;
    if (plan.pipeline.stages == 1) check_program(cache, &plan);
    const char *fault = sim_answer_check(&prediction, &detail);
    if (fault) print_error("%s\n", fault);
    assert_true(fault == NULL);
    return true;
}

static void what_must_hold_between_stages_holds_of_rows(struct base_arena *arena)
{
    static const struct {
        const char *path;
        int least; /* rows that are answered */
    } tables[] = {{"examples/tpu_v4_tuning.csv", 20},
                  {"tests/data/alpa_v100.csv", 10},
                  {"tests/data/measured/h100_torchtitan_moe.csv", 3},
                  {"tests/data/transformers_h100.csv", 3},
                  {"tests/data/fsdp_memory.csv", 10},
                  {"tests/data/compiled_memory_drawn.csv", 10},
                  {"tests/data/compiled_memory_fresh.csv", 3},
                  {"tests/data/comparison.csv", 1}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    for (int t = 0; t < BASE_COUNT(tables); t++) {
        struct base_arena own = {.exhausted = arena->exhausted};
        struct base_csv csv;
        bool more;
        int answered = 0;
        assert_ok(base_csv_open(&csv, arena, tables[t].path, &error), &error);
        for (int row = 1; base_csv_next(&csv, &more, &error) == BASE_OK && more; row++) {
            TEST_ROW("%s row %d", tables[t].path, row);
            base_arena_reset(&own);
            const struct sim_plan_text text = row_plan(&own, &csv);
            answered += check_plan(cache, &own, &text, MODEL_STEP_TRAIN);
        }
        TEST_ROW("%s", tables[t].path);
        assert_in_range(answered, tables[t].least, 100000);
        base_csv_close(&csv);
        base_arena_free(&own);
    }
    sim_cache_free(cache);
}

static void what_must_hold_between_stages_holds_of_other_plans(struct base_arena *arena)
{
    static const struct {
        const char *plan;
        enum model_step step;
    } plans[] = {
        {"model=llama2_7b topology=h100:2x8 software=megatron num_partitions=2 pipeline_stages=4 num_microbatches=8 "
         "batch_size=64 targets_length=2048",
         MODEL_STEP_TRAIN},
        {"model=llama2_7b topology=h100:2x8 software=megatron num_partitions=2 pipeline_stages=4 virtual_stages=2 "
         "num_microbatches=8 batch_size=64 targets_length=2048",
         MODEL_STEP_TRAIN},
        {"model=mixtral_8x7b:num_layers=4 topology=h100:2x8 software=megatron expert_parallel=8 batch_size=64 "
         "targets_length=2048",
         MODEL_STEP_TRAIN},
        {"model=llama3_8b topology=a100-80g:4x8 software=torchtitan num_partitions=8 sequence_parallel=1 "
         "batch_size=256 "
         "targets_length=512",
         MODEL_STEP_TRAIN},
        {"model=scalable_t5_1_1_base topology=v4-16 batch_size=64 inputs_length=512 targets_length=114",
         MODEL_STEP_EVALUATE},
        {"model=llama3_8b topology=h100:16x8 num_partitions=2 targets_length=512 batch_size=256 num_microbatches=2 "
         "optimizer=sgd remat_policy=full dtype=float32 attention=flash optimizer_partitioning=data+gradients "
         "sequence_parallel=1 software=torchtitan",
         MODEL_STEP_TRAIN},
        {"model=llama3_8b topology=a100-80g:4x8 targets_length=1024 batch_size=32 software=deepspeed",
         MODEL_STEP_TRAIN},
        {"model=t5_1_1_base topology=v4-16 batch_size=64 inputs_length=512 targets_length=114", MODEL_STEP_GENERATE},
        {"model=t5_1_1_base topology=v4-16 batch_size=64 inputs_length=512 targets_length=114", MODEL_STEP_DECODE},
        {"model=t5_1_1_small topology=local:2x2 batch_size=8 inputs_length=64 targets_length=32 num_microbatches=2",
         MODEL_STEP_TRAIN},
        {"model=t5_1_1_small topology=local:4 pipeline_stages=2 batch_size=8 inputs_length=64 targets_length=32 "
         "num_microbatches=2",
         MODEL_STEP_TRAIN},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(plans); i++) {
        TEST_ROW("%s", plans[i].plan);
        const struct sim_plan_text text = plan_text(arena, plans[i].plan);
        assert_true(check_plan(cache, arena, &text, plans[i].step));
    }
    sim_cache_free(cache);
}

/* Bytes of live tensors that no buffer of the program explains. */
static double unexplained_bytes(const struct sim_peak_buffers *buffers, double *sum_bytes)
{
    double bytes = 0;
    *sum_bytes = 0;
    for (int i = 0; i < buffers->count; i++) {
        *sum_bytes += buffers->rows[i].bytes;
        if (!strcmp(buffers->rows[i].name, "activations")) bytes += buffers->rows[i].bytes;
    }
    return bytes;
}

/* Buffers at any time of a step add up to its memory then, and the program has nearly all of them. */
static void buffers_at_any_time_are_those_of_the_curve(struct base_arena *arena)
{
    static const char *const plans[] = {
        "model=t5_1_1_base topology=v4-16 num_partitions=2 batch_size=64 num_microbatches=4 inputs_length=512 "
        "targets_length=114",
        "model=scalable_t5_1_1_base topology=v4-16 batch_size=64 inputs_length=512 targets_length=114",
        "model=llama3_8b topology=h100:1x8 num_partitions=8 sequence_parallel=1 batch_size=8 targets_length=1024 "
        "software=megatron"};
    enum { TIMES = 9 };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(plans); i++) {
        const struct sim_plan_text text = plan_text(arena, plans[i]);
        struct sim_memory_curve curve = {0};
        struct sim_moment moment = {.stage = -1};
        struct sim_detail detail = {.curve = &curve, .moment = &moment, .arena = arena};
        struct sim_plan plan;
        struct sim_prediction p;
        struct base_error error;
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        for (int t = 0; t <= TIMES; t++) {
            double sum_bytes, held_bytes = 0;
            TEST_ROW("%s, %d of %d", plans[i], t, TIMES);
            moment.at_s = t ? p.step_s * t / TIMES : 0;
            assert_ok(sim_predict(cache, &plan, &p, &detail, &error), &error);
            assert_true(moment.is_known && moment.name);
            for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) held_bytes += moment.bytes[c];
            assert_true(unexplained_bytes(&moment.buffers, &sum_bytes) < 0.01 * sum_bytes);
            assert_near(sum_bytes, held_bytes + (double)p.memory.reserved_bytes, 1e-6);
        }
    }
    sim_cache_free(cache);
}

/* Rows that only their bytes tell from another: those of a stage's chunks are one. */
static int alike_rows(const struct sim_peak_buffers *buffers)
{
    int count = 0;
    for (int i = 0; i < buffers->count; i++)
        for (int k = 0; k < i; k++) {
            const struct sim_peak_buffer *a = &buffers->rows[i], *b = &buffers->rows[k];
            count += !strcmp(a->name, b->name) && !strcmp(a->why, b->why) && a->category == b->category &&
                     a->microbatch == b->microbatch;
        }
    return count;
}

/* The same of a stage: at the most what its running pass has. */
static void buffers_of_a_stage_are_those_of_its_passes(struct base_arena *arena)
{
    const struct sim_plan_text text =
        plan_text(arena, "model=llama2_7b topology=h100:2x8 software=megatron num_partitions=2 pipeline_stages=4 "
                         "virtual_stages=2 num_microbatches=8 batch_size=64 targets_length=2048");
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_passes passes = {.count = 0};
    struct sim_moment moment = {.stage = 0};
    struct sim_detail detail = {.passes = &passes, .arena = arena};
    struct sim_plan plan;
    struct sim_prediction p;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &p, &detail, &error), &error);
    detail.moment = &moment;
    for (int i = 0; i < passes.count; i += 7) {
        const int64_t bytes = passes.pass_bytes[i];
        double sum_bytes;
        TEST_ROW("pass %d", i);
        moment.stage = passes.passes[i].stage;
        moment.at_s = (passes.start_s[i] + passes.end_s[i]) / 2;
        assert_ok(sim_predict(cache, &plan, &p, &detail, &error), &error);
        unexplained_bytes(&moment.buffers, &sum_bytes);
        assert_near(sum_bytes, (double)bytes, 1e-6);
        assert_int_equal(alike_rows(&moment.buffers), 0);
        assert_true(bytes <= passes.stage_bytes[moment.stage] && passes.behind_bytes[i] <= bytes);
    }
    sim_cache_free(cache);
}

static void a_damaged_answer_is_found(struct base_arena *arena)
{
    struct sim_prediction p = {.step_s = 3, .compute_s = 1, .memory_bound_s = 2, .memory = {.peak_bytes = 10}};
    p.memory.parameter_bytes = 10;
    (void)arena;
    assert_true(sim_answer_check(&p, NULL) == NULL);
    p.compute_s = -1, p.memory_bound_s = 4;
    assert_string_equal(sim_answer_check(&p, NULL), "a part of the step is negative or not finite");
    p.compute_s = 1;
    assert_string_equal(sim_answer_check(&p, NULL), "the parts do not add up to the step");
    p.memory_bound_s = 2, p.memory.peak_bytes = 9;
    assert_string_equal(sim_answer_check(&p, NULL), "memory below parameters and state");
    p.memory.peak_bytes = 100;
    assert_string_equal(sim_answer_check(&p, NULL), "the parts do not add up to the peak");
    p.memory.peak_bytes = 10;
    struct sim_span carried[] = {{.kind = SIM_SPAN_COLLECTIVE, .start_s = 0, .end_s = 2},
                                 {.kind = SIM_SPAN_COLLECTIVE, .start_s = 1, .end_s = 3}};
    struct sim_spans spans = {carried, 2, 3};
    const struct sim_detail detail = {.spans = &spans};
    assert_string_equal(sim_answer_check(&p, &detail), "links carry two collectives at once");
    carried[1].kind = SIM_SPAN_BESIDE;
    assert_true(sim_answer_check(&p, &detail) == NULL);
    carried[0].kind = SIM_SPAN_BESIDE;
    assert_string_equal(sim_answer_check(&p, &detail), "links carry two collectives at once");
    carried[1].start_s = 2;
    assert_true(sim_answer_check(&p, &detail) == NULL);
    carried[1].end_s = 4;
    assert_string_equal(sim_answer_check(&p, &detail), "something ends before it begins, or after the step");
}

static const struct test tests[] = {TEST(what_must_hold_between_stages_holds_of_rows),
                                    TEST(what_must_hold_between_stages_holds_of_other_plans),
                                    TEST(buffers_at_any_time_are_those_of_the_curve),
                                    TEST(buffers_of_a_stage_are_those_of_its_passes), TEST(a_damaged_answer_is_found)};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
