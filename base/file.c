/* Files: reading with a size limit; writing under a temporary name and renaming, so that none is left half-written. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Copies of this process's open outputs, each with its writing thread. They let a longjmp or a signal handler remove
 * partial files when the writing frames are gone. */
enum { OPEN_OUTPUTS = 16 };
static struct {
    struct base_output output;
    pthread_t writer;
} open_outputs[OPEN_OUTPUTS];
static pthread_mutex_t open_outputs_lock = PTHREAD_MUTEX_INITIALIZER;

bool base_is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool base_is_there(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

bool base_is_stream(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

static enum base_status read_all(struct base_arena *arena, FILE *file, const char *path, size_t limit_bytes,
                                 const char **text, size_t *length, struct base_error *error)
{
    struct base_text all = {.arena = arena};
    char block[16384];
    size_t got;
    while ((got = fread(block, 1, sizeof block, file)) > 0 && all.length <= limit_bytes)
        base_put_bytes(&all, block, got);
    bool bad = ferror(file) != 0;
    int why = errno;
    fclose(file);
    if (bad) return base_fail(error, BASE_INPUT, "%s: cannot be read: %s", path, strerror(why));
    if (all.length > limit_bytes)
        return base_fail(error, BASE_INPUT, "%s: is larger than %zu bytes", path, limit_bytes);
    base_put(&all, "");
    *text = all.data;
    *length = all.length;
    return BASE_OK;
}

enum base_status base_read_file(struct base_arena *arena, const char *path, size_t limit_bytes, const char **text,
                                size_t *length, struct base_error *error)
{
    struct stat status;
    if (!*path) return base_fail(error, BASE_INPUT, "a file without a name cannot be read");
    if (arena->held && !strcmp(arena->held->name, path) && arena->held->length <= limit_bytes)
        return *text = arena->held->text, *length = arena->held->length, BASE_OK;
    FILE *file = fopen(path, "rb");
    if (!file) return base_fail(error, BASE_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    if (fstat(fileno(file), &status) != 0 || S_ISDIR(status.st_mode)) {
        fclose(file);
        return base_fail(error, BASE_INPUT, "%s: is a directory; a file is needed", path);
    }
    return read_all(arena, file, path, limit_bytes, text, length, error);
}

/* Without O_NONBLOCK, opening a pipe without a writer would block. */
enum base_status base_read_stored_file(struct base_arena *arena, const char *path, size_t limit_bytes,
                                       const char **text, size_t *length, struct base_error *error)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "rb") : NULL;
    if (!file) {
        int why = errno;
        if (descriptor >= 0) close(descriptor);
        return base_fail(error, BASE_INPUT, "%s: cannot be read: %s", path, strerror(why));
    }
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
        return read_all(arena, file, path, limit_bytes, text, length, error);
    fclose(file);
    return base_fail(error, BASE_INPUT, "%s: is no regular file", path);
}

static void remember(const struct base_output *output)
{
    int i = 0;
    pthread_mutex_lock(&open_outputs_lock);
    while (i < OPEN_OUTPUTS && open_outputs[i].output.file) i++;
    if (i < OPEN_OUTPUTS) open_outputs[i].output = *output, open_outputs[i].writer = pthread_self();
    pthread_mutex_unlock(&open_outputs_lock);
}

static void forget(const FILE *file)
{
    pthread_mutex_lock(&open_outputs_lock);
    for (int i = 0; i < OPEN_OUTPUTS; i++)
        if (open_outputs[i].output.file == file) open_outputs[i].output.file = NULL;
    pthread_mutex_unlock(&open_outputs_lock);
}

/* Copies output i if this thread writes it; false otherwise. */
static bool is_mine(int i, struct base_output *output)
{
    pthread_mutex_lock(&open_outputs_lock);
    const bool mine = open_outputs[i].output.file && pthread_equal(open_outputs[i].writer, pthread_self());
    if (mine) *output = open_outputs[i].output;
    pthread_mutex_unlock(&open_outputs_lock);
    return mine;
}

static bool is_link(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

/* The final path of the output. A symbolic link resolves to its target, so that the link survives. */
static enum base_status find_place(struct base_output *output, const char *path, struct base_error *error)
{
    char *target = realpath(path, NULL);
    if (!target && is_link(path))
        return base_fail(error, BASE_INPUT, "%s: a link to a missing file; remove the link, or create its target",
                         path);
    const char *place = target ? target : path;
    size_t length = strlen(place);
    bool fits = length > 0 && length < sizeof output->path;
    if (fits) memcpy(output->path, place, length + 1);
    free(target);
    if (!fits) return base_fail(error, BASE_INPUT, "the path is empty or too long; use the name of a file");
    return BASE_OK;
}

/* Creates a new file with the permissions of the one that it will replace. Names that exist, even as links, are
 * skipped. */
static FILE *open_beside(struct base_output *output, const struct stat *target)
{
    enum { MOST_NAMES = 100 };
    int descriptor = -1;
    for (int i = 0; i < MOST_NAMES && descriptor < 0 && (i == 0 || errno == EEXIST); i++) {
        snprintf(output->partial, sizeof output->partial, "%s.partial-%ld%s%.0d", output->path, (long)getpid(),
                 i ? "-" : "", i);
        descriptor = open(output->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    }
    if (descriptor < 0) return *output->partial = '\0', NULL;
    if (target && fchmod(descriptor, target->st_mode & 07777) != 0) errno = 0; /* another user's file */
    return fdopen(descriptor, "wb");
}

enum base_status base_output_open(struct base_output *output, const char *path, struct base_error *error)
{
    struct stat status;
    memset(output, 0, sizeof *output);
    BASE_TRY(find_place(output, path, error));
    bool exists = stat(output->path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return base_fail(error, BASE_INPUT, "%s: is a directory; a file is needed", path);
    /* Devices and pipes are written directly: as root, renaming would replace /dev/null. */
    if (!exists || S_ISREG(status.st_mode)) output->file = open_beside(output, exists ? &status : NULL);
    else output->file = fopen(output->path, "wb");
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

/* Makes the new name survive a power failure where the directory can be synchronised. */
static void sync_place(const char *path)
{
    char directory[sizeof((struct base_output *)0)->path];
    struct base_error ignored;
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 0;
    snprintf(directory, sizeof directory, "%.*s", length, path);
    base_directory_sync(slash ? (length ? directory : "/") : ".", &ignored);
}

enum base_status base_output_commit(struct base_output *output, struct base_error *error)
{
    bool bad = fflush(output->file) != 0 || ferror(output->file) || fsync(fileno(output->file)) != 0;
    int why = errno;
    /* Devices and pipes cannot be synchronised and need not be. */
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
    if (!bad && *output->partial) sync_place(output->path);
    if (!bad) return BASE_OK;
    if (*output->partial) unlink(output->partial);
    return base_fail(error, BASE_INPUT, "%s: cannot be written: %s", output->path, strerror(why));
}

void base_output_abandon_all(void)
{
    for (int i = 0; i < OPEN_OUTPUTS; i++) {
        struct base_output output;
        if (is_mine(i, &output)) base_output_abandon(&output);
    }
}

void base_output_unlink_all(void)
{
    for (int i = 0; i < OPEN_OUTPUTS; i++)
        if (open_outputs[i].output.file && *open_outputs[i].output.partial) unlink(open_outputs[i].output.partial);
}

enum base_status base_write_file(const char *path, const char *bytes, size_t length, struct base_error *error)
{
    struct base_output output;
    BASE_TRY(base_output_open(&output, path, error));
    fwrite(bytes, 1, length, output.file);
    return base_output_commit(&output, error);
}

enum base_status base_write_new_file(const char *path, const char *bytes, size_t length, struct base_error *error)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0) return base_fail(error, BASE_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    for (ssize_t put = 0; length > 0 && put >= 0; bytes += put, length -= (size_t)put) {
        put = write(descriptor, bytes, length);
        if (put < 0 && errno == EINTR) put = 0;
        if (put < 0) break;
    }
    bool bad = length > 0 || fsync(descriptor) != 0;
    int why = errno;
    if (close(descriptor) != 0 && !bad) bad = true, why = errno;
    return bad ? base_fail(error, BASE_INPUT, "%s: cannot be written: %s", path, strerror(why)) : BASE_OK;
}

enum base_status base_json_read_file(struct base_arena *arena, const char *path, size_t limit_bytes,
                                     const struct base_json **out, struct base_error *error)
{
    const char *text;
    size_t length;
    BASE_TRY(base_read_file(arena, path, limit_bytes, &text, &length, error));
    return base_json_parse(arena, text, length, out, error) == BASE_OK ? BASE_OK : base_fail_in(error, "%s", path);
}
