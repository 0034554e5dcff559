/* Directories: create, list, rename, and remove with their contents. */
#define _GNU_SOURCE /* syncfs */
#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 8 };

enum base_status base_directory_make(const char *path, struct base_error *error)
{
    struct stat status;
    if (mkdir(path, 0777) == 0) return BASE_OK;
    if (errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: cannot be created: %s", path, strerror(errno));
}

bool base_directory_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

enum base_status base_directory_rename(const char *from, const char *to, struct base_error *error)
{
    if (rename(from, to) == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
}

/* File systems without fsync for directories return EINVAL. */
enum base_status base_directory_sync(const char *path, struct base_error *error)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS);
    int why = errno;
    if (descriptor >= 0) close(descriptor);
    return good ? BASE_OK : base_fail(error, BASE_INPUT, "%s: cannot be written: %s", path, strerror(why));
}

void base_directory_sync_system(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    syncfs(descriptor);
    close(descriptor);
}

enum base_status base_directory_make_durable(const char *path, struct base_error *error)
{
    char parent[4096];
    size_t length = strlen(path);
    BASE_TRY(base_directory_make(path, error));
    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--;
    snprintf(parent, sizeof parent, "%.*s", (int)length, path);
    return base_directory_sync(length ? parent : ".", error);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int count_entries(DIR *directory)
{
    int count = 0;
    while (readdir(directory)) count++;
    rewinddir(directory);
    return count;
}

/* An exhausted arena jumps; this frame must close the handle first. */
static void read_entries(struct base_arena *arena, DIR *directory, const char ***out, int *count)
{
    jmp_buf here, *outer = arena->exhausted;
    if (setjmp(here) != 0) {
        arena->exhausted = outer;
        closedir(directory);
        longjmp(*outer, 1);
    }
    arena->exhausted = &here;
    int capacity = count_entries(directory);
    *out = base_new(arena, const char *, capacity + 1);
    *count = 0;
    for (struct dirent *entry; *count < capacity && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (*out)[(*count)++] = base_copy(arena, entry->d_name);
    arena->exhausted = outer;
}

enum base_status base_directory_list(struct base_arena *arena, const char *path, const char *const **names, int *count,
                                     struct base_error *error)
{
    DIR *directory = opendir(path);
    const char **found;
    if (!directory) return base_fail(error, BASE_INPUT, "%s: cannot be listed: %s", path, strerror(errno));
    read_entries(arena, directory, &found, count);
    closedir(directory);
    qsort(found, (size_t)*count, sizeof *found, by_name);
    *names = found;
    return BASE_OK;
}

static void remove_below(struct base_arena *arena, const char *path, int depth)
{
    const char *const *names;
    struct base_error ignored; /* a directory that cannot be listed cannot be emptied, so rmdir keeps it */
    int count;
    struct stat status;
    if (lstat(path, &status) != 0) return;
    if (!S_ISDIR(status.st_mode)) {
        unlink(path);
        return;
    }
    if (depth == DEEPEST || base_directory_list(arena, path, &names, &count, &ignored) != BASE_OK) return;
    for (int i = 0; i < count; i++) remove_below(arena, base_print(arena, "%s/%s", path, names[i]), depth + 1);
    rmdir(path);
}

void base_directory_remove(struct base_arena *arena, const char *path)
{
    remove_below(arena, path, 0);
}
