/* What changes from one plan to another: time by part, memory by part. */
#include "plots/search_document.h"

#include <math.h>

static const struct part {
    const char *key, *name;
    enum plots_colour colour;
    double fill_frac;
} time_parts[] = {{"compute_s", "matrix units", PLOTS_COMPUTE, 0.9},
                  {"memory_bound_s", "memory bandwidth", PLOTS_MEMORY_BOUND, 0.6},
                  {"exposed_communication_s", "links", PLOTS_COMMUNICATION_MODEL, 0.8},
                  {"overhead_s", "latency", PLOTS_OVERHEAD, 0.5}},
  memory_parts[] = {{"parameter_bytes", "parameters", PLOTS_PARAMETERS, 0.95},
                    {"optimizer_state_bytes", "optimizer state", PLOTS_OPTIMIZER_STATE, 0.75},
                    {"gradient_bytes", "gradients", PLOTS_GRADIENTS, 0.8},
                    {"activation_bytes", "activations", PLOTS_ACTIVATIONS, 0.6},
                    {"temporary_bytes", "temporaries", PLOTS_TEMPORARIES, 0.8},
                    {"cache_bytes", "cache", PLOTS_CACHE, 0.7},
                    {"reserved_bytes", "reserved", PLOTS_RESERVED, 0.55}};

static const char *signed_amount(struct base_arena *arena, enum plots_unit unit, double value)
{
    if (value == 0) return "the same";
    return base_print(arena, "%s%s", value > 0 ? "+" : "−", plots_amount(arena, unit, fabs(value)));
}

static enum base_status put_parts(struct plots_canvas *canvas, const struct plots_request *r, const char *of,
                                  const struct part *parts, int count, enum plots_unit unit, const char *name,
                                  double *y, struct base_error *error)
{
    enum { MOST = 8 };
    struct plots_bar bars[MOST];
    int shown = 0;
    const struct base_json *a = plots_member(r->document, of, BASE_JSON_OBJECT),
                           *b = plots_member(r->other, of, BASE_JSON_OBJECT);
    for (int i = 0; i < count; i++) {
        double before = plots_number(a, parts[i].key), after = plots_number(b, parts[i].key);
        if (parts[i].colour == PLOTS_CACHE) before = fmax(before, 0), after = fmax(after, 0); /* training has none */
        if (!isfinite(before) || !isfinite(after))
            return base_fail(error, BASE_INPUT, "%s: %s.%s is needed in both answers", r->path, of, parts[i].key);
        if (before == 0 && after == 0) continue;
        const char *amount = signed_amount(canvas->arena, unit, after - before);
        bars[shown++] = (struct plots_bar){parts[i].name,
                                           amount,
                                           base_print(canvas->arena, "%s: %s, from %s to %s", parts[i].name, amount,
                                                      plots_amount(canvas->arena, unit, before),
                                                      plots_amount(canvas->arena, unit, after)),
                                           after - before,
                                           {parts[i].colour, parts[i].fill_frac, 0, false}};
    }
    *y = plots_put_bars(canvas, *y, bars, shown, unit, name);
    return BASE_OK;
}

static const char *title_of(struct base_arena *arena, double faster_s, double fewer_bytes, bool fits)
{
    if (faster_s == 0 && fewer_bytes == 0) return "Both take the same time and the same memory";
    const char *time = base_print(arena, "is %s %s a step", plots_amount(arena, PLOTS_SECONDS, fabs(faster_s)),
                                  faster_s > 0 ? "faster" : "slower"),
               *memory = base_print(arena, "takes %s %s memory", plots_amount(arena, PLOTS_GIB, fabs(fewer_bytes)),
                                    fewer_bytes > 0 ? "less" : "more");
    return base_print(arena, "The second plan %s and %s%s", faster_s == 0 ? "takes the same time" : time,
                      fewer_bytes == 0 ? "the same memory" : memory, fits ? "" : ": it does not fit");
}

enum base_status plots_difference(struct base_arena *arena, const struct plots_request *request,
                                  struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    const struct base_json *a = request->document, *b = request->other;
    if (!b) return base_fail(error, BASE_USAGE, "plot difference: a second plan or answer is missing");
    double before_s = plots_number(plots_member(a, "time", BASE_JSON_OBJECT), "step_s"),
           after_s = plots_number(plots_member(b, "time", BASE_JSON_OBJECT), "step_s"),
           before_bytes = plots_number(plots_member(a, "memory", BASE_JSON_OBJECT), "peak_bytes"),
           after_bytes = plots_number(plots_member(b, "memory", BASE_JSON_OBJECT), "peak_bytes");
    if (!(before_s > 0) || !(after_s > 0) || !isfinite(before_bytes) || !isfinite(after_bytes))
        return base_fail(error, BASE_INPUT, "%s: time.step_s and memory.peak_bytes are needed in both answers",
                         request->path);
    const char *title = title_of(arena, before_s - after_s, before_bytes - after_bytes,
                                 plots_member(b, "fits", BASE_JSON_TRUE) != NULL);
    double y = plots_heading(
        &canvas, title,
        base_print(arena, "first: %s; second: %s", plots_answer_words(arena, a), plots_answer_words(arena, b)));
    y += 10;
    BASE_TRY(put_parts(&canvas, request, "time", time_parts, BASE_COUNT(time_parts), PLOTS_SECONDS,
                       "change of the step's time", &y, error));
    y += 10;
    BASE_TRY(put_parts(&canvas, request, "memory", memory_parts, BASE_COUNT(memory_parts), PLOTS_GIB,
                       "change of memory at the peak", &y, error));
    canvas.height_px = y;
    return plots_finish(&canvas, request->format, BASE_COUNT(time_parts) + BASE_COUNT(memory_parts), out, error);
}
