/* Where nothing of a space fits: which wider space, or which larger topology, has a plan that does. Each is searched
 * before it is named. */
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

/* The request with more of its choices open; returns in words which, NULL where that is no wider. */
static const char *widen(struct base_arena *arena, struct tuner_request *request, int step)
{
    static const struct {
        int after; /* from which step on */
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

/* Whether a plan fits there; then it is noted. What T5X or JAX refuse altogether is no advice. */
static enum base_status try_space(struct trial *t, const struct tuner_request *request, const char *freed,
                                  const char *topology, bool *fits, struct base_error *error)
{
    struct tuner_space *space = base_new(t->arena, struct tuner_space, 1);
    struct tuner_result result;
    struct base_error refused;
    struct tuner_options any = *t->options;
    any.top = 1;
    any.pareto = false;
    any.looked = NULL;
    *fits = false;
    if (tuner_space_build(t->arena, t->cache, request, space, &refused) != BASE_OK) return BASE_OK;
    BASE_TRY(tuner_search(space, &any, &result, error));
    if (!result.plan_count) return BASE_OK;
    *fits = true;
    t->found[(*t->count)++] = (struct tuner_wider){freed, topology, space, result.plans[0]};
    return BASE_OK;
}

static enum base_status try_here(struct trial *t, const struct tuner_request *request, int first, int last,
                                 struct base_error *error)
{
    bool fits = false;
    for (int step = first; step <= last && !fits; step++) {
        struct tuner_request wider = *request;
        const char *freed = widen(t->arena, &wider, step);
        if (freed) BASE_TRY(try_space(t, &wider, freed, NULL, &fits, error));
    }
    return BASE_OK;
}

/* step 0: the request as it is. */
static enum base_status try_larger(struct trial *t, const struct tuner_request *request, int step,
                                   struct base_error *error)
{
    struct topo_topology now;
    struct tuner_request wider = *request;
    const char *freed = step ? widen(t->arena, &wider, step) : NULL;
    BASE_TRY(topo_parse(t->arena, request->plan.values[SIM_TOPOLOGY], &now, error));
    int devices = now.device_count;
    bool fits = false;
    for (int i = 0; i < MOST_TOPOLOGIES && !fits && (freed || !step); i++) {
        const char *name = topo_next_larger(t->arena, &now, &devices);
        if (!name) return BASE_OK;
        wider.plan.values[SIM_TOPOLOGY] = name;
        BASE_TRY(try_space(t, &wider, freed, name, &fits, error));
    }
    return BASE_OK;
}

enum base_status tuner_wider_that_fit(struct base_arena *arena, struct sim_cache *cache,
                                      const struct tuner_request *request, const struct tuner_options *options,
                                      struct tuner_wider out[TUNER_MOST_WIDER], int *count, struct base_error *error)
{
    struct trial trial = {arena, cache, options, out, count};
    *count = 0;
    BASE_TRY(try_here(&trial, request, 1, 2, error));
    BASE_TRY(try_larger(&trial, request, 0, error));
    if (!*count) BASE_TRY(try_here(&trial, request, 3, 3, error)); /* many plans, and none that T5X launches */
    for (int step = 2; step <= 3 && !*count; step++) BASE_TRY(try_larger(&trial, request, step, error));
    return BASE_OK;
}
