/* Inference in chunks: rank 0 writes one numbered file per chunk when its batches are done. A restarted job runs the
 * missing chunks. Complete files are renamed into place, so a chunk is either there or not. */
#include "exec/infer_answer.h"
#include "exec/ranks.h"

static enum base_status write_chunk(struct base_arena *arena, const struct exec_infer_request *request,
                                    const char *path, const struct exec_infer_result *result, struct base_error *error)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer w = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    base_json_open(&w, '{');
    base_json_member_string(&w, "identity", request->identity);
    base_json_member_int(&w, "period", request->chunk_batches);
    base_json_key(&w, "result");
    exec_put_infer_result(&w, result);
    base_json_close(&w, '}');
    BASE_TRY(base_write_file(path, text.data, text.length, error));
    return base_directory_sync(request->chunks, error);
}

/* Rank 0 checks, and all ranks use its result. */
static bool is_there(const struct exec_transport *transport, const char *path)
{
    bool there = exec_rank(transport) == 0 && base_is_file(path);
    exec_broadcast(transport, &there, sizeof there);
    return there;
}

static enum base_status count_batches(struct base_arena *arena, const struct sim_plan *plan,
                                      const struct exec_infer_request *request, int64_t *count,
                                      struct base_error *error)
{
    struct exec_batch *batches;
    if (!request->data) return base_fail(error, BASE_USAGE, "--data: is missing; a .jsonl with a batch a line");
    if (request->chunk_batches < 1) return base_fail(error, BASE_INPUT, "chunk_batches: is 0; use 1 or more");
    return exec_inference_batches(arena, plan, request->data, &batches, count, error);
}

/* A chunk that stops before its last batch is not written. */
static enum base_status run_chunk(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                  const struct exec_infer_request *chunk, const char *path, struct base_error *error)
{
    struct exec_infer_result result;
    enum base_status status = BASE_OK;
    BASE_TRY(exec_infer(arena, cache, plan, chunk, &result, error));
    if (result.stopped) return BASE_STOPPED;
    exec_tell_storing(chunk->transport, EXEC_STORING_BEGINS);
    if (exec_rank(chunk->transport) == 0) status = write_chunk(arena, chunk, path, &result, error);
    exec_tell_storing(chunk->transport, EXEC_STORING_ENDS);
    return exec_agree(chunk->transport, status, error);
}

static bool stops(const struct exec_infer_request *request)
{
    double asked = request->stop && *request->stop;
    exec_sum_numbers(request->transport, &asked, 1);
    return asked > 0;
}

enum base_status exec_infer_chunks(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                   const struct exec_infer_request *request, struct base_error *error)
{
    struct base_arena scratch = {.exhausted = arena->exhausted}; /* memory for one chunk at a time */
    int64_t total = 0;
    enum base_status status = count_batches(&scratch, plan, request, &total, error);
    status = exec_agree(request->transport, status, error);
    for (int64_t first = 0; first < total && status == BASE_OK; first += request->chunk_batches) {
        struct exec_infer_request chunk = *request;
        chunk.first_batch = first, chunk.batch_limit = request->chunk_batches;
        base_arena_reset(&scratch);
        const char *path = exec_chunk_path(&scratch, request->chunks, first / request->chunk_batches);
        if (is_there(request->transport, path)) continue;
        status = stops(request) ? BASE_STOPPED : run_chunk(&scratch, cache, plan, &chunk, path, error);
    }
    base_arena_free(&scratch);
    return status;
}
