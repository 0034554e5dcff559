/* Private to exec/: a pipeline's stages, as groups of devices. Each piece of the model has a machine of its own; the
 * chunks of a stage share arenas. In one process all stages run, one event after the other in the one order that the
 * timetable gives; between ranks each takes its own events of it. */
#ifndef EXEC_STAGE_MACHINES_H
#define EXEC_STAGE_MACHINES_H

#include "exec/kernels.h"

struct exec_stages {
    const struct sim_plan *plan; /* of the whole model */
    struct sim_executable_pipeline program;
    struct exec_machine *machines;          /* by piece; of other ranks' stages what is known of them, no arenas */
    int device_count;                       /* of a stage */
    int own_stage;                          /* -1: all are of this process */
    const struct exec_transport *transport; /* to all ranks; NULL: all stages are of this process */
    struct exec_transport inside;           /* to those of the stage */
    char *buffer;                           /* of EXEC_SEGMENT_BYTES, for gradients of what several pieces have */
    struct exec_shared *shared;             /* parameters that several pieces have */
    int shared_count;
    double step_start_s, *start_s, *end_s; /* of each pass of the timetable, in the last step */
    int running;                           /* pass */
    int reported_stage;                    /* whose operations and collectives stand for all */
};

enum exec_clock { EXEC_WALL_CLOCK, EXEC_PROCESSOR_CLOCK };
/* out->device_count and transport are set: ranks, stage after stage. */
enum base_status exec_stages_begin(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                   enum exec_clock clock, struct exec_stages *out, struct base_error *error);
/* Of those that run in this process, in the order of pieces. */
struct exec_machine **exec_own_machines(struct base_arena *arena, const struct exec_stages *stages, int *count);
void exec_stages_step(struct exec_stages *stages); /* all of a step, from batches that stand in the arenas */

/* ---- pieces and their messages (stage_messages.c) ---- */

bool exec_is_own_piece(const struct exec_stages *stages, int piece);
int exec_piece_count(const struct exec_stages *stages);
int exec_piece_of(const struct exec_stages *stages, const struct sim_pass_of *pass);
void exec_send(struct exec_stages *stages,
               const struct sim_pass_of *pass); /* all that the pass has for the next piece */
/* BASE_INPUT: what a piece sends is not what its neighbour receives. */
enum base_status exec_check_messages(const struct exec_stages *stages, struct base_error *error);

/* shared_gradients.c: a parameter that several pieces have (a tied embedding, relative positions) has one gradient, the
 * sum of theirs. */
struct exec_shared {
    const char *name;
    int piece_count, pieces[SIM_MOST_STAGE_CHUNKS], values[SIM_MOST_STAGE_CHUNKS]; /* their accumulators */
};
enum base_status exec_shared_find(struct base_arena *arena, struct exec_stages *stages, struct base_error *error);
void exec_shared_sum(struct exec_stages *stages);


/* ---- what was measured (stage_results.c); collective ---- */

/* The chunks of the reported stage, with what its first rank has measured of operations and collectives. */
struct exec_machine **exec_reported_machines(struct base_arena *arena, struct exec_stages *stages, int *count);
void exec_list_passes(struct base_arena *arena, struct exec_stages *stages, struct sim_passes *out);
const struct sim_executable_stage *exec_worst_stage(const struct exec_stages *stages); /* or the first, if it counts */

#endif
