/* Messages about a gin file: notes of bindings without a plan key, warnings where the plan holds another value, and
 * differences that change values but not time. */
#include "model/gin/gin_reader.h"

#include <stdarg.h>
#include <string.h>

enum { LONGEST_MESSAGE = 700 };

enum base_status model_gin_fail_at(const struct model_gin *gin, struct model_gin_place place, const char *format, ...)
{
    char message[sizeof gin->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return base_fail(gin->error, BASE_INPUT, "%.300s:%d: %s", place.file, place.line, message);
}

enum base_status model_gin_fail_in(const struct model_gin *gin, struct model_gin_place place)
{
    return base_fail_in(gin->error, "%.300s:%d", place.file, place.line);
}

static void add(struct model_gin *gin, const char **list, int *count, int most, struct model_gin_place place,
                const char *format, va_list arguments)
{
    char message[LONGEST_MESSAGE];
    if (*count == most) return;
    bool last = *count == most - 1;
    vsnprintf(message, sizeof message, format, arguments);
    base_drop_cut_utf8(message);
    const char *text = base_print(gin->arena, "%.300s:%d: %s", place.file, place.line, message);
    for (int i = 0; i < *count; i++)
        if (!strcmp(list[i], text)) return;
    list[(*count)++] = last ? "and more that is not shown" : text;
}

void model_gin_note(struct model_gin *gin, struct model_gin_place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(gin, gin->notes, &gin->note_count, MODEL_GIN_MOST_NOTES, place, format, arguments);
    va_end(arguments);
}

void model_gin_warn(struct model_gin *gin, struct model_gin_place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(gin, gin->warnings, &gin->warning_count, MODEL_GIN_MOST_WARNINGS, place, format, arguments);
    va_end(arguments);
}

void model_gin_differ(struct model_gin *gin, struct model_gin_place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(gin, gin->differences, &gin->difference_count, MODEL_GIN_MOST_WARNINGS, place, format, arguments);
    va_end(arguments);
}

/* True if the value refers to a macro or reference of that name: a name in use is no mistake. */
static bool names(const struct model_gin_value *value, const struct model_gin_binding *binding)
{
    const bool macro = !*binding->configurable;
    if (value->kind == MODEL_GIN_MACRO && macro) return !strcmp(value->text, binding->parameter);
    if (value->kind == MODEL_GIN_REFERENCE && !macro) return !strcmp(value->text, binding->configurable);
    for (const struct model_gin_value *item = value->child; item; item = item->next)
        if (names(item, binding)) return true;
    return false;
}

static bool is_named(const struct model_gin *gin, const struct model_gin_binding *binding)
{
    for (int i = 0; i < gin->binding_count; i++)
        if (names(gin->bindings[i].value, binding)) return true;
    return false;
}

const char *model_gin_meant(const struct model_gin *gin, const struct model_gin_binding *binding)
{
    enum { SHORTEST = 7, MOST_EDITS = 2 };
    const struct model_gin_asked *meant = NULL;
    const char *configurable = model_gin_last_part(binding->configurable);
    int fewest = MOST_EDITS + 1;
    for (int i = 0; i < gin->asked_count; i++) {
        const struct model_gin_asked *asked = &gin->asked[i];
        if (strlen(asked->configurable) + strlen(asked->parameter) < SHORTEST) continue;
        int edits = base_edit_distance(binding->parameter, asked->parameter) +
                    base_edit_distance(configurable, model_gin_last_part(asked->configurable));
        if (edits >= fewest) continue;
        fewest = edits;
        meant = asked;
    }
    if (!meant || fewest == 0) return NULL; /* the same name, bound in another scope */
    const bool misspells_parameter = *binding->configurable && strcmp(binding->parameter, meant->parameter) != 0;
    if (!misspells_parameter && is_named(gin, binding)) return NULL;
    return base_print(gin->arena, "%s%s%s", meant->configurable, *meant->configurable ? "." : "", meant->parameter);
}

/* ---- comments of this program's own ---- */

static const char *trimmed(struct base_arena *arena, const char *start, const char *end)
{
    while (start < end && strchr(" \t\r", *start)) start++;
    while (end > start && strchr(" \t\r", end[-1])) end--;
    return base_copy_bytes(arena, start, (size_t)(end - start));
}

void model_gin_keep_comment(struct model_gin_reader *reader, const char *text, size_t length)
{
    static const char mark[] = "meshwright:";
    struct model_gin *gin = reader->gin;
    const char *end = text + length;
    while (text < end && *text == ' ') text++;
    if ((size_t)(end - text) < sizeof mark - 1 || strncmp(text, mark, sizeof mark - 1) != 0) return;
    if (gin->comment_count == MODEL_GIN_MOST_COMMENTS) {
        model_gin_note(gin, reader->place, "more than %d comment lines of this kind; ignored", MODEL_GIN_MOST_COMMENTS);
        return;
    }
    text += sizeof mark - 1;
    const char *equals = memchr(text, '=', (size_t)(end - text));
    if (!equals) equals = end;
    gin->comments[gin->comment_count++] =
        (struct model_gin_comment){.key = trimmed(gin->arena, text, equals),
                                   .value = equals < end ? trimmed(gin->arena, equals + 1, end) : "",
                                   .place = reader->place};
}

const char *model_gin_last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}
