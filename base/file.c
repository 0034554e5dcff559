/* Files: reading with a limit, and writing beside the target and renaming, so that none is left half-written. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Copies of this process's open outputs, so that a jump out of the middle, whose frames are gone, leaves no file
 * behind. */
enum { OPEN_OUTPUTS = 8 };
static struct base_output open_outputs[OPEN_OUTPUTS];

bool base_is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

enum base_status base_read_file(struct base_arena *arena, const char *path, size_t limit_bytes, const char **text,
                                size_t *length, struct base_error *error)
{
    struct stat status;
    if (!*path) return base_fail(error, BASE_INPUT, "a file without a name cannot be read");
    FILE *file = fopen(path, "rb");
    if (!file) return base_fail(error, BASE_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    if (fstat(fileno(file), &status) != 0 || S_ISDIR(status.st_mode)) {
        fclose(file);
        return base_fail(error, BASE_INPUT, "%s: is a directory; a file is needed", path);
    }
    struct base_text all = {.arena = arena};
    char block[16384];
    size_t got;
    while ((got = fread(block, 1, sizeof block, file)) > 0 && all.length <= limit_bytes)
        base_put_bytes(&all, block, got);
    bool bad = ferror(file) != 0;
    fclose(file);
    if (bad) return base_fail(error, BASE_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    if (all.length > limit_bytes)
        return base_fail(error, BASE_INPUT, "%s: is larger than %zu bytes", path, limit_bytes);
    base_put(&all, "");
    *text = all.data;
    *length = all.length;
    return BASE_OK;
}

static void remember(const struct base_output *output)
{
    for (int i = 0; i < OPEN_OUTPUTS; i++) {
        if (open_outputs[i].file) continue;
        open_outputs[i] = *output;
        return;
    }
}

static void forget(const FILE *file)
{
    for (int i = 0; i < OPEN_OUTPUTS; i++)
        if (open_outputs[i].file == file) open_outputs[i].file = NULL;
}

/* Where the bytes go in the end: behind a link its target, so that the link stays one. */
static enum base_status find_place(struct base_output *output, const char *path, struct base_error *error)
{
    char *target = realpath(path, NULL);
    const char *place = target ? target : path;
    size_t length = strlen(place);
    bool fits = length > 0 && length < sizeof output->path;
    if (fits) memcpy(output->path, place, length + 1);
    free(target);
    if (!fits) return base_fail(error, BASE_INPUT, "--out: the path is empty or too long");
    return BASE_OK;
}

enum base_status base_output_open(struct base_output *output, const char *path, struct base_error *error)
{
    struct stat status;
    memset(output, 0, sizeof *output);
    BASE_TRY(find_place(output, path, error));
    bool exists = stat(output->path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return base_fail(error, BASE_INPUT, "%s: is a directory; a file is needed", path);
    /* A device or a pipe is written to: renaming onto /dev/null as root would replace it. */
    if (!exists || S_ISREG(status.st_mode))
        snprintf(output->partial, sizeof output->partial, "%s.partial-%ld", output->path, (long)getpid());
    output->file = fopen(*output->partial ? output->partial : output->path, "wb");
    if (!output->file) return base_fail(error, BASE_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    remember(output);
    return BASE_OK;
}

void base_output_abandon(struct base_output *output)
{
    if (!output->file) return;
    forget(output->file);
    fclose(output->file);
    output->file = NULL;
    if (*output->partial) unlink(output->partial);
}

enum base_status base_output_commit(struct base_output *output, struct base_error *error)
{
    bool bad = fflush(output->file) != 0 || ferror(output->file) || fsync(fileno(output->file)) != 0;
    int why = errno;
    /* Devices and pipes cannot be synchronised, and need not be. */
    if (bad && !ferror(output->file) && (why == EINVAL || why == EROFS)) bad = false;
    const FILE *file = output->file;
    if (fclose(output->file) != 0 && !bad) {
        bad = true;
        why = errno;
    }
    output->file = NULL;
    if (!bad && *output->partial && rename(output->partial, output->path) != 0) {
        bad = true;
        why = errno;
    }
    forget(file);
    if (!bad) return BASE_OK;
    if (*output->partial) unlink(output->partial);
    return base_fail(error, BASE_INPUT, "%s: cannot be written: %s", output->path, strerror(why));
}

void base_output_abandon_all(void)
{
    for (int i = 0; i < OPEN_OUTPUTS; i++) {
        struct base_output output = open_outputs[i];
        base_output_abandon(&output);
    }
}

void base_output_unlink_all(void)
{
    for (int i = 0; i < OPEN_OUTPUTS; i++)
        if (open_outputs[i].file && *open_outputs[i].partial) unlink(open_outputs[i].partial);
}

enum base_status base_write_file(const char *path, const char *bytes, size_t length, struct base_error *error)
{
    struct base_output output;
    BASE_TRY(base_output_open(&output, path, error));
    fwrite(bytes, 1, length, output.file);
    return base_output_commit(&output, error);
}
