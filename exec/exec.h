/* exec: runs what sim/ prices. The interpreter takes the sharded program of a plan and does what it says on every device
 * of the mesh, device after device in lockstep, each with an arena of its own that was laid out before the first step. */
#ifndef EXEC_H
#define EXEC_H

#include "base/base.h"
#include "model/model.h"
#include "sim/sim.h"

#include <signal.h>

/* ---- ranks ---- */

/* This rank's way to the others: rank r runs device r of the mesh. rank_main.c has one through MPI, tests have others. */
struct exec_transport {
    int rank, rank_count;
    void *self;
    /* Sends to one rank and receives from another (they may be the same), both at once; 0 bytes are neither sent nor
     * awaited. Messages of two ranks arrive in their order. Returns when both are done: what cannot be done ends the
     * process. */
    void (*exchange)(void *self, int to, const void *out, size_t out_bytes, int from, void *in, size_t in_bytes);
};

/* ---- a run (run.c) ---- */

/* Where a run is; rank 0 alone tells. */
struct exec_progress { int64_t done, steps; double loss, tokens_per_s, left_s; };

struct exec_request {
    int64_t steps;              /* the run ends after so many in all: 0 … steps-1 */
    const char *data;           /* batches, one JSON object a line; NULL: seeded random tokens */
    const char *restore;        /* a checkpoint to begin from, if `checkpoint` holds none; NULL: seeded initial values */
    const char *checkpoint;     /* directory that gets checkpoint_STEPS and is resumed from; NULL: none */
    int64_t checkpoint_every;   /* steps; 0: at the end alone */
    int64_t keep;               /* checkpoints that stay, the newest; 0: all */
    const struct exec_transport *transport; /* NULL: all devices in this process */
    const volatile sig_atomic_t *stop;      /* not 0 on any rank: the run ends after the step, with a checkpoint. May be NULL */
    void (*progress)(const struct exec_progress *progress); /* after each step, and before the first with 0 done. May be NULL */
    bool processor_time;        /* measure what this process computes, not what passes: for benchmarks on a busy machine */
};

/* What was measured. Arrays have step_count entries and live in the arena. */
struct exec_result {
    int64_t first_step, step_count;
    bool stopped;               /* by request.stop, before the last step */
    double *loss;               /* a step: sum over tokens, z-loss included, divided by the sum of their weights */
    double *gradient_norm;
    double *step_s;             /* of a step: of the slowest rank, or all devices one after the other */
    int64_t arena_bytes;        /* of each device */
    struct sim_memory memory;
    double contraction_s, elementwise_s, communication_s; /* a step: mean of ranks, or all devices */
    const struct sim_collective_row *collectives;         /* of one device */
    int collective_count;
    struct sim_timeline timeline; /* kernels in program order; time_s is of one run of it on all devices, count a step */
};
/* Runs a checked plan. BASE_INPUT: the plan, the data or a checkpoint cannot be run as they are; BASE_NO_FIT: the arena is
 * larger than a device's memory; BASE_RUN: it went wrong on the way. */
enum base_status exec_run(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan, const struct exec_request *request,
                          struct exec_result *out, struct base_error *error);
/* The same from one JSON document to another: what meshwright-rank reads and writes. Of `way`, transport, stop and progress
 * count. With a transport, rank 0 alone is given the text; all ranks answer the same. */
enum base_status exec_answer(struct base_arena *arena, const struct exec_request *way, const char *text, size_t length, struct base_text *out, struct base_error *error);

/* ---- batches (batches.c) ---- */

enum exec_feature { EXEC_ENCODER_INPUT, EXEC_DECODER_INPUT, EXEC_DECODER_TARGET, EXEC_LOSS_WEIGHTS, EXEC_FEATURE_COUNT };
extern const char *const exec_feature_names[EXEC_FEATURE_COUNT]; /* "encoder_input_tokens", … */

/* A global batch: [sequences, length] of each feature, row-major; NULL where the model has none. */
struct exec_batch { const int32_t *tokens[EXEC_FEATURE_COUNT]; };
/* Batches of steps 0 … count-1. What a file holds is checked whole, before the first step. */
enum base_status exec_batches_read(struct base_arena *arena, const struct sim_plan *plan, const char *path, int64_t count, struct exec_batch **out, struct base_error *error);
/* Random tokens; they depend on seed and step alone. */
void exec_batch_random(struct base_arena *arena, const struct sim_plan *plan, int64_t step, struct exec_batch *out);

#endif
