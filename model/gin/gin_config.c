/* A gin file as a model: @FILE.gin wherever a model is named. */
#include "model/gin/gin_reader.h"

#include <string.h>

static bool is_gin_model(const char *text)
{
    return *text == '@' && model_gin_is_gin(text + 1) && strlen(text) < sizeof((struct model_config *)0)->name;
}

static enum base_status read_gin_file(struct base_arena *arena, const char *path, const char *search_path,
                                      struct model_gin **gin, struct model_config *out, struct base_error *error)
{
    struct model_gin_model model;
    bool found;
    BASE_TRY(model_gin_read(arena, path, search_path, gin, error));
    BASE_TRY(model_gin_model(*gin, &model, &found, error));
    if (!found)
        return base_fail(
            error, BASE_INPUT,
            "%.300s: describes no model; use MODEL, or bindings of network.T5Config or network.TransformerConfig",
            path);
    *out = model.config;
    return BASE_OK;
}

enum base_status model_gin_config_parse(struct base_arena *arena, const char *text, const char *search_path,
                                        struct model_config *out, struct base_error *error)
{
    struct model_config found;
    struct model_gin *gin;
    if (!is_gin_model(text)) return model_config_parse(arena, text, out, error);
    if (read_gin_file(arena, text + 1, search_path, &gin, &found, error) != BASE_OK)
        return base_fail_in(error, "model");
    memcpy(found.name, text, strlen(text) + 1);
    *out = found;
    return BASE_OK;
}

/* Compares only with parameters of the model's reader: other bindings of the file are none of its business. */
static void warn_of_misspelt(struct model_gin *gin)
{
    for (int i = 0; i < gin->binding_count; i++) {
        const struct model_gin_binding *binding = &gin->bindings[i];
        if (binding->used || binding->overridden || binding->known) continue;
        const char *meant = model_gin_meant(gin, binding);
        if (meant)
            model_gin_warn(gin, binding->place, "%.200s: unknown, and ignored; did you mean %.200s?", binding->name,
                           meant);
    }
}

const struct model_gin *model_gin_config_notes(struct base_arena *arena, const char *text, const char *search_path)
{
    struct model_config ignored;
    struct model_gin *gin;
    struct base_error error;
    if (!is_gin_model(text)) return NULL;
    if (read_gin_file(arena, text + 1, search_path, &gin, &ignored, &error) != BASE_OK) return NULL;
    warn_of_misspelt(gin);
    return gin;
}
