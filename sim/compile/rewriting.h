/* Private to sim/compile: an edit of a sharded program. It records removals and insertions, then applies them. */
#ifndef SIM_COMPILE_REWRITING_H
#define SIM_COMPILE_REWRITING_H

#include "sim/compile/compile.h"

/* A program under edit: operations to remove, and operations to insert. Values keep their numbers until the edit is
 * applied. */
struct sim_rewriting {
    struct base_arena *arena;
    struct sim_sharded *s;
    bool *removed; /* per operation */
    struct sim_insertion {
        int before;
        struct sim_op op;
    } * insertions;
    int insertion_count, insertion_capacity;
    int *use_counts, *users; /* per value: how many operations' operands it is, and the last operation that reads it */
    bool changed;
};

struct sim_rewriting sim_rewriting_begin(struct base_arena *arena, struct sim_sharded *sharded);
/* Removes operations with their values, and adds insertions. Does nothing if there are no edits. */
void sim_rewriting_apply(struct sim_rewriting *r);

void sim_rewriting_remove(struct sim_rewriting *r, int op);
/* Adds a copy of a value's description; returns its number. */
int sim_rewriting_copy(struct sim_rewriting *r, int value);
/* Inserts an all-reduce of a value before an operation, in its loop. Returns the sum. */
int sim_rewriting_insert_all_reduce(struct sim_rewriting *r, int before, const struct model_op *why, unsigned axes,
                                    int value);
/* Inserts a cast likewise. Returns the result. */
int sim_rewriting_insert_cast(struct sim_rewriting *r, int before, const struct model_op *why, int value,
                              enum model_dtype dtype);

bool sim_same_spec(const struct sim_value *a, const struct sim_value *b);
/* The all-reduce over these axes (0: any) that computes a value without other readers; otherwise -1. */
int sim_reduction_of(const struct sim_rewriting *r, int value, unsigned axes);
/* The same, if every device gets the whole sum. */
int sim_all_reduce_of(const struct sim_rewriting *r, int value, unsigned axes);

#endif
