/* Reads gin files as T5X writes them: imports, includes, macros, bindings one by one and in blocks, without their
 * meaning. Built-in knowledge replaces absent files of T5X. */
#include "model/gin/gin_reader.h"

#include <string.h>

extern const struct base_table embedded_model_gin_gin_known_csv;

enum {
    LARGEST_FILE_BYTES = 1 << 20,
    LARGEST_SUM_BYTES = 8 << 20,
    MOST_FILES = 200,
    DEEPEST_INCLUDE = 16,
    MOST_BINDINGS = 4096,
    LONGEST_PATH = 2048
};

/* ---- bindings ---- */

static enum base_status add_binding(struct model_gin_reader *reader, struct model_gin_binding binding)
{
    struct model_gin *gin = reader->gin;
    if (gin->binding_count == MOST_BINDINGS) return model_gin_fail(reader, "more than %d bindings", MOST_BINDINGS);
    for (int i = 0; i < gin->binding_count; i++) {
        struct model_gin_binding *other = &gin->bindings[i];
        bool same = !strcmp(other->parameter, binding.parameter) && !strcmp(other->scope, binding.scope) &&
                    model_gin_same_configurable(other->configurable, binding.configurable);
        other->overridden = other->overridden || same;
    }
    binding.known = reader->known;
    gin->bindings[gin->binding_count++] = binding;
    return BASE_OK;
}

static enum base_status end_statement(struct model_gin_reader *reader)
{
    model_gin_skip(reader, MODEL_GIN_ONE_LINE);
    if (!*reader->at || *reader->at == '\n') return BASE_OK;
    size_t length = strcspn(reader->at, "\r\n");
    return model_gin_fail(reader, "\"%.*s\" follows the end of the statement; use a line of its own",
                          (int)(length < 40 ? length : 40), reader->at);
}

static enum base_status read_include(struct model_gin_reader *reader);

/* "name = value" of a block, or a whole binding. */
static enum base_status read_bound_value(struct model_gin_reader *reader, struct model_gin_binding binding)
{
    model_gin_skip(reader, MODEL_GIN_ONE_LINE);
    if (*reader->at != '=') return model_gin_fail(reader, "'=' is missing after %.80s", binding.parameter);
    reader->at++;
    BASE_TRY(model_gin_read_value(reader, &binding.value));
    return add_binding(reader, binding);
}

/* Indentation of a line; *reader stays at its beginning. */
static size_t indentation(const struct model_gin_reader *reader)
{
    return strspn(reader->at, " \t");
}

/* Passes empty lines and comments up to the beginning of a line that says something. */
static void skip_empty_lines(struct model_gin_reader *reader)
{
    for (;;) {
        const char *line = reader->at;
        int number = reader->place.line;
        model_gin_skip(reader, MODEL_GIN_ONE_LINE);
        if (*reader->at != '\n') {
            if (reader->place.line == number && *reader->at) reader->at = line;
            return;
        }
        model_gin_next_line(reader);
    }
}

/* Behind "scope/module.name:": the indented lines that follow bind its parameters. */
static enum base_status read_block(struct model_gin_reader *reader, const char *scope, const char *name)
{
    struct base_arena *arena = reader->gin->arena;
    struct model_gin_binding binding = {.scope = scope, .configurable = model_gin_expand(reader, name)};
    BASE_TRY(end_statement(reader));
    skip_empty_lines(reader);
    if (!indentation(reader))
        return model_gin_fail(reader, "the block of %.80s is empty; use indented lines such as \"  emb_dim = 512\"",
                              name);
    while (*reader->at && indentation(reader)) {
        reader->at += indentation(reader);
        binding.place = reader->place;
        BASE_TRY(model_gin_read_plain_name(reader, &binding.parameter));
        if (strchr(binding.parameter, '.'))
            return model_gin_fail(reader, "%.80s: in a block a parameter's name has no prefix", binding.parameter);
        binding.name = base_print(arena, "%s%s%s.%s", scope, *scope ? "/" : "", name, binding.parameter);
        BASE_TRY(read_bound_value(reader, binding));
        BASE_TRY(end_statement(reader));
        skip_empty_lines(reader);
    }
    return BASE_OK;
}

/* MACRO = value, scope/module.name.parameter = value, or the head of a block. */
static enum base_status read_binding(struct model_gin_reader *reader)
{
    const char *scope, *name;
    struct model_gin_place place = reader->place;
    BASE_TRY(model_gin_read_name(reader, &scope, &name));
    model_gin_skip(reader, MODEL_GIN_ONE_LINE);
    if (*reader->at == ':') {
        reader->at++;
        return read_block(reader, scope, name);
    }
    const char *dot = strrchr(name, '.'),
               *written = base_print(reader->gin->arena, "%s%s%s", scope, *scope ? "/" : "", name);
    if (dot) dot = strrchr(name = model_gin_expand(reader, name), '.');
    struct model_gin_binding binding = {.scope = scope,
                                        .configurable =
                                            dot ? base_copy_bytes(reader->gin->arena, name, (size_t)(dot - name)) : "",
                                        .parameter = dot ? dot + 1 : name,
                                        .name = written,
                                        .place = place};
    BASE_TRY(read_bound_value(reader, binding));
    return end_statement(reader);
}

static enum base_status read_statement(struct model_gin_reader *reader)
{
    static const struct {
        const char *word;
        enum base_status (*read)(struct model_gin_reader *);
    } statements[] = {
        {"import", model_gin_read_import}, {"from", model_gin_read_from_import}, {"include", read_include}};
    for (int i = 0; i < BASE_COUNT(statements); i++) {
        if (!model_gin_starts_with_word(reader->at, statements[i].word)) continue;
        BASE_TRY(statements[i].read(reader));
        return end_statement(reader);
    }
    return read_binding(reader);
}

static enum base_status read_statements(struct model_gin_reader *reader)
{
    for (skip_empty_lines(reader); *reader->at; skip_empty_lines(reader)) {
        model_gin_skip(reader, MODEL_GIN_ONE_LINE);
        BASE_TRY(read_statement(reader));
    }
    return BASE_OK;
}

/* ---- files ---- */

static enum base_status read_text(struct model_gin *gin, const char *text, struct model_gin_place place,
                                  enum model_gin_source source)
{
    struct model_gin_reader reader = {
        .gin = gin, .at = text, .place = place, .known = source == MODEL_GIN_OF_T5X, .file = gin->file_count++};
    const char *bad = base_bad_utf8(text, strlen(text));
    for (const char *at = text; bad && at < bad; at++) reader.place.line += *at == '\n';
    if (bad) return model_gin_fail(&reader, "not UTF-8");
    if (!strncmp(text, "\xEF\xBB\xBF", 3)) reader.at += 3;
    return read_statements(&reader);
}

static enum base_status read_file(struct model_gin *gin, const char *path)
{
    const char *text;
    size_t length;
    BASE_TRY(base_read_file(gin->arena, path, LARGEST_FILE_BYTES, &text, &length, gin->error));
    if (strlen(text) != length)
        return base_fail(gin->error, BASE_INPUT, "%.300s: holds a NUL; a gin file is text", path);
    gin->read_bytes += length;
    if (gin->read_bytes > LARGEST_SUM_BYTES)
        return base_fail(gin->error, BASE_INPUT, "%.300s: this and the files before it are more than %d bytes", path,
                         LARGEST_SUM_BYTES);
    return read_text(gin, text, (struct model_gin_place){path, 1}, MODEL_GIN_OF_USER);
}

/* Built-in gin text of a file of T5X: settings of its runs, or a model of the zoo. NULL: none. */
static enum base_status known_text(struct model_gin *gin, const char *name, const char **out)
{
    const struct base_table *known = &embedded_model_gin_gin_known_csv;
    const int of_file = base_table_column(known, "file"), of_statement = base_table_column(known, "statement");
    struct base_text text = {.arena = gin->arena};
    const char *first = NULL;
    for (int row = 0; row < known->row_count; row++) {
        const char *file = base_table_field(known, row, of_file);
        if (first ? strcmp(first, file) != 0 : !model_gin_same_file(name, file)) continue;
        if (!first) first = file; /* a name cut short may be the end of several files' */
        base_putf(&text, "%s\n", base_table_field(known, row, of_statement));
    }
    if (!text.length) BASE_TRY(model_gin_put_zoo(gin->arena, name, &text, gin->error));
    *out = text.length ? text.data : NULL;
    return BASE_OK;
}

/* The first existing file: as named, in each directory of the search path, next to the including file. */
static const char *locate(struct model_gin_reader *reader, const char *name)
{
    struct base_arena *arena = reader->gin->arena;
    const char *at = reader->gin->search_path, *slash = strrchr(reader->place.file, '/');
    if (base_is_file(name)) return name;
    while (at && *at && *name != '/') {
        size_t length = strcspn(at, ",");
        const char *path = base_print(arena, "%.*s/%s", (int)(length < LONGEST_PATH ? length : LONGEST_PATH), at, name);
        if (length && base_is_file(path)) return path;
        at += length + (at[length] == ',');
    }
    if (!slash || *name == '/') return NULL;
    const char *beside = base_print(arena, "%.*s/%s", (int)(slash - reader->place.file), reader->place.file, name);
    return base_is_file(beside) ? beside : NULL;
}

static enum base_status include_known(struct model_gin_reader *reader, const char *name)
{
    const char *text;
    BASE_TRY(known_text(reader->gin, name, &text));
    if (!text && reader->gin->depth == 1 && !reader->gin->without_files) /* of the command line itself */
        return base_fail(reader->gin->error, BASE_INPUT,
                         "%.300s: no such file, neither here nor on the search path (--gin-search-path DIR)", name);
    if (!text) {
        model_gin_warn(
            reader->gin, reader->place,
            "include '%.200s': is not on the search path; its bindings are missing (use --gin-search-path DIR)", name);
        return BASE_OK;
    }
    if (!reader->known)
        model_gin_note(reader->gin, reader->place,
                       "include '%.200s': is not on the search path; built-in values are used", name);
    return read_text(reader->gin, text, reader->place, MODEL_GIN_OF_T5X);
}

static enum base_status refuse_cycle(const struct model_gin_reader *reader, const char *path)
{
    const struct model_gin *gin = reader->gin;
    if (gin->depth == DEEPEST_INCLUDE)
        return model_gin_fail(reader, "include '%.200s': files include each other more than %d deep", path,
                              DEEPEST_INCLUDE);
    for (int i = 0; i < gin->depth; i++)
        if (!strcmp(gin->stack[i], path))
            return model_gin_fail(reader, "include '%.200s': the file includes itself", path);
    return BASE_OK;
}

static enum base_status read_include(struct model_gin_reader *reader)
{
    const struct model_gin_value *value;
    struct model_gin *gin = reader->gin;
    reader->at += strlen("include");
    BASE_TRY(model_gin_read_value(reader, &value));
    if (value->kind != MODEL_GIN_STRING || !model_gin_is_gin(value->text) || strlen(value->text) > LONGEST_PATH)
        return model_gin_fail(
            reader,
            "include needs the name of a file that ends with .gin, as in include 't5x/configs/runs/pretrain.gin'");
    if (gin->include_count == MOST_FILES) return model_gin_fail(reader, "more than %d files are included", MOST_FILES);
    const char *path = gin->without_files || reader->known ? NULL : locate(reader, value->text);
    gin->includes[gin->include_count++] = (struct model_gin_include){value->text, reader->place};
    BASE_TRY(refuse_cycle(reader, path ? path : value->text));
    gin->stack[gin->depth++] = path ? path : value->text;
    enum base_status status = path ? read_file(gin, path) : include_known(reader, value->text);
    gin->depth--;
    return status;
}

/* ---- the whole ---- */

static struct model_gin *new_gin(struct base_arena *arena, const char *name, struct base_error *error)
{
    struct model_gin *gin = base_new(arena, struct model_gin, 1);
    gin->arena = arena;
    gin->error = error;
    gin->name = name;
    gin->bindings = base_new(arena, struct model_gin_binding, MOST_BINDINGS);
    gin->comments = base_new(arena, struct model_gin_comment, MODEL_GIN_MOST_COMMENTS);
    gin->notes = base_new(arena, const char *, MODEL_GIN_MOST_NOTES);
    gin->warnings = base_new(arena, const char *, MODEL_GIN_MOST_WARNINGS);
    gin->differences = base_new(arena, const char *, MODEL_GIN_MOST_WARNINGS);
    gin->asked = base_new(arena, struct model_gin_asked, MODEL_GIN_MOST_ASKED);
    gin->includes = base_new(arena, struct model_gin_include, MOST_FILES);
    gin->stack = base_new(arena, const char *, DEEPEST_INCLUDE);
    return gin;
}

enum base_status model_gin_read(struct base_arena *arena, const char *path, const char *search_path,
                                struct model_gin **out, struct base_error *error)
{
    struct model_gin *gin = new_gin(arena, path, error);
    gin->search_path = search_path;
    gin->stack[gin->depth++] = path;
    BASE_TRY(read_file(gin, path));
    *out = gin;
    return BASE_OK;
}

enum base_status model_gin_read_lines(struct base_arena *arena, const char *name, const char *text,
                                      const char *search_path, struct model_gin **out, struct base_error *error)
{
    struct model_gin *gin = new_gin(arena, name, error);
    gin->search_path = search_path;
    BASE_TRY(read_text(gin, text, (struct model_gin_place){name, 1}, MODEL_GIN_OF_USER));
    *out = gin;
    return BASE_OK;
}

enum base_status model_gin_parse(struct base_arena *arena, const char *name, const char *text, struct model_gin **out,
                                 struct base_error *error)
{
    struct model_gin *gin = new_gin(arena, name, error);
    gin->without_files = true;
    BASE_TRY(read_text(gin, text, (struct model_gin_place){name, 1}, MODEL_GIN_OF_USER));
    *out = gin;
    return BASE_OK;
}
