/* Private to sim/predict/: what a step holds as its compiler lays it out. */
#ifndef SIM_COMPILED_PRICE_H
#define SIM_COMPILED_PRICE_H

#include "sim/program/program.h"

/* The buffers of the compiled step, in place of the walk over the events: p->peak and its name, and what always stands
 * there. Plans that share all that a layout goes by share it. */
void sim_price_compiled(struct sim_cache *cache, const struct sim_program *program, struct sim_cost_context *p,
                        struct sim_detail *detail, double persistent_bytes[MODEL_CATEGORY_COUNT]);

#endif
