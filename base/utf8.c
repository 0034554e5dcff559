/* UTF-8: the length of a character, and invalid bytes. */
#include "base/base.h"

#include <string.h>

/* Bytes of the character at text; 0: invalid. RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
int base_utf8_length(const char *text, const char *text_end)
{
    const unsigned char *at = (const unsigned char *)text;
    int length = *at < 0x80                   ? 1
                 : *at >= 0xc2 && *at <= 0xdf ? 2
                 : (*at & 0xf0) == 0xe0       ? 3
                 : *at >= 0xf0 && *at <= 0xf4 ? 4
                                              : 0;
    if (length <= 1) return length;
    if (text_end - text < length) return 0;
    for (int i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool outside = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

const char *base_bad_utf8(const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end) {
        int step = base_utf8_length(text, end);
        if (step == 0) return text;
        text += step;
    }
    return NULL;
}

void base_drop_cut_utf8(char *text)
{
    char *to = text;
    for (char *at = text, *end = text + strlen(text); *at;) {
        const bool leads = ((unsigned char)*at & 0xc0) == 0xc0;
        int length = base_utf8_length(at, end);
        if (!length && leads)
            for (at++; ((unsigned char)*at & 0xc0) == 0x80;) at++;
        else
            for (length = length ? length : 1; length-- > 0;) *to++ = *at++;
    }
    *to = '\0';
}
