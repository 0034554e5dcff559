/* The optimizer of a gin plan, its options and its learning rate. */
#include "sim/plan/gin_draft.h"

#include <string.h>

/* ---- optimizer ---- */

static const struct {
    const char *name, *optimizer, *remark;
} optimizers[] = {
    {"Adafactor", "adafactor", NULL}, {"adafactor", "adafactor", "Optax's adafactor is modelled as T5X's"},
    {"adamw", "adamw", NULL},         {"adam", "adamw", "adam is modelled as adamw, which has the same state"},
    {"lion", "lion", NULL},           {"sgd", "sgd", NULL},
};

static int find_optimizer(const struct model_gin_value *value)
{
    for (int i = 0; value && value->kind == MODEL_GIN_REFERENCE && i < BASE_COUNT(optimizers); i++)
        if (!strcmp(optimizers[i].name, model_gin_last_part(value->text))) return i;
    return -1;
}

/* optimizers.chain applies several transformations one after the other; one of them is the optimizer. */
static const struct model_gin_value *
look_into_chain(struct sim_gin_draft *draft, const struct model_gin_value *optimizer, struct model_gin_place *place)
{
    if (strcmp(model_gin_last_part(optimizer->text), "chain") != 0) return optimizer;
    const struct model_gin_value *list = model_gin_get(draft->gin, optimizer->scope, optimizer->text, "transformations",
                                                       place),
                                 *found = optimizer;
    for (const struct model_gin_value *item = list && list->child ? list->child : NULL; item; item = item->next) {
        if (find_optimizer(item) >= 0) found = item;
        else if (item->kind == MODEL_GIN_REFERENCE)
            model_gin_warn(draft->gin, *place, "@%.80s: has no plan key, and is ignored", item->text);
    }
    return found;
}

/* The constant rate of T5X's scheduler; any other schedule is more than a plan holds. */
static enum base_status read_schedule(struct sim_gin_draft *draft, struct sim_gin_callee schedule)
{
    struct model_gin_place place = {0}, rate_place = {0};
    const struct model_gin_value *factors = sim_gin_get(draft, schedule, "factors", &place),
                                 *rate = sim_gin_get(draft, schedule, "base_learning_rate", &rate_place);
    model_gin_find(draft->gin, schedule.scope, schedule.name, "warmup_steps"); /* says nothing of a constant rate */
    if (!factors || factors->kind != MODEL_GIN_STRING) return BASE_OK;
    if (!strcmp(factors->text, "constant")) return sim_gin_set_number(draft, SIM_LEARNING_RATE, rate, rate_place);
    model_gin_differ(draft->gin, place, "learning rate: a plan's is constant, %s, and this is '%.80s'",
                     sim_plan_keys[SIM_LEARNING_RATE].fallback, factors->text);
    return BASE_OK;
}

/* Optax's optimizers have the rate themselves; T5X's gets it from the trainer. */
static enum base_status read_rate(struct sim_gin_draft *draft, const struct model_gin_value *optimizer)
{
    struct model_gin_place place = {0};
    struct sim_gin_callee trainer = sim_gin_find_callee(draft, "trainer_cls", "", "Trainer");
    const struct model_gin_value *own =
        optimizer ? model_gin_get(draft->gin, optimizer->scope, optimizer->text, "learning_rate", &place) : NULL;
    struct model_gin_place trainer_place = {0};
    const struct model_gin_value *function = sim_gin_get(draft, trainer, "learning_rate_fn", &trainer_place);
    if (own && own->kind != MODEL_GIN_REFERENCE) return sim_gin_set_number(draft, SIM_LEARNING_RATE, own, place);
    if (own) function = own;
    if (own && strcmp(model_gin_last_part(own->text), "create_learning_rate_scheduler") != 0)
        model_gin_differ(draft->gin, place, "learning rate: a plan's is constant, %s; here @%.80s computes it",
                         sim_plan_keys[SIM_LEARNING_RATE].fallback, own->text);
    if (function && function->kind == MODEL_GIN_REFERENCE)
        return read_schedule(draft, (struct sim_gin_callee){function->scope, function->text});
    return read_schedule(draft, (struct sim_gin_callee){"", "create_learning_rate_scheduler"});
}

/* The JSON value of a bound option; false: code computes it. */
static bool put_adafactor_value(struct sim_gin_draft *draft, const struct model_gin_value *value,
                                struct model_gin_place place, struct base_json_writer *writer)
{
    const struct base_json *number;
    struct base_error ignored;
    switch (value->kind) {
    case MODEL_GIN_NONE: return base_json_put_null(writer), true;
    case MODEL_GIN_BOOL: return base_json_put_bool(writer, *value->text == 'T'), true;
    case MODEL_GIN_STRING: return base_json_put_string(writer, value->text), true;
    case MODEL_GIN_NUMBER:
        if (base_json_parse(draft->arena, value->text, strlen(value->text), &number, &ignored) != BASE_OK) return false;
        return base_json_put_value(writer, number), true;
    case MODEL_GIN_REFERENCE:
        /* those of t5x.contrib.moe.adafactor_utils are the standard ones and those of experts, as a model with experts
         * has them anyway */
        base_json_put_string(writer, !strcmp(model_gin_last_part(value->text), "standard_logical_factor_rules") ||
                                             !strcmp(model_gin_last_part(value->text), "logical_factor_rules")
                                         ? "standard"
                                         : model_gin_last_part(value->text));
        return true;
    case MODEL_GIN_DICT: break;
    case MODEL_GIN_LIST:
    case MODEL_GIN_TUPLE:
    case MODEL_GIN_MACRO: return false;
    }
    base_json_open(writer, '{');
    for (const struct model_gin_value *key = value->child; key; key = key->next->next) {
        const struct model_gin_value *kind = model_gin_follow(draft->gin, key->next, &place);
        if (key->kind != MODEL_GIN_STRING) return false;
        base_json_key(writer, key->text);
        if (kind && kind->text && kind->kind != MODEL_GIN_NONE)
            base_json_put_string(writer, model_gin_last_part(kind->text));
        else base_json_put_null(writer);
    }
    base_json_close(writer, '}');
    return true;
}

/* Options in one spelling, to compare them. NULL: they are none. */
const char *sim_gin_canonical_adafactor(struct base_arena *arena, const char *text, struct base_error *error)
{
    struct model_adafactor options;
    struct base_text lines = {.arena = arena};
    if (model_adafactor_parse(arena, text, &options, error) != BASE_OK) return NULL;
    model_adafactor_put_gin(&options, &lines);
    return lines.data;
}

/* One option as a member of the object, unless it is bound to T5X's default. */
static enum base_status read_adafactor_option(struct sim_gin_draft *draft, const struct model_gin_value *optimizer,
                                              const char *name, struct base_json_writer *object)
{
    struct model_gin_place place = {0};
    struct base_text one = {.arena = draft->arena};
    struct base_json_writer writer = {.text = &one, .layout = BASE_JSON_ONE_LINE};
    const struct model_gin_value *value = model_gin_get(draft->gin, optimizer->scope, optimizer->text, name, &place);
    if (!value) return BASE_OK;
    base_json_open(&writer, '{');
    base_json_key(&writer, name);
    if (!put_adafactor_value(draft, value, place, &writer)) {
        model_gin_note(draft->gin, place, "%s: is %s, which has no plan key; ignored", name,
                       sim_gin_kind_name(value->kind));
        return BASE_OK;
    }
    base_json_close(&writer, '}');
    const char *meant = sim_gin_canonical_adafactor(draft->arena, one.data, draft->gin->error);
    if (!meant) return model_gin_fail_in(draft->gin, place);
    if (!strcmp(meant, sim_gin_canonical_adafactor(draft->arena, "{}", draft->gin->error))) return BASE_OK;
    const struct base_json *document;
    BASE_TRY(base_json_parse(draft->arena, one.data, one.length, &document, draft->gin->error));
    base_json_member_value(object, name, document->child);
    draft->plan.places[SIM_ADAFACTOR] = place;
    return BASE_OK;
}

static enum base_status read_adafactor(struct sim_gin_draft *draft, const struct model_gin_value *optimizer)
{
    struct base_text text = {.arena = draft->arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    const char *name;
    base_json_open(&writer, '{');
    for (int i = 0; (name = model_adafactor_option(i)); i++)
        BASE_TRY(read_adafactor_option(draft, optimizer, name, &writer));
    sim_gin_close_value(&writer, '}');
    if (draft->plan.places[SIM_ADAFACTOR].file) draft->plan.text.values[SIM_ADAFACTOR] = text.data;
    return BASE_OK;
}

enum base_status sim_gin_read_optimizer(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *model = draft->model.model, *optimizer = NULL;
    if (model) optimizer = model_gin_get(draft->gin, model->scope, model->text, "optimizer_def", &place);
    if (!optimizer) optimizer = model_gin_get(draft->gin, "", "", "OPTIMIZER", &place);
    if (!optimizer || optimizer->kind != MODEL_GIN_REFERENCE) return read_rate(draft, NULL);
    optimizer = draft->optimizer = look_into_chain(draft, optimizer, &place);
    int which = find_optimizer(optimizer);
    if (which < 0) {
        /* another optimizer in its place would be another answer: the plan's check refuses it, unless another is given
         */
        sim_gin_set(draft, SIM_OPTIMIZER, model_gin_last_part(optimizer->text), place);
        return read_rate(draft, optimizer);
    }
    if (optimizers[which].remark) model_gin_warn(draft->gin, place, "optimizer: %s", optimizers[which].remark);
    sim_gin_set(draft, SIM_OPTIMIZER, optimizers[which].optimizer, place);
    if (!strcmp(optimizers[which].name, "Adafactor")) BASE_TRY(read_adafactor(draft, optimizer));
    return read_rate(draft, optimizer);
}
