/* Private to commands/: the executor, a program of its own, as `run` and `calibrate` start it. */
#ifndef COMMANDS_EXECUTOR_H
#define COMMANDS_EXECUTOR_H

#include "commands/commands.h"
#include "sim/predict/predict.h"

struct commands_executor {
    int rank_count;         /* 0: all devices in one process */
    int patience_s;         /* a rank without a sign of life for so long ends the run */
    const char *hostfile;   /* mpirun's; NULL: this machine */
    const char *checkpoint; /* directory in which a run that fails may leave something half written; NULL: none */
    const char *owner;      /* in the names of that */
};
/* "SIGTERM": the signal that asked this command to end; NULL: none. */
const char *commands_stop_name(const struct commands_context *context);
/* Runs the executor on a request and takes its answer; its messages about steps become the context's progress.
 * BASE_RUN: it failed, and the message names the rank and the reason; other statuses and messages are the executor's
 * own. Under any status, an answer that begins with { is a result. BASE_STOPPED without one: it was stopped before its
 * first step, and this was reported. */
enum base_status commands_ask_executor(struct commands_context *context, const struct commands_executor *executor,
                                       const struct base_text *request, struct base_text *answer,
                                       struct base_error *error);

/* --ranks, if given, is the plan's device count. BASE_INPUT: it is not, or the topology is another machine's and it is
 * not given, though it must. */
enum commands_elsewhere { COMMANDS_ASKS_RANKS, COMMANDS_RUNS_HERE };
enum base_status commands_check_ranks(const struct base_arguments *arguments, const struct topo_topology *topology,
                                      enum commands_elsewhere elsewhere, struct base_error *error);
/* Ranks that would stand on this machine together: none of them is started if it cannot hold them all. BASE_INPUT: it
 * cannot. */
enum base_status commands_check_memory(const struct commands_context *context, const struct commands_executor *executor,
                                       const struct sim_plan *plan, const struct sim_prediction *predicted,
                                       struct base_error *error);

#endif
