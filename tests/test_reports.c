/* Reports: measured joined with predicted, and pages in their three forms. */
#include "reports/page.h"
#include "reports/reports.h"
#include "tests/test.h"

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
    reports_trace(&p, &m, &(struct reports_link_tracks){.count = 0}, &curve, NULL, NULL, &text);
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
        assert_near(base_json_get(event, "pid")->number, expected[i].process, 0);
        assert_near(base_json_get(event, "tid")->number, expected[i].track, 0);
        if (expected[i].at >= 0) assert_near(base_json_get(event, "ts")->number, expected[i].at, 1e-12);
        if (expected[i].length >= 0) assert_near(base_json_get(event, "dur")->number, expected[i].length, 1e-12);
    }
    assert_null(event);
}

/* The names of the tracks on which that event stands, in their order. */
static const char *tracks_of(struct base_arena *arena, const struct base_json *events, const char *name)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "");
    for (const struct base_json *track = events->child; track; track = track->next) {
        if (strcmp(base_json_get(track, "name")->string, "thread_name") != 0) continue;
        for (const struct base_json *event = events->child; event; event = event->next)
            if (!strcmp(base_json_get(event, "name")->string, name) &&
                base_json_get(event, "tid")->number == base_json_get(track, "tid")->number)
                base_putf(&text, "%s%s", text.length ? ", " : "",
                          base_json_get(base_json_get(track, "args"), "name")->string);
    }
    return text.data;
}

/* A collective stands on each link of a device that it goes over: both ways along every dimension that its groups
 * cross; between nodes the adapters, too. */
static void traces_have_a_track_for_each_link(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh, *model, *data;
    } cases[] = {{"v4-512", "4,2,2,1", "link x+, link x-, link y+, link y-, link z+, link z-",
                  "link y+, link y-, link z+, link z-"},
                 {"v4:4x4x4", "4,1,1,1", "link x+, link x-", "link y+, link y-, link z+, link z-"},
                 {"h100:4x8", "1,8", "NVLink4+4 NVSwitch", "network adapters"}};
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s %s", cases[i].topology, cases[i].submesh);
        struct sim_entry entries[] = {
            {.name = "a/of model", .bound = SIM_BY_COMMUNICATION, .count = 1, .time_s = 1e-3, .axes = 2},
            {.name = "a/of data", .bound = SIM_BY_COMMUNICATION, .count = 1, .time_s = 1e-3, .axes = 1},
            {.name = "b/work", .count = 1, .time_s = 1e-3}};
        const struct sim_timeline timeline = {entries, BASE_COUNT(entries)};
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_plan_text text = {{NULL}};
        struct sim_plan plan;
        struct base_text trace = {.arena = arena};
        struct base_error error;
        struct reports_link_tracks links;
        const struct base_json *document;
        text.values[SIM_MODEL] = "t5_1_1_large", text.values[SIM_TOPOLOGY] = cases[i].topology;
        text.values[SIM_SUBMESH] = cases[i].submesh, text.values[SIM_BATCH_SIZE] = "64";
        text.values[SIM_INPUTS_LENGTH] = text.values[SIM_TARGETS_LENGTH] = "512";
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        reports_find_link_tracks(arena, &plan, &timeline, &links);
        reports_trace(&timeline, NULL, &links, NULL, NULL, NULL, &trace);
        assert_ok(base_json_parse(arena, trace.data, trace.length, &document, &error), &error);
        const struct base_json *events = base_json_get(document, "traceEvents");
        assert_string_equal(tracks_of(arena, events, "a/of model"), cases[i].model);
        assert_string_equal(tracks_of(arena, events, "a/of data"), cases[i].data);
        assert_string_equal(tracks_of(arena, events, "b/work"), "computation");
        sim_cache_free(cache);
    }
}

/* What would end a cell, a tag or an attribute does not. */
static void pages_say_the_same_in_three_forms(struct base_arena *arena)
{
    static const char *const expected[] = {
        [REPORTS_TEXT] = "a < b\n\nTable\n  x|y   <i>\n  ä    & 10\n  cc    \"q\"\nEnd.\n",
        [REPORTS_MARKDOWN] =
            "# a < b\n\n## Table\n\n| x\\|y | <i> |\n| --- | --: |\n| ä | & 10 |\n| cc | \"q\" |\n\nEnd.\n",
        [REPORTS_HTML] =
            "<th scope=\"col\">x|y</th><th class=\"r\" scope=\"col\">&lt;i&gt;</th></tr>\n</thead><tbody>\n"
            "<tr><td>ä</td><td class=\"r\">&amp; 10</td></tr>\n<tr><td>cc</td><td "
            "class=\"r\">&quot;q&quot;</td></tr>\n</tbody></table></div>\n<p>End.</p>\n",
    };
    static const char *const cells[] = {"x|y", "<i>", "ä", "& 10", "cc", "\"q\""};
    for (int format = REPORTS_TEXT; format <= REPORTS_HTML; format++) {
        struct base_text out = {.arena = arena};
        struct page page = {(enum reports_format)format, &out};
        TEST_ROW("form %d", format);
        reports_page_begin(&page, "a < b");
        reports_page_heading(&page, "Table");
        reports_page_table(&page, "lr", cells, 3);
        reports_page_paragraph(&page, "End.");
        reports_page_end(&page);
        if (format == REPORTS_HTML) assert_non_null(strstr(out.data, expected[format]));
        else assert_string_equal(out.data, expected[format]);
        if (format == REPORTS_HTML) assert_non_null(strstr(out.data, "<title>a &lt; b</title>"));
    }
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {TEST(entries_meet_those_of_their_name), TEST(traces_have_a_track_for_each),
                                        TEST(traces_have_a_track_for_each_link),
                                        TEST(pages_say_the_same_in_three_forms)};
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
