/* The space of pipeline plans: stages, chunks and microbatches, with tensor, data, sequence and context parallelism.
 * It is listed completely, each plan with a bound from the prices of its stage chunks. */
#include "tuner/stage_layers.h"
#include "tuner/stage_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLANS = 1 << 22, MOST_VALUES = TUNER_STAGED_MOST_VALUES };

/* Of the time limit: later plans are listed without bounds, so that some get predicted. */
static const double LISTING_SHARE = 0.5;

static const struct {
    enum sim_key key;
    const char *defaults[4];   /* none: divisors, or the plan's own value */
    enum tuner_dimension told; /* the software's options (software_choices.csv) take precedence; 0: none */
} dimensions[TUNER_STAGED_COUNT] = {
    [TUNER_STAGED_BATCH] = {SIM_BATCH_SIZE, {NULL}},
    [TUNER_STAGED_OPTIMIZER] = {SIM_OPTIMIZER, {NULL}},
    [TUNER_STAGED_DTYPE] = {SIM_DTYPE, {NULL}},
    [TUNER_STAGED_ATTENTION] = {SIM_ATTENTION, {NULL}},
    [TUNER_STAGED_RULES] = {SIM_RULES, {NULL}},
    [TUNER_STAGED_DIVISION] = {SIM_PIPELINE_PARTITION, {NULL}},
    [TUNER_STAGED_SCHEDULE] = {SIM_PIPELINE_SCHEDULE, {NULL}},
    [TUNER_STAGED_EXCHANGE] = {SIM_CP_COMM_TYPE, {NULL}},
    [TUNER_STAGED_REMAT] = {SIM_REMAT_POLICY, {"none", "selective", "full"}, TUNER_REMAT},
    [TUNER_STAGED_PARTITIONING] = {SIM_OPTIMIZER_PARTITIONING, {"none", "data"}, TUNER_PARTITIONING},
    [TUNER_STAGED_SEQUENCE] = {SIM_SEQUENCE_PARALLEL, {"0", "1"}, TUNER_SEQUENCE},
    [TUNER_STAGED_EXPERT_TENSOR] = {SIM_EXPERT_TENSOR_PARALLEL, {NULL}},
    [TUNER_STAGED_CONTEXT] = {SIM_CONTEXT_PARALLEL, {"1"}},
    [TUNER_STAGED_EXPERTS] = {SIM_EXPERT_PARALLEL, {NULL}},
    [TUNER_STAGED_PARTITIONS] = {SIM_NUM_PARTITIONS, {NULL}},
    [TUNER_STAGED_STAGES] = {SIM_PIPELINE_STAGES, {NULL}},
    [TUNER_STAGED_CHUNKS] = {SIM_VIRTUAL_STAGES, {NULL}},
    [TUNER_STAGED_MICROBATCHES] = {SIM_NUM_MICROBATCHES, {NULL}},
};

enum sim_key tuner_staged_key(enum tuner_staged dimension)
{
    return dimensions[dimension].key;
}

/* ---- values ---- */

static void add(struct staged_walk *w, enum tuner_staged d, const char *text)
{
    struct tuner_values *values = &w->result->values[d];
    if (values->count < MOST_VALUES) values->values[values->count++] = text;
    else w->overflows = true;
}

/* Divisors from 1 to most. */
static void add_divisors(struct staged_walk *w, enum tuner_staged d, int64_t of, int64_t most)
{
    for (int64_t n = 1; n <= of && n <= most; n++)
        if (of % n == 0) add(w, d, base_print(w->arena, "%lld", (long long)n));
}

/* An unnamed schedule follows from the plan's number of chunks. */
enum { BY_CHUNKS = -1 };

static bool has_schedule(const struct staged_walk *w, int schedule)
{
    bool has = false;
    for (int i = 0; i < w->result->values[TUNER_STAGED_SCHEDULE].count; i++)
        has = has || w->numbers[TUNER_STAGED_SCHEDULE][i] == schedule;
    return has;
}

/* Chunks have at least one layer. If the layers do not divide, the software may still accept them. */
static void add_chunks(struct staged_walk *w)
{
    const int64_t layers = w->config.num_decoder_layers;
    const bool asked = has_schedule(w, BY_CHUNKS) || has_schedule(w, SIM_INTERLEAVED),
               interleaves = asked && w->traits.schedules & 1u << SIM_INTERLEAVED;
    const int64_t most = !interleaves || w->config.encoder ? 1 : layers < SIM_MOST_CHUNKS ? layers : SIM_MOST_CHUNKS;
    for (int64_t n = 1; n <= most; n++) add(w, TUNER_STAGED_CHUNKS, base_print(w->arena, "%lld", (long long)n));
}

/* Divisors of any batch. */
static void add_microbatches(struct staged_walk *w)
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

/* Devices that share out the experts; of those that share one expert, the software's own number comes first. */
static void add_experts(struct staged_walk *w, enum tuner_staged d)
{
    const int64_t experts = w->config.experts.count;
    if (!experts || !w->choices.searches_experts) return;
    if (d == TUNER_STAGED_EXPERTS) {
        add_divisors(w, d, experts, w->topology.device_count);
    } else if (d == TUNER_STAGED_EXPERT_TENSOR) {
        add(w, d, NULL);
        for (int i = 0; i < w->choices.expert_tensor_parallel.count; i++)
            add(w, d, w->choices.expert_tensor_parallel.values[i]);
    }
}

/* The software's options, or the defaults of the table. */
static void add_usual(struct staged_walk *w, enum tuner_staged d)
{
    const bool is_rules = d == TUNER_STAGED_RULES;
    const struct tuner_values *told = is_rules ? &w->choices.rules : &w->choices.words[dimensions[d].told];
    const bool tells = (is_rules || dimensions[d].told) && !w->choices.is_t5x && told->count > 0;
    for (int i = 0; i < told->count && tells; i++) add(w, d, told->values[i]);
    for (int i = 0; i < BASE_COUNT(dimensions[d].defaults) && !tells && dimensions[d].defaults[i]; i++)
        add(w, d, dimensions[d].defaults[i]);
}

static bool is_number(enum tuner_staged d)
{
    return d == TUNER_STAGED_BATCH || d >= TUNER_STAGED_EXPERT_TENSOR;
}

/* Keys whose words decide which plans exist. */
static bool is_word(enum tuner_staged d)
{
    return d == TUNER_STAGED_DIVISION || d == TUNER_STAGED_SCHEDULE || d == TUNER_STAGED_EXCHANGE;
}

static const char *words_of(struct base_arena *arena, const struct sim_plan_key *key)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < SIM_MOST_WORDS && key->words[i].name; i++)
        base_putf(&text, "%s%s", i ? ", " : "", key->words[i].name);
    return text.data;
}

/* Reads a word of the plan's key; by default by layers, and by chunks. */
static enum base_status read_words(struct staged_walk *w, enum tuner_staged d, struct base_error *error)
{
    const struct tuner_values *values = &w->result->values[d];
    const struct sim_plan_key *key = &sim_plan_keys[dimensions[d].key];
    for (int i = 0; i < values->count; i++) {
        int at = 0;
        w->numbers[d][i] = d == TUNER_STAGED_SCHEDULE ? BY_CHUNKS : 0;
        if (!values->values[i]) continue;
        while (at < SIM_MOST_WORDS && key->words[at].name && strcmp(key->words[at].name, values->values[i]) != 0) at++;
        if (at == SIM_MOST_WORDS || !key->words[at].name)
            return base_fail(error, BASE_INPUT, "%s: \"%.60s\" is unknown; use some of %s, with commas between",
                             key->name, values->values[i], words_of(w->arena, key));
        w->numbers[d][i] = key->words[at].value;
    }
    return BASE_OK;
}

static int64_t most_of(enum tuner_staged d)
{
    return d == TUNER_STAGED_STAGES ? SIM_MOST_STAGES : d == TUNER_STAGED_CHUNKS ? SIM_MOST_CHUNKS : INT32_MAX;
}

static enum base_status read_numbers(struct staged_walk *w, enum tuner_staged d, struct base_error *error)
{
    const struct tuner_values *values = &w->result->values[d];
    const struct sim_plan_key *key = &sim_plan_keys[dimensions[d].key];
    for (int i = 0; i < values->count && is_number(d); i++) {
        w->numbers[d][i] = 1;
        if (!values->values[i]) continue;
        const bool is_off = d == TUNER_STAGED_MICROBATCHES; /* at 0 */
        if (!strcmp(values->values[i], "auto"))
            return base_fail(error, BASE_INPUT, "%s: auto cannot be combined with numbers; use auto, or numbers alone",
                             key->name);
        BASE_TRY(base_parse_int(values->values[i], key->name, !is_off, most_of(d), &w->numbers[d][i], error));
        if (w->numbers[d][i] < 1) w->numbers[d][i] = 1;
    }
    return BASE_OK;
}

static enum base_status find_values(struct staged_walk *w, enum tuner_staged d, struct base_error *error)
{
    struct tuner_values *values = &w->result->values[d];
    const struct tuner_values *given = &w->request->given[d];
    const int node = w->topology.bounds[1], devices = w->topology.device_count;
    *values = (struct tuner_values){base_new(w->arena, const char *, MOST_VALUES), 0};
    if (given->count > MOST_VALUES)
        return base_fail(error, BASE_INPUT, "%s: has more than %d values", sim_plan_keys[dimensions[d].key].name,
                         MOST_VALUES);
    for (int i = 0; i < given->count; i++) add(w, d, given->values[i]);
    if (!given->count && is_word(d) && sim_key_is_given(&w->request->plan, dimensions[d].key))
        add(w, d, w->request->plan.values[dimensions[d].key]);
    const bool batches = d == TUNER_STAGED_BATCH && w->request->batch_auto;
    const struct tuner_values sizes = batches ? tuner_auto_batches(w->arena, devices) : (struct tuner_values){NULL, 0};
    for (int i = 0; i < sizes.count; i++) add(w, d, sizes.values[i]);
    if (d == TUNER_STAGED_CONTEXT && w->request->searches_context) add_divisors(w, d, devices, devices);
    else if (!values->count) add_usual(w, d);
    if (!values->count && !sim_key_is_given(&w->request->plan, SIM_NUM_EXPERT_PARTITIONS)) add_experts(w, d);
    if (!values->count && d == TUNER_STAGED_PARTITIONS) add_divisors(w, d, devices, node);
    if (!values->count && d == TUNER_STAGED_STAGES) add_divisors(w, d, devices, SIM_MOST_STAGES);
    if (!values->count && d == TUNER_STAGED_CHUNKS) add_chunks(w);
    if (!values->count && d == TUNER_STAGED_MICROBATCHES) add_microbatches(w);
    if (!values->count) add(w, d, NULL);
    if (w->overflows)
        return base_fail(error, BASE_INPUT, "%s: more than %d values are possible; list those to search",
                         sim_plan_keys[dimensions[d].key].name, MOST_VALUES);
    return is_word(d) ? read_words(w, d, error) : read_numbers(w, d, error);
}

/* ---- the space ---- */

struct sim_plan_text tuner_staged_text(const struct tuner_stages_result *r, const struct tuner_staged_plan *plan)
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

static int64_t number(const struct staged_walk *w, const struct tuner_staged_plan *plan, enum tuner_staged d)
{
    return w->numbers[d][plan->value[d]];
}

static bool is_given(const struct staged_walk *w, enum tuner_staged d)
{
    return w->request->given[d].count > 0;
}

/* Whether the software accumulates over this many microbatches without stages. */
static bool accumulates(const struct staged_walk *w, int64_t microbatches)
{
    const struct tuner_values *told = &w->choices.microbatches;
    bool has = !told->count;
    for (int i = 0; i < told->count; i++) has = has || strtoll(told->values[i], NULL, 10) == microbatches;
    return has;
}

/* Avoids duplicates: a word without effect takes only its first value, for a single stage or a sequence on one
 * device. Chunks use the interleaved schedule if it is among the values. */
static bool is_said_once(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    const bool staged = number(w, plan, TUNER_STAGED_STAGES) > 1, sharded = number(w, plan, TUNER_STAGED_CONTEXT) > 1;
    if (!staged && (plan->value[TUNER_STAGED_DIVISION] || plan->value[TUNER_STAGED_SCHEDULE])) return false;
    if (!sharded && plan->value[TUNER_STAGED_EXCHANGE]) return false;
    if (!staged || w->result->values[TUNER_STAGED_SCHEDULE].count == 1) return true;
    const bool takes_turns = number(w, plan, TUNER_STAGED_SCHEDULE) == SIM_INTERLEAVED;
    if (number(w, plan, TUNER_STAGED_CHUNKS) > 1) return takes_turns || !has_schedule(w, SIM_INTERLEAVED);
    return !takes_turns || !has_schedule(w, SIM_ONE_FORWARD_ONE_BACKWARD);
}

/* Whether the experts are over whole devices. Without devices that share an expert, they go over the tensor-parallel
 * group before its copies. */
static bool divides_experts(const struct staged_walk *w, const struct tuner_staged_plan *plan, int64_t copies)
{
    const int64_t experts = number(w, plan, TUNER_STAGED_EXPERTS), model = number(w, plan, TUNER_STAGED_PARTITIONS);
    const bool shares_none = plan->value[TUNER_STAGED_EXPERT_TENSOR] > 0;
    if (is_given(w, TUNER_STAGED_EXPERT_TENSOR)) return true; /* the plan's check decides */
    if (!shares_none) return copies % experts == 0;
    return experts > 1 && model > 1 && experts % model == 0 && copies % (experts / model) == 0;
}

/* Rejects plans that devices, layers or batch do not divide, and plans that equal another one: chunks of a single
 * stage, sequence parallelism on one device, ZeRO without replicas. */
static bool divides(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    const int64_t stages = number(w, plan, TUNER_STAGED_STAGES), chunks = number(w, plan, TUNER_STAGED_CHUNKS),
                  model = number(w, plan, TUNER_STAGED_PARTITIONS), m = number(w, plan, TUNER_STAGED_MICROBATCHES),
                  context = number(w, plan, TUNER_STAGED_CONTEXT), devices = w->topology.device_count;
    if (stages > devices || model > devices || context > devices) return false; /* no overflow below */
    const int64_t copy = stages * model * context;
    if (devices % copy != 0 || (chunks > 1 && (stages == 1 || m % stages != 0))) return false;
    if (stages * chunks > w->config.num_encoder_layers + w->config.num_decoder_layers + 2) return false;
    const char *sequence = w->result->values[TUNER_STAGED_SEQUENCE].values[plan->value[TUNER_STAGED_SEQUENCE]],
               *partitioning =
                   w->result->values[TUNER_STAGED_PARTITIONING].values[plan->value[TUNER_STAGED_PARTITIONING]];
    const bool sequences = sequence && !strcmp(sequence, "1"), zero = partitioning && strcmp(partitioning, "none") != 0;
    if (sequences && model == 1 && !is_given(w, TUNER_STAGED_SEQUENCE)) return false;
    if (zero && devices == copy && !is_given(w, TUNER_STAGED_PARTITIONING)) return false;
    if (!is_said_once(w, plan) || !divides_experts(w, plan, devices / copy)) return false;
    if (stages == 1 && !accumulates(w, m) && !is_given(w, TUNER_STAGED_MICROBATCHES)) return false;
    return number(w, plan, TUNER_STAGED_BATCH) % (m * (devices / copy)) == 0;
}

enum base_status tuner_staged_check(struct staged_walk *w, const struct tuner_staged_plan *plan, struct sim_plan *out,
                                    struct base_error *error)
{
    const struct sim_plan_text text = tuner_staged_text(w->result, plan);
    base_arena_reset(&w->scratch);
    BASE_TRY(sim_plan_check(w->cache, &w->scratch, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, out, error));
    return tuner_check_micro_batch(out, w->request->micro_batch, error);
}

/* Whether the software accepts this cut of the model, or is told the layers of each stage. */
static bool is_cut(struct staged_walk *w, struct tuner_staged_plan *plan)
{
    const int64_t stages = number(w, plan, TUNER_STAGED_STAGES), chunks = number(w, plan, TUNER_STAGED_CHUNKS);
    const enum sim_cut partition = (enum sim_cut)number(w, plan, TUNER_STAGED_DIVISION);
    signed char *known = &w->cut[partition][plan->value[TUNER_STAGED_STAGES]][plan->value[TUNER_STAGED_CHUNKS]];
    const struct sim_pipeline pipeline = {.stages = stages,
                                          .chunks = chunks,
                                          .partition = partition,
                                          .split_rank = w->split_rank,
                                          .first_layers = w->first_layers};
    struct sim_stage_chunk pieces[SIM_MOST_STAGE_CHUNKS];
    struct base_error why;
    plan->assigned = stages > 1 && chunks == 1 && w->request->assigns_layers;
    if (stages == 1) return true;
    if (!*known) *known = sim_split_model(&w->config, &pipeline, w->traits.division, pieces, &why) == BASE_OK ? 1 : -1;
    plan->assigned = plan->assigned || (chunks == 1 && *known < 0 && w->assigns_uneven);
    return plan->assigned ? stages <= w->config.num_decoder_layers : *known > 0;
}

double tuner_staged_cost(const struct staged_walk *w, const struct tuner_staged_plan *plan, double step_s)
{
    return w->request->objective == TUNER_STEP_S ? step_s : step_s / (double)number(w, plan, TUNER_STAGED_BATCH);
}

/* For most plans this bound shows that they are slow. A front also needs each plan's free memory. */
static enum base_status bound_by_layers(struct staged_walk *w, const struct sim_plan *checked,
                                        struct tuner_staged_plan *plan, struct base_error *error)
{
    double least_s = 0;
    plan->least_s = 0;
    plan->free_bytes = w->result->capacity_bytes = checked->placement->profile.constants[SIM_CAPACITY_BYTES];
    plan->has_layers_bound_only = checked->pipeline.stages > 1 && !w->request->no_bounds;
    if (!plan->has_layers_bound_only || w->request->pareto) return BASE_OK;
    BASE_TRY(sim_pipeline_relaxed_of(w->cache, checked, plan->assigned, &least_s, error));
    plan->least_s = tuner_staged_cost(w, plan, least_s);
    return BASE_OK;
}

enum base_status tuner_staged_bound(struct staged_walk *w, struct tuner_staged_plan *plan, struct base_error *error)
{
    struct sim_pipeline_least least = {.free_bytes = plan->free_bytes};
    struct sim_plan checked;
    if (!plan->has_layers_bound_only) return BASE_OK;
    BASE_TRY(tuner_staged_check(w, plan, &checked, error));
    if (plan->assigned) BASE_TRY(tuner_layers_bound(w->cache, &checked, &least, error));
    else BASE_TRY(sim_pipeline_least_of(w->cache, &checked, &least, error));
    const double least_s = tuner_staged_cost(w, plan, least.step_s);
    w->result->bound_violations += !plan->assigned && least_s < plan->least_s;
    plan->has_layers_bound_only = false;
    plan->least_s = fmax(least_s, plan->least_s); /* of layers to be assigned either may be the closer */
    plan->free_bytes = least.free_bytes;
    return BASE_OK;
}

void tuner_staged_refuse(struct staged_walk *w, const char *why)
{
    if (!w->result->refused_count++) w->result->refusal = base_copy(w->arena, why);
}

/* Why a plan is not searched although its devices divide; NULL: it is. */
static const char *refusal_of(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    if (!plan->assigned) return NULL;
    return tuner_layers_refusal(w->arena, number(w, plan, TUNER_STAGED_STAGES), w->config.num_decoder_layers);
}

static enum base_status add_plan(struct staged_walk *w, struct tuner_staged_plan *plan, struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    struct base_error why;
    struct sim_plan checked;
    enum base_status status = BASE_OK;
    if (!divides(w, plan) || !is_cut(w, plan)) return BASE_OK;
    plan->unpriced = w->searches && tuner_staged_time_is_up(w, LISTING_SHARE);
    const char *no = refusal_of(w, plan);
    if (no) return tuner_staged_refuse(w, no), BASE_OK;
    if (plan->unpriced) plan->least_s = 0, plan->free_bytes = INFINITY;
    else status = tuner_staged_check(w, plan, &checked, &why);
    if (status == BASE_OK && w->searches && !plan->unpriced) status = bound_by_layers(w, &checked, plan, &why);
    if (status != BASE_OK) return tuner_staged_refuse(w, why.text), BASE_OK;
    if (r->plan_count == MOST_PLANS)
        return base_fail(error, BASE_INPUT, "the space has more than %d plans; use fewer values", MOST_PLANS);
    r->space = base_grown(w->arena, r->space, r->plan_count, &w->capacity, sizeof *r->space);
    plan->place = r->plan_count;
    w->assigns = w->assigns || plan->assigned;
    r->space[r->plan_count] = *plan;
    if (!w->searches && plan->assigned) r->space[r->plan_count].layers = "auto"; /* as the table shows it */
    r->plan_count++;
    return BASE_OK;
}

/* Counts like an odometer, last dimension fastest. */
static enum base_status list_plans(struct staged_walk *w, struct base_error *error)
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
                         "pipeline_layers: auto assigns layers to whole stages, which no plan of the space has; use "
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

static const char *software_of(const struct staged_walk *w)
{
    const struct sim_plan_text *plan = &w->request->plan;
    return sim_key_is_given(plan, SIM_SOFTWARE) ? plan->values[SIM_SOFTWARE] : "t5x";
}

/* Rejects schedules that the software lacks. */
static enum base_status check_schedules(const struct staged_walk *w, struct base_error *error)
{
    for (int i = 0; i < w->result->values[TUNER_STAGED_SCHEDULE].count; i++) {
        const int64_t schedule = w->numbers[TUNER_STAGED_SCHEDULE][i];
        if (schedule != BY_CHUNKS && !(w->traits.schedules & 1u << schedule))
            return base_fail(error, BASE_INPUT, "pipeline_schedule: %s does not support %s; use %s", software_of(w),
                             w->result->values[TUNER_STAGED_SCHEDULE].values[i], w->traits.schedule_words);
    }
    return BASE_OK;
}

static bool divides_by_layers(const struct staged_walk *w)
{
    bool by_layers = true;
    for (int i = 0; i < w->result->values[TUNER_STAGED_DIVISION].count; i++)
        by_layers = by_layers && w->numbers[TUNER_STAGED_DIVISION][i] == SIM_BY_LAYERS;
    return by_layers;
}

/* Rejects chunks if the software has no schedule for them. */
static enum base_status check_chunks(const struct staged_walk *w, struct base_error *error)
{
    if (w->traits.schedules & 1u << SIM_INTERLEAVED) return BASE_OK;
    for (int i = 0; i < w->result->values[TUNER_STAGED_CHUNKS].count; i++)
        if (w->numbers[TUNER_STAGED_CHUNKS][i] > 1)
            return base_fail(error, BASE_INPUT,
                             "virtual_stages: %s does not interleave chunks, its schedules are %s; use 1",
                             software_of(w), w->traits.schedule_words);
    return BASE_OK;
}

enum base_status tuner_staged_list(struct staged_walk *w, struct base_error *error)
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
    if (!w->request->given[TUNER_STAGED_BATCH].count && !w->request->batch_auto)
        return base_fail(error, BASE_INPUT,
                         "batch_size: is missing; sequences in one global batch, as in 1536, or auto");
    const char *split = plan->values[SIM_PIPELINE_SPLIT_RANK];
    if (split && *split)
        BASE_TRY(base_parse_int(split, "pipeline_split_rank", 0, SIM_MOST_STAGES, &w->split_rank, error));
    if (sim_key_is_given(plan, SIM_FIRST_STAGE_LAYERS))
        BASE_TRY(base_parse_int(plan->values[SIM_FIRST_STAGE_LAYERS], "first_stage_layers", 0, 1 << 20,
                                &w->first_layers, error));
    BASE_TRY(sim_pipeline_traits_find(software_of(w), &w->traits, error));
    w->result->plan = *plan;
    const struct tuner_request asked = {.plan = *plan};
    BASE_TRY(tuner_software_find(w->arena, &asked, &w->choices, error));
    for (int d = 0; d < TUNER_STAGED_COUNT; d++) BASE_TRY(find_values(w, (enum tuner_staged)d, error));
    BASE_TRY(check_schedules(w, error));
    BASE_TRY(check_chunks(w, error));
    const bool takes_layers = w->traits.takes_layers && !w->config.encoder && divides_by_layers(w);
    w->assigns_uneven = w->request->assigns_uneven && takes_layers;
    if (w->request->assigns_layers && !takes_layers)
        return base_fail(
            error, BASE_INPUT,
            "pipeline_layers: auto assigns a decoder's layers to stages, for software that supports it; leave it out");
    return list_plans(w, error);
}

bool tuner_staged_time_is_up(const struct staged_walk *w, double share)
{
    const struct tuner_stages_request *r = w->request;
    if (r->stop && r->stop(r->where)) return true;
    return r->now_s && r->time_limit_s > 0 && r->now_s(r->where) - w->start_s > share * r->time_limit_s;
}
