/* The difference between two plans: time by part, memory by part. */
#include "plots/search_document.h"

#include <math.h>
#include <string.h>

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
    const struct base_json *a = base_json_find(r->document, of, BASE_JSON_OBJECT),
                           *b = base_json_find(r->other, of, BASE_JSON_OBJECT);
    for (int i = 0; i < count; i++) {
        double before = base_json_real(a, parts[i].key), after = base_json_real(b, parts[i].key);
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
    *y = plots_put_bars(canvas, *y, bars, shown, unit, name, NULL);
    return BASE_OK;
}

/* "batch_size 896 → 448": the keys in which the plans differ; NULL: in too many to be read. */
static const char *changes_of(struct base_arena *arena, const struct base_json *a, const struct base_json *b)
{
    enum { READABLE = 4 };
    struct base_text text = {.arena = arena};
    int count = 0;
    const struct base_json *plans[] = {base_json_find(a, "plan", BASE_JSON_OBJECT),
                                       base_json_find(b, "plan", BASE_JSON_OBJECT)};
    for (int side = 0; side < 2 && plans[0] && plans[1]; side++)
        for (const struct base_json *item = plans[side]->child; item; item = item->next) {
            const struct base_json *values[] = {base_json_get(plans[0], item->key), base_json_get(plans[1], item->key)};
            const char *words[2];
            if (side && values[0]) continue; /* said from the other side */
            for (int i = 0; i < 2; i++) {
                struct base_text value = {.arena = arena};
                struct base_json_writer w = {.text = &value, .layout = BASE_JSON_ONE_LINE};
                if (values[i]) base_json_put_value(&w, values[i]);
                while (value.length && value.data[value.length - 1] <= ' ') value.data[--value.length] = '\0';
                words[i] = !values[i] ? "unsaid" : values[i]->kind == BASE_JSON_STRING ? values[i]->string : value.data;
            }
            if (!strcmp(words[0], words[1])) continue;
            base_putf(&text, "%s%s %s → %s", count++ ? ", " : "", item->key, words[0], words[1]);
        }
    return count && count <= READABLE ? plots_clean(arena, text.data) : NULL;
}

static const char *title_of(struct base_arena *arena, double faster_s, double fewer_bytes, bool fits)
{
    if (faster_s == 0 && fewer_bytes == 0) return "Both take the same time and the same memory";
    const char *time = base_print(arena, "is %s %s a step", plots_amount(arena, PLOTS_SECONDS, fabs(faster_s)),
                                  faster_s > 0 ? "faster" : "slower"),
               *memory = base_print(arena, "needs %s %s memory", plots_amount(arena, PLOTS_GIB, fabs(fewer_bytes)),
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
    double before_s = base_json_real(base_json_find(a, "time", BASE_JSON_OBJECT), "step_s"),
           after_s = base_json_real(base_json_find(b, "time", BASE_JSON_OBJECT), "step_s"),
           before_bytes = base_json_real(base_json_find(a, "memory", BASE_JSON_OBJECT), "peak_bytes"),
           after_bytes = base_json_real(base_json_find(b, "memory", BASE_JSON_OBJECT), "peak_bytes");
    if (!(before_s > 0) || !(after_s > 0) || !isfinite(before_bytes) || !isfinite(after_bytes))
        return base_fail(error, BASE_INPUT, "%s: time.step_s and memory.peak_bytes are needed in both answers",
                         request->path);
    const char *title = title_of(arena, before_s - after_s, before_bytes - after_bytes,
                                 base_json_find(b, "fits", BASE_JSON_TRUE) != NULL);
    const char *changes = changes_of(arena, a, b), *words = plots_answer_words(arena, a);
    double y = plots_heading(&canvas, title,
                             changes ? base_print(arena, "%s; in the second: %s", words, changes)
                                     : base_print(arena, "first: %s; second: %s", words, plots_answer_words(arena, b)));
    y += 10;
    BASE_TRY(put_parts(&canvas, request, "time", time_parts, BASE_COUNT(time_parts), PLOTS_SECONDS,
                       "change of the step's time", &y, error));
    y += 10;
    BASE_TRY(put_parts(&canvas, request, "memory", memory_parts, BASE_COUNT(memory_parts), PLOTS_GIB,
                       "change of memory at the peak", &y, error));
    canvas.height_px = y;
    return plots_finish(&canvas, request->format, BASE_COUNT(time_parts) + BASE_COUNT(memory_parts), out, error);
}
