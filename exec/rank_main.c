/* meshwright-rank: the executor as a program of its own, so that OpenBLAS loads here and not in every prediction. It reads
 * a request on stdin and prints the result, or what went wrong, on stdout; the exit code says which. `meshwright run`
 * starts it and speaks for it. */
#include "exec/exec.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST_REQUEST_BYTES = 1 << 22 };

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

int main(void)
{
    static struct base_error error;
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    const char *text;
    size_t length;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (setjmp(exhausted)) {
        static const char message[] = "out of memory: this machine has less than the devices of the plan need together";
        base_output_abandon_all();
        return (int)print_text(message, sizeof message - 1, BASE_RUN);
    }
    struct base_text out = {.arena = &arena};
    enum base_status status = base_read_file(&arena, "/dev/stdin", LARGEST_REQUEST_BYTES, &text, &length, &error);
    if (status == BASE_OK) status = exec_answer(&arena, text, length, &out, &error);
    base_output_abandon_all();
    status = status == BASE_OK ? print_text(out.data, out.length, status) : print_text(error.text, strnlen(error.text, sizeof error.text), status);
    base_arena_free(&arena);
    return (int)status;
}
