/* A plan in a file: JSON, T5X's gin, or files that start other software. */
#include "commands/commands.h"
#include "model/import/import.h"
#include "sim/predict/predict.h"

#include <string.h>

enum { LARGEST_PLAN_BYTES = 1 << 20 };

static enum base_status read_json(struct commands_context *context, const char *path, struct sim_plan_text *out,
                                  struct base_error *error)
{
    struct base_arena *arena = context->arena;
    const char *text;
    size_t length;
    const struct base_json *document;
    const char *inside = model_import_plan_json(arena, path);
    if (inside) text = inside, length = strlen(inside);
    else BASE_TRY(base_read_file(arena, path, LARGEST_PLAN_BYTES, &text, &length, error));
    enum base_status status = base_json_parse(arena, text, length, &document, error);
    const char *left_out = status == BASE_OK ? model_huggingface_left_out(document) : NULL;
    if (left_out) commands_warn_of_left_out(context, left_out);
    if (status == BASE_OK && model_is_huggingface(document)) {
        char unrun[96];
        model_huggingface_unrun(document, unrun, sizeof unrun);
        commands_warn_of_unrun(context, unrun);
        status = model_huggingface_line(arena, document, &out->values[SIM_MODEL], error);
    } else if (status == BASE_OK) status = sim_plan_from_json(arena, document, out, error);
    return status == BASE_OK ? BASE_OK : base_fail_in(error, "%s", path);
}

const char *commands_topology_wanted(struct commands_context *context, const char *path,
                                     const struct sim_plan_text *plan)
{
    if (plan->values[SIM_TOPOLOGY] || !model_gin_is_gin(path)) return NULL;
    return base_print(context->arena,
                      "%.300s: gin has no topology; add a line \"# meshwright: topology = v4-512\" to the file, or use "
                      "--topology of import, export and predict",
                      path);
}

/* A plan from gin, with the places; what it holds beside a plan is noted. path: a file, or lines of gin that end in a
 * new line. */
static enum base_status read_gin(struct commands_context *context, const char *path, struct sim_gin_plan *out,
                                 struct base_error *error)
{
    struct model_gin *gin;
    const bool lines = strchr(path, '\n') != NULL;
    BASE_TRY(lines
                 ? model_gin_read_lines(context->arena, "the command line", path, context->gin_search_path, &gin, error)
                 : model_gin_read(context->arena, path, context->gin_search_path, &gin, error));
    enum base_status status = sim_plan_from_gin(gin, out, error);
    /* On an error, too: ignored input is often the reason. */
    commands_note_gin(context, gin);
    return status;
}

/* A key that this program does not model yet is said, and left out. */
static void take_imported(struct commands_context *context, const struct model_import *import, struct sim_gin_plan *out)
{
    *out = (struct sim_gin_plan){0};
    for (int i = 0; i < import->value_count; i++) {
        const struct model_imported *value = &import->values[i];
        const int key = sim_plan_key_named(value->key);
        if (key < 0)
            commands_warn(context,
                          value->place.line
                              ? base_print(context->arena, "%.300s:%d: %s = %.100s is not modelled", value->place.file,
                                           value->place.line, value->key, value->value)
                              : base_print(context->arena, "%s = %.100s is not modelled", value->key, value->value));
        else out->text.values[key] = value->value, out->places[key] = value->place;
    }
}

/* The same from files of other software; keys that are not modelled are warned of. */
static enum base_status read_import(struct commands_context *context, const struct model_import_request *request,
                                    struct sim_gin_plan *out, struct base_error *error)
{
    struct model_import import;
    BASE_TRY(model_import_read(context->arena, request, &import, error));
    for (int i = 0; i < import.warning_count; i++) commands_warn(context, import.warnings[i]);
    for (int i = 0; i < import.note_count && context->lists_notes; i++) commands_note(context, import.notes[i]);
    if (import.note_count && !context->lists_notes)
        commands_note(context, base_print(context->arena, "%d key%s no answer, or %s not known; --notes lists them",
                                          import.note_count, import.note_count == 1 ? " changes" : "s change",
                                          import.note_count == 1 ? "is" : "are"));
    take_imported(context, &import, out);
    return BASE_OK;
}

/* Messages name a single file; several files, or bindings, are treated as T5X's command line. */
static enum base_status read_gins(struct commands_context *context, const char *const *paths, int path_count,
                                  struct model_gin_lines *lines, struct sim_gin_plan *out, struct base_error *error)
{
    for (int i = 0; i < path_count; i++) {
        if (!model_gin_is_gin(paths[i]) && path_count > 1)
            return base_fail(error, BASE_USAGE, "\"%.60s\" is no gin file, and one of the others is", paths[i]);
        model_import_gin_argument(base_print(context->arena, "--gin_file=%s", paths[i]), lines);
    }
    if (path_count == 1 && lines->file_count == 1 && !lines->binding_count)
        return read_gin(context, paths[0], out, error);
    if (!lines->file_count) return base_fail(error, BASE_USAGE, "FILE is missing; --gin_file=FILE names one");
    if (lines->binding_count) base_put(&lines->files, lines->bindings.data);
    return read_gin(context, lines->files.data, out, error);
}

/* True for a file that is no JSON object: import has better messages for it. */
static bool is_text(struct commands_context *context, const char *path)
{
    const char *text;
    size_t length;
    struct base_error ignored;
    const struct base_held *held = context->arena->held; /* a page's text has no file */
    if (!base_is_file(path) && !(held && !strcmp(held->name, path))) return false;
    if (base_read_file(context->arena, path, LARGEST_PLAN_BYTES, &text, &length, &ignored) != BASE_OK) return false;
    const char first = text[strspn(text, " \t\r\n")];
    return (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '#' || first == '-';
}

/* A plan in JSON, or a model's config.json, with other keys from the options. */
static enum base_status read_json_alone(struct commands_context *context, const char *path, struct sim_gin_plan *out,
                                        struct base_error *error)
{
    *out = (struct sim_gin_plan){0};
    BASE_TRY(read_json(context, path, &out->text, error));
    for (int key = 0; key < SIM_KEY_COUNT; key++) out->places[key].file = path;
    return BASE_OK;
}

enum base_status commands_read_files(struct commands_context *context, const struct base_arguments *arguments,
                                     const char *from, struct sim_gin_plan *out, struct base_error *error)
{
    const char **paths = base_new(context->arena, const char *, arguments->positional_count),
               **overrides = base_new(context->arena, const char *, arguments->positional_count);
    struct model_import_request request = {.paths = paths, .overrides = overrides};
    struct model_gin_lines lines = {.files = {.arena = context->arena}, .bindings = {.arena = context->arena}};
    int kind;
    if (arguments->option_count) BASE_TRY(commands_topology_given(context->arena, arguments, &request.topology, error));
    for (int i = 0; i < arguments->positional_count; i++) {
        const char *given = arguments->positional[i];
        if (model_import_gin_argument(given, &lines)) continue;
        if (strchr(given, '=') && !base_is_file(given)) overrides[request.override_count++] = given;
        else if (model_import_starts_gin(context->arena, given))
            BASE_TRY(model_import_gin_script(context->arena, given, &lines, error));
        else paths[request.path_count++] = given;
    }
    const bool is_gin = (from && !strcmp(from, "gin")) || lines.file_count || lines.binding_count ||
                        (request.path_count && model_gin_is_gin(paths[0]));
    if (is_gin && request.override_count)
        return base_fail(error, BASE_USAGE, "\"%.60s\": a binding of gin is written --gin.%.60s", overrides[0],
                         overrides[0]);
    if (is_gin) return read_gins(context, paths, request.path_count, &lines, out, error);
    if (!request.path_count)
        return base_fail(error, BASE_USAGE,
                         "\"%.60s\": a FILE is missing before it; without one, use options, as in --batch-size 8",
                         arguments->positional[0]);
    if (from && !strcmp(from, "huggingface") && request.path_count == 1 && !request.override_count)
        return read_json_alone(context, paths[0], out, error);
    if (from) BASE_TRY(base_parse_word(from, "--from", model_import_kinds, MODEL_IMPORT_KINDS, &kind, error));
    request.from = from;
    if (request.path_count == 1 && !request.override_count && model_import_plan_json(context->arena, paths[0]))
        return read_json_alone(context, paths[0], out, error);
    if (from || request.path_count > 1 || model_import_recognises(context->arena, paths[0]) ||
        is_text(context, paths[0]))
        return read_import(context, &request, out, error);
    if (request.override_count)
        return base_fail(error, BASE_USAGE,
                         "\"%.60s\": KEY=VALUE follows files of other software; use an option over %.200s",
                         overrides[0], paths[0]);
    return read_json_alone(context, paths[0], out, error);
}

enum base_status commands_read_plan(struct commands_context *context, const char *path, struct sim_plan_text *out,
                                    struct base_error *error)
{
    const struct base_arguments alone = {.positional = &path, .positional_count = 1};
    struct sim_gin_plan plan;
    BASE_TRY(commands_read_files(context, &alone, NULL, &plan, error));
    *out = plan.text;
    return BASE_OK;
}
