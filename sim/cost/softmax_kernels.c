/* Softmax with its scale and mask, where a kernel does all of it for four sequences times heads at a time (Megatron-LM
 * and apex). Where a device has no multiple of four, PyTorch's own kernels do: microsoft/Megatron-DeepSpeed@0782d753
 * megatron/model/fused_softmax.py. */
#include "sim/cost/cost.h"

#include <math.h>

/* Number of kernels in place of one, and their bytes read and written per score: cast to float32, scale, mask, softmax,
 * cast back. Backward is the same, and softmax also reads its result. One fused kernel reads and writes 2-byte scores;
 * backward also reads its result. */
static const struct sim_softmax_split one = {1, 1}, forward = {5, (6 + 8 + 8 + 8 + 6) / 4.0},
                                      backward = {5, (6 + 12 + 8 + 8 + 6) / 6.0};

struct sim_softmax_split sim_softmax_split(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    if (!kernel->fours.count || fmod(sim_product_of(p, &kernel->fours), 4) == 0) return one;
    return kernel->backward ? backward : forward;
}
