/* Private to sim/cost: the list of buffers alive at the peak. */
#ifndef SIM_PEAK_BUFFERS_H
#define SIM_PEAK_BUFFERS_H

#include "sim/cost/cost.h"

/* Adds a row if it has bytes. arena: the detail's. */
void sim_add_peak_buffer(struct base_arena *arena, struct sim_peak_buffers *out, const struct sim_peak_buffer *row);

#endif
