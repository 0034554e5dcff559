/* Bytes of an array in XLA:TPU's tiled layout, and the choice of its two minor dimensions. Arguments and results follow
 * the compiler's own sizes (1,000 shapes on each of seven generations; libtpu 0.0.42). Temporaries follow its dumps. */
#include "sim/compile/passes.h"

#include <math.h>

static double round_up(double count, double tile)
{
    double tiles = (double)(int64_t)((count + tile - 1) / tile);
    return tiles * tile;
}

/* Rank 1 has tiles of 128, 256, 512 or 1024 elements. */
static double round_up_alone(double count, int least_rows)
{
    double tile = SIM_LANES * least_rows;
    while (tile < count && tile < SIM_SUBLANES * SIM_LANES) tile *= 2;
    return round_up(count, tile);
}

/* A tile with fewer than 8 rows has 1, 2 or 4. */
static double round_up_rows(double rows, int least_rows)
{
    double tile = least_rows;
    while (tile < rows && tile < SIM_SUBLANES) tile *= 2;
    return round_up(rows, tile);
}

/* Chooses the two tiled dimensions: the minor ones, except heads and batch. Lanes get the one with less padding. */
static void choose_tile(const double *extents, int rank, const unsigned char *dims, int *lanes, int *sublanes)
{
    int chosen[2] = {rank - 1, -1};
    for (int d = rank - 2; d >= 0 && chosen[1] < 0; d--) {
        const enum model_counted counted = model_counted_by(dims[d]);
        if ((counted == MODEL_COUNTS_HEADS && d > 0) || (counted == MODEL_COUNTS_ROWS && rank > 2)) continue;
        chosen[1] = d;
    }
    if (chosen[1] < 0) chosen[1] = rank - 2;
    double waste = round_up(extents[chosen[0]], SIM_LANES) / extents[chosen[0]],
           other = round_up(extents[chosen[1]], SIM_LANES) / extents[chosen[1]];
    bool swap = other < waste;
    *lanes = chosen[swap];
    *sublanes = chosen[!swap];
}

double sim_tiled_bytes(const double *extents, int rank, const unsigned char *dims, double element_bytes)
{
    if (rank == 0) return element_bytes;
    if (rank == 1) return round_up_alone(extents[0], 1) * element_bytes;
    int lanes, sublanes;
    choose_tile(extents, rank, dims, &lanes, &sublanes);
    double bytes = element_bytes;
    for (int d = 0; d < rank; d++)
        bytes *= d == lanes      ? round_up(extents[d], SIM_LANES)
                 : d == sublanes ? round_up_rows(extents[d], 1)
                                 : extents[d];
    return bytes;
}

/* The least padding over all dimension orders. */
static double least_waste(const double *extents, int rank, int tile_rows)
{
    double least = INFINITY;
    for (int lanes = rank - 1; lanes >= 0; lanes--)
        for (int rows = 0; rows < rank; rows++) {
            if (rows == lanes) continue;
            const double waste = round_up(extents[lanes], SIM_LANES) / extents[lanes] *
                                 round_up_rows(extents[rows], tile_rows) / extents[rows];
            least = fmin(least, waste);
        }
    return least;
}

double sim_argument_bytes(const double *extents, int rank, int tile_rows, double element_bytes)
{
    double elements = 1;
    for (int d = 0; d < rank; d++) elements *= extents[d];
    if (rank < 2) return round_up_alone(elements, tile_rows) * element_bytes;
    return rint(elements * least_waste(extents, rank, tile_rows)) * element_bytes;
}
