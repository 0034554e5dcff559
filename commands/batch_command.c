/* `batch`: many questions through one process. A line in, a line out, in order. */
#include "commands/commands.h"

#include <errno.h>
#include <string.h>

enum { LONGEST_QUESTION_BYTES = 1 << 20, MOST_ARGUMENTS = 256 };
#define MOST_SEALED_BYTES (INT64_C(6) << 30)

/* Reads one line without its end. false at the end of the input. */
static bool read_line(struct base_text *line, bool *too_long)
{
    bool any = false;
    *too_long = false;
    for (int byte; (byte = getc_unlocked(stdin)) != EOF;) {
        any = true;
        if (byte == '\n') break;
        char c = (char)byte;
        if (line->length < LONGEST_QUESTION_BYTES) base_put_bytes(line, &c, 1);
        else *too_long = true;
    }
    return any;
}

struct question {
    const char *const *words;
    int count;
};

static enum base_status read_question(struct base_arena *arena, const char *line, size_t length, struct question *out,
                                      struct base_error *error)
{
    const struct base_json *list;
    BASE_TRY(base_json_parse(arena, line, length, &list, error));
    if (list->kind != BASE_JSON_ARRAY || list->count == 0 || list->count > MOST_ARGUMENTS)
        return base_fail(error, BASE_USAGE,
                         "a question is a JSON list of 1 to %d strings, as in [\"mesh\",\"--topology\",\"v4-8\"]",
                         MOST_ARGUMENTS);
    const char **strings = base_new(arena, const char *, list->count);
    int i = 0;
    for (const struct base_json *item = list->child; item; item = item->next) {
        if (item->kind != BASE_JSON_STRING)
            return base_fail(error, BASE_USAGE, "argument %d is %s; every argument is a string", i,
                             base_json_kind_name(item->kind));
        strings[i++] = item->string;
    }
    *out = (struct question){strings, i};
    return BASE_OK;
}

/* A document that is not JSON (help, a drawing's report) is carried as a string. */
static void put_answer(struct base_text *answer, enum base_status status, struct base_text *document,
                       const struct base_error *error, struct base_arena *arena)
{
    struct base_json_writer writer = {.text = answer, .layout = BASE_JSON_ONE_LINE};
    base_json_open(&writer, '{');
    base_json_member_int(&writer, "exit", status);
    if (status != BASE_OK && status != BASE_NO_FIT) {
        base_json_member_string(&writer, "error", error->text);
        base_json_close(&writer, '}');
        return;
    }
    base_json_key(&writer, "result");
    while (document->length && document->data[document->length - 1] == '\n') document->data[--document->length] = '\0';
    const bool is_json = document->length && strchr("{[", *document->data);
    /* An answer is one line. In a document a line's end stands between tokens alone. */
    for (size_t i = 0; is_json && i < document->length; i++)
        if (document->data[i] == '\n') document->data[i] = ' ';
    const char *text = document->length ? document->data : "null";
    if (is_json || !strcmp(text, "null")) base_put(answer, text);
    else base_json_put_string(&writer, base_copy(arena, text));
    writer.after_key = false;
    base_json_close(&writer, '}');
}

/* ---- answers to a page ---- */

/* A page may ask only for answers, and read no file. The sandbox enforces it, too (base_seal); this gives the message.
 */
static enum base_status refuse_beyond_page(int count, const char *const *words, bool holds, struct base_error *error)
{
    static const char *const commands[] = {"predict",    "tune",   "mesh",   "topology",
                                           "topologies", "models", "export", "collective"};
    bool known = holds && !strcmp(words[0], "import");
    for (int i = 0; i < BASE_COUNT(commands); i++) known = known || !strcmp(words[0], commands[i]);
    if (!known) return base_fail(error, BASE_USAGE, "a page does not ask %.40s; the command line does", words[0]);
    for (int i = 1; i < count; i++)
        if (*words[i] == '@' || strstr(words[i], "=@"))
            return base_fail(error, BASE_USAGE, "a page names no file, as \"%.60s\" does", words[i]);
    return BASE_OK;
}

/* ["held", NAME, TEXT, COMMAND, …]: a file that was dropped on the page, which the command reads under that name.
 * Returns how many words are before the command. */
static int take_held(struct base_arena *arena, int count, const char *const *words, struct base_held *held)
{
    enum { WORDS = 3 };
    if (count <= WORDS || strcmp(words[0], "held") != 0) return 0;
    *held = (struct base_held){words[1], words[2], strlen(words[2])};
    if (!*held->name || strpbrk(held->name, "/=@") || strchr("-.", *held->name)) return 0;
    arena->held = held;
    return WORDS;
}

/* A search's progress, on lines before its answer, at most ten per second. */
struct told {
    struct commands_context *outer;
    double last_s;
};

static void tell_progress(void *where, const struct base_progress *progress)
{
    struct told *told = where;
    const struct commands_context *outer = told->outer;
    const double now_s = outer->now_s ? outer->now_s(outer->clock_where) : 0;
    char line[240];
    struct base_error ignored;
    if (now_s - told->last_s < 0.1) return;
    told->last_s = now_s;
    snprintf(line, sizeof line,
             "{\"progress\":\"%.60s\",\"done\":%lld,\"total\":%lld,\"best_tokens_per_s\":%.9g,\"gap_frac\":%.4g}\n",
             progress->what, (long long)progress->done, (long long)progress->total, progress->best_tokens_per_s,
             progress->gap_frac);
    outer->answer(outer->answer_where, line, strlen(line), &ignored);
}

/* ---- answers ---- */

static enum base_status answer_words(struct commands_context *outer, struct base_arena *arena, int count,
                                     const char *const *words, struct base_text *document, struct base_error *error)
{
    struct told told = {.outer = outer};
    struct commands_context context = {.arena = arena,
                                       .cache = outer->cache,
                                       .json = true,
                                       .layout = BASE_JSON_ONE_LINE,
                                       .now_s = outer->now_s,
                                       .clock_where = outer->clock_where,
                                       .progress = outer->tells ? tell_progress : NULL,
                                       .progress_where = &told};
    struct base_held held;
    const int before = outer->sealed ? take_held(arena, count, words, &held) : 0;
    count -= before, words += before;
    if (count < 1)
        return base_fail(error, BASE_USAGE, "a question has a command, as in [\"mesh\",\"--topology\",\"v4-8\"]");
    if (!strcmp(words[0], "batch")) return base_fail(error, BASE_USAGE, "batch does not answer batch");
    if (outer->sealed) BASE_TRY(refuse_beyond_page(count, words, before > 0, error));
    const enum base_status status = commands_execute(&context, words[0], count - 1, words + 1, document, error);
    arena->held = NULL;
    return status;
}

static enum base_status answer_asked(struct commands_context *outer, struct base_arena *arena, int count,
                                     const char *const *words, struct base_text *out)
{
    struct base_error error = {0};
    struct base_text document = {.arena = arena};
    enum base_status status = answer_words(outer, arena, count, words, &document, &error);
    put_answer(out, status, &document, &error, arena);
    return status;
}

enum base_status commands_answer(struct sim_cache *cache, struct base_arena *arena, int count, const char *const *words,
                                 struct base_text *out)
{
    return answer_asked(&(struct commands_context){.cache = cache}, arena, count, words, out);
}

/* ---- a question in the copy of this process that answers it ---- */

static void answer_question(struct commands_context *outer, struct base_arena *arena, const char *line, size_t length,
                            struct base_text *out)
{
    struct base_error error = {0};
    struct base_text answer = {.arena = arena};
    struct question question;
    if (read_question(arena, line, length, &question, &error) == BASE_OK)
        answer_asked(outer, arena, question.count, question.words, &answer);
    else put_answer(&answer, error.status, &(struct base_text){.arena = arena}, &error, arena);
    base_put_bytes(out, answer.data, answer.length);
}

/* A question that memory does not suffice for is answered, too. */
static void answer_line(void *where, const char *line, size_t length, struct base_text *out)
{
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    if (setjmp(exhausted)) {
        base_output_abandon_all();
        base_put(out, "{\"exit\":1,\"error\":\"out of memory\"}\n");
    } else {
        answer_question(where, &arena, line, length, out);
    }
    base_arena_free(&arena);
}

/* ---- the questions, one after the other ---- */

/* The answer with the number of its question: {"question":1,"exit":0,…. */
static void put_numbered(int64_t number, const struct base_text *answer, struct base_text *out)
{
    base_putf(out, "{\"question\":%lld,%s", (long long)number, answer->data + 1);
}

static void ask(struct base_worker *worker, int64_t number, const struct base_text *line, bool too_long,
                struct base_text *out)
{
    struct base_error error = {0};
    struct base_text answer = {.arena = out->arena};
    enum base_status status = too_long ? base_fail(&error, BASE_USAGE, "a question is at most 1 MiB long")
                                       : base_worker_ask(worker, line->data, line->length, &answer, &error);
    if (status != BASE_OK) {
        answer = (struct base_text){.arena = out->arena};
        put_answer(&answer, status, &(struct base_text){.arena = out->arena}, &error, out->arena);
    }
    put_numbered(number, &answer, out);
}

/* Answers go out at once: the asker may be waiting for one before it asks the next. */
static enum base_status answer_all(struct commands_context *context, struct base_arena *arena,
                                   struct base_worker *worker, struct base_error *error)
{
    for (int64_t number = 1;;) {
        struct base_text line = {.arena = arena}, answer = {.arena = arena};
        bool too_long;
        if (!read_line(&line, &too_long)) break;
        if (line.length && context->tells) {
            answer_line(context, line.data, line.length, &answer);
            BASE_TRY(context->answer(context->answer_where, answer.data, answer.length, error));
        } else if (line.length) {
            ask(worker, number++, &line, too_long, &answer);
            BASE_TRY(context->answer(context->answer_where, answer.data, answer.length, error));
        }
        base_arena_reset(arena);
    }
    return ferror(stdin) ? base_fail(error, BASE_INPUT, "stdin: cannot be read: %s", strerror(errno)) : BASE_OK;
}

/* With --out nobody waits. */
static enum base_status keep_answer(void *where, const char *bytes, size_t length, struct base_error *error)
{
    (void)error;
    base_put_bytes(where, bytes, length);
    return BASE_OK;
}

enum base_status commands_batch_run(struct commands_context *context, const struct base_arguments *arguments,
                                    struct base_text *out, struct base_error *error)
{
    enum { LONGEST_PATIENCE_S = 1000000 };
    struct base_worker worker = {.answer = answer_line, .where = context};
    struct base_arena arena = {.exhausted = context->arena->exhausted};
    int64_t patience_s = 0;
    BASE_TRY(commands_option_int(arguments, "--timeout", 1, LONGEST_PATIENCE_S, &patience_s, error));
    worker.patience_s = (int)patience_s;
    if (base_argument(arguments, "--out")) {
        context->answer = keep_answer;
        context->answer_where = out;
    }
    /* The server of a page restarts a process that ends or takes too long. */
    context->sealed = base_argument(arguments, "--sealed") != NULL;
    context->tells = context->sealed || base_argument(arguments, "--progress");
    if (context->sealed && !base_seal(MOST_SEALED_BYTES))
        return base_fail(error, BASE_INTERNAL, "--sealed: the system refuses to limit this process");
    enum base_status status = answer_all(context, &arena, &worker, error);
    base_worker_end(&worker);
    base_arena_free(&arena);
    return status;
}
