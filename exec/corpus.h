/* Private to exec/: batch rows from a text file. */
#ifndef EXEC_CORPUS_H
#define EXEC_CORPUS_H

#include "exec/exec.h"

struct exec_corpus {
    const struct sim_plan *plan;
    const char *text;
    int64_t length, segment_length, segment_count; /* in tokens; the last segment may be shorter */
    bool in_order;                                 /* not shuffled, for evaluation */
};
/* BASE_INPUT: the vocabulary has no room for bytes, the lengths have no room for a span, or the text is unreadable
 * or empty. */
enum base_status exec_corpus_open(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                  enum exec_examples_of examples, struct exec_corpus *out, struct base_error *error);
/* inputs [inputs_length], NULL for decoder-only models; targets [targets_length]; scratch [segment_length]. Padded
 * with 0. */
void exec_corpus_row(const struct exec_corpus *corpus, int64_t step, int64_t row, int32_t *scratch, int32_t *inputs,
                     int32_t *targets);

#endif
