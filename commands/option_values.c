/* Values of options, as numbers and words, and options that a question does not take. */
#include "commands/commands.h"

#include <string.h>

/* NULL, too, where the command has no such option. */
const char *commands_option_given(const struct base_arguments *arguments, const char *name)
{
    for (int i = 0; i < arguments->option_count; i++)
        if (!strcmp(arguments->options[i].name, name)) return arguments->values[i];
    return NULL;
}

enum base_status commands_read_numbers(const struct base_arguments *arguments, const char *option, int limit, int *out,
                                       int *count, struct base_error *error)
{
    int64_t numbers[8];
    const char *text = base_argument(arguments, option);
    if (!text) return BASE_OK;
    BASE_TRY(base_parse_ints(text, option, 0, INT32_MAX, limit, numbers, count, error));
    for (int i = 0; i < *count; i++) out[i] = (int)numbers[i];
    return BASE_OK;
}

enum base_status commands_option_int(const struct base_arguments *arguments, const char *name, int64_t low,
                                     int64_t high, int64_t *out, struct base_error *error)
{
    const char *given = base_argument(arguments, name);
    return given ? base_parse_int(given, name, low, high, out, error) : BASE_OK;
}

enum base_status commands_option_double(const struct base_arguments *arguments, const char *name, double low,
                                        double high, double *out, struct base_error *error)
{
    const char *given = base_argument(arguments, name);
    return given ? base_parse_double(given, name, low, high, out, error) : BASE_OK;
}

enum base_status commands_option_word(const struct base_arguments *arguments, const char *name,
                                      const char *const *words, int count, int *out, struct base_error *error)
{
    const char *given = base_argument(arguments, name);
    return given ? base_parse_word(given, name, words, count, out, error) : BASE_OK;
}

enum base_status commands_refuse_options(const struct base_arguments *arguments, const char *const *names, int count,
                                         enum base_status status, const char *why, struct base_error *error)
{
    for (int i = 0; i < count; i++)
        if (base_argument(arguments, names[i])) return base_fail(error, status, "%s%s", names[i], why);
    return BASE_OK;
}
