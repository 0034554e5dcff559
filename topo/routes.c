/* Routes from chip to chip on a torus: steps along x, then y, then z, in the shorter direction where a dimension
 * wraps around. On a twisted torus, wrapping around a short dimension also moves along the long ones. Several
 * combinations of wraps are therefore tried, and all of the shortest are kept. */
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

/* A dimension of two chips has one link between them, wrap or not. */
bool topo_closes(const struct topo_topology *t, int dimension)
{
    return t->wrap[dimension] && t->bounds[dimension] > 2;
}

void topo_step(const struct topo_topology *t, int at[3], int dimension, int direction)
{
    int size = t->bounds[dimension], by = direction ? -1 : 1, next = at[dimension] + by;
    if (next >= 0 && next < size) {
        at[dimension] = next;
        return;
    }
    at[dimension] = next < 0 ? size - 1 : 0;
    if (!t->twisted) return;
    for (int d = 0; d < 3; d++) {
        int along = t->bounds[d];
        at[d] = ((at[d] + by * t->twist[dimension][d]) % along + along) % along;
    }
}

struct range {
    int low, high;
};

/* Upward wraps that a shortest route on a twisted torus may use: one in either direction, or up to two if other
 * dimensions' wraps move along this one. */
static struct range likely_wraps(const struct topo_topology *t, int dimension)
{
    bool twisted_into = false;
    if (!topo_closes(t, dimension)) return (struct range){0, 0};
    for (int d = 0; d < 3; d++) twisted_into = twisted_into || t->twist[d][dimension];
    return twisted_into ? (struct range){-2, 2} : (struct range){-1, 1};
}

/* Ranks of one machine have static routes: among equally long routes the last one, which goes up. */
static void keep_if_shortest(const struct topo_topology *t, struct topo_ways *ways, const int steps[3])
{
    int length = abs(steps[0]) + abs(steps[1]) + abs(steps[2]);
    if (ways->count && length > ways->length) return;
    if (!ways->count || length < ways->length || t->kind == TOPO_LOCAL) ways->count = 0;
    ways->length = length;
    if (ways->count < TOPO_MOST_WAYS) memcpy(ways->steps[ways->count++], steps, sizeof ways->steps[0]);
}

static void twisted_ways(const struct topo_topology *t, const int from[3], const int to[3], struct topo_ways *out)
{
    struct range x = likely_wraps(t, 0), y = likely_wraps(t, 1), z = likely_wraps(t, 2);
    for (int i = x.low; i <= x.high; i++)
        for (int j = y.low; j <= y.high; j++)
            for (int k = z.low; k <= z.high; k++) {
                const int wraps[3] = {i, j, k};
                int steps[3];
                for (int d = 0; d < 3; d++) {
                    steps[d] = to[d] - from[d] + wraps[d] * t->bounds[d];
                    for (int e = 0; e < d; e++) steps[d] -= wraps[e] * t->twist[e][d];
                }
                keep_if_shortest(t, out, steps);
            }
}

/* Steps along one dimension of an untwisted torus: down and up, if both are equally long. */
struct shorter {
    int count, steps[2];
};

static struct shorter shorter_way(const struct topo_topology *t, int dimension, int apart)
{
    if (apart == 0 || !topo_closes(t, dimension)) return (struct shorter){1, {apart}};
    int up = apart > 0 ? apart : apart + t->bounds[dimension], down = up - t->bounds[dimension];
    if (up != -down) return (struct shorter){1, {up < -down ? up : down}};
    if (t->kind == TOPO_LOCAL) return (struct shorter){1, {up}};
    return (struct shorter){2, {down, up}};
}

/* Untwisted: the dimensions are independent. */
static void straight_ways(const struct topo_topology *t, const int from[3], const int to[3], struct topo_ways *out)
{
    struct shorter along[3];
    for (int d = 0; d < 3; d++) along[d] = shorter_way(t, d, to[d] - from[d]);
    out->length = abs(along[0].steps[0]) + abs(along[1].steps[0]) + abs(along[2].steps[0]);
    for (int i = 0; i < along[0].count; i++)
        for (int j = 0; j < along[1].count; j++)
            for (int k = 0; k < along[2].count; k++) {
                int *steps = out->steps[out->count++];
                steps[0] = along[0].steps[i], steps[1] = along[1].steps[j], steps[2] = along[2].steps[k];
            }
}

void topo_shortest_ways(const struct topo_topology *t, const int from[3], const int to[3], struct topo_ways *out)
{
    out->count = 0;
    (t->twisted ? twisted_ways : straight_ways)(t, from, to, out);
}
