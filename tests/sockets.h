/* Ranks as processes of a test, joined by sockets in place of MPI. The file that has this first defines _DEFAULT_SOURCE
 * (MAP_ANONYMOUS). */
#ifndef TESTS_SOCKETS_H
#define TESTS_SOCKETS_H

#include "exec/exec.h"
#include "tests/test.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKS = 8 };

struct link_costs {
    int sockets[MOST_RANKS][MOST_RANKS];
}; /* [a][b]: a's end of the pair with b */

static void give_up(const char *what)
{
    fprintf(stderr, "sockets: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static void send_and_receive(int to, const char *out, size_t out_bytes, int from, char *in, size_t in_bytes)
{
    while (out_bytes || in_bytes) {
        struct pollfd ends[] = {{.fd = out_bytes ? to : -1, .events = POLLOUT},
                                {.fd = in_bytes ? from : -1, .events = POLLIN}};
        if (poll(ends, 2, 20000) <= 0) give_up("a rank waits for ever");
        if (ends[0].revents) {
            ssize_t count = send(to, out, out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (count < 0 && errno != EAGAIN) give_up("send");
            if (count > 0) out += count, out_bytes -= (size_t)count;
        }
        if (ends[1].revents) {
            ssize_t count = recv(from, in, in_bytes, MSG_DONTWAIT);
            if (count == 0 || (count < 0 && errno != EAGAIN)) give_up("recv");
            if (count > 0) in += count, in_bytes -= (size_t)count;
        }
    }
}

struct rank {
    struct link_costs *link_costs;
    int rank;
};

static void exchange(void *self, int to, const void *out, size_t out_bytes, int from, void *in, size_t in_bytes)
{
    const struct rank *own = self;
    if (out_bytes && in_bytes && to == own->rank && from == own->rank) give_up("a rank that talks to itself");
    send_and_receive(own->link_costs->sockets[own->rank][to], out, out_bytes, own->link_costs->sockets[own->rank][from],
                     in, in_bytes);
}

static void join(struct link_costs *link_costs, int count)
{
    for (int a = 0; a < count; a++)
        for (int b = 0; b < a; b++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            link_costs->sockets[a][b] = pair[0];
            link_costs->sockets[b][a] = pair[1];
        }
}

static void part(struct link_costs *link_costs, int count)
{
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            if (a != b) close(link_costs->sockets[a][b]);
}

typedef void rank_function(const struct exec_transport *transport, void *shared);

/* Runs the function on every rank and returns how many failed. */
static int run_ranks(int count, rank_function *function, void *shared)
{
    struct link_costs link_costs, aside;
    pid_t children[MOST_RANKS];
    int failed = 0;
    join(&link_costs, count);
    join(&aside, count);
    for (int r = 0; r < count; r++) {
        children[r] = fork();
        if (children[r] != 0) continue;
        struct rank own = {&link_costs, r}, beside = {&aside, r};
        const struct exec_transport way_aside = {.rank = r, .rank_count = count, .self = &beside, .exchange = exchange};
        struct exec_transport transport = {
            .rank = r, .rank_count = count, .self = &own, .exchange = exchange, .aside = &way_aside};
        function(&transport, shared);
        _exit(0);
    }
    part(&link_costs, count);
    part(&aside, count);
    for (int r = 0; r < count; r++) {
        int status;
        failed += waitpid(children[r], &status, 0) < 0 || status != 0;
    }
    return failed;
}

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

#endif
