/* Reports: measured joined with predicted, and pages in their three forms. */
#include "reports/page.h"
#include "reports/reports.h"
#include "tests/random_space.h"
#include "tests/test.h"

#include <stdlib.h>

static void entries_meet_those_of_their_name(struct base_arena *arena)
{
    struct sim_entry predicted[] = {{.name = "a", .time_s = 1},
                                    {.name = "b", .time_s = 2},
                                    {.name = "a", .phase = MODEL_BACKWARD, .time_s = 3},
                                    {.name = "a", .bound = SIM_BY_COMMUNICATION, .time_s = 4},
                                    {.name = "a", .time_s = 5}};
    struct sim_entry measured[] = {{.name = "a"},
                                   {.name = "a", .phase = MODEL_BACKWARD},
                                   {.name = "x"},
                                   {.name = "a", .bound = SIM_BY_COMMUNICATION},
                                   {.name = "a", .bound = SIM_BY_COMPUTE}};
    struct sim_timeline p = {predicted, BASE_COUNT(predicted)}, m = {measured, BASE_COUNT(measured)};
    struct reports_pair *pairs = reports_join(arena, &m, &p);
    const double expected[] = {1, 3, 0, 4, 5};
    for (int i = 0; i < BASE_COUNT(expected); i++) {
        assert_ptr_equal(pairs[i].measured, &measured[i]);
        assert_near(pairs[i].predicted ? pairs[i].predicted->time_s : 0, expected[i], 0);
    }
}

/* Track by track, each from its beginning. */
static int by_begin(const void *a, const void *b)
{
    static const char *const keys[] = {"pid", "tid", "ts"};
    const struct base_json *const *x = a, *const *y = b;
    for (int k = 0; k < BASE_COUNT(keys); k++) {
        const double p = base_json_get(*x, keys[k])->number, q = base_json_get(*y, keys[k])->number;
        if (p != q) return p > q ? 1 : -1;
    }
    return (*x > *y) - (*x < *y);
}

static bool shares_track(const struct base_json *a, const struct base_json *b)
{
    return base_json_get(a, "pid")->number == base_json_get(b, "pid")->number &&
           base_json_get(a, "tid")->number == base_json_get(b, "tid")->number;
}

/* What the Trace Event Format asks for, and what Perfetto's importer does with it: names, processes and tracks, none of
 * them 0, which is one idle thread to it; times of a counter that never go back; and in whole nanoseconds no event ends
 * after one that it began in, which would be dropped. */
static void check_trace(struct base_arena *arena, const struct base_json *events)
{
    const struct base_json **spans = base_new(arena, const struct base_json *, events->count);
    int count = 0;
    double counted_us = 0;
    const char *counter = "";
    for (const struct base_json *event = events->child; event; event = event->next) {
        const char *kind = base_json_get(event, "ph")->string;
        assert_non_null(base_json_get(event, "name")->string);
        assert_true(base_json_get(event, "pid")->number > 0 && base_json_get(event, "tid")->number > 0);
        if (!strcmp(kind, "X")) spans[count++] = event;
        if (strchr("MC", *kind)) assert_non_null(base_json_get(event, "args")->child);
        if (strcmp(kind, "C") != 0) continue;
        if (strcmp(counter, base_json_get(event, "name")->string) != 0) counted_us = 0;
        counter = base_json_get(event, "name")->string;
        assert_true(base_json_get(event, "ts")->number >= counted_us);
        counted_us = base_json_get(event, "ts")->number;
    }
    qsort(spans, (size_t)count, sizeof *spans, by_begin);
    for (int i = 0; i < count; i++) {
        const int64_t from_ns = (int64_t)(base_json_get(spans[i], "ts")->number * 1000),
                      to_ns = from_ns + (int64_t)(base_json_get(spans[i], "dur")->number * 1000);
        int64_t innermost_ns = INT64_MAX;
        for (int j = i - 1; j >= 0 && shares_track(spans[j], spans[i]); j--) { /* the nearest that goes on */
            const int64_t end_ns = (int64_t)(base_json_get(spans[j], "ts")->number * 1000) +
                                   (int64_t)(base_json_get(spans[j], "dur")->number * 1000);
            if (end_ns > from_ns && end_ns < innermost_ns) innermost_ns = end_ns;
        }
        assert_true(to_ns <= innermost_ns);
    }
}

static void traces_have_a_track_for_each(struct base_arena *arena)
{
    struct sim_entry predicted[] = {{.name = "a \"b\"", .count = 2, .time_s = 1e-3}},
                     measured[] = {{.name = "a \"b\"", .count = 2, .time_s = 2e-3},
                                   {.name = "c", .bound = SIM_BY_COMMUNICATION, .count = 1, .time_s = 1e-3}};
    struct sim_timeline p = {predicted, 1}, m = {measured, 2};
    struct base_text text = {.arena = arena};
    const struct base_json *document;
    struct base_error error;
    struct sim_memory_point points[] = {{.at_s = 0, .bytes = {[MODEL_PARAMETER] = 7}},
                                        {.at_s = 1e-3, .bytes = {[MODEL_GRADIENT] = 9}}};
    struct sim_memory_curve curve = {points, 2};
    reports_trace(&(struct reports_trace_parts){.predicted = &p, .measured = &m, .curve = &curve}, &text);
    assert_ok(base_json_parse(arena, text.data, text.length, &document, &error), &error);
    const struct base_json *event = base_json_get(document, "traceEvents")->child;
    static const struct {
        const char *name, *kind;
        double process, track, at, length;
    } expected[] = {{"process_name", "M", 0, 0, -1, -1},       {"thread_name", "M", 0, 0, -1, -1},
                    {"thread_name", "M", 0, 1, -1, -1},        {"forward", "X", 0, 0, 0, 2000},
                    {"a \"b\"", "X", 0, 0, 0, 2000},           {"a \"b\"", "X", 0, 0, 0, 2000},
                    {"process_name", "M", 1, 0, -1, -1},       {"thread_name", "M", 1, 0, -1, -1},
                    {"thread_name", "M", 1, 1, -1, -1},        {"forward", "X", 1, 0, 0, 5000},
                    {"a \"b\"", "X", 1, 0, 0, 4000},           {"c", "X", 1, 0, 4000, 1000},
                    {"a \"b\"", "X", 1, 0, 0, 4000},           {"c", "X", 1, 1, 4000, 1000},
                    {"process_name", "M", 2, 0, -1, -1},       {"bytes of a device", "C", 2, 0, 0, -1},
                    {"bytes of a device", "C", 2, 0, 1000, -1}};
    for (int i = 0; i < BASE_COUNT(expected); i++, event = event->next) {
        TEST_ROW("event %d", i);
        assert_non_null(event);
        assert_string_equal(base_json_get(event, "name")->string, expected[i].name);
        assert_string_equal(base_json_get(event, "ph")->string, expected[i].kind);
        assert_near(base_json_get(event, "pid")->number, 1 + expected[i].process, 0);
        assert_near(base_json_get(event, "tid")->number, 1 + expected[i].track, 0);
        if (expected[i].at >= 0) assert_near(base_json_get(event, "ts")->number, expected[i].at, 1e-12);
        if (expected[i].length >= 0) assert_near(base_json_get(event, "dur")->number, expected[i].length, 1e-12);
    }
    assert_null(event);
    check_trace(arena, base_json_get(document, "traceEvents"));
}

/* A step by its clock: where it ends, and what of each kind it has. seconds: of collectives and kernels, by track. */
static const struct traced {
    const char *plan[SIM_KEY_COUNT];
    int microbatches, forwards, messages;
    bool overlaps;
} traced[] = {
    {.plan = {[SIM_MODEL] = "t5_1_1_base",
              [SIM_TOPOLOGY] = "v4-16",
              [SIM_NUM_PARTITIONS] = "4",
              [SIM_INPUTS_LENGTH] = "512",
              [SIM_TARGETS_LENGTH] = "114",
              [SIM_BATCH_SIZE] = "64",
              [SIM_NUM_MICROBATCHES] = "4"},
     .microbatches = 4,
     .forwards = 4},
    {.plan = {[SIM_MODEL] = "llama3_8b",
              [SIM_TOPOLOGY] = "v5e-256",
              [SIM_ICI_MESH] = "fsdp=256",
              [SIM_SOFTWARE] = "maxtext",
              [SIM_TARGETS_LENGTH] = "2048",
              [SIM_BATCH_SIZE] = "256"},
     .forwards = 1,
     .overlaps = true},
    {.plan = {[SIM_MODEL] = "llama3_8b",
              [SIM_TOPOLOGY] = "h100:2x8",
              [SIM_SOFTWARE] = "megatron",
              [SIM_NUM_PARTITIONS] = "2",
              [SIM_TARGETS_LENGTH] = "1024",
              [SIM_BATCH_SIZE] = "64",
              [SIM_NUM_MICROBATCHES] = "2",
              [SIM_OVERLAP_GRAD_REDUCE] = "1"},
     .microbatches = 2,
     .forwards = 2,
     .overlaps = true},
    {.plan = {[SIM_MODEL] = "llama3_8b",
              [SIM_TOPOLOGY] = "h100:2x8",
              [SIM_SOFTWARE] = "megatron",
              [SIM_PIPELINE_STAGES] = "4",
              [SIM_TARGETS_LENGTH] = "1024",
              [SIM_BATCH_SIZE] = "64",
              [SIM_NUM_MICROBATCHES] = "8"},
     .messages = 2 * 3 * 8},
};

static const struct base_json *predict_trace(struct base_arena *arena, struct sim_cache *cache,
                                             const struct traced *row, struct sim_prediction *prediction)
{
    struct sim_plan_text plan_text;
    struct sim_plan plan;
    struct sim_timeline timeline = {0};
    struct sim_memory_curve curve = {0};
    struct sim_passes passes = {.count = 0};
    struct sim_spans spans = {.count = 0};
    struct sim_detail detail = {
        .timeline = &timeline, .curve = &curve, .passes = &passes, .spans = &spans, .arena = arena};
    struct base_error error;
    struct base_text text = {.arena = arena};
    const struct base_json *document;
    memcpy(plan_text.values, row->plan, sizeof plan_text.values);
    assert_ok(sim_plan_check(cache, arena, &plan_text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, prediction, &detail, &error), &error);
    assert_int_equal(spans.count > 0, !passes.count);
    sim_curve_by_spans(&curve, &spans);
    reports_trace(&(struct reports_trace_parts){.predicted = &timeline,
                                                .spans = &spans,
                                                .step_s = prediction->step_s,
                                                .curve = &curve,
                                                .predicted_passes = &passes},
                  &text);
    assert_ok(base_json_parse(arena, text.data, text.length, &document, &error), &error);
    return base_json_get(document, "traceEvents");
}

static void traces_end_with_the_step_and_show_what_overlaps(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(traced); i++) {
        TEST_ROW("plan %d", i);
        struct sim_prediction p;
        const struct base_json *events = predict_trace(arena, cache, &traced[i], &p);
        double end_us = 0, links_us = 0, kernels_us = 0, flows = 0, counted_us = 0, stage_bytes = 0;
        int microbatches = 0, forwards = 0, messages = 0;
        check_trace(arena, events);
        for (const struct base_json *event = events->child; event; event = event->next) {
            const char *kind = base_json_get(event, "ph")->string, *name = base_json_get(event, "name")->string;
            if (*kind == 's' || *kind == 'f') flows += *kind == 's' ? 1 : -1;
            messages += *kind == 's' && !strcmp(base_json_get(event, "cat")->string, "message");
            if (!strncmp(name, "stage", 5) && *kind == 'C')
                stage_bytes = fmax(stage_bytes, base_json_number(base_json_get(event, "args"), "bytes"));
            if (*kind == 'C') counted_us = base_json_get(event, "ts")->number;
            if (*kind != 'X') continue;
            const double us = base_json_get(event, "dur")->number, at_us = base_json_get(event, "ts")->number;
            end_us = fmax(end_us, at_us + us);
            microbatches += !strncmp(name, "microbatch ", 11);
            forwards += !strcmp(name, "forward");
            if (base_json_get(event, "cat")) *(base_json_get(event, "tid")->number > 1 ? &links_us : &kernels_us) += us;
        }
        assert_near(end_us, p.step_s * 1e6, 0.2);
        assert_true(counted_us <= end_us);
        assert_near(flows, 0, 0);
        assert_int_equal(microbatches, traced[i].microbatches);
        assert_int_equal(forwards, traced[i].forwards);
        assert_int_equal(messages, traced[i].messages);
        assert_near(stage_bytes, (double)p.pipeline.worst_peak_bytes, 1e-9);
        if (p.pipeline.stages) continue;
        assert_near(links_us / p.communication_s, kernels_us / (p.step_s - p.exposed_communication_s), 4e4);
        assert_true((links_us + kernels_us > 1.001 * end_us) == traced[i].overlaps);
    }
    sim_cache_free(cache);
}

/* What would end a cell does not. */
static void reports_say_the_same_in_both_forms(struct base_arena *arena)
{
    static const char *const expected[] = {
        [REPORTS_TEXT] = "a < b\n\nTable\n  x|y   <i>\n  ä    & 10\n  cc    \"q\"\nEnd.\n",
        [REPORTS_MARKDOWN] =
            "# a < b\n\n## Table\n\n| x\\|y | <i> |\n| --- | --: |\n| ä | & 10 |\n| cc | \"q\" |\n\nEnd.\n",
    };
    static const char *const cells[] = {"x|y", "<i>", "ä", "& 10", "cc", "\"q\""};
    for (int format = REPORTS_TEXT; format <= REPORTS_MARKDOWN; format++) {
        struct base_text out = {.arena = arena};
        struct page page = {(enum reports_format)format, &out};
        TEST_ROW("form %d", format);
        reports_page_begin(&page, "a < b");
        reports_page_heading(&page, "Table");
        reports_page_table(&page, "lr", cells, 3);
        reports_page_paragraph(&page, "End.");
        assert_string_equal(out.data, expected[format]);
    }
}

/* Of more plans than a page takes those stay that somebody would look for, in the order in which they were seen. */
static void the_best_plans_stay_to_look_at(struct base_arena *arena)
{
    enum { SEEN = 3 * REPORTS_MOST_LOOKED };
    struct tuner_request request = request_of(arena, "t5_1_1_small", "v4-8", "64", "64", "64");
    struct tuner_space space;
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_text text = {.arena = arena};
    struct base_json_writer w = {.text = &text};
    const struct base_json *document;
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    struct reports_looked *looked = reports_looked_new(arena);
    for (int i = 0; i < SEEN; i++) {
        const struct sim_prediction prediction = {.tokens_per_s = i + 1, .fits = i % 2 == 0};
        reports_looked_add(looked, &(struct tuner_looked){.prediction = i % 3 ? &prediction : NULL, .step_s = 1});
    }
    base_json_open(&w, '{');
    reports_put_looked(&w, looked, &space, &(struct tuner_options){.top = 1}, 1);
    base_json_close(&w, '}');
    assert_ok(base_json_parse(arena, text.data, text.length, &document, &error), &error);
    document = base_json_get(document, "looked_at");
    assert_near(base_json_get(document, "cut_from_count")->number, SEEN, 0);
    int count = 0;
    double last = 0;
    for (const struct base_json *t = base_json_get(document, "tokens_per_s")->child; t; t = t->next, count++) {
        assert_true(t->number > last && ((int)t->number - 1) % 2 == 0);
        last = t->number;
    }
    assert_int_equal(count, REPORTS_MOST_LOOKED);
    assert_near(last, SEEN - 1, 0);
    sim_cache_free(cache);
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {TEST(entries_meet_those_of_their_name), TEST(traces_have_a_track_for_each),
                                        TEST(traces_end_with_the_step_and_show_what_overlaps),
                                        TEST(reports_say_the_same_in_both_forms), TEST(the_best_plans_stay_to_look_at)};
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
