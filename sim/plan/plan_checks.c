/* Checks across keys: the mesh divides parameters, state and rows; rules name axes of the mesh; the chip supports the
 * dtypes of products. */
#include "sim/plan/plan_parts.h"

#include <string.h>

static bool is_of_the_model(const struct model_rule *rule)
{
    bool found = false;
    for (int a = 1; a < MODEL_AXIS_COUNT && rule->logical; a++)
        found = found || !strcmp(rule->logical, model_axis_name((enum model_axis)a));
    return found;
}

/* Axes named by rules: of this mesh (as a set), and others. */
struct named_axes {
    unsigned of_mesh;
    struct topo_axes missing;
};

static void find_named(const struct topo_axes *mesh, const struct model_rules *rules, struct named_axes *out)
{
    struct base_error ignored;
    *out = (struct named_axes){0};
    for (int i = 0; i < rules->count; i++) {
        const struct model_rule *rule = &rules->rules[i];
        const int count = is_of_the_model(rule) ? rule->value.count : 0;
        for (int j = 0; j < count; j++) {
            const int at = rule->value.names[j] ? topo_axis_named(mesh, rule->value.names[j]) : -1;
            if (at >= 0) out->of_mesh |= 1u << at;
            else if (rule->value.names[j] && topo_axis_named(&out->missing, rule->value.names[j]) < 0)
                topo_axes_add(&out->missing, rule->value.names[j], 1, &ignored); /* too many: a hint may be short */
        }
    }
}

/* The first documented set that shards over every axis of the mesh; NULL: none does. */
static const char *find_set(struct base_arena *arena, const struct topo_axes *mesh, struct named_axes *out)
{
    struct model_rules rules;
    struct base_error ignored;
    for (int i = 0; i < MODEL_RULE_SETS; i++) {
        if (model_rules_parse(arena, model_rule_sets[i], &rules, &ignored) != BASE_OK) continue;
        find_named(mesh, &rules, out);
        if (out->of_mesh == topo_axes_all(mesh)) return model_rule_sets[i];
    }
    return NULL;
}

/* T5X's own meshes have both axes always, and no user adds a third. */
static bool is_of_t5x(const struct topo_axes *mesh)
{
    const int own = (topo_axis_named(mesh, "replica") >= 0) + (topo_axis_named(mesh, "expert") >= 0);
    return topo_axis_named(mesh, "data") >= 0 && topo_axis_named(mesh, "model") >= 0 && mesh->count == 2 + own;
}

/* "; add data=1 and tensor=1 to ici_mesh": how rules and mesh come together, or "". An axis that no rule names would
 * shard nothing: then the rules are of another kind of mesh. */
static const char *remedy_of(struct base_arena *arena, const struct topo_axes *mesh, const struct model_rules *rules)
{
    struct named_axes axes, of_set;
    find_named(mesh, rules, &axes);
    const char *set = axes.of_mesh == topo_axes_all(mesh) ? NULL : find_set(arena, mesh, &of_set);
    if (set) axes = of_set;
    if (axes.missing.count && is_of_t5x(mesh))
        return topo_axis_named(&axes.missing, "expert") < 0
                   ? ""
                   : "; num_expert_partitions, of a model with experts, adds it";
    const char *added = topo_axes_join(arena, &axes.missing, topo_axes_all(&axes.missing), "=1 and ");
    return base_print(arena, "%s%s%s%s%s", set ? "; use logical_axis_rules " : "", set ? set : "",
                      axes.missing.count ? "; add " : "", added, axes.missing.count ? "=1 to ici_mesh" : "");
}

static enum base_status check_axis(struct base_arena *arena, const struct topo_axes *mesh,
                                   const struct model_rules *rules, int which, int at, struct base_error *error)
{
    const struct model_rule *rule = &rules->rules[which];
    const char *axis = rule->value.names[at];
    if (!axis)
        return base_fail(error, BASE_INPUT,
                         "logical_axis_rules: %s has a list with null, which is no mesh axis; use null alone, or the "
                         "list without it",
                         rule->logical);
    for (int i = 0; i < at; i++)
        if (!strcmp(rule->value.names[i], axis))
            return base_fail(error, BASE_INPUT,
                             "logical_axis_rules: %s names the mesh axis %.60s twice, which JAX refuses; name it once",
                             rule->logical, axis);
    if (topo_axis_named(mesh, axis) >= 0) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "logical_axis_rules: %s uses the mesh axis \"%.60s\", which is not found in the mesh; its axes are %s%s",
        rule->logical, axis, topo_axes_join(arena, mesh, topo_axes_all(mesh), " and "), remedy_of(arena, mesh, rules));
}

enum base_status sim_plan_check_rule_axes(struct base_arena *arena, const struct topo_axes *mesh,
                                          const struct model_rules *rules, struct base_error *error)
{
    for (int i = 0; i < rules->count; i++) {
        const int count = is_of_the_model(&rules->rules[i]) ? rules->rules[i].value.count : 0;
        for (int j = 0; j < count; j++) BASE_TRY(check_axis(arena, mesh, rules, i, j, error));
    }
    return BASE_OK;
}

const char *sim_plan_idle_axes(struct base_arena *arena, const struct sim_plan *plan)
{
    const struct topo_axes *mesh = &plan->placement->axes;
    struct named_axes named;
    unsigned idle = 0;
    find_named(mesh, plan->rules, &named);
    for (int a = 0; a < mesh->count; a++)
        if (mesh->sizes[a] > 1 && !(named.of_mesh >> a & 1)) idle |= 1u << a;
    if (!idle) return NULL;
    if (!strcmp(plan->rules_text, "maxtext") && idle == topo_axis_bit(mesh, "expert"))
        return base_print(arena,
                          "maxtext's axis expert is not modelled for experts with a capacity: the %d devices along it "
                          "are predicted to hold and compute the same; use moe_dispatcher megablox, or fsdp instead "
                          "of expert",
                          topo_axes_product(mesh, idle));
    const char *set = find_set(arena, mesh, &named), *axis = topo_axes_join(arena, mesh, idle, " and ");
    return base_print(
        arena, "no rule of %.60s names the mesh axis %s: the %d devices along it hold and compute the same; use %s%s",
        *plan->rules_text == '[' ? "this list" : plan->rules_text, axis, topo_axes_product(mesh, idle),
        set ? "logical_axis_rules "
            : "a rule that names it, as in [[\"batch\",[\"replica\",\"fsdp\"]],[\"embed\",\"fsdp\"]]",
        set ? set : "");
}

/* 1 for an axis that the mesh lacks: rules that name one were refused before. */
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
        return base_fail(
            error, BASE_INPUT,
            "params_axes_names_override: %s renames its dimension of layers (%d), which a prediction needs; use layers",
            parameter->path, dim);
    BASE_TRY(model_resolve(plan->rules, parameter->axes, parameter->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    for (int i = 0; i < spec[dim].count; i++)
        if (devices_along(plan->placement, spec[dim].names[i]) > 1)
            return base_fail(error, BASE_INPUT,
                             "logical_axis_rules: layers uses the mesh axis %s, but every device has every layer in a "
                             "prediction; use null",
                             spec[dim].names[i]);
    if (plan->options.optimizer != MODEL_ADAFACTOR || !plan->options.adafactor) return BASE_OK;
    BASE_TRY(
        model_factor(plan->options.adafactor, parameter->rank, parameter->shape, parameter->axes, &factoring, error));
    if (!factoring.factored || (factoring.row_dims & factoring.column_dims & 1u << dim)) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "adafactor: logical_factor_rules: a prediction updates layer by layer, and layers is averaged; use batch");
}

enum base_status sim_plan_check_layers(const struct sim_plan *plan, const struct model_parameter *own,
                                       const struct model_parameter *given, int count, struct base_error *error)
{
    for (int i = 0; i < count; i++)
        for (int dim = 0; dim < own[i].rank; dim++)
            if (!strcmp(own[i].axes[dim], "layers")) BASE_TRY(check_layers_dim(plan, &given[i], dim, error));
    return BASE_OK;
}

/* Refuses a dtype for which the chip has no rate in the catalogue (a vendor's "int8" that is no faster than bfloat16 is
 * one), and float32 activations with a low-precision product dtype. */
enum base_status sim_plan_check_dtype(const struct sim_plan *plan, struct base_error *error)
{
    const struct topo_topology *topology = &plan->placement->topology;
    const struct topo_chip *chip = &topology->chip;
    const bool fp8 = plan->options.dtype != MODEL_INT8, blocks = fp8 && plan->options.dtype != MODEL_FP8;
    const bool has_chip = topology->kind == TOPO_TPU || topology->kind == TOPO_GPU;
    if (!model_dtype_is_quantized(plan->options.dtype) || !has_chip) return BASE_OK;
    const double rate = blocks ? plan->placement->profile.constants[sim_rate_constant(plan->options.dtype)]
                        : fp8  ? chip->fp8_flop_per_s
                               : chip->int8_op_per_s,
                 other = fp8 ? chip->int8_op_per_s : chip->fp8_flop_per_s;
    const char *name = model_dtype_name(plan->options.dtype);
    if (!(rate > 0))
        return base_fail(error, BASE_INPUT, "dtype: %s has no products in %s; use bfloat16%s", chip->full_name, name,
                         !(other > chip->bf16_flop_per_s) ? ""
                         : fp8                            ? " or int8"
                                                          : " or fp8");
    if (plan->placement->profile.traits >> MODEL_TRAIT_WIDE_ACTIVATIONS & 1)
        return base_fail(error, BASE_INPUT,
                         "dtype: activations of this software stay float32, so that no product is in "
                         "%s; use bfloat16, or another software",
                         name);
    return BASE_OK;
}

/* Over the data axis: FSDP. */
static bool shards_weights(const struct sim_plan *plan)
{
    static const char *const axes[] = {"embed", "mlp"};
    const struct topo_axes *mesh = &plan->placement->axes;
    struct model_axes spec[BASE_COUNT(axes)];
    struct base_error ignored;
    bool found = false;
    if (model_resolve(plan->rules, axes, BASE_COUNT(axes), MODEL_AXIS_IS_UNSHARDED, spec, NULL, &ignored) != BASE_OK)
        return false;
    for (int d = 0; d < BASE_COUNT(axes); d++)
        for (int i = 0; i < spec[d].count; i++) {
            const int axis = spec[d].names[i] ? topo_axis_named(mesh, spec[d].names[i]) : -1;
            found = found || (axis >= 0 && sim_data_axis(mesh) >> axis & 1 && mesh->sizes[axis] > 1);
        }
    return found;
}

/* Behind sim_plan_take_step: only training is replayed. */
enum base_status sim_plan_check_allocator(const struct sim_plan *plan, struct base_error *error)
{
    if (!plan->expandable_segments || sim_replays_torch(plan)) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "expandable_segments: acts on allocations of PyTorch that are replayed, and %s's are not; leave it "
        "out, or train by software transformers, or torchtitan of a software_version from 0.1.0 on",
        plan->software);
}

/* Parameters and moments in another dtype than float32 can be predicted and not run; only Adam has a first
 * moment. */
enum base_status sim_plan_check_stored(const struct sim_plan *plan, struct base_error *error)
{
    const bool other = plan->options.weight_dtype != MODEL_FLOAT32, moments = plan->options.moment_dtype;
    if (moments && plan->options.optimizer != MODEL_ADAMW)
        return base_fail(error, BASE_INPUT,
                         "moment_dtype: is of Adam's first moment; use optimizer adamw, or leave it out");
    if (!model_optimizer_is_run(plan->options.optimizer) && plan->placement->topology.kind != TOPO_GPU)
        return base_fail(error, BASE_INPUT,
                         "optimizer: %s is PyTorch's, and predicted only on GPUs; use adamw, or a GPU topology",
                         model_optimizer_name(plan->options.optimizer));
    if (plan->options.optimizer == MODEL_MUON && shards_weights(plan))
        return base_fail(error, BASE_INPUT,
                         "optimizer: muon needs each matrix whole for its update, but the rules shard parameters over "
                         "data; use logical_axis_rules standard:1,1 and optimizer_partitioning data, or adamw");
    if (plan->options.lora_rank && plan->config->latent.key_value_rank)
        return base_fail(error, BASE_INPUT, "lora_rank: adapters of latent attention are not modelled; use 0");
    if (plan->cpu_offload && !(sim_plan_traits(plan) >> MODEL_TRAIT_OFFLOADS_STATE & 1))
        return base_fail(error, BASE_INPUT,
                         "cpu_offload: is supported by DeepSpeed and FSDP, and %s lacks it; use software deepspeed, "
                         "fsdp or torchtitan, or none",
                         plan->software);
    if (plan->cpu_offload && plan->pipeline.stages > 1)
        return base_fail(error, BASE_INPUT, "cpu_offload: is not modelled with pipeline stages; use none");
    if (plan->options.weight_dtype == MODEL_INT8 && !plan->options.lora_rank)
        return base_fail(error, BASE_INPUT,
                         "weight_dtype: weights in nf4 are frozen; train adapters with lora_rank, or use bfloat16");
    if (other && plan->placement->profile.traits >> MODEL_TRAIT_HALF_PARAMETERS & 1)
        return base_fail(error, BASE_INPUT,
                         "weight_dtype: %s keeps parameters in dtype with float32 masters; leave it out",
                         plan->software);
    if ((other || plan->options.moment_dtype == MODEL_MOMENT_BFLOAT16) && plan->placement->topology.kind == TOPO_LOCAL)
        return base_fail(
            error, BASE_INPUT,
            "%s: only float32 parameters and moments can be run here; leave it out, or predict for another topology",
            other ? "weight_dtype" : "moment_dtype");
    return BASE_OK;
}

enum base_status sim_plan_check_lengths(const struct sim_plan *plan, struct base_error *error)
{
    const int64_t positions = plan->config->num_positions;
    if (!positions || plan->targets_length <= positions) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "task_feature_lengths.targets: %lld is more than the %lld positions of the model's table; use as "
                     "many, or another num_positions",
                     (long long)plan->targets_length, (long long)positions);
}

bool sim_plan_rings(const struct sim_plan *plan)
{
    const bool usual = plan->placement->profile.traits >> MODEL_TRAIT_RING_ATTENTION & 1;
    if (plan->context_parallel == 1 || model_infers(plan->options.step)) return false;
    return plan->cp_comm_type == SIM_CP_AS_SOFTWARE ? usual : plan->cp_comm_type == SIM_CP_P2P;
}

bool sim_plan_exchanges_heads(const struct sim_plan *plan)
{
    return plan->context_parallel > 1 && !model_infers(plan->options.step) && plan->cp_comm_type == SIM_CP_A2A;
}

enum base_status sim_plan_check_exchanged_heads(const struct sim_plan *plan, struct base_error *error)
{
    const struct topo_axes *mesh = &plan->placement->axes;
    const int64_t devices = plan->context_parallel * topo_axes_product(mesh, sim_model_axis(mesh));
    if (plan->config->num_heads % devices == 0 && plan->config->num_kv_heads % devices == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "cp_comm_type: a2a: %lld heads and %lld of keys and values do not divide by the %lld of "
                     "context_parallel and num_partitions; use a number that divides them, or p2p",
                     (long long)plan->config->num_heads, (long long)plan->config->num_kv_heads, (long long)devices);
}

/* A rule puts sequences over devices of the mesh. */
static bool shards_length(const struct sim_plan *plan)
{
    const struct topo_axes *mesh = &plan->placement->axes;
    for (int r = 0; r < plan->rules->count; r++) {
        const struct model_rule *rule = &plan->rules->rules[r];
        for (int i = 0; rule->logical && !strcmp(rule->logical, "length") && i < rule->value.count; i++) {
            const int axis = rule->value.names[i] ? topo_axis_named(mesh, rule->value.names[i]) : -1;
            if (axis >= 0 && mesh->sizes[axis] > 1) return true;
        }
    }
    return false;
}

bool sim_plan_gathers_keys(const struct sim_plan *plan)
{
    if (plan->context_parallel > 1) return !sim_plan_rings(plan) && !sim_plan_exchanges_heads(plan);
    return plan->options.flash_attention && shards_length(plan) && !model_infers(plan->options.step);
}

static bool has_relative_bias(const struct sim_plan *plan)
{
    return plan->config->position_encoding == MODEL_POSITION_RELATIVE_BIAS &&
           !(sim_plan_traits(plan) >> MODEL_TRAIT_OWN_POSITIONS & 1);
}

int sim_plan_sequence_pieces(const struct sim_plan *plan)
{
    const int64_t pieces = 2 * plan->context_parallel;
    const bool causal = !plan->config->encoder && !model_infers(plan->options.step);
    if (plan->context_parallel == 1 || !causal || has_relative_bias(plan)) return 0;
    return plan->targets_length % pieces == 0 ? (int)pieces : 0;
}

enum { MOST_RING_DEVICES = 64 };

enum base_status sim_plan_check_ring(const struct sim_plan *plan, struct base_error *error)
{
    const bool biased = has_relative_bias(plan);
    if (plan->config->encoder || biased)
        return base_fail(error, BASE_INPUT,
                         "cp_comm_type: p2p: ring attention does not support %s; use all_gather, or a decoder with "
                         "another position encoding",
                         biased ? "relative position biases" : "encoders");
    if (plan->context_parallel > MOST_RING_DEVICES)
        return base_fail(error, BASE_INPUT,
                         "cp_comm_type: p2p: each of %lld rounds would be operations of their own; use at most %d "
                         "devices, or all_gather",
                         (long long)plan->context_parallel, MOST_RING_DEVICES);
    if (plan->targets_length % plan->context_parallel == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "cp_comm_type: p2p: sequences of %lld are no %lld blocks alike; use all_gather, or a "
                     "context_parallel that divides them",
                     (long long)plan->targets_length, (long long)plan->context_parallel);
}

enum base_status sim_plan_check_batch(const struct sim_plan *plan, struct base_error *error)
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

int64_t sim_deepest_stack(const struct model_config *config)
{
    const int64_t encoder = config->num_encoder_layers, decoder = config->num_decoder_layers;
    return encoder > decoder ? encoder : decoder;
}

/* Which numbers of them are whole numbers of layers of the other stack: multiples. */
static int64_t saved_layer_step(const struct model_config *config)
{
    const int64_t deepest = sim_deepest_stack(config),
                  other = config->num_encoder_layers + config->num_decoder_layers - deepest;
    int64_t step = 1;
    while (step < deepest && step * other % deepest) step++;
    return step;
}

/* Megatron's --recompute-method block: of each stage's chunk, whose layers are as many everywhere. */
static enum base_status check_block(const struct sim_plan *plan, struct base_error *error)
{
    const int64_t chunks = plan->pipeline.stages * plan->pipeline.chunks,
                  layers = plan->config->num_decoder_layers + plan->config->num_encoder_layers;
    if (!(plan->placement->profile.traits >> MODEL_TRAIT_RECOMPUTES_BLOCKS & 1) || sim_is_executed(plan))
        return base_fail(error, BASE_INPUT,
                         "remat_policy: full;layers:%d: is of Megatron-LM and NeMo alone; use full, none or "
                         "full;every:K",
                         plan->remat_layers);
    if (layers % chunks || plan->pipeline.layers)
        return base_fail(error, BASE_INPUT,
                         "remat_policy: full;layers:%d: needs as many layers in each stage; use full, or stages that "
                         "divide %lld layers",
                         plan->remat_layers, (long long)layers);
    if (plan->remat_layers <= layers / chunks) return BASE_OK;
    return base_fail(error, BASE_INPUT, "remat_policy: full;layers:%d: a chunk of a stage has %lld; use 1 to %lld",
                     plan->remat_layers, (long long)(layers / chunks), (long long)(layers / chunks));
}

enum base_status sim_plan_check_saved_layers(const struct sim_plan *plan, struct base_error *error)
{
    const int64_t layers = plan->options.remat == MODEL_REMAT_TENSORS ? plan->options.saved.layers : 0,
                  deepest = sim_deepest_stack(plan->config), step = saved_layer_step(plan->config);
    if (plan->remat_every && (plan->pipeline.stages > 1 || sim_is_executed(plan)))
        return base_fail(error, BASE_INPUT,
                         "remat_policy: full;every:%d applies to whole stacks, and cannot be run; use full, or none",
                         plan->remat_every);
    if (plan->remat_layers) return check_block(plan, error);
    if (!layers) return BASE_OK;
    if (plan->pipeline.stages > 1)
        return base_fail(error, BASE_INPUT,
                         "remat_policy: layers:%lld applies to whole stacks; leave it out, or use pipeline_stages 1",
                         (long long)layers);
    if (sim_is_executed(plan))
        return base_fail(error, BASE_INPUT,
                         "remat_policy: layers:%lld: a run saves the same tensors of every layer; leave it out",
                         (long long)layers);
    if (layers > deepest)
        return base_fail(error, BASE_INPUT, "remat_policy: layers:%lld: no stack has more than %lld; use 1 to %lld",
                         (long long)layers, (long long)deepest, (long long)deepest);
    if (layers % step == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "remat_policy: layers:%lld: as large a share of the other stack is no whole number of its layers; "
                     "use a multiple of %lld",
                     (long long)layers, (long long)step);
}

/* Megatron-LM's arguments.py refuses the same. */
enum base_status sim_plan_take_overlaps(const struct sim_plan_text *text, struct sim_plan *plan,
                                        struct base_error *error)
{
    static const struct {
        enum sim_key key;
        enum sim_overlap overlap;
    } keys[] = {{SIM_TP_COMM_OVERLAP, SIM_OVERLAP_TENSOR},
                {SIM_OVERLAP_GRAD_REDUCE, SIM_OVERLAP_GRADIENTS},
                {SIM_OVERLAP_PARAM_GATHER, SIM_OVERLAP_PARAMETERS}};
    const struct sim_profile *profile = &plan->placement->profile;
    const bool shares_state = plan->optimizer_partitioning != SIM_REPLICATED;
    for (int i = 0; i < BASE_COUNT(keys); i++) {
        const bool is_given = sim_key_is_given(text, keys[i].key), is_tensor = keys[i].overlap == SIM_OVERLAP_TENSOR;
        if (is_given && profile->overlaps[keys[i].overlap] == SIM_HAS_NO_SWITCH)
            return base_fail(error, BASE_INPUT, "%s: %s has no such switch; leave it out",
                             sim_plan_keys[keys[i].key].name, plan->software);
        if (is_given && plan->overlaps[keys[i].overlap] && is_tensor && !plan->sequence_parallel)
            return base_fail(error, BASE_INPUT, "tp_comm_overlap: requires sequence_parallel 1; use it, too, or 0");
        if (is_given && plan->overlaps[keys[i].overlap] && keys[i].overlap == SIM_OVERLAP_PARAMETERS && !shares_state)
            return base_fail(error, BASE_INPUT,
                             "overlap_param_gather: requires optimizer_partitioning data; use it, too, or 0");
        if (!is_given)
            plan->overlaps[keys[i].overlap] =
                profile->overlaps[keys[i].overlap] == SIM_SWITCHED_ON && (is_tensor || shares_state);
    }
    plan->overlaps[SIM_OVERLAP_MESSAGES] = profile->overlaps[SIM_OVERLAP_MESSAGES] == SIM_SWITCHED_ON;
    if (plan->ddp_bucket_size && !(profile->bucket_parameters > 0))
        return base_fail(error, BASE_INPUT, "ddp_bucket_size: %s has no such buckets; leave it out", plan->software);
    const bool widens = profile->traits >> MODEL_TRAIT_NARROWS_GRADIENTS & 1;
    if (plan->gradient_dtype == SIM_GRADIENTS_AS_SOFTWARE || widens ||
        (profile->traits >> MODEL_TRAIT_FLOAT32_GRADIENTS_OF_BFLOAT16 & 1))
        return BASE_OK;
    return base_fail(error, BASE_INPUT, "gradient_dtype: %s leaves no choice of it; leave it out", plan->software);
}

/* DeepSpeed's runtime/zero/config.py; "auto" is filled in by transformers' integrations/deepspeed.py. */
enum base_status sim_plan_take_zero(const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error)
{
    static const enum sim_key keys[] = {SIM_OVERLAP_COMM,
                                        SIM_REDUCE_BUCKET_SIZE,
                                        SIM_ALLGATHER_BUCKET_SIZE,
                                        SIM_STAGE3_PREFETCH_BUCKET_SIZE,
                                        SIM_STAGE3_PARAM_PERSISTENCE_THRESHOLD,
                                        SIM_STAGE3_MAX_LIVE_PARAMETERS,
                                        SIM_STAGE3_MAX_REUSE_DISTANCE};
    struct sim_zero_buckets *zero = &plan->zero;
    const int64_t width = plan->config->emb_dim;
    const bool is_third = sim_shards_parameters(plan->rules);
    for (int i = 0; i < BASE_COUNT(keys); i++)
        if (sim_key_is_given(text, keys[i]) && !sim_has_zero_buckets(plan))
            return base_fail(error, BASE_INPUT, "%s: is DeepSpeed's; use software deepspeed, or leave it out",
                             sim_plan_keys[keys[i]].name);
    if (!sim_has_zero_buckets(plan)) return BASE_OK;
    if (!sim_key_is_given(text, SIM_OVERLAP_COMM)) zero->overlaps = is_third;
    if (zero->reduce_count < 0) zero->reduce_count = width * width;
    if (zero->prefetch_count < 0) zero->prefetch_count = width * width / 10 * 9;
    if (zero->least_count < 0) zero->least_count = 10 * width;
    if (!zero->overlaps)
        plan->gone_passes |= SIM_PASS_BIT(SIM_PASS_PREFETCH_SHARDS) | SIM_PASS_BIT(SIM_PASS_OVERLAP_ALL_GATHERS) |
                             SIM_PASS_BIT(SIM_PASS_OVERLAP_GRADIENT_ALL_REDUCES);
    if (is_third && !zero->prefetch_count)
        plan->gone_passes |= SIM_PASS_BIT(SIM_PASS_PREFETCH_SHARDS) | SIM_PASS_BIT(SIM_PASS_OVERLAP_ALL_GATHERS);
    return BASE_OK;
}
