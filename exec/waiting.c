/* Decides when a wait has failed: the other process is dead or stopped, its host is unreachable, or live ranks wait
 * for each other and nothing arrives. */
#include "base/base.h"
#include "exec/signs.h"

#include <stdio.h>
#include <string.h>

enum {
    ENOUGH_LOOKS = 1000, /* a message that has arrived is seen within this many polls */
};

static int64_t now_of(const struct exec_signs *signs)
{
    return atomic_load(&signs->of[signs->rank].pulse);
}

struct exec_wait exec_wait_begin(const struct exec_signs *signs, int peer)
{
    int64_t now = now_of(signs);
    return (struct exec_wait){
        .peer = peer, .start = now, .seen = atomic_load(&signs->of[peer].pulse), .seen_at = now, .stuck_at = now};
}

static double seconds(int64_t pulses)
{
    return (double)pulses / EXEC_PULSES_A_SECOND;
}

static bool is_elsewhere(const struct exec_signs *signs, int rank)
{
    return strcmp(signs->hosts[rank], signs->hosts[signs->rank]) != 0;
}

/* ---- cycles of waiting ranks ---- */

/* Follows the chain of waits from this rank. Returns an identifying number if it is a cycle; 0 if it ends at a
 * working rank. *looks: the fewest polls of any rank in it. */
static uint64_t follow(const struct exec_signs *signs, int64_t *looks, int *last)
{
    uint64_t sum = BASE_HASH_START;
    *looks = INT64_MAX;
    int at = signs->rank;
    for (int steps = 0; steps <= signs->rank_count; steps++) {
        const struct exec_sign *sign = &signs->of[at];
        int64_t own = atomic_load(&sign->looks);
        int next = atomic_load(&sign->waits_for);
        if (next < 0 || next >= signs->rank_count || atomic_load(&sign->storing)) return 0;
        if (own < *looks) *looks = own;
        const int64_t where[] = {at, atomic_load(&sign->messages)};
        sum = base_hash(sum, where, sizeof where);
        *last = at;
        at = next;
    }
    return sum ? sum : 1;
}

static int next_of(const struct exec_signs *signs, int rank)
{
    int next = atomic_load(&signs->of[rank].waits_for);
    return next >= 0 && next < signs->rank_count ? next : signs->rank;
}

static void note_pulses(const struct exec_signs *signs)
{
    int at = signs->rank;
    for (int steps = 0; steps <= signs->rank_count; steps++, at = next_of(signs, at))
        signs->seen[at] = atomic_load(&signs->of[at].pulse);
}

/* Whether each rank of the chain has counted for at least half of the time; a stopped rank is reported as such. */
static bool all_live(const struct exec_signs *signs, int64_t passed)
{
    int at = signs->rank;
    for (int steps = 0; steps <= signs->rank_count; steps++, at = next_of(signs, at))
        if (atomic_load(&signs->of[at].pulse) - signs->seen[at] < passed / 2) return false;
    return true;
}

static bool is_stuck(const struct exec_signs *signs, struct exec_wait *wait, int64_t now, int *last)
{
    int64_t looks;
    uint64_t stuck = follow(signs, &looks, last);
    if (stuck == 0 || stuck != wait->stuck) {
        wait->stuck = stuck;
        wait->stuck_at = now;
        if (stuck) note_pulses(signs);
        return false;
    }
    return now - wait->stuck_at > signs->patience_pulses && looks > ENOUGH_LOOKS &&
           all_live(signs, now - wait->stuck_at);
}

/* ---- the verdict ---- */

static bool is_silent(const struct exec_signs *signs, struct exec_wait *wait, int64_t now)
{
    int64_t pulse = atomic_load(&signs->of[wait->peer].pulse);
    if (pulse != wait->seen) {
        wait->seen = pulse;
        wait->seen_at = now;
    }
    return pulse != 0 && now - wait->seen_at > signs->patience_pulses;
}

static void say_silent(const struct exec_signs *signs, const struct exec_wait *wait, int64_t now, char *text,
                       size_t size)
{
    if (is_elsewhere(signs, wait->peer))
        snprintf(text, size,
                 "rank %d on host %s hangs, or its host cannot be reached: no sign of life for %.0f s while rank %d on "
                 "%s waits for it",
                 wait->peer, signs->hosts[wait->peer], seconds(now - wait->seen_at), signs->rank,
                 signs->hosts[signs->rank]);
    else
        snprintf(text, size, "rank %d hangs: it shows no sign of life for %.0f s while rank %d waits for it",
                 wait->peer, seconds(now - wait->seen_at), signs->rank);
}

enum exec_verdict exec_wait_look(const struct exec_signs *signs, struct exec_wait *wait, char *text, size_t size)
{
    const struct exec_sign *peer = &signs->of[wait->peer];
    int64_t now = now_of(signs);
    int last = wait->peer;
    if (is_silent(signs, wait, now)) return say_silent(signs, wait, now, text, size), EXEC_FAILS;
    if (is_stuck(signs, wait, now, &last)) {
        int other = atomic_load(&signs->of[last].waits_for);
        snprintf(text, size,
                 "no message arrives: rank %d on host %s and rank %d on host %s live, and have waited for each other "
                 "for %.0f s; is a link between them down?",
                 last, signs->hosts[last], other, signs->hosts[other], seconds(now - wait->stuck_at));
        return EXEC_FAILS;
    }
    if (atomic_load(&peer->storing)) {
        bool slow = now - wait->start > signs->patience_pulses && !wait->told_of_disk;
        wait->told_of_disk = wait->told_of_disk || slow;
        snprintf(text, size, "others wait for rank %d, which reads or writes files; is its disk slow, or full?",
                 wait->peer);
        return slow ? EXEC_IS_SLOW : EXEC_WAITS_ON;
    }
    if (now - wait->start <= EXEC_LONGEST_WAIT * signs->patience_pulses) return EXEC_WAITS_ON;
    snprintf(text, size, "rank %d hangs: it sent nothing for %.0f s while rank %d waited for it", wait->peer,
             seconds(now - wait->start), signs->rank);
    return EXEC_FAILS;
}
