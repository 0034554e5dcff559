/* Starts a program that stands beside this one, hands it a document and takes back what it prints. */
#include "base/base.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { READ_END, WRITE_END };

static volatile sig_atomic_t running_child; /* 0: none; a signal handler has no other way to it */

void base_end_child(void)
{
    if (running_child > 0) kill((pid_t)running_child, SIGTERM);
}

static void close_pair(const int *ends)
{
    close(ends[READ_END]);
    close(ends[WRITE_END]);
}

/* Path of a program in the folder of the one that is running. */
static enum base_status find_beside(struct base_arena *arena, const char *name, const char **out, struct base_error *error)
{
    char own[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0) return base_fail(error, BASE_INTERNAL, "%s: cannot be found: where this program stands is not known: %s", name, strerror(errno));
    own[length] = '\0';
    char *slash = strrchr(own, '/');
    *out = base_print(arena, "%.*s/%s", (int)(slash ? slash - own : 0), own, name);
    if (access(*out, X_OK) != 0) return base_fail(error, BASE_RUN, "%s: is not there or cannot be run: %s; `make` builds it", *out, strerror(errno));
    return BASE_OK;
}

static void become(const char *path, const char *const *arguments, const int *in, const int *out)
{
    union { const char *const *given; char *const *taken; } list = {.given = arguments}; /* execve does not write there */
    dup2(in[READ_END], STDIN_FILENO);
    dup2(out[WRITE_END], STDOUT_FILENO);
    close_pair(in);
    close_pair(out);
    execve(path, list.taken, environ);
    _exit(127);
}

/* Writes and reads by turns, so that neither side waits for the other for ever. */
static void converse(int to, int from, const char *text, size_t length, struct base_text *answer)
{
    struct pollfd ends[2] = {{.fd = from, .events = POLLIN}, {.fd = to, .events = POLLOUT}};
    char block[16384];
    for (bool reading = true; reading;) {
        if (poll(ends, 2, -1) < 0 && errno != EINTR) return;
        if (ends[1].fd >= 0 && ends[1].revents) {
            ssize_t written = length ? write(to, text, length) : 0;
            if (written > 0) text += written, length -= (size_t)written;
            if (length == 0 || (written < 0 && errno != EINTR && errno != EAGAIN)) {
                close(to);
                ends[1].fd = -1;
            }
        }
        if (!(ends[0].revents & (POLLIN | POLLHUP | POLLERR))) continue;
        ssize_t got = read(from, block, sizeof block);
        if (got > 0) base_put_bytes(answer, block, (size_t)got);
        reading = got > 0 || (got < 0 && errno == EINTR);
    }
    if (ends[1].fd >= 0) close(to);
}

static enum base_status verdict(const char *name, int status, struct base_error *error)
{
    if (WIFSIGNALED(status)) return base_fail(error, BASE_RUN, "%s: was ended by signal %d (%s)", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    int code = WEXITSTATUS(status);
    if (code > BASE_RUN) return base_fail(error, BASE_RUN, "%s: ended with the exit code %d", name, code);
    error->text[0] = '\0';
    return error->status = (enum base_status)code;
}

enum base_status base_run_beside(struct base_arena *arena, const char *name, const char *const *arguments, const char *text, size_t length, struct base_text *answer,
                                 struct base_error *error)
{
    const char *path;
    int in[2], out[2], status = 0;
    BASE_TRY(find_beside(arena, name, &path, error));
    if (pipe(in) != 0) return base_fail(error, BASE_RUN, "%s: cannot be started: %s", name, strerror(errno));
    if (pipe(out) != 0) {
        close_pair(in);
        return base_fail(error, BASE_RUN, "%s: cannot be started: %s", name, strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) become(path, arguments, in, out);
    close(in[READ_END]);
    close(out[WRITE_END]);
    if (child < 0) {
        close(in[WRITE_END]);
        close(out[READ_END]);
        return base_fail(error, BASE_RUN, "%s: cannot be started: %s", name, strerror(errno));
    }
    running_child = (sig_atomic_t)child;
    converse(in[WRITE_END], out[READ_END], text, length, answer);
    close(out[READ_END]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    running_child = 0;
    return verdict(name, status, error);
}
