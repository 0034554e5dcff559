/* `compare`: plans, or saved answers, side by side. */
#include "commands/plot_documents.h"
#include "reports/reports.h"

#include <string.h>

enum { MOST_PLANS = 8 };

/* The compared members of an answer; operations and sources are omitted. */
static void put_answer(struct base_json_writer *w, const char *name, const struct base_json *answer)
{
    static const char *const members[] = {"plan",       "mesh",         "profile",
                                          "fits",       "verdict",      "headline",
                                          "tight",      "tight_reason", "fits_probability_frac",
                                          "memory",     "time",         "throughput",
                                          "collectives"};
    base_json_open(w, '{');
    base_json_member_string(w, "name", name);
    for (int i = 0; i < BASE_COUNT(members); i++) {
        const struct base_json *member = base_json_get(answer, members[i]);
        if (!member) continue;
        base_json_member_value(w, members[i], member);
    }
    base_json_close(w, '}');
}

static double number(const struct base_json *answer, const char *object, const char *key)
{
    return base_json_number(base_json_get(answer, object), key);
}

/* Each answer relative to the first. */
static void put_differences(struct base_json_writer *w, const struct base_json *const *answers, int count)
{
    base_json_member_open(w, "differences", '[');
    for (int i = 1; i < count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_int(w, "to", i);
        base_json_member_double(w, "step_s",
                                number(answers[i], "time", "step_s") - number(answers[0], "time", "step_s"));
        base_json_member_double(w, "tokens_per_s",
                                number(answers[i], "throughput", "tokens_per_s") -
                                    number(answers[0], "throughput", "tokens_per_s"));
        base_json_member_double(
            w, "peak_bytes", number(answers[i], "memory", "peak_bytes") - number(answers[0], "memory", "peak_bytes"));
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

enum base_status commands_compare_run(struct commands_context *context, const struct base_arguments *arguments,
                                      struct base_text *out, struct base_error *error)
{
    const struct base_json *answers[MOST_PLANS], *document;
    int count = arguments->positional_count;
    struct base_text text = {.arena = context->arena};
    struct base_json_writer w = {.text = &text, .layout = context->layout};
    if (count < 2)
        return base_fail(error, BASE_USAGE, "compare: two plans or saved answers at least are needed, %d at most",
                         MOST_PLANS);
    for (int i = 0; i < count; i++)
        BASE_TRY(commands_answer_document(context, arguments->positional[i], &answers[i], error));
    base_json_open(&w, '{');
    base_json_member_open(&w, "answers", '[');
    for (int i = 0; i < count; i++) put_answer(&w, arguments->positional[i], answers[i]);
    base_json_close(&w, ']');
    put_differences(&w, answers, count);
    base_json_close(&w, '}');
    if (context->json) {
        base_put_bytes(out, text.data, text.length);
        return BASE_OK;
    }
    BASE_TRY(base_json_parse(context->arena, text.data, text.length, &document, error));
    const char *path = base_argument(arguments, "--out");
    return reports_compared(document, path && commands_ends_in(path, "md") ? REPORTS_MARKDOWN : REPORTS_TEXT, out,
                            error);
}
