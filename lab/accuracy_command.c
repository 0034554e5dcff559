/* `accuracy`: a chart of predictions against measurements, of a table that `meshwright sweep` wrote. */
#include "lab/comparison.h"
#include "lab/lab.h"

#include <string.h>

typedef enum base_status draw_table(struct base_arena *arena, const struct lab_comparison *comparison,
                                    enum plots_format format, double width_px, struct plots_picture *out,
                                    struct base_error *error);

static const struct kind {
    const char *name;
    draw_table *draw;
} kinds[] = {{"comparison", lab_comparison_draw}, {"parity", lab_parity}, {"trust", lab_trust}};

static enum base_status find_kind(const char *name, draw_table **out, struct base_error *error)
{
    const char *names[BASE_COUNT(kinds)];
    for (int i = 0; i < BASE_COUNT(kinds); i++) {
        names[i] = kinds[i].name;
        *out = kinds[i].draw;
        if (!strcmp(name, names[i])) return BASE_OK;
    }
    return base_fail_unknown(error, BASE_USAGE, "accuracy: KIND", name, names, BASE_COUNT(kinds));
}

enum base_status lab_accuracy_run(struct commands_context *context, const struct base_arguments *arguments,
                                  struct base_text *out, struct base_error *error)
{
    const char *const *words = arguments->positional, *path = base_argument(arguments, "--out");
    struct lab_comparison comparison;
    struct plots_picture picture;
    enum plots_format format;
    draw_table *draw;
    if (arguments->positional_count < 2 || !path)
        return base_fail(error, BASE_USAGE, "accuracy: use comparison|parity|trust RESULT.csv --out FILE.svg");
    BASE_TRY(find_kind(words[0], &draw, error));
    BASE_TRY(plots_format_parse(path, &format, error));
    BASE_TRY(plots_ready(error));
    BASE_TRY(lab_comparison_read(context->arena, words[1], &comparison, error));
    if (draw(context->arena, &comparison, format, 0, &picture, error) != BASE_OK)
        return base_fail_in(error, "%s", words[1]);
    BASE_TRY(base_write_file(path, picture.bytes.data, picture.bytes.length, error));
    commands_put_picture(context, words[0], path, &picture, out);
    return BASE_OK;
}
