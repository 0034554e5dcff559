/* Plans: from text to checked values. Values have T5X's meaning; an error names the key, the mistake and the remedy. */
#include "sim/plan/plan.h"
#include "sim/plan/plan_parts.h"

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
    return base_fail(error, BASE_INPUT, "num_microbatches: %lld does not divide batch_size %lld; use one of %s…",
                     (long long)microbatches, (long long)batch, divisors);
}

static enum base_status check_required(const struct sim_plan_text *text, const struct sim_plan *plan,
                                       struct base_error *error)
{
    if (!sim_key_is_given(text, SIM_BATCH_SIZE))
        return base_fail(error, BASE_INPUT, "batch_size: is missing; sequences in one global batch, as in 128");
    if (!sim_key_is_given(text, SIM_TARGETS_LENGTH))
        return base_fail(error, BASE_INPUT,
                         "task_feature_lengths.targets: is missing; as in --task-feature-lengths 512,512, or in a plan "
                         "{\"inputs\": 512, \"targets\": 512}");
    if (plan->config->encoder && !sim_key_is_given(text, SIM_INPUTS_LENGTH))
        return base_fail(error, BASE_INPUT,
                         "task_feature_lengths.inputs: is missing, and %s has an encoder; as in --task-feature-lengths "
                         "512,512, or in "
                         "a plan {\"inputs\": 512, \"targets\": 512}",
                         plan->model_text);
    return BASE_OK;
}

static enum base_status read_values(const struct sim_plan *usual, const struct sim_plan_text *text,
                                    struct sim_plan *plan, struct base_error *error)
{
    BASE_TRY(check_required(text, plan, error));
    BASE_TRY(sim_plan_read_values(usual, text, plan, error));
    plan->scans = plan->config->scan_layers;
    plan->loss_text = sim_key_is_given(text, SIM_LOSS) ? text->values[SIM_LOSS] : sim_plan_keys[SIM_LOSS].fallback;
    if (plan->is_unrolled && plan->placement->topology.kind != TOPO_TPU)
        return base_fail(error, BASE_INPUT,
                         "scanned: 0 applies to TPU slices alone; elsewhere layers are not unrolled");
    plan->compiles = plan->placement->profile.compile.runs;
    if (plan->pipeline.chunks > 1 && !sim_key_is_given(text, SIM_PIPELINE_SCHEDULE))
        plan->pipeline.schedule = SIM_INTERLEAVED; /* the only one in which chunks take turns */
    if (plan->num_microbatches < 1) plan->num_microbatches = 1;
    if (plan->batch_size % plan->num_microbatches)
        return refuse_microbatches(plan->batch_size, plan->num_microbatches, error);
    return BASE_OK;
}

/* T5X's loss_normalizing_factor: a number, or T5X's word for the tokens of a batch. */
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

/* ---- stages, and devices of a sequence ---- */

enum base_status sim_plan_read_cuts(const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error)
{
    plan->pipeline.stages = plan->context_parallel = plan->expert_parallel = 1;
    BASE_TRY(sim_plan_read_number(text, SIM_EXPERT_PARALLEL, 1, 1 << 20, &plan->expert_parallel, error));
    if (plan->expert_parallel > 1 && sim_key_is_given(text, SIM_NUM_EXPERT_PARTITIONS))
        return base_fail(error, BASE_INPUT, "expert_parallel: contradicts num_expert_partitions, T5X's; keep one");
    BASE_TRY(sim_plan_read_number(text, SIM_PIPELINE_STAGES, 1, SIM_MOST_STAGES, &plan->pipeline.stages, error));
    return sim_plan_read_number(text, SIM_CONTEXT_PARALLEL, 1, 1 << 20, &plan->context_parallel, error);
}

/* The plan's config from here on, with its padding, by which programs are known again. */
static struct model_config *own_config(struct base_arena *arena, struct sim_plan *plan)
{
    struct model_config *config = base_new(arena, struct model_config, 1);
    memcpy(config, plan->config, sizeof *config);
    plan->config = config;
    return config;
}

/* Layers of multi-token prediction are layers of the decoder like its last, and something of their own. */
static enum base_status take_mtp_layers(struct base_arena *arena, struct sim_plan *plan, struct base_error *error)
{
    if (!plan->mtp_layers) return BASE_OK;
    if (plan->config->encoder || !plan->config->scan_layers ||
        !(plan->placement->profile.traits >> MODEL_TRAIT_WIDE_LOSS & 1))
        return base_fail(error, BASE_INPUT,
                         "mtp_layers: is modelled of scanned decoders under Megatron, torchtitan and their like; use "
                         "0");
    struct model_config *config = own_config(arena, plan);
    const int64_t per_block = model_layers_per_block(config, MODEL_DECODER_STACK);
    config->mtp_layers = plan->mtp_layers;
    config->num_decoder_layers += plan->mtp_layers;
    if (config->experts.count) config->experts.decoder_sparse_layers += plan->mtp_layers / per_block;
    return BASE_OK;
}

/* MaxText's products with masks: a sequence is a group, and an expert has so many rows of it, times the mean
 * (MaxText/layers/moe.py, dense_matmul). */
static enum base_status take_capacity(struct base_arena *arena, struct sim_plan *plan, struct base_error *error)
{
    const bool dense = plan->moe_dispatcher == SIM_DISPATCH_DENSE;
    if (dense && !(plan->capacity_factor > 0))
        return base_fail(error, BASE_INPUT,
                         "moe_dispatcher: dense gives each expert a fixed number of rows; use capacity_factor, too, as "
                         "in 1.25");
    if (!dense && plan->capacity_factor > 0)
        return base_fail(error, BASE_INPUT,
                         "capacity_factor: requires moe_dispatcher dense, where experts have a fixed number of rows; "
                         "use both, or neither");
    if (!dense) return BASE_OK;
    if (!plan->config->experts.count || plan->config->encoder)
        return base_fail(error, BASE_INPUT, "moe_dispatcher: dense: is of decoders with experts; leave it out");
    struct model_config *config = own_config(arena, plan);
    config->experts.capacity_factor = plan->capacity_factor * (double)config->experts.selected;
    config->experts.eval_capacity_factor = config->experts.capacity_factor;
    config->experts.group_size = plan->targets_length;
    return BASE_OK;
}

static enum base_status read_layout(struct base_arena *arena, const struct sim_plan_text *text, struct sim_plan *plan,
                                    struct base_error *error)
{
    const char *given = text->values[SIM_PIPELINE_LAYOUT];
    plan->pipeline_layout_text = given ? given : "";
    if (!given || !*given) return BASE_OK;
    if (*plan->pipeline_layers_text || sim_key_is_given(text, SIM_PIPELINE_PARTITION) || plan->config->encoder)
        return base_fail(error, BASE_INPUT,
                         "pipeline_layout: gives all stage chunks of a decoder; leave out pipeline_layers and "
                         "pipeline_partition, and use it for models without an encoder");
    return sim_layout_read(arena, given, plan->config->num_decoder_layers - plan->mtp_layers, plan->mtp_layers,
                           &plan->pipeline, error);
}

/* Layers of each stage, as the plan says them. */
static enum base_status read_layers(struct base_arena *arena, const struct sim_plan_text *text, struct sim_plan *plan,
                                    struct base_error *error)
{
    const char *given = text->values[SIM_PIPELINE_LAYERS];
    const int64_t stages = plan->pipeline.stages, most = plan->config->num_decoder_layers;
    int count;
    plan->pipeline_layers_text = given ? given : "";
    BASE_TRY(read_layout(arena, text, plan, error));
    if (!*plan->pipeline_layers_text || stages == 1) return BASE_OK;
    if (plan->pipeline.chunks > 1)
        return base_fail(error, BASE_INPUT,
                         "pipeline_layers: are those of whole stages, and virtual_stages splits them; use "
                         "virtual_stages 1, or pipeline_layout");
    if (!strcmp(given, "auto"))
        return base_fail(error, BASE_INPUT,
                         "pipeline_layers: auto requires tune, which assigns layers to stages; use tune, or one number "
                         "for each of %lld stages, %lld together",
                         (long long)stages, (long long)most);
    int64_t *layers = base_new(arena, int64_t, (int)stages), sum = 0;
    BASE_TRY(base_parse_ints(given, "pipeline_layers", 1, most, (int)stages, layers, &count, error));
    for (int i = 0; i < count; i++) sum += layers[i];
    plan->pipeline.layers = layers;
    if (count == stages && sum == most) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "pipeline_layers: %d stages have %lld layers in all; use one number for each of %lld stages, %lld "
                     "together",
                     count, (long long)sum, (long long)stages, (long long)most);
}

/* Pipeline keys must be consistent, and require stages. */
static enum base_status check_pipeline(const struct sim_plan_text *text, const struct sim_plan *plan,
                                       struct base_error *error)
{
    static const enum sim_key of_stages[] = {SIM_VIRTUAL_STAGES, SIM_PIPELINE_SPLIT_RANK, SIM_FIRST_STAGE_LAYERS};
    const struct sim_pipeline *pipeline = &plan->pipeline;
    for (int i = 0; i < BASE_COUNT(of_stages) && pipeline->stages == 1; i++) {
        const struct sim_plan_key *row = &sim_plan_keys[of_stages[i]];
        if (sim_key_is_given(text, of_stages[i]) && strcmp(text->values[of_stages[i]], row->fallback) != 0)
            return base_fail(error, BASE_INPUT, "%s: requires pipeline_stages above 1; use more, or %s", row->name,
                             row->fallback);
    }
    if (*plan->pipeline_layers_text && pipeline->stages == 1)
        return base_fail(error, BASE_INPUT,
                         "pipeline_layers: requires pipeline_stages above 1; use more, or leave it out");
    if (pipeline->chunks > 1 && pipeline->schedule != SIM_INTERLEAVED)
        return base_fail(error, BASE_INPUT,
                         "virtual_stages: %lld chunks per stage require the interleaved schedule; use "
                         "pipeline_schedule interleaved, or 1",
                         (long long)pipeline->chunks);
    return BASE_OK;
}

/* Expert parallelism over the data axis: its size must divide the axis and the experts. */
static enum base_status check_expert_parallel(const struct sim_plan *plan, struct base_error *error)
{
    const int at = topo_axis_named(&plan->placement->axes, "expert");
    const int64_t model = topo_axes_product(&plan->placement->axes, sim_model_axis(&plan->placement->axes)),
                  along = (at < 0 ? 1 : plan->placement->axes.sizes[at]) * plan->context_parallel;
    if (plan->expert_parallel == 1) return BASE_OK;
    if (!plan->config->experts.count)
        return base_fail(error, BASE_INPUT, "expert_parallel: %s has no experts; use 1", plan->config->name);
    if (!plan->options.sorts_tokens)
        return base_fail(error, BASE_INPUT,
                         "expert_parallel: is of software that sorts tokens, and %s has num_expert_partitions",
                         plan->software);
    if (plan->expert_parallel != along && plan->expert_parallel != along * model)
        return base_fail(error, BASE_INPUT,
                         "expert_parallel: %lld divides neither the %d devices of the data axis nor these times the "
                         "%lld of the model axis",
                         (long long)plan->expert_parallel, (int)(plan->placement->stage_devices / model),
                         (long long)model);
    if (model > 1 && !plan->sequence_parallel &&
        plan->placement->profile.traits >> MODEL_TRAIT_EXPERTS_SHARD_SEQUENCES & 1)
        return base_fail(error, BASE_INPUT,
                         "sequence_parallel: %s requires it of expert_parallel with tensor parallelism; use 1, or "
                         "num_partitions 1",
                         plan->software);
    if (plan->expert_tensor_parallel > 1 && plan->expert_tensor_parallel != (sim_experts_beyond_axis(plan) ? 1 : model))
        return base_fail(error, BASE_INPUT,
                         "expert_tensor_parallel: %lld devices of each of %lld groups exceed the devices; use 1",
                         (long long)plan->expert_tensor_parallel, (long long)plan->expert_parallel);
    if (plan->config->experts.count % plan->expert_parallel == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT, "expert_parallel: %lld does not divide the %lld experts; use a divisor",
                     (long long)plan->expert_parallel, (long long)plan->config->experts.count);
}

static enum base_status check_experts(struct sim_plan *plan, struct base_error *error)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    if (sim_sends_parts(plan) && !plan->options.sorts_tokens)
        return base_fail(error, BASE_INPUT,
                         "context_parallel: is modelled of experts whose tokens are sorted; use 1, or a moe_dispatcher "
                         "other than dense and onehot");
    if (plan->config->experts.groups && sim_is_executed(plan) && !plan->options.sorts_tokens)
        return base_fail(error, BASE_INPUT,
                         "model: router_groups: T5X's experts have none; leave capacity_factor and moe_dispatcher out");
    if (plan->config->experts.ignore_padding)
        return base_fail(error, BASE_INPUT, "model: ignore_padding_tokens: is not modelled; leave it out");
    if (plan->config->experts.count) {
        BASE_TRY(sim_size_plan(plan, sizes, error));
        for (int stack = MODEL_DECODER_STACK; stack <= MODEL_ENCODER_STACK && !plan->options.sorts_tokens; stack++)
            plan->options.expert_padding[stack] = (unsigned char)model_padding_of(sizes, (enum model_stack_kind)stack);
        return BASE_OK;
    }
    if (!plan->request.has_experts || plan->request.num_expert_partitions == 1) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "num_expert_partitions: the model has no experts; leave it out, or use moe_encoder_decoder");
}

/* ---- the whole plan ---- */

/* Names are printed in lines of answers and messages; a line break in one would forge a line. */
enum base_status sim_plan_check_lines(const struct sim_plan_text *text, struct base_error *error)
{
    static const enum sim_key names[] = {SIM_MODEL, SIM_TOPOLOGY, SIM_SOFTWARE, SIM_SOFTWARE_VERSION, SIM_COMPILER};
    for (int i = 0; i < BASE_COUNT(names); i++)
        for (const char *at = text->values[names[i]]; at && *at; at++)
            if ((unsigned char)*at < ' ')
                return base_fail(error, BASE_INPUT, "%s: contains a control character; use one line of printable text",
                                 sim_plan_keys[names[i]].name);
    return BASE_OK;
}

enum base_status sim_plan_read_keys(struct base_arena *arena, const struct sim_plan *usual,
                                    const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error)
{
    BASE_TRY(read_values(usual, text, plan, error));
    BASE_TRY(take_mtp_layers(arena, plan, error));
    BASE_TRY(take_capacity(arena, plan, error));
    plan->options.sorts_tokens = sim_sorts_tokens(plan);
    plan->says_learning_rate = sim_key_is_given(text, SIM_LEARNING_RATE);
    BASE_TRY(sim_plan_take_overlaps(text, plan, error));
    BASE_TRY(sim_plan_take_zero(text, plan, error));
    static const enum sim_key of_adapters[] = {SIM_LORA_ALPHA, SIM_LORA_TARGETS};
    for (int i = 0; i < BASE_COUNT(of_adapters); i++)
        if (sim_key_is_given(text, of_adapters[i]) && !plan->options.lora_rank)
            return base_fail(error, BASE_INPUT, "%s: is of adapters; use lora_rank, too, or leave it out",
                             sim_plan_keys[of_adapters[i]].name);
    BASE_TRY(sim_plan_read_graphs(arena, text->values[SIM_CUDA_GRAPHS], plan, error));
    if (sim_has_learnt_bias_of_scores(plan)) plan->options.flash_attention = false;
    BASE_TRY(read_normalizing_factor(text->values[SIM_LOSS_NORMALIZING_FACTOR], plan, error));
    BASE_TRY(read_layers(arena, text, plan, error));
    return check_pipeline(text, plan, error);
}

/* Forward passes before a stage's first backward pass, and as many backward passes at the end, have none of another
 * microbatch beside them: of each chunk as many as there are stages, in the mean (Megatron-LM core_v0.16.0
 * megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches; combined_1f1b.py). */
static double paired_frac(const struct sim_plan *plan)
{
    const double alone_frac = (double)plan->pipeline.stages / (double)plan->num_microbatches;
    return alone_frac < 1 ? 1 - alone_frac : 0;
}

enum base_status sim_plan_check_whole(struct base_arena *arena, const struct sim_plan_text *text, enum model_step step,
                                      struct sim_plan *plan, struct base_error *error)
{
    BASE_TRY(sim_plan_check_dtype(plan, error));
    BASE_TRY(sim_plan_check_recipe(plan, error));
    BASE_TRY(sim_plan_check_stored(plan, error));
    BASE_TRY(sim_plan_check_lengths(plan, error));
    BASE_TRY(sim_plan_check_batch(plan, error));
    BASE_TRY(sim_plan_take_step(text, step, plan, error));
    BASE_TRY(sim_plan_check_allocator(plan, error));
    BASE_TRY(sim_plan_read_compiler(plan, error));
    /* T5X's steps that do not train (evaluation, inference) take no microbatches and draw no dropout. Pipelines keep
     * their microbatches, since that is how a batch goes through the stages. */
    const bool trains = plan->options.step == MODEL_STEP_TRAIN || plan->options.step == MODEL_STEP_GRADIENT;
    if (!trains && plan->pipeline.stages == 1) plan->num_microbatches = 1;
    plan->pipeline.forward_alone = !trains;
    BASE_TRY(sim_plan_take_loss(plan, error));
    BASE_TRY(sim_plan_read_decoding(arena, text, plan, error));
    if (plan->placement->topology.kind == TOPO_LOCAL)
        plan->form = sim_runs_passes(plan) ? SIM_AS_EXECUTED : SIM_AS_PARTITIONED_AND_EXECUTED;
    plan->options.places_rows = plan->options.sorts_tokens && sim_is_executed(plan);
    plan->options.microbatches = plan->num_microbatches > 1;
    plan->paired_frac = paired_frac(plan);
    const bool rings = sim_plan_rings(plan);
    plan->options.ring_devices = rings ? (int)plan->context_parallel : 0;
    plan->options.gathers_keys = sim_plan_gathers_keys(plan);
    plan->options.exchanges_heads = sim_plan_exchanges_heads(plan);
    if (rings) BASE_TRY(sim_plan_check_ring(plan, error));
    if (plan->options.exchanges_heads) BASE_TRY(sim_plan_check_exchanged_heads(plan, error));
    plan->options.sequence_pieces = sim_plan_sequence_pieces(plan);
    if (model_infers(plan->options.step) && plan->mtp_layers)
        return base_fail(error, BASE_INPUT,
                         "mtp_layers: are those of training's further losses; inference has none: use 0");
    BASE_TRY(check_expert_parallel(plan, error));
    BASE_TRY(check_experts(plan, error));
    BASE_TRY(sim_plan_check_saved_layers(plan, error));
    plan->options.dropout =
        trains && (sim_key_is_given(text, SIM_DROPOUT_RATE) ? plan->dropout_rate > 0 : sim_drops_out_unsaid(plan));
    return BASE_OK;
}
