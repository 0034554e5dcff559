/* Doubles as decimal text: the fewest of 15 to 17 significant digits that read back as the same number, written as
 * printf's %g writes them. A table of plans holds a hundred thousand of them and printf is slow, so most are written
 * in whole numbers of 128 bits here, exactly; printf writes the others. */
#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_DIGITS = 15, MOST_DIGITS = 17, MANTISSA_BITS = 53 };

__extension__ typedef unsigned __int128 wide; /* gcc and clang have it on every 64-bit machine */

/* ---- by printf ---- */

static void print_double(struct base_text *text, double value)
{
    char written[40];
    for (int digits = FEWEST_DIGITS; digits <= MOST_DIGITS; digits++) {
        snprintf(written, sizeof written, "%.*g", digits, value);
        if (strtod(written, NULL) == value) break; /* 17 digits always do */
    }
    base_put(text, written);
}

/* ---- in whole numbers ---- */

/* value * 10^decimals = scaled / 2^shift, exactly; whole is what stands before the binary point, of 17 digits. */
struct scaled {
    wide scaled, power_of_ten;
    uint64_t whole;
    int decimals, shift;
    bool even; /* the mantissa: halfway between two doubles is read as the one with an even mantissa */
};

static const uint64_t seventeen_digits = 100000000000000000; /* the smallest number of 18 */

static wide power_of_ten(int exponent)
{
    wide power = 1;
    for (; exponent > 0; exponent--) power *= 10;
    return power;
}

/* False for what %g writes with an exponent, for what has no fraction, and for a power of two, below which doubles lie
 * closer than above it. From 10^-4 on a mantissa times 10^21 or less has fewer than 2^(53 + 70) units. */
static bool scale(double value, struct scaled *out)
{
    int exponent;
    if (!(value >= 1e-4 && value < 1e14)) return false;
    uint64_t mantissa = (uint64_t)ldexp(frexp(value, &exponent), MANTISSA_BITS);
    if (mantissa == UINT64_C(1) << (MANTISSA_BITS - 1) || exponent >= MANTISSA_BITS) return false;
    out->shift = MANTISSA_BITS - exponent;
    out->even = mantissa % 2 == 0;
    out->decimals = MOST_DIGITS - 1 - (int)floor(0.30102999566398 * (exponent - 1)); /* right, or one too many */
    for (;; out->decimals--) {
        out->power_of_ten = power_of_ten(out->decimals);
        out->scaled = mantissa * out->power_of_ten;
        out->whole = (uint64_t)(out->scaled >> out->shift);
        if (out->whole < seventeen_digits) return true;
    }
}

/* The number in units of 10^(cut - decimals), rounded to the nearest, halves to even, as printf does. */
static uint64_t round_off(const struct scaled *s, int cut)
{
    uint64_t unit = cut == 2 ? 100 : cut == 1 ? 10 : 1, kept = s->whole / unit;
    wide half = ((wide)unit << s->shift) / 2, rest = s->scaled - ((wide)(kept * unit) << s->shift);
    return kept + (rest > half || (rest == half && kept % 2));
}

/* Whether it is nearer to the double that was scaled than to any other: within half a unit of its mantissa. */
static bool reads_back(const struct scaled *s, uint64_t digits, int cut)
{
    wide decimal = (wide)(digits * (cut == 2 ? 100 : cut == 1 ? 10 : 1)) << s->shift;
    wide off = decimal > s->scaled ? decimal - s->scaled : s->scaled - decimal;
    return 2 * off < s->power_of_ten || (2 * off == s->power_of_ten && s->even);
}

/* digits / 10^decimals, without zeros at the end. */
static void put_decimal(struct base_text *text, bool negative, uint64_t digits, int decimals)
{
    char written[40];
    int at = sizeof written;
    for (; decimals > 0 && digits % 10 == 0; decimals--) digits /= 10;
    for (int place = 0; place <= decimals || digits; place++) {
        if (place == decimals && decimals) written[--at] = '.';
        written[--at] = (char)('0' + digits % 10);
        digits /= 10;
    }
    if (negative) written[--at] = '-';
    base_put_bytes(text, written + at, sizeof written - (size_t)at);
}

void base_put_double(struct base_text *text, double value)
{
    struct scaled s;
    if (isfinite(value) && fabs(value) <= 9007199254740992.0 && value == (double)(int64_t)value &&
        !(value == 0 && signbit(value))) {
        base_put_int(text, (int64_t)value);
        return;
    }
    if (!scale(fabs(value), &s)) {
        print_double(text, value);
        return;
    }
    int cut = MOST_DIGITS - FEWEST_DIGITS;
    while (cut > 0 && !reads_back(&s, round_off(&s, cut), cut)) cut--;
    put_decimal(text, value < 0, round_off(&s, cut), s.decimals - cut);
}
