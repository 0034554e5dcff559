/* Walks the events of a device's transient memory to the peak: each loop once, and the growth of its other iterations
 * at once. */
#include "sim/cost/cost.h"

#include <string.h>

enum { MOST_DEPTH = 8 };

static void add_growth(struct sim_category_bytes *to, const struct sim_category_bytes *at_begin,
                       const struct sim_category_bytes *after_first, double trips)
{
    to->total_bytes += sim_growth_of_loop(at_begin->total_bytes, after_first->total_bytes, trips);
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++)
        to->bytes[c] += sim_growth_of_loop(at_begin->bytes[c], after_first->bytes[c], trips);
}

/* A loop being walked: bytes at its start, and the maximum within one iteration. */
struct frame {
    struct sim_category_bytes at_begin, peak;
    const struct sim_price_event *peak_event;
};

static void close_loop(struct frame *frame, double trips, struct sim_category_bytes *now, struct frame *outer)
{
    struct sim_category_bytes peak = frame->peak, after = *now;
    bool grows = now->total_bytes > frame->at_begin.total_bytes;
    if (grows) add_growth(&peak, &frame->at_begin, now, trips);
    add_growth(&after, &frame->at_begin, now, trips);
    *now = after;
    if (peak.total_bytes <= outer->peak.total_bytes) return;
    outer->peak = peak;
    outer->peak_event = frame->peak_event;
}

static struct sim_phase_peak phase_peak(const struct sim_cost_context *p, const struct frame *frame)
{
    const struct sim_price_event *at = frame->peak_event;
    return (struct sim_phase_peak){frame->peak, at ? p->list->event_names[at->named] : NULL,
                                   at ? (enum model_phase)at->phase : MODEL_FORWARD, at ? at->trips : MODEL_ONE};
}

/* Restarts the peak from the current bytes. */
static void begin_again(struct frame *frame, const struct sim_category_bytes *now)
{
    frame->peak = *now;
    frame->peak_event = NULL;
}

/* phases: filled, or NULL. The total is held in a local variable and copied to `now` only where it is read: a sweep of
 * thousands of plans spends its time here. */
static struct sim_phase_peak walk(const struct sim_cost_context *p, struct sim_phase_memory *phases)
{
    const struct sim_price_event *events = p->list->events;
    const int count = p->list->event_count, backward = phases ? p->list->backward_event : -1;
    double standing_bytes[SIM_MOST_SHAPES];
    const double *bytes_of = p->plan->loss_tiles > 1 ? standing_bytes : p->bytes;
    struct frame frames[MOST_DEPTH];
    struct sim_category_bytes now = {0};
    double total_bytes = 0, peak_bytes = 0; /* now, and at the peak of the innermost loop */
    int depth = 0;
    for (int i = 0; p->plan->loss_tiles > 1 && i < p->list->shape_count; i++)
        standing_bytes[i] = sim_standing_bytes(p, i);
    frames[0] = (struct frame){.peak_event = NULL};
    for (int i = 0; i < count; i++) {
        const struct sim_price_event *event = &events[i];
        if (i == backward) {
            now.total_bytes = total_bytes;
            phases->forward = phase_peak(p, &frames[depth]);
            phases->saved = now;
            begin_again(&frames[depth], &now);
            peak_bytes = total_bytes;
        }
        if (event->bracket == 0) {
            const double bytes = event->count * bytes_of[event->shape];
            now.bytes[event->category] += bytes;
            total_bytes += bytes;
            if (!event->may_peak || total_bytes <= peak_bytes) continue;
            now.total_bytes = peak_bytes = total_bytes;
            frames[depth].peak = now;
            frames[depth].peak_event = event;
            continue;
        }
        now.total_bytes = total_bytes;
        if (event->bracket > 0) {
            frames[++depth] = (struct frame){now, now, event};
            peak_bytes = total_bytes;
        } else {
            const bool last = phases && event->trips == MODEL_MICROBATCHES;
            if (last) *(backward < 0 ? &phases->forward : &phases->backward) = phase_peak(p, &frames[depth]);
            close_loop(&frames[depth], (double)p->sizes[event->trips], &now, &frames[depth - 1]);
            total_bytes = now.total_bytes;
            if (last) begin_again(&frames[depth - 1], &now);
            peak_bytes = frames[--depth].peak.total_bytes;
        }
    }
    return phase_peak(p, &frames[0]);
}

struct sim_phase_peak sim_peak_at(const struct sim_sharded *sharded, int op)
{
    const struct sim_op *at = op >= 0 ? &sharded->ops[op] : NULL;
    return (struct sim_phase_peak){.name = at && at->op ? at->op->name : NULL,
                                   .phase = at && at->op ? at->op->phase : MODEL_FORWARD,
                                   .trips = at && at->loop >= 0 ? sharded->ops[at->loop].trips : MODEL_ONE};
}

void sim_price_arena(struct sim_cost_context *p, int64_t arena_bytes, const int64_t bytes[MODEL_CATEGORY_COUNT],
                     double persistent_bytes[MODEL_CATEGORY_COUNT])
{
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) {
        persistent_bytes[c] = c == MODEL_INPUT ? (double)bytes[c] : 0;
        p->peak.holding.bytes[c] = c == MODEL_INPUT ? 0 : (double)bytes[c];
    }
    p->peak.holding.total_bytes = (double)arena_bytes - persistent_bytes[MODEL_INPUT];
}

void sim_price_memory(struct sim_cost_context *p)
{
    p->peak = walk(p, NULL);
}

void sim_price_phase_memory(struct sim_cost_context *p, struct sim_phase_memory *out)
{
    memset(out, 0, sizeof *out);
    out->update = walk(p, out);
}

void sim_price_persistent(const struct sim_cost_context *p, double categories_bytes[MODEL_CATEGORY_COUNT])
{
    for (int i = 0; i < p->list->persistent_count; i++) {
        const enum model_category category = (enum model_category)p->list->persistent_categories[i];
        const int shape = p->list->persistent_shapes[i];
        const bool nf4 = p->plan->options.weight_dtype == MODEL_INT8 && category == MODEL_PARAMETER &&
                         p->list->shapes[shape].element_bytes <= 1;
        if (!sim_is_on_host(p->plan, category))
            categories_bytes[category] += p->bytes[shape] * (nf4 ? MODEL_NF4_BYTES : 1);
    }
}

/* ---- the answer ---- */

enum base_status sim_price_device(const struct sim_cost_context *p, struct sim_priced *out, struct base_error *error)
{
    out->peak_bytes = 0;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) out->peak_bytes += out->persistent_bytes[c];
    const double *c = p->placement->profile.constants;
    double fragments_bytes = sim_uses_compiled_memory(p->plan)
                                 ? 0
                                 : sim_fragments_bytes(&p->placement->profile, p->peak.holding.total_bytes);
    out->peak_bytes += p->peak.holding.total_bytes + fragments_bytes + c[SIM_RESERVED_BYTES];
    memcpy(out->categories_bytes, p->peak.holding.bytes, sizeof out->categories_bytes);
    out->categories_bytes[MODEL_TEMPORARY] += fragments_bytes;
    return out->peak_bytes < sim_largest_bytes ? BASE_OK : sim_cost_context_refuse(p, error);
}
