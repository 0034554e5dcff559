/* A prediction as a page: Markdown or HTML; as text it is what `predict` prints. */
#include "reports/page.h"

#include <string.h>

struct part {
    const char *name;
    double size;
};

static void put_parts(const struct page *page, const char *heading, const struct part *parts, int count, double whole,
                      const char *what, char *(*format)(char *, double))
{
    enum { COLUMNS = 3, MOST_PARTS = 8 };
    struct base_arena *arena = page->out->arena;
    const char *cells[(MOST_PARTS + 1) * COLUMNS] = {"", what, "share"};
    char buffer[BASE_HUMANE];
    for (int i = 0; i < count; i++) {
        cells[(i + 1) * COLUMNS] = parts[i].name;
        cells[(i + 1) * COLUMNS + 1] = base_copy(arena, format(buffer, parts[i].size));
        cells[(i + 1) * COLUMNS + 2] = base_print(arena, "%.1f %%", whole > 0 ? 100 * parts[i].size / whole : 0);
    }
    reports_page_heading(page, heading);
    reports_page_table(page, "lrr", cells, count + 1);
}

static void put_collectives(const struct page *page, const struct reports_prediction *r)
{
    enum { COLUMNS = 6 };
    struct base_arena *arena = page->out->arena;
    const char **cells = base_new(arena, const char *, (r->collective_count + 1) * COLUMNS),
               *header[COLUMNS] = {"collective", "over", "times", "bytes", "dtype", "time"};
    char bytes[BASE_HUMANE], time[BASE_HUMANE];
    memcpy(cells, header, sizeof header);
    for (int i = 0; i < r->collective_count; i++) {
        const struct sim_collective_row *c = &r->collectives[i];
        const char *row[COLUMNS] = {sim_collective_name(c->kind),
                                    topo_axes_spell(arena, &r->prediction->mesh, c->axes),
                                    base_print(arena, "%lld", (long long)c->count),
                                    base_copy(arena, base_format_bytes(bytes, (double)c->bytes)),
                                    model_dtype_name(c->dtype),
                                    base_copy(arena, base_format_seconds(time, c->time_s))};
        memcpy(cells + (i + 1) * COLUMNS, row, sizeof row);
    }
    reports_page_heading(page, "Collectives of a step");
    if (r->collective_count) reports_page_table(page, "llrrlr", cells, r->collective_count + 1);
    else reports_page_paragraph(page, "None: nothing crosses a link.");
}

static const char *change_words(struct base_arena *arena, const struct sim_change *c)
{
    const char *tight = c->tight ? " (tight)" : "";
    return c->t5x_lacks ? base_print(arena, "%s%s; T5X lacks %s", c->what, tight, c->t5x_lacks)
                        : base_print(arena, "%s%s", c->what, tight);
}

static void put_changes(const struct page *page, const struct reports_prediction *r)
{
    enum { COLUMNS = 3 };
    struct base_arena *arena = page->out->arena;
    const char **cells = base_new(arena, const char *, (r->change_count + 1) * COLUMNS),
               *header[COLUMNS] = {"change", "target tokens/s", "memory"};
    char tokens[BASE_HUMANE], bytes[BASE_HUMANE];
    memcpy(cells, header, sizeof header);
    for (int i = 0; i < r->change_count; i++) {
        const struct sim_prediction *p = &r->changes[i].prediction;
        const char *row[COLUMNS] = {change_words(arena, &r->changes[i]),
                                    base_copy(arena, base_format_count(tokens, p->tokens_per_s)),
                                    base_copy(arena, base_format_bytes(bytes, (double)p->memory.peak_bytes))};
        memcpy(cells + (i + 1) * COLUMNS, row, sizeof row);
    }
    reports_page_heading(page, "What would make it fit");
    if (r->change_count) reports_page_table(page, "lrr", cells, r->change_count + 1);
    else reports_page_paragraph(page, base_print(arena, "N%s.", reports_no_change + 1));
}

void reports_prediction_page(const struct reports_prediction *r, enum reports_format format, struct base_text *out)
{
    struct base_arena *arena = out->arena;
    struct page page = {format, out};
    const struct sim_prediction *p = r->prediction;
    const struct sim_memory *m = &p->memory;
    const struct part time[] = {{"matrix units", p->compute_s},
                                {"memory bandwidth", p->memory_bound_s},
                                {"links", p->exposed_communication_s},
                                {"latency", p->overhead_s}};
    const struct part memory[] = {
        {"parameters", (double)m->parameter_bytes},  {"optimizer state", (double)m->optimizer_state_bytes},
        {"gradients", (double)m->gradient_bytes},    {"activations", (double)m->activation_bytes},
        {"temporaries", (double)m->temporary_bytes}, {"reserved", (double)m->reserved_bytes}};
    char tokens[BASE_HUMANE], step[BASE_HUMANE], peak[BASE_HUMANE], capacity[BASE_HUMANE];
    if (format == REPORTS_TEXT) {
        reports_prediction_text(r, out);
        return;
    }
    reports_page_begin(&page, p->fits ? "The plan fits" : "The plan does not fit");
    reports_page_paragraph(&page, reports_plan_words(arena, r->checked));
    reports_page_paragraph(&page,
                           base_print(arena, "%s on %s, mesh %s, profile %s", r->checked->model_text,
                                      r->checked->topology_text, topo_axes_describe(arena, &p->mesh), p->profile));
    reports_page_paragraph(&page,
                           base_print(arena, "%s target tokens/s, %s a step, MFU %.1f %%; %s of %s on each device.",
                                      base_format_count(tokens, p->tokens_per_s), base_format_seconds(step, p->step_s),
                                      100 * p->mfu_frac, base_format_bytes(peak, (double)m->peak_bytes),
                                      base_format_bytes(capacity, (double)m->capacity_bytes)));
    put_parts(&page, "Time of a step", time, BASE_COUNT(time), p->step_s, "time", base_format_seconds);
    put_parts(&page, base_print(arena, "Memory at the peak (%s)", m->peak_at), memory, BASE_COUNT(memory),
              (double)m->capacity_bytes, "memory", base_format_bytes);
    put_collectives(&page, r);
    if (!p->fits) put_changes(&page, r);
    reports_page_end(&page);
}
