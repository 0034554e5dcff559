/* Private to tuner/. */
#ifndef TUNER_SPACE_H
#define TUNER_SPACE_H

#include "tuner/tuner.h"

/* Makes of the given values of ici_mesh the meshes that they stand for (named_meshes.c); axes: their names, every
 * size 1. BASE_INPUT: no such list, or too many. */
enum base_status tuner_named_meshes(struct tuner_space *space, const struct topo_topology *topology,
                                    struct tuner_values *meshes, struct topo_axes *axes, struct base_error *error);

/* Those that a search of batches tries: space.c says which. */
struct tuner_values tuner_auto_batches(struct base_arena *arena, int device_count);
/* What the plan's software can be told (software_choices.c). */
enum tuner_software_mesh {
    TUNER_ANY_SUBMESH,
    TUNER_CONSECUTIVE_RANKS /* num_partitions of them */,
    TUNER_NO_MODEL_AXIS
};
struct tuner_software {
    bool is_t5x; /* or searched as T5X is, for want of a row */
    enum tuner_software_mesh mesh;
    struct tuner_values rules;                        /* none: the documented ones */
    struct tuner_values words[TUNER_DIMENSION_COUNT]; /* none: the plan's own value, or its default */
    struct tuner_values microbatches;                 /* that it can be told where there are no stages; none: any */
};
/* BASE_INTERNAL: the table is broken. */
enum base_status tuner_software_find(struct base_arena *arena, const struct tuner_request *request,
                                     struct tuner_software *out, struct base_error *error);


/* Remat by tensor (saved_space.c): adds the value that stands for it to those of TUNER_REMAT. */
enum base_status tuner_saved_open(struct tuner_space *space, const struct model_config *config,
                                  struct base_error *error);
unsigned tuner_saved_useful(const struct tuner_saved_space *saved); /* names that it may spare time to save */
int tuner_saved_found(struct tuner_space *space, const struct model_saved *policy); /* its number in a plan */

/* refusals.c. Messages that differ in numbers alone are one reason; beyond TUNER_MOST_REFUSALS reasons, the last one.
 */
enum { TUNER_MOST_REFUSALS = 64 };
void tuner_refuse(struct tuner_space *space, const char *message, int64_t plan_count);
/* BASE_INPUT, for a space without a plan: the reason of most refusals. */
enum base_status tuner_refuse_all(const struct tuner_space *space, struct base_error *error);

#endif
