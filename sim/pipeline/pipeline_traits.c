/* Pipeline traits of each training software: the rows of pipelines.csv. */
#include "sim/pipeline/pipeline.h"

#include <string.h>

extern const struct base_table embedded_sim_pipeline_pipelines_csv;

static const struct base_table *const rows = &embedded_sim_pipeline_pipelines_csv;

static bool flag(int row, const char *column)
{
    return *base_table_field(rows, row, base_table_column(rows, column)) == '1';
}

static enum base_status read_number(int row, const char *column, double *out, struct base_error *error)
{
    return base_parse_double(base_table_field(rows, row, base_table_column(rows, column)), column, 0, 100, out, error);
}

static enum base_status read_word(int row, const char *column, const char *const *names, int count, int *out,
                                  struct base_error *error)
{
    return base_parse_word(base_table_field(rows, row, base_table_column(rows, column)), column, names, count, out,
                           error);
}

static enum base_status read_words(int row, struct sim_pipeline_traits *out, struct base_error *error)
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

/* Schedule names joined by " or ". */
static enum base_status read_schedules(const char *words, unsigned *out, struct base_error *error)
{
    static const char between[] = " or ";
    *out = 0;
    for (const char *word = words, *end; word; word = *end ? end + strlen(between) : NULL) {
        int kind = 0;
        end = strstr(word, between) ? strstr(word, between) : word + strlen(word);
        const size_t length = (size_t)(end - word);
        while (kind < SIM_SCHEDULE_KINDS && (strncmp(word, sim_schedule_name((enum sim_schedule_kind)kind), length) ||
                                             sim_schedule_name((enum sim_schedule_kind)kind)[length]))
            kind++;
        if (kind == SIM_SCHEDULE_KINDS)
            return base_fail(error, BASE_INTERNAL, "pipelines.csv: unknown schedule: %.*s; see timetable.c",
                             (int)length, word);
        *out |= 1u << kind;
    }
    return BASE_OK;
}

static enum base_status read_row(int row, struct sim_pipeline_traits *out, struct base_error *error)
{
    const char *schedules = base_table_field(rows, row, base_table_column(rows, "schedules"));
    *out = (struct sim_pipeline_traits){.schedule_words = schedules,
                                        .takes_layers = flag(row, "told_layers"),
                                        .scatters_messages = flag(row, "cut_messages"),
                                        .hides_messages = flag(row, "hidden_messages"),
                                        .overlaps_interleaved = flag(row, "interleaved_overlap"),
                                        .keeps_weights = flag(row, "kept_weights")};
    BASE_TRY(read_words(row, out, error));
    BASE_TRY(read_schedules(schedules, &out->schedules, error));
    BASE_TRY(read_number(row, "flat_float16_bytes", &out->flat_float16_bytes, error));
    BASE_TRY(read_number(row, "flat_bfloat16_bytes", &out->flat_bfloat16_bytes, error));
    BASE_TRY(read_number(row, "held_in_flight_frac", &out->held_in_flight_frac, error));
    return read_number(row, "message_latency_s", &out->message_latency_s, error);
}

enum base_status sim_pipeline_traits_find(const char *software, struct sim_pipeline_traits *out,
                                          struct base_error *error)
{
    for (int row = 0; row < rows->row_count; row++)
        if (!strcmp(base_table_field(rows, row, 0), software)) return read_row(row, out, error);
    return base_fail(error, BASE_INPUT,
                     "pipeline_stages: %s has no pipelines, or none that are modelled; use 1, or software megatron, "
                     "megatron_deepspeed, nemo, nanotron, torchtitan or alpa",
                     software);
}
