/* Private to sim/compile: an edit of a sharded program. It begins, records removals and insertions, and applies them.
 */
#ifndef SIM_COMPILE_REWRITING_H
#define SIM_COMPILE_REWRITING_H

#include "sim/compile/compile.h"

/* A program under change: operations that go, and operations that come before others. Values keep their numbers until
 * it is applied. */
struct sim_rewriting {
    struct base_arena *arena;
    struct sim_sharded *s;
    bool *removed; /* per operation */
    struct sim_insertion {
        int before;
        struct sim_op op;
    } * insertions;
    int insertion_count, insertion_capacity;
    int *use_counts, *users; /* per value: how many operands it is, and the last operation that reads it */
    bool changed;
};

struct sim_rewriting sim_rewriting_begin(struct base_arena *arena, struct sim_sharded *sharded);
/* Removed operations and their values go, insertions come; nothing where nothing was changed. */
void sim_rewriting_apply(struct sim_rewriting *r);

void sim_rewriting_remove(struct sim_rewriting *r, int op);
/* A value like another one; returns its number. */
int sim_rewriting_copy(struct sim_rewriting *r, int value);
/* An all-reduce of a value, before an operation and in its loop. Returns the sum. */
int sim_rewriting_insert_all_reduce(struct sim_rewriting *r, int before, const struct model_op *why, unsigned axes,
                                    int value);
/* A cast of a value, likewise. Returns the result. */
int sim_rewriting_insert_cast(struct sim_rewriting *r, int before, const struct model_op *why, int value,
                              enum model_dtype dtype);

bool sim_same_spec(const struct sim_value *a, const struct sim_value *b);
/* The all-reduce over these axes (0: over any) that makes a value, if nobody else reads the value; else -1. */
int sim_reduction_of(const struct sim_rewriting *r, int value, unsigned axes);
/* The same, if every device gets the whole sum. */
int sim_all_reduce_of(const struct sim_rewriting *r, int value, unsigned axes);

#endif
