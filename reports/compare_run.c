/* A run against its prediction: their differences. */
#include "reports/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_DIFFERENCES = 12, PARTS = 3 };

/* One line of a comparison; seconds a step. */
struct line {
    const char *name;
    enum model_phase phase;
    enum sim_bound bound;
    int64_t count;
    double measured_s, predicted_s;
};

/* A collective is that in both; a kernel is a contraction if the executor multiplied matrices for it. */
static const char *const part_names[PARTS] = {"contractions", "elementwise", "collectives"};

static int part_of(enum sim_bound bound)
{
    return bound == SIM_BY_COMMUNICATION ? 2 : bound == SIM_BY_COMPUTE ? 0 : 1;
}

static double total_s(const struct sim_entry *entry)
{
    return entry ? entry->time_s * (double)entry->count : 0;
}

/* Entries of one name and phase are one line: an operation that several microbatches or layers wrote down. */
static int make_lines(struct base_arena *arena, const struct reports_beside *b, struct line **out)
{
    struct reports_pair *pairs = reports_join(arena, b->measured->timeline, b->predicted_timeline);
    int count = 0;
    struct line *lines = base_new(arena, struct line, b->measured->timeline->count + 1);
    for (int i = 0; i < b->measured->timeline->count; i++) {
        const struct sim_entry *e = pairs[i].measured;
        int at = 0;
        while (at < count && (strcmp(lines[at].name, e->name) != 0 || lines[at].phase != e->phase ||
                              part_of(lines[at].bound) != part_of(e->bound)))
            at++;
        if (at == count) lines[count++] = (struct line){e->name, e->phase, e->bound, 0, 0, 0};
        lines[at].count += e->count;
        lines[at].measured_s += total_s(e);
        lines[at].predicted_s += total_s(pairs[i].predicted);
    }
    *out = lines;
    return count;
}

static int widest_first(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    double p = fabs(x->measured_s - x->predicted_s), q = fabs(y->measured_s - y->predicted_s);
    return p > q ? -1 : p < q ? 1 : strcmp(x->name, y->name);
}

static void sum_parts(const struct line *lines, int count, struct line parts[PARTS])
{
    for (int p = 0; p < PARTS; p++) parts[p] = (struct line){.name = part_names[p]};
    for (int i = 0; i < count; i++) {
        struct line *part = &parts[part_of(lines[i].bound)];
        part->count += lines[i].count;
        part->measured_s += lines[i].measured_s;
        part->predicted_s += lines[i].predicted_s;
    }
}

/* ---- a page ---- */

static const char *seconds(struct base_arena *arena, double value)
{
    return base_copy(arena, base_seconds(value));
}

static const char *ratio(struct base_arena *arena, double predicted, double measured)
{
    return measured > 0 ? base_print(arena, "%+.0f %%", 100 * (predicted / measured - 1)) : "-";
}

static void put_parts(struct base_arena *arena, const struct page *page, const struct line parts[PARTS],
                      const struct reports_beside *b)
{
    enum { ROWS = PARTS + 3, COLUMNS = 4 };
    const char *cells[ROWS * COLUMNS] = {"", "measured", "predicted", "predicted against measured"};
    double rest_s = b->run->step_s, predicted_rest_s = b->predicted->step_s;
    for (int p = 0; p < PARTS; p++) {
        const char *row[] = {parts[p].name, seconds(arena, parts[p].measured_s), seconds(arena, parts[p].predicted_s),
                             ratio(arena, parts[p].predicted_s, parts[p].measured_s)};
        memcpy(cells + (p + 1) * COLUMNS, row, sizeof row);
        rest_s -= parts[p].measured_s;
        predicted_rest_s -= parts[p].predicted_s;
    }
    const char *rest[] = {"rest", seconds(arena, rest_s > 0 ? rest_s : 0),
                          seconds(arena, predicted_rest_s > 0 ? predicted_rest_s : 0), ""};
    const char *step[] = {"a step", seconds(arena, b->run->step_s), seconds(arena, b->predicted->step_s),
                          ratio(arena, b->predicted->step_s, b->run->step_s)};
    memcpy(cells + (PARTS + 1) * COLUMNS, rest, sizeof rest);
    memcpy(cells + (PARTS + 2) * COLUMNS, step, sizeof step);
    reports_page_heading(page, "Time of a step");
    reports_page_table(page, "lrrr", cells, ROWS);
}

static void put_differences(struct base_arena *arena, const struct page *page, const struct line *lines, int count)
{
    enum { COLUMNS = 7 };
    int rows = count < SHOWN_DIFFERENCES ? count : SHOWN_DIFFERENCES;
    static const char *const header[COLUMNS] = {"operation", "phase",     "kind",      "times",
                                                "measured",  "predicted", "difference"};
    static const char *const kinds[PARTS] = {"contraction", "elementwise", "collective"};
    const char **cells = base_new(arena, const char *, (rows + 1) * COLUMNS);
    memcpy(cells, header, sizeof header);
    for (int i = 0; i < rows; i++) {
        const struct line *l = &lines[i];
        double difference_s = l->predicted_s - l->measured_s;
        const char *row[COLUMNS] = {
            l->name,
            reports_phase_name(l->phase),
            kinds[part_of(l->bound)],
            base_print(arena, "%lld", (long long)l->count),
            seconds(arena, l->measured_s),
            seconds(arena, l->predicted_s),
            base_print(arena, "%s%s", difference_s < 0 ? "-" : "+", seconds(arena, fabs(difference_s)))};
        memcpy(cells + (i + 1) * COLUMNS, row, sizeof row);
    }
    reports_page_heading(page, "Largest differences");
    reports_page_table(page, "lllrrrr", cells, rows + 1);
}

static void put_steps(struct base_arena *arena, const struct page *page, const struct reports_measured *m)
{
    if (!m->step_count) return;
    int64_t last = m->step_count - 1;
    reports_page_heading(page, "Steps");
    reports_page_paragraph(page,
                           base_print(arena, "%lld steps from step %lld on; the loss went from %.6f to %.6f.",
                                      (long long)m->step_count, (long long)m->first_step, m->loss[0], m->loss[last]));
}

void reports_beside_page(const struct reports_beside *b, enum reports_format format, struct base_text *out)
{
    struct base_arena *arena = out->arena;
    struct page page = {format, out};
    struct line *lines, parts[PARTS];
    char bytes[BASE_HUMANE], predicted[BASE_HUMANE];
    int count = make_lines(arena, b, &lines);
    sum_parts(lines, count, parts);
    qsort(lines, (size_t)count, sizeof *lines, widest_first);
    reports_page_begin(&page, "A run against its prediction");
    reports_page_paragraph(&page, reports_plan_words(arena, b->plan));
    reports_page_paragraph(&page, base_print(arena, "%s on %s, mesh %s, %s, profile %s", b->plan->model_text,
                                             b->plan->topology_text, topo_axes_describe(arena, &b->run->mesh),
                                             b->measured->rank_count
                                                 ? base_print(arena, "run on %d rank%s", b->measured->rank_count,
                                                              b->measured->rank_count == 1 ? "" : "s")
                                                 : "run in one process",
                                             b->predicted->profile));
    put_parts(arena, &page, parts, b);
    if (!b->measured->rank_count && topo_axes_product(&b->run->mesh, topo_axes_all(&b->run->mesh)) > 1)
        reports_page_paragraph(&page, "Both are the times of all devices, one after the other in one process.");
    put_differences(arena, &page, lines, count);
    reports_page_heading(&page, "Memory of a device");
    base_format_bytes(bytes, (double)b->run->memory.peak_bytes);
    base_format_bytes(predicted, (double)b->predicted->memory.peak_bytes);
    reports_page_paragraph(&page, base_print(arena, "%s in the arena, %s predicted: %s.", bytes, predicted,
                                             b->run->memory.peak_bytes == b->predicted->memory.peak_bytes
                                                 ? "the same, to the byte"
                                                 : "they differ"));
    put_steps(arena, &page, b->measured);
}

/* ---- JSON ---- */

enum line_of { OF_PART, OF_OPERATION };

static void put_line(struct base_json_writer *w, const struct line *l, enum line_of of)
{
    base_json_open_inline(w, '{');
    base_json_member_string(w, "name", l->name);
    if (of == OF_OPERATION) base_json_member_string(w, "phase", reports_phase_name(l->phase));
    if (of == OF_OPERATION) base_json_member_string(w, "part", part_names[part_of(l->bound)]);
    base_json_member_int(w, "count", l->count);
    base_json_member_double(w, "measured_s", l->measured_s);
    base_json_member_double(w, "predicted_s", l->predicted_s);
    base_json_close(w, '}');
}

void reports_beside_json(const struct reports_beside *b, enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    struct line *lines, parts[PARTS];
    int count = make_lines(out->arena, b, &lines);
    sum_parts(lines, count, parts);
    qsort(lines, (size_t)count, sizeof *lines, widest_first);
    const struct reports_measured *m = b->measured;
    base_json_open(&w, '{');
    sim_plan_put_member(&w, "plan", b->text);
    topo_axes_put_member(&w, "mesh", &b->run->mesh);
    base_json_member_string(&w, "profile", b->predicted->profile);
    base_json_member_int(&w, "rank_count", m->rank_count); /* 0: all devices in one process, one after the other */
    base_json_member_int(&w, "first_step", m->first_step);
    base_json_member_int(&w, "step_count", m->step_count);
    if (m->step_count) {
        base_json_member_double(&w, "first_loss", m->loss[0]);
        base_json_member_double(&w, "last_loss", m->loss[m->step_count - 1]);
    }
    base_json_member_double(&w, "measured_step_s", b->run->step_s);
    base_json_member_double(&w, "predicted_step_s", b->predicted->step_s);
    base_json_member_int(&w, "measured_peak_bytes", b->run->memory.peak_bytes);
    base_json_member_int(&w, "predicted_peak_bytes", b->predicted->memory.peak_bytes);
    base_json_member_open(&w, "parts", '[');
    for (int p = 0; p < PARTS; p++) put_line(&w, &parts[p], OF_PART);
    base_json_close(&w, ']');
    base_json_member_open(&w, "operations", '[');
    for (int i = 0; i < count; i++) put_line(&w, &lines[i], OF_OPERATION);
    base_json_close(&w, ']');
    base_json_close(&w, '}');
}
