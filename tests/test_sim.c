/* Tests of sim/: liveness on programs that were worked out by hand, its peak against the step walked iteration by
 * iteration, ring loads against a router of their own, prices by hand, what must hold of every plan, and refusals. */
#include "tests/by_software.h"
#include "tests/meshes.h"
#include "tests/rows.h"
#include "tests/test.h"

#include <stdlib.h>

#include "sim/partition/sharding_tiles.h"
#include "sim/predict/predict.h"
#include "sim/program/session_cache.h"

#define SMALL "emb_dim=64,num_heads=4,head_dim=24,mlp_dim=96,vocab_size=512"
#define SMALL_T5 "encoder_decoder:" SMALL ",num_encoder_layers=3,num_decoder_layers=2,mlp_activations=gelu+linear"
#define SMALL_SCALABLE "scalable_" SMALL_T5
#define SMALL_DECODER "decoder_only:" SMALL ",num_layers=3,logits_via_embedding=1"

/* ---- asking ---- */

static struct sim_plan checked(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                               enum model_step step, enum sim_form form)
{
    struct sim_plan plan;
    struct base_error error;
    assert_ok(check_by_software(cache, arena, text, step, form, &plan, &error), &error);
    return plan;
}

static struct sim_prediction predicted(struct sim_cache *cache, struct base_arena *arena,
                                       const struct sim_plan_text *text)
{
    struct sim_plan plan = checked(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    struct sim_prediction prediction;
    struct base_error error;
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

static struct sim_prediction predict_words(struct sim_cache *cache, struct base_arena *arena, const char *words)
{
    struct sim_plan_text text = plan_text(arena, words);
    return predicted(cache, arena, &text);
}

/* Constants in place of the catalogue's: "hbm_bytes_per_s": 1e12, … */
static void set_constants(struct sim_cache *cache, struct base_arena *arena, const char *constants)
{
    const struct base_json *document;
    struct base_error error;
    const char *text = base_print(arena, "{\"constants\": {%s}}", constants);
    assert_ok(base_json_parse(arena, text, strlen(text), &document, &error), &error);
    sim_cache_override(cache, document);
}

/* Rates of round numbers, no latency, nothing reserved. */
#define ROUND_CONSTANTS                                                                                                \
    "\"flop_per_s\": 1e12, \"matmul_efficiency_frac\": 1, \"hbm_bytes_per_s\": 1e11, \"hbm_efficiency_frac\": 1, "     \
    "\"link_bytes_per_s\": 1e9, \"link_efficiency_frac\": 1, \"multi_axis_link_efficiency_frac\": 1, "                 \
    "\"kernel_latency_s\": 0, "                                                                                        \
    "\"collective_latency_s\": 0, \"hop_latency_s\": 0, \"ll_bytes_per_s\": 0, \"multiprocessors\": 0, "               \
    "\"reserved_bytes\": 0, \"fragmentation_frac\": 0, "                                                               \
    "\"capacity_bytes\": 1e15"

/* ---- what is kept from plan to plan ---- */

#define TINY_PLAN "model=t5_1_1_small batch_size=8 inputs_length=16 targets_length=16 "

static void a_mistake_made_again_is_answered_alike_and_costs_no_memory(struct base_arena *arena)
{
    static const struct {
        enum sim_key key;
        const char *value;
    } mistakes[] = {
        {SIM_MODEL, "t5_1_1_bass"},         {SIM_TOPOLOGY, "v4-9"},    {SIM_SUBMESH, "3,1,1,1"}, {SIM_RULES, "[[]]"},
        {SIM_OVERRIDES, "[[\"(\", null]]"}, {SIM_ADAFACTOR, "beta=1"},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(mistakes); i++) {
        TEST_ROW("%s %s", sim_plan_keys[mistakes[i].key].name, mistakes[i].value);
        struct sim_plan_text text = plan_text(arena, TINY_PLAN "topology=v4:2x2x2");
        struct sim_plan plan;
        struct base_error first, again;
        text.values[mistakes[i].key] = mistakes[i].value;
        assert_int_equal(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &first),
                         BASE_INPUT);
        int64_t kept_bytes = cache->arena.allocated_bytes;
        assert_int_equal(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &again),
                         BASE_INPUT);
        assert_string_equal(first.text, again.text);
        assert_int_equal(cache->arena.allocated_bytes, kept_bytes);
    }
    sim_cache_free(cache);
}

/* (1, 2) and (1, 2, 0) are two submeshes, however they are kept. */
static void a_refused_submesh_is_not_taken_for_one_that_was_accepted(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = plan_text(arena, TINY_PLAN "topology=h100:1x8 model_parallel_submesh=1,2");
    struct sim_plan plan;
    struct base_error error;
    assert_ok(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    text.values[SIM_SUBMESH] = "1,2,0";
    assert_fails(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "model_parallel_submesh");
    sim_cache_free(cache);
}

/* ---- the step walked through, iteration by iteration ---- */

struct walk {
    const struct sim_sharded *sharded;
    const double *bytes; /* by shape */
    const int64_t *sizes;
    double now[MODEL_CATEGORY_COUNT], total, peak, at_peak[MODEL_CATEGORY_COUNT];
};

static int closing_bracket(const struct sim_sharded *s, int open)
{
    int depth = 0;
    for (int i = open; i < s->event_count; i++) {
        depth += s->events[i].bracket;
        if (!depth) return i;
    }
    fail_msg("a loop is not closed");
    return -1;
}

static void walk_events(struct walk *w, int from, int to)
{
    for (int i = from; i < to; i++) {
        const struct sim_event *event = &w->sharded->events[i];
        if (event->bracket > 0) {
            int close = closing_bracket(w->sharded, i);
            for (int64_t trip = 0; trip < w->sizes[event->trips]; trip++) walk_events(w, i + 1, close);
            i = close;
            continue;
        }
        w->now[event->category] += event->sign * w->bytes[event->shape];
        w->total += event->sign * w->bytes[event->shape];
        if (w->now[event->category] < 0)
            fail_msg("event %d frees what is not there (category %d)", i, (int)event->category);
        if (w->total <= w->peak) continue;
        w->peak = w->total;
        memcpy(w->at_peak, w->now, sizeof w->at_peak);
    }
}

static struct walk walk_step(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                             const struct topo_axes *mesh)
{
    double *bytes = base_new(arena, double, sharded->shape_count);
    for (int i = 0; i < sharded->shape_count; i++) {
        const struct sim_shape *shape = &sharded->shapes[i];
        bytes[i] = (double)sizes[shape->layers] * (double)model_dtype_bytes(shape->dtype);
        for (int d = 0; d < shape->rank; d++) {
            int64_t shards = topo_axes_product(mesh, shape->spec[d]);
            bytes[i] *= ceil((double)sizes[shape->dims[d]] / (double)shards);
        }
    }
    struct walk walk = {.sharded = sharded, .bytes = bytes, .sizes = sizes};
    walk_events(&walk, 0, sharded->event_count);
    return walk;
}

/* ---- liveness by hand ---- */

/* Programs of float32 tensors whose dimensions are b = 4, e = 8, f = 16, v = 64: be is 128 bytes, bf 256, bv 1024, ef
 * 512. */
enum { TRIPS = 5 };

struct sketch {
    struct base_arena *arena;
    struct model_program program;
};

static struct sketch sketch_new(struct base_arena *arena)
{
    enum { MOST = 64, MOST_BLOCKS = 4 };
    struct sketch s = {.arena = arena};
    s.program.arena = arena;
    s.program.tensors = base_new(arena, struct model_tensor, MOST);
    s.program.blocks = base_new(arena, struct model_block, MOST_BLOCKS);
    for (int b = 0; b < MOST_BLOCKS; b++)
        s.program.blocks[b] =
            (struct model_block){.name = "block", .parent = b ? 0 : -1, .ops = base_new(arena, struct model_op, MOST)};
    s.program.block_count = MOST_BLOCKS;
    return s;
}

static int sketch_tensor(struct sketch *s, const char *labels, int block, enum model_category category)
{
    static const struct {
        char letter;
        unsigned char size, axis;
    } letters[] = {{'b', MODEL_BATCH, MODEL_AXIS_BATCH},
                   {'e', MODEL_EMBED, MODEL_AXIS_EMBED},
                   {'f', MODEL_MLP, MODEL_AXIS_MLP},
                   {'v', MODEL_VOCAB, MODEL_AXIS_VOCAB}};
    struct model_tensor *t = &s->program.tensors[s->program.tensor_count];
    *t = (struct model_tensor){.name = base_print(s->arena, "t%d", s->program.tensor_count),
                               .rank = (int)strlen(labels),
                               .dtype = MODEL_FLOAT32,
                               .category = category,
                               .like = -1,
                               .scales = -1,
                               .recomputed_of = -1,
                               .block = block,
                               .layers = MODEL_ONE,
                               .role = MODEL_ROLE_PROJECTION};
    memcpy(t->labels, labels, strlen(labels) + 1);
    for (int d = 0; d < t->rank; d++)
        for (int i = 0; i < BASE_COUNT(letters); i++)
            if (letters[i].letter == labels[d]) t->dims[d] = letters[i].size, t->axes[d] = letters[i].axis;
    return s->program.tensor_count++;
}

static struct model_op *sketch_op(struct sketch *s, int block, enum model_op_kind kind, enum model_function function,
                                  int a, int b)
{
    struct model_block *to = &s->program.blocks[block];
    struct model_op *op = &to->ops[to->op_count++];
    int inputs[] = {a, b};
    *op = (struct model_op){
        .kind = kind, .function = function, .name = base_print(s->arena, "op%d.%d", block, to->op_count)};
    for (int i = 0; i < 2 && inputs[i] >= 0; i++) {
        memcpy(op->input_labels[i], s->program.tensors[inputs[i]].labels, sizeof op->input_labels[i]);
        op->inputs[op->input_count++] = inputs[i];
    }
    return op;
}

/* A new tensor made of two. */
static int sketch_make(struct sketch *s, int block, enum model_op_kind kind, enum model_function function,
                       const char *labels, int a, int b)
{
    int out = sketch_tensor(s, labels, block, MODEL_ACTIVATION);
    struct model_op *op = sketch_op(s, block, kind, function, a, b);
    memcpy(op->output_labels, labels, strlen(labels) + 1);
    op->outputs[op->output_count++] = out;
    return out;
}

static int contract(struct sketch *s, int block, const char *labels, int a, int b)
{
    return sketch_make(s, block, MODEL_EINSUM, MODEL_NO_FUNCTION, labels, a, b);
}

static int repeat(struct sketch *s, int body, int init, int in, int out)
{
    int result = sketch_tensor(s, s->program.tensors[init].labels, 0, MODEL_ACTIVATION);
    struct model_op *loop = sketch_op(s, 0, MODEL_LOOP, MODEL_NO_FUNCTION, -1, -1);
    loop->body = body;
    loop->trips = MODEL_DECODER_LAYERS;
    loop->carry_count = 1;
    loop->carries[0] = (struct model_carry){init, in, out, result};
    return result;
}

static double sketch_peak(struct sketch *s, bool scanned)
{
    const int64_t sizes[MODEL_SIZE_COUNT] = {[MODEL_ONE] = 1,  [MODEL_BATCH] = 4,  [MODEL_EMBED] = 8,
                                             [MODEL_MLP] = 16, [MODEL_VOCAB] = 64, [MODEL_DECODER_LAYERS] = TRIPS};
    struct model_rules rules;
    struct sim_shardings shardings;
    struct sim_sharded sharded;
    struct base_error error;
    assert_ok(model_rules_parse(s->arena, "standard:1,1", &rules, &error), &error);
    const struct topo_axes mesh = t5x_mesh(1, 1);
    struct sim_sharding_options options = {.rules = &rules, .extents = {.mesh = &mesh}};
    assert_ok(sim_propagate(s->arena, sim_graph_build(s->arena, &s->program, &options), &options, &shardings, &error),
              &error);
    assert_ok(sim_partition(s->arena, &s->program, &options, &shardings, &sharded, &error), &error);
    sim_compile(s->arena, &(struct sim_compiler){.is_scanned = scanned}, &sharded);
    struct walk walk = walk_step(s->arena, &sharded, sizes, &mesh);
    assert_near(walk.total, 0, 0);
    return walk.peak;
}

/* Operands that every sketch has. */
struct operands {
    int x, ef, fe, ev, ve;
};

static struct operands declare(struct sketch *s)
{
    return (struct operands){sketch_tensor(s, "be", -1, MODEL_INPUT), sketch_tensor(s, "ef", -1, MODEL_PARAMETER),
                             sketch_tensor(s, "fe", -1, MODEL_PARAMETER), sketch_tensor(s, "ev", -1, MODEL_PARAMETER),
                             sketch_tensor(s, "ve", -1, MODEL_PARAMETER)};
}

/* Only a contraction's operand and its result are alive together. */
static void liveness_of_a_chain(struct base_arena *arena)
{
    struct sketch s = sketch_new(arena);
    struct operands o = declare(&s);
    int a = contract(&s, 0, "bf", o.x, o.ef), b = contract(&s, 0, "be", a, o.fe), c = contract(&s, 0, "bv", b, o.ev);
    contract(&s, 0, "be", c, o.ve);
    assert_near(sketch_peak(&s, false), 1024 + 128, 0); /* c and either neighbour */
}

/* A sum is written over the operand that dies with it; the other operand never was in memory. */
static void liveness_in_place(struct base_arena *arena)
{
    struct sketch s = sketch_new(arena);
    struct operands o = declare(&s);
    int a = contract(&s, 0, "bf", o.x, o.ef), b = contract(&s, 0, "bf", o.x, o.ef);
    int sum = sketch_make(&s, 0, MODEL_MAP, MODEL_ADD, "bf", a, b);
    contract(&s, 0, "be", sum, o.fe);
    assert_near(sketch_peak(&s, false), 256 + 128, 0); /* the sum and the last result */
}

/* What elementwise operations make of a contraction is stored before the next contraction reads it: two contractions
 * are no one kernel. */
static void liveness_stores_between_contractions(struct base_arena *arena)
{
    struct sketch s = sketch_new(arena);
    struct operands o = declare(&s);
    int a = contract(&s, 0, "bv", o.x, o.ev);
    int scaled = sketch_make(&s, 0, MODEL_MAP, MODEL_SCALE, "bv", a, -1);
    contract(&s, 0, "be", scaled, o.ve);
    assert_near(sketch_peak(&s, false), 1024 + 128, 0);
}

/* What goes round a loop changes hands; nothing is there twice, and nothing adds up. */
static void liveness_of_a_carry(struct base_arena *arena)
{
    struct sketch s = sketch_new(arena);
    struct operands o = declare(&s);
    int init = contract(&s, 0, "be", contract(&s, 0, "bf", o.x, o.ef), o.fe);
    int in = sketch_tensor(&s, "be", 1, MODEL_ACTIVATION);
    int out = contract(&s, 1, "be", contract(&s, 1, "bf", in, o.ef), o.fe);
    contract(&s, 0, "bf", repeat(&s, 1, init, in, out), o.ef);
    assert_near(sketch_peak(&s, false), 256 + 128, 0);
}

/* Forward, each iteration keeps a bf (256) for its counterpart backward, and passes through a bv (1024). */
static double peak_with_residuals(struct base_arena *arena, bool scanned)
{
    struct sketch s = sketch_new(arena);
    struct operands o = declare(&s);
    int init = contract(&s, 0, "be", contract(&s, 0, "bf", o.x, o.ef), o.fe);
    int in = sketch_tensor(&s, "be", 1, MODEL_ACTIVATION);
    int kept = contract(&s, 1, "bf", contract(&s, 1, "be", contract(&s, 1, "bv", in, o.ev), o.ve), o.ef);
    int middle = repeat(&s, 1, init, in, contract(&s, 1, "be", kept, o.fe));
    int back_in = sketch_tensor(&s, "be", 2, MODEL_ACTIVATION);
    int back_out = sketch_make(&s, 2, MODEL_MAP, MODEL_ADD, "be", back_in, contract(&s, 2, "be", kept, o.fe));
    contract(&s, 0, "bf", repeat(&s, 2, middle, back_in, back_out), o.ef);
    return sketch_peak(&s, scanned);
}

static void liveness_of_residuals(struct base_arena *arena)
{
    assert_near(peak_with_residuals(arena, false), (TRIPS - 1) * 256 + 128 + 1024,
                0);                                                             /* last iteration: four are kept */
    assert_near(peak_with_residuals(arena, true), TRIPS * 256 + 128 + 1024, 0); /* the stack is there from the start */
}

/* What goes round the forward loop is itself what the backward loop reads: one copy of it an iteration, and no more. */
static double peak_with_kept_carry(struct base_arena *arena, bool scanned)
{
    struct sketch s = sketch_new(arena);
    struct operands o = declare(&s);
    int init = contract(&s, 0, "be", contract(&s, 0, "bf", o.x, o.ef), o.fe);
    int in = sketch_tensor(&s, "be", 1, MODEL_ACTIVATION);
    int forward = repeat(&s, 1, init, in, contract(&s, 1, "be", contract(&s, 1, "bv", in, o.ev), o.ve));
    int middle = contract(&s, 0, "be", contract(&s, 0, "bf", forward, o.ef), o.fe);
    int back_in = sketch_tensor(&s, "be", 2, MODEL_ACTIVATION);
    int back_out = sketch_make(&s, 2, MODEL_MAP, MODEL_ADD, "be", back_in,
                               contract(&s, 2, "be", contract(&s, 2, "bv", in, o.ev), o.ve));
    contract(&s, 0, "bf", repeat(&s, 2, middle, back_in, back_out), o.ef);
    return sketch_peak(&s, scanned);
}

static void liveness_of_a_kept_carry(struct base_arena *arena)
{
    for (int scanned = 0; scanned < 2; scanned++)
        assert_near(peak_with_kept_carry(arena, scanned), TRIPS * 128 + 1024 + 128, 0);
}

/* A value from outside that each iteration reads stays until the loop has ended. */
static void liveness_of_what_a_loop_reads(struct base_arena *arena)
{
    struct sketch s = sketch_new(arena);
    struct operands o = declare(&s);
    int constant = contract(&s, 0, "bf", o.x, o.ef), init = contract(&s, 0, "be", constant, o.fe);
    int in = sketch_tensor(&s, "be", 1, MODEL_ACTIVATION);
    int gated = sketch_make(&s, 1, MODEL_MAP, MODEL_GATE, "bf", contract(&s, 1, "bf", in, o.ef), constant);
    contract(&s, 0, "bf", repeat(&s, 1, init, in, contract(&s, 1, "be", gated, o.fe)), o.ef);
    assert_near(sketch_peak(&s, false), 256 + 256 + 128, 0); /* the constant, the gated, and what goes round */
}

/* A gradient is gone when its parameter is updated, so two gradients are never alive together. */
static void liveness_of_updates(struct base_arena *arena)
{
    struct sketch s = sketch_new(arena);
    struct operands o = declare(&s);
    int a = contract(&s, 0, "bf", o.x, o.ef);
    const int parameters[] = {o.ef, o.fe};
    const char *const labels[] = {"ef", "fe"};
    for (int i = 0; i < 2; i++) {
        int gradient = contract(&s, 0, labels[i], i ? a : o.x, i ? o.x : a);
        struct model_op *update = sketch_op(&s, 0, MODEL_UPDATE, MODEL_SGD_UPDATE, parameters[i], gradient);
        memcpy(update->output_labels, labels[i], sizeof "ef");
        update->outputs[update->output_count++] = parameters[i];
    }
    assert_near(sketch_peak(&s, false), 256 + 512, 0);
}

/* ---- memory of whole plans ---- */

static const char *const memory_plans[] = {
    "model=" SMALL_T5 " topology=v4:2x2x1 batch_size=16 inputs_length=48 targets_length=24",
    "model=" SMALL_T5 " topology=v4:2x2x1 num_partitions=2 batch_size=16 num_microbatches=4 inputs_length=48 "
    "targets_length=24 optimizer=adamw",
    "model=" SMALL_T5 " topology=v4:2x2x2 model_parallel_submesh=2,2,1,1 batch_size=36 num_microbatches=3 "
    "inputs_length=50 targets_length=25 remat_policy=full optimizer=sgd",
    "model=" SMALL_SCALABLE
    " topology=v4:2x2x2 model_parallel_submesh=1,1,2,1 batch_size=32 inputs_length=48 targets_length=24",
    "model=" SMALL_SCALABLE " topology=v4:2x2x2 model_parallel_submesh=1,1,2,1 batch_size=32 num_microbatches=2 "
    "inputs_length=48 targets_length=24 remat_policy=none optimizer=adamw",
    "model=" SMALL_SCALABLE " topology=v4:2x2x1 num_partitions=2 batch_size=8 inputs_length=16 targets_length=8 "
    "logical_axis_rules=zero3 optimizer=adamw",
    "model=" SMALL_DECODER
    " topology=h100:2x8 num_partitions=4 batch_size=16 targets_length=100 attention=flash remat_policy=selective",
    "model=" SMALL_DECODER
    " topology=v3:2x2 num_partitions=2 batch_size=16 targets_length=64 logical_axis_rules=standard:2,2 "
    "remat_policy=minimal optimizer_partitioning=data optimizer=adamw",
    "model=t5_1_1_base topology=v4:2x2x1 batch_size=128 inputs_length=512 targets_length=114",
    "model=t5_1_0_11B topology=v4-512 model_parallel_submesh=4,2,2,1 batch_size=896 num_microbatches=4 "
    "inputs_length=512 targets_length=512 optimizer=adamw",
    "model=decoder_only_large topology=v4-32 num_partitions=4 batch_size=64 num_microbatches=4 targets_length=1024 "
    "optimizer=adamw",
};

/* Loops in closed form give what walking through each iteration gives, and nothing is left when the step has ended. */
static void memory_peak_is_that_of_the_walk(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    set_constants(cache, arena, "\"reserved_bytes\": 0, \"fragmentation_frac\": 0, \"capacity_bytes\": 1e15");
    for (int i = 0; i < BASE_COUNT(memory_plans); i++) {
        TEST_ROW("%s", memory_plans[i]);
        struct sim_plan_text text = plan_text(arena, memory_plans[i]);
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        struct sim_prediction prediction;
        const struct sim_sharded *sharded;
        int64_t sizes[MODEL_SIZE_COUNT];
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        assert_ok(sim_sharded_program(cache, &plan, &sharded, sizes, &error), &error);
        struct walk walk = walk_step(arena, sharded, sizes, &plan.placement->axes);
        double persistent = 0;
        for (int p = 0; p < sharded->persistent_count; p++) persistent += walk.bytes[sharded->persistent[p].shape];
        assert_near(walk.total, 0, 0);
        assert_near((double)prediction.memory.peak_bytes, walk.peak + persistent, 0);
        assert_near((double)prediction.memory.temporary_bytes, walk.at_peak[MODEL_TEMPORARY], 0);
    }
    sim_cache_free(cache);
}

static int64_t sum_of_categories(const struct sim_memory *m)
{
    return m->parameter_bytes + m->optimizer_state_bytes + m->gradient_bytes + m->activation_bytes +
           m->temporary_bytes + m->reserved_bytes;
}

static void memory_categories_add_up(struct base_arena *arena)
{
    static const char *const too_large[] = {
        "model=t5_1_0_11B topology=v4-512 model_parallel_submesh=2,2,2,1 batch_size=896 num_microbatches=4 "
        "inputs_length=512 targets_length=512 optimizer=adamw",
        "model=t5_1_0_11B topology=v4-512 model_parallel_submesh=4,2,2,1 batch_size=896 inputs_length=512 "
        "targets_length=512 optimizer=adamw",
        "model=t5_1_0_11B topology=v4-512 model_parallel_submesh=4,4,2,1 batch_size=640 inputs_length=512 "
        "targets_length=512 optimizer=adamw",
        "model=t5_1_1_xl topology=v4-32 num_partitions=4 batch_size=256 inputs_length=512 targets_length=512 "
        "optimizer=adamw",
    };
    struct sim_cache *cache = sim_cache_new(arena);
    int rematerialized = 0;
    for (int i = 0; i < BASE_COUNT(memory_plans) + BASE_COUNT(too_large); i++) {
        const char *words = i < BASE_COUNT(memory_plans) ? memory_plans[i] : too_large[i - BASE_COUNT(memory_plans)];
        TEST_ROW("%s", words);
        struct sim_prediction p = predict_words(cache, arena, words);
        assert_int_equal(sum_of_categories(&p.memory), p.memory.peak_bytes);
        assert_int_equal(p.fits, p.memory.peak_bytes <= p.memory.capacity_bytes);
        rematerialized += p.memory.rematerialized_layer_count > 0;
    }
    assert_in_range(rematerialized, 2, BASE_COUNT(too_large)); /* the compiler's own recomputation is among the cases */
    sim_cache_free(cache);
}

/* ---- rings ---- */

/* A router that knows neighbours alone: it goes hop by hop along x, then y, then z, and notes each pair of chips that
 * it passes between. */
struct ring_router {
    const struct topo_topology *topology;
    double *flow; /* from chip to chip */
    int chips;
    double hops;
};

static int chip_number(const struct topo_topology *t, const int *at)
{
    return (at[2] * t->bounds[1] + at[1]) * t->bounds[0] + at[0];
}

static void send(struct ring_router *r, const int *from, const int *to, double share, int forced)
{
    int d = 0, at[3] = {from[0], from[1], from[2]}, next[3] = {from[0], from[1], from[2]};
    while (d < 3 && at[d] == to[d]) d++;
    if (d == 3) return;
    int size = r->topology->bounds[d], up = (to[d] - at[d] + size) % size, down = (at[d] - to[d] + size) % size;
    int direction = forced ? forced : !r->topology->wrap[d] ? (to[d] > at[d] ? 1 : -1) : up < down ? 1 : -1;
    if (up == down && r->topology->kind == TOPO_LOCAL) direction = 1; /* static routes */
    else if (!forced && r->topology->wrap[d] && up == down) {
        send(r, from, to, share / 2, 1);
        send(r, from, to, share / 2, -1);
        return;
    }
    next[d] = (at[d] + direction + size) % size;
    r->flow[chip_number(r->topology, at) * r->chips + chip_number(r->topology, next)] += share;
    r->hops += share;
    send(r, next, to, share, next[d] == to[d] ? 0 : direction);
}

static int differing_dimension(const struct topo_topology *t, int a, int b)
{
    int strides[3] = {1, t->bounds[0], t->bounds[0] * t->bounds[1]}, found = -1;
    for (int d = 0; d < 3; d++)
        if (a / strides[d] % t->bounds[d] != b / strides[d] % t->bounds[d]) found = d;
    return found;
}

/* Whether two chips are neighbours, and in which dimension. */
static int link_dimension(const struct topo_topology *t, int a, int b)
{
    int strides[3] = {1, t->bounds[0], t->bounds[0] * t->bounds[1]}, d = differing_dimension(t, a, b), apart = 0;
    for (int i = 0; i < 3; i++) apart += a / strides[i] % t->bounds[i] != b / strides[i] % t->bounds[i];
    if (apart != 1) return -1;
    int step = abs(a / strides[d] % t->bounds[d] - b / strides[d] % t->bounds[d]);
    return step == 1 || (t->wrap[d] && step == t->bounds[d] - 1) ? d : -1;
}

static struct topo_ring_load brute_ring_loads(struct base_arena *arena, const struct topo_topology *t,
                                              const struct topo_mesh *mesh, unsigned axes)
{
    struct ring_router r = {.topology = t, .chips = t->bounds[0] * t->bounds[1] * t->bounds[2]};
    int group_of[2] = {axes & 1 ? mesh->axes.sizes[0] : 1, axes & 2 ? mesh->axes.sizes[1] : 1},
        size = group_of[0] * group_of[1];
    struct topo_ring_load load = {.group_size = size};
    r.flow = base_new(arena, double, r.chips *r.chips);
    struct ring_router back = r;
    back.flow = base_new(arena, double, r.chips *r.chips);
    for (int device = 0; size > 1 && device < mesh->device_count; device++) {
        int row = device / mesh->axes.sizes[1], column = device % mesh->axes.sizes[1];
        int place = (axes & 1 ? row : 0) * group_of[1] + (axes & 2 ? column : 0), next = (place + 1) % size;
        int next_row = axes & 1 ? next / group_of[1] : row, next_column = axes & 2 ? next % group_of[1] : column;
        const int *to = mesh->devices[next_row * mesh->axes.sizes[1] + next_column];
        send(&r, mesh->devices[device], to, 1, 0);
        send(&back, to, mesh->devices[device], 1, 0);
    }
    double total = 0, by_dimension[3] = {0}, links[3] = {0};
    for (int a = 0; a < r.chips; a++)
        for (int b = 0; b < r.chips; b++) {
            int d = link_dimension(t, a, b);
            double flow = r.flow[a * r.chips + b], both = (flow + back.flow[a * r.chips + b]) / 2;
            if (d < 0) continue;
            links[d]++;
            by_dimension[d] += flow;
            total += flow;
            load.busiest_one_way = fmax(load.busiest_one_way, flow);
            load.busiest_link = fmax(load.busiest_link, both);
        }
    double spanned = 0;
    for (int d = 0; d < 3; d++) spanned += by_dimension[d] > 0 ? links[d] : 0;
    for (int d = 0; d < 3; d++) load.dimension_count += by_dimension[d] > 0;
    load.mean_link = spanned > 0 ? total / spanned : 0;
    load.hops = size > 1 ? (int)lround(r.hops * size / mesh->device_count) : 0;
    assert_near(total, r.hops, 1e-12); /* every hop is between neighbours */
    return load;
}

static void rings_load_links_as_a_router_does(struct base_arena *arena)
{
    static const char *const rows[] = {"v4:2x2x1 1,1,1,1",
                                       "v4:2x2x1 2,1,1,1",
                                       "v4:2x2x1 2,2,1,1",
                                       "v4:2x2x4 1,1,4,1",
                                       "v4:2x2x4 2,1,2,1",
                                       "v4:4x4x4 4,1,1,1",
                                       "v4:4x4x4 1,4,1,1",
                                       "v4:4x4x4 1,1,4,1",
                                       "v4:4x4x4 2,2,1,1",
                                       "v4:4x4x4 2,2,2,1",
                                       "v4:4x4x4 4,2,2,1",
                                       "v4:4x4x4 4,4,2,1",
                                       "v4:4x4x4@wrap=none 2,4,2,1",
                                       "v4:4x4x4@wrap=y 4,2,1,1",
                                       "v4:4x4x8 4,2,2,1",
                                       "v4:4x4x8 2,2,4,1",
                                       "v4:4x4x8 1,4,8,1",
                                       "v5e:4x4 4,1,1,1",
                                       "v5e:4x8 2,4,1,1",
                                       "v5e:4x8@wrap=x+y 2,4,1,1",
                                       "v3:4x4 2,2,1,1",
                                       "v3:4x4 4,1,1,2",
                                       "v3:4x8 4,1,1,2",
                                       "local:3x4 1,4",
                                       "local:3x5 3,1",
                                       "local:5x4 5,2"};
    struct base_error error;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        char name[80], submesh[20];
        int64_t numbers[8];
        struct topo_topology topology;
        struct topo_mesh mesh;
        struct topo_mesh_request request = {.tile_by_host_if_needed = true};
        assert_int_equal(sscanf(rows[i], "%79s %19s", name, submesh), 2);
        assert_ok(base_parse_ints(submesh, "submesh", 1, 64, 8, numbers, &request.submesh_count, &error), &error);
        for (int n = 0; n < request.submesh_count; n++) request.submesh[n] = (int)numbers[n];
        assert_ok(topo_parse(arena, name, &topology, &error), &error);
        assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
        for (unsigned axes = 1; axes < T5X_SETS; axes++) {
            struct topo_ring_load load, expected = brute_ring_loads(arena, &topology, &mesh, axes);
            TEST_ROW("%s, axes %u", rows[i], axes);
            topo_ring_loads(arena, &topology, &mesh, axes, &load);
            assert_int_equal(load.group_size, expected.group_size);
            assert_int_equal(load.hops, expected.hops);
            assert_int_equal(load.dimension_count, expected.dimension_count);
            assert_near(load.busiest_one_way, expected.busiest_one_way, 1e-12);
            assert_near(load.busiest_link, expected.busiest_link, 1e-12);
            assert_near(load.mean_link, expected.mean_link, 1e-12);
        }
    }
}

/* ---- what each device holds, and which collectives that makes necessary ---- */

static const struct sim_value *value_named(const struct sim_sharded *s, const char *name)
{
    for (int i = 0; i < s->value_count; i++)
        if (!strcmp(s->program->tensors[s->values[i].tensor].name, name)) return &s->values[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static void shards_have_the_shapes_that_rules_give(struct base_arena *arena)
{
#define T5_ON_2X4                                                                                                      \
    "model=" SMALL_T5 " topology=local:8 num_partitions=4 batch_size=16 inputs_length=48 targets_length=24 "           \
    "dtype=bfloat16 logical_axis_rules="
#define DECODER_ON_2X4                                                                                                 \
    "model=" SMALL_DECODER                                                                                             \
    " topology=local:8 num_partitions=4 batch_size=16 targets_length=24 dtype=bfloat16 logical_axis_rules="
    static const struct {
        const char *words, *tensor, *shape;
    } rows[] = {
        {T5_ON_2X4 "standard:1,1", "token_embedder/embedding", "128 64"},
        {T5_ON_2X4 "standard:1,1", "encoder/layers/attention/query/kernel", "64 24"},
        {T5_ON_2X4 "standard:1,1", "encoder/layers/attention/query", "8 48 1 24"},
        {T5_ON_2X4 "standard:1,1", "encoder/layers/attention/softmax", "8 1 48 48"},
        {T5_ON_2X4 "standard:1,1", "decoder/layers/mlp/wo/kernel", "24 64"},
        {T5_ON_2X4 "standard:1,1", "decoder/layers/mlp/wi_0", "8 24 24"},
        {T5_ON_2X4 "standard:1,1", "decoder/logits_dense", "8 24 128"},
        {T5_ON_2X4 "standard:1,1", "encoder/layers/pre_mlp_layer_norm", "8 48 64"},
        {T5_ON_2X4 "data_only", "token_embedder/embedding", "512 64"},
        {T5_ON_2X4 "data_only", "encoder/layers/attention/query", "8 48 4 24"},
        {T5_ON_2X4 "data_only", "decoder/logits_dense", "8 24 512"},
        {T5_ON_2X4 "zero3", "token_embedder/embedding", "512 32"},
        {T5_ON_2X4 "zero3", "encoder/layers/mlp/wi_0/kernel", "32 96"},
        {T5_ON_2X4 "zero3", "encoder/layers/mlp/wi_0", "8 48 96"},
        {T5_ON_2X4 "megatron", "encoder/layers/attention/query/kernel", "64 96"},
        {T5_ON_2X4 "megatron", "encoder/layers/attention/query", "8 48 1 24"},
        {T5_ON_2X4 "megatron", "encoder/layers/mlp/wi_0/kernel", "64 24"},
        {DECODER_ON_2X4 "standard:1,1", "decoder/token_embedder/embedding", "128 64"},
        {DECODER_ON_2X4 "standard:1,1", "decoder/layers/self_attention/out/kernel", "24 64"},
        {DECODER_ON_2X4 "standard:1,1", "decoder/layers/self_attention/value", "8 24 1 24"},
        {DECODER_ON_2X4 "standard:1,1", "decoder/logits", "8 24 128"},
        {DECODER_ON_2X4 "zero3", "decoder/layers/mlp/wo/kernel", "96 32"},
        {DECODER_ON_2X4 "megatron", "decoder/layers/self_attention/key", "8 24 1 24"},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = plan_text(arena, rows[i].words);
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_PARTITIONED);
        const struct sim_sharded *sharded;
        int64_t sizes[MODEL_SIZE_COUNT];
        char shape[60] = "";
        TEST_ROW("%s in %s", rows[i].tensor, rows[i].words);
        assert_ok(sim_sharded_program(cache, &plan, &sharded, sizes, &error), &error);
        const struct sim_value *value = value_named(sharded, rows[i].tensor);
        const struct model_tensor *tensor = &sharded->program->tensors[value->tensor];
        for (int d = 0; d < tensor->rank; d++) {
            int64_t shards = (value->spec[d] & T5X_DATA ? 2 : 1) * (value->spec[d] & T5X_MODEL ? 4 : 1);
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", d ? " " : "",
                     (long long)base_ceil_div(sizes[tensor->dims[d]], shards));
        }
        assert_string_equal(shape, rows[i].shape);
    }
    sim_cache_free(cache);
}

static struct sim_detail collectives_of(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                        struct sim_prediction *prediction)
{
    struct base_error error;
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    assert_ok(sim_predict(cache, plan, prediction, &detail, &error), &error);
    return detail;
}

static const char *axes_name(unsigned axes)
{
    static const char *const names[T5X_SETS] = {"", "data", "model", "data+model"};
    return names[axes];
}

static int64_t count_of(const struct sim_detail *detail, const char *kind, const char *axes, const char *dtype,
                        int64_t bytes)
{
    int64_t count = 0;
    for (int i = 0; i < detail->collectives.count; i++) {
        const struct sim_collective_row *row = &detail->collectives.rows[i];
        if (!strcmp(sim_collective_name(row->kind), kind) && !strcmp(axes_name(row->axes), axes) &&
            !strcmp(model_dtype_name(row->dtype), dtype) && row->bytes == bytes)
            count += row->count;
    }
    return count;
}

/* ZeRO-3 gathers every kernel over data in bfloat16 where it is used, forward and, unless the copy is still there,
 * backward; no activation crosses the model axis, which there is none of. 3 layers of 4 attention kernels and 2 of the
 * MLP. */
static void zero3_gathers_every_kernel(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = plan_text(
        arena,
        "model=" SMALL_DECODER
        " topology=local:4 batch_size=16 targets_length=24 dtype=bfloat16 logical_axis_rules=zero3 optimizer=adamw");
    struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_PARTITIONED);
    struct sim_prediction prediction;
    struct sim_detail detail = collectives_of(cache, arena, &plan, &prediction);
    int64_t kernels = count_of(&detail, "all_gather", "data", "bfloat16", 64 * 96 * 2 / 4);
    assert_in_range(kernels, 3 * 6, 2 * 3 * 6);
    for (int i = 0; i < detail.collectives.count; i++) assert_int_equal(detail.collectives.rows[i].axes, T5X_DATA);
    sim_cache_free(cache);
}

/* ZeRO-1 gathers each parameter once when it is new. Layers that are scanned have one array of it: 7 kernels of 3
 * encoder layers, 11 of 2 decoder layers, all of 64 x 48 elements on a device, of which its slice is half. SGD has no
 * state to be sharded, Adafactor only what it does not factor. */
static void zero1_gathers_each_array_once(struct base_arena *arena)
{
#define UNFACTORED "adafactor adafactor=factored=0"
    enum { SLICE = 64 * 48 / 2 * 4 };
    static const struct {
        const char *model, *optimizer, *microbatches;
        int64_t of_one, of_encoder, of_decoder;
    } rows[] = {
        {SMALL_T5, "adamw", "1", 3 * 7 + 2 * 11, 0, 0},
        {SMALL_T5, "adamw", "4", 3 * 7 + 2 * 11, 0, 0},
        {SMALL_SCALABLE, "adamw", "1", 0, 7, 11},
        {SMALL_SCALABLE, "adamw", "4", 0, 7, 11},
        {SMALL_SCALABLE, UNFACTORED, "1", 0, 7, 11},
        {SMALL_SCALABLE, UNFACTORED, "4", 0, 7, 11},
        {SMALL_T5, UNFACTORED, "1", 3 * 7 + 2 * 11, 0, 0},
        {SMALL_SCALABLE, "adafactor", "1", 0, 0, 0},
        {SMALL_SCALABLE, "sgd", "1", 0, 0, 0},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction prediction;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s %s %s", rows[i].model, rows[i].optimizer, rows[i].microbatches);
        const char *words =
            base_print(arena,
                       "model=%s topology=local:4 num_partitions=2 batch_size=16 inputs_length=48 targets_length=24 "
                       "optimizer_partitioning=data optimizer=%s num_microbatches=%s",
                       rows[i].model, rows[i].optimizer, rows[i].microbatches);
        struct sim_plan_text text = plan_text(arena, words);
        for (int form = SIM_AS_COMPILED; form <= SIM_AS_PARTITIONED; form++) {
            struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, (enum sim_form)form);
            struct sim_detail detail = collectives_of(cache, arena, &plan, &prediction);
            assert_int_equal(count_of(&detail, "all_gather", "data", "float32", SLICE), rows[i].of_one);
            assert_int_equal(count_of(&detail, "all_gather", "data", "float32", 3 * SLICE), rows[i].of_encoder);
            assert_int_equal(count_of(&detail, "all_gather", "data", "float32", 2 * SLICE), rows[i].of_decoder);
        }
    }
    sim_cache_free(cache);
}

static bool has_event(const struct sim_sharded *s, int op, int sign, int layers, const struct sim_value *of)
{
    for (int i = 0; i < s->event_count; i++) {
        const struct sim_event *event = &s->events[i];
        if (event->op != op || event->sign != sign || event->bracket) continue;
        const struct sim_shape *shape = &s->shapes[event->shape];
        if (shape->layers == layers && !memcmp(shape->spec, s->shapes[of->shape].spec, sizeof shape->spec)) return true;
    }
    return false;
}

/* The new slices of a stack stand beside it from its update until it is gathered, and no other stack's do; the gathered
 * stack is the parameter. */
static void new_stacks_live_until_they_are_gathered(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text =
        plan_text(arena, "model=" SMALL_SCALABLE " topology=v4:2x2x1 num_partitions=2 batch_size=16 inputs_length=48 "
                         "targets_length=24 optimizer_partitioning=data optimizer=adamw");
    struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    int64_t sizes[MODEL_SIZE_COUNT];
    const struct sim_sharded *s;
    struct base_error error;
    int stacks = 0, last_gather = -1;
    assert_ok(sim_sharded_program(cache, &plan, &s, sizes, &error), &error);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMMUNICATE || op->stack == MODEL_ONE) continue;
        const struct sim_value *slices = &s->values[op->inputs[0]];
        assert_int_equal(op->loop, -1);
        assert_true(s->values[op->outputs[0]].persistent && !slices->persistent);
        assert_true(slices->loop > last_gather);
        assert_true(has_event(s, slices->loop, +1, op->stack, slices));
        assert_true(has_event(s, i, -1, op->stack, slices));
        last_gather = i;
        stacks++;
    }
    assert_int_equal(stacks, 7 + 11 + 2 + 3 + 2); /* kernels, the norms of both, their biases */
    sim_cache_free(cache);
}

/* Six heads of sixteen, their joined dimension cut in four: a part is a head and a half, and no device could split it.
 * All four kernels are gathered over model, in whatever order plans are asked for; of eight heads all but the last one,
 * since no rule shards the heads that queries, keys and values are constrained to (XLA's numbers). */
static void uneven_heads_are_gathered(struct base_arena *arena)
{
    static const struct {
        int heads;
        int64_t gathers;
    } rows[] = {{8, 3 * 2}, {6, 4 * 2}, {8, 3 * 2}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction prediction;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        int joined = rows[i].heads * 16;
        struct sim_plan_text text = plan_text(
            arena, "topology=local:4 num_partitions=4 batch_size=8 targets_length=16 dtype=bfloat16 optimizer=sgd");
        text.values[SIM_RULES] = "[[\"joined_kv\",\"model\"]]";
        text.values[SIM_MODEL] =
            base_print(arena,
                       "decoder_only:emb_dim=64,num_heads=%d,head_dim=16,mlp_dim=256,num_layers=2,vocab_size=256,"
                       "mlp_activations=relu,logits_via_embedding=1",
                       rows[i].heads);
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_FORWARD, SIM_AS_PARTITIONED);
        struct sim_detail detail = collectives_of(cache, arena, &plan, &prediction);
        TEST_ROW("%d heads", rows[i].heads);
        assert_int_equal(count_of(&detail, "all_gather", "model", "bfloat16", 64 * joined / 4 * 2), rows[i].gathers);
    }
    sim_cache_free(cache);
}

/* The compiler's passes: gradients are reduced once a step, not once a microbatch, and stay bfloat16 as they were in
 * the loop; the compiler of today sums the float32 accumulators. */
static void gradients_leave_the_microbatch_loop(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text =
        plan_text(arena, "model=" SMALL_T5 " topology=v4:2x2x1 num_partitions=2 batch_size=32 num_microbatches=8 "
                         "inputs_length=48 targets_length=24 optimizer=sgd");
    struct sim_prediction prediction;
    struct sim_plan compiled = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    struct sim_detail after = collectives_of(cache, arena, &compiled, &prediction);
    struct sim_plan as_partitioned = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_PARTITIONED);
    struct sim_detail before = collectives_of(cache, arena, &as_partitioned, &prediction);
    int64_t kernel =
        64 * 48; /* elements of a shard of wi_0, wi_1 and wo: five layers of three, besides others of that size */
    int64_t inside = count_of(&before, "all_reduce", "data", "bfloat16", 2 * kernel),
            outside = count_of(&after, "all_reduce", "data", "bfloat16", 2 * kernel);
    assert_true(inside >= 8 * 15);
    assert_int_equal(count_of(&after, "all_reduce", "data", "float32", 4 * kernel), 0);
    assert_int_equal(8 * outside, inside);
    text.values[SIM_COMPILER] = "today";
    struct sim_plan today = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    after = collectives_of(cache, arena, &today, &prediction);
    assert_int_equal(count_of(&after, "all_reduce", "data", "float32", 4 * kernel), outside);
    assert_int_equal(count_of(&after, "all_reduce", "data", "bfloat16", 2 * kernel), 0);
    sim_cache_free(cache);
}

/* Two gradients that meet in a sum are reduced once: where the compiler has the pass, q, k and v's input gets one
 * all-reduce in place of three in each of three layers. */
static void sums_of_all_reduces_are_reduced_once(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction prediction;
    int64_t counts[2];
    for (int gpu = 0; gpu < 2; gpu++) {
        struct sim_plan_text text =
            plan_text(arena, "model=" SMALL_DECODER " num_partitions=2 batch_size=32 targets_length=24 optimizer=sgd");
        text.values[SIM_TOPOLOGY] = gpu ? "a100-80g:1x4" : "v4:2x2x1";
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        struct sim_detail detail = collectives_of(cache, arena, &plan, &prediction);
        counts[gpu] = 0;
        for (int i = 0; i < detail.collectives.count; i++)
            if (detail.collectives.rows[i].axes == T5X_MODEL && detail.collectives.rows[i].dtype == MODEL_BFLOAT16)
                counts[gpu] += detail.collectives.rows[i].count;
    }
    assert_int_equal(counts[0] - counts[1], 2 * 3);
    sim_cache_free(cache);
}

/* Every pass of a software is in the table of passes, and its compiler had it by then; every row names its source. */
static void passes_are_older_than_the_software(struct base_arena *arena)
{
    char since[SIM_PASS_COUNT][16];
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int count = 0;
    assert_ok(base_csv_open(&csv, arena, "sim/compile/passes.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error), count++) {
        assert_in_range(count, 0, SIM_PASS_COUNT - 1);
        assert_string_equal(base_csv_field(&csv, base_csv_column(&csv, "name")), sim_pass_name((enum sim_pass)count));
        assert_true(*base_csv_field(&csv, base_csv_column(&csv, "source")));
        snprintf(since[count], sizeof since[count], "%s", base_csv_field(&csv, base_csv_column(&csv, "since")));
    }
    base_csv_close(&csv);
    assert_int_equal(count, SIM_PASS_COUNT);
    int passes = 0;
    assert_ok(base_csv_open(&csv, arena, "sim/compile/software.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        const char *names = base_csv_field(&csv, base_csv_column(&csv, "passes")),
                   *date = base_csv_field(&csv, base_csv_column(&csv, "date"));
        for (int p = 0; p < SIM_PASS_COUNT; p++) {
            if (!strstr(names, sim_pass_name((enum sim_pass)p))) continue;
            assert_true(strcmp(since[p], date) <= 0);
            assert_true(*base_csv_field(&csv, base_csv_column(&csv, "source")));
            passes++;
        }
    }
    base_csv_close(&csv);
    assert_true(passes > 0);
}

/* Gradients that are reduced together are started together: the starts that are saved, and nothing else, leave the
 * step, where a byte costs the same however many there are. */
static void only_starts_are_saved(struct base_arena *arena, const char *words)
{
    struct sim_plan_text text = plan_text(arena, words);
    struct sim_prediction prediction;
    double starts[2], steps_s[2], start_s = 0;
    for (int together = 0; together < 2; together++) {
        struct sim_cache *cache = sim_cache_new(arena);
        set_constants(cache, arena,
                      base_print(arena, "\"combine_bytes\": %s, \"ll_bytes_per_s\": 0", together ? "1e12" : "0"));
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        struct sim_detail detail = collectives_of(cache, arena, &plan, &prediction);
        starts[together] = 0;
        for (int i = 0; i < detail.collectives.count; i++) starts[together] += detail.collectives.rows[i].launch_count;
        steps_s[together] = prediction.step_s;
        start_s = sim_collective_s(plan.placement, SIM_ALL_REDUCE, T5X_DATA, 0);
        sim_cache_free(cache);
    }
    assert_true(starts[0] > starts[1] + 20);
    assert_near(steps_s[0] - steps_s[1], (starts[0] - starts[1]) * start_s, 1e-9);
}

static void combined_gradients_share_their_start(struct base_arena *arena)
{
    only_starts_are_saved(arena,
                          "model=" SMALL_DECODER
                          " topology=a100-80g:2x8 num_partitions=1 batch_size=32 targets_length=24 optimizer=sgd");
}

/* Flash attention has no scores in memory, not for the backward pass either; units for fp8 are faster than for
 * bfloat16. */
static void flash_and_fp8(struct base_arena *arena)
{
    static const char *const words[] = {"attention=unfused dtype=bfloat16", "attention=flash dtype=bfloat16",
                                        "attention=flash dtype=fp8"};
    struct sim_prediction p[3];
    const double scores_bytes =
        2.0 * 4 * 4 * 512 * 512 * 2; /* layers before the one of the peak, sequences of a device, heads, in bfloat16 */
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < 3; i++)
        p[i] = predict_words(
            cache, arena,
            base_print(arena,
                       "model=" SMALL_DECODER
                       " topology=h100:1x8 num_partitions=1 batch_size=32 targets_length=512 optimizer=sgd %s",
                       words[i]));
    assert_true((double)(p[0].memory.activation_bytes - p[1].memory.activation_bytes) >= scores_bytes);
    assert_true(p[2].compute_s + p[2].memory_bound_s != p[1].compute_s + p[1].memory_bound_s);
    struct sim_prediction wide[2];
    for (int i = 0; i < 2; i++) /* wide enough for the contractions to outweigh the casts */
        wide[i] = predict_words(cache, arena,
                                base_print(arena,
                                           "model=decoder_only:emb_dim=8192,num_heads=64,head_dim=128,mlp_dim=32768,"
                                           "num_layers=2,vocab_size=1024 topology=h100:1x8 "
                                           "num_partitions=8 batch_size=64 targets_length=1024 optimizer=sgd %s",
                                           words[1 + i]));
    assert_true(wide[1].compute_s < 0.6 * wide[0].compute_s && wide[1].memory_bound_s > wide[0].memory_bound_s);
    assert_true(wide[1].step_s < wide[0].step_s);
    sim_cache_free(cache);
}

/* What XLA:GPU of November 2026 keeps that T5X's row of 2023 does not: column numbers of int32 in place of a one-hot of
 * bfloat16, the scores of each layer beside their softmax, logits beside their gradient. On TPUs that is no version. */
static void gpu_compiler_of_2026_keeps_more(struct base_arena *arena)
{
    enum { LAYERS = 3, HEADS = 4, BATCH = 16, LENGTH = 256, VOCABULARY = 4096 };
    const char *const model = "model=decoder_only:emb_dim=128,num_heads=4,head_dim=32,mlp_dim=128,num_layers=3,"
                              "vocab_size=4096 num_partitions=1 batch_size=16 targets_length=256 optimizer=sgd "
                              "remat_policy=none";
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction p[2][2];
    static const char *const topologies[] = {"h100:1x1", "v4-8"};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            struct sim_plan_text text = plan_text(arena, base_print(arena, "%s topology=%s", model, topologies[i]));
            if (j) text.values[SIM_SOFTWARE_VERSION] = "JAX 0.11";
            p[i][j] = predicted(cache, arena, &text);
        }
    const double logits = (double)BATCH * LENGTH * VOCABULARY, scores = (double)BATCH * HEADS * LENGTH * LENGTH,
                 more = 2 * logits + 4 * logits + 2 * LAYERS * scores;
    assert_near((double)(p[0][1].memory.peak_bytes - p[0][0].memory.peak_bytes), more, 0.02 * more);
    assert_true(p[0][1].step_s < 0.8 * p[0][0].step_s);
    assert_int_equal(p[1][1].memory.peak_bytes, p[1][0].memory.peak_bytes);
    assert_true(p[1][1].step_s == p[1][0].step_s);
    sim_cache_free(cache);
}

/* XLA of before 2024-05 lets what reads a stack of residuals shard it otherwise, on GPUs, too: then what is kept is
 * gathered for weight gradients, and costs more than to compute it again. */
static void a_newer_xla_keeps_stacks_sharded_on_gpus(struct base_arena *arena)
{
    static const char *const compilers[] = {"", "compiler=2023-06", "compiler=2024-05"};
    struct sim_cache *cache = sim_cache_new(arena);
    double step_s[BASE_COUNT(compilers)][2];
    for (int i = 0; i < BASE_COUNT(compilers); i++)
        for (int full = 0; full < 2; full++) {
            const char *words = base_print(arena,
                                           "model=scalable_t5_1_1_xl topology=h100:4x8 batch_size=512 "
                                           "inputs_length=512 targets_length=512 logical_axis_rules=standard:2,2 "
                                           "num_partitions=1 optimizer_partitioning=data optimizer=adamw "
                                           "remat_policy=%s %s",
                                           full ? "full" : "none", compilers[i]);
            const struct sim_plan_text text = plan_text(arena, words);
            step_s[i][full] = predicted(cache, arena, &text).step_s;
        }
    assert_true(step_s[0][0] > 2 * step_s[0][1] && step_s[0][0] == step_s[1][0]);
    assert_true(step_s[2][0] < 0.9 * step_s[2][1] && step_s[2][1] == step_s[0][1]);
    sim_cache_free(cache);
}

/* ---- prices by hand ---- */

static const struct sim_entry *entry_named(const struct sim_timeline *timeline, const char *name,
                                           enum model_phase phase)
{
    for (int i = 0; i < timeline->count; i++)
        if (!strcmp(timeline->entries[i].name, name) && timeline->entries[i].phase == phase &&
            timeline->entries[i].bound != SIM_BY_COMMUNICATION)
            return &timeline->entries[i];
    fail_msg("nothing is called %s", name);
    return NULL;
}

static struct sim_timeline timeline_of(struct sim_cache *cache, struct base_arena *arena, const char *words,
                                       enum model_step step, struct sim_prediction *prediction)
{
    struct sim_timeline timeline = {0};
    struct base_error error;
    struct sim_plan_text text = plan_text(arena, words);
    struct sim_plan plan = checked(cache, arena, &text, step, SIM_AS_COMPILED);
    struct sim_detail detail = {.timeline = &timeline, .arena = arena};
    assert_ok(sim_predict(cache, &plan, prediction, &detail, &error), &error);
    return timeline;
}

/* A contraction of 64 rows (batch 2, length 32), 64 contracted and 96 columns on a matrix unit of 128: the contraction
 * is padded to 128, and then either 64 rows x 128 columns, or 128 x 96: the first is less. For the weight's gradient,
 * 96 x 64, the second is. Attention scores go head by head. */
static void contractions_are_padded_to_the_matrix_unit(struct base_arena *arena)
{
    static const struct {
        const char *constants, *name;
        double flop;
        enum model_phase phase;
    } rows[] = {
        {"\"matrix_unit_dim\": 128", "decoder/layers/mlp/wi weight gradient", 2.0 * 128 * (128 * 64), MODEL_BACKWARD},
        {"\"matrix_unit_dim\": 128", "decoder/layers/mlp/wi", 2.0 * 64 * 128 * 128, MODEL_FORWARD},
        {"\"matrix_unit_dim\": 256", "decoder/layers/mlp/wi", 2.0 * 64 * 256 * 256, MODEL_FORWARD},
        {"\"matrix_unit_dim\": 1", "decoder/layers/mlp/wi", 2.0 * 64 * 64 * 96, MODEL_FORWARD},
        {"\"matrix_unit_dim\": 0", "decoder/layers/mlp/wi", 2.0 * 64 * 64 * 96, MODEL_FORWARD},
        {"\"matrix_unit_dim\": 128", "decoder/layers/self_attention/bias", 2.0 * 2 * 4 * 128 * (32 * 128),
         MODEL_FORWARD}, /* the scores are in its kernel */
        {"\"matrix_unit_dim\": 0", "decoder/layers/self_attention/context", 2.0 * 2 * 4 * 32 * 32 * 24, MODEL_FORWARD},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_prediction prediction;
        TEST_ROW("%s: %s", rows[i].constants, rows[i].name);
        set_constants(cache, arena, base_print(arena, ROUND_CONSTANTS ", %s", rows[i].constants));
        struct sim_timeline timeline =
            timeline_of(cache, arena, "model=" SMALL_DECODER " topology=v4:2x2x1 batch_size=8 targets_length=32",
                        MODEL_STEP_TRAIN, &prediction);
        const struct sim_entry *entry = entry_named(&timeline, rows[i].name, rows[i].phase);
        assert_near(entry->flop, rows[i].flop, 0);
        assert_int_equal(entry->count, 3);
        assert_near(entry->time_s, fmax(entry->flop / 1e12, entry->bytes / 1e11), 1e-12);
    }
    sim_cache_free(cache);
}

/* AdamW reads and writes a float32 parameter and two moments, and reads a float32 gradient: seven passes. At
 * 1e11 bytes a second that is what it costs, since it has no matrix work. */
static void updates_are_bound_by_memory(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction prediction;
    set_constants(cache, arena, ROUND_CONSTANTS);
    struct sim_timeline timeline = timeline_of(
        cache, arena,
        "model=" SMALL_DECODER " topology=v4:2x2x1 batch_size=8 num_microbatches=2 targets_length=32 optimizer=adamw",
        MODEL_STEP_TRAIN, &prediction);
    const struct sim_entry *update = entry_named(&timeline, "decoder/layers/mlp/wi/kernel adamw", MODEL_OPTIMIZER);
    assert_near(update->bytes, (6 * 4 + 2) * 64 * 96, 0); /* parameter and two moments, and a bfloat16 gradient */
    assert_near(update->time_s, (6 * 4 + 2) * 64 * 96 / 1e11, 1e-12);
    assert_int_equal(update->bound, SIM_BY_MEMORY);
    assert_int_equal(update->count, 3);
    assert_near(update->flop, 0, 0);
    sim_cache_free(cache);
}

/* By the cycles of XLA:TPU's cost model (libtpu 0.0.42: 6.49 for a register of 1024 float32 results, or elements that
 * are summed, 10.23 for one of bfloat16, two cores at 1.75 GHz on v5p) what has no products takes longer than its
 * bytes, but for updates, which read and write 26 bytes for three results. No answers of the compiler of 2023 are
 * known. */
static void vector_units_bound_what_has_no_products(struct base_arena *arena)
{
    static const struct {
        const char *software, *name;
        enum model_phase phase;
        double cycles, elements; /* 0: what its bytes take */
    } rows[] = {{"levanter", "loss/max", MODEL_FORWARD, 6.49, 256.0 * 32 * 512 / 4},
                {"levanter", "decoder/logits float32 gradient", MODEL_BACKWARD, 10.23, 256.0 * 32 * 512 / 4},
                {"levanter", "decoder/layers/mlp/wi/kernel adamw", MODEL_OPTIMIZER, 0, 0},
                {"t5x", "loss/max", MODEL_FORWARD, 0, 0}};
    struct sim_cache *cache = sim_cache_new(arena);
    set_constants(cache, arena, "\"kernel_latency_s\": 0");
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_prediction prediction;
        TEST_ROW("%s: %s", rows[i].software, rows[i].name);
        struct sim_timeline timeline = timeline_of(
            cache, arena,
            base_print(arena,
                       "model=" SMALL_DECODER " topology=v5p-8 model_parallel_submesh=1,1,1,1 "
                       "logical_axis_rules=zero3 batch_size=256 targets_length=32 optimizer=adamw software=%s",
                       rows[i].software),
            MODEL_STEP_TRAIN, &prediction);
        const struct sim_entry *entry = entry_named(&timeline, rows[i].name, rows[i].phase);
        const double by_bytes_s = entry->bytes / (0.85 * 2.765e12),
                     by_vectors_s = rows[i].elements * rows[i].cycles / (2 * 1024 * 1.75e9);
        assert_near(entry->time_s, rows[i].cycles > 0 ? by_vectors_s : by_bytes_s, 1e-9);
        assert_true(rows[i].cycles == 0 || by_vectors_s > by_bytes_s);
    }
    sim_cache_free(cache);
}

/* n devices, V bytes once gathered, W bytes a second and link: V (n-1)/n / 2W on a closed ring, twice that on a line,
 * for an all-gather or reduce-scatter; an all-reduce is both. An all-to-all takes V / 8W on a ring of an even number, V
 * / 4W on a line; behind a switch each sends the others what is not its own. */
static void collectives_cost_what_rings_do(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh;
        unsigned axes;
        double all_reduce_per_byte, all_to_all_per_byte;
    } rows[] = {
        {"v4:4x4x4", "4,1,1,1", T5X_MODEL, 2 * 3.0 / 4 / 2, 1 / 8.0},
        {"v4:4x4x8", "1,1,8,1", T5X_MODEL, 2 * 7.0 / 8 / 2, 1 / 8.0},
        {"v4:4x4x4@wrap=none", "4,1,1,1", T5X_MODEL, 2 * 3.0 / 4, 1 / 4.0},
        {"v4:2x2x1", "2,1,1,1", T5X_MODEL, 2 * 1.0 / 2, 1 / 4.0},
        {"v4:2x2x1", "2,1,1,1", T5X_DATA, 2 * 1.0 / 2, 1 / 4.0},
        {"local:4", "1,4", T5X_MODEL, 2 * 3.0 / 4, 3.0 / 4 / 4},
        {"h100:1x8", "1,8", T5X_MODEL, 2 * 7.0 / 8, 7.0 / 8 / 8},
    };
    const double bytes = 1e6, rate = 1e9;
    struct sim_cache *cache = sim_cache_new(arena);
    set_constants(cache, arena, ROUND_CONSTANTS);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s by %s", rows[i].topology, rows[i].submesh);
        struct sim_plan_text text = plan_text(
            arena,
            base_print(
                arena,
                "model=" SMALL_DECODER
                " topology=%s model_parallel_submesh=%s batch_size=64 targets_length=32 logical_axis_rules=data_only",
                rows[i].topology, rows[i].submesh));
        text.values[SIM_TOPOLOGY] = rows[i].topology;
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        double n = plan.placement->groups[rows[i].axes].load.group_size,
               all_reduce = rows[i].all_reduce_per_byte * bytes / rate;
        assert_near(sim_collective_s(plan.placement, SIM_ALL_REDUCE, rows[i].axes, bytes), all_reduce, 1e-12);
        assert_near(sim_collective_s(plan.placement, SIM_REDUCE_SCATTER, rows[i].axes, bytes), all_reduce / 2, 1e-12);
        assert_near(sim_collective_s(plan.placement, SIM_ALL_GATHER, rows[i].axes, bytes / n), all_reduce / 2, 1e-12);
        assert_near(sim_collective_s(plan.placement, SIM_ALL_TO_ALL, rows[i].axes, bytes / n),
                    rows[i].all_to_all_per_byte * bytes / rate, 1e-12);
    }
    sim_cache_free(cache);
}

/* Messages of an all-to-all go straight to their devices: a closed line of d that a group spans takes a byte d / 4
 * steps in the mean, over two links a device; over the middle of an open one, or of a part of a line, a quarter of what
 * all send goes each way, and where groups interleave, that of each of them. A byte went round one ring of all devices,
 * five times as far on 4x4x4; the mean of all links was taken where those behind a tile's edge are idle. */
static void exchanges_go_straight(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh;
        unsigned axes;
        double operands; /* of one device, over the busiest link */
    } rows[] = {
        {"v4:4x4x4", "4,4,4,1", T5X_MODEL, 4 / 8.0},   {"v4:4x4x8", "4,4,8,1", T5X_MODEL, 8 / 8.0},
        {"v4:4x4x8", "4,4,1,1", T5X_MODEL, 4 / 8.0},   {"v4:4x4x4@wrap=none", "4,4,4,1", T5X_MODEL, 4 / 4.0},
        {"v4:4x4x8", "2,2,1,1", T5X_MODEL, 2 / 4.0},   {"v4:4x8x8", "2,4,2,1", T5X_MODEL, 4 / 4.0},
        {"v5e:16x16", "4,1,1,1", T5X_MODEL, 4 / 4.0},  /* a part of one dimension */
        {"v5e:8x8", "8,2,1,1", T5X_DATA, 2 * 4 / 4.0}, /* two groups interleaved on an open line */
        {"v5e:16x16", "4,4,1,1", T5X_DATA, 2.0},       /* four places of 16, each with four groups */
    };
    const double bytes = 1e6, rate = 1e9;
    struct sim_cache *cache = sim_cache_new(arena);
    set_constants(cache, arena, ROUND_CONSTANTS);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s by %s", rows[i].topology, rows[i].submesh);
        struct sim_plan_text text =
            plan_text(arena, base_print(arena,
                                        "model=" SMALL_DECODER " topology=%s model_parallel_submesh=%s batch_size=64 "
                                        "targets_length=32 logical_axis_rules=data_only",
                                        rows[i].topology, rows[i].submesh));
        const struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        assert_near(sim_collective_s(plan.placement, SIM_ALL_TO_ALL, rows[i].axes, bytes),
                    rows[i].operands * bytes / rate, 1e-12);
    }
    sim_cache_free(cache);
}

/* ---- constants that have one effect each ---- */

static struct sim_plan_text plan_by(struct base_arena *arena, const char *topology, const char *submesh)
{
    struct sim_plan_text text =
        plan_text(arena, "model=t5_1_1_base batch_size=256 inputs_length=512 targets_length=114 "
                         "logical_axis_rules=data_only");
    text.values[SIM_TOPOLOGY] = topology, text.values[SIM_SUBMESH] = submesh;
    return text;
}

/* The share of the links' rate that reductions over several dimensions reach is theirs alone. */
static void several_dimensions_have_their_own_rate(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh;
        unsigned axes;
        double longer;
    } rows[] = {{"v6e-256", "1,1,1,1", T5X_DATA, 2},
                {"v4:4x4x4", "4,4,1,1", T5X_MODEL, 2},
                {"v6e-256", "16,1,1,1", T5X_MODEL, 1},
                {"v4:4x4x4", "4,1,1,1", T5X_MODEL, 1}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct sim_plan_text text = plan_by(arena, rows[i].topology, rows[i].submesh);
        double s[2];
        TEST_ROW("%s by %s", rows[i].topology, rows[i].submesh);
        for (int half = 0; half < 2; half++) {
            set_constants(cache, arena,
                          half ? "\"multi_axis_link_efficiency_frac\": 0.4"
                               : "\"multi_axis_link_efficiency_frac\": 0.8");
            const struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
            s[half] = sim_collective_s(plan.placement, SIM_ALL_REDUCE, rows[i].axes, 1e9) -
                      plan.placement->profile.constants[SIM_COLLECTIVE_LATENCY_S];
        }
        assert_near(s[1] / s[0], rows[i].longer, 1e-9);
    }
    sim_cache_free(cache);
}

/* A device is full to its last byte: the peak itself fits, a byte less does not; holes between arrays count. */
static void plans_fit_to_the_last_byte(struct base_arena *arena)
{
    static const char never[] = "\"rematerialization_min_bytes\": 1e15, ";
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_plan_text text = plan_by(arena, "v4:2x2x1", "1,1,1,1");
    set_constants(cache, arena, base_print(arena, "%s\"fragmentation_frac\": 0, \"capacity_bytes\": 1e15", never));
    const struct sim_prediction whole = predicted(cache, arena, &text);
    const double peak = (double)whole.memory.peak_bytes;
    set_constants(cache, arena, base_print(arena, "%s\"fragmentation_frac\": 0.1, \"capacity_bytes\": 1e15", never));
    const double holes = (double)predicted(cache, arena, &text).memory.peak_bytes - peak;
    assert_true(holes > 0.02 * peak && holes <= 0.1 * peak);
    for (int less = 0; less < 2; less++) {
        set_constants(cache, arena,
                      base_print(arena, "%s\"fragmentation_frac\": 0, \"capacity_bytes\": %.0f", never, peak - less));
        const struct sim_prediction p = predicted(cache, arena, &text);
        assert_int_equal(p.fits, less == 0);
        assert_int_equal(p.free_bytes, -less);
    }
    /* What is large enough may be recomputed, and then it fits. */
    set_constants(cache, arena, base_print(arena, "\"fragmentation_frac\": 0, \"capacity_bytes\": %.0f", 0.9 * peak));
    assert_true(predicted(cache, arena, &text).memory.rematerialized_layer_count > 0);
    set_constants(cache, arena,
                  base_print(arena, "%s\"fragmentation_frac\": 0, \"capacity_bytes\": %.0f", never, 0.9 * peak));
    const struct sim_prediction kept = predicted(cache, arena, &text);
    assert_int_equal(kept.memory.rematerialized_layer_count, 0);
    assert_false(kept.fits);
    sim_cache_free(cache);
}

/* The floor of a small collective: its latency, or the hops of its rings. */
static void small_collectives_cost_latency(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    set_constants(cache, arena, "\"collective_latency_s\": 5e-6, \"hop_latency_s\": 2e-6");
    struct sim_plan_text text =
        plan_text(arena, "model=" SMALL_DECODER " topology=v4:4x4x8 model_parallel_submesh=1,1,8,1 batch_size=64 "
                         "targets_length=32 logical_axis_rules=data_only");
    struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    assert_near(sim_collective_s(plan.placement, SIM_ALL_GATHER, T5X_MODEL, 0), 5e-6 + 8 * 2e-6 / 2, 1e-12);
    assert_near(sim_collective_s(plan.placement, SIM_ALL_REDUCE, T5X_MODEL, 0), 5e-6 + 2 * 8 * 2e-6 / 2, 1e-12);
    sim_cache_free(cache);
}

/* mfu_frac is the closed form of the FLOP over what the devices could have done: see test_program for other models. */
static void utilization_is_needed_flop_over_peak(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction p =
        predict_words(cache, arena,
                      "model=t5_1_0_11B topology=v4-512 model_parallel_submesh=4,2,2,1 batch_size=896 "
                      "num_microbatches=4 inputs_length=512 targets_length=512 optimizer=adamw");
    const double embed = 1024, joined = 128 * 128, mlp = 65536, vocab = 32128, length = 512, layers = 24;
    double tokens = 896 * length, kernels = layers * (4 * embed * joined + 2 * embed * mlp) +
                                            layers * (8 * embed * joined + 2 * embed * mlp) + embed * vocab;
    double core = 3 * layers * 2 * length * joined;
    assert_near(p.mfu_frac * p.step_s * 256 * 275e12, 6 * tokens * (kernels + core), 1e-9);
    assert_near(p.tokens_per_s, tokens / p.step_s, 1e-12);
    assert_near(p.samples_per_s, 896 / p.step_s, 1e-12);
    assert_near(p.tokens_per_s_per_device * 256, p.tokens_per_s, 1e-12);
    sim_cache_free(cache);
}

/* products_frac leaves out the half of the attention that flash kernels skip behind the causal mask; under pipelines,
 * too. */
static void masked_products_are_not_computed(struct base_arena *arena)
{
    static const char *const stages[] = {"", " pipeline_stages=4 num_microbatches=4"};
    const double layers = 32, joined = 4096, length = 32768, tokens = 16 * length;
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(stages); i++) {
        TEST_ROW("%s", stages[i]);
        const struct sim_prediction p = predict_words(
            cache, arena,
            base_print(arena,
                       "model=llama3_8b topology=h100:2x8 num_partitions=4 batch_size=16 targets_length=32768 "
                       "software=megatron attention=flash%s",
                       stages[i]));
        const double masked_flop = 6 * tokens * layers * length * joined;
        assert_near((p.mfu_frac - p.products_frac) * p.step_s * 16 * 989.4e12, masked_flop, 1e-3);
    }
    sim_cache_free(cache);
}

/* ---- what holds of every plan ---- */

/* Some are refused (a mesh that does not exist, heads that do not divide); callers draw again. */
static const char *random_plan(struct base_arena *arena, struct base_random *random)
{
    static const char *const models[] = {SMALL_T5,
                                         SMALL_SCALABLE,
                                         SMALL_DECODER,
                                         "t5_1_1_base",
                                         "scalable_t5_1_1_large",
                                         "decoder_only_large",
                                         "decoder_only:emb_dim=512,num_heads=8,num_kv_heads=4,head_dim=64,mlp_dim=1536,"
                                         "num_layers=6,vocab_size=8192,mlp_activations=silu+linear,parallel_block=1"};
    static const char *const topologies[] = {"v4:2x2x1", "v4:2x2x2", "v4:4x4x4",     "v4-64",   "v3:4x4",
                                             "v5e:4x4",  "h100:2x8", "a100-80g:4x8", "local:4", "local:3x4"};
    static const char *const rules[] = {"standard:1,1", "standard:1,1", "standard:2,1", "standard:1,2", "standard:2,2",
                                        "data_only",    "zero3",        "megatron",     "optimus",      "gshard"};
    static const char *const remats[] = {"none", "minimal", "selective", "full"}, *const optimizers[] = {
                                                                                      "adafactor", "adamw", "sgd"};
    static const char *const partitionings[] = {"none", "none", "data", "data+gradients"},
                             *const attentions[] = {"unfused", "unfused", "flash"},
                             *const dtypes[] = {"bfloat16", "float32"};
    static const char *const microbatches[] = {"0", "2", "4"}, *const partitions[] = {"1", "2", "4", "8"};
    return base_print(arena,
                      "model=%s topology=%s num_partitions=%s logical_axis_rules=%s remat_policy=%s optimizer=%s "
                      "optimizer_partitioning=%s "
                      "attention=%s dtype=%s "
                      "batch_size=%d num_microbatches=%s inputs_length=%d targets_length=%d sequence_parallel=%d",
                      PICK(random, models), PICK(random, topologies), PICK(random, partitions), PICK(random, rules),
                      PICK(random, remats), PICK(random, optimizers), PICK(random, partitionings),
                      PICK(random, attentions), PICK(random, dtypes), (int)(256 * (1 + base_random_below(random, 3))),
                      PICK(random, microbatches), (int)(1 + base_random_below(random, 600)),
                      (int)(1 + base_random_below(random, 600)), (int)base_random_below(random, 2));
}

/* Runs a check on seeded plans that are not refused. */
static void for_random_plans(struct base_arena *arena, uint64_t seed, int wanted,
                             void (*check)(struct sim_cache *cache, struct base_arena *arena,
                                           const struct sim_plan_text *text))
{
    struct base_random random;
    struct base_arena each = {.exhausted = arena->exhausted};
    struct sim_cache *cache = sim_cache_new(arena);
    int tried = 0, accepted = 0;
    base_random_seed(&random, seed);
    for (; accepted < wanted; tried++) {
        struct sim_plan plan;
        struct base_error error;
        const char *words = random_plan(&each, &random);
        struct sim_plan_text text = plan_text(&each, words);
        TEST_ROW("%s", words);
        sim_cache_override(cache, NULL);
        if (check_by_software(cache, &each, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_OK) {
            check(cache, &each, &text);
            accepted++;
        } else {
            assert_int_equal(error.status, BASE_INPUT);
        }
        base_arena_reset(&each);
        assert_in_range(tried, 0, 20 * wanted);
    }
    base_arena_free(&each);
    sim_cache_free(cache);
}

static double step_with(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                        const char *constants)
{
    set_constants(cache, arena, constants);
    return predicted(cache, arena, text).step_s;
}

static void check_faster_parts(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text)
{
    static const enum sim_constant rates[] = {
        SIM_FLOP_PER_S,          SIM_HBM_BYTES_PER_S,        SIM_LINK_BYTES_PER_S,
        SIM_NIC_BYTES_PER_S,     SIM_MATMUL_EFFICIENCY_FRAC, SIM_HBM_EFFICIENCY_FRAC,
        SIM_LINK_EFFICIENCY_FRAC};
    static const bool is_share[] = {false, false, false, false, true, true, true};
    static const enum sim_constant latencies[] = {SIM_KERNEL_LATENCY_S, SIM_COLLECTIVE_LATENCY_S, SIM_HOP_LATENCY_S};
    double constants[SIM_CONSTANT_COUNT], now = predicted(cache, arena, text).step_s;
    memcpy(constants, checked(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED).placement->profile.constants,
           sizeof constants);
    for (int i = 0; i < BASE_COUNT(rates); i++) {
        const char *name = sim_constant_name(rates[i]);
        double faster =
            step_with(cache, arena, text,
                      base_print(arena, "\"%s\": %.17g", name,
                                 is_share[i] ? fmin(1, 1.37 * constants[rates[i]]) : 1.37 * constants[rates[i]]));
        if (faster > now * (1 + 1e-12)) fail_msg("more %s: %.17g s instead of %.17g s", name, faster, now);
    }
    for (int i = 0; i < BASE_COUNT(latencies); i++) {
        const char *name = sim_constant_name(latencies[i]);
        double slower =
            step_with(cache, arena, text, base_print(arena, "\"%s\": %.17g", name, 1.37 * constants[latencies[i]]));
        if (slower < now * (1 - 1e-12)) fail_msg("more %s: %.17g s instead of %.17g s", name, slower, now);
    }
}

static void plans_are_never_slower_on_better_hardware(struct base_arena *arena)
{
    for_random_plans(arena, 1, 120, check_faster_parts);
}

static void check_sums(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text)
{
    struct sim_timeline timeline = {0};
    struct base_error error;
    struct sim_prediction p;
    struct sim_plan plan = checked(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    struct sim_detail detail = {.timeline = &timeline, .lists_collectives = true, .arena = arena};
    assert_ok(sim_predict(cache, &plan, &p, &detail, &error), &error);
    assert_near(p.step_s, p.compute_s + p.memory_bound_s + p.exposed_communication_s + p.overhead_s, 1e-12);
    assert_true(p.step_s > 0 && p.compute_s >= 0 && p.memory_bound_s >= 0 && p.overhead_s >= 0);
    assert_true(p.exposed_communication_s <= p.communication_s * (1 + 1e-12));
    assert_true(p.mfu_frac > 0 && p.mfu_frac < 1);
    assert_int_equal(sum_of_categories(&p.memory), p.memory.peak_bytes);
    if (p.memory.rematerialized_layer_count) return; /* its rows are those of a step that recomputes every layer */
    double entries_s = 0, collectives_s = 0;
    for (int i = 0; i < timeline.count; i++)
        entries_s += timeline.entries[i].time_s * (double)timeline.entries[i].count;
    for (int i = 0; i < detail.collectives.count; i++) collectives_s += detail.collectives.rows[i].time_s;
    assert_near(entries_s, p.step_s, 1e-9);
    assert_near(collectives_s, p.communication_s, 1e-9);
}

static void plans_add_up(struct base_arena *arena)
{
    for_random_plans(arena, 2, 200, check_sums);
}

static int same_program_count; /* of pairs of plans that were compared */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 1099511628211ULL;
}

/* What the partitioner made of a plan, but for sizes. */
static uint64_t program_of(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text)
{
    struct sim_plan plan = checked(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    const struct sim_sharded *s;
    int64_t sizes[MODEL_SIZE_COUNT];
    struct base_error error;
    uint64_t hash = 14695981039346656037ULL;
    assert_ok(sim_sharded_program(cache, &plan, &s, sizes, &error), &error);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        hash = mix(mix(mix(hash, (uint64_t)op->kind), (uint64_t)op->collective), (uint64_t)op->axes);
        for (int j = 0; j < op->output_count; j++)
            for (int d = 0; d < MODEL_MAX_RANK; d++) hash = mix(hash, s->values[op->outputs[j]].spec[d]);
    }
    return hash;
}

/* Whether activations may lose the data axis to parameters, when they become smaller than these. */
static bool shards_parameters_over_data(const struct sim_plan_text *text)
{
    static const char *const over_data[] = {"zero3", "standard:1,2", "standard:2,2", "gshard"};
    for (int i = 0; i < BASE_COUNT(over_data); i++)
        if (!strcmp(text->values[SIM_RULES], over_data[i])) return true;
    return false;
}

/* Half as many sequences a microbatch. The same program holds no more of anything at any moment, under whatever rules;
 * if it peaks at the same moment, no more activations either. For smaller sizes another program may be made:
 * activations are not more in that one, unless they lost the data axis. */
static void check_microbatches(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text)
{
    static const char *const microbatches[] = {"2", "4", "8", "16"};
    struct sim_plan_text changed = *text;
    struct sim_memory before = {.peak_bytes = INT64_MAX, .activation_bytes = INT64_MAX};
    uint64_t program_before = 0;
    set_constants(cache, arena, "\"capacity_bytes\": 1e15"); /* nothing is recomputed to make it fit */
    for (int i = 0; i < BASE_COUNT(microbatches); i++) {
        changed.values[SIM_NUM_MICROBATCHES] = microbatches[i];
        struct sim_memory now = predicted(cache, arena, &changed).memory;
        uint64_t program = program_of(cache, arena, &changed);
        bool same = program == program_before, same_moment = same && !strcmp(now.peak_at, before.peak_at);
        if (same && now.peak_bytes > before.peak_bytes)
            fail_msg("%s microbatches peak at %lld bytes, half as many at %lld", microbatches[i],
                     (long long)now.peak_bytes, (long long)before.peak_bytes);
        if ((same_moment || !shards_parameters_over_data(text)) && now.activation_bytes > before.activation_bytes)
            fail_msg("%s microbatches keep %lld bytes of activations, half as many %lld", microbatches[i],
                     (long long)now.activation_bytes, (long long)before.activation_bytes);
        same_program_count += same;
        before = now;
        program_before = program;
    }
}

static void plans_keep_less_in_smaller_microbatches(struct base_arena *arena)
{
    enum { PLANS = 400, PAIRS = 3 * PLANS };
    same_program_count = 0;
    for_random_plans(arena, 3, PLANS, check_microbatches);
    assert_in_range(same_program_count, PAIRS * 8 / 10, PAIRS);
}

/* ---- the same answer always ---- */

static bool same_prediction(const struct sim_prediction *a, const struct sim_prediction *b)
{
    const double x[] = {a->step_s,     a->compute_s,       a->memory_bound_s, a->exposed_communication_s,
                        a->overhead_s, a->communication_s, a->tokens_per_s,   a->samples_per_s,
                        a->mfu_frac};
    const double y[] = {b->step_s,     b->compute_s,       b->memory_bound_s, b->exposed_communication_s,
                        b->overhead_s, b->communication_s, b->tokens_per_s,   b->samples_per_s,
                        b->mfu_frac};
    return !memcmp(x, y, sizeof x) && a->fits == b->fits && a->mesh.sizes[0] == b->mesh.sizes[0] &&
           a->mesh.sizes[1] == b->mesh.sizes[1] && a->memory.peak_bytes == b->memory.peak_bytes &&
           sum_of_categories(&a->memory) == sum_of_categories(&b->memory) &&
           a->memory.activation_bytes == b->memory.activation_bytes && !strcmp(a->memory.peak_at, b->memory.peak_at) &&
           !strcmp(a->profile, b->profile);
}

static void check_cold(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text)
{
    struct sim_cache *cold = sim_cache_new(arena);
    struct sim_prediction warm = predicted(cache, arena, text), again = predicted(cache, arena, text),
                          alone = predicted(cold, arena, text);
    assert_true(same_prediction(&warm, &again));
    assert_true(same_prediction(&warm, &alone));
    sim_cache_free(cold);
}

static void answers_are_the_same_from_any_cache(struct base_arena *arena)
{
    for_random_plans(arena, 4, 60, check_cold);
}

static void answers_do_not_depend_on_the_order_of_questions(struct base_arena *arena)
{
    struct sim_prediction forwards[BASE_COUNT(memory_plans)];
    for (int backwards = 0; backwards < 2; backwards++) {
        struct sim_cache *cache = sim_cache_new(arena);
        for (int i = 0; i < BASE_COUNT(memory_plans); i++) {
            int at = backwards ? BASE_COUNT(memory_plans) - 1 - i : i;
            struct sim_prediction p = predict_words(cache, arena, memory_plans[at]);
            TEST_ROW("%s", memory_plans[at]);
            if (!backwards) forwards[at] = p;
            assert_string_equal(p.memory.peak_at, forwards[at].memory.peak_at);
            assert_near(p.step_s, forwards[at].step_s, 0);
            assert_int_equal(p.memory.peak_bytes, forwards[at].memory.peak_bytes);
        }
        sim_cache_free(cache);
    }
}

/* Constants are told apart by what they say, not by where their document stands. */
static void constants_are_told_apart_by_content(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_arena question = {.exhausted = arena->exhausted};
    double steps[4];
    for (int i = 0; i < 4; i++) {
        struct sim_plan_text text =
            plan_text(&question, "model=" SMALL_DECODER " topology=v4:2x2x1 batch_size=8 targets_length=32");
        set_constants(cache, &question, i % 2 ? "\"hbm_bytes_per_s\": 2e11" : "\"hbm_bytes_per_s\": 1e11");
        steps[i] = predicted(cache, &question, &text).step_s;
        base_arena_reset(&question);
    }
    assert_true(steps[1] < steps[0]);
    assert_near(steps[2], steps[0], 0);
    assert_near(steps[3], steps[1], 0);
    base_arena_free(&question);
    sim_cache_free(cache);
}

/* Advice asks many questions; the plan that it is about stays good however much the cache has to forget. */
static void advice_leaves_the_plan_as_it_was(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_change changes[SIM_MOST_CHANGES];
    struct base_error error;
    struct sim_prediction before, after;
    struct sim_plan_text text = plan_text(
        arena, "model=t5_1_1_xl topology=v4:2x2x1 batch_size=64 inputs_length=512 targets_length=512 optimizer=adamw");
    struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    struct model_config config = *plan.config;
    assert_ok(sim_predict(cache, &plan, &before, NULL, &error), &error);
    assert_false(before.fits);
    cache->arena.allocated_bytes = INT64_MAX / 2; /* as if it had grown past its bound */
    assert_true(sim_changes_that_fit(cache, arena, &text, &plan, changes) > 0);
    assert_memory_equal(plan.config, &config, sizeof config);
    assert_ok(sim_predict(cache, &plan, &after, NULL, &error), &error);
    assert_true(same_prediction(&before, &after));
    sim_cache_free(cache);
}

/* The plan with the changes that a line of advice names: "topology v3-64, num_microbatches 32". */
static struct sim_plan_text advised(struct base_arena *arena, struct sim_plan_text text, const char *what)
{
    for (const char *at = what; at;) {
        const char *space = strchr(at, ' '), *end = strstr(at, ", ");
        int key = sim_plan_key_named(base_copy_bytes(arena, at, (size_t)(space - at)));
        assert_true(key >= 0);
        text.values[key] = base_copy_bytes(arena, space + 1, end ? (size_t)(end - space - 1) : strlen(space + 1));
        at = end ? end + 2 : NULL;
    }
    return text;
}

/* Advice is what it says: the plan so changed fits at that speed, the fewest changes first and of as many the fastest;
 * three are tried where two do not help, with larger topologies whose devices an axis of a named mesh takes, and a
 * smaller batch; what T5X lacks is said; and a batch of a billion is no trouble. */
static void advice_fits(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_change changes[SIM_MOST_CHANGES];
    int count;
    static const struct {
        const char *words;
        int fewest, most;       /* changes at once; 0: none helps */
        const char *among_them; /* a part of one of them */
    } rows[] = {
        {"model=t5_1_1_xxl topology=a100-80g:4x8 num_partitions=1 batch_size=2304 inputs_length=512 targets_length=128 "
         "optimizer=adamw",
         2, 2, NULL},
        {"model=t5_1_1_xxl topology=a100-80g:32x8 num_partitions=1 batch_size=2304 inputs_length=512 "
         "targets_length=128 "
         "optimizer=adamw",
         1, 2, NULL},
        {"model=t5_1_1_xxl topology=v3-8 batch_size=4096 inputs_length=512 targets_length=512 optimizer=adamw", 4, 4,
         "topology v3-"},
        {"model=t5_1_0_11B topology=v4-512 model_parallel_submesh=4,2,2,1 batch_size=448 inputs_length=512 "
         "targets_length=512 optimizer=adamw",
         1, 2, NULL},
        /* rules of a mesh of named axes, and what a software is usually run with */
        {"model=llama3_8b topology=v6e-64 ici_mesh=data=64,model=1 logical_axis_rules=standard:1,1 batch_size=64 "
         "targets_length=8192 software=maxtext",
         1, 2, NULL},
        {"model=llama3_70b topology=v6e-128 ici_mesh=data=1,fsdp=128,tensor=1 logical_axis_rules=maxtext "
         "batch_size=128 targets_length=8192 optimizer=adamw attention=unfused remat_policy=none software=maxtext",
         2, 2, NULL},
        {"model=llama3_8b topology=v5e-16 ici_mesh=fsdp=16 batch_size=64 targets_length=10240 optimizer=adamw "
         "attention=flash remat_policy=minimal software=maxtext compiler=latest",
         2, 3, "topology v5e-32, ici_mesh fsdp=32, "},
        {"model=llama3_70b topology=h100:4x8 software=megatron batch_size=128 targets_length=8192", 4, 5,
         "remat_policy full, num_partitions 4, pipeline_stages 8, num_microbatches "},
        {"model=t5_1_1_large topology=v5e-16 ici_mesh=data=16,model=1 logical_axis_rules=standard:1,1 batch_size=64 "
         "inputs_length=1024 targets_length=1024 optimizer=adamw compiler=latest",
         1, 3, "ici_mesh data=8,model=2, split_physical_axes 1"},
        {"model=t5_1_1_base topology=v4:2x2x1 batch_size=1073741824 num_microbatches=1048576 inputs_length=512 "
         "targets_length=512",
         0, 0, NULL}, /* the tokens alone are too many */
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].words);
        struct sim_plan_text text = plan_text(arena, rows[i].words);
        if (!text.values[SIM_COMPILER]) text.values[SIM_COMPILER] = "software";
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        const int device_count = plan.placement->topology.device_count;
        bool among_them = !rows[i].among_them;
        count = sim_changes_that_fit(cache, arena, &text, &plan, changes);
        assert_int_equal(count > 0, rows[i].fewest > 0);
        for (int c = 0; c < count; c++) {
            struct sim_plan_text changed = advised(arena, text, changes[c].what);
            struct sim_prediction again = predicted(cache, arena, &changed);
            int parts = strstr(changes[c].what, ", ici_mesh") && strstr(changes[c].what, "topology") ? 0 : 1;
            for (const char *at = changes[c].what; (at = strstr(at, ", ")); at++) parts++;
            assert_true(again.fits && changes[c].prediction.fits);
            assert_near(again.tokens_per_s, changes[c].prediction.tokens_per_s, 1e-12);
            const struct sim_plan new_plan = checked(cache, arena, &changed, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
            const enum sim_verdict verdict = sim_confidence_of(NULL, &new_plan, &again).verdict;
            assert_int_equal(verdict, changes[c].tight ? SIM_FITS_TIGHTLY : SIM_FITS);
            parts += (int)ceil(log2((double)new_plan.placement->topology.device_count / device_count)) -
                     (strstr(changes[c].what, "topology") != NULL);
            assert_int_equal(changes[c].count, parts);
            assert_in_range(parts, rows[i].fewest, rows[i].most);
            bool beyond = !text.values[SIM_SOFTWARE] && (strstr(changes[c].what, "optimizer_partitioning") ||
                                                         strstr(changes[c].what, "remat_policy"));
            assert_int_equal(changes[c].t5x_lacks != NULL, beyond);
            assert_true(!c || changes[c].count > changes[c - 1].count ||
                        (changes[c].count == changes[c - 1].count &&
                         changes[c].prediction.tokens_per_s <= changes[c - 1].prediction.tokens_per_s));
            among_them = among_them || strstr(changes[c].what, rows[i].among_them);
        }
        assert_true(among_them);
        assert_true(!count || changes[0].count == rows[i].fewest);
    }
    sim_cache_free(cache);
}

/* Nothing is advised that the software cannot be told. */
static void advice_is_the_softwares(struct base_arena *arena)
{
    static const struct {
        const char *software, *among_them, *foreign[3];
    } rows[] = {{"megatron", "pipeline_stages 4, num_partitions 8", {"adafactor", "logical_axis_rules", "minimal"}},
                {"nanotron", "pipeline_stages 4, num_partitions 8", {"adafactor", "logical_axis_rules", "selective"}},
                {"torchtitan", "remat_policy full", {"adafactor", "logical_axis_rules", "minimal"}},
                {"transformers", "logical_axis_rules zero3", {"standard:", "optimizer_partitioning", "num_partitions"}},
                {"deepspeed", "remat_policy full", {"adafactor", "standard:", "num_partitions"}}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].software);
        struct sim_plan_text text = plan_text(arena, base_print(arena,
                                                                "model=llama3_70b topology=a100-80g:1x8 batch_size=32 "
                                                                "targets_length=4096 software=%s",
                                                                rows[i].software));
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        struct sim_change changes[SIM_MOST_CHANGES];
        int count, wanted = 0;
        count = sim_changes_that_fit(cache, arena, &text, &plan, changes);
        for (int c = 0; c < count; c++) {
            wanted += strstr(changes[c].what, rows[i].among_them) != NULL;
            for (int f = 0; f < BASE_COUNT(rows[i].foreign); f++)
                assert_null(strstr(changes[c].what, rows[i].foreign[f]));
        }
        assert_true(wanted > 0);
    }
    sim_cache_free(cache);
}

/* Recomputation is work of the hardware and none of the model; a checkpoint is the whole state in float32. */
static void totals_and_checkpoints(struct base_arena *arena)
{
    static const char *const policies[] = {"none", "full"};
    struct sim_cache *cache = sim_cache_new(arena);
    double hardware_flop[2], model_flop[2];
    for (int i = 0; i < BASE_COUNT(policies); i++) {
        struct base_error error;
        struct sim_prediction p;
        struct sim_detail detail = {.lists_collectives = true, .arena = arena};
        struct sim_checkpoint checkpoint;
        struct sim_plan_text text =
            plan_text(arena, "model=t5_1_0_11B topology=v4-512 model_parallel_submesh=4,2,2,1 batch_size=896 "
                             "num_microbatches=4 inputs_length=512 targets_length=512 optimizer=adamw");
        text.values[SIM_REMAT_POLICY] = policies[i];
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        assert_ok(sim_predict(cache, &plan, &p, &detail, &error), &error);
        hardware_flop[i] = p.hardware_flop, model_flop[i] = p.model_flop;
        assert_near(p.model_flop, p.mfu_frac * p.step_s * 256 * 275e12, 1e-9);
        assert_true(p.accessed_bytes > 0);
        assert_ok(sim_checkpoint_of(arena, &plan, &checkpoint, &error), &error);
        assert_int_equal(checkpoint.bytes, 3 * 4 * INT64_C(11307321344) + 4); /* weights, two moments, the step */
        assert_true(checkpoint.save_s > 1.3 && checkpoint.save_s < 1.5);      /* 8.5 GB a device at 6.25 GB/s */
    }
    assert_near(model_flop[0], model_flop[1], 1e-12);
    assert_true(hardware_flop[0] > model_flop[0] && hardware_flop[0] < 1.05 * model_flop[0]);
    assert_true(hardware_flop[1] > 1.2 * model_flop[1] && hardware_flop[1] < 1.4 * model_flop[1]);
    sim_cache_free(cache);
}

/* The table survives an allocation that fails while it grows. */
static void cache_is_whole_after_memory_ran_out(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    jmp_buf exhausted;
    struct base_arena question = {.exhausted = &exhausted};
    struct sim_prediction first, last;
    struct sim_plan_text text =
        plan_text(arena, "model=" SMALL_T5 " topology=v4:2x2x1 batch_size=16 inputs_length=48 targets_length=24");
    sim_cache_begin(cache, arena);
    first = predicted(cache, arena, &text);
    for (int volatile i = 1; i < 60; i++) {
        if (setjmp(exhausted) == 0) {
            cache->arena.fail_after_count = cache->arena.allocation_count + 7 * i;
            struct sim_plan_text other = plan_text(
                arena, base_print(arena,
                                  "model=decoder_only:emb_dim=%d,num_heads=4,head_dim=8,mlp_dim=64,num_layers="
                                  "2,vocab_size=256 topology=v4:2x2x1 batch_size=8 targets_length=16",
                                  8 * i));
            predicted(cache, &question, &other);
        }
        cache->arena.fail_after_count = 0;
    }
    last = predicted(cache, arena, &text);
    assert_true(same_prediction(&first, &last));
    base_arena_free(&question);
    sim_cache_free(cache);
}

/* On one torus dimension after the other: when each group lies along one dimension, T5X lists its devices in their
 * order along it, whichever dimension that is, so turning the torus with the submesh changes nothing. (Groups over two
 * dimensions are listed x first, and then it does: v4-512 by 2,4,2,1 is faster than by 2,2,4,1.) */
static void turning_the_torus_changes_nothing(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh;
    } rows[][3] = {
        {{"v4:4x8x1", "4,1,1,1"}, {"v4:8x4x1", "1,4,1,1"}, {"v4:1x4x8", "1,4,1,1"}},
        {{"v5e:4x8", "4,1,1,1"}, {"v5e:8x4", "1,4,1,1"}, {"v5e:8x4", "1,4,1,1"}},
        {{"v4:8x1x1@wrap=x", "2,1,1,1"}, {"v4:1x8x1@wrap=y", "1,2,1,1"}, {"v4:1x1x8@wrap=z", "1,1,2,1"}},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        double step_s = 0;
        for (int j = 0; j < 3; j++) {
            struct sim_plan_text text =
                plan_text(arena, "model=" SMALL_T5 " topology=given batch_size=64 inputs_length=48 targets_length=24");
            TEST_ROW("%s by %s", rows[i][j].topology, rows[i][j].submesh);
            text.values[SIM_TOPOLOGY] = rows[i][j].topology;
            text.values[SIM_SUBMESH] = rows[i][j].submesh;
            struct sim_prediction p = predicted(cache, arena, &text);
            if (j) assert_near(p.step_s, step_s, 1e-12);
            step_s = p.step_s;
        }
    }
    double along_y =
        predict_words(
            cache, arena,
            "model=t5_1_0_11B topology=v4-512 model_parallel_submesh=2,4,2,1 batch_size=896 num_microbatches=4 "
            "inputs_length=512 targets_length=512 optimizer=adamw")
            .step_s;
    double along_z =
        predict_words(
            cache, arena,
            "model=t5_1_0_11B topology=v4-512 model_parallel_submesh=2,2,4,1 batch_size=896 num_microbatches=4 "
            "inputs_length=512 targets_length=512 optimizer=adamw")
            .step_s;
    assert_true(along_y < along_z);
    sim_cache_free(cache);
}

/* The example's plan ran at 304,394 target tokens a second, 1.507 s a step, and fitted. */
static void the_example_is_near_what_was_measured(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const struct base_json *document;
    struct sim_plan_text text;
    struct base_error error;
    const char *json;
    size_t length;
    assert_ok(base_read_file(arena, "examples/t5_11b_v4_512.json", 1 << 20, &json, &length, &error), &error);
    assert_ok(base_json_parse(arena, json, length, &document, &error), &error);
    assert_ok(sim_plan_from_json(arena, document, &text, &error), &error);
    struct sim_prediction p = predicted(cache, arena, &text);
    assert_int_equal(p.mesh.sizes[0], 16);
    assert_int_equal(p.mesh.sizes[1], 16);
    assert_true(p.fits);
    assert_near(p.step_s, 1.507, 0.15);
    sim_cache_free(cache);
}

static void programs_do_not_grow_with_microbatches(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    int op_count = 0;
    static const char *const microbatches[] = {"2", "16", "256"};
    for (int i = 0; i < BASE_COUNT(microbatches); i++) {
        const struct sim_sharded *sharded;
        int64_t sizes[MODEL_SIZE_COUNT];
        struct sim_plan_text text =
            plan_text(arena, "model=" SMALL_T5 " topology=v4:2x2x1 batch_size=1024 inputs_length=48 targets_length=24");
        text.values[SIM_NUM_MICROBATCHES] = microbatches[i];
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        assert_ok(sim_sharded_program(cache, &plan, &sharded, sizes, &error), &error);
        if (i) assert_int_equal(sharded->op_count, op_count);
        op_count = sharded->op_count;
    }
    sim_cache_free(cache);
}

/* ---- refusals ---- */

#define GOOD_PLAN "model=" SMALL_T5 " topology=v4-8 batch_size=16 inputs_length=48 targets_length=24"

static void plans_are_refused_with_what_to_use_instead(struct base_arena *arena)
{
    static const struct {
        enum sim_key key;
        const char *value, *part;
    } rows[] = {
        {SIM_MODEL, "", "model: is missing"},
        {SIM_MODEL, "t5_1_1_xxxl", "t5_1_1_xxl"},
        {SIM_MODEL, "decoder_only:emb_dim=64", "num_heads, head_dim, mlp_dim, vocab_size, num_layers missing"},
        {SIM_TOPOLOGY, "", "topology: is missing"},
        {SIM_TOPOLOGY, "v4-511", "v4-51"},
        {SIM_TOPOLOGY, "v4:2x2x4@slices=2", "use ici_mesh_shape and dcn_mesh_shape"},
        {SIM_SUBMESH, "2,2", "submesh"},
        {SIM_SUBMESH, "3,1,1,1", "3"},
        {SIM_SUBMESH, "1,x,1,1", "model_parallel_submesh"},
        {SIM_SUBMESH, "0,1,1,1", "submesh"},
        {SIM_NUM_PARTITIONS, "0", "num_partitions"},
        {SIM_NUM_PARTITIONS, "3", "3"},
        {SIM_NUM_PARTITIONS, "4294967297", "num_partitions"},
        {SIM_RULES, "standart", "standard"},
        {SIM_RULES, "[[\"embed\",\"pipeline\"]]", "its axes are data and model"},
        {SIM_RULES, "[[\"embed\",[\"data\",null]]]", "has a list with null"},
        {SIM_RULES, "[[\"batch\",[null]]]", "has a list with null"},
        {SIM_OPTIMIZER_PARTITIONING, "zero1", "data+gradients"},
        {SIM_SEQUENCE_PARALLEL, "2", "sequence_parallel"},
        {SIM_INPUTS_LENGTH, "", "task_feature_lengths.inputs: is missing"},
        {SIM_INPUTS_LENGTH, "0", "inputs_length"},
        {SIM_TARGETS_LENGTH, "", "task_feature_lengths.targets: is missing"},
        {SIM_TARGETS_LENGTH, "16777217", "targets_length"},
        {SIM_BATCH_SIZE, "", "batch_size: is missing"},
        {SIM_BATCH_SIZE, "18", "batch_size: 18 must be divisible by the data mesh size 4; use 20 or 16"},
        {SIM_BATCH_SIZE, "-4", "batch_size"},
        {SIM_BATCH_SIZE, "1e3", "batch_size"},
        {SIM_BATCH_SIZE, "99999999999999999999", "batch_size"},
        {SIM_NUM_MICROBATCHES, "-1", "num_microbatches"},
        {SIM_NUM_MICROBATCHES, "3", "num_microbatches: 3 does not divide batch_size 16; use one of 1, 2, 4, 8, 16…"},
        {SIM_OPTIMIZER, "adam", "adamw"},
        {SIM_REMAT_POLICY, "minimum", "minimal"},
        {SIM_DTYPE, "bfloat17", "bfloat16"},
        {SIM_ATTENTION, "dense", "unfused"},
        {SIM_SOFTWARE, "t5y", "t5x"},
        {SIM_MEMORY_KIND, "host", "reserved"},
        {SIM_LEARNING_RATE, "fast", "learning_rate"},
        {SIM_LEARNING_RATE, "nan", "learning_rate"},
        {SIM_LEARNING_RATE, "-1", "learning_rate"},
        {SIM_SEED, "-1", "seed"},
        {SIM_SEED, "0x10", "seed"},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = plan_text(arena, GOOD_PLAN);
        struct sim_plan plan, untouched;
        struct base_error error = {0};
        memset(&plan, 7, sizeof plan);
        untouched = plan;
        text.values[rows[i].key] = rows[i].value;
        TEST_ROW("%s: \"%s\"", sim_plan_keys[rows[i].key].name, rows[i].value);
        assert_fails(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error),
                     BASE_INPUT, &error, rows[i].part);
        assert_memory_equal(&plan, &untouched, sizeof plan);
    }
    sim_cache_free(cache);
}

/* A prime batch of half a billion is answered as fast as any other. */
static void refusals_are_quick(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct base_error error = {0};
    struct sim_plan_text text = plan_text(
        arena, "model=" SMALL_T5
               " topology=local:1 batch_size=536870909 num_microbatches=2 inputs_length=48 targets_length=24");
    assert_fails(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "; use one of 1, 536870909…");
    sim_cache_free(cache);
}

static void plans_beyond_all_memory_are_refused(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction prediction;
    struct base_error error = {0};
    struct sim_plan_text text = plan_text(arena, "model=decoder_only:emb_dim=262144,num_heads=1024,head_dim=1024,mlp_"
                                                 "dim=1048576,num_layers=1000,vocab_size=1000000 topology=v4-8 "
                                                 "batch_size=1073741824 targets_length=16777216");
    struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    assert_fails(sim_predict(cache, &plan, &prediction, NULL, &error), BASE_INPUT, &error,
                 "more than 4 EiB on one device");
    sim_cache_free(cache);
}

static void profiles_are_refused_with_what_to_use_instead(struct base_arena *arena)
{
    static const struct {
        const char *document, *part;
    } rows[] = {
        {"[]", "constants: an object"},
        {"{}", "constants: an object"},
        {"{\"constants\": 1}", "constants: an object"},
        {"{\"constants\": {\"hbm_bytes_s\": 1}}", "hbm_bytes_per_s"},
        {"{\"constants\": {\"hbm_bytes_per_s\": \"fast\"}}", "constants.hbm_bytes_per_s: a number"},
        {"{\"constants\": {\"hbm_bytes_per_s\": -1}}", "constants.hbm_bytes_per_s: a number"},
        {"{\"constants\": {\"capacity_bytes\": 1e300}}", "constants.capacity_bytes: a number"},
        {"{\"constants\": {\"flop_per_s\": 0}}", "no source gives flop_per_s"},
        {"{\"constants\": {\"link_bytes_per_s\": 0}}", "link rate"},
        {"{\"constants\": {\"matmul_efficiency_frac\": 3.9}}", "a number from 0 to 1 is needed"},
        {"{\"constants\": {\"matrix_unit_dim\": 0.5}}", "a whole number from 0 to 65536 is needed"},
        {"{\"constants\": {\"multiprocessors\": 108}}", "is a constant of GPUs; leave it out for tpu_v4"},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct base_json *document;
        struct sim_plan plan;
        struct base_error error = {0};
        struct sim_plan_text text = plan_text(arena, GOOD_PLAN);
        TEST_ROW("%s", rows[i].document);
        assert_ok(base_json_parse(arena, rows[i].document, strlen(rows[i].document), &document, &error), &error);
        sim_cache_override(cache, document);
        assert_fails(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error),
                     BASE_INPUT, &error, rows[i].part);
    }
    sim_cache_free(cache);
}

static void plan_documents_are_refused_with_what_to_use_instead(struct base_arena *arena)
{
    static const struct {
        const char *document, *part;
    } rows[] = {
        {"[1]", "a plan is an object"},
        {"{\"batchsize\": 8}", "batch_size"},
        {"{\"batch_size\": \"8\"}", "batch_size: is a string; a number is needed"},
        {"{\"batch_size\": true}", "batch_size"},
        {"{\"optimizer\": false}", "optimizer: is false"},
        {"{\"sequence_parallel\": \"true\"}", "sequence_parallel: is a string; a number is needed"},
        {"{\"model\": 5}", "model"},
        {"{\"model\": \"\"}", "model: is empty"},
        {"{\"model_parallel_submesh\": []}", "is an empty list"},
        {"{\"model_parallel_submesh\": [4, \"2\"]}", "whole numbers are needed"},
        {"{\"model_parallel_submesh\": {}}", "a list is needed"},
        {"{\"task_feature_lengths\": {\"input\": 512}}", "is no feature"},
        {"{\"task_feature_lengths\": {\"inputs\": \"512\"}}", "inputs_length"},
        {"{\"logical_axis_rules\": 1}", "a string or a list"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct base_json *document;
        struct sim_plan_text text = {{"untouched"}};
        struct base_error error = {0};
        TEST_ROW("%s", rows[i].document);
        assert_ok(base_json_parse(arena, rows[i].document, strlen(rows[i].document), &document, &error), &error);
        assert_fails(sim_plan_from_json(arena, document, &text, &error), BASE_INPUT, &error, rows[i].part);
        assert_string_equal(text.values[0], "untouched");
    }
}

/* Of a mesh over processes the axis that leaves the nodes pays for the network, whichever it is, and the other not. */
static void axes_over_processes_pay_for_the_network(struct base_arena *arena)
{
    struct topo_topology topology;
    struct sim_profile profile;
    struct sim_placement placements[2];
    struct base_error error;
    assert_ok(topo_parse(arena, "h100:2x8", &topology, &error), &error);
    assert_ok(sim_profile_build(&topology, "t5x", NULL, NULL, &profile, &error), &error);
    for (int i = 0; i < 2; i++) {
        struct topo_mesh_request request = {.ici_mesh = {2, {"fsdp", "tensor"}, {i ? 2 : 4, i ? 4 : 2}},
                                            .dcn_mesh = {1, {i ? "fsdp" : "tensor"}, {2}}};
        assert_ok(sim_placement_build(arena, &topology, &request, &profile, &placements[i], &error), &error);
        assert_int_equal(placements[i].axes.sizes[0], 4);
        assert_int_equal(placements[i].axes.sizes[1], 4);
    }
    for (int axis = 0; axis < 2; axis++) {
        const struct sim_group *inside = &placements[axis].groups[1 << axis],
                               *across = &placements[!axis].groups[1 << axis];
        TEST_ROW("axis %d", axis);
        assert_true(inside->seconds_per_byte < across->seconds_per_byte);
    }
    assert_near(placements[0].groups[1].seconds_per_byte, placements[1].groups[2].seconds_per_byte, 1e-12);
    assert_near(placements[0].groups[2].seconds_per_byte, placements[1].groups[1].seconds_per_byte, 1e-12);
}

/* Gradients of latent attention's keys are sharded as the keys are, and sorted tokens as their sequences, so that
 * MaxText gathers weights over fsdp and no activation: of the largest weight a device holds most_bytes. */
static void gathers_are_of_weights(struct base_arena *arena)
{
    static const struct {
        const char *words;
        int64_t most_bytes;
    } rows[] = {{"model=deepseek_v2_lite:num_layers=3 topology=v5p-8 ici_mesh=fsdp=4 targets_length=2048 batch_size=96 "
                 "software=maxtext",
                 100 << 20},
                {"model=mixtral_8x7b:num_layers=2 topology=tpu7x:4x4x4 ici_mesh=fsdp=64,context=2 targets_length=8192 "
                 "batch_size=256 software=maxtext",
                 7 << 20}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int r = 0; r < BASE_COUNT(rows); r++) {
        struct sim_plan_text text = plan_text(arena, rows[r].words);
        struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
        struct sim_prediction prediction;
        struct sim_detail detail = collectives_of(cache, arena, &plan, &prediction);
        const unsigned fsdp = 1u << topo_axis_named(&plan.placement->axes, "fsdp");
        TEST_ROW("%s", rows[r].words);
        assert_true(detail.collectives.count > 0);
        for (int i = 0; i < detail.collectives.count; i++)
            if (detail.collectives.rows[i].kind == SIM_ALL_GATHER && (detail.collectives.rows[i].axes & fsdp))
                assert_in_range(detail.collectives.rows[i].bytes, 1, rows[r].most_bytes);
    }
    sim_cache_free(cache);
}

/* MaxText's axis of experts holds whole experts: rows go to them in all-to-alls, and no axis is idle. */
static void experts_are_over_their_axis_of_maxtext(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text =
        plan_text(arena, "model=mixtral_8x7b:num_layers=2 topology=v5p-64 ici_mesh=fsdp=8,expert=4 targets_length=4096 "
                         "batch_size=128 software=maxtext");
    struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    struct sim_prediction prediction;
    struct sim_detail detail = collectives_of(cache, arena, &plan, &prediction);
    const int expert = topo_axis_named(&plan.placement->axes, "expert");
    int64_t exchanges = 0;
    assert_null(sim_plan_idle_axes(arena, &plan));
    for (int i = 0; i < detail.collectives.count; i++)
        if (detail.collectives.rows[i].kind == SIM_ALL_TO_ALL && detail.collectives.rows[i].axes == 1u << expert)
            exchanges += detail.collectives.rows[i].count;
    assert_int_equal(exchanges, 2 * 6); /* of each layer: there and back, also recomputed and of gradients */
    /* 128 x 4096 / 32 tokens a device, twice each; three buffers of 14336 in two bytes, for 3 times the mean more */
    const double ragged_bytes = 16384.0 * 2 * 14336 * 2 * 3 * 3;
    text.values[SIM_ICI_MESH] = "fsdp=32";
    plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    const int64_t before_bytes = prediction.memory.temporary_bytes;
    collectives_of(cache, arena, &plan, &prediction);
    assert_true((double)(before_bytes - prediction.memory.temporary_bytes) > 0.5 * ragged_bytes);
    assert_true((double)before_bytes > ragged_bytes);
    text.values[SIM_ICI_MESH] = "fsdp=8,expert=4";
    text.values[SIM_MOE_DISPATCHER] = "dense", text.values[SIM_CAPACITY_FACTOR] = "1.25";
    plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    assert_non_null(strstr(sim_plan_idle_axes(arena, &plan), "use moe_dispatcher megablox, or fsdp"));
    struct base_error error;
    text.values[SIM_MOE_DISPATCHER] = text.values[SIM_CAPACITY_FACTOR] = NULL;
    text.values[SIM_ICI_MESH] = "data=8,expert=4"; /* MaxText's meshes have fsdp always */
    assert_true(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_INPUT);
    assert_non_null(strstr(error.text, "its axes are data and expert; add fsdp=1 and tensor=1 to ici_mesh"));
    sim_cache_free(cache);
}

/* Megablox goes over tiles of 512 rows and 1024 columns: experts share tiles, and a width of 1408 takes two. */
static void grouped_products_take_whole_tiles(struct base_arena *arena)
{
    static const struct {
        struct sim_product of;
        bool sums_tokens;
        double flop;
    } rows[] = {
        {{64, 4608, 1408, 2048}, false, 2.0 * (576 + 63) * 512 * 2048 * 2048},
        {{64, 2048, 1408, 4608}, true, 2.0 * (576 + 63) * 512 * 2048 * 2048},
        {{8, 12288, 14336, 4096}, false, 2.0 * (192 + 7) * 512 * 14336 * 4096},
        {{128, 4096, 768, 2048}, false, 2.0 * (1024 + 127) * 512 * 768 * 2048},
        {{4, 64, 1408, 2048}, false, 2.0 * 4 * 512 * 2048 * 2048},     /* each expert goes over the one tile */
        {{64, 0.25, 1024, 2048}, false, 2.0 * 16 * 512 * 1024 * 2048}, /* experts without tokens go over none */
    };
    struct topo_topology topology;
    struct sim_profile profile;
    struct base_error error;
    assert_ok(topo_parse(arena, "v5p-8", &topology, &error), &error);
    assert_ok(sim_profile_build(&topology, "maxtext", NULL, NULL, &profile, &error), &error);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%d", i);
        assert_near(sim_grouped_product_flop(&profile, &rows[i].of, rows[i].sums_tokens), rows[i].flop, 1e-12);
    }
}

/* ---- how far off a prediction may be ---- */

static struct sim_confidence confidence_of(struct base_arena *arena, const char *words, struct sim_prediction *out)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = plan_text(arena, words);
    struct sim_plan plan = checked(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED);
    struct base_error error;
    assert_ok(sim_predict(cache, &plan, out, NULL, &error), &error);
    struct sim_confidence confidence = sim_confidence_of(arena, &plan, out);
    sim_cache_free(cache);
    return confidence;
}

/* Few rows, or none, make wide intervals; what is larger fits less likely; what we lay out ourselves is exact. */
static void confidence_rests_on_what_was_measured(struct base_arena *arena)
{
    const char *words = "model=t5_1_1_xl batch_size=64 inputs_length=512 targets_length=512 num_partitions=2 topology=";
    struct sim_prediction p, larger;
    struct sim_confidence v4 = confidence_of(arena, base_print(arena, "%sv4:2x2x2", words), &p),
                          v3 = confidence_of(arena, base_print(arena, "%sv3:2x2", words), &larger),
                          cpu = confidence_of(arena, base_print(arena, "%slocal:4", words), &p);
    assert_non_null(strstr(v4.rests_on, "seed_tpu_v4"));
    assert_non_null(strstr(v3.rests_on, "none of them on v3"));
    assert_non_null(strstr(cpu.rests_on, "uncalibrated"));
    assert_true(v3.step_s.high / v3.step_s.low > 0.9999 * v4.step_s.high / v4.step_s.low); /* never surer */
    assert_true(v4.fits_probability_frac > v3.fits_probability_frac);
    /* 22 rows of one table deviate by 6 % from its mean; another table's mean is not known so well */
    assert_true(log(v4.step_s.high / v4.step_s.low) > 2 * 1.6449 * 0.06);
    assert_true(v4.within_log < 0.07);
    assert_near(sim_indifference_threshold_frac(&v4), expm1(1.2816 * sqrt(2) * v4.within_log), 1e-9);
    assert_true(cpu.within_log > 0.07);
    assert_true(cpu.peak_bytes.low >= (double)p.memory.peak_bytes &&
                cpu.peak_bytes.high <= (double)p.memory.peak_bytes);
}

/* T5X has microbatches in training alone: an evaluation is of the whole batch, whatever a plan's document says. */
static void microbatches_are_of_training(struct base_arena *arena)
{
    static const enum model_step steps[] = {MODEL_STEP_FORWARD, MODEL_STEP_EVALUATE, MODEL_STEP_ENCODE};
    const char *words = "model=t5_1_1_base topology=v4-16 batch_size=64 inputs_length=128 targets_length=128 ";
    for (int i = 0; i < BASE_COUNT(steps); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_prediction predicted[2];
        struct base_error error;
        for (int j = 0; j < 2; j++) {
            struct sim_plan_text text = plan_text(arena, base_print(arena, "%snum_microbatches=%d", words, 4 * j));
            struct sim_plan plan = checked(cache, arena, &text, steps[i], SIM_AS_COMPILED);
            assert_int_equal(plan.num_microbatches, 1);
            assert_ok(sim_predict(cache, &plan, &predicted[j], NULL, &error), &error);
        }
        assert_near(predicted[0].step_s, predicted[1].step_s, 0);
        sim_cache_free(cache);
    }
}

static const struct test tests[] = {
    TEST(vector_units_bound_what_has_no_products),
    TEST(exchanges_go_straight),
    TEST(microbatches_are_of_training),
    TEST(confidence_rests_on_what_was_measured),
    TEST(axes_over_processes_pay_for_the_network),
    TEST(grouped_products_take_whole_tiles),
    TEST(gathers_are_of_weights),
    TEST(experts_are_over_their_axis_of_maxtext),
    TEST(a_mistake_made_again_is_answered_alike_and_costs_no_memory),
    TEST(a_refused_submesh_is_not_taken_for_one_that_was_accepted),
    TEST(liveness_of_a_chain),
    TEST(liveness_in_place),
    TEST(liveness_stores_between_contractions),
    TEST(liveness_of_a_carry),
    TEST(liveness_of_residuals),
    TEST(liveness_of_a_kept_carry),
    TEST(liveness_of_what_a_loop_reads),
    TEST(liveness_of_updates),
    TEST(memory_peak_is_that_of_the_walk),
    TEST(memory_categories_add_up),
    TEST(rings_load_links_as_a_router_does),
    TEST(shards_have_the_shapes_that_rules_give),
    TEST(zero3_gathers_every_kernel),
    TEST(zero1_gathers_each_array_once),
    TEST(new_stacks_live_until_they_are_gathered),
    TEST(uneven_heads_are_gathered),
    TEST(gradients_leave_the_microbatch_loop),
    TEST(sums_of_all_reduces_are_reduced_once),
    TEST(passes_are_older_than_the_software),
    TEST(combined_gradients_share_their_start),
    TEST(flash_and_fp8),
    TEST(gpu_compiler_of_2026_keeps_more),
    TEST(a_newer_xla_keeps_stacks_sharded_on_gpus),
    TEST(contractions_are_padded_to_the_matrix_unit),
    TEST(updates_are_bound_by_memory),
    TEST(collectives_cost_what_rings_do),
    TEST(several_dimensions_have_their_own_rate),
    TEST(plans_fit_to_the_last_byte),
    TEST(small_collectives_cost_latency),
    TEST(utilization_is_needed_flop_over_peak),
    TEST(masked_products_are_not_computed),
    TEST(plans_are_never_slower_on_better_hardware),
    TEST(plans_add_up),
    TEST(plans_keep_less_in_smaller_microbatches),
    TEST(answers_are_the_same_from_any_cache),
    TEST(answers_do_not_depend_on_the_order_of_questions),
    TEST(constants_are_told_apart_by_content),
    TEST(advice_leaves_the_plan_as_it_was),
    TEST(advice_fits),
    TEST(advice_is_the_softwares),
    TEST(totals_and_checkpoints),
    TEST(cache_is_whole_after_memory_ran_out),
    TEST(turning_the_torus_changes_nothing),
    TEST(the_example_is_near_what_was_measured),
    TEST(programs_do_not_grow_with_microbatches),
    TEST(plans_are_refused_with_what_to_use_instead),
    TEST(refusals_are_quick),
    TEST(plans_beyond_all_memory_are_refused),
    TEST(profiles_are_refused_with_what_to_use_instead),
    TEST(plan_documents_are_refused_with_what_to_use_instead),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
