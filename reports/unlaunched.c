/* Plans that cannot be launched, by reason, as text and as JSON: the reasons' plans add up to all of them. */
#include "reports/tuned.h"

void reports_put_refusals(struct base_json_writer *w, const struct tuner_space *space)
{
    base_json_member_int(w, "refused_count", space->refused_count);
    base_json_member_open(w, "refusals", '[');
    for (int i = 0; i < space->refusal_count; i++) {
        base_json_open(w, '{');
        base_json_member_int(w, "plan_count", space->refusals[i].plan_count);
        base_json_member_string(w, "reason", space->refusals[i].reason);
        base_json_member_string(w, "example", space->refusals[i].example);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

void reports_refusals_text(const struct tuner_space *space, struct base_text *out)
{
    enum { SHOWN = 4 };
    if (!space->refused_count) return;
    base_putf(out, "\n%lld plans are invalid:\n", (long long)space->refused_count);
    for (int i = 0; i < space->refusal_count && i < SHOWN; i++)
        base_putf(out, "    %8lld  such as %s\n", (long long)space->refusals[i].plan_count, space->refusals[i].example);
    int64_t others = 0;
    for (int i = SHOWN; i < space->refusal_count; i++) others += space->refusals[i].plan_count;
    if (others)
        base_putf(out, "    %8lld  for %d other reason%s, which --json lists\n", (long long)others,
                  space->refusal_count - SHOWN, space->refusal_count - SHOWN > 1 ? "s" : "");
}
