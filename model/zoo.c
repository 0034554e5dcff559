/* The zoo: models by name, rows of zoo.csv and expert_zoo.csv. */
#include "model/model.h"
#include "model/zoo_families.csv.h"

#include <ctype.h>
#include <string.h>

extern const struct base_table embedded_model_zoo_csv, embedded_model_expert_zoo_csv;

/* Dense models, and models with experts, whose columns differ. */
static const struct base_table *const tables[] = {&embedded_model_zoo_csv, &embedded_model_expert_zoo_csv};

const struct model_zoo_model *model_zoo(struct base_arena *arena, int *count)
{
    *count = 0;
    for (int t = 0; t < BASE_COUNT(tables); t++) *count += tables[t]->row_count;
    struct model_zoo_model *models = base_new(arena, struct model_zoo_model, *count), *next = models;
    for (int t = 0; t < BASE_COUNT(tables); t++)
        for (int row = 0; row < tables[t]->row_count; row++)
            *next++ = (struct model_zoo_model){.name = base_table_value(tables[t], row, "name"),
                                               .architecture = base_table_value(tables[t], row, "architecture"),
                                               .source = base_table_value(tables[t], row, "source"),
                                               .about = base_table_value(tables[t], row, "about")};
    return models;
}

/* ---- common spellings: "t5-11b", "T5X 11b", "google/t5-v1_1-xxl" ----
 *
 * Case, spaces, dashes, dots and underscores do not matter, nor does the organisation before a slash. */

enum { LONGEST_NAME = 96 };

/* Other names of model families before the size, folded: Hugging Face's t5-11b is T5 1.0, and its t5-v1_1-xxl is T5
 * 1.1. */
static const struct {
    const char *family, *ours;
} families[] = {ZOO_FAMILIES_ROWS};

/* Endings that do not change a model's size: tuning, release, storage. */
static const char *const endings[] = {"instruct", "chat", "base", "it",   "pt",   "hf",   "4k",
                                      "8k",       "128k", "v01",  "v02",  "v03",  "0324", "0414",
                                      "0528",     "0924", "2407", "2501", "2507", "text"};

/* Families by the beginnings of their folded names, and what of them is not modelled. */
static const char *const unmodelled[][2] = {
    {"llama4", "attention in chunks, and layers without positions"},
    {"qwen3next", "linear attention"},
    {"qwen35", "linear attention"},
    {"mamba", "state-space layers"},
    {"jamba", "state-space layers"},
    {"nemotronh", "state-space layers"},
};

static void fold(const char *text, char folded[LONGEST_NAME])
{
    const char *slash = strrchr(text, '/');
    int length = 0;
    for (const char *at = slash ? slash + 1 : text; *at && length < LONGEST_NAME - 1; at++)
        if (!strchr(" -_.", *at)) folded[length++] = (char)tolower((unsigned char)*at);
    folded[length] = '\0';
}

/* Removes one ending; returns whether there was one. */
static bool cut_ending(char folded[LONGEST_NAME])
{
    const size_t length = strlen(folded);
    for (int i = 0; i < BASE_COUNT(endings); i++) {
        const size_t tail = strlen(endings[i]);
        if (length <= tail || strcmp(folded + length - tail, endings[i]) != 0) continue;
        folded[length - tail] = '\0';
        return true;
    }
    return false;
}

/* The zoo's model with this folded name; NULL: none. */
static const char *find_folded(const struct model_zoo_model *models, int count, const char *wanted)
{
    for (int i = 0; i < count; i++) {
        char folded[LONGEST_NAME];
        fold(models[i].name, folded);
        if (!strcmp(folded, wanted)) return models[i].name;
    }
    return NULL;
}

/* Looks up the name itself, or with its family's name here. */
static const char *find_named(const struct model_zoo_model *models, int count, const char *wanted)
{
    char renamed[2 * LONGEST_NAME];
    const char *found = find_folded(models, count, wanted);
    for (int i = 0; !found && i < BASE_COUNT(families); i++) {
        size_t length = strlen(families[i].family);
        if (strncmp(wanted, families[i].family, length) != 0) continue;
        snprintf(renamed, sizeof renamed, "%s%s", families[i].ours, wanted + length);
        found = find_folded(models, count, renamed);
    }
    return found;
}

const char *model_zoo_meant(const struct model_zoo_model *models, int count, const char *text)
{
    char wanted[LONGEST_NAME];
    fold(text, wanted);
    const char *found = find_named(models, count, wanted);
    while (!found && cut_ending(wanted)) found = find_named(models, count, wanted);
    return found;
}

enum base_status model_check_modelled(const char *text, struct base_error *error)
{
    char folded[LONGEST_NAME];
    fold(text, folded);
    for (int i = 0; i < BASE_COUNT(unmodelled); i++)
        if (!strncmp(folded, unmodelled[i][0], strlen(unmodelled[i][0])))
            return base_fail(error, BASE_INPUT, "%.60s is not modelled: it has %s; use another model", text,
                             unmodelled[i][1]);
    return BASE_OK;
}

/* Whether folded starts and ends like wanted and is longer: t5_1_1_xxl for "t5-xxl". */
static bool is_longer(const char *folded, const char *wanted)
{
    enum { LEAST_BEGINNING = 2 };
    const size_t length = strlen(wanted), all = strlen(folded);
    size_t same = 0;
    while (same < length && folded[same] == wanted[same]) same++;
    if (all <= length) return false;
    for (size_t first = same; first >= LEAST_BEGINNING; first--)
        if (!strcmp(wanted + first, folded + all - (length - first))) return true;
    return false;
}

/* The shortest name that begins and ends as text does, with more between (t5_1_1_xxl of "t5-xxl"); NULL: none. */
static const char *find_longer(const struct model_zoo_model *models, int count, const char *text)
{
    char wanted[LONGEST_NAME], folded[LONGEST_NAME];
    const char *found = NULL;
    fold(text, wanted);
    for (int i = 0; i < count; i++) {
        fold(models[i].name, folded);
        if (is_longer(folded, wanted) && (!found || strlen(models[i].name) < strlen(found))) found = models[i].name;
    }
    return found;
}

/* ---- models by name ---- */

static enum base_status unknown_model(struct base_arena *arena, const char *text, struct base_error *error)
{
    int count;
    const struct model_zoo_model *models = model_zoo(arena, &count);
    const char **names = base_new(arena, const char *, count);
    for (int i = 0; i < count; i++) names[i] = models[i].name;
    if (base_is_file(text))
        return base_fail(error, BASE_INPUT, "\"%.200s\" is a file; a model in a file is written @%.200s", text, text);
    BASE_TRY(model_check_modelled(text, error));
    const char *nearest = find_longer(models, count, text);
    if (!nearest) nearest = base_nearest(text, names, count);
    return base_fail(
        error, BASE_INPUT,
        "\"%.60s\" is no model of the zoo%s%s%s`meshwright models` lists them; its config.json as @config.json, "
        "decoder_only:emb_dim=… or encoder_decoder:emb_dim=… describes any other",
        text, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "? " : "; ");
}

/* Descriptive columns, which are no keys. */
static bool is_label(const char *column)
{
    return !strcmp(column, "name") || !strcmp(column, "architecture") || !strcmp(column, "source") ||
           !strcmp(column, "about");
}

/* Every non-empty cell in the one-line grammar; "more" holds rare keys. */
static const char *line_of(struct base_arena *arena, const struct base_table *table, int row)
{
    struct base_text line = {.arena = arena};
    base_putf(&line, "%s:", base_table_value(table, row, "architecture"));
    bool any = false;
    for (int i = 0; i < table->column_count; i++) {
        const char *column = table->cells[i], *value = base_table_field(table, row, i);
        if (is_label(column) || !*value) continue;
        if (!strcmp(column, "more")) base_putf(&line, "%s%s", any ? "," : "", value);
        else base_putf(&line, "%s%s=%s", any ? "," : "", column, value);
        any = true;
    }
    return line.data;
}

/* NULL: no model has that name. */
static const char *find_line(struct base_arena *arena, const char *name)
{
    for (int t = 0; t < BASE_COUNT(tables); t++)
        for (int row = 0; row < tables[t]->row_count; row++)
            if (!strcmp(base_table_value(tables[t], row, "name"), name)) return line_of(arena, tables[t], row);
    return NULL;
}

const char *model_zoo_name(struct base_arena *arena, const char *text)
{
    int count;
    const struct model_zoo_model *models = model_zoo(arena, &count);
    for (int i = 0; i < count; i++)
        if (!strcmp(models[i].name, text)) return models[i].name;
    return model_zoo_meant(models, count, text);
}

enum base_status model_zoo_line(struct base_arena *arena, const char *name, const char **out, struct base_error *error)
{
    const char *row = model_zoo_name(arena, name);
    if (!row) return unknown_model(arena, name, error);
    *out = find_line(arena, row);
    return BASE_OK;
}
