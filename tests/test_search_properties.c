/* Properties of the search that hold for every space, on random ones. SEARCH_SAMPLES (250) says on how many: `make
 * search-properties` asks for 20,000. SEARCH_SEED (0) draws others. */
#include "tests/by_software.h"
#include "tests/random_space.h"
#include "tests/test.h"

#include "tuner/rule_space.h"
#include "tuner/tuner.h"

#include <stdlib.h>

static int samples(void)
{
    const char *asked = getenv("SEARCH_SAMPLES");
    int count = asked ? atoi(asked) : 250;
    assert_true(count > 0);
    return count;
}

static uint64_t seed(uint64_t own)
{
    const char *asked = getenv("SEARCH_SEED");
    return own + (asked ? strtoull(asked, NULL, 10) : 0);
}

/* ---- questions about rule sets ---- */

/* A random cell of rule sets: a mesh with a number of microbatches. */
struct question {
    struct base_arena own;
    struct sim_cache *cache;
    struct tuner_space space;
    struct tuner_plan named; /* of the space; its rules give way to what is asked about */
    struct sim_plan plan;
    const struct tuner_relaxed_program *relaxed;
    struct tuner_rule_space rules;
    const struct tuner_coding *coding;
};

static bool begin_question(struct question *q, struct base_arena *arena, struct base_random *random)
{
    struct base_error error;
    memset(q, 0, sizeof *q);
    q->own.exhausted = arena->exhausted;
    q->cache = sim_cache_new(&q->own);
    struct tuner_request request = random_request(&q->own, random);
    if (tuner_space_build(&q->own, q->cache, &request, &q->space, &error) != BASE_OK) return false;
    int group = (int)base_random_below(random, q->space.group_count);
    q->named = (struct tuner_plan){group, 0,
                                   (int)base_random_below(random, tuner_group_microbatch_count(&q->space, group)), 0};
    struct sim_plan_text text = tuner_plan_text(&q->space, q->named);
    assert_ok(check_by_software(q->cache, &q->own, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &q->plan, &error), &error);
    assert_ok(tuner_relaxed_program_build(&q->own, q->cache, &q->plan,
                                          q->plan.num_microbatches > 1 ? TUNER_IN_MICROBATCHES : TUNER_WHOLE_BATCH,
                                          &q->relaxed, &error),
              &error);
    q->rules = tuner_rule_space_of(q->relaxed);
    return true;
}

static void code_question(struct question *q)
{
    struct base_error error;
    assert_ok(tuner_code_rules(&q->own, &q->rules, q->relaxed, &q->plan, &q->coding, &error), &error);
}

static void end_question(struct question *q)
{
    sim_cache_free(q->cache);
    base_arena_free(&q->own);
}

static void draw_digits(const struct tuner_rule_space *rules, struct base_random *random, int *digits)
{
    memset(digits, 0, TUNER_MOST_DIGITS * sizeof *digits);
    for (int d = 0; d < rules->digit_count; d++) digits[d] = (int)base_random_below(random, rules->digits[d].radix);
}

/* The prediction of the plan under such rules; false: JAX refuses them. */
static bool predict_rules(struct question *q, const int *digits, struct sim_prediction *out)
{
    struct base_error error;
    struct sim_plan plan;
    struct sim_plan_text text = tuner_plan_text(&q->space, q->named);
    text.values[SIM_RULES] = tuner_rule_text(&q->own, &q->rules, digits);
    if (check_by_software(q->cache, &q->own, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) != BASE_OK)
        return false;
    assert_ok(sim_predict(q->cache, &plan, out, NULL, &error), &error);
    return true;
}

/* ---- alike rule sets ---- */

/* Rule sets that give the same to what they shard themselves are one plan: one of them is predicted for all. */
static void alike_rule_sets_have_one_prediction(struct base_arena *arena)
{
    enum { TRIES = 60, CELLS = 5 };
    struct base_random random;
    int pairs = 0, wanted = samples() / 5;
    base_random_seed(&random, seed(905));
    while (pairs < wanted) {
        struct question q;
        if (begin_question(&q, arena, &random)) {
            unsigned live = sim_mesh_axes(&(struct sim_extents){.mesh = &q.plan.placement->axes});
            code_question(&q);
            for (int try = 0; try < TRIES && pairs < wanted; try++) {
                int a[TUNER_MOST_DIGITS], b[TUNER_MOST_DIGITS];
                struct tuner_rules_given given[2];
                struct sim_prediction p[2];
                draw_digits(&q.rules, &random, a);
                memcpy(b, a, sizeof b);
                for (int change = 0; change < 2; change++) {
                    int d = (int)base_random_below(&random, q.rules.digit_count);
                    b[d] = (int)base_random_below(&random, q.rules.digits[d].radix);
                }
                tuner_rules_given(q.coding, live, a, &given[0]);
                tuner_rules_given(q.coding, live, b, &given[1]);
                if (!memcmp(a, b, sizeof a) || memcmp(&given[0], &given[1], sizeof given[0]) != 0) continue;
                bool starts = predict_rules(&q, a, &p[0]);
                assert_int_equal(predict_rules(&q, b, &p[1]), starts);
                if (!starts) continue;
                assert_near(p[1].step_s, p[0].step_s, 0);
                assert_int_equal(p[1].memory.peak_bytes, p[0].memory.peak_bytes);
                assert_int_equal(p[1].fits, p[0].fits);
                pairs++;
            }
        }
        end_question(&q);
    }
}

/* ---- bounds of plans ---- */

static void check_bound(void *where, const struct tuner_space *space, struct tuner_plan plan,
                        const struct sim_prediction *prediction)
{
    const struct sim_plan_text text = tuner_plan_text(space, plan);
    struct tuner_bound bound = bound_of_plan(where, space, plan, true);
    bound.step_s = fmax(bound.step_s, propagated_bound_of_plan(where, space, plan, true));
    bool holds = bound.step_s <= prediction->step_s * (1 + 1e-9) &&
                 bound.state_bytes <= (double)prediction->memory.peak_bytes * (1 + 1e-9) + 1;
    if (!holds)
        print_error(
            "submesh %s, rules %s, %s microbatches, remat %s: step %.6g s, bound %.6g s; peak %lld bytes, bound %.0f\n",
            text.values[SIM_SUBMESH], text.values[SIM_RULES], text.values[SIM_NUM_MICROBATCHES],
            text.values[SIM_REMAT_POLICY], prediction->step_s, bound.step_s, (long long)prediction->memory.peak_bytes,
            bound.state_bytes);
    assert_true(holds);
}

/* The one plan of a space, whose bound its prediction may not undercut. Returns both. */
struct alone {
    struct sim_prediction prediction;
    struct tuner_bound bound;
};

static struct alone check_alone(struct base_arena *arena, const struct tuner_request *request)
{
    struct base_error error;
    struct alone alone;
    struct tuner_space space;
    struct sim_cache *cache = sim_cache_new(arena);
    const struct tuner_plan plan = {0, 0, 0, 0};
    assert_ok(tuner_space_build(arena, cache, request, &space, &error), &error);
    assert_ok(tuner_predict(&space, plan, &alone.prediction, NULL, &error), &error);
    check_bound(arena, &space, plan, &alone.prediction);
    alone.bound = bound_of_plan(arena, &space, plan, true);
    sim_cache_free(cache);
    return alone;
}

static void no_bound_is_above_the_simulator(struct base_arena *arena)
{
    struct base_random random;
    int plans = 0, wanted = 3 * samples();
    base_random_seed(&random, seed(902));
    while (plans < wanted) {
        struct base_arena own = {.exhausted = arena->exhausted};
        struct base_error error;
        struct tuner_space space;
        struct sim_cache *cache = sim_cache_new(&own);
        struct tuner_request request = random_request(&own, &random);
        bool any = tuner_space_build(&own, cache, &request, &space, &error) == BASE_OK;
        for (int i = 0; any && i < 20; i++, plans++) {
            struct sim_prediction prediction;
            int group = (int)base_random_below(&random, space.group_count);
            struct tuner_plan plan = {group, (int)base_random_below(&random, tuner_group_submesh_count(&space, group)),
                                      (int)base_random_below(&random, tuner_group_microbatch_count(&space, group)), 0};
            assert_ok(tuner_predict(&space, plan, &prediction, NULL, &error), &error);
            check_bound(&own, &space, plan, &prediction);
        }
        sim_cache_free(cache);
        base_arena_free(&own);
    }
}

static void bounds_of_rules_are_never_undercut(struct base_arena *arena)
{
    enum { SETS = 20 };
    struct base_random random;
    int predicted = 0, wanted = samples();
    base_random_seed(&random, seed(904));
    while (predicted < wanted) {
        struct question q;
        bool any = begin_question(&q, arena, &random);
        for (int j = 0; any && j < SETS; j++) {
            struct sim_prediction prediction;
            int digits[TUNER_MOST_DIGITS];
            draw_digits(&q.rules, &random, digits);
            if (!predict_rules(&q, digits, &prediction)) continue;
            const char **slot = &q.space.values[TUNER_RULES].values[q.space.groups[q.named.group].rules], *name = *slot;
            *slot = tuner_rule_text(&q.own, &q.rules, digits);
            check_bound(&q.own, &q.space, q.named, &prediction);
            *slot = name;
            predicted++;
        }
        end_question(&q);
    }
}

/* Gradients that are summed over both axes are so in one collective, which may take less than one after the other. */
static void sums_over_both_axes_may_be_one(struct base_arena *arena)
{
    static const char *const submeshes[] = {"1,2,1,2", "2,1,1,2", "2,2,1,1"};
    for (int i = 0; i < BASE_COUNT(submeshes) * BASE_COUNT(optimizers) * BASE_COUNT(lengths); i++) {
        const char *length = lengths[i % BASE_COUNT(lengths)];
        struct tuner_request request = request_of(arena, models[3], "v2-8", "16", length, length);
        const char *submesh = submeshes[i / BASE_COUNT(lengths) % BASE_COUNT(submeshes)];
        request.plan.values[SIM_OPTIMIZER] = optimizers[i / BASE_COUNT(lengths) / BASE_COUNT(submeshes)];
        TEST_ROW("%s, length %s, %s", submesh, length, request.plan.values[SIM_OPTIMIZER]);
        request.given[TUNER_SUBMESH] = given(arena, 1, submesh);
        request.given[TUNER_MICROBATCHES] = given(arena, 1, "1");
        request.given[TUNER_RULES] =
            given(arena, 1, "[[\"batch\",[\"data\",\"model\"]],[\"vocab\",\"model\"],[\"mlp\",null],[\"heads\",null]]");
        check_alone(arena, &request);
    }
}

/* An accumulated gradient that is summed in bfloat16 is read as bfloat16, and Adafactor reads it four times. */
static void sums_of_accumulators_may_be_narrow(struct base_arena *arena)
{
    struct tuner_request request = request_of(arena, models[2], "v2-8", "32", "256", "256");
    request.plan.values[SIM_OPTIMIZER] = "adafactor";
    request.given[TUNER_SUBMESH] = given(arena, 1, "1,1,1,2");
    request.given[TUNER_MICROBATCHES] = given(arena, 1, "4");
    request.given[TUNER_RULES] = given(arena, 1, "standard:2,1");
    check_alone(arena, &request);
}

/* Over all of a cube an all-reduce, which uses every link, takes less than a reduce-scatter, which is one ring. */
static void sums_may_be_whole_and_cut(struct base_arena *arena)
{
    struct tuner_request request = request_of(arena, models[1], "v4:4x4x4", "16", "256", "256");
    request.plan.values[SIM_OPTIMIZER] = "sgd";
    request.given[TUNER_SUBMESH] = given(arena, 1, "4,4,4,1");
    request.given[TUNER_MICROBATCHES] = given(arena, 1, "2");
    request.given[TUNER_REMAT] = given(arena, 1, "minimal");
    request.given[TUNER_RULES] = given(arena, 1,
                                       "[[\"batch\",null],[\"length\",null],[\"mlp\",\"model\"],[\"heads\",null],"
                                       "[\"kv\",null],[\"embed\",\"data\"],[\"vocab\",\"model\"]]");
    check_alone(arena, &request);
}

/* Parameters that stand in shards are gathered in every microbatch, and their gradients scattered, since each device
 * adds up its part alone: of a small batch in many pieces that is most of a step. */
static void shards_move_in_every_microbatch(struct base_arena *arena)
{
    struct tuner_request request = request_of(arena, models[1], "v3-32", "64", "1024", "1024");
    request.plan.values[SIM_OPTIMIZER] = "sgd";
    request.given[TUNER_SUBMESH] = given(arena, 1, "1,1,1,2");
    request.given[TUNER_MICROBATCHES] = given(arena, 1, "4");
    request.given[TUNER_RULES] = given(arena, 1, "[[\"batch\",\"data\"],[\"embed\",\"data\"]]");
    const struct alone alone = check_alone(arena, &request);
    assert_true(alone.bound.step_s > 0.75 * alone.prediction.step_s);
}

/* Products in int8 or fp8 take what the chip's rate in that dtype makes of them, in bounds as in predictions. */
static void products_have_the_rate_of_their_dtype(struct base_arena *arena)
{
    static const struct {
        const char *topology, *software, *dtype, *submesh;
    } rows[] = {{"v5e-16", "maxtext", "int8", "1,1,1,1"},
                {"v5p:2x2x2", "maxtext", "int8", "1,1,1,1"},
                {"v6e-16", "maxtext", "int8", "1,1,1,1"},
                {"tpu7x:2x2x1", "maxtext", "fp8", "1,1,1,1"},
                {"h100:1x8", "t5x", "fp8", "1,1"},
                {"h100:1x8", "megatron", "float32", "1,1"},
                {"v5p:2x2x2", "maxtext", "float32", "1,1,1,1"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct tuner_request request = request_of(arena, models[2], rows[i].topology, "512", "1024", "1024");
        TEST_ROW("%s, %s on %s", rows[i].software, rows[i].dtype, rows[i].topology);
        request.plan.values[SIM_OPTIMIZER] = "sgd";
        request.plan.values[SIM_SOFTWARE] = rows[i].software;
        request.plan.values[SIM_DTYPE] = rows[i].dtype;
        request.plan.values[SIM_ATTENTION] = "flash";
        request.given[TUNER_MICROBATCHES] = given(arena, 1, "1");
        request.given[TUNER_REMAT] = given(arena, 1, "full");
        request.given[TUNER_RULES] = given(arena, 1, "standard:1,1");
        request.given[TUNER_SUBMESH] = given(arena, 1, rows[i].submesh);
        const struct alone alone = check_alone(arena, &request);
        assert_true(alone.bound.step_s > 0.5 * alone.prediction.step_s);
    }
}

/* A plan whose links are most of its step: where rules shard a sequence that attention needs whole, what they say of
 * single tensors allows heads to be sharded in its place, and propagation shows that they are not. */
static void propagation_shows_what_links_carry(struct base_arena *arena)
{
    static const char *const rules[] = {
        "[[\"batch\",\"data\"],[\"length\",\"model\"],[\"vocab\",\"data\"],[\"mlp\",\"model\"],[\"joined_kv\","
        "\"model\"],[\"embed\",\"data\"],[\"embed\",\"model\"]]",
        "[[\"batch\",\"model\"],[\"length\",\"data\"],[\"vocab\",\"model\"],[\"heads\",\"data\"],[\"embed\",\"model\"]"
        ",[\"embed\",\"data\"]]"};
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rules); i++) {
        struct tuner_space space;
        struct sim_prediction prediction;
        const struct tuner_plan plan = {0, 0, 0, 0};
        struct tuner_request request = request_of(arena, models[5], "v5e-64", "256", "512", "114");
        request.plan.values[SIM_OPTIMIZER] = "sgd";
        request.given[TUNER_SUBMESH] = given(arena, 1, "1,8,1,1");
        request.given[TUNER_MICROBATCHES] = given(arena, 1, "2");
        request.given[TUNER_RULES] = given(arena, 1, rules[i]);
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_ok(tuner_predict(&space, plan, &prediction, NULL, &error), &error);
        check_bound(arena, &space, plan, &prediction);
        const struct tuner_bound bound = bound_of_plan(arena, &space, plan, true);
        const double propagated_s = propagated_bound_of_plan(arena, &space, plan, true);
        assert_true(propagated_s > 0.45 * prediction.step_s && propagated_s > 1.3 * bound.step_s);
    }
    sim_cache_free(cache);
}

/* ---- bounds of subspaces ---- */

/* What its rule set has of a cell: the sum that the search takes for the bound of its family. */
static double sum_of_parts(const struct tuner_rule_cell *cell, const int *digits)
{
    const struct tuner_coding *coding = cell->coding;
    int context = tuner_rules_number_of(coding->space, coding->context_scope, digits);
    double s = cell->context_s[context];
    for (int j = 0; j < coding->component_count; j++) {
        int at = context * coding->components[j].option_count,
            option = tuner_rules_number_of(coding->space, coding->components[j].scope, digits);
        s += cell->option_s[j][at + coding->alike[j][at + option]];
    }
    return s;
}

/* The bound of any sharding, and of the rule set's parts: none is above what that takes. */
static void no_bound_of_a_subspace_is_above_its_plans(struct base_arena *arena)
{
    enum { SETS = 10 };
    struct base_random random;
    int subspaces = 0, wanted = samples();
    base_random_seed(&random, seed(906));
    while (subspaces < wanted) {
        struct question q;
        bool any = begin_question(&q, arena, &random);
        if (any) code_question(&q);
        for (int j = 0; any && j < SETS; j++) {
            struct sim_prediction p = {.step_s = 0};
            int digits[TUNER_MOST_DIGITS];
            draw_digits(&q.rules, &random, digits);
            TEST_ROW("%s on %s, submesh %s, %lld microbatches, rules %s", q.plan.model_text, q.plan.topology_text,
                     tuner_plan_text(&q.space, q.named).values[SIM_SUBMESH], (long long)q.plan.num_microbatches,
                     tuner_rule_text(&q.own, &q.rules, digits));
            struct tuner_rule_cell *cell = tuner_rule_cell_price(&q.own, q.coding, q.plan.placement, q.plan.batch_size,
                                                                 q.plan.num_microbatches, true, (double)INFINITY);
            bool starts = predict_rules(&q, digits, &p);
            assert_int_equal(isfinite(sum_of_parts(cell, digits)), starts);
            if (!starts) continue;
            assert_true(tuner_rule_space_s(q.coding, q.plan.placement, q.plan.batch_size, q.plan.num_microbatches,
                                           true) <= p.step_s * (1 + 1e-9));
            assert_true(sum_of_parts(cell, digits) <= p.step_s * (1 + 1e-9));
            subspaces++;
        }
        end_question(&q);
    }
}

struct visited {
    double sum_s, sum_bytes, least_s;
    int64_t choices, sets;
};

static void add_visited(void *where, const int *digits, double s, double bytes, int64_t equals)
{
    struct visited *visited = where;
    (void)digits;
    visited->sum_s += s, visited->sum_bytes += bytes, visited->sets += equals, visited->choices++;
    visited->least_s = fmin(visited->least_s, s);
}

static struct visited visit_below(const struct tuner_rule_cell *cell, double limit_s)
{
    struct visited visited = {.least_s = INFINITY};
    tuner_rule_cell_visit(cell, limit_s, INFINITY, add_visited, &visited);
    return visited;
}

static struct tuner_rule_cell *price_below(struct question *q, double limit_s)
{
    return tuner_rule_cell_price(&q->own, q->coding, q->plan.placement, q->plan.batch_size, q->plan.num_microbatches,
                                 true, limit_s);
}

/* A cell that was priced up to a limit holds every choice below it, as one without a limit does. */
static void limits_leave_what_is_below_them(struct base_arena *arena)
{
    static const double limits[] = {1.001, 1.05, 1.3, 2, 10};
    struct base_random random;
    int64_t choices = 0;
    base_random_seed(&random, seed(910));
    for (int cells = 0; cells < samples() / 10; cells++) {
        struct question q;
        if (begin_question(&q, arena, &random)) {
            code_question(&q);
            const struct tuner_rule_cell *whole = price_below(&q, INFINITY);
            const double limit_s =
                visit_below(whole, INFINITY).least_s * limits[base_random_below(&random, BASE_COUNT(limits))];
            const struct visited all = visit_below(whole, limit_s),
                                 left = visit_below(price_below(&q, limit_s), limit_s);
            assert_int_equal(left.choices, all.choices);
            assert_int_equal(left.sets, all.sets);
            assert_near(left.sum_s, all.sum_s, 1e-9);
            assert_near(left.sum_bytes, all.sum_bytes, 1e-9);
            choices += left.choices;
        }
        end_question(&q);
    }
    assert_true(choices > 0);
}

/* ---- searches ---- */

struct brute {
    double best_tokens_per_s, headroom_frac;
    int64_t count;
};

static void note_best(void *where, const struct tuner_space *space, struct tuner_plan plan,
                      const struct sim_prediction *prediction)
{
    struct brute *brute = where;
    (void)space;
    (void)plan;
    brute->count++;
    if (sim_leaves_free(prediction, brute->headroom_frac))
        brute->best_tokens_per_s = fmax(brute->best_tokens_per_s, prediction->tokens_per_s);
}

/* Spaces of all kinds: several batches, remat policies, software of GPUs, with and without a choice among all policies.
 */
static struct tuner_request draw_request(struct base_arena *arena, struct base_random *random)
{
    static const char *const gpus[] = {"megatron", "fsdp", "torchtitan", "alpa", "nanotron"};
    struct tuner_request request = random_request(arena, random);
    bool on_gpus = !strncmp(request.plan.values[SIM_TOPOLOGY], "h100", 4);
    if (on_gpus) request.plan.values[SIM_SOFTWARE] = PICK(random, gpus);
    if (on_gpus && base_random_below(random, 2) == 0)
        request.given[TUNER_PARTITIONING] = given(arena, 2, "none", "data+gradients");
    if (base_random_below(random, 3) == 0) request.given[TUNER_BATCH] = given(arena, 2, "16", "48");
    if (!on_gpus && base_random_below(random, 3) == 0)
        request.given[TUNER_REMAT] = given(arena, 3, "none", "minimal", "full");
    return request;
}

static void searches_equal_brute_force(struct base_arena *arena)
{
    struct base_random random;
    int searched = 0, wanted = samples() / 25;
    int64_t most_plans = samples() > 250 ? 200000 : 4000;
    base_random_seed(&random, seed(907));
    while (searched < wanted) {
        struct base_arena own = {.exhausted = arena->exhausted};
        struct base_error error;
        struct tuner_space space;
        struct tuner_result result;
        struct sim_cache *cache = sim_cache_new(&own);
        struct tuner_request request = draw_request(&own, &random);
        struct tuner_options options = {.top = 1 + (int)base_random_below(&random, 4),
                                        .headroom_frac = 0.05 * (double)base_random_below(&random, 3),
                                        .no_integer_program = base_random_below(&random, 4) == 0};
        struct brute brute = {.headroom_frac = options.headroom_frac};
        if (tuner_space_build(&own, cache, &request, &space, &error) == BASE_OK && space.plan_count <= most_plans) {
            assert_ok(tuner_search(&space, &options, &result, &error), &error);
            predict_all(&space, note_best, &brute);
            assert_int_equal(brute.count, space.plan_count);
            assert_true(result.proven_optimal);
            assert_int_equal(result.bound_violations, 0);
            assert_near(result.plan_count ? result.plans[0].prediction.tokens_per_s : 0, brute.best_tokens_per_s, 1e-9);
            searched++;
        }
        sim_cache_free(cache);
        base_arena_free(&own);
    }
}

/* Where rule sets are searched there are too many plans to predict: none that is drawn is better than what was proven
 * best. */
static void no_rule_set_is_better_than_the_proven_best(struct base_arena *arena)
{
    enum { DRAWN = 100 };
    struct base_random random;
    int searched = 0, wanted = (samples() + 124) / 125;
    base_random_seed(&random, seed(908));
    while (searched < wanted) {
        struct question q;
        if (begin_question(&q, arena, &random)) {
            struct base_error error;
            struct tuner_space space;
            struct tuner_result result;
            struct tuner_request request = {.plan = tuner_plan_text(&q.space, q.named), .search_rules = true};
            const struct tuner_options options = {.top = 1};
            request.given[TUNER_SUBMESH] = given(&q.own, 1, request.plan.values[q.space.mesh_key]);
            request.given[TUNER_BATCH] = given(&q.own, 1, request.plan.values[SIM_BATCH_SIZE]);
            request.given[TUNER_MICROBATCHES] = given(&q.own, 1, request.plan.values[SIM_NUM_MICROBATCHES]);
            request.plan.values[SIM_RULES] = NULL;
            if (tuner_space_build(&q.own, q.cache, &request, &space, &error) == BASE_OK) {
                assert_ok(tuner_search(&space, &options, &result, &error), &error);
                assert_true(result.proven_optimal && result.bound_violations == 0);
                double best = result.plan_count ? result.plans[0].prediction.tokens_per_s : 0;
                for (int i = 0; i < DRAWN; i++) {
                    struct sim_prediction p;
                    int digits[TUNER_MOST_DIGITS];
                    draw_digits(&q.rules, &random, digits);
                    if (predict_rules(&q, digits, &p) && p.fits) assert_true(p.tokens_per_s <= best * (1 + 1e-9));
                }
                searched++;
            }
        }
        end_question(&q);
    }
}

/* A headroom under which some policies fit and others do not. */
static double draw_headroom(struct question *q, struct base_random *random, struct sim_plan_text text)
{
    const unsigned input = 1u << MODEL_SAVED_LAYER_INPUT, names = q->space.saved.names | input;
    const struct model_saved ends[] = {{input, 0, 0}, {names, 0, 0}};
    double bytes[2] = {0, 0}, capacity = 1;
    for (int i = 0; i < 2; i++) {
        struct base_error error;
        struct sim_plan plan;
        struct sim_prediction p;
        text.values[SIM_REMAT_POLICY] = model_saved_text(&q->own, &ends[i]);
        assert_ok(check_by_software(q->cache, &q->own, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error),
                  &error);
        assert_ok(sim_predict(q->cache, &plan, &p, NULL, &error), &error);
        bytes[i] = (double)p.memory.peak_bytes;
        capacity = (double)p.memory.capacity_bytes;
    }
    double limit = bytes[0] + (bytes[1] - bytes[0]) * (double)base_random_below(random, 1000) / 1000;
    return limit < capacity ? 1 - limit / capacity : 0;
}

/* Which tensors to keep under rules that nobody has named: what predicting each policy finds. */
static void policies_by_tensor_equal_brute_force(struct base_arena *arena)
{
    struct base_random random;
    int searched = 0, wanted = (samples() + 24) / 25;
    base_random_seed(&random, seed(909));
    while (searched < wanted) {
        struct question q;
        bool any = begin_question(&q, arena, &random);
        struct sim_prediction p;
        int digits[TUNER_MOST_DIGITS];
        for (int try = 0; any && try < 20; try++) {
            draw_digits(&q.rules, &random, digits);
            if (predict_rules(&q, digits, &p)) break;
            any = try < 19;
        }
        if (any) {
            struct base_error error;
            struct tuner_result result;
            struct tuner_request request = {.plan = tuner_plan_text(&q.space, q.named), .search_saved = true};
            const char *rules = tuner_rule_text(&q.own, &q.rules, digits);
            request.given[TUNER_SUBMESH] = given(&q.own, 1, request.plan.values[q.space.mesh_key]);
            request.given[TUNER_BATCH] = given(&q.own, 1, request.plan.values[SIM_BATCH_SIZE]);
            request.given[TUNER_MICROBATCHES] = given(&q.own, 1, request.plan.values[SIM_NUM_MICROBATCHES]);
            request.given[TUNER_RULES] = given(&q.own, 1, rules);
            request.plan.values[SIM_REMAT_POLICY] = NULL;
            TEST_ROW("%s on %s, mesh %s, batch %s, %s microbatches, rules %s", request.plan.values[SIM_MODEL],
                     request.plan.values[SIM_TOPOLOGY], request.plan.values[q.space.mesh_key],
                     request.plan.values[SIM_BATCH_SIZE], request.plan.values[SIM_NUM_MICROBATCHES], rules);
            assert_ok(tuner_space_build(&q.own, q.cache, &request, &q.space, &error), &error);
            const struct tuner_plan saved = {q.space.group_count - 1, 0, 0, 0};
            assert_true(tuner_variant_is_saved(&q.space, q.space.groups[saved.group].variant));
            const double headroom = draw_headroom(&q, &random, tuner_plan_text(&q.space, saved));
            const struct tuner_options options = {.top = 2, .headroom_frac = headroom};
            assert_ok(tuner_search(&q.space, &options, &result, &error), &error);
            struct ranked_policy best = best_policy(&q.own, &q.space, saved, headroom);
            double found_s = (double)INFINITY;
            const char *found = "none fits";
            for (int i = 0; i < result.plan_count; i++) {
                if (result.plans[i].plan.group != saved.group) continue;
                found_s = result.plans[i].prediction.step_s;
                found = tuner_plan_text(&q.space, result.plans[i].plan).values[SIM_REMAT_POLICY];
            }
            TEST_ROW("%s, and best is %s; %s on %s, mesh %s, batch %s, %s microbatches, headroom %g, %s", found,
                     best.policy ? best.policy : "none fits", request.plan.values[SIM_MODEL],
                     request.plan.values[SIM_TOPOLOGY], request.plan.values[q.space.mesh_key],
                     request.plan.values[SIM_BATCH_SIZE], request.plan.values[SIM_NUM_MICROBATCHES], headroom, rules);
            assert_true(result.proven_optimal);
            assert_int_equal(isfinite(best.step_s), isfinite(found_s));
            if (isfinite(best.step_s)) assert_near(found_s, best.step_s, 1e-9);
            searched++;
        }
        end_question(&q);
    }
}

static const struct test tests[] = {
    TEST(alike_rule_sets_have_one_prediction),  TEST(no_bound_is_above_the_simulator),
    TEST(bounds_of_rules_are_never_undercut),   TEST(sums_over_both_axes_may_be_one),
    TEST(sums_of_accumulators_may_be_narrow),   TEST(sums_may_be_whole_and_cut),
    TEST(shards_move_in_every_microbatch),      TEST(products_have_the_rate_of_their_dtype),
    TEST(propagation_shows_what_links_carry),   TEST(no_bound_of_a_subspace_is_above_its_plans),
    TEST(searches_equal_brute_force),           TEST(no_rule_set_is_better_than_the_proven_best),
    TEST(policies_by_tensor_equal_brute_force), TEST(limits_leave_what_is_below_them),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
