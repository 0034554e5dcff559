/* Private to meshwright-rank: ranks over MPI. */
#ifndef EXEC_COMM_H
#define EXEC_COMM_H

#include "exec/exec.h"

/* Begins MPI. What ends the run from within is told to `say` first, what only takes long to `warn`. When a rank waits,
 * a peer that shows no sign of life for patience_s ends the run, as do ranks that live and wait for each other for so
 * long, since then nothing comes through between them. */
enum base_status exec_comm_begin(struct exec_transport *out, int patience_s, void (*say)(const char *text),
                                 void (*warn)(const char *text), struct base_error *error);
/* Ends every rank at once with that status. Does not return. */
void exec_comm_abort(enum base_status status);
void exec_comm_end(void);

#endif
