/* The work of a product as matrix units do it, in whole tiles. */
#include "sim/machine/machine.h"

#include <math.h>

static double padded(double size, double tile)
{
    return tile > 1 ? ceil(size / tile) * tile : size;
}

/* Matrix units hold a tile of one operand and stream rows of the other: contraction and columns are padded to the
 * unit's side, rows to a vector register. The compiler chooses the cheaper operand to hold. */
double sim_product_flop(const struct sim_profile *profile, const struct sim_product *of)
{
    double unit = profile->constants[SIM_MATRIX_UNIT_DIM], contracted = padded(of->contracted, unit),
           tile = unit > 1 ? profile->constants[SIM_MATRIX_UNIT_ROWS] : 1;
    double one = padded(of->rows, tile) * padded(of->columns, unit),
           other = padded(of->rows, unit) * padded(of->columns, tile);
    return 2 * of->batch * contracted * (one < other ? one : other);
}

/* A grouped product goes over tiles of sorted tokens, the last one padded. A tile that two experts share is multiplied
 * with each one's matrix, so that each expert with tokens but the first has one tile more. Widths are padded to tiles
 * where they are larger. */
double sim_grouped_product_flop(const struct sim_profile *profile, const struct sim_product *of, bool sums_tokens)
{
    const double rows = profile->constants[SIM_GROUP_TILE_ROWS], dim = profile->constants[SIM_GROUP_TILE_DIM],
                 tokens = of->batch * (sums_tokens ? of->contracted : of->rows),
                 other = sums_tokens ? of->rows : of->contracted;
    if (!(rows > 0)) return sim_product_flop(profile, of);
    const struct sim_product tiled = {1, (ceil(tokens / rows) + fmin(of->batch, tokens) - 1) * rows,
                                      padded(of->columns, fmin(dim, of->columns)), padded(other, fmin(dim, other))};
    return sim_product_flop(profile, &tiled);
}

int sim_rate_constant(enum model_dtype dtype)
{
    static const struct {
        enum model_dtype dtype;
        enum sim_constant constant;
    } rates[] = {{MODEL_FLOAT32, SIM_FLOAT32_FLOP_FRAC},
                 {MODEL_FP8, SIM_FP8_FLOP_FRAC},
                 {MODEL_MXFP8, SIM_MXFP8_FLOP_FRAC},
                 {MODEL_NVFP4, SIM_NVFP4_FLOP_FRAC},
                 {MODEL_INT8, SIM_INT8_FLOP_FRAC}};
    for (int i = 0; i < BASE_COUNT(rates); i++)
        if (rates[i].dtype == dtype) return (int)rates[i].constant;
    return -1;
}

double sim_rate_frac(const struct sim_profile *profile, enum model_dtype dtype)
{
    const int constant = sim_rate_constant(dtype);
    return constant >= 0 && profile->constants[constant] > 0 ? profile->constants[constant] : 1;
}
