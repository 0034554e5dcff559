/* The units of a search: costs and seconds, batches and microbatches, plans, elapsed time. */
#include "tuner/search.h"
#include "tuner/stages.h"

#include <stdlib.h>

int64_t tuner_search_batch_size(const struct search *s, int group)
{
    if (s->space->stages) return tuner_staged_batch(s->space->stages, group);
    return strtoll(s->space->values[TUNER_BATCH].values[s->space->groups[group].batch], NULL, 10);
}

int64_t tuner_search_microbatch_count(const struct search *s, int group, int microbatches)
{
    int64_t n = strtoll(s->space->microbatches[s->space->groups[group].batch].values[microbatches], NULL, 10);
    return n > 1 ? n : 1;
}

/* The objective: seconds per sequence, or seconds per step. All plans of a space have the same lengths, devices and
 * device price, so the price per token also follows the seconds. */
double tuner_search_cost_of(const struct search *s, int group, double step_s)
{
    return s->options->objective == TUNER_STEP_S ? step_s : step_s / (double)tuner_search_batch_size(s, group);
}

/* ---- time ---- */

bool tuner_search_time_is_up(struct search *s)
{
    const struct tuner_options *o = s->options;
    bool late = o->now_s && o->time_limit_s > 0 && o->now_s(o->where) - s->start_s >= o->time_limit_s;
    bool enough = o->prediction_limit > 0 && s->result->counts.evaluated >= o->prediction_limit;
    s->stopped = s->stopped || late || enough || (o->stop && o->stop(o->where));
    return s->stopped;
}

/* Number of plans that a node represents and that are not yet counted. */
int64_t tuner_search_plans_of(const struct search *s, const struct node *node)
{
    int64_t submeshes = (int64_t)tuner_group_submesh_count(s->space, node->group) *
                        tuner_variant_plan_count(s->space, s->space->groups[node->group].variant);
    switch (node->kind) {
    case RULES: return s->rule_counts[node->group] * submeshes;
    case FAMILY: return s->space->groups[node->group].rule_set_count * submeshes;
    case PLAN: return 0; /* counted with its family */
    }
    return 0;
}

double tuner_search_seconds_of_cost(const struct search *s, int group, double cost)
{
    return s->options->objective == TUNER_STEP_S ? cost : cost * (double)tuner_search_batch_size(s, group);
}
