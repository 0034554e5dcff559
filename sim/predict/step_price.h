/* Private to sim/predict/: prices one program of a plan without stages, and again if the compiler recomputes. */
#ifndef SIM_STEP_PRICE_H
#define SIM_STEP_PRICE_H

#include "sim/program/program.h"

/* The recomputation of a program in the backward pass. */
struct sim_recomputed {
    enum model_remat remat;
    unsigned dropped_roles; /* by the compiler, for want of memory */
    bool by_peak_priority;  /* under compiled memory the compiler chooses array by array */
};
/* step_price.c: time and memory of the plan's program. Lists what detail asks for anew. */
enum base_status sim_price_step(struct sim_cache *cache, const struct sim_plan *plan,
                                const struct sim_recomputed *recomputed, struct sim_cost_context *p,
                                struct sim_detail *detail, struct sim_priced *out, struct base_error *error);
/* peak_memory.c: bytes alive at the peak, into p->peak and out->persistent_bytes; lists them where detail asks. */
void sim_price_peak(struct sim_cache *cache, const struct sim_program *program, struct sim_cost_context *p,
                    struct sim_detail *detail, struct sim_priced *out);

/* compiled_price.c: compiled buffers instead of a walk over events. Plans that share all inputs of a layout share it.
 */
void sim_price_compiled(struct sim_cache *cache, const struct sim_program *program, struct sim_cost_context *p,
                        struct sim_detail *detail, double persistent_bytes[MODEL_CATEGORY_COUNT]);
/* How many times the mean load MaxText's arrays of experts' rows may have to hold, however many devices send: experts
 * for each that a token chooses. 0: other software. */
double sim_most_row_times(const struct sim_plan *plan);

/* ---- rematerialization.c ---- */

/* Layers that the plan's remat policy does not cover. */
enum base_status sim_price_other_layers(struct sim_cache *cache, const struct sim_plan *plan, struct sim_priced *priced,
                                        struct sim_detail *detail, struct base_error *error);
/* Prices a step that does not fit again, with the recomputation by which its compiler makes it fit. layers: how many
 * layers are recomputed; unchanged if none are. */
enum base_status sim_recompute_to_fit(struct sim_cache *cache, const struct sim_plan *plan, struct sim_cost_context *p,
                                      struct sim_priced *priced, struct sim_detail *detail, int64_t *layers,
                                      struct base_error *error);
double sim_recomputed_until_bytes(const struct sim_cost_context *p); /* what the compiler aims at */

#endif
