/* Plans with pipeline stages: stages, chunks and microbatches together with tensor, data, sequence and context
 * parallelism. The space is listed whole. Each plan's bound is worked out from the prices of its pieces; in the order
 * of bounds plans are predicted in full until the best of them are faster than any bound that is left. */
#include "tuner/ilp.h"
#include "tuner/space.h"
#include "tuner/stage_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLANS = 1 << 22, MOST_VALUES = 250 };

static const struct {
    enum sim_key key;
    const char *defaults[4];   /* none: those that divide what they are of, or the plan's own */
    enum tuner_dimension told; /* what the software can be told (software_choices.csv) comes before these; 0: nothing */
} dimensions[TUNER_STAGED_COUNT] = {
    [TUNER_STAGED_BATCH] = {SIM_BATCH_SIZE, {NULL}},
    [TUNER_STAGED_OPTIMIZER] = {SIM_OPTIMIZER, {NULL}},
    [TUNER_STAGED_DTYPE] = {SIM_DTYPE, {NULL}},
    [TUNER_STAGED_ATTENTION] = {SIM_ATTENTION, {NULL}},
    [TUNER_STAGED_RULES] = {SIM_RULES, {NULL}},
    [TUNER_STAGED_REMAT] = {SIM_REMAT_POLICY, {"none", "selective", "full"}, TUNER_REMAT},
    [TUNER_STAGED_PARTITIONING] = {SIM_OPTIMIZER_PARTITIONING, {"none", "data"}, TUNER_PARTITIONING},
    [TUNER_STAGED_SEQUENCE] = {SIM_SEQUENCE_PARALLEL, {"0", "1"}, TUNER_SEQUENCE},
    [TUNER_STAGED_CONTEXT] = {SIM_CONTEXT_PARALLEL, {"1"}},
    [TUNER_STAGED_PARTITIONS] = {SIM_NUM_PARTITIONS, {NULL}},
    [TUNER_STAGED_STAGES] = {SIM_PIPELINE_STAGES, {NULL}},
    [TUNER_STAGED_CHUNKS] = {SIM_VIRTUAL_STAGES, {NULL}},
    [TUNER_STAGED_MICROBATCHES] = {SIM_NUM_MICROBATCHES, {NULL}},
};

enum sim_key tuner_staged_key(enum tuner_staged dimension)
{
    return dimensions[dimension].key;
}

struct walk {
    const struct tuner_stages_request *request;
    struct tuner_stages_result *result;
    struct sim_cache *cache;
    struct base_arena *arena, scratch;
    struct topo_topology topology;
    struct model_config config;
    int64_t numbers[TUNER_STAGED_COUNT][MOST_VALUES]; /* of values that are whole numbers */
    int capacity;
    bool overflows; /* there were more values of one kind than MOST_VALUES */
    bool searches;  /* plans get their bounds as they are listed */
    bool assigns;   /* some plan has layers to be assigned */
    double capacity_bytes;
    struct sim_pipeline_habits habits;
    struct tuner_software choices;
    enum sim_cut partition;
    int64_t split_rank;
    signed char cut[MOST_VALUES][MOST_VALUES]; /* by numbers of stages and chunks: 1: is, -1: is not; 0: not known */
};

/* ---- values ---- */

static void add(struct walk *w, enum tuner_staged d, const char *text)
{
    struct tuner_values *values = &w->result->values[d];
    if (values->count < MOST_VALUES) values->values[values->count++] = text;
    else w->overflows = true;
}

/* Numbers from 1 to most that divide. */
static void add_divisors(struct walk *w, enum tuner_staged d, int64_t of, int64_t most)
{
    for (int64_t n = 1; n <= of && n <= most; n++)
        if (of % n == 0) add(w, d, base_print(w->arena, "%lld", (long long)n));
}

/* Chunks of one layer at least; where layers do not divide, the software may cut them all the same. */
static void add_chunks(struct walk *w)
{
    const int64_t layers = w->config.num_decoder_layers;
    const char *schedule = w->request->plan.values[SIM_PIPELINE_SCHEDULE];
    const bool interleaves = !schedule || !*schedule || !strcmp(schedule, "interleaved");
    const int64_t most = !interleaves || w->config.encoder ? 1 : layers < SIM_MOST_CHUNKS ? layers : SIM_MOST_CHUNKS;
    for (int64_t n = 1; n <= most; n++) add(w, TUNER_STAGED_CHUNKS, base_print(w->arena, "%lld", (long long)n));
}

/* Divisors of every batch. */
static void add_microbatches(struct walk *w)
{
    const struct tuner_values *batches = &w->result->values[TUNER_STAGED_BATCH];
    for (int64_t n = 1, most = 0; n == 1 || n <= most; n++) {
        bool divides = false;
        for (int b = 0; b < batches->count; b++) {
            const int64_t batch = w->numbers[TUNER_STAGED_BATCH][b];
            divides = divides || batch % n == 0;
            most = batch > most ? batch : most;
        }
        if (divides) add(w, TUNER_STAGED_MICROBATCHES, base_print(w->arena, "%lld", (long long)n));
    }
}

/* What the software can be told, or what stands in the table. */
static void add_usual(struct walk *w, enum tuner_staged d)
{
    const struct tuner_values *told = &w->choices.words[dimensions[d].told];
    const bool tells = dimensions[d].told && !w->choices.is_t5x && told->count > 0;
    for (int i = 0; i < told->count && tells; i++) add(w, d, told->values[i]);
    for (int i = 0; i < BASE_COUNT(dimensions[d].defaults) && !tells && dimensions[d].defaults[i]; i++)
        add(w, d, dimensions[d].defaults[i]);
}

static bool is_number(enum tuner_staged d)
{
    return d == TUNER_STAGED_BATCH || d >= TUNER_STAGED_CONTEXT;
}

static enum base_status read_numbers(struct walk *w, enum tuner_staged d, struct base_error *error)
{
    const struct tuner_values *values = &w->result->values[d];
    const struct sim_plan_key *key = &sim_plan_keys[dimensions[d].key];
    for (int i = 0; i < values->count && is_number(d); i++) {
        w->numbers[d][i] = 1;
        if (!values->values[i]) continue;
        BASE_TRY(base_parse_int(values->values[i], key->name, 0, INT32_MAX, &w->numbers[d][i], error));
        if (w->numbers[d][i] < 1) w->numbers[d][i] = 1;
    }
    return BASE_OK;
}

static enum base_status find_values(struct walk *w, enum tuner_staged d, struct base_error *error)
{
    struct tuner_values *values = &w->result->values[d];
    const struct tuner_values *given = &w->request->given[d];
    const int node = w->topology.bounds[1], devices = w->topology.device_count;
    *values = (struct tuner_values){base_new(w->arena, const char *, MOST_VALUES), 0};
    if (given->count > MOST_VALUES)
        return base_fail(error, BASE_INPUT, "%s: has more than %d values", sim_plan_keys[dimensions[d].key].name,
                         MOST_VALUES);
    for (int i = 0; i < given->count; i++) add(w, d, given->values[i]);
    if (!given->count) add_usual(w, d);
    if (!values->count && d == TUNER_STAGED_PARTITIONS) add_divisors(w, d, devices, node);
    if (!values->count && d == TUNER_STAGED_STAGES) add_divisors(w, d, devices, SIM_MOST_STAGES);
    if (!values->count && d == TUNER_STAGED_CHUNKS) add_chunks(w);
    if (!values->count && d == TUNER_STAGED_MICROBATCHES) add_microbatches(w);
    if (!values->count) add(w, d, NULL);
    if (w->overflows)
        return base_fail(error, BASE_INPUT,
                         "%s: more than %d values come into question; name those that shall be searched",
                         sim_plan_keys[dimensions[d].key].name, MOST_VALUES);
    return read_numbers(w, d, error);
}

/* ---- the space ---- */

static struct sim_plan_text text_of(const struct tuner_stages_result *r, const struct tuner_staged_plan *plan)
{
    struct sim_plan_text text = r->plan;
    for (int d = 0; d < TUNER_STAGED_COUNT; d++)
        if (r->values[d].values[plan->value[d]]) text.values[dimensions[d].key] = r->values[d].values[plan->value[d]];
    const char *chunks = text.values[SIM_VIRTUAL_STAGES];
    if (chunks && strcmp(chunks, "1") != 0 && !sim_key_is_given(&text, SIM_PIPELINE_SCHEDULE))
        text.values[SIM_PIPELINE_SCHEDULE] = "interleaved";
    if (plan->layers) text.values[SIM_PIPELINE_LAYERS] = plan->layers;
    return text;
}

struct sim_plan_text tuner_staged_text(const struct tuner_stages_result *result, const struct tuner_staged_plan *plan)
{
    return text_of(result, plan);
}

static int64_t number(const struct walk *w, const struct tuner_staged_plan *plan, enum tuner_staged d)
{
    return w->numbers[d][plan->value[d]];
}

static bool is_given(const struct walk *w, enum tuner_staged d)
{
    return w->request->given[d].count > 0;
}

/* Whether the software takes so many microbatches where no stages do. */
static bool accumulates(const struct walk *w, int64_t microbatches)
{
    const struct tuner_values *told = &w->choices.microbatches;
    bool has = !told->count;
    for (int i = 0; i < told->count; i++) has = has || strtoll(told->values[i], NULL, 10) == microbatches;
    return has;
}

/* What devices, layers and batch do not divide by is no plan; nor is one that says what another one says, too: chunks
 * of a single stage, sequence parallelism of one device, ZeRO without replicas. */
static bool divides(const struct walk *w, const struct tuner_staged_plan *plan)
{
    const int64_t stages = number(w, plan, TUNER_STAGED_STAGES), chunks = number(w, plan, TUNER_STAGED_CHUNKS),
                  model = number(w, plan, TUNER_STAGED_PARTITIONS), m = number(w, plan, TUNER_STAGED_MICROBATCHES),
                  context = number(w, plan, TUNER_STAGED_CONTEXT), devices = w->topology.device_count;
    if (stages > devices || model > devices || context > devices) return false; /* and their product is no overflow */
    const int64_t copy = stages * model * context;
    if (devices % copy != 0 || (chunks > 1 && (stages == 1 || m % stages != 0))) return false;
    if (stages * chunks > w->config.num_encoder_layers + w->config.num_decoder_layers + 2) return false;
    const char *sequence = w->result->values[TUNER_STAGED_SEQUENCE].values[plan->value[TUNER_STAGED_SEQUENCE]],
               *partitioning =
                   w->result->values[TUNER_STAGED_PARTITIONING].values[plan->value[TUNER_STAGED_PARTITIONING]];
    const bool sequences = sequence && !strcmp(sequence, "1"), zero = partitioning && strcmp(partitioning, "none") != 0;
    if (sequences && model == 1 && !is_given(w, TUNER_STAGED_SEQUENCE)) return false;
    if (zero && devices == copy && !is_given(w, TUNER_STAGED_PARTITIONING)) return false;
    if (stages == 1 && !accumulates(w, m) && !is_given(w, TUNER_STAGED_MICROBATCHES)) return false;
    return number(w, plan, TUNER_STAGED_BATCH) % (m * (devices / copy)) == 0;
}

static enum base_status check(struct walk *w, const struct tuner_staged_plan *plan, struct sim_plan *out,
                              struct base_error *error)
{
    const struct sim_plan_text text = text_of(w->result, plan);
    base_arena_reset(&w->scratch);
    return sim_plan_check(w->cache, &w->scratch, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, out, error);
}

/* Whether each stage's layers are chosen for it: of whole stages. */
static bool is_assigned(const struct walk *w, const struct tuner_staged_plan *plan)
{
    return w->request->assigns_layers && number(w, plan, TUNER_STAGED_STAGES) > 1 &&
           number(w, plan, TUNER_STAGED_CHUNKS) == 1;
}

/* Whether the software would cut the model so. */
static bool is_cut(struct walk *w, const struct tuner_staged_plan *plan)
{
    const int64_t stages = number(w, plan, TUNER_STAGED_STAGES), chunks = number(w, plan, TUNER_STAGED_CHUNKS);
    signed char *known = &w->cut[plan->value[TUNER_STAGED_STAGES]][plan->value[TUNER_STAGED_CHUNKS]];
    const struct sim_pipeline pipeline = {
        .stages = stages, .chunks = chunks, .partition = w->partition, .split_rank = w->split_rank};
    struct sim_piece pieces[SIM_MOST_PIECES];
    struct base_error why;
    if (stages == 1) return true;
    if (is_assigned(w, plan)) return stages <= w->config.num_decoder_layers;
    if (!*known) *known = sim_cut_model(&w->config, &pipeline, w->habits.division, pieces, &why) == BASE_OK ? 1 : -1;
    return *known > 0;
}

/* What is made small: seconds a sequence, or seconds a step. */
static double cost_of(const struct walk *w, const struct tuner_staged_plan *plan, double step_s)
{
    return w->request->objective == TUNER_STEP_S ? step_s : step_s / (double)number(w, plan, TUNER_STAGED_BATCH);
}

static enum base_status bound(struct walk *w, const struct sim_plan *checked, struct tuner_staged_plan *plan,
                              struct base_error *error)
{
    struct sim_pipeline_least least;
    plan->least_s = 0;
    plan->free_bytes = w->capacity_bytes = checked->placement->profile.constants[SIM_CAPACITY_BYTES];
    if (checked->pipeline.stages == 1 || w->request->no_bounds) return BASE_OK;
    least.free_bytes = plan->free_bytes;
    if (is_assigned(w, plan)) BASE_TRY(tuner_layers_bound(w->cache, checked, &least.step_s, error));
    else BASE_TRY(sim_pipeline_least_of(w->cache, checked, &least, error));
    plan->least_s = cost_of(w, plan, least.step_s);
    plan->free_bytes = least.free_bytes;
    return BASE_OK;
}

static void refuse(struct walk *w, const char *why)
{
    if (!w->result->refused_count++) w->result->refusal = base_copy(w->arena, why);
}

static enum base_status add_plan(struct walk *w, struct tuner_staged_plan *plan, struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    struct base_error why;
    struct sim_plan checked;
    if (!divides(w, plan) || !is_cut(w, plan)) return BASE_OK;
    const char *no = is_assigned(w, plan) ? tuner_layers_refusal(w->arena, number(w, plan, TUNER_STAGED_STAGES),
                                                                 w->config.num_decoder_layers)
                                          : NULL;
    if (no) return refuse(w, no), BASE_OK;
    enum base_status status = check(w, plan, &checked, &why);
    if (status == BASE_OK && w->searches) status = bound(w, &checked, plan, &why);
    if (status != BASE_OK) return refuse(w, why.text), BASE_OK;
    if (r->plan_count == MOST_PLANS)
        return base_fail(error, BASE_INPUT, "the space has more than %d plans; use fewer values", MOST_PLANS);
    r->space = base_grown(w->arena, r->space, r->plan_count, &w->capacity, sizeof *r->space);
    plan->place = r->plan_count;
    w->assigns = w->assigns || is_assigned(w, plan);
    r->space[r->plan_count] = *plan;
    if (!w->searches && is_assigned(w, plan)) r->space[r->plan_count].layers = "auto"; /* as the table says it */
    r->plan_count++;
    return BASE_OK;
}

/* Like an odometer, the last dimension fastest. */
static enum base_status list_plans(struct walk *w, struct base_error *error)
{
    struct tuner_staged_plan plan = {.place = 0};
    for (bool more = true; more;) {
        BASE_TRY(add_plan(w, &plan, error));
        int d = TUNER_STAGED_COUNT - 1;
        while (d >= 0 && ++plan.value[d] == w->result->values[d].count) plan.value[d--] = 0;
        more = d >= 0;
    }
    if (w->result->plan_count && w->request->assigns_layers && !w->assigns)
        return base_fail(error, BASE_INPUT,
                         "pipeline_layers: auto assigns layers to whole stages, and no plan of the space has such; use "
                         "virtual_stages 1, or leave pipeline_layers out");
    if (w->result->plan_count) return BASE_OK;
    if (w->result->refusal)
        return base_fail(error, BASE_INPUT, "no plan of the space can be launched: %s", w->result->refusal);
    return base_fail(
        error, BASE_INPUT,
        "no plan of the space can be launched: stages times num_partitions times context_parallel have to divide %d "
        "devices, microbatches times the replicas that are left batch_size, and chunks of stages have to share out "
        "%lld "
        "layers; use other values of them, or auto",
        w->topology.device_count, (long long)(w->config.num_encoder_layers + w->config.num_decoder_layers));
}

static enum base_status begin(struct walk *w, struct base_error *error)
{
    const struct sim_plan_text *plan = &w->request->plan;
    if (!plan->values[SIM_TOPOLOGY] || !plan->values[SIM_MODEL])
        return base_fail(error, BASE_INPUT, "%s: is missing", plan->values[SIM_MODEL] ? "topology" : "model");
    BASE_TRY(topo_parse(w->arena, plan->values[SIM_TOPOLOGY], &w->topology, error));
    BASE_TRY(model_gin_config_parse(w->arena, plan->values[SIM_MODEL], sim_cache_gin_search_path(w->cache), &w->config,
                                    error));
    if (w->topology.kind != TOPO_GPU)
        return base_fail(error, BASE_INPUT,
                         "pipeline_stages: are searched on nodes of GPUs; use 1, or a topology such as a100-80g:16x8");
    if (topo_has_failures(&w->topology))
        return base_fail(error, BASE_INPUT,
                         "topology: plans with stages are not modelled where hardware is broken, slow or "
                         "oversubscribed; leave that out, or use pipeline_stages 1");
    if (!w->request->given[TUNER_STAGED_BATCH].count)
        return base_fail(error, BASE_INPUT, "batch_size: is missing; sequences in one global batch, as in 1536");
    const char *partition = plan->values[SIM_PIPELINE_PARTITION], *software = plan->values[SIM_SOFTWARE];
    for (int i = 0; i < SIM_MOST_WORDS && partition && sim_plan_keys[SIM_PIPELINE_PARTITION].words[i].name; i++)
        if (!strcmp(partition, sim_plan_keys[SIM_PIPELINE_PARTITION].words[i].name))
            w->partition = (enum sim_cut)sim_plan_keys[SIM_PIPELINE_PARTITION].words[i].value;
    const char *split = plan->values[SIM_PIPELINE_SPLIT_RANK];
    if (split && *split)
        BASE_TRY(base_parse_int(split, "pipeline_split_rank", 0, SIM_MOST_STAGES, &w->split_rank, error));
    BASE_TRY(sim_pipeline_habits_find(software && *software ? software : "t5x", &w->habits, error));
    w->result->plan = *plan;
    if (w->request->assigns_layers && (!w->habits.takes_layers || w->config.encoder || w->partition != SIM_BY_LAYERS))
        return base_fail(
            error, BASE_INPUT,
            "pipeline_layers: auto assigns a decoder's layers to the stages of a software that can be told, "
            "by layers; leave it out");
    const struct tuner_request asked = {.plan = *plan};
    BASE_TRY(tuner_software_find(w->arena, &asked, &w->choices, error));
    for (int d = 0; d < TUNER_STAGED_COUNT; d++) BASE_TRY(find_values(w, (enum tuner_staged)d, error));
    return list_plans(w, error);
}

/* ---- the search ---- */

static int by_least(const void *a, const void *b)
{
    const struct tuner_staged_plan *x = a, *y = b;
    if (x->least_s != y->least_s) return x->least_s < y->least_s ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static bool is_better(const struct tuner_staged_plan *a, const struct tuner_staged_plan *b)
{
    return a->step_s != b->step_s ? a->step_s < b->step_s : a->place < b->place;
}

static void insert(const struct walk *w, const struct tuner_staged_plan *plan)
{
    struct tuner_stages_result *r = w->result;
    int at = r->best_count;
    while (at > 0 && is_better(plan, &r->best[at - 1])) at--;
    if (at == w->request->top) return;
    if (r->best_count < w->request->top) r->best_count++;
    memmove(&r->best[at + 1], &r->best[at], (size_t)(r->best_count - at - 1) * sizeof *r->best);
    r->best[at] = *plan;
}

static const char *layers_text(struct base_arena *arena, const short *layers, int64_t stages)
{
    struct base_text out = {.arena = arena};
    for (int64_t s = 0; s < stages; s++) base_putf(&out, "%s%d", s ? "," : "", layers[s]);
    return out.data;
}

/* The plan with the best layers of each stage, unless none are better than what was found. */
static enum base_status assign(struct walk *w, const struct sim_plan *checked, struct tuner_staged_plan *plan,
                               struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    struct tuner_assignment found;
    const bool full = r->best_count == w->request->top && !w->request->no_bounds;
    const double unit = cost_of(w, plan, 1), below_s = full ? r->best[r->best_count - 1].step_s / unit : INFINITY;
    struct base_arena arena = {.exhausted = w->arena->exhausted};
    enum base_status status =
        tuner_assign_layers(&arena, w->cache, checked, w->request->headroom_frac, below_s, &found, error);
    if (status == BASE_OK) {
        r->evaluated_count++;
        r->assignment_count += found.predicted_count;
        plan->undecided = !found.proven;
        if (plan->undecided) plan->least_s = fmax(plan->least_s, cost_of(w, plan, found.least_s));
        r->bound_violations += found.bound_violations;
        plan->step_s = cost_of(w, plan, found.step_s);
        r->bound_violations += found.found && found.proven && plan->step_s < plan->least_s;
        plan->free_bytes = found.free_bytes;
        r->program_count += found.by_program && found.proven;
        if (isfinite(found.free_bytes)) plan->layers = layers_text(w->arena, found.layers, checked->pipeline.stages);
        if (found.found) insert(w, plan);
    }
    base_arena_free(&arena);
    return status;
}

static enum base_status predict(struct walk *w, struct tuner_staged_plan *plan, struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    struct sim_plan checked;
    struct sim_prediction p;
    BASE_TRY(check(w, plan, &checked, error));
    if (is_assigned(w, plan)) return assign(w, &checked, plan, error);
    BASE_TRY(sim_predict(w->cache, &checked, &p, NULL, error));
    r->evaluated_count++;
    plan->step_s = cost_of(w, plan, p.step_s);
    r->bound_violations += plan->step_s < plan->least_s || (double)p.free_bytes > plan->free_bytes;
    plan->free_bytes = (double)p.free_bytes;
    if (sim_leaves_free(&p, w->request->headroom_frac)) insert(w, plan);
    return BASE_OK;
}

/* Other layers of its stages may be among the best. */
static bool is_undecided(const struct walk *w, const struct tuner_staged_plan *plan)
{
    const struct tuner_stages_result *r = w->result;
    return plan->undecided && (r->best_count < w->request->top || plan->least_s < r->best[r->best_count - 1].step_s);
}

static enum base_status search(struct walk *w, struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    r->best = base_new(w->arena, struct tuner_staged_plan, w->request->top + 1);
    qsort(r->space, (size_t)r->plan_count, sizeof *r->space, by_least);
    r->nearest.free_bytes = -1e300;
    int count = 0;
    for (int i = 0; i < r->plan_count; i++) {
        struct tuner_staged_plan *plan = &r->space[count];
        struct base_error why;
        *plan = r->space[i];
        const bool full = r->best_count == w->request->top;
        if (full && plan->least_s > r->best[r->best_count - 1].step_s) r->by_time_count++;
        else if (plan->free_bytes < w->request->headroom_frac * w->capacity_bytes && !w->request->no_bounds)
            r->by_memory_count++;
        else if (predict(w, plan, &why) != BASE_OK) {
            refuse(w, why.text);
            continue;
        }
        if (plan->free_bytes > r->nearest.free_bytes) r->nearest = *plan;
        count++;
    }
    r->plan_count = count;
    for (int i = 0; i < count; i++) {
        if (!is_undecided(w, &r->space[i])) continue;
        r->undecided_count++;
        r->gap_frac = r->best_count ? fmax(r->gap_frac, 1 - r->space[i].least_s / r->best[0].step_s) : 1;
    }
    if (r->bound_violations) r->gap_frac = 1;
    if (count) return BASE_OK;
    return base_fail(error, BASE_INPUT, "no plan of the space can be predicted: %s", r->refusal);
}

static enum base_status walk(struct base_arena *arena, struct sim_cache *cache,
                             const struct tuner_stages_request *request, bool searches, struct tuner_stages_result *out,
                             struct base_error *error)
{
    struct walk *w = base_new(arena, struct walk, 1);
    const double start_s = request->now_s ? request->now_s(request->where) : 0;
    *out = (struct tuner_stages_result){.plan_count = 0};
    *w = (struct walk){.request = request, .result = out, .cache = cache, .arena = arena};
    w->scratch.exhausted = arena->exhausted;
    w->searches = searches;
    enum base_status status = begin(w, error);
    if (status == BASE_OK && searches) status = search(w, error);
    if (searches) tuner_choices_end();
    base_arena_free(&w->scratch);
    out->wall_s = request->now_s ? request->now_s(request->where) - start_s : 0;
    return status;
}

enum base_status tuner_stages_space(struct base_arena *arena, struct sim_cache *cache,
                                    const struct tuner_stages_request *request, struct tuner_stages_result *out,
                                    struct base_error *error)
{
    return walk(arena, cache, request, false, out, error);
}

enum base_status tuner_stages_search(struct base_arena *arena, struct sim_cache *cache,
                                     const struct tuner_stages_request *request, struct tuner_stages_result *out,
                                     struct base_error *error)
{
    return walk(arena, cache, request, true, out, error);
}
