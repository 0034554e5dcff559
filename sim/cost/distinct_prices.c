/* Unit costs: the price of each distinct kernel and collective, in total and by phase, and its executions per step. */
#include "sim/cost/cost.h"

#include <math.h>

/* ---- time ---- */

/* Alone, its starts included. */
double sim_alone_s(const struct sim_cost_context *p, const struct sim_priced_kernel *kernel)
{
    return kernel->busy_s + sim_launches_s(&p->placement->profile, kernel->launches);
}

/* Parameters of a flat array are gathered as the gradients of one are summed. */
static bool combines(const struct sim_cost_context *p, const struct sim_price_collective *c)
{
    return c->gradient ||
           (c->updated && (p->placement->profile.bucket_parameters > 0 || sim_has_zero_buckets(p->plan)));
}

static bool combine_alike(const struct sim_cost_context *p, const struct sim_unit_costs *prices, int i, int j)
{
    const struct sim_price_collective *a = &p->list->collectives[i], *b = &p->list->collectives[j];
    return a->gradient == b->gradient && combines(p, b) && prices->sent[i].kind == prices->sent[j].kind &&
           a->axes == b->axes && a->dtype == b->dtype;
}

/* Overlapped buckets are limited in size; a device of an all-gather contributes its shard. Megatron-LM's default grows
 * with the data-parallel ranks (megatron/core/distributed/distributed_data_parallel.py); a configured size does not. */
static double most_bytes_of(const struct sim_cost_context *p, const struct sim_price_collective *c)
{
    static const double least = 40e6, each_device = 1e6;
    const struct sim_plan *plan = p->plan;
    const double usual = p->placement->profile.bucket_parameters,
                 devices = p->placement->groups[c->axes].load.group_size,
                 own = usual > least ? usual : fmax(least, each_device * devices),
                 most = plan->ddp_bucket_size ? (double)plan->ddp_bucket_size : own;
    const double zero = (double)(c->gradient ? plan->zero.reduce_count : plan->zero.gather_count);
    if (sim_has_zero_buckets(plan))
        return zero * (double)model_dtype_bytes(c->dtype) / (c->kind == SIM_ALL_GATHER ? devices : 1);
    const bool buckets = plan->overlaps[c->gradient ? SIM_OVERLAP_GRADIENTS : SIM_OVERLAP_PARAMETERS];
    if (!(usual > 0) || !buckets) return p->placement->profile.constants[SIM_COMBINE_BYTES];
    return most * (double)model_dtype_bytes(c->dtype) / (c->kind == SIM_ALL_GATHER ? devices : 1);
}

/* Compilers combine gradient reductions of one kind, group and dtype into one collective, up to a size limit. Sets the
 * share of collectives that are launched, and the combined bytes. */
static void combine(const struct sim_cost_context *p, struct sim_unit_costs *prices)
{
    const struct sim_cost_program *list = p->list;
    double *counts = prices->each;
    for (int i = 0; i < list->collective_count; i++) counts[i] = 0; /* only those in use: the arrays are large */
    for (int i = 0; i < list->step_count; i++)
        if (list->steps[i].communicates) counts[list->steps[i].what] += prices->repeats[list->steps[i].repeats];
    for (int i = 0; i < list->collective_count; i++) {
        double count = 0, bytes = 0;
        int first = 0;
        prices->together_bytes[i] = 0;
        if (!combines(p, &list->collectives[i])) continue;
        while (first < i && !combine_alike(p, prices, i, first)) first++;
        if (first < i) {
            prices->launched_frac[i] = prices->launched_frac[first];
            prices->together_bytes[i] = prices->together_bytes[first];
            continue;
        }
        for (int j = i; j < list->collective_count; j++) {
            if (!combine_alike(p, prices, i, j)) continue;
            count += counts[j];
            bytes += counts[j] * prices->sent[j].bytes;
        }
        const double most_bytes = most_bytes_of(p, &list->collectives[i]);
        if (count > 0) prices->launched_frac[i] = fmin(1, ceil(bytes / most_bytes) / count);
        prices->together_bytes[i] = fmin(bytes, most_bytes);
    }
}

/* Caches times: evaluating NCCL's algorithm choice costs more than a lookup. */
static double collective_s(const struct sim_cost_context *p, enum sim_collective kind, unsigned axes, double bytes)
{
    const bool small = model_infers(p->plan->options.step);
    double (*const price_s)(const struct sim_placement *, enum sim_collective, unsigned, double) =
        small ? sim_small_collective_s : sim_collective_s;
    if (!sim_is_of_nccl(p->placement, kind)) return price_s(p->placement, kind, axes, bytes);
    const struct sim_price_question question = {.on = p->placement,
                                                .what = (short)((small ? SIM_COLLECTIVE_COUNT : 0) + kind),
                                                .count = 2,
                                                .of = {axes, bytes}};
    bool known;
    double *answer_s = sim_recent_price(p->list->recent, &question, &known);
    if (!known) *answer_s = price_s(p->placement, kind, axes, bytes);
    return *answer_s;
}

static bool is_of_vocabulary(const struct sim_cost_context *p, const struct sim_price_collective *c)
{
    const struct sim_factors *elements = &p->list->shapes[c->shape].elements;
    bool found = false;
    for (int i = 0; i < elements->count; i++) found = found || p->list->factors[elements->of[i]].size == MODEL_VOCAB;
    return found;
}

/* Weights of layers that FSDP gathers as products read them (pytorch/ao float8, enable_fsdp_float8_all_gather);
 * embedding and logits stay in bfloat16. */
static bool gathers_in_fp8(const struct sim_cost_context *p, const struct sim_price_collective *c)
{
    return p->plan->fp8_recipe == SIM_FP8_TENSORWISE && c->kind == SIM_ALL_GATHER && !c->gradient &&
           c->dtype == MODEL_BFLOAT16 && sim_is_of_sharded_weights(p, c) && !is_of_vocabulary(p, c);
}

/* Sequences that tensor parallelism gathers for a product are quantised before they are sent, with their scales
 * (TransformerEngine transformer_engine/pytorch/distributed.py, gather_along_first_dim). */
static double gathered_frac(const struct sim_cost_context *p, const struct sim_price_collective *c)
{
    static const struct {
        enum model_dtype dtype;
        double bytes; /* an element */
    } sent[] = {{MODEL_FP8, 1}, {MODEL_MXFP8, 1 + 1.0 / 32}, {MODEL_NVFP4, 1.0 / 2 + 1.0 / 16}};
    const bool engine = p->placement->profile.traits >> MODEL_TRAIT_ENGINE_CASTS & 1,
               gathers = c->kind == SIM_ALL_GATHER && c->axes == sim_model_axis(&p->placement->axes) &&
                         (c->dtype == MODEL_BFLOAT16 || c->dtype == MODEL_FP8) && !c->gradient;
    if (gathers_in_fp8(p, c)) return 1 / (double)model_dtype_bytes(MODEL_BFLOAT16);
    for (int i = 0; i < BASE_COUNT(sent) && engine && gathers; i++)
        if (sent[i].dtype == p->plan->options.dtype) return sent[i].bytes / (double)model_dtype_bytes(c->dtype);
    return 1;
}

/* DeepEP and HybridEP send a token once wherever several of its experts are. */
static bool is_dispatch(const struct sim_cost_context *p, const struct sim_price_collective *c)
{
    const struct sim_plan *plan = p->plan;
    const bool once = plan->moe_dispatcher == SIM_DISPATCH_DEEPEP || plan->moe_dispatcher == SIM_DISPATCH_HYBRIDEP;
    return once && c->kind == SIM_ALL_TO_ALL && plan->expert_parallel > 1 && p->placement->topology.kind == TOPO_GPU;
}

/* The time of one combined collective: its share of the combined one where larger messages are faster (NCCL), else its
 * own time without the saved launches. */
static double combined_s(const struct sim_cost_context *p, const struct sim_price_collective *c,
                         const struct sim_lowered_collective *sent, double launched_frac, double together_bytes)
{
    if (p->placement->profile.constants[SIM_LL_BYTES_PER_S] > 0 && together_bytes > sent->bytes)
        return collective_s(p, sent->kind, c->axes, together_bytes) * sent->bytes / together_bytes;
    return collective_s(p, sent->kind, c->axes, sent->bytes) -
           (1 - launched_frac) * collective_s(p, sent->kind, c->axes, 0);
}

static void price_collectives(const struct sim_cost_context *p, struct sim_unit_costs *prices)
{
    const struct sim_cost_program *list = p->list;
    const bool together = (sim_passes_of(p->plan) & SIM_PASS_BIT(SIM_PASS_COMBINE_COLLECTIVES)) &&
                          p->placement->profile.constants[SIM_COMBINE_BYTES] > 0;
    for (int i = 0; i < list->collective_count; i++) {
        prices->launched_frac[i] = 1;
        prices->sent[i] = sim_lowered_as_compiled(p, &list->collectives[i]);
    }
    if (together) combine(p, prices);
    for (int i = 0; i < list->collective_count; i++) {
        const struct sim_price_collective *c = &list->collectives[i];
        const struct sim_lowered_collective *sent = &prices->sent[i];
        prices->collectives_s[i] = prices->launched_frac[i] < 1
                                       ? combined_s(p, c, sent, prices->launched_frac[i], prices->together_bytes[i])
                                       : collective_s(p, sent->kind, c->axes, sent->bytes * gathered_frac(p, c));
        if (is_dispatch(p, c))
            prices->collectives_s[i] =
                sim_dispatch_s(p->placement, c->axes, sent->bytes, (double)p->sizes[MODEL_SELECTED_EXPERTS]);
        if (p->weight_gathers == SIM_GATHERED_BEFORE && sim_is_of_sharded_weights(p, c)) prices->collectives_s[i] = 0;
    }
}

/* Executions per step of each item; combining depends on them. */
void sim_price_counts(const struct sim_cost_context *p, struct sim_unit_costs *prices)
{
    for (int i = 0; i < p->list->repeat_count; i++) prices->repeats[i] = sim_product_of(p, &p->list->repeats[i]);
    price_collectives(p, prices);
}

static void price_distinct(const struct sim_cost_context *p, struct sim_unit_costs *prices)
{
    sim_price_kernels(p, prices);
    sim_price_counts(p, prices);
}

void sim_price_steps(const struct sim_cost_context *p, double *steps_s)
{
    struct sim_unit_costs *prices = p->list->unit_costs;
    price_distinct(p, prices);
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        steps_s[i] =
            step->communicates ? prices->collectives_s[step->what] : sim_alone_s(p, &prices->kernels[step->what]);
    }
}

void sim_price_phases_of(const struct sim_cost_context *p, const struct sim_unit_costs *prices,
                         double phases_s[MODEL_OPTIMIZER + 1])
{
    for (int i = 0; i <= MODEL_OPTIMIZER; i++) phases_s[i] = 0;
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double once_s =
            step->communicates ? prices->collectives_s[step->what] : sim_alone_s(p, &prices->kernels[step->what]);
        phases_s[step->phase] += once_s * prices->repeats[step->repeats];
    }
}

void sim_price_phases(const struct sim_cost_context *p, double phases_s[MODEL_OPTIMIZER + 1])
{
    struct sim_unit_costs *prices = p->list->unit_costs;
    price_distinct(p, prices);
    sim_price_phases_of(p, prices, phases_s);
}
