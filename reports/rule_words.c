/* A list of rules in words: the nearest documented set, with differences. */
#include "reports/reports.h"

#include <string.h>

/* The rules of one logical axis in a list, in order. */
static const struct model_rule *next_rule(const struct model_rules *rules, const char *logical, int *at)
{
    while (*at < rules->count) {
        const struct model_rule *rule = &rules->rules[(*at)++];
        if (rule->logical && !strcmp(rule->logical, logical)) return rule;
    }
    return NULL;
}

static bool says_the_same(const struct model_rules *a, const struct model_rules *b, const char *logical)
{
    int ai = 0, bi = 0;
    const struct model_rule *x, *y;
    do {
        x = next_rule(a, logical, &ai);
        y = next_rule(b, logical, &bi);
        while (x && !y && !x->value.count && !x->value.unconstrained) x = next_rule(a, logical, &ai); /* embed -> - */
        while (y && !x && !y->value.count && !y->value.unconstrained) y = next_rule(b, logical, &bi);
        if (x && y && !model_same_axes(&x->value, &y->value)) return false;
    } while (x && y);
    return !x && !y;
}

static void put_axes(const struct model_axes *axes, struct base_text *out)
{
    if (axes->unconstrained) base_put(out, "unconstrained");
    if (!axes->count && !axes->unconstrained) base_put(out, "-");
    for (int i = 0; i < axes->count; i++)
        base_putf(out, "%s%s", i ? "+" : "", axes->names[i] ? axes->names[i] : "null");
}

/* Each logical axis of either list once, with the first list's rules if they differ. */
static int put_differences(const struct model_rules *rules, const struct model_rules *from, struct base_text *out)
{
    int count = 0;
    for (int i = 0; i < rules->count + from->count; i++) {
        const char *logical = i < rules->count ? rules->rules[i].logical : from->rules[i - rules->count].logical;
        bool seen = !logical;
        for (int j = 0; j < i && !seen; j++) {
            const char *before = j < rules->count ? rules->rules[j].logical : from->rules[j - rules->count].logical;
            seen = before && !strcmp(before, logical);
        }
        if (seen || says_the_same(rules, from, logical)) continue;
        if (out) base_putf(out, "%s%s->", count ? ", " : " but ", logical);
        const struct model_rule *rule;
        int at = 0, said = 0;
        while (out && (rule = next_rule(rules, logical, &at)) != NULL) {
            base_put(out, said++ ? " or " : "");
            put_axes(&rule->value, out);
        }
        if (out && !said) base_put(out, "-");
        count++;
    }
    return count;
}

const char *reports_rule_words(struct base_arena *arena, const char *text)
{
    struct model_rules rules, named;
    struct base_error ignored;
    struct base_text out = {.arena = arena};
    int nearest = -1, least = 0;
    if (*text != '[' || model_rules_parse(arena, text, &rules, &ignored) != BASE_OK) return text;
    for (int i = 0; i < MODEL_RULE_SETS; i++) {
        if (model_rules_parse(arena, model_rule_sets[i], &named, &ignored) != BASE_OK) continue;
        int differences = put_differences(&rules, &named, NULL);
        if (nearest >= 0 && differences >= least) continue;
        nearest = i;
        least = differences;
    }
    if (nearest < 0 || model_rules_parse(arena, model_rule_sets[nearest], &named, &ignored) != BASE_OK) return text;
    base_put(&out, model_rule_sets[nearest]);
    put_differences(&rules, &named, &out);
    return out.data;
}
