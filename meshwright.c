/* meshwright: the command line. The only place that prints, exits, and looks at the terminal. */
#include "library/meshwright.h"
#include "commands/commands.h"
#include "sim/predict/predict.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* It is one write: ranks that share a stderr do not speak into each other's lines. */
static void say(const char *what)
{
    commands_say(stderr, what);
    fflush(stderr);
}

static void print_note(void *where, const char *text)
{
    (void)where;
    say(text);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double read_clock(void *where)
{
    (void)where;
    return seconds_now();
}

/* Ctrl-C ends a command that supports it with a partial result; a second one ends the process. */
static volatile sig_atomic_t stop_is_asked, somebody_asks;

static bool is_stopped(void *where)
{
    (void)where;
    somebody_asks = 1;
    return stop_is_asked;
}

/* A line on the terminal, from the second second on and ten times a second at most. */
struct progress {
    double start_s, last_s;
    bool shown;
};

static void show_progress(void *where, const struct base_progress *said)
{
    struct progress *progress = where;
    double now_s = seconds_now();
    if (now_s - progress->start_s < 1 || now_s - progress->last_s < 0.1) return;
    progress->last_s = now_s;
    progress->shown = true;
    fprintf(stderr, "\r%s: %lld", said->what, (long long)said->done);
    if (said->total > 0)
        fprintf(stderr, " of %lld (%.0f %%)", (long long)said->total, 100.0 * (double)said->done / (double)said->total);
    if (said->best_tokens_per_s > 0) fprintf(stderr, ", best %s tokens/s", base_count(said->best_tokens_per_s));
    if (said->best_tokens_per_s > 0 && said->gap_frac < 1)
        fprintf(stderr, ", at most %.1f %% below the optimum", 100 * said->gap_frac);
    fprintf(stderr, ", %.0f s\033[K", now_s - progress->start_s);
    fflush(stderr);
}

/* Whoever read has seen enough, as `| head` has: the end is the quiet one that any filter has, and nothing is left
 * behind. */
static void end_unread(void)
{
    base_output_unlink_all();
    base_stop_child();
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

static enum base_status print_bytes(const char *bytes, size_t length, struct base_error *error)
{
    bool printed = fwrite(bytes, 1, length, stdout) == length && fflush(stdout) == 0;
    if (!printed && errno == EPIPE) end_unread();
    return printed ? BASE_OK : base_fail(error, BASE_INPUT, "stdout: cannot be written: %s", strerror(errno));
}

/* A terminal gets formatted output; NO_COLOR (no-color.org) and dumb terminals are respected. */
static struct commands_terminal find_terminal(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM"), *characters = NULL;
    struct commands_terminal terminal = {.colour = !(no_colour && *no_colour) && kind && strcmp(kind, "dumb") != 0};
    for (int i = 0; i < BASE_COUNT(names) && !(characters && *characters); i++) characters = getenv(names[i]);
    terminal.blocks = characters && (strstr(characters, "UTF-8") || strstr(characters, "utf8"));
    return terminal;
}

static enum base_status print_document(const struct base_text *document, bool json, struct base_error *error)
{
    struct base_text dressed = {.arena = document->arena};
    if (json || !document->length || !isatty(STDOUT_FILENO))
        return print_bytes(document->length ? document->data : "", document->length, error);
    struct commands_terminal terminal = find_terminal();
    commands_dress(document, &terminal, &dressed);
    return print_bytes(dressed.data, dressed.length, error);
}

static enum base_status print_answer(void *where, const char *bytes, size_t length, struct base_error *error)
{
    (void)where;
    return print_bytes(bytes, length, error);
}

static bool is_global(const char *name)
{
    const struct commands_command *global = commands_group("@global");
    for (int i = 0; i < global->option_count; i++)
        if (!strcmp(global->options[i].name, name)) return true;
    return false;
}

/* Global options before any command: --help, --version, … */
static enum base_status run_global(const char *option, struct base_text *out)
{
    if (!strcmp(option, "--man")) return commands_man(MESHWRIGHT_VERSION, out), BASE_OK;
    if (!strcmp(option, "--bash-completion")) return commands_bash_completion(out), BASE_OK;
    if (!strcmp(option, "--version")) return base_put(out, "meshwright " MESHWRIGHT_VERSION "\n"), BASE_OK;
    return commands_help(out), BASE_OK;
}

static enum base_status run(int count, const char *const *arguments, struct commands_context *context,
                            struct base_text *out, struct base_error *error)
{
    static const char *const help[] = {"--help"};
    if (count < 2) return base_fail(error, BASE_USAGE, "a command is needed: `meshwright --help` lists them");
    bool asks = !strcmp(arguments[1], "help") || !strcmp(arguments[1], "-h");
    const char *name = asks ? help[0] : arguments[1];
    if (!strcmp(name, help[0]) && count == 3) return commands_execute(context, arguments[2], 1, help, out, error);
    if (!is_global(name)) return commands_execute(context, name, count - 2, arguments + 2, out, error);
    if (count > 2)
        return base_fail(error, BASE_USAGE, "\"%.60s\" is one argument too many after %s", arguments[2], name);
    return run_global(name, out);
}

static volatile sig_atomic_t stop_signal; /* the first that came while a run was on */
static struct timespec stopped_at;

/* A command that asks is told to stop, and a run to end with its step; asked again, at once. Ending a process group may
 * send the same signal twice. */
static void on_signal(int number)
{
    const double one_wish_s = 0.5;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double since_s = (double)(now.tv_sec - stopped_at.tv_sec) + 1e-9 * (double)(now.tv_nsec - stopped_at.tv_nsec);
    if ((stop_signal || stop_is_asked) && since_s < one_wish_s) return;
    stopped_at = now;
    if (number == SIGINT && somebody_asks && !stop_is_asked) {
        stop_is_asked = 1;
        base_stop_child();
        return;
    }
    stop_signal = number;
    if (base_stop_child()) return;
    base_output_unlink_all();
    _exit(128 + number);
}

/* The handler stays installed: ending a process group sends the signal twice. Signals that the parent ignores stay
 * ignored, as under nohup. */
static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    sigfillset(&action.sa_mask);
    for (int i = 0; i < BASE_COUNT(numbers); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader that left is noticed by the write, after which files are put in order */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow any more */
}

/* A closed standard stream would get the number of the next opened file, which would then receive output. An unusable
 * descriptor takes its place. */
static void hold_standard_streams(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream)
            _exit(BASE_INTERNAL);
}

static int number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : -1;
}

/* Ranks of an mpirun or srun have their number from it. Without PMIx they would not find each other, and each would be
 * a run of its own. */
static void find_launcher(struct commands_context *context)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"};
    context->has_network = getenv("OMPI_MCA_btl_tcp_if_include") != NULL;
    int tasks = number_of("SLURM_STEP_NUM_TASKS") > 1 ? number_of("SLURM_STEP_NUM_TASKS") : number_of("PMI_SIZE");
    for (int i = 0; i < BASE_COUNT(ranks) && !context->launched; i++) {
        context->launched = getenv(ranks[i]) != NULL;
        context->launched_rank = context->launched ? number_of(ranks[i]) : 0;
    }
    if (context->launched || tasks <= 1) return;
    context->launch_problem =
        base_print(context->arena,
                   "this is one of %d processes started without PMIx, which cannot find each other; start them by "
                   "`srun --mpi=pmix`, or start one alone, which starts its ranks itself",
                   tasks);
}

/* A stack that somebody made small grows again as far as that is allowed. False: not far enough. */
static bool has_stack(void)
{
    const rlim_t least_bytes = 1 << 20, enough_bytes = 8 << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= enough_bytes)
        return true;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > enough_bytes ? enough_bytes : limit.rlim_max;
    setrlimit(RLIMIT_STACK, &limit);
    return limit.rlim_cur >= least_bytes;
}

/* With --json an error is a document, too, as `batch` has it, unless the answer goes to a file; the message on stderr
 * stays. */
static void print_failure(struct base_arena *arena, int count, char **arguments, enum base_status status,
                          const char *why)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer w = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    bool asked = false;
    for (int i = 1; i < count; i++) asked = asked || !strcmp(arguments[i], "--json");
    for (int i = 1; i < count; i++)
        asked = asked && strcmp(arguments[i], "--out") != 0 && strncmp(arguments[i], "--out=", 6) != 0;
    if (!asked) return;
    base_json_open(&w, '{');
    base_json_member_int(&w, "exit", status);
    base_json_member_string(&w, "error", why);
    base_json_close(&w, '}');
    fputs(text.data, stdout);
}

int main(int argument_count, char **argument_values)
{
    static struct base_error error;
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    struct progress progress = {.start_s = seconds_now()};
    static char said[BUFSIZ];
    base_heap_begin();
    hold_standard_streams();
    setvbuf(stderr, said, _IOFBF, sizeof said);
    if (!has_stack()) return say("the stack is limited to less than 1 MiB; `ulimit -s 8192` raises it"), BASE_INTERNAL;
    catch_signals();
    if (setjmp(exhausted)) {
        base_output_abandon_all();
        say("out of memory");
        return BASE_INTERNAL;
    }
    struct commands_context context = {.arena = &arena,
                                       .cache = sim_cache_new(&arena),
                                       .answer = print_answer,
                                       .note = print_note,
                                       .now_s = read_clock,
                                       .stop = is_stopped};
    if (isatty(STDERR_FILENO)) {
        context.progress = show_progress;
        context.progress_where = &progress;
    }
    find_launcher(&context);
    context.stop_signal = &stop_signal;
    struct base_text out = {.arena = &arena};
    enum base_status status = run(argument_count, (const char *const *)argument_values, &context, &out, &error);
    if (progress.shown) fputs("\r\033[K", stderr), fflush(stderr);
    base_output_abandon_all();
    /* Rank 0 speaks; but a rank that failed by itself may be the only one that is left to say why. */
    if (context.silent) out.length = 0;
    if (context.silent && status != BASE_RUN) *error.text = '\0';
    if (status == BASE_OK || status == BASE_NO_FIT || context.answers) {
        enum base_status printed = print_document(&out, context.json, &error);
        if (printed != BASE_OK) status = printed;
    }
    bool fails = status != BASE_OK && status != BASE_NO_FIT && status != BASE_STOPPED;
    if (fails && *error.text) {
        if (!context.answers) print_failure(&arena, argument_count, argument_values, status, error.text);
        say(error.text);
    }
    if (status == BASE_RUN && stop_signal) status = (enum base_status)(128 + stop_signal);
    sim_cache_free(context.cache);
    base_arena_free(&arena);
    return (int)status;
}
