/* The imports of gin files, and what a name written in one of them stands for. Since dynamic_registration gin looks
 * names up in the imports of their own file alone (google/gin-config, gin/config.py: ParseContext); a file without it
 * names what the files before it have registered. */
#include "model/gin/gin_reader.h"

#include <string.h>

enum { MOST_IMPORTS = 1024 };

/* ---- what a name stands for ---- */

static bool is_named(const struct model_gin_import *import, const char *name, size_t length)
{
    return strlen(import->name) == length && !strncmp(import->name, name, length);
}

/* The last import of that name: of this file, or of any. */
static const struct model_gin_import *find_import(const struct model_gin_reader *reader, const char *name,
                                                  bool of_this_file)
{
    const struct model_gin *gin = reader->gin;
    for (int i = gin->import_count; i-- > 0;) {
        const struct model_gin_import *import = &gin->imports[i];
        if (of_this_file && import->file != reader->file) continue;
        if (is_named(import, name, strcspn(name, "."))) return import;
    }
    return NULL;
}

const char *model_gin_expand(const struct model_gin_reader *reader, const char *name)
{
    struct model_gin *gin = reader->gin;
    const size_t length = strcspn(name, ".");
    const struct model_gin_import *import = find_import(reader, name, true);
    const bool builtin = length == strlen("gin") && !strncmp(name, "gin", length);
    if (!import && reader->dynamic && !builtin)
        model_gin_warn(gin, reader->place,
                       "%.100s: this file imports no %.*s, and gin stops here; read as if it did: add the import", name,
                       (int)(length < 60 ? length : 60), name);
    if (!import) import = find_import(reader, name, false);
    return import ? base_print(gin->arena, "%s%s", import->module, name + length) : name;
}

/* ---- statements ---- */

static enum base_status add_import(struct model_gin_reader *reader, const char *name, const char *module,
                                   struct base_error *error)
{
    struct model_gin *gin = reader->gin;
    if (gin->import_count == MOST_IMPORTS) return model_gin_fail(reader, error, "more than %d imports", MOST_IMPORTS);
    if (!gin->imports) gin->imports = base_new(gin->arena, struct model_gin_import, MOST_IMPORTS);
    gin->imports[gin->import_count++] = (struct model_gin_import){name, module, reader->file};
    return BASE_OK;
}

/* import a.b.c: a stands for itself; import a.b as c: c stands for a.b. */
enum base_status model_gin_read_import(struct model_gin_reader *reader, struct base_error *error)
{
    const char *module, *name;
    model_gin_pass_word(reader, "import");
    BASE_TRY(model_gin_read_plain_name(reader, &module, error));
    if (!model_gin_pass_word(reader, "as")) {
        name = base_copy_bytes(reader->gin->arena, module, strcspn(module, "."));
        return add_import(reader, name, name, error);
    }
    BASE_TRY(model_gin_read_plain_name(reader, &name, error));
    return add_import(reader, name, module, error);
}

/* from a import b [as c]: the last word stands for a.b. From __gin__ comes how gin reads the rest of the file. */
enum base_status model_gin_read_from_import(struct model_gin_reader *reader, struct base_error *error)
{
    const char *module, *member, *name;
    model_gin_pass_word(reader, "from");
    BASE_TRY(model_gin_read_plain_name(reader, &module, error));
    if (!model_gin_pass_word(reader, "import"))
        return model_gin_fail(reader, error, "from %.60s: \"import NAME\" is missing", module);
    BASE_TRY(model_gin_read_plain_name(reader, &member, error));
    name = member;
    if (model_gin_pass_word(reader, "as")) BASE_TRY(model_gin_read_plain_name(reader, &name, error));
    if (!strcmp(module, "__gin__")) {
        reader->dynamic = reader->dynamic || !strcmp(member, "dynamic_registration");
        return BASE_OK;
    }
    return add_import(reader, name, base_print(reader->gin->arena, "%s.%s", module, member), error);
}
