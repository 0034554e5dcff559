/* The compiler's effect on a sharded program: rewriting passes, fusion into kernels, asynchronous collectives, live
 * ranges, and buffer offsets in a device's arena. */
#ifndef SIM_COMPILE_H
#define SIM_COMPILE_H

#include "sim/compile/passes.csv.h"
#include "sim/partition/partition.h"

/* ---- passes ---- */

/* enum sim_pass is generated from passes.csv, in the order in which passes run (passes.c). */
typedef uint64_t sim_pass_set;
#define SIM_PASS_BIT(pass) ((sim_pass_set)1 << (pass))
const char *sim_pass_name(enum sim_pass pass);
/* latency_hiding.c: collectives that may run asynchronously, as bits of enum sim_collective */
unsigned sim_asynchronous_kinds(sim_pass_set passes);
/* kinds of collectives that collective_matmul turns into loops */
enum { sim_windowed_kinds = 1u << SIM_ALL_GATHER | 1u << SIM_REDUCE_SCATTER };
/* passes.c: names of optional passes. The others run for every compiler, or only for the executor. */
int sim_pass_choices(const char *names[SIM_PASS_COUNT]);
int sim_pass_named(const char *name, size_t length); /* one of those passes; -1 if the name is unknown */

/* A TPU's vector register and memory tile: 8 rows of 128 four-byte words (jax-ml/scaling-book tpus.md). */
enum { SIM_LANES = 128, SIM_SUBLANES = 8, SIM_TILE_ROW_BYTES = 4 * SIM_LANES };

/* Parameters of passes (pass_settings.csv), equal for all software. */
struct sim_settings {
    unsigned rematerialized_roles,
        rematerialized_roles_in_loop; /* bits of enum model_role: tensors that may be rematerialized; those inside the
                                         loop over microbatches */
    double collective_latency, other_latency, dot_cost, kernel_cost, least_cost; /* in the scheduler's units */
    double aimed_frac; /* fraction of device memory that rematerialization and the memory scheduler target */
    double roles_frac; /* largest fraction of a peak that recomputing scores and MLPs alone is assumed to save */
    double least_summed_gather_devices, most_summed_gather_bytes; /* for gathers that become zero-padded sums */
    double least_ring, most_ring; /* ring sizes for which a product becomes a windowed einsum */
    double most_pieces;           /* maximum number of chunks of a gather or scatter in a windowed einsum */
    double most_combined_bytes;   /* size limit of a combined all-reduce */
    double spare_heap_bytes;      /* device memory that a heap must leave free, or it is packed again */
    double packed_holes_frac;     /* fraction of holes in a packed heap of unrolled layers */
};
extern const struct sim_settings sim_pass_settings; /* passes.c */

/* The compiler's target. */
enum sim_target { SIM_FOR_DEVICE, SIM_FOR_EXECUTOR };
struct sim_compiler {
    enum sim_target target;
    sim_pass_set passes;
    model_trait_set traits;
    bool quantizes;     /* layers compute their products in low-precision floats */
    int weight_copies;  /* low-precision copies of each layer's weight, in addition to the weight */
    bool small_weights; /* the weight itself is low-precision, too */
    bool is_scanned;    /* residuals of a loop over layers are stacked arrays */
    bool checkpoints;   /* each layer is one jax function, wrapped in its remat policy */
    struct sim_settings settings;
};
/* passes.c: compiles the partitioner's program to kernels and live ranges, or to the executor's program. */
void sim_compile(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded);

/* windowed_products.c: a windowed einsum. This loop multiplies chunks of one dimension while it transfers the next ones
 * (pass window_products). */
struct sim_product_window {
    unsigned axes; /* the ring's mesh axes; 0: not a loop */
    int label;     /* the operation's label that is split into chunks */
    int values[2]; /* read in every iteration: the other operand, or the accumulator (read and written) */
    int value_count;
    unsigned row_labels;    /* labels that the weight lacks */
    enum model_dtype dtype; /* dtype of the transferred chunks */
    bool sums_like_another; /* scatters a sum of a shape that its computation has scattered before */
};
/* Per operation. Only products with weights as an operand or result become windowed einsums. of_moved: per collective,
 * the windowed einsum that absorbs it, or -1. scanned: layers are while loops of the compiled program. */
struct sim_product_window *sim_product_windows(struct base_arena *arena, const struct sim_sharded *sharded,
                                               bool scanned, int *of_moved);
/* Inputs of the decision whether a product becomes a loop. */
struct sim_window {
    double ring, rows, element_bytes; /* devices; rows of a device's product; bytes of a transferred element */
    double window_rows;               /* topo_chip.xla_window_rows */
    bool is_square;                   /* four devices that span two whole dimensions of the slice */
};
/* Iterations of the loop; each sends a chunk in both directions. 1 means no loop: the ring is too small or large, or
 * the product is shorter than a chunk's transfer. */
double sim_window_trips(const struct sim_settings *settings, const struct sim_window *window);
/* Number of the loop's permutes. Each sends one device's chunk; both directions together need one more than the ring
 * has devices. A loop of two iterations is unrolled. Then a gather drops its last transfer, and all sums of one shape
 * in a computation share one transfer of initial zeros. */
enum sim_rounds { SIM_ROUNDS_GATHER, SIM_ROUNDS_SUM, SIM_ROUNDS_SUM_LIKE_ANOTHER };
int sim_window_permutes(int ring, enum sim_rounds rounds);

/* ---- training software (software.c) ---- */

/* Reads names of passes or traits, separated by spaces, from a table's cell. */
enum base_status sim_pass_set_read(const char *table, const char *text, sim_pass_set *out, struct base_error *error);
enum base_status sim_trait_set_read(const char *table, const char *text, model_trait_set *out,
                                    struct base_error *error);

struct sim_software {
    sim_pass_set passes;
    model_trait_set traits;
    double combine_bytes, memory_frac; /* size limit of combined collectives, and the allocator's share of device
                                          memory; -1: not in the row */
    double attention_block, attention_products; /* its attention kernel's (attention.csv); -1: the row does not say */
    const char *date;                           /* its compiler's date, "2023-01" */
    const char *source, *attention_source;
};
/* Finds the software's newest row for the platform or chip ("tpu:v6e") up to the date ("2023-10"); NULL takes the
 * newest. BASE_INPUT lists the software modelled on the platform ("tpu", "gpu", "cpu", "local"). */
enum base_status sim_software_find(const char *platform, const char *chip, const char *software, const char *date,
                                   struct sim_software *out, struct base_error *error);
/* Writes the names of software modelled on the platform, each once and at most limit. Returns their number. */
int sim_software_names(const char *platform, const char **out, int limit);

/* ---- compilers (releases.c) ---- */

/* A release of XLA:TPU. */
struct sim_release {
    const char *since, *libtpu; /* its year and month; the libtpu version that contains it, or "" */
    bool lays_out;              /* sim_compiled_memory models its memory; otherwise liveness in program order does */
    sim_pass_set passes, gone;  /* passes added to those of the software's date, and passes removed */
};
/* Finds the last release that the text names: "latest" (or "today"), a libtpu version, or a date on which it was the
 * newest. since is NULL if none matches. */
enum sim_release_text { SIM_RELEASE_BY_LIBTPU /* or "latest" */, SIM_RELEASE_BY_DATE };
enum base_status sim_release_find(const char *text, enum sim_release_text kind, struct sim_release *out,
                                  struct base_error *error);

/* ---- the executor's view (executable_kernels.c) ---- */

/* Joins the two parts of keys of latent attention, or computes either part's gradient. Also a kernel of its own. */
static inline bool sim_joins_keys(const struct model_op *op)
{
    return op->function == MODEL_JOIN_KEYS || op->function == MODEL_JOIN_KEYS_GRAD ||
           op->function == MODEL_JOIN_KEYS_SUM;
}
bool sim_routes(const struct model_op *op);                 /* assigns tokens to experts: a kernel of its own */
int sim_root(const struct sim_sharded *sharded, int value); /* the value that owns the buffer */
/* True for a collective that gives every device the whole sum. It reduces in place, so its operand is dead once it
 * starts. A reduce-scatter reads its operand to the end. */
bool sim_sums_in_place(const struct sim_sharded *sharded, const struct sim_op *op);
bool sim_is_one_hot(const struct sim_sharded *sharded, int value); /* a one-hot that is never materialized */
bool sim_looks_up(const struct sim_sharded *sharded, const struct sim_op *op); /* a contraction with such a one-hot */
/* True for dequantized int8 weights that are never materialized, or for the root of their alias. Contractions read
 * weight and scales. */
bool sim_is_dequantized(const struct sim_sharded *sharded, int value);
/* The letters of a contraction's operand along which its weight's scales vary; none for other operands. letters has
 * room for MODEL_MAX_RANK + 1. */
void sim_scaled_letters(const struct sim_sharded *sharded, const struct sim_op *op, int input, char *letters);
const char *sim_space(const struct model_op *op);     /* the labels of its index space: those of its largest operand */
bool sim_is_row_operation(const struct model_op *op); /* elementwise, or a reduction along the last label alone */
bool sim_needs_whole_rows(const struct model_op *op); /* it cannot process rows in parts */
sim_order sim_label_axes(const struct sim_sharded *sharded, const struct sim_op *op,
                         char letter); /* mesh axes that shard a label */
int sim_label_size(const struct sim_sharded *sharded, const struct sim_op *op,
                   char letter); /* enum model_size of a label */
int64_t sim_label_extent(const struct sim_sharded *sharded, const struct sim_op *op, char letter, const int64_t *sizes,
                         const struct topo_axes *mesh);

/* liveness.c: a value that is in host memory between the forward and the backward loop over layers */
bool sim_is_offloaded(const struct sim_sharded *sharded, int value);

/* ---- a device's arena (arena_map.c; scratch: kernel_scratch.c) ---- */

/* Rows without a whole-row reduction are processed in chunks. Contractions of bfloat16 use float32 tiles. */
enum { SIM_ROW_CHUNK = 2048, SIM_TILE = 256, SIM_TILE_DEPTH = 1024 };

/* Offsets in bytes from the start of the arena, equal on every device. */
struct sim_memory_map {
    int64_t *offset_bytes;     /* per value; -1: not stored, or an alias */
    int64_t *slice_bytes;      /* distance between the instances of consecutive layers; 0: a single instance */
    unsigned char *slice_size; /* enum model_size that counts the instances */
    int64_t scratch_offset_bytes, scratch_bytes, arena_bytes;
    int64_t category_bytes[MODEL_CATEGORY_COUNT]; /* at the peak; they add up to arena_bytes */
    int peak_op;                                  /* -1: none */
};
/* sharded is an executable program. */
void sim_memory_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                          const struct topo_axes *mesh, struct sim_memory_map *out);

/* ---- a stage chunk of a pipeline ---- */

/* Bounds of a stage chunk's program, as operations: the loop over microbatches, its end, and the start of the backward
 * pass. Operations after the loop update parameters. */
struct sim_pass_bounds {
    int loop, backward, end;
};
/* pass_bounds.c. BASE_INTERNAL: the loop carries a value from one microbatch to the next. */
enum base_status sim_pass_bounds_find(const struct sim_sharded *sharded, struct sim_pass_bounds *out,
                                      struct base_error *error);
bool sim_is_message(const struct sim_sharded *sharded, const struct sim_value *value); /* it is sent to another stage */

/* Lifetime of a value: the run; a step, for messages that wait for their receivers; a microbatch's forward to its
 * backward pass; or one pass. */
enum sim_lifetime { SIM_LIVES_ALWAYS, SIM_LIVES_ON, SIM_LIVES_IN_FLIGHT, SIM_LIVES_IN_PASS, SIM_LIFETIME_COUNT };
struct sim_piece_map {
    struct sim_memory_map map; /* offsets from the start of each lifetime's region; arena_bytes is 0 */
    unsigned char *lifetime;   /* lifetime of each value's buffer */
    int64_t bytes[SIM_LIFETIME_COUNT], category_bytes[SIM_LIFETIME_COUNT][MODEL_CATEGORY_COUNT];
};
/* sharded is the executable program of a stage chunk. Values in flight count for one microbatch. */
void sim_piece_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                         const struct topo_axes *mesh, const struct sim_pass_bounds *bounds, struct sim_piece_map *out);

/* ---- XLA:TPU's buffer assignment (compiled_buffers.c) ---- */

struct sim_compiled_options {
    const int64_t *sizes; /* per enum model_size */
    const struct topo_axes *mesh;
    bool scanned;           /* layers are while loops of the program */
    bool saves_all;         /* no remat policy: all residuals of autodiff are saved */
    int64_t loss_tiles;     /* tiles of the loss; the logits of one are live at a time */
    double most_row_times;  /* capacity of expert rows, as a multiple of the mean load, for rows that other devices may
                               send; or 0 */
    bool checkpoints;       /* jax recomputes layers by a remat policy */
    bool keeps_kernel_sums; /* keeps row sums of attention kernels whose result is saved */
    bool product_norms;     /* gradients of norm scales are contractions */
    int block_layers;       /* layers that are recomputed together and save one input */
    bool over_slices;       /* a data-centre network joins the slices */
    bool remakes_all_rows;  /* each product recomputes the logits' gradient for any number of rows; otherwise only for
                               few */
    int unrolled;           /* microbatches whose forward passes precede any backward pass */
    double limit_bytes;     /* device memory left by arguments and accumulators */
    double in_order_over_bytes;    /* excess of a heap in time order over limit_bytes; negative: it is smaller */
    double least_recomputed_bytes; /* smaller arrays are not recomputed */
    const struct sim_settings *settings;
    bool keeps_exponentials; /* unscanned layers keep exponentials in addition to the quotient; depends on the chip's
                                compiler */
    bool keeps_scores;       /* or keep the scores instead */
    double window_rows;      /* topo_chip.xla_window_rows */
    const bool *is_square;   /* per set of mesh axes, as in sim_window */
    double most_summed_elements;    /* topo_chip.xla_most_summed_elements */
    bool async_gathers, async_sums; /* topo_chip.xla_async_gathers, xla_async_sums */
    bool keeps_shards;              /* topo_chip.xla_keeps_shards */
    double most_logits_bytes;       /* topo_chip.xla_most_logits_bytes */
    int tile_rows;                  /* rows of the smallest tile of an argument */
    bool lists_alive;               /* the answer lists the live buffers */
    bool rematerializes; /* rematerializes saved tensors or results of loops over layers, if the limit requires it */
};
struct sim_compiled_memory {
    double peak_bytes;                           /* all transient buffers, without arguments and accumulators */
    double category_bytes[MODEL_CATEGORY_COUNT]; /* parts of peak_bytes */
    int peak_op;                                 /* -1: none */
    double holes_bytes;                          /* part of the peak: holes between buffers */
    double recomputed_frac;                      /* recomputed share of the bytes that layers save */
    double from_limit_bytes, to_limit_bytes;     /* range of limits with the same answer, both ends included */
    struct sim_alive_array {
        int value;        /* -1: not a value of the program */
        int birth, death; /* operations */
        double bytes;
        enum model_category category;
    } * alive; /* if requested: buffers alive at the peak */
    int alive_count;
};
/* A buffer alive at the peak. The list is sorted, largest first, and adds up to the peak. */
struct sim_peak_buffer {
    const char *name, *why; /* "decoder/layers/mlp/wi", "saved for the backward pass, last read by …" */
    enum model_category category;
    bool is_reserved; /* reserved by runtime and compiler, without a category */
    double bytes;
    int layer;          /* -1: no layer, or several */
    int layers;         /* number of layers with a live instance each; 0: not in a layer */
    int64_t microbatch; /* -1: none */
};
struct sim_peak_buffers {
    struct sim_peak_buffer *rows;
    int count, capacity;
};

/* Tiled bytes of persistent buffers: parameters, state, accumulators, batch. */
void sim_compiled_persistent_bytes(const struct sim_sharded *sharded, const struct sim_compiled_options *options,
                                   double category_bytes[MODEL_CATEGORY_COUNT]);
/* sharded is fused already (sim_fuse). The arena holds the answer's working tables. */
void sim_compiled_memory(struct base_arena *arena, const struct sim_sharded *sharded,
                         const struct sim_compiled_options *options, struct sim_compiled_memory *out);

#endif
