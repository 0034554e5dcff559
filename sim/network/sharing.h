/* Private to sim/network: what flows over shared links get. */
#ifndef SIM_SHARING_H
#define SIM_SHARING_H

#include "base/base.h"

/* A part of a message that takes one way. */
struct sim_flow {
    int chain;
    int first_hop, hop_count; /* into hops */
    double weight;            /* its share of the message */
    double left_bytes;        /* yet to arrive at since_s, when its rate last changed */
    double since_s, rate_bytes_per_s;
    bool is_over; /* taken out, but still in the list */
    /* scratch of sim_share */
    int component; /* the last one that it was found in */
    double next_rate_bytes_per_s;
};

/* A flow on a link of its way; the hops of a link are a list. */
struct sim_hop {
    int link, flow, before, next; /* hops, -1: none */
};

/* Flows that are under way. A flow that starts or ends changes the rates of those alone that it shares a link with, and
 * of those that these share one with, and so on: only such components are shared out anew. */
struct sim_sharing {
    struct base_arena *arena;
    struct sim_flow *flows;
    int flow_count, flow_capacity, over_count;
    double *ends_s; /* [flow], at the rates of the last sim_share; INFINITY: taken out, or nothing is free for it */
    int ends_capacity;
    struct sim_hop *hops; /* of flows, one flow's behind the other's */
    int hop_count, hop_capacity;
    const double *link_bytes_per_s; /* [link] */
    int *first_hop;                 /* [link], -1: nothing crosses it */
    int *changed, changed_count;    /* links whose flows are not those of the last sim_share */
    bool *is_changed;               /* [link] */
    /* scratch of sim_share: one component at a time */
    int component, *link_component;    /* its number; [link] the last one that it was found in */
    double *free_bytes_per_s, *weight; /* [link] */
    int *open_count, *links;           /* [link]; those of the component */
    int *members, member_capacity;     /* its flows */
};
void sim_sharing_begin(struct base_arena *arena, const double *link_bytes_per_s, int link_count,
                       struct sim_sharing *out);
/* A flow over these links, from now on; flow.first_hop and hop_count are set here. */
void sim_sharing_put(struct sim_sharing *sharing, struct sim_flow flow, const int *links, int count);
void sim_sharing_take_out(struct sim_sharing *sharing, int flow);
/* Gives each flow its max-min fair rate, per weight. */
void sim_share(struct sim_sharing *sharing, double now_s);
/* Forgets those taken out once they are many; numbers of flows change. */
void sim_sharing_compact(struct sim_sharing *sharing);

#endif
