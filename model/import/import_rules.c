/* MaxText's logical_axis_rules in the names that models have here. */
#include "model/import/import_draft.h"

#include <string.h>

/* MaxText's axes: those of weights, then those of activations. base.yml gives the omitted ones. */
static const struct {
    const char *ours, *theirs, *usual[2];
} axes[] = {{"batch", "activation_batch", {"data", "fsdp"}},
            {"mlp", "mlp", {"tensor"}},
            {"heads", "heads", {"tensor"}},
            {"joined_kv", "heads", {"tensor"}},
            {"vocab", "vocab", {"tensor"}},
            {"embed", "embed", {"fsdp"}},
            {"embed", "activation_embed", {"tensor"}}};

/* More than 1 device along it. */
static bool in_mesh(const struct import_draft *draft, const char *axis)
{
    static const char *const levels[] = {"ici", "dcn"};
    for (int i = 0; i < (draft->slice_count > 1 ? 2 : 1); i++)
        if (strcmp(model_import_said(draft, base_print(draft->arena, ".%s.%s", levels[i], axis), "1"), "1") != 0)
            return true;
    return false;
}

static void put_axis(const struct import_draft *draft, const char *axis, struct base_text *out)
{
    if (axis && in_mesh(draft, axis)) base_putf(out, "%s%.60s", out->length ? "+" : "", axis);
}

/* "data+fsdp" of the first rule of that name; NULL: there is none. */
static const char *axes_of(const struct import_draft *draft, const struct base_json *rules, const char *name)
{
    struct base_text text = {.arena = draft->arena};
    for (const struct base_json *rule = rules->child; rule; rule = rule->next) {
        const struct base_json *first = rule->child, *value = first ? first->next : NULL;
        if (!value || first->kind != BASE_JSON_STRING || strcmp(first->string, name) != 0) continue;
        base_put(&text, "");
        put_axis(draft, value->string, &text);
        for (const struct base_json *axis = value->child; axis; axis = axis->next) put_axis(draft, axis->string, &text);
        return text.data;
    }
    return NULL;
}

static void put_rule(struct base_json_writer *writer, struct base_arena *arena, const char *name, const char *value)
{
    base_json_open_inline(writer, '[');
    base_json_put_string(writer, name);
    if (!*value) base_json_put_null(writer);
    else {
        base_json_open_inline(writer, '[');
        for (const char *at = value; *at; at += *at == '+') {
            const size_t length = strcspn(at, "+");
            base_json_put_string(writer, base_copy_bytes(arena, at, length));
            at += length;
        }
        base_json_close(writer, ']');
    }
    base_json_close(writer, ']');
}

/* A file with a mesh of its own has all of its rules; another's are laid over base.yml's. */
static bool replaces(const struct import_draft *draft, const struct import_slot *rules)
{
    const struct import_slot *mesh = model_import_slot(draft, ".mesh_axes");
    return mesh && !strcmp(mesh->place.file, rules->place.file) && !strstr(mesh->place.file, "base.yml");
}

void model_import_rules(struct import_draft *draft)
{
    const struct import_slot *slot = model_import_slot(draft, ".rules");
    const struct base_json *rules;
    struct base_error ignored;
    struct base_text text = {.arena = draft->arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    bool differs = false;
    if (!slot || strstr(slot->place.file, "base.yml")) return;
    if (base_json_parse(draft->arena, slot->value, strlen(slot->value), &rules, &ignored) != BASE_OK) return;
    base_json_open_inline(&writer, '[');
    for (int i = 0; i < BASE_COUNT(axes); i++) {
        const char *said = axes_of(draft, rules, axes[i].theirs);
        struct base_text usual = {.arena = draft->arena};
        base_put(&usual, "");
        for (int u = 0; u < 2; u++) put_axis(draft, axes[i].usual[u], &usual);
        if (!said) said = replaces(draft, slot) ? "" : usual.data;
        const bool again = i && !strcmp(axes[i].ours, axes[i - 1].ours) && !*said;
        differs = differs || strncmp(said, usual.data, usual.length) != 0;
        if (!again) put_rule(&writer, draft->arena, axes[i].ours, said);
    }
    base_json_close(&writer, ']');
    if (!differs) return; /* other axes of base.yml's rules are the software's own business */
    model_import_put(draft, "logical_axis_rules", text.data);
    model_import_warn(draft, slot->place,
                      "only the rules of batch, embed, mlp, heads and vocab are used; others are MaxText's own");
}
