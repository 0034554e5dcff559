/* From a plan to its sharded program and its cost, each made once for all plans that share it. */
#ifndef SIM_PROGRAM_H
#define SIM_PROGRAM_H

#include "sim/cost/cost.h"

/* ---- programs (program_cache.c) ---- */

/* As many as were made. */
struct sim_stored_decisions {
    const struct sim_decision *made;
    int count;
    bool compares_mesh;
};
struct sim_program {
    struct sim_sharded *sharded; /* NULL unless somebody asked for it */
    struct sim_cost_program prices;
    bool lays_out_sizes[MODEL_SIZE_COUNT]; /* that memory as compiled goes by, beside what always stands there */
    struct sim_stored_decisions decisions; /* of its own; those of its contractions are theirs */
    uint64_t mesh_relation;                /* under which it was made */
    const struct sim_placed *const *asked;
    int asked_count;
    struct sim_program *next;
};
enum sim_extent { SIM_PRICES_ALONE, SIM_WHOLE_PROGRAM /* with sharded */ };
/* The program of a plan, under a remat policy. It belongs to the cache. */
enum base_status sim_program_find(struct sim_cache *cache, const struct sim_plan *plan, enum model_remat remat,
                                  unsigned dropped_roles, enum sim_extent extent, const struct sim_program **out,
                                  struct base_error *error);

/* What a session prices with, one plan at a time: too large for a small stack. */
struct sim_workspace {
    struct sim_recent_prices *recent;
    struct sim_unit_costs unit_costs;
    struct sim_cost_context whole, one, two; /* of a plan; of a stage's chunk, with one microbatch and with two */
};
/* It belongs to the cache and lives until the next sim_plan_check. */
struct sim_workspace *sim_workspace_of(struct sim_cache *cache);

/* Begins a key of all that the price of such a plan's program goes by. */
void sim_key_priced(struct sim_cache *cache, const struct sim_plan *plan, enum sim_stored kind);

/* Why its tensors are sharded as they are: propagated once more, with notes, in an arena. */
struct sim_causes; /* below */
enum base_status sim_program_causes(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                    struct sim_causes *out, struct base_error *error);

/* The sharded program of a plan, and what its symbols stand for. It belongs to the cache and lives until the next
 * sim_plan_check. */
enum base_status sim_sharded_program(struct sim_cache *cache, const struct sim_plan *plan,
                                     const struct sim_sharded **out, int64_t sizes[MODEL_SIZE_COUNT],
                                     struct base_error *error);
/* How propagation shards the tensors of a plan's program, before it is partitioned. Same lifetime. */
enum base_status sim_propagated_shardings(struct sim_cache *cache, const struct sim_plan *plan,
                                          struct sim_shardings *out, struct base_error *error);
/* The program as the executor runs it, and where its values stand, of a plan that was asked for so. Same lifetime. */
struct sim_executable {
    const struct sim_sharded *sharded;
    struct sim_memory_map map;
    int64_t sizes[MODEL_SIZE_COUNT];
    struct topo_axes mesh;
};
enum base_status sim_executable_program(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                        struct sim_executable *out, struct base_error *error);

/* pipeline_price.c: a piece of the model as a plan of its own, over one stage's devices, of so many microbatches.
 * config is filled and must outlive it. */
void sim_chunk_plan(const struct sim_plan *plan, const struct sim_stage_chunk *piece, int64_t microbatches,
                    struct model_config *config, struct sim_plan *out);

#endif
