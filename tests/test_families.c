/* Families of decoders as they run: a step of a tiny model of each is that of Hugging Face's transformers
 * (scripts/transformers_vectors.py), on one device and on several. */
#include "exec/infer_arrays.h"
#include "exec/kernels.h"
#include "tests/rig.h"

#include <math.h>

/* ---- weights, as the script makes them ---- */

/* Number i of a seed, from -1 to 1: 24 bits of a mixed hash. */
static double number(uint32_t seed, int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + seed;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    x ^= x >> 16;
    return (double)(x >> 8) / (1 << 23) - 1;
}

static uint32_t seed_of(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static bool ends(const char *text, const char *with)
{
    const size_t length = strlen(text), end = strlen(with);
    return length >= end && !strcmp(text + length - end, with);
}

static void set_weights(struct base_arena *arena, struct rig *rig)
{
    for (int i = 0; i < rig->array_count; i++) {
        const struct exec_array *array = &rig->arrays[i];
        const char *path = array->path;
        if (strncmp(path, "target.", strlen("target.")) != 0) continue;
        const double middle = ends(path, ".scale") ? 1 : 0, reach = ends(path, ".scale") || ends(path, ".bias") ? 0.2
                                                                    : ends(path, ".sinks")                      ? 1
                                                                    : ends(path, ".embedding")                  ? 0.6
                                                                                                                : 0.3;
        float *values = base_new(arena, float, elements_of(array));
        for (int64_t j = 0; j < elements_of(array); j++) values[j] = (float)(middle + reach * number(seed_of(path), j));
        struct exec_region all = exec_whole(array);
        exec_scatter(&rig->machine, array, &all, values);
    }
}

/* ---- one step ---- */

struct split {
    const char *topology, *submesh, *rules, *experts, *stages, *context, *optimizer;
};
static const struct split one_device = {"local:1", "1,1", "standard:1,1", NULL, NULL, NULL, NULL};

static struct sim_plan_text plan_of(struct base_arena *arena, const struct base_json *row, const struct split *split,
                                    const char *learning_rate)
{
    const struct base_json *targets = base_json_get(row, "lora_targets");
    const char *line;
    struct base_error error;
    assert_ok(model_huggingface_line(arena, base_json_get(row, "config"), &line, &error), &error);
    return (struct sim_plan_text){.values = {[SIM_MODEL] = line,
                                             [SIM_TOPOLOGY] = split->topology,
                                             [SIM_SUBMESH] = split->submesh,
                                             [SIM_RULES] = split->rules,
                                             [SIM_EXPERT_PARALLEL] = split->experts,
                                             [SIM_CONTEXT_PARALLEL] = split->context,
                                             [SIM_PIPELINE_STAGES] = split->stages,
                                             [SIM_NUM_MICROBATCHES] = split->stages,
                                             [SIM_TARGETS_LENGTH] = "16",
                                             [SIM_BATCH_SIZE] = "8",
                                             [SIM_OPTIMIZER] = split->optimizer ? split->optimizer : "sgd",
                                             [SIM_LEARNING_RATE] = learning_rate,
                                             [SIM_LORA_RANK] = base_json_get(row, "lora_rank") ? "3" : NULL,
                                             [SIM_LORA_TARGETS] = targets ? targets->string : NULL,
                                             [SIM_Z_LOSS] = "0",
                                             [SIM_DTYPE] = "float32",
                                             [SIM_REMAT_POLICY] = "none"}};
}

static const struct base_json *fine_tunes(struct base_arena *arena)
{
    return test_read_json(arena, "transformers_fine_tunes.json")->child;
}

static void check_steps(struct base_arena *arena, const struct base_json *row, const char *learning_rate, int steps,
                        const struct base_json *loss, const struct base_json *gradient_norm)
{
    struct base_error error;
    struct rig rig;
    struct exec_data data;
    struct exec_batch batch;
    const struct sim_plan_text text = plan_of(arena, row, &one_device, learning_rate);
    assert_ok(rig_begin_as(arena, &text, SIM_AS_EXECUTED, &rig, &error), &error);
    set_weights(arena, &rig);
    assert_ok(
        exec_data_open(arena, &rig.plan, "tests/data/transformers_batch.jsonl", 1, EXEC_OF_TRAINING, &data, &error),
        &error);
    exec_data_batch(arena, &data, 0, 0, rig.plan.batch_size, &batch);
    for (int i = 0; i < steps; i++, loss = loss->next, gradient_norm = gradient_norm->next) {
        exec_feed(&rig.machine, &batch);
        exec_step(&rig.machine);
        assert_near(rig.machine.loss_sum / rig.machine.weight_sum, loss->number, 1e-5);
        assert_near(sqrt(rig.machine.gradient_square_sum), gradient_norm->number, 1e-5);
    }
    sim_cache_free(rig.cache);
}

static void steps_are_those_of_transformers(struct base_arena *arena)
{
    int count = 0;
    for (const struct base_json *row = test_read_json(arena, "transformers_steps.json")->child; row; row = row->next) {
        struct base_arena own = {.exhausted = arena->exhausted};
        TEST_ROW("%s", base_json_get(row, "family")->string);
        check_steps(&own, row, "0", 1, base_json_get(row, "loss"), base_json_get(row, "gradient_norm"));
        base_arena_free(&own);
        count++;
    }
    assert_int_equal(count, 31);
}

/* LoRA: losses and gradients of adapters alone, over steps that change them. */
static void adapters_train_as_those_of_transformers(struct base_arena *arena)
{
    int count = 0;
    for (const struct base_json *row = fine_tunes(arena); row; row = row->next, count++) {
        const struct base_json *losses = base_json_get(row, "losses");
        struct base_arena own = {.exhausted = arena->exhausted};
        TEST_ROW("%s", base_json_get(row, "family")->string);
        check_steps(&own, row, "0.25", losses->count, losses->child, base_json_get(row, "gradient_norms")->child);
        base_arena_free(&own);
    }
    assert_int_equal(count, 4);
}

/* ---- in bfloat16 ---- */

/* Gradients of 64 heads for the part of keys that all have. */
static void heads_add_up_before_they_are_rounded(struct base_arena *arena)
{
    enum { HEADS = 64, HEAD_DIM = 8, SHARED = 4, TOKENS = 16 };
    const struct sim_plan_text text = {
        .values = {[SIM_MODEL] = "scalable_decoder_only:vocab_size=40,emb_dim=16,num_heads=64,head_dim=8,mlp_dim=16,"
                                 "num_layers=1,position_encoding=rotary,kv_lora_rank=8,qk_rope_head_dim=4,v_head_dim=4",
                   [SIM_TOPOLOGY] = "local:1",
                   [SIM_TARGETS_LENGTH] = "8",
                   [SIM_BATCH_SIZE] = "2",
                   [SIM_OPTIMIZER] = "sgd",
                   [SIM_DTYPE] = "bfloat16",
                   [SIM_REMAT_POLICY] = "none"}};
    enum { ADDEND = 0x3fa0 /* 1.25 */, SUM = 0x42a0 /* 80; 77 if each sum is rounded */ };
    struct base_error error;
    struct rig rig;
    int checked = 0;
    assert_ok(rig_begin_as(arena, &text, SIM_AS_EXECUTED, &rig, &error), &error);
    for (int i = 0; i < rig.machine.s->op_count; i++) {
        const struct sim_op *op = &rig.machine.s->ops[i];
        if (op->op->function != MODEL_JOIN_KEYS_SUM) continue;
        uint16_t *keys = (void *)exec_address(&rig.machine, op->inputs[0], 0),
                 *sums = (void *)exec_address(&rig.machine, op->outputs[0], 0);
        for (int j = 0; j < TOKENS * HEADS * HEAD_DIM; j++) keys[j] = ADDEND;
        exec_join_keys(&rig.machine, op, 0);
        for (int j = 0; j < TOKENS * SHARED; j++) assert_int_equal(sums[j], SUM);
        checked++;
    }
    assert_true(checked > 0);
    sim_cache_free(rig.cache);
}

/* ---- decoded token by token ---- */

enum { ROWS = 8, LENGTH = 16, VOCAB = 96 };

/* Logits of each row at each position before a cap, from the step of its decoding, or from a pass over whole sequences.
 */
struct logits {
    int32_t prompts[ROWS]; /* tokens behind the first */
    int64_t round;
    float at[ROWS][LENGTH][VOCAB];
};

static void see_prompts(void *where, const float *values, int64_t count)
{
    memcpy(((struct logits *)where)->prompts, values, (size_t)count * sizeof(int32_t));
}

static void see_step(void *where, const float *values, int64_t count)
{
    struct logits *l = where;
    assert_int_equal(count, ROWS * VOCAB);
    for (int row = 0; row < ROWS; row++)
        if (l->prompts[row] + l->round < LENGTH)
            memcpy(l->at[row][l->prompts[row] + l->round], values + row * VOCAB, VOCAB * sizeof *values);
    l->round++;
}

static void see_whole(void *where, const float *values, int64_t count)
{
    assert_int_equal(count, ROWS * LENGTH * VOCAB);
    memcpy(((struct logits *)where)->at, values, (size_t)count * sizeof *values);
}

static void see_tokens(void *where, const float *values, int64_t count)
{
    memcpy(where, values, (size_t)count * sizeof *values);
}

/* Runs a step of the model with the weights of the script; NULL: its logits are watched. */
static void run_once(struct base_arena *arena, const struct base_json *row, const struct split *split,
                     enum model_step step, const struct exec_batch *batch, struct exec_watch *watch,
                     const char *const *watched)
{
    struct sim_plan_text text = plan_of(arena, row, split, NULL);
    struct base_error error;
    struct rig rig = {.cache = sim_cache_new(arena)};
    struct sim_prediction predicted;
    if (model_infers(step)) {
        text.values[SIM_OPTIMIZER] = text.values[SIM_Z_LOSS] = NULL;
        text.values[SIM_EOS_ID] = "-1";
    }
    assert_ok(sim_plan_check(rig.cache, arena, &text, step, SIM_AS_EXECUTED, &rig.plan, &error), &error);
    assert_ok(sim_executable_program(rig.cache, arena, &rig.plan, &rig.program, &error), &error);
    assert_ok(exec_machine_begin(arena, &rig.program, &rig.plan, &rig.machine, &error), &error);
    exec_arrays(arena, &rig.machine, &rig.arrays, &rig.array_count);
    set_weights(arena, &rig);
    for (int i = 0; i < watch->count; i++) {
        const char *logits = rig.plan.config->logits_via_embedding ? "decoder/logits" : "decoder/logits_dense";
        watch->watched[i].tensor = exec_tensor_named(&rig.machine, watched[i] ? watched[i] : logits);
    }
    rig.machine.watch = watch;
    assert_ok(sim_predict(rig.cache, &rig.plan, &predicted, NULL, &error), &error);
    assert_true(predicted.memory.peak_bytes == rig.machine.map.arena_bytes);
    exec_feed(&rig.machine, batch);
    exec_step(&rig.machine);
    sim_cache_free(rig.cache);
}

/* Tokens of the batch after a first one; of row r so many of them are a prompt. */
static void decode(struct base_arena *arena, const struct base_json *row, const struct split *split,
                   const struct exec_batch *prompts, struct logits *out, int32_t *answers)
{
    static const char *const watched[] = {"decode/prompt length", NULL, "decodes"};
    struct exec_watch watch = {.count = 3,
                               .watched = {{-1, see_prompts, out}, {-1, see_step, out}, {-1, see_tokens, answers}}};
    run_once(arena, row, split, MODEL_STEP_GENERATE, prompts, &watch, watched);
}

static double capped(double x, const struct base_json *cap)
{
    return cap && cap->kind == BASE_JSON_NUMBER ? cap->number * tanh(x / cap->number) : x;
}

static double log_prob(const float *logits, int token, const struct base_json *cap)
{
    double sum = 0;
    for (int v = 0; v < VOCAB; v++) sum += exp(capped((double)logits[v], cap) - capped((double)logits[token], cap));
    return -log(sum);
}

/* Tokens of transformers, decoded by way of its cache, and their log-probabilities. */
static void check_answers(const struct base_json *row, const struct logits *logits, int32_t answers[][LENGTH])
{
    const struct base_json *tokens = base_json_get(row, "decoded")->child,
                           *sum = base_json_get(row, "log_probs")->child,
                           *cap = base_json_get(base_json_get(row, "config"), "final_logit_softcapping");
    for (int r = 0; r < ROWS; r++, tokens = tokens->next, sum = sum->next) {
        const struct base_json *token = tokens->child;
        double made = 0;
        assert_int_equal(tokens->count, LENGTH - 1 - r);
        for (int i = 0; i < tokens->count; i++, token = token->next) {
            assert_int_equal(answers[r][i], (int)token->number);
            made += log_prob(logits->at[r][1 + r + i], answers[r][i], cap);
        }
        assert_near(made, sum->number, 1e-5);
    }
}

/* A prompt's pass into the cache and decode steps from it, in whatever form the family's attention has there, give each
 * position the logits that a pass of training gives it; and the tokens that transformers decodes. */
static void check_decoding(struct base_arena *arena, const struct base_json *row, const struct split *split)
{
    static const char *const watched[] = {NULL};
    struct logits *stepwise = base_new(arena, struct logits, 1), *whole = base_new(arena, struct logits, 1);
    int32_t answers[ROWS][LENGTH], inputs[ROWS][LENGTH], marks[ROWS][LENGTH], ones[ROWS][LENGTH];
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < LENGTH; t++) {
            inputs[r][t] = t ? 1 + (int)((number(seed_of("prompts"), r * LENGTH + t) + 1) / 2 * (VOCAB - 1)) : 0;
            marks[r][t] = t < 2 + r, ones[r][t] = 1;
        }
    const struct exec_batch prompts = {.rows = ROWS,
                                       .tokens = {[EXEC_DECODER_INPUT] = *inputs, [EXEC_CAUSAL_ATTENTION] = *marks}};
    decode(arena, row, split, &prompts, stepwise, *answers);
    check_answers(row, stepwise, answers);
    for (int r = 0; r < ROWS; r++) {
        const int next = stepwise->prompts[r] + 1;
        assert_int_equal(next, 2 + r);
        memcpy(inputs[r] + next, answers[r], (size_t)(LENGTH - next) * sizeof **answers);
    }
    struct exec_watch watch = {.count = 1, .watched = {{-1, see_whole, whole}}};
    const struct exec_batch sequences = {
        .rows = ROWS,
        .tokens = {[EXEC_DECODER_INPUT] = *inputs, [EXEC_DECODER_TARGET] = *ones, [EXEC_LOSS_WEIGHTS] = *ones}};
    run_once(arena, row, &one_device, MODEL_STEP_TRAIN, &sequences, &watch, watched);
    for (int r = 0; r < ROWS; r++)
        for (int t = stepwise->prompts[r]; t < LENGTH; t++)
            for (int v = 0; v < VOCAB; v++)
                if (!(fabsf(stepwise->at[r][t][v] - whole->at[r][t][v]) <= 1e-5F))
                    fail_msg("row %d, position %d, token %d: %.9g, in the pass of training %.9g", r, t, v,
                             (double)stepwise->at[r][t][v], (double)whole->at[r][t][v]);
}

static void families_decode_as_they_are_trained(struct base_arena *arena)
{
    static const struct split splits[] = {
        {"local:1", "1,1", "standard:1,1", NULL, NULL, NULL, NULL},
        {"local:4", "1,2", "standard:2,2", NULL, NULL, NULL, NULL},
        {"local:4", "1,1", "zero3", NULL, NULL, NULL, NULL},
        {"local:4", "1,2", "standard:1,1", "4", NULL, NULL, NULL},
    };
    for (const struct base_json *row = test_read_json(arena, "transformers_steps.json")->child; row; row = row->next) {
        struct base_arena own = {.exhausted = arena->exhausted};
        TEST_ROW("%s", base_json_get(row, "family")->string);
        const struct base_json *config = base_json_get(row, "config");
        for (int i = 0; i < BASE_COUNT(splits); i++) {
            if (base_json_get(config, "multi_query") && !strcmp(splits[i].submesh, "1,2")) continue;
            if (splits[i].experts && !base_json_get(config, "num_experts_per_tok")) continue;
            TEST_ROW("%s on %s, %s, %s", base_json_get(row, "family")->string, splits[i].topology, splits[i].submesh,
                     splits[i].rules);
            check_decoding(&own, row, &splits[i]);
        }
        base_arena_free(&own);
    }
}

/* ---- on several devices ---- */

enum { STEPS = 2 };
struct outcome {
    double loss[STEPS], gradient_norm[STEPS];
};

static int64_t bytes_of(const struct sim_collective_row *rows, int count)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++) sum += rows[i].count * rows[i].bytes;
    return sum;
}

/* Memory and what is sent are as predicted. */
static struct outcome run(struct base_arena *arena, const struct base_json *row, const struct split *split)
{
    const struct exec_request request = {.steps = STEPS};
    const struct sim_plan_text text = plan_of(arena, row, split, base_json_get(row, "lora_rank") ? "1" : "1e-2");
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    struct sim_plan plan;
    struct sim_prediction predicted;
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    struct exec_result result;
    struct outcome out;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, &error), &error);
    assert_ok(exec_run(arena, cache, &plan, &request, &result, &error), &error);
    assert_ok(sim_predict(cache, &plan, &predicted, &detail, &error), &error);
    assert_true(result.memory.peak_bytes == predicted.memory.peak_bytes);
    assert_int_equal(result.collective_count, detail.collectives.count);
    assert_true(bytes_of(result.collectives, result.collective_count) ==
                bytes_of(detail.collectives.rows, detail.collectives.count));
    memcpy(out.loss, result.loss, sizeof out.loss);
    memcpy(out.gradient_norm, result.gradient_norm, sizeof out.gradient_norm);
    sim_cache_free(cache);
    return out;
}

/* By data, by heads and width, by both, with sharded parameters, by experts, by stages. */
static void lose_the_same_on_any_mesh(struct base_arena *arena, const struct base_json *row)
{
    static const struct split splits[] = {
        {"local:2", "1,1", "standard:1,1", NULL, NULL, NULL, NULL},
        {"local:2", "1,2", "standard:1,1", NULL, NULL, NULL, NULL},
        {"local:4", "1,2", "standard:2,2", NULL, NULL, NULL, NULL},
        {"local:8", "1,1", "zero3", NULL, NULL, NULL, NULL},
        {"local:8", "1,2", "standard:1,1", NULL, NULL, NULL, NULL},
        {"local:4", "1,1", "standard:1,1", "4", NULL, NULL, NULL},
        {"local:8", "1,2", "standard:1,1", "2", NULL, NULL, NULL},
        {"local:8", "1,2", "zero3", "4", NULL, NULL, NULL},
        {"local:8", "1,2", "standard:1,1", "4", NULL, NULL, NULL},
        {"local:2", NULL, "standard:1,1", NULL, "2", NULL, NULL},
        {"local:8", "1,1", "standard:1,1", "2", "2", NULL, NULL},
        {"local:8", NULL, "standard:1,1", "4", NULL, "2", NULL},
        {"local:4", "1,1", "standard:1,1", "4", NULL, NULL, "adafactor"},
    };
    for (; row; row = row->next) {
        const struct base_json *config = base_json_get(row, "config");
        const bool one_key = base_json_get(config, "multi_query"),
                   sparse = base_json_get(config, "num_experts_per_tok");
        struct base_arena own = {.exhausted = arena->exhausted};
        TEST_ROW("%s", base_json_get(row, "family")->string);
        const struct outcome one = run(&own, row, &one_device);
        for (int i = 0; i < BASE_COUNT(splits); i++) {
            const struct split *s = &splits[i];
            if (one_key && s->submesh && !strcmp(s->submesh, "1,2")) continue; /* it cannot be shared */
            if (s->experts && !sparse) continue;
            TEST_ROW("%s on %s, %s, %s, experts %s, stages %s", base_json_get(row, "family")->string, s->topology,
                     s->submesh ? s->submesh : "-", s->rules, s->experts ? s->experts : "1",
                     s->stages ? s->stages : "1");
            const struct outcome several = run(&own, row, s);
            for (int step = 0; step < (s->optimizer ? 1 : STEPS); step++) {
                assert_near(several.loss[step], one.loss[step], 1e-6);
                assert_near(several.gradient_norm[step], one.gradient_norm[step], 1e-5);
            }
        }
        base_arena_free(&own);
    }
}

static void families_lose_the_same_on_any_mesh(struct base_arena *arena)
{
    lose_the_same_on_any_mesh(arena, test_read_json(arena, "transformers_steps.json")->child);
}

static void adapters_lose_the_same_on_any_mesh(struct base_arena *arena)
{
    lose_the_same_on_any_mesh(arena, fine_tunes(arena));
}

/* Tokens are dropped by T5X's buffers alone, which a capacity, or the dispatcher, asks for. */
static void none_is_dropped_unsaid(struct base_arena *arena)
{
    static const struct {
        const char *capacity, *dispatcher;
        bool sorts;
    } rows[] = {{"", "software", true}, {",capacity_factor=1", "software", false}, {"", "onehot", false}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *model = base_print(arena,
                                       "decoder_only:vocab_size=40,emb_dim=16,num_heads=2,head_dim=8,"
                                       "mlp_dim=16,num_layers=1,num_experts=4,num_selected_experts=2%s",
                                       rows[i].capacity);
        const struct sim_plan_text text = {.values = {[SIM_MODEL] = model,
                                                      [SIM_TOPOLOGY] = "local:1",
                                                      [SIM_MOE_DISPATCHER] = rows[i].dispatcher,
                                                      [SIM_TARGETS_LENGTH] = "8",
                                                      [SIM_BATCH_SIZE] = "2"}};
        struct base_error error;
        struct rig rig;
        int64_t sizes[MODEL_SIZE_COUNT];
        TEST_ROW("%s, %s", rows[i].capacity, rows[i].dispatcher);
        assert_ok(rig_begin_as(arena, &text, SIM_AS_EXECUTED, &rig, &error), &error);
        sim_plan_sizes(&rig.plan, sizes);
        assert_int_equal(rig.plan.options.sorts_tokens, rows[i].sorts);
        if (rows[i].sorts) assert_int_equal(sizes[MODEL_DECODER_CAPACITY], sizes[MODEL_DECODER_GROUP_TOKENS]);
        sim_cache_free(rig.cache);
    }
}

static const struct test tests[] = {
    TEST(steps_are_those_of_transformers),     TEST(heads_add_up_before_they_are_rounded),
    TEST(families_lose_the_same_on_any_mesh),  TEST(adapters_train_as_those_of_transformers),
    TEST(adapters_lose_the_same_on_any_mesh),  TEST(none_is_dropped_unsaid),
    TEST(families_decode_as_they_are_trained),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
