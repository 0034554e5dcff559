/* Tests of base/: what base.h promises, on input that means harm. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "tests/test.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- status and message ---- */

static void error_message_is_cut_never_overrun(struct base_arena *arena)
{
    struct base_error error;
    char *big = memset(base_alloc(arena, 5001, 1), 'x', 5000);
    assert_int_equal(base_fail(&error, BASE_INPUT, "%s", big), BASE_INPUT);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_int_equal(base_fail_in(&error, "%s", big), BASE_INPUT);
    assert_true(strlen(error.text) < sizeof error.text);
}

static void error_place_comes_first(struct base_arena *arena)
{
    (void)arena;
    struct base_error error;
    base_fail(&error, BASE_USAGE, "batch_size: is %d", 7);
    assert_int_equal(base_fail_in(&error, "%s", "plan.json"), BASE_USAGE);
    assert_string_equal(error.text, "plan.json: batch_size: is 7");
}

/* ---- memory ---- */

static void arena_gives_zeroed_aligned_memory_that_does_not_overlap(struct base_arena *arena)
{
    enum { COUNT = 300 };
    static const size_t sizes[] = {0, 1, 15, 16, 17, 1000, 70000, 300000};
    unsigned char *blocks[COUNT];
    int64_t total_bytes = 0;
    for (int i = 0; i < COUNT; i++) {
        size_t size = sizes[i % BASE_COUNT(sizes)];
        TEST_ROW("block %d of %zu bytes", i, size);
        blocks[i] = base_alloc(arena, size, 1);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t at = 0; at < size; at++) assert_true(blocks[i][at] == 0);
        memset(blocks[i], i % 255 + 1, size);
        total_bytes += (int64_t)size;
    }
    for (int i = 0; i < COUNT; i++) {
        TEST_ROW("block %d at the end", i);
        for (size_t at = 0; at < sizes[i % BASE_COUNT(sizes)]; at++) assert_true(blocks[i][at] == i % 255 + 1);
    }
    assert_true(arena->allocated_bytes >= total_bytes);
}

static void arena_is_zeroed_again_after_reset(struct base_arena *arena)
{
    memset(base_alloc(arena, 5000, 1), 0xff, 5000);
    base_arena_reset(arena);
    assert_int_equal(arena->allocated_bytes, 0);
    const unsigned char *again = base_alloc(arena, 5000, 1);
    for (int i = 0; i < 5000; i++) assert_int_equal(again[i], 0);
}

/* True if the allocation jumped to the handler. */
static bool allocation_is_refused(struct base_arena *arena, size_t count, size_t size_bytes)
{
    jmp_buf here, *outer = arena->exhausted;
    bool refused = true;
    arena->exhausted = &here;
    if (setjmp(here) == 0) {
        base_alloc(arena, count, size_bytes);
        arena->exhausted = outer;
        return false;
    }
    arena->exhausted = outer;
    return refused;
}

/* A hint, whatever the place: large pages begin and end inside of it, and what stands there stays. */
static void large_pages_are_a_hint(struct base_arena *arena)
{
    enum { LARGE_PAGE = 2 << 20 };
    static const size_t sizes[] = {0, 1, 4095, LARGE_PAGE - 1, LARGE_PAGE, 2 * LARGE_PAGE + 5, 5 * LARGE_PAGE};
    for (int i = 0; i < BASE_COUNT(sizes); i++) {
        char *whole = base_alloc(arena, sizes[i] + 128, 1), *at = whole + 64;
        memset(whole, 7, sizes[i] + 128);
        base_prefer_large_pages(at, sizes[i]);
        for (size_t b = 0; b < sizes[i] + 128; b += 61) assert_int_equal(whole[b], 7);
        memset(at, 9, sizes[i]);
        assert_int_equal(whole[63], 7);
        assert_int_equal(at[sizes[i]], 7);
    }
    base_prefer_large_pages(NULL, 0);
}

static void arena_refuses_sizes_that_overflow(struct base_arena *arena)
{
    static const struct {
        size_t count, size_bytes;
    } rows[] = {{SIZE_MAX, 1},           {SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 2 + 1, 2},
                {SIZE_MAX / 16 + 2, 16}, {(size_t)-1, 8},      {SIZE_MAX / 8, 1}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%zu x %zu bytes", rows[i].count, rows[i].size_bytes);
        assert_true(allocation_is_refused(arena, rows[i].count, rows[i].size_bytes));
    }
    assert_false(allocation_is_refused(arena, 10, 10));
}

/* Something of everything that allocates. Returns a digest of what came out. */
static size_t work_that_allocates(struct base_arena *arena)
{
    static const char json[] = "{\"a\": [1, 2, {\"b\": \"text\"}], \"c\": null}",
                      csv_text[] = "x,y\n1,\"a \"\"b\"\"\"\n2,c\n";
    static const struct base_option options[] = {{"--model", "M", "", NULL}};
    const char *const words[] = {"--model", "t5", "plan.json"};
    struct base_error error;
    const struct base_json *document = NULL;
    base_json_parse(arena, json, strlen(json), &document, &error);
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text};
    base_json_put_value(&writer, document);
    struct base_csv csv;
    base_csv_open_text(&csv, arena, "table", csv_text, &error);
    for (bool more = true; more;) {
        base_csv_next(&csv, &more, &error);
        base_put_csv(&text, base_csv_field(&csv, 1));
    }
    struct base_arguments arguments;
    base_arguments_parse(arena, options, 1, 1, 3, words, &arguments, &error);
    base_put(&text, base_print(arena, "%s %s", base_argument(&arguments, "--model"),
                               base_copy(arena, arguments.positional[0])));
    for (int i = 0; i < 200; i++) base_putf(&text, "%d,", i);
    return text.length;
}

/* The arena of the work, or SIZE_MAX if the allocation of that number failed as it was told to. */
static size_t work_with_failure(int64_t fail_after_count)
{
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted, .fail_after_count = fail_after_count};
    if (setjmp(exhausted) != 0) {
        base_arena_free(&arena);
        return SIZE_MAX;
    }
    size_t length = work_that_allocates(&arena);
    base_arena_free(&arena);
    return length;
}

static void arena_failure_at_every_allocation_reaches_the_handler(struct base_arena *arena)
{
    size_t whole = work_that_allocates(arena);
    int64_t count = arena->allocation_count;
    assert_true(count > 15 && whole > 700);
    for (int64_t n = 1; n <= count; n++) {
        TEST_ROW("allocation %lld of %lld fails", (long long)n, (long long)count);
        assert_true(work_with_failure(n) == SIZE_MAX);
    }
    assert_int_equal(work_with_failure(count + 1), whole);
}

/* ---- growing text ---- */

static void text_grows_and_stays_terminated(struct base_arena *arena)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < 3000; i++) {
        base_putf(&text, "%04d", i);
        assert_int_equal(text.length, (size_t)(4 * (i + 1)));
        assert_int_equal(strlen(text.data), text.length);
    }
    assert_memory_equal(text.data + 4 * 1234, "1234", 4);
    base_put_bytes(&text, "a\0b", 3);
    assert_int_equal(text.length, 12003);
}

static void text_is_terminated_once_anything_was_put_even_nothing(struct base_arena *arena)
{
    struct base_text formatted = {.arena = arena}, plain = {.arena = arena};
    base_putf(&formatted, "%s", "");
    base_put(&plain, "");
    assert_non_null(formatted.data);
    assert_string_equal(formatted.data, "");
    assert_string_equal(plain.data, "");
}

static void text_writes_whole_numbers(struct base_arena *arena)
{
    static const struct {
        int64_t value;
        const char *want;
    } rows[] = {{0, "0"},
                {-1, "-1"},
                {1234567890123, "1234567890123"},
                {INT64_MAX, "9223372036854775807"},
                {INT64_MIN, "-9223372036854775808"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_text text = {.arena = arena};
        base_put_int(&text, rows[i].value);
        assert_string_equal(text.data, rows[i].want);
    }
}

static void text_writes_doubles_short_and_exact(struct base_arena *arena)
{
    static const struct {
        double value;
        const char *want;
    } rows[] = {{0.1, "0.1"},
                {1.0 / 3, "0.3333333333333333"},
                {0.1 + 0.2, "0.30000000000000004"},
                {1e6, "1000000"},
                {-2.5, "-2.5"},
                {0.0, "0"},
                {-0.0, "-0"},
                {1e22, "1e+22"},
                {2e15, "2000000000000000"},
                {9007199254740992.0, "9007199254740992"},
                {275e12, "275000000000000"},
                {1e-9, "1e-09"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_text text = {.arena = arena};
        base_put_double(&text, rows[i].value);
        assert_string_equal(text.data, rows[i].want);
    }
}

/* Any finite double from 64 random bits. */
static double any_double(struct base_random *random)
{
    for (;;) {
        uint64_t bits = (uint64_t)base_random_next(random) << 32;
        bits |= base_random_next(random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) return value;
    }
}

/* At most three doubles away from a power of ten or of two, where the number of digits and the spacing change. */
static double beside_a_round_number(struct base_random *random)
{
    bool of_ten = base_random_below(random, 2);
    double value =
        of_ten ? pow(10, (double)base_random_below(random, 24) - 8) : ldexp(1, (int)base_random_below(random, 90) - 40);
    double towards = base_random_below(random, 2) ? INFINITY : 0;
    for (int steps = (int)base_random_below(random, 4); steps > 0; steps--) value = nextafter(value, towards);
    return base_random_below(random, 2) ? value : -value;
}

/* The fewest of 15 to 17 digits that read back, tried one after the other. */
static void text_writes_doubles_as_short_as_they_read_back(struct base_arena *arena)
{
    struct base_random random;
    base_random_seed(&random, 5);
    for (int i = 0; i < 20000; i++) {
        double value = any_double(&random);
        if (i % 2)
            value = (double)base_random_below(&random, 1000000007) / (double)(1 + base_random_below(&random, 9999));
        if (i % 7 == 0) value *= 1e-310; /* numbers that are not normal have fewer bits */
        if (i % 5 == 0) value = beside_a_round_number(&random);
        char want[40];
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(want, sizeof want, "%.*g", digits, value);
            if (strtod(want, NULL) == value) break;
        }
        struct base_text text = {.arena = arena};
        base_put_double(&text, value);
        assert_true(strtod(text.data, NULL) == value);
        if (fabs(value) > 9e15 || value != (double)(int64_t)value) assert_string_equal(text.data, want);
    }
}

/* ---- numbers ---- */

static void numbers_whole_within_bounds(struct base_arena *arena)
{
    (void)arena;
    static const struct {
        const char *text;
        int64_t low, high;
        bool good;
        int64_t want;
    } rows[] = {{"0", 0, 10, true, 0},
                {"10", 0, 10, true, 10},
                {"11", 0, 10, false, 0},
                {"-1", 0, 10, false, 0},
                {"-5", -5, 10, true, -5},
                {"+3", 0, 10, true, 3},
                {"9223372036854775807", 0, INT64_MAX, true, INT64_MAX},
                {"9223372036854775808", 0, INT64_MAX, false, 0},
                {"-9223372036854775808", INT64_MIN, 0, true, INT64_MIN},
                {"-9223372036854775809", INT64_MIN, 0, false, 0},
                {"99999999999999999999999999999999999999", 0, INT64_MAX, false, 0},
                {"", 0, 10, false, 0},
                {"-", -5, 10, false, 0},
                {"1 ", 0, 10, false, 0},
                {" 1", 0, 10, false, 0},
                {"1.0", 0, 10, false, 0},
                {"1e3", 0, 9999, false, 0},
                {"0x10", 0, 99, false, 0},
                {"--1", -5, 5, false, 0},
                {"1_000", 0, 9999, false, 0},
                {"\xd9\xa1", 0, 10, false, 0}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("\"%s\" from %lld to %lld", rows[i].text, (long long)rows[i].low, (long long)rows[i].high);
        struct base_error error;
        int64_t out = -77;
        enum base_status status = base_parse_int(rows[i].text, "batch_size", rows[i].low, rows[i].high, &out, &error);
        if (rows[i].good) assert_ok(status, &error);
        else assert_fails(status, BASE_INPUT, &error, "batch_size: ");
        assert_int_equal(out, rows[i].good ? rows[i].want : -77);
    }
}

static void a_switch_is_on_or_off(struct base_arena *arena)
{
    (void)arena;
    struct base_error error;
    int64_t out;
    assert_fails(base_parse_int("true", "compile", 0, 1, &out, &error), BASE_INPUT, &error,
                 "compile: \"true\" is unknown; use 1 or 0");
}

static void numbers_real_within_bounds(struct base_arena *arena)
{
    (void)arena;
    static const struct {
        const char *text;
        bool good;
        double want;
    } rows[] = {{"0.5", true, 0.5}, {"1e-3", true, 1e-3},    {"-2", true, -2},     {"1e3", true, 1000},
                {"1001", false, 0}, {"1e400", false, 0},     {"-1e400", false, 0}, {"nan", false, 0},
                {"inf", false, 0},  {"-infinity", false, 0}, {"0x1p3", false, 0},  {"", false, 0},
                {".", false, 0},    {"1,5", false, 0},       {" 1", false, 0},     {"1 ", false, 0},
                {"1e", false, 0},   {"1..2", false, 0},      {"e5", false, 0},     {"GB", false, 0}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("\"%s\"", rows[i].text);
        struct base_error error;
        double out = -77;
        enum base_status status = base_parse_double(rows[i].text, "learning_rate", -1000, 1000, &out, &error);
        if (rows[i].good) assert_ok(status, &error);
        else assert_fails(status, BASE_INPUT, &error, "learning_rate: ");
        assert_near(out, rows[i].good ? rows[i].want : -77, 0);
    }
}

/* Of few digits or many, with a point anywhere and powers of ten around those that doubles hold exactly: to the bit
 * what strtod reads. */
static void numbers_real_as_strtod(struct base_arena *arena)
{
    (void)arena;
    struct base_random random;
    base_random_seed(&random, 11);
    for (int n = 0; n < 100000; n++) {
        char text[64], *at = text;
        const int digits = 1 + (int)base_random_below(&random, 18), point = (int)base_random_below(&random, 20);
        if (base_random_below(&random, 4) == 0) *at++ = "+-"[base_random_below(&random, 2)];
        for (int i = 0; i < digits; i++) {
            if (i == point) *at++ = '.';
            *at++ = (char)('0' + base_random_below(&random, 10));
        }
        *at = '\0';
        const char mark = "eE"[base_random_below(&random, 2)];
        if (base_random_below(&random, 2)) snprintf(at, 16, "%c%d", mark, (int)base_random_below(&random, 61) - 30);
        TEST_ROW("%s", text);
        struct base_error error;
        double out = -77;
        const double want = strtod(text, NULL);
        assert_ok(base_parse_double(text, "rate", -1e60, 1e60, &out, &error), &error);
        assert_memory_equal(&out, &want, sizeof out);
    }
}

static void numbers_of_bytes(struct base_arena *arena)
{
    (void)arena;
    static const struct {
        const char *text;
        int64_t want; /* -77: refused */
    } rows[] = {{"0", 0},
                {"14680064", 14680064},
                {"14MiB", 14680064},
                {"14 MiB", 14680064},
                {"1B", 1},
                {"1.5GB", 1500000000},
                {"14.68MB", 14680000},
                {"1024TiB", INT64_C(1) << 50},
                {"1kB", 1000},
                {"0.5KiB", 512},
                {"1025TiB", -77},
                {"1e400TB", -77},
                {"", -77},
                {"MiB", -77},
                {"-1", -77},
                {"1.5", -77},
                {"1.5B", -77},
                {"1 ", -77},
                {" 1", -77},
                {"1mib", -77},
                {"1MiBs", -77},
                {"1..5MiB", -77},
                {".MiB", -77},
                {"1e3", -77},
                {"0x10", -77},
                {"nan", -77},
                {"99999999999999999999999999", -77}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("\"%s\"", rows[i].text);
        struct base_error error;
        int64_t out = -77;
        enum base_status status = base_parse_bytes(rows[i].text, "--bytes", INT64_C(1) << 50, &out, &error);
        if (rows[i].want >= 0) assert_ok(status, &error);
        else assert_fails(status, BASE_INPUT, &error, "--bytes: ");
        assert_int_equal(out, rows[i].want);
    }
}

static void counts_as_people_write_them(struct base_arena *arena)
{
    static const struct {
        const char *text;
        int64_t want; /* -77: refused */
    } rows[] = {{"15T", 15000000000000},
                {"1.4T", 1400000000000},
                {"300B", 300000000000},
                {"300b", 300000000000},
                {"0.3 trillion", 300000000000},
                {"2 Million", 2000000},
                {"250k", 250000},
                {"1e12", 1000000000000},
                {"1.5e3", 1500},
                {"300_000_000", 300000000},
                {"300,000,000", 300000000},
                {"8.0", 8},
                {"7", 7},
                {"1.5", -77},
                {"0.0001k", -77},
                {"3,2", -77},
                {"3,2000", -77},
                {"1,000.5M", -77},
                {",000", -77},
                {"1__000", -77},
                {"1_00", -77},
                {"15TT", -77},
                {"15 T ", -77},
                {"T", -77},
                {"", -77},
                {"-5", -77},
                {"1e400", -77},
                {"1e19", -77},
                {"9e5T", 900000000000000000},
                {"9e6T", -77},
                {"nan", -77},
                {"0x10", -77},
                {"1Gi", -77}};
    (void)arena;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("\"%s\"", rows[i].text);
        struct base_error error;
        int64_t out = -77;
        enum base_status status =
            base_parse_count(rows[i].text, "--train-tokens", 1, 1000000000000000000, &out, &error);
        if (rows[i].want >= 0) assert_ok(status, &error);
        else assert_fails(status, BASE_INPUT, &error, "--train-tokens: ");
        assert_int_equal(out, rows[i].want);
    }
}

static void numbers_in_a_list(struct base_arena *arena)
{
    enum { LIMIT = 4, LONG_BYTES = 1 << 16 };
    char *thousands_of_digits = memset(base_alloc(arena, LONG_BYTES + 1, 1), '9', LONG_BYTES);
    const struct {
        const char *text;
        int count;
    } rows[] = {{"4,2,2,1", 4}, {"1", 1},      {"1,2", 2},   {"", 0},           {",", 0},
                {"1,", 0},      {",1", 0},     {"1,,2", 0},  {"1,2,3,4,5", 0},  {"1;2", 0},
                {"1, 2", 2},    {"(4, 2)", 2}, {"[1]", 1},   {"(1,2", 0},       {"()", 0},
                {"1 2", 0},     {"0,1", 0},    {"1,513", 0}, {"4294967297", 0}, {thousands_of_digits, 0}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("\"%.40s\"", rows[i].text);
        struct base_error error;
        int64_t out[LIMIT + 1] = {-1, -1, -1, -1, -1};
        int count = -1;
        enum base_status status =
            base_parse_ints(rows[i].text, "model_parallel_submesh", 1, 512, LIMIT, out, &count, &error);
        if (rows[i].count) assert_ok(status, &error);
        else assert_fails(status, BASE_INPUT, &error, "model_parallel_submesh: ");
        assert_int_equal(count, rows[i].count ? rows[i].count : -1);
        assert_int_equal(out[LIMIT], -1);
    }
}

static void numbers_ceil_div_does_not_overflow(struct base_arena *arena)
{
    (void)arena;
    assert_int_equal(base_ceil_div(29, 2), 15);
    assert_int_equal(base_ceil_div(28, 2), 14);
    assert_int_equal(base_ceil_div(0, 7), 0);
    assert_int_equal(base_ceil_div(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(base_ceil_div(INT64_MAX, INT64_MAX - 1), 2);
}

static void numbers_for_people(struct base_arena *arena)
{
    (void)arena;
    static const struct {
        char *(*format)(char[BASE_HUMANE], double);
        double value;
        const char *want;
    } rows[] = {{base_format_bytes, 33017561088.0, "30.75 GiB"},
                {base_format_bytes, 34359738368.0, "32 GiB"},
                {base_format_bytes, 0, "0 B"},
                {base_format_bytes, 1048575, "1 MiB"},
                {base_format_bytes, 512, "512 B"},
                {base_format_bytes, -2147483648.0, "-2 GiB"},
                {base_format_seconds, 1.507, "1.51 s"},
                {base_format_seconds, 0, "0 s"},
                {base_format_seconds, 0.9999999, "1 s"},
                {base_format_seconds, 2.5e-6, "2.50 µs"},
                {base_format_seconds, INFINITY, "unknown"},
                {base_format_seconds, NAN, "unknown"},
                {base_format_count, 304402, "304.4 k"},
                {base_format_count, 16, "16"},
                {base_format_count, 999999, "1 M"},
                {base_format_count, 6.87e10, "68.70 G"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        char buffer[BASE_HUMANE];
        TEST_ROW("%.17g as %s", rows[i].value, rows[i].want);
        assert_string_equal(rows[i].format(buffer, rows[i].value), rows[i].want);
    }
    char buffer[BASE_HUMANE];
    assert_true(strlen(base_format_bytes(buffer, 1e300)) < BASE_HUMANE);
}

static void nearest_name(struct base_arena *arena)
{
    static const char *const names[] = {"--batch-size", "--model", "--topology", "--num-microbatches", "gin", "topk"};
    char *long_name = memset(base_alloc(arena, 10001, 1), 'm', 10000);
    const struct {
        const char *text, *want;
    } rows[] = {{"--batchsize", "--batch-size"},
                {"--modle", "--model"},
                {"--topolgy", "--topology"},
                {"gni", "gin"},
                {"nope", NULL}, /* half of its letters are topk's */
                {"--num-microbatch", "--num-microbatches"},
                {"--model", "--model"},
                {"wholly different", NULL},
                {long_name, NULL},
                {"", NULL}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("\"%.40s\"", rows[i].text);
        const char *found = base_nearest(rows[i].text, names, BASE_COUNT(names));
        assert_string_equal(found ? found : "none", rows[i].want ? rows[i].want : "none");
    }
    assert_null(base_nearest("x", names, 0));
}

static void words_are_read_or_listed_with_the_nearest(struct base_arena *arena)
{
    static const char *const names[] = {"none", "minimal", "full"};
    struct base_error error;
    int found = -1;
    (void)arena;
    assert_ok(base_parse_word("minimal", "remat_policy", names, BASE_COUNT(names), &found, &error), &error);
    assert_int_equal(found, 1);
    assert_fails(base_parse_word("minimol", "remat_policy", names, BASE_COUNT(names), &found, &error), BASE_INPUT,
                 &error, "remat_policy: \"minimol\" is unknown; did you mean minimal? Use none, minimal or full");
    assert_fails(base_parse_word("x1y2z3", "remat_policy", names, BASE_COUNT(names), &found, &error), BASE_INPUT,
                 &error, "remat_policy: \"x1y2z3\" is unknown; use none, minimal or full");
    assert_fails(base_parse_word("", "remat_policy", names, BASE_COUNT(names), &found, &error), BASE_INPUT, &error,
                 "\"\" is unknown");
    assert_int_equal(found, 1);
}

static void unknown_names_of_any_length_fit_the_message(struct base_arena *arena)
{
    enum { MANY = 200 };
    const char *names[MANY];
    struct base_error error;
    char *given = memset(base_alloc(arena, 100001, 1), 'q', 100000);
    for (int i = 0; i < MANY; i++) names[i] = base_print(arena, "a_rather_long_name_%d", i);
    assert_int_equal(base_fail_unknown(&error, BASE_USAGE, "thing", given, names, MANY), BASE_USAGE);
    assert_true(strlen(error.text) < sizeof error.text);
    assert_non_null(strstr(error.text, "a_rather_long_name_0, a_rather_long_name_1"));
}

/* ---- JSON ---- */

static enum base_status parse(struct base_arena *arena, const char *text, const struct base_json **out,
                              struct base_error *error)
{
    return base_json_parse(arena, text, strlen(text), out, error);
}

static void json_reads_what_is_json(struct base_arena *arena)
{
    struct base_error error;
    const struct base_json *document;
    assert_ok(parse(arena,
                    " {\"a\": [1, -2.5e3, true, false, null, \"x\\n\\u00e9\\ud83d\\ude00\"], \"A\": {}, \"\": []}\n",
                    &document, &error),
              &error);
    assert_int_equal(document->kind, BASE_JSON_OBJECT);
    assert_int_equal(document->count, 3);
    const struct base_json *list = base_json_get(document, "a");
    assert_int_equal(list->count, 6);
    static const enum base_json_kind kinds[] = {BASE_JSON_NUMBER, BASE_JSON_NUMBER, BASE_JSON_TRUE,
                                                BASE_JSON_FALSE,  BASE_JSON_NULL,   BASE_JSON_STRING};
    const struct base_json *item = list->child;
    for (int i = 0; i < BASE_COUNT(kinds); i++, item = i < BASE_COUNT(kinds) ? item->next : item)
        assert_int_equal(item->kind, kinds[i]);
    assert_near(list->child->next->number, -2500, 0);
    assert_string_equal(item->string, "x\n\xc3\xa9\xf0\x9f\x98\x80");
    assert_null(item->next);
    assert_int_equal(base_json_get(document, "A")->kind, BASE_JSON_OBJECT);
    assert_int_equal(base_json_get(document, "")->kind, BASE_JSON_ARRAY);
    assert_null(base_json_get(document, "b"));
    assert_null(base_json_get(list, "a"));
}

static void json_refuses_what_is_not(struct base_arena *arena)
{
    static const struct {
        const char *text, *part;
    } rows[] = {{"", "empty"},
                {"  \n", "empty"},
                {"{", "line 1"},
                {"[1,]", "line 1"},
                {"{\"a\":1,}", "line 1"},
                {"{a:1}", "line 1"},
                {"'a'", "line 1"},
                {"[1] [2]", "line 1"},
                {"[1]\n\n x", "line 3"},
                {"nul", "line 1"},
                {"True", "line 1"},
                {"NaN", "line 1"},
                {"Infinity", "line 1"},
                {"-", "line 1"},
                {"+1", "line 1"},
                {"01", "line 1"},
                {"-01", "line 1"},
                {"1.", "line 1"},
                {".5", "line 1"},
                {"-.5", "line 1"},
                {"1e", "line 1"},
                {"[1.e5]", "line 1"},
                {"0x10", "line 1"},
                {"{\"a\" 1}", "line 1"},
                {"[1 2]", "line 1"},
                {"\"abc", "line 1"},
                {"\"\\x41\"", "line 1"},
                {"\"\\ud800\"", "line 1"},
                {"\"\\u12\"", "line 1"},
                {"\"a\\u0000b\"", "line 1"},
                {"{\"k\\u0000\":1}", "line 1"},
                {"[\n\"a\nb\"]", "line 2"},
                {"[\"a\tb\"]", "line 1"},
                {"[1,\x01 2]", "line 1"},
                {"// no\n1", "line 1"},
                {"[1e999]", "too large"},
                {"{\"n\": -1e999}", "n: is too large"},
                {"{\"a\":1,\"b\":2,\"a\":3}", "a: is a duplicate"},
                {"[{\"x\":{\"k\":1,\"\\u006b\":2}}]", "k: is a duplicate"},
                {"\"\xff\"", "not UTF-8"},
                {"\"\xc0\xaf\"", "not UTF-8"},
                {"\"\xed\xa0\x80\"", "not UTF-8"},
                {"\"\xf4\x90\x80\x80\"", "not UTF-8"},
                {"\"\xe2\x82\"", "not UTF-8"},
                {"\"\xe0\x80\xaf\"", "not UTF-8"},
                {"[\n\n\"\x80\"]", "line 3: not UTF-8"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%d: %s", i, rows[i].text);
        struct base_error error;
        const struct base_json *document = NULL;
        assert_fails(parse(arena, rows[i].text, &document, &error), BASE_INPUT, &error, rows[i].part);
        assert_null(document);
        assert_null(strchr(error.text, '\n'));
    }
}

static void json_refuses_nul_bytes(struct base_arena *arena)
{
    struct base_error error;
    const struct base_json *document;
    assert_fails(base_json_parse(arena, "[1]\n\0", 5, &document, &error), BASE_INPUT, &error, "line 2: a NUL byte");
    assert_fails(base_json_parse(arena, "[\"a\0b\"]", 7, &document, &error), BASE_INPUT, &error, "NUL");
}

static const char *nested(struct base_arena *arena, int levels)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < levels; i++) base_put(&text, i % 2 ? "{\"a\":" : "[");
    base_put(&text, "1");
    for (int i = levels - 1; i >= 0; i--) base_put(&text, i % 2 ? "}" : "]");
    return text.data;
}

/* The page behind the document is nobody's. */
static void json_reads_nothing_behind_its_end(struct base_arena *arena)
{
    static const char *const documents[] = {"1", "\"a\"", "[1]", "{\"a\":1.5e3}", "-", "\"a", " "};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    for (int i = 0; i < BASE_COUNT(documents); i++) {
        const struct base_json *document;
        struct base_error error;
        const size_t length = strlen(documents[i]);
        TEST_ROW("%s", documents[i]);
        memcpy(pages + page - length, documents[i], length);
        assert_int_equal(base_json_parse(arena, pages + page - length, length, &document, &error),
                         i < 4 ? BASE_OK : BASE_INPUT);
    }
    munmap(pages, 2 * page);
}

static void *out_of_memory(size_t size)
{
    (void)size;
    return errno = ENOMEM, NULL;
}

/* A manifest once said "8" for 8, since the number could not be read for want of memory. */
static void json_does_not_blame_a_text_for_want_of_memory(struct base_arena *arena)
{
    jmp_buf exhausted, *outer = arena->exhausted;
    const struct base_json *document;
    struct base_error error;
    volatile bool blames = false;
    arena->exhausted = &exhausted;
    cJSON_InitHooks(&(cJSON_Hooks){out_of_memory, free});
    if (!setjmp(exhausted)) blames = parse(arena, "8", &document, &error) != BASE_OK;
    cJSON_InitHooks(NULL);
    arena->exhausted = outer;
    assert_false(blames);
}

static void json_depth_is_bounded(struct base_arena *arena)
{
    struct base_error error;
    const struct base_json *document;
    assert_ok(parse(arena, nested(arena, 64), &document, &error), &error);
    assert_fails(parse(arena, nested(arena, 65), &document, &error), BASE_INPUT, &error, "deeper than 64 levels");
    assert_fails(parse(arena, nested(arena, 500000), &document, &error), BASE_INPUT, &error, "deeper than 64 levels");
    assert_ok(parse(arena, "\"[[[[ \\\" [[[[\"", &document, &error), &error);
}

static void json_deepest_document_is_written_again(struct base_arena *arena)
{
    struct base_error error;
    const struct base_json *document;
    assert_ok(parse(arena, nested(arena, 64), &document, &error), &error);
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    base_json_open(&writer, '[');
    base_json_put_value(&writer, document);
    base_json_put_int(&writer, 7);
    base_json_close(&writer, ']');
    assert_string_equal(text.data, base_print(arena, "[%s,7]\n", nested(arena, 64)));
    assert_int_equal(writer.depth, 0);
}

static void json_many_keys_take_no_quadratic_time(struct base_arena *arena)
{
    enum { KEYS = 200000 };
    struct base_error error;
    const struct base_json *document;
    struct base_text text = {.arena = arena};
    base_put(&text, "{");
    for (int i = 0; i < KEYS; i++) base_putf(&text, "%s\"key number %d\":%d", i ? "," : "", i, i);
    base_put(&text, "}");
    assert_ok(base_json_parse(arena, text.data, text.length, &document, &error), &error);
    assert_int_equal(document->count, KEYS);
    text.length--;
    base_put(&text, ",\"key number 77\":0}");
    assert_fails(base_json_parse(arena, text.data, text.length, &document, &error), BASE_INPUT, &error,
                 "key number 77: is a duplicate");
}

static void json_every_prefix_and_every_changed_byte_is_survived(struct base_arena *arena)
{
    static const char whole[] = "{\"model\":\"t5\\u00e9\",\"list\":[1.5e3,-2,true,null,{\"a\":[]}]}";
    struct base_error error;
    const struct base_json *document;
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        TEST_ROW("the first %zu bytes", length);
        assert_fails(parse(arena, base_copy_bytes(arena, whole, length), &document, &error), BASE_INPUT, &error, "");
    }
    struct base_random random;
    base_random_seed(&random, 1);
    for (int i = 0; i < 20000; i++) {
        char *changed = base_copy(arena, whole);
        changed[base_random_below(&random, sizeof whole - 1)] = (char)base_random_below(&random, 256);
        TEST_ROW("change %d: %s", i, changed);
        if (base_json_parse(arena, changed, sizeof whole - 1, &document, &error) != BASE_OK) continue;
        struct base_text first = {.arena = arena}, second = {.arena = arena};
        struct base_json_writer writer = {.text = &first}, again = {.text = &second};
        base_json_put_value(&writer, document);
        assert_ok(base_json_parse(arena, first.data, first.length, &document, &error), &error);
        base_json_put_value(&again, document);
        assert_string_equal(first.data, second.data);
        if (i % 100 == 0) base_arena_reset(arena);
    }
}

static void json_doubles_survive_the_round_trip(struct base_arena *arena)
{
    struct base_random random;
    base_random_seed(&random, 2);
    for (int i = 0; i < 20000; i++) {
        double value = any_double(&random);
        TEST_ROW("%a", value);
        struct base_text text = {.arena = arena};
        struct base_json_writer writer = {.text = &text};
        base_json_open(&writer, '[');
        base_json_put_double(&writer, value);
        base_json_close(&writer, ']');
        struct base_error error;
        const struct base_json *document;
        assert_ok(base_json_parse(arena, text.data, text.length, &document, &error), &error);
        assert_memory_equal(&document->child->number, &value, sizeof value);
        base_arena_reset(arena);
    }
}

static void json_layout(struct base_arena *arena)
{
    static const char *const wants[] = {
        "{\n  \"a\": 1,\n  \"list\": [1, 2],\n  \"empty\": {},\n  \"inner\": {\n    \"s\": \"q\\\"\\\\\\n\\u0001\",\n  "
        "  \"none\": null\n  },\n  \"x\": null,\n  \"yes\": true\n}\n",
        "{\"a\":1,\"list\":[1,2],\"empty\":{},\"inner\":{\"s\":\"q\\\"\\\\\\n\\u0001\",\"none\":null},\"x\":null,"
        "\"yes\":true}\n"};
    for (int compact = 0; compact < 2; compact++) {
        struct base_text text = {.arena = arena};
        struct base_json_writer writer = {.text = &text, .layout = compact ? BASE_JSON_ONE_LINE : BASE_JSON_INDENTED};
        base_json_open(&writer, '{');
        base_json_key(&writer, "a");
        base_json_put_int(&writer, 1);
        base_json_key(&writer, "list");
        base_json_open_inline(&writer, '[');
        base_json_put_int(&writer, 1);
        base_json_put_double(&writer, 2);
        base_json_close(&writer, ']');
        base_json_key(&writer, "empty");
        base_json_open(&writer, '{');
        base_json_close(&writer, '}');
        base_json_key(&writer, "inner");
        base_json_open(&writer, '{');
        base_json_key(&writer, "s");
        base_json_put_string(&writer, "q\"\\\n\x01");
        base_json_key(&writer, "none");
        base_json_put_string(&writer, NULL);
        base_json_close(&writer, '}');
        base_json_key(&writer, "x");
        base_json_put_double(&writer, NAN);
        base_json_key(&writer, "yes");
        base_json_put_bool(&writer, true);
        base_json_close(&writer, '}');
        assert_string_equal(text.data, wants[compact]);
    }
}

static void json_written_strings_are_always_utf8(struct base_arena *arena)
{
    static const struct {
        const char *value, *want;
    } rows[] = {{"a\xff"
                 "b",
                 "\"a\xef\xbf\xbd"
                 "b\""},
                {"\xc3", "\"\xef\xbf\xbd\""},
                {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
                {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_text text = {.arena = arena};
        struct base_json_writer writer = {.text = &text};
        TEST_ROW("%d", i);
        base_json_put_string(&writer, rows[i].value);
        assert_string_equal(text.data, rows[i].want);
    }
}

static void json_whole_numbers_within_bounds(struct base_arena *arena)
{
    static const struct {
        const char *text, *part;
        int64_t want;
    } rows[] = {{"896", NULL, 896},
                {"1", NULL, 1},
                {"1e3", NULL, 1000},
                {"0", "out of range", 0},
                {"-5", "out of range", 0},
                {"1e300", "out of range", 0},
                {"9007199254740993", "out of range", 0},
                {"2.5", "not a whole number", 0},
                {"\"896\"", "is a string", 0},
                {"null", "is null", 0},
                {"[896]", "is a list", 0},
                {"true", "is true", 0},
                {"{}", "is an object", 0}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].text);
        struct base_error error;
        const struct base_json *value;
        int64_t out = -77;
        assert_ok(parse(arena, rows[i].text, &value, &error), &error);
        enum base_status status = base_json_int(value, "batch_size", 1, 1000000, &out, &error);
        if (!rows[i].part) assert_ok(status, &error);
        else assert_fails(status, BASE_INPUT, &error, rows[i].part);
        assert_int_equal(out, rows[i].part ? -77 : rows[i].want);
    }
}

/* ---- CSV ---- */

/* The table as "field|field;field|field;", header first. */
static enum base_status flatten(struct base_arena *arena, const char *table, const char **out, struct base_error *error)
{
    struct base_csv csv;
    BASE_TRY(base_csv_open_text(&csv, arena, "table.csv", table, error));
    struct base_text text = {.arena = arena};
    for (int i = 0; i < csv.column_count; i++) base_putf(&text, "%s%s", i ? "|" : "", csv.names[i]);
    for (;;) {
        bool more;
        BASE_TRY(base_csv_next(&csv, &more, error));
        base_put(&text, ";");
        if (!more) break;
        for (int i = 0; i < csv.field_count; i++) base_putf(&text, "%s%s", i ? "|" : "", base_csv_field(&csv, i));
    }
    *out = text.data;
    return BASE_OK;
}

static void csv_reads_tables(struct base_arena *arena)
{
    static const struct {
        const char *table, *want;
    } rows[] = {{"a,b\n1,2\n", "a|b;1|2;"},
                {"a,b\n1,2", "a|b;1|2;"},
                {"a,b\r\n1,2\r\n", "a|b;1|2;"},
                {"a\n", "a;"},
                {"a", "a;"},
                {"a,b\n,\n", "a|b;|;"},
                {"a,b\n\"1,5\",\"say \"\"hi\"\"\"\n", "a|b;1,5|say \"hi\";"},
                {"a,b\n\"two\nlines\",x\n", "a|b;two\nlines|x;"},
                {"a,b\n\"\",\"\"\n", "a|b;|;"},
                {"a\n\"\"\"\"\n", "a;\";"},
                {"a,b\n\n\n1,2\n\n", "a|b;1|2;"},
                {"a,b\r\n\r\n1,2\r\n", "a|b;1|2;"},
                {"a,b\n1\n1,2,3\n", "a|b;1;1|2|3;"},
                {"a,b\nx\"y,z\n", "a|b;x\"y|z;"},
                {"a\n\"\"\n", "a;;"},
                {"\xef\xbb\xbfid,b\n1,2\n", "id|b;1|2;"},
                {"a,b\n 1 , 2 \n", "a|b; 1 | 2 ;"},
                {"a,b\n\"x\"\r\n", "a|b;x;"},
                {"a\n\"cr\r\nlf\"\n", "a;cr\r\nlf;"},
                {"\"a,1\",b\n1,2\n", "a,1|b;1|2;"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%d: %s", i, rows[i].table);
        struct base_error error;
        const char *got;
        assert_ok(flatten(arena, rows[i].table, &got, &error), &error);
        assert_string_equal(got, rows[i].want);
    }
}

static void csv_refuses_what_is_not_a_table(struct base_arena *arena)
{
    char *endless = memset(base_alloc(arena, (2 << 20) + 2, 1), 'x', 2 << 20),
         *commas = memset(base_alloc(arena, 100001, 1), ',', 100000);
    const struct {
        const char *table, *part;
    } rows[] = {{"", "table.csv: is empty"},
                {"\n\n", "table.csv: is empty"},
                {"a,a\n", "is a duplicate"},
                {"a\n1\n\"open\nand so on\n", "table.csv: line 3: a quote"},
                {"a\n\"x\"y\n", "line 2: text after a closing quote"},
                {"a\n\"x\"y\"z\"\n", "line 2: text after a closing quote"},
                {"a\n\"x\" ,1\n", "line 2: text after a closing quote"},
                {"a\rb\r1\r", "line 1: a carriage return"},
                {endless, "line 1: longer than 1 MiB"},
                {base_print(arena, "a\n\"%s", endless), "line 2: longer"},
                {base_print(arena, "a\n%s\n", commas), "line 2: more than 4096 columns"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%d: %.60s", i, rows[i].table);
        struct base_error error;
        const char *got = NULL;
        assert_fails(flatten(arena, rows[i].table, &got, &error), BASE_INPUT, &error, rows[i].part);
        assert_null(got);
    }
}

static void csv_counts_the_lines_of_the_file(struct base_arena *arena)
{
    static const int64_t lines[] = {2, 4, 7};
    struct base_error error;
    struct base_csv csv;
    bool more;
    assert_ok(base_csv_open_text(&csv, arena, "t", "a,b\n1,2\n\n\"x\ny\nz\",2\n3,4\n", &error), &error);
    for (int i = 0; i < BASE_COUNT(lines); i++) {
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        assert_true(more);
        assert_int_equal(csv.line_number, lines[i]);
    }
    assert_ok(base_csv_next(&csv, &more, &error), &error);
    assert_false(more);
}

static void csv_columns_by_name(struct base_arena *arena)
{
    struct base_error error;
    struct base_csv csv;
    bool more;
    assert_ok(base_csv_open_text(&csv, arena, "t", "id,step_s\n7\n", &error), &error);
    assert_int_equal(base_csv_column(&csv, "step_s"), 1);
    assert_int_equal(base_csv_column(&csv, "STEP_S"), -1);
    assert_ok(base_csv_next(&csv, &more, &error), &error);
    assert_string_equal(base_csv_field(&csv, 0), "7");
    assert_string_equal(base_csv_field(&csv, 1), "");
    assert_string_equal(base_csv_field(&csv, -1), "");
}

static void csv_memory_does_not_grow_with_rows(struct base_arena *arena)
{
    struct base_text table = {.arena = arena};
    base_put(&table, "id,name\n");
    for (int i = 0; i < 20000; i++) base_putf(&table, "%d,\"row, number %d\"\n", i, i);
    struct base_error error;
    struct base_csv csv;
    bool more = true;
    assert_ok(base_csv_open_text(&csv, arena, "t", table.data, &error), &error);
    assert_ok(base_csv_next(&csv, &more, &error), &error);
    int64_t count = arena->allocation_count;
    int rows = 1;
    for (; more; rows += more) assert_ok(base_csv_next(&csv, &more, &error), &error);
    assert_int_equal(rows, 20000);
    assert_int_equal(arena->allocation_count, count);
}

static void csv_any_field_survives_the_round_trip(struct base_arena *arena)
{
    static const char letters[] = "ab,\"\n\r 7|";
    struct base_random random;
    base_random_seed(&random, 3);
    for (int i = 0; i < 5000; i++) {
        char field[12] = "";
        int64_t length = 1 + base_random_below(&random, 10);
        for (int64_t j = 0; j < length; j++) field[j] = letters[base_random_below(&random, (int64_t)strlen(letters))];
        struct base_text table = {.arena = arena};
        base_put(&table, "a,b\n");
        base_put_csv(&table, field);
        base_put(&table, ",");
        base_put_csv(&table, "");
        base_put(&table, "\n");
        TEST_ROW("seed 3, case %d: %s", i, table.data);
        struct base_error error;
        struct base_csv csv;
        bool more;
        assert_ok(base_csv_open_text(&csv, arena, "t", table.data, &error), &error);
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        assert_int_equal(csv.field_count, 2);
        assert_string_equal(base_csv_field(&csv, 0), field);
        base_arena_reset(arena);
    }
}

/* A spreadsheet gets no formula of whoever named a row; numbers and files stay what they are. */
static void csv_cells_are_no_formulas(struct base_arena *arena)
{
    static const char *const cells[][2] = {{"=1+1", "'=1+1"},
                                           {"-cmd|'x'!A1", "'-cmd|'x'!A1"},
                                           {"+SUM(1)", "'+SUM(1)"},
                                           {"@SUM(1)", "'@SUM(1)"},
                                           {"-1.5e3", "-1.5e3"},
                                           {"@model.json", "@model.json"},
                                           {"-", "'-"},
                                           {"a=b", "a=b"}};
    for (int i = 0; i < BASE_COUNT(cells); i++) {
        struct base_text text = {.arena = arena};
        base_put_csv(&text, cells[i][0]);
        assert_string_equal(text.data, cells[i][1]);
    }
}

static void terminals_are_not_given_orders(struct base_arena *arena)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "a\x1b[2Jb\x7f\tc\n\xc2\x9b"
                    "1m\xc3\xa9");
    base_text_disarm(&text);
    assert_string_equal(text.data, "a?[2Jb?\tc\n??1m\xc3\xa9");
}

/* What was there keeps its permissions, and a name that somebody has put in the way is left alone. */
static void outputs_keep_permissions_and_follow_no_link(struct base_arena *arena)
{
    char folder[] = "/tmp/meshwright-base-XXXXXX";
    struct base_error error;
    struct stat status;
    assert_non_null(mkdtemp(folder));
    const char *path = base_print(arena, "%s/out", folder), *other = base_print(arena, "%s/other", folder),
               *in_the_way = base_print(arena, "%s/out.partial-%ld", folder, (long)getpid());
    assert_ok(base_write_file(path, "a", 1, &error), &error);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink(other, in_the_way), 0);
    assert_ok(base_write_file(path, "b", 1, &error), &error);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(access(other, F_OK), -1);
    assert_fails(base_write_new_file(path, "c", 1, &error), BASE_INPUT, &error, "File exists");
    base_directory_remove(arena, folder);
}

/* ---- files ---- */

/* A fresh folder, the working directory while body runs; what is left in it is removed. */
static void in_fresh_folder(struct base_arena *arena, test_function *body)
{
    char folder[] = "/tmp/meshwright-test-XXXXXX", before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    body(arena);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Names in the working directory. */
static int count_files(void)
{
    int count = 0;
    DIR *folder = opendir(".");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void assert_file_holds(struct base_arena *arena, const char *path, const char *want)
{
    struct base_error error;
    const char *text;
    size_t length;
    assert_ok(base_read_file(arena, path, 1000, &text, &length, &error), &error);
    assert_string_equal(text, want);
    assert_int_equal(length, strlen(want));
}

static void write_twice_abandon_once(struct base_arena *arena)
{
    struct base_error error;
    struct base_output output;
    assert_ok(base_write_file("out.csv", "first", 5, &error), &error);
    assert_ok(base_output_open(&output, "out.csv", &error), &error);
    fputs("half of the sec", output.file);
    fflush(output.file);
    assert_file_holds(arena, "out.csv", "first");
    base_output_abandon(&output);
    assert_int_equal(count_files(), 1);
    assert_file_holds(arena, "out.csv", "first");
    assert_ok(base_write_file("out.csv", "second", 6, &error), &error);
    assert_file_holds(arena, "out.csv", "second");
    assert_int_equal(count_files(), 1);
    assert_int_equal(remove("out.csv"), 0);
}

/* As after a jump out of the middle: the frame that held the output is gone. */
static void open_and_lose(const char *path)
{
    struct base_error error;
    struct base_output output;
    assert_ok(base_output_open(&output, path, &error), &error);
    memset(&output, 0x5a, sizeof output);
}

static void abandon_everything_open(struct base_arena *arena)
{
    (void)arena;
    struct base_error error;
    struct base_output kept;
    open_and_lose("a.svg");
    assert_ok(base_output_open(&kept, "b.svg", &error), &error);
    open_and_lose("c.svg");
    assert_int_equal(count_files(), 3);
    assert_ok(base_output_commit(&kept, &error), &error);
    base_output_abandon_all();
    assert_int_equal(count_files(), 1);
    base_output_abandon_all();
    open_and_lose("d.svg");
    base_output_unlink_all();
    assert_int_equal(count_files(), 1);
    base_output_abandon_all();
    assert_int_equal(remove("b.svg"), 0);
}

static void refuse_places_that_cannot_be_written(struct base_arena *arena)
{
    struct base_error error;
    char *long_path = memset(base_alloc(arena, 9001, 1), 'p', 9000);
    assert_int_equal(mkdir("folder", 0700), 0);
    const char *const paths[] = {"", "no/such/folder/x.csv", "folder", long_path};
    for (int i = 0; i < BASE_COUNT(paths); i++) {
        TEST_ROW("%.60s", paths[i]);
        assert_fails(base_write_file(paths[i], "x", 1, &error), BASE_INPUT, &error, "");
        assert_int_equal(count_files(), 1);
    }
    assert_int_equal(rmdir("folder"), 0);
}

/* Renaming onto /dev/null as root would replace the device: a pipe stands for it here. */
static void write_through_pipes_and_links(struct base_arena *arena)
{
    struct base_error error;
    struct stat status;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    FILE *reader = fopen("pipe", "r+");
    assert_non_null(reader);
    assert_ok(base_write_file("pipe", "through\n", 8, &error), &error);
    char line[20] = "";
    assert_non_null(fgets(line, sizeof line, reader));
    assert_string_equal(line, "through\n");
    fclose(reader);
    assert_int_equal(lstat("pipe", &status), 0);
    assert_true(S_ISFIFO(status.st_mode));

    assert_ok(base_write_file("real", "old", 3, &error), &error);
    assert_int_equal(symlink("real", "link"), 0);
    assert_ok(base_write_file("link", "new", 3, &error), &error);
    assert_int_equal(lstat("link", &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_file_holds(arena, "real", "new");
    assert_int_equal(count_files(), 3);
    assert_int_equal(remove("pipe") | remove("link") | remove("real"), 0);
}

static void output_files_appear_whole_or_not_at_all(struct base_arena *arena)
{
    in_fresh_folder(arena, write_twice_abandon_once);
}
static void output_files_are_all_removed_at_the_end(struct base_arena *arena)
{
    in_fresh_folder(arena, abandon_everything_open);
}
static void output_places_that_cannot_be_written(struct base_arena *arena)
{
    in_fresh_folder(arena, refuse_places_that_cannot_be_written);
}
static void output_keeps_pipes_and_links(struct base_arena *arena)
{
    in_fresh_folder(arena, write_through_pipes_and_links);
}

static void read_files(struct base_arena *arena)
{
    struct base_error error;
    const char *text = NULL;
    size_t length;
    assert_ok(base_write_file("ten", "0123456789", 10, &error), &error);
    assert_ok(base_write_file("none", "", 0, &error), &error);
    assert_ok(base_read_file(arena, "ten", 10, &text, &length, &error), &error);
    assert_string_equal(text, "0123456789");
    assert_ok(base_read_file(arena, "none", 10, &text, &length, &error), &error);
    assert_string_equal(text, "");
    assert_int_equal(length, 0);
    assert_fails(base_read_file(arena, "ten", 9, &text, &length, &error), BASE_INPUT, &error,
                 "ten: is larger than 9 bytes");
    assert_fails(base_read_file(arena, "absent", 9, &text, &length, &error), BASE_INPUT, &error,
                 "absent: cannot be read: No such file");
    assert_fails(base_read_file(arena, ".", 9, &text, &length, &error), BASE_INPUT, &error, "is a directory");
    assert_fails(base_read_file(arena, "/dev/zero", 100000, &text, &length, &error), BASE_INPUT, &error,
                 "is larger than");
    struct base_csv csv;
    assert_fails(base_csv_open(&csv, arena, ".", &error), BASE_INPUT, &error, "is a directory");
    assert_fails(base_csv_open(&csv, arena, "absent", &error), BASE_INPUT, &error, "absent: cannot be read");
    assert_fails(base_csv_open(&csv, arena, "none", &error), BASE_INPUT, &error, "none: is empty");
    assert_ok(base_write_file("nul", "a,b\n1,\0002\n", 9, &error), &error);
    bool more;
    assert_ok(base_csv_open(&csv, arena, "nul", &error), &error);
    assert_fails(base_csv_next(&csv, &more, &error), BASE_INPUT, &error, "nul: line 2: a NUL byte");
    base_csv_close(&csv);
    assert_int_equal(remove("ten") | remove("none") | remove("nul"), 0);
}

static void files_are_read_whole_within_a_limit(struct base_arena *arena)
{
    in_fresh_folder(arena, read_files);
}

/* ---- options ---- */

static const struct base_option test_options[] = {{"--model", "M", "the model", NULL},
                                                  {"--batch-size", "B", "sequences a step", NULL},
                                                  {"--json", NULL, "JSON", NULL}};

static enum base_status parse_words(struct base_arena *arena, const char *const *words, struct base_arguments *out,
                                    struct base_error *error)
{
    int count = 0;
    while (words[count]) count++;
    return base_arguments_parse(arena, test_options, BASE_COUNT(test_options), 1, count, words, out, error);
}

static void options_are_read(struct base_arena *arena)
{
    struct base_error error;
    struct base_arguments arguments;
    const char *const words[] = {"--batch-size=896", "plan.json", "--json", "--model", "t5=1", NULL};
    assert_ok(parse_words(arena, words, &arguments, &error), &error);
    assert_string_equal(base_argument(&arguments, "--batch-size"), "896");
    assert_string_equal(base_argument(&arguments, "--model"), "t5=1");
    assert_string_equal(base_argument(&arguments, "--json"), "");
    assert_int_equal(arguments.positional_count, 1);
    assert_string_equal(arguments.positional[0], "plan.json");
    const char *const few[] = {"--batch-size=", "--model=-5", NULL};
    assert_ok(parse_words(arena, few, &arguments, &error), &error);
    assert_string_equal(base_argument(&arguments, "--batch-size"), "");
    assert_string_equal(base_argument(&arguments, "--model"), "-5");
    assert_null(base_argument(&arguments, "--json"));
    assert_int_equal(arguments.positional_count, 0);
    const char *const negative[] = {"--model", "-5", NULL};
    assert_ok(parse_words(arena, negative, &arguments, &error), &error);
    assert_string_equal(base_argument(&arguments, "--model"), "-5");
}

static void options_refuse_a_wrong_command_line(struct base_arena *arena)
{
    static const struct {
        const char *words[5], *part;
    } rows[] = {{{"--modle", "t5"}, "--modle; did you mean --model?"},
                {{"--batch-sise=8"}, "did you mean --batch-size?"},
                {{"--something-else"}, "unknown option --something-else"},
                {{"--model"}, "--model needs a value"},
                {{"--model", "--json"}, "--model needs a value"},
                {{"--json=1"}, "--json takes no value"},
                {{"--model", "a", "--model", "b"}, "--model is given twice"},
                {{"--json", "--json"}, "--json is given twice"},
                {{"one", "two"}, "\"two\" is one argument too many"},
                {{"--"}, "unknown option"},
                {{"--mod", "t5"}, "unknown option --mod; did you mean --model?"},
                {{"-h"}, "unknown option -h"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s %s", rows[i].words[0], rows[i].words[1] ? rows[i].words[1] : "");
        struct base_error error;
        struct base_arguments arguments = {.option_count = -77};
        assert_fails(parse_words(arena, rows[i].words, &arguments, &error), BASE_USAGE, &error, rows[i].part);
        assert_int_equal(arguments.option_count, -77);
    }
}

/* ---- random numbers ---- */

/* The first outputs of the reference implementation's demonstration, pcg32_srandom(42, 54). */
static void random_equals_the_reference(struct base_arena *arena)
{
    (void)arena;
    static const uint32_t wants[] = {0xa15c02b7, 0x7b47f409, 0xba1d3330, 0x83d2f293, 0xbfa4784b, 0xcbed606e};
    struct base_random random = {.state = 0, .stream = 54u << 1 | 1};
    base_random_next(&random);
    random.state += 42;
    base_random_next(&random);
    for (int i = 0; i < BASE_COUNT(wants); i++) assert_int_equal(base_random_next(&random), wants[i]);
}

static void random_is_the_same_for_the_same_seed(struct base_arena *arena)
{
    (void)arena;
    struct base_random first, second, other;
    base_random_seed(&first, 7);
    base_random_seed(&second, 7);
    base_random_seed(&other, 8);
    int same_count = 0;
    for (int i = 0; i < 1000; i++) {
        uint32_t value = base_random_next(&first);
        assert_int_equal(value, base_random_next(&second));
        same_count += value == base_random_next(&other);
    }
    assert_true(same_count < 5);
}

/* The high half of a number below a bound is drawn first, whatever order a compiler prefers. */
/* The first block is the known answer of Random123 (kat_vectors, threefry2x32 20); the rest is JAX's. */
static void threefry_equals_the_references(struct base_arena *arena)
{
    (void)arena;
    const struct base_key zero = {{0, 0}}, seven = base_key_of_seed(7);
    static const uint32_t wants[] = {2285895361, 1501764800, 1518642379, 3098264785, 433833334, 4221794875, 839183663};
    struct base_key folded = base_key_fold_in(&zero, 0), second = base_key_split(&seven, 2, 1);
    assert_int_equal(folded.words[0], 0x6b200159);
    assert_int_equal(folded.words[1], 0x99ba4efe);
    for (int i = 0; i < BASE_COUNT(wants); i++) assert_int_equal(base_key_bits(&zero, 7, i), wants[i]);
    assert_int_equal(second.words[0], 1948237315);
    assert_int_equal(second.words[1], 1058547403);
    assert_near((double)base_gumbel(base_key_bits(&zero, 15, 1)), 3.55842661857605, 1e-7);
    assert_true(isfinite(base_gumbel(0)) && isfinite(base_gumbel(UINT32_MAX)));
}

static void random_below_is_within_its_bound(struct base_arena *arena)
{
    (void)arena;
    struct base_random random, halves;
    base_random_seed(&random, 9);
    int seen[10] = {0};
    for (int i = 0; i < 10000; i++) seen[base_random_below(&random, 10)]++;
    for (int i = 0; i < 10; i++) assert_in_range(seen[i], 850, 1150);
    assert_int_equal(base_random_below(&random, 1), 0);
    halves = random;
    uint64_t high = base_random_next(&halves), low = base_random_next(&halves);
    assert_int_equal(base_random_below(&random, INT64_MAX), (int64_t)((high << 32 | low) % INT64_MAX));
}

/* ---- this harness ---- */

static void nearness_is_relative(struct base_arena *arena)
{
    (void)arena;
    assert_true(test_is_near(1e9 + 10, 1e9, 1e-7));
    assert_false(test_is_near(1e9 + 10, 1e9, 1e-9));
    assert_false(test_is_near(1e-12, 2e-12, 1e-3));
    assert_true(test_is_near(0, 0, 0));
    assert_false(test_is_near(NAN, NAN, 1));
    assert_false(test_is_near(INFINITY, 1, 0.5));
}

/* ---- numbers of a struct ---- */

static void fields_survive_the_round_trip(struct base_arena *arena)
{
    struct record {
        int small;
        int64_t whole;
        double real;
        int64_t absent, word;
    };
    static const struct base_json_field fields[] = {{"small", BASE_INT, offsetof(struct record, small)},
                                                    {"whole", BASE_INT64, offsetof(struct record, whole)},
                                                    {"real", BASE_DOUBLE, offsetof(struct record, real)}},
                                        others[] = {{"absent", BASE_INT64, offsetof(struct record, absent)},
                                                    {"word", BASE_INT64, offsetof(struct record, word)}};
    const struct record from = {-7, INT64_C(1) << 52, 0.1, 5, 6};
    struct record to = {.absent = 8, .word = 9};
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text};
    const struct base_json *document;
    struct base_error error;
    base_json_open(&writer, '{');
    base_json_put_fields(&writer, fields, BASE_COUNT(fields), &from);
    base_json_member_string(&writer, "word", "many");
    base_json_close(&writer, '}');
    assert_ok(base_json_parse(arena, text.data, text.length, &document, &error), &error);
    base_json_read_fields(document, fields, BASE_COUNT(fields), &to);
    assert_int_equal(to.small, from.small);
    assert_int_equal(to.whole, from.whole);
    assert_true(!memcmp(&to.real, &from.real, sizeof to.real));
    assert_int_equal(to.absent + to.word, 8 + 9);
    base_json_read_fields(document, others, BASE_COUNT(others), &to);
    assert_int_equal(to.absent + to.word, 0);
    base_json_read_fields(NULL, fields, BASE_COUNT(fields), &to);
    assert_int_equal(to.whole, 0);
}

/* ---- hashes ---- */

/* Every bit of every byte matters, also to the low bits, by which slots are found. */
static void hashes_see_every_bit(struct base_arena *arena)
{
    enum { LENGTH = 21, SLOTS = 1 << 12 };
    unsigned char bytes[LENGTH] = {0};
    int *seen = base_new(arena, int, SLOTS), shared = 0;
    for (int i = -1; i < 8 * LENGTH; i++) {
        if (i >= 0) bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        shared += seen[base_hash(BASE_HASH_START, bytes, LENGTH) % SLOTS]++ > 0;
        if (i >= 0) bytes[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    assert_in_range(shared, 0, 12); /* 169 by chance in 4096 slots: 3.4 */
    assert_true(base_hash(BASE_HASH_START, bytes, 8) != base_hash(BASE_HASH_START, bytes, 9));
}

/* As many of one hash as of many: each is found, and nothing else is. */
static void indexes_find_what_was_added(struct base_arena *arena)
{
    enum { COUNT = 1000 };
    struct base_index index = {.count = 0};
    unsigned at = 5;
    assert_int_equal(base_index_next(&index, 5, &at), -1);
    for (int i = 0; i < COUNT; i++) base_index_add(arena, &index, i % 2 ? 7 : (uint64_t)i * 0x9e3779b97f4a7c15u);
    for (int i = 0; i < COUNT; i += 2) {
        uint64_t hash = (uint64_t)i * 0x9e3779b97f4a7c15u;
        at = (unsigned)hash;
        assert_int_equal(base_index_next(&index, hash, &at), i);
        at++;
        assert_int_equal(base_index_next(&index, hash, &at), -1);
    }
    at = 7;
    for (int i = 1; i < COUNT; i += 2, at++) assert_int_equal(base_index_next(&index, 7, &at), i);
    assert_int_equal(base_index_next(&index, 7, &at), -1);
}

/* ---- what was worked out before ---- */

static void a_memo_finds_what_stands_under_a_key(struct base_arena *arena)
{
    struct base_memo *memo = base_new(arena, struct base_memo, 1);
    int first = 1, second = 2;
    memo->arena = arena;
    base_memo_begin(memo, 1);
    base_memo_text(memo, NULL);
    assert_true(base_memo_find(memo) == NULL);
    base_memo_store(memo, &first);
    base_memo_begin(memo, 1);
    base_memo_text(memo, "");
    assert_ptr_equal(base_memo_find(memo), &first);
    base_memo_store(memo, &second);
    assert_ptr_equal(base_memo_find(memo), &second);
    base_memo_begin(memo, 2);
    base_memo_text(memo, "");
    assert_true(base_memo_find(memo) == NULL);
    base_memo_bytes(memo, memo->key, sizeof memo->key); /* too long: neither stored nor found */
    base_memo_store(memo, &first);
    assert_true(base_memo_find(memo) == NULL);
    base_memo_forget(memo);
    base_memo_begin(memo, 1);
    base_memo_text(memo, "");
    assert_true(base_memo_find(memo) == NULL);
}

int main(int argument_count, char **arguments)
{
    static const struct test tests[] = {
        TEST(a_memo_finds_what_stands_under_a_key),
        TEST(error_message_is_cut_never_overrun),
        TEST(error_place_comes_first),
        TEST(arena_gives_zeroed_aligned_memory_that_does_not_overlap),
        TEST(arena_is_zeroed_again_after_reset),
        TEST(large_pages_are_a_hint),
        TEST(arena_refuses_sizes_that_overflow),
        TEST(arena_failure_at_every_allocation_reaches_the_handler),
        TEST(text_grows_and_stays_terminated),
        TEST(text_is_terminated_once_anything_was_put_even_nothing),
        TEST(text_writes_whole_numbers),
        TEST(text_writes_doubles_short_and_exact),
        TEST(text_writes_doubles_as_short_as_they_read_back),
        TEST(numbers_whole_within_bounds),
        TEST(a_switch_is_on_or_off),
        TEST(numbers_real_within_bounds),
        TEST(numbers_real_as_strtod),
        TEST(numbers_of_bytes),
        TEST(counts_as_people_write_them),
        TEST(numbers_in_a_list),
        TEST(numbers_ceil_div_does_not_overflow),
        TEST(numbers_for_people),
        TEST(nearest_name),
        TEST(words_are_read_or_listed_with_the_nearest),
        TEST(unknown_names_of_any_length_fit_the_message),
        TEST(json_reads_what_is_json),
        TEST(json_refuses_what_is_not),
        TEST(json_refuses_nul_bytes),
        TEST(json_reads_nothing_behind_its_end),
        TEST(json_does_not_blame_a_text_for_want_of_memory),
        TEST(json_depth_is_bounded),
        TEST(json_deepest_document_is_written_again),
        TEST(json_many_keys_take_no_quadratic_time),
        TEST(json_every_prefix_and_every_changed_byte_is_survived),
        TEST(json_doubles_survive_the_round_trip),
        TEST(json_layout),
        TEST(json_written_strings_are_always_utf8),
        TEST(json_whole_numbers_within_bounds),
        TEST(csv_reads_tables),
        TEST(csv_refuses_what_is_not_a_table),
        TEST(csv_counts_the_lines_of_the_file),
        TEST(csv_columns_by_name),
        TEST(csv_memory_does_not_grow_with_rows),
        TEST(csv_any_field_survives_the_round_trip),
        TEST(csv_cells_are_no_formulas),
        TEST(terminals_are_not_given_orders),
        TEST(outputs_keep_permissions_and_follow_no_link),
        TEST(output_files_appear_whole_or_not_at_all),
        TEST(output_files_are_all_removed_at_the_end),
        TEST(output_places_that_cannot_be_written),
        TEST(output_keeps_pipes_and_links),
        TEST(files_are_read_whole_within_a_limit),
        TEST(options_are_read),
        TEST(options_refuse_a_wrong_command_line),
        TEST(random_equals_the_reference),
        TEST(random_is_the_same_for_the_same_seed),
        TEST(random_below_is_within_its_bound),
        TEST(threefry_equals_the_references),
        TEST(nearness_is_relative),
        TEST(fields_survive_the_round_trip),
        TEST(hashes_see_every_bit),
        TEST(indexes_find_what_was_added),
    };
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
