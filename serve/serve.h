/* serve: the page's questions over HTTP, on the loopback alone. It knows no command: who serves gives it the page, and
 * the program that answers. */
#ifndef SERVE_H
#define SERVE_H

#include "base/base.h"

/* ---- a request (http_request.c) ---- */

enum { SERVE_TOKEN = 32, SERVE_LARGEST_BODY = 1 << 20, SERVE_MOST_QUESTIONS = 256 };

/* The raw request; NULL: absent. */
struct serve_request {
    const char *method, *path, *host, *origin, *token;
};
enum serve_wish {
    SERVE_PAGE,         /* GET / */
    SERVE_ASK,          /* POST /ask: lines of questions */
    SERVE_SEARCH,       /* POST /search: one question, in place of the last search */
    SERVE_SEARCH_STATE, /* GET /search */
    SERVE_SEARCH_STOP   /* DELETE /search */
};
/* Kind of a request; or its HTTP status and the reason: 403 for another host, another page, or a missing token; 404;
 * 405. */
int serve_read(const struct serve_request *request, int port, const char *token, enum serve_wish *wish,
               const char **why);
/* Questions in a body, a JSON array of strings a line, copied in one line each; 0 and why: it is none. */
int serve_questions(struct base_arena *arena, const char *body, size_t length, const char **questions,
                    const char **why);

/* ---- the server (http.c) ---- */

struct serve_settings {
    int port;                                        /* 0: one that is free */
    const char *page;                                /* HTML */
    const char *const *answerer;                     /* argv of this program, ended by NULL, that answers lines */
    bool (*stop)(void *where);                       /* asked several times a second */
    double (*now_s)(void *where);                    /* a clock that never goes back */
    void (*begun)(void *where, const char *address); /* once it answers */
    void *where;
};
/* Serves until stop says so. BASE_RUN: the port is taken, or libmicrohttpd cannot be loaded. */
enum base_status serve_run(struct base_arena *arena, const struct serve_settings *settings, struct base_error *error);

#endif
