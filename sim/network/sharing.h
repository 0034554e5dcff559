/* Private to sim/network: what flows over shared links get. */
#ifndef SIM_SHARING_H
#define SIM_SHARING_H

#include "base/base.h"

/* A part of a message that takes one way. */
struct sim_flow {
    int chain;
    int first_hop, hop_count; /* into hops */
    double weight;            /* its share of the message */
    double left_bytes;        /* yet to arrive */
    double rate_bytes_per_s;
};

struct sim_sharing {
    struct base_arena *arena;
    struct sim_flow *flows;
    int flow_count, flow_capacity;
    int *hops; /* links of flows, one flow's behind the other's */
    int hop_count, hop_capacity;
    const double *link_bytes_per_s; /* [link] */
    /* scratch of sim_share, [link] */
    double *free_bytes_per_s, *weight;
    int *first_user, *user_count, *open_count;
    int *users, user_capacity; /* flows over a link, link after link */
    int *used, used_count;     /* links that have any */
};
void sim_sharing_begin(struct base_arena *arena, const double *link_bytes_per_s, int link_count,
                       struct sim_sharing *out);
/* Gives each flow its max-min fair rate, per weight. */
void sim_share(struct sim_sharing *sharing);
/* Takes out the flows that have nothing left. */
void sim_sharing_compact(struct sim_sharing *sharing);

#endif
