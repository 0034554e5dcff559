/* Processes that answer one line at a time: this program started anew, or a copy of this process. A question that kills
 * one, or takes too long, costs only its own answer. */
#define _DEFAULT_SOURCE /* sys/prctl.h needs it for its names only */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_END, WRITE_END, NOT_STARTED = 127 };

/* Irreversible: no file can be opened afterwards, and no request can use all of the machine's memory. */
bool base_seal(int64_t most_bytes)
{
    const struct rlimit files = {STDERR_FILENO + 1, STDERR_FILENO + 1};
    struct rlimit memory;
    if (getrlimit(RLIMIT_AS, &memory) != 0) return false;
    if (memory.rlim_max == RLIM_INFINITY || memory.rlim_max > (rlim_t)most_bytes)
        memory.rlim_cur = memory.rlim_max = (rlim_t)most_bytes;
    return setrlimit(RLIMIT_AS, &memory) == 0 && setrlimit(RLIMIT_NOFILE, &files) == 0;
}

/* ---- starting and ending ---- */

/* Programs that start later must not inherit the pipes: each needs to see the end of its own. */
static bool open_pipe(int *ends)
{
    if (pipe(ends) != 0) return false;
    fcntl(ends[READ_END], F_SETFD, FD_CLOEXEC);
    fcntl(ends[WRITE_END], F_SETFD, FD_CLOEXEC);
    return true;
}

static void close_both(const int *ends)
{
    close(ends[READ_END]), close(ends[WRITE_END]);
}

/* What the new process does; it does not return. */
typedef void task(const void *what, int from, int to);

static void begin(task *does, const void *what, pid_t parent, const int *in, const int *out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    close(in[WRITE_END]), close(out[READ_END]);
    does(what, in[READ_END], out[WRITE_END]);
}

static enum base_status start(struct base_answerer *answerer, task *does, const void *what, struct base_error *error)
{
    int in[2], out[2];
    const pid_t parent = getpid();
    if (!open_pipe(in)) return base_fail(error, BASE_RUN, "cannot create a pipe: %s", strerror(errno));
    if (!open_pipe(out)) {
        close_both(in);
        return base_fail(error, BASE_RUN, "cannot create a pipe: %s", strerror(errno));
    }
    const pid_t pid = fork();
    if (pid == 0) begin(does, what, parent, in, out);
    if (pid < 0) {
        close_both(in), close_both(out);
        return base_fail(error, BASE_RUN, "no process can be started: %s", strerror(errno));
    }
    close(in[READ_END]), close(out[WRITE_END]);
    *answerer = (struct base_answerer){.pid = pid, .to = in[WRITE_END], .from = out[READ_END]};
    return BASE_OK;
}

/* Returns the signal that ended the process, or 0. */
static int end(struct base_answerer *answerer, bool by_force)
{
    int status = 0;
    if (by_force) kill((pid_t)answerer->pid, SIGKILL);
    close(answerer->to), close(answerer->from);
    while (waitpid((pid_t)answerer->pid, &status, 0) < 0 && errno == EINTR) continue;
    answerer->pid = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* ---- this program started anew ---- */

static void become(const void *arguments, int from, int to)
{
    union {
        const char *const *given;
        char *const *taken;
    } list = {.given = arguments}; /* execv does not modify it */
    setpgid(0, 0);
    dup2(from, STDIN_FILENO);
    dup2(to, STDOUT_FILENO);
    execv("/proc/self/exe", list.taken);
    _exit(NOT_STARTED);
}

enum base_status base_answerer_start(struct base_answerer *answerer, const char *const *arguments,
                                     struct base_error *error)
{
    return start(answerer, become, arguments, error);
}

void base_answerer_end(struct base_answerer *answerer)
{
    if (answerer->pid > 0) end(answerer, true);
}

bool base_answerer_tell(const struct base_answerer *answerer, const char *bytes, size_t length)
{
    while (length) {
        ssize_t written = write(answerer->to, bytes, length);
        if (written < 0 && errno != EINTR) return false;
        if (written > 0) bytes += written, length -= (size_t)written;
    }
    return true;
}

enum base_heard base_answerer_hear(struct base_answerer *answerer, int wait_ms, struct base_text *line)
{
    char block[65536];
    for (;;) {
        struct pollfd end_of_pipe = {.fd = answerer->from, .events = POLLIN};
        const int ready = poll(&end_of_pipe, 1, wait_ms);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return BASE_HEARD_NOTHING;
        /* Each answer ends with a line feed, and the next question comes only after it. */
        ssize_t got = read(answerer->from, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return BASE_HEARD_END;
        base_put_bytes(line, block, (size_t)got);
        if (block[got - 1] == '\n') return BASE_HEARD_LINE;
    }
}

/* ---- a copy of this process ---- */

/* The copy's main loop; it ends when the pipe of questions closes. */
static void serve(const void *what, int from, int to)
{
    const struct base_worker *worker = what;
    struct base_answerer asker = {.to = to, .from = from};
    struct base_arena arena = {.exhausted = NULL};
    for (;;) {
        struct base_text question = {.arena = &arena}, answer = {.arena = &arena};
        if (base_answerer_hear(&asker, -1, &question) != BASE_HEARD_LINE) break;
        question.data[--question.length] = '\0';
        worker->answer(worker->where, question.data, question.length, &answer);
        if (!base_answerer_tell(&asker, answer.data, answer.length)) break;
        base_arena_reset(&arena);
    }
    _exit(0);
}

enum base_status base_worker_ask(struct base_worker *worker, const char *question, size_t length, struct base_text *out,
                                 struct base_error *error)
{
    struct base_answerer *copy = &worker->copy;
    enum base_heard heard = BASE_HEARD_END;
    if (!copy->pid) BASE_TRY(start(copy, serve, worker, error));
    if (base_answerer_tell(copy, question, length) && base_answerer_tell(copy, "\n", 1))
        heard = base_answerer_hear(copy, worker->patience_s > 0 ? 1000 * worker->patience_s : -1, out);
    if (heard == BASE_HEARD_LINE) return BASE_OK;
    const int number = end(copy, heard == BASE_HEARD_NOTHING);
    if (heard == BASE_HEARD_NOTHING)
        return base_fail(error, BASE_INTERNAL, "no answer within %d s; the question was given up", worker->patience_s);
    return base_fail(error, BASE_INTERNAL, "the process that answered this question ended%s%s; please report it",
                     number ? " by signal: " : "", number ? strsignal(number) : "");
}

void base_worker_end(struct base_worker *worker)
{
    if (worker->copy.pid) end(&worker->copy, false);
}
