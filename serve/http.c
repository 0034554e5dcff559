/* The server (the door to libmicrohttpd): one thread, one program that answers, one that searches. */
#include "serve/serve.h"

#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A page's questions take milliseconds; larger ones belong on the command line. */
enum { LONGEST_ANSWER_MS = 10000, TURN_MS = 200, LONGEST_SEARCH_TURNS = 300 * 1000 / TURN_MS };
/* A connection may be idle, or in the middle of a request or an answer, for so long. Beyond ENOUGH_CONNECTIONS the one
 * that has been so for longest gives way to a new one. */
enum { IDLE_S = 10, ENOUGH_CONNECTIONS = 64, MOST_CONNECTIONS = 128 };

/* ---- loading ---- */

/* It brings GnuTLS, which takes longer to load than a plan to predict: so it is loaded by who serves. */
/* clang-format off */
#define MHD_FUNCTIONS(X) \
    X(start_daemon) X(stop_daemon) X(run_wait) X(get_daemon_info) X(get_connection_info) X(lookup_connection_value) \
    X(create_response_from_buffer) X(add_response_header) X(queue_response) X(destroy_response)
/* clang-format on */

struct http_library {
#define DECLARE(name) __typeof__(MHD_##name) *name;
    MHD_FUNCTIONS(DECLARE)
    void *handle;
};

static bool load(void *handle, const char *name, void *function, size_t size_bytes)
{
    void *found = dlsym(handle, name);
    memcpy(function, &found, size_bytes); /* POSIX: a function's address fits a void pointer */
    return found != NULL;
}

static enum base_status load_all(struct http_library *library, struct base_error *error)
{
    bool complete = true;
    library->handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
#define LOAD(name) complete = complete && load(library->handle, "MHD_" #name, &library->name, sizeof library->name);
    if (library->handle) {
        MHD_FUNCTIONS(LOAD)
    }
    if (library->handle && complete) return BASE_OK;
    const char *why = library->handle ? "it lacks a function of 0.9.75" : dlerror();
    return base_fail(error, BASE_RUN, "libmicrohttpd.so.12, which serves the page, cannot be loaded: %.200s",
                     why ? why : "unknown");
}

/* ---- answers ---- */

struct held {
    struct MHD_Connection *connection;
    double since_s; /* it came, or its last request was answered */
    bool is_ended;
};

struct server {
    const struct serve_settings *settings;
    struct http_library library;
    int port;
    char token[SERVE_TOKEN + 1];
    struct base_answerer answering, searching;
    struct base_arena searched; /* the search's answer, until the next one */
    struct base_text said;
    int search_turns;
    bool is_searching;
    struct held held[MOST_CONNECTIONS];
    int held_count;
};

/* Another one takes its place at the next question. */
static void put_failure(struct server *server, struct base_text *out, const char *why)
{
    base_answerer_end(&server->answering);
    base_putf(out, "{\"exit\":1,\"error\":\"%s\"}\n", why);
}

static void answer_question(struct server *server, const char *question, struct base_text *out)
{
    struct base_error error;
    struct base_text line = {.arena = out->arena};
    bool runs =
        server->answering.pid || base_answerer_start(&server->answering, server->settings->answerer, &error) == BASE_OK;
    enum base_heard heard = BASE_HEARD_END;
    if (runs && base_answerer_tell(&server->answering, question, strlen(question)))
        heard = base_answerer_hear(&server->answering, LONGEST_ANSWER_MS, &line);
    if (heard == BASE_HEARD_LINE) base_put_bytes(out, line.data, line.length);
    else if (heard == BASE_HEARD_END) put_failure(server, out, "the program that answers has ended; ask again");
    else put_failure(server, out, "it took longer than 10 s; ask it on the command line, which waits");
}

/* ---- a search ---- */

static void end_search(struct server *server)
{
    base_answerer_end(&server->searching);
    server->is_searching = false;
}

static void begin_search(struct server *server, const char *question, struct base_text *out)
{
    struct base_error error;
    end_search(server);
    base_arena_reset(&server->searched);
    server->said = (struct base_text){.arena = &server->searched};
    server->search_turns = 0;
    server->is_searching = base_answerer_start(&server->searching, server->settings->answerer, &error) == BASE_OK &&
                           base_answerer_tell(&server->searching, question, strlen(question));
    base_putf(out, "{\"running\":%s}\n", server->is_searching ? "true" : "false");
}

/* Of the lines of progress, and the answer behind them, the last that is whole. */
static void put_search(const struct server *server, struct base_text *out)
{
    const char *lines = server->said.length ? server->said.data : "", *last = lines, *end = strrchr(lines, '\n');
    for (const char *at = lines; end && (at = strchr(at, '\n')) != NULL && at < end; at++) last = at + 1;
    base_putf(out, "{\"running\":%s", server->is_searching ? "true" : "false");
    if (end) {
        base_put(out, ",\"said\":");
        base_put_bytes(out, last, (size_t)(end - last));
    }
    base_put(out, "}\n");
}

static void listen_to_search(struct server *server)
{
    if (!server->is_searching) return;
    enum base_heard heard = base_answerer_hear(&server->searching, 0, &server->said);
    const char *data = server->said.length ? server->said.data : "";
    bool has_answer = strstr(data, "{\"exit\"") != NULL && data[server->said.length - 1] == '\n';
    if (has_answer || heard == BASE_HEARD_END || ++server->search_turns > LONGEST_SEARCH_TURNS) end_search(server);
}

/* ---- connections ---- */

/* The library sees that the other side has gone, and closes the connection. */
static void end_connection(const struct server *server, struct held *held)
{
    const union MHD_ConnectionInfo *info =
        held->is_ended ? NULL
                       : server->library.get_connection_info(held->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info) shutdown(info->connect_fd, SHUT_RDWR);
    held->is_ended = true;
}

/* A turn that was longer than its wait answered somebody, and heard nobody else. */
static void end_idle(struct server *server, double turn_s)
{
    const double now_s = server->settings->now_s(server->settings->where), deaf_s = turn_s - TURN_MS / 1000.0;
    for (struct held *at = server->held; at < server->held + server->held_count; at++) {
        if (deaf_s > 0) at->since_s += deaf_s;
        if (now_s - at->since_s > IDLE_S) end_connection(server, at);
    }
}

static void end_idlest(struct server *server)
{
    struct held *idlest = NULL;
    for (struct held *at = server->held; at < server->held + server->held_count; at++)
        if (!at->is_ended && (!idlest || at->since_s < idlest->since_s)) idlest = at;
    if (idlest) end_connection(server, idlest);
}

static struct held *find_held(struct server *server, const struct MHD_Connection *connection)
{
    int at = 0;
    while (at < server->held_count && server->held[at].connection != connection) at++;
    return at < server->held_count ? &server->held[at] : NULL;
}

static void note_connection(void *where, struct MHD_Connection *connection, void **kept,
                            enum MHD_ConnectionNotificationCode code)
{
    struct server *server = where;
    struct held *held = find_held(server, connection);
    (void)kept;
    if (held) *held = server->held[--server->held_count];
    if (code != MHD_CONNECTION_NOTIFY_STARTED || server->held_count == MOST_CONNECTIONS) return;
    if (server->held_count >= ENOUGH_CONNECTIONS) end_idlest(server);
    server->held[server->held_count++] =
        (struct held){.connection = connection, .since_s = server->settings->now_s(server->settings->where)};
}

/* ---- requests ---- */

struct body {
    char *data; /* of the heap, since it lives between calls of the library */
    size_t length;
    bool is_too_large;
};

static void take_body(struct body *body, const char *data, size_t length)
{
    body->is_too_large = body->is_too_large || length > SERVE_LARGEST_BODY - body->length;
    char *larger = body->is_too_large ? NULL : realloc(body->data, body->length + length);
    body->is_too_large = !larger;
    if (!larger) return;
    memcpy(larger + body->length, data, length);
    body->data = larger, body->length += length;
}

static enum MHD_Result put_response(const struct server *server, struct MHD_Connection *connection, int status,
                                    const char *type, const char *bytes, size_t length)
{
    static const char *const headers[][2] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                                    "frame-ancestors 'none'"}};
    const struct http_library *http = &server->library;
    union {
        const char *given;
        void *taken;
    } buffer = {.given = bytes}; /* it copies */
    struct MHD_Response *response = http->create_response_from_buffer(length, buffer.taken, MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    http->add_response_header(response, "Content-Type", type);
    for (int i = 0; i < BASE_COUNT(headers); i++) http->add_response_header(response, headers[i][0], headers[i][1]);
    enum MHD_Result queued = http->queue_response(connection, (unsigned)status, response);
    http->destroy_response(response);
    return queued;
}

static enum MHD_Result refuse(const struct server *server, struct MHD_Connection *connection, int status,
                              const char *why)
{
    return put_response(server, connection, status, "text/plain; charset=utf-8", why, strlen(why));
}

static int answer_body(struct server *server, enum serve_wish wish, const struct body *body, struct base_text *out)
{
    enum { DONE = 200, BAD_REQUEST = 400, TOO_LARGE = 413 };
    const char *why, **questions = base_new(out->arena, const char *, SERVE_MOST_QUESTIONS);
    const bool asks = wish == SERVE_ASK || wish == SERVE_SEARCH;
    if (asks && body->is_too_large) return base_put(out, "a body is at most 1 MiB long"), TOO_LARGE;
    const int count = asks ? serve_questions(out->arena, body->data, body->length, questions, &why) : 0;
    if (asks && !count) return base_put(out, why), BAD_REQUEST;
    if (wish == SERVE_SEARCH_STOP) end_search(server);
    if (wish == SERVE_SEARCH) begin_search(server, questions[0], out);
    if (wish == SERVE_SEARCH_STATE || wish == SERVE_SEARCH_STOP) put_search(server, out);
    for (int i = 0; i < count && wish == SERVE_ASK; i++) answer_question(server, questions[i], out);
    return DONE;
}

/* A jump out of memory stays inside: the library's frames are not jumped over. */
static enum MHD_Result answer(struct server *server, struct MHD_Connection *connection, enum serve_wish wish,
                              const struct body *body)
{
    enum { UNAVAILABLE = 503 };
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    enum MHD_Result result;
    server->searched.exhausted = &exhausted;
    if (setjmp(exhausted)) {
        end_search(server);
        result = refuse(server, connection, UNAVAILABLE, "out of memory");
    } else {
        struct base_text out = {.arena = &arena};
        int status = answer_body(server, wish, body, &out);
        result = put_response(server, connection, status, "application/json", out.data, out.length);
    }
    base_arena_free(&arena);
    return result;
}

static const char *header(const struct server *server, struct MHD_Connection *connection, enum MHD_ValueKind kind,
                          const char *name)
{
    return server->library.lookup_connection_value(connection, kind, name);
}

static enum MHD_Result on_request(void *where, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *length, void **kept)
{
    struct server *server = where;
    enum serve_wish wish;
    const char *why, *token = header(server, connection, MHD_HEADER_KIND, "X-Meshwright-Token");
    const char *asked = header(server, connection, MHD_GET_ARGUMENT_KIND, "token");
    const struct serve_request request = {.method = method,
                                          .path = path,
                                          .host = header(server, connection, MHD_HEADER_KIND, "Host"),
                                          .origin = header(server, connection, MHD_HEADER_KIND, "Origin"),
                                          .token = token || strcmp(path, "/") != 0 ? token : asked};
    int status = serve_read(&request, server->port, server->token, &wish, &why);
    (void)version;
    if (status) return refuse(server, connection, status, why);
    if (!*kept) return (*kept = calloc(1, sizeof(struct body))) ? MHD_YES : MHD_NO;
    if (*length) {
        take_body(*kept, data, *length);
        return *length = 0, MHD_YES;
    }
    if (wish == SERVE_PAGE)
        return put_response(server, connection, MHD_HTTP_OK, "text/html; charset=utf-8", server->settings->page,
                            strlen(server->settings->page));
    return answer(server, connection, wish, *kept);
}

static void forget_body(void *where, struct MHD_Connection *connection, void **kept,
                        enum MHD_RequestTerminationCode code)
{
    struct server *server = where;
    struct body *body = *kept;
    struct held *held = find_held(server, connection);
    (void)code;
    if (held) held->since_s = server->settings->now_s(server->settings->where);
    if (body) free(body->data);
    free(body);
    *kept = NULL;
}

/* ---- the loop ---- */

static bool make_token(char *token)
{
    unsigned char bytes[SERVE_TOKEN / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static struct MHD_Daemon *start(struct server *server)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server->settings->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_Daemon *daemon = server->library.start_daemon(
        MHD_NO_FLAG, 0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&loopback,
        MHD_OPTION_NOTIFY_COMPLETED, forget_body, server, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        daemon ? server->library.get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    server->port = info ? info->port : server->settings->port;
    return daemon;
}

static void turn(struct server *server, struct MHD_Daemon *daemon)
{
    jmp_buf exhausted;
    const double begun_s = server->settings->now_s(server->settings->where);
    server->library.run_wait(daemon, TURN_MS);
    end_idle(server, server->settings->now_s(server->settings->where) - begun_s);
    server->searched.exhausted = &exhausted;
    if (setjmp(exhausted)) end_search(server);
    else listen_to_search(server);
}

enum base_status serve_run(struct base_arena *arena, const struct serve_settings *settings, struct base_error *error)
{
    struct server *server = base_new(arena, struct server, 1);
    server->settings = settings;
    server->said.arena = &server->searched;
    BASE_TRY(load_all(&server->library, error));
    if (!make_token(server->token)) return base_fail(error, BASE_RUN, "no random numbers: %s", strerror(errno));
    struct MHD_Daemon *daemon = start(server);
    if (!daemon)
        return base_fail(error, BASE_RUN, "--port: 127.0.0.1:%d cannot be listened to: %s", settings->port,
                         strerror(errno));
    settings->begun(settings->where, base_print(arena, "http://127.0.0.1:%d/?token=%s", server->port, server->token));
    while (!settings->stop(settings->where)) turn(server, daemon);
    server->library.stop_daemon(daemon);
    base_answerer_end(&server->answering);
    end_search(server);
    base_arena_free(&server->searched);
    return BASE_OK;
}
