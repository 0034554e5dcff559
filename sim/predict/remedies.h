/* Private to the files of remedies: a change of a key, and the plan that changes are tried on. */
#ifndef SIM_REMEDIES_H
#define SIM_REMEDIES_H

#include "sim/predict/predict.h"

enum { SIM_REMEDIES_MOST_ATOMS = 64, SIM_REMEDIES_MOST_FOUND = 512 };

/* One change of one key. */
struct sim_remedy {
    enum sim_key key;
    const char *value;
};

struct sim_remedy_trial {
    struct sim_cache *cache;
    struct base_arena *arena;
    const struct sim_plan *plan;
    const struct sim_plan_text *text;
    const char *topology; /* tried instead of the plan's own, or NULL */
    int doublings;        /* of the devices there; 0: here */
    const char *mesh;     /* the same of its named axes, over that topology; or NULL */
    const char *batch;    /* on it: the plan's batch per device; or NULL */
    double parameter_count;
    double least_peak_bytes; /* of all tries on the plan's own topology */
    const char *already;     /* the difference of the text from the plan, in words; or NULL */
    struct sim_remedy *atoms;
    int atom_count;
    struct sim_change *found;
    int found_count;
};

/* remedy_sets.c. Adds a value of a key to the changes to try, if the plan has another. */
void sim_remedy_add(struct sim_remedy_trial *trial, enum sim_key key, const char *value);
/* True if the plan with these changes fits: it is then among the found. Refused plans are no advice. free_bytes: of the
 * plan so changed, even if it does not fit; or NULL. */
bool sim_remedy_try(struct sim_remedy_trial *trial, const struct sim_remedy *const *changed, int count,
                    double *free_bytes);
/* One change after another: of each number of changes, those that leave most memory free go on, until some fit. */
void sim_remedies_in_sets(struct sim_remedy_trial *trial);

#endif
