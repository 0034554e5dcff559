/* MaxText: fills -1 in meshes, scales batches by device, reads remat by name or by tensor. */
#include "model/import/import_draft.h"

#include <string.h>

/* Axes in the order of base.yml's mesh_axes, which is that of devices. */
static const char *const axes[] = {"data",           "pipeline",         "fsdp",
                                   "fsdp_transpose", "sequence",         "context",
                                   "tensor",         "tensor_transpose", "tensor_sequence",
                                   "expert",         "autoregressive"};

/* "data=1,fsdp=64,tensor=4"; axes of 1 are left out but for those three, which the rules name. */
static enum base_status put_mesh(struct import_draft *draft, const char *level, const char *key, int64_t devices)
{
    struct base_text text = {.arena = draft->arena};
    int64_t sizes[BASE_COUNT(axes)], product = 1;
    int fills = -1;
    const struct import_slot *any = NULL;
    for (int i = 0; i < BASE_COUNT(axes); i++) {
        const char *name = base_print(draft->arena, ".%s.%s", level, axes[i]);
        const struct import_slot *slot = model_import_slot(draft, name);
        any = slot && slot->place.line ? slot : any;
        sizes[i] = 1;
        if (slot && !strcmp(slot->value, "-1")) {
            if (fills >= 0) return model_import_fail(draft, slot, "-1 is used for two axes; MaxText accepts one");
            fills = i;
            continue;
        }
        BASE_TRY(model_import_int(draft, name, 1, &sizes[i]));
        if (__builtin_mul_overflow(product, sizes[i], &product))
            return model_import_fail(draft, slot, "the mesh is larger than any machine");
    }
    if (!devices) return BASE_OK;
    if (devices % product || (fills < 0 && product != devices))
        return base_fail(draft->error, BASE_INPUT,
                         "%.300s: %s_*_parallelism: the product of the axes is %lld, but there are %lld %s",
                         any ? any->place.file : "MaxText", level, (long long)product, (long long)devices,
                         !strcmp(level, "ici") ? "devices in a slice" : "slices");
    if (fills >= 0) sizes[fills] = devices / product;
    if (sizes[1] > 1)
        model_import_warn(draft, any ? any->place : (struct model_gin_place){"MaxText", 0},
                          "%s_pipeline_parallelism = %lld: MaxText's pipelines are not modelled: its devices are "
                          "predicted as if all computed the same",
                          level, (long long)sizes[1]);
    for (int i = 0; i < BASE_COUNT(axes); i++) {
        const bool always = i == 0 || i == 2 || i == 6;
        if (sizes[i] > 1 || always)
            base_putf(&text, "%s%s=%lld", text.length ? "," : "", i == 1 ? "stage" : axes[i], (long long)sizes[i]);
    }
    model_import_put(draft, key, text.data);
    return BASE_OK;
}

static const char *const tensors[] = {"decoder_layer_input",
                                      "context",
                                      "query_proj",
                                      "key_proj",
                                      "value_proj",
                                      "qkv_proj",
                                      "out_proj",
                                      "mlpwi",
                                      "mlpwi_0",
                                      "mlpwi_1",
                                      "mlpwo"};

static void put_custom(struct import_draft *draft)
{
    static const char *const places[] = {"device", "offload"};
    struct base_text text = {.arena = draft->arena};
    for (int p = 0; p < 2; p++)
        for (int i = 0, any = 0; i < BASE_COUNT(tensors); i++) {
            const char *where = model_import_said(draft, base_print(draft->arena, ".remat.%s", tensors[i]), "remat");
            if (strcmp(where, places[p]) != 0 || (i == 0 && p == 0)) continue; /* the layer's input is there anyway */
            base_putf(&text, "%s%s%s", any ? "+" : text.length ? ";" : "", any ? "" : places[p], any ? "" : ":");
            base_put(&text, tensors[i]);
            any = 1;
        }
    model_import_put(draft, "remat_policy", text.data ? text.data : "full");
}

static enum base_status put_remat(struct import_draft *draft)
{
    static const char *const words[] = {"none", "full", "minimal"};
    const struct import_slot *slot = model_import_slot(draft, "remat_policy");
    if (!slot) return BASE_OK;
    if (!strcmp(slot->value, "custom")) return put_custom(draft), BASE_OK;
    const char *const tensors_kept = model_policy_tensors(slot->value);
    if (tensors_kept) return model_import_put(draft, "remat_policy", tensors_kept), BASE_OK;
    for (int i = 0; i < BASE_COUNT(words); i++)
        if (!strcmp(words[i], slot->value)) return model_import_put(draft, "remat_policy", words[i]), BASE_OK;
    return model_import_fail(
        draft, slot, "MaxText knows no policy \"%.60s\"; full, minimal, save_qkv_proj or custom are some", slot->value);
}

static enum base_status put_batch(struct import_draft *draft)
{
    const struct import_slot *slot = model_import_slot(draft, ".per_device");
    double each;
    int64_t steps;
    struct base_error ignored;
    BASE_TRY(model_import_int(draft, "num_microbatches", 1, &steps));
    if (!slot) return BASE_OK;
    if (base_parse_double(slot->value, "", 1e-6, 1e6, &each, &ignored) != BASE_OK)
        return model_import_fail(draft, slot, "\"%.60s\" is given; a number above 0 is needed", slot->value);
    if (!draft->device_count)
        return model_import_fail(
            draft, slot,
            "the batch is per device, and the number of devices is unknown; give --topology, as in v5e-256");
    const double batch = each * (double)draft->device_count * (double)steps;
    if (batch > 1e12 || (double)(int64_t)(batch + 1e-6) < batch - 1e-6)
        return model_import_fail(draft, slot, "%.60s sequences on each of %lld devices are no whole batch", slot->value,
                                 (long long)draft->device_count);
    model_import_put_int(draft, "batch_size", (int64_t)(batch + 1e-6));
    return BASE_OK;
}

/* base_* of base.yml are for global_parameter_scale 1: each doubling goes to heads and the MLP, the width, the layers
 * in turn (configs/types.py get_individual_scales). */
static enum base_status scale_model(struct import_draft *draft)
{
    static const struct {
        const char *key;
        int rest; /* of three doublings, from which on this one is doubled once more */
    } sizes[] = {{"num_heads", 1},      {"num_kv_heads", 1}, {"mlp_dim", 1},
                 {"expert_mlp_dim", 1}, {"emb_dim", 2},      {"num_layers", 3}};
    int64_t scale, size;
    int doublings = 0;
    BASE_TRY(model_import_int(draft, ".scale", 1, &scale));
    while (doublings < 30 && INT64_C(1) << doublings < scale) doublings++;
    if (INT64_C(1) << doublings != scale)
        return model_import_fail(draft, model_import_slot(draft, ".scale"), "MaxText uses a power of two");
    for (int i = 0; i < BASE_COUNT(sizes) && doublings; i++) {
        const char *key = base_print(draft->arena, "model.%s", sizes[i].key);
        BASE_TRY(model_import_int(draft, key, 0, &size));
        if (!size) continue;
        if (size > 1 << 20) return BASE_OK; /* the model's line refuses it */
        model_import_put_int(draft, key, size << (doublings / 3 + (doublings % 3 >= sizes[i].rest)));
    }
    return BASE_OK;
}

/* A slice of TPUs; on GPUs a node, if the mesh has axes over nodes. */
static bool has_dcn(const struct import_draft *draft)
{
    bool said = !draft->is_gpu;
    for (int i = 0; i < BASE_COUNT(axes); i++)
        said = said || strcmp(model_import_said(draft, base_print(draft->arena, ".dcn.%s", axes[i]), "1"), "1") != 0;
    return said;
}

/* Sizes on the command line of a named model: MaxText refuses them without override_model_config. */
static enum base_status refuse_sizes(struct import_draft *draft)
{
    const char *name = model_import_said(draft, "model", "");
    if (!*name) return BASE_OK;
    struct base_text changes = {.arena = draft->arena};
    for (int i = 0; i < draft->slot_count; i++) {
        const struct import_slot *slot = &draft->slots[i];
        const char *file = slot->place.file;
        if (strncmp(slot->name, "model.", 6) != 0 || strstr(file, ".yml") || strstr(file, ".yaml")) continue;
        if (!slot->place.line && strcmp(file, "the command line") != 0) continue;
        if (!model_import_is_true(model_import_said(draft, ".override", "false")))
            return model_import_fail(draft, slot,
                                     "%.60s has its own, and MaxText refuses another unless "
                                     "override_model_config=True",
                                     name);
        base_putf(&changes, "%c%s=%.80s", changes.length ? ',' : ':', slot->name + 6, slot->value);
    }
    model_import_put(draft, ".changes", changes.data ? changes.data : "");
    return BASE_OK;
}

/* Experts without sparse_matmul have capacity_factor rows each, or all rows, which are not modelled. */
static void put_experts(struct import_draft *draft)
{
    const struct import_slot *dense = model_import_slot(draft, "moe_dispatcher");
    const bool bounded = model_import_slot(draft, "capacity_factor") != NULL;
    if (dense && bounded) return;
    if (dense && model_import_slot(draft, "model.num_experts"))
        model_import_warn(draft, dense->place,
                          "sparse_matmul = False without capacity_factor computes every expert for every token, which "
                          "is not modelled");
    model_import_put(draft, "moe_dispatcher", "");
    model_import_put(draft, "capacity_factor", "");
}

enum base_status model_import_maxtext(struct import_draft *draft)
{
    const bool own = !strcmp(draft->kind, "maxtext"); /* others have its meshes */
    const char *quantized = model_import_said(draft, ".quantization", NULL),
               *heads = model_import_said(draft, ".heads", NULL); /* of queries and keys, until 2023 */
    if (heads) model_import_put(draft, "model.num_heads", heads);
    if (heads) model_import_put(draft, "model.num_kv_heads", heads);
    model_import_defaults(draft);
    model_import_rules(draft);
    const int64_t slices = draft->slice_count && has_dcn(draft) ? draft->slice_count : 1;
    if (own) BASE_TRY(refuse_sizes(draft));
    BASE_TRY(put_mesh(draft, "ici", "ici_mesh", draft->device_count / slices));
    if (slices > 1) BASE_TRY(put_mesh(draft, "dcn", "dcn_mesh", slices));
    if (own) BASE_TRY(put_batch(draft));
    if (own) BASE_TRY(put_remat(draft));
    if (quantized) model_import_put(draft, "dtype", quantized);
    put_experts(draft);
    return scale_model(draft);
}
