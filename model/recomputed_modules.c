/* Remat by module, "modules:layernorm+moe_act": these modules' tensors are dropped and recomputed in the backward
 * pass; all others are saved. Names and effects are Megatron-LM's (core/transformer/moe/README.md,
 * transformer_config.py). */
#include "model/model.h"

#include <string.h>

enum { MOST_PARTS = 8 };

/* Path components of a module's internal tensors in a layer, without its results, which other modules read. */
static const struct {
    const char *name, *parts[MOST_PARTS];
} modules[] = {MODEL_MODULE_ROWS};

static const char begins[] = "modules:";

bool model_is_modules(const char *text)
{
    return !strncmp(text, begins, sizeof begins - 1);
}

enum base_status model_modules_parse(const char *text, unsigned *out, struct base_error *error)
{
    static const char *const known[] = {MODEL_MODULE_NAMES};
    unsigned found = 0;
    for (const char *at = text + sizeof begins - 1;; at++) {
        char name[64];
        int which;
        const size_t length = strcspn(at, "+");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        BASE_TRY(base_parse_word(name, "remat_policy: modules", known, MODEL_MODULE_COUNT, &which, error));
        found |= 1u << which;
        at += length;
        if (!*at) break;
    }
    *out = found;
    return BASE_OK;
}

const char *model_modules_text(struct base_arena *arena, unsigned set)
{
    struct base_text out = {.arena = arena};
    for (int i = 0; i < MODEL_MODULE_COUNT; i++)
        if (set >> i & 1) base_putf(&out, "%s%s", out.length ? "+" : begins, modules[i].name);
    return out.data;
}

/* True if a component is a whole word of the path, or follows a slash. */
static bool has_part(const char *path, const char *part)
{
    const size_t length = strlen(part);
    for (const char *at = strstr(path, part); at; at = strstr(at + 1, part))
        if (part[length - 1] == '/' || !at[length] || strchr(" /", at[length])) return true;
    return false;
}

bool model_is_of_modules(unsigned set, const char *tensor)
{
    for (int i = 0; i < MODEL_MODULE_COUNT && set && tensor; i++)
        for (int p = 0; set >> i & 1 && p < MOST_PARTS && modules[i].parts[p]; p++)
            if (has_part(tensor, modules[i].parts[p])) return true;
    return false;
}
