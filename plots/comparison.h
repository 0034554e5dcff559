/* Shared by the charts of a sweep's table: the finding, and a row's label. */
#ifndef PLOTS_COMPARISON_H
#define PLOTS_COMPARISON_H

#include "plots/canvas.h"

/* The keys of a plan shown with model and topology: a column if rows differ in it, else words in the heading. The most
 * important first; NULL after the last. */
const struct sim_plan_key *plots_plan_key(int place);
/* "4 microbatches", "1 microbatch", "rules standard:1,1": a row's cell of that place in words, behind `separator`;
 * nothing where it is empty. */
void plots_put_key(struct base_text *out, const struct plots_comparison_row *row, int place, const char *separator);

struct plots_finding {
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
double plots_step_error_frac(const struct plots_comparison_row *row);
/* Errors beyond 10 % are marked. */
extern const double plots_large_error_frac;
bool plots_error_is_large(double error_frac);
struct plots_finding plots_find(struct base_arena *arena, const struct plots_comparison *comparison);
const char *plots_finding_title(struct base_arena *arena, const struct plots_finding *finding);
const char *plots_comparison_subtitle(struct base_arena *arena, const struct plots_comparison *comparison,
                                      const struct plots_finding *finding);

/* "+5.2 %", with a true minus sign. */
const char *plots_percent(struct base_arena *arena, double frac);
/* Both verdicts on memory: "ran out of memory; predicted not to fit", and whether they "agree" or "disagree" ("": one
 * of them is unknown). */
struct plots_note {
    const char *text, *verdict;
    bool disagrees;
};
/* Of a row, with its predicted memory or its error; text is NULL for a plan that ran as predicted: its bars say all. */
struct plots_note plots_row_note(struct base_arena *arena, const struct plots_comparison_row *row);
/* The whole row in words, for a hover. */
const char *plots_row_words(struct base_arena *arena, const struct plots_comparison_row *row);
/* A model as a person would say it: an inline model's family and main sizes. *rest: its other keys, or "". */
const char *plots_model_words(struct base_arena *arena, const char *model, const char **rest);

void plots_comparison_bars(struct plots_canvas *canvas, const struct plots_comparison *comparison);

#endif
