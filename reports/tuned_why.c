/* Why the best plan of a search beats the second: parts that add up to the difference. */
#include "reports/tuned.h"

#include <math.h>

/* Equal terms of both plans explain nothing. */
static bool differs(double difference_s, const struct tuner_comparison *c)
{
    return fabs(difference_s) > 1e-6 * c->step_s[0];
}

static int needs_of(const struct reports_tuned *r, struct tuner_need needs[TUNER_MOST_NEEDS])
{
    const struct sim_prediction *best = &r->result->plans[0].prediction, *second = &r->result->plans[1].prediction;
    return tuner_needs(best, second, r->why->step_s[1] / second->step_s, needs);
}

/* ---- text ---- */

static void put_line(struct base_text *out, double best_s, double second_s, const char *what)
{
    const double difference_s = second_s - best_s;
    const char *gap = base_seconds(fabs(difference_s));
    base_putf(out, "    %s%s%*s  %s, not %s: %s\n", difference_s > 0 ? "-" : "+", gap, 10 - base_text_width(gap), "",
              reports_right(10, base_seconds(best_s)), reports_right(10, base_seconds(second_s)), what);
}

static const char *words_of(const struct reports_tuned *r, const struct tuner_difference *d)
{
    if (!d->communicates) return d->name;
    return base_print(r->arena, "%s over %s, the largest for %s", sim_collective_name(d->kind),
                      reports_tuned_axes_name(r, d->axes), d->name);
}

/* The largest, and the others in one line, so that the lines add up. */
static void put_parts(const struct reports_tuned *r, struct base_text *out)
{
    enum { SHOWN = 8 };
    const struct tuner_comparison *c = r->why;
    double others_s[2] = {0, 0};
    for (int i = 0; i < c->count; i++) {
        const struct tuner_difference *d = &c->differences[i];
        if (i < SHOWN && differs(d->seconds[1] - d->seconds[0], c))
            put_line(out, d->seconds[0], d->seconds[1], words_of(r, d));
        else
            for (int side = 0; side < 2; side++) others_s[side] += d->seconds[side];
    }
    if (differs(c->hidden_s[1] - c->hidden_s[0], c))
        put_line(out, -c->hidden_s[0], -c->hidden_s[1], "collectives overlapped with computation");
    if (differs(c->left_s[1] - c->left_s[0], c))
        put_line(out, c->left_s[0], c->left_s[1],
                 "rest: the terms above are with all layers recomputed, but some are not");
    if (differs(others_s[1] - others_s[0], c)) put_line(out, others_s[0], others_s[1], "everything else");
    put_line(out, c->step_s[0], c->step_s[1], "in all");
}

void reports_tuned_why_text(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_comparison *c = r->why;
    struct tuner_need needs[TUNER_MOST_NEEDS];
    double difference_s = c->step_s[1] - c->step_s[0];
    if (difference_s <= 1e-9 * c->step_s[0]) {
        base_put(out, "\nPlans 1 and 2 tie.\n");
        return;
    }
    base_putf(out, "\nWhy the best beats the second, by %s ", base_seconds(difference_s));
    if (c->sequences) base_putf(out, "for the best's %lld sequences\n", (long long)c->sequences);
    else base_put(out, "a step\n");
    put_parts(r, out);
    int count = needs_of(r, needs);
    if (count) base_put(out, "    the second would catch up with ");
    for (int i = 0; i < count; i++)
        base_putf(out, "%s%s %.1f %% faster",
                  i == 0           ? ""
                  : i == count - 1 ? " or "
                                   : ", ",
                  needs[i].resource, 100 * (needs[i].factor - 1));
    if (count) base_put(out, "\n");
}

/* ---- JSON ---- */

static void put_seconds(struct base_json_writer *w, const char *key, const double seconds[2])
{
    if (!(fabs(seconds[0]) > 0) && !(fabs(seconds[1]) > 0)) return;
    base_json_member_open_inline(w, key, '{');
    base_json_member_double(w, "best_s", seconds[0]);
    base_json_member_double(w, "second_s", seconds[1]);
    base_json_close(w, '}');
}

void reports_tuned_put_why(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_comparison *c = r->why;
    base_json_member_open(w, "why_best_beats_second", '{');
    base_json_member_double(w, "difference_s", c->step_s[1] - c->step_s[0]);
    if (c->sequences) base_json_member_int(w, "for_sequences", c->sequences);
    base_json_member_open(w, "differences", '['); /* with overlapped and remaining time they add up to difference_s */
    for (int i = 0; i < c->count; i++) {
        const struct tuner_difference *d = &c->differences[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, d->communicates ? "collective" : "part",
                                d->communicates ? sim_collective_name(d->kind) : d->name);
        if (d->communicates) base_json_member_string(w, "mesh_axis", reports_tuned_axes_name(r, d->axes));
        if (d->communicates) base_json_member_string(w, "largest_for", d->name);
        base_json_member_double(w, "best_s", d->seconds[0]);
        base_json_member_double(w, "second_s", d->seconds[1]);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
    const double hidden_s[2] = {-c->hidden_s[0], -c->hidden_s[1]};
    put_seconds(w, "hidden", hidden_s);
    put_seconds(w, "left_over", c->left_s);
    struct tuner_need needs[TUNER_MOST_NEEDS];
    int count = needs_of(r, needs);
    base_json_member_open(w, "second_draws_level_with", '[');
    for (int i = 0; i < count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "resource", needs[i].resource);
        base_json_member_double(w, "faster_by_factor", needs[i].factor);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
    base_json_close(w, '}');
}
