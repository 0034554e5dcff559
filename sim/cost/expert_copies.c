/* Megatron-LM's copies of expert rows outside its kernels: sorted by local expert, padded for low-precision products,
 * and out of buffers of a captured step. */
#include "sim/cost/cost.h"

#include <string.h>

enum sim_expert_rows sim_expert_rows_of(const char *name)
{
    static const struct {
        const char *in;
        enum sim_expert_rows rows;
    } kinds[] = {
        {"/mlp/sorted", SIM_ROWS_SORTED},
        {"/mlp/combined", SIM_ROWS_SORTED},
        {"/mlp/expert/weighed", SIM_ROWS_GATED},
        {"/mlp/expert/wi_1 gradient of input", SIM_ROWS_OF_GATES},
        {"/mlp/expert/input gradient sum", SIM_ROWS_OF_GATES},
    };
    static const char product[] = "/mlp/expert/wo"; /* itself, not its gradients */
    const size_t length = strlen(name), behind = sizeof product - 1;
    for (int i = 0; i < BASE_COUNT(kinds); i++)
        if (strstr(name, kinds[i].in)) return kinds[i].rows;
    return length >= behind && !strcmp(name + length - behind, product) ? SIM_ROWS_OF_GATES : SIM_NOT_OF_EXPERTS;
}

/* Transformer Engine's fused experts, used in captured steps: the previous product computes the gates and quantizes its
 * result; so does the backward product (transformer_engine/pytorch/ops/fused, cuDNN front end's grouped MLP, mxfp8
 * only). */
bool sim_experts_are_fused(const struct sim_cost_context *p)
{
    return p->plan->cuda_graphs & SIM_GRAPHED_STEP && p->plan->options.dtype == MODEL_MXFP8 &&
           p->placement->profile.traits >> MODEL_TRAIT_ENGINE_CASTS & 1;
}

/* An all-to-all delivers rows by sender, which are then sorted by expert (megatron/core/transformer/moe/
 * token_dispatcher.py, sort_chunks_by_idxs). Each expert's rows are padded to whole blocks (experts.py,
 * quantization_padding), unless the dispatcher (HybridEP) or the router does both. */
static struct sim_expert_copies sorted_again(const struct sim_plan *plan, double elements)
{
    const bool chunks = plan->config->experts.count > plan->expert_parallel,
               pads = model_dtype_is_quantized(plan->options.dtype),
               asks = plan->moe_dispatcher == SIM_DISPATCH_ALLTOALL || plan->moe_dispatcher == SIM_DISPATCH_AS_SOFTWARE;
    const double copies = asks && plan->expert_parallel > 1 ? chunks + pads : 0;
    return (struct sim_expert_copies){2 * copies * elements * (double)model_dtype_bytes(MODEL_BFLOAT16), copies};
}

/* A captured step's buffers have a fixed size. Tensors saved in them are copied into pages, and back for the backward
 * pass (megatron/core/transformer/moe/paged_stash.py): the inputs of the first product, of the gates, and of the second
 * product. */
static struct sim_expert_copies stashed(const struct sim_plan *plan, double elements)
{
    if (!(plan->cuda_graphs & SIM_GRAPHED_STEP)) return (struct sim_expert_copies){0};
    const double half = (double)model_dtype_bytes(MODEL_BFLOAT16),
                 operand = model_dtype_is_quantized(plan->options.dtype) ? 1 : half,
                 width = (double)plan->config->emb_dim / (double)plan->config->experts.mlp_dim,
                 saved = (width + 1) * operand + (double)plan->config->mlp_activation_count * half;
    return (struct sim_expert_copies){2 * saved * elements, 3};
}

struct sim_expert_copies sim_expert_copies(const struct sim_cost_context *p, enum sim_expert_rows rows, double elements)
{
    const bool engine = p->placement->profile.traits >> MODEL_TRAIT_ENGINE_CASTS & 1;
    if (engine && rows == SIM_ROWS_SORTED) return sorted_again(p->plan, elements);
    if (engine && rows == SIM_ROWS_GATED) return stashed(p->plan, elements);
    return (struct sim_expert_copies){0};
}
