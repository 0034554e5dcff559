/* Two traits of XLA:TPU that enlarge results (dumps of libtpu 0.0.42). First, a fusion may compute a sum as a second
 * result, which then overwrites nothing. Second, an all-reduce may return the whole sum where each device needs a
 * shard. */
#include "sim/compile/passes.h"

static double local_extent(const struct sim_compiled_options *options, int size, unsigned axes)
{
    return (double)topo_shard_extent(options->mesh, axes, options->sizes[size]);
}

/* The product for the gradient of probabilities also sums its rows, if they are few. */
bool sim_sums_rows_in_product(const struct sim_sharded *s, const struct sim_compiled_options *options, int value)
{
    const struct sim_shape *scores = &s->shapes[s->values[value].shape];
    double elements = 1;
    for (int d = 0; d < scores->rank; d++) elements *= local_extent(options, scores->dims[d], scores->spec[d]);
    return options->most_summed_elements == 0 || elements < options->most_summed_elements;
}

static bool has_several_readers(const struct sim_sharded *s, int value)
{
    int count = 0;
    for (int i = s->values[value].definition + 1; i <= s->values[value].last_use && count < 2; i++)
        for (int j = 0; j < s->ops[i].input_count; j++) count += s->ops[i].inputs[j] == value;
    return count > 1;
}

/* The lanes of projections are sequence positions. If these do not fill the lanes, the sum is laid out along the whole
 * batch, and each shard is copied out at once. */
static bool fills_lanes(const struct sim_shape *shape, const struct sim_compiled_options *options)
{
    int64_t positions =
        shape->rank > 1 ? topo_shard_extent(options->mesh, shape->spec[1], options->sizes[shape->dims[1]]) : 1;
    return positions % SIM_LANES == 0;
}

/* The compiler turns an all-reduce with one slice into a reduce-scatter. In unscanned layers with several slices the
 * whole sum stays, except on chips whose compiler keeps shards. A loop over layers stacks the shard (dumps of MaxText's
 * out_proj by libtpu 0.0.42, saved on a mesh with a tensor axis). */
double sim_parts_reduced(const struct sim_sharded *s, const struct sim_compiled_options *options, int value)
{
    const int at = s->values[value].definition;
    const struct sim_op *made = at >= 0 ? &s->ops[at] : NULL;
    bool scattered = made && made->kind == SIM_COMMUNICATE && made->collective == SIM_REDUCE_SCATTER &&
                     !options->keeps_shards && !options->scanned &&
                     fills_lanes(&s->shapes[s->values[value].shape], options);
    return scattered && has_several_readers(s, value) ? (double)topo_axes_product(options->mesh, made->axes) : 1;
}
