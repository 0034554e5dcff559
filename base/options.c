/* Command-line options: one table for parsing, help, man page and completion. */
#include "base/base.h"

#include <assert.h>
#include <string.h>

enum { MOST_OPTIONS = 128 };

/* --batch_size is --batch-size. */
static bool is_spelled(const char *option, const char *given, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (option[i] != (given[i] == '_' ? '-' : given[i])) return false;
    return true;
}

/* Finds an option by its name, or by another software's word if the command has no option of that name. */
static int find_option(const struct base_option *options, int count, const char *name, size_t length)
{
    for (int i = 0; i < count; i++)
        if (strlen(options[i].name) == length && is_spelled(options[i].name, name, length)) return i;
    const char *meant = base_synonym("option", name, length, BASE_TAKEN);
    for (int i = 0; meant && i < count; i++)
        if (!strcmp(options[i].name, meant)) return i;
    return -1;
}

/* The only name that starts with the given one; NULL: none or several. */
static const char *only_longer(const char *name, const char *const *names, int count)
{
    const char *found = NULL;
    size_t length = strlen(name);
    for (int i = 0; i < count; i++) {
        if (strncmp(names[i], name, length) != 0) continue;
        if (found) return NULL;
        found = names[i];
    }
    return length > strlen("--") ? found : NULL;
}

/* The only option that ends like the given text after a dash: "rules", or "rulse", for "logical-axis-rules". NULL:
 * none, or several equally close. */
static const char *only_ending(const char *name, const char *const *names, int count, int slips)
{
    enum { SHORTEST = 4 };
    const char *found = NULL;
    int best = slips + 1;
    for (int i = 0; i < count && strlen(name) >= SHORTEST; i++)
        for (const char *end = strchr(names[i], '-'); end; end = strchr(end + 1, '-')) {
            const int distance = base_edit_distance(name, end + 1);
            if (distance > best || (distance == best && !found)) continue;
            found = distance == best && found != names[i] ? NULL : names[i];
            best = distance;
        }
    return found;
}

static enum base_status unknown_option(const struct base_option *options, int count, const char *given,
                                       struct base_error *error)
{
    const char *names[MOST_OPTIONS];
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    for (int i = 0; i < count && i < MOST_OPTIONS; i++) names[i] = options[i].name;
    if (count > MOST_OPTIONS) count = MOST_OPTIONS;
    const char *nearest = only_longer(name, names, count), *word = name + strspn(name, "-"),
               *meant = base_synonym("option", word, strlen(word), BASE_SUGGESTED);
    /* Compare without the leading dashes. */
    for (int i = 0; i < count; i++) names[i] += strspn(names[i], "-");
    for (int i = 0; meant && i < count; i++) {
        const size_t length = strcspn(meant + 2, " ");
        if (*meant != '-' || (!strncmp(meant + 2, names[i], length) && !names[i][length]))
            return base_fail(error, BASE_USAGE, "unknown option %s; use %s; --help all lists them", name, meant);
    }
    if (nearest) nearest += strlen("--");
    if (!nearest) nearest = only_ending(word, names, count, 0);
    if (!nearest) nearest = base_nearest(word, names, count);
    if (!nearest) nearest = only_ending(word, names, count, (int)strlen(word) / 3);
    if (nearest)
        return base_fail(error, BASE_USAGE, "unknown option %s; did you mean --%s? --help all lists them", name,
                         nearest);
    return base_fail(error, BASE_USAGE, "unknown option %s: --help all lists them", name);
}

/* "-x" is an unknown option; "-" and "-5" are arguments. */
static bool is_option(const char *given)
{
    return given[0] == '-' && given[1] && !(given[1] >= '0' && given[1] <= '9');
}

/* T5X's own options, and others with a dot, as torchtitan's --training.seq_len, are arguments, whatever the command;
 * each becomes one argument, NAME=VALUE. */
static bool is_of_software(const char *given)
{
    static const char *const names[] = {"--gin_file", "--gin_bindings"};
    for (int i = 0; i < BASE_COUNT(names); i++) {
        const size_t length = strlen(names[i]);
        if (!strncmp(given, names[i], length) && (!given[length] || given[length] == '=')) return true;
    }
    return !strncmp(given, "--", 2) && memchr(given, '.', strcspn(given, "=")) != NULL;
}

enum base_status base_arguments_parse(struct base_arena *arena, const struct base_option *options, int option_count,
                                      int positional_limit, int argument_count, const char *const *arguments,
                                      struct base_arguments *out, struct base_error *error)
{
    const char **values = base_new(arena, const char *, option_count),
               **positional = base_new(arena, const char *, argument_count + 1);
    int positional_count = 0;
    for (int i = 0; i < argument_count; i++) {
        const char *given = arguments[i], *equals = strchr(given, '=');
        if (!is_option(given)) {
            if (positional_count == positional_limit)
                return base_fail(error, BASE_USAGE, "\"%.60s\" is one argument too many; options begin with --", given);
            positional[positional_count++] = given;
            continue;
        }
        if (is_of_software(given)) {
            if (positional_count == positional_limit)
                return base_fail(error, BASE_USAGE, "\"%.60s\": import reads it", given);
            const bool joined = equals;
            if (!joined && i + 1 == argument_count) return base_fail(error, BASE_USAGE, "%s needs a value", given);
            positional[positional_count++] = joined ? given : base_print(arena, "%s=%s", given, arguments[i + 1]);
            i += !joined;
            continue;
        }
        int which = find_option(options, option_count, given, equals ? (size_t)(equals - given) : strlen(given));
        if (which < 0) return unknown_option(options, option_count, given, error);
        const struct base_option *option = &options[which];
        if (values[which]) return base_fail(error, BASE_USAGE, "%s is given twice", option->name);
        if (!option->value) {
            if (equals) return base_fail(error, BASE_USAGE, "%s takes no value", option->name);
            values[which] = "";
            continue;
        }
        if (!equals && (i + 1 == argument_count || !strncmp(arguments[i + 1], "--", 2)))
            return base_fail(error, BASE_USAGE, "%s needs a value: %s %s", option->name, option->name, option->value);
        values[which] = equals ? equals + 1 : arguments[++i];
    }
    *out = (struct base_arguments){options, option_count, values, positional, positional_count};
    return BASE_OK;
}

const char *base_argument(const struct base_arguments *arguments, const char *name)
{
    int which = find_option(arguments->options, arguments->option_count, name, strlen(name));
    assert(which >= 0);
    return arguments->values[which];
}
