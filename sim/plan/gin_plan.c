/* A plan from T5X's gin: follows the run's bindings from train() to partitioner, trainer, data set, optimizer and
 * model. Comment lines "# meshwright: key = value" hold keys that gin lacks. */
#include "sim/plan/gin_draft.h"

#include <stdlib.h>
#include <string.h>

/* ---- model ---- */

static enum base_status set_dtype(struct sim_gin_draft *draft, const char *name, struct model_gin_place place)
{
    static const char *const dtypes[] = {"bfloat16", "float32", "float16"};
    for (int i = 0; i < BASE_COUNT(dtypes); i++)
        if (!strcmp(dtypes[i], name)) return sim_gin_set(draft, SIM_DTYPE, dtypes[i], place), BASE_OK;
    return model_gin_fail_at(draft->gin, place, "dtype: a plan's is bfloat16, float32 or float16, and this is %.60s",
                             name);
}

/* 'bfloat16', or @jax.numpy.bfloat16. */
static enum base_status read_dtype(struct sim_gin_draft *draft, struct sim_gin_callee config)
{
    struct model_gin_place place = draft->model.place;
    const struct model_gin_value *value = sim_gin_get(draft, config, "dtype", &place);
    const char *name = !value ? "float32" : value->text ? model_gin_last_part(value->text) : "";
    if (value && value->kind != MODEL_GIN_STRING && value->kind != MODEL_GIN_REFERENCE)
        return sim_gin_wrong_kind(draft, "dtype", "a string, as in 'bfloat16',", value, place);
    if (!value) model_gin_note(draft->gin, place, "dtype is not bound; T5X's default is float32");
    return set_dtype(draft, name, place);
}

/* Flaxformer's files define a macro for it; their value is the plan's default, and is omitted. */
static enum base_status read_expert_dtype(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *value = model_gin_get(draft->gin, "", "", "ACTIVATION_DTYPE", &place);
    const char *name = value && value->text ? model_gin_last_part(value->text) : "bfloat16";
    if (!draft->model.config.experts.count || !strcmp(name, sim_plan_keys[SIM_DTYPE].fallback)) return BASE_OK;
    return set_dtype(draft, name, place);
}

/* Scanned models: whatever T5X does not know recomputes everything. */
static enum base_status read_remat(struct sim_gin_draft *draft, struct sim_gin_callee config)
{
    struct model_gin_place place = draft->model.place;
    const struct model_gin_value *value = sim_gin_get(draft, config, "remat_policy", &place);
    const char *policy = value && value->kind == MODEL_GIN_STRING ? value->text : "none";
    if (value && value->kind != MODEL_GIN_STRING && value->kind != MODEL_GIN_NONE)
        return sim_gin_wrong_kind(draft, "remat_policy", "a string, as in 'minimal',", value, place);
    bool plain = !strcmp(policy, "none") || !strcmp(policy, "minimal") || !strcmp(policy, "full");
    if (!plain)
        model_gin_note(draft->gin, place,
                       "remat_policy: '%.60s' is unknown to T5X, which recomputes everything, as with 'full'", policy);
    sim_gin_set(draft, SIM_REMAT_POLICY, plain ? policy : "full", place);
    return BASE_OK;
}

/* gin stops at a parameter that the class has not. */
static enum base_status refuse_scan(struct sim_gin_draft *draft, struct sim_gin_callee config)
{
    static const char *const names[] = {"scan_layers", "remat_policy"};
    struct model_gin_place place = {0};
    for (int i = 0; i < BASE_COUNT(names); i++)
        if (sim_gin_get(draft, config, names[i], &place))
            return model_gin_fail_at(draft->gin, place,
                                     "%s: %.120s has no such parameter, and gin would refuse it; import network "
                                     "from t5x.examples.scalable_t5",
                                     names[i], config.name);
    return BASE_OK;
}

static enum base_status read_model(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    BASE_TRY(model_gin_model(draft->gin, &draft->model, &draft->has_model, draft->gin->error));
    if (!draft->has_model) return BASE_OK;
    sim_gin_set(draft, SIM_MODEL, draft->model.text, draft->model.place);
    if (!draft->model.network_config) return read_expert_dtype(draft);
    struct sim_gin_callee config = {draft->model.network_config->scope, draft->model.network_config->text};
    BASE_TRY(read_dtype(draft, config));
    if (!draft->model.config.scan_layers) return refuse_scan(draft, config);
    const struct model_gin_value *scan = sim_gin_get(draft, config, "scan_layers", &place);
    if (scan && scan->kind == MODEL_GIN_BOOL && *scan->text == 'F')
        model_gin_warn(draft->gin, place, "scan_layers: a plan's scalable models are scanned, and this one is not");
    return read_remat(draft, config);
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
               model_rules_parse(arena, b, &rules_b, &ignored) == BASE_OK && sim_gin_same_rules(&rules_a, &rules_b);
    if (key == SIM_ADAFACTOR) {
        const char *one = sim_gin_canonical_adafactor(arena, a, &ignored),
                   *other = sim_gin_canonical_adafactor(arena, b, &ignored);
        return one && other && !strcmp(one, other);
    }
    if (base_parse_double(a, "", -1e300, 1e300, &number_a, &ignored) != BASE_OK ||
        base_parse_double(b, "", -1e300, 1e300, &number_b, &ignored) != BASE_OK)
        return false;
    return !(number_a < number_b || number_a > number_b);
}

/* Keys that gin lacks: the comment adds to the binding, and does not contradict it. */
static bool only_in_comments(enum sim_key key, const char *value)
{
    const struct sim_word *words = sim_plan_keys[key].words;
    for (int i = 0; i < SIM_MOST_WORDS && words[i].name; i++)
        if (!strcmp(words[i].name, value)) return words[i].beyond_gin;
    return key == SIM_REMAT_POLICY && strchr(value, ':'); /* by tensor */
}

static enum base_status take_comment(struct sim_gin_draft *draft, const struct model_gin_comment *comment,
                                     const struct sim_plan_text *bound)
{
    int key = sim_plan_key_named(comment->key);
    struct model_gin_place place = comment->place;
    if (key < 0) {
        static const char *const names[] = {SIM_KEY_NAMES};
        const char *nearest = base_nearest(comment->key, names, SIM_KEY_COUNT);
        model_gin_warn(draft->gin, place, "# meshwright: \"%.60s\" is no key of a plan%s%s%sskipped", comment->key,
                       nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "? " : "; ");
        return BASE_OK;
    }
    if (!*comment->value)
        return model_gin_fail_at(draft->gin, place, "# meshwright: %s has no value; %s = … is needed",
                                 sim_plan_keys[key].name, sim_plan_keys[key].name);
    if (key == SIM_MODEL) return BASE_OK;
    const char *value = key == SIM_SUBMESH ? without_brackets(draft->arena, comment->value) : comment->value,
               *other = bound->values[key];
    bool agrees = !other || same_meaning(draft->arena, (enum sim_key)key, value, other) ||
                  only_in_comments((enum sim_key)key, value);
    if (!agrees)
        return model_gin_fail_at(
            draft->gin, place, "contradiction: %s is %.100s here, and %.100s by %.300s:%d; one of them has to go",
            sim_plan_keys[key].name, value, other, draft->plan.places[key].file, draft->plan.places[key].line);
    sim_gin_set(draft, (enum sim_key)key, value, place);
    return BASE_OK;
}

static const char *default_of(const struct sim_gin_draft *draft, enum sim_key key)
{
    const char *topology = draft->plan.text.values[SIM_TOPOLOGY];
    const struct sim_key_setting setting = {draft->has_model && draft->model.config.scan_layers,
                                            topology && !strncmp(topology, "local", strlen("local")),
                                            draft->plan.text.values[SIM_SOFTWARE]};
    return sim_key_fallback(key, setting);
}

/* "defaults = optimizer, dtype": bound because T5X's defaults are others, and not said by the plan as long as they are
 * its own. */
static void drop_defaults(struct sim_gin_draft *draft, const char *list)
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

static enum base_status take_comments(struct sim_gin_draft *draft)
{
    const struct model_gin *gin = draft->gin;
    struct sim_plan_text bound = draft->plan.text;
    const char *defaults = NULL;
    for (int i = 0; i < gin->comment_count; i++) {
        if (!strcmp(gin->comments[i].key, "defaults")) defaults = gin->comments[i].value;
        else BASE_TRY(take_comment(draft, &gin->comments[i], &bound));
    }
    if (defaults) drop_defaults(draft, defaults);
    return BASE_OK;
}

/* ---- the whole ---- */

/* Bound to a class that the run does not call: gin accepts it without effect. Returns the class called instead, or NULL
 * if the binding would have no effect either way. */
static const char *called_instead(struct sim_gin_draft *draft, const struct model_gin_binding *binding)
{
    static const struct {
        const char *parameter, *class, *caller;
    } rows[] = {{"num_partitions", "Partitioner", "partitioner"},
                {"model_parallel_submesh", "Partitioner", "partitioner"},
                {"num_microbatches", "Trainer", "trainer_cls"}};
    const struct model_gin_value *config = draft->model.network_config;
    struct model_gin_place place = binding->place;
    const char *class = model_gin_last_part(binding->configurable);
    if (config && !strcmp(class, model_gin_last_part(config->text))) return config->text;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        if (strcmp(rows[i].parameter, binding->parameter) != 0 || !base_ends_in(class, rows[i].class)) continue;
        const struct model_gin_value *value = model_gin_follow(draft->gin, binding->value, &place);
        const bool says =
            value && (value->kind == MODEL_GIN_NUMBER ? strtol(value->text, NULL, 10) > 1 : value->count > 0);
        return says ? sim_gin_find_callee(draft, rows[i].caller, "", NULL).name : NULL;
    }
    return NULL;
}

/* A name that is nearly one that is read is most probably that one, misspelt, and the answer another than was meant. */
static void note_skipped(struct sim_gin_draft *draft)
{
    struct model_gin *gin = draft->gin;
    for (int i = 0; i < gin->binding_count; i++) {
        const struct model_gin_binding *binding = &gin->bindings[i];
        if (binding->used || binding->overridden || binding->known) continue;
        const char *meant = model_gin_meant(gin, binding), *instead = called_instead(draft, binding);
        if (meant)
            model_gin_warn(gin, binding->place, "%.200s: unknown, and ignored; did you mean %.200s?", binding->name,
                           meant);
        else if (instead)
            model_gin_warn(gin, binding->place, "%.200s: ignored, as by T5X: this run calls %.200s", binding->name,
                           instead);
        else model_gin_note(gin, binding->place, "%.200s: no part of a plan; ignored", binding->name);
    }
}

enum base_status sim_plan_from_gin(struct model_gin *gin, struct sim_gin_plan *out, struct base_error *error)
{
    static enum base_status (*const readers[])(struct sim_gin_draft *) = {
        sim_gin_check_script,   sim_gin_find_script,    read_model,
        sim_gin_read_dataset,   sim_gin_read_trainer,   sim_gin_read_partitioner,
        sim_gin_read_optimizer, sim_gin_read_inference, sim_gin_say_unheld,
        take_comments};
    struct sim_gin_draft draft = {.gin = gin, .arena = gin->arena, .script = "train"};
    bool any = false;
    gin->error = error;
    for (int i = 0; i < BASE_COUNT(readers); i++) BASE_TRY(readers[i](&draft));
    for (int i = 0; i < SIM_KEY_COUNT; i++) any = any || draft.plan.text.values[i];
    if (!any)
        return base_fail(error, BASE_INPUT,
                         "%.300s: binds no key of a plan; MODEL, TASK_FEATURE_LENGTHS, BATCH_SIZE or "
                         "partitioning.PjitPartitioner would be",
                         gin->name);
    note_skipped(&draft);
    *out = draft.plan;
    return BASE_OK;
}
