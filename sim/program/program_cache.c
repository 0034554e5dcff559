/* From a plan to its sharded program, in three memoised steps. A model's program is built once for all shardings.
 * Shardings are propagated once per model, rules, relation of mesh axes and options. A program is partitioned once for
 * all plans with equally sharded tensors, under any rules and on any mesh, and kept as a cost program. The last two
 * record which comparisons of sizes they made: sizes with the same outcomes reuse the entry, others get a new one. */
#include "sim/program/session_cache.h"

#include <string.h>

/* Shape guards: sizes for which every recorded comparison has the same outcome get this program. */
struct guarded {
    struct sim_stored_decisions decisions;
    struct sim_program *program;
    struct guarded *next;
};
struct alike {
    struct sim_stored_shardings shardings;
    struct sim_program *programs;
    struct guarded *guarded;
    struct alike *next;
};
struct propagated {
    struct sim_stored_decisions decisions;
    struct alike *alike;
    struct propagated *next;
};

static struct sim_stored_decisions keep(struct base_arena *arena, const struct sim_decisions *log,
                                        const struct topo_axes *mesh)
{
    struct sim_decision *made = base_new(arena, struct sim_decision, log->count + 1);
    if (log->count) memcpy(made, log->made, (size_t)log->count * sizeof *made);
    return (struct sim_stored_decisions){made, log->count, log->compared, sim_mesh_relation(mesh, log->compared)};
}

static const struct sim_placed *const *keep_asked(struct base_arena *arena, const struct sim_asked *asked)
{
    const struct sim_placed **kept = base_reserve(arena, (size_t)asked->count, sizeof *kept);
    if (asked->count) memcpy(kept, asked->placed, (size_t)asked->count * sizeof *kept);
    return kept;
}

static bool guards_hold(const struct sim_stored_decisions *decisions, const struct sim_extents *extents)
{
    if (decisions->compared && sim_mesh_relation(extents->mesh, decisions->compared) != decisions->mesh_relation)
        return false;
    for (int i = 0; i < decisions->count; i++)
        if (sim_decide(extents, &decisions->made[i]) != decisions->made[i].larger) return false;
    return true;
}

static struct model_options model_options_of(const struct sim_plan *plan, enum model_remat remat,
                                             unsigned dropped_roles)
{
    struct model_options options;
    memcpy(&options, &plan->options, sizeof options); /* the key holds its padding, too */
    options.remat = remat, options.dropped_roles = dropped_roles;
    options.saved.layers = 0; /* predictions mix the costs of two programs */
    options.traits = sim_plan_traits(plan);
    if (plan->fuses_loss) options.traits |= MODEL_TRAIT_BIT(MODEL_TRAIT_COMPILED_LOSS); /* float32 inside of kernels */
    if (sim_tells_engine_recipe(plan)) options.traits |= MODEL_TRAIT_BIT(MODEL_TRAIT_ENGINE_CASTS);
    return options;
}

static struct sim_sharding_options sharding_options_of(const struct sim_plan *plan)
{
    struct sim_sharding_options sharding;
    memset(&sharding, 0, sizeof sharding);
    const struct topo_axes *mesh = &plan->placement->axes;
    sharding.live = (unsigned char)sim_mesh_axes(&(struct sim_extents){.mesh = mesh});
    sharding.data_axis = (unsigned char)sim_data_axis(mesh);
    const int experts = topo_axis_named(mesh, "expert");
    sharding.expert_axis = (unsigned char)(plan->expert_parallel > 1 && experts >= 0 ? 1u << experts : 0);
    const unsigned context = sim_sends_parts(plan) ? topo_axis_bit(mesh, "context") : 0,
                   model = sim_experts_beyond_axis(plan) ? sim_model_axis(mesh) : 0;
    sharding.sent_parts = (unsigned char)(context | model);
    sharding.joins_gradients = plan->context_parallel > 1;
    sharding.cuts_flat_state = plan->placement->profile.traits >> MODEL_TRAIT_FLAT_STATE & 1;
    sharding.model_axis = (unsigned char)sim_model_axis(mesh);
    sharding.sequence_parallel = plan->sequence_parallel;
    const sim_pass_set passes = sim_compiler_passes(plan);
    sharding.propagates = passes & SIM_PASS_BIT(SIM_PASS_PROPAGATE_SHARDINGS);
    sharding.spreads_through_updates = passes & SIM_PASS_BIT(SIM_PASS_SPREAD_THROUGH_UPDATES);
    sharding.keeps_shards = sim_keeps_shards(plan);
    sharding.scanned = plan->config->scan_layers && sharding.propagates;
    /* Compilers gather again in each layer, since otherwise every gathered parameter would stay alive. */
    sharding.shares_gathers = plan->form == SIM_AS_PARTITIONED || plan->form == SIM_AS_PARTITIONED_AND_EXECUTED;
    sharding.optimizer_partitioning = sim_zero_stage(plan);
    sharding.executable = sim_is_executed(plan);
    return sharding;
}

/* Models whose programs differ only in sizes share a program. Sizes are symbols, and sharding records its comparisons
 * of sizes as decisions. */
static void key_structure(struct base_memo *memo, const struct sim_plan *plan)
{
    struct model_config structure;
    const bool propagates = plan->placement->profile.passes & SIM_PASS_BIT(SIM_PASS_PROPAGATE_SHARDINGS);
    model_structure(plan->config, plan->options.optimizer, propagates ? MODEL_LAYERS_TOLD_APART : MODEL_LAYERS_ALIKE,
                    &structure);
    base_memo_bytes(memo, &structure, sizeof structure);
}

static const struct model_program *find_model_program(struct sim_cache *cache, const struct sim_plan *plan,
                                                      const struct model_options *options)
{
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_MODEL_PROGRAM);
    key_structure(memo, plan);
    base_memo_bytes(memo, options, sizeof *options);
    struct model_program *program = base_memo_find(memo);
    if (program) return program;
    program = base_new(&cache->arena, struct model_program, 1);
    model_program_build(&cache->arena, plan->config, options, program);
    base_memo_store(memo, program);
    return program;
}

/* Where the executor runs passes of a pipeline, or decodes, operations keep their order: it locates bounds of passes
 * and ends of loops. */
static sim_pass_set passes_run(const struct sim_plan *plan)
{
    const sim_pass_set schedules = SIM_PASS_BIT(SIM_PASS_OVERLAP_COLLECTIVES) |
                                   SIM_PASS_BIT(SIM_PASS_OVERLAP_ALL_GATHERS) | SIM_PASS_BIT(SIM_PASS_OVERLAP_ROUNDS),
                       passes = sim_passes_of(plan);
    const bool keeps_order = plan->options.sends || plan->options.step > MODEL_STEP_EVALUATE;
    if (sim_is_executed(plan) && keeps_order) return passes & ~schedules;
    sim_pass_set dropped = 0;
    /* Weights that stay gathered over a pipeline's step are counted outside a stage's program. */
    if (plan->options.parts) dropped |= SIM_PASS_BIT(SIM_PASS_KEEP_UNITS_WHOLE);
    if (sim_zero_stage(plan) != SIM_PARAMETERS_TOO_OVER_DATA) dropped |= SIM_PASS_BIT(SIM_PASS_KEEP_GATHERED);
    return passes & ~dropped;
}

static struct sim_compiler compiler_of(const struct sim_plan *plan)
{
    return (struct sim_compiler){.target = sim_is_executed(plan) ? SIM_FOR_EXECUTOR : SIM_FOR_DEVICE,
                                 .passes = passes_run(plan),
                                 .traits = plan->placement->profile.traits,
                                 .quantizes = model_dtype_is_quantized(plan->options.dtype),
                                 .weight_copies = sim_weight_copies(plan),
                                 .small_weights = sim_weights_are_small(plan),
                                 .is_scanned = sim_stacks_layers(plan),
                                 .checkpoints = plan->options.remat != MODEL_REMAT_NONE,
                                 .settings = plan->placement->profile.settings};
}

/* Modules in Python are a kernel for each of their operations, unless they are compiled. */
static enum sim_torch_style torch_style_of(const struct sim_plan *plan)
{
    const struct sim_profile *profile = &plan->placement->profile;
    const bool eager = sim_passes_of(plan) >> SIM_PASS_EAGER_KERNELS & 1;
    if (!eager || plan->options.dtype == MODEL_FLOAT32) return SIM_TORCH_AS_OTHERS;
    if (profile->traits >> MODEL_TRAIT_ENGINE_CASTS & 1)
        return sim_plan_traits(plan) >> MODEL_TRAIT_EAGER_EXPERT_BIASES & 1 ? SIM_TORCH_ENGINE_EAGER : SIM_TORCH_ENGINE;
    if (!(profile->traits >> MODEL_TRAIT_HF_MODULES & 1))
        return profile->traits >> MODEL_TRAIT_ATEN_KERNELS & 1 ? SIM_TORCH_TITAN : SIM_TORCH_AS_OTHERS;
    const bool half =
        (profile->traits >> MODEL_TRAIT_HALF_PARAMETERS & 1) || plan->options.weight_dtype != MODEL_FLOAT32;
    return half ? SIM_TORCH_HALF : SIM_TORCH_AUTOCAST;
}

/* Sizes of transient arrays, and of loops. Iterations of the loop over microbatches do not matter. */
static void note_sizes(const struct sim_sharded *sharded, bool is_size[MODEL_SIZE_COUNT])
{
    for (int v = 0; v < sharded->value_count; v++) {
        const struct model_tensor *tensor = &sharded->program->tensors[sharded->values[v].tensor];
        for (int d = 0; tensor->category != MODEL_INPUT && d < tensor->rank; d++) is_size[tensor->dims[d]] = true;
    }
    for (int i = 0; i < sharded->op_count; i++) {
        const struct sim_op *op = &sharded->ops[i];
        if (op->kind == SIM_LOOP_BEGIN) is_size[op->trips] = true;
        for (int l = 0; l < op->label_count; l++) is_size[op->labels[l].size] = true;
    }
    is_size[MODEL_MICROBATCHES] = false;
}

/* Tables of partitioner, fusion and liveness are large and short-lived, so they are in scratch, whose pages are reused.
 */
static enum base_status make(struct sim_cache *cache, const struct sim_plan *plan,
                             const struct sim_sharding_options *options, const struct model_program *source,
                             const struct sim_stored_shardings *kept, enum sim_extent extent,
                             struct sim_program *program, struct base_error *error)
{
    struct base_arena *const arena = &cache->scratch;
    base_arena_reset(arena);
    struct sim_sharded *sharded = base_new(arena, struct sim_sharded, 1);
    const struct sim_shardings shardings = sim_shardings_of(arena, kept);
    BASE_TRY(sim_partition(arena, source, options, &shardings, sharded, error));
    const struct sim_compiler compiler = compiler_of(plan);
    sharded->lasting = &cache->arena;
    sim_compile(arena, &compiler, sharded);
    if (sharded->shape_count > SIM_MOST_SHAPES)
        return base_fail(error, BASE_INTERNAL, "a program of more than %d local shapes", SIM_MOST_SHAPES);
    if (sharded->op_count > SIM_MOST_DISTINCT)
        return base_fail(error, BASE_INTERNAL, "a program of more than %d operations", SIM_MOST_DISTINCT);
    /* Libraries quantize operands by separate kernels. XLA:TPU fuses a cast to fp8 with the fusions that make or read
     * operands, but AQT's int8 scale is an operand's maximum, needed in advance. */
    const bool library = compiler.traits >> MODEL_TRAIT_LIBRARY_DOTS & 1;
    struct sim_price_choices choices = {
        .dtype = plan->options.dtype,
        .optimizer = plan->options.optimizer,
        .casts_apart = library || plan->options.dtype == MODEL_INT8,
        .casts_once = sim_tells_engine_recipe(plan) || (compiler.traits >> MODEL_TRAIT_ENGINE_CASTS & 1),
        .casts_before = plan->options.dtype == MODEL_INT8 ||
                        (compiler.traits >> MODEL_TRAIT_ATEN_KERNELS & 1), /* scales are of this step's tensors */
        .softmax_in_fours = plan->placement->profile.traits >> MODEL_TRAIT_SOFTMAX_IN_FOURS & 1,
        .row_softmax = plan->placement->profile.traits >> MODEL_TRAIT_ROW_SOFTMAX & 1,
        .flash = plan->options.flash_attention,
        .windows_products = sim_passes_of(plan) >> SIM_PASS_WINDOW_PRODUCTS & 1,
        .scanned = compiler.is_scanned,
        .gelu = plan->config->mlp_activations[0] == MODEL_GELU,
        .aten = compiler.traits >> MODEL_TRAIT_ATEN_KERNELS & 1,
        .aten_norms =
            (compiler.traits >> MODEL_TRAIT_ATEN_KERNELS & 1) && (sim_passes_of(plan) >> SIM_PASS_EAGER_KERNELS & 1),
    };
    const enum sim_torch_style style = torch_style_of(plan);
    choices.wide_experts = style == SIM_TORCH_AUTOCAST;
    choices.wide_scores = style >= SIM_TORCH_HALF && style <= SIM_TORCH_TITAN && sim_has_learnt_bias_of_scores(plan);
    BASE_TRY(sim_torch_kernels_read(style, choices.torch_chains, error));
    struct sim_workspace *workspace = sim_workspace_of(cache);
    sim_cost_program_make(&cache->arena, &cache->scratch, sharded, &choices, &program->prices);
    program->prices.recent = workspace->recent;
    program->prices.unit_costs = &workspace->unit_costs;
    if (program->prices.factor_count >= SIM_MOST_FACTORS)
        return base_fail(error, BASE_INTERNAL, "a program of more than %d local sizes", SIM_MOST_FACTORS - 1);
    program->sharded = extent == SIM_WHOLE_PROGRAM ? sim_sharded_keep(&cache->arena, sharded) : NULL;
    note_sizes(sharded, program->lays_out_sizes);
    return BASE_OK;
}

/* ---- propagated shardings ---- */

/* One question about programs. */
struct request {
    struct sim_cache *cache;
    const struct sim_plan *plan;
    struct model_options options;
    struct sim_sharding_options sharding; /* as keys hold them: without rules and extents */
    struct sim_extents extents;
    int quantized[3]; /* copies of weights, whether a recipe tells how operands are quantized, and weights are small */
};

static struct base_memo *begin_key(const struct request *r, enum sim_stored kind)
{
    const struct sim_plan *plan = r->plan;
    const sim_pass_set passes = sim_passes_of(plan);
    struct base_memo *memo = sim_cache_memo(r->cache, kind);
    key_structure(memo, plan);
    base_memo_bytes(memo, &plan->rules,
                    sizeof plan->rules); /* the same text makes another program with experts, or over a context axis */
    base_memo_text(memo, plan->placement->axes_text);
    base_memo_bytes(memo, &r->options, sizeof r->options);
    base_memo_bytes(memo, &r->sharding, sizeof r->sharding);
    base_memo_bytes(memo, &passes, sizeof passes);
    base_memo_bytes(memo, r->quantized, sizeof r->quantized);
    return memo;
}

static uint64_t hash_specs(const struct sim_shardings *shardings)
{
    return base_hash(BASE_HASH_START, shardings->specs, (size_t)shardings->spec_count * sizeof *shardings->specs);
}

/* Finds or adds the entry of all plans with these shardings. */
static enum base_status find_alike(const struct request *r, const struct model_program *source,
                                   const struct sim_shardings *shardings, struct alike **out, struct base_error *error)
{
    struct sim_cache *cache = r->cache;
    const sim_pass_set passes = sim_passes_of(r->plan);
    const uint64_t hash = hash_specs(shardings);
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_PLANS_ALIKE);
    base_memo_bytes(memo, &source, sizeof source);
    base_memo_bytes(memo, &r->sharding, sizeof r->sharding);
    base_memo_bytes(memo, &passes, sizeof passes);
    base_memo_bytes(memo, r->quantized, sizeof r->quantized);
    base_memo_bytes(memo, &hash, sizeof hash);
    struct alike *first = base_memo_find(memo), *alike = first;
    while (alike && !sim_shardings_are(&alike->shardings, shardings)) alike = alike->next;
    *out = alike;
    if (alike) return BASE_OK;
    alike = base_new(&cache->arena, struct alike, 1);
    if (!sim_shardings_keep(&cache->arena, &cache->scratch, shardings, &alike->shardings))
        return base_fail(error, BASE_INTERNAL, "tensors with more than %d shardings", SIM_MOST_SPECS);
    alike->next = first;
    base_memo_store(memo, alike);
    *out = alike;
    return BASE_OK;
}

static const struct sim_graph *find_graph(const struct request *r, const struct model_program *source)
{
    struct sim_cache *cache = r->cache;
    const bool options[] = {r->sharding.propagates, r->sharding.spreads_through_updates, r->sharding.scanned,
                            r->sharding.sequence_parallel};
    struct base_memo *memo = sim_cache_memo(cache, SIM_STORED_GRAPH);
    base_memo_bytes(memo, &source, sizeof source);
    base_memo_bytes(memo, options, sizeof options);
    struct sim_graph *graph = base_memo_find(memo);
    if (graph) return graph;
    struct sim_sharding_options sharding = r->sharding;
    sharding.extents = r->extents;
    graph = sim_graph_build(&cache->arena, source, &sharding);
    base_memo_store(memo, graph);
    return graph;
}

static enum base_status find_propagated(const struct request *r, struct alike **out, struct base_error *error)
{
    struct sim_cache *cache = r->cache;
    struct base_memo *memo = begin_key(r, SIM_STORED_PROGRAM);
    struct propagated *first = base_memo_find(memo), *found = first;
    while (found && !guards_hold(&found->decisions, &r->extents)) found = found->next;
    if (!found) {
        const struct model_program *source = find_model_program(cache, r->plan, &r->options);
        const struct sim_graph *graph = find_graph(r, source);
        struct sim_sharding_options options = r->sharding;
        struct sim_shardings shardings;
        struct sim_decisions log = {.arena = &cache->contractions.notes};
        found = base_new(&cache->arena, struct propagated, 1);
        options.rules = r->plan->rules;
        options.extents = r->extents;
        options.extents.decisions = &log;
        base_arena_reset(&cache->scratch);
        BASE_TRY(sim_propagate(&cache->scratch, graph, &options, &shardings, error));
        found->decisions = keep(&cache->arena, &log, r->extents.mesh);
        BASE_TRY(find_alike(r, source, &shardings, &found->alike, error));
        found->next = first;
        base_memo_store(begin_key(r, SIM_STORED_PROGRAM), found);
    }
    *out = found->alike;
    return BASE_OK;
}

/* ---- programs ---- */

/* Records the comparisons that led to a program, so that sizes with the same outcomes find it. */
static void add_guards(struct sim_cache *cache, const struct sim_extents *extents, const struct sim_asked *asked,
                       struct alike *alike, struct sim_program *program)
{
    struct guarded *g = base_new(&cache->arena, struct guarded, 1);
    const struct sim_stored_decisions *own = &program->decisions;
    struct sim_decisions log = {.arena = &cache->contractions.notes, .compared = own->compared};
    log.made = base_new(log.arena, struct sim_decision, own->count + 1);
    if (own->count) memcpy(log.made, own->made, (size_t)own->count * sizeof *log.made);
    log.count = own->count, log.capacity = own->count + 1;
    sim_note_asked(asked, &log);
    g->decisions = keep(&cache->arena, &log, extents->mesh);
    g->program = program;
    g->next = alike->guarded;
    alike->guarded = g;
}

static bool holds(const struct sim_program *program, enum sim_extent extent)
{
    return program->sharded || extent == SIM_PRICES_ALONE;
}

static struct sim_program *find_program(struct sim_cache *cache, const struct sim_extents *extents, struct alike *alike,
                                        enum sim_extent extent)
{
    struct sim_asked asked = {.arena = &cache->contractions.notes};
    for (struct guarded *g = alike->guarded; g; g = g->next)
        if (holds(g->program, extent) && guards_hold(&g->decisions, extents)) return g->program;
    for (struct sim_program *program = alike->programs; program; program = program->next) {
        const bool may_serve = holds(program, extent) && guards_hold(&program->decisions, extents);
        if (!may_serve || !sim_ask_again(&cache->contractions, extents, program->asked, program->asked_count, &asked))
            continue;
        add_guards(cache, extents, &asked, alike, program);
        return program;
    }
    return NULL;
}

static void begin_request(struct request *r, struct sim_cache *cache, const struct sim_plan *plan,
                          enum model_remat remat, unsigned dropped_roles, int64_t *sizes)
{
    memset(r, 0, sizeof *r);
    base_arena_reset(&cache->contractions.notes);
    sim_plan_sizes(plan, sizes);
    r->cache = cache, r->plan = plan, r->extents = (struct sim_extents){sizes, &plan->placement->axes, NULL};
    r->options = model_options_of(plan, remat, dropped_roles);
    r->sharding = sharding_options_of(plan);
    r->quantized[0] = sim_weight_copies(plan), r->quantized[1] = sim_tells_engine_recipe(plan);
    r->quantized[2] = sim_weights_are_small(plan);
}

struct base_memo *sim_memo_priced(struct sim_cache *cache, const struct sim_plan *plan, enum sim_stored kind)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    struct request r;
    begin_request(&r, cache, plan, plan->options.remat, 0, sizes);
    struct base_memo *memo = begin_key(&r, kind);
    base_memo_bytes(memo, sizes, sizeof sizes);
    base_memo_bytes(memo, &plan->placement, sizeof plan->placement);
    base_memo_bytes(memo, &plan->memory_kind, sizeof plan->memory_kind);
    base_memo_bytes(memo, &plan->compiled, sizeof plan->compiled);
    base_memo_bytes(memo, &plan->form, sizeof plan->form);
    base_memo_bytes(memo, plan->overlaps, sizeof plan->overlaps);
    base_memo_bytes(memo, &plan->ddp_bucket_size, sizeof plan->ddp_bucket_size);
    base_memo_bytes(memo, &plan->zero, sizeof plan->zero);
    base_memo_bytes(memo, &plan->loss_tiles, sizeof plan->loss_tiles);
    base_memo_bytes(memo, &plan->fp8_recipe, sizeof plan->fp8_recipe);
    base_memo_bytes(memo, &plan->expert_parallel, sizeof plan->expert_parallel);
    base_memo_bytes(memo, &plan->moe_dispatcher, sizeof plan->moe_dispatcher);
    base_memo_bytes(memo, &plan->overlaps_exchanges, sizeof plan->overlaps_exchanges);
    if (plan->overlaps_exchanges) base_memo_bytes(memo, &plan->paired_frac, sizeof plan->paired_frac);
    base_memo_bytes(memo, &plan->cuda_graphs, sizeof plan->cuda_graphs);
    base_memo_bytes(memo, &plan->expandable_segments, sizeof plan->expandable_segments);
    return memo;
}

enum base_status sim_program_causes(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                    struct sim_causes *out, struct base_error *error)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    struct request r;
    begin_request(&r, cache, plan, plan->options.remat, 0, sizes);
    struct sim_sharding_options options = r.sharding;
    struct sim_shardings shardings;
    options.rules = plan->rules;
    options.extents = r.extents;
    options.causes = out;
    return sim_propagate(arena, find_graph(&r, find_model_program(cache, plan, &r.options)), &options, &shardings,
                         error);
}

enum base_status sim_propagated_shardings(struct sim_cache *cache, const struct sim_plan *plan,
                                          struct sim_shardings *out, struct base_error *error)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    struct request r;
    struct alike *alike;
    begin_request(&r, cache, plan, plan->options.remat, 0, sizes);
    BASE_TRY(find_propagated(&r, &alike, error));
    base_arena_reset(&cache->scratch);
    *out = sim_shardings_of(&cache->scratch, &alike->shardings);
    return BASE_OK;
}

enum base_status sim_program_find(struct sim_cache *cache, const struct sim_plan *plan, enum model_remat remat,
                                  unsigned dropped_roles, enum sim_extent extent, const struct sim_program **out,
                                  struct base_error *error)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    struct request r;
    struct alike *alike;
    begin_request(&r, cache, plan, remat, dropped_roles, sizes);
    BASE_TRY(find_propagated(&r, &alike, error));
    struct sim_program *program = find_program(cache, &r.extents, alike, extent);
    if (!program) {
        struct sim_sharding_options options = r.sharding;
        struct sim_decisions log = {.arena = &cache->contractions.notes};
        struct sim_asked asked = {.arena = &cache->contractions.notes};
        program = base_new(&cache->arena, struct sim_program, 1);
        options.extents = r.extents;
        options.extents.decisions = &log;
        options.known = &cache->contractions;
        options.asked = &asked;
        BASE_TRY(make(cache, plan, &options, find_model_program(cache, plan, &r.options), &alike->shardings, extent,
                      program, error));
        program->decisions = keep(&cache->arena, &log, r.extents.mesh);
        program->asked = keep_asked(&cache->arena, &asked);
        program->asked_count = asked.count;
        add_guards(cache, &r.extents, &asked, alike, program);
        program->next = alike->programs;
        alike->programs = program;
    }
    *out = program;
    return BASE_OK;
}
