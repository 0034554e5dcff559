/* Rates of a library's attention kernels on a GPU, by head size and sequence length: rows of gpu_attention.csv. Short
 * sequences have fewer whole tiles for the same prologue and epilogue. */
#include "sim/machine/machine.h"

#include <string.h>

extern const struct base_table embedded_sim_machine_gpu_attention_csv;

static const struct base_table *const table = &embedded_sim_machine_gpu_attention_csv;

static enum base_status read_number(int row, const char *column, double *out, struct base_error *error)
{
    return base_parse_double(base_table_field(table, row, base_table_column(table, column)), column, 0, 1e6, out,
                             error);
}

static enum base_status read_row(int row, struct sim_attention_rate *out, struct base_error *error)
{
    BASE_TRY(read_number(row, "head_dim", &out->head_dim, error));
    BASE_TRY(read_number(row, "forward_frac", &out->forward_frac, error));
    BASE_TRY(read_number(row, "forward_ramp_tokens", &out->forward_ramp_tokens, error));
    BASE_TRY(read_number(row, "backward_frac", &out->backward_frac, error));
    return read_number(row, "backward_ramp_tokens", &out->backward_ramp_tokens, error);
}

enum base_status sim_attention_rates_find(const char *library, const char *chip, struct sim_profile *out,
                                          struct base_error *error)
{
    out->attention.count = 0;
    for (int row = 0; row < table->row_count; row++) {
        const char *of_chip = base_table_field(table, row, base_table_column(table, "chip"));
        if (strcmp(base_table_field(table, row, base_table_column(table, "library")), library) != 0 ||
            !sim_is_of_chip(of_chip, chip))
            continue;
        if (out->attention.count == SIM_MOST_ATTENTION_RATES)
            return base_fail(error, BASE_INTERNAL, "gpu_attention.csv: more than %d rows of %s on %s",
                             SIM_MOST_ATTENTION_RATES, library, chip);
        BASE_TRY(read_row(row, &out->attention.of[out->attention.count++], error));
    }
    return BASE_OK;
}

double sim_attention_table_frac(const struct sim_profile *profile, enum sim_attention_way way, double head_dim,
                                double length_tokens)
{
    int row = 0;
    while (row + 1 < profile->attention.count && profile->attention.of[row].head_dim < head_dim) row++;
    if (!profile->attention.count) return 0;
    const struct sim_attention_rate *rate = &profile->attention.of[row];
    const bool forward = way == SIM_ATTENDS_FORWARD;
    const double ramp = forward ? rate->forward_ramp_tokens : rate->backward_ramp_tokens;
    return (forward ? rate->forward_frac : rate->backward_frac) * length_tokens / (length_tokens + ramp);
}
