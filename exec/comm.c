/* The only user of Open MPI. Ranks communicate only point to point; exchange.c has the algorithms. A waiting rank
 * checks all other ranks' signs of life: its host's in shared memory, other hosts' as received. */
#include "exec/comm.h"
#include "exec/signs.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 1, TESTS_BEFORE_YIELD = 64, ABORT_S = 1, DAEMON_S = 3 };

/* A connection between the ranks for one thread; messages of two lanes do not mix. */
struct lane {
    MPI_Comm world;
    struct exec_signs *signs; /* each thread has its own view of the others */
    bool naps;                /* yields the core to the thread that computes */
};

/* A rank that has waited this long sleeps between polls, for a fraction of its wait. This leaves cores to the ranks
 * that compute, if many share a machine. */
static const double patient_s = 0.001, nap_frac = 1.0 / 16, longest_nap_s = 0.0005, shortest_nap_s = 20e-6;

struct comm {
    MPI_Comm host;
    struct lane lane, aside;
    struct exec_signs signs_aside;
    struct exec_transport way_aside;
    MPI_Win window;
    struct exec_signs signs;
    struct exec_heart *heart;
    struct exec_reach *reaches; /* by rank */
    int *local;                 /* ranks of this host */
    int local_count;
    pid_t daemon; /* mpirun's daemon on a remote host, which would survive a broken link; 0: none */
    void (*say)(const char *text);
    void (*warn)(const char *text);
};

static struct comm only; /* MPI allows one per process */

static struct exec_sign *own_sign(void)
{
    return &only.signs.of[only.signs.rank];
}

static void fail(struct comm *comm, const char *what)
{
    char text[200];
    snprintf(text, sizeof text, "rank %d: %s", comm->signs.rank, what);
    comm->say(text);
    exec_comm_abort(BASE_RUN);
}

static void check(struct comm *comm, int code, const char *what)
{
    if (code != MPI_SUCCESS) fail(comm, what);
}

/* ---- waiting ---- */

static void look_around(const struct lane *lane, struct exec_wait *wait)
{
    char text[400];
    enum exec_verdict verdict = exec_wait_look(lane->signs, wait, text, sizeof text);
    if (verdict == EXEC_IS_SLOW) only.warn(text);
    if (verdict != EXEC_FAILS) return;
    only.say(text);
    exec_comm_abort(BASE_RUN);
}

static double clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Sleeps if it has waited long enough; the lane next to the computing thread sleeps at once. Returns whether it did. */
static bool let_others_run(const struct lane *lane, double waited_s)
{
    double nap_s = nap_frac * waited_s < longest_nap_s ? nap_frac * waited_s : longest_nap_s;
    if (!lane->naps && waited_s < patient_s) return sched_yield(), false;
    if (nap_s < shortest_nap_s) nap_s = shortest_nap_s;
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * nap_s)}, NULL);
    return true;
}

/* Publishes whom this rank waits for; -1: nobody. If both lanes wait, the first lane's peer. */
static void tell_wait(const struct lane *lane, int peer)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int peers[2] = {-1, -1}; /* by lane */
    pthread_mutex_lock(&lock);
    peers[lane->naps] = peer;
    atomic_store(&own_sign()->waits_for, peers[0] >= 0 ? peers[0] : peers[1]);
    pthread_mutex_unlock(&lock);
}

static void finish(const struct lane *lane, MPI_Request *requests, int count, int peer)
{
    int done = 0;
    bool naps = false;
    double start_s = 0;
    struct exec_sign *own = own_sign();
    struct exec_wait wait = exec_wait_begin(lane->signs, peer);
    for (int tests = 0; !done; tests++) {
        check(&only, MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "a message was lost");
        if (done || (tests % TESTS_BEFORE_YIELD && !naps)) continue;
        if (tests == 0) start_s = clock_s(), atomic_store(&own->looks, 0), tell_wait(lane, peer);
        else atomic_fetch_add_explicit(&own->looks, naps ? 1 : TESTS_BEFORE_YIELD, memory_order_relaxed);
        look_around(lane, &wait);
        naps = let_others_run(lane, clock_s() - start_s);
    }
    if (start_s > 0) tell_wait(lane, -1);
    atomic_fetch_add_explicit(&own->messages, 1, memory_order_relaxed);
}

static void exchange(void *self, int to, const void *out, size_t out_bytes, int from, void *in, size_t in_bytes)
{
    const struct lane *lane = self;
    MPI_Request requests[2];
    int count = 0;
    if (out_bytes > INT_MAX || in_bytes > INT_MAX) fail(&only, "a message of more than 2 GiB");
    if (in_bytes)
        check(&only, MPI_Irecv(in, (int)in_bytes, MPI_BYTE, from, TAG, lane->world, &requests[count++]),
              "MPI_Irecv failed");
    if (out_bytes)
        check(&only, MPI_Isend(out, (int)out_bytes, MPI_BYTE, to, TAG, lane->world, &requests[count++]),
              "MPI_Isend failed");
    if (count) finish(lane, requests, count, in_bytes ? from : to);
}

static void tell_storing(void *self, enum exec_storing storing)
{
    (void)self;
    atomic_store(&own_sign()->storing, storing == EXEC_STORING_BEGINS);
}

/* ---- start and end ---- */

/* Signs of all ranks, in the memory of each host's first rank. */
static bool share_signs(struct comm *comm)
{
    const int ranks = comm->signs.rank_count;
    int host_rank, unit;
    MPI_Aint bytes;
    void *at;
    MPI_Group world, host;
    if (MPI_Comm_split_type(comm->lane.world, MPI_COMM_TYPE_SHARED, comm->signs.rank, MPI_INFO_NULL, &comm->host) !=
        MPI_SUCCESS)
        return false;
    MPI_Comm_rank(comm->host, &host_rank);
    MPI_Comm_size(comm->host, &comm->local_count);
    bytes = host_rank == 0 ? (MPI_Aint)((size_t)ranks * sizeof *comm->signs.of) : 0;
    if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm->host, &at, &comm->window) != MPI_SUCCESS) return false;
    MPI_Win_shared_query(comm->window, 0, &bytes, &unit, &at);
    comm->signs.of = at;
    for (int rank = 0; rank < ranks && host_rank == 0; rank++) {
        memset(&comm->signs.of[rank], 0, sizeof comm->signs.of[rank]);
        atomic_store(&comm->signs.of[rank].waits_for, -1);
    }
    comm->local = calloc((size_t)comm->local_count, sizeof *comm->local);
    if (!comm->local) return false;
    MPI_Comm_group(comm->lane.world, &world);
    MPI_Comm_group(comm->host, &host);
    for (int i = 0; i < comm->local_count; i++) MPI_Group_translate_ranks(host, 1, &i, world, &comm->local[i]);
    MPI_Group_free(&world);
    MPI_Group_free(&host);
    return MPI_Barrier(comm->host) == MPI_SUCCESS;
}

/* Exchanges the host name of each rank, and the address of each host's speaking rank. */
static bool meet_hosts(struct comm *comm)
{
    const size_t ranks = (size_t)comm->signs.rank_count;
    char name[EXEC_HOST_NAME] = "";
    char(*names)[EXEC_HOST_NAME] = calloc(ranks, sizeof *names);
    struct exec_reach reach;
    uint64_t key = ((uint64_t)getpid() << 32) ^ (uintptr_t)names;
    comm->reaches = calloc(ranks, sizeof *comm->reaches);
    comm->signs.seen = calloc(ranks, sizeof *comm->signs.seen);
    if (!names || !comm->reaches || !comm->signs.seen) return false;
    gethostname(name, sizeof name - 1);
    comm->heart = exec_heart_open(comm->local[0] == comm->signs.rank ? EXEC_SPEAKS : EXEC_LISTENS, &reach);
    comm->signs.hosts = (const char(*)[EXEC_HOST_NAME])names;
    return MPI_Allgather(name, sizeof name, MPI_BYTE, names, sizeof name, MPI_BYTE, comm->lane.world) == MPI_SUCCESS &&
           MPI_Allgather(&reach, sizeof reach, MPI_BYTE, comm->reaches, sizeof reach, MPI_BYTE, comm->lane.world) ==
               MPI_SUCCESS &&
           MPI_Bcast(&key, sizeof key, MPI_BYTE, 0, comm->lane.world) == MPI_SUCCESS &&
           exec_heart_start(comm->heart, &comm->signs, comm->reaches, key, comm->local, comm->local_count);
}

/* A second connection for a thread that waits while the first one computes. False: no rank has it. */
static bool open_aside(struct comm *comm, const struct exec_transport *way)
{
    comm->signs_aside = comm->signs;
    comm->signs_aside.seen = calloc((size_t)comm->signs.rank_count, sizeof *comm->signs.seen);
    int opened = MPI_Comm_dup(comm->lane.world, &comm->aside.world) == MPI_SUCCESS && comm->signs_aside.seen;
    if (MPI_Allreduce(MPI_IN_PLACE, &opened, 1, MPI_INT, MPI_MIN, comm->lane.world) != MPI_SUCCESS || !opened)
        return false;
    MPI_Comm_set_errhandler(comm->aside.world, MPI_ERRORS_RETURN);
    comm->aside.signs = &comm->signs_aside;
    comm->aside.naps = true;
    comm->way_aside = (struct exec_transport){
        .rank = way->rank, .rank_count = way->rank_count, .self = &comm->aside, .exchange = exchange};
    return true;
}

/* Ranks that have not connected cannot exchange signs of life, and if the link to mpirun is down, nobody ends them.
 * So an alarm kills this host's processes. */
static void on_start_alarm(int number)
{
    static const char word[] = "@failed a rank waited in vain for the others to start\n";
    (void)number;
    if (write(STDERR_FILENO, word, sizeof word - 1) >= 0 && only.daemon > 1) kill(only.daemon, SIGKILL);
    kill(getpid(), SIGKILL);
}

static void limit_start(unsigned limit_s)
{
    if (limit_s) signal(SIGALRM, on_start_alarm);
    alarm(limit_s);
    if (!limit_s) signal(SIGALRM, SIG_DFL); /* only once no alarm can come */
}

enum base_status exec_comm_begin(struct exec_transport *out, int patience_s, void (*say)(const char *text),
                                 void (*warn)(const char *text), struct base_error *error)
{
    int support = MPI_THREAD_SINGLE;
    *out = (struct exec_transport){.self = &only.lane, .exchange = exchange, .storing = tell_storing};
    only.say = say;
    only.warn = warn;
    only.signs.patience_pulses = (int64_t)patience_s * EXEC_PULSES_A_SECOND;
    only.daemon = base_parent_is("orted") ? getppid() : 0;
    limit_start(EXEC_LONGEST_WAIT * (unsigned)patience_s);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &support) != MPI_SUCCESS)
        return base_fail(error, BASE_RUN, "MPI could not be started");
    if (MPI_Comm_dup(MPI_COMM_WORLD, &only.lane.world) != MPI_SUCCESS)
        return base_fail(error, BASE_RUN, "MPI gave no communicator");
    MPI_Comm_set_errhandler(only.lane.world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(only.lane.world, &out->rank);
    MPI_Comm_size(only.lane.world, &out->rank_count);
    only.signs.rank = out->rank;
    only.signs.rank_count = out->rank_count;
    if (!share_signs(&only)) return base_fail(error, BASE_RUN, "the ranks of this host cannot share memory");
    if (!meet_hosts(&only)) return base_fail(error, BASE_RUN, "the ranks cannot tell each other that they live");
    only.lane.signs = &only.signs;
    if (support == MPI_THREAD_MULTIPLE && open_aside(&only, out)) out->aside = &only.way_aside;
    limit_start(0);
    return BASE_OK;
}

static void on_abort_alarm(int number)
{
    (void)number;
    kill(getpid(), SIGKILL);
}

/* The daemon kills its ranks and then may wait forever for mpirun, so a child kills it later. */
static void outlive_daemon(void)
{
    if (only.daemon <= 1 || fork() != 0) return;
    signal(SIGALRM, SIG_IGN);
    setsid(); /* the daemon must not kill this process */
    nanosleep(&(struct timespec){DAEMON_S, 0}, NULL);
    kill(only.daemon, SIGKILL);
    kill(getpid(), SIGKILL);
}

/* MPI_Abort's messages may not arrive and it may not return, so an alarm ends this process. */
void exec_comm_abort(enum base_status status)
{
    outlive_daemon();
    signal(SIGALRM, on_abort_alarm);
    alarm(ABORT_S);
    MPI_Abort(only.lane.world, (int)status);
    abort();
}

void exec_comm_end(void)
{
    exec_heart_stop(only.heart);
    MPI_Win_free(&only.window);
    MPI_Comm_free(&only.host);
    MPI_Comm_free(&only.lane.world);
    if (only.aside.naps) MPI_Comm_free(&only.aside.world);
    free(only.signs_aside.seen);
    free(only.local);
    free(only.reaches);
    free(only.signs.seen);
    free((void *)(uintptr_t)only.signs.hosts);
    MPI_Finalize();
}
