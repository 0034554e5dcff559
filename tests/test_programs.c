/* Tests of what plans share (sim/program/program_cache.c): a program that was made for one plan and serves another is
 * the one that the other would have got, and few are made. */
#include "tests/meshes.h"
#include "tests/test.h"

#include "sim/partition/sharding_tiles.h"
#include "sim/predict/predict.h"

#define MODEL                                                                                                          \
    "encoder_decoder:emb_dim=256,num_heads=16,head_dim=16,mlp_dim=512,vocab_size=1024,num_encoder_layers=2,num_"       \
    "decoder_layers=3,mlp_activations=gelu+linear"

struct question {
    const char *submesh, *rules, *batch, *microbatches, *remat;
};

static struct sim_plan plan_of(struct sim_cache *cache, struct base_arena *arena, struct question q)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = MODEL,
                                            [SIM_TOPOLOGY] = "v4-128",
                                            [SIM_SUBMESH] = q.submesh,
                                            [SIM_RULES] = q.rules,
                                            [SIM_INPUTS_LENGTH] = "64",
                                            [SIM_TARGETS_LENGTH] = "32",
                                            [SIM_BATCH_SIZE] = q.batch,
                                            [SIM_NUM_MICROBATCHES] = q.microbatches,
                                            [SIM_REMAT_POLICY] = q.remat}};
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    return plan;
}

static const struct sim_program *program_of(struct sim_cache *cache, struct base_arena *arena, struct question q)
{
    const struct sim_program *program;
    struct base_error error;
    struct sim_plan plan = plan_of(cache, arena, q);
    assert_ok(sim_program_find(cache, &plan, plan.options.remat, 0, false, &program, &error), &error);
    return program;
}

static void rules_that_say_the_same_share_a_program(struct base_arena *arena)
{
    static const struct question named = {"2,2,2,1", "standard:1,1", "64", "1", "none"};
    struct sim_cache *cache = sim_cache_new(arena);
    struct question written = named, other = named;
    written.rules = "[[\"batch\", \"data\"], [\"vocab\", \"model\"], [\"mlp\", \"model\"], [\"heads\", \"model\"], "
                    "[\"joined_kv\", \"model\"]]";
    other.rules = "zero3";
    const struct sim_program *program = program_of(cache, arena, named);
    assert_ptr_equal(program_of(cache, arena, named), program);
    assert_ptr_equal(program_of(cache, arena, written), program);
    assert_ptr_not_equal(program_of(cache, arena, other), program);
    sim_cache_free(cache);
}

/* 16 x 4 and 4 x 16: nothing in this program depends on which axis is longer. */
static void meshes_share_a_program(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct question wide = {"2,2,1,1", "standard:1,1", "64", "1", "none"},
                    narrow = {"4,4,1,1", "standard:1,1", "64", "1", "none"};
    assert_ptr_equal(program_of(cache, arena, wide), program_of(cache, arena, narrow));
    sim_cache_free(cache);
}

/* Kernels over data: with a batch so small that they are larger than what they are multiplied with, the activations
 * move. */
static void programs_that_depend_on_sizes_stand_beside_each_other(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct question large = {"2,2,2,1", "standard:2,2", "1024", "1", "none"},
                    small = {"2,2,2,1", "standard:2,2", "16", "1", "none"},
                    larger = {"2,2,2,1", "standard:2,2", "2048", "1", "none"};
    const struct sim_program *program = program_of(cache, arena, large), *other = program_of(cache, arena, small);
    assert_ptr_not_equal(program, other);
    assert_ptr_equal(program_of(cache, arena, larger), program);
    assert_ptr_equal(program_of(cache, arena, small), other);
    sim_cache_free(cache);
}

static bool same_answer(const struct sim_prediction *a, const struct sim_prediction *b)
{
    return a->step_s == b->step_s && a->communication_s == b->communication_s &&
           a->memory.peak_bytes == b->memory.peak_bytes && !strcmp(a->memory.peak_at, b->memory.peak_at);
}

static struct sim_prediction answer(struct sim_cache *cache, struct base_arena *arena, struct question q)
{
    struct sim_prediction prediction;
    struct base_error error;
    struct sim_plan plan = plan_of(cache, arena, q);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

/* Every plan gets from what other plans left behind what it gets by itself. */
static void shared_programs_answer_as_programs_of_their_own(struct base_arena *arena)
{
    static const char *const submeshes[] = {"1,1,1,1", "2,1,1,1", "2,2,2,1", "4,2,1,1", "4,4,1,1"},
                             *const batches[] = {"64", "512"}, *const rules[] = {"standard:1,1", "standard:1,2",
                                                                                 "standard:2,1", "standard:2,2",
                                                                                 "zero3",        "megatron",
                                                                                 "optimus",      "gshard"},
                             *const microbatches[] = {"1", "4"};
    struct sim_cache *warm = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(submeshes) * BASE_COUNT(batches) * BASE_COUNT(rules) * BASE_COUNT(microbatches);
         i++) {
        int at = i;
        struct question q = {.remat = "none"};
        q.batch = batches[at % BASE_COUNT(batches)], at /= BASE_COUNT(batches);
        q.microbatches = microbatches[at % BASE_COUNT(microbatches)], at /= BASE_COUNT(microbatches);
        q.rules = rules[at % BASE_COUNT(rules)], at /= BASE_COUNT(rules);
        q.submesh = submeshes[at];
        TEST_ROW("%s %s %s %s", q.submesh, q.rules, q.batch, q.microbatches);
        struct sim_cache *cold = sim_cache_new(arena);
        struct sim_prediction shared = answer(warm, arena, q), own = answer(cold, arena, q);
        sim_cache_free(cold);
        if (!same_answer(&shared, &own))
            fail_msg("%.17g s, and %.17g s from an empty cache", shared.step_s, own.step_s);
    }
    sim_cache_free(warm);
}

static int note_distinct(const void **list, int count, const void *item)
{
    for (int i = 0; i < count; i++)
        if (list[i] == item) return count;
    list[count] = item;
    return count + 1;
}

/* What a table of plans costs is the programs that it needs: as many as there are kinds of shardings, with what sizes
 * decide, not as many as there are rules, meshes and sizes. */
static void few_programs_serve_many_plans(struct base_arena *arena)
{
    static const char
        *const submeshes[] = {"1,1,1,1", "2,1,1,1", "2,2,1,1", "2,2,2,1", "4,2,1,1", "4,2,2,1"},
               *const rules[] = {"standard:1,1", "standard:2,1", "standard:1,2", "standard:2,2", "zero3", "megatron"},
               *const batches[] = {"256", "512", "1024", "2048", "4096"}, *const microbatches[] = {"1", "2", "4"};
    struct sim_cache *cache = sim_cache_new(arena);
    const void *programs[6 * 6 * 5 * 3];
    int plans = 0, count = 0;
    for (int s = 0; s < BASE_COUNT(submeshes); s++)
        for (int r = 0; r < BASE_COUNT(rules); r++)
            for (int b = 0; b < BASE_COUNT(batches); b++)
                for (int m = 0; m < BASE_COUNT(microbatches); m++) {
                    struct question q = {submeshes[s], rules[r], batches[b], microbatches[m], "none"};
                    count = note_distinct(programs, count, program_of(cache, arena, q));
                    plans++;
                }
    assert_int_equal(plans, 540);
    assert_in_range(count, 12, 60); /* two for each set of rules, and those that sizes and meshes make differ */
    sim_cache_free(cache);
}

/* ---- models that differ in sizes ---- */

#define GPU_MODEL "decoder_only:num_heads=16,vocab_size=32000,mlp_activations=gelu,logits_via_embedding=1,"

static bool is_plan(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                    struct sim_plan *out)
{
    struct base_error error;
    return sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, out, &error) == BASE_OK;
}

static const struct sim_program *program_of_model(struct sim_cache *cache, struct base_arena *arena, const char *model)
{
    const struct sim_program *program;
    struct base_error error;
    struct sim_plan plan;
    const struct sim_plan_text text = {.values = {[SIM_MODEL] = model,
                                                  [SIM_TOPOLOGY] = "h100:2x8",
                                                  [SIM_SOFTWARE] = "nanotron",
                                                  [SIM_OPTIMIZER] = "adamw",
                                                  [SIM_NUM_PARTITIONS] = "4",
                                                  [SIM_OPTIMIZER_PARTITIONING] = "data",
                                                  [SIM_TARGETS_LENGTH] = "64",
                                                  [SIM_BATCH_SIZE] = "64"}};
    assert_true(is_plan(cache, arena, &text, &plan));
    assert_ok(sim_program_find(cache, &plan, plan.options.remat, 0, SIM_PRICES_ALONE, &program, &error), &error);
    return program;
}

static void models_that_differ_in_sizes_share_a_program(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_program
        *program = program_of_model(cache, arena, GPU_MODEL "emb_dim=1024,head_dim=64,mlp_dim=4096,num_layers=8"),
        *wider = program_of_model(cache, arena, GPU_MODEL "emb_dim=2048,head_dim=128,mlp_dim=8192,num_layers=24"),
        *shallow = program_of_model(cache, arena, GPU_MODEL "emb_dim=1024,head_dim=64,mlp_dim=4096,num_layers=1"),
        *grouped = program_of_model(cache, arena,
                                    GPU_MODEL "emb_dim=1024,head_dim=64,mlp_dim=4096,num_layers=8,num_kv_heads=4");
    assert_ptr_equal(wider, program);
    assert_ptr_not_equal(shallow, program);
    assert_ptr_not_equal(grouped, program);
    sim_cache_free(cache);
}

static const char *drawn(struct base_random *random, const char *const *words, int count)
{
    return words[base_random_below(random, count)];
}
#define DRAWN(...) drawn(random, (const char *const[]){__VA_ARGS__}, BASE_COUNT(((const char *const[]){__VA_ARGS__})))

static struct sim_plan_text drawn_plan(struct base_arena *arena, struct base_random *random)
{
    const bool gpu = base_random_below(random, 2);
    const char *heads = DRAWN("4", "16"),
               *stacks = DRAWN("decoder_only:", "encoder_decoder:", "scalable_decoder_only:");
    const char *depth = DRAWN("1", "2", "3", "4", "7"), *kv = DRAWN("1", "2", heads);
    const bool encodes = stacks[0] == 'e';
    return (struct sim_plan_text){
        .values = {
            [SIM_MODEL] = base_print(arena, "%semb_dim=%s,num_heads=%s,%shead_dim=%s,mlp_dim=%s,vocab_size=%s,%s%s%s",
                                     stacks, DRAWN("96", "256", "1000"), heads,
                                     encodes ? "" : base_print(arena, "num_kv_heads=%s,", kv), DRAWN("16", "64"),
                                     DRAWN("96", "512"), DRAWN("96", "32000"), encodes ? "num_encoder_layers=2," : "",
                                     encodes ? "num_decoder_layers=" : "num_layers=", depth),
            [SIM_TOPOLOGY] = gpu ? "a100-80g:2x8" : "v4-32",
            [SIM_SOFTWARE] = gpu ? DRAWN("megatron", "nanotron", "megatron_deepspeed", "fsdp", "torchtitan") : "t5x",
            [SIM_NUM_PARTITIONS] = DRAWN("1", "2", "4"),
            [SIM_PIPELINE_STAGES] = gpu ? DRAWN("1", "2", "4") : "1",
            [SIM_RULES] = DRAWN("standard:1,1", "standard:1,1", "standard:2,2", "megatron", "zero3"),
            [SIM_OPTIMIZER_PARTITIONING] = DRAWN("none", "data", "data+gradients"),
            [SIM_OPTIMIZER] = DRAWN("adamw", "adamw", "sgd", "adafactor"),
            [SIM_REMAT_POLICY] = DRAWN("none", "minimal", "full"),
            [SIM_INPUTS_LENGTH] = encodes ? "64" : "",
            [SIM_TARGETS_LENGTH] = DRAWN("64", "512"),
            [SIM_BATCH_SIZE] = DRAWN("64", "256"),
            [SIM_NUM_MICROBATCHES] = DRAWN("1", "4")}};
}

/* Rules of several orders, which the executor moves by pieces only where axes divide. */
static struct sim_plan_text drawn_local_plan(struct base_arena *arena, struct base_random *random)
{
    static const char model[] = "decoder_only:emb_dim=8,num_heads=%s,head_dim=4,mlp_dim=56,vocab_size=80,num_layers=4",
                      rules[] =
                          "[[\"batch\",[\"data\",\"model\"]],[\"embed\",[\"model\",\"data\"]],[\"mlp\",\"model\"]]";
    return (struct sim_plan_text){.values = {[SIM_MODEL] = base_print(arena, model, DRAWN("6", "8")),
                                             [SIM_TOPOLOGY] = DRAWN("local:4", "local:8"),
                                             [SIM_NUM_PARTITIONS] = "2",
                                             [SIM_RULES] = rules,
                                             [SIM_OPTIMIZER] = "adamw",
                                             [SIM_TARGETS_LENGTH] = DRAWN("5", "6", "8"),
                                             [SIM_BATCH_SIZE] = DRAWN("12", "16", "20", "24"),
                                             [SIM_NUM_MICROBATCHES] = "2"}};
}

/* Whichever models came before: layers that are few enough for a loop to run once, state that divides or not, heads
 * that are shared or not, all of it in an order that is drawn. */
static void models_get_from_others_what_they_get_by_themselves(struct base_arena *arena)
{
    enum { TIMES = 700 };
    struct base_random random;
    struct sim_cache *warm = sim_cache_new(arena);
    int priced = 0;
    base_random_seed(&random, 41);
    for (int i = 0; i < TIMES; i++) {
        const struct sim_plan_text text = i % 5 ? drawn_plan(arena, &random) : drawn_local_plan(arena, &random);
        struct sim_cache *cold = sim_cache_new(arena);
        struct sim_prediction shared, own;
        struct sim_plan plan, alone;
        struct base_error error;
        TEST_ROW("%s %s %s %s", text.values[SIM_MODEL], text.values[SIM_TOPOLOGY], text.values[SIM_RULES],
                 text.values[SIM_NUM_PARTITIONS]);
        const bool is_priced =
            is_plan(warm, arena, &text, &plan) && sim_predict(warm, &plan, &shared, NULL, &error) == BASE_OK;
        assert_int_equal(
            is_plan(cold, arena, &text, &alone) && sim_predict(cold, &alone, &own, NULL, &error) == BASE_OK, is_priced);
        if (is_priced && !same_answer(&shared, &own))
            fail_msg("%.17g s, and %.17g s from an empty cache", shared.step_s, own.step_s);
        sim_cache_free(cold);
        priced += is_priced;
    }
    assert_in_range(priced, TIMES / 3, TIMES);
    sim_cache_free(warm);
}

/* ---- contractions that were placed before ---- */

/* A sharding over at most two dimensions, each mesh axis once: the number's digits say which dimension each axis cuts.
 */
static bool shard(int number, int rank, sim_order *spec)
{
    int data = number % (rank + 1), model = number / (rank + 1);
    memset(spec, 0, MODEL_MAX_RANK * sizeof *spec);
    if (model > rank) return false;
    if (data < rank) spec[data] |= T5X_DATA;
    if (model < rank) spec[model] |= T5X_MODEL;
    return true;
}

static struct sim_contraction contraction_of(const char *const letters[3], sim_order specs[3][MODEL_MAX_RANK])
{
    struct sim_contraction c = {.letters = {letters[0], letters[1], letters[2]}, .result = SIM_PROPAGATED};
    for (int i = 0; i < 3; i++) {
        c.shapes[i].rank = (unsigned char)strlen(letters[i]);
        c.shapes[i].layers = MODEL_ONE;
        c.shapes[i].dtype = MODEL_BFLOAT16;
        for (int d = 0; letters[i][d]; d++) c.shapes[i].dims[d] = (unsigned char)(MODEL_ONE + 1 + letters[i][d] - 'a');
        c.layouts[i] = sim_layout_of(specs[i], c.shapes[i].rank);
    }
    return c;
}

static void assert_placed_alike(const struct sim_contraction *a, const struct sim_contraction *b)
{
    for (int i = 0; i < 2; i++) assert_true(sim_layouts_equal(&a->split[i], &b->split[i], a->shapes[i].rank));
    assert_int_equal(a->steps.count, b->steps.count);
    for (int i = 0; i < a->steps.count; i++) {
        const struct sim_step *x = &a->steps.steps[i], *y = &b->steps.steps[i];
        assert_true(x->operand == y->operand && x->kind == y->kind && x->axes == y->axes);
        assert_true(sim_layouts_equal(&x->after, &y->after, a->shapes[x->operand].rank));
    }
}

/* Whatever was asked before, on whatever mesh and for whatever sizes: a contraction goes where it goes by itself. And
 * what is asked again for other sizes is told to come out alike only if it does. */
static void contractions_from_the_cache_are_placed_as_by_themselves(struct base_arena *arena)
{
    static const char *const equations[][3] = {{"ac", "cb", "ab"}, {"ab", "ac", "bc"}, {"dab", "dcb", "dac"}};
    const struct topo_axes meshes[] = {t5x_mesh(2, 4), t5x_mesh(4, 2), t5x_mesh(4, 4)};
    const int64_t sizes[][MODEL_SIZE_COUNT] = {{[MODEL_ONE] = 1, [MODEL_ONE + 1] = 16, 64, 256, 32},
                                               {[MODEL_ONE] = 1, [MODEL_ONE + 1] = 512, 64, 16, 8}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    struct sim_plan_text text = {.values = {[SIM_MODEL] = MODEL,
                                            [SIM_TOPOLOGY] = "v4-128",
                                            [SIM_INPUTS_LENGTH] = "8",
                                            [SIM_TARGETS_LENGTH] = "8",
                                            [SIM_BATCH_SIZE] = "64"}};
    struct sim_plan plan;
    int compared = 0, changed = 0;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error),
              &error); /* gives the cache a way out */
    for (int i = 0; i < BASE_COUNT(equations) * 16 * 16 * 16; i++) {
        const char *const *letters = equations[i / (16 * 16 * 16)];
        sim_order specs[3][MODEL_MAX_RANK];
        bool whole = true;
        for (int k = 0, number = i % (16 * 16 * 16); k < 3; k++, number /= 16)
            whole = whole && shard(number % 16, (int)strlen(letters[k]), specs[k]);
        struct sim_asked first = {.arena = arena};
        struct sim_contraction before;
        for (int turn = 0; whole && turn < BASE_COUNT(meshes) * BASE_COUNT(sizes); turn++) {
            struct sim_extents extents = {sizes[turn % BASE_COUNT(sizes)], &meshes[turn / BASE_COUNT(sizes)], NULL};
            struct sim_contraction own = contraction_of(letters, specs), found = own;
            struct sim_asked asked = {.arena = arena}, again = {.arena = arena};
            TEST_ROW("%s,%s->%s %d on %dx%d", letters[0], letters[1], letters[2], i, extents.mesh->sizes[0],
                     extents.mesh->sizes[1]);
            sim_contract(&extents, &own);
            sim_contract_again(sim_cache_contractions(cache), &extents, &asked, &found);
            assert_placed_alike(&own, &found);
            if (!turn) first = asked, before = own;
            if (sim_ask_again(sim_cache_contractions(cache), &extents, first.placed, first.count, &again))
                assert_placed_alike(&before, &own);
            else changed++;
            compared++;
        }
    }
    assert_true(compared > 10000);
    assert_true(changed > 0 && changed < compared / 2);
    sim_cache_free(cache);
}

/* ---- shardings that are remembered ---- */

static struct sim_shardings drawn_shardings(struct base_arena *arena, int tensors, int64_t differing,
                                            struct base_random *random)
{
    struct sim_shardings drawn = {.tensor_count = tensors, .spec_count = (3 * SIM_INSTANCES + 2) * tensors};
    drawn.specs = base_new(arena, sim_spec, drawn.spec_count);
    for (int i = 0; i < drawn.spec_count; i++)
        drawn.specs[i] = (sim_spec)base_random_below(random, differing) << base_random_below(random, 40);
    return drawn;
}

static void shardings_come_back_as_they_were_kept(struct base_arena *arena)
{
    enum { TENSORS = 40, TIMES = 100 };
    struct base_random random;
    base_random_seed(&random, 77);
    for (int i = 0; i < TIMES; i++) {
        struct base_arena scratch = {.exhausted = arena->exhausted};
        struct sim_shardings given = drawn_shardings(arena, TENSORS, 1 + i, &random);
        struct sim_stored_shardings kept;
        assert_true(sim_shardings_keep(arena, &scratch, &given, &kept));
        base_arena_free(&scratch);
        struct sim_shardings back = sim_shardings_of(arena, &kept);
        assert_memory_equal(back.specs, given.specs, (size_t)given.spec_count * sizeof *given.specs);
        assert_ptr_equal(back.stacked + TENSORS, back.specs + back.spec_count);
        assert_true(sim_shardings_are(&kept, &given));
        given.specs[base_random_below(&random, given.spec_count)] ^= 1;
        assert_false(sim_shardings_are(&kept, &given));
    }
    struct sim_shardings too_many = {.tensor_count = 10000, .spec_count = 80000};
    struct sim_stored_shardings kept;
    too_many.specs = base_new(arena, sim_spec, too_many.spec_count);
    for (int i = 0; i < too_many.spec_count; i++) too_many.specs[i] = (sim_spec)i;
    assert_false(sim_shardings_keep(arena, arena, &too_many, &kept));
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {
        TEST(rules_that_say_the_same_share_a_program),
        TEST(meshes_share_a_program),
        TEST(programs_that_depend_on_sizes_stand_beside_each_other),
        TEST(shared_programs_answer_as_programs_of_their_own),
        TEST(few_programs_serve_many_plans),
        TEST(models_that_differ_in_sizes_share_a_program),
        TEST(models_get_from_others_what_they_get_by_themselves),
        TEST(contractions_from_the_cache_are_placed_as_by_themselves),
        TEST(shardings_come_back_as_they_were_kept),
    };
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
