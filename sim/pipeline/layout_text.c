/* Megatron-LM's --pipeline-model-parallel-layout: the parts of each stage chunk, in the order in which microbatches
 * pass them. E is the embedding, t a layer, m a multi-token prediction layer, L the loss. | ends a stage chunk;
 * (tt|)*30 repeats. There are two forms in words: "even", and "even over 126+2 slots", where embedding and loss count
 * as layers. A remark may follow. */
#include "sim/pipeline/pipeline.h"

#include <string.h>

enum { LONGEST = 1 << 14, DEEPEST = 8 };

struct reader {
    const char *at;
    char *expanded;
    int length;
};

static enum base_status refuse(const char *why, struct base_error *error)
{
    return base_fail(error, BASE_INPUT,
                     "pipeline_layout: %s; as in Et|(tt|)*30mL, with E, t, m, L and | alone, or even", why);
}

/* Repeats the text from `begin` on. The count is the total number of copies. */
static enum base_status repeat(struct reader *r, int begin, struct base_error *error)
{
    const int length = r->length - begin;
    int64_t times = 0;
    if (*r->at != '*') return BASE_OK;
    for (r->at++; *r->at >= '0' && *r->at <= '9' && times < LONGEST; r->at++) times = 10 * times + (*r->at - '0');
    if (times < 1 || times * length > LONGEST - begin) return refuse("a number of repetitions cannot be", error);
    for (int64_t i = 1; i < times; i++) {
        memcpy(r->expanded + r->length, r->expanded + begin, (size_t)length);
        r->length += length;
    }
    return BASE_OK;
}

static enum base_status expand(struct reader *r, int depth, struct base_error *error)
{
    while (*r->at && *r->at != ')') {
        const int begin = r->length;
        const char one = *r->at++;
        if (one == '(') {
            if (depth == DEEPEST) return refuse("brackets are nested too deeply", error);
            BASE_TRY(expand(r, depth + 1, error));
            if (*r->at++ != ')') return refuse("a bracket is not closed", error);
        } else if (one == ',') continue;
        else if (!strchr("EtmL|", one)) return refuse("a letter is unknown", error);
        else if (r->length == LONGEST) return refuse("is too long", error);
        else r->expanded[r->length++] = one;
        BASE_TRY(repeat(r, begin, error));
    }
    return *r->at && !depth ? refuse("a bracket was not opened", error) : BASE_OK;
}

/* The embedding must come first and the loss last. Multi-token prediction layers share the loss's stage chunk. */
static bool is_in_order(const char *text)
{
    const char *behind = strrchr(text, '|');
    return text[0] == 'E' && strchr(text + 1, 'E') == NULL && strchr(text, 'L') == text + strlen(text) - 1 &&
           (!strchr(text, 'm') || !behind || strchr(text, 'm') > behind);
}

static enum base_status count_layers(const char *text, int64_t stage_chunk_count, int64_t layers, int64_t mtp_layers,
                                     int64_t *counts, struct base_error *error)
{
    int64_t stage_chunk = 0, sum = 0, predicted = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '|' && ++stage_chunk == stage_chunk_count) break;
        if (*at != 't' && *at != 'm') continue;
        counts[stage_chunk]++, sum += *at == 't', predicted += *at == 'm';
    }
    if (stage_chunk + 1 == stage_chunk_count && sum == layers && predicted == mtp_layers) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "pipeline_layout: has %lld%s chunks of %lld layers and %lld of multi-token prediction; stages "
                     "times virtual_stages are %lld, layers %lld, mtp_layers %lld",
                     (long long)stage_chunk + 1, stage_chunk == stage_chunk_count ? " or more" : "", (long long)sum,
                     (long long)predicted, (long long)stage_chunk_count, (long long)layers, (long long)mtp_layers);
}

enum base_status sim_layout_read(struct base_arena *arena, const char *text, int64_t layers, int64_t mtp_layers,
                                 struct sim_pipeline *pipeline, struct base_error *error)
{
    static const char even[] = "even", one[] = "one stage", over[] = "even over ";
    const int64_t stage_chunk_count = pipeline->stages * pipeline->chunks;
    struct reader r = {text, base_new(arena, char, LONGEST + 1), 0};
    if (!strncmp(text, over, sizeof over - 1)) {
        pipeline->partition = SIM_BY_LAYERS_AND_EMBEDDINGS;
        return BASE_OK;
    }
    if (!strncmp(text, even, sizeof even - 1) || (stage_chunk_count == 1 && !strncmp(text, one, sizeof one - 1)))
        return BASE_OK;
    BASE_TRY(expand(&r, 0, error));
    if (r.length < 2 || !is_in_order(r.expanded)) return refuse("begins with E, ends with mL or L", error);
    if (stage_chunk_count > SIM_MOST_STAGE_CHUNKS) return refuse("too many chunks", error);
    int64_t *counts = base_new(arena, int64_t, (int)stage_chunk_count);
    BASE_TRY(count_layers(r.expanded, stage_chunk_count, layers, mtp_layers, counts, error));
    pipeline->layers = stage_chunk_count > 1 ? counts : NULL;
    return BASE_OK;
}
