/* The folder of a run on one host, in shared memory: what its ranks share there, and for a local run mpirun's own
 * files. Its name holds a process that lives as long as the run. Killed runs leave folders; the next run removes them.
 */
#include "exec/exec.h"
#include "exec/signs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const shared_memory = "/dev/shm", *const temporary = "/tmp";

static bool is_own_directory(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* ---- what Open MPI left in /tmp ---- */

static int list(struct base_arena *arena, const char *path, const char *const **names)
{
    struct base_error ignored;
    int count = 0;
    return base_directory_list(arena, path, names, &count, &ignored) == BASE_OK ? count : 0;
}

/* The session of mpirun is pid.PROCESS; that of its daemons holds pmix_dstor_…_PROCESS. */
static bool is_session_of(struct base_arena *arena, const char *path, const char *name, long process)
{
    const char *const *parts;
    const char *own = base_print(arena, "pid.%ld", process), *end = base_print(arena, "_%ld", process);
    if (!strcmp(name, own)) return true;
    const int count = begins(name, "jf.") ? list(arena, path, &parts) : 0;
    for (int i = 0; i < count; i++)
        if (begins(parts[i], "pmix_dstor_") && !strcmp(strrchr(parts[i], '_'), end)) return true;
    return false;
}

/* In ompi.HOST.USER of this host and user. */
static void remove_sessions(struct base_arena *arena, long process)
{
    char host[EXEC_HOST_NAME] = "";
    const char *const *homes, *const *sessions;
    if (gethostname(host, sizeof host - 1) != 0 || !*host) return;
    const char *first = base_print(arena, "ompi.%.*s.", (int)strcspn(host, "."), host),
               *last = base_print(arena, ".%ld", (long)geteuid());
    const int home_count = list(arena, temporary, &homes);
    for (int i = 0; i < home_count; i++) {
        const char *home = base_print(arena, "%s/%s", temporary, homes[i]), *end = strrchr(home, '.');
        if (!begins(homes[i], first) || !end || strcmp(end, last) != 0 || !is_own_directory(home)) continue;
        const int count = list(arena, home, &sessions);
        for (int j = 0; j < count; j++) {
            const char *session = base_print(arena, "%s/%s", home, sessions[j]);
            if (is_own_directory(session) && is_session_of(arena, session, sessions[j], process))
                base_directory_remove(arena, session);
        }
        rmdir(home); /* unless it holds the session of another run */
    }
}

/* ---- folders ---- */

static const char *name_of(struct base_arena *arena, long process)
{
    char name[300];
    base_process_name(process, name, sizeof name);
    return base_print(arena, "meshwright-run-%s", name);
}

/* What lives holds its folder's lock. That tells where processes have other numbers, as in another container. */
static void remove_if_dead(struct base_arena *arena, const char *name)
{
    const char *path = base_print(arena, "%s/%s", shared_memory, name), *number = strrchr(name, '-');
    const long process = number ? strtol(number + 1, NULL, 10) : 0;
    struct base_lock lock;
    struct base_error held;
    bool locks;
    if (process <= 1 || strcmp(name, name_of(arena, process)) != 0) return;
    if (base_process_lives(process) || !is_own_directory(path)) return;
    if (base_lock_take(&lock, base_print(arena, "%s/lock", path), "cleaner", &locks, &held) != BASE_OK) return;
    remove_sessions(arena, process);
    base_directory_remove(arena, path);
    base_lock_release(&lock);
}

void exec_remove_dead_runs(struct base_arena *arena)
{
    const char *const *names;
    const int count = list(arena, shared_memory, &names);
    for (int i = 0; i < count; i++) remove_if_dead(arena, names[i]);
}

const char *exec_run_folder_open(struct base_arena *arena, long process, struct base_lock *lock)
{
    struct base_error held;
    bool locks;
    lock->descriptor = -1;
    if (access(shared_memory, R_OK | W_OK | X_OK) != 0) return NULL;
    exec_remove_dead_runs(arena);
    const char *path = base_print(arena, "%s/%s", shared_memory, name_of(arena, process));
    if (mkdir(path, 0700) != 0 && (errno != EEXIST || !is_own_directory(path))) return NULL;
    /* One of its ranks holds it for all. */
    (void)base_lock_take(lock, base_print(arena, "%s/lock", path), "a run", &locks, &held);
    return path;
}

void exec_run_folder_close(struct base_arena *arena, const char *path, struct base_lock *lock)
{
    if (!path) return;
    if (lock->descriptor >= 0) base_directory_remove(arena, base_print(arena, "%s/lock", path));
    base_lock_release(lock);
    rmdir(path); /* the last rank finds it empty */
}
