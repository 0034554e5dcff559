/* Whether a plan fits, and why it does not: memory missing on a device, on the host, or both; from a prediction or its
 * document. And the risk of one that fits. */
#include "reports/reports.h"

#include <math.h>

struct reports_shortage reports_shortage_of(const struct sim_prediction *p)
{
    const struct sim_memory *m = &p->memory;
    const double needed_bytes = (double)(p->pipeline.stages ? p->pipeline.worst_peak_bytes : m->peak_bytes);
    struct reports_shortage s = {.needed_bytes = needed_bytes,
                                 .missing_bytes = fmax(0, -(double)p->free_bytes),
                                 .host_bytes = (double)m->host_bytes};
    s.limit_bytes = s.missing_bytes > 0 ? needed_bytes - s.missing_bytes : (double)m->capacity_bytes;
    if (sim_overfills_host(m)) s.missing_host_bytes = (double)(m->host_bytes - m->host_capacity_bytes);
    return s;
}

void reports_put_shortage(struct base_json_writer *w, const struct sim_prediction *p)
{
    struct reports_shortage s = reports_shortage_of(p);
    base_json_member_int(w, "missing_bytes", (int64_t)s.missing_bytes);
    if (s.missing_host_bytes > 0) base_json_member_int(w, "missing_host_bytes", (int64_t)s.missing_host_bytes);
}

const char *reports_missing_words(struct base_arena *arena, const struct reports_shortage *s)
{
    char device[BASE_HUMANE], host[BASE_HUMANE], over[BASE_HUMANE];
    base_format_bytes(device, s->missing_bytes);
    base_format_bytes(host, s->host_bytes);
    base_format_bytes(over, s->missing_host_bytes);
    if (s->missing_host_bytes <= 0) return base_print(arena, "%s over", device);
    return base_print(arena, "%s%s %s in the host's memory for each, %s over", s->missing_bytes > 0 ? device : "",
                      s->missing_bytes > 0 ? " over, and" : "but", host, over);
}

const char *reports_shortage_words(struct base_arena *arena, const struct reports_shortage *s)
{
    return base_print(arena, "needs %s on each device; %s available (%s)", base_bytes(s->needed_bytes),
                      base_bytes(s->limit_bytes), reports_missing_words(arena, s));
}

const char *reports_tight_words(struct base_arena *arena, const struct sim_confidence *c)
{
    return base_print(arena, "%.0f %% likely to run out of memory", 100 * (1 - c->fits_probability_frac));
}

/* After "It fits" or "It does NOT fit": whose verdict it is, if another memory model disagrees. */
static const char *disagreement_words(const struct reports_prediction *r, struct base_arena *arena)
{
    if (!r->otherwise) return "";
    return base_print(arena, " as the compiler lays memory out, but by liveness in program order it %s (%s)",
                      r->otherwise->fits ? "does" : "does not", base_bytes(r->otherwise->memory.peak_bytes));
}

static void put_fit(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_confidence *c = r->confidence;
    const bool tight = c && c->tight;
    const double limit = sim_limit_bytes(r->prediction), peak = (double)r->prediction->memory.peak_bytes;
    base_putf(out, "It fits%s%s: needs %s on each device; %s available (%s free)", disagreement_words(r, out->arena),
              tight ? ", but it is tight" : "", base_bytes(peak), base_bytes(limit), base_bytes(fabs(limit - peak)));
    if (tight) base_putf(out, "; %s", reports_tight_words(out->arena, c));
    base_put(out, ".\n");
}

void reports_put_fit(const struct reports_prediction *r, struct base_text *out)
{
    const struct reports_shortage shortage = reports_shortage_of(r->prediction);
    if (r->prediction->fits) put_fit(r, out);
    else
        base_putf(out, "It does NOT fit%s: %s.\n", disagreement_words(r, out->arena),
                  reports_shortage_words(out->arena, &shortage));
}
