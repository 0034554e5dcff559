/* Inference with an answer in chunks, files of their own in the output directory: existing ones are checked, the
 * executor computes the others, and all are joined. */
#include "commands/infer_chunks.h"

#include "exec/exec.h"

#include <string.h>

enum { MOST_CHUNKS = 100000, LARGEST_CHUNK_BYTES = 1 << 30 };

/* A file may be damaged, or foreign: numbers read back must be such as the executor writes. */
static bool is_sound(const struct base_json *result)
{
    const double steps = base_json_number(result, "decode_steps"), total = base_json_number(result, "batch_total");
    const struct base_json *rows = base_json_get(result, "collectives");
    bool sound = total >= 1 && total < INT32_MAX && steps >= 0 && steps < INT32_MAX;
    for (const struct base_json *row = rows ? rows->child : NULL; row && sound; row = row->next) {
        const double kind = base_json_number(row, "kind"), dtype = base_json_number(row, "dtype"),
                     axes = base_json_number(row, "axes");
        sound = kind >= 0 && kind < SIM_COLLECTIVE_COUNT && dtype >= 0 && dtype <= MODEL_UINT32 && axes >= 0 &&
                axes <= SIM_ALL_AXES;
    }
    return sound;
}

static enum base_status read_chunk(struct commands_context *context, const struct commands_chunks *chunks,
                                   const char *path, const struct base_json **out, struct base_error *error)
{
    const struct base_json *document;
    BASE_TRY(base_json_read_file(context->arena, path, LARGEST_CHUNK_BYTES, &document, error));
    const struct base_json *period = base_json_get(document, "period"), *result = base_json_get(document, "result");
    const bool same = !strcmp(base_json_string(document, "identity", ""), chunks->identity) && period &&
                      base_json_number(document, "period") == (double)chunks->period;
    if (!same || !result || result->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT,
                         "%s: is a chunk of another plan, mode, data, checkpoint or period; use a directory of its own",
                         path);
    if (!is_sound(result))
        return base_fail(error, BASE_INPUT, "%s: is damaged; delete it, and the next run writes it again", path);
    *out = result;
    return BASE_OK;
}

/* ---- all of them as one ---- */

static void join_lists(struct base_json_writer *w, const struct base_json *const *parts, int count, const char *key)
{
    if (!base_json_get(parts[0], key)) return;
    base_json_member_open_inline(w, key, '[');
    for (int i = 0; i < count; i++) {
        const struct base_json *list = base_json_get(parts[i], key);
        for (const struct base_json *item = list ? list->child : NULL; item; item = item->next)
            base_json_put_value(w, item);
    }
    base_json_close(w, ']');
}

static void join_sums(struct base_json_writer *w, const struct base_json *const *parts, int count)
{
    static const char *const keys[] = {"decode_steps", "contraction_s", "elementwise_s", "communication_s"};
    for (int k = 0; k < BASE_COUNT(keys); k++) {
        double sum = 0;
        for (int i = 0; i < count; i++) sum += base_json_number(parts[i], keys[k]);
        base_json_member_double(w, keys[k], sum);
    }
}

/* Every chunk runs one program: its rows are the same, and come in one order. */
static void join_collectives(struct base_json_writer *w, const struct base_json *const *parts, int count)
{
    const struct base_json *rows = base_json_get(parts[0], "collectives");
    base_json_member_open_inline(w, "collectives", '[');
    int at = 0;
    for (const struct base_json *row = rows ? rows->child : NULL; row; row = row->next, at++) {
        struct sim_collective_row sum = {.count = 0};
        base_json_read_fields(row, exec_collective_fields, EXEC_COLLECTIVE_FIELD_COUNT, &sum);
        for (int i = 1; i < count; i++) {
            const struct base_json *others = base_json_get(parts[i], "collectives"),
                                   *other = others ? others->child : NULL;
            struct sim_collective_row one = {.count = 0};
            for (int skip = 0; other && skip < at; skip++) other = other->next;
            if (other) base_json_read_fields(other, exec_collective_fields, EXEC_COLLECTIVE_FIELD_COUNT, &one);
            sum.count += one.count, sum.time_s += one.time_s;
        }
        const struct base_json *where = base_json_get(row, "where"), *first = base_json_get(row, "first_op");
        base_json_open_inline(w, '{');
        base_json_put_fields(w, exec_collective_fields, EXEC_COLLECTIVE_FIELD_COUNT, &sum);
        base_json_member_string(w, "where", where ? where->string : NULL);
        base_json_member_string(w, "first_op", first ? first->string : NULL);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static enum base_status join(struct commands_context *context, const struct base_json *const *parts, int count,
                             bool stopped, const struct base_json **out, struct base_error *error)
{
    static const char *const lists[] = {"decodes", "scores", "token_scores", "batch_s"};
    struct base_text text = {.arena = context->arena};
    struct base_json_writer w = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    const struct base_json *memory = count ? base_json_get(parts[0], "memory") : NULL;
    base_json_open(&w, '{');
    for (int i = 0; i < BASE_COUNT(lists) && count; i++) join_lists(&w, parts, count, lists[i]);
    base_json_member_bool(&w, "stopped", stopped);
    if (count) join_sums(&w, parts, count);
    if (memory) base_json_member_value(&w, "memory", memory);
    if (count) join_collectives(&w, parts, count);
    base_json_close(&w, '}');
    return base_json_parse(context->arena, text.data, text.length, out, error);
}

/* Existing chunks must belong to the same question before others join them. */
static enum base_status check_chunks(struct commands_context *context, const struct commands_chunks *chunks,
                                     struct base_error *error)
{
    const char *const *names;
    const struct base_json *result;
    int count;
    BASE_TRY(base_directory_list(context->arena, chunks->directory, &names, &count, error));
    for (int i = 0; i < count; i++) {
        const char *path = base_print(context->arena, "%s/%s", chunks->directory, names[i]);
        const bool is_chunk = !strncmp(names[i], "chunk-", strlen("chunk-")) && base_ends_in(names[i], ".json");
        if (is_chunk) BASE_TRY(read_chunk(context, chunks, path, &result, error));
    }
    return BASE_OK;
}

/* All of them, or those before the first that is missing, which there is where it was stopped alone. */
static enum base_status read_chunks(struct commands_context *context, const struct commands_chunks *chunks,
                                    bool stopped, const struct base_json **parts, int *count, struct base_error *error)
{
    bool more = true;
    for (*count = 0; more; ++*count) {
        const char *path = exec_chunk_path(context->arena, chunks->directory, *count);
        if (*count == MOST_CHUNKS)
            return base_fail(error, BASE_INPUT, "%s: more than %d chunks; use a larger --checkpoint-period",
                             chunks->directory, MOST_CHUNKS);
        if (stopped && !base_is_file(path)) return BASE_OK;
        BASE_TRY(read_chunk(context, chunks, path, &parts[*count], error));
        more = (double)(*count + 1) * (double)chunks->period < base_json_number(parts[*count], "batch_total");
    }
    return BASE_OK;
}

enum base_status commands_infer_chunks(struct commands_context *context, const struct commands_executor *executor,
                                       const struct commands_chunks *chunks, const struct base_text *request,
                                       const struct base_json **out, struct base_error *error)
{
    const struct base_json **parts = base_new(context->arena, const struct base_json *, MOST_CHUNKS);
    struct base_text answer = {.arena = context->arena};
    int count = 0;
    BASE_TRY(base_directory_make(chunks->directory, error));
    BASE_TRY(check_chunks(context, chunks, error));
    const enum base_status status = commands_ask_executor(context, executor, request, &answer, error);
    if ((status != BASE_OK && status != BASE_STOPPED) || context->launched_rank > 0) return status;
    BASE_TRY(read_chunks(context, chunks, status == BASE_STOPPED, parts, &count, error));
    BASE_TRY(join(context, parts, count, status == BASE_STOPPED, out, error));
    return status;
}
