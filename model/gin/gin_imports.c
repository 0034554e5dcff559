/* Imports of gin files, and the names they define. With dynamic_registration gin resolves names in the imports of their
 * own file alone (google/gin-config, gin/config.py: ParseContext); without it, among all names registered by earlier
 * files. */
#include "model/gin/gin_reader.h"

#include <string.h>

extern const struct base_table embedded_model_gin_gin_modules_csv;
static const struct base_table *const modules = &embedded_model_gin_gin_modules_csv;

enum { MOST_IMPORTS = 1024 };

/* ---- misspelt modules ---- */

static bool are_near(const char *name, const char *module)
{
    enum { SHORTEST_FOR_TWO = 5 };
    return base_edit_distance(name, module) <= (strlen(name) < SHORTEST_FOR_TWO ? 1 : 2);
}

/* A misspelt package, or module of t5x: the nearest of T5X's imports, unless one matches exactly. A user's own package
 * is near none. */
static void warn_of_misspelt(struct model_gin_reader *reader, const char *module)
{
    static const char package[] = "t5x.";
    size_t length = strcspn(module, ".");
    if (!strncmp(module, package, strlen(package))) length = strlen(package) + strcspn(module + strlen(package), ".");
    const char *name = base_copy_bytes(reader->gin->arena, module, length), *meant = NULL;
    for (int row = 0; row < modules->row_count; row++) {
        const char *known = base_table_field(modules, row, base_table_column(modules, "module"));
        if (!strcmp(known, name)) return;
        if (!meant && !strchr(known, '.') == !strchr(name, '.') && are_near(name, known)) meant = known;
    }
    if (meant && !reader->known)
        model_gin_warn(reader->gin, reader->place, "%.100s is no module, and gin would fail; did you mean %s?", module,
                       meant);
}

/* ---- statements ---- */

static enum base_status add_import(struct model_gin_reader *reader, const char *name, const char *module)
{
    struct model_gin *gin = reader->gin;
    if (gin->import_count == MOST_IMPORTS) return model_gin_fail(reader, "more than %d imports", MOST_IMPORTS);
    if (!gin->imports) gin->imports = base_new(gin->arena, struct model_gin_import, MOST_IMPORTS);
    gin->imports[gin->import_count++] = (struct model_gin_import){name, module, reader->file};
    warn_of_misspelt(reader, module);
    return BASE_OK;
}

/* import a.b.c defines a; import a.b as c defines c as a.b. */
enum base_status model_gin_read_import(struct model_gin_reader *reader)
{
    const char *module, *name;
    model_gin_pass_word(reader, "import");
    BASE_TRY(model_gin_read_plain_name(reader, &module));
    if (!model_gin_pass_word(reader, "as")) {
        name = base_copy_bytes(reader->gin->arena, module, strcspn(module, "."));
        warn_of_misspelt(reader, module);
        return add_import(reader, name, name);
    }
    BASE_TRY(model_gin_read_plain_name(reader, &name));
    return add_import(reader, name, module);
}

/* from a import b [as c] defines the last word as a.b. Imports from __gin__ set how the rest of the file is read. */
enum base_status model_gin_read_from_import(struct model_gin_reader *reader)
{
    const char *module, *member, *name;
    model_gin_pass_word(reader, "from");
    BASE_TRY(model_gin_read_plain_name(reader, &module));
    if (!model_gin_pass_word(reader, "import"))
        return model_gin_fail(reader, "from %.60s: \"import NAME\" is missing", module);
    BASE_TRY(model_gin_read_plain_name(reader, &member));
    name = member;
    if (model_gin_pass_word(reader, "as")) BASE_TRY(model_gin_read_plain_name(reader, &name));
    if (!strcmp(module, "__gin__")) {
        reader->dynamic = reader->dynamic || !strcmp(member, "dynamic_registration");
        return BASE_OK;
    }
    return add_import(reader, name, base_print(reader->gin->arena, "%s.%s", module, member));
}
