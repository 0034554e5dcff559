/* The input of a step: batches from a file with one JSON object per line, rows of a text, or seeded random tokens. */
#include "exec/corpus.h"
#include "exec/texts.h"

#include <inttypes.h>
#include <string.h>

const char *const exec_feature_names[EXEC_FEATURE_COUNT] = {"encoder_input_tokens", "decoder_input_tokens",
                                                            "decoder_target_tokens", "decoder_loss_weights",
                                                            "decoder_causal_attention"};

static const size_t largest_file_bytes = (size_t)1 << 31;

static bool has_feature(const struct sim_plan *plan, int feature)
{
    if (feature == EXEC_CAUSAL_ATTENTION) return model_infers(plan->options.step) && !plan->config->encoder;
    return feature != EXEC_ENCODER_INPUT || plan->config->encoder;
}

/* Inference reads only what it uses: an encoder or a prompt needs no targets. */
static bool needs_feature(const struct sim_plan *plan, int feature)
{
    const bool scores = plan->options.step == MODEL_STEP_SCORE, encoder = plan->config->encoder;
    if (!model_infers(plan->options.step)) return has_feature(plan, feature);
    switch (feature) {
    case EXEC_ENCODER_INPUT: return encoder;
    case EXEC_DECODER_INPUT: return scores || !encoder || plan->decoding.prompt_with_targets;
    case EXEC_CAUSAL_ATTENTION: return !encoder && (!scores || plan->decoding.inputs_bidirectional_attention);
    default: return scores;
    }
}

static int64_t length_of(const struct sim_plan *plan, int feature)
{
    return feature == EXEC_ENCODER_INPUT ? plan->inputs_length : plan->targets_length;
}

/* ---- a file ---- */

static enum base_status read_row(const struct base_json *row, int64_t length, int64_t limit, const char *what,
                                 int32_t *out, struct base_error *error)
{
    if (row->kind != BASE_JSON_ARRAY)
        return base_fail(error, BASE_INPUT, "%s: is %s; a list of %lld tokens is needed", what,
                         base_json_kind_name(row->kind), (long long)length);
    if (row->count != length)
        return base_fail(error, BASE_INPUT, "%s: has %d tokens, but the plan's task_feature_lengths have %lld", what,
                         row->count, (long long)length);
    for (const struct base_json *token = row->child; token; token = token->next) {
        int64_t value;
        BASE_TRY(base_json_int(token, what, 0, limit, &value, error));
        *out++ = (int32_t)value;
    }
    return BASE_OK;
}

static enum base_status read_feature(struct base_arena *arena, const struct sim_plan *plan,
                                     const struct base_json *rows, int feature, const int32_t **out,
                                     struct base_error *error)
{
    enum { LARGEST_WEIGHT = 1 << 24 };
    const char *name = exec_feature_names[feature];
    int64_t length = length_of(plan, feature), limit = feature == EXEC_LOSS_WEIGHTS ? LARGEST_WEIGHT
                                                       : feature == EXEC_CAUSAL_ATTENTION
                                                           ? 1
                                                           : plan->config->vocab_size - 1;
    const bool fills = model_infers(plan->options.step) && rows->count > 0 && rows->count < plan->batch_size;
    if (rows->kind != BASE_JSON_ARRAY)
        return base_fail(error, BASE_INPUT, "%s: is %s; a list of %lld sequences is needed", name,
                         base_json_kind_name(rows->kind), (long long)plan->batch_size);
    if (rows->count != plan->batch_size && !fills)
        return base_fail(error, BASE_INPUT, "%s: has %d sequences, but the plan's batch_size is %lld", name,
                         rows->count, (long long)plan->batch_size);
    int32_t *tokens = base_new(arena, int32_t, plan->batch_size * length);
    int64_t at = 0;
    for (const struct base_json *row = rows->child; row; row = row->next, at++) {
        char what[80];
        snprintf(what, sizeof what, "%s[%lld]", name, (long long)at);
        BASE_TRY(read_row(row, length, limit, what, tokens + at * length, error));
    }
    for (; at < plan->batch_size; at++) memcpy(tokens + at * length, tokens, (size_t)length * sizeof *tokens);
    *out = tokens;
    return BASE_OK;
}

static int feature_named(const char *name)
{
    int feature = 0;
    while (feature < EXEC_FEATURE_COUNT && strcmp(exec_feature_names[feature], name) != 0) feature++;
    return feature;
}

static enum base_status read_batch(struct base_arena *arena, const struct sim_plan *plan,
                                   const struct base_json *document, struct exec_batch *out, struct base_error *error)
{
    if (document->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT, "is %s; a batch is an object of features",
                         base_json_kind_name(document->kind));
    for (const struct base_json *member = document->child; member; member = member->next) {
        int feature = feature_named(member->key);
        if (feature == EXEC_FEATURE_COUNT || !has_feature(plan, feature))
            return base_fail(error, BASE_INPUT, "%.60s: is no feature of %s", member->key, plan->config->name);
        BASE_TRY(read_feature(arena, plan, member, feature, &out->tokens[feature], error));
        if (out->rows && out->rows != member->count)
            return base_fail(error, BASE_INPUT, "%.60s: has %d sequences, and another feature has %lld", member->key,
                             member->count, (long long)out->rows);
        out->rows = member->count;
    }
    for (int feature = 0; feature < EXEC_FEATURE_COUNT; feature++)
        if (needs_feature(plan, feature) && !out->tokens[feature])
            return base_fail(error, BASE_INPUT, "%s: is missing", exec_feature_names[feature]);
    return BASE_OK;
}

static size_t line_length(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return (size_t)((newline ? newline : end) - at);
}

static int64_t count_lines(const char *text, const char *end)
{
    int64_t count = 0;
    for (const char *at = text; at < end; at += line_length(at, end) + 1) count++;
    return count;
}

/* A line's parsed tree is much larger than its tokens, so it has its own arena. */
static enum base_status read_line(struct base_arena *arena, struct base_arena *scratch, const struct sim_plan *plan,
                                  const char *line, size_t length, struct exec_batch *out, struct base_error *error)
{
    const struct base_json *document;
    base_arena_reset(scratch);
    const char *text = base_copy_bytes(scratch, line, length);
    BASE_TRY(base_json_parse(scratch, text, length, &document, error));
    return read_batch(arena, plan, document, out, error);
}

static enum base_status read_lines(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                   const char *text, size_t length, int64_t count, struct exec_batch *batches,
                                   struct base_error *error)
{
    const char *at = text, *end = text + length;
    struct base_arena scratch = {.exhausted = arena->exhausted};
    enum base_status status = BASE_OK;
    for (int64_t i = 0; i < count && status == BASE_OK; i++) {
        size_t line = line_length(at, end);
        status = read_line(arena, &scratch, plan, at, line, &batches[i], error);
        if (status != BASE_OK) base_fail_in(error, "%s: line %lld", path, (long long)i + 1);
        at += line + 1;
    }
    base_arena_free(&scratch);
    return status;
}

static const char *content_of(struct base_arena *arena, const char *kind, const char *bytes, size_t length)
{
    return base_print(arena, "%s of %zu bytes, checksum %016" PRIx64, kind, length,
                      base_hash(BASE_HASH_START, bytes, length));
}

static enum base_status read_file(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                  int64_t count, struct exec_data *out, struct base_error *error)
{
    const char *text;
    size_t length;
    BASE_TRY(base_read_file(arena, path, largest_file_bytes, &text, &length, error));
    int64_t lines = count_lines(text, text + length);
    if (lines < count)
        return base_fail(error, BASE_INPUT,
                         "%s: has %lld batches, and %lld steps need one each; use more lines or fewer --steps", path,
                         (long long)lines, (long long)count);
    struct exec_batch *batches = base_new(arena, struct exec_batch, count);
    BASE_TRY(read_lines(arena, plan, path, text, length, count, batches, error));
    out->batches = batches;
    out->content = content_of(arena, "batches", text, length);
    return BASE_OK;
}

enum base_status exec_inference_batches(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                        struct exec_batch **out, int64_t *count, struct base_error *error)
{
    const char *text;
    size_t length;
    BASE_TRY(base_read_file(arena, path, largest_file_bytes, &text, &length, error));
    if (!base_ends_in(path, ".jsonl")) return exec_inference_texts(arena, plan, path, text, length, out, count, error);
    const int64_t lines = count_lines(text, text + length);
    if (!lines) return base_fail(error, BASE_INPUT, "%s: has no batch; one JSON object a line is needed", path);
    struct exec_batch *batches = base_new(arena, struct exec_batch, lines);
    BASE_TRY(read_lines(arena, plan, path, text, length, lines, batches, error));
    for (int64_t i = 0; i + 1 < lines; i++)
        if (batches[i].rows != plan->batch_size)
            return base_fail(error, BASE_INPUT, "%s: line %lld: has %lld sequences; only the last batch may have fewer",
                             path, (long long)i + 1, (long long)batches[i].rows);
    *out = batches;
    *count = lines;
    return BASE_OK;
}

/* ---- random tokens ---- */

static void random_tokens(const struct sim_plan *plan, struct base_random *random, int64_t count, int32_t *tokens)
{
    int64_t vocab = plan->config->vocab_size;
    for (int64_t i = 0; i < count; i++)
        tokens[i] = vocab > 1 ? (int32_t)(1 + base_random_below(random, vocab - 1)) : 0; /* 0 is padding */
}

static void random_batch(const struct exec_data *data, int64_t step, int32_t *inputs, int32_t *targets)
{
    struct base_random random;
    const struct sim_plan *plan = data->plan;
    uint64_t other = data->held_out ? UINT64_C(1) << 63 : 0; /* beyond the steps of any run */
    base_random_seed(&random, (uint64_t)plan->seed * 0x9e3779b97f4a7c15ULL + ((uint64_t)step | other));
    if (inputs) random_tokens(plan, &random, plan->batch_size * plan->inputs_length, inputs);
    random_tokens(plan, &random, plan->batch_size * plan->targets_length, targets);
}

/* ---- batches ---- */

enum base_status exec_data_open(struct base_arena *arena, const struct sim_plan *plan, const char *path, int64_t count,
                                enum exec_examples_of examples, struct exec_data *out, struct base_error *error)
{
    struct exec_data data = {.plan = plan, .held_out = examples == EXEC_HELD_OUT, .content = "seeded random tokens"};
    if (path && base_ends_in(path, ".jsonl")) BASE_TRY(read_file(arena, plan, path, count, &data, error));
    else if (path) {
        data.corpus = base_new(arena, struct exec_corpus, 1);
        BASE_TRY(exec_corpus_open(arena, plan, path, examples, data.corpus, error));
        data.content = content_of(arena, "text", data.corpus->text, (size_t)data.corpus->length);
    }
    *out = data;
    return BASE_OK;
}

void exec_data_batch(struct base_arena *arena, const struct exec_data *data, int64_t step, int64_t first_row,
                     int64_t end_row, struct exec_batch *out)
{
    const struct sim_plan *plan = data->plan;
    int64_t length = plan->targets_length, count = plan->batch_size * length;
    if (data->batches) {
        *out = data->batches[step];
        return;
    }
    int32_t *encoder = plan->config->encoder ? base_new(arena, int32_t, plan->batch_size * plan->inputs_length) : NULL;
    int32_t *targets = base_new(arena, int32_t, count), *inputs = base_new(arena, int32_t, count),
            *weights = base_new(arena, int32_t, count);
    int32_t *scratch = data->corpus ? base_new(arena, int32_t, data->corpus->segment_length) : NULL;
    if (!data->corpus) random_batch(data, step, encoder, targets);
    for (int64_t row = first_row; row < end_row && data->corpus; row++)
        exec_corpus_row(data->corpus, step, row, scratch, encoder ? encoder + row * plan->inputs_length : NULL,
                        targets + row * length);
    for (int64_t i = 0; i < count; i++) {
        inputs[i] = i % length ? targets[i - 1] : 0; /* shifted right; the first token starts the sequence */
        weights[i] = targets[i] != 0;
    }
    *out = (struct exec_batch){.rows = plan->batch_size,
                               .tokens = {[EXEC_ENCODER_INPUT] = encoder,
                                          [EXEC_DECODER_INPUT] = inputs,
                                          [EXEC_DECODER_TARGET] = targets,
                                          [EXEC_LOSS_WEIGHTS] = weights}};
}
