/* The catalogue of chips and slices: chips.csv and slices.csv as constants. Slices of one chip follow each other, the
 * smallest first. */
#include "topo/topo.h"

#include <string.h>

enum { MOST_GPUS = 1 << 14 };

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

const struct topo_slice *topo_slices_of(const char *chip, int *count)
{
    const struct topo_slice *first = embedded_topo_slices_csv, *end = first + embedded_topo_slices_csv_count;
    while (first < end && strcmp(first->chip, chip) != 0) first++;
    for (*count = 0; first + *count < end && !strcmp(first[*count].chip, chip);) ++*count;
    return first;
}

const struct topo_slice *topo_slice_of_shape(const struct topo_topology *topology)
{
    int count;
    const struct topo_slice *slices = topo_slices_of(topology->chip.name, &count);
    for (int i = 0; i < count; i++)
        if (!memcmp(slices[i].shape, topology->bounds, sizeof slices[i].shape)) return &slices[i];
    return NULL;
}

const char *topo_next_larger(struct base_arena *arena, const struct topo_topology *topology, int *device_count)
{
    int count, i = 0;
    if (strchr(topology->name, '@')) return NULL; /* overrides hold for this topology only */
    const struct topo_slice *slices = topo_slices_of(topology->chip.name, &count);
    while (i < count && slices[i].device_count <= *device_count) i++;
    if (i < count) return *device_count = slices[i].device_count, slices[i].accelerator_type;
    if (topology->kind != TOPO_GPU || *device_count >= MOST_GPUS) return NULL;
    *device_count *= 2;
    return base_print(arena, "%s:%dx%d", topology->chip.name, *device_count / topology->bounds[1], topology->bounds[1]);
}
