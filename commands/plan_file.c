/* A plan in a file: JSON, or T5X's gin. */
#include "commands/commands.h"
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
    BASE_TRY(model_gin_read(context->arena, path, context->gin_search_path, &gin, error));
    enum base_status status = sim_plan_from_gin(gin, out, error);
    /* On an error, too: what was passed over is often why. */
    commands_note_gin(context, gin, context->lists_notes ? COMMANDS_NOTES_LISTED : COMMANDS_NOTES_COUNTED);
    return status;
}

enum base_status commands_read_plan(struct commands_context *context, const char *path, struct sim_plan_text *out,
                                    struct base_error *error)
{
    struct sim_gin_plan plan;
    if (!model_gin_is_gin(path)) return read_json(context->arena, path, out, error);
    BASE_TRY(commands_read_gin(context, path, &plan, error));
    *out = plan.text;
    return BASE_OK;
}
