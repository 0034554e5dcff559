/* The model: a name that the zoo knows, or one line of sizes. */
#include "model/import/import_draft.h"

#include <string.h>

extern const struct base_table embedded_model_import_torchtitan_flavors_csv;
static const struct base_table *const flavors = &embedded_model_import_torchtitan_flavors_csv;

static const char *size_of(const struct import_draft *draft, const char *name)
{
    return model_import_said(draft, base_print(draft->arena, "model.%s", name), NULL);
}

static enum base_status find_defaults(struct import_draft *draft)
{
    int64_t width, heads, kv;
    double expansion = 4;
    BASE_TRY(model_import_int(draft, "model.emb_dim", 1, &width));
    BASE_TRY(model_import_int(draft, "model.num_heads", 1, &heads));
    BASE_TRY(model_import_int(draft, "model.num_kv_heads", heads, &kv));
    const struct import_slot *wider = model_import_slot(draft, ".expansion");
    if (wider) BASE_TRY(base_parse_double(wider->value, wider->from, 0, 64, &expansion, draft->error));
    if (!model_import_slot(draft, "model.head_dim")) {
        if (width % heads)
            return model_import_fail(draft, model_import_slot(draft, "model.emb_dim"),
                                     "%lld is no multiple of %lld heads", (long long)width, (long long)heads);
        model_import_put_int(draft, "model.head_dim", width / heads);
    }
    if (!size_of(draft, "mlp_dim") && width <= 1 << 20)
        model_import_put_int(draft, "model.mlp_dim", (int64_t)(expansion * (double)width));
    return BASE_OK;
}

/* Latent attention: ranks, and a head's two parts; experts that every token passes, as one wide MLP. */
static enum base_status put_latent(struct import_draft *draft)
{
    static const char *const parts[] = {"q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "v_head_dim"};
    int64_t plain, turned, shared, width;
    BASE_TRY(model_import_int(draft, ".shared_experts", 0, &shared));
    BASE_TRY(model_import_int(draft, size_of(draft, "expert_mlp_dim") ? "model.expert_mlp_dim" : "model.mlp_dim", 0,
                              &width));
    if (shared && shared < 1 << 10 && width < 1 << 20 && !size_of(draft, "shared_expert_mlp_dim"))
        model_import_put_int(draft, "model.shared_expert_mlp_dim", shared * width);
    if (strcmp(model_import_said(draft, ".attention_type", ""), "mla") != 0) return BASE_OK;
    if (size_of(draft, "qk_norm")) model_import_put(draft, "model.qk_norm", "0"); /* of its ranks, which it has */
    BASE_TRY(model_import_int(draft, ".qk_nope_head_dim", 0, &plain));
    BASE_TRY(model_import_int(draft, ".qk_rope_head_dim", 0, &turned));
    if (plain < 1 << 12 && turned < 1 << 12) model_import_put_int(draft, "model.head_dim", plain + turned);
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        const char *value = model_import_said(draft, base_print(draft->arena, ".%s", parts[i]), NULL);
        if (value) model_import_put(draft, base_print(draft->arena, "model.%s", parts[i]), value);
    }
    return BASE_OK;
}

static const char *const needed[] = {"emb_dim", "num_heads", "num_layers", "vocab_size"};

/* Keys that software ignores in a model without experts. */
static bool is_of_experts(const char *name)
{
    return strstr(name, "expert") || strstr(name, "router") || !strcmp(name, "first_dense_layers");
}

static enum base_status put_line(struct import_draft *draft)
{
    const char *file = draft->settings.count ? draft->settings.items[0].place.file : "";
    struct base_text line = {.arena = draft->arena};
    struct model_config config;
    for (int i = 0; i < BASE_COUNT(needed); i++)
        if (!size_of(draft, needed[i]))
            return base_fail(draft->error, BASE_INPUT,
                             "%.300s: the model's %s is missing; give it as KEY=VALUE, or --model NAME", file,
                             needed[i]);
    BASE_TRY(put_latent(draft));
    BASE_TRY(find_defaults(draft));
    const bool routes = size_of(draft, "num_experts") != NULL;
    /* Latent attention and dense layers before experts are known for scanned layers alone. */
    const bool scans = size_of(draft, "kv_lora_rank") || (routes && size_of(draft, "first_dense_layers")) ||
                       !strcmp(draft->kind, "maxtext") || !strcmp(draft->kind, "easylm") ||
                       !strcmp(draft->kind, "axlearn");
    base_put(&line, scans ? "scalable_decoder_only:" : "decoder_only:");
    const char *name;
    for (int i = 0, any = 0; (name = model_config_key_name(i)) != NULL; i++) {
        const char *value = size_of(draft, name);
        if (value && (routes || !is_of_experts(name))) base_putf(&line, "%s%s=%.80s", any++ ? "," : "", name, value);
    }
    if (model_config_parse(draft->arena, line.data, &config, draft->error) != BASE_OK)
        return base_fail_in(draft->error, "%.300s: the model", file);
    model_import_put(draft, "model", line.data);
    return BASE_OK;
}

/* The zoo's name of torchtitan's own configuration; fallback: it has no such. */
static const char *flavored(const char *name, const char *flavor, const char *fallback)
{
    for (int row = 0; row < flavors->row_count; row++)
        if (!strcmp(base_table_value(flavors, row, "name"), name) &&
            !strcmp(base_table_value(flavors, row, "flavor"), flavor))
            return base_table_value(flavors, row, "zoo");
    return fallback;
}

/* Sizes that a file says beside a name change it. A head's width that is the model's over its heads follows them. */
static enum base_status put_changes(struct import_draft *draft, const char *name)
{
    struct base_text line = {.arena = draft->arena};
    struct model_config config;
    struct base_error ignored;
    int64_t width, heads;
    if (model_import_slot(draft, ".changes") || model_config_parse(draft->arena, name, &config, &ignored) != BASE_OK)
        return BASE_OK;
    BASE_TRY(model_import_int(draft, "model.emb_dim", config.emb_dim, &width));
    BASE_TRY(model_import_int(draft, "model.num_heads", config.num_heads, &heads));
    for (int i = 0; i < draft->slot_count; i++) {
        const struct import_slot *slot = &draft->slots[i];
        if (!strncmp(slot->name, "model.", 6) && *slot->value && slot->place.line)
            base_putf(&line, "%c%s=%.80s", line.length ? ',' : ':', slot->name + 6, slot->value);
    }
    const bool follows = config.emb_dim == config.num_heads * config.head_dim && width % heads == 0;
    if (line.length && follows && width / heads != config.head_dim && !size_of(draft, "head_dim"))
        base_putf(&line, ",head_dim=%lld", (long long)(width / heads));
    model_import_put(draft, ".changes", line.data ? line.data : "");
    return BASE_OK;
}

/* TRL has adapters where use_peft says so, whatever their rank. */
static void warn_of_rank(struct import_draft *draft)
{
    const struct import_slot *rank = model_import_slot(draft, ".lora_r");
    if (rank && !model_import_slot(draft, "lora_rank") && !model_import_slot(draft, ".adapter"))
        model_import_warn(draft, rank->place, "%.40s alone makes no adapter: all parameters train; %s adds one",
                          rank->from, !strcmp(draft->kind, "axolotl") ? "adapter: lora" : "--use_peft");
}

enum base_status model_import_model(struct import_draft *draft)
{
    const struct import_slot *slot = model_import_slot(draft, "model");
    int count;
    const struct model_zoo_model *zoo = model_zoo(draft->arena, &count);
    bool any = false;
    warn_of_rank(draft);
    for (int i = 0; i < BASE_COUNT(needed); i++) any = any || size_of(draft, needed[i]);
    const bool named = slot && *slot->value && strcmp(slot->value, "default") != 0;
    if (!named) return any ? put_line(draft) : BASE_OK;
    const char *flavor = model_import_said(draft, ".flavor", NULL),
               *name = flavor ? base_print(draft->arena, "%s_%s", slot->value, flavor) : slot->value,
               *meant = model_zoo_meant(zoo, count, name);
    if (flavor) meant = flavored(slot->value, flavor, meant);
    if (flavor && !meant) meant = model_zoo_meant(zoo, count, flavor); /* "Llama-2-7b" is the model itself */
    const bool family = !flavor && !meant && !strcmp(draft->kind, "torchtitan");
    if (!meant && !family)
        model_import_warn(draft, slot->place,
                          "%.100s is an unknown model; use --model with its name, its sizes, or @config.json", name);
    if (family) { /* a family: which one of it, an option says */
        model_import_put(draft, "model", "");
        return BASE_OK;
    }
    BASE_TRY(put_changes(draft, meant ? meant : name));
    model_import_put(draft, "model",
                     base_print(draft->arena, "%s%s", meant ? meant : name, model_import_said(draft, ".changes", "")));
    return BASE_OK;
}
