/* Private to sim/plan/: steps of reading and checking a plan, which checked_plan.c puts together. All of them return
 * BASE_INPUT, and name the key, for what cannot be. */
#ifndef SIM_PLAN_PARTS_H
#define SIM_PLAN_PARTS_H

#include "sim/plan/plan.h"

/* ---- plan_checks.c ---- */

/* Chips without such products would be priced at some rate that they do not have. */
enum base_status sim_plan_check_dtype(const struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_stored(const struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_lengths(const struct sim_plan *plan, struct base_error *error);
/* Whether keys and values go round a ring, and whether the model and its sequences can be cut for it. */
/* cuda_graphs.c: what the plan's graphs hold, in Megatron's words. */
enum base_status sim_plan_read_graphs(struct base_arena *arena, const char *text, struct sim_plan *plan,
                                      struct base_error *error);
bool sim_sorts_tokens(const struct sim_plan *plan); /* rows go to experts sorted, not by products with one-hots */
bool sim_plan_rings(const struct sim_plan *plan);
/* Keys and values of sequences over several devices are whole on each: of an attention kernel's, before heads of a
 * group share them. */
bool sim_plan_gathers_keys(const struct sim_plan *plan);
enum base_status sim_plan_check_ring(const struct sim_plan *plan, struct base_error *error);
/* Two a device, where sequences are over devices and shared out so that causal attention is even; or 0. */
int sim_plan_sequence_pieces(const struct sim_plan *plan);
/* What overlaps, as the plan says or as its software does; and buckets and gradients that it can be told of. */
enum base_status sim_plan_take_overlaps(const struct sim_plan_text *text, struct sim_plan *plan,
                                        struct base_error *error);
enum base_status sim_plan_check_recipe(const struct sim_plan *plan, struct base_error *error); /* fp8_recipe.c */
/* loss_tiles.c: how many tiles the loss goes over, as the plan says and its software can. */
enum base_status sim_plan_take_loss(struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_batch(const struct sim_plan *plan, struct base_error *error);
/* Layers of a remat policy by tensor: there are so many, of each stack a whole number, and the plan is not executed. */
enum base_status sim_plan_check_saved_layers(const struct sim_plan *plan, struct base_error *error);

#endif
