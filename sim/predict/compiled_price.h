/* Private to sim/predict/: compiled memory of a step. */
#ifndef SIM_COMPILED_PRICE_H
#define SIM_COMPILED_PRICE_H

#include "sim/program/program.h"

/* Compiled buffers instead of a walk over events: p->peak with its name, and persistent buffers. Plans that share all
 * inputs of the layout share it. */
void sim_price_compiled(struct sim_cache *cache, const struct sim_program *program, struct sim_cost_context *p,
                        struct sim_detail *detail, double persistent_bytes[MODEL_CATEGORY_COUNT]);
/* Buffers of MaxText's sorted rows beyond the mean load, of a device; 0: none */
double sim_ragged_rows_bytes(const struct sim_plan *plan);

#endif
