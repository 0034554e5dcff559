/* sim/network: collectives as schedules of messages, and the links that carry them. A schedule lists messages: sender,
 * receiver, bytes, and the messages that must precede. A simulation sends it over every link of its route, with all
 * groups of a mesh axis at once. A collective is described by its groups alone: ordered lists of devices.
 *
 * Links are shared max-min fairly per flow. A link gives equal bandwidth to each message that crosses it. A message
 * that is split over several routes has one share in all. Bandwidth that a message cannot use, because another link of
 * its route is the bottleneck, goes to the others. Routers with fair queues approach this for messages much longer than
 * a packet. A packet simulation differs only in the last packets (test_network) and takes a thousand times the work. */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "base/base.h"
#include "sim/partition/partition.h"
#include "topo/topo.h"

/* ---- schedules (schedule.c) ---- */

/* Nodes of the network, [group][place]. All groups run at once. */
struct sim_groups {
    int count, size;
    const int *nodes;
};

/* The communication pattern of a round, by places in a group of n. */
enum sim_pattern {
    SIM_SHIFT,     /* each place sends to the one `distance` further around the ring */
    SIM_BOTH_WAYS, /* and also to the one `distance` back */
    SIM_SWAP,      /* pairs whose places differ in the bits of `distance`; a place without a partner is idle */
    SIM_FOLD,   /* up a binomial tree: places whose lowest set bit is `distance` send to the place without that bit */
    SIM_SPREAD, /* down the same tree */
    SIM_TO_PARENT,  /* nodes of `distance` places each: along a node's places to its first, then up a tree of nodes */
    SIM_TO_CHILDREN /* down the same tree */
};

/* Messages that start together, at distances first, first + 1, … last. `steps` such rounds follow each other, each
 * continuing the one before. They are simulated as one message, because sharing is linear in bytes. */
struct sim_round {
    const struct sim_groups *groups;
    enum sim_pattern pattern;
    int first, last;
    double bytes; /* one message's, all steps together */
    double steps;
    int chain; /* rounds of one chain run in order; different chains interact only through shared links */
};

struct sim_schedule {
    struct sim_round *rounds; /* in each chain's execution order */
    int round_count, round_capacity, chain_count;
};

enum sim_algorithm {
    SIM_ALGORITHM_RING,         /* in the listed order, half of the bytes in each direction */
    SIM_ALGORITHM_RING_ONE_WAY, /* all bytes in one direction: the executor's algorithm */
    SIM_ALGORITHM_MULTI_RING,   /* several rings at once over disjoint links, each with a share of the bytes */
    SIM_ALGORITHM_BUCKET, /* rings along one dimension after another; as many concurrent sequences as dimensions */
    SIM_ALGORITHM_HALVING_DOUBLING, /* partners at distances n/2, n/4, …, 1 and back; each step halves the bytes, then
                                       doubles them */
    SIM_ALGORITHM_DOUBLING,     /* partners at distances 1, 2, 4, … with all bytes: the executor's algorithm for small
                                   arrays */
    SIM_ALGORITHM_TREE,         /* up a binomial tree and down again */
    SIM_ALGORITHM_DOUBLE_TREE,  /* NCCL's, on GPU nodes: two trees of nodes per network card, each with a share of the
                                   bytes, up and down at once; an inner node of one tree is a leaf of the other */
    SIM_ALGORITHM_DIRECT,       /* all pairs at once */
    SIM_ALGORITHM_PAIRWISE,     /* all pairs, one distance after another: the executor's algorithm */
    SIM_ALGORITHM_BY_DIMENSION, /* all-to-all along one dimension after another */
    SIM_ALGORITHM_COUNT
};
const char *sim_algorithm_name(enum sim_algorithm algorithm);

/* bytes: operand of one device. False: the algorithm does not support the collective or these groups. */
bool sim_schedule_build(const struct topo_network *network, const struct sim_groups *groups,
                        enum sim_collective collective, enum sim_algorithm algorithm, double bytes,
                        struct sim_schedule *out);

/* Whether sim_schedule_build would return true. */
bool sim_algorithm_applies(const struct topo_network *network, const struct sim_groups *groups,
                           enum sim_collective collective, enum sim_algorithm algorithm);

/* ---- simulated time (simulate.c, sharing.c) ---- */

struct sim_link_rates {
    double bytes_per_s[TOPO_LINK_KINDS], latency_s[TOPO_LINK_KINDS]; /* one link's of each kind, one hop */
    double start_s;                                                  /* start of any collective */
    bool store_and_forward; /* a round waits for the whole message of the previous one; otherwise it starts at the first
                               bytes, so that latency and transfer overlap */
};

struct sim_traffic {
    double time_s;
    double serialization_s;   /* until the last byte, without latencies unless rounds wait for them */
    double hop_latency_s;     /* latencies of consecutive hops */
    double start_s;           /* before the first byte moves */
    const double *link_bytes; /* [link] */
    int busiest_link;         /* the link with the largest busy time; -1: no link is used */
    double busy_frac;         /* its busy time over time_s */
    int64_t message_count, event_count;
};
/* When rates are recomputed: at the end of every flow; or only between rounds, if all messages of a round are alike.
 * Then byte sums give the end of the round. */
enum sim_link_sharing { SIM_SHARED_AS_NEEDED, SIM_SHARED_AT_EVERY_EVENT };
void sim_network_simulate(struct base_arena *arena, const struct topo_network *network,
                          const struct sim_schedule *schedule, const struct sim_link_rates *rates,
                          enum sim_link_sharing sharing, struct sim_traffic *out);

#endif
