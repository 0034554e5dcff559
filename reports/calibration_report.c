/* A calibration: the resulting profile, and its meaning for people. */
#include "reports/reports.h"

#include <string.h>

static void put_start(struct base_json_writer *w, const struct reports_calibration *report)
{
    const struct base_json *given = base_json_get(report->start, "constants");
    for (const struct base_json *one = given ? given->child : NULL; one; one = one->next) {
        bool fitted = false;
        for (int i = 0; i < report->calibration->constant_count; i++)
            fitted = fitted || !strcmp(one->key, sim_constant_name(report->calibration->constants[i].constant));
        if (!fitted && one->kind == BASE_JSON_NUMBER) base_json_member_double(w, one->key, one->number);
    }
}

/* A share of the hardware's peak that is close to 1 has absorbed another effect. */
static bool is_at_limit(const struct sim_calibrated *k)
{
    const double near_one = 0.97;
    const char *name = sim_constant_name(k->constant), *end = strstr(name, "_efficiency_frac");
    return end && k->after >= near_one;
}

static void put_untold(struct base_json_writer *w, const struct sim_calibration *c)
{
    base_json_member_open_inline(w, "hardly_told", '[');
    for (int i = 0; i < c->untold_count; i++) base_json_put_string(w, sim_constant_name(c->untold[i]));
    base_json_close(w, ']');
    base_json_member_open(w, "not_told_apart", '[');
    for (int i = 0; i < c->confounded_count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "constant", sim_constant_name(c->confounded[i].one));
        base_json_member_string(w, "other", sim_constant_name(c->confounded[i].other));
        base_json_member_double(w, "correlation", c->confounded[i].correlation);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_fitted(struct base_json_writer *w, const struct sim_calibration *c)
{
    base_json_member_open(w, "fitted", '[');
    for (int i = 0; i < c->constant_count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "constant", sim_constant_name(c->constants[i].constant));
        base_json_member_double(w, "before", c->constants[i].before);
        base_json_member_double(w, "value", c->constants[i].after);
        base_json_member_double(w, "low_95", c->constants[i].low);
        base_json_member_double(w, "high_95", c->constants[i].high);
        if (is_at_limit(&c->constants[i])) base_json_member_bool(w, "at_physical_limit", true);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_error(struct base_json_writer *w, const char *key, struct sim_calibration_error error)
{
    base_json_member_open_inline(w, key, '{');
    base_json_member_double(w, "mean_error_frac", error.mean_frac);
    base_json_member_double(w, "median_error_frac", error.median_frac);
    base_json_close(w, '}');
}

static void put_steps(struct base_json_writer *w, const struct reports_calibration *report)
{
    const struct sim_calibration *c = report->calibration;
    base_json_member_open(w, "measurements", '[');
    for (int i = 0; i < report->measurement_count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "from", report->measurements[i].place);
        base_json_member_double(w, "measured_step_s", report->measurements[i].step_s);
        base_json_member_double(w, "before_s", c->predicted_before_s[i]);
        base_json_member_double(w, "after_s", c->predicted_after_s[i]);
        base_json_member_double(w, "cross_validated_s", c->cross_validated_s[i]);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_holdout(struct base_json_writer *w, const struct sim_holdout *holdout)
{
    if (!holdout->fitted_count) return;
    base_json_member_open_inline(w, "holdout", '{');
    base_json_member_int(w, "fitted_count", holdout->fitted_count);
    base_json_member_int(w, "judged_count", holdout->judged_count);
    base_json_member_int(w, "draw_count", holdout->draw_count);
    base_json_member_double(w, "median_error_frac", holdout->median_frac);
    base_json_member_double(w, "low_error_frac", holdout->low_frac);
    base_json_member_double(w, "high_error_frac", holdout->high_frac);
    base_json_close(w, '}');
}

static const char *name_of(const struct reports_calibration *report)
{
    return report->name ? report->name : report->calibration->chip;
}

void reports_calibration_json(const struct reports_calibration *report, enum base_json_layout layout,
                              struct base_text *out)
{
    const struct sim_calibration *c = report->calibration;
    struct base_json_writer w = {.text = out, .layout = layout};
    base_json_open(&w, '{');
    base_json_member_string(&w, "name", name_of(report));
    base_json_member_open(&w, "constants", '{');
    put_start(&w, report);
    for (int i = 0; i < c->constant_count; i++)
        base_json_member_double(&w, sim_constant_name(c->constants[i].constant), c->constants[i].after);
    base_json_close(&w, '}');
    sim_profile_put_passes(report->start, &w);
    base_json_member_open(&w, "calibration", '{');
    base_json_member_string(&w, "chip", c->chip);
    put_fitted(&w, c);
    put_untold(&w, c);
    put_error(&w, "before", c->before);
    put_error(&w, "after", c->after);
    put_error(&w, "cross_validated", c->cross_validated);
    base_json_member_int(&w, "fold_count", c->fold_count);
    put_holdout(&w, &c->holdout);
    put_steps(&w, report);
    base_json_close(&w, '}');
    base_json_close(&w, '}');
}

static void text_limits(const struct sim_calibration *c, struct base_text *out)
{
    for (int i = 0; i < c->constant_count; i++) {
        const struct sim_calibrated *k = &c->constants[i];
        if (!is_at_limit(k)) continue;
        base_putf(
            out,
            "\n%s is at its physical limit: %.1f %% of the hardware's peak, which no program reaches. The fit "
            "compensates for\nanother effect with it. Measure steps that differ in it before trusting other plans.\n",
            sim_constant_name(k->constant), 100 * k->after);
    }
}

/* Wide enough for every name of a constant. */
static void text_constants(const struct sim_calibration *c, struct base_text *out)
{
    base_putf(out, "  %-32s %10s %10s  %s\n", "constant", "before", "fitted", "95 % interval");
    for (int i = 0; i < c->constant_count; i++) {
        const struct sim_calibrated *k = &c->constants[i];
        base_putf(out, "  %-32s %10.4g %10.4g  %.4g to %.4g\n", sim_constant_name(k->constant), k->before, k->after,
                  k->low, k->high);
    }
}

/* Constants that the measurements do not determine. */
static void text_untold(const struct sim_calibration *c, struct base_text *out)
{
    for (int i = 0; i < c->untold_count; i++)
        base_putf(out, "%s%s", i ? ", " : "\nThese steps hardly determine ", sim_constant_name(c->untold[i]));
    if (c->untold_count)
        base_put(out, ", which keep their uncertainty:\nmeasure plans that depend on them before relying on them.\n");
    for (int i = 0; i < c->confounded_count; i++)
        base_putf(out,
                  "\nThese steps cannot distinguish %s from %s (correlation %.2f): one may compensate for the other.\n",
                  sim_constant_name(c->confounded[i].one), sim_constant_name(c->confounded[i].other),
                  c->confounded[i].correlation);
}

static void text_error(const char *what, struct sim_calibration_error error, struct base_text *out)
{
    base_putf(out, "  %-40s mean %5.1f %%, median %5.1f %%\n", what, 100 * error.mean_frac, 100 * error.median_frac);
}

static void text_holdout(const struct sim_holdout *holdout, struct base_text *out)
{
    if (!holdout->fitted_count) return;
    base_putf(out,
              "\nfitted to %d random measurements, mean error on the other %d: median %.1f %% over %d draws, %.1f to "
              "%.1f %%\n",
              holdout->fitted_count, holdout->judged_count, 100 * holdout->median_frac, holdout->draw_count,
              100 * holdout->low_frac, 100 * holdout->high_frac);
}

void reports_calibration_text(const struct reports_calibration *report, const char *path, struct base_text *out)
{
    const struct sim_calibration *c = report->calibration;
    base_putf(out, "%s: %d constant%s fitted to %d measured steps\n\n", name_of(report), c->constant_count,
              c->constant_count == 1 ? "" : "s", report->measurement_count);
    text_constants(c, out);
    text_limits(c, out);
    text_untold(c, out);
    base_put(out, "\nerror of step time\n");
    text_error("before", c->before, out);
    text_error("after, in-sample", c->after, out);
    text_error("each predicted by a fit without it", c->cross_validated, out);
    text_holdout(&c->holdout, out);
    if (c->cross_validated.mean_frac >= c->before.mean_frac)
        base_put(out,
                 "\nThe fit predicts no better than the starting profile: measure more steps, of different plans.\n");
    if (path) base_putf(out, "\nwritten: %s; use it with `--profile %s`\n", path, path);
}
