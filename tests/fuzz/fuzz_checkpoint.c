/* Checkpoints as checkpoint verify reads them. An input is three files, each behind a line "====": the manifest, an
 * array's metadata, its only chunk. The answer is whole, or names the file. */
#include "exec/checkpoint.h"
#include "exec/zarr.h"
#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>

static char folder[] = "/tmp/meshwright-fuzz-XXXXXX";

static void remove_folder(void)
{
    struct base_arena arena = {0};
    base_directory_remove(&arena, folder);
    base_arena_free(&arena);
}

static void make_folders(void)
{
    static bool is_made;
    char path[64];
    if (is_made) return;
    FUZZ_CHECK(mkdtemp(folder) != NULL);
    atexit(remove_folder);
    snprintf(path, sizeof path, "%s/checkpoint_1", folder);
    FUZZ_CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/checkpoint_1/a", folder);
    FUZZ_CHECK(mkdir(path, 0700) == 0);
    is_made = true;
}

/* A manifest holds a checksum of its own text: the last 16 digits. Without it no mutation would be read further. */
static char *sealed(struct base_arena *arena, const char *text, size_t length)
{
    static const char key[] = "\"checksum\": \"", none[] = "0000000000000000";
    const size_t digits = sizeof none - 1, start = sizeof key - 1;
    char *out = base_copy_bytes(arena, text, length), sum[17];
    size_t at = length > digits + start ? length - digits - start : 0;
    while (at > 0 && memcmp(out + at, key, start) != 0) at--;
    if (!at) return out;
    memcpy(out + at + start, none, digits);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)base_hash(BASE_HASH_START, out, length));
    memcpy(out + at + start, sum, digits);
    return out;
}

static void write_file(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

static void put_files(struct base_arena *arena, const char *text, size_t length)
{
    static const char *const names[] = {"manifest.json", "a/.zarray", "a/0"}, separator[] = "\n====\n";
    const size_t width = strlen(separator);
    for (int i = 0; i < BASE_COUNT(names); i++) {
        size_t size = 0;
        while (size < length && (size + width > length || memcmp(text + size, separator, width) != 0)) size++;
        if (i == BASE_COUNT(names) - 1) size = length;
        write_file(base_print(arena, "%s/checkpoint_1/%s", folder, names[i]), i ? text : sealed(arena, text, size),
                   size);
        const size_t step = size + width < length ? size + width : length;
        text += step, length -= step;
    }
}

static void check(struct base_arena *arena, const char *text, size_t length)
{
    struct base_error error = {0};
    struct base_text answer = {.arena = arena};
    struct exec_zarr z;
    make_folders();
    put_files(arena, text, length);
    enum base_status status =
        exec_verify_checkpoint(arena, base_print(arena, "%s/checkpoint_1", folder), &answer, &error);
    FUZZ_CHECK(status == BASE_OK || (status == BASE_INPUT && *error.text));
    if (answer.length) fuzz_parse(arena, answer.data);
    status = exec_zarr_read(arena, base_print(arena, "%s/checkpoint_1/a", folder), &z, &error);
    FUZZ_CHECK(status == BASE_OK || (status == BASE_INPUT && *error.text));
    if (status == BASE_OK) FUZZ_CHECK(z.rank >= 0 && z.rank <= MODEL_MAX_RANK && exec_product(z.chunks, z.rank) >= 0);
}

FUZZ_TARGET(check, 3000)
