/* Inference as JSON documents: what meshwright-rank reads and writes for `infer`. */
#include "exec/infer_answer.h"

enum base_status exec_infer_answer(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                   const struct exec_infer_request *request, struct base_text *out,
                                   struct base_error *error)
{
    struct base_json_writer w = {.text = out};
    struct exec_infer_result result;
    if (request->chunks) {
        const enum base_status status = exec_infer_chunks(arena, cache, plan, request, error);
        if (status == BASE_OK || status == BASE_STOPPED) base_put(out, "{}");
        return status;
    }
    BASE_TRY(exec_infer(arena, cache, plan, request, &result, error));
    exec_put_infer_result(&w, &result);
    return result.stopped ? BASE_STOPPED : BASE_OK;
}
