/* `checkpoint verify`: whether a checkpoint is whole, and its contents, without a model. */
#include "commands/executor.h"
#include "reports/reports.h"

#include <string.h>

static void put_text(const struct base_json *answer, const char *path, struct base_text *out)
{
    const struct base_json *problems = base_json_get(answer, "problems"), *data = base_json_get(answer, "data");
    const char *content = base_json_string(data, "content", NULL);
    const bool is_whole = base_json_get(answer, "whole")->kind == BASE_JSON_TRUE;
    base_putf(out, "%s: %s\n", path, is_whole ? "whole" : "NOT whole");
    base_putf(out, "step %.0f of %s: %.0f arrays, %s\n", base_json_number(answer, "step"),
              base_json_string(base_json_get(answer, "plan"), "model", "a model"),
              base_json_number(answer, "array_count"), base_bytes(base_json_number(answer, "bytes")));
    if (content) base_putf(out, "data: %s; next row %.0f\n", content, base_json_number(data, "next_row"));
    for (const struct base_json *p = problems ? problems->child : NULL; p; p = p->next)
        base_putf(out, "  %s\n", p->string);
}

enum base_status commands_checkpoint_run(struct commands_context *context, const struct base_arguments *arguments,
                                         struct base_text *out, struct base_error *error)
{
    enum { PATIENCE_S = 600 };
    const struct commands_executor executor = {.patience_s = PATIENCE_S};
    struct base_text request = {.arena = context->arena}, answer = {.arena = context->arena};
    struct base_json_writer w = {.text = &request, .layout = BASE_JSON_ONE_LINE},
                            copy = {.text = out, .layout = context->layout};
    const struct base_json *document;
    if (arguments->positional_count != 2 || strcmp(arguments->positional[0], "verify") != 0)
        return base_fail(error, BASE_USAGE, "checkpoint needs a verb and a folder: meshwright checkpoint verify DIR");
    base_json_open(&w, '{');
    base_json_member_string(&w, "verify_checkpoint", arguments->positional[1]);
    base_json_close(&w, '}');
    const enum base_status status = commands_ask_executor(context, &executor, &request, &answer, error);
    if (!answer.length || *answer.data != '{') return status;
    BASE_TRY(base_json_parse(context->arena, answer.data, answer.length, &document, error));
    context->answers = true;
    if (context->json) base_json_put_value(&copy, document);
    else put_text(document, arguments->positional[1], out);
    if (status == BASE_OK) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: is not whole", arguments->positional[1]);
}
