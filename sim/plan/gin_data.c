/* The data of a gin plan: the file's script, features and their lengths, batch, microbatches, seed, dropout and loss.
 */
#include "sim/plan/gin_draft.h"

#include <stdlib.h>
#include <string.h>

/* ---- the script ---- */

/* Bindings tell the script of a run file: train.py's train, infer.py's infer, … A script without a model is no plan. */
static const struct {
    const char *configurable, *parameter, *what, *instead;
} scripts[] = {
    {"save", "model", "exports a model for serving", "of training, or of infer.py"},
    {"save", "create_preprocessor_fn", "exports a model for serving", "of training, or of infer.py"},
    {"evaluate", "remote_addresses", "calls a prediction service, and computes nothing itself",
     "of infer.py, or of eval.py with a model"},
};

/* Parameters of train() of T5X's train.py, of all its versions; a loop that takes others is someone's own. */
static const char train_parameters[] =
    "model train_dataset_cfg train_eval_dataset_cfg infer_eval_dataset_cfg checkpoint_cfg partitioner "
    "trainer_cls model_dir total_steps eval_steps eval_period relative_steps stats_period random_seed "
    "use_hardware_rng summarize_config_fn inference_evaluator_cls get_dataset_fn concurrent_metrics "
    "actions train_eval_get_dataset_fn run_eval_before_training train_state_initializer_cls use_gda "
    "use_orbax verify_matching_vocabs_fn gc_period training_eval_average_metrics";

/* A function of __main__ that is given a model, or a parameter that T5X's function lacks: the step that it makes is not
 * T5X's. */
static enum base_status check_main(const struct model_gin *gin)
{
    static const char prefix[] = "__main__.";
    static const char *const known[] = {"train", "precompile", "infer", "evaluate"};
    for (int i = 0; i < gin->binding_count; i++) {
        const struct model_gin_binding *binding = &gin->bindings[i];
        if (binding->known || strncmp(binding->configurable, prefix, sizeof prefix - 1) != 0) continue;
        const char *function = binding->configurable + sizeof prefix - 1;
        const bool is_known = base_has_word(BASE_COUNT(known), known, function);
        const bool lacks =
            !strcmp(function, "train") && !base_lists(train_parameters, binding->parameter, strlen(binding->parameter));
        if (!lacks && (is_known || strcmp(binding->parameter, "model") != 0)) continue;
        return model_gin_fail_at(gin, binding->place,
                                 "%.120s: %s; the step of a custom script is unknown: give a run file of T5X's "
                                 "train.py, precompile.py, infer.py or eval.py",
                                 binding->name,
                                 lacks ? "T5X's train has no such parameter" : "no script of T5X has this function");
    }
    return BASE_OK;
}

enum base_status sim_gin_check_script(struct sim_gin_draft *draft)
{
    BASE_TRY(check_main(draft->gin));
    for (int i = 0; i < BASE_COUNT(scripts); i++) {
        const struct model_gin_binding *binding =
            model_gin_find(draft->gin, "", scripts[i].configurable, scripts[i].parameter);
        if (!binding || binding->value->kind == MODEL_GIN_NONE || model_gin_find(draft->gin, "", "train", "model"))
            continue;
        return model_gin_fail_at(draft->gin, binding->place,
                                 "the file %s (%.120s), which is no step of training; give a run file %s",
                                 scripts[i].what, binding->name, scripts[i].instead);
    }
    return BASE_OK;
}

/* ---- data set and trainer ---- */

/* Features as tasks name them, and as a packed batch does. Where two name one length, the first of this list counts; an
 * absent one has the length of one present. */
static const struct {
    const char *name;
    enum sim_key key;
} features[] = {
    {"inputs", SIM_INPUTS_LENGTH},
    {"encoder_input_tokens", SIM_INPUTS_LENGTH},
    {"targets", SIM_TARGETS_LENGTH},
    {"decoder_target_tokens", SIM_TARGETS_LENGTH},
};

static bool is_companion(const char *name)
{
    return !strncmp(name, "encoder_", strlen("encoder_")) || !strncmp(name, "decoder_", strlen("decoder_"));
}

static enum base_status read_length(struct sim_gin_draft *draft, const struct model_gin_value *feature,
                                    struct model_gin_place place)
{
    const struct model_gin_value *length = model_gin_follow(draft->gin, feature->next, &place);
    const char *name = feature->kind == MODEL_GIN_STRING ? feature->text : sim_gin_kind_name(feature->kind);
    for (int i = 0; i < BASE_COUNT(features); i++) {
        if (strcmp(features[i].name, name) != 0) continue;
        bool again = draft->plan.text.values[features[i].key] && is_companion(name);
        return again ? BASE_OK : sim_gin_set_whole(draft, features[i].key, length, place, 1);
    }
    if (!is_companion(name))
        model_gin_warn(draft->gin, place, "task_feature_lengths: %.60s is no feature of these models, and left out",
                       name);
    return BASE_OK;
}

/* A decoder is trained on inputs and targets joined (seqio's PrefixLMFeatureConverter). */
static void join_lengths(struct sim_gin_draft *draft, struct model_gin_place place)
{
    const char **values = draft->plan.text.values;
    if (!draft->has_model || draft->model.config.encoder || !values[SIM_INPUTS_LENGTH] || !values[SIM_TARGETS_LENGTH])
        return;
    long inputs = strtol(values[SIM_INPUTS_LENGTH], NULL, 10), targets = strtol(values[SIM_TARGETS_LENGTH], NULL, 10);
    model_gin_warn(draft->gin, place,
                   "task_feature_lengths: a decoder sees inputs and targets joined, %ld and %ld: the plan's length is "
                   "%ld, and all of them are counted as tokens",
                   inputs, targets, inputs + targets);
    values[SIM_INPUTS_LENGTH] = NULL;
    sim_gin_set(draft, SIM_TARGETS_LENGTH, base_print(draft->arena, "%ld", inputs + targets), place);
}

enum base_status sim_gin_read_dataset(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    struct sim_gin_callee dataset = sim_gin_infers(draft)
                                        ? sim_gin_find_callee(draft, "dataset_cfg", "", "DatasetConfig")
                                        : sim_gin_find_callee(draft, "train_dataset_cfg", "train", "DatasetConfig");
    BASE_TRY(sim_gin_set_whole(draft, SIM_BATCH_SIZE,
                               sim_gin_get_or_macro(draft, dataset, "batch_size", "BATCH_SIZE", &place), place, 1));
    const struct model_gin_value *lengths =
        sim_gin_get_or_macro(draft, dataset, "task_feature_lengths", "TASK_FEATURE_LENGTHS", &place);
    if (lengths && lengths->kind == MODEL_GIN_NONE)
        model_gin_warn(draft->gin, place,
                       "task_feature_lengths: None: T5X uses the longest of its data, which is unknown; give "
                       "--task-feature-lengths");
    if (sim_gin_is_open(draft, "task_feature_lengths", lengths, place)) return BASE_OK;
    if (lengths->kind != MODEL_GIN_DICT)
        return sim_gin_wrong_kind(draft, "task_feature_lengths", "a dict, as in {'inputs': 512, 'targets': 512},",
                                  lengths, place);
    for (const struct model_gin_value *feature = lengths->child; feature; feature = feature->next->next)
        BASE_TRY(read_length(draft, feature, place));
    join_lengths(draft, place);
    return BASE_OK;
}

/* ---- dropout and loss ---- */

/* Only where it is more than nothing; a file that leaves it open (gin.REQUIRED) cannot be trained by T5X as it is. */
static enum base_status read_dropout(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    double rate;
    const struct model_gin_value *config = draft->has_model ? draft->model.network_config : NULL;
    const bool layers = model_gin_is_flaxformer(config); /* which have a rate each */
    const char *parameter = layers ? "intermediate_dropout_rate" : "dropout_rate";
    struct sim_gin_callee callee = {config ? config->scope : "", config ? config->text : "T5Config"};
    if (layers) callee = (struct sim_gin_callee){"", "dense.MlpBlock"};
    const struct model_gin_value *value = sim_gin_get_or_macro(draft, callee, parameter, "DROPOUT_RATE", &place);
    if (!value || value->kind != MODEL_GIN_NUMBER) return BASE_OK;
    if (base_parse_double(value->text, "dropout_rate", 0, 0.999, &rate, draft->gin->error) != BASE_OK)
        return model_gin_fail_in(draft->gin, place);
    return rate > 0 ? sim_gin_set_number(draft, SIM_DROPOUT_RATE, value, place) : BASE_OK;
}

/* Values bound by T5X's own files are the plan's defaults, and are omitted. Without a binding, T5X's classes use 0. */
static enum base_status read_z_loss(struct sim_gin_draft *draft)
{
    const struct model_gin_value *model = draft->model.model, *value;
    struct model_gin_place place = draft->model.place;
    struct base_text text = {.arena = draft->arena};
    double z_loss = 0, usual;
    if (!model) return BASE_OK;
    value = model_gin_get(draft->gin, model->scope, model->text, "z_loss", &place);
    if (sim_gin_is_open(draft, "z_loss", value, place) && value && value->kind == MODEL_GIN_REFERENCE) return BASE_OK;
    if (value && value->kind != MODEL_GIN_NONE && value->kind != MODEL_GIN_NUMBER)
        return sim_gin_wrong_kind(draft, "z_loss", "a number", value, place);
    if (value && value->kind == MODEL_GIN_NUMBER &&
        base_parse_double(value->text, "z_loss", sim_plan_keys[SIM_Z_LOSS].low, sim_plan_keys[SIM_Z_LOSS].high, &z_loss,
                          draft->gin->error) != BASE_OK)
        return model_gin_fail_in(draft->gin, place);
    BASE_TRY(base_parse_double(sim_plan_keys[SIM_Z_LOSS].fallback, "z_loss", 0, 1, &usual, draft->gin->error));
    base_put_double(&text, z_loss);
    if (z_loss < usual || z_loss > usual) sim_gin_set(draft, SIM_Z_LOSS, text.data, place);
    return BASE_OK;
}

/* A number only: token counts that T5X computes per batch are no part of a plan, and change no time. */
static enum base_status read_loss(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *model = draft->model.model;
    const struct model_gin_value *value =
        model ? model_gin_get(draft->gin, model->scope, model->text, "loss_normalizing_factor", &place) : NULL;
    BASE_TRY(read_z_loss(draft));
    if (value && value->kind == MODEL_GIN_STRING)
        model_gin_differ(draft->gin, place,
                         "loss_normalizing_factor is '%.60s', which T5X counts in each batch; a run's "
                         "loss is not divided",
                         value->text);
    if (!value || value->kind != MODEL_GIN_NUMBER) return BASE_OK;
    return sim_gin_set_number(draft, SIM_LOSS_NORMALIZING_FACTOR, value, place);
}

static enum base_status read_dropout_and_loss(struct sim_gin_draft *draft)
{
    BASE_TRY(read_dropout(draft));
    return read_loss(draft);
}

/* ---- trainer ---- */

/* A custom trainer or partitioner may do anything; the prediction is for T5X's. */
static void warn_of_own_class(struct sim_gin_draft *draft, const char *parameter, const char *what)
{
    static const char *const theirs[] = {"t5x.", "trainer.", "partitioning."};
    struct model_gin_place place = {0};
    const struct model_gin_value *class = model_gin_get(draft->gin, "", draft->script, parameter, &place);
    if (!class || class->kind != MODEL_GIN_REFERENCE || !strchr(class->text, '.')) return;
    for (int i = 0; i < BASE_COUNT(theirs); i++)
        if (!strncmp(class->text, theirs[i], strlen(theirs[i]))) return;
    model_gin_warn(draft->gin, place, "%s: %.100s is no class of T5X; the %s of T5X is predicted in its place",
                   parameter, class->text, what);
}

enum base_status sim_gin_read_trainer(struct sim_gin_draft *draft)
{
    warn_of_own_class(draft, "trainer_cls", "step");
    warn_of_own_class(draft, "partitioner", "partitioner");
    struct model_gin_place place = {0};
    struct sim_gin_callee trainer = sim_gin_find_callee(draft, "trainer_cls", "", "Trainer"),
                          train = {"", draft->script};
    const struct model_gin_value *microbatches = sim_gin_get(draft, trainer, "num_microbatches", &place);
    if (!strcmp(draft->script, "precompile")) {
        if (microbatches && microbatches->kind == MODEL_GIN_NUMBER)
            model_gin_warn(draft->gin, place, "num_microbatches: T5X's precompile has none, and neither has the plan");
        microbatches = NULL;
    }
    BASE_TRY(sim_gin_set_whole(draft, SIM_NUM_MICROBATCHES, microbatches, place, 0));
    BASE_TRY(sim_gin_set_whole(draft, SIM_SEED,
                               sim_gin_get_or_macro(draft, train, "random_seed", "RANDOM_SEED", &place), place, 0));
    return read_dropout_and_loss(draft);
}
