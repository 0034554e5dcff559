/* The door to Open MPI. Ranks talk point to point alone: the algorithms are exchange.c's. */
#include "exec/comm.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

struct comm { MPI_Comm world; void (*say)(const char *text); };

static struct comm only; /* MPI is one a process */

enum { TAG = 1 };

static void fail(struct comm *comm, const char *what)
{
    comm->say(what);
    exec_comm_abort(BASE_RUN);
}

static void check(struct comm *comm, int code, const char *what)
{
    if (code != MPI_SUCCESS) fail(comm, what);
}

static void exchange(void *self, int to, const void *out, size_t out_bytes, int from, void *in, size_t in_bytes)
{
    struct comm *comm = self;
    MPI_Request requests[2];
    int count = 0, done = 0;
    if (out_bytes > INT_MAX || in_bytes > INT_MAX) fail(comm, "a message of more than 2 GiB");
    if (in_bytes) check(comm, MPI_Irecv(in, (int)in_bytes, MPI_BYTE, from, TAG, comm->world, &requests[count++]), "MPI_Irecv failed");
    if (out_bytes) check(comm, MPI_Isend(out, (int)out_bytes, MPI_BYTE, to, TAG, comm->world, &requests[count++]), "MPI_Isend failed");
    while (count && !done) check(comm, MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "a message was lost");
}

enum base_status exec_comm_begin(struct exec_transport *out, void (*say)(const char *text), struct base_error *error)
{
    *out = (struct exec_transport){.self = &only, .exchange = exchange};
    only.say = say;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return base_fail(error, BASE_RUN, "MPI could not be started");
    if (MPI_Comm_dup(MPI_COMM_WORLD, &only.world) != MPI_SUCCESS) return base_fail(error, BASE_RUN, "MPI gave no communicator");
    MPI_Comm_set_errhandler(only.world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(only.world, &out->rank);
    MPI_Comm_size(only.world, &out->rank_count);
    return BASE_OK;
}

void exec_comm_abort(enum base_status status)
{
    MPI_Abort(only.world, (int)status);
    abort();
}

void exec_comm_end(void)
{
    MPI_Comm_free(&only.world);
    MPI_Finalize();
}
