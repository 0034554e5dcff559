/* The directory of a run's checkpoints: one run writes at a time. Tracks the latest checkpoint and removes old ones. */
#include "exec/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 1 << 30 };

static const char prefix[] = "checkpoint_", partial_mark[] = ".partial-";

/* The step in a checkpoint's name; -1: another name, such as checkpoint_07. */
static int64_t step_of(const char *name)
{
    char own[sizeof prefix + 20];
    struct base_error ignored;
    int64_t step;
    if (strncmp(name, prefix, strlen(prefix)) != 0) return -1;
    if (base_parse_int(name + strlen(prefix), "step", 0, MOST_STEPS, &step, &ignored) != BASE_OK) return -1;
    snprintf(own, sizeof own, "%s%lld", prefix, (long long)step);
    return !strcmp(name, own) ? step : -1;
}

/* Checkpoints without a manifest come first, by step. */
static int in_order_of_writing(const void *a, const void *b)
{
    const struct exec_saved *x = a, *y = b;
    if (x->save != y->save) return x->save < y->save ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

static void add(struct base_arena *arena, struct exec_home *home, int64_t step, int64_t save)
{
    home->saved = base_grown(arena, home->saved, home->saved_count, &home->saved_capacity, sizeof *home->saved);
    home->saved[home->saved_count++] = (struct exec_saved){step, save};
}

static enum base_status list(struct base_arena *arena, struct exec_home *home, struct base_error *error)
{
    const char *const *names;
    int count = 0;
    struct base_arena scratch = {.exhausted = arena->exhausted};
    enum base_status status = BASE_OK;
    if (base_directory_exists(home->directory))
        status = base_directory_list(arena, home->directory, &names, &count, error);
    for (int i = 0; i < count && status == BASE_OK; i++) {
        struct exec_manifest manifest;
        bool found;
        if (step_of(names[i]) < 0) continue;
        base_arena_reset(&scratch);
        status = exec_manifest_read(&scratch, base_print(&scratch, "%s/%s", home->directory, names[i]), &manifest,
                                    &found, error);
        if (status == BASE_OK) add(arena, home, step_of(names[i]), found ? manifest.save : 0);
    }
    base_arena_free(&scratch);
    if (status != BASE_OK)
        return base_fail(
            error, BASE_INPUT,
            "%s; the newest checkpoint is unknown: remove that one, or give it as --restore with a new --checkpoint",
            base_copy(arena, error->text));
    if (home->saved_count > 0) qsort(home->saved, (size_t)home->saved_count, sizeof *home->saved, in_order_of_writing);
    return BASE_OK;
}

/* Their writer no longer runs, because it would hold the lock. */
static void remove_partial(struct base_arena *arena, struct exec_home *home)
{
    const char *const *names;
    struct base_error ignored; /* a directory that cannot be listed keeps them */
    int count;
    if (base_directory_list(arena, home->directory, &names, &count, &ignored) != BASE_OK) return;
    for (int i = 0; i < count; i++) {
        if (strncmp(names[i], prefix, strlen(prefix)) != 0 || !strstr(names[i], partial_mark)) continue;
        base_directory_remove(arena, base_print(arena, "%s/%s", home->directory, names[i]));
    }
    home->has_removed = true; /* by this run or the one before */
}

static enum base_status occupy(struct base_arena *arena, const struct exec_request *request, struct exec_home *home,
                               struct base_error *error)
{
    const char *lock = base_print(arena, "%s/.meshwright-lock", home->directory);
    bool supported;
    BASE_TRY(base_directory_make_durable(home->directory, error));
    enum base_status status = base_lock_take(&home->lock, lock, home->owner, &supported, error);
    if (status != BASE_OK)
        return base_fail(error, status, "%s; two runs cannot write into one --checkpoint directory",
                         base_copy(arena, error->text));
    if (supported) remove_partial(arena, home);
    else if (request->warn)
        request->warn(base_print(arena, "%s: this file system has no locks; make sure that no other run writes there",
                                 home->directory));
    return BASE_OK;
}

/* Foreign checkpoints do not count as the latest, even with a larger step. */
static void warn_of_later(struct base_arena *arena, const struct exec_request *request, const struct exec_home *home)
{
    const struct exec_saved *last = &home->saved[home->saved_count - 1];
    for (int i = 0; i < home->saved_count - 1 && request->warn; i++)
        if (home->saved[i].step > last->step)
            request->warn(base_print(arena, "%s: checkpoint_%lld was written last; checkpoint_%lld is not gone on from",
                                     home->directory, (long long)last->step, (long long)home->saved[i].step));
}

static enum base_status open_first(struct base_arena *arena, const struct exec_request *request, struct exec_home *home,
                                   struct base_error *error)
{
    if (request->owner) snprintf(home->owner, sizeof home->owner, "%s", request->owner);
    else base_process_name(0, home->owner, sizeof home->owner);
    if (!request->evaluates) BASE_TRY(occupy(arena, request, home, error));
    BASE_TRY(list(arena, home, error));
    if (!home->saved_count) return BASE_OK;
    home->latest_step = home->saved[home->saved_count - 1].step;
    if (!request->evaluates) warn_of_later(arena, request, home);
    return BASE_OK;
}

enum base_status exec_home_latest(struct base_arena *arena, const struct exec_transport *ranks, const char *path,
                                  const char **out, struct base_error *error)
{
    struct exec_home home = {.directory = path, .latest_step = -1};
    enum base_status status = BASE_OK;
    *out = path;
    if (!path) return BASE_OK;
    if (exec_rank(ranks) == 0) status = list(arena, &home, error);
    if (home.saved_count) home.latest_step = home.saved[home.saved_count - 1].step;
    BASE_TRY(exec_agree(ranks, status, error));
    exec_broadcast(ranks, &home.latest_step, sizeof home.latest_step);
    if (home.latest_step >= 0) *out = exec_home_path(arena, &home, home.latest_step);
    return BASE_OK;
}

enum base_status exec_home_open(struct base_arena *arena, const struct exec_request *request, struct exec_home *out,
                                struct base_error *error)
{
    const struct exec_transport *ranks = request->transport;
    enum base_status status = BASE_OK;
    *out = (struct exec_home){.directory = request->checkpoint, .latest_step = -1, .lock = {-1}};
    if (!out->directory) return BASE_OK;
    if (exec_rank(ranks) == 0) status = open_first(arena, request, out, error);
    status = exec_agree(ranks, status, error);
    if (status != BASE_OK) return exec_home_close(out), status;
    exec_broadcast(ranks, &out->latest_step, sizeof out->latest_step);
    exec_broadcast(ranks, out->owner, sizeof out->owner);
    return BASE_OK;
}

enum base_status exec_home_check(const struct exec_home *home, int64_t first_step, int64_t end_step,
                                 struct base_error *error)
{
    for (int i = 0; i < home->saved_count; i++)
        if (home->saved[i].step > first_step && home->saved[i].step <= end_step)
            return base_fail(error, BASE_INPUT,
                             "%s/checkpoint_%lld: exists, and this run, which resumes from step %lld, would write it "
                             "again; use another --checkpoint, or remove it",
                             home->directory, (long long)home->saved[i].step, (long long)first_step);
    return BASE_OK;
}

void exec_home_add(struct base_arena *arena, struct exec_home *home, int64_t step)
{
    add(arena, home, step, exec_home_next_save(home));
}

int64_t exec_home_next_save(const struct exec_home *home)
{
    return home->saved_count ? home->saved[home->saved_count - 1].save + 1 : 1;
}

const char *exec_home_partial(struct base_arena *arena, const struct exec_home *home, int64_t step)
{
    return base_print(arena, "%s/%s%lld%s%s", home->directory, prefix, (long long)step, partial_mark, home->owner);
}

const char *exec_home_path(struct base_arena *arena, const struct exec_home *home, int64_t step)
{
    return base_print(arena, "%s/%s%lld", home->directory, prefix, (long long)step);
}

/* Renames first: a partly removed directory is not a checkpoint. */
static void remove_checkpoint(struct base_arena *arena, const struct exec_home *home, int64_t step)
{
    struct base_error ignored; /* what cannot be renamed stays */
    const char *partial = exec_home_partial(arena, home, step);
    if (base_directory_rename(exec_home_path(arena, home, step), partial, &ignored) == BASE_OK)
        base_directory_remove(arena, partial);
}

void exec_home_forget(struct base_arena *arena, struct exec_home *home, int64_t keep)
{
    int left = 0;
    for (int i = 0; i < home->saved_count; i++) {
        bool stays = home->saved[i].save == 0 || i >= home->saved_count - keep;
        if (stays) home->saved[left++] = home->saved[i];
        else remove_checkpoint(arena, home, home->saved[i].step);
        home->has_removed = home->has_removed || !stays;
    }
    home->saved_count = left;
}

void exec_home_close(struct exec_home *home)
{
    base_lock_release(&home->lock);
}
