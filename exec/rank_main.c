/* meshwright-rank: the executor as a separate program, so that only it loads OpenBLAS and MPI, not every prediction.
 * It reads a request on stdin and prints the result or the error on stdout, with the status as exit code.
 * `meshwright run` starts it and reports its messages. With `--ranks PATIENCE_S` it is one of the ranks started by
 * mpirun or srun: rank 0 reads and prints, the others receive. `--hosts`: no folder of the run was made for this host.
 */
#define _XOPEN_SOURCE 700 /* sigaltstack */
#include "exec/comm.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST_REQUEST_BYTES = 1 << 22, LONGEST_PATIENCE_S = 86400, ONE_WISH_S = 2, SIGNAL_STACK_BYTES = 1 << 16 };

static struct exec_transport ranks;
static bool has_ranks;

static enum base_status print_text(const char *bytes, size_t length, enum base_status status)
{
    fwrite(bytes, 1, length, stdout);
    return fflush(stdout) == 0 && !ferror(stdout) ? status : BASE_RUN;
}

static volatile sig_atomic_t stop, is_ready;

/* Tells the launcher the reason, since mpirun reports an exit code at most. */
static void say_stopped(int number)
{
    char word[] = "@stopped 00\n";
    word[sizeof "@stopped " - 1] = (char)('0' + number / 10);
    word[sizeof "@stopped "] = (char)('0' + number % 10);
    if (write(STDERR_FILENO, word, sizeof word - 1) < 0) return; /* nobody listens */
}

/* The first signal asks the run to end after its step, or at once if no step has started. Only this rank knows the
 * latter for certain, because its messages take time. A later signal ends it at once. One request may arrive in
 * several ways: a scheduler sends SIGTERM to all processes of a job, and some of them forward it as SIGUSR1. */
static void on_signal(int number)
{
    static struct timespec asked_at;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!stop) asked_at = now;
    if (!is_ready || (number != SIGUSR1 && now.tv_sec - asked_at.tv_sec > ONE_WISH_S)) {
        if (!is_ready) say_stopped(number);
        base_output_unlink_all();
        _exit(128 + number);
    }
    stop = number;
}

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

static void hold_signals(int how)
{
    sigset_t held;
    sigemptyset(&held);
    for (int i = 0; i < BASE_COUNT(stop_signals); i++) sigaddset(&held, stop_signals[i]);
    sigprocmask(how, &held, NULL);
}

/* Signals wait until the ranks have met: mpirun 4.1 may crash or hang if a rank ends while it still starts others. So
 * the executor holds them before its libraries are initialised, which takes 10 ms; mpirun lets no mask through. */
static void hold_early(void)
{
    hold_signals(SIG_BLOCK);
}
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(void) = hold_early;

/* Signal handlers have their own stack: products of oneDNN before 3.12 keep a heap address in the stack pointer
 * (uxlfoundation/oneDNN issue 4845), and the kernel would write the signal frame below it. Other threads block
 * signals. */
static enum base_status catch_signals(struct base_error *error)
{
    static char stack[SIGNAL_STACK_BYTES];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK}, before;
    if (sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) != 0)
        return base_fail(error, BASE_RUN, "signals can have no stack of %d bytes: %s", SIGNAL_STACK_BYTES,
                         strerror(errno));
    sigfillset(&action.sa_mask);
    for (int i = 0; i < BASE_COUNT(stop_signals); i++) {
        const int number = stop_signals[i];
        const bool stays_ignored = /* as with nohup */
            number == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!stays_ignored) sigaction(number, &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    return BASE_OK;
}

static void begin_steps(void)
{
    is_ready = 1;
}

/* `meshwright run` reads these lines on stderr. */
static void say_progress(const struct exec_progress *p)
{
    fprintf(stderr, "@step %lld %lld %.9g %.9g %.9g\n", (long long)p->done, (long long)p->steps, p->loss,
            p->tokens_per_s, p->left_s);
    fflush(stderr);
}

static void say_warning(const char *text)
{
    fprintf(stderr, "@warning rank %d: %s\n", ranks.rank, text);
    fflush(stderr);
}

/* The last message of a rank. */
static void say_failed(const char *text)
{
    fprintf(stderr, "@failed %s\n", text);
    fflush(stderr);
}

static int end_exhausted(void)
{
    static char text[160];
    static const char message[] = "out of memory: this machine has less than the plan's devices need in total";
    base_output_abandon_all();
    if (!has_ranks) return (int)print_text(message, sizeof message - 1, BASE_RUN);
    snprintf(text, sizeof text, "rank %d: %s", ranks.rank, message);
    say_failed(text);
    exec_comm_abort(BASE_RUN);
    return BASE_RUN;
}

static enum base_status answer(struct base_arena *arena, struct base_text *out, struct base_error *error)
{
    const char *text = "";
    size_t length = 0;
    enum base_status status = BASE_OK;
    if (ranks.rank == 0) status = base_read_file(arena, "/dev/stdin", LARGEST_REQUEST_BYTES, &text, &length, error);
    struct exec_request way = {.transport = has_ranks ? &ranks : NULL,
                               .stop = &stop,
                               .warn = say_warning,
                               .ready = begin_steps,
                               .progress = say_progress};
    return exec_answer(arena, &way, text, status == BASE_OK ? length : 0, out, error);
}

enum leaks { LEAKS_COUNT, LEAKS_IGNORED };

/* Open MPI keeps data from its start and unloads libraries with it, which no suppression then matches. So the leak
 * sanitizer ignores allocations during the start, and checks for leaks before the end. */
#ifdef __SANITIZE_ADDRESS__
void __lsan_disable(void);
void __lsan_enable(void);
void __lsan_do_leak_check(void);
static void ignore_leaks(enum leaks leaks)
{
    (leaks == LEAKS_IGNORED ? __lsan_disable : __lsan_enable)();
}
static void look_for_leaks(void)
{
    __lsan_do_leak_check();
}
#else
static void ignore_leaks(enum leaks leaks)
{
    (void)leaks;
}
static void look_for_leaks(void)
{
}
#endif

/* Whoever is killed leaves the memory that its ranks share in this folder, where the next run finds it. */
static const char *open_folder(struct base_arena *arena, struct base_lock *lock)
{
    const char *folder = exec_run_folder_open(arena, (long)getppid(), lock);
    if (folder && setenv("OMPI_MCA_btl_vader_backing_directory", folder, 0) != 0) return NULL;
    return folder;
}

/* These lines tell the launcher how far the start came if it hangs. */
static enum base_status join_ranks(int patience_s, struct base_error *error)
{
    fputs("@here\n", stderr);
    ignore_leaks(LEAKS_IGNORED);
    enum base_status status = exec_comm_begin(&ranks, patience_s, say_failed, say_warning, error);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error from now on; earlier, Open MPI would hang */
    ignore_leaks(LEAKS_COUNT);
    if (status == BASE_OK) fputs("@joined\n", stderr);
    return status;
}

static const char help[] =
    "meshwright-rank: the executor. `meshwright run` and `meshwright infer` start it and speak for it.\n\n"
    "  meshwright-rank                    reads a request (JSON) on stdin, runs all devices in this process\n"
    "  meshwright-rank --ranks PATIENCE   is one of the ranks that mpirun or srun started; rank 0 reads the\n"
    "                                     request; a rank that is silent for PATIENCE seconds ends the run\n"
    "  meshwright-rank --help             this text\n\n"
    "A plan is run by `meshwright run PLAN.json --steps K`, over hosts with --hostfile FILE.\n";

/* Help for a user who starts it by hand; -1: it was started to run. */
static int talk(int argument_count, char **arguments)
{
    bool asked = argument_count == 2 && (!strcmp(arguments[1], "--help") || !strcmp(arguments[1], "-h"));
    if (asked) return (int)print_text(help, sizeof help - 1, BASE_OK);
    if (argument_count == 1 && !isatty(STDIN_FILENO)) return -1;
    if (argument_count >= 3 && !strcmp(arguments[1], "--ranks")) return -1;
    fputs(help, stderr);
    return BASE_USAGE;
}

int main(int argument_count, char **arguments)
{
    static struct base_error error;
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    int64_t patience_s = 0;
    int said = talk(argument_count, arguments);
    if (said >= 0) return said;
    if (catch_signals(&error) != BASE_OK) return say_failed(error.text), BASE_RUN;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* even while it waits in the kernel: its parent is gone */
    has_ranks = argument_count >= 3 && !strcmp(arguments[1], "--ranks") &&
                base_parse_int(arguments[2], "--ranks", 1, LONGEST_PATIENCE_S, &patience_s, &error) == BASE_OK;
    if (setjmp(exhausted)) return end_exhausted();
    struct base_lock lock;
    const char *folder = has_ranks && argument_count == 4 ? open_folder(&arena, &lock) : NULL;
    if (has_ranks && join_ranks((int)patience_s, &error) != BASE_OK) return say_failed(error.text), BASE_RUN;
    hold_signals(SIG_UNBLOCK);
    struct base_text out = {.arena = &arena};
    enum base_status status = answer(&arena, &out, &error);
    base_output_abandon_all();
    if (ranks.rank == 0)
        status = out.length ? print_text(out.data, out.length, status)
                            : print_text(error.text, strnlen(error.text, sizeof error.text), status);
    look_for_leaks();
    if (has_ranks) exec_comm_end();
    exec_run_folder_close(&arena, folder, &lock);
    base_arena_free(&arena);
    return (int)status;
}
