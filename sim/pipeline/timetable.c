/* The order in which each stage runs its passes. A schedule is a function that lists one stage's passes. A new one is a
 * row of the table. */
#include "sim/pipeline/pipeline.h"

enum { MOST_PASSES = 1 << 23 };

struct lister {
    const struct sim_pipeline *pipeline;
    int stage, microbatches;
    struct sim_pass_of *passes;
    int count;
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

enum direction { FORWARD, BACKWARD };

static void put(struct lister *l, int chunk, int microbatch, enum direction direction)
{
    if (direction == BACKWARD && l->pipeline->forward_alone) return;
    l->passes[l->count++] =
        (struct sim_pass_of){(short)l->stage, (short)chunk, microbatch, .backward = direction == BACKWARD};
}

/* Warm-up forward passes, one per following stage, then one backward pass after each forward pass. */
static void list_1f1b(struct lister *l)
{
    const int ahead = smaller(l->microbatches, (int)l->pipeline->stages - 1 - l->stage);
    for (int i = 0; i < ahead; i++) put(l, 0, i, FORWARD);
    for (int i = 0; i < l->microbatches; i++) {
        if (ahead + i < l->microbatches) put(l, 0, ahead + i, FORWARD);
        put(l, 0, i, BACKWARD);
    }
}

static void list_gpipe(struct lister *l)
{
    for (int i = 0; i < l->microbatches; i++) put(l, 0, i, FORWARD);
    for (int i = 0; i < l->microbatches; i++) put(l, 0, i, BACKWARD);
}

/* The n-th pass of one direction. Each group of `stages` microbatches passes a chunk, then the next chunk. */
static void put_interleaved(struct lister *l, int n, enum direction direction)
{
    const int stages = (int)l->pipeline->stages, chunks = (int)l->pipeline->chunks, round = n / (stages * chunks),
              chunk = n % (stages * chunks) / stages;
    put(l, direction == BACKWARD ? chunks - 1 - chunk : chunk, round * stages + n % stages, direction);
}

static void list_interleaved(struct lister *l)
{
    const int stages = (int)l->pipeline->stages, chunks = (int)l->pipeline->chunks, passes = l->microbatches * chunks;
    const int ahead =
        l->microbatches == stages ? passes : smaller(passes, 2 * (stages - 1 - l->stage) + (chunks - 1) * stages);
    for (int i = 0; i < ahead; i++) put_interleaved(l, i, FORWARD);
    for (int i = 0; i < passes; i++) {
        if (ahead + i < passes) put_interleaved(l, ahead + i, FORWARD);
        put_interleaved(l, i, BACKWARD);
    }
}

static void (*const list_passes[SIM_SCHEDULE_KINDS])(struct lister *l) = {
    [SIM_ONE_FORWARD_ONE_BACKWARD] = list_1f1b, [SIM_INTERLEAVED] = list_interleaved, [SIM_GPIPE] = list_gpipe};

static enum base_status check(const struct sim_pipeline *pipeline, int64_t microbatches, struct base_error *error)
{
    const int64_t stages = pipeline->stages, chunks = pipeline->chunks;
    if (chunks > 1 && microbatches % stages != 0)
        return base_fail(error, BASE_INPUT,
                         "num_microbatches: the interleaved schedule needs a multiple of its %lld stages, and %lld is "
                         "none; use %lld",
                         (long long)stages, (long long)microbatches,
                         (long long)base_ceil_div(microbatches, stages) * stages);
    if (microbatches > MOST_PASSES / (2 * stages * chunks))
        return base_fail(error, BASE_INPUT,
                         "num_microbatches: %lld microbatches through %lld stages of %lld chunks are more passes than "
                         "are counted; use fewer",
                         (long long)microbatches, (long long)stages, (long long)chunks);
    return BASE_OK;
}

/* Lists the passes of stages first_stage to end_stage - 1. */
static enum base_status list_stages(struct base_arena *arena, const struct sim_pipeline *pipeline, int64_t microbatches,
                                    int first_stage, int end_stage, struct sim_timetable *out, struct base_error *error)
{
    BASE_TRY(check(pipeline, microbatches, error));
    const int stages = (int)pipeline->stages, chunks = (int)pipeline->chunks, ways = pipeline->forward_alone ? 1 : 2,
              each = ways * (int)microbatches * chunks;
    struct sim_timetable s = {stages, chunks, (int)microbatches, NULL, NULL};
    const bool interleaved = pipeline->schedule == SIM_INTERLEAVED; /* a single chunk leaves nothing to interleave */
    const enum sim_schedule_kind kind = chunks > 1    ? SIM_INTERLEAVED
                                        : interleaved ? SIM_ONE_FORWARD_ONE_BACKWARD
                                                      : pipeline->schedule;
    s.first = base_new(arena, int, stages + 1);
    s.passes = base_reserve(arena, (size_t)(end_stage - first_stage) * (size_t)each + 1, sizeof *s.passes);
    for (int i = 0; i < stages; i++) {
        const bool listed = i >= first_stage && i < end_stage;
        struct lister l = {pipeline, i, s.microbatches, s.passes + s.first[i], 0};
        if (listed) list_passes[kind](&l);
        s.first[i + 1] = s.first[i] + (listed ? each : 0);
    }
    *out = s;
    return BASE_OK;
}

enum base_status sim_timetable_make(struct base_arena *arena, const struct sim_pipeline *pipeline, int64_t microbatches,
                                    struct sim_timetable *out, struct base_error *error)
{
    return list_stages(arena, pipeline, microbatches, 0, (int)pipeline->stages, out, error);
}

enum base_status sim_timetable_of_stage(struct base_arena *arena, const struct sim_pipeline *pipeline,
                                        int64_t microbatches, int stage, struct sim_timetable *out,
                                        struct base_error *error)
{
    return list_stages(arena, pipeline, microbatches, stage, stage + 1, out, error);
}
