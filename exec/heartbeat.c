/* A thread that shows that this process runs. It increments a counter in memory. One rank of each host also sends
 * the host's signs to other hosts, as datagrams to every address, because they cannot see the memory. */
#define _DEFAULT_SOURCE /* getifaddrs's flags */
#include "exec/signs.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_SIGNS = 24 /* fits a datagram that no network splits */, PULSE_MS = 1000 / EXEC_PULSES_A_SECOND };

struct exec_heart {
    int socket; /* -1: this rank does not speak for its host */
    pthread_t thread;
    bool runs;
    _Atomic bool ends;
    const struct exec_signs *signs;
    const struct exec_reach *reaches;
    const int *local;
    int local_count;
    uint64_t key;
};

static struct exec_heart only = {.socket = -1}; /* one per process, as MPI */

struct told {
    int32_t rank, waits_for, storing, unused;
    int64_t pulse, messages, looks;
};
struct datagram {
    uint64_t key;
    int64_t count;
    struct told signs[MOST_SIGNS];
};

/* ---- this host's addresses ---- */

static void list_addresses(struct exec_reach *out)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *at = all; at && out->address_count < EXEC_MOST_ADDRESSES; at = at->ifa_next) {
        struct sockaddr_in address;
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET) continue;
        if (!(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK)) continue;
        memcpy(&address, at->ifa_addr, sizeof address);
        out->addresses[out->address_count++] = address.sin_addr.s_addr;
    }
    freeifaddrs(all);
}

struct exec_heart *exec_heart_open(enum exec_voice voice, struct exec_reach *out)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
    socklen_t length = sizeof address;
    memset(out, 0, sizeof *out);
    if (voice == EXEC_LISTENS) return &only;
    only.socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = only.socket >= 0 && bind(only.socket, (const struct sockaddr *)&address, sizeof address) == 0 &&
                 getsockname(only.socket, (struct sockaddr *)&address, &length) == 0;
    if (!bound) return &only;
    list_addresses(out);
    out->port = address.sin_port;
    out->speaks = 1;
    return &only;
}

/* ---- sending and receiving ---- */

static void send_to(const struct exec_heart *heart, const struct exec_reach *reach, const struct datagram *datagram)
{
    size_t length = offsetof(struct datagram, signs) + (size_t)datagram->count * sizeof datagram->signs[0];
    for (int i = 0; i < reach->address_count; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = reach->port, .sin_addr = {reach->addresses[i]}};
        /* A lost datagram is repeated in a tenth of a second. */
        sendto(heart->socket, datagram, length, 0, (const struct sockaddr *)&to, sizeof to);
    }
}

static void tell(const struct exec_heart *heart)
{
    for (int first = 0; first < heart->local_count; first += MOST_SIGNS) {
        struct datagram datagram = {.key = heart->key};
        for (int i = first; i < heart->local_count && datagram.count < MOST_SIGNS; i++) {
            const struct exec_sign *sign = &heart->signs->of[heart->local[i]];
            datagram.signs[datagram.count++] = (struct told){.rank = heart->local[i],
                                                             .waits_for = atomic_load(&sign->waits_for),
                                                             .storing = atomic_load(&sign->storing),
                                                             .pulse = atomic_load(&sign->pulse),
                                                             .messages = atomic_load(&sign->messages),
                                                             .looks = atomic_load(&sign->looks)};
        }
        for (int rank = 0; rank < heart->signs->rank_count; rank++)
            if (heart->reaches[rank].speaks && rank != heart->signs->rank)
                send_to(heart, &heart->reaches[rank], &datagram);
    }
}

static bool is_local(const struct exec_heart *heart, int rank)
{
    for (int i = 0; i < heart->local_count; i++)
        if (heart->local[i] == rank) return true;
    return false;
}

/* Datagrams may overtake each other, so an old pulse must not replace a newer one. */
static void take(const struct exec_heart *heart, const struct told *told)
{
    if (told->rank < 0 || told->rank >= heart->signs->rank_count || is_local(heart, told->rank)) return;
    struct exec_sign *sign = &heart->signs->of[told->rank];
    if (told->pulse <= atomic_load(&sign->pulse)) return;
    atomic_store(&sign->waits_for, told->waits_for);
    atomic_store(&sign->storing, told->storing);
    atomic_store(&sign->messages, told->messages);
    atomic_store(&sign->looks, told->looks);
    atomic_store(&sign->pulse, told->pulse);
}

static void hear(const struct exec_heart *heart)
{
    struct datagram datagram;
    for (;;) {
        ssize_t got = recv(heart->socket, &datagram, sizeof datagram, 0);
        if (got < 0) return;
        size_t head = offsetof(struct datagram, signs);
        if ((size_t)got < head || datagram.key != heart->key || datagram.count < 0 || datagram.count > MOST_SIGNS ||
            (size_t)got != head + (size_t)datagram.count * sizeof datagram.signs[0])
            continue;
        for (int64_t i = 0; i < datagram.count; i++) take(heart, &datagram.signs[i]);
    }
}

/* ---- the thread ---- */

/* Once a second, tells the launcher that this rank, and the path to it, are alive. */
static void tell_launcher(int64_t pulse)
{
    static const char word[] = "@alive\n";
    /* A launcher that no longer listens is another rank's problem. */
    if (pulse % EXEC_PULSES_A_SECOND == 0 && write(STDERR_FILENO, word, sizeof word - 1) < 0) return;
}

static void *beat(void *self)
{
    struct exec_heart *heart = self;
    const bool speaks = heart->reaches[heart->signs->rank].speaks && heart->local_count < heart->signs->rank_count;
    while (!atomic_load(&heart->ends)) {
        tell_launcher(atomic_fetch_add(&heart->signs->of[heart->signs->rank].pulse, 1));
        if (speaks) tell(heart);
        poll(NULL, 0, PULSE_MS);
        if (speaks) hear(heart);
    }
    return NULL;
}

bool exec_heart_start(struct exec_heart *heart, const struct exec_signs *signs, const struct exec_reach *reaches,
                      uint64_t key, const int *local, int local_count)
{
    sigset_t all, before;
    heart->signs = signs;
    heart->reaches = reaches;
    heart->key = key;
    heart->local = local;
    heart->local_count = local_count;
    sigfillset(&all); /* signals belong to the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    heart->runs = pthread_create(&heart->thread, NULL, beat, heart) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return heart->runs;
}

void exec_heart_stop(struct exec_heart *heart)
{
    atomic_store(&heart->ends, true);
    if (heart->runs) pthread_join(heart->thread, NULL);
    heart->runs = false;
    if (heart->socket >= 0) close(heart->socket);
    heart->socket = -1;
}
