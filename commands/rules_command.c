/* `rules`: which mesh axes shard an array with given logical axes. */
#include "commands/commands.h"
#include "commands/table.h"

#include <string.h>

enum { MOST_DIMS = 64 };

/* A question about a set of rules, and its answer. */
struct resolution {
    struct model_rules rules;
    struct topo_axes mesh;
    bool has_mesh, has_fallback;
    int rank, shape_rank;
    const char *names[MOST_DIMS];
    int64_t shape[MOST_DIMS], local_shape[MOST_DIMS];
    struct model_axes spec[MOST_DIMS];
    enum model_fallback fallback;
    enum model_outcome outcome;
    const char *why[MOST_DIMS];
};

static void put_rules(struct base_json_writer *writer, const struct model_rules *rules)
{
    base_json_open(writer, '{');
    base_json_member_open(writer, "rules", '[');
    for (int i = 0; i < rules->count; i++) {
        base_json_open_inline(writer, '[');
        base_json_put_string(writer, rules->rules[i].logical);
        commands_put_axes(writer, &rules->rules[i].value);
        base_json_close(writer, ']');
    }
    base_json_close(writer, ']');
    base_json_close(writer, '}');
}

static void write_rules(const struct model_rules *rules, struct base_text *out)
{
    struct commands_table table = commands_table_new(out->arena, "ll", rules->count + 1);
    commands_table_row(&table, "logical axis", "mesh axis", NULL);
    for (int i = 0; i < rules->count; i++)
        commands_table_row(&table, rules->rules[i].logical ? rules->rules[i].logical : "null",
                           commands_axes_text(out->arena, &rules->rules[i].value), NULL);
    commands_table_write(&table, out);
}

/* "batch,null,embed" */
static enum base_status parse_names(struct base_arena *arena, const char *text, struct resolution *out,
                                    struct base_error *error)
{
    for (char *at = base_copy(arena, text), *next; at; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        if (!*at)
            return base_fail(error, BASE_INPUT,
                             "--axes: an empty name in \"%.60s\"; null is a dimension without a name", text);
        if (out->rank == MOST_DIMS) return base_fail(error, BASE_INPUT, "--axes: more than %d dimensions", MOST_DIMS);
        out->names[out->rank++] = strcmp(at, "null") ? at : NULL;
    }
    return BASE_OK;
}

static enum base_status parse_fallback(const char *text, enum model_fallback *out, struct base_error *error)
{
    static const char *const names[] = {[MODEL_AXIS_IS_UNSHARDED] = "axis_is_unsharded",
                                        [MODEL_RAISE_ERROR] = "raise_error",
                                        [MODEL_NO_CONSTRAINT] = "no_constraint"};
    int fallback;
    BASE_TRY(base_parse_word(text, "--fallback", names, BASE_COUNT(names), &fallback, error));
    *out = (enum model_fallback)fallback;
    return BASE_OK;
}

static enum base_status parse_shape(const char *text, struct resolution *out, struct base_error *error)
{
    const int64_t largest = INT64_C(1) << 53;
    BASE_TRY(base_parse_ints(text, "--shape", 1, largest, MOST_DIMS, out->shape, &out->shape_rank, error));
    if (out->shape_rank != out->rank)
        return base_fail(error, BASE_INPUT, "--shape: %d dimensions, but --axes names %d; give one size for each",
                         out->shape_rank, out->rank);
    if (!out->has_mesh) return base_fail(error, BASE_USAGE, "--shape needs --mesh, as in --mesh data=4,model=2");
    return BASE_OK;
}

static enum base_status parse_rules_arguments(struct base_arena *arena, const struct base_arguments *arguments,
                                              struct resolution *out, struct base_error *error)
{
    const char *rules = base_argument(arguments, "--logical-axis-rules"), *mesh = base_argument(arguments, "--mesh");
    const char *axes = base_argument(arguments, "--axes"), *shape = base_argument(arguments, "--shape"),
               *fallback = base_argument(arguments, "--fallback");
    if (!axes && (mesh || shape || fallback))
        return base_fail(error, BASE_USAGE,
                         "--mesh, --shape and --fallback need --axes, as in --axes "
                         "batch,length,embed");
    BASE_TRY(model_rules_parse(arena, rules ? rules : "standard", &out->rules, error));
    out->has_mesh = mesh != NULL;
    out->has_fallback = fallback != NULL;
    if (axes) BASE_TRY(parse_names(arena, axes, out, error));
    if (mesh) BASE_TRY(topo_axes_parse(arena, mesh, "mesh", &out->mesh, error));
    if (shape) BASE_TRY(parse_shape(shape, out, error));
    if (fallback) BASE_TRY(parse_fallback(fallback, &out->fallback, error));
    return BASE_OK;
}

/* Without --shape the mesh still has to know every axis: any shape shows that. */
static enum base_status resolve(struct resolution *r, struct base_error *error)
{
    BASE_TRY(
        model_resolve(&r->rules, r->names, r->rank, r->fallback, r->spec, r->has_fallback ? &r->outcome : NULL, error));
    if (!r->has_mesh) return BASE_OK;
    /* A constraint inside a step pads indivisible dimensions; an array that enters or leaves a step must divide. */
    return model_local_shape(&r->mesh, r->rank, r->shape, r->names, r->spec,
                             r->shape_rank && !r->has_fallback ? MODEL_EXACT : MODEL_ROUNDED_UP, r->local_shape, error);
}

/* ---- why ---- */

/* A list may contain null, which is no mesh axis: it is equivalent to the list without it. */
static struct model_axes named_alone(const struct model_axes *axes)
{
    struct model_axes named = *axes;
    named.count = 0;
    for (int i = 0; i < axes->count; i++)
        if (axes->names[i]) named.names[named.count++] = axes->names[i];
    return named;
}

static bool is_it(const struct model_axes *a, const struct model_axes *b)
{
    bool same = a->count == b->count && a->unconstrained == b->unconstrained;
    for (int i = 0; same && i < a->count; i++) same = !strcmp(a->names[i], b->names[i]);
    return same;
}

/* The dimension that already uses the mesh axes of a rule; -1: none. */
static int taken_by(const struct resolution *r, const struct model_axes *wanted, int but_not)
{
    for (int d = 0; d < r->rank; d++)
        for (int i = 0; i < r->spec[d].count && d != but_not; i++)
            for (int j = 0; j < wanted->count; j++)
                if (wanted->names[j] && r->spec[d].names[i] && !strcmp(wanted->names[j], r->spec[d].names[i])) return d;
    return -1;
}

/* "rule 4, embed->model; not rule 2, embed->data: batch has it" */
static const char *explain(struct base_arena *arena, const struct resolution *r, int dim)
{
    struct base_text passed = {.arena = arena};
    const char *name = r->names[dim];
    base_put(&passed, "");
    if (!name) return "has no name";
    for (int i = 0, known = 0; i <= r->rules.count; i++) {
        const struct model_rule *rule = &r->rules.rules[i < r->rules.count ? i : 0];
        if (i == r->rules.count)
            return known ? base_print(arena, "no rule is left%s", passed.data) : "no rule knows it";
        if (!rule->logical || strcmp(rule->logical, name) != 0) continue;
        known++;
        const struct model_axes value = named_alone(&rule->value), spec = named_alone(&r->spec[dim]);
        const char *says = base_print(arena, "rule %d, %s->%s", i + 1, name, commands_axes_text(arena, &value));
        if (is_it(&value, &spec)) return base_print(arena, "%s%s", says, passed.data);
        int other = taken_by(r, &value, dim);
        base_putf(&passed, "; not %s%s%s%s", says, other < 0 ? "" : ": ", other < 0 ? "" : r->names[other],
                  other < 0 ? "" : " has it");
    }
    return "";
}

static void explain_all(struct commands_context *context, struct resolution *r)
{
    for (int i = 0; i < r->rank; i++) {
        r->why[i] = explain(context->arena, r, i);
        if (!r->names[i] || strcmp(r->why[i], "no rule knows it") != 0) continue;
        const char *known[MOST_DIMS * 4], *nearest;
        int count = 0;
        for (int k = 0; k < r->rules.count && count < BASE_COUNT(known); k++)
            if (r->rules.rules[k].logical) known[count++] = r->rules.rules[k].logical;
        nearest = base_nearest(r->names[i], known, count);
        commands_warn(context,
                      base_print(context->arena, "no rule knows the axis %.60s, which stays whole%s%s%s", r->names[i],
                                 nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : ""));
    }
}

static void put_resolution(struct base_json_writer *writer, const struct resolution *r)
{
    base_json_open(writer, '{');
    commands_put_spec(writer, r->rank, r->spec);
    if (r->shape_rank) {
        base_json_member_open_inline(writer, "local_shape", '[');
        for (int i = 0; i < r->rank; i++) {
            if (r->spec[i].unconstrained) base_json_put_null(writer); /* the partitioner chooses */
            else base_json_put_int(writer, r->local_shape[i]);
        }
        base_json_close(writer, ']');
    }
    base_json_member_strings(writer, "why", r->why, r->rank);
    if (r->has_fallback)
        base_json_member_string(writer, "outcome", r->outcome == MODEL_CONSTRAINT ? "constraint" : "noop");
    base_json_close(writer, '}');
}

static void write_resolution(const struct resolution *r, struct base_text *out)
{
    struct commands_table table = commands_table_new(out->arena, r->shape_rank ? "llrrl" : "lll", r->rank + 1);
    commands_table_row(&table, "logical axis", "mesh axis", NULL);
    if (r->shape_rank) commands_table_row(&table, "size", "on one device", NULL);
    commands_table_put(&table, "because");
    for (int i = 0; i < r->rank; i++) {
        commands_table_row(&table, r->names[i] ? r->names[i] : "null", commands_axes_text(out->arena, &r->spec[i]),
                           NULL);
        if (r->shape_rank)
            commands_table_row(&table, commands_grouped(out->arena, r->shape[i]),
                               r->spec[i].unconstrained ? "any" : commands_grouped(out->arena, r->local_shape[i]),
                               NULL);
        commands_table_put(&table, r->why[i]);
    }
    commands_table_write(&table, out);
    if (r->has_fallback && r->outcome == MODEL_NOOP) base_put(out, "no-op: no constraint is added\n");
}

enum base_status commands_rules_run(struct commands_context *context, const struct base_arguments *arguments,
                                    struct base_text *out, struct base_error *error)
{
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    struct resolution *r = base_new(context->arena, struct resolution, 1);
    BASE_TRY(parse_rules_arguments(context->arena, arguments, r, error));
    if (!base_argument(arguments, "--axes")) {
        if (context->json) put_rules(&writer, &r->rules);
        else write_rules(&r->rules, out);
        return BASE_OK;
    }
    BASE_TRY(resolve(r, error));
    explain_all(context, r);
    if (context->json) put_resolution(&writer, r);
    else write_resolution(r, out);
    return BASE_OK;
}
