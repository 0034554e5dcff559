/* Max-min fair rates by progressive filling. The links with the least bandwidth per flow set the rates of their flows;
 * then the next links divide the remaining bandwidth. */
#include "sim/network/sharing.h"

#include <math.h>
#include <string.h>

static const double rounding = 1e-12; /* levels within this relative distance are equal */

void sim_sharing_begin(struct base_arena *arena, const double *link_bytes_per_s, int link_count,
                       struct sim_sharing *out)
{
    *out = (struct sim_sharing){.arena = arena, .link_bytes_per_s = link_bytes_per_s};
    out->first_hop = base_new(arena, int, link_count);
    out->changed = base_new(arena, int, link_count);
    out->is_changed = base_new(arena, bool, link_count);
    out->link_component = base_new(arena, int, link_count);
    out->free_bytes_per_s = base_new(arena, double, link_count);
    out->weight = base_new(arena, double, link_count);
    out->open_count = base_new(arena, int, link_count);
    out->links = base_new(arena, int, link_count);
    for (int i = 0; i < link_count; i++) out->first_hop[i] = -1;
}

/* ---- active flows ---- */

static void has_changed(struct sim_sharing *s, int link)
{
    if (s->is_changed[link]) return;
    s->is_changed[link] = true;
    s->changed[s->changed_count++] = link;
}

static void join(struct sim_sharing *s, int hop)
{
    struct sim_hop *h = &s->hops[hop];
    h->before = -1;
    h->next = s->first_hop[h->link];
    if (h->next >= 0) s->hops[h->next].before = hop;
    s->first_hop[h->link] = hop;
}

static void leave(struct sim_sharing *s, int hop)
{
    const struct sim_hop *h = &s->hops[hop];
    if (h->before >= 0) s->hops[h->before].next = h->next;
    else s->first_hop[h->link] = h->next;
    if (h->next >= 0) s->hops[h->next].before = h->before;
}

void sim_sharing_put(struct sim_sharing *s, struct sim_flow flow, const int *links, int count)
{
    s->flows = base_grown(s->arena, s->flows, s->flow_count, &s->flow_capacity, sizeof *s->flows);
    s->ends_s = base_grown(s->arena, s->ends_s, s->flow_count, &s->ends_capacity, sizeof *s->ends_s);
    flow.first_hop = s->hop_count;
    flow.hop_count = count;
    for (int i = 0; i < count; i++) {
        if (s->hop_count == s->hop_capacity)
            s->hops = base_grown(s->arena, s->hops, s->hop_count, &s->hop_capacity, sizeof *s->hops);
        s->hops[s->hop_count] = (struct sim_hop){.link = links[i], .flow = s->flow_count};
        join(s, s->hop_count++);
        has_changed(s, links[i]);
    }
    s->ends_s[s->flow_count] = flow.since_s; /* due at once, until it has a rate */
    s->flows[s->flow_count++] = flow;
}

void sim_sharing_take_out(struct sim_sharing *s, int flow)
{
    const struct sim_flow *f = &s->flows[flow];
    for (int h = f->first_hop; h < f->first_hop + f->hop_count; h++) {
        leave(s, h);
        has_changed(s, s->hops[h].link);
    }
    s->flows[flow].is_over = true;
    s->ends_s[flow] = INFINITY;
    s->over_count++;
}

static void put_again(struct sim_sharing *s, int to, int from, int first_hop)
{
    struct sim_flow flow = s->flows[from];
    for (int h = 0; h < flow.hop_count; h++) {
        s->hops[first_hop + h] = (struct sim_hop){.link = s->hops[flow.first_hop + h].link, .flow = to};
        join(s, first_hop + h);
    }
    flow.first_hop = first_hop;
    s->flows[to] = flow;
    s->ends_s[to] = s->ends_s[from];
}

void sim_sharing_compact(struct sim_sharing *s)
{
    int flows = 0, hops = 0;
    if (s->over_count * 2 < s->flow_count || s->over_count == 0) return;
    for (int h = 0; h < s->hop_count; h++) s->first_hop[s->hops[h].link] = -1;
    for (int f = 0; f < s->flow_count; f++) {
        if (s->flows[f].is_over) continue;
        put_again(s, flows, f, hops);
        hops += s->flows[flows++].hop_count;
    }
    s->flow_count = flows;
    s->hop_count = hops;
    s->over_count = 0;
}

/* ---- rates ---- */

static const double unsettled = -1;

static void find_link(struct sim_sharing *s, int link, int *link_count)
{
    if (s->link_component[link] == s->component) return;
    s->link_component[link] = s->component;
    s->open_count[link] = 0;
    s->weight[link] = 0;
    s->free_bytes_per_s[link] = s->link_bytes_per_s[link];
    s->links[(*link_count)++] = link;
}

static void find_flow(struct sim_sharing *s, int flow, int *link_count, int *member_count)
{
    struct sim_flow *f = &s->flows[flow];
    if (f->component == s->component) return;
    f->component = s->component;
    f->next_rate_bytes_per_s = unsettled;
    s->members = base_grown(s->arena, s->members, *member_count, &s->member_capacity, sizeof *s->members);
    s->members[(*member_count)++] = flow;
    for (int h = f->first_hop; h < f->first_hop + f->hop_count; h++) {
        const int link = s->hops[h].link;
        find_link(s, link, link_count);
        s->weight[link] += f->weight;
        s->open_count[link]++;
    }
}

/* Lists the links and flows connected to a link. None of them has a rate yet. */
static int find_component(struct sim_sharing *s, int link, int *link_count)
{
    int members = 0;
    *link_count = 0;
    s->component++;
    find_link(s, link, link_count);
    for (int i = 0; i < *link_count; i++)
        for (int h = s->first_hop[s->links[i]]; h >= 0; h = s->hops[h].next)
            find_flow(s, s->hops[h].flow, link_count, &members);
    return members;
}

static double level_of(const struct sim_sharing *s, int link)
{
    double free_bytes_per_s = s->free_bytes_per_s[link];
    return free_bytes_per_s > 0 ? free_bytes_per_s / s->weight[link] : 0;
}

/* Gives this rate to the link's flows without one, and subtracts it from their other links' bandwidth. */
static void settle(struct sim_sharing *s, int link, double level)
{
    for (int user = s->first_hop[link]; user >= 0; user = s->hops[user].next) {
        struct sim_flow *flow = &s->flows[s->hops[user].flow];
        if (flow->next_rate_bytes_per_s >= 0) continue;
        flow->next_rate_bytes_per_s = level * flow->weight;
        for (int h = flow->first_hop; h < flow->first_hop + flow->hop_count; h++) {
            const int crossed = s->hops[h].link;
            s->free_bytes_per_s[crossed] -= flow->next_rate_bytes_per_s;
            s->weight[crossed] -= flow->weight;
            s->open_count[crossed]--;
        }
    }
}

static void fill(struct sim_sharing *s, int open)
{
    while (open > 0) {
        double lowest = -1;
        int left = 0;
        for (int i = 0; i < open; i++) {
            const int link = s->links[i];
            if (!s->open_count[link]) continue;
            const double level = level_of(s, link);
            s->links[left++] = link;
            if (lowest < 0 || level < lowest) lowest = level;
        }
        open = left;
        for (int i = 0; i < open; i++) {
            const int link = s->links[i];
            if (s->open_count[link] && level_of(s, link) <= lowest * (1 + rounding)) settle(s, link, lowest);
        }
    }
}

/* An unchanged rate keeps the flow's end to the last bit, so that equal flows end at the same time. */
static void take_rate(struct sim_sharing *s, int flow, double now_s)
{
    struct sim_flow *f = &s->flows[flow];
    if (f->next_rate_bytes_per_s == f->rate_bytes_per_s) return;
    f->left_bytes -= (now_s - f->since_s) * f->rate_bytes_per_s;
    f->since_s = now_s;
    f->rate_bytes_per_s = f->next_rate_bytes_per_s;
    s->ends_s[flow] = f->left_bytes > 0 ? now_s + f->left_bytes / f->rate_bytes_per_s : now_s;
}

void sim_share(struct sim_sharing *s, double now_s)
{
    const int before = s->component;
    for (int i = 0, links; i < s->changed_count; i++) {
        const int link = s->changed[i];
        s->is_changed[link] = false;
        if (s->link_component[link] > before) continue; /* already in the component of another link */
        const int members = find_component(s, link, &links);
        fill(s, links);
        for (int m = 0; m < members; m++) take_rate(s, s->members[m], now_s);
    }
    s->changed_count = 0;
}
