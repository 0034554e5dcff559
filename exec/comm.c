/* The door to Open MPI. Ranks talk point to point alone: the algorithms are exchange.c's. A rank that waits looks at
 * the pulse of the one it waits for: every rank on a host counts, ten times a second, in memory that they share. */
#define _DEFAULT_SOURCE /* setitimer */
#include "exec/comm.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum {
    TAG = 1,
    PULSES_A_SECOND = 10,
    TESTS_BEFORE_YIELD = 64,
    LONGEST_WAIT = 60 /* times the patience: alive, but never coming */
};

struct comm {
    MPI_Comm world, host;
    MPI_Win window;
    volatile int64_t **pulses; /* of each rank; NULL: on another host */
    int rank, patience_s;
    void (*say)(const char *text);
};

static struct comm only; /* MPI is one a process, and so is a timer */

static void on_timer(int number)
{
    (void)number;
    ++*only.pulses[only.rank];
}

static void fail(struct comm *comm, const char *what)
{
    char text[200];
    snprintf(text, sizeof text, "rank %d: %s", comm->rank, what);
    comm->say(text);
    exec_comm_abort(BASE_RUN);
}

static void check(struct comm *comm, int code, const char *what)
{
    if (code != MPI_SUCCESS) fail(comm, what);
}

/* ---- waiting ---- */

/* Time is counted in own pulses: if all ranks are stopped for a while, or the machine sleeps, no one is to blame. */
struct wait {
    int64_t start, seen_at, seen;
    int peer;
};

static struct wait begin_wait(const struct comm *comm, int peer)
{
    int64_t now = *comm->pulses[comm->rank];
    return (struct wait){now, now, comm->pulses[peer] ? *comm->pulses[peer] : 0, peer};
}

static void blame(struct comm *comm, int peer, const char *what, int64_t pulses)
{
    char text[160];
    snprintf(text, sizeof text, "rank %d hangs: %s for %lld s while rank %d waits for it", peer, what,
             (long long)(pulses / PULSES_A_SECOND), comm->rank);
    comm->say(text);
    exec_comm_abort(BASE_RUN);
}

static void watch(struct comm *comm, struct wait *wait)
{
    int64_t now = *comm->pulses[comm->rank], patience = (int64_t)comm->patience_s * PULSES_A_SECOND;
    if (comm->pulses[wait->peer] && *comm->pulses[wait->peer] != wait->seen) {
        wait->seen = *comm->pulses[wait->peer];
        wait->seen_at = now;
    }
    if (comm->pulses[wait->peer] && now - wait->seen_at > patience)
        blame(comm, wait->peer, "it shows no sign of life", now - wait->seen_at);
    if (now - wait->start > LONGEST_WAIT * patience) blame(comm, wait->peer, "it sends nothing", now - wait->start);
}

static void finish(struct comm *comm, MPI_Request *requests, int count, int peer)
{
    int done = 0;
    struct wait wait = begin_wait(comm, peer);
    for (int tests = 0; !done; tests++) {
        check(comm, MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "a message was lost");
        if (done || tests % TESTS_BEFORE_YIELD) continue;
        watch(comm, &wait);
        sched_yield();
    }
}

static void exchange(void *self, int to, const void *out, size_t out_bytes, int from, void *in, size_t in_bytes)
{
    struct comm *comm = self;
    MPI_Request requests[2];
    int count = 0;
    if (out_bytes > INT_MAX || in_bytes > INT_MAX) fail(comm, "a message of more than 2 GiB");
    if (in_bytes)
        check(comm, MPI_Irecv(in, (int)in_bytes, MPI_BYTE, from, TAG, comm->world, &requests[count++]),
              "MPI_Irecv failed");
    if (out_bytes)
        check(comm, MPI_Isend(out, (int)out_bytes, MPI_BYTE, to, TAG, comm->world, &requests[count++]),
              "MPI_Isend failed");
    if (count) finish(comm, requests, count, in_bytes ? from : to);
}

/* ---- beginning and end ---- */

/* A counter of each rank of this host, in its own cache line, in memory that all of them see. */
static enum base_status share_pulses(struct comm *comm, int rank_count, struct base_error *error)
{
    enum { LINE_BYTES = 64 };
    int host_count, ok;
    void *own;
    MPI_Group world, host;
    ok =
        MPI_Comm_split_type(comm->world, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &comm->host) == MPI_SUCCESS &&
        MPI_Win_allocate_shared(LINE_BYTES, 1, MPI_INFO_NULL, comm->host, &own, &comm->window) == MPI_SUCCESS;
    comm->pulses = calloc((size_t)rank_count, sizeof *comm->pulses);
    if (!ok || !comm->pulses) return base_fail(error, BASE_RUN, "the ranks of this host cannot share memory");
    MPI_Comm_size(comm->host, &host_count);
    MPI_Comm_group(comm->world, &world);
    MPI_Comm_group(comm->host, &host);
    for (int i = 0; i < host_count; i++) {
        MPI_Aint bytes;
        int unit, rank;
        void *at;
        MPI_Group_translate_ranks(host, 1, &i, world, &rank);
        MPI_Win_shared_query(comm->window, i, &bytes, &unit, &at);
        comm->pulses[rank] = at;
    }
    MPI_Group_free(&world);
    MPI_Group_free(&host);
    *comm->pulses[comm->rank] = 0;
    MPI_Barrier(comm->host);
    return BASE_OK;
}

static void set_timer(bool on)
{
    struct itimerval every = {{0, on ? 1000000 / PULSES_A_SECOND : 0}, {0, on ? 1000000 / PULSES_A_SECOND : 0}};
    struct sigaction action = {.sa_handler = on ? on_timer : SIG_IGN, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    if (on) sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    if (!on) sigaction(SIGALRM, &action, NULL);
}

enum base_status exec_comm_begin(struct exec_transport *out, int patience_s, void (*say)(const char *text),
                                 struct base_error *error)
{
    *out = (struct exec_transport){.self = &only, .exchange = exchange};
    only.say = say;
    only.patience_s = patience_s;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return base_fail(error, BASE_RUN, "MPI could not be started");
    if (MPI_Comm_dup(MPI_COMM_WORLD, &only.world) != MPI_SUCCESS)
        return base_fail(error, BASE_RUN, "MPI gave no communicator");
    MPI_Comm_set_errhandler(only.world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(only.world, &out->rank);
    MPI_Comm_size(only.world, &out->rank_count);
    only.rank = out->rank;
    BASE_TRY(share_pulses(&only, out->rank_count, error));
    set_timer(true);
    return BASE_OK;
}

void exec_comm_abort(enum base_status status)
{
    MPI_Abort(only.world, (int)status);
    abort();
}

void exec_comm_end(void)
{
    set_timer(false);
    MPI_Win_free(&only.window);
    MPI_Comm_free(&only.host);
    MPI_Comm_free(&only.world);
    free((void *)only.pulses);
    MPI_Finalize();
}
