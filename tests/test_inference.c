/* Inference as it is run: real T5X's tokens and scores over several partitionings, decodes that depend neither on the
 * batch nor on the mesh, parts of a data set, and examples of a text. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "exec/exec.h"
#include "tests/test.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sim_plan_text read_plan(struct base_arena *arena, const char *name)
{
    struct sim_plan_text plan;
    struct base_error error;
    assert_ok(sim_plan_from_json(arena, test_read_json(arena, name), &plan, &error), &error);
    return plan;
}

static const struct split {
    const char *topology, *submesh, *rules;
} splits[] = {
    {"local:1", "1,1", "standard:1,1"}, {"local:4", "1,1", "standard:1,1"}, {"local:4", "1,4", "standard:1,1"},
    {"local:4", "1,2", "standard:2,2"}, {"local:4", "1,2", "megatron"},     {"local:2", "1,1", "zero3"},
};

static void split_plan(struct sim_plan_text *plan, const struct split *split)
{
    plan->values[SIM_TOPOLOGY] = split->topology;
    plan->values[SIM_SUBMESH] = split->submesh;
    plan->values[SIM_RULES] = split->rules;
}

static struct exec_infer_result infer(struct base_arena *arena, const struct sim_plan_text *text, enum model_step step,
                                      const struct exec_infer_request *request)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct exec_infer_result result;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, step, SIM_AS_EXECUTED, &plan, &error), &error);
    assert_ok(exec_infer(arena, cache, &plan, request, &result, &error), &error);
    sim_cache_free(cache);
    return result;
}

/* ---- against the real T5X ---- */

/* A request has T5X's words, which are those of a plan. */
static void put_request(struct base_arena *arena, const struct base_json *request, struct sim_plan_text *text)
{
    for (const struct base_json *word = request->child; word; word = word->next) {
        const int key = sim_plan_key_named(word->key);
        struct base_text value = {.arena = arena};
        if (key < SIM_DECODE_FN && key != SIM_SEED) continue;
        if (word->kind == BASE_JSON_STRING) base_put(&value, word->string);
        else if (word->kind == BASE_JSON_TRUE || word->kind == BASE_JSON_FALSE)
            base_put(&value, word->kind == BASE_JSON_TRUE ? "1" : "0");
        else if (word->kind == BASE_JSON_NUMBER) base_put_double(&value, word->number);
        else {
            base_put(&value, "");
            for (const struct base_json *item = word->child; item; item = item->next) {
                if (value.length) base_put(&value, ",");
                base_put_double(&value, item->number);
            }
        }
        text->values[key] = value.data;
    }
}

static void check_rows(const struct base_json *rows, const float *values, int64_t each)
{
    int64_t at = 0;
    for (const struct base_json *row = rows->child; row; row = row->next)
        for (const struct base_json *value = row->kind == BASE_JSON_NUMBER ? row : row->child; value;
             value = row->kind == BASE_JSON_NUMBER ? NULL : value->next, at++)
            if (fabs(value->number - (double)values[at]) > 2e-5 * fmax(1, fabs(value->number)))
                fail_msg("value %lld of rows of %lld: %g, expected %g", (long long)at, (long long)each,
                         (double)values[at], value->number);
}

static bool is_stable(const struct base_json *expected, int64_t example)
{
    const struct base_json *row = base_json_get(expected, "stable_rows")->child;
    for (int64_t i = 0; i < example; i++) row = row->next;
    return row->kind == BASE_JSON_TRUE;
}

static void check_decodes(const struct base_json *expected, const struct exec_infer_result *r)
{
    int64_t example = 0;
    for (const struct base_json *e = base_json_get(expected, "decodes")->child; e; e = e->next, example++) {
        const int32_t *tokens = r->tokens + example * r->decodes * r->length;
        for (const struct base_json *k = e->child; k && is_stable(expected, example); k = k->next)
            for (const struct base_json *token = k->child; token; token = token->next)
                assert_int_equal(*tokens++, (int)token->number);
    }
    assert_int_equal(example, r->example_count);
    check_rows(base_json_get(expected, "scores"), r->scores, r->decodes);
}

static void answers_are_those_of_t5x(struct base_arena *arena)
{
    static const char *const cases[] = {"t5_gated", "decoder_only_prefix"};
    int asked = 0;
    for (int i = 0; i < BASE_COUNT(cases) * BASE_COUNT(splits); i++) {
        const char *name = cases[i / BASE_COUNT(splits)];
        const struct split *split = &splits[i % BASE_COUNT(splits)];
        const struct base_json *document = test_read_json(arena, base_print(arena, "inference/%s/expected.json", name)),
                               *bidirectional = base_json_get(document, "inputs_bidirectional_attention");
        int number = 0;
        for (const struct base_json *r = base_json_get(document, "requests")->child; r; r = r->next) {
            struct base_arena own = {.exhausted = arena->exhausted};
            const struct base_json *words = base_json_get(r, "request"), *expected = base_json_get(r, "expected");
            const bool scores = !base_json_get(expected, "decodes");
            /* all on one device, every fourth where it is split */
            if (number++ % 4 && i % BASE_COUNT(splits) && !scores) continue;
            TEST_ROW("%s on %s, %s, %s: %s", name, split->topology, split->submesh, split->rules,
                     base_json_get(words, "name")->string);
            struct sim_plan_text text = read_plan(&own, base_print(&own, "inference/%s/plan.json", name));
            split_plan(&text, split);
            put_request(&own, words, &text);
            if (bidirectional && bidirectional->kind == BASE_JSON_TRUE)
                text.values[SIM_INPUTS_BIDIRECTIONAL_ATTENTION] = "1";
            text.values[SIM_PARAMETER_DTYPE] = "float32";
            const struct exec_infer_request request = {
                .data = base_print(&own, "tests/data/inference/%s/batches.jsonl", name),
                .restore = base_print(&own, "tests/data/inference/%s/checkpoint_0", name)};
            const struct exec_infer_result result =
                infer(&own, &text, scores ? MODEL_STEP_SCORE : MODEL_STEP_GENERATE, &request);
            if (!scores) check_decodes(expected, &result);
            else {
                check_rows(base_json_get(expected, "scores"), result.scores, 1);
                check_rows(base_json_get(expected, "token_scores"), result.token_scores, result.length);
            }
            base_arena_free(&own);
            asked++;
        }
    }
    assert_true(asked > 60);
}

/* ---- texts, parts, batches and meshes ---- */

#define TALKER                                                                                                         \
    "encoder_decoder:vocab_size=384,emb_dim=16,num_heads=4,head_dim=8,mlp_dim=32,num_encoder_layers=1,"                \
    "num_decoder_layers=2,mlp_activations=gelu+linear,logits_via_embedding=0"
#define PROMPTED                                                                                                       \
    "decoder_only:vocab_size=384,emb_dim=16,num_heads=4,head_dim=8,mlp_dim=32,num_layers=2,mlp_activations=gelu,"      \
    "logits_via_embedding=1"

#define LATENT                                                                                                         \
    "scalable_decoder_only:vocab_size=384,emb_dim=16,num_heads=4,head_dim=8,mlp_dim=32,num_layers=3,"                  \
    "mlp_activations=silu+linear,position_encoding=rotary,kv_lora_rank=8,qk_rope_head_dim=4,v_head_dim=4,"             \
    "first_dense_layers=1,num_experts=4,num_selected_experts=2,shared_expert_mlp_dim=16,attention_sinks=1"

static const char *text_file(struct base_arena *arena, const char *text)
{
    const char *path = base_print(arena, "/tmp/meshwright_inference_%ld.tsv", (long)getpid());
    struct base_error error;
    assert_ok(base_write_file(path, text, strlen(text), &error), &error);
    return path;
}

static struct sim_plan_text small_plan(const char *model, const char *batch)
{
    return (struct sim_plan_text){.values = {[SIM_MODEL] = model,
                                             [SIM_TOPOLOGY] = "local:1",
                                             [SIM_SUBMESH] = "1,1",
                                             [SIM_BATCH_SIZE] = batch,
                                             [SIM_INPUTS_LENGTH] = "8",
                                             [SIM_TARGETS_LENGTH] = "10",
                                             [SIM_PARAMETER_DTYPE] = "float32"}};
}

static const char eight_lines[] =
    "one\teins\ntwo\tzwei\nthree\tdrei\nfour\tvier\nfive\tfuenf\nsix\tsechs\nseven\tsieben\neight\tacht";

/* T5X's beam search of a decoder goes on until the shortest prompt of the batch is at the end: only prompts of one
 * length are decoded alike in every batch. */
static const char even_prompts[] = "once\ntwin\ntrio\nfour\nfive\nsize\nseen\nrate";

/* What an example decodes to depends neither on its batch nor on how the model is cut; T5X adds up in another order on
 * another mesh, so that ties could turn, and these have none. */
static void decodes_are_equal_at_every_batch_and_mesh(struct base_arena *arena)
{
    static const char *const batches[] = {"1", "2", "4", "8"},
                             *const functions[] = {"beam_search", "temperature_sample"},
                             *const models[] = {TALKER, PROMPTED, LATENT};
    for (int m = 0; m < BASE_COUNT(models) * BASE_COUNT(functions); m++) {
        const char *path = text_file(arena, m / 2 ? even_prompts : eight_lines);
        struct base_arena first = {.exhausted = arena->exhausted};
        struct exec_infer_result whole = {.batch_count = 0};
        for (int i = 0; i < BASE_COUNT(batches) * BASE_COUNT(splits); i++) {
            struct base_arena own = {.exhausted = arena->exhausted};
            const struct split *split = &splits[i % BASE_COUNT(splits)];
            struct sim_plan_text text = small_plan(models[m / 2], batches[i / BASE_COUNT(splits)]);
            const int data = split->topology[6] - '0', model = split->submesh[2] - '0';
            if (atoi(text.values[SIM_BATCH_SIZE]) % (data / model)) continue;
            TEST_ROW("%s %s, batch %s on %s, %s, %s", models[m / 2], functions[m % 2], text.values[SIM_BATCH_SIZE],
                     split->topology, split->submesh, split->rules);
            split_plan(&text, split);
            text.values[SIM_DECODE_FN] = functions[m % 2];
            text.values[SIM_NUM_DECODES] = "3";
            text.values[SIM_TEMPERATURE] = "0";
            const struct exec_infer_result r =
                infer(i ? &own : &first, &text, MODEL_STEP_GENERATE, &(struct exec_infer_request){.data = path});
            if (!i) whole = r;
            assert_int_equal(r.example_count, 8);
            for (int64_t t = 0; t < 8 * r.decodes * r.length; t++) assert_int_equal(r.tokens[t], whole.tokens[t]);
            for (int64_t s = 0; s < 8 * r.decodes; s++) assert_near((double)r.scores[s], (double)whole.scores[s], 1e-4);
            base_arena_free(&own);
        }
        base_arena_free(&first);
        unlink(path);
    }
}

/* T5X's beam search of a prompt as long as all that is decoded: its last token is forced once more, no example ends,
 * and the live beams come back with their own scores. */
static void a_prompt_that_fills_its_length_is_never_left(struct base_arena *arena)
{
    enum { LENGTH = 10, BEAMS = 2 };
    const char *path = text_file(arena, "one\tabcdefghijklmnop");
    struct sim_plan_text text = small_plan(TALKER, "1");
    text.values[SIM_DECODE_FN] = "beam_search";
    text.values[SIM_NUM_DECODES] = "2";
    text.values[SIM_PROMPT_WITH_TARGETS] = "1";
    const struct exec_infer_result r =
        infer(arena, &text, MODEL_STEP_GENERATE, &(struct exec_infer_request){.data = path});
    assert_int_equal(r.length, LENGTH);
    for (int k = 0; k < BEAMS; k++) {
        for (int t = 0; t < LENGTH - 1; t++) assert_int_equal(r.tokens[k * LENGTH + t], 3 + 'a' + t);
        assert_int_equal(r.tokens[k * LENGTH + LENGTH - 1], r.tokens[k * LENGTH + LENGTH - 2]);
    }
    assert_near((double)r.scores[0], -1e7, 0);
    assert_near((double)r.scores[1], 0, 0);
    unlink(path);
}

/* Norm scales lie in halves and are needed in quarters, on axes neither of which is part of the other: each device
 * slices its half into quarters, and these change places, as XLA does it on a mesh of 4 x 2 (nothing is gathered). */
static void pieces_change_places_where_an_axis_would_be_split(struct base_arena *arena)
{
    enum { QUARTER_BYTES = 16 / 4 * 4 }; /* of emb_dim */
    static const struct split split = {"local:8", "1,2", "standard:2,2"};
    const char *path = text_file(arena, eight_lines);
    struct sim_plan_text text = small_plan(TALKER, "8");
    const struct exec_infer_request request = {.data = path};
    const struct exec_infer_result whole = infer(arena, &text, MODEL_STEP_GENERATE, &request);
    int64_t permuted = 0;
    split_plan(&text, &split);
    const struct exec_infer_result r = infer(arena, &text, MODEL_STEP_GENERATE, &request);
    for (int i = 0; i < r.collective_count; i++) {
        const struct sim_collective_row *row = &r.collectives[i];
        if (row->where != SIM_LOOP_BODY) continue;
        if (row->kind == SIM_COLLECTIVE_PERMUTE && row->bytes == QUARTER_BYTES) permuted += row->count;
        assert_false(row->kind == SIM_ALL_GATHER && row->bytes == 2 * QUARTER_BYTES);
    }
    assert_int_equal(permuted, 7 * r.rounds[0]); /* three norms a layer, and the last one */
    for (int64_t t = 0; t < 8 * r.decodes * r.length; t++) assert_int_equal(r.tokens[t], whole.tokens[t]);
    unlink(path);
}

/* A job that goes on where another ended decodes as one that does all of it, and draws the same. */
static void parts_of_the_data_are_parts_of_the_answers(struct base_arena *arena)
{
    const char *path = text_file(arena, eight_lines);
    struct sim_plan_text text = small_plan(TALKER, "3");
    text.values[SIM_DECODE_FN] = "temperature_sample";
    text.values[SIM_TOPK] = "0";
    const struct exec_infer_result whole =
        infer(arena, &text, MODEL_STEP_GENERATE, &(struct exec_infer_request){.data = path});
    assert_int_equal(whole.batch_count, 3);
    assert_int_equal(whole.example_count, 8);
    int64_t example = 0;
    for (int64_t first = 0; first < 3; first += 2) {
        const struct exec_infer_request request = {.data = path, .first_batch = first, .batch_limit = 2};
        const struct exec_infer_result part = infer(arena, &text, MODEL_STEP_GENERATE, &request);
        assert_int_equal(part.batch_total, 3);
        for (int64_t t = 0; t < part.example_count * part.length; t++)
            assert_int_equal(part.tokens[t], whole.tokens[example * part.length + t]);
        example += part.example_count;
    }
    assert_int_equal(example, 8);
    unlink(path);
}

/* It ends with the batch that it is at: examples that were not decoded have no answers. */
static void a_stopped_run_answers_what_it_has(struct base_arena *arena)
{
    const char *path = text_file(arena, eight_lines);
    const volatile sig_atomic_t stop = SIGTERM;
    const struct sim_plan_text text = small_plan(TALKER, "3");
    const struct exec_infer_request request = {.data = path, .stop = &stop};
    const struct exec_infer_result r = infer(arena, &text, MODEL_STEP_GENERATE, &request);
    assert_true(r.stopped);
    assert_int_equal(r.batch_count, 1);
    assert_int_equal(r.example_count, 3);
    unlink(path);
}

static struct exec_batch batch_of(struct base_arena *arena, const char *model, const char *text, enum model_step step)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct exec_batch *batches;
    int64_t count;
    struct base_error error;
    const char *path = text_file(arena, text);
    const struct sim_plan_text asked = small_plan(model, "2");
    assert_ok(sim_plan_check(cache, arena, &asked, step, SIM_AS_EXECUTED, &plan, &error), &error);
    assert_ok(exec_inference_batches(arena, &plan, path, &batches, &count, &error), &error);
    assert_int_equal(count, 1);
    unlink(path);
    sim_cache_free(cache);
    return batches[0];
}

static void check_tokens(const int32_t *tokens, const int *expected, int count)
{
    for (int i = 0; i < count; i++) assert_int_equal(tokens[i], expected[i]);
}

/* Bytes and three; an encoder's inputs and the targets end with the end of the sequence; what is too long is cut. */
static void lines_become_examples(struct base_arena *arena)
{
    const struct exec_batch two = batch_of(arena, TALKER, "abc\txy\r\nabcdefghij\tz\n", MODEL_STEP_SCORE);
    assert_int_equal(two.rows, 2);
    check_tokens(two.tokens[EXEC_ENCODER_INPUT], (int[]){100, 101, 102, 1, 0, 0, 0, 0}, 8);
    check_tokens(two.tokens[EXEC_ENCODER_INPUT] + 8, (int[]){100, 101, 102, 103, 104, 105, 106, 1}, 8);
    check_tokens(two.tokens[EXEC_DECODER_TARGET], (int[]){123, 124, 1, 0, 0}, 5);
    check_tokens(two.tokens[EXEC_DECODER_INPUT], (int[]){0, 123, 124, 1, 0}, 5);
    check_tokens(two.tokens[EXEC_LOSS_WEIGHTS], (int[]){1, 1, 1, 0, 0}, 5);
    const struct exec_batch one = batch_of(arena, PROMPTED, "ab\tc", MODEL_STEP_SCORE);
    assert_int_equal(one.rows, 1);
    check_tokens(one.tokens[EXEC_DECODER_INPUT], (int[]){0, 100, 101, 102, 1, 0}, 6);
    check_tokens(one.tokens[EXEC_DECODER_TARGET], (int[]){100, 101, 102, 1, 0, 0}, 6);
    check_tokens(one.tokens[EXEC_LOSS_WEIGHTS], (int[]){0, 0, 1, 1, 0, 0}, 6);
    check_tokens(one.tokens[EXEC_CAUSAL_ATTENTION], (int[]){1, 1, 1, 0, 0, 0}, 6);
    check_tokens(one.tokens[EXEC_DECODER_INPUT] + 10, (int[]){0, 100, 101, 102, 1, 0}, 6); /* filled up */
}

static void texts_that_cannot_be_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *model, *text, *message;
        enum model_step step;
    } rows[] = {{TALKER, "", "is empty", MODEL_STEP_GENERATE},
                {TALKER, "abc\n", "line 1: has no targets", MODEL_STEP_SCORE},
                {"encoder_decoder:vocab_size=64,emb_dim=16,num_heads=4,head_dim=8,mlp_dim=32,num_encoder_layers=1,"
                 "num_decoder_layers=1",
                 "abc\n", "has a vocabulary of 64", MODEL_STEP_GENERATE}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct sim_plan_text text = small_plan(rows[i].model, "2");
        struct sim_plan plan;
        struct exec_batch *batches;
        int64_t count;
        struct base_error error;
        const char *path = text_file(arena, rows[i].text);
        TEST_ROW("%s", rows[i].message);
        assert_ok(sim_plan_check(cache, arena, &text, rows[i].step, SIM_AS_EXECUTED, &plan, &error), &error);
        assert_fails(exec_inference_batches(arena, &plan, path, &batches, &count, &error), BASE_INPUT, &error,
                     rows[i].message);
        unlink(path);
    }
    sim_cache_free(cache);
}

/* ---- checkpoints of runs ---- */

/* Written by a run, with a manifest of float32 values: restored as T5X's infer restores, rounded, and every value is
 * still checked as it was saved. */
static void checkpoints_of_runs_are_restored_in_any_dtype(struct base_arena *arena)
{
    static const char *const dtypes[] = {"float32", "bfloat16"};
    struct base_error error;
    struct exec_result trained;
    struct sim_plan plan;
    char folder[] = "/tmp/meshwright-inference-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *path = text_file(arena, eight_lines);
    struct sim_plan_text text = small_plan(TALKER, "8");
    text.values[SIM_PARAMETER_DTYPE] = NULL;
    struct sim_cache *cache = sim_cache_new(arena);
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, &error), &error);
    assert_ok(exec_run(arena, cache, &plan, &(struct exec_request){.steps = 1, .checkpoint = folder}, &trained, &error),
              &error);
    sim_cache_free(cache);
    const struct exec_infer_request request = {.data = path, .restore = folder};
    for (int i = 0; i < BASE_COUNT(dtypes) * BASE_COUNT(splits); i++) {
        const struct split *split = &splits[i % BASE_COUNT(splits)];
        TEST_ROW("%s on %s, %s, %s", dtypes[i / BASE_COUNT(splits)], split->topology, split->submesh, split->rules);
        split_plan(&text, split);
        text.values[SIM_DTYPE] = text.values[SIM_PARAMETER_DTYPE] = dtypes[i / BASE_COUNT(splits)];
        assert_int_equal(infer(arena, &text, MODEL_STEP_GENERATE, &request).example_count, 8);
    }
    const char *attention = base_print(arena, "%s/checkpoint_1/target.decoder.layers_0.self_attention", folder),
               *names[] = {"key.kernel", "aside", "value.kernel", "key.kernel", "aside", "value.kernel"};
    for (int i = 0; i < BASE_COUNT(names); i += 2)
        assert_ok(base_directory_rename(base_print(arena, "%s.%s", attention, names[i]),
                                        base_print(arena, "%s.%s", attention, names[i + 1]), &error),
                  &error);
    for (int i = 0; i < BASE_COUNT(dtypes); i++) {
        struct exec_infer_result ignored;
        TEST_ROW("swapped, %s", dtypes[i]);
        text.values[SIM_DTYPE] = text.values[SIM_PARAMETER_DTYPE] = dtypes[i];
        cache = sim_cache_new(arena);
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_GENERATE, SIM_AS_EXECUTED, &plan, &error), &error);
        assert_fails(exec_infer(arena, cache, &plan, &request, &ignored, &error), BASE_INPUT, &error,
                     "contains other values than were saved");
        sim_cache_free(cache);
    }
    base_directory_remove(arena, folder);
    unlink(path);
}

static const struct test tests[] = {
    TEST(answers_are_those_of_t5x),
    TEST(decodes_are_equal_at_every_batch_and_mesh),
    TEST(a_prompt_that_fills_its_length_is_never_left),
    TEST(pieces_change_places_where_an_axis_would_be_split),
    TEST(a_stopped_run_answers_what_it_has),
    TEST(parts_of_the_data_are_parts_of_the_answers),
    TEST(checkpoints_of_runs_are_restored_in_any_dtype),
    TEST(lines_become_examples),
    TEST(texts_that_cannot_be_are_refused),
};

int main(int argc, char **argv)
{
    return test_main(tests, BASE_COUNT(tests), argc, argv);
}
