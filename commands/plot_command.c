/* `plot`: one chart of one file. */
#include "commands/commands.h"
#include "plots/plots.h"

#include <string.h>

typedef enum base_status draw_kind(struct base_arena *arena, const char *input, enum plots_format format,
                                   struct plots_picture *out, struct base_error *error);

static enum base_status draw_comparison(struct base_arena *arena, const char *input, enum plots_format format,
                                        struct plots_picture *out, struct base_error *error)
{
    struct plots_comparison comparison;
    BASE_TRY(plots_comparison_read(arena, input, &comparison, error));
    return plots_comparison_draw(arena, &comparison, format, out, error);
}

/* A chart is a row here and a file in plots/. */
static const struct kind {
    const char *name, *input, *answers;
    draw_kind *draw;
} kinds[] = {
    {"comparison", "RESULT.csv of sweep",
     "how far are predictions from measurements, and are the out-of-memory verdicts right?", draw_comparison},
    {"pareto", "TUNED.json of tune --pareto --json", "what does memory buy in speed?", plots_pareto},
    {"sensitivity", "TUNED.json of tune --json",
     "which choice of the best plan costs how much when it is changed alone?", plots_sensitivity},
};

static const char *list_kinds(struct base_arena *arena)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < BASE_COUNT(kinds); i++)
        base_putf(&text, "%s%s (%s)", i ? ", " : "", kinds[i].name, kinds[i].input);
    return text.data;
}

static const char *kind_words(struct base_arena *arena)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < BASE_COUNT(kinds); i++) base_putf(&text, "%s%s", i ? " " : "", kinds[i].name);
    return text.data;
}

static enum base_status find_kind(struct base_arena *arena, const char *name, const struct kind **out,
                                  struct base_error *error)
{
    for (int i = 0; i < BASE_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        *out = &kinds[i];
        return BASE_OK;
    }
    const char **names = base_new(arena, const char *, BASE_COUNT(kinds));
    for (int i = 0; i < BASE_COUNT(kinds); i++) names[i] = kinds[i].name;
    return base_fail_unknown(error, BASE_USAGE, "plot: KIND", name, names, BASE_COUNT(kinds));
}

void commands_put_picture(const struct commands_context *context, const char *kind, const char *path,
                          const struct plots_picture *picture, struct base_text *out)
{
    if (!context->json) {
        base_putf(out, "%s\n%s\n%s: %s\n", picture->title, picture->subtitle, kind, path);
        return;
    }
    struct base_json_writer writer = {.text = out, .compact = context->compact};
    base_json_open(&writer, '{');
    base_json_key(&writer, "kind");
    base_json_put_string(&writer, kind);
    base_json_key(&writer, "file");
    base_json_put_string(&writer, path);
    base_json_key(&writer, "title");
    base_json_put_string(&writer, picture->title);
    base_json_key(&writer, "subtitle");
    base_json_put_string(&writer, picture->subtitle);
    base_json_key(&writer, "row_count");
    base_json_put_int(&writer, picture->row_count);
    base_json_close(&writer, '}');
}

static enum base_status run_plot(struct commands_context *context, const struct base_arguments *arguments,
                                 struct base_text *out, struct base_error *error)
{
    const char *path = base_argument(arguments, "--out");
    const struct kind *kind = NULL;
    enum plots_format format;
    struct plots_picture picture;
    if (arguments->positional_count < 1)
        return base_fail(error, BASE_USAGE, "plot: KIND and INPUT are missing; the kinds are: %s",
                         list_kinds(context->arena));
    BASE_TRY(find_kind(context->arena, arguments->positional[0], &kind, error));
    if (arguments->positional_count < 2)
        return base_fail(error, BASE_USAGE, "plot %s: INPUT is missing: %s", kind->name, kind->input);
    if (!path)
        return base_fail(error, BASE_USAGE, "plot %s: --out is missing: --out FILE.svg, FILE.pdf or FILE.png",
                         kind->name);
    BASE_TRY(plots_format_parse(path, &format, error));
    BASE_TRY(kind->draw(context->arena, arguments->positional[1], format, &picture, error));
    BASE_TRY(base_write_file(path, picture.bytes.data, picture.bytes.length, error));
    commands_put_picture(context, kind->name, path, &picture, out);
    return BASE_OK;
}

static const struct base_option options[] = {COMMANDS_COMMON};

const struct commands_command commands_plot = {
    .name = "plot",
    .summary = "draw a chart as SVG, PDF or PNG: comparison (predicted beside measured), pareto (speed against "
               "memory), sensitivity (what each choice is worth)",
    .usage = "plot KIND INPUT --out FILE.svg|.pdf|.png",
    .examples = "  meshwright sweep examples/tpu_v4_tuning.csv --out result.csv && meshwright plot comparison "
                "result.csv --out comparison.svg\n"
                "  meshwright plot comparison result.csv --out comparison.png\n"
                "  meshwright tune --model t5_1_1_large --topology v4:2x2x4 --batch-size 64 --task-feature-lengths "
                "512,114 --pareto --json --out tuned.json && meshwright plot pareto tuned.json --out pareto.svg\n"
                "  meshwright tune --model t5_1_1_large --topology v4:2x2x4 --batch-size 64 --task-feature-lengths "
                "512,114 --json --out tuned.json && meshwright plot sensitivity tuned.json --out sensitivity.svg\n",
    .options = options,
    .option_count = BASE_COUNT(options),
    .positional_limit = 2,
    .first_words = kind_words,
    .run = run_plot,
    .writes_out = true,
};
