/* Accepted requests: the page, answers, a search. Others are refused, with the reason. */
#include "serve/serve.h"

#include <string.h>

static bool is_own_host(const char *host, int port)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    char own[32];
    for (int i = 0; host && i < BASE_COUNT(names); i++) {
        snprintf(own, sizeof own, "%s:%d", names[i], port);
        if (!strcmp(host, own)) return true;
    }
    return false;
}

/* Pages of other addresses have another origin; one that a browser hides is "null". */
static bool is_own_origin(const char *origin, int port)
{
    static const char scheme[] = "http://";
    return !origin || (!strncmp(origin, scheme, strlen(scheme)) && is_own_host(origin + strlen(scheme), port));
}

/* In as long for any other token. */
static bool is_token(const char *given, const char *token)
{
    unsigned char differs = 0;
    if (!given || strlen(given) != SERVE_TOKEN) return false;
    for (int i = 0; i < SERVE_TOKEN; i++) differs |= (unsigned char)(given[i] ^ token[i]);
    return !differs;
}

int serve_read(const struct serve_request *request, int port, const char *token, enum serve_wish *wish,
               const char **why)
{
    static const struct {
        const char *method, *path;
        enum serve_wish wish;
    } wishes[] = {{"GET", "/", SERVE_PAGE},
                  {"POST", "/ask", SERVE_ASK},
                  {"POST", "/search", SERVE_SEARCH},
                  {"GET", "/search", SERVE_SEARCH_STATE},
                  {"DELETE", "/search", SERVE_SEARCH_STOP}};
    enum { FORBIDDEN = 403, NOT_FOUND = 404, NOT_ALLOWED = 405 };
    bool has_path = false;
    *why = "the request is for another host than this one";
    if (!is_own_host(request->host, port)) return FORBIDDEN;
    *why = "the request comes from another page";
    if (!is_own_origin(request->origin, port)) return FORBIDDEN;
    *why = "the token is missing or wrong: open the address that meshwright serve printed";
    if (!is_token(request->token, token)) return FORBIDDEN;
    for (int i = 0; i < BASE_COUNT(wishes); i++) {
        if (strcmp(wishes[i].path, request->path) != 0) continue;
        has_path = true;
        *wish = wishes[i].wish;
        if (!strcmp(wishes[i].method, request->method)) return 0;
    }
    *why = has_path ? "this path needs another method" : "no such path";
    return has_path ? NOT_ALLOWED : NOT_FOUND;
}

/* Rewrites the question as one line, so that only parsed content is passed on. */
static bool put_question(struct base_arena *arena, const char *line, size_t length, const char **out)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    const struct base_json *list;
    struct base_error ignored;
    const char *ended = base_copy_bytes(arena, line, length); /* the reader looks one byte behind the end */
    if (base_json_parse(arena, ended, length, &list, &ignored) != BASE_OK || list->kind != BASE_JSON_ARRAY)
        return false;
    for (const struct base_json *item = list->child; item; item = item->next)
        if (item->kind != BASE_JSON_STRING) return false;
    base_json_put_value(&writer, list);
    while (text.length && text.data[text.length - 1] == '\n') text.length--;
    base_put(&text, "\n");
    *out = text.data;
    return true;
}

int serve_questions(struct base_arena *arena, const char *body, size_t length, const char **questions, const char **why)
{
    int count = 0;
    *why = "a body is 1 to 256 lines, each a JSON array of strings";
    for (size_t at = 0; at < length;) {
        const char *end = memchr(body + at, '\n', length - at);
        const size_t line = end ? (size_t)(end - body) - at : length - at;
        if (line && (count == SERVE_MOST_QUESTIONS || !put_question(arena, body + at, line, &questions[count++])))
            return 0;
        at += line + 1;
    }
    return count;
}
