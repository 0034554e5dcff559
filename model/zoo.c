/* The zoo: models by name, rows of zoo.csv and expert_zoo.csv. */
#include "model/model.h"

#include <string.h>

extern const char embedded_model_zoo_csv[], embedded_model_expert_zoo_csv[];

/* Dense models, and those with experts, whose columns are others. */
static const char *const tables[] = {embedded_model_zoo_csv, embedded_model_expert_zoo_csv};

/* The table is a part of the program: what is wrong with it is a mistake of ours. */
static enum base_status broken_zoo(struct base_error *error)
{
    error->status = BASE_INTERNAL;
    return BASE_INTERNAL;
}

static enum base_status add_table(struct base_arena *arena, const char *table, struct model_zoo_model *models,
                                  int *count, struct base_error *error)
{
    struct base_csv csv;
    bool more = true;
    if (base_csv_open_text(&csv, arena, "zoo.csv", table, error) != BASE_OK) return broken_zoo(error);
    for (;;) {
        if (base_csv_next(&csv, &more, error) != BASE_OK) return broken_zoo(error);
        if (!more) break;
        models[(*count)++] = (struct model_zoo_model){
            .name = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, "name"))),
            .architecture = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, "architecture"))),
            .source = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, "source"))),
            .about = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, "about"))),
        };
    }
    base_csv_close(&csv);
    return BASE_OK;
}

enum base_status model_zoo(struct base_arena *arena, const struct model_zoo_model **out, int *count,
                           struct base_error *error)
{
    int capacity = 0, found = 0;
    for (int t = 0; t < BASE_COUNT(tables); t++)
        for (const char *at = tables[t]; *at; at++) capacity += *at == '\n';
    struct model_zoo_model *models = base_new(arena, struct model_zoo_model, capacity + 1);
    for (int t = 0; t < BASE_COUNT(tables); t++) BASE_TRY(add_table(arena, tables[t], models, &found, error));
    *out = models;
    *count = found;
    return BASE_OK;
}

static enum base_status unknown_model(struct base_arena *arena, const char *text, struct base_error *error)
{
    const struct model_zoo_model *models;
    int count;
    BASE_TRY(model_zoo(arena, &models, &count, error));
    const char **names = base_new(arena, const char *, count);
    for (int i = 0; i < count; i++) names[i] = models[i].name;
    const char *nearest = model_zoo_longer(models, count, text);
    if (!nearest) nearest = base_nearest(text, names, count);
    return base_fail(
        error, BASE_INPUT,
        "\"%.60s\" is no model of the zoo%s%s%s`meshwright models` lists them; its config.json as @config.json, "
        "decoder_only:emb_dim=… or encoder_decoder:emb_dim=… describes any other",
        text, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "? " : "; ");
}

/* Columns that are no keys say what the row is, not how large. */
static bool is_label(const char *column)
{
    return !strcmp(column, "name") || !strcmp(column, "architecture") || !strcmp(column, "source") ||
           !strcmp(column, "about");
}

/* Every cell that is not empty, as the one-line grammar says it; "more" holds what few models have. */
static const char *line_of(struct base_arena *arena, const struct base_csv *csv)
{
    struct base_text line = {.arena = arena};
    base_putf(&line, "%s:", base_csv_field(csv, base_csv_column(csv, "architecture")));
    bool any = false;
    for (int i = 0; i < csv->column_count; i++) {
        const char *value = base_csv_field(csv, i);
        if (is_label(csv->names[i]) || !*value) continue;
        if (!strcmp(csv->names[i], "more")) base_putf(&line, "%s%s", any ? "," : "", value);
        else base_putf(&line, "%s%s=%s", any ? "," : "", csv->names[i], value);
        any = true;
    }
    return line.data;
}

/* The table's header and the row of this name, or NULL: a plan names its model again and again, and a whole table would
 * be read each time. */
static const char *cut_row(struct base_arena *arena, const char *table, const char *name)
{
    const char *header_end = strchr(table, '\n');
    size_t length = strlen(name), header_length = header_end ? (size_t)(header_end - table) + 1 : 0;
    if (strpbrk(name, ",\"\r\n")) return NULL;
    for (const char *row = table + header_length; *row; row += strcspn(row, "\n") + 1) {
        if (strncmp(row, name, length) != 0 || row[length] != ',') continue;
        return base_print(arena, "%.*s%.*s\n", (int)header_length, table, (int)strcspn(row, "\n"), row);
    }
    return NULL;
}

static const char *find_row(struct base_arena *arena, const char *name)
{
    const char *row = NULL;
    for (int t = 0; t < BASE_COUNT(tables) && !row; t++) row = cut_row(arena, tables[t], name);
    return row;
}

/* The row of the model that is meant by a name that is spelled otherwise; NULL: none is. */
static const char *find_row_meant(struct base_arena *arena, const char *text, struct base_error *error)
{
    const struct model_zoo_model *models;
    int count;
    if (model_zoo(arena, &models, &count, error) != BASE_OK) return NULL;
    const char *name = model_zoo_meant(models, count, text);
    return name ? find_row(arena, name) : NULL;
}

enum base_status model_zoo_line(struct base_arena *arena, const char *name, const char **out, struct base_error *error)
{
    struct base_csv csv;
    bool more;
    const char *row = find_row(arena, name);
    if (!row) row = find_row_meant(arena, name, error);
    if (!row) return unknown_model(arena, name, error);
    if (base_csv_open_text(&csv, arena, "zoo.csv", row, error) != BASE_OK ||
        base_csv_next(&csv, &more, error) != BASE_OK)
        return broken_zoo(error);
    *out = line_of(arena, &csv);
    base_csv_close(&csv);
    return BASE_OK;
}
