/* Cases of tests/data/numerics: four steps of the real T5X, which the executor does again. */
#ifndef TESTS_NUMERICS_H
#define TESTS_NUMERICS_H

#include "exec/exec.h"
#include "tests/test.h"

/* A plan of tests/data. */
static inline struct sim_plan_text test_read_plan(struct base_arena *arena, const char *name)
{
    struct sim_plan_text plan;
    struct base_error error;
    assert_ok(sim_plan_from_json(arena, test_read_json(arena, name), &plan, &error), &error);
    return plan;
}

/* The plan of a case; its mesh and rules are the caller's to change. */
static inline struct sim_plan_text test_numerics_plan(struct base_arena *arena, const char *name)
{
    return test_read_plan(arena, base_print(arena, "numerics/%s/plan.json", name));
}

/* From T5X's checkpoint and on its batches, the plan has T5X's losses and norms of gradients. */
static inline void test_steps_are_those_of_t5x(struct base_arena *arena, const char *name,
                                               const struct sim_plan_text *text)
{
    enum { STEPS = 4 };
    struct base_error error;
    struct exec_result result;
    struct sim_plan plan;
    const struct base_json *expected = test_read_json(arena, base_print(arena, "numerics/%s/expected.json", name));
    struct sim_cache *cache = sim_cache_new(arena);
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, &error), &error);
    struct exec_request request = {.steps = STEPS,
                                   .data = base_print(arena, "tests/data/numerics/%s/batches.jsonl", name),
                                   .restore = base_print(arena, "tests/data/numerics/%s/checkpoint_0", name)};
    assert_ok(exec_run(arena, cache, &plan, &request, &result, &error), &error);
    assert_int_equal(result.step_count, STEPS);
    const struct base_json *loss = base_json_get(expected, "loss")->child,
                           *norm = base_json_get(expected, "gradient_norm")->child;
    for (int step = 0; step < STEPS; step++, loss = loss->next, norm = norm->next) {
        assert_near(result.loss[step], loss->number, 1e-5);
        assert_near(result.gradient_norm[step], norm->number, 1e-4);
    }
    sim_cache_free(cache);
}

#endif
