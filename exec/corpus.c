/* A text file as T5X's tasks would feed it: ByT5's bytes (Xue et al., 2021), split into segments that are reshuffled
 * each epoch. Encoder-decoder models get span corruption (Raffel et al., 2020, as in seqio), decoder-only models the
 * next token. Row r of step K depends only on the seed, K and r. So a run can resume anywhere, and each rank makes
 * its own rows. */
#include "exec/corpus.h"

#include <math.h>
#include <string.h>

enum { END_OF_SEQUENCE = 1, FIRST_BYTE = 3, BYTE_VOCABULARY = 259 };
enum { MOST_SENTINELS = 100 /* ByT5 uses the last byte ids, which are rare in UTF-8, as sentinels */ };

static const size_t largest_text_bytes = (size_t)1 << 31;
static const double noise_density = 0.15, mean_span_length = 20; /* ByT5's */

/* ---- randomness ---- */

/* A permutation of 0 … count-1: four Feistel rounds over the next even number of bits, repeated until the result is
 * in range (Black and Rogaway, 2002). */
static int64_t shuffled(uint64_t key, int64_t at, int64_t count)
{
    int half = 1;
    while ((INT64_C(1) << (2 * half)) < count) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)at;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (base_mix(key ^ base_mix(right * 4 + round)) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)count);
    return (int64_t)x;
}

/* ---- segments ---- */

struct spans {
    int64_t noise_count, span_count;
};

static struct spans spans_of(int64_t length)
{
    double noise = round((double)length * noise_density);
    int64_t noise_count = noise < 1 ? 1 : noise > (double)(length - 1) ? length - 1 : (int64_t)noise;
    double spans = round((double)noise_count / mean_span_length);
    int64_t span_count = spans < 1 ? 1 : (int64_t)spans;
    return (struct spans){noise_count, span_count < length - noise_count ? span_count : length - noise_count};
}

/* Inputs keep the rest, targets the noise; both have a sentinel per span and the end of the sequence. */
static bool segment_fits(const struct sim_plan *plan, int64_t length)
{
    struct spans s = spans_of(length);
    return length - s.noise_count + s.span_count + 1 <= plan->inputs_length &&
           s.noise_count + s.span_count + 1 <= plan->targets_length && s.span_count <= MOST_SENTINELS;
}

static enum base_status find_segment_length(const struct sim_plan *plan, int64_t *out, struct base_error *error)
{
    int64_t length = plan->inputs_length + plan->targets_length;
    if (!plan->config->encoder) return *out = plan->targets_length, BASE_OK;
    while (length >= 2 && !segment_fits(plan, length)) length--;
    if (length < 2)
        return base_fail(error, BASE_INPUT,
                         "task_feature_lengths: %lld and %lld are too short for span corruption; use at least 4 and 4",
                         (long long)plan->inputs_length, (long long)plan->targets_length);
    *out = length;
    return BASE_OK;
}

enum base_status exec_corpus_open(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                  enum exec_examples_of examples, struct exec_corpus *out, struct base_error *error)
{
    struct exec_corpus corpus = {.plan = plan, .in_order = examples == EXEC_HELD_OUT};
    size_t length;
    if (plan->config->vocab_size < BYTE_VOCABULARY)
        return base_fail(error, BASE_INPUT,
                         "model: has a vocabulary of %lld; a text needs %d, the bytes and three special tokens, or "
                         "batches in a .jsonl",
                         (long long)plan->config->vocab_size, BYTE_VOCABULARY);
    BASE_TRY(find_segment_length(plan, &corpus.segment_length, error));
    BASE_TRY(base_read_file(arena, path, largest_text_bytes, &corpus.text, &length, error));
    if (!length) return base_fail(error, BASE_INPUT, "%s: is empty; a text is needed", path);
    corpus.length = (int64_t)length;
    corpus.segment_count = base_ceil_div(corpus.length, corpus.segment_length);
    *out = corpus;
    return BASE_OK;
}

/* A line is a document; its line feed becomes the end of the sequence. */
static int32_t token_of(const char *at)
{
    return *at == '\n' ? END_OF_SEQUENCE : (int32_t)(unsigned char)*at + FIRST_BYTE;
}

static int64_t read_segment(const struct exec_corpus *corpus, int64_t segment, int32_t *tokens)
{
    int64_t start = segment * corpus->segment_length,
            end = start + corpus->segment_length < corpus->length ? start + corpus->segment_length : corpus->length;
    for (int64_t i = start; i < end; i++) tokens[i - start] = token_of(corpus->text + i);
    return end - start;
}

/* ---- span corruption ---- */

/* Splits `total` into `count` parts of one or more; a shuffle chooses the cuts among the total-1 gaps. */
static void cut(uint64_t key, int64_t total, int64_t count, int64_t *parts)
{
    for (int64_t i = 0; i < count; i++) parts[i] = 0;
    int64_t part = 0;
    for (int64_t i = 0; i < total; i++) {
        if (i > 0 && shuffled(key, i - 1, total - 1) < count - 1) part++;
        parts[part]++;
    }
}

static int32_t sentinel(int64_t span)
{
    return (int32_t)(BYTE_VOCABULARY - 1 - span);
}

/* Alternates kept and noisy spans, kept first. A segment of one token has nothing to corrupt. */
static void corrupt(uint64_t key, const int32_t *tokens, int64_t length, int32_t *inputs, int32_t *targets)
{
    int64_t kept[MOST_SENTINELS], noisy[MOST_SENTINELS], in = 0, out = 0;
    struct spans s = length > 1 ? spans_of(length) : (struct spans){0, 0};
    if (!s.span_count) inputs[in++] = tokens[0];
    else
        cut(base_mix(key), s.noise_count, s.span_count, noisy),
            cut(base_mix(key + 1), length - s.noise_count, s.span_count, kept);
    for (int64_t span = 0; span < s.span_count; span++) {
        for (int64_t i = 0; i < kept[span]; i++) inputs[in++] = *tokens++;
        inputs[in++] = targets[out++] = sentinel(span);
        for (int64_t i = 0; i < noisy[span]; i++) targets[out++] = *tokens++;
    }
    inputs[in] = targets[out] = END_OF_SEQUENCE;
}

/* ---- rows ---- */

void exec_corpus_row(const struct exec_corpus *corpus, int64_t step, int64_t row, int32_t *scratch, int32_t *inputs,
                     int32_t *targets)
{
    const struct sim_plan *plan = corpus->plan;
    int64_t at = step * plan->batch_size + row, epoch = at / corpus->segment_count, place = at % corpus->segment_count;
    uint64_t key = base_mix(base_mix((uint64_t)plan->seed) ^ (uint64_t)epoch);
    int64_t segment = corpus->in_order ? place : shuffled(key, place, corpus->segment_count);
    memset(targets, 0, (size_t)plan->targets_length * sizeof *targets);
    if (inputs) memset(inputs, 0, (size_t)plan->inputs_length * sizeof *inputs);
    if (!inputs) read_segment(corpus, segment, targets);
    else
        corrupt(base_mix(key ^ base_mix((uint64_t)segment)), scratch, read_segment(corpus, segment, scratch), inputs,
                targets);
}
