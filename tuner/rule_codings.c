/* The space of rule sets and its decomposition. Once batch, length and embed are fixed, the axes of the MLP, of
 * attention and of the vocabulary share no operation. Seconds and bytes of a rule set are therefore sums over these
 * components. */
#include "tuner/rule_space.h"

#include <math.h>
#include <string.h>

enum { MOST_RULES = 24 };

/* ---- digits ---- */

static const struct {
    const char *axis;
    int radix;
    bool context, ordered;
} axes[] = {
    {"batch", 4, true, false}, {"length", 3, true, false}, {"embed", 5, true, false}, {"vocab", 3, false, true},
    {"mlp", 3, false, true},   {"heads", 3, false, false}, {"kv", 3, false, false},   {"joined_kv", 3, false, true},
};

static bool has_axis(const struct tuner_relaxed_program *o, const char *axis)
{
    for (int c = 0; c < o->class_count; c++)
        for (int i = 0; i < o->classes[c].rank; i++)
            if (o->classes[c].names[i] && !strcmp(o->classes[c].names[i], axis)) return true;
    return false;
}

struct tuner_rule_space tuner_rule_space_of(const struct tuner_relaxed_program *relaxed)
{
    struct tuner_rule_space space = {.count = 1};
    for (int order = 0; order <= 1; order++)
        for (int i = 0; i < BASE_COUNT(axes); i++) {
            if (!has_axis(relaxed, axes[i].axis) || (order && !axes[i].ordered)) continue;
            space.digits[space.digit_count++] = (struct tuner_digit){axes[i].axis, order, order ? 2 : axes[i].radix};
            space.count *= order ? 2 : axes[i].radix;
        }
    return space;
}

enum digit_kind { WHICH_AXES, WHICH_ORDER };

static int digit_of(const struct tuner_rule_space *space, const char *axis, enum digit_kind kind)
{
    for (int i = 0; i < space->digit_count; i++)
        if (space->digits[i].order == (kind == WHICH_ORDER) && !strcmp(space->digits[i].axis, axis)) return i;
    return -1;
}

static bool is_context(const struct tuner_rule_space *space, int digit)
{
    for (int i = 0; i < BASE_COUNT(axes); i++)
        if (!strcmp(axes[i].axis, space->digits[digit].axis)) return axes[i].context;
    return false;
}

/* ---- rules ---- */

static void add_rule(struct model_rule *rules, int *count, const char *axis, int choice)
{
    static const struct {
        int count;
        const char *names[2];
    } takes[] = {{0, {NULL}}, {1, {"data"}}, {1, {"model"}}};
    struct model_rule *rule = &rules[(*count)++];
    *rule = (struct model_rule){.logical = axis, .value = {.count = takes[choice].count}};
    for (int i = 0; i < takes[choice].count; i++) rule->value.names[i] = takes[choice].names[i];
}

/* The rules of an axis: none, data, or model; for batch also both; for embed also one and then the other. */
static void add_axis(const struct tuner_rule_space *space, const int *digits, const char *axis,
                     struct model_rule *rules, int *count)
{
    int digit = digit_of(space, axis, WHICH_AXES);
    if (digit < 0) return;
    if (digits[digit] < 3) {
        add_rule(rules, count, axis, digits[digit]);
    } else if (!strcmp(axis, "batch")) {
        rules[(*count)++] = (struct model_rule){.logical = axis, .value = {.count = 2, .names = {"data", "model"}}};
    } else {
        add_rule(rules, count, axis, digits[digit] == 3 ? 2 : 1);
        add_rule(rules, count, axis, digits[digit] == 3 ? 1 : 2);
    }
}

static int rules_of(const struct tuner_rule_space *space, const int *digits, struct model_rule rules[MOST_RULES])
{
    static const char *const others[] = {"relpos_buckets", "abspos_buckets", "layers", "stack", "mlp_activations"};
    int count = 0;
    add_axis(space, digits, "batch", rules, &count);
    add_axis(space, digits, "length", rules, &count);
    for (int after = 0; after <= 1; after++) {
        for (int i = 0; i < BASE_COUNT(axes); i++) {
            int order = digit_of(space, axes[i].axis, WHICH_ORDER);
            bool embed_first = order >= 0 && digits[order];
            if (!axes[i].context && embed_first == (after == 1)) add_axis(space, digits, axes[i].axis, rules, &count);
        }
        if (!after) add_axis(space, digits, "embed", rules, &count);
    }
    for (int i = 0; i < BASE_COUNT(others); i++) add_rule(rules, &count, others[i], 0);
    return count;
}

const char *tuner_rule_text(struct base_arena *arena, const struct tuner_rule_space *space,
                            const int digits[TUNER_MOST_DIGITS])
{
    struct model_rule rules[MOST_RULES];
    struct base_text text = {.arena = arena};
    int count = rules_of(space, digits, rules);
    base_put(&text, "[");
    for (int i = 0; i < count; i++) {
        const struct model_axes *value = &rules[i].value;
        base_putf(&text, "%s[\"%s\",", i ? "," : "", rules[i].logical);
        if (value->count == 0) base_put(&text, "null]");
        else if (value->count == 1) base_putf(&text, "\"%s\"]", value->names[0]);
        else base_putf(&text, "[\"%s\",\"%s\"]]", value->names[0], value->names[1]);
    }
    base_put(&text, "]");
    return text.data;
}

/* ---- what rules make of classes ---- */


static bool class_has(const struct tuner_class *class, const char *axis)
{
    for (int i = 0; i < class->rank; i++)
        if (class->names[i] && !strcmp(class->names[i], axis)) return true;
    return false;
}

static unsigned scope_of(const struct tuner_rule_space *space, const struct tuner_class *class)
{
    unsigned scope = 0;
    for (int d = 0; d < space->digit_count; d++)
        if (class_has(class, space->digits[d].axis) && (!space->digits[d].order || class_has(class, "embed")))
            scope |= 1u << d;
    return scope;
}

int tuner_rules_count_of(const struct tuner_rule_space *space, unsigned scope)
{
    int count = 1;
    for (int d = 0; d < space->digit_count; d++)
        if (scope >> d & 1) count *= space->digits[d].radix;
    return count;
}

/* Converts the digits of a scope to their number in it, and back. */
int tuner_rules_number_of(const struct tuner_rule_space *space, unsigned scope, const int *digits)
{
    int number = 0;
    for (int d = 0; d < space->digit_count; d++)
        if (scope >> d & 1) number = number * space->digits[d].radix + digits[d];
    return number;
}

void tuner_rules_put_digits(const struct tuner_rule_space *space, unsigned scope, int number, int *digits)
{
    for (int d = space->digit_count - 1; d >= 0; d--) {
        if (!(scope >> d & 1)) continue;
        digits[d] = number % space->digits[d].radix;
        number /= space->digits[d].radix;
    }
}

/* Parameters and their state must divide; optimizer partitioning shards arrays that are not arguments. */
static void find_divided(const struct tuner_relaxed_program *o, int c, struct coded_class *coded)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    memset(coded->divides, 0, sizeof coded->divides);
    if (!o->classes[c].state || o->classes[c].zero) return;
    model_sizes(o->config, 1, 1, o->inputs_length, o->targets_length, sizes);
    for (int i = 0; i < o->persistent_count; i++) {
        const struct sim_shape *shape = &o->shapes[o->persistent_shapes[i]];
        for (int d = 0; o->persistent_classes[i] == c && d < shape->rank; d++)
            coded->divides[d] = base_common_divisor(sizes[shape->dims[d]], coded->divides[d]);
    }
}

static enum base_status code_class(struct base_arena *arena, struct tuner_coding *coding, int c,
                                   const struct sim_plan *plan, struct base_error *error)
{
    const struct tuner_rule_space *space = coding->space;
    struct coded_class *coded = &coding->classes[c];
    coded->scope = scope_of(space, &coding->o->classes[c]);
    coded->count = tuner_rules_count_of(space, coded->scope);
    find_divided(coding->o, c, coded);
    coded->spec = base_alloc(arena, (size_t)coded->count, sizeof *coded->spec);
    for (int i = 0; i < coded->count; i++) {
        int digits[TUNER_MOST_DIGITS] = {0};
        struct model_rule rules[MOST_RULES];
        tuner_rules_put_digits(space, coded->scope, i, digits);
        struct model_rules list = {rules, rules_of(space, digits, rules)};
        BASE_TRY(tuner_rule_class(&coding->o->classes[c], &list, plan, coded->spec[i], error));
        for (int d = 0; d < MODEL_MAX_RANK; d++) coding->any[c][d] |= coded->spec[i][d];
    }
    return BASE_OK;
}

static bool join_components(struct tuner_coding *coding)
{
    for (int a = 0; a < coding->component_count; a++)
        for (int b = a + 1; b < coding->component_count; b++)
            if (coding->components[a].scope & coding->components[b].scope) {
                coding->components[a].scope |= coding->components[b].scope;
                coding->components[b] = coding->components[--coding->component_count];
                return true;
            }
    return false;
}

static enum base_status add_scope(struct tuner_coding *coding, unsigned scope, struct base_error *error)
{
    scope &= ~coding->context_scope;
    if (!scope) return BASE_OK;
    for (int i = 0; i < coding->component_count; i++)
        if (!(scope & ~coding->components[i].scope)) return BASE_OK;
    if (coding->component_count == TUNER_MOST_COMPONENTS)
        return base_fail(error, BASE_INTERNAL, "rules of more than %d components", TUNER_MOST_COMPONENTS);
    coding->components[coding->component_count++] = (struct component){scope, 0};
    while (join_components(coding)) {
    }
    return BASE_OK;
}

static enum base_status find_components(struct base_arena *arena, struct tuner_coding *coding, struct base_error *error)
{
    const struct tuner_relaxed_program *o = coding->o;
    for (int d = 0; d < coding->space->digit_count; d++)
        if (is_context(coding->space, d)) coding->context_scope |= 1u << d;
    coding->kernel_scopes = base_new(arena, unsigned, o->kernel_count + 1);
    for (int k = 0; k < o->kernel_count; k++) {
        for (int c = 0; c < o->class_count; c++)
            if (o->kernels[k].classes >> c & 1) coding->kernel_scopes[k] |= coding->classes[c].scope;
        BASE_TRY(add_scope(coding, coding->kernel_scopes[k], error));
    }
    for (int d = 0; d < coding->space->digit_count; d++) BASE_TRY(add_scope(coding, 1u << d, error));
    for (int i = 0; i < coding->component_count; i++)
        coding->components[i].option_count = tuner_rules_count_of(coding->space, coding->components[i].scope);
    coding->context_count = tuner_rules_count_of(coding->space, coding->context_scope);
    return BASE_OK;
}

const unsigned char *tuner_rules_spec_under(const struct tuner_coding *coding, int c, const int *digits)
{
    return coding->classes[c].spec[tuner_rules_number_of(coding->space, coding->classes[c].scope, digits)];
}

/* Whether two choices give equal specs to the classes that rules shard directly. Other specs are never used, so
 * program and prediction are the same. */
static bool are_alike(const struct tuner_coding *coding, unsigned scope, const int *digits, const int *other)
{
    for (int c = 0; c < coding->o->class_count; c++) {
        const bool asked = coding->o->classes[c].given && coding->classes[c].scope & scope;
        if (asked && memcmp(tuner_rules_spec_under(coding, c, digits), tuner_rules_spec_under(coding, c, other),
                            MODEL_MAX_RANK) != 0)
            return false;
    }
    return true;
}

void tuner_rules_given(const struct tuner_coding *coding, unsigned live, const int *digits,
                       struct tuner_rules_given *out)
{
    memset(out, 0, sizeof *out);
    for (int c = 0; c < coding->o->class_count; c++) {
        const unsigned char *spec = tuner_rules_spec_under(coding, c, digits);
        for (int d = 0; coding->o->classes[c].given && d < MODEL_MAX_RANK; d++)
            out->spec[c][d] = spec[d] & (unsigned char)live;
    }
}

/* An earlier equivalent option of the component, or the option itself. */
static int find_alike(const struct tuner_coding *coding, unsigned scope, int option, const int *digits)
{
    int other[TUNER_MOST_DIGITS];
    memcpy(other, digits, sizeof other);
    for (int i = 0; i < option; i++) {
        tuner_rules_put_digits(coding->space, scope, i, other);
        if (are_alike(coding, scope, digits, other)) return i;
    }
    return option;
}

static void find_all_alike(struct base_arena *arena, struct tuner_coding *coding)
{
    for (int j = 0; j < coding->component_count; j++) {
        int count = coding->components[j].option_count;
        coding->alike[j] = base_new(arena, int, (int64_t)coding->context_count *count);
        for (int context = 0; context < coding->context_count; context++)
            for (int i = 0; i < count; i++) {
                int digits[TUNER_MOST_DIGITS] = {0};
                tuner_rules_put_digits(coding->space, coding->context_scope, context, digits);
                tuner_rules_put_digits(coding->space, coding->components[j].scope, i, digits);
                coding->alike[j][context * count + i] = find_alike(coding, coding->components[j].scope, i, digits);
            }
    }
}

enum base_status tuner_code_rules(struct base_arena *arena, const struct tuner_rule_space *space,
                                  const struct tuner_relaxed_program *relaxed, const struct sim_plan *plan,
                                  const struct tuner_coding **out, struct base_error *error)
{
    struct tuner_coding *coding = base_new(arena, struct tuner_coding, 1);
    coding->space = space;
    coding->o = relaxed;
    for (int c = 0; c < relaxed->class_count; c++) BASE_TRY(code_class(arena, coding, c, plan, error));
    BASE_TRY(find_components(arena, coding, error));
    find_all_alike(arena, coding);
    *out = coding;
    return BASE_OK;
}

/* ---- what JAX accepts ---- */

static bool divides(const struct tuner_coding *coding, int c, const int *digits, const struct topo_axes *mesh)
{
    const unsigned char *spec = tuner_rules_spec_under(coding, c, digits);
    for (int d = 0; d < MODEL_MAX_RANK; d++)
        if (spec[d] && coding->classes[c].divides[d] % topo_axes_product(mesh, spec[d])) return false;
    return true;
}

bool tuner_rules_all_divide(const struct tuner_coding *coding, unsigned scope, enum tuner_scope within,
                            const int *digits, const struct topo_axes *mesh)
{
    for (int c = 0; c < coding->o->class_count; c++) {
        unsigned own = coding->classes[c].scope;
        bool asked = within == TUNER_AXES_IN_CONTEXT ? !(own & ~coding->context_scope) : own & scope;
        if (asked && !divides(coding, c, digits, mesh)) return false;
    }
    return true;
}

bool tuner_rules_batch_divides(const struct tuner_coding *coding, const int *digits, const struct topo_axes *mesh,
                               int64_t batch)
{
    int digit = digit_of(coding->space, "batch", WHICH_AXES),
        takes = digit < 0 ? 0 : digits[digit]; /* 3: both; the bits are those of a spec */
    return batch % topo_axes_product(mesh, (unsigned)takes) == 0;
}

int64_t tuner_count_rule_sets(const struct tuner_coding *coding, const struct topo_axes *mesh, int64_t batch)
{
    int64_t count = 0;
    for (int context = 0; context < coding->context_count; context++) {
        int digits[TUNER_MOST_DIGITS] = {0};
        int64_t product = 1;
        tuner_rules_put_digits(coding->space, coding->context_scope, context, digits);
        if (!tuner_rules_batch_divides(coding, digits, mesh, batch) ||
            !tuner_rules_all_divide(coding, 0, TUNER_AXES_IN_CONTEXT, digits, mesh))
            continue;
        for (int j = 0; j < coding->component_count; j++) {
            int64_t options = 0;
            for (int i = 0; i < coding->components[j].option_count; i++) {
                tuner_rules_put_digits(coding->space, coding->components[j].scope, i, digits);
                options += tuner_rules_all_divide(coding, coding->components[j].scope, TUNER_OWN_AXES, digits, mesh);
            }
            product *= options;
        }
        count += product;
    }
    return count;
}

/* ---- enumeration ---- */

struct visitor {
    const struct tuner_rule_cell *cell;
    double limit_s, limit_bytes, least_s[TUNER_MOST_COMPONENTS + 1]; /* of this and all later components */
    int context, digits[TUNER_MOST_DIGITS];
    tuner_visit_rules *visit;
    void *where;
};

static void visit_component(struct visitor *v, int j, double s, double bytes, int64_t equals)
{
    const struct tuner_coding *coding = v->cell->coding;
    if (s + v->least_s[j] >= v->limit_s || bytes > v->limit_bytes) return;
    if (j == coding->component_count) {
        v->visit(v->where, v->digits, s, bytes, equals);
        return;
    }
    int count = coding->components[j].option_count;
    for (int i = 0; i < count; i++) {
        int at = v->context * count + i;
        if (!v->cell->equals[j][at]) continue;
        tuner_rules_put_digits(coding->space, coding->components[j].scope, i, v->digits);
        visit_component(v, j + 1, s + v->cell->option_s[j][at], bytes + v->cell->option_bytes[j][at],
                        equals * v->cell->equals[j][at]);
    }
}

void tuner_rule_cell_visit(const struct tuner_rule_cell *cell, double limit_s, double limit_bytes,
                           tuner_visit_rules *visit, void *where)
{
    const struct tuner_coding *coding = cell->coding;
    for (int context = 0; context < coding->context_count; context++) {
        struct visitor v = {.cell = cell,
                            .limit_s = limit_s,
                            .limit_bytes = limit_bytes,
                            .context = context,
                            .visit = visit,
                            .where = where};
        if (!isfinite(cell->context_s[context])) continue;
        tuner_rules_put_digits(coding->space, coding->context_scope, context, v.digits);
        for (int j = coding->component_count - 1; j >= 0; j--) {
            double least = INFINITY;
            for (int i = 0; i < coding->components[j].option_count; i++)
                least = fmin(least, cell->option_s[j][context * coding->components[j].option_count + i]);
            v.least_s[j] = v.least_s[j + 1] + least;
        }
        visit_component(&v, 0, cell->context_s[context], cell->context_bytes[context], 1);
    }
}
