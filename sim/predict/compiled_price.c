/* Compiled memory of a plan: the inputs of its layout, and a cache of layouts. Most plans of a sweep share theirs:
 * iterations of the loop over microbatches, and the mesh's place on the slice, do not matter. */
#include "sim/predict/step_price.h"

#include <math.h>
#include <string.h>

/* In unscanned layers the search decides on rematerialization; in a loop's body it is always tried. */
static bool drops_arrays(const struct sim_cost_context *p)
{
    if (!p->plan->config->scan_layers) return p->by_peak_priority;
    return (sim_passes_of(p->plan) & SIM_PASS_BIT(SIM_PASS_REMATERIALIZE)) != 0;
}

/* Scanned layers repeat as a whole pattern of windows; unrolled ones in pairs, as Gemma 2's layer is a pair of them. */
static int block_layers(const struct sim_plan *plan)
{
    const int64_t every = plan->config->sliding_window_every;
    const bool wraps = (sim_plan_traits(plan) & MODEL_TRAIT_BIT(MODEL_TRAIT_CHECKPOINTS_BLOCKS)) != 0 &&
                       plan->options.remat != MODEL_REMAT_NONE && every > 1;
    return wraps && (plan->config->scan_layers || every == 2) ? (int)every : 1;
}

/* Not those that add one to the scale (Gemma's, recognised by GELU gates): these multiply in float32. */
static bool has_product_norms(const struct sim_plan *plan)
{
    const struct model_config *config = plan->config;
    const bool adds_one = config->mlp_activation_count == 2 && config->mlp_activations[0] == MODEL_GELU;
    return !adds_one && (sim_plan_traits(plan) & MODEL_TRAIT_BIT(MODEL_TRAIT_PRODUCT_NORMS));
}

/* Over several slices XLA:TPU unrolls the loop over microbatches that MaxText asks it to buffer doubly. */
static int unrolled(const struct sim_plan *plan)
{
    const bool asks = (sim_plan_traits(plan) & MODEL_TRAIT_BIT(MODEL_TRAIT_DOUBLE_BUFFERS)) != 0;
    return asks && plan->placement->topology.slice_count > 1 && plan->num_microbatches > 1 ? 2 : 1;
}

double sim_most_row_times(const struct sim_plan *plan)
{
    const struct model_experts *e = &plan->config->experts;
    const bool sends = strcmp(plan->software, "maxtext") == 0 && plan->options.sorts_tokens && e->selected > 0;
    return sends ? (double)e->count / (double)e->selected : 0;
}

/* Without pointers to other data, and with zeros in gaps, so that it can be part of a key. */
static void fill_options(const struct sim_cost_context *p, struct sim_compiled_options *out)
{
    const struct sim_plan *plan = p->plan;
    const struct topo_chip *chip = &p->placement->topology.chip;
    memset(out, 0, sizeof *out);
    out->scanned = plan->config->scan_layers;
    out->saves_all = plan->options.remat == MODEL_REMAT_NONE && !p->dropped_roles;
    out->loss_tiles = plan->loss_tiles;
    out->most_row_times = sim_most_row_times(plan);
    out->product_norms = has_product_norms(plan);
    out->checkpoints = plan->options.remat != MODEL_REMAT_NONE;
    out->keeps_kernel_sums = plan->options.flash_attention && out->checkpoints;
    out->block_layers = block_layers(plan);
    out->over_slices = plan->placement->topology.slice_count > 1;
    /* Two cores that are one device to jax make an array of the gradient of many logits, others none (MaxText over
     * slices by libtpu 0.0.42.1: two dumps for v4 with few rows, ten for v4 and v5p with more, of others up to 10240).
     */
    out->remakes_all_rows = chip->cores_per_chip <= chip->jax_devices_per_chip;
    out->unrolled = unrolled(plan);
    out->least_recomputed_bytes = p->placement->profile.constants[SIM_REMATERIALIZATION_MIN_BYTES];
    out->keeps_exponentials = chip->xla_keeps_exponentials != 0;
    out->keeps_scores = chip->xla_keeps_exponentials == 2;
    out->window_rows = chip->xla_window_rows;
    out->most_summed_elements = chip->xla_most_summed_elements;
    out->async_gathers = chip->xla_async_gathers != 0;
    out->async_sums = chip->xla_async_sums != 0;
    out->keeps_shards = chip->xla_keeps_shards != 0;
    out->most_logits_bytes = chip->xla_most_logits_bytes;
    out->tile_rows = chip->xla_tile_rows;
    out->rematerializes = drops_arrays(p);
    const double *c = p->placement->profile.constants;
    const struct sim_settings *settings = &p->placement->profile.settings;
    out->in_order_over_bytes =
        (1 - settings->aimed_frac) * (c[SIM_CAPACITY_BYTES] - c[SIM_RESERVED_BYTES]) - settings->spare_heap_bytes;
}

/* ---- layouts that are known ---- */

/* A layout of plans that differ only in available memory. */
struct layout {
    struct sim_compiled_memory memory;
    struct layout *next;
};

static struct base_memo *begin_key(struct sim_cache *cache, const struct sim_program *program,
                                   const struct sim_cost_context *p, const struct sim_compiled_options *options,
                                   const bool *is_square)
{
    const struct topo_axes *mesh = &p->placement->axes;
    int64_t sizes[MODEL_SIZE_COUNT];
    for (int i = 0; i < MODEL_SIZE_COUNT; i++) sizes[i] = program->lays_out_sizes[i] ? p->sizes[i] : 0;
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_LAYOUT);
    base_memo_bytes(memo, &program->sharded, sizeof program->sharded);
    base_memo_bytes(memo, options, sizeof *options);
    base_memo_bytes(memo, sizes, sizeof sizes);
    base_memo_bytes(memo, &p->placement->profile.settings, sizeof p->placement->profile.settings);
    base_memo_bytes(memo, mesh->sizes, (size_t)mesh->count * sizeof *mesh->sizes);
    base_memo_bytes(memo, is_square, topo_axes_all(mesh) + 1);
    return memo;
}

static void keep_alive(struct base_arena *arena, struct sim_compiled_memory *memory)
{
    struct sim_alive_array *kept = base_new(arena, struct sim_alive_array, memory->alive_count);
    memcpy(kept, memory->alive, (size_t)memory->alive_count * sizeof *kept);
    memory->alive = kept;
}

/* Known, or laid out now. */
static const struct sim_compiled_memory *find_layout(struct sim_cache *cache, const struct sim_program *program,
                                                     const struct sim_cost_context *p,
                                                     struct sim_compiled_options *options, double limit_bytes)
{
    bool is_square[SIM_ALL_AXES + 1] = {false};
    for (unsigned axes = 1; axes <= topo_axes_all(&p->placement->axes); axes++)
        is_square[axes] = sim_is_square(p->placement, axes);
    struct base_memo *memo = begin_key(cache, program, p, options, is_square);
    struct layout *first = base_memo_find(memo), *layout = first;
    while (layout && (limit_bytes < layout->memory.from_limit_bytes || limit_bytes > layout->memory.to_limit_bytes))
        layout = layout->next;
    if (layout) return &layout->memory;
    options->settings = &p->placement->profile.settings;
    options->is_square = is_square;
    options->limit_bytes = limit_bytes;
    options->sizes = p->sizes;
    options->mesh = &p->placement->axes;
    layout = base_new(memo->arena, struct layout, 1);
    layout->next = first;
    sim_compiled_memory(sim_cache_scratch(cache), program->sharded, options, &layout->memory);
    if (layout->memory.alive_count) keep_alive(memo->arena, &layout->memory);
    base_memo_store(memo, layout);
    return &layout->memory;
}

void sim_price_compiled(struct sim_cache *cache, const struct sim_program *program, struct sim_cost_context *p,
                        struct sim_detail *detail, double persistent_bytes[MODEL_CATEGORY_COUNT])
{
    const double *c = p->placement->profile.constants;
    const struct sim_sharded *sharded = program->sharded;
    double limit_bytes = p->placement->profile.settings.aimed_frac * (c[SIM_CAPACITY_BYTES] - c[SIM_RESERVED_BYTES]);
    struct sim_compiled_options options;
    fill_options(p, &options);
    options.lists_alive = detail && detail->peak;
    const struct sim_compiled_options sizes = {
        .scanned = options.scanned, .tile_rows = options.tile_rows, .sizes = p->sizes, .mesh = &p->placement->axes};
    sim_compiled_persistent_bytes(sharded, &sizes, persistent_bytes);
    /* An all-reduced accumulator reuses the accumulator's buffer. */
    persistent_bytes[MODEL_GRADIENT] = fmin(persistent_bytes[MODEL_GRADIENT], persistent_bytes[MODEL_PARAMETER]);
    for (int i = 0; i < MODEL_CATEGORY_COUNT; i++) limit_bytes -= persistent_bytes[i];
    const struct sim_compiled_memory *memory = find_layout(cache, program, p, &options, limit_bytes);
    if (options.lists_alive) sim_list_peak(p, sharded, memory, detail);
    p->recomputed_frac = memory->recomputed_frac;
    p->holes_bytes = memory->holes_bytes;
    p->peak = sim_peak_at(sharded, memory->peak_op);
    p->peak.holding.total_bytes = memory->peak_bytes;
    memcpy(p->peak.holding.bytes, memory->category_bytes, sizeof memory->category_bytes);
}
