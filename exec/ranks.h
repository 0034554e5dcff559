/* Private to exec/: communication outside of the program's collectives. With a NULL transport or one rank, nothing
 * is sent. */
#ifndef EXEC_RANKS_H
#define EXEC_RANKS_H

#include "exec/exec.h"

enum { EXEC_SEGMENT_BYTES = 1 << 18 /* fits into a core's L2 cache twice */, EXEC_MOST_NUMBERS = 1024 };

bool exec_is_alone(const struct exec_transport *transport);
int exec_rank(const struct exec_transport *transport);
void exec_swap(const struct exec_transport *transport, int to, const void *out, int64_t out_bytes, int from, void *in,
               int64_t in_bytes);
void exec_broadcast(const struct exec_transport *transport, void *bytes, int64_t count); /* from rank 0 */
void exec_sum_numbers(const struct exec_transport *transport, double *values,
                      int count); /* at most EXEC_MOST_NUMBERS; all ranks get the same bits */
void exec_largest_numbers(const struct exec_transport *transport, double *values, int count);
void exec_tell_storing(const struct exec_transport *transport,
                       enum exec_storing storing); /* this rank starts or ends file access */
/* Rank 0 collects the hosts and warns if they use different kernels. Collective. */
void exec_meet_hosts(struct base_arena *arena, const struct exec_request *request, const char *kernel,
                     struct exec_result *out);
/* All ranks return the same: BASE_OK if all succeeded; otherwise the message of the lowest failing rank, with its
 * number. */
enum base_status exec_agree(const struct exec_transport *transport, enum base_status status, struct base_error *error);

#endif
