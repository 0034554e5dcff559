/* Asynchronous collectives: a program may start and await them separately. A thread runs them in order of their
 * start, with the same algorithms and bits as blocking ones, while this thread computes. */
#include "exec/collective.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { MOST_FLIGHTS = 64 }; /* pending at once; a further one waits */

/* A started collective, with a copy of the machine: its loop indices, and so the layers that addresses mean, may
 * change later. */
struct flying {
    struct exec_machine machine;
    const struct sim_op *op;
    struct exec_collective collective;
    double time_s;
};

struct exec_flight {
    struct flying flying[MOST_FLIGHTS]; /* number n is at n % MOST_FLIGHTS */
    int64_t started, done, noted;       /* counts */
    bool ends, alone;                   /* alone: there is no thread, so each runs where it starts */
    char *buffers[2];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news;
};

static void exchange(struct flying *one)
{
    const double start_s = exec_seconds(&one->machine);
    exec_exchange(&one->collective);
    one->time_s = exec_seconds(&one->machine) - start_s;
}

static void *fly(void *where)
{
    struct exec_flight *f = where;
    pthread_mutex_lock(&f->lock);
    while (!f->ends || f->done < f->started) {
        if (f->done == f->started) {
            pthread_cond_wait(&f->news, &f->lock);
            continue;
        }
        struct flying *one = &f->flying[f->done % MOST_FLIGHTS];
        pthread_mutex_unlock(&f->lock);
        exchange(one);
        pthread_mutex_lock(&f->lock);
        f->done++;
        pthread_cond_broadcast(&f->news);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* Signals stay with the main thread. Without a thread, this rank still uses the second connection, because the other
 * ranks would wait for it there forever. */
static struct exec_flight *begin(struct exec_machine *machine)
{
    enum { ALIGNMENT = 64 };
    struct exec_flight *f = base_new(machine->arena, struct exec_flight, 1);
    sigset_t all, before;
    for (int i = 0; i < BASE_COUNT(f->buffers); i++) {
        char *at = base_alloc(machine->arena, EXEC_SEGMENT_BYTES + ALIGNMENT, 1);
        f->buffers[i] = at + (ALIGNMENT - (uintptr_t)at % ALIGNMENT) % ALIGNMENT;
    }
    pthread_mutex_init(&f->lock, NULL); /* neither fails with default attributes */
    pthread_cond_init(&f->news, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    f->alone = pthread_create(&f->thread, NULL, fly, f) != 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return f;
}

/* Records finished collectives, up to the n-th. */
static void note(struct exec_machine *machine, int64_t n, double waited_s)
{
    struct exec_flight *f = machine->flight;
    for (; f->noted < n; f->noted++, waited_s = 0) {
        struct flying *one = &f->flying[f->noted % MOST_FLIGHTS];
        one->collective.machine = machine;
        exec_note_collective(&one->collective, one->time_s, waited_s);
    }
}

static void wait_for(struct exec_machine *machine, int64_t n)
{
    struct exec_flight *f = machine->flight;
    const double start_s = exec_seconds(machine);
    pthread_mutex_lock(&f->lock);
    while (f->done < n) pthread_cond_wait(&f->news, &f->lock);
    pthread_mutex_unlock(&f->lock);
    note(machine, n, exec_seconds(machine) - start_s);
}

/* Pipelines and decoding programs start none early. */
void exec_flight_check(const struct exec_machine *machine, void (*warn)(const char *text))
{
    bool any = false;
    if (exec_is_alone(machine->transport) || machine->transport->aside || machine->transport->rank != 0) return;
    for (int i = 0; i < machine->s->op_count; i++) any = any || machine->s->ops[i].done;
    if (any && warn)
        warn("collectives are waited for where they start, so that none overlaps with computation: this MPI has no "
             "MPI_THREAD_MULTIPLE");
}

bool exec_flight_start(struct exec_machine *machine, const struct sim_op *op)
{
    if (!machine->transport || !machine->transport->aside) return false;
    if (!machine->flight) machine->flight = begin(machine);
    struct exec_flight *f = machine->flight;
    if (f->started - f->noted == MOST_FLIGHTS) wait_for(machine, f->noted + 1);
    struct flying *one = &f->flying[f->started % MOST_FLIGHTS];
    one->machine = *machine;
    one->machine.transport = machine->transport->aside;
    memcpy(one->machine.buffers, f->buffers, sizeof f->buffers);
    one->op = op;
    one->collective = exec_describe(&one->machine, op);
    exec_place_operand(&one->collective);
    if (f->alone) {
        exchange(one);
        f->done = ++f->started;
        note(machine, f->started, one->time_s);
        return true;
    }
    pthread_mutex_lock(&f->lock);
    f->started++;
    pthread_cond_broadcast(&f->news);
    pthread_mutex_unlock(&f->lock);
    return true;
}

void exec_flight_wait(struct exec_machine *machine, int before)
{
    const struct exec_flight *f = machine->flight;
    int64_t last = 0;
    if (!f || f->noted == f->started) return;
    for (int64_t n = f->noted; n < f->started; n++)
        if (f->flying[n % MOST_FLIGHTS].op->done == before) last = n + 1;
    if (last > f->noted) wait_for(machine, last);
}

void exec_flight_end(struct exec_machine *machine)
{
    struct exec_flight *f = machine->flight;
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    f->ends = true;
    pthread_cond_broadcast(&f->news);
    pthread_mutex_unlock(&f->lock);
    if (!f->alone) pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->news);
    pthread_mutex_destroy(&f->lock);
    machine->flight = NULL;
}
