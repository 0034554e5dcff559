/* Products on GPUs: a library splits the result into tiles, one thread block each, deals them out to the
 * multiprocessors wave by wave, and takes the tile, and the number of parts of the contraction, with which that ends
 * first. */
#include "sim/sim.h"

#include <math.h>

/* Tiles of the library, and the share of the large ones' rate that smaller ones reach: each element that is loaded is
 * used less often. NVIDIA's guide to matrix multiplication orders them so; the shares are assumed. */
static const struct {
    int rows, columns;
    double rate;
} tiles[] = {{256, 128, 1},   {128, 256, 1},   {192, 128, 0.98}, {128, 192, 0.98}, {128, 128, 0.97},
             {256, 64, 0.92}, {64, 256, 0.92}, {128, 96, 0.93},  {96, 128, 0.93},  {128, 64, 0.88},
             {64, 128, 0.88}, {96, 64, 0.8},   {64, 64, 0.75},   {32, 64, 0.5}};

/* Filling the pipeline of a tile and writing it back take as long as so many steps along the contraction (assumed). */
static const double tile_start = 80;

/* A tile's elements of the result are added up in float32, once for each part of the contraction. */
static const int most_parts = 8;

/* Tiles of several waves are not split along the contraction: there is work for all multiprocessors. What all blocks
 * take without a start is the least that a tile can; one that takes more than is known is left at that, a little less
 * for what rounding does. */
static double in_tiles(double multiprocessors, const struct sim_product *of, int tile, double known)
{
    const double height = tiles[tile].rows, width = tiles[tile].columns, area = height * width, rounding = 1e-9;
    const double blocks = of->batch * (ceil(of->rows / height) * ceil(of->columns / width)); /* exact below 2^45 */
    if (2 * blocks * of->contracted * area / tiles[tile].rate * (1 - rounding) > known) return known;
    double least = INFINITY;
    for (int parts = 1; parts <= most_parts && (parts == 1 || blocks * parts < 4 * multiprocessors); parts *= 2) {
        const double waves = ceil(blocks * parts / multiprocessors),
                     steps = of->contracted / parts + tile_start * (parts > 1 ? 2 : 1), work = waves * steps;
        least = work < least ? work : least;
    }
    return 2 * least * multiprocessors * height * width / tiles[tile].rate;
}

/* A causal kernel skips the blocks behind the diagonal: half of all. */
static const double causal_share = 0.5;

double sim_attention_share(const struct sim_profile *profile, enum model_direction direction)
{
    const double *c = profile->constants;
    if (!(c[SIM_ATTENTION_EFFICIENCY_FRAC] > 0)) return 1;
    return (direction == MODEL_CAUSAL ? causal_share : 1) * c[SIM_MATMUL_EFFICIENCY_FRAC] /
           c[SIM_ATTENTION_EFFICIENCY_FRAC];
}

double sim_tiled_product_flop(const struct sim_profile *profile, const struct sim_product *of)
{
    const double multiprocessors = profile->constants[SIM_MULTIPROCESSORS];
    double least = INFINITY;
    for (int tile = 0; tile < BASE_COUNT(tiles); tile++) {
        const double flop = in_tiles(multiprocessors, of, tile, least);
        least = flop < least ? flop : least;
    }
    return least;
}
