/* What a search counts with: costs and seconds, batches and plans, elapsed time; and its open nodes. */
#include "tuner/search.h"
#include "tuner/stages.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- open nodes: smallest bound first, ties in order of the space ---- */

bool tuner_search_before(const struct node *a, const struct node *b)
{
    if (a->unpriced != b->unpriced) return b->unpriced;
    if (a->bound != b->bound) return a->bound < b->bound;
    if (a->kind != b->kind) return a->kind > b->kind;
    if (a->group != b->group) return a->group < b->group;
    if (a->microbatches != b->microbatches) return a->microbatches < b->microbatches;
    if (a->submesh != b->submesh) return a->submesh < b->submesh;
    return a->saved < b->saved;
}

static struct node *grown(struct search *s, struct node *nodes, int64_t count, int64_t *capacity)
{
    if (count < *capacity) return nodes;
    *capacity = *capacity ? 2 * *capacity : 1024;
    struct node *larger = base_new(s->space->arena, struct node, *capacity);
    if (count) memcpy(larger, nodes, (size_t)count * sizeof *larger);
    return larger;
}

void tuner_search_push(struct search *s, struct node node)
{
    s->heap = grown(s, s->heap, s->heap_count, &s->heap_capacity);
    int64_t at = s->heap_count++;
    for (; at > 0 && tuner_search_before(&node, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = node;
}

void tuner_search_set_aside(struct search *s, struct node node)
{
    s->too_large = grown(s, s->too_large, s->too_large_count, &s->too_large_capacity);
    s->too_large[s->too_large_count++] = node;
}

struct node tuner_search_pop(struct search *s)
{
    struct node top = s->heap[0], last = s->heap[--s->heap_count];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= s->heap_count) break;
        if (child + 1 < s->heap_count && tuner_search_before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!tuner_search_before(&s->heap[child], &last)) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    if (s->heap_count) s->heap[at] = last;
    return top;
}
