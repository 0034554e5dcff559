/* Private to tuner/. */
#ifndef TUNER_SPACE_H
#define TUNER_SPACE_H

#include "tuner/tuner.h"

struct tuner_software;
/* Software with named axes searches all meshes of these, unless the plan or `meshes` has one: sets ici_mesh of the
 * space's plan, and meshes, to its axes without sizes. */
void tuner_take_named_axes(struct tuner_space *space, const struct tuner_software *choices,
                           struct tuner_values *meshes);
/* Expands the given values of ici_mesh into meshes (named_meshes.c). axes: their names, with size 1. BASE_INPUT:
 * invalid, or too many. */
enum base_status tuner_named_meshes(struct tuner_space *space, const struct topo_topology *topology,
                                    struct tuner_values *meshes, struct topo_axes *axes, struct base_error *error);

/* All tuples of divisors of the topology's dimensions, last one fastest. */
enum base_status tuner_every_submesh(struct base_arena *arena, const struct topo_topology *topology,
                                     struct tuner_values *out, struct base_error *error);

/* The batch sizes of a batch search (software_choices.c). */
struct tuner_values tuner_auto_batches(struct base_arena *arena, enum model_step step, int device_count);
/* The options that the plan's software offers (software_choices.c). */
enum tuner_software_mesh {
    TUNER_ANY_SUBMESH,
    TUNER_CONSECUTIVE_RANKS /* num_partitions consecutive ranks */,
    TUNER_NO_MODEL_AXIS,
    TUNER_NAMED_AXES /* every mesh of the axes that the software's usual ici_mesh names */
};
struct tuner_software {
    bool is_t5x; /* or searched like T5X because it has no row */
    enum tuner_software_mesh mesh;
    struct tuner_values rules;                        /* none: the documented ones */
    struct tuner_values words[TUNER_DIMENSION_COUNT]; /* none: the plan's own value or its default */
    struct tuner_values microbatches;                 /* values allowed without stages; none: any */
    bool searches_stages, searches_experts;           /* pipeline_stages, expert_parallel: auto is the default range */
    struct tuner_values expert_tensor_parallel;       /* beside the software's own default */
};
struct tuner_values tuner_split_words(struct base_arena *arena, const char *words); /* between spaces */
/* BASE_INTERNAL: the table is invalid. */
enum base_status tuner_software_find(struct base_arena *arena, const struct tuner_request *request,
                                     struct tuner_software *out, struct base_error *error);

/* A request of inference with the keys of training pinned (serving.c). */
const struct tuner_request *tuner_serving_request(struct base_arena *arena, const struct tuner_request *asked);

/* It equals another plan of the space (space.c). */
bool tuner_is_repetition(const struct tuner_space *space, const struct sim_plan *plan);

/* Per-tensor remat (saved_space.c): adds its placeholder to the values of TUNER_REMAT. */
enum base_status tuner_saved_open(struct tuner_space *space, const struct model_config *config,
                                  struct base_error *error);
unsigned tuner_saved_useful(const struct tuner_saved_space *saved); /* tensors that may save time if kept */
int tuner_saved_found(struct tuner_space *space, const struct model_saved *policy); /* its number in a plan */

/* refusals.c. Messages that differ only in numbers count as one reason; after TUNER_MOST_REFUSALS reasons, as the
 * last one. */
enum { TUNER_MOST_REFUSALS = 64 };
/* BASE_INPUT: a plan without its model or topology, or with adapters. */
enum base_status tuner_check_said(const struct sim_plan_text *plan, struct base_error *error);
/* BASE_INPUT: its microbatches have another number of sequences on each replica; 0: any will do. */
enum base_status tuner_check_micro_batch(const struct sim_plan *plan, int64_t micro_batch, struct base_error *error);
void tuner_refuse(struct tuner_space *space, const char *message, int64_t plan_count);
/* BASE_INPUT, for a space without a plan: the most frequent reason. */
enum base_status tuner_refuse_all(const struct tuner_space *space, struct base_error *error);

#endif
