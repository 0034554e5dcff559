/* File locks: only one process at a time writes into a directory. */
#define _DEFAULT_SOURCE /* flock */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { LONGEST_NAME = 200 };

void base_process_name(long process, char *out, size_t size)
{
    char host[LONGEST_NAME] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !*host) snprintf(host, sizeof host, "host");
    for (char *at = host; *at; at++) *at = *at == '/' || *at == '.' ? '_' : *at;
    snprintf(out, size, "%s-%ld", host, process ? process : (long)getpid());
}

bool base_process_lives(long process)
{
    char path[64], line[256] = "";
    if (kill((pid_t)process, 0) != 0 && errno == ESRCH) return false;
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "r");
    if (!file) return true; /* there is no /proc */
    const size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *end = strrchr(line, ')');
    return !end || strncmp(end, ") Z", strlen(") Z")) != 0;
}

/* The holder's name from the lock file; empty if it is not written yet. */
static void read_holder(int descriptor, char *out, size_t size)
{
    ssize_t got = pread(descriptor, out, size - 1, 0);
    out[got > 0 ? got : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static bool write_holder(int descriptor, const char *who)
{
    char line[LONGEST_NAME + 2];
    int length = snprintf(line, sizeof line, "%.*s\n", LONGEST_NAME, who);
    return ftruncate(descriptor, 0) == 0 && pwrite(descriptor, line, (size_t)length, 0) == length;
}

enum base_status base_lock_take(struct base_lock *lock, const char *path, const char *who, bool *supported,
                                struct base_error *error)
{
    char holder[LONGEST_NAME];
    int descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0) return base_fail(error, BASE_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    int locked = flock(descriptor, LOCK_EX | LOCK_NB), why = errno;
    if (locked != 0 && why == EWOULDBLOCK) {
        read_holder(descriptor, holder, sizeof holder);
        close(descriptor);
        return base_fail(error, BASE_INPUT, "%s: locked by %s", path, *holder ? holder : "another process");
    }
    *supported = locked == 0;
    if (locked == 0 && !write_holder(descriptor, who)) {
        why = errno;
        close(descriptor);
        return base_fail(error, BASE_INPUT, "%s: cannot be written: %s", path, strerror(why));
    }
    if (locked != 0) close(descriptor);
    lock->descriptor = locked == 0 ? descriptor : -1;
    return BASE_OK;
}

void base_lock_release(struct base_lock *lock)
{
    if (lock->descriptor >= 0) close(lock->descriptor);
    lock->descriptor = -1;
}
