/* Private to tuner/: the state of a search of pipeline plans. stage_space.c builds the space, stage_search.c
 * decides. */
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
    int64_t numbers[TUNER_STAGED_COUNT][TUNER_STAGED_MOST_VALUES]; /* of values that are integers or words */
    int capacity, front_capacity;
    bool overflows;      /* some key had more than TUNER_STAGED_MOST_VALUES values */
    bool searches;       /* plans get bounds when they are listed */
    bool assigns;        /* some plan needs a layer assignment */
    bool assigns_uneven; /* of the request, where the software and the model allow it */
    double start_s;
    struct sim_pipeline_traits traits;
    struct tuner_software choices;
    int64_t split_rank, first_layers;
    /* by division and by value indices of stages and chunks: 1: valid, -1: invalid; 0: unknown */
    signed char cut[SIM_CUT_COUNT][TUNER_STAGED_MOST_VALUES][TUNER_STAGED_MOST_VALUES];
};

/* Lists all plans that the software accepts, with bounds in a search. BASE_INPUT: there are none. */
enum base_status tuner_staged_list(struct staged_walk *w, struct base_error *error);
enum base_status tuner_staged_check(struct staged_walk *w, const struct tuner_staged_plan *plan, struct sim_plan *out,
                                    struct base_error *error);
/* Replaces the plan's layers-only bound, if it has one, by full bounds. */
enum base_status tuner_staged_bound(struct staged_walk *w, struct tuner_staged_plan *plan, struct base_error *error);
/* The objective: seconds per sequence, or seconds per step. */
double tuner_staged_cost(const struct staged_walk *w, const struct tuner_staged_plan *plan, double step_s);
void tuner_staged_refuse(struct staged_walk *w, const char *why);
/* Whether this share of the time limit has passed, or the search was stopped. */
bool tuner_staged_time_is_up(const struct staged_walk *w, double share);

#endif
