/* The only user of GSL: Levenberg-Marquardt with finite differences, reweighted so that outliers count for little. */
#include "sim/predict/least_squares.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>

enum { MOST_ITERATIONS = 40, REWEIGHTINGS = 4 };

/* Huber's constant for 95 % efficiency with normal errors; the factor from a median of absolute values to a standard
 * deviation. */
static const double huber = 1.345, normal_of_median = 1.4826;

/* A constant to five digits is more than measurements give. */
static const double tolerance = 1e-5;

/* GSL's objects for one fit. */
struct workspace {
    const struct sim_fit_problem *problem;
    gsl_multifit_nlinear_workspace *solver;
    gsl_vector *start, *weights, *raw, *residuals, *sorted;
    gsl_matrix *covariance;
};

/* GSL's finite difference is a share of the value, so that the fitted value is one more than each parameter. */
static void parameters_of(const gsl_vector *at, double *out)
{
    for (size_t i = 0; i < at->size; i++) out[i] = gsl_vector_get(at, i) - 1;
}

static int evaluate(const gsl_vector *at, void *where, gsl_vector *out)
{
    const struct workspace *w = where;
    double parameters[SIM_MOST_CALIBRATED];
    parameters_of(at, parameters);
    bool good = w->problem->residuals(w->problem->where, parameters, w->raw->data);
    for (int i = 0; good && i < w->problem->residual_count; i++) good = isfinite(w->raw->data[i]);
    if (good) gsl_vector_memcpy(out, w->raw); /* out may be a column of a matrix */
    return good ? GSL_SUCCESS : GSL_EBADFUNC;
}

static void release(struct workspace *w)
{
    if (w->solver) gsl_multifit_nlinear_free(w->solver);
    gsl_vector *vectors[] = {w->start, w->weights, w->raw, w->residuals, w->sorted};
    for (int i = 0; i < BASE_COUNT(vectors); i++)
        if (vectors[i]) gsl_vector_free(vectors[i]);
    if (w->covariance) gsl_matrix_free(w->covariance);
}

static bool acquire(const struct sim_fit_problem *problem, struct workspace *w)
{
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    size_t n = (size_t)problem->residual_count, p = (size_t)problem->parameter_count;
    parameters.h_df = 1e-4; /* a prediction is smooth at this scale, apart from its kinks */
    *w = (struct workspace){problem,
                            gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, n, p),
                            gsl_vector_alloc(p),
                            gsl_vector_alloc(n),
                            gsl_vector_alloc(n),
                            gsl_vector_alloc(n),
                            gsl_vector_alloc(n),
                            gsl_matrix_alloc(p, p)};
    bool whole = w->solver && w->start && w->weights && w->raw && w->residuals && w->sorted && w->covariance;
    for (int i = 0; whole && i < problem->parameter_count; i++)
        gsl_vector_set(w->start, (size_t)i, 1 + problem->start[i]);
    if (whole) gsl_vector_set_all(w->weights, 1);
    return whole;
}

static int solve_weighted(struct workspace *w)
{
    gsl_multifit_nlinear_fdf system = {.f = evaluate, .n = w->raw->size, .p = w->start->size, .params = w};
    int status = gsl_multifit_nlinear_winit(w->start, w->weights, &system, w->solver), reason;
    if (status != GSL_SUCCESS) return status;
    status =
        gsl_multifit_nlinear_driver(MOST_ITERATIONS, tolerance, tolerance, tolerance, NULL, NULL, &reason, w->solver);
    gsl_vector_memcpy(w->start, gsl_multifit_nlinear_position(w->solver));
    return status == GSL_EBADFUNC ? status
                                  : evaluate(w->start, w, w->residuals); /* a fit without progress has ended, too */
}

/* A measurement's deviation is that of the residuals, from their median, if that exceeds the assumed one; outliers
 * count less. The prior keeps its weight. */
static void reweight(const struct sim_fit_problem *problem, struct workspace *w)
{
    size_t n = (size_t)problem->observation_count;
    for (size_t i = 0; i < n; i++) w->sorted->data[i] = fabs(w->residuals->data[i]);
    gsl_sort(w->sorted->data, 1, n);
    double spread = fmax(1, normal_of_median * gsl_stats_median_from_sorted_data(w->sorted->data, 1, n));
    for (size_t i = 0; i < n; i++) {
        double distance = fabs(w->residuals->data[i]) / spread;
        w->weights->data[i] = (distance > huber ? huber / distance : 1) / (spread * spread);
    }
}

static void take(const struct sim_fit_problem *problem, struct workspace *w, struct sim_fit *out)
{
    gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(w->solver), 0, w->covariance);
    parameters_of(w->start, out->parameters);
    for (int i = 0; i < problem->parameter_count; i++)
        out->deviations[i] = sqrt(gsl_matrix_get(w->covariance, (size_t)i, (size_t)i));
    for (int i = 0; i < problem->parameter_count; i++)
        for (int j = 0; j < problem->parameter_count; j++)
            out->correlations[i][j] =
                gsl_matrix_get(w->covariance, (size_t)i, (size_t)j) / (out->deviations[i] * out->deviations[j]);
}

enum base_status sim_fit_solve(const struct sim_fit_problem *problem, struct sim_fit *out, struct base_error *error)
{
    gsl_error_handler_t *handler = gsl_set_error_handler_off(); /* which would abort */
    struct workspace w;
    int status = acquire(problem, &w) ? GSL_SUCCESS : GSL_ENOMEM;
    for (int i = 0; status == GSL_SUCCESS && i <= REWEIGHTINGS; i++) {
        if (i) reweight(problem, &w);
        status = solve_weighted(&w);
    }
    if (status == GSL_SUCCESS) take(problem, &w, out);
    release(&w);
    gsl_set_error_handler(handler);
    return status == GSL_SUCCESS ? BASE_OK : base_fail(error, BASE_INTERNAL, "calibration: %s", gsl_strerror(status));
}
