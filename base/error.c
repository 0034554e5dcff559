/* One status and one message: what is wrong, where, and how to fix it. */
#include "base/base.h"

#include <stdarg.h>
#include <string.h>

/* Messages go to terminals, so control characters (from a file's name, say) become '?'. Only our own indented
 * continuation lines keep their line feed. */
static void drop_controls(char *text)
{
    for (char *at = text; *at; at++) {
        bool goes_on = *at == '\n' && !strncmp(at + 1, "    ", 4);
        if (((unsigned char)*at < ' ' && !goes_on) || *at == 0x7f) *at = '?';
    }
}

enum base_status base_fail(struct base_error *error, enum base_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    drop_controls(error->text);
    base_drop_cut_utf8(error->text);
    error->status = status;
    return status;
}

enum base_status base_fail_in(struct base_error *error, const char *format, ...)
{
    char place[400];
    const struct base_error what = *error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(place, sizeof place, format, arguments);
    va_end(arguments);
    return base_fail(error, what.status, "%s: %s", place, what.text);
}
