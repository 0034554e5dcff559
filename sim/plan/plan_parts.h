/* Private to sim/plan: reading values by the table of keys, and the steps from a plan's text to a checked plan, called
 * by checked_plan.c. All return BASE_INPUT for invalid values, and name the key. */
#ifndef SIM_PLAN_PARTS_H
#define SIM_PLAN_PARTS_H

#include "sim/plan/plan.h"

/* ---- plan_keys.c, compilers.c, plan_decoding.c ---- */

/* Kinds of JSON, as the rows of keys name them. */
enum {
    TEXT = 1 << BASE_JSON_STRING,
    NUMBER = 1 << BASE_JSON_NUMBER,
    LIST = 1 << BASE_JSON_ARRAY,
    OBJECT = 1 << BASE_JSON_OBJECT
};

/* Reads every word and number of a plan from its text or `usual`. Words come first, then whole numbers: the first
 * mistake in this order is reported. BASE_INPUT names the key. */
enum base_status sim_plan_read_values(const struct sim_plan *usual, const struct sim_plan_text *text,
                                      struct sim_plan *plan, struct base_error *error);

/* The number of a key that a plan says before its other keys are read; else *out stays. */
enum base_status sim_plan_read_number(const struct sim_plan_text *text, enum sim_key key, int64_t low, int64_t high,
                                      int64_t *out, struct base_error *error);

/* compilers.c: reads the plan's compiler, after its keys and placement. BASE_INPUT: no such compiler. */
enum base_status sim_plan_read_compiler(struct sim_plan *plan, struct base_error *error);

/* plan_decoding.c: how answers are decoded, when all other keys and the step are read; nothing of it for a step that
 * trains. */
enum base_status sim_plan_read_decoding(struct base_arena *arena, const struct sim_plan_text *text,
                                        struct sim_plan *plan, struct base_error *error);

/* The step that is asked for, which the text, if it says one, says, too. */
enum base_status sim_plan_take_step(const struct sim_plan_text *text, enum model_step step, struct sim_plan *plan,
                                    struct base_error *error);

/* ---- plan_checks.c ---- */

/* Chips without such products would be priced at some rate that they do not have. */
enum base_status sim_plan_check_dtype(const struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_stored(const struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_allocator(const struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_lengths(const struct sim_plan *plan, struct base_error *error);
/* cuda_graphs.c: reads the scope of CUDA graphs, in Megatron-LM's terms. */
enum base_status sim_plan_read_graphs(struct base_arena *arena, const char *text, struct sim_plan *plan,
                                      struct base_error *error);
bool sim_sorts_tokens(const struct sim_plan *plan); /* rows go to experts sorted, not by products with one-hots */
bool sim_plan_rings(const struct sim_plan *plan);
/* Keys and values of sequences over several devices are whole on each: of an attention kernel's, before heads of a
 * group share them. */
bool sim_plan_exchanges_heads(const struct sim_plan *plan);
enum base_status sim_plan_check_exchanged_heads(const struct sim_plan *plan, struct base_error *error);
bool sim_plan_gathers_keys(const struct sim_plan *plan);
enum base_status sim_plan_check_ring(const struct sim_plan *plan, struct base_error *error);
/* Two a device, where sequences are over devices and shared out so that causal attention is even; or 0. */
int sim_plan_sequence_pieces(const struct sim_plan *plan);
/* Overlaps of the plan or of its software; and its buckets and gradients. */
enum base_status sim_plan_take_overlaps(const struct sim_plan_text *text, struct sim_plan *plan,
                                        struct base_error *error);
/* DeepSpeed's buckets. */
enum base_status sim_plan_take_zero(const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_recipe(const struct sim_plan *plan, struct base_error *error); /* fp8_recipe.c */
/* loss_tiles.c: how many tiles the loss goes over, as the plan says and its software can. */
enum base_status sim_plan_take_loss(struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_batch(const struct sim_plan *plan, struct base_error *error);
/* Layers of a remat policy by tensor: there are so many, of each stack a whole number, and the plan is not executed. */
enum base_status sim_plan_check_saved_layers(const struct sim_plan *plan, struct base_error *error);

#endif
