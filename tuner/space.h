/* Private to tuner/. */
#ifndef TUNER_SPACE_H
#define TUNER_SPACE_H

#include "tuner/tuner.h"

/* Makes of the given values of ici_mesh the meshes that they stand for (named_meshes.c); axes: their names, every
 * size 1. BASE_INPUT: no such list, or too many. */
enum base_status tuner_named_meshes(struct tuner_space *space, const struct topo_topology *topology,
                                    struct tuner_values *meshes, struct topo_axes *axes, struct base_error *error);
void tuner_refuse(struct tuner_space *space, const char *message, int64_t plan_count);

#endif
