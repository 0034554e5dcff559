/* Prices a program for the sizes of a plan: shapes to bytes, kernels and collectives to seconds. */
#include "sim/priced_program.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const double sim_largest_bytes = (double)(INT64_C(1) << 62);

enum base_status sim_pricing_refuse(const struct sim_pricing *p, struct base_error *error)
{
    return base_fail(
        error, BASE_INPUT,
        "batch_size: %lld sequences of %s need more than 4 EiB on one device; use a smaller batch, shorter "
        "lengths or a smaller model",
        (long long)p->plan->batch_size, p->plan->model_text);
}

double sim_product_of(const struct sim_pricing *p, const struct sim_factors *factors)
{
    double result = 1;
    for (int i = 0; i < factors->count; i++) result *= p->local[factors->of[i]];
    return result;
}

static enum base_status price_shapes(struct sim_pricing *p, struct base_error *error)
{
    for (int i = 0; i < p->list->shape_count; i++) {
        const struct sim_price_shape *shape = &p->list->shapes[i];
        p->bytes[i] = sim_product_of(p, &shape->elements) * shape->element_bytes;
        if (!(p->bytes[i] < sim_largest_bytes)) return sim_pricing_refuse(p, error);
    }
    return BASE_OK;
}

enum base_status sim_pricing_begin(struct sim_pricing *p, const struct sim_plan *plan,
                                   const struct sim_price_list *list, struct base_error *error)
{
    const struct sim_placement *placement = plan->placement;
    memset(p, 0, offsetof(struct sim_pricing, bytes));
    memset(p->totals_s, 0, sizeof *p - offsetof(struct sim_pricing, totals_s));
    p->list = list;
    p->plan = plan;
    p->placement = placement;
    sim_plan_sizes(plan, p->sizes);
    for (int i = 0; i < list->factor_count; i++) {
        const struct sim_factor factor = list->factors[i];
        p->local[i] = (double)topo_shard_extent(&placement->axes, factor.axes, p->sizes[factor.size]);
    }
    return price_shapes(p, error);
}

/* ---- time ---- */

/* Alone, its starts included. */
static double alone_s(const struct sim_pricing *p, const struct sim_priced_kernel *kernel)
{
    return kernel->busy_s + sim_launches_s(&p->placement->profile, kernel->launches);
}

static void note_entry(struct sim_detail *detail, const struct sim_entry *entry)
{
    if (!detail || !detail->timeline) return;
    detail->timeline->entries[detail->timeline->count++] = *entry;
}

const char *sim_region_name(enum sim_region region)
{
    static const char *const names[SIM_REGION_COUNT] = {"outside", "loop_body", "loop_condition"};
    return names[region];
}

struct sim_collective_row *sim_collective_row_of(struct base_arena *arena, struct sim_collective_list *list,
                                                 const struct sim_collective_row *like)
{
    for (int i = 0; i < list->count; i++) {
        struct sim_collective_row *row = &list->rows[i];
        if (row->kind == like->kind && row->axes == like->axes && row->dtype == like->dtype &&
            row->bytes == like->bytes && row->where == like->where)
            return row;
    }
    list->rows = base_grown(arena, list->rows, list->count, &list->capacity, sizeof *list->rows);
    struct sim_collective_row *row = &list->rows[list->count++], used = *row;
    *row = *like;
    row->ops = used.ops, row->op_capacity = used.op_capacity; /* of a list that is filled anew */
    return row;
}

static void note_collective(struct sim_detail *detail, const struct sim_price_step *step,
                            const struct sim_price_collective *c, const struct sim_sent *sent, int64_t count,
                            double launches, double time_s)
{
    if (!detail || !detail->lists_collectives) return;
    const int each = sent->permutes ? sent->permutes : 1;
    const struct sim_collective_row like = {.kind = sent->permutes ? SIM_COLLECTIVE_PERMUTE : sent->kind,
                                            .where = step->region,
                                            .axes = c->axes,
                                            .dtype = sent->dtype,
                                            .bytes = (int64_t)(sent->permutes ? sent->permute_bytes : sent->bytes),
                                            .first_op = step->name};
    struct sim_collective_row *row = sim_collective_row_of(detail->arena, &detail->collectives, &like);
    row->count += count * each;
    row->launch_count += launches * each;
    row->time_s += time_s * (double)count;
    row->ops = base_grown(detail->arena, row->ops, row->op_count, &row->op_capacity, sizeof *row->ops);
    row->ops[row->op_count++] = step->name;
}

static bool combine_alike(const struct sim_pricing *p, const struct sim_prices *prices, int i, int j)
{
    const struct sim_price_collective *a = &p->list->collectives[i], *b = &p->list->collectives[j];
    return a->gradient && b->gradient && prices->sent[i].kind == prices->sent[j].kind && a->axes == b->axes &&
           a->dtype == b->dtype;
}

/* Compilers combine reductions of gradients of one kind, group and dtype, up to so many bytes, into one collective.
 * What share of the collectives is then launched, and how many bytes go together. */
static void combine(const struct sim_pricing *p, double most_bytes, struct sim_prices *prices)
{
    const struct sim_price_list *list = p->list;
    double counts[SIM_MOST_DISTINCT];
    for (int i = 0; i < list->collective_count; i++) counts[i] = 0; /* more there are not, and the most are many */
    for (int i = 0; i < list->step_count; i++)
        if (list->steps[i].communicates) counts[list->steps[i].what] += prices->repeats[list->steps[i].repeats];
    for (int i = 0; i < list->collective_count; i++) {
        double count = 0, bytes = 0;
        for (int j = 0; j < list->collective_count; j++) {
            if (!combine_alike(p, prices, i, j)) continue;
            count += counts[j];
            bytes += counts[j] * prices->sent[j].bytes;
        }
        if (count > 0) prices->launched_frac[i] = fmin(1, ceil(bytes / most_bytes) / count);
        prices->together_bytes[i] = fmin(bytes, most_bytes);
    }
}

/* One collective that is combined with others: its share of the combined one where more bytes go faster (NCCL); else
 * its own time without the launches that combining saves. */
static double combined_s(const struct sim_pricing *p, const struct sim_price_collective *c, const struct sim_sent *sent,
                         double launched_frac, double together_bytes)
{
    if (p->placement->profile.constants[SIM_LL_BYTES_PER_S] > 0 && together_bytes > sent->bytes)
        return sim_collective_s(p->placement, sent->kind, c->axes, together_bytes) * sent->bytes / together_bytes;
    return sim_collective_s(p->placement, sent->kind, c->axes, sent->bytes) -
           (1 - launched_frac) * sim_collective_s(p->placement, sent->kind, c->axes, 0);
}

bool sim_is_of_sharded_weights(const struct sim_pricing *p, const struct sim_price_collective *collective)
{
    const int data = topo_axis_named(&p->placement->axes, "data");
    return data >= 0 && (collective->axes >> data & 1) &&
           (collective->kind == SIM_ALL_GATHER || collective->kind == SIM_REDUCE_SCATTER);
}

static void price_collectives(const struct sim_pricing *p, struct sim_prices *prices)
{
    const struct sim_price_list *list = p->list;
    const double most_bytes = p->placement->profile.constants[SIM_COMBINE_BYTES];
    const bool small = model_infers(p->plan->options.step);
    bool combines = (sim_passes_of(p->plan) & SIM_PASS_BIT(SIM_PASS_COMBINE_COLLECTIVES)) && most_bytes > 0;
    for (int i = 0; i < list->collective_count; i++) {
        prices->launched_frac[i] = 1;
        prices->sent[i] = sim_sent_as_compiled(p, &list->collectives[i]);
    }
    if (combines) combine(p, most_bytes, prices);
    for (int i = 0; i < list->collective_count; i++) {
        const struct sim_price_collective *c = &list->collectives[i];
        const struct sim_sent *sent = &prices->sent[i];
        prices->collectives_s[i] =
            prices->launched_frac[i] < 1
                ? combined_s(p, c, sent, prices->launched_frac[i], prices->together_bytes[i])
                : (small ? sim_small_collective_s : sim_collective_s)(p->placement, sent->kind, c->axes, sent->bytes);
        if (p->weight_gathers == SIM_GATHERED_BEFORE && sim_is_of_sharded_weights(p, c)) prices->collectives_s[i] = 0;
    }
}

/* How often each stands in the step, which decides what collectives are put together, too. */
static void price_counts(const struct sim_pricing *p, struct sim_prices *prices)
{
    for (int i = 0; i < p->list->repeat_count; i++) prices->repeats[i] = sim_product_of(p, &p->list->repeats[i]);
    price_collectives(p, prices);
}

static void price_distinct(const struct sim_pricing *p, struct sim_prices *prices)
{
    sim_price_kernels(p, prices);
    price_counts(p, prices);
}

static void note_communication(const struct sim_pricing *p, const struct sim_price_step *step,
                               const struct sim_prices *prices, struct sim_detail *detail)
{
    double time_s = prices->collectives_s[step->what], count = prices->repeats[step->repeats];
    const struct sim_price_collective *collective = &p->list->collectives[step->what];
    const struct sim_sent *sent = &prices->sent[step->what];
    if (p->weight_gathers == SIM_GATHERED_ONCE && sim_is_of_sharded_weights(p, collective))
        count /= (double)p->sizes[MODEL_MICROBATCHES];
    const double steps = step->region == SIM_OUTSIDE ? 1 : (double)p->sizes[MODEL_DECODE_STEPS],
                 rows = count / steps; /* rows are of one decode step, entries of the whole answer */
    note_collective(detail, step, collective, sent, (int64_t)rows, rows * prices->launched_frac[step->what], time_s);
    note_entry(detail, &(struct sim_entry){step->name, step->phase, SIM_BY_COMMUNICATION, (int64_t)count, time_s, 0,
                                           sent->bytes, collective->axes, sent->kind});
}

static void note_compute(const struct sim_pricing *p, const struct sim_price_step *step,
                         const struct sim_prices *prices, struct sim_detail *detail)
{
    const struct sim_priced_kernel *kernel = &prices->kernels[step->what];
    const double count = prices->repeats[step->repeats],
                 latency_s = sim_launches_s(&p->placement->profile, kernel->launches);
    enum sim_bound bound = kernel->busy_s < latency_s ? SIM_BY_LATENCY : kernel->bound;
    note_entry(detail, &(struct sim_entry){step->name, step->phase, bound, (int64_t)count, kernel->busy_s + latency_s,
                                           kernel->flop, kernel->bytes, 0, SIM_ALL_REDUCE});
}

/* Each sum has a local variable: a sweep of thousands of plans spends its time here. */
static void sum_up(struct sim_pricing *p, const struct sim_prices *prices)
{
    const double each_s = sim_launches_s(&p->placement->profile, 1);
    double compute_s = 0, memory_s = 0, communication_s = 0, latency_s = 0;
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double count = prices->repeats[step->repeats];
        if (step->communicates) {
            communication_s += prices->collectives_s[step->what] * count;
            continue;
        }
        const struct sim_priced_kernel *kernel = &prices->kernels[step->what];
        const double busy_s = kernel->busy_s * count;
        compute_s += kernel->bound == SIM_BY_COMPUTE ? busy_s : 0;
        memory_s += kernel->bound == SIM_BY_COMPUTE ? 0 : busy_s;
        latency_s += kernel->launches * each_s * count;
    }
    p->totals_s[SIM_BY_COMPUTE] = compute_s, p->totals_s[SIM_BY_MEMORY] = memory_s;
    p->totals_s[SIM_BY_COMMUNICATION] = communication_s, p->totals_s[SIM_BY_LATENCY] = latency_s;
}

/* The host starts kernels ahead of the device; where it takes longer than they do, the device waits for it, and always
 * for kernels that it only starts when the one before has ended. Optimizers are few kernels over many parameters, and
 * the host is through with them at once. */
static void wait_for_host(struct sim_pricing *p, const struct sim_prices *prices)
{
    const double *c = p->placement->profile.constants;
    double launches = 0, updates_s = 0, all_s = p->exposed_s;
    if (!(c[SIM_HOST_LAUNCH_S] > 0)) return;
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double count = prices->repeats[step->repeats];
        const double alone =
            step->communicates ? prices->collectives_s[step->what] : alone_s(p, &prices->kernels[step->what]);
        if (step->phase == MODEL_OPTIMIZER) updates_s += count * alone;
        else launches += count * (step->communicates ? 1 : prices->kernels[step->what].launches);
    }
    for (int b = 0; b < SIM_BOUND_COUNT; b++) all_s += b == SIM_BY_COMMUNICATION ? 0 : p->totals_s[b];
    const double host_s = launches * c[SIM_HOST_LAUNCH_S], device_s = all_s - updates_s,
                 blocked_s = c[SIM_BLOCKED_LAUNCHES_FRAC] * host_s;
    p->totals_s[SIM_BY_LATENCY] += fmax(blocked_s, host_s - device_s) + c[SIM_HOST_STEP_S];
    p->ahead_frac = host_s < device_s && !(blocked_s > 0) ? 1 - host_s / device_s : 0;
}

/* The same of what stands in the loop of decode steps. */
static void sum_up_loop(struct sim_pricing *p, const struct sim_prices *prices)
{
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double count = prices->repeats[step->repeats];
        if (step->region == SIM_OUTSIDE) continue;
        if (step->communicates) {
            p->loop_s[SIM_BY_COMMUNICATION] += prices->collectives_s[step->what] * count;
            continue;
        }
        const struct sim_priced_kernel *kernel = &prices->kernels[step->what];
        p->loop_s[kernel->bound == SIM_BY_COMPUTE ? SIM_BY_COMPUTE : SIM_BY_MEMORY] += kernel->busy_s * count;
        p->loop_s[SIM_BY_LATENCY] += sim_launches_s(&p->placement->profile, kernel->launches) * count;
    }
}

static double needed_flop(const struct sim_pricing *p, const struct sim_prices *prices)
{
    double flop[SIM_MOST_DISTINCT], sum = 0;
    for (int i = 0; i < p->list->product_count; i++) flop[i] = 2 * sim_product_of(p, &p->list->products[i]);
    for (int i = 0; i < p->list->need_count; i++)
        sum += flop[p->list->needs[i].product] * prices->repeats[p->list->needs[i].repeats];
    return sum;
}

static double price_exposed(const struct sim_pricing *p, const struct sim_prices *prices)
{
    double kernels_s[SIM_MOST_DISTINCT];
    for (int i = 0; i < p->list->kernel_count; i++) kernels_s[i] = alone_s(p, &prices->kernels[i]);
    return sim_exposed_s(p, kernels_s, prices->collectives_s);
}

/* Products in fp8 are split into pieces, which gather what they read and scatter what they sum while the next one runs
 * (Transformer Engine's user buffers, ring attention); so are the same in torchtitan's asynchronous tensor parallelism.
 */
static double hidden_by_engine(const struct sim_pricing *p, const struct sim_prices *prices)
{
    const double exposed_frac = p->placement->profile.constants[SIM_ENGINE_EXPOSED_FRAC];
    const int data_axis = topo_axis_named(&p->placement->axes, "data");
    const unsigned data = data_axis < 0 ? 0 : 1u << data_axis;
    double sum_s = 0;
    if (!(exposed_frac > 0) || p->plan->options.dtype != MODEL_FP8 ||
        (p->list->moment_count && !p->plan->options.ring_devices))
        return 0;
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        if (!step->communicates || step->phase == MODEL_OPTIMIZER) continue;
        const struct sim_price_collective *c = &p->list->collectives[step->what];
        if (!c->gradient && !(c->axes & data) && !(p->plan->options.ring_devices && c->kind == SIM_COLLECTIVE_PERMUTE))
            sum_s += prices->collectives_s[step->what] * prices->repeats[step->repeats];
    }
    return (1 - exposed_frac) * sum_s;
}

/* What one device computes, padding and recomputation included, and what of its memory it reads and writes. */
static void add_work(struct sim_pricing *p, const struct sim_prices *prices)
{
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        if (step->communicates) continue;
        const double count = prices->repeats[step->repeats];
        p->work_flop += count * prices->kernels[step->what].flop;
        p->work_bytes += count * prices->kernels[step->what].bytes;
    }
}

void sim_price_time_of(struct sim_pricing *p, struct sim_prices *prices, struct sim_detail *detail)
{
    price_counts(p, prices);
    sum_up(p, prices);
    if (p->plan->options.step == MODEL_STEP_GENERATE) sum_up_loop(p, prices);
    p->work_flop = p->work_bytes = 0;
    if (detail) add_work(p, prices);
    for (int i = 0; i < p->list->step_count && detail; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        if (step->communicates) note_communication(p, step, prices, detail);
        else if (detail->timeline) note_compute(p, step, prices, detail);
    }
    p->exposed_s = p->list->moment_count ? price_exposed(p, prices) : p->totals_s[SIM_BY_COMMUNICATION];
    p->exposed_s -= hidden_by_engine(p, prices);
    wait_for_host(p, prices);
    p->needed_flop = needed_flop(p, prices);
    p->totals_s[SIM_BY_MEMORY] += sim_waited_for_transfers_s(p);
}

void sim_price_time(struct sim_pricing *p, struct sim_detail *detail)
{
    struct sim_prices prices;
    sim_price_kernels(p, &prices);
    sim_price_time_of(p, &prices, detail);
}

void sim_price_steps(const struct sim_pricing *p, double *steps_s)
{
    struct sim_prices prices;
    price_distinct(p, &prices);
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        steps_s[i] = step->communicates ? prices.collectives_s[step->what] : alone_s(p, &prices.kernels[step->what]);
    }
}

void sim_price_phases_of(const struct sim_pricing *p, const struct sim_prices *prices,
                         double phases_s[MODEL_OPTIMIZER + 1])
{
    for (int i = 0; i <= MODEL_OPTIMIZER; i++) phases_s[i] = 0;
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double once_s =
            step->communicates ? prices->collectives_s[step->what] : alone_s(p, &prices->kernels[step->what]);
        phases_s[step->phase] += once_s * prices->repeats[step->repeats];
    }
}

void sim_price_phases(const struct sim_pricing *p, double phases_s[MODEL_OPTIMIZER + 1])
{
    struct sim_prices prices;
    price_distinct(p, &prices);
    sim_price_phases_of(p, &prices, phases_s);
}
