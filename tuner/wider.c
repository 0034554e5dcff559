/* For a space in which nothing fits: a wider space, or a larger topology, with a plan that fits. Each is searched
 * before it is suggested. */
#include "tuner/tuner.h"

#include <string.h>

enum { MOST_TOPOLOGIES = 8 };

struct trial {
    struct base_arena *arena;
    struct sim_cache *cache;
    const struct tuner_options *options;
    struct tuner_wider *found;
    int *count;
};

static bool is_free(const struct tuner_request *request, enum tuner_dimension d)
{
    return !request->given[d].count && !sim_key_is_given(&request->plan, tuner_key(d));
}

static void set_free(struct tuner_request *request, enum tuner_dimension d)
{
    request->given[d] = (struct tuner_values){NULL, 0};
    request->plan.values[tuner_key(d)] = NULL;
    if (d == TUNER_SUBMESH) request->plan.values[SIM_NUM_PARTITIONS] = NULL;
}

/* Opens more choices of the request; returns their names, or NULL if nothing changes. */
static const char *widen(struct base_arena *arena, struct tuner_request *request, int step)
{
    static const struct {
        int after; /* the first step that opens it */
        enum tuner_dimension d;
        bool beyond;
    } opened[] = {{1, TUNER_SUBMESH, false}, {2, TUNER_RULES, false},       {2, TUNER_MICROBATCHES, false},
                  {3, TUNER_REMAT, true},    {3, TUNER_PARTITIONING, true}, {3, TUNER_SEQUENCE, true}};
    struct base_text words = {.arena = arena};
    bool wider = false, named_mesh = request->plan.values[SIM_ICI_MESH] != NULL;
    for (int i = 0; i < BASE_COUNT(opened); i++) {
        bool partitions = opened[i].d == TUNER_SUBMESH && sim_key_is_given(&request->plan, SIM_NUM_PARTITIONS);
        bool open = is_free(request, opened[i].d) && !partitions && (!opened[i].beyond || request->beyond_t5x);
        if (opened[i].after > step || open || (opened[i].d == TUNER_SUBMESH && named_mesh)) continue;
        enum sim_key key = partitions ? SIM_NUM_PARTITIONS : tuner_key(opened[i].d);
        base_putf(&words, "%s%s", words.length ? ", " : "", sim_plan_keys[key].name);
        set_free(request, opened[i].d);
        wider = wider || opened[i].after == step;
    }
    if (step == 3) request->beyond_t5x = true;
    return wider ? words.data : NULL;
}

enum outcome { NOT_SETTLED, NOTHING_FITS, FITS };

/* Searches a space and notes its best plan if one fits. Topologies that T5X or JAX reject are no advice. */
static enum base_status try_space(struct trial *t, const struct tuner_request *request, const char *freed,
                                  const char *topology, enum outcome *outcome, struct base_error *error)
{
    struct tuner_space *space = base_new(t->arena, struct tuner_space, 1);
    struct tuner_result result;
    struct base_error refused;
    struct tuner_options any = *t->options;
    any.top = 1;
    any.pareto = false;
    any.looked = NULL;
    *outcome = NOTHING_FITS;
    if (tuner_space_build(t->arena, t->cache, request, space, &refused) != BASE_OK) return BASE_OK;
    BASE_TRY(tuner_search(space, &any, &result, error));
    *outcome = result.plan_count ? FITS : result.proven_optimal ? NOTHING_FITS : NOT_SETTLED;
    if (*outcome != FITS) return BASE_OK;
    t->found[(*t->count)++] =
        (struct tuner_wider){.freed = freed, .topology = topology, .space = space, .best = result.plans[0]};
    return BASE_OK;
}

/* Finds the smallest extension with a plan that fits, and a larger one with a faster best plan. */
static enum base_status try_here(struct trial *t, const struct tuner_request *request, int first, int last,
                                 struct base_error *error)
{
    const struct tuner_wider *found = t->found + *t->count, *before = NULL;
    for (int step = first; step <= last; step++) {
        struct tuner_request wider = *request;
        enum outcome outcome = NOT_SETTLED;
        const char *freed = widen(t->arena, &wider, step);
        if (freed) BASE_TRY(try_space(t, &wider, freed, NULL, &outcome, error));
        if (outcome != FITS) continue;
        if (before && found->best.prediction.tokens_per_s <= before->best.prediction.tokens_per_s) --*t->count;
        else before = found++;
    }
    return BASE_OK;
}

/* step 0: the unchanged request. */
static enum base_status try_larger(struct trial *t, const struct tuner_request *request, int step,
                                   struct base_error *error)
{
    struct topo_topology now;
    struct tuner_request wider = *request;
    const char *freed = step ? widen(t->arena, &wider, step) : NULL;
    BASE_TRY(topo_parse(t->arena, request->plan.values[SIM_TOPOLOGY], &now, error));
    int devices = now.device_count;
    bool smallest = !step; /* all smaller ones are known to hold no plan; for GPUs, some node counts are skipped */
    enum outcome outcome = NOTHING_FITS;
    for (int i = 0; i < MOST_TOPOLOGIES && outcome != FITS && (freed || !step); i++) {
        const char *name = topo_next_larger(t->arena, &now, &devices);
        if (!name) return BASE_OK;
        smallest = smallest && outcome == NOTHING_FITS && (now.kind == TOPO_TPU || devices == 2 * now.bounds[1]);
        wider.plan.values[SIM_TOPOLOGY] = name;
        BASE_TRY(try_space(t, &wider, freed, name, &outcome, error));
        if (outcome == FITS) t->found[*t->count - 1].smallest = smallest;
    }
    return BASE_OK;
}

enum base_status tuner_wider_that_fit(struct base_arena *arena, struct sim_cache *cache,
                                      const struct tuner_request *request, const struct tuner_options *options,
                                      struct tuner_wider out[TUNER_MOST_WIDER], int *count, struct base_error *error)
{
    struct trial trial = {arena, cache, options, out, count};
    /* Unnamed rule sets and policies are not searched here: that takes many times the original search. */
    struct tuner_request named = *request;
    named.search_rules = named.search_saved = false;
    *count = 0;
    BASE_TRY(try_here(&trial, &named, 1, 2, error));
    BASE_TRY(try_larger(&trial, &named, 0, error));
    if (!*count) BASE_TRY(try_here(&trial, &named, 3, 3, error)); /* many plans, and none that T5X can run */
    for (int step = 2; step <= 3 && !*count; step++) BASE_TRY(try_larger(&trial, &named, step, error));
    for (int i = 0; i < *count; i++) out[i].smallest &= !request->search_rules && !request->search_saved;
    return BASE_OK;
}
