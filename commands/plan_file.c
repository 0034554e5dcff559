/* A plan in a file: JSON, T5X's gin, or what starts other software. */
#include "commands/commands.h"
#include "model/import/import.h"
#include "sim/predict/predict.h"

#include <string.h>

enum { LARGEST_PLAN_BYTES = 1 << 20 };

static enum base_status read_json(struct base_arena *arena, const char *path, struct sim_plan_text *out,
                                  struct base_error *error)
{
    const char *text;
    size_t length;
    const struct base_json *document;
    BASE_TRY(base_read_file(arena, path, LARGEST_PLAN_BYTES, &text, &length, error));
    enum base_status status = base_json_parse(arena, text, length, &document, error);
    if (status == BASE_OK) status = sim_plan_from_json(arena, document, out, error);
    return status == BASE_OK ? BASE_OK : base_fail_in(error, "%s", path);
}

const char *commands_topology_wanted(struct commands_context *context, const char *path,
                                     const struct sim_plan_text *plan)
{
    if (plan->values[SIM_TOPOLOGY] || !model_gin_is_gin(path)) return NULL;
    return base_print(context->arena,
                      "%.300s: no gin file says the topology; a line \"# meshwright: topology = v4-512\" in the file "
                      "does, and so does --topology of import, export and predict",
                      path);
}

enum base_status commands_read_gin(struct commands_context *context, const char *path, struct sim_gin_plan *out,
                                   struct base_error *error)
{
    struct model_gin *gin;
    const bool lines = strchr(path, '\n') != NULL;
    BASE_TRY(lines
                 ? model_gin_read_lines(context->arena, "the command line", path, context->gin_search_path, &gin, error)
                 : model_gin_read(context->arena, path, context->gin_search_path, &gin, error));
    enum base_status status = sim_plan_from_gin(gin, out, error);
    /* On an error, too: what was passed over is often why. */
    commands_note_gin(context, gin, context->lists_notes ? COMMANDS_NOTES_LISTED : COMMANDS_NOTES_COUNTED);
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

enum base_status commands_read_import(struct commands_context *context, const struct model_import_request *request,
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

enum base_status commands_read_plan(struct commands_context *context, const char *path, struct sim_plan_text *out,
                                    struct base_error *error)
{
    struct sim_gin_plan plan;
    if (model_import_recognises(context->arena, path)) {
        const struct model_import_request request = {
            .paths = &path, .path_count = 1, .topology = out->values[SIM_TOPOLOGY]};
        BASE_TRY(commands_read_import(context, &request, &plan, error));
        *out = plan.text;
        return BASE_OK;
    }
    if (!model_gin_is_gin(path)) return read_json(context->arena, path, out, error);
    BASE_TRY(commands_read_gin(context, path, &plan, error));
    *out = plan.text;
    return BASE_OK;
}
