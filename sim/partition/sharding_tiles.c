/* Shardings as tiles: the mesh axes of each dimension, in order. A group of devices is the set of axes in which its
 * devices differ. Functions for the whole mesh work within a group, too. */
#include "sim/partition/sharding_tiles.h"

#include <string.h>

/* ---- orders of axes ---- */

enum { NUMBER_BITS = 3, NUMBER_MASK = 7 };

/* Single axes, the major one first. */
struct sequence {
    int count;
    unsigned char axes[SIM_MOST_AXES];
};

static struct sequence unpacked(sim_order order)
{
    struct sequence s = {.count = 0};
    const unsigned set = sim_set_of(order), numbers = order >> SIM_MOST_AXES;
    for (unsigned rest = set; rest; rest &= rest - 1) {
        int at = s.count++;
        s.axes[at] =
            (unsigned char)(numbers ? numbers >> (NUMBER_BITS * at) & NUMBER_MASK : (unsigned)__builtin_ctz(rest));
    }
    return s;
}

static sim_order packed(const struct sequence *s)
{
    unsigned set = 0, numbers = 0;
    bool as_in_mesh = true;
    for (int i = 0; i < s->count; i++) {
        set |= 1u << s->axes[i];
        numbers |= (unsigned)s->axes[i] << (NUMBER_BITS * i);
        as_in_mesh = as_in_mesh && (!i || s->axes[i - 1] < s->axes[i]);
    }
    return as_in_mesh ? set : numbers << SIM_MOST_AXES | set;
}

/* True if every axis of b follows all axes of a in mesh order. */
static bool stands_behind(unsigned b, unsigned a)
{
    return !a || !b || a < (b & ~(b - 1));
}

sim_order sim_join(sim_order major, sim_order minor)
{
    if (!(minor & ~major & SIM_ALL_AXES)) return major; /* most joins have an empty operand, or equal ones */
    if (!major) return minor;
    if (major <= SIM_ALL_AXES && minor <= SIM_ALL_AXES && stands_behind(minor, major)) return major | minor;
    struct sequence s = unpacked(major), more = unpacked(minor);
    for (int i = 0; i < more.count; i++)
        if (!(sim_set_of(major) >> more.axes[i] & 1u)) s.axes[s.count++] = more.axes[i];
    return packed(&s);
}

bool sim_is_prefix(sim_order prefix, sim_order order)
{
    if (prefix == order || !prefix) return true;
    if (prefix & ~order & SIM_ALL_AXES) return false;
    struct sequence p = unpacked(prefix), whole = unpacked(order);
    return !memcmp(p.axes, whole.axes, (size_t)p.count);
}

sim_order sim_order_without(sim_order order, unsigned axes)
{
    if (order <= SIM_ALL_AXES) return order & ~axes;
    struct sequence s = unpacked(order), kept = {.count = 0};
    for (int i = 0; i < s.count; i++)
        if (!(axes >> s.axes[i] & 1u)) kept.axes[kept.count++] = s.axes[i];
    return packed(&kept);
}

int sim_order_axis(sim_order order, int at)
{
    unsigned rest = sim_set_of(order);
    if (order > SIM_ALL_AXES) return (int)(order >> (SIM_MOST_AXES + NUMBER_BITS * at) & NUMBER_MASK);
    for (; at > 0; at--) rest &= rest - 1;
    return __builtin_ctz(rest);
}

const char *sim_order_text(struct base_arena *arena, const struct topo_axes *mesh, sim_order order, const char *between)
{
    const struct sequence s = unpacked(order);
    struct base_text text = {.arena = arena};
    for (int i = 0; i < s.count; i++) base_putf(&text, "%s%s", i ? between : "", mesh->names[s.axes[i]]);
    return text.length ? text.data : "";
}

/* ---- orders of a program ---- */

sim_order sim_order_of_dim(const struct sim_orders *orders, sim_spec spec, int dim)
{
    const unsigned of = (unsigned)(spec >> (SIM_DIM_BITS * dim)) & ((1u << SIM_DIM_BITS) - 1);
    const unsigned set = of & SIM_ALL_AXES;
    int number = (int)(of >> SIM_MOST_AXES);
    for (int i = 0; i < orders->count && number > 0; i++)
        if (sim_set_of(orders->met[i]) == set && --number == 0) return orders->met[i];
    return set;
}

bool sim_order_number(struct sim_orders *orders, sim_order order, unsigned *number)
{
    *number = 0;
    if (order <= SIM_ALL_AXES) return true;
    for (int i = 0; i < orders->count; i++) {
        if (sim_set_of(orders->met[i]) == sim_set_of(order)) ++*number;
        if (orders->met[i] == order) return true;
    }
    if (++*number >> SIM_ORDER_BITS || orders->count == SIM_MOST_ORDERS) return false;
    orders->met[orders->count++] = order;
    return true;
}

/* ---- layouts ---- */

struct sim_layout sim_layout_of(const sim_order *spec, int rank)
{
    struct sim_layout layout = {{0}};
    memcpy(layout.of, spec, (size_t)rank * sizeof *spec);
    return layout;
}

bool sim_layouts_equal(const struct sim_layout *a, const struct sim_layout *b, int rank)
{
    return !memcmp(a->of, b->of, (size_t)rank * sizeof *a->of);
}

/* Represents a device by two coordinates per axis, which suffice. Each axis has one bit, the last axis the lowest, so
 * that numbers follow mesh order. Returns the bits of a set of axes. */
static unsigned turned(unsigned axes, int last)
{
    unsigned out = 0;
    for (unsigned rest = axes; rest; rest &= rest - 1) out |= 1u << (last - __builtin_ctz(rest));
    return out;
}

/* The first free device of a tile, given its coordinates along the tile's axes. */
static unsigned first_left(const bool *taken, unsigned all, unsigned axes, unsigned tile)
{
    unsigned device = 0;
    while ((device & ~all) || (device & axes) != (tile & axes) || taken[device]) device++;
    return device;
}

static bool has_devices(const struct sim_layout *a, const struct sim_layout *b, int rank, unsigned axes,
                        sim_order merged)
{
    const int last = 31 - __builtin_clz(axes);
    const unsigned all = turned(axes, last), of_a = turned(sim_layout_axes(a, rank), last),
                   of_b = turned(sim_layout_axes(b, rank), last);
    const struct sequence s = unpacked(merged);
    bool taken_a[SIM_ALL_AXES + 1] = {false}, taken_b[SIM_ALL_AXES + 1] = {false};
    const int copies = 1 << (__builtin_popcount(axes) - s.count);
    for (int i = 0; i < copies << s.count; i++) {
        unsigned tile = 0;
        for (int k = 0; k < s.count; k++)
            if (i / copies >> (s.count - 1 - k) & 1) tile |= turned(1u << s.axes[k], last);
        unsigned in_a = first_left(taken_a, all, of_a, tile), in_b = first_left(taken_b, all, of_b, tile);
        unsigned device = in_a > in_b ? in_a : in_b;
        bool in_both = ((device ^ tile) & (of_a | of_b)) == 0 && !taken_a[device] && !taken_b[device];
        if (!in_both) return false;
        taken_a[device] = taken_b[device] = true;
    }
    return true;
}

bool sim_layouts_merge(const struct sim_layout *a, const struct sim_layout *b, int rank, unsigned axes,
                       struct sim_layout *out)
{
    sim_order merged = 0;
    for (int d = 0; d < rank; d++) {
        sim_order both = a->of[d] ? a->of[d] : b->of[d];
        if ((b->of[d] && b->of[d] != both) || sim_set_of(merged & both)) return false;
        merged = sim_join(merged, both);
        out->of[d] = both;
    }
    return __builtin_popcount(axes) < 3 || has_devices(a, b, rank, axes, merged);
}

unsigned sim_layout_axes(const struct sim_layout *layout, int rank)
{
    unsigned axes = 0;
    for (int d = 0; d < rank; d++) axes |= layout->of[d];
    return sim_set_of(axes);
}

unsigned sim_mesh_axes(const struct sim_extents *extents)
{
    unsigned axes = 0;
    if (!extents->mesh) return SIM_ALL_AXES; /* without a mesh nothing is sharded */
    for (int i = 0; i < extents->mesh->count && i < SIM_MOST_AXES; i++)
        axes |= (unsigned)(extents->mesh->sizes[i] > 1) << i;
    return axes;
}

/* ---- numbers of tiles ---- */

int sim_ways(const struct sim_extents *extents, unsigned axes)
{
    int ways = 1;
    for (unsigned rest = sim_set_of(axes); rest; rest &= rest - 1) ways *= extents->mesh->sizes[__builtin_ctz(rest)];
    return ways;
}

/* With up to three axes, two products of different axes compare one axis with one or two others. A pair's number is
 * both axes, or the single one. 0 represents the sizes themselves. */
enum { COMPARED_AXES = 3, ALL_COMPARED_AXES = (1 << COMPARED_AXES) - 1, SIZES_COMPARED = 1 };

static unsigned pair_number(unsigned axes, unsigned others)
{
    const unsigned both = axes | others;
    if (both > ALL_COMPARED_AXES) return 0;
    if (both != ALL_COMPARED_AXES) return both;
    return __builtin_popcount(axes) == 1 ? axes : others;
}

static int product_of(const struct topo_axes *mesh, unsigned axes)
{
    return sim_ways(&(struct sim_extents){.mesh = mesh}, axes);
}

uint64_t sim_mesh_relation(const struct topo_axes *mesh, unsigned char compared)
{
    uint64_t relation = 0;
    for (int i = 0; compared & SIZES_COMPARED && i < mesh->count; i++)
        relation = (relation ^ (uint64_t)mesh->sizes[i]) * 0x9e3779b97f4a7c15u;
    for (unsigned rest = compared & ~1u; rest; rest &= rest - 1) {
        const unsigned number = (unsigned)__builtin_ctz(rest), first = number & (~number + 1),
                       second = number == first ? ALL_COMPARED_AXES & ~first : number & ~first;
        const int a = product_of(mesh, first), b = product_of(mesh, second);
        const bool bits[] = {a == b, a > b, a % b == 0, b % a == 0};
        for (int i = 0; i < BASE_COUNT(bits); i++) relation = relation << 1 ^ relation >> 63 ^ bits[i];
    }
    return relation;
}

void sim_note_mesh(const struct sim_extents *extents, unsigned axes, unsigned others)
{
    if (extents->decisions) extents->decisions->compared |= (unsigned char)(1u << pair_number(axes, others));
}

/* True if one set of axes contains the other, so that it makes more tiles. Other sets are compared by size. */
static bool names_tell(const struct sim_extents *extents, unsigned axes, unsigned others)
{
    unsigned shared = sim_set_of(axes & others);
    if (shared == sim_set_of(axes) || shared == sim_set_of(others)) return true;
    sim_note_mesh(extents, sim_set_of(axes & ~others), sim_set_of(others & ~axes));
    return false;
}

bool sim_as_many(const struct sim_extents *extents, unsigned axes, unsigned others)
{
    if (names_tell(extents, axes, others)) return !sim_set_of(axes ^ others);
    return sim_ways(extents, axes & ~others) == sim_ways(extents, others & ~axes);
}

bool sim_fewer(const struct sim_extents *extents, unsigned axes, unsigned others)
{
    if (names_tell(extents, axes, others)) return sim_set_of(others & ~axes) != 0;
    return sim_ways(extents, axes & ~others) < sim_ways(extents, others & ~axes);
}

bool sim_multiple(const struct sim_extents *extents, unsigned axes, unsigned of)
{
    if (names_tell(extents, axes, of)) return !sim_set_of(of & ~axes);
    return sim_ways(extents, axes & ~of) % sim_ways(extents, of & ~axes) == 0;
}

bool sim_take_beside(const struct sim_extents *extents, sim_order *sequence, unsigned beside, unsigned as_many_as,
                     sim_order *out)
{
    struct sequence whole = unpacked(*sequence), major = {.count = 0}, minor;
    *out = 0;
    if (!sim_set_of(as_many_as & ~beside) && !sim_set_of(beside & ~as_many_as)) return true;
    for (; major.count < whole.count; major.count++) major.axes[major.count] = whole.axes[major.count];
    for (int taken = 1; taken <= whole.count; taken++) {
        major.count = taken;
        sim_order some = packed(&major);
        if (!sim_as_many(extents, some | beside, as_many_as)) continue;
        minor.count = whole.count - taken;
        memcpy(minor.axes, whole.axes + taken, (size_t)minor.count);
        *out = some;
        *sequence = packed(&minor);
        return true;
    }
    *out = *sequence;
    *sequence = 0;
    return false;
}

bool sim_take(const struct sim_extents *extents, sim_order *sequence, unsigned as_many_as, sim_order *out)
{
    return sim_take_beside(extents, sequence, 0, as_many_as, out);
}

sim_order sim_sequence(const struct sim_layout *layout, int rank, unsigned axes)
{
    sim_order sequence = 0;
    for (int d = 0; d < rank; d++) sequence = sim_join(sequence, layout->of[d]);
    return sim_join(sequence, sim_set_of(axes) & ~sim_set_of(sequence));
}
