/* Inference plans: all plans of a space are predicted, so the best is proven. A space has few programs, one per mesh
 * and rule set, shared by batches and beams; each prediction takes microseconds. */
#include "tuner/space.h"

#include <stdlib.h>

enum { MOST_PLANS = 1 << 22, LARGEST_SHARE = 32 };

/* ---- the space ---- */

/* Powers of two up to 32 sequences per device: small batches answer sooner, large ones give more throughput. */
static enum base_status find_batches(struct base_arena *arena, const struct sim_plan_text *plan,
                                     struct tuner_values *out, struct base_error *error)
{
    struct topo_topology topology;
    BASE_TRY(topo_parse(arena, plan->values[SIM_TOPOLOGY], &topology, error));
    out->values = base_new(arena, const char *, 64);
    out->count = 0;
    for (int64_t batch = 1; batch <= (int64_t)LARGEST_SHARE * topology.device_count; batch *= 2)
        out->values[out->count++] = base_print(arena, "%lld", (long long)batch);
    return BASE_OK;
}

static void pin(struct base_arena *arena, struct tuner_request *request, enum tuner_dimension dimension,
                const char *value)
{
    struct tuner_values *given = &request->given[dimension];
    if (given->count) return;
    *given = (struct tuner_values){base_new(arena, const char *, 1), 1};
    given->values[0] = value;
}

/* Training keys do not vary. The space is built without inference keys, which affect neither meshes nor rules. */
static enum base_status build_space(struct base_arena *arena, struct sim_cache *cache,
                                    const struct tuner_serving_request *request, struct tuner_space *out,
                                    struct base_error *error)
{
    struct tuner_request space = request->space;
    if (!space.plan.values[SIM_TOPOLOGY])
        return base_fail(error, BASE_INPUT, "topology: is missing; an accelerator type such as v5e-64, or h100:1x8");
    if (space.batch_auto) BASE_TRY(find_batches(arena, &space.plan, &space.given[TUNER_BATCH], error));
    space.batch_auto = false;
    pin(arena, &space, TUNER_REMAT, "none");
    pin(arena, &space, TUNER_PARTITIONING, "none");
    pin(arena, &space, TUNER_SEQUENCE, "0");
    pin(arena, &space, TUNER_MICROBATCHES, "0");
    for (int key = SIM_STEP; key <= SIM_PARAMETER_DTYPE; key++) space.plan.values[key] = NULL;
    return tuner_space_build(arena, cache, &space, out, error);
}

static struct sim_plan_text text_of(const struct tuner_serving_result *r, const struct tuner_served *plan)
{
    struct sim_plan_text text = tuner_plan_text(r->space, (struct tuner_plan){plan->group, plan->submesh, 0, 0});
    for (int key = SIM_STEP; key <= SIM_PARAMETER_DTYPE; key++) text.values[key] = r->plan.values[key];
    text.values[SIM_NUM_DECODES] = r->num_decodes.values[plan->num_decodes];
    text.values[SIM_PARAMETER_DTYPE] = r->parameter_dtypes.values[plan->parameter_dtype];
    return text;
}

struct sim_plan_text tuner_served_text(const struct tuner_serving_result *result, const struct tuner_served *plan)
{
    return text_of(result, plan);
}

/* ---- ranking ---- */

/* By the objective (latency or tokens/s), then by the other of the two, then by memory; ties in order of the space. */
static int by_cost(enum tuner_serving_objective objective, const struct tuner_served *a, const struct tuner_served *b)
{
    const bool latency = objective == TUNER_LATENCY;
    const double x[] = {latency ? a->latency_s : -a->tokens_per_s, latency ? -a->tokens_per_s : a->latency_s,
                        a->peak_bytes},
                 y[] = {latency ? b->latency_s : -b->tokens_per_s, latency ? -b->tokens_per_s : b->latency_s,
                        b->peak_bytes};
    for (int i = 0; i < BASE_COUNT(x); i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static int by_latency(const void *a, const void *b)
{
    return by_cost(TUNER_LATENCY, a, b);
}

static int by_tokens(const void *a, const void *b)
{
    return by_cost(TUNER_THROUGHPUT, a, b);
}

static bool is_within_bounds(const struct tuner_serving_request *request, const struct tuner_served *plan)
{
    return (!(request->most_latency_s > 0) || plan->latency_s <= request->most_latency_s) &&
           (!(request->least_tokens_per_s > 0) || plan->tokens_per_s >= request->least_tokens_per_s);
}

/* In order of latency: plans with more tokens/s than all before. */
static void find_front(struct base_arena *arena, struct tuner_serving_result *r)
{
    double most = 0;
    r->front = base_new(arena, struct tuner_served, r->fitting_count + 1);
    for (int64_t i = 0; i < r->fitting_count; i++) {
        if (r->fitting[i].tokens_per_s <= most) continue;
        most = r->fitting[i].tokens_per_s;
        r->front[r->front_count++] = r->fitting[i];
    }
}

static void rank(struct base_arena *arena, const struct tuner_serving_request *request, struct tuner_serving_result *r)
{
    qsort(r->fitting, (size_t)r->fitting_count, sizeof *r->fitting, by_latency);
    find_front(arena, r);
    struct tuner_served *within = base_new(arena, struct tuner_served, r->fitting_count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < r->fitting_count; i++)
        if (is_within_bounds(request, &r->fitting[i])) within[count++] = r->fitting[i];
    r->out_of_bounds_count = r->fitting_count - count;
    if (request->objective == TUNER_THROUGHPUT) qsort(within, (size_t)count, sizeof *within, by_tokens);
    r->plans = within;
    r->plan_count = (int)(count < request->top ? count : request->top);
}

/* ---- main loop ---- */

struct walk {
    const struct tuner_serving_request *request;
    struct tuner_serving_result *result;
    struct tuner_space *space;
    struct sim_cache *cache;
    struct base_arena scratch; /* memory for one plan */
};

static enum base_status look_at(struct walk *w, struct tuner_served *plan, struct base_error *error)
{
    struct tuner_serving_result *r = w->result;
    struct sim_plan checked;
    struct sim_prediction p;
    struct base_error why;
    const struct sim_plan_text text = text_of(r, plan);
    plan->place = r->plan_count_of_space++;
    base_arena_reset(&w->scratch);
    if (sim_plan_check(w->cache, &w->scratch, &text, w->request->step, SIM_AS_COMPILED, &checked, &why) != BASE_OK) {
        tuner_refuse(w->space, why.text, 1);
        r->plan_count_of_space--;
        return BASE_OK;
    }
    BASE_TRY(sim_predict(w->cache, &checked, &p, NULL, error));
    plan->latency_s = p.latency_s, plan->first_token_s = p.first_token_s, plan->step_s = p.step_s;
    plan->tokens_per_s = p.tokens_per_s;
    plan->peak_bytes = (double)p.memory.peak_bytes, plan->free_bytes = (double)p.free_bytes;
    plan->rows = checked.batch_size * checked.decoding.num_decodes;
    if (!r->has_nearest || plan->peak_bytes < r->nearest.peak_bytes) r->nearest = *plan;
    r->has_nearest = true;
    if (sim_leaves_free(&p, w->request->headroom_frac)) r->fitting[r->fitting_count++] = *plan;
    else r->unfit[r->unfit_count++] = *plan;
    return BASE_OK;
}

static enum base_status look_at_all(struct walk *w, struct base_error *error)
{
    struct tuner_serving_result *r = w->result;
    for (int g = 0; g < r->space->group_count; g++)
        for (int m = 0; m < tuner_group_submesh_count(r->space, g); m++)
            for (int k = 0; k < r->num_decodes.count; k++)
                for (int d = 0; d < r->parameter_dtypes.count; d++) {
                    struct tuner_served plan = {.group = g, .submesh = m, .num_decodes = k, .parameter_dtype = d};
                    BASE_TRY(look_at(w, &plan, error));
                }
    return BASE_OK;
}

/* The plan's own values or, without them, the default candidates. */
static struct tuner_values values_of(struct base_arena *arena, const struct tuner_values *given, const char *first,
                                     const char *second)
{
    if (given->count) return *given;
    struct tuner_values values = {base_new(arena, const char *, 2), second ? 2 : 1};
    values.values[0] = first, values.values[1] = second;
    return values;
}

enum base_status tuner_serve(struct base_arena *arena, struct sim_cache *cache,
                             const struct tuner_serving_request *request, struct tuner_serving_result *out,
                             struct base_error *error)
{
    struct tuner_serving_result *r = base_new(arena, struct tuner_serving_result, 1);
    struct tuner_space *space = base_new(arena, struct tuner_space, 1);
    const double start_s = request->now_s ? request->now_s(request->where) : 0;
    BASE_TRY(build_space(arena, cache, request, space, error));
    *r = (struct tuner_serving_result){.space = space, .plan = request->space.plan};
    for (int i = 0; i < SIM_MOST_WORDS && sim_plan_keys[SIM_STEP].words[i].name; i++)
        if (sim_plan_keys[SIM_STEP].words[i].value == (int)request->step)
            r->plan.values[SIM_STEP] = sim_plan_keys[SIM_STEP].words[i].name;
    r->num_decodes = values_of(arena, &request->num_decodes, NULL, NULL);
    r->parameter_dtypes = values_of(arena, &request->parameter_dtypes, NULL, request->space.beyond_t5x ? "int8" : NULL);
    const double count = (double)space->plan_count * r->num_decodes.count * r->parameter_dtypes.count;
    if (count > MOST_PLANS)
        return base_fail(error, BASE_INPUT, "the space has %.0f plans, and %d are the limit; use fewer values", count,
                         MOST_PLANS);
    r->fitting = base_new(arena, struct tuner_served, (int64_t)count + 1);
    r->unfit = base_new(arena, struct tuner_served, (int64_t)count + 1);
    struct walk w = {request, r, space, cache, {.exhausted = arena->exhausted}};
    enum base_status status = look_at_all(&w, error);
    base_arena_free(&w.scratch);
    BASE_TRY(status);
    if (!r->plan_count_of_space) return tuner_refuse_all(space, error);
    rank(arena, request, r);
    r->wall_s = request->now_s ? request->now_s(request->where) - start_s : 0;
    *out = *r;
    return BASE_OK;
}
