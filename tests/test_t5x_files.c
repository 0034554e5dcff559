/* T5X's own gin files: each is imported, and says what it says, or is refused for the right reason. The table holds for
 * each file what of it concerns a plan, in its own statements where it is included by none (google-research/t5x, read
 * at the path that stands there); files of one kind share a row, whose {a|b} stands for each in turn. */
#include "tests/test.h"

#include "sim/predict/predict.h"

static const char *with(struct base_arena *arena, const char *pattern, const char *word, size_t length)
{
    struct base_text out = {.arena = arena};
    base_put(&out, "");
    for (const char *at = pattern; *at; at++) {
        bool separates = !strncmp(at, " ; ", 3);
        if (!strncmp(at, "{}", 2)) base_put_bytes(&out, word, length), at++;
        else if (separates) base_put(&out, "\n"), at += 2;
        else base_put_bytes(&out, at, 1);
    }
    return out.data;
}

/* The plan as JSON, then warnings and what changes values alone; of a file that is refused the message. */
static const char *imported(struct base_arena *arena, const char *text, bool *refused)
{
    struct model_gin *gin;
    struct sim_gin_plan plan;
    struct base_error error;
    struct base_text out = {.arena = arena};
    struct base_json_writer writer = {.text = &out, .layout = BASE_JSON_ONE_LINE};
    assert_ok(model_gin_parse(arena, "x.gin", text, &gin, &error), &error);
    *refused = sim_plan_from_gin(gin, &plan, &error) != BASE_OK;
    if (*refused) return base_copy(arena, error.text);
    sim_plan_put_json(arena, &plan.text, &writer);
    for (int i = 0; i < gin->warning_count; i++) base_putf(&out, "warning: %s\n", gin->warnings[i]);
    for (int i = 0; i < gin->difference_count; i++) base_putf(&out, "values: %s\n", gin->differences[i]);
    return out.data;
}

/* expected: lines, each of which must be in the answer, or, behind a "!", not. */
static void check_file(struct base_arena *arena, const char *text, const char *outcome, const char *expected)
{
    bool refused;
    const char *answer = imported(arena, base_print(arena, "%s\n", text), &refused);
    if (refused != !strcmp(outcome, "refused")) fail_msg("is to be %s, and gives %s", outcome, answer);
    for (const char *at = expected; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const bool absent = *at == '!';
        const char *what = base_copy_bytes(arena, at + absent, strcspn(at, "\n") - absent);
        if (!strstr(answer, what) != absent) fail_msg("\"%s\" is %sin: %s", what, absent ? "" : "not ", answer);
    }
}

static void each_is_imported_or_refused_for_its_reason(struct base_arena *arena)
{
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int files = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/t5x_gins.csv", &error), &error);
    for (;;) {
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        const char *file = base_csv_field(&csv, base_csv_column(&csv, "file")), *brace = strchr(file, '{'),
                   *words = brace ? brace + 1 : "";
        do {
            size_t length = strcspn(words, "|}");
            TEST_ROW("%s (%.*s)", file, (int)length, words);
            check_file(arena, with(arena, base_csv_field(&csv, base_csv_column(&csv, "statements")), words, length),
                       base_csv_field(&csv, base_csv_column(&csv, "outcome")),
                       with(arena, base_csv_field(&csv, base_csv_column(&csv, "expected")), words, length));
            words += length;
            files++;
        } while (*words++ == '|');
    }
    base_csv_close(&csv);
    assert_true(files >= 155);
}

static const struct test tests[] = {
    TEST(each_is_imported_or_refused_for_its_reason),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
