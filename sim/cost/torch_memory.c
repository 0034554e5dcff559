/* Bytes of PyTorch's allocator beyond live tensors: gradient buckets, split blocks, and blocks that a stream still
 * uses. */
#include "sim/cost/cost.h"

#include <math.h>

static double largest_bytes(const struct sim_cost_context *p)
{
    double largest = 0;
    for (int i = 0; i < p->list->event_count; i++)
        if (!p->list->events[i].bracket) largest = fmax(largest, p->bytes[p->list->events[i].shape]);
    return largest;
}

/* Half gradients of this device, as DistributedDataParallel copies them into its buckets. */
static double bucket_bytes(const struct sim_cost_context *p)
{
    double parameters = 0;
    for (int i = 0; i < p->list->persistent_count; i++)
        if (p->list->persistent_categories[i] == MODEL_PARAMETER) parameters += p->bytes[p->list->persistent_shapes[i]];
    return parameters;
}

/* The gather buffer of sharded updates, unless a freed block has room for it; and this device's shard, flattened before
 * it is sent. */
static double gathered_bytes(const struct sim_cost_context *p)
{
    const struct topo_axes *mesh = &p->placement->axes;
    const double gathered = bucket_bytes(p);
    return gathered > largest_bytes(p) ? gathered + gathered / topo_axes_product(mesh, sim_data_axis(mesh)) : 0;
}

/* An embedding's gradient, one block, on a stage without logits: no block that large was freed there while later
 * microbatches are held. */
static double embedding_bytes(const struct sim_cost_context *p)
{
    const unsigned parts = p->plan->options.parts;
    const struct topo_axes *mesh = &p->placement->axes;
    const double bytes = (double)model_token_table_elements(p->sizes) *
                         (double)model_dtype_bytes(p->plan->options.dtype) /
                         topo_axes_product(mesh, sim_model_axis(mesh));
    const bool is_first = parts & MODEL_PART_EMBEDDING && !(parts & MODEL_PART_LOGITS);
    return is_first ? bytes : 0;
}

/* Results of row-parallel products in a microbatch's forward pass, and gathered operands unless they have a buffer that
 * stays: a block that a collective has read or written is reused only after the device has passed the collective. */
static double waiting_bytes(const struct sim_cost_context *p)
{
    const double gathers_frac = p->placement->profile.constants[SIM_HELD_GATHERS_FRAC],
                 element_frac = sim_saves_quantised(p->plan) ? 0.5 : 1;
    double bytes = 0;
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        if (!step->communicates || step->phase != MODEL_FORWARD) continue;
        const struct sim_price_collective *c = &p->list->collectives[step->what];
        const bool gathers = c->kind == SIM_ALL_GATHER && !sim_is_of_sharded_weights(p, c);
        if ((c->kind != SIM_REDUCE_SCATTER && !gathers) || c->gradient) continue;
        double repeats = 1;
        const struct sim_factors *factors = &p->list->repeats[step->repeats];
        for (int f = 0; f < factors->count; f++) repeats *= p->local[factors->of[f]];
        const double group = topo_axes_product(&p->placement->axes, c->axes),
                     share = gathers ? gathers_frac * element_frac * group : 1;
        bytes += share * repeats / (double)p->sizes[MODEL_MICROBATCHES] * p->bytes[c->shape];
    }
    return bytes;
}

/* Weights that devices gather once a microbatch, and those of one layer. */
struct gathered {
    double root_bytes, layer_bytes;
};

static struct gathered gathered_of(const struct sim_cost_context *p)
{
    struct gathered out = {0, 0};
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        if (!step->communicates || step->phase != MODEL_FORWARD) continue;
        const struct sim_price_collective *c = &p->list->collectives[step->what];
        if (c->kind != SIM_ALL_GATHER || !sim_is_of_sharded_weights(p, c)) continue;
        const double bytes = p->bytes[c->shape] * topo_axes_product(&p->placement->axes, c->axes),
                     times = sim_product_of(p, &p->list->repeats[step->repeats]);
        *(times > (double)p->sizes[MODEL_MICROBATCHES] ? &out.layer_bytes : &out.root_bytes) += bytes;
    }
    return out;
}

/* The gather stream's pool beyond its live tensors. The root's parameters come first, then the first layer's; later
 * layers reuse its blocks. Where weights stay gathered over a pipeline's step, the copies are counted elsewhere, and
 * the whole pool here. */
static double gather_pool_bytes(const struct sim_cost_context *p)
{
    const struct gathered g = gathered_of(p);
    return fmax(g.root_bytes, g.layer_bytes) + (p->plan->options.parts ? g.layer_bytes : 0);
}

/* ---- DeepSpeed's ZeRO (deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, partitioned_param_coordinator.py) ---- */

/* Of a parameter as it is gathered, and of its gradient in a bucket: the widest that the model has. */
static double element_bytes(const struct sim_cost_context *p)
{
    double bytes = 0;
    for (int i = 0; i < p->list->persistent_count; i++)
        if (p->list->persistent_categories[i] == MODEL_PARAMETER)
            bytes = fmax(bytes, p->list->shapes[p->list->persistent_shapes[i]].element_bytes);
    return bytes;
}

/* Parameters too small to be sharded: what other devices would have of them. */
static double unsharded_bytes(const struct sim_cost_context *p, double devices)
{
    const struct sim_cost_program *list = p->list;
    double bytes = 0;
    for (int i = 0; i < list->persistent_count; i++) {
        const struct sim_factors *factors = &list->shapes[list->persistent_shapes[i]].elements;
        double elements = 1;
        if (list->persistent_categories[i] != MODEL_PARAMETER) continue;
        for (int f = 0; f < factors->count; f++) {
            const enum model_size size = (enum model_size)list->factors[factors->of[f]].size;
            if (model_counted_by(size) != MODEL_COUNTS_LAYERS) elements *= (double)p->sizes[size];
        }
        if (elements < (double)p->plan->zero.least_count) bytes += p->bytes[list->persistent_shapes[i]] * (devices - 1);
    }
    return bytes;
}

/* Where the forward pass ends, its last parameters stay gathered: each is used again after twice those behind it. The
 * program itself has the head's table there, or two layers. */
static double kept_gathered_bytes(const struct sim_cost_context *p, double devices)
{
    const struct sim_zero_buckets *zero = &p->plan->zero;
    const double kept = (double)zero->reuse_count / 2 + (double)zero->prefetch_count, each_bytes = element_bytes(p),
                 most = fmin(kept, (double)zero->live_count) * each_bytes,
                 alive =
                     fmax((double)model_token_table_elements(p->sizes) * each_bytes, 2 * gathered_of(p).layer_bytes);
    return fmax(0, fmin(most, bucket_bytes(p) * devices) - alive);
}

/* ZeRO 2 has a bucket of gradients, and a second one where sums overlap; ZeRO 3 has one. */
static double zero_bytes(const struct sim_cost_context *p)
{
    const struct topo_axes *mesh = &p->placement->axes;
    const double bucket = (double)p->plan->zero.reduce_count * element_bytes(p),
                 devices = topo_axes_product(mesh, sim_data_axis(mesh));
    if (p->plan->options.step != MODEL_STEP_TRAIN) return 0;
    if (sim_shards_parameters(p->plan->rules))
        return bucket + unsharded_bytes(p, devices) + kept_gathered_bytes(p, devices);
    return p->plan->optimizer_partitioning == SIM_STATE_AND_GRADIENTS_OVER_DATA ? bucket * (1 + p->plan->zero.overlaps)
                                                                                : 0;
}

double sim_torch_waiting_bytes(const struct sim_cost_context *p)
{
    const double held_frac = p->placement->profile.constants[SIM_HELD_FRAC];
    return held_frac > 0 ? floor(held_frac * waiting_bytes(p)) : 0;
}

double sim_torch_held_bytes(const struct sim_cost_context *p)
{
    const double *c = p->placement->profile.constants;
    const unsigned data = sim_data_axis(&p->placement->axes);
    const bool sums = data && topo_axes_product(&p->placement->axes, data) > 1,
               buckets = sums && p->plan->optimizer_partitioning == SIM_REPLICATED;
    double bytes = 0;
    if (c[SIM_BUCKETS_FRAC] > 0 && buckets) bytes += c[SIM_BUCKETS_FRAC] * bucket_bytes(p);
    if (c[SIM_BUCKETS_FRAC] > 0 && sums && !buckets) bytes += c[SIM_BUCKETS_FRAC] * gathered_bytes(p);
    if (c[SIM_SPLIT_BLOCKS_FRAC] > 0 && !buckets && p->plan->num_microbatches > 1)
        bytes += c[SIM_SPLIT_BLOCKS_FRAC] * largest_bytes(p);
    if (c[SIM_SPLIT_BLOCKS_FRAC] > 0) bytes += c[SIM_SPLIT_BLOCKS_FRAC] * embedding_bytes(p);
    if (c[SIM_GATHER_POOL_FRAC] > 0 && p->plan->memory_kind != SIM_ALLOCATED)
        bytes += c[SIM_GATHER_POOL_FRAC] * gather_pool_bytes(p);
    if (sim_has_zero_buckets(p->plan)) bytes += zero_bytes(p);
    return floor(bytes);
}
