/* Files that a command writes: whether they can be written, before it begins, and its answer, when there is one. */
#include "commands/commands.h"
#include "plots/plots.h"

#include <string.h>

enum base_status commands_check_outputs(const struct commands_context *context, const struct base_arguments *arguments,
                                        struct base_error *error)
{
    static const char *const options[] = {"--out", "--trace"};
    struct base_output output;
    for (int i = 0; i < BASE_COUNT(options) && context->launched_rank == 0; i++) {
        const char *path = commands_option_given(arguments, options[i]);
        if (!path || base_is_stream(path)) continue;
        BASE_TRY(base_output_open(&output, path, error));
        base_output_abandon(&output);
    }
    return BASE_OK;
}

void commands_put_picture(const struct commands_context *context, const char *kind, const char *path,
                          const struct plots_picture *picture, struct base_text *out)
{
    if (!context->json) {
        base_putf(out, "%s\n%s\n%s: %s\n", picture->title, picture->subtitle, kind, path);
        return;
    }
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    base_json_open(&writer, '{');
    base_json_member_string(&writer, "kind", kind);
    base_json_member_string(&writer, "file", path);
    base_json_member_string(&writer, "title", picture->title);
    base_json_member_string(&writer, "subtitle", picture->subtitle);
    base_json_member_int(&writer, "row_count", picture->row_count);
    base_json_close(&writer, '}');
}
