/* Random programs in random shardings: what the devices of a mesh compute together is what one device computes (whole
 * models are in test_exec). */
#include "exec/checkpoint.h"
#include "exec/gemm.h"
#include "exec/kernels.h"
#include "lab/lab.h"
#include "sim/compile/compile.h"
#include "tests/random_program.h"

/* ---- running it ---- */

struct run {
    struct sim_sharded sharded;
    struct sim_executable executable;
    struct exec_machine machine;
};

static struct sim_sharding_options options_of(struct draft *d, const struct topo_axes *mesh)
{
    struct sim_sharding_options options = {.executable = true};
    struct model_rules *rules = base_new(d->arena, struct model_rules, 1);
    struct sim_decisions *log = base_new(d->arena, struct sim_decisions, 1);
    log->arena = d->arena;
    reseed(d, 3);
    *rules = choose_rules(d);
    options.rules = rules;
    options.propagates = chance(d, 80);
    options.scanned = chance(d, 50);
    options.shares_gathers =
        chance(d, 50) && !options.scanned; /* whole stacks moved in every turn are counted and never run */
    options.extents = (struct sim_extents){d->sizes, mesh, log};
    options.live = (unsigned char)sim_mesh_axes(&options.extents);
    return options;
}

/* On its mesh; the placement of a plan says which that is. */
static enum base_status begin(struct draft *d, struct sim_cache *cache, const struct topo_axes *mesh, struct run *run,
                              struct base_error *error)
{
    static const sim_pass_set passes[] = {
        0, SIM_PASS_BIT(SIM_PASS_CREATE_REDUCE_SCATTERS), SIM_PASS_BIT(SIM_PASS_REASSOCIATE_ALL_REDUCE),
        SIM_PASS_BIT(SIM_PASS_CREATE_REDUCE_SCATTERS) | SIM_PASS_BIT(SIM_PASS_REASSOCIATE_ALL_REDUCE)};
    struct sim_sharding_options options = options_of(d, mesh);
    struct sim_shardings shardings;
    struct sim_plan *plan = base_new(d->arena, struct sim_plan, 1);
    struct sim_plan_text text = {{[SIM_MODEL] = "t5_1_1_small", [SIM_RULES] = "data_only", [SIM_BATCH_SIZE] = "48"}};
    memset(run, 0, sizeof *run);
    text.values[SIM_INPUTS_LENGTH] = text.values[SIM_TARGETS_LENGTH] = "4";
    struct sim_placement *placement = base_new(d->arena, struct sim_placement, 1);
    text.values[SIM_TOPOLOGY] = base_print(d->arena, "local:%d", topo_axes_product(mesh, topo_axes_all(mesh)));
    BASE_TRY(sim_plan_check(cache, d->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, plan, error));
    plan->learning_rate = 1; /* whole results */
    *placement = *plan->placement;
    placement->axes = *mesh;
    plan->placement = placement;
    BASE_TRY(sim_propagate(d->arena, sim_graph_build(d->arena, &d->program, &options), &options, &shardings, error));
    BASE_TRY(sim_partition(d->arena, &d->program, &options, &shardings, &run->sharded, error));
    const struct sim_compiler compiler = {.target = SIM_FOR_EXECUTOR, .passes = passes[below(d, BASE_COUNT(passes))]};
    sim_compile(d->arena, &compiler, &run->sharded);
    run->executable.sharded = &run->sharded;
    memcpy(run->executable.sizes, d->sizes, sizeof d->sizes);
    run->executable.mesh = *mesh;
    sim_memory_map_build(d->arena, &run->sharded, d->sizes, mesh, &run->executable.map);
    return exec_machine_begin(d->arena, &run->executable, plan, &run->machine, error);
}

/* Walks over what a device has of a persistent tensor's layer: element by element, with its place in the whole. */
struct walk {
    const struct model_tensor *tensor;
    struct exec_range ranges[MODEL_MAX_RANK];
    int64_t index[MODEL_MAX_RANK];
};

static struct walk walk_begin(const struct run *run, const struct sim_value *value, int device)
{
    struct walk w = {.tensor = &run->sharded.program->tensors[value->tensor]};
    for (int i = 0; i < w.tensor->rank; i++)
        w.ranges[i] = exec_range_of(&run->machine, device, run->machine.sizes[w.tensor->dims[i]], value->spec[i]);
    return w;
}

static bool walk_is_empty(const struct walk *w)
{
    for (int i = 0; i < w->tensor->rank; i++)
        if (!w->ranges[i].valid) return true;
    return false;
}

static bool walk_next(struct walk *w)
{
    for (int i = w->tensor->rank - 1; i >= 0; i--) {
        if (++w->index[i] < w->ranges[i].valid) return true;
        w->index[i] = 0;
    }
    return false;
}

static int64_t walk_local(const struct walk *w)
{
    int64_t at = 0;
    for (int i = 0; i < w->tensor->rank; i++) at = at * w->ranges[i].extent + w->index[i];
    return at;
}

static int64_t walk_global(const struct walk *w, const int64_t *sizes)
{
    int64_t at = 0;
    for (int i = 0; i < w->tensor->rank; i++) at = at * sizes[w->tensor->dims[i]] + w->ranges[i].start + w->index[i];
    return at;
}

static bool is_given(const struct sim_value *value)
{
    return value->persistent && value->definition < 0;
}

static void set_element(const struct run *run, const struct sim_value *value, char *at, int64_t element)
{
    const struct model_tensor *tensor = &run->sharded.program->tensors[value->tensor];
    struct base_random random;
    base_random_seed(&random, (uint64_t)element * MOST_TENSORS + (uint64_t)value->tensor);
    base_random_next(&random);
    if (value->dtype == MODEL_INT32)
        *(int32_t *)(void *)at = (int32_t)base_random_below(&random, run->machine.sizes[MODEL_VOCAB]);
    else
        *(float *)(void *)at =
            tensor->category == MODEL_PARAMETER ? (float)base_random_below(&random, 2001) / 1000 - 1 : 0;
}

/* What is not set is not a number, so that whoever reads padding or what nobody wrote is found out. */
static void fill(struct run *run)
{
    struct exec_machine *m = &run->machine;
    for (int device = 0; device < m->device_count; device++)
        memset(m->arenas[device], 0xff, (size_t)m->map.arena_bytes);
    for (int v = 0; v < run->sharded.value_count; v++) {
        const struct sim_value *value = &run->sharded.values[v];
        const struct model_tensor *tensor = &run->sharded.program->tensors[value->tensor];
        if (!is_given(value)) continue;
        for (int64_t layer = 0; layer < m->sizes[tensor->layers]; layer++)
            for (int device = 0; device < m->device_count; device++) {
                struct walk w = walk_begin(run, value, device);
                m->index[tensor->layers] = layer;
                char *base = exec_address(m, v, device);
                if (walk_is_empty(&w)) continue;
                do
                    set_element(run, value, base + 4 * walk_local(&w),
                                layer * MOST_ELEMENTS + walk_global(&w, m->sizes));
                while (walk_next(&w));
            }
        m->index[tensor->layers] = 0;
    }
}

/* A result as one array, from the devices that have it; false: two of them have different elements. */
static bool collect(const struct run *run, int tensor, float *whole)
{
    bool same = true, seen[MOST_ELEMENTS] = {false};
    for (int v = 0; v < run->sharded.value_count; v++) {
        const struct sim_value *value = &run->sharded.values[v];
        if (!is_given(value) || value->tensor != tensor) continue;
        for (int device = 0; device < run->machine.device_count; device++) {
            struct walk w = walk_begin(run, value, device);
            const float *base = (const float *)(const void *)exec_address(&run->machine, v, device);
            if (walk_is_empty(&w)) continue;
            do {
                int64_t at = walk_global(&w, run->machine.sizes);
                float element = base[walk_local(&w)];
                same = same && (!seen[at] || whole[at] == element || !isfinite(element));
                whole[at] = element;
                seen[at] = true;
            } while (walk_next(&w));
        }
        break;
    }
    return same;
}

/* ---- comparing ---- */

static int64_t element_count(const struct draft *d, int tensor)
{
    int64_t count = 1;
    for (int i = 0; i < d->program.tensors[tensor].rank; i++) count *= d->sizes[d->program.tensors[tensor].dims[i]];
    return count;
}

static const char *compare(struct draft *d, const struct run *sharded, const struct run *whole)
{
    enum { TOLERANCE_PARTS = 5000 };
    for (int tensor = 0; tensor < d->program.tensor_count; tensor++) {
        const struct model_tensor *t = &d->program.tensors[tensor];
        if (t->category != MODEL_OPTIMIZER_STATE) continue;
        int64_t count = element_count(d, tensor);
        float *a = base_new(d->arena, float, count), *b = base_new(d->arena, float, count);
        double off = 0, size = 0;
        if (!collect(sharded, tensor, a))
            return base_print(d->arena, "%s: devices that have one part disagree", t->name);
        collect(whole, tensor, b);
        for (int64_t i = 0; i < count; i++) {
            off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
            size += (double)b[i] * (double)b[i];
        }
        if (!isfinite(size)) return "";                          /* products of products */
        if (!(sqrt(off) * TOLERANCE_PARTS <= sqrt(size) + 0.01)) /* numbers near one may cancel */
            return base_print(d->arena, "%s is off by %.3g of %.3g", t->name, sqrt(off), sqrt(size));
    }
    return NULL;
}

/* What the programs that ran had in them; without it the test would prove little. */
struct seen {
    int programs, collectives[SIM_COLLECTIVE_COUNT], uneven, both, saved, peeled;
};

static bool is_uneven(const struct sim_executable *executable)
{
    const struct sim_sharded *s = executable->sharded;
    for (int v = 0; v < s->value_count; v++) {
        const struct model_tensor *t = &s->program->tensors[s->values[v].tensor];
        for (int i = 0; i < t->rank; i++)
            if (executable->sizes[t->dims[i]] % topo_axes_product(&executable->mesh, sim_set_of(s->values[v].spec[i])))
                return true;
    }
    return false;
}

static void look(const struct draft *d, const struct run *run, struct seen *seen)
{
    bool both = false, saved = false, peeled = false;
    for (int i = 0; i < run->sharded.op_count; i++) {
        const struct sim_op *op = &run->sharded.ops[i];
        if (op->kind == SIM_COMMUNICATE) seen->collectives[op->collective]++;
        peeled = peeled || (op->kind == SIM_LOOP_BEGIN && op->trips == MODEL_LATER_DECODER_LAYERS);
    }
    for (int v = 0; v < run->sharded.value_count; v++) {
        const struct sim_value *value = &run->sharded.values[v];
        saved = saved || value->saved;
        for (int i = 0; i < d->program.tensors[value->tensor].rank; i++)
            both = both || __builtin_popcount(sim_set_of(value->spec[i])) > 1;
    }
    seen->programs++;
    seen->uneven += is_uneven(&run->executable), seen->both += both, seen->saved += saved, seen->peeled += peeled;
}

/* What each operation reads, and where that is made. */
static void put_operands(const struct draft *d, const struct sim_sharded *s, struct base_text *text)
{
    const struct topo_axes mesh = mesh_of(d->recipe);
    for (int i = 0; i < s->op_count; i++) {
        base_putf(text, "%3d %s reads", i, s->ops[i].op->name);
        for (int j = 0; j < s->ops[i].input_count; j++) {
            const struct sim_value *value = &s->values[s->ops[i].inputs[j]];
            const struct model_tensor *t = &d->program.tensors[value->tensor];
            base_putf(text, " %s[", t->name);
            for (int k = 0; k < t->rank; k++)
                base_putf(text, "%s%s", k ? "," : "", sim_order_text(d->arena, &mesh, value->spec[k], "+"));
            base_putf(text, "] of %d,", value->definition);
        }
        base_put(text, "\n");
    }
}

/* Why a program fails; "" if it computes nothing finite; NULL if all is well. */
static const char *why_it_fails(struct base_arena *arena, const struct recipe *recipe, struct seen *seen,
                                struct base_text *text)
{
    struct topo_axes mesh = mesh_of(recipe), one = mesh;
    for (int i = 0; i < one.count; i++) one.sizes[i] = 1;
    struct draft *d = new_draft(arena, recipe);
    struct sim_cache *cache = sim_cache_new(arena);
    struct run *sharded = base_new(arena, struct run, 1), *whole = base_new(arena, struct run, 1);
    struct base_error error;
    const char *why = "";
    make_program(d);
    enum base_status status = begin(d, cache, &mesh, sharded, &error);
    if (status == BASE_OK) {
        assert_ok(begin(d, cache, &one, whole, &error), &error);
        fill(sharded);
        fill(whole);
        exec_step(&sharded->machine);
        exec_step(&whole->machine);
        why = compare(d, sharded, whole);
        if (seen) look(d, sharded, seen);
    } else {
        why = base_copy(arena, error.text);
    }
    if (text) {
        base_putf(text, "mesh %s\n", topo_axes_describe(arena, &mesh));
        lab_put_program(&sharded->sharded, &mesh, d->sizes, NULL, text);
        put_operands(d, &sharded->sharded, text);
    }
    sim_cache_free(cache);
    return why;
}

static bool fails(const struct base_arena *outer, const struct recipe *recipe, struct seen *seen, char reason[400])
{
    struct base_arena arena = {.exhausted = outer->exhausted};
    const char *why = why_it_fails(&arena, recipe, seen, NULL);
    bool failed = why && *why;
    if (failed) snprintf(reason, 400, "%s", why);
    base_arena_free(&arena);
    return failed;
}

/* Fewer operations, fewer loops, fewer shardings, for as long as it still fails. */
static void shrink(const struct base_arena *arena, struct recipe *recipe, char reason[400])
{
    for (bool smaller = true; smaller;) {
        smaller = false;
        struct recipe tries[66 + MOST_AXES];
        int count = 0;
        for (int i = 0; i < BASE_COUNT(tries); i++) {
            struct recipe simpler = *recipe;
            if (i == 0) simpler.op_count--;
            else if (i == 1) simpler.loop_count--;
            else if (i >= 2 && i < 66) simpler.dropped |= UINT64_C(1) << (i - 2);
            else simpler.mesh[i - 66] = simpler.mesh[i - 66] > 2 ? 2 : 1;
            if (simpler.op_count >= 0 && simpler.loop_count >= 0 && memcmp(&simpler, recipe, sizeof simpler) != 0)
                tries[count++] = simpler;
        }
        for (int i = 0; i < count && !smaller; i++) {
            if (!fails(arena, &tries[i], NULL, reason)) continue;
            *recipe = tries[i];
            smaller = true;
        }
    }
}

static struct recipe random_recipe(struct base_random *random, int number)
{
    static const int meshes[][MOST_AXES] = {{2, 2},    {2, 3},    {3, 2},       {4, 2},       {2, 4},
                                            {1, 4},    {3, 1},    {1, 1},       {4, 1},       {1, 3},
                                            {4, 3},    {4},       {2, 2, 2},    {2, 3, 2},    {2, 1, 3},
                                            {4, 2, 2}, {2, 2, 3}, {2, 2, 2, 2}, {1, 2, 2, 2}, {3, 2, 1, 2}};
    struct recipe recipe = {.seed = (uint64_t)number};
    recipe.op_count = 2 + (int)base_random_below(random, 14);
    recipe.loop_count = (int)base_random_below(random, 3);
    memcpy(recipe.mesh, meshes[base_random_below(random, BASE_COUNT(meshes))], sizeof recipe.mesh);
    while (recipe.axis_count < MOST_AXES && recipe.mesh[recipe.axis_count]) recipe.axis_count++;
    return recipe;
}

static void sharded_programs_equal_whole_ones(struct base_arena *arena)
{
    enum { PROGRAMS = 4000 };
    struct base_random random;
    struct seen seen = {0};
    base_random_seed(&random, 1);
    for (int i = 0; i < PROGRAMS; i++) {
        struct recipe recipe = random_recipe(&random, i);
        char reason[400];
        TEST_ROW("program %d", i);
        if (!fails(arena, &recipe, &seen, reason)) continue;
        shrink(arena, &recipe, reason);
        struct base_text text = {.arena = arena};
        why_it_fails(arena, &recipe, NULL, &text);
        fprintf(stderr, "%s\n%s", reason, text.data);
        fail();
    }
    assert_in_range(seen.programs, PROGRAMS * 9 / 10, PROGRAMS);
    assert_true(seen.uneven > PROGRAMS / 2 && seen.both > PROGRAMS / 4 && seen.saved > PROGRAMS / 4 &&
                seen.peeled > PROGRAMS / 20);
    for (int kind = 0; kind < SIM_COLLECTIVE_COUNT; kind++) assert_true(seen.collectives[kind] > PROGRAMS / 100);
}

static const struct test tests[] = {
    TEST(sharded_programs_equal_whole_ones),
};

int main(int argument_count, char **arguments)
{
    struct base_error no_memory;
    if (exec_gemm_begin(&no_memory) != BASE_OK) return 1;
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
