/* YAML, and JSON with it, as settings. The only file that knows libyaml. */
#include "model/import/import_settings.h"

#include <string.h>
#include <yaml.h>

struct reading {
    struct import_settings *settings;
    const char *kind, *file;
    yaml_document_t *document;
    struct base_error *error;
    int visited;      /* nodes, an alias counted as often as it stands */
    int depth;        /* of files that include others */
    bool is_manifest; /* of Kubernetes, which may hold several documents */
};

static enum base_status fail_at(const struct reading *reading, const yaml_node_t *node, const char *what)
{
    return base_fail(reading->error, BASE_INPUT, "%.300s:%d: %s", reading->file, (int)node->start_mark.line + 1, what);
}

/* As YAML 1.1 and PyYAML have it: "10_000" is a number, "yes" and "off" are true and false; a null is nothing. */
static const char *scalar_text(struct base_arena *arena, const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    const bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (!plain) return base_copy(arena, text);
    if (!strcmp(text, "~") || !strcmp(text, "null") || !strcmp(text, "Null") || !strcmp(text, "NULL")) return "";
    static const char *const truths[][3] = {
        {"yes", "Yes", "YES"}, {"on", "On", "ON"}, {"no", "No", "NO"}, {"off", "Off", "OFF"}};
    for (int i = 0; i < BASE_COUNT(truths); i++)
        for (int form = 0; form < 3; form++)
            if (!strcmp(text, truths[i][form])) return i < 2 ? "true" : "false";
    char *copy = base_copy(arena, text);
    if (strspn(text, "0123456789_.+-eE") != strlen(text) || !strpbrk(text, "0123456789")) return copy;
    char *to = copy;
    for (const char *from = text; *from; from++)
        if (*from != '_') *to++ = *from;
    *to = '\0';
    return copy;
}

static bool holds_mapping(const struct reading *reading, const yaml_node_t *node, int depth)
{
    if (node->type == YAML_MAPPING_NODE) return true;
    if (node->type != YAML_SEQUENCE_NODE || depth > IMPORT_DEEPEST) return false;
    for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
        if (holds_mapping(reading, yaml_document_get_node(reading->document, *item), depth + 1)) return true;
    return false;
}

static bool is_bare(const yaml_node_t *node, const char *text)
{
    double number;
    struct base_error ignored;
    return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           base_parse_double(text, "", -1e300, 1e300, &number, &ignored) == BASE_OK;
}

static enum base_status put_list(struct reading *reading, const yaml_node_t *node, int depth,
                                 struct base_json_writer *writer)
{
    if (++reading->visited > IMPORT_MOST_SETTINGS || depth > IMPORT_DEEPEST)
        return fail_at(reading, node, "the list is too long or too deep");
    if (node->type == YAML_SCALAR_NODE) {
        const char *text = scalar_text(reading->settings->arena, node);
        double number = 0;
        struct base_error ignored;
        if (is_bare(node, text) && base_parse_double(text, "", -1e300, 1e300, &number, &ignored) == BASE_OK)
            base_json_put_double(writer, number);
        else base_json_put_string(writer, text);
        return BASE_OK;
    }
    base_json_open_inline(writer, '[');
    for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
        BASE_TRY(put_list(reading, yaml_document_get_node(reading->document, *item), depth + 1, writer));
    base_json_close(writer, ']');
    return BASE_OK;
}

static enum base_status set_list(struct reading *reading, const char *name, const yaml_node_t *node)
{
    struct base_text text = {.arena = reading->settings->arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    BASE_TRY(put_list(reading, node, 0, &writer));
    while (text.length && text.data[text.length - 1] == '\n') text.data[--text.length] = '\0';
    return model_import_set(reading->settings, name, text.data, reading->kind,
                            (struct model_gin_place){reading->file, (int)node->start_mark.line + 1}, reading->error);
}

static enum base_status read_node(struct reading *reading, const char *prefix, const yaml_node_t *node, int depth);

static const char *joined(struct base_arena *arena, const char *prefix, const char *name)
{
    return *prefix ? base_print(arena, "%s.%s", prefix, name) : name;
}

/* Merged keys (<<) are set first, so that the mapping's own keys replace them. */
static enum base_status read_mapping(struct reading *reading, const char *prefix, const yaml_node_t *node, int depth)
{
    struct base_arena *arena = reading->settings->arena;
    for (int merges = 1; merges >= 0; merges--)
        for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
             pair++) {
            const yaml_node_t *key = yaml_document_get_node(reading->document, pair->key),
                              *value = yaml_document_get_node(reading->document, pair->value);
            if (key->type != YAML_SCALAR_NODE) return fail_at(reading, key, "a key that is no word");
            const char *name = (const char *)key->data.scalar.value;
            const bool merge = !strcmp(name, "<<");
            if (strlen(name) > 200) return fail_at(reading, key, "a key of more than 200 letters");
            if (merge != (merges == 1)) continue;
            BASE_TRY(
                read_node(reading, merge ? prefix : joined(arena, prefix, base_copy(arena, name)), value, depth + 1));
        }
    return BASE_OK;
}

static enum base_status read_sequence(struct reading *reading, const char *prefix, const yaml_node_t *node, int depth)
{
    int i = 0;
    if (!holds_mapping(reading, node, 0)) return set_list(reading, prefix, node);
    for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
        BASE_TRY(read_node(reading,
                           joined(reading->settings->arena, prefix, base_print(reading->settings->arena, "%d", i++)),
                           yaml_document_get_node(reading->document, *item), depth + 1));
    return BASE_OK;
}

static enum base_status read_text(struct reading *reading, const char *prefix, const char *text, size_t length);

static bool is_yaml_file(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")) && base_is_file(path);
}

/* "!include FILE", as Levanter has it: the file's keys, under the key that includes it. */
static enum base_status read_included(struct reading *reading, const char *prefix, const yaml_node_t *node)
{
    enum { DEEPEST_FILE = 4 };
    struct base_arena *arena = reading->settings->arena;
    const char *name = (const char *)node->data.scalar.value, *slash = strrchr(reading->file, '/'), *text;
    struct reading inner = *reading;
    size_t length;
    if (*name != '/' && slash) name = base_print(arena, "%.*s/%s", (int)(slash - reading->file), reading->file, name);
    if (++inner.depth > DEEPEST_FILE) return fail_at(reading, node, "files include each other too deep");
    if (!is_yaml_file(name))
        return fail_at(reading, node, "!include needs the name of a file that ends with .yaml or .yml");
    if (base_read_file(arena, name, IMPORT_LARGEST_BYTES, &text, &length, reading->error) != BASE_OK)
        return base_fail_in(reading->error, "%.300s:%d", reading->file, (int)node->start_mark.line + 1);
    inner.file = base_copy(arena, name);
    BASE_TRY(read_text(&inner, prefix, text, length));
    reading->visited = inner.visited;
    return BASE_OK;
}

static enum base_status read_node(struct reading *reading, const char *prefix, const yaml_node_t *node, int depth)
{
    if (node->tag && !strcmp((const char *)node->tag, "!include") && node->type == YAML_SCALAR_NODE)
        return read_included(reading, prefix, node);
    if (depth > IMPORT_DEEPEST) return fail_at(reading, node, "nested too deep");
    if (++reading->visited > IMPORT_MOST_SETTINGS) return fail_at(reading, node, "too many settings");
    if (node->type == YAML_MAPPING_NODE) return read_mapping(reading, prefix, node, depth);
    if (node->type == YAML_SEQUENCE_NODE) return read_sequence(reading, prefix, node, depth);
    if (!*prefix) return fail_at(reading, node, "is one word; keys with values are needed");
    return model_import_set(reading->settings, prefix, scalar_text(reading->settings->arena, node), reading->kind,
                            (struct model_gin_place){reading->file, (int)node->start_mark.line + 1}, reading->error);
}

/* libyaml takes minutes for a list in a list 100,000 times, and it has no bound of its own. */
static bool nests_too_deep(const char *text, size_t length)
{
    enum { DEEPEST_TEXT = 1000 };
    int depth = 0;
    for (size_t i = 0; i < length && depth <= DEEPEST_TEXT; i++) {
        if (text[i] == '[' || text[i] == '{') depth++;
        else if ((text[i] == ']' || text[i] == '}') && depth) depth--;
    }
    return depth > DEEPEST_TEXT;
}

/* One document; *any false: there was none left. */
static enum base_status read_document(struct reading *reading, const char *prefix, yaml_parser_t *parser, bool later,
                                      bool *any)
{
    yaml_document_t document;
    enum base_status status = BASE_OK;
    *any = false;
    if (!yaml_parser_load(parser, &document))
        return base_fail(reading->error, BASE_INPUT, "%.300s:%d: is no YAML: %.200s", reading->file,
                         (int)parser->problem_mark.line + 1, parser->problem ? parser->problem : "out of memory");
    reading->document = &document;
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    *any = root != NULL;
    if (!root && !later) status = base_fail(reading->error, BASE_INPUT, "%.300s: is empty", reading->file);
    else if (root && later && !reading->is_manifest)
        status = fail_at(reading, root, "a second document, which the software refuses; keep one");
    else if (root) status = read_node(reading, prefix, root, 0);
    yaml_document_delete(&document);
    return status;
}

/* libyaml has its own memory: strings are copied, and a jump out of the arena only leaks it. */
static enum base_status read_text(struct reading *reading, const char *prefix, const char *text, size_t length)
{
    yaml_parser_t parser;
    enum base_status status = BASE_OK;
    bool any = true;
    if (nests_too_deep(text, length))
        return base_fail(reading->error, BASE_INPUT, "%.300s: nested too deep", reading->file);
    if (!yaml_parser_initialize(&parser)) return base_fail(reading->error, BASE_INTERNAL, "libyaml: out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    for (int count = 0; any && status == BASE_OK; count++)
        status = read_document(reading, prefix, &parser, count > 0, &any);
    yaml_parser_delete(&parser);
    return status;
}

enum base_status model_import_yaml(struct import_settings *settings, const char *kind, const char *file,
                                   const char *text, size_t length, struct base_error *error)
{
    struct reading reading = {.settings = settings,
                              .kind = kind,
                              .file = file,
                              .error = error,
                              .is_manifest = strstr(text, "apiVersion:") != NULL};
    return read_text(&reading, "", text, length);
}
