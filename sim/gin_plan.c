/* A plan from T5X's gin: what its run binds, followed from train() to partitioner, trainer, data set, optimizer and
 * model, and the comment lines "# meshwright: key = value" for what gin has no word for. */
#include "sim/sim.h"

#include <math.h>
#include <string.h>

/* What is read so far. */
struct draft {
    struct model_gin *gin;
    struct base_arena *arena;
    struct sim_gin_plan plan;
    struct model_gin_model model;
    bool has_model;
};

static void set(struct draft *draft, enum sim_key key, const char *text, struct model_gin_place place)
{
    draft->plan.text.values[key] = text;
    draft->plan.places[key] = place;
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* ---- values ---- */

static const char *kind_name(enum model_gin_kind kind)
{
    static const char *const names[] = {"None",    "True or False", "a number",    "a string", "a list",
                                        "a tuple", "a dict",        "a reference", "a macro"};
    return names[kind];
}

/* True if nothing can be read of it: not bound, None, or made by code that runs later. */
static bool is_open(struct draft *draft, const char *what, const struct model_gin_value *value,
                    struct model_gin_place place)
{
    if (!value || value->kind == MODEL_GIN_NONE) return true;
    if (value->kind != MODEL_GIN_REFERENCE) return false;
    model_gin_note(draft->gin, place, "%s: @%.100s makes it when the run starts; skipped", what, value->text);
    return true;
}

static enum base_status wrong_kind(const char *what, const char *needed, const struct model_gin_value *value,
                                   struct model_gin_place place, struct base_error *error)
{
    return base_fail(error, BASE_INPUT, "%.300s:%d: %s: is %s; %s is needed", place.file, place.line, what,
                     kind_name(value->kind), needed);
}

static enum base_status read_whole(const char *what, const struct model_gin_value *value, struct model_gin_place place,
                                   int64_t low, int64_t *out, struct base_error *error)
{
    if (value->kind != MODEL_GIN_NUMBER) return wrong_kind(what, "a whole number", value, place, error);
    if (base_parse_int(value->text, what, low, INT32_MAX, out, error) == BASE_OK) return BASE_OK;
    return base_fail_in(error, "%.300s:%d", place.file, place.line);
}

static enum base_status set_whole(struct draft *draft, enum sim_key key, const struct model_gin_value *value,
                                  struct model_gin_place place, int64_t low, struct base_error *error)
{
    int64_t number;
    if (is_open(draft, sim_plan_keys[key].name, value, place)) return BASE_OK;
    BASE_TRY(read_whole(sim_plan_keys[key].name, value, place, low, &number, error));
    set(draft, key, base_print(draft->arena, "%lld", (long long)number), place);
    return BASE_OK;
}

static enum base_status set_number(struct draft *draft, enum sim_key key, const struct model_gin_value *value,
                                   struct model_gin_place place, struct base_error *error)
{
    double number;
    struct base_text text = {.arena = draft->arena};
    if (is_open(draft, sim_plan_keys[key].name, value, place)) return BASE_OK;
    if (value->kind != MODEL_GIN_NUMBER) return wrong_kind(sim_plan_keys[key].name, "a number", value, place, error);
    if (base_parse_double(value->text, sim_plan_keys[key].name, 0, 1e6, &number, error) != BASE_OK)
        return base_fail_in(error, "%.300s:%d", place.file, place.line);
    base_put_double(&text, number);
    set(draft, key, text.data, place);
    return BASE_OK;
}

/* Who is called: a reference that train() is bound to, or the class that T5X's own run files bind. */
struct callee {
    const char *scope, *name;
};

static struct callee find_callee(struct draft *draft, const char *parameter, const char *scope, const char *name)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *value = model_gin_get(draft->gin, "", "train", parameter, &place);
    if (!value || value->kind != MODEL_GIN_REFERENCE) return (struct callee){scope, name};
    return (struct callee){value->scope, value->text};
}

static const struct model_gin_value *get(struct draft *draft, struct callee callee, const char *parameter,
                                         struct model_gin_place *place)
{
    return model_gin_get(draft->gin, callee.scope, callee.name, parameter, place);
}

/* The parameter of a class; where that is not bound, the macro that T5X's run files bind it to. */
static const struct model_gin_value *get_or_macro(struct draft *draft, struct callee callee, const char *parameter,
                                                  const char *macro, struct model_gin_place *place)
{
    if (model_gin_find(draft->gin, callee.scope, callee.name, parameter)) return get(draft, callee, parameter, place);
    return model_gin_get(draft->gin, "", "", macro, place);
}

/* ---- data set and trainer ---- */

static enum base_status read_length(struct draft *draft, const struct model_gin_value *feature,
                                    struct model_gin_place place, struct base_error *error)
{
    const struct model_gin_value *length = model_gin_follow(draft->gin, feature->next, &place);
    bool inputs = feature->kind == MODEL_GIN_STRING && !strcmp(feature->text, "inputs"),
         targets = feature->kind == MODEL_GIN_STRING && !strcmp(feature->text, "targets");
    if (inputs || targets)
        return set_whole(draft, inputs ? SIM_INPUTS_LENGTH : SIM_TARGETS_LENGTH, length, place, 1, error);
    model_gin_note(draft->gin, place, "task_feature_lengths: %.60s is no feature of these models; skipped",
                   feature->text ? feature->text : kind_name(feature->kind));
    return BASE_OK;
}

static enum base_status read_dataset(struct draft *draft, struct base_error *error)
{
    struct model_gin_place place = {0};
    struct callee dataset = find_callee(draft, "train_dataset_cfg", "train", "DatasetConfig");
    BASE_TRY(set_whole(draft, SIM_BATCH_SIZE, get_or_macro(draft, dataset, "batch_size", "BATCH_SIZE", &place), place,
                       1, error));
    const struct model_gin_value *lengths =
        get_or_macro(draft, dataset, "task_feature_lengths", "TASK_FEATURE_LENGTHS", &place);
    if (is_open(draft, "task_feature_lengths", lengths, place)) return BASE_OK;
    if (lengths->kind != MODEL_GIN_DICT)
        return wrong_kind("task_feature_lengths", "a dict, as in {'inputs': 512, 'targets': 512},", lengths, place,
                          error);
    for (const struct model_gin_value *feature = lengths->child; feature; feature = feature->next->next)
        BASE_TRY(read_length(draft, feature, place, error));
    if (draft->has_model && !draft->model.config.encoder && draft->plan.text.values[SIM_INPUTS_LENGTH])
        model_gin_note(draft->gin, place,
                       "inputs: a plan's length of a decoder-only model is that of targets alone; a prefix language "
                       "model trains on inputs "
                       "and targets joined");
    return BASE_OK;
}

static enum base_status read_trainer(struct draft *draft, struct base_error *error)
{
    struct model_gin_place place = {0};
    struct callee trainer = find_callee(draft, "trainer_cls", "", "Trainer"), train = {"", "train"};
    BASE_TRY(set_whole(draft, SIM_NUM_MICROBATCHES, get(draft, trainer, "num_microbatches", &place), place, 0, error));
    return set_whole(draft, SIM_SEED, get_or_macro(draft, train, "random_seed", "RANDOM_SEED", &place), place, 0,
                     error);
}

/* Closes what is JSON inside a plan; a document would end its line. */
static void close_value(struct base_json_writer *writer, char bracket)
{
    struct base_text *text = writer->text;
    base_json_close(writer, bracket);
    while (writer->depth == 0 && text->length && text->data[text->length - 1] == '\n')
        text->data[--text->length] = '\0';
}

/* ---- axis rules ---- */

static bool same_axes(const struct model_axes *a, const struct model_axes *b)
{
    bool same = a->count == b->count && a->unconstrained == b->unconstrained;
    for (int i = 0; same && i < a->count; i++)
        same = a->names[i] && b->names[i] ? !strcmp(a->names[i], b->names[i]) : a->names[i] == b->names[i];
    return same;
}

static bool same_rules(const struct model_rules *a, const struct model_rules *b)
{
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++) {
        const char *la = a->rules[i].logical, *lb = b->rules[i].logical;
        same = (la && lb ? !strcmp(la, lb) : la == lb) && same_axes(&a->rules[i].value, &b->rules[i].value);
    }
    return same;
}

/* The name of a set that has these rules, or the list itself. */
static const char *name_rules(struct draft *draft, const char *list, const struct model_rules *rules)
{
    static const char *const names[] = {"standard:1,1", "standard:1,2", "standard:2,1", "standard:2,2", "data_only",
                                        "zero3",        "megatron",     "optimus",      "gshard",       "maxtext"};
    for (int i = 0; i < BASE_COUNT(names); i++) {
        struct model_rules set_of_rules;
        struct base_error ignored;
        if (model_rules_parse(draft->arena, names[i], &set_of_rules, &ignored) == BASE_OK &&
            same_rules(rules, &set_of_rules))
            return names[i];
    }
    return list;
}

/* Writes a name, None, or several names as the JSON of rules; false: it is something else. */
static bool put_axes(struct draft *draft, struct base_json_writer *writer, const struct model_gin_value *value,
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
static bool put_rules(struct draft *draft, struct base_json_writer *writer, const struct model_gin_value *list,
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
static enum base_status set_rules(struct draft *draft, const struct model_rules *before,
                                  const struct model_gin_value *list, struct model_gin_place place,
                                  struct base_error *error)
{
    struct base_text text = {.arena = draft->arena};
    struct base_json_writer writer = {.text = &text, .compact = true};
    struct model_rules rules;
    base_json_open(&writer, '[');
    if (before) put_standard(&writer, before);
    if (!put_rules(draft, &writer, list, place))
        return base_fail(error, BASE_INPUT,
                         "%.300s:%d: logical_axis_rules: pairs of a logical axis and a mesh axis, None or several mesh "
                         "axes are needed, as "
                         "in [('batch', 'data'), ('embed', None)]",
                         place.file, place.line);
    close_value(&writer, ']');
    if (model_rules_parse(draft->arena, text.data, &rules, error) != BASE_OK)
        return base_fail_in(error, "%.300s:%d", place.file, place.line);
    set(draft, SIM_RULES, name_rules(draft, text.data, &rules), place);
    return BASE_OK;
}

static enum base_status read_dims(struct draft *draft, struct callee standard, const char *parameter, int64_t *out,
                                  struct base_error *error)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *value = get(draft, standard, parameter, &place);
    *out = 1;
    if (is_open(draft, parameter, value, place)) return BASE_OK;
    BASE_TRY(read_whole(parameter, value, place, 1, out, error));
    if (*out > 2)
        return base_fail(error, BASE_INPUT, "%.300s:%d: %s: %lld is not supported; use 1 or 2", place.file, place.line,
                         parameter, (long long)*out);
    return BASE_OK;
}

/* T5X's standard_logical_axis_rules with what is bound of it. */
static enum base_status read_standard_rules(struct draft *draft, struct callee standard, struct model_gin_place place,
                                            struct base_error *error)
{
    int64_t activations, parameters;
    struct model_rules rules;
    struct model_gin_place more_place = place;
    BASE_TRY(read_dims(draft, standard, "activation_partitioning_dims", &activations, error));
    BASE_TRY(read_dims(draft, standard, "parameter_partitioning_dims", &parameters, error));
    const char *name = base_print(draft->arena, "standard:%lld,%lld", (long long)activations, (long long)parameters);
    const struct model_gin_value *more = get(draft, standard, "additional_rules", &more_place);
    set(draft, SIM_RULES, name, place);
    if (is_open(draft, "additional_rules", more, more_place) || !more->count) return BASE_OK;
    BASE_TRY(model_rules_parse(draft->arena, name, &rules, error));
    return set_rules(draft, &rules, more, more_place, error);
}

static enum base_status read_rules(struct draft *draft, struct callee partitioner, struct base_error *error)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *rules = get(draft, partitioner, "logical_axis_rules", &place);
    if (!rules || rules->kind == MODEL_GIN_NONE) return BASE_OK;
    if (rules->kind != MODEL_GIN_REFERENCE) return set_rules(draft, NULL, rules, place, error);
    if (!strcmp(last_part(rules->text), "standard_logical_axis_rules"))
        return read_standard_rules(draft, (struct callee){rules->scope, rules->text}, place, error);
    model_gin_note(draft->gin, place,
                   "logical_axis_rules: @%.100s makes them when the run starts; the plan keeps the standard ones",
                   rules->text);
    return BASE_OK;
}

/* ---- partitioner ---- */

static enum base_status read_submesh(struct draft *draft, struct callee partitioner, struct base_error *error)
{
    struct model_gin_place place = {0};
    struct base_text text = {.arena = draft->arena};
    const struct model_gin_value *tile = get(draft, partitioner, "model_parallel_submesh", &place);
    if (is_open(draft, "model_parallel_submesh", tile, place)) return BASE_OK;
    if (tile->kind != MODEL_GIN_TUPLE && tile->kind != MODEL_GIN_LIST)
        return wrong_kind("model_parallel_submesh", "a tuple, as in (4, 2, 2, 1),", tile, place, error);
    for (const struct model_gin_value *item = tile->child; item; item = item->next) {
        int64_t number;
        const struct model_gin_value *value = model_gin_follow(draft->gin, item, &place);
        if (!value) return wrong_kind("model_parallel_submesh", "a whole number", item, place, error);
        BASE_TRY(read_whole("model_parallel_submesh", value, place, 1, &number, error));
        base_putf(&text, "%s%lld", text.length ? "," : "", (long long)number);
    }
    if (text.length) set(draft, SIM_SUBMESH, text.data, place);
    return BASE_OK;
}

static struct callee find_partitioner(struct draft *draft)
{
    static const char *const classes[] = {"PjitPartitioner", "ModelBasedPjitPartitioner"}, *const parameters[] = {
                                                                                               "model_parallel_submesh",
                                                                                               "num_partitions",
                                                                                               "logical_axis_rules"};
    struct callee callee = find_callee(draft, "partitioner", "", NULL);
    for (int i = 0; !callee.name && i < BASE_COUNT(classes); i++)
        for (int j = 0; j < BASE_COUNT(parameters); j++)
            if (model_gin_find(draft->gin, "", classes[i], parameters[j])) callee.name = classes[i];
    return callee;
}

/* T5X tiles by the submesh where both are bound, and says so in its log. */
static enum base_status read_partitioner(struct draft *draft, struct base_error *error)
{
    struct model_gin_place place = {0};
    struct callee partitioner = find_partitioner(draft);
    if (!partitioner.name) return BASE_OK;
    const struct model_gin_value *partitions = get(draft, partitioner, "num_partitions", &place);
    BASE_TRY(set_whole(draft, SIM_NUM_PARTITIONS, partitions, place, 1, error));
    BASE_TRY(read_submesh(draft, partitioner, error));
    if (!draft->plan.text.values[SIM_SUBMESH] || !draft->plan.text.values[SIM_NUM_PARTITIONS])
        return read_rules(draft, partitioner, error);
    if (strcmp(draft->plan.text.values[SIM_NUM_PARTITIONS], "1") != 0)
        model_gin_note(draft->gin, place,
                       "num_partitions: model_parallel_submesh is bound, too, and T5X goes by that; skipped");
    draft->plan.text.values[SIM_NUM_PARTITIONS] = NULL;
    return read_rules(draft, partitioner, error);
}

/* ---- optimizer ---- */

static const struct {
    const char *name, *optimizer, *remark;
} optimizers[] = {
    {"Adafactor", "adafactor", NULL},
    {"adafactor", "adafactor", "Optax's adafactor is taken for T5X's"},
    {"adamw", "adamw", NULL},
    {"adam", "adamw", "adam is taken for adamw, which keeps the same state"},
    {"sgd", "sgd", NULL},
};

static int find_optimizer(const struct model_gin_value *value)
{
    for (int i = 0; value && value->kind == MODEL_GIN_REFERENCE && i < BASE_COUNT(optimizers); i++)
        if (!strcmp(optimizers[i].name, last_part(value->text))) return i;
    return -1;
}

/* optimizers.chain applies several transformations one after the other; one of them is the optimizer. */
static const struct model_gin_value *look_into_chain(struct draft *draft, const struct model_gin_value *optimizer,
                                                     struct model_gin_place *place)
{
    if (strcmp(last_part(optimizer->text), "chain") != 0) return optimizer;
    const struct model_gin_value *list = model_gin_get(draft->gin, optimizer->scope, optimizer->text, "transformations",
                                                       place),
                                 *found = optimizer;
    for (const struct model_gin_value *item = list && list->child ? list->child : NULL; item; item = item->next) {
        if (find_optimizer(item) >= 0) found = item;
        else if (item->kind == MODEL_GIN_REFERENCE)
            model_gin_note(draft->gin, *place, "@%.80s: no plan holds it; skipped", item->text);
    }
    return found;
}

/* The constant rate of T5X's scheduler; any other schedule is more than a plan holds. */
static enum base_status read_schedule(struct draft *draft, struct callee schedule, struct base_error *error)
{
    struct model_gin_place place = {0}, rate_place = {0};
    const struct model_gin_value *factors = get(draft, schedule, "factors", &place),
                                 *rate = get(draft, schedule, "base_learning_rate", &rate_place);
    model_gin_find(draft->gin, schedule.scope, schedule.name, "warmup_steps"); /* says nothing of a constant rate */
    if (!factors || factors->kind != MODEL_GIN_STRING) return BASE_OK;
    if (!strcmp(factors->text, "constant")) return set_number(draft, SIM_LEARNING_RATE, rate, rate_place, error);
    model_gin_note(draft->gin, place, "learning rate: a plan's is constant, and this is '%.80s'; skipped",
                   factors->text);
    return BASE_OK;
}

/* Optax's optimizers have the rate themselves; T5X's gets it from the trainer. */
static enum base_status read_rate(struct draft *draft, const struct model_gin_value *optimizer,
                                  struct base_error *error)
{
    struct model_gin_place place = {0};
    struct callee trainer = find_callee(draft, "trainer_cls", "", "Trainer");
    const struct model_gin_value *own =
        optimizer ? model_gin_get(draft->gin, optimizer->scope, optimizer->text, "learning_rate", &place) : NULL;
    const struct model_gin_value *function = get(draft, trainer, "learning_rate_fn", &place);
    if (own && own->kind != MODEL_GIN_REFERENCE) return set_number(draft, SIM_LEARNING_RATE, own, place, error);
    if (own) function = own;
    if (function && function->kind == MODEL_GIN_REFERENCE)
        return read_schedule(draft, (struct callee){function->scope, function->text}, error);
    return read_schedule(draft, (struct callee){"", "create_learning_rate_scheduler"}, error);
}

/* What a bound option is in the JSON of a plan; false: code makes it. */
static bool put_adafactor_value(struct draft *draft, const struct model_gin_value *value, struct model_gin_place place,
                                struct base_json_writer *writer)
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
        base_json_put_string(writer, !strcmp(last_part(value->text), "standard_logical_factor_rules")
                                         ? "standard"
                                         : last_part(value->text));
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
        if (kind && kind->text && kind->kind != MODEL_GIN_NONE) base_json_put_string(writer, last_part(kind->text));
        else base_json_put_null(writer);
    }
    base_json_close(writer, '}');
    return true;
}

/* Options in one spelling, to compare them. NULL: they are none. */
static const char *canonical_adafactor(struct base_arena *arena, const char *text, struct base_error *error)
{
    struct model_adafactor options;
    struct base_text lines = {.arena = arena};
    if (model_adafactor_parse(arena, text, &options, error) != BASE_OK) return NULL;
    model_adafactor_put_gin(&options, &lines);
    return lines.data;
}

/* One option as a member of the object, unless it is bound to T5X's default. */
static enum base_status read_adafactor_option(struct draft *draft, const struct model_gin_value *optimizer,
                                              const char *name, struct base_json_writer *object,
                                              struct base_error *error)
{
    struct model_gin_place place = {0};
    struct base_text one = {.arena = draft->arena};
    struct base_json_writer writer = {.text = &one, .compact = true};
    const struct model_gin_value *value = model_gin_get(draft->gin, optimizer->scope, optimizer->text, name, &place);
    if (!value) return BASE_OK;
    base_json_open(&writer, '{');
    base_json_key(&writer, name);
    if (!put_adafactor_value(draft, value, place, &writer)) {
        model_gin_note(draft->gin, place, "%s: is %s, which a plan does not hold; skipped", name,
                       kind_name(value->kind));
        return BASE_OK;
    }
    base_json_close(&writer, '}');
    const char *meant = canonical_adafactor(draft->arena, one.data, error);
    if (!meant) return base_fail_in(error, "%.300s:%d", place.file, place.line);
    if (!strcmp(meant, canonical_adafactor(draft->arena, "{}", error))) return BASE_OK;
    const struct base_json *document;
    BASE_TRY(base_json_parse(draft->arena, one.data, one.length, &document, error));
    base_json_key(object, name);
    base_json_put_value(object, document->child);
    draft->plan.places[SIM_ADAFACTOR] = place;
    return BASE_OK;
}

static enum base_status read_adafactor(struct draft *draft, const struct model_gin_value *optimizer,
                                       struct base_error *error)
{
    struct base_text text = {.arena = draft->arena};
    struct base_json_writer writer = {.text = &text, .compact = true};
    const char *name;
    base_json_open(&writer, '{');
    for (int i = 0; (name = model_adafactor_option(i)); i++)
        BASE_TRY(read_adafactor_option(draft, optimizer, name, &writer, error));
    close_value(&writer, '}');
    if (draft->plan.places[SIM_ADAFACTOR].file) draft->plan.text.values[SIM_ADAFACTOR] = text.data;
    return BASE_OK;
}

static enum base_status read_optimizer(struct draft *draft, struct base_error *error)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *model = draft->model.model, *optimizer = NULL;
    if (model) optimizer = model_gin_get(draft->gin, model->scope, model->text, "optimizer_def", &place);
    if (!optimizer) optimizer = model_gin_get(draft->gin, "", "", "OPTIMIZER", &place);
    if (!optimizer || optimizer->kind != MODEL_GIN_REFERENCE) return read_rate(draft, NULL, error);
    optimizer = look_into_chain(draft, optimizer, &place);
    int which = find_optimizer(optimizer);
    if (which < 0) {
        model_gin_note(draft->gin, place, "optimizer: a plan's is adafactor, adamw or sgd, and this is @%.80s; skipped",
                       optimizer->text);
        return read_rate(draft, optimizer, error);
    }
    if (optimizers[which].remark) model_gin_note(draft->gin, place, "optimizer: %s", optimizers[which].remark);
    set(draft, SIM_OPTIMIZER, optimizers[which].optimizer, place);
    if (!strcmp(optimizers[which].name, "Adafactor")) BASE_TRY(read_adafactor(draft, optimizer, error));
    return read_rate(draft, optimizer, error);
}

/* ---- model ---- */

/* 'bfloat16', or @jax.numpy.bfloat16. */
static enum base_status read_dtype(struct draft *draft, struct callee config, struct base_error *error)
{
    static const char *const dtypes[] = {"bfloat16", "float32", "float16"};
    struct model_gin_place place = draft->model.place;
    const struct model_gin_value *value = get(draft, config, "dtype", &place);
    const char *name = !value ? "float32" : value->text ? last_part(value->text) : "";
    if (value && value->kind != MODEL_GIN_STRING && value->kind != MODEL_GIN_REFERENCE)
        return wrong_kind("dtype", "a string, as in 'bfloat16',", value, place, error);
    if (!value) model_gin_note(draft->gin, place, "dtype is not bound; T5X takes float32");
    for (int i = 0; i < BASE_COUNT(dtypes); i++)
        if (!strcmp(dtypes[i], name)) return set(draft, SIM_DTYPE, dtypes[i], place), BASE_OK;
    model_gin_note(draft->gin, place, "dtype: a plan's is bfloat16, float32 or float16, and this is %.60s; skipped",
                   name);
    return BASE_OK;
}

/* Scanned models: whatever T5X does not know recomputes everything. */
static enum base_status read_remat(struct draft *draft, struct callee config, struct base_error *error)
{
    struct model_gin_place place = draft->model.place;
    const struct model_gin_value *value = get(draft, config, "remat_policy", &place);
    const char *policy = value && value->kind == MODEL_GIN_STRING ? value->text : "none";
    if (value && value->kind != MODEL_GIN_STRING && value->kind != MODEL_GIN_NONE)
        return wrong_kind("remat_policy", "a string, as in 'minimal',", value, place, error);
    bool plain = !strcmp(policy, "none") || !strcmp(policy, "minimal") || !strcmp(policy, "full");
    if (!plain)
        model_gin_note(draft->gin, place,
                       "remat_policy: T5X does not know '%.60s', and recomputes everything, as with 'full'", policy);
    set(draft, SIM_REMAT_POLICY, plain ? policy : "full", place);
    return BASE_OK;
}

static enum base_status read_model(struct draft *draft, struct base_error *error)
{
    struct model_gin_place place = {0};
    BASE_TRY(model_gin_model(draft->gin, &draft->model, &draft->has_model, error));
    if (!draft->has_model) return BASE_OK;
    set(draft, SIM_MODEL, draft->model.text, draft->model.place);
    if (!draft->model.network_config) return BASE_OK;
    struct callee config = {draft->model.network_config->scope, draft->model.network_config->text};
    BASE_TRY(read_dtype(draft, config, error));
    if (!draft->model.config.scan_layers) return BASE_OK;
    const struct model_gin_value *scan = get(draft, config, "scan_layers", &place);
    if (scan && scan->kind == MODEL_GIN_BOOL && *scan->text == 'F')
        model_gin_note(draft->gin, place, "scan_layers: a plan's scalable models are scanned; skipped");
    return read_remat(draft, config, error);
}

/* ---- comment lines ---- */

/* "[4, 2, 2, 1]" and "(4,2,2,1)" as "4,2,2,1". */
static const char *without_brackets(struct base_arena *arena, const char *text)
{
    struct base_text out = {.arena = arena};
    base_put(&out, "");
    for (const char *at = text; *at; at++)
        if (!strchr("[]() ", *at)) base_put_bytes(&out, at, 1);
    return out.data;
}

static bool same_meaning(struct base_arena *arena, enum sim_key key, const char *a, const char *b)
{
    struct model_rules rules_a, rules_b;
    struct base_error ignored;
    double number_a, number_b;
    if (!strcmp(a, b) || key == SIM_MODEL) return true; /* models were compared size by size */
    if (key == SIM_RULES)
        return model_rules_parse(arena, a, &rules_a, &ignored) == BASE_OK &&
               model_rules_parse(arena, b, &rules_b, &ignored) == BASE_OK && same_rules(&rules_a, &rules_b);
    if (key == SIM_ADAFACTOR) {
        const char *one = canonical_adafactor(arena, a, &ignored), *other = canonical_adafactor(arena, b, &ignored);
        return one && other && !strcmp(one, other);
    }
    if (base_parse_double(a, "", -1e300, 1e300, &number_a, &ignored) != BASE_OK ||
        base_parse_double(b, "", -1e300, 1e300, &number_b, &ignored) != BASE_OK)
        return false;
    return !(number_a < number_b || number_a > number_b);
}

/* What gin has no word for; then the comment says more than the binding, and not something else. */
static bool only_in_comments(enum sim_key key, const char *value)
{
    const struct sim_word *words = sim_plan_keys[key].words;
    for (int i = 0; i < SIM_MOST_WORDS && words[i].name; i++)
        if (!strcmp(words[i].name, value)) return words[i].beyond_gin;
    return false;
}

static enum base_status take_comment(struct draft *draft, const struct model_gin_comment *comment,
                                     const struct sim_plan_text *bound, struct base_error *error)
{
    int key = sim_plan_key_named(comment->key);
    struct model_gin_place place = comment->place;
    if (key < 0) {
        const char *names[SIM_KEY_COUNT];
        for (int i = 0; i < SIM_KEY_COUNT; i++) names[i] = sim_plan_keys[i].name;
        const char *nearest = base_nearest(comment->key, names, SIM_KEY_COUNT);
        model_gin_note(draft->gin, place, "# meshwright: \"%.60s\" is no key of a plan%s%s%sskipped", comment->key,
                       nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "? " : "; ");
        return BASE_OK;
    }
    if (!*comment->value)
        return base_fail(error, BASE_INPUT, "%.300s:%d: # meshwright: %s has no value; %s = … is needed", place.file,
                         place.line, sim_plan_keys[key].name, sim_plan_keys[key].name);
    if (key == SIM_MODEL) return BASE_OK;
    const char *value = key == SIM_SUBMESH ? without_brackets(draft->arena, comment->value) : comment->value,
               *other = bound->values[key];
    bool agrees = !other || same_meaning(draft->arena, (enum sim_key)key, value, other) ||
                  only_in_comments((enum sim_key)key, value);
    if (!agrees)
        return base_fail(error, BASE_INPUT,
                         "%.300s:%d: contradiction: %s is %.100s here, and %.100s by %.300s:%d; one of them has to go",
                         place.file, place.line, sim_plan_keys[key].name, value, other, draft->plan.places[key].file,
                         draft->plan.places[key].line);
    set(draft, (enum sim_key)key, value, place);
    return BASE_OK;
}

static const char *default_of(const struct draft *draft, enum sim_key key)
{
    const char *topology = draft->plan.text.values[SIM_TOPOLOGY];
    return sim_key_fallback(key, draft->has_model && draft->model.config.scan_layers,
                            topology && !strncmp(topology, "local", strlen("local")));
}

/* "defaults = optimizer, dtype": bound because T5X's defaults are others, and not said by the plan as long as they are
 * its own. */
static void drop_defaults(struct draft *draft, const char *list)
{
    for (const char *at = list; *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        const char *name = base_copy_bytes(draft->arena, at, strcspn(at, ", \t"));
        int key = sim_plan_key_named(name);
        const char *value = key < 0 ? NULL : draft->plan.text.values[key],
                   *fallback = key < 0 ? NULL : default_of(draft, (enum sim_key)key);
        if (value && fallback && same_meaning(draft->arena, (enum sim_key)key, value, fallback))
            draft->plan.text.values[key] = NULL;
    }
}

static enum base_status take_comments(struct draft *draft, struct base_error *error)
{
    const struct model_gin *gin = draft->gin;
    struct sim_plan_text bound = draft->plan.text;
    const char *defaults = NULL;
    for (int i = 0; i < gin->comment_count; i++) {
        if (!strcmp(gin->comments[i].key, "defaults")) defaults = gin->comments[i].value;
        else BASE_TRY(take_comment(draft, &gin->comments[i], &bound, error));
    }
    if (defaults) drop_defaults(draft, defaults);
    return BASE_OK;
}

/* ---- the whole ---- */

static void note_skipped(struct model_gin *gin)
{
    for (int i = 0; i < gin->binding_count; i++) {
        const struct model_gin_binding *binding = &gin->bindings[i];
        if (binding->used || binding->overridden || binding->known) continue;
        model_gin_note(gin, binding->place, "%.200s: no part of a plan; skipped", binding->name);
    }
}

enum base_status sim_plan_from_gin(struct model_gin *gin, struct sim_gin_plan *out, struct base_error *error)
{
    static enum base_status (*const readers[])(struct draft *, struct base_error *) = {
        read_model, read_dataset, read_trainer, read_partitioner, read_optimizer, take_comments};
    struct draft draft = {.gin = gin, .arena = gin->arena};
    bool any = false;
    for (int i = 0; i < BASE_COUNT(readers); i++) BASE_TRY(readers[i](&draft, error));
    for (int i = 0; i < SIM_KEY_COUNT; i++) any = any || draft.plan.text.values[i];
    if (!any)
        return base_fail(error, BASE_INPUT,
                         "%.300s: says nothing that a plan holds; MODEL, TASK_FEATURE_LENGTHS, BATCH_SIZE or "
                         "partitioning.PjitPartitioner would",
                         gin->name);
    note_skipped(gin);
    *out = draft.plan;
    return BASE_OK;
}
