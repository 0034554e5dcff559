/* --network: how collectives are priced, as a word of the profile document that predictions share. */
#include "commands/commands.h"
#include "sim/predict/predict.h"

enum base_status commands_network(struct commands_context *context, const char *network, struct base_error *error)
{
    static const char *const words[] = {"analytic", "simulated"};
    const struct base_json none = {.kind = BASE_JSON_OBJECT}, *given = sim_cache_overrides(context->cache);
    struct base_json value = {.kind = BASE_JSON_STRING};
    int which;
    if (!network) return BASE_OK;
    BASE_TRY(base_parse_word(network, "--network", words, BASE_COUNT(words), &which, error));
    value.string = words[which];
    if (!given) given = base_json_with(context->arena, NULL, "constants", &none);
    sim_cache_override(context->cache, base_json_with(context->arena, given, "network", &value));
    return BASE_OK;
}
