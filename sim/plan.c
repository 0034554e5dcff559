/* Plans: from text to checked values. What a value means is T5X's; refusals say which key, what is wrong, and what to
 * use. */
#include "sim/plan_keys.h"
#include "sim/priced_program.h"

#include <string.h>

/* ---- numbers ---- */

static enum base_status refuse_microbatches(int64_t batch, int64_t microbatches, struct base_error *error)
{
    char divisors[120] = "";
    int shown = 0;
    for (int64_t n = base_next_divisor(batch, 0); n && shown < 8; n = base_next_divisor(batch, n)) {
        size_t used = strlen(divisors);
        snprintf(divisors + used, sizeof divisors - used, "%s%lld", shown++ ? ", " : "", (long long)n);
    }
    return base_fail(error, BASE_INPUT, "num_microbatches: %lld does not divide batch_size %lld; %s… would",
                     (long long)microbatches, (long long)batch, divisors);
}

static enum base_status check_required(const struct sim_plan_text *text, const struct sim_plan *plan,
                                       struct base_error *error)
{
    if (!sim_key_is_given(text, SIM_BATCH_SIZE))
        return base_fail(error, BASE_INPUT, "batch_size: is missing; sequences in one global batch, as in 128");
    if (!sim_key_is_given(text, SIM_TARGETS_LENGTH))
        return base_fail(error, BASE_INPUT,
                         "task_feature_lengths.targets: is missing; as in {\"inputs\": 512, \"targets\": 512}");
    if (plan->config->encoder && !sim_key_is_given(text, SIM_INPUTS_LENGTH))
        return base_fail(
            error, BASE_INPUT,
            "task_feature_lengths.inputs: is missing, and %s has an encoder; as in {\"inputs\": 512, \"targets\": 512}",
            plan->model_text);
    return BASE_OK;
}

static enum base_status read_values(struct sim_cache *cache, const struct sim_plan_text *text, struct sim_plan *plan,
                                    struct base_error *error)
{
    bool is_scanned = plan->config->scan_layers, is_local = plan->placement->topology.kind == TOPO_LOCAL;
    BASE_TRY(check_required(text, plan, error));
    BASE_TRY(sim_plan_read_values(cache, text, is_scanned, is_local, plan, error));
    if (plan->num_microbatches < 1) plan->num_microbatches = 1;
    if (plan->batch_size % plan->num_microbatches)
        return refuse_microbatches(plan->batch_size, plan->num_microbatches, error);
    return BASE_OK;
}

/* T5X's loss_normalizing_factor: a number, or what it calls the tokens of a batch. */
static enum base_status read_normalizing_factor(const char *text, struct sim_plan *plan, struct base_error *error)
{
    plan->normalizing_text = text ? text : "";
    plan->options.normalizes_by_tokens = !strcmp(plan->normalizing_text, "NUM_REAL_TARGET_TOKENS");
    if (!*plan->normalizing_text || plan->options.normalizes_by_tokens) return BASE_OK;
    BASE_TRY(base_parse_double(text, "loss_normalizing_factor", 0, 1e18, &plan->loss_normalizing_factor, error));
    if (plan->loss_normalizing_factor > 0) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "loss_normalizing_factor: is 0, and the loss is divided by it; use NUM_REAL_TARGET_TOKENS");
}

/* ---- what is looked up ---- */

/* What was worked out under a key, or why it was refused: a table may make one mistake a million times. */
struct answer {
    enum base_status status;
    const char *why;
};

static void remember(struct sim_cache *cache, struct answer *answer, enum base_status status,
                     const struct base_error *error)
{
    answer->status = status;
    answer->why = status == BASE_OK ? NULL : base_copy(&cache->arena, error->text);
    sim_cache_store(cache, answer);
}

static enum base_status say_again(const struct answer *answer, struct base_error *error)
{
    return answer->status == BASE_OK ? BASE_OK : base_fail(error, answer->status, "%s", answer->why);
}

/* What stands in a file is another thing when the next question is asked. */
static void note_file(struct sim_cache *cache, const char *text)
{
    cache->read_files = cache->read_files || *text == '@';
}

static enum base_status find_config(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                    struct base_error *error)
{
    struct known_config {
        struct answer answer;
        struct model_config config;
    } * known;
    if (!text || !*text)
        return base_fail(
            error, BASE_INPUT,
            "model: is missing; a zoo name such as t5_1_1_xxl, or one line such as decoder_only:emb_dim=…");
    sim_key_begin(cache, 'm');
    sim_key_text(cache, text);
    known = sim_cache_find(cache);
    if (!known) {
        known = base_new(&cache->arena, struct known_config, 1);
        remember(cache, &known->answer, model_gin_config_parse(&cache->arena, text, &known->config, error), error);
        note_file(cache, text);
    }
    plan->config = &known->config;
    plan->model_text = text;
    BASE_TRY(say_again(&known->answer, error));
    return BASE_OK;
}

static enum base_status find_rules(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                   struct base_error *error)
{
    struct known_rules {
        struct answer answer;
        struct model_rules rules;
    } * known;
    plan->rules_text = text && *text ? text : sim_plan_keys[SIM_RULES].fallback;
    const struct topo_axes *mesh = &plan->placement->axes;
    const bool over_context = plan->context_parallel > 1,
               over_model = (plan->placement->profile.traits >> MODEL_TRAIT_SHARDS_MODEL & 1) &&
                            topo_axis_named(mesh, "model") >= 0 && topo_axes_product(mesh, sim_model_axis(mesh)) > 1;
    sim_key_begin(cache, 'r');
    sim_key_text(cache, plan->rules_text);
    sim_key_bytes(cache, &over_context, sizeof over_context);
    sim_key_bytes(cache, &over_model, sizeof over_model);
    known = sim_cache_find(cache);
    if (!known) {
        known = base_new(&cache->arena, struct known_rules, 1);
        remember(cache, &known->answer,
                 model_rules_parse(&cache->arena, base_copy(&cache->arena, plan->rules_text), &known->rules, error),
                 error);
        if (over_model) known->rules = model_rules_over_model(&cache->arena, &known->rules);
        if (over_context) known->rules = model_rules_over_context(&cache->arena, &known->rules);
    }
    plan->rules = &known->rules;
    return say_again(&known->answer, error);
}

static enum base_status find_adafactor(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                       struct base_error *error)
{
    struct known_adafactor {
        struct answer answer;
        struct model_adafactor options;
    } * known;
    plan->adafactor_text = text ? text : "";
    if (!*plan->adafactor_text) return BASE_OK;
    if (plan->options.optimizer != MODEL_ADAFACTOR)
        return base_fail(error, BASE_INPUT,
                         "adafactor: has options, but the optimizer is another; use optimizer adafactor");
    sim_key_begin(cache, 'a');
    sim_key_text(cache, text);
    known = sim_cache_find(cache);
    if (!known) {
        known = base_new(&cache->arena, struct known_adafactor, 1);
        remember(cache, &known->answer, model_adafactor_parse(&cache->arena, text, &known->options, error), error);
    }
    plan->options.adafactor = &known->options;
    return say_again(&known->answer, error);
}

/* The model's parameters with the axes that the user gives them. */
struct overridden {
    struct answer answer;
    const struct model_parameter *parameters;
    int count;
};

static enum base_status override_parameters(struct base_arena *arena, const struct sim_plan *plan, const char *text,
                                            struct overridden *out, struct base_error *error)
{
    struct model_overrides overrides;
    BASE_TRY(model_overrides_parse(arena, text, &overrides, error));
    BASE_TRY(model_parameters(arena, plan->config, &out->parameters, &out->count, error));
    BASE_TRY(model_overrides_apply(arena, &overrides, out->parameters, out->count, &out->parameters, error));
    return model_check_layers_alike(arena, out->parameters, out->count, error);
}

static enum base_status find_overrides(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                       struct base_error *error)
{
    plan->overrides_text = text ? text : "";
    if (!*plan->overrides_text) return BASE_OK;
    sim_key_begin(cache, 'o');
    sim_key_text(cache, plan->model_text);
    sim_key_text(cache, text);
    struct overridden *found = sim_cache_find(cache);
    if (!found) {
        found = base_new(&cache->arena, struct overridden, 1);
        remember(cache, &found->answer,
                 override_parameters(&cache->arena, plan, base_copy(&cache->arena, text), found, error), error);
    }
    plan->options.parameters = found->parameters;
    plan->options.parameter_count = found->count;
    return say_again(&found->answer, error);
}

static enum base_status read_flag(const struct sim_plan_text *text, enum sim_key key, bool *out,
                                  struct base_error *error)
{
    int64_t flag;
    if (!sim_key_is_given(text, key)) return BASE_OK;
    BASE_TRY(base_parse_int(text->values[key], sim_plan_keys[key].name, 0, 1, &flag, error));
    *out = flag == 1;
    return BASE_OK;
}

/* A mesh of named axes; nothing else may say what the mesh is. */
static enum base_status read_named_mesh(struct base_arena *arena, const struct sim_plan_text *text,
                                        struct topo_mesh_request *request, struct base_error *error)
{
    static const enum sim_key others[] = {SIM_SUBMESH, SIM_NUM_PARTITIONS};
    for (int i = 0; i < BASE_COUNT(others); i++)
        if (sim_key_is_given(text, others[i]))
            return base_fail(error, BASE_INPUT, "%s: contradicts ici_mesh, which is the whole mesh; keep one",
                             sim_plan_keys[others[i]].name);
    BASE_TRY(topo_axes_parse(arena, text->values[SIM_ICI_MESH], "ici_mesh", &request->ici_mesh, error));
    if (sim_key_is_given(text, SIM_DCN_MESH))
        BASE_TRY(topo_axes_parse(arena, text->values[SIM_DCN_MESH], "dcn_mesh", &request->dcn_mesh, error));
    BASE_TRY(read_flag(text, SIM_SPLIT_PHYSICAL_AXES, &request->split_physical_axes, error));
    return read_flag(text, SIM_CONTIGUOUS_SUBMESHES, &request->contiguous_submeshes, error);
}

enum base_status sim_plan_mesh_request(struct base_arena *arena, const struct sim_plan_text *text,
                                       struct topo_mesh_request *request, struct base_error *error)
{
    *request = (struct topo_mesh_request){.tile_by_host_if_needed = true};
    const char *submesh = text->values[SIM_SUBMESH], *partitions = text->values[SIM_NUM_PARTITIONS],
               *experts = text->values[SIM_NUM_EXPERT_PARTITIONS];
    request->has_experts = experts && *experts;
    if (request->has_experts)
        BASE_TRY(base_parse_int(experts, "num_expert_partitions", INT32_MIN, INT32_MAX, &request->num_expert_partitions,
                                error));
    int64_t numbers[8];
    if (sim_key_is_given(text, SIM_ICI_MESH)) return read_named_mesh(arena, text, request, error);
    for (int key = SIM_ICI_MESH + 1; key <= SIM_CONTIGUOUS_SUBMESHES; key++)
        if (sim_key_is_given(text, (enum sim_key)key) && strcmp(text->values[key], "0") != 0)
            return base_fail(error, BASE_INPUT, "%s: goes with ici_mesh, which is missing; use ici_mesh, too",
                             sim_plan_keys[key].name);
    if (submesh && *submesh) {
        BASE_TRY(base_parse_ints(submesh, "model_parallel_submesh", INT32_MIN, INT32_MAX, 8, numbers,
                                 &request->submesh_count, error));
        for (int i = 0; i < request->submesh_count; i++) request->submesh[i] = (int)numbers[i];
    }
    if (partitions && *partitions)
        return base_parse_int(partitions, "num_partitions", 1, INT32_MAX, &request->num_partitions, error);
    request->num_partitions = request->submesh_count ? 0 : 1;
    return BASE_OK;
}

/* How many stages the devices are cut into, and over how many of them a sequence is. */
static enum base_status read_cuts(const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error)
{
    plan->pipeline.stages = plan->context_parallel = 1;
    if (sim_key_is_given(text, SIM_PIPELINE_STAGES))
        BASE_TRY(base_parse_int(text->values[SIM_PIPELINE_STAGES], "pipeline_stages", 1, SIM_MOST_STAGES,
                                &plan->pipeline.stages, error));
    if (sim_key_is_given(text, SIM_CONTEXT_PARALLEL))
        BASE_TRY(base_parse_int(text->values[SIM_CONTEXT_PARALLEL], "context_parallel", 1, 1 << 20,
                                &plan->context_parallel, error));
    return BASE_OK;
}

/* What the stages of a pipeline are asked for must go together, and there must be stages. */
static enum base_status check_pipeline(const struct sim_plan_text *text, const struct sim_plan *plan,
                                       struct base_error *error)
{
    static const enum sim_key of_stages[] = {SIM_VIRTUAL_STAGES, SIM_PIPELINE_SPLIT_RANK};
    const struct sim_pipeline *pipeline = &plan->pipeline;
    for (int i = 0; i < BASE_COUNT(of_stages) && pipeline->stages == 1; i++) {
        const struct sim_plan_key *row = &sim_plan_keys[of_stages[i]];
        if (sim_key_is_given(text, of_stages[i]) && strcmp(text->values[of_stages[i]], row->fallback) != 0)
            return base_fail(error, BASE_INPUT, "%s: goes with pipeline_stages, of which there is 1; use more, or %s",
                             row->name, row->fallback);
    }
    if (pipeline->chunks > 1 && pipeline->schedule != SIM_INTERLEAVED)
        return base_fail(error, BASE_INPUT,
                         "virtual_stages: %lld chunks a stage take turns in the interleaved schedule alone; use "
                         "pipeline_schedule interleaved, or 1",
                         (long long)pipeline->chunks);
    return BASE_OK;
}

struct known_placement {
    struct answer answer;
    struct topo_mesh_request request;
    struct sim_placement placement;
};

static enum base_status place(struct sim_cache *cache, const struct sim_plan_text *text, const struct sim_plan *plan,
                              struct known_placement *out, struct base_error *error)
{
    struct topo_topology topology, stage;
    struct topo_mesh_request request;
    BASE_TRY(sim_plan_mesh_request(&cache->arena, text, &out->request, error));
    BASE_TRY(topo_parse(&cache->arena, plan->topology_text, &topology, error));
    BASE_TRY(sim_stage_topology(&topology, plan->pipeline.stages, &stage, error));
    BASE_TRY(sim_context_mesh(&stage, &out->request, plan->context_parallel, &request, error));
    BASE_TRY(
        sim_placement_build(&cache->arena, &stage, &request, plan->software, cache->overrides, &out->placement, error));
    out->request.split_physical_axes = out->request.split_physical_axes || out->placement.splits_dimensions;
    out->placement.topology = topology;
    out->placement.stage_devices = stage.device_count;
    return sim_residuals_find(&topology, plan->software, out->placement.residuals, error);
}

static enum base_status find_placement(struct sim_cache *cache, const struct sim_plan_text *text, struct sim_plan *plan,
                                       struct base_error *error)
{
    const char *topology_text = text->values[SIM_TOPOLOGY], *software = text->values[SIM_SOFTWARE];
    if (!topology_text || !*topology_text)
        return base_fail(error, BASE_INPUT, "topology: is missing; an accelerator type such as v4-512, or h100:4x8");
    plan->topology_text = topology_text;
    plan->compiler = sim_key_is_given(text, SIM_COMPILER) ? text->values[SIM_COMPILER] : "";
    plan->software = software && *software ? software : sim_plan_keys[SIM_SOFTWARE].fallback;
    sim_key_begin(cache, 'p');
    sim_key_text(cache, topology_text);
    sim_key_text(cache, plan->software);
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (sim_plan_keys[key].type == SIM_OF_MESH) sim_key_text(cache, text->values[key] ? text->values[key] : "");
    sim_key_bytes(cache, &cache->overrides_hash, sizeof cache->overrides_hash);
    struct known_placement *known = sim_cache_find(cache);
    if (!known) {
        known = base_new(&cache->arena, struct known_placement, 1);
        remember(cache, &known->answer, place(cache, text, plan, known, error), error);
        note_file(cache, topology_text);
    }
    plan->placement = &known->placement;
    plan->request = known->request;
    return say_again(&known->answer, error);
}

/* ---- what must divide ---- */

/* ---- experts ---- */

/* Devices that hold one copy of the dense model, as the mesh was asked for. */
static int64_t model_partitions_of(const struct sim_plan *plan)
{
    int64_t product = 1;
    for (int i = 0; i < plan->request.submesh_count; i++) product *= plan->request.submesh[i];
    if (plan->request.submesh_count) return product;
    return plan->request.num_partitions ? plan->request.num_partitions : 1;
}

/* The sizes of a plan, experts included. */
static enum base_status size_plan(const struct sim_plan *plan, int64_t *sizes, struct base_error *error)
{
    const struct model_expert_plan experts = {
        .device_count = plan->placement->stage_devices,
        .model_partitions = model_partitions_of(plan),
        .expert_partitions = plan->request.has_experts ? plan->request.num_expert_partitions : 1,
        .evaluates = plan->options.step == MODEL_STEP_FORWARD || plan->options.step == MODEL_STEP_EVALUATE};
    model_sizes(plan->config, plan->batch_size, plan->num_microbatches, plan->inputs_length, plan->targets_length,
                sizes);
    return plan->config->experts.count ? model_expert_sizes(plan->config, &experts, sizes, error) : BASE_OK;
}

static enum base_status check_experts(const struct sim_plan *plan, struct base_error *error)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    if (plan->config->experts.ignore_padding)
        return base_fail(error, BASE_INPUT, "model: ignore_padding_tokens: is not modelled; leave it out");
    if (plan->config->experts.count) return size_plan(plan, sizes, error);
    if (!plan->request.has_experts || plan->request.num_expert_partitions == 1) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "num_expert_partitions: the model has no experts; leave it out, or use moe_encoder_decoder");
}

void sim_plan_sizes(const struct sim_plan *plan, int64_t *sizes)
{
    struct base_error ignored; /* a checked plan has sizes */
    size_plan(plan, sizes, &ignored);
    sim_decoding_sizes(plan, sizes);
}

/* T5X's MoE partitioner gives rows to experts, then data: which rows a device has is nothing to a prediction. */
static bool is_batch_over_experts(const struct model_rule *rule)
{
    return rule->logical && !strcmp(rule->logical, "batch") && rule->value.count == 2 &&
           !strcmp(rule->value.names[0], "expert") && !strcmp(rule->value.names[1], "data");
}

/* A prediction shards a dimension over several axes in the order of the mesh. */
static enum base_status check_order(struct base_arena *arena, const struct topo_axes *mesh,
                                    const struct model_rule *rule, struct base_error *error)
{
    unsigned set = 0;
    bool in_order = true;
    for (int i = 0; i < rule->value.count; i++) {
        const int axis = topo_axis_named(mesh, rule->value.names[i]);
        if (mesh->sizes[axis] == 1) continue;
        in_order = in_order && !(set >> axis);
        set |= 1u << axis;
    }
    if (in_order || is_batch_over_experts(rule)) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "logical_axis_rules: %s goes to axes in another order than that of the mesh, which a prediction "
                     "does not shard in; use [%s]",
                     rule->logical, topo_axes_join(arena, mesh, set, ", "));
}

static enum base_status check_rule_axes(struct base_arena *arena, const struct topo_axes *mesh,
                                        const struct model_rules *rules, struct base_error *error)
{
    for (int i = 0; i < rules->count; i++) {
        const struct model_rule *rule = &rules->rules[i];
        bool of_the_model = false;
        for (int a = 1; a < MODEL_AXIS_COUNT; a++)
            of_the_model =
                of_the_model || (rule->logical && !strcmp(rule->logical, model_axis_name((enum model_axis)a)));
        for (int j = 0; of_the_model && j < rule->value.count; j++) {
            const char *axis = rule->value.names[j];
            if (!axis)
                return base_fail(
                    error, BASE_INPUT,
                    "logical_axis_rules: %s goes to a list that holds null, which no mesh axis is; use null "
                    "alone, or the list "
                    "without it",
                    rule->logical);
            if (topo_axis_named(mesh, axis) < 0)
                return base_fail(error, BASE_INPUT,
                                 "logical_axis_rules: %s goes to the mesh axis \"%.60s\", which is not found in the "
                                 "mesh; its axes are %s",
                                 rule->logical, axis, topo_axes_join(arena, mesh, topo_axes_all(mesh), " and "));
        }
        if (of_the_model) BASE_TRY(check_order(arena, mesh, rule, error));
    }
    return BASE_OK;
}

/* Rules that name another axis are refused. */
static int64_t devices_along(const struct sim_placement *placement, const char *name)
{
    int axis = topo_axis_named(&placement->axes, name);
    return axis < 0 ? 1 : placement->axes.sizes[axis];
}

/* A prediction repeats the layers of a stack, so that it can neither shard them nor average over them. */
static enum base_status check_layers_dim(const struct sim_plan *plan, const struct model_parameter *parameter, int dim,
                                         struct base_error *error)
{
    struct model_axes spec[MODEL_MAX_RANK];
    struct model_factoring factoring;
    if (!parameter->axes[dim] || strcmp(parameter->axes[dim], "layers") != 0)
        return base_fail(error, BASE_INPUT,
                         "params_axes_names_override: %s gets another name for its dimension of layers (%d), which a "
                         "prediction must know; use "
                         "layers",
                         parameter->path, dim);
    BASE_TRY(model_resolve(plan->rules, parameter->axes, parameter->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    for (int i = 0; i < spec[dim].count; i++)
        if (devices_along(plan->placement, spec[dim].names[i]) > 1)
            return base_fail(error, BASE_INPUT,
                             "logical_axis_rules: layers goes to the mesh axis %s, and a prediction has every layer on "
                             "every device; use null",
                             spec[dim].names[i]);
    if (plan->options.optimizer != MODEL_ADAFACTOR || !plan->options.adafactor) return BASE_OK;
    BASE_TRY(
        model_factor(plan->options.adafactor, parameter->rank, parameter->shape, parameter->axes, &factoring, error));
    if (!factoring.factored || (factoring.row_dims & factoring.column_dims & 1u << dim)) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "adafactor: logical_factor_rules: a prediction updates layer by layer, and layers is averaged; use batch");
}

static enum base_status check_layers(const struct sim_plan *plan, const struct model_parameter *own,
                                     const struct model_parameter *given, int count, struct base_error *error)
{
    for (int i = 0; i < count; i++)
        for (int dim = 0; dim < own[i].rank; dim++)
            if (!strcmp(own[i].axes[dim], "layers")) BASE_TRY(check_layers_dim(plan, &given[i], dim, error));
    return BASE_OK;
}

/* The model's own, with the axes that it names. */
struct listed {
    struct answer answer;
    const struct model_parameter *parameters;
    int count;
};

static enum base_status list_parameters(struct sim_cache *cache, const struct sim_plan *plan, const struct listed **out,
                                        struct base_error *error)
{
    sim_key_begin(cache, 'q');
    sim_key_text(cache, plan->model_text);
    struct listed *listed = sim_cache_find(cache);
    if (!listed) {
        listed = base_new(&cache->arena, struct listed, 1);
        remember(cache, &listed->answer,
                 model_parameters(&cache->arena, plan->config, &listed->parameters, &listed->count, error), error);
    }
    *out = listed;
    return say_again(&listed->answer, error);
}

static enum base_status judge_parameters(struct sim_cache *cache, const struct sim_plan *plan, struct base_error *error)
{
    const struct listed *own;
    struct model_device_state state;
    struct model_adafactor defaults = model_adafactor_defaults();
    BASE_TRY(list_parameters(cache, plan, &own, error));
    const struct model_parameter *given = plan->options.parameters ? plan->options.parameters : own->parameters;
    BASE_TRY(check_rule_axes(&cache->arena, &plan->placement->axes, plan->rules, error));
    BASE_TRY(model_device_state(given, own->count, plan->rules, &plan->placement->axes, plan->options.optimizer,
                                plan->options.adafactor ? plan->options.adafactor : &defaults, &state, error));
    return check_layers(plan, own->parameters, given, own->count, error);
}

static void begin_verdict(struct sim_cache *cache, const struct sim_plan *plan)
{
    sim_key_begin(cache, 'd');
    sim_key_text(cache, plan->model_text);
    sim_key_text(cache, plan->rules_text);
    sim_key_bytes(cache, &plan->placement->profile.traits, sizeof plan->placement->profile.traits);
    sim_key_text(cache, plan->overrides_text);
    sim_key_text(cache, plan->adafactor_text);
    sim_key_bytes(cache, &plan->options.optimizer, sizeof plan->options.optimizer);
    sim_key_text(cache, plan->placement->axes_text);
    sim_key_bytes(cache, plan->placement->axes.sizes, sizeof plan->placement->axes.sizes);
}

/* JAX demands that parameters and optimizer state divide exactly; worked out once for a model, rules and mesh shape. */
static enum base_status check_parameters(struct sim_cache *cache, const struct sim_plan *plan, struct base_error *error)
{
    begin_verdict(cache, plan);
    struct answer *verdict = sim_cache_find(cache);
    if (!verdict) {
        verdict = base_new(&cache->arena, struct answer, 1);
        enum base_status status = judge_parameters(cache, plan, error);
        begin_verdict(cache, plan);
        remember(cache, verdict, status, error);
    }
    return say_again(verdict, error);
}

/* Chips without such products would be priced at some rate that they do not have. */
static enum base_status check_dtype(const struct sim_plan *plan, struct base_error *error)
{
    const struct topo_topology *topology = &plan->placement->topology;
    bool has_chip = topology->kind == TOPO_TPU || topology->kind == TOPO_GPU;
    if (plan->options.dtype != MODEL_FP8 || !has_chip || topology->chip.fp8_flop_per_s > 0) return BASE_OK;
    return base_fail(error, BASE_INPUT, "dtype: %s has no products in fp8; use bfloat16", topology->chip.full_name);
}

/* What is stored otherwise than in float32 is priced alone; moments are Adam's. */
static enum base_status check_stored(const struct sim_plan *plan, struct base_error *error)
{
    const bool other = plan->options.weight_dtype != MODEL_FLOAT32, moments = plan->options.moment_dtype;
    if (moments && plan->options.optimizer != MODEL_ADAMW)
        return base_fail(error, BASE_INPUT,
                         "moment_dtype: is of Adam's first moment; use optimizer adamw, or leave it out");
    if (other && plan->placement->profile.traits >> MODEL_TRAIT_HALF_PARAMETERS & 1)
        return base_fail(error, BASE_INPUT,
                         "weight_dtype: %s keeps its parameters in dtype and float32 masters beside them; leave it out",
                         plan->software);
    if ((other || plan->options.moment_dtype == MODEL_MOMENT_BFLOAT16) && plan->placement->topology.kind == TOPO_LOCAL)
        return base_fail(
            error, BASE_INPUT,
            "%s: parameters and moments of float32 alone are run here; leave it out, or predict for another topology",
            other ? "weight_dtype" : "moment_dtype");
    return BASE_OK;
}

static enum base_status check_lengths(const struct sim_plan *plan, struct base_error *error)
{
    const int64_t positions = plan->config->num_positions;
    if (!positions || plan->targets_length <= positions) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "task_feature_lengths.targets: %lld is more than the %lld positions of the model's table; use as "
                     "many, or another num_positions",
                     (long long)plan->targets_length, (long long)positions);
}

static enum base_status check_batch(const struct sim_plan *plan, struct base_error *error)
{
    int64_t shards = 1;
    const char *batch[] = {"batch"};
    struct model_axes spec;
    BASE_TRY(model_resolve(plan->rules, batch, 1, MODEL_AXIS_IS_UNSHARDED, &spec, NULL, error));
    for (int i = 0; i < spec.count; i++) shards *= devices_along(plan->placement, spec.names[i]);
    if (plan->batch_size % shards == 0) return BASE_OK;
    int64_t lower = plan->batch_size / shards * shards, upper = lower + shards;
    return base_fail(
        error, BASE_INPUT, "batch_size: %lld must be divisible by the data mesh size %lld; use %lld%s%.0lld",
        (long long)plan->batch_size, (long long)shards, (long long)upper, lower ? " or " : "", (long long)lower);
}

bool sim_drops_out_unsaid(const struct sim_plan *plan)
{
    return plan->placement->profile.traits >> MODEL_TRAIT_DROPS_OUT & 1;
}

bool sim_is_executed(const struct sim_plan *plan)
{
    return plan->form == SIM_AS_EXECUTED || plan->form == SIM_AS_PARTITIONED_AND_EXECUTED;
}

static bool runs_passes(const struct sim_plan *plan)
{
    return plan->form == SIM_AS_COMPILED || plan->form == SIM_AS_EXECUTED;
}

unsigned sim_passes_of(const struct sim_plan *plan)
{
    return runs_passes(plan) ? plan->placement->profile.passes | plan->compiler_passes : 0;
}

enum base_status sim_plan_check_another(struct sim_cache *cache, const struct sim_plan_text *text, enum model_step step,
                                        enum sim_form form, struct sim_plan *out, struct base_error *error)
{
    struct sim_plan plan = {.form = form};
    BASE_TRY(find_config(cache, text->values[SIM_MODEL], &plan, error));
    BASE_TRY(read_cuts(text, &plan, error));
    BASE_TRY(find_placement(cache, text, &plan, error));
    BASE_TRY(find_rules(cache, text->values[SIM_RULES], &plan, error));
    BASE_TRY(read_values(cache, text, &plan, error));
    BASE_TRY(read_normalizing_factor(text->values[SIM_LOSS_NORMALIZING_FACTOR], &plan, error));
    BASE_TRY(check_pipeline(text, &plan, error));
    BASE_TRY(sim_plan_read_compiler(&plan, error));
    BASE_TRY(find_adafactor(cache, text->values[SIM_ADAFACTOR], &plan, error));
    BASE_TRY(find_overrides(cache, text->values[SIM_OVERRIDES], &plan, error));
    BASE_TRY(check_parameters(cache, &plan, error));
    BASE_TRY(check_dtype(&plan, error));
    BASE_TRY(check_stored(&plan, error));
    BASE_TRY(check_lengths(&plan, error));
    BASE_TRY(check_batch(&plan, error));
    BASE_TRY(sim_plan_take_step(text, step, &plan, error));
    BASE_TRY(sim_plan_read_decoding(&cache->arena, text, &plan, error));
    if (plan.placement->topology.kind == TOPO_LOCAL)
        plan.form = runs_passes(&plan) ? SIM_AS_EXECUTED : SIM_AS_PARTITIONED_AND_EXECUTED;
    plan.options.microbatches = plan.num_microbatches > 1;
    plan.options.gathers_keys = plan.context_parallel > 1;
    BASE_TRY(check_experts(&plan, error));

    bool trains = step == MODEL_STEP_TRAIN || step == MODEL_STEP_GRADIENT; /* what else there is, is deterministic */
    plan.options.dropout =
        trains && (sim_key_is_given(text, SIM_DROPOUT_RATE) ? plan.dropout_rate > 0 : sim_drops_out_unsaid(&plan));
    if (plan.options.dropout && sim_is_executed(&plan))
        return base_fail(error, BASE_INPUT, "dropout_rate: run draws no masks yet; use 0");
    *out = plan;
    return BASE_OK;
}

enum base_status sim_plan_check(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                                enum model_step step, enum sim_form form, struct sim_plan *out,
                                struct base_error *error)
{
    sim_cache_begin(cache, arena);
    return sim_plan_check_another(cache, text, step, form, out, error);
}
