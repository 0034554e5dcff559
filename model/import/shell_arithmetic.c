/* Expressions in $(( )): 64-bit integers, C's operators and variables. Conditions of a script: comparisons of strings
 * and numbers; files and commands are unknown. */
#include "model/import/import_settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 48 };

struct sum {
    const struct import_shell *shell;
    const char *at;
    int depth;
    bool failed;
};

static int64_t binary(struct sum *sum, int level);

static void skip(struct sum *sum)
{
    while (*sum->at && isspace((unsigned char)*sum->at)) sum->at++;
}

static int64_t fail(struct sum *sum)
{
    sum->failed = true;
    return 0;
}

static int64_t number(struct sum *sum)
{
    char *end;
    errno = 0;
    const long long value = strtoll(sum->at, &end, 0);
    if (errno || end == sum->at) return fail(sum);
    sum->at = end;
    return value;
}

/* An unset one is 0, as in a shell. */
static int64_t variable(struct sum *sum)
{
    size_t length = 0;
    char name[128];
    int64_t value = 0;
    struct base_error ignored;
    while (isalnum((unsigned char)sum->at[length]) || sum->at[length] == '_') length++;
    if (length >= sizeof name) return fail(sum);
    memcpy(name, sum->at, length);
    name[length] = '\0';
    sum->at += length;
    const struct import_words *words = model_import_variable(sum->shell, name);
    if (words && words->count && *words->items[0].text &&
        base_parse_int(words->items[0].text, name, INT64_MIN / 2, INT64_MAX / 2, &value, &ignored) != BASE_OK)
        return fail(sum);
    return value;
}

static int64_t unary(struct sum *sum)
{
    int64_t value;
    if (sum->failed || ++sum->depth > DEEPEST) return fail(sum);
    skip(sum);
    const char first = *sum->at;
    if (first == '(') {
        sum->at++;
        value = binary(sum, 0);
        skip(sum);
        if (*sum->at != ')') return fail(sum);
        sum->at++;
    } else if (first == '-' || first == '+' || first == '!' || first == '~') {
        sum->at++;
        value = unary(sum);
        if (value == INT64_MIN) return fail(sum);
        value = first == '-' ? -value : first == '!' ? !value : first == '~' ? ~value : value;
    } else if (isdigit((unsigned char)first)) value = number(sum);
    else if (isalpha((unsigned char)first) || first == '_') value = variable(sum);
    else return fail(sum);
    sum->depth--;
    return value;
}

/* By level, the loosest first; a longer operator stands before one that begins it. */
static const struct {
    int level;
    const char *text;
} operators[] = {{0, "||"}, {1, "&&"}, {2, "=="}, {2, "!="}, {3, "<="}, {3, ">="}, {3, "<"},
                 {3, ">"},  {4, "+"},  {4, "-"},  {5, "**"}, {5, "*"},  {5, "/"},  {5, "%"}};
enum { TIGHTEST = 6 };

static int64_t power(struct sum *sum, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0 || exponent > 64) return fail(sum);
    for (; exponent; exponent--)
        if (__builtin_mul_overflow(result, base, &result)) return fail(sum);
    return result;
}

static int64_t apply(struct sum *sum, const char *text, int64_t a, int64_t b)
{
    int64_t result = 0;
    if (!strcmp(text, "||")) return a || b;
    if (!strcmp(text, "&&")) return a && b;
    if (!strcmp(text, "==")) return a == b;
    if (!strcmp(text, "!=")) return a != b;
    if (!strcmp(text, "<=")) return a <= b;
    if (!strcmp(text, ">=")) return a >= b;
    if (!strcmp(text, "<")) return a < b;
    if (!strcmp(text, ">")) return a > b;
    if (!strcmp(text, "**")) return power(sum, a, b);
    const bool overflows = *text == '+'   ? __builtin_add_overflow(a, b, &result)
                           : *text == '-' ? __builtin_sub_overflow(a, b, &result)
                           : *text == '*' ? __builtin_mul_overflow(a, b, &result)
                                          : b == 0 || (a == INT64_MIN && b == -1);
    if (overflows) return fail(sum);
    if (*text == '/') return a / b;
    return *text == '%' ? a % b : result;
}

static int64_t binary(struct sum *sum, int level)
{
    if (level == TIGHTEST) return unary(sum);
    int64_t value = binary(sum, level + 1);
    for (bool more = true; more && !sum->failed;) {
        more = false;
        skip(sum);
        for (int i = 0; i < BASE_COUNT(operators) && !more; i++) {
            const char *text = operators[i].text;
            if (strncmp(sum->at, text, strlen(text)) != 0) continue;
            if (operators[i].level != level) return value;
            sum->at += strlen(text);
            value = apply(sum, text, value, binary(sum, level + 1));
            more = true;
        }
    }
    return value;
}

static int64_t whole(struct sum *sum)
{
    const int64_t value = binary(sum, 0);
    skip(sum);
    if (sum->failed || *sum->at != '?') return value;
    sum->at++;
    const int64_t yes = binary(sum, 0);
    skip(sum);
    if (*sum->at++ != ':') return fail(sum);
    const int64_t no = binary(sum, 0);
    return value ? yes : no;
}

bool model_import_arithmetic(const struct import_shell *shell, const char *text, int64_t *out)
{
    struct sum sum = {.shell = shell, .at = text};
    *out = whole(&sum);
    if (!sum.failed) skip(&sum);
    return !sum.failed && !*sum.at;
}

enum base_status model_import_let(struct import_shell *shell, const char *text, int line, int64_t *out)
{
    size_t length = 0;
    const char *rest;
    *out = 0;
    text += strspn(text, " \t\n");
    while (isalnum((unsigned char)text[length]) || text[length] == '_') length++;
    rest = text + length + strspn(text + length, " \t");
    const char *name = base_copy_bytes(shell->arena, text, length);
    const bool steps = (!strncmp(rest, "++", 2) || !strncmp(rest, "--", 2)) && !rest[2],
               changes = *rest && strchr("+-*/%", *rest) && rest[1] == '=';
    if (!length || isdigit((unsigned char)*text) || (!steps && !changes && (*rest != '=' || rest[1] == '='))) {
        model_import_arithmetic(shell, text, out);
        return BASE_OK;
    }
    const char *whole = steps     ? base_print(shell->arena, "%s %c 1", name, *rest)
                        : changes ? base_print(shell->arena, "%s %c (%s)", name, *rest, rest + 2)
                                  : rest + 1;
    if (!model_import_arithmetic(shell, whole, out)) return BASE_OK;
    return model_import_shell_set(shell, name, base_print(shell->arena, "%lld", (long long)*out), line);
}

/* ---- conditions ---- */

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
