/* From a plan to its sharded program. A model's program is built once for all shardings of it; a sharding is worked out
 * once for all plans that share model, rules, mesh and options, and kept as its price list. */
#include "sim/passes.h"
#include "sim/programs.h"

#include <string.h>

static bool decisions_hold(const struct sim_decisions *decisions, const struct sim_extents *extents)
{
    for (int i = 0; i < decisions->count; i++)
        if (sim_is_larger(extents, &decisions->made[i].left, &decisions->made[i].right) != decisions->made[i].larger) return false;
    return decisions->count < SIM_MOST_DECISIONS;
}

static struct model_options model_options_of(const struct sim_plan *plan, enum model_remat remat, unsigned dropped_roles)
{
    struct model_options options;
    memset(&options, 0, sizeof options); /* the key holds its padding, too */
    options.step = plan->options.step, options.remat = remat, options.optimizer = plan->options.optimizer, options.dtype = plan->options.dtype;
    options.dropped_roles = dropped_roles, options.microbatches = plan->options.microbatches, options.flash_attention = plan->options.flash_attention;
    options.traits = plan->placement->profile.traits;
    options.adafactor = plan->options.adafactor, options.parameters = plan->options.parameters,
    options.parameter_count = plan->options.parameter_count;
    return options;
}

static struct sim_sharding_options sharding_options_of(const struct sim_plan *plan)
{
    struct sim_sharding_options sharding;
    memset(&sharding, 0, sizeof sharding);
    for (int a = 0; a < 2; a++) sharding.one[a] = plan->placement->axis_sizes[a] == 1;
    sharding.sequence_parallel = plan->sequence_parallel;
    sharding.propagates = plan->placement->profile.passes & 1u << SIM_PASS_PROPAGATE_SHARDINGS;
    sharding.scanned = plan->config->scan_layers;
    sharding.shares_gathers = plan->as_partitioned; /* else taken to be given up for memory: all gathered parameters would stay alive */
    sharding.optimizer_partitioning = plan->optimizer_partitioning;
    sharding.executable = plan->executable;
    return sharding;
}

static const struct model_program *find_model_program(struct sim_cache *cache, const struct sim_plan *plan, const struct model_options *options)
{
    sim_key_begin(cache, 'b');
    sim_key_text(cache, plan->model_text);
    sim_key_bytes(cache, options, sizeof *options);
    struct model_program *program = sim_cache_find(cache);
    if (program) return program;
    program = base_new(&cache->arena, struct model_program, 1);
    model_program_build(&cache->arena, plan->config, options, program);
    sim_cache_store(cache, program);
    return program;
}

static unsigned passes_of(const struct sim_plan *plan)
{
    return plan->as_partitioned ? 0 : plan->placement->profile.passes;
}

/* What is stored, what runs together and when it dies: by what the executor does, or by what a compiler would. */
static void lay_out(struct base_arena *arena, const struct sim_plan *plan, struct sim_sharded *sharded)
{
    if (plan->executable) {
        sim_fuse_rows(arena, sharded);
        return;
    }
    const unsigned traits = plan->placement->profile.traits;
    sim_fuse(arena, sharded, traits >> MODEL_TRAIT_LIBRARY_DOTS & 1);
    sim_liveness(arena, sharded, plan->config->scan_layers, traits >> MODEL_TRAIT_UNORDERED_REMAT & 1);
}

/* The tables of partitioner, fusion and liveness are large and soon forgotten: unless they are asked for they stand in
 * the scratch, whose pages are used again and again. */
static enum base_status make(struct sim_cache *cache, const struct sim_plan *plan, const struct model_program *source,
                             const struct sim_sharding_options *options, bool whole, struct sim_program *program, struct base_error *error)
{
    struct base_arena *arena = whole ? &cache->arena : &cache->scratch;
    base_arena_reset(&cache->scratch);
    struct sim_sharded *sharded = base_new(arena, struct sim_sharded, 1);
    BASE_TRY(sim_partition(arena, source, options, sharded, error));
    sim_passes_run(arena, passes_of(plan), sharded);
    lay_out(arena, plan, sharded);
    if (sharded->shape_count > SIM_MOST_SHAPES) return base_fail(error, BASE_INTERNAL, "a program of more than %d local shapes", SIM_MOST_SHAPES);
    if (sharded->op_count > SIM_MOST_DISTINCT) return base_fail(error, BASE_INTERNAL, "a program of more than %d operations", SIM_MOST_DISTINCT);
    sim_price_list_make(&cache->arena, &cache->scratch, sharded, plan->options.dtype == MODEL_FP8, &program->prices);
    program->sharded = whole ? sharded : NULL;
    return BASE_OK;
}

static void begin_key(struct sim_cache *cache, const struct sim_plan *plan, const struct model_options *options,
                      const struct sim_sharding_options *sharding)
{
    const int *mesh = plan->placement->axis_sizes;
    const bool relation[] = {mesh[0] == mesh[1], mesh[0] > mesh[1], mesh[0] % mesh[1] == 0, mesh[1] % mesh[0] == 0}; /* what propagation and contractions ask of the mesh */
    sim_key_begin(cache, 's');
    sim_key_text(cache, plan->model_text);
    sim_key_text(cache, plan->rules_text);
    sim_key_bytes(cache, options, sizeof *options);
    sim_key_bytes(cache, sharding, sizeof *sharding);
    const unsigned passes = passes_of(plan);
    sim_key_bytes(cache, &passes, sizeof passes);
    sim_key_bytes(cache, relation, sizeof relation);
    if (sharding->optimizer_partitioning != SIM_REPLICATED) sim_key_bytes(cache, mesh, sizeof plan->placement->axis_sizes); /* state must divide */
}

enum base_status sim_program_find(struct sim_cache *cache, const struct sim_plan *plan, enum model_remat remat, unsigned dropped_roles, bool whole,
                                  const struct sim_program **out, struct base_error *error)
{
    struct model_options options = model_options_of(plan, remat, dropped_roles);
    struct sim_sharding_options sharding = sharding_options_of(plan);
    int64_t sizes[MODEL_SIZE_COUNT];
    model_sizes(plan->config, plan->batch_size, plan->num_microbatches, plan->inputs_length, plan->targets_length, sizes);
    struct sim_extents extents = {sizes, plan->placement->axis_sizes, NULL};
    begin_key(cache, plan, &options, &sharding);
    struct sim_program *first = sim_cache_find(cache), *program = first;
    while (program && !decisions_hold(&program->decisions, &extents)) program = program->next;
    if (!program || (whole && !program->sharded)) {
        const struct model_program *source = find_model_program(cache, plan, &options);
        struct sim_program *made = base_new(&cache->arena, struct sim_program, 1);
        extents.decisions = &made->decisions;
        sharding.rules = plan->rules;
        sharding.extents = extents;
        BASE_TRY(make(cache, plan, source, &sharding, whole, made, error));
        made->next = first;
        sharding.rules = NULL;
        memset(&sharding.extents, 0, sizeof sharding.extents);
        begin_key(cache, plan, &options, &sharding);
        sim_cache_store(cache, made);
        program = made;
    }
    *out = program;
    return BASE_OK;
}
