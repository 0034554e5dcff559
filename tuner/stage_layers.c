/* Assigns layers to pipeline stages, with embedding and head counted, by sums over the prices of stages with every
 * number of layers. No 1F1B schedule is below its sums. The assignments whose sums may beat the best are listed
 * (layer_bound.c) and predicted in full; where they are too many, the best stays unproven. */
#include "tuner/stage_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED = 256, MOST_TRIALS = 16 }; /* candidates that are predicted: of a whole list, and of a part */
enum { MOST_STAGES = 32 };                    /* the sums grow with the square of the stages */

/* Costs of every stage with every number of layers: [stage * most + layers - 1]. */
struct table {
    int stages, most;
    int64_t microbatches;
    bool alternates; /* 1F1B; otherwise all forward passes come first */
    struct sim_stage_cost *costs;
};

static const struct sim_stage_cost *at(const struct table *t, int stage, int layers)
{
    return &t->costs[stage * t->most + layers - 1];
}

/* A lower bound on a stage's time: all its passes, and the messages that it waits for except the last. */
static double busy_s(const struct table *t, int stage, const struct sim_stage_cost *c)
{
    const double m = (double)t->microbatches;
    return m * (c->forward_s + c->backward_s + c->waited_s) - (stage > 0 && c->waited_s > 0 ? c->send_back_s : 0);
}

/* Number of forward passes that 1F1B runs on stage k after its first backward pass. */
static int64_t left_forward(const struct table *t, int k)
{
    const int64_t left = t->microbatches - (t->stages - k);
    return t->alternates && left > 0 ? left : 0;
}

/* If all forward passes come first: the path forward to stage k, all work of k, and the path back to the first stage.
 */
static double way_and_work_s(const struct table *t, int k, int stage, const struct sim_stage_cost *c)
{
    if (stage > k) return 0;
    const double own_s = stage == k ? busy_s(t, k, c) : c->forward_s + c->send_s + c->backward_s;
    return own_s + (stage > 0 ? c->send_back_s : c->reduce_s);
}

/* In 1F1B: the first microbatch through all stages and back to k, then k's remaining work, then the path back to the
 * first stage. The remaining work is forward passes, each after a backward pass, and then the last microbatch through
 * the later stages and all the way back; or, if no forward pass is left, the backward passes of all microbatches. */
static double round_s(const struct table *t, int k, int stage, const struct sim_stage_cost *c)
{
    const double left = (double)left_forward(t, k), others = (double)(t->microbatches - 1),
                 through_s = c->forward_s + c->send_s + c->backward_s + c->send_back_s;
    const bool waits = c->waited_s > 0;
    double sum = through_s + (stage == 0 ? c->reduce_s : 0);
    if (!t->alternates) return way_and_work_s(t, k, stage, c);
    if (stage > k && left > 0) sum += through_s;
    if (stage != k) return sum;
    if (!(left > 0)) return sum + others * (c->backward_s + (waits ? c->send_back_s : 0));
    return sum + left * (c->forward_s + c->backward_s + c->waited_s) + (waits ? 0 : c->send_s);
}

/* A stage's contribution to the mean of the lower bounds. */
static double mean_s(const struct table *t, int stage, const struct sim_stage_cost *c)
{
    double sum = 0;
    for (int k = 0; k < t->stages; k++) sum += round_s(t, k, stage, c);
    return sum / t->stages;
}

/* Every stage with a single layer: embedding or head may be the slowest. */
static double bare_s(const struct table *t, const struct sim_stage_cost *costs)
{
    double most_s = 0;
    for (int k = 0; k < t->stages; k++) {
        double sum_s = 0;
        for (int s = 0; s < t->stages; s++) sum_s += round_s(t, k, s, &costs[s]);
        most_s = fmax(most_s, sum_s);
    }
    return most_s;
}

enum base_status tuner_layers_bound(struct sim_cache *cache, const struct sim_plan *plan,
                                    struct sim_pipeline_least *out, struct base_error *error)
{
    enum { SHARE, MORE, ONE, MOST, TRIED };
    struct sim_stage_cost costs[TRIED][SIM_MOST_STAGES];
    const int64_t layers = plan->config->num_decoder_layers, stages = plan->pipeline.stages;
    const int64_t tried[TRIED] = {layers / stages, layers / stages + 1, 1, layers - stages + 1};
    const struct table t = {(int)stages, 1, plan->num_microbatches,
                            plan->pipeline.schedule == SIM_ONE_FORWARD_ONE_BACKWARD, NULL};
    const int fullest = layers % stages ? MORE : SHARE; /* some stage has at least so many layers */
    for (int i = 0; i < TRIED; i++) {
        const enum sim_stage_costed costed = i == fullest ? SIM_TIME_AND_MEMORY : SIM_TIME_ALONE;
        BASE_TRY(sim_stage_costs(cache, plan, tried[i], costed, costs[i], error));
    }
    const int middle = stages > 2;
    const double worth = mean_s(&t, middle, &costs[MORE][middle]) - mean_s(&t, middle, &costs[SHARE][middle]);
    double shared_s = worth * (double)layers, least_update_s = INFINITY; /* some stage has at least this share */
    out->free_bytes = -INFINITY;
    for (int s = 0; s < stages; s++) {
        double least = INFINITY;
        for (int i = 0; i < TRIED; i++) least = fmin(least, mean_s(&t, s, &costs[i][s]) - worth * (double)tried[i]);
        shared_s += least;
        least_update_s = fmin(least_update_s, costs[SHARE][s].update_s);
        out->free_bytes = fmax(out->free_bytes, costs[fullest][s].free_bytes);
    }
    /* Another order of summation may change the last bits. */
    out->step_s = (fmax(shared_s, bare_s(&t, costs[ONE])) + costs[SHARE][0].tied_s + least_update_s) * (1 - 1e-9);
    return BASE_OK;
}

const char *tuner_layers_refusal(struct base_arena *arena, int64_t stages, int64_t layers)
{
    if (stages > MOST_STAGES)
        return base_print(arena, "pipeline_layers: auto assigns layers to at most %d stages", MOST_STAGES);
    if (stages * (layers - stages + 1) <= TUNER_MOST_OPTIONS) return NULL;
    return base_print(arena,
                      "pipeline_layers: auto considers at most %d pairs of a stage and its number of layers, and %lld "
                      "layers on %lld stages are more; leave it out",
                      TUNER_MOST_OPTIONS, (long long)layers, (long long)stages);
}

/* ---- the program ---- */

struct assigning {
    struct base_arena *arena;
    struct sim_cache *cache;
    const struct sim_plan *plan;
    struct tuner_assignment *out;
    struct table table;
    struct tuner_layer_program program;
    double headroom_bytes;
};

/* Layer counts that a stage cannot run below the time limit are not priced. */
static enum base_status find_costs(struct assigning *a, double below_s, struct base_error *error)
{
    struct table *t = &a->table;
    const int stages = (int)a->plan->pipeline.stages, all = (int)a->plan->config->num_decoder_layers - stages + 1;
    struct sim_stage_cost *by_layers = base_new(a->arena, struct sim_stage_cost, stages * all), *last = by_layers;
    *t = (struct table){stages, 0, a->plan->num_microbatches,
                        a->plan->pipeline.schedule == SIM_ONE_FORWARD_ONE_BACKWARD, NULL};
    for (bool more = true; more && t->most < all; t->most++, last += stages) {
        BASE_TRY(sim_stage_costs(a->cache, a->plan, t->most + 1, SIM_TIME_AND_MEMORY, last, error));
        more = false;
        for (int s = 0; s < stages; s++)
            more = more || (busy_s(t, s, &last[s]) < below_s && last[s].free_bytes >= a->headroom_bytes);
    }
    t->costs = base_new(a->arena, struct sim_stage_cost, stages * t->most);
    for (int s = 0; s < stages; s++)
        for (int n = 0; n < t->most; n++) t->costs[s * t->most + n] = by_layers[n * stages + s];
    return BASE_OK;
}

/* The sum of stage k: what each stage adds to it with each number of layers. */
static const double *row_of(struct assigning *a, int k)
{
    const struct table *t = &a->table;
    double *row = base_new(a->arena, double, t->stages * t->most);
    for (int s = 0; s < t->stages; s++)
        for (int n = 1; n <= t->most; n++) row[s * t->most + n - 1] = round_s(t, k, s, at(t, s, n));
    return row;
}

static void make_program(struct assigning *a, double below_s)
{
    const struct table *t = &a->table;
    const int options = t->stages * t->most;
    const double **rows = base_new(a->arena, const double *, t->stages);
    bool *allowed = base_new(a->arena, bool, options);
    double *last = base_new(a->arena, double, options);
    a->program = (struct tuner_layer_program){.stages = t->stages,
                                              .most = t->most,
                                              .layers = a->plan->config->num_decoder_layers,
                                              .allowed = allowed,
                                              .row = rows,
                                              .last = last};
    for (int i = 0; i < options; i++) {
        last[i] = t->costs[i].update_s;
        allowed[i] = t->costs[i].free_bytes >= a->headroom_bytes && busy_s(t, i / t->most, &t->costs[i]) < below_s;
    }
    for (int k = 0; k < t->stages; k++) rows[k] = row_of(a, k);
}

/* Predicts an assignment and keeps it if it is the best or, while none fits, the nearest to fitting. */
static enum base_status try_layers(struct assigning *a, const short *layers, double bound_s, struct base_error *error)
{
    struct sim_plan plan = *a->plan;
    struct sim_prediction p;
    int64_t *counts = base_new(a->arena, int64_t, a->table.stages);
    for (int s = 0; s < a->table.stages; s++) counts[s] = layers[s];
    plan.pipeline.layers = counts;
    BASE_TRY(sim_predict(a->cache, &plan, &p, NULL, error));
    a->out->predicted_count++;
    a->out->bound_violations += p.step_s < bound_s;
    const bool fits = (double)p.free_bytes >= a->headroom_bytes;
    if (fits ? p.step_s >= a->out->step_s : a->out->found || (double)p.free_bytes <= a->out->free_bytes) return BASE_OK;
    a->out->found = fits;
    if (fits) a->out->step_s = p.step_s;
    a->out->free_bytes = (double)p.free_bytes;
    memcpy(a->out->layers, layers, (size_t)a->table.stages * sizeof *layers);
    return BASE_OK;
}

/* The most even assignment: the time to beat. */
static enum base_status try_even(struct assigning *a, struct base_error *error)
{
    const int stages = (int)a->plan->pipeline.stages;
    const int64_t layers = a->plan->config->num_decoder_layers;
    short even[SIM_MOST_STAGES];
    for (int s = 0; s < stages; s++) even[s] = (short)(layers / stages + (s > 0 && s <= layers % stages));
    a->table.stages = stages;
    return try_layers(a, even, 0, error);
}

struct listed {
    const short *layers;
    double bound_s;
};

static int by_bound(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
    return x->layers < y->layers ? -1 : x->layers > y->layers; /* ties in listing order */
}

/* Predicts the candidates by increasing bound, except those already tried. */
static enum base_status try_found(struct assigning *a, const short *found, int count, double tried_s,
                                  struct base_error *error)
{
    const int stages = a->table.stages;
    struct listed *list = base_new(a->arena, struct listed, count + 1);
    for (int i = 0; i < count; i++) {
        const short *layers = &found[i * stages];
        list[i] = (struct listed){layers, tuner_layers_sum(&a->program, layers) + a->table.costs[0].tied_s};
    }
    qsort(list, (size_t)count, sizeof *list, by_bound);
    for (int i = 0; i < count && list[i].bound_s < a->out->step_s; i++)
        if (list[i].bound_s >= tried_s) BASE_TRY(try_layers(a, list[i].layers, list[i].bound_s, error));
    return BASE_OK;
}

/* Assignments with bounds near the least of all, then farther ones up to the best, while all of them can be predicted.
 */
static enum base_status try_listed(struct assigning *a, struct base_error *error)
{
    static const double parts[] = {1e-6, 1e-3, 0.03, 0.3, 1};
    const double tied_s = a->table.costs[0].tied_s;
    struct tuner_layer_list *list = tuner_layer_list_new(a->arena, &a->program);
    const double least_s = tuner_layer_list_least(list) + tuner_layers_least_last(&a->program) + tied_s;
    short *found = base_new(a->arena, short, MOST_LISTED * a->table.stages);
    double tried_s = 0; /* all assignments below it were predicted */
    a->out->least_s = least_s;
    for (int i = 0; i < BASE_COUNT(parts) && a->out->least_s < a->out->step_s; i++) {
        const bool bounded = isfinite(a->out->step_s);
        const double limit_s = !bounded       ? least_s * (1 + parts[i])
                               : parts[i] < 1 ? least_s + parts[i] * (a->out->step_s - least_s)
                                              : a->out->step_s;
        int count;
        const bool whole = tuner_layer_list_below(list, limit_s - tied_s, MOST_LISTED, found, &count);
        BASE_TRY(try_found(a, found, whole || count < MOST_TRIALS ? count : MOST_TRIALS, tried_s, error));
        if (!whole) continue;
        a->out->least_s = limit_s;
        tried_s = limit_s * (1 - 1e-12); /* another order of summation may change the last bits */
    }
    a->out->proven = a->out->least_s >= a->out->step_s;
    return BASE_OK;
}

static enum base_status assign(struct assigning *a, struct base_error *error)
{
    BASE_TRY(try_even(a, error));
    BASE_TRY(find_costs(a, a->out->step_s, error));
    make_program(a, a->out->step_s);
    return try_listed(a, error);
}

enum base_status tuner_assign_layers(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                     double headroom_frac, double below_s, struct tuner_assignment *out,
                                     struct base_error *error)
{
    struct assigning a = {.arena = arena, .cache = cache, .plan = plan, .out = out};
    *out = (struct tuner_assignment){
        .step_s = below_s, .free_bytes = -INFINITY, .layers = base_new(arena, short, (int)plan->pipeline.stages)};
    a.headroom_bytes = headroom_frac * plan->placement->profile.constants[SIM_CAPACITY_BYTES];
    return assign(&a, error);
}
