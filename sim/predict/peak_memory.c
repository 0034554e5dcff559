/* The bytes of a device at the peak of one step. The memory model is the executor's arena, the compiled step's buffers,
 * PyTorch's allocator, or live tensors in program order. */
#include "sim/predict/step_price.h"

#include <math.h>
#include <string.h>

static const struct sim_memory_map *find_memory_map(struct sim_cache *cache, const struct sim_cost_context *p,
                                                    const struct sim_sharded *sharded)
{
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_MEMORY_MAP);
    base_memo_bytes(memo, &sharded, sizeof sharded);
    base_memo_bytes(memo, p->sizes, sizeof p->sizes);
    base_memo_bytes(memo, p->placement->axes.sizes, sizeof p->placement->axes.sizes);
    struct sim_memory_map *map = base_memo_find(memo);
    if (map) return map;
    map = base_new(memo->arena, struct sim_memory_map, 1);
    sim_memory_map_build(memo->arena, sharded, p->sizes, &p->placement->axes, map);
    base_memo_store(memo, map);
    return map;
}

/* Before it runs out of memory, the allocator waits for blocks that a stream still uses. This does not help if the
 * device has room for little more than live tensors. */
static double waits_out(const struct sim_cost_context *p, double alive_bytes)
{
    const double *c = p->placement->profile.constants, waiting_bytes = sim_torch_waiting_bytes(p);
    if (alive_bytes > c[SIM_HELD_UNTIL_FRAC] * c[SIM_CAPACITY_BYTES]) return waiting_bytes;
    return floor(fmin(waiting_bytes, c[SIM_CAPACITY_BYTES] - alive_bytes));
}

/* Of MaxText's rows that other devices may send, beyond the mean load: three buffers as wide as experts (a dump of
 * Mixtral 8x7B on v5p-64). */
static double ragged_rows_bytes(const struct sim_plan *plan)
{
    enum { BUFFERS = 3 };
    const struct topo_axes *axes = &plan->placement->axes;
    const struct model_experts *e = &plan->config->experts;
    const int at = topo_axis_named(axes, "expert");
    if (at < 0) return 0;
    const double times = fmin((double)axes->sizes[at], sim_most_row_times(plan)),
                 devices = topo_axes_product(axes, ~0u),
                 tokens = (double)(plan->batch_size * plan->targets_length) / (double)plan->num_microbatches / devices;
    return fmax(0, times - 1) * BUFFERS * tokens * (double)(e->selected * e->mlp_dim) *
           (double)model_dtype_bytes(MODEL_BFLOAT16);
}

/* Live tensors, plus the bytes that a framework's allocator holds by its software's constants. */
static void price_liveness(struct sim_cost_context *p, const struct sim_sharded *sharded, struct sim_detail *detail,
                           struct sim_priced *out)
{
    sim_list_peak(p, sharded, NULL, detail);
    double held_bytes = sim_torch_held_bytes(p) + ragged_rows_bytes(p->plan),
           alive_bytes = p->peak.holding.total_bytes + held_bytes + p->placement->profile.constants[SIM_RESERVED_BYTES];
    sim_price_persistent(p, out->persistent_bytes);
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) alive_bytes += out->persistent_bytes[c];
    held_bytes += waits_out(p, alive_bytes);
    p->peak.holding.total_bytes += held_bytes, p->peak.holding.bytes[MODEL_TEMPORARY] += held_bytes;
}

/* Bytes that PyTorch's allocator has reserved, or allocated, after a replay of the step's allocations. */
static bool price_torch(struct sim_cache *cache, struct sim_cost_context *p, struct sim_detail *detail,
                        struct sim_priced *out)
{
    struct sim_torch_memory memory;
    if (!(p->peak.holding.total_bytes < sim_largest_bytes) ||
        !sim_torch_replay(sim_cache_scratch(cache), p, detail, &memory))
        return false;
    const double cached_bytes = memory.reserved_bytes - memory.allocated_bytes;
    p->peak.holding.total_bytes = memory.allocated_bytes;
    memcpy(p->peak.holding.bytes, memory.bytes, sizeof p->peak.holding.bytes);
    if (p->plan->memory_kind == SIM_ALLOCATED) out->held_bytes = cached_bytes;
    else p->peak.holding.total_bytes += cached_bytes, p->peak.holding.bytes[MODEL_TEMPORARY] += cached_bytes;
    return true;
}

void sim_price_peak(struct sim_cache *cache, const struct sim_program *program, struct sim_cost_context *p,
                    struct sim_detail *detail, struct sim_priced *out)
{
    if (sim_is_executed(p->plan)) {
        const struct sim_memory_map *map = find_memory_map(cache, p, program->sharded);
        p->peak = sim_peak_at(program->sharded, map->peak_op);
        sim_price_arena(p, map->arena_bytes, map->category_bytes, out->persistent_bytes);
        sim_list_peak(p, program->sharded, &(struct sim_compiled_memory){.peak_op = -1}, detail);
    } else if (sim_uses_compiled_memory(p->plan)) {
        sim_price_compiled(cache, program, p, detail, out->persistent_bytes);
    } else {
        sim_price_memory(p);
        if (!price_torch(cache, p, detail, out)) price_liveness(p, program->sharded, detail, out);
    }
}
