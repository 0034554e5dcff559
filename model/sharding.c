/* Shapes and sizes on one device, once the axis rules and the mesh are known. */
#include "model/model.h"

#include <string.h>

enum { PARAMETER_BYTES = 4, STEP_BYTES = 4 };

static enum base_status refuse_indivisible(int dim, const char *axis, int64_t size, int64_t factor,
                                           enum model_division division, struct base_error *error)
{
    const char *who = division == MODEL_EXACT ? "JAX" : "tensor parallelism";
    int64_t divisor = factor; /* of both, so that the same devices have such axes */
    while (size % divisor != 0 || factor % divisor != 0) divisor--;
    const char *name = axis ? axis : "it";
    if (divisor == 1)
        return base_fail(error, BASE_INPUT,
                         "dimension %d (%.60s) has %lld elements, which do not divide by %lld, the product of its mesh "
                         "axes, as %s demands; use a rule that leaves %.60s unsharded",
                         dim, axis ? axis : "unnamed", (long long)size, (long long)factor, who, name);
    return base_fail(
        error, BASE_INPUT,
        "dimension %d (%.60s) has %lld elements, which do not divide by %lld, the product of its mesh axes, "
        "as %s demands; use axes of %lld devices, or a rule that leaves %.60s unsharded",
        dim, axis ? axis : "unnamed", (long long)size, (long long)factor, who, (long long)divisor, name);
}

static bool is_of_data(const char *axis)
{
    return !strcmp(axis, "data") || !strcmp(axis, "fsdp");
}

/* Number of shards of a dimension, and of those by axes other than data's. taken has a bit per mesh axis. */
static enum base_status find_factor(const struct topo_axes *mesh, const struct model_axes *axes, unsigned *taken,
                                    int64_t *out, int64_t *others, struct base_error *error)
{
    int64_t factor = 1;
    *others = 1;
    for (int i = 0; i < axes->count; i++) {
        int axis = topo_axis_named(mesh, axes->names[i]);
        const char *shown = axes->names[i] ? axes->names[i] : "None";
        if (axis < 0) return topo_axis_unknown(mesh, shown, error);
        if (*taken >> axis & 1)
            return base_fail(error, BASE_INPUT, "the mesh axis %.60s shards one array twice; name it once", shown);
        *taken |= 1u << axis;
        factor *= mesh->sizes[axis];
        if (!is_of_data(shown)) *others *= mesh->sizes[axis];
    }
    *out = factor;
    return BASE_OK;
}

enum base_status model_local_shape(const struct topo_axes *mesh, int rank, const int64_t *shape,
                                   const char *const *axes, const struct model_axes *spec, enum model_division division,
                                   int64_t *out, struct base_error *error)
{
    unsigned taken = 0;
    for (int i = 0; i < rank; i++) {
        int64_t factor = 1, others = 1;
        const char *axis = axes ? axes[i] : NULL;
        if (division != MODEL_ROUNDED_UP && spec[i].unconstrained)
            return base_fail(error, BASE_INPUT,
                             "dimension %d (%.60s) is %s, which JAX allows only inside a step; use a mesh axis or null",
                             i, axis ? axis : "unnamed", MODEL_UNCONSTRAINED);
        BASE_TRY(find_factor(mesh, &spec[i], &taken, &factor, &others, error));
        const int64_t exact = division == MODEL_EXACT ? factor : division == MODEL_FLAT ? others : 1;
        if (shape[i] % exact != 0) return refuse_indivisible(i, axis, shape[i], exact, division, error);
        out[i] = base_ceil_div(shape[i], factor);
    }
    return BASE_OK;
}

static int64_t product(const int64_t *shape, int rank)
{
    int64_t result = 1;
    for (int i = 0; i < rank; i++) result *= shape[i];
    return result;
}

/* As T5X's pattern finds them; a shared expert, which T5X has none of, is a dense MLP. */
bool model_is_of_experts(const char *path)
{
    return strstr(path, "expert") && !strstr(path, "shared_expert");
}

/* T5X's MoE partitioner puts the mesh axis expert in front of the factored moments of kernels with experts. */
static int expert_shards(const struct model_parameter *parameter, const struct topo_axes *mesh)
{
    int axis = topo_axis_named(mesh, "expert");
    return axis >= 0 && model_is_of_experts(parameter->path) ? mesh->sizes[axis] : 1;
}

/* Adds the optimizer state on one device for a parameter of which it holds local_count. All of it is float32 but for
 * Adafactor's momentum and moments of bytes. */
static enum base_status add_state(const struct model_parameter *parameter, int64_t local_count,
                                  const struct topo_axes *mesh, enum model_optimizer optimizer,
                                  const struct model_adafactor *adafactor, struct model_device_state *sum,
                                  struct base_error *error)
{
    struct model_factoring f;
    if (optimizer != MODEL_ADAFACTOR) {
        const char *const *moments;
        const int dims = model_dims_of_one(parameter->rank, parameter->axes);
        int64_t state_count = model_moments_of(optimizer, parameter->path, dims, &moments) * local_count;
        sum->optimizer_state_count += state_count;
        sum->optimizer_state_bytes += (model_moments_are_bytes(optimizer) ? 1 : PARAMETER_BYTES) * state_count;
        return BASE_OK;
    }
    BASE_TRY(model_factor(adafactor, parameter->rank, parameter->shape, parameter->axes, &f, error));
    int64_t factored_count = product(f.v_row, f.v_row_rank) + product(f.v_col, f.v_col_rank);
    if (f.factored) factored_count /= expert_shards(parameter, mesh);
    int64_t moment_count = factored_count + (f.v_sharded ? local_count : product(f.v, f.v_rank));
    int64_t momentum_count = f.m_sharded ? local_count : product(f.m, f.m_rank);
    int64_t momentum_bytes = adafactor->has_beta1 ? model_dtype_bytes(adafactor->dtype_momentum)
                                                  : PARAMETER_BYTES; /* a placeholder is float32 */
    sum->optimizer_state_count += moment_count + momentum_count;
    sum->optimizer_state_bytes += PARAMETER_BYTES * moment_count + momentum_bytes * momentum_count;
    return BASE_OK;
}

static enum base_status add_parameter(const struct model_parameter *parameter, const struct model_rules *rules,
                                      const struct topo_axes *mesh, enum model_division division,
                                      enum model_optimizer optimizer, const struct model_adafactor *adafactor,
                                      struct model_device_state *sum, struct base_error *error)
{
    struct model_axes spec[MODEL_MAX_RANK];
    int64_t local[MODEL_MAX_RANK];
    BASE_TRY(model_resolve(rules, parameter->axes, parameter->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    BASE_TRY(model_local_shape(mesh, parameter->rank, parameter->shape, parameter->axes, spec, division, local, error));
    int64_t local_count = product(local, parameter->rank);
    sum->parameter_count += local_count;
    return add_state(parameter, local_count, mesh, optimizer, adafactor, sum, error);
}

/* Layers repeat each other's parameters. */
static bool are_alike(const struct model_parameter *a, const struct model_parameter *b)
{
    size_t rank = (size_t)a->rank;
    return a->rank == b->rank && !memcmp(a->shape, b->shape, rank * sizeof *a->shape) &&
           !memcmp(a->axes, b->axes, rank * sizeof *a->axes);
}

static void add_up(struct model_device_state *sum, const struct model_device_state *each)
{
    sum->parameter_count += each->parameter_count;
    sum->optimizer_state_count += each->optimizer_state_count;
    sum->optimizer_state_bytes += each->optimizer_state_bytes;
}

enum base_status model_device_state(const struct model_parameter *parameters, int count,
                                    const struct model_rules *rules, const struct topo_axes *mesh,
                                    enum model_division division, enum model_optimizer optimizer,
                                    const struct model_adafactor *adafactor, struct model_device_state *out,
                                    struct base_error *error)
{
    enum { MOST_KINDS = 32 };
    struct {
        const struct model_parameter *first;
        struct model_device_state each;
    } kinds[MOST_KINDS];
    struct model_device_state sum = {0};
    int kind_count = 0;
    for (int i = 0; i < count; i++) {
        struct model_device_state each = {0};
        int kind = 0;
        while (kind < kind_count && !are_alike(kinds[kind].first, &parameters[i])) kind++;
        if (kind < kind_count) each = kinds[kind].each;
        else if (add_parameter(&parameters[i], rules, mesh, division, optimizer, adafactor, &each, error) != BASE_OK)
            return base_fail_in(error, "%s", parameters[i].path);
        if (kind == kind_count && kind < MOST_KINDS)
            kinds[kind].first = &parameters[i], kinds[kind].each = each, kind_count++;
        add_up(&sum, &each);
    }
    sum.parameter_bytes = PARAMETER_BYTES * sum.parameter_count;
    sum.optimizer_state_bytes += STEP_BYTES;
    *out = sum;
    return BASE_OK;
}

enum base_status model_whole_state(const struct model_parameter *parameters, int count, enum model_optimizer optimizer,
                                   const struct model_adafactor *adafactor, struct model_device_state *out,
                                   struct base_error *error)
{
    return model_device_state(parameters, count, &(struct model_rules){0}, &(struct topo_axes){0}, MODEL_EXACT,
                              optimizer, adafactor, out, error);
}

/* The order of a sequence over devices. Of 2C parts, device r of C has parts r and 2C - 1 - r. With a causal mask
 * all devices then have equal work; in plain order the last would see C times as many keys as the first, and all
 * would wait for it. (Megatron-LM's context parallelism, megatron/core/utils.py get_batch_on_this_cp_rank;
 * torchtitan's, torch/distributed/tensor/experimental/_attention.py, _RoundRobinLoadBalancer.) */
int64_t model_sequence_position(int pieces, int64_t length, int64_t place)
{
    if (!pieces) return place;
    const int64_t tokens = length / pieces, piece = place / tokens, pair = piece / 2;
    return (piece % 2 ? pieces - 1 - pair : pair) * tokens + place % tokens;
}
