/* The order of a sequence over devices. Of 2C parts, device r of C has parts r and 2C - 1 - r. With a causal mask
 * all devices then have equal work; in plain order the last would see C times as many keys as the first, and all
 * would wait for it. (Megatron-LM's context parallelism, megatron/core/utils.py get_batch_on_this_cp_rank;
 * torchtitan's, torch/distributed/tensor/experimental/_attention.py, _RoundRobinLoadBalancer.) */
#include "model/step_program.h"

int64_t model_sequence_position(int pieces, int64_t length, int64_t place)
{
    if (!pieces) return place;
    const int64_t tokens = length / pieces, piece = place / tokens, pair = piece / 2;
    return (piece % 2 ? pieces - 1 - pair : pair) * tokens + place % tokens;
}
