/* libmeshwright: one door to all rooms, for programs that want answers without starting a process. */
#include "commands/commands.h"
#include "library/meshwright.h"
#include "sim/predict/predict.h"

#include <stdlib.h>

struct meshwright {
    struct base_arena lasting, question; /* what the session keeps; what one question needs */
    struct sim_cache *cache;
    jmp_buf exhausted;
};

static const char out_of_memory[] = "{\"exit\":1,\"error\":\"out of memory\"}\n";

struct meshwright *meshwright_open(void)
{
    struct meshwright *volatile session = calloc(1, sizeof(struct meshwright)); /* it outlives a jump */
    if (!session) return NULL;
    session->lasting.exhausted = session->question.exhausted = &session->exhausted;
    if (setjmp(session->exhausted)) {
        meshwright_close(session);
        return NULL;
    }
    session->cache = sim_cache_new(&session->lasting);
    return session;
}

void meshwright_close(struct meshwright *session)
{
    if (!session) return;
    if (session->cache) sim_cache_free(session->cache);
    base_arena_free(&session->question);
    base_arena_free(&session->lasting);
    free(session);
}

int meshwright_ask(struct meshwright *session, int word_count, const char *const *words, const char **answer)
{
    if (setjmp(session->exhausted)) {
        base_output_abandon_all();
        base_arena_reset(&session->question);
        *answer = out_of_memory;
        return BASE_INTERNAL;
    }
    base_arena_reset(&session->question);
    struct base_text text = {.arena = &session->question};
    enum base_status status = commands_answer(session->cache, &session->question, word_count, words, &text);
    *answer = text.data;
    return (int)status;
}

const char *meshwright_version(void)
{
    return MESHWRIGHT_VERSION;
}

int meshwright_api_version(void)
{
    return MESHWRIGHT_API_VERSION;
}
