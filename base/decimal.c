/* Doubles as decimal text: the fewest of 15 to 17 significant digits that read back as the same number, in the form
 * of printf's %g. A table of plans holds a hundred thousand of them and printf is slow. So most are converted here
 * with exact 128-bit integers; printf converts the rest. */
#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_DIGITS = 15, MOST_DIGITS = 17, MANTISSA_BITS = 53 };

__extension__ typedef unsigned __int128 wide; /* gcc and clang have it on every 64-bit machine */

/* ---- with printf ---- */

static void print_double(struct base_text *text, double value)
{
    char written[40];
    for (int digits = FEWEST_DIGITS; digits <= MOST_DIGITS; digits++) {
        snprintf(written, sizeof written, "%.*g", digits, value);
        if (strtod(written, NULL) == value) break; /* 17 digits always read back */
    }
    base_put(text, written);
}

/* ---- with integers ---- */

/* value * 10^decimals = scaled / 2^shift, exactly. whole is the integer part, of 17 digits. */
struct scaled {
    wide scaled, power_of_ten;
    uint64_t whole;
    int decimals, shift;
    bool even; /* the mantissa is even: a decimal halfway between two doubles reads as the even one */
};

static const uint64_t seventeen_digits = 100000000000000000; /* 10^17: the smallest number with 18 digits */

static wide power_of_ten(int exponent)
{
    wide power = 1;
    for (; exponent > 0; exponent--) power *= 10;
    return power;
}

/* False: %g writes an exponent, the value has no fraction, or it is a power of two (doubles below it are closer than
 * above). From 10^-4 on, a mantissa times 10^21 or less stays below 2^(53 + 70). */
static bool scale(double value, struct scaled *out)
{
    int exponent;
    if (!(value >= 1e-4 && value < 1e14)) return false;
    uint64_t mantissa = (uint64_t)ldexp(frexp(value, &exponent), MANTISSA_BITS);
    if (mantissa == UINT64_C(1) << (MANTISSA_BITS - 1) || exponent >= MANTISSA_BITS) return false;
    out->shift = MANTISSA_BITS - exponent;
    out->even = mantissa % 2 == 0;
    out->decimals = MOST_DIGITS - 1 - (int)floor(0.30102999566398 * (exponent - 1)); /* exact, or one too many */
    for (;; out->decimals--) {
        out->power_of_ten = power_of_ten(out->decimals);
        out->scaled = mantissa * out->power_of_ten;
        out->whole = (uint64_t)(out->scaled >> out->shift);
        if (out->whole < seventeen_digits) return true;
    }
}

/* The number in units of 10^(cut - decimals), rounded to nearest, ties to even, as printf does. */
static uint64_t round_off(const struct scaled *s, int cut)
{
    uint64_t unit = cut == 2 ? 100 : cut == 1 ? 10 : 1, kept = s->whole / unit;
    wide half = ((wide)unit << s->shift) / 2, rest = s->scaled - ((wide)(kept * unit) << s->shift);
    return kept + (rest > half || (rest == half && kept % 2));
}

/* Whether the decimal is nearer to the scaled double than to any other: within half a unit of its mantissa. */
static bool reads_back(const struct scaled *s, uint64_t digits, int cut)
{
    wide decimal = (wide)(digits * (cut == 2 ? 100 : cut == 1 ? 10 : 1)) << s->shift;
    wide off = decimal > s->scaled ? decimal - s->scaled : s->scaled - decimal;
    return 2 * off < s->power_of_ten || (2 * off == s->power_of_ten && s->even);
}

/* Writes digits / 10^decimals without trailing zeros. */
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
