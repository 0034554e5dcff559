/* Files from templates: lines with places for values. */
#include "reports/template.h"

#include <assert.h>
#include <string.h>

void reports_value(struct reports_values *v, const char *name, const char *text)
{
    assert(v->count < REPORTS_MOST_VALUES);
    v->rows[v->count].name = name;
    v->rows[v->count++].text = text;
}

void reports_value_lines(struct reports_values *v, const char *name, const char *text)
{
    const size_t length = text ? strlen(text) : 0;
    if (!length) reports_value(v, name, NULL);
    else reports_value(v, name, base_copy_bytes(v->arena, text, length - (text[length - 1] == '\n')));
}

void reports_value_int(struct reports_values *v, const char *name, int64_t number)
{
    reports_value(v, name, base_print(v->arena, "%lld", (long long)number));
}

void reports_value_above(struct reports_values *v, const char *name, int64_t number, int64_t above)
{
    if (number > above) reports_value_int(v, name, number);
    else reports_value(v, name, NULL);
}

void reports_value_double(struct reports_values *v, const char *name, double number)
{
    struct base_text text = {.arena = v->arena};
    base_put_double(&text, number);
    reports_value(v, name, text.data);
}

void reports_value_if(struct reports_values *v, const char *name, bool is)
{
    reports_value(v, name, is ? "" : NULL);
}

static const char *value_of(const struct reports_values *v, const char *name, size_t length)
{
    int i = 0;
    while (i < v->count && (strncmp(v->rows[i].name, name, length) != 0 || v->rows[i].name[length])) i++;
    assert(i < v->count); /* every template is written by a test */
    return i < v->count ? v->rows[i].text : NULL;
}

/* Length of the place at text, as 6 of "@name@"; 0: it is none. */
static size_t place_length(const char *text)
{
    size_t end = text[0] == '@' && (text[1] == '?' || text[1] == '!') ? 2 : 1;
    const size_t begin = end;
    if (*text != '@') return 0;
    end += strspn(text + end, "abcdefghijklmnopqrstuvwxyz_0123456789");
    return end > begin && text[end] == '@' ? end + 1 : 0;
}

/* false: a value is missing, or a condition does not hold. */
static bool put_line(const char *line, size_t length, const struct reports_values *v, struct base_text *out)
{
    for (const char *at = line, *end = line + length; at < end;) {
        const size_t place = place_length(at), rest = (size_t)(end - at);
        if (place) {
            const bool is_condition = at[1] == '?' || at[1] == '!';
            const char *value = value_of(v, at + 1 + is_condition, place - 2 - is_condition);
            if ((value != NULL) == (at[1] == '!')) return false;
            if (!is_condition) base_put(out, value);
            at += place;
        } else {
            const char *next = memchr(at + 1, '@', rest - 1);
            base_put_bytes(out, at, next ? (size_t)(next - at) : rest);
            at = next ? next : end;
        }
    }
    return true;
}

void reports_put_template(const char *template, const struct reports_values *v, struct base_text *out)
{
    for (const char *line = template, *end; *line; line = end) {
        struct base_text written = {.arena = out->arena};
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        if (put_line(line, (size_t)(end - line), v, &written) && written.length)
            base_put_bytes(out, written.data, written.length);
    }
}
