/* A library for LD_PRELOAD: in the program FAIL_IN, call number FAIL_AT of the kind FAIL_CALL fails; the file FAIL_MARK
 * says at the end how many there were. scripts/failures.py has one call after the other fail in a run. With
 * WRONG_CLOCK, the time of day jumps by days at each look (scripts/attacks.py). */
#define _GNU_SOURCE /* RTLD_NEXT, program_invocation_short_name */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* glibc's own, which need no look-up that would allocate. */
void *__libc_malloc(size_t size), *__libc_calloc(size_t count, size_t size), *__libc_realloc(void *old, size_t size),
    *__libc_memalign(size_t alignment, size_t size);

static atomic_long calls;

/* Whether this is the call that fails; errno is then what such a call leaves. */
static bool fails(const char *kind, int why)
{
    const char *in = getenv("FAIL_IN"), *call = getenv("FAIL_CALL"), *at = getenv("FAIL_AT");
    if (!in || !call || !at || strcmp(call, kind) != 0 || strcmp(in, program_invocation_short_name) != 0) return false;
    if (atomic_fetch_add(&calls, 1) + 1 != strtol(at, NULL, 10)) return false;
    errno = why;
    return true;
}

__attribute__((destructor)) static void say_count(void)
{
    const char *mark = getenv("FAIL_MARK"), *in = getenv("FAIL_IN");
    if (!mark || !in || strcmp(in, program_invocation_short_name) != 0) return;
    char text[32];
    const int length = snprintf(text, sizeof text, "%ld", atomic_load(&calls));
    const long file = syscall(SYS_openat, AT_FDCWD, mark, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0) syscall(SYS_write, file, text, (size_t)length), syscall(SYS_close, file);
}

void *malloc(size_t size)
{
    return fails("malloc", ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails("malloc", ENOMEM) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails("malloc", ENOMEM) ? NULL : __libc_realloc(old, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    *out = fails("malloc", ENOMEM) ? NULL : __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return fails("open", EMFILE) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    return fails("open", EMFILE) ? NULL : next(path, mode);
}

DIR *opendir(const char *path)
{
    DIR *(*next)(const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return fails("open", EMFILE) ? NULL : next(path);
}

int mkdir(const char *path, mode_t mode)
{
    return fails("open", ENOSPC) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

ssize_t write(int to, const void *bytes, size_t length)
{
    return fails("write", ENOSPC) ? -1 : syscall(SYS_write, to, bytes, length);
}

ssize_t pwrite(int to, const void *bytes, size_t length, off_t at)
{
    return fails("write", ENOSPC) ? -1 : syscall(SYS_pwrite64, to, bytes, length, at);
}

int fflush(FILE *file)
{
    int (*next)(FILE *);
    *(void **)&next = dlsym(RTLD_NEXT, "fflush");
    return fails("write", ENOSPC) ? EOF : next(file);
}

int fsync(int file)
{
    return fails("fsync", EIO) ? -1 : (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to)
{
    return fails("rename", EIO) ? -1 : (int)syscall(SYS_rename, from, to);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    enum { DAY_S = 86400, DAYS = 1000 };
    const long good = syscall(SYS_clock_gettime, clock, out);
    if (clock == CLOCK_REALTIME && getenv("WRONG_CLOCK"))
        out->tv_sec += DAY_S * (atomic_fetch_add(&calls, 1) * 7919 % DAYS - DAYS / 2);
    return (int)good;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
