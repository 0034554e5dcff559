/* T5X's own model files where they are not at hand: the zoo knows their sizes. */
#include "model/gin/gin_reader.h"

#include <string.h>

/* Folders with the files of another one, except for the package of their networks. */
static const struct {
    const char *folder, *twin, *package;
} twins[] = {
    {"t5x/contrib/gpu/t5/", "t5x/examples/t5/", "t5x.contrib.gpu.t5"},
};

/* The name that the zoo has for a file; *package is NULL where the model's own is meant. */
static const char *zoo_file(struct base_arena *arena, const char *name, const char **package)
{
    *package = NULL;
    for (int i = 0; i < BASE_COUNT(twins); i++) {
        const size_t length = strlen(twins[i].folder);
        if (strncmp(name, twins[i].folder, length) != 0) continue;
        *package = twins[i].package;
        return base_print(arena, "%s%s", twins[i].twin, name + length);
    }
    return name;
}

static enum base_status find_file(struct base_arena *arena, const char *name, struct model_config *out, bool *found,
                                  struct base_error *error)
{
    const struct model_zoo_model *models;
    int count, i = 0;
    models = model_zoo(arena, &count);
    while (i < count && !model_gin_same_file(name, models[i].source)) i++;
    *found = i < count;
    return *found ? model_config_parse(arena, models[i].name, out, error) : BASE_OK;
}

/* Common bindings of T5X's model files, besides sizes. */
enum base_status model_gin_put_zoo(struct base_arena *arena, const char *name, struct base_text *out,
                                   struct base_error *error)
{
    struct model_config config;
    const char *package;
    bool found;
    BASE_TRY(find_file(arena, zoo_file(arena, name, &package), &config, &found, error));
    if (!found) return BASE_OK;
    base_put(out, "from t5x import adafactor\nOPTIMIZER = @adafactor.Adafactor()\nZ_LOSS = 0.0001\n"
                  "LOSS_NORMALIZING_FACTOR = None\n");
    if (!config.encoder) /* decoder_only/models/base.gin, which the others include */
        base_put(out, "from t5x import decoding\ndecoding.temperature_sample.temperature = 1.0\n"
                      "decoding.temperature_sample.topk = 40\n");
    if (config.experts.count) model_gin_put_experts(&config, out);
    else model_gin_put_model_of(&config, package, "bfloat16", "minimal", out);
    return BASE_OK;
}
