/* Private to exec/: additional outputs of inference: encoder output, caches, and the logits of each step. */
#ifndef EXEC_INFER_ARRAYS_H
#define EXEC_INFER_ARRAYS_H

#include "exec/this_machine.h"

struct exec_kept_array {
    const char *name; /* "final.decoder.layers_0.self_attention.cached_key" */
    int rank;
    int64_t shape[MODEL_MAX_RANK + 1];
    bool whole_numbers;
    float *values;
};
/* Arrays of the last batch. */
struct exec_arrays_kept {
    struct base_arena *arena;
    struct exec_machine *machine;
    const char *directory;
    struct exec_kept_array *arrays;
    int count, capacity;
    int64_t steps, step_capacity; /* of logits and tokens */
    float *logits, *fed;
    int32_t *lengths; /* of prompts; NULL: none */
};
int exec_tensor_named(const struct exec_machine *machine, const char *name); /* -1: none */
void exec_arrays_watch(struct base_arena *arena, struct exec_machine *machine, struct exec_watch *watch,
                       struct exec_arrays_kept *kept);
/* Call after the last batch. Collective; rank 0 writes. */
enum base_status exec_arrays_write(struct exec_arrays_kept *kept, struct base_error *error);

#endif
