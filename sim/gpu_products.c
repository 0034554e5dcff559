/* Products on GPUs: a library cuts the result into tiles, one thread block each, deals them out to the multiprocessors
 * wave by wave, and takes the tile, and the number of parts of the contraction, with which that ends first. */
#include "sim/sim.h"

#include <math.h>

/* Tiles of the library, and the share of the large ones' rate that smaller ones reach: each element that is loaded is
 * used less often. NVIDIA's guide to matrix multiplication orders them so; the shares are assumed. */
static const struct {
    double rows, columns, rate;
} tiles[] = {{256, 128, 1},   {128, 256, 1},   {192, 128, 0.98}, {128, 192, 0.98}, {128, 128, 0.97},
             {256, 64, 0.92}, {64, 256, 0.92}, {128, 96, 0.93},  {96, 128, 0.93},  {128, 64, 0.88},
             {64, 128, 0.88}, {96, 64, 0.8},   {64, 64, 0.75},   {32, 64, 0.5}};

/* Filling the pipeline of a tile and writing it back take as long as so many steps along the contraction (assumed). */
static const double tile_start = 80;

/* A tile's elements of the result are added up in float32, once for each part of the contraction. */
static const int most_parts = 8;

static double in_tiles(double multiprocessors, const struct sim_product *of, int tile, int parts)
{
    double blocks = of->batch * ceil(of->rows / tiles[tile].rows) * ceil(of->columns / tiles[tile].columns) * parts,
           waves = ceil(blocks / multiprocessors),
           steps = ceil(of->contracted / parts) + tile_start * (parts > 1 ? 2 : 1);
    return 2 * waves * multiprocessors * tiles[tile].rows * tiles[tile].columns * steps / tiles[tile].rate;
}

/* A causal kernel skips the blocks behind the diagonal: half of all. */
static const double causal_share = 0.5;

double sim_attention_share(const struct sim_profile *profile, bool causal)
{
    const double *c = profile->constants;
    if (!(c[SIM_ATTENTION_EFFICIENCY_FRAC] > 0)) return 1;
    return (causal ? causal_share : 1) * c[SIM_MATMUL_EFFICIENCY_FRAC] / c[SIM_ATTENTION_EFFICIENCY_FRAC];
}

double sim_tiled_product_flop(const struct sim_profile *profile, const struct sim_product *of)
{
    const double multiprocessors = profile->constants[SIM_MULTIPROCESSORS];
    double least = INFINITY;
    for (int tile = 0; tile < BASE_COUNT(tiles); tile++)
        for (int parts = 1; parts <= most_parts; parts *= 2)
            least = fmin(least, in_tiles(multiprocessors, of, tile, parts));
    return least;
}
