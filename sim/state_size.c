/* What saving a training state takes. */
#include "sim/sim.h"

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

enum base_status sim_checkpoint_of(struct base_arena *arena, const struct sim_plan *plan, struct sim_checkpoint *out,
                                   struct base_error *error)
{
    const struct model_parameter *parameters = plan->options.parameters;
    int count = plan->options.parameter_count;
    struct model_device_state whole, device;
    struct model_adafactor defaults;
    const struct model_adafactor *adafactor = adafactor_of(plan, &defaults);
    enum model_optimizer optimizer = plan->options.optimizer;
    if (!parameters) BASE_TRY(model_parameters(arena, plan->config, &parameters, &count, error));
    BASE_TRY(model_device_state(parameters, count, &(struct model_rules){0}, &(struct topo_axes){0}, optimizer,
                                adafactor, &whole, error));
    BASE_TRY(model_device_state(parameters, count, plan->rules, &plan->placement->axes, optimizer, adafactor, &device,
                                error));
    double rate = rate_of_device(&plan->placement->topology);
    *out = (struct sim_checkpoint){.bytes = whole.parameter_bytes + whole.optimizer_state_bytes};
    if (rate > 0) out->save_s = (double)(device.parameter_bytes + device.optimizer_state_bytes) / rate;
    return BASE_OK;
}
