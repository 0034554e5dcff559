/* Properties of a checked plan: sizes, traits, whether it is executed, passes of its compiler. */
#include "sim/plan/plan_parts.h"

#include <string.h>

/* ---- experts ---- */

/* Devices that hold one copy of the dense model, as the mesh was asked for. */
static int64_t model_partitions_of(const struct sim_plan *plan)
{
    int64_t product = 1;
    for (int i = 0; i < plan->request.submesh_count; i++) product *= plan->request.submesh[i];
    if (plan->request.submesh_count) return product;
    return plan->request.num_partitions ? plan->request.num_partitions : 1;
}

enum model_division sim_plan_division(const struct sim_plan *plan)
{
    return plan->placement->profile.traits >> MODEL_TRAIT_FLAT_STATE & 1 ? MODEL_FLAT : MODEL_EXACT;
}

/* Equal parts that are whole tiles of products: Megatron-LM's make_vocab_size_divisible_by, by default, times the
 * tensor-parallel size. */
int64_t sim_vocabulary_multiple(const struct sim_plan *plan)
{
    enum { DIVISIBLE_BY = 128 };
    const bool pads = plan->placement->profile.traits >> MODEL_TRAIT_PADS_VOCABULARY & 1;
    const bool executed = sim_is_executed(plan) || plan->placement->topology.kind == TOPO_LOCAL;
    return pads && !executed ? DIVISIBLE_BY * model_partitions_of(plan) : 1;
}

/* Experts are over the model axis, too, so that each expert is whole. */
bool sim_experts_beyond_axis(const struct sim_plan *plan)
{
    const struct topo_axes *mesh = &plan->placement->axes;
    const int at = topo_axis_named(mesh, "expert");
    const int64_t parts = plan->expert_parallel > 1 ? plan->context_parallel : 1;
    return plan->expert_parallel > (at < 0 ? 1 : mesh->sizes[at]) * parts;
}

bool sim_sends_parts(const struct sim_plan *plan)
{
    return plan->context_parallel > 1 && plan->config->experts.count && !plan->config->encoder &&
           (plan->placement->profile.traits >> MODEL_TRAIT_SORTS_TOKENS & 1);
}

enum base_status sim_size_plan(const struct sim_plan *plan, int64_t *sizes, struct base_error *error)
{
    const bool decodes = plan->options.step == MODEL_STEP_DECODE || plan->options.step == MODEL_STEP_GENERATE;
    const struct model_expert_plan experts = {
        .device_count = plan->placement->stage_devices,
        .model_partitions = model_partitions_of(plan),
        .expert_partitions = plan->request.has_experts ? plan->request.num_expert_partitions : 1,
        .sorts_tokens = plan->options.sorts_tokens,
        .senders = (sim_experts_beyond_axis(plan) ? model_partitions_of(plan) : 1) *
                   (sim_sends_parts(plan) ? plan->context_parallel : 1),
        .imbalance = plan->moe_imbalance > 1 ? plan->moe_imbalance : 1,
        .runs = sim_is_executed(plan),
        .pads = !strcmp(plan->software, "t5x"),
        .evaluates = plan->options.step >= MODEL_STEP_FORWARD,
        .reads_whole = plan->options.step != MODEL_STEP_DECODE,
        .decoded_rows = decodes ? plan->batch_size * plan->decoding.num_decodes : 0};
    model_sizes(plan->config, plan->batch_size, plan->num_microbatches, plan->inputs_length, plan->targets_length,
                sizes);
    model_pad_vocabulary(sim_vocabulary_multiple(plan), sizes);
    sizes[MODEL_LORA_RANK] = plan->options.lora_rank;
    if (plan->options.ring_devices) {
        sizes[MODEL_SEQUENCE_BLOCKS] = plan->options.ring_devices;
        sizes[MODEL_BLOCK_TOKENS] = plan->targets_length / plan->options.ring_devices;
    }
    return plan->config->experts.count ? model_expert_sizes(plan->config, &experts, sizes, error) : BASE_OK;
}

bool sim_has_learnt_bias_of_scores(const struct sim_plan *plan)
{
    return plan->placement->profile.traits >> MODEL_TRAIT_HF_MODULES & 1 &&
           plan->config->position_encoding == MODEL_POSITION_RELATIVE_BIAS;
}

bool sim_replays_torch(const struct sim_plan *plan)
{
    const bool aten = sim_plan_traits(plan) >> MODEL_TRAIT_ATEN_KERNELS & 1;
    return aten && plan->options.step == MODEL_STEP_TRAIN &&
           (!strcmp(plan->software, "transformers") || !strcmp(plan->software, "torchtitan"));
}

bool sim_sorts_tokens(const struct sim_plan *plan)
{
    const enum sim_dispatcher how = plan->moe_dispatcher;
    const bool fixed = plan->placement->topology.kind == TOPO_LOCAL && plan->config->experts.capacity_factor > 0,
               usual = !fixed && plan->placement->profile.traits >> MODEL_TRAIT_SORTS_TOKENS & 1;
    if (!plan->config->experts.count || plan->config->encoder) return false;
    return how == SIM_DISPATCH_AS_SOFTWARE ? usual : how != SIM_DISPATCH_DENSE && how != SIM_DISPATCH_ONEHOT;
}

/* Blocks of 128 x 128 are not what Megatron-Bridge gathers parameters in: weights stay bfloat16, beside their copies.
 */
bool sim_weights_are_small(const struct sim_plan *plan)
{
    return (plan->placement->profile.traits >> MODEL_TRAIT_QUANTISED_WEIGHTS & 1) &&
           plan->options.step == MODEL_STEP_TRAIN && model_dtype_is_small_float(plan->options.dtype) &&
           plan->fp8_recipe != SIM_FP8_BLOCKWISE;
}

/* Both layouts, unless products read one copy either way; those of nvfp4 are as large as one in fp8 (Transformer
 * Engine's documentation, low precision training). */
int sim_weight_copies(const struct sim_plan *plan)
{
    const struct sim_profile *profile = &plan->placement->profile;
    const enum model_dtype dtype = plan->options.dtype;
    const bool told = profile->traits &
                      (MODEL_TRAIT_BIT(MODEL_TRAIT_QUANTISED_COPIES) | MODEL_TRAIT_BIT(MODEL_TRAIT_QUANTISED_WEIGHTS)),
               either_way = profile->constants[SIM_MXFP8_FLOP_FRAC] > 0;
    if (!told || plan->options.step != MODEL_STEP_TRAIN || !model_dtype_is_small_float(dtype)) return 0;
    const bool one =
        dtype == MODEL_NVFP4 || (dtype == MODEL_FP8 && either_way && plan->fp8_recipe != SIM_FP8_BLOCKWISE);
    return (one ? 1 : 2) - sim_weights_are_small(plan);
}

/* ---- forms ---- */

model_trait_set sim_plan_traits(const struct sim_plan *plan)
{
    const struct topo_axes *mesh = &plan->placement->axes;
    const bool shards_loss = topo_axes_product(mesh, sim_model_axis(mesh)) > 1;
    /* Whole steps of experts are captured with Transformer Engine's fused ones alone, which read no sizes back. */
    const bool fused = plan->cuda_graphs & SIM_GRAPHED_STEP || !(plan->config->biases & MODEL_BIAS_MLP);
    const bool remainders = plan->options.dtype == MODEL_BFLOAT16 && plan->optimizer_partitioning != SIM_REPLICATED;
    const model_trait_set traits = plan->placement->profile.traits &
                                   ~(remainders ? 0 : MODEL_TRAIT_BIT(MODEL_TRAIT_MASTER_REMAINDERS)) &
                                   ~(shards_loss ? 0 : MODEL_TRAIT_BIT(MODEL_TRAIT_PARALLEL_LOSS)) &
                                   ~(fused ? MODEL_TRAIT_BIT(MODEL_TRAIT_EAGER_EXPERT_BIASES) : 0);
    const bool half = plan->gradient_dtype == SIM_GRADIENTS_AS_SOFTWARE
                          ? plan->placement->profile.bfloat16_gradients
                          : plan->gradient_dtype == SIM_BFLOAT16_GRADIENTS;
    const bool wide =
        !half && plan->options.dtype != MODEL_FLOAT16 && (traits >> MODEL_TRAIT_FLOAT32_GRADIENTS_OF_BFLOAT16 & 1);
    return wide ? traits | MODEL_TRAIT_BIT(MODEL_TRAIT_FLOAT32_GRADIENTS) : traits;
}

bool sim_drops_out_unsaid(const struct sim_plan *plan)
{
    const model_trait_set traits = plan->placement->profile.traits;
    /* Models with rotary positions (Llama, Qwen, Mistral, Falcon) are trained without, whoever trains them. */
    const bool has_none = plan->config->position_encoding == MODEL_POSITION_ROTARY;
    return (traits >> MODEL_TRAIT_DROPS_OUT & 1) && !has_none;
}

bool sim_is_executed(const struct sim_plan *plan)
{
    return plan->form == SIM_AS_EXECUTED || plan->form == SIM_AS_PARTITIONED_AND_EXECUTED;
}

bool sim_runs_passes(const struct sim_plan *plan)
{
    return plan->form == SIM_AS_COMPILED || plan->form == SIM_AS_EXECUTED;
}

sim_pass_set sim_compiler_passes(const struct sim_plan *plan)
{
    const sim_pass_set narrow =
        plan->gradient_dtype == SIM_BFLOAT16_GRADIENTS ? SIM_PASS_BIT(SIM_PASS_WIDEN_GRADIENT_SUMS) : 0;
    return (plan->placement->profile.passes & ~plan->gone_passes & ~narrow) | plan->compiler_passes;
}

enum sim_optimizer_partitioning sim_most_zero_stage(const struct sim_plan *plan)
{
    const bool parameters_too = plan->optimizer_partitioning == SIM_STATE_AND_GRADIENTS_OVER_DATA &&
                                sim_compiler_passes(plan) >> SIM_PASS_KEEP_GATHERED & 1;
    return parameters_too ? SIM_PARAMETERS_TOO_OVER_DATA : plan->optimizer_partitioning;
}

/* Activation rules map the batch to data, and nothing else. */
bool sim_shards_parameters(const struct model_rules *rules)
{
    for (int i = 0; i < rules->count; i++) {
        const struct model_rule *rule = &rules->rules[i];
        if (!rule->logical || !strcmp(rule->logical, "batch")) continue;
        for (int j = 0; j < rule->value.count; j++)
            if (rule->value.names[j] && !strcmp(rule->value.names[j], "data")) return true;
    }
    return false;
}

enum sim_optimizer_partitioning sim_zero_stage(const struct sim_plan *plan)
{
    const enum sim_optimizer_partitioning most = sim_most_zero_stage(plan);
    const bool as_ruled = most == SIM_PARAMETERS_TOO_OVER_DATA && sim_shards_parameters(plan->rules);
    return as_ruled ? SIM_STATE_AND_GRADIENTS_OVER_DATA : most;
}

sim_pass_set sim_passes_of(const struct sim_plan *plan)
{
    return sim_runs_passes(plan) ? sim_compiler_passes(plan) : 0;
}

bool sim_stacks_layers(const struct sim_plan *plan)
{
    const bool propagates = sim_compiler_passes(plan) >> SIM_PASS_PROPAGATE_SHARDINGS & 1;
    return plan->config->scan_layers && (propagates || sim_is_executed(plan));
}

/* ---- memory layout of XLA:TPU ---- */

bool sim_uses_compiled_memory(const struct sim_plan *plan)
{
    return plan->compiled && !sim_is_executed(plan);
}

bool sim_counts_device(const struct sim_plan *plan)
{
    return plan->memory_kind == SIM_DEVICE || (plan->memory_kind == SIM_KIND_UNSAID && !sim_uses_compiled_memory(plan));
}

bool sim_keeps_shards(const struct sim_plan *plan)
{
    return sim_uses_compiled_memory(plan) && plan->placement->topology.chip.xla_keeps_shards;
}

/* ---- sizes ---- */

/* How many decode steps an answer takes at most. */
static int64_t decode_steps(const struct sim_plan *plan)
{
    const struct sim_decoding *d = &plan->decoding;
    int64_t most = plan->targets_length, asked = d->max_decode_steps;
    if (d->function == MODEL_BEAM_SEARCH) {
        if (d->max_decode_len > 0) most = d->max_decode_len;
        return d->max_decode_step > 0 && d->max_decode_step < most ? d->max_decode_step : most;
    }
    if (asked > 0 && d->max_decode_steps_hard_limit > 0 && d->max_decode_steps_hard_limit < asked)
        asked = d->max_decode_steps_hard_limit;
    return asked > 0 && !d->prompt_with_targets && asked < most ? asked : most;
}

static void put_decoding_sizes(const struct sim_plan *plan, int64_t *sizes)
{
    const struct sim_decoding *d = &plan->decoding;
    if (!model_infers(plan->options.step)) return;
    bool beams = d->function == MODEL_BEAM_SEARCH;
    int64_t longest = beams && d->max_decode_len > 0 ? d->max_decode_len : plan->targets_length;
    sizes[MODEL_ROWS] = plan->batch_size * d->num_decodes;
    sizes[MODEL_NUM_DECODES] = d->num_decodes;
    sizes[MODEL_CANDIDATES] = 2 * d->num_decodes;
    int64_t columns = longest > plan->targets_length ? longest : plan->targets_length;
    sizes[MODEL_ANSWER_LENGTH] = longest;
    sizes[MODEL_DECODED_LENGTH] = columns + (beams ? 1 : 2); /* a beam's begin with BOS, a sample's end in a spare */
    sizes[MODEL_DECODE_STEPS] = decode_steps(plan);
}

void sim_plan_sizes(const struct sim_plan *plan, int64_t *sizes)
{
    struct base_error ignored; /* a checked plan has sizes */
    sim_size_plan(plan, sizes, &ignored);
    put_decoding_sizes(plan, sizes);
}
