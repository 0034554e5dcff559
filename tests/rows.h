/* Rows of tests/data/xla_steps.csv and alpa_v100.csv: columns are named as a plan's keys are. */
#ifndef ROWS_H
#define ROWS_H

#include "sim/predict/predict.h"
#include "tests/test.h"

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

#endif
