/* EasyLM's flags and AXLearn's printed trainer configuration: meshes and sizes, in the slots that MaxText's files fill.
 */
#include "model/import/import_draft.h"

#include <math.h>
#include <string.h>

/* ---- EasyLM ---- */

static const char *ici(const struct import_draft *draft, const char *axis)
{
    return base_print(draft->arena, ".ici.%s", axis);
}

/* "1,-1,4", "!-1,1,1" or "dp:1,fsdp:-1,mp:4": data, sharded data, tensor, and sequence. */
static enum base_status put_mesh_dim(struct import_draft *draft)
{
    static const char *const axes[] = {"data", "fsdp", "tensor", "sequence"}, *const names[] = {"dp", "fsdp", "mp",
                                                                                                "sp"};
    const struct import_slot *slot = model_import_slot(draft, ".mesh_dim");
    const char *at = slot ? slot->value : "1,-1,1";
    at += *at == '!';
    for (int i = 0; i < BASE_COUNT(axes) && *at; i++) {
        const size_t length = strcspn(at, ","), name = strcspn(at, ":,");
        int axis = at[name] == ':' ? -1 : i;
        for (int n = 0; n < BASE_COUNT(names); n++)
            if (at[name] == ':' && name == strlen(names[n]) && !strncmp(at, names[n], name)) axis = n;
        if (at[name] == ':' && name == 2 && !strncmp(at, "tp", 2)) axis = 2;
        if (axis < 0)
            return model_import_fail(draft, slot, "\"%.*s\" is no axis; use dp, fsdp, mp or sp", (int)name, at);
        const size_t from = at[name] == ':' ? name + 1 : 0;
        model_import_put_from(draft, ici(draft, axes[axis]), base_copy_bytes(draft->arena, at + from, length - from),
                              slot ? slot->place : (struct model_gin_place){"the software", 0});
        at += length + (at[length] == ',');
    }
    return BASE_OK;
}

enum base_status model_import_easylm(struct import_draft *draft)
{
    int64_t batch, steps;
    int count;
    const struct model_zoo_model *zoo = model_zoo(draft->arena, &count);
    const char *size = model_import_said(draft, ".size", ""), *meant = model_zoo_meant(zoo, count, size);
    if (meant) model_import_put(draft, "model", meant);
    BASE_TRY(put_mesh_dim(draft));
    BASE_TRY(model_import_int(draft, "batch_size", 8, &batch));
    BASE_TRY(model_import_int(draft, "num_microbatches", 1, &steps));
    if (batch > 1 << 24 || steps > 1 << 16)
        return model_import_fail(draft, model_import_slot(draft, "batch_size"), "is larger than any batch");
    model_import_put_int(draft, "batch_size", batch * steps);
    model_import_warn(draft, (struct model_gin_place){"EasyLM", 0},
                      "is predicted as MaxText with this mesh; its own kernels and remat are not modelled");
    return BASE_OK;
}

/* ---- AXLearn ---- */

static const char *setting(const struct import_draft *draft, const char *name)
{
    const struct import_setting *found = model_import_find(&draft->settings, name);
    return found ? found->value : NULL;
}

/* mesh_axis_names[i] and mesh_shape[i]. */
static enum base_status put_mesh_shape(struct import_draft *draft)
{
    static const char *const names[][2] = {{"pipeline", "pipeline"}, {"data", "data"},    {"expert", "expert"},
                                           {"fsdp", "fsdp"},         {"seq", "sequence"}, {"model", "tensor"}};
    enum { MOST_AXES = 8 };
    for (int i = 0; i < MOST_AXES; i++) {
        const char *axis = setting(draft, base_print(draft->arena, "mesh_axis_names[%d]", i)), *ours = NULL;
        const struct import_setting *size =
            model_import_find(&draft->settings, base_print(draft->arena, "mesh_shape[%d]", i));
        if (!axis || !size) break;
        for (int n = 0; n < BASE_COUNT(names); n++) ours = !strcmp(axis, names[n][0]) ? names[n][1] : ours;
        if (!ours)
            return base_fail(draft->error, BASE_INPUT, "%.300s:%d: mesh_axis_names[%d]: \"%.60s\" is unknown",
                             size->place.file, size->place.line, i, axis);
        model_import_put_from(draft, ici(draft, ours), size->value, size->place);
    }
    for (int i = 0; i < draft->settings.count; i++) {
        const struct import_setting *rule = &draft->settings.items[i];
        if (strcmp(rule->name, "mesh_rules[0][0]") != 0) continue;
        model_import_warn(draft, rule->place,
                          "mesh_rules are for --mesh_selector: mesh_shape is used; mesh_shape[I]=N over it, and remat "
                          "of the rule as --remat-policy");
    }
    return BASE_OK;
}

/* scale_fn of the model's width, rounded up to a multiple. */
static enum base_status put_hidden(struct import_draft *draft)
{
    const struct import_slot *slot = model_import_slot(draft, ".mlp_scale");
    double scale;
    int64_t width, multiple;
    struct base_error ignored;
    if (!slot || model_import_slot(draft, "model.mlp_dim")) return BASE_OK;
    BASE_TRY(model_import_int(draft, "model.emb_dim", 0, &width));
    BASE_TRY(model_import_int(draft, ".mlp_multiple", 1, &multiple));
    if (base_parse_double(slot->value, "", 1e-3, 1e3, &scale, &ignored) != BASE_OK || width > 1 << 20 ||
        multiple > 1 << 20)
        return model_import_fail(draft, slot, "\"%.60s\" is no scale of the width", slot->value);
    model_import_put_int(draft, "model.mlp_dim",
                         base_ceil_div((int64_t)ceil((double)width * scale - 1e-9), multiple) * multiple);
    return BASE_OK;
}

enum base_status model_import_axlearn(struct import_draft *draft)
{
    const bool head = setting(draft, "model.decoder.lm_head.klass") != NULL,
               gated = setting(draft, "model.decoder.transformer.layer.feed_forward.activation[1]") != NULL;
    const char *activation = model_import_said(draft, ".activation", NULL);
    if (gated && activation)
        model_import_put(draft, "model.mlp_activations", base_print(draft->arena, "%.20s+linear", activation));
    else if (activation) model_import_put(draft, "model.mlp_activations", activation);
    model_import_default(draft, "model.logits_via_embedding", head ? "0" : "1");
    BASE_TRY(put_hidden(draft));
    return put_mesh_shape(draft);
}

/* "learner.optimizer.b1: 0.9": a name, a colon, and a value as Python prints it. */
enum base_status model_import_printed(struct import_settings *settings, const char *kind, const char *file,
                                      const char *text, size_t length, struct base_error *error)
{
    int line = 1;
    (void)length;
    for (const char *at = text; *at; line++) {
        const size_t all = strcspn(at, "\n");
        const char *colon = strstr(at, ": ");
        if (colon && colon < at + all && *at != '#' && colon - at < 400) {
            const char *value = colon + 2, *end = at + all;
            while (end > value && (end[-1] == '\r' || end[-1] == ' ')) end--;
            const bool quoted = end - value > 1 && (*value == '\'' || *value == '"') && end[-1] == *value;
            const char *said = base_copy_bytes(settings->arena, value + quoted, (size_t)(end - value) - 2 * quoted);
            BASE_TRY(model_import_set(settings, base_copy_bytes(settings->arena, at, (size_t)(colon - at)),
                                      !quoted && !strcmp(said, "None") ? "" : said, kind,
                                      (struct model_gin_place){file, line}, error));
        }
        at += all + (at[all] == '\n');
    }
    return BASE_OK;
}
