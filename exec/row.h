/* Private to exec/: elementwise operations and reductions on one row. */
#ifndef EXEC_ROW_H
#define EXEC_ROW_H

#include "exec/this_machine.h"

/* One row of an operation, or a part of one: n elements along the last label, as float32 whatever the stored dtype.
 * Operands that vary along the row have n elements, others have one. */
struct exec_row {
    int64_t n;
    const float *in[MODEL_MAX_INPUTS];
    float *out[MODEL_MAX_OUTPUTS];
    int64_t start;             /* global index of the first element along the last label */
    int64_t first;             /* global index along the first label */
    int64_t position;          /* in the sequence, if its length is not the last label */
    bool of_sequence;          /* the last label is the sequence length */
    int64_t before;            /* global index along the second-to-last label: the query of attention scores */
    int64_t number, count;     /* row-major number of the first element in the whole array, and the array's size */
    struct base_key key;       /* of a dropout mask */
    const float *exponentials; /* of this row, if its sum was just computed; or NULL */
    double extra;              /* a second sum of a reduction */
    const struct exec_machine *machine;
    const struct model_op *op;
};

typedef void exec_row_run(struct exec_row *row);

/* How a reduction combines values. A mean is divided by the number of values on all devices. */
enum exec_combine { EXEC_NONE, EXEC_SUM, EXEC_MEAN, EXEC_MAX };

/* operands: v varies along the row (and is broadcast if not), s does not. A reduction's values are in out[0]. */
struct exec_row_function {
    const char *operands;
    exec_row_run *run;
    enum exec_combine combine;
    bool positional;
};
const struct exec_row_function *exec_row_function_of(enum model_function function); /* row_kernels.c */

float exec_row_sum(const float *values, int64_t n); /* reductions.c */
float exec_row_max(const float *values, int64_t n);
double exec_row_squares(const float *values, int64_t n); /* sum of squares */

/* storage.c. bfloat16 is the upper half of a float32, rounded to nearest even. Strides are in elements. */
void exec_widen(const uint16_t *from, int64_t stride, float *to, int64_t n);
void exec_narrow(const float *from, uint16_t *to, int64_t stride, int64_t n);
void exec_load(enum model_dtype dtype, const char *from, int64_t stride, float *to,
               int64_t n); /* any supported dtype */
void exec_store(enum model_dtype dtype, const float *from, char *to, int64_t stride,
                int64_t n); /* any supported dtype; a truth value is 1 or 0 */

/* Multiplies a row of an int8 weight by its scales (exec_scales_of), at this offset and stride, in the scales'
 * dtype. No effect without scales. */
void exec_dequantize(const struct exec_view *scales, int64_t offset, int64_t stride, float *row, int64_t n);

/* Added to a norm's mean square. */
static inline float exec_row_epsilon(const struct exec_row *row)
{
    const double given = row->machine->plan->config->norm_epsilon;
    return given > 0 ? (float)given : 1e-6f;
}

/* elementwise.c */
exec_row_run exec_row_copy, exec_row_add, exec_row_scale, exec_row_norm, exec_row_norm_grad, exec_row_gate,
    exec_row_gate_grad_0, exec_row_gate_grad_1, exec_row_softcap, exec_row_softcap_grad, exec_row_zeros,
    exec_row_one_hot, exec_row_relpos_one_hot;
/* positions.c */
exec_row_run exec_row_center, exec_row_rotary, exec_row_rotary_grad, exec_row_position_one_hot;
/* reductions.c */
exec_row_run exec_row_square, exec_row_product, exec_row_norm_grad_scale, exec_row_mean_square_of_gradient;
/* The sequence position of the element stored at `place`. */
static inline int64_t exec_row_sequence_position(const struct exec_row *row, int64_t place)
{
    const struct exec_machine *m = row->machine;
    return model_sequence_position(m->s->program->sequence_pieces, m->sizes[MODEL_TARGETS_LENGTH], place);
}
/* softmax.c */
float exec_row_slope(const struct exec_row *row, int64_t pairs); /* of the row's head, whose scores are pairs; or 0 */
void exec_row_add_slopes(struct exec_row *row);                  /* to a row of scores */
bool exec_row_has_window(const struct exec_row *row);            /* this layer's mask has a window */
int64_t exec_row_layer(const struct exec_row *row); /* of a decoder's stack, from 1; of windowed operations */
exec_row_run exec_row_attention_bias, exec_row_exponentials, exec_row_softmax, exec_row_softmax_grad,
    exec_row_sink_grad;
/* blocks.c */
exec_row_run exec_row_block_bias, exec_row_maximum, exec_row_merged_sum, exec_row_merged;
/* loss.c */
exec_row_run exec_row_pick, exec_row_loss, exec_row_loss_grad, exec_row_argmax;
/* masks.c */
exec_row_run exec_row_dropout_mask, exec_row_dropout;
/* The key of the masks that an operation draws: it depends on seed, step, microbatch, mask name and layer of the
 * whole model. It does not depend on sharding or recomputation. */
struct base_key exec_mask_key(const struct exec_machine *machine, const struct sim_op *op);

/* decode_rows.c */
exec_row_run exec_row_cache_bias, exec_row_key_bias, exec_row_prefix_bias, exec_row_cache_fill, exec_row_cache_write,
    exec_row_position, exec_row_temper, exec_row_count_above, exec_row_mass_above, exec_row_next_count_threshold,
    exec_row_next_mass_threshold, exec_row_keep_above, exec_row_noise, exec_row_add_noise, exec_row_largest_index,
    exec_row_chosen, exec_row_log_prob, exec_row_log_probs, exec_row_token_score, exec_row_continue;
/* optimizers.c */
exec_row_run exec_row_sgd, exec_row_adamw, exec_row_lion, exec_row_decay, exec_row_square_decay, exec_row_adafactor,
    exec_row_scaled_square, exec_row_accumulate;
/* routing.c */
exec_row_run exec_row_token_mask, exec_row_shifted_mask, exec_row_mask, exec_row_weigh, exec_row_expert_scale,
    exec_row_balance_loss, exec_row_balance_grad, exec_row_router_z_loss, exec_row_router_z_loss_grad, exec_row_choose,
    exec_row_sigmoid, exec_row_sigmoid_grad, exec_row_log_sigmoid, exec_row_log_sigmoid_grad;
void exec_row_chosen_softmax(struct exec_row *row); /* a softmax over a token's chosen experts, times its factor */
/* Adds the squared gradients that an update is about to use; each part counts once. */
void exec_note_gradient(struct exec_machine *machine, const struct sim_op *op, int device);

/* T5's bucket for a query and key (lookup.c); the logarithm is in float32, as in T5X. */
int exec_relpos_bucket(int64_t query, int64_t key, enum model_direction direction);

#endif
