/* Tests of asynchronous collectives: the clock by hand, what must hold of every order, and that it is chosen by nobody
 * who does not ask for it. */
#include "tests/meshes.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "sim/predict/predict.h"

/* ---- the clock ---- */

/* "k2 s3 w0 [4 ]": a kernel of 2 s, a collective of 3 s that is started, the wait for the first start, a loop of four.
 */
static double exposed_s(struct base_arena *arena, const char *script)
{
    enum { MOST = 32 };
    struct sim_schedule_event schedule_events[MOST];
    struct sim_cost_program list = {.schedule_events = schedule_events};
    struct sim_cost_context *p = base_new(arena, struct sim_cost_context, 1);
    double seconds[MOST];
    struct sim_unit_costs *costs = base_new(arena, struct sim_unit_costs, 1);
    static const struct {
        char letter;
        enum sim_schedule_event_kind kind;
    } kinds[] = {{'k', SIM_EVENT_WORK},
                 {'s', SIM_EVENT_START},
                 {'w', SIM_EVENT_WAIT},
                 {'[', SIM_EVENT_LOOP},
                 {']', SIM_EVENT_END}};
    for (const char *at = script; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        int k = 0;
        while (kinds[k].letter != *at) k++;
        schedule_events[list.schedule_event_count++] = (struct sim_schedule_event){kinds[k].kind, atoi(at + 1)};
    }
    for (int i = 0; i < MOST; i++) seconds[i] = i;
    for (int i = 0; i < MODEL_SIZE_COUNT; i++) p->sizes[i] = i;
    memcpy(costs->collectives_s, seconds, sizeof seconds);
    p->list = &list;
    return sim_exposed_s(p, seconds, costs);
}

static void a_wait_lasts_until_the_links_have_done_it(struct base_arena *arena)
{
    static const struct {
        const char *script;
        double exposed_s;
    } rows[] = {
        {"k5", 0},
        {"s3 w0 k2", 3},
        {"s3 k2 w0", 1},
        {"s3 k5 w0", 0},
        {"k1 s3 k1", 2},       /* the step ends when the links are done */
        {"s3 s2 k4 w0 w1", 1}, /* one after the other */
        {"s3 s2 k4 w1 w0", 1},
        {"s3 k1 w0 s2 k1 w1", 3},
        {"[4 s2 k3 w0 ]", 0},
        {"[4 s3 k2 w0 ]", 4},
        {"[1 s3 k2 w0 ]", 1},
        {"s10 [4 k1 ] w0", 6},        /* a loop is work like any other */
        {"s10 [4 s1 k1 w1 ] w0", 10}, /* its first iteration finds the links taken */
        {"[3 s2 [2 k1 ] w0 ]", 0},
        {"[3 s2 [2 s1 k1 w1 ] w0 ]",
         6}, /* 2 + 1 of 3 behind each other, 1 of work beside them: 2 too much, three times */
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].script);
        assert_near(exposed_s(arena, rows[i].script), rows[i].exposed_s, 1e-12);
    }
}

/* ---- orders ---- */

#define SIZES "emb_dim=64,num_heads=4,head_dim=24,mlp_dim=96,vocab_size=512"
#define BOTH "encoder_decoder:" SIZES ",num_encoder_layers=3,num_decoder_layers=2,mlp_activations=gelu+linear"
#define DECODER "decoder_only:" SIZES ",num_layers=3,logits_via_embedding=1"

static const struct setting {
    const char *model, *topology, *rules, *optimizer, *microbatches, *remat, *partitioning, *partitions;
} settings[] = {
    {BOTH, "v4:2x2x1", "standard:1,1", "adamw", "1", "none", "none", "2"},
    {BOTH, "v4:2x2x1", "standard:2,2", "adafactor", "4", "none", "none", "2"},
    {BOTH, "v4:2x2x2", "zero3", "adamw", "1", "none", "none", "1"},
    {BOTH, "a100-80g:1x8", "gshard", "sgd", "2", "none", "none", "4"},
    {"scalable_" BOTH, "v4:2x2x1", "standard:1,1", "adamw", "1", "minimal", "data", "2"},
    {"scalable_" BOTH, "v4:2x2x2", "standard:1,2", "adamw", "4", "full", "data+gradients", "2"},
    {"scalable_" DECODER, "a100-80g:1x8", "megatron", "adafactor", "2", "minimal", "data", "4"},
    {DECODER, "v4:2x2x2", "optimus", "adamw", "1", "minimal", "data", "4"},
    {DECODER, "v4:2x2x2", "standard:2,1", "sgd", "2", "full", "none", "2"},
    {DECODER, "v4:2x2x1", "standard:1,1", "adamw", "1", "none", "data", "1"},
    {DECODER, "v4:2x2x1", "standard:2,2", "adamw", "1", "none", "data", "2"}, /* the first layer by itself */
};

static struct sim_plan plan_of(struct base_arena *arena, struct sim_cache *cache, const struct setting *s,
                               bool overlaps)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = s->model,
                                            [SIM_TOPOLOGY] = s->topology,
                                            [SIM_NUM_PARTITIONS] = s->partitions,
                                            [SIM_RULES] = s->rules,
                                            [SIM_OPTIMIZER] = s->optimizer,
                                            [SIM_OPTIMIZER_PARTITIONING] = s->partitioning,
                                            [SIM_NUM_MICROBATCHES] = s->microbatches,
                                            [SIM_REMAT_POLICY] = s->remat,
                                            [SIM_INPUTS_LENGTH] = "48",
                                            [SIM_TARGETS_LENGTH] = "24",
                                            [SIM_BATCH_SIZE] = "64"}};
    const char *profile = "{\"constants\": {}, \"passes\": {\"overlap_collectives\": true}}";
    const struct base_json *document;
    struct sim_plan plan;
    struct base_error error;
    assert_ok(base_json_parse(arena, profile, strlen(profile), &document, &error), &error);
    sim_cache_override(cache, overlaps ? document : NULL);
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    return plan;
}

static int end_of_block(const struct sim_sharded *s, int op)
{
    return s->ops[op].loop < 0 ? s->op_count : s->ops[s->ops[op].loop].match;
}

static bool reads(const struct sim_op *op, int value)
{
    for (int i = 0; i < op->input_count; i++)
        if (op->inputs[i] == value) return true;
    return false;
}

/* What is read was made; brackets and what they enclose belong together. */
static void check_definitions(const struct sim_sharded *s)
{
    for (int i = 0, loop = -1; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind == SIM_LOOP_END) {
            assert_int_equal(op->match, loop);
            assert_int_equal(s->ops[loop].match, i);
            loop = s->ops[loop].loop;
        }
        assert_int_equal(op->loop, loop);
        for (int j = 0; j < op->input_count; j++) assert_true(s->values[op->inputs[j]].definition < i);
        for (int j = 0; j < op->output_count; j++)
            assert_true(s->values[op->outputs[j]].persistent || op->kind == SIM_LOOP_BEGIN ||
                        s->values[op->outputs[j]].definition == i);
        if (op->kind == SIM_LOOP_BEGIN) loop = i;
    }
}

/* Nobody reads before it is done; no other one of the kind is on its way meanwhile. */
static void check_collective(const struct sim_sharded *s, int at)
{
    const struct sim_op *op = &s->ops[at];
    int end = op->done ? op->done : at + 1;
    assert_in_range(end, at + 1, end_of_block(s, at));
    for (int i = at + 1; i < end; i++) {
        assert_false(reads(&s->ops[i], op->outputs[0]));
        bool ends = s->ops[i].kind == SIM_COMMUNICATE && s->ops[i].collective == op->collective;
        if (ends) fail_msg("%s and %s are on their way together", op->op->name, s->ops[i].op->name);
    }
}

/* The old parameters are read before there are new ones. In another loop it may be another layer's. */
static void check_updates(const struct sim_sharded *s)
{
    int *updated_in = calloc((size_t)s->program->tensor_count, sizeof *updated_in); /* 2 past the loop, 0: not yet */
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        for (int j = 0; j < op->input_count; j++) {
            const struct sim_value *value = &s->values[op->inputs[j]];
            if (value->persistent && updated_in[value->tensor] == op->loop + 2)
                fail_msg("%s reads what was updated", op->op->name);
        }
        for (int j = 0; j < op->output_count; j++) {
            const struct sim_value *value = &s->values[op->outputs[j]];
            bool parameter = value->persistent && s->program->tensors[value->tensor].category == MODEL_PARAMETER;
            if (parameter) updated_in[value->tensor] = op->loop + 2;
        }
    }
    free(updated_in);
}

static void every_order_is_one_of_the_same_program(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(settings); i++) {
        TEST_ROW("%s %s %s", settings[i].model, settings[i].topology, settings[i].rules);
        const struct sim_sharded *s;
        struct base_error error;
        int64_t sizes[MODEL_SIZE_COUNT];
        struct sim_plan plan = plan_of(arena, cache, &settings[i], false);
        assert_ok(sim_sharded_program(cache, &plan, &s, sizes, &error), &error);
        int op_count = s->op_count, kernel_count = s->kernel_count, asynchronous = 0;
        for (int o = 0; o < s->op_count; o++) assert_int_equal(s->ops[o].done, 0);
        plan = plan_of(arena, cache, &settings[i], true);
        assert_ok(sim_sharded_program(cache, &plan, &s, sizes, &error), &error);
        assert_int_equal(s->op_count, op_count);
        assert_int_equal(s->kernel_count, kernel_count);
        check_definitions(s);
        check_updates(s);
        for (int o = 0; o < s->op_count; o++) {
            if (s->ops[o].kind == SIM_COMMUNICATE) check_collective(s, o);
            if (s->ops[o].kind == SIM_COMMUNICATE && o + 1 < s->op_count)
                assert_true(s->ops[o].done > 0); /* an order was found */
            asynchronous += s->ops[o].done > o + 1;
        }
        assert_true(asynchronous > 0);
    }
    sim_cache_free(cache);
}

/* Work is the same, links carry the same; some of it is hidden, and never more than there is. */
static void what_is_hidden_leaves_the_step(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(settings); i++) {
        TEST_ROW("%s %s %s", settings[i].model, settings[i].topology, settings[i].rules);
        struct sim_prediction at_once, beside;
        struct base_error error;
        struct sim_plan plan = plan_of(arena, cache, &settings[i], false);
        assert_ok(sim_predict(cache, &plan, &at_once, NULL, &error), &error);
        plan = plan_of(arena, cache, &settings[i], true);
        assert_ok(sim_predict(cache, &plan, &beside, NULL, &error), &error);
        assert_near(beside.communication_s, at_once.communication_s, 1e-9);
        assert_near(at_once.exposed_communication_s, at_once.communication_s, 0);
        assert_near(beside.compute_s + beside.memory_bound_s + beside.overhead_s,
                    at_once.step_s - at_once.communication_s, 1e-9);
        assert_true(beside.exposed_communication_s >= 0 && beside.exposed_communication_s < at_once.communication_s);
        assert_near(beside.step_s, at_once.step_s - at_once.communication_s + beside.exposed_communication_s, 1e-9);
    }
    sim_cache_free(cache);
}

/* The gradient that goes back is summed over the model axis while the gradient of the weights is computed. */
static void sums_go_on_beside_weight_gradients(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    int64_t sizes[MODEL_SIZE_COUNT];
    const struct sim_sharded *s;
    int beside = 0;
    struct sim_plan plan = plan_of(arena, cache, &settings[0], true);
    assert_ok(sim_sharded_program(cache, &plan, &s, sizes, &error), &error);
    for (int i = 0; i < s->op_count; i++) {
        bool sum =
            s->ops[i].kind == SIM_COMMUNICATE && s->ops[i].axes == T5X_MODEL && s->ops[i].op->phase == MODEL_BACKWARD;
        for (int j = i + 1; sum && j < s->ops[i].done; j++)
            beside += s->ops[j].kind == SIM_COMPUTE && s->ops[j].op->kind == MODEL_EINSUM &&
                      strstr(s->ops[j].op->name, "weight gradient");
    }
    assert_true(beside >= 4);
    sim_cache_free(cache);
}

/* ---- who has it ---- */

/* T5X's runs of early 2023 waited for every collective. */
static void t5x_has_it_not(struct base_arena *arena)
{
    struct sim_software t5x, maxtext;
    struct base_error error;
    (void)arena;
    assert_ok(sim_software_find("tpu", "v4", "t5x", NULL, &t5x, &error), &error);
    assert_ok(sim_software_find("tpu", "v4", "maxtext", "2023-03", &maxtext, &error), &error);
    assert_int_equal(sim_asynchronous_kinds(t5x.passes), 0);
    assert_int_equal(sim_asynchronous_kinds(maxtext.passes), 1u << SIM_ALL_GATHER);
}

static void passes_are_chosen_by_name(struct base_arena *arena)
{
    static const struct {
        const char *document, *part;
    } rows[] = {
        {"{\"constants\": {}, \"passes\": [\"overlap_collectives\"]}", "passes: an object"},
        {"{\"constants\": {}, \"passes\": {\"overlap_collective\": true}}", "did you mean overlap_collectives"},
        {"{\"constants\": {}, \"passes\": {\"overlap_collectives\": 1}}", "passes.overlap_collectives: true or false"},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error = {0};
    const struct base_json *document;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].document);
        struct sim_plan_text text = {
            .values = {
                [SIM_MODEL] = DECODER, [SIM_TOPOLOGY] = "v4-8", [SIM_BATCH_SIZE] = "8", [SIM_TARGETS_LENGTH] = "8"}};
        struct sim_plan plan;
        assert_ok(base_json_parse(arena, rows[i].document, strlen(rows[i].document), &document, &error), &error);
        sim_cache_override(cache, document);
        assert_fails(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                     &error, rows[i].part);
    }
    struct sim_plan plan = plan_of(arena, cache, &settings[0], true),
                    other = plan_of(arena, cache, &settings[0], false);
    assert_int_equal(plan.placement->profile.passes ^ other.placement->profile.passes,
                     SIM_PASS_BIT(SIM_PASS_OVERLAP_COLLECTIVES));
    sim_cache_free(cache);
}

static const struct test tests[] = {
    TEST(a_wait_lasts_until_the_links_have_done_it),
    TEST(every_order_is_one_of_the_same_program),
    TEST(what_is_hidden_leaves_the_step),
    TEST(sums_go_on_beside_weight_gradients),
    TEST(t5x_has_it_not),
    TEST(passes_are_chosen_by_name),
};

int main(int argc, char **argv)
{
    return test_main(tests, BASE_COUNT(tests), argc, argv);
}
