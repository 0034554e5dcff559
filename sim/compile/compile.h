/* The compiler's effect on a sharded program: passes that rewrite it, fusion into kernels, starts and waits of
 * collectives, lifetimes of values, and their places in a device's arena. */
#ifndef SIM_COMPILE_H
#define SIM_COMPILE_H

#include "sim/compile/passes.csv.h"
#include "sim/partition/partition.h"

/* ---- passes ---- */

/* enum sim_pass is made of passes.csv, in the order in which passes run (passes.c). */
typedef uint64_t sim_pass_set;
#define SIM_PASS_BIT(pass) ((sim_pass_set)1 << (pass))
const char *sim_pass_name(enum sim_pass pass);
/* latency_hiding.c: the collectives that may be on their way while others compute, as bits of enum sim_collective */
unsigned sim_asynchronous_kinds(sim_pass_set passes);
/* and those that collective_matmul makes loops of */
enum { sim_windowed_kinds = 1u << SIM_ALL_GATHER | 1u << SIM_REDUCE_SCATTER };
/* passes.c: the names of those that software may have or not; the others run for every compiler, or for the executor */
int sim_pass_choices(const char *names[SIM_PASS_COUNT]);
int sim_pass_named(const char *name, size_t length); /* one of those; -1: none is called so */

/* A TPU's vector register, and its memory tiles: 8 rows of 128 words of four bytes (jax-ml/scaling-book tpus.md). */
enum { SIM_LANES = 128, SIM_SUBLANES = 8, SIM_TILE_ROW_BYTES = 4 * SIM_LANES };

/* Parameters of passes (pass_settings.csv), the same for all software. */
struct sim_settings {
    unsigned rematerialized_roles,
        rematerialized_roles_in_loop; /* bits of enum model_role: tensors that may be rematerialized; those inside the
                                         loop over microbatches */
    double collective_latency, other_latency, dot_cost, kernel_cost, least_cost; /* of the scheduler, in its units */
    double aimed_frac; /* share of the device's memory that rematerialization and the memory scheduler aim at */
    double roles_frac; /* of a peak, the most that recomputing scores and MLPs alone is relied on to save */
    double least_summed_gather_devices, most_summed_gather_bytes; /* gathers that become sums of mostly zeros */
    double least_ring, most_ring;                                 /* of products that run as loops over pieces */
    double most_pieces;                                           /* of a gather or scatter in a windowed einsum */
    double most_combined_bytes;                                   /* of sums that one all-reduce joins */
    double spare_heap_bytes;  /* of the device's memory, the least beside a heap that is not packed again */
    double packed_holes_frac; /* of a packed heap of layers that are no loops */
};
extern const struct sim_settings sim_pass_settings; /* passes.c */

/* The compiler's target. */
enum sim_target { SIM_FOR_DEVICE, SIM_FOR_EXECUTOR };
struct sim_compiler {
    enum sim_target target;
    sim_pass_set passes;
    model_trait_set traits;
    bool quantizes;     /* products of layers are in small floats */
    int weight_copies;  /* of each layer's weight in small floats, beside the weight */
    bool small_weights; /* the weight is one, too */
    bool is_scanned;    /* residuals of a loop over layers are stacked arrays */
    bool checkpoints;   /* a layer is one function to jax, which its remat policy wraps */
    struct sim_settings settings;
};
/* passes.c: from the partitioner's program to kernels and lifetimes, or to the executor's program. */
void sim_compile(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded);

/* windowed_products.c: a windowed einsum, a product in a loop over chunks of one dimension, which overlaps with the
 * transfer of the other chunks (pass window_products). */
struct sim_product_window {
    unsigned axes; /* of the ring; 0: it is no loop */
    int label;     /* of the operation: the split label */
    int values[2]; /* read in every iteration: the other operand, or the accumulator (read and written) */
    int value_count;
    unsigned row_labels;    /* those that the weight lacks */
    enum model_dtype dtype; /* of the transferred chunks */
    bool sums_like_another; /* it scatters a sum of a shape that its computation has scattered before */
};
/* Per operation. Only products with an operand or a result of weights are such loops. of_moved: per collective the
 * product that is computed as it goes round, or -1. scanned: layers are loops of the compiled program. */
struct sim_product_window *sim_product_windows(struct base_arena *arena, const struct sim_sharded *sharded,
                                               bool scanned, int *of_moved);
/* Inputs of the decision for a loop. */
struct sim_window {
    double ring, rows, element_bytes; /* devices; rows of a device's product; bytes of a transferred element */
    double window_rows;               /* topo_chip.xla_window_rows */
    bool is_square;                   /* four devices that are two whole dimensions of the slice */
};
/* Iterations of the loop: each sends a chunk in both directions. 1: no loop, for few or many devices, or when
 * computation is shorter than a chunk's transfer. */
double sim_window_trips(const struct sim_settings *settings, const struct sim_window *window);
/* Number of the loop's permutes, each of one device's chunk: in both directions, one more than the ring has. A loop of
 * two iterations is unrolled: a gather's last transfer is dropped, and the initial zeros of sums are sent once for all
 * sums of a shape in a computation. */
enum sim_rounds { SIM_ROUNDS_GATHER, SIM_ROUNDS_SUM, SIM_ROUNDS_SUM_LIKE_ANOTHER };
int sim_window_permutes(int ring, enum sim_rounds rounds);

/* ---- training software (software.c) ---- */

/* Names of passes, or of traits, with spaces between them, as tables have them. */
enum base_status sim_pass_set_read(const char *table, const char *text, sim_pass_set *out, struct base_error *error);
enum base_status sim_trait_set_read(const char *table, const char *text, model_trait_set *out,
                                    struct base_error *error);

struct sim_software {
    sim_pass_set passes;
    model_trait_set traits;
    double combine_bytes, memory_frac; /* size limit of combined collectives, and the allocator's share of a device's
                                          memory; -1: not in the row */
    double attention_block, attention_products; /* of its attention kernel (attention.csv); -1: the same */
    const char *date;                           /* of its compiler, "2023-01" */
    const char *source, *attention_source;
};
/* The newest row of the software for the platform, or for the chip ("tpu:v6e"), that is not after the date ("2023-10");
 * NULL: the newest. BASE_INPUT names the software modelled on the platform ("tpu", "gpu", "cpu", "local"). */
enum base_status sim_software_find(const char *platform, const char *chip, const char *software, const char *date,
                                   struct sim_software *out, struct base_error *error);
/* Names of the software that is modelled on the platform, each once, at most limit of them: how many. */
int sim_software_names(const char *platform, const char **out, int limit);

/* ---- compilers (releases.c) ---- */

/* A release of XLA:TPU. */
struct sim_release {
    const char *since, *libtpu; /* of which year and month; the version of the library that holds it, or "" */
    bool lays_out;              /* sim_compiled_memory is its memory; else liveness in program order is */
    sim_pass_set passes, gone;  /* passes in addition to the software's date, and passes removed from it */
};
/* The last release that a text denotes: "latest" (or "today"), a version of libtpu, or a date on which it was the
 * newest; since NULL: none. */
enum sim_release_text { SIM_RELEASE_BY_LIBTPU /* or "latest" */, SIM_RELEASE_BY_DATE };
enum base_status sim_release_find(const char *text, enum sim_release_text kind, struct sim_release *out,
                                  struct base_error *error);

/* ---- the executor's view (executable_kernels.c) ---- */

/* Keys of latent attention, of two parts, or the gradient of either: a kernel of its own, too. */
static inline bool sim_joins_keys(const struct model_op *op)
{
    return op->function == MODEL_JOIN_KEYS || op->function == MODEL_JOIN_KEYS_GRAD ||
           op->function == MODEL_JOIN_KEYS_SUM;
}
bool sim_routes(const struct model_op *op);                 /* chooses experts for tokens: a kernel of its own */
int sim_root(const struct sim_sharded *sharded, int value); /* the value that owns its memory */
/* True for a collective whose whole sum every device gets: it sums in place, and its operand is no longer read once it
 * has begun. A reduce-scatter reads its operand to the end. */
bool sim_sums_in_place(const struct sim_sharded *sharded, const struct sim_op *op);
bool sim_is_one_hot(const struct sim_sharded *sharded, int value);             /* one that is never made */
bool sim_looks_up(const struct sim_sharded *sharded, const struct sim_op *op); /* a contraction with such a one */
/* Weights in int8 times their scales that are never made: contractions take both. The value is one, or such a one's
 * alias's root. */
bool sim_is_dequantized(const struct sim_sharded *sharded, int value);
/* The letters of a contraction's operand along which the scales of its weight vary; none if it is no such weight.
 * letters: room for MODEL_MAX_RANK + 1. */
void sim_scaled_letters(const struct sim_sharded *sharded, const struct sim_op *op, int input, char *letters);
const char *
sim_space(const struct model_op *op); /* the labels that an operation goes over: those of its largest operand */
bool sim_is_row_operation(const struct model_op *op); /* elementwise, or a reduction along the last label alone */
bool sim_needs_whole_rows(const struct model_op *op); /* and no pieces of them */
sim_order sim_label_axes(const struct sim_sharded *sharded, const struct sim_op *op,
                         char letter); /* mesh axes over a label */
int sim_label_size(const struct sim_sharded *sharded, const struct sim_op *op,
                   char letter); /* enum model_size of a label */
int64_t sim_label_extent(const struct sim_sharded *sharded, const struct sim_op *op, char letter, const int64_t *sizes,
                         const struct topo_axes *mesh);

/* liveness.c: a value that waits in the host's memory, from one loop over the layers to the other */
bool sim_is_offloaded(const struct sim_sharded *sharded, int value);

/* ---- a device's arena (arena_map.c; scratch: kernel_scratch.c) ---- */

/* Rows that no reduction needs whole are worked through in pieces; contractions of bfloat16 in tiles of float32. */
enum { SIM_ROW_CHUNK = 2048, SIM_TILE = 256, SIM_TILE_DEPTH = 1024 };

/* Bytes from the start of the arena; the same on every device. */
struct sim_memory_map {
    int64_t *offset_bytes;     /* per value; -1: not stored, or an alias */
    int64_t *slice_bytes;      /* from one layer's instance to the next; 0: there is one */
    unsigned char *slice_size; /* enum model_size that counts the instances */
    int64_t scratch_offset_bytes, scratch_bytes, arena_bytes;
    int64_t category_bytes[MODEL_CATEGORY_COUNT]; /* at the peak; together arena_bytes */
    int peak_op;                                  /* -1: none */
};
/* sharded is an executable program. */
void sim_memory_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                          const struct topo_axes *mesh, struct sim_memory_map *out);

/* ---- a piece of a pipeline ---- */

/* Operations of its program: the loop over microbatches and its end, and the first one of the backward pass. Those
 * behind the loop update parameters. */
struct sim_pass_bounds {
    int loop, backward, end;
};
/* pass_bounds.c. BASE_INTERNAL: the loop carries something from one microbatch to the next. */
enum base_status sim_pass_bounds_find(const struct sim_sharded *sharded, struct sim_pass_bounds *out,
                                      struct base_error *error);
bool sim_is_message(const struct sim_sharded *sharded, const struct sim_value *value); /* that is to be sent */

/* Lifetime of a value: the run; a step, with messages that wait for their receivers; from a microbatch's forward pass
 * to its backward pass; or one pass. */
enum sim_lifetime { SIM_LIVES_ALWAYS, SIM_LIVES_ON, SIM_LIVES_IN_FLIGHT, SIM_LIVES_IN_PASS, SIM_LIFETIME_COUNT };
struct sim_piece_map {
    struct sim_memory_map map; /* offsets from the start of each lifetime's region; arena_bytes 0 */
    unsigned char *lifetime;   /* of each value's place */
    int64_t bytes[SIM_LIFETIME_COUNT], category_bytes[SIM_LIFETIME_COUNT][MODEL_CATEGORY_COUNT];
};
/* sharded is the executable program of a stage chunk. Values in flight count for one microbatch. */
void sim_piece_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                         const struct topo_axes *mesh, const struct sim_pass_bounds *bounds, struct sim_piece_map *out);

/* ---- memory as XLA:TPU lays it out (compiled_buffers.c) ---- */

struct sim_compiled_options {
    const int64_t *sizes; /* by enum model_size */
    const struct topo_axes *mesh;
    bool scanned;                  /* layers are while loops of the program */
    bool saves_all;                /* saves all that autodiff saves: no remat policy */
    int64_t loss_tiles;            /* of which one's logits stand */
    double most_row_times;         /* of the mean load: room for rows that other devices may send to experts; or 0 */
    bool checkpoints;              /* jax recomputes layers by a remat policy */
    bool keeps_kernel_sums;        /* those of attention kernels whose result is saved */
    bool product_norms;            /* gradients of norms' scales are products */
    int block_layers;              /* that are recomputed together, and save one input */
    bool over_slices;              /* joined by a data-centre network */
    bool remakes_all_rows;         /* of logits, whose gradient each of its products makes again; else a few */
    int unrolled;                  /* microbatches whose forward passes precede any backward pass */
    double limit_bytes;            /* device memory left by arguments and accumulators */
    double in_order_over_bytes;    /* by how much a heap in order of time may be larger than that; negative: smaller */
    double least_recomputed_bytes; /* smaller arrays are not recomputed */
    const struct sim_settings *settings;
    bool keeps_exponentials;        /* unscanned layers: in addition to the quotient; a trait of the chip's compiler */
    bool keeps_scores;              /* or the scores in their place */
    double window_rows;             /* topo_chip.xla_window_rows */
    const bool *is_square;          /* by set of mesh axes: of sim_window */
    double most_summed_elements;    /* topo_chip.xla_most_summed_elements */
    bool async_gathers, async_sums; /* topo_chip.xla_async_gathers, xla_async_sums */
    bool keeps_shards;              /* topo_chip.xla_keeps_shards */
    double most_logits_bytes;       /* topo_chip.xla_most_logits_bytes */
    int tile_rows;                  /* of the smallest tile of an argument */
    bool lists_alive;               /* of the answer */
    bool rematerializes; /* rematerializes saved tensors, or results of loops over layers, if the limit requires it */
};
struct sim_compiled_memory {
    double peak_bytes;                           /* of all transient buffers, without arguments and accumulators */
    double category_bytes[MODEL_CATEGORY_COUNT]; /* of these */
    int peak_op;                                 /* -1: none */
    double holes_bytes;                          /* of the peak: between arrays */
    double recomputed_frac;                  /* of the bytes that layers save: the share that is recomputed instead */
    double from_limit_bytes, to_limit_bytes; /* limits for which all of this is the same, both included */
    struct sim_alive_array {
        int value;        /* -1: none of the program's */
        int birth, death; /* operations */
        double bytes;
        enum model_category category;
    } * alive; /* if requested: buffers alive at the peak */
    int alive_count;
};
/* Buffers alive at the peak, the largest first; their sum is the peak. */
struct sim_peak_buffer {
    const char *name, *why; /* "decoder/layers/mlp/wi", "saved for the backward pass, last read by …" */
    enum model_category category;
    bool is_reserved; /* by runtime and compiler: of no category */
    double bytes;
    int layer;          /* -1: of none, or of several */
    int layers;         /* that have one each, all of them alive; 0: it is of no layer */
    int64_t microbatch; /* -1: of none */
};
struct sim_peak_buffers {
    struct sim_peak_buffer *rows;
    int count, capacity;
};

/* Tiled bytes of persistent buffers: parameters, state, accumulators, batch. */
void sim_compiled_persistent_bytes(const struct sim_sharded *sharded, const struct sim_compiled_options *options,
                                   double category_bytes[MODEL_CATEGORY_COUNT]);
/* sharded has been fused (sim_fuse). The arena holds the answer's working tables. */
void sim_compiled_memory(struct base_arena *arena, const struct sim_sharded *sharded,
                         const struct sim_compiled_options *options, struct sim_compiled_memory *out);

#endif
