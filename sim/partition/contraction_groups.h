/* Private to sim/partition/: the state of one contraction while it is partitioned. */
#ifndef SIM_DOT_H
#define SIM_DOT_H

#include "sim/partition/sharding_tiles.h"

enum { LEFT, RIGHT, OUT, ARRAYS };
enum role { BATCH, CONTRACTED, OF_LEFT, OF_RIGHT, ROLES };

/* Dimensions of one array. */
struct dims {
    int count;
    signed char at[MODEL_MAX_RANK + 1];
};

/* A reduction over groups: over the axes of each contracted dimension, or over those that shard the result afterwards.
 * If replicas of the result outnumber the groups, some devices compute a part each, and parts are summed. */
struct reduction {
    struct sim_layout sums;
    int rank;
    struct sim_layout slices;
    unsigned copies;
    bool of_parts;
};

struct dot {
    const struct sim_extents *extents;
    struct sim_contraction *c;
    int operand[2];                      /* the contraction's operand on the left, and on the right */
    signed char at[ARRAYS][SIM_LETTERS]; /* dimension of a letter in each array, or -1 */
    char letters[ARRAYS]
                [MODEL_MAX_RANK + 1]; /* the result's: batch labels first, then the left and the right operand's */
    struct sim_shape shapes[ARRAYS];
    struct dims dims[ROLES][ARRAYS];                   /* labels in one order for all arrays */
    signed char place[ARRAYS][ARRAYS][MODEL_MAX_RANK]; /* matching dimension in another array, or -1 */
    struct reduction reductions[2];                    /* those of the enclosing groups */
    int reduction_count;
    struct sim_layout result; /* its current sharding over all devices */
};

/* A contraction within groups of devices that differ in some axes. `outer` is the arrays' sharding over groups. */
struct part {
    unsigned axes, apart; /* SIM_SUMS_APART, or 0 */
    struct sim_layout outer[ARRAYS], tiles[ARRAYS];
};

/* contraction.c */
void sim_place_dot(struct dot *dot, const struct part *part);

/* ---- contraction_parts.c ---- */

int sim_dot_rank_of(const struct dot *t, int array);
unsigned sim_dot_used(const struct dot *t, const struct part *p, int array);
bool sim_dot_is_partial(const struct dot *t, const struct part *p, int array); /* several devices hold a shard */
unsigned sim_dot_copies(const struct dot *t, const struct part *p, int array);
unsigned sim_dot_axes_of(const struct dot *t, const struct part *p, enum role role, int array);
bool sim_dot_as_many(const struct dot *t, unsigned axes, unsigned others);
sim_order sim_dot_order_of(const struct sim_layout *tiles, const struct dims *dims);
bool sim_dot_equal(const struct dot *t, int array, const struct sim_layout *a, const struct sim_layout *b);
sim_order sim_dot_within_groups(const struct dot *t, const struct part *p, sim_order groups, int array);
bool sim_dot_regroup(const struct dot *t, const struct part *p, int array, const struct dims *dims, sim_order groups,
                     int like, struct sim_layout *tiles);
void sim_dot_count_like(struct sim_layout *tiles, const struct dims *dims, const struct sim_layout *like,
                        const struct dims *there);
void sim_dot_clear(struct sim_layout *tiles, const struct dims *dims);
void sim_dot_go_outside(struct part *p, int array, const struct dims *dims);
bool sim_dot_find_groups(const struct dot *t, const struct part *p, int array, sim_order groups, int like,
                         struct dims *out);
/* The shard of an operand or result on one device, or on a group of devices. */
enum part_of { OF_A_DEVICE, OF_A_GROUP };
struct sim_shape sim_dot_local_shape(const struct dot *t, const struct part *p, int array, enum part_of of);
bool sim_dot_left_is_larger(const struct dot *t, const struct part *p);
struct sim_array sim_dot_array_of(struct dot *t, const struct part *p, int array);
void sim_dot_reshard(struct dot *t, struct part *p, int array, const struct sim_layout *to);
void sim_dot_gather(struct dot *t, struct part *p, int array);
void sim_dot_reshard_result(struct dot *t, const struct part *p, struct sim_layout from);
struct reduction sim_dot_sum_of(const struct part *p, const struct dims *dims);
/* contraction_by_labels.c. Use only groups that operands form already, or reshard one of them to form groups. */
enum grouping { GROUPS_AS_THEY_STAND, GROUPS_FORMED };
bool sim_dot_by_free(struct dot *t, struct part p, enum grouping grouping);
bool sim_dot_by_contracted(struct dot *t, struct part p, enum grouping grouping);
bool sim_dot_by_copies(struct dot *t, struct part p);

#endif
