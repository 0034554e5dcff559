/* Whether a plan fits, and why it does not: memory missing on a device, on the host, or both; from a prediction or its
 * document. And its verdict in words, which goes by the likelihood of fitting. */
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

static const struct {
    const char *name, *words, *brief, *if_fits;
} verdicts[SIM_VERDICT_COUNT] = {
    [SIM_FITS] = {"fits", "It fits", "fits", ""},
    [SIM_FITS_TIGHTLY] = {"tight", "It fits, but it is tight", "fits, tight", ""},
    [SIM_PROBABLY_FITS_NOT] = {"probably_does_not_fit", "It probably does NOT fit", "probably not", ", if it fits"},
    [SIM_PROBABLY_FITS] = {"probably_fits", "It probably fits", "probably", ", if it fits"},
    [SIM_FITS_NOT] = {"does_not_fit", "It does NOT fit", "does not", ", if it fit"}};

enum sim_verdict reports_verdict(const struct reports_prediction *r)
{
    return r->confidence ? r->confidence->verdict : r->prediction->fits ? SIM_FITS : SIM_FITS_NOT;
}

const char *reports_verdict_name(enum sim_verdict verdict)
{
    return verdicts[verdict].name;
}

const char *reports_verdict_words(enum sim_verdict verdict)
{
    return verdicts[verdict].words;
}

const char *reports_verdict_brief(enum sim_verdict verdict)
{
    return verdicts[verdict].brief;
}

const char *reports_if_fits(const struct reports_prediction *r)
{
    return verdicts[reports_verdict(r)].if_fits;
}

const char *reports_risk_words(struct base_arena *arena, const struct sim_confidence *c)
{
    const double percent = 100 * c->fits_probability_frac;
    if (c->verdict == SIM_PROBABLY_FITS) return base_print(arena, "%.0f %% likely to fit", percent);
    return base_print(arena, "%.0f %% likely to run out of memory", 100 - percent);
}

/* After the verdict: whose it is, if another memory model or version of the software disagrees. */
static const char *disagreement_words(const struct reports_prediction *r, struct base_arena *arena)
{
    const struct reports_otherwise *other = r->otherwise;
    if (!other) return "";
    const char *does = other->prediction.fits ? "does" : "does not",
               *needs = base_bytes(reports_shortage_of(&other->prediction).needed_bytes);
    if (!other->version)
        return base_print(arena, " as the compiler lays memory out, but by liveness in program order it %s (%s)", does,
                          needs);
    return base_print(arena, " as usual %s (as its version '%s' it %s: %s, %.0f %% likely to fit)",
                      r->checked->software, other->version, does, needs,
                      100 * other->confidence->fits_probability_frac);
}

/* Where measurements of such plans move the predicted peak across the limit. The interval is around what they took. */
static const char *bias_words(const struct reports_prediction *r, struct base_arena *arena)
{
    const enum sim_verdict verdict = reports_verdict(r);
    if (verdict != SIM_PROBABLY_FITS_NOT && verdict != SIM_PROBABLY_FITS) return "";
    const struct sim_interval *peak = &r->confidence->peak_bytes;
    const double frac = sqrt(peak->low * peak->high) / (double)r->prediction->memory.peak_bytes - 1;
    return base_print(arena, ", but plans like it took %.1f %% %s than predicted", 100 * fabs(frac),
                      frac > 0 ? "more" : "less");
}

const char *reports_headline(const struct reports_prediction *r, struct base_arena *arena)
{
    const struct reports_shortage shortage = reports_shortage_of(r->prediction);
    const enum sim_verdict verdict = reports_verdict(r);
    const double limit = sim_limit_bytes(r->prediction), peak = (double)r->prediction->memory.peak_bytes;
    const bool is_sure = verdict == SIM_FITS || verdict == SIM_FITS_NOT;
    const char *needs = !r->prediction->fits
                            ? reports_shortage_words(arena, &shortage)
                            : base_print(arena, "needs %s on each device; %s available (%s free)", base_bytes(peak),
                                         base_bytes(limit), base_bytes(fabs(limit - peak)));
    return base_print(arena, "%s%s: %s%s%s%s.", reports_verdict_words(verdict), disagreement_words(r, arena), needs,
                      bias_words(r, arena), is_sure ? "" : "; ",
                      is_sure ? "" : reports_risk_words(arena, r->confidence));
}
