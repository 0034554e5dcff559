/* --network: how collectives are priced, as a word of the profile document that predictions share. */
#include "commands/commands.h"
#include "sim/predict/predict.h"

#include <string.h>

enum base_status commands_network(struct commands_context *context, const char *network, struct base_error *error)
{
    static const char *const words[] = {"analytic", "simulated"};
    const struct base_json *given = sim_cache_overrides(context->cache), *document;
    struct base_text text = {.arena = context->arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    int which;
    if (!network) return BASE_OK;
    BASE_TRY(base_parse_word(network, "--network", words, BASE_COUNT(words), &which, error));
    base_json_open(&writer, '{');
    if (!given) {
        base_json_member_open(&writer, "constants", '{');
        base_json_close(&writer, '}');
    }
    for (const struct base_json *m = given ? given->child : NULL; m; m = m->next) {
        if (!strcmp(m->key, "network")) continue;
        base_json_member_value(&writer, m->key, m);
    }
    base_json_member_string(&writer, "network", network);
    base_json_close(&writer, '}');
    BASE_TRY(base_json_parse(context->arena, text.data, text.length, &document, error));
    sim_cache_override(context->cache, document);
    return BASE_OK;
}
