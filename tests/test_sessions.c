/* Sessions of the library share nothing: two threads, a session each, give the bytes of one after the other. */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>

#include "library/meshwright.h"

enum { MOST_WORDS = 24 };

static const char *const questions[][MOST_WORDS] = {
    {"predict", "--model", "t5_1_1_base", "--topology", "v4-16", "--batch-size", "64"},
    {"predict", "--model", "t5_1_1_large", "--topology", "v5p-16", "--batch-size", "64", "--num-microbatches", "2"},
    {"predict", "--model", "gpt3_1_3b", "--topology", "h100:2x8", "--batch-size", "64", "--software", "megatron",
     "--num-partitions", "2", "--pipeline-stages", "2", "--num-microbatches", "8"},
    {"predict", "--model", "t5_1_1_base", "--topology", "v4-16", "--batch-size", "64", "--step", "generate"},
    {"predict", "--model", "no_such_model", "--topology", "v4-16", "--batch-size", "64"},
    {"collective", "--topology", "v4-128", "--num-partitions", "4", "--kind", "all_reduce", "--mesh-axis", "data",
     "--bytes", "1e8", "--network", "simulated"},
    {"rules", "--logical-axis-rules", "standard:2,1"},
    {"topologies"},
    {"models"},
    {"tune", "--model", "t5_1_1_base", "--topology", "v4-16", "--batch-size", "64", "--search", "rules"},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

struct asker {
    int first; /* question */
    char *answers[QUESTIONS];
    int exits[QUESTIONS];
};

static void *ask_all(void *where)
{
    struct asker *asker = where;
    struct meshwright *session = meshwright_open();
    for (int i = 0; i < QUESTIONS; i++) {
        const int at = (asker->first + i) % QUESTIONS;
        int words = 0;
        const char *answer;
        while (words < MOST_WORDS && questions[at][words]) words++;
        asker->exits[at] = meshwright_ask(session, words, questions[at], &answer);
        asker->answers[at] = strdup(answer);
    }
    meshwright_close(session);
    return NULL;
}

/* Without the time that a search took. */
static void drop_clock(char *answer)
{
    char *at = strstr(answer, "\"wall_s\":");
    for (at = at ? at + strlen("\"wall_s\":") : NULL; at && *at != ',' && *at != '}'; at++) *at = ' ';
}

static void two_threads_say_what_one_says(struct base_arena *arena)
{
    enum { ROUNDS = 2 };
    struct asker alone = {.first = 0};
    (void)arena;
    ask_all(&alone);
    for (int round = 0; round < ROUNDS; round++) {
        struct asker askers[2] = {{.first = 0}, {.first = QUESTIONS / 2 * round}};
        pthread_t threads[2];
        for (int t = 0; t < 2; t++) assert_int_equal(pthread_create(&threads[t], NULL, ask_all, &askers[t]), 0);
        for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
        for (int i = 0; i < QUESTIONS; i++) drop_clock(alone.answers[i]);
        for (int t = 0; t < 2; t++)
            for (int i = 0; i < QUESTIONS; i++) {
                TEST_ROW("%s %s, thread %d", questions[i][0], questions[i][1] ? questions[i][2] : "", t);
                drop_clock(askers[t].answers[i]);
                assert_int_equal(askers[t].exits[i], alone.exits[i]);
                assert_string_equal(askers[t].answers[i], alone.answers[i]);
                free(askers[t].answers[i]);
            }
    }
    for (int i = 0; i < QUESTIONS; i++) free(alone.answers[i]);
}

static const struct test tests[] = {
    TEST(two_threads_say_what_one_says),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
