/* Private to tuner/: plans with pipeline stages. stage_space.c lists them; stage_search.c decides them. */
#ifndef TUNER_STAGES_H
#define TUNER_STAGES_H

#include "tuner/space.h"

enum { TUNER_STAGED_MOST_VALUES = 250 };
/* In numbers of schedules: an unnamed one follows from the plan's number of chunks. */
enum { TUNER_STAGED_BY_CHUNKS = -1 };

enum tuner_staged_end {
    TUNER_STAGED_OPEN,
    TUNER_STAGED_PREDICTED,
    TUNER_STAGED_BY_TIME,
    TUNER_STAGED_BY_MEMORY,
    TUNER_STAGED_REFUSED
};
/* A plan as indices of its values, with its current state. */
struct tuner_staged_plan {
    unsigned char value[TUNER_DIMENSION_COUNT];
    unsigned char end;          /* enum tuner_staged_end: the decision */
    bool assigned;              /* each stage's layers are chosen */
    bool unpriced;              /* time ran out before it had bounds or was checked */
    bool has_layers_bound_only; /* it has only the layers-only time bound, and no memory bound yet */
    bool undecided;             /* a better assignment may exist, but none below least_s */
    double least_s;             /* a lower bound on its cost: seconds per sequence or step */
    double free_bytes;          /* an upper bound on free memory */
    const char *layers;         /* of each stage if assigned; "auto": to be assigned by a search; or NULL */
};

struct tuner_stages {
    struct tuner_request request;
    const struct tuner_options *search; /* plans get bounds when they are listed; NULL: they do not */
    struct tuner_staged_plan *plans;    /* of the space, in order */
    int plan_count, capacity;           /* with those that turn out to be invalid in a search */
    struct tuner_values values[TUNER_DIMENSION_COUNT];
    struct tuner_space *space; /* while it is listed */
    struct sim_cache *cache;
    struct base_arena *arena, scratch;
    struct topo_topology topology;
    struct model_config config;
    double capacity_bytes;                                            /* of a device */
    int64_t numbers[TUNER_DIMENSION_COUNT][TUNER_STAGED_MOST_VALUES]; /* of values that are integers or words */
    bool overflows;      /* some key had more than TUNER_STAGED_MOST_VALUES values */
    bool assigns;        /* some plan needs a layer assignment */
    bool assigns_uneven; /* of the request, where the software and the model allow it */
    double start_s;
    struct sim_pipeline_traits traits;
    struct tuner_software choices;
    int64_t split_rank, first_layers;
    /* by division and by value indices of stages and chunks: 1: valid, -1: invalid; 0: unknown */
    signed char cut[SIM_CUT_COUNT][TUNER_STAGED_MOST_VALUES][TUNER_STAGED_MOST_VALUES];
};

/* stage_values.c. BASE_INPUT: invalid values, or too many. */
enum base_status tuner_staged_find_values(struct tuner_stages *w, int place, struct base_error *error);
bool tuner_staged_has_schedule(const struct tuner_stages *w, int schedule);

/* ---- stage_space.c ---- */

int64_t tuner_staged_batch(const struct tuner_stages *w, int place);
enum base_status tuner_staged_check(struct tuner_stages *w, const struct tuner_staged_plan *plan, struct sim_plan *out,
                                    struct base_error *error);
/* Replaces the plan's layers-only bound by full bounds. *is_lower: they are less than it, which must not happen. */
enum base_status tuner_staged_bound(struct tuner_stages *w, struct tuner_staged_plan *plan, bool *is_lower,
                                    struct base_error *error);
/* The objective: seconds per sequence, or seconds per step. */
double tuner_staged_cost(const struct tuner_stages *w, const struct tuner_staged_plan *plan, double step_s);

#endif
