/* sim: what a plan costs. Reads a plan, shards the program, and prices it: memory by liveness, time per kernel from
 * matrix units and memory bandwidth, collectives on the links that their groups use. */
#ifndef SIM_H
#define SIM_H

#include "sim/priced_plan.h"

/* ---- calibration (calibration.c): which constants explain what was measured ---- */

enum { SIM_MOST_CALIBRATED = 5 };
struct sim_measurement {
    struct sim_plan_text plan;
    const char *place; /* "runs.csv: line 7": for messages */
    double step_s;
    double communication_s; /* of one device in that step; negative: not measured */
};
struct sim_calibrated {
    enum sim_constant constant;
    double before, after, low, high; /* 95 % of its distribution */
};
/* Two that the measurements do not tell apart: the correlation of their logarithms. */
struct sim_confounded {
    enum sim_constant one, other;
    double correlation;
};
struct sim_calibration_error {
    double mean_frac, median_frac;
}; /* of |predicted / measured - 1| of step times */
/* Constants fitted to a few measurements drawn at random, judged on all the others; draw after draw. */
struct sim_holdout {
    int fitted_count, judged_count, draw_count; /* of measurements; fitted_count 0: nobody asked */
    double median_frac, low_frac, high_frac;    /* of the draws' mean errors; the least and the largest */
};
struct sim_calibration {
    char chip[64];
    struct sim_calibrated constants[SIM_MOST_CALIBRATED];
    int constant_count, fold_count;
    enum sim_constant untold[SIM_MOST_CALIBRATED]; /* move predictions, but are as uncertain as before */
    struct sim_confounded confounded[SIM_MOST_CALIBRATED * (SIM_MOST_CALIBRATED - 1) / 2];
    int untold_count, confounded_count;
    struct sim_calibration_error before, after, cross_validated;
    struct sim_holdout holdout;
    double *predicted_before_s, *predicted_after_s,
        *cross_validated_s; /* per measurement; the last by a fit without it */
};
struct sim_calibrate {
    const struct base_json *start;              /* a profile document over the catalogue's constants, or NULL */
    const struct sim_measurement *measurements; /* of one chip */
    int count;
    void (*progress)(void *where, const char *what, int64_t done, int64_t total); /* or NULL */
    void *progress_where;
    int fitted_count,
        draw_count; /* of a hold-out: measurements of each draw, at least 2 and not all; 0: none is made */
    int64_t seed;
};
/* Robust least squares around the constants that are there; at most five move. Deterministic. BASE_INPUT names the
 * measurement whose plan is refused, or that is of another chip. The cache is left with start as its override. */
enum base_status sim_calibrate(struct sim_cache *cache, struct base_arena *arena, const struct sim_calibrate *request,
                               struct sim_calibration *out, struct base_error *error);

/* ---- what the TPU compiler's cost model says (compiler_cycles.c) ---- */

/* The chips of compiler_cycles.csv and compiler_fusions.csv, as words to choose from. */
#define SIM_COMPILER_CHIPS "v2|v3|v4|v5e|v5p|v6e|tpu7x"
struct sim_compiled_product {
    struct sim_product extents; /* on one device, at least 1 each */
    enum model_dtype operands, result;
    bool is_fetched[2]; /* the compiler had the operand brought to vector memory before: a copy beside other work */
    /* of arrays whose last dimension is the other than of rows x contracted, contracted x columns */
    bool is_transposed[2];
};
struct sim_compiler_cycles {
    double cycles, time_s;     /* of the device: all of its cores together */
    struct sim_product window; /* what one core multiplies at a time, padded to whole registers */
    bool is_fetched[2];        /* as in the question */
};
/* Which operands the compiler brings to vector memory (v4: CMEM) before the product: it depends on the program. */
enum sim_surroundings {
    SIM_SURROUNDED_BY_WEIGHTS, /* as by OTHERS, and a large weight lies there from the program's start */
    SIM_SURROUNDED_BY_OTHERS,  /* work before it lasts long enough to hide the copies: as many operands as fit */
    SIM_SURROUNDED_BY_NOTHING, /* the program is the product: one operand, copied behind the program before */
    SIM_SURROUNDED_IN_HBM,     /* whatever else there is, both are read from HBM */
};
/* Sets is_fetched of a product whose extents, operands' dtype and is_transposed are there. Errors as below. */
enum base_status sim_compiler_fetches(const char *chip, enum sim_surroundings surroundings,
                                      struct sim_compiled_product *product, struct base_error *error);

/* Of libtpu 0.0.42.1, without what is fused to the product; estimates, not measurements. chip: as in topo's catalogue.
 * BASE_INPUT for chips without constants (compiler_cycles.csv). */
enum base_status sim_compiler_product(const char *chip, const struct sim_compiled_product *product,
                                      struct sim_compiler_cycles *out, struct base_error *error);

/* A fusion without products (compiler_fusions.c). */
enum { SIM_MOST_COMPILED_ARRAYS = 32 };
struct sim_compiled_array {
    enum model_dtype dtype;
    int rank;
    int64_t shape[MODEL_MAX_RANK]; /* on one device */
};
struct sim_compiled_arrays {
    int count;
    struct sim_compiled_array of[SIM_MOST_COMPILED_ARRAYS];
};
struct sim_compiled_fusion {
    struct sim_compiled_arrays operands, results; /* at least one each */
    bool is_alone;                                /* one operation, that the compiler fused to nothing */
    bool is_summing; /* rows of its operands are summed and read again, as in softmax and its derivative */
};
/* "float32[1024,4096];bfloat16[4096]" */
enum base_status sim_compiled_arrays_parse(struct base_arena *arena, const char *text, struct sim_compiled_arrays *out,
                                           struct base_error *error);
/* As sim_compiler_product; the window is not said. */
enum base_status sim_compiler_fusion(const char *chip, const struct sim_compiled_fusion *fusion,
                                     struct sim_compiler_cycles *out, struct base_error *error);

#endif
