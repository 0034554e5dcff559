/* Predicts one plan of a search in full, places the submeshes of a mesh shape, and bounds the other orders of a
 * submesh. */
#include "tuner/search.h"

#include <math.h>
#include <string.h>

/* ---- full predictions ---- */

enum base_status tuner_predict(const struct tuner_space *space, struct tuner_plan plan, struct sim_prediction *out,
                               struct sim_detail *detail, struct base_error *error)
{
    struct sim_plan checked;
    struct sim_plan_text text = tuner_plan_text(space, plan);
    BASE_TRY(sim_plan_check(space->cache, space->arena, &text, space->step, SIM_AS_COMPILED, &checked, error));
    BASE_TRY(sim_predict(space->cache, &checked, out, detail, error));
    out->profile = base_copy(space->arena, out->profile); /* a result must outlive the cache's entries */
    return BASE_OK;
}

/* A full prediction below its bound shows that the bound is invalid: the search continues without this kind of
 * bound. */
static void audit(struct search *s, const struct node *node, const struct tuner_found *found)
{
    if (!s->use_bounds) return;
    bool time = tuner_search_found_cost(s, found) < node->bound * (1 - slack),
         memory = tuner_needed_bytes(&found->prediction) < node->peak_bytes * (1 - slack) - 1;
    if (!time && !memory) return;
    s->result->bound_violations++;
    if (s->space->stages) return; /* they have one kind of bounds: the answer says that it is not proven */
    s->restart = true;
    if (time && s->links) s->links = false;
    else s->use_bounds = false;
}

static void show_predicted(const struct search *s, const struct tuner_found *found)
{
    const struct sim_prediction *p = &found->prediction;
    if (s->options->looked)
        s->options->looked(s->options->looked_where,
                           &(struct tuner_looked){found->plan, p, p->step_s, tuner_needed_bytes(p), false});
}

void tuner_search_show_bound(const struct search *s, const struct node *node, bool by_memory)
{
    const struct tuner_looked looked = {
        {node->group, node->kind == PLAN ? node->submesh : 0, node->microbatches, node->saved},
        NULL,
        tuner_search_seconds_of_cost(s, node->group, node->bound),
        node->peak_bytes,
        by_memory};
    if (s->options->looked) s->options->looked(s->options->looked_where, &looked);
}

static bool is_within_bounds(const struct tuner_options *o, const struct sim_prediction *p)
{
    return (!(o->most_latency_s > 0) || p->latency_s <= o->most_latency_s) &&
           (!(o->least_tokens_per_s > 0) || p->tokens_per_s >= o->least_tokens_per_s);
}

void tuner_search_note_predicted(struct search *s, const struct node *node, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    const bool fits = sim_leaves_free(&found->prediction, s->options->headroom_frac),
               ranks = fits && is_within_bounds(s->options, &found->prediction);
    r->counts.unfit += !fits;
    r->counts.out_of_bounds += fits && !ranks;
    show_predicted(s, found);
    audit(s, node, found);
    if (!fits) tuner_search_note_nearest(s, found);
    if (!found->prediction.fits) {
        tuner_search_note_unfit(s, found);
        return;
    }
    if (ranks) tuner_search_insert_plan(s, r->plans, &r->plan_count, found);
    else if (!fits) tuner_search_insert_plan(s, r->tight, &r->tight_count, found);
    if (s->options->pareto && fits) tuner_search_insert_front(s, found);
}

enum base_status tuner_search_evaluate(struct search *s, const struct node *node, int submesh,
                                       struct sim_detail *detail, struct tuner_found *found)
{
    found->plan = (struct tuner_plan){node->group, submesh, node->microbatches, node->saved};
    BASE_TRY(tuner_predict(s->space, found->plan, &found->prediction, detail, s->error));
    s->result->counts.evaluated++;
    tuner_search_note_predicted(s, node, found);
    return BASE_OK;
}

/* ---- placements ---- */

static const struct sim_link_cost *copy_wires(struct base_arena *arena, const struct sim_link_cost *link_costs)
{
    if (!link_costs) return NULL;
    struct sim_link_cost *own = base_new(arena, struct sim_link_cost, SIM_COLLECTIVE_COUNT);
    memcpy(own, link_costs, SIM_COLLECTIVE_COUNT * sizeof *own);
    return own;
}

/* The cache is emptied when it grows too large, so a search copies what it keeps. */
static const struct sim_placement *copy_placement(struct base_arena *arena, const struct sim_placement *placement)
{
    struct sim_placement *own = base_new(arena, struct sim_placement, 1);
    int64_t sets = (int64_t)topo_axes_all(&placement->axes) + 1;
    *own = *placement;
    own->groups = base_new(arena, struct sim_group, sets);
    memcpy(own->groups, placement->groups, (size_t)sets * sizeof *own->groups);
    own->axes_text = base_copy(arena, placement->axes_text);
    for (int i = 0; i < own->axes.count; i++) own->axes.names[i] = base_copy(arena, placement->axes.names[i]);
    for (int i = 0; i < own->named_axes.count; i++)
        own->named_axes.names[i] = base_copy(arena, placement->named_axes.names[i]);
    for (int64_t axes = 0; axes < sets; axes++) {
        own->groups[axes].link_costs = copy_wires(arena, placement->groups[axes].link_costs);
    }
    return own;
}

/* The best submesh's link costs for each kind of collective. */
static const struct sim_link_cost *least_wires(struct base_arena *arena, const struct sim_link_cost *a,
                                               const struct sim_link_cost *b)
{
    struct sim_link_cost *least = base_new(arena, struct sim_link_cost, SIM_COLLECTIVE_COUNT);
    for (int kind = 0; kind < SIM_COLLECTIVE_COUNT; kind++) least[kind] = sim_link_cost_least(&a[kind], &b[kind]);
    return least;
}

static enum base_status place_submesh(struct search *s, int group, int submesh, const struct sim_placement **slot)
{
    struct sim_plan plan;
    struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){group, submesh, 0, 0});
    if (*slot) return BASE_OK;
    BASE_TRY(sim_plan_check(s->space->cache, s->space->arena, &text, s->space->step, SIM_AS_COMPILED, &plan, s->error));
    *slot = copy_placement(s->space->arena, plan.placement);
    return BASE_OK;
}

static int least_int(int a, int b)
{
    return a < b ? a : b;
}

/* Finds the link rates of all submeshes of the shape; the group defines the plan. */
enum base_status tuner_search_place_shape(struct search *s, int group)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[group].shape];
    struct sim_placement *best = &s->best_links[s->space->groups[group].shape];
    for (int i = 0; i < shape->submesh_count; i++) {
        BASE_TRY(place_submesh(s, group, i, &s->space->placements[shape->first_submesh + i]));
        const struct sim_placement *own = s->space->placements[shape->first_submesh + i];
        const unsigned all = topo_axes_all(&own->axes); /* fewer than the shape's if that has more than eight */
        if (i == 0) {
            *best = *own;
            best->groups = base_new(s->space->arena, struct sim_group, (int64_t)all + 1);
            memcpy(best->groups, own->groups, (all + 1) * sizeof *best->groups);
        }
        for (unsigned axes = 0; axes <= all; axes++) {
            struct sim_group *least = &best->groups[axes];
            least->seconds_per_byte = fmin(least->seconds_per_byte, own->groups[axes].seconds_per_byte);
            least->ring_seconds_per_byte = fmin(least->ring_seconds_per_byte, own->groups[axes].ring_seconds_per_byte);
            least->exchange_seconds_per_byte =
                fmin(least->exchange_seconds_per_byte, own->groups[axes].exchange_seconds_per_byte);
            least->permute_seconds_per_byte =
                fmin(least->permute_seconds_per_byte, own->groups[axes].permute_seconds_per_byte);
            least->step_hops = least_int(least->step_hops, own->groups[axes].step_hops);
            least->load.walk_hops = least_int(least->load.walk_hops, own->groups[axes].load.walk_hops);
            least->load.exchange_hops = least_int(least->load.exchange_hops, own->groups[axes].load.exchange_hops);
            if (least->link_costs)
                least->link_costs = least_wires(s->space->arena, least->link_costs, own->groups[axes].link_costs);
        }
    }
    s->limit_bytes = (1 - s->options->headroom_frac) * best->profile.constants[SIM_CAPACITY_BYTES];
    /* On a mesh of three or more axes, several may move in one collective, which may be faster than one axis at a
     * time. */
    if (shape->axes.count > 2) s->links = false;
    /* Overlapped collectives may cost nothing. */
    if (sim_asynchronous_kinds(best->profile.passes)) s->links = false;
    /* Link-by-link simulation gives no provable relation between the costs of two collectives. */
    if (best->profile.simulated) s->links = false;
    return BASE_OK;
}

/* The submesh with the fastest links over all axes together: a good guess at the family's best. */
int tuner_search_quickest_submesh(const struct search *s, const struct tuner_shape *shape)
{
    int best = 0;
    double least = INFINITY;
    for (int i = 0; i < shape->submesh_count; i++) {
        const struct sim_placement *p = s->space->placements[shape->first_submesh + i];
        double sum = 0;
        for (unsigned axes = 1; axes <= topo_axes_all(&p->axes); axes++) sum += p->groups[axes].seconds_per_byte;
        if (sum < least) least = sum, best = i;
    }
    return best;
}

/* ---- families ---- */

/* Marginal seconds per byte of a collective of this size. */
static double byte_s(const struct sim_placement *placement, const struct sim_collective_row *row, double bytes)
{
    double start_s = sim_collective_s(placement, row->kind, row->axes, 0);
    return bytes > 0 ? (sim_collective_s(placement, row->kind, row->axes, bytes) - start_s) / bytes : 0;
}

/* A lower bound on the same collectives with another submesh. Compilers combine collectives, and on GPUs large
 * messages are more efficient; so a byte costs at least its price in the collective itself or in one of all bytes.
 * If communication is overlapped, the bound is the time without it. */
double tuner_search_sibling_s(const struct sim_prediction *p, const struct sim_detail *detail,
                              const struct sim_placement *placement)
{
    double known_s = 0, there_s = 0, all_bytes = 0;
    for (int i = 0; i < detail->collectives.count; i++)
        all_bytes += (double)detail->collectives.rows[i].count * (double)detail->collectives.rows[i].bytes;
    for (int i = 0; i < detail->collectives.count; i++) {
        const struct sim_collective_row *row = &detail->collectives.rows[i];
        double alone_s = byte_s(placement, row, (double)row->bytes), together_s = byte_s(placement, row, all_bytes);
        known_s += row->time_s;
        there_s += (double)row->count * (double)row->bytes * fmin(alone_s, together_s) +
                   row->launch_count * sim_collective_s(placement, row->kind, row->axes, 0);
    }
    /* In a link-by-link simulation, parts may use another schedule than their sum. */
    bool alone = true;
    for (int i = 0; i < detail->collectives.count; i++)
        alone = alone && detail->collectives.rows[i].launch_count == (double)detail->collectives.rows[i].count;
    if (placement->profile.simulated && !alone) return p->step_s - p->exposed_communication_s;
    bool all = fabs(known_s - p->exposed_communication_s) <= slack * p->step_s &&
               fabs(p->communication_s - p->exposed_communication_s) <= slack * p->step_s;
    return p->step_s - p->exposed_communication_s + (all ? there_s : 0);
}

/* Unnamed rule sets are checked when they are found. */
bool tuner_search_refuses(struct search *s, const struct node *node)
{
    struct sim_plan plan;
    struct base_error why;
    struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){node->group, 0, node->microbatches, 0});
    if (sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &why) ==
        BASE_OK)
        return false;
    int64_t count = tuner_search_plans_of(s, node);
    tuner_refuse(s->space, why.text, count);
    s->space->plan_count -= count;
    return true;
}

void tuner_search_push_siblings(struct search *s, const struct node *node, int first, const struct tuner_found *found,
                                const struct sim_detail *detail)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[node->group].shape];
    for (int i = 0; i < shape->submesh_count && !s->restart; i++) {
        if (i == first) continue;
        double step_s =
            tuner_search_sibling_s(&found->prediction, detail, s->space->placements[shape->first_submesh + i]);
        struct node sibling = {.bound = tuner_search_cost_of(s, node->group, step_s) * (1 - slack),
                               .peak_bytes = (double)found->prediction.memory.peak_bytes,
                               .kind = PLAN,
                               .group = node->group,
                               .microbatches = node->microbatches,
                               .submesh = i,
                               .tight = !sim_leaves_free(&found->prediction, s->options->headroom_frac),
                               .saved = node->saved};
        if (!tuner_search_decided(s, &sibling)) tuner_search_push(s, sibling);
    }
}
