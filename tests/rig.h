/* A machine of the executor in one process, for tests: the plan's program, its arenas and a batch, ready for a step. */
#ifndef RIG_H
#define RIG_H

#include "exec/checkpoint.h"
#include "exec/kernels.h"
#include "tests/test.h"

#include <string.h>

struct rig {
    struct sim_cache *cache;
    struct sim_plan plan;
    struct sim_executable program;
    struct exec_machine machine;
    struct exec_array *arrays;
    int array_count;
};

static inline int64_t elements_of(const struct exec_array *array)
{
    int64_t count = 1;
    for (int d = 0; d < array->rank; d++) count *= array->shape[d];
    return count;
}

/* The optimizer starts from zeros. */
static inline void clear_state(struct base_arena *arena, struct rig *rig)
{
    for (int i = 0; i < rig->array_count; i++) {
        const struct exec_array *array = &rig->arrays[i];
        struct exec_region all = exec_whole(array);
        if (array->value >= 0 && !strncmp(array->path, "state.", strlen("state.")))
            exec_scatter(&rig->machine, array, &all, base_new(arena, float, elements_of(array)));
    }
}

static inline enum base_status rig_begin_as(struct base_arena *arena, const struct sim_plan_text *text,
                                            enum sim_form form, struct rig *rig, struct base_error *error)
{
    struct exec_batch batch;
    memset(rig, 0, sizeof *rig);
    rig->cache = sim_cache_new(arena);
    enum base_status status = sim_plan_check(rig->cache, arena, text, MODEL_STEP_TRAIN, form, &rig->plan, error);
    if (status == BASE_OK) status = sim_executable_program(rig->cache, arena, &rig->plan, &rig->program, error);
    if (status == BASE_OK) status = exec_machine_begin(arena, &rig->program, &rig->plan, &rig->machine, error);
    if (status != BASE_OK) return status;
    /* Nothing may be read that was not written: what is not set here is not a number. */
    for (int d = 0; d < rig->machine.device_count; d++)
        memset(rig->machine.arenas[d], 0xff, (size_t)rig->machine.map.arena_bytes);
    exec_arrays(arena, &rig->machine, &rig->arrays, &rig->array_count);
    exec_set_initial_values(arena, &rig->machine);
    clear_state(arena, rig);
    struct exec_data data;
    BASE_TRY(exec_data_open(arena, &rig->plan, NULL, 1, EXEC_OF_TRAINING, &data, error));
    exec_data_batch(arena, &data, 0, 0, rig->plan.batch_size, &batch);
    exec_feed(&rig->machine, &batch);
    return BASE_OK;
}

static inline float *whole_array(struct base_arena *arena, const struct rig *rig, int which)
{
    float *whole = base_new(arena, float, elements_of(&rig->arrays[which]));
    struct exec_region all = exec_whole(&rig->arrays[which]);
    if (rig->arrays[which].value < 0) return whole; /* T5X's placeholder */
    for (int device = 0; device < rig->machine.device_count; device++)
        exec_gather(&rig->machine, &rig->arrays[which], device, &all, whole);
    return whole;
}

#endif
