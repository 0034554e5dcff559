/* From a plan to its sharded program and its cost. Each is made once for all plans that share it. */
#ifndef SIM_PROGRAM_H
#define SIM_PROGRAM_H

#include "sim/cost/cost.h"

/* ---- what questions share (session_cache.c): models, topologies, programs, shardings, routes ---- */

/* Bounded: it forgets when it grows too large. */
struct sim_cache;
struct sim_cache *sim_cache_new(struct base_arena *arena); /* its head lives in the arena; entries are its own memory */
void sim_cache_free(struct sim_cache *cache);
/* Replaces constants of the catalogue by the user's document, which must live until it is replaced; NULL restores the
 * catalogue. */
void sim_cache_override(struct sim_cache *cache, const struct base_json *overrides);
const struct base_json *sim_cache_overrides(const struct sim_cache *cache); /* the user's document, or NULL */
/* Begins the next question of a process: restores the catalogue's constants and forgets what was read from files. */
void sim_cache_next_question(struct sim_cache *cache, const char *gin_search_path);
const char *sim_cache_gin_search_path(const struct sim_cache *cache); /* the question's, or NULL */
/* Sets the bytes after which the cache is emptied (0: the usual number). A search needs more, since it reuses its
 * programs. */
void sim_cache_hold(struct sim_cache *cache, int64_t most_bytes);
/* The kinds of entries. */
enum sim_stored {
    SIM_STORED_CONFIG,
    SIM_STORED_UNROLLED,
    SIM_STORED_SCANNED_CONFIG,
    SIM_STORED_RULES,
    SIM_STORED_ADAFACTOR,
    SIM_STORED_OVERRIDES,
    SIM_STORED_MACHINE,
    SIM_STORED_PLACEMENT,
    SIM_STORED_PARAMETERS,
    SIM_STORED_VERDICT,
    SIM_STORED_USUAL_PLAN,
    SIM_STORED_MODEL_PROGRAM,
    SIM_STORED_GRAPH,
    SIM_STORED_PLANS_ALIKE,
    SIM_STORED_PROGRAM,
    SIM_STORED_MEMORY_MAP,
    SIM_STORED_LAYOUT,
    SIM_STORED_PIECE_PRICE
};
/* The cache's table, with a key for such an entry begun. */
struct base_memo *sim_cache_memo(struct sim_cache *cache, enum sim_stored kind);
struct sim_known_contractions *sim_cache_contractions(struct sim_cache *cache);
struct base_arena *sim_cache_scratch(struct sim_cache *cache); /* emptied, for data needed until an entry is made */
/* An empty arena for the caller; when memory runs out, it jumps where the cache's arena jumps. */
struct base_arena sim_cache_own_arena(const struct sim_cache *cache);

/* ---- from a plan's text to a checked plan (plan_lookups.c) ---- */

/* BASE_INPUT: an impossible value, or a step that contradicts the one in the text. */
enum base_status sim_plan_check(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                                enum model_step step, enum sim_form form, struct sim_plan *out,
                                struct base_error *error);
/* The same in the middle of a question: the cache forgets nothing, so earlier plans stay valid. */
enum base_status sim_plan_check_another(struct sim_cache *cache, const struct sim_plan_text *text, enum model_step step,
                                        enum sim_form form, struct sim_plan *out, struct base_error *error);

/* ---- programs (program_cache.c) ---- */

/* An array of decisions with its length, and the mesh relations that were compared. */
struct sim_stored_decisions {
    const struct sim_decision *made;
    int count;
    unsigned char compared;
    uint64_t mesh_relation;
};
struct sim_program {
    struct sim_sharded *sharded; /* NULL unless it was asked for */
    struct sim_cost_program prices;
    bool lays_out_sizes[MODEL_SIZE_COUNT]; /* sizes that compiled memory depends on, besides persistent buffers */
    struct sim_stored_decisions decisions; /* its own; contractions hold theirs */
    const struct sim_placed *const *asked;
    int asked_count;
    struct sim_program *next;
};
enum sim_extent { SIM_PRICES_ALONE, SIM_WHOLE_PROGRAM /* with sharded */ };
/* The program of a plan under a remat policy. It belongs to the cache. */
enum base_status sim_program_find(struct sim_cache *cache, const struct sim_plan *plan, enum model_remat remat,
                                  unsigned dropped_roles, enum sim_extent extent, const struct sim_program **out,
                                  struct base_error *error);

/* A session's buffers for pricing one plan: too large for a small stack. */
struct sim_workspace {
    struct sim_recent_prices *recent;
    struct sim_unit_costs unit_costs;
    struct sim_cost_context whole, one, two; /* for a plan; for a stage's chunk with one microbatch and with two */
};
/* It belongs to the cache and lives until the next sim_plan_check. */
struct sim_workspace *sim_workspace_of(struct sim_cache *cache);

/* The cache's table, with a key of everything that the price of the plan's program depends on. */
struct base_memo *sim_memo_priced(struct sim_cache *cache, const struct sim_plan *plan, enum sim_stored kind);

/* Why its tensors are sharded as they are: propagated once more, with notes, in an arena. */
struct sim_causes; /* below */
enum base_status sim_program_causes(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                    struct sim_causes *out, struct base_error *error);

/* The sharded program of a plan, and the values of its symbols. It belongs to the cache and lives until the next
 * sim_plan_check. */
enum base_status sim_sharded_program(struct sim_cache *cache, const struct sim_plan *plan,
                                     const struct sim_sharded **out, int64_t sizes[MODEL_SIZE_COUNT],
                                     struct base_error *error);
/* The propagated shardings of a plan's tensors, before partitioning. Same lifetime. */
enum base_status sim_propagated_shardings(struct sim_cache *cache, const struct sim_plan *plan,
                                          struct sim_shardings *out, struct base_error *error);
/* The program as the executor runs it, and the places of its values, for a plan of the executor. Same lifetime. */
struct sim_executable {
    const struct sim_sharded *sharded;
    struct sim_memory_map map;
    int64_t sizes[MODEL_SIZE_COUNT];
    struct topo_axes mesh;
};
enum base_status sim_executable_program(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                        struct sim_executable *out, struct base_error *error);

/* pipeline_price.c: a chunk of the model as a plan of its own, over one stage's devices, with that many microbatches.
 * config is filled and must outlive it. */
void sim_chunk_plan(const struct sim_plan *plan, const struct sim_stage_chunk *piece, int64_t microbatches,
                    struct model_config *config, struct sim_plan *out);

#endif
