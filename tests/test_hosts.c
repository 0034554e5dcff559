/* Runs over two hosts, made of network namespaces with names of their own and a link between them: a link that goes
 * down, a rank that is stopped, a launcher that is killed, processors that differ. Needs root and ip; without, it says
 * that it was left out. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "exec/signs.h"
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/meshwright-hosts-XXXXXX", program[4096];

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void rest(double time_s)
{
    nanosleep(&(struct timespec){(time_t)time_s, (long)(1e9 * (time_s - (double)(time_t)time_s))}, NULL);
}

/* Names are of this process, so that two tests at once do not meet. */
static const char *host(struct base_arena *arena, char which)
{
    return base_print(arena, "mw%ld%c", (long)getpid(), which);
}

static bool shell(struct base_arena *arena, const char *format, const char *a, const char *b)
{
    return system(base_print(arena, format, a, b)) == 0;
}

static void write_text(struct base_arena *arena, const char *name, const char *text)
{
    struct base_error error;
    const char *path = base_print(arena, "%s/%s", folder, name);
    assert_ok(base_write_file(path, text, strlen(text), &error), &error);
    chmod(path, 0700);
}

/* Two hosts, a link, and what takes mpirun's daemon to the other one. */
static bool hosts_up(struct base_arena *arena)
{
    const char *a = host(arena, 'a'), *b = host(arena, 'b');
    bool up = shell(arena, "ip netns add %s 2>/dev/null && ip netns add %s 2>/dev/null", a, b) &&
              shell(arena, "ip link add l%s type veth peer name l%s 2>/dev/null", a, b) &&
              shell(arena, "ip link set l%s netns %s", a, a) && shell(arena, "ip link set l%s netns %s", b, b) &&
              shell(arena, "ip -n %s addr add 10.91.0.1/24 dev l%s", a, a) &&
              shell(arena, "ip -n %s addr add 10.91.0.2/24 dev l%s", b, b) &&
              shell(arena, "ip -n %s link set l%s up", a, a) && shell(arena, "ip -n %s link set l%s up", b, b) &&
              shell(arena, "ip -n %s link set lo up && ip -n %s link set lo up", a, b);
    write_text(arena, "hosts", base_print(arena, "%s slots=2\n%s slots=2\n", a, b));
    write_text(arena, "agent",
               "#!/bin/sh\nhost=$1; shift\n"
               "exec ip netns exec \"$host\" unshare --uts sh -c \"hostname $host; $FAR exec $*\"\n");
    return up;
}

static void hosts_down(struct base_arena *arena)
{
    shell(arena, "ip netns del %s 2>/dev/null; ip netns del %s 2>/dev/null", host(arena, 'a'), host(arena, 'b'));
}

/* ---- a run ---- */

static pid_t start(struct base_arena *arena, const char *more)
{
    const char *a = host(arena, 'a');
    const char *line = base_print(arena,
                                  "exec ip netns exec %s unshare --uts sh -c 'hostname %s; exec %s run --model "
                                  "decoder_only:emb_dim=32,num_heads=4,"
                                  "head_dim=8,mlp_dim=64,num_layers=2,vocab_size=64 --topology local:4 "
                                  "--num-partitions 2 --task-feature-lengths 16 "
                                  "--batch-size 16 --optimizer adamw --hostfile %s/hosts %s >%s/out 2>%s/err'",
                                  a, a, program, folder, more, folder, folder);
    pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("OMPI_MCA_plm_rsh_agent", base_print(arena, "%s/agent", folder), 1);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

static const char *text_of(struct base_arena *arena, const char *name)
{
    struct base_error error;
    const char *text = "";
    size_t length;
    base_read_file(arena, base_print(arena, "%s/%s", folder, name), 1 << 22, &text, &length, &error);
    return text;
}

static int finish(struct base_arena *arena, pid_t pid)
{
    int status = 0;
    for (double start_s = seconds(); waitpid(pid, &status, WNOHANG) == 0; rest(0.02)) {
        if (seconds() - start_s < 90 * TEST_SLOWER) continue;
        kill(pid, SIGKILL);
        fail_msg("the run hangs; it said: %s", text_of(arena, "err"));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Processes of that name in the namespace of a host. */
static int find(struct base_arena *arena, const char *name, const char *in, pid_t *out, int limit)
{
    char of_host[256], of_process[256], comm[64];
    struct stat place, own;
    DIR *processes = opendir("/proc");
    int count = 0;
    snprintf(of_host, sizeof of_host, "/run/netns/%s", in);
    if (stat(of_host, &place) != 0) return closedir(processes), 0;
    for (struct dirent *entry; (entry = readdir(processes)) && count < limit;) {
        if (atol(entry->d_name) <= 0) continue;
        snprintf(of_process, sizeof of_process, "/proc/%.20s/ns/net", entry->d_name);
        if (stat(of_process, &own) != 0 || own.st_ino != place.st_ino) continue;
        struct base_error error;
        const char *text;
        size_t length;
        snprintf(of_process, sizeof of_process, "/proc/%.20s/comm", entry->d_name);
        if (base_read_file(arena, of_process, sizeof comm, &text, &length, &error) != BASE_OK) continue;
        if (!strncmp(text, name, strlen(name)) && text[strlen(name)] == '\n') out[count++] = (pid_t)atol(entry->d_name);
    }
    closedir(processes);
    return count;
}

static void wait_for_steps(struct base_arena *arena, pid_t pid)
{
    const char *directory = base_print(arena, "%s/run", folder);
    for (double start_s = seconds();; rest(0.05)) {
        const char *const *names;
        struct base_error error;
        int count;
        if (base_directory_exists(directory) &&
            base_directory_list(arena, directory, &names, &count, &error) == BASE_OK)
            for (int i = 0; i < count; i++)
                if (!strncmp(names[i], "checkpoint_", 11) && !strstr(names[i], ".partial")) return;
        if (waitpid(pid, NULL, WNOHANG) != 0 || seconds() - start_s > 90 * TEST_SLOWER)
            fail_msg("no steps: %s", text_of(arena, "err"));
    }
}

static pid_t start_long(struct base_arena *arena, const char *more)
{
    base_directory_remove(arena, base_print(arena, "%s/run", folder));
    pid_t pid = start(
        arena, base_print(arena, "--steps 1000000 --checkpoint %s/run --checkpoint-every 5 --keep 2 %s", folder, more));
    wait_for_steps(arena, pid);
    return pid;
}

/* On both hosts nothing of a run is left. */
static void assert_gone(struct base_arena *arena)
{
    static const char *const names[] = {"meshwright-rank", "orted", "mpirun", "meshwright"};
    pid_t found[16];
    for (int i = 0; i < BASE_COUNT(names); i++)
        for (char which = 'a'; which <= 'b'; which++)
            for (double start_s = seconds(); find(arena, names[i], host(arena, which), found, 16) > 0; rest(0.1))
                if (seconds() - start_s > 15 * TEST_SLOWER) fail_msg("%s is left on host %c", names[i], which);
}

static void assert_said(struct base_arena *arena, const char *part)
{
    const char *said = text_of(arena, "err");
    if (!strstr(said, part)) fail_msg("\"%s\" is not in what it said: %s", part, said);
}

static bool has_hosts; /* hosts_up at the start of the program */

static void need_hosts(void)
{
    if (has_hosts) return;
    print_message("left out: two network namespaces, which need root and ip\n");
    skip();
}

/* ---- tests ---- */

static void two_hosts_give_the_losses_of_one(struct base_arena *arena)
{
    const struct base_json *here, *there;
    struct base_error error;
    need_hosts();
    assert_int_equal(finish(arena, start(arena, "--steps 3 --json")), 0);
    const char *text = text_of(arena, "out");
    assert_ok(base_json_parse(arena, text, strlen(text), &there, &error), &error);
    assert_int_equal(finish(arena, start(arena, "--steps 3 --json --in-process")), 0);
    text = text_of(arena, "out");
    assert_ok(base_json_parse(arena, text, strlen(text), &here, &error), &error);
    const struct base_json *a = base_json_get(here, "loss")->child, *b = base_json_get(there, "loss")->child;
    for (; a; a = a->next, b = b->next) assert_near(b->number, a->number, 1e-5);
    const struct base_json *hosts = base_json_get(there, "hosts");
    assert_non_null(hosts);
    assert_int_equal(hosts->count, 2);
}

enum { PATIENCE_S = 1 + TEST_SLOWER };

/* --timeout and five seconds, whatever is heard no more. */
static void a_link_that_is_down_ends_the_run(struct base_arena *arena)
{
    need_hosts();
    const char *b = host(arena, 'b');
    pid_t pid = start_long(arena, base_print(arena, "--timeout %d", PATIENCE_S));
    shell(arena, "ip -n %s link set l%s down", b, b);
    double down_s = seconds();
    assert_int_equal(finish(arena, pid), 5);
    assert_true(seconds() - down_s < PATIENCE_S + 5 * TEST_SLOWER);
    shell(arena, "ip -n %s link set l%s up", b, b);
    assert_said(arena, "or its host cannot be reached: no sign of life for ");
    assert_said(arena, b);
    assert_gone(arena);
}

static void a_stopped_rank_on_its_own_host_ends_the_run(struct base_arena *arena)
{
    pid_t ranks[8];
    need_hosts();
    pid_t pid = start_long(arena, base_print(arena, "--timeout %d", PATIENCE_S));
    int count = find(arena, "meshwright-rank", host(arena, 'b'), ranks, 8);
    assert_int_equal(count, 2);
    kill(ranks[0], SIGSTOP);
    kill(ranks[1], SIGSTOP);
    double stopped_s = seconds();
    assert_int_equal(finish(arena, pid), 5);
    assert_true(seconds() - stopped_s < PATIENCE_S + 5 * TEST_SLOWER);
    assert_said(arena, "hangs");
    assert_gone(arena);
}

static void a_killed_launcher_takes_all_hosts_along(struct base_arena *arena)
{
    pid_t found[8];
    need_hosts();
    pid_t pid = start_long(arena, "");
    assert_int_equal(find(arena, "meshwright", host(arena, 'a'), found, 8), 1);
    kill(found[0], SIGKILL);
    finish(arena, pid);
    assert_gone(arena);
}

/* How many names of a directory begin so: what a run leaves. */
static int count_names(struct base_arena *arena, const char *path, const char *with)
{
    const char *const *names;
    struct base_error error;
    int count = 0, found = 0;
    assert_ok(base_directory_list(arena, path, &names, &count, &error), &error);
    for (int i = 0; i < count; i++) found += !strncmp(names[i], with, strlen(with));
    return found;
}

static int count_left(struct base_arena *arena)
{
    int found = 0;
    for (char which = 'a'; which <= 'b'; which++)
        found += count_names(arena, "/tmp", base_print(arena, "ompi.%s.", host(arena, which))) +
                 count_names(arena, "/dev/shm", base_print(arena, "vader_segment.%s.", host(arena, which)));
    return found;
}

static bool has_folder(struct base_arena *arena, char which, pid_t process)
{
    return base_directory_exists(
        base_print(arena, "/dev/shm/meshwright-run-%s-%ld", host(arena, which), (long)process));
}

static int kill_all(struct base_arena *arena, const char *name, char which)
{
    pid_t found[8];
    const int count = find(arena, name, host(arena, which), found, 8);
    for (int i = 0; i < count; i++) kill(found[i], SIGKILL);
    return count;
}

/* Everything of a run is killed at once; the next one leaves nothing of it, nor of itself. */
static void a_killed_run_is_tidied_up_on_all_hosts(struct base_arena *arena)
{
    need_hosts();
    pid_t pid = start_long(arena, ""), daemon[8], launcher[8];
    assert_int_equal(find(arena, "orted", host(arena, 'b'), daemon, 8), 1);
    assert_int_equal(find(arena, "mpirun", host(arena, 'a'), launcher, 8), 1);
    assert_true(has_folder(arena, 'b', daemon[0]) && has_folder(arena, 'a', launcher[0]));
    assert_int_equal(kill_all(arena, "meshwright", 'a'), 1);
    kill_all(arena, "mpirun", 'a');
    kill_all(arena, "orted", 'b');
    kill_all(arena, "meshwright-rank", 'a');
    kill_all(arena, "meshwright-rank", 'b');
    finish(arena, pid);
    assert_gone(arena);
    assert_true(count_left(arena) > 0);
    assert_int_equal(finish(arena, start(arena, "--steps 1")), 0);
    assert_int_equal(count_left(arena), 0);
    assert_false(has_folder(arena, 'b', daemon[0]) || has_folder(arena, 'a', launcher[0]));
}

/* Products on another kernel have other last bits: it is said, not silent. */
static void hosts_that_differ_are_named(struct base_arena *arena)
{
    need_hosts();
    setenv("FAR", "OPENBLAS_CORETYPE=Prescott", 1);
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    int code = finish(arena, start(arena, "--steps 1 --json"));
    unsetenv("FAR");
    unsetenv("OPENBLAS_CORETYPE");
    assert_int_equal(code, 0);
    assert_said(arena, "hosts compute with different kernels");
    assert_non_null(strstr(text_of(arena, "out"), "Prescott"));
}

/* ---- waiting, by itself ---- */

struct scene {
    struct exec_sign signs[4];
    struct exec_signs all;
    int64_t seen[4];
};

static void set_scene(struct scene *scene)
{
    static const char hosts[4][EXEC_HOST_NAME] = {"a", "a", "b", "b"};
    memset(scene, 0, sizeof *scene);
    scene->all = (struct exec_signs){scene->signs, 0, 4, hosts, 2 * EXEC_PULSES_A_SECOND, NULL};
    scene->all.seen = scene->seen;
    for (int i = 0; i < 4; i++) {
        scene->signs[i].pulse = 1;
        scene->signs[i].waits_for = -1;
    }
    scene->signs[0].waits_for = 2;
}

/* Looks once a pulse; returns the pulses until it fails, or -1. */
static int look_for(struct scene *scene, int pulses, unsigned alive, char text[400])
{
    struct exec_wait wait = exec_wait_begin(&scene->all, 2);
    for (int at = 1; at <= pulses; at++) {
        for (int i = 0; i < 4; i++) {
            scene->signs[i].pulse += alive >> i & 1;
            scene->signs[i].looks += alive >> i & 1 ? 100 : 0;
        }
        if (exec_wait_look(&scene->all, &wait, text, 400) == EXEC_FAILS) return at;
    }
    return -1;
}

static void waits_end_for_the_right_reason(struct base_arena *arena)
{
    (void)arena;
    struct scene scene;
    char text[400] = "";
    set_scene(&scene);
    assert_int_equal(look_for(&scene, 100, 15, text), -1); /* it computes */
    set_scene(&scene);
    assert_int_equal(look_for(&scene, 100, 11, text), 21);
    assert_non_null(strstr(text, "rank 2 on host b hangs, or its host cannot be reached"));
    set_scene(&scene); /* 0 waits for 2, 2 for 3, and 3 for 2 */
    scene.signs[2].waits_for = 3;
    scene.signs[3].waits_for = 2;
    assert_int_equal(look_for(&scene, 100, 15, text), 22);
    assert_non_null(strstr(text, "no message arrives"));
    set_scene(&scene); /* the same, but 3 is stopped */
    scene.signs[2].waits_for = 3;
    scene.signs[3].waits_for = 2;
    assert_int_equal(look_for(&scene, 100, 7, text), -1);
    set_scene(&scene); /* the last of the chain works */
    scene.signs[2].waits_for = 3;
    assert_int_equal(look_for(&scene, 1000, 15, text), -1);
    set_scene(&scene);
    scene.signs[2].storing = 1; /* a disk that stalls is no hang, however long */
    assert_int_equal(look_for(&scene, 5000, 15, text), -1);
    assert_non_null(strstr(text, "reads or writes files"));
    set_scene(&scene);
    assert_true(look_for(&scene, 5000, 15, text) > 60 * 20); /* alive for ever, but it never comes */
}

int main(int argument_count, char **arguments)
{
    static const struct test tests[] = {
        TEST(waits_end_for_the_right_reason),          TEST(two_hosts_give_the_losses_of_one),
        TEST(a_link_that_is_down_ends_the_run),        TEST(a_stopped_rank_on_its_own_host_ends_the_run),
        TEST(a_killed_launcher_takes_all_hosts_along), TEST(hosts_that_differ_are_named),
        TEST(a_killed_run_is_tidied_up_on_all_hosts),
    };
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    char *slash = strrchr(arguments[0], '/');
    if (setjmp(exhausted)) return 1;
    int length = slash ? (int)(slash - arguments[0]) : 1;
    char relative[4000];
    snprintf(relative, sizeof relative, "%.*s/../meshwright", length, slash ? arguments[0] : ".");
    if (!realpath(relative, program) || !mkdtemp(folder)) return 1;
    has_hosts = getuid() == 0 && hosts_up(&arena);
    int failed = test_main(tests, BASE_COUNT(tests), argument_count, arguments);
    hosts_down(&arena);
    base_directory_remove(&arena, folder);
    base_arena_free(&arena);
    return failed;
}
