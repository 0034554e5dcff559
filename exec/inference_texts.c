/* Inference examples from a text, one per line, as ByT5's bytes; targets follow a tab. Text beyond the plan's
 * lengths is truncated, as seqio does. Encoder inputs and targets end with the end of the sequence. A decoder's
 * inputs are its prompt, after the 0 that starts a sequence. */
#include "exec/texts.h"

#include <string.h>

enum { END_OF_SEQUENCE = 1, FIRST_BYTE = 3, BYTE_VOCABULARY = 259 };

struct line {
    const char *inputs, *targets; /* targets are NULL without a tab */
    int64_t input_count, target_count;
};

static struct line cut(const char *at, size_t length)
{
    if (length && at[length - 1] == '\r') length--;
    const char *tab = memchr(at, '\t', length);
    if (!tab) return (struct line){at, NULL, (int64_t)length, 0};
    return (struct line){at, tab + 1, tab - at, (int64_t)length - (tab - at) - 1};
}

enum ending { GOES_ON, ENDS };

/* Writes at most `room` tokens, including the end of the sequence; returns their number. */
static int64_t put_tokens(const char *bytes, int64_t count, enum ending ending, int64_t room, int32_t *out)
{
    const int64_t end = ending == ENDS, kept = count + end <= room ? count : room - end;
    for (int64_t i = 0; i < kept; i++) out[i] = (int32_t)(unsigned char)bytes[i] + FIRST_BYTE;
    if (end && room > 0) out[kept] = END_OF_SEQUENCE;
    return kept + end;
}

struct rows {
    const struct sim_plan *plan;
    int32_t *tokens[EXEC_FEATURE_COUNT];
};

/* Inputs are the targets shifted right. */
static void put_decoder(const struct rows *r, int64_t row, const struct line *line)
{
    const int64_t length = r->plan->targets_length;
    int32_t *targets = r->tokens[EXEC_DECODER_TARGET] + row * length,
            *fed = r->tokens[EXEC_DECODER_INPUT] + row * length, *weights = r->tokens[EXEC_LOSS_WEIGHTS] + row * length,
            *marks = r->tokens[EXEC_CAUSAL_ATTENTION] + row * length;
    /* leaves room for the first decoded token */
    const int64_t prompt =
        r->plan->config->encoder ? 0 : put_tokens(line->inputs, line->input_count, GOES_ON, length - 1, targets);
    const int64_t count =
        prompt +
        (line->targets ? put_tokens(line->targets, line->target_count, ENDS, length - prompt, targets + prompt) : 0);
    for (int64_t i = 0; i < length; i++) {
        fed[i] = i && i <= count ? targets[i - 1] : 0;
        weights[i] = i >= prompt && i < count;
        marks[i] = i <= prompt;
    }
}

static void put_row(const struct rows *r, int64_t row, const struct line *line)
{
    const int64_t length = r->plan->inputs_length;
    if (r->plan->config->encoder)
        put_tokens(line->inputs, line->input_count, ENDS, length, r->tokens[EXEC_ENCODER_INPUT] + row * length);
    put_decoder(r, row, line);
}

static void copy_row(const struct rows *r, int64_t to)
{
    for (int f = 0; f < EXEC_FEATURE_COUNT; f++) {
        const int64_t length = f == EXEC_ENCODER_INPUT ? r->plan->inputs_length : r->plan->targets_length;
        if (r->tokens[f]) memcpy(r->tokens[f] + to * length, r->tokens[f], (size_t)length * sizeof **r->tokens);
    }
}

static void make_batch(struct base_arena *arena, struct rows *r, struct exec_batch *out)
{
    const int64_t count = r->plan->batch_size;
    for (int f = 0; f < EXEC_FEATURE_COUNT; f++) {
        const int64_t length = f == EXEC_ENCODER_INPUT ? r->plan->inputs_length : r->plan->targets_length;
        const bool has = f != EXEC_ENCODER_INPUT || r->plan->config->encoder;
        r->tokens[f] = has ? base_new(arena, int32_t, count * length) : NULL;
        out->tokens[f] = r->tokens[f];
    }
}

/* Line feeds separate examples; a final one starts none. */
static int64_t count_examples(const char *text, const char *end)
{
    int64_t count = 0;
    for (const char *at = text; at < end; count++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return count;
}

static enum base_status check(const struct sim_plan *plan, const char *path, int64_t examples, struct base_error *error)
{
    if (plan->config->vocab_size < BYTE_VOCABULARY)
        return base_fail(error, BASE_INPUT,
                         "model: has a vocabulary of %lld; a text needs %d, the bytes and three special tokens, or "
                         "batches in a .jsonl",
                         (long long)plan->config->vocab_size, BYTE_VOCABULARY);
    if (examples) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: is empty; an example a line is needed", path);
}

static enum base_status check_targets(const struct sim_plan *plan, const struct line *line, const char *path,
                                      int64_t number, struct base_error *error)
{
    const bool needs = plan->options.step == MODEL_STEP_SCORE || plan->decoding.prompt_with_targets;
    if (line->targets || !needs) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: line %lld: has no targets; they follow a tab, as in inputs<TAB>targets",
                     path, (long long)number);
}

enum base_status exec_inference_texts(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                      const char *text, size_t length, struct exec_batch **out, int64_t *count,
                                      struct base_error *error)
{
    const char *at = text, *end = text + length;
    const int64_t examples = count_examples(text, end), each = plan->batch_size;
    BASE_TRY(check(plan, path, examples, error));
    *count = base_ceil_div(examples, each);
    *out = base_new(arena, struct exec_batch, *count);
    struct rows rows = {.plan = plan};
    for (int64_t i = 0; i < examples; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const struct line line = cut(at, (size_t)((newline ? newline : end) - at));
        struct exec_batch *batch = &(*out)[i / each];
        BASE_TRY(check_targets(plan, &line, path, i + 1, error));
        if (i % each == 0) make_batch(arena, &rows, batch);
        put_row(&rows, i % each, &line);
        batch->rows++;
        at = newline ? newline + 1 : end;
    }
    for (int64_t row = (*out)[*count - 1].rows; row < each; row++) copy_row(&rows, row);
    return BASE_OK;
}
