/* Runs another program: sends it a document and reads its output. */
#define _DEFAULT_SOURCE /* sys/prctl.h needs it for its names only */
#include "base/base.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_END, WRITE_END, NOT_STARTED = 127, CODE_OF_A_SIGNAL = 128, LONGEST_LINE = 2000 };
/* In tenths of a second, after its last output or after the request to end. */
enum { TICK_NS = 100000000, TICKS_A_SECOND = 10, TICKS_TO_END = 10, TICKS_TO_KILL = 20, TICKS_TO_LEAVE = 25 };

/* Signal handlers can only reach static variables. */
static volatile sig_atomic_t running_child, child_is_deaf, child_is_patient, child_is_ready, child_is_failing,
    asked_count, child_is_to_come; /* running_child 0: none */

/* mpirun drops signals for ranks that do not exist yet, so the signal is sent again once they run. */
void base_child_is_ready(void)
{
    if (!child_is_ready && child_is_patient && asked_count == 1 && running_child > 0)
        kill((pid_t)running_child, SIGUSR1);
    child_is_ready = 1;
}

void base_child_is_to_come(void)
{
    child_is_to_come = 1;
}

void base_child_is_failing(void)
{
    child_is_failing = 1;
}

bool base_may_map(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

bool base_may_write(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

bool base_may_open(int count)
{
    struct rlimit limit;
    const rlim_t needed = (rlim_t)count;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return true;
    limit.rlim_cur = needed;
    return limit.rlim_max >= needed && setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

bool base_parent_is(const char *name)
{
    char path[64], found[64];
    snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
    FILE *file = fopen(path, "r");
    bool same = file && fgets(found, sizeof found, file) && strcspn(found, "\n") == strlen(name) &&
                !strncmp(found, name, strlen(name));
    if (file) fclose(file);
    return same;
}

static int end_signal(void)
{
    return child_is_deaf ? SIGALRM : SIGTERM; /* its default action ends the process, and nobody else sends it */
}

bool base_stop_child(void)
{
    if (running_child <= 0 && !(child_is_to_come && asked_count == 0)) return false;
    asked_count++;
    if (running_child <= 0) return true;
    kill((pid_t)running_child, asked_count == 1 && child_is_patient ? SIGUSR1
                               : asked_count > 2                    ? SIGKILL
                                                                    : end_signal());
    return true;
}

enum base_status base_find_beside(struct base_arena *arena, const char *name, const char **out,
                                  struct base_error *error)
{
    char own[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return base_fail(error, BASE_INTERNAL, "%s: not found: the path of this program is unknown: %s", name,
                         strerror(errno));
    own[length] = '\0';
    char *slash = strrchr(own, '/');
    *out = base_print(arena, "%.*s/%s", (int)(slash ? slash - own : 0), own, name);
    if (access(*out, X_OK) != 0)
        return base_fail(error, BASE_RUN, "%s: is missing or cannot be run: %s; `make` builds it", *out,
                         strerror(errno));
    return BASE_OK;
}

/* ---- pipes ---- */

struct pipes {
    int in[2], out[2], err[2], timer;
};

static void close_end(int *end)
{
    if (*end >= 0) close(*end);
    *end = -1;
}

static void close_pipes(struct pipes *p)
{
    for (int end = READ_END; end <= WRITE_END; end++) {
        close_end(&p->in[end]);
        close_end(&p->out[end]);
        close_end(&p->err[end]);
    }
    close_end(&p->timer);
}

/* Fires ten times a second; -1: not available. */
static int start_timer(void)
{
    const struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer >= 0) timerfd_settime(timer, 0, &every, NULL);
    return timer;
}

static bool open_pipes(const struct base_child *child, struct pipes *p)
{
    *p = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}, start_timer()};
    return p->timer >= 0 && pipe(p->in) == 0 && pipe(p->out) == 0 && (!child->line || pipe(p->err) == 0);
}

/* The child gets its own process group, so that terminal signals reach it only through us. It dies with us. */
static void become(const struct base_child *child, pid_t parent, struct pipes *p)
{
    union {
        const char *const *given;
        char *const *taken;
    } list = {.given = child->arguments}; /* execvp does not modify it */
    static const char shares_network[] = "@warning mpirun: listens on every network of this host, since the system "
                                         "allows no namespaces; --in-process listens on none\n";
    const bool shares = child->alone && !base_leave_network();
    sigset_t unheard;
    sigemptyset(&unheard);
    sigaddset(&unheard, SIGTERM);
    sigaddset(&unheard, SIGINT);
    sigaddset(&unheard, SIGHUP);
    if (child->deaf) sigprocmask(SIG_BLOCK, &unheard, NULL);
    setpgid(0, 0);
    /* A launcher that tidies up may wait for ever (PMIx 4.2); what it leaves, the next run removes. */
    prctl(PR_SET_PDEATHSIG, child->deaf ? SIGKILL : SIGTERM);
    if (getppid() != parent) _exit(NOT_STARTED);
    dup2(p->in[READ_END], STDIN_FILENO);
    dup2(p->out[WRITE_END], STDOUT_FILENO);
    if (child->line) dup2(p->err[WRITE_END], STDERR_FILENO);
    close_pipes(p);
    if (shares && write(STDERR_FILENO, shares_network, sizeof shares_network - 1) < 0) _exit(NOT_STARTED);
    execvp(child->program, list.taken);
    _exit(NOT_STARTED);
}

/* ---- conversation ---- */

/* The line read so far; a longer one is truncated. */
struct line {
    char text[LONGEST_LINE + 1];
    size_t length;
};

static void take_lines(const struct base_child *child, struct line *line, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != '\n') {
            if (line->length < LONGEST_LINE) line->text[line->length++] = bytes[i];
            continue;
        }
        line->text[line->length] = '\0';
        child->line(child->where, line->text);
        line->length = 0;
    }
}

static bool has_ended(ssize_t got)
{
    return got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
}

/* What a conversation waits for, in ticks. */
struct waits {
    int failing, asked, silent, pressed;
    bool has_heard;
};

/* Ends a child that does not end by itself, at last by force; its process group includes what it started. False:
 * whoever still holds its pipes has left the group, so stop waiting. */
static bool press(int *ticks)
{
    ++*ticks;
    if (*ticks == TICKS_TO_END) kill((pid_t)running_child, end_signal());
    if (*ticks == TICKS_TO_KILL) kill(-(pid_t)running_child, SIGKILL);
    return *ticks < TICKS_TO_LEAVE;
}

/* Ends a program that reported its failure but still runs. */
static bool hurry(struct waits *waits)
{
    return !child_is_failing || press(&waits->failing);
}

/* Ends a child that was asked to end and has still not started its work a second later; another second later, by
 * force. mpirun hangs if ranks die of the first signal while it still starts others. */
static bool ask_again(struct waits *waits)
{
    if (!child_is_patient || asked_count != 1 || child_is_ready) return true;
    return press(&waits->asked);
}

/* Ends a program that was silent for too long. */
static bool bear_silence(const struct base_child *child, struct waits *waits)
{
    if (!child->longest_silence_s) return true;
    if (!waits->pressed && ++waits->silent <= *child->longest_silence_s * TICKS_A_SECOND) return true;
    if (!waits->pressed && child->silent) child->silent(child->where);
    if (!waits->pressed) waits->pressed = TICKS_TO_END - 1;
    return press(&waits->pressed);
}

/* A process's blocked and pending signals: bit N - 1 is signal N. */
static uint64_t pending_signals(long process)
{
    char path[64], line[128];
    unsigned long long pending = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", process);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "ShdPnd: %llx", &pending) == 1) break;
    if (file) fclose(file);
    return pending;
}

/* A signal that was sent to a deaf child is ours: the run saves its state and ends. */
static void hear_for_child(const struct base_child *child, struct waits *waits)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    if (!child->deaf || waits->has_heard || asked_count || running_child <= 0) return;
    const uint64_t pending = pending_signals((long)running_child);
    for (int i = 0; i < BASE_COUNT(numbers) && !waits->has_heard; i++) {
        waits->has_heard = pending >> (numbers[i] - 1) & 1;
        if (waits->has_heard) raise(numbers[i]);
    }
}

static bool wait_on(const struct base_child *child, struct waits *waits)
{
    hear_for_child(child, waits);
    return hurry(waits) && ask_again(waits) && bear_silence(child, waits);
}

/* Missed ticks count once: while this program was stopped or the machine slept, the child could not talk. */
static bool take_tick(int timer)
{
    uint64_t count;
    return read(timer, &count, sizeof count) == sizeof count;
}

/* Writes and reads in turns, so that neither side blocks the other. Ends when the program has closed stdout and
 * stderr. False: it was silent for too long and was ended. */
static bool converse(const struct base_child *child, struct pipes *p)
{
    const char *text = child->text;
    size_t length = child->length;
    char block[16384];
    struct line line = {.length = 0};
    struct waits waits = {.silent = 0};
    while (p->out[READ_END] >= 0 || p->err[READ_END] >= 0) {
        struct pollfd ends[] = {{.fd = p->out[READ_END], .events = POLLIN},
                                {.fd = p->err[READ_END], .events = POLLIN},
                                {.fd = p->in[WRITE_END], .events = POLLOUT},
                                {.fd = p->timer, .events = POLLIN}};
        int ready = poll(ends, BASE_COUNT(ends), -1);
        if (ready < 0 && errno == EINTR) continue;
        if (ends[0].revents || ends[1].revents || ends[2].revents) waits.silent = 0;
        if (ready < 0 || (take_tick(p->timer) && !wait_on(child, &waits))) break;
        if (ends[0].revents) {
            ssize_t got = read(ends[0].fd, block, sizeof block);
            if (got > 0) base_put_bytes(child->answer, block, (size_t)got);
            else if (has_ended(got)) close_end(&p->out[READ_END]);
        }
        if (ends[1].revents) {
            ssize_t got = read(ends[1].fd, block, sizeof block);
            if (got > 0) take_lines(child, &line, block, (size_t)got);
            else if (has_ended(got)) close_end(&p->err[READ_END]);
        }
        if (ends[2].revents) {
            ssize_t written = length ? write(ends[2].fd, text, length) : 0;
            if (written > 0) text += written, length -= (size_t)written;
            if (length == 0 || (written < 0 && errno != EINTR && errno != EAGAIN)) close_end(&p->in[WRITE_END]);
        }
    }
    return !waits.pressed;
}

/* Who has closed its pipes is about to end. A launcher that does not is killed, with what it started. */
static int await_end(const struct base_child *child, pid_t pid)
{
    enum { SOON_MS = 100, PATIENCE_MS = 10000 };
    int status = 0, step_ms;
    for (int waited_ms = 0; child->deaf && waitpid(pid, &status, WNOHANG) == 0; waited_ms += step_ms) {
        if (waited_ms >= PATIENCE_MS) kill(-pid, SIGKILL);
        step_ms = waited_ms < SOON_MS ? 1 : SOON_MS;
        poll(NULL, 0, step_ms);
    }
    while (!child->deaf && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

static enum base_status verdict(const char *name, int status, struct base_error *error)
{
    if (WIFSIGNALED(status))
        return base_fail(error, BASE_RUN, "%s: was ended by signal %d (%s)", name, WTERMSIG(status),
                         strsignal(WTERMSIG(status)));
    int code = WEXITSTATUS(status);
    if (code == NOT_STARTED)
        return base_fail(error, BASE_RUN, "%s: is not on PATH, or cannot be run; `make deps` installs it", name);
    if (code > BASE_STOPPED) return base_fail(error, BASE_RUN, "%s: ended with the exit code %d", name, code);
    error->text[0] = '\0';
    return error->status = (enum base_status)code;
}

/* Starts the child unless this program was asked to end. Signals stay blocked until they can be forwarded. 0: not
 * started. */
static pid_t start_unless_asked(const struct base_child *child, struct pipes *p)
{
    const pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const bool is_asked = child->patient && asked_count > 0;
    const pid_t pid = is_asked ? 0 : fork();
    if (pid == 0 && !is_asked) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        become(child, parent, p);
    }
    child_is_ready = child_is_failing = 0;
    child_is_deaf = child->deaf;
    child_is_patient = child->patient;
    running_child = pid > 0 ? (sig_atomic_t)pid : 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

enum base_status base_run_child(const struct base_child *child, struct base_error *error)
{
    struct pipes p;
    int status;
    const char *slash = strrchr(child->program, '/'), *name = slash ? slash + 1 : child->program;
    if (!open_pipes(child, &p)) {
        const int problem = errno;
        close_pipes(&p);
        return base_fail(error, BASE_RUN, "%s: cannot be started: %s", name, strerror(problem));
    }
    const pid_t pid = start_unless_asked(child, &p);
    const int why = errno;
    close_end(&p.in[READ_END]);
    close_end(&p.out[WRITE_END]);
    close_end(&p.err[WRITE_END]);
    if (pid <= 0) {
        close_pipes(&p);
        return base_fail(error, BASE_RUN, "%s: cannot be started: %s", name,
                         pid ? strerror(why) : "interrupted by a signal");
    }
    const bool ended_itself = converse(child, &p);
    close_pipes(&p);
    status = await_end(child, pid);
    running_child = 0;
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - CODE_OF_A_SIGNAL;
    if (number > 0 && child->died) child->died(child->where, number);
    if (!ended_itself)
        return base_fail(error, BASE_RUN, "%s: no sign of life for %d s; it was killed", name,
                         *child->longest_silence_s);
    return verdict(name, status, error);
}

int64_t base_machine_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (int64_t)pages * page_bytes : 0;
}
