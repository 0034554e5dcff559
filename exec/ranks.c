/* Agreement between ranks outside of the program: sums of a few numbers, and the failing rank's message. */
#include "exec/ranks.h"

#include <string.h>

bool exec_is_alone(const struct exec_transport *transport)
{
    return !transport || transport->rank_count == 1;
}

int exec_rank(const struct exec_transport *transport)
{
    return transport ? transport->rank : 0;
}

void exec_swap(const struct exec_transport *transport, int to, const void *out, int64_t out_bytes, int from, void *in,
               int64_t in_bytes)
{
    transport->exchange(transport->self, to, out, (size_t)out_bytes, from, in, (size_t)in_bytes);
}

void exec_tell_storing(const struct exec_transport *transport, enum exec_storing storing)
{
    if (transport && transport->storing) transport->storing(transport->self, storing);
}

/* Along a binomial tree from rank 0, in messages that any transport accepts. */
void exec_broadcast(const struct exec_transport *t, void *bytes, int64_t count)
{
    if (exec_is_alone(t)) return;
    int distance = 1;
    while (distance < t->rank_count) distance *= 2;
    for (distance /= 2; distance > 0; distance /= 2) {
        bool gives = t->rank % (2 * distance) == 0 && t->rank + distance < t->rank_count,
             takes = t->rank % (2 * distance) == distance;
        for (int64_t at = 0; at < count && (gives || takes); at += EXEC_SEGMENT_BYTES) {
            int64_t n = count - at < EXEC_SEGMENT_BYTES ? count - at : EXEC_SEGMENT_BYTES;
            if (gives) exec_swap(t, t->rank + distance, (char *)bytes + at, n, t->rank + distance, NULL, 0);
            else exec_swap(t, t->rank - distance, NULL, 0, t->rank - distance, (char *)bytes + at, n);
        }
    }
}

/* Up the same tree, then down; the tree fixes the order of additions. */
static void combine(const struct exec_transport *t, double *values, int count, enum exec_reduction reduction)
{
    double other[EXEC_MOST_NUMBERS];
    if (exec_is_alone(t)) return;
    for (int distance = 1; distance < t->rank_count; distance *= 2) {
        bool takes = t->rank % (2 * distance) == 0 && t->rank + distance < t->rank_count,
             gives = t->rank % (2 * distance) == distance;
        int64_t bytes = count * (int64_t)sizeof *values;
        if (gives) exec_swap(t, t->rank - distance, values, bytes, t->rank - distance, NULL, 0);
        if (!takes) continue;
        exec_swap(t, t->rank + distance, NULL, 0, t->rank + distance, other, bytes);
        for (int i = 0; i < count; i++)
            values[i] =
                reduction == EXEC_MAXIMUM ? (other[i] > values[i] ? other[i] : values[i]) : values[i] + other[i];
    }
    exec_broadcast(t, values, count * (int64_t)sizeof *values);
}

void exec_sum_numbers(const struct exec_transport *transport, double *values, int count)
{
    combine(transport, values, count, EXEC_ADDITION);
}

void exec_largest_numbers(const struct exec_transport *transport, double *values, int count)
{
    combine(transport, values, count, EXEC_MAXIMUM);
}

/* The lowest failing rank gives the message, and all ranks fail with it. */
enum base_status exec_agree(const struct exec_transport *t, enum base_status status, struct base_error *error)
{
    if (exec_is_alone(t)) return status;
    double first[1] = {status == BASE_OK ? -(double)t->rank_count : -(double)t->rank};
    exec_largest_numbers(t, first, 1);
    int speaker = -(int)first[0];
    if (speaker == t->rank_count) return BASE_OK;
    struct base_error said = *error;
    if (speaker != 0 && t->rank == speaker) exec_swap(t, 0, &said, sizeof said, 0, NULL, 0);
    if (speaker != 0 && t->rank == 0) exec_swap(t, speaker, NULL, 0, speaker, &said, sizeof said);
    exec_broadcast(t, &said, sizeof said);
    *error = said;
    return speaker ? base_fail_in(error, "rank %d", speaker) : error->status;
}
