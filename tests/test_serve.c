/* Tests of serve/: which requests are let in, and what a body may hold. The server itself: tests/live_browser.py. */
#include "serve/serve.h"
#include "tests/test.h"

#include <string.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

static void requests_of_others_are_refused(struct base_arena *arena)
{
    static const struct {
        struct serve_request request;
        int status;
        enum serve_wish wish;
    } rows[] = {
        {{"GET", "/", "127.0.0.1:80", NULL, TOKEN}, 0, SERVE_PAGE},
        {{"POST", "/ask", "localhost:80", "http://localhost:80", TOKEN}, 0, SERVE_ASK},
        {{"DELETE", "/search", "127.0.0.1:80", "http://127.0.0.1:80", TOKEN}, 0, SERVE_SEARCH_STOP},
        {{"GET", "/", "127.0.0.1:80", NULL, NULL}, 403, SERVE_PAGE},
        {{"GET", "/", "127.0.0.1:80", NULL, "0123456789abcdef0123456789abcdee"}, 403, SERVE_PAGE},
        {{"GET", "/", "127.0.0.1:80", NULL, TOKEN "0"}, 403, SERVE_PAGE},
        {{"GET", "/", NULL, NULL, TOKEN}, 403, SERVE_PAGE},
        {{"GET", "/", "127.0.0.1", NULL, TOKEN}, 403, SERVE_PAGE},
        {{"GET", "/", "127.0.0.1:81", NULL, TOKEN}, 403, SERVE_PAGE},
        {{"GET", "/", "evil.example:80", NULL, TOKEN}, 403, SERVE_PAGE},
        {{"POST", "/ask", "127.0.0.1:80", "http://evil.example", TOKEN}, 403, SERVE_PAGE},
        {{"POST", "/ask", "127.0.0.1:80", "null", TOKEN}, 403, SERVE_PAGE},
        {{"POST", "/ask", "127.0.0.1:80", "https://127.0.0.1:80", TOKEN}, 403, SERVE_PAGE},
        {{"GET", "/etc/passwd", "127.0.0.1:80", NULL, TOKEN}, 404, SERVE_PAGE},
        {{"PUT", "/ask", "127.0.0.1:80", NULL, TOKEN}, 405, SERVE_PAGE},
    };
    (void)arena;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        enum serve_wish wish = SERVE_PAGE;
        const char *why;
        TEST_ROW("row %d", i);
        assert_int_equal(serve_read(&rows[i].request, 80, TOKEN, &wish, &why), rows[i].status);
        if (!rows[i].status) assert_int_equal(wish, rows[i].wish);
    }
}

static void bodies_are_lines_of_strings(struct base_arena *arena)
{
    static const struct {
        const char *body, *first;
        int count;
    } rows[] = {{"[\"models\"]", "[\"models\"]\n", 1},
                {"[\"a\"]\n\n[\"b\",\"c\"]\n", "[\"a\"]\n", 2},
                {"[ \"a\\nb\" ]", "[\"a\\nb\"]\n", 1},
                {"", NULL, 0},
                {"{}", NULL, 0},
                {"[1]", NULL, 0},
                {"[[\"a\"]]", NULL, 0},
                {"[\"a\"", NULL, 0},
                {"[\"a\"]\n7", NULL, 0}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *why, **questions = base_new(arena, const char *, SERVE_MOST_QUESTIONS);
        TEST_ROW("%s", rows[i].body);
        assert_int_equal(serve_questions(arena, rows[i].body, strlen(rows[i].body), questions, &why), rows[i].count);
        if (rows[i].first) assert_string_equal(questions[0], rows[i].first);
    }
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {TEST(requests_of_others_are_refused), TEST(bodies_are_lines_of_strings)};
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
