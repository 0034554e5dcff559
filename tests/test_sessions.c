/* Sessions of the library share nothing: two threads, a session each, give the bytes of one after the other. */
#define _DEFAULT_SOURCE
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "library/meshwright.h"

enum { MOST_WORDS = 24 };

/* All but one are answered. */
static const char no_model[] = "no_such_model";
static const char *const questions[][MOST_WORDS] = {
    {"predict", "--model", "t5_1_1_base", "--topology", "v4-16", "--batch-size", "64", "--task-feature-lengths",
     "512,512"},
    {"predict", "--model", "t5_1_1_large", "--topology", "v4-32", "--batch-size", "64", "--task-feature-lengths",
     "512,512", "--num-partitions", "2", "--num-microbatches", "2", "--remat-policy", "none"},
    {"predict", "--model", "gpt2_xl", "--topology", "h100:2x8", "--batch-size", "64", "--task-feature-lengths", "1024",
     "--software", "megatron", "--pipeline-stages", "4", "--num-microbatches", "8"},
    {"predict", "--model", "t5_1_1_base", "--topology", "v4-16", "--batch-size", "64", "--task-feature-lengths",
     "512,64", "--step", "generate"},
    {"predict", "--model", no_model, "--topology", "v4-16", "--batch-size", "64", "--task-feature-lengths", "512,512"},
    {"collective", "--topology", "v4-128", "--num-partitions", "4", "--kind", "all_reduce", "--mesh-axis", "data",
     "--bytes", "100000000", "--network", "simulated"},
    {"rules", "--logical-axis-rules", "standard:2,1"},
    {"topologies"},
    {"models"},
    {"tune", "--model", "t5_1_1_base", "--topology", "v4-16", "--batch-size", "64", "--task-feature-lengths", "512,512",
     "--search", "rules"},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

struct asker {
    int first; /* question */
    bool predicts_alone;
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
        if (asker->predicts_alone && strcmp(questions[at][0], "predict") != 0) continue;
        while (words < MOST_WORDS && questions[at][words]) words++;
        asker->exits[at] = meshwright_ask(session, words, questions[at], &answer);
        asker->answers[at] = strdup(answer);
    }
    meshwright_close(session);
    return NULL;
}

static void two_threads_say_what_one_says(struct base_arena *arena)
{
    enum { ROUNDS = 2 };
    struct asker alone = {.first = 0};
    (void)arena;
    ask_all(&alone);
    for (int i = 0; i < QUESTIONS; i++) {
        TEST_ROW("%s: %.200s", questions[i][0], alone.answers[i]);
        assert_int_equal(alone.exits[i], questions[i][2] == no_model ? BASE_INPUT : BASE_OK);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct asker askers[2] = {{.first = 0}, {.first = QUESTIONS / 2 * round}};
        pthread_t threads[2];
        for (int t = 0; t < 2; t++) assert_int_equal(pthread_create(&threads[t], NULL, ask_all, &askers[t]), 0);
        for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
        for (int t = 0; t < 2; t++)
            for (int i = 0; i < QUESTIONS; i++) {
                TEST_ROW("%s %s, thread %d", questions[i][0], questions[i][1] ? questions[i][2] : "", t);
                assert_int_equal(askers[t].exits[i], alone.exits[i]);
                assert_string_equal(askers[t].answers[i], alone.answers[i]);
                free(askers[t].answers[i]);
            }
    }
    for (int i = 0; i < QUESTIONS; i++) free(alone.answers[i]);
}

/* Inside other programs a thread's stack may be small. Sanitizers need more of it. */
static void a_prediction_needs_a_small_stack(struct base_arena *arena)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    (void)arena;
    skip();
#else
    enum { STACK_BYTES = 64 << 10, GUARD_BYTES = 4096 };
    struct asker asker = {.predicts_alone = true};
    pthread_attr_t attributes;
    pthread_t thread;
    char *pages = base_alloc(arena, STACK_BYTES + 2 * GUARD_BYTES, 1),
         *stack = pages + GUARD_BYTES - (uintptr_t)pages % GUARD_BYTES;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
    assert_int_equal(mprotect(stack, GUARD_BYTES, PROT_NONE), 0); /* who needs more ends here */
    assert_int_equal(pthread_create(&thread, &attributes, ask_all, &asker), 0);
    pthread_join(thread, NULL);
    assert_int_equal(mprotect(stack, GUARD_BYTES, PROT_READ | PROT_WRITE), 0);
    for (int i = 0; i < QUESTIONS; i++) free(asker.answers[i]);
#endif
}

static const struct test tests[] = {
    TEST(a_prediction_needs_a_small_stack),
    TEST(two_threads_say_what_one_says),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
