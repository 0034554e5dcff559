/* Checks that hold for every answer. The property tests run them over random plans. */
#include "sim/predict/predict.h"

#include <math.h>

static const double rounding_frac = 1e-9;

static bool is_sum(double sum, double whole, double rounding)
{
    return fabs(sum - whole) <= rounding_frac * fabs(whole) + rounding;
}

static const char *check_time(const struct sim_prediction *p)
{
    const double parts[] = {p->compute_s, p->memory_bound_s, p->exposed_communication_s, p->overhead_s};
    double sum_s = 0;
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        if (!isfinite(parts[i]) || parts[i] < 0) return "a part of the step is negative or not finite";
        sum_s += parts[i];
    }
    if (!(p->step_s > 0)) return "no time";
    if (!is_sum(sum_s, p->step_s, 0)) return "the parts do not add up to the step";
    if (p->exposed_communication_s > p->communication_s * (1 + rounding_frac))
        return "more communication is exposed than there is";
    return NULL;
}

static const char *check_memory(const struct sim_prediction *p)
{
    enum { ROUNDED = 8 /* bytes: each part is a whole number */ };
    const struct sim_memory *m = &p->memory;
    const int64_t parts[] = {m->parameter_bytes, m->optimizer_state_bytes, m->gradient_bytes, m->activation_bytes,
                             m->temporary_bytes, m->cache_bytes,           m->reserved_bytes};
    double sum_bytes = 0;
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        if (parts[i] < 0) return "a part of memory is negative";
        sum_bytes += (double)parts[i];
    }
    if (m->peak_bytes <= 0) return "no memory";
    if (m->peak_bytes < m->parameter_bytes + m->optimizer_state_bytes) return "memory below parameters and state";
    if (!is_sum(sum_bytes, (double)m->peak_bytes, ROUNDED)) return "the parts do not add up to the peak";
    if (p->fits && p->free_bytes < 0) return "it fits, and memory is missing";
    return NULL;
}

static const char *check_peak(const struct sim_peak_buffers *peak, const struct sim_memory *memory)
{
    double sum_bytes = 0;
    for (int i = 0; i < peak->count; i++) sum_bytes += peak->rows[i].bytes;
    return is_sum(sum_bytes, (double)memory->peak_bytes, peak->count) ? NULL : "buffers do not add up to the peak";
}

/* Links carry one collective at a time, and so does the second stream; all of them end within the step. */
static const char *check_links(const struct sim_spans *spans)
{
    const double rounding_s = rounding_frac * spans->end_s;
    double carried_s = 0, free_s[2] = {0};
    for (int i = 0; i < spans->count; i++) {
        const struct sim_span *span = &spans->spans[i];
        if (!(span->end_s >= span->start_s) || span->end_s > spans->end_s + rounding_s)
            return "something ends before it begins, or after the step";
        const bool beside = span->kind == SIM_SPAN_BESIDE;
        if (span->kind != SIM_SPAN_COLLECTIVE && !beside) continue;
        if (span->start_s < free_s[beside] - rounding_s) return "links carry two collectives at once";
        free_s[beside] = span->end_s;
        if (!beside) carried_s += span->end_s - span->start_s;
    }
    return carried_s <= spans->end_s + rounding_s ? NULL : "links are busy for longer than the step takes";
}

const char *sim_answer_check(const struct sim_prediction *prediction, const struct sim_detail *detail)
{
    const char *fault = check_time(prediction);
    if (!fault) fault = check_memory(prediction);
    if (!fault && detail && detail->peak) fault = check_peak(detail->peak, &prediction->memory);
    if (!fault && detail && detail->spans) fault = check_links(detail->spans);
    return fault;
}
