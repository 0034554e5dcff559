/* test: what every test program shares. A test is a function that gets an arena of its own; it checks with cmocka's
 * assertions and with those below. A program is a table of tests and `return test_main(...)`. Run from the root. */
#ifndef TEST_H
#define TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

/* By how much a machine may be slower than the one that a test's seconds were chosen on: sanitizers take their share,
 * and others may want its processors. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TEST_SLOWER = 5 };
#else
enum { TEST_SLOWER = 2 };
#endif

typedef void test_function(struct base_arena *arena);

struct test {
    const char *name;
    test_function *run;
};

/* One row of a program's table of tests. */
#define TEST(function)                                                                                                 \
    {                                                                                                                  \
#function, function                                                                                            \
    }

/* The row of a table-driven test that is being checked; shown if the test fails. */
static char test_row[400];

#define TEST_ROW(...) ((void)snprintf(test_row, sizeof test_row, __VA_ARGS__))

static inline void test_run(void **state)
{
    const struct test *test = *state;
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    if (setjmp(exhausted) != 0) fail_msg("%s: the arena is exhausted", test->name);
    test->run(&arena);
    base_arena_free(&arena);
    test_row[0] = '\0';
}

/* cmocka runs it after a failure, too: a row that is still set is the one that failed. */
static inline int test_name_row(void **state)
{
    (void)state;
    if (test_row[0]) print_error("at the row: %s\n", test_row);
    test_row[0] = '\0';
    return 0;
}

/* A new folder, in memory where the system has that: checkpoints of tests would wait for a disk, file by file. */
static inline char *test_folder(struct base_arena *arena, const char *name)
{
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    char *path = base_print(arena, "%s/meshwright-%s-XXXXXX", root, name);
    assert_non_null(mkdtemp(path));
    return path;
}

/* Runs all tests, or those whose name matches the first argument (with * and ?). Returns the exit status. */
static inline int test_main(const struct test *tests, int count, int argument_count, char **arguments)
{
    enum { MOST_TESTS = 200 };
    static struct CMUnitTest table[MOST_TESTS];
    if (count > MOST_TESTS) return 1;
    for (int i = 0; i < count; i++)
        table[i] = (struct CMUnitTest){tests[i].name, test_run, NULL, test_name_row, (void *)(uintptr_t)&tests[i]};
    if (argument_count > 1) cmocka_set_test_filter(arguments[1]);
    return _cmocka_run_group_tests(arguments[0], table, (size_t)count, NULL, NULL) == 0 ? 0 : 1;
}

/* cmocka compares doubles as floats with an absolute tolerance: 1e9 + 10 passes for 1e9. This one is relative to the
 * larger of the two; a tolerance of 0 asks for equality. NaN is near nothing. */
/* One of several words, by chance. */
static inline const char *test_pick(struct base_random *random, const char *const *words, int count)
{
    return words[base_random_below(random, count)];
}
#define PICK(random, words) test_pick((random), (words), BASE_COUNT(words))

static inline bool test_is_near(double actual, double expected, double relative)
{
    double difference = fabs(actual - expected);
    return actual == expected || (isfinite(difference) && difference <= relative * fmax(fabs(actual), fabs(expected)));
}

static inline void test_check_near(double actual, double expected, double relative, const char *what, const char *file,
                                   int line)
{
    if (test_is_near(actual, expected, relative)) return;
    print_error("%s is %.17g; expected %.17g within %g of it\n", what, actual, expected, relative);
    _fail(file, line);
}
#define assert_near(actual, expected, relative)                                                                        \
    test_check_near((actual), (expected), (relative), #actual, __FILE__, __LINE__)

static inline void test_check_ok(enum base_status status, const struct base_error *error, const char *file, int line)
{
    if (status == BASE_OK) return;
    print_error("status %d: %s\n", (int)status, error->text);
    _fail(file, line);
}
/* The call succeeds; otherwise its message is shown. */
#define assert_ok(call, error) test_check_ok((call), (error), __FILE__, __LINE__)

static inline void test_check_fails(enum base_status status, enum base_status expected, const struct base_error *error,
                                    const char *part, const char *file, int line)
{
    if (status == expected && error->status == expected && strstr(error->text, part)) return;
    print_error("status %d (in the message %d), \"%s\"; expected status %d and a message with \"%s\"\n", (int)status,
                (int)(status == BASE_OK ? BASE_OK : error->status), status == BASE_OK ? "" : error->text, (int)expected,
                part);
    _fail(file, line);
}
/* The call fails with that status and a message that holds part. */
#define assert_fails(call, expected, error, part)                                                                      \
    test_check_fails((call), (expected), (error), (part), __FILE__, __LINE__)

/* The text of tests/data/NAME, NUL-terminated. */
static inline const char *test_read(struct base_arena *arena, const char *name, size_t *length)
{
    enum { MOST_BYTES = 64 << 20 };
    struct base_error error;
    const char *text;
    assert_ok(base_read_file(arena, base_print(arena, "tests/data/%s", name), MOST_BYTES, &text, length, &error),
              &error);
    return text;
}

static inline const struct base_json *test_read_json(struct base_arena *arena, const char *name)
{
    struct base_error error;
    const struct base_json *document;
    size_t length;
    const char *text = test_read(arena, name, &length);
    assert_ok(base_json_parse(arena, text, length, &document, &error), &error);
    return document;
}

#endif
