/* Text that grows in an arena. */
#include "base/base.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

enum { FIRST_TEXT_BYTES = 512 };

/* The outgrown buffer stays in the arena: doubling keeps this waste below the text's own size. */
static void reserve(struct base_text *text, size_t more)
{
    if (text->capacity - text->length > more) return;
    size_t capacity = text->capacity ? 2 * text->capacity : FIRST_TEXT_BYTES;
    while (capacity - text->length <= more) capacity *= 2;
    char *data = base_alloc(text->arena, capacity, 1);
    if (text->length) memcpy(data, text->data, text->length);
    text->data = data;
    text->capacity = capacity;
}

void base_put_bytes(struct base_text *text, const char *bytes, size_t length)
{
    reserve(text, length);
    if (length) memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void base_put(struct base_text *text, const char *string)
{
    base_put_bytes(text, string, strlen(string));
}

void base_putf(struct base_text *text, const char *format, ...)
{
    va_list first, second;
    va_start(first, format);
    va_copy(second, first);
    int length = vsnprintf(NULL, 0, format, first);
    va_end(first);
    size_t more = length < 0 ? 0 : (size_t)length;
    reserve(text, more);
    vsnprintf(text->data + text->length, more + 1, format, second);
    text->length += more;
    va_end(second);
}

void base_put_int(struct base_text *text, int64_t value)
{
    char digits[24];
    int at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0) digits[--at] = '-';
    base_put_bytes(text, digits + at, sizeof digits - (size_t)at);
}

void base_put_python_string(struct base_text *out, const char *text)
{
    base_put(out, "'");
    for (const char *at = text; *at; at++) {
        bool plain = (unsigned char)*at >= ' ' && *at != '\\' && *at != '\'';
        if (plain) base_put_bytes(out, at, 1);
        else base_putf(out, "\\x%02x", (unsigned)(unsigned char)*at);
    }
    base_put(out, "'");
}

void base_text_disarm(struct base_text *text)
{
    for (size_t i = 0; i < text->length; i++) {
        unsigned char byte = (unsigned char)text->data[i];
        bool second = i > 0 && (unsigned char)text->data[i - 1] == 0xc2; /* terminals obey U+0080 to U+009F, too */
        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) text->data[i] = '?';
        else if (second && byte >= 0x80 && byte < 0xa0) text->data[i - 1] = text->data[i] = '?';
    }
}

bool base_ends_in(const char *text, const char *end)
{
    const size_t length = strlen(text), cut = strlen(end);
    return length >= cut && !strcmp(text + length - cut, end);
}

int base_text_width(const char *text)
{
    int columns = 0;
    for (; *text; text++) columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

bool base_has_word(int count, const char *const *words, const char *word)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(words[i], word)) return true;
    return false;
}

bool base_lists(const char *list, const char *word, size_t length)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        const size_t here = strcspn(at, " ");
        if (here == length && !strncmp(at, word, length)) return true;
        at += here;
    }
    return false;
}

bool base_matches(const char *pattern, size_t length, const char *text)
{
    const char *end = pattern + length, *star = NULL, *back = NULL;
    while (*text) {
        if (pattern < end && *pattern == '*') star = pattern++, back = text;
        else if (pattern < end && tolower((unsigned char)*pattern) == tolower((unsigned char)*text)) pattern++, text++;
        else if (star) pattern = star + 1, text = ++back;
        else return false;
    }
    while (pattern < end && *pattern == '*') pattern++;
    return pattern == end;
}

bool base_lists_like(const char *list, const char *text)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        if (base_matches(at, length, text)) return true;
        at += length;
    }
    return false;
}
