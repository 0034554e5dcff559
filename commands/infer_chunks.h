/* Private to commands/: inference chunk by chunk, so that a job that ends goes on where it was. */
#ifndef COMMANDS_INFER_CHUNKS_H
#define COMMANDS_INFER_CHUNKS_H

#include "commands/executor.h"

struct commands_chunks {
    const char *directory;
    int64_t period;       /* batches of a chunk: T5X's checkpoint_period */
    const char *identity; /* of plan, data and parameters; shared by all chunks of the directory */
};
/* The joined result of existing chunks and those run now. BASE_STOPPED: it was stopped, and out holds the part done.
 * BASE_INPUT: an existing chunk belongs to another question. */
enum base_status commands_infer_chunks(struct commands_context *context, const struct commands_executor *executor,
                                       const struct commands_chunks *chunks, const struct base_text *request,
                                       const struct base_json **out, struct base_error *error);

#endif
