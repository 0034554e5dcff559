/* Axis rules: what is accepted and printed is accepted again, prints the same, and resolves every axis alike. */
#include "tests/fuzz/fuzz.h"

enum { MOST_OWN_NAMES = 4 };

/* T5X's axes, and some of the input's own. */
static const char *axes_of(struct base_arena *arena, const struct base_json *rules)
{
    static const char known[] = ",batch,length,embed,heads,kv,joined_kv,mlp,vocab,layers,";
    struct base_text axes = {.arena = arena};
    int own = 0;
    base_put(&axes, known + 1);
    base_put(&axes, "null");
    for (const struct base_json *pair = rules->child; pair && own < MOST_OWN_NAMES; pair = pair->next) {
        const char *name = pair->child->string;
        if (!name || !*name || strchr(name, ',') || strstr(known, base_print(arena, ",%s,", name))) continue;
        base_putf(&axes, ",%s", name);
        own++;
    }
    return axes.data;
}

static const char *ask(struct base_arena *arena, const char *rules, const char *axes, const char *fallback)
{
    struct base_error error;
    const char *arguments[] = {base_print(arena, "--logical-axis-rules=%s", rules), "--json",
                               base_print(arena, "--axes=%s", axes ? axes : ""),
                               base_print(arena, "--fallback=%s", fallback ? fallback : "")};
    const char *document = fuzz_command(arena, "rules", fallback ? 4 : axes ? 3 : 2, arguments, &error);
    return document ? document : base_copy(arena, error.text);
}

static void check(struct base_arena *arena, const char *text, size_t length)
{
    static const char *const fallbacks[] = {NULL, "axis_is_unsharded", "raise_error", "no_constraint"};
    struct model_rules rules;
    struct base_error error = {0};
    (void)length;
    if (model_rules_parse(arena, text, &rules, &error) != BASE_OK) {
        FUZZ_CHECK(error.status == BASE_INPUT && *error.text);
        return;
    }
    const struct base_json *list = base_json_get(fuzz_parse(arena, ask(arena, text, NULL, NULL)), "rules");
    const char *printed = fuzz_print(arena, list), *axes = axes_of(arena, list);
    FUZZ_CHECK(list->count == rules.count);
    FUZZ_CHECK(fuzz_same(ask(arena, printed, NULL, NULL), ask(arena, text, NULL, NULL)));
    for (int i = 0; i < BASE_COUNT(fallbacks); i++)
        FUZZ_CHECK(fuzz_same(ask(arena, text, axes, fallbacks[i]), ask(arena, printed, axes, fallbacks[i])));
}

FUZZ_TARGET(check, 20000)
