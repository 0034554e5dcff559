/* The space of plans: what may vary, which plans T5X and JAX accept, and why they reject others. Acceptance does not
 * depend on the order of the submesh or the number of microbatches, so plans are kept in groups. */
#include "tuner/space.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 1 << 24 };

static const enum sim_key keys[TUNER_DIMENSION_COUNT] = {[TUNER_OPTIMIZER] = SIM_OPTIMIZER,
                                                         [TUNER_DTYPE] = SIM_DTYPE,
                                                         [TUNER_ATTENTION] = SIM_ATTENTION,
                                                         [TUNER_REMAT] = SIM_REMAT_POLICY,
                                                         [TUNER_PARTITIONING] = SIM_OPTIMIZER_PARTITIONING,
                                                         [TUNER_SEQUENCE] = SIM_SEQUENCE_PARALLEL,
                                                         [TUNER_NUM_DECODES] = SIM_NUM_DECODES,
                                                         [TUNER_PARAMETER_DTYPE] = SIM_PARAMETER_DTYPE,
                                                         [TUNER_BATCH] = SIM_BATCH_SIZE,
                                                         [TUNER_SUBMESH] = SIM_SUBMESH,
                                                         [TUNER_RULES] = SIM_RULES,
                                                         [TUNER_MICROBATCHES] = SIM_NUM_MICROBATCHES,
                                                         [TUNER_DIVISION] = SIM_PIPELINE_PARTITION,
                                                         [TUNER_SCHEDULE] = SIM_PIPELINE_SCHEDULE,
                                                         [TUNER_EXCHANGE] = SIM_CP_COMM_TYPE,
                                                         [TUNER_EXPERT_TENSOR] = SIM_EXPERT_TENSOR_PARALLEL,
                                                         [TUNER_CONTEXT] = SIM_CONTEXT_PARALLEL,
                                                         [TUNER_EXPERTS] = SIM_EXPERT_PARALLEL,
                                                         [TUNER_PARTITIONS] = SIM_NUM_PARTITIONS,
                                                         [TUNER_STAGES] = SIM_PIPELINE_STAGES,
                                                         [TUNER_CHUNKS] = SIM_VIRTUAL_STAGES};

enum sim_key tuner_key(enum tuner_dimension dimension)
{
    return keys[dimension];
}

static struct tuner_values copy_values(struct base_arena *arena, const char *const *values, int count)
{
    struct tuner_values copy = {base_new(arena, const char *, count > 0 ? count : 1), count};
    for (int i = 0; i < count; i++) copy.values[i] = values[i] ? base_copy(arena, values[i]) : NULL;
    return copy;
}

/* ---- the range of each dimension ---- */

/* T5X offers rematerialisation only for scanned models. */
static struct tuner_values words(struct tuner_space *space, enum tuner_dimension d, const struct tuner_request *request,
                                 const struct tuner_software *choices, bool scanned)
{
    const char *own[] = {space->plan.values[keys[d]]};
    bool only_none = d == TUNER_REMAT && choices->is_t5x && !scanned && !request->beyond_t5x;
    struct tuner_values values = choices->words[d];
    if (values.count && only_none) values.count = 1;
    return values.count && !(own[0] && *own[0]) ? values : copy_values(space->arena, own, 1);
}

static struct tuner_values divisors(struct base_arena *arena, int64_t batch)
{
    int count = 0;
    for (int64_t n = base_next_divisor(batch, 0); n; n = base_next_divisor(batch, n)) count++;
    struct tuner_values values = {base_new(arena, const char *, count), 0};
    for (int64_t n = base_next_divisor(batch, 0); n; n = base_next_divisor(batch, n))
        values.values[values.count++] = base_print(arena, "%lld", (long long)n);
    return values;
}

/* ---- submeshes ---- */

enum sim_key tuner_mesh_key(const struct sim_plan_text *plan)
{
    if (plan->values[SIM_ICI_MESH]) return SIM_ICI_MESH;
    return plan->values[SIM_NUM_PARTITIONS] ? SIM_NUM_PARTITIONS : SIM_SUBMESH;
}

struct submesh {
    const char *text;
    struct topo_axes axes;
    int order;
};

static int by_sizes(const struct topo_axes *x, const struct topo_axes *y)
{
    for (int i = x->count - 1; i >= 0; i--)
        if (x->sizes[i] != y->sizes[i]) return x->sizes[i] < y->sizes[i] ? -1 : 1;
    return 0;
}

static int by_shape(const void *a, const void *b)
{
    const struct submesh *x = a, *y = b;
    int sizes = by_sizes(&x->axes, &y->axes);
    return sizes ? sizes : x->order < y->order ? -1 : x->order > y->order;
}

static enum base_status read_request(const struct tuner_space *space, const char *text,
                                     struct topo_mesh_request *request, struct base_error *error)
{
    struct sim_plan_text plan = space->plan;
    plan.values[space->mesh_key] = text;
    return sim_plan_mesh_request(space->arena, &plan, request, error);
}

/* The meshes that the software can use: any submesh, or a number of consecutive ranks. */
static enum base_status every_mesh(struct tuner_space *space, const struct tuner_software *choices,
                                   const struct topo_topology *topology, struct tuner_values *out,
                                   struct base_error *error)
{
    static const char *const one[] = {"1"};
    if (choices->mesh == TUNER_ANY_SUBMESH || choices->mesh == TUNER_NAMED_AXES)
        return tuner_every_submesh(space->arena, topology, out, error);
    space->mesh_key = SIM_NUM_PARTITIONS;
    *out = choices->mesh == TUNER_NO_MODEL_AXIS ? copy_values(space->arena, one, 1)
                                                : divisors(space->arena, topology->device_count);
    return BASE_OK;
}

/* Adds a mesh that T5X or JAX accepts, and counts one that they reject. Meshes of named axes must share their names
 * and order. */
static enum base_status accept(struct tuner_space *space, const struct topo_topology *topology, const char *text,
                               int64_t plans_each, struct submesh *accepted, int *count, struct base_error *error)
{
    struct topo_mesh_request request;
    struct topo_mesh mesh;
    struct base_error why;
    BASE_TRY(read_request(space, text, &request, error));
    if (topo_mesh_build(space->arena, topology, &request, TOPO_SHAPE_ALONE, &mesh, &why) != BASE_OK) {
        tuner_refuse(space, why.text, plans_each);
        return BASE_OK;
    }
    for (int i = 0; *count && i < TOPO_MOST_AXES; i++) {
        const struct topo_axes *first = &accepted[0].axes;
        if (mesh.axes.count == first->count && (i >= first->count || !strcmp(mesh.axes.names[i], first->names[i])))
            continue;
        return base_fail(
            error, BASE_INPUT,
            "%s: meshes of one search have the same axes in one order; \"%.80s\" has others than the first",
            sim_plan_keys[space->mesh_key].name, text);
    }
    accepted[*count] = (struct submesh){text, mesh.axes, *count};
    ++*count;
    return BASE_OK;
}

/* Finds the meshes that T5X or JAX accept, grouped by shape. */
static enum base_status find_shapes(struct tuner_space *space, const struct topo_topology *topology,
                                    struct tuner_values given, int64_t plans_each, struct base_error *error)
{
    struct submesh *accepted = base_new(space->arena, struct submesh, given.count);
    int count = 0;
    for (int i = 0; i < given.count; i++)
        BASE_TRY(accept(space, topology, given.values[i], plans_each, accepted, &count, error));
    qsort(accepted, (size_t)count, sizeof *accepted, by_shape);
    space->values[TUNER_SUBMESH] = (struct tuner_values){base_new(space->arena, const char *, count + 1), count};
    space->shapes = base_new(space->arena, struct tuner_shape, count + 1);
    for (int i = 0; i < count; i++) {
        space->values[TUNER_SUBMESH].values[i] = accepted[i].text;
        if (i == 0 || by_sizes(&accepted[i].axes, &accepted[i - 1].axes))
            space->shapes[space->shape_count++] = (struct tuner_shape){accepted[i].axes, i, 0};
        space->shapes[space->shape_count - 1].submesh_count++;
    }
    return BASE_OK;
}

/* ---- groups ---- */

static void put_variant(const struct tuner_space *space, int variant, struct sim_plan_text *text)
{
    for (int d = TUNER_BATCH - 1; d >= 0; d--) {
        const struct tuner_values *values = &space->values[d];
        text->values[keys[d]] = values->values[variant % values->count];
        variant /= values->count;
    }
}

struct sim_plan_text tuner_plan_text(const struct tuner_space *space, struct tuner_plan plan)
{
    return space->text(space, plan);
}

static struct sim_plan_text plan_text(const struct tuner_space *space, struct tuner_plan plan)
{
    struct sim_plan_text text = space->plan;
    const struct tuner_group *group = &space->groups[plan.group];
    put_variant(space, group->variant, &text);
    text.values[SIM_BATCH_SIZE] = space->values[TUNER_BATCH].values[group->batch];
    text.values[space->mesh_key] =
        space->values[TUNER_SUBMESH].values[space->shapes[group->shape].first_submesh + plan.submesh];
    text.values[SIM_RULES] = space->values[TUNER_RULES].values[group->rules];
    text.values[SIM_NUM_MICROBATCHES] = space->microbatches[group->batch].values[plan.microbatches];
    if (plan.saved) text.values[SIM_REMAT_POLICY] = space->saved.found[plan.saved];
    return text;
}

int tuner_group_submesh_count(const struct tuner_space *space, int group)
{
    return space->shapes[space->groups[group].shape].submesh_count;
}

int tuner_group_microbatch_count(const struct tuner_space *space, int group)
{
    return space->microbatches[space->groups[group].batch].count;
}

bool tuner_group_takes(const struct tuner_space *space, int group, int microbatches)
{
    return !space->groups[group].refused || !space->groups[group].refused[microbatches];
}

int64_t tuner_group_plan_count(const struct tuner_space *space, int group)
{
    int64_t taken = 0;
    for (int m = 0; m < tuner_group_microbatch_count(space, group); m++) taken += tuner_group_takes(space, group, m);
    return taken * tuner_group_submesh_count(space, group) *
           tuner_variant_plan_count(space, space->groups[group].variant);
}

static bool has_value(const struct tuner_values *values, const char *value)
{
    bool has = false;
    for (int i = 0; i < values->count; i++) has = has || (values->values[i] && !strcmp(values->values[i], value));
    return has;
}

/* Where nothing is propagated, a plan may equal one that is in the space: sequence parallelism shards over a model axis
 * of one device, or ZeRO shards what the rules shard, parameters included. */
bool tuner_is_repetition(const struct tuner_space *space, const struct sim_plan *plan)
{
    const struct topo_axes *mesh = &plan->placement->axes;
    const bool of_sequence = plan->sequence_parallel && topo_axes_product(mesh, sim_model_axis(mesh)) == 1,
               of_zero = plan->optimizer_partitioning != SIM_REPLICATED && sim_shards_parameters(plan->rules);
    if (plan->placement->profile.passes >> SIM_PASS_PROPAGATE_SHARDINGS & 1) return false;
    return (of_sequence && has_value(&space->values[TUNER_SEQUENCE], "0")) ||
           (of_zero && has_value(&space->values[TUNER_PARTITIONING], "none"));
}

/* Whether T5X and JAX accept the group with that number of microbatches; if not, counts plan_count refusals. */
static bool check_group(struct tuner_space *space, int microbatches, int64_t plan_count, struct sim_plan *out)
{
    struct base_error why;
    const struct sim_plan_text text =
        tuner_plan_text(space, (struct tuner_plan){space->group_count, 0, microbatches, 0});
    if (sim_plan_check(space->cache, space->arena, &text, space->step, SIM_AS_COMPILED, out, &why) == BASE_OK &&
        tuner_check_micro_batch(out, space->micro_batch, &why) == BASE_OK)
        return true;
    tuner_refuse(space, why.text, plan_count);
    return false;
}

/* A group is accepted if its first plan is; with experts or a fixed micro batch, each number of microbatches is
 * checked. A rejected group counts with all its plans. */
static void add_group(struct tuner_space *space, struct tuner_group group)
{
    struct sim_plan plan, checked;
    space->groups[space->group_count] = group;
    const int64_t plan_count = tuner_group_plan_count(space, space->group_count);
    const int count = tuner_group_microbatch_count(space, space->group_count);
    bool accepted = false;
    if (!space->has_experts && !space->micro_batch) accepted = check_group(space, 0, plan_count, &plan);
    else {
        bool *refused = base_new(space->arena, bool, count);
        for (int m = 0; m < count; m++) {
            refused[m] = !check_group(space, m, plan_count / count, &checked);
            if (!refused[m]) plan = checked, accepted = true;
        }
        space->groups[space->group_count].refused = refused;
    }
    if (!accepted || tuner_is_repetition(space, &plan)) return;
    space->plan_count += tuner_group_plan_count(space, space->group_count);
    space->group_count++;
}

static enum base_status find_groups(struct tuner_space *space, struct base_error *error)
{
    const struct tuner_values *batches = &space->values[TUNER_BATCH], *rules = &space->values[TUNER_RULES];
    double most = (double)space->variant_count * batches->count * space->shape_count * rules->count;
    if (most > MOST_GROUPS)
        return base_fail(error, BASE_INPUT,
                         "the space has %.0f groups of plans, and %d are the limit; use fewer values", most,
                         MOST_GROUPS);
    space->groups = base_new(space->arena, struct tuner_group, (int64_t)most + 1);
    for (int v = 0; v < space->variant_count; v++)
        for (int b = 0; b < batches->count; b++)
            for (int s = 0; s < space->shape_count; s++)
                for (int r = 0; r < rules->count && space->microbatches[b].count > 0; r++)
                    add_group(space, (struct tuner_group){v, b, s, r, 1, NULL});
    return BASE_OK;
}

/* ---- microbatches ---- */

/* Keeps the given counts that divide the batch; counts the others as refused plans. */
static void take_microbatches(struct tuner_space *space, int batch, int64_t size, struct tuner_values given,
                              int64_t plans_each)
{
    struct tuner_values *taken = &space->microbatches[batch];
    taken->values = base_new(space->arena, const char *, given.count);
    for (int i = 0; i < given.count; i++) {
        int64_t n = strtoll(given.values[i], NULL, 10);
        if (size % (n > 1 ? n : 1) == 0) taken->values[taken->count++] = given.values[i];
        else
            tuner_refuse(space,
                         base_print(space->arena, "num_microbatches: %lld does not divide batch_size %lld",
                                    (long long)n, (long long)size),
                         plans_each);
    }
}

static enum base_status find_microbatches(struct tuner_space *space, struct tuner_values given, int64_t plans_each,
                                          struct base_error *error)
{
    int64_t number;
    space->microbatches = base_new(space->arena, struct tuner_values, space->values[TUNER_BATCH].count);
    for (int i = 0; i < given.count; i++)
        BASE_TRY(base_parse_int(given.values[i], "num_microbatches", 0, INT32_MAX, &number, error));
    for (int b = 0; b < space->values[TUNER_BATCH].count; b++) {
        int64_t size;
        BASE_TRY(base_parse_int(space->values[TUNER_BATCH].values[b], "batch_size", 1, INT32_MAX, &size, error));
        if (given.count) take_microbatches(space, b, size, given, plans_each);
        else space->microbatches[b] = divisors(space->arena, size);
        if (space->microbatches[b].count >= space->values[TUNER_MICROBATCHES].count)
            space->values[TUNER_MICROBATCHES] = space->microbatches[b];
    }
    return BASE_OK;
}

/* ---- the whole space ---- */

static enum base_status check_each_value(struct tuner_space *space, const char *on_one_device, struct base_error *error)
{
    for (int d = 0; d < TUNER_PLAN_DIMENSIONS; d++) {
        if (d == TUNER_SUBMESH || d == TUNER_MICROBATCHES) continue;
        for (int i = 0; i < space->values[d].count; i++) {
            struct sim_plan_text text = space->plan;
            struct sim_plan plan;
            put_variant(space, 0, &text);
            text.values[SIM_BATCH_SIZE] = space->values[TUNER_BATCH].values[0];
            text.values[SIM_RULES] = space->values[TUNER_RULES].values[0]; /* the default names T5X's axes */
            text.values[keys[d]] = space->values[d].values[i];
            text.values[SIM_TOPOLOGY] = "h100:1x1";
            text.values[SIM_NUM_MICROBATCHES] = NULL;
            /* The software may not run on this topology; the plan's own software and its keys are checked on its own
             * topology. */
            text.values[SIM_SOFTWARE] = text.values[SIM_COMPILE] = text.values[SIM_GRADIENT_DTYPE] = NULL;
            for (int key = SIM_TP_COMM_OVERLAP; key <= SIM_DDP_BUCKET_SIZE; key++) text.values[key] = NULL;
            for (int key = 0; key < SIM_KEY_COUNT; key++)
                if (sim_plan_keys[key].type == SIM_OF_MESH) text.values[key] = NULL;
            text.values[space->mesh_key] = on_one_device;
            if (space->plan.values[SIM_NUM_EXPERT_PARTITIONS]) text.values[SIM_NUM_EXPERT_PARTITIONS] = "1";
            BASE_TRY(sim_plan_check(space->cache, space->arena, &text, space->step, SIM_AS_COMPILED, &plan, error));
        }
    }
    return BASE_OK;
}

/* A value that is invalid on every topology is an input error, not a refusal: one device divides everything. A
 * profile of another chip does not matter here. */
static enum base_status check_values(struct tuner_space *space, const char *on_one_device, struct base_error *error)
{
    const struct base_json *profile = sim_cache_overrides(space->cache);
    sim_cache_override(space->cache, NULL);
    enum base_status status = check_each_value(space, on_one_device, error);
    sim_cache_override(space->cache, profile);
    return status;
}

static int64_t product_of_counts(const struct tuner_space *space, int first, int last)
{
    int64_t product = 1;
    for (int d = first; d <= last; d++)
        if (d != TUNER_SUBMESH && d != TUNER_MICROBATCHES) product *= space->values[d].count;
    return product;
}

static bool names_only(const struct model_rules *rules, const struct topo_axes *axes)
{
    for (int i = 0; i < rules->count; i++)
        for (int j = 0; j < rules->rules[i].value.count; j++)
            if (topo_axis_named(axes, rules->rules[i].value.names[j]) < 0) return false;
    return true;
}

/* The named rule sets that use only axes of the mesh. */
static struct tuner_values rules_for(struct tuner_space *space, struct tuner_values named, const struct topo_axes *axes)
{
    struct tuner_values fitting = {base_new(space->arena, const char *, named.count), 0};
    for (int i = 0; i < named.count; i++) {
        struct model_rules rules;
        struct base_error ignored;
        if (model_rules_parse(space->arena, named.values[i], &rules, &ignored) == BASE_OK && names_only(&rules, axes))
            fitting.values[fitting.count++] = named.values[i];
    }
    return fitting;
}

static void find_ranges(struct tuner_space *space, const struct tuner_request *request,
                        const struct tuner_software *choices, const struct topo_topology *topology,
                        const struct topo_axes *axes, bool scanned)
{
    struct tuner_values named = choices->rules;
    if (!named.count || choices->mesh == TUNER_NAMED_AXES || space->mesh_key == SIM_ICI_MESH)
        named = copy_values(space->arena, model_rule_sets, MODEL_RULE_SETS);
    for (int d = 0; d < TUNER_PLAN_DIMENSIONS; d++) {
        const char *own[] = {space->plan.values[keys[d]]};
        if (request->given[d].count)
            space->values[d] = copy_values(space->arena, request->given[d].values, request->given[d].count);
        else if (d == TUNER_RULES && choices->mesh == TUNER_NAMED_AXES && space->mesh_key == SIM_ICI_MESH)
            space->values[d] = choices->rules;
        else if (d == TUNER_RULES) space->values[d] = rules_for(space, named, axes);
        else if (d == TUNER_BATCH && request->batch_auto)
            space->values[d] = tuner_auto_batches(space->arena, space->step, topology->device_count);
        else if (d == TUNER_BATCH) space->values[d] = copy_values(space->arena, own, 1);
        else if (d < TUNER_BATCH) space->values[d] = words(space, (enum tuner_dimension)d, request, choices, scanned);
    }
}

/* Bounds hold for the compiler of the software's date, so a TPU search defaults to it. */
static bool go_by_software(struct sim_plan_text *plan, const struct topo_topology *topology)
{
    const bool said = sim_key_is_given(plan, SIM_COMPILER) || sim_key_is_given(plan, SIM_MEMORY_MODEL) ||
                      sim_key_is_given(plan, SIM_MEMORY_KIND);
    if (said || topology->kind != TOPO_TPU) return false;
    plan->values[SIM_COMPILER] = "software";
    return true;
}

static const enum sim_key *keys_of(const struct tuner_space *space)
{
    enum sim_key *own = base_new(space->arena, enum sim_key, TUNER_DIMENSION_COUNT);
    memcpy(own, keys, sizeof keys);
    own[TUNER_SUBMESH] = space->mesh_key;
    return own;
}

enum base_status tuner_space_build(struct base_arena *arena, struct sim_cache *cache, const struct tuner_request *asked,
                                   struct tuner_space *out, struct base_error *error)
{
    const struct tuner_request *request = asked;
    struct model_config config;
    struct topo_topology topology;
    struct tuner_software choices = {0};
    struct tuner_space *space = base_new(arena, struct tuner_space, 1);
    if (model_infers(asked->step)) request = tuner_serving_request(arena, asked);
    const char *const *plan = request->plan.values;
    *space = (struct tuner_space){.arena = arena,
                                  .cache = cache,
                                  .plan = request->plan,
                                  .step = request->step,
                                  .text = plan_text,
                                  .dimension_count = TUNER_PLAN_DIMENSIONS,
                                  .values = base_new(arena, struct tuner_values, TUNER_DIMENSION_COUNT),
                                  .search_rules = request->search_rules,
                                  .batch_auto = request->batch_auto && !model_infers(request->step)};
    BASE_TRY(tuner_check_said(&request->plan, error));
    BASE_TRY(model_gin_config_parse(arena, plan[SIM_MODEL], sim_cache_gin_search_path(cache), &config, error));
    BASE_TRY(topo_parse(arena, plan[SIM_TOPOLOGY], &topology, error));
    space->by_software = go_by_software(&space->plan, &topology) && !model_infers(space->step);
    BASE_TRY(tuner_software_find(arena, request, &choices, error));
    space->layer_count = config.num_encoder_layers + config.num_decoder_layers;
    space->has_experts = config.experts.count > 0;
    space->micro_batch = request->micro_batch;
    space->refusals = base_new(arena, struct tuner_refusal, TUNER_MOST_REFUSALS);
    struct topo_axes axes = {.count = 2, .names = {"data", "model"}, .sizes = {1, 1}};
    if (plan[SIM_NUM_EXPERT_PARTITIONS])
        axes = (struct topo_axes){.count = 3, .names = {"data", "expert", "model"}, .sizes = {1, 1, 1}};
    struct tuner_values submeshes = request->given[TUNER_SUBMESH];
    tuner_take_named_axes(space, &choices, &submeshes);
    space->mesh_key = tuner_mesh_key(&space->plan);
    space->plan.values[space->mesh_key] = NULL;
    if (space->mesh_key == SIM_ICI_MESH) BASE_TRY(tuner_named_meshes(space, &topology, &submeshes, &axes, error));
    else if (!submeshes.count) BASE_TRY(every_mesh(space, &choices, &topology, &submeshes, error));
    space->keys = keys_of(space);
    find_ranges(space, request, &choices, &topology, &axes, config.scan_layers);
    if (request->search_saved) BASE_TRY(tuner_saved_open(space, &config, error));
    if (!space->values[TUNER_RULES].count)
        return base_fail(error, BASE_INPUT,
                         "logical_axis_rules: no named rule set uses only the mesh axes %s; give a list of rules",
                         topo_axes_join(arena, &axes, topo_axes_all(&axes), ", "));
    BASE_TRY(check_values(space, space->mesh_key == SIM_ICI_MESH ? topo_axes_sizes(arena, &axes) : NULL, error));
    space->variant_count = (int)product_of_counts(space, 0, TUNER_BATCH - 1);
    int64_t others = product_of_counts(space, 0, TUNER_RULES);
    const struct tuner_values given = request->given[TUNER_MICROBATCHES];
    BASE_TRY(find_microbatches(space, given.count ? given : choices.microbatches,
                               others / space->values[TUNER_BATCH].count * submeshes.count, error));
    int64_t microbatches = 0;
    for (int b = 0; b < space->values[TUNER_BATCH].count; b++) microbatches += space->microbatches[b].count;
    BASE_TRY(find_shapes(space, &topology, submeshes, others / space->values[TUNER_BATCH].count * microbatches, error));
    BASE_TRY(find_groups(space, error));
    if (!space->plan_count) return tuner_refuse_all(space, error);
    space->rule_set_count = space->named_rule_count = space->values[TUNER_RULES].count;
    *out = *space;
    return BASE_OK;
}
