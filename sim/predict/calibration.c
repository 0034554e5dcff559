/* Calibration: fits a profile's constants to measurements. The profile's value is the prior, so few measurements move a
 * constant only a little. A constant without influence keeps its value. */
#include "sim/predict/least_squares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Constants that may move: a rate itself if the catalogue's is of another machine, else the share of the stated rate.
 */
static const enum sim_constant of_rates[SIM_MOST_CALIBRATED] = {SIM_FLOP_PER_S, SIM_HBM_BYTES_PER_S,
                                                                SIM_LINK_BYTES_PER_S, SIM_KERNEL_LATENCY_S,
                                                                SIM_MULTI_AXIS_LINK_EFFICIENCY_FRAC};
static const enum sim_constant of_shares[SIM_MOST_CALIBRATED] = {SIM_MATMUL_EFFICIENCY_FRAC, SIM_HBM_EFFICIENCY_FRAC,
                                                                 SIM_LINK_EFFICIENCY_FRAC, SIM_COLLECTIVE_LATENCY_S,
                                                                 SIM_MULTI_AXIS_LINK_EFFICIENCY_FRAC};

/* Repeated measurements of a step differ by a few per cent, and the best prediction is off by as much. */
static const double step_deviation = 0.05;

/* A constant whose change by a tenth moves no step by this much cannot be fitted. */
static const double least_influence = 1e-4;

/* Nor can a constant that stays nearly as uncertain as before, nor two that are strongly correlated. */
static const double most_untold = 0.9, most_correlated = 0.9;

struct calibrating {
    struct sim_cache *cache;
    const struct base_json *start; /* the profile document that is calibrated further, or NULL */
    const struct sim_measurement *measurements;
    int count;
    struct sim_profile profile; /* of the chip, before */
    enum topo_kind kind;
    enum sim_constant constants[SIM_MOST_CALIBRATED];
    double before[SIM_MOST_CALIBRATED], deviations[SIM_MOST_CALIBRATED];
    int constant_count;
    bool *left_out; /* per measurement: the fit does not see it */
    struct sim_step {
        double step_s, communication_s;
    } * steps;           /* per measurement */
    base_tell *progress; /* or NULL */
    void *progress_where;
    bool out_of_memory;
    struct base_error *error;
};

/* Prior standard deviation of a constant's logarithm. A local profile is another machine's: a factor of two. A vendor's
 * or a measured share is good to about a tenth, an assumed one to a third. */
static double trust(const struct calibrating *c, enum sim_constant constant)
{
    const char *source = c->profile.kinds[constant];
    if (c->kind == TOPO_LOCAL) return log(2);
    return source && !strcmp(source, "assumed") ? 0.3 : 0.1;
}

/* ---- predictions under other constants ---- */

/* No share is more than the whole. */
static double value_at(const struct calibrating *c, int k, double parameter)
{
    double value = c->before[k] * exp(parameter);
    return c->kind != TOPO_LOCAL && c->constants[k] != SIM_COLLECTIVE_LATENCY_S ? fmin(value, 1) : value;
}

/* The profile document with these parameters (logarithms of factors) applied to the starting one. */
static const struct base_json *document_at(struct base_arena *arena, const struct calibrating *c,
                                           const double *parameters)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer w = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    const struct base_json *given = base_json_get(c->start, "constants"), *document = NULL;
    struct base_error ignored;
    base_json_open(&w, '{');
    base_json_member_open(&w, "constants", '{');
    for (const struct base_json *one = given ? given->child : NULL; one; one = one->next) {
        bool fitted = false;
        for (int i = 0; i < c->constant_count; i++)
            fitted = fitted || !strcmp(one->key, sim_constant_name(c->constants[i]));
        if (!fitted && one->kind == BASE_JSON_NUMBER) base_json_member_double(&w, one->key, one->number);
    }
    for (int i = 0; i < c->constant_count; i++)
        base_json_member_double(&w, sim_constant_name(c->constants[i]), value_at(c, i, parameters[i]));
    base_json_close(&w, '}');
    sim_profile_put_passes(c->start, &w);
    base_json_close(&w, '}');
    return base_json_parse(arena, text.data, text.length, &document, &ignored) == BASE_OK ? document : NULL;
}

static enum base_status predict_one(struct calibrating *c, struct base_arena *arena, int i)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    BASE_TRY(
        sim_plan_check(c->cache, arena, &c->measurements[i].plan, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, c->error));
    BASE_TRY(sim_predict(c->cache, &plan, &prediction, NULL, c->error));
    c->steps[i] = (struct sim_step){prediction.step_s, prediction.communication_s};
    return BASE_OK;
}

enum who { ALL, FITTED };

/* Out of memory inside a fit would jump over GSL's allocations; it ends the fit instead. */
static bool predict(struct calibrating *c, const double *parameters, enum who who)
{
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    volatile bool good = true; /* it is set behind setjmp */
    if (setjmp(exhausted)) {
        c->out_of_memory = true;
        good = false;
    } else {
        sim_cache_override(c->cache, document_at(&arena, c, parameters));
        for (int i = 0; good && i < c->count; i++)
            if (who == ALL || !c->left_out[i]) good = predict_one(c, &arena, i) == BASE_OK;
    }
    sim_cache_override(c->cache, c->start);
    base_arena_free(&arena);
    return good;
}

/* ---- the fit ---- */

static int observations_of(const struct sim_measurement *m)
{
    return m->communication_s >= 0 ? 2 : 1;
}

/* The residual of a step's time is a ratio. Where communication was measured, its residual is a share of the step. */
static bool residuals(void *where, const double *parameters, double *out)
{
    struct calibrating *c = where;
    if (!predict(c, parameters, FITTED)) return false;
    for (int i = 0; i < c->count; i++) {
        const struct sim_measurement *m = &c->measurements[i];
        if (c->left_out[i]) continue;
        *out++ = log(c->steps[i].step_s / m->step_s) / step_deviation;
        if (m->communication_s >= 0)
            *out++ = (c->steps[i].communication_s - m->communication_s) / m->step_s / step_deviation;
    }
    for (int k = 0; k < c->constant_count; k++) *out++ = parameters[k] / c->deviations[k];
    return true;
}

/* near: the starting point, or NULL for the prior. */
static enum base_status fit(struct calibrating *c, const struct sim_fit *near, struct sim_fit *out)
{
    struct sim_fit_problem problem = {.parameter_count = c->constant_count, .residuals = residuals, .where = c};
    if (near) memcpy(problem.start, near->parameters, sizeof problem.start);
    for (int i = 0; i < c->count; i++)
        if (!c->left_out[i]) problem.observation_count += observations_of(&c->measurements[i]);
    problem.residual_count = problem.observation_count + c->constant_count;
    *c->error = (struct base_error){0};
    struct base_error failure;
    enum base_status status = sim_fit_solve(&problem, out, &failure);
    if (status != BASE_OK && c->error->status == BASE_OK) *c->error = failure; /* a refused prediction says more */
    return status == BASE_OK ? BASE_OK : c->error->status;
}

/* ---- constants that the measurements determine ---- */

static enum base_status check_measurements(struct calibrating *c, struct base_arena *arena)
{
    const char *chip = NULL;
    for (int i = 0; i < c->count; i++) {
        const struct sim_measurement *m = &c->measurements[i];
        struct sim_plan plan;
        enum base_status status =
            sim_plan_check(c->cache, arena, &m->plan, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, c->error);
        if (status != BASE_OK) return base_fail_in(c->error, "%s", m->place);
        const char *name = plan.placement->topology.chip.name;
        if (chip && strcmp(chip, name) != 0)
            return base_fail(c->error, BASE_INPUT,
                             "%s: was measured on %s, but earlier ones on %s; one profile is for one chip, so "
                             "calibrate each separately",
                             m->place, name, chip);
        if (chip) continue;
        chip = base_copy(arena, name);
        c->profile = plan.placement->profile;
        c->kind = plan.placement->topology.kind;
    }
    return BASE_OK;
}

/* The effect of a constant that is a tenth worse: the largest logarithm of a ratio of predictions. More than a tenth
 * would make one link's share less than that of several, which it bounds. */
static bool influence(struct calibrating *c, struct base_arena *arena, enum sim_constant constant, double *out)
{
    static const double as_it_is[SIM_MOST_CALIBRATED] = {0};
    const double less[SIM_MOST_CALIBRATED] = {log(0.9)};
    double *before_s = base_new(arena, double, c->count);
    c->constants[0] = constant;
    c->before[0] = c->profile.constants[constant];
    c->constant_count = 1;
    bool good = predict(c, as_it_is, ALL);
    for (int i = 0; i < c->count; i++) before_s[i] = c->steps[i].step_s;
    good = good && predict(c, less, ALL);
    *out = 0;
    for (int i = 0; good && i < c->count; i++) *out = fmax(*out, fabs(log(c->steps[i].step_s / before_s[i])));
    return good;
}

/* Constants that move no prediction are left as they are. */
static bool choose_constants(struct calibrating *c, struct base_arena *arena)
{
    const enum sim_constant *wanted = c->kind == TOPO_LOCAL ? of_rates : of_shares;
    enum sim_constant chosen[SIM_MOST_CALIBRATED];
    int count = 0;
    for (int k = 0; k < SIM_MOST_CALIBRATED; k++) {
        double moved = 0;
        if (!(c->profile.constants[wanted[k]] > 0)) continue;
        if (!influence(c, arena, wanted[k], &moved)) return false;
        if (moved >= least_influence) chosen[count++] = wanted[k];
    }
    for (c->constant_count = 0; c->constant_count < count; c->constant_count++) {
        enum sim_constant constant = chosen[c->constant_count];
        c->constants[c->constant_count] = constant;
        c->before[c->constant_count] = c->profile.constants[constant];
        c->deviations[c->constant_count] = trust(c, constant);
    }
    return true;
}

/* ---- how good it is ---- */

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, base_by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static struct sim_calibration_error error_of(struct base_arena *arena, const struct calibrating *c,
                                             const double *predicted_s)
{
    struct sim_calibration_error error = {0};
    double *off = base_new(arena, double, c->count);
    for (int i = 0; i < c->count; i++) {
        off[i] = fabs(predicted_s[i] / c->measurements[i].step_s - 1);
        error.mean_frac += off[i] / c->count;
    }
    error.median_frac = median(off, c->count);
    return error;
}

enum rows { ALL_ROWS, ROWS_LEFT_OUT };

static bool predict_at(struct calibrating *c, const double *parameters, double *out_s, enum rows rows)
{
    bool good = predict(c, parameters, ALL);
    for (int i = 0; good && i < c->count; i++)
        if (rows == ALL_ROWS || c->left_out[i]) out_s[i] = c->steps[i].step_s;
    return good;
}

/* Each measurement predicted by constants that were fitted without it. */
static enum base_status cross_validate(struct calibrating *c, const struct sim_fit *whole, int folds, double *out_s)
{
    for (int fold = 0; fold < folds; fold++) {
        struct sim_fit fitted;
        for (int i = 0; i < c->count; i++) c->left_out[i] = i % folds == fold;
        BASE_TRY(fit(c, whole, &fitted));
        if (!predict_at(c, fitted.parameters, out_s, ROWS_LEFT_OUT)) return c->error->status;
        if (c->progress) c->progress(c->progress_where, &(struct base_progress){"validated", fold + 1, folds, 0, 1});
    }
    memset(c->left_out, false, (size_t)c->count * sizeof *c->left_out);
    return BASE_OK;
}

/* ---- how few measurements do ---- */

/* Chooses a uniformly random subset of the measurements. */
static void draw(struct calibrating *c, struct base_random *random, int fitted_count)
{
    for (int i = 0, needed = fitted_count; i < c->count; i++) {
        const bool stays = base_random_below(random, c->count - i) < needed;
        c->left_out[i] = !stays;
        needed -= stays;
    }
}

/* The error of constants fitted to a few measurements, on the others. Every draw starts from the prior. */
static enum base_status hold_out(struct calibrating *c, struct base_arena *arena, const struct sim_calibrate *request,
                                 struct sim_holdout *out)
{
    const int others = c->count - request->fitted_count;
    double *means = base_new(arena, double, request->draw_count);
    struct base_random random;
    base_random_seed(&random, (uint64_t)request->seed);
    for (int d = 0; d < request->draw_count; d++) {
        struct sim_fit fitted;
        draw(c, &random, request->fitted_count);
        BASE_TRY(fit(c, NULL, &fitted));
        if (!predict(c, fitted.parameters, ALL)) return c->error->status;
        for (int i = 0; i < c->count; i++)
            if (c->left_out[i]) means[d] += fabs(c->steps[i].step_s / c->measurements[i].step_s - 1) / others;
        if (c->progress)
            c->progress(c->progress_where, &(struct base_progress){"drawn", d + 1, request->draw_count, 0, 1});
    }
    memset(c->left_out, false, (size_t)c->count * sizeof *c->left_out);
    *out = (struct sim_holdout){request->fitted_count, others, request->draw_count,
                                .median_frac = median(means, request->draw_count)};
    out->low_frac = means[0], out->high_frac = means[request->draw_count - 1]; /* median has sorted them */
    return BASE_OK;
}

static void note_constants(const struct calibrating *c, const struct sim_fit *fitted, struct sim_calibration *out)
{
    static const double z95 = 1.959964; /* a normal's 95 % lie within so many deviations */
    for (int k = 0; k < c->constant_count; k++) {
        double at = fitted->parameters[k], width = z95 * fitted->deviations[k];
        out->constants[k] = (struct sim_calibrated){c->constants[k], c->before[k], value_at(c, k, at),
                                                    value_at(c, k, at - width), value_at(c, k, at + width)};
    }
    out->constant_count = c->constant_count;
}

/* Constants that the fit determines hardly better than the prior. */
static void note_untold(const struct calibrating *c, const struct sim_fit *fitted, struct sim_calibration *out)
{
    for (int k = 0; k < c->constant_count; k++)
        if (fitted->deviations[k] > most_untold * c->deviations[k]) out->untold[out->untold_count++] = c->constants[k];
}

static void note_confounded(const struct calibrating *c, const struct sim_fit *fitted, struct sim_calibration *out)
{
    for (int i = 0; i < c->constant_count; i++)
        for (int j = i + 1; j < c->constant_count; j++)
            if (fabs(fitted->correlations[i][j]) > most_correlated)
                out->confounded[out->confounded_count++] =
                    (struct sim_confounded){c->constants[i], c->constants[j], fitted->correlations[i][j]};
}

static enum base_status calibrate(struct calibrating *c, struct base_arena *arena, const struct sim_calibrate *request,
                                  struct sim_calibration *out)
{
    enum { MOST_FOLDS = 10 };
    struct sim_fit fitted;
    double none[SIM_MOST_CALIBRATED] = {0};
    BASE_TRY(check_measurements(c, arena));
    memcpy(out->chip, c->profile.name, sizeof out->chip);
    if (!choose_constants(c, arena)) return c->error->status;
    if (!c->constant_count)
        return base_fail(
            c->error, BASE_INPUT,
            "calibrate: no constant moves these predictions by as much as a thousandth; measure longer steps");
    BASE_TRY(fit(c, NULL, &fitted));
    note_untold(c, &fitted, out);
    note_constants(c, &fitted, out);
    note_confounded(c, &fitted, out);
    out->predicted_before_s = base_new(arena, double, c->count);
    out->predicted_after_s = base_new(arena, double, c->count);
    out->cross_validated_s = base_new(arena, double, c->count);
    out->fold_count = c->count < MOST_FOLDS ? c->count : MOST_FOLDS;
    if (!predict_at(c, none, out->predicted_before_s, ALL_ROWS) ||
        !predict_at(c, fitted.parameters, out->predicted_after_s, ALL_ROWS))
        return c->error->status;
    BASE_TRY(cross_validate(c, &fitted, out->fold_count, out->cross_validated_s));
    out->before = error_of(arena, c, out->predicted_before_s);
    out->after = error_of(arena, c, out->predicted_after_s);
    out->cross_validated = error_of(arena, c, out->cross_validated_s);
    return request->fitted_count ? hold_out(c, arena, request, &out->holdout) : BASE_OK;
}

enum base_status sim_calibrate(struct sim_cache *cache, struct base_arena *arena, const struct sim_calibrate *request,
                               struct sim_calibration *out, struct base_error *error)
{
    int count = request->count;
    struct base_error inner = {0};
    struct sim_calibration answer = {0};
    if (count < 2)
        return base_fail(error, BASE_INPUT,
                         "calibrate: %s; at least two runs are needed; a dozen varied ones are better",
                         count ? "one measurement cannot be validated" : "no measurement found");
    if (request->fitted_count && (request->fitted_count < 2 || request->fitted_count >= count))
        return base_fail(error, BASE_INPUT,
                         count < 3 ? "--holdout: %d of %d measurements leaves none for the test; at least 3 are needed"
                                   : "--holdout: %d of %d measurements; use 2 to %d, and the others are the test",
                         request->fitted_count, count, count - 1);
    struct calibrating c = {.cache = cache,
                            .start = request->start,
                            .measurements = request->measurements,
                            .count = count,
                            .left_out = base_new(arena, bool, count),
                            .steps = base_new(arena, struct sim_step, count),
                            .progress = request->progress,
                            .progress_where = request->progress_where,
                            .error = &inner};
    enum base_status status = calibrate(&c, arena, request, &answer);
    if (c.out_of_memory) longjmp(*arena->exhausted, 1);
    if (status != BASE_OK) *error = inner;
    else *out = answer;
    return status;
}
