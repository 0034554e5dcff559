/* The real compiler's answer for a plan against the prediction: memory, verdict, and the collectives after its passes.
 */
#include "reports/reports.h"

#include <string.h>

enum { MOST_ROWS = 256, SHOWN_ROWS = 8 };

/* Collectives of one kind over one set of axes: number per step, and total bytes. */
struct total {
    const char *kind, *axes;
    double predicted_count, predicted_bytes, compiled_count, compiled_bytes;
};

static struct total *find_total(struct total *totals, int *count, const char *kind, const char *axes)
{
    for (int i = 0; i < *count; i++)
        if (!strcmp(totals[i].kind, kind) && !strcmp(totals[i].axes, axes)) return &totals[i];
    if (*count == MOST_ROWS) return &totals[MOST_ROWS - 1];
    totals[*count] = (struct total){.kind = kind, .axes = axes};
    return &totals[(*count)++];
}

static int join_collectives(struct base_arena *arena, const struct reports_judged *j, struct total *totals)
{
    int count = 0;
    for (int i = 0; i < j->collective_count; i++) {
        const struct sim_collective_row *row = &j->collectives[i];
        struct total *total = find_total(totals, &count, sim_collective_name(row->kind),
                                         topo_axes_spell(arena, &j->plan->placement->axes, (unsigned)row->axes));
        total->predicted_count += (double)row->count;
        total->predicted_bytes += (double)row->count * (double)row->bytes;
    }
    const struct base_json *row = j->compiled_collectives ? j->compiled_collectives->child : NULL;
    for (; row; row = row->next) {
        struct total *total =
            find_total(totals, &count, base_json_string(row, "kind", ""), base_json_string(row, "mesh_axis", ""));
        total->compiled_count += base_json_number(row, "count");
        total->compiled_bytes += base_json_number(row, "count") * base_json_number(row, "bytes");
    }
    return count;
}

static void put_collectives_text(struct base_arena *arena, const struct reports_judged *j, struct base_text *out)
{
    struct total *totals = base_new(arena, struct total, MOST_ROWS);
    int count = join_collectives(arena, j, totals);
    base_put(out, "\n    collectives of a step\n");
    for (int i = 0; i < count && i < SHOWN_ROWS; i++)
        base_putf(out, "    %-14s over %-6s %6.0f of %-10s %6.0f of %s in all\n", totals[i].kind, totals[i].axes,
                  totals[i].predicted_count, base_bytes(totals[i].predicted_bytes), totals[i].compiled_count,
                  base_bytes(totals[i].compiled_bytes));
}

static enum sim_verdict predicted_verdict(const struct reports_judged *j)
{
    return sim_confidence_of(NULL, j->plan, j->predicted).verdict;
}

void reports_judged_text(struct base_arena *arena, const struct reports_judged *j, struct base_text *out)
{
    const struct sim_memory *m = &j->predicted->memory;
    if (!j->answered) {
        base_putf(out, "the compiler gave no verdict: %s\n", j->message);
        return;
    }
    base_putf(out, "the compiler %s it, in %.0f s", j->fits ? "takes" : "refuses", j->seconds);
    base_putf(out, "%s%s\n\n    %-24s %12s %12s\n", *j->message ? ": " : "", j->message, "", "predicted", "compiled");
    reports_put_bytes_against(out, "memory", (double)m->peak_bytes, (double)j->peak_bytes);
    reports_put_bytes_against(out, "  arguments", (double)m->argument_bytes, (double)j->argument_bytes);
    reports_put_bytes_against(out, "  results", (double)m->output_bytes, (double)j->output_bytes);
    base_putf(out, "    %-24s %12s %12s\n", "verdict", reports_verdict_brief(predicted_verdict(j)),
              j->fits ? "fits" : "does not");
    put_collectives_text(arena, j, out);
}

static void put_compiled(const struct reports_judged *j, struct base_json_writer *w)
{
    base_json_member_open(w, "compiled", '{');
    base_json_member_int(w, "peak_memory_bytes", j->peak_bytes);
    base_json_member_int(w, "argument_bytes", j->argument_bytes);
    base_json_member_int(w, "output_bytes", j->output_bytes);
    base_json_member_int(w, "temp_bytes", j->temp_bytes);
    base_json_member_bool(w, "fits", j->fits);
    base_json_member_int(w, "rematerialized_count", j->rematerialized_count);
    base_json_member_string(w, "message", j->message);
    base_json_member_double(w, "seconds", j->seconds);
    base_json_close(w, '}');
}

static void put_collectives(struct base_arena *arena, const struct reports_judged *j, struct base_json_writer *w)
{
    struct total *totals = base_new(arena, struct total, MOST_ROWS);
    int count = join_collectives(arena, j, totals);
    base_json_member_open(w, "collectives", '[');
    for (int i = 0; i < count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "kind", totals[i].kind);
        base_json_member_string(w, "mesh_axis", totals[i].axes);
        base_json_member_double(w, "predicted_count", totals[i].predicted_count);
        base_json_member_double(w, "predicted_bytes", totals[i].predicted_bytes);
        base_json_member_double(w, "compiled_count", totals[i].compiled_count);
        base_json_member_double(w, "compiled_bytes", totals[i].compiled_bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

void reports_put_judged(struct base_arena *arena, const struct reports_judged *j, struct base_json_writer *w)
{
    const struct sim_memory *m = &j->predicted->memory;
    base_json_member_open(w, "predicted", '{');
    base_json_member_int(w, "peak_memory_bytes", m->peak_bytes);
    base_json_member_int(w, "argument_bytes", m->argument_bytes);
    base_json_member_int(w, "output_bytes", m->output_bytes);
    base_json_member_bool(w, "fits", j->predicted->fits);
    base_json_member_string(w, "verdict", reports_verdict_name(predicted_verdict(j)));
    if (predicted_verdict(j) == SIM_FITS_TIGHTLY) base_json_member_bool(w, "tight", true);
    base_json_close(w, '}');
    if (!j->answered) {
        base_json_member_string(w, "message", j->message);
        return;
    }
    put_compiled(j, w);
    base_json_member_double(w, "error_frac", (double)m->peak_bytes / (double)j->peak_bytes - 1);
    put_collectives(arena, j, w);
}
