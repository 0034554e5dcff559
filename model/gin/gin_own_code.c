/* Custom code in a gin file in place of T5X's: its computation is unknown. */
#include "model/gin/gin_fields.csv.h"
#include "model/gin/gin_reader.h"

#include <string.h>

static bool says_model(const struct model_gin *gin)
{
    for (int i = 0; i < gin->comment_count; i++)
        if (!strcmp(gin->comments[i].key, "model")) return true;
    return false;
}

/* Classes of t5x.models and t5x.contrib.moe.models; a name that no import explains is taken for one of theirs. */
enum base_status model_gin_check_model_class(const struct model_gin *gin, const struct model_gin_value *model,
                                             struct model_gin_place place)
{
    static const char *const classes[] = {"EncoderDecoderModel", "DecoderOnlyModel", "MoeEncoderDecoderModel",
                                          "MoeDecoderOnlyModel"};
    static const char *const modules[] = {"t5x.models", "t5x.contrib.moe.models", "models"};
    const char *class = model_gin_last_part(model->text);
    const size_t length = class > model->text ? (size_t)(class - model->text) - 1 : 0;
    const bool is_class = base_has_word(BASE_COUNT(classes), classes, class);
    bool of_t5x = !length;
    for (int i = 0; i < BASE_COUNT(modules); i++)
        of_t5x = of_t5x || (strlen(modules[i]) == length && !strncmp(modules[i], model->text, length));
    if ((is_class && of_t5x) || says_model(gin)) return BASE_OK;
    return model_gin_fail_at(gin, place,
                             "model: %.120s is no class of T5X, so that its computation is unknown; add a line such "
                             "as \"# meshwright: model = t5_1_1_base\" to the file",
                             model->text);
}

/* Fields of T5Config and TransformerConfig in T5X's networks, the scanned ones and those for GPUs. */
static const char *const fields[] = {GIN_FIELDS_NAMES};

enum base_status model_gin_check_parameters(const struct model_gin *gin, const struct model_gin_value *config)
{
    for (int i = 0; i < gin->binding_count; i++) {
        const struct model_gin_binding *binding = &gin->bindings[i];
        const bool known = !model_gin_same_configurable(binding->configurable, config->text);
        if (known || base_has_word(BASE_COUNT(fields), fields, binding->parameter)) continue;
        const char *nearest = base_nearest(binding->parameter, fields, BASE_COUNT(fields));
        return model_gin_fail_at(gin, binding->place, "%.120s: %.60s has no such parameter, and gin would fail%s%s%s",
                                 binding->name, model_gin_last_part(config->text), nearest ? "; did you mean " : "",
                                 nearest ? nearest : "", nearest ? "?" : "");
    }
    return BASE_OK;
}
