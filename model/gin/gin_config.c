/* A gin file as a model: @FILE.gin wherever a model is named. */
#include "model/gin/gin_reader.h"

#include <string.h>

bool model_gin_is_gin(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && !strcmp(path + length - 4, ".gin");
}

static enum base_status read_gin_file(struct base_arena *arena, const char *path, struct model_config *out,
                                      struct base_error *error)
{
    struct model_gin *gin;
    struct model_gin_model model;
    bool found;
    BASE_TRY(model_gin_read(arena, path, NULL, &gin, error));
    BASE_TRY(model_gin_model(gin, &model, &found, error));
    if (!found)
        return base_fail(
            error, BASE_INPUT,
            "%.300s: describes no model; use MODEL, or bindings of network.T5Config or network.TransformerConfig",
            path);
    *out = model.config;
    return BASE_OK;
}

enum base_status model_gin_config_parse(struct base_arena *arena, const char *text, struct model_config *out,
                                        struct base_error *error)
{
    struct model_config found;
    bool is_gin = *text == '@' && model_gin_is_gin(text + 1);
    if (!is_gin || strlen(text) >= sizeof found.name) return model_config_parse(arena, text, out, error);
    if (read_gin_file(arena, text + 1, &found, error) != BASE_OK) return base_fail_in(error, "model");
    memcpy(found.name, text, strlen(text) + 1);
    *out = found;
    return BASE_OK;
}
