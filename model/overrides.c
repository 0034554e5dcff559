/* T5X's params_axes_names_override: logical axes that a user assigns to parameters by path patterns. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OVERRIDES = 256, MOST_AXES = 64 };

/* ---- reading ---- */

static enum base_status parse_axes(struct base_arena *arena, const struct base_json *list, struct model_override *out,
                                   struct base_error *error)
{
    if (list->kind != BASE_JSON_ARRAY && list->kind != BASE_JSON_NULL)
        return base_fail(error, BASE_INPUT,
                         "the axes are %s; a list of names, or null to leave the parameter's own, is needed",
                         base_json_kind_name(list->kind));
    if (list->count > MOST_AXES)
        return base_fail(error, BASE_INPUT, "%d axes; no parameter has more than %d", list->count, MOST_AXES);
    const char **axes = base_new(arena, const char *, list->count);
    int count = 0;
    for (const struct base_json *axis = list->child; axis; axis = axis->next) {
        if (axis->kind != BASE_JSON_STRING && axis->kind != BASE_JSON_NULL)
            return base_fail(error, BASE_INPUT, "an axis is %s; a name, or null for a dimension without one, is needed",
                             base_json_kind_name(axis->kind));
        axes[count++] = axis->string;
    }
    out->keeps_own = list->kind == BASE_JSON_NULL;
    out->rank = count;
    out->axes = axes;
    return BASE_OK;
}

static enum base_status parse_override(struct base_arena *arena, const struct base_json *pair,
                                       struct model_override *out, struct base_error *error)
{
    if (pair->kind != BASE_JSON_ARRAY || pair->count != 2 || pair->child->kind != BASE_JSON_STRING)
        return base_fail(error, BASE_INPUT, "is no pair; [\"pattern of paths\", [\"axis\", …] or null] is needed");
    out->text = pair->child->string;
    BASE_TRY(model_pattern_compile(arena, out->text, &out->pattern, error));
    return parse_axes(arena, pair->child->next, out, error);
}

static enum base_status parse_list(struct base_arena *arena, const char *text, struct model_overrides *out,
                                   struct base_error *error)
{
    const struct base_json *list;
    BASE_TRY(base_json_parse(arena, text, strlen(text), &list, error));
    if (list->kind != BASE_JSON_ARRAY)
        return base_fail(error, BASE_INPUT,
                         "is %s; the first pattern that matches decides, so a list of [pattern, axes] is needed",
                         base_json_kind_name(list->kind));
    if (list->count > MOST_OVERRIDES)
        return base_fail(error, BASE_INPUT, "%d patterns; at most %d are read", list->count, MOST_OVERRIDES);
    struct model_override *overrides = base_new(arena, struct model_override, list->count);
    int count = 0;
    for (const struct base_json *pair = list->child; pair; pair = pair->next, count++)
        if (parse_override(arena, pair, &overrides[count], error) != BASE_OK) return base_fail_in(error, "[%d]", count);
    *out = (struct model_overrides){overrides, count};
    return BASE_OK;
}

enum base_status model_overrides_parse(struct base_arena *arena, const char *text, struct model_overrides *out,
                                       struct base_error *error)
{
    enum base_status status = parse_list(arena, text, out, error);
    return status == BASE_OK ? status : base_fail_in(error, "params_axes_names_override");
}

/* ---- matching ---- */

static enum base_status decide(const struct model_override *override, const char *path, int rank,
                               const struct model_override **out, struct base_error *error)
{
    if (!override->keeps_own && override->rank != rank)
        return base_fail(error, BASE_INPUT,
                         "params_axes_names_override: \"%.100s\" gives %s %d axis names, which does not match param "
                         "rank (%d); use a list of %d",
                         override->text, path, override->rank, rank, rank);
    *out = override->keeps_own ? NULL : override;
    return BASE_OK;
}

enum base_status model_overrides_find(const struct model_overrides *overrides, const char *path, int rank,
                                      const struct model_override **out, struct base_error *error)
{
    for (int i = 0; i < overrides->count; i++) {
        bool matches = false;
        if (model_pattern_matches(overrides->overrides[i].pattern, path, &matches, error) != BASE_OK)
            return base_fail_in(error, "params_axes_names_override: [%d]", i);
        if (matches) return decide(&overrides->overrides[i], path, rank, out, error);
    }
    *out = NULL;
    return BASE_OK;
}

enum base_status model_overrides_apply(struct base_arena *arena, const struct model_overrides *overrides,
                                       const struct model_parameter *parameters, int count,
                                       const struct model_parameter **out, struct base_error *error)
{
    struct model_parameter *changed = base_new(arena, struct model_parameter, count);
    for (int i = 0; i < count; i++) {
        const struct model_override *override;
        changed[i] = parameters[i];
        BASE_TRY(model_overrides_find(overrides, parameters[i].path, parameters[i].rank, &override, error));
        if (override) memcpy(changed[i].axes, override->axes, (size_t) override->rank * sizeof *override->axes);
    }
    *out = changed;
    return BASE_OK;
}

/* ---- a program's parameters ---- */

const char *model_layer_path(struct base_arena *arena, const struct model_config *config, const char *name,
                             int64_t block)
{
    static const char subblock[] = "subblock_";
    const char *layers = strstr(name, "/layers/"), *rest = layers ? layers + strlen("/layers/") : NULL;
    if (!layers) return name;
    int stack = (int)(layers - name);
    if (config->scan_layers) return base_print(arena, "%.*s/%.*s/%s", stack, name, stack, name, rest);
    int64_t per_block = model_layers_per_block(config, strncmp(name, "encoder/", 8) ? MODEL_DECODER_STACK
                                                                                    : MODEL_ENCODER_STACK),
            layer = block * per_block;
    if (per_block > 1 && !strncmp(rest, subblock, sizeof subblock - 1)) {
        layer += strtoll(rest + sizeof subblock - 1, NULL, 10);
        rest = strchr(rest, '/') + 1;
    }
    return base_print(arena, "%.*s/layers_%lld/%s", stack, name, (long long)layer, rest);
}

const struct model_parameter *model_parameter_find(const struct model_parameter *parameters, int count,
                                                   const char *path)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2, order = strcmp(parameters[middle].path, path);
        if (order == 0) return &parameters[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

const struct model_parameter *model_parameter_of_tensor(struct base_arena *arena, const struct model_config *config,
                                                        const struct model_parameter *parameters, int count,
                                                        const char *name)
{
    return model_parameter_find(parameters, count, model_layer_path(arena, config, name, 0));
}

bool model_same_names(const struct model_parameter *a, const struct model_parameter *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->axes[i] && b->axes[i] ? !strcmp(a->axes[i], b->axes[i]) : a->axes[i] == b->axes[i];
    return same;
}

const struct model_parameter *model_of_first_layer(struct base_arena *arena, const struct model_parameter *parameters,
                                                   int count, const struct model_parameter *parameter)
{
    const char *layer = strstr(parameter->path, "/layers_"), *rest = layer ? strchr(layer + 1, '/') : NULL;
    const struct model_parameter *found = NULL;
    if (!rest) return parameter;
    for (int i = 0; !found && i < count; i++)
        found = model_parameter_find(
            parameters, count,
            base_print(arena, "%.*s/layers_%d%s", (int)(layer - parameter->path), parameter->path, i, rest));
    return found ? found : parameter;
}

bool model_is_like_first_layer(struct base_arena *arena, const struct model_parameter *parameters, int count,
                               const struct model_parameter *parameter)
{
    return model_same_names(model_of_first_layer(arena, parameters, count, parameter), parameter);
}

enum base_status model_check_layers_alike(struct base_arena *arena, const struct model_parameter *parameters, int count,
                                          struct base_error *error)
{
    for (int i = 0; i < count; i++) {
        if (model_is_like_first_layer(arena, parameters, count, &parameters[i])) continue;
        return base_fail(error, BASE_INPUT,
                         "params_axes_names_override: %s gets other axes than in the first layer, but all layers of a "
                         "stack must be alike; use a pattern that matches every layer, as layers_\\d+ does,",
                         parameters[i].path);
    }
    return BASE_OK;
}
