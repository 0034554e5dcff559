/* `verify`: the real XLA:TPU compiler judges a plan, without a TPU, and what it says is laid beside the prediction. The
 * compiler runs in a Python of its own (make aot-env), which is handed what `export --format aot` writes. */
#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/sim.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 256, SHOWN_ROWS = 8 };

struct judged {
    int64_t peak_bytes, argument_bytes, output_bytes, temp_bytes;
    int64_t rematerialized_count; /* instructions that the compiler made once more, or in another layout */
    bool fits;
    const char *message;
    double seconds;
    const struct base_json *collectives;
};

struct both {
    const struct sim_plan *plan;
    const struct sim_prediction *predicted;
    const struct sim_detail *detail;
    const struct judged *judged;
};

/* ---- the compiler ---- */

/* Python with jax[tpu]: what --python names, or the environment that make aot-env makes beside this program. */
static enum base_status find_python(struct commands_context *context, const struct base_arguments *arguments,
                                    const char **out, struct base_error *error)
{
    const char *given = base_argument(arguments, "--python");
    *out = given;
    if (given || base_find_beside(context->arena, "aot-env/bin/python", out, error) == BASE_OK) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "--python: a Python that has jax[tpu] is missing; `make aot-env` makes one (600 MB from PyPI), or "
                     "name yours: python3 -m venv ENV && ENV/bin/pip install 'jax[tpu]'");
}

static enum base_status read_bytes(const struct base_json *document, const char *key, int64_t *out,
                                   struct base_error *error)
{
    return base_json_int(base_json_get(document, key), key, 0, INT64_C(1) << 53, out, error);
}

static enum base_status read_judgement(struct base_arena *arena, const struct base_text *answer, struct judged *out,
                                       struct base_error *error)
{
    const struct base_json *document, *fits, *message, *seconds;
    BASE_TRY(base_json_parse(arena, answer->data, answer->length, &document, error));
    fits = base_json_get(document, "fits");
    message = base_json_get(document, "message");
    seconds = base_json_get(document, "seconds");
    out->message = message && message->kind == BASE_JSON_STRING ? message->string : "";
    out->seconds = seconds ? seconds->number : 0;
    if (!fits || (fits->kind != BASE_JSON_TRUE && fits->kind != BASE_JSON_FALSE))
        return base_fail(error, BASE_RUN, "the compiler gave no verdict: %.400s", out->message);
    out->fits = fits->kind == BASE_JSON_TRUE;
    out->collectives = base_json_get(document, "collectives");
    BASE_TRY(read_bytes(document, "peak_memory_bytes", &out->peak_bytes, error));
    BASE_TRY(read_bytes(document, "argument_bytes", &out->argument_bytes, error));
    BASE_TRY(read_bytes(document, "output_bytes", &out->output_bytes, error));
    BASE_TRY(read_bytes(document, "rematerialized", &out->rematerialized_count, error));
    return read_bytes(document, "temp_bytes", &out->temp_bytes, error);
}

static enum base_status ask_compiler(struct commands_context *context, const struct base_arguments *arguments,
                                     const struct sim_plan_text *text, const struct sim_plan *plan, struct judged *out,
                                     struct base_error *error)
{
    struct base_text program = {.arena = context->arena}, answer = {.arena = context->arena};
    const char *python, *limit = base_argument(arguments, "--time-limit");
    double limit_s = 600;
    if (limit) BASE_TRY(base_parse_double(limit, "--time-limit", 1, 1e6, &limit_s, error));
    if (reports_launch(context->arena, "aot", text, plan, &program, error) != BASE_OK)
        return commands_plan_refused(arguments, error);
    BASE_TRY(find_python(context, arguments, &python, error));
    const char *const argv[] = {python, "-", "--time-limit", base_print(context->arena, "%g", limit_s), NULL};
    struct base_child child = {
        .program = python, .arguments = argv, .text = program.data, .length = program.length, .answer = &answer};
    if (context->progress) context->progress(context->progress_where, "compiling", 0, 0);
    enum base_status status = base_run_child(&child, error);
    if (status != BASE_OK)
        return base_fail(error, BASE_RUN,
                         "%s: could not run the program that export --format aot writes; it needs jax[tpu]", python);
    return read_judgement(context->arena, &answer, out, error);
}

/* ---- what it says, beside the prediction ---- */

static const char *text_of(const struct base_json *row, const char *key)
{
    const struct base_json *value = base_json_get(row, key);
    return value && value->kind == BASE_JSON_STRING ? value->string : "";
}

static double number_of(const struct base_json *row, const char *key)
{
    const struct base_json *value = base_json_get(row, key);
    return value && value->kind == BASE_JSON_NUMBER ? value->number : 0;
}

/* Of one kind over one set of axes: how often a step has them, and the bytes of all of them. */
struct total {
    const char *kind, *axes;
    double predicted_count, predicted_bytes, compiled_count, compiled_bytes;
};

static struct total *find_total(struct total *totals, int *count, const char *kind, const char *axes)
{
    for (int i = 0; i < *count; i++)
        if (!strcmp(totals[i].kind, kind) && !strcmp(totals[i].axes, axes)) return &totals[i];
    if (*count == MOST_ROWS) return &totals[MOST_ROWS - 1];
    totals[*count] = (struct total){.kind = kind, .axes = axes};
    return &totals[(*count)++];
}

static int join_collectives(struct base_arena *arena, const struct both *b, struct total *totals)
{
    int count = 0;
    for (int i = 0; i < b->detail->collectives.count; i++) {
        const struct sim_collective_row *row = &b->detail->collectives.rows[i];
        struct total *total = find_total(totals, &count, sim_collective_name(row->kind),
                                         topo_axes_spell(arena, &b->plan->placement->axes, (unsigned)row->axes));
        total->predicted_count += (double)row->count;
        total->predicted_bytes += (double)row->count * (double)row->bytes;
    }
    const struct base_json *row = b->judged->collectives ? b->judged->collectives->child : NULL;
    for (; row; row = row->next) {
        struct total *total = find_total(totals, &count, text_of(row, "kind"), text_of(row, "mesh_axis"));
        total->compiled_count += number_of(row, "count");
        total->compiled_bytes += number_of(row, "count") * number_of(row, "bytes");
    }
    return count;
}

static void put_line(struct base_text *out, const char *what, double predicted_bytes, double compiled_bytes)
{
    char left[BASE_HUMANE], right[BASE_HUMANE];
    base_putf(out, "    %-24s %12s %12s", what, base_format_bytes(left, predicted_bytes),
              base_format_bytes(right, compiled_bytes));
    if (compiled_bytes > 0) base_putf(out, "   %+.1f %%", 100 * (predicted_bytes / compiled_bytes - 1));
    base_put(out, "\n");
}

static void put_text(struct base_arena *arena, const struct both *b, struct base_text *out)
{
    const struct sim_memory *m = &b->predicted->memory;
    const struct judged *j = b->judged;
    struct total *totals = base_new(arena, struct total, MOST_ROWS);
    int count = join_collectives(arena, b, totals);
    char left[BASE_HUMANE], right[BASE_HUMANE];
    base_putf(out, "%s on %s: the compiler %s it, in %.0f s", b->plan->model_text, b->plan->topology_text,
              j->fits ? "takes" : "refuses", j->seconds);
    base_putf(out, "%s%s\n\n    %-24s %12s %12s\n", *j->message ? ": " : "", j->message, "", "predicted", "compiled");
    put_line(out, "memory", (double)m->peak_bytes, (double)j->peak_bytes);
    put_line(out, "  arguments", (double)m->argument_bytes, (double)j->argument_bytes);
    put_line(out, "  results", (double)m->output_bytes, (double)j->output_bytes);
    base_putf(out, "    %-24s %12s %12s\n\n    collectives of a step\n", "verdict",
              b->predicted->fits ? "fits" : "does not", j->fits ? "fits" : "does not");
    for (int i = 0; i < count && i < SHOWN_ROWS; i++)
        base_putf(out, "    %-14s over %-6s %6.0f of %-10s %6.0f of %s in all\n", totals[i].kind, totals[i].axes,
                  totals[i].predicted_count, base_format_bytes(left, totals[i].predicted_bytes),
                  totals[i].compiled_count, base_format_bytes(right, totals[i].compiled_bytes));
}

static void put_json(struct base_arena *arena, const struct both *b, struct base_json_writer *w)
{
    const struct sim_memory *m = &b->predicted->memory;
    const struct judged *j = b->judged;
    struct total *totals = base_new(arena, struct total, MOST_ROWS);
    int count = join_collectives(arena, b, totals);
    base_json_open(w, '{');
    base_json_key(w, "predicted");
    base_json_open(w, '{');
    base_json_member_int(w, "peak_memory_bytes", m->peak_bytes);
    base_json_member_int(w, "argument_bytes", m->argument_bytes);
    base_json_member_int(w, "output_bytes", m->output_bytes);
    base_json_member_bool(w, "fits", b->predicted->fits);
    base_json_close(w, '}');
    base_json_key(w, "compiled");
    base_json_open(w, '{');
    base_json_member_int(w, "peak_memory_bytes", j->peak_bytes);
    base_json_member_int(w, "argument_bytes", j->argument_bytes);
    base_json_member_int(w, "output_bytes", j->output_bytes);
    base_json_member_int(w, "temp_bytes", j->temp_bytes);
    base_json_member_bool(w, "fits", j->fits);
    base_json_member_int(w, "rematerialized_count", j->rematerialized_count);
    base_json_member_string(w, "message", j->message);
    base_json_member_double(w, "seconds", j->seconds);
    base_json_close(w, '}');
    base_json_member_double(w, "error_frac", (double)m->peak_bytes / (double)j->peak_bytes - 1);
    base_json_key(w, "collectives");
    base_json_open(w, '[');
    for (int i = 0; i < count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "kind", totals[i].kind);
        base_json_member_string(w, "mesh_axis", totals[i].axes);
        base_json_member_double(w, "predicted_count", totals[i].predicted_count);
        base_json_member_double(w, "predicted_bytes", totals[i].predicted_bytes);
        base_json_member_double(w, "compiled_count", totals[i].compiled_count);
        base_json_member_double(w, "compiled_bytes", totals[i].compiled_bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
    base_json_close(w, '}');
}

static enum base_status run_verify(struct commands_context *context, const struct base_arguments *arguments,
                                   struct base_text *out, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct judged judged = {.peak_bytes = 0};
    struct sim_detail detail = {.lists_collectives = true, .arena = context->arena};
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(commands_plan_text(context, arguments, NULL, &text, error));
    text.values[SIM_MEMORY_KIND] = "compiled";
    enum base_status status =
        sim_plan_check(context->cache, context->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error);
    if (status != BASE_OK) return commands_plan_refused(arguments, error);
    BASE_TRY(sim_predict(context->cache, &plan, &prediction, &detail, error));
    BASE_TRY(ask_compiler(context, arguments, &text, &plan, &judged, error));
    const struct both both = {&plan, &prediction, &detail, &judged};
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) put_json(context->arena, &both, &writer);
    else put_text(context->arena, &both, out);
    context->answers = true;
    return judged.fits ? BASE_OK : BASE_NO_FIT;
}

static const struct base_option options[] = {
    COMMANDS_PLAN,
    {"--python", "PATH", "a Python that has jax[tpu]", "what make aot-env made"},
    {"--time-limit", "S", "for the compiler, in seconds", "600"},
    {"--profile", "FILE", "constants and compiler passes in place of the catalogue's", "the chip's own"},
    COMMANDS_COMMON,
};

const struct commands_command commands_verify = {
    .name = "verify",
    .summary = "have the real TPU compiler judge a plan, without a TPU, beside the prediction",
    .usage = "verify PLAN.json|PLAN.gin [--python PATH] [--time-limit S]",
    .examples = "  meshwright verify --help\n"
                "  meshwright verify --help --json\n",
    .options = options,
    .option_count = BASE_COUNT(options),
    .positional_limit = 1,
    .warns = true,
    .run = run_verify,
};
