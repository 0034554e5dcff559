/* Private to meshwright-rank: ranks over MPI. */
#ifndef EXEC_COMM_H
#define EXEC_COMM_H

#include "exec/exec.h"

/* Starts MPI. `say` gets fatal errors, `warn` gets delays. The run ends if a peer that a rank waits for shows no
 * sign of life for patience_s. It also ends if live ranks wait for each other for that long, since no messages get
 * through. */
enum base_status exec_comm_begin(struct exec_transport *out, int patience_s, void (*say)(const char *text),
                                 void (*warn)(const char *text), struct base_error *error);
/* Ends every rank at once with that status; does not return. */
void exec_comm_abort(enum base_status status);
void exec_comm_end(void);

#endif
