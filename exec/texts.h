/* Private to exec/: inference examples from a text, one per line. */
#ifndef EXEC_TEXTS_H
#define EXEC_TEXTS_H

#include "exec/exec.h"

/* Batches of a text; the last is padded with copies of its first example. BASE_INPUT: a vocabulary without room for
 * bytes, no example, or missing targets where they are needed. */
enum base_status exec_inference_texts(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                      const char *text, size_t length, struct exec_batch **out, int64_t *count,
                                      struct base_error *error);

#endif
