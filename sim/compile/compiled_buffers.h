/* Compiled memory, private to sim/compile: a step's arrays under one of the compiler's candidate orders.
 * compiled_buffers.c has the program's values and the peak; compiled_stacks.c the stacks of loops over layers;
 * memory_schedules.c the orders; compiled_memory.c chooses one. */
#ifndef SIM_COMPILE_COMPILED_BUFFERS_H
#define SIM_COMPILE_COMPILED_BUFFERS_H

#include "sim/compile/passes.h"

/* XLA's memory scheduler tries three orders of a whole module, estimates each peak, and takes the lowest. */
enum { SIM_MOST_ELEMENT_BYTES = 8 };

enum sim_memory_schedule { SIM_LIST, SIM_DEPTH_FIRST, SIM_POST_ORDER, SIM_MEMORY_SCHEDULE_COUNT };

struct sim_buffer {
    int birth, death;               /* operations, both included */
    double first_bytes, last_bytes; /* in the first and last iteration of unrolled loops over layers */
    enum model_category category;
    bool of_arrays; /* the sum of arrays that are listed as layer arrays, too */
    int value;      /* the value, or the original of a copy; -1: not a value of the program */
};

/* The buffer of a value whose live range is the same under any order, short of memory or not. A sum over devices has
 * two: as assigned, and as estimated. */
struct sim_settled {
    bool can_be, is_summed, is[2];
    struct sim_buffer buffers[2];
};

/* Separate, equally sized arrays of unscanned layers. Each lives from an operation of its layer, or one outside the
 * layers, to another operation. The reading loop visits layers in reverse order. */
struct sim_layer_arrays {
    int made_in, made_at; /* a loop and its operation; -1: an operation outside loops */
    int user, used_at;    /* likewise */
    int from, until;      /* range of layers that have one; until is excluded */
    double bytes;
};

/* Stacks of loops over layers: the number of first layers that recompute the tensor at its read. */
struct sim_recomputed {
    int layers;
    int first_use, last_use; /* operations of the loop that reads it */
    bool from_start; /* all are recomputed before the first layer that reads one, not each before its own layer */
};

/* A time in which a recomputed array is not allocated; both operations are excluded. */
struct sim_gap {
    int from, until;
    struct sim_gap *next; /* the next in time */
};

struct sim_assigner {
    const struct sim_sharded *s;
    const struct sim_compiled_options *options;
    struct sim_buffer *buffers;
    int count, capacity;
    struct sim_layer_arrays *arrays; /* unscanned layers: the parts of buffers that grow and shrink */
    int array_count, array_capacity;
    bool of_arrays; /* new buffers are such parts */
    /* Memoised, or 0: per shape and bytes of an element, and per value. */
    double (*known_bytes)[SIM_MOST_ELEMENT_BYTES + 1], *known_stacked_bytes;
    int value; /* and per value; -1: none */
    struct base_arena *arena;
    int *carried_in, *carried_out; /* per value: the loop bracket that carries it, or -1 */
    bool *is_one_hot;              /* per tensor of the program */
    int *backward_loop;            /* per loop: the later loop over the same layers, or -1 */
    bool *goes_backward;           /* per loop: it is the second loop over its layers */
    int *reading_loop;             /* per loop: the backward loop that reads its results; -1: it is a backward loop */
    int last_loop_end;             /* operation; 0: no loop */
    bool *is_of_its_products;      /* per value: a logits' gradient that is fused into its products */
    bool *is_array;                /* per value */
    int *values, listed_count;     /* values that are, or represent, an array under some order */
    struct sim_settled *settled;   /* per listed value, once known */
    int *gathered_one_hots, gathered_one_hot_count; /* values */
    bool *windowed;                                 /* per value: an operand of a windowed weight gradient */
    bool *waiting;                                  /* likewise, with gathered activations; or NULL */
    bool *deferred; /* per value: an operand of any weight gradient in unscanned layers */
    bool *weighed;  /* per value: an operand of any weight gradient in a loop over layers */
    enum sim_memory_schedule schedule;
    bool in_haste;           /* short of memory: operations run as early as possible, to free their operands */
    bool gathers_in_turn;    /* gathers of the backward pass run in turn, not at the start */
    bool remakes_logits;     /* the loss recomputes float32 logits; after it only their gradient lives */
    bool drops_exponentials; /* because memory is short */
    int hurried_layers;      /* unscanned layers whose windowed weight gradients run in turn */
    bool estimates;          /* as the scheduler estimates: it does not model overwritten operands */
    struct sim_recomputed
        *recomputed;       /* per value, and after them per value the exponentials of that softmax; or NULL */
    struct sim_gap **gaps; /* per value of a scanned layer; or NULL */
    int *until;            /* per value: the operation that recomputes another value from it; set with gaps */
    bool peaks_at_last;    /* the last peak found is in the last iteration of loops over layers */
    double from_limit_bytes, to_limit_bytes; /* limits for which all decisions so far are the same */
};

/* memory_limit.c: all decisions that depend on the limit */
bool sim_has_room(struct sim_assigner *a, double bytes);
double sim_remat_cost(struct sim_assigner *a,
                      double freed_bytes); /* as XLA does: the integer quotient of limit and freed bytes */

/* listed_values.c */
void sim_list_values(struct sim_assigner *a); /* fills is_array and values; needs windowed, deferred and waiting */
bool sim_is_gathered(const struct sim_assigner *a, int value);      /* the result of an all-gather */
bool sim_is_summed_behind(const struct sim_assigner *a, int value); /* summed over slices after all layers */

/* compiled_buffers.c */
/* Collects all arrays under the order and finds their peak, either as assigned or as the scheduler estimates it. */
enum sim_memory_view { SIM_AS_LAID_OUT, SIM_AS_ESTIMATED };
void sim_assign_buffers(struct sim_assigner *a, enum sim_memory_schedule schedule, enum sim_memory_view view,
                        struct sim_compiled_memory *out);

/* buffer_parts.c */
int sim_array_shape(const struct sim_assigner *a, int value);                            /* shape of its array */
bool sim_is_of_sorted_rows(const struct sim_assigner *a, const struct sim_shape *shape); /* MaxText's rows, by expert */
double sim_local_extent(const struct sim_assigner *a, int size, unsigned axes);
double sim_value_bytes(const struct sim_assigner *a, const struct sim_value *value);
double sim_stacked_bytes(const struct sim_assigner *a, int value); /* one layer's, as add_value stacks it */
double sim_bytes_of_one_head(const struct sim_assigner *a, const struct sim_value *value); /* scores of one head */
void sim_add_buffer(struct sim_assigner *a, int birth, int death, double first_bytes, double last_bytes,
                    enum model_category category);
void sim_add_arrays(struct sim_assigner *a, const struct sim_layer_arrays *arrays);
/* Copies the buffers alive at the last collected peak into the answer. */
void sim_list_alive(const struct sim_assigner *a, struct sim_compiled_memory *out);
int sim_outermost_loop(const struct sim_assigner *a, int loop);
static inline double sim_layers_of(const struct sim_assigner *a, int loop) /* trip count of a loop */
{
    return (double)a->options->sizes[a->s->ops[loop].trips];
}
static inline bool sim_is_over_layers(const struct sim_assigner *a, int loop)
{
    return loop >= 0 && a->s->ops[loop].trips != MODEL_MICROBATCHES;
}

/* compiled_stacks.c */
bool sim_is_weight_cast(const struct sim_assigner *a, const struct sim_op *op);
bool sim_peels_first(const struct sim_assigner *a, int forward); /* its backward loop is peeled */
bool sim_is_peeled(const struct sim_assigner *a, int loop);      /* a backward loop with a peeled iteration */
/* Adds a second stack of layer inputs, which a peeled iteration needs. */
void sim_add_turned_stack(struct sim_assigner *a, int value, double bytes, enum model_category category);
/* Adds one array per layer, from its operation in the forward loop to one in the backward loop, or outside. Scanned
 * layers allocate the whole array at once; others grow and shrink it by iteration. */
void sim_add_layer_stack(struct sim_assigner *a, int made_in, int made_at, int used_until, double bytes,
                         enum model_category category, const struct sim_recomputed *recomputed);
double sim_exponentials_bytes(const struct sim_assigner *a, const struct sim_op *op); /* in unscanned layers */
void sim_add_stacks(struct sim_assigner *a); /* adds stacks of residuals and weights, in addition to values */

/* compiled_gates.c */
int sim_gate_fusion(const struct sim_assigner *a, int value); /* its fusion's last operation; or -1 */
/* True if the fusion that ends with an operation overwrites the value. */
bool sim_is_gate_operand(const struct sim_assigner *a, int value, int at);

/* softmax_gradients.c: the number of a value's arrays, 2 for some softmax gradients, and their last operation */
int sim_softmax_gradients(const struct sim_assigner *a, int v, int *death);

/* compiled_lookups.c */
bool sim_is_gathered_one_hot(const struct sim_assigner *a, const struct sim_value *value);
double sim_gathered_rows_bytes(const struct sim_assigner *a, const struct sim_op *gather, double bytes);
/* Live ranges of a second lookup's rows, and of the rows that replace them next to the first lookup. */
void sim_move_beside_first(struct sim_assigner *a, int value, int *birth, int *death);
double sim_table_gradient_bytes(const struct sim_assigner *a, int value,
                                double bytes);     /* bytes: those of the whole table */
void sim_add_table_copies(struct sim_assigner *a); /* in the other layout than the argument's */

/* compiled_logits.c */
bool sim_comes_of_loss(const struct sim_assigner *a, int value); /* the logits' gradient, or a cast of it */
bool *sim_gradients_of_products(const struct sim_assigner *a);   /* per value: fused logits' gradient */
int sim_logits_weight_gradient(const struct sim_assigner *a, int logits_gradient); /* a value; -1: none */
bool sim_are_few_logits(const struct sim_assigner *a, int value);
int sim_last_read(const struct sim_assigner *a, int value); /* the last operation that reads it, or such a gradient */

/* compiled_blocks.c */
double sim_saved_inputs(const struct sim_assigner *a, int loop); /* inputs of a loop's layers */
void sim_add_blocks(
    struct sim_assigner *a); /* adds buffers of a block of layers beyond those of the program's single layer */

/* memory_schedules.c */
bool *sim_weight_gradient_operands(struct base_arena *arena, const struct sim_sharded *s, const bool *windowed);
/* Per value: an operand of a weight gradient in unscanned layers, which a depth-first order postpones. */
bool *sim_deferred_operands(struct sim_assigner *a);
/* The last position of a windowed einsum in a scanned loop's body: its end. If gathers start early, it is the next
 * gather of activations, which the product overlaps (a dump of T5X for v5e by libtpu 0.0.42.1). */
int sim_window_until(const struct sim_assigner *a, int loop, int product);
/* The last operation before which the logits' gradient must be allocated. Its own last use is last_use. */
int sim_logits_gradient_until(const struct sim_assigner *a, int value, int last_use);
/* The operation until which a windowed einsum that reads the logits' gradient waits; end if it waits to the last. */
int sim_logits_window_until(const struct sim_assigner *a, int value, int end);
/* The operation until which gradients of a stack's weights wait for their updates. */
int sim_gradient_stack_until(const struct sim_assigner *a, int backward);

/* loop_remat.c */
/* Rematerializes in the bodies of loops over layers. */
void sim_rematerialize_in_loops(struct sim_assigner *a, struct sim_compiled_memory *out);

/* peak_priority.c */
/* XLA's rematerialization in unscanned layers. It stops when the peak is below the limit or no candidate helps. */
void sim_rematerialize(struct sim_assigner *a, struct sim_compiled_memory *out);

/* compiled_heap.c: heap bytes of all arrays collected last, with holes. alive_bytes are live at once. */
double sim_heap_bytes(struct sim_assigner *a, double alive_bytes);

#endif
