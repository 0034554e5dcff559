/* Time of kernels at a plan's sizes: products by their tiles, others by bytes read and written. */
#include "sim/cost/cost.h"

#include <math.h>

/* Hopper's kernels read 16 bytes at a time; an operand whose rows are no multiple of that runs on older kernels. Both
 * operands of a weight's gradient are contiguous along their own dimensions, not along tokens. */
static bool is_aligned(const struct sim_product *of, const struct sim_price_dot *dot)
{
    const int64_t together = 16 / model_dtype_bytes(dot->dtype);
    return (int64_t)of->columns % together == 0 &&
           (int64_t)(dot->weight_gradient ? of->rows : of->contracted) % together == 0;
}

static bool is_of_experts(const struct sim_cost_context *p, const struct sim_price_dot *dot)
{
    return sim_has_size(p, &dot->batch, MODEL_EXPERTS);
}

static bool is_decoded(const struct sim_cost_context *p, const struct sim_price_dot *dot)
{
    return p->reached_frac < 1 && is_of_experts(p, dot) && sim_has_size(p, &dot->rows, MODEL_DECODED_CAPACITY);
}

/* Reads and writes of a kernel. */
static double kernel_bytes(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    const int *touched = p->list->touched + kernel->first_shape;
    bool decodes = false;
    double bytes = 0;
    for (int i = 0; i < kernel->dot_count && p->reached_frac < 1; i++)
        decodes = decodes || is_decoded(p, &p->list->dots[p->list->kernel_dots[kernel->first_dot + i]]);
    for (int i = 0; i < kernel->shape_count; i++)
        bytes += decodes ? sim_decoded_bytes(p, touched[i]) : p->bytes[touched[i]];
    return bytes;
}

/* Transformer Engine starts a product for each expert. */
static bool is_apart(const struct sim_cost_context *p, const struct sim_price_dot *dot)
{
    return (p->placement->profile.traits >> MODEL_TRAIT_ENGINE_CASTS & 1) && is_of_experts(p, dot);
}

static double tiled_flop(const struct sim_cost_context *p, const struct sim_product *of)
{
    const double *c = p->placement->profile.constants;
    const struct sim_price_question question = {.what = SIM_PRICE_OF_PRODUCT,
                                                .count = 7,
                                                .of = {of->batch, of->rows, of->columns, of->contracted,
                                                       c[SIM_MULTIPROCESSORS], c[SIM_TILE_START_STEPS],
                                                       c[SIM_TILE_PARTS]}};
    bool known;
    double *flop = sim_recent_price(p->list->recent, &question, &known);
    if (!known) *flop = sim_tiled_product_flop(&p->placement->profile, of);
    return *flop;
}

/* Without tensor cores tiles are 64 by 64. So many run at once that the last wave is negligible. */
static bool is_small_tiled(const struct sim_profile *profile, enum model_dtype dtype)
{
    static const double of_tensor_cores = 0.2;
    return dtype == MODEL_FLOAT32 && profile->constants[SIM_FLOAT32_FLOP_FRAC] < of_tensor_cores;
}

static double small_tiled_flop(const struct sim_product *of, double flop)
{
    static const double tile = 64;
    return flop * ceil(of->rows / tile) * tile / of->rows * ceil(of->columns / tile) * tile / of->columns;
}

/* FLOPs as charged: whole tiles of a GPU, or in attention kernels unmasked blocks at that kernel's rate. */
static double rated_flop(const struct sim_cost_context *p, const struct sim_price_dot *dot,
                         const struct sim_product *of, double flop)
{
    const struct sim_profile *profile = &p->placement->profile;
    const double *c = profile->constants;
    if (dot->attention && c[SIM_ATTENTION_EFFICIENCY_FRAC] > 0)
        return dot->causal ? flop * sim_attention_share(profile, MODEL_CAUSAL) * sim_causal_unevenness(p->plan)
                           : flop * sim_attention_share(profile, MODEL_BIDIRECTIONAL);
    if (!(c[SIM_MULTIPROCESSORS] > 0)) return flop;
    if (is_small_tiled(profile, dot->dtype)) return small_tiled_flop(of, flop);
    const bool slow = c[SIM_UNALIGNED_FLOP_FRAC] > 0 && !is_aligned(of, dot);
    struct sim_product one = *of;
    const double times = is_apart(p, dot) ? of->batch : 1;
    one.batch /= times;
    return times * tiled_flop(p, &one) / (slow ? c[SIM_UNALIGNED_FLOP_FRAC] : 1);
}

/* Delayed-scaling casts: one read for the maximum, then a cast: read and written. Transformer Engine writes both
 * layouts, except for fp8 on chips whose products read one copy either way. Blockwise formats scale while reading;
 * nvfp4 needs the tensor's maximum as well (its documentation, low precision training). */
static double cast_s(const struct sim_cost_context *p, double bytes)
{
    const struct sim_profile *profile = &p->placement->profile;
    const enum model_dtype dtype = p->plan->options.dtype;
    const enum sim_fp8_recipe recipe = p->plan->fp8_recipe;
    const bool engine = sim_tells_engine_recipe(p->plan) || (profile->traits >> MODEL_TRAIT_ENGINE_CASTS & 1),
               either_way = profile->constants[SIM_MXFP8_FLOP_FRAC] > 0,
               scaled_as_read = recipe == SIM_FP8_DELAYED || recipe == SIM_FP8_BLOCKWISE;
    double passes = !engine || dtype == MODEL_MXFP8 ? 2 : dtype == MODEL_NVFP4 ? 2.6 : either_way ? 2.5 : 3;
    if (engine && dtype == MODEL_FP8 && scaled_as_read) passes -= 1;
    return bytes > 0 ? sim_memory_s(profile, passes * bytes) : 0;
}

/* Kernels that PyTorch launches for each local expert. */
static double expert_launches(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    if (!(kernel->chain.expert_kernels > 0)) return 0;
    return kernel->chain.expert_kernels * (double)p->sizes[MODEL_EXPERTS] / (double)p->plan->expert_parallel;
}

/* Per-expert quantization of a product's operands: one kernel for blockwise formats, else maximum, scale and cast. */
static double expert_casts(const struct sim_cost_context *p, const struct sim_price_kernel *kernel, double experts)
{
    return experts * kernel->cast_count * (p->plan->options.dtype == MODEL_MXFP8 ? 1 : 3);
}

/* Experts of a product that Transformer Engine takes in a loop over them; 0: it is another. */
static double experts_apart(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    const struct sim_price_dot *dot =
        kernel->dot_count == 1 ? &p->list->dots[p->list->kernel_dots[kernel->first_dot]] : NULL;
    return dot && is_apart(p, dot) ? sim_product_of(p, &dot->batch) : 0;
}

/* A product per expert is launched in several streams, after its casts; the gates' product is one. In a loop the host's
 * cost is the launch alone; elsewhere a module's first launch includes its Python. */
static double host_s(const struct sim_cost_context *p, const struct sim_price_kernel *kernel, double launches,
                     double copies)
{
    const double *c = p->placement->profile.constants;
    const double own = expert_launches(p, kernel) + copies, experts = experts_apart(p, kernel),
                 products = 2.0 / (1 + p->plan->config->mlp_activation_count);
    return (launches - own) * c[SIM_HOST_LAUNCH_S] +
           c[SIM_LOOP_LAUNCH_S] * (own + products * (experts + expert_casts(p, kernel, experts)));
}

/* A windowed einsum reads some arrays in each iteration, and its units pad each chunk. */
static double in_chunks(const struct sim_cost_context *p, const struct sim_price_kernel *kernel,
                        struct sim_priced_kernel *priced)
{
    const struct sim_profile *profile = &p->placement->profile;
    const struct sim_price_dot *dot = &p->list->dots[p->list->kernel_dots[kernel->first_dot]];
    const double trips =
        sim_window_trips_of(p, kernel->einsum.axes, &kernel->einsum.rows, kernel->einsum.element_bytes);
    struct sim_product of = {sim_product_of(p, &dot->batch), sim_product_of(p, &dot->rows),
                             sim_product_of(p, &dot->columns), sim_product_of(p, &dot->contracted)};
    double *const split[] = {[SIM_SPLITS_ROWS] = &of.rows,
                             [SIM_SPLITS_COLUMNS] = &of.columns,
                             [SIM_SPLITS_CONTRACTED] = &of.contracted,
                             [SIM_SPLITS_BATCH] = &of.batch};
    *split[kernel->einsum.split] /= trips;
    for (int i = 0; i < kernel->einsum.again_count; i++)
        priced->bytes += (trips - 1) * p->bytes[kernel->einsum.again[i]];
    return trips * sim_product_flop(profile, &of) / sim_rate_frac(profile, dot->dtype);
}

static double largest_elements(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    const int *touched = p->list->touched + kernel->first_shape;
    double largest = 0;
    for (int i = 0; i < kernel->shape_count; i++)
        largest = fmax(largest, p->bytes[touched[i]] / p->list->shapes[touched[i]].element_bytes);
    return largest;
}

/* Time on the vector units of a kernel without products: for its results, or for the elements it reduces in float32
 * where results are much smaller. Elementwise work in between does not count (compiler_fusions.c). */
static double vector_s(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    static const double small = 1.0 / 16;
    const struct sim_profile *profile = &p->placement->profile;
    const int *touched = p->list->touched + kernel->first_shape;
    if (!(profile->passes >> SIM_PASS_VECTOR_UNITS & 1) || kernel->dot_count || kernel->attention) return 0;
    double largest = largest_elements(p, kernel), results_s = 0;
    for (int i = kernel->read_count; i < kernel->shape_count; i++) {
        const double element_bytes = p->list->shapes[touched[i]].element_bytes,
                     elements = p->bytes[touched[i]] / element_bytes;
        const bool wide = element_bytes >= (double)sizeof(float);
        if (elements > small * largest)
            results_s += elements * (wide ? profile->vector_units.wide_s : profile->vector_units.narrow_s);
    }
    return results_s > 0 ? results_s : largest * profile->vector_units.wide_s;
}

/* Time of its bytes. A softmax's gradient reads its rows three times, in registers. */
static double kernel_memory_s(const struct sim_profile *profile, const struct sim_price_kernel *kernel, double bytes)
{
    static const enum sim_constant of_traffic[] = {
        [SIM_STREAMS] = SIM_HBM_EFFICIENCY_FRAC,
        [SIM_OVER_NORMS] = SIM_NORM_HBM_FRAC,
        [SIM_OVER_PARAMETERS] = SIM_UPDATE_HBM_FRAC,
    };
    const double *c = profile->constants;
    const bool slow = kernel->backward && !kernel->fours.count;
    const double frac = c[slow ? SIM_SOFTMAX_GRADIENT_FRAC : of_traffic[kernel->traffic]];
    return sim_memory_s(profile, bytes) * (frac > 0 ? c[SIM_HBM_EFFICIENCY_FRAC] / frac : 1);
}

/* A GPU's product writes its result when its tiles are done. */
static double result_s(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    const struct sim_profile *profile = &p->placement->profile;
    const int *touched = p->list->touched + kernel->first_shape;
    double bytes = 0;
    if (!kernel->dot_count || kernel->attention || !(profile->constants[SIM_MULTIPROCESSORS] > 0)) return 0;
    for (int i = 0; i < kernel->write_count; i++) bytes += p->bytes[touched[kernel->read_count + i]];
    return profile->constants[SIM_RESULT_EXPOSED_FRAC] * sim_memory_s(profile, bytes);
}

/* This kernel's rate relative to the chip's usual attention rate. */
static double in_table(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    const struct sim_profile *profile = &p->placement->profile;
    const enum sim_attention_way way =
        kernel->attention == SIM_ATTENTION_FORWARD ? SIM_ATTENDS_FORWARD : SIM_ATTENDS_BACKWARD;
    return profile->constants[SIM_ATTENTION_EFFICIENCY_FRAC] /
           sim_attention_table_frac(profile, way, (double)p->sizes[MODEL_HEAD_DIM], (double)p->sizes[kernel->queries]);
}

/* bfloat16: float32 cast, scale and copy of queries and keys (6, 8 and 8 bytes per element); cast and copy of values;
 * cast and copy of attention's result. Half of them count for queries, half for keys. */
static const double layout_bytes_per_byte = (2 * (6 + 8 + 8) + 6 + 8 + 6 + 4) / 2.0 / 2.0;

static struct sim_priced_kernel price_kernel(const struct sim_cost_context *p, const struct sim_price_kernel *kernel,
                                             const double *dots_flop, const double *dots_rated_flop)
{
    const struct sim_profile *profile = &p->placement->profile;
    const int *touched = p->list->touched + kernel->first_shape;
    struct sim_priced_kernel priced = {0};
    double rated = 0;
    for (int i = 0; i < kernel->dot_count; i++) {
        int dot = p->list->kernel_dots[kernel->first_dot + i];
        priced.flop += dots_flop[dot];
        rated += dots_rated_flop[dot] / sim_rate_frac(profile, p->list->dots[dot].dtype);
    }
    priced.bytes = kernel_bytes(p, kernel);
    if (kernel->chain.bytes_per_element > 0)
        priced.bytes = kernel->chain.bytes_per_element * largest_elements(p, kernel);
    const struct sim_softmax_split split = sim_softmax_split(p, kernel);
    priced.bytes *= split.traffic;
    priced.launches = kernel->chain.bytes_per_element > 0 ? kernel->chain.kernels : split.launches;
    const bool fused = kernel->rows && sim_experts_are_fused(p);
    struct sim_expert_copies copies = {0};
    if (kernel->rows) {
        if (fused && kernel->rows == SIM_ROWS_GATED) priced.bytes = priced.launches = 0;
        copies = sim_expert_copies(p, kernel->rows, largest_elements(p, kernel));
        priced.bytes += copies.bytes, priced.launches += copies.launches;
    }
    priced.launches += expert_launches(p, kernel);
    priced.host_s = host_s(p, kernel, priced.launches, copies.launches);
    priced.launches += expert_casts(p, kernel, experts_apart(p, kernel));
    const double attention_rate = kernel->attention ? sim_attention_rate_frac(p, kernel->attention) : 0;
    if (attention_rate > 0) {
        priced.flop *= sim_attention_frac(p, kernel);
        rated = priced.flop * profile->constants[SIM_MATMUL_EFFICIENCY_FRAC] / attention_rate;
    }
    if (kernel->attention && profile->attention.count) rated *= in_table(p, kernel);
    if (kernel->einsum.axes) rated = in_chunks(p, kernel, &priced);
    double compute_s = sim_matmul_s(profile, rated) + result_s(p, kernel),
           memory_s = fmax(kernel_memory_s(profile, kernel, priced.bytes), vector_s(p, kernel));
    double before_bytes = 0;
    const bool casts = !fused || kernel->rows != SIM_ROWS_OF_GATES;
    for (int i = kernel->shape_count - kernel->cast_count; i < kernel->shape_count && casts; i++)
        before_bytes += p->bytes[touched[i]];
    const int first = kernel->laid_out == SIM_READS_LAID_OUT ? 0 : kernel->read_count,
              end = kernel->laid_out == SIM_READS_LAID_OUT    ? kernel->read_count
                    : kernel->laid_out == SIM_WRITES_LAID_OUT ? kernel->read_count + kernel->write_count
                                                              : first;
    double laid_out_bytes = 0;
    for (int i = first; i < end; i++) laid_out_bytes += layout_bytes_per_byte * p->bytes[touched[i]];
    priced.bound = compute_s > memory_s ? SIM_BY_COMPUTE : SIM_BY_MEMORY;
    priced.busy_s =
        (compute_s > memory_s ? compute_s : memory_s) + cast_s(p, before_bytes) + sim_memory_s(profile, laid_out_bytes);
    return priced;
}

static void price_dot(const struct sim_cost_context *p, int i, struct sim_unit_costs *prices)
{
    const struct sim_profile *profile = &p->placement->profile;
    const bool in_kernels = p->plan->options.flash_attention && profile->constants[SIM_ATTENTION_FORWARD_FRAC] > 0;
    const struct sim_price_dot *dot = &p->list->dots[i];
    const double reached_frac = is_decoded(p, dot) ? p->reached_frac : 1;
    const struct sim_product of = {reached_frac * sim_product_of(p, &dot->batch),
                                   sim_product_of(p, &dot->rows) / reached_frac, sim_product_of(p, &dot->columns),
                                   sim_product_of(p, &dot->contracted)};
    const bool grouped =
        p->plan->options.sorts_tokens && profile->constants[SIM_GROUP_TILE_DIM] > 0 && is_of_experts(p, dot);
    prices->dots_flop[i] = in_kernels && dot->attention ? sim_attention_product_flop(profile, &of)
                           : grouped                    ? sim_grouped_product_flop(profile, &of, dot->weight_gradient)
                                                        : sim_product_flop(profile, &of);
    prices->dots_rated_flop[i] = rated_flop(p, dot, &of, prices->dots_flop[i]);
}

void sim_price_kernels(const struct sim_cost_context *p, struct sim_unit_costs *prices)
{
    for (int i = 0; i < p->list->dot_count; i++) price_dot(p, i, prices);
    for (int i = 0; i < p->list->kernel_count; i++)
        prices->kernels[i] = price_kernel(p, &p->list->kernels[i], prices->dots_flop, prices->dots_rated_flop);
}

static bool same_factors(const struct sim_cost_context *a, const struct sim_cost_context *b,
                         const struct sim_factors *factors)
{
    for (int i = 0; i < factors->count; i++)
        if (a->local[factors->of[i]] != b->local[factors->of[i]]) return false;
    return true;
}

static bool same_dot(const struct sim_cost_context *a, const struct sim_cost_context *b,
                     const struct sim_price_dot *dot)
{
    return same_factors(a, b, &dot->batch) && same_factors(a, b, &dot->rows) && same_factors(a, b, &dot->columns) &&
           same_factors(a, b, &dot->contracted);
}

static bool same_kernel(const struct sim_cost_context *a, const struct sim_cost_context *b,
                        const struct sim_price_kernel *kernel)
{
    const int *touched = a->list->touched + kernel->first_shape, *dots = a->list->kernel_dots + kernel->first_dot;
    for (int i = 0; i < kernel->shape_count; i++)
        if (a->bytes[touched[i]] != b->bytes[touched[i]]) return false;
    for (int i = 0; i < kernel->einsum.again_count; i++)
        if (a->bytes[kernel->einsum.again[i]] != b->bytes[kernel->einsum.again[i]]) return false;
    for (int i = 0; i < kernel->dot_count; i++)
        if (!same_dot(a, b, &a->list->dots[dots[i]])) return false;
    return same_factors(a, b, &kernel->fours);
}

void sim_price_kernels_after(const struct sim_cost_context *p, const struct sim_cost_context *before,
                             struct sim_unit_costs *prices)
{
    for (int i = 0; i < p->list->dot_count; i++)
        if (!same_dot(p, before, &p->list->dots[i])) price_dot(p, i, prices);
    for (int i = 0; i < p->list->kernel_count; i++) {
        const struct sim_price_kernel *kernel = &p->list->kernels[i];
        if (kernel->attention || !same_kernel(p, before, kernel))
            prices->kernels[i] = price_kernel(p, kernel, prices->dots_flop, prices->dots_rated_flop);
    }
}
