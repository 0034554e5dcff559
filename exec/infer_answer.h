/* Private to exec/: inference as JSON documents. */
#ifndef EXEC_INFER_ANSWER_H
#define EXEC_INFER_ANSWER_H

#include "exec/exec.h"

void exec_put_infer_result(struct base_json_writer *w, const struct exec_infer_result *result);
/* answer_chunks.c: runs the chunks that request->chunks lacks. BASE_STOPPED: it was stopped; earlier chunks are
 * written. Collective; errors as in exec_infer. */
enum base_status exec_infer_chunks(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                   const struct exec_infer_request *request, struct base_error *error);

#endif
