/* A copy of this process that answers one question at a time. A question that kills it, or times out, costs only its
 * own answer: a new copy takes the next one. */
#define _DEFAULT_SOURCE /* sys/prctl.h needs it for its names only */
#include "base/base.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_END, WRITE_END };

static bool write_whole(int to, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length) {
        const ssize_t written = write(to, at, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        at += written, length -= (size_t)written;
    }
    return true;
}

static bool read_whole(int from, void *bytes, size_t length)
{
    char *at = bytes;
    while (length) {
        const ssize_t got = read(from, at, length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got, length -= (size_t)got;
    }
    return true;
}

static bool send_text(int to, const char *bytes, size_t length)
{
    return write_whole(to, &length, sizeof length) && write_whole(to, bytes, length);
}

/* The copy's main loop; it ends when the question pipe closes. */
static void serve(const struct base_worker *worker, int from, int to)
{
    struct base_arena arena = {.exhausted = NULL};
    size_t length;
    while (read_whole(from, &length, sizeof length)) {
        struct base_text answer = {.arena = &arena};
        char *question = base_alloc(&arena, length + 1, 1);
        if (!read_whole(from, question, length)) break;
        question[length] = '\0';
        worker->answer(worker->where, question, length, &answer);
        if (!send_text(to, answer.data ? answer.data : "", answer.length)) break;
        base_arena_reset(&arena);
    }
    _exit(0);
}

static void close_both(const int ends[2])
{
    close(ends[READ_END]);
    close(ends[WRITE_END]);
}

static enum base_status start(struct base_worker *worker, struct base_error *error)
{
    int questions[2], answers[2];
    const pid_t parent = getpid();
    if (pipe(questions) != 0) return base_fail(error, BASE_INTERNAL, "cannot create a pipe: %s", strerror(errno));
    if (pipe(answers) != 0) {
        close_both(questions);
        return base_fail(error, BASE_INTERNAL, "cannot create a pipe: %s", strerror(errno));
    }
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0);
        close(questions[WRITE_END]);
        close(answers[READ_END]);
        serve(worker, questions[READ_END], answers[WRITE_END]);
    }
    close(questions[READ_END]);
    close(answers[WRITE_END]);
    worker->pid = pid, worker->to = questions[WRITE_END], worker->from = answers[READ_END];
    if (pid > 0) return BASE_OK;
    close(worker->to);
    close(worker->from);
    return base_fail(error, BASE_INTERNAL, "no process could be started: %s", strerror(errno));
}

/* Returns the signal that ended the copy, or 0. */
static int end(struct base_worker *worker, bool by_force)
{
    int status = 0;
    close(worker->to);
    close(worker->from);
    if (by_force) kill((pid_t)worker->pid, SIGKILL);
    while (waitpid((pid_t)worker->pid, &status, 0) < 0 && errno == EINTR) continue;
    worker->pid = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool comes_in_time(const struct base_worker *worker)
{
    struct pollfd waits = {.fd = worker->from, .events = POLLIN};
    int came;
    do came = poll(&waits, 1, worker->patience_s > 0 ? 1000 * worker->patience_s : -1);
    while (came < 0 && errno == EINTR);
    return came != 0;
}

static bool read_answer(const struct base_worker *worker, struct base_text *out)
{
    size_t length;
    if (!read_whole(worker->from, &length, sizeof length)) return false;
    char *bytes = base_alloc(out->arena, length + 1, 1);
    if (!read_whole(worker->from, bytes, length)) return false;
    base_put_bytes(out, bytes, length);
    return true;
}

enum base_status base_worker_ask(struct base_worker *worker, const char *question, size_t length, struct base_text *out,
                                 struct base_error *error)
{
    if (!worker->pid) BASE_TRY(start(worker, error));
    if (send_text(worker->to, question, length)) {
        if (!comes_in_time(worker)) {
            end(worker, true);
            return base_fail(error, BASE_INTERNAL, "no answer within %d s; the question was given up",
                             worker->patience_s);
        }
        if (read_answer(worker, out)) return BASE_OK;
    }
    const int number = end(worker, false);
    return base_fail(error, BASE_INTERNAL, "the process that answered this question ended%s%s; please report it",
                     number ? " by signal: " : "", number ? strsignal(number) : "");
}

void base_worker_end(struct base_worker *worker)
{
    if (worker->pid) end(worker, false);
}
