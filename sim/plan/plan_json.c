/* Plans as JSON, by the table of keys. */
#include "sim/plan/plan_parts.h"

#include <string.h>

static enum base_status wrong_kind(const char *key, unsigned kinds, const struct base_json *value,
                                   struct base_error *error)
{
    static const struct {
        unsigned kinds;
        const char *name;
    } names[] = {{TEXT, "a string"},
                 {NUMBER, "a number"},
                 {LIST, "a list"},
                 {TEXT | LIST, "a string or a list"},
                 {TEXT | OBJECT, "a string or an object"}};
    const char *needed = "";
    for (int i = 0; i < BASE_COUNT(names); i++)
        if (names[i].kinds == kinds) needed = names[i].name;
    return base_fail(error, BASE_INPUT, "%s: is %s; %s is needed", key, base_json_kind_name(value->kind), needed);
}

static enum base_status join_numbers(struct base_arena *arena, const char *key, const struct base_json *list,
                                     const char **out, struct base_error *error)
{
    struct base_text text = {.arena = arena};
    for (const struct base_json *item = list->child; item; item = item->next) {
        if (item->kind != BASE_JSON_NUMBER)
            return base_fail(error, BASE_INPUT, "%s: contains %s; whole numbers are needed, as in [4, 2, 2, 1]", key,
                             base_json_kind_name(item->kind));
        if (text.length) base_put(&text, ",");
        base_put_double(&text, item->number);
    }
    if (!text.length)
        return base_fail(error, BASE_INPUT, "%s: is an empty list; whole numbers are needed, as in [4, 2, 2, 1]", key);
    *out = text.data;
    return BASE_OK;
}

static bool is_boolean(const struct base_json *value)
{
    return value->kind == BASE_JSON_TRUE || value->kind == BASE_JSON_FALSE;
}

static bool is_switch(enum sim_key key)
{
    const char *value = sim_plan_keys[key].option.value;
    return value && !strcmp(value, "0|1");
}

static enum base_status value_text(struct base_arena *arena, enum sim_key key, const struct base_json *value,
                                   const char **out, struct base_error *error)
{
    struct base_text text = {.arena = arena};
    if (value->kind == BASE_JSON_NULL) return BASE_OK;
    if (is_boolean(value) && is_switch(key)) {
        *out = value->kind == BASE_JSON_TRUE ? "1" : "0";
        return BASE_OK;
    }
    if (!(sim_plan_keys[key].json & (1u << value->kind)))
        return wrong_kind(sim_plan_keys[key].name, sim_plan_keys[key].json, value, error);
    if (value->kind == BASE_JSON_STRING && !*value->string)
        return base_fail(error, BASE_INPUT, "%s: is empty; leave it out for the default", sim_plan_keys[key].name);
    if (value->kind == BASE_JSON_STRING) *out = value->string;
    if (value->kind == BASE_JSON_ARRAY && sim_plan_keys[key].type == SIM_OF_MESH)
        return join_numbers(arena, sim_plan_keys[key].name, value, out, error);
    if (value->kind == BASE_JSON_ARRAY || value->kind == BASE_JSON_OBJECT) {
        struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
        base_json_put_value(&writer, value);
        text.data[--text.length] = '\0'; /* a document ends its line; a value does not */
        *out = text.data;
    }
    if (value->kind == BASE_JSON_NUMBER) {
        base_put_double(&text, value->number);
        *out = text.data;
    }
    return BASE_OK;
}

static enum base_status read_lengths(struct base_arena *arena, const struct base_json *lengths,
                                     struct sim_plan_text *out, struct base_error *error)
{
    if (lengths->kind == BASE_JSON_NUMBER) /* of a decoder, as the option takes it */
        return value_text(arena, SIM_TARGETS_LENGTH, lengths, &out->values[SIM_TARGETS_LENGTH], error);
    if (lengths->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT,
                         "task_feature_lengths: is %s; an object is needed, as in {\"inputs\": 512, \"targets\": 512}",
                         base_json_kind_name(lengths->kind));
    for (const struct base_json *member = lengths->child; member; member = member->next) {
        int key = 0;
        while (key < SIM_KEY_COUNT &&
               (!sim_plan_keys[key].feature || strcmp(sim_plan_keys[key].feature, member->key) != 0))
            key++;
        if (key == SIM_KEY_COUNT)
            return base_fail(error, BASE_INPUT,
                             "task_feature_lengths.%.60s: is no feature of these models; inputs and targets are",
                             member->key);
        BASE_TRY(value_text(arena, (enum sim_key)key, member, &out->values[key], error));
    }
    return BASE_OK;
}

/* Other documents of this program that users give for plans, each recognised by one of its keys. */
static const struct {
    const char *key, *document, *use;
} others[] = {
    {"constants", "a profile", "--profile FILE"},
    {"best", "a search's answer", "report, or the plan in its \"best\""},
    {"plan", "an answer", "report, compare, or the plan in its \"plan\""},
    {"warnings", "an answer", "report, compare, or the plan in its \"plan\" or \"best\""},
};

static enum base_status unknown_key(const char *key, struct base_error *error)
{
    for (int i = 0; i < BASE_COUNT(others); i++)
        if (!strcmp(key, others[i].key))
            return base_fail(error, BASE_INPUT, "\"%s\" is of %s, and a plan is needed; use %s", key,
                             others[i].document, others[i].use);
    static const char *const names[] = {"task_feature_lengths", SIM_KEY_NAMES};
    const char *meant = base_synonym("key", key, strlen(key), BASE_SUGGESTED);
    if (meant) return base_fail(error, BASE_INPUT, "key of a plan: \"%.60s\" is unknown; use %s", key, meant);
    return base_fail_unknown(error, BASE_INPUT, "key of a plan", key, names, BASE_COUNT(names));
}

enum base_status sim_plan_from_json(struct base_arena *arena, const struct base_json *document,
                                    struct sim_plan_text *out, struct base_error *error)
{
    struct sim_plan_text plan = {{0}};
    if (document->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT, "is %s; a plan is an object", base_json_kind_name(document->kind));
    for (const struct base_json *member = document->child; member; member = member->next) {
        if (!strcmp(member->key, "task_feature_lengths")) {
            BASE_TRY(read_lengths(arena, member, &plan, error));
            continue;
        }
        const int key = sim_plan_key_named(member->key);
        if (key < 0) return unknown_key(member->key, error);
        BASE_TRY(value_text(arena, (enum sim_key)key, member, &plan.values[key], error));
    }
    *out = plan;
    return BASE_OK;
}

static void put_axes(const struct topo_axes *axes, struct base_json_writer *writer)
{
    base_json_open_inline(writer, '{');
    for (int i = 0; i < axes->count; i++) base_json_member_int(writer, axes->names[i], axes->sizes[i]);
    base_json_close(writer, '}');
}

static void put_text(struct base_arena *arena, enum sim_key key, const char *text, struct base_json_writer *writer)
{
    const struct base_json *document;
    struct base_error ignored;
    const char *json = key == SIM_SUBMESH ? base_print(arena, "[%s]", text) : text;
    struct topo_axes axes;
    if ((key == SIM_ICI_MESH || key == SIM_DCN_MESH) &&
        topo_axes_parse(arena, text, sim_plan_keys[key].name, &axes, &ignored) == BASE_OK) {
        put_axes(&axes, writer);
        return;
    }
    bool literal = (sim_plan_keys[key].json & NUMBER) ||
                   (sim_plan_keys[key].json & ~(unsigned)TEXT && (*json == '[' || *json == '{'));
    if (literal && base_json_parse(arena, json, strlen(json), &document, &ignored) == BASE_OK)
        base_json_put_value(writer, document);
    else base_json_put_string(writer, text);
}

/* Lengths are written at the position of the first of the two keys. */
static void put_lengths(struct base_arena *arena, const struct sim_plan_text *plan, struct base_json_writer *writer)
{
    base_json_member_open_inline(writer, "task_feature_lengths", '{');
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        if (!sim_plan_keys[key].feature || !sim_key_is_given(plan, (enum sim_key)key)) continue;
        base_json_key(writer, sim_plan_keys[key].feature);
        put_text(arena, (enum sim_key)key, plan->values[key], writer);
    }
    base_json_close(writer, '}');
}

void sim_plan_put_json(struct base_arena *arena, const struct sim_plan_text *plan, struct base_json_writer *writer)
{
    bool lengths = false;
    base_json_open(writer, '{');
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        bool length = sim_plan_keys[key].feature != NULL;
        if (!sim_key_is_given(plan, (enum sim_key)key) || (length && lengths)) continue;
        lengths = lengths || length;
        if (length) {
            put_lengths(arena, plan, writer);
            continue;
        }
        base_json_key(writer, sim_plan_keys[key].name);
        put_text(arena, (enum sim_key)key, plan->values[key], writer);
    }
    base_json_close(writer, '}');
}

void sim_plan_put_member(struct base_json_writer *writer, const char *key, const struct sim_plan_text *plan)
{
    base_json_key(writer, key);
    if (plan) sim_plan_put_json(writer->text->arena, plan, writer);
    else base_json_put_null(writer);
}
