/* JSON for a page, made small: lists of objects become columns, few words become numbers, names say only their ends. */
#include "reports/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST = 8, MOST_ROWS = 2000, MOST_COLUMNS = 64, MOST_WORDS = 250 };

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

/* One value an object, null where it has none. Of any very long list the page holds the beginning. */
static void put_columns(struct base_json_writer *w, const struct base_json *list, const char *const *keys, int count)
{
    static const struct base_json none = {.kind = BASE_JSON_NULL};
    struct base_arena *arena = w->text->arena;
    base_json_open(w, '{');
    base_json_key(w, "$columns");
    base_json_open(w, '{');
    for (int k = 0; k < count; k++) {
        struct base_json *column = new_list(arena), *last = NULL;
        for (const struct base_json *item = list->child; item && column->count < MOST_ROWS; item = item->next) {
            const struct base_json *value = item->kind == BASE_JSON_OBJECT ? base_json_get(item, keys[k]) : NULL;
            append(arena, column, &last, value ? value : &none);
        }
        base_json_key(w, keys[k]);
        reports_put_packed(w, column);
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

static void put_words(struct base_json_writer *w, const struct base_json *list, const struct base_json *const *words,
                      int word_count, const int *of)
{
    base_json_open(w, '{');
    base_json_key(w, "$words");
    base_json_open(w, '[');
    for (int k = 0; k < word_count; k++) reports_put_packed(w, words[k]);
    base_json_close(w, ']');
    base_json_key(w, "of");
    base_json_open(w, '[');
    for (int i = 0; i < list->count && i < MOST_ROWS; i++) base_json_put_int(w, of[i]);
    base_json_close(w, ']');
    base_json_close(w, '}');
}

static bool are_names(const struct base_json *list)
{
    for (const struct base_json *item = list->child; item; item = item->next)
        if (item->kind != BASE_JSON_STRING) return false;
    return true;
}

/* How many bytes a name has in common with the one before it, and the rest. In ASCII alone, where bytes are letters. */
static void put_ends(struct base_json_writer *w, const struct base_json *list)
{
    const char *before = "";
    base_json_open(w, '{');
    base_json_key(w, "$ends");
    base_json_open(w, '[');
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

/* ---- any value ---- */

/* Six digits are more than a page shows. Whole numbers stay. */
static double shown_number(double number)
{
    char digits[32];
    if (!(fabs(number - nearbyint(number)) > 0)) return number;
    snprintf(digits, sizeof digits, "%.6g", number);
    return strtod(digits, NULL);
}

static bool put_list_packed(struct base_json_writer *w, const struct base_json *list)
{
    const char *keys[MOST_COLUMNS];
    const struct base_json *words[MOST_WORDS];
    int *of = base_new(w->text->arena, int, list->count), count = find_columns(list, keys);
    if (count) put_columns(w, list, keys, count);
    else if (find_words(list, words, &count, of)) put_words(w, list, words, count, of);
    else if (are_names(list)) put_ends(w, list);
    else return false;
    return true;
}

void reports_put_packed(struct base_json_writer *w, const struct base_json *value)
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
    if (is_list && value->count >= FEWEST && put_list_packed(w, value)) return;
    base_json_open(w, is_list ? '[' : '{');
    int row = 0;
    for (const struct base_json *item = value->child; item && row < MOST_ROWS; item = item->next, row++) {
        if (!is_list) base_json_key(w, item->key);
        reports_put_packed(w, item);
    }
    base_json_close(w, is_list ? ']' : '}');
}
