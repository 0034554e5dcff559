/* Resolves names in gin files: imports, configurables with their scopes, macros, and files. */
#include "model/gin/gin_reader.h"

#include <string.h>

enum { LONGEST_MACRO_CHAIN = 32 };

/* ---- bindings ---- */

bool model_gin_same_configurable(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    const char *longer = la > lb ? a : b, *shorter = la > lb ? b : a;
    size_t lead = la > lb ? la - lb : lb - la;
    if (strcmp(longer + lead, shorter) != 0) return false;
    return lead == 0 || (*shorter && longer[lead - 1] == '.');
}

static bool scope_applies(const char *bound, const char *scope)
{
    size_t length = strlen(bound);
    return !length || (!strncmp(bound, scope, length) && (scope[length] == '/' || !scope[length]));
}

static void remember_asked(struct model_gin *gin, const char *configurable, const char *parameter)
{
    for (int i = 0; i < gin->asked_count; i++)
        if (!strcmp(gin->asked[i].parameter, parameter) && !strcmp(gin->asked[i].configurable, configurable)) return;
    if (gin->asked_count == MODEL_GIN_MOST_ASKED) return;
    gin->asked[gin->asked_count++] =
        (struct model_gin_asked){base_copy(gin->arena, configurable), base_copy(gin->arena, parameter)};
}

const struct model_gin_binding *model_gin_find(struct model_gin *gin, const char *scope, const char *configurable,
                                               const char *parameter)
{
    struct model_gin_binding *best = NULL;
    remember_asked(gin, configurable, parameter);
    for (int i = 0; i < gin->binding_count; i++) {
        struct model_gin_binding *binding = &gin->bindings[i];
        if (strcmp(binding->parameter, parameter) != 0 || !scope_applies(binding->scope, scope) ||
            !model_gin_same_configurable(binding->configurable, configurable))
            continue;
        if (!best || strlen(binding->scope) >= strlen(best->scope)) best = binding;
    }
    if (best) best->used = true;
    return best;
}

/* Files that this program knows bind macros that the user's own have to bind; there an open one is no news. */
static const struct model_gin_value *follow(struct model_gin *gin, const struct model_gin_value *value,
                                            enum model_gin_source source, struct model_gin_place *place)
{
    for (int i = 0; value->kind == MODEL_GIN_MACRO; i++) {
        if (!strcmp(value->text, "gin.REQUIRED")) return NULL;
        const struct model_gin_binding *macro =
            i < LONGEST_MACRO_CHAIN ? model_gin_find(gin, value->scope, "", value->text) : NULL;
        if (!macro) {
            const bool is_constant = strchr(value->text, '.') != NULL; /* of the code: moe_enums.LayerLayout.MIXED */
            (source == MODEL_GIN_OF_T5X || is_constant ? model_gin_note : model_gin_warn)(
                gin, *place,
                is_constant               ? "%%%.80s is a constant of the code; treated as unbound"
                : i < LONGEST_MACRO_CHAIN ? "%%%.80s is bound nowhere, and gin would fail; treated as unbound"
                                          : "%%%.80s leads to itself; treated as unbound",
                value->text);
            return NULL;
        }
        value = macro->value;
        *place = macro->place;
        source = macro->known ? MODEL_GIN_OF_T5X : MODEL_GIN_OF_USER;
    }
    return value;
}

const struct model_gin_value *model_gin_follow(struct model_gin *gin, const struct model_gin_value *value,
                                               struct model_gin_place *place)
{
    return follow(gin, value, MODEL_GIN_OF_USER, place);
}

const struct model_gin_value *model_gin_get(struct model_gin *gin, const char *scope, const char *configurable,
                                            const char *parameter, struct model_gin_place *place)
{
    const struct model_gin_binding *binding = model_gin_find(gin, scope, configurable, parameter);
    if (!binding) return NULL;
    *place = binding->place;
    return follow(gin, binding->value, binding->known ? MODEL_GIN_OF_T5X : MODEL_GIN_OF_USER, place);
}

bool model_gin_same_file(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    const char *longer = la > lb ? a : b, *shorter = la > lb ? b : a;
    size_t lead = la > lb ? la - lb : lb - la;
    return *shorter && !strcmp(longer + lead, shorter) && (lead == 0 || longer[lead - 1] == '/');
}

/* ---- resolution ---- */

static bool is_named(const struct model_gin_import *import, const char *name, size_t length)
{
    return strlen(import->name) == length && !strncmp(import->name, name, length);
}

enum import_of { OF_ANY_FILE, OF_THIS_FILE };

/* The last import of that name: of this file, or of any. */
static const struct model_gin_import *find_import(const struct model_gin_reader *reader, const char *name,
                                                  enum import_of of)
{
    const struct model_gin *gin = reader->gin;
    for (int i = gin->import_count; i-- > 0;) {
        const struct model_gin_import *import = &gin->imports[i];
        if (of == OF_THIS_FILE && import->file != reader->file) continue;
        if (is_named(import, name, strcspn(name, "."))) return import;
    }
    return NULL;
}

const char *model_gin_expand(const struct model_gin_reader *reader, const char *name)
{
    struct model_gin *gin = reader->gin;
    const size_t length = strcspn(name, ".");
    const struct model_gin_import *import = find_import(reader, name, OF_THIS_FILE);
    const bool builtin = length == strlen("gin") && !strncmp(name, "gin", length);
    if (!import && reader->dynamic && !builtin)
        model_gin_warn(gin, reader->place, "%.100s: this file imports no %.*s, and gin would fail; add the import",
                       name, (int)(length < 60 ? length : 60), name);
    if (!import) import = find_import(reader, name, OF_ANY_FILE);
    return import ? base_print(gin->arena, "%s%s", import->module, name + length) : name;
}

bool model_gin_is_gin(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && !strcmp(path + length - 4, ".gin");
}
