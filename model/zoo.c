/* The zoo: models by name, rows of zoo.csv and expert_zoo.csv. */
#include "model/model.h"

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

static enum base_status unknown_model(struct base_arena *arena, const char *text, struct base_error *error)
{
    int count;
    const struct model_zoo_model *models = model_zoo(arena, &count);
    const char **names = base_new(arena, const char *, count);
    for (int i = 0; i < count; i++) names[i] = models[i].name;
    if (base_is_file(text))
        return base_fail(error, BASE_INPUT, "\"%.200s\" is a file; a model in a file is written @%.200s", text, text);
    BASE_TRY(model_check_modelled(text, error));
    const char *nearest = model_zoo_longer(models, count, text);
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
