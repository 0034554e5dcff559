/* Private to sim/: robust nonlinear least squares (least_squares.c, the only file that sees GSL). */
#ifndef SIM_FIT_H
#define SIM_FIT_H

#include "sim/predict/predict.h"

struct sim_fit_problem {
    int parameter_count;   /* at most SIM_MOST_CALIBRATED */
    int residual_count;    /* at least parameter_count */
    int observation_count; /* the first so many residuals come from measurements, and may be outliers; the rest never
                              are */
    double start[SIM_MOST_CALIBRATED];
    /* Fills out[residual_count], each residual over its standard deviation; false ends the fit. */
    bool (*residuals)(void *where, const double *parameters, double *out);
    void *where;
};

/* A minimum, with the standard deviation and the correlation of the parameters. */
struct sim_fit {
    double parameters[SIM_MOST_CALIBRATED], deviations[SIM_MOST_CALIBRATED],
        correlations[SIM_MOST_CALIBRATED][SIM_MOST_CALIBRATED];
};

/* Outliers lose weight by Huber's function. BASE_INTERNAL: no memory, or residuals ended the fit. */
enum base_status sim_fit_solve(const struct sim_fit_problem *problem, struct sim_fit *out, struct base_error *error);

#endif
