/* Collective algorithms as schedules: their messages and the order between them. */
#include "sim/network/group_lines.h"
#include "sim/network/network.h"

#include <string.h>

const char *sim_algorithm_name(enum sim_algorithm algorithm)
{
    static const char *const names[SIM_ALGORITHM_COUNT] = {
        "ring", "ring_one_way", "multi_ring", "bucket",   "halving_doubling", "doubling",
        "tree", "double_tree",  "direct",     "pairwise", "dimension"};
    return names[algorithm];
}

struct builder {
    const struct topo_network *network;
    const struct sim_groups *groups;
    struct sim_schedule *schedule;
    enum sim_collective collective;
    double bytes; /* the whole array that a ring transfers: the operand, or the gathered array */
    int chain;
};

/* Reduce-scatter and all-gather take one pass, an all-reduce both. */
static int passes(const struct builder *b)
{
    return b->collective == SIM_ALL_REDUCE ? 2 : 1;
}

static bool reduces_or_gathers(const struct builder *b)
{
    return b->collective <= SIM_REDUCE_SCATTER;
}

static void put_round(struct builder *b, struct sim_round round)
{
    struct sim_schedule *s = b->schedule;
    round.chain = b->chain;
    if (round.last < round.first) round.last = round.first;
    s->rounds = base_grown(b->network->arena, s->rounds, s->round_count, &s->round_capacity, sizeof(struct sim_round));
    s->rounds[s->round_count++] = round;
    if (b->chain >= s->chain_count) s->chain_count = b->chain + 1;
}


/* ---- rings ---- */

/* Sends `bytes` over the groups' rings, pass_count times, half of each part in either direction. Sending whole parts
 * half way around in both directions takes the same time. */
static void go_round(struct builder *b, const struct sim_groups *groups, double bytes, int pass_count)
{
    int n = groups->size;
    put_round(b, (struct sim_round){.groups = groups,
                                    .pattern = SIM_BOTH_WAYS,
                                    .first = 1,
                                    .bytes = pass_count * bytes / n * (n - 1) / 2,
                                    .steps = pass_count * n / 2.0});
}

static bool ring(struct builder *b)
{
    if (!reduces_or_gathers(b)) return false;
    go_round(b, b->groups, b->bytes, passes(b));
    return true;
}

static bool ring_one_way(struct builder *b)
{
    int n = b->groups->size;
    if (!reduces_or_gathers(b)) return false;
    put_round(b, (struct sim_round){.groups = b->groups,
                                    .pattern = SIM_SHIFT,
                                    .first = 1,
                                    .bytes = passes(b) * b->bytes / n * (n - 1),
                                    .steps = passes(b) * (n - 1)});
    return true;
}

static bool multi_ring(struct builder *b)
{
    struct sim_groups *rings = base_new(b->network->arena, struct sim_groups, SIM_MOST_RINGS);
    if (!reduces_or_gathers(b)) return false;
    int count = sim_disjoint_rings(b->network, b->groups, rings);
    for (; b->chain < count; b->chain++) go_round(b, &rings[b->chain], b->bytes / count, passes(b));
    return count > 0;
}

/* ---- dimension by dimension ---- */

/* The order of a box's dimensions for one colour. Every order is a colour, so that all dimensions are busy at once and
 * treated alike. Slices come last, when the fewest bytes are left. */
static int dimensions_of_colour(const struct sim_boxes *boxes, int colour, int order[SIM_LINE_DIMENSIONS])
{
    int of_torus[SIM_LINE_DIMENSIONS], left = 0, count = 0;
    for (int d = 0; d < 3; d++)
        if (boxes->sizes[d] > 1) of_torus[left++] = d;
    for (; left > 0; left--) {
        const int pick = colour % left;
        colour /= left;
        order[count++] = of_torus[pick];
        memmove(of_torus + pick, of_torus + pick + 1, (size_t)(left - pick - 1) * sizeof *of_torus);
    }
    if (boxes->sizes[3] > 1) order[count++] = 3;
    return count;
}

static int colours_of(const struct sim_boxes *boxes)
{
    int colours = 1;
    for (int d = 0, several = 0; d < 3; d++)
        if (boxes->sizes[d] > 1) colours *= ++several;
    return colours;
}

/* A colour's part is scattered along one dimension after another, and gathered on the way back. The cores of a chip
 * reduce before, or distribute after, so that a chip has one part of the array. */
static void put_buckets(struct builder *b, const struct sim_boxes *boxes, const int *order, int count, double bytes)
{
    double left[SIM_LINE_DIMENSIONS + 1] = {bytes};
    for (int i = 0; i < count; i++) left[i + 1] = left[i] / boxes->sizes[order[i]];
    if (b->collective != SIM_ALL_GATHER)
        for (int i = 0; i < count; i++) go_round(b, &boxes->lines[order[i]], left[i], 1);
    if (b->collective != SIM_REDUCE_SCATTER)
        for (int i = count - 1; i >= 0; i--) go_round(b, &boxes->lines[order[i]], left[i], 1);
}

/* A chip sends the messages of all its cores for other chips. */
static void put_exchanges(struct builder *b, const struct sim_boxes *boxes, const int *order, int count, double bytes)
{
    bytes *= boxes->cores;
    for (int i = 0; i < count; i++) {
        int n = boxes->sizes[order[i]];
        put_round(b, (struct sim_round){.groups = &boxes->lines[order[i]],
                                        .pattern = SIM_SHIFT,
                                        .first = 1,
                                        .last = n - 1,
                                        .bytes = bytes / n,
                                        .steps = 1});
    }
}

static bool by_colours(struct builder *b,
                       void (*put)(struct builder *, const struct sim_boxes *, const int *, int, double))
{
    struct sim_boxes *boxes = base_new(b->network->arena, struct sim_boxes, 1);
    int order[SIM_LINE_DIMENSIONS];
    if (!sim_boxes_find(b->network, b->groups, boxes)) return false;
    for (int colours = colours_of(boxes); b->chain < colours; b->chain++)
        put(b, boxes, order, dimensions_of_colour(boxes, b->chain, order), b->bytes / colours);
    return true;
}

static bool bucket(struct builder *b)
{
    return reduces_or_gathers(b) && by_colours(b, put_buckets);
}

static bool by_dimension(struct builder *b)
{
    return b->collective == SIM_ALL_TO_ALL && by_colours(b, put_exchanges);
}

/* ---- powers of two ---- */

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* A reduce-scatter swaps halves with the farthest partner, then quarters with nearer ones. An all-gather reverses
 * this. */
static bool halving_doubling(struct builder *b)
{
    int n = b->groups->size;
    if (!reduces_or_gathers(b) || !is_power_of_two(n)) return false;
    if (b->collective != SIM_ALL_GATHER)
        for (int distance = n / 2; distance > 0; distance /= 2)
            put_round(b, (struct sim_round){.groups = b->groups,
                                            .pattern = SIM_SWAP,
                                            .first = distance,
                                            .bytes = b->bytes / n * distance,
                                            .steps = 1});
    if (b->collective != SIM_REDUCE_SCATTER)
        for (int distance = 1; distance < n; distance *= 2)
            put_round(b, (struct sim_round){.groups = b->groups,
                                            .pattern = SIM_SWAP,
                                            .first = distance,
                                            .bytes = b->bytes / n * distance,
                                            .steps = 1});
    return true;
}

static bool doubling(struct builder *b)
{
    int n = b->groups->size;
    if (b->collective != SIM_ALL_REDUCE || !is_power_of_two(n)) return false;
    for (int distance = 1; distance < n; distance *= 2)
        put_round(b, (struct sim_round){
                         .groups = b->groups, .pattern = SIM_SWAP, .first = distance, .bytes = b->bytes, .steps = 1});
    return true;
}

static bool tree(struct builder *b)
{
    int n = b->groups->size, top = 1;
    if (b->collective != SIM_ALL_REDUCE) return false;
    while (top < n) top *= 2;
    for (int distance = 1; distance < top; distance *= 2)
        put_round(b, (struct sim_round){
                         .groups = b->groups, .pattern = SIM_FOLD, .first = distance, .bytes = b->bytes, .steps = 1});
    for (int distance = top / 2; distance > 0; distance /= 2)
        put_round(b, (struct sim_round){
                         .groups = b->groups, .pattern = SIM_SPREAD, .first = distance, .bytes = b->bytes, .steps = 1});
    return true;
}

/* Blocks are pipelined through a tree, so that all its edges are busy at once. One round in each direction models this.
 * Its time is that of the bottleneck link, plus one block's latency up and down. */
static bool double_tree(struct builder *b)
{
    struct sim_groups *trees = base_new(b->network->arena, struct sim_groups, 2 * SIM_MOST_RINGS);
    if (b->collective != SIM_ALL_REDUCE || b->network->torus) return false;
    int members, count = sim_trees_over_nodes(b->network, b->groups, trees, &members), depth = 0;
    while (count && 1 << depth < b->groups->size / members) depth++;
    for (int i = 0; i < 2 * count; i++, b->chain++)
        put_round(b, (struct sim_round){.groups = &trees[i / 2],
                                        .pattern = i % 2 ? SIM_TO_CHILDREN : SIM_TO_PARENT,
                                        .first = members,
                                        .bytes = b->bytes / count,
                                        .steps = 2 * depth});
    return count > 0;
}

/* ---- all-to-all ---- */

static bool direct(struct builder *b)
{
    int n = b->groups->size;
    bool neighbours = b->collective == SIM_COLLECTIVE_PERMUTE;
    if (reduces_or_gathers(b)) return false;
    put_round(b, (struct sim_round){.groups = b->groups,
                                    .pattern = SIM_SHIFT,
                                    .first = 1,
                                    .last = neighbours ? 1 : n - 1,
                                    .bytes = neighbours ? b->bytes : b->bytes / n,
                                    .steps = 1});
    return true;
}

static bool pairwise(struct builder *b)
{
    int n = b->groups->size;
    if (b->collective != SIM_ALL_TO_ALL) return false;
    for (int distance = 1; distance < n; distance++)
        put_round(b,
                  (struct sim_round){
                      .groups = b->groups, .pattern = SIM_SHIFT, .first = distance, .bytes = b->bytes / n, .steps = 1});
    return true;
}

/* ---- entry points ---- */

bool sim_schedule_build(const struct topo_network *network, const struct sim_groups *groups,
                        enum sim_collective collective, enum sim_algorithm algorithm, double bytes,
                        struct sim_schedule *out)
{
    static bool (*const build[SIM_ALGORITHM_COUNT])(struct builder *) = {
        [SIM_ALGORITHM_RING] = ring,
        [SIM_ALGORITHM_RING_ONE_WAY] = ring_one_way,
        [SIM_ALGORITHM_MULTI_RING] = multi_ring,
        [SIM_ALGORITHM_BUCKET] = bucket,
        [SIM_ALGORITHM_BY_DIMENSION] = by_dimension,
        [SIM_ALGORITHM_HALVING_DOUBLING] = halving_doubling,
        [SIM_ALGORITHM_DOUBLING] = doubling,
        [SIM_ALGORITHM_TREE] = tree,
        [SIM_ALGORITHM_DOUBLE_TREE] = double_tree,
        [SIM_ALGORITHM_DIRECT] = direct,
        [SIM_ALGORITHM_PAIRWISE] = pairwise,
    };
    *out = (struct sim_schedule){.round_count = 0};
    struct builder b = {.network = network, .groups = groups, .schedule = out, .collective = collective};
    b.bytes = collective == SIM_ALL_GATHER ? bytes * groups->size : bytes;
    if (groups->size < 2) return true;
    return build[algorithm] && build[algorithm](&b);
}

bool sim_algorithm_applies(const struct topo_network *network, const struct sim_groups *groups,
                           enum sim_collective collective, enum sim_algorithm algorithm)
{
    struct sim_schedule unused;
    return sim_schedule_build(network, groups, collective, algorithm, 0, &unused);
}
