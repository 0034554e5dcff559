/* Answers as pages and as JSON with their detail: what is drawn is what was answered. */
#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"
#include "tests/test.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

/* The document of a command line; NULL where it fails. */
static const struct base_json *ask(struct base_arena *arena, const char *command, const char *const *words,
                                   struct base_error *error)
{
    struct base_text out = {.arena = arena};
    struct commands_context context = {.arena = arena, .cache = sim_cache_new(arena), .json = true};
    const struct base_json *document = NULL;
    int count = 0;
    while (words[count]) count++;
    enum base_status status = commands_execute(&context, command, count, words, &out, error);
    if ((status == BASE_OK || status == BASE_NO_FIT) && out.length)
        assert_ok(base_json_parse(arena, out.data, out.length, &document, error), error);
    sim_cache_free(context.cache);
    return document;
}

static const char *page_of(struct base_arena *arena, const char *command, const char **words, int count)
{
    char folder[] = "/tmp/meshwright-page-XXXXXX";
    struct base_error error = {0};
    const char *text;
    size_t length;
    assert_non_null(mkdtemp(folder));
    const char *path = base_print(arena, "%s/page.html", folder);
    words[count] = "--out", words[count + 1] = path, words[count + 2] = NULL;
    ask(arena, command, words, &error);
    assert_string_equal(error.text, "");
    assert_ok(base_read_file(arena, path, 1 << 26, &text, &length, &error), &error);
    unlink(path);
    rmdir(folder);
    return text;
}

static double number(const struct base_json *object, const char *key)
{
    const struct base_json *value = base_json_get(object, key);
    assert_non_null(value);
    assert_int_equal(value->kind, BASE_JSON_NUMBER);
    return value->number;
}

/* ---- memory over the step ---- */

static const char *const kinds[] = {"parameter_bytes", "optimizer_state_bytes", "gradient_bytes", "activation_bytes",
                                    "temporary_bytes", "reserved_bytes",        "cache_bytes"}; /* of inference alone */

/* The course of memory is walked through moment by moment, the peak is found without that: they agree to the byte, in
 * every part, where no layer is recomputed in part. */
static void the_peak_of_the_course_is_the_peak(struct base_arena *arena)
{
    static const char *const cases[][8] = {
        {"examples/t5_11b_v4_512.json"},
        {"examples/t5_11b_v4_512.json", "--remat-policy", "full"},
        {"examples/t5_11b_v4_512.json", "--num-microbatches", "28", "--optimizer", "adafactor"},
        {"examples/t5_11b_v4_512.json", "--model", "scalable_t5_1_1_xxl", "--batch-size", "1024"},
        {"examples/t5_11b_v4_512.json", "--topology", "a100-80g:32x8", "--num-partitions", "8", "--num-microbatches",
         "1"},
        {"examples/t5_11b_v4_512.json", "--num-microbatches", "0", "--batch-size", "64", "--step", "decode"},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        const char *words[12] = {"--detail"};
        struct base_error error = {0};
        for (int w = 0; w < 8 && cases[i][w]; w++) words[w + 1] = cases[i][w];
        TEST_ROW("case %d", i);
        const struct base_json *answer = ask(arena, "predict", words, &error);
        assert_string_equal(error.text, "");
        const struct base_json *memory = base_json_get(answer, "memory"),
                               *course = base_json_get(answer, "memory_timeline");
        assert_non_null(course);
        int count = base_json_get(course, "at_s")->count;
        double *total = base_new(arena, double, count), most = 0, last_s = 0;
        assert_true(count > 20);
        for (int k = 0; k < BASE_COUNT(kinds); k++) {
            const struct base_json *column = base_json_get(course, kinds[k]), *item = column ? column->child : NULL;
            assert_int_equal(column != NULL, base_json_get(memory, kinds[k]) != NULL);
            for (int m = 0; m < count && item; m++, item = item->next) total[m] += item->number;
        }
        for (int m = 0; m < count; m++) most = fmax(most, total[m]);
        if (number(memory, "rematerialized_layer_count") == 0)
            assert_near(most, number(memory, "peak_bytes"), 1e-9); /* whole bytes of each part */
        else assert_true(most <= 1.0001 * number(memory, "peak_bytes"));
        for (const struct base_json *at = base_json_get(course, "at_s")->child; at; at = at->next) {
            assert_true(at->number >= last_s);
            last_s = at->number;
        }
        assert_true(last_s <= number(base_json_get(answer, "time"), "step_s") * (1 + 1e-9));
    }
}

/* The buffers at the peak are the peak, byte by byte, and those of the program explain nearly all of it: under
 * liveness, as compiled, of a pipeline's stage and of a decode step. */
static void buffers_at_the_peak_add_up_to_it(struct base_arena *arena)
{
    static const struct {
        const char *words[20];
        double least_named_frac;
    } cases[] = {
        {{"examples/t5_11b_v4_512.json"}, 0.99},
        {{"examples/t5_11b_v4_512.json", "--num-microbatches", "1"}, 0.99},
        {{"examples/t5_11b_v4_512.json", "--compiler", "latest"}, 0.99},
        {{"examples/t5_11b_v4_512.json", "--remat-policy", "full"}, 0.99},
        {{"examples/t5_11b_v4_512.json", "--num-microbatches", "0", "--batch-size", "64", "--step", "decode"}, 0.99},
        {{"--model", "gpt3_175b", "--topology", "a100-80g:16x8", "--software", "megatron", "--num-partitions", "8",
          "--pipeline-stages", "8", "--batch-size", "256", "--num-microbatches", "32", "--task-feature-lengths",
          "2048"},
         0.98},
        {{"examples/tiny_local_4.json"}, 0.3}, /* the executor's arena: persistent buffers */
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        const char *words[24] = {"--peak"};
        struct base_error error = {0};
        memcpy(words + 1, cases[i].words, sizeof cases[i].words);
        TEST_ROW("case %d", i);
        const struct base_json *memory = base_json_get(ask(arena, "predict", words, &error), "memory"),
                               *list = base_json_get(memory, "peak_buffers");
        assert_string_equal(error.text, "");
        double all_bytes = 0, named_bytes = 0, before_bytes = HUGE_VAL;
        for (const struct base_json *b = list->child; b; b = b->next) {
            const char *name = base_json_get(b, "name")->string, *kind = base_json_get(b, "kind")->string;
            assert_true(number(b, "bytes") <= before_bytes || strstr(name, " smaller"));
            before_bytes = number(b, "bytes");
            all_bytes += before_bytes;
            if (strcmp(name, kind) != 0 || !strcmp(name, "reserved")) named_bytes += before_bytes;
            assert_non_null(base_json_get(b, "why"));
        }
        assert_true(fabs(all_bytes - number(memory, "peak_bytes")) <= list->count);
        if (named_bytes < cases[i].least_named_frac * all_bytes)
            fail_msg("%.3f of the peak is named", named_bytes / all_bytes);
    }
}

/* ---- operations ---- */

static void operations_add_up_to_the_parts_of_the_step(struct base_arena *arena)
{
    const char *words[] = {"examples/t5_11b_v4_512.json", "--detail", NULL};
    struct base_error error = {0};
    const struct base_json *answer = ask(arena, "predict", words, &error), *time = base_json_get(answer, "time");
    double links_s = 0, all_s = 0;
    for (const struct base_json *o = base_json_get(answer, "timeline")->child; o; o = o->next) {
        double time_s = number(o, "count") * number(o, "time_s");
        all_s += time_s;
        if (!strcmp(base_json_get(o, "bound")->string, "communication")) links_s += time_s;
    }
    assert_near(links_s, number(time, "communication_s"), 1e-9);
    assert_near(all_s, number(time, "step_s"), 1e-9); /* nothing of this plan is hidden */
}

/* ---- pages ---- */

static void pages_fetch_nothing_and_keep_names_as_text(struct base_arena *arena)
{
    const char *words[12] = {"examples/t5_11b_v4_512.json", "--params-axes-names-override",
                             "[[\"<script>alert(1)</script><img onerror=x>\", null]]"};
    const char *page = page_of(arena, "predict", words, 3);
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "<link rel=\"stylesheet"));
    assert_null(strstr(page, " src="));
    assert_null(strstr(page, "url("));
    assert_null(strstr(page, "@import"));
    assert_non_null(strstr(page, "\\u003cscript>alert(1)"));
}

/* Every kind of answer has a page that holds what the kind is about, and fetches nothing. */
static void every_answer_has_its_page(struct base_arena *arena)
{
    static const struct {
        const char *command;
        int count;
        const char *words[16], *holds[6];
    } cases[] = {
        {"sweep",
         1,
         {"examples/tpu_v4_tuning.csv"},
         {"\"predicted_count\":28", "\"measured_step_count\":22", "seed_tpu_v4-027"}},
        {"compare",
         2,
         {"examples/t5_11b_v4_512.json", "examples/wmt_two_way.gin"},
         {"\"answers\":", "\"differences\":", "\"around\":"}},
        {"predict",
         11,
         {"--model", "t5_1_1_large", "--topology", "v4-8", "--num-partitions", "2", "--batch-size", "8",
          "--task-feature-lengths", "64,16", "--step=decode"},
         {"\"bound_by\":", "\"around\":", "\"machine\":"}},
        {"predict",
         11,
         {"--model", "t5_1_1_large", "--topology", "v4-8", "--num-partitions", "2", "--batch-size", "8",
          "--task-feature-lengths", "64,16", "--step=generate"},
         {"\"decode_steps\":16", "\"first_token_s\":", "\"loop_body\"", "\"memory_timeline\":"}},
        {"tune",
         10,
         {"--model", "t5_1_1_large", "--topology", "v4-8", "--batch-size", "8,16", "--task-feature-lengths", "64,16",
          "--objective", "latency_s"},
         {"\"latency_front\":", "\"launcher\":", "\"looked_at\":"}},
        {"tune",
         13,
         {"--model",
          "decoder_only:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=4096,num_layers=12,vocab_size=51200,mlp_"
          "activations=gelu,logits_via_embedding=1",
          "--topology", "a100-80g:2x8", "--batch-size", "32", "--software", "megatron", "--optimizer", "adamw",
          "--task-feature-lengths=2048", "--pipeline-stages", "auto"},
         {"pipeline_stages", "\"plans\":", "\"step_interval_s\""}},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        const char *words[20] = {NULL};
        TEST_ROW("%s, case %d", cases[i].command, i);
        memcpy(words, cases[i].words, sizeof cases[i].words);
        const char *page = page_of(arena, cases[i].command, words, cases[i].count);
        for (int h = 0; h < 6 && cases[i].holds[h]; h++)
            if (!strstr(page, cases[i].holds[h])) fail_msg("the page does not hold \"%s\"", cases[i].holds[h]);
        assert_null(strstr(page, " src="));
        assert_non_null(strstr(page, "copy command"));
        if (!strcmp(cases[i].command, "predict")) assert_true(strlen(page) < 200000);
    }
}

/* Of an answer of many decode steps the operations, collectives included, take as long as the answer. */
static void operations_of_an_answer_take_as_long_as_it(struct base_arena *arena)
{
    const char *words[] = {
        "--model", "t5_1_1_large",           "--topology", "v4-8",   "--num-partitions", "2",        "--batch-size",
        "8",       "--task-feature-lengths", "64,16",      "--step", "generate",         "--detail", NULL};
    struct base_error error = {0};
    const struct base_json *answer = ask(arena, "predict", words, &error);
    assert_string_equal(error.text, "");
    const struct base_json *at = base_json_get(base_json_get(answer, "memory_timeline"), "at_s")->child;
    double all_s = 0, last_s = 0;
    for (const struct base_json *o = base_json_get(answer, "timeline")->child; o; o = o->next)
        all_s += number(o, "count") * number(o, "time_s");
    for (; at; at = at->next) last_s = at->number;
    assert_near(all_s, number(answer, "latency_s"), 1e-9);
    assert_true(last_s > 0.9 * number(answer, "latency_s") && last_s <= number(answer, "latency_s") * (1 + 1e-9));
}

/* 3,072 passes, all of them: a page without its last stages would be wrong, and one with their times in full too long.
 */
static void a_page_holds_a_whole_schedule_in_200_kb(struct base_arena *arena)
{
    const char *words[24] = {"--model",
                             "gpt3_175b",
                             "--topology",
                             "a100-80g:32x8",
                             "--batch-size",
                             "256",
                             "--software",
                             "megatron",
                             "--pipeline-stages",
                             "8",
                             "--virtual-stages",
                             "12",
                             "--num-partitions",
                             "8",
                             "--num-microbatches",
                             "16",
                             "--sequence-parallel",
                             "1",
                             "--task-feature-lengths",
                             "2048"};
    enum { PASSES = 3072, MOST_BYTES = 200000 };
    const char *page = page_of(arena, "predict", words, 20),
               *stages = strstr(page, "\"stage\":{\"$words\":[0,1,2,3,4,5,6,7],\"of\":\"");
    assert_true(strlen(page) < MOST_BYTES);
    assert_non_null(strstr(page, "\"pass_count\":3072"));
    assert_non_null(stages);
    assert_int_equal(strcspn(strstr(stages, "\"of\":\"") + strlen("\"of\":\""), "\""), PASSES);
    assert_non_null(strstr(page, "\"start_s\":{\"$part\":"));
}

static void the_same_question_gives_the_same_page(struct base_arena *arena)
{
    const char *words[12] = {"examples/t5_11b_v4_512.json"}, *again[12] = {"examples/t5_11b_v4_512.json"};
    assert_string_equal(page_of(arena, "predict", words, 1), page_of(arena, "predict", again, 1));
}

/* An answer that was saved has the page that it would have had. */
static void a_saved_answer_has_its_page(struct base_arena *arena)
{
    char folder[] = "/tmp/meshwright-answer-XXXXXX";
    struct base_error error = {0};
    assert_non_null(mkdtemp(folder));
    const char *path = base_print(arena, "%s/answer.json", folder);
    const char *words[] = {"examples/t5_11b_v4_512.json", "--detail", "--out", path, NULL};
    ask(arena, "predict", words, &error);
    assert_string_equal(error.text, "");
    const char *given[8] = {path}, *page = page_of(arena, "report", given, 1);
    unlink(path);
    rmdir(folder);
    assert_non_null(strstr(page, "\"fits\":true"));
    assert_non_null(strstr(page, "all_reduce"));
}

/* ---- searches ---- */

/* What the page draws is what the search counted, and its fastest dot that fits is the best plan. */
static void what_was_looked_at_is_what_was_counted(struct base_arena *arena)
{
    const char *words[] = {"--model", "t5_1_1_large",           "--topology", "v4:2x2x4", "--batch-size",
                           "64,128",  "--task-feature-lengths", "512,114",    "--detail", NULL};
    struct base_error error = {0};
    const struct base_json *answer = ask(arena, "tune", words, &error);
    assert_string_equal(error.text, "");
    const struct base_json *looked = base_json_get(answer, "looked_at"), *search = base_json_get(answer, "search"),
                           *tokens = base_json_get(looked, "tokens_per_s"),
                           *peaks = base_json_get(looked, "peak_bytes"), *how = base_json_get(looked, "decided_by");
    const struct base_json *best =
        base_json_get(base_json_get(base_json_get(answer, "plans")->child, "prediction"), "throughput");
    double fastest = 0, predicted = 0, capacity = number(looked, "capacity_bytes");
    assert_int_equal(tokens->count, how->count);
    const struct base_json *t = tokens->child, *p = peaks->child, *h = how->child;
    for (; t; t = t->next, p = p->next, h = h->next) {
        if (strcmp(h->string, "prediction") != 0) continue;
        predicted++;
        if (p->number <= capacity) fastest = fmax(fastest, t->number);
    }
    assert_near(predicted, number(base_json_get(search, "decided_by"), "full_prediction"), 0);
    assert_near(fastest, number(best, "tokens_per_s"), 1e-4); /* written as whole tokens */
    for (const struct base_json *c = base_json_get(looked, "columns")->child; c; c = c->next) {
        assert_int_equal(base_json_get(c, "of")->count, tokens->count);
        for (const struct base_json *of = base_json_get(c, "of")->child; of; of = of->next)
            assert_true(of->number >= 0 && of->number < base_json_get(c, "values")->count);
    }
}

/* Of inference every plan that can be launched is there, and the best dot within the bounds is the best plan. */
static void all_plans_of_inference_are_there_to_look_at(struct base_arena *arena)
{
    const char *words[] = {
        "--model",  "t5_1_1_base", "--topology",      "v5e-8", "--batch-size",           "4,16,64,256",
        "--step",   "generate",    "--max-latency-s", "0.4",   "--task-feature-lengths", "512,64",
        "--detail", NULL};
    struct base_error error = {0};
    const struct base_json *answer = ask(arena, "tune", words, &error);
    assert_string_equal(error.text, "");
    const struct base_json *looked = base_json_get(answer, "looked_at"), *search = base_json_get(answer, "search"),
                           *tokens = base_json_get(looked, "tokens_per_s"),
                           *latencies = base_json_get(looked, "latency_s"),
                           *peaks = base_json_get(looked, "peak_bytes"), *best = base_json_get(answer, "plans")->child;
    const double room = number(looked, "capacity_bytes") * (1 - number(looked, "headroom_frac"));
    double fastest = 0;
    int beyond = 0;
    assert_near(tokens->count, number(search, "space_count"), 0);
    assert_int_equal(base_json_get(looked, "decided_by")->count, tokens->count);
    const struct base_json *t = tokens->child, *l = latencies->child, *p = peaks->child;
    for (; t; t = t->next, l = l->next, p = p->next) {
        if (p->number > room) continue;
        if (l->number > number(looked, "max_latency_s")) beyond++;
        else fastest = fmax(fastest, t->number);
    }
    assert_near(fastest, number(best, "tokens_per_s"), 1e-9);
    assert_near(beyond, number(search, "out_of_bounds_count"), 0);
    assert_true(beyond > 0 && beyond < tokens->count);
    for (const struct base_json *c = base_json_get(looked, "columns")->child; c; c = c->next)
        assert_int_equal(base_json_get(c, "of")->count, tokens->count);
}

/* The answer as text; a search may find nothing. */
static const char *say(struct base_arena *arena, const char *command, const char *const *words)
{
    struct base_text out = {.arena = arena};
    struct base_error error = {0};
    struct commands_context context = {.arena = arena, .cache = sim_cache_new(arena)};
    int count = 0;
    while (words[count]) count++;
    enum base_status status = commands_execute(&context, command, count, words, &out, &error);
    assert_true(status == BASE_OK || status == BASE_NO_FIT);
    sim_cache_free(context.cache);
    base_put(&out, "");
    return out.data;
}

static double sum_of(const struct base_json *list, const char *key)
{
    double sum = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next)
        sum += key ? number(item, key) : item->number;
    return sum;
}

/* The whole numbers of a line behind its first words; those in brackets are shares, and count for nothing. */
static int64_t sum_of_words(const char *at)
{
    int64_t sum = 0;
    while (*at && *at != '\n') {
        if (*at == '(') at += strcspn(at, ")\n");
        else if (*at >= '0' && *at <= '9') sum += strtoll(at, (char **)&at, 10);
        else at++;
    }
    return sum;
}

/* "Of 455 plans 57 …; bounds on time decided 398, …": the rest of the line is the first number. */
static void assert_line_adds_up(const char *text, double space_count)
{
    const char *line = strstr(text, "\nOf ");
    char *rest;
    while (line && !isdigit((unsigned char)line[4])) line = strstr(line + 1, "\nOf "); /* "Of rule sets …" */
    assert_non_null(line);
    assert_near((double)strtoll(line + 4, &rest, 10), space_count, 0);
    assert_int_equal(sum_of_words(rest), (int64_t)space_count);
}

/* "N more cannot be launched:", and below it lines of numbers with reasons, which are N. */
static void assert_refusals_add_up(const char *text, double refused_count)
{
    const char *line = strstr(text, " plans are invalid:\n");
    int64_t sum = 0;
    if (!line) {
        assert_near(refused_count, 0, 0);
        return;
    }
    for (const char *at = strchr(line, '\n') + 1; at[0] == ' ' && at[1] == ' ';
         at += strcspn(at, "\n"), at += *at == '\n')
        sum += strtoll(at, NULL, 10);
    while (line > text && line[-1] != '\n') line--;
    assert_near((double)strtoll(line, NULL, 10), refused_count, 0);
    assert_near((double)sum, refused_count, 0);
}

/* Every count of every search is the sum of its parts, as text and as JSON: what decided each plan of the space, and
 * why the others cannot be launched. */
static void counts_of_searches_add_up(struct base_arena *arena)
{
#define SMALL "--model", "t5_1_1_small", "--topology", "v4-8", "--task-feature-lengths", "128,64"
#define ONE_MESH "--model-parallel-submesh", "2,1,1,1", "--num-microbatches", "1"
#define LARGE "--model", "t5_1_0_11B", "--optimizer", "adamw", "--topology"
#define EXPERTS "--model", "switch_base", "--topology", "v3-32", "--batch-size", "512"
#define LLAMA "--model", "llama3_8b", "--optimizer", "adamw", "--attention", "flash", "--task-feature-lengths", "8192"
    static const char *const rows[][20] = {
        {SMALL, "--batch-size", "64"},
        {SMALL, "--batch-size", "64", "--no-bounds"},
        {SMALL, "--batch-size", "auto", "--num-microbatches", "1,2"},
        {SMALL, "--batch-size", "64", "--search", "rules", "--gap", "40", ONE_MESH},
        {SMALL, "--batch-size", "64", "--search", "rules", "--headroom", "96", ONE_MESH},
        {SMALL, "--batch-size", "64", "--beyond-t5x", "--search", "remat", ONE_MESH},
        {LARGE, "v4-64", "--batch-size", "256", "--headroom", "80"}, /* nothing leaves that: a second search */
        {LARGE, "v4-64", "--batch-size", "256", "--headroom", "45", "--pareto"},
        {LARGE, "v4-8", "--batch-size", "256"}, /* nothing fits */
        {LARGE, "v4-512", "--batch-size", "896"},
        {LLAMA, "--topology", "v5e-64", "--batch-size", "64", "--software", "maxtext", "--ici-mesh",
         "data=1,fsdp,tensor"},
        {LLAMA, "--topology", "h100:2x8", "--batch-size", "64", "--software", "megatron", "--pipeline-stages", "auto"},
        {LLAMA, "--topology", "h100:2x8", "--batch-size", "64", "--software", "megatron", "--pipeline-stages", "auto",
         "--headroom", "70"},
        {EXPERTS, "--num-expert-partitions", "16"},
        {EXPERTS, "--num-expert-partitions", "2", "--no-bounds", "--num-microbatches", "1,4,8,16,32,64"},
        {LARGE, "v5e-64", "--batch-size", "auto", "--max-latency-s", "2"},
        {LARGE, "v5e-64", "--batch-size", "1,4,32", "--step", "decode", "--headroom", "95"},
        {LARGE, "v5e-16", "--batch-size", "1,3,64", "--step", "generate", "--num-decodes", "1,3"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("row %d", i);
        struct base_error error = {0};
        const struct base_json *answer = ask(arena, "tune", rows[i], &error), *search = base_json_get(answer, "search"),
                               *decided = base_json_get(search, "decided_by"),
                               *refusals = base_json_get(search, "refusals");
        const char *text = say(arena, "tune", rows[i]);
        const double space = number(search, "space_count");
        assert_true(space > 0);
        if (decided) {
            assert_near(sum_of(decided, NULL), space, 0);
            if (!base_json_get(search, "step")) assert_line_adds_up(text, space); /* of inference all are predicted */
        }
        if (refusals) {
            assert_near(sum_of(refusals, "plan_count"), number(search, "refused_count"), 0);
            assert_refusals_add_up(text, number(search, "refused_count"));
        }
        assert_true(decided || number(search, "evaluated_count") == space);
    }
#undef SMALL
#undef ONE_MESH
#undef LARGE
#undef LLAMA
#undef EXPERTS
}

/* A run beside its prediction is an answer like others: its plan is there to be copied, and its page names it. */
static void a_run_beside_its_prediction_has_its_plan(struct base_arena *arena)
{
    char path[] = "/tmp/meshwright-beside-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    const char *report[] = {path, NULL};
    static const char run[] =
        "{\"plan\": {\"model\": \"t5_1_1_small\", \"topology\": \"local:4\", \"num_partitions\": 2, "
        "\"batch_size\": 8, \"task_feature_lengths\": {\"inputs\": 8, \"targets\": 8}}, \"loss\": [2, 1], "
        "\"first_step\": 0, \"rank_count\": 4, \"time\": {\"step_s\": 0.5}, \"memory\": {\"peak_bytes\": 7}, "
        "\"timeline\": [{\"name\": \"a<b\", \"phase\": \"forward\", \"kind\": \"contraction\", \"count\": 2, "
        "\"time_s\": 0.1}]}";
    struct base_error error = {0};
    assert_ok(base_write_file(path, run, strlen(run), &error), &error);
    const struct base_json *answer = ask(arena, "report", report, &error);
    remove(path);
    assert_string_equal(error.text, "");
    assert_string_equal(base_json_get(base_json_get(answer, "plan"), "topology")->string, "local:4");
    assert_near(number(answer, "measured_step_s"), 0.5, 1e-12);
}

/* ---- charts ---- */

static enum base_status draw(struct base_arena *arena, const char *kind, const char *input, const char *out,
                             struct base_error *error)
{
    const char *words[] = {kind, input, "--out", out, strcmp(kind, "difference") ? NULL : input, NULL};
    *error = (struct base_error){0};
    return ask(arena, "plot", words, error) ? BASE_OK : BASE_INPUT;
}

static void charts_of_a_plan_are_drawn_in_every_form(struct base_arena *arena)
{
    static const char *const kinds_of_chart[] = {"memory", "time",    "operations", "roofline",
                                                 "batch",  "scaling", "mesh",       "difference"},
                             *const plans[] = {"examples/t5_11b_v4_512.json", "examples/wmt_two_way.gin"};
    static const struct {
        const char *ending, *beginning;
    } forms[] = {{"svg", "<?xml"}, {"pdf", "%PDF-"}, {"png", "\x89PNG"}};
    char folder[] = "/tmp/meshwright-charts-XXXXXX";
    struct base_error error;
    const char *text;
    size_t length;
    assert_non_null(mkdtemp(folder));
    for (int k = 0; k < BASE_COUNT(kinds_of_chart); k++)
        for (int p = 0; p < BASE_COUNT(plans); p++) {
            const char *path = base_print(arena, "%s/a.%s", folder, forms[(k + p) % 3].ending);
            TEST_ROW("%s of %s", kinds_of_chart[k], plans[p]);
            draw(arena, kinds_of_chart[k], plans[p], path, &error);
            assert_string_equal(error.text, "");
            assert_ok(base_read_file(arena, path, 1 << 26, &text, &length, &error), &error);
            assert_memory_equal(text, forms[(k + p) % 3].beginning, 4);
            unlink(path);
        }
    assert_int_equal(rmdir(folder), 0);
}

/* In black and white, too, each line of the batch chart is told by what stands where it begins. */
static void charts_are_told_apart_without_colour(struct base_arena *arena)
{
    static const char *const lines[] = {">1<", ">2<", ">4<", ">8<", ">16<", ">32<"};
    char folder[] = "/tmp/meshwright-grey-XXXXXX";
    struct base_error error;
    const char *text;
    size_t length;
    assert_non_null(mkdtemp(folder));
    const char *path = base_print(arena, "%s/a.svg", folder);
    draw(arena, "batch", "examples/t5_11b_v4_512.json", path, &error);
    assert_string_equal(error.text, "");
    assert_ok(base_read_file(arena, path, 1 << 26, &text, &length, &error), &error);
    for (int i = 0; i < BASE_COUNT(lines); i++) assert_non_null(strstr(text, lines[i]));
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* What is no answer is refused with a place; nothing is written. */
static void documents_that_are_no_answers_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *kind, *text, *said;
    } cases[] = {
        {"memory", "{\"memory\":{}}", "memory over the step"},
        {"memory", "{\"memory\":{},\"memory_timeline\":{\"at_s\":[0,1],\"operation\":[1,2]}}", "reserved_bytes"},
        {"time", "{\"memory\":{},\"time\":{\"step_s\":0}}", "step_s above 0"},
        {"time", "{\"memory\":{},\"time\":{\"step_s\":1,\"compute_s\":-1}}", "compute_s"},
        {"operations", "{\"memory\":{},\"timeline\":[]}", "no operations"},
        {"operations", "{\"memory\":{},\"timeline\":[{\"name\":1}]}", "timeline[0]"},
        {"roofline", "{\"memory\":{},\"timeline\":[{}]}", "flop_per_s"},
        {"mesh", "{\"devices\":[[0]],\"axes\":[\"a\"],\"shape\":[2]}", "axes, shape and devices"},
        {"mesh", "{\"devices\":[[-1]],\"axes\":[\"a\"],\"shape\":[1]}", "axes, shape and devices"},
        {"mesh", "{\"devices\":[0],\"axes\":[\"a\"],\"shape\":[1]}", "axes, shape and devices"},
        {"mesh", "{\"devices\":[[1e9]],\"axes\":[\"a\"],\"shape\":[1]}", "axes, shape and devices"},
        {"batch", "{\"batch\":1}", "batch"},
        {"scaling", "[]", "is "},
    };
    char folder[] = "/tmp/meshwright-refused-XXXXXX";
    struct base_error error;
    assert_non_null(mkdtemp(folder));
    const char *input = base_print(arena, "%s/in.json", folder), *out = base_print(arena, "%s/out.svg", folder);
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s: %s", cases[i].kind, cases[i].text);
        assert_ok(base_write_file(input, cases[i].text, strlen(cases[i].text), &error), &error);
        draw(arena, cases[i].kind, input, out, &error);
        if (!strstr(error.text, cases[i].said)) fail_msg("said: %s", error.text);
        assert_false(base_is_file(out));
    }
    unlink(input);
    assert_int_equal(rmdir(folder), 0);
}

int main(int argument_count, char **arguments)
{
    static const struct test tests[] = {
        TEST(the_peak_of_the_course_is_the_peak),
        TEST(buffers_at_the_peak_add_up_to_it),
        TEST(operations_add_up_to_the_parts_of_the_step),
        TEST(operations_of_an_answer_take_as_long_as_it),
        TEST(pages_fetch_nothing_and_keep_names_as_text),
        TEST(every_answer_has_its_page),
        TEST(a_page_holds_a_whole_schedule_in_200_kb),
        TEST(the_same_question_gives_the_same_page),
        TEST(a_saved_answer_has_its_page),
        TEST(what_was_looked_at_is_what_was_counted),
        TEST(all_plans_of_inference_are_there_to_look_at),
        TEST(counts_of_searches_add_up),
        TEST(a_run_beside_its_prediction_has_its_plan),
        TEST(charts_of_a_plan_are_drawn_in_every_form),
        TEST(charts_are_told_apart_without_colour),
        TEST(documents_that_are_no_answers_are_refused),
    };
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
