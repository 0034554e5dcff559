/* Starts the executor next to this program: as one process, or by mpirun as one per device; inside a running mpirun or
 * srun, as this process's own rank. It reads the messages of ranks and mpirun, so that a failed run names the rank. */
#include "commands/executor.h"
#include "exec/exec.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT_LINES = 6, LONGEST_LINE = 240, MOST_NOTES = 8 };
/* Ranks find a silent rank within their patience, and name it. They report to their launcher each second: after this
 * additional time, the launcher or the link to it has failed. */
enum { MORE_PATIENCE_S = 3 };
/* mpirun's own descriptors, and per local rank three pipes and a connection. Without enough of them mpirun hangs
 * (measured: 32 suffice for one rank, 92 for 16). */
enum { MPIRUN_FILES = 32, FILES_OF_A_RANK = 4 };
/* Address space that the executor's libraries map when loaded and at the first product, with 128 MiB for OpenBLAS's
 * buffer (measured: 249 MiB without MPI). */
enum { LEAST_ADDRESSES_BYTES = 256 << 20 };
/* Open MPI's largest file, a rank's message memory; below this limit ranks die (measured on 2 and 8 ranks: 4,096 KiB
 * fail, 4,200 suffice). */
enum { LEAST_FILE_BYTES = 4200 << 10 };
/* A rank computes with one thread. By default OpenBLAS starts a thread per further core when loaded, each with a
 * buffer; under `ulimit -v` it retries the failed mapping endlessly, and uses up the address space reserved for the
 * first product. */
static const char threads_of_openblas[] = "OPENBLAS_NUM_THREADS";

/* Ranks on several hosts use the networks that Open MPI finds between them. */
static const char unchosen_network[] =
    "--hostfile: ranks listen on every network of their hosts; "
    "OMPI_MCA_btl_tcp_if_include and OMPI_MCA_oob_tcp_if_include name one, as in eth0";

struct talk {
    struct commands_context *context;
    char reason[600];                    /* why it failed, as far as a line said so */
    char kept[KEPT_LINES][LONGEST_LINE]; /* the last lines that say nothing known */
    int kept_count;
    char notes[MOST_NOTES][LONGEST_LINE]; /* warnings that were passed on, each once */
    int note_count;
    int exit_rank; /* that mpirun names before the exit code */
    int rank_count;
    int here_count; /* of these, those that have started */
    int longest_silence_s;
    bool mpirun; /* starts them */
    bool joined; /* they have met */
    bool silent; /* nothing was heard for too long */
    bool begun;  /* it has said that it is about to take its first step */
    /* The signal that asked a rank to end before; 0: none. mpirun sends it, too, to those that a failure leaves. */
    int stopped_by;
    bool fails; /* the reason is another one */
};

/* ---- messages ---- */

static bool begins(const char *line, const char *with)
{
    return !strncmp(line, with, strlen(with));
}

/* "@step DONE STEPS LOSS TOKENS_PER_S LEFT_S" */
static void hear_step(struct talk *talk, const char *numbers)
{
    char *at, text[160];
    long long done = strtoll(numbers, &at, 10), steps = strtoll(at, &at, 10);
    double loss = strtod(at, &at), tokens_per_s = strtod(at, &at), left_s = strtod(at, &at);
    base_child_is_ready();
    talk->begun = true;
    if (!talk->context->progress || done == 0) return;
    snprintf(text, sizeof text, "loss %.4f, %s target tokens/s, %s left; step", loss, base_count(tokens_per_s),
             base_seconds(left_s));
    talk->context->progress(talk->context->progress_where, &(struct base_progress){text, done, steps, 0, 1});
}

/* The first to fail is the one to name. */
static void hear_failure(struct talk *talk, const char *why)
{
    base_child_is_failing();
    talk->fails = true;
    if (!*talk->reason) snprintf(talk->reason, sizeof talk->reason, "%s", why);
}

/* A rank that a signal asks to end before its first step ends by it, or with the code that shells have for it. */
static void note_death(struct talk *talk, int number)
{
    if (number == SIGTERM || number == SIGINT || number == SIGHUP) talk->stopped_by = number;
    else if (number != SIGUSR1) talk->fails = true;
}

/* The executor itself, or mpirun, whose code is that of the first rank that died; its words about it may be lost. */
static void hear_end(void *where, int number)
{
    note_death(where, number);
}

/* "mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed)." */
static bool hear_death(struct talk *talk, const char *line)
{
    const char *who = strstr(line, "process rank "), *how = strstr(line, " exited on signal ");
    if (!who || !how) return false;
    const int number = atoi(how + strlen(" exited on signal ")),
              length = (int)strcspn(how + strlen(" exited on "), ".");
    note_death(talk, number);
    snprintf(talk->reason, sizeof talk->reason, "rank %ld died: it was ended by %.*s",
             strtol(who + strlen("process rank "), NULL, 10), length, how + strlen(" exited on "));
    return true;
}

/* "  Process name: [[24462,1],1]", then "  Exit code:    3" */
static bool hear_exit(struct talk *talk, const char *line)
{
    const char *name = strstr(line, "Process name: [["), *code = strstr(line, "Exit code:");
    if (name) name = strchr(name, ']');
    if (name) talk->exit_rank = atoi(name + (name[1] == ',' ? 2 : 1));
    if (code) note_death(talk, atoi(code + strlen("Exit code:")) - 128);
    if (code)
        snprintf(talk->reason, sizeof talk->reason, "rank %d died: it ended with the exit code %d", talk->exit_rank,
                 atoi(code + strlen("Exit code:")));
    return name || code;
}

/* "rank 2: …": the same from another rank is no news. */
static void pass_on(struct talk *talk, const char *warning)
{
    const char *what = strchr(warning, ':');
    for (int i = 0; i < talk->note_count && what; i++)
        if (!strncmp(strchr(talk->notes[i], ':'), what, LONGEST_LINE / 2)) return;
    if (!what) return;
    if (talk->note_count == MOST_NOTES) return;
    snprintf(talk->notes[talk->note_count++], LONGEST_LINE, "%s", warning);
    commands_note(talk->context, warning);
}

static void keep(struct talk *talk, const char *line)
{
    if (!*line || begins(line, "-----")) return;
    if (talk->kept_count == KEPT_LINES) memmove(talk->kept[0], talk->kept[1], sizeof talk->kept - sizeof talk->kept[0]);
    else talk->kept_count++;
    snprintf(talk->kept[talk->kept_count - 1], LONGEST_LINE, "%s", line);
}

static void hear_silence(void *where)
{
    ((struct talk *)where)->silent = true;
}

static void hear(void *where, const char *line)
{
    struct talk *talk = where;
    if (!strcmp(line, "@alive")) return;
    if (!strcmp(line, "@here")) talk->here_count++;
    else if (!strcmp(line, "@joined")) talk->joined = true;
    else if (begins(line, "@step ")) hear_step(talk, line + strlen("@step "));
    else if (begins(line, "@warning ")) pass_on(talk, line + strlen("@warning "));
    else if (begins(line, "@failed ")) hear_failure(talk, line + strlen("@failed "));
    else if (begins(line, "@stopped ")) talk->stopped_by = atoi(line + strlen("@stopped "));
    else if (!*talk->reason && (hear_death(talk, line) || hear_exit(talk, line))) return;
    else keep(talk, line);
}

/* ---- starting ---- */

static enum base_status check_limits(int ranks_here, struct base_error *error)
{
    const int files = MPIRUN_FILES + FILES_OF_A_RANK * ranks_here;
    if (!base_may_map(LEAST_ADDRESSES_BYTES))
        return base_fail(error, BASE_RUN,
                         "a rank needs 256 MiB of address space before its first step; `ulimit -v` "
                         "allows less");
    if (ranks_here && !base_may_write(LEAST_FILE_BYTES))
        return base_fail(error, BASE_RUN,
                         "Open MPI needs files of 4.1 MiB for its ranks, and `ulimit -f` allows less; raise it, or "
                         "use --in-process");
    if (ranks_here && !base_may_open(files))
        return base_fail(error, BASE_RUN,
                         "mpirun needs %d open files for %d rank%s, and `ulimit -n` allows less; raise it, or use "
                         "--in-process",
                         files, ranks_here, ranks_here == 1 ? "" : "s");
    return BASE_OK;
}

static enum base_status start(struct commands_context *context, const struct commands_executor *executor,
                              const struct base_text *request, struct talk *talk, struct base_text *answer,
                              struct base_error *error)
{
    enum { MOST_ARGUMENTS = 40 };
    const bool starts_ranks = executor->rank_count && !context->launched;
    const char *path, *count = base_print(context->arena, "%d", executor->rank_count),
                      *patience = base_print(context->arena, "%d", executor->patience_s);
    BASE_TRY(base_find_beside(context->arena, "meshwright-rank", &path, error));
    BASE_TRY(check_limits(starts_ranks && !executor->hostfile ? executor->rank_count : 0, error));
    if (setenv(threads_of_openblas, "1", 1) != 0) return base_fail(error, BASE_RUN, "out of memory");
    struct base_lock lock;
    const char *folder =
        starts_ranks && !executor->hostfile ? exec_run_folder_open(context->arena, (long)getpid(), &lock) : NULL;
    /* Ranks of one machine talk through shared memory, and mpirun needs no ssh for them. */
    const char *const here[] = {"--mca", "btl", "self,vader", "--mca", "oob_tcp_if_include", "lo", "--mca", "plm",
                                "isolated",
                                /* With a folder of its own: */
                                "--mca", "btl_vader_backing_directory", folder, "--mca", "orte_tmpdir_base", folder};
    const int here_count = BASE_COUNT(here) - (folder ? 0 : 6);
    /* Ranks share cores here: no binding, and a rank that waits lets others run. */
    const char *mpirun[MOST_ARGUMENTS] = {"mpirun",
                                          "--allow-run-as-root",
                                          "--oversubscribe",
                                          "--bind-to",
                                          "none",
                                          "--mca",
                                          "mpi_yield_when_idle",
                                          "1",
                                          "-x",
                                          threads_of_openblas,
                                          "-np",
                                          count};
    int given = 12;
    if (starts_ranks && executor->hostfile && !context->has_network) commands_note(context, unchosen_network);
    if (executor->hostfile) mpirun[given++] = "--hostfile", mpirun[given++] = executor->hostfile;
    for (int i = 0; i < here_count && !executor->hostfile; i++) mpirun[given++] = here[i];
    mpirun[given++] = path, mpirun[given++] = "--ranks", mpirun[given++] = patience;
    if (executor->hostfile) mpirun[given++] = "--hosts";
    const char *const rank[] = {"meshwright-rank", executor->rank_count ? "--ranks" : NULL, patience, NULL};
    talk->mpirun = starts_ranks;
    talk->rank_count = starts_ranks ? executor->rank_count : 1;
    talk->longest_silence_s = executor->patience_s + MORE_PATIENCE_S;
    struct base_child child = {.program = starts_ranks ? "mpirun" : path,
                               .arguments = starts_ranks ? mpirun : rank,
                               .text = request->data,
                               .length = request->length,
                               .answer = answer,
                               .line = hear,
                               .silent = hear_silence,
                               .where = talk,
                               .longest_silence_s = executor->rank_count ? &talk->longest_silence_s : NULL,
                               .deaf = starts_ranks,
                               .alone = starts_ranks && !executor->hostfile,
                               .patient = true,
                               .died = hear_end};
    enum base_status status = base_run_child(&child, error);
    if (folder) base_directory_remove(context->arena, folder);
    exec_run_folder_close(context->arena, folder, &lock);
    if (starts_ranks && executor->hostfile) exec_remove_dead_runs(context->arena);
    return status;
}

/* A checkpoint that this run was writing is of no use to anyone. */
static void remove_partial(struct commands_context *context, const struct commands_executor *executor)
{
    const char *const *names;
    const char *directory = executor->checkpoint, *own = base_print(context->arena, ".partial-%s", executor->owner);
    struct base_error ignored;
    int count;
    if (!directory || !base_directory_exists(directory) ||
        base_directory_list(context->arena, directory, &names, &count, &ignored) != BASE_OK)
        return;
    for (int i = 0; i < count; i++) {
        const char *end = strstr(names[i], own);
        if (begins(names[i], "checkpoint_") && end && !end[strlen(own)])
            base_directory_remove(context->arena, base_print(context->arena, "%s/%s", directory, names[i]));
    }
}

static const char *name_of(int number)
{
    return number == SIGINT    ? "SIGINT"
           : number == SIGTERM ? "SIGTERM"
           : number == SIGHUP  ? "SIGHUP"
           : number            ? "a signal"
                               : NULL;
}

const char *commands_stop_name(const struct commands_context *context)
{
    return name_of(context->stop_signal ? (int)*context->stop_signal : 0);
}

/* The position reached, where there is no other message. */
static void say_how_far(const struct talk *talk, struct base_error *error)
{
    const struct base_error why = *error;
    if (talk->joined)
        base_fail(error, why.status, "%s; the ranks had met, so one or all of them were stopped, or their host is down",
                  why.text);
    else
        base_fail(error, why.status, "%s; %d of %d ranks had started, but they had not met%s", why.text,
                  talk->here_count, talk->rank_count, talk->silent ? " (--timeout SECONDS waits longer)" : "");
}

/* The most informative message: that it was to end, the executor's own, a rank's last one or mpirun's, else the last
 * one of all. */
static enum base_status explain(const struct talk *talk, const struct base_text *answer, enum base_status status,
                                struct base_error *error)
{
    const bool has_words = answer->length && *answer->data != '{' && !*error->text;
    /* Codes and words are the executor's where it has answered, and else mpirun's. */
    if (!has_words || (talk->mpirun && !talk->here_count)) status = BASE_RUN;
    if (has_words) return base_fail(error, status, "%s", answer->data);
    const char *stopped = commands_stop_name(talk->context);
    const char *before = stopped ? stopped : talk->fails ? NULL : name_of(talk->stopped_by);
    if (before && !talk->begun) return base_fail(error, BASE_STOPPED, "stopped by %s before the first step", before);
    if (*talk->reason) return base_fail(error, status, "%s", talk->reason);
    if (talk->silent || (talk->mpirun && talk->fails && !talk->joined)) say_how_far(talk, error);
    struct base_error why = *error;
    if (stopped)
        return base_fail(error, status, "stopped by %s before it could answer%s%s", stopped, *why.text ? "; " : "",
                         why.text);
    base_fail(error, status, "%s", *why.text ? why.text : "meshwright-rank: ended without a word");
    if (talk->context->launched) base_fail_in(error, "rank %d", talk->context->launched_rank);
    for (int i = 0; i < talk->kept_count; i++) {
        why = *error;
        base_fail(error, status, "%s%s%s", why.text, i ? "\n    " : "; it said\n    ", talk->kept[i]);
    }
    return status;
}

enum base_status commands_ask_executor(struct commands_context *context, const struct commands_executor *executor,
                                       const struct base_text *request, struct base_text *answer,
                                       struct base_error *error)
{
    struct talk *talk = base_new(context->arena, struct talk, 1);
    *talk = (struct talk){.context = context};
    enum base_status status = start(context, executor, request, talk, answer, error);
    if (status == BASE_OK || status == BASE_STOPPED) return status;
    if (context->launched_rank == 0) remove_partial(context, executor);
    status = explain(talk, answer, status, error);
    if (status == BASE_STOPPED && context->launched_rank == 0) commands_note(context, error->text);
    return status;
}

enum base_status commands_check_ranks(const struct base_arguments *arguments, const struct topo_topology *topology,
                                      enum commands_elsewhere elsewhere, struct base_error *error)
{
    int64_t count = topology->device_count;
    if (topology->kind != TOPO_LOCAL && !base_argument(arguments, "--ranks") && elsewhere == COMMANDS_ASKS_RANKS)
        return base_fail(error, BASE_INPUT,
                         "topology: %s is not this machine; --ranks %d runs the plan's mesh here if its memory "
                         "suffices, `export` writes a launcher for it",
                         topology->name, topology->device_count);
    BASE_TRY(commands_option_int(arguments, "--ranks", 1, INT32_MAX, &count, error));
    if (count == topology->device_count) return BASE_OK;
    return base_fail(error, BASE_INPUT, "--ranks: %lld, but the plan is for %d devices; leave it out, or give %d",
                     (long long)count, topology->device_count, topology->device_count);
}

enum base_status commands_check_memory(const struct commands_context *context, const struct commands_executor *executor,
                                       const struct sim_plan *plan, const struct sim_prediction *predicted,
                                       struct base_error *error)
{
    int64_t here_bytes = base_machine_memory_bytes(), count = plan->placement->topology.device_count;
    double needed_bytes = (double)count * (double)predicted->memory.peak_bytes;
    if (context->launched || executor->hostfile || !here_bytes || needed_bytes <= (double)here_bytes) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "%s: %lld devices need %s of memory, and this machine has %s; use fewer devices, a smaller model or "
        "batch, or more machines by mpirun's --hostfile",
        executor->rank_count ? "--ranks" : "--in-process", (long long)count, base_bytes(needed_bytes),
        base_bytes(here_bytes));
}
