/* The search: best bound first, full predictions only where a bound does not decide. Plans are looked at in families:
 * one group, one number of microbatches, all orders of the submesh. A family has one bound; when it is no longer good
 * enough, one of its plans is predicted in full. That says whether the family fits, and, since its plans do the same
 * work on the same mesh and differ in links alone, what the others will take. Each full prediction is held against the
 * bounds that it had; a kind of bound that it undercuts is given up, and the search begins anew without it. */
#include "tuner/rule_space.h"
#include "tuner/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounding: two ways of adding up the same seconds. */
static const double slack = 1e-9;

/* What a node of the search stands for; each kind is opened into those after it. */
enum kind {
    CELL,    /* all rule sets on one mesh shape with one number of microbatches */
    PROGRAM, /* the same, bounded by an integer program */
    RULES,   /* the same two for the rule sets that nobody has named */
    RULES_PROGRAM,
    FAMILY,
    PLAN /* one plan of a family, whose time is known but for rounding */
};
struct node {
    double bound, peak_bytes;
    enum kind kind;
    int group /* of a cell its first */, microbatches, submesh /* of a plan */;
    struct tuner_rule_cell *rules;
};

struct search {
    struct tuner_space *space;
    const struct tuner_options *options;
    struct tuner_result *result;
    struct base_error *error;
    struct sim_placement *best_links; /* by shape: the best rate of any of its submeshes */
    struct tuner_ruled **ruled;       /* by group, twice: without and with microbatches; NULL: not asked for yet */
    struct tuner_ruled **any;         /* by first group of a cell, twice: all its rule sets together */
    int *cell_end;                    /* by first group of a cell: the group behind it */
    int base_groups;                  /* groups of named rule sets; those behind are of rule sets that were found */
    struct tuner_rule_space rule_space;
    const struct tuner_coding **codings; /* by variant, twice */
    int64_t *rule_counts;                /* by first group of a cell: rule sets without a name that JAX accepts */
    int rule_capacity, group_capacity;
    struct node *heap;
    int64_t heap_count, heap_capacity;
    struct node *too_large; /* families and cells whose memory bound is above the device's */
    int64_t too_large_count, too_large_capacity;
    struct sim_collective_list rows; /* of the plan that was predicted last; its room is used again */
    struct tuner_charges charges;
    bool use_bounds, restart, stopped, cells_are_complete;
    double capacity_bytes, start_s;
};

const char *tuner_objective_name(enum tuner_objective objective)
{
    static const char *const names[TUNER_OBJECTIVE_COUNT] = {"tokens_per_s", "step_s", "tokens_per_device_hour"};
    return names[objective];
}

static int64_t batch_size(const struct search *s, int group)
{
    return strtoll(s->space->values[TUNER_BATCH].values[s->space->groups[group].batch], NULL, 10);
}

static int64_t microbatch_count(const struct search *s, int group, int microbatches)
{
    int64_t n = strtoll(s->space->microbatches[s->space->groups[group].batch].values[microbatches], NULL, 10);
    return n > 1 ? n : 1;
}

/* What is made small: seconds a sequence, or seconds a step. Lengths and devices are the same for all plans. */
static double cost_of(const struct search *s, int group, double step_s)
{
    return s->options->objective == TUNER_STEP_S ? step_s : step_s / (double)batch_size(s, group);
}

/* ---- the heap: least bound first, then in the order of the space ---- */

static bool before(const struct node *a, const struct node *b)
{
    if (a->bound != b->bound) return a->bound < b->bound;
    if (a->kind != b->kind) return a->kind > b->kind;
    if (a->group != b->group) return a->group < b->group;
    if (a->microbatches != b->microbatches) return a->microbatches < b->microbatches;
    return a->submesh < b->submesh;
}

static struct node *grown(struct search *s, struct node *nodes, int64_t count, int64_t *capacity)
{
    if (count < *capacity) return nodes;
    *capacity = *capacity ? 2 * *capacity : 1024;
    struct node *larger = base_new(s->space->arena, struct node, *capacity);
    if (count) memcpy(larger, nodes, (size_t)count * sizeof *larger);
    return larger;
}

static void push(struct search *s, struct node node)
{
    s->heap = grown(s, s->heap, s->heap_count, &s->heap_capacity);
    int64_t at = s->heap_count++;
    for (; at > 0 && before(&node, &s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = node;
}

static void set_aside(struct search *s, struct node node)
{
    s->too_large = grown(s, s->too_large, s->too_large_count, &s->too_large_capacity);
    s->too_large[s->too_large_count++] = node;
}

static struct node pop(struct search *s)
{
    struct node top = s->heap[0], last = s->heap[--s->heap_count];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= s->heap_count) break;
        if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!before(&s->heap[child], &last)) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    if (s->heap_count) s->heap[at] = last;
    return top;
}

/* ---- what was found ---- */

static double found_cost(const struct search *s, const struct tuner_found *found)
{
    return cost_of(s, found->plan.group, found->prediction.step_s);
}

static void insert_plan(struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    int at = r->plan_count;
    while (at > 0 && found_cost(s, &r->plans[at - 1]) > found_cost(s, found)) at--;
    if (at == s->options->top) return;
    if (r->plan_count < s->options->top) r->plan_count++;
    for (int i = r->plan_count - 1; i > at; i--) r->plans[i] = r->plans[i - 1];
    r->plans[at] = *found;
}

/* The front is kept in the order of time, and so in the reverse order of memory. */
static bool dominated(const struct search *s, double cost, double peak_bytes)
{
    for (int i = 0; i < s->result->front_count; i++) {
        const struct tuner_found *f = &s->result->front[i];
        if (found_cost(s, f) <= cost && (double)f->prediction.memory.peak_bytes <= peak_bytes) return true;
    }
    return false;
}

static void insert_front(struct search *s, const struct tuner_found *found)
{
    enum { MOST_FRONT = 4096 };
    struct tuner_result *r = s->result;
    double cost = found_cost(s, found);
    if (!r->front) r->front = base_new(s->space->arena, struct tuner_found, MOST_FRONT + 1);
    if (dominated(s, cost, (double)found->prediction.memory.peak_bytes) || r->front_count == MOST_FRONT) return;
    int kept = 0;
    for (int i = 0; i < r->front_count; i++)
        if (found_cost(s, &r->front[i]) < cost ||
            r->front[i].prediction.memory.peak_bytes < found->prediction.memory.peak_bytes)
            r->front[kept++] = r->front[i];
    int at = kept;
    for (; at > 0 && found_cost(s, &r->front[at - 1]) > cost; at--) r->front[at] = r->front[at - 1];
    r->front[at] = *found;
    r->front_count = kept + 1;
}

static void note_unfit(struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    if (!r->has_nearest || found->prediction.memory.peak_bytes < r->nearest.prediction.memory.peak_bytes)
        r->nearest = *found;
    if (!r->has_unfit || found_cost(s, found) < found_cost(s, &r->unfit)) r->unfit = *found;
    r->has_nearest = r->has_unfit = true;
}

/* No plan whose cost is this, or more, changes the answer. */
static double threshold(const struct search *s)
{
    const struct tuner_result *r = s->result;
    return r->plan_count == s->options->top ? found_cost(s, &r->plans[r->plan_count - 1]) * (1 - slack)
                                            : (double)INFINITY;
}

/* Of rule sets without a name only the best is sought: there are many that differ from it in what hardly matters. */
static double best_threshold(const struct search *s)
{
    return s->result->plan_count ? found_cost(s, &s->result->plans[0]) * (1 - slack) : (double)INFINITY;
}

static bool decided(const struct search *s, const struct node *node)
{
    if (!s->use_bounds) return false;
    if (!s->options->pareto && (node->kind == RULES || node->kind == RULES_PROGRAM || node->group >= s->base_groups))
        return node->bound >= best_threshold(s);
    if (s->options->pareto)
        return dominated(s, node->bound * (1 + slack), node->peak_bytes * (1 + slack)) && node->bound >= threshold(s);
    return node->bound >= threshold(s);
}

/* ---- time ---- */

static bool time_is_up(struct search *s)
{
    const struct tuner_options *o = s->options;
    bool late = o->now_s && o->time_limit_s > 0 && o->now_s(o->where) - s->start_s >= o->time_limit_s;
    bool enough = o->prediction_limit > 0 && s->result->counts.evaluated >= o->prediction_limit;
    s->stopped = s->stopped || late || enough || (o->stop && o->stop(o->where));
    return s->stopped;
}

/* ---- full predictions ---- */

enum base_status tuner_predict(const struct tuner_space *space, struct tuner_plan plan, struct sim_prediction *out,
                               struct sim_detail *detail, struct base_error *error)
{
    struct sim_plan checked;
    struct sim_plan_text text = tuner_plan_text(space, plan);
    BASE_TRY(sim_plan_check(space->cache, space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &checked, error));
    return sim_predict(space->cache, &checked, out, detail, error);
}

/* A bound that a full prediction undercuts was none: that kind is given up. */
static void audit(struct search *s, const struct node *node, const struct tuner_found *found)
{
    if (!s->use_bounds) return;
    bool time = found_cost(s, found) < node->bound * (1 - slack),
         memory = (double)found->prediction.memory.peak_bytes < node->peak_bytes * (1 - slack) - 1;
    if (!time && !memory) return;
    s->result->bound_violations++;
    s->restart = true;
    if (time && s->charges.links) s->charges.links = false;
    else if (memory && s->charges.lifetimes) s->charges.lifetimes = false;
    else s->use_bounds = false;
}

static void show_predicted(const struct search *s, const struct tuner_found *found)
{
    const struct sim_prediction *p = &found->prediction;
    if (s->options->looked)
        s->options->looked(s->options->looked_where,
                           &(struct tuner_looked){found->plan, p, p->step_s, (double)p->memory.peak_bytes, false});
}

static enum base_status evaluate(struct search *s, const struct node *node, int submesh, struct sim_detail *detail,
                                 struct tuner_found *found)
{
    found->plan = (struct tuner_plan){node->group, submesh, node->microbatches};
    BASE_TRY(tuner_predict(s->space, found->plan, &found->prediction, detail, s->error));
    s->result->counts.evaluated++;
    show_predicted(s, found);
    audit(s, node, found);
    if (!found->prediction.fits) {
        note_unfit(s, found);
        return BASE_OK;
    }
    insert_plan(s, found);
    if (s->options->pareto) insert_front(s, found);
    return BASE_OK;
}

/* ---- placements ---- */

static enum base_status place_submesh(struct search *s, int group, int submesh, const struct sim_placement **slot)
{
    struct sim_plan plan;
    struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){group, submesh, 0});
    if (*slot) return BASE_OK;
    BASE_TRY(
        sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, s->error));
    if (plan.placement->profile.simulated)
        return base_fail(s->error, BASE_INPUT,
                         "network: a search goes by the analytic price, which knows of no dead, slow or late part of "
                         "%s and of no simulated network; --verify N sends the best N plans link by link",
                         plan.topology_text);
    struct sim_placement *own = base_new(s->space->arena, struct sim_placement, 1);
    *own = *plan.placement;
    *slot = own;
    return BASE_OK;
}

/* Rates of all submeshes of the shape; the group tells the plan. */
static enum base_status place_shape(struct search *s, int group)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[group].shape];
    struct sim_placement *best = &s->best_links[s->space->groups[group].shape];
    unsigned all = topo_axes_all(&shape->axes);
    for (int i = 0; i < shape->submesh_count; i++) {
        BASE_TRY(place_submesh(s, group, i, &s->space->placements[shape->first_submesh + i]));
        const struct sim_placement *own = s->space->placements[shape->first_submesh + i];
        if (i == 0) {
            *best = *own;
            best->groups = base_new(s->space->arena, struct sim_group, (int64_t)all + 1);
            memcpy(best->groups, own->groups, (all + 1) * sizeof *best->groups);
        }
        for (unsigned axes = 0; axes <= all; axes++) {
            struct sim_group *least = &best->groups[axes];
            least->seconds_per_byte = fmin(least->seconds_per_byte, own->groups[axes].seconds_per_byte);
            least->exchange_seconds_per_byte =
                fmin(least->exchange_seconds_per_byte, own->groups[axes].exchange_seconds_per_byte);
            if (own->groups[axes].step_hops < least->step_hops) least->step_hops = own->groups[axes].step_hops;
        }
    }
    s->capacity_bytes = best->profile.constants[SIM_CAPACITY_BYTES];
    /* Of more axes several may move together in one collective, for less than one axis after the other. */
    if (shape->axes.count > 2) s->charges.links = false;
    /* Collectives that go on beside computation may cost nothing, and when they do decides what is there at the same
     * time. */
    if (best->profile.passes >> SIM_PASS_OVERLAP_COLLECTIVES & 1) s->charges = (struct tuner_charges){false, false};
    return BASE_OK;
}

/* The submesh of the shape whose links are fastest, all axes together: a good guess at the family's best. */
static int quickest_submesh(const struct search *s, const struct tuner_shape *shape)
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

/* Seconds of the same collectives on another submesh. Where communication is hidden, what is left without it is the
 * bound. */
static double sibling_s(const struct sim_prediction *p, const struct sim_detail *detail,
                        const struct sim_placement *placement)
{
    double known_s = 0, there_s = 0;
    for (int i = 0; i < detail->collectives.count; i++) {
        const struct sim_collective_row *row = &detail->collectives.rows[i];
        known_s += row->time_s;
        double start_s = sim_collective_s(placement, row->kind, row->axes, 0),
               whole_s = sim_collective_s(placement, row->kind, row->axes, (double)row->bytes);
        there_s += (double)row->count * (whole_s - start_s) + row->launch_count * start_s;
    }
    bool all = fabs(known_s - p->exposed_communication_s) <= slack * p->step_s &&
               fabs(p->communication_s - p->exposed_communication_s) <= slack * p->step_s;
    return p->step_s - p->exposed_communication_s + (all ? there_s : 0);
}

/* Rule sets without a name are checked when they are met. */
static bool refuses(struct search *s, const struct node *node)
{
    struct sim_plan plan;
    struct base_error why;
    struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){node->group, 0, node->microbatches});
    if (sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &why) ==
        BASE_OK)
        return false;
    int64_t count = tuner_group_submesh_count(s->space, node->group) * s->space->groups[node->group].rule_set_count;
    tuner_refuse(s->space, why.text, count);
    s->space->plan_count -= count;
    return true;
}

static enum base_status open_family(struct search *s, const struct node *node)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[node->group].shape];
    struct sim_detail detail = {.lists_collectives = true, .collectives = s->rows, .arena = s->space->arena};
    struct tuner_found found;
    int first = quickest_submesh(s, shape);
    if (node->group >= s->base_groups && refuses(s, node)) return BASE_OK;
    BASE_TRY(evaluate(s, node, first, &detail, &found));
    s->rows = detail.collectives;
    s->result->counts.by_sibling += shape->submesh_count * s->space->groups[node->group].rule_set_count - 1;
    if (!found.prediction.fits || s->restart) return BASE_OK;
    for (int i = 0; i < shape->submesh_count; i++) {
        if (i == first) continue;
        double step_s = sibling_s(&found.prediction, &detail, s->space->placements[shape->first_submesh + i]);
        struct node sibling = {cost_of(s, node->group, step_s) * (1 - slack),
                               (double)found.prediction.memory.peak_bytes,
                               PLAN,
                               node->group,
                               node->microbatches,
                               i,
                               NULL};
        if (!decided(s, &sibling)) push(s, sibling);
    }
    return BASE_OK;
}

static enum base_status open_plan(struct search *s, const struct node *node)
{
    struct tuner_found found;
    s->result->counts.by_sibling--;
    return evaluate(s, node, node->submesh, NULL, &found);
}

static enum base_status open_every_plan(struct search *s, const struct node *node)
{
    struct tuner_found found;
    for (int i = 0; i < tuner_group_submesh_count(s->space, node->group); i++)
        BASE_TRY(evaluate(s, node, i, NULL, &found));
    return BASE_OK;
}

/* ---- bounds ---- */

static enum base_status find_outline(struct search *s, int variant, const struct sim_plan *plan, bool microbatches,
                                     const struct tuner_outline **out)
{
    const struct tuner_outline **slot = &s->space->outlines[2 * variant + microbatches];
    if (!*slot) BASE_TRY(tuner_outline_build(s->space->arena, s->space->cache, plan, microbatches, slot, s->error));
    *out = *slot;
    return BASE_OK;
}

/* How the rules of a group shard the classes of its outline. */
static enum base_status find_ruled(struct search *s, int group, bool microbatches, const struct tuner_outline **outline,
                                   const struct tuner_ruled **out)
{
    struct tuner_ruled **slot = &s->ruled[2 * group + microbatches];
    int variant = s->space->groups[group].variant;
    if (!*slot) {
        struct sim_plan plan;
        struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){group, 0, 0});
        BASE_TRY(sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan,
                                s->error));
        BASE_TRY(find_outline(s, variant, &plan, microbatches, outline));
        struct tuner_ruled *ruled = base_new(s->space->arena, struct tuner_ruled, 1);
        BASE_TRY(tuner_rule_classes(*outline, plan.rules, &plan, ruled, s->error));
        *slot = ruled;
    }
    *outline = s->space->outlines[2 * variant + microbatches];
    *out = *slot;
    return BASE_OK;
}

/* How many plans a node stands for, as far as none of them is counted yet. */
static int64_t plans_of(const struct search *s, const struct node *node)
{
    int submeshes = tuner_group_submesh_count(s->space, node->group);
    switch (node->kind) {
    case CELL:
    case PROGRAM: return (int64_t)(s->cell_end[node->group] - node->group) * submeshes;
    case RULES:
    case RULES_PROGRAM: return s->rule_counts[node->group] * submeshes;
    case FAMILY: return s->space->groups[node->group].rule_set_count * submeshes;
    case PLAN: return 0; /* counted with its family */
    }
    return 0;
}

/* As sharded as any rule set of the cell shards a class. */
static enum base_status find_any(struct search *s, int first, bool microbatches, const struct tuner_outline **outline,
                                 const struct tuner_ruled **out)
{
    struct tuner_ruled **slot = &s->any[2 * first + microbatches];
    const struct tuner_ruled *ruled;
    if (!*slot) {
        struct tuner_ruled *any = base_new(s->space->arena, struct tuner_ruled, 1);
        for (int group = first; group < s->cell_end[first]; group++) {
            BASE_TRY(find_ruled(s, group, microbatches, outline, &ruled));
            for (int c = 0; c < TUNER_MOST_CLASSES; c++)
                for (int d = 0; d < MODEL_MAX_RANK; d++) any->spec[c][d] |= ruled->spec[c][d];
        }
        *slot = any;
    }
    *out = *slot;
    return find_ruled(s, first, microbatches, outline, &ruled);
}

static enum base_status add_cell(struct search *s, int first, int microbatches)
{
    const struct tuner_outline *outline;
    const struct tuner_ruled *any;
    int64_t n = microbatch_count(s, first, microbatches);
    BASE_TRY(find_any(s, first, n > 1, &outline, &any));
    double bound_s = tuner_relaxed_s(outline, any->spec, &s->best_links[s->space->groups[first].shape],
                                     batch_size(s, first), n, s->charges);
    push(s, (struct node){cost_of(s, first, bound_s) * (1 - slack), 0, CELL, first, microbatches, 0, NULL});
    return BASE_OK;
}

static enum base_status bound_family(struct search *s, int group, int microbatches, struct node *node)
{
    int64_t n = microbatch_count(s, group, microbatches);
    const struct tuner_outline *outline;
    const struct tuner_ruled *ruled;
    *node = (struct node){0, 0, FAMILY, group, microbatches, 0, NULL};
    if (!s->use_bounds) return BASE_OK;
    BASE_TRY(find_ruled(s, group, n > 1, &outline, &ruled));
    struct tuner_bound bound = tuner_bound_of(outline, ruled, &s->best_links[s->space->groups[group].shape],
                                              batch_size(s, group), n, s->charges);
    node->bound = cost_of(s, group, bound.step_s) * (1 - slack);
    node->peak_bytes = bound.peak_bytes * (1 - slack);
    return BASE_OK;
}

/* The bound of an integer program in place of the first one: a rule set whose weight is within the device's memory. */
static enum base_status bound_cell(struct search *s, struct node cell)
{
    struct tuner_table table = tuner_table_new(s->space->arena, s->cell_end[cell.group] - cell.group, 0, NULL);
    double least;
    for (int group = cell.group; group < s->cell_end[cell.group]; group++) {
        struct node node;
        BASE_TRY(bound_family(s, group, cell.microbatches, &node));
        table.context_s[group - cell.group] = node.bound;
        table.context_bytes[group - cell.group] = node.peak_bytes;
    }
    enum tuner_choices_outcome outcome = tuner_table_least(s->space->arena, &table, s->capacity_bytes, &least);
    s->result->counts.programs++;
    cell.kind = PROGRAM;
    if (least * (1 - slack) > cell.bound) cell.bound = least * (1 - slack);
    if (outcome == TUNER_NOTHING_WITHIN_LIMIT) set_aside(s, cell);
    else push(s, cell);
    return BASE_OK;
}

/* ---- rule sets without a name ---- */

static enum base_status find_coding(struct search *s, int first, bool microbatches, const struct tuner_coding **out)
{
    int variant = s->space->groups[first].variant;
    const struct tuner_coding **slot = &s->codings[2 * variant + microbatches];
    if (!*slot) {
        const struct tuner_outline *outline;
        struct sim_plan plan;
        struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){first, 0, 0});
        BASE_TRY(sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan,
                                s->error));
        BASE_TRY(find_outline(s, variant, &plan, microbatches, &outline));
        if (!s->rule_space.count) s->rule_space = tuner_rule_space_of(outline);
        BASE_TRY(tuner_code_rules(s->space->arena, &s->rule_space, outline, &plan, slot, s->error));
    }
    *out = *slot;
    return BASE_OK;
}

/* Named and unnamed rule sets have nodes of their own; the first bound is that of any sharding that some rule set has.
 */
static enum base_status add_rules(struct search *s, int first, int microbatches)
{
    const struct tuner_coding *coding;
    int64_t n = microbatch_count(s, first, microbatches), batch = batch_size(s, first);
    const struct sim_placement *placement = &s->best_links[s->space->groups[first].shape];
    BASE_TRY(find_coding(s, first, n > 1, &coding));
    if (!s->rule_counts[first]) {
        s->rule_counts[first] = tuner_count_rule_sets(coding, &placement->axes, batch);
        s->space->rule_set_count = s->space->named_rule_count + s->rule_space.count;
        int64_t each =
            (int64_t)tuner_group_submesh_count(s->space, first) * tuner_group_microbatch_count(s->space, first);
        s->space->plan_count += s->rule_counts[first] * each;
        s->space->refused_count += (s->rule_space.count - s->rule_counts[first]) * each;
    }
    double bound_s = tuner_rule_space_s(coding, placement, batch, n, s->charges);
    push(s, (struct node){cost_of(s, first, bound_s) * (1 - slack), 0, RULES, first, microbatches, 0, NULL});
    return BASE_OK;
}

static double seconds_of_cost(const struct search *s, int group, double cost)
{
    return s->options->objective == TUNER_STEP_S ? cost : cost * (double)batch_size(s, group);
}

static enum base_status bound_rules(struct search *s, struct node node)
{
    const struct tuner_coding *coding;
    int64_t n = microbatch_count(s, node.group, node.microbatches);
    double least_s;
    BASE_TRY(find_coding(s, node.group, n > 1, &coding));
    double limit_s = s->options->pareto ? (double)INFINITY : seconds_of_cost(s, node.group, best_threshold(s));
    node.rules = tuner_rule_cell_price(s->space->arena, coding, &s->best_links[s->space->groups[node.group].shape],
                                       batch_size(s, node.group), n, s->charges, limit_s);
    enum tuner_choices_outcome outcome =
        tuner_table_least(s->space->arena, &node.rules->table, s->capacity_bytes, &least_s);
    double bound = cost_of(s, node.group, least_s) * (1 - slack);
    s->result->counts.programs++;
    node.kind = RULES_PROGRAM;
    if (bound > node.bound) node.bound = bound;
    if (outcome == TUNER_NOTHING_WITHIN_LIMIT) s->result->counts.by_program += plans_of(s, &node);
    else push(s, node);
    return BASE_OK;
}

static void *more(struct base_arena *arena, void *old, int count, int *capacity, size_t size)
{
    if (count < *capacity) return old;
    *capacity = 2 * count + 64;
    void *larger = base_alloc(arena, (size_t)*capacity, size);
    if (count) memcpy(larger, old, (size_t)count * size);
    return larger;
}

struct finder {
    struct search *s;
    const struct node *cell;
    int64_t found;
};

static void add_found(void *where, const int *digits, double step_s, double bytes, int64_t equals)
{
    struct finder *f = where;
    struct search *s = f->s;
    struct tuner_space *space = s->space;
    struct tuner_values *rules = &space->values[TUNER_RULES];
    rules->values = more(space->arena, rules->values, rules->count, &s->rule_capacity, sizeof *rules->values);
    space->groups = more(space->arena, space->groups, space->group_count, &s->group_capacity, sizeof *space->groups);
    rules->values[rules->count] = tuner_rule_text(space->arena, &s->rule_space, digits);
    struct tuner_group group = space->groups[f->cell->group];
    group.rules = rules->count++;
    group.rule_set_count = equals;
    space->groups[space->group_count] = group;
    push(s, (struct node){cost_of(s, f->cell->group, step_s) * (1 - slack), bytes * (1 - slack), FAMILY,
                          space->group_count++, f->cell->microbatches, 0, NULL});
    f->found += equals;
}

static enum base_status open_rules(struct search *s, const struct node *node)
{
    struct finder finder = {s, node, 0};
    double limit_s = s->options->pareto ? (double)INFINITY : seconds_of_cost(s, node->group, best_threshold(s));
    tuner_rule_cell_visit(node->rules, limit_s, s->capacity_bytes, add_found, &finder);
    s->result->counts.by_time +=
        (s->rule_counts[node->group] - finder.found) * tuner_group_submesh_count(s->space, node->group);
    return BASE_OK;
}

static enum base_status open_cell(struct search *s, const struct node *cell)
{
    for (int group = cell->group; group < s->cell_end[cell->group]; group++) {
        struct node node;
        BASE_TRY(bound_family(s, group, cell->microbatches, &node));
        if (node.peak_bytes > s->capacity_bytes) set_aside(s, node);
        else push(s, node);
    }
    return BASE_OK;
}

/* Groups stand in the order of variant, batch and shape: those of one cell stand together. */
static int end_of_cell(const struct search *s, int first)
{
    const struct tuner_group *a = &s->space->groups[first];
    int end = first + 1;
    for (; end < s->base_groups; end++) {
        const struct tuner_group *b = &s->space->groups[end];
        if (a->variant != b->variant || a->batch != b->batch || a->shape != b->shape) break;
    }
    return end;
}

static enum base_status add_cell_of(struct search *s, int first, int microbatches, bool unnamed)
{
    struct node cell = {.group = first, .microbatches = microbatches};
    if (unnamed) return add_rules(s, first, microbatches);
    return s->use_bounds ? add_cell(s, first, microbatches) : open_cell(s, &cell);
}

/* Cells of the named rule sets, or of those that nobody has named. */
static enum base_status add_cells(struct search *s, bool unnamed)
{
    s->cells_are_complete = false;
    for (int first = 0; first < s->base_groups; first = s->cell_end[first]) {
        if (time_is_up(s)) return BASE_OK;
        s->cell_end[first] = end_of_cell(s, first);
        int shape = s->space->groups[first].shape;
        if (s->options->shape && shape != s->options->shape - 1) continue;
        if (!s->best_links[shape].axes.count) BASE_TRY(place_shape(s, first));
        for (int m = 0; m < tuner_group_microbatch_count(s->space, first); m++)
            BASE_TRY(add_cell_of(s, first, m, unnamed));
    }
    s->cells_are_complete = true;
    return BASE_OK;
}

/* ---- the walk ---- */

static void report_progress(const struct search *s)
{
    if (s->options->progress)
        s->options->progress(s->options->progress_where, "plans predicted in full", s->result->counts.evaluated, 0);
}

static void count_as_decided(struct search *s, const struct node *node)
{
    *(node->kind == PROGRAM || node->kind == RULES_PROGRAM ? &s->result->counts.by_program
                                                           : &s->result->counts.by_time) += plans_of(s, node);
}

static enum base_status open_node(struct search *s, const struct node *node)
{
    switch (node->kind) {
    case CELL: return bound_cell(s, *node);
    case PROGRAM: return open_cell(s, node);
    case RULES: return bound_rules(s, *node);
    case RULES_PROGRAM: return open_rules(s, node);
    case FAMILY: return s->use_bounds ? open_family(s, node) : open_every_plan(s, node);
    case PLAN: return open_plan(s, node);
    }
    return BASE_OK;
}

static enum base_status walk(struct search *s)
{
    while (s->heap_count && !s->restart && !time_is_up(s)) {
        struct node node = pop(s);
        if (decided(s, &node)) {
            /* Without a front all that is left is decided by the same token, but that named plans are ranked, too. */
            if (!s->options->pareto && node.bound >= threshold(s)) return push(s, node), BASE_OK;
            count_as_decided(s, &node);
            continue;
        }
        BASE_TRY(open_node(s, &node));
        report_progress(s);
    }
    return BASE_OK;
}

static int by_peak(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    if (x->peak_bytes != y->peak_bytes) return x->peak_bytes < y->peak_bytes ? -1 : 1;
    return before(x, y) ? -1 : before(y, x);
}

/* Nothing fits: which plan comes nearest? Cells that an integer program found too large are looked into before. */
static enum base_status find_nearest(struct search *s)
{
    struct tuner_result *r = s->result;
    int64_t cells = s->too_large_count;
    for (int64_t i = 0; i < cells; i++) {
        struct node cell = s->too_large[i];
        for (int group = cell.group; cell.kind == PROGRAM && group < s->cell_end[cell.group]; group++) {
            struct node node;
            BASE_TRY(bound_family(s, group, cell.microbatches, &node));
            set_aside(s, node);
        }
    }
    qsort(s->too_large, (size_t)s->too_large_count, sizeof *s->too_large, by_peak);
    for (int64_t i = 0; i < s->too_large_count && !time_is_up(s) && !s->restart; i++) {
        struct tuner_found found;
        if (s->too_large[i].kind != FAMILY) continue;
        if (r->has_nearest && s->too_large[i].peak_bytes >= (double)r->nearest.prediction.memory.peak_bytes) break;
        BASE_TRY(evaluate(s, &s->too_large[i], 0, NULL, &found));
        r->counts.looked_at++;
    }
    return BASE_OK;
}

static void begin(struct search *s)
{
    struct tuner_result *r = s->result;
    struct tuner_counts before_restart = r->counts;
    r->counts = (struct tuner_counts){.evaluated = before_restart.evaluated,
                                      .looked_at = before_restart.evaluated,
                                      .programs = before_restart.programs};
    r->plan_count = r->front_count = 0;
    r->has_nearest = r->has_unfit = false;
    s->heap_count = s->too_large_count = 0;
    s->restart = false;
}

static enum base_status run_once(struct search *s)
{
    struct tuner_counts *counts = &s->result->counts;
    begin(s);
    BASE_TRY(add_cells(s, false));
    BASE_TRY(walk(s));
    /* What is known of the named rule sets decides most of the others, and is there if the search is ended early. */
    if (s->space->search_rules && !s->restart) {
        BASE_TRY(add_cells(s, true));
        BASE_TRY(walk(s));
    }
    for (int64_t i = 0; i < s->too_large_count; i++)
        *(s->too_large[i].kind == PROGRAM ? &counts->by_program : &counts->by_memory) += plans_of(s, &s->too_large[i]);
    if (!s->result->plan_count && !s->restart) BASE_TRY(find_nearest(s));
    return BASE_OK;
}

/* Families and plans that bounds alone decided; cells stand for too many plans to be shown. */
static void show_ruled_out(const struct search *s, const struct node *nodes, int64_t count, bool by_memory)
{
    for (int64_t i = 0; i < count && s->options->looked; i++) {
        const struct node *n = &nodes[i];
        if (n->kind != FAMILY && n->kind != PLAN) continue;
        s->options->looked(s->options->looked_where,
                           &(struct tuner_looked){{n->group, n->kind == PLAN ? n->submesh : 0, n->microbatches},
                                                  NULL,
                                                  seconds_of_cost(s, n->group, n->bound),
                                                  n->peak_bytes,
                                                  by_memory});
    }
}

/* What the heap still holds: decided by its bounds, or open where the time was up. */
static void settle(struct search *s)
{
    struct tuner_result *r = s->result;
    struct tuner_counts *c = &r->counts;
    int64_t all = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < s->heap_count; i++) {
        if (!s->stopped) count_as_decided(s, &s->heap[i]);
        if (s->heap[i].bound < least) least = s->heap[i].bound;
    }
    for (int g = 0; g < s->base_groups; g++)
        if (!s->options->shape || s->space->groups[g].shape == s->options->shape - 1)
            all += tuner_group_plan_count(s->space, g) + s->rule_counts[g] * tuner_group_submesh_count(s->space, g) *
                                                             tuner_group_microbatch_count(s->space, g);
    c->open = s->stopped
                  ? all - (c->evaluated - c->looked_at) - c->by_program - c->by_memory - c->by_time - c->by_sibling
                  : 0;
    r->proven_optimal = !s->stopped;
    if (!s->stopped) return;
    double best = r->plan_count ? found_cost(s, &r->plans[0]) : INFINITY;
    r->gap_frac = !r->plan_count || !s->cells_are_complete ? 1 : least < best ? 1 - least / best : 0;
}

enum base_status tuner_search(struct tuner_space *space, const struct tuner_options *options, struct tuner_result *out,
                              struct base_error *error)
{
    struct tuner_result result = {.plan_count = 0};
    struct search s = {.space = space,
                       .options = options,
                       .result = &result,
                       .error = error,
                       .charges = {true, true},
                       .use_bounds = !options->no_bounds};
    if (!space->outlines)
        space->outlines = base_new(space->arena, const struct tuner_outline *, 2 * space->variant_count);
    if (!space->placements)
        space->placements =
            base_new(space->arena, const struct sim_placement *, space->values[TUNER_SUBMESH].count + 1);
    s.best_links = base_new(space->arena, struct sim_placement, space->shape_count);
    s.ruled = base_new(space->arena, struct tuner_ruled *, 2 * space->group_count);
    s.any = base_new(space->arena, struct tuner_ruled *, 2 * space->group_count);
    s.cell_end = base_new(space->arena, int, space->group_count + 1);
    s.base_groups = space->group_count;
    s.codings = base_new(space->arena, const struct tuner_coding *, 2 * space->variant_count);
    s.rule_counts = base_new(space->arena, int64_t, space->group_count + 1);
    result.plans = base_new(space->arena, struct tuner_found, options->top + 1);
    s.start_s = options->now_s ? options->now_s(options->where) : 0;
    enum base_status status;
    do {
        if (options->looked) options->looked(options->looked_where, NULL);
        status = run_once(&s);
    } while (status == BASE_OK && s.restart && !s.stopped);
    tuner_choices_end();
    if (status != BASE_OK) return status;
    settle(&s);
    if (!s.stopped) show_ruled_out(&s, s.heap, s.heap_count, false);
    if (!s.stopped) show_ruled_out(&s, s.too_large, s.too_large_count, true);
    result.wall_s = options->now_s ? options->now_s(options->where) - s.start_s : 0;
    *out = result;
    return BASE_OK;
}
