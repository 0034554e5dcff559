/* JSON for a page, made small: lists of objects become columns, few words become numbers, names say only their ends. */
#include "reports/packed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEWEST = 8,
    MOST_ROWS = 1000,
    /* of plain values */ MOST_OBJECTS = 8192,
    MOST_COLUMNS = 64,
    MOST_WORDS = 250,
    MOST_LETTERS = 89
};

static struct base_json *new_list(struct base_arena *arena)
{
    struct base_json *list = base_new(arena, struct base_json, 1);
    list->kind = BASE_JSON_ARRAY;
    return list;
}

/* A copy, at the end of the list. */
static void append(struct base_arena *arena, struct base_json *list, struct base_json **last,
                   const struct base_json *value)
{
    struct base_json *item = base_new(arena, struct base_json, 1);
    *item = *value;
    item->next = NULL;
    if (*last) (*last)->next = item;
    else list->child = item;
    *last = item;
    list->count++;
}

/* The page holds only the beginning of a very long list. */
static const struct base_json *beginning_of(struct base_arena *arena, const struct base_json *list, int most)
{
    struct base_json *cut = new_list(arena), *last = NULL;
    if (list->count <= most) return list;
    for (const struct base_json *item = list->child; cut->count < most; item = item->next)
        append(arena, cut, &last, item);
    return cut;
}

static void put_packed(struct base_json_writer *w, const struct base_json *value, int most_rows);

/* ---- lists of objects ---- */

/* The keys that any of the objects has, in order. 0: too many, or not all are objects or null. */
static int find_columns(const struct base_json *list, const char **keys)
{
    int count = 0;
    for (const struct base_json *item = list->child; item; item = item->next) {
        if (item->kind != BASE_JSON_OBJECT && item->kind != BASE_JSON_NULL) return 0;
        for (const struct base_json *member = item->child; member; member = member->next) {
            int k = 0;
            while (k < count && strcmp(keys[k], member->key) != 0) k++;
            if (k == MOST_COLUMNS) return 0;
            if (k == count) keys[count++] = member->key;
        }
    }
    return count;
}

/* One value an object, null where it has none. */
static void put_columns(struct base_json_writer *w, const struct base_json *list, const char *const *keys, int count)
{
    static const struct base_json none = {.kind = BASE_JSON_NULL};
    struct base_arena *arena = w->text->arena;
    base_json_open(w, '{');
    base_json_member_open(w, "$columns", '{');
    for (int k = 0; k < count; k++) {
        struct base_json *column = new_list(arena), *last = NULL;
        for (const struct base_json *item = list->child; item; item = item->next) {
            const struct base_json *value = base_json_get(item, keys[k]);
            append(arena, column, &last, value ? value : &none);
        }
        base_json_key(w, keys[k]);
        put_packed(w, column, MOST_OBJECTS);
    }
    base_json_close(w, '}');
    base_json_close(w, '}');
}

/* ---- lists of words and numbers ---- */

static bool is_same(const struct base_json *a, const struct base_json *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == BASE_JSON_STRING) return !strcmp(a->string, b->string);
    return a->kind != BASE_JSON_NUMBER || (!(a->number < b->number) && !(a->number > b->number));
}

/* Each value once, and for each place which one it is. false: too many differ, or not all are plain. */
static bool find_words(const struct base_json *list, const struct base_json **words, int *word_count, int *of)
{
    int at = 0;
    *word_count = 0;
    for (const struct base_json *item = list->child; item; item = item->next) {
        int k = 0;
        if (item->kind == BASE_JSON_ARRAY || item->kind == BASE_JSON_OBJECT) return false;
        while (k < *word_count && !is_same(words[k], item)) k++;
        if (k == MOST_WORDS || 2 * k > list->count) return false;
        if (k == *word_count) words[(*word_count)++] = item;
        of[at++] = k;
    }
    return true;
}

/* A letter each where there are enough: from "#" on, without "<" and the backslash. */
static void put_places(struct base_json_writer *w, int word_count, const int *of, int count)
{
    enum { FIRST = '#' };
    char *letters = base_new(w->text->arena, char, count + 1);
    for (int i = 0; i < count && word_count <= MOST_LETTERS; i++) {
        int letter = FIRST + of[i];
        if (letter >= '<') letter++;
        if (letter >= '\\') letter++;
        letters[i] = (char)letter;
    }
    if (word_count <= MOST_LETTERS) {
        base_json_put_string(w, letters);
        return;
    }
    base_json_open(w, '[');
    for (int i = 0; i < count; i++) base_json_put_int(w, of[i]);
    base_json_close(w, ']');
}

static void put_words(struct base_json_writer *w, const struct base_json *list, const struct base_json *const *words,
                      int word_count, const int *of)
{
    base_json_open(w, '{');
    base_json_member_open(w, "$words", '[');
    for (int k = 0; k < word_count; k++) reports_put_packed(w, words[k]);
    base_json_close(w, ']');
    base_json_key(w, "of");
    put_places(w, word_count, of, list->count);
    base_json_close(w, '}');
}

static bool are_names(const struct base_json *list)
{
    for (const struct base_json *item = list->child; item; item = item->next)
        if (item->kind != BASE_JSON_STRING) return false;
    return true;
}

/* Length of a name's common prefix with the previous one, and the rest. ASCII only, where bytes are letters. */
static void put_ends(struct base_json_writer *w, const struct base_json *list)
{
    const char *before = "";
    base_json_open(w, '{');
    base_json_member_open(w, "$ends", '[');
    for (const struct base_json *item = list->child; item; item = item->next) {
        int same = 0;
        while (item->string[same] > 0 && item->string[same] == before[same]) same++;
        base_json_put_int(w, same);
        base_json_put_string(w, item->string + same);
        before = item->string;
    }
    base_json_close(w, ']');
    base_json_close(w, '}');
}

/* Six digits are more than a page shows. Whole numbers stay. */
static double shown_number(double number)
{
    char digits[32];
    if (!(fabs(number - nearbyint(number)) > 0)) return number;
    snprintf(digits, sizeof digits, "%.6g", number);
    return strtod(digits, NULL);
}

/* Times with a few distinct steps, as passes of a pipeline have: words of steps, in multiples of a unit. false: too
 * many distinct ones. */
static bool put_steps(struct base_json_writer *w, const struct base_json *list)
{
    enum { LONG = 64 };
    static const double parts = 2e4;
    const struct base_json *words[MOST_WORDS];
    struct base_arena *arena = w->text->arena;
    struct base_json *steps = new_list(arena), *last = NULL;
    int *of = base_new(arena, int, list->count), count;
    double most = 0, before = 0;
    if (list->count < LONG) return false;
    for (const struct base_json *item = list->child; item; item = item->next) {
        if (item->kind != BASE_JSON_NUMBER) return false;
        most = fmax(most, fabs(item->number));
    }
    for (const struct base_json *item = list->child; item && most > 0; item = item->next) {
        const double at = floor(item->number / most * parts + 0.5);
        append(arena, steps, &last, &(struct base_json){.kind = BASE_JSON_NUMBER, .number = at - before});
        before = at;
    }
    if (!steps->count || !find_words(steps, words, &count, of) || count > MOST_LETTERS) return false;
    base_json_open(w, '{');
    base_json_member_double(w, "$part", shown_number(most / parts));
    base_json_key(w, "steps");
    put_words(w, steps, words, count, of);
    base_json_close(w, '}');
    return true;
}

/* ---- any value ---- */

static bool put_list_packed(struct base_json_writer *w, const struct base_json *list)
{
    const char *keys[MOST_COLUMNS];
    const struct base_json *words[MOST_WORDS];
    int *of = base_new(w->text->arena, int, list->count), count = find_columns(list, keys);
    if (count) put_columns(w, list, keys, count);
    else if (find_words(list, words, &count, of)) put_words(w, list, words, count, of);
    else if (are_names(list)) put_ends(w, list);
    else return put_steps(w, list);
    return true;
}

static void put_packed(struct base_json_writer *w, const struct base_json *value, int most_rows)
{
    const bool is_list = value->kind == BASE_JSON_ARRAY;
    if (value->kind == BASE_JSON_NUMBER) {
        base_json_put_double(w, shown_number(value->number));
        return;
    }
    if (!is_list && value->kind != BASE_JSON_OBJECT) {
        base_json_put_value(w, value);
        return;
    }
    if (is_list)
        value = beginning_of(w->text->arena, value,
                             value->child && value->child->kind == BASE_JSON_OBJECT ? MOST_OBJECTS : most_rows);
    if (is_list && value->count >= FEWEST && put_list_packed(w, value)) return;
    base_json_open(w, is_list ? '[' : '{');
    for (const struct base_json *item = value->child; item; item = item->next) {
        if (!is_list) base_json_key(w, item->key);
        reports_put_packed(w, item);
    }
    base_json_close(w, is_list ? ']' : '}');
}

void reports_put_packed(struct base_json_writer *w, const struct base_json *value)
{
    put_packed(w, value, MOST_ROWS);
}
