/* The folder of a local run: mpirun's own files, and the memory that its ranks share. Its name holds the process that
 * made it. A killed run cannot remove its folder: the next run removes it. */
#include "commands/executor.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const shared_memory = "/dev/shm", *const prefix = "meshwright-run-";

/* True for folders of this user whose process has ended. */
static bool is_left_over(const char *path, const char *name)
{
    struct stat status;
    if (strncmp(name, prefix, strlen(prefix)) != 0 || lstat(path, &status) != 0) return false;
    const long owner = strtol(name + strlen(prefix), NULL, 10);
    return S_ISDIR(status.st_mode) && status.st_uid == geteuid() && owner > 1 && kill((pid_t)owner, 0) != 0 &&
           errno == ESRCH;
}

static void remove_left_over(struct base_arena *arena)
{
    const char *const *names;
    int count;
    struct base_error ignored;
    if (base_directory_list(arena, shared_memory, &names, &count, &ignored) != BASE_OK) return;
    for (int i = 0; i < count; i++) {
        const char *path = base_print(arena, "%s/%s", shared_memory, names[i]);
        if (is_left_over(path, names[i])) base_directory_remove(arena, path);
    }
}

const char *commands_run_folder(struct base_arena *arena)
{
    if (access(shared_memory, R_OK | W_OK | X_OK) != 0) return NULL;
    remove_left_over(arena);
    const char *path = base_print(arena, "%s/%s%ld", shared_memory, prefix, (long)getpid());
    return mkdir(path, 0700) == 0 ? path : NULL;
}
