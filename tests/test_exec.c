/* The executor: steps of the real T5X, sharded runs against whole ones, gradients against differences, memory and
 * collectives against what was predicted, checkpoints, batches, and the arithmetic below all that. */
#include "exec/checkpoint.h"
#include "exec/exec.h"
#include "exec/gemm.h"
#include "exec/kernels.h"
#include "exec/onednn.h"
#include "exec/row.h"
#include "exec/vector_math.h"
#include "exec/zarr.h"
#include "tests/numerics.h"
#include "tests/rig.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- plans ---- */

static struct sim_plan checked(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan_text *text)
{
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, &error), &error);
    return plan;
}

/* ---- against the real T5X ---- */

/* submesh: T5X's, or a mesh of named axes. */
static const struct split {
    const char *topology, *submesh, *rules;
    int devices;
} splits[] = {
    {"local:1", "1,1", "standard:1,1", 1},
    {"local:4", "1,1", "standard:1,1", 4},
    {"local:4", "1,4", "standard:1,1", 4},
    {"local:4", "1,2", "standard:2,2", 4},
    {"local:4", "1,1", "zero3", 4},
    {"local:4", "1,2", "megatron", 4},
    {"local:4", "1,2", "gshard", 4},
    {"local:4", "1,2", "optimus", 4},
    {"local:8", "data=2,fsdp=2,tensor=2", "maxtext", 8},
};

/* A microbatch has to have a sequence for each device, as T5X demands of its data. */
static void split_plan(struct sim_plan_text *plan, const struct split *split)
{
    plan->values[SIM_TOPOLOGY] = split->topology;
    bool named = strchr(split->submesh, '=') != NULL;
    plan->values[SIM_ICI_MESH] = named ? split->submesh : NULL;
    plan->values[SIM_SUBMESH] = named ? NULL : split->submesh;
    plan->values[SIM_RULES] = split->rules;
    if (split->devices > 1) plan->values[SIM_NUM_MICROBATCHES] = "2";
}

static void steps_are_those_of_t5x(struct base_arena *arena)
{
    static const char *const cases[] = {"t5_relu_tied", "decoder_only", "scalable_t5"};
    for (int i = 0; i < BASE_COUNT(cases) * BASE_COUNT(splits); i++) {
        const char *name = cases[i / BASE_COUNT(splits)];
        const struct split *split = &splits[i % BASE_COUNT(splits)];
        struct base_arena own = {.exhausted = arena->exhausted};
        TEST_ROW("%s on %s, %s, %s", name, split->topology, split->submesh, split->rules);
        struct sim_plan_text text = test_numerics_plan(&own, name);
        split_plan(&text, split);
        test_steps_are_those_of_t5x(&own, name, &text);
        base_arena_free(&own);
    }
}

/* ---- random plans ---- */

/* A plan as a list of choices, of which 0 is the simplest: so that one that fails can be made simpler. */
enum gene {
    FAMILY,
    LAYERS,
    HEADS,
    GROUPS,
    HEAD_DIM,
    EMBED,
    MLP,
    VOCAB,
    ACTIVATIONS,
    TIED,
    PARALLEL_BLOCK,
    TARGETS,
    INPUTS,
    BATCH,
    MICROBATCHES,
    DATA_AXIS,
    MODEL_AXIS,
    RULES,
    REMAT,
    PARTITIONING,
    SEQUENCE,
    OPTIMIZER,
    HARDWARE,
    AS_PARTITIONED,
    OWN_RULES,
    MESH = OWN_RULES + 8,
    FSDP_AXIS,
    EXPERT_AXIS,
    FEATURES,
    DROPOUT,
    GENE_COUNT
};
struct genome {
    int genes[GENE_COUNT];
};

static const int heads[] = {2, 4, 6}, head_dims[] = {4, 2, 8, 3}, embeds[] = {8, 12, 24, 132},
                 mlps[] = {8, 12, 24, 144}, vocabs[] = {12, 24, 36, 156}, lengths[] = {4, 3, 7},
                 batches[] = {6, 12, 24}, microbatches[] = {1, 2, 3, 6}, axes[] = {1, 2, 3};
static const char *const families[] = {"decoder_only", "encoder_decoder", "scalable_encoder_decoder",
                                       "scalable_decoder_only"},
                         *const activations[] = {"relu", "gelu", "gelu+linear", "silu+linear", "relu+silu"};
/* Without a norm behind it a key's bias moves no softmax: its gradient is all rounding. */
static const char *const features[] = {"",
                                       ",position_encoding=none",
                                       ",position_encoding=rotary",
                                       ",position_encoding=learned,num_positions=9,biases=1,qk_norm=1",
                                       ",norm=layer,biases=1,qk_norm=1",
                                       ",position_encoding=rotary,qk_norm=1,norm=layer",
                                       ",sliding_window=2,sliding_window_every=2"};
static const char *const remats[] = {"none", "minimal", "selective", "full",
                                     "device:query_proj+mlpwi_0+out_proj;offload:decoder_layer_input"},
                         *const partitionings[] = {"none", "data", "data+gradients"};
static const char *const rules[] = {
    "standard:1,1",
    "standard:1,2",
    "standard:2,1",
    "standard:2,2",
    "data_only",
    "zero3",
    "megatron",
    "optimus",
    "gshard",
    "[[\"batch\",\"data\"],[\"length\",\"model\"],[\"vocab\",\"model\"],[\"mlp\",\"model\"]]",
    "[[\"batch\",[\"data\",\"model\"]],[\"vocab\",\"model\"],[\"mlp\",[\"data\",\"model\"]]]",
    "[[\"batch\",\"model\"],[\"heads\",\"data\"],[\"joined_kv\",\"data\"],[\"kv\",\"model\"],[\"embed\",\"model\"]]",
    "[[\"batch\",\"data\"],[\"kv\",\"model\"],[\"vocab\",\"data\"],[\"embed\",\"data\"],[\"mlp\",\"model\"]]",
};
/* The rules of a plan's own: what of these is sharded, and over what, in this order. */
static const char *const own_axes[MESH - OWN_RULES] = {"batch", "vocab",     "embed", "mlp",
                                                       "heads", "joined_kv", "kv",    "length"};
static const char *const own_values[] = {NULL, "\"data\"", "\"model\"", "[\"data\",\"model\"]", "[\"model\",\"data\"]"};
/* The same on a mesh of named axes, and the meshes: T5X's own, then one axis, three, and four. */
static const char *const named_values[][3] = {{NULL},
                                              {"data"},
                                              {"model"},
                                              {"fsdp"},
                                              {"expert"},
                                              {"data", "fsdp"},
                                              {"fsdp", "data"},
                                              {"fsdp", "model"},
                                              {"model", "fsdp"},
                                              {"expert", "data"},
                                              {"data", "fsdp", "model"}};
static const char *const meshes[][4] = {
    {NULL}, {"fsdp"}, {"data", "fsdp", "model"}, {"data", "expert", "fsdp", "model"}};
enum { MOST_DEVICES = 16 };
static const char *const optimizers[] = {"sgd", "adamw", "adafactor", "lion"};
static const char *const hardware[] = {"local:%d", "a100-80g:1x%d"}; /* compilers with other passes */

static const char *const dropout_rates[] = {"0", "0.3"};

static const int limits[GENE_COUNT] = {
    [FAMILY] = BASE_COUNT(families),
    [LAYERS] = 2,
    [HEADS] = BASE_COUNT(heads),
    [GROUPS] = 2,
    [HEAD_DIM] = BASE_COUNT(head_dims),
    [EMBED] = BASE_COUNT(embeds),
    [MLP] = BASE_COUNT(mlps),
    [VOCAB] = BASE_COUNT(vocabs),
    [ACTIVATIONS] = BASE_COUNT(activations),
    [TIED] = 2,
    [PARALLEL_BLOCK] = 2,
    [FEATURES] = BASE_COUNT(features),
    [TARGETS] = BASE_COUNT(lengths),
    [INPUTS] = BASE_COUNT(lengths),
    [BATCH] = BASE_COUNT(batches),
    [MICROBATCHES] = BASE_COUNT(microbatches),
    [DATA_AXIS] = BASE_COUNT(axes),
    [MODEL_AXIS] = BASE_COUNT(axes),
    [RULES] = 2 * BASE_COUNT(rules),
    [REMAT] = BASE_COUNT(remats),
    [PARTITIONING] = BASE_COUNT(partitionings),
    [SEQUENCE] = 2,
    [OPTIMIZER] = BASE_COUNT(optimizers),
    [HARDWARE] = BASE_COUNT(hardware),
    [AS_PARTITIONED] = 2,
    [MESH] = BASE_COUNT(meshes),
    [FSDP_AXIS] = BASE_COUNT(axes),
    [EXPERT_AXIS] = BASE_COUNT(axes),
};

static const char *number(struct base_arena *arena, int value)
{
    return base_print(arena, "%d", value);
}

static const char *model_of(struct base_arena *arena, const int *g)
{
    bool encoder = g[FAMILY] == 1 || g[FAMILY] == 2;
    const char *depth = base_print(arena, encoder ? "num_encoder_layers=%d,num_decoder_layers=%d" : "num_layers=%d",
                                   1 + g[LAYERS], 1 + g[LAYERS]);
    bool odd_heads = head_dims[g[HEAD_DIM]] % 2; /* which nobody can turn */
    const char *more = encoder || (odd_heads && strstr(features[g[FEATURES]], "rotary")) ? "" : features[g[FEATURES]];
    return base_print(arena,
                      "%s:emb_dim=%d,num_heads=%d,num_kv_heads=%d,head_dim=%d,mlp_dim=%d,%s,vocab_size=%d,mlp_"
                      "activations=%s,logits_via_"
                      "embedding=%d,parallel_block=%d%s",
                      families[g[FAMILY]], embeds[g[EMBED]], heads[g[HEADS]],
                      g[GROUPS] ? heads[g[HEADS]] / 2 : heads[g[HEADS]], head_dims[g[HEAD_DIM]], mlps[g[MLP]], depth,
                      vocabs[g[VOCAB]], activations[g[ACTIVATIONS]], g[TIED], g[FAMILY] == 0 ? g[PARALLEL_BLOCK] : 0,
                      more);
}

static struct topo_axes mesh_of(const int *g)
{
    static const struct {
        const char *name;
        enum gene gene;
    } sizes[] = {{"data", DATA_AXIS}, {"model", MODEL_AXIS}, {"fsdp", FSDP_AXIS}, {"expert", EXPERT_AXIS}};
    struct topo_axes mesh = {
        .count = 2, .names = {"data", "model"}, .sizes = {axes[g[DATA_AXIS]], axes[g[MODEL_AXIS]]}};
    if (!g[MESH]) return mesh;
    for (mesh.count = 0; mesh.count < 4 && meshes[g[MESH]][mesh.count]; mesh.count++)
        for (int i = 0; i < BASE_COUNT(sizes); i++) {
            if (strcmp(sizes[i].name, meshes[g[MESH]][mesh.count]) != 0) continue;
            mesh.names[mesh.count] = sizes[i].name;
            mesh.sizes[mesh.count] = axes[g[sizes[i].gene]];
        }
    return mesh;
}

/* Whatever axes the mesh has of a value's. */
static const char *named_rules_of(struct base_arena *arena, const int *g)
{
    struct topo_axes mesh = mesh_of(g);
    struct base_text text = {.arena = arena};
    for (int i = 0; i < BASE_COUNT(own_axes); i++) {
        int count = 0;
        base_putf(&text, "%s[\"%s\",[", text.length ? "," : "[", own_axes[i]);
        for (int j = 0; j < 3; j++) {
            const char *name = named_values[g[OWN_RULES + i]][j];
            if (name && topo_axis_named(&mesh, name) >= 0) base_putf(&text, "%s\"%s\"", count++ ? "," : "", name);
        }
        base_put(&text, "]]");
    }
    base_put(&text, "]");
    return text.data;
}

static const char *rules_of(struct base_arena *arena, const int *g)
{
    if (g[MESH] && (g[MESH] == 1 || g[RULES] >= BASE_COUNT(rules))) return named_rules_of(arena, g);
    if (g[RULES] < BASE_COUNT(rules)) return rules[g[RULES]];
    struct base_text text = {.arena = arena};
    for (int i = 0; i < BASE_COUNT(own_axes); i++)
        if (g[OWN_RULES + i])
            base_putf(&text, "%s[\"%s\",%s]", text.length ? "," : "[", own_axes[i], own_values[g[OWN_RULES + i]]);
    base_put(&text, text.length ? "]" : "[]");
    return text.data;
}

/* A rate so large that a parameter's change shows to float32's own precision. */
static const char *const large_rate = "1000";

static struct sim_plan_text plan_of(struct base_arena *arena, const struct genome *genome, bool whole)
{
    const int *g = genome->genes;
    struct sim_plan_text plan = {{0}};
    struct topo_axes mesh = mesh_of(g);
    int devices = whole ? 1 : topo_axes_product(&mesh, topo_axes_all(&mesh));
    plan.values[SIM_MODEL] = model_of(arena, g);
    plan.values[SIM_TOPOLOGY] = base_print(arena, hardware[whole ? 0 : g[HARDWARE]], devices);
    if (whole || !g[MESH]) plan.values[SIM_SUBMESH] = base_print(arena, "1,%d", whole ? 1 : axes[g[MODEL_AXIS]]);
    else plan.values[SIM_ICI_MESH] = topo_axes_sizes(arena, &mesh);
    plan.values[SIM_RULES] = whole ? rules[0] : rules_of(arena, g);
    plan.values[SIM_TARGETS_LENGTH] = number(arena, lengths[g[TARGETS]]);
    plan.values[SIM_INPUTS_LENGTH] = number(arena, lengths[g[INPUTS]]);
    plan.values[SIM_BATCH_SIZE] = number(arena, batches[g[BATCH]]);
    const bool same_masks = g[DROPOUT]; /* each microbatch draws its own */
    plan.values[SIM_NUM_MICROBATCHES] = number(arena, whole && !same_masks ? 1 : microbatches[g[MICROBATCHES]]);
    plan.values[SIM_DROPOUT_RATE] = dropout_rates[g[DROPOUT]];
    plan.values[SIM_OPTIMIZER] = optimizers[g[OPTIMIZER]];
    plan.values[SIM_LEARNING_RATE] = large_rate;
    plan.values[SIM_REMAT_POLICY] = whole ? remats[0] : remats[g[REMAT]];
    plan.values[SIM_OPTIMIZER_PARTITIONING] = whole ? partitionings[0] : partitionings[g[PARTITIONING]];
    plan.values[SIM_SEQUENCE_PARALLEL] = whole ? "0" : number(arena, g[SEQUENCE]);
    return plan;
}

/* Scanned layers move whole stacks in every turn then, which is counted and never run. */
static bool is_as_partitioned(const struct genome *genome)
{
    return genome->genes[AS_PARTITIONED] &&
           strncmp(families[genome->genes[FAMILY]], "scalable", strlen("scalable")) != 0;
}

static struct genome random_genome(struct base_random *random)
{
    struct genome genome = {{0}};
    for (int i = 0; i < MESH; i++)
        genome.genes[i] = (int)base_random_below(random, i < OWN_RULES ? limits[i] : BASE_COUNT(own_values));
    for (int i = 0; i < OWN_RULES; i++) genome.genes[FEATURES] += genome.genes[i]; /* so that no draw is another one */
    genome.genes[FEATURES] %= limits[FEATURES];
    return genome;
}

static struct genome random_genome_with_dropout(struct base_random *random)
{
    struct genome genome = random_genome(random);
    genome.genes[DROPOUT] = 1;
    return genome;
}

/* On a mesh of one to four named axes. */
static struct genome random_named_genome(struct base_random *random)
{
    struct genome genome = random_genome(random);
    struct topo_axes mesh;
    for (int i = OWN_RULES; i < MESH; i++) genome.genes[i] = (int)base_random_below(random, BASE_COUNT(named_values));
    genome.genes[MESH] = 1 + (int)base_random_below(random, BASE_COUNT(meshes) - 1);
    do {
        genome.genes[DATA_AXIS] = (int)base_random_below(random, BASE_COUNT(axes));
        genome.genes[MODEL_AXIS] = (int)base_random_below(random, BASE_COUNT(axes));
        genome.genes[FSDP_AXIS] = (int)base_random_below(random, BASE_COUNT(axes));
        genome.genes[EXPERT_AXIS] = (int)base_random_below(random, BASE_COUNT(axes));
        mesh = mesh_of(genome.genes);
    } while (topo_axes_product(&mesh, topo_axes_all(&mesh)) > MOST_DEVICES);
    return genome;
}

/* ---- machines under test ---- */

static enum base_status rig_begin(struct base_arena *arena, const struct sim_plan_text *text, struct rig *rig,
                                  struct base_error *error)
{
    return rig_begin_as(arena, text, SIM_AS_EXECUTED, rig, error);
}

/* Runs a step and gives what every parameter lost by it, divided by the rate. */
static float **gradients(struct base_arena *arena, struct rig *rig)
{
    float **before = base_new(arena, float *, rig->array_count), **change = base_new(arena, float *, rig->array_count);
    for (int i = 0; i < rig->array_count; i++) before[i] = whole_array(arena, rig, i);
    exec_step(&rig->machine);
    for (int i = 0; i < rig->array_count; i++) {
        change[i] = whole_array(arena, rig, i);
        for (int64_t j = 0; j < elements_of(&rig->arrays[i]); j++) change[i][j] = (before[i][j] - change[i][j]) / 1000;
    }
    return change;
}

static double norm_of(const float *values, int64_t count)
{
    return sqrt(exec_row_squares(values, count));
}

/* ---- sharded runs against whole ones ---- */

/* Parameters, or state of one kind ("…v_row"), are of one order of size. */
static const char *kind_of(const struct exec_array *array)
{
    return !strncmp(array->path, "target.", strlen("target.")) ? "target" : strrchr(array->path, '.');
}

/* Of all arrays of that kind together. */
static double norm_of_kind(const struct rig *rig, float **values, const char *kind)
{
    double sum = 0;
    for (int i = 0; i < rig->array_count; i++)
        if (!strcmp(kind_of(&rig->arrays[i]), kind)) sum += exec_row_squares(values[i], elements_of(&rig->arrays[i]));
    return sqrt(sum);
}

/* The first update of AdamW and of Adafactor is little more than the gradient's sign, which rounding decides where
 * there is nearly no gradient; their state is not. */
static const char *compare_array(struct base_arena *arena, struct rig *whole, float **a, float **b, int i,
                                 double tolerance)
{
    const char *kind = kind_of(&whole->arrays[i]);
    int64_t count = elements_of(&whole->arrays[i]);
    bool sign = whole->plan.options.optimizer != MODEL_SGD && !strcmp(kind, "target");
    double size = norm_of(b[i], count), least = 1e-2 * norm_of_kind(whole, b, kind);
    for (int64_t j = 0; j < count; j++) a[i][j] -= b[i][j];
    double off = norm_of(a[i], count);
    if (off <= (sign ? 0.25 : tolerance) * fmax(size, least)) return NULL;
    return base_print(arena, "the change of %s is off by %.3g of %.3g", whole->arrays[i].path, off, size);
}

/* The reason why the two disagree, or NULL. */
static const char *compare_gradients(struct base_arena *arena, struct rig *sharded, struct rig *whole, double tolerance)
{
    float **a = gradients(arena, sharded), **b = gradients(arena, whole);
    double total = sqrt(whole->machine.gradient_square_sum),
           loss = sharded->machine.loss_sum / sharded->machine.weight_sum,
           expected = whole->machine.loss_sum / whole->machine.weight_sum;
    const char *why = NULL;
    if (!test_is_near(loss, expected, tolerance / 10))
        return base_print(arena, "loss is %.9g, whole %.9g", loss, expected);
    if (!test_is_near(sqrt(sharded->machine.gradient_square_sum), total, tolerance))
        return base_print(arena, "gradient norm is %.9g, whole %.9g", sqrt(sharded->machine.gradient_square_sum),
                          total);
    for (int i = 0; i < whole->array_count && !why; i++) why = compare_array(arena, whole, a, b, i, tolerance);
    return why;
}

static bool same_row(const struct sim_collective_row *a, const struct sim_collective_row *b)
{
    return a->kind == b->kind && a->axes == b->axes && a->dtype == b->dtype && a->count == b->count &&
           a->bytes == b->bytes;
}

/* Memory and collectives are what sim/ says of the plan. */
static const char *compare_prediction(struct base_arena *arena, struct rig *rig)
{
    struct sim_prediction prediction;
    struct base_error error;
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    const struct sim_memory *m = &prediction.memory;
    if (sim_predict(rig->cache, &rig->plan, &prediction, &detail, &error) != BASE_OK)
        return base_copy(arena, error.text);
    if (m->peak_bytes - m->reserved_bytes != rig->machine.map.arena_bytes)
        return base_print(arena, "peak_bytes is %lld, predicted %lld", (long long)rig->machine.map.arena_bytes,
                          (long long)m->peak_bytes);
    int64_t sum = m->parameter_bytes + m->optimizer_state_bytes + m->gradient_bytes + m->activation_bytes +
                  m->temporary_bytes + m->reserved_bytes;
    if (sum != m->peak_bytes)
        return base_print(arena, "the categories add up to %lld of %lld", (long long)sum, (long long)m->peak_bytes);
    if (detail.collectives.count != rig->machine.collectives.count)
        return base_print(arena, "%d rows of collectives, predicted %d", rig->machine.collectives.count,
                          detail.collectives.count);
    for (int i = 0; i < detail.collectives.count; i++) {
        bool found = false;
        for (int j = 0; j < rig->machine.collectives.count; j++)
            found = found || same_row(&detail.collectives.rows[i], &rig->machine.collectives.rows[j]);
        if (!found)
            return base_print(arena, "a predicted collective of %s was not measured",
                              detail.collectives.rows[i].first_op);
    }
    return NULL;
}

/* Why the plan fails, "" if it cannot be a plan, NULL if all is well. */
static const char *why_it_fails(struct base_arena *arena, const struct genome *genome, const char *dtype,
                                double tolerance)
{
    struct base_error error;
    struct rig sharded = {.cache = NULL}, whole = {.cache = NULL};
    struct sim_plan_text sharded_text = plan_of(arena, genome, false), whole_text = plan_of(arena, genome, true);
    sharded_text.values[SIM_DTYPE] = whole_text.values[SIM_DTYPE] = dtype;
    bool wide = !strcmp(dtype, "float32"); /* else signs would show the dtype alone */
    if (!wide) sharded_text.values[SIM_OPTIMIZER] = whole_text.values[SIM_OPTIMIZER] = "sgd";
    const char *why = "";
    if (rig_begin_as(arena, &sharded_text,
                     is_as_partitioned(genome) ? SIM_AS_PARTITIONED_AND_EXECUTED : SIM_AS_EXECUTED, &sharded,
                     &error) == BASE_OK) {
        why = rig_begin(arena, &whole_text, &whole, &error) == BASE_OK
                  ? compare_gradients(arena, &sharded, &whole, tolerance)
                  : error.text;
        if (!why) why = compare_prediction(arena, &sharded);
        if (why) why = base_copy(arena, why);
    } else if (sharded.program.sharded) {
        why = base_copy(arena, error.text);
    }
    if (sharded.cache) sim_cache_free(sharded.cache);
    if (whole.cache) sim_cache_free(whole.cache);
    return why;
}

static bool fails(const struct base_arena *outer, const struct genome *genome, const char *dtype, double tolerance,
                  char reason[400], bool *runs)
{
    struct base_arena arena = {.exhausted = outer->exhausted};
    const char *why = why_it_fails(&arena, genome, dtype, tolerance);
    *runs = !why || *why;
    snprintf(reason, 400, "%s", why ? why : "");
    base_arena_free(&arena); /* and why with it */
    return *reason;
}

/* Takes every choice as far to the simple end as it still fails. */
static void shrink(const struct base_arena *arena, struct genome *genome, const char *dtype, double tolerance,
                   char reason[400])
{
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (int i = 0; i < GENE_COUNT; i++)
            for (int value = 0; value < genome->genes[i]; value++) {
                struct genome simpler = *genome;
                char why[400];
                bool runs;
                simpler.genes[i] = value;
                if (!fails(arena, &simpler, dtype, tolerance, why, &runs)) continue;
                *genome = simpler;
                memcpy(reason, why, sizeof why);
                smaller = true;
                break;
            }
    }
}

static void report(struct base_arena *arena, const struct genome *genome, const char *reason)
{
    struct sim_plan_text plan = plan_of(arena, genome, false);
    print_error("%s\n", reason);
    for (int i = 0; i < SIM_KEY_COUNT; i++)
        if (plan.values[i]) print_error("  %s %s\n", sim_plan_keys[i].name, plan.values[i]);
    if (is_as_partitioned(genome)) print_error("  as partitioned\n");
    fail();
}

static void run_random_plans(struct base_arena *arena, struct genome (*draw)(struct base_random *), uint64_t seed,
                             int wanted, const char *dtype, double tolerance)
{
    enum { MOST_TRIES = 4000 };
    struct base_random random;
    int count = 0;
    base_random_seed(&random, seed);
    for (int i = 0; i < MOST_TRIES && count < wanted; i++) {
        struct genome genome = draw(&random);
        char reason[400];
        bool runs;
        if (fails(arena, &genome, dtype, tolerance, reason, &runs)) {
            shrink(arena, &genome, dtype, tolerance, reason);
            report(arena, &genome, reason);
        }
        count += runs;
    }
    assert_int_equal(count, wanted);
}

static void sharded_runs_equal_whole_ones(struct base_arena *arena)
{
    run_random_plans(arena, random_genome, 1, 600, "float32", 5e-4);
}

static void sharded_bfloat16_runs_equal_whole_ones(struct base_arena *arena)
{
    run_random_plans(arena, random_genome, 2, 200, "bfloat16", 0.3);
}

/* XLA:TPU sums bfloat16 gradients over devices in bfloat16 behind the loop over microbatches: their norm is of what the
 * update reads, whatever its dtype. */
static void norms_are_of_sums_as_they_are(struct base_arena *arena)
{
    const struct genome genome = {{[EMBED] = 1, [BATCH] = 1, [MICROBATCHES] = 1}};
    struct sim_plan_text sharded_text = plan_of(arena, &genome, false), whole_text = plan_of(arena, &genome, true);
    struct rig sharded, whole;
    struct base_error error;
    sharded_text.values[SIM_TOPOLOGY] = "v5e:1x2";
    sharded_text.values[SIM_COMPILER] = "software"; /* of T5X's time: the newest sums them in float32 */
    sharded_text.values[SIM_SUBMESH] = "1,1,1,1";
    sharded_text.values[SIM_BATCH_SIZE] = whole_text.values[SIM_BATCH_SIZE] = "8";
    sharded_text.values[SIM_NUM_MICROBATCHES] = "2";
    sharded_text.values[SIM_DTYPE] = whole_text.values[SIM_DTYPE] = "bfloat16";
    assert_ok(rig_begin(arena, &sharded_text, &sharded, &error), &error);
    assert_ok(rig_begin(arena, &whole_text, &whole, &error), &error);
    bool narrow = false;
    for (int i = 0; i < sharded.machine.s->op_count; i++) {
        const struct sim_op *op = &sharded.machine.s->ops[i];
        narrow = narrow || (op->kind == SIM_COMPUTE && op->op->kind == MODEL_UPDATE &&
                            sharded.machine.s->values[op->inputs[1]].dtype == MODEL_BFLOAT16);
    }
    assert_true(narrow);
    const char *why = compare_gradients(arena, &sharded, &whole, 0.1);
    if (why) print_error("%s\n", why);
    assert_null(why);
    sim_cache_free(sharded.cache);
    sim_cache_free(whole.cache);
}

static void runs_on_named_meshes_equal_whole_ones(struct base_arena *arena)
{
    run_random_plans(arena, random_named_genome, 3, 300, "float32", 5e-4);
}

/* However the model is sharded, and whatever the backward pass recomputes, the masks are the same. */
static void dropout_draws_the_same_masks_on_every_mesh(struct base_arena *arena)
{
    run_random_plans(arena, random_genome_with_dropout, 4, 200, "float32", 5e-4);
}

/* A mask drops its share, differs by step, microbatch, layer and name, and is drawn again as it was. */
static void masks_drop_their_share(struct base_arena *arena)
{
    struct genome genome = {{[LAYERS] = 1, [BATCH] = 1, [EMBED] = 3, [DROPOUT] = 1}};
    struct sim_plan_text text = plan_of(arena, &genome, true);
    struct rig rig;
    struct base_error error;
    assert_ok(rig_begin(arena, &text, &rig, &error), &error);
    enum { COUNT = 1 << 16 };
    uint32_t seen[64];
    int masks = 0;
    for (int i = 0; i < rig.machine.s->op_count; i++) {
        const struct sim_op *op = &rig.machine.s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->function != MODEL_DROPOUT_MASK) continue;
        for (rig.machine.step = 0; rig.machine.step < 2; rig.machine.step++)
            for (int layer = 0; layer < (op->loop >= 0 ? 2 : 1); layer++) {
                rig.machine.index[MODEL_DECODER_LAYERS] = layer;
                float *mask = base_new(arena, float, COUNT);
                struct exec_row row = {.n = COUNT, .out = {mask}, .count = COUNT, .machine = &rig.machine};
                row.key = exec_mask_key(&rig.machine, op);
                exec_row_dropout_mask(&row);
                assert_near(exec_row_sum(mask, COUNT) / COUNT, 0.7, 0.01);
                for (int other = 0; other < masks; other++) assert_true(seen[other] != row.key.words[0]);
                seen[masks++] = row.key.words[0];
            }
    }
    assert_true(masks >= 10);
    sim_cache_free(rig.cache);
}

/* bfloat16 keeps eight bits; gradients through several layers keep fewer. */
static void check_bfloat16(struct base_arena *arena, const struct genome *genome)
{
    struct sim_plan_text narrow = plan_of(arena, genome, true), wide = narrow;
    struct rig rigs[2];
    struct base_error error;
    narrow.values[SIM_DTYPE] = "bfloat16", wide.values[SIM_DTYPE] = "float32";
    narrow.values[SIM_OPTIMIZER] = wide.values[SIM_OPTIMIZER] = "sgd";
    assert_ok(rig_begin(arena, &narrow, &rigs[0], &error), &error);
    assert_ok(rig_begin(arena, &wide, &rigs[1], &error), &error);
    float **a = gradients(arena, &rigs[0]), **b = gradients(arena, &rigs[1]);
    double off = 0, size = 0;
    for (int i = 0; i < rigs[0].array_count; i++) {
        int64_t count = elements_of(&rigs[0].arrays[i]);
        for (int64_t j = 0; j < count; j++) a[i][j] -= b[i][j];
        off += exec_row_squares(a[i], count), size += exec_row_squares(b[i], count);
    }
    assert_near(rigs[0].machine.loss_sum, rigs[1].machine.loss_sum, 0.03);
    assert_true(off > 0 && sqrt(off) < 0.2 * sqrt(size));
    for (int i = 0; i < 2; i++) sim_cache_free(rigs[i].cache);
}

static void bfloat16_stays_near(struct base_arena *arena)
{
    struct base_random random;
    base_random_seed(&random, 2);
    for (int i = 0; i < 40; i++) {
        struct base_arena own = {.exhausted = arena->exhausted};
        struct genome genome = random_genome(&random);
        genome.genes[GROUPS] = 0; /* not every family has them */
        TEST_ROW("%s", plan_of(&own, &genome, true).values[SIM_MODEL]);
        check_bfloat16(&own, &genome);
        base_arena_free(&own);
    }
}

/* ---- sharded state ---- */

static void rig_begin_training(struct base_arena *arena, struct sim_plan_text *text, const char *partitioning,
                               struct rig *rig)
{
    struct base_error error;
    text->values[SIM_OPTIMIZER_PARTITIONING] = partitioning;
    assert_ok(rig_begin(arena, text, rig, &error), &error);
    for (int i = 0; i < rig->array_count; i++) {
        struct exec_region all = exec_whole(&rig->arrays[i]);
        if (strncmp(rig->arrays[i].path, "state.", strlen("state.")) || rig->arrays[i].value < 0) continue;
        exec_scatter(&rig->machine, &rig->arrays[i], &all, base_new(arena, float, elements_of(&rig->arrays[i])));
    }
}

static void check_state(struct base_arena *arena, struct sim_plan_text text)
{
    struct rig sharded, whole;
    rig_begin_training(arena, &text, "data", &sharded);
    rig_begin_training(arena, &text, "none", &whole);
    for (int step = 0; step < 2; step++) exec_step(&sharded.machine), exec_step(&whole.machine);
    assert_int_equal(sharded.array_count, whole.array_count);
    for (int i = 0; i < whole.array_count; i++) {
        const float *a = whole_array(arena, &sharded, i), *b = whole_array(arena, &whole, i);
        for (int64_t j = 0; j < elements_of(&whole.arrays[i]); j++)
            if (!test_is_near(a[j], b[j], 1e-5) && !(fabs(a[j] - b[j]) <= 1e-7))
                fail_msg("%s[%lld] is %.9g, not %.9g", whole.arrays[i].path, (long long)j, a[j], b[j]);
    }
    sim_cache_free(sharded.cache);
    sim_cache_free(whole.cache);
}

/* ZeRO-1 updates slices of parameters and puts them together: every device's copy is what it would have been. Stacks of
 * scanned layers are gathered as one array, whatever their sizes. */
static void sharded_state_changes_no_parameter(struct base_arena *arena)
{
    static const char *const sizes[] = {"emb_dim=8,num_heads=2,head_dim=4,mlp_dim=12,num_layers=2,vocab_size=12",
                                        "emb_dim=26,num_heads=2,head_dim=7,mlp_dim=22,num_layers=5,vocab_size=34"};
    static const char *const counts[] = {"1", "2"};
    static const char *const models[] = {"decoder_only", "scalable_decoder_only"};
    for (int i = 0; i < 24; i++) {
        struct sim_plan_text text = {{[SIM_TOPOLOGY] = "local:4",
                                      [SIM_SUBMESH] = "1,2",
                                      [SIM_RULES] = "standard:1,1",
                                      [SIM_TARGETS_LENGTH] = "6",
                                      [SIM_BATCH_SIZE] = "8",
                                      [SIM_OPTIMIZER] = optimizers[i / 8],
                                      [SIM_NUM_MICROBATCHES] = counts[i / 4 % 2],
                                      [SIM_DTYPE] = "float32",
                                      [SIM_LEARNING_RATE] = "0.1"}};
        text.values[SIM_MODEL] =
            base_print(arena, "%s:%s,mlp_activations=relu,logits_via_embedding=1", models[i % 2], sizes[i / 2 % 2]);
        TEST_ROW("%s, %s, %s microbatches", text.values[SIM_MODEL], text.values[SIM_OPTIMIZER],
                 text.values[SIM_NUM_MICROBATCHES]);
        check_state(arena, text);
    }
}

/* ---- gradients against differences ---- */

static double loss_of(struct rig *rig)
{
    exec_step(&rig->machine);
    return rig->machine.loss_sum;
}

static void move_array(struct base_arena *arena, struct rig *rig, int which, const float *start, const float *direction,
                       double step)
{
    int64_t count = elements_of(&rig->arrays[which]);
    float *moved = base_new(arena, float, count);
    for (int64_t j = 0; j < count; j++) moved[j] = start[j] + (float)step * direction[j];
    struct exec_region all = exec_whole(&rig->arrays[which]);
    exec_scatter(&rig->machine, &rig->arrays[which], &all, moved);
}

/* Along its own direction the loss changes by the gradient's length; a wrong component would make it longer than that.
 */
static void check_gradients(struct base_arena *arena, const struct genome *genome)
{
    struct base_error error;
    struct rig gradient_rig, loss_rig;
    struct sim_plan_text text = plan_of(arena, genome, false);
    assert_ok(rig_begin(arena, &text, &gradient_rig, &error), &error);
    float **g = gradients(arena, &gradient_rig);
    double tokens = (double)gradient_rig.plan.batch_size * (double)gradient_rig.plan.targets_length,
           total = sqrt(gradient_rig.machine.gradient_square_sum);
    text.values[SIM_LEARNING_RATE] = "0";
    assert_ok(rig_begin(arena, &text, &loss_rig, &error), &error);
    for (int i = 0; i < loss_rig.array_count; i++) {
        int64_t count = elements_of(&loss_rig.arrays[i]);
        double length = norm_of(g[i], count), step = 1e-2;
        if (length < 1e-2 * total) continue; /* differences in float32 would not see it */
        for (int64_t j = 0; j < count; j++) g[i][j] = (float)((double)g[i][j] / length);
        float *start = whole_array(arena, &loss_rig, i);
        move_array(arena, &loss_rig, i, start, g[i], step);
        double above = loss_of(&loss_rig);
        move_array(arena, &loss_rig, i, start, g[i], -step);
        double below = loss_of(&loss_rig);
        move_array(arena, &loss_rig, i, start, g[i], 0);
        if (!test_is_near((above - below) / (2 * step) / tokens, length, 2e-2))
            print_error("%s in %s\n", loss_rig.arrays[i].path, text.values[SIM_MODEL]);
        assert_near((above - below) / (2 * step) / tokens, length, 2e-2);
    }
    sim_cache_free(gradient_rig.cache);
    sim_cache_free(loss_rig.cache);
}

static void gradients_are_those_of_differences(struct base_arena *arena)
{
    static const struct genome genomes[] = {
        {{[FAMILY] = 0, [LAYERS] = 1, [ACTIVATIONS] = 2, [TIED] = 1, [EMBED] = 1}},
        {{[FAMILY] = 1, [LAYERS] = 1, [ACTIVATIONS] = 3, [INPUTS] = 2}},
        {{[FAMILY] = 2, [LAYERS] = 1, [ACTIVATIONS] = 1, [TIED] = 1, [DATA_AXIS] = 1, [MODEL_AXIS] = 1}},
        {{[FAMILY] = 3, [LAYERS] = 1, [ACTIVATIONS] = 4, [GROUPS] = 1, [HEADS] = 1}},
        {{[FAMILY] = 0,
          [LAYERS] = 1,
          [ACTIVATIONS] = 2,
          [PARALLEL_BLOCK] = 1,
          [GROUPS] = 1,
          [HEADS] = 1,
          [REMAT] = 3,
          [MICROBATCHES] = 1}},
        {{[LAYERS] = 1, [ACTIVATIONS] = 3, [FEATURES] = 1}},
        {{[LAYERS] = 1, [ACTIVATIONS] = 3, [GROUPS] = 1, [FEATURES] = 2, [REMAT] = 3}},
        {{[FAMILY] = 3, [LAYERS] = 1, [ACTIVATIONS] = 1, [FEATURES] = 3}},
        {{[LAYERS] = 1, [ACTIVATIONS] = 2, [FEATURES] = 4}},
        {{[FAMILY] = 3, [LAYERS] = 1, [ACTIVATIONS] = 3, [GROUPS] = 1, [HEADS] = 1, [FEATURES] = 5, [REMAT] = 1}},
        {{[LAYERS] = 1, [TARGETS] = 2, [ACTIVATIONS] = 1, [FEATURES] = 6}},
        {{[LAYERS] = 1, [ACTIVATIONS] = 3, [GROUPS] = 1, [FEATURES] = 2, [REMAT] = 4}},
        {{[FAMILY] = 3, [LAYERS] = 1, [ACTIVATIONS] = 3, [TIED] = 1, [REMAT] = 4, [MICROBATCHES] = 1}},
        {{[LAYERS] = 1, [ACTIVATIONS] = 2, [DROPOUT] = 1, [MICROBATCHES] = 1, [MODEL_AXIS] = 1}},
        {{[FAMILY] = 2, [LAYERS] = 1, [ACTIVATIONS] = 3, [INPUTS] = 2, [REMAT] = 3, [DROPOUT] = 1}},
        {{[FAMILY] = 1, [LAYERS] = 1, [ACTIVATIONS] = 1, [REMAT] = 2, [DATA_AXIS] = 1, [DROPOUT] = 1}},
    };
    for (int i = 0; i < BASE_COUNT(genomes); i++) {
        TEST_ROW("model %d", i);
        check_gradients(arena, &genomes[i]);
    }
}

/* ---- a Llama, computed here ---- */

enum {
    L_EMBED = 8,
    L_HEADS = 4,
    L_KV = 2,
    L_HEAD = 4,
    L_MLP = 12,
    L_LAYERS = 2,
    L_VOCAB = 12,
    L_LENGTH = 5,
    L_BATCH = 3
};

static const float *named_array(struct base_arena *arena, const struct rig *rig, const char *path)
{
    for (int i = 0; i < rig->array_count; i++)
        if (!strcmp(rig->arrays[i].path, path)) return whole_array(arena, rig, i);
    fail_msg("no array is called %s", path);
    return NULL;
}

static void times_matrix(const double *x, const float *matrix, int from, int to, double *out)
{
    for (int j = 0; j < to; j++) {
        out[j] = 0;
        for (int i = 0; i < from; i++) out[j] += x[i] * (double)matrix[i * to + j];
    }
}

static void llama_norm(const double *x, const float *scale, double *out)
{
    double squares = 0;
    for (int i = 0; i < L_EMBED; i++) squares += x[i] * x[i];
    for (int i = 0; i < L_EMBED; i++) out[i] = x[i] / sqrt(squares / L_EMBED + 1e-6) * (double)scale[i];
}

/* As complex numbers whose real parts are the first half of a head. */
static void llama_turn(double *x, int count, int position)
{
    for (int h = 0; h < count; h++)
        for (int i = 0; i < L_HEAD / 2; i++) {
            double *re = &x[h * L_HEAD + i], *im = re + L_HEAD / 2, was = *re,
                   angle = position / pow(10000, 2.0 * i / L_HEAD);
            *re = was * cos(angle) - *im * sin(angle);
            *im = *im * cos(angle) + was * sin(angle);
        }
}

struct llama_layer {
    const float *attention_norm, *q, *k, *v, *out, *mlp_norm, *wi_0, *wi_1, *wo;
};

/* One sequence through one layer, in place; a token 0 is padding, which no query sees, and which sees all alike. */
static void llama_apply(const struct llama_layer *w, const int32_t *targets, double x[L_LENGTH][L_EMBED])
{
    double q[L_LENGTH][L_HEADS * L_HEAD], k[L_LENGTH][L_KV * L_HEAD], v[L_LENGTH][L_KV * L_HEAD], normed[L_EMBED];
    for (int t = 0; t < L_LENGTH; t++) {
        llama_norm(x[t], w->attention_norm, normed);
        times_matrix(normed, w->q, L_EMBED, L_HEADS * L_HEAD, q[t]);
        times_matrix(normed, w->k, L_EMBED, L_KV * L_HEAD, k[t]);
        times_matrix(normed, w->v, L_EMBED, L_KV * L_HEAD, v[t]);
        llama_turn(q[t], L_HEADS, t);
        llama_turn(k[t], L_KV, t);
    }
    for (int t = 0; t < L_LENGTH; t++) {
        double context[L_HEADS * L_HEAD] = {0}, added[L_EMBED], hidden[L_MLP], gate[L_MLP];
        for (int h = 0; h < L_HEADS; h++) {
            double weights[L_LENGTH], sum = 0;
            const int of = h / (L_HEADS / L_KV) * L_HEAD;
            for (int s = 0; s < L_LENGTH; s++) {
                double score = s <= t && targets[t] && targets[s] ? 0 : -1e10;
                for (int i = 0; i < L_HEAD; i++) score += q[t][h * L_HEAD + i] * k[s][of + i];
                sum += weights[s] = exp(targets[t] ? score : 0); /* all masked: as one */
            }
            for (int s = 0; s < L_LENGTH; s++)
                for (int i = 0; i < L_HEAD; i++) context[h * L_HEAD + i] += weights[s] / sum * v[s][of + i];
        }
        times_matrix(context, w->out, L_HEADS * L_HEAD, L_EMBED, added);
        for (int i = 0; i < L_EMBED; i++) x[t][i] += added[i];
        llama_norm(x[t], w->mlp_norm, normed);
        times_matrix(normed, w->wi_0, L_EMBED, L_MLP, gate);
        times_matrix(normed, w->wi_1, L_EMBED, L_MLP, hidden);
        for (int i = 0; i < L_MLP; i++) hidden[i] *= gate[i] / (1 + exp(-gate[i]));
        times_matrix(hidden, w->wo, L_MLP, L_EMBED, added);
        for (int i = 0; i < L_EMBED; i++) x[t][i] += added[i];
    }
}

static double llama_loss(struct base_arena *arena, const struct rig *rig, const struct exec_batch *batch)
{
    const char *const layer = "target.decoder.layers_%d.%s";
    const float *table = named_array(arena, rig, "target.decoder.token_embedder.embedding"),
                *last = named_array(arena, rig, "target.decoder.decoder_norm.scale"),
                *head = named_array(arena, rig, "target.decoder.logits_dense.kernel");
    double loss = 0;
    for (int b = 0; b < L_BATCH; b++) {
        const int32_t *in = batch->tokens[EXEC_DECODER_INPUT] + b * L_LENGTH,
                      *targets = batch->tokens[EXEC_DECODER_TARGET] + b * L_LENGTH,
                      *counts = batch->tokens[EXEC_LOSS_WEIGHTS] + b * L_LENGTH;
        double x[L_LENGTH][L_EMBED], normed[L_EMBED], logits[L_VOCAB];
        for (int t = 0; t < L_LENGTH; t++)
            for (int i = 0; i < L_EMBED; i++) x[t][i] = (double)table[in[t] * L_EMBED + i];
        for (int l = 0; l < L_LAYERS; l++) {
            static const char *const names[] = {"pre_self_attention_layer_norm.scale",
                                                "self_attention.query.kernel",
                                                "self_attention.key.kernel",
                                                "self_attention.value.kernel",
                                                "self_attention.out.kernel",
                                                "pre_mlp_layer_norm.scale",
                                                "mlp.wi_0.kernel",
                                                "mlp.wi_1.kernel",
                                                "mlp.wo.kernel"};
            const float *w[BASE_COUNT(names)];
            for (int n = 0; n < BASE_COUNT(names); n++)
                w[n] = named_array(arena, rig, base_print(arena, layer, l, names[n]));
            llama_apply(&(struct llama_layer){w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8]}, targets, x);
        }
        for (int t = 0; t < L_LENGTH; t++) {
            double sum = 0;
            llama_norm(x[t], last, normed);
            times_matrix(normed, head, L_EMBED, L_VOCAB, logits);
            for (int i = 0; i < L_VOCAB; i++) sum += exp(logits[i]);
            loss += counts[t] * (log(sum) - logits[targets[t]] + 1e-4 * log(sum) * log(sum));
        }
    }
    return loss;
}

static void a_llama_is_what_its_paper_says(struct base_arena *arena)
{
    const char *model = base_print(arena,
                                   "decoder_only:emb_dim=%d,num_heads=%d,num_kv_heads=%d,head_dim=%d,mlp_dim=%d,num_"
                                   "layers=%d,vocab_size=%d,mlp_activations=silu+linear,position_encoding=rotary",
                                   L_EMBED, L_HEADS, L_KV, L_HEAD, L_MLP, L_LAYERS, L_VOCAB);
    struct sim_plan_text text = {.values = {[SIM_MODEL] = model,
                                            [SIM_TOPOLOGY] = "local:1",
                                            [SIM_BATCH_SIZE] = number(arena, L_BATCH),
                                            [SIM_TARGETS_LENGTH] = number(arena, L_LENGTH),
                                            [SIM_OPTIMIZER] = "sgd",
                                            [SIM_LEARNING_RATE] = "0"}};
    struct base_error error;
    struct rig rig;
    struct exec_data data;
    struct exec_batch batch;
    assert_ok(rig_begin(arena, &text, &rig, &error), &error);
    assert_ok(exec_data_open(arena, &rig.plan, NULL, 1, EXEC_OF_TRAINING, &data, &error), &error);
    exec_data_batch(arena, &data, 0, 0, L_BATCH, &batch);
    assert_near(loss_of(&rig), llama_loss(arena, &rig, &batch), 1e-5);
    sim_cache_free(rig.cache);
}

/* ---- products by oneDNN ---- */

static uint16_t narrowed(float value)
{
    uint16_t bits;
    exec_narrow(&value, &bits, 1, 1);
    return bits;
}

static void check_product(struct base_arena *arena, struct exec_onednn *products, bool narrow, int64_t rows,
                          int64_t columns, int64_t depth, bool add)
{
    enum { WORKSPACE = 4 << 20, ALIGNMENT = 64 };
    struct base_random random;
    uint64_t count_a = (uint64_t)(rows * depth), count_b = (uint64_t)(depth * columns);
    float *a = base_new(arena, float, count_a), *b = base_new(arena, float, count_b),
          *c = base_new(arena, float, rows *columns), *expected = base_new(arena, float, rows *columns);
    uint16_t *narrow_a = base_new(arena, uint16_t, count_a), *narrow_b = base_new(arena, uint16_t, count_b);
    char *workspace = base_alloc(arena, WORKSPACE + ALIGNMENT, 1);
    workspace += ALIGNMENT - (uintptr_t)workspace % ALIGNMENT;
    base_random_seed(&random, 5);
    /* Small whole numbers: products and sums are exact in both, so that the order of additions does not count. */
    for (uint64_t i = 0; i < count_a; i++) narrow_a[i] = narrowed(a[i] = (float)base_random_below(&random, 17) - 8);
    for (uint64_t i = 0; i < count_b; i++) narrow_b[i] = narrowed(b[i] = (float)base_random_below(&random, 17) - 8);
    for (int64_t i = 0; i < rows * columns; i++) c[i] = expected[i] = (float)base_random_below(&random, 9);
    exec_gemm(arena, rows, columns, depth, (struct exec_matrix){a, depth, 1}, (struct exec_matrix){b, columns, 1},
              (struct exec_matrix){expected, columns, 1}, add ? EXEC_ACCUMULATE : EXEC_OVERWRITE);
    const struct exec_onednn_operand left = {narrow ? (const void *)narrow_a : a, depth, 1},
                                     right = {narrow ? (const void *)narrow_b : b, columns, 1},
                                     result = {c, columns, 1};
    assert_true(exec_onednn_gemm(products, rows, columns, depth, &left, &right, &result, MODEL_FLOAT32,
                                 add ? EXEC_ACCUMULATE : EXEC_OVERWRITE, workspace, WORKSPACE));
    for (int64_t i = 0; i < rows * columns; i++) assert_near((double)c[i], (double)expected[i], 0);
}

/* float32 everywhere, bfloat16 where the processor has it: one way through the library. */
static void products_by_onednn_are_blas_products(struct base_arena *arena)
{
    static const int64_t shapes[][3] = {{1, 1, 1},        {3, 5, 7},     {64, 64, 64},
                                        {256, 256, 1024}, {17, 256, 33}, {256, 1, 90}};
    static const enum model_dtype dtypes[] = {MODEL_FLOAT32, MODEL_BFLOAT16};
    for (int d = 0; d < BASE_COUNT(dtypes); d++) {
        struct exec_onednn *products = exec_onednn_begin(arena, dtypes[d]);
        if (!products) print_message("left out: products of bfloat16, which this processor does not have\n");
        for (int i = 0; i < 4 * BASE_COUNT(shapes) && products; i++) {
            const int64_t *shape = shapes[i % BASE_COUNT(shapes)];
            TEST_ROW("dtype %d, shape %d", d, i % BASE_COUNT(shapes));
            check_product(arena, products, dtypes[d] == MODEL_BFLOAT16, shape[0], shape[1], shape[2],
                          i >= 2 * BASE_COUNT(shapes));
        }
        exec_onednn_end(products);
    }
    struct exec_onednn *products = exec_onednn_begin(arena, MODEL_FLOAT32);
    float one[1] = {1};
    const struct exec_onednn_operand single = {one, 1, 1};
    assert_non_null(products);
    assert_false(
        exec_onednn_gemm(products, 0, 1, 1, &single, &single, &single, MODEL_FLOAT32, EXEC_OVERWRITE, NULL, 0));
    exec_onednn_end(products);
}

/* ---- checkpoints ---- */

static struct exec_result run_of(struct base_arena *arena, const struct sim_plan_text *text,
                                 const struct exec_request *request)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan = checked(arena, cache, text);
    struct base_error error;
    struct exec_result result;
    assert_ok(exec_run(arena, cache, &plan, request, &result, &error), &error);
    sim_cache_free(cache);
    return result;
}

static struct sim_plan_text small_plan(struct base_arena *arena, int family, const char *optimizer)
{
    struct genome genome = {{[FAMILY] = family, [LAYERS] = 1, [ACTIVATIONS] = 2, [HEADS] = 1}};
    struct sim_plan_text plan = plan_of(arena, &genome, true);
    plan.values[SIM_OPTIMIZER] = optimizer;
    plan.values[SIM_LEARNING_RATE] = "1e-2";
    return plan;
}

/* Two steps, a checkpoint, two more on another mesh: as four steps in one go. */
static void runs_resume_on_any_mesh(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(optimizers) * BASE_COUNT(families); i++) {
        const char *folder = test_folder(arena, "exec");
        struct sim_plan_text one = small_plan(arena, i % BASE_COUNT(families), optimizers[i / BASE_COUNT(families)]),
                             other = one;
        TEST_ROW("%s with %s", families[i % BASE_COUNT(families)], optimizers[i / BASE_COUNT(families)]);
        other.values[SIM_TOPOLOGY] = "local:2";
        other.values[SIM_SUBMESH] = "1,2";
        struct exec_result straight = run_of(arena, &one, &(struct exec_request){.steps = 4});
        struct exec_result first = run_of(arena, &one, &(struct exec_request){.steps = 2, .checkpoint = folder});
        struct exec_result rest = run_of(arena, &other, &(struct exec_request){.steps = 4, .checkpoint = folder});
        struct exec_result nothing = run_of(arena, &other, &(struct exec_request){.steps = 4, .checkpoint = folder});
        assert_int_equal(first.step_count, 2);
        assert_int_equal(rest.first_step, 2);
        assert_int_equal(rest.step_count, 2);
        assert_int_equal(nothing.step_count, 0);
        for (int step = 0; step < 4; step++)
            assert_near(step < 2 ? first.loss[step] : rest.loss[step - 2], straight.loss[step], step < 2 ? 0 : 1e-5);
        base_directory_remove(arena, folder);
    }
}

/* The decoder's last scale after one step of an optimizer. */
static void scale_after(struct base_arena *arena, const char *optimizer, const char *rate, float scale[8])
{
    const char *folder = test_folder(arena, "exec");
    struct sim_plan_text plan = small_plan(arena, 0, optimizer);
    struct exec_zarr array;
    struct base_error error;
    int64_t first[1] = {0};
    plan.values[SIM_LEARNING_RATE] = rate;
    run_of(arena, &plan, &(struct exec_request){.steps = 1, .checkpoint = folder});
    const char *path = base_print(arena, "%s/checkpoint_1/target.decoder.decoder_norm.scale", folder);
    assert_ok(exec_zarr_read(arena, path, &array, &error), &error);
    assert_int_equal(array.shape[0], 8);
    assert_ok(exec_zarr_read_chunk(arena, path, &array, first, scale, 8 * sizeof *scale, &error), &error);
    base_directory_remove(arena, folder);
}

/* SGD's step shows the gradient; Lion's first goes the same length against the sign of each, and decays. */
static void lion_goes_by_signs(struct base_arena *arena)
{
    float before[8], sgd[8], lion[8];
    scale_after(arena, "sgd", "0", before);
    scale_after(arena, "sgd", "1", sgd);
    scale_after(arena, "lion", "0.25", lion);
    for (int i = 0; i < 8; i++) {
        float gradient = before[i] - sgd[i], sign = (float)(gradient > 0) - (float)(gradient < 0);
        assert_true(gradient != 0);
        assert_near(lion[i], before[i] - 0.25 * (sign + 1e-3 * before[i]), 1e-6);
    }
}

/* The same run gives the same bits. */
static void runs_repeat_themselves(struct base_arena *arena)
{
    struct sim_plan_text plan = small_plan(arena, 1, "adamw");
    plan.values[SIM_TOPOLOGY] = "local:4";
    plan.values[SIM_SUBMESH] = "1,2";
    struct exec_result a = run_of(arena, &plan, &(struct exec_request){.steps = 3}),
                       b = run_of(arena, &plan, &(struct exec_request){.steps = 3});
    assert_memory_equal(a.loss, b.loss, 3 * sizeof *a.loss);
    assert_memory_equal(a.gradient_norm, b.gradient_norm, 3 * sizeof *a.gradient_norm);
    assert_true(a.loss[2] < a.loss[0] || a.loss[1] < a.loss[0]);
}

/* A step's CPU seconds are its process's own, and with the batch and the sums at least those of the operations. */
static void steps_say_their_cpu_seconds(struct base_arena *arena)
{
    struct sim_plan_text plan = small_plan(arena, 1, "adamw");
    const clock_t before = clock();
    struct exec_result r = run_of(arena, &plan, &(struct exec_request){.steps = 3, .processor_time = true});
    double all_s = 0, most_s = (double)(clock() - before + 1) / CLOCKS_PER_SEC;
    for (int i = 0; i < 3; i++) {
        assert_true(r.step_s[i] > 0 && r.processor_s[i] >= r.step_s[i]);
        all_s += r.processor_s[i];
    }
    assert_true(all_s <= most_s);
}

static const struct damage {
    const char *array, *file, *text, *part;
} damages[] = {
    {"target.decoder.decoder_norm.scale", NULL, NULL, "is missing; the plan's model has that parameter of shape [8]"},
    {"target.decoder.decoder_norm.scale", ".zarray",
     "{\"chunks\":[9],\"compressor\":null,\"dtype\":\"<f4\",\"shape\":[9],\"zarr_format\":2}",
     "has shape [9], but the plan's model has [8]"},
    {"target.decoder.decoder_norm.scale", ".zarray",
     "{\"chunks\":[8],\"compressor\":null,\"dtype\":\"<f8\",\"shape\":[8],\"zarr_format\":2}", "has dtype <f8; <f4"},
    {"target.decoder.decoder_norm.scale", ".zarray",
     "{\"chunks\":[8],\"compressor\":{\"id\":\"blosc\"},\"dtype\":\"<f4\",\"shape\":[8],\"zarr_format\":2}",
     "compressor: blosc is unsupported"},
    {"target.decoder.decoder_norm.scale", ".zarray",
     "{\"chunks\":[1099511627776],\"compressor\":null,\"dtype\":\"<f4\",\"shape\":[8],\"zarr_format\":2}",
     "larger than 2 GiB"},
    {"target.decoder.decoder_norm.scale", ".zarray",
     "{\"chunks\":[500000],\"compressor\":{\"id\":\"gzip\"},\"dtype\":\"<f4\",\"shape\":[8],\"zarr_format\":2}",
     "more than twice as large as the array, [8]"},
    {"target.decoder.decoder_norm.scale", ".zarray",
     "{\"chunks\":[0],\"compressor\":null,\"dtype\":\"<f4\",\"shape\":[8],\"zarr_format\":2}",
     "chunks: 0 is out of range"},
    {"target.decoder.decoder_norm.scale", ".zarray",
     "{\"chunks\":[8],\"dtype\":\"<f4\",\"shape\":[8],\"zarr_format\":3}", "zarr_format: 3 is out of range"},
    {"target.decoder.decoder_norm.scale", ".zarray", "{\"chunks\":[8]", ".zarray: "},
    {"target.decoder.decoder_norm.scale", "0", "", "scale/0: "},
    {"target.decoder.decoder_norm.scale", "0", "not gzip", "is no gzip file"},
    {"state.step", NULL, NULL, "so that the checkpoint's step is unknown"},
    {"state.step", ".zarray", "{\"chunks\":[2],\"compressor\":null,\"dtype\":\"<i4\",\"shape\":[2],\"zarr_format\":2}",
     "a single <i4 is expected"},
};

static void damaged_checkpoints_are_refused(struct base_arena *arena)
{
    struct sim_plan_text text = small_plan(arena, 0, "adamw");
    for (int i = 0; i < BASE_COUNT(damages); i++) {
        const struct damage *d = &damages[i];
        const char *folder = test_folder(arena, "exec"),
                   *array = base_print(arena, "%s/checkpoint_1/%s", folder, d->array);
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_plan plan = checked(arena, cache, &text);
        struct base_error error;
        struct exec_result result;
        TEST_ROW("%s %s %s", d->array, d->file ? d->file : "removed", d->text ? d->text : "");
        run_of(arena, &text, &(struct exec_request){.steps = 1, .checkpoint = folder});
        if (d->file)
            assert_ok(base_write_file(base_print(arena, "%s/%s", array, d->file), d->text, strlen(d->text), &error),
                      &error);
        else base_directory_remove(arena, array);
        struct exec_request request = {.steps = 2, .restore = base_print(arena, "%s/checkpoint_1", folder)};
        assert_fails(exec_run(arena, cache, &plan, &request, &result, &error), BASE_INPUT, &error, d->part);
        assert_non_null(strstr(error.text, folder));
        base_directory_remove(arena, folder);
        sim_cache_free(cache);
    }
}

/* A folder of something else is no checkpoint that lacks an array. */
static void a_folder_without_a_checkpoint_is_named(struct base_arena *arena)
{
    struct sim_plan_text text = small_plan(arena, 0, "adamw");
    const char *empty = test_folder(arena, "exec");
    const struct {
        const char *path, *part;
    } rows[] = {{empty, "is no checkpoint: it has no arrays target.* and no manifest.json"},
                {base_print(arena, "%s/nowhere", empty), "is no checkpoint: no such directory"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_plan plan = checked(arena, cache, &text);
        struct base_error error;
        struct exec_result result;
        struct exec_request request = {.steps = 2, .restore = rows[i].path};
        TEST_ROW("%s", rows[i].part);
        assert_fails(exec_run(arena, cache, &plan, &request, &result, &error), BASE_INPUT, &error, rows[i].part);
        sim_cache_free(cache);
    }
    base_directory_remove(arena, empty);
}

/* ---- manifests ---- */

static const char *checkpoint_of(struct base_arena *arena, const struct sim_plan_text *text)
{
    const char *folder = test_folder(arena, "exec");
    run_of(arena, text, &(struct exec_request){.steps = 1, .checkpoint = folder});
    return folder;
}

static enum base_status go_on(struct base_arena *arena, const struct sim_plan_text *text,
                              const struct exec_request *request, struct base_error *error)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan = checked(arena, cache, text);
    struct exec_result result;
    enum base_status status = exec_run(arena, cache, &plan, request, &result, error);
    sim_cache_free(cache);
    return status;
}

/* What a plan may not change on the way, and what it may. */
static void a_manifest_holds_a_run_to_its_plan(struct base_arena *arena)
{
    static const struct {
        enum sim_key key;
        const char *value, *resumed, *restored; /* NULL: accepted */
    } changes[] = {
        {SIM_MODEL, "num_decoder_layers=1", "num_decoder_layers is 2 there and 1 in the plan",
         "num_decoder_layers is 2 there and 1 in the plan"},
        {SIM_MODEL, "mlp_activations=relu", "mlp_activations is gelu there and relu in the plan",
         "mlp_activations is gelu there and relu in the plan"},
        {SIM_OPTIMIZER, "sgd", "optimizer: is adamw there and sgd in the plan",
         "optimizer: is adamw there and sgd in the plan"},
        {SIM_SEED, "7", "seed: is 0 there and 7 in the plan", NULL},
        {SIM_LEARNING_RATE, "1e-4", "learning_rate: is 0.01 there and 0.0001 here; keep it, or use --allow-changed",
         NULL},
        {SIM_BATCH_SIZE, "12", "batch_size: is 6 there and 12 here", NULL},
        {SIM_TOPOLOGY, "local:2", NULL, NULL},
    };
    static const char base[] = "decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,vocab_size=32";
    struct sim_plan_text text = small_plan(arena, 0, "adamw");
    text.values[SIM_MODEL] = base_print(arena, "%s,num_decoder_layers=2,mlp_activations=gelu", base);
    const char *folder = checkpoint_of(arena, &text), *checkpoint = base_print(arena, "%s/checkpoint_1", folder);
    for (int i = 0; i < BASE_COUNT(changes); i++) {
        struct sim_plan_text other = text;
        struct base_error error;
        TEST_ROW("%s", changes[i].value);
        other.values[changes[i].key] = changes[i].value;
        if (changes[i].key == SIM_MODEL)
            other.values[SIM_MODEL] = base_print(arena, "%s,%s,%s", base, changes[i].value,
                                                 i ? "num_decoder_layers=2" : "mlp_activations=gelu");
        struct exec_request resumed = {.steps = 1, .checkpoint = folder},
                            restored = {.steps = 2, .restore = checkpoint};
        if (changes[i].resumed)
            assert_fails(go_on(arena, &other, &resumed, &error), BASE_INPUT, &error, changes[i].resumed);
        else assert_ok(go_on(arena, &other, &resumed, &error), &error);
        resumed.allow_changed = "batch_size,learning_rate";
        if (changes[i].resumed && !changes[i].restored && changes[i].key != SIM_SEED)
            assert_ok(go_on(arena, &other, &resumed, &error), &error);
        if (changes[i].restored)
            assert_fails(go_on(arena, &other, &restored, &error), BASE_INPUT, &error, changes[i].restored);
        else assert_ok(go_on(arena, &other, &restored, &error), &error);
    }
    base_directory_remove(arena, folder);
}

/* With another alpha the same adapters are another model. */
static void adapters_keep_their_scale(struct base_arena *arena)
{
    struct base_error error;
    struct sim_plan_text text = small_plan(arena, 0, "adamw");
    text.values[SIM_LORA_RANK] = "2";
    const char *folder = checkpoint_of(arena, &text);
    struct exec_request restored = {.steps = 2, .restore = base_print(arena, "%s/checkpoint_1", folder)},
                        meant = {.steps = 1, .checkpoint = folder, .allow_changed = "lora_alpha"};
    assert_ok(go_on(arena, &text, &restored, &error), &error);
    text.values[SIM_LORA_ALPHA] = "16";
    assert_ok(go_on(arena, &text, &meant, &error), &error);
    assert_fails(go_on(arena, &text, &restored, &error), BASE_INPUT, &error,
                 "lora_alpha: is 8 there and 16 here; use --lora-alpha 8");
    base_directory_remove(arena, folder);
}

/* Nor may the data change, unless that is meant. */
static void a_manifest_holds_a_run_to_its_data(struct base_arena *arena)
{
    static const char text[] = "What shall we do with the drunken sailor?\nPut him in the long boat till he's sober.\n";
    struct sim_plan_text plan = small_plan(arena, 0, "adamw");
    plan.values[SIM_MODEL] = "decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,num_layers=1,vocab_size=260";
    const char *folder = test_folder(arena, "exec"), *one = base_print(arena, "%s/one.txt", folder),
               *other = base_print(arena, "%s/other.txt", folder), *runs = base_print(arena, "%s/runs", folder);
    struct base_error error;
    struct base_text answer = {.arena = arena};
    assert_ok(base_write_file(one, text, sizeof text - 1, &error), &error);
    assert_ok(base_write_file(other, text, sizeof text - 2, &error), &error);
    run_of(arena, &plan, &(struct exec_request){.steps = 1, .checkpoint = runs, .data = one});
    assert_ok(exec_verify_checkpoint(arena, runs, &answer, &error), &error);
    assert_non_null(strstr(answer.data, "\"data\": {\"content\": \"text of 84 bytes, checksum "));
    assert_non_null(strstr(answer.data, "\"next_row\": 6}"));
    assert_fails(go_on(arena, &plan, &(struct exec_request){.steps = 2, .checkpoint = runs, .data = other}, &error),
                 BASE_INPUT, &error, "data: is text of 84 bytes, checksum ");
    assert_fails(go_on(arena, &plan, &(struct exec_request){.steps = 2, .checkpoint = runs}, &error), BASE_INPUT,
                 &error, "and seeded random tokens here; keep it, or use --allow-changed data");
    assert_ok(go_on(arena, &plan, &(struct exec_request){.steps = 2, .checkpoint = runs, .data = one}, &error), &error);
    const struct exec_request meant = {.steps = 3, .checkpoint = runs, .data = other, .allow_changed = "data"};
    assert_ok(go_on(arena, &plan, &meant, &error), &error);
    base_directory_remove(arena, folder);
}

static void swap_arrays(struct base_arena *arena, const char *checkpoint, const char *one, const char *other)
{
    struct base_error error;
    const char *a = base_print(arena, "%s/%s", checkpoint, one), *b = base_print(arena, "%s/%s", checkpoint, other),
               *aside = base_print(arena, "%s/aside", checkpoint);
    assert_ok(base_directory_rename(a, aside, &error), &error);
    assert_ok(base_directory_rename(b, a, &error), &error);
    assert_ok(base_directory_rename(aside, b, &error), &error);
}

/* One bit, in an array that another program has unpacked. */
static void flip_bit(struct base_arena *arena, const char *checkpoint)
{
    static const char metadata[] =
        "{\"chunks\":[8],\"compressor\":null,\"dtype\":\"<f4\",\"order\":\"C\",\"shape\":[8],\"zarr_format\":2}";
    const char *array = base_print(arena, "%s/target.decoder.decoder_norm.scale", checkpoint), *packed;
    struct base_error error;
    size_t length;
    float values[8];
    assert_ok(base_read_file(arena, base_print(arena, "%s/0", array), 1 << 16, &packed, &length, &error), &error);
    assert_ok(exec_gunzip(packed, length, values, sizeof values, "0", &error), &error);
    ((unsigned char *)values)[13] ^= 1;
    assert_ok(base_write_file(base_print(arena, "%s/.zarray", array), metadata, strlen(metadata), &error), &error);
    assert_ok(base_write_file(base_print(arena, "%s/0", array), (const char *)values, sizeof values, &error), &error);
}

static void damage_that_reads_well_is_found(struct base_arena *arena)
{
    struct sim_plan_text text = small_plan(arena, 0, "adamw");
    for (int damage = 0; damage < 3; damage++) {
        const char *folder = test_folder(arena, "exec");
        struct base_error error;
        TEST_ROW("damage %d", damage);
        run_of(arena, &text, &(struct exec_request){.steps = 2, .checkpoint = folder, .checkpoint_every = 1});
        const char *last = base_print(arena, "%s/checkpoint_2", folder);
        if (damage == 0)
            swap_arrays(arena, last, "target.decoder.layers_0.self_attention.key.kernel",
                        "target.decoder.layers_0.self_attention.value.kernel");
        else if (damage == 1) flip_bit(arena, last);
        else /* a stale chunk */
            assert_ok(
                base_directory_rename(base_print(arena, "%s/checkpoint_1/target.decoder.decoder_norm.scale", folder),
                                      base_print(arena, "%s/stale", last), &error),
                &error),
                swap_arrays(arena, last, "stale", "target.decoder.decoder_norm.scale");
        assert_fails(go_on(arena, &text, &(struct exec_request){.steps = 3, .checkpoint = folder}, &error), BASE_INPUT,
                     &error, "contains other values than were saved");
        base_directory_remove(arena, folder);
    }
}

static void put_text(const char *path, const char *text, size_t length)
{
    struct base_error error;
    remove(path);
    assert_ok(base_write_file(path, text, length, &error), &error);
}

/* Cut short, a bit flipped, an array too many, a link or a folder in its place; an earlier version's is read. */
static void a_damaged_manifest_is_refused(struct base_arena *arena)
{
    struct sim_plan_text text = small_plan(arena, 0, "adamw");
    const char *folder = checkpoint_of(arena, &text), *whole,
               *path = base_print(arena, "%s/checkpoint_1/manifest.json", folder);
    const struct exec_request request = {.steps = 1, .checkpoint = folder};
    struct base_error error;
    size_t length;
    assert_ok(base_read_file(arena, path, 1 << 20, &whole, &length, &error), &error);
    char *copy = base_copy(arena, whole);
    for (size_t at = 0; at < length; at += 41) {
        copy[at] ^= (char)(1 << at % 7);
        put_text(path, copy, length);
        if (go_on(arena, &text, &request, &error) != BASE_INPUT || !strstr(error.text, "manifest.json: "))
            fail_msg("a bit of byte %zu is not missed: %s", at, error.text);
        copy[at] = whole[at];
    }
    put_text(path, whole, length - 3);
    assert_fails(go_on(arena, &text, &request, &error), BASE_INPUT, &error, "manifest.json: ");
    memcpy(strstr(copy, "\"manifest\": ") + strlen("\"manifest\": "), "1", 1); /* is no way round the checksum */
    put_text(path, copy, length);
    assert_fails(go_on(arena, &text, &request, &error), BASE_INPUT, &error, "manifest: 1 is out of range");
    remove(path);
    assert_int_equal(symlink("/nowhere", path), 0);
    assert_fails(go_on(arena, &text, &request, &error), BASE_INPUT, &error, "manifest.json: cannot be read");
    remove(path);
    assert_ok(base_directory_make(path, &error), &error);
    assert_fails(go_on(arena, &text, &request, &error), BASE_INPUT, &error, "manifest.json: is no regular file");
    base_directory_remove(arena, folder);
}

/* A number that is larger was not written later. */
static void the_last_written_is_the_last(struct base_arena *arena)
{
    struct sim_plan_text text = small_plan(arena, 0, "sgd");
    const char *folder = test_folder(arena, "exec");
    struct base_error error;
    run_of(arena, &text, &(struct exec_request){.steps = 1, .checkpoint = folder});
    const char *own = base_print(arena, "%s/checkpoint_1", folder),
               *later = base_print(arena, "%s/checkpoint_90", folder);
    assert_ok(base_directory_rename(own, later, &error), &error); /* as T5X would have left it */
    remove(base_print(arena, "%s/manifest.json", later));
    base_directory_remove(arena, base_print(arena, "%s/state.step", later));
    struct exec_result first = run_of(
        arena, &text, &(struct exec_request){.steps = 3, .checkpoint = folder, .checkpoint_every = 1, .keep = 1});
    assert_int_equal(first.step_count, 3);
    assert_true(base_directory_exists(later)); /* nobody here wrote it */
    assert_true(base_directory_exists(base_print(arena, "%s/checkpoint_3", folder)));
    assert_false(base_directory_exists(base_print(arena, "%s/checkpoint_2", folder)));
    struct exec_result rest = run_of(arena, &text, &(struct exec_request){.steps = 4, .checkpoint = folder});
    assert_int_equal(rest.first_step, 3);
    assert_fails(go_on(arena, &text, &(struct exec_request){.steps = 90, .checkpoint = folder}, &error), BASE_INPUT,
                 &error, "checkpoint_90: exists");
    base_directory_remove(arena, folder);
}

static void one_run_writes_into_a_directory(struct base_arena *arena)
{
    struct sim_plan_text text = small_plan(arena, 0, "sgd");
    const char *folder = checkpoint_of(arena, &text);
    struct base_error error;
    struct base_lock lock;
    bool supported;
    const char *half = base_print(arena, "%s/checkpoint_2.partial-other", folder);
    assert_ok(base_lock_take(&lock, base_print(arena, "%s/.meshwright-lock", folder), "other-1", &supported, &error),
              &error);
    assert_true(supported);
    assert_ok(base_directory_make(half, &error), &error);
    assert_fails(go_on(arena, &text, &(struct exec_request){.steps = 2, .checkpoint = folder}, &error), BASE_INPUT,
                 &error, "locked by other-1; two runs cannot write into one --checkpoint directory");
    assert_true(base_directory_exists(half));
    base_lock_release(&lock);
    assert_ok(go_on(arena, &text, &(struct exec_request){.steps = 2, .checkpoint = folder}, &error), &error);
    assert_false(base_directory_exists(half)); /* its writer is gone */
    base_directory_remove(arena, folder);
}

/* Chunks that do not divide the shape, unpacked: what other programs write. */
static void chunked_arrays_are_read(struct base_arena *arena)
{
    const char *folder = test_folder(arena, "exec"),
               *array = base_print(arena, "%s/moved/target.decoder.decoder_norm.scale", folder);
    struct sim_plan_text text = small_plan(arena, 0, "sgd");
    struct base_error error;
    run_of(arena, &text, &(struct exec_request){.steps = 1, .checkpoint = folder});
    assert_ok(base_directory_rename(base_print(arena, "%s/checkpoint_1", folder), base_print(arena, "%s/moved", folder),
                                    &error),
              &error);
    const char *metadata =
        "{\"chunks\":[3],\"compressor\":null,\"dtype\":\"<f4\",\"fill_value\":null,\"filters\":null,\"order\":\"C\","
        "\"shape\":[8],\"zarr_format\":2}";
    assert_ok(base_write_file(base_print(arena, "%s/.zarray", array), metadata, strlen(metadata), &error), &error);
    for (int c = 0; c < 3; c++) {
        float chunk[3] = {(float)(3 * c), (float)(3 * c + 1), (float)(3 * c + 2)};
        assert_ok(base_write_file(base_print(arena, "%s/%d", array, c), (const char *)chunk, sizeof chunk, &error),
                  &error);
    }
    struct rig rig;
    int64_t step;
    struct exec_restoring restoring = {.path = base_print(arena, "%s/moved", folder)};
    assert_ok(rig_begin(arena, &text, &rig, &error), &error);
    assert_fails(exec_restore(arena, &rig.machine, &restoring, &step, &error), BASE_INPUT, &error,
                 "manifest.json: target.decoder.decoder_norm.scale: contains other values than were saved");
    assert_int_equal(remove(base_print(arena, "%s/moved/manifest.json", folder)), 0);
    assert_ok(exec_restore(arena, &rig.machine, &restoring, &step, &error), &error);
    assert_int_equal(step, 1);
    for (int i = 0; i < rig.array_count; i++) {
        if (strcmp(rig.arrays[i].path, "target.decoder.decoder_norm.scale") != 0) continue;
        const float *scale = whole_array(arena, &rig, i);
        for (int j = 0; j < 8; j++) assert_near((double)scale[j], j, 0);
    }
    sim_cache_free(rig.cache);
    base_directory_remove(arena, folder);
}

/* Names and shapes of the arrays are those of the model's own list of parameters. */
static void arrays_are_the_models_parameters(struct base_arena *arena)
{
    for (int family = 0; family < BASE_COUNT(families); family++) {
        const struct model_parameter *parameters;
        struct base_error error;
        struct rig rig;
        int count, found = 0;
        TEST_ROW("%s", families[family]);
        struct sim_plan_text text = small_plan(arena, family, "sgd");
        assert_ok(rig_begin(arena, &text, &rig, &error), &error);
        assert_ok(model_parameters(arena, rig.plan.config, &parameters, &count, &error), &error);
        assert_int_equal(rig.array_count, count);
        for (int i = 0; i < count; i++) {
            char *path = base_print(arena, "target.%s", parameters[i].path);
            for (char *at = path; *at; at++) *at = *at == '/' ? '.' : *at;
            for (int j = 0; j < rig.array_count; j++) {
                if (strcmp(rig.arrays[j].path, path) != 0) continue;
                found++;
                assert_int_equal(rig.arrays[j].rank, parameters[i].rank);
                assert_memory_equal(rig.arrays[j].shape, parameters[i].shape,
                                    (size_t)parameters[i].rank * sizeof parameters[i].shape[0]);
            }
        }
        assert_int_equal(found, count);
        sim_cache_free(rig.cache);
    }
}

/* ---- batches ---- */

static const struct {
    const char *text, *part;
} bad_batches[] = {
    {"", "has 0 batches, and 1 steps need one each"},
    {"[]\n", "line 1: is a list; a batch is an object of features"},
    {"{\"decoder_input_tokens\": 3}\n", "line 1: decoder_input_tokens: is a number; a list of 6 sequences is needed"},
    {"{\"decoder_input_tokens\": [[0,1,2,3]]}\n",
     "line 1: decoder_input_tokens: has 1 sequences, but the plan's batch_size is 6"},
    {"{\"decoder_input_tokens\": [[0],[0],[0],[0],[0],[0]]}\n",
     "line 1: decoder_input_tokens[0]: has 1 tokens, but the plan's task_feature_lengths have 4"},
    {"{\"decoder_input_tokens\": [[0,1,2,12],[0],[0],[0],[0],[0]]}\n", "decoder_input_tokens[0]: 12 is out of range"},
    {"{\"decoder_input_tokens\": [[0,1,2,-1],[0],[0],[0],[0],[0]]}\n", "decoder_input_tokens[0]: -1 is out of range"},
    {"{\"decoder_input_tokens\": [[0,1,2,0.5],[0],[0],[0],[0],[0]]}\n", "is not a whole number"},
    {"{\"encoder_input_tokens\": []}\n", "line 1: encoder_input_tokens: is no feature of"},
    {"{\"tokens\": []}\n", "line 1: tokens: is no feature of"},
    {"{}\n", "line 1: decoder_input_tokens: is missing"},
    {"{\"decoder_input_tokens\"\n", "line 1: "},
};

static void batches_that_do_not_fit_are_refused(struct base_arena *arena)
{
    struct sim_plan_text text = small_plan(arena, 0, "sgd");
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan = checked(arena, cache, &text);
    const char *folder = test_folder(arena, "exec"), *path = base_print(arena, "%s/batches.jsonl", folder);
    for (int i = 0; i < BASE_COUNT(bad_batches); i++) {
        struct base_error error;
        struct exec_data data;
        TEST_ROW("%s", bad_batches[i].text);
        assert_ok(base_write_file(path, bad_batches[i].text, strlen(bad_batches[i].text), &error), &error);
        assert_fails(exec_data_open(arena, &plan, path, 1, EXEC_OF_TRAINING, &data, &error), BASE_INPUT, &error,
                     bad_batches[i].part);
    }
    base_directory_remove(arena, folder);
    sim_cache_free(cache);
}

static const struct {
    enum sim_key key;
    const char *value;
    enum base_status status;
    const char *part;
} bad_plans[] = {
    {SIM_DTYPE, "float16", BASE_INPUT, "dtype: float16 cannot be run here; use float32 or bfloat16"},
    {SIM_DTYPE, "fp8", BASE_INPUT, "dtype: fp8 cannot be run here"},
    {SIM_ATTENTION, "flash", BASE_INPUT, "use unfused"},
    {SIM_ADAFACTOR, "factored=0", BASE_INPUT, "T5X's defaults alone"},
    {SIM_BATCH_SIZE, "8388608", BASE_NO_FIT, "the plan does not fit: "},
};

static void plans_that_cannot_run_are_refused(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(bad_plans); i++) {
        struct sim_plan_text text = small_plan(arena, 0, "adafactor");
        struct sim_cache *cache = sim_cache_new(arena);
        struct base_error error;
        struct exec_result result;
        TEST_ROW("%s", bad_plans[i].value);
        text.values[bad_plans[i].key] = bad_plans[i].value;
        struct sim_plan plan = checked(arena, cache, &text);
        assert_fails(exec_run(arena, cache, &plan, &(struct exec_request){.steps = 1}, &result, &error),
                     bad_plans[i].status, &error, bad_plans[i].part);
        sim_cache_free(cache);
    }
}

/* A plan for other hardware runs here on as many devices. */
static void plans_for_other_hardware_run(struct base_arena *arena)
{
    struct sim_plan_text text = small_plan(arena, 1, "adafactor");
    text.values[SIM_DTYPE] = "float32";
    struct exec_result here = run_of(arena, &text, &(struct exec_request){.steps = 2});
    text.values[SIM_TOPOLOGY] = "v4:2x2x1";
    text.values[SIM_SUBMESH] = "2,1,1,1";
    struct exec_result there = run_of(arena, &text, &(struct exec_request){.steps = 2});
    for (int i = 0; i < 2; i++) assert_near(there.loss[i], here.loss[i], 1e-5);
    assert_true(there.collective_count > 0);
}

/* ---- arithmetic ---- */

static void exponentials_are_exact_enough(struct base_arena *arena)
{
    (void)arena;
    for (double x = -87; x < 88; x += 0.0137) assert_near((double)exec_exp((float)x), exp((double)(float)x), 3e-7);
    for (double x = -12; x < 12; x += 0.00171) {
        double exact = (double)(float)x, u = sqrt(2 / acos(-1.0)) * (exact + 0.044715 * exact * exact * exact);
        if (u > -40) assert_near((double)exec_gelu_share((float)x), 1 / (1 + exp(-2 * u)), 2e-5);
        assert_true(fabs((double)exec_gelu_share((float)x) - 0.5 * (1 + tanh(u))) < 3e-7);
        assert_near((double)exec_gelu_steepness((float)x), 2 * sqrt(2 / acos(-1.0)) * (1 + 0.134145 * exact * exact),
                    1e-6);
    }
    assert_near((double)exec_exp(-1e10f), 0, 0);
    assert_near((double)exec_exp(0), 1, 0);
}

/* As BLOOM has them (transformers, build_alibi_tensor): heads beyond a power of two lie between. */
static void slopes_are_those_of_alibi(struct base_arena *arena)
{
    static const double halvings[] = {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5};
    static const struct model_op op = {.slopes = true}, none = {.slopes = false};
    struct exec_machine *machine = base_new(arena, struct exec_machine, 1);
    machine->sizes[MODEL_HEADS] = BASE_COUNT(halvings);
    for (int head = 0; head < BASE_COUNT(halvings); head++) {
        struct exec_row row = {.machine = machine, .op = &op, .number = (12 + head) * 35 + 7};
        assert_near((double)exec_row_slope(&row, 35), exp2(-halvings[head]), 1e-6);
        row.op = &none;
        assert_near((double)exec_row_slope(&row, 35), 0, 0);
    }
}

static void softcaps_are_hyperbolic_tangents(struct base_arena *arena)
{
    static const struct model_op op = {.cap = 1.5};
    (void)arena;
    for (double x = -40; x < 40; x += 0.037) {
        float in = (float)x, one = 1, out, slope;
        struct exec_row row = {.n = 1, .in = {&in}, .out = {&out}, .op = &op};
        const double exact = tanh((double)in / op.cap);
        exec_row_softcap(&row);
        assert_true(fabs((double)out - op.cap * exact) < 1e-6);
        row.in[0] = &one, row.in[1] = &out, row.out[0] = &slope;
        exec_row_softcap_grad(&row);
        assert_true(fabs((double)slope - (1 - exact * exact)) < 1e-6);
    }
}

static void bfloat16_rounds_to_even(struct base_arena *arena)
{
    static const struct {
        uint32_t wide;
        uint16_t narrow;
    } rows[] = {
        {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x7f7fffff, 0x7f80},
        {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0}, {0x80000000, 0x8000},
    };
    (void)arena;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        float wide, back;
        uint16_t narrow;
        uint32_t bits;
        memcpy(&wide, &rows[i].wide, sizeof wide);
        exec_narrow(&wide, &narrow, 1, 1);
        assert_int_equal(narrow, rows[i].narrow);
        exec_widen(&narrow, 1, &back, 1);
        memcpy(&bits, &back, sizeof bits);
        assert_int_equal(bits, (uint32_t)narrow << 16);
    }
}

/* Buckets of T5, worked out by hand from its formula. */
static void relative_positions_have_buckets(struct base_arena *arena)
{
    static const struct {
        int query, key;
        bool causal;
        int bucket;
    } rows[] = {
        {5, 5, true, 0},     {5, 9, true, 0},     {9, 5, true, 4},    {15, 0, true, 15},   {16, 0, true, 16},
        {20, 0, true, 17},   {127, 0, true, 31},  {128, 0, true, 31}, {5000, 0, true, 31}, {5, 5, false, 0},
        {5, 6, false, 17},   {6, 5, false, 1},    {0, 7, false, 23},  {0, 8, false, 24},   {8, 0, false, 8},
        {0, 200, false, 31}, {200, 0, false, 15},
    };
    (void)arena;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("query %d, key %d, %s", rows[i].query, rows[i].key, rows[i].causal ? "causal" : "bidirectional");
        assert_int_equal(
            exec_relpos_bucket(rows[i].query, rows[i].key, rows[i].causal ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL),
            rows[i].bucket);
    }
}

/* Every way that three matrices can lie in memory, against the sums written out. */
static void products_are_sums_of_products(struct base_arena *arena)
{
    static const int sizes[] = {1, 2, 5};
    float *a = base_new(arena, float, 64), *b = base_new(arena, float, 64), *c = base_new(arena, float, 64);
    for (int i = 0; i < 64; i++) a[i] = (float)(i % 7) - 3, b[i] = (float)(i % 5) - 2;
    for (int shape = 0; shape < 27; shape++)
        for (int lie = 0; lie < 16; lie++) {
            int m = sizes[shape % 3], n = sizes[shape / 3 % 3], k = sizes[shape / 9];
            bool add = lie & 8;
            struct exec_matrix ma = {a, lie & 1 ? 1 : k, lie & 1 ? m : 1}, mb = {b, lie & 2 ? 1 : n, lie & 2 ? k : 1},
                               mc = {c, lie & 4 ? 1 : n, lie & 4 ? m : 1};
            TEST_ROW("%d x %d x %d, lying %d", m, n, k, lie);
            for (int i = 0; i < 64; i++) c[i] = 1;
            exec_gemm(arena, m, n, k, ma, mb, mc, add ? EXEC_ACCUMULATE : EXEC_OVERWRITE);
            for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++) {
                    float sum = add;
                    for (int l = 0; l < k; l++)
                        sum +=
                            a[i * ma.row_stride + l * ma.column_stride] * b[l * mb.row_stride + j * mb.column_stride];
                    assert_near((double)c[i * mc.row_stride + j * mc.column_stride], (double)sum, 1e-6);
                }
        }
}

/* Few vectors times a weight as it streams by: rows that fill a page and shorter ones, more columns than are summed at
 * once, ends that fill no vector, float32 and int8 with scales. Whole numbers, so that no order of sums counts. */
static void check_streamed(struct base_arena *arena, int64_t rows, int64_t columns, int64_t depth, bool across,
                           bool bytes)
{
    float *x = base_new(arena, float, rows *depth), *w = base_new(arena, float, depth *columns),
          *c = base_new(arena, float, rows *columns), *scales = base_new(arena, float, columns);
    int8_t *narrow = base_new(arena, int8_t, depth * columns);
    struct base_random random;
    base_random_seed(&random, 7);
    for (int64_t i = 0; i < rows * depth; i++) x[i] = (float)base_random_below(&random, 17) - 8;
    for (int64_t i = 0; i < depth * columns; i++) w[i] = narrow[i] = (int8_t)((int)base_random_below(&random, 17) - 8);
    for (int64_t j = 0; j < columns; j++) scales[j] = bytes ? (float)(1 + j % 3) : 1;
    const struct exec_streamed weight = {.at = bytes ? (const void *)narrow : w,
                                         .depth = depth,
                                         .columns = columns,
                                         .depth_stride = across ? columns : 1,
                                         .column_stride = across ? 1 : depth,
                                         .scales = bytes ? scales : NULL,
                                         .scale_stride = 1};
    assert_true(exec_multiply_streamed(&weight, rows, (struct exec_matrix){x, depth, 1},
                                       (struct exec_matrix){c, columns, 1}, EXEC_OVERWRITE));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float sum = 0;
            for (int64_t l = 0; l < depth; l++)
                sum += x[i * depth + l] * w[l * weight.depth_stride + j * weight.column_stride];
            assert_near((double)c[i * columns + j], (double)(sum * scales[j]), 0);
        }
}

static void streamed_weights_are_summed_whole(struct base_arena *arena)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 40}, {70, 33}, {19, 1024}, {16, 1030}, {9, 4200}, {8, 9000}};
    for (int i = 0; i < BASE_COUNT(shapes); i++)
        for (int64_t rows = 1; rows <= EXEC_MOST_STREAMED; rows++)
            for (int kind = 0; kind < 4; kind++) {
                TEST_ROW("%d rows, %d columns, depth %d, kind %d", (int)rows, (int)shapes[i][1], (int)shapes[i][0],
                         kind);
                check_streamed(arena, rows, shapes[i][1], shapes[i][0], kind & 1, kind & 2);
            }
}

/* An answer's row has the same bits beside others as alone. */
static void a_row_among_few_is_the_row_alone(struct base_arena *arena)
{
    enum { COLUMNS = 1100, DEPTH = 77 };
    float *x = base_new(arena, float, EXEC_MOST_STREAMED *DEPTH), *w = base_new(arena, float, DEPTH *COLUMNS),
          *whole = base_new(arena, float, EXEC_MOST_STREAMED *COLUMNS), *alone = base_new(arena, float, COLUMNS);
    struct base_random random;
    base_random_seed(&random, 8);
    for (int i = 0; i < EXEC_MOST_STREAMED * DEPTH; i++) x[i] = (float)base_random_below(&random, 1000) / 999;
    for (int i = 0; i < DEPTH * COLUMNS; i++) w[i] = (float)base_random_below(&random, 1000) / 997;
    for (int across = 0; across < 2; across++) {
        const struct exec_matrix b = {w, across ? COLUMNS : 1, across ? 1 : DEPTH};
        exec_gemm(arena, EXEC_MOST_STREAMED, COLUMNS, DEPTH, (struct exec_matrix){x, DEPTH, 1}, b,
                  (struct exec_matrix){whole, COLUMNS, 1}, EXEC_OVERWRITE);
        for (int row = 0; row < EXEC_MOST_STREAMED; row++) {
            exec_gemm(arena, 1, COLUMNS, DEPTH, (struct exec_matrix){x + row * DEPTH, DEPTH, 1}, b,
                      (struct exec_matrix){alone, COLUMNS, 1}, EXEC_OVERWRITE);
            assert_memory_equal(alone, whole + row * COLUMNS, COLUMNS * sizeof *alone);
        }
    }
}

/* Initial values have the spreads that T5X's initializers have, and depend on seed, path and element alone. */
static void initial_values_have_their_spreads(struct base_arena *arena)
{
    static const struct {
        const char *path;
        int rank;
        int64_t shape[2];
        double spread;
    } rows[] = {
        {"target.token_embedder.embedding", 2, {200, 64}, 1},
        {"target.decoder.layers_0.mlp.wi_0.kernel", 2, {64, 200}, 1 / 8.0},
        {"target.decoder.layers_0.mlp.wo.kernel", 2, {200, 64}, 0},
        {"target.decoder.layers_0.self_attention.query.kernel", 2, {64, 200}, 1 / 16.0},
        {"target.decoder.layers_0.self_attention.key.kernel", 2, {64, 200}, 1 / 8.0},
        {"target.decoder.layers_0.self_attention.out.kernel", 2, {200, 64}, 1 / 4.0},
        {"target.decoder.relpos_bias.rel_embedding", 2, {16, 32}, 0},
    };
    struct model_config config = {.emb_dim = 64, .num_heads = 4, .head_dim = 4, .mlp_dim = 200};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct exec_array array = {.path = rows[i].path,
                                   .rank = rows[i].rank,
                                   .shape = {rows[i].shape[0], rows[i].shape[1]},
                                   .layers_dim = -1};
        struct sim_plan plan = {.config = &config, .seed = 3};
        int64_t count = elements_of(&array);
        float *values = base_new(arena, float, count), *again = base_new(arena, float, count);
        double fan = rows[i].spread > 0           ? 0
                     : strstr(rows[i].path, "wo") ? 200
                                                  : 24,
               spread = rows[i].spread > 0 ? rows[i].spread : sqrt(1 / fan), sum = 0;
        TEST_ROW("%s", rows[i].path);
        struct exec_region all = exec_whole(&array), corner = {{7, 5}, {2, 3}};
        float part[6];
        exec_initial_values(&plan, &array, &all, values);
        exec_initial_values(&plan, &array, &all, again);
        assert_memory_equal(values, again, (size_t)count * sizeof *values);
        for (int64_t j = 0; j < count; j++) sum += (double)values[j];
        assert_near(norm_of(values, count) / sqrt((double)count), spread, 0.06);
        assert_true(fabs(sum / (double)count) < 5 * spread / sqrt((double)count));
        exec_initial_values(&plan, &array, &corner, part);
        for (int j = 0; j < 6; j++) assert_true(part[j] == values[(7 + j / 3) * array.shape[1] + 5 + j % 3]);
        plan.seed = 4;
        exec_initial_values(&plan, &array, &all, again);
        assert_memory_not_equal(values, again, (size_t)count * sizeof *values);
    }
}

/* ---- places in the arena ---- */

/* Walks through the whole step and notes, for every 64 bytes of the arena, which value was last written there. */
struct walk {
    struct exec_machine *machine;
    int64_t *owners;
    bool good;
};

static int64_t identity(const struct walk *w, int value)
{
    const struct exec_machine *m = w->machine;
    int root = sim_root(m->s, value);
    for (int v = 0; v < root && m->s->values[root].persistent;
         v++) /* a persistent tensor is one thing under all its names */
        if (m->s->values[v].persistent && m->s->values[v].tensor == m->s->values[root].tensor) root = v;
    int64_t layer = m->map.slice_bytes[root] ? m->index[m->map.slice_size[root]] : 0;
    return 1 + root + layer * m->s->value_count;
}

static int64_t block_of(const struct walk *w, int value)
{
    return (exec_address(w->machine, value, 0) - w->machine->arenas[0]) / 64;
}

static int64_t block_count(const struct walk *w, int value)
{
    const struct sim_value *v = &w->machine->s->values[sim_root(w->machine->s, value)];
    const struct model_tensor *tensor = &w->machine->s->program->tensors[v->tensor];
    int64_t bytes = model_dtype_bytes(v->dtype);
    for (int d = 0; d < tensor->rank; d++)
        bytes *= exec_range_of(w->machine, 0, w->machine->sizes[tensor->dims[d]], v->spec[d]).extent;
    return (bytes + 63) / 64;
}

static void wrote(struct walk *w, int value)
{
    if (w->machine->map.offset_bytes[sim_root(w->machine->s, value)] < 0) return;
    for (int64_t i = 0; i < block_count(w, value); i++) w->owners[block_of(w, value) + i] = identity(w, value);
}

static void reads(struct walk *w, int value)
{
    const struct sim_sharded *s = w->machine->s;
    int root = sim_root(s, value);
    if (sim_is_one_hot(s, root)) {
        const struct sim_op *made = &s->ops[s->values[root].definition];
        for (int i = 0; i < made->input_count; i++) reads(w, made->inputs[i]);
        return;
    }
    if (w->machine->map.offset_bytes[root] < 0) return; /* in a row of scratch */
    for (int64_t i = 0; i < block_count(w, value); i++)
        w->good = w->good && w->owners[block_of(w, value) + i] == identity(w, value);
}

/* Rows are written while others are still to be read: an operand is overwritten exactly or not at all. */
static bool clashes(const struct walk *w, int input, int output)
{
    const struct exec_machine *m = w->machine;
    if (m->map.offset_bytes[sim_root(m->s, input)] < 0 || m->map.offset_bytes[sim_root(m->s, output)] < 0) return false;
    int64_t a = block_of(w, input), a_end = a + block_count(w, input), b = block_of(w, output),
            b_end = b + block_count(w, output);
    return a < b_end && b < a_end && !(a == b && a_end == b_end);
}

static void walk_kernel(struct walk *w, int k)
{
    const struct sim_sharded *s = w->machine->s;
    const struct sim_kernel *kernel = &s->kernels[k];
    for (int i = kernel->op; i <= kernel->last; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kernel != k) continue;
        for (int j = 0; j < op->input_count; j++) {
            int made = s->values[sim_root(s, op->inputs[j])].definition;
            if (made < kernel->op || made > kernel->last) reads(w, op->inputs[j]);
            for (int l = kernel->op; l <= kernel->last; l++)
                for (int o = 0; s->ops[l].kernel == k && o < s->ops[l].output_count; o++)
                    w->good = w->good && !clashes(w, op->inputs[j], s->ops[l].outputs[o]);
        }
    }
    for (int i = kernel->op; i <= kernel->last; i++)
        for (int o = 0; s->ops[i].kernel == k && o < s->ops[i].output_count; o++) wrote(w, s->ops[i].outputs[o]);
}

static void walk_range(struct walk *w, int from, int to)
{
    struct exec_machine *m = w->machine;
    for (int i = from; i < to; i++) {
        const struct sim_op *op = &m->s->ops[i], *end = &m->s->ops[op->match];
        if (op->kind == SIM_COMPUTE && op->kernel >= 0 && m->s->kernels[op->kernel].op == i) walk_kernel(w, op->kernel);
        if (op->kind == SIM_COMMUNICATE) reads(w, op->inputs[0]), wrote(w, op->outputs[0]);
        if (op->kind != SIM_LOOP_BEGIN) continue;
        int64_t count = m->sizes[op->trips];
        for (int64_t n = 0; n < count; n++) {
            m->index[op->trips] = op->op->reversed ? count - 1 - n : n;
            for (int c = 0; n == 0 && c < op->input_count; c++) reads(w, op->inputs[c]), wrote(w, op->outputs[c]);
            walk_range(w, i + 1, op->match);
            for (int c = 0; c < end->input_count; c++) reads(w, end->inputs[c]);
            if (n + 1 < count) m->index[op->trips] += op->op->reversed ? -1 : 1;
            for (int c = 0; c < end->input_count; c++) wrote(w, n + 1 < count ? op->outputs[c] : end->outputs[c]);
        }
        m->index[op->trips] = 0;
        i = op->match;
    }
}

static bool every_read_finds_its_value(struct base_arena *arena, struct exec_machine *machine)
{
    struct walk w = {machine, base_new(arena, int64_t, machine->map.arena_bytes / 64 + 1), true};
    memset(machine->index, 0, sizeof machine->index);
    for (int v = 0; v < machine->s->value_count; v++) {
        const struct sim_value *value = &machine->s->values[v];
        if (!value->persistent || value->alias >= 0 || value->definition >= 0) continue;
        int size = machine->s->program->tensors[value->tensor].layers;
        for (int64_t layer = 0; layer < machine->sizes[size]; layer++) {
            machine->index[size] = layer;
            wrote(&w, v);
        }
        machine->index[size] = 0;
    }
    walk_range(&w, 0, machine->s->op_count);
    return w.good;
}

static void values_stand_until_they_are_read(struct base_arena *arena)
{
    struct base_random random;
    int count = 0;
    base_random_seed(&random, 7);
    for (int i = 0; i < 200; i++) {
        struct genome genome = random_genome(&random);
        struct sim_plan_text text = plan_of(arena, &genome, false);
        struct base_error error;
        struct rig rig;
        text.values[SIM_OPTIMIZER] = i % 3 == 0 ? "adafactor" : i % 3 == 1 ? "adamw" : "sgd";
        if (rig_begin(arena, &text, &rig, &error) == BASE_OK) {
            const struct sim_memory_map *map = &rig.machine.map;
            int64_t sum = 0;
            count++;
            TEST_ROW("%s %s %s", text.values[SIM_MODEL], text.values[SIM_RULES], text.values[SIM_REMAT_POLICY]);
            for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) sum += map->category_bytes[c];
            assert_int_equal(sum, map->arena_bytes);
            assert_int_equal(map->scratch_offset_bytes + map->scratch_bytes, map->arena_bytes);
            assert_true(every_read_finds_its_value(arena, &rig.machine));
        }
        if (rig.cache) sim_cache_free(rig.cache);
    }
    assert_true(count > 100);
}

static const struct test tests[] = {
    TEST(steps_are_those_of_t5x),
    TEST(sharded_runs_equal_whole_ones),
    TEST(runs_on_named_meshes_equal_whole_ones),
    TEST(sharded_bfloat16_runs_equal_whole_ones),
    TEST(norms_are_of_sums_as_they_are),
    TEST(bfloat16_stays_near),
    TEST(sharded_state_changes_no_parameter),
    TEST(dropout_draws_the_same_masks_on_every_mesh),
    TEST(masks_drop_their_share),
    TEST(gradients_are_those_of_differences),
    TEST(a_llama_is_what_its_paper_says),
    TEST(runs_resume_on_any_mesh),
    TEST(runs_repeat_themselves),
    TEST(steps_say_their_cpu_seconds),
    TEST(lion_goes_by_signs),
    TEST(damaged_checkpoints_are_refused),
    TEST(a_folder_without_a_checkpoint_is_named),
    TEST(products_by_onednn_are_blas_products),
    TEST(a_manifest_holds_a_run_to_its_plan),
    TEST(adapters_keep_their_scale),
    TEST(a_manifest_holds_a_run_to_its_data),
    TEST(a_damaged_manifest_is_refused),
    TEST(damage_that_reads_well_is_found),
    TEST(the_last_written_is_the_last),
    TEST(one_run_writes_into_a_directory),
    TEST(chunked_arrays_are_read),
    TEST(arrays_are_the_models_parameters),
    TEST(batches_that_do_not_fit_are_refused),
    TEST(plans_that_cannot_run_are_refused),
    TEST(plans_for_other_hardware_run),
    TEST(exponentials_are_exact_enough),
    TEST(slopes_are_those_of_alibi),
    TEST(softcaps_are_hyperbolic_tangents),
    TEST(bfloat16_rounds_to_even),
    TEST(relative_positions_have_buckets),
    TEST(products_are_sums_of_products),
    TEST(streamed_weights_are_summed_whole),
    TEST(a_row_among_few_is_the_row_alone),
    TEST(initial_values_have_their_spreads),
    TEST(values_stand_until_they_are_read),
};

int main(int argument_count, char **arguments)
{
    struct base_error no_memory;
    if (exec_gemm_begin(&no_memory) != BASE_OK) return 1;
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
