/* The space of pipeline plans: stages, chunks and microbatches, with tensor, data, sequence and context parallelism.
 * It is listed completely, each plan with a bound from the prices of its stage chunks. */
#include "tuner/stage_layers.h"
#include "tuner/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLANS = 1 << 22 };

/* Of the time limit: later plans are listed without bounds, so that some get predicted. */
static const double LISTING_SHARE = 0.5;

static struct sim_plan_text text_of(const struct tuner_stages *w, const struct tuner_staged_plan *plan)
{
    struct sim_plan_text text = w->request.plan;
    for (int i = 0; i < TUNER_STAGED_COUNT; i++) {
        const enum tuner_dimension d = tuner_staged_dimension(i);
        if (w->values[d].values[plan->value[d]]) text.values[tuner_key(d)] = w->values[d].values[plan->value[d]];
    }
    const char *chunks = text.values[SIM_VIRTUAL_STAGES];
    if (chunks && strcmp(chunks, "1") != 0 && !sim_key_is_given(&text, SIM_PIPELINE_SCHEDULE))
        text.values[SIM_PIPELINE_SCHEDULE] = "interleaved";
    if (plan->layers) text.values[SIM_PIPELINE_LAYERS] = plan->layers;
    return text;
}

static struct sim_plan_text plan_text(const struct tuner_space *space, struct tuner_plan plan)
{
    return text_of(space->stages, &space->stages->plans[plan.group]);
}

int64_t tuner_staged_batch(const struct tuner_stages *w, int place)
{
    return w->numbers[TUNER_BATCH][w->plans[place].value[TUNER_BATCH]];
}

static int64_t number(const struct tuner_stages *w, const struct tuner_staged_plan *plan, enum tuner_dimension d)
{
    return w->numbers[d][plan->value[d]];
}

static bool is_given(const struct tuner_stages *w, enum tuner_dimension d)
{
    return w->request.given[d].count > 0;
}

/* Whether the software accumulates over this many microbatches without stages. */
static bool accumulates(const struct tuner_stages *w, int64_t microbatches)
{
    const struct tuner_values *told = &w->choices.microbatches;
    bool has = !told->count;
    for (int i = 0; i < told->count; i++) has = has || strtoll(told->values[i], NULL, 10) == microbatches;
    return has;
}

/* Avoids duplicates: a word without effect takes only its first value, for a single stage or a sequence on one
 * device. Chunks use the interleaved schedule if it is among the values. */
static bool is_said_once(const struct tuner_stages *w, const struct tuner_staged_plan *plan)
{
    const bool staged = number(w, plan, TUNER_STAGES) > 1, sharded = number(w, plan, TUNER_CONTEXT) > 1;
    if (!staged && (plan->value[TUNER_DIVISION] || plan->value[TUNER_SCHEDULE])) return false;
    if (!sharded && plan->value[TUNER_EXCHANGE]) return false;
    if (!staged || w->values[TUNER_SCHEDULE].count == 1) return true;
    const bool takes_turns = number(w, plan, TUNER_SCHEDULE) == SIM_INTERLEAVED;
    if (number(w, plan, TUNER_CHUNKS) > 1) return takes_turns || !tuner_staged_has_schedule(w, SIM_INTERLEAVED);
    return !takes_turns || !tuner_staged_has_schedule(w, SIM_ONE_FORWARD_ONE_BACKWARD);
}

/* Whether the experts are over whole devices. Without devices that share an expert, they go over the tensor-parallel
 * group before its copies. */
static bool divides_experts(const struct tuner_stages *w, const struct tuner_staged_plan *plan, int64_t copies)
{
    const int64_t experts = number(w, plan, TUNER_EXPERTS), model = number(w, plan, TUNER_PARTITIONS);
    const bool shares_none = plan->value[TUNER_EXPERT_TENSOR] > 0;
    if (is_given(w, TUNER_EXPERT_TENSOR)) return true; /* the plan's check decides */
    if (!shares_none) return copies % experts == 0;
    return experts > 1 && model > 1 && experts % model == 0 && copies % (experts / model) == 0;
}

/* Rejects plans that devices, layers or batch do not divide, and plans that equal another one: chunks of a single
 * stage, sequence parallelism on one device, ZeRO without replicas. */
static bool divides(const struct tuner_stages *w, const struct tuner_staged_plan *plan)
{
    const int64_t stages = number(w, plan, TUNER_STAGES), chunks = number(w, plan, TUNER_CHUNKS),
                  model = number(w, plan, TUNER_PARTITIONS), m = number(w, plan, TUNER_MICROBATCHES),
                  context = number(w, plan, TUNER_CONTEXT), devices = w->topology.device_count;
    if (stages > devices || model > devices || context > devices) return false; /* no overflow below */
    const int64_t copy = stages * model * context;
    if (devices % copy != 0 || (chunks > 1 && (stages == 1 || m % stages != 0))) return false;
    if (stages * chunks > w->config.num_encoder_layers + w->config.num_decoder_layers + 2) return false;
    const char *sequence = w->values[TUNER_SEQUENCE].values[plan->value[TUNER_SEQUENCE]],
               *partitioning = w->values[TUNER_PARTITIONING].values[plan->value[TUNER_PARTITIONING]];
    const bool sequences = sequence && !strcmp(sequence, "1"), zero = partitioning && strcmp(partitioning, "none") != 0;
    if (sequences && model == 1 && !is_given(w, TUNER_SEQUENCE)) return false;
    if (zero && devices == copy && !is_given(w, TUNER_PARTITIONING)) return false;
    if (!is_said_once(w, plan) || !divides_experts(w, plan, devices / copy)) return false;
    if (stages == 1 && !accumulates(w, m) && !is_given(w, TUNER_MICROBATCHES)) return false;
    return number(w, plan, TUNER_BATCH) % (m * (devices / copy)) == 0;
}

enum base_status tuner_staged_check(struct tuner_stages *w, const struct tuner_staged_plan *plan, struct sim_plan *out,
                                    struct base_error *error)
{
    const struct sim_plan_text text = text_of(w, plan);
    base_arena_reset(&w->scratch);
    BASE_TRY(sim_plan_check(w->cache, &w->scratch, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, out, error));
    return tuner_check_micro_batch(out, w->request.micro_batch, error);
}

/* Whether the software accepts this cut of the model, or is told the layers of each stage. */
static bool is_cut(struct tuner_stages *w, struct tuner_staged_plan *plan)
{
    const int64_t stages = number(w, plan, TUNER_STAGES), chunks = number(w, plan, TUNER_CHUNKS);
    const enum sim_cut partition = (enum sim_cut)number(w, plan, TUNER_DIVISION);
    signed char *known = &w->cut[partition][plan->value[TUNER_STAGES]][plan->value[TUNER_CHUNKS]];
    const struct sim_pipeline pipeline = {.stages = stages,
                                          .chunks = chunks,
                                          .partition = partition,
                                          .split_rank = w->split_rank,
                                          .first_layers = w->first_layers};
    struct sim_stage_chunk pieces[SIM_MOST_STAGE_CHUNKS];
    struct base_error why;
    plan->assigned = stages > 1 && chunks == 1 && w->request.assigns_layers;
    if (stages == 1) return true;
    if (!*known) *known = sim_split_model(&w->config, &pipeline, w->traits.division, pieces, &why) == BASE_OK ? 1 : -1;
    plan->assigned = plan->assigned || (chunks == 1 && *known < 0 && w->assigns_uneven);
    return plan->assigned ? stages <= w->config.num_decoder_layers : *known > 0;
}

double tuner_staged_cost(const struct tuner_stages *w, const struct tuner_staged_plan *plan, double step_s)
{
    return w->search->objective == TUNER_STEP_S ? step_s : step_s / (double)number(w, plan, TUNER_BATCH);
}

/* For most plans this bound shows that they are slow. A front also needs each plan's free memory. */
static enum base_status bound_by_layers(struct tuner_stages *w, const struct sim_plan *checked,
                                        struct tuner_staged_plan *plan, struct base_error *error)
{
    double least_s = 0;
    plan->least_s = 0;
    plan->free_bytes = w->capacity_bytes = checked->placement->profile.constants[SIM_CAPACITY_BYTES];
    plan->has_layers_bound_only = checked->pipeline.stages > 1 && !w->search->no_bounds;
    if (!plan->has_layers_bound_only || w->search->pareto) return BASE_OK;
    BASE_TRY(sim_pipeline_relaxed_of(w->cache, checked, plan->assigned, &least_s, error));
    plan->least_s = tuner_staged_cost(w, plan, least_s);
    return BASE_OK;
}

enum base_status tuner_staged_bound(struct tuner_stages *w, struct tuner_staged_plan *plan, bool *is_lower,
                                    struct base_error *error)
{
    struct sim_pipeline_least least = {.free_bytes = plan->free_bytes};
    struct sim_plan checked;
    BASE_TRY(tuner_staged_check(w, plan, &checked, error));
    if (plan->assigned) BASE_TRY(tuner_layers_bound(w->cache, &checked, &least, error));
    else BASE_TRY(sim_pipeline_least_of(w->cache, &checked, &least, error));
    const double least_s = tuner_staged_cost(w, plan, least.step_s);
    *is_lower = !plan->assigned && least_s < plan->least_s;
    plan->has_layers_bound_only = false;
    plan->least_s = fmax(least_s, plan->least_s); /* of layers to be assigned either may be the closer */
    plan->free_bytes = least.free_bytes;
    return BASE_OK;
}

/* Why a plan is not searched although its devices divide; NULL: it is. */
static const char *refusal_of(const struct tuner_stages *w, const struct tuner_staged_plan *plan)
{
    if (!plan->assigned) return NULL;
    return tuner_layers_refusal(w->arena, number(w, plan, TUNER_STAGES), w->config.num_decoder_layers);
}

/* Whether this share of the time limit has passed, or the search was stopped. */
static bool is_late(const struct tuner_stages *w)
{
    const struct tuner_options *o = w->search;
    if (o->stop && o->stop(o->where)) return true;
    return o->now_s && o->time_limit_s > 0 && o->now_s(o->where) - w->start_s > LISTING_SHARE * o->time_limit_s;
}

static enum base_status add_plan(struct tuner_stages *w, struct tuner_staged_plan *plan, struct base_error *error)
{
    struct base_error why;
    struct sim_plan checked;
    enum base_status status = BASE_OK;
    if (!divides(w, plan) || !is_cut(w, plan)) return BASE_OK;
    plan->unpriced = w->search && is_late(w);
    const char *no = refusal_of(w, plan);
    if (no) return tuner_refuse(w->space, no, 1), BASE_OK;
    if (plan->unpriced) plan->least_s = 0, plan->free_bytes = INFINITY;
    else status = tuner_staged_check(w, plan, &checked, &why);
    if (status == BASE_OK && w->search && !plan->unpriced) status = bound_by_layers(w, &checked, plan, &why);
    if (status != BASE_OK) return tuner_refuse(w->space, why.text, 1), BASE_OK;
    if (w->plan_count == MOST_PLANS)
        return base_fail(error, BASE_INPUT, "the space has more than %d plans; use fewer values", MOST_PLANS);
    w->plans = base_grown(w->arena, w->plans, w->plan_count, &w->capacity, sizeof *w->plans);
    w->assigns = w->assigns || plan->assigned;
    w->plans[w->plan_count] = *plan;
    if (!w->search && plan->assigned) w->plans[w->plan_count].layers = "auto"; /* as the table shows it */
    w->plan_count++;
    return BASE_OK;
}

/* Counts like an odometer, last dimension fastest. */
static enum base_status list_plans(struct tuner_stages *w, struct base_error *error)
{
    struct tuner_staged_plan plan = {.assigned = false};
    for (bool more = true; more;) {
        BASE_TRY(add_plan(w, &plan, error));
        more = false;
        for (int i = TUNER_STAGED_COUNT - 1; i >= 0 && !more; i--) {
            const enum tuner_dimension d = tuner_staged_dimension(i);
            more = ++plan.value[d] < w->values[d].count;
            if (!more) plan.value[d] = 0;
        }
    }
    if (w->plan_count && w->request.assigns_layers && !w->assigns)
        return base_fail(error, BASE_INPUT,
                         "pipeline_layers: auto assigns layers to whole stages, which no plan of the space has; use "
                         "virtual_stages 1, or leave pipeline_layers out");
    if (w->plan_count) return BASE_OK;
    if (w->space->refused_count) return tuner_refuse_all(w->space, error);
    return base_fail(
        error, BASE_INPUT,
        "no plan of the space can be launched: stages times num_partitions times context_parallel have to divide %d "
        "devices, microbatches times the replicas that are left batch_size, and chunks of stages have to share out "
        "%lld "
        "layers; use other values of them, or auto",
        w->topology.device_count, (long long)(w->config.num_encoder_layers + w->config.num_decoder_layers));
}

static const char *software_of(const struct tuner_stages *w)
{
    const struct sim_plan_text *plan = &w->request.plan;
    return sim_key_is_given(plan, SIM_SOFTWARE) ? plan->values[SIM_SOFTWARE] : "t5x";
}

/* Rejects schedules that the software lacks. */
static enum base_status check_schedules(const struct tuner_stages *w, struct base_error *error)
{
    for (int i = 0; i < w->values[TUNER_SCHEDULE].count; i++) {
        const int64_t schedule = w->numbers[TUNER_SCHEDULE][i];
        if (schedule != TUNER_STAGED_BY_CHUNKS && !(w->traits.schedules & 1u << schedule))
            return base_fail(error, BASE_INPUT, "pipeline_schedule: %s does not support %s; use %s", software_of(w),
                             w->values[TUNER_SCHEDULE].values[i], w->traits.schedule_words);
    }
    return BASE_OK;
}

static bool divides_by_layers(const struct tuner_stages *w)
{
    bool by_layers = true;
    for (int i = 0; i < w->values[TUNER_DIVISION].count; i++)
        by_layers = by_layers && w->numbers[TUNER_DIVISION][i] == SIM_BY_LAYERS;
    return by_layers;
}

/* Rejects chunks if the software has no schedule for them. */
static enum base_status check_chunks(const struct tuner_stages *w, struct base_error *error)
{
    if (w->traits.schedules & 1u << SIM_INTERLEAVED) return BASE_OK;
    for (int i = 0; i < w->values[TUNER_CHUNKS].count; i++)
        if (w->numbers[TUNER_CHUNKS][i] > 1)
            return base_fail(error, BASE_INPUT,
                             "virtual_stages: %s does not interleave chunks, its schedules are %s; use 1",
                             software_of(w), w->traits.schedule_words);
    return BASE_OK;
}

static enum base_status list(struct tuner_stages *w, struct base_error *error)
{
    const struct sim_plan_text *plan = &w->request.plan;
    if (!plan->values[SIM_TOPOLOGY] || !plan->values[SIM_MODEL])
        return base_fail(error, BASE_INPUT, "%s: is missing", plan->values[SIM_MODEL] ? "topology" : "model");
    BASE_TRY(topo_parse(w->arena, plan->values[SIM_TOPOLOGY], &w->topology, error));
    BASE_TRY(model_gin_config_parse(w->arena, plan->values[SIM_MODEL], sim_cache_gin_search_path(w->cache), &w->config,
                                    error));
    if (w->topology.kind != TOPO_GPU)
        return base_fail(error, BASE_INPUT,
                         "pipeline_stages: are searched on nodes of GPUs; use 1, or a topology such as a100-80g:16x8");
    if (!w->request.given[TUNER_BATCH].count && !w->request.batch_auto)
        return base_fail(error, BASE_INPUT,
                         "batch_size: is missing; sequences in one global batch, as in 1536, or auto");
    const char *split = plan->values[SIM_PIPELINE_SPLIT_RANK];
    if (split && *split)
        BASE_TRY(base_parse_int(split, "pipeline_split_rank", 0, SIM_MOST_STAGES, &w->split_rank, error));
    if (sim_key_is_given(plan, SIM_FIRST_STAGE_LAYERS))
        BASE_TRY(base_parse_int(plan->values[SIM_FIRST_STAGE_LAYERS], "first_stage_layers", 0, 1 << 20,
                                &w->first_layers, error));
    BASE_TRY(sim_pipeline_traits_find(software_of(w), &w->traits, error));
    BASE_TRY(tuner_software_find(w->arena, &w->request, &w->choices, error));
    for (int i = 0; i < TUNER_STAGED_COUNT; i++) BASE_TRY(tuner_staged_find_values(w, i, error));
    BASE_TRY(check_schedules(w, error));
    BASE_TRY(check_chunks(w, error));
    const bool takes_layers = w->traits.takes_layers && !w->config.encoder && divides_by_layers(w);
    w->assigns_uneven = w->request.assigns_uneven && takes_layers;
    if (w->request.assigns_layers && !takes_layers)
        return base_fail(
            error, BASE_INPUT,
            "pipeline_layers: auto assigns a decoder's layers to stages, for software that supports it; leave it out");
    return list_plans(w, error);
}

enum base_status tuner_stages_build(struct base_arena *arena, struct sim_cache *cache,
                                    const struct tuner_request *request, const struct tuner_options *search,
                                    struct tuner_space *out, struct base_error *error)
{
    struct tuner_space *space = base_new(arena, struct tuner_space, 1);
    struct tuner_stages *w = base_new(arena, struct tuner_stages, 1);
    enum sim_key *keys = base_new(arena, enum sim_key, TUNER_STAGED_COUNT);
    for (int i = 0; i < TUNER_STAGED_COUNT; i++) keys[i] = tuner_key(tuner_staged_dimension(i));
    *w = (struct tuner_stages){.request = *request, .search = search, .cache = cache, .arena = arena, .space = space};
    w->scratch.exhausted = arena->exhausted;
    w->start_s = search && search->now_s ? search->now_s(search->where) : 0;
    *space = (struct tuner_space){.arena = arena,
                                  .cache = cache,
                                  .plan = request->plan,
                                  .dimension_count = TUNER_STAGED_COUNT,
                                  .keys = keys,
                                  .values = base_new(arena, struct tuner_values, TUNER_STAGED_COUNT),
                                  .batch_auto = request->batch_auto,
                                  .mesh_key = SIM_NUM_PARTITIONS,
                                  .rule_set_count = 1,
                                  .refusals = base_new(arena, struct tuner_refusal, TUNER_MOST_REFUSALS),
                                  .text = plan_text,
                                  .stages = w};
    const enum base_status status = list(w, error);
    base_arena_free(&w->scratch);
    BASE_TRY(status);
    for (int i = 0; i < TUNER_STAGED_COUNT; i++) space->values[i] = w->values[tuner_staged_dimension(i)];
    space->plan_count = w->plan_count;
    space->rule_set_count = w->values[TUNER_RULES].count;
    space->layer_count = w->config.num_encoder_layers + w->config.num_decoder_layers;
    *out = *space;
    return BASE_OK;
}
