/* The form of a document from the extension of --out's name. An unknown extension is refused, so that a file's content
 * matches its name. */
#include "commands/commands.h"

#include <string.h>
#include <strings.h>

static const char usual_endings[] = "json txt";

/* "json" of "folder/a.json"; "" */
static const char *ending_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path,
               *dot = name ? strrchr(name, '.') : NULL;
    return dot && dot != name ? dot + 1 : "";
}

bool commands_ends_in(const char *path, const char *endings)
{
    const char *ending = ending_of(path);
    size_t length = strlen(ending);
    for (const char *at = endings; length && *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == length && !strncasecmp(at, ending, length)) return true;
    return false;
}

/* ".json, .txt or .html" */
static const char *list_endings(struct base_arena *arena, const char *endings)
{
    struct base_text text = {.arena = arena};
    for (const char *at = endings; *at;) {
        size_t length = strcspn(at, " ");
        const char *next = at + length + strspn(at + length, " ");
        base_putf(&text, "%s.%.*s", at == endings ? "" : *next ? ", " : " or ", (int)length, at);
        at = next;
    }
    return text.data;
}

/* BASE_INPUT for a path with another ending than those; NULL is none. */
static enum base_status check_ending(struct base_arena *arena, const char *path, const char *endings,
                                     struct base_error *error)
{
    if (!path || !*ending_of(path) || commands_ends_in(path, endings)) return BASE_OK;
    return base_fail(error, BASE_INPUT, "--out: %.200s: unknown extension; use one that ends in %s", path,
                     list_endings(arena, endings));
}

enum base_status commands_form(struct commands_context *context, const struct commands_command *command,
                               const struct base_arguments *arguments, struct base_error *error)
{
    const char *path = base_argument(arguments, "--out"), *endings = command->endings;
    bool asked = base_argument(arguments, "--json") != NULL;
    context->json = context->json || asked;
    if (!path || !*ending_of(path)) return BASE_OK;
    BASE_TRY(check_ending(context->arena, path, endings ? endings : usual_endings, error));
    if (command->writes_out && !commands_ends_in(path, "html")) return BASE_OK;
    if (asked && !commands_ends_in(path, "json jsonl"))
        return base_fail(error, BASE_INPUT, "--json: %.200s is no name for JSON; use one that ends in .json", path);
    context->page = commands_ends_in(path, "html");
    if (!commands_ends_in(path, "jsonl")) context->json = context->page || commands_ends_in(path, "json");
    return BASE_OK;
}
