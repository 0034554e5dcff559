/* Runs a fuzz target without libFuzzer: first every file of its corpus as it is, then seeded mutations of them, the
 * same on every machine. fuzz_plan reads tests/fuzz/corpus/plan and tests/fuzz/plan.dict.
 *
 * usage: fuzz_NAME [--runs N] [--seconds S] [--seed N] [FILE…]
 *
 * The input that is being tried stands in a file beside the program, fuzz_NAME.input, so that whatever ends the process
 * leaves it there: `fuzz_NAME fuzz_NAME.input` tries it again. Closes with a line that scripts/test.sh counts. */
#define _XOPEN_SOURCE 700 /* ftruncate, pwrite */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const int fuzz_runs;

enum { LARGEST_INPUT_BYTES = 16384, MOST_SEEDS = 4096, MOST_TOKENS = 512, LONGEST_TRY_S = 20 };

struct seed {
    uint8_t *bytes;
    size_t size;
};

struct driver {
    struct base_arena arena;
    struct base_random random;
    struct seed seeds[MOST_SEEDS];
    int seed_count;
    const char *tokens[MOST_TOKENS];
    int token_count;
    uint8_t input[LARGEST_INPUT_BYTES]; /* under mutation */
    size_t size;
    int shown; /* the file that has the input being tried */
};

/* ---- inputs ---- */

static void add_seed(struct driver *d, const char *path)
{
    struct base_error error;
    const char *text;
    size_t size;
    if (d->seed_count == MOST_SEEDS ||
        base_read_file(&d->arena, path, LARGEST_INPUT_BYTES - 1, &text, &size, &error) != BASE_OK)
        return;
    d->seeds[d->seed_count++] = (struct seed){(uint8_t *)base_copy_bytes(&d->arena, text, size), size};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void read_corpus(struct driver *d, const char *folder)
{
    const char *names[MOST_SEEDS];
    int count = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory)) && count < MOST_SEEDS;)
        if (*entry->d_name != '.') names[count++] = base_print(&d->arena, "%s/%s", folder, entry->d_name);
    if (directory) closedir(directory);
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int i = 0; i < count; i++) add_seed(d, names[i]);
}

/* libFuzzer's form: "token" a line, with \" and \\ inside. */
static void read_tokens(struct driver *d, const char *path)
{
    struct base_error error;
    const char *text;
    size_t size;
    if (base_read_file(&d->arena, path, 1 << 20, &text, &size, &error) != BASE_OK) return;
    for (const char *line = text; *line && d->token_count < MOST_TOKENS;
         line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n')) {
        if (*line != '"') continue;
        struct base_text token = {.arena = &d->arena};
        for (const char *at = line + 1; *at && *at != '"' && *at != '\n'; at++) {
            at += *at == '\\' && at[1];
            base_put_bytes(&token, at, 1);
        }
        if (token.length) d->tokens[d->token_count++] = token.data;
    }
}

/* ---- mutations ---- */

static size_t below(struct driver *d, size_t bound)
{
    return bound ? (size_t)base_random_below(&d->random, (int64_t)bound) : 0;
}

/* Replaces `length` bytes from `at` on; what does not fit is left out. */
static void splice(struct driver *d, size_t at, size_t length, const uint8_t *bytes, size_t count)
{
    size_t rest = d->size - at - length;
    if (at + count + rest > LARGEST_INPUT_BYTES) return;
    memmove(d->input + at + count, d->input + at + length, rest);
    if (count) memcpy(d->input + at, bytes, count);
    d->size = at + count + rest;
}

static void change_byte(struct driver *d)
{
    if (d->size) d->input[below(d, d->size)] ^= (uint8_t)(1u << below(d, 8));
}

static void insert_byte(struct driver *d)
{
    uint8_t byte = (uint8_t)below(d, 256);
    splice(d, below(d, d->size + 1), 0, &byte, 1);
}

static void remove_part(struct driver *d)
{
    size_t at = below(d, d->size), length = d->size ? 1 + below(d, d->size - at < 32 ? d->size - at : 32) : 0;
    splice(d, at, length, NULL, 0);
}

static void repeat_part(struct driver *d)
{
    uint8_t part[64];
    if (!d->size) return;
    size_t from = below(d, d->size), length = 1 + below(d, sizeof part - 1);
    if (length > d->size - from) length = d->size - from;
    memcpy(part, d->input + from, length);
    splice(d, below(d, d->size + 1), 0, part, length);
}

static void insert_token(struct driver *d)
{
    if (!d->token_count) return;
    const char *token = d->tokens[below(d, (size_t)d->token_count)];
    splice(d, below(d, d->size + 1), 0, (const uint8_t *)token, strlen(token));
}

/* Where a run of digits begins from a random place on, and its length. */
static size_t find_number(struct driver *d, size_t *length)
{
    size_t at = below(d, d->size);
    while (at < d->size && !(d->input[at] >= '0' && d->input[at] <= '9')) at++;
    *length = 0;
    while (at + *length < d->size && d->input[at + *length] >= '0' && d->input[at + *length] <= '9') ++*length;
    return at;
}

static void replace_number(struct driver *d)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "7",
                                          "8",
                                          "16",
                                          "64",
                                          "127",
                                          "1024",
                                          "4096",
                                          "65536",
                                          "1048576",
                                          "2147483647",
                                          "2147483648",
                                          "4294967296",
                                          "9007199254740993",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "-1",
                                          "1e300",
                                          "1e999",
                                          "0.5",
                                          "-0",
                                          "00",
                                          "NaN",
                                          ""};
    size_t length, at = find_number(d, &length);
    const char *number = numbers[below(d, BASE_COUNT(numbers))];
    if (length) splice(d, at, length, (const uint8_t *)number, strlen(number));
}

static void cross(struct driver *d)
{
    const struct seed *other = &d->seeds[below(d, (size_t)d->seed_count)];
    size_t from = below(d, other->size), at = below(d, d->size), length = below(d, d->size - at + 1);
    splice(d, at, length, other->bytes + from, below(d, other->size - from + 1));
}

static void mutate(struct driver *d)
{
    static void (*const ways[])(struct driver *) = {change_byte,    insert_byte,    remove_part,
                                                    repeat_part,    insert_token,   insert_token,
                                                    replace_number, replace_number, cross};
    for (size_t steps = 1 + below(d, 5); steps > 0; steps--) ways[below(d, BASE_COUNT(ways))](d);
}

/* ---- trying ---- */

static void try(struct driver *d, const uint8_t *bytes, size_t size)
{
    if (ftruncate(d->shown, 0) != 0 || pwrite(d->shown, bytes, size, 0) != (ssize_t)size) abort();
    alarm(LONGEST_TRY_S); /* a reader that hangs is ended, and its input is there to be seen */
    LLVMFuzzerTestOneInput(bytes, size);
    alarm(0);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int64_t try_mutations(struct driver *d, int64_t runs, double seconds)
{
    double start_s = seconds_now();
    int64_t done = 0;
    for (; seconds > 0 ? seconds_now() - start_s < seconds : done < runs; done++) {
        const struct seed *seed = &d->seeds[below(d, (size_t)d->seed_count)];
        d->size = seed->size;
        if (seed->size) memcpy(d->input, seed->bytes, seed->size);
        mutate(d);
        try(d, d->input, d->size);
    }
    return done;
}

static const char *option(int *at, int count, char **arguments, const char *name)
{
    if (strcmp(arguments[*at], name) != 0 || *at + 1 >= count) return NULL;
    return arguments[++*at];
}

struct wish {
    int64_t runs;
    double seconds;
    uint64_t seed;
};

static struct wish read_arguments(struct driver *d, int count, char **arguments)
{
    struct wish wish = {.runs = fuzz_runs, .seed = 1};
    const char *value;
    for (int i = 1; i < count; i++) {
        if ((value = option(&i, count, arguments, "--runs"))) wish.runs = atoll(value);
        else if ((value = option(&i, count, arguments, "--seconds"))) wish.seconds = atof(value);
        else if ((value = option(&i, count, arguments, "--seed"))) wish.seed = (uint64_t)atoll(value);
        else add_seed(d, arguments[i]);
    }
    return wish;
}

/* Returns how many inputs there were. */
static int run(struct driver *d, int count, char **arguments)
{
    const char *slash = strrchr(arguments[0], '/'), *base = slash ? slash + 1 : arguments[0],
               *name = strncmp(base, "fuzz_", 5) ? base : base + 5;
    struct wish wish = read_arguments(d, count, arguments);
    int64_t done = 0;
    bool replay = d->seed_count > 0;
    if (!replay) read_corpus(d, base_print(&d->arena, "tests/fuzz/corpus/%s", name));
    read_tokens(d, base_print(&d->arena, "tests/fuzz/%s.dict", name));
    d->shown = open(base_print(&d->arena, "%s.input", arguments[0]), O_RDWR | O_CREAT | O_TRUNC, 0644);
    base_random_seed(&d->random, wish.seed);
    for (int i = 0; i < d->seed_count; i++) try(d, d->seeds[i].bytes, d->seeds[i].size);
    if (!replay && d->seed_count) done = try_mutations(d, wish.runs, wish.seconds);
    printf("%d inputs and %lld mutations of them (seed %llu)\n", d->seed_count, (long long)done,
           (unsigned long long)wish.seed);
    return d->seed_count;
}

int main(int count, char **arguments)
{
    static struct driver driver;
    jmp_buf exhausted;
    driver.arena.exhausted = &exhausted;
    if (setjmp(exhausted) || run(&driver, count, arguments) == 0) return 1;
    printf("[  PASSED  ] 1 test(s).\n");
    return 0;
}
