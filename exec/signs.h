/* Private to meshwright-rank: signs of life. Every rank keeps one in memory that its host's ranks share, and hosts tell
 * each other theirs, so that a rank that waits sees of every other whether it lives and what it does. */
#ifndef EXEC_SIGNS_H
#define EXEC_SIGNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXEC_PULSES_A_SECOND = 10, EXEC_HOST_NAME = 64 };
enum { EXEC_LONGEST_WAIT = 60 }; /* times the patience: for one that lives, but never comes */

/* In a cache line of its own. */
struct exec_sign {
    _Atomic int64_t pulse;     /* counts up while the process runs; 0: nothing was heard of it yet */
    _Atomic int64_t messages;  /* exchanges that it has finished */
    _Atomic int64_t looks;     /* times that it has looked for the message that it waits for */
    _Atomic int32_t waits_for; /* a rank; -1: it computes, or is at the disk */
    _Atomic int32_t storing;   /* it reads or writes files */
    char rest[32];
};

struct exec_signs {
    struct exec_sign *of;                /* of each rank */
    int rank, rank_count;                /* this one, all */
    const char (*hosts)[EXEC_HOST_NAME]; /* name of each rank's host */
    int64_t patience_pulses;
    int64_t *seen; /* of each rank: its pulse when the ranks that wait for each other were seen first */
};

/* ---- waiting (waiting.c) ---- */

/* A wait of this rank for another. Time is counted in own pulses: if all ranks are stopped for a while, or the machine
 * sleeps, no one is to blame. */
struct exec_wait {
    int peer;
    int64_t start, seen, seen_at; /* the peer's pulse, and when it changed last */
    uint64_t stuck;               /* which ranks wait for each other, and after how many messages; 0: they do not */
    int64_t stuck_at;
    bool told_of_disk;
};
enum exec_verdict { EXEC_WAITS_ON, EXEC_FAILS, EXEC_IS_SLOW };
struct exec_wait exec_wait_begin(const struct exec_signs *signs, int peer);
/* Looks around; what to say is in text where it is not to wait on in silence. */
enum exec_verdict exec_wait_look(const struct exec_signs *signs, struct exec_wait *wait, char *text, size_t size);

/* ---- beating (heartbeat.c) ---- */

/* How the others of a host are reached: exchanged as bytes. */
enum { EXEC_MOST_ADDRESSES = 8 };
struct exec_reach {
    uint32_t addresses[EXEC_MOST_ADDRESSES]; /* IPv4, in network order */
    int32_t address_count;
    uint16_t port;
    uint16_t speaks; /* it is the one of its host that talks to others */
};
struct exec_heart;
enum exec_voice { EXEC_LISTENS, EXEC_SPEAKS };
/* A socket that others can reach, or a reach that nobody speaks from. */
struct exec_heart *exec_heart_open(enum exec_voice voice, struct exec_reach *out);
/* From now on this rank's pulse counts; the one that speaks sends the signs of its host, `local` of them, to every
 * other that speaks, and takes theirs. key: the run's own number. reaches: of each rank. False: there can be no thread.
 */
bool exec_heart_start(struct exec_heart *heart, const struct exec_signs *signs, const struct exec_reach *reaches,
                      uint64_t key, const int *local, int local_count);
void exec_heart_stop(struct exec_heart *heart);

#endif
