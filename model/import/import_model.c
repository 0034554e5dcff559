/* The model: a name that the zoo knows, or one line of sizes. */
#include "model/import/import_draft.h"

#include <string.h>

static const char *const sizes[] = {"emb_dim",
                                    "num_heads",
                                    "num_kv_heads",
                                    "head_dim",
                                    "mlp_dim",
                                    "num_layers",
                                    "vocab_size",
                                    "mlp_activations",
                                    "logits_via_embedding",
                                    "position_encoding",
                                    "norm",
                                    "biases",
                                    "qk_norm",
                                    "num_positions",
                                    "sliding_window",
                                    "sliding_window_every",
                                    "num_experts",
                                    "num_selected_experts",
                                    "expert_mlp_dim"};

static const char *size_of(const struct import_draft *draft, const char *name)
{
    return model_import_said(draft, base_print(draft->arena, "model.%s", name), NULL);
}

static enum base_status find_defaults(struct import_draft *draft)
{
    int64_t width, heads, kv, expansion;
    BASE_TRY(model_import_int(draft, "model.emb_dim", 1, &width));
    BASE_TRY(model_import_int(draft, "model.num_heads", 1, &heads));
    BASE_TRY(model_import_int(draft, "model.num_kv_heads", heads, &kv));
    BASE_TRY(model_import_int(draft, ".expansion", 4, &expansion));
    if (!model_import_slot(draft, "model.head_dim")) {
        if (width % heads)
            return model_import_fail(draft, model_import_slot(draft, "model.emb_dim"),
                                     "%lld is no multiple of %lld heads", (long long)width, (long long)heads);
        model_import_put_int(draft, "model.head_dim", width / heads);
    }
    if (!size_of(draft, "mlp_dim") && width <= 1 << 20 && expansion <= 64)
        model_import_put_int(draft, "model.mlp_dim", expansion * width);
    return BASE_OK;
}

static const char *const needed[] = {"emb_dim", "num_heads", "num_layers", "vocab_size"};

static enum base_status put_line(struct import_draft *draft)
{
    const char *file = draft->settings.count ? draft->settings.items[0].place.file : "";
    struct base_text line = {.arena = draft->arena};
    struct model_config config;
    const bool scans =
        !strcmp(draft->kind, "maxtext") && strcmp(model_import_said(draft, ".scan", "true"), "false") != 0;
    for (int i = 0; i < BASE_COUNT(needed); i++)
        if (!size_of(draft, needed[i]))
            return base_fail(draft->error, BASE_INPUT,
                             "%.300s: the model's %s is not said; give it as KEY=VALUE, or --model NAME", file,
                             needed[i]);
    BASE_TRY(find_defaults(draft));
    base_put(&line, scans ? "scalable_decoder_only:" : "decoder_only:");
    for (int i = 0, any = 0; i < BASE_COUNT(sizes); i++)
        if (size_of(draft, sizes[i]))
            base_putf(&line, "%s%s=%.80s", any++ ? "," : "", sizes[i], size_of(draft, sizes[i]));
    if (model_config_parse(draft->arena, line.data, &config, draft->error) != BASE_OK)
        return base_fail_in(draft->error, "%.300s: the model", file);
    model_import_put(draft, "model", line.data);
    return BASE_OK;
}

enum base_status model_import_model(struct import_draft *draft)
{
    const struct import_slot *slot = model_import_slot(draft, "model");
    int count;
    const struct model_zoo_model *zoo = model_zoo(draft->arena, &count);
    bool any = false;
    for (int i = 0; i < BASE_COUNT(needed); i++) any = any || size_of(draft, needed[i]);
    const bool named = slot && *slot->value && strcmp(slot->value, "default") != 0;
    if (!named) return any ? put_line(draft) : BASE_OK;
    const char *flavor = model_import_said(draft, ".flavor", NULL),
               *name = flavor ? base_print(draft->arena, "%s_%s", slot->value, flavor) : slot->value,
               *meant = model_zoo_meant(zoo, count, name);
    if (!flavor && !meant && !strcmp(draft->kind, "torchtitan")) { /* a family: which one of it, an option says */
        model_import_put(draft, "model", "");
        return BASE_OK;
    }
    model_import_put(draft, "model",
                     base_print(draft->arena, "%s%s", meant ? meant : name, model_import_said(draft, ".changes", "")));
    return BASE_OK;
}
