/* Explains the answer: how two plans differ, what each choice costs alone, and what would have to change. */
#include "tuner/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- why one plan beats another ---- */

/* The part of the model that an operation belongs to; fusion moves time between neighbouring operations, but not
 * between parts. The first word found in the operation's name decides. */
static const char *part_of(const struct sim_entry *entry)
{
    static const struct {
        const char *word, *part;
    } parts[] = {{"accumulated gradient", "gradient accumulation"},
                 {"norm", "norms and residual sums"},
                 {"expert", "experts"},
                 {"router", "experts"},
                 {"relpos", "attention"},
                 {"attention", "attention"},
                 {"mlp", "MLP"},
                 {"logits", "logits and loss"},
                 {"loss", "logits and loss"},
                 {"embed", "embeddings"}};
    if (entry->phase == MODEL_OPTIMIZER) return "optimizer";
    for (int i = 0; i < BASE_COUNT(parts); i++)
        if (strstr(entry->name, parts[i].word)) return parts[i].part;
    return "the other operations";
}

struct record {
    struct tuner_difference *differences;
    int count, capacity;
    struct base_arena *arena;
};

static struct tuner_difference *find_difference(struct record *record, const struct tuner_difference *like)
{
    for (int i = 0; i < record->count; i++) {
        struct tuner_difference *d = &record->differences[i];
        bool same =
            d->communicates == like->communicates &&
            (like->communicates ? d->kind == like->kind && d->axes == like->axes : !strcmp(d->name, like->name));
        if (same) return d;
    }
    record->differences =
        base_grown(record->arena, record->differences, record->count, &record->capacity, sizeof *record->differences);
    record->differences[record->count] = *like;
    return &record->differences[record->count++];
}

/* Side 0 is the better plan. scale: makes both sides count equally many sequences. */
static enum base_status add_side(const struct tuner_space *space, struct tuner_plan plan, int side, double scale,
                                 struct record *record, struct tuner_comparison *comparison, struct base_error *error)
{
    struct sim_timeline timeline = {0};
    struct sim_detail detail = {.lists_collectives = true, .timeline = &timeline, .arena = record->arena};
    struct sim_prediction prediction;
    double known_s = 0;
    BASE_TRY(tuner_predict(space, plan, &prediction, &detail, error));
    for (int i = 0; i < timeline.count; i++) {
        const struct sim_entry *e = &timeline.entries[i];
        if (e->bound == SIM_BY_COMMUNICATION) continue;
        double seconds = scale * e->time_s * (double)e->count;
        find_difference(record, &(struct tuner_difference){.name = part_of(e)})->seconds[side] += seconds;
        known_s += seconds;
    }
    const struct sim_collective_row *rows = detail.collectives.rows;
    for (int i = 0; i < detail.collectives.count; i++) {
        struct tuner_difference *d = find_difference(
            record, &(struct tuner_difference){.communicates = true, .kind = rows[i].kind, .axes = rows[i].axes});
        if (!d->name || rows[i].time_s > d->largest_s) {
            d->largest_s = rows[i].time_s;
            d->name = base_copy(record->arena, rows[i].first_op);
        }
        d->seconds[side] += scale * rows[i].time_s;
        known_s += scale * rows[i].time_s;
    }
    comparison->step_s[side] = scale * prediction.step_s;
    comparison->hidden_s[side] = scale * (prediction.communication_s - prediction.exposed_communication_s);
    comparison->left_s[side] = comparison->step_s[side] + comparison->hidden_s[side] - known_s;
    return BASE_OK;
}

static int larger_difference(const void *a, const void *b)
{
    const struct tuner_difference *x = a, *y = b;
    double left = fabs(x->seconds[1] - x->seconds[0]), right = fabs(y->seconds[1] - y->seconds[0]);
    if (left != right) return left > right ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int64_t batch_of(const struct tuner_space *space, struct tuner_plan plan)
{
    return strtoll(space->values[TUNER_BATCH].values[space->groups[plan.group].batch], NULL, 10);
}

enum base_status tuner_compare(const struct tuner_space *space, enum tuner_objective objective,
                               struct tuner_plan better, struct tuner_plan worse, struct tuner_comparison *out,
                               struct base_error *error)
{
    struct record record = {.arena = space->arena};
    struct tuner_comparison comparison = {.better = better, .worse = worse};
    int64_t sequences[2] = {batch_of(space, better), batch_of(space, worse)};
    bool scaled = objective != TUNER_STEP_S && sequences[0] != sequences[1];
    double scale = scaled ? (double)sequences[0] / (double)sequences[1] : 1;
    BASE_TRY(add_side(space, better, 0, 1, &record, &comparison, error));
    BASE_TRY(add_side(space, worse, 1, scale, &record, &comparison, error));
    if (record.count) qsort(record.differences, (size_t)record.count, sizeof *record.differences, larger_difference);
    comparison.differences = record.differences;
    comparison.count = record.count;
    comparison.sequences = scaled ? sequences[0] : 0;
    *out = comparison;
    return BASE_OK;
}

/* ---- what the slower plan would need ---- */

/* The factor by which a resource would have to be faster for the worse plan to catch up, if the better plan did not
 * gain. */
int tuner_needs(const struct sim_prediction *better, const struct sim_prediction *worse, double scale,
                struct tuner_need needs[TUNER_MOST_NEEDS])
{
    const struct {
        const char *resource;
        double s;
    } parts[TUNER_MOST_NEEDS] = {{"links", worse->exposed_communication_s},
                                 {"memory bandwidth", worse->memory_bound_s},
                                 {"matrix units", worse->compute_s}};
    double gap_s = worse->step_s - better->step_s / scale;
    int count = 0;
    for (int i = 0; i < TUNER_MOST_NEEDS; i++)
        if (parts[i].s > gap_s && gap_s > 0)
            needs[count++] = (struct tuner_need){parts[i].resource, parts[i].s / (parts[i].s - gap_s)};
    return count;
}

/* ---- what each choice costs by itself ---- */

static int find_group(const struct tuner_space *space, struct tuner_group wanted)
{
    for (int g = 0; g < space->group_count; g++) {
        const struct tuner_group *group = &space->groups[g];
        if (group->variant == wanted.variant && group->batch == wanted.batch && group->shape == wanted.shape &&
            group->rules == wanted.rules)
            return g;
    }
    return -1;
}

/* Number of variants between neighbouring values of the dimension. */
static int stride_of(const struct tuner_space *space, enum tuner_dimension d)
{
    int stride = 1;
    for (int i = (int)d + 1; i < TUNER_BATCH; i++) stride *= space->values[i].count;
    return stride;
}

static int same_text(const struct tuner_values *values, const char *text)
{
    for (int i = 0; i < values->count; i++)
        if (!strcmp(values->values[i], text)) return i;
    return -1;
}

/* The plan with another value of one dimension; group -1: none exists. *same: it is the plan itself. */
static struct tuner_plan with_value(const struct tuner_space *space, struct tuner_plan plan, enum tuner_dimension d,
                                    int value, bool *same)
{
    struct tuner_group group = space->groups[plan.group];
    struct tuner_plan other = plan;
    const char *microbatches = space->microbatches[group.batch].values[plan.microbatches];
    if (d < TUNER_BATCH) {
        int stride = stride_of(space, d), now = group.variant / stride % space->values[d].count;
        *same = now == value && !(d == TUNER_REMAT && plan.saved);
        group.variant += (value - now) * stride;
        if (d == TUNER_REMAT) other.saved = 0;
    } else if (d == TUNER_BATCH) {
        *same = group.batch == value;
        group.batch = value;
    } else if (d == TUNER_RULES) {
        *same = group.rules == value;
        group.rules = value;
    } else if (d == TUNER_SUBMESH) {
        *same = space->shapes[group.shape].first_submesh + plan.submesh == value;
        for (int s = 0; s < space->shape_count; s++)
            if (value >= space->shapes[s].first_submesh &&
                value < space->shapes[s].first_submesh + space->shapes[s].submesh_count)
                group.shape = s;
        other.submesh = value - space->shapes[group.shape].first_submesh;
    } else {
        *same = plan.microbatches == value;
        other.microbatches = value;
    }
    other.group = find_group(space, group);
    if (d == TUNER_BATCH) other.microbatches = same_text(&space->microbatches[group.batch], microbatches);
    if (other.microbatches < 0) other.group = -1;
    return other;
}

enum base_status tuner_sensitivity(const struct tuner_space *space, struct tuner_plan plan,
                                   struct tuner_alternative **out, int *count, struct base_error *error)
{
    enum { MOST_VALUES = 64 };
    struct tuner_alternative *list =
        base_new(space->arena, struct tuner_alternative, TUNER_DIMENSION_COUNT * MOST_VALUES);
    int found = 0;
    for (int d = 0; d < TUNER_PLAN_DIMENSIONS; d++) {
        const struct tuner_values *values =
            d == TUNER_MICROBATCHES ? &space->microbatches[space->groups[plan.group].batch] : &space->values[d];
        int shown = d == TUNER_RULES && space->named_rule_count ? space->named_rule_count : values->count;
        for (int v = 0; v < shown && v < MOST_VALUES && values->count > 1; v++) {
            bool same;
            struct tuner_plan other = with_value(space, plan, (enum tuner_dimension)d, v, &same);
            struct tuner_alternative *a = &list[found];
            *a = (struct tuner_alternative){.dimension = (enum tuner_dimension)d,
                                            .value = values->values[v] ? values->values[v] : "",
                                            .refused = other.group < 0};
            if (same) continue;
            if (!a->refused) BASE_TRY(tuner_predict(space, other, &a->prediction, NULL, error));
            found++;
        }
    }
    *out = list;
    *count = found;
    return BASE_OK;
}

/* ---- the smallest number of devices that one copy of the model fits on ---- */

enum base_status tuner_fit(struct tuner_space *space, const struct tuner_options *options, struct tuner_fit_row *rows,
                           int *count, struct base_error *error)
{
    enum { LARGER_ONES = 3 };
    int larger = 0;
    *count = 0;
    for (int s = 0; s < space->shape_count && larger <= LARGER_ONES; s++) {
        struct tuner_result result;
        struct tuner_options only = *options;
        bool any = false;
        only.top = 1;
        only.shape = s + 1;
        for (int g = 0; g < space->group_count; g++) any = any || space->groups[g].shape == s;
        if (!any) continue;
        BASE_TRY(tuner_search(space, &only, &result, error));
        rows[(*count)++] =
            (struct tuner_fit_row){space->shapes[s], result.plan_count > 0,
                                   result.plan_count ? result.plans[0] : result.nearest, result.proven_optimal};
        larger += result.plan_count > 0;
    }
    return BASE_OK;
}
