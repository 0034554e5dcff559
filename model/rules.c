/* Logical axis rules: T5X's standard and documented sets, rules given as JSON, and their resolution as in Flax. */
#include "model/model.h"

#include <string.h>

enum { MOST_RULES = 1024 }; /* T5X's own sets have about twenty, and each tensor is resolved against all */

/* ---- named sets (rule_sets.csv) ---- */

static const struct {
    const char *name, *rules;
} sets[] = {RULE_SETS_ROWS};

const char *const model_rule_sets[MODEL_RULE_SETS] = {RULE_SETS_NAMES};

/* "embed=data+fsdp", or "embed", which is not sharded. */
static struct model_rule rule_of(struct base_arena *arena, const char *word, size_t length)
{
    const size_t cut = strcspn(word, " =");
    struct model_rule rule = {.logical = base_copy_bytes(arena, word, cut)};
    for (size_t at = cut + 1, end; at < length; at = end + 1) {
        end = at + strcspn(word + at, " +");
        rule.value.names[rule.value.count++] = base_copy_bytes(arena, word + at, end - at);
    }
    return rule;
}

/* False: no set has that name. */
static bool find_set(struct base_arena *arena, const char *name, struct model_rules *out)
{
    int row = 0, count = 0;
    if (!strcmp(name, "standard")) name = "standard:1,1";
    if (!strcmp(name, "standard_moe")) name = "standard_moe:2,1";
    while (row < MODEL_RULE_SETS && strcmp(sets[row].name, name) != 0) row++;
    if (row == MODEL_RULE_SETS) return false;
    const char *text = sets[row].rules;
    struct model_rule *rules = base_new(arena, struct model_rule, strlen(text) / 2 + 1);
    for (const char *at = text; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        rules[count++] = rule_of(arena, at, length);
        at += length;
    }
    *out = (struct model_rules){rules, count};
    return true;
}

/* The set with the activation and parameter partitioning dims of "standard:A,P". For parameter dims 2 of experts, T5X
 * intends a warning, but raises its logger's return value, which is not an exception. */
static enum base_status read_standard(struct base_arena *arena, const char *set, const char *text,
                                      struct model_rules *out, struct base_error *error)
{
    int64_t dims[2];
    int count;
    BASE_TRY(base_parse_ints(text, set, INT32_MIN, INT32_MAX, 2, dims, &count, error));
    if (count != 2)
        return base_fail(error, BASE_INPUT,
                         "%s:%.40s: activation and parameter partitioning dims are needed, as in %s:1,1", set, text,
                         set);
    if (dims[1] == 2 && !strcmp(set, "standard_moe"))
        return base_fail(error, BASE_INPUT,
                         "standard_moe:%.40s: exceptions must derive from BaseException: T5X knows no "
                         "parameter_partitioning_dims 2 for experts; use 1",
                         text);
    for (int i = 0; i < 2; i++)
        if (dims[i] < 1 || dims[i] > 2)
            return base_fail(error, BASE_INPUT, "%s:%.40s: %s_partitioning_dims %d is not supported; use 1 or 2", set,
                             text, i == 0 ? "activation" : "parameter", (int)dims[i]);
    find_set(arena, base_print(arena, "%s:%d,%d", set, (int)dims[0], (int)dims[1]), out);
    return BASE_OK;
}

static enum base_status unknown_set(const char *text, struct base_error *error)
{
    const char *names[MODEL_RULE_SETS + 2] = {"standard", "standard_moe"};
    char others[256] = "";
    int count = 2;
    for (int i = 0; i < MODEL_RULE_SETS; i++) {
        const size_t length = strlen(others);
        if (strchr(sets[i].name, ':')) continue; /* of these two */
        names[count++] = sets[i].name;
        snprintf(others + length, sizeof others - length, ", %s", sets[i].name);
    }
    const char *nearest = base_meant("logical_axis_rules", text, names, count);
    return base_fail(error, BASE_INPUT,
                     "\"%.60s\" is no set of axis rules%s%s%sUse standard, standard:A,P, standard_moe:A,P%s or a "
                     "JSON list [[\"batch\", \"data\"], …]",
                     text, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "? " : ". ", others);
}

/* ---- rules as JSON ---- */

static bool is_unconstrained(const char *name)
{
    return name && !strcmp(name, MODEL_UNCONSTRAINED);
}

/* JAX's canonical form: a tuple of one is its element, an empty name is None. */
static void canonical(struct model_axes *axes)
{
    if (axes->count != 1) return;
    bool unconstrained = is_unconstrained(axes->names[0]);
    if (unconstrained || !axes->names[0] || !*axes->names[0])
        *axes = (struct model_axes){.unconstrained = unconstrained};
}

static enum base_status add_mesh_axis(const struct base_json *item, struct model_axes *axes, struct base_error *error)
{
    if (axes->count == MODEL_MAX_MESH_AXES)
        return base_fail(error, BASE_INPUT, "more than %d mesh axes", MODEL_MAX_MESH_AXES);
    if (item->kind == BASE_JSON_ARRAY)
        return base_fail(error, BASE_INPUT, "a tuple of mesh axes cannot hold another tuple; list the axes in one");
    if (item->kind != BASE_JSON_STRING && item->kind != BASE_JSON_NULL)
        return base_fail(error, BASE_INPUT, "is %s, but the name of a mesh axis is needed",
                         base_json_kind_name(item->kind));
    axes->names[axes->count++] = item->string;
    return BASE_OK;
}

static enum base_status parse_mesh_axes(const struct base_json *value, struct model_axes *axes,
                                        struct base_error *error)
{
    if (value->kind != BASE_JSON_ARRAY) {
        if (value->kind != BASE_JSON_NULL) BASE_TRY(add_mesh_axis(value, axes, error));
    } else {
        for (const struct base_json *item = value->child; item; item = item->next)
            BASE_TRY(add_mesh_axis(item, axes, error));
    }
    if (axes->count == 1 && is_unconstrained(axes->names[0])) canonical(axes);
    return BASE_OK;
}

static enum base_status parse_rule(const struct base_json *pair, struct model_rule *rule, struct base_error *error)
{
    if (pair->kind != BASE_JSON_ARRAY || pair->count != 2)
        return base_fail(error, BASE_INPUT,
                         "is no pair; [logical axis, mesh axis or null or list of mesh axes] is needed");
    const struct base_json *key = pair->child;
    if (key->kind != BASE_JSON_STRING && key->kind != BASE_JSON_NULL)
        return base_fail(error, BASE_INPUT, "the logical axis is %s; a name is needed", base_json_kind_name(key->kind));
    rule->logical = key->string;
    return parse_mesh_axes(key->next, &rule->value, error);
}

static enum base_status parse_list(struct base_arena *arena, const char *text, struct model_rules *out,
                                   struct base_error *error)
{
    const struct base_json *list;
    BASE_TRY(base_json_parse(arena, text, strlen(text), &list, error));
    if (list->kind != BASE_JSON_ARRAY)
        return base_fail(error, BASE_INPUT,
                         "is %s; rules have an order, so a list of [logical axis, mesh axis] is needed",
                         base_json_kind_name(list->kind));
    if (list->count > MOST_RULES)
        return base_fail(error, BASE_INPUT, "%d rules; at most %d are read", list->count, MOST_RULES);
    struct model_rule *rules = base_new(arena, struct model_rule, list->count);
    int count = 0;
    for (const struct base_json *pair = list->child; pair; pair = pair->next, count++)
        if (parse_rule(pair, &rules[count], error) != BASE_OK) return base_fail_in(error, "[%d]", count);
    *out = (struct model_rules){rules, count};
    return BASE_OK;
}

enum base_status model_rules_parse(struct base_arena *arena, const char *text, struct model_rules *out,
                                   struct base_error *error)
{
    const char *start = text + strspn(text, " \t\r\n");
    enum base_status status = BASE_OK;
    if (*start == '[' || *start == '{') status = parse_list(arena, text, out, error);
    else if (!strncmp(text, "standard:", 9)) status = read_standard(arena, "standard", text + 9, out, error);
    else if (!strncmp(text, "standard_moe:", 13)) status = read_standard(arena, "standard_moe", text + 13, out, error);
    else if (!find_set(arena, text, out)) status = unknown_set(text, error);
    return status == BASE_OK ? status : base_fail_in(error, "logical_axis_rules");
}

struct model_rules model_rules_over_slices(struct base_arena *arena, const struct model_rules *rules)
{
    struct model_rule *changed = base_new(arena, struct model_rule, rules->count);
    for (int i = 0; i < rules->count; i++) {
        changed[i] = rules->rules[i];
        if (changed[i].logical && !strcmp(changed[i].logical, "batch"))
            changed[i].value = (struct model_axes){.count = 2, .names = {"replica", "data"}};
    }
    return (struct model_rules){changed, rules->count};
}

/* ---- resolution ---- */

enum { MOST_DIMS = 64 };

static bool is_name(const char *name)
{
    return name && !is_unconstrained(name);
}

static enum base_status refuse_repeated(const char *const *names, int rank, struct base_error *error)
{
    for (int i = 1; i < rank; i++)
        for (int j = 0; is_name(names[i]) && j < i; j++)
            if (names[j] && !strcmp(names[i], names[j]))
                return base_fail(
                    error, BASE_INPUT,
                    "the logical axis \"%.60s\" names two dimensions of one array; a name can occur only once",
                    names[i]);
    return BASE_OK;
}

static int dimension_named(const char *const *names, int rank, const char *logical)
{
    for (int i = 0; i < rank; i++)
        if (names[i] && !strcmp(names[i], logical)) return i;
    return -1;
}

/* None and UNCONSTRAINED take no mesh axis, so they never conflict. */
static bool shares_mesh_axis(const struct model_axes *a, const struct model_axes *b)
{
    for (int i = 0; i < a->count; i++)
        for (int j = 0; is_name(a->names[i]) && j < b->count; j++)
            if (b->names[j] && !strcmp(a->names[i], b->names[j])) return true;
    return false;
}

static bool is_free(const struct model_axes *value, const struct model_axes *spec, int rank)
{
    for (int i = 0; i < rank; i++)
        if (shares_mesh_axis(value, &spec[i])) return false;
    return true;
}

/* Gives each named dimension the value of its first free rule. Returns the dimensions without one, as a bit mask. */
static uint64_t assign(const struct model_rules *rules, const char *const *names, int rank, struct model_axes *spec)
{
    uint64_t unassigned = 0;
    for (int i = 0; i < rank; i++) {
        spec[i] = (struct model_axes){.unconstrained = is_unconstrained(names[i])};
        if (is_name(names[i])) unassigned |= UINT64_C(1) << i;
    }
    for (int r = 0; r < rules->count && unassigned; r++) {
        const struct model_rule *rule = &rules->rules[r];
        int dim = is_name(rule->logical) ? dimension_named(names, rank, rule->logical) : -1;
        if (dim < 0 || !(unassigned >> dim & 1) || !is_free(&rule->value, spec, rank)) continue;
        spec[dim] = rule->value;
        unassigned &= ~(UINT64_C(1) << dim);
    }
    for (int i = 0; i < rank; i++) canonical(&spec[i]);
    return unassigned;
}

static void clear(struct model_axes *spec, int rank)
{
    for (int i = 0; i < rank; i++) spec[i] = (struct model_axes){0};
}

static int lowest_bit(uint64_t bits)
{
    int i = 0;
    while (!(bits >> i & 1)) i++;
    return i;
}

enum base_status model_resolve(const struct model_rules *rules, const char *const *names, int rank,
                               enum model_fallback fallback, struct model_axes *spec, enum model_outcome *outcome,
                               struct base_error *error)
{
    if (rank > MOST_DIMS)
        return base_fail(error, BASE_INPUT, "%d dimensions; at most %d are possible", rank, MOST_DIMS);
    if (outcome && rules->count == 0) {
        clear(spec, rank);
        *outcome = MODEL_NOOP;
        return BASE_OK;
    }
    BASE_TRY(refuse_repeated(names, rank, error));
    struct model_axes found[MOST_DIMS];
    uint64_t unassigned = assign(rules, names, rank, found);
    if (unassigned && fallback == MODEL_RAISE_ERROR)
        return base_fail(error, BASE_INPUT,
                         "no rule is free for the logical axis \"%.60s\"; a rule [\"%.60s\", null] would replicate it",
                         names[lowest_bit(unassigned)], names[lowest_bit(unassigned)]);
    bool dropped = unassigned && fallback == MODEL_NO_CONSTRAINT;
    if (dropped) clear(found, rank);
    for (int i = 0; i < rank; i++) spec[i] = found[i];
    if (outcome) *outcome = dropped ? MODEL_NOOP : MODEL_CONSTRAINT;
    return BASE_OK;
}

static void add_context(struct model_axes *axes)
{
    for (int i = 0; i < axes->count; i++) {
        const bool shards = axes->names[i] && (!strcmp(axes->names[i], "data") || !strcmp(axes->names[i], "fsdp"));
        if (!shards || axes->count == MODEL_MAX_MESH_AXES) continue;
        memmove(&axes->names[i + 2], &axes->names[i + 1], (size_t)(axes->count - i - 1) * sizeof *axes->names);
        axes->names[i + 1] = "context";
        axes->count++;
        return;
    }
}

struct model_rules model_rules_over_context(struct base_arena *arena, const struct model_rules *rules)
{
    enum { FIRST = 2 };
    struct model_rule *own = base_new(arena, struct model_rule, rules->count + FIRST);
    own[0] = own[1] = (struct model_rule){.logical = "length", .value = {.count = 1, .names = {"context"}}};
    own[1].logical = "attended_heads"; /* as heads, and over context */
    for (int i = 0; i < rules->count; i++) {
        struct model_rule *rule = &own[FIRST + i];
        *rule = rules->rules[i];
        const char *logical = rule->logical ? rule->logical : "";
        if (strcmp(logical, "batch") != 0 && strcmp(logical, "expert_group") != 0) add_context(&rule->value);
        if (!rule->logical || strcmp(rule->logical, "heads") != 0 || rule->value.count == MODEL_MAX_MESH_AXES) continue;
        own[1].value = rule->value;
        own[1].value.names[own[1].value.count++] = "context";
    }
    return (struct model_rules){own, rules->count + FIRST};
}

static bool names_model(const struct model_rules *rules)
{
    const struct model_axes model = {.count = 1, .names = {"model"}};
    bool any = false;
    for (int i = 0; i < rules->count; i++) any = any || shares_mesh_axis(&model, &rules->rules[i].value);
    return any;
}

struct model_rules model_rules_over_model(struct base_arena *arena, const struct model_rules *rules)
{
    static const char *const own[] = {"vocab", "mlp", "heads", "joined_kv"};
    if (names_model(rules)) return *rules;
    struct model_rule *all = base_new(arena, struct model_rule, rules->count + BASE_COUNT(own));
    for (int i = 0; i < BASE_COUNT(own); i++) all[i] = (struct model_rule){own[i], {.count = 1, .names = {"model"}}};
    memcpy(all + BASE_COUNT(own), rules->rules, (size_t)rules->count * sizeof *all);
    return (struct model_rules){all, rules->count + BASE_COUNT(own)};
}

bool model_rules_name(const struct model_rules *rules, const char *logical)
{
    for (int i = 0; i < rules->count; i++)
        if (rules->rules[i].logical && !strcmp(rules->rules[i].logical, logical)) return true;
    return false;
}

/* Copies the rules of one logical axis for another one, unless rules name that already. */
static int append_as(const struct model_rules *rules, const char *like, const char *logical, struct model_rule *all,
                     int count)
{
    if (model_rules_name(rules, logical)) return count;
    for (int i = 0; i < rules->count; i++)
        if (rules->rules[i].logical && !strcmp(rules->rules[i].logical, like))
            all[count++] = (struct model_rule){logical, rules->rules[i].value};
    return count;
}

static struct model_axes axes_listed(const char *first, bool context, bool model)
{
    struct model_axes axes = {.count = 1, .names = {first}};
    if (context) axes.names[axes.count++] = "context";
    if (model) axes.names[axes.count++] = "model";
    return axes;
}

struct model_rules model_rules_over_experts(struct base_arena *arena, const struct model_rules *rules,
                                            bool over_experts, bool over_model, bool over_context)
{
    static const struct model_rule spread[] = {
        {.logical = "batch", .value = {.count = 2, .names = {"expert", "data"}}},
        {.logical = "expert_replicas", .value = {.count = 1, .names = {"data"}}}};
    /* Each device that has a part of a sequence sends it, in one all-to-all over all axes of experts. */
    const struct model_axes by_experts = axes_listed("expert", over_context, over_model);
    struct model_axes by_groups = by_experts;
    enum { APART = BASE_COUNT(spread) + 2 };
    struct model_rule *all = base_new(arena, struct model_rule, 7 * rules->count + APART);
    int count = 0;
    if (over_experts) {
        memmove(by_groups.names + 1, by_groups.names, (size_t)by_groups.count++ * sizeof *by_groups.names);
        by_groups.names[0] = "data";
        memcpy(all, spread, sizeof spread);
        all[count = BASE_COUNT(spread)] = (struct model_rule){.logical = "expert_group", .value = by_groups};
        all[count + 1] = (struct model_rule){.logical = "expert", .value = by_experts};
        count = APART;
    } else if (over_context) {
        all[count++] = (struct model_rule){.logical = "expert_group", .value = axes_listed("data", true, false)};
        all[count++] = (struct model_rule){.logical = "expert_replicas", .value = axes_listed("data", true, false)};
    } else count = append_as(rules, "batch", "expert_group", all, 0);
    memcpy(all + count, rules->rules, (size_t)rules->count * sizeof *all);
    count += rules->count;
    count = append_as(rules, "embed", "mlp_embed", all, count);
    count = append_as(rules, "embed", "q_lora", all, count);
    count = append_as(rules, "embed", "kv_lora", all, count);
    if (!over_experts && !over_context) count = append_as(rules, "batch", "expert_replicas", all, count);
    if (!over_model) count = append_as(rules, "mlp", "expert_mlp", all, count);
    return (struct model_rules){all, count};
}

bool model_same_axes(const struct model_axes *a, const struct model_axes *b)
{
    bool same = a->count == b->count && a->unconstrained == b->unconstrained;
    for (int i = 0; same && i < a->count; i++)
        same = a->names[i] && b->names[i] ? !strcmp(a->names[i], b->names[i]) : a->names[i] == b->names[i];
    return same;
}
