/* fuzz: what the fuzz targets share. A target is a source of its own with one FUZZ_TARGET(check, runs); libFuzzer calls
 * it (make fuzz), or driver.c does (make test). A check gets the input with a NUL behind it and an arena of its own;
 * what must hold is said with FUZZ_CHECK, and what cannot be accepted is left with return. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/commands.h"
#include "sim/predict/predict.h"

/* An input of some KiB that makes a reader take more than this is a finding. */
enum { FUZZ_LARGEST_ARENA_BYTES = 512 << 20 };

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))

static inline void fuzz_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

typedef void fuzz_check(struct base_arena *arena, const char *text, size_t length);

static inline int fuzz_run(const uint8_t *data, size_t size, fuzz_check *check)
{
    static struct base_arena arena;
    jmp_buf exhausted;
    arena.exhausted = &exhausted;
    if (setjmp(exhausted)) fuzz_fail("memory suffices", __FILE__, __LINE__);
    check(&arena, base_copy_bytes(&arena, (const char *)data, size), size);
    FUZZ_CHECK(arena.allocated_bytes <= FUZZ_LARGEST_ARENA_BYTES);
    base_arena_reset(&arena);
    return 0;
}

/* runs: how many mutations `make test` tries, about a second's worth. */
#define FUZZ_TARGET(check, runs)                                                                                       \
    extern const int fuzz_runs;                                                                                        \
    const int fuzz_runs = runs;                                                                                        \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);                                                      \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                                       \
    {                                                                                                                  \
        return fuzz_run(data, size, check);                                                                            \
    }

static inline bool fuzz_same(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

/* ---- readers that want a file ---- */

static char fuzz_file_path[64];

static inline void fuzz_remove_file(void)
{
    unlink(fuzz_file_path);
}

/* A file with these bytes; the same path each time. */
static inline const char *fuzz_file(const char *bytes, size_t length)
{
    static int descriptor = -1;
    if (descriptor < 0) {
        strcpy(fuzz_file_path, "/tmp/meshwright-fuzz-XXXXXX");
        descriptor = mkstemp(fuzz_file_path);
        atexit(fuzz_remove_file);
    }
    FUZZ_CHECK(descriptor >= 0 && ftruncate(descriptor, 0) == 0 &&
               pwrite(descriptor, bytes, length, 0) == (ssize_t)length);
    return fuzz_file_path;
}

/* ---- commands ---- */

/* The document of a command, or NULL and the refusal in *error. A refusal has a message and is the input's fault. */
static inline const char *fuzz_command(struct base_arena *arena, const char *name, int count,
                                       const char *const *arguments, struct base_error *error)
{
    struct commands_context context = {.arena = arena, .cache = sim_cache_new(arena)};
    struct base_text out = {.arena = arena};
    *error = (struct base_error){0};
    enum base_status status = commands_execute(&context, name, count, arguments, &out, error);
    sim_cache_free(context.cache);
    if (status == BASE_OK || status == BASE_NO_FIT) return out.data ? out.data : "";
    FUZZ_CHECK((status == BASE_INPUT || status == BASE_USAGE) && status == error->status && *error->text);
    return NULL;
}

static inline const struct base_json *fuzz_parse(struct base_arena *arena, const char *text)
{
    struct base_error error;
    const struct base_json *document = NULL;
    enum base_status status = base_json_parse(arena, text, strlen(text), &document, &error);
    if (status != BASE_OK) fprintf(stderr, "%s\n%s\n", error.text, text);
    FUZZ_CHECK(status == BASE_OK);
    return document;
}

static inline const char *fuzz_print(struct base_arena *arena, const struct base_json *value)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    base_json_put_value(&writer, value);
    return text.data;
}

#endif
