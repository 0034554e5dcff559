/* Private to commands/: the executor's answer. */
#ifndef COMMANDS_RESULT_H
#define COMMANDS_RESULT_H

#include "base/base.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

struct commands_result {
    struct reports_measured steps; /* without its timeline */
    struct sim_timeline timeline;
    struct sim_passes passes; /* of a pipeline; which passes they are says the prediction */
    struct sim_collective_row *rows;
    int row_count;
    struct sim_memory memory;
    double contraction_s, elementwise_s, communication_s; /* a step */
    double exposed_s;                                     /* of communication_s: nothing was computed meanwhile */
};
/* BASE_RUN: the answer is no result. */
enum commands_run_of { COMMANDS_RUN_TRAINS, COMMANDS_RUN_EVALUATES };
enum base_status commands_read_result(struct base_arena *arena, const struct base_text *answer, int rank_count,
                                      enum commands_run_of of, struct commands_result *out, struct base_error *error);
/* Measurements in the form of a prediction; the model's FLOPs are the prediction's. */
void commands_result_prediction(const struct commands_result *result, const struct sim_plan *plan,
                                const struct sim_prediction *predicted, struct sim_prediction *out);

#endif
