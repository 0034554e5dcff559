/* Weights in int8 as they are run: a plain quantization of the checkpoint's arrays, written here from the rule alone,
 * gives a checkpoint whose float32 answers int8's are; scales that many devices have to agree on; what stands in
 * memory. */
#define _DEFAULT_SOURCE /* mkdtemp, MAP_ANONYMOUS */
#include "exec/exec.h"
#include "exec/zarr.h"
#include "tests/sockets.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TALKER                                                                                                         \
    "%s:vocab_size=384,emb_dim=16,num_heads=4,head_dim=8,mlp_dim=32,num_encoder_layers=2,num_decoder_layers=2,"        \
    "mlp_activations=gelu+linear,logits_via_embedding=0"
#define PROMPTED                                                                                                       \
    "%s:vocab_size=384,emb_dim=16,num_heads=8,num_kv_heads=4,head_dim=8,mlp_dim=32,num_layers=2,mlp_activations=gelu," \
    "logits_via_embedding=1,biases=1,position_encoding=learned,num_positions=64"

static const char eight_lines[] =
    "one\teins\ntwo\tzwei\nthree\tdrei\nfour\tvier\nfive\tfuenf\nsix\tsechs\nseven\tsieben\neight\tacht";
static const char even_prompts[] = "once\ntwin\ntrio\nfour\nfive\nsize\nseen\nrate";

static const struct split {
    const char *topology, *submesh, *rules;
} splits[] = {
    {"local:1", "1,1", "standard:1,1"}, {"local:4", "1,1", "standard:1,1"}, {"local:4", "1,4", "standard:1,1"},
    {"local:4", "1,2", "standard:2,2"}, {"local:4", "1,2", "megatron"},     {"local:4", "1,1", "zero3"},
    {"local:4", "1,2", "standard:1,2"},
};

static struct sim_plan_text plan_of(const char *model)
{
    return (struct sim_plan_text){.values = {[SIM_MODEL] = model,
                                             [SIM_TOPOLOGY] = "local:1",
                                             [SIM_SUBMESH] = "1,1",
                                             [SIM_BATCH_SIZE] = "4",
                                             [SIM_INPUTS_LENGTH] = strstr(model, "encoder") ? "8" : NULL,
                                             [SIM_TARGETS_LENGTH] = "10"}};
}

/* ---- the rule, once more ---- */

static bool ends_with(const char *path, const char *end)
{
    const size_t length = strlen(path), tail = strlen(end);
    return length >= tail && !strcmp(path + length - tail, end);
}

/* By T5X's layouts: kernels sum over what they read and have a scale for each element that they write; tables have one
 * a row; scanned kernels [in, layers, out …], but attention's out, [heads, layers, kv, embed], sums over two. */
static bool sums_over(const char *path, int rank, int dim)
{
    if (ends_with(path, "embedding")) return dim == 1;
    return dim == 0 || (rank == 4 && dim == 2 && ends_with(path, "out.kernel"));
}

static void round_trip(struct base_arena *arena, const char *path, const struct exec_zarr *z, float *values)
{
    const int64_t count = exec_product(z->shape, z->rank);
    float *largest = base_new(arena, float, count);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < count; i++) {
            int64_t channel = 0, rest = i, stride = 1;
            for (int d = z->rank - 1; d >= 0; d--) {
                if (!sums_over(path, z->rank, d)) channel += rest % z->shape[d] * stride, stride *= z->shape[d];
                rest /= z->shape[d];
            }
            const float scale = largest[channel] / 127;
            if (pass == 0) largest[channel] = fmaxf(largest[channel], fabsf(values[i]));
            else if (scale > 0) values[i] = roundf(values[i] / scale) * scale;
        }
}

/* What is too small to be worth it, in bfloat16: nearest, ties to even. */
static void round_to_bfloat16(float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int exponent;
        const double fraction = frexp((double)values[i], &exponent); /* 8 bits of significand */
        values[i] = (float)ldexp(nearbyint(fraction * 256), exponent - 8);
    }
}

static int round_checkpoint(struct base_arena *arena, const char *folder)
{
    const char *const *names;
    struct base_error error;
    int count, rounded = 0;
    assert_ok(base_directory_list(arena, folder, &names, &count, &error), &error);
    for (int i = 0; i < count; i++) {
        const char *path = base_print(arena, "%s/%s", folder, names[i]);
        const bool is_weight = ends_with(path, "kernel") || ends_with(path, "embedder.embedding");
        const int64_t first[MODEL_MAX_RANK] = {0};
        struct exec_zarr z;
        if (strncmp(names[i], "target.", strlen("target.")) != 0) continue;
        assert_ok(exec_zarr_read(arena, path, &z, &error), &error);
        assert_memory_equal(z.shape, z.chunks, (size_t)z.rank * sizeof z.shape[0]); /* of one device: one chunk */
        const size_t bytes = (size_t)exec_product(z.shape, z.rank) * sizeof(float);
        float *values = base_alloc(arena, bytes, 1);
        assert_ok(exec_zarr_read_chunk(arena, path, &z, first, values, bytes, &error), &error);
        if (is_weight) round_trip(arena, path, &z, values);
        else round_to_bfloat16(values, exec_product(z.shape, z.rank));
        base_directory_remove(arena, path);
        assert_ok(exec_zarr_make(arena, path, &z, &error), &error);
        assert_ok(exec_zarr_write_chunk(arena, path, &z, first, values, bytes, &error), &error);
        rounded += is_weight;
    }
    unlink(base_print(arena, "%s/manifest.json", folder)); /* it tells that values are others */
    return rounded;
}

/* ---- runs ---- */

static void save_checkpoint(struct base_arena *arena, const struct sim_plan_text *text, const char *folder)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct exec_result trained;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, &error), &error);
    assert_ok(exec_run(arena, cache, &plan, &(struct exec_request){.steps = 1, .checkpoint = folder}, &trained, &error),
              &error);
    sim_cache_free(cache);
}

static enum base_status try(struct base_arena *arena, const struct sim_plan_text *text,
                            const struct exec_infer_request *request, struct exec_infer_result *out,
                            struct base_error *error)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    enum base_status status = sim_plan_check(cache, arena, text, MODEL_STEP_GENERATE, SIM_AS_EXECUTED, &plan, error);
    if (status == BASE_OK) status = exec_infer(arena, cache, &plan, request, out, error);
    sim_cache_free(cache);
    return status;
}

static struct exec_infer_result infer(struct base_arena *arena, struct sim_plan_text text, const struct split *split,
                                      const char *dtype, const char *parameters, const char *data, const char *restore)
{
    struct exec_infer_result result;
    struct base_error error;
    text.values[SIM_TOPOLOGY] = split->topology;
    text.values[SIM_SUBMESH] = split->submesh;
    text.values[SIM_RULES] = split->rules;
    text.values[SIM_DTYPE] = dtype;
    text.values[SIM_PARAMETER_DTYPE] = parameters;
    if (!text.values[SIM_NUM_DECODES]) text.values[SIM_NUM_DECODES] = "2";
    text.values[SIM_DECODE_FN] = "beam_search";
    assert_ok(try(arena, &text, &(struct exec_infer_request){.data = data, .restore = restore}, &result, &error),
              &error);
    return result;
}

static const char *text_file(struct base_arena *arena, const char *text)
{
    const char *path = base_print(arena, "/tmp/meshwright_quantized_%ld.tsv", (long)getpid());
    struct base_error error;
    assert_ok(base_write_file(path, text, strlen(text), &error), &error);
    return path;
}

static const char *const architectures[] = {TALKER, TALKER, PROMPTED, PROMPTED};
static const char *const names[] = {"encoder_decoder", "scalable_encoder_decoder", "decoder_only",
                                    "scalable_decoder_only"};

/* One row at a time: a vector times the weight's bytes, whose rows or whose columns are neighbours. */
static void check_single_rows(struct base_arena *arena, struct sim_plan_text text, const char *data, const char *folder,
                              const char *rounded)
{
    text.values[SIM_BATCH_SIZE] = text.values[SIM_NUM_DECODES] = "1";
    const struct exec_infer_result expected = infer(arena, text, &splits[0], "float32", "float32", data, rounded);
    for (int s = 0; s <= 2; s += 2) {
        TEST_ROW("a row at a time on %s, %s", splits[s].topology, splits[s].submesh);
        const struct exec_infer_result r = infer(arena, text, &splits[s], "float32", "int8", data, folder);
        for (int64_t i = 0; i < r.example_count; i++)
            assert_near((double)r.scores[i], (double)expected.scores[i], 1e-4);
        assert_memory_equal(r.tokens, expected.tokens, (size_t)(r.example_count * r.length) * sizeof *r.tokens);
    }
}

static void answers_are_those_of_rounded_weights(struct base_arena *arena)
{
    for (int m = 0; m < BASE_COUNT(names); m++) {
        struct base_arena own = {.exhausted = arena->exhausted};
        char folder[] = "/tmp/meshwright-quantized-XXXXXX", rounded[] = "/tmp/meshwright-rounded-XXXXXX";
        const char *data = text_file(&own, m < 2 ? eight_lines : even_prompts);
        char model[512];
        assert_non_null(mkdtemp(folder));
        assert_non_null(mkdtemp(rounded));
        snprintf(model, sizeof model, architectures[m], names[m]);
        const struct sim_plan_text text = plan_of(model);
        save_checkpoint(&own, &text, folder);
        save_checkpoint(&own, &text, rounded);
        assert_true(round_checkpoint(&own, base_print(&own, "%s/checkpoint_1", rounded)) >= 8);
        const struct exec_infer_result plain = infer(&own, text, &splits[0], "float32", "float32", data, folder),
                                       expected = infer(&own, text, &splits[0], "float32", "float32", data, rounded);
        const int64_t scores = expected.example_count * expected.decodes;
        double moved = 0;
        for (int64_t i = 0; i < scores; i++) moved = fmax(moved, fabs((double)(plain.scores[i] - expected.scores[i])));
        assert_true(moved > 1e-3); /* rounding is seen, so that a test that forgot it would fail */
        for (int s = 0; s < BASE_COUNT(splits); s++) {
            TEST_ROW("%s on %s, %s, %s", names[m], splits[s].topology, splits[s].submesh, splits[s].rules);
            const struct exec_infer_result r = infer(&own, text, &splits[s], "float32", "int8", data, folder);
            assert_int_equal(r.example_count, expected.example_count);
            for (int64_t i = 0; i < scores; i++) assert_near((double)r.scores[i], (double)expected.scores[i], 1e-4);
            for (int64_t t = 0; t < scores * r.length; t++) assert_int_equal(r.tokens[t], expected.tokens[t]);
        }
        check_single_rows(&own, text, data, folder, rounded);
        /* Computed in bfloat16, a weight is rounded once more; logits alone see it unrounded. */
        const struct exec_infer_result narrow = infer(&own, text, &splits[0], "bfloat16", "int8", data, folder),
                                       near = infer(&own, text, &splits[0], "bfloat16", "bfloat16", data, rounded);
        for (int64_t i = 0; i < scores; i++) assert_near((double)narrow.scores[i] / (double)near.scores[i], 1, 0.02);
        base_directory_remove(&own, folder);
        base_directory_remove(&own, rounded);
        unlink(data);
        base_arena_free(&own);
    }
}

/* Seeded values are quantized as a checkpoint's are: whoever holds which part, the scales are those of the whole. */
static void seeded_answers_are_equal_on_every_mesh(struct base_arena *arena)
{
    char model[512];
    snprintf(model, sizeof model, TALKER, "encoder_decoder");
    const char *data = text_file(arena, eight_lines);
    const struct exec_infer_result first = infer(arena, plan_of(model), &splits[0], "float32", "int8", data, NULL);
    for (int s = 1; s < BASE_COUNT(splits); s++) {
        TEST_ROW("%s, %s, %s", splits[s].topology, splits[s].submesh, splits[s].rules);
        const struct exec_infer_result r = infer(arena, plan_of(model), &splits[s], "float32", "int8", data, NULL);
        for (int64_t i = 0; i < r.example_count * r.decodes; i++)
            assert_near((double)r.scores[i], (double)first.scores[i], 1e-4);
        assert_memory_equal(r.tokens, first.tokens,
                            (size_t)(r.example_count * r.decodes * r.length) * sizeof *r.tokens);
    }
    unlink(data);
}

/* Ranks that are processes hold parts of channels: their scales, and answers, are those of one process. */
struct shared {
    const char *data, *restore;
    const struct split *split;
    float scores[64];
    int32_t tokens[1024];
};

static void infer_as_rank(const struct exec_transport *transport, void *where)
{
    struct shared *shared = where;
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    char model[512];
    struct exec_infer_result r;
    struct base_error error;
    if (setjmp(exhausted)) give_up("the arena is exhausted");
    snprintf(model, sizeof model, TALKER, "scalable_encoder_decoder");
    struct sim_plan_text text = plan_of(model);
    text.values[SIM_TOPOLOGY] = shared->split->topology;
    text.values[SIM_SUBMESH] = shared->split->submesh;
    text.values[SIM_RULES] = shared->split->rules;
    text.values[SIM_PARAMETER_DTYPE] = "int8";
    text.values[SIM_NUM_DECODES] = "2";
    text.values[SIM_DECODE_FN] = "beam_search";
    const struct exec_infer_request request = {
        .data = shared->data, .restore = shared->restore, .transport = transport};
    if (try(&arena, &text, &request, &r, &error) != BASE_OK) give_up(error.text);
    if (transport->rank == 0) {
        memcpy(shared->scores, r.scores, (size_t)(r.example_count * r.decodes) * sizeof *r.scores);
        memcpy(shared->tokens, r.tokens, (size_t)(r.example_count * r.decodes * r.length) * sizeof *r.tokens);
    }
    base_arena_free(&arena);
}

static void ranks_agree_on_scales(struct base_arena *arena)
{
    char folder[] = "/tmp/meshwright-quantized-XXXXXX", model[512];
    struct shared *shared = shared_memory(sizeof *shared);
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, TALKER, "scalable_encoder_decoder");
    const struct sim_plan_text text = plan_of(model);
    save_checkpoint(arena, &text, folder);
    shared->data = text_file(arena, eight_lines);
    for (int round = 0; round < 2 * (BASE_COUNT(splits) - 1); round++) {
        shared->split = &splits[1 + round / 2];
        shared->restore = round % 2 ? folder : NULL;
        TEST_ROW("%s, %s, %s, %s", shared->split->topology, shared->split->submesh, shared->split->rules,
                 shared->restore ? "restored" : "seeded");
        const struct exec_infer_result whole =
            infer(arena, text, shared->split, "float32", "int8", shared->data, shared->restore);
        assert_int_equal(run_ranks(4, infer_as_rank, shared), 0);
        for (int64_t i = 0; i < whole.example_count * whole.decodes; i++)
            assert_near((double)shared->scores[i], (double)whole.scores[i], 1e-4);
        assert_memory_equal(shared->tokens, whole.tokens,
                            (size_t)(whole.example_count * whole.decodes * whole.length) * sizeof *whole.tokens);
    }
    base_directory_remove(arena, folder);
    unlink(shared->data);
}

/* An element a byte, a scale for what a kernel writes and a token has, bfloat16 for what is small: counted by hand. */
static void bytes_are_what_is_predicted(struct base_arena *arena)
{
    enum { EMBED = 16, JOINED = 4 * 8, MLP = 32, VOCAB = 384, LAYERS = 2 };
    const int64_t attention = 4 * EMBED * JOINED, mlp = 3 * EMBED * MLP,
                  elements = LAYERS * (3 * attention + 2 * mlp) + 2 * VOCAB * EMBED,
                  scales = LAYERS * (3 * (3 * JOINED + EMBED) + 2 * (2 * MLP + EMBED)) + 2 * VOCAB,
                  norms = LAYERS * (2 + 3) + 2, norm_bytes = 64 /* 16 of bfloat16, aligned */, positions = 2 * 4 * 32;
    char model[512];
    snprintf(model, sizeof model, TALKER, "encoder_decoder");
    const char *data = text_file(arena, eight_lines);
    struct sim_cache *cache = sim_cache_new(arena);
    for (int s = 0; s < BASE_COUNT(splits); s++) {
        struct sim_plan_text text = plan_of(model);
        struct sim_plan plan;
        struct sim_prediction predicted;
        struct base_error error;
        TEST_ROW("%s, %s, %s", splits[s].topology, splits[s].submesh, splits[s].rules);
        const struct exec_infer_result r = infer(arena, text, &splits[s], "float32", "int8", data, NULL);
        text.values[SIM_TOPOLOGY] = splits[s].topology, text.values[SIM_SUBMESH] = splits[s].submesh;
        text.values[SIM_RULES] = splits[s].rules, text.values[SIM_DTYPE] = "float32";
        text.values[SIM_PARAMETER_DTYPE] = "int8", text.values[SIM_NUM_DECODES] = "2";
        text.values[SIM_DECODE_FN] = "beam_search";
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_GENERATE, SIM_AS_EXECUTED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &predicted, NULL, &error), &error);
        assert_int_equal(predicted.memory.peak_bytes, r.memory.peak_bytes);
        assert_int_equal(predicted.memory.parameter_bytes, r.memory.parameter_bytes);
        if (s == 0)
            assert_int_equal(r.memory.parameter_bytes, elements + 4 * scales + norms * norm_bytes + 2 * positions);
    }
    sim_cache_free(cache);
    unlink(data);
}

/* Bytes are widened to tiles in scratch, which the map has to reserve: the executor asserts that it did. */
static void products_of_bytes_have_their_scratch(struct base_arena *arena)
{
    static const char wide[] =
        "decoder_only:vocab_size=384,emb_dim=256,num_heads=4,head_dim=64,mlp_dim=1024,num_layers=1";
    const char *data = text_file(arena, even_prompts);
    const struct exec_infer_result plain = infer(arena, plan_of(wide), &splits[0], "float32", "float32", data, NULL),
                                   bytes = infer(arena, plan_of(wide), &splits[0], "float32", "int8", data, NULL);
    assert_true(bytes.memory.temporary_bytes > plain.memory.temporary_bytes);
    unlink(data);
}

static void what_is_not_finite_is_refused(struct base_arena *arena)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const int64_t first[MODEL_MAX_RANK] = {0};
    char folder[] = "/tmp/meshwright-quantized-XXXXXX", model[512];
    struct base_error error;
    struct exec_zarr z;
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, TALKER, "encoder_decoder");
    struct sim_plan_text text = plan_of(model);
    save_checkpoint(arena, &text, folder);
    const char *data = text_file(arena, eight_lines),
               *path = base_print(arena, "%s/checkpoint_1/target.decoder.layers_1.mlp.wo.kernel", folder);
    unlink(base_print(arena, "%s/checkpoint_1/manifest.json", folder));
    assert_ok(exec_zarr_read(arena, path, &z, &error), &error);
    float *values = base_new(arena, float, exec_product(z.shape, z.rank));
    text.values[SIM_PARAMETER_DTYPE] = "int8";
    for (int i = 0; i < BASE_COUNT(bad); i++) {
        struct exec_infer_result ignored;
        values[17] = bad[i];
        base_directory_remove(arena, path);
        assert_ok(exec_zarr_make(arena, path, &z, &error), &error);
        assert_ok(exec_zarr_write_chunk(arena, path, &z, first, values,
                                        (size_t)exec_product(z.shape, z.rank) * sizeof *values, &error),
                  &error);
        assert_fails(try(arena, &text, &(struct exec_infer_request){.data = data, .restore = folder}, &ignored, &error),
                     BASE_INPUT, &error, "target.decoder.layers_1.mlp.wo.kernel: has a value that is not finite");
    }
    base_directory_remove(arena, folder);
    unlink(data);
}

static const struct test tests[] = {
    TEST(seeded_answers_are_equal_on_every_mesh),
    TEST(ranks_agree_on_scales),
    TEST(bytes_are_what_is_predicted),
    TEST(products_of_bytes_have_their_scratch),
    TEST(what_is_not_finite_is_refused),
    TEST(answers_are_those_of_rounded_weights),
};

int main(int argc, char **argv)
{
    return test_main(tests, BASE_COUNT(tests), argc, argv);
}
