/* Axes of a chart: round ticks from zero or on a logarithmic scale, and positions of values. */
#include "plots/canvas.h"

#include <math.h>
#include <string.h>

static void add_tick(struct plots_axis *axis, double value)
{
    if (axis->tick_count < PLOTS_MOST_TICKS) axis->ticks[axis->tick_count++] = value;
}

/* The smallest of 1, 2, 5 times a power of ten that is at least `least`. */
static double round_step(double least)
{
    static const double steps[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(least)));
    int i = 0;
    while (i < BASE_COUNT(steps) - 1 && steps[i] * power < least * (1 - 1e-9)) i++;
    return steps[i] * power;
}

struct plots_axis plots_axis_from_zero(double high, double from_px, double to_px, double spacing_px)
{
    struct plots_axis axis = {.low = 0, .high = high, .from_px = from_px, .to_px = to_px};
    if (!(high > 0)) {
        axis.high = 1;
        return axis;
    }
    double most = fmin(fmax(floor(fabs(to_px - from_px) / spacing_px), 1), PLOTS_MOST_TICKS - 1),
           step = round_step(high / most);
    for (int i = 0; i * step <= high * (1 + 1e-9) && i < PLOTS_MOST_TICKS; i++) add_tick(&axis, i * step);
    return axis;
}

/* Ticks at 1, 2 and 5 of each decade where there is room, then at 1, then at every second, third … decade. */
static void add_logarithmic_ticks(struct plots_axis *axis, int most)
{
    double first = floor(log10(axis->low)), last = ceil(log10(axis->high));
    double decades = log10(axis->high / axis->low);
    bool within = decades * 3 <= most;
    int stride = within ? 1 : (int)ceil(decades / most);
    for (double decade = first; decade <= last; decade += stride) {
        static const double digits[] = {1, 2, 5};
        for (int i = 0; i < (within ? BASE_COUNT(digits) : 1); i++) {
            double value = digits[i] * pow(10, decade);
            if (value >= axis->low && value <= axis->high) add_tick(axis, value);
        }
    }
}

/* Less than a decade may hold one round number or none: then the ticks are a round step apart. */
static void add_narrow_ticks(struct plots_axis *axis, int most)
{
    double step = round_step((axis->high - axis->low) / most);
    axis->tick_count = 0;
    for (double value = ceil(axis->low / step) * step; value <= axis->high && axis->tick_count < PLOTS_MOST_TICKS;
         value += step)
        add_tick(axis, value);
}

struct plots_axis plots_axis_logarithmic(double low, double high, double from_px, double to_px, double spacing_px)
{
    double margin = fmax(pow(high / low, 0.04), 1.08);
    struct plots_axis axis = {
        .low = low / margin, .high = high * margin, .from_px = from_px, .to_px = to_px, .logarithmic = true};
    int most = (int)fmin(fmax(fabs(to_px - from_px) / spacing_px, 1), PLOTS_MOST_TICKS);
    add_logarithmic_ticks(&axis, most);
    if (axis.tick_count < 3) add_narrow_ticks(&axis, most / 2 + 1);
    return axis;
}

double plots_axis_px(const struct plots_axis *axis, double value)
{
    double frac = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                    : (value - axis->low) / (axis->high - axis->low);
    return axis->from_px + frac * (axis->to_px - axis->from_px);
}

static const double gib = 1024.0 * 1024 * 1024;

struct plots_axis plots_axis_of(enum plots_unit unit, double high, double from_px, double to_px, double spacing_px)
{
    double scale = unit == PLOTS_GIB ? gib : unit == PLOTS_PERCENT ? 0.01 : 1;
    struct plots_axis axis = plots_axis_from_zero(high / scale, from_px, to_px, spacing_px);
    axis.high *= scale;
    for (int i = 0; i < axis.tick_count; i++) axis.ticks[i] *= scale;
    return axis;
}

struct plots_axis plots_axis_within(enum plots_unit unit, double low, double high, double from_px, double to_px,
                                    double spacing_px)
{
    static const double far_frac = 0.4, margin_frac = 0.2;
    if (low < far_frac * high || low >= high) return plots_axis_of(unit, high, from_px, to_px, spacing_px);
    const double scale = unit == PLOTS_GIB ? gib : 1;
    struct plots_axis axis = {.low = fmax(0, low - margin_frac * (high - low)) / scale,
                              .high = high / scale,
                              .from_px = from_px,
                              .to_px = to_px};
    add_narrow_ticks(&axis, (int)fmin(fmax(fabs(to_px - from_px) / spacing_px, 1), PLOTS_MOST_TICKS - 1));
    axis.low *= scale, axis.high *= scale;
    for (int i = 0; i < axis.tick_count; i++) axis.ticks[i] *= scale;
    return axis;
}

const char *plots_amount(struct base_arena *arena, enum plots_unit unit, double value)
{
    switch (unit) {
    case PLOTS_GIB: return base_copy(arena, base_bytes(value));
    case PLOTS_SECONDS: return base_copy(arena, base_seconds(value));
    case PLOTS_PERCENT: return base_print(arena, "%.1f %%", 100 * value);
    case PLOTS_FLOP_PER_S: return base_print(arena, "%sFLOP/s", base_count(value));
    case PLOTS_NUMBER: return base_print(arena, "%.0f", value);
    case PLOTS_COUNT: break;
    }
    return base_copy(arena, base_count(value));
}

static const char *size_of(struct base_arena *arena, enum plots_unit unit, const struct plots_axis *axis, double value)
{
    static const struct {
        double size;
        const char *name;
    } seconds[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
    int i = 0;
    if (unit == PLOTS_GIB) return base_print(arena, "%.4g GiB", value / gib);
    if (unit == PLOTS_PERCENT) return base_print(arena, "%.4g %%", 100 * value);
    if (unit == PLOTS_FLOP_PER_S) return base_print(arena, "%sFLOP/s", plots_tick_text(arena, value));
    if (unit == PLOTS_NUMBER) return base_print(arena, "%.0f", value);
    if (unit != PLOTS_SECONDS) return plots_tick_text(arena, value);
    while (i < BASE_COUNT(seconds) - 1 && fmax(fabs(axis->high), fabs(axis->low)) < 2 * seconds[i].size) i++;
    return base_print(arena, "%.4g %s", value / seconds[i].size, seconds[i].name);
}

/* With a true minus sign. */
const char *plots_tick_of(struct base_arena *arena, enum plots_unit unit, const struct plots_axis *axis, double value)
{
    const char *size = size_of(arena, unit, axis, fabs(value));
    return value < 0 ? base_print(arena, "−%s", size) : size;
}

const char *plots_tick_text(struct base_arena *arena, double value)
{
    static const struct {
        double size;
        const char *name;
    } units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}};
    int i = 0;
    while (i < BASE_COUNT(units) - 1 && value < units[i].size * (1 - 1e-9)) i++;
    return base_print(arena, "%.4g%s", value / units[i].size, units[i].name);
}
