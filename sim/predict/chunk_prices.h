/* Private to sim/: prices of a pipeline's stage chunks, for its own price and for bounds on it. */
#ifndef SIM_PIECE_PRICES_H
#define SIM_PIECE_PRICES_H

#include "sim/predict/predict.h"

enum { SIM_MOST_CHUNK_PRICES = 64 };

/* The price of one chunk: per microbatch and per step. */
struct sim_chunk_price {
    struct sim_stage_chunk piece;
    double each_s[SIM_BOUND_COUNT], once_s[SIM_BOUND_COUNT]; /* exposed collectives */
    double each_communication_s, once_communication_s;       /* all of it */
    double forward_frac;                                     /* a share of the microbatch's time */
    double each_flop, each_masked_flop; /* that the model needs; of these, behind the causal mask */
    struct sim_phase_memory memory;
    double persistent_bytes[MODEL_CATEGORY_COUNT];
    double gathered_parameters;            /* gathered copies that the software keeps, in addition to shards */
    double held_bytes;                     /* by the allocator, in addition to live tensors */
    double waiting_bytes;                  /* a share of it is held for each microbatch in flight, too */
    double received_bytes, gradient_bytes; /* of one microbatch, from the previous chunk and from the next one */
};

struct sim_pipeline_prices {
    struct sim_cache *cache;
    const struct sim_plan *plan;
    struct sim_pipeline_traits traits;
    int stages, chunks, pieces;
    struct sim_chunk_price *prices; /* of those that differ */
    int price_count;
    struct sim_timetable timetable;
    struct sim_pipeline_time time;
    int64_t *stage_bytes;                      /* of each stage: the maximum over its devices */
    struct sim_executable_pipeline executable; /* of a plan that the executor runs; else stages are 0 */
    /* One for each stage chunk; the caller that splits the model fills them. */
    struct sim_stage_chunk split[SIM_MOST_STAGE_CHUNKS];
    short price_of[SIM_MOST_STAGE_CHUNKS];
    double send_s[SIM_MOST_STAGE_CHUNKS],
        send_back_s[SIM_MOST_STAGE_CHUNKS]; /* from each to the next, and the gradient back */
};

/* ---- chunk_prices.c ---- */

/* Before any split or price; prices has room for SIM_MOST_CHUNK_PRICES. */
void sim_pipeline_prices_begin(struct sim_pipeline_prices *l, struct sim_cache *cache, const struct sim_plan *plan,
                               struct sim_chunk_price *prices);
const struct sim_chunk_price *sim_chunk_price_at(const struct sim_pipeline_prices *l, int stage, int chunk);
/* Price of one stage chunk, whether or not the plan has it. */
enum base_status sim_chunk_price_find(const struct sim_pipeline_prices *l, const struct sim_stage_chunk *piece,
                                      struct sim_chunk_price *out, struct base_error *error);
enum base_status sim_pipeline_price_chunks(struct sim_pipeline_prices *l, struct base_error *error);
void sim_pipeline_price_messages(struct sim_pipeline_prices *l);

/* ---- pipeline_price.c ---- */

enum base_status sim_pipeline_check(const struct sim_plan *plan, struct base_error *error);
/* Into stages and their chunks, as the plan's software does. BASE_INPUT: it cannot. */
enum base_status sim_pipeline_split(struct sim_pipeline_prices *l, struct base_error *error);
bool sim_pipeline_hides_messages(const struct sim_pipeline_prices *l);
/* A stage's time once a step, and the reduction of a tied table's gradients. */
double sim_pipeline_once_s(const struct sim_pipeline_prices *l, int stage, enum sim_bound bound);
double sim_pipeline_update_s(const struct sim_pipeline_prices *l, int stage);
double sim_pipeline_tied_s(const struct sim_pipeline_prices *l);
/* p describes the stage's first chunk, except for its peak. */
enum base_status sim_pipeline_begin_cost(const struct sim_pipeline_prices *l, int stage, struct model_config *config,
                                         struct sim_plan *of_piece, struct sim_cost_context *p,
                                         struct base_error *error);

/* ---- stage_memory.c ---- */

/* The maximum on a device of the stage, by the timetable's list of its passes. */
enum base_status sim_pipeline_price_stage(const struct sim_pipeline_prices *l, int stage, struct sim_cost_context *p,
                                          struct sim_priced *out, struct base_error *error);

/* For each pass of the timetable: the maximum bytes of a device of the stage while it runs, and the bytes after it. */
void sim_list_stage_bytes(const struct sim_pipeline_prices *l, int stage, struct sim_cost_context *p,
                          int64_t *pass_bytes, int64_t *behind_bytes);
/* Buffers of a stage at the time that the detail asks for: the running pass at its peak, and what microbatches in
 * flight saved. */
enum base_status sim_list_stage_moment(const struct sim_pipeline_prices *l, struct sim_cost_context *p,
                                       int reported_stage, struct sim_detail *detail, struct base_error *error);

#endif
