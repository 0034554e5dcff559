/* Options of tune shared by searches of training, of stages and of inference, and the launcher of the plan found. */
#include "commands/topology_list.h"
#include "commands/tune.h"

#include <string.h>

/* A search of rule sets ends after so many full predictions, a minute or less, whatever the machine: the answer is the
 * same. */
enum { MOST_VALUES = 4096, MOST_TOP = 1000, MOST_RULE_PREDICTIONS = 200000 };

/* ---- the space that is asked for ---- */

/* Duplicate values count once. */
static void add_value(struct tuner_values *values, const char *value)
{
    for (int i = 0; i < values->count; i++)
        if (!strcmp(values->values[i], value)) return;
    values->values[values->count++] = value;
}

/* "none;minimal;full": words of the key, or numbers, each by itself, where a list has commas. */
static bool are_words(struct base_arena *arena, const struct sim_plan_key *key, const char *text)
{
    for (const char *at = text; *at; at += strcspn(at, ";"), at += *at == ';') {
        const char *item = base_copy_bytes(arena, at, strcspn(at, ";"));
        bool known = *item && strspn(item, "0123456789") == strlen(item);
        for (int i = 0; i < SIM_MOST_WORDS && key->words[i].name; i++)
            known = known || !strcmp(item, key->words[i].name);
        if (!known) return false;
    }
    return strchr(text, ';') != NULL;
}

/* A comma, or a semicolon if values contain commas. */
static char separator_of(struct base_arena *arena, enum sim_key key, const char *text)
{
    const bool has_commas = key == SIM_SUBMESH || key == SIM_ICI_MESH || key == SIM_RULES;
    return has_commas || are_words(arena, &sim_plan_keys[key], text) ? ';' : ',';
}

enum base_status commands_tune_values(struct base_arena *arena, const char *option, const char *text, char separator,
                                      struct tuner_values *out, struct base_error *error)
{
    *out = (struct tuner_values){base_new(arena, const char *, MOST_VALUES), 0};
    for (const char *at = text;;) {
        const char *end = at;
        int depth = 0;
        for (bool quoted = false; *end && (quoted || depth > 0 || *end != separator); end++) {
            if (*end == '"') quoted = !quoted;
            if (!quoted) depth += (*end == '[' || *end == '{') - (*end == ']' || *end == '}');
        }
        if (end == at)
            return base_fail(error, BASE_INPUT, "%s: has an empty value; values are separated by \"%c\"", option,
                             separator);
        if (out->count == MOST_VALUES)
            return base_fail(error, BASE_INPUT, "%s: has more than %d values", option, MOST_VALUES);
        add_value(out, base_copy_bytes(arena, at, (size_t)(end - at)));
        if (!*end) return BASE_OK;
        at = end + 1;
    }
}

enum base_status commands_tune_dimension(struct base_arena *arena, enum tuner_dimension d,
                                         struct tuner_request *request, struct base_error *error)
{
    const char **values = request->plan.values;
    enum sim_key key = d == TUNER_SUBMESH ? tuner_mesh_key(&request->plan) : tuner_key(d);
    bool stays = d == TUNER_SUBMESH && key != SIM_SUBMESH; /* the space asks again which key it is */
    const char *text = values[key];
    if (!text || !*text) return BASE_OK;
    for (int other = SIM_SUBMESH; stays && other <= SIM_ICI_MESH; other++)
        if (other != (int)key && values[other])
            return base_fail(error, BASE_INPUT,
                             "%s and %s contradict each other as limits of a search; use one of them",
                             sim_plan_keys[other].name, sim_plan_keys[key].name);
    if (!stays) values[key] = NULL;
    if (!strcmp(text, "auto")) {
        request->batch_auto |= d == TUNER_BATCH;
        request->searches_context |= d == TUNER_CONTEXT;
        return BASE_OK;
    }
    return commands_tune_values(arena, sim_plan_keys[key].name, text, separator_of(arena, key, text),
                                &request->given[d], error);
}

/* ---- how it is searched ---- */

enum base_status commands_tune_percent(struct base_arena *arena, const char *given, const char *what, double least,
                                       double most, double *out, struct base_error *error)
{
    double percent;
    size_t length = strlen(given);
    if (length && given[length - 1] == '%') given = base_copy_bytes(arena, given, length - 1);
    BASE_TRY(base_parse_double(given, what, least, most, &percent, error));
    *out = percent / 100;
    return BASE_OK;
}

/* "10GB" of a device's memory, as a share of it. */
static enum base_status share_of_device(struct base_arena *arena, const char *given, const char *topology_text,
                                        double *out, struct base_error *error)
{
    struct topo_topology topology;
    int64_t bytes;
    if (!topology_text || strchr(topology_text, ';'))
        return base_fail(error, BASE_INPUT, "--headroom: %.20s is another share of each topology; give percent, as 10",
                         given);
    BASE_TRY(base_parse_bytes(given, "--headroom", INT64_C(1) << 50, &bytes, error));
    BASE_TRY(topo_parse(arena, topology_text, &topology, error));
    const struct topo_chip *chip = &topology.chip;
    const double device_bytes = chip->xla_hbm_limit_bytes_per_device > 0
                                    ? chip->xla_hbm_limit_bytes_per_device
                                    : (double)chip->hbm_bytes / chip->jax_devices_per_chip;
    *out = (double)bytes / device_bytes;
    if (*out < 0.99) return BASE_OK;
    return base_fail(error, BASE_INPUT, "--headroom: %.20s is all that a device has", given);
}

/* In percent of a device's memory, or in bytes of that topology's; NULL: the default. */
static enum base_status read_headroom(struct base_arena *arena, const char *given, const char *topology, double *out,
                                      struct base_error *error)
{
    if (given && *given && given[strlen(given) - 1] == 'B') return share_of_device(arena, given, topology, out, error);
    return commands_tune_percent(arena, given ? given : COMMANDS_DEFAULT_HEADROOM, "--headroom (in percent)", 0, 99,
                                 out, error);
}

static enum base_status read_objective(const struct base_arguments *arguments, enum commands_search search,
                                       enum tuner_objective *out, struct base_error *error)
{
    static const enum tuner_objective of_inference[] = {TUNER_LATENCY_S, TUNER_TOKENS_PER_S};
    const char *names[TUNER_OBJECTIVE_COUNT], *given = base_argument(arguments, "--objective");
    const bool infers = search == COMMANDS_OF_INFERENCE;
    const int count = infers                         ? BASE_COUNT(of_inference)
                      : search == COMMANDS_OF_STAGES ? TUNER_LATENCY_S
                                                     : TUNER_OBJECTIVE_COUNT; /* the last makes it one of inference */
    int which;
    *out = TUNER_TOKENS_PER_S;
    if (!given) return BASE_OK;
    for (int i = 0; i < count; i++) names[i] = tuner_objective_name(infers ? of_inference[i] : (enum tuner_objective)i);
    BASE_TRY(base_parse_word(given, "--objective", names, count, &which, error));
    *out = infers ? of_inference[which] : (enum tuner_objective)which;
    if (*out == TUNER_PRICE && !base_argument(arguments, "--device-hour-price"))
        return base_fail(error, BASE_USAGE,
                         "--objective price: needs --device-hour-price P; there is no default price");
    return BASE_OK;
}

static enum base_status read_limits(const struct commands_context *context, const struct base_arguments *arguments,
                                    double *time_limit_s, double *gap_frac, struct base_error *error)
{
    const bool limited = base_argument(arguments, "--time-limit") != NULL;
    const char *gap = base_argument(arguments, "--gap");
    BASE_TRY(commands_option_double(arguments, "--time-limit", 0, 1e9, time_limit_s, error));
    if (limited && !(*time_limit_s > 0))
        return base_fail(error, BASE_INPUT,
                         "--time-limit: 0 s leaves no time to search; use a number above 0, or leave it out");
    if (limited && !context->now_s)
        return base_fail(error, BASE_INPUT, "--time-limit: this process has no clock; ask the command line or batch");
    return gap ? commands_tune_percent(context->arena, gap, "--gap (in percent)", 0, 90, gap_frac, error) : BASE_OK;
}

enum base_status commands_tune_options(const struct commands_context *context, const struct base_arguments *arguments,
                                       enum commands_search search, const char *topology, struct tuner_options *out,
                                       struct base_error *error)
{
    int64_t count = 5;
    *out = (struct tuner_options){.now_s = context->now_s,
                                  .stop = context->stop,
                                  .where = context->clock_where,
                                  .progress = context->progress,
                                  .progress_where = context->progress_where,
                                  .no_bounds = base_argument(arguments, "--no-bounds") != NULL,
                                  .no_integer_program = base_argument(arguments, "--no-integer-program") != NULL,
                                  .pareto = search == COMMANDS_OF_INFERENCE || base_argument(arguments, "--pareto")};
    BASE_TRY(read_objective(arguments, search, &out->objective, error));
    BASE_TRY(commands_option_int(arguments, "--top", 1, MOST_TOP, &count, error));
    BASE_TRY(
        read_headroom(context->arena, base_argument(arguments, "--headroom"), topology, &out->headroom_frac, error));
    BASE_TRY(read_limits(context, arguments, &out->time_limit_s, &out->gap_frac, error));
    if (base_argument(arguments, "--search") && !(out->time_limit_s > 0)) out->prediction_limit = MOST_RULE_PREDICTIONS;
    out->top = (int)count;
    return BASE_OK;
}
