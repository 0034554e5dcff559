/* Low-rank adapters for frozen weights: result + scale B(A x) (Hu et al., arXiv:2106.09685; peft's
 * tuners/lora/layer.py). Both matrices are float32; with bfloat16 weights, their products are float32, too. */
#include "model/builder.h"

#include <string.h>

static int product(struct builder *builder, const char *name, const char *which, const char *kernel,
                   const char *equation, const char *declared, enum model_dtype dtype, int x)
{
    const char *path = base_print(builder->arena, "%s/lora_%s/kernel", name, which),
               *of = base_print(builder->arena, "%s/lora_%s", name, which);
    int held = model_builder_parameter_as(builder, path, model_builder_parameter(builder, path, kernel), dtype);
    return builder_contract(builder, of, equation, declared, dtype, MODEL_ROLE_PROJECTION, x, held);
}

int model_builder_adapted(struct builder *builder, enum builder_linear which, const char *name, int x, const char *rows,
                          const char *in, int result, const char *out)
{
    const struct model_options *options = &builder->options;
    if (!options->lora_rank || (options->lora_attention_only && which != BUILDER_ATTENTION_LINEAR)) return result;
    const bool wide = builder_has(builder, MODEL_TRAIT_HF_MODULES) && options->weight_dtype != MODEL_FLOAT32;
    const enum model_dtype dtype = wide ? MODEL_FLOAT32 : builder->dtype;
    const char *same = base_print(builder->arena, "%s->%s", rows, rows), *low = "bqJ", *kernel_a, *kernel_b;
    const char *labels = base_copy(builder->arena, model_builder_get(builder, result)->labels);
    low = base_print(builder->arena, "%.2sJ", rows);
    kernel_a = base_print(builder->arena, "%sJ", in), kernel_b = base_print(builder->arena, "J%s", out);
    int wide_x = builder_in_dtype(builder, base_print(builder->arena, "%s/lora_a/operand", name), x, same, dtype);
    int a = product(builder, name, "a", kernel_a, base_print(builder->arena, "%s,%s->%s", rows, kernel_a, low), NULL,
                    dtype, wide_x);
    int b = product(builder, name, "b", kernel_b, base_print(builder->arena, "%s,%s->%.2s%s", low, kernel_b, rows, out),
                    labels, dtype, a);
    const char *kept = base_print(builder->arena, "%s->%s", labels, labels);
    int scaled = builder_apply(builder, MODEL_MAP, MODEL_SCALE, base_print(builder->arena, "%s/lora_scale", name), kept,
                               dtype, MODEL_ROLE_FUSED, b);
    builder_factor(builder, options->lora_alpha / (double)options->lora_rank);
    return builder_apply(builder, MODEL_MAP, MODEL_ADD, base_print(builder->arena, "%s/adapted", name),
                         base_print(builder->arena, "%s,%s->%s", labels, labels, labels), builder->dtype,
                         (enum model_role)model_builder_get(builder, result)->role, result, scaled);
}

/* ---- the list of parameters ---- */

/* A copy with the rank in place of the input dimensions, or of the output dimensions. */
static struct model_parameter low_rank(struct base_arena *arena, const struct model_parameter *kernel,
                                       const char *which, bool comes_out, bool drops_in, int64_t rank)
{
    struct model_parameter made = {.path = base_print(arena, "%.*s/lora_%s/kernel",
                                                      (int)(strlen(kernel->path) - strlen("/kernel")), kernel->path,
                                                      which)};
    bool has_rank = false;
    for (int d = 0; d < kernel->rank; d++) {
        const bool is_stack = kernel->axes[d] && !strcmp(kernel->axes[d], "layers"),
                   goes_in = comes_out ? d < kernel->rank - 1 : d == 0;
        if (!is_stack && goes_in == drops_in && has_rank) continue;
        const bool replaced = !is_stack && goes_in == drops_in;
        made.axes[made.rank] = replaced ? "lora_rank" : kernel->axes[d];
        made.shape[made.rank++] = replaced ? rank : kernel->shape[d];
        has_rank |= replaced;
    }
    return made;
}

const struct model_parameter *model_adapters(struct base_arena *arena, const struct model_parameter *parameters,
                                             int count, const struct model_options *options, int *out_count)
{
    static const struct {
        const char *path;
        bool attention, comes_out;
    } linears[] = {{"attention/query/kernel", true, false}, {"attention/key/kernel", true, false},
                   {"attention/value/kernel", true, false}, {"attention/out/kernel", true, true},
                   {"mlp/wi/kernel", false, false},         {"mlp/wi_0/kernel", false, false},
                   {"mlp/wi_1/kernel", false, false},       {"mlp/wo/kernel", false, true}};
    struct model_parameter *list = base_new(arena, struct model_parameter, 2 * count + 1);
    *out_count = 0;
    for (int i = 0; i < count; i++)
        for (int l = 0; l < BASE_COUNT(linears); l++) {
            const size_t length = strlen(parameters[i].path), tail = strlen(linears[l].path);
            if (length < tail || strcmp(parameters[i].path + length - tail, linears[l].path) != 0) continue;
            if (options->lora_attention_only && !linears[l].attention) continue;
            list[(*out_count)++] =
                low_rank(arena, &parameters[i], "a", linears[l].comes_out, false, options->lora_rank);
            list[(*out_count)++] = low_rank(arena, &parameters[i], "b", linears[l].comes_out, true, options->lora_rank);
        }
    return list;
}
