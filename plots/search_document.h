/* Private to plots/: reads the JSON output of commands. */
#ifndef PLOTS_SEARCH_DOCUMENT_H
#define PLOTS_SEARCH_DOCUMENT_H

#include "plots/canvas.h"

/* Heading of every picture of a search: model, topology, batch, number of plans. BASE_INPUT: not a search, or no plan
 * found. */
enum base_status plots_search_check(struct base_arena *arena, const struct plots_request *request,
                                    const char **subtitle, struct base_error *error);
/* "t5_1_0_11B on v4-512, data 16 x model 16, batch 896, …": an answer's subject, from its plan and mesh. */
const char *plots_answer_words(struct base_arena *arena, const struct base_json *document);
/* What a plan may fill of a device, of a "memory" or of a plan in a list: older answers have the capacity alone. */
double plots_available_bytes(const struct base_json *memory);
/* Subject of a timeline: "step", or "answer" with several decode steps; and its duration (NAN: unknown). */
const char *plots_whole(const struct base_json *document, double *whole_s);
struct plots_canvas plots_canvas_of(struct base_arena *arena, const struct plots_request *request);
/* "2,2,1,1 · standard:2,2 · 4 microbatches" */
const char *plots_plan_words(struct base_arena *arena, const struct base_json *plan);
/* "batch 8192 in 32 · 2,2,1,1 · standard:2,2": where plans differ in their batches. */
const char *plots_batch_and_plan_words(struct base_arena *arena, const struct base_json *plan);
enum base_status plots_finish(struct plots_canvas *canvas, enum plots_format format, int row_count,
                              struct plots_picture *out, struct base_error *error);

#endif
