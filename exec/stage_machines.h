/* Private to exec/: pipeline stages as groups of devices. Each stage chunk of the model has its own machine; the
 * chunks of a stage share arenas. In one process all stages run, event by event in the order of the timetable.
 * Between ranks, each takes its own events. */
#ifndef EXEC_STAGE_MACHINES_H
#define EXEC_STAGE_MACHINES_H

#include "exec/kernels.h"

struct exec_stages {
    const struct sim_plan *plan; /* of the whole model */
    struct sim_executable_pipeline program;
    struct exec_machine *machines;          /* by stage chunk; those of other ranks' stages have no arenas */
    int device_count;                       /* per stage */
    int own_stage;                          /* -1: this process has all stages */
    const struct exec_transport *transport; /* to all ranks; NULL: this process has all stages */
    struct exec_transport inside;           /* to the ranks of the stage */
    char *buffer;                           /* of EXEC_SEGMENT_BYTES, for gradients of shared parameters */
    struct exec_shared *shared;             /* parameters that several stage chunks have */
    int shared_count;
    double step_start_s, *start_s, *end_s; /* of each pass of the timetable, in the last step */
    int running;                           /* current pass */
    int reported_stage;                    /* the stage whose operations and collectives are reported */
};

enum exec_clock { EXEC_WALL_CLOCK, EXEC_PROCESSOR_CLOCK };
/* Set out->device_count and transport first. Ranks are numbered stage after stage. */
enum base_status exec_stages_begin(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                   enum exec_clock clock, struct exec_stages *out, struct base_error *error);
/* The machines that run in this process, by stage chunk. */
struct exec_machine **exec_own_machines(struct base_arena *arena, const struct exec_stages *stages, int *count);
void exec_stages_step(struct exec_stages *stages); /* a whole step, from batches in the arenas */

/* ---- stage chunks and their messages (stage_messages.c) ---- */

bool exec_is_own_stage_chunk(const struct exec_stages *stages, int stage_chunk);
int exec_stage_chunk_count(const struct exec_stages *stages);
int exec_stage_chunk_of(const struct exec_stages *stages, const struct sim_pass_of *pass);
void exec_send(struct exec_stages *stages,
               const struct sim_pass_of *pass); /* all messages of the pass to the next stage chunk */
/* BASE_INPUT: a stage chunk sends something else than its neighbour receives. */
enum base_status exec_check_messages(const struct exec_stages *stages, struct base_error *error);

/* shared_gradients.c: a parameter of several stage chunks (a tied embedding, relative positions) has one gradient,
 * the sum of theirs. */
struct exec_shared {
    const char *name;
    int stage_chunk_count, stage_chunks[SIM_MOST_STAGE_CHUNKS];
    int values[SIM_MOST_STAGE_CHUNKS]; /* their accumulators */
};
enum base_status exec_shared_find(struct base_arena *arena, struct exec_stages *stages, struct base_error *error);
void exec_shared_sum(struct exec_stages *stages);


/* ---- measurements (stage_results.c); collective ---- */

/* The chunks of the reported stage, with its first rank's measurements of operations and collectives. */
struct exec_machine **exec_reported_machines(struct base_arena *arena, struct exec_stages *stages, int *count);
void exec_list_passes(struct base_arena *arena, struct exec_stages *stages, struct sim_passes *out);
/* The stage with the largest arena, or the first one with first_stage_memory. */
const struct sim_executable_stage *exec_worst_stage(const struct exec_stages *stages);

#endif
