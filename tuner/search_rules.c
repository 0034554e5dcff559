/* The search of unnamed rule sets: cells of rule sets are bounded, opened and split. */
#include "tuner/search.h"

#include <math.h>
#include <string.h>

/* ---- unnamed rule sets ---- */

static enum base_status find_coding(struct search *s, int first, enum tuner_batch batch,
                                    const struct tuner_coding **out)
{
    int variant = s->space->groups[first].variant;
    const struct tuner_coding **slot = &s->codings[2 * variant + (batch == TUNER_IN_MICROBATCHES)];
    if (!*slot) {
        const struct tuner_relaxed_program *relaxed;
        struct sim_plan plan;
        struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){first, 0, 0, 0});
        BASE_TRY(sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan,
                                s->error));
        BASE_TRY(tuner_search_find_relaxed(s, variant, &plan, batch, &relaxed));
        if (!s->rule_space.count) s->rule_space = tuner_rule_space_of(relaxed);
        BASE_TRY(tuner_code_rules(s->space->arena, &s->rule_space, relaxed, &plan, slot, s->error));
    }
    *out = *slot;
    return BASE_OK;
}

/* Number of unnamed rule sets that JAX accepts on a cell's mesh: a property of the space, not of the search. */
static enum base_status count_rules(struct search *s, int first)
{
    const struct tuner_coding *coding;
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[first].shape];
    const int64_t each = tuner_group_plan_count(s->space, first);
    BASE_TRY(find_coding(s, first, TUNER_WHOLE_BATCH, &coding));
    s->rule_counts[first] = tuner_count_rule_sets(coding, &shape->axes, tuner_search_batch_size(s, first));
    s->space->rule_set_count = s->space->named_rule_count + s->rule_space.count;
    s->space->plan_count += s->rule_counts[first] * each;
    tuner_refuse(s->space,
                 "logical_axis_rules: rule sets without a name that shard a dimension by mesh axes that do not "
                 "divide it, as JAX demands",
                 (s->rule_space.count - s->rule_counts[first]) * each);
    return BASE_OK;
}

/* Named and unnamed rule sets have separate nodes; the first bound is that of the union of all rule sets' shards. */
static enum base_status add_rules(struct search *s, int first, int microbatches)
{
    const struct tuner_coding *coding;
    int64_t n = tuner_search_microbatch_count(s, first, microbatches), batch = tuner_search_batch_size(s, first);
    const struct sim_placement *placement = &s->best_links[s->space->groups[first].shape];
    BASE_TRY(find_coding(s, first, n > 1 ? TUNER_IN_MICROBATCHES : TUNER_WHOLE_BATCH, &coding));
    double bound_s = tuner_rule_space_s(coding, placement, batch, n, s->links);
    tuner_search_push(s, (struct node){.bound = tuner_search_cost_of(s, first, bound_s) * (1 - slack),
                                       .kind = RULES,
                                       .group = first,
                                       .microbatches = microbatches});
    return BASE_OK;
}

/* Unnamed rule sets are only explored if they may equal or beat the best. */
static double rule_limit_s(const struct search *s, int group)
{
    return s->options->pareto ? (double)INFINITY
                              : tuner_search_seconds_of_cost(s, group, tuner_search_best_threshold(s)) * (1 + slack);
}

/* A family of rule sets with equal specs. */
struct alike_rules {
    struct tuner_rules_given given;
    struct node node;
};

struct finder {
    struct search *s;
    const struct node *cell;
    const struct tuner_coding *coding;
    unsigned live; /* mesh axes with several devices */
    int64_t found;
    struct base_arena own; /* memory of the list */
    struct base_index index;
    struct alike_rules *list;
    int capacity;
};

/* Adds a group for an unnamed rule set. */
static int add_rule_set(struct search *s, int like, const int *digits)
{
    struct tuner_space *space = s->space;
    struct tuner_values *rules = &space->values[TUNER_RULES];
    rules->values = base_grown(space->arena, rules->values, rules->count, &s->rule_capacity, sizeof *rules->values);
    space->groups =
        base_grown(space->arena, space->groups, space->group_count, &s->group_capacity, sizeof *space->groups);
    rules->values[rules->count] = tuner_rule_text(space->arena, &s->rule_space, digits);
    struct tuner_group group = space->groups[like];
    group.rules = rules->count++;
    group.rule_set_count = 0;
    space->groups[space->group_count] = group;
    return space->group_count++;
}

static struct alike_rules *find_alike(struct finder *f, const int *digits)
{
    struct tuner_rules_given given;
    tuner_rules_given(f->coding, f->live, digits, &given);
    uint64_t hash = base_hash(BASE_HASH_START, &given, sizeof given);
    unsigned at = (unsigned)hash;
    for (int i; (i = base_index_next(&f->index, hash, &at)) >= 0; at++)
        if (!memcmp(&f->list[i].given, &given, sizeof given)) return &f->list[i];
    f->list = base_grown(&f->own, f->list, f->index.count, &f->capacity, sizeof *f->list);
    struct alike_rules *alike = &f->list[f->index.count];
    *alike = (struct alike_rules){given, {.kind = FAMILY, .microbatches = f->cell->microbatches}};
    alike->node.group = add_rule_set(f->s, f->cell->group, digits);
    base_index_add(&f->own, &f->index, hash);
    return alike;
}

/* Any bound of equivalent rule sets holds for all of them. */
static void add_found(void *where, const int *digits, double step_s, double bytes, int64_t equals)
{
    struct finder *f = where;
    struct alike_rules *alike = find_alike(f, digits);
    alike->node.bound = fmax(alike->node.bound, tuner_search_cost_of(f->s, f->cell->group, step_s) * (1 - slack));
    alike->node.peak_bytes = fmax(alike->node.peak_bytes, bytes * (1 - slack));
    f->s->space->groups[alike->node.group].rule_set_count += equals;
    f->found += equals;
}

enum base_status tuner_search_open_rules(struct search *s, const struct node *node)
{
    const struct sim_placement *links = &s->best_links[s->space->groups[node->group].shape];
    const int64_t n = tuner_search_microbatch_count(s, node->group, node->microbatches);
    const double limit_s = rule_limit_s(s, node->group);
    struct finder finder = {.s = s, .cell = node, .live = sim_mesh_axes(&(struct sim_extents){.mesh = &links->axes})};
    finder.own.exhausted = s->space->arena->exhausted;
    BASE_TRY(find_coding(s, node->group, n > 1 ? TUNER_IN_MICROBATCHES : TUNER_WHOLE_BATCH, &finder.coding));
    const struct tuner_rule_cell *cell = tuner_rule_cell_price(
        s->space->arena, finder.coding, links, tuner_search_batch_size(s, node->group), n, s->links, limit_s);
    tuner_rule_cell_visit(cell, limit_s, s->limit_bytes, add_found, &finder);
    for (int i = 0; i < finder.index.count; i++) tuner_search_push(s, finder.list[i].node);
    base_arena_free(&finder.own);
    s->result->counts.by_time += (s->rule_counts[node->group] - finder.found) *
                                 tuner_group_submesh_count(s->space, node->group) *
                                 tuner_variant_plan_count(s->space, s->space->groups[node->group].variant);
    return BASE_OK;
}

/* Groups are sorted by variant, batch and shape, so those of a cell are adjacent. */
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
    if (unnamed) return add_rules(s, first, microbatches);
    for (int group = first; group < s->cell_end[first]; group++) {
        struct node node;
        BASE_TRY(tuner_search_bound_family(s, group, microbatches, &node));
        if (node.peak_bytes > s->limit_bytes) tuner_search_set_aside(s, node);
        else tuner_search_push(s, node);
    }
    return BASE_OK;
}

static bool is_looked_at(const struct search *s, int first)
{
    return !s->options->shape || s->space->groups[first].shape == s->options->shape - 1;
}

void tuner_search_find_cells(struct search *s)
{
    for (int first = 0; first < s->base_groups; first = s->cell_end[first]) s->cell_end[first] = end_of_cell(s, first);
}

enum base_status tuner_search_count_rules(struct search *s)
{
    const bool asked = s->space->search_rules && !s->rules_are_counted;
    for (int first = 0; first < s->base_groups && asked; first = s->cell_end[first])
        if (is_looked_at(s, first)) BASE_TRY(count_rules(s, first));
    s->rules_are_counted = true;
    return BASE_OK;
}

static bool is_of_phase(const struct search *s, const struct phase *phase, int first)
{
    return tuner_variant_is_saved(s->space, s->space->groups[first].variant) ? phase->policies_by_tensor
                                                                             : phase->named_policies;
}

enum base_status tuner_search_add_cells(struct search *s, const struct phase *phase)
{
    for (int first = 0; first < s->base_groups; first = s->cell_end[first]) {
        if (!is_looked_at(s, first) || !is_of_phase(s, phase, first)) continue;
        if (tuner_search_time_is_up(s)) return s->cells_are_complete = false, BASE_OK;
        const bool is_placed = s->best_links[s->space->groups[first].shape].axes.count > 0;
        if (!is_placed && !model_infers(s->space->step)) BASE_TRY(tuner_search_place_shape(s, first)); /* for bounds */
        for (int m = 0; m < tuner_group_microbatch_count(s->space, first); m++)
            if (tuner_group_takes(s->space, first, m)) BASE_TRY(add_cell_of(s, first, m, phase->unnamed_rules));
    }
    return BASE_OK;
}
