/* `serve`: the page that asks this program, on this machine alone. */
#include "commands/served_plan.h"
#include "serve/serve.h"

#include <string.h>

struct serving {
    struct commands_context *context;
    bool opens;
};

static bool is_over(void *where)
{
    const struct serving *serving = where;
    return serving->context->stop && serving->context->stop(serving->context->clock_where);
}

static double clock_s(void *where)
{
    const struct serving *serving = where;
    return serving->context->now_s(serving->context->clock_where);
}

/* The address is printed at once: whoever waits for it reads it from the first line. */
static void tell_address(void *where, const char *address)
{
    /* Where it starts the first browser, xdg-open lasts as long as that does. */
    static const char beside[] =
        "{ xdg-open \"$0\" 3>&- || echo 'meshwright: --open: xdg-open opens no browser here' >&3; }"
        " 3>&2 </dev/null >/dev/null 2>&1 &";
    const struct serving *serving = where;
    struct base_text line = {.arena = serving->context->arena}, silence = {.arena = serving->context->arena};
    struct base_error ignored;
    base_putf(&line, "%s\n", address);
    serving->context->answer(serving->context->answer_where, line.data, line.length, &ignored);
    const char *const command[] = {"sh", "-c", beside, address, NULL};
    const struct base_child browser = {.program = command[0], .arguments = command, .answer = &silence};
    if (serving->opens) (void)base_run_child(&browser, &ignored);
}

enum base_status commands_serve_run(struct commands_context *context, const struct base_arguments *arguments,
                                    struct base_text *out, struct base_error *error)
{
    static const char *const answerer[] = {"meshwright", "batch", "--sealed", NULL};
    enum { LARGEST_PORT = 65535 };
    struct serving serving = {context, base_argument(arguments, "--open") != NULL};
    struct base_text page = {.arena = context->arena};
    int64_t port = 0;
    (void)out;
    if (!context->answer || context->answer_where)
        return base_fail(error, BASE_USAGE, "serve: cannot be part of a batch; use the command line");
    BASE_TRY(commands_option_int(arguments, "--port", 0, LARGEST_PORT, &port, error));
    if (is_over(&serving)) return BASE_OK; /* from here on, Ctrl-C ends it as it should */
    BASE_TRY(commands_put_served_page(context, arguments, &page, error));
    const struct serve_settings settings = {.port = (int)port,
                                            .page = page.data,
                                            .answerer = answerer,
                                            .stop = is_over,
                                            .now_s = clock_s,
                                            .begun = tell_address,
                                            .where = &serving};
    return serve_run(context->arena, &settings, error);
}
