/* Runs on ranks, as a user starts them: `meshwright run` beside this test, under mpirun. What goes wrong is made to go
 * wrong: a rank that is killed or stopped, signals, a full disk, damaged files; nothing may hang or stay behind. */
#define _DEFAULT_SOURCE /* mount, mkdtemp */
#include "base/base.h"
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 40, LONGEST_WAIT_S = 120 * TEST_SLOWER, MOST_PROCESSES = 64 };

static char program[4096]; /* build/meshwright, beside this test's folder */
static char folder[] = "/tmp/meshwright-ranks-XXXXXX";

#define MODEL                                                                                                          \
    "decoder_only:emb_dim=32,num_heads=4,head_dim=8,mlp_dim=64,num_layers=2,vocab_size=64,mlp_activations=relu,"       \
    "logits_via_embedding=1"

/* ---- a run ---- */

struct outcome {
    int exit_code;
    const char *out, *err;
    double time_s;
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void rest(void)
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
}

struct run {
    pid_t pid;
    double start_s;
};

static rlim_t files_of_a_run; /* that it may have open at once; 0: as many as this test */

static void limit_files(void)
{
    struct rlimit limit = {files_of_a_run, files_of_a_run};
    if (files_of_a_run && setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(126);
}

/* Words are separated by single spaces; the model has none. */
static struct run start(struct base_arena *arena, const char *words)
{
    char *arguments[MOST_ARGUMENTS], *rest_of = NULL, *copy = base_copy(arena, words);
    int count = 0;
    arguments[count++] = program;
    for (char *word = strtok_r(copy, " ", &rest_of); word; word = strtok_r(NULL, " ", &rest_of))
        arguments[count++] = word;
    arguments[count] = NULL;
    struct run run = {.start_s = seconds()};
    run.pid = fork();
    if (run.pid != 0) return run;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no run behind */
    signal(SIGINT, SIG_DFL);          /* a shell ignores it for what it starts in the background */
    int out = open(base_print(arena, "%s/out", folder), O_CREAT | O_TRUNC | O_WRONLY, 0600),
        err = open(base_print(arena, "%s/err", folder), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    limit_files();
    execvp(arguments[0], arguments);
    _exit(127);
}

static const char *text_of(struct base_arena *arena, const char *name)
{
    struct base_error error;
    const char *text;
    size_t length;
    assert_ok(base_read_file(arena, base_print(arena, "%s/%s", folder, name), 1 << 24, &text, &length, &error), &error);
    return text;
}

static struct outcome finish(struct base_arena *arena, struct run run)
{
    int status = 0;
    const double asked_s = seconds();
    while (waitpid(run.pid, &status, WNOHANG) == 0) {
        if (seconds() - asked_s > LONGEST_WAIT_S) {
            kill(run.pid, SIGKILL);
            fail_msg("the run hangs; it said: %s", text_of(arena, "err"));
        }
        rest();
    }
    return (struct outcome){WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), text_of(arena, "out"),
                            text_of(arena, "err"), seconds() - run.start_s};
}

static const char *command(struct base_arena *arena, const char *topology, int steps, const char *more)
{
    return base_print(arena,
                      "run --model " MODEL
                      " --topology %s --task-feature-lengths 16 --batch-size 16 --optimizer adamw --steps %d %s",
                      topology, steps, more);
}

static struct outcome run_whole(struct base_arena *arena, const char *topology, int steps, const char *more)
{
    return finish(arena, start(arena, command(arena, topology, steps, more)));
}

static void assert_outcome(const struct outcome *o, int exit_code, const char *part)
{
    bool answers = exit_code == 0 || exit_code == 6;
    if (o->exit_code == exit_code && strstr(answers ? o->out : o->err, part)) return;
    print_error("exit %d where %d is expected, with \"%s\"; stdout: %.300s\nstderr: %.600s\n", o->exit_code, exit_code,
                part, o->out, o->err);
    fail();
}

static const struct base_json *losses(struct base_arena *arena, const struct outcome *o, int exit_code)
{
    const struct base_json *document;
    struct base_error error;
    assert_outcome(o, exit_code, "\"loss\"");
    assert_ok(base_json_parse(arena, o->out, strlen(o->out), &document, &error), &error);
    return base_json_get(document, "loss");
}

/* ---- its processes ---- */

static pid_t parent_of(pid_t pid, char name[64])
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (!open || !close || strlen(close) < 5) return -1;
    snprintf(name, 64, "%.*s", (int)(close - open - 1), open + 1);
    return close[2] == 'Z' ? -1 : (pid_t)atol(close + 4);
}

static bool descends(pid_t pid, pid_t from)
{
    char name[64];
    for (int depth = 0; depth < 8 && pid > 1; depth++) {
        if (pid == from) return true;
        pid = parent_of(pid, name);
    }
    return false;
}

/* What of that name a run has started. */
static int processes_of(pid_t run, const char *wanted, pid_t *found)
{
    DIR *processes = opendir("/proc");
    int count = 0;
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes)) && count < MOST_PROCESSES;) {
        char name[64] = "";
        pid_t pid = (pid_t)atol(entry->d_name);
        if (pid > 0 && parent_of(pid, name) > 0 && !strcmp(name, wanted) && descends(pid, run)) found[count++] = pid;
    }
    closedir(processes);
    return count;
}

static int ranks_of(pid_t run, pid_t *ranks)
{
    return processes_of(run, "meshwright-rank", ranks);
}

static bool is_alive(pid_t pid)
{
    char name[64];
    return parent_of(pid, name) >= 0 && !strcmp(name, "meshwright-rank");
}

static void assert_gone(const pid_t *ranks, int count)
{
    double start_s = seconds();
    for (int i = 0; i < count;) {
        if (!is_alive(ranks[i])) i++;
        else if (seconds() - start_s > 10 * TEST_SLOWER) fail_msg("process %ld is still there", (long)ranks[i]);
        else rest();
    }
}

static bool exists(struct base_arena *arena, const char *name)
{
    return access(base_print(arena, "%s/%s", folder, name), F_OK) == 0;
}

/* Returns once the run has left a checkpoint in `name` and so is in the middle of its steps. */
static int wait_for_steps(struct base_arena *arena, struct run run, const char *name, pid_t *ranks)
{
    const char *const *found;
    struct base_error error;
    for (int count = 0; !count; rest()) {
        const char *path = base_print(arena, "%s/%s", folder, name);
        if (base_directory_exists(path)) assert_ok(base_directory_list(arena, path, &found, &count, &error), &error);
        while (count && (found[count - 1][0] == '.' || strstr(found[count - 1], ".partial"))) count--;
        if (seconds() - run.start_s > LONGEST_WAIT_S || waitpid(run.pid, NULL, WNOHANG) != 0)
            fail_msg("the run does not come to its steps: %s", text_of(arena, "err"));
    }
    return ranks_of(run.pid, ranks);
}

static void assert_no_partial(struct base_arena *arena, const char *name)
{
    const char *const *found;
    struct base_error error;
    int count;
    assert_ok(base_directory_list(arena, base_print(arena, "%s/%s", folder, name), &found, &count, &error), &error);
    for (int i = 0; i < count; i++)
        if (strstr(found[i], ".partial")) fail_msg("%s is left", found[i]);
}

static struct run start_long(struct base_arena *arena, const char *name, const char *more)
{
    base_directory_remove(arena, base_print(arena, "%s/%s", folder, name));
    return start(arena,
                 command(arena, "local:4", 1000000,
                         base_print(arena, "--num-partitions 2 --checkpoint %s/%s --checkpoint-every 5 --keep 2 %s",
                                    folder, name, more)));
}

/* ---- tests ---- */

static void ranks_and_one_process_agree(struct base_arena *arena)
{
    struct outcome ranks = run_whole(arena, "local:4", 4, "--num-partitions 2 --json"), again, alone;
    const struct base_json *a = losses(arena, &ranks, 0)->child;
    again = run_whole(arena, "local:4", 4, "--num-partitions 2 --json");
    const struct base_json *b = losses(arena, &again, 0)->child;
    alone = run_whole(arena, "local:4", 4, "--num-partitions 2 --json --in-process");
    const struct base_json *c = losses(arena, &alone, 0)->child;
    for (int i = 0; i < 4; i++, a = a->next, b = b->next, c = c->next) {
        assert_near(a->number, b->number, 0);
        assert_near(a->number, c->number, 1e-5);
    }
}

/* Over MPI, too, what is on its way while something is computed gives the same bits, and what was hidden is said. */
static void collectives_pass_beside_what_computes(struct base_arena *arena)
{
    const char *profile = base_print(arena, "%s/overlap.json", folder);
    static const char text[] = "{\"constants\": {}, \"passes\": {\"overlap_collectives\": true}}";
    struct base_error error;
    assert_ok(base_write_file(profile, text, sizeof text - 1, &error), &error);
    struct outcome waits = run_whole(arena, "local:2", 4, "--num-partitions 1 --json"),
                   beside = run_whole(arena, "local:2", 4,
                                      base_print(arena, "--num-partitions 1 --json --profile %s", profile));
    const struct base_json *a = losses(arena, &waits, 0)->child, *b = losses(arena, &beside, 0)->child;
    for (int i = 0; i < 4; i++, a = a->next, b = b->next) assert_near(a->number, b->number, 0);
    assert_outcome(&beside, 0, "\"hidden_communication\": {\"measured_s\": ");
    assert_null(strstr(waits.out, "hidden_communication"));
}

static void eight_ranks_share_two_cores(struct base_arena *arena)
{
    struct outcome o = run_whole(arena, "local:8", 3, "--num-partitions 4");
    assert_outcome(&o, 0, "run here on 8 ranks");
    struct outcome alone = run_whole(arena, "local:1", 2, "");
    assert_outcome(&alone, 0, "run here on one rank");
}

/* Another machine's plan runs on as many ranks, if one says so. */
static void plans_for_other_machines_run(struct base_arena *arena)
{
    struct outcome o = run_whole(arena, "v4:2x2x1", 2, "--ranks 4 --dtype float32 --model-parallel-submesh 2,1,1,1");
    assert_outcome(&o, 0, "mesh data 2 x model 2, run here on 4 ranks");
}

static void a_killed_rank_ends_the_run(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run run = start_long(arena, "killed", "");
    int count = wait_for_steps(arena, run, "killed", ranks);
    assert_int_equal(count, 4);
    kill(ranks[2], SIGKILL);
    double killed_s = seconds();
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 5, "died: it was ended by signal 9 (Killed)");
    assert_non_null(strstr(o.err, "meshwright: rank "));
    assert_true(seconds() - killed_s < 30 * TEST_SLOWER);
    assert_gone(ranks, count);
    assert_no_partial(arena, "killed");
}

static void a_hung_rank_ends_the_run(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run run = start_long(arena, "hung", base_print(arena, "--timeout %d", 1 + TEST_SLOWER));
    int count = wait_for_steps(arena, run, "hung", ranks);
    assert_int_equal(count, 4);
    kill(ranks[1], SIGSTOP);
    double stopped_s = seconds();
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 5, "hangs: it shows no sign of life");
    assert_true(seconds() - stopped_s < 30 * TEST_SLOWER);
    assert_gone(ranks, count);
    assert_no_partial(arena, "hung");
}

/* Starts a run that finds this script in place of mpirun. */
static struct run start_with_mpirun(struct base_arena *arena, const char *script, const char *words)
{
    const char *bin = base_print(arena, "%s/bin", folder), *before = base_copy(arena, getenv("PATH"));
    struct base_error error;
    assert_ok(base_directory_make(bin, &error), &error);
    assert_ok(base_write_file(base_print(arena, "%s/mpirun", bin), script, strlen(script), &error), &error);
    assert_int_equal(chmod(base_print(arena, "%s/mpirun", bin), 0700), 0);
    setenv("PATH", base_print(arena, "%s:%s", bin, before), 1);
    struct run run = start(arena, words);
    setenv("PATH", before, 1);
    return run;
}

/* Nobody within the run is left to notice, or nobody has begun to: the command itself does, in --timeout and 5 s. */
static void a_silence_ends_the_run(struct base_arena *arena)
{
    static const struct {
        const char *who, *part;
        int stopped, rank_count;
        bool steps; /* that is while it takes its steps; else the launcher stops itself before it starts a rank */
        int timeout_s;
    } rows[] = {{"mpirun", "--timeout SECONDS waits longer", 1, 2, false, 10},
                {"mpirun", "--timeout SECONDS waits longer", 1, 2, false, 1},
                {"mpirun", "the ranks had met", 1, 2, true, 10},
                {"mpirun", "the ranks had met", 1, 2, true, 4},
                {"meshwright-rank", "the ranks had met", 2, 2, true, 4}};
    enum { MORE_S = 10 * TEST_SLOWER };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        pid_t ranks[MOST_PROCESSES], found[MOST_PROCESSES];
        TEST_ROW("%s, %d of %d", rows[i].who, rows[i].stopped, rows[i].rank_count);
        base_directory_remove(arena, base_print(arena, "%s/silent", folder));
        const char *words =
            command(arena, base_print(arena, "local:%d", rows[i].rank_count), 1000000,
                    base_print(arena, "--checkpoint %s/silent --checkpoint-every 5 --keep 2 --timeout %d", folder,
                               rows[i].timeout_s));
        struct run run =
            rows[i].steps ? start(arena, words) : start_with_mpirun(arena, "#!/bin/sh\nkill -STOP $$\n", words);
        const int count = rows[i].steps ? wait_for_steps(arena, run, "silent", ranks) : 0;
        if (rows[i].steps) assert_int_equal(processes_of(run.pid, rows[i].who, found), rows[i].stopped);
        for (int k = 0; k < rows[i].stopped && rows[i].steps; k++) kill(found[k], SIGSTOP);
        const double stopped_s = rows[i].steps ? seconds() : run.start_s;
        struct outcome o = finish(arena, run);
        const double took_s = seconds() - stopped_s;
        assert_outcome(&o, 5, rows[i].part);
        assert_non_null(strstr(o.err, "no sign of life for"));
        assert_true(took_s > rows[i].timeout_s && took_s < rows[i].timeout_s + MORE_S);
        assert_gone(ranks, count);
    }
}

/* The ranks are there, but MPI is not, nor the model's many initial values: no rank is to blame. */
static void a_signal_before_the_first_step_is_named(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run run =
        start(arena,
              "run --model decoder_only:emb_dim=512,num_heads=4,head_dim=128,mlp_dim=2048,num_layers=8,vocab_size=32000"
              " --topology local:2 --task-feature-lengths 16 --batch-size 16 --steps 3 --json");
    while (ranks_of(run.pid, ranks) < 2 && seconds() - run.start_s < LONGEST_WAIT_S) rest();
    kill(run.pid, SIGTERM);
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 6, "\"stopped\": true");
    /* The first step, or after one where it began just then. */
    assert_non_null(strstr(o.err, "stopped by SIGTERM "));
}

/* Whether a process no longer dies of SIGTERM: it holds it (blocked), or has a handler. */
static bool withstands(struct base_arena *arena, pid_t pid)
{
    unsigned long long blocked = 0, caught = 0;
    char line[128];
    FILE *file = fopen(base_print(arena, "/proc/%ld/status", (long)pid), "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "SigBlk: %llx", &blocked) != 1) sscanf(line, "SigCgt: %llx", &caught);
    if (file) fclose(file);
    return (blocked | caught) >> (SIGTERM - 1) & 1;
}

/* One rank alone is asked to end, or all are but not their launcher, as soon as they are loaded: before they hear
 * signals. A millisecond earlier mpirun 4.1 may crash (libevent), which is not ours. */
static void a_rank_that_is_stopped_before_the_first_step_is_named(struct base_arena *arena)
{
    static const char *const ways[] = {"--topology local:1", "--topology local:2", "--topology local:1 --in-process"};
    for (int i = 0; i < BASE_COUNT(ways); i++) {
        TEST_ROW("%s", ways[i]);
        pid_t ranks[MOST_PROCESSES];
        struct run run = start(arena, base_print(arena,
                                                 "run --model decoder_only:emb_dim=512,num_heads=4,head_dim=128,"
                                                 "mlp_dim=2048,num_layers=8,vocab_size=32000 %s --task-feature-lengths "
                                                 "16 --batch-size 16 --steps 3 --json",
                                                 ways[i]));
        int asked_count = 0;
        for (; !asked_count && seconds() - run.start_s < LONGEST_WAIT_S; rest()) {
            const int count = ranks_of(run.pid, ranks);
            for (int k = 0; k < count; k++)
                if (withstands(arena, ranks[k])) asked_count += kill(ranks[k], SIGTERM) == 0;
        }
        struct outcome o = finish(arena, run);
        assert_outcome(&o, 6, "\"stopped\": true");
        assert_non_null(strstr(o.err, "stopped by "));
        assert_non_null(strstr(o.out, "\"loss\": [")); /* whatever was done, the members are those of any run */
        assert_non_null(strstr(o.out, "\"throughput\": {"));
    }
}

/* What mpirun ends with says why, where its words are lost: a rank's signal by its code, or a crash of its own. */
static void the_end_of_mpirun_is_understood(struct base_arena *arena)
{
    static const struct {
        const char *script, *part;
        int exit_code;
    } rows[] = {
        {"#!/bin/sh\nexit 143\n", "\"stopped\": true", 6},
        {"#!/bin/sh\nexit 137\n", "mpirun: ended with the exit code 137; 0 of 2 ranks had started", 5},
        {"#!/bin/sh\nkill -SEGV $$\n", "(Segmentation fault); 0 of 2 ranks had started, but they had not met", 5}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].script);
        struct outcome o =
            finish(arena, start_with_mpirun(arena, rows[i].script, command(arena, "local:2", 3, "--json")));
        assert_outcome(&o, rows[i].exit_code, rows[i].part);
    }
}

/* A launcher that heeds no signal, and has left somebody in a session of his own who holds its pipes. */
static void who_cannot_be_ended_is_left(struct base_arena *arena)
{
    const char *left = base_print(arena, "%s/left", folder);
    struct run run =
        start_with_mpirun(arena,
                          base_print(arena, "#!/bin/sh\ntrap '' HUP USR1\nsetsid sleep %d &\necho $! >%s\nsleep %d\n",
                                     LONGEST_WAIT_S, left, LONGEST_WAIT_S),
                          command(arena, "local:2", 3, "--json"));
    while (!exists(arena, "left") && seconds() - run.start_s < LONGEST_WAIT_S) rest();
    rest();
    kill(run.pid, SIGTERM);
    double asked_s = seconds();
    struct outcome o = finish(arena, run);
    double took_s = seconds() - asked_s;
    kill((pid_t)atoi(text_of(arena, "left")), SIGKILL);
    assert_outcome(&o, 6, "\"stopped\": true");
    assert_non_null(strstr(o.err, "stopped by SIGTERM before the first step"));
    assert_true(took_s < LONGEST_WAIT_S / 2);
}

static void assert_process_ends(long process)
{
    for (double start_s = seconds(); base_process_lives(process); rest())
        if (seconds() - start_s > 30 * TEST_SLOWER) fail_msg("process %ld is still there", process);
}

/* A launcher hangs at its end, deaf to signals: with its pipes closed, and after whoever started it was killed. */
static void a_launcher_that_does_not_end_is_killed(struct base_arena *arena)
{
    for (int is_orphan = 0; is_orphan < 2; is_orphan++) {
        TEST_ROW("%s", is_orphan ? "killed" : "closed");
        const char *name = base_print(arena, "launcher_%d", is_orphan);
        struct run run = start_with_mpirun(
            arena,
            base_print(arena, "#!/bin/sh\ntrap '' HUP INT TERM ALRM USR1\n%s\necho $$ >%s/%s\nexec sleep %d\n",
                       is_orphan ? "" : "exec >&- 2>&-", folder, name, LONGEST_WAIT_S),
            command(arena, "local:2", 3, base_print(arena, "--timeout %d", LONGEST_WAIT_S)));
        while (!exists(arena, name) || !*text_of(arena, name)) rest();
        if (is_orphan) kill(run.pid, SIGKILL);
        struct outcome o = finish(arena, run);
        if (!is_orphan) assert_outcome(&o, 5, "mpirun: was ended by signal 9 (Killed)");
        assert_process_ends(atol(text_of(arena, name)));
    }
}

/* Ended in the middle, resumed: the steps are those of a run that was not. */
static void sigterm_leaves_a_checkpoint(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run run = start_long(arena, "ended", "--json");
    int count = wait_for_steps(arena, run, "ended", ranks);
    kill(run.pid, SIGTERM);
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 6, "\"stopped\": true");
    assert_gone(ranks, count);
    assert_no_partial(arena, "ended");
    int done = losses(arena, &o, 6)->count;
    assert_non_null(strstr(o.err, base_print(arena, "stopped by SIGTERM after %d steps;", done)));
    assert_true(done >= 5);
    assert_true(exists(arena, base_print(arena, "ended/checkpoint_%d", done)));
    struct outcome rest_of = run_whole(arena, "local:4", done + 2,
                                       base_print(arena, "--num-partitions 2 --json --checkpoint %s/ended", folder));
    struct outcome straight = run_whole(arena, "local:4", done + 2, "--num-partitions 2 --json");
    const struct base_json *a = losses(arena, &rest_of, 0)->child, *b = losses(arena, &straight, 0)->child;
    assert_int_equal(losses(arena, &rest_of, 0)->count, 2);
    for (int i = 0; i < done; i++) b = b->next;
    for (; a; a = a->next, b = b->next) assert_near(a->number, b->number, 0);
}

/* What ranks say of their steps is on its way for a while: here nobody has read a word of it yet when the run is asked
 * to end, and its work is kept all the same. */
static void sigterm_overtakes_what_ranks_say(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run run = start_long(arena, "unread", "--json");
    while (ranks_of(run.pid, ranks) == 0 && seconds() - run.start_s < LONGEST_WAIT_S) rest();
    kill(run.pid, SIGSTOP);
    wait_for_steps(arena, run, "unread", ranks);
    kill(run.pid, SIGTERM);
    kill(run.pid, SIGCONT);
    struct outcome o = finish(arena, run);
    int done = losses(arena, &o, 6)->count;
    assert_true(done >= 5);
    assert_true(exists(arena, base_print(arena, "unread/checkpoint_%d", done)));
}

/* The launcher is there, and its ranks are not: the wish is not lost with it. */
static void sigterm_before_ranks_is_heeded(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    for (int round = 0; round < 8; round++) {
        struct run run = start_long(arena, "early", "");
        nanosleep(&(struct timespec){0, 20000000 * round}, NULL);
        kill(run.pid, SIGTERM);
        double asked_s = seconds();
        struct outcome o = finish(arena, run);
        /* The first two: it had not come to its own handler, or to its launcher. */
        assert_true(o.exit_code == 1000 + SIGTERM || o.exit_code == 128 + SIGTERM || o.exit_code == 6);
        assert_true(seconds() - asked_s < 20 * TEST_SLOWER);
        assert_gone(ranks, ranks_of(run.pid, ranks));
    }
}

/* mpirun: between the run and its ranks; 0: there is none. */
static pid_t launcher_of(struct run run, pid_t rank)
{
    pid_t launcher = 0;
    char name[64];
    for (pid_t at = rank; at > 1 && at != run.pid; at = parent_of(at, name)) launcher = at;
    return launcher;
}

/* Whether a table of sockets (/proc/net/tcp) has this one, in hexadecimal 0A for listening, at an address that is not
 * the loopback's. */
static bool listens_on_a_network(const char *table, const char *inode)
{
    char line[512], address[64], state[8], own[32];
    bool found = false;
    FILE *file = fopen(table, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*d: %63[0-9A-F]:%*x %*s %7s %*s %*s %*s %*s %*s %31s", address, state, own) != 3) continue;
        found = found || (!strcmp(own, inode) && !strcmp(state, "0A") && strcmp(address, "0100007F") != 0);
    }
    if (file) fclose(file);
    return found;
}

static bool process_listens(struct base_arena *arena, pid_t process)
{
    const char *path = base_print(arena, "/proc/%ld/fd", (long)process), *const * names;
    struct base_error error;
    int count;
    bool found = false;
    assert_ok(base_directory_list(arena, path, &names, &count, &error), &error);
    for (int i = 0; i < count; i++) {
        char link[256] = "", inode[32];
        if (readlink(base_print(arena, "%s/%s", path, names[i]), link, sizeof link - 1) <= 0) continue;
        if (sscanf(link, "socket:[%31[0-9]", inode) != 1) continue;
        found = found || listens_on_a_network("/proc/net/tcp", inode) || listens_on_a_network("/proc/net/tcp6", inode);
    }
    return found;
}

/* Ranks of one machine have a network of their own; where the system allows none, that is said. */
static void local_ranks_listen_on_no_network(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run run = start_long(arena, "listens", "");
    const int count = wait_for_steps(arena, run, "listens", ranks);
    bool listens = process_listens(arena, launcher_of(run, ranks[0]));
    for (int i = 0; i < count; i++) listens = listens || process_listens(arena, ranks[i]);
    kill(run.pid, SIGTERM);
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 6, "run here on 4 ranks");
    if (listens) assert_non_null(strstr(o.err, "listens on every network"));
}

/* Over hosts, who does not choose a network is told how. */
static void ranks_of_hosts_say_where_they_listen(struct base_arena *arena)
{
    static const char variable[] = "OMPI_MCA_btl_tcp_if_include", hosts[] = "localhost slots=2\n";
    const char *path = base_print(arena, "%s/hosts", folder), *more = base_print(arena, "--hostfile %s", path);
    struct base_error error;
    assert_ok(base_write_file(path, hosts, sizeof hosts - 1, &error), &error);
    struct outcome told = run_whole(arena, "local:2", 1, more);
    setenv(variable, "lo", 1);
    struct outcome chosen = run_whole(arena, "local:2", 1, more);
    unsetenv(variable);
    assert_outcome(&told, 0, "run here on 2 ranks");
    assert_outcome(&chosen, 0, "run here on 2 ranks");
    assert_non_null(strstr(told.err, "ranks listen on every network of their hosts"));
    assert_null(strstr(chosen.err, "listen"));
}

/* mpirun is found where the system has it; a PATH without it is a word. */
static void no_path_is_no_riddle(struct base_arena *arena)
{
    const char *before = base_copy(arena, getenv("PATH"));
    unsetenv("PATH");
    struct outcome without = run_whole(arena, "local:2", 1, "");
    setenv("PATH", folder, 1);
    struct outcome elsewhere = run_whole(arena, "local:2", 1, "");
    setenv("PATH", before, 1);
    assert_outcome(&without, 0, "run here on 2 ranks");
    assert_outcome(&elsewhere, 5, "mpirun: is not on PATH");
}

/* Whoever is sent the signal, the work is saved. */
static void a_signal_to_mpirun_leaves_a_checkpoint(struct base_arena *arena)
{
    static const int numbers[] = {SIGTERM, SIGHUP};
    pid_t ranks[MOST_PROCESSES];
    for (int i = 0; i < BASE_COUNT(numbers); i++) {
        struct run run = start_long(arena, "launcher", "--json");
        int count = wait_for_steps(arena, run, "launcher", ranks);
        kill(launcher_of(run, ranks[0]), numbers[i]);
        struct outcome o = finish(arena, run);
        TEST_ROW("signal %d", numbers[i]);
        assert_outcome(&o, 6, "\"stopped\": true");
        assert_gone(ranks, count);
        assert_true(exists(arena, base_print(arena, "launcher/checkpoint_%d", losses(arena, &o, 6)->count)));
    }
}

/* As systemd and scancel end a job: every process of it is told at once, its launcher too. */
static void sigterm_to_all_leaves_a_checkpoint(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    for (int round = 0; round < 2; round++) {
        struct run run = start_long(arena, "all", round ? "--json --in-process" : "--json");
        int count = wait_for_steps(arena, run, "all", ranks);
        const pid_t launcher = launcher_of(run, count ? ranks[0] : 0);
        kill(run.pid, SIGTERM);
        for (int i = 0; i < count; i++) kill(ranks[i], SIGTERM);
        if (launcher) kill(launcher, SIGTERM);
        struct outcome o = finish(arena, run);
        assert_outcome(&o, 6, "\"stopped\": true");
        assert_gone(ranks, count);
        assert_no_partial(arena, "all");
        assert_true(exists(arena, base_print(arena, "all/checkpoint_%d", losses(arena, &o, 6)->count)));
    }
}

/* One of two runs that are given the same directory is refused, and the other is none the worse. */
static void two_runs_do_not_share_a_directory(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run first = start_long(arena, "shared", "--json --in-process");
    wait_for_steps(arena, first, "shared", ranks);
    struct outcome second =
        finish(arena, start(arena, command(arena, "local:4", 9,
                                           base_print(arena, "--num-partitions 2 --checkpoint %s/shared", folder))));
    assert_outcome(&second, 3, "two runs cannot write into one --checkpoint directory");
    struct outcome judged =
        finish(arena, start(arena, command(arena, "local:4", 2,
                                           base_print(arena,
                                                      "--num-partitions 2 --step evaluate --checkpoint %s/shared "
                                                      "--data %s/nowhere.jsonl",
                                                      folder, folder))));
    assert_outcome(&judged, 3, "nowhere.jsonl: cannot be read");
    kill(first.pid, SIGTERM);
    struct outcome o = finish(arena, first);
    assert_int_equal(o.exit_code, 6);
    assert_no_partial(arena, "shared");
}

/* A pipe in the place of a file keeps nobody waiting, and no rank outlives its launcher. */
static void a_pipe_for_a_chunk_is_refused(struct base_arena *arena)
{
    struct outcome o = run_whole(arena, "local:1", 1, base_print(arena, "--checkpoint %s/pipe", folder));
    assert_outcome(&o, 0, "run here");
    const char *chunk = base_print(arena, "%s/pipe/checkpoint_1/target.decoder.decoder_norm.scale/0", folder);
    assert_int_equal(remove(chunk), 0);
    assert_int_equal(mkfifo(chunk, 0600), 0);
    o = run_whole(arena, "local:1", 2, base_print(arena, "--checkpoint %s/pipe", folder));
    assert_outcome(&o, 3, "scale/0: is no regular file");
    const char *data = base_print(arena, "%s/pipe.jsonl", folder);
    assert_int_equal(mkfifo(data, 0600), 0); /* data may come from a pipe; nobody writes here */
    struct run run = start(arena, command(arena, "local:1", 2, base_print(arena, "--in-process --data %s", data)));
    pid_t ranks[MOST_PROCESSES];
    int count = 0;
    while ((count = ranks_of(run.pid, ranks)) == 0 && seconds() - run.start_s < LONGEST_WAIT_S) rest();
    assert_int_equal(count, 1);
    for (int i = 0; i < 10; i++) rest();
    kill(run.pid, SIGKILL);
    finish(arena, run);
    assert_gone(ranks, count);
}

/* What cannot be written in the end is known before the first step, and the losses are printed whatever comes. */
static void losses_outlive_a_failure_at_the_end(struct base_arena *arena)
{
    struct outcome o = run_whole(arena, "local:2", 2, base_print(arena, "--trace %s/no/where", folder));
    assert_outcome(&o, 3, "no/where: cannot be written: No such file or directory");
    assert_null(strstr(o.out, "loss"));
    o = run_whole(arena, "local:2", 2, "--checkpoint /proc/nowhere");
    assert_outcome(&o, 3, "/proc/nowhere: cannot be created");
    static const char *const full[] = {"--out", "--trace"};
    for (int i = 0; i < BASE_COUNT(full); i++) {
        TEST_ROW("%s", full[i]);
        o = run_whole(arena, "local:2", 2, base_print(arena, "--json %s /dev/full", full[i]));
        assert_outcome(&o, 3, "/dev/full: cannot be written: No space left on device");
        assert_non_null(strstr(o.out, "\"loss\": ["));
    }
    const char *disk = base_print(arena, "%s/small", folder);
    struct base_error error;
    assert_ok(base_directory_make(disk, &error), &error);
    if (mount("none", disk, "tmpfs", 0, "size=64k") != 0) skip(); /* needs root */
    o = run_whole(arena, "local:2", 2, base_print(arena, "--json --checkpoint %s/run", disk));
    umount(disk);
    assert_outcome(&o, 5, "No space left on device");
    assert_non_null(strstr(o.out, "\"loss\": ["));
    assert_non_null(strstr(o.out, "\"error\": "));
}

static bool shell(struct base_arena *arena, const char *format, const char *a, const char *b)
{
    return system(base_print(arena, format, a, b)) == 0;
}

/* A disk that stands still, as network disks do at times, ends nothing: the run waits, says so, and goes on. */
static void a_disk_that_stalls_is_no_hang(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct base_error error;
    const char *disk = base_print(arena, "%s/slow", folder), *image = base_print(arena, "%s/slow.img", folder);
    assert_ok(base_directory_make(disk, &error), &error);
    bool mounted = shell(arena, "truncate -s 32M %s && mkfs.ext4 -q -F %s", image, image) &&
                   shell(arena, "mount -o loop %s %s 2>/dev/null", image, disk);
    if (!mounted) {
        print_message("left out: a disk of one's own, which needs root and loop devices\n");
        skip();
    }
    struct run run =
        start(arena, command(arena, "local:2", 1000000,
                             base_print(arena, "--json --timeout %d --checkpoint %s/run --checkpoint-every 1 --keep 1",
                                        TEST_SLOWER, disk)));
    int count = wait_for_steps(arena, run, "slow/run", ranks);
    assert_int_equal(count, 2);
    assert_true(shell(arena, "fsfreeze -f %s%s", disk, ""));
    const char *slow = "reads or writes files; is its disk slow, or full?";
    for (double start_s = seconds(), waited_s = 0; waited_s < 4 || !strstr(text_of(arena, "err"), slow);) {
        rest();
        waited_s = seconds() - start_s;
        if (waited_s > LONGEST_WAIT_S) break;
    }
    bool lives = waitpid(run.pid, NULL, WNOHANG) == 0;
    assert_true(shell(arena, "fsfreeze -u %s%s", disk, ""));
    assert_true(lives);
    kill(run.pid, SIGTERM);
    struct outcome o = finish(arena, run);
    shell(arena, "umount %s%s", disk, "");
    assert_outcome(&o, 6, "\"stopped\": true");
    assert_non_null(strstr(o.err, slow));
}

/* One cut on each kind of ext4; `make soak` makes twenty. */
static void checkpoints_survive_power_cuts(struct base_arena *arena)
{
    assert_true(shell(arena, "scripts/power_cut.sh %s %s", program, "1"));
}

static void a_second_signal_ends_it_at_once(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run run = start_long(arena, "twice", "");
    int count = wait_for_steps(arena, run, "twice", ranks);
    for (int i = 0; i < count; i++) kill(ranks[i], SIGSTOP); /* so that the first cannot be followed */
    /* What comes within half a second is one wish, counted from when it was heard. */
    for (siginfo_t end = {.si_pid = 0}; end.si_pid == 0;) {
        kill(run.pid, SIGINT);
        nanosleep(&(struct timespec){2, 0}, NULL);
        assert_int_equal(waitid(P_PID, (id_t)run.pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
        if (seconds() - run.start_s > LONGEST_WAIT_S) break;
    }
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 128 + SIGINT, "");
    assert_gone(ranks, count);
    assert_no_partial(arena, "twice");
}

static const char *run_folder(struct base_arena *arena, long process)
{
    char name[300];
    base_process_name(process, name, sizeof name);
    return base_print(arena, "/dev/shm/meshwright-run-%s", name);
}

/* The folder of a run whose process has ended goes, with Open MPI's sessions; those of others stay: a process that
 * lives, a lock that is held, another program's. */
static void the_next_run_removes_what_is_dead(struct base_arena *arena)
{
    struct base_error error;
    struct base_lock lock;
    char host[64] = "";
    bool locks;
    pid_t dead[2];
    if (access("/dev/shm", W_OK) != 0) skip();
    for (int i = 0; i < BASE_COUNT(dead); i++) {
        dead[i] = fork();
        if (dead[i] == 0) _exit(0);
        waitpid(dead[i], NULL, 0);
    }
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    const char *home = base_print(arena, "/tmp/ompi.%s.meshwright.%ld", host, (long)geteuid()),
               *gone[] = {run_folder(arena, dead[0]), base_print(arena, "%s/pid.%ld", home, (long)dead[0]),
                          base_print(arena, "%s/jf.1", home)},
               *stays[] = {run_folder(arena, getpid()), run_folder(arena, dead[1]),
                           base_print(arena, "%s/pid.%ld", home, (long)dead[1]), base_print(arena, "%s/jf.2", home)};
    assert_ok(base_directory_make(home, &error), &error);
    for (int i = 0; i < BASE_COUNT(gone); i++) assert_ok(base_directory_make(gone[i], &error), &error);
    for (int i = 0; i < BASE_COUNT(stays); i++) assert_ok(base_directory_make(stays[i], &error), &error);
    for (int i = 0; i < 2; i++)
        assert_ok(
            base_directory_make(base_print(arena, "%s/jf.%d/pmix_dstor_ds21_%ld", home, i + 1, (long)dead[i]), &error),
            &error);
    assert_ok(base_write_file(base_print(arena, "%s/vader_segment", gone[0]), "x", 1, &error), &error);
    assert_ok(base_lock_take(&lock, base_print(arena, "%s/lock", stays[1]), "the test", &locks, &error), &error);
    struct outcome o = run_whole(arena, "local:2", 1, "");
    assert_outcome(&o, 0, "run here on 2 ranks");
    for (int i = 0; i < BASE_COUNT(gone); i++)
        if (base_directory_exists(gone[i])) fail_msg("%s is left", gone[i]);
    for (int i = 0; i < BASE_COUNT(stays); i++) {
        if (!base_directory_exists(stays[i])) fail_msg("%s is gone", stays[i]);
        base_directory_remove(arena, stays[i]);
    }
    base_lock_release(&lock);
    base_directory_remove(arena, home);
}

/* A parent that is killed takes its ranks along. */
static void ranks_do_not_outlive_the_run(struct base_arena *arena)
{
    pid_t ranks[MOST_PROCESSES];
    struct run run = start_long(arena, "orphans", "");
    int count = wait_for_steps(arena, run, "orphans", ranks);
    kill(run.pid, SIGKILL);
    finish(arena, run);
    assert_gone(ranks, count);
}

static void a_full_disk_ends_the_run(struct base_arena *arena)
{
    const char *disk = base_print(arena, "%s/disk", folder);
    struct base_error error;
    assert_ok(base_directory_make(disk, &error), &error);
    if (mount("none", disk, "tmpfs", 0, "size=64k") != 0) skip(); /* needs root */
    struct outcome o =
        run_whole(arena, "local:4", 3, base_print(arena, "--num-partitions 2 --checkpoint %s/run", disk));
    bool left = base_directory_exists(base_print(arena, "%s/run/checkpoint_3", disk)) ||
                base_directory_exists(base_print(arena, "%s/run/checkpoint_3.partial", disk));
    umount(disk);
    assert_outcome(&o, 5, "cannot be written: No space left on device");
    assert_false(left);
}

static void only_the_newest_checkpoints_stay(struct base_arena *arena)
{
    struct outcome o =
        run_whole(arena, "local:2", 7, base_print(arena, "--checkpoint %s/kept --checkpoint-every 2 --keep 2", folder));
    assert_outcome(&o, 0, "run here on 2 ranks");
    for (int step = 1; step <= 7; step++)
        assert_int_equal(exists(arena, base_print(arena, "kept/checkpoint_%d", step)), step >= 6);
}

/* All ranks say so; a user hears it once. */
static void warnings_arrive_once(struct base_arena *arena)
{
    const char *const *names;
    int count;
    struct base_error error;
    struct outcome o = run_whole(arena, "local:4", 1, base_print(arena, "--checkpoint %s/stateless", folder));
    assert_outcome(&o, 0, "run here");
    const char *checkpoint = base_print(arena, "%s/stateless/checkpoint_1", folder);
    assert_ok(base_directory_list(arena, checkpoint, &names, &count, &error), &error);
    for (int i = 0; i < count; i++)
        if (!strncmp(names[i], "state.", 6))
            base_directory_remove(arena, base_print(arena, "%s/%s", checkpoint, names[i]));
    o = run_whole(arena, "local:4", 1, base_print(arena, "--restore %s", checkpoint));
    assert_outcome(&o, 3, ""); /* the manifest lists it */
    assert_non_null(strstr(o.err, "is gone from the checkpoint: it is not whole"));
    assert_int_equal(remove(base_print(arena, "%s/manifest.json", checkpoint)), 0);
    o = run_whole(arena, "local:4", 1, base_print(arena, "--restore %s", checkpoint));
    assert_outcome(&o, 0, "run here");
    const char *warning = strstr(o.err, "checkpoint_1: has no optimizer state; it starts afresh, at step 0");
    assert_non_null(warning);
    assert_null(strstr(strstr(warning, "has no") + 1, "has no optimizer state"));
    assert_int_equal(strncmp(o.err, "meshwright: rank ", strlen("meshwright: rank ")), 0);
}

static void damaged_files_are_refused(struct base_arena *arena)
{
    struct base_error error;
    struct outcome o =
        run_whole(arena, "local:2", 1, base_print(arena, "--num-partitions 2 --checkpoint %s/damaged", folder));
    assert_outcome(&o, 0, "run here");
    assert_ok(
        base_write_file(base_print(arena, "%s/damaged/checkpoint_1/target.decoder.layers_1.mlp.wo.kernel/1.0", folder),
                        "\x1f\x8b", 2, &error),
        &error);
    o = run_whole(arena, "local:2", 2, base_print(arena, "--num-partitions 2 --checkpoint %s/damaged", folder));
    assert_outcome(&o, 3, "rank 1: ");
    assert_non_null(strstr(o.err, "wo.kernel/1.0: "));
    o = run_whole(arena, "local:2", 2, base_print(arena, "--data %s/nowhere.jsonl", folder));
    assert_outcome(&o, 3, "nowhere.jsonl: cannot be read: No such file or directory");
    assert_ok(base_write_file(base_print(arena, "%s/bad.jsonl", folder), "{\"decoder_input_tokens\": 1}\n", 28, &error),
              &error);
    o = run_whole(arena, "local:2", 1, base_print(arena, "--data %s/bad.jsonl", folder));
    assert_outcome(&o, 3, "bad.jsonl: line 1: decoder_input_tokens: is a number");
}

/* What a launcher left in the environment is a run's business alone; without PMIx its processes would be runs of their
 * own. */
static void launchers_are_recognised(struct base_arena *arena)
{
    setenv("PMIX_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    struct outcome mesh = finish(arena, start(arena, "mesh --topology v4-8 --num-partitions 2"));
    struct outcome alone = run_whole(arena, "local:2", 1, "--in-process");
    unsetenv("PMIX_RANK");
    unsetenv("OMPI_COMM_WORLD_RANK");
    assert_outcome(&mesh, 0, "data");
    assert_outcome(&alone, 0, "run here");
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    struct outcome none = run_whole(arena, "local:4", 1, "");
    unsetenv("SLURM_STEP_NUM_TASKS");
    assert_outcome(&none, 3, "one of 4 processes started without PMIx");
    assert_non_null(strstr(none.err, "srun --mpi=pmix"));
    assert_true(none.time_s < 10 * TEST_SLOWER);
    setenv("PMI_SIZE", "2", 1);
    none = run_whole(arena, "local:2", 1, "");
    unsetenv("PMI_SIZE");
    assert_outcome(&none, 3, "one of 2 processes started without PMIx");
}

static void what_does_not_fit_is_not_started(struct base_arena *arena)
{
    struct outcome o = run_whole(arena, "local:2", 1, "--memory-bytes 100000");
    assert_int_equal(o.exit_code, 4);
    assert_non_null(strstr(o.out, "It does NOT fit"));
    o = run_whole(arena, "local:2", 1, "--memory-bytes 100000000");
    assert_outcome(&o, 0, "run here on 2 ranks");
}

#ifndef __SANITIZE_ADDRESS__
static struct outcome run_within(struct base_arena *arena, int addresses_mib, const char *more)
{
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)addresses_mib << 20;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    struct run run = start(arena, command(arena, "local:2", 2, more));
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    return finish(arena, run);
}
#endif

/* OpenBLAS, left alone, starts a thread for each further core when it is loaded, which maps a buffer of 128 MiB and
 * tries for ever where that is refused: 300 MiB are room for the one buffer that is needed, not for a second. */
static void a_small_address_space_is_room_enough_or_refused(struct base_arena *arena)
{
#ifdef __SANITIZE_ADDRESS__
    (void)arena; /* its shadow has terabytes */
#else
    struct outcome o = run_within(arena, 300, "--in-process");
    assert_outcome(&o, 0, "run here in one process");
    o = run_within(arena, 200, "--in-process");
    assert_outcome(&o, 5, "`ulimit -v` allows less");
    for (int mib = 260; mib < 640; mib += 60) { /* in whatever a rank begins, it runs, or ends with a word */
        o = run_within(arena, mib, "--num-partitions 2");
        if (o.exit_code != 0) assert_outcome(&o, 5, "meshwright: ");
    }
#endif
}

/* mpirun waits for ever where its files run out before its ranks have begun. */
static void too_few_files_are_refused(struct base_arena *arena)
{
    struct rlimit before, soft;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    files_of_a_run = 39;
    struct outcome o = run_whole(arena, "local:2", 1, ""), alone = run_whole(arena, "local:2", 1, "--in-process");
    assert_outcome(&o, 5, "mpirun needs 40 open files for 2 ranks, and `ulimit -n` allows less");
    assert_outcome(&alone, 0, "run here in one process");
    files_of_a_run = 40;
    o = run_whole(arena, "local:2", 1, "");
    files_of_a_run = 0;
    assert_outcome(&o, 0, "run here on 2 ranks");
    soft = (struct rlimit){24, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &soft), 0); /* which a program may raise itself */
    struct run run = start(arena, command(arena, "local:2", 1, ""));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    o = finish(arena, run);
    assert_outcome(&o, 0, "run here on 2 ranks");
}

/* Files may not grow as large as a chunk of the table: the checkpoint is refused with a word and is not left half; what
 * was trained is still said. */
static void a_file_that_may_not_grow_is_a_word(struct base_arena *arena)
{
    const rlim_t most_bytes = 12 << 20; /* Open MPI's own take less, a chunk of the table's takes 32 MiB */
    const char *home = base_print(arena, "%s/small_files", folder);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = most_bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct run run = start(
        arena, base_print(arena,
                          "run --model decoder_only:vocab_size=32768,emb_dim=512,num_heads=2,head_dim=8,mlp_dim=64,"
                          "num_layers=1,logits_via_embedding=1 --topology local:2 --task-feature-lengths 8 "
                          "--batch-size 2 --steps 1 --json --checkpoint %s",
                          home));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 5, "cannot be written: File too large");
    assert_non_null(strstr(o.out, "\"loss\": ["));
}

/* Nor as large as Open MPI's own, of which ranks would die one by one. */
static void files_too_small_for_ranks_are_a_word(struct base_arena *arena)
{
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int in_process = 0; in_process < 2; in_process++) {
        limit = before;
        limit.rlim_cur = 1 << 20;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        struct run run = start(arena, command(arena, "local:2", 1, in_process ? "--in-process" : ""));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        struct outcome o = finish(arena, run);
        if (in_process) assert_outcome(&o, 0, "run here");
        else assert_outcome(&o, 5, "`ulimit -f` allows less");
    }
}

/* What was measured has the names of what was predicted, one for one. */
static void what_was_measured_was_predicted(struct base_arena *arena)
{
    static const char *const steps[] = {"train", "evaluate"};
    for (int i = 0; i < 2; i++) {
        const struct base_json *document;
        struct base_error error;
        TEST_ROW("%s", steps[i]);
        struct outcome o = run_whole(
            arena, "local:4", 2,
            base_print(
                arena,
                "--num-partitions 2 --num-microbatches 2 --step %s --json --out %s/run.json --trace %s/trace.json",
                steps[i], folder, folder));
        assert_outcome(&o, 0, "");
        assert_true(exists(arena, "trace.json"));
        o = finish(arena, start(arena, base_print(arena, "report %s/run.json --json", folder)));
        assert_outcome(&o, 0, "\"operations\"");
        assert_ok(base_json_parse(arena, o.out, strlen(o.out), &document, &error), &error);
        assert_near(base_json_get(document, "measured_peak_bytes")->number,
                    base_json_get(document, "predicted_peak_bytes")->number, 0);
        const struct base_json *operations = base_json_get(document, "operations");
        assert_true(operations->count > 20);
        for (const struct base_json *line = operations->child; line; line = line->next)
            if (!(base_json_get(line, "predicted_s")->number > 0))
                fail_msg("%s is in no prediction", base_json_get(line, "name")->string);
        o = finish(arena, start(arena, base_print(arena, "report %s/run.json --out %s/report.html", folder, folder)));
        assert_outcome(&o, 0, "");
        assert_non_null(strstr(text_of(arena, "report.html"), "Largest differences"));
    }
}

/* Started by mpirun itself, as in a batch script with a hostfile. */
static void it_takes_its_place_in_an_mpirun(struct base_arena *arena)
{
    char own[sizeof program];
    struct run run;
    memcpy(own, program, sizeof own);
    snprintf(program, sizeof program, "mpirun");
    run = start(arena,
                base_print(arena,
                           "--allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np 4 %s %s",
                           own, command(arena, "local:4", 2, "--num-partitions 2")));
    memcpy(program, own, sizeof own);
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 0, "run here on 4 ranks");
    assert_null(strstr(strstr(o.out, "run here") + 1, "run here")); /* rank 0 alone speaks */
}

/* ---- inference in chunks ---- */

#define TRANSLATOR                                                                                                     \
    "encoder_decoder:vocab_size=384,emb_dim=16,num_heads=2,head_dim=8,mlp_dim=32,num_encoder_layers=1,num_decoder_"    \
    "layers=1"

/* By mpirun, as srun would; NULL: by this process. */
static struct run start_inference(struct base_arena *arena, const char *mpirun, const char *data, const char *more)
{
    char own[sizeof program];
    const char *words = base_print(arena,
                                   "infer --model " TRANSLATOR " --topology local:2 --model-parallel-submesh 1,2 "
                                   "--batch-size 2 --task-feature-lengths 8,4 --data %s/%s %s",
                                   folder, data, more);
    memcpy(own, program, sizeof own);
    if (mpirun) snprintf(program, sizeof program, "mpirun");
    struct run run = start(arena, mpirun ? base_print(arena, "%s %s %s", mpirun, own, words) : words);
    memcpy(program, own, sizeof own);
    return run;
}

static struct outcome infer(struct base_arena *arena, const char *mpirun, const char *more)
{
    return finish(arena, start_inference(arena, mpirun, "words.tsv", more));
}

static const char *answers_of(struct base_arena *arena, const struct outcome *o, int exit_code)
{
    const struct base_json *document;
    struct base_text text = {.arena = arena};
    struct base_json_writer w = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    struct base_error error;
    assert_outcome(o, exit_code, "\"decodes\"");
    assert_ok(base_json_parse(arena, o->out, strlen(o->out), &document, &error), &error);
    base_json_put_value(&w, base_json_get(document, "decodes"));
    return text.data;
}

/* One mpirun, or srun, writes all chunks, and those that are missing when it is started again. */
static void chunks_are_written_by_ranks_that_run_already(struct base_arena *arena)
{
    static const char mpirun[] = "--allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np 2";
    static const char words[] = "one\teins\ntwo\tzwei\nthree\tdrei\nfour\tvier\nfive\tfuenf\n";
    const char *in_chunks = base_print(arena, "--json --checkpoint-period 1 --output-dir %s/answers", folder);
    const char *second = base_print(arena, "%s/answers/chunk-00001.json", folder);
    struct base_error error;
    assert_ok(base_write_file(base_print(arena, "%s/words.tsv", folder), words, strlen(words), &error), &error);
    struct outcome whole = infer(arena, NULL, "--json");
    const char *expected = answers_of(arena, &whole, 0);
    for (int round = 0; round < 2; round++) {
        struct outcome o = infer(arena, round ? NULL : mpirun, in_chunks);
        assert_string_equal(answers_of(arena, &o, 0), expected);
        for (int chunk = 0; chunk < 3; chunk++)
            assert_true(exists(arena, base_print(arena, "answers/chunk-%05d.json", chunk)));
        assert_false(exists(arena, "answers/chunk-00003.json"));
        assert_int_equal(remove(second), 0);
        o = infer(arena, mpirun, in_chunks);
        assert_string_equal(answers_of(arena, &o, 0), expected);
    }
    struct outcome other = infer(arena, mpirun, base_print(arena, "%s --num-decodes 2", in_chunks));
    assert_outcome(&other, 3, "is a chunk of another plan");
}

/* Before there is anybody to pass it on to: the plan comes from a pipe, and the signal before the plan. */
static void a_signal_before_the_launcher_is_heard(struct base_arena *arena)
{
    static const int numbers[] = {SIGTERM, SIGINT}; /* SIGHUP may be ignored, as under nohup */
    static const char *const commands[] = {"run %s --steps 3 --json", "infer %s --data %s/early.tsv --json",
                                           "infer %s --data %s/early.tsv --output-dir %s/early_answers"};
    static const char plan[] = "{\"model\": \"" TRANSLATOR "\", \"topology\": \"local:2\", \"batch_size\": 2, "
                               "\"model_parallel_submesh\": [1, 1], \"task_feature_lengths\": {\"inputs\": 8, "
                               "\"targets\": 8}}";
    const char *pipe = base_print(arena, "%s/early.json", folder);
    struct base_error error;
    assert_ok(base_write_file(base_print(arena, "%s/early.tsv", folder), "one\teins\n", 9, &error), &error);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    for (int i = 0; i < BASE_COUNT(numbers) * BASE_COUNT(commands); i++) {
        const char *form = commands[i / BASE_COUNT(numbers)];
        TEST_ROW("%s, signal %d", form, numbers[i % BASE_COUNT(numbers)]);
        struct run run = start(arena, base_print(arena, form, pipe, folder, folder));
        const int end = open(pipe, O_WRONLY); /* waits until it reads */
        kill(run.pid, numbers[i % BASE_COUNT(numbers)]);
        assert_int_equal(write(end, plan, strlen(plan)), strlen(plan));
        close(end);
        struct outcome o = finish(arena, run);
        assert_int_equal(o.exit_code, 6);
        assert_non_null(strstr(o.err, "before the first step"));
    }
}

/* It ends with the batch that it is at, answers what it has, and is resumed. */
static void inference_is_stopped_and_goes_on(struct base_arena *arena)
{
    enum { EXAMPLES = 400 };
    struct base_text words = {.arena = arena};
    struct base_error error;
    const char *in_chunks = base_print(arena, "--json --checkpoint-period 2 --output-dir %s/stopped", folder);
    for (int i = 0; i < EXAMPLES; i++) base_putf(&words, "%d\t%d\n", i, EXAMPLES - i);
    assert_ok(base_write_file(base_print(arena, "%s/numbers.tsv", folder), words.data, words.length, &error), &error);
    struct run run = start_inference(arena, NULL, "numbers.tsv", in_chunks);
    while (!exists(arena, "stopped/chunk-00001.json") && seconds() - run.start_s < LONGEST_WAIT_S) rest();
    kill(run.pid, SIGTERM);
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 6, "\"stopped\": true");
    const char *begun = answers_of(arena, &o, 6);
    assert_true(strlen(begun) > strlen("[[]]"));
    assert_false(exists(arena, "stopped/chunk-00099.json"));
    o = finish(arena, start_inference(arena, NULL, "numbers.tsv", in_chunks));
    const char *resumed = answers_of(arena, &o, 0);
    assert_int_equal(strncmp(resumed, begun, (size_t)(strrchr(begun, ']') - begun)), 0);
    o = finish(arena, start_inference(arena, NULL, "numbers.tsv", "--json"));
    assert_string_equal(resumed, answers_of(arena, &o, 0));
}

/* Many come within one wish, so that some meet every product: none may touch what the products hold. */
static void signals_spare_what_is_computed(struct base_arena *arena)
{
    enum { BATCHES = 3 };
    const double storm_s = 1.5;
    static const char model[] = "infer --model encoder_decoder:vocab_size=384,emb_dim=512,num_heads=2,head_dim=32,"
                                "mlp_dim=192,num_encoder_layers=1,num_decoder_layers=4 --topology local:1 "
                                "--batch-size 2 --task-feature-lengths 8,512 --in-process --json";
    const char *words = base_print(arena, "%s --data %s/few.tsv", model, folder),
               *in_chunks = base_print(arena, "%s --checkpoint-period 1 --output-dir %s/stormy", words, folder);
    struct base_error error;
    struct base_text few = {.arena = arena};
    pid_t rank[MOST_PROCESSES];
    for (int i = 0; i < 2 * BATCHES; i++) base_putf(&few, "%d\t%d\n", i, i);
    assert_ok(base_write_file(base_print(arena, "%s/few.tsv", folder), few.data, few.length, &error), &error);
    struct run run = start(arena, in_chunks);
    while (!exists(arena, "stormy/chunk-00000.json") && seconds() - run.start_s < LONGEST_WAIT_S) rest();
    assert_int_equal(ranks_of(run.pid, rank), 1);
    for (double until_s = seconds() + storm_s; seconds() < until_s && kill(rank[0], SIGUSR1) == 0;)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    struct outcome o = finish(arena, run);
    assert_outcome(&o, 6, "\"stopped\": true");
    o = finish(arena, start(arena, in_chunks));
    const char *resumed = answers_of(arena, &o, 0);
    o = finish(arena, start(arena, words));
    assert_string_equal(resumed, answers_of(arena, &o, 0));
}

/* Whoever reads a pipe sees the document and one end; nothing opens it before the work is through. */
static void a_pipe_takes_the_document(struct base_arena *arena)
{
    const char *pipe = base_print(arena, "%s/out_pipe", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(system(base_print(arena, "timeout %d cat %s > %s/got &", LONGEST_WAIT_S, pipe, folder)), 0);
    struct outcome o = run_whole(arena, "local:1", 1, base_print(arena, "--in-process --json --out %s", pipe));
    assert_int_equal(o.exit_code, 0);
    for (double start_s = seconds(); !strstr(text_of(arena, "got"), "loss") && seconds() - start_s < LONGEST_WAIT_S;)
        rest();
    assert_non_null(strstr(text_of(arena, "got"), "\"loss\""));
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {
        TEST(ranks_and_one_process_agree),
        TEST(collectives_pass_beside_what_computes),
        TEST(eight_ranks_share_two_cores),
        TEST(plans_for_other_machines_run),
        TEST(a_killed_rank_ends_the_run),
        TEST(a_hung_rank_ends_the_run),
        TEST(a_silence_ends_the_run),
        TEST(a_signal_before_the_first_step_is_named),
        TEST(a_rank_that_is_stopped_before_the_first_step_is_named),
        TEST(the_end_of_mpirun_is_understood),
        TEST(who_cannot_be_ended_is_left),
        TEST(a_launcher_that_does_not_end_is_killed),
        TEST(the_next_run_removes_what_is_dead),
        TEST(sigterm_leaves_a_checkpoint),
        TEST(sigterm_overtakes_what_ranks_say),
        TEST(sigterm_before_ranks_is_heeded),
        TEST(sigterm_to_all_leaves_a_checkpoint),
        TEST(a_signal_to_mpirun_leaves_a_checkpoint),
        TEST(local_ranks_listen_on_no_network),
        TEST(ranks_of_hosts_say_where_they_listen),
        TEST(no_path_is_no_riddle),
        TEST(two_runs_do_not_share_a_directory),
        TEST(a_pipe_for_a_chunk_is_refused),
        TEST(losses_outlive_a_failure_at_the_end),
        TEST(a_disk_that_stalls_is_no_hang),
        TEST(checkpoints_survive_power_cuts),
        TEST(a_second_signal_ends_it_at_once),
        TEST(ranks_do_not_outlive_the_run),
        TEST(a_full_disk_ends_the_run),
        TEST(only_the_newest_checkpoints_stay),
        TEST(warnings_arrive_once),
        TEST(damaged_files_are_refused),
        TEST(launchers_are_recognised),
        TEST(what_does_not_fit_is_not_started),
        TEST(a_small_address_space_is_room_enough_or_refused),
        TEST(a_file_that_may_not_grow_is_a_word),
        TEST(files_too_small_for_ranks_are_a_word),
        TEST(too_few_files_are_refused),
        TEST(it_takes_its_place_in_an_mpirun),
        TEST(chunks_are_written_by_ranks_that_run_already),
        TEST(a_signal_before_the_launcher_is_heard),
        TEST(inference_is_stopped_and_goes_on),
        TEST(signals_spare_what_is_computed),
        TEST(a_pipe_takes_the_document),
        TEST(what_was_measured_was_predicted),
    };
    char *slash = strrchr(arguments[0], '/');
    snprintf(program, sizeof program, "%.*s/../meshwright", (int)(slash ? slash - arguments[0] : 1),
             slash ? arguments[0] : ".");
    if (!mkdtemp(folder)) return 1;
    int failed = test_main(tests, BASE_COUNT(tests), count, arguments);
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    if (setjmp(exhausted) == 0) base_directory_remove(&arena, folder);
    base_arena_free(&arena);
    return failed;
}
