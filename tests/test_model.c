/* Tests of model/'s axis rules, models, parameters, optimizer state and sharding, against answers of T5X, Flax and its
 * Adafactor (tests/data), published parameter counts, and on input that means harm. */
#include "tests/test.h"

#include "model/model.h"

/* ---- comparing with JSON ---- */

static const struct base_json *item(const struct base_json *list, int index)
{
    const struct base_json *at = list->child;
    while (at && index-- > 0) at = at->next;
    assert_non_null(at);
    return at;
}

static const struct base_json *member(const struct base_json *object, const char *key)
{
    const struct base_json *value = base_json_get(object, key);
    assert_non_null(value);
    return value;
}

static bool same_shape(const struct base_json *expected, int rank, const int64_t *shape)
{
    if (expected->count != rank) return false;
    int i = 0;
    for (const struct base_json *at = expected->child; at; at = at->next, i++)
        if ((int64_t)at->number != shape[i]) return false;
    return true;
}

static bool same_name(const struct base_json *expected, const char *name)
{
    if (expected->kind == BASE_JSON_NULL) return name == NULL;
    return name && expected->kind == BASE_JSON_STRING && !strcmp(expected->string, name);
}

static bool same_axes(const struct base_json *expected, const struct model_axes *axes)
{
    if (axes->unconstrained)
        return expected->kind == BASE_JSON_STRING && !strcmp(expected->string, MODEL_UNCONSTRAINED);
    if (expected->kind != BASE_JSON_ARRAY)
        return same_name(expected, axes->count ? axes->names[0] : NULL) && axes->count < 2;
    int i = 0;
    if (expected->count != axes->count) return false;
    for (const struct base_json *at = expected->child; at; at = at->next, i++)
        if (!same_name(at, axes->names[i])) return false;
    return true;
}

static bool same_spec(const struct base_json *expected, int rank, const struct model_axes *spec)
{
    if (expected->kind != BASE_JSON_ARRAY || expected->count != rank) return false;
    int i = 0;
    for (const struct base_json *at = expected->child; at; at = at->next, i++)
        if (!same_axes(at, &spec[i])) return false;
    return true;
}

static int read_names(const struct base_json *list, const char **names)
{
    int count = 0;
    for (const struct base_json *at = list->child; at; at = at->next) names[count++] = at->string;
    return count;
}

/* The value as text, as a rule list is given. */
static const char *text_of(struct base_arena *arena, const struct base_json *value)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    base_json_put_value(&writer, value);
    return text.data;
}

/* ---- axis rules ---- */

enum { MOST_NAMES = 16 };

static void rules_resolve_as_flax_does(struct base_arena *arena)
{
    const struct base_json *document = test_read_json(arena, "rules_resolve.json"), *lists = member(document, "rules");
    struct base_error error;
    int count = 0;
    for (const struct base_json *c = member(document, "cases")->child; c; c = c->next, count++) {
        const struct base_json *expected = item(c, 2);
        const char *text = text_of(arena, item(lists, (int)c->child->number)), *names[MOST_NAMES];
        struct model_axes spec[MOST_NAMES];
        struct model_rules rules;
        int rank = read_names(item(c, 1), names);
        TEST_ROW("case %d: %s of %s", count, text_of(arena, item(c, 1)), text);
        enum base_status status = model_rules_parse(arena, text, &rules, &error);
        if (status == BASE_OK) status = model_resolve(&rules, names, rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, &error);
        if (expected->kind == BASE_JSON_STRING) {
            assert_int_equal(status, BASE_INPUT);
            continue;
        }
        assert_ok(status, &error);
        assert_true(same_spec(expected, rank, spec));
    }
    assert_int_equal(count, 624);
}

static enum model_fallback fallback_named(const char *name)
{
    return !strcmp(name, "raise_error")     ? MODEL_RAISE_ERROR
           : !strcmp(name, "no_constraint") ? MODEL_NO_CONSTRAINT
                                            : MODEL_AXIS_IS_UNSHARDED;
}

static void rules_constrain_as_flax_does(struct base_arena *arena)
{
    const struct base_json *document = test_read_json(arena, "rules_constraint.json"),
                           *lists = member(document, "rules");
    struct base_error error;
    int count = 0;
    for (const struct base_json *c = member(document, "cases")->child; c; c = c->next, count++) {
        const char *names[MOST_NAMES], *expected = item(c, 3)->string;
        struct model_axes spec[MOST_NAMES];
        struct model_rules rules;
        enum model_outcome outcome;
        int rank = read_names(item(c, 1), names);
        TEST_ROW("case %d: %s", count, text_of(arena, c));
        assert_ok(model_rules_parse(arena, text_of(arena, item(lists, (int)c->child->number)), &rules, &error), &error);
        enum base_status status =
            model_resolve(&rules, names, rank, fallback_named(item(c, 2)->string), spec, &outcome, &error);
        assert_int_equal(status, !strcmp(expected, "error") ? BASE_INPUT : BASE_OK);
        if (status != BASE_OK) continue;
        assert_int_equal(outcome, !strcmp(expected, "noop") ? MODEL_NOOP : MODEL_CONSTRAINT);
        if (outcome == MODEL_CONSTRAINT) assert_true(same_spec(item(c, 4), rank, spec));
    }
    assert_true(count >= 60);
}

static void check_rules(const struct base_json *expected, const struct model_rules *rules)
{
    assert_int_equal(rules->count, expected->count);
    for (int i = 0; i < rules->count; i++) {
        assert_string_equal(rules->rules[i].logical, item(item(expected, i), 0)->string);
        assert_true(same_axes(item(item(expected, i), 1), &rules->rules[i].value));
    }
}

static void rules_standard_sets_are_those_of_t5x(struct base_arena *arena)
{
    struct base_error error;
    struct model_rules rules;
    for (const struct base_json *c = member(test_read_json(arena, "rules_standard.json"), "cases")->child; c;
         c = c->next) {
        const struct base_json *expected = item(c, 2);
        const char *text = base_print(arena, "standard:%d,%d", (int)item(c, 0)->number, (int)item(c, 1)->number);
        TEST_ROW("%s", text);
        enum base_status status = model_rules_parse(arena, text, &rules, &error);
        assert_int_equal(status, expected->kind == BASE_JSON_STRING ? BASE_INPUT : BASE_OK);
        if (status == BASE_OK) check_rules(expected, &rules);
    }
}

/* A set that has a name stands where people read of names; those of experts are named in words. */
static void rules_with_a_name_are_told(struct base_arena *arena)
{
    for (int i = 0; i < MODEL_RULE_SETS; i++) {
        const char *name = model_rule_sets[i], *among = "|" MODEL_RULE_NAMES "|", *colon = strchr(name, ':');
        TEST_ROW("%s", name);
        if (!strncmp(name, "standard_moe", strlen("standard_moe"))) continue;
        const char *told =
            colon ? base_print(arena, "|%.*s:A,P|", (int)(colon - name), name) : base_print(arena, "|%s|", name);
        assert_non_null(strstr(among, told));
    }
}

static void rules_documented_sets_are_those_of_t5x(struct base_arena *arena)
{
    static const struct {
        const char *name, *config;
    } sets[] = {{"standard", "standard_a1_p1"}, {"data_only", "docs_data_only"}, {"zero3", "docs_zero3"},
                {"megatron", "docs_megatron"},  {"optimus", "docs_optimus"},     {"gshard", "docs_gshard"}};
    const struct base_json *configs = member(test_read_json(arena, "rules_resolve.json"), "configs");
    struct base_error error;
    for (int i = 0; i < BASE_COUNT(sets); i++) {
        struct model_rules rules;
        TEST_ROW("%s", sets[i].name);
        assert_ok(model_rules_parse(arena, sets[i].name, &rules, &error), &error);
        check_rules(member(configs, sets[i].config), &rules);
    }
}

static void rules_that_are_none_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "is no set"},
        {"megatrom", "megatron"},
        {"standard:", "whole number"},
        {"standard:1", "are needed"},
        {"standard:1,1,1", "more than 2"},
        {"standard:1,x", "whole number"},
        {"standard:3,1", "activation_partitioning_dims 3"},
        {"standard:1,0", "parameter_partitioning_dims 0"},
        {"standard:99999999999999999999,1", "out of range"},
        {"[[", "JSON"},
        {"[[\"batch\",\"data\"]] x", "JSON"},
        {"{\"batch\":\"data\"}", "order"},
        {"[\"ab\"]", "[0]"},
        {"[[\"batch\",\"data\"],[\"batch\"]]", "[1]"},
        {"[[\"batch\",\"data\",\"model\"]]", "no pair"},
        {"[[1,\"data\"]]", "logical axis is a number"},
        {"[[\"a\",true]]", "is true"},
        {"[[\"a\",{}]]", "is an object"},
        {"[[\"a\",[[\"data\",\"model\"],\"x\"]]]", "another tuple"},
        {"[[\"a\",[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]]]", "more than 8"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct model_rules rules = {NULL, 77};
        TEST_ROW("%s", rows[i].text);
        assert_fails(model_rules_parse(arena, rows[i].text, &rules, &error), BASE_INPUT, &error, rows[i].part);
        assert_non_null(strstr(error.text, "logical_axis_rules: "));
        assert_int_equal(rules.count, 77);
    }
}

static void rules_are_not_read_without_end(struct base_arena *arena)
{
    struct base_text text = {.arena = arena};
    struct model_rules rules;
    struct base_error error;
    base_put(&text, "[[\"embed\", null]");
    for (int i = 1; i < 1024; i++) base_put(&text, ", [\"embed\", null]");
    assert_ok(model_rules_parse(arena, base_print(arena, "%s]", text.data), &rules, &error), &error);
    assert_int_equal(rules.count, 1024);
    assert_fails(model_rules_parse(arena, base_print(arena, "%s, [\"mlp\", null]]", text.data), &rules, &error),
                 BASE_INPUT, &error, "1025 rules; at most 1024");
}

static void rules_refuse_more_dimensions_than_arrays_have(struct base_arena *arena)
{
    enum { RANK = 65 };
    const char *names[RANK] = {0};
    struct model_axes spec[RANK];
    struct model_rules rules;
    struct base_error error;
    assert_ok(model_rules_parse(arena, "standard", &rules, &error), &error);
    assert_ok(model_resolve(&rules, names, RANK - 1, MODEL_AXIS_IS_UNSHARDED, spec, NULL, &error), &error);
    assert_fails(model_resolve(&rules, names, RANK, MODEL_AXIS_IS_UNSHARDED, spec, NULL, &error), BASE_INPUT, &error,
                 "65 dimensions");
}

/* ---- parameters ---- */

static int64_t element_count(int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++) count *= shape[i];
    return count;
}

static const struct model_parameter *find_parameter(const struct model_parameter *parameters, int count,
                                                    const char *path)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(parameters[middle].path, path);
        if (order == 0) return &parameters[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

static void check_parameter(const struct base_json *expected, const struct model_parameter *parameter)
{
    struct model_adafactor options = model_adafactor_defaults();
    struct model_factoring f;
    struct base_error error;
    assert_non_null(parameter);
    assert_true(same_shape(item(expected, 2), parameter->rank, parameter->shape));
    for (int i = 0; i < parameter->rank; i++)
        assert_string_equal(parameter->axes[i], item(item(expected, 3), i)->string);
    assert_ok(model_factor(&options, parameter->rank, parameter->shape, parameter->axes, &f, &error), &error);
    assert_true(same_shape(item(expected, 4), f.v_row_rank, f.v_row));
    assert_true(same_shape(item(expected, 5), f.v_col_rank, f.v_col));
    assert_true(same_shape(item(expected, 6), f.v_rank, f.v));
    assert_true(same_shape(item(expected, 7), f.m_rank, f.m));
}

/* Elements of the whole train state's parts, nothing sharded. */
static struct model_device_state whole_state(const struct model_parameter *parameters, int count,
                                             enum model_optimizer optimizer, const struct model_adafactor *adafactor)
{
    struct model_device_state whole;
    struct base_error error;
    assert_ok(model_device_state(parameters, count, &(struct model_rules){0}, &(struct topo_axes){0}, MODEL_EXACT,
                                 optimizer, adafactor, &whole, &error),
              &error);
    return whole;
}

static void check_totals(const struct base_json *model, const struct model_parameter *parameters, int count)
{
    struct model_adafactor factored = model_adafactor_defaults(), momentum = factored, unfactored;
    momentum.has_beta1 = true;
    momentum.beta1 = 0.9;
    unfactored = momentum;
    unfactored.factored = false;
    assert_int_equal(count, (int)member(model, "num_tensors")->number);
    assert_int_equal(whole_state(parameters, count, MODEL_ADAFACTOR, &factored).parameter_count,
                     (int64_t)member(model, "total_params")->number);
    assert_int_equal(whole_state(parameters, count, MODEL_ADAFACTOR, &factored).optimizer_state_count,
                     (int64_t)member(model, "adafactor_default")->number);
    assert_int_equal(whole_state(parameters, count, MODEL_ADAFACTOR, &momentum).optimizer_state_count,
                     (int64_t)member(model, "adafactor_momentum_f32")->number);
    assert_int_equal(whole_state(parameters, count, MODEL_ADAFACTOR, &unfactored).optimizer_state_count,
                     (int64_t)member(model, "adafactor_unfactored_momentum")->number);
    assert_int_equal(4 * whole_state(parameters, count, MODEL_ADAMW, NULL).optimizer_state_count,
                     (int64_t)member(model, "adamw_state_bytes")->number);
    assert_int_equal(whole_state(parameters, count, MODEL_SGD, NULL).optimizer_state_count, 0);
}

static void parameters_are_those_of_t5x(struct base_arena *arena)
{
    struct base_error error;
    int models = 0;
    for (const struct base_json *m = member(test_read_json(arena, "parameters.json"), "models")->child; m;
         m = m->next, models++) {
        const char *name = member(m, "model")->string;
        const struct model_parameter *parameters;
        struct model_config config;
        int count, checked = 0;
        TEST_ROW("%s", name);
        assert_ok(model_config_parse(arena, name, &config, &error), &error);
        assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
        check_totals(m, parameters, count);
        for (const struct base_json *p = member(m, "parameters")->child; p; p = p->next) {
            const char *path = p->child->string, *star = strchr(path, '*');
            for (int layer = 0; layer < (int)item(p, 1)->number; layer++, checked++) {
                const char *of_layer =
                    star ? base_print(arena, "%.*s%d%s", (int)(star - path), path, layer, star + 1) : path;
                TEST_ROW("%s %s", name, of_layer);
                check_parameter(p, find_parameter(parameters, count, of_layer));
            }
        }
        assert_int_equal(checked, count);
    }
    assert_int_equal(models, 35);
}

/* Published counts, and counts of models that have no list of parameters here. */
static void parameter_counts_are_the_published_ones(struct base_arena *arena)
{
    struct base_error error;
    struct model_adafactor adafactor = model_adafactor_defaults();
    struct base_csv csv;
    size_t length;
    bool more;
    int rows = 0;
    assert_ok(
        base_csv_open_text(&csv, arena, "model_counts.csv", test_read(arena, "model_counts.csv", &length), &error),
        &error);
    for (;; rows++) {
        const struct model_parameter *parameters;
        struct model_config config;
        int count;
        int64_t parameter_count, state_count;
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        TEST_ROW("%s", base_csv_field(&csv, 0));
        assert_ok(base_parse_int(base_csv_field(&csv, 1), "parameter_count", 1, INT64_MAX, &parameter_count, &error),
                  &error);
        assert_ok(base_parse_int(base_csv_field(&csv, 2), "adafactor_state_count", 1, INT64_MAX, &state_count, &error),
                  &error);
        assert_ok(model_config_parse(arena, base_csv_field(&csv, 0), &config, &error), &error);
        assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
        struct model_device_state whole = whole_state(parameters, count, MODEL_ADAFACTOR, &adafactor);
        assert_int_equal(whole.parameter_count, parameter_count);
        assert_int_equal(whole.optimizer_state_count, state_count);
        assert_int_equal(whole.parameter_bytes, 4 * parameter_count);
    }
    base_csv_close(&csv);
    assert_int_equal(rows, 42);
}

/* The closed form of a transformer's parameter count. */
static int64_t closed_form(const struct model_config *c)
{
    int64_t a = c->num_heads * c->head_dim, kv = c->num_kv_heads * c->head_dim;
    int64_t attention = 2 * c->emb_dim * (a + kv), mlp = (c->mlp_activation_count + 1) * c->emb_dim * c->mlp_dim;
    const bool layer_norm = c->norm == MODEL_NORM_LAYER,
               relative = c->position_encoding == MODEL_POSITION_RELATIVE_BIAS;
    int64_t norms_a_layer = c->parallel_block ? 1 : 2;
    int64_t biases =
        !c->biases ? 0
                   : c->num_decoder_layers * (a + 2 * kv + 2 * c->emb_dim + c->mlp_activation_count * c->mlp_dim) +
                         (c->logits_via_embedding ? 0 : c->vocab_size);
    int64_t more = biases + (c->qk_norm ? 2 * c->head_dim * c->num_decoder_layers : 0) + c->num_positions * c->emb_dim +
                   (layer_norm ? c->emb_dim * (norms_a_layer * c->num_decoder_layers + 1) : 0);
    int64_t relpos_count = !relative        ? 0
                           : c->scan_layers ? c->num_encoder_layers + c->num_decoder_layers
                           : c->encoder     ? 2
                                            : 1;
    int64_t encoder = c->num_encoder_layers * (attention + mlp + 2 * c->emb_dim);
    int64_t decoder = c->num_decoder_layers * ((c->encoder ? 2 : 1) * attention + mlp +
                                               (c->encoder          ? 3
                                                : c->parallel_block ? 1
                                                                    : 2) *
                                                   c->emb_dim);
    int64_t embeddings = c->vocab_size * c->emb_dim * (c->logits_via_embedding ? 1 : 2),
            last_norms = (c->encoder ? 2 : 1) * c->emb_dim;
    return more + embeddings + encoder + decoder + last_norms + 32 * c->num_heads * relpos_count;
}

static void parameter_counts_follow_the_closed_form(struct base_arena *arena)
{
    static const char *const architectures[] = {"encoder_decoder", "scalable_encoder_decoder", "decoder_only",
                                                "scalable_decoder_only"};
    static const char *const activations[] = {"relu", "gelu+linear", "swish"};
    struct base_random random;
    base_random_seed(&random, 7);
    for (int i = 0; i < 200; i++) {
        const struct model_parameter *parameters;
        struct base_error error;
        struct model_config config;
        static const int bounds[] = {4, 4, 4, 300, 64, 500, 12, 1000, 3, 2, 2};
        static const char *const features[] = {"", ",position_encoding=rotary,norm=layer",
                                               ",position_encoding=none,qk_norm=1",
                                               ",position_encoding=learned,biases=1,num_positions=77"};
        int count, drawn[BASE_COUNT(bounds)];
        for (int j = 0; j < BASE_COUNT(bounds); j++) drawn[j] = (int)base_random_below(&random, bounds[j]);
        const char *sizes = base_print(
            arena, "num_heads=%d,num_kv_heads=%d,emb_dim=%d,head_dim=%d,mlp_dim=%d,num_layers=%d,vocab_size=%d",
            (1 + drawn[1]) * (1 + drawn[2]), 1 + drawn[1], 1 + drawn[3], 1 + drawn[4], 1 + drawn[5], 1 + drawn[6],
            1 + drawn[7]);
        const char *text =
            base_print(arena, "%s:%s,mlp_activations=%s,logits_via_embedding=%d,parallel_block=%d%s",
                       architectures[drawn[0]], sizes, activations[drawn[8]], drawn[9], drawn[0] < 2 ? 0 : drawn[10],
                       drawn[0] < 2 || drawn[4] % 2 == 0 ? "" : features[i % BASE_COUNT(features)]);
        TEST_ROW("%s", text);
        assert_ok(model_config_parse(arena, text, &config, &error), &error);
        assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
        assert_int_equal(whole_state(parameters, count, MODEL_ADAMW, NULL).parameter_count, closed_form(&config));
        for (int j = 1; j < count; j++) assert_true(strcmp(parameters[j - 1].path, parameters[j].path) < 0);
    }
}

struct expected_parameter {
    const char *path;
    int rank;
    int64_t shape[MODEL_MAX_RANK];
    const char *axes[MODEL_MAX_RANK];
};

static void check_rows(const struct expected_parameter *rows, int row_count, const struct model_parameter *parameters,
                       int count)
{
    for (int i = 0; i < row_count; i++) {
        const struct model_parameter *p = find_parameter(parameters, count, rows[i].path);
        TEST_ROW("%s", rows[i].path);
        if (rows[i].rank == 0) {
            assert_null(p);
            continue;
        }
        assert_non_null(p);
        assert_int_equal(p->rank, rows[i].rank);
        for (int j = 0; j < p->rank; j++) {
            assert_int_equal(p->shape[j], rows[i].shape[j]);
            assert_string_equal(p->axes[j], rows[i].axes[j]);
        }
    }
}

/* What T5X has no example of: fewer heads for keys and values, parallel blocks, a scanned decoder alone. */
static void parameters_beyond_t5x(struct base_arena *arena)
{
    static const struct expected_parameter joined[] = {
        {"decoder/layers_2/self_attention/query/kernel", 2, {8, 24}, {"embed", "joined_kv"}},
        {"decoder/layers_2/self_attention/key/kernel", 2, {8, 12}, {"embed", "joined_kv"}},
        {"decoder/layers_2/self_attention/value/kernel", 2, {8, 12}, {"embed", "joined_kv"}},
        {"decoder/layers_2/self_attention/out/kernel", 2, {24, 8}, {"joined_kv", "embed"}},
        {"decoder/layers_2/pre_self_attention_layer_norm/scale", 1, {8}, {"embed"}},
        {"decoder/layers_2/pre_mlp_layer_norm/scale", 0, {0}, {0}},
        {"decoder/layers_3/mlp/wo/kernel", 0, {0}, {0}},
    };
    static const struct expected_parameter scanned[] = {
        {"decoder/token_embedder/embedding", 2, {99, 8}, {"vocab", "embed"}},
        {"decoder/decoder/relpos_bias/rel_embedding", 3, {4, 3, 32}, {"heads", "layers", "relpos_buckets"}},
        {"decoder/decoder/self_attention/key/kernel", 4, {8, 3, 2, 6}, {"embed", "layers", "heads", "kv"}},
        {"decoder/decoder/self_attention/out/kernel", 4, {4, 3, 6, 8}, {"heads", "layers", "kv", "embed"}},
        {"decoder/decoder/pre_mlp_layer_norm/scale", 2, {8, 3}, {"embed", "layers"}},
        {"decoder/decoder/mlp/wi/kernel", 3, {8, 3, 16}, {"embed", "layers", "mlp"}},
        {"decoder/decoder_norm/scale", 1, {8}, {"embed"}},
        {"decoder/logits_dense/kernel", 2, {8, 99}, {"embed", "vocab"}},
    };
    static const char sizes[] = "emb_dim=8,num_heads=4,num_kv_heads=2,head_dim=6,mlp_dim=16,num_layers=3,vocab_size=99";
    const struct model_parameter *parameters;
    struct base_error error;
    struct model_config config;
    int count;
    assert_ok(model_config_parse(arena, base_print(arena, "decoder_only:%s,parallel_block=1", sizes), &config, &error),
              &error);
    assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
    check_rows(joined, BASE_COUNT(joined), parameters, count);
    assert_ok(model_config_parse(arena, base_print(arena, "scalable_decoder_only:%s", sizes), &config, &error), &error);
    assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
    check_rows(scanned, BASE_COUNT(scanned), parameters, count);
}

/* scalable_t5 with scan_layers off: a layer each, heads and kv apart. */
static void parameters_of_scalable_t5_without_scan(struct base_arena *arena)
{
    static const struct expected_parameter rows[] = {
        {"token_embedder/embedding", 2, {50000, 1000}, {"vocab", "embed"}},
        {"encoder/layers_0/relpos_bias/rel_embedding", 2, {6, 32}, {"heads", "relpos_buckets"}},
        {"encoder/layers_1/attention/query/kernel", 3, {1000, 6, 70}, {"embed", "heads", "kv"}},
        {"encoder/layers_1/attention/out/kernel", 3, {6, 70, 1000}, {"heads", "kv", "embed"}},
        {"decoder/layers_1/mlp/wo/kernel", 2, {3000, 1000}, {"mlp", "embed"}},
    };
    const struct model_parameter *parameters;
    struct base_error error;
    struct model_config config;
    int count;
    assert_ok(model_config_parse(
                  arena,
                  "scalable_encoder_decoder:vocab_size=50000,emb_dim=1000,num_heads=6,head_dim=70,mlp_dim=3000,"
                  "num_layers=2,mlp_activations=gelu+linear",
                  &config, &error),
              &error);
    config.scan_layers = false;
    assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
    assert_int_equal(count, 54);
    check_rows(rows, BASE_COUNT(rows), parameters, count);
}

/* ---- models ---- */

/* As their papers and published checkpoints count them. */
static void decoders_have_their_published_sizes(struct base_arena *arena)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } rows[] = {
        {"llama2_7b", 6738415616},       {"llama2_13b", 13015864320},
        {"llama2_70b", 68976648192},     {"llama3_8b", 8030261248},
        {"llama3_70b", 70553706496},     {"llama3_405b", 405853388800},
        {"mistral_7b", 7241732096},      {"gemma_7b", 786825216 + 7751248896},
        {"gpt3_175b", 174604259328},     {"mixtral_8x7b", 46702792704},
        {"mixtral_8x22b", 140620634112}, {"opt_2_7b", 2651596800},
        {"mpt_7b", 6649286656},          {"mpt_30b", 29957200896},
        {"dbrx_132b", 131596523520},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct model_parameter *parameters;
        struct base_error error;
        struct model_config config;
        int count;
        TEST_ROW("%s", rows[i].name);
        assert_ok(model_config_parse(arena, rows[i].name, &config, &error), &error);
        assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
        assert_int_equal(whole_state(parameters, count, MODEL_ADAMW, NULL).parameter_count, rows[i].parameters);
    }
}

static void models_of_the_zoo_all_parse(struct base_arena *arena)
{
    struct base_error error;
    int count;
    const struct model_zoo_model *models = model_zoo(arena, &count);
    assert_true(count > 0); /* the golden case `models` lists them all */
    for (int i = 0; i < count; i++) {
        struct model_config config;
        TEST_ROW("%s", models[i].name);
        assert_ok(model_config_parse(arena, models[i].name, &config, &error), &error);
        assert_string_equal(config.name, models[i].name);
        assert_string_equal(model_architecture(&config), models[i].architecture);
        assert_true(strlen(models[i].source) > 0);
        for (int j = 0; j < i; j++) assert_string_not_equal(models[i].name, models[j].name);
    }
}

static void models_on_one_line(struct base_arena *arena)
{
    struct base_error error;
    struct model_config c;
    assert_ok(model_config_parse(
                  arena,
                  "decoder_only:emb_dim=8192,num_heads=64,num_kv_heads=8,head_dim=128,mlp_dim=28672,num_layers=80,"
                  "vocab_size=128256,mlp_activations=silu+linear,logits_via_embedding=0",
                  &c, &error),
              &error);
    assert_int_equal(c.family, MODEL_DECODER_ONLY);
    assert_false(c.encoder || c.scan_layers || c.logits_via_embedding || c.parallel_block ||
                 c.float32_attention_logits);
    assert_int_equal(c.num_encoder_layers, 0);
    assert_int_equal(c.num_decoder_layers, 80);
    assert_int_equal(c.num_kv_heads, 8);
    assert_int_equal(c.mlp_activation_count, 2);
    assert_int_equal(c.mlp_activations[0], MODEL_SILU);
    assert_int_equal(c.mlp_activations[1], MODEL_LINEAR);
    assert_ok(
        model_config_parse(arena,
                           "encoder_decoder:float32_attention_logits=1,emb_dim=64,num_heads=4,head_dim=16,mlp_dim=128,"
                           "num_layers=3,num_decoder_layers=2,vocab_size=256,logits_via_embedding=1",
                           &c, &error),
        &error);
    assert_int_equal(c.family, MODEL_T5);
    assert_true(c.encoder && c.logits_via_embedding && c.float32_attention_logits);
    assert_int_equal(c.num_encoder_layers, 3);
    assert_int_equal(c.num_decoder_layers, 2);
    assert_int_equal(c.num_kv_heads, 4);
    assert_int_equal(c.mlp_activation_count, 1);
    assert_int_equal(c.mlp_activations[0], MODEL_RELU);
}

static void models_in_json_are_those_on_one_line(struct base_arena *arena)
{
    struct base_error error;
    struct model_config from_file, from_line;
    assert_ok(model_config_parse(arena, "@tests/data/model_gqa.json", &from_file, &error), &error);
    assert_ok(model_config_parse(
                  arena,
                  "decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=8,head_dim=128,mlp_dim=14336,num_layers=32,"
                  "vocab_size=128256,mlp_activations=silu+linear",
                  &from_line, &error),
              &error);
    assert_string_equal(from_file.name, "@tests/data/model_gqa.json");
    memcpy(from_file.name, from_line.name, sizeof from_line.name);
    assert_int_equal(from_file.family, from_line.family);
    assert_int_equal(from_file.num_decoder_layers, from_line.num_decoder_layers);
    assert_int_equal(from_file.num_kv_heads, from_line.num_kv_heads);
    assert_int_equal(from_file.mlp_dim, from_line.mlp_dim);
    assert_int_equal(closed_form(&from_file), closed_form(&from_line));
}

#define GOOD "emb_dim=8,num_heads=4,head_dim=2,mlp_dim=16,vocab_size=32"

#define ROTARY "scalable_decoder_only:" GOOD ",num_layers=4,position_encoding=rotary"
#define WINDOWS ROTARY ",sliding_window=2,sliding_window_every=2"

static void models_that_are_none_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "no model of the zoo"},
        {"t6_small", "no model of the zoo"},
        {"t5_1_1_smal", "t5_1_1_small"},
        {"name", "no model of the zoo"},
        {"t5_1_1_small,encoder_decoder", "no model of the zoo"},
        {"decoder_onyl:" GOOD, "architecture: \""},
        {":" GOOD, "architecture: \""},
        {"decoder_only:", "no key=value"},
        {"decoder_only:" GOOD ",", "no key=value"},
        {"decoder_only:emb_dim=-1,num_heads=2", "emb_dim: -1 is out of range"},
        {"decoder_only:emb_dim=8", "num_heads, head_dim, mlp_dim, vocab_size, num_layers missing"},
        {"encoder_decoder:" GOOD ",num_encoder_layers=2", "num_encoder_layers and num_decoder_layers"},
        {"decoder_only:" GOOD ",num_layers=0", "out of range"},
        {"decoder_only:" GOOD ",num_layers=99999", "from 1 to 4096"},
        {"decoder_only:" GOOD ",num_layers=9223372036854775808", "out of range"},
        {"decoder_only:" GOOD ",num_layers=2.5", "whole number"},
        {"decoder_only:" GOOD ",num_layers=", "whole number"},
        {"decoder_only:" GOOD ",num_layer=2", "num_layers"},
        {"decoder_only:" GOOD ",zzzzzzzzzz=2", "the keys are emb_dim"},
        {"decoder_only:" GOOD ",num_layers=2,emb_dim=8", "emb_dim: is a duplicate"},
        {"decoder_only:" GOOD ",num_layers=2,num_decoder_layers=2", "given already"},
        {"decoder_only:" GOOD ",num_layers=2,num_encoder_layers=2", "no encoder"},
        {"encoder_decoder:" GOOD ",num_layers=2,num_encoder_layers=2,num_decoder_layers=2", "given already"},
        {"decoder_only:" GOOD ",num_layers=2,num_kv_heads=3", "use one of 1, 2, 4"},
        {"decoder_only:" GOOD ",num_layers=2,num_kv_heads=8", "does not divide"},
        {"decoder_only:" GOOD ",num_layers=2,logits_via_embedding=2", "from 0 to 1"},
        {"decoder_only:" GOOD ",num_layers=2,mlp_activations=", "is unknown"},
        {"decoder_only:" GOOD ",num_layers=2,mlp_activations=gelu+", "is unknown"},
        {"decoder_only:" GOOD ",num_layers=2,mlp_activations=gleu", "\"gleu\" is unknown"},
        {"decoder_only:" GOOD ",num_layers=2,mlp_activations=gelu+linear+relu", "more than 2"},
        {"encoder_decoder:" GOOD ",num_layers=2,parallel_block=1", "decoder-only models alone"},
        {"encoder_decoder:" GOOD ",num_layers=2,position_encoding=rotary", "decoder-only models alone"},
        {"encoder_decoder:" GOOD ",num_layers=2,sliding_window=8", "decoder-only models alone"},
        {"decoder_only:" GOOD ",num_layers=2,position_encoding=rotray", "\"rotray\" is unknown"},
        {"decoder_only:" GOOD ",num_layers=2,norm=batch", "rms, layer or unbiased_layer"},
        {"decoder_only:" GOOD ",num_layers=2,sliding_window_every=2", "requires sliding_window"},
        {"decoder_only:" GOOD ",num_layers=2,num_positions=8", "position_encoding=learned"},
        {"decoder_only:emb_dim=8,num_heads=4,head_dim=3,mlp_dim=16,vocab_size=32,num_layers=2,position_encoding=rotary",
         "head_dim: 3 is odd"},
        {WINDOWS ",num_experts=4,first_dense_layers=1", "sliding_window_every: is not modelled with"},
        {WINDOWS ",num_experts=4,moe_every=2", "sliding_window_every: is not modelled with"},
        {ROTARY ",residual_scale=0.5,num_experts=4", "residual_scale: is not modelled with num_experts"},
        {ROTARY ",residual_scale=0.5,norm_placement=behind", "residual_scale: is not modelled with norms behind"},
        {ROTARY ",residual_scale=0.5,biases=out", "residual_scale: is not modelled with biases"},
        {ROTARY ",gate_limit=7,mlp_activations=gelu+linear", "gate_limit: is of gpt-oss's gate"},
        {ROTARY ",gate_limit=7,mlp_activations=silu", "gate_limit: is of gpt-oss's gate"},
        {"decoder_only:" GOOD ",num_layers=2,rope_theta=5e5", "rope_theta: requires position_encoding=rotary"},
        {"decoder_only:" GOOD ",num_layers=2,rotary_dim=2", "rotary_dim: requires position_encoding=rotary"},
        {ROTARY ",rope_local_theta=5e5", "rope_local_theta: requires position_encoding=rotary and sliding_window"},
        {"scalable_decoder_only:emb_dim=8,num_heads=4,head_dim=4,mlp_dim=16,vocab_size=32,num_layers=2,position_"
         "encoding="
         "rotary,rotary_dim=2,kv_lora_rank=4,qk_rope_head_dim=2,v_head_dim=4",
         "rotary_dim: requires"},
        {ROTARY ",attention_scale=1e-46", "attention_scale: 1e-46 is below float32's smallest"},
        {ROTARY ",logits_scale=1e-300", "logits_scale: 1e-300 is below float32's smallest"},
        {"@no_such_file.json", "no_such_file.json"},
        {"@model.gin", "model.gin: cannot be read"},
        {"@tests/data/rules_standard.json", "architecture: missing"},
        {"@tests", "tests"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct model_config config = {.emb_dim = 77};
        TEST_ROW("%s", rows[i].text);
        assert_fails(model_config_parse(arena, rows[i].text, &config, &error), BASE_INPUT, &error, rows[i].part);
        assert_true(!strncmp(error.text, "model: ", 7));
        assert_int_equal(config.emb_dim, 77);
    }
}

static void models_of_any_length_are_refused_in_one_message(struct base_arena *arena)
{
    struct base_error error;
    struct model_config config;
    enum { LENGTH = 100000 };
    char *text = base_alloc(arena, LENGTH + 1, 1);
    memset(text, 'a', LENGTH);
    assert_fails(model_config_parse(arena, text, &config, &error), BASE_INPUT, &error, "longer than 1023 bytes");
    text[500] = '\0';
    assert_fails(model_config_parse(arena, text, &config, &error), BASE_INPUT, &error, "no model of the zoo");
}

/* Random edits of good lines end in a model or in a message, never elsewhere. */
static void models_with_random_edits_parse_or_are_refused(struct base_arena *arena)
{
    static const char good[] =
        "encoder_decoder:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=128,num_encoder_layers=2,num_decoder_layers=2,"
        "vocab_size=256,mlp_activations=gelu+linear";
    static const char letters[] = "=,:+-019@_ ax\xff";
    struct base_random random;
    int refused = 0;
    base_random_seed(&random, 11);
    for (int i = 0; i < 4000; i++) {
        struct base_error error = {0};
        struct model_config config;
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int64_t edits = 1 + base_random_below(&random, 3); edits > 0; edits--)
            text[base_random_below(&random, sizeof good - 1)] = letters[base_random_below(&random, sizeof letters - 1)];
        TEST_ROW("%s", text);
        enum base_status status = model_config_parse(arena, text, &config, &error);
        if (status == BASE_OK)
            assert_true(config.emb_dim > 0 && config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0);
        else assert_fails(status, BASE_INPUT, &error, "model: ");
        refused += status != BASE_OK;
    }
    assert_true(refused > 1000 && refused < 4000);
}

/* ---- optimizer state ---- */

static struct model_adafactor read_options(struct base_arena *arena, const struct base_json *c)
{
    const struct base_json *rules = member(c, "rules"), *args = member(c, "args"), *value;
    struct model_adafactor options = model_adafactor_defaults();
    if (rules->kind == BASE_JSON_STRING) options.logical_factor_rules = strcmp(rules->string, "none") != 0;
    if (rules->kind == BASE_JSON_OBJECT) {
        struct model_factor_rule *given = base_new(arena, struct model_factor_rule, rules->count);
        for (const struct base_json *rule = rules->child; rule; rule = rule->next)
            given[options.factor_rule_count++] = (struct model_factor_rule){rule->key, rule->string};
        options.factor_rules = given;
    }
    value = base_json_get(args, "factored");
    if (value) options.factored = value->kind == BASE_JSON_TRUE;
    value = base_json_get(args, "min_dim_size_to_factor");
    if (value) options.min_dim_size_to_factor = (int64_t)value->number;
    value = base_json_get(args, "beta1");
    options.has_beta1 = value != NULL;
    if (value) options.beta1 = value->number;
    return options;
}

static bool listed(const struct base_json *list, const char *name)
{
    for (const struct base_json *at = list->child; at; at = at->next)
        if (!strcmp(at->string, name)) return true;
    return false;
}

static void adafactor_state_is_that_of_t5x(struct base_arena *arena)
{
    int count = 0;
    for (const struct base_json *c = member(test_read_json(arena, "adafactor_state.json"), "cases")->child; c;
         c = c->next, count++) {
        struct base_error error;
        struct model_adafactor options = read_options(arena, c);
        struct model_factoring f;
        const char *axes[MOST_NAMES];
        int64_t shape[MOST_NAMES];
        int rank = read_names(member(c, "axes"), axes);
        for (int i = 0; i < rank; i++) shape[i] = (int64_t)item(member(c, "shape"), i)->number;
        TEST_ROW("%s", text_of(arena, c));
        enum base_status status = model_factor(&options, rank, shape, axes, &f, &error);
        assert_int_equal(status, member(c, "ok")->kind == BASE_JSON_TRUE ? BASE_OK : BASE_INPUT);
        if (status != BASE_OK) continue;
        assert_true(same_shape(member(c, "v_row"), f.v_row_rank, f.v_row));
        assert_true(same_shape(member(c, "v_col"), f.v_col_rank, f.v_col));
        assert_true(same_shape(member(c, "v"), f.v_rank, f.v));
        assert_true(same_shape(member(c, "m"), f.m_rank, f.m));
        assert_int_equal(f.v_sharded, listed(member(c, "sharded"), "v"));
        assert_int_equal(f.m_sharded, listed(member(c, "sharded"), "m"));
    }
    assert_int_equal(count, 58);
}

/* v_row and v_col lack exactly what the masks say. */
static void adafactor_masks_name_the_reduced_dimensions(struct base_arena *arena)
{
    (void)arena;
    struct base_error error;
    struct model_adafactor options = model_adafactor_defaults();
    struct model_factoring f;
    const char *const out_axes[] = {"heads", "layers", "kv", "embed"}, *const plain_axes[] = {"embed", "mlp"};
    assert_ok(model_factor(&options, 4, (const int64_t[]){12, 24, 64, 768}, out_axes, &f, &error), &error);
    assert_int_equal(f.row_dims, 1 << 1 | 1 << 3);
    assert_int_equal(f.column_dims, 1 << 0 | 1 << 1 | 1 << 2);
    assert_ok(model_factor(&options, 2, (const int64_t[]){1024, 512}, plain_axes, &f, &error), &error);
    assert_int_equal(f.row_dims, 1 << 1);
    assert_int_equal(f.column_dims, 1 << 0);
    options.has_beta1 = true; /* beta1 of 0 keeps m, and replicates it */
    assert_ok(model_factor(&options, 2, (const int64_t[]){1024, 512}, plain_axes, &f, &error), &error);
    assert_int_equal(element_count(f.m_rank, f.m), 1024 * 512);
    assert_false(f.m_sharded);
    options.logical_factor_rules = false;
    assert_fails(model_factor(&options, 4, (const int64_t[]){12, 24, 64, 768}, out_axes, &f, &error), BASE_INPUT,
                 &error, "needs logical_factor_rules");
    assert_fails(model_factor(&options, 7, (const int64_t[]){1, 1, 1, 1, 1, 1, 1}, out_axes, &f, &error), BASE_INPUT,
                 &error, "7 dimensions");
}

static void optimizers_are_known_by_name(struct base_arena *arena)
{
    (void)arena;
    struct base_error error;
    enum model_optimizer optimizer;
    assert_ok(model_optimizer_parse("sgd", &optimizer, &error), &error);
    assert_int_equal(optimizer, MODEL_SGD);
    assert_fails(model_optimizer_parse("adam9", &optimizer, &error), BASE_INPUT, &error, "adamw");
    assert_fails(model_optimizer_parse("", &optimizer, &error), BASE_INPUT, &error,
                 "adafactor, adamw, sgd, lion, adamw8bit");
}

/* ---- sharding ---- */

/* The message names one of the parameters, dimensions and factors that T5X's parameters cannot be cut by. */
static bool names_one(struct base_arena *arena, const char *message, const struct base_json *indivisible)
{
    for (const struct base_json *row = indivisible->child; row; row = row->next) {
        const char *path = row->child->string, *last = strrchr(path, '/');
        const char *what = base_print(arena, "%s: dimension %d (", last, (int)item(row, 1)->number);
        const char *factor = base_print(arena, "has %lld elements, which do not divide by %lld,",
                                        (long long)item(row, 2)->number, (long long)item(row, 3)->number);
        if (strstr(message, what) && strstr(message, factor)) return true;
    }
    return false;
}

static void shards_are_those_of_t5x(struct base_arena *arena)
{
    struct model_adafactor adafactor = model_adafactor_defaults();
    struct base_error error;
    int count = 0;
    for (const struct base_json *c = member(test_read_json(arena, "rules_shard_shapes.json"), "cases")->child; c;
         c = c->next, count++) {
        const struct base_json *indivisible = item(c, 5);
        const struct model_parameter *parameters;
        struct model_config config;
        struct model_rules rules;
        struct topo_axes mesh;
        struct model_device_state device;
        int parameter_count;
        TEST_ROW("%s %s %s", item(c, 0)->string, item(c, 1)->string, item(c, 2)->string);
        assert_ok(model_config_parse(arena, item(c, 0)->string, &config, &error), &error);
        assert_ok(model_rules_parse(arena, item(c, 1)->string, &rules, &error), &error);
        assert_ok(topo_axes_parse(arena, item(c, 2)->string, "mesh", &mesh, &error), &error);
        assert_ok(model_parameters(arena, &config, &parameters, &parameter_count, &error), &error);
        enum base_status status = model_device_state(parameters, parameter_count, &rules, &mesh, MODEL_EXACT,
                                                     MODEL_ADAFACTOR, &adafactor, &device, &error);
        assert_int_equal(status, indivisible->count ? BASE_INPUT : BASE_OK);
        if (indivisible->count) assert_true(names_one(arena, error.text, indivisible));
        if (indivisible->count) continue;
        assert_int_equal(device.parameter_count, (int64_t)item(c, 3)->number);
        assert_int_equal(device.optimizer_state_count, (int64_t)item(c, 4)->number);
        assert_int_equal(device.optimizer_state_bytes, 4 * device.optimizer_state_count + 4);
    }
    assert_int_equal(count, 328);
}

static void shards_inside_a_step_may_be_padded(struct base_arena *arena)
{
    const int64_t shape[] = {29, 512, 6};
    const char *const axes[] = {"batch", NULL, "heads"};
    struct model_axes spec[] = {
        {.count = 1, .names = {"data"}}, {.unconstrained = true}, {.count = 1, .names = {"model"}}};
    struct base_error error;
    struct topo_axes mesh;
    int64_t local[3];
    assert_ok(topo_axes_parse(arena, "data=2,model=4", "mesh", &mesh, &error), &error);
    assert_ok(model_local_shape(&mesh, 3, shape, axes, spec, MODEL_ROUNDED_UP, local, &error), &error);
    assert_int_equal(local[0], 15);
    assert_int_equal(local[1], 512);
    assert_int_equal(local[2], 2);
    assert_fails(model_local_shape(&mesh, 3, shape, axes, spec, MODEL_EXACT, local, &error), BASE_INPUT, &error,
                 "dimension 0 (batch) has 29 elements");
    assert_fails(model_local_shape(&mesh, 2, shape + 1, axes + 1, spec + 1, MODEL_EXACT, local, &error), BASE_INPUT,
                 &error, "UNCONSTRAINED");
    assert_fails(model_local_shape(&mesh, 1, shape + 2, axes + 2, spec + 2, MODEL_EXACT, local, &error), BASE_INPUT,
                 &error, "use axes of 2 devices, or a rule that leaves heads unsharded");
    const int64_t odd[] = {7};
    assert_fails(model_local_shape(&mesh, 1, odd, axes + 2, spec + 2, MODEL_EXACT, local, &error), BASE_INPUT, &error,
                 "use a rule that leaves heads unsharded");
}

/* 6 devices share 512 rows of width as 86 each, the last ones 82; tensor parallelism has to divide. */
static void flat_shards_need_not_divide(struct base_arena *arena)
{
    static const struct {
        const char *rules, *mesh;
        enum model_division division;
        const char *part;
    } rows[] = {
        {"[[\"embed\",\"data\"]]", "data=6,model=1", MODEL_FLAT, NULL},
        {"[[\"embed\",\"fsdp\"]]", "fsdp=6,tensor=1", MODEL_FLAT, NULL},
        {"[[\"embed\",\"data\"]]", "data=6,model=1", MODEL_EXACT, "as JAX demands"},
        {"[[\"embed\",\"model\"]]", "data=1,model=6", MODEL_FLAT, "as tensor parallelism demands"},
        {"[[\"embed\",[\"data\",\"model\"]]]", "data=3,model=6", MODEL_FLAT, "divide by 6"},
    };
    const struct model_parameter kernel = {
        .path = "wi/kernel", .rank = 2, .shape = {512, 100}, .axes = {"embed", "mlp"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_rules rules;
        struct topo_axes mesh;
        struct model_device_state device = {.parameter_count = 77};
        struct base_error error;
        TEST_ROW("%s on %s", rows[i].rules, rows[i].mesh);
        assert_ok(model_rules_parse(arena, rows[i].rules, &rules, &error), &error);
        assert_ok(topo_axes_parse(arena, rows[i].mesh, "mesh", &mesh, &error), &error);
        const enum base_status status =
            model_device_state(&kernel, 1, &rules, &mesh, rows[i].division, MODEL_SGD, NULL, &device, &error);
        if (rows[i].part) assert_fails(status, BASE_INPUT, &error, rows[i].part);
        else assert_ok(status, &error);
        assert_int_equal(device.parameter_count, rows[i].part ? 77 : 86 * 100);
    }
}

static void shards_of_axes_that_the_mesh_lacks_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *rules, *part;
    } rows[] = {
        {"[[\"embed\",\"rows\"]]", "rows is not found in the mesh"},
        {"[[\"embed\",[\"data\",\"data\"]]]", "data shards one array twice"},
        {"[[\"embed\",[\"data\",null]]]", "None is not found"},
        {"[[\"embed\",\"__UNCONSTRAINED__\"]]", "UNCONSTRAINED"},
    };
    const struct model_parameter *parameters;
    struct model_config config;
    struct topo_axes mesh;
    struct base_error error;
    int count;
    assert_ok(model_config_parse(arena, "t5_1_1_small", &config, &error), &error);
    assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
    assert_ok(topo_axes_parse(arena, "data=2,model=2", "mesh", &mesh, &error), &error);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_rules rules;
        struct model_device_state device = {.parameter_count = 77};
        TEST_ROW("%s", rows[i].rules);
        assert_ok(model_rules_parse(arena, rows[i].rules, &rules, &error), &error);
        assert_fails(
            model_device_state(parameters, count, &rules, &mesh, MODEL_EXACT, MODEL_SGD, NULL, &device, &error),
            BASE_INPUT, &error, rows[i].part);
        assert_int_equal(device.parameter_count, 77);
    }
}

/* Weights have embed over fsdp; activations, whose batch takes fsdp first, over tensor. */
static void rules_of_maxtext_shard_weights_and_activations(struct base_arena *arena)
{
    static const struct {
        const char *names[3];
        int rank;
        int64_t shape[3], local[3];
    } rows[] = {
        {{"embed", "mlp"}, 2, {64, 96}, {16, 48}},
        {{"heads", "kv", "embed"}, 3, {8, 5, 64}, {4, 5, 16}},
        {{"vocab", "embed"}, 2, {100, 64}, {50, 16}},
        {{"batch", "length", "embed"}, 3, {24, 7, 64}, {3, 7, 32}},
        {{"batch", "length", "mlp"}, 3, {24, 7, 96}, {3, 7, 48}},
    };
    struct base_error error;
    struct model_rules rules;
    struct topo_axes mesh;
    assert_ok(model_rules_parse(arena, "maxtext", &rules, &error), &error);
    assert_ok(topo_axes_parse(arena, "data=2,fsdp=4,tensor=2", "mesh", &mesh, &error), &error);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_axes spec[3];
        int64_t local[3];
        TEST_ROW("row %d", i);
        assert_ok(model_resolve(&rules, rows[i].names, rows[i].rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, &error),
                  &error);
        assert_ok(
            model_local_shape(&mesh, rows[i].rank, rows[i].shape, rows[i].names, spec, MODEL_EXACT, local, &error),
            &error);
        for (int d = 0; d < rows[i].rank; d++) assert_int_equal(local[d], rows[i].local[d]);
    }
}

static void meshes_that_are_none_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "no axis=size"},
        {"4x32x4", "data=4,fsdp=32,tensor=4"},
        {"4,2", "data=4,fsdp=2 "},
        {"4x2x2x2", "no axis=size"},
        {"4x", "no axis=size"},
        {"data", "no axis=size"},
        {"=4", "no axis=size"},
        {"data=4,", "no axis=size"},
        {"data=0", "from 1"},
        {"data=-1", "from 1"},
        {"data=2x", "whole number"},
        {"data=99999999999999999999", "out of range"},
        {"data=2,data=2", "duplicate"},
        {"data+model=2", "cannot be the name"},
        {"-=2", "cannot be the name"},
        {"data=1048576,model=2", "devices"},
        {"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1", "more than 16"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct topo_axes mesh;
        TEST_ROW("%s", rows[i].text);
        assert_fails(topo_axes_parse(arena, rows[i].text, "mesh", &mesh, &error), BASE_INPUT, &error, rows[i].part);
        assert_true(!strncmp(error.text, "mesh: ", 6));
    }
}

static const struct test tests[] = {
    TEST(rules_resolve_as_flax_does),
    TEST(rules_constrain_as_flax_does),
    TEST(rules_standard_sets_are_those_of_t5x),
    TEST(rules_with_a_name_are_told),
    TEST(rules_documented_sets_are_those_of_t5x),
    TEST(rules_that_are_none_are_refused),
    TEST(rules_are_not_read_without_end),
    TEST(rules_refuse_more_dimensions_than_arrays_have),
    TEST(parameters_are_those_of_t5x),
    TEST(parameter_counts_are_the_published_ones),
    TEST(parameter_counts_follow_the_closed_form),
    TEST(parameters_beyond_t5x),
    TEST(parameters_of_scalable_t5_without_scan),
    TEST(models_of_the_zoo_all_parse),
    TEST(decoders_have_their_published_sizes),
    TEST(models_on_one_line),
    TEST(models_in_json_are_those_on_one_line),
    TEST(models_that_are_none_are_refused),
    TEST(models_of_any_length_are_refused_in_one_message),
    TEST(models_with_random_edits_parse_or_are_refused),
    TEST(adafactor_state_is_that_of_t5x),
    TEST(adafactor_masks_name_the_reduced_dimensions),
    TEST(optimizers_are_known_by_name),
    TEST(shards_are_those_of_t5x),
    TEST(shards_inside_a_step_may_be_padded),
    TEST(flat_shards_need_not_divide),
    TEST(shards_of_axes_that_the_mesh_lacks_are_refused),
    TEST(rules_of_maxtext_shard_weights_and_activations),
    TEST(meshes_that_are_none_are_refused),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
