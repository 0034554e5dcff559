/* Tests of the search over plans with stages: no prediction undercuts its bound, and with bounds it finds what all
 * predictions find. */
#include "tests/test.h"
#include "tuner/stage_layers.h"
#include "tuner/stages.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DECODER                                                                                                        \
    "decoder_only:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=4096,num_layers=12,vocab_size=51200,mlp_activations="  \
    "gelu,logits_via_embedding=1"
#define BOTH                                                                                                           \
    "encoder_decoder:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=4096,num_encoder_layers=12,num_decoder_layers=12,"  \
    "vocab_size=51200,mlp_activations=gelu,logits_via_embedding=1"
#define EXPERTS                                                                                                        \
    "decoder_only:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=4096,num_layers=8,vocab_size=51200,mlp_activations="   \
    "gelu,logits_via_embedding=1,num_experts=4,num_selected_experts=2,expert_mlp_dim=1024,moe_every=2"

static const struct space {
    const char *software, *model, *topology, *batch, *dtype, *partition;
} spaces[] = {
    {"megatron", DECODER, "a100-80g:4x8", "96", "float16", NULL},
    {"megatron", DECODER, "h100:4x8", "96", "fp8", "layers+embeddings"},
    {"megatron", EXPERTS, "h100:2x8", "64", "bfloat16", NULL},
    {"megatron_deepspeed", DECODER, "a100-80g:2x8", "64", "float16", NULL},
    {"nanotron", DECODER, "h100:2x8", "64", "bfloat16", "compute_cost"},
    {"nemo", BOTH, "a100-80g:2x8", "64", "bfloat16", NULL},
    {"torchtitan", DECODER, "h100:2x8", "64", "bfloat16", "torchtitan"},
};

/* What is asked of a search, and its answer. */
struct asked {
    struct tuner_request request;
    struct tuner_options options;
};
struct answer {
    struct tuner_space space;
    struct tuner_result result;
};

static void ask(struct base_arena *arena, struct sim_cache *cache, const struct asked *asked, struct answer *out)
{
    struct base_error error = {.status = BASE_OK};
    assert_ok(tuner_stages_build(arena, cache, &asked->request, &asked->options, &out->space, &error), &error);
    assert_ok(tuner_search(&out->space, &asked->options, &out->result, &error), &error);
}

static enum base_status list(struct base_arena *arena, struct sim_cache *cache, const struct tuner_request *request,
                             struct tuner_space *out, struct base_error *error)
{
    return tuner_stages_build(arena, cache, request, NULL, out, error);
}

static int64_t decided(const struct tuner_counts *c)
{
    return c->evaluated + c->by_program + c->by_time + c->by_memory;
}

static double free_frac(const struct tuner_found *found)
{
    return (double)found->prediction.free_bytes / (double)found->prediction.memory.capacity_bytes;
}

static struct asked asked_of(struct base_arena *arena, const struct space *s)
{
    struct asked asked = {.options = {.headroom_frac = 0.02, .top = 4}};
    struct tuner_request request = {.micro_batch = 0};
    request.plan.values[SIM_MODEL] = s->model;
    request.plan.values[SIM_TOPOLOGY] = s->topology;
    request.plan.values[SIM_SOFTWARE] = s->software;
    request.plan.values[SIM_INPUTS_LENGTH] = request.plan.values[SIM_TARGETS_LENGTH] = "2048";
    request.plan.values[SIM_PIPELINE_PARTITION] = s->partition;
    const char *const given[] = {s->batch, "adamw", s->dtype};
    for (int i = 0; i < BASE_COUNT(given); i++) {
        const enum tuner_dimension d = tuner_staged_dimension(i);
        request.given[d] = (struct tuner_values){base_new(arena, const char *, 1), 1};
        request.given[d].values[0] = given[i];
    }
    asked.request = request;
    return asked;
}

static void no_prediction_undercuts_its_bound(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(spaces); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct asked asked = asked_of(arena, &spaces[i]);
        struct tuner_space space;
        struct base_error error = {.status = BASE_OK};
        int staged = 0, tight = 0;
        TEST_ROW("%s on %s", spaces[i].software, spaces[i].topology);
        asked.request.searches_context = i == 0; /* rings, whose blocks hide what goes round */
        assert_ok(list(arena, cache, &asked.request, &space, &error), &error);
        for (int k = 0; k < space.plan_count; k++) {
            const struct sim_plan_text text = tuner_plan_text(&space, (struct tuner_plan){k, 0, 0, 0});
            struct sim_plan plan;
            struct sim_prediction p;
            struct sim_pipeline_least least;
            double relaxed_s;
            assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
            if (plan.pipeline.stages == 1) continue;
            assert_ok(sim_pipeline_relaxed_of(cache, &plan, false, &relaxed_s, &error), &error);
            assert_ok(sim_pipeline_least_of(cache, &plan, &least, &error), &error);
            if (relaxed_s > least.step_s) fail_msg("plan %d: %.17g s where %.17g is less", k, relaxed_s, least.step_s);
            assert_ok(sim_predict(cache, &plan, &p, NULL, &error), &error);
            if (p.step_s < least.step_s || (double)p.free_bytes > least.free_bytes)
                fail_msg("plan %d: %.17g s where %.17g s was the least", k, p.step_s, least.step_s);
            staged++;
            tight += least.step_s > 0.9 * p.step_s;
        }
        assert_true(staged > 20);
        assert_true(2 * tight > staged); /* a bound that says something */
        sim_cache_free(cache);
    }
}

static void bounds_find_what_all_predictions_find(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(spaces); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct asked asked = asked_of(arena, &spaces[i]);
        struct answer with, without;
        TEST_ROW("%s on %s", spaces[i].software, spaces[i].topology);
        ask(arena, cache, &asked, &with);
        asked.options.no_bounds = true;
        ask(arena, cache, &asked, &without);
        assert_int_equal(with.space.plan_count, without.space.plan_count);
        assert_int_equal(without.result.counts.evaluated, without.space.plan_count);
        assert_int_equal(decided(&with.result.counts), with.space.plan_count);
        assert_true(with.result.counts.evaluated < with.space.plan_count / 2);
        assert_int_equal(with.result.plan_count, without.result.plan_count);
        assert_int_equal(with.result.bound_violations, 0);
        for (int k = 0; k < with.result.plan_count; k++) {
            assert_int_equal(with.result.plans[k].plan.group, without.result.plans[k].plan.group);
            assert_near(with.result.plans[k].prediction.step_s, without.result.plans[k].prediction.step_s, 0);
        }
        sim_cache_free(cache);
    }
}

/* All predictions of a search. */
struct predicted {
    struct tuner_looked *plans;
    int count;
};

static void note(void *where, const struct tuner_looked *plan)
{
    struct predicted *all = where;
    if (plan) all->plans[all->count++] = *plan;
}

/* Plans that fit and that no other one beats in both time and memory. */
static int count_undominated(const struct predicted *all, double most_bytes)
{
    int count = 0;
    for (int i = 0; i < all->count; i++) {
        const struct tuner_looked *a = &all->plans[i];
        bool beaten = a->peak_bytes > most_bytes;
        for (int k = 0; k < all->count && !beaten; k++) {
            const struct tuner_looked *b = &all->plans[k];
            const bool better = b->step_s < a->step_s || b->peak_bytes < a->peak_bytes || b->plan.group < a->plan.group;
            beaten = b->step_s <= a->step_s && b->peak_bytes <= a->peak_bytes && better && k != i;
        }
        count += !beaten;
    }
    return count;
}

static void a_front_is_that_of_all_predictions(struct base_arena *arena)
{
    for (int i = 0; i < 3; i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct asked asked = asked_of(arena, &spaces[i]);
        struct answer with, all;
        TEST_ROW("%s on %s", spaces[i].software, spaces[i].topology);
        asked.options.pareto = true;
        ask(arena, cache, &asked, &with);
        asked.options.no_bounds = true;
        struct predicted predicted = {base_new(arena, struct tuner_looked, with.space.plan_count), 0};
        asked.options.looked = note, asked.options.looked_where = &predicted;
        ask(arena, cache, &asked, &all);
        assert_int_equal(all.result.counts.evaluated, all.space.plan_count);
        assert_int_equal(predicted.count, all.space.plan_count);
        assert_true(with.result.counts.evaluated < with.space.plan_count);
        assert_int_equal(with.result.front_count,
                         count_undominated(&predicted, 0.98 * all.space.stages->capacity_bytes));
        assert_int_equal(with.result.front_count, all.result.front_count);
        assert_near(with.result.front[0].prediction.step_s, with.result.plans[0].prediction.step_s, 0);
        for (int k = 0; k < with.result.front_count; k++) {
            assert_near(with.result.front[k].prediction.step_s, all.result.front[k].prediction.step_s, 0);
            assert_near((double)with.result.front[k].prediction.free_bytes,
                        (double)all.result.front[k].prediction.free_bytes, 0);
        }
        sim_cache_free(cache);
    }
}

/* With just more headroom than the fastest plan leaves, that plan is tight, and so are all that are faster than the
 * best that is left. */
static void tight_plans_are_those_of_all_predictions(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(spaces); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct asked asked = asked_of(arena, &spaces[i]);
        struct answer fastest, with, all;
        TEST_ROW("%s on %s", spaces[i].software, spaces[i].topology);
        asked.options.headroom_frac = 0;
        ask(arena, cache, &asked, &fastest);
        assert_int_equal(fastest.result.tight_count, 0);
        asked.options.headroom_frac = free_frac(&fastest.result.plans[0]) + 1e-6;
        ask(arena, cache, &asked, &with);
        assert_true(with.result.counts.evaluated < with.space.plan_count / 2);
        asked.options.no_bounds = true;
        ask(arena, cache, &asked, &all);
        assert_true(with.result.plan_count > 0 && with.result.tight_count > 0);
        assert_near(with.result.tight[0].prediction.step_s, fastest.result.plans[0].prediction.step_s, 0);
        assert_int_equal(with.result.tight_count, all.result.tight_count);
        for (int k = 0; k < with.result.tight_count; k++) {
            assert_int_equal(with.result.tight[k].plan.group, all.result.tight[k].plan.group);
            const double left_frac = free_frac(&with.result.tight[k]);
            assert_true(left_frac >= 0 && left_frac < asked.options.headroom_frac);
            assert_true(with.result.tight[k].prediction.step_s < with.result.plans[0].prediction.step_s);
        }
        sim_cache_free(cache);
    }
}

struct patience {
    int asked, most; /* times that somebody was asked whether to stop; until then: not */
};

static bool is_over(void *where)
{
    struct patience *patience = where;
    return patience->asked++ >= patience->most;
}

/* Of plans with stages alone, all of which have bounds. */
static void ask_for_stages(struct tuner_request *request)
{
    static const char *stages[] = {"2", "4", "8"};
    request->given[TUNER_STAGES] = (struct tuner_values){stages, 3};
}

static void note_progress(void *where, const struct base_progress *said)
{
    struct base_progress *last = where;
    assert_string_equal(said->what, "plans decided");
    assert_true(said->done >= last->done && said->done <= said->total);
    assert_true(said->best_tokens_per_s >= last->best_tokens_per_s && said->gap_frac >= 0 && said->gap_frac <= 1);
    *last = *said;
}

/* Whoever waits is told of every plan, whatever decides it. */
static void searches_say_how_far_they_are(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct asked asked = asked_of(arena, &spaces[0]);
    struct answer found;
    struct base_progress last = {.done = -1};
    ask_for_stages(&asked.request);
    asked.options.progress = note_progress, asked.options.progress_where = &last;
    ask(arena, cache, &asked, &found);
    assert_true(last.done == found.space.plan_count && found.result.counts.by_time > 0);
    assert_true(last.best_tokens_per_s > 0 && last.gap_frac < 0.5);
    sim_cache_free(cache);
}

/* Whenever a search is ended, what it says of the best plan that it has not found is so. */
static void ended_searches_know_what_they_left(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct asked asked = asked_of(arena, &spaces[0]);
    struct answer whole, ended;
    int known = 0, nothing = 0;
    struct patience patience = {0, INT_MAX};
    ask_for_stages(&asked.request);
    asked.options.stop = is_over, asked.options.where = &patience;
    ask(arena, cache, &asked, &whole);
    assert_int_equal(whole.result.counts.open, 0);
    assert_near(whole.result.gap_frac, 0, 0);
    for (int whole_asked = patience.asked, less = 1; less <= whole_asked; less += 1 + less / 2) {
        patience = (struct patience){0, whole_asked - less};
        ask(arena, cache, &asked, &ended);
        assert_true(ended.space.plan_count >= whole.space.plan_count);
        assert_int_equal(decided(&ended.result.counts) + ended.result.counts.open, ended.space.plan_count);
        nothing += !ended.result.plan_count;
        if (!ended.result.plan_count) assert_near(ended.result.gap_frac, 1, 0);
        else
            assert_true(ended.result.plans[0].prediction.step_s * (1 - ended.result.gap_frac) <=
                        whole.result.plans[0].prediction.step_s);
        known += ended.result.counts.open > 0 && ended.result.gap_frac < 1;
    }
    assert_true(nothing > 0);
    assert_true(known > 0);
    sim_cache_free(cache);
}

/* Plans that leave too little free are not ranked: that none of them was looked at leaves nothing open. */
static void an_ended_search_is_open_for_plans_that_may_be_ranked(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct asked asked = asked_of(arena, &spaces[0]);
    struct answer fastest, ended;
    struct patience patience = {0, INT_MAX};
    int large = 0;
    ask_for_stages(&asked.request);
    asked.options.headroom_frac = 0;
    ask(arena, cache, &asked, &fastest);
    asked.options.headroom_frac = free_frac(&fastest.result.plans[0]) + 1e-6;
    asked.options.stop = is_over, asked.options.where = &patience;
    ask(arena, cache, &asked, &ended);
    const int tight = ended.result.tight_count;
    patience =
        (struct patience){0, ((int)ended.space.plan_count + patience.asked) / 2}; /* half of what listing leaves */
    ask(arena, cache, &asked, &ended);
    for (int i = 0; i < ended.space.plan_count; i++) {
        const struct tuner_stages *stages = ended.space.stages;
        const bool is_large = stages->plans[i].free_bytes < asked.options.headroom_frac * stages->capacity_bytes;
        large += is_large && stages->plans[i].end == TUNER_STAGED_BY_MEMORY;
        assert_false(is_large && stages->plans[i].end == TUNER_STAGED_OPEN);
    }
    assert_true(tight > 0 && large > 0 && ended.result.counts.open > 0);
    sim_cache_free(cache);
}

static void a_gap_is_kept(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct asked asked = asked_of(arena, &spaces[0]);
    struct answer whole, within;
    ask_for_stages(&asked.request);
    ask(arena, cache, &asked, &whole);
    asked.options.gap_frac = 0.3;
    ask(arena, cache, &asked, &within);
    assert_near(within.result.proven_within_frac, 0.3, 1e-12);
    assert_near(within.result.gap_frac, 0.3, 1e-12);
    assert_true(within.result.counts.evaluated < whole.result.counts.evaluated);
    assert_true(within.result.plans[0].prediction.step_s * (1 - 0.3) <= whole.result.plans[0].prediction.step_s);
    sim_cache_free(cache);
}

/* What the rows of pipelines.csv and software_choices.csv say: nothing that the software cannot be told. */
static void software_is_told_what_it_can_be_told(struct base_arena *arena)
{
    static const struct {
        int space;
        bool interleaves;
        const char *rules;
    } told[] = {{0, true, "standard:1,1"}, {3, false, "standard:1,1"}, {4, false, "standard:1,1"}, {6, true, "zero3"}};
    static const char *two[] = {"2"};
    for (int i = 0; i < BASE_COUNT(told); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct asked asked = asked_of(arena, &spaces[told[i].space]);
        struct tuner_space space;
        struct base_error error = {.status = BASE_OK};
        TEST_ROW("%s", spaces[told[i].space].software);
        assert_ok(list(arena, cache, &asked.request, &space, &error), &error);
        assert_int_equal(space.stages->values[TUNER_RULES].count, 1);
        assert_string_equal(space.stages->values[TUNER_RULES].values[0], told[i].rules);
        assert_int_equal(space.stages->values[TUNER_CHUNKS].count > 1, told[i].interleaves);
        asked.request.given[TUNER_CHUNKS] = (struct tuner_values){two, 1};
        if (told[i].interleaves) assert_ok(list(arena, cache, &asked.request, &space, &error), &error);
        else
            assert_fails(list(arena, cache, &asked.request, &space, &error), BASE_INPUT, &error,
                         "does not interleave chunks");
        sim_cache_free(cache);
    }
}

/* Schedules, divisions of layers and ways of exchanging keys and values are searched together: the best of a list is
 * the best of what it lists, and a plan that says what another one says is counted once. */
static void words_may_be_lists(struct base_arena *arena)
{
    static const struct {
        int space;
        enum tuner_dimension dimension;
        const char *words[3];
    } lists[] = {{0, TUNER_SCHEDULE, {"interleaved", "1f1b"}},
                 {6, TUNER_SCHEDULE, {"1f1b", "interleaved", "gpipe"}},
                 {0, TUNER_DIVISION, {"layers", "layers+embeddings"}},
                 {0, TUNER_EXCHANGE, {"all_gather", "p2p"}}};
    for (int i = 0; i < BASE_COUNT(lists); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct asked asked = asked_of(arena, &spaces[lists[i].space]);
        struct answer together, alone;
        const char *words[BASE_COUNT(lists[i].words)];
        int count = 0;
        int64_t largest = 0, sum = 0;
        double best_s = INFINITY;
        TEST_ROW("%s: %s", spaces[lists[i].space].software, sim_plan_keys[tuner_key(lists[i].dimension)].name);
        asked.request.searches_context = lists[i].dimension == TUNER_EXCHANGE;
        for (; count < BASE_COUNT(words) && lists[i].words[count]; count++) {
            words[count] = lists[i].words[count];
            asked.request.given[lists[i].dimension] = (struct tuner_values){&words[count], 1};
            ask(arena, cache, &asked, &alone);
            best_s = fmin(best_s, alone.result.plans[0].prediction.step_s);
            largest = alone.space.plan_count > largest ? alone.space.plan_count : largest;
            sum += alone.space.plan_count;
        }
        asked.request.given[lists[i].dimension] = (struct tuner_values){words, count};
        ask(arena, cache, &asked, &together);
        assert_near(together.result.plans[0].prediction.step_s, best_s, 0);
        assert_true(together.space.plan_count >= largest && together.space.plan_count < sum);
        assert_int_equal(together.space.refused_count, 0);
        sim_cache_free(cache);
    }
}

static void values_that_cannot_be_are_refused(struct base_arena *arena)
{
    static const struct {
        enum tuner_dimension dimension;
        const char *values[2], *why;
    } wrong[] = {{TUNER_STAGES, {"4", "0"}, "pipeline_stages: 0 is out of range"},
                 {TUNER_STAGES, {"4", "auto"}, "pipeline_stages: auto cannot be combined"},
                 {TUNER_STAGES, {"4", "513"}, "pipeline_stages: 513 is out of range"},
                 {TUNER_CHUNKS, {"2", "65"}, "virtual_stages: 65 is out of range"},
                 {TUNER_MICROBATCHES, {"8", "-1"}, "num_microbatches: -1 is out of range"},
                 {TUNER_SCHEDULE, {"1f1b", "2f2b"}, "pipeline_schedule: \"2f2b\" is unknown; use some of 1f1b"},
                 {TUNER_SCHEDULE, {"1f1b", "gpipe"}, "pipeline_schedule: megatron does not support gpipe"},
                 {TUNER_EXCHANGE, {"p2p", ""}, "cp_comm_type: \"\" is unknown"}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(wrong); i++) {
        struct asked asked = asked_of(arena, &spaces[0]);
        struct tuner_space space;
        struct base_error error = {.status = BASE_OK};
        const char *values[] = {wrong[i].values[0], wrong[i].values[1]};
        asked.request.given[wrong[i].dimension] = (struct tuner_values){values, 2};
        assert_fails(list(arena, cache, &asked.request, &space, &error), BASE_INPUT, &error, wrong[i].why);
    }
    sim_cache_free(cache);
}

/* Batch 96 over 2 or 4 stages of 32 devices: 16 or 8 replicas, which take 6 or 12 sequences in 1, 2, 3 or 6 of them, or
 * in 1, 2, 3, 4, 6 or 12. */
static void values_that_are_given_are_the_space(struct base_arena *arena)
{
    static const char *values[][2] = {{"full"}, {"none"}, {"0"}, {NULL}, {"1"}, {NULL}, {"1"}, {"2", "4"}, {"1"}};
    static const char *three[] = {"3"};
    struct sim_cache *cache = sim_cache_new(arena);
    struct asked asked = asked_of(arena, &spaces[0]);
    struct tuner_space space;
    struct base_error error = {.status = BASE_OK};
    for (int i = 0; i < BASE_COUNT(values); i++) {
        const enum tuner_dimension d = tuner_staged_dimension(8 + i); /* from remat on */
        if (values[i][0]) asked.request.given[d] = (struct tuner_values){values[i], d == TUNER_STAGES ? 2 : 1};
    }
    assert_ok(list(arena, cache, &asked.request, &space, &error), &error);
    assert_int_equal(space.plan_count, 4 + 6);
    asked.request.given[TUNER_STAGES] = (struct tuner_values){three, 1};
    assert_fails(list(arena, cache, &asked.request, &space, &error), BASE_INPUT, &error, "no plan of the space");
    sim_cache_free(cache);
}

/* ---- layers of stages ---- */

/* A head as large as several layers, and devices that are nearly full. */
#define HEADED                                                                                                         \
    "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=%s,vocab_size=%s,mlp_activations="    \
    "gelu,logits_via_embedding=0"

static const struct assigned {
    const char *software, *topology, *layers, *vocabulary, *stages, *microbatches, *batch, *schedule, *remat, *length;
} assigned[] = {
    {"megatron", "a100-80g:1x4", "11", "256000", "4", "12", "12", "1f1b", "none", "2048"},
    {"megatron", "a100-80g:2x4", "9", "51200", "4", "3", "12", "1f1b", "full", "2048"},
    {"megatron", "a100-40g:1x3", "13", "51200", "3", "9", "18", "1f1b", "none", "2048"},
    {"torchtitan", "h100:1x4", "10", "128256", "4", "4", "16", "1f1b", "selective", "4096"},
    {"torchtitan", "h100:1x2", "12", "256000", "2", "8", "8", "gpipe", "full", "2048"},
    {"alpa", "v100-16g:1x4", "10", "51200", "4", "16", "16", "1f1b", "full", "1024"},
};

static struct sim_plan assigned_plan(struct base_arena *arena, struct sim_cache *cache, const struct assigned *a)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = base_print(arena, HEADED, a->layers, a->vocabulary),
                                            [SIM_TOPOLOGY] = a->topology,
                                            [SIM_SOFTWARE] = a->software,
                                            [SIM_OPTIMIZER] = "adamw",
                                            [SIM_BATCH_SIZE] = a->batch,
                                            [SIM_NUM_MICROBATCHES] = a->microbatches,
                                            [SIM_PIPELINE_STAGES] = a->stages,
                                            [SIM_PIPELINE_SCHEDULE] = a->schedule,
                                            [SIM_REMAT_POLICY] = a->remat,
                                            [SIM_DTYPE] = "bfloat16",
                                            [SIM_TARGETS_LENGTH] = a->length}};
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    return plan;
}

/* Every way to share so many layers out: the next one in order; false: there is none. */
static bool next_layers(int64_t *layers, int stages)
{
    int at = stages - 2;
    int64_t rest = layers[stages - 1] - 1;
    while (at >= 0 && rest == 0) rest += layers[at] - 1, layers[at--] = 1;
    if (at < 0) return false;
    layers[at]++;
    layers[stages - 1] = rest;
    return true;
}

struct tried {
    double least_s, best_s;   /* of all, and of those that leave enough free */
    double middle_free_bytes; /* between the most and the least that an assignment leaves */
    int count, fitting;
};

static struct tried try_all(struct sim_cache *cache, struct sim_plan *plan, double headroom_frac)
{
    struct tried tried = {INFINITY, INFINITY, 0, 0, 0};
    double most_free = -INFINITY, least_free = INFINITY;
    const int stages = (int)plan->pipeline.stages;
    int64_t layers[SIM_MOST_STAGES];
    for (int s = 0; s < stages; s++) layers[s] = 1;
    layers[stages - 1] = plan->config->num_decoder_layers - stages + 1;
    plan->pipeline.layers = layers;
    do {
        struct sim_prediction p;
        struct base_error error;
        assert_ok(sim_predict(cache, plan, &p, NULL, &error), &error);
        const bool fits = (double)p.free_bytes >= headroom_frac * (double)p.memory.capacity_bytes;
        tried.count++, tried.fitting += fits;
        tried.least_s = fmin(tried.least_s, p.step_s);
        most_free = fmax(most_free, (double)p.free_bytes), least_free = fmin(least_free, (double)p.free_bytes);
        if (fits) tried.best_s = fmin(tried.best_s, p.step_s);
    } while (next_layers(layers, stages));
    plan->pipeline.layers = NULL;
    tried.middle_free_bytes = (most_free + least_free) / 2;
    return tried;
}

/* What the assignment finds, where so much memory stays free: the same as trying all of them. */
static struct tuner_assignment assign_and_try(struct base_arena *arena, struct sim_cache *cache, struct sim_plan *plan,
                                              double headroom_frac, struct tried *tried)
{
    struct tuner_assignment found;
    struct base_error error;
    *tried = try_all(cache, plan, headroom_frac);
    assert_ok(tuner_assign_layers(arena, cache, plan, headroom_frac, INFINITY, &found, &error), &error);
    assert_true(found.proven);
    assert_int_equal(found.bound_violations, 0);
    assert_int_equal(found.found, tried->fitting > 0);
    if (tried->fitting) assert_near(found.step_s, tried->best_s, 0);
    return found;
}

/* It proves it, and its relaxation undercuts none. Then the best are forbidden for their memory, and others are. */
static void layers_go_where_trying_all_puts_them(struct base_arena *arena)
{
    int binding = 0, uneven = 0;
    for (int i = 0; i < BASE_COUNT(assigned); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_plan plan = assigned_plan(arena, cache, &assigned[i]);
        struct base_error error;
        struct tried tried;
        struct sim_pipeline_least least;
        TEST_ROW("%s, %s layers on %s stages", assigned[i].software, assigned[i].layers, assigned[i].stages);
        struct tuner_assignment found = assign_and_try(arena, cache, &plan, 0.02, &tried);
        assert_ok(tuner_layers_bound(cache, &plan, &least, &error), &error);
        assert_true(least.step_s <= tried.least_s);
        assert_true(least.step_s > 0.7 * tried.least_s);
        assert_true(found.found && found.predicted_count < tried.count);
        assert_true(found.free_bytes <= least.free_bytes);
        for (int s = 2; s < plan.pipeline.stages; s++) uneven += found.layers[s] != found.layers[1];
        const double capacity = plan.placement->profile.constants[SIM_CAPACITY_BYTES], fastest_s = found.step_s;
        found = assign_and_try(arena, cache, &plan, (found.free_bytes + 1) / capacity, &tried);
        assert_true(found.predicted_count < tried.count);
        binding += found.found && found.step_s > fastest_s;
        sim_cache_free(cache);
    }
    assert_true(binding >= 2); /* memory decides */
    assert_true(uneven > 0);
}

/* Plans drawn at random, each without a limit and with one that forbids about half of the assignments: what is found is
 * what trying all of them finds, below a time as well. SEARCH_SAMPLES and SEARCH_SEED are those of
 * test_search_properties. */
static void layers_of_random_plans_equal_brute_force(struct base_arena *arena)
{
    static const char *const softwares[] = {"megatron", "torchtitan", "alpa"};
    static const char *const topologies[] = {"a100-80g:1x%d", "a100-40g:1x%d", "h100:1x%d", "v100-16g:1x%d"};
    static const char *const vocabularies[] = {"1024", "51200", "128256", "256000"};
    static const char *const policies[] = {"none", "full"};
    static const char *const lengths[] = {"512", "2048", "4096"};
    const char *samples = getenv("SEARCH_SAMPLES"), *seed = getenv("SEARCH_SEED");
    const int wanted = ((samples ? atoi(samples) : 250) + 24) / 25;
    int uneven = 0;
    struct base_random random;
    base_random_seed(&random, 910 + (seed ? strtoull(seed, NULL, 10) : 0));
    for (int drawn = 0; drawn < wanted; drawn++) {
        struct base_arena own = {.exhausted = arena->exhausted};
        struct sim_cache *cache = sim_cache_new(&own);
        struct base_error error;
        struct tried tried;
        const int stages = 2 + (int)base_random_below(&random, 3), layers = stages + (int)base_random_below(&random, 9),
                  microbatches = 1 << base_random_below(&random, 5), each = 1 << base_random_below(&random, 3);
        const struct assigned a = {.software = PICK(&random, softwares),
                                   .topology = base_print(&own, PICK(&random, topologies), stages),
                                   .layers = base_print(&own, "%d", layers),
                                   .vocabulary = PICK(&random, vocabularies),
                                   .stages = base_print(&own, "%d", stages),
                                   .microbatches = base_print(&own, "%d", microbatches),
                                   .batch = base_print(&own, "%d", microbatches * each),
                                   .schedule = "1f1b",
                                   .remat = PICK(&random, policies),
                                   .length = PICK(&random, lengths)};
        TEST_ROW("%s on %s, %s layers on %s stages, vocabulary %s, batch %s in %s, remat %s, length %s", a.software,
                 a.topology, a.layers, a.stages, a.vocabulary, a.batch, a.microbatches, a.remat, a.length);
        struct sim_plan plan = assigned_plan(&own, cache, &a);
        struct tuner_assignment found = assign_and_try(&own, cache, &plan, -1e6, &tried); /* whatever it takes */
        const double capacity = plan.placement->profile.constants[SIM_CAPACITY_BYTES], fastest_s = found.step_s;
        for (int s = 1; s < stages; s++) uneven += found.layers[s] != found.layers[0];
        assert_ok(tuner_assign_layers(&own, cache, &plan, -1e6, fastest_s, &found, &error), &error);
        assert_true(!found.found && found.proven); /* none is faster than the fastest */
        found = assign_and_try(&own, cache, &plan, tried.middle_free_bytes / capacity, &tried);
        sim_cache_free(cache);
        base_arena_free(&own);
    }
    print_message("%d plans, %d stages unlike the first\n", wanted, uneven);
    assert_true(uneven > 0);
}

/* Prices drawn at random, some options of which are not allowed: their list is what trying all of them gives. */
static void lists_of_layers_are_whole(struct base_arena *arena)
{
    enum { STAGES = 4, MOST = 5, ROWS = STAGES, OPTIONS = STAGES * MOST, LAYERS = 11, ROOM = 600 };
    uint64_t drawn = 20261123;
    for (int trial = 0; trial < 200; trial++) {
        double values[ROWS + 1][OPTIONS], least = INFINITY;
        const double *rows[ROWS];
        bool allowed[OPTIONS];
        short found[ROOM * STAGES];
        int below = 0, count;
        for (int r = 0; r <= ROWS; r++)
            for (int i = 0; i < OPTIONS; i++) {
                drawn = drawn * 6364136223846793005u + 1442695040888963407u;
                values[r][i] = (double)(i % MOST + 1) + (double)(drawn >> 40) / (1 << 23);
                allowed[i] = i % 7 != trial % 7;
            }
        for (int r = 0; r < ROWS; r++) rows[r] = values[r];
        const struct tuner_layer_program program = {
            .stages = STAGES, .most = MOST, .layers = LAYERS, .allowed = allowed, .row = rows, .last = values[ROWS]};
        struct tuner_layer_list *list = tuner_layer_list_new(arena, &program);
        const double limit = 18 + trial % 5;
        for (int all = 0; all < MOST * MOST * MOST * MOST; all++) {
            const short layers[STAGES] = {(short)(all % 5 + 1), (short)(all / 5 % 5 + 1), (short)(all / 25 % 5 + 1),
                                          (short)(all / 125 + 1)};
            bool may = layers[0] + layers[1] + layers[2] + layers[3] == LAYERS;
            for (int s = 0; s < STAGES; s++) may = may && allowed[s * MOST + layers[s] - 1];
            if (!may) continue;
            least = fmin(least, tuner_layers_sum(&program, layers));
            below += tuner_layers_sum(&program, layers) < limit;
        }
        assert_true(tuner_layer_list_least(list) + tuner_layers_least_last(&program) <= least);
        assert_true(tuner_layer_list_below(list, limit, ROOM, found, &count));
        assert_int_equal(count, below);
        for (int i = 0; i < count; i++) assert_true(tuner_layers_sum(&program, &found[i * STAGES]) < limit);
        assert_int_equal(tuner_layer_list_below(list, limit, below / 2, found, &count), below == 0);
    }
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {
        TEST(no_prediction_undercuts_its_bound),
        TEST(bounds_find_what_all_predictions_find),
        TEST(a_front_is_that_of_all_predictions),
        TEST(tight_plans_are_those_of_all_predictions),
        TEST(searches_say_how_far_they_are),
        TEST(ended_searches_know_what_they_left),
        TEST(an_ended_search_is_open_for_plans_that_may_be_ranked),
        TEST(a_gap_is_kept),
        TEST(software_is_told_what_it_can_be_told),
        TEST(words_may_be_lists),
        TEST(values_that_cannot_be_are_refused),
        TEST(values_that_are_given_are_the_space),
        TEST(layers_go_where_trying_all_puts_them),
        TEST(layers_of_random_plans_equal_brute_force),
        TEST(lists_of_layers_are_whole),
    };
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
