/* Private to sim/: the steps from a plan's text to a checked plan, called by checked_plan.c. All return BASE_INPUT for
 * invalid values, and name the key. */
#ifndef SIM_PLAN_PARTS_H
#define SIM_PLAN_PARTS_H

#include "sim/plan/plan.h"

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
