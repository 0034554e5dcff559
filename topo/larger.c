/* The next larger topology. */
#include "topo/topo.h"

#include <string.h>

enum { MOST_GPUS = 1 << 14 };

static const char *next_slice(const char *chip, int *device_count)
{
    int count, least = INT32_MAX;
    const char *name = NULL;
    const struct topo_slice *slices = topo_slices(&count);
    for (int i = 0; i < count; i++)
        if (!strcmp(slices[i].chip, chip) && slices[i].device_count > *device_count && slices[i].device_count < least) {
            least = slices[i].device_count;
            name = slices[i].accelerator_type;
        }
    if (name) *device_count = least;
    return name;
}

const char *topo_next_larger(struct base_arena *arena, const struct topo_topology *topology, int *device_count)
{
    if (strchr(topology->name, '@')) return NULL; /* overrides hold for this topology only */
    if (topology->kind == TOPO_TPU) return next_slice(topology->chip.name, device_count);
    if (topology->kind != TOPO_GPU || *device_count >= MOST_GPUS) return NULL;
    *device_count *= 2;
    return base_print(arena, "%s:%dx%d", topology->chip.name, *device_count / topology->bounds[1], topology->bounds[1]);
}
