/* Private to exec/: inference as a document. */
#ifndef EXEC_INFER_ANSWER_H
#define EXEC_INFER_ANSWER_H

#include "exec/exec.h"

enum base_status exec_infer_answer(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                   const struct exec_infer_request *request, struct base_text *out,
                                   struct base_error *error);

void exec_put_infer_result(struct base_json_writer *w, const struct exec_infer_result *result);
/* answer_chunks.c: those that request->chunks lacks. BASE_STOPPED: it was stopped, and those before are there.
 * Collective; errors are those of exec_infer. */
enum base_status exec_infer_chunks(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                   const struct exec_infer_request *request, struct base_error *error);

#endif
