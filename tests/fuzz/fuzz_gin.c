/* Gin: what is read and written again says the same, and a model that is found in it is found again in what is written
 * of it. No file is opened: includes are those that are known. */
#include "tests/fuzz/fuzz.h"

static void put_string(struct base_text *out, const char *text)
{
    base_put(out, "'");
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20) base_putf(out, "\\x%02x", (unsigned)(unsigned char)*text);
        else base_putf(out, "%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    }
    base_put(out, "'");
}

static void put_value(struct base_text *out, const struct model_gin_value *value);

/* Children with their separators; a tuple of one has a comma behind it. */
static void put_children(struct base_text *out, const struct model_gin_value *value, const char *open,
                         const char *close)
{
    int i = 0;
    base_put(out, open);
    for (const struct model_gin_value *child = value->child; child; child = child->next, i++) {
        base_put(out, i == 0 ? "" : value->kind == MODEL_GIN_DICT && i % 2 ? ": " : ", ");
        put_value(out, child);
    }
    FUZZ_CHECK(i == value->count);
    base_put(out, value->kind == MODEL_GIN_TUPLE && i == 1 ? "," : "");
    base_put(out, close);
}

static void put_name(struct base_text *out, char mark, const struct model_gin_value *value)
{
    base_putf(out, "%c%s%s%s%s", mark, value->scope, *value->scope ? "/" : "", value->text, value->called ? "()" : "");
}

static void put_value(struct base_text *out, const struct model_gin_value *value)
{
    switch (value->kind) {
    case MODEL_GIN_NONE: base_put(out, "None"); return;
    case MODEL_GIN_BOOL:
    case MODEL_GIN_NUMBER: base_put(out, value->text); return;
    case MODEL_GIN_STRING: put_string(out, value->text); return;
    case MODEL_GIN_LIST: put_children(out, value, "[", "]"); return;
    case MODEL_GIN_TUPLE: put_children(out, value, "(", ")"); return;
    case MODEL_GIN_DICT: put_children(out, value, "{", "}"); return;
    case MODEL_GIN_REFERENCE: put_name(out, '@', value); return;
    case MODEL_GIN_MACRO: put_name(out, '%', value); return;
    }
}

static const char *print(struct base_arena *arena, const struct model_gin *gin)
{
    struct base_text out = {.arena = arena};
    for (int i = 0; i < gin->binding_count; i++) {
        const struct model_gin_binding *b = &gin->bindings[i];
        base_putf(&out, "%s%s%s%s%s=", b->scope, *b->scope ? "/" : "", b->configurable, *b->configurable ? "." : "",
                  b->parameter);
        put_value(&out, b->value);
        base_put(&out, "\n");
    }
    return out.data ? out.data : "";
}

static struct model_gin *parse(struct base_arena *arena, const char *text)
{
    struct model_gin *gin = NULL;
    struct base_error error = {0};
    enum base_status status = model_gin_parse(arena, "fuzz.gin", text, &gin, &error);
    bool refused = status == BASE_INPUT && error.status == status && strstr(error.text, ".gin:");
    if (status != BASE_OK && !refused) fprintf(stderr, "%s\n", error.text);
    FUZZ_CHECK(status == BASE_OK || refused);
    return status == BASE_OK ? gin : NULL;
}

static void check_model(struct base_arena *arena, struct model_gin *gin)
{
    struct model_gin_model model, again;
    struct base_error error = {0};
    struct base_text written = {.arena = arena};
    bool found = false;
    if (model_gin_model(gin, &model, &found, &error) != BASE_OK) {
        FUZZ_CHECK(error.status == BASE_INPUT && *error.text);
        return;
    }
    if (!found) return;
    struct model_config config;
    FUZZ_CHECK(model_config_parse(arena, model.text, &config, &error) == BASE_OK);
    model_gin_put_model(&model.config, "bfloat16", NULL, &written);
    struct model_gin *rewritten = parse(arena, written.data);
    bool same = rewritten && model_gin_model(rewritten, &again, &found, &error) == BASE_OK && found;
    if (!same) fprintf(stderr, "%s\n%s\n%s\n", model.text, error.text, written.data);
    FUZZ_CHECK(same);
    FUZZ_CHECK(again.config.emb_dim == model.config.emb_dim && again.config.num_heads == model.config.num_heads &&
               again.config.head_dim == model.config.head_dim && again.config.mlp_dim == model.config.mlp_dim &&
               again.config.vocab_size == model.config.vocab_size &&
               again.config.num_encoder_layers == model.config.num_encoder_layers &&
               again.config.num_decoder_layers == model.config.num_decoder_layers &&
               again.config.logits_via_embedding == model.config.logits_via_embedding);
}

/* A plan that is found in it is found again in its JSON form. */
static void check_plan(struct base_arena *arena, struct model_gin *gin)
{
    struct sim_gin_plan plan;
    struct sim_plan_text again;
    struct base_error error = {0};
    struct base_text json = {.arena = arena};
    struct base_json_writer writer = {.text = &json};
    if (sim_plan_from_gin(gin, &plan, &error) != BASE_OK) {
        FUZZ_CHECK(error.status == BASE_INPUT && *error.text);
        return;
    }
    sim_plan_put_json(arena, &plan.text, &writer);
    if (sim_plan_from_json(arena, fuzz_parse(arena, json.data), &again, &error) != BASE_OK) {
        FUZZ_CHECK(error.status == BASE_INPUT); /* a value that is none is written as a string */
        return;
    }
    for (int k = 0; k < SIM_KEY_COUNT; k++)
        if (!fuzz_same(plan.text.values[k], again.values[k]))
            fprintf(stderr, "%s: %s, %s\n%s\n", sim_plan_keys[k].name, plan.text.values[k], again.values[k], json.data);
    for (int k = 0; k < SIM_KEY_COUNT; k++) FUZZ_CHECK(fuzz_same(plan.text.values[k], again.values[k]));
}

static void check(struct base_arena *arena, const char *text, size_t length)
{
    struct model_gin *gin = strlen(text) == length ? parse(arena, text) : NULL;
    if (!gin) return;
    const char *once = print(arena, gin);
    struct model_gin *again = parse(arena, once);
    FUZZ_CHECK(again && fuzz_same(once, print(arena, again)));
    check_model(arena, gin);
    check_plan(arena, gin);
}

FUZZ_TARGET(check, 5000)
