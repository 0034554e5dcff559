/* The shards that rules give to each class of a relaxed program. */
#include "tuner/bounds.h"

#include <string.h>

/* Adds the data axis to the first dimension without a sharding axis of several devices. Later dimensions would give
 * the same bytes if they divide. */
static void add_data_axis(const struct tuner_class *class, const struct topo_axes *mesh, unsigned data,
                          unsigned char *spec)
{
    unsigned used = 0;
    for (int i = 0; i < class->rank; i++) used |= spec[i];
    for (int i = 0; i < class->rank && !(used & data); i++) {
        if (topo_axes_product(mesh, spec[i]) > 1) continue;
        spec[i] |= (unsigned char)data;
        return;
    }
}

enum base_status tuner_rule_class(const struct tuner_class *class, const struct model_rules *rules,
                                  const struct sim_plan *plan, unsigned char *spec, struct base_error *error)
{
    struct model_axes axes[MODEL_MAX_RANK];
    const struct topo_axes *mesh = &plan->placement->axes;
    unsigned used = 0;
    memset(spec, 0, MODEL_MAX_RANK);
    BASE_TRY(model_resolve(rules, class->names, class->rank, MODEL_AXIS_IS_UNSHARDED, axes, NULL, error));
    for (int i = 0; i < class->rank; i++) {
        for (int j = 0; j < axes[i].count; j++) spec[i] |= (unsigned char)topo_axis_bit(mesh, axes[i].names[j]);
        used |= spec[i];
    }
    if (plan->sequence_parallel && class->residual)
        spec[SIM_LENGTH_OF_STREAM] |= (unsigned char)sim_stream_axes(used, sim_model_axis(mesh));
    if (class->zero) add_data_axis(class, mesh, sim_data_axis(mesh), spec);
    return BASE_OK;
}

enum base_status tuner_rule_classes(const struct tuner_relaxed_program *relaxed, const struct model_rules *rules,
                                    const struct sim_plan *plan, struct tuner_ruled *out, struct base_error *error)
{
    memset(out, 0, sizeof *out);
    for (int c = 0; c < relaxed->class_count; c++)
        BASE_TRY(tuner_rule_class(&relaxed->classes[c], rules, plan, out->spec[c], error));
    return BASE_OK;
}
