/* A document as a terminal shows it best: verdicts in colour, bars of blocks, lines that fit its width. What goes into
 * a file or a pipe stays as it is. */
#include "commands/commands.h"

#include <string.h>

static const struct {
    const char *beginning, *colour;
} verdicts[] = {{"It fits:", "1;32"}, {"It fits, but", "1;33"}, {"It does NOT fit:", "1;31"},
                {"Best:", "1;32"},    {"Nothing fits", "1;31"}, {"Nothing that fits", "1;31"},
                {"Proven:", "32"},    {"Not proven:", "33"},    {"Warning:", "33"}};

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

/* Where a line's bar begins: a run of # that ends it, after a space; its length where it has none. */
static size_t bar_of(const char *line, size_t length)
{
    size_t at = length;
    while (at > 0 && line[at - 1] == '#') at--;
    return at > 1 && at < length && line[at - 1] == ' ' ? at : length;
}

static size_t columns_of(const char *bytes, size_t length)
{
    size_t columns = 0;
    for (size_t i = 0; i < length; i++) columns += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return columns;
}

/* How much of a line stands within so many columns: up to the last space, or as much as there is room for. */
static size_t piece_of(const char *line, size_t length, size_t columns)
{
    size_t at = 0, seen = 0, space = 0;
    for (; at < length; at++) {
        if (((unsigned char)line[at] & 0xc0) == 0x80) continue;
        if (seen == columns && line[at] == ' ' && !(at + 1 < length && line[at + 1] == '%')) return at;
        if (seen++ == columns) break;
        if (line[at] == ' ' && at + 1 < length && line[at + 1] != '%') space = at; /* a number keeps its sign */
    }
    if (at == length) return length;
    return space ? space : at;
}

/* Where the last column of a table's row begins, behind two spaces or more: its words go on below each other, where
 * there is room for them. Else further in than the line begins. */
static size_t hang_of(const char *line, size_t length, size_t indent, size_t room)
{
    enum { FURTHER = 4, LEAST_COLUMN = 30 };
    size_t column = 0, last = 0;
    for (size_t i = 0; i + 1 < length; i++) {
        column += ((unsigned char)line[i] & 0xc0) != 0x80;
        if (i > indent && line[i] == ' ' && line[i - 1] == ' ' && line[i + 1] != ' ') last = column;
    }
    return last && last + LEAST_COLUMN <= room ? last : indent + FURTHER;
}

/* A line that is too wide goes on below, further in. */
static void put_wrapped(const char *line, size_t length, int width, struct base_text *out)
{
    enum { FURTHER = 4, LEAST = 30 };
    size_t indent = strspn(line, " "), room = (size_t)width;
    if (width < LEAST || columns_of(line, length) <= room || indent + FURTHER + LEAST > room) {
        base_put_bytes(out, line, length);
        return;
    }
    const size_t hang = hang_of(line, length, indent, room);
    size_t first = piece_of(line + indent, length - indent, room - indent) + indent;
    base_put_bytes(out, line, first);
    for (line += first, length -= first; length;) {
        while (length && *line == ' ') line++, length--;
        if (!length) break;
        size_t piece = piece_of(line, length, room - hang);
        base_putf(out, "\n%*s", (int)hang, "");
        base_put_bytes(out, line, piece);
        line += piece, length -= piece;
    }
}

/* What part of the bars' length there is room for: all of a document are shortened alike, so that they still compare.
 */
static double bar_scale(const struct base_text *document, int width)
{
    const char *at = document->data, *end = at + document->length;
    size_t words = 0, longest = 0;
    for (size_t length; at < end; at += length + 1) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        length = (size_t)((stop ? stop : end) - at);
        const size_t bar = bar_of(at, length), columns = columns_of(at, bar);
        if (bar == length) continue;
        if (columns > words) words = columns;
        if (length - bar > longest) longest = length - bar;
    }
    if (width <= 0 || words + longest <= (size_t)width) return 1;
    return words < (size_t)width ? (double)((size_t)width - words) / (double)longest : 0;
}

static void put_line(const char *line, size_t length, double scale, const struct commands_terminal *terminal,
                     struct base_text *out)
{
    size_t bar = bar_of(line, length), blocks = (size_t)((double)(length - bar) * scale);
    const char *colour = terminal->colour ? colour_of(line, length) : NULL;
    if (colour) base_putf(out, "\033[%sm", colour);
    put_wrapped(line, bar, bar < length ? 0 : terminal->columns, out);
    if (colour) base_put(out, "\033[0m");
    if (bar < length && terminal->colour) base_put(out, "\033[36m");
    for (size_t i = 0; i < blocks; i++) base_put(out, terminal->blocks ? "\xE2\x96\x88" : "#");
    if (bar < length && terminal->colour) base_put(out, "\033[0m");
}

void commands_dress(const struct base_text *document, const struct commands_terminal *terminal, struct base_text *out)
{
    const char *at = document->length ? document->data : "", *end = at + document->length;
    const double scale = document->length ? bar_scale(document, terminal->columns) : 1;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        put_line(at, (size_t)(stop - at), scale, terminal, out);
        if (stop < end) base_put(out, "\n");
        at = stop + 1;
    }
}

void commands_say(FILE *stream, const char *what, int columns)
{
    enum { INDENT = 4, LEAST = 30 };
    size_t column = (size_t)fprintf(stream, "meshwright: ") + columns_of(what, strcspn(what, " \n"));
    for (; *what; what++) {
        const size_t word = 1 + columns_of(what + 1, strcspn(what + 1, " \n"));
        const bool breaks = *what == ' ' && columns >= LEAST && column + word > (size_t)columns;
        if (breaks) fprintf(stream, "\n%*s", INDENT, "");
        else fputc(((unsigned char)*what < 0x20 && *what != '\n') || *what == 0x7f ? '?' : *what, stream);
        if (*what == ' ' || *what == '\n') column = (breaks ? INDENT - 1 : *what == '\n' ? 0 : column) + word;
    }
    fputs("\n", stream);
}
