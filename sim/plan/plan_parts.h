/* Private to sim/: the steps from a plan's text to a checked plan, which plan.c puts together. All of them return
 * BASE_INPUT, and name the key, for what cannot be. */
#ifndef SIM_PLAN_PARTS_H
#define SIM_PLAN_PARTS_H

#include "sim/plan/plan.h"

/* compilers.c: the date that the plan's software or its compiler is of, if one is said as a date; or NULL. */
const char *sim_plan_software_date(const struct sim_plan *plan);

/* plan_mesh.c: of a plan that asks for a number of partitions alone, or for none, what its software makes of a TPU:
 * partitions are along the last axis. Else the request stays. */
enum base_status sim_plan_usual_mesh(struct base_arena *arena, const struct sim_plan_text *text,
                                     const struct sim_plan *plan, const struct topo_topology *topology,
                                     struct topo_mesh_request *request, struct base_error *error);

/* ---- plan_lookups.c: fills what the plan says of each; what is found belongs to the cache ---- */

enum base_status sim_plan_find_config(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                      struct base_error *error);
/* The same model as layers that are no loop, where the key scanned says so. */
enum base_status sim_plan_unroll(struct sim_cache *cache, const char *scanned, struct sim_plan *plan,
                                 struct base_error *error);
/* Layers as the plan's software scans them, behind its placement. */
void sim_plan_scan_layers(struct sim_cache *cache, struct sim_plan *plan);
enum base_status sim_plan_find_placement(struct sim_cache *cache, const struct sim_plan_text *text,
                                         struct sim_plan *plan, struct base_error *error);
/* After the placement, whose mesh the rules are for. */
enum base_status sim_plan_find_rules(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                     struct base_error *error);
/* After the optimizer was read. */
enum base_status sim_plan_find_adafactor(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                         struct base_error *error);
/* After the model. */
enum base_status sim_plan_find_overrides(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                         struct base_error *error);
/* JAX demands that parameters and optimizer state divide exactly; worked out once for a model, rules and mesh shape. */
enum base_status sim_plan_check_parameters(struct sim_cache *cache, const struct sim_plan *plan,
                                           struct base_error *error);

/* ---- plan_checks.c ---- */

/* Whether the mesh has the axes that the rules name. */
enum base_status sim_plan_check_rule_axes(struct base_arena *arena, const struct topo_axes *mesh,
                                          const struct model_rules *rules, struct base_error *error);
/* own, given: count parameters, with the axes that the model names and those that the plan gives them. */
enum base_status sim_plan_check_layers(const struct sim_plan *plan, const struct model_parameter *own,
                                       const struct model_parameter *given, int count, struct base_error *error);
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
