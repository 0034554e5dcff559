/* Private to sim/predict/: compiled memory of a step. */
#ifndef SIM_COMPILED_PRICE_H
#define SIM_COMPILED_PRICE_H

#include "sim/program/program.h"

/* Compiled buffers instead of a walk over events: p->peak with its name, and persistent buffers. Plans that share all
 * inputs of the layout share it. */
void sim_price_compiled(struct sim_cache *cache, const struct sim_program *program, struct sim_cost_context *p,
                        struct sim_detail *detail, double persistent_bytes[MODEL_CATEGORY_COUNT]);
/* How many times the mean load MaxText's arrays of experts' rows may have to hold, however many devices send: experts
 * for each that a token chooses. 0: other software. */
double sim_most_row_times(const struct sim_plan *plan);

#endif
