/* Spelling of mesh axes and shapes, in text and in JSON. */
#include "commands/table.h"

const char *commands_shape_text(struct base_arena *arena, int rank, const int64_t *shape)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < rank; i++) base_putf(&text, "%s%lld", i ? " x " : "", (long long)shape[i]);
    return text.data ? text.data : "scalar";
}

const char *commands_axes_text(struct base_arena *arena, const struct model_axes *axes)
{
    struct base_text text = {.arena = arena};
    if (axes->unconstrained) return MODEL_UNCONSTRAINED;
    for (int i = 0; i < axes->count; i++)
        base_putf(&text, "%s%s", i ? "+" : "", axes->names[i] ? axes->names[i] : "null");
    return text.data ? text.data : "-";
}

const char *commands_spec_text(struct base_arena *arena, int rank, const struct model_axes *spec)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < rank; i++) base_putf(&text, "%s%s", i ? ", " : "", commands_axes_text(arena, &spec[i]));
    return text.data ? text.data : "";
}

void commands_put_axes(struct base_json_writer *writer, const struct model_axes *axes)
{
    if (axes->unconstrained) {
        base_json_put_string(writer, MODEL_UNCONSTRAINED);
        return;
    }
    if (axes->count < 2) {
        base_json_put_string(writer, axes->count ? axes->names[0] : NULL);
        return;
    }
    base_json_open_inline(writer, '[');
    for (int i = 0; i < axes->count; i++) base_json_put_string(writer, axes->names[i]);
    base_json_close(writer, ']');
}

void commands_put_spec(struct base_json_writer *writer, int rank, const struct model_axes *spec)
{
    base_json_member_open_inline(writer, "spec", '[');
    for (int i = 0; i < rank; i++) commands_put_axes(writer, &spec[i]);
    base_json_close(writer, ']');
}

void commands_join_numbers(struct base_text *out, const int *numbers, int count, const char *separator)
{
    for (int i = 0; i < count; i++) base_putf(out, "%s%d", i ? separator : "", numbers[i]);
}
