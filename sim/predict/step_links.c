/* What every link carries in a whole step: each collective of a timeline sent link by link, once for all that are
 * alike. Links of a torus are many and most have the same history, so that they are put together for those who list
 * them. */
#include "sim/predict/predict.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the collectives of a step do to links ---- */

enum base_status sim_step_mesh(struct base_arena *arena, const struct sim_plan *plan, struct topo_mesh *out,
                               struct base_error *error)
{
    const struct sim_placement *p = plan->placement;
    struct topo_mesh_request request = plan->request;
    request.split_physical_axes = request.split_physical_axes || p->splits_dimensions;
    if (p->stage_devices < p->topology.device_count)
        return base_fail(error, BASE_INPUT,
                         "pipeline_stages: links are shown of steps without a pipeline; use 1 stage");
    BASE_TRY(topo_mesh_build(arena, &p->topology, &request, TOPO_WITH_DEVICES, out, error));
    out->axes = p->axes; /* without those of one device, which the placement's sets have no bits for */
    return BASE_OK;
}

const struct sim_link_use *sim_link_use_of(const struct sim_step_links *links, const struct sim_entry *entry)
{
    for (int i = 0; i < links->use_count && entry->bound == SIM_BY_COMMUNICATION; i++) {
        const struct sim_link_use *use = &links->uses[i];
        if (use->kind == entry->kind && use->axes == entry->axes && use->bytes == entry->bytes) return use;
    }
    return NULL;
}

static enum base_status add_use(struct base_arena *arena, const struct sim_placement *placement,
                                const struct sim_entry *entry, struct sim_step_links *out, struct base_error *error)
{
    struct sim_groups groups;
    struct sim_simulated sent;
    sim_groups_find(arena, &out->network, &out->mesh, entry->axes, &groups);
    BASE_TRY(sim_simulate_fastest(arena, &out->network, &groups, entry->kind,
                                  sim_routes_of(placement, entry->kind, entry->axes), entry->bytes, &sent, error));
    out->uses = base_grown(arena, out->uses, out->use_count, &out->use_capacity, sizeof *out->uses);
    out->uses[out->use_count++] = (struct sim_link_use){.kind = entry->kind,
                                                        .axes = entry->axes,
                                                        .bytes = entry->bytes,
                                                        .algorithm = sent.algorithm,
                                                        .time_s = sent.traffic.time_s,
                                                        .link_bytes = sent.traffic.link_bytes};
    return BASE_OK;
}

double sim_link_rate(const struct sim_network *network, int link)
{
    const struct topo_link *l = &network->links.links[link];
    return network->rates.bytes_per_s[l->kind] * l->width;
}

const double *sim_link_shares(struct base_arena *arena, const struct sim_network *network, const double *link_bytes,
                              double time_s)
{
    const struct topo_network *n = &network->links;
    double *shares = base_new(arena, double, 3 * (n->device_nodes + 1));
    for (int i = 0; i < n->link_count; i++) {
        const struct topo_link *link = &n->links[i];
        if (link->kind != TOPO_LINK_ICI || !(time_s > 0)) continue;
        double *share = &shares[3 * (link->down ? link->to : link->from) + link->dimension];
        const double frac = link_bytes[i] / sim_link_rate(network, i) / time_s;
        if (frac > *share) *share = frac;
    }
    return shares;
}

enum base_status sim_step_links_find(struct base_arena *arena, const struct sim_plan *plan,
                                     const struct sim_timeline *timeline, struct sim_step_links *out,
                                     struct base_error *error)
{
    struct sim_step_links links = {.use_count = 0};
    BASE_TRY(sim_step_mesh(arena, plan, &links.mesh, error));
    BASE_TRY(sim_network_build(arena, &plan->placement->topology, &plan->placement->profile, &links.network, error));
    links.step_bytes = base_new(arena, double, links.network.links.link_count + 1);
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *entry = &timeline->entries[i];
        if (entry->bound != SIM_BY_COMMUNICATION) continue;
        if (!sim_link_use_of(&links, entry)) BASE_TRY(add_use(arena, plan->placement, entry, &links, error));
        const struct sim_link_use *use = sim_link_use_of(&links, entry);
        for (int link = 0; link < links.network.links.link_count; link++)
            links.step_bytes[link] += use->link_bytes[link] * (double)entry->count;
    }
    *out = links;
    return BASE_OK;
}

/* ---- links with the same history ---- */

/* A link and its history, for sorting: the busiest first. */
struct history {
    const struct sim_step_links *links;
    int link;
    double busy_s;
};

/* Largest first. Sums over ways of equal shares differ in their last digits, which say nothing. */
static int compare_near(double a, double b)
{
    return (float)a < (float)b ? 1 : (float)a > (float)b ? -1 : 0;
}

static int compare_histories(const struct history *a, const struct history *b)
{
    int order = compare_near(a->busy_s, b->busy_s);
    const struct topo_link *links = a->links->network.links.links;
    if (!order) order = (int)links[a->link].kind - (int)links[b->link].kind;
    for (int i = 0; i < a->links->use_count && !order; i++)
        order = compare_near(a->links->uses[i].link_bytes[a->link], a->links->uses[i].link_bytes[b->link]);
    return order;
}

static int by_history(const void *a, const void *b)
{
    const struct history *first = a, *second = b;
    const int order = compare_histories(first, second);
    return order ? order : first->link - second->link;
}

int sim_links_alike(struct base_arena *arena, const struct sim_step_links *links, enum sim_links which,
                    struct sim_alike **out)
{
    const int count = links->network.links.link_count;
    struct history *histories = base_new(arena, struct history, count + 1);
    int used = 0, found = 0;
    for (int i = 0; i < count; i++)
        if (links->step_bytes[i] > 0)
            histories[used++] = (struct history){links, i, links->step_bytes[i] / sim_link_rate(&links->network, i)};
    qsort(histories, (size_t)used, sizeof *histories, by_history);
    *out = base_new(arena, struct sim_alike, used + 1);
    for (int i = 0; i < used; i++) {
        const bool same = found && which == SIM_LINKS_TOGETHER && !compare_histories(&histories[i - 1], &histories[i]);
        if (same) (*out)[found - 1].count++;
        else (*out)[found++] = (struct sim_alike){.link = histories[i].link, .count = 1, .busy_s = histories[i].busy_s};
    }
    return found;
}
