/* The work of a product as matrix units do it, in whole tiles. */
#include "sim/machine/machine.h"

#include <math.h>

static double padded(double size, double tile)
{
    return tile > 1 ? ceil(size / tile) * tile : size;
}

/* Matrix units hold a tile of one operand and stream rows of the other: contraction and columns are padded to the
 * unit's side, rows to those of a vector register. Which operand stays is the compiler's choice; it takes the cheaper.
 */
double sim_product_flop(const struct sim_profile *profile, const struct sim_product *of)
{
    double unit = profile->constants[SIM_MATRIX_UNIT_DIM], contracted = padded(of->contracted, unit),
           tile = unit > 1 ? profile->constants[SIM_MATRIX_UNIT_ROWS] : 1;
    double one = padded(of->rows, tile) * padded(of->columns, unit),
           other = padded(of->rows, unit) * padded(of->columns, tile);
    return 2 * of->batch * contracted * (one < other ? one : other);
}
