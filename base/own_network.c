/* A separate network namespace for a child process: it has a loopback and no other host. */
#define _GNU_SOURCE /* unshare */
#include "base/base.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool write_line(const char *path, const char *line)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool good = file >= 0 && write(file, line, strlen(line)) == (ssize_t)strlen(line);
    if (file >= 0) close(file);
    return good;
}

/* Without root, a user namespace comes first, in which the user keeps the same ids. */
static bool become_master(void)
{
    char users[64], groups[64];
    snprintf(users, sizeof users, "%u %u 1\n", (unsigned)geteuid(), (unsigned)geteuid());
    snprintf(groups, sizeof groups, "%u %u 1\n", (unsigned)getegid(), (unsigned)getegid());
    return unshare(CLONE_NEWUSER) == 0 && write_line("/proc/self/setgroups", "deny\n") &&
           write_line("/proc/self/uid_map", users) && write_line("/proc/self/gid_map", groups);
}

static bool start_loopback(void)
{
    struct ifreq lo = {.ifr_flags = IFF_UP | IFF_RUNNING};
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(lo.ifr_name, "lo", sizeof "lo");
    const bool good = any >= 0 && ioctl(any, SIOCSIFFLAGS, &lo) == 0;
    if (any >= 0) close(any);
    return good;
}

static bool leave(void)
{
    return (unshare(CLONE_NEWNET) == 0 || (become_master() && unshare(CLONE_NEWNET) == 0)) && start_loopback();
}

/* A child tries first: a process that has left without getting a loopback cannot return. */
bool base_leave_network(void)
{
    int status = 1;
    const pid_t tries = fork();
    if (tries == 0) _exit(!leave());
    return tries > 0 && waitpid(tries, &status, 0) == tries && status == 0 && leave();
}
