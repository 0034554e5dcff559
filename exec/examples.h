/* Private to exec/: decoding operations that run example by example. */
#ifndef EXEC_EXAMPLES_H
#define EXEC_EXAMPLES_H

#include "exec/this_machine.h"

/* All operand elements of one example, row-major, as float or int32_t like their tensors. */
struct exec_example {
    const struct exec_machine *machine;
    const struct sim_decoding *decoding;
    const struct model_op *op;
    int64_t decodes, columns; /* of the example; columns of its sequences */
    int64_t round;            /* of the decode loop */
    int input_count;
    const void *in[MODEL_MAX_INPUTS];
    int64_t in_count[MODEL_MAX_INPUTS];
    void *out;
    int64_t out_count;
};
typedef void exec_example_run(const struct exec_example *example);

static inline const int32_t *exec_whole_in(const struct exec_example *e, int i)
{
    return e->in[i];
}
static inline const float *exec_real_in(const struct exec_example *e, int i)
{
    return e->in[i];
}

exec_example_run *exec_example_of(enum model_function function);                       /* NULL: none */
void exec_examples(struct exec_machine *machine, const struct sim_op *op, int device); /* examples.c */
void exec_gather_cache(struct exec_machine *machine, const struct sim_op *op, int device);

/* sampling_examples.c */
exec_example_run exec_prompt_length, exec_prompt_sequences, exec_decode_limit, exec_step_index, exec_fed_token,
    exec_next_token, exec_next_score, exec_next_sequences, exec_next_ended, exec_next_position, exec_running,
    exec_sorted_decodes, exec_sorted_scores, exec_best_decode, exec_best_score;
/* beam_examples.c */
exec_example_run exec_beam_start, exec_beam_no_scores, exec_beam_log_probs, exec_beam_token, exec_beam_candidates,
    exec_beam_live, exec_beam_live_log_probs, exec_beam_live_sequences, exec_beam_parents, exec_beam_finished,
    exec_beam_finished_scores, exec_beam_finished_flags, exec_beam_finished_sequences, exec_beam_steps_left,
    exec_beam_improves, exec_beam_probable, exec_beam_result, exec_beam_result_scores;

#endif
