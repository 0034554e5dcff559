/* Tests of patterns, overridden axes and Adafactor's options. tests/data/override_axes.json holds what T5X's
 * override_params_axes_names (google-research/t5x@cc342d41, run) answered; python_patterns.json what re.fullmatch of
 * Python 3.11 answers: match, none, or refused. */
#include "model/model.h"
#include "sim/predict/predict.h"
#include "tests/by_software.h"
#include "tests/test.h"

static const struct base_json *member(const struct base_json *object, const char *key)
{
    const struct base_json *value = base_json_get(object, key);
    assert_non_null(value);
    return value;
}

static const char *text_of(struct base_arena *arena, const struct base_json *value)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    base_json_put_value(&writer, value);
    return text.data;
}

/* ---- patterns ---- */

static void patterns_are_those_of_python(struct base_arena *arena)
{
    int counts[3] = {0};
    static const char *const verdicts[] = {"none", "match", "refused"};
    for (const struct base_json *row = test_read_json(arena, "python_patterns.json")->child; row; row = row->next) {
        const struct model_pattern *pattern;
        struct base_error error;
        bool matches = false;
        const char *expected = row->child->next->next->string;
        TEST_ROW("%s", text_of(arena, row));
        enum base_status status = model_pattern_compile(arena, row->child->string, &pattern, &error);
        if (status == BASE_OK)
            assert_ok(model_pattern_matches(pattern, row->child->next->string, &matches, &error), &error);
        else assert_fails(status, BASE_INPUT, &error, "is no regular expression of Python");
        int verdict = status == BASE_OK ? matches : 2;
        if (verdict == 2 && strstr(error.text, "unsupported")) continue; /* Python has more */
        assert_string_equal(verdicts[verdict], expected);
        counts[verdict]++;
    }
    assert_true(counts[0] > 8 && counts[1] > 15 && counts[2] > 5);
}

/* Groups in groups, long repetitions and pure garbage: an answer or a refusal, and soon. */
static void every_pattern_ends(struct base_arena *arena)
{
    static const char *const slow[] = {"(.*)*(.*)*x", "(a*)*b", "(a|aa)+$", "((a+)+)+b", "(?:(?:.*.*)*.*)*x"};
    static const char letters[] = "ab/\\()[]{}|*+?.^$:=!<>#0129-,PisxdwZ";
    const char *subject = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac";
    struct base_random random;
    struct base_error error;
    const struct model_pattern *pattern;
    bool matches;
    for (int i = 0; i < BASE_COUNT(slow); i++) {
        TEST_ROW("%s", slow[i]);
        assert_ok(model_pattern_compile(arena, slow[i], &pattern, &error), &error);
        assert_fails(model_pattern_matches(pattern, subject, &matches, &error), BASE_INPUT, &error, "too many steps");
    }
    base_random_seed(&random, 5);
    int compiled = 0;
    for (int n = 0; n < 20000; n++) {
        char text[24] = "";
        for (int64_t i = 0, length = base_random_below(&random, sizeof text - 1); i < length; i++)
            text[i] = letters[base_random_below(&random, sizeof letters - 1)];
        TEST_ROW("%s", text);
        enum base_status status = model_pattern_compile(arena, text, &pattern, &error);
        if (status != BASE_OK) {
            assert_int_equal(status, BASE_INPUT);
            continue;
        }
        compiled++;
        status = model_pattern_matches(pattern, "encoder/layers_10/mlp/wi_0/kernel", &matches, &error);
        assert_true(status == BASE_OK || status == BASE_INPUT);
    }
    assert_true(compiled > 1000);
}

static void large_patterns_are_refused(struct base_arena *arena)
{
    char text[4000];
    struct base_error error;
    const struct model_pattern *pattern;
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_fails(model_pattern_compile(arena, text, &pattern, &error), BASE_INPUT, &error, "more than 2000 bytes");
    assert_fails(model_pattern_compile(arena, "((a{200}){200}){200}", &pattern, &error), BASE_INPUT, &error,
                 "too large");
}

/* ---- overrides ---- */

/* T5X's answer for one parameter: its axes after the call, NULL where it has none. */
static const struct base_json *axes_after(struct base_arena *arena, const struct base_json *c, const char *path)
{
    return base_json_get(member(c, "result"), base_print(arena, "%s_axes", path));
}

static void check_axes(struct base_arena *arena, const struct base_json *c, const struct base_json *parameter,
                       const struct model_override *override)
{
    const struct base_json *before =
                               base_json_get(member(c, "params_axes"), base_print(arena, "%s_axes", parameter->key)),
                           *after = axes_after(arena, c, parameter->key);
    if (!override) {
        assert_int_equal(before != NULL, after != NULL);
        if (before) assert_string_equal(text_of(arena, before), text_of(arena, after));
        return;
    }
    assert_non_null(after);
    assert_int_equal(after->count, override->rank);
    int i = 0;
    for (const struct base_json *axis = after->child; axis; axis = axis->next)
        assert_string_equal(axis->string, override->axes[i++]);
}

static void overrides_are_those_of_t5x(struct base_arena *arena)
{
    int count = 0, refused = 0;
    for (const struct base_json *c = member(test_read_json(arena, "override_axes.json"), "cases")->child; c;
         c = c->next, count++) {
        struct model_overrides overrides;
        struct base_error error;
        TEST_ROW("%s", text_of(arena, member(c, "overrides")));
        enum base_status status =
            model_overrides_parse(arena, text_of(arena, member(c, "overrides")), &overrides, &error);
        for (const struct base_json *p = member(c, "params")->child; p && status == BASE_OK; p = p->next) {
            const struct model_override *override;
            status = model_overrides_find(&overrides, p->key, p->count, &override, &error);
            if (status == BASE_OK && base_json_get(c, "result")) check_axes(arena, c, p, override);
        }
        assert_int_equal(status, base_json_get(c, "error") ? BASE_INPUT : BASE_OK);
        refused += status != BASE_OK;
    }
    assert_int_equal(count, 23);
    assert_int_equal(refused, 7);
}

static void overrides_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"{}", "params_axes_names_override: is an object"},
        {"[", "params_axes_names_override: "},
        {"[\"a\"]", "[0]: is no pair"},
        {"[[\"a\"]]", "[0]: is no pair"},
        {"[[\"a\",[],1]]", "[0]: is no pair"},
        {"[[1,[\"x\"]]]", "[0]: is no pair"},
        {"[[\"a\",null],[\"b\",\"x\"]]", "[1]: the axes are a string"},
        {"[[\"a\",[1]]]", "[0]: an axis is a number"},
        {"[[\"a(\",[\"x\"]]]", "[0]: \"a(\" is no regular expression of Python"},
    };
    struct base_error error;
    struct model_overrides overrides = {.count = -1};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].text);
        assert_fails(model_overrides_parse(arena, rows[i].text, &overrides, &error), BASE_INPUT, &error, rows[i].part);
        assert_int_equal(overrides.count, -1);
    }
    struct base_text many = {.arena = arena};
    base_put(&many, "[");
    for (int i = 0; i < 300; i++) base_put(&many, i ? ",[\"a\",null]" : "[\"a\",null]");
    base_put(&many, "]");
    assert_fails(model_overrides_parse(arena, many.data, &overrides, &error), BASE_INPUT, &error, "at most 256");
}

static void overridden_parameters_keep_their_place(struct base_arena *arena)
{
    struct model_config config;
    struct model_overrides overrides;
    struct base_error error;
    const struct model_parameter *own, *changed;
    int count, different = 0;
    assert_ok(model_config_parse(arena, "t5_1_1_base", &config, &error), &error);
    assert_ok(model_parameters(arena, &config, &own, &count, &error), &error);
    assert_ok(model_overrides_parse(arena,
                                    "[[\"encoder/layers_\\\\d/mlp/wo/kernel\",[\"a\",null]],[\".*/scale\",null]]",
                                    &overrides, &error),
              &error);
    assert_ok(model_overrides_apply(arena, &overrides, own, count, &changed, &error), &error);
    for (int i = 0; i < count; i++) {
        assert_string_equal(own[i].path, changed[i].path);
        assert_ptr_equal(model_parameter_find(changed, count, own[i].path), &changed[i]);
        bool same = changed[i].axes[0] == own[i].axes[0];
        if (!same) assert_true(!strcmp(changed[i].axes[0], "a") && !changed[i].axes[1]);
        different += !same;
    }
    assert_int_equal(different, 10); /* of twelve layers, those of one digit */
    assert_fails(model_check_layers_alike(arena, changed, count, &error), BASE_INPUT, &error, "layers_1");
    assert_ok(model_check_layers_alike(arena, own, count, &error), &error);
}

/* ---- what a prediction makes of them ---- */

static struct sim_plan_text plan_of(const char *model, const char *overrides, const char *adafactor)
{
    struct sim_plan_text plan = {.values = {[SIM_MODEL] = model,
                                            [SIM_TOPOLOGY] = "v4:2x2x2",
                                            [SIM_SUBMESH] = "2,1,1,1",
                                            [SIM_INPUTS_LENGTH] = "64",
                                            [SIM_TARGETS_LENGTH] = "64",
                                            [SIM_BATCH_SIZE] = "16",
                                            [SIM_OVERRIDES] = overrides,
                                            [SIM_ADAFACTOR] = adafactor}};
    return plan;
}

static enum base_status predict(struct base_arena *arena, const struct sim_plan_text *text, struct sim_prediction *out,
                                struct base_error *error)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    enum base_status status = check_by_software(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error);
    if (status == BASE_OK) status = sim_predict(cache, &plan, out, NULL, error);
    sim_cache_free(cache);
    return status;
}

/* What one device of data 4 x model 2 holds, counted from the list of parameters. */
static struct model_device_state count_state(struct base_arena *arena, const struct sim_plan_text *text)
{
    struct topo_axes mesh = {2, {"data", "model"}, {4, 2}};
    struct model_adafactor adafactor = model_adafactor_defaults();
    const char *overrides_text = text->values[SIM_OVERRIDES], *adafactor_text = text->values[SIM_ADAFACTOR];
    struct model_overrides overrides = {.count = 0};
    struct model_config config;
    struct model_rules rules;
    struct model_device_state state;
    struct base_error error;
    const struct model_parameter *parameters;
    int count;
    assert_ok(model_config_parse(arena, text->values[SIM_MODEL], &config, &error), &error);
    assert_ok(model_rules_parse(arena, "standard:1,1", &rules, &error), &error);
    assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
    if (adafactor_text) assert_ok(model_adafactor_parse(arena, adafactor_text, &adafactor, &error), &error);
    if (overrides_text) assert_ok(model_overrides_parse(arena, overrides_text, &overrides, &error), &error);
    assert_ok(model_overrides_apply(arena, &overrides, parameters, count, &parameters, &error), &error);
    assert_ok(
        model_device_state(parameters, count, &rules, &mesh, MODEL_EXACT, MODEL_ADAFACTOR, &adafactor, &state, &error),
        &error);
    return state;
}

/* The program leaves T5X's placeholders and its step out: arrays of one element that no device misses. */
static void assert_state_near(int64_t predicted, int64_t counted, int64_t parameter_count)
{
    assert_true(predicted <= counted && counted - predicted <= 4 * 4 * parameter_count + 4);
}

static void predictions_shard_what_the_user_names(struct base_arena *arena)
{
    static const struct {
        const char *model, *overrides;
        int64_t more_parameter_bytes;
    } rows[] = {
        {"t5_1_1_small", NULL, 0},
        {"t5_1_1_small", "[[\"(encoder|decoder)/layers_\\\\d+/mlp/wi_0/kernel\",[\"embed\",\"kv\"]]]",
         16 * 512 * 512 * 4}, /* no longer cut in two */
        {"t5_1_1_small", "[[\".*/scale\",[\"vocab\"]]]", -42 * 256 * 4},
        {"scalable_t5_1_1_small", "[[\"encoder/encoder/mlp/wi_0/kernel\",[\"kv\",\"layers\",\"embed\"]]]",
         8 * 512 * 512 * 4},
        {"decoder_only_base", "[[\"decoder/token_embedder/embedding\",[\"kv\",\"embed\"]]]", 16064 * 768 * 4},
    };
    struct sim_prediction own, given;
    struct base_error error;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text plain = plan_of(rows[i].model, NULL, NULL),
                             text = plan_of(rows[i].model, rows[i].overrides, NULL);
        TEST_ROW("%s, %s", rows[i].model, rows[i].overrides ? rows[i].overrides : "");
        assert_ok(predict(arena, &plain, &own, &error), &error);
        assert_ok(predict(arena, &text, &given, &error), &error);
        assert_int_equal(given.memory.parameter_bytes - own.memory.parameter_bytes, rows[i].more_parameter_bytes);
        struct model_device_state state = count_state(arena, &text);
        assert_int_equal(given.memory.parameter_bytes, state.parameter_bytes);
        assert_state_near(given.memory.optimizer_state_bytes, state.optimizer_state_bytes, 250);
    }
}

static void predictions_hold_the_state_that_the_options_ask_for(struct base_arena *arena)
{
    static const char *const models[] = {"t5_1_1_small", "scalable_t5_1_1_small", "decoder_only_base"};
    static const char *const options[] = {"factored=1",
                                          "factored=0",
                                          "beta1=0.9",
                                          "beta1=0",
                                          "beta1=0.9,dtype_momentum=bfloat16",
                                          "factored=0,beta1=0.9",
                                          "min_dim_size_to_factor=1024",
                                          "multiply_by_parameter_scale=0",
                                          "clipping_threshold=none",
                                          "global_norm_clip_threshold=1"};
    for (int m = 0; m < BASE_COUNT(models); m++)
        for (int i = 0; i < BASE_COUNT(options); i++) {
            struct sim_plan_text text = plan_of(models[m], NULL, options[i]);
            struct sim_prediction prediction;
            struct base_error error;
            TEST_ROW("%s, %s", models[m], options[i]);
            assert_ok(predict(arena, &text, &prediction, &error), &error);
            struct model_device_state state = count_state(arena, &text);
            assert_state_near(prediction.memory.optimizer_state_bytes, state.optimizer_state_bytes, 250);
        }
}

/* The norm of all gradients needs all of them at once. */
static void clipping_by_the_global_norm_keeps_all_gradients(struct base_arena *arena)
{
    struct sim_plan_text plain = plan_of("decoder_only_xl", NULL, NULL),
                         text = plan_of("decoder_only_xl", NULL, "global_norm_clip_threshold=1");
    struct sim_prediction own, clipped;
    struct base_error error;
    assert_ok(predict(arena, &plain, &own, &error), &error);
    assert_ok(predict(arena, &text, &clipped, &error), &error);
    assert_true(clipped.memory.gradient_bytes > 9 * clipped.memory.parameter_bytes / 10);
    assert_true(own.memory.gradient_bytes < own.memory.parameter_bytes / 4);
    assert_true(clipped.step_s > own.step_s);
}

static void plans_with_such_keys_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *model, *overrides, *adafactor, *part;
    } rows[] = {
        {"t5_1_1_small", "[[\"encoder/layers_0/mlp/wo/kernel\",[\"mlp\",\"kv\"]]]", NULL,
         "encoder/layers_1/mlp/wo/kernel gets other axes than in the first layer"},
        {"t5_1_1_small", "[[\".*\",[\"mlp\",\"kv\"]]]", NULL, "does not match param rank (1)"},
        {"t5_1_1_small", "[[\".*/mlp/wo/kernel\",[\"experts\",\"kv\"]]]", NULL,
         "the logical axis experts has no factor rule"},
        {"t5_1_1_small", "[[\".*/mlp/wo/kernel\",[null,\"kv\"]]]", NULL, "the logical axis None has no factor rule"},
        {"t5_1_1_small", "[[\".*/mlp/wo/kernel\",[\"kv\",\"kv\"]]]", NULL, "names two dimensions"},
        {"scalable_t5_1_1_small", "[[\".*/mlp/wo/kernel\",[\"mlp\",\"stack\",\"embed\"]]]", NULL,
         "renames its dimension of layers (1)"},
        {"scalable_t5_1_1_small", NULL,
         "{\"logical_factor_rules\":{\"layers\":\"row\",\"embed\":\"row\",\"mlp\":\"column\",\"heads\":\"column\","
         "\"kv\":\"column\",\"vocab\":\"column\","
         "\"relpos_buckets\":\"column\"}}",
         "layers is averaged; use batch"},
        {"scalable_t5_1_1_small", NULL, "logical_factor_rules=none", "needs logical_factor_rules"},
        {"t5_1_1_small", NULL, "factord=0", "did you mean factored?"},
    };
    struct sim_prediction prediction;
    struct base_error error;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = plan_of(rows[i].model, rows[i].overrides, rows[i].adafactor);
        TEST_ROW("row %d", i);
        assert_fails(predict(arena, &text, &prediction, &error), BASE_INPUT, &error, rows[i].part);
    }
}

/* ---- Adafactor's options ---- */

static void options_are_read_in_both_forms(struct base_arena *arena)
{
    struct model_adafactor line, object, defaults = model_adafactor_defaults();
    struct base_error error;
    assert_ok(model_adafactor_parse(arena,
                                    "factored=0,beta1=0.9,dtype_momentum=bfloat16,clipping_threshold=none,min_dim_size_"
                                    "to_factor=32,step_offset=7,global_norm_clip_threshold=1.5,"
                                    "multiply_by_parameter_scale=False,decay_rate=0.7,weight_decay_rate=0.01,skip_nan_"
                                    "updates=true,logical_factor_rules=none",
                                    &line, &error),
              &error);
    assert_ok(model_adafactor_parse(arena,
                                    "{\"factored\":false,\"beta1\":0.9,\"dtype_momentum\":\"bfloat16\",\"clipping_"
                                    "threshold\":null,\"min_dim_size_to_factor\":32,\"step_offset\":7,"
                                    "\"global_norm_clip_threshold\":1.5,\"multiply_by_parameter_scale\":false,\"decay_"
                                    "rate\":0.7,\"weight_decay_rate\":0.01,\"skip_nan_updates\":true,"
                                    "\"logical_factor_rules\":null}",
                                    &object, &error),
              &error);
    const struct model_adafactor *both[] = {&line, &object};
    for (int i = 0; i < 2; i++) {
        const struct model_adafactor *o = both[i];
        assert_true(!o->factored && o->has_beta1 && !o->multiply_by_parameter_scale && o->skip_nan_updates &&
                    !o->logical_factor_rules);
        assert_true(o->beta1 == 0.9 && o->clipping_threshold == 0 && o->global_norm_clip_threshold == 1.5 &&
                    o->decay_rate == 0.7 && o->weight_decay_rate == 0.01);
        assert_true(o->dtype_momentum == MODEL_BFLOAT16 && o->min_dim_size_to_factor == 32 && o->step_offset == 7);
        assert_true(o->epsilon1 == defaults.epsilon1 && o->epsilon2 == defaults.epsilon2 &&
                    o->max_parameter_scale == 0);
    }
    assert_true(defaults.factored && !defaults.has_beta1 && defaults.min_dim_size_to_factor == 128 &&
                defaults.clipping_threshold == 1 && defaults.dtype_momentum == MODEL_FLOAT32);
    assert_ok(model_adafactor_parse(arena, "beta1=0.5,beta1=none", &line, &error), &error);
    assert_false(line.has_beta1);
    assert_ok(model_adafactor_parse(arena, "{\"logical_factor_rules\":{\"embed\":\"Row\",\"kv\":null}}", &line, &error),
              &error);
    assert_int_equal(line.factor_rule_count, 2);
    assert_string_equal(line.factor_rules[1].kind, "none");
}

static void options_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "is no option=value"},
        {"factored", "is no option=value"},
        {"factored=", "factored: "},
        {"factored=2", "factored: "},
        {"beta=0.9", "did you mean beta1?"},
        {"beta1=nan", "beta1: "},
        {"beta1=1.5", "beta1: "},
        {"beta1=-1", "beta1: "},
        {"clipping_threshold=0", "clipping_threshold: "},
        {"factored=none", "factored: "},
        {"min_dim_size_to_factor=1e9", "min_dim_size_to_factor: "},
        {"min_dim_size_to_factor=99999999999999999999", "min_dim_size_to_factor: "},
        {"dtype_momentum=int8", "float32 or bfloat16"},
        {"logical_factor_rules=mine", "logical_factor_rules: "},
        {"{\"beta1\":[0.9]}", "beta1: is a list"},
        {"{\"logical_factor_rules\":{\"embed\":1}}", "logical_factor_rules.embed: is a number"},
        {"{\"factored\":1.5}", "factored: "},
        {"{", "adafactor: "},
    };
    struct base_error error;
    struct model_adafactor options = {.step_offset = -7};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].text);
        assert_fails(model_adafactor_parse(arena, rows[i].text, &options, &error), BASE_INPUT, &error, rows[i].part);
        assert_int_equal(options.step_offset, -7);
    }
}

static const struct test tests[] = {
    TEST(patterns_are_those_of_python),
    TEST(every_pattern_ends),
    TEST(large_patterns_are_refused),
    TEST(overrides_are_those_of_t5x),
    TEST(overrides_are_refused),
    TEST(overridden_parameters_keep_their_place),
    TEST(predictions_shard_what_the_user_names),
    TEST(predictions_hold_the_state_that_the_options_ask_for),
    TEST(clipping_by_the_global_norm_keeps_all_gradients),
    TEST(plans_with_such_keys_are_refused),
    TEST(options_are_read_in_both_forms),
    TEST(options_are_refused),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
