/* Private to meshwright-rank: signs of life. Every rank keeps one in memory shared by its host, and hosts send
 * theirs to each other. A waiting rank therefore sees whether any other rank is alive and what it does. */
#ifndef EXEC_SIGNS_H
#define EXEC_SIGNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXEC_PULSES_A_SECOND = 10, EXEC_HOST_NAME = 64 };
enum { EXEC_LONGEST_WAIT = 60 }; /* times the patience: for a rank that lives but never comes */

/* In its own cache line. */
struct exec_sign {
    _Atomic int64_t pulse;     /* increases while the process runs; 0: not heard of yet */
    _Atomic int64_t messages;  /* finished exchanges */
    _Atomic int64_t looks;     /* polls for the message that it waits for */
    _Atomic int32_t waits_for; /* a rank; -1: it computes or accesses files */
    _Atomic int32_t storing;   /* it reads or writes files */
    char rest[32];
};

struct exec_signs {
    struct exec_sign *of;                /* by rank */
    int rank, rank_count;                /* this rank, number of ranks */
    const char (*hosts)[EXEC_HOST_NAME]; /* host name of each rank */
    int64_t patience_pulses;
    int64_t *seen; /* by rank: its pulse when a cycle of waiting ranks was first seen */
};

/* ---- waiting (waiting.c) ---- */

/* A wait of this rank for another. Time is counted in own pulses: if all ranks are stopped, or the machine sleeps,
 * nobody is blamed. */
struct exec_wait {
    int peer;
    int64_t start, seen, seen_at; /* the peer's pulse, and when it last changed */
    uint64_t stuck;               /* identifies a cycle of waiting ranks and their message counts; 0: no cycle */
    int64_t stuck_at;
    bool told_of_disk;
};
enum exec_verdict { EXEC_WAITS_ON, EXEC_FAILS, EXEC_IS_SLOW };
struct exec_wait exec_wait_begin(const struct exec_signs *signs, int peer);
/* Checks a wait; fills text unless waiting should continue silently. */
enum exec_verdict exec_wait_look(const struct exec_signs *signs, struct exec_wait *wait, char *text, size_t size);

/* ---- sending (heartbeat.c) ---- */

/* Addresses of a host, exchanged as bytes. */
enum { EXEC_MOST_ADDRESSES = 8 };
struct exec_reach {
    uint32_t addresses[EXEC_MOST_ADDRESSES]; /* IPv4, in network byte order */
    int32_t address_count;
    uint16_t port;
    uint16_t speaks; /* this rank sends and receives for its host */
};
struct exec_heart;
enum exec_voice { EXEC_LISTENS, EXEC_SPEAKS };
/* Opens a socket that others can reach, or a placeholder for a rank that does not send. */
struct exec_heart *exec_heart_open(enum exec_voice voice, struct exec_reach *out);
/* Starts this rank's pulse. The speaking rank of a host sends the signs of its `local` ranks to all other speaking
 * ranks and receives theirs. key: identifies the run. reaches: by rank. False: no thread can be created. */
bool exec_heart_start(struct exec_heart *heart, const struct exec_signs *signs, const struct exec_reach *reaches,
                      uint64_t key, const int *local, int local_count);
void exec_heart_stop(struct exec_heart *heart);

#endif
