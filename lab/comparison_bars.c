/* One row per plan: a label with its differences, the measured bar (solid) above the predicted one (hollow), the error.
 */
#include "lab/comparison.h"
#include "plots/search_document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Positions on the page, px. Label columns take their width up to a limit; the bars get the rest. */
static const double left_px = PLOTS_MARGIN_PX, right_px = PLOTS_PAGE_WIDTH_PX - PLOTS_MARGIN_PX;
static const double error_width_px = 64, bars_gap_px = 24, labels_gap_px = 14, column_gap_px = 12;
static const double labels_limit_px = 280, column_limit_px = 110;
static const double bar_height_px = 6, bar_gap_px = 1.5, row_gap_px = 7, note_height_px = 15;

static const struct plots_look solid = {.colour = PLOTS_THROUGHPUT, .fill_frac = 1, .stroke_px = 1};
static const struct plots_look hollow = {.colour = PLOTS_THROUGHPUT, .fill_frac = 0.12, .stroke_px = 1};
static const struct plots_look hollow_dashed = {
    .colour = PLOTS_THROUGHPUT, .fill_frac = 0.04, .stroke_px = 1, .dashed = true};
static const struct plots_look grid = {.colour = PLOTS_GRID, .stroke_px = 0.7};

enum { ID_COLUMN = -1, MOST_COLUMNS = SIM_KEY_COUNT + 1 };

struct column {
    int key;
    double width_px, x_px;
    bool number;
};

/* Rows of one model on one topology. */
struct section {
    const struct lab_comparison_row **rows;
    int row_count;
    struct column columns[MOST_COLUMNS];
    int column_count;
    bool constant[SIM_KEY_COUNT]; /* every row says the same, and says something */
    double labels_width_px;
};

/* ---- sections ---- */

static bool same_section(const struct lab_comparison_row *a, const struct lab_comparison_row *b)
{
    return !strcmp(a->model, b->model) && !strcmp(a->topology, b->topology);
}

/* The fastest measured first; then rows without a time, as predicted; out of memory last. Ties stay in the table's
 * order. */
static int fastest_first(const void *a, const void *b)
{
    const struct lab_comparison_row *x = *(const struct lab_comparison_row *const *)a,
                                    *y = *(const struct lab_comparison_row *const *)b;
    const struct lab_comparison_row *const rows[] = {x, y};
    double speeds[2];
    for (int i = 0; i < 2; i++) {
        const bool dead = rows[i]->measured == LAB_MEMORY_EXCEEDED, timed = !isnan(rows[i]->measured_tokens_per_s);
        const double predicted = rows[i]->predicted_tokens_per_s;
        speeds[i] = dead ? -1 : timed ? rows[i]->measured_tokens_per_s : -1 / (1 + fmax(predicted, 0));
    }
    if (speeds[0] != speeds[1]) return speeds[0] > speeds[1] ? -1 : 1;
    return (x > y) - (x < y);
}

/* Sections in the order of their first rows. */
static struct section *split(struct base_arena *arena, const struct lab_comparison *comparison, int *count)
{
    struct section *sections = base_new(arena, struct section, comparison->count);
    int found = 0;
    for (int i = 0; i < comparison->count; i++) {
        int s = 0;
        while (s < found && !same_section(sections[s].rows[0], &comparison->rows[i])) s++;
        if (s == found) sections[found++].rows = base_new(arena, const struct lab_comparison_row *, comparison->count);
        sections[s].rows[sections[s].row_count++] = &comparison->rows[i];
    }
    for (int s = 0; s < found; s++)
        qsort(sections[s].rows, (size_t)sections[s].row_count, sizeof *sections[s].rows, fastest_first);
    *count = found;
    return sections;
}

/* ---- columns of labels ---- */

static const char *cell(const struct lab_comparison_row *row, const struct column *column)
{
    const char *text = column->key == ID_COLUMN ? row->id : row->plan[column->key];
    return *text ? text : "–";
}

static const char *column_heading(const struct column *column)
{
    return column->key == ID_COLUMN ? "id" : lab_plan_key(column->key)->chart.heading;
}

static bool differs(const struct section *section, int key)
{
    for (int i = 1; i < section->row_count; i++)
        if (strcmp(section->rows[i]->plan[key], section->rows[0]->plan[key]) != 0) return true;
    return false;
}

static void add_column(struct section *section, int key)
{
    bool number = key != ID_COLUMN && lab_plan_key(key)->json == 1u << BASE_JSON_NUMBER;
    struct column column = {.key = key, .number = number};
    column.width_px = plots_text_width(PLOTS_SMALL, column_heading(&column));
    for (int i = 0; i < section->row_count; i++)
        column.width_px = fmax(column.width_px, plots_text_width(PLOTS_LABEL, cell(section->rows[i], &column)));
    column.width_px = fmin(column.width_px, column_limit_px);
    double x_px = section->labels_width_px + (section->column_count ? column_gap_px : 0);
    if (section->column_count && x_px + column.width_px > labels_limit_px) return;
    column.x_px = x_px;
    section->labels_width_px = x_px + column.width_px;
    section->columns[section->column_count++] = column;
}

static const char *shown_cell(struct base_arena *arena, const struct lab_comparison_row *row,
                              const struct column *column)
{
    return plots_fit(arena, PLOTS_LABEL, cell(row, column), column->width_px);
}

/* The whole label as a reader sees it, shortened cells and all. */
static const char *shown_label(struct base_arena *arena, const struct section *section, int row)
{
    struct base_text text = {.arena = arena};
    for (int c = 0; c < section->column_count; c++)
        base_putf(&text, "%s\t", shown_cell(arena, section->rows[row], &section->columns[c]));
    return text.data;
}

static bool labels_are_distinct(struct base_arena *arena, const struct section *section)
{
    const char **labels = base_new(arena, const char *, section->row_count);
    for (int a = 0; a < section->row_count; a++) {
        labels[a] = shown_label(arena, section, a);
        for (int b = 0; b < a; b++)
            if (!strcmp(labels[a], labels[b])) return false;
    }
    return true;
}

/* Keys that differ are columns; partition and batch always are. The id comes first if these columns do not distinguish
 * the rows. */
static void choose_columns(struct base_arena *arena, struct section *section)
{
    enum { ALWAYS = 4 };
    bool wanted[SIM_KEY_COUNT];
    for (int key = 0; lab_plan_key(key); key++) {
        bool says = *section->rows[0]->plan[key] != '\0';
        wanted[key] = differs(section, key) || (key < ALWAYS && says);
        section->constant[key] = says && !wanted[key];
    }
    for (int with_id = 0; with_id < 2; with_id++) {
        section->column_count = 0;
        section->labels_width_px = 0;
        if (with_id) add_column(section, ID_COLUMN);
        for (int key = 0; lab_plan_key(key); key++)
            if (wanted[key]) add_column(section, key);
        if (section->column_count && labels_are_distinct(arena, section)) return;
    }
}

/* ---- drawing ---- */

struct place {
    struct plots_canvas *canvas;
    double bars_left_px, bars_right_px;
};

/* The predicted speed of a plan that ran out of memory has no measured counterpart. */
static bool has_bars(const struct lab_comparison_row *row)
{
    bool measured = !isnan(row->measured_tokens_per_s), predicted = !isnan(row->predicted_tokens_per_s);
    return measured || (predicted && row->measured != LAB_MEMORY_EXCEEDED);
}

static double highest_tokens_per_s(const struct section *section)
{
    double highest = 0;
    for (int i = 0; i < section->row_count; i++) {
        const struct lab_comparison_row *row = section->rows[i];
        if (has_bars(row))
            highest =
                fmax(highest, fmax(row->measured_tokens_per_s, row->predicted_tokens_per_s)); /* fmax passes over NAN */
    }
    return highest;
}

static const char *section_details(struct base_arena *arena, const struct section *section, const char *model_rest)
{
    struct base_text text = {.arena = arena};
    base_put(&text, model_rest);
    for (int key = 0; lab_plan_key(key); key++) {
        if (section->constant[key]) lab_put_key(&text, section->rows[0], key, text.length ? ", " : "");
    }
    return text.length ? text.data : "";
}

static double draw_section_heading(struct plots_canvas *canvas, const struct section *section, double y)
{
    const struct lab_comparison_row *first = section->rows[0];
    const char *rest, *words = lab_model_words(canvas->arena, first->model, &rest);
    const char *heading = base_print(canvas->arena, "%s on %s", words, first->topology);
    double top = y;
    y = plots_paragraph(canvas, left_px, y, right_px - left_px, 2, PLOTS_HEADING, PLOTS_INK, heading);
    const char *details = section_details(canvas->arena, section, rest);
    double least = y + plots_line_height(
                           PLOTS_SMALL); /* below the heading of the errors, which is there with or without details */
    y = fmax(least, plots_paragraph(canvas, left_px, y, right_px - left_px - error_width_px, 2, PLOTS_SMALL,
                                    PLOTS_MUTED, details));
    plots_hover(canvas, (struct plots_box){left_px, top, right_px - left_px, y - top},
                base_print(canvas->arena, "%s on %s", first->model, first->topology));
    return y;
}

static double column_text_px(const struct column *column)
{
    return left_px + column->x_px + (column->number ? column->width_px : 0);
}

/* Names of the columns, and the scale of the bars under them. */
static void draw_column_headings(const struct place *place, const struct section *section,
                                 const struct plots_axis *axis, double y)
{
    struct plots_canvas *canvas = place->canvas;
    for (int c = 0; c < section->column_count; c++) {
        const struct column *column = &section->columns[c];
        const char *text = plots_fit(canvas->arena, PLOTS_SMALL, column_heading(column), column->width_px);
        plots_text(canvas, column_text_px(column), y, column->number ? PLOTS_RIGHT : PLOTS_LEFT, PLOTS_SMALL,
                   PLOTS_MUTED, text);
    }
    for (int i = 0; i < axis->tick_count; i++)
        plots_text(canvas, plots_axis_px(axis, axis->ticks[i]), y, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_MUTED,
                   plots_tick_text(canvas->arena, axis->ticks[i]));
    plots_text(canvas, right_px, y - 12, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_MUTED, "error of");
    plots_text(canvas, right_px, y, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_MUTED, "step time");
}

static double row_height_px(bool bars, bool note)
{
    return (bars ? 2 * bar_height_px + bar_gap_px : 0) + (note ? note_height_px : 0) + row_gap_px;
}

static double section_height_px(struct base_arena *arena, const struct section *section)
{
    double height_px = 0;
    for (int i = 0; i < section->row_count; i++)
        height_px += row_height_px(has_bars(section->rows[i]), lab_row_note(arena, section->rows[i]).text != NULL);
    return height_px;
}

static void draw_bar(const struct place *place, const struct plots_axis *axis, double y, double tokens_per_s,
                     struct plots_look look)
{
    if (isnan(tokens_per_s)) return;
    plots_rect(place->canvas,
               (struct plots_box){axis->from_px, y, plots_axis_px(axis, tokens_per_s) - axis->from_px, bar_height_px},
               look);
}

/* The text at a row's end. Dot and weight are visible without colour, too. */
static void draw_end(struct plots_canvas *canvas, double y, const char *text, bool alarming)
{
    static const double dot_px = 2.5;
    struct plots_box box =
        plots_text(canvas, right_px, y, PLOTS_RIGHT, alarming ? PLOTS_STRONG : PLOTS_LABEL, PLOTS_INK, text);
    if (alarming)
        plots_circle(canvas, box.x - dot_px - 3, y, dot_px, (struct plots_look){.colour = PLOTS_ALARM, .fill_frac = 1});
}

static void draw_bars(const struct place *place, const struct plots_axis *axis, const struct lab_comparison_row *row,
                      double y)
{
    draw_bar(place, axis, y, row->measured_tokens_per_s, solid);
    draw_bar(place, axis, y + bar_height_px + bar_gap_px, row->predicted_tokens_per_s,
             row->predicted == LAB_MEMORY_EXCEEDED ? hollow_dashed : hollow);
    double error_frac = lab_step_error_frac(row), middle = y + bar_height_px + bar_gap_px / 2;
    draw_end(place->canvas, middle, isnan(error_frac) ? "–" : lab_percent(place->canvas->arena, error_frac),
             lab_error_is_large(error_frac));
}

/* The words lie on a tint, so that a row without bars is seen as one that has something to say. */
static void draw_note(const struct place *place, struct lab_note note, double y)
{
    struct plots_canvas *canvas = place->canvas;
    double width_px = place->bars_right_px - place->bars_left_px, middle = y + note_height_px / 2;
    struct plots_look tint = {.colour = note.disagrees ? PLOTS_ALARM : PLOTS_MUTED,
                              .fill_frac = note.disagrees ? 0.25 : 0.1};
    plots_rect(canvas, (struct plots_box){place->bars_left_px, y, width_px, note_height_px}, tint);
    plots_text(canvas, place->bars_left_px + 6, middle, PLOTS_LEFT, PLOTS_SMALL, PLOTS_INK,
               plots_fit(canvas->arena, PLOTS_SMALL, note.text, width_px - 12));
    draw_end(canvas, middle, note.verdict, note.disagrees);
}

static double draw_row(const struct place *place, const struct section *section, const struct plots_axis *axis,
                       const struct lab_comparison_row *row, double y)
{
    struct plots_canvas *canvas = place->canvas;
    struct lab_note note = lab_row_note(canvas->arena, row);
    bool bars = has_bars(row);
    double height_px = row_height_px(bars, note.text != NULL), top = y + row_gap_px / 2;
    double middle = bars ? top + bar_height_px + bar_gap_px / 2 : top + note_height_px / 2;
    for (int c = 0; c < section->column_count; c++) {
        const struct column *column = &section->columns[c];
        enum plots_align align = column->number ? PLOTS_RIGHT : PLOTS_LEFT;
        plots_text(canvas, column_text_px(column), middle, align, PLOTS_LABEL, PLOTS_INK,
                   shown_cell(canvas->arena, row, column));
    }
    if (bars) draw_bars(place, axis, row, top);
    if (note.text) draw_note(place, note, bars ? top + 2 * bar_height_px + bar_gap_px + 1 : top);
    plots_hover(canvas, (struct plots_box){left_px, y, right_px - left_px, height_px},
                lab_row_words(canvas->arena, row));
    return y + height_px;
}

static double draw_section(const struct place *place, const struct section *section, double y)
{
    enum { TICK_SPACING_PX = 62 };
    struct plots_canvas *canvas = place->canvas;
    y = draw_section_heading(canvas, section, y);
    struct plots_axis axis =
        plots_axis_from_zero(highest_tokens_per_s(section), place->bars_left_px, place->bars_right_px, TICK_SPACING_PX);
    draw_column_headings(place, section, &axis, y + 10);
    y += 18;
    double bottom = y + section_height_px(canvas->arena, section);
    for (int i = 0; i < axis.tick_count; i++) {
        double x = plots_axis_px(&axis, axis.ticks[i]);
        plots_line(canvas, x, y, x, bottom, grid);
    }
    for (int i = 0; i < section->row_count; i++) y = draw_row(place, section, &axis, section->rows[i], y);
    return y;
}

/* The legend of solid and hollow bars, next to them. */
static double draw_key(const struct place *place, double y)
{
    struct plots_canvas *canvas = place->canvas;
    double x = place->bars_left_px, middle = y + 8;
    static const struct {
        const struct plots_look *look;
        const char *text;
    } entries[] = {{&solid, "measured"}, {&hollow, "predicted"}};
    for (int i = 0; i < BASE_COUNT(entries); i++) {
        plots_rect(canvas, (struct plots_box){x, middle - bar_height_px / 2, 22, bar_height_px}, *entries[i].look);
        struct plots_box box = plots_text(canvas, x + 28, middle, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, entries[i].text);
        x = box.x + box.width + 16;
    }
    plots_text(canvas, x, middle, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, "target tokens/s");
    return y + 26;
}

void lab_comparison_bars(struct plots_canvas *canvas, const struct lab_comparison *comparison)
{
    struct lab_finding finding = lab_find(canvas->arena, comparison);
    double y = plots_heading(canvas, lab_finding_title(canvas->arena, &finding),
                             lab_comparison_subtitle(canvas->arena, comparison, &finding));
    int count;
    double labels_width_px = 0;
    struct section *sections = split(canvas->arena, comparison, &count);
    for (int s = 0; s < count; s++) {
        choose_columns(canvas->arena, &sections[s]);
        labels_width_px = fmax(labels_width_px, sections[s].labels_width_px);
    }
    struct place place = {canvas, left_px + labels_width_px + labels_gap_px, right_px - error_width_px - bars_gap_px};
    y = draw_key(&place, y + 12);
    for (int s = 0; s < count; s++) y = draw_section(&place, &sections[s], y + (s ? 16 : 0));
    canvas->height_px = y + PLOTS_MARGIN_PX;
}

enum base_status lab_comparison_draw(struct base_arena *arena, const struct lab_comparison *comparison,
                                     enum plots_format format, double width_px, struct plots_picture *out,
                                     struct base_error *error)
{
    enum { MOST_ROWS_IN_BARS = 60 };
    struct plots_canvas canvas = {.arena = arena};
    if (comparison->count > MOST_ROWS_IN_BARS) return lab_parity(arena, comparison, format, width_px, out, error);
    lab_comparison_bars(&canvas, comparison);
    return plots_finish(&canvas, format, comparison->count, out, error);
}
