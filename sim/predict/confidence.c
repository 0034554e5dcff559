/* Intervals of a prediction, from the residuals of its kind in the tables of measurements (confidence.csv, written by
 * scripts/confidence.py). A kind is a software on a platform. A user's cluster is in no table, so the interval covers
 * both spreads: of rows around their table's mean, and of the tables' means. A chip or a kind without rows gets the
 * spread among kinds. */
#include "sim/predict/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct base_table embedded_sim_predict_confidence_csv;
static const struct base_table *const table = &embedded_sim_predict_confidence_csv;

static const double within_deviations = 1.6449; /* of a normal distribution, 90 % */
static const double above_deviations = 1.2816;  /* and 90 % lie below that many deviations */

static enum base_status read_number(int row, const char *column, double *out, struct base_error *error)
{
    return base_parse_double(base_table_value(table, row, column), column, -1e9, 1e9, out, error);
}

/* A spread estimated from few rows is uncertain itself: the variance is that of Student's distribution. */
static double widened(double deviation, double count)
{
    return deviation * sqrt(count > 3 ? (count - 1) / (count - 3) : 3);
}

static enum base_status read_residual(int row, struct sim_residual *out, struct base_error *error)
{
    const bool of_every_kind =
        !strcmp(base_table_value(table, row, "software"), "*"); /* already the deviation of a new kind */
    double count, between;
    BASE_TRY(read_number(row, "rows", &count, error));
    BASE_TRY(read_number(row, "mean_log", &out->mean, error));
    BASE_TRY(read_number(row, "deviation_log", &out->within, error));
    BASE_TRY(read_number(row, "between_log", &between, error));
    if (!of_every_kind) out->within = widened(out->within, count);
    out->row = row;
    out->deviation = hypot(out->within, between);
    return BASE_OK;
}

static int find_row(const char *platform, const char *software, const char *quantity)
{
    const int of_quantity = base_table_column(table, "quantity"), of_software = base_table_column(table, "software"),
              of_platform = base_table_column(table, "platform");
    for (int row = 0; row < table->row_count; row++)
        if (!strcmp(base_table_field(table, row, of_quantity), quantity) &&
            !strcmp(base_table_field(table, row, of_software), software) &&
            !strcmp(base_table_field(table, row, of_platform), platform))
            return row;
    return -1;
}

static bool has_word(int row, const char *column, const char *word)
{
    return base_lists(base_table_value(table, row, column), word, strlen(word));
}

/* Columns of confidence.csv by quantity and kind. A narrow kind without rows uses the columns of the wider one. */
static const struct quantity {
    const char *name, *wider;
} quantities[SIM_RESIDUAL_COUNT] = {[SIM_OF_STEP] = {"step", "step"},
                                    [SIM_OF_PIPELINED_STEP] = {"pipelined_step", "pipelined_step"},
                                    [SIM_OF_SERVED_STEP] = {"served_step", "served_step"},
                                    [SIM_OF_EXPERT_STEP] = {"expert_step", "step"},
                                    [SIM_OF_EXPERT_MEMORY] = {"expert_memory", "memory"},
                                    [SIM_OF_MEMORY] = {"memory", "memory"},
                                    [SIM_OF_PIPELINED_MEMORY] = {"pipelined_memory", "pipelined_memory"},
                                    [SIM_OF_COMPILED_MEMORY] = {"compiled_memory", "compiled_memory"},
                                    [SIM_OF_COMPILED_UNSCANNED] = {"compiled_unscanned", "compiled_memory"},
                                    [SIM_OF_COMPILED_NONE] = {"compiled_none", "compiled_memory"},
                                    [SIM_OF_COMPILED_MINIMAL] = {"compiled_minimal", "compiled_memory"},
                                    [SIM_OF_COMPILED_FULL] = {"compiled_full", "compiled_memory"},
                                    [SIM_OF_COMPILED_RESCUED] = {"compiled_rescued", "compiled_memory"}};

/* A model's class in the column of classes; scripts/confidence.py classifies alike. */
static const char *class_of(const struct sim_plan *plan)
{
    enum { LONG_LENGTH = 16384 };
    if (plan->config->experts.count) return "experts";
    return plan->targets_length >= LONG_LENGTH ? "long" : "dense";
}

enum lacks { LACKS_CLASS = 1, LACKS_DTYPE = 2, LACKS_INFERENCE = 4, LACKS_DEVICES = 8 };

/* What of the plan no measurement of the row's kind had. Training has no cache, so that its rows tell nothing of
 * inference. */
static unsigned lacks(const struct sim_plan *plan, int row)
{
    const int most = atoi(base_table_value(table, row, "most_devices"));
    const bool is_served = !strcmp(base_table_value(table, row, "quantity"), "served_step");
    return (has_word(row, "classes", class_of(plan)) ? 0 : LACKS_CLASS) |
           (has_word(row, "dtypes", model_dtype_name(plan->options.dtype)) ? 0 : LACKS_DTYPE) |
           (model_infers(plan->options.step) && !is_served ? LACKS_INFERENCE : 0) |
           (plan->placement->topology.device_count > 2 * most ? LACKS_DEVICES : 0);
}

static void put_lacking(struct base_text *out, const struct sim_plan *plan, unsigned lacking)
{
    const char *class = class_of(plan), *of_class = !strcmp(class, "experts") ? "with experts"
                                                    : !strcmp(class, "long")  ? "of sequences as long"
                                                                              : "of a dense model";
    if (lacking & LACKS_CLASS) base_putf(out, ", none of them %s", of_class);
    if (lacking & LACKS_DTYPE) base_putf(out, ", none of them in %s", model_dtype_name(plan->options.dtype));
    if (lacking & LACKS_INFERENCE) base_put(out, ", none of them of inference");
    if (lacking & LACKS_DEVICES) base_put(out, ", none of them on as many devices");
}

/* For another chip the kind's bias is unknown; the larger of the two spreads is used. */
static enum base_status find_residual(const struct topo_topology *topology, const char *software,
                                      const struct quantity *quantity, struct sim_residual *out,
                                      struct base_error *error)
{
    const char *platform = sim_platform_name(topology->kind);
    int row = find_row(platform, software, quantity->name), pooled = find_row("*", "*", quantity->wider);
    if (row < 0) row = find_row(platform, software, quantity->wider);
    if (pooled < 0) return base_fail(error, BASE_INTERNAL, "confidence.csv: no row is about every %s", quantity->wider);
    struct sim_residual all;
    BASE_TRY(read_residual(pooled, &all, error));
    *out = all;
    out->row = -1;
    if (row < 0) return BASE_OK;
    BASE_TRY(read_residual(row, out, error));
    if (has_word(row, "chips", topology->chip.name)) return BASE_OK;
    out->mean = 0;
    out->deviation = fmax(out->deviation, all.deviation);
    return BASE_OK;
}

enum base_status sim_residuals_find(const struct topo_topology *topology, const char *software,
                                    struct sim_residual *out, struct base_error *error)
{
    for (int i = 0; i < SIM_RESIDUAL_COUNT; i++)
        BASE_TRY(find_residual(topology, software, &quantities[i], &out[i], error));
    return BASE_OK;
}

/* A calibrated profile holds the mean error of predictions of left-out measurements. For a normal distribution, a mean
 * error is sqrt(2 / pi) deviations. */
static bool find_calibrated(const struct sim_profile *profile, struct sim_residual *out)
{
    double count = profile->calibrated.count;
    if (count < 1) return false;
    out->mean = 0;
    out->row = -1;
    out->within = widened(profile->calibrated.mean_error_frac * sqrt(3.14159265358979 / 2), count);
    out->deviation =
        out->within * sqrt(1 + 1 / count); /* measured on the user's cluster: tables' means do not matter */
    return true;
}

static struct sim_interval around(double predicted, const struct sim_residual *r)
{
    return (struct sim_interval){predicted * exp(r->mean - within_deviations * r->deviation),
                                 predicted * exp(r->mean + within_deviations * r->deviation)};
}

/* A plan unlike all measurements of its kind is treated as a kind without any: the bias is unknown. */
static struct sim_residual for_plan(const struct sim_plan *plan, enum sim_residual_kind kind)
{
    struct sim_residual own = plan->placement->residuals[kind], all;
    struct base_error broken;
    if (own.row < 0 || !lacks(plan, own.row)) return own;
    const int pooled = find_row("*", "*", quantities[kind].wider);
    if (pooled < 0 || read_residual(pooled, &all, &broken) != BASE_OK) return own;
    own.mean = 0;
    own.deviation = fmax(own.deviation, all.deviation);
    return own;
}

static void put_source(struct base_text *out, const struct sim_plan *plan, const char *what,
                       const struct sim_residual *r)
{
    const struct topo_topology *topology = &plan->placement->topology;
    if (r->row < 0) {
        base_putf(out, "%s: uncalibrated, no measurement covers %s on %s", what, plan->software, topology->chip.name);
        return;
    }
    const unsigned lacking = lacks(plan, r->row);
    const bool of_chip = has_word(r->row, "chips", topology->chip.name);
    base_putf(out, "%s: %s%s rows (%s)", what, lacking || !of_chip ? "no measurement covers this; " : "",
              base_table_value(table, r->row, "rows"), base_table_value(table, r->row, "tables"));
    if (!of_chip) base_putf(out, ", none of them on %s", topology->chip.name);
    put_lacking(out, plan, lacking);
}

/* The residuals for the plan's step time. */
static bool find_step(const struct sim_plan *plan, struct sim_residual *out)
{
    if (find_calibrated(&plan->placement->profile, out)) return true;
    *out = for_plan(plan, model_infers(plan->options.step) ? SIM_OF_SERVED_STEP
                          : plan->config->experts.count    ? SIM_OF_EXPERT_STEP
                          : plan->pipeline.stages > 1      ? SIM_OF_PIPELINED_STEP
                                                           : SIM_OF_STEP);
    return false;
}

/* Errors of compiled memory depend on how layers run and what is saved. A plan of any kind that fits only with
 * rematerialization ends near the limit. NULL: the plan has no prediction. */
static enum sim_residual_kind compiled_kind(const struct sim_plan *plan, const struct sim_prediction *p)
{
    if (p && p->fits && p->memory.rematerializes) return SIM_OF_COMPILED_RESCUED;
    if (!plan->config->scan_layers) return SIM_OF_COMPILED_UNSCANNED;
    switch (plan->options.remat) {
    case MODEL_REMAT_NONE: return SIM_OF_COMPILED_NONE;
    case MODEL_REMAT_MINIMAL: return SIM_OF_COMPILED_MINIMAL;
    case MODEL_REMAT_FULL: return SIM_OF_COMPILED_FULL;
    default: return SIM_OF_COMPILED_MEMORY;
    }
}

static struct sim_residual memory_of(const struct sim_plan *plan, const struct sim_prediction *p)
{
    return for_plan(plan, plan->compiled                ? compiled_kind(plan, p)
                          : plan->config->experts.count ? SIM_OF_EXPERT_MEMORY
                          : plan->pipeline.stages > 1   ? SIM_OF_PIPELINED_MEMORY
                                                        : SIM_OF_MEMORY);
}

static bool is_laid_out_as_run(const struct sim_plan *plan)
{
    return plan->placement->topology.kind == TOPO_LOCAL;
}

static const char *rests_on(struct base_arena *arena, const struct sim_plan *plan, const struct sim_prediction *p)
{
    struct base_text words = {.arena = arena};
    struct sim_residual step, peak = memory_of(plan, p);
    if (find_step(plan, &step))
        base_putf(&words, "time: %d measurements that the profile was calibrated on, each predicted from the others",
                  plan->placement->profile.calibrated.count);
    else put_source(&words, plan, "time", &step);
    base_put(&words, "; ");
    if (is_laid_out_as_run(plan)) base_put(&words, "memory: exact, the arena is laid out as it is run");
    else put_source(&words, plan, "memory", &peak);
    return words.data;
}

bool sim_wants_changes(enum sim_verdict verdict)
{
    return verdict != SIM_FITS && verdict != SIM_FITS_TIGHTLY;
}

static enum sim_verdict verdict_of(const struct sim_plan *plan, const struct sim_prediction *p,
                                   const struct sim_confidence *c)
{
    const bool likely = c->fits_probability_frac >= 0.5;
    if (!p->fits) return likely ? SIM_PROBABLY_FITS : SIM_FITS_NOT;
    if (!likely) return SIM_PROBABLY_FITS_NOT;
    if (is_laid_out_as_run(plan)) return SIM_FITS;
    return c->peak_bytes.high > sim_limit_bytes(p) || !sim_leaves_free(p, SIM_USUAL_HEADROOM_PERCENT / 100.0)
               ? SIM_FITS_TIGHTLY
               : SIM_FITS;
}

struct sim_confidence sim_confidence_of(struct base_arena *arena, const struct sim_plan *plan,
                                        const struct sim_prediction *p)
{
    struct sim_residual step, peak = memory_of(plan, p);
    const double bytes = (double)p->memory.peak_bytes, limit = sim_limit_bytes(p);
    struct sim_confidence out = {0};
    find_step(plan, &step);
    out.step_s = around(p->step_s, &step);
    out.within_log = step.within;
    out.tokens_per_s = (struct sim_interval){p->tokens_per_s * p->step_s / out.step_s.high,
                                             p->tokens_per_s * p->step_s / out.step_s.low};
    if (is_laid_out_as_run(plan)) {
        out.peak_bytes = (struct sim_interval){bytes, bytes};
        out.fits_probability_frac = p->fits;
    } else {
        double room = bytes > 0 ? (log(fmax(limit, 1) / bytes) - peak.mean) / peak.deviation : INFINITY;
        out.peak_bytes = around(bytes, &peak);
        out.fits_probability_frac = sim_overfills_host(&p->memory) ? 0 : 0.5 * erfc(-room / sqrt(2));
    }
    out.verdict = verdict_of(plan, p, &out);
    if (arena) out.rests_on = rests_on(arena, plan, p);
    return out;
}

double sim_indifference_threshold_frac(const struct sim_confidence *confidence)
{
    return expm1(above_deviations * sqrt(2) * confidence->within_log);
}

/* Halved until it is known: the share falls with the probability. */
double sim_peak_frac_at_risk(const struct sim_plan *plan, double risk_frac)
{
    const struct sim_residual peak = memory_of(plan, NULL);
    double low = 1e-6, high = 1e6;
    for (int i = 0; i < 100; i++) {
        double middle = sqrt(low * high), room = (-log(middle) - peak.mean) / peak.deviation;
        *(0.5 * erfc(-room / sqrt(2)) >= 1 - risk_frac ? &low : &high) = middle;
    }
    return is_laid_out_as_run(plan) ? 1 : low;
}
