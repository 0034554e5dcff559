/* Conditions of a script: comparisons of strings and numbers. Files and commands are unknown. */
#include "model/import/import_settings.h"

#include <string.h>

bool model_import_shell_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *back = NULL;
    while (*text) {
        if (*pattern == '*') star = pattern++, back = text;
        else if (*pattern == *text || *pattern == '?') pattern++, text++;
        else if (star) pattern = star + 1, text = ++back;
        else return false;
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

static bool compare(const struct import_shell *shell, const char *a, const char *operator, const char * b)
{
    static const char *const numeric[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    int64_t x = 0, y = 0;
    if (!strcmp(operator, "=") || !strcmp(operator, "==")) return model_import_shell_matches(b, a);
    if (!strcmp(operator, "!=")) return !model_import_shell_matches(b, a);
    if (!*a || !*b || !model_import_arithmetic(shell, a, &x) || !model_import_arithmetic(shell, b, &y)) return false;
    const bool holds[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
    for (int i = 0; i < BASE_COUNT(numeric); i++)
        if (!strcmp(operator, numeric[i])) return holds[i];
    return false;
}

/* The last of two words outside brackets; -1: there is none. */
static int find_joint(const struct import_word *words, int count, const char *a, const char *b)
{
    for (int i = count - 1, depth = 0; i > 0; i--) {
        depth += !strcmp(words[i].text, ")");
        depth -= !strcmp(words[i].text, "(");
        if (!depth && (!strcmp(words[i].text, a) || !strcmp(words[i].text, b))) return i;
    }
    return -1;
}

/* The words between [ and ]. */
static bool test_holds(const struct import_shell *shell, const struct import_word *words, int count)
{
    const char *first = count ? words[0].text : "";
    const int either = find_joint(words, count, "||", "-o"), both = find_joint(words, count, "&&", "-a");
    if (either > 0)
        return test_holds(shell, words, either) || test_holds(shell, words + either + 1, count - either - 1);
    if (both > 0) return test_holds(shell, words, both) && test_holds(shell, words + both + 1, count - both - 1);
    if (count > 1 && !strcmp(first, "!")) return !test_holds(shell, words + 1, count - 1);
    if (count > 2 && !strcmp(first, "(")) return test_holds(shell, words + 1, count - 2);
    if (count == 1) return *first != '\0';
    if (count == 2 && !strcmp(first, "-n")) return *words[1].text != '\0';
    if (count == 2 && !strcmp(first, "-z")) return *words[1].text == '\0';
    if (count == 2 && !strcmp(first, "-v")) return model_import_variable(shell, words[1].text) != NULL;
    return count == 3 && compare(shell, first, words[1].text, words[2].text);
}

bool model_import_shell_holds(struct import_shell *shell, const struct import_word *words, int count, bool in_condition)
{
    const char *first = words[0].text;
    int64_t value;
    if (!strcmp(first, "!") && count > 1) return !model_import_shell_holds(shell, words + 1, count - 1, in_condition);
    if (!strcmp(first, "true") || !strcmp(first, ":")) return true;
    if (!strcmp(first, "false")) return false;
    if (!strcmp(first, "let") && count > 1)
        return model_import_arithmetic(shell, words[count - 1].text, &value) && value;
    if (strcmp(first, "[") != 0 && strcmp(first, "[[") != 0 && strcmp(first, "test") != 0) return !in_condition;
    const int inner = count - 1 - (*first == '[' && count > 1 && words[count - 1].text[0] == ']');
    return inner > 0 && test_holds(shell, words + 1, inner);
}
