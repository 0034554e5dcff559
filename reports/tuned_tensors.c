/* What holds each tensor of the best plan's remat policy where it is. */
#include "reports/tuned.h"

static const struct {
    const char *is, *key; /* in words; of JSON */
} places[TUNER_PLACE_COUNT] = {{"recomputed", "recomputed"}, {"on the device", "device"}, {"on the host", "host"}};

void reports_put_moved_tensors(struct base_json_writer *w, const struct reports_tuned *r)
{
    const double best = r->result->plans[0].prediction.tokens_per_s;
    base_json_key(w, "tensors");
    base_json_open(w, '[');
    for (int i = 0; i < r->moved_count; i++) {
        const struct tuner_moved_tensor *m = &r->moved[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "tensor", model_saved_name_of(m->tensor));
        base_json_member_string(w, "place", places[m->from].key);
        base_json_member_string(w, "elsewhere", places[m->to].key);
        base_json_member_bool(w, "fits", m->prediction.fits);
        if (m->prediction.fits && !sim_leaves_free(&m->prediction, r->headroom_frac))
            base_json_member_bool(w, "tight", true);
        base_json_member_double(w, "change_frac", m->prediction.tokens_per_s / best - 1);
        base_json_member_int(w, "peak_bytes", m->prediction.memory.peak_bytes);
        base_json_member_int(w, "host_bytes", m->prediction.memory.host_bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

/* Memory holds it, or time. */
static const char *what_holds(struct base_arena *arena, const struct reports_tuned *r,
                              const struct tuner_moved_tensor *m)
{
    char bytes[BASE_HUMANE];
    const struct sim_prediction *p = &m->prediction;
    if (sim_leaves_free(p, r->headroom_frac)) return "";
    if (p->fits) return ", but tight";
    if (p->free_bytes >= 0) return ", but does not fit into the host's memory";
    return base_print(arena, ", but %s too large", base_format_bytes(bytes, (double)-p->free_bytes));
}

void reports_moved_tensors_text(const struct reports_tuned *r, struct base_text *out)
{
    const double best = r->result->plans[0].prediction.tokens_per_s;
    base_put(out, "\nWhat holds each tensor in place: the best with it alone elsewhere\n");
    for (int i = 0; i < r->moved_count; i++) {
        const struct tuner_moved_tensor *m = &r->moved[i];
        const bool first = i == 0 || r->moved[i - 1].tensor != m->tensor;
        base_putf(out, "    %-20s %-14s %-14s %+7.1f %%%s\n", first ? model_saved_name_of(m->tensor) : "",
                  first ? places[m->from].is : "", places[m->to].is, 100 * (m->prediction.tokens_per_s / best - 1),
                  what_holds(r->arena, r, m));
    }
}
