/* Plans of rows, whose columns are named as a plan's keys are, and of words. */
#ifndef ROWS_H
#define ROWS_H

#include "sim/predict/predict.h"
#include "tests/test.h"

#include <string.h>

static inline const char *row_field(const struct base_csv *csv, const char *column)
{
    return base_csv_field(csv, base_csv_column(csv, column));
}

static inline struct sim_plan_text row_plan(struct base_arena *arena, const struct base_csv *csv)
{
    struct sim_plan_text text = {{0}};
    for (int k = 0; k < SIM_KEY_COUNT; k++) text.values[k] = base_copy(arena, row_field(csv, sim_plan_keys[k].name));
    return text;
}

static inline enum model_step row_step(const struct base_csv *csv)
{
    const char *word = row_field(csv, "step");
    return !strcmp(word, "train")      ? MODEL_STEP_TRAIN
           : !strcmp(word, "gradient") ? MODEL_STEP_GRADIENT
                                       : MODEL_STEP_FORWARD;
}

/* A plan as "key=value key=value"; values have no blanks. */
static inline struct sim_plan_text plan_text(struct base_arena *arena, const char *words)
{
    struct sim_plan_text text = {{0}};
    char *copy = base_copy(arena, words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        int key = 0;
        assert_non_null(value);
        *value = '\0';
        while (key < SIM_KEY_COUNT && strcmp(sim_plan_keys[key].name, word) != 0) key++;
        assert_in_range(key, 0, SIM_KEY_COUNT - 1);
        text.values[key] = value + 1;
    }
    return text;
}

#endif
