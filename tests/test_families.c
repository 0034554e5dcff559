/* Families of decoders as they run: a step of a tiny model of each is that of Hugging Face's transformers
 * (scripts/transformers_vectors.py), on one device and on several. */
#include "tests/rig.h"

#include <math.h>

/* ---- weights, as the script makes them ---- */

/* Number i of a seed, from -1 to 1: 24 bits of a mixed hash. */
static double number(uint32_t seed, int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + seed;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    x ^= x >> 16;
    return (double)(x >> 8) / (1 << 23) - 1;
}

static uint32_t seed_of(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static bool ends(const char *text, const char *with)
{
    const size_t length = strlen(text), end = strlen(with);
    return length >= end && !strcmp(text + length - end, with);
}

static void set_weights(struct base_arena *arena, struct rig *rig)
{
    for (int i = 0; i < rig->array_count; i++) {
        const struct exec_array *array = &rig->arrays[i];
        const char *path = array->path;
        if (strncmp(path, "target.", strlen("target.")) != 0) continue;
        const double middle = ends(path, ".scale") ? 1 : 0, reach = ends(path, ".scale") || ends(path, ".bias") ? 0.2
                                                                    : ends(path, ".sinks")                      ? 1
                                                                    : ends(path, ".embedding")                  ? 0.6
                                                                                                                : 0.3;
        float *values = base_new(arena, float, elements_of(array));
        for (int64_t j = 0; j < elements_of(array); j++) values[j] = (float)(middle + reach * number(seed_of(path), j));
        struct exec_region all = exec_whole(array);
        exec_scatter(&rig->machine, array, &all, values);
    }
}

/* ---- one step ---- */

/* A buffer of each expert for all tokens; and no loss but the next token's. */
#define NONE_DROPPED "capacity_factor=4,aux_loss_factor=0"

struct numbers {
    double loss, gradient_norm;
};

static struct numbers step_of(struct base_arena *arena, const struct base_json *row, const char *topology,
                              const char *submesh, const char *rules)
{
    static const char *const changes =
        "{\"task_feature_lengths\":{\"targets\":16},\"batch_size\":8,\"optimizer\":\"sgd\",\"learning_rate\":0,"
        "\"z_loss\":0,\"dtype\":\"float32\",\"remat_policy\":\"none\"}";
    const char *line;
    const struct base_json *json;
    struct base_error error;
    struct sim_plan_text text;
    struct rig rig;
    struct exec_data data;
    struct exec_batch batch;
    assert_ok(model_huggingface_line(arena, base_json_get(row, "config"), &line, &error), &error);
    assert_ok(base_json_parse(arena, changes, strlen(changes), &json, &error), &error);
    assert_ok(sim_plan_from_json(arena, json, &text, &error), &error);
    text.values[SIM_MODEL] = strstr(line, "num_experts=") ? base_print(arena, "%s," NONE_DROPPED, line) : line;
    text.values[SIM_TOPOLOGY] = topology;
    text.values[SIM_SUBMESH] = submesh;
    text.values[SIM_RULES] = rules;
    assert_ok(rig_begin_as(arena, &text, SIM_AS_EXECUTED, &rig, &error), &error);
    set_weights(arena, &rig);
    assert_ok(
        exec_data_open(arena, &rig.plan, "tests/data/transformers_batch.jsonl", 1, EXEC_OF_TRAINING, &data, &error),
        &error);
    exec_data_batch(arena, &data, 0, 0, rig.plan.batch_size, &batch);
    exec_feed(&rig.machine, &batch);
    exec_step(&rig.machine);
    const struct numbers made = {rig.machine.loss_sum / rig.machine.weight_sum, sqrt(rig.machine.gradient_square_sum)};
    sim_cache_free(rig.cache);
    return made;
}

static void check_step(const struct base_json *row, struct numbers made, double tolerance)
{
    assert_near(made.loss, base_json_get(row, "loss")->number, tolerance);
    assert_near(made.gradient_norm, base_json_get(row, "gradient_norm")->number, tolerance);
}

static void steps_are_those_of_transformers(struct base_arena *arena)
{
    for (const struct base_json *row = test_read_json(arena, "transformers_steps.json")->child; row; row = row->next) {
        struct base_arena own = {.exhausted = arena->exhausted};
        TEST_ROW("%s", base_json_get(row, "family")->string);
        check_step(row, step_of(&own, row, "local:1", "1,1", "standard:1,1"), 1e-5);
        base_arena_free(&own);
    }
}

/* The same step of several devices: by data, by heads and width, by both, with sharded activations and parameters. */
static void sharded_steps_are_those_of_one_device(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh, *rules;
    } splits[] = {
        {"local:2", "1,1", "standard:1,1"}, {"local:2", "1,2", "standard:1,1"}, {"local:4", "1,2", "standard:2,2"},
        {"local:8", "1,1", "zero3"},        {"local:8", "1,2", "standard:1,1"},
    };
    for (const struct base_json *row = test_read_json(arena, "transformers_steps.json")->child; row; row = row->next)
        for (int i = 0; i < BASE_COUNT(splits); i++) {
            if (base_json_get(base_json_get(row, "config"), "multi_query") && !strcmp(splits[i].submesh, "1,2"))
                continue; /* two devices cannot share its one head of keys */
            struct base_arena own = {.exhausted = arena->exhausted};
            TEST_ROW("%s on %s, %s, %s", base_json_get(row, "family")->string, splits[i].topology, splits[i].submesh,
                     splits[i].rules);
            const struct numbers one = step_of(&own, row, "local:1", "1,1", "standard:1,1"),
                                 several = step_of(&own, row, splits[i].topology, splits[i].submesh, splits[i].rules);
            assert_near(several.loss, one.loss, 1e-6);
            assert_near(several.gradient_norm, one.gradient_norm, 1e-5);
            base_arena_free(&own);
        }
}

static const struct test tests[] = {
    TEST(steps_are_those_of_transformers),
    TEST(sharded_steps_are_those_of_one_device),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
