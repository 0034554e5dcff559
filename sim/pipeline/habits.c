/* What each training software's pipelines do: rows of pipelines.csv. */
#include "sim/pipeline/pipeline.h"

#include <string.h>

extern const char embedded_sim_pipeline_pipelines_csv[];

static struct base_table rows = {.name = "pipelines.csv", .text = embedded_sim_pipeline_pipelines_csv};

static bool flag(int row, const char *column)
{
    return *base_table_field(&rows, row, base_table_column(&rows, column)) == '1';
}

static enum base_status read_number(int row, const char *column, double *out, struct base_error *error)
{
    return base_parse_double(base_table_field(&rows, row, base_table_column(&rows, column)), column, 0, 100, out,
                             error);
}

static enum base_status read_word(int row, const char *column, const char *const *names, int count, int *out,
                                  struct base_error *error)
{
    return base_parse_word(base_table_field(&rows, row, base_table_column(&rows, column)), column, names, count, out,
                           error);
}

static enum base_status read_words(int row, struct sim_pipeline_habits *out, struct base_error *error)
{
    static const char *const divisions[SIM_DIVISION_COUNT] = {
        [SIM_DIVIDES_EVENLY] = "evenly", [SIM_DIVIDES_UNEVENLY] = "unevenly", [SIM_DIVIDES_FINELY] = "finely"};
    static const char *const outputs[SIM_OUTPUTS_COUNT] = {[SIM_FREED] = "freed",
                                                           [SIM_UNTIL_GRADIENT] = "until_gradient",
                                                           [SIM_PART_UNTIL_GRADIENT] = "part_until_gradient",
                                                           [SIM_UNTIL_STEP_ENDS] = "until_step_ends"};
    int division, held;
    BASE_TRY(read_word(row, "division", divisions, SIM_DIVISION_COUNT, &division, error));
    BASE_TRY(read_word(row, "kept_outputs", outputs, SIM_OUTPUTS_COUNT, &held, error));
    out->division = (enum sim_division)division;
    out->outputs = (enum sim_outputs)held;
    return BASE_OK;
}

/* Words of pipeline_schedule, with " or " between them. */
static unsigned schedules_of(const char *words)
{
    static const char *const names[SIM_SCHEDULE_KINDS] = {
        [SIM_ONE_FORWARD_ONE_BACKWARD] = "1f1b", [SIM_INTERLEAVED] = "interleaved", [SIM_GPIPE] = "gpipe"};
    unsigned schedules = 0;
    for (int i = 0; i < SIM_SCHEDULE_KINDS; i++)
        if (strstr(words, names[i])) schedules |= 1u << i;
    return schedules;
}

enum base_status sim_pipeline_habits_find(const char *software, struct sim_pipeline_habits *out,
                                          struct base_error *error)
{
    BASE_TRY(base_table_read(&rows, error));
    for (int row = 0; row < rows.row_count; row++) {
        if (strcmp(base_table_field(&rows, row, 0), software) != 0) continue;
        const char *schedules = base_table_field(&rows, row, base_table_column(&rows, "schedules"));
        *out = (struct sim_pipeline_habits){.schedules = schedules_of(schedules),
                                            .schedule_words = schedules,
                                            .takes_layers = flag(row, "told_layers"),
                                            .scatters_messages = flag(row, "cut_messages"),
                                            .hides_messages = flag(row, "hidden_messages"),
                                            .overlaps_interleaved = flag(row, "interleaved_overlap"),
                                            .keeps_weights = flag(row, "kept_weights")};
        BASE_TRY(read_words(row, out, error));
        BASE_TRY(read_number(row, "flat_float16_bytes", &out->flat_float16_bytes, error));
        BASE_TRY(read_number(row, "flat_bfloat16_bytes", &out->flat_bfloat16_bytes, error));
        BASE_TRY(read_number(row, "held_in_flight_frac", &out->held_in_flight_frac, error));
        return read_number(row, "message_latency_s", &out->message_latency_s, error);
    }
    return base_fail(error, BASE_INPUT,
                     "pipeline_stages: %s has no pipelines, or none that are modelled; use 1, or software megatron, "
                     "megatron_deepspeed, nemo, nanotron, torchtitan or alpa",
                     software);
}
