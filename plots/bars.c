/* Rows of a name, a bar and an amount: the plainest chart there is, and the one that most questions want. */
#include "plots/canvas.h"

#include <math.h>

static const double narrow_px = 480, row_px = 19, bar_px = 11, words_gap_px = 6;
static const struct plots_look grid = {PLOTS_GRID, 0, 1, false}, zero = {PLOTS_MUTED, 0, 1, false};

struct layout {
    bool narrow;
    double label_px, pitch_px, low, high; /* where names end; from row to row; values */
    struct plots_axis axis;
};

enum words { AMOUNTS, LABELS };

static double widest(const struct plots_bar *bars, int count, enum words words)
{
    double width = 0;
    for (int i = 0; i < count; i++)
        if (bars[i].amount)
            width = fmax(width, plots_text_width(PLOTS_SMALL, words == LABELS ? bars[i].label : bars[i].amount));
    return width;
}

/* Below zero, the ticks above it are mirrored. */
static void mirror_ticks(struct plots_axis *axis)
{
    double step = axis->tick_count > 1 ? axis->ticks[1] : 0;
    for (double value = -step; step > 0 && value >= axis->low * (1 + 1e-9) && axis->tick_count < PLOTS_MOST_TICKS;
         value -= step)
        axis->ticks[axis->tick_count++] = value;
}

static struct layout lay_out(const struct plots_canvas *canvas, const struct plots_bar *bars, int count,
                             enum plots_unit unit, double limit)
{
    struct layout l = {.narrow = plots_width(canvas) < narrow_px, .high = limit};
    double amount_px = widest(bars, count, AMOUNTS) + words_gap_px, width_px = plots_width(canvas),
           room_px = width_px - 2 * PLOTS_MARGIN_PX;
    for (int i = 0; i < count; i++) l.low = fmin(l.low, bars[i].value), l.high = fmax(l.high, bars[i].value);
    const bool nothing = !(l.high > l.low);
    if (nothing) l.high = l.low + 1;
    l.label_px = PLOTS_MARGIN_PX + (l.narrow ? 0 : fmin(widest(bars, count, LABELS), 0.45 * room_px) + words_gap_px);
    l.pitch_px = l.narrow ? 2 * row_px - 2 : row_px;
    double left_px = l.label_px + (l.low < 0 ? amount_px : 0), right_px = width_px - PLOTS_MARGIN_PX - amount_px,
           zero_px = left_px + (right_px - left_px) * -l.low / (l.high - l.low);
    double most = fmax(l.high, -l.low), most_px = fmax(right_px - zero_px, zero_px - left_px);
    l.axis = plots_axis_of(unit, most, zero_px, zero_px + most_px, 56);
    l.axis.to_px = right_px, l.axis.from_px = left_px, l.axis.low = l.low, l.axis.high = l.high;
    if (l.low < 0) mirror_ticks(&l.axis);
    if (nothing) l.axis.tick_count = 1; /* bars of nothing have no scale but zero */
    return l;
}

/* Where the amount begins: behind the limit where it would stand on it. */
static double amount_at(const struct layout *l, const struct plots_bar *bar, const struct plots_bar *limit, double to)
{
    if (bar->value < 0) return to - words_gap_px;
    const double at = to + words_gap_px, width = plots_text_width(PLOTS_SMALL, bar->amount),
                 limit_px = limit ? plots_axis_px(&l->axis, limit->value) : at;
    return at < limit_px && at + width > limit_px - words_gap_px ? limit_px + words_gap_px : at;
}

static void put_bar(struct plots_canvas *canvas, const struct layout *l, const struct plots_bar *bar,
                    const struct plots_bar *limit, double y)
{
    double from = plots_axis_px(&l->axis, 0), to = plots_axis_px(&l->axis, bar->value);
    double bar_y = l->narrow ? y + 1.4 * row_px : y + row_px / 2, label_y = l->narrow ? y + row_px / 2 : bar_y;
    double room = l->narrow ? plots_width(canvas) - 2 * PLOTS_MARGIN_PX : l->label_px - PLOTS_MARGIN_PX - words_gap_px;
    const char *label = plots_fit(canvas->arena, PLOTS_SMALL, bar->label, room);
    plots_text(canvas, l->narrow ? PLOTS_MARGIN_PX : l->label_px - words_gap_px, label_y,
               l->narrow ? PLOTS_LEFT : PLOTS_RIGHT, PLOTS_SMALL, PLOTS_INK, label);
    plots_rect(canvas, (struct plots_box){fmin(from, to), bar_y - bar_px / 2, fabs(to - from), bar_px}, bar->look);
    plots_text(canvas, amount_at(l, bar, limit, to), bar_y, bar->value < 0 ? PLOTS_RIGHT : PLOTS_LEFT, PLOTS_SMALL,
               PLOTS_INK, bar->amount);
    plots_hover(canvas, (struct plots_box){PLOTS_MARGIN_PX, y, plots_width(canvas) - 2 * PLOTS_MARGIN_PX, l->pitch_px},
                bar->hover);
}

/* A row of words alone. */
static void put_words(struct plots_canvas *canvas, const struct layout *l, const struct plots_bar *bar, double y)
{
    const enum plots_style style = bar->look.colour == PLOTS_INK ? PLOTS_STRONG : PLOTS_SMALL;
    plots_text(canvas, PLOTS_MARGIN_PX, y + l->pitch_px / 2, PLOTS_LEFT, style, bar->look.colour,
               plots_fit(canvas->arena, style, bar->label, plots_width(canvas) - 2 * PLOTS_MARGIN_PX));
}

static void put_axis(struct plots_canvas *canvas, const struct layout *l, enum plots_unit unit, double top,
                     double bottom)
{
    for (int i = 0; i < l->axis.tick_count; i++) {
        double px = plots_axis_px(&l->axis, l->axis.ticks[i]);
        if (px < l->axis.from_px - 1 || px > l->axis.to_px + 1) continue;
        const char *words = plots_tick_of(canvas->arena, unit, &l->axis, l->axis.ticks[i]);
        plots_line(canvas, px, top, px, bottom, l->axis.ticks[i] == 0 ? zero : grid);
        plots_text(canvas, px, bottom + 10, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_MUTED, words);
    }
}

/* A value that no bar should pass, with its words above it. */
static void put_limit(struct plots_canvas *canvas, const struct layout *l, const struct plots_bar *limit, double top,
                      double bottom)
{
    const double px = plots_axis_px(&l->axis, limit->value);
    plots_line(canvas, px, top - 3, px, bottom, limit->look);
    plots_text(canvas, fmin(px, l->axis.to_px), top - 10, PLOTS_RIGHT, PLOTS_SMALL, limit->look.colour, limit->amount);
}

double plots_put_bars(struct plots_canvas *canvas, double y, const struct plots_bar *bars, int count,
                      enum plots_unit unit, const char *axis_name, const struct plots_bar *limit)
{
    struct layout l = lay_out(canvas, bars, count, unit, limit ? limit->value : 0);
    y += limit ? plots_line_height(PLOTS_SMALL) : 0;
    double bottom = y + count * l.pitch_px + 4;
    put_axis(canvas, &l, unit, y, bottom);
    if (limit) put_limit(canvas, &l, limit, y, bottom);
    for (int i = 0; i < count; i++) {
        const double row_y = y + i * l.pitch_px + 2;
        if (bars[i].amount) put_bar(canvas, &l, &bars[i], limit, row_y);
        else put_words(canvas, &l, &bars[i], row_y);
    }
    double end_px = plots_width(canvas) - PLOTS_MARGIN_PX;
    plots_text(canvas, end_px, bottom + 26, PLOTS_RIGHT, PLOTS_LABEL, PLOTS_INK,
               plots_fit(canvas->arena, PLOTS_LABEL, axis_name, end_px - PLOTS_MARGIN_PX));
    return bottom + 36;
}

double plots_put_keys(struct plots_canvas *canvas, double y, const struct plots_key *keys, int count)
{
    double x = PLOTS_MARGIN_PX, line_px = plots_line_height(PLOTS_SMALL) + 2;
    for (int i = 0; i < count; i++) {
        double width = 16 + plots_text_width(PLOTS_SMALL, keys[i].words) + 14;
        if (x > PLOTS_MARGIN_PX && x + width > plots_width(canvas) - PLOTS_MARGIN_PX + 14) {
            x = PLOTS_MARGIN_PX;
            y += line_px;
        }
        plots_rect(canvas, (struct plots_box){x, y + line_px / 2 - 5, 10, 10}, keys[i].look);
        plots_text(
            canvas, x + 15, y + line_px / 2, PLOTS_LEFT, PLOTS_SMALL, PLOTS_INK,
            plots_fit(canvas->arena, PLOTS_SMALL, keys[i].words, plots_width(canvas) - x - 15 - PLOTS_MARGIN_PX));
        x += width;
    }
    return y + line_px;
}
