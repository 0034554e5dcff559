/* A plan from the command line: a file's values, then the options over them. */
#include "commands/commands.h"
#include "sim/predict/predict.h"

#include <string.h>

enum { LARGEST_PLAN_BYTES = 1 << 20, LARGEST_OVERRIDES_BYTES = 1 << 20 };

enum base_status commands_overrides_text(struct commands_context *context, const struct base_arguments *arguments,
                                         const char **out, struct base_error *error)
{
    const char *given = base_argument(arguments, "--params-axes-names-override");
    size_t length;
    *out = given;
    if (!given || *given == '[') return BASE_OK;
    return base_read_file(context->arena, given, LARGEST_OVERRIDES_BYTES, out, &length, error);
}

/* "tpu_v4", as answers name the profile that a chip has by itself. */
static const char *own_profile(struct base_arena *arena, const char *name)
{
    int count;
    const struct topo_chip *chips = topo_chips(&count);
    const char *chip = !strncmp(name, "tpu_", strlen("tpu_")) ? name + strlen("tpu_") : name;
    for (int i = 0; i < count; i++)
        if (!strcmp(chips[i].name, chip))
            return base_print(arena, "{\"constants\": {}, \"calibration\": {\"chip\": \"%s\"}}", name);
    return NULL;
}

static enum base_status read_profile(struct commands_context *context, const char *path, const struct base_json **out,
                                     struct base_error *error)
{
    const char *text = base_is_file(path) ? NULL : own_profile(context->arena, path);
    size_t length = text ? strlen(text) : 0;
    if (!text && !base_is_file(path) && !strpbrk(path, "./"))
        return base_fail(error, BASE_INPUT,
                         "--profile: %.60s is neither a file nor a chip's own profile, as in tpu_v4 or h100", path);
    if (!text) BASE_TRY(base_read_file(context->arena, path, LARGEST_PLAN_BYTES, &text, &length, error));
    return base_json_parse(context->arena, text, length, out, error) == BASE_OK ? BASE_OK
                                                                                : base_fail_in(error, "%s", path);
}

enum base_status commands_profile(struct commands_context *context, const struct base_arguments *arguments,
                                  struct base_error *error)
{
    const char *path = base_argument(arguments, "--profile");
    const struct base_json *document = NULL;
    if (path) BASE_TRY(read_profile(context, path, &document, error));
    BASE_TRY(sim_profile_check(document, error));
    sim_cache_override(context->cache, document);
    return BASE_OK;
}

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

/* "512,512", or one number: the targets of a decoder-only model. */
static enum base_status read_lengths(struct base_arena *arena, const char *given, struct sim_plan_text *plan,
                                     struct base_error *error)
{
    int64_t lengths[2];
    int count;
    BASE_TRY(base_parse_ints(given, "task_feature_lengths", 1, INT64_C(1) << 24, 2, lengths, &count, error));
    if (count == 2) plan->values[SIM_INPUTS_LENGTH] = base_print(arena, "%lld", (long long)lengths[0]);
    plan->values[SIM_TARGETS_LENGTH] = base_print(arena, "%lld", (long long)lengths[count - 1]);
    return BASE_OK;
}

/* One that is wrong is told before options that are missing. */
static enum base_status check_topology(struct base_arena *arena, const struct base_arguments *arguments,
                                       const struct sim_plan_text *plan, struct base_error *error)
{
    struct topo_topology ignored;
    const char *given = plan->values[SIM_TOPOLOGY];
    if (!given || strchr(given, ';') || topo_parse(arena, given, &ignored, error) == BASE_OK) return BASE_OK;
    commands_blame_option(arguments, error);
    return error->status;
}

/* Options that a command line without a plan's file needs, all that are missing in one message. */
static enum base_status check_given(struct base_arena *arena, const struct base_arguments *arguments,
                                    const struct sim_plan_text *plan, struct base_error *error)
{
    const char *missing[SIM_KEY_COUNT];
    struct base_text names = {.arena = arena}, examples = {.arena = arena};
    int count = 0;
    for (int key = 0; key < SIM_KEY_COUNT && !arguments->positional_count; key++) {
        const struct sim_plan_key *row = &sim_plan_keys[key];
        if (!row->example || plan->values[key]) continue;
        missing[count++] = row->option.name;
        base_putf(&examples, "%s%s %s", count > 1 ? ", " : "", row->option.name, row->example);
    }
    if (!count) return BASE_OK;
    BASE_TRY(check_topology(arena, arguments, plan, error));
    for (int i = 0; i < count; i++) base_putf(&names, "%s%s", !i ? "" : i == count - 1 ? " and " : ", ", missing[i]);
    return base_fail(error, BASE_USAGE, "%s %s missing, as in %s; or a plan's file", names.data,
                     count > 1 ? "are" : "is", examples.data);
}

static enum base_status take_option(struct commands_context *context, const struct base_arguments *arguments,
                                    enum sim_key key, struct sim_plan_text *plan, struct base_error *error)
{
    const char *option = sim_plan_keys[key].option.name, *given = base_argument(arguments, option);
    if (!given) return BASE_OK;
    if (!*given) return base_fail(error, BASE_INPUT, "%s: is empty; leave it out for the default", option);
    if (key == SIM_TARGETS_LENGTH) return read_lengths(context->arena, given, plan, error);
    if (key == SIM_OVERRIDES) return commands_overrides_text(context, arguments, &plan->values[key], error);
    plan->values[key] = given;
    return BASE_OK;
}

/* A mesh of named axes contradicts T5X's mesh: the command line's replaces the file's. */
static void forget_other_mesh(const struct base_arguments *arguments, struct sim_plan_text *plan)
{
    bool named = base_argument(arguments, "--ici-mesh") != NULL,
         t5x = base_argument(arguments, "--num-partitions") || base_argument(arguments, "--model-parallel-submesh");
    if (named && !t5x) plan->values[SIM_SUBMESH] = plan->values[SIM_NUM_PARTITIONS] = NULL;
    if (t5x && !named)
        for (int key = SIM_ICI_MESH; key <= SIM_JAX; key++) plan->values[key] = NULL;
}

/* One, or several of tune, in the words of topo_parse. */
static void spell_topologies(struct base_arena *arena, struct sim_plan_text *plan)
{
    struct base_text text = {.arena = arena};
    const char *given = plan->values[SIM_TOPOLOGY];
    if (!given) return;
    const char *separators = strchr(given, '@') ? ";" : ";,"; /* options of one have commas */
    for (const char *at = given, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, separators);
        base_putf(&text, "%s%s", at == given ? "" : ";",
                  topo_spelled(arena, base_copy_bytes(arena, at, (size_t)(end - at))));
    }
    if (strcmp(text.data, given) != 0) plan->values[SIM_TOPOLOGY] = text.data; /* else its place stays */
}

enum base_status commands_plan_options(struct commands_context *context, const struct base_arguments *arguments,
                                       struct sim_plan_text *plan, struct base_error *error)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (sim_plan_keys[key].option.name) BASE_TRY(take_option(context, arguments, (enum sim_key)key, plan, error));
    /* A submesh takes precedence over a number of partitions, as in T5X; a file's submesh must not take precedence over
     * the command line. */
    if (base_argument(arguments, "--num-partitions") && !base_argument(arguments, "--model-parallel-submesh"))
        plan->values[SIM_SUBMESH] = NULL;
    forget_other_mesh(arguments, plan);
    spell_topologies(context->arena, plan);
    BASE_TRY(commands_take_degrees(context, arguments, plan, error));
    commands_note_model(context, plan->values[SIM_MODEL]);
    return BASE_OK;
}

/* A file's values, then the options over them. */
enum base_status commands_plan_given(struct commands_context *context, const struct base_arguments *arguments,
                                     const char *lengths_default, struct sim_plan_text *plan, struct base_error *error)
{
    struct sim_gin_plan files = {0};
    if (arguments->positional_count) BASE_TRY(commands_read_files(context, arguments, NULL, &files, error));
    *plan = files.text;
    BASE_TRY(commands_plan_options(context, arguments, plan, error));
    bool open = !base_argument(arguments, sim_plan_keys[SIM_TARGETS_LENGTH].option.name);
    if (open && lengths_default && !plan->values[SIM_TARGETS_LENGTH])
        return read_lengths(context->arena, lengths_default, plan, error);
    return BASE_OK;
}

enum base_status commands_plan_text(struct commands_context *context, const struct base_arguments *arguments,
                                    const char *lengths_default, struct sim_plan_text *plan, struct base_error *error)
{
    BASE_TRY(commands_plan_given(context, arguments, lengths_default, plan, error));
    return check_given(context->arena, arguments, plan, error);
}

/* The option whose value a message is about: "batch_size: …" is --batch-size's, if given. *rest is the text after the
 * key's name. NULL: no option's. */
static const char *option_blamed(const struct base_arguments *arguments, const char *text, const char **rest)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *option = sim_plan_keys[key].option.name;
        if (!option || !base_argument(arguments, option)) continue;
        const char *name = option + strlen("--");
        size_t i = 0;
        while (name[i] && text[i] == (name[i] == '-' ? '_' : name[i])) i++;
        *rest = text + i + 1;
        if (!name[i] && text[i] == ':') return *rest += strspn(*rest, " "), option;
        if (!name[i] && text[i] == '.') return option; /* "task_feature_lengths.inputs: …" */
    }
    return NULL;
}

bool commands_blame_option(const struct base_arguments *arguments, struct base_error *error)
{
    const struct base_error why = *error;
    const char *rest, *option = option_blamed(arguments, why.text, &rest);
    if (option) base_fail(error, why.status, "%s: %s", option, rest);
    return option != NULL;
}

enum base_status commands_plan_refused(const struct base_arguments *arguments, struct base_error *error)
{
    if (commands_blame_option(arguments, error) || !arguments->positional_count) return error->status;
    return base_fail_in(error, "%s", arguments->positional[0]);
}

enum base_status commands_read_step(const struct base_arguments *arguments, struct sim_plan_text *text,
                                    enum model_step *out, struct base_error *error)
{
    static const char *const names[] = {
        [MODEL_STEP_TRAIN] = "train",       [MODEL_STEP_GRADIENT] = "gradient", [MODEL_STEP_FORWARD] = "forward",
        [MODEL_STEP_EVALUATE] = "evaluate", [MODEL_STEP_ENCODE] = "encode",     [MODEL_STEP_PREFILL] = "prefill",
        [MODEL_STEP_DECODE] = "decode",     [MODEL_STEP_GENERATE] = "generate", [MODEL_STEP_SCORE] = "score"};
    const char *given = base_argument(arguments, "--step");
    int step;
    if (!given) return sim_plan_step(text, out, error);
    BASE_TRY(base_parse_word(given, "--step", names, BASE_COUNT(names), &step, error));
    *out = (enum model_step)step;
    text->values[SIM_STEP] = NULL;
    return BASE_OK;
}
