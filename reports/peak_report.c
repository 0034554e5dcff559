/* The buffers at the peak, as JSON and as text. */
#include "reports/reports.h"

static const char *kind_of(const struct sim_peak_buffer *buffer)
{
    static const char *const kinds[MODEL_CATEGORY_COUNT] = {
        [MODEL_PARAMETER] = "parameters", [MODEL_OPTIMIZER_STATE] = "optimizer state",
        [MODEL_GRADIENT] = "gradients",   [MODEL_ACTIVATION] = "activations",
        [MODEL_INPUT] = "activations",    [MODEL_TEMPORARY] = "temporaries",
        [MODEL_CACHE] = "cache"};
    return buffer->is_reserved ? "reserved" : kinds[buffer->category];
}

/* "11", "of 24" or NULL. */
static const char *layer_words(struct base_arena *arena, const struct sim_peak_buffer *buffer)
{
    if (buffer->layer >= 0) return base_print(arena, "%d", buffer->layer);
    return buffer->layers > 0 ? base_print(arena, "of %d", buffer->layers) : NULL;
}

void reports_put_peak_buffers(struct base_json_writer *w, const char *key, const struct sim_peak_buffers *peak)
{
    base_json_member_open(w, key, '[');
    for (int i = 0; i < peak->count; i++) {
        const struct sim_peak_buffer *b = &peak->rows[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "name", b->name);
        base_json_member_string(w, "kind", kind_of(b));
        base_json_member_int(w, "bytes", (int64_t)(b->bytes + 0.5));
        base_json_member_string(w, "layer", layer_words(w->text->arena, b));
        base_json_key(w, "microbatch");
        if (b->microbatch >= 0) base_json_put_int(w, b->microbatch);
        else base_json_put_null(w);
        base_json_member_string(w, "why", b->why);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static double sum_of(const struct sim_peak_buffers *peak)
{
    double bytes = 0;
    for (int i = 0; i < peak->count; i++) bytes += peak->rows[i].bytes;
    return bytes;
}

void reports_put_moment(struct base_json_writer *w, const struct sim_moment *moment)
{
    base_json_member_open(w, "buffers_at", '{');
    base_json_member_double(w, "at_s", moment->at_s);
    base_json_member_string(w, "operation", moment->name);
    if (moment->stage >= 0) base_json_member_int(w, "stage", moment->stage);
    if (moment->stage >= 0) base_json_member_double(w, "in_flight", moment->in_flight);
    base_json_member_int(w, "bytes", (int64_t)(sum_of(&moment->buffers) + 0.5));
    reports_put_peak_buffers(w, "buffers", &moment->buffers);
    base_json_close(w, '}');
}

void reports_moment_text(const struct sim_moment *moment, struct base_text *out)
{
    const char *of = moment->stage < 0
                         ? ""
                         : base_print(out->arena, "stage %d, %.3g microbatch%s in flight, ", moment->stage,
                                      moment->in_flight, moment->in_flight == 1 ? "" : "es");
    reports_peak_text(base_print(out->arena, "Buffers at %s (%s%s): %s", base_seconds(moment->at_s), of,
                                 moment->name ? moment->name : "between operations",
                                 base_bytes(sum_of(&moment->buffers))),
                      &moment->buffers, out);
}

void reports_peak_text(const char *heading, const struct sim_peak_buffers *peak, struct base_text *out)
{
    enum { SHOWN = 25 };
    base_putf(out, "\n%s\n", heading);
    for (int i = 0; i < peak->count && i < SHOWN; i++) {
        const struct sim_peak_buffer *b = &peak->rows[i];
        const char *layer = layer_words(out->arena, b);
        base_putf(out, "    %10s  %s%s%s%s: %s\n", base_bytes(b->bytes), b->name,
                  layer && b->layer >= 0 ? ", layer "
                  : layer                ? ", "
                                         : "",
                  layer ? layer : "", b->layers > 0 && b->layer < 0 ? " layers" : "", b->why);
    }
    if (peak->count > SHOWN) base_putf(out, "    and %d smaller ones; --json has all\n", peak->count - SHOWN);
}
