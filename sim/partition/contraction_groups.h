/* Private to contraction.c and labels.c: one contraction while it is placed. */
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

/* A sum over groups: of the axes of each contracted dimension; or of those that the result is sharded by then. Where
 * more devices hold copies of the result than there are groups, some of these make each a part, so that parts are
 * summed. */
struct reduction {
    struct sim_layout sums;
    int rank;
    struct sim_layout cuts;
    unsigned copies;
    bool of_parts;
};

struct dot {
    const struct sim_extents *extents;
    struct sim_contraction *c;
    int operand[2];                      /* which operand of the contraction is the left one, the right one */
    signed char at[ARRAYS][SIM_LETTERS]; /* where the contraction's arrays have a letter; -1: nowhere */
    char letters[ARRAYS]
                [MODEL_MAX_RANK + 1]; /* of the result: batch labels first, then the left operand's, the right one's */
    struct sim_shape shapes[ARRAYS];
    struct dims dims[ROLES][ARRAYS];                   /* one order of labels in all arrays */
    signed char place[ARRAYS][ARRAYS][MODEL_MAX_RANK]; /* of a dimension in another array, or -1 */
    struct reduction reductions[2];                    /* of the groups that the operation stands in */
    int reduction_count;
    struct sim_layout result; /* as it is now, of all devices */
};

/* A contraction within groups of devices that differ in some axes; `outer` is how the groups share the arrays. */
struct part {
    unsigned axes;
    struct sim_layout outer[ARRAYS], tiles[ARRAYS];
};

/* contraction.c */
void sim_place_dot(struct dot *dot, const struct part *part);

#endif
