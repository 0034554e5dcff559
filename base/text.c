/* Text that grows in an arena. */
#include "base/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_TEXT_BYTES = 512 };

/* The outgrown buffer stays in the arena: doubling keeps that waste below the text's own size. */
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

/* Of what %.17g wrote: its last significant digits as a number, and its first one. False: it has fewer than 17. */
static bool split_digits(const char *written, int *first, int *last_two)
{
    int count = 0;
    *first = *last_two = 0;
    for (const char *at = written; *at && *at != 'e'; at++) {
        if (*at < '0' || *at > '9' || (count == 0 && *at == '0')) continue;
        if (++count == 1) *first = *at - '0';
        *last_two = *last_two % 10 * 10 + *at - '0';
    }
    return count == 17;
}

/* How many digits may read back as the value. What does is at most half an ulp away, 2^-53 of it: 1.11 of the 17th
 * digit for each unit of the first, and half a digit more since 17 digits are rounded, too. Shorter numbers end in
 * zeros, so that the last digits say how far the nearest is. */
static int fewest_digits(const char *written)
{
    int first, last_two;
    if (!split_digits(written, &first, &last_two)) return 15;
    double reach = 1.12 * (first + 1) + 0.5;
    if (fmin(last_two, 100 - last_two) <= reach) return 15;
    return fmin(last_two % 10, 10 - last_two % 10) <= reach ? 16 : 17;
}

void base_put_double(struct base_text *text, double value)
{
    if (isfinite(value) && fabs(value) <= 9007199254740992.0 && value == (double)(int64_t)value &&
        !(value == 0 && signbit(value))) {
        base_put_int(text, (int64_t)value);
        return;
    }
    char exact[40], shorter[40]; /* 17 digits always read back as they were */
    snprintf(exact, sizeof exact, "%.17g", value);
    for (int digits = isnormal(value) ? fewest_digits(exact) : 15; digits < 17; digits++) {
        snprintf(shorter, sizeof shorter, "%.*g", digits, value);
        if (strtod(shorter, NULL) == value) {
            base_put(text, shorter);
            return;
        }
    }
    base_put(text, exact);
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
        bool second = i > 0 && (unsigned char)text->data[i - 1] == 0xc2; /* U+0080 to U+009F obey terminals, too */
        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) text->data[i] = '?';
        else if (second && byte >= 0x80 && byte < 0xa0) text->data[i - 1] = text->data[i] = '?';
    }
}
