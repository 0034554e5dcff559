/* From a plan's text to a checked plan. The names in the text are looked up between the steps of sim/plan/: model,
 * rules, placement, defaults, Adafactor's options, overridden axes. Results and refusals are cached. */
#include "sim/program/session_cache.h"

#include <string.h>

/* A cached result or refusal, since a table may repeat one mistake a million times. */
struct answer {
    enum base_status status;
    const char *why;
};

static void remember(struct sim_cache *cache, struct answer *answer, enum base_status status,
                     const struct base_error *error)
{
    answer->status = status;
    answer->why = status == BASE_OK ? NULL : base_copy(&cache->arena, error->text);
    base_memo_store(&cache->memo, answer);
}

static enum base_status say_again(const struct answer *answer, struct base_error *error)
{
    return answer->status == BASE_OK ? BASE_OK : base_fail(error, answer->status, "%s", answer->why);
}

static void key_model(struct base_memo *memo, const struct sim_plan *plan)
{
    base_memo_text(memo, plan->model_text);
    base_memo_bytes(memo, &plan->config->scan_layers, sizeof plan->config->scan_layers);
}

/* A file may change between questions, so that its content is not cached. */
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
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_CONFIG);
    base_memo_text(memo, text);
    known = base_memo_find(memo);
    if (!known) {
        known = base_new(&cache->arena, struct known_config, 1);
        remember(cache, &known->answer,
                 model_gin_config_parse(&cache->arena, text, cache->gin_search_path, &known->config, error), error);
        note_file(cache, text);
    }
    plan->config = &known->config;
    plan->model_text = text;
    BASE_TRY(say_again(&known->answer, error));
    return BASE_OK;
}

/* The same model with its layers as a loop, or all unrolled. */
static void take_scanned(struct sim_cache *cache, enum sim_stored kind, struct sim_plan *plan)
{
    struct base_memo *memo = sim_cache_memo(cache, kind);
    base_memo_text(memo, plan->model_text);
    struct model_config *config = base_memo_find(memo);
    if (!config) {
        config = base_new(&cache->arena, struct model_config, 1);
        *config = *plan->config;
        config->scan_layers = kind == SIM_STORED_SCANNED_CONFIG;
        if (!config->scan_layers) config->family = MODEL_DECODER_ONLY;
        base_memo_store(memo, config);
    }
    plan->config = config;
}

/* For decoders alone: T5X's models with an encoder have different names for scanned and unscanned layers. */
static enum base_status unroll(struct sim_cache *cache, const char *scanned, struct sim_plan *plan,
                               struct base_error *error)
{
    const struct model_config *own = plan->config;
    int64_t scans = own->scan_layers;
    if (scanned && *scanned) BASE_TRY(base_parse_int(scanned, "scanned", 0, 1, &scans, error));
    plan->is_unrolled = scanned && *scanned && !scans;
    if (scans == own->scan_layers) return BASE_OK;
    if (scans) return base_fail(error, BASE_INPUT, "scanned: layers of this model are no loop; use a scalable_ model");
    if (own->encoder || own->experts.count)
        return base_fail(error, BASE_INPUT, "scanned: 0 applies to dense decoders alone; %s",
                         own->encoder ? "use the model of that name without scalable_"
                                      : "leave it out: layers with experts are predicted as a loop");
    take_scanned(cache, SIM_STORED_UNROLLED, plan);
    return BASE_OK;
}

static void scan_layers(struct sim_cache *cache, struct sim_plan *plan)
{
    const bool scans = plan->placement->profile.traits >> MODEL_TRAIT_SCANS_LAYERS & 1;
    if (scans && !plan->config->scan_layers && !plan->config->encoder)
        take_scanned(cache, SIM_STORED_SCANNED_CONFIG, plan);
}

/* MaxText's axis of experts shards what fsdp does, too (base.yml: activation_batch and embed end with expert). Experts
 * are sharded over it whole: their width is over embed's other axes (exp, embed_moe), as are the rows of each expert.
 */
static struct model_rules over_expert_axis(struct base_arena *arena, const struct model_rules *rules, bool has_experts)
{
    struct model_rule *all = base_new(arena, struct model_rule, 2 * rules->count + 1);
    int count = 0;
    for (int i = 0; i < rules->count; i++) {
        struct model_rule rule = rules->rules[i];
        const char *logical = rule.logical ? rule.logical : "";
        const bool width = !strcmp(logical, "embed"), rows = !strcmp(logical, "batch");
        if (has_experts && (width || rows))
            all[count++] = (struct model_rule){width ? "mlp_embed" : "expert_replicas", rule.value};
        if (rule.value.count && !strcmp(rule.value.names[rule.value.count - 1], "fsdp"))
            rule.value.names[rule.value.count++] = "expert";
        all[count++] = rule;
    }
    if (has_experts)
        all[count++] = (struct model_rule){.logical = "expert", .value = {.count = 1, .names = {"expert"}}};
    return (struct model_rules){all, count};
}

/* MaxText's meshes have each of its axes, most of size one: an axis missing from the mesh shards nothing. */
static struct model_rules on_mesh(struct base_arena *arena, const struct model_rules *rules,
                                  const struct topo_axes *mesh)
{
    struct model_rule *kept = base_new(arena, struct model_rule, rules->count);
    int count = 0;
    for (int i = 0; i < rules->count; i++) {
        struct model_rule rule = rules->rules[i];
        const int named = rule.value.count;
        rule.value.count = 0;
        for (int j = 0; j < named; j++)
            if (topo_axis_named(mesh, rule.value.names[j]) >= 0)
                rule.value.names[rule.value.count++] = rule.value.names[j];
        if (!named || rule.value.count) kept[count++] = rule;
    }
    return (struct model_rules){kept, count};
}

/* With a capacity MaxText gathers all experts, which is not modelled: the axis stays idle, with a warning. */
static bool sorts_tokens(const struct sim_plan_text *text)
{
    const char *dispatcher = text->values[SIM_MOE_DISPATCHER];
    return !dispatcher || (strcmp(dispatcher, "dense") != 0 && strcmp(dispatcher, "onehot") != 0);
}

static enum base_status find_rules(struct sim_cache *cache, const struct sim_plan_text *text, struct sim_plan *plan,
                                   struct base_error *error)
{
    struct known_rules {
        struct answer answer;
        struct model_rules rules;
    } * known;
    const struct sim_key_setting setting = {.software = plan->software};
    const char *given = text->values[SIM_RULES];
    plan->rules_text = given && *given ? given : sim_key_fallback(SIM_RULES, setting);
    const struct topo_axes *mesh = &plan->placement->axes;
    const bool says_maxtext = !strcmp(plan->rules_text, "maxtext"),
               is_maxtext = says_maxtext && topo_axis_named(mesh, "fsdp") >= 0;
    const bool has_experts = plan->config->experts.count > 0, over_expert = says_maxtext &&
                                                                            topo_axis_named(mesh, "expert") >= 0 &&
                                                                            (!has_experts || sorts_tokens(text));
    const bool over_context = plan->context_parallel > 1 || (is_maxtext && topo_axis_named(mesh, "context") >= 0),
               sends_parts = sim_sends_parts(plan), has_experts_apart = plan->expert_parallel > 1,
               beyond_axis = sim_experts_beyond_axis(plan),
               beside = !plan->config->encoder && (plan->config->experts.count || plan->config->latent.key_value_rank),
               over_model = (plan->placement->profile.traits >> MODEL_TRAIT_SHARDS_MODEL & 1) &&
                            topo_axis_named(mesh, "model") >= 0 && topo_axes_product(mesh, sim_model_axis(mesh)) > 1;
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_RULES);
    base_memo_text(memo, plan->rules_text);
    base_memo_bytes(memo, &over_context, sizeof over_context);
    base_memo_bytes(memo, &over_model, sizeof over_model);
    base_memo_bytes(memo, &over_expert, sizeof over_expert);
    base_memo_bytes(memo, &has_experts, sizeof has_experts);
    base_memo_bytes(memo, &beside, sizeof beside);
    if (is_maxtext) base_memo_text(memo, plan->placement->axes_text);
    base_memo_bytes(memo, &has_experts_apart, sizeof has_experts_apart);
    base_memo_bytes(memo, &beyond_axis, sizeof beyond_axis);
    base_memo_bytes(memo, &sends_parts, sizeof sends_parts);
    known = base_memo_find(memo);
    if (!known) {
        known = base_new(&cache->arena, struct known_rules, 1);
        remember(cache, &known->answer,
                 model_rules_parse(&cache->arena, base_copy(&cache->arena, plan->rules_text), &known->rules, error),
                 error);
        if (is_maxtext) known->rules = on_mesh(&cache->arena, &known->rules, mesh);
        if (over_expert) known->rules = over_expert_axis(&cache->arena, &known->rules, has_experts);
        if (over_model) known->rules = model_rules_over_model(&cache->arena, &known->rules);
        if (sends_parts) known->rules = model_rules_over_context(&cache->arena, &known->rules);
        if (beside)
            known->rules =
                model_rules_over_experts(&cache->arena, &known->rules, has_experts_apart, beyond_axis, sends_parts);
        if (over_context && !sends_parts) known->rules = model_rules_over_context(&cache->arena, &known->rules);
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
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_ADAFACTOR);
    base_memo_text(memo, text);
    known = base_memo_find(memo);
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
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_OVERRIDES);
    key_model(memo, plan);
    base_memo_text(memo, text);
    struct overridden *found = base_memo_find(memo);
    if (!found) {
        found = base_new(&cache->arena, struct overridden, 1);
        remember(cache, &found->answer,
                 override_parameters(&cache->arena, plan, base_copy(&cache->arena, text), found, error), error);
    }
    plan->options.parameters = found->parameters;
    plan->options.parameter_count = found->count;
    return say_again(&found->answer, error);
}

/* A topology's chips under a software, for any mesh; each stage has its share of the network cards. */
struct known_machine {
    struct answer answer;
    struct sim_profile profile;
    struct sim_residual residuals[SIM_RESIDUAL_COUNT];
};

static enum base_status find_machine(struct sim_cache *cache, const struct sim_plan *plan,
                                     const struct topo_topology *stage, const struct known_machine **out,
                                     struct base_error *error)
{
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_MACHINE);
    base_memo_text(memo, plan->topology_text);
    base_memo_text(memo, plan->software);
    base_memo_text(memo, sim_plan_software_date(plan));
    base_memo_bytes(memo, &stage->chip.nic_bytes_per_s, sizeof stage->chip.nic_bytes_per_s);
    base_memo_bytes(memo, &cache->overrides_hash, sizeof cache->overrides_hash);
    struct known_machine *known = base_memo_find(memo);
    if (!known) {
        known = base_new(&cache->arena, struct known_machine, 1);
        enum base_status status = sim_profile_build(stage, plan->software, sim_plan_software_date(plan),
                                                    cache->overrides, &known->profile, error);
        if (status == BASE_OK) status = sim_residuals_find(stage, plan->software, known->residuals, error);
        remember(cache, &known->answer, status, error);
    }
    *out = known;
    return say_again(&known->answer, error);
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
    const struct known_machine *machine;
    BASE_TRY(sim_plan_mesh_request(&cache->arena, text, &out->request, error));
    BASE_TRY(topo_parse(&cache->arena, plan->topology_text, &topology, error));
    BASE_TRY(sim_plan_usual_mesh(&cache->arena, text, plan, &topology, &out->request, error));
    BASE_TRY(sim_stage_topology(&topology, plan->pipeline.stages, &stage, error));
    BASE_TRY(sim_stage_check_partitions(&stage, &out->request, plan->pipeline.stages, error));
    BASE_TRY(
        sim_context_mesh(&stage, &out->request, plan->context_parallel, plan->expert_parallel > 1, &request, error));
    BASE_TRY(find_machine(cache, plan, &stage, &machine, error));
    BASE_TRY(sim_placement_build(&cache->arena, &stage, &request, &machine->profile, &out->placement, error));
    BASE_TRY(
        sim_profile_take_version(plan->software, &topology, plan->software_version, &out->placement.profile, error));
    BASE_TRY(sim_profile_take_compile(plan->software, text->values[SIM_COMPILE], &out->placement.profile, error));
    sim_placement_join_communicators(&out->placement);
    out->request.split_physical_axes = out->request.split_physical_axes || out->placement.splits_dimensions;
    out->placement.topology = topology;
    out->placement.stage_devices = stage.device_count;
    memcpy(out->placement.residuals, machine->residuals, sizeof machine->residuals);
    return BASE_OK;
}

static void begin_placement(struct sim_cache *cache, const struct sim_plan_text *text, const struct sim_plan *plan)
{
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_PLACEMENT);
    base_memo_text(memo, plan->topology_text);
    base_memo_text(memo, plan->software);
    base_memo_text(memo, sim_plan_software_date(plan));
    base_memo_text(memo, plan->software_version);
    base_memo_text(memo, text->values[SIM_COMPILE]);
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (sim_plan_keys[key].type == SIM_OF_MESH || key == SIM_RULES || key == SIM_EXPERT_TENSOR_PARALLEL)
            base_memo_text(memo, text->values[key]);
    base_memo_bytes(memo, &cache->overrides_hash, sizeof cache->overrides_hash);
}

static enum base_status find_placement(struct sim_cache *cache, const struct sim_plan_text *text, struct sim_plan *plan,
                                       struct base_error *error)
{
    const char *topology_text = text->values[SIM_TOPOLOGY], *software = text->values[SIM_SOFTWARE];
    if (!topology_text || !*topology_text)
        return base_fail(error, BASE_INPUT, "topology: is missing; an accelerator type such as v4-512, or h100:4x8");
    plan->topology_text = topo_spelled(&cache->arena, topology_text);
    plan->compiler = sim_key_is_given(text, SIM_COMPILER) ? text->values[SIM_COMPILER] : "";
    plan->software = software && *software ? software : sim_plan_keys[SIM_SOFTWARE].fallback;
    plan->software_version = sim_key_is_given(text, SIM_SOFTWARE_VERSION) ? text->values[SIM_SOFTWARE_VERSION] : "";
    begin_placement(cache, text, plan);
    struct known_placement *known = base_memo_find(&cache->memo);
    if (!known) {
        known = base_new(&cache->arena, struct known_placement, 1);
        const enum base_status status = place(cache, text, plan, known, error);
        begin_placement(cache, text, plan);
        remember(cache, &known->answer, status, error);
        note_file(cache, plan->topology_text);
    }
    plan->placement = &known->placement;
    plan->request = known->request;
    return say_again(&known->answer, error);
}

/* The model's own rules, for the axes that it names. */
struct listed {
    struct answer answer;
    const struct model_parameter *parameters;
    int count;
};

/* A model of one layer per stack, if all layers are alike: an error in any layer is an error in the first. */
static struct model_config first_layers(const struct sim_plan *plan)
{
    struct model_config config = *plan->config;
    const bool alike = !config.scan_layers && !config.experts.count && !plan->options.parameters;
    if (alike && config.num_encoder_layers > 1) config.num_encoder_layers = 1;
    if (alike && config.num_decoder_layers > 1) config.num_decoder_layers = 1;
    return config;
}

static enum base_status list_parameters(struct sim_cache *cache, const struct sim_plan *plan, const struct listed **out,
                                        struct base_error *error)
{
    const bool overridden = plan->options.parameters != NULL;
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_PARAMETERS);
    key_model(memo, plan);
    base_memo_bytes(memo, &plan->mtp_layers, sizeof plan->mtp_layers);
    base_memo_bytes(memo, &overridden, sizeof overridden);
    struct listed *listed = base_memo_find(memo);
    if (!listed) {
        const struct model_config config = first_layers(plan);
        listed = base_new(&cache->arena, struct listed, 1);
        remember(cache, &listed->answer,
                 model_parameters(&cache->arena, &config, &listed->parameters, &listed->count, error), error);
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
    BASE_TRY(sim_plan_check_rule_axes(&cache->arena, &plan->placement->named_axes, plan->rules, error));
    const struct model_parameter *stored =
        model_padded_parameters(&cache->arena, sim_vocabulary_multiple(plan), given, own->count);
    BASE_TRY(model_device_state(stored, own->count, plan->rules, &plan->placement->named_axes, sim_plan_division(plan),
                                plan->options.optimizer, plan->options.adafactor ? plan->options.adafactor : &defaults,
                                &state, error));
    return sim_plan_check_layers(plan, own->parameters, given, own->count, error);
}

static void begin_verdict(struct sim_cache *cache, const struct sim_plan *plan)
{
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_VERDICT);
    key_model(memo, plan);
    base_memo_bytes(memo, &plan->mtp_layers, sizeof plan->mtp_layers);
    base_memo_bytes(memo, &plan->rules, sizeof plan->rules);
    base_memo_bytes(memo, &plan->placement->profile.traits, sizeof plan->placement->profile.traits);
    base_memo_text(memo, plan->overrides_text);
    base_memo_text(memo, plan->adafactor_text);
    base_memo_bytes(memo, &plan->options.optimizer, sizeof plan->options.optimizer);
    base_memo_text(memo, plan->placement->axes_text);
    base_memo_bytes(memo, plan->placement->axes.sizes, sizeof plan->placement->axes.sizes);
}

static enum base_status check_parameters(struct sim_cache *cache, const struct sim_plan *plan, struct base_error *error)
{
    begin_verdict(cache, plan);
    struct answer *verdict = base_memo_find(&cache->memo);
    if (!verdict) {
        verdict = base_new(&cache->arena, struct answer, 1);
        enum base_status status = judge_parameters(cache, plan, error);
        begin_verdict(cache, plan);
        remember(cache, verdict, status, error);
    }
    return say_again(verdict, error);
}

/* The defaults of all keys, read once for each setting. */
static enum base_status find_usual(struct sim_cache *cache, const struct sim_plan *plan, const struct sim_plan **out,
                                   struct base_error *error)
{
    const struct sim_key_setting setting = {plan->config->scan_layers, plan->placement->topology.kind == TOPO_LOCAL,
                                            plan->software};
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_USUAL_PLAN);
    base_memo_bytes(memo, &setting.is_scanned, sizeof setting.is_scanned);
    base_memo_bytes(memo, &setting.is_local, sizeof setting.is_local);
    base_memo_text(memo, setting.software);
    struct sim_plan *usual = base_memo_find(memo);
    if (!usual) {
        usual = base_new(&cache->arena, struct sim_plan, 1);
        BASE_TRY(sim_plan_read_usual(setting, usual, error));
        base_memo_store(memo, usual);
    }
    *out = usual;
    return BASE_OK;
}

enum base_status sim_plan_check_another(struct sim_cache *cache, const struct sim_plan_text *text, enum model_step step,
                                        enum sim_form form, struct sim_plan *out, struct base_error *error)
{
    struct sim_plan plan;
    const struct sim_plan *usual;
    memset(&plan, 0, sizeof plan); /* keys of programs hold its options with their padding */
    plan.form = form;
    BASE_TRY(sim_plan_check_lines(text, error));
    BASE_TRY(find_config(cache, text->values[SIM_MODEL], &plan, error));
    BASE_TRY(unroll(cache, text->values[SIM_SCANNED], &plan, error));
    BASE_TRY(sim_plan_read_cuts(text, &plan, error));
    BASE_TRY(find_placement(cache, text, &plan, error));
    if (!sim_key_is_given(text, SIM_SCANNED)) scan_layers(cache, &plan);
    BASE_TRY(find_rules(cache, text, &plan, error));
    BASE_TRY(find_usual(cache, &plan, &usual, error));
    BASE_TRY(sim_plan_read_keys(&cache->arena, usual, text, &plan, error));
    BASE_TRY(find_adafactor(cache, text->values[SIM_ADAFACTOR], &plan, error));
    BASE_TRY(find_overrides(cache, text->values[SIM_OVERRIDES], &plan, error));
    BASE_TRY(check_parameters(cache, &plan, error));
    BASE_TRY(sim_plan_check_whole(&cache->arena, text, step, &plan, error));
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
