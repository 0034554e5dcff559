/* plots: charts in data terms, drawn as SVG, PDF or PNG. A chart answers one question; its title is the finding.
 * Every picture is 700 px wide and as high as its rows need. The same request gives the same bytes with the same fonts.
 */
#ifndef PLOTS_H
#define PLOTS_H

#include "sim/predict/predict.h"
#include "topo/topo.h"

/* ---- pictures ---- */

enum plots_format { PLOTS_SVG, PLOTS_PDF, PLOTS_PNG };
/* Loads Cairo at the first call. BASE_INTERNAL: it is not installed. */
enum base_status plots_ready(struct base_error *error);
/* By the ending of the file's name; BASE_INPUT for any other ending. */
enum base_status plots_format_parse(const char *path, enum plots_format *out, struct base_error *error);

struct plots_picture {
    const char *title, *subtitle; /* heading */
    int row_count;                /* rows of the input, all of which the picture shows */
    struct base_text bytes;       /* the file's contents */
};

/* The colours of all charts as CSS variables: of light pages, and of dark ones. */
void plots_put_page_colours(struct base_text *out);

/* Text in SVG and HTML; bytes that are not UTF-8 become U+FFFD (svg.c). */
void plots_put_escaped(struct base_text *out, const char *text);

/* A chart of an answer, a JSON document that a command wrote. */
struct plots_request {
    const char *path;                         /* of the document, for messages */
    const struct base_json *document, *other; /* other: of two, the second; else NULL */
    enum plots_format format;
    double width_px; /* 0: 700 */
};

/* ---- a prediction: output of `predict --detail --json` ---- */

/* Memory of one device over the step. */
enum base_status plots_memory(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                              struct base_error *error);
/* The parts of the step's time; of a run, too. */
enum base_status plots_time(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                            struct base_error *error);
/* Its operations, the thirty longest. */
enum base_status plots_operations(struct base_arena *arena, const struct plots_request *request,
                                  struct plots_picture *out, struct base_error *error);

/* A pipeline's schedule: stages down, time across. BASE_INPUT: the plan has one stage, or too many passes to be drawn.
 */
enum base_status plots_schedule(struct base_arena *arena, const struct plots_request *request,
                                struct plots_picture *out, struct base_error *error);
/* Its contractions under the roofs of the chip. */
enum base_status plots_roofline(struct base_arena *arena, const struct plots_request *request,
                                struct plots_picture *out, struct base_error *error);
/* From document to other: time and memory by part. */
enum base_status plots_difference(struct base_arena *arena, const struct plots_request *request,
                                  struct plots_picture *out, struct base_error *error);

/* ---- many predictions of one plan: {"plan", "mesh", "rows": [{"series", "batch_size", "device_count", "topology",
 * "tokens_per_s", "peak_bytes", "capacity_bytes", "fits"}]} ---- */

/* Tokens per second against the batch, a line a number of microbatches, and where memory ends. */
enum base_status plots_batch(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                             struct base_error *error);
/* The same over slices of one generation. */
enum base_status plots_scaling(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                               struct base_error *error);

/* ---- a mesh: output of `mesh --json` ---- */

/* The device of each rank on each axis. */
enum base_status plots_mesh(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                            struct base_error *error);

/* ---- a search: output of `tune --json` ---- */

/* Tokens per second against peak memory: the front of `tune --pareto`, and explored plans (--detail). */
enum base_status plots_pareto(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                              struct base_error *error);
/* The front of latency against tokens of a search of plans of inference. */
enum base_status plots_latency(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                               struct base_error *error);
/* The best plan with one choice changed. */
enum base_status plots_sensitivity(struct base_arena *arena, const struct plots_request *request,
                                   struct plots_picture *out, struct base_error *error);

#endif
