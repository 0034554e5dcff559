/* The cost of a sharded program as data: kernels, collectives and memory by lifetime; and their prices at a plan's
 * sizes. */
#ifndef SIM_COST_H
#define SIM_COST_H

#include "sim/cost/eager_kernels.h"
#include "sim/partition/partition.h"
#include "sim/plan/plan.h"

/* ---- prediction (predict.c) ---- */

/* Position in a decoding program: in the loop of decode steps, in its condition, or outside. */
enum sim_region { SIM_OUTSIDE, SIM_LOOP_BODY, SIM_LOOP_CONDITION, SIM_REGION_COUNT };
const char *sim_region_name(enum sim_region region);

struct sim_collective_row {
    enum sim_collective kind;
    enum sim_region where; /* counts of the loop are those of one decode step */
    unsigned axes;         /* set of mesh axes */
    enum model_dtype dtype;
    int64_t count, bytes; /* bytes per step, of one device's operand */
    double launch_count;  /* launches of these: fewer where the compiler combines them */
    double time_s;        /* of all of them */
    const char *first_op; /* name of the first operation that needs it */
    const char **ops;     /* all of them */
    int op_count, op_capacity;
};
/* Rows that differ in kind, mesh axes, dtype or bytes. */
struct sim_collective_list {
    struct sim_collective_row *rows;
    int count, capacity;
};
/* Finds the row of that description, or appends one. The pointer is valid until the next call. */
struct sim_collective_row *sim_collective_row_of(struct base_arena *arena, struct sim_collective_list *list,
                                                 const struct sim_collective_row *like);

enum sim_bound { SIM_BY_COMPUTE, SIM_BY_MEMORY, SIM_BY_COMMUNICATION, SIM_BY_LATENCY, SIM_BOUND_COUNT };
static inline double sim_sum_of_bounds(const double parts[SIM_BOUND_COUNT])
{
    double sum = 0;
    for (int i = 0; i < SIM_BOUND_COUNT; i++) sum += parts[i];
    return sum;
}

/* One kernel or collective of the step; count times in all. Both interpreters return a list of these. */
struct sim_entry {
    const char *name;
    enum model_phase phase;
    enum sim_bound bound;
    int64_t count;
    double time_s, flop, bytes; /* each, on one device */
    unsigned axes;              /* of a predicted collective; else 0 */
    enum sim_collective kind;   /* of one, too */
};
struct sim_timeline {
    struct sim_entry *entries;
    int count;
};

/* Causal scores computed by the busiest device, as a multiple of half of them. Sequences split over devices in order
 * leave the last device with nearly all of its scores visible. */
double sim_causal_unevenness(const struct sim_plan *plan);
/* Iterations of a loop differ by a constant: the bytes that each leaves behind or frees. The end of the last iteration
 * has this much more than the end of the first, and so has its peak if the growth is positive. */
static inline double sim_growth_of_loop(double at_begin, double after_first, double trips)
{
    return (trips - 1) * (after_first - at_begin);
}

struct sim_memory {
    int64_t capacity_bytes, peak_bytes, parameter_bytes, optimizer_state_bytes, gradient_bytes, activation_bytes,
        temporary_bytes, reserved_bytes;
    int64_t cache_bytes;                  /* inference: the KV cache of the decoded tokens */
    int64_t argument_bytes, output_bytes; /* bytes of the compiled step, as XLA's memory analysis counts them */
    bool rematerializes; /* compiled memory: the compiler recomputes arrays, or changes a layout, to fit */
    char peak_at[160];
    /* Host memory for one device: tensors of one microbatch that a remat policy offloads; the device's share of the
     * host, 0: unknown. */
    int64_t host_bytes, host_capacity_bytes;
    int64_t rematerialized_layer_count; /* layers that the compiler recomputes so that the plan fits */
};

/* Bytes of one device by category, from one moment of the step to the next. A compiler's fragmentation counts as
 * temporary. */
enum { SIM_MOST_LOOPS = 8 }; /* nested loops */
struct sim_memory_point {
    double at_s;      /* from the start of the step */
    const char *name; /* of the operation; NULL: between operations */
    enum model_phase phase;
    double bytes[MODEL_CATEGORY_COUNT];
    int event, iterations[SIM_MOST_LOOPS]; /* of the sharded program; of its loops there, the outermost first */
};
/* The maximum of each interval, at most SIM_MOST_MEMORY_POINTS. None where the step is too long to walk (a million loop
 * iterations), or runs in an arena with a static layout (local topologies). */
enum { SIM_MOST_MEMORY_POINTS = 480 };
struct sim_memory_curve {
    struct sim_memory_point *points;
    int count;
    double end_s; /* of the step, by the points' clock */
};
/* The buffers at one time of the step. In: at_s, and the stage of a pipeline (-1: the one whose memory is reported). */
struct sim_moment {
    double at_s;
    int stage;
    double bytes[MODEL_CATEGORY_COUNT], in_flight; /* microbatches of the stage */
    const char *name;                              /* of the operation */
    struct sim_peak_buffers buffers;               /* their sum is that of bytes and what is reserved */
    bool is_known; /* out; false: the memory of the step is not known over time, or does not change */
};

/* Optional parts of an answer. NULL members are not made; a sweep makes none. */
struct sim_detail {
    bool lists_collectives;
    struct sim_collective_list collectives; /* in the arena */
    struct sim_timeline *timeline;
    struct sim_memory_curve *curve;
    struct sim_peak_buffers *peak;
    struct sim_moment *moment; /* with a curve, of a pipeline with passes */
    struct sim_spans *spans;   /* with a timeline: the spans of its entries */
    struct sim_passes *passes; /* count 0: there is no pipeline */
    struct base_arena *arena;  /* of all of it */
};

enum {
    SIM_MOST_RECEIVED = 4,
    SIM_MOST_FACTORS = 256,
    SIM_MOST_SHAPES = 1024,
    SIM_MOST_DISTINCT = 4096 /* kernels, contractions, collectives of a program */
};

/* ---- the cost program (cost_program.c): each distinct operation once, without those that no price needs ---- */

/* A size, sharded by mesh axes. */
struct sim_factor {
    unsigned char size, axes;
};
/* A product of factors; `of` has their indices in the list. */
struct sim_factors {
    unsigned char count, of[SIM_MOST_LABELS + 1];
};

struct sim_price_shape {
    struct sim_factors elements;
    double element_bytes;
    bool is_of_logits; /* of these, one tile is alive if the loss is computed in tiles */
};
struct sim_price_dot {
    struct sim_factors batch, rows, columns, contracted;
    enum model_dtype dtype; /* its units' */
    bool attention, causal; /* inside a flash attention kernel; one that skips later keys */
    bool weight_gradient;
};
/* An attention kernel computes blocks of scores and skips blocks that are masked out. */
enum sim_attention_part { SIM_NO_ATTENTION, SIM_ATTENTION_FORWARD, SIM_ATTENTION_BACKWARD };
struct sim_price_kernel {
    int first_shape, shape_count, first_dot, dot_count; /* into touched: reads, then writes; into dots */
    int read_count, write_count;                        /* of these shapes */
    int cast_count;                                     /* of the last shapes: cast before the products begin */
    enum sim_laid_out {
        SIM_AS_THEY_ARE,
        SIM_READS_LAID_OUT,
        SIM_WRITES_LAID_OUT
    } laid_out; /* by kernels of their own */
    enum sim_attention_part attention;
    bool causal;
    struct model_window window; /* of its mask */
    unsigned char queries;      /* enum model_size */
    struct sim_factors fours; /* a softmax's sequences times heads, if its kernel needs a multiple of four; else none */
    bool backward;            /* such a kernel of the backward pass */
    enum sim_kernel_traffic { SIM_STREAMS, SIM_OVER_NORMS, SIM_OVER_PARAMETERS } traffic; /* PyTorch's own kernels */
    struct sim_torch_chain chain;
    enum sim_expert_rows rows; /* expert_copies.c */
    struct sim_windowed_einsum {
        unsigned char axes; /* of its ring; 0: it is no windowed einsum */
        unsigned char element_bytes;
        struct sim_factors rows;   /* shapes that decide whether it is windowed (sim_window) */
        unsigned char again_count; /* shapes that each iteration reads */
        short again[2];
        enum { SIM_SPLITS_ROWS, SIM_SPLITS_COLUMNS, SIM_SPLITS_CONTRACTED, SIM_SPLITS_BATCH } split;
    } einsum;
};
struct sim_price_collective {
    enum sim_collective kind;
    unsigned axes;
    int shape;
    enum model_dtype dtype;
    bool gradient;                  /* needs no other one's result */
    bool updated;                   /* gathers updated parameters */
    bool sums_like_another;         /* scatters a sum of a shape that its computation has scattered before */
    bool may_use_ring;              /* while a product is computed of it, */
    struct sim_factors window_rows; /* which has these rows */
};

/* One kernel or collective in program order, under the name of its operation (which a pass may have removed). */
struct sim_price_step {
    const char *name;
    unsigned short what, repeats;         /* indices: below SIM_MOST_DISTINCT */
    unsigned char phase, region, section; /* enum model_phase, enum sim_region, enum model_section */
    bool communicates;
};
/* The sequence of events under asynchronous collectives: the same steps, with loops as brackets. */
enum sim_schedule_event_kind {
    SIM_EVENT_WORK,
    SIM_EVENT_START,
    SIM_EVENT_WAIT,
    SIM_EVENT_SIDE_STREAM, /* a collective on a stream of its own */
    SIM_EVENT_LOOP,
    SIM_EVENT_END
};
struct sim_schedule_event {
    enum sim_schedule_event_kind kind;
    int what; /* kernel; collective; number of the start, in their order; enum model_size; - */
};
/* A contraction that the model needs, whole. */
struct sim_price_need {
    int product, repeats;
    bool causal; /* in an attention kernel under a causal mask */
};

/* An allocation or free (how many of a shape), or the begin or end of a loop (bracket). */
struct sim_price_event {
    short shape, step;    /* step: index of the next step in the list; of may_peak and brackets */
    unsigned short named; /* only these have it: the operation's index in event_names; an operation has at most three */
    signed char count, bracket;
    unsigned char category, phase;
    unsigned char
        trips;     /* enum model_size: of the bracket, or of the innermost loop around the operation; MODEL_ONE: none */
    bool may_peak; /* memory may peak here; all allocations and frees of the stretch before are counted */
};

struct sim_cost_program {
    struct sim_recent_prices *recent;  /* of all programs of a session */
    struct sim_unit_costs *unit_costs; /* room for one price at a time, shared by all programs of a session */
    struct sim_factor *factors;        /* each that the program has, once */
    int factor_count;                  /* more than SIM_MOST_FACTORS: the others did not fit */
    struct sim_price_shape *shapes;
    struct sim_price_dot *dots;
    struct sim_price_kernel *kernels;
    struct sim_price_collective *collectives;
    struct sim_factors *repeats, *products;
    int *touched, *kernel_dots;
    struct sim_price_step *steps;
    struct sim_schedule_event *schedule_events;
    struct sim_price_need *needs;
    struct sim_price_event *events;
    const char **event_names;
    int *event_places; /* by name: the event of the sharded program */
    int event_name_count;
    int shape_count, dot_count, kernel_count, collective_count, repeat_count, product_count, touched_count,
        kernel_dot_count, step_count, schedule_event_count, need_count, event_count;
    int *offloaded_shapes, *offloaded_repeats,
        offloaded_count; /* tensors offloaded to the host until gradients need them */
    int *persistent_shapes, persistent_count, matrix_count;
    struct sim_shape *matrices; /* matrices that the optimizer orthogonalises */
    unsigned char *persistent_categories;
    struct sim_price_saved {
        short shape;
        unsigned char role;
    } * saved; /* tensors kept for the backward pass, by the roles that a compiler may rematerialize */
    int saved_count;
    int backward_event, update_event;     /* the first event of the backward pass, and the first behind it */
    short received[2][SIM_MOST_RECEIVED]; /* shapes received from other stages, forward and backward */
    int received_count[2];
    int result_shape; /* result of the last operation: a forward pass's logits; -1: none */
};
/* Options of a cost program. dtype fp8 or int8: operands that meet a weight are contracted in it, after separate cast
 * kernels where set. flash: groups with contractions are attention kernels. */
struct sim_price_choices {
    enum model_dtype dtype;
    enum model_optimizer optimizer; /* the matrices that it orthogonalises */
    bool casts_once /* activations, before the first product that reads them */, casts_apart,
        casts_before /* whether the product waits for them */, flash, softmax_in_fours, row_softmax, windows_products,
        scanned /* layers are loops of the compiled program */, aten /* optimizers are PyTorch's own kernels */,
        aten_norms, gelu, wide_experts, wide_scores;
    struct sim_torch_chain torch_chains[SIM_MOST_TORCH_KERNELS];
};
/* torch_kernels.c: PyTorch's kernels for the operation that names a kernel: their traffic, and the module that has
 * them. chains[SIM_MOST_TORCH_KERNELS] were zero. BASE_INTERNAL: the table is damaged. */
void sim_take_torch_kernels(const struct sim_price_choices *choices, const struct model_op *op,
                            struct sim_price_kernel *out);
enum base_status sim_torch_kernels_read(enum sim_torch_style style, struct sim_torch_chain *chains,
                                        struct base_error *error);
/* scratch is only needed until it returns. */
void sim_cost_program_make(struct base_arena *arena, struct base_arena *scratch, const struct sim_sharded *sharded,
                           const struct sim_price_choices *choices, struct sim_cost_program *out);
/* cost_check.c: names an invariant that a cost program breaks; NULL if all hold */
const char *sim_cost_check(const struct sim_cost_program *list);
void sim_cost_program_keep(struct base_arena *arena,
                           struct sim_cost_program *out); /* copies its lists (cost_program_kept.c) */

/* recent_prices.c: inputs of a price. A new entry evicts the old one in its slot. The next question may reuse addresses
 * of placements, so each question starts empty. */
struct sim_price_question {
    const void *on; /* a collective's placement; of a product NULL, since all have the same tiles */
    short what;     /* kind of a collective, behind them those of small ones, or SIM_PRICE_OF_PRODUCT */
    short count;    /* numbers in use of the following; the others are 0 */
    int unused;
    double of[7]; /* a collective's axes and bytes; a product's dimensions and the constants it is priced with */
};
enum { SIM_PRICE_OF_PRODUCT = 2 * SIM_COLLECTIVE_COUNT };
/* question: the current question's number */
struct sim_recent_prices *sim_recent_prices_new(struct base_arena *arena, const int64_t *question);
/* The answer's slot: filled, or to be filled by the caller. */
double *sim_recent_price(struct sim_recent_prices *recent, const struct sim_price_question *question, bool *known);

/* ---- one pricing: a plan's sizes put into a list (cost_context.c), its time (distinct_prices.c, pricing.c) and its
 * memory (price_memory.c) ---- */

struct sim_category_bytes {
    double total_bytes, bytes[MODEL_CATEGORY_COUNT];
};
/* The maximum of live bytes, and where it is. */
struct sim_phase_peak {
    struct sim_category_bytes holding;
    const char *name; /* of the operation there; NULL: between steps */
    enum model_phase phase;
    int trips; /* enum model_size of the innermost loop around it; MODEL_ONE: none */
};
/* No bytes yet; its operation is given (-1: none). */
struct sim_phase_peak sim_peak_at(const struct sim_sharded *sharded, int op);

/* When sharded weights are gathered, and their gradients scattered. */
enum sim_weight_gathers {
    SIM_GATHERED_EACH_TIME, /* where the program has them */
    SIM_GATHERED_ONCE,      /* in the first microbatch, scattered in the last one */
    SIM_GATHERED_BEFORE     /* in another microbatch */
};
struct sim_cost_context {
    const struct sim_cost_program *list;
    const struct sim_plan *plan;
    const struct sim_placement *placement;
    enum sim_weight_gathers weight_gathers;
    int64_t sizes[MODEL_SIZE_COUNT];
    unsigned dropped_roles;         /* of the program: roles rematerialized for lack of memory */
    bool by_peak_priority;          /* compiled memory: the compiler chooses the tensors to rematerialize */
    double recomputed_frac;         /* then: the share of saved layer tensors that is recomputed */
    double holes_bytes;             /* then: bytes of the compiled heap after recomputation */
    double local[SIM_MOST_FACTORS]; /* the list's factors */
    double reached_frac;            /* of a device's experts, those that the tokens of a decode step choose */
    double bytes[SIM_MOST_SHAPES];  /* of each shape of the list */
    double totals_s[SIM_BOUND_COUNT], exposed_s /* of collectives */;
    double needed_flop, masked_flop; /* of the model; of these, in blocks that kernels skip behind the causal mask */
    double loop_s[SIM_BOUND_COUNT];  /* of these, in the loop of decode steps */
    struct sim_phase_peak peak;      /* of transient buffers */
    double work_flop, work_bytes;    /* of one device's kernels; 0 without detail */
};
/* BASE_INPUT: byte counts would overflow. */
enum base_status sim_cost_context_begin(struct sim_cost_context *p, const struct sim_plan *plan,
                                        const struct sim_cost_program *list, struct base_error *error);
enum base_status sim_cost_context_refuse(const struct sim_cost_context *p, struct base_error *error); /* says that */
/* compiled_collectives.c: the kind that the compiler emits, and its bytes on a device. */
struct sim_lowered_collective {
    enum sim_collective kind;
    enum model_dtype dtype;
    double bytes;
    int permutes; /* of its windowed einsum, each of a device's chunk; 0: none */
    double permute_bytes;
};
bool sim_is_square(const struct sim_placement *placement, unsigned axes); /* of sim_window */
/* of rows of a product, over these axes */
double sim_window_trips_of(const struct sim_cost_context *p, unsigned axes, const struct sim_factors *rows,
                           double element_bytes);
struct sim_lowered_collective sim_lowered_as_compiled(const struct sim_cost_context *p,
                                                      const struct sim_price_collective *collective);
/* True if it moves shards of weights or of their gradients. */
bool sim_is_of_sharded_weights(const struct sim_cost_context *p, const struct sim_price_collective *collective);
void sim_price_time(struct sim_cost_context *p, struct sim_detail *detail);
void sim_price_memory(struct sim_cost_context *p); /* price_memory.c: the peak of a walk through the events */
/* The peak of an executor's arena, in which the batch persists between steps. */
void sim_price_arena(struct sim_cost_context *p, int64_t arena_bytes, const int64_t bytes[MODEL_CATEGORY_COUNT],
                     double persistent_bytes[MODEL_CATEGORY_COUNT]);
double sim_product_of(const struct sim_cost_context *p, const struct sim_factors *factors);
bool sim_has_size(const struct sim_cost_context *p, const struct sim_factors *factors, enum model_size size);
/* The bytes of a shape that decode steps read: of experts' weights, those of the experts that their tokens reach. */
double sim_decoded_bytes(const struct sim_cost_context *p, int shape);
double sim_standing_bytes(const struct sim_cost_context *p, int shape); /* transient bytes of a shape */
/* price_events.c: memory events; steps_before: per operation, the number of list steps before it */
void sim_list_events(struct base_arena *scratch, const struct sim_sharded *sharded, const int *steps_before,
                     struct sim_cost_program *out);
/* schedule_events.c: empty if no collective is asynchronous. sent_as: per operation, its distinct collective or -1;
 * kernel_of: per kernel, the distinct one */
void sim_list_schedule_events(struct base_arena *scratch, const struct sim_sharded *sharded, const int *sent_as,
                              const int *kernel_of, struct sim_cost_program *out);
double sim_orthogonalised_s(const struct sim_cost_context *p); /* orthogonalised.c: of the matrices, on this device */
/* offload.c; repeats_of_loop: per operation that begins a loop */
void sim_list_offloaded(struct base_arena *scratch, const struct sim_sharded *sharded, const int *repeats_of_loop,
                        struct sim_cost_program *out);
double sim_offloaded_bytes(const struct sim_cost_context *p);        /* of all microbatches, to the host's memory */
double sim_waited_for_transfers_s(const struct sim_cost_context *p); /* of the step */
/* Peaks of a program with a loop over microbatches: transient bytes during one forward pass, during one backward pass,
 * and after the loop; and bytes kept from forward to backward. */
struct sim_phase_memory {
    struct sim_category_bytes saved;
    struct sim_phase_peak forward, backward, update;
};
void sim_price_phase_memory(struct sim_cost_context *p, struct sim_phase_memory *out);
/* Time of all steps of each phase, run one after the other. */
void sim_price_phases(const struct sim_cost_context *p, double phases_s[MODEL_OPTIMIZER + 1]);
/* Unit costs: the price of each distinct item at these sizes. */
struct sim_unit_costs {
    struct sim_priced_kernel {
        double busy_s, flop, bytes, launches;
        double host_s; /* the host's time to launch it */
        enum sim_bound bound;
    } kernels[SIM_MOST_DISTINCT];
    struct sim_lowered_collective
        sent[SIM_MOST_DISTINCT]; /* of each collective: after combining, as priced and reported */
    double collectives_s[SIM_MOST_DISTINCT], launched_frac[SIM_MOST_DISTINCT], together_bytes[SIM_MOST_DISTINCT],
        dots_flop[SIM_MOST_DISTINCT], dots_rated_flop[SIM_MOST_DISTINCT], repeats[SIM_MOST_DISTINCT];
    double each[SIM_MOST_DISTINCT]; /* scratch numbers per kernel, product and collective */
    struct sim_started {
        int what; /* collective */
        double end_s;
    } started[SIM_MOST_DISTINCT]; /* as they start (exposure.c) */
};
void sim_price_kernels(const struct sim_cost_context *p, struct sim_unit_costs *prices);
/* As sim_price_kernels, for a plan with the same program, mesh and options as `before`. Kernels with unchanged sizes
 * keep their price, such as those of a microbatch when only their number differs. */
void sim_price_kernels_after(const struct sim_cost_context *p, const struct sim_cost_context *before,
                             struct sim_unit_costs *prices);
/* The step's time from the unit costs. */
void sim_price_time_of(struct sim_cost_context *p, struct sim_unit_costs *prices, struct sim_detail *detail);
/* Times of the phases, as sim_price_time_of computed them last. */
void sim_price_phases_of(const struct sim_cost_context *p, const struct sim_unit_costs *prices,
                         double phases_s[MODEL_OPTIMIZER + 1]);

/* softmax_kernels.c: extra kernels of a softmax where sequences times heads on a device is no multiple of four */
struct sim_softmax_split {
    double launches, traffic /* times that of one kernel */;
};
struct sim_softmax_split sim_softmax_split(const struct sim_cost_context *p, const struct sim_price_kernel *kernel);
/* attention_kernels.c: whether a kernel is attention, its share of scores, and its share of the device's rate. 0: no
 * source, so that it runs as plain products do. */
void sim_attention_of_kernel(const struct sim_sharded *sharded, const struct sim_kernel *kernel,
                             struct sim_price_kernel *out);
double sim_attention_frac(const struct sim_cost_context *p, const struct sim_price_kernel *kernel);
double sim_attention_rate_frac(const struct sim_cost_context *p, enum sim_attention_part part);
double sim_attention_product_flop(const struct sim_profile *profile, const struct sim_product *of);

/* Adds a row if it has bytes. arena: the detail's. */
void sim_add_peak_buffer(struct base_arena *arena, struct sim_peak_buffers *out, const struct sim_peak_buffer *row);
/* peak_buffers.c: buffers alive at the peak of a layout, or (NULL) in program order, if the detail asks for them. When
 * closed, the rows add up. in_flight: microbatches of a pipeline stage; the rows hold one. */
void sim_list_peak(const struct sim_cost_context *p, const struct sim_sharded *sharded,
                   const struct sim_compiled_memory *layout, struct sim_detail *detail);
void sim_close_peak(const struct sim_plan *plan, const struct sim_memory *memory, double in_flight,
                    struct base_arena *arena, struct sim_peak_buffers *out);
/* Parameters, state, accumulators and the batch. */
void sim_list_lasting(const struct sim_cost_context *p, const struct sim_sharded *sharded, struct base_arena *arena,
                      struct sim_peak_buffers *out);
/* Buffers alive at a point of the curve, without those of sim_list_lasting. */
void sim_list_moment(const struct sim_cost_context *p, const struct sim_sharded *sharded,
                     const struct sim_memory_point *point, struct base_arena *arena, struct sim_peak_buffers *out);
/* Buffers of a stage's chunk: at the peak of a pass, or (not runs) those that a microbatch in flight has saved. */
void sim_list_pass(const struct sim_cost_context *p, const struct sim_sharded *sharded, enum model_phase phase,
                   bool runs, struct base_arena *arena, struct sim_peak_buffers *out);
/* memory_curve.c: memory over the step. Walks every iteration of every loop. */
void sim_price_curve(const struct sim_cost_context *p, struct base_arena *arena, struct sim_memory_curve *out);
void sim_curve_mix(struct sim_memory_curve *a, const struct sim_memory_curve *b, double share); /* a + share (b - a) */
/* Time of one execution of each step of the list. */
void sim_price_steps(const struct sim_cost_context *p, double *steps_s);
/* One kernel alone, its starts included. */
double sim_alone_s(const struct sim_cost_context *p, const struct sim_priced_kernel *kernel);
/* Executions per step of each item. Combining of collectives, and their prices, depend on them. */
void sim_price_counts(const struct sim_cost_context *p, struct sim_unit_costs *prices);

/* exposure.c: seconds of exposed collectives; per kernel and collective of the list, the time of one execution */
double sim_exposed_s(const struct sim_cost_context *p, const double *kernels_s, struct sim_unit_costs *prices);
/* step_signature.c: argument_bytes and output_bytes */
void sim_price_signature(const struct sim_cost_context *p, struct sim_memory *out);
/* The same of a train step as XLA:TPU lays it out; always_bytes: persistent buffers, in tiles. */
void sim_compiled_signature(const struct sim_cost_context *p, const double always_bytes[MODEL_CATEGORY_COUNT],
                            struct sim_memory *out);

/* ---- totals of a plan (predict.c), before formatting ---- */

struct sim_priced {
    double time_s[SIM_BOUND_COUNT], communication_s /* overlapped time included */;
    double needed_flop, masked_flop;
    double work_flop, work_bytes; /* as of struct sim_cost_context */
    double peak_bytes, persistent_bytes[MODEL_CATEGORY_COUNT], categories_bytes[MODEL_CATEGORY_COUNT];
    double host_bytes; /* offloaded bytes of one microbatch */
    double held_bytes; /* bytes held beyond peak_bytes, where peak_bytes counts allocations */
};
/* Adds persistent buffers to categories. */
void sim_price_persistent(const struct sim_cost_context *p, double categories_bytes[MODEL_CATEGORY_COUNT]);
/* price_memory.c. Device memory from p->peak and out->persistent_bytes. BASE_INPUT: byte counts would overflow. */
enum base_status sim_price_device(const struct sim_cost_context *p, struct sim_priced *out, struct base_error *error);

extern const double sim_largest_bytes; /* bytes from this on are refused: answers are whole numbers */

#include "sim/cost/spans.h"
#include "sim/cost/torch_allocations.h"

#endif
