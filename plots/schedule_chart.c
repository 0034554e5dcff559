/* A pipeline's schedule: a row a stage, a box a pass. */
#include "plots/search_document.h"

#include <math.h>

enum { MOST_PASSES = 20000, MOST_STAGES = 64 };
static const double row_px = 22, bar_px = 16, forward_px = 10, label_px = 64, least_number_px = 15;

struct chart {
    struct plots_canvas *canvas;
    struct plots_axis axis;
    double top;
    int chunks;
    bool goes_back; /* an evaluation does not */
};

/* Chunks of one stage differ in tint; forward and backward in colour and in height. */
static void put_pass(const struct chart *c, const struct base_json *pass)
{
    const double start_s = base_json_real(pass, "start_s"), end_s = base_json_real(pass, "end_s"),
                 stage = base_json_real(pass, "stage"), chunk = base_json_real(pass, "chunk");
    const bool backward = base_json_find(pass, "backward", BASE_JSON_TRUE) != NULL;
    const double left = plots_axis_px(&c->axis, start_s), right = plots_axis_px(&c->axis, end_s),
                 y = c->top + stage * row_px + (row_px - bar_px) / 2;
    const double height = backward ? bar_px : forward_px, middle = y + bar_px - height / 2;
    const struct plots_box box = {left, y + bar_px - height, fmax(right - left, 0.3), height};
    const double tint = 0.35 + 0.5 * (c->chunks > 1 ? chunk / (c->chunks - 1) : 1);
    plots_rect(c->canvas, box,
               (struct plots_look){backward ? PLOTS_COMMUNICATION_MODEL : PLOTS_COMPUTE, tint,
                                   right - left > 3 ? 0.4 : 0, false});
    const char *words = base_print(c->canvas->arena, "stage %.0f, microbatch %.0f, chunk %.0f, %s: %s", stage,
                                   base_json_real(pass, "microbatch"), chunk, backward ? "backward" : "forward",
                                   plots_amount(c->canvas->arena, PLOTS_SECONDS, end_s - start_s));
    plots_hover(c->canvas, box, words);
    if (right - left >= least_number_px)
        plots_text(c->canvas, (left + right) / 2, middle, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_INK,
                   base_print(c->canvas->arena, "%.0f", base_json_real(pass, "microbatch")));
}

static enum base_status check(const struct plots_request *r, const struct base_json *pipeline,
                              const struct base_json *passes, struct base_error *error)
{
    if (!pipeline)
        return base_fail(error, BASE_INPUT, "%s: has no pipeline; use a plan with pipeline_stages above 1", r->path);
    if (!passes || !passes->count || passes->count > MOST_PASSES || base_json_real(pipeline, "stages") > MOST_STAGES)
        return base_fail(
            error, BASE_INPUT,
            "%s: pipeline.passes of 1 to %d passes on up to %d stages are needed; use predict --detail, or "
            "fewer microbatches",
            r->path, MOST_PASSES, MOST_STAGES);
    for (const struct base_json *pass = passes->child; pass; pass = pass->next)
        if (!(base_json_real(pass, "start_s") >= 0) || !(base_json_real(pass, "end_s") >= 0) ||
            !(base_json_real(pass, "stage") >= 0) ||
            !(base_json_real(pass, "stage") < base_json_real(pipeline, "stages")))
            return base_fail(error, BASE_INPUT, "%s: pipeline.passes: start_s, end_s and stage are needed of each",
                             r->path);
    return BASE_OK;
}

enum base_status plots_schedule(struct base_arena *arena, const struct plots_request *request,
                                struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    const struct base_json *pipeline = base_json_find(request->document, "pipeline", BASE_JSON_OBJECT),
                           *passes = pipeline ? base_json_find(pipeline, "passes", BASE_JSON_ARRAY) : NULL,
                           *time = base_json_find(request->document, "time", BASE_JSON_OBJECT);
    BASE_TRY(check(request, pipeline, passes, error));
    const int stages = (int)base_json_real(pipeline, "stages");
    const double step_s = time ? base_json_real(time, "step_s") : NAN, bubble_s = base_json_real(pipeline, "bubble_s");
    double end_s = 0;
    struct chart c = {.canvas = &canvas, .chunks = 1};
    for (const struct base_json *pass = passes->child; pass; pass = pass->next) {
        end_s = fmax(end_s, base_json_real(pass, "end_s"));
        if (base_json_real(pass, "chunk") >= c.chunks) c.chunks = (int)base_json_real(pass, "chunk") + 1;
        c.goes_back = c.goes_back || base_json_find(pass, "backward", BASE_JSON_TRUE);
    }
    c.top = plots_heading(&canvas,
                          base_print(arena, "The slowest of %d stages waits %.1f %% of the step for the others", stages,
                                     step_s > 0 ? 100 * bubble_s / step_s : 0),
                          plots_answer_words(arena, request->document));
    const struct plots_key keys[] = {{"forward, lower", {.colour = PLOTS_COMPUTE, .fill_frac = 0.85}},
                                     {c.chunks > 1 ? "backward; each chunk of layers has a tint" : "backward",
                                      {.colour = PLOTS_COMMUNICATION_MODEL, .fill_frac = 0.85}}};
    c.top = plots_put_keys(&canvas, c.top + 6, keys, c.goes_back ? BASE_COUNT(keys) : 1) + 8;
    c.axis = plots_axis_of(PLOTS_SECONDS, end_s > 0 ? end_s : 1, PLOTS_MARGIN_PX + label_px,
                           plots_width(&canvas) - PLOTS_MARGIN_PX, 90);
    const struct plots_frame frame = {.x = c.axis,
                                      .y = {.low = 0, .high = 1, .from_px = c.top + stages * row_px, .to_px = c.top},
                                      .x_unit = PLOTS_SECONDS,
                                      .y_name = "",
                                      .x_name = c.goes_back ? "forward and backward passes of each stage, by microbatch"
                                                            : "forward passes of each stage, by microbatch"};
    plots_put_frame(&canvas, &frame);
    for (int i = 0; i < stages; i++)
        plots_text(&canvas, PLOTS_MARGIN_PX, c.top + (i + 0.5) * row_px, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK,
                   base_print(arena, "stage %d", i));
    for (const struct base_json *pass = passes->child; pass; pass = pass->next) put_pass(&c, pass);
    canvas.height_px = c.top + stages * row_px + 48;
    return plots_finish(&canvas, request->format, passes->count, out, error);
}
