/* Private to commands/: sources of charts of a plan. */
#ifndef COMMANDS_PLOT_DOCUMENTS_H
#define COMMANDS_PLOT_DOCUMENTS_H

#include "commands/commands.h"
#include "plots/plots.h"

/* Each reads path, a plan (JSON or gin) or a saved answer, and makes the JSON document. BASE_INPUT names it. */
typedef enum base_status commands_make_document(struct commands_context *context, const char *path,
                                                const struct base_json **out, struct base_error *error);
/* Unchanged. */
commands_make_document commands_saved_document;
/* An answer of predict or run; of a plan the prediction with its detail. */
commands_make_document commands_answer_document;
/* A search with its sensitivity; of one without, its best plan with that plan's neighbours; of a plan the same. */
commands_make_document commands_choices_document;
/* The document of `mesh --json`; for a plan that of its mesh. */
commands_make_document commands_mesh_document;
/* Predictions of the plan with batches from a sixteenth to sixteen times its own, in 1 to 32 microbatches. */
commands_make_document commands_batch_document;
/* Predictions of the plan on slices of its chip, with its batch, and with its batch a device. */
commands_make_document commands_scaling_document;

#endif
