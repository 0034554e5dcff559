/* Rates of a library's attention kernels on a GPU, by head size and sequence length: rows of gpu_attention.csv. Short
 * sequences have fewer whole tiles for the same prologue and epilogue. */
#include "sim/machine/gpu_attention.csv.h"
#include "sim/machine/machine.h"

#include <string.h>

static const struct {
    const char *library, *chip;
    struct sim_attention_rate rate;
} rows[] = {GPU_ATTENTION_ROWS};

enum base_status sim_attention_rates_find(const char *library, const char *chip, struct sim_profile *out,
                                          struct base_error *error)
{
    out->attention.count = 0;
    for (int row = 0; row < BASE_COUNT(rows); row++) {
        if (strcmp(rows[row].library, library) != 0 || !sim_is_of_chip(rows[row].chip, chip)) continue;
        if (out->attention.count == SIM_MOST_ATTENTION_RATES)
            return base_fail(error, BASE_INTERNAL, "gpu_attention.csv: more than %d rows of %s on %s",
                             SIM_MOST_ATTENTION_RATES, library, chip);
        out->attention.of[out->attention.count++] = rows[row].rate;
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
