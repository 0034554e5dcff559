/* Constants of a chip with their sources, and a mesh placed on a topology. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include "base/base.h"
#include "model/gin/gin.h"
#include "model/model.h"
#include "sim/compile/compile.h"
#include "sim/machine/nccl.csv.h"
#include "sim/machine/profile_constants.csv.h"
#include "sim/network/network.h"
#include "sim/partition/partition.h"
#include "sim/pipeline/pipeline.h"
#include "topo/topo.h"

#include <math.h>

/* ---- profile (profile.c): every constant with its source; enum sim_constant is made of profile_constants.csv ---- */

/* ---- NCCL's own numbers (nccl_table.c); enum sim_nccl_constant is made of nccl.csv, which describes each ---- */

enum sim_protocol { SIM_LL, SIM_LL128, SIM_SIMPLE, SIM_PROTOCOL_COUNT };
enum { SIM_MOST_TREE_SIZES = 32, SIM_MOST_NVLS_CHUNKS = 16 };
struct sim_nccl {
    double of[SIM_NCCL_COUNT][SIM_PROTOCOL_COUNT];
    struct {
        double least_bytes, frac[SIM_PROTOCOL_COUNT];
    } tree_sizes[SIM_MOST_TREE_SIZES]; /* smallest first */
    int tree_size_count;
    struct {
        double least_nodes, below_loops /* of all channels; 0: any number */, bytes;
    } nvls_chunks[SIM_MOST_NVLS_CHUNKS]; /* fewest nodes first, largest chunk first */
    int nvls_chunk_count;
};
extern const struct sim_nccl sim_nccl_tables;

/* Rows of nccl_limits.csv, for one node, two, and more: NCCL's limits for a GPU generation. */
enum sim_nccl_limit {
    SIM_LL_MOST /* bus bandwidth */,
    SIM_RING_LL128_MOST /* of a channel, as the following */,
    SIM_TREE_LL128_MOST,
    SIM_TREE_SIMPLE_MOST,
    SIM_NVLS_CHANNELS,
    SIM_NCCL_LIMIT_COUNT
};
enum { SIM_NODE_SCALES = 3 };
struct sim_nccl_limits {
    double of[SIM_NCCL_LIMIT_COUNT][SIM_NODE_SCALES]; /* 0: not known, which limits nothing */
};
struct sim_nccl_limits sim_nccl_limits_find(const char *chip);

/* ---- tiles of GPUs' products (gpu_tiles.csv, gpu_products.c) ---- */

enum { SIM_MOST_TILES = 32, SIM_MOST_ATTENTION_RATES = 8 };
struct sim_tiles {
    struct {
        double rows, columns, rate_frac; /* of the large ones' rate */
    } of[SIM_MOST_TILES];
    int count;
};
extern const struct sim_tiles sim_tiles_table;

/* Communication that may overlap with computation: tensor parallelism's, gradient reductions, parameter gathers,
 * messages of the interleaved schedule. */
enum sim_overlap {
    SIM_OVERLAP_TENSOR,
    SIM_OVERLAP_GRADIENTS,
    SIM_OVERLAP_PARAMETERS,
    SIM_OVERLAP_MESSAGES,
    SIM_OVERLAP_COUNT
};
enum sim_switch { SIM_HAS_NO_SWITCH, SIM_SWITCHED_OFF, SIM_SWITCHED_ON };

struct sim_profile {
    char name[64]; /* "tpu_v4" */
    double constants[SIM_CONSTANT_COUNT];
    const char *kinds[SIM_CONSTANT_COUNT]; /* "vendor", "measured", "assumed", "inferred", "given" */
    const char *sources[SIM_CONSTANT_COUNT];
    struct sim_settings settings;
    struct sim_nccl nccl; /* of GPUs, as the limits and tiles; else 0 */
    struct sim_nccl_limits nccl_limits;
    struct sim_tiles tiles;
    struct sim_vector_units {
        double narrow_s, wide_s; /* for each element of a result of less than four bytes, and of four; 0: not known */
    } vector_units;              /* of TPUs, by the compiler's cost model (compiler_fusions.csv) */
    struct {
        struct sim_attention_rate {
            double head_dim, forward_frac, forward_ramp_tokens, backward_frac, backward_ramp_tokens;
        } of[SIM_MOST_ATTENTION_RATES]; /* smallest heads first */
        int count;                      /* 0: attention_efficiency_frac holds for all */
    } attention;                        /* of the software's attention kernels (gpu_attention.csv) */
    model_trait_set traits;
    sim_pass_set passes; /* those of the software of that time on that platform
                        (sim/compile/software.csv) */
    struct sim_compile_choice {
        bool is_one, runs;         /* whether torch.compile can be asked for, and whether it runs */
        model_trait_set traits[2]; /* additional traits of eager runs, and of compiled ones */
    } compile;
    enum sim_switch overlaps[SIM_OVERLAP_COUNT]; /* of this version of the software, unless a plan says otherwise */
    double bucket_parameters; /* of its distributed optimizer, where buckets overlap; 0: it has none */
    bool bfloat16_gradients;  /* they add up and are reduced in bfloat16 */
    struct {
        int count;              /* measurements that a given profile was calibrated on; 0: it was not */
        double mean_error_frac; /* of predictions of those that were left out of it, in turn */
    } calibrated;
    const char *software_date; /* of the compiler in the software's row, "2023-01" */
    bool simulated;            /* collectives are simulated message by message, link by link: "network": "simulated" */
};
/* BASE_INPUT: the table is damaged. A chip that it does not have: zeros. */
enum base_status sim_vector_units_find(const char *chip, struct sim_vector_units *out, struct base_error *error);
const char *sim_constant_name(enum sim_constant constant);
int sim_constant_named(const char *name); /* -1: none */
/* chip_rows.c: true if a table's cell is the chip's name, or its prefix before a - (a100: a100-40g); "": every chip.
 * The second accepts similar chips, too (h100: h800). */
bool sim_is_named_chip(const char *cell, const char *chip);
bool sim_is_of_chip(const char *cell, const char *chip);
const char *sim_platform_name(enum topo_kind kind); /* as tables call it: "tpu" */
/* The profile of a topology's chip under a software of a date (NULL: newest). overrides is a profile document or NULL:
 * {"constants": {name: value}, "passes": {name: true or false}, "network": "analytic" or "simulated"}; passes only
 * where they differ from the software's. */
enum base_status sim_profile_build(const struct topo_topology *topology, const char *software, const char *date,
                                   const struct base_json *overrides, struct sim_profile *out,
                                   struct base_error *error);
/* Applies a software version's differences (software_versions.csv); the user's constants stay. */
enum base_status sim_profile_take_version(const char *software, const struct topo_topology *topology,
                                          const char *version, struct sim_profile *profile, struct base_error *error);
/* gpu_attention.c: the rows of a library on a chip, which may be none. */
enum base_status sim_attention_rates_find(const char *library, const char *chip, struct sim_profile *out,
                                          struct base_error *error);
/* Share of flop_per_s, for the unmasked products; 0: the profile has no such rates. */
enum sim_attention_way { SIM_ATTENDS_FORWARD, SIM_ATTENDS_BACKWARD };
double sim_attention_table_frac(const struct sim_profile *profile, enum sim_attention_way way, double head_dim,
                                double length_tokens);
/* compile NULL or "": the version's default, "0": eager kernels. BASE_INPUT: this software leaves no choice. */
enum base_status sim_profile_take_compile(const char *software, const char *compile, struct sim_profile *profile,
                                          struct base_error *error);
enum base_status sim_profile_check(const struct base_json *overrides,
                                   struct base_error *error); /* overrides as a user gives them; may be NULL */
void sim_profile_put_passes(const struct base_json *overrides,
                            struct base_json_writer *w); /* the member "passes", if there is one */

/* By all algorithms that such hardware is known to run, or round one ring alone. */
enum sim_routes { SIM_ANY_ROUTE, SIM_ONE_RING };

/* ---- placement: a topology and a mesh on it, with the loads that its groups put on links ---- */

/* Simulated cost of a collective: per algorithm, seconds per byte of the operand, and latency. Sharing of links is
 * linear in bytes, so that one simulation holds for any size. */
enum { SIM_MOST_LINK_COSTS = 4 };
struct sim_link_cost {
    struct {
        enum sim_algorithm algorithm;
        double seconds_per_byte, hop_latency_s;
    } ways[SIM_MOST_LINK_COSTS];
    int count;
    double start_s;
    bool store_and_forward;
};

/* Residuals of one kind of prediction (confidence.c): the logarithm of measured over predicted, as a normal
 * distribution. */
struct sim_residual {
    double mean, deviation;
    double within; /* the part of the deviation that two plans on one cluster do not share */
    int row;       /* of confidence.csv; -1: it has none about such plans */
};
enum sim_residual_kind {
    SIM_OF_STEP,
    SIM_OF_PIPELINED_STEP,
    SIM_OF_SERVED_STEP, /* of inference */
    SIM_OF_EXPERT_STEP, /* with stages and without */
    SIM_OF_MEMORY,
    SIM_OF_PIPELINED_MEMORY,
    SIM_OF_EXPERT_MEMORY,
    SIM_OF_COMPILED_MEMORY, /* of plans that are none of the following */
    SIM_OF_COMPILED_UNSCANNED,
    SIM_OF_COMPILED_NONE, /* scanned layers, by remat policy */
    SIM_OF_COMPILED_MINIMAL,
    SIM_OF_COMPILED_FULL,
    SIM_OF_COMPILED_RESCUED, /* said to fit once the compiler recomputes arrays */
    SIM_RESIDUAL_COUNT
};
/* Fills residuals[SIM_RESIDUAL_COUNT]. BASE_INTERNAL: the table is broken. */
enum base_status sim_residuals_find(const struct topo_topology *topology, const char *software,
                                    struct sim_residual *residuals, struct base_error *error);

struct sim_placement {
    struct topo_topology topology;
    struct topo_axes axes;       /* at most SIM_MOST_AXES: of a mesh with more, those of several devices */
    struct topo_axes named_axes; /* all that rules may name */
    const char *axes_text;       /* the names of these: "data+model" */
    struct sim_group {           /* by set of axes: a collective's devices */
        struct topo_ring_load load;
        int size_in_slice;                /* how many of its devices one slice has */
        double seconds_per_byte;          /* of one pass of an all-reduce, of which there are two */
        double ring_seconds_per_byte;     /* of an all-gather of so many gathered bytes, or a reduce-scatter */
        double across_seconds_per_byte;   /* the part of it on the data-centre network between slices */
        double exchange_seconds_per_byte; /* of an all-to-all, by the bytes of one device's operand */
        double exchange_inside_s_per_byte, exchange_across_s_per_byte; /* the slower of these, on nodes of GPUs */
        double permute_seconds_per_byte; /* of a message from each device to the next of its group */
        int step_hops; /* links that one pass crosses one after the other, at least; on GPUs, nodes of the group */
        const struct sim_link_cost *link_costs; /* by kind: simulated costs; NULL: not simulated */
    } * groups;
    struct sim_profile profile;
    bool splits_dimensions; /* the software asked for that, since whole dimensions of the torus would not do */
    int stage_devices;      /* of one stage of a pipeline: its mesh is over these, the whole topology's in a row */
    struct sim_residual residuals[SIM_RESIDUAL_COUNT];
};
/* stage_links.c: the devices of one of so many stages, as a topology of their own. BASE_INPUT: they cannot be split so.
 */
enum base_status sim_stage_topology(const struct topo_topology *topology, int64_t stages, struct topo_topology *out,
                                    struct base_error *error);
/* BASE_INPUT: a copy of the model needs other devices than a stage has. */
enum base_status sim_stage_check_partitions(const struct topo_topology *stage, const struct topo_mesh_request *given,
                                            int64_t stages, struct base_error *error);
/* The mesh that a plan with context_parallel asks for: T5X's, split once more, between data and model: the order of
 * ranks in Megatron-LM (core/parallel_state.py). spreads_experts: experts are the plan's expert_parallel, not T5X's.
 * BASE_INPUT: it cannot be split so. */
enum base_status sim_context_mesh(const struct topo_topology *stage, const struct topo_mesh_request *given,
                                  int64_t context_parallel, bool spreads_experts, struct topo_mesh_request *out,
                                  struct base_error *error);
/* Seconds that every device of a stage takes to send so many bytes to its like in another one, all at once. */
double sim_stage_message_s(const struct sim_placement *placement, int from, int to, double bytes);
/* placement.c. The axes of T5X's ZeRO (data, and context if any, whose devices hold the same parameters) and of
 * sequence parallelism (model, or tensor), as sets; 0: not in the mesh. */
unsigned sim_data_axis(const struct topo_axes *mesh);
unsigned sim_model_axis(const struct topo_axes *mesh);
enum base_status sim_placement_build(struct base_arena *arena, const struct topo_topology *topology,
                                     const struct topo_mesh_request *request, const struct sim_profile *profile,
                                     struct sim_placement *out, struct base_error *error);
/* NCCL's device memory, in addition to the reserved context, of the profile as its version has it. */
void sim_placement_join_communicators(struct sim_placement *placement);
/* Prices rings through the groups of a mesh on the placement's torus, one slice, in any device order. Fills the
 * placement's groups, one for each set of axes. The mesh has its devices. */
void sim_place_on_torus(struct base_arena *arena, struct sim_placement *placement, const struct topo_mesh *mesh);
/* True if an all-reduce uses recursive doubling, as faster than a ring: few bytes, no torus. */
bool sim_all_reduce_doubles(const struct sim_placement *placement, unsigned axes, double bytes);
/* nccl.c: latency of NCCL's LL protocol, once and per step inside a node; the host posts steps of rings that leave a
 * node. */
struct sim_nccl_latency {
    double once_s, inside_s;
};
struct sim_nccl_latency sim_nccl_latency(const struct sim_nccl *nccl, int64_t nodes);
/* Whether NCCL's cost model prices a collective; and its price on GPUs behind NVLink, at this bus bandwidth of the
 * slowest part, or at that of the placement's loads. */
bool sim_is_of_nccl(const struct sim_placement *placement, enum sim_collective kind);
struct sim_nccl_price {
    double seconds,
        fastest_s; /* of the algorithm that NCCL chooses, and of the fastest, which its model may rank lower */
    const char *way, *fastest; /* "tree with LL128"; NULL: nothing is sent */
};
struct sim_nccl_price sim_nccl_price(const struct sim_placement *placement, enum sim_collective kind, unsigned axes,
                                     double bytes, double bus_bytes_per_s);
struct sim_nccl_price sim_nccl_price_of_loads(const struct sim_placement *placement, enum sim_collective kind,
                                              unsigned axes, double bytes);
/* Seconds of one collective; bytes are one device's operand. With zero bytes it is the latency. */
double sim_collective_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes);
/* MoE dispatch between GPU nodes as DeepEP does it: a token is sent once to each device with one of its experts, and
 * between nodes once to each such node. bytes: one device's rows, one for each selected expert of a token. */
double sim_dispatch_s(const struct sim_placement *placement, unsigned axes, double bytes, double selected);
/* sim_collective_s for a decode step, whose collectives of a few KiB are bound by hops. A group that is a box of a
 * torus uses one dimension after another, so that hops are the sum of its sides (jax-ml/scaling-book sharding.md: the
 * floor of a collective over several axes). Training steps are priced as calibrated. */
double sim_small_collective_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes,
                              double bytes);
/* Seconds of a simulated collective. On NCCL's GPUs the simulation gives the links' rate, and NCCL's protocols the
 * rest. */
double sim_lowered_s(const struct sim_placement *placement, const struct sim_link_cost *wire, enum sim_collective kind,
                     unsigned axes, double bytes);
/* Algorithms of a collective: one that uses a single ring on a sound network does so on a broken one, too. */
enum sim_routes sim_routes_of(const struct sim_placement *placement, enum sim_collective kind, unsigned axes);
/* True if the price is exact: rings along one dimension of a torus that load all of its links alike. Elsewhere the mean
 * load approximates several rings with uneven links. */
bool sim_price_is_exact(const struct sim_placement *placement, enum sim_collective kind, unsigned axes);

/* ---- one collective, link by link (simulated.c) ---- */

struct sim_network {
    struct topo_network links;
    struct sim_link_rates rates;
    double permute_start_s; /* in place of the rates' */
};
/* The links of a topology with the profile's rates. BASE_INPUT: a link has no known bandwidth. */
enum base_status sim_network_build(struct base_arena *arena, const struct topo_topology *topology,
                                   const struct sim_profile *profile, struct sim_network *out,
                                   struct base_error *error);
/* All groups over a set of axes. The mesh has its devices. */
void sim_groups_find(struct base_arena *arena, const struct sim_network *network, const struct topo_mesh *mesh,
                     unsigned axes, struct sim_groups *out);

struct sim_simulated {
    enum sim_algorithm algorithm;
    struct sim_traffic traffic;
};
enum base_status sim_link_cost_build(struct base_arena *arena, const struct sim_network *network,
                                     const struct sim_groups *groups, enum sim_collective kind, enum sim_routes routes,
                                     struct sim_link_cost *out, struct base_error *error);
/* One that takes no longer than either, for any number of bytes. */
struct sim_link_cost sim_link_cost_least(const struct sim_link_cost *a, const struct sim_link_cost *b);
/* The fastest of them. */
double sim_link_cost_s(const struct sim_link_cost *wire, double bytes);
/* bytes: one device's operand. BASE_INPUT: the algorithm does not do that. */
enum base_status sim_simulate(struct base_arena *arena, const struct sim_network *network,
                              const struct sim_groups *groups, enum sim_collective kind, enum sim_algorithm algorithm,
                              double bytes, struct sim_simulated *out, struct base_error *error);
/* By the algorithm that takes least time, of those that such hardware runs. */
enum base_status sim_simulate_fastest(struct base_arena *arena, const struct sim_network *network,
                                      const struct sim_groups *groups, enum sim_collective kind, enum sim_routes routes,
                                      double bytes, struct sim_simulated *out, struct base_error *error);

/* ---- also used by bounds on predictions (pricing.c) ---- */

/* Seconds of so many bytes of a device's memory, of so many FLOP of its matrix units in bfloat16, and of starting so
 * many kernels. */
static inline double sim_memory_s(const struct sim_profile *profile, double bytes)
{
    return bytes / (profile->constants[SIM_HBM_BYTES_PER_S] * profile->constants[SIM_HBM_EFFICIENCY_FRAC]);
}
static inline double sim_matmul_s(const struct sim_profile *profile, double flop)
{
    return flop / (profile->constants[SIM_FLOP_PER_S] * profile->constants[SIM_MATMUL_EFFICIENCY_FRAC]);
}
static inline double sim_launches_s(const struct sim_profile *profile, double launches)
{
    return launches * profile->constants[SIM_KERNEL_LATENCY_S];
}
/* The constant that says the rate of products in it as a share of bfloat16's; -1: they are as fast. */
int sim_rate_constant(enum model_dtype dtype);
/* The rate of products in a dtype, of that in bfloat16; where no source gives it, the same (kernel_prices.c). */
double sim_rate_frac(const struct sim_profile *profile, enum model_dtype dtype);
/* Fragmentation of an allocator for so many transient bytes. */
static inline double sim_fragments_bytes(const struct sim_profile *profile, double bytes)
{
    return floor(bytes * profile->constants[SIM_FRAGMENTATION_FRAC]);
}

/* A contraction's local extents. */
struct sim_product {
    double batch, rows, columns, contracted;
};
/* FLOPs of a product on matrix units, with padding. */
double sim_product_flop(const struct sim_profile *profile, const struct sim_product *product);
/* The same of a TPU's product of sorted tokens with a matrix for each expert, the product's batch. sums_tokens: of the
 * matrices' gradients. */
double sim_grouped_product_flop(const struct sim_profile *profile, const struct sim_product *product, bool sums_tokens);
/* gpu_products.c. A flash attention kernel's rate relative to a product's; at least 0. causal: masked blocks are
 * skipped. */
double sim_attention_share(const struct sim_profile *profile, enum model_direction direction);
/* The share of a causal attention's products in blocks behind the diagonal, which a flash kernel skips. */
double sim_masked_frac(const struct sim_profile *profile);
/* The same on a GPU: as many FLOP as its multiprocessors could do while they work through the tiles. */
double sim_tiled_product_flop(const struct sim_profile *profile, const struct sim_product *product);

#endif
