/* Shardings as tiles: which mesh axes cut which dimension, in which order. A group of devices is a set of axes, its
 * devices differ in these; what is said of the whole mesh holds within a group, too. */
#include "sim/partition/sharding_tiles.h"

#include <string.h>

sim_order sim_join(sim_order major, sim_order minor)
{
    return (sim_order)(major | minor | (major == SIM_TENSOR && minor == SIM_DATA ? SIM_MODEL_ABOVE : 0));
}

struct sim_layout sim_layout_of(const unsigned char *spec, int rank)
{
    struct sim_layout layout = {{0}};
    memcpy(layout.of, spec, (size_t)rank);
    return layout;
}

void sim_layout_spec(const struct sim_layout *layout, int rank, unsigned char *spec)
{
    for (int d = 0; d < rank; d++) spec[d] = layout->of[d] & SIM_BOTH;
}

bool sim_layouts_equal(const struct sim_layout *a, const struct sim_layout *b, int rank)
{
    return !memcmp(a->of, b->of, (size_t)rank);
}

unsigned sim_layout_axes(const struct sim_layout *layout, int rank)
{
    unsigned axes = 0;
    for (int d = 0; d < rank; d++) axes |= layout->of[d];
    return axes & SIM_BOTH;
}

unsigned sim_mesh_axes(const struct sim_extents *extents)
{
    if (!extents->mesh) return SIM_BOTH; /* who has no mesh shards nothing */
    return (extents->mesh[0] > 1 ? (unsigned)SIM_DATA : 0) | (extents->mesh[1] > 1 ? (unsigned)SIM_TENSOR : 0);
}

/* ---- numbers of tiles ---- */

int sim_ways(const struct sim_extents *extents, unsigned axes)
{
    return (axes & SIM_DATA ? extents->mesh[0] : 1) * (axes & SIM_TENSOR ? extents->mesh[1] : 1);
}

unsigned sim_mesh_relation(const int *mesh)
{
    const bool relation[] = {mesh[0] == mesh[1], mesh[0] > mesh[1], mesh[0] % mesh[1] == 0, mesh[1] % mesh[0] == 0};
    unsigned bits = 0;
    for (int i = 0; i < BASE_COUNT(relation); i++) bits |= (unsigned)relation[i] << i;
    return bits;
}

void sim_note_mesh(const struct sim_extents *extents)
{
    if (extents->decisions) extents->decisions->compares_mesh = true;
}

/* Some axes and more of them make more tiles; but data against model? */
static bool names_tell(const struct sim_extents *extents, unsigned axes, unsigned others)
{
    unsigned shared = axes & others & SIM_BOTH;
    if (shared == (axes & SIM_BOTH) || shared == (others & SIM_BOTH)) return true;
    sim_note_mesh(extents);
    return false;
}

bool sim_as_many(const struct sim_extents *extents, unsigned axes, unsigned others)
{
    if (names_tell(extents, axes, others)) return !((axes ^ others) & SIM_BOTH);
    return extents->mesh[0] == extents->mesh[1];
}

bool sim_fewer(const struct sim_extents *extents, unsigned axes, unsigned others)
{
    if (names_tell(extents, axes, others)) return (others & ~axes & SIM_BOTH) != 0;
    return sim_ways(extents, axes) < sim_ways(extents, others);
}

bool sim_multiple(const struct sim_extents *extents, unsigned axes, unsigned of)
{
    if (names_tell(extents, axes, of)) return !(of & ~axes & SIM_BOTH);
    return sim_ways(extents, axes) % sim_ways(extents, of) == 0;
}

bool sim_take(const struct sim_extents *extents, sim_order *sequence, unsigned as_many_as, sim_order *out)
{
    sim_order whole = *sequence, major = whole & SIM_MODEL_ABOVE ? SIM_TENSOR : whole & SIM_DATA ? SIM_DATA : whole;
    *out = !as_many_as ? 0 : sim_as_many(extents, major, as_many_as) ? major : whole;
    *sequence = *out == whole ? 0 : *out ? (sim_order)((whole & SIM_BOTH) ^ *out) : whole;
    return sim_as_many(extents, *out, as_many_as);
}

sim_order sim_sequence(const struct sim_layout *layout, int rank, unsigned axes)
{
    sim_order sequence = 0;
    for (int d = 0; d < rank; d++) sequence = sim_join(sequence, layout->of[d]);
    return sim_join(sequence, (sim_order)(axes & ~(unsigned)sequence));
}
