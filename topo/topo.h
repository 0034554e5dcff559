/* topo: what hardware there is. Chips, slices and GPU clusters as data; device coordinates, wraps, hosts, links;
 * T5X's meshes with their refusals. Semantics: T5X's partitioning (google-research/t5x), named where they matter. */
#ifndef TOPO_H
#define TOPO_H

#include "base/base.h"

enum topo_kind { TOPO_TPU, TOPO_GPU, TOPO_CPU, TOPO_LOCAL };

/* One row of chips.csv. A rate that the source does not give is 0, and its use is an error that names it.
 * What is said of a chip is divided by jax_devices_per_chip for one device. */
struct topo_chip {
    const char *name;        /* "v4" */
    const char *full_name;   /* "TPU v4" */
    const char *device_kind; /* what JAX calls it; only TPUs */
    enum topo_kind kind;
    int cores_per_chip;
    int jax_devices_per_chip;
    double bf16_flop_per_s; /* of the whole chip */
    double int8_op_per_s, fp8_flop_per_s;
    int64_t hbm_bytes; /* vendor's figure for the chip */
    double hbm_bytes_per_s;
    double xla_hbm_limit_bytes_per_device; /* what XLA lets a program use; 0 unknown */
    double xla_reserved_bytes_per_device;  /* what XLA keeps beside it */
    double xla_window_rows;     /* a product whose bfloat16 weight is gathered or scattered over N devices is a windowed
                                   einsum from so many rows / N a device on; 0: never (libtpu 0.0.42 asked) */
    int xla_keeps_exponentials; /* of an unrolled model's softmax beside its quotient; 1: the exponentials, 2: the
                                   scores; 0: the scores alone (dumps of libtpu 0.0.42's peak, decoders of 12 layers) */
    double xla_most_summed_elements; /* scores of fewer are summed up by rows in the product that makes them; 0: any
                                        (libtpu 0.0.42's dumps: on v5p 0.6 to 1.3e9 were, 2.5e9 and more were not) */
    int xla_async_gathers; /* 1: all-gathers are on their way while others compute, 0: they are waited for at once */
    int xla_async_sums;    /* the same of all-reduces (libtpu 0.0.42's dumps: v5e alone, and TPU7x alone) */
    int xla_keeps_shards;  /* 1: Shardy makes moves explicit, so that a product stays where its larger operand is
                              sharded: a table of sharded columns goes to the rows that look it up, and a sum is
                              scattered, over all devices, too, and though several read its parts; 0: all rows are
                              gathered, and such sums are reduced whole (libtpu 0.0.42 asked: models of two layers on 4
                              to 64 devices of TPU7x, v5p and v6e, and its dumps of the partitioner) */
    double xla_most_logits_bytes; /* the gradient of the logits is an array of its own, in bfloat16, if it has fewer;
                                     else, and where this is 0, the products that read it work it out of the logits
                                     (libtpu 0.0.42's dumps of TPU7x: up to 1.04e10 bytes it was, 1.25e10 were not) */
    int xla_tile_rows;   /* of 128 elements, that the smallest tile of an argument has (libtpu 0.0.42's layouts) */
    int xla_table_bytes; /* what a table of a step's results is rounded up to (libtpu 0.0.42's dumps) */
    int mxu_dim;         /* side of a matrix unit: 128 or 256; 0 on GPUs */
    int link_count;      /* ICI links of a chip; NVLink links of a GPU */
    double link_oneway_bytes_per_s; /* usable, one direction, one link */
    double link_nominal_bytes_per_s;
    double host_link_bytes_per_s;      /* PCIe, one way */
    double host_memory_bytes_per_chip; /* of the host's memory, its chips' equal shares; 0: unknown, or the owner's
                                          choice */
    double dcn_bytes_per_s;            /* data-centre network, per chip */
    int domain_size;                   /* GPUs in one NVLink domain */
    int nics_per_node;                 /* of a host in the catalogue, of all hosts of a node in a topology */
    double nic_bytes_per_s;
    double nic_latency_s;        /* of a step between nodes, beside what NCCL reckons of any card */
    double collective_latency_s; /* fixed cost of one collective */
    double collective_efficiency_frac, matmul_efficiency_frac, hbm_efficiency_frac;
    const char *fabric; /* what joins the chips, in words */
    int torus_rank;     /* 2 or 3 on TPUs, local:AxB and local:AxBxC, else 0 */
    int wrap_multiple,
        wrap_exact;     /* a dim wraps iff every dim is a multiple of the first, or the dim equals the second */
    int pod_chips;      /* the largest machine that was built; 0 unknown */
    int host_shape[3];  /* chips of one host along x, y, z; of GPUs how many it has, where NVLink joins several hosts */
    int chips_per_host; /* their product; 0 where it is not said */
    const char *assumed; /* its constants that no source states and nobody measured, as profiles name them */
    const char *confidence, *source;
    const char *xla_source; /* of the columns that begin with xla_ */
};

/* One row of slices.csv: what a cloud accelerator type is. */
struct topo_slice {
    const char *accelerator_type; /* "v4-512" */
    const char *chip;             /* name in chips.csv */
    int shape[3];                 /* chips along x, y, z */
    bool wrap[3];
    int chip_count, device_count, core_count, host_count;
    bool twistable; /* the vendor offers this shape as a twisted torus, too */
    const char *confidence, *source;
};

struct topo_topology {
    char name[128]; /* as given */
    enum topo_kind kind;
    struct topo_chip chip; /* a copy: @key=value may change it */
    int bounds[4];         /* TPU: x, y, z, devices per chip (c). GPU, CPU, local:N: processes, local devices, 1, 1.
                            * local:AxB: x, y, 1, 1; local:AxBxC: x, y, z, 1 */
    int bounds_count;      /* 4, 3 on local:AxBxC, or 2 where a device is (process, local) or (x, y) */
    int host[4];           /* the box of one host, same axes */
    bool wrap[3];          /* torus dimensions that close */
    bool twisted;
    int twist[3][3]; /* of a twisted torus: the wrap of the first dimension, upwards, also leads so far up the second */
    int slice_count; /* joined by the data-centre network */
    int devices_per_slice;
    int device_count;
};

/* A topology as people write it, "8xH100", "32 v4 chips", "h100-80gb:1x8", in the words of topo_parse, which takes
 * both; other text comes back as it is. In the arena. */
const char *topo_spelled(struct base_arena *arena, const char *text);
/* The topology of so many chips, "h100:8x8", "v4-64"; NULL: no whole nodes, or no listed slice. In the arena. */
const char *topo_devices_name(struct base_arena *arena, const struct topo_chip *chip, int64_t count);
/* A TOPOLOGY of the contract: accelerator type, generation:shape, GPU nodes, local:N, cpu:PxL, with @key=value,… */
enum base_status topo_parse(struct base_arena *arena, const char *text, struct topo_topology *out,
                            struct base_error *error);
/* What NVLink joins may be several hosts, each with its own network cards: of a node of GPUs, how many it is. A GB200
 * NVL72 is 18 of four GPUs. */
int topo_hosts_of_node(const struct topo_topology *topology);
/* The chip that people call so: "v4", "tpu_v4", "V5e". BASE_INPUT says what to use. */
enum base_status topo_chip_called(struct base_arena *arena, const char *name, const struct topo_chip **out,
                                  struct base_error *error);
/* The catalogue, sorted as in its files. */
const struct topo_chip *topo_chips(int *count);
const struct topo_slice *topo_slices(int *count);
/* The next size up of the same chips: of TPUs the accelerator type with the fewest devices above device_count, of GPUs
 * twice as many nodes. The name lives in the arena or for ever; NULL: there is none. */
const char *topo_next_larger(struct base_arena *arena, const struct topo_topology *topology, int *device_count);

/* ---- named axes (mesh_axes.c) ---- */

enum { TOPO_MOST_AXES = 16 };

/* The axes of a logical mesh, the first slowest. Sets of them are bits: bit i is the axis i. */
struct topo_axes {
    int count;
    const char *names[TOPO_MOST_AXES];
    int sizes[TOPO_MOST_AXES]; /* devices along each, at least 1 */
};

/* "data=2,fsdp=4,tensor=2", or the JSON object {"data": 2, "fsdp": 4}; names live in the arena. what: the option or
 * key, for errors. BASE_INPUT: no such list, a name twice, too many axes or devices. */
enum base_status topo_axes_parse(struct base_arena *arena, const char *text, const char *what, struct topo_axes *out,
                                 struct base_error *error);
/* The same text with the size -1 of one axis filled: what the others leave of so many devices. In the arena. */
enum base_status topo_axes_fill(struct base_arena *arena, const char *text, const char *what, int devices,
                                const char **out, struct base_error *error);
/* One more axis, after the others, faster. The name is kept, not copied. */
enum base_status topo_axes_add(struct topo_axes *axes, const char *name, int64_t size, struct base_error *error);
int topo_axis_named(const struct topo_axes *axes, const char *name); /* -1: the mesh has no such axis */
/* The error that says so and lists the axes; returns BASE_INPUT. */
enum base_status topo_axis_unknown(const struct topo_axes *axes, const char *name, struct base_error *error);
unsigned topo_axes_all(const struct topo_axes *axes);              /* the set of all axes */
int topo_axes_product(const struct topo_axes *axes, unsigned set); /* devices in a group of a set: 1 for none */
/* What a device has of a dimension that a set of axes shards, padding included. */
int64_t topo_shard_extent(const struct topo_axes *axes, unsigned set, int64_t extent);
/* Where in the mesh the n-th member of a group stands, counted from the group's first; of all axes together, groups and
 * members are row-major. */
int topo_axes_offset(const struct topo_axes *axes, unsigned set, int n);
/* "data+model", in the order of the mesh; "" for no axis. In the arena, or a constant. */
const char *topo_axes_spell(struct base_arena *arena, const struct topo_axes *axes, unsigned set);
/* "data=2,fsdp=4", as topo_axes_parse reads it. In the arena. */
const char *topo_axes_sizes(struct base_arena *arena, const struct topo_axes *axes);
/* The set with other words between, "data and model". */
const char *topo_axes_join(struct base_arena *arena, const struct topo_axes *axes, unsigned set, const char *between);
/* "data 4 x model 2": what a mesh is, for people. In the arena. */
const char *topo_axes_describe(struct base_arena *arena, const struct topo_axes *axes);
/* "data+model" in any order. BASE_INPUT: an axis that the mesh lacks, or twice. */
enum base_status topo_axes_read(const struct topo_axes *axes, const char *text, unsigned *set,
                                struct base_error *error);

/* ---- meshes (mesh.c) ---- */

/* Which devices stand where in a logical mesh. */
struct topo_mesh {
    struct topo_axes axes; /* T5X's data and model, with replica before them over several slices; or a user's own */
    int device_count;
    int coordinate_count;          /* 2 (process, local), 3 (x, y, z), 4 (x, y, z, c) or 5 (slice first) */
    int (*devices)[5];             /* row-major, last axis fastest; owned by the arena; NULL when skipped */
    int submesh[8], submesh_count; /* the model_parallel_submesh that was tiled, given or from T5X's table; 0: none */
    const char *order;             /* how T5X or JAX ordered the devices: "host_tiled", "zmajor_yz", "torus", … */
};

/* Whose device order a mesh of named axes has: of jax 0.11.1, or from 0.8.2 to before it. */
enum topo_jax { TOPO_JAX_0_11_1, TOPO_JAX_BEFORE };
/* From a release, "0.8.2" to the newest that is known, or "latest". what: the option or key, for errors. BASE_INPUT:
 * no such release. */
enum base_status topo_jax_parse(const char *text, const char *what, enum topo_jax *out, struct base_error *error);
const char *topo_jax_release(enum topo_jax jax); /* one that has the order; NULL: the newest */
struct topo_mesh_request {
    int submesh[8], submesh_count;            /* model_parallel_submesh; count 0: not given */
    int64_t num_partitions;                   /* 0: not given */
    int ici[4], ici_count, dcn[4], dcn_count; /* T5X's ici_mesh_shape, dcn_mesh_shape: replica, data, model */
    bool tile_by_host_if_needed;              /* T5X's default is true */
    /* A mesh of named axes in the device order of jax.experimental.mesh_utils; count 0: not given. Given, it is what
     * counts. dcn_mesh: over slices, on GPUs and CPUs over processes; it names axes of ici_mesh. */
    struct topo_axes ici_mesh, dcn_mesh;
    bool split_physical_axes, contiguous_submeshes; /* of create_device_mesh */
    enum topo_jax jax;
    /* T5X's MoE partitioner (t5x/contrib/moe/partitioning.py): the mesh of a submesh or of num_partitions with its data
     * axis split into data and expert. As configured: it need not divide. */
    bool has_experts;
    int64_t num_expert_partitions;
};
/* T5X's default_mesh, or JAX's mesh of named axes; refusals carry their condition and are BASE_INPUT. The
 * planner asks for shapes by the thousand. */
enum topo_extent { TOPO_WITH_DEVICES, TOPO_SHAPE_ALONE /* devices are left out */ };
enum base_status topo_mesh_build(struct base_arena *arena, const struct topo_topology *topology,
                                 const struct topo_mesh_request *request, enum topo_extent extent,
                                 struct topo_mesh *out, struct base_error *error);

/* Devices that an ici_mesh is over: of a slice or process where a dcn_mesh is given, else all of them. */
enum topo_dcn_mesh { TOPO_WITHOUT_DCN_MESH, TOPO_WITH_DCN_MESH };
int topo_ici_device_count(const struct topo_topology *topology, enum topo_dcn_mesh dcn_mesh);

/* ---- data layout (data_layout.c): which part of a global batch each host reads ---- */

/* What one process (host) reads. Processes are numbered host by host, x fastest, slice by slice; on nodes in their
 * order. */
struct topo_process_layout {
    int shard_id;              /* its part of the batch, from 0 */
    bool first_in_replica_set; /* of the processes that read the same part, the one whose place in the data T5X saves */
};

struct topo_data_layout {
    bool has_batch_size; /* false: the batch is not sharded and no size was asked for */
    int64_t batch_size;  /* sequences of the global batch */
    int num_shards;      /* parts that it is read in; each has batch_size / num_shards sequences */
    int process_count;
    const struct topo_process_layout *processes; /* in the arena */
};

/* PjitPartitioner.get_data_layout of T5X for every process at once. axes: the mesh axes that shard the batch, in the
 * rule's order; none: every process reads all of it. batch_size 0: the number of devices along those axes. The mesh has
 * its devices. BASE_INPUT: an axis that the mesh lacks or that is a duplicate, a batch size that does not divide, a
 * process whose devices are no contiguous box of the mesh. */
enum base_status topo_data_layout_find(struct base_arena *arena, const struct topo_topology *topology,
                                       const struct topo_mesh *mesh, const char *const *axes, int axis_count,
                                       int64_t batch_size, struct topo_data_layout *out, struct base_error *error);

/* ---- ways over a torus (routes.c) ---- */

bool topo_closes(const struct topo_topology *topology, int dimension); /* its last chip has a link to its first */
/* To the neighbour along a dimension, up (0) or down (1), over the wrap where the line ends. */
void topo_step(const struct topo_topology *topology, int at[3], int dimension, int direction);

/* The shortest ways between two chips, as signed steps along x, y and z; they are gone in that order. Messages take all
 * of them in equal shares: there is more than one where half way round is as far either way, or where a twist makes two
 * combinations of wraps equally long. On a torus of ranks they go up then: its routes are static. */
enum { TOPO_MOST_WAYS = 32 };
struct topo_ways {
    int count, length, steps[TOPO_MOST_WAYS][3];
};
void topo_shortest_ways(const struct topo_topology *topology, const int from[3], const int to[3],
                        struct topo_ways *out);

/* ---- the network, link by link (network.c) ---- */

enum topo_link_kind { TOPO_LINK_ICI, TOPO_LINK_NVLINK, TOPO_LINK_NIC, TOPO_LINK_HOST, TOPO_LINK_DCN };
enum { TOPO_LINK_KINDS = TOPO_LINK_DCN + 1 };

/* One direction of a link. Nodes are numbered: those that devices stand at first (a chip for its cores, x fastest; a
 * GPU, node by node), then hosts, switches, network cards. */
struct topo_link {
    int from, to;
    enum topo_link_kind kind;
    unsigned char dimension; /* ICI: along which */
    bool down;               /* ICI: towards smaller coordinates */
    double width;            /* how many of its kind it is worth: a host's way out is one for each of its chips */
};

struct topo_network {
    struct topo_topology topology;
    struct base_arena *arena;
    bool torus;
    int device_nodes, node_count;
    struct topo_link *links;
    int link_count, link_capacity;
    /* private to network.c: where links of each kind begin */
    int *torus_links, *host_of;
    int first_host_link, first_uplink, cards;
};
bool topo_has_torus(const struct topo_topology *topology); /* a TPU slice, or a torus of ranks */
void topo_network_build(struct base_arena *arena, const struct topo_topology *topology, struct topo_network *out);
/* The node that a device of a mesh stands at. Cores of one chip share theirs: what they send each other crosses no
 * link. */
int topo_network_node(const struct topo_network *network, const int *device, int coordinate_count);
void topo_network_place(const struct topo_network *network, int node, int *slice, int at[3]); /* of a chip of a torus */

/* The ways of a message, in equal shares: links of path i stand from end[i-1] (0 for the first) to end[i]. Zeroed
 * before its first use, then used again and again; its memory comes from the network's arena. */
struct topo_paths {
    int count, end[TOPO_MOST_WAYS], *links, capacity;
};
/* Between nodes of devices; no path where they are one. */
void topo_network_paths(const struct topo_network *network, int from, int to, struct topo_paths *paths);

/* ---- links (links.c) ---- */

/* How one ring collective of every group of a mesh axis loads the torus, all groups at once. A load is the number of
 * ring edges that cross a directed link, each edge counting for the bytes of one ring step. */
struct topo_ring_load {
    int group_size;
    int hops;               /* of one group's closed loop, all steps together */
    int walk_hops;          /* the same where a group that is a box goes round dimension by dimension; at most hops */
    double busiest_link;    /* half of the bytes going round each way */
    double busiest_one_way; /* all bytes going round one way */
    double mean_link;       /* averaged over the directed links of the dimensions that the groups span */
    double exchange_link; /* of an all-to-all, operands of one device that cross a directed link at the busiest place of
                             the dimension where it is most, each message taking the shortest way, dimension by
                             dimension: the mean of the lines along it; of a twisted torus the mean of all its links */
    int exchange_hops;    /* links that the farthest message of an all-to-all crosses */
    int dimension_count;  /* how many dimensions that is */
    bool has_all_chips;   /* a group has all chips of these dimensions, */
    bool has_whole_rings; /* and each of them closes */
    bool is_equal_sided;  /* these dimensions have as many chips each */
};
/* axes: a set of the mesh's axes. The mesh has its devices. TPU slices and tori of ranks only. */
void topo_ring_loads(struct base_arena *arena, const struct topo_topology *topology, const struct topo_mesh *mesh,
                     unsigned axes, struct topo_ring_load *out);

#endif
