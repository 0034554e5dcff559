/* Formats a document for a terminal: verdicts in colour, bars as blocks. Files and pipes get plain text. */
#include "commands/commands.h"

#include <string.h>

static const struct {
    const char *beginning, *colour;
} verdicts[] = {{"It fits, but", "1;33"},
                {"It fits", "1;32"},
                {"It does NOT fit", "1;31"},
                {"It probably does NOT", "1;31"},
                {"It probably fits", "1;33"},
                {"Best:", "1;32"},
                {"Nothing fits", "1;31"},
                {"No plan that fits", "1;31"},
                {"Proven:", "32"},
                {"Not proven:", "33"},
                {"Warning:", "33"}};

static bool begins(const char *line, size_t length, const char *with)
{
    size_t size = strlen(with);
    return length >= size && !memcmp(line, with, size);
}

static const char *colour_of(const char *line, size_t length)
{
    for (int i = 0; i < BASE_COUNT(verdicts); i++)
        if (begins(line, length, verdicts[i].beginning)) return verdicts[i].colour;
    return NULL;
}

/* Start of a line's bar: a final run of # after a space; the line's length if it has none. */
static size_t bar_of(const char *line, size_t length)
{
    size_t at = length;
    while (at > 0 && line[at - 1] == '#') at--;
    return at > 1 && at < length && line[at - 1] == ' ' ? at : length;
}

static void put_line(const char *line, size_t length, const struct commands_terminal *terminal, struct base_text *out)
{
    const size_t bar = bar_of(line, length);
    const char *colour = terminal->colour ? colour_of(line, length) : NULL;
    if (colour) base_putf(out, "\033[%sm", colour);
    base_put_bytes(out, line, bar);
    if (colour) base_put(out, "\033[0m");
    if (bar < length && terminal->colour) base_put(out, "\033[36m");
    for (size_t i = bar; i < length; i++) base_put(out, terminal->blocks ? "\xE2\x96\x88" : "#");
    if (bar < length && terminal->colour) base_put(out, "\033[0m");
}

void commands_dress(const struct base_text *document, const struct commands_terminal *terminal, struct base_text *out)
{
    const char *at = document->length ? document->data : "", *end = at + document->length;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        put_line(at, (size_t)(stop - at), terminal, out);
        if (stop < end) base_put(out, "\n");
        at = stop + 1;
    }
}

void commands_say(FILE *stream, const char *what)
{
    fputs("meshwright: ", stream);
    for (; *what; what++) fputc(((unsigned char)*what < 0x20 && *what != '\n') || *what == 0x7f ? '?' : *what, stream);
    fputs("\n", stream);
}
