/* Simulates a schedule on a network by events. A round's messages become flows. The last flow to end starts the next
 * round of its chain. */
#include "sim/network/network.h"
#include "sim/network/sharing.h"

#include <math.h>
#include <string.h>

/* A chain of rounds and its current round. */
struct chain {
    int round;            /* index into the schedule; round_count: finished */
    int under_way;        /* active flows of that round */
    double latency_s;     /* latency of that round, if rounds wait for it */
    double due_s;         /* when the next round starts */
    double hop_latency_s; /* latencies of all rounds */
};

struct simulation {
    const struct topo_network *network;
    const struct sim_schedule *schedule;
    const struct sim_link_rates *rates;
    struct sim_sharing sharing;
    struct topo_paths paths;
    struct chain *chains;
    double *link_bytes_per_s, *link_bytes, *link_weight; /* [link] */
    double now_s, busiest_s;
    int64_t message_count, event_count;
    bool alike; /* all active messages have one size: only byte sums matter */
};

/* ---- the messages of a round ---- */

/* NCCL's tree of nodes. Node 0 is the root; its only child is the largest power of two. The children of any other node
 * are half of its lowest set bit away on either side. If a parent would be beyond the last node, a nearer node replaces
 * it. So no node has more than two children. */
static int parent_of_node(int node, int nodes)
{
    const int bit = node & -node, parent = (node ^ bit) | (bit << 1);
    return node == 0 ? -1 : parent >= nodes ? node ^ bit : parent;
}

static int parent_in_tree(int place, int members, int n)
{
    if (place % members) return place - 1;
    const int parent = parent_of_node(place / members, n / members);
    return parent < 0 ? -1 : parent * members;
}

/* The place that receives from a place in a group of n; -1: none. A negative distance reverses the direction. Down a
 * tree: the place that it receives from. */
static int receiver(enum sim_pattern pattern, int place, int distance, int n)
{
    switch (pattern) {
    case SIM_SHIFT:
    case SIM_BOTH_WAYS: return (place + distance + n) % n;
    case SIM_SWAP: return (place ^ distance) < n ? place ^ distance : -1;
    case SIM_FOLD: return (place & -place) == distance ? place - distance : -1;
    case SIM_TO_PARENT:
    case SIM_TO_CHILDREN: return parent_in_tree(place, distance, n);
    case SIM_SPREAD: return place % (2 * distance) == 0 && place + distance < n ? place + distance : -1;
    }
    return -1;
}

static double path_latency(const struct simulation *s, int first, int end)
{
    double latency_s = 0;
    for (int i = first; i < end; i++) latency_s += s->rates->latency_s[s->network->links[s->paths.links[i]].kind];
    return latency_s;
}

static void put_flow(struct simulation *s, int chain, int first, int end, double share, double bytes)
{
    const struct sim_flow flow = {.chain = chain, .weight = share, .left_bytes = bytes * share, .since_s = s->now_s};
    sim_sharing_put(&s->sharing, flow, &s->paths.links[first], end - first);
}

static void tally(struct simulation *s, int link, double share, double bytes)
{
    s->link_weight[link] += share;
    double busy_s = s->link_weight[link] * bytes / s->link_bytes_per_s[link];
    if (busy_s > s->busiest_s) s->busiest_s = busy_s;
}

/* Sends a message over its paths; returns the latency of the longest path. */
static double send(struct simulation *s, int chain, double bytes)
{
    double longest_s = 0, share = s->paths.count ? 1.0 / s->paths.count : 0;
    for (int p = 0, first = 0; p < s->paths.count; first = s->paths.end[p++]) {
        int end = s->paths.end[p];
        double latency_s = path_latency(s, first, end);
        if (latency_s > longest_s) longest_s = latency_s;
        for (int i = first; i < end; i++) s->link_bytes[s->paths.links[i]] += bytes * share;
        if (!s->alike) put_flow(s, chain, first, end, share, bytes);
        for (int i = first; i < end && s->alike; i++) tally(s, s->paths.links[i], share, bytes);
    }
    s->message_count++;
    return longest_s;
}

/* ---- rounds ---- */

static bool is_tree(enum sim_pattern pattern)
{
    return pattern == SIM_TO_PARENT || pattern == SIM_TO_CHILDREN;
}

/* Bytes that are forwarded round after round use one message's path after another. So a step's latency is the mean over
 * a group's messages, and the slowest group counts. In a tree of nodes it is the longest path between nodes. */
static void start_group(struct simulation *s, int chain, const struct sim_round *round, int group, double *latency_s)
{
    int n = round->groups->size, count = 0;
    const int *nodes = round->groups->nodes + (size_t)group * (size_t)n;
    double sum_s = 0, longest_s = 0;
    for (int distance = round->first; distance <= round->last; distance++)
        for (int i = 0; i < (round->pattern == SIM_BOTH_WAYS ? 2 * n : n); i++) {
            int place = i % n, to = receiver(round->pattern, place, i < n ? distance : -distance, n);
            if (to < 0) continue;
            const bool down = round->pattern == SIM_TO_CHILDREN;
            topo_network_paths(s->network, nodes[down ? to : place], nodes[down ? place : to], &s->paths);
            const double one_s = send(s, chain, round->bytes);
            sum_s += one_s;
            if (one_s > longest_s) longest_s = one_s;
            count++;
        }
    double mean_s = count ? sum_s / count : 0, step_s = is_tree(round->pattern) ? longest_s : mean_s;
    if (step_s > *latency_s) *latency_s = step_s;
}

static void start_round(struct simulation *s, int chain)
{
    struct chain *c = &s->chains[chain];
    const struct sim_round *round = &s->schedule->rounds[c->round];
    int before = s->sharing.flow_count; /* no flow ends in between */
    double latency_s = 0;
    for (int g = 0; g < round->groups->count; g++) start_group(s, chain, round, g, &latency_s);
    c->under_way = s->alike ? 1 : s->sharing.flow_count - before;
    c->hop_latency_s += latency_s * round->steps;
    c->latency_s = s->rates->store_and_forward ? latency_s * round->steps : 0;
    c->due_s = s->now_s + c->latency_s; /* later if it has bytes to send */
}

static int next_round(const struct simulation *s, int chain, int after)
{
    int round = after + 1;
    while (round < s->schedule->round_count && s->schedule->rounds[round].chain != chain) round++;
    return round;
}

/* Starts the next rounds of idle chains. */
static void start_what_is_due(struct simulation *s)
{
    for (int i = 0; i < s->schedule->chain_count; i++) {
        struct chain *c = &s->chains[i];
        while (c->under_way == 0 && c->round < s->schedule->round_count && c->due_s <= s->now_s) {
            c->round = next_round(s, i, c->round);
            if (c->round < s->schedule->round_count) start_round(s, i);
        }
    }
}

static bool goes_on(const struct simulation *s)
{
    for (int i = 0; i < s->schedule->chain_count; i++)
        if (s->chains[i].round < s->schedule->round_count) return true;
    return false;
}

/* ---- events ---- */

static const double rounding = 1e-12; /* events within this relative distance are simultaneous */

/* The next end of a flow, or of a chain's latency. */
static double next_event_s(const struct simulation *s)
{
    double soonest_s = INFINITY;
    for (int f = 0; f < s->sharing.flow_count; f++)
        if (s->sharing.ends_s[f] < soonest_s) soonest_s = s->sharing.ends_s[f];
    for (int i = 0; i < s->schedule->chain_count; i++) {
        const struct chain *c = &s->chains[i];
        const bool waits = c->under_way == 0 && c->round < s->schedule->round_count;
        if (waits && c->due_s < soonest_s) soonest_s = c->due_s;
    }
    return isinf(soonest_s) || soonest_s < s->now_s ? s->now_s : soonest_s;
}

static void end_flow(struct simulation *s, int chain)
{
    struct chain *c = &s->chains[chain];
    if (--c->under_way == 0) c->due_s = s->now_s + c->latency_s;
}

static void to_next_event(struct simulation *s)
{
    sim_share(&s->sharing, s->now_s);
    s->now_s = next_event_s(s);
    for (int f = 0; f < s->sharing.flow_count; f++) {
        if (!(s->sharing.ends_s[f] <= s->now_s * (1 + rounding))) continue;
        end_flow(s, s->sharing.flows[f].chain);
        sim_sharing_take_out(&s->sharing, f);
    }
    sim_sharing_compact(&s->sharing);
}

/* Flows of one size that start together get at least the bottleneck link's rate per flow, and that link's own flows get
 * exactly this rate. So the round ends when that link has carried all its bytes. */
static void to_end_of_round(struct simulation *s)
{
    bool carries = s->busiest_s > 0;
    s->now_s += s->busiest_s;
    s->busiest_s = 0;
    for (int i = 0; i < s->schedule->chain_count; i++) {
        struct chain *c = &s->chains[i];
        if (c->under_way) end_flow(s, i);
        else if (!carries && c->due_s > s->now_s) s->now_s = c->due_s;
    }
    memset(s->link_weight, 0, (size_t)s->network->link_count * sizeof *s->link_weight);
}

/* ---- entry point ---- */

static bool rounds_are_alike(const struct sim_schedule *schedule)
{
    if (schedule->chain_count == 1) return true;
    for (int i = 1; i < schedule->round_count; i++)
        if (schedule->rounds[i].bytes != schedule->rounds[0].bytes) return false;
    return schedule->round_count == schedule->chain_count;
}

/* The arena owns the answer; everything else is temporary. */
static void begin(struct simulation *s, struct base_arena *arena, struct base_arena *scratch)
{
    int links = s->network->link_count;
    s->link_bytes = base_new(arena, double, links);
    s->link_bytes_per_s = base_new(scratch, double, links);
    s->link_weight = base_new(scratch, double, links);
    s->chains = base_new(scratch, struct chain, s->schedule->chain_count);
    for (int i = 0; i < s->schedule->chain_count; i++) s->chains[i].round = -1;
    for (int i = 0; i < links; i++)
        s->link_bytes_per_s[i] = s->rates->bytes_per_s[s->network->links[i].kind] * s->network->links[i].width;
    sim_sharing_begin(scratch, s->link_bytes_per_s, links, &s->sharing);
}

static void answer(const struct simulation *s, struct sim_traffic *out)
{
    *out = (struct sim_traffic){.link_bytes = s->link_bytes,
                                .busiest_link = -1,
                                .message_count = s->message_count,
                                .event_count = s->event_count,
                                .serialization_s = s->now_s,
                                .start_s = s->rates->start_s};
    for (int i = 0; i < s->schedule->chain_count; i++)
        if (s->chains[i].hop_latency_s > out->hop_latency_s) out->hop_latency_s = s->chains[i].hop_latency_s;
    double both_s = out->serialization_s > out->hop_latency_s ? out->serialization_s : out->hop_latency_s;
    out->time_s = out->start_s + (s->rates->store_and_forward ? s->now_s : both_s);
    for (int i = 0; i < s->network->link_count; i++) {
        double busy_s = s->link_bytes[i] > 0 ? s->link_bytes[i] / s->link_bytes_per_s[i] : 0;
        if (busy_s / out->time_s <= out->busy_frac) continue;
        out->busiest_link = i;
        out->busy_frac = busy_s / out->time_s;
    }
}

static void go(struct simulation *s)
{
    for (;; s->event_count++) {
        start_what_is_due(s);
        if (!goes_on(s)) return;
        if (s->alike) to_end_of_round(s);
        else to_next_event(s);
    }
}

void sim_network_simulate(struct base_arena *arena, const struct topo_network *network,
                          const struct sim_schedule *schedule, const struct sim_link_rates *rates,
                          enum sim_link_sharing sharing, struct sim_traffic *out)
{
    struct base_arena scratch = {.exhausted = arena->exhausted};
    struct simulation s = {.network = network, .schedule = schedule, .rates = rates};
    s.alike = sharing == SIM_SHARED_AS_NEEDED && rounds_are_alike(schedule);
    begin(&s, arena, &scratch);
    go(&s);
    answer(&s, out);
    base_arena_free(&scratch);
}
