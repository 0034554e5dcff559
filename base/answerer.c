/* A server process that answers lines: started once, asked one line at a time, killed if it takes too long. */
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

static void become(const char *const *arguments, const int *in, const int *out)
{
    union {
        const char *const *given;
        char *const *taken;
    } list = {.given = arguments}; /* execv does not modify it */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[READ_END], STDIN_FILENO);
    dup2(out[WRITE_END], STDOUT_FILENO);
    execv("/proc/self/exe", list.taken);
    _exit(NOT_STARTED);
}

/* Processes that start later must not inherit the pipes: each needs to see the end of its own. */
static bool open_pipe(int *ends)
{
    if (pipe(ends) != 0) return false;
    fcntl(ends[READ_END], F_SETFD, FD_CLOEXEC);
    fcntl(ends[WRITE_END], F_SETFD, FD_CLOEXEC);
    return true;
}

enum base_status base_answerer_start(struct base_answerer *answerer, const char *const *arguments,
                                     struct base_error *error)
{
    int in[2], out[2];
    if (!open_pipe(in)) return base_fail(error, BASE_RUN, "cannot create a pipe: %s", strerror(errno));
    if (!open_pipe(out)) {
        close(in[READ_END]), close(in[WRITE_END]);
        return base_fail(error, BASE_RUN, "cannot create a pipe: %s", strerror(errno));
    }
    const pid_t pid = fork();
    if (pid == 0) become(arguments, in, out);
    close(in[READ_END]), close(out[WRITE_END]);
    *answerer = (struct base_answerer){.pid = pid, .to = in[WRITE_END], .from = out[READ_END]};
    if (pid > 0) return BASE_OK;
    close(in[WRITE_END]), close(out[READ_END]);
    *answerer = (struct base_answerer){.pid = 0};
    return base_fail(error, BASE_RUN, "no process can be started: %s", strerror(errno));
}

void base_answerer_end(struct base_answerer *answerer)
{
    int status;
    if (answerer->pid <= 0) return;
    kill((pid_t)answerer->pid, SIGKILL);
    close(answerer->to), close(answerer->from);
    while (waitpid((pid_t)answerer->pid, &status, 0) < 0 && errno == EINTR) continue;
    answerer->pid = 0;
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
        struct pollfd end = {.fd = answerer->from, .events = POLLIN};
        const int ready = poll(&end, 1, wait_ms);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return BASE_HEARD_NOTHING;
        /* Each answer ends with a line feed, and the next question comes only after it. */
        ssize_t got = read(answerer->from, block, sizeof block);
        if (got <= 0) return BASE_HEARD_END;
        base_put_bytes(line, block, (size_t)got);
        if (block[got - 1] == '\n') return BASE_HEARD_LINE;
    }
}
