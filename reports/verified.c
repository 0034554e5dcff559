/* The best plans of a search once more, with every collective sent link by link, or where that is how they were ranked,
 * priced by loads of links: does their order stand? */
#include "reports/reports.h"

/* The place, from 0, that a plan takes then; equals stay as they were. */
static int place_of(const struct reports_tuned *r, int plan)
{
    int place = 0;
    for (int i = 0; i < r->verified_count; i++) {
        double difference_s = r->verified_step_s[i] - r->verified_step_s[plan];
        place += difference_s < 0 || (difference_s == 0 && i < plan);
    }
    return place;
}

static bool order_stands(const struct reports_tuned *r)
{
    for (int i = 0; i < r->verified_count; i++)
        if (place_of(r, i) != i) return false;
    return true;
}

static int best_then(const struct reports_tuned *r)
{
    int plan = 0;
    while (place_of(r, plan) != 0) plan++;
    return plan;
}

void reports_put_verified(struct base_json_writer *w, const struct reports_tuned *r)
{
    const char *place = r->simulated ? "place_analytic" : "place_simulated",
               *step = r->simulated ? "step_analytic_s" : "step_simulated_s";
    base_json_key(w, "verified");
    base_json_open(w, '{');
    base_json_member_string(w, "network", r->simulated ? "analytic" : "simulated");
    base_json_member_bool(w, "order_stands", order_stands(r));
    base_json_key(w, "plans");
    base_json_open(w, '[');
    for (int i = 0; i < r->verified_count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_int(w, "place", i + 1);
        base_json_member_int(w, place, place_of(r, i) + 1);
        base_json_member_double(w, "step_s", r->result->plans[i].prediction.step_s);
        base_json_member_double(w, step, r->verified_step_s[i]);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
    base_json_close(w, '}');
}

void reports_verified_text(const struct reports_tuned *r, struct base_text *out)
{
    char step[BASE_HUMANE], sent[BASE_HUMANE];
    int best = best_then(r);
    base_putf(out, "\n%s %s",
              r->simulated ? "Ranked with every collective sent link by link; priced by loads of links"
                           : "With every collective sent link by link",
              order_stands(r) ? "the order stands" : "the order does not stand");
    if (best) base_putf(out, ": plan %d is the best then", best + 1);
    base_put(out, "\n");
    for (int i = 0; i < r->verified_count; i++)
        base_putf(out, "  %2d.  %10s a step, not %10s: %d.\n", i + 1, base_format_seconds(sent, r->verified_step_s[i]),
                  base_format_seconds(step, r->result->plans[i].prediction.step_s), place_of(r, i) + 1);
}
