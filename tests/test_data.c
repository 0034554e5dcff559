/* What runs are fed, and evaluation: a text's bytes come back from its batches, each once an epoch; rows depend on
 * seed, step and row alone; accuracy is that of a model that has learnt its batch, under every partitioning. */
#include "exec/corpus.h"
#include "exec/exec.h"
#include "tests/test.h"

#include <stdlib.h>

enum { FIRST_SENTINEL = 258, END = 1 };

#define DECODER                                                                                                        \
    "decoder_only:emb_dim=16,num_heads=4,head_dim=4,mlp_dim=32,num_layers=1,vocab_size=%d,mlp_activations=relu,"       \
    "logits_via_embedding=0"
#define BOTH                                                                                                           \
    "encoder_decoder:emb_dim=16,num_heads=4,head_dim=4,mlp_dim=32,num_encoder_layers=1,num_decoder_layers=1,vocab_"    \
    "size=%d,mlp_activations=relu,logits_via_embedding=1"

static struct sim_plan plan_of(struct base_arena *arena, struct sim_cache *cache, const char *model, int vocabulary,
                               const char *inputs, const char *targets, const char *batch, const char *seed)
{
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = base_print(arena, vocabulary == 300 ? BOTH : DECODER, vocabulary),
                   [SIM_TOPOLOGY] = "local:1",
                   [SIM_INPUTS_LENGTH] = inputs,
                   [SIM_TARGETS_LENGTH] = targets,
                   [SIM_BATCH_SIZE] = batch,
                   [SIM_SEED] = seed}};
    struct sim_plan plan;
    struct base_error error;
    if (model) text.values[SIM_MODEL] = model;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, &error), &error);
    return plan;
}

static const char *text_file(struct base_arena *arena, const char *text, size_t length)
{
    char *folder = base_copy(arena, "/tmp/meshwright-data-XXXXXX");
    struct base_error error;
    assert_non_null(mkdtemp(folder));
    const char *path = base_print(arena, "%s/corpus.txt", folder);
    assert_ok(base_write_file(path, text, length, &error), &error);
    return path;
}

static void remove_file(struct base_arena *arena, const char *path)
{
    base_directory_remove(arena, base_print(arena, "%.*s", (int)(strrchr(path, '/') - path), path));
}

/* Every byte in some line, some of them not UTF-8. */
static char *some_text(struct base_arena *arena, int64_t length)
{
    struct base_random random;
    char *text = base_alloc(arena, (size_t)length + 1, 1);
    base_random_seed(&random, 11);
    for (int64_t i = 0; i < length; i++) text[i] = (char)(1 + base_random_below(&random, 250));
    return text;
}

static int32_t token_of(char byte)
{
    return byte == '\n' ? END : (int32_t)(unsigned char)byte + 3;
}

/* Puts the targets' spans where the inputs have their sentinels. Returns the length of what was there before. */
static int64_t restore(const int32_t *inputs, int64_t input_count, const int32_t *targets, int64_t target_count,
                       int32_t *out)
{
    int64_t count = 0, in_end = input_count, out_end = target_count, at = 0;
    int32_t next = FIRST_SENTINEL;
    while (in_end > 0 && inputs[in_end - 1] == 0) in_end--;
    while (out_end > 0 && targets[out_end - 1] == 0) out_end--;
    assert_true(in_end > 0 && out_end > 0 && inputs[in_end - 1] == END && targets[out_end - 1] == END);
    for (int64_t i = 0; i < in_end - 1; i++) {
        if (inputs[i] != next) {
            out[count++] = inputs[i];
            continue;
        }
        assert_int_equal(targets[at], next);
        next--;
        int64_t before = count;
        for (at++; at < out_end - 1 && targets[at] != next; at++) out[count++] = targets[at];
        assert_true(count > before);
    }
    assert_int_equal(at, out_end - 1);
    return count;
}

static void corrupted_spans_come_back(struct base_arena *arena)
{
    static const struct {
        int64_t length;
        const char *inputs, *targets;
    } cases[] = {{20000, "512", "114"}, {3000, "100", "100"}, {500, "64", "12"},
                 {777, "16", "400"},    {9, "64", "64"},      {1, "8", "8"}};
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        struct base_error error;
        struct sim_cache *cache = sim_cache_new(arena);
        TEST_ROW("%lld bytes, %s and %s", (long long)cases[i].length, cases[i].inputs, cases[i].targets);
        struct sim_plan plan = plan_of(arena, cache, NULL, 300, cases[i].inputs, cases[i].targets, "5", "3");
        /* Bytes that are sentinels would be taken for them: ByT5 lives with that, this test does not. */
        char *text = some_text(arena, cases[i].length);
        for (int64_t j = 0; j < cases[i].length; j++) text[j] = (char)((unsigned char)text[j] % 120 + 1);
        const char *path = text_file(arena, text, (size_t)cases[i].length);
        struct exec_data data;
        assert_ok(exec_data_open(arena, &plan, path, 1, EXEC_OF_TRAINING, &data, &error), &error);
        int64_t segments = data.corpus->segment_count, steps = base_ceil_div(segments, 5), covered = 0;
        int32_t *whole = base_new(arena, int32_t, data.corpus->segment_length);
        char *seen = base_alloc(arena, (size_t)segments, 1);
        for (int64_t step = 0; step < steps; step++) {
            struct exec_batch batch;
            exec_data_batch(arena, &data, step, 0, 5, &batch);
            for (int64_t row = 0; row < 5 && step * 5 + row < segments; row++) {
                const int32_t *targets = batch.tokens[EXEC_DECODER_TARGET] + row * plan.targets_length;
                int64_t count = restore(batch.tokens[EXEC_ENCODER_INPUT] + row * plan.inputs_length, plan.inputs_length,
                                        targets, plan.targets_length, whole),
                        segment = 0;
                for (; segment < segments; segment++) {
                    const char *at = text + segment * data.corpus->segment_length;
                    bool same = segment * data.corpus->segment_length + count <= cases[i].length && !seen[segment];
                    for (int64_t j = 0; j < count && same; j++) same = token_of(at[j]) == whole[j];
                    if (same) break;
                }
                assert_true(segment < segments);
                seen[segment] = 1;
                covered += count;
                for (int64_t j = 0; j < plan.targets_length; j++) {
                    assert_int_equal(batch.tokens[EXEC_LOSS_WEIGHTS][row * plan.targets_length + j], targets[j] != 0);
                    assert_int_equal(batch.tokens[EXEC_DECODER_INPUT][row * plan.targets_length + j],
                                     j ? targets[j - 1] : 0);
                }
            }
        }
        assert_int_equal(covered, cases[i].length); /* an epoch has every byte once */
        remove_file(arena, path);
        sim_cache_free(cache);
    }
}

static void decoders_read_on(struct base_arena *arena)
{
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan = plan_of(arena, cache, NULL, 259, NULL, "50", "4", "8");
    char *text = some_text(arena, 1010);
    const char *path = text_file(arena, text, 1010);
    struct exec_data data, held_out;
    struct exec_batch batch, part, in_order;
    int64_t counts[2][256] = {{0}};
    assert_ok(exec_data_open(arena, &plan, path, 1, EXEC_OF_TRAINING, &data, &error), &error);
    assert_ok(exec_data_open(arena, &plan, path, 1, EXEC_HELD_OUT, &held_out, &error), &error);
    assert_int_equal(data.corpus->segment_count, 21);
    for (int64_t i = 0; i < 1010; i++) counts[0][(unsigned char)text[i]]++;
    for (int64_t at = 0; at < 21; at++) { /* an epoch, row by row; rows that were not asked for stay empty */
        exec_data_batch(arena, &data, at / 4, 0, 4, &batch);
        exec_data_batch(arena, &data, at / 4, at % 4, at % 4 + 1, &part);
        exec_data_batch(arena, &held_out, at / 4, 0, 4, &in_order);
        const int32_t *targets = batch.tokens[EXEC_DECODER_TARGET] + at % 4 * 50;
        assert_memory_equal(targets, part.tokens[EXEC_DECODER_TARGET] + at % 4 * 50, 50 * sizeof *targets);
        assert_int_equal(part.tokens[EXEC_DECODER_TARGET][(at + 1) % 4 * 50], 0);
        for (int i = 0; i < 50 && targets[i]; i++) counts[1][targets[i] == END ? '\n' : targets[i] - 3]++;
        for (int i = 0; i < 50 && at * 50 + i < 1010; i++)
            assert_int_equal(in_order.tokens[EXEC_DECODER_TARGET][at % 4 * 50 + i], token_of(text[at * 50 + i]));
    }
    assert_memory_equal(counts[0], counts[1], sizeof counts[0]);
    /* Another seed and another epoch go another way. */
    struct sim_plan other = plan_of(arena, cache, NULL, 259, NULL, "50", "4", "9");
    struct exec_data others;
    assert_ok(exec_data_open(arena, &other, path, 1, EXEC_OF_TRAINING, &others, &error), &error);
    exec_data_batch(arena, &data, 0, 0, 4, &batch);
    exec_data_batch(arena, &others, 0, 0, 4, &part);
    assert_memory_not_equal(batch.tokens[EXEC_DECODER_TARGET], part.tokens[EXEC_DECODER_TARGET], 200 * sizeof(int32_t));
    exec_data_batch(arena, &data, 21, 0, 4, &part);
    assert_memory_not_equal(batch.tokens[EXEC_DECODER_TARGET], part.tokens[EXEC_DECODER_TARGET], 200 * sizeof(int32_t));
    remove_file(arena, path);
    sim_cache_free(cache);
}

static void texts_that_cannot_be_fed_are_refused(struct base_arena *arena)
{
    static const struct {
        int vocabulary;
        const char *inputs, *targets, *text, *part;
    } rows[] = {
        {258, NULL, "8", "text", "model: has a vocabulary of 258; a text needs 259"},
        {300, "2", "8", "text", "task_feature_lengths: 2 and 8 are too short for span corruption"},
        {300, "8", "2", "text", "task_feature_lengths: 8 and 2 are too short for span corruption"},
        {259, NULL, "8", "", "corpus.txt: is empty"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct exec_data data;
        struct sim_cache *cache = sim_cache_new(arena);
        TEST_ROW("%s", rows[i].part);
        struct sim_plan plan =
            plan_of(arena, cache, NULL, rows[i].vocabulary, rows[i].inputs, rows[i].targets, "2", "0");
        const char *path = text_file(arena, rows[i].text, strlen(rows[i].text));
        assert_fails(exec_data_open(arena, &plan, path, 1, EXEC_OF_TRAINING, &data, &error), BASE_INPUT, &error,
                     rows[i].part);
        remove_file(arena, path);
        sim_cache_free(cache);
    }
}

/* ---- evaluation ---- */

static struct exec_result run_of(struct base_arena *arena, const struct sim_plan_text *text,
                                 struct exec_request request)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct base_error error;
    struct exec_result result;
    assert_ok(sim_plan_check(cache, arena, text, request.evaluates ? MODEL_STEP_EVALUATE : MODEL_STEP_TRAIN,
                             SIM_AS_EXECUTED, &plan, &error),
              &error);
    assert_ok(exec_run(arena, cache, &plan, &request, &result, &error), &error);
    sim_cache_free(cache);
    return result;
}

/* A batch a line, the same ten times; weights of 2 and targets that do not count. */
static const char *write_batches(struct base_arena *arena)
{
    struct base_text text = {.arena = arena};
    for (int line = 0; line < 120; line++)
        base_put(&text, "{\"decoder_input_tokens\": [[0,5,6,7],[0,9,8,7],[0,3,3,4],[0,1,2,0]], "
                        "\"decoder_target_tokens\": [[5,6,7,8],[9,8,7,6],[3,3,4,1],[1,2,0,0]],"
                        " \"decoder_loss_weights\": [[1,2,1,1],[1,1,1,1],[2,1,1,0],[1,1,0,0]]}\n");
    const char *path = text_file(arena, "", 0),
               *batches = base_print(arena, "%.*s.jsonl", (int)(strlen(path) - strlen(".txt")), path);
    struct base_error error;
    assert_ok(base_write_file(batches, text.data, text.length, &error), &error);
    return batches;
}

static void what_was_learnt_is_right(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh, *rules;
    } splits[] = {{"local:1", "1,1", "standard:1,1"},
                  {"local:4", "1,1", "standard:1,1"},
                  {"local:4", "1,4", "standard:1,1"},
                  {"local:4", "1,2", "standard:2,2"},
                  {"local:4", "1,1", "zero3"}};
    const char *batches = write_batches(arena),
               *folder = base_print(arena, "%.*s/run", (int)(strrchr(batches, '/') - batches), batches);
    struct sim_plan_text text = {.values = {[SIM_MODEL] = base_print(arena, DECODER, 16),
                                            [SIM_TOPOLOGY] = "local:1",
                                            [SIM_TARGETS_LENGTH] = "4",
                                            [SIM_BATCH_SIZE] = "4",
                                            [SIM_OPTIMIZER] = "adamw",
                                            [SIM_LEARNING_RATE] = "2e-2"}};
    struct exec_result fresh =
        run_of(arena, &text, (struct exec_request){.steps = 1, .data = batches, .evaluates = true});
    struct exec_result training =
        run_of(arena, &text, (struct exec_request){.steps = 120, .data = batches, .checkpoint = folder});
    assert_near(fresh.loss[0], training.loss[0], 1e-6);
    assert_true(fresh.accuracy[0] < 0.6);
    for (int i = 0; i < BASE_COUNT(splits); i++) {
        TEST_ROW("%s %s %s", splits[i].topology, splits[i].submesh, splits[i].rules);
        text.values[SIM_TOPOLOGY] = splits[i].topology, text.values[SIM_SUBMESH] = splits[i].submesh,
        text.values[SIM_RULES] = splits[i].rules;
        struct exec_result learnt = run_of(
            arena, &text, (struct exec_request){.steps = 2, .data = batches, .checkpoint = folder, .evaluates = true});
        struct exec_result before =
            run_of(arena, &text, (struct exec_request){.steps = 1, .data = batches, .evaluates = true});
        assert_int_equal(learnt.step_count, 2);
        assert_near(learnt.weight[1], 15, 0);
        /* What comes first cannot be known: the best guess has 2 of 5 right, and an entropy of 1.33. The rest has been
         * learnt. */
        assert_near(learnt.accuracy[1], 12 / 15.0, 1e-12);
        assert_true(learnt.loss[1] > 0.444 && learnt.loss[1] < 0.5 && learnt.loss[1] <= training.loss[119]);
        assert_near(before.accuracy[0], fresh.accuracy[0], 1e-9);
        assert_near(before.loss[0], fresh.loss[0], 1e-5);
    }
    assert_false(base_directory_exists(base_print(arena, "%s/checkpoint_2", folder)));
    remove_file(arena, batches);
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {
        TEST(corrupted_spans_come_back),
        TEST(decoders_read_on),
        TEST(texts_that_cannot_be_fed_are_refused),
        TEST(what_was_learnt_is_right),
    };
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
