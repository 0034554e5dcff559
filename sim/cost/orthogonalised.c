/* Muon's Newton-Schulz steps, which make the momentum of a matrix orthogonal: X = aX + (bA + cA^2)X with A = XX^T, in
 * bfloat16 (KellerJordan/Muon muon.py, zeropower_via_newtonschulz5; torch.optim.Muon). */
#include "sim/cost/cost.h"

#include <math.h>

enum { STEPS = 5 };

/* One iteration: two products with X, and the square of A, whose side is the shorter dimension. */
static double step_flop(double rows, double columns)
{
    const double shorter = fmin(rows, columns), longer = fmax(rows, columns);
    return 4 * shorter * shorter * longer + 2 * shorter * shorter * shorter;
}

/* A matrix's first side is its layer's input or output dimension, the second all other dimensions; each expert has a
 * matrix. */
static double matrix_flop(const struct sim_cost_context *p, const struct sim_shape *shape)
{
    double rows = 1, columns = 1, count = (double)p->sizes[shape->layers];
    for (int d = 0; d < shape->rank; d++) {
        const int size = shape->dims[d];
        const double extent = (double)topo_shard_extent(&p->placement->axes, shape->spec[d], p->sizes[size]);
        *(size == MODEL_EXPERTS ? &count : size == MODEL_EMBED ? &rows : &columns) *= extent;
    }
    return STEPS * count * step_flop(rows, columns);
}

double sim_orthogonalised_s(const struct sim_cost_context *p)
{
    const double *c = p->placement->profile.constants;
    const struct topo_axes *mesh = &p->placement->axes;
    double flop = 0;
    for (int i = 0; i < p->list->matrix_count; i++) flop += matrix_flop(p, &p->list->matrices[i]);
    if (p->plan->optimizer_partitioning != SIM_REPLICATED) flop /= topo_axes_product(mesh, sim_data_axis(mesh));
    return flop > 0 ? flop / (c[SIM_FLOP_PER_S] * c[SIM_MATMUL_EFFICIENCY_FRAC]) : 0;
}
