/* Explains the answer: how two plans differ, what each choice costs alone, and what would have to change. */
#include "tuner/space.h"

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

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static enum base_status predict_other(const struct tuner_space *space, const struct sim_plan_text *text,
                                      struct tuner_alternative *out, struct base_error *error)
{
    struct sim_plan plan;
    struct base_error why;
    out->refused = sim_plan_check(space->cache, space->arena, text, space->step, SIM_AS_COMPILED, &plan, &why) ||
                   tuner_check_micro_batch(&plan, space->micro_batch, &why) || tuner_is_repetition(space, &plan);
    if (out->refused) return BASE_OK;
    BASE_TRY(sim_predict(space->cache, &plan, &out->prediction, NULL, error));
    out->prediction.profile = base_copy(space->arena, out->prediction.profile);
    return BASE_OK;
}

enum base_status tuner_sensitivity(const struct tuner_space *space, struct tuner_plan plan,
                                   struct tuner_alternative **out, int *count, struct base_error *error)
{
    enum { MOST_VALUES = 64 };
    const struct sim_plan_text own = tuner_plan_text(space, plan);
    struct tuner_alternative *list =
        base_new(space->arena, struct tuner_alternative, TUNER_DIMENSION_COUNT * MOST_VALUES);
    int found = 0;
    for (int d = 0; d < TUNER_PLAN_DIMENSIONS; d++) {
        const struct tuner_values *values =
            d == TUNER_MICROBATCHES ? &space->microbatches[space->groups[plan.group].batch] : &space->values[d];
        const int shown = d == TUNER_RULES && space->named_rule_count ? space->named_rule_count : values->count;
        for (int v = 0; v < shown && v < MOST_VALUES && values->count > 1; v++) {
            struct sim_plan_text other = own;
            const char *value = values->values[v];
            if (is_same(own.values[space->keys[d]], value)) continue;
            other.values[space->keys[d]] = value;
            list[found] = (struct tuner_alternative){.dimension = (enum tuner_dimension)d, .value = value ? value : ""};
            BASE_TRY(predict_other(space, &other, &list[found++], error));
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
