/* Results of inference as JSON. */
#include "exec/infer_answer.h"

static void put_reals(struct base_json_writer *w, const float *values, int64_t count)
{
    base_json_open_inline(w, '[');
    for (int64_t i = 0; i < count; i++) base_json_put_double(w, (double)values[i]);
    base_json_close(w, ']');
}

static void put_tokens(struct base_json_writer *w, const struct exec_infer_result *r)
{
    base_json_member_open(w, "decodes", '[');
    for (int64_t i = 0; i < r->example_count; i++) {
        base_json_open(w, '[');
        for (int64_t k = 0; k < r->decodes; k++) {
            base_json_open_inline(w, '[');
            for (int64_t x = 0; x < r->length; x++)
                base_json_put_int(w, r->tokens[(i * r->decodes + k) * r->length + x]);
            base_json_close(w, ']');
        }
        base_json_close(w, ']');
    }
    base_json_close(w, ']');
}

/* Rows of `each` values, one per example. */
static void put_rows(struct base_json_writer *w, const char *key, const float *values, int64_t rows, int64_t each)
{
    base_json_member_open(w, key, '[');
    for (int64_t i = 0; i < rows; i++) put_reals(w, values + i * each, each);
    base_json_close(w, ']');
}

void exec_put_infer_result(struct base_json_writer *w, const struct exec_infer_result *r)
{
    int64_t rounds = 0;
    for (int64_t b = 0; b < r->batch_count; b++) rounds += r->rounds[b];
    base_json_open(w, '{');
    if (r->tokens) put_tokens(w, r);
    if (r->tokens) put_rows(w, "scores", r->scores, r->example_count, r->decodes);
    else {
        base_json_key(w, "scores");
        put_reals(w, r->scores, r->example_count);
        put_rows(w, "token_scores", r->token_scores, r->example_count, r->length);
    }
    base_json_member_bool(w, "stopped", r->stopped);
    base_json_member_doubles(w, "batch_s", r->batch_s, r->batch_count);
    base_json_member_int(w, "batch_total", r->batch_total);
    base_json_member_int(w, "decode_steps", rounds);
    base_json_member_double(w, "contraction_s", r->contraction_s);
    base_json_member_double(w, "elementwise_s", r->elementwise_s);
    base_json_member_double(w, "communication_s", r->communication_s);
    base_json_member_open(w, "memory", '{');
    base_json_put_fields(w, sim_memory_fields, SIM_MEMORY_FIELD_COUNT, &r->memory);
    base_json_member_int(w, "cache_bytes", r->memory.cache_bytes);
    base_json_close(w, '}');
    exec_put_collectives(w, r->collectives, r->collective_count, EXEC_WITH_REGIONS);
    base_json_close(w, '}');
}
