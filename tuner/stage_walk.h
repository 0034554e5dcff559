/* Private to tuner/: a search of plans with stages while it goes on. Its space is in stage_space.c, how it decides in
 * stage_search.c. */
#ifndef TUNER_STAGE_WALK_H
#define TUNER_STAGE_WALK_H

#include "tuner/space.h"

enum { TUNER_STAGED_MOST_VALUES = 250 };

struct staged_walk {
    const struct tuner_stages_request *request;
    struct tuner_stages_result *result;
    struct sim_cache *cache;
    struct base_arena *arena, scratch;
    struct topo_topology topology;
    struct model_config config;
    int64_t numbers[TUNER_STAGED_COUNT][TUNER_STAGED_MOST_VALUES]; /* of values that are whole numbers, or words */
    int capacity, front_capacity;
    bool overflows; /* there were more values of one kind than TUNER_STAGED_MOST_VALUES */
    bool searches;  /* plans get their bounds as they are listed */
    bool assigns;   /* some plan has layers to be assigned */
    double start_s;
    struct sim_pipeline_traits traits;
    struct tuner_software choices;
    int64_t split_rank, first_layers;
    /* By how layers are divided, and numbers of stages and chunks: 1: is, -1: is not; 0: not known. */
    signed char cut[SIM_CUT_COUNT][TUNER_STAGED_MOST_VALUES][TUNER_STAGED_MOST_VALUES];
};

/* All plans that the software would start, with their bounds if it searches. BASE_INPUT: there are none. */
enum base_status tuner_staged_list(struct staged_walk *w, struct base_error *error);
enum base_status tuner_staged_check(struct staged_walk *w, const struct tuner_staged_plan *plan, struct sim_plan *out,
                                    struct base_error *error);
/* The plan's bounds, where it is outlined. */
enum base_status tuner_staged_bound(struct staged_walk *w, struct tuner_staged_plan *plan, struct base_error *error);
/* Whether each stage's layers are chosen for it: of whole stages. */
bool tuner_staged_is_assigned(const struct staged_walk *w, const struct tuner_staged_plan *plan);
/* What is made small: seconds a sequence, or seconds a step. */
double tuner_staged_cost(const struct staged_walk *w, const struct tuner_staged_plan *plan, double step_s);
void tuner_staged_refuse(struct staged_walk *w, const char *why);
/* Whether such a share of the time limit is over, or somebody has stopped the search. */
bool tuner_staged_time_is_up(const struct staged_walk *w, double share);

#endif
