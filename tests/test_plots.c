/* Tests of plots/ and of the command `plot`: what a picture must hold, words that stay apart, input that means harm. */
#include "tests/pictures.h"

#include "lab/comparison.h"
#include "lab/lab.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char table_path[] = "tests/data/comparison.csv";

/* ---- helpers ---- */

static struct lab_comparison read_table(struct base_arena *arena)
{
    struct base_error error;
    struct lab_comparison comparison;
    assert_ok(lab_comparison_read(arena, table_path, &comparison, &error), &error);
    return comparison;
}

static struct base_text draw(struct base_arena *arena, const struct lab_comparison *comparison,
                             enum plots_format format)
{
    struct base_error error;
    struct plots_picture picture;
    assert_ok(lab_comparison_draw(arena, comparison, format, 0, &picture, &error), &error);
    return picture.bytes;
}

/* A table of count rows with all kinds of outcome, in sections of twelve; the second section says nothing of its plans.
 */
static struct lab_comparison make_table(struct base_arena *arena, int count, bool long_words)
{
    struct lab_comparison_row *rows = base_new(arena, struct lab_comparison_row, count);
    struct base_random random;
    base_random_seed(&random, 17);
    char *word = memset(base_alloc(arena, 301, 1), 'W', 300);
    for (int i = 0; i < count; i++) {
        double step_s = 0.1 + (double)base_random_below(&random, 1000) / 250,
               error_frac = (double)base_random_below(&random, 400) / 1000 - 0.15;
        bool ran = i % 5 != 3, predicted = i % 11 != 7, measured = i % 13 != 5;
        struct lab_comparison_row *row = &rows[i];
        *row = (struct lab_comparison_row){
            .id = base_print(arena, "row-%03d", i),
            .model = long_words
                         ? base_print(arena, "decoder_only:num_layers=%d,emb_dim=512,name=%s %s", i / 12, word, word)
                         : base_print(arena, "model_%d", i / 12),
            .topology = long_words ? word : "v4-512",
            .measured_step_s = ran && measured ? step_s : NAN,
            .measured_tokens_per_s = ran && measured ? 1e5 / step_s : NAN,
            .predicted_step_s = predicted ? step_s * (1 + error_frac) : NAN,
            .predicted_tokens_per_s = predicted ? 1e5 / step_s / (1 + error_frac) : NAN,
            .measured_peak_memory_bytes = NAN,
            .predicted_peak_memory_bytes = predicted ? 3e10 : NAN,
            .measured = !ran       ? LAB_MEMORY_EXCEEDED
                        : measured ? LAB_MEMORY_FITS
                                   : LAB_MEMORY_UNKNOWN,
            .predicted = !predicted   ? LAB_MEMORY_UNKNOWN
                         : i % 7 == 3 ? LAB_MEMORY_EXCEEDED
                                      : LAB_MEMORY_FITS,
            .error = predicted    ? ""
                     : long_words ? word
                                  : "the reason",
        };
        for (int key = 0; key < SIM_KEY_COUNT; key++)
            row->plan[key] = i / 12 == 1  ? ""
                             : long_words ? base_print(arena, "%s%d", word, i)
                                          : base_print(arena, "%d", key < 4 ? i : key);
    }
    return (struct lab_comparison){rows, count};
}

static const char *write_temporary(struct base_arena *arena, const char *text)
{
    char *path = base_copy(arena, "/tmp/meshwright-plots-XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    return path;
}

/* ---- reading ---- */

static void the_table_is_read(struct base_arena *arena)
{
    struct lab_comparison table = read_table(arena);
    assert_int_equal(table.count, 8);
    assert_string_equal(table.rows[0].id, "ran-slower");
    assert_string_equal(table.rows[0].plan[0], "2,4,4,1");
    assert_near(table.rows[0].predicted_step_s, 1.1, 0);
    assert_near(table.rows[2].predicted_peak_memory_bytes, 5.1e10, 0);
    static const enum lab_memory_verdict verdicts[][2] = {
        {LAB_MEMORY_FITS, LAB_MEMORY_FITS},         {LAB_MEMORY_FITS, LAB_MEMORY_FITS},
        {LAB_MEMORY_EXCEEDED, LAB_MEMORY_EXCEEDED}, {LAB_MEMORY_EXCEEDED, LAB_MEMORY_FITS},
        {LAB_MEMORY_FITS, LAB_MEMORY_EXCEEDED},     {LAB_MEMORY_FITS, LAB_MEMORY_UNKNOWN},
        {LAB_MEMORY_UNKNOWN, LAB_MEMORY_FITS},      {LAB_MEMORY_UNKNOWN, LAB_MEMORY_UNKNOWN},
    };
    for (int i = 0; i < table.count; i++) {
        TEST_ROW("%s", table.rows[i].id);
        assert_int_equal(table.rows[i].measured, verdicts[i][0]);
        assert_int_equal(table.rows[i].predicted, verdicts[i][1]);
        assert_int_equal(isnan(table.rows[i].measured_step_s), verdicts[i][0] != LAB_MEMORY_FITS);
    }
}

static void missing_tokens_follow_from_the_step(struct base_arena *arena)
{
    struct base_error error;
    struct lab_comparison table;
    const char *path = write_temporary(arena, "model,topology,batch_size,targets_length,measured_step_s,predicted_step_"
                                              "s,predicted_tokens_per_s,predicted_fits\n"
                                              "m,v4-8,64,512,2,4,,1\n");
    assert_ok(lab_comparison_read(arena, path, &table, &error), &error);
    unlink(path);
    assert_near(table.rows[0].measured_tokens_per_s, 16384, 0);
    assert_near(table.rows[0].predicted_tokens_per_s, 8192, 0);
    assert_string_equal(table.rows[0].id, "line 2");
}

static void bad_tables_are_refused(struct base_arena *arena)
{
#define HEADER "id,model,topology,measured_step_s,measured_oom,predicted_step_s,predicted_tokens_per_s,predicted_fits\n"
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", ""},
        {HEADER, "no row"},
        {"id,model,topology,measured_step_s\na,m,v4-8,1\n", "predicted_step_s is missing"},
        {"id,topology,measured_step_s,predicted_step_s,predicted_tokens_per_s,predicted_fits\na,v4-8,1,1,1,1\n",
         "model is missing"},
        {"model,topology,predicted_step_s,predicted_tokens_per_s,predicted_fits\nm,v4-8,1,1,1\n", "no measured column"},
        {HEADER "a,m,v4-8,1,0\n", "line 2: 5 cells, but the header has 8"},
        {HEADER "a,m,v4-8,1,0,1,1,1\nb,m,v4-8,fast,0,1,1,1\n", "line 3: measured_step_s: \"fast\""},
        {HEADER "a,m,v4-8,-1,0,1,1,1\n", "measured_step_s: -1 is out of range"},
        {HEADER "a,m,v4-8,1e-300,0,1,1,1\n", "measured_step_s: 1e-300 is below"},
        {HEADER "a,m,v4-8,1,0,1e300,1,1\n", "predicted_step_s: 1e300 is out of range"},
        {HEADER "a,m,v4-8,1,0.5,1,1,1\n", "measured_oom: 0.5 is neither 0 nor 1"},
        {HEADER "a,m,v4-8,1,0,1,1,2\n", "predicted_fits: 2 is out of range"},
        {HEADER "\"a,m,v4-8,1,0,1,1,1\n", "quote"},
    };
#undef HEADER
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("case %d: %s", i, cases[i].part);
        struct base_error error;
        struct lab_comparison table;
        const char *path = write_temporary(arena, cases[i].text);
        assert_fails(lab_comparison_read(arena, path, &table, &error), BASE_INPUT, &error, cases[i].part);
        assert_non_null(strstr(error.text, path));
        unlink(path);
    }
}

/* ---- the finding ---- */

static void the_finding_is_counted(struct base_arena *arena)
{
    struct lab_comparison table = read_table(arena);
    struct lab_finding finding = lab_find(arena, &table);
    /* The errors are +10 %, -4 % and 0. */
    assert_int_equal(finding.pair_count, 3);
    assert_near(finding.mean_error_frac, 0.14 / 3, 1e-9);
    assert_near(finding.worst_error_frac, 0.1, 1e-9);
    assert_true(fabs(finding.median_error_frac) < 1e-12);
    assert_int_equal(finding.exceeded_count, 2);
    assert_int_equal(finding.exceeded_right_count, 1);
    assert_int_equal(finding.false_alarm_count, 1);
    assert_int_equal(finding.unpredicted_count, 2);
    assert_int_equal(finding.unmeasured_count, 2);
    assert_string_equal(lab_finding_title(arena, &finding),
                        "Predicted step time is within 4.7 % of 3 measured runs on average; 1 of 2 out-of-memory "
                        "verdicts right; 1 run wrongly predicted not to fit");
}

static void a_median_of_an_even_count_is_the_middle(struct base_arena *arena)
{
    struct lab_comparison table = read_table(arena);
    table.count = 2;
    struct lab_finding finding = lab_find(arena, &table);
    assert_near(finding.median_error_frac, 0.03, 1e-9);
    table.count = 1;
    finding = lab_find(arena, &table);
    struct lab_comparison_row died = table.rows[0];
    died.measured = LAB_MEMORY_EXCEEDED;
    assert_true(isnan(lab_step_error_frac(&died)));
    assert_string_equal(lab_finding_title(arena, &finding),
                        "Predicted step time is within 10.0 % of the one measured run");
}

static void a_run_that_died_without_a_prediction_is_no_wrong_verdict(struct base_arena *arena)
{
    struct lab_comparison table = read_table(arena);
    table.count = 1;
    struct lab_comparison_row died = table.rows[0];
    died.measured = LAB_MEMORY_EXCEEDED;
    died.predicted = LAB_MEMORY_UNKNOWN;
    table.rows = &died;
    struct lab_finding finding = lab_find(arena, &table);
    assert_int_equal(finding.exceeded_count, 0);
    assert_int_equal(finding.unpredicted_count, 1);
    assert_string_equal(lab_finding_title(arena, &finding), "No plan has both a prediction and a measurement");
}

static void percents_have_a_sign(struct base_arena *arena)
{
    static const struct {
        double frac;
        const char *text;
    } cases[] = {
        {0.0523, "+5.2 %"}, {-0.0523, "−5.2 %"}, {0.0001, "0.0 %"}, {-0.0001, "0.0 %"},
        {1.5, "+150 %"},    {99, "+9900 %"},     {1e6, ">9999 %"},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) assert_string_equal(lab_percent(arena, cases[i].frac), cases[i].text);
}

static void models_are_said_by_their_sizes(struct base_arena *arena)
{
    const char *rest;
    assert_string_equal(lab_model_words(arena, "decoder_only:emb_dim=8,vocab_size=9,num_layers=3", &rest),
                        "decoder_only: 3 layers, emb_dim 8");
    assert_string_equal(rest, "vocab_size=9");
    assert_string_equal(lab_model_words(arena, "t5_1_0_11B", &rest), "t5_1_0_11B");
    assert_string_equal(rest, "");
    assert_string_equal(lab_model_words(arena, "@dir:a=b/model.json", &rest), "@dir:a=b/model.json");
    assert_string_equal(lab_model_words(arena, "odd:a=1", &rest), "odd");
    assert_string_equal(rest, "a=1");
}

/* ---- the picture ---- */

static void every_row_is_in_the_picture(struct base_arena *arena)
{
    struct lab_comparison table = read_table(arena);
    const char *svg = draw(arena, &table, PLOTS_SVG).data;
    for (int i = 0; i < table.count; i++) {
        TEST_ROW("%s", table.rows[i].id);
        assert_int_equal(pictures_count(svg, base_print(arena, "<title>%s: ", table.rows[i].id)), 1);
    }
    static const char *const parts[] = {
        ">t5_1_0_11B on v4-512<",
        ">2,4,4,1<",
        ">+10.0 %<",
        ">−4.0 %<",
        ">agree<",
        ">disagree<",
        "ran out of memory; predicted not to fit, 47.5",
        "ran out of memory; predicted to fit",
        ">ran; predicted not to fit",
        ">not measured; predicted to fit",
        ">decoder_only: 2 layers, emb_dim 64, 4 heads on v4:2x2x1<",
    };
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        TEST_ROW("%s", parts[i]);
        assert_non_null(strstr(svg, parts[i]));
    }
}

static void names_are_escaped(struct base_arena *arena)
{
    struct lab_comparison table = read_table(arena);
    const char *svg = draw(arena, &table, PLOTS_SVG).data;
    assert_null(strstr(svg, "<&>"));
    assert_null(strstr(svg, "<others>"));
    assert_non_null(strstr(svg, "vocab_size=&lt;&amp;&gt;"));
    /* Outside of tags, an ampersand begins one of our entities. */
    assert_int_equal(pictures_count(svg, "&"), pictures_count(svg, "&lt;") + pictures_count(svg, "&gt;") +
                                                   pictures_count(svg, "&amp;") + pictures_count(svg, "&quot;"));
    assert_int_equal(pictures_count(svg, "<text"), pictures_count(svg, "</text>"));
    assert_int_equal(pictures_count(svg, "<title>"), pictures_count(svg, "</title>"));
}

static void the_same_table_gives_the_same_bytes(struct base_arena *arena)
{
    static const struct {
        enum plots_format format;
        const char *beginning;
    } cases[] = {{PLOTS_SVG, "<?xml"}, {PLOTS_PDF, "%PDF-"}, {PLOTS_PNG, "\x89PNG"}};
    struct lab_comparison small = read_table(arena), large = make_table(arena, 100, false);
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("format %s", cases[i].beginning);
        struct base_text first = draw(arena, &small, cases[i].format), between = draw(arena, &large, cases[i].format),
                         second = draw(arena, &small, cases[i].format);
        assert_int_equal(first.length, second.length);
        assert_memory_equal(first.data, second.data, first.length);
        assert_memory_equal(first.data, cases[i].beginning, strlen(cases[i].beginning));
        assert_true(between.length != first.length);
    }
}

static void words_stay_apart_and_on_the_page(struct base_arena *arena)
{
    static const int counts[] = {1, 2, 5, 28, 60};
    for (int i = 0; i < BASE_COUNT(counts); i++)
        for (int long_words = 0; long_words < 2; long_words++) {
            TEST_ROW("%d rows%s", counts[i], long_words ? ", long words" : "");
            struct plots_canvas canvas = {.arena = arena};
            struct lab_comparison table = make_table(arena, counts[i], long_words);
            lab_comparison_bars(&canvas, &table);
            pictures_check_words(&canvas);
        }
    TEST_ROW("the table of the tests");
    struct plots_canvas canvas = {.arena = arena};
    struct lab_comparison table = read_table(arena);
    lab_comparison_bars(&canvas, &table);
    pictures_check_words(&canvas);
}

/* Where cells are cut, so that two plans would look alike, each row carries its id. */
static void rows_can_be_told_apart(struct base_arena *arena)
{
    for (int long_words = 0; long_words < 2; long_words++) {
        TEST_ROW("%s words", long_words ? "long" : "short");
        struct plots_canvas canvas = {.arena = arena};
        struct lab_comparison table = make_table(arena, 24, long_words);
        lab_comparison_bars(&canvas, &table);
        int ids = 0;
        for (int i = 0; i < canvas.mark_count; i++)
            ids += canvas.marks[i].kind == PLOTS_TEXT && !strncmp(canvas.marks[i].text, "row-", 4);
        assert_int_equal(ids, 12); /* long words are cut in the middle, and end otherwise */
    }
}

static void what_is_cut_keeps_both_ends(struct base_arena *arena)
{
    static const char *const names[] = {"decoder/layers/self_attention/query_gradient_of_input_0",
                                        "decoder/layers/self_attention/query_gradient_of_input_1",
                                        "ä…ö ü, ä…ö ü, ä…ö ü, ä…ö ü"};
    for (double width_px = 40; width_px < 300; width_px += 7)
        for (int i = 0; i < BASE_COUNT(names); i++) {
            const char *fit = plots_fit(arena, PLOTS_SMALL, names[i], width_px), *cut = strstr(fit, "…");
            assert_true(plots_text_width(PLOTS_SMALL, fit) <= width_px);
            if (fit == names[i] || i == 2) continue;
            assert_non_null(cut);
            assert_memory_equal(fit, names[i], (size_t)(cut - fit));
            assert_string_equal(cut + strlen("…"), names[i] + strlen(names[i]) - strlen(cut + strlen("…")));
            assert_int_equal(fit[strlen(fit) - 1], names[i][strlen(names[i]) - 1]);
        }
}

static void an_axis_begins_near_what_it_shows(struct base_arena *arena)
{
    (void)arena;
    const double gib = 1 << 30;
    const struct plots_axis near = plots_axis_within(PLOTS_GIB, 67 * gib, 79 * gib, 0, 500, 70),
                            far = plots_axis_within(PLOTS_GIB, 7 * gib, 79 * gib, 0, 500, 70);
    assert_true(near.low > 60 * gib && near.low < 67 * gib && near.tick_count >= 3);
    for (int i = 0; i < near.tick_count; i++) assert_true(near.ticks[i] >= near.low && near.ticks[i] <= near.high);
    assert_near(far.low, 0, 0);
}

/* The ids of fully drawn rows from the top down: in bars the fastest stands first, what died last. */
static void bars_stand_in_the_order_of_speed(struct base_arena *arena)
{
    static const double speeds[] = {200, 500, NAN, 300, NAN};
    static const char *const order[] = {"row-1", "row-3", "row-0", "row-4", "row-2"};
    struct lab_comparison_row rows[BASE_COUNT(speeds)];
    for (int i = 0; i < BASE_COUNT(speeds); i++) {
        rows[i] = (struct lab_comparison_row){.id = base_print(arena, "row-%d", i),
                                              .model = "m",
                                              .topology = "v4-8",
                                              .measured_tokens_per_s = speeds[i],
                                              .predicted_tokens_per_s = 250,
                                              .measured_step_s = 1 / speeds[i],
                                              .predicted_step_s = 1.0 / 250,
                                              .measured = i == 2   ? LAB_MEMORY_EXCEEDED
                                                          : i == 4 ? LAB_MEMORY_UNKNOWN
                                                                   : LAB_MEMORY_FITS,
                                              .predicted = LAB_MEMORY_FITS,
                                              .error = ""};
        for (int key = 0; key < SIM_KEY_COUNT; key++) rows[i].plan[key] = "";
    }
    struct plots_canvas canvas = {.arena = arena};
    struct lab_comparison table = {rows, BASE_COUNT(speeds)};
    lab_comparison_bars(&canvas, &table);
    int seen = 0;
    for (int i = 0; i < canvas.mark_count; i++) {
        if (canvas.marks[i].kind != PLOTS_TEXT || strncmp(canvas.marks[i].text, "row-", 4) != 0) continue;
        assert_true(seen < BASE_COUNT(order));
        assert_string_equal(canvas.marks[i].text, order[seen++]);
    }
    assert_int_equal(seen, BASE_COUNT(order));
}

/* Every pair is a dot, where its two speeds say, and the title counts those that are near. */
static void a_parity_chart_holds_every_pair(struct base_arena *arena)
{
    struct lab_comparison table = make_table(arena, 300, false);
    struct plots_picture picture;
    struct base_error error;
    int pairs = 0, near = 0;
    for (int i = 0; i < table.count; i++) {
        const struct lab_comparison_row *row = &table.rows[i];
        const double frac = row->predicted_step_s / row->measured_step_s - 1;
        if (isnan(frac) || row->measured == LAB_MEMORY_EXCEEDED) continue;
        pairs++;
        near += fabs(frac) <= 0.1;
    }
    assert_ok(lab_parity(arena, &table, PLOTS_SVG, 0, &picture, &error), &error);
    assert_int_equal(pictures_count(picture.bytes.data, "<circle"), pairs);
    const char *beginning = base_print(arena, "%d of %d predicted step times are within 10 %%", near, pairs);
    assert_memory_equal(picture.title, beginning, strlen(beginning));
    table.count = 0;
    assert_fails(lab_parity(arena, &table, PLOTS_SVG, 0, &picture, &error), BASE_INPUT, &error, "nothing to draw");
}

/* Errors are those of step times, where speeds are unknown, too, and a long model's name does not hide how many rows.
 */
static void a_trust_chart_counts_step_times(struct base_arena *arena)
{
    static const struct lab_comparison_row of_step = {.id = "a",
                                                      .model = "decoder_only:emb_dim=8192,num_heads=64,num_layers=64,"
                                                               "mlp_dim=32768,vocab_size=32128,head_dim=128",
                                                      .topology = "v4-512",
                                                      .measured_step_s = 1,
                                                      .predicted_step_s = 1.25,
                                                      .measured_tokens_per_s = NAN,
                                                      .predicted_tokens_per_s = 4,
                                                      .measured_peak_memory_bytes = NAN,
                                                      .predicted_peak_memory_bytes = NAN,
                                                      .measured = LAB_MEMORY_FITS,
                                                      .predicted = LAB_MEMORY_FITS,
                                                      .error = ""};
    struct lab_comparison_row rows[] = {of_step, of_step, of_step};
    struct lab_comparison table = {rows, BASE_COUNT(rows)};
    struct plots_picture picture;
    struct base_error error;
    for (int i = 0; i < table.count; i++)
        for (int k = 0; k < SIM_KEY_COUNT; k++) rows[i].plan[k] = "";
    assert_ok(lab_trust(arena, &table, PLOTS_SVG, 0, &picture, &error), &error);
    assert_string_equal(picture.title,
                        "Half of 3 predicted step times are within 25.0 %, nine in ten within 25.0 %"); /* speeds: 20 */
    assert_non_null(strstr(picture.bytes.data, "(3)<"));
}

/* "1 microbatches" stands nowhere. */
static void one_is_no_plural(struct base_arena *arena)
{
    static const char *const counts[][2] = {{"1", "1 microbatch"}, {"4", "4 microbatches"}, {"12", "12 microbatches"}};
    int place = 0;
    while (strcmp(lab_plan_key(place)->chart.after, " microbatches") != 0) place++;
    for (int i = 0; i < BASE_COUNT(counts); i++) {
        struct lab_comparison_row row = {.id = ""};
        struct base_text text = {.arena = arena};
        row.plan[place] = counts[i][0];
        lab_put_key(&text, &row, place, "");
        assert_string_equal(text.data, i ? counts[i][1] : "1 microbatch");
    }
}

static void many_rows_are_dots_with_all_verdicts_counted(struct base_arena *arena)
{
    struct lab_comparison table = make_table(arena, 300, false);
    const struct lab_finding finding = lab_find(arena, &table);
    struct base_text svg = draw(arena, &table, PLOTS_SVG);
    int dots = 0;
    for (int i = 0; i < table.count; i++) {
        const double ratio = table.rows[i].predicted_tokens_per_s / table.rows[i].measured_tokens_per_s;
        dots += isfinite(ratio) && table.rows[i].measured != LAB_MEMORY_EXCEEDED;
    }
    assert_int_equal(pictures_count(svg.data, "<circle"), dots);
    assert_non_null(strstr(svg.data, base_print(arena, "of the %d that", finding.exceeded_count)));
}

/* Draws with an arena whose allocation of that number fails (0: none does). Returns how many there were. */
static int64_t draw_until(const struct lab_comparison *table, enum plots_format format, int64_t fail_after_count)
{
    jmp_buf exhausted;
    struct base_arena small = {.exhausted = &exhausted, .fail_after_count = fail_after_count};
    if (setjmp(exhausted) == 0) draw(&small, table, format);
    assert_ptr_equal(small.exhausted, &exhausted);
    base_arena_free(&small);
    return small.allocation_count;
}

/* The sanitizers see to it that nothing of Cairo or of the heap is lost on the way out. The last allocations are those
 * during and after the rendering: all of them fail once, of the others every seventh. */
static void an_arena_that_runs_out_leaves_nothing_behind(struct base_arena *arena)
{
    struct lab_comparison table = make_table(arena, 3, false);
    for (int format = PLOTS_SVG; format <= PLOTS_PNG; format++) {
        int64_t count = draw_until(&table, (enum plots_format)format, 0);
        assert_true(count > 100);
        for (int64_t n = 1; n <= count; n += n + 10 < count ? 7 : 1) {
            TEST_ROW("format %d, allocation %lld of %lld", format, (long long)n, (long long)count);
            assert_int_equal(draw_until(&table, (enum plots_format)format, n), n);
        }
    }
}

/* ---- words and axes ---- */

static void text_of_any_bytes_becomes_utf8(struct base_arena *arena)
{
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"plain", "plain"},
        {"", ""},
        {"a\nb\tc\x7f", "a b c "},
        {"gr\xC3\xBC\xC3\x9F", "grüß"},
        {"\xff", "\xEF\xBF\xBD"},
        {"a\xC3", "a\xEF\xBF\xBD"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC2\x85", " "},
        {"\xEF\xBF\xBF", "\xEF\xBF\xBD"},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("case %d", i);
        assert_string_equal(plots_clean(arena, cases[i].text), cases[i].clean);
    }
    char *big = memset(base_alloc(arena, 1 << 20, 1), 'x', (1 << 20) - 1);
    assert_true(strlen(plots_clean(arena, big)) < 1100);
}

static void words_are_shortened_and_wrapped(struct base_arena *arena)
{
    static const char text[] = "the quick brown fox jumps over the lazy dög, and the "
                               "wörd-that-is-longer-than-any-line-of-this-paragraph ends it";
    for (int width_px = 20; width_px < 700; width_px += 17) {
        TEST_ROW("%d px", width_px);
        const char *lines[3], *fit = plots_fit(arena, PLOTS_LABEL, text, width_px);
        assert_true(plots_text_width(PLOTS_LABEL, fit) <= width_px);
        assert_string_equal(plots_clean(arena, fit), fit);
        assert_int_equal(strcmp(fit, text) == 0, plots_text_width(PLOTS_LABEL, text) <= width_px);
        int count = plots_wrap(arena, PLOTS_LABEL, text, width_px, 3, lines);
        assert_in_range(count, 1, 3);
        for (int i = 0; i < count; i++) assert_true(plots_text_width(PLOTS_LABEL, lines[i]) <= width_px);
    }
    const char *lines[3];
    assert_int_equal(plots_wrap(arena, PLOTS_LABEL, "", 100, 3, lines), 0);
    assert_int_equal(plots_wrap(arena, PLOTS_LABEL, "one 10 %", plots_text_width(PLOTS_LABEL, "one 10") + 1, 3, lines),
                     2);
    assert_string_equal(lines[0], "one");
    assert_string_equal(lines[1], "10 %");
}

static void ticks_are_round_and_within(struct base_arena *arena)
{
    static const double highs[] = {1e-6, 0.9, 1, 7, 99, 321811.7, 1e9, 1e18};
    for (int i = 0; i < BASE_COUNT(highs); i++) {
        TEST_ROW("to %g", highs[i]);
        struct plots_axis axis = plots_axis_from_zero(highs[i], 100, 500, 60);
        assert_in_range(axis.tick_count, 2, PLOTS_MOST_TICKS);
        double step = axis.ticks[1], digit = step / pow(10, floor(log10(step) + 1e-9));
        assert_true(test_is_near(digit, 1, 1e-9) || test_is_near(digit, 2, 1e-9) || test_is_near(digit, 5, 1e-9));
        for (int t = 0; t < axis.tick_count; t++) assert_near(axis.ticks[t], t * step, 1e-9);
        assert_true(plots_axis_px(&axis, step) - 100 >= 60 * (1 - 1e-9) || axis.tick_count == 2);
        assert_true(axis.ticks[axis.tick_count - 1] <= highs[i] * (1 + 1e-9));
    }
    struct plots_axis empty = plots_axis_from_zero(0, 100, 500, 60);
    assert_int_equal(empty.tick_count, 0);
    assert_string_equal(plots_tick_text(arena, 250000), "250 k");
    assert_string_equal(plots_tick_text(arena, 0), "0");
    assert_string_equal(plots_tick_text(arena, 1e6), "1 M");
}

static void logarithmic_ticks_are_within(struct base_arena *arena)
{
    (void)arena;
    static const struct {
        double low, high;
    } ranges[] = {{1, 1}, {900, 1100}, {1000, 6e6}, {1e-9, 1e18}, {5, 5.001}};
    for (int i = 0; i < BASE_COUNT(ranges); i++) {
        TEST_ROW("%g to %g", ranges[i].low, ranges[i].high);
        struct plots_axis axis = plots_axis_logarithmic(ranges[i].low, ranges[i].high, 50, 650, 60);
        assert_in_range(axis.tick_count, 1, PLOTS_MOST_TICKS);
        for (int t = 0; t < axis.tick_count; t++)
            assert_true(axis.ticks[t] >= axis.low && axis.ticks[t] <= axis.high &&
                        (t == 0 || axis.ticks[t] > axis.ticks[t - 1]));
        assert_true(axis.low < ranges[i].low && axis.high > ranges[i].high);
        assert_near(plots_axis_px(&axis, axis.low), 50, 1e-9);
        assert_near(plots_axis_px(&axis, axis.high), 650, 1e-9);
    }
}

/* ---- the command ---- */

static enum base_status run_accuracy(struct base_arena *arena, const char *const *words, bool json,
                                     struct base_text *out, struct base_error *error)
{
    struct base_arguments arguments;
    struct commands_context context = {.arena = arena, .json = json};
    int count = 0;
    while (words[count]) count++;
    *out = (struct base_text){.arena = arena};
    int option_count;
    const struct base_option *options = commands_options(arena, &lab_accuracy, &option_count);
    BASE_TRY(base_arguments_parse(arena, options, option_count, lab_accuracy.positional_limit, count, words, &arguments,
                                  error));
    return lab_accuracy.run(&context, &arguments, out, error);
}

static void the_command_refuses_what_it_must(struct base_arena *arena)
{
    static const struct {
        const char *words[6];
        enum base_status status;
        const char *part;
    } cases[] = {
        {{NULL}, BASE_USAGE, "comparison"},
        {{"nothing", table_path, "--out", "/tmp/x.svg"}, BASE_USAGE, "comparison"},
        {{"comparison", "--out", "/tmp/x.svg"}, BASE_USAGE, "RESULT.csv"},
        {{"comparison", table_path}, BASE_USAGE, "--out"},
        {{"comparison", table_path, "--out", "/tmp/x.gif"}, BASE_INPUT, ".svg"},
        {{"comparison", table_path, "--out", "svg"}, BASE_INPUT, ".svg"},
        {{"comparison", "tests/data/no_such_table.csv", "--out", "/tmp/x.svg"}, BASE_INPUT, "no_such_table.csv"},
        {{"comparison", table_path, "--out", "/tmp/no_such_folder/x.svg"}, BASE_INPUT, "no_such_folder"},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("case %d", i);
        struct base_error error;
        struct base_text out;
        assert_fails(run_accuracy(arena, cases[i].words, false, &out, &error), cases[i].status, &error, cases[i].part);
        assert_int_equal(out.length, 0);
    }
}

static void the_command_writes_a_picture(struct base_arena *arena)
{
    static const char *const endings[] = {"svg", "pdf", "PNG"};
    char folder[] = "/tmp/meshwright-plots-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < BASE_COUNT(endings); i++) {
        TEST_ROW("%s", endings[i]);
        const char *path = base_print(arena, "%s/picture.%s", folder, endings[i]);
        const char *words[] = {"comparison", table_path, "--out", path, NULL};
        struct base_error error;
        struct base_text out;
        struct stat status;
        const struct base_json *document;
        assert_ok(run_accuracy(arena, words, true, &out, &error), &error);
        assert_ok(base_json_parse(arena, out.data, out.length, &document, &error), &error);
        assert_string_equal(base_json_get(document, "file")->string, path);
        assert_near(base_json_get(document, "row_count")->number, 8, 0);
        assert_int_equal(stat(path, &status), 0);
        assert_true(status.st_size > 1000);
        assert_int_equal(unlink(path), 0);
    }
    /* Nothing else was left there. */
    assert_int_equal(rmdir(folder), 0);
}

int main(int argument_count, char **arguments)
{
    static const struct test tests[] = {
        TEST(the_table_is_read),
        TEST(missing_tokens_follow_from_the_step),
        TEST(bad_tables_are_refused),
        TEST(the_finding_is_counted),
        TEST(a_median_of_an_even_count_is_the_middle),
        TEST(a_run_that_died_without_a_prediction_is_no_wrong_verdict),
        TEST(percents_have_a_sign),
        TEST(models_are_said_by_their_sizes),
        TEST(every_row_is_in_the_picture),
        TEST(names_are_escaped),
        TEST(the_same_table_gives_the_same_bytes),
        TEST(words_stay_apart_and_on_the_page),
        TEST(rows_can_be_told_apart),
        TEST(what_is_cut_keeps_both_ends),
        TEST(an_axis_begins_near_what_it_shows),
        TEST(bars_stand_in_the_order_of_speed),
        TEST(a_parity_chart_holds_every_pair),
        TEST(a_trust_chart_counts_step_times),
        TEST(one_is_no_plural),
        TEST(many_rows_are_dots_with_all_verdicts_counted),
        TEST(an_arena_that_runs_out_leaves_nothing_behind),
        TEST(text_of_any_bytes_becomes_utf8),
        TEST(words_are_shortened_and_wrapped),
        TEST(ticks_are_round_and_within),
        TEST(logarithmic_ticks_are_within),
        TEST(the_command_refuses_what_it_must),
        TEST(the_command_writes_a_picture),
    };
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
