/* Matrix products on GPUs. A library splits the result into tiles, one thread block each, which run on the
 * multiprocessors in waves. It chooses the fastest tile and split of the contraction. Tiles are rows of gpu_tiles.csv.
 */
#include "sim/machine/gpu_tiles.csv.h"
#include "sim/machine/machine.h"

#include <math.h>

const struct sim_tiles sim_tiles_table = {.of = {GPU_TILES_ROWS}, .count = GPU_TILES_COUNT};

/* With several waves of tiles the contraction is not split: all multiprocessors have work. The lower bound of a tile is
 * the work of all blocks without launches; tiles above the best time so far are skipped, with a margin for rounding. */
static double in_tiles(const struct sim_profile *profile, const struct sim_product *of, int tile, double known)
{
    const double *c = profile->constants, multiprocessors = c[SIM_MULTIPROCESSORS],
                 height = profile->tiles.of[tile].rows, width = profile->tiles.of[tile].columns,
                 rate_frac = profile->tiles.of[tile].rate_frac, area = height * width, rounding = 1e-9;
    const double blocks = of->batch * (ceil(of->rows / height) * ceil(of->columns / width)); /* exact below 2^45 */
    if (2 * blocks * of->contracted * area / rate_frac * (1 - rounding) > known) return known;
    double least = INFINITY;
    for (double parts = 1; parts == 1 || (parts <= c[SIM_TILE_PARTS] && blocks * parts < 4 * multiprocessors);
         parts *= 2) {
        const double waves = ceil(blocks * parts / multiprocessors),
                     steps = of->contracted / parts + c[SIM_TILE_START_STEPS] * (parts > 1 ? 2 : 1),
                     work = waves * steps;
        least = work < least ? work : least;
    }
    return 2 * least * multiprocessors * height * width / rate_frac;
}

double sim_masked_frac(const struct sim_profile *profile)
{
    static const double behind_diagonal_frac = 0.5;
    return profile->constants[SIM_ATTENTION_EFFICIENCY_FRAC] > 0 ? behind_diagonal_frac : 0;
}

double sim_attention_share(const struct sim_profile *profile, enum model_direction direction)
{
    const double *c = profile->constants;
    if (!(c[SIM_ATTENTION_EFFICIENCY_FRAC] > 0)) return 1;
    return (direction == MODEL_CAUSAL ? 1 - sim_masked_frac(profile) : 1) * c[SIM_MATMUL_EFFICIENCY_FRAC] /
           c[SIM_ATTENTION_EFFICIENCY_FRAC];
}

double sim_tiled_product_flop(const struct sim_profile *profile, const struct sim_product *of)
{
    double least = INFINITY;
    for (int tile = 0; tile < profile->tiles.count; tile++) {
        const double flop = in_tiles(profile, of, tile, least);
        least = flop < least ? flop : least;
    }
    return least;
}
