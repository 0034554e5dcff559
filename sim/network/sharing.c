/* Max-min fair rates by progressive filling: the links with least for each of their flows settle those, then the next
 * ones with what is left. */
#include "sim/network/sharing.h"

#include <string.h>

static const double rounding = 1e-12; /* levels as near as this, relatively, are one */

void sim_sharing_begin(struct base_arena *arena, const double *link_bytes_per_s, int link_count,
                       struct sim_sharing *out)
{
    *out = (struct sim_sharing){.arena = arena, .link_bytes_per_s = link_bytes_per_s};
    out->free_bytes_per_s = base_new(arena, double, link_count);
    out->weight = base_new(arena, double, link_count);
    out->first_user = base_new(arena, int, link_count);
    out->user_count = base_new(arena, int, link_count);
    out->open_count = base_new(arena, int, link_count);
    out->used = base_new(arena, int, link_count);
}

static void count_users(struct sim_sharing *s)
{
    for (int i = 0; i < s->used_count; i++) s->user_count[s->used[i]] = 0;
    s->used_count = 0;
    for (int h = 0; h < s->hop_count; h++)
        if (s->user_count[s->hops[h]]++ == 0) s->used[s->used_count++] = s->hops[h];
    if (s->hop_count <= s->user_capacity) return;
    s->user_capacity = s->hop_capacity;
    s->users = base_new(s->arena, int, s->user_capacity);
}

/* Flows by link, and what there is to share. */
static void find_users(struct sim_sharing *s)
{
    count_users(s);
    for (int i = 0, at = 0; i < s->used_count; i++) {
        int link = s->used[i];
        s->first_user[link] = at;
        at += s->user_count[link];
        s->open_count[link] = 0;
        s->weight[link] = 0;
        s->free_bytes_per_s[link] = s->link_bytes_per_s[link];
    }
    for (int f = 0; f < s->flow_count; f++) {
        struct sim_flow *flow = &s->flows[f];
        flow->rate_bytes_per_s = -1;
        for (int h = flow->first_hop; h < flow->first_hop + flow->hop_count; h++) {
            int link = s->hops[h];
            s->users[s->first_user[link] + s->open_count[link]++] = f;
            s->weight[link] += flow->weight;
        }
    }
}

static double level_of(const struct sim_sharing *s, int link)
{
    double free_bytes_per_s = s->free_bytes_per_s[link];
    return free_bytes_per_s > 0 ? free_bytes_per_s / s->weight[link] : 0;
}

/* The flows of a link that have no rate yet get this one; what remains of their links is for others. */
static void settle(struct sim_sharing *s, int link, double level)
{
    for (int u = s->first_user[link]; u < s->first_user[link] + s->user_count[link]; u++) {
        struct sim_flow *flow = &s->flows[s->users[u]];
        if (flow->rate_bytes_per_s >= 0) continue;
        flow->rate_bytes_per_s = level * flow->weight;
        for (int h = flow->first_hop; h < flow->first_hop + flow->hop_count; h++) {
            s->free_bytes_per_s[s->hops[h]] -= flow->rate_bytes_per_s;
            s->weight[s->hops[h]] -= flow->weight;
            s->open_count[s->hops[h]]--;
        }
    }
}

void sim_share(struct sim_sharing *s)
{
    find_users(s);
    int open = s->used_count;
    while (open > 0) {
        double lowest = -1;
        int kept = 0;
        for (int i = 0; i < open; i++) {
            int link = s->used[i];
            double level = s->open_count[link] ? level_of(s, link) : 0;
            if (s->open_count[link] && (lowest < 0 || level < lowest)) lowest = level;
        }
        for (int i = 0; i < open; i++) {
            int link = s->used[i];
            if (s->open_count[link] && level_of(s, link) <= lowest * (1 + rounding)) settle(s, link, lowest);
        }
        for (int i = 0; i < open; i++) { /* the closed ones go behind the open ones: find_users needs them all */
            int link = s->used[i];
            if (!s->open_count[link]) continue;
            s->used[i] = s->used[kept];
            s->used[kept++] = link;
        }
        open = kept;
    }
}

void sim_sharing_compact(struct sim_sharing *s)
{
    int flows = 0, hops = 0;
    for (int f = 0; f < s->flow_count; f++) {
        struct sim_flow flow = s->flows[f];
        if (!(flow.left_bytes > 0)) continue;
        memmove(s->hops + hops, s->hops + flow.first_hop, (size_t)flow.hop_count * sizeof *s->hops);
        flow.first_hop = hops;
        hops += flow.hop_count;
        s->flows[flows++] = flow;
    }
    s->flow_count = flows;
    s->hop_count = hops;
}
