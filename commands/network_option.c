/* --network: how collectives are priced, as a word of the profile document that predictions share. */
#include "commands/commands.h"
#include "sim/sim.h"

#include <string.h>

bool commands_is_broken(struct commands_context *context, const char *text)
{
    struct topo_topology topology;
    struct base_error ignored;
    return text && topo_parse(context->arena, text, &topology, &ignored) == BASE_OK && topo_has_failures(&topology);
}

enum base_status commands_network_of(struct commands_context *context, const struct base_arguments *arguments,
                                     const char *topology, struct base_error *error)
{
    const char *network = base_argument(arguments, "--network");
    if (network && !strcmp(network, "analytic") && commands_is_broken(context, topology))
        return base_fail(error, BASE_INPUT,
                         "--network: the analytic price does not know of what is broken; use --network simulated");
    return commands_network(context, network, error);
}

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
        base_json_key(&writer, "constants");
        base_json_open(&writer, '{');
        base_json_close(&writer, '}');
    }
    for (const struct base_json *m = given ? given->child : NULL; m; m = m->next) {
        if (!strcmp(m->key, "network")) continue;
        base_json_key(&writer, m->key);
        base_json_put_value(&writer, m);
    }
    base_json_member_string(&writer, "network", network);
    base_json_close(&writer, '}');
    BASE_TRY(base_json_parse(context->arena, text.data, text.length, &document, error));
    sim_cache_override(context->cache, document);
    return BASE_OK;
}
