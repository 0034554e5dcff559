/* Experts as they run: steps of the real T5X with Flaxformer's layers, one expert against a dense layer, routing by
 * hand, gradients against differences. */
#include "exec/checkpoint.h"
#include "exec/exec.h"
#include "exec/kernels.h"
#include "exec/row.h"
#include "sim/compile/compile.h"
#include "tests/numerics.h"
#include "tests/rig.h"

#include <math.h>
#include <stdlib.h>

/* ---- against the real T5X ---- */

static void steps_are_those_of_t5x(struct base_arena *arena)
{
    static const char *const cases[] = {"moe_top2_zloss", "moe_experts_choose"};
    static const struct {
        const char *topology, *submesh, *rules;
    } splits[] = {
        {"local:1", "1,1", "standard_moe:1,1"},
        {"local:4", "1,1", "standard_moe:1,1"},
        {"local:4", "1,2", "standard_moe:1,1"},
        {"local:4", "1,2", "standard_moe:2,1"},
    };
    for (int i = 0; i < BASE_COUNT(cases) * BASE_COUNT(splits); i++) {
        const char *name = cases[i / BASE_COUNT(splits)];
        int s = i % BASE_COUNT(splits);
        struct base_arena own = {.exhausted = arena->exhausted};
        TEST_ROW("%s on %s, %s, %s", name, splits[s].topology, splits[s].submesh, splits[s].rules);
        struct sim_plan_text text = test_numerics_plan(&own, name);
        text.values[SIM_TOPOLOGY] = splits[s].topology;
        text.values[SIM_SUBMESH] = splits[s].submesh;
        text.values[SIM_RULES] = splits[s].rules;
        test_steps_are_those_of_t5x(&own, name, &text);
        base_arena_free(&own);
    }
}

/* ---- machines ---- */

#define SIZES                                                                                                          \
    "moe_encoder_decoder:vocab_size=40,emb_dim=16,num_heads=2,head_dim=8,mlp_dim=24,num_layers=2,mlp_activations="     \
    "gelu+linear,logits_via_embedding=0,num_experts=%d,num_encoder_sparse_layers=%d,num_decoder_sparse_layers=%d,"     \
    "num_selected_experts=%d,capacity_factor=%g,group_size=8,router=%s,aux_loss_factor=%g,router_z_loss_factor=%g"

static const char *model(struct base_arena *arena, int experts, int sparse, int selected, double capacity,
                         const char *router, double aux)
{
    return base_print(arena, SIZES, experts, sparse, sparse, selected, capacity, router, aux, aux);
}

static struct sim_plan_text plan_of(struct base_arena *arena, const char *text)
{
    struct base_error error;
    const char *document = base_print(
        arena,
        "{\"model\": \"%s\", \"topology\": \"local:1\", \"num_expert_partitions\": 1, \"batch_size\": 4, "
        "\"logical_axis_rules\": \"standard_moe:1,1\", \"task_feature_lengths\": {\"inputs\": 8, \"targets\": 4}, "
        "\"optimizer\": \"sgd\", \"learning_rate\": 1}",
        text);
    const struct base_json *json;
    struct sim_plan_text plan;
    assert_ok(base_json_parse(arena, document, strlen(document), &json, &error), &error);
    assert_ok(sim_plan_from_json(arena, json, &plan, &error), &error);
    return plan;
}

static void begin(struct base_arena *arena, const struct sim_plan_text *text, struct rig *rig)
{
    struct base_error error;
    assert_ok(rig_begin_as(arena, text, SIM_AS_EXECUTED, rig, &error), &error);
}

/* ---- one expert is a dense layer ---- */

static int dense_array_of(struct base_arena *arena, const struct rig *dense, const char *path)
{
    const char *expert = strstr(path, "mlp.expert.");
    if (expert) path = base_print(arena, "%.*smlp.%s", (int)(expert - path), path, expert + strlen("mlp.expert."));
    for (int i = 0; i < dense->array_count; i++)
        if (!strcmp(dense->arrays[i].path, path)) return i;
    return -1;
}

static void one_expert_equals_a_dense_layer(struct base_arena *arena)
{
    struct rig dense, expert;
    struct sim_plan_text dense_text = plan_of(arena, model(arena, 1, 0, 1, 1, "tokens_choose_masked", 0)),
                         expert_text = plan_of(arena, model(arena, 1, 2, 1, 1, "tokens_choose_masked", 0));
    begin(arena, &dense_text, &dense);
    begin(arena, &expert_text, &expert);
    for (int i = 0; i < expert.array_count; i++) {
        int of = dense_array_of(arena, &dense, expert.arrays[i].path);
        if (of < 0 || strncmp(expert.arrays[i].path, "target.", 7) != 0) continue;
        struct exec_region all = exec_whole(&expert.arrays[i]);
        assert_int_equal(elements_of(&expert.arrays[i]), elements_of(&dense.arrays[of]));
        exec_scatter(&expert.machine, &expert.arrays[i], &all, whole_array(arena, &dense, of));
    }
    exec_step(&dense.machine);
    exec_step(&expert.machine);
    assert_near(expert.machine.loss_sum, dense.machine.loss_sum, 1e-6);
    assert_near(sqrt(expert.machine.gradient_square_sum), sqrt(dense.machine.gradient_square_sum), 1e-6);
    int compared = 0;
    for (int i = 0; i < expert.array_count; i++) {
        int of = dense_array_of(arena, &dense, expert.arrays[i].path);
        if (of < 0) continue;
        TEST_ROW("%s", expert.arrays[i].path);
        const float *a = whole_array(arena, &expert, i), *b = whole_array(arena, &dense, of);
        for (int64_t j = 0; j < elements_of(&dense.arrays[of]); j++) assert_true(fabsf(a[j] - b[j]) < 1e-5f);
        compared++;
    }
    assert_true(compared >= 50);
    sim_cache_free(dense.cache);
    sim_cache_free(expert.cache);
}

static void set_sizes(struct sim_plan_text *text, const char *batch, const char *inputs, const char *targets)
{
    text->values[SIM_BATCH_SIZE] = batch;
    text->values[SIM_INPUTS_LENGTH] = inputs;
    text->values[SIM_TARGETS_LENGTH] = targets;
}

/* An array in each expert, if it is one of experts. */
static float *repeated(struct base_arena *arena, const float *array, int64_t elements, int64_t times)
{
    float *out = base_new(arena, float, elements *times);
    for (int64_t i = 0; i < times; i++) memcpy(out + i * elements, array, (size_t)elements * sizeof *out);
    return out;
}

/* Each token chooses all of equal experts, with room for all and for the zeros: the dense layer, whatever the zeros. */
static void zeros_change_no_token(struct base_arena *arena)
{
    static const struct {
        const char *batch, *inputs, *targets;
        int experts;
        enum model_padding encoder, decoder;
    } rows[] = {{"3", "5", "3", 2, MODEL_PADS_LENGTH, MODEL_PADS_LENGTH},
                {"18", "10", "4", 8, MODEL_PADS_BATCH, MODEL_PADS_NOTHING}};
    for (int n = 0; n < BASE_COUNT(rows); n++) {
        const int experts = rows[n].experts;
        struct base_arena own = {.exhausted = arena->exhausted};
        struct rig dense, expert;
        struct sim_plan_text dense_text = plan_of(&own, model(&own, 1, 0, 1, 1, "tokens_choose_masked", 0)),
                             expert_text =
                                 plan_of(&own, model(&own, experts, 2, experts, experts, "tokens_choose_masked", 0));
        TEST_ROW("batch %s", rows[n].batch);
        set_sizes(&dense_text, rows[n].batch, rows[n].inputs, rows[n].targets);
        set_sizes(&expert_text, rows[n].batch, rows[n].inputs, rows[n].targets);
        begin(&own, &dense_text, &dense);
        begin(&own, &expert_text, &expert);
        assert_int_equal(expert.plan.options.expert_padding[MODEL_ENCODER_STACK], rows[n].encoder);
        assert_int_equal(expert.plan.options.expert_padding[MODEL_DECODER_STACK], rows[n].decoder);
        for (int i = 0; i < expert.array_count; i++) {
            int of = dense_array_of(&own, &dense, expert.arrays[i].path);
            if (of < 0 || strncmp(expert.arrays[i].path, "target.", 7) != 0) continue;
            struct exec_region all = exec_whole(&expert.arrays[i]);
            const int64_t elements = elements_of(&dense.arrays[of]), times = elements_of(&expert.arrays[i]) / elements;
            exec_scatter(&expert.machine, &expert.arrays[i], &all,
                         repeated(&own, whole_array(&own, &dense, of), elements, times));
        }
        exec_step(&dense.machine);
        exec_step(&expert.machine);
        assert_near(expert.machine.loss_sum, dense.machine.loss_sum, 1e-6);
        sim_cache_free(dense.cache);
        sim_cache_free(expert.cache);
        base_arena_free(&own);
    }
}

/* ---- gradients against differences ---- */

static double loss_of(struct rig *rig)
{
    double tokens = (double)rig->plan.batch_size * (double)rig->plan.targets_length;
    exec_step(&rig->machine);
    return rig->machine.loss_sum / tokens + rig->machine.router_loss_sum;
}

static void move(struct base_arena *arena, struct rig *rig, int which, const float *start, const float *direction,
                 double step)
{
    struct exec_region all = exec_whole(&rig->arrays[which]);
    float *moved = base_new(arena, float, elements_of(&rig->arrays[which]));
    for (int64_t j = 0; j < elements_of(&rig->arrays[which]); j++) moved[j] = start[j] + (float)step * direction[j];
    exec_scatter(&rig->machine, &rig->arrays[which], &all, moved);
}

/* Along its own direction the loss changes by the gradient's length. Every token keeps its experts on so short a way.
 */
static void check_gradients(struct base_arena *arena, const char *text, const char *only)
{
    struct rig stepped, rig;
    struct sim_plan_text plan = plan_of(arena, text);
    const bool routes = strstr(only, "router") != NULL; /* a token that chooses otherwise makes the loss jump */
    int checked = 0;
    begin(arena, &plan, &stepped);
    plan.values[SIM_LEARNING_RATE] = "0";
    begin(arena, &plan, &rig);
    exec_step(&stepped.machine);
    for (int i = 0; i < rig.array_count; i++) {
        if (strncmp(rig.arrays[i].path, "target.", 7) != 0 || !strstr(rig.arrays[i].path, only)) continue;
        float *start = whole_array(arena, &rig, i), *gradient = whole_array(arena, &stepped, i);
        double length = 0, step = routes ? 5e-4 : 2e-2;
        int64_t count = elements_of(&rig.arrays[i]);
        for (int64_t j = 0; j < count; j++) {
            gradient[j] = start[j] - gradient[j];
            length += (double)gradient[j] * (double)gradient[j];
        }
        length = sqrt(length);
        if (length < (routes ? 3e-2 : 3e-3)) continue; /* differences in float32 would not see it */
        for (int64_t j = 0; j < count; j++) gradient[j] = (float)((double)gradient[j] / length);
        move(arena, &rig, i, start, gradient, step);
        double above = loss_of(&rig);
        move(arena, &rig, i, start, gradient, -step);
        double below = loss_of(&rig);
        move(arena, &rig, i, start, gradient, 0);
        TEST_ROW("%s in %s", rig.arrays[i].path, text);
        assert_near((above - below) / (2 * step), length, 3e-2);
        checked++;
    }
    assert_true(checked > 0);
    sim_cache_free(stepped.cache);
    sim_cache_free(rig.cache);
}

static void gradients_are_those_of_differences(struct base_arena *arena)
{
    check_gradients(arena, model(arena, 2, 1, 1, 2, "tokens_choose_masked", 0), "mlp.expert");
    check_gradients(arena, model(arena, 4, 2, 2, 1.5, "tokens_choose_masked", 0.5), "mlp.router");
    check_gradients(arena, model(arena, 4, 1, 2, 1, "experts_choose_masked", 0.5), "mlp.expert");
    check_gradients(arena, model(arena, 5, 2, 2, 1.5, "tokens_choose_masked", 0.5), "mlp.router"); /* behind zeros */
}

/* ---- gates ---- */

/* x86's inf - inf is a NaN with its sign set, as of an expert that was chosen. */
static void a_run_that_diverged_writes_no_gate_elsewhere(struct base_arena *arena)
{
    enum { EXPERTS = 4 };
    const float logits[EXPERTS] = {-NAN, -NAN, -NAN, -NAN}, most = INFINITY, sum = NAN;
    float gates[1 + EXPERTS] = {7};
    const struct model_op op = {.of_chosen = true};
    (void)arena;
    for (int groups = 0; groups <= 2; groups += 2) {
        const struct model_config config = {
            .experts = {.count = EXPERTS, .groups = groups, .selected_groups = groups / 2}};
        const struct sim_plan plan = {.config = &config};
        struct exec_machine machine = {.sizes = {[MODEL_SELECTED_EXPERTS] = 1}, .plan = &plan};
        struct exec_row row = {
            .machine = &machine, .op = &op, .in = {logits, &most, &sum}, .out = {gates + 1}, .n = EXPERTS};
        exec_row_chosen_softmax(&row);
        assert_true(gates[0] == 7);
        for (int e = 1; e <= EXPERTS; e++) assert_true(isnan(gates[e]));
    }
}

static void a_scale_of_gates_is_in_no_balance_loss(struct base_arena *arena)
{
    static const char *const scales[] = {"", ",gates_scale=100"};
    double losses[2];
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        struct sim_plan_text text = plan_of(
            arena, base_print(arena,
                              "decoder_only:vocab_size=40,emb_dim=16,num_heads=2,head_dim=8,mlp_dim=24,num_layers=1,"
                              "num_experts=4,num_selected_experts=2,normalize_gates=1,aux_loss_factor=1%s",
                              scales[i]));
        begin(arena, &text, &rig);
        exec_step(&rig.machine);
        losses[i] = rig.machine.router_loss_sum;
        sim_cache_free(rig.cache);
    }
    assert_true(losses[0] > 0.9);
    assert_near(losses[1] / losses[0], 1, 1e-6);
    check_gradients(arena,
                    "decoder_only:vocab_size=40,emb_dim=16,num_heads=2,head_dim=8,mlp_dim=24,num_layers=1,num_experts="
                    "4,num_selected_experts=2,aux_loss_factor=0.5,gates_scale=3,capacity_factor=4",
                    "mlp.router");
}

/* A kernel may run other softmaxes in pieces of a row. */
static void gates_of_chosen_experts_need_whole_rows(struct base_arena *arena)
{
    struct model_op op = {.kind = MODEL_MAP, .function = MODEL_SOFTMAX};
    (void)arena;
    assert_false(sim_needs_whole_rows(&op));
    op.of_chosen = true;
    assert_true(sim_needs_whole_rows(&op));
}

/* ---- groups ---- */

static void groups_are_those_of_flaxformer(struct base_arena *arena)
{
    static const struct {
        int64_t tokens, group_size, partitions, groups;
    } rows[] = {{1536, 64, 8, 24}, {1536, 64, 32, 32}, {768, 64, 8, 16},   {4096, 4096, 8, 8},    {192, 32, 4, 8},
                {192, 64, 4, 4},   {100, 30, 10, 10},  {96, 1000, 96, 96}, {65536, 1000, 64, 128}};
    (void)arena;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("row %d", i);
        assert_int_equal(model_expert_groups(rows[i].tokens, rows[i].group_size, rows[i].partitions), rows[i].groups);
    }
}

/* Answers of Flaxformer (google/flaxformer@399ea3a8, moe_layers.py): tokens with zeros at the end of each sequence, or
 * with further sequences. */
static void zeros_are_those_of_flaxformer(struct base_arena *arena)
{
    static const struct {
        int64_t rows, length, partitions, padded_rows, padded_length;
    } cases[] = {{3, 1, 16, 16, 1}, {7, 5, 8, 8, 5},  {32, 16, 6, 33, 16}, {7, 24, 128, 16, 24}, {4, 5, 12, 4, 6},
                 {1, 1, 8, 1, 8},   {4, 2, 16, 4, 4}, {1, 8, 12, 1, 12},   {8, 128, 8, 8, 128},  {4, 128, 64, 4, 128}};
    (void)arena;
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("row %d", i);
        int64_t tokens;
        const enum model_padding padding =
            model_expert_padding(cases[i].rows, cases[i].length, cases[i].partitions, &tokens);
        assert_int_equal(tokens, cases[i].padded_rows * cases[i].padded_length);
        assert_int_equal(padding, cases[i].padded_rows > cases[i].rows       ? MODEL_PADS_BATCH
                                  : cases[i].padded_length > cases[i].length ? MODEL_PADS_LENGTH
                                                                             : MODEL_PADS_NOTHING);
    }
}

/* The loss is the same on any mesh that leaves the groups as they are. */
static void padded_steps_are_alike_on_any_mesh(struct base_arena *arena)
{
    static const struct {
        const char *batch, *inputs, *targets, *topology, *submesh, *partitions;
        int experts;
        const char *rules;
    } rows[] = {{"6", "7", "5", "local:2", "1,1", "2", 4, NULL},
                {"6", "7", "5", "local:2", "1,2", "1", 4, NULL},
                {"18", "10", "10", "local:2", "1,1", "2", 8, NULL},
                {"18", "10", "10", "local:4", "1,2", "2", 8, NULL},
                {"18", "10", "10", "local:2", "1,2", "1", 8, "[[\"length\", \"model\"], [\"batch\", \"data\"]]"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct rig one, many;
        struct base_arena own = {.exhausted = arena->exhausted};
        struct sim_plan_text text = plan_of(&own, model(&own, rows[i].experts, 2, 2, 1, "tokens_choose_masked", 0.5));
        TEST_ROW("%s on %s", rows[i].batch, rows[i].topology);
        set_sizes(&text, rows[i].batch, rows[i].inputs, rows[i].targets);
        begin(&own, &text, &one);
        text.values[SIM_TOPOLOGY] = rows[i].topology;
        text.values[SIM_SUBMESH] = rows[i].submesh;
        text.values[SIM_NUM_EXPERT_PARTITIONS] = rows[i].partitions;
        if (rows[i].rules) text.values[SIM_RULES] = rows[i].rules;
        begin(&own, &text, &many);
        assert_true(one.plan.options.expert_padding[MODEL_DECODER_STACK] ==
                    (rows[i].experts == 4 ? MODEL_PADS_LENGTH : MODEL_PADS_BATCH));
        exec_step(&one.machine);
        exec_step(&many.machine);
        assert_near(many.machine.loss_sum, one.machine.loss_sum, 1e-6);
        assert_near(many.machine.router_loss_sum, one.machine.router_loss_sum, 1e-5);
        sim_cache_free(one.cache);
        sim_cache_free(many.cache);
        base_arena_free(&own);
    }
}

static const struct test tests[] = {
    TEST(steps_are_those_of_t5x),
    TEST(one_expert_equals_a_dense_layer),
    TEST(gradients_are_those_of_differences),
    TEST(a_run_that_diverged_writes_no_gate_elsewhere),
    TEST(a_scale_of_gates_is_in_no_balance_loss),
    TEST(gates_of_chosen_experts_need_whole_rows),
    TEST(groups_are_those_of_flaxformer),
    TEST(zeros_change_no_token),
    TEST(zeros_are_those_of_flaxformer),
    TEST(padded_steps_are_alike_on_any_mesh),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
