/* Charts of a sweep's table: how far are predictions from measurements? */
#ifndef LAB_COMPARISON_H
#define LAB_COMPARISON_H

#include "plots/canvas.h"

/* ---- comparison: how far are predictions from measurements, and are the out-of-memory verdicts right? ---- */

enum lab_memory_verdict { LAB_MEMORY_UNKNOWN, LAB_MEMORY_FITS, LAB_MEMORY_EXCEEDED };

/* A number that is not known is NAN. Strings belong to the arena of the request. */
struct lab_comparison_row {
    const char *id, *model, *topology;
    const char *plan[SIM_KEY_COUNT]; /* as the table spells them, in the order of lab_plan_key; "" where the default
                                        is shown */
    double measured_step_s, predicted_step_s;
    double measured_tokens_per_s, predicted_tokens_per_s;
    double measured_peak_memory_bytes, predicted_peak_memory_bytes; /* of one device */
    enum lab_memory_verdict measured, predicted;
    const char *error; /* why there is no prediction; "" */
};

struct lab_comparison {
    const struct lab_comparison_row *rows;
    int count;
};

/* Reads the table that `meshwright sweep` writes. BASE_INPUT, naming line and column, when a column is missing, a cell
 * is no number, or there is no row. */
enum base_status lab_comparison_read(struct base_arena *arena, const char *path, struct lab_comparison *out,
                                     struct base_error *error);
/* Up to 60 rows get a pair of bars each; more are drawn as lab_parity draws them. At least one row. */
enum base_status lab_comparison_draw(struct base_arena *arena, const struct lab_comparison *comparison,
                                     enum plots_format format, double width_px, struct plots_picture *out,
                                     struct base_error *error);

/* Errors of step time by kind of plan; width_px 0: 700. BASE_INPUT: no row is measured and predicted. */
enum base_status lab_trust(struct base_arena *arena, const struct lab_comparison *comparison, enum plots_format format,
                           double width_px, struct plots_picture *out, struct base_error *error);

/* Predicted against measured tokens per second; as lab_trust. */
enum base_status lab_parity(struct base_arena *arena, const struct lab_comparison *comparison, enum plots_format format,
                            double width_px, struct plots_picture *out, struct base_error *error);

/* ---- shared by these charts: the finding, and a row's label ---- */

/* The keys of a plan shown with model and topology: a column if rows differ in it, else words in the heading. The most
 * important first; NULL after the last. */
const struct sim_plan_key *lab_plan_key(int place);
/* "4 microbatches", "1 microbatch", "rules standard:1,1": a row's cell of that place in words, behind `separator`;
 * nothing where it is empty. */
void lab_put_key(struct base_text *out, const struct lab_comparison_row *row, int place, const char *separator);

struct lab_finding {
    int pair_count;           /* rows with a measured and a predicted step time */
    double mean_error_frac;   /* mean of the absolute errors */
    double median_error_frac; /* with its sign; positive: predicted slower than measured */
    double worst_error_frac;  /* the largest in size, with its sign */
    int exceeded_count;       /* rows with a prediction that ran out of memory … */
    int exceeded_right_count; /* … and were predicted to */
    int false_alarm_count;    /* rows that ran although predicted not to fit */
    int unpredicted_count, unmeasured_count;
};

/* Predicted over measured step time, less one; NAN where either is unknown, or where the
 * run died for want of memory. From tokens/s where a step time is missing. */
double lab_step_error_frac(const struct lab_comparison_row *row);
/* Errors beyond 10 % are marked. */
extern const double lab_large_error_frac;
bool lab_error_is_large(double error_frac);
struct lab_finding lab_find(struct base_arena *arena, const struct lab_comparison *comparison);
const char *lab_finding_title(struct base_arena *arena, const struct lab_finding *finding);
const char *lab_comparison_subtitle(struct base_arena *arena, const struct lab_comparison *comparison,
                                    const struct lab_finding *finding);

/* "+5.2 %", with a true minus sign. */
const char *lab_percent(struct base_arena *arena, double frac);
/* Both verdicts on memory: "ran out of memory; predicted not to fit", and whether they "agree" or "disagree" ("": one
 * of them is unknown). */
struct lab_note {
    const char *text, *verdict;
    bool disagrees;
};
/* Of a row, with its predicted memory or its error; text is NULL for a plan that ran as predicted: its bars say all. */
struct lab_note lab_row_note(struct base_arena *arena, const struct lab_comparison_row *row);
/* The whole row in words, for a hover. */
const char *lab_row_words(struct base_arena *arena, const struct lab_comparison_row *row);
/* A model as a person would say it: an inline model's family and main sizes. *rest: its other keys, or "". */
const char *lab_model_words(struct base_arena *arena, const char *model, const char **rest);

void lab_comparison_bars(struct plots_canvas *canvas, const struct lab_comparison *comparison);

#endif
