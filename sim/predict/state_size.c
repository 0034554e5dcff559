/* Cost of saving a training state. */
#include "sim/predict/predict.h"

#include <string.h>

static const struct model_adafactor *adafactor_of(const struct sim_plan *plan, struct model_adafactor *defaults)
{
    *defaults = model_adafactor_defaults();
    return plan->options.adafactor ? plan->options.adafactor : defaults;
}

/* Bytes a second that the host of a device sends into the data-centre network, shared among its devices; 0: unknown. */
static double rate_of_device(const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    if (topology->kind == TOPO_GPU && topology->bounds[1] > 0)
        return chip->nic_bytes_per_s * chip->nics_per_node / topology->bounds[1];
    if (topology->kind != TOPO_TPU || topology->bounds_count < 4) return 0;
    return chip->dcn_bytes_per_s / topology->bounds[3]; /* the devices of a chip */
}

static int devices_per_host(const struct topo_topology *topology)
{
    int devices = topology->kind == TOPO_TPU ? 1 : topology->bounds[1] / topo_hosts_of_node(topology);
    for (int i = 0; i < topology->bounds_count && topology->kind == TOPO_TPU; i++) devices *= topology->host[i];
    return devices > 0 && devices < topology->device_count ? devices : topology->device_count;
}

/* T5X's features of a packed batch: tokens, segment ids and positions of inputs; for targets also decoder inputs and
 * weights. A host reads its devices' shards, at least one. */
static int64_t host_input_bytes(const struct sim_plan *plan, int hosts)
{
    enum { OF_INPUTS = 3, OF_TARGETS = 5, INT32_BYTES = 4 };
    static const char *const batch[] = {"batch"};
    struct model_axes spec;
    struct base_error ignored;
    int64_t shards = 1, length = OF_TARGETS * plan->targets_length;
    if (plan->config->encoder) length += OF_INPUTS * plan->inputs_length;
    if (model_resolve(plan->rules, batch, 1, MODEL_AXIS_IS_UNSHARDED, &spec, NULL, &ignored) != BASE_OK) return 0;
    const struct topo_axes *axes = &plan->placement->axes;
    for (int i = 0; i < spec.count; i++)
        for (int a = 0; a < axes->count; a++)
            if (spec.names[i] && !strcmp(spec.names[i], axes->names[a])) shards *= axes->sizes[a];
    if (shards > hosts) shards = hosts;
    return (plan->batch_size + shards - 1) / shards * length * INT32_BYTES;
}

/* Of parameters and their state: whole, and on one device. */
static enum base_status add_states(const struct sim_plan *plan, const struct model_parameter *parameters, int count,
                                   bool trained, int64_t bytes[2], struct base_error *error)
{
    struct model_device_state whole, device;
    struct model_adafactor defaults;
    const struct model_adafactor *adafactor = adafactor_of(plan, &defaults);
    enum model_optimizer optimizer = plan->options.optimizer;
    BASE_TRY(model_whole_state(parameters, count, optimizer, adafactor, &whole, error));
    BASE_TRY(model_device_state(parameters, count, plan->rules, &plan->placement->named_axes, sim_plan_division(plan),
                                optimizer, adafactor, &device, error));
    bytes[0] += whole.parameter_bytes + (trained ? whole.optimizer_state_bytes : 0);
    bytes[1] += device.parameter_bytes + (trained ? device.optimizer_state_bytes : 0);
    return BASE_OK;
}

/* PyTorch's weights may be of two bytes, and its stages of ZeRO share them out beyond the rules. */
double sim_least_state_bytes(struct base_arena *arena, const struct sim_plan *plan)
{
    struct base_arena own = {.exhausted = arena->exhausted}; /* remedies ask for hundreds of plans */
    const struct model_parameter *parameters = plan->options.parameters;
    const bool compiled = sim_uses_compiled_memory(plan), whole = plan->optimizer_partitioning == SIM_REPLICATED;
    int count = plan->options.parameter_count;
    int64_t bytes[2] = {0};
    struct base_error ignored;
    if (plan->options.step != MODEL_STEP_TRAIN || !(compiled || (whole && sim_replays_torch(plan))) ||
        plan->pipeline.stages > 1 || plan->cpu_offload || plan->options.lora_rank ||
        plan->options.weight_dtype != MODEL_FLOAT32)
        return 0;
    enum base_status status = BASE_OK;
    if (!parameters) status = model_parameters(&own, plan->config, &parameters, &count, &ignored);
    if (status == BASE_OK) status = add_states(plan, parameters, count, compiled && whole, bytes, &ignored);
    base_arena_free(&own);
    return status == BASE_OK ? (double)bytes[1] / (compiled ? 1 : 2) : 0;
}

/* Adapters are saved alone, as peft does, but by run, which saves the frozen base, too. */
enum base_status sim_checkpoint_of(struct base_arena *arena, const struct sim_plan *plan, struct sim_checkpoint *out,
                                   struct base_error *error)
{
    const struct model_parameter *parameters = plan->options.parameters;
    const bool adapts = plan->options.lora_rank > 0;
    int count = plan->options.parameter_count;
    int64_t bytes[2] = {0};
    if (!parameters) BASE_TRY(model_parameters(arena, plan->config, &parameters, &count, error));
    parameters = model_padded_parameters(arena, sim_vocabulary_multiple(plan), parameters, count);
    if (adapts && plan->placement->topology.kind == TOPO_LOCAL)
        BASE_TRY(add_states(plan, parameters, count, false, bytes, error));
    if (adapts) parameters = model_adapters(arena, parameters, count, &plan->options, &count);
    BASE_TRY(add_states(plan, parameters, count, true, bytes, error));
    double rate = rate_of_device(&plan->placement->topology);
    *out = (struct sim_checkpoint){.bytes = bytes[0]};
    out->devices_per_host = devices_per_host(&plan->placement->topology);
    out->host_bytes = bytes[1] * out->devices_per_host;
    out->host_input_bytes = host_input_bytes(plan, plan->placement->topology.device_count / out->devices_per_host);
    if (rate > 0) out->save_s = (double)bytes[1] / rate;
    return BASE_OK;
}
