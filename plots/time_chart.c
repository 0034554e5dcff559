/* The time of a step by part, and by operation. */
#include "plots/search_document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 30, MOST_OPERATIONS = 20000 };

/* The bound of an operation, visible without colour, too: full, half, outlined and empty. */
enum limit { BY_COMPUTE, BY_MEMORY, BY_LINKS, BY_LATENCY };
static const struct plots_look looks[] = {[BY_COMPUTE] = {PLOTS_COMPUTE, 0.9, 0, false},
                                          [BY_MEMORY] = {PLOTS_MEMORY_BOUND, 0.35, 1.2, false},
                                          [BY_LINKS] = {PLOTS_COMMUNICATION_MODEL, 0.8, 0, false},
                                          [BY_LATENCY] = {PLOTS_OVERHEAD, 0, 1.2, false}};

/* ---- by part ---- */

static const struct part {
    const char *key, *name, *finding, *finding_of_less; /* the other: of less than half of the step */
    enum limit limit;
} parts[] = {
    {"compute_s", "matrix units", "Matrix units take most of the step", "Matrix units take longest", BY_COMPUTE},
    {"memory_bound_s", "memory bandwidth", "Memory bandwidth takes most of the step", "Memory bandwidth takes longest",
     BY_MEMORY},
    {"exposed_communication_s", "links", "Links take most of the step", "Links take longest", BY_LINKS},
    {"overhead_s", "latency", "Latency takes most of the step", "Latency takes longest", BY_LATENCY},
};

enum base_status plots_time(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                            struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    const struct base_json *time = base_json_find(request->document, "time", BASE_JSON_OBJECT);
    struct plots_bar bars[BASE_COUNT(parts)];
    double step_s = base_json_real(time, "step_s");
    int most = 0;
    if (!(step_s > 0)) return base_fail(error, BASE_INPUT, "%s: time.step_s above 0 is needed", request->path);
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        double part_s = base_json_real(time, parts[i].key);
        if (!(part_s >= 0))
            return base_fail(error, BASE_INPUT, "%s: time.%s of at least 0 is needed", request->path, parts[i].key);
        bars[i] =
            (struct plots_bar){.label = parts[i].name,
                               .amount = base_print(arena, "%s, %.1f %%", plots_amount(arena, PLOTS_SECONDS, part_s),
                                                    100 * part_s / step_s),
                               .value = part_s,
                               .look = looks[parts[i].limit]};
        bars[i].hover = base_print(arena, "%s: %s of %s", parts[i].name, bars[i].amount,
                                   plots_amount(arena, PLOTS_SECONDS, step_s));
        if (part_s > bars[most].value) most = i;
    }
    double y =
        plots_heading(&canvas,
                      base_print(arena, "%s: %.0f %% of %s",
                                 2 * bars[most].value > step_s ? parts[most].finding : parts[most].finding_of_less,
                                 100 * bars[most].value / step_s, plots_amount(arena, PLOTS_SECONDS, step_s)),
                      plots_answer_words(arena, request->document));
    canvas.height_px = plots_put_bars(&canvas, y + 8, bars, BASE_COUNT(parts), PLOTS_SECONDS, "time of the step", NULL);
    return plots_finish(&canvas, request->format, BASE_COUNT(parts), out, error);
}

/* ---- by operation ---- */

struct operation {
    const char *name, *phase, *bound;
    double time_s;
    int order;
};

static int longest_first(const void *a, const void *b)
{
    const struct operation *x = a, *y = b;
    if (x->time_s != y->time_s) return x->time_s > y->time_s ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static int by_name(const void *a, const void *b)
{
    const struct operation *x = a, *y = b;
    int names = strcmp(x->name, y->name), phases = names ? names : strcmp(x->phase, y->phase),
        bounds = phases ? phases : strcmp(x->bound, y->bound);
    return bounds ? bounds : x->order - y->order;
}

/* "decoder/layers/mlp" of "decoder/layers/mlp/wi gradient": the part of the model. */
static const char *block_of(struct base_arena *arena, const char *name)
{
    enum { DEEPEST = 3 };
    size_t length = strcspn(name, " "), end = 0;
    int depth = 0;
    for (size_t i = 0; i <= length && depth < DEEPEST; i++)
        if (i == length || name[i] == '/') depth += i < length || depth == DEEPEST - 1, end = depth ? i : end;
    return base_copy_bytes(arena, name, depth ? end : length);
}

/* One of each block, phase and bound. */
static int merge(struct operation *list, int count)
{
    int kept = 0;
    qsort(list, (size_t)count, sizeof *list, by_name);
    for (int i = 0; i < count; i++) {
        struct operation *last = kept ? &list[kept - 1] : NULL;
        if (last && !strcmp(last->name, list[i].name) && !strcmp(last->phase, list[i].phase) &&
            !strcmp(last->bound, list[i].bound))
            last->time_s += list[i].time_s;
        else list[kept++] = list[i];
    }
    qsort(list, (size_t)kept, sizeof *list, longest_first);
    return kept;
}

static enum base_status read_operations(struct base_arena *arena, const struct plots_request *r, struct operation **out,
                                        int *count, struct base_error *error)
{
    const struct base_json *list = base_json_find(r->document, "timeline", BASE_JSON_ARRAY);
    if (!list || !list->count || list->count > MOST_OPERATIONS)
        return base_fail(error, BASE_INPUT,
                         "%s: has no operations; use `meshwright predict PLAN --detail --json` to write them", r->path);
    *out = base_new(arena, struct operation, list->count);
    *count = 0;
    for (const struct base_json *item = list->child; item; item = item->next) {
        double times = base_json_real(item, "count"), time_s = base_json_real(item, "time_s");
        if (!(times >= 0) || !(time_s >= 0))
            return base_fail(error, BASE_INPUT, "%s: timeline[%d]: count and time_s of at least 0 are needed", r->path,
                             *count);
        const char *bound = base_json_string(item, "bound", NULL);
        if (!bound) bound = base_json_string(item, "kind", "");
        (*out)[*count] = (struct operation){block_of(arena, plots_clean(arena, base_json_string(item, "name", "?"))),
                                            plots_clean(arena, base_json_string(item, "phase", "")),
                                            plots_clean(arena, bound), times * time_s, *count};
        ++*count;
    }
    *count = merge(*out, *count);
    return BASE_OK;
}

static const struct bound {
    const char *name, *kind, *words; /* as a prediction says it, and as a measurement */
    enum limit limit;
} bounds[] = {
    {"compute", "contraction", "matrix units", BY_COMPUTE},
    {"memory", "elementwise", "memory bandwidth", BY_MEMORY},
    {"communication", "collective", "links", BY_LINKS},
    {"latency", "", "latency", BY_LATENCY},
};

static const struct bound *bound_of(const struct operation *o)
{
    for (int i = 0; i < BASE_COUNT(bounds); i++)
        if (!strcmp(o->bound, bounds[i].name) || !strcmp(o->bound, bounds[i].kind)) return &bounds[i];
    return &bounds[BASE_COUNT(bounds) - 1];
}

static void fill_bars(struct base_arena *arena, const struct operation *list, int shown, double total_s,
                      struct plots_bar *bars)
{
    for (int i = 0; i < shown; i++) {
        const struct bound *bound = bound_of(&list[i]);
        const char *amount = base_print(arena, "%s, %.1f %%", plots_amount(arena, PLOTS_SECONDS, list[i].time_s),
                                        100 * list[i].time_s / total_s);
        bars[i] = (struct plots_bar){
            base_print(arena, "%s, %s", list[i].name, list[i].phase), amount,
            base_print(arena, "%s, %s: %s, by %s", list[i].name, list[i].phase, amount, bound->words), list[i].time_s,
            looks[bound->limit]};
    }
}

/* The axis's unit, and the operations folded away. */
static const char *axis_words(struct base_arena *arena, const struct operation *list, int shown, int count,
                              double total_s)
{
    double rest_s = 0;
    for (int i = shown; i < count; i++) rest_s += list[i].time_s;
    if (shown == count) return "time, all repetitions";
    return base_print(arena, "time; %d others take %s, %.1f %%", count - shown,
                      plots_amount(arena, PLOTS_SECONDS, rest_s), 100 * rest_s / total_s);
}

enum base_status plots_operations(struct base_arena *arena, const struct plots_request *request,
                                  struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct operation *list = NULL;
    struct plots_bar bars[SHOWN];
    struct plots_key keys[BASE_COUNT(bounds)];
    int count = 0;
    double total_s = 0, five_s = 0;
    BASE_TRY(read_operations(arena, request, &list, &count, error));
    for (int i = 0; i < count; i++) total_s += list[i].time_s;
    for (int i = 0; i < count && i < 5; i++) five_s += list[i].time_s;
    if (!(total_s > 0)) return base_fail(error, BASE_INPUT, "%s: its operations take no time", request->path);
    int shown = count < SHOWN ? count : SHOWN;
    fill_bars(arena, list, shown, total_s, bars);
    for (int i = 0; i < BASE_COUNT(bounds); i++) keys[i] = (struct plots_key){bounds[i].words, looks[bounds[i].limit]};
    double y = plots_heading(
        &canvas,
        count > 5 ? base_print(arena, "Five of %d blocks take %.0f %% of the time", count, 100 * five_s / total_s)
                  : base_print(arena, "%d blocks take the time", count),
        plots_answer_words(arena, request->document));
    y = plots_put_keys(&canvas, y + 6, keys, BASE_COUNT(keys));
    canvas.height_px = plots_put_bars(&canvas, y + 6, bars, shown, PLOTS_SECONDS,
                                      axis_words(arena, list, shown, count, total_s), NULL);
    return plots_finish(&canvas, request->format, count, out, error);
}
