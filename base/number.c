/* Numbers in text: strict parsing within bounds, and writing that reads back as the same number. */
#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Messages truncate values, so that a hostile one cannot fill them. */
enum { SHOWN = 60 };

enum { SURE_DIGITS = 18 }; /* every number with this many digits fits into 64 bits */

struct unit {
    double size;
    const char *name;
};

/* "4k" means 4000 to some and 4096 to others, so the message spells the number out. */
static enum base_status no_whole_number(const char *text, const char *what, int64_t low, int64_t high,
                                        struct base_error *error)
{
    struct base_error ignored;
    int64_t meant;
    if (low == 0 && high == 1)
        return base_fail(error, BASE_INPUT, "%s: \"%.*s\" is unknown; use 1 or 0", what, SHOWN, text);
    if (base_parse_count(text, what, low, high, &meant, &ignored) != BASE_OK)
        return base_fail(error, BASE_INPUT, "%s: \"%.*s\" is not a whole number", what, SHOWN, text);
    if (strpbrk(text, "kK") && meant % 1000 == 0 && meant <= high / 1024)
        return base_fail(error, BASE_INPUT, "%s: \"%.*s\" is not a whole number; write %" PRId64 " or %" PRId64, what,
                         SHOWN, text, meant, meant / 1000 * 1024);
    return base_fail(error, BASE_INPUT, "%s: \"%.*s\" is not a whole number; write %" PRId64, what, SHOWN, text, meant);
}

enum base_status base_parse_int(const char *text, const char *what, int64_t low, int64_t high, int64_t *out,
                                struct base_error *error)
{
    const char *digits = text + (*text == '-' || *text == '+'), *end = digits;
    long long value = 0;
    for (; *end >= '0' && *end <= '9'; end++)
        if (end - digits < SURE_DIGITS) value = 10 * value + (*end - '0');
    if (end == digits || *end) return no_whole_number(text, what, low, high, error);
    errno = 0;
    if (end - digits > SURE_DIGITS) value = strtoll(text, NULL, 10);
    else if (*text == '-') value = -value;
    if (errno == ERANGE || value < low || value > high)
        return base_fail(error, BASE_INPUT, "%s: %.*s is out of range; use a number from %" PRId64 " to %" PRId64, what,
                         SHOWN, text, low, high);
    *out = value;
    return BASE_OK;
}

enum base_status base_parse_bytes(const char *text, const char *what, int64_t high, int64_t *out,
                                  struct base_error *error)
{
    static const struct unit units[] = {
        {1, ""},     {1, "B"},    {1024.0, "KiB"}, {1048576.0, "MiB"}, {1073741824.0, "GiB"}, {1099511627776.0, "TiB"},
        {1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"},     {1e12, "TB"}};
    const size_t digits = strspn(text, "0123456789."), gap = strspn(text + digits, " ");
    const struct unit *unit = NULL;
    char *end;
    for (int i = 0; i < BASE_COUNT(units); i++)
        if (!strcmp(text + digits + gap, units[i].name)) unit = &units[i];
    const double count = digits ? strtod(text, &end) : 0, bytes = unit ? round(count * unit->size) : 0;
    const bool is_number = digits && end == text + digits, is_whole = strspn(text, "0123456789") == digits;
    if (!is_number || !unit || (gap && !*unit->name) || (unit->size == 1 && !is_whole))
        return base_fail(error, BASE_INPUT,
                         "%s: \"%.*s\" is no number of bytes; use one such as 1048576, 1MiB or 1.5GB", what, SHOWN,
                         text);
    if (bytes > (double)high)
        return base_fail(error, BASE_INPUT, "%s: %.*s is out of range; use at most %" PRId64 " bytes", what, SHOWN,
                         text, high);
    *out = (int64_t)bytes;
    return BASE_OK;
}

/* Fast path for strtod, which is slow for tables with hundreds of numbers. Fifteen digits and powers of ten up to
 * the 22nd are exact in doubles, so one product or quotient rounds once, as strtod would. False: the number is
 * longer. */
static bool read_short_double(const char *text, double *out)
{
    enum { MOST_DIGITS = 15, MOST_POWER = 22 };
    const char *at = text + (*text == '-' || *text == '+');
    int64_t whole = 0;
    int digits = 0, decimals = 0, power = 0, power_digits = 0;
    for (bool point = false; (*at >= '0' && *at <= '9') || (*at == '.' && !point); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        if (++digits > MOST_DIGITS) return false;
        whole = 10 * whole + (*at - '0');
        decimals += point;
    }
    if (digits && (*at == 'e' || *at == 'E')) {
        const bool negative = *++at == '-';
        at += *at == '-' || *at == '+';
        for (; *at >= '0' && *at <= '9' && power_digits < 3; at++, power_digits++) power = 10 * power + (*at - '0');
        if (!power_digits) return false;
        if (negative) power = -power;
    }
    power -= decimals;
    if (!digits || *at || abs(power) > MOST_POWER) return false;
    double scale = 1;
    for (int i = abs(power); i > 0; i--) scale *= 10;
    const double value = power < 0 ? (double)whole / scale : (double)whole * scale;
    *out = *text == '-' ? -value : value;
    return true;
}

static bool read_double(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    const bool plain = *text && !isspace((unsigned char)*text) && strspn(text, "+-.0123456789eE") == strlen(text);
    return plain && !*end && end != text;
}

enum base_status base_parse_double(const char *text, const char *what, double low, double high, double *out,
                                   struct base_error *error)
{
    double value;
    if (!read_short_double(text, &value) && !read_double(text, &value))
        return base_fail(error, BASE_INPUT, "%s: \"%.*s\" is not a number", what, SHOWN, text);
    if (!isfinite(value) || value < low || value > high)
        return base_fail(error, BASE_INPUT, "%s: %.*s is out of range; use a number from %g to %g", what, SHOWN, text,
                         low, high);
    *out = value;
    return BASE_OK;
}

/* "300_000,000" without its separators; NULL: too long, or not grouped by three. */
static const char *ungrouped(const char *text, size_t length, char digits[SHOWN])
{
    size_t used = 0, group = 0;
    bool grouped = false;
    for (size_t i = 0; i < length && used + 1 < SHOWN; i++) {
        const bool separates = strchr("_,", text[i]) != NULL;
        if (separates && (!i || (grouped ? group != 3 : group > 3))) return NULL;
        if (!separates) digits[used++] = text[i];
        grouped = grouped || separates;
        group = separates ? 0 : group + 1;
    }
    digits[used] = '\0';
    if (grouped && (group != 3 || strspn(digits, "0123456789") != used)) return NULL;
    return length < SHOWN ? digits : NULL;
}

enum base_status base_parse_count(const char *text, const char *what, int64_t low, int64_t high, int64_t *out,
                                  struct base_error *error)
{
    static const struct unit units[] = {{1, ""},          {1e3, "k"},        {1e6, "M"},        {1e9, "G"},
                                        {1e9, "B"},       {1e12, "T"},       {1e3, "thousand"}, {1e6, "million"},
                                        {1e9, "billion"}, {1e12, "trillion"}};
    const size_t number = strspn(text, "0123456789._,eE+-"), gap = strspn(text + number, " ");
    char digits[SHOWN], *end = digits;
    const char *plain = ungrouped(text, number, digits);
    double count = plain && *plain ? strtod(plain, &end) : 0, unit = 0;
    for (int i = 0; i < BASE_COUNT(units); i++)
        if (!strcasecmp(text + number + gap, units[i].name)) unit = units[i].size;
    if (!plain || !*plain || *end || unit == 0)
        return base_fail(error, BASE_INPUT,
                         "%s: \"%.*s\" is no count; use one such as 300000000000, 3e11, 300B or 1.4T", what, SHOWN,
                         text);
    count *= unit;
    if (fabs(count - round(count)) > 1e-12 * fabs(count))
        return base_fail(error, BASE_INPUT, "%s: \"%.*s\" is not a whole number", what, SHOWN, text);
    if (!(round(count) >= (double)low && round(count) <= (double)high))
        return base_fail(error, BASE_INPUT, "%s: %.*s is out of range; use a number from %" PRId64 " to %" PRId64, what,
                         SHOWN, text, low, high);
    *out = (int64_t)round(count);
    return BASE_OK;
}

/* The inside of a Python tuple or list, "(4, 2)" or "[4, 2]"; otherwise text itself. length: of the result. */
static const char *inside_brackets(const char *text, size_t *length)
{
    *length = strlen(text);
    bool bracketed =
        *length > 1 && ((text[0] == '(' && text[*length - 1] == ')') || (text[0] == '[' && text[*length - 1] == ']'));
    if (!bracketed) return text;
    *length -= 2;
    return text + 1;
}

enum base_status base_parse_ints(const char *text, const char *what, int64_t low, int64_t high, int limit, int64_t *out,
                                 int *count, struct base_error *error)
{
    int found = 0;
    size_t whole;
    const char *end, *begin = inside_brackets(text, &whole);
    end = begin + whole;
    for (const char *at = begin;; at++) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ",");
        if (length > (size_t)(end - at)) length = (size_t)(end - at);
        char item[SHOWN + 4];
        if (length > SHOWN) return base_fail(error, BASE_INPUT, "%s: \"%.*s\" is not a whole number", what, SHOWN, at);
        memcpy(item, at, length);
        item[length] = '\0';
        if (found == limit)
            return base_fail(error, BASE_INPUT, "%s: \"%.*s\" has more than %d numbers", what, SHOWN, text, limit);
        BASE_TRY(base_parse_int(item, what, low, high, &out[found], error));
        found++;
        at += length;
        if (at >= end) break;
    }
    *count = found;
    return BASE_OK;
}

int64_t base_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

int64_t base_common_divisor(int64_t a, int64_t b)
{
    return b ? base_common_divisor(b, a % b) : a;
}

int64_t base_next_divisor(int64_t number, int64_t after)
{
    int64_t next = 0;
    for (int64_t d = 1; d <= number / d; d++) {
        if (number % d) continue;
        if (d > after) return d;
        if (number / d > after) next = number / d; /* partners of increasing divisors decrease */
    }
    return next;
}

/* Uses the largest unit that leaves at least one before the decimal point after rounding. Whole numbers stay whole. */
static char *format_scaled(char buffer[BASE_HUMANE], double value, const struct unit *units, int count)
{
    if (!isfinite(value)) {
        snprintf(buffer, BASE_HUMANE, "unknown");
        return buffer;
    }
    const struct unit *unit = &units[count - 1];
    for (int i = 0; i < count; i++) {
        if (fabs(value) < 0.99995 * units[i].size) continue;
        unit = &units[i];
        break;
    }
    double scaled = value / unit->size;
    int decimals = fabs(scaled) >= 999.95 ? 0 : fabs(scaled) >= 99.995 ? 1 : 2;
    if (fabs(scaled - round(scaled)) <= 0.5e-4 * fabs(scaled)) decimals = 0;
    snprintf(buffer, BASE_HUMANE, "%.*f%s%s", decimals, scaled, *unit->name ? " " : "", unit->name);
    return buffer;
}

char *base_format_bytes(char buffer[BASE_HUMANE], double bytes)
{
    static const struct unit units[] = {
        {1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}, {1.0, "B"}};
    return format_scaled(buffer, bytes, units, BASE_COUNT(units));
}

char *base_format_seconds(char buffer[BASE_HUMANE], double seconds)
{
    static const struct unit units[] = {{1.0, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
    if (seconds == 0) return snprintf(buffer, BASE_HUMANE, "0 s"), buffer;
    return format_scaled(buffer, seconds, units, BASE_COUNT(units));
}

char *base_format_count(char buffer[BASE_HUMANE], double count)
{
    static const struct unit units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1.0, ""}};
    return format_scaled(buffer, count, units, BASE_COUNT(units));
}

enum { LONGEST_NAME = 64 };

/* Levenshtein distance with three rows; swapping two neighbours counts as one edit. */
int base_edit_distance(const char *a, const char *b)
{
    int rows[3][LONGEST_NAME + 1];
    int a_length = (int)strlen(a), b_length = (int)strlen(b);
    if (a_length > LONGEST_NAME || b_length > LONGEST_NAME) return LONGEST_NAME;
    for (int j = 0; j <= b_length; j++) rows[0][j] = j;
    for (int i = 1; i <= a_length; i++) {
        const int *before = rows[(i + 1) % 3], *previous = rows[(i + 2) % 3];
        int *current = rows[i % 3];
        current[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int best = previous[j - 1] + (a[i - 1] != b[j - 1]);
            if (previous[j] + 1 < best) best = previous[j] + 1;
            if (current[j - 1] + 1 < best) best = current[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            current[j] = best;
        }
    }
    return rows[a_length % 3][b_length];
}

const char *base_nearest(const char *text, const char *const *names, int count)
{
    const char *nearest = NULL;
    int length = (int)strlen(text), bound = length > LONGEST_NAME ? 0 : length < 4 ? 1 : (length + 1) / 3;
    for (int i = 0; i < count; i++) {
        if (abs((int)strlen(names[i]) - length) > bound) continue; /* an edit changes the length by at most one */
        int d = base_edit_distance(text, names[i]);
        if (d > bound || (nearest && d == bound)) continue;
        bound = d;
        nearest = names[i];
    }
    return nearest;
}

const char *base_meant(const char *what, const char *text, const char *const *names, int count)
{
    const char *meant = base_synonym(what, text, strlen(text), BASE_SUGGESTED);
    return meant ? meant : base_nearest(text, names, count);
}

enum base_status base_fail_unknown(struct base_error *error, enum base_status status, const char *what,
                                   const char *given, const char *const *names, int count)
{
    char all[600] = "";
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof all; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                                 i == 0           ? ""
                                 : i == count - 1 ? " or "
                                                  : ", ",
                                 names[i]);
    const char *nearest = base_meant(what, given, names, count);
    if (nearest)
        return base_fail(error, status, "%s: \"%.*s\" is unknown; did you mean %s? Use %s", what, SHOWN, given, nearest,
                         all);
    return base_fail(error, status, "%s: \"%.*s\" is unknown; use %s", what, SHOWN, given, all);
}

enum base_status base_parse_word(const char *text, const char *what, const char *const *names, int count, int *out,
                                 struct base_error *error)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        *out = i;
        return BASE_OK;
    }
    return base_fail_unknown(error, BASE_INPUT, what, text, names, count);
}

int base_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
