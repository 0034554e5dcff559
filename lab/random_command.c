/* `random`: the generator that sampling uses, JAX's Threefry, looked at by itself. */
#include "lab/lab.h"

#include <string.h>

enum { MOST_RANK = 6, MOST_NUMBERS = 1 << 22 };
enum what { SPLIT, BITS, GUMBEL, WHAT_COUNT };
static const char *const whats[WHAT_COUNT] = {"split", "bits", "gumbel"};

struct question {
    enum what what;
    struct base_key key;
    int rank;
    int64_t count, shape[MOST_RANK];
};

static enum base_status read_key(const struct base_arguments *arguments, struct base_key *out, struct base_error *error)
{
    const char *key = base_argument(arguments, "--key"), *seed = base_argument(arguments, "--seed");
    int64_t words[2], number;
    int count;
    if (!key == !seed)
        return base_fail(error, BASE_USAGE, "the key is missing; use one of --key A,B and --seed N, such as --seed 0");
    if (seed) {
        BASE_TRY(base_parse_int(seed, "--seed", INT64_MIN, INT64_MAX, &number, error));
        *out = base_key_of_seed(number);
        return BASE_OK;
    }
    BASE_TRY(base_parse_ints(key, "--key", 0, UINT32_MAX, 2, words, &count, error));
    if (count != 2) return base_fail(error, BASE_INPUT, "--key: \"%.40s\" is one word; a key has two: 0,7", key);
    *out = (struct base_key){{(uint32_t)words[0], (uint32_t)words[1]}};
    return BASE_OK;
}

static enum base_status read_shape(const char *text, struct question *q, struct base_error *error)
{
    if (!text) text = "1";
    BASE_TRY(base_parse_ints(text, "--shape", 1, MOST_NUMBERS, MOST_RANK, q->shape, &q->rank, error));
    q->count = 1;
    for (int i = 0; i < q->rank; i++) {
        q->count *= q->shape[i];
        if (q->count > MOST_NUMBERS)
            return base_fail(error, BASE_INPUT, "--shape: \"%.40s\" is more than %d numbers; use a smaller one", text,
                             MOST_NUMBERS);
    }
    return BASE_OK;
}

static enum base_status ask(const struct base_arguments *arguments, struct question *q, struct base_error *error)
{
    const char *count = base_argument(arguments, "--count"), *shape = base_argument(arguments, "--shape");
    int what;
    if (arguments->positional_count == 0)
        return base_fail(error, BASE_USAGE, "the function is missing; use split, bits or gumbel");
    if (base_parse_word(arguments->positional[0], "random", whats, WHAT_COUNT, &what, error) != BASE_OK)
        return error->status = BASE_USAGE;
    q->what = (enum what)what;
    BASE_TRY(read_key(arguments, &q->key, error));
    if (q->what == GUMBEL && count)
        return base_fail(error, BASE_USAGE, "--count: noise has a shape; use --shape %.40s", count);
    if (q->what != GUMBEL && shape)
        return base_fail(error, BASE_USAGE, "--shape: %s has a number; use --count 4", whats[q->what]);
    if (q->what == GUMBEL) return read_shape(shape, q, error);
    q->count = q->what == SPLIT ? 2 : 1;
    return count ? base_parse_int(count, "--count", 1, MOST_NUMBERS, &q->count, error) : BASE_OK;
}

/* ---- the answer ---- */

static void put_keys(const struct question *q, struct base_json_writer *w)
{
    base_json_member_open(w, "keys", '[');
    for (int64_t i = 0; i < q->count; i++) {
        struct base_key key = base_key_split(&q->key, q->count, i);
        base_json_open_inline(w, '[');
        for (int word = 0; word < 2; word++) base_json_put_int(w, key.words[word]);
        base_json_close(w, ']');
    }
    base_json_close(w, ']');
}

static void put_bits(const struct question *q, struct base_json_writer *w)
{
    base_json_member_open_inline(w, "bits", '[');
    for (int64_t i = 0; i < q->count; i++) base_json_put_int(w, base_key_bits(&q->key, q->count, i));
    base_json_close(w, ']');
}

/* Lists in lists, the last dimension innermost. */
static void put_noise(const struct question *q, int dimension, int64_t *at, struct base_json_writer *w)
{
    bool last = dimension == q->rank - 1;
    if (last) base_json_open_inline(w, '[');
    else base_json_open(w, '[');
    for (int64_t i = 0; i < q->shape[dimension]; i++) {
        if (last) base_json_put_double(w, (double)base_gumbel(base_key_bits(&q->key, q->count, (*at)++)));
        else put_noise(q, dimension + 1, at, w);
    }
    base_json_close(w, ']');
}

static void answer_json(const struct question *q, struct base_json_writer *w)
{
    int64_t at = 0;
    base_json_open(w, '{');
    if (q->what == SPLIT) put_keys(q, w);
    else if (q->what == BITS) put_bits(q, w);
    else {
        base_json_key(w, "values");
        put_noise(q, 0, &at, w);
    }
    base_json_close(w, '}');
}

static void answer_text(const struct question *q, struct base_text *out)
{
    base_putf(out, "%s of key %u,%u\n", whats[q->what], q->key.words[0], q->key.words[1]);
    for (int64_t i = 0; i < q->count; i++) {
        struct base_key key = q->what == SPLIT ? base_key_split(&q->key, q->count, i) : q->key;
        uint32_t bits = base_key_bits(&q->key, q->count, i);
        if (q->what == SPLIT) base_putf(out, "  %u,%u\n", key.words[0], key.words[1]);
        else if (q->what == BITS) base_putf(out, "  %u\n", bits);
        else base_putf(out, "  %.9g\n", (double)base_gumbel(bits));
    }
}

enum base_status lab_random_run(struct commands_context *context, const struct base_arguments *arguments,
                                struct base_text *out, struct base_error *error)
{
    struct question q = {.count = 0};
    BASE_TRY(ask(arguments, &q, error));
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) answer_json(&q, &writer);
    else answer_text(&q, out);
    return BASE_OK;
}
