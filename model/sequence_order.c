/* How a sequence lies over devices. Of 2C pieces, device r of C has pieces r and 2C - 1 - r: where no query sees a
 * later key, each device then has as much to do as any other, while in order the last one would see C times what the
 * first does, and all wait for it (Megatron-LM's context parallelism, megatron/core/utils.py get_batch_on_this_cp_rank;
 * torchtitan's, torch/distributed/tensor/experimental/_attention.py, _RoundRobinLoadBalancer). */
#include "model/step_program.h"

int64_t model_sequence_position(int pieces, int64_t length, int64_t place)
{
    if (!pieces) return place;
    const int64_t tokens = length / pieces, piece = place / tokens, pair = piece / 2;
    return (piece % 2 ? pieces - 1 - pair : pair) * tokens + place % tokens;
}
