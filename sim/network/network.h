/* sim/network: collectives as schedules of messages, and the links that carry them. A schedule says who sends how much
 * to whom and after what; a simulation sends it over every link of its way, all groups of a mesh axis at once. What it
 * knows of a collective is its groups: ordered lists of devices.
 *
 * Sharing is max-min fair, flow by flow: links give each message that crosses them an equal part (a message that is
 * sharded over several ways has as much in all as one that is not), and what a message cannot use, because another link
 * of its way is fuller, goes to the others. That is what routers with fair queues and messages much longer than a
 * packet tend to; packet by packet gives the same but for the last packets (test_network), at a thousand times the
 * work. */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "base/base.h"
#include "sim/partition/partition.h"
#include "topo/topo.h"

/* ---- schedules (schedule.c) ---- */

/* Nodes of the network, [group][place]; all groups act at once. */
struct sim_groups {
    int count, size;
    const int *nodes;
};

/* Who sends to whom in a round, by places in a group of n. */
enum sim_pattern {
    SIM_SHIFT,     /* each to the one `distance` further round */
    SIM_BOTH_WAYS, /* and to the one as far back, too */
    SIM_SWAP,      /* each with the one whose number differs in the bits of `distance`, if there is one */
    SIM_FOLD,      /* up a binomial tree: those whose lowest bit is `distance`, to the place without it */
    SIM_SPREAD,    /* and down again */
    SIM_TO_PARENT, /* nodes of `distance` places each: along a node's places to its first, from there up a tree of nodes
                    */
    SIM_TO_CHILDREN /* and back */
};

/* Messages that start together: distances first, first + 1, … last. `steps` rounds of them follow each other,
 * each taking up where the last one ended, and are carried as one message: sharing is linear in bytes. */
struct sim_round {
    const struct sim_groups *groups;
    enum sim_pattern pattern;
    int first, last;
    double bytes; /* of one message, all steps together */
    double steps;
    int chain; /* rounds of a chain follow each other; chains know nothing of each other but the links they share */
};

struct sim_schedule {
    struct sim_round *rounds; /* of a chain in their order */
    int round_count, round_capacity, chain_count;
};

enum sim_algorithm {
    SIM_ALGORITHM_RING,         /* in the listed order, half of the bytes each way round */
    SIM_ALGORITHM_RING_ONE_WAY, /* all of them one way: what the executor does */
    SIM_ALGORITHM_MULTI_RING,   /* several rings at once, each with its part of the bytes, each over other links */
    SIM_ALGORITHM_BUCKET,       /* rings along one dimension after the other, as many at once as there are dimensions */
    SIM_ALGORITHM_HALVING_DOUBLING, /* partners at distances n/2, n/4, …, 1 and back, with halves of what is left */
    SIM_ALGORITHM_DOUBLING, /* partners at distances 1, 2, 4, … with everything: what the executor does when small */
    SIM_ALGORITHM_TREE,     /* up a binomial tree and down again */
    SIM_ALGORITHM_DOUBLE_TREE,  /* on nodes of GPUs: two trees of nodes a network card, each with its part, up and down
                                   at once, so that a node that hands on in one is a leaf of the other: NCCL's */
    SIM_ALGORITHM_DIRECT,       /* everybody to everybody at once */
    SIM_ALGORITHM_PAIRWISE,     /* everybody to everybody, one distance after the other: what the executor does */
    SIM_ALGORITHM_BY_DIMENSION, /* all-to-all along one dimension after the other */
    SIM_ALGORITHM_COUNT
};
const char *sim_algorithm_name(enum sim_algorithm algorithm);

/* bytes: one device's operand. False: the algorithm does not do that collective, or not on such groups. */
bool sim_schedule_build(const struct topo_network *network, const struct sim_groups *groups,
                        enum sim_collective collective, enum sim_algorithm algorithm, double bytes,
                        struct sim_schedule *out);

/* Whether such a schedule exists. */
bool sim_algorithm_applies(const struct topo_network *network, const struct sim_groups *groups,
                           enum sim_collective collective, enum sim_algorithm algorithm);

/* ---- what it takes (simulate.c, sharing.c) ---- */

struct sim_link_rates {
    double bytes_per_s[TOPO_LINK_KINDS], latency_s[TOPO_LINK_KINDS]; /* of one link of each kind, one hop */
    double start_s;                                                  /* of any collective */
    bool store_and_forward; /* a round waits for the whole message of the one before; else it goes on with its first
                               bytes, so that way and bytes overlap */
};

struct sim_traffic {
    double time_s;
    double serialization_s;   /* until the last byte; without latencies, unless rounds wait for them */
    double hop_latency_s;     /* latencies of the hops that follow each other */
    double start_s;           /* before anything moves */
    const double *link_bytes; /* [link] */
    int busiest_link;         /* by its share of busy time; -1: none is used */
    double busy_frac;         /* its busy time over time_s */
    int64_t message_count, event_count;
};
/* When links are shared out anew: whenever a flow ends, or not where all messages of a round are alike, so that sums of
 * bytes say when the last one ends. */
enum sim_link_sharing { SIM_SHARED_AS_NEEDED, SIM_SHARED_AT_EVERY_EVENT };
void sim_network_simulate(struct base_arena *arena, const struct topo_network *network,
                          const struct sim_schedule *schedule, const struct sim_link_rates *rates,
                          enum sim_link_sharing sharing, struct sim_traffic *out);

#endif
