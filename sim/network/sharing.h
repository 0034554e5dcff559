/* Private to sim/network: rates of flows on shared links. */
#ifndef SIM_SHARING_H
#define SIM_SHARING_H

#include "base/base.h"

/* The part of a message that takes one route. */
struct sim_flow {
    int chain;
    int first_hop, hop_count; /* range of hops */
    double weight;            /* fraction of the message */
    double left_bytes;        /* remaining bytes at since_s, when its rate last changed */
    double since_s, rate_bytes_per_s;
    bool is_over; /* ended, but still in the list */
    /* scratch of sim_share */
    int component; /* the last component that contained it */
    double next_rate_bytes_per_s;
};

/* A flow on one link of its route. A link's hops form a linked list. */
struct sim_hop {
    int link, flow, before, next; /* before, next: hops; -1: none */
};

/* Active flows. A flow that starts or ends changes only rates of flows that share a link with it, directly or through
 * other flows. Rates are recomputed only in these connected components. */
struct sim_sharing {
    struct base_arena *arena;
    struct sim_flow *flows;
    int flow_count, flow_capacity, over_count;
    double *ends_s; /* [flow], at the rates of the last sim_share; INFINITY: ended, or without bandwidth */
    int ends_capacity;
    struct sim_hop *hops; /* grouped by flow */
    int hop_count, hop_capacity;
    const double *link_bytes_per_s; /* [link] */
    int *first_hop;                 /* [link]; -1: no flow crosses it */
    int *changed, changed_count;    /* links whose flows changed since the last sim_share */
    bool *is_changed;               /* [link] */
    /* scratch of sim_share: one component at a time */
    int component, *link_component;    /* the component's number; [link] the last component that contained it */
    double *free_bytes_per_s, *weight; /* [link] */
    int *open_count, *links;           /* [link]; links of the component */
    int *members, member_capacity;     /* flows of the component */
};
void sim_sharing_begin(struct base_arena *arena, const double *link_bytes_per_s, int link_count,
                       struct sim_sharing *out);
/* Starts a flow over these links. Sets flow.first_hop and hop_count. */
void sim_sharing_put(struct sim_sharing *sharing, struct sim_flow flow, const int *links, int count);
void sim_sharing_take_out(struct sim_sharing *sharing, int flow);
/* Gives each flow its max-min fair rate, weighted. */
void sim_share(struct sim_sharing *sharing, double now_s);
/* Removes ended flows once there are many. Renumbers the flows. */
void sim_sharing_compact(struct sim_sharing *sharing);

#endif
