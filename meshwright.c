/* meshwright: the command line. The only place that prints, exits, and looks at the terminal. */
#include "commands/commands.h"
#include "sim/sim.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef MESHWRIGHT_VERSION
#define MESHWRIGHT_VERSION "0.1.0"
#endif

static void say(const char *what)
{
    fprintf(stderr, "meshwright: %s\n", what);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A line on the terminal, from the second second on and ten times a second at most. */
struct progress { double start_s, last_s; bool shown; };

static void show_progress(void *where, const char *what, int64_t done, int64_t total)
{
    struct progress *progress = where;
    double now_s = seconds_now();
    if (now_s - progress->start_s < 1 || now_s - progress->last_s < 0.1) return;
    progress->last_s = now_s;
    progress->shown = true;
    if (total > 0) fprintf(stderr, "\r%s: %lld of %lld (%.0f %%)  ", what, (long long)done, (long long)total, 100.0 * (double)done / (double)total);
    else fprintf(stderr, "\r%s: %lld  ", what, (long long)done);
}

static enum base_status print_document(const struct base_text *out, struct base_error *error)
{
    if (out->length) fwrite(out->data, 1, out->length, stdout);
    if (fflush(stdout) != 0 || ferror(stdout)) return base_fail(error, BASE_INPUT, "stdout: cannot be written");
    return BASE_OK;
}

static enum base_status print_answer(void *where, const char *bytes, size_t length, struct base_error *error)
{
    (void)where;
    fwrite(bytes, 1, length, stdout);
    if (fflush(stdout) != 0 || ferror(stdout)) return base_fail(error, BASE_INPUT, "stdout: cannot be written");
    return BASE_OK;
}

static enum base_status run(int count, const char *const *arguments, struct commands_context *context, struct base_text *out, struct base_error *error)
{
    if (count < 2) return base_fail(error, BASE_USAGE, "a command is needed: `meshwright --help` lists them");
    if (!strcmp(arguments[1], "--help") || !strcmp(arguments[1], "help")) return commands_help(out), BASE_OK;
    if (!strcmp(arguments[1], "--man")) return commands_man(MESHWRIGHT_VERSION, out), BASE_OK;
    if (!strcmp(arguments[1], "--bash-completion")) return commands_bash_completion(out, error);
    if (!strcmp(arguments[1], "--version")) return base_put(out, "meshwright " MESHWRIGHT_VERSION "\n"), BASE_OK;
    return commands_execute(context, arguments[1], count - 2, arguments + 2, out, error);
}

static void on_signal(int number)
{
    base_output_unlink_all();
    _exit(128 + number);
}

int main(int argument_count, char **argument_values)
{
    static struct base_error error;
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    struct progress progress = {.start_s = seconds_now()};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (setjmp(exhausted)) {
        base_output_abandon_all();
        say("out of memory");
        return BASE_INTERNAL;
    }
    struct commands_context context = {.arena = &arena, .cache = sim_cache_new(&arena), .answer = print_answer};
    if (isatty(STDERR_FILENO)) {
        context.progress = show_progress;
        context.progress_where = &progress;
    }
    struct base_text out = {.arena = &arena};
    enum base_status status = run(argument_count, (const char *const *)argument_values, &context, &out, &error);
    if (progress.shown) fputs("\r\033[K", stderr);
    base_output_abandon_all();
    if (status == BASE_OK || status == BASE_NO_FIT) {
        enum base_status printed = print_document(&out, &error);
        if (printed != BASE_OK) status = printed;
    }
    if (status != BASE_OK && status != BASE_NO_FIT) say(error.text);
    sim_cache_free(context.cache);
    base_arena_free(&arena);
    return (int)status;
}
