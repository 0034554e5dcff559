/* Plans: from text to checked values. What a value means is T5X's; refusals say which key, what, and what would do. */
#include "sim/priced_program.h"

#include <string.h>

enum { LONGEST_LENGTH = 1 << 24, LARGEST_BATCH = 1 << 30 };

const char *const sim_key_names[SIM_KEY_COUNT] = {
    [SIM_MODEL] = "model",
    [SIM_TOPOLOGY] = "topology",
    [SIM_SUBMESH] = "model_parallel_submesh",
    [SIM_NUM_PARTITIONS] = "num_partitions",
    [SIM_RULES] = "logical_axis_rules",
    [SIM_OPTIMIZER_PARTITIONING] = "optimizer_partitioning",
    [SIM_SEQUENCE_PARALLEL] = "sequence_parallel",
    [SIM_INPUTS_LENGTH] = "inputs_length",
    [SIM_TARGETS_LENGTH] = "targets_length",
    [SIM_BATCH_SIZE] = "batch_size",
    [SIM_NUM_MICROBATCHES] = "num_microbatches",
    [SIM_OPTIMIZER] = "optimizer",
    [SIM_REMAT_POLICY] = "remat_policy",
    [SIM_DTYPE] = "dtype",
    [SIM_ATTENTION] = "attention",
    [SIM_SOFTWARE] = "software",
    [SIM_MEMORY_KIND] = "memory_kind",
    [SIM_LEARNING_RATE] = "learning_rate",
    [SIM_SEED] = "seed",
    [SIM_OVERRIDES] = "params_axes_names_override",
    [SIM_ADAFACTOR] = "adafactor",
};

/* ---- JSON ---- */

enum {
    TEXT = 1 << BASE_JSON_STRING,
    NUMBER = 1 << BASE_JSON_NUMBER,
    LIST = 1 << BASE_JSON_ARRAY,
    OBJECT = 1 << BASE_JSON_OBJECT
};

static const unsigned json_kinds[SIM_KEY_COUNT] = {
    [SIM_MODEL] = TEXT,
    [SIM_TOPOLOGY] = TEXT,
    [SIM_SUBMESH] = LIST,
    [SIM_NUM_PARTITIONS] = NUMBER,
    [SIM_RULES] = TEXT | LIST,
    [SIM_OPTIMIZER_PARTITIONING] = TEXT,
    [SIM_SEQUENCE_PARALLEL] = NUMBER,
    [SIM_INPUTS_LENGTH] = NUMBER,
    [SIM_TARGETS_LENGTH] = NUMBER,
    [SIM_BATCH_SIZE] = NUMBER,
    [SIM_NUM_MICROBATCHES] = NUMBER,
    [SIM_OPTIMIZER] = TEXT,
    [SIM_REMAT_POLICY] = TEXT,
    [SIM_DTYPE] = TEXT,
    [SIM_ATTENTION] = TEXT,
    [SIM_SOFTWARE] = TEXT,
    [SIM_MEMORY_KIND] = TEXT,
    [SIM_LEARNING_RATE] = NUMBER,
    [SIM_SEED] = NUMBER,
    [SIM_OVERRIDES] = LIST,
    [SIM_ADAFACTOR] = TEXT | OBJECT,
};

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
            return base_fail(error, BASE_INPUT, "%s: holds %s; whole numbers are needed, as in [4, 2, 2, 1]", key,
                             base_json_kind_name(item->kind));
        if (text.length) base_put(&text, ",");
        base_put_double(&text, item->number);
    }
    if (!text.length)
        return base_fail(error, BASE_INPUT, "%s: is an empty list; whole numbers are needed, as in [4, 2, 2, 1]", key);
    *out = text.data;
    return BASE_OK;
}

static enum base_status value_text(struct base_arena *arena, enum sim_key key, const struct base_json *value,
                                   const char **out, struct base_error *error)
{
    struct base_text text = {.arena = arena};
    if (value->kind == BASE_JSON_NULL) return BASE_OK;
    if (!(json_kinds[key] & (1u << value->kind))) return wrong_kind(sim_key_names[key], json_kinds[key], value, error);
    if (value->kind == BASE_JSON_STRING && !*value->string)
        return base_fail(error, BASE_INPUT, "%s: is empty; leave it out for the default", sim_key_names[key]);
    if (value->kind == BASE_JSON_STRING) *out = value->string;
    if (value->kind == BASE_JSON_ARRAY && key == SIM_SUBMESH)
        return join_numbers(arena, sim_key_names[key], value, out, error);
    if (value->kind == BASE_JSON_ARRAY || value->kind == BASE_JSON_OBJECT) {
        struct base_json_writer writer = {.text = &text, .compact = true};
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
    if (lengths->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT,
                         "task_feature_lengths: is %s; an object is needed, as in {\"inputs\": 512, \"targets\": 512}",
                         base_json_kind_name(lengths->kind));
    for (const struct base_json *member = lengths->child; member; member = member->next) {
        bool inputs = !strcmp(member->key, "inputs"), targets = !strcmp(member->key, "targets");
        if (!inputs && !targets)
            return base_fail(error, BASE_INPUT,
                             "task_feature_lengths.%.60s: is no feature of these models; inputs and targets are",
                             member->key);
        enum base_status status = value_text(arena, inputs ? SIM_INPUTS_LENGTH : SIM_TARGETS_LENGTH, member,
                                             &out->values[inputs ? SIM_INPUTS_LENGTH : SIM_TARGETS_LENGTH], error);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

static enum base_status unknown_key(const char *key, struct base_error *error)
{
    const char *names[SIM_KEY_COUNT + 1] = {"task_feature_lengths"};
    memcpy(names + 1, sim_key_names, sizeof sim_key_names);
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
        int key = 0;
        while (key < SIM_KEY_COUNT && strcmp(sim_key_names[key], member->key) != 0) key++;
        if (key == SIM_KEY_COUNT) return unknown_key(member->key, error);
        BASE_TRY(value_text(arena, (enum sim_key)key, member, &plan.values[key], error));
    }
    *out = plan;
    return BASE_OK;
}

static void put_text(struct base_arena *arena, enum sim_key key, const char *text, struct base_json_writer *writer)
{
    const struct base_json *document;
    struct base_error ignored;
    const char *json = key == SIM_SUBMESH ? base_print(arena, "[%s]", text) : text;
    bool literal = (json_kinds[key] & NUMBER) || (json_kinds[key] & ~(unsigned)TEXT && (*json == '[' || *json == '{'));
    if (literal && base_json_parse(arena, json, strlen(json), &document, &ignored) == BASE_OK)
        base_json_put_value(writer, document);
    else base_json_put_string(writer, text);
}

/* Where the first of the two lengths stands in the order of keys. */
static void put_lengths(struct base_arena *arena, const struct sim_plan_text *plan, struct base_json_writer *writer)
{
    static const struct {
        enum sim_key key;
        const char *feature;
    } lengths[] = {{SIM_INPUTS_LENGTH, "inputs"}, {SIM_TARGETS_LENGTH, "targets"}};
    base_json_key(writer, "task_feature_lengths");
    base_json_open_inline(writer, '{');
    for (int i = 0; i < BASE_COUNT(lengths); i++) {
        const char *text = plan->values[lengths[i].key];
        if (!text || !*text) continue;
        base_json_key(writer, lengths[i].feature);
        put_text(arena, lengths[i].key, text, writer);
    }
    base_json_close(writer, '}');
}

void sim_plan_put_json(struct base_arena *arena, const struct sim_plan_text *plan, struct base_json_writer *writer)
{
    bool lengths = false;
    base_json_open(writer, '{');
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *text = plan->values[key];
        bool length = key == SIM_INPUTS_LENGTH || key == SIM_TARGETS_LENGTH;
        if (!text || !*text || (length && lengths)) continue;
        lengths = lengths || length;
        if (length) {
            put_lengths(arena, plan, writer);
            continue;
        }
        base_json_key(writer, sim_key_names[key]);
        put_text(arena, (enum sim_key)key, text, writer);
    }
    base_json_close(writer, '}');
}

/* ---- words ---- */

struct word {
    const char *name;
    int value;
};

static enum base_status read_word(const char *text, enum sim_key key, const struct word *words, int count, int fallback,
                                  int *out, struct base_error *error)
{
    *out = fallback;
    if (!text || !*text) return BASE_OK;
    const char *names[16];
    int found;
    for (int i = 0; i < count; i++) names[i] = words[i].name;
    BASE_TRY(base_parse_word(text, sim_key_names[key], names, count, &found, error));
    *out = words[found].value;
    return BASE_OK;
}

static const struct word remat_policies[] = {{"none", MODEL_REMAT_NONE},
                                             {"minimal", MODEL_REMAT_MINIMAL},
                                             {"selective", MODEL_REMAT_SELECTIVE},
                                             {"full", MODEL_REMAT_FULL}};
static const struct word dtypes[] = {
    {"bfloat16", MODEL_BFLOAT16}, {"float32", MODEL_FLOAT32}, {"float16", MODEL_FLOAT16}, {"fp8", MODEL_FP8}};
static const struct word attentions[] = {{"unfused", 0}, {"flash", 1}};
static const struct word partitionings[] = {
    {"none", SIM_REPLICATED}, {"data", SIM_STATE_OVER_DATA}, {"data+gradients", SIM_STATE_AND_GRADIENTS_OVER_DATA}};
static const struct word memory_kinds[] = {
    {"device", SIM_DEVICE}, {"reserved", SIM_RESERVED}, {"allocated", SIM_ALLOCATED}};

static enum base_status read_words(const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error)
{
    int remat, dtype, flash, partitioning, memory_kind;
    bool local = plan->placement->topology.kind == TOPO_LOCAL;
    BASE_TRY(read_word(text->values[SIM_REMAT_POLICY], SIM_REMAT_POLICY, remat_policies, BASE_COUNT(remat_policies),
                       plan->config->scan_layers ? MODEL_REMAT_MINIMAL : MODEL_REMAT_NONE, &remat, error));
    BASE_TRY(read_word(text->values[SIM_DTYPE], SIM_DTYPE, dtypes, BASE_COUNT(dtypes),
                       local ? MODEL_FLOAT32 : MODEL_BFLOAT16, &dtype, error));
    BASE_TRY(
        read_word(text->values[SIM_ATTENTION], SIM_ATTENTION, attentions, BASE_COUNT(attentions), 0, &flash, error));
    BASE_TRY(read_word(text->values[SIM_OPTIMIZER_PARTITIONING], SIM_OPTIMIZER_PARTITIONING, partitionings,
                       BASE_COUNT(partitionings), SIM_REPLICATED, &partitioning, error));
    BASE_TRY(read_word(text->values[SIM_MEMORY_KIND], SIM_MEMORY_KIND, memory_kinds, BASE_COUNT(memory_kinds),
                       SIM_DEVICE, &memory_kind, error));
    plan->options.remat = (enum model_remat)remat;
    plan->options.dtype = (enum model_dtype)dtype;
    plan->options.flash_attention = flash;
    plan->optimizer_partitioning = (enum sim_optimizer_partitioning)partitioning;
    plan->memory_kind = (enum sim_memory_kind)memory_kind;
    plan->options.optimizer = MODEL_ADAFACTOR;
    const char *optimizer = text->values[SIM_OPTIMIZER];
    return optimizer && *optimizer ? model_optimizer_parse(optimizer, &plan->options.optimizer, error) : BASE_OK;
}

/* ---- numbers ---- */

static enum base_status read_number(const struct sim_plan_text *text, enum sim_key key, int64_t low, int64_t high,
                                    int64_t fallback, int64_t *out, struct base_error *error)
{
    const char *given = text->values[key];
    *out = fallback;
    return given && *given ? base_parse_int(given, sim_key_names[key], low, high, out, error) : BASE_OK;
}

static enum base_status refuse_microbatches(int64_t batch, int64_t microbatches, struct base_error *error)
{
    char divisors[120] = "";
    int shown = 0;
    for (int64_t n = base_next_divisor(batch, 0); n && shown < 8; n = base_next_divisor(batch, n)) {
        size_t used = strlen(divisors);
        snprintf(divisors + used, sizeof divisors - used, "%s%lld", shown++ ? ", " : "", (long long)n);
    }
    return base_fail(error, BASE_INPUT, "num_microbatches: %lld does not divide batch_size %lld; %s… would",
                     (long long)microbatches, (long long)batch, divisors);
}

static enum base_status read_numbers(const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error)
{
    static const enum sim_key required[] = {SIM_BATCH_SIZE, SIM_TARGETS_LENGTH};
    for (int i = 0; i < BASE_COUNT(required); i++) {
        const char *given = text->values[required[i]];
        bool lengths = required[i] == SIM_TARGETS_LENGTH;
        if (!given || !*given)
            return base_fail(error, BASE_INPUT,
                             lengths
                                 ? "task_feature_lengths.targets: is missing; as in {\"inputs\": 512, \"targets\": 512}"
                                 : "batch_size: is missing; sequences in one global batch, as in 128");
    }
    if (plan->config->encoder && !(text->values[SIM_INPUTS_LENGTH] && *text->values[SIM_INPUTS_LENGTH]))
        return base_fail(
            error, BASE_INPUT,
            "task_feature_lengths.inputs: is missing, and %s has an encoder; as in {\"inputs\": 512, \"targets\": 512}",
            plan->model_text);
    BASE_TRY(read_number(text, SIM_BATCH_SIZE, 1, LARGEST_BATCH, 0, &plan->batch_size, error));
    BASE_TRY(read_number(text, SIM_TARGETS_LENGTH, 1, LONGEST_LENGTH, 0, &plan->targets_length, error));
    BASE_TRY(read_number(text, SIM_INPUTS_LENGTH, 1, LONGEST_LENGTH, 1, &plan->inputs_length, error));
    BASE_TRY(read_number(text, SIM_NUM_MICROBATCHES, 0, LARGEST_BATCH, 0, &plan->num_microbatches, error));
    BASE_TRY(read_number(text, SIM_SEED, 0, INT64_C(1) << 53, 0, &plan->seed, error));
    int64_t sequence_parallel;
    BASE_TRY(read_number(text, SIM_SEQUENCE_PARALLEL, 0, 1, 0, &sequence_parallel, error));
    plan->sequence_parallel = sequence_parallel == 1;
    plan->learning_rate = 1e-3;
    const char *rate = text->values[SIM_LEARNING_RATE];
    if (rate && *rate) BASE_TRY(base_parse_double(rate, "learning_rate", 0, 1e6, &plan->learning_rate, error));
    if (plan->num_microbatches < 1) plan->num_microbatches = 1;
    if (plan->batch_size % plan->num_microbatches)
        return refuse_microbatches(plan->batch_size, plan->num_microbatches, error);
    return BASE_OK;
}

/* ---- what is looked up ---- */

/* What was worked out under a key, or why it was refused: a table may make one mistake a million times. */
struct answer {
    enum base_status status;
    const char *why;
};

static void remember(struct sim_cache *cache, struct answer *answer, enum base_status status,
                     const struct base_error *error)
{
    answer->status = status;
    answer->why = status == BASE_OK ? NULL : base_copy(&cache->arena, error->text);
    sim_cache_store(cache, answer);
}

static enum base_status say_again(const struct answer *answer, struct base_error *error)
{
    return answer->status == BASE_OK ? BASE_OK : base_fail(error, answer->status, "%s", answer->why);
}

/* What stands in a file is another thing when the next question is asked. */
static void note_file(struct sim_cache *cache, const char *text)
{
    cache->read_files = cache->read_files || *text == '@';
}

static enum base_status find_config(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                    struct base_error *error)
{
    struct known_config {
        struct answer answer;
        struct model_config config;
    } * known;
    if (!text || !*text)
        return base_fail(
            error, BASE_INPUT,
            "model: is missing; a zoo name such as t5_1_1_xxl, or one line such as decoder_only:emb_dim=…");
    sim_key_begin(cache, 'm');
    sim_key_text(cache, text);
    known = sim_cache_find(cache);
    if (!known) {
        known = base_new(&cache->arena, struct known_config, 1);
        remember(cache, &known->answer, model_gin_config_parse(&cache->arena, text, &known->config, error), error);
        note_file(cache, text);
    }
    plan->config = &known->config;
    plan->model_text = text;
    return say_again(&known->answer, error);
}

static enum base_status find_rules(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                   struct base_error *error)
{
    struct known_rules {
        struct answer answer;
        struct model_rules rules;
    } * known;
    plan->rules_text = text && *text ? text : "standard:1,1";
    sim_key_begin(cache, 'r');
    sim_key_text(cache, plan->rules_text);
    known = sim_cache_find(cache);
    if (!known) {
        known = base_new(&cache->arena, struct known_rules, 1);
        remember(cache, &known->answer,
                 model_rules_parse(&cache->arena, base_copy(&cache->arena, plan->rules_text), &known->rules, error),
                 error);
    }
    plan->rules = &known->rules;
    return say_again(&known->answer, error);
}

static enum base_status find_adafactor(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                       struct base_error *error)
{
    struct known_adafactor {
        struct answer answer;
        struct model_adafactor options;
    } * known;
    plan->adafactor_text = text ? text : "";
    if (!*plan->adafactor_text) return BASE_OK;
    if (plan->options.optimizer != MODEL_ADAFACTOR)
        return base_fail(error, BASE_INPUT,
                         "adafactor: has options, but the optimizer is another; optimizer adafactor would do");
    sim_key_begin(cache, 'a');
    sim_key_text(cache, text);
    known = sim_cache_find(cache);
    if (!known) {
        known = base_new(&cache->arena, struct known_adafactor, 1);
        remember(cache, &known->answer, model_adafactor_parse(&cache->arena, text, &known->options, error), error);
    }
    plan->options.adafactor = &known->options;
    return say_again(&known->answer, error);
}

/* The model's parameters with the axes that the user gives them. */
struct overridden {
    struct answer answer;
    const struct model_parameter *parameters;
    int count;
};

static enum base_status override_parameters(struct base_arena *arena, const struct sim_plan *plan, const char *text,
                                            struct overridden *out, struct base_error *error)
{
    struct model_overrides overrides;
    BASE_TRY(model_overrides_parse(arena, text, &overrides, error));
    BASE_TRY(model_parameters(arena, plan->config, &out->parameters, &out->count, error));
    BASE_TRY(model_overrides_apply(arena, &overrides, out->parameters, out->count, &out->parameters, error));
    return model_check_layers_alike(arena, out->parameters, out->count, error);
}

static enum base_status find_overrides(struct sim_cache *cache, const char *text, struct sim_plan *plan,
                                       struct base_error *error)
{
    plan->overrides_text = text ? text : "";
    if (!*plan->overrides_text) return BASE_OK;
    sim_key_begin(cache, 'o');
    sim_key_text(cache, plan->model_text);
    sim_key_text(cache, text);
    struct overridden *found = sim_cache_find(cache);
    if (!found) {
        found = base_new(&cache->arena, struct overridden, 1);
        remember(cache, &found->answer,
                 override_parameters(&cache->arena, plan, base_copy(&cache->arena, text), found, error), error);
    }
    plan->options.parameters = found->parameters;
    plan->options.parameter_count = found->count;
    return say_again(&found->answer, error);
}

static enum base_status read_request(const struct sim_plan_text *text, struct topo_mesh_request *request,
                                     struct base_error *error)
{
    *request = (struct topo_mesh_request){.tile_by_host_if_needed = true};
    const char *submesh = text->values[SIM_SUBMESH], *partitions = text->values[SIM_NUM_PARTITIONS];
    int64_t numbers[8];
    if (submesh && *submesh) {
        BASE_TRY(base_parse_ints(submesh, "model_parallel_submesh", INT32_MIN, INT32_MAX, 8, numbers,
                                 &request->submesh_count, error));
        for (int i = 0; i < request->submesh_count; i++) request->submesh[i] = (int)numbers[i];
    }
    if (partitions && *partitions)
        return base_parse_int(partitions, "num_partitions", 1, INT32_MAX, &request->num_partitions, error);
    request->num_partitions = request->submesh_count ? 0 : 1;
    return BASE_OK;
}

static enum base_status place(struct sim_cache *cache, const struct topo_mesh_request *request,
                              const struct sim_plan *plan, struct sim_placement *out, struct base_error *error)
{
    struct topo_topology topology;
    BASE_TRY(topo_parse(&cache->arena, plan->topology_text, &topology, error));
    return sim_placement_build(&cache->arena, &topology, request, plan->software, cache->overrides, out, error);
}

static enum base_status find_placement(struct sim_cache *cache, const struct sim_plan_text *text, struct sim_plan *plan,
                                       struct base_error *error)
{
    struct known_placement {
        struct answer answer;
        struct sim_placement placement;
    } * known;
    const char *topology_text = text->values[SIM_TOPOLOGY], *software = text->values[SIM_SOFTWARE];
    struct topo_mesh_request request;
    if (!topology_text || !*topology_text)
        return base_fail(error, BASE_INPUT, "topology: is missing; an accelerator type such as v4-512, or h100:4x8");
    plan->topology_text = topology_text;
    plan->software = software && *software ? software : "t5x";
    BASE_TRY(read_request(text, &request, error));
    memcpy(plan->submesh, request.submesh, sizeof plan->submesh);
    plan->submesh_count = request.submesh_count;
    plan->num_partitions = request.num_partitions;
    sim_key_begin(cache, 'p');
    sim_key_text(cache, topology_text);
    sim_key_text(cache, plan->software);
    sim_key_bytes(cache, request.submesh, sizeof request.submesh);
    sim_key_bytes(cache, &request.submesh_count, sizeof request.submesh_count);
    sim_key_bytes(cache, &request.num_partitions, sizeof request.num_partitions);
    sim_key_bytes(cache, &cache->overrides_hash, sizeof cache->overrides_hash);
    known = sim_cache_find(cache);
    if (!known) {
        known = base_new(&cache->arena, struct known_placement, 1);
        remember(cache, &known->answer, place(cache, &request, plan, &known->placement, error), error);
        note_file(cache, topology_text);
    }
    plan->placement = &known->placement;
    return say_again(&known->answer, error);
}

/* ---- what must divide ---- */

static enum base_status check_rule_axes(const struct model_rules *rules, struct base_error *error)
{
    for (int i = 0; i < rules->count; i++) {
        const struct model_rule *rule = &rules->rules[i];
        bool of_the_model = false;
        for (int a = 1; a < MODEL_AXIS_COUNT; a++)
            of_the_model =
                of_the_model || (rule->logical && !strcmp(rule->logical, model_axis_name((enum model_axis)a)));
        for (int j = 0; of_the_model && j < rule->value.count; j++) {
            const char *axis = rule->value.names[j];
            if (!axis)
                return base_fail(error, BASE_INPUT,
                                 "logical_axis_rules: %s goes to a list that holds null, which no mesh axis is; null "
                                 "alone, or the list "
                                 "without it, would do",
                                 rule->logical);
            if (strcmp(axis, "data") != 0 && strcmp(axis, "model") != 0)
                return base_fail(error, BASE_INPUT,
                                 "logical_axis_rules: %s goes to the mesh axis \"%.60s\", which is not found in the "
                                 "mesh; its axes are data and model",
                                 rule->logical, axis);
        }
    }
    return BASE_OK;
}

/* A prediction repeats the layers of a stack, so that it can neither shard them nor average over them. */
static enum base_status check_layers_dim(const struct sim_plan *plan, const struct model_parameter *parameter, int dim,
                                         struct base_error *error)
{
    struct model_axes spec[MODEL_MAX_RANK];
    struct model_factoring factoring;
    if (!parameter->axes[dim] || strcmp(parameter->axes[dim], "layers") != 0)
        return base_fail(error, BASE_INPUT,
                         "params_axes_names_override: %s gets another name for its dimension of layers (%d), which a "
                         "prediction must know; "
                         "layers would do",
                         parameter->path, dim);
    BASE_TRY(model_resolve(plan->rules, parameter->axes, parameter->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    for (int i = 0; i < spec[dim].count; i++)
        if (plan->placement->axis_sizes[!strcmp(spec[dim].names[i], "model")] > 1)
            return base_fail(error, BASE_INPUT,
                             "logical_axis_rules: layers goes to the mesh axis %s, and a prediction has every layer on "
                             "every device; null would do",
                             spec[dim].names[i]);
    if (plan->options.optimizer != MODEL_ADAFACTOR || !plan->options.adafactor) return BASE_OK;
    BASE_TRY(
        model_factor(plan->options.adafactor, parameter->rank, parameter->shape, parameter->axes, &factoring, error));
    if (!factoring.factored || (factoring.row_dims & factoring.column_dims & 1u << dim)) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "adafactor: logical_factor_rules: a prediction updates layer by layer, and layers is averaged; batch would do");
}

static enum base_status check_layers(const struct sim_plan *plan, const struct model_parameter *own,
                                     const struct model_parameter *given, int count, struct base_error *error)
{
    for (int i = 0; i < count; i++)
        for (int dim = 0; dim < own[i].rank; dim++)
            if (!strcmp(own[i].axes[dim], "layers")) BASE_TRY(check_layers_dim(plan, &given[i], dim, error));
    return BASE_OK;
}

/* The model's own, with the axes that it names. */
struct listed {
    struct answer answer;
    const struct model_parameter *parameters;
    int count;
};

static enum base_status list_parameters(struct sim_cache *cache, const struct sim_plan *plan, const struct listed **out,
                                        struct base_error *error)
{
    sim_key_begin(cache, 'q');
    sim_key_text(cache, plan->model_text);
    struct listed *listed = sim_cache_find(cache);
    if (!listed) {
        listed = base_new(&cache->arena, struct listed, 1);
        remember(cache, &listed->answer,
                 model_parameters(&cache->arena, plan->config, &listed->parameters, &listed->count, error), error);
    }
    *out = listed;
    return say_again(&listed->answer, error);
}

static enum base_status judge_parameters(struct sim_cache *cache, const struct sim_plan *plan, struct base_error *error)
{
    const struct listed *own;
    struct model_device_state state;
    struct model_adafactor defaults = model_adafactor_defaults();
    struct topo_axes mesh = {2, {"data", "model"}, {plan->placement->axis_sizes[0], plan->placement->axis_sizes[1]}};
    BASE_TRY(list_parameters(cache, plan, &own, error));
    const struct model_parameter *given = plan->options.parameters ? plan->options.parameters : own->parameters;
    BASE_TRY(check_rule_axes(plan->rules, error));
    BASE_TRY(model_device_state(given, own->count, plan->rules, &mesh, plan->options.optimizer,
                                plan->options.adafactor ? plan->options.adafactor : &defaults, &state, error));
    return check_layers(plan, own->parameters, given, own->count, error);
}

static void begin_verdict(struct sim_cache *cache, const struct sim_plan *plan)
{
    sim_key_begin(cache, 'd');
    sim_key_text(cache, plan->model_text);
    sim_key_text(cache, plan->rules_text);
    sim_key_text(cache, plan->overrides_text);
    sim_key_text(cache, plan->adafactor_text);
    sim_key_bytes(cache, &plan->options.optimizer, sizeof plan->options.optimizer);
    sim_key_bytes(cache, plan->placement->axis_sizes, sizeof plan->placement->axis_sizes);
}

/* JAX demands that parameters and optimizer state divide exactly; worked out once for a model, rules and mesh shape. */
static enum base_status check_parameters(struct sim_cache *cache, const struct sim_plan *plan, struct base_error *error)
{
    begin_verdict(cache, plan);
    struct answer *verdict = sim_cache_find(cache);
    if (!verdict) {
        verdict = base_new(&cache->arena, struct answer, 1);
        enum base_status status = judge_parameters(cache, plan, error);
        begin_verdict(cache, plan);
        remember(cache, verdict, status, error);
    }
    return say_again(verdict, error);
}

static enum base_status check_batch(const struct sim_plan *plan, struct base_error *error)
{
    int64_t shards = 1;
    const char *batch[] = {"batch"};
    struct model_axes spec;
    BASE_TRY(model_resolve(plan->rules, batch, 1, MODEL_AXIS_IS_UNSHARDED, &spec, NULL, error));
    for (int i = 0; i < spec.count; i++) shards *= plan->placement->axis_sizes[!strcmp(spec.names[i], "model")];
    if (plan->batch_size % shards == 0) return BASE_OK;
    int64_t lower = plan->batch_size / shards * shards, upper = lower + shards;
    return base_fail(
        error, BASE_INPUT, "batch_size: %lld must be divisible by the data mesh size %lld; %lld%s%.0lld would do",
        (long long)plan->batch_size, (long long)shards, (long long)upper, lower ? " or " : "", (long long)lower);
}

enum base_status sim_plan_check_another(struct sim_cache *cache, const struct sim_plan_text *text, enum model_step step,
                                        bool as_partitioned, struct sim_plan *out, struct base_error *error)
{
    struct sim_plan plan = {.as_partitioned = as_partitioned};
    BASE_TRY(find_config(cache, text->values[SIM_MODEL], &plan, error));
    BASE_TRY(find_placement(cache, text, &plan, error));
    BASE_TRY(find_rules(cache, text->values[SIM_RULES], &plan, error));
    BASE_TRY(read_words(text, &plan, error));
    BASE_TRY(read_numbers(text, &plan, error));
    BASE_TRY(find_adafactor(cache, text->values[SIM_ADAFACTOR], &plan, error));
    BASE_TRY(find_overrides(cache, text->values[SIM_OVERRIDES], &plan, error));
    BASE_TRY(check_parameters(cache, &plan, error));
    BASE_TRY(check_batch(&plan, error));
    plan.options.step = step;
    plan.executable = plan.placement->topology.kind == TOPO_LOCAL;
    plan.options.microbatches = plan.num_microbatches > 1;
    *out = plan;
    return BASE_OK;
}

enum base_status sim_plan_check(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                                enum model_step step, bool as_partitioned, struct sim_plan *out,
                                struct base_error *error)
{
    sim_cache_begin(cache, arena);
    return sim_plan_check_another(cache, text, step, as_partitioned, out, error);
}
