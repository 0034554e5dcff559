/* Part of sim/cost/cost.h: kernels and copies of eager-mode software. */
#ifndef SIM_EAGER_KERNELS_H
#define SIM_EAGER_KERNELS_H

#include <stdbool.h>

/* ---- modules that are written in Python (torch_kernels.c) ---- */

enum sim_torch_style {
    SIM_TORCH_AS_OTHERS,
    SIM_TORCH_HALF,
    SIM_TORCH_AUTOCAST,
    SIM_TORCH_TITAN,
    SIM_TORCH_ENGINE,
    SIM_TORCH_ENGINE_EAGER
};
enum { SIM_MOST_TORCH_KERNELS = 40 };
struct sim_torch_chain {
    double expert_kernels; /* additional kernels per expert of a device */
    double bytes_per_element /* of the largest array; 0: the bytes read and written */, kernels;
};

/* ---- rows of experts (expert_copies.c) ---- */

enum sim_expert_rows { SIM_NOT_OF_EXPERTS, SIM_ROWS_SORTED, SIM_ROWS_GATED, SIM_ROWS_OF_GATES };
struct sim_cost_context;
/* expert_copies.c: Megatron's copies next to the kernel of its experts' rows, per element */
struct sim_expert_copies {
    double bytes, launches;
};
enum sim_expert_rows sim_expert_rows_of(const char *name);
bool sim_experts_are_fused(const struct sim_cost_context *p);
struct sim_expert_copies sim_expert_copies(const struct sim_cost_context *p, enum sim_expert_rows rows,
                                           double elements);

#endif
