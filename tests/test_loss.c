/* The loss in tiles: which software has it, how many tiles there are, and what it saves. */
#include "tests/test.h"

#include "sim/predict/predict.h"

#include <string.h>

#define LLAMA                                                                                                          \
    "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=4,vocab_size=128256,"                 \
    "mlp_activations=silu+linear,logits_via_embedding=0,position_encoding=rotary"

/* Where each of them runs, eight devices but for Hugging Face's Trainer. */
static const struct place {
    const char *software, *topology, *mesh, *rules, *memory_kind;
} places[] = {{"maxtext", "v5p-16", "data=1,fsdp=8,tensor=1", "maxtext", NULL},
              {"levanter", "v5p-16", "data=8", "zero3", NULL},
              {"t5x", "v5p-16", "data=8", "zero3", NULL},
              {"torchtitan", "h100:1x8", NULL, "zero3", "reserved"},
              {"deepspeed", "h100:1x8", NULL, "zero3", "reserved"},
              {"megatron", "h100:1x8", NULL, NULL, NULL},
              {"transformers", "h100:1x1", NULL, NULL, "reserved"}};

static enum base_status check(struct base_arena *arena, struct sim_cache *cache, const char *software,
                              const char *version, const char *loss, struct sim_plan *out, struct base_error *error)
{
    const struct place *at = places;
    while (strcmp(at->software, software) != 0) at++;
    struct sim_plan_text text = {.values = {[SIM_MODEL] = LLAMA,
                                            [SIM_TOPOLOGY] = at->topology,
                                            [SIM_ICI_MESH] = at->mesh,
                                            [SIM_SOFTWARE] = software,
                                            [SIM_SOFTWARE_VERSION] = version,
                                            [SIM_RULES] = at->rules,
                                            [SIM_OPTIMIZER] = "adamw",
                                            [SIM_REMAT_POLICY] = "full",
                                            [SIM_ATTENTION] = "flash",
                                            [SIM_LOSS] = loss,
                                            [SIM_MEMORY_KIND] = at->memory_kind,
                                            [SIM_BATCH_SIZE] = "16",
                                            [SIM_TARGETS_LENGTH] = "4096"}};
    return sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, out, error);
}

static struct sim_prediction predicted(struct base_arena *arena, struct sim_cache *cache, const char *software,
                                       const char *version, const char *loss)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    assert_ok(check(arena, cache, software, version, loss, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

/* One tile's logits stand in place of all; of software that makes them again for their gradient the step has one more
 * product with the head. */
static void tiles_save_logits(struct base_arena *arena)
{
    static const struct {
        const char *software, *version, *loss, *finer;
        double tokens /* of a device */, least_bytes /* a token and word that go */;
        bool again;
    } rows[] = {{"maxtext", NULL, "chunked:4", "chunked:16", 8192, 2, true},
                {"levanter", NULL, "chunked:4", "chunked:16", 8192, 2, true},
                {"torchtitan", NULL, "chunked:4", "chunked:16", 8192, 4, false},
                {"torchtitan", "0.2.2", "chunked:4", "chunked:16", 8192, 8, false},
                {"deepspeed", NULL, "fused", "fused", 8192, 4, false},
                {"transformers", NULL, "fused", "fused", 65536, 8, false}};
    static const double words = 128256;
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s %s", rows[i].software, rows[i].version ? rows[i].version : "");
        const struct sim_prediction full = predicted(arena, cache, rows[i].software, rows[i].version, "full"),
                                    tiles = predicted(arena, cache, rows[i].software, rows[i].version, rows[i].loss),
                                    finer = predicted(arena, cache, rows[i].software, rows[i].version, rows[i].finer);
        const double saved_bytes = (double)(full.memory.peak_bytes - tiles.memory.peak_bytes);
        assert_true(saved_bytes > 0.75 * rows[i].least_bytes * rows[i].tokens * words);
        assert_true(finer.memory.peak_bytes <= tiles.memory.peak_bytes);
        assert_int_equal(tiles.step_s > full.step_s, rows[i].again);
    }
    sim_cache_free(cache);
}

/* Liger's: of 128256 words and 2048 numbers a token, tiles are a 63rd of 8192 tokens, which makes 256. */
static void tiles_are_those_of_liger(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct base_error error;
    assert_ok(check(arena, cache, "deepspeed", NULL, "fused", &plan, &error), &error);
    assert_int_equal(plan.loss_tiles, 32);
    sim_cache_free(cache);
}

static void what_software_lacks_is_refused(struct base_arena *arena)
{
    static const struct {
        const char *software, *loss, *message;
    } rows[] = {{"t5x", "chunked:4", "loss: t5x has no chunked loss; use full"},
                {"megatron", "fused", "loss: megatron has no fused loss; use full"},
                {"torchtitan", "fused", "loss: torchtitan has no fused loss; use full, or chunked:N"},
                {"transformers", "chunked:8", "loss: transformers has no chunked loss; use full, or fused"},
                {"torchtitan", "chunked:8193", "loss: chunked: 8193 is out of range; use a number from 1 to 8192"},
                {"torchtitan", "chunked:", "loss: chunked: \"\" is not a whole number"},
                {"torchtitan", "tiles", "loss: 'tiles' is unknown; use full, chunked:N or fused"}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan plan;
        struct base_error error;
        TEST_ROW("%s %s", rows[i].software, rows[i].loss);
        assert_int_equal(check(arena, cache, rows[i].software, NULL, rows[i].loss, &plan, &error), BASE_INPUT);
        assert_non_null(strstr(error.text, rows[i].message));
    }
    sim_cache_free(cache);
}

static const struct test tests[] = {TEST(tiles_save_logits), TEST(tiles_are_those_of_liger),
                                    TEST(what_software_lacks_is_refused)};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
