/* Bodies of requests to serve: what is taken as questions is one line each, arrays of strings, and taken again. */
#include "serve/serve.h"
#include "tests/fuzz/fuzz.h"

static void check(struct base_arena *arena, const char *text, size_t length)
{
    const char *why, **questions = base_new(arena, const char *, SERVE_MOST_QUESTIONS);
    const int count = serve_questions(arena, text, length, questions, &why);
    FUZZ_CHECK(count >= 0 && count <= SERVE_MOST_QUESTIONS && (count || *why));
    for (int i = 0; i < count; i++) {
        const size_t size = strlen(questions[i]);
        const char **again = base_new(arena, const char *, SERVE_MOST_QUESTIONS);
        FUZZ_CHECK(questions[i][0] == '[' && strchr(questions[i], '\n') == questions[i] + size - 1);
        FUZZ_CHECK(serve_questions(arena, questions[i], size, again, &why) == 1 && !strcmp(again[0], questions[i]));
    }
}

FUZZ_TARGET(check, 8000)
