/* The partitioner of a gin plan: submesh or partitions, and the axis rules as T5X builds them. */
#include "sim/plan/gin_draft.h"

#include <string.h>

/* ---- axis rules ---- */

bool sim_gin_same_rules(const struct model_rules *a, const struct model_rules *b)
{
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++) {
        const char *la = a->rules[i].logical, *lb = b->rules[i].logical;
        same = (la && lb ? !strcmp(la, lb) : la == lb) && model_same_axes(&a->rules[i].value, &b->rules[i].value);
    }
    return same;
}

/* The name of a set that has these rules, or the list itself. */
static const char *name_rules(struct sim_gin_draft *draft, const char *list, const struct model_rules *rules)
{
    for (int i = 0; i < MODEL_RULE_SETS; i++) {
        struct model_rules set_of_rules;
        struct base_error ignored;
        if (model_rules_parse(draft->arena, model_rule_sets[i], &set_of_rules, &ignored) == BASE_OK &&
            sim_gin_same_rules(rules, &set_of_rules))
            return model_rule_sets[i];
    }
    return list;
}

/* Writes a name, None, or several names as the JSON of rules; false: it is something else. */
static bool put_axes(struct sim_gin_draft *draft, struct base_json_writer *writer, const struct model_gin_value *value,
                     struct model_gin_place place)
{
    value = model_gin_follow(draft->gin, value, &place);
    if (value && value->kind == MODEL_GIN_STRING) return base_json_put_string(writer, value->text), true;
    if (value && value->kind == MODEL_GIN_NONE) return base_json_put_null(writer), true;
    if (!value || (value->kind != MODEL_GIN_TUPLE && value->kind != MODEL_GIN_LIST)) return false;
    base_json_open(writer, '[');
    bool names = true;
    for (const struct model_gin_value *item = value->child; item && names; item = item->next) {
        names = item->kind == MODEL_GIN_STRING;
        if (names) base_json_put_string(writer, item->text);
    }
    base_json_close(writer, ']');
    return names;
}

/* Rules of gin, ("embed", "model") and so on, at the end of a JSON list that is open. */
static bool put_rules(struct sim_gin_draft *draft, struct base_json_writer *writer, const struct model_gin_value *list,
                      struct model_gin_place place)
{
    bool good = list->kind == MODEL_GIN_LIST || list->kind == MODEL_GIN_TUPLE;
    for (const struct model_gin_value *item = good ? list->child : NULL; item && good; item = item->next) {
        const struct model_gin_value *pair = model_gin_follow(draft->gin, item, &place);
        good = pair && (pair->kind == MODEL_GIN_LIST || pair->kind == MODEL_GIN_TUPLE) && pair->count == 2 &&
               pair->child->kind == MODEL_GIN_STRING;
        if (!good) break;
        base_json_open(writer, '[');
        base_json_put_string(writer, pair->child->text);
        good = put_axes(draft, writer, pair->child->next, place);
        base_json_close(writer, ']');
    }
    return good;
}

static void put_standard(struct base_json_writer *writer, const struct model_rules *rules)
{
    for (int i = 0; i < rules->count; i++) {
        base_json_open(writer, '[');
        base_json_put_string(writer, rules->rules[i].logical);
        base_json_put_string(writer, rules->rules[i].value.count ? rules->rules[i].value.names[0] : NULL);
        base_json_close(writer, ']');
    }
}

/* before: rules that come first (T5X's standard ones), or NULL. */
static enum base_status set_rules(struct sim_gin_draft *draft, const struct model_rules *before,
                                  const struct model_gin_value *list, struct model_gin_place place)
{
    struct base_text text = {.arena = draft->arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    struct model_rules rules;
    base_json_open(&writer, '[');
    if (before) put_standard(&writer, before);
    if (!put_rules(draft, &writer, list, place))
        return model_gin_fail_at(draft->gin, place,
                                 "logical_axis_rules: pairs of a logical axis and a mesh axis, None or several mesh "
                                 "axes are needed, as "
                                 "in [('batch', 'data'), ('embed', None)]");
    sim_gin_close_value(&writer, ']');
    if (model_rules_parse(draft->arena, text.data, &rules, draft->gin->error) != BASE_OK)
        return model_gin_fail_in(draft->gin, place);
    sim_gin_set(draft, SIM_RULES, name_rules(draft, text.data, &rules), place);
    return BASE_OK;
}

static enum base_status read_dims(struct sim_gin_draft *draft, struct sim_gin_callee standard, const char *parameter,
                                  int64_t otherwise, int64_t *out)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *value = sim_gin_get(draft, standard, parameter, &place);
    *out = otherwise;
    if (sim_gin_is_open(draft, parameter, value, place)) return BASE_OK;
    BASE_TRY(sim_gin_read_whole(draft, parameter, value, place, 1, out));
    if (*out > 2)
        return model_gin_fail_at(draft->gin, place, "%s: %lld is not supported; use 1 or 2", parameter,
                                 (long long)*out);
    return BASE_OK;
}

/* T5X's standard_logical_axis_rules with the bound arguments. */
static enum base_status read_standard_rules(struct sim_gin_draft *draft, struct sim_gin_callee standard,
                                            struct model_gin_place place)
{
    int64_t activations, parameters;
    struct model_rules rules;
    struct model_gin_place more_place = place;
    const bool moe = strstr(standard.name, "moe") != NULL; /* t5x.contrib.moe's shards activations by default */
    BASE_TRY(read_dims(draft, standard, "activation_partitioning_dims", moe ? 2 : 1, &activations));
    BASE_TRY(read_dims(draft, standard, "parameter_partitioning_dims", 1, &parameters));
    const char *name = base_print(draft->arena, "%s:%lld,%lld", moe ? "standard_moe" : "standard",
                                  (long long)activations, (long long)parameters);
    const struct model_gin_value *more = sim_gin_get(draft, standard, "additional_rules", &more_place);
    sim_gin_set(draft, SIM_RULES, name, place);
    if (sim_gin_is_open(draft, "additional_rules", more, more_place) || !more->count) return BASE_OK;
    BASE_TRY(model_rules_parse(draft->arena, name, &rules, draft->gin->error));
    return set_rules(draft, &rules, more, more_place);
}

static bool is_moe(struct sim_gin_callee partitioner)
{
    return !strcmp(model_gin_last_part(partitioner.name), "MoePjitPartitioner");
}

/* Older files of t5x.contrib.moe call it num_experts. */
static enum base_status read_experts(struct sim_gin_draft *draft, struct sim_gin_callee partitioner)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *experts = sim_gin_get(draft, partitioner, "num_expert_partitions", &place);
    if (!is_moe(partitioner)) return BASE_OK;
    if (!experts) experts = sim_gin_get(draft, partitioner, "num_experts", &place);
    return sim_gin_set_whole(draft, SIM_NUM_EXPERT_PARTITIONS, experts, place, 1);
}

static bool says_rules(const struct model_gin *gin)
{
    bool says = false;
    for (int i = 0; i < gin->comment_count; i++)
        says = says || !strcmp(gin->comments[i].key, sim_plan_keys[SIM_RULES].name);
    return says;
}

static enum base_status read_rules(struct sim_gin_draft *draft, struct sim_gin_callee partitioner)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *rules = sim_gin_get(draft, partitioner, "logical_axis_rules", &place);
    bool open = !rules || rules->kind == MODEL_GIN_NONE;
    if (open && is_moe(partitioner))
        sim_gin_set(draft, SIM_RULES, "standard_moe:2,1", draft->plan.places[SIM_NUM_EXPERT_PARTITIONS]);
    if (open) return BASE_OK;
    if (rules->kind != MODEL_GIN_REFERENCE) return set_rules(draft, NULL, rules, place);
    if (!strcmp(model_gin_last_part(rules->text), "standard_logical_axis_rules"))
        return read_standard_rules(draft, (struct sim_gin_callee){rules->scope, rules->text}, place);
    if (says_rules(draft->gin)) return BASE_OK;
    return model_gin_fail_at(draft->gin, place,
                             "logical_axis_rules: @%.100s computes them when the run starts; add a line \"# "
                             "meshwright: logical_axis_rules = …\" to the file",
                             rules->text);
}

/* ---- partitioner ---- */

static enum base_status read_submesh(struct sim_gin_draft *draft, struct sim_gin_callee partitioner)
{
    struct model_gin_place place = {0};
    struct base_text text = {.arena = draft->arena};
    const struct model_gin_value *tile = sim_gin_get(draft, partitioner, "model_parallel_submesh", &place);
    if (sim_gin_is_open(draft, "model_parallel_submesh", tile, place)) return BASE_OK;
    if (tile->kind != MODEL_GIN_TUPLE && tile->kind != MODEL_GIN_LIST)
        return sim_gin_wrong_kind(draft, "model_parallel_submesh", "a tuple, as in (4, 2, 2, 1),", tile, place);
    for (const struct model_gin_value *item = tile->child; item; item = item->next) {
        int64_t number;
        const struct model_gin_value *value = model_gin_follow(draft->gin, item, &place);
        if (!value) return sim_gin_wrong_kind(draft, "model_parallel_submesh", "a whole number", item, place);
        BASE_TRY(sim_gin_read_whole(draft, "model_parallel_submesh", value, place, 1, &number));
        base_putf(&text, "%s%lld", text.length ? "," : "", (long long)number);
    }
    if (text.length) sim_gin_set(draft, SIM_SUBMESH, text.data, place);
    return BASE_OK;
}

static struct sim_gin_callee find_partitioner(struct sim_gin_draft *draft)
{
    static const char *const classes[] = {"MoePjitPartitioner", "PjitPartitioner", "ModelBasedPjitPartitioner"},
                             *const parameters[] = {"model_parallel_submesh", "num_partitions", "logical_axis_rules"};
    struct sim_gin_callee callee = sim_gin_find_callee(draft, "partitioner", "", NULL);
    for (int i = 0; !callee.name && i < BASE_COUNT(classes); i++)
        for (int j = 0; j < BASE_COUNT(parameters); j++)
            if (model_gin_find(draft->gin, "", classes[i], parameters[j])) callee.name = classes[i];
    return callee;
}

/* T5X tiles by the submesh where both are bound, and says so in its log. */
enum base_status sim_gin_read_partitioner(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    struct sim_gin_callee partitioner = find_partitioner(draft);
    if (!partitioner.name) return BASE_OK;
    const struct model_gin_value *partitions = sim_gin_get(draft, partitioner, "num_partitions", &place);
    BASE_TRY(sim_gin_set_whole(draft, SIM_NUM_PARTITIONS, partitions, place, 1));
    BASE_TRY(read_submesh(draft, partitioner));
    BASE_TRY(read_experts(draft, partitioner));
    if (!draft->plan.text.values[SIM_SUBMESH] || !draft->plan.text.values[SIM_NUM_PARTITIONS])
        return read_rules(draft, partitioner);
    if (strcmp(draft->plan.text.values[SIM_NUM_PARTITIONS], "1") != 0)
        model_gin_note(draft->gin, place,
                       "num_partitions: model_parallel_submesh is bound, too, and T5X uses that; ignored");
    draft->plan.text.values[SIM_NUM_PARTITIONS] = NULL;
    return read_rules(draft, partitioner);
}
