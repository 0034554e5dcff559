/* Compiled memory, private to sim/compile: the arrays of a step under one of the compiler's candidate orders.
 * compiled_buffers.c has the program's values and the peak, compiled_stacks.c the stacks of loops over layers,
 * memory_schedules.c the orders, compiled_memory.c the choice among them. */
#ifndef SIM_COMPILE_COMPILED_BUFFERS_H
#define SIM_COMPILE_COMPILED_BUFFERS_H

#include "sim/compile/passes.h"

/* XLA's memory scheduler tries three orders of a whole module, estimates the peak of each, and takes the least. */
enum { SIM_MOST_ELEMENT_BYTES = 8 };

enum sim_memory_schedule { SIM_LIST, SIM_DEPTH_FIRST, SIM_POST_ORDER, SIM_MEMORY_SCHEDULE_COUNT };

struct sim_buffer {
    int birth, death;               /* operations, both included */
    double first_bytes, last_bytes; /* in the first and in the last iteration of loops over layers that are unrolled */
    enum model_category category;
    bool of_arrays; /* it is the sum of arrays that the list of them has, too */
    int value;      /* the value, or the original of a copy; -1: an array that is no value of the program */
};

/* The buffer of a value that has only one, with the same lifetime under any order, in haste or not. A value that is
 * summed over devices has two: as it is laid out, and as the scheduler estimates it. */
struct sim_settled {
    bool can_be, is_summed, is[2];
    struct sim_buffer buffers[2];
};

/* Separate arrays of unscanned layers, all of one size: from an operation of each layer, or one outside the layers, to
 * another one. The reading loop visits layers in reverse order. */
struct sim_layer_arrays {
    int made_in, made_at; /* a loop and an operation of it; -1: an operation outside */
    int user, used_at;    /* the same */
    int from, until;      /* of the layers those that have one, the last one excluded */
    double bytes;
};

/* Stacks of loops over layers: the number of first layers that recompute the tensor at its read. */
struct sim_recomputed {
    int layers;
    int first_use, last_use; /* operations of the loop that reads it */
    bool from_start;         /* all of them before the first layer that reads one, not each before its own */
};

/* A time in which an array is not there, since it is recomputed: operations, both excluded. */
struct sim_gap {
    int from, until;
    struct sim_gap *next; /* a later one */
};

struct sim_assigner {
    const struct sim_sharded *s;
    const struct sim_compiled_options *options;
    struct sim_buffer *buffers;
    int count, capacity;
    struct sim_layer_arrays *arrays; /* unscanned layers: the parts of growing and shrinking buffers */
    int array_count, array_capacity;
    bool of_arrays; /* new buffers are such parts */
    /* Memoised, or 0: per shape and bytes of an element, and per value. */
    double (*known_bytes)[SIM_MOST_ELEMENT_BYTES + 1], *known_stacked_bytes;
    int value; /* and of this value; -1: of none */
    struct base_arena *arena;
    int *carried_in, *carried_out; /* per value: the loop bracket that carries it, or -1 */
    bool *is_one_hot;              /* per tensor of the program */
    int *backward_loop;            /* per loop: the one that goes over the same layers behind it, or -1 */
    bool *goes_backward;           /* per loop: another one has gone over its layers */
    int *reading_loop;           /* per loop: the one that reads backward what it makes; -1: it goes backward itself */
    int last_loop_end;           /* operation; 0: there is no loop */
    bool *is_of_its_products;    /* per value: a gradient of logits that is no array */
    bool *is_array;              /* per value */
    int *values, listed_count;   /* those that are, or stand for, an array under some order */
    struct sim_settled *settled; /* of each of these, once it is known */
    int *gathered_one_hots, gathered_one_hot_count; /* values */
    bool *windowed;                                 /* per value: an operand of a windowed weight gradient */
    bool *waiting;                                  /* the same of one that waits for gathered activations; or NULL */
    bool *deferred;                                 /* the same of any weight gradient in layers that are no loops */
    bool *weighed;                                  /* the same of any weight gradient in a loop over layers */
    enum sim_memory_schedule schedule;
    bool in_haste;           /* short of memory: operations run as soon as they can, to free their operands */
    bool gathers_in_turn;    /* those of the backward pass, not at the start */
    bool remakes_logits;     /* in float32, for the loss: after it only their gradient lives */
    bool drops_exponentials; /* since there is no room for them */
    int hurried_layers;      /* unscanned layers whose windowed weight gradients run in turn */
    bool estimates;          /* as the scheduler does: it knows of no array that is written over another */
    struct sim_recomputed
        *recomputed;       /* per value, and behind them per value the exponentials of that softmax; or NULL */
    struct sim_gap **gaps; /* per value of a scanned layer; or NULL */
    int *until;            /* per value: an operation that recomputes another one from it; with gaps */
    bool peaks_at_last;    /* the peak found last is in the last iteration of loops over layers */
    double from_limit_bytes, to_limit_bytes; /* limits for which all questions so far would have the same answers */
};

/* memory_limit.c: decisions by the limit; nothing else reads it */
bool sim_has_room(struct sim_assigner *a, double bytes);
double sim_remat_cost(struct sim_assigner *a,
                      double freed_bytes); /* XLA's: the limit divided by the freed bytes, an integer */

/* listed_values.c */
void sim_list_values(struct sim_assigner *a); /* is_array and values; what is windowed, deferred, waiting is known */
bool sim_is_gathered(const struct sim_assigner *a, int value);      /* the result of an all-gather */
bool sim_is_summed_behind(const struct sim_assigner *a, int value); /* over slices, when all layers are done */

/* compiled_buffers.c */
/* Collects all arrays under the order and finds their peak; as the scheduler estimates it, or as it is. */
enum sim_memory_view { SIM_AS_LAID_OUT, SIM_AS_ESTIMATED };
void sim_assign_buffers(struct sim_assigner *a, enum sim_memory_schedule schedule, enum sim_memory_view view,
                        struct sim_compiled_memory *out);

/* buffer_parts.c */
int sim_array_shape(const struct sim_assigner *a, int value);                            /* of its array */
bool sim_is_of_sorted_rows(const struct sim_assigner *a, const struct sim_shape *shape); /* MaxText's, of experts */
double sim_local_extent(const struct sim_assigner *a, int size, unsigned axes);
double sim_value_bytes(const struct sim_assigner *a, const struct sim_value *value);
double sim_stacked_bytes(const struct sim_assigner *a, int value); /* of one layer's, as add_value stacks it */
double sim_bytes_of_one_head(const struct sim_assigner *a, const struct sim_value *value); /* scores of one */
void sim_add_buffer(struct sim_assigner *a, int birth, int death, double first_bytes, double last_bytes,
                    enum model_category category);
void sim_add_arrays(struct sim_assigner *a, const struct sim_layer_arrays *arrays);
/* Buffers alive at the last collected peak, into the answer. */
void sim_list_alive(const struct sim_assigner *a, struct sim_compiled_memory *out);
int sim_outermost_loop(const struct sim_assigner *a, int loop);
static inline double sim_layers_of(const struct sim_assigner *a, int loop) /* trips of a loop */
{
    return (double)a->options->sizes[a->s->ops[loop].trips];
}
static inline bool sim_is_over_layers(const struct sim_assigner *a, int loop)
{
    return loop >= 0 && a->s->ops[loop].trips != MODEL_MICROBATCHES;
}

/* compiled_stacks.c */
bool sim_is_weight_cast(const struct sim_assigner *a, const struct sim_op *op);
bool sim_peels_first(const struct sim_assigner *a, int forward); /* the first iteration of the loop behind it */
bool sim_is_peeled(const struct sim_assigner *a, int loop);      /* such a loop behind */
/* A layer's input: the stack of all layers once more, for such an iteration. */
void sim_add_turned_stack(struct sim_assigner *a, int value, double bytes, enum model_category category);
/* One array per layer, from its operation in the forward loop to one in the backward loop, or outside: whole at once if
 * layers are scanned, else growing and shrinking by iteration. */
void sim_add_layer_stack(struct sim_assigner *a, int made_in, int made_at, int used_until, double bytes,
                         enum model_category category, const struct sim_recomputed *recomputed);
double sim_exponentials_bytes(const struct sim_assigner *a, const struct sim_op *op); /* of layers that are no loops */
void sim_add_stacks(struct sim_assigner *a); /* of residuals and weights, in addition to values */

/* compiled_gates.c */
int sim_gate_fusion(const struct sim_assigner *a, int value); /* that makes it, its last operation; or -1 */
/* True if the fusion that ends with an operation overwrites the value. */
bool sim_is_gate_operand(const struct sim_assigner *a, int value, int at);

/* softmax_gradients.c: the number of arrays that a value is, 2 for some gradients of softmaxes; and until when */
int sim_softmax_gradients(const struct sim_assigner *a, int v, int *death);

/* compiled_lookups.c */
bool sim_is_gathered_one_hot(const struct sim_assigner *a, const struct sim_value *value);
double sim_gathered_rows_bytes(const struct sim_assigner *a, const struct sim_op *gather, double bytes);
/* The lifetime of a second lookup's rows, and of their substitute next to the first lookup. */
void sim_move_beside_first(struct sim_assigner *a, int value, int *birth, int *death);
double sim_table_gradient_bytes(const struct sim_assigner *a, int value,
                                double bytes);     /* bytes: of the whole table's */
void sim_add_table_copies(struct sim_assigner *a); /* in the layout that they are not given in */

/* compiled_logits.c */
bool sim_comes_of_loss(const struct sim_assigner *a, int value); /* the logits' gradient, or a cast of it */
bool *sim_gradients_of_products(const struct sim_assigner *a);   /* per value: a gradient of logits that is no array */
int sim_logits_weight_gradient(const struct sim_assigner *a, int logits_gradient); /* a value; -1: none */
bool sim_are_few_logits(const struct sim_assigner *a, int value);
int sim_last_read(const struct sim_assigner *a, int value); /* the last operation that reads it, or such a gradient */

/* compiled_blocks.c */
double sim_saved_inputs(const struct sim_assigner *a, int loop); /* of the layers of a loop over them */
void sim_add_blocks(
    struct sim_assigner *a); /* buffers of a block of layers in addition to its one layer in the program */

/* memory_schedules.c */
bool *sim_weight_gradient_operands(struct base_arena *arena, const struct sim_sharded *s, const bool *windowed);
/* Per value: an operand of a weight gradient of layers that are no loops, which a depth-first order leaves to the end.
 */
bool *sim_deferred_operands(struct sim_assigner *a);
/* Until when a windowed product in the body of a loop over scanned layers may come: its end or, where gathers are
 * started early, the next gather of activations, whose time it fills (a dump of T5X for v5e by libtpu 0.0.42.1). */
int sim_window_until(const struct sim_assigner *a, int loop, int product);
/* The last operation before which the gradient of the logits, last read at an operation of its own, has to stand. */
int sim_logits_gradient_until(const struct sim_assigner *a, int value, int last_use);
/* Until when a windowed product waits that reads the gradient of the logits; end: if it does to the last. */
int sim_logits_window_until(const struct sim_assigner *a, int value, int end);
/* Until when the gradients of a stack's weights wait for their updates. */
int sim_gradient_stack_until(const struct sim_assigner *a, int backward);

/* loop_remat.c */
/* The same to the bodies of loops over layers. */
void sim_rematerialize_in_loops(struct sim_assigner *a, struct sim_compiled_memory *out);

/* peak_priority.c */
/* XLA's rematerialization in unscanned layers, until the peak is below the limit or no candidate helps. */
void sim_rematerialize(struct sim_assigner *a, struct sim_compiled_memory *out);

/* compiled_heap.c: bytes of the heap that holds all arrays collected last, with its holes; so many are alive at once */
double sim_heap_bytes(struct sim_assigner *a, double alive_bytes);

#endif
