/* Members of a config.json that change a run's numbers, and that no key of ours holds. They cost nothing. */
#include "model/huggingface_unrun.csv.h"
#include "model/reading.h"

#include <string.h>

enum unheld { NOT_ZERO, SET, NOT_SET };

static const struct {
    const char *name;
    enum unheld unless;
} rows[] = {HUGGINGFACE_UNRUN_ROWS};

/* Angles that are scaled in another way than linearly, by llama3's or by yarn's. */
static bool scales_otherwise(const struct base_json *object)
{
    static const char *const known[] = {"default", "linear", "llama3", "yarn", "mrope"};
    const struct base_json *given = model_reading_member(object, "rope_scaling|rope_parameters"),
                           *full = given ? base_json_get(given, "full_attention") : NULL,
                           *type = given ? model_reading_member(full ? full : given, "rope_type|type") : NULL;
    bool held = !type || type->kind != BASE_JSON_STRING;
    for (int i = 0; i < BASE_COUNT(known) && !held; i++) held = !strcmp(type->string, known[i]);
    return !held;
}

/* False: a buffer without room for the name gets "…" instead. */
static bool put_name(char *out, size_t size, const char *name)
{
    const size_t used = strlen(out), more = (used ? strlen(", ") : 0) + strlen(name);
    const bool has_room = used + more + sizeof ", …" <= size;
    if (has_room) snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
    else if (used && used + sizeof ", …" <= size) snprintf(out + used, size - used, ", …");
    return has_room;
}

void model_huggingface_unrun(const struct base_json *object, char *out, size_t size)
{
    const struct base_json *text = base_json_get(object, "text_config");
    if (text && text->kind == BASE_JSON_OBJECT) object = text;
    *out = '\0';
    if (scales_otherwise(object) && !put_name(out, size, "rope_scaling")) return;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct base_json *found = base_json_get(object, rows[i].name);
        if (!found || (rows[i].unless == NOT_ZERO && (found->kind != BASE_JSON_NUMBER || found->number == 0)) ||
            (rows[i].unless == SET && found->kind != BASE_JSON_TRUE) ||
            (rows[i].unless == NOT_SET && found->kind != BASE_JSON_FALSE))
            continue;
        if (!put_name(out, size, rows[i].name)) return;
    }
}
