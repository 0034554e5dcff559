/* Remat by tensor in a number of layers: what such a plan takes, and that a search of all policies in all numbers of
 * layers finds what predicting each of them finds. */
#include "tests/by_software.h"
#include "tests/random_space.h"
#include "tests/test.h"

#include "tuner/tuner.h"

#include <math.h>

static struct sim_prediction predict(struct sim_cache *cache, struct base_arena *arena, struct sim_plan_text text,
                                     const char *policy)
{
    struct base_error error;
    struct sim_plan plan;
    struct sim_prediction p;
    text.values[SIM_REMAT_POLICY] = policy;
    assert_ok(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &p, NULL, &error), &error);
    return p;
}

/* ---- what a plan says ---- */

static void numbers_of_layers_are_read_and_written(struct base_arena *arena)
{
    static const char *const good[] = {"device:context;layers:7", "offload:query_proj;layers:1",
                                       "device:context;offload:decoder_layer_input+mlpwi_0;layers:100000"};
    static const struct {
        const char *text, *part;
    } bad[] = {{"layers:0", "layers: 0 is out of range"},
               {"layers:", "layers: \"\" is not"},
               {"layers:two", "layers: \"two\" is not"},
               {"layers:100001", "layers: 100001 is out of range"},
               {"device:context;layers:99999999999999999999", "layers: 99999999999999999999 is out"},
               {"layers:3", "device:query_proj;layers:3, or use full"},
               {"layers:1;layers:2", "keep one"},
               {"device:context;layer:2", "nor layers:"}};
    struct base_error error;
    struct model_saved saved;
    for (int i = 0; i < BASE_COUNT(good); i++) {
        TEST_ROW("%s", good[i]);
        assert_ok(model_saved_parse(good[i], &saved, &error), &error);
        assert_string_equal(model_saved_text(arena, &saved), good[i]);
    }
    for (int i = 0; i < BASE_COUNT(bad); i++) {
        TEST_ROW("%s", bad[i].text);
        assert_fails(model_saved_parse(bad[i].text, &saved, &error), BASE_INPUT, &error, bad[i].part);
    }
}

static void what_has_no_such_layers_is_refused(struct base_arena *arena)
{
#define SMALL "emb_dim=512,num_heads=8,head_dim=64,mlp_dim=2048,vocab_size=1024"
    static const struct {
        const char *model, *topology, *stages, *policy, *part;
    } rows[] = {
        {"decoder_only:num_layers=6," SMALL, "v4-8", "1", "device:context;layers:7", "use 1 to 6"},
        {"encoder_decoder:num_encoder_layers=4,num_decoder_layers=6," SMALL, "v4-8", "1", "device:context;layers:4",
         "use a multiple of 3"},
        {"decoder_only:num_layers=6," SMALL, "local:2", "1", "device:context;layers:3", "leave it out"},
        {"decoder_only:num_layers=6," SMALL, "a100-80g:1x2", "2", "device:context;layers:3", "pipeline_stages 1"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct sim_plan plan;
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_plan_text text = request_of(arena, rows[i].model, rows[i].topology, "8", "64", "64").plan;
        TEST_ROW("%s, %s", rows[i].model, rows[i].policy);
        text.values[SIM_BATCH_SIZE] = "8";
        text.values[SIM_PIPELINE_STAGES] = rows[i].stages;
        text.values[SIM_REMAT_POLICY] = rows[i].policy;
        assert_fails(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error),
                     BASE_INPUT, &error, rows[i].part);
        sim_cache_free(cache);
    }
}

/* ---- what it takes ---- */

static const char *stack_of(struct base_arena *arena, const char *model, int layers)
{
    return base_print(arena, "%s:num_layers=%d," SMALL, model, layers);
}

/* Seconds of a stack of two kinds of layers are those of two shorter stacks, of one kind each, with what stands around
 * the layers once. */
static void two_kinds_of_layers_take_what_shorter_stacks_take(struct base_arena *arena)
{
    enum { LAYERS = 8, OF_POLICY = 3 };
    static const struct {
        const char *model, *topology, *mesh, *software;
        double within_frac; /* where a layer's collectives overlap its neighbour's work it matters a little whose */
    } rows[] = {{"scalable_decoder_only", "v4-8", "2,1,1,1", "t5x", 1e-9},
                {"decoder_only", "v4-8", "2,2,1,1", "t5x", 1e-9},
                {"decoder_only", "v5e-16", "2,2,1,1", "maxtext", 1e-9},
                {"decoder_only", "a100-80g:1x8", "1,4", "fsdp", 1e-3}};
    static const char *const policies[] = {"device:query_proj+context+mlpwi_0", "device:out_proj;offload:mlpwi_0",
                                           "offload:decoder_layer_input;device:value_proj"};
    for (int i = 0; i < BASE_COUNT(rows) * BASE_COUNT(policies); i++) {
        const char *model = rows[i % BASE_COUNT(rows)].model, *policy = policies[i / BASE_COUNT(rows)],
                   *others = strstr(policy, "decoder_layer_input") ? "offload:decoder_layer_input"
                                                                   : "device:decoder_layer_input";
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_plan_text text =
            request_of(arena, model, rows[i % BASE_COUNT(rows)].topology, "16", "512", "512").plan;
        double s[4]; /* of policy layers alone, of others alone, and of one and two of the latter */
        const int depths[] = {OF_POLICY, LAYERS - OF_POLICY, 1, 2};
        TEST_ROW("%s on %s, %s", model, rows[i % BASE_COUNT(rows)].topology, policy);
        text.values[SIM_BATCH_SIZE] = "16";
        text.values[SIM_OPTIMIZER] = "adamw", text.values[SIM_ATTENTION] = "unfused";
        text.values[SIM_RULES] = "standard:1,1";
        text.values[SIM_SUBMESH] = rows[i % BASE_COUNT(rows)].mesh;
        text.values[SIM_SOFTWARE] = rows[i % BASE_COUNT(rows)].software;
        for (int d = 0; d < BASE_COUNT(depths); d++) {
            text.values[SIM_MODEL] = stack_of(arena, model, depths[d]);
            s[d] = predict(cache, arena, text, d == 0 ? policy : others).step_s;
        }
        text.values[SIM_MODEL] = stack_of(arena, model, LAYERS);
        const double around_s = 2 * s[2] - s[3],
                     mixed_s = predict(cache, arena, text, base_print(arena, "%s;layers:%d", policy, OF_POLICY)).step_s;
        /* What a pass hides of transfers to the host is hidden by what stands around the layers, too. */
        const double within_frac = strstr(policy, "offload:") ? 2e-2 : rows[i % BASE_COUNT(rows)].within_frac;
        assert_near(mixed_s / (s[0] + s[1] - around_s), 1, within_frac);
        sim_cache_free(cache);
    }
}

/* From what nobody keeps to what all keep, step by step; all layers are no number of layers. */
static void memory_grows_with_the_layers(struct base_arena *arena)
{
    enum { LAYERS = 6 };
    static const char *const policy = "device:query_proj+out_proj+mlpwi_0;offload:context";
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = request_of(arena, NULL, "v4-8", "64", "512", "512").plan;
    text.values[SIM_MODEL] = stack_of(arena, "scalable_decoder_only", LAYERS);
    text.values[SIM_BATCH_SIZE] = "64";
    const struct sim_prediction none = predict(cache, arena, text, "device:decoder_layer_input"),
                                all = predict(cache, arena, text, policy);
    for (int layers = 1; layers <= LAYERS; layers++) {
        const struct sim_prediction p = predict(cache, arena, text, base_print(arena, "%s;layers:%d", policy, layers));
        const double share = (double)layers / LAYERS;
        TEST_ROW("%d layers", layers);
        assert_near((double)p.memory.peak_bytes,
                    (1 - share) * (double)none.memory.peak_bytes + share * (double)all.memory.peak_bytes, 1e-7);
        assert_near((double)p.memory.host_bytes, share * (double)all.memory.host_bytes, 1e-7);
        assert_near(p.step_s, (1 - share) * none.step_s + share * all.step_s, 1e-12);
    }
    assert_true(all.memory.peak_bytes > none.memory.peak_bytes && all.memory.host_bytes > 0);
    sim_cache_free(cache);
}
#undef SMALL

static const struct test tests[] = {
    TEST(numbers_of_layers_are_read_and_written),
    TEST(what_has_no_such_layers_is_refused),
    TEST(two_kinds_of_layers_take_what_shorter_stacks_take),
    TEST(memory_grows_with_the_layers),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
