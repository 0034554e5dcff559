/* Shared by the readers of a gin plan: values checked and stored under a plan's keys, and parameters of callees. */
#include "sim/plan/gin_draft.h"

#include <string.h>

void sim_gin_set(struct sim_gin_draft *draft, enum sim_key key, const char *text, struct model_gin_place place)
{
    draft->plan.text.values[key] = text;
    draft->plan.places[key] = place;
}

/* ---- values ---- */

const char *sim_gin_kind_name(enum model_gin_kind kind)
{
    static const char *const names[] = {"None",    "True or False", "a number",    "a string", "a list",
                                        "a tuple", "a dict",        "a reference", "a macro"};
    return names[kind];
}

bool sim_gin_is_open(struct sim_gin_draft *draft, const char *what, const struct model_gin_value *value,
                     struct model_gin_place place)
{
    if (!value || value->kind == MODEL_GIN_NONE) return true;
    if (value->kind != MODEL_GIN_REFERENCE) return false;
    model_gin_warn(draft->gin, place, "%s: @%.100s computes it when the run starts; ignored", what, value->text);
    return true;
}

enum base_status sim_gin_wrong_kind(const struct sim_gin_draft *draft, const char *what, const char *needed,
                                    const struct model_gin_value *value, struct model_gin_place place)
{
    return model_gin_fail_at(draft->gin, place, "%s: is %s; %s is needed", what, sim_gin_kind_name(value->kind),
                             needed);
}

enum base_status sim_gin_read_whole(const struct sim_gin_draft *draft, const char *what,
                                    const struct model_gin_value *value, struct model_gin_place place, int64_t low,
                                    int64_t *out)
{
    if (value->kind != MODEL_GIN_NUMBER) return sim_gin_wrong_kind(draft, what, "a whole number", value, place);
    if (base_parse_int(value->text, what, low, INT32_MAX, out, draft->gin->error) == BASE_OK) return BASE_OK;
    return model_gin_fail_in(draft->gin, place);
}

enum base_status sim_gin_set_whole(struct sim_gin_draft *draft, enum sim_key key, const struct model_gin_value *value,
                                   struct model_gin_place place, int64_t low)
{
    int64_t number;
    if (sim_gin_is_open(draft, sim_plan_keys[key].name, value, place)) return BASE_OK;
    BASE_TRY(sim_gin_read_whole(draft, sim_plan_keys[key].name, value, place, low, &number));
    sim_gin_set(draft, key, base_print(draft->arena, "%lld", (long long)number), place);
    return BASE_OK;
}

enum base_status sim_gin_set_number(struct sim_gin_draft *draft, enum sim_key key, const struct model_gin_value *value,
                                    struct model_gin_place place)
{
    double number;
    struct base_text text = {.arena = draft->arena};
    if (sim_gin_is_open(draft, sim_plan_keys[key].name, value, place)) return BASE_OK;
    if (value->kind != MODEL_GIN_NUMBER)
        return sim_gin_wrong_kind(draft, sim_plan_keys[key].name, "a number", value, place);
    if (base_parse_double(value->text, sim_plan_keys[key].name, 0, 1e6, &number, draft->gin->error) != BASE_OK)
        return model_gin_fail_in(draft->gin, place);
    base_put_double(&text, number);
    sim_gin_set(draft, key, text.data, place);
    return BASE_OK;
}

struct sim_gin_callee sim_gin_find_callee(struct sim_gin_draft *draft, const char *parameter, const char *scope,
                                          const char *name)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *value = model_gin_get(draft->gin, "", draft->script, parameter, &place);
    if (!value || value->kind != MODEL_GIN_REFERENCE) return (struct sim_gin_callee){scope, name};
    return (struct sim_gin_callee){value->scope, value->text};
}

const struct model_gin_value *sim_gin_get(struct sim_gin_draft *draft, struct sim_gin_callee callee,
                                          const char *parameter, struct model_gin_place *place)
{
    return model_gin_get(draft->gin, callee.scope, callee.name, parameter, place);
}

const struct model_gin_value *sim_gin_get_or_macro(struct sim_gin_draft *draft, struct sim_gin_callee callee,
                                                   const char *parameter, const char *macro,
                                                   struct model_gin_place *place)
{
    if (model_gin_find(draft->gin, callee.scope, callee.name, parameter))
        return sim_gin_get(draft, callee, parameter, place);
    return model_gin_get(draft->gin, "", "", macro, place);
}

void sim_gin_close_value(struct base_json_writer *writer, char bracket)
{
    struct base_text *text = writer->text;
    base_json_close(writer, bracket);
    while (writer->depth == 0 && text->length && text->data[text->length - 1] == '\n')
        text->data[--text->length] = '\0';
}
