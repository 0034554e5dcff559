/* Tests of pipelines: how models are cut, what schedules hold and how long they take. */
#include "tests/test.h"

#include "sim/predict/predict.h"

/* ---- timetables ---- */

struct shape {
    int stages, chunks, microbatches;
    enum sim_schedule_kind kind;
};
static const struct shape shapes[] = {
    {1, 1, 1, SIM_ONE_FORWARD_ONE_BACKWARD},
    {4, 1, 1, SIM_ONE_FORWARD_ONE_BACKWARD},
    {4, 1, 4, SIM_ONE_FORWARD_ONE_BACKWARD},
    {4, 1, 13, SIM_ONE_FORWARD_ONE_BACKWARD},
    {8, 1, 3, SIM_ONE_FORWARD_ONE_BACKWARD},
    {4, 1, 8, SIM_GPIPE},
    {1, 1, 5, SIM_GPIPE},
    {4, 2, 4, SIM_INTERLEAVED},
    {4, 3, 8, SIM_INTERLEAVED},
    {2, 4, 12, SIM_INTERLEAVED},
    {6, 1, 12, SIM_INTERLEAVED},
};

static struct sim_timetable timetable_of(struct base_arena *arena, const struct shape *shape)
{
    const struct sim_pipeline pipeline = {.stages = shape->stages, .chunks = shape->chunks, .schedule = shape->kind};
    struct sim_timetable out;
    struct base_error error;
    assert_ok(sim_timetable_make(arena, &pipeline, shape->microbatches, &out, &error), &error);
    return out;
}

/* Every piece costs the same, and messages nothing, unless said. */
static struct sim_pipeline_time run(struct base_arena *arena, const struct sim_timetable *timetable, double forward_s,
                                    double backward_s, double message_s, bool hidden)
{
    const int pieces = timetable->stages * timetable->chunks;
    double *forward = base_new(arena, double, pieces), *backward = base_new(arena, double, pieces),
           *messages = base_new(arena, double, pieces);
    for (int i = 0; i < pieces; i++) forward[i] = forward_s, backward[i] = backward_s, messages[i] = message_s;
    const struct sim_pipeline_costs costs = {forward, backward, messages, messages, hidden};
    struct sim_pipeline_time out;
    struct base_error error;
    assert_ok(sim_pipeline_run(arena, timetable, &costs, &out, &error), &error);
    return out;
}

/* Streamed messages make a microbatch take what its link takes, or what is computed, whichever is longer. */
static void streamed_messages_take_their_link_alone(struct base_arena *arena)
{
    enum { MICROBATCHES = 16 };
    static const double pass_s[] = {1, 1}, messages_s[] = {0.5, 8};
    const struct shape shape = {2, 1, MICROBATCHES, SIM_ONE_FORWARD_ONE_BACKWARD};
    const struct sim_timetable timetable = timetable_of(arena, &shape);
    for (int i = 0; i < BASE_COUNT(messages_s); i++) {
        const double message_s[] = {messages_s[i], messages_s[i]},
                     cycle_s = messages_s[i] > 2 ? messages_s[i] : 2; /* a forward and a backward pass */
        struct sim_pipeline_costs costs = {pass_s, pass_s, message_s, message_s, .hidden = true, .streamed = true};
        struct sim_pipeline_time streamed, hidden;
        struct base_error error;
        TEST_ROW("messages of %g s", messages_s[i]);
        assert_ok(sim_pipeline_run(arena, &timetable, &costs, &streamed, &error), &error);
        costs.streamed = false;
        assert_ok(sim_pipeline_run(arena, &timetable, &costs, &hidden, &error), &error);
        assert_true(streamed.total_s >= MICROBATCHES * cycle_s && streamed.total_s <= (MICROBATCHES + 1) * cycle_s + 2);
        assert_true(hidden.total_s > streamed.total_s);
    }
}

static void every_pass_stands_once_and_can_run(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(shapes); i++) {
        const struct shape *s = &shapes[i];
        TEST_ROW("%d stages of %d chunks, %d microbatches", s->stages, s->chunks, s->microbatches);
        struct sim_timetable t = timetable_of(arena, s);
        int *seen = base_new(arena, int, 2 * s->stages * s->chunks * s->microbatches);
        for (int stage = 0; stage < s->stages; stage++)
            for (int at = t.first[stage]; at < t.first[stage + 1]; at++) {
                const struct sim_pass_of *p = &t.passes[at];
                assert_int_equal(p->stage, stage);
                seen[((p->backward * s->stages + stage) * s->chunks + p->chunk) * s->microbatches + p->microbatch]++;
            }
        for (int at = 0; at < 2 * s->stages * s->chunks * s->microbatches; at++) assert_int_equal(seen[at], 1);
        struct sim_pipeline_time time = run(arena, &t, 1, 2, 0.125, false);
        for (int stage = 0; stage < s->stages; stage++)
            assert_near(time.busy_s[stage], 3.0 * s->microbatches * s->chunks, 1e-9);
    }
}

/* (p-1)/m of what the microbatches take, divided by the chunks where they are interleaved. */
static void bubble_is_as_derived(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(shapes); i++) {
        const struct shape *s = &shapes[i];
        TEST_ROW("%d stages of %d chunks, %d microbatches", s->stages, s->chunks, s->microbatches);
        struct sim_timetable t = timetable_of(arena, s);
        struct sim_pipeline_time time = run(arena, &t, 1, 2, 0, false);
        const double work_s = 3.0 * s->microbatches * s->chunks;
        assert_near((time.total_s - work_s) / work_s, (s->stages - 1.0) / (s->microbatches * s->chunks), 1e-12);
    }
}

/* Steady state: (m-1) (f+b+2c) on a stage that both sends and gets; fill and drain pass every boundary. */
static void messages_that_are_waited_for(struct base_arena *arena)
{
    const struct shape shape = {4, 1, 16, SIM_ONE_FORWARD_ONE_BACKWARD};
    struct sim_timetable t = timetable_of(arena, &shape);
    const double c = 0.25, waited_s = run(arena, &t, 1, 2, c, false).total_s,
                 hidden_s = run(arena, &t, 1, 2, c, true).total_s, none_s = run(arena, &t, 1, 2, 0, false).total_s;
    assert_near(none_s, 19 * 3, 1e-12);
    const double formula_s = 15 * (3 + 2 * c) + 4 * 3 + 2 * 3 * c; /* that counts the first stage's last one, too */
    assert_true(waited_s <= formula_s && waited_s >= formula_s - c);
    assert_true(hidden_s < waited_s && hidden_s > none_s);
    /* Hidden messages go one after the other: a link that takes longer than a stage sets the pace. */
    assert_true(run(arena, &t, 1, 2, 5, true).total_s >= 16 * 5);
}

static void in_flight_is_as_derived(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(shapes); i++) {
        const struct shape *s = &shapes[i];
        TEST_ROW("%d stages of %d chunks, %d microbatches", s->stages, s->chunks, s->microbatches);
        struct sim_timetable t = timetable_of(arena, s);
        for (int stage = 0; stage < s->stages; stage++) {
            double most = sim_most_in_flight(&t, stage), expected = s->microbatches;
            if (s->chunks > 1 && s->microbatches > s->stages)
                expected =
                    fmin(expected, (2 * (s->stages - 1.0 - stage) + (s->chunks - 1.0) * s->stages + 1) / s->chunks);
            else if (s->chunks == 1 && s->kind != SIM_GPIPE) expected = fmin(expected, s->stages - stage);
            assert_near(most, expected, 1e-12);
        }
    }
}

/* By hand: two stages, three microbatches; the first stage holds two at the most, the second time beside what the
 * first of them has left there. */
static void peak_counts_what_others_left(struct base_arena *arena)
{
    const struct shape shape = {2, 1, 3, SIM_ONE_FORWARD_ONE_BACKWARD};
    struct sim_timetable t = timetable_of(arena, &shape);
    struct sim_pass_memory memory[2] = {{10, 11, 15, 4}, {10, 30, 15, 0}};
    struct sim_stage_peak peak;
    sim_stage_peak_find(&t, 0, memory, &peak);
    assert_near(peak.bytes, 10 + 15 + 4, 0);
    assert_int_equal(peak.in_flight[0], 1);
    assert_int_equal(peak.done[0], 1);
    assert_true(t.passes[peak.pass].backward);
    sim_stage_peak_find(&t, 1, memory + 1, &peak);
    assert_near(peak.bytes, 30, 0);
    assert_int_equal(peak.in_flight[0], 0);
}

static void a_circle_is_refused(struct base_arena *arena)
{
    const struct shape shape = {2, 1, 2, SIM_ONE_FORWARD_ONE_BACKWARD};
    struct sim_timetable t = timetable_of(arena, &shape);
    struct sim_pass_of first = t.passes[t.first[1]];
    t.passes[t.first[1]] = t.passes[t.first[1] + 1]; /* backward before forward */
    t.passes[t.first[1] + 1] = first;
    const double ones[] = {1, 1};
    const struct sim_pipeline_costs costs = {ones, ones, ones, ones, false};
    struct sim_pipeline_time out;
    struct base_error error;
    assert_int_equal(sim_pipeline_run(arena, &t, &costs, &out, &error), BASE_INPUT);
}

static void interleaving_goes_round_all_stages(struct base_arena *arena)
{
    const struct sim_pipeline pipeline = {.stages = 4, .chunks = 2, .schedule = SIM_INTERLEAVED};
    struct sim_timetable out;
    struct base_error error;
    assert_int_equal(sim_timetable_make(arena, &pipeline, 6, &out, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "use 8"));
}

/* ---- cuts ---- */

static struct model_config config_of(struct base_arena *arena, const char *text)
{
    struct model_config config;
    struct base_error error;
    assert_ok(model_config_parse(arena, text, &config, &error), &error);
    return config;
}

static const char *layers_of(struct base_arena *arena, const struct model_config *config,
                             const struct sim_pipeline *pipeline, enum sim_division division)
{
    struct sim_stage_chunk pieces[SIM_MOST_STAGE_CHUNKS];
    struct base_error error;
    struct base_text text = {.arena = arena};
    if (sim_split_model(config, pipeline, division, pieces, &error) != BASE_OK) return "refused";
    for (int i = 0; i < pipeline->stages * pipeline->chunks; i++)
        base_putf(&text, "%s%lld", i ? "," : "", (long long)(pieces[i].encoder_layers + pieces[i].decoder_layers));
    return text.data;
}

#define DECODER(embed, mlp, layers, vocab)                                                                             \
    "decoder_only:emb_dim=" #embed ",num_heads=32,head_dim=64,mlp_dim=" #mlp ",num_layers=" #layers                    \
    ",vocab_size=" #vocab ",mlp_activations=silu+linear"

/* huggingface/nanotron's sweep (Local Params of its rows), pytorch/torchtitan's 405B, BigScience's prequel. */
static void models_are_cut_as_published(struct base_arena *arena)
{
    static const struct {
        const char *model;
        int stages, chunks;
        enum sim_cut cut;
        enum sim_division division;
        const char *layers;
    } rows[] = {
        {DECODER(2048, 8192, 16, 131072), 2, 1, SIM_BY_COMPUTE_COST, SIM_DIVIDES_EVENLY, "11,5"},
        {DECODER(2048, 8192, 16, 131072), 4, 1, SIM_BY_COMPUTE_COST, SIM_DIVIDES_EVENLY, "6,5,5,0"},
        {DECODER(2048, 8192, 16, 131072), 8, 1, SIM_BY_COMPUTE_COST, SIM_DIVIDES_EVENLY, "3,3,2,3,2,3,0,0"},
        {DECODER(3072, 8192, 28, 131072), 2, 1, SIM_BY_COMPUTE_COST, SIM_DIVIDES_EVENLY, "16,12"},
        {DECODER(3072, 8192, 28, 131072), 4, 1, SIM_BY_COMPUTE_COST, SIM_DIVIDES_EVENLY, "8,8,8,4"},
        {DECODER(4096, 14336, 32, 131072), 8, 1, SIM_BY_COMPUTE_COST, SIM_DIVIDES_EVENLY, "5,4,4,5,4,4,4,2"},
        {DECODER(16384, 53248, 126, 128256), 8, 1, SIM_BY_TORCHTITAN, SIM_DIVIDES_EVENLY, "15,16,16,16,16,16,16,15"},
        {DECODER(16384, 53248, 126, 128256), 8, 8, SIM_BY_LAYERS_AND_EMBEDDINGS, SIM_DIVIDES_EVENLY,
         "1,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,"
         "2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,1"},
        {DECODER(14336, 57344, 70, 250880), 12, 1, SIM_BY_LAYERS_AND_EMBEDDINGS, SIM_DIVIDES_EVENLY,
         "5,6,6,6,6,6,6,6,6,6,6,5"},
        {DECODER(14336, 57344, 78, 250880), 12, 1, SIM_BY_LAYERS, SIM_DIVIDES_UNEVENLY, "7,7,7,7,7,7,7,7,7,7,7,1"},
        {DECODER(14336, 57344, 78, 250880), 12, 1, SIM_BY_LAYERS, SIM_DIVIDES_EVENLY, "refused"},
        {DECODER(5120, 20480, 48, 51200), 32, 1, SIM_BY_LAYERS, SIM_DIVIDES_FINELY,
         "2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1"},
        {DECODER(8192, 32768, 6, 51200), 10, 1, SIM_BY_LAYERS, SIM_DIVIDES_FINELY, "0,1,1,1,0,1,1,1,0,0"},
        {DECODER(8192, 32768, 6, 51200), 8, 1, SIM_BY_LAYERS, SIM_DIVIDES_FINELY, "0,1,1,1,1,1,1,0"},
        {DECODER(8192, 32768, 6, 51200), 7, 1, SIM_BY_LAYERS, SIM_DIVIDES_FINELY, "refused"},
        {DECODER(8192, 32768, 6, 51200), 6, 1, SIM_BY_LAYERS, SIM_DIVIDES_FINELY, "1,1,1,1,1,1"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct sim_pipeline pipeline = {
            .stages = rows[i].stages, .chunks = rows[i].chunks, .partition = rows[i].cut};
        const struct model_config config = config_of(arena, rows[i].model);
        TEST_ROW("%s on %d stages", rows[i].model, rows[i].stages);
        assert_string_equal(layers_of(arena, &config, &pipeline, rows[i].division), rows[i].layers);
    }
}

/* The head may stand on the stage before the loss. */
static void parts_stand_once(struct base_arena *arena)
{
    const struct model_config config = config_of(arena, DECODER(2048, 8192, 16, 131072)),
                              t5 = config_of(arena, "t5_1_1_small");
    struct sim_stage_chunk pieces[SIM_MOST_STAGE_CHUNKS];
    struct base_error error;
    struct sim_pipeline pipeline = {.stages = 8, .chunks = 1, .partition = SIM_BY_COMPUTE_COST};
    assert_ok(sim_split_model(&config, &pipeline, SIM_DIVIDES_EVENLY, pieces, &error), &error);
    assert_int_equal(pieces[0].parts, MODEL_PART_EMBEDDING | MODEL_PART_LAYERS);
    assert_true(pieces[6].parts & MODEL_PART_LOGITS);
    assert_int_equal(pieces[7].parts, MODEL_PART_LOSS);
    pipeline.stages = 4, pipeline.first_layers = 5; /* 16 layers, and a head that costs four: each has five */
    assert_ok(sim_split_model(&config, &pipeline, SIM_DIVIDES_EVENLY, pieces, &error), &error);
    assert_int_equal(pieces[0].decoder_layers, 5);
    assert_int_equal(pieces[3].decoder_layers, 1);
    pipeline.first_layers = 6;
    assert_ok(sim_split_model(&config, &pipeline, SIM_DIVIDES_EVENLY, pieces, &error), &error);
    assert_int_equal(pieces[0].decoder_layers, 6);
    assert_int_equal(pieces[3].decoder_layers, 0);
    pipeline.first_layers = 7;
    assert_int_equal(sim_split_model(&config, &pipeline, SIM_DIVIDES_EVENLY, pieces, &error), BASE_INPUT);
    pipeline = (struct sim_pipeline){.stages = 4, .chunks = 1};
    assert_ok(sim_split_model(&t5, &pipeline, SIM_DIVIDES_EVENLY, pieces, &error), &error);
    assert_int_equal(pieces[1].parts, MODEL_PART_ENCODER_LAYERS | MODEL_PART_ENCODER_NORM);
    assert_int_equal(pieces[2].parts, MODEL_PART_EMBEDDING | MODEL_PART_LAYERS);
    pipeline.split_rank = 4;
    assert_int_equal(sim_split_model(&t5, &pipeline, SIM_DIVIDES_EVENLY, pieces, &error), BASE_INPUT);
}

/* ---- predictions ---- */

/* What most tests of predictions begin with. */
static struct sim_plan_text small_plan(const char *software)
{
    return (struct sim_plan_text){.values = {[SIM_MODEL] = DECODER(2048, 8192, 16, 51200),
                                             [SIM_TOPOLOGY] = "a100-80g:2x8",
                                             [SIM_NUM_PARTITIONS] = "2",
                                             [SIM_TARGETS_LENGTH] = "1024",
                                             [SIM_BATCH_SIZE] = "64",
                                             [SIM_NUM_MICROBATCHES] = "8",
                                             [SIM_OPTIMIZER] = "adamw",
                                             [SIM_SOFTWARE] = software}};
}

static struct sim_prediction predict(struct base_arena *arena, const char *const (*given)[2], int count)
{
    struct sim_plan_text text = small_plan("megatron_deepspeed");
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction out;
    struct sim_plan plan;
    struct base_error error;
    for (int i = 0; i < count; i++) text.values[sim_plan_key_named(given[i][0])] = given[i][1];
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &out, NULL, &error), &error);
    sim_cache_free(cache);
    return out;
}

/* Of every software that has pipelines, with what each of them adds to a step. */
static const char *const softwares[] = {"t5x",      "megatron", "megatron_deepspeed", "nemo", "nemo_o1",
                                        "nanotron", "alpa",     "torchtitan"};

static void check_equal(const struct sim_prediction *a, const struct sim_prediction *b)
{
    assert_memory_equal(&a->memory, &b->memory, sizeof a->memory);
    assert_true(a->step_s == b->step_s && a->compute_s == b->compute_s && a->memory_bound_s == b->memory_bound_s);
    assert_true(a->exposed_communication_s == b->exposed_communication_s && a->overhead_s == b->overhead_s);
    assert_true(a->tokens_per_s == b->tokens_per_s && a->mfu_frac == b->mfu_frac);
    assert_int_equal(a->free_bytes, b->free_bytes);
}

/* nanotron on one replica: 18 bytes a parameter, and the block of the embedding's gradient, for which the first stage
 * has freed nothing that is large enough. */
static void the_first_stage_holds_a_block_for_the_gradient_of_its_embedding(struct base_arena *arena)
{
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        const char *const given[][2] = {{"model", i ? DECODER(2048, 8192, 8, 65536) : DECODER(2048, 8192, 8, 32768)},
                                        {"topology", "h100:1x2"},
                                        {"software", "nanotron"},
                                        {"num_partitions", "1"},
                                        {"pipeline_stages", "2"},
                                        {"attention", "flash"},
                                        {"dtype", "bfloat16"},
                                        {"memory_kind", "reserved"},
                                        {"memory_stage", "first"}};
        bytes[i] = predict(arena, given, BASE_COUNT(given)).memory.peak_bytes;
    }
    assert_int_equal(bytes[1] - bytes[0], 32768 * 2048 * (18 + 2));
}

static void one_stage_is_no_pipeline(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(softwares); i++) {
        const char *const given[][2] = {{"software", softwares[i]},
                                        {"pipeline_stages", "1"},
                                        {"virtual_stages", "1"},
                                        {"pipeline_schedule", "gpipe"},
                                        {"memory_stage", "first"}};
        TEST_ROW("%s", softwares[i]);
        struct sim_prediction none = predict(arena, given, 1), one = predict(arena, given, BASE_COUNT(given));
        check_equal(&none, &one);
        assert_int_equal(one.pipeline.stages, 0);
    }
}

static void a_context_of_one_device_is_none(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(softwares); i++)
        for (int staged = 0; staged < 2; staged++) {
            const char *const given[][2] = {
                {"software", softwares[i]}, {"pipeline_stages", staged ? "2" : "1"}, {"context_parallel", "1"}};
            TEST_ROW("%s, %d stages", softwares[i], staged + 1);
            struct sim_prediction none = predict(arena, given, 2), one = predict(arena, given, 3);
            check_equal(&none, &one);
        }
}

/* Stages without a layer hand on what comes: more of them than layers change the time of a step by the way through
 * them, not by what each microbatch takes, and the worst holds no more than a layer. */
static void more_stages_than_layers_are_as_slow_as_a_layer(struct base_arena *arena)
{
    struct sim_prediction p[2];
    for (int i = 0; i < 2; i++) {
        const char *const given[][2] = {{"software", "alpa"},
                                        {"dtype", "float16"},
                                        {"num_partitions", "1"},
                                        {"topology", i ? "v100-32g:1x8" : "v100-32g:1x4"},
                                        {"model", DECODER(2048, 8192, 4, 512)},
                                        {"pipeline_stages", i ? "8" : "4"},
                                        {"batch_size", "1024"},
                                        {"num_microbatches", "1024"},
                                        {"remat_policy", "full"}};
        p[i] = predict(arena, given, BASE_COUNT(given));
        assert_int_equal(p[i].pipeline.stages, i ? 8 : 4);
    }
    assert_true(p[1].step_s < 1.02 * p[0].step_s); /* the ends have stages of their own */
    assert_true(p[1].step_s > 0.85 * p[0].step_s);
    assert_true(p[1].memory.peak_bytes < 1.1 * (double)p[0].memory.peak_bytes);
}

/* GPipe holds every microbatch, 1F1B as many as there are stages. */
static void memory_grows_with_what_is_in_flight(struct base_arena *arena)
{
    static const char *const batches[] = {"32", "64", "128", "192"}, *const microbatches[] = {"4", "8", "16", "24"};
    int64_t peaks[2][4];
    for (int schedule = 0; schedule < 2; schedule++)
        for (int i = 0; i < 4; i++) {
            const char *const given[][2] = {{"pipeline_stages", "4"},
                                            {"memory_stage", "first"},
                                            {"pipeline_schedule", schedule ? "gpipe" : "1f1b"},
                                            {"batch_size", batches[i]},
                                            {"num_microbatches", microbatches[i]}};
            peaks[schedule][i] = predict(arena, given, BASE_COUNT(given)).memory.peak_bytes;
        }
    /* The batch itself grows, too, by some kilobytes. */
    const int64_t each = (peaks[1][2] - peaks[1][1]) / 8;
    assert_true(each > (INT64_C(64) << 20));
    assert_near((double)(peaks[1][3] - peaks[1][2]), 8.0 * (double)each, 1e-3);
    assert_near((double)(peaks[1][1] - peaks[1][0]), 4.0 * (double)each, 1e-3);
    assert_near((double)peaks[0][0], (double)peaks[1][0], 0);
    for (int i = 1; i < 4; i++) assert_near((double)peaks[0][i], (double)peaks[0][0], 1e-3);
}

/* The stages have all layers together: the same work, and a bubble. */
static void stages_share_the_work(struct base_arena *arena)
{
    static const char *const four[][2] = {{"pipeline_stages", "4"}, {"num_microbatches", "32"}};
    static const char *const whole[][2] = {{"topology", "a100-80g:1x4"}, {"num_microbatches", "32"}};
    struct sim_prediction cut = predict(arena, four, 2), alone = predict(arena, whole, 2);
    assert_near(cut.mfu_frac * cut.step_s * 16, alone.mfu_frac * alone.step_s * 4, 1e-9);
    assert_true(cut.step_s > alone.step_s / 4);
    assert_true(cut.pipeline.message_s > 0 && cut.pipeline.message_s < 0.2 * cut.step_s);
    assert_true(cut.pipeline.bubble_s > 0 && cut.pipeline.bubble_s < 0.3 * cut.step_s);
    assert_near(cut.compute_s + cut.memory_bound_s + cut.exposed_communication_s + cut.overhead_s, cut.step_s, 1e-12);
    assert_int_equal(cut.mesh.sizes[cut.mesh.count - 1], 4);
}

/* Of equal stages (what embeds and gives logits is small beside a thousand layers' work): (p-1)/m, divided by chunks.
 */
static void a_predicted_bubble_is_that_of_its_schedule(struct base_arena *arena)
{
    static const char *const model =
        "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=128,"
        "vocab_size=128,mlp_activations=gelu,logits_via_embedding=0,position_encoding=none";
    static const struct {
        const char *stages, *chunks, *microbatches, *schedule;
        double share;
    } rows[] = {{"4", "1", "16", "1f1b", 3.0 / 16},
                {"4", "1", "32", "1f1b", 3.0 / 32},
                {"4", "1", "16", "gpipe", 3.0 / 16},
                {"4", "2", "16", "interleaved", 3.0 / 16 / 2},
                {"4", "8", "16", "interleaved", 3.0 / 16 / 8}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *const given[][2] = {{"model", model},
                                        {"topology", "a100-80g:1x4"},
                                        {"num_partitions", "1"},
                                        {"software", "t5x"},
                                        {"batch_size", rows[i].microbatches},
                                        {"num_microbatches", rows[i].microbatches},
                                        {"pipeline_stages", rows[i].stages},
                                        {"virtual_stages", rows[i].chunks},
                                        {"pipeline_schedule", rows[i].schedule}};
        TEST_ROW("%s stages of %s chunks, %s microbatches", rows[i].stages, rows[i].chunks, rows[i].microbatches);
        const struct sim_prediction p = predict(arena, given, BASE_COUNT(given));
        const double passes_s = p.pipeline.bubble_s / rows[i].share;
        assert_true(passes_s < p.step_s); /* what is beside them: messages, reductions, the update */
        assert_true(passes_s > 0.8 * p.step_s);
    }
}

/* A version of which it is known that the host waits for each kernel; another version, or none, is as usual. */
static void versions_differ_by_their_rows(struct base_arena *arena)
{
    static const char *const blocked[][2] = {{"software_version", "BigScience fork 2022-02 bf16 optimizer"}},
                             *const other[][2] = {{"software_version", "BigScience fork 2021"}},
                             *const elsewhere[][2] = {{"software", "nanotron"},
                                                      {"software_version", "BigScience fork 2022-02"}};
    const struct sim_prediction usual = predict(arena, NULL, 0), same = predict(arena, other, 1),
                                waits = predict(arena, blocked, 1), alone = predict(arena, elsewhere, 1),
                                named = predict(arena, elsewhere, 2);
    check_equal(&usual, &same);
    check_equal(&alone, &named);
    assert_true(waits.step_s > usual.step_s);
    assert_near(waits.step_s - waits.overhead_s, usual.step_s - usual.overhead_s, 1e-9);
    assert_int_equal(waits.memory.peak_bytes, usual.memory.peak_bytes);
}

/* Over hosts a nanotron sweep had PyTorch compare arguments before each collective: time of the host, by rank. */
static void checked_collectives_take_the_host_time_by_rank(struct base_arena *arena)
{
    static const char *const ranks[] = {"2", "4", "8"};
    double late_s[BASE_COUNT(ranks)];
    for (int i = 0; i < BASE_COUNT(ranks); i++) {
        for (int hosts = 1; hosts <= 2; hosts++) {
            const char *const plan[][2] = {{"software", "nanotron"},
                                           {"topology", hosts == 1 ? "h100:1x8" : "h100:2x8"},
                                           {"num_partitions", ranks[i]},
                                           {"sequence_parallel", "1"},
                                           {"pipeline_stages", "1"},
                                           {"num_microbatches", hosts == 1 ? "8" : "4"},
                                           {"software_version", "2024-12 bench2 repaired"}};
            TEST_ROW("%s ranks, %d hosts", ranks[i], hosts);
            const struct sim_prediction usual = predict(arena, plan, BASE_COUNT(plan) - 1),
                                        checked = predict(arena, plan, BASE_COUNT(plan));
            late_s[i] = checked.step_s - usual.step_s;
            assert_true(hosts == 1 ? late_s[i] == 0 : late_s[i] > 0);
        }
    }
    assert_true(late_s[1] > 1.5 * late_s[0] && late_s[2] > 1.5 * late_s[1]);
}

/* DeepSpeed's bfloat16 optimizer adds each microbatch's gradients to float32 ones: read, added to and written. */
static void bfloat16_gradients_add_up_in_float32(struct base_arena *arena)
{
    static const char *const forks[] = {"megatron_deepspeed", "megatron"};
    for (int i = 0; i < BASE_COUNT(forks); i++) {
        const char *const half[][2] = {{"software", forks[i]}, {"dtype", "float16"}}, *const brain[][2] = {
                                                                                          {"software", forks[i]},
                                                                                          {"dtype", "bfloat16"}};
        TEST_ROW("%s", forks[i]);
        const struct sim_prediction float16 = predict(arena, half, 2), bfloat16 = predict(arena, brain, 2);
        assert_true(bfloat16.memory_bound_s > float16.memory_bound_s);
        assert_true(bfloat16.memory.gradient_bytes > 19 * float16.memory.gradient_bytes / 10);
        assert_true(bfloat16.exposed_communication_s > float16.exposed_communication_s); /* reduced as they are */
    }
}

/* Keys and values are gathered for each layer, forward and backward; a sequence over one device is as it was. */
static void sequences_are_sharded_over_context(struct base_arena *arena)
{
    static const char *const one[][2] = {{"context_parallel", "1"}};
    static const char *const two[][2] = {{"context_parallel", "2"}, {"attention", "flash"}};
    static const char *const flash[][2] = {{"attention", "flash"}};
    struct sim_prediction none = predict(arena, NULL, 0), same = predict(arena, one, 1),
                          whole = predict(arena, flash, 1), cut = predict(arena, two, 2);
    assert_memory_equal(&none.memory, &same.memory, sizeof none.memory);
    assert_true(none.step_s == same.step_s);
    assert_int_equal(topo_axis_named(&cut.mesh, "context"), 1);
    assert_int_equal(cut.memory.parameter_bytes, whole.memory.parameter_bytes);
    assert_near(cut.mfu_frac * cut.step_s, whole.mfu_frac * whole.step_s, 1e-9);
    assert_true(cut.communication_s > whole.communication_s);
    assert_near((double)cut.memory.activation_bytes, (double)whole.memory.activation_bytes, /* dp halves, s halves */
                0.02);
}

/* Round a ring blocks are on their way while others are computed with: of long sequences most of them, of short
 * ones less; gathered, all are waited for. Products are the same, and so is what the model needs. */
static void rings_hide_behind_blocks(struct base_arena *arena)
{
    enum { LONG, SHORT, LENGTHS };
    static const char *const lengths[LENGTHS] = {"65536", "4096"};
    double hidden_frac[LENGTHS];
    for (int i = 0; i < LENGTHS; i++) {
        const char *const plan[][2] = {{"software", "megatron"},       {"context_parallel", "4"},
                                       {"attention", "flash"},         {"dropout_rate", "0"},
                                       {"num_partitions", "1"},        {"pipeline_stages", "1"},
                                       {"targets_length", lengths[i]}, {"cp_comm_type", "all_gather"}};
        const struct sim_prediction ring = predict(arena, plan, BASE_COUNT(plan) - 1),
                                    gathered = predict(arena, plan, BASE_COUNT(plan));
        hidden_frac[i] = (ring.communication_s - ring.exposed_communication_s) / ring.communication_s;
        assert_near(ring.compute_s, gathered.compute_s, 0.05);
        assert_near(ring.mfu_frac * ring.step_s, gathered.mfu_frac * gathered.step_s, 1e-9);
        assert_near(gathered.communication_s, gathered.exposed_communication_s, 1e-9);
    }
    TEST_ROW("%g %g", hidden_frac[LONG], hidden_frac[SHORT]);
    assert_true(hidden_frac[LONG] < 1 && 1 - hidden_frac[LONG] < 0.7 * (1 - hidden_frac[SHORT]));
}

/* Every position lies in one place, and with 2C pieces each device's queries see as many keys as any other's. */
static void causal_sequences_are_shared_out_evenly(struct base_arena *arena)
{
    (void)arena;
    enum { LENGTH = 840 };
    static const int devices[] = {1, 2, 3, 4, 5, 7};
    for (int d = 0; d < BASE_COUNT(devices); d++) {
        bool placed[LENGTH] = {false};
        TEST_ROW("%d devices", devices[d]);
        for (int device = 0; device < devices[d]; device++) {
            const int64_t each = LENGTH / devices[d];
            int64_t seen = 0;
            for (int64_t i = 0; i < each; i++) {
                const int64_t at = model_sequence_position(2 * devices[d], LENGTH, device * each + i);
                assert_in_range(at, 0, LENGTH - 1);
                assert_false(placed[at]);
                placed[at] = true;
                seen += at + 1;
            }
            assert_int_equal(seen * devices[d] * 2, (int64_t)LENGTH * (LENGTH + 1));
        }
    }
    assert_int_equal(model_sequence_position(8, 64, 8), 56); /* the first device's second piece is the last */
    assert_int_equal(model_sequence_position(0, 64, 8), 8);
}

/* A table of relative positions keeps sequences in order, and so do pieces that would not be alike. The last device is
 * waited for then: it computes with all but its share of the masked half, 1.75 times the mean of four. */
static void sequences_in_order_wait_for_the_last_device(struct base_arena *arena)
{
    static const struct {
        const char *model, *length;
        int pieces;
        double unevenness;
    } rows[] = {{DECODER(1024, 4096, 4, 32128) ",position_encoding=none", "65536", 8, 1},
                {DECODER(1024, 4096, 4, 32128) ",position_encoding=none", "65540", 0, 1.75},
                {DECODER(1024, 4096, 4, 32128) ",position_encoding=relative_bias", "65536", 0, 1.75}};
    double compute_s[BASE_COUNT(rows)];
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = small_plan("t5x");
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_prediction prediction;
        struct sim_plan plan;
        struct base_error error;
        TEST_ROW("%s of %s", rows[i].model, rows[i].length);
        text.values[SIM_MODEL] = rows[i].model, text.values[SIM_TARGETS_LENGTH] = rows[i].length;
        text.values[SIM_CONTEXT_PARALLEL] = "4", text.values[SIM_ATTENTION] = "flash";
        text.values[SIM_NUM_PARTITIONS] = text.values[SIM_PIPELINE_STAGES] = "1";
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_int_equal(plan.options.sequence_pieces, rows[i].pieces);
        assert_near(sim_causal_unevenness(&plan), rows[i].unevenness, 1e-12);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        compute_s[i] = prediction.compute_s;
        sim_cache_free(cache);
    }
    assert_true(compute_s[1] > 1.5 * compute_s[0] && compute_s[2] > 1.5 * compute_s[0]);
}

/* torchtitan's parameters are sharded over data by its rules, its layers over model by itself. */
static void torchtitan_shards_layers_over_model(struct base_arena *arena)
{
    static const char *const one[][2] = {
        {"software", "torchtitan"}, {"logical_axis_rules", "zero3"}, {"num_partitions", "1"}};
    static const char *const two[][2] = {{"software", "torchtitan"}, {"logical_axis_rules", "zero3"}};
    struct sim_prediction alone = predict(arena, one, 3), cut = predict(arena, two, 2);
    assert_true(cut.compute_s < 1.1 * alone.compute_s);
    assert_near((double)cut.memory.parameter_bytes, (double)alone.memory.parameter_bytes, 0.01);
}

/* Under a pipeline its weights stay gathered and their gradients whole: in bfloat16 and float32, beside the float32
 * shards; what is gathered and scattered is so once a step, however many microbatches there are. */
static void torchtitan_keeps_what_it_gathered(struct base_arena *arena)
{
    static const char *const one[][2] = {{"software", "torchtitan"},
                                         {"logical_axis_rules", "zero3"},
                                         {"num_partitions", "1"},
                                         {"topology", "a100-80g:1x8"}};
    static const char *const eight[][2] = {{"software", "torchtitan"}, {"logical_axis_rules", "zero3"},
                                           {"num_partitions", "1"},    {"pipeline_stages", "2"},
                                           {"memory_stage", "first"},  {"batch_size", "64"},
                                           {"num_microbatches", "8"}};
    static const char *const more[][2] = {{"software", "torchtitan"}, {"logical_axis_rules", "zero3"},
                                          {"num_partitions", "1"},    {"pipeline_stages", "2"},
                                          {"memory_stage", "first"},  {"batch_size", "512"},
                                          {"num_microbatches", "64"}};
    const int shards = 8;
    const struct sim_prediction alone = predict(arena, one, BASE_COUNT(one)),
                                few = predict(arena, eight, BASE_COUNT(eight)),
                                many = predict(arena, more, BASE_COUNT(more));
    const double parameters = (double)few.memory.parameter_bytes / (4 + 2.0 * shards); /* of a shard */
    assert_near(4 * parameters, (double)alone.memory.parameter_bytes / 2, 0.2);        /* half of the layers */
    assert_true((double)few.memory.gradient_bytes >= 4 * shards * parameters);
    assert_true(many.compute_s > 6 * few.compute_s);
    assert_true(many.communication_s < 2 * few.communication_s); /* what grows is messages between stages */
}

/* What one microbatch more holds on the first of four stages, in units of the hidden states that it hands on. */
static double each_more(struct base_arena *arena, const char *software, const char *model, const char *const counts[2],
                        const char *const batches[2], double microbatches)
{
    const double hidden_bytes = 4096 * 2048 * 2.0; /* of 4 sequences of 1,024, in two bytes */
    double peaks[2];
    for (int i = 0; i < 2; i++) {
        const char *const given[][2] = {{"software", software},          {"model", model},
                                        {"pipeline_stages", "4"},        {"memory_stage", "first"},
                                        {"num_microbatches", counts[i]}, {"batch_size", batches[i]},
                                        {"remat_policy", "none"},        {"attention", "unfused"}};
        peaks[i] = (double)predict(arena, given, BASE_COUNT(given)).memory.peak_bytes;
    }
    return (peaks[1] - peaks[0]) / microbatches / hidden_bytes;
}

/* Beyond as many microbatches as there are stages nothing more is in flight; torch's stages keep each one's output, and
 * a buffer for its gradient, until the step ends (torch/distributed/pipelining/stage.py). */
static void outputs_stay_as_long_as_the_software_keeps_them(struct base_arena *arena)
{
    static const char model[] = DECODER(2048, 8192, 16, 51200), larger[] = DECODER(2048, 8192, 16, 102400);
    static const char *const many[] = {"8", "16"}, *const their_batches[] = {"64", "128"}, *const few[] = {"3", "4"},
                             *const few_batches[] = {"24", "32"};
    assert_near(each_more(arena, "megatron", model, many, their_batches, 8), 0, 0.02);
    assert_near(each_more(arena, "nanotron", model, many, their_batches, 8), 0, 0.02);
    assert_near(each_more(arena, "torchtitan", model, many, their_batches, 8), 2, 0.02);
    const double small = each_more(arena, "torchtitan", model, few, few_batches, 1);
    assert_true(small > 50); /* four layers' activations */
    assert_near(each_more(arena, "torchtitan", larger, few, few_batches, 1), small, 0.02); /* no one-hot is written */
    const double freed = each_more(arena, "megatron", model, few, few_batches, 1);
    assert_near(each_more(arena, "nemo", model, few, few_batches, 1), freed + 1, 0.02);
    /* DeepSpeed's layers keep otherwise than Megatron's: what is left beside twice as many of them is the part of one
     * of two devices, and what the embedding leaves. */
    static const char shallow[] = DECODER(2048, 8192, 8, 51200);
    const double beside_layers = 2 * each_more(arena, "megatron_deepspeed", shallow, few, few_batches, 1) -
                                 each_more(arena, "megatron_deepspeed", model, few, few_batches, 1),
                 theirs = 2 * each_more(arena, "megatron", shallow, few, few_batches, 1) - freed;
    const double fragmentation_frac =
        0.3; /* of transient buffers (sim/machine/gpu_constants.csv), of a whole one here */
    assert_near(beside_layers - theirs, 0.5 + fragmentation_frac, 0.01);
}

/* The last stage's outputs are logits: of a vocabulary that makes it the largest, each microbatch more is saved, beside
 * the buffer for what it receives, and the gradient of that. */
static void the_last_stage_keeps_its_logits(struct base_arena *arena)
{
    static const char *const counts[] = {"8", "16"}, *const batches[] = {"64", "128"};
    const double hidden_bytes = 4096 * 2048 * 2.0, logits_bytes = 4096 * (819200 / 2) * 2.0; /* over two devices */
    double peaks[2];
    for (int i = 0; i < 2; i++) {
        const char *const given[][2] = {{"software", "torchtitan"},      {"model", DECODER(2048, 8192, 16, 819200)},
                                        {"pipeline_stages", "4"},        {"remat_policy", "none"},
                                        {"num_microbatches", counts[i]}, {"batch_size", batches[i]}};
        peaks[i] = (double)predict(arena, given, BASE_COUNT(given)).memory.peak_bytes;
    }
    assert_near((peaks[1] - peaks[0]) / 8, 2 * hidden_bytes + logits_bytes, 1e-6);
}

/* Transformer Engine gathers and scatters behind its products, in whatever dtype, where a plan or its release says so.
 */
static void a_switch_hides_tensor_parallelism(struct base_arena *arena)
{
    static const char *const dtypes[] = {"bfloat16", "fp8"};
    for (int d = 0; d < BASE_COUNT(dtypes); d++) {
        const char *const off[][2] = {{"software", "megatron"}, {"topology", "h100:2x8"}, {"sequence_parallel", "1"},
                                      {"attention", "flash"},   {"dtype", dtypes[d]},     {"tp_comm_overlap", "0"}},
                          *const on[][2] = {{"software", "megatron"},   {"topology", "h100:2x8"},
                                            {"sequence_parallel", "1"}, {"attention", "flash"},
                                            {"dtype", dtypes[d]},       {"tp_comm_overlap", "1"}};
        const struct sim_prediction exposed = predict(arena, off, 6), hidden = predict(arena, on, 6),
                                    usual = predict(arena, on, 5);
        TEST_ROW("%s", dtypes[d]);
        assert_true(hidden.exposed_communication_s < 0.6 * exposed.exposed_communication_s);
        assert_near(hidden.communication_s, exposed.communication_s, 1e-9);
        assert_near(usual.step_s, hidden.step_s, 0);
    }
}

static struct sim_prediction of_nemo(struct base_arena *arena, struct sim_cache *cache, struct sim_plan_text text)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    text.values[SIM_SOFTWARE] = "megatron", text.values[SIM_OPTIMIZER_PARTITIONING] = "data";
    text.values[SIM_NUM_PARTITIONS] = "4", text.values[SIM_SEQUENCE_PARALLEL] = "1";
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

/* NVIDIA's published steps of NeMo on H100 (dgxc-benchmarking: llama3.1/README_70b.md, nemotron/README_15b.md). A flat
 * array is gathered and scattered in few collectives, so that 16 times the devices add little: 0.03 s there. */
static void published_steps_of_nemo(struct base_arena *arena)
{
    static const char nemotron[] =
        "decoder_only:emb_dim=6144,num_heads=48,num_kv_heads=8,head_dim=128,mlp_dim=24576,num_layers=32,"
        "vocab_size=256000,mlp_activations=relu,logits_via_embedding=0";
    static const struct {
        const char *model, *topology, *length, *batch_size, *microbatches, *stages, *chunks, *context, *dtype;
        double step_s;
    } rows[] = {{"llama3_70b", "h100:8x8", "8192", "128", "64", "4", "5", "2", "bfloat16", 14.72},
                {"llama3_70b", "h100:8x8", "8192", "128", "64", "4", "5", "2", "fp8", 11.01},
                {nemotron, "h100:16x8", "4096", "512", "4", "1", "1", "1", "bfloat16", 2.859},
                {nemotron, "h100:256x8", "4096", "8192", "4", "1", "1", "1", "bfloat16", 2.887},
                {nemotron, "h100:256x8", "4096", "8192", "4", "1", "1", "1", "fp8", 2.12}};
    struct sim_cache *cache = sim_cache_new(arena);
    double steps_s[BASE_COUNT(rows)];
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = {{0}};
        text.values[SIM_MODEL] = rows[i].model, text.values[SIM_TOPOLOGY] = rows[i].topology;
        text.values[SIM_TARGETS_LENGTH] = rows[i].length, text.values[SIM_BATCH_SIZE] = rows[i].batch_size;
        text.values[SIM_NUM_MICROBATCHES] = rows[i].microbatches, text.values[SIM_PIPELINE_STAGES] = rows[i].stages;
        text.values[SIM_VIRTUAL_STAGES] = rows[i].chunks, text.values[SIM_CONTEXT_PARALLEL] = rows[i].context;
        if (*rows[i].chunks != '1') text.values[SIM_PIPELINE_SCHEDULE] = "interleaved";
        text.values[SIM_DTYPE] = rows[i].dtype;
        TEST_ROW("%s on %s in %s", rows[i].model, rows[i].topology, rows[i].dtype);
        steps_s[i] = of_nemo(arena, cache, text).step_s;
        assert_near(steps_s[i] / rows[i].step_s, 1, 0.1);
    }
    assert_true(steps_s[3] - steps_s[2] < 0.06);
    sim_cache_free(cache);
}

/* Chunks take turns in one schedule alone, so that a plan which says how many need not say which. */
static void chunks_alone_are_interleaved(struct base_arena *arena)
{
    static const char *const said[][2] = {{"software", "megatron"},
                                          {"pipeline_stages", "2"},
                                          {"virtual_stages", "2"},
                                          {"pipeline_schedule", "interleaved"}};
    const struct sim_prediction whole = predict(arena, said, 4), short_of_it = predict(arena, said, 3);
    check_equal(&whole, &short_of_it);
}

static struct sim_plan plan_of_microbatches(struct base_arena *arena, struct sim_cache *cache, const char *batch_size,
                                            const char *microbatches, const char *software)
{
    struct sim_plan_text text = small_plan(software);
    text.values[SIM_BATCH_SIZE] = batch_size;
    text.values[SIM_NUM_MICROBATCHES] = microbatches;
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    return plan;
}

static struct sim_cost_context begun(struct sim_cache *cache, const struct sim_plan *plan)
{
    const struct sim_program *program;
    struct sim_cost_context p;
    struct base_error error;
    assert_ok(sim_program_find(cache, plan, plan->options.remat, 0, SIM_PRICES_ALONE, &program, &error), &error);
    assert_ok(sim_cost_context_begin(&p, plan, &program->prices, &error), &error);
    return p;
}

/* More microbatches of a size, or larger ones: what stays is not priced again, and all comes to what it does anew. */
static void kernels_are_shared_by_numbers_of_microbatches(struct base_arena *arena)
{
    static const char *const of_pipelines[] = {"megatron_deepspeed", "nanotron", "fsdp", "nemo"};
    for (int i = 0; i < BASE_COUNT(of_pipelines); i++) {
        TEST_ROW("%s", of_pipelines[i]);
        struct sim_cache *cache = sim_cache_new(arena);
        static struct sim_unit_costs prices;
        double shared_s[MODEL_OPTIMIZER + 1], anew_s[MODEL_OPTIMIZER + 1];
        const struct sim_plan few = plan_of_microbatches(arena, cache, "64", "4", of_pipelines[i]),
                              others[] = {plan_of_microbatches(arena, cache, "128", "8", of_pipelines[i]),
                                          plan_of_microbatches(arena, cache, "128", "4", of_pipelines[i])};
        const struct sim_cost_context one = begun(cache, &few);
        for (int other = 0; other < BASE_COUNT(others); other++) {
            struct sim_cost_context two = begun(cache, &others[other]), anew = two;
            sim_price_kernels(&one, &prices);
            sim_price_kernels_after(&two, &one, &prices);
            sim_price_time_of(&two, &prices, NULL);
            sim_price_phases_of(&two, &prices, shared_s);
            sim_price_time(&anew, NULL);
            sim_price_phases(&anew, anew_s);
            assert_memory_equal(two.totals_s, anew.totals_s, sizeof anew.totals_s);
            assert_memory_equal(&two.exposed_s, &anew.exposed_s, sizeof anew.exposed_s);
            assert_memory_equal(shared_s, anew_s, sizeof anew_s);
        }
        sim_cache_free(cache);
    }
}

static struct sim_prediction answer_from(struct base_arena *arena, struct sim_cache *cache,
                                         const struct sim_plan_text *text)
{
    struct sim_plan plan;
    struct sim_prediction out;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &out, NULL, &error), &error);
    return out;
}

/* Prices of pieces are kept for plans that have the same ones. One change after the other of what they go by, and back:
 * each answer is that of a cache that has seen nothing. */
static void kept_pieces_answer_for_themselves_alone(struct base_arena *arena)
{
    static const char *const changes[][2] = {{"num_microbatches", "16"},
                                             {"batch_size", "128"},
                                             {"memory_kind", "allocated"},
                                             {"memory_kind", "reserved"},
                                             {"dtype", "float16"},
                                             {"remat_policy", "full"},
                                             {"attention", "flash"},
                                             {"sequence_parallel", "1"},
                                             {"optimizer_partitioning", "data"},
                                             {"targets_length", "2048"},
                                             {"topology", "h100:2x8"},
                                             {"topology", "a100-80g:4x8"},
                                             {"num_partitions", "4"},
                                             {"pipeline_stages", "2"},
                                             {"model", DECODER(2048, 8192, 32, 51200)},
                                             {"model", DECODER(4096, 8192, 16, 51200)}};
    for (int i = 0; i < BASE_COUNT(softwares); i++) {
        struct sim_cache *warm = sim_cache_new(arena);
        struct sim_plan_text text = small_plan(softwares[i]);
        text.values[SIM_PIPELINE_STAGES] = "4";
        for (int change = 0; change < 2 * BASE_COUNT(changes); change++) {
            const char *const *given = changes[change % BASE_COUNT(changes)];
            const int key = sim_plan_key_named(given[0]);
            const char *before = text.values[key];
            TEST_ROW("%s, %s %s", softwares[i], given[0], given[1]);
            text.values[key] = given[1];
            struct sim_cache *fresh = sim_cache_new(arena);
            const struct sim_prediction kept = answer_from(arena, warm, &text), anew = answer_from(arena, fresh, &text);
            check_equal(&anew, &kept);
            sim_cache_free(fresh);
            if (change % 3) text.values[key] = before; /* a third of the changes stays */
        }
        sim_cache_free(warm);
    }
}

/* Each question in turn, those that share a place in between: what is known is what was last put there. */
static void prices_are_remembered_by_all_that_they_follow_from(struct base_arena *arena)
{
    enum { QUESTIONS = 5000, ROUNDS = 3 };
    int64_t number = 1;
    struct sim_recent_prices *recent = sim_recent_prices_new(arena, &number);
    const int machines[2] = {0, 0};
    int hits = 0;
    bool known;
    for (int i = 0; i < ROUNDS * QUESTIONS; i++) {
        const int asked = i % QUESTIONS; /* of each number another value: none alone tells them apart */
        const struct sim_price_question question = {.on = &machines[asked & 1],
                                                    .what = (short)(asked >> 1 & 1),
                                                    .count = 3,
                                                    .of = {asked >> 2 & 3, asked >> 4 & 15, asked >> 8}};
        double *answer = sim_recent_price(recent, &question, &known);
        if (known) assert_near(*answer, asked, 0);
        hits += known;
        *answer = asked;
        assert_near(*sim_recent_price(recent, &question, &known), asked, 0);
        assert_true(known);
    }
    assert_in_range(hits, 1, ROUNDS * QUESTIONS / 2); /* there are fewer places than questions */
}

/* What an earlier question placed somewhere is gone, and another placement may stand there. */
static void prices_are_remembered_during_one_question(struct base_arena *arena)
{
    const struct sim_price_question asked = {.on = arena, .count = 1, .of = {1}};
    int64_t number = 1;
    struct sim_recent_prices *recent = sim_recent_prices_new(arena, &number);
    bool known;
    *sim_recent_price(recent, &asked, &known) = 5;
    assert_false(known);
    sim_recent_price(recent, &asked, &known);
    assert_true(known);
    number++;
    sim_recent_price(recent, &asked, &known);
    assert_false(known);
    sim_recent_price(recent, &asked, &known);
    assert_true(known);
}

static const struct test tests[] = {
    TEST(every_pass_stands_once_and_can_run),
    TEST(streamed_messages_take_their_link_alone),
    TEST(bubble_is_as_derived),
    TEST(messages_that_are_waited_for),
    TEST(in_flight_is_as_derived),
    TEST(peak_counts_what_others_left),
    TEST(a_circle_is_refused),
    TEST(interleaving_goes_round_all_stages),
    TEST(models_are_cut_as_published),
    TEST(parts_stand_once),
    TEST(the_first_stage_holds_a_block_for_the_gradient_of_its_embedding),
    TEST(one_stage_is_no_pipeline),
    TEST(more_stages_than_layers_are_as_slow_as_a_layer),
    TEST(a_context_of_one_device_is_none),
    TEST(a_predicted_bubble_is_that_of_its_schedule),
    TEST(versions_differ_by_their_rows),
    TEST(checked_collectives_take_the_host_time_by_rank),
    TEST(bfloat16_gradients_add_up_in_float32),
    TEST(memory_grows_with_what_is_in_flight),
    TEST(stages_share_the_work),
    TEST(sequences_are_sharded_over_context),
    TEST(rings_hide_behind_blocks),
    TEST(causal_sequences_are_shared_out_evenly),
    TEST(sequences_in_order_wait_for_the_last_device),
    TEST(torchtitan_shards_layers_over_model),
    TEST(torchtitan_keeps_what_it_gathered),
    TEST(outputs_stay_as_long_as_the_software_keeps_them),
    TEST(the_last_stage_keeps_its_logits),
    TEST(a_switch_hides_tensor_parallelism),
    TEST(published_steps_of_nemo),
    TEST(chunks_alone_are_interleaved),
    TEST(kernels_are_shared_by_numbers_of_microbatches),
    TEST(kept_pieces_answer_for_themselves_alone),
    TEST(prices_are_remembered_by_all_that_they_follow_from),
    TEST(prices_are_remembered_during_one_question),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
