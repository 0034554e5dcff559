/* sim/compile: what a compiler makes of a sharded program. Passes that rewrite it, what runs as one kernel, when
 * collectives start and are waited for, how long values live, and where they stand in a device's arena. */
#ifndef SIM_COMPILE_H
#define SIM_COMPILE_H

#include "sim/partition/partition.h"

/* ---- passes ---- */

/* In the order in which they run (passes.c, passes.csv). */
enum sim_pass {
    SIM_PASS_PROPAGATE_SHARDINGS,
    SIM_PASS_SPREAD_THROUGH_UPDATES,
    SIM_PASS_SHARE_GATHERS,
    SIM_PASS_KEEP_GATHERED,
    SIM_PASS_REGROUP_SUMS,
    SIM_PASS_REASSOCIATE_ALL_REDUCE,
    SIM_PASS_HOIST_GRADIENT_ALL_REDUCE,
    SIM_PASS_KEEP_SUM_DTYPE,
    SIM_PASS_HOIST_LONE_ALL_REDUCE,
    SIM_PASS_REWRITE_GRADIENT_ACCUMULATION,
    SIM_PASS_REDUCE_AT_BOUNDARY,
    SIM_PASS_JOIN_INPUT_GRADIENTS,
    SIM_PASS_SCATTER_ACTIVATIONS,
    SIM_PASS_CREATE_REDUCE_SCATTERS,
    SIM_PASS_WIDEN_GRADIENT_SUMS,
    SIM_PASS_SAVE_QUANTISED,
    SIM_PASS_PREFETCH_SHARDS,
    SIM_PASS_KEEP_UNITS_WHOLE,
    SIM_PASS_COMBINE_COLLECTIVES,
    SIM_PASS_SUM_WHOLE_SLICES,
    SIM_PASS_GATHER_BY_DIMENSION,
    SIM_PASS_REMATERIALIZE,
    SIM_PASS_FUSE_KERNELS,
    SIM_PASS_FUSE_ROWS,
    SIM_PASS_EAGER_KERNELS,
    SIM_PASS_OVERLAP_COLLECTIVES,
    SIM_PASS_OVERLAP_ALL_GATHERS,
    SIM_PASS_OVERLAP_GRADIENT_ALL_REDUCES,
    SIM_PASS_OVERLAP_ROUNDS,
    SIM_PASS_COLLECTIVE_MATMUL,
    SIM_PASS_WINDOW_PRODUCTS,
    SIM_PASS_VECTOR_UNITS,
    SIM_PASS_TRACK_LIFETIMES,
    SIM_PASS_COUNT
};
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

/* Of a TPU's vector register, and of the tiles in which arrays stand in memory: 8 rows of 128 words of four bytes
 * (jax-ml/scaling-book tpus.md). */
enum { SIM_LANES = 128, SIM_SUBLANES = 8, SIM_TILE_ROW_BYTES = 4 * SIM_LANES };

/* settings.c: what passes go by beside the program (pass_settings.csv), the same for all software */
struct sim_settings {
    unsigned rematerialized_roles, rematerialized_roles_in_loop; /* bits of enum model_role: what may be dropped, and
                                                                    what inside the loop over microbatches */
    double collective_latency, other_latency, dot_cost, kernel_cost, least_cost; /* of the scheduler, in its units */
    double aimed_frac; /* of the device's memory: what rematerialisation and the memory scheduler aim at */
    double roles_frac; /* of a peak, the most that recomputing scores and MLPs alone is relied on to save */
    double least_summed_gather_devices, most_summed_gather_bytes; /* gathers that become sums of mostly zeros */
    double least_ring, most_ring;                                 /* of products that run as loops over pieces */
    double most_pieces;         /* of a gather or scatter that a product is computed beside */
    double most_combined_bytes; /* of sums that one all-reduce joins */
    double accumulator_bytes;   /* a sum of fewer is fused beside another result of its kernel */
};
enum base_status sim_settings_read(struct sim_settings *out, struct base_error *error);

/* Who compiles, and what for. */
enum sim_target { SIM_FOR_DEVICE, SIM_FOR_EXECUTOR };
struct sim_compiler {
    enum sim_target target;
    sim_pass_set passes;
    model_trait_set traits;
    bool quantizes;   /* products of layers are in small floats */
    bool is_scanned;  /* residuals of a loop over layers are stacked arrays */
    bool checkpoints; /* a layer is one function to jax, which its remat policy wraps */
    struct sim_settings settings;
};
/* passes.c: from what the partitioner emits to kernels and lifetimes, or to what the executor runs. */
void sim_compile(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded);

/* windowed_products.c: a product that runs as a loop over pieces of one of its dimensions, while the others of what is
 * gathered for it, or scattered of it, are on their way (pass window_products). */
struct sim_product_window {
    unsigned axes; /* of the ring; 0: it is no loop */
    int label;     /* of the operation: what is split */
    int values[2]; /* that every trip goes over again: another operand, or what it adds to (read and written) */
    int value_count;
    unsigned row_labels;    /* those that the weight lacks */
    enum model_dtype dtype; /* of what goes round */
    bool sums_like_another; /* it scatters a sum of a shape that its computation has scattered before */
};
/* Per operation. Only products with an operand or a result of weights are such loops. of_moved: per collective the
 * product that is computed as it goes round, or -1. scanned: layers are loops of the compiled program. */
struct sim_product_window *sim_product_windows(struct base_arena *arena, const struct sim_sharded *sharded,
                                               bool scanned, int *of_moved);
/* What decides whether such a product becomes a loop. */
struct sim_window {
    double ring, rows, element_bytes; /* devices; of the product on one of them; of what goes round */
    double window_rows;               /* topo_chip.xla_window_rows */
    bool is_square;                   /* four devices that are two whole dimensions of the slice */
};
/* How often the loop runs: a trip sends a piece either way. 1: the product stays whole, for there are few or many
 * devices, or a device computes for less long than a piece is on its way. */
double sim_window_trips(const struct sim_settings *settings, const struct sim_window *window);
/* The permutes of such a loop, each of one device's piece: where pieces go both ways, one more than the ring has. A
 * loop of two trips is written out: what a gather would send last goes nowhere, and the zeros that sums begin with are
 * sent once for all sums of a shape in a computation. */
enum sim_rounds { SIM_ROUNDS_GATHER, SIM_ROUNDS_SUM, SIM_ROUNDS_SUM_LIKE_ANOTHER };
int sim_window_permutes(int ring, enum sim_rounds rounds);

/* ---- training software (software.c) ---- */

/* Names of traits with spaces between them, as tables have them. */
enum base_status sim_trait_set_read(const char *table, const char *text, model_trait_set *out,
                                    struct base_error *error);

struct sim_software {
    sim_pass_set passes;
    model_trait_set traits;
    double combine_bytes, memory_frac; /* what collectives are combined up to, what its allocator gets of a device's
                                          memory; -1: the row does not say */
    double attention_block, attention_products; /* of its attention kernel (attention.csv); -1: the same */
    const char *date;                           /* of its compiler, "2023-01" */
    const char *source, *attention_source;
};
/* BASE_INPUT names what is modelled on the platform ("tpu", "gpu", "cpu", "local"). Of its rows, and those of the chip
 * ("tpu:v6e"), the newest that is not after the date ("2023-10"); NULL: the newest. */
enum base_status sim_software_find(const char *platform, const char *chip, const char *software, const char *date,
                                   struct sim_software *out, struct base_error *error);
/* Names of the software that is modelled on the platform, each once, at most limit of them: how many. */
int sim_software_names(const char *platform, const char **out, int limit);

/* ---- compilers (releases.c) ---- */

/* A release of XLA:TPU. */
struct sim_release {
    const char *since, *libtpu; /* of which year and month; the version of the library that holds it, or "" */
    bool lays_out;              /* sim_compiled_memory is its memory; else liveness in program order is */
    sim_pass_set passes, gone;  /* that it runs beside those of the software's date, and those of these that it lacks */
};
/* The last of those that a text means: "latest" (or "today"), a version of libtpu, or a date, on which it was the
 * newest; since NULL: there is none. */
enum sim_release_text { SIM_RELEASE_BY_LIBTPU /* or "latest" */, SIM_RELEASE_BY_DATE };
enum base_status sim_release_find(const char *text, enum sim_release_text kind, struct sim_release *out,
                                  struct base_error *error);

/* ---- what the executor makes of it (executable_kernels.c) ---- */

bool sim_routes(const struct model_op *op);                 /* chooses experts for tokens: a kernel of its own */
int sim_root(const struct sim_sharded *sharded, int value); /* the value whose bytes these are */
/* A collective whose sum every device gets whole: it is added up where it is to stand, and its operand is read no
 * longer once it has begun. Sums of which each keeps a slice are not: they are read to the end. */
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

/* How long a value needs its place: as long as the run; from one step's begin to its end, messages among it, which wait
 * there for their receivers; from a microbatch's forward pass to its backward pass; or within one pass. */
enum sim_lifetime { SIM_LIVES_ALWAYS, SIM_LIVES_ON, SIM_LIVES_IN_FLIGHT, SIM_LIVES_IN_PASS, SIM_LIFETIME_COUNT };
struct sim_piece_map {
    struct sim_memory_map map; /* offsets from the start of each lifetime's region; arena_bytes 0 */
    unsigned char *lifetime;   /* of each value's place */
    int64_t bytes[SIM_LIFETIME_COUNT], category_bytes[SIM_LIFETIME_COUNT][MODEL_CATEGORY_COUNT];
};
/* sharded is the executable program of a piece. Of what lives in flight: one microbatch's. */
void sim_piece_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                         const struct topo_axes *mesh, const struct sim_pass_bounds *bounds, struct sim_piece_map *out);

/* ---- memory as XLA:TPU lays it out (compiled_buffers.c) ---- */

struct sim_compiled_options {
    const int64_t *sizes; /* by enum model_size */
    const struct topo_axes *mesh;
    bool scanned;                  /* layers are while loops of the program */
    bool saves_all;                /* what autodiff saves is saved: no remat policy */
    int64_t loss_tiles;            /* of which one's logits stand */
    bool checkpoints;              /* jax recomputes layers by a remat policy */
    bool product_norms;            /* gradients of norms' scales are products */
    int block_layers;              /* that are recomputed together, and save one input */
    bool over_slices;              /* joined by a data-centre network */
    int unrolled;                  /* microbatches whose forward passes come before any backward pass */
    double limit_bytes;            /* what arguments and accumulators leave of the device */
    double least_recomputed_bytes; /* smaller arrays are not recomputed */
    const struct sim_settings *settings;
    bool keeps_exponentials;     /* where layers are no loops: beside their quotient; a habit of the chip's compiler */
    bool keeps_scores;           /* or the scores in their place */
    double window_rows;          /* topo_chip.xla_window_rows */
    const bool *is_square;       /* by set of mesh axes: of sim_window */
    double most_summed_elements; /* topo_chip.xla_most_summed_elements */
    bool async_gathers, async_sums; /* topo_chip.xla_async_gathers, xla_async_sums */
    bool keeps_shards;              /* topo_chip.xla_keeps_shards */
    double most_logits_bytes;       /* topo_chip.xla_most_logits_bytes */
    int tile_rows;                  /* of the smallest tile of an argument */
    bool lists_alive;               /* of the answer */
    bool rematerializes;            /* recomputes what layers save, or loops over them make, if the limit asks for it */
};
struct sim_compiled_memory {
    double peak_bytes;                           /* of all that comes and goes, arguments and accumulators aside */
    double category_bytes[MODEL_CATEGORY_COUNT]; /* of these */
    int peak_op;                                 /* -1: none */
    double recomputed_frac;                  /* of the bytes that layers save: the share that is recomputed instead */
    double from_limit_bytes, to_limit_bytes; /* limits for which all of this is the same, both included */
    struct sim_alive_array {
        int value;        /* -1: none of the program's */
        int birth, death; /* operations */
        double bytes;
        enum model_category category;
    } * alive; /* where that was asked for: what stands at the peak */
    int alive_count;
};
/* What stands in a device's memory at the peak, the largest first; together they are the peak. */
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

/* Bytes in tiles of what always stands there: parameters, state, accumulators, batch. */
void sim_compiled_persistent_bytes(const struct sim_sharded *sharded, const struct sim_compiled_options *options,
                                   double category_bytes[MODEL_CATEGORY_COUNT]);
/* sharded has been fused (sim_fuse). The arena holds the answer's working tables. */
void sim_compiled_memory(struct base_arena *arena, const struct sim_sharded *sharded,
                         const struct sim_compiled_options *options, struct sim_compiled_memory *out);

#endif
