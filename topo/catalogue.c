/* The catalogue of chips and slices: chips.csv and slices.csv as constants. */
#include "topo/topo.h"

extern const struct topo_chip embedded_topo_chips_csv[];
extern const struct topo_slice embedded_topo_slices_csv[];
extern const int embedded_topo_chips_csv_count, embedded_topo_slices_csv_count;

const struct topo_chip *topo_chips(int *count)
{
    *count = embedded_topo_chips_csv_count;
    return embedded_topo_chips_csv;
}

const struct topo_slice *topo_slices(int *count)
{
    *count = embedded_topo_slices_csv_count;
    return embedded_topo_slices_csv;
}
