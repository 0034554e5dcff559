/* Meshes for tests: T5X's two axes, and sets of them. */
#ifndef MESHES_H
#define MESHES_H

#include "topo/topo.h"

enum { T5X_DATA = 1, T5X_MODEL = 2, T5X_BOTH = 3, T5X_SETS = 4 };

static inline struct topo_axes t5x_mesh(int data, int model)
{
    return (struct topo_axes){.count = 2, .names = {"data", "model"}, .sizes = {data, model}};
}

#endif
