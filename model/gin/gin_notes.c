/* What is said of a gin file beside what it means: notes of what no plan holds, and warnings of what the plan holds
 * otherwise than the file says. */
#include "model/gin/gin_reader.h"

#include <stdarg.h>

enum { LONGEST_MESSAGE = 700 };

static void add(struct model_gin *gin, const char **list, int *count, int most, struct model_gin_place place,
                const char *message)
{
    if (*count == most) return;
    bool last = *count == most - 1;
    list[(*count)++] =
        last ? "and more that is not shown" : base_print(gin->arena, "%.300s:%d: %s", place.file, place.line, message);
}

void model_gin_note(struct model_gin *gin, struct model_gin_place place, const char *format, ...)
{
    char message[LONGEST_MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    add(gin, gin->notes, &gin->note_count, MODEL_GIN_MOST_NOTES, place, message);
}

void model_gin_warn(struct model_gin *gin, struct model_gin_place place, const char *format, ...)
{
    char message[LONGEST_MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    add(gin, gin->warnings, &gin->warning_count, MODEL_GIN_MOST_WARNINGS, place, message);
}
