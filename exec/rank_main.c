/* meshwright-rank: the executor as a program of its own, so that OpenBLAS and MPI load here and not in every prediction.
 * It reads a request on stdin and prints the result, or what went wrong, on stdout; the exit code says which. `meshwright
 * run` starts it and speaks for it. With --ranks it is one of the ranks that mpirun or srun started: rank 0 reads and
 * prints, the others are told. */
#include "exec/comm.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST_REQUEST_BYTES = 1 << 22 };

static struct exec_transport ranks;
static bool has_ranks;

static enum base_status print_text(const char *bytes, size_t length, enum base_status status)
{
    fwrite(bytes, 1, length, stdout);
    return fflush(stdout) == 0 && !ferror(stdout) ? status : BASE_RUN;
}

static void on_signal(int number)
{
    base_output_unlink_all();
    _exit(128 + number);
}

static void say(const char *text)
{
    fprintf(stderr, "meshwright-rank %d: %s\n", ranks.rank, text);
    fflush(stderr);
}

static int end_exhausted(void)
{
    static const char message[] = "out of memory: this machine has less than the devices of the plan need together";
    base_output_abandon_all();
    if (!has_ranks) return (int)print_text(message, sizeof message - 1, BASE_RUN);
    say(message);
    exec_comm_abort(BASE_RUN);
    return BASE_RUN;
}

static enum base_status answer(struct base_arena *arena, struct base_text *out, struct base_error *error)
{
    const char *text = "";
    size_t length = 0;
    enum base_status status = BASE_OK;
    if (ranks.rank == 0) status = base_read_file(arena, "/dev/stdin", LARGEST_REQUEST_BYTES, &text, &length, error);
    return exec_answer(arena, has_ranks ? &ranks : NULL, text, status == BASE_OK ? length : 0, out, error);
}

int main(int argument_count, char **arguments)
{
    static struct base_error error;
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    has_ranks = argument_count == 2 && !strcmp(arguments[1], "--ranks");
    if (has_ranks && exec_comm_begin(&ranks, say, &error) != BASE_OK) return say(error.text), BASE_RUN;
    if (setjmp(exhausted)) return end_exhausted();
    struct base_text out = {.arena = &arena};
    enum base_status status = answer(&arena, &out, &error);
    base_output_abandon_all();
    if (ranks.rank == 0) status = status == BASE_OK ? print_text(out.data, out.length, status) : print_text(error.text, strnlen(error.text, sizeof error.text), status);
    base_arena_free(&arena);
    if (has_ranks) exec_comm_end();
    return (int)status;
}
