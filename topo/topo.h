/* topo: hardware. Chips, slices and GPU clusters as data; device coordinates, wraparound, hosts and links; T5X's
 * meshes with their error cases. Semantics follow T5X's partitioning (google-research/t5x), cited where they matter. */
#ifndef TOPO_H
#define TOPO_H

#include "base/base.h"

enum topo_kind { TOPO_TPU, TOPO_GPU, TOPO_CPU, TOPO_LOCAL };

/* One row of chips.csv. A rate that the source does not give is 0; using it is an error that names it. Figures are
 * per chip; divide by jax_devices_per_chip for one device. */
struct topo_chip {
    const char *name;        /* "v4" */
    const char *full_name;   /* "TPU v4" */
    const char *device_kind; /* JAX's name for it; only TPUs */
    enum topo_kind kind;
    int cores_per_chip;
    int jax_devices_per_chip;
    double bf16_flop_per_s; /* of the whole chip */
    double int8_op_per_s, fp8_flop_per_s;
    int64_t hbm_bytes; /* vendor's figure */
    double hbm_bytes_per_s;
    double xla_hbm_limit_bytes_per_device; /* limit for one program under XLA; 0: unknown */
    double xla_reserved_bytes_per_device;  /* what XLA reserves outside of that */
    double xla_window_rows; /* with N the devices that gather or scatter a product's bfloat16 weight: the product is a
                               windowed einsum from this many rows / N per device; 0: never (asked of libtpu 0.0.42) */
    int xla_keeps_exponentials; /* an unrolled softmax keeps the quotient and, 1: the exponentials, 2: the scores; 0:
                                   only the scores (peak dumps of libtpu 0.0.42, decoders of 12 layers) */
    double xla_most_summed_elements; /* below this many scores, the product that makes them also sums them by rows; 0:
                                        always (dumps of libtpu 0.0.42: on v5p yes at 0.6 to 1.3e9, no from 2.5e9) */
    int xla_async_gathers;           /* 1: all-gathers overlap computation; 0: they block */
    int xla_async_sums;              /* the same for all-reduces (dumps of libtpu 0.0.42: v5e alone, and TPU7x alone) */
    int xla_keeps_shards; /* 1: Shardy makes resharding explicit, so that a product stays where its larger operand is
                             sharded. A table with sharded columns moves to the rows that look it up. A sum is
                             scattered, over all devices, too, even if several ops read its parts. 0: all rows are
                             gathered, and such sums are all-reduced (asked of libtpu 0.0.42 with models of two layers
                             on 4 to 64 devices of TPU7x, v5p and v6e, and its partitioner dumps) */
    double xla_most_logits_bytes; /* below this size the gradient of the logits is a separate bfloat16 array; otherwise,
                                     and if this is 0, the products that read it recompute it from the logits (libtpu
                                     0.0.42's dumps of TPU7x: separate up to 1.04e10 bytes, not at 1.25e10) */
    int xla_tile_rows;   /* rows of 128 elements in the smallest tile of an argument (libtpu 0.0.42's layouts) */
    int xla_table_bytes; /* a step's result table is rounded up to a multiple of this (libtpu 0.0.42's dumps) */
    int mxu_dim;         /* side of a matrix unit: 128 or 256; 0 on GPUs */
    int link_count;      /* ICI links of a TPU chip; NVLink links of a GPU */
    double link_oneway_bytes_per_s; /* usable, one link, one direction */
    double link_nominal_bytes_per_s;
    double host_link_bytes_per_s;      /* PCIe, one direction */
    double host_memory_bytes_per_chip; /* the chip's equal share of host memory; 0: unknown, or the owner's choice */
    double dcn_bytes_per_s;            /* data-center network, per chip */
    int domain_size;                   /* GPUs in one NVLink domain */
    int nics_per_node;                 /* of a host in the catalogue; of all hosts of a node in a topology */
    double nic_bytes_per_s;
    double nic_latency_s; /* of a step between nodes, on top of NCCL's cost model, which is the same for all cards */
    double collective_latency_s; /* fixed cost of one collective */
    double collective_efficiency_frac, matmul_efficiency_frac, hbm_efficiency_frac;
    const char *fabric;            /* the chips' interconnect, in words */
    int torus_rank;                /* 2 or 3 on TPUs, local:AxB and local:AxBxC, else 0 */
    int wrap_multiple, wrap_exact; /* a dimension wraps if all are multiples of the first, or if it equals the second */
    int pod_chips;                 /* the largest machine ever built; 0: unknown */
    int host_shape[3];  /* chips of one host along x, y, z; for GPUs the host's GPU count, if NVLink joins several hosts
                         */
    int chips_per_host; /* the product of host_shape; 0: unknown */
    const char *assumed; /* names of constants that no source gives and nobody measured, as in profiles */
    const char *confidence, *source;
    const char *xla_source; /* of the columns that start with xla_ */
};

/* One row of slices.csv: a cloud accelerator type. */
struct topo_slice {
    const char *accelerator_type; /* "v4-512" */
    const char *chip;             /* name in chips.csv */
    int shape[3];                 /* chips along x, y, z */
    bool wrap[3];
    int chip_count, device_count, core_count, host_count;
    bool twistable; /* the vendor also offers this shape as a twisted torus */
    const char *confidence, *source;
};

struct topo_topology {
    char name[128]; /* as given by the user */
    enum topo_kind kind;
    struct topo_chip chip; /* a copy, because @key=value may change it */
    int bounds[4]; /* TPU: x, y, z, devices per chip (c). GPU, CPU, local:N: processes, local devices, 1, 1. local:AxB:
                      x, y, 1, 1; local:AxBxC: x, y, z, 1 */
    int bounds_count; /* 4, 3 for local:AxBxC, or 2 if a device is (process, local) or (x, y) */
    int host[4];      /* the box of one host, in the same axes */
    bool wrap[3];     /* torus dimensions that wrap around */
    bool twisted;
    int twist[3][3]; /* twisted torus: wrapping up around the first dimension also moves this far up the second */
    int slice_count; /* joined by the data-center network */
    int devices_per_slice;
    int device_count;
};

/* Common spellings of a topology, "8xH100", "32 v4 chips", "h100-80gb:1x8", rewritten for topo_parse, which accepts
 * both. Other text is returned unchanged. In the arena. */
const char *topo_spelled(struct base_arena *arena, const char *text);
/* The topology of this many chips, "h100:8x8", "v4-64". NULL: not whole nodes, or not a listed slice. In the arena. */
const char *topo_devices_name(struct base_arena *arena, const struct topo_chip *chip, int64_t count);
/* A TOPOLOGY: accelerator type, generation:shape, GPU nodes, local:N, cpu:PxL, with @key=value,… */
enum base_status topo_parse(struct base_arena *arena, const char *text, struct topo_topology *out,
                            struct base_error *error);
/* Hosts in a GPU node: NVLink may join several hosts, each with its own network cards. A GB200 NVL72 has 18 hosts of
 * four GPUs. */
int topo_hosts_of_node(const struct topo_topology *topology);
/* Warning about hosts that NVLink would join but that do not divide evenly among its domains. NULL: none. */
const char *topo_unjoined_hosts(struct base_arena *arena, const struct topo_topology *topology);
/* The chip with this name in common spellings: "v4", "tpu_v4", "V5e". BASE_INPUT: the message says what to use. */
enum base_status topo_chip_called(struct base_arena *arena, const char *name, const struct topo_chip **out,
                                  struct base_error *error);
/* The catalogue, sorted as in its files. */
const struct topo_chip *topo_chips(int *count);
const struct topo_slice *topo_slices(int *count);
const struct topo_slice *topo_slices_of(const char *chip, int *count); /* of one chip, the smallest first */
/* The accelerator type with a TPU slice's shape; NULL: none is listed, or these are no TPUs. */
const struct topo_slice *topo_slice_of_shape(const struct topo_topology *topology);
/* The next larger topology of the same chips. TPUs: the accelerator type with the fewest devices above device_count.
 * GPUs: twice the nodes. The name is in the arena or static; NULL: none. */
const char *topo_next_larger(struct base_arena *arena, const struct topo_topology *topology, int *device_count);

/* ---- named axes (mesh_axes.c) ---- */

enum { TOPO_MOST_AXES = 16 };

/* The axes of a logical mesh, slowest first. A set of axes is a bit mask: bit i is axis i. */
struct topo_axes {
    int count;
    const char *names[TOPO_MOST_AXES];
    int sizes[TOPO_MOST_AXES]; /* devices along each, at least 1 */
};

/* Reads "data=2,fsdp=4,tensor=2" or the JSON object {"data": 2, "fsdp": 4}; the arena owns the names. what: the
 * option or key, for messages. BASE_INPUT: invalid, a duplicate name, or too many axes or devices. */
enum base_status topo_axes_parse(struct base_arena *arena, const char *text, const char *what, struct topo_axes *out,
                                 struct base_error *error);
/* The same text with an axis size of -1 replaced by what the others leave of `devices`. In the arena. */
enum base_status topo_axes_fill(struct base_arena *arena, const char *text, const char *what, int devices,
                                const char **out, struct base_error *error);
/* Adds a last, fastest axis. Keeps the name without copying it. */
enum base_status topo_axes_add(struct topo_axes *axes, const char *name, int64_t size, struct base_error *error);
int topo_axis_named(const struct topo_axes *axes, const char *name);    /* -1: the mesh has no such axis */
unsigned topo_axis_bit(const struct topo_axes *axes, const char *name); /* as a set; 0: it has none */
/* Fails with BASE_INPUT: the axis is unknown; lists the axes. */
enum base_status topo_axis_unknown(const struct topo_axes *axes, const char *name, struct base_error *error);
unsigned topo_axes_all(const struct topo_axes *axes);              /* the set of all axes */
int topo_axes_product(const struct topo_axes *axes, unsigned set); /* devices in a group; 1 for the empty set */
/* The extent of a dimension on one device if the set of axes shards it, with padding. */
int64_t topo_shard_extent(const struct topo_axes *axes, unsigned set, int64_t extent);
/* Mesh offset of a group's n-th member from its first. Groups and members are row-major over all axes. */
int topo_axes_offset(const struct topo_axes *axes, unsigned set, int n);
/* "data+model", in mesh order; "" for the empty set. In the arena, or static. */
const char *topo_axes_spell(struct base_arena *arena, const struct topo_axes *axes, unsigned set);
/* "data=2,fsdp=4", readable by topo_axes_parse. In the arena. */
const char *topo_axes_sizes(struct base_arena *arena, const struct topo_axes *axes);
/* The set with other text between the names, for example "data and model". */
const char *topo_axes_join(struct base_arena *arena, const struct topo_axes *axes, unsigned set, const char *between);
/* "data 4 x model 2": the mesh for people. In the arena. */
const char *topo_axes_describe(struct base_arena *arena, const struct topo_axes *axes);
/* {"data": 2, "model": 4} on one line, as a member of an object. */
void topo_axes_put_member(struct base_json_writer *writer, const char *key, const struct topo_axes *axes);
/* Reads "data+model" in any order. BASE_INPUT: an unknown axis, or a duplicate. */
enum base_status topo_axes_read(const struct topo_axes *axes, const char *text, unsigned *set,
                                struct base_error *error);

/* ---- meshes (mesh.c) ---- */

/* A logical mesh: the device at each position. */
struct topo_mesh {
    struct topo_axes axes; /* T5X's data and model, with replica first for several slices; or the user's own axes */
    int device_count;
    int coordinate_count;          /* 2 (process, local), 3 (x, y, z), 4 (x, y, z, c) or 5 (slice first) */
    int (*devices)[5];             /* row-major, last axis fastest; owned by the arena; NULL if not requested */
    int submesh[8], submesh_count; /* the tiled model_parallel_submesh, given or from T5X's table; 0: none */
    const char *order;             /* how T5X or JAX ordered the devices: "host_tiled", "zmajor_yz", "torus", … */
};

/* The JAX release whose device order a mesh of named axes has: 0.11.1, or 0.8.2 to before 0.11.1. */
enum topo_jax { TOPO_JAX_0_11_1, TOPO_JAX_BEFORE };
/* Reads a release, "0.8.2" up to the newest known one, or "latest". what: the option or key, for messages.
 * BASE_INPUT: no such release. */
enum base_status topo_jax_parse(const char *text, const char *what, enum topo_jax *out, struct base_error *error);
const char *topo_jax_release(enum topo_jax jax); /* a release with that order; NULL: the newest */
struct topo_mesh_request {
    int submesh[8], submesh_count;            /* model_parallel_submesh; count 0: not given */
    int64_t num_partitions;                   /* 0: not given */
    int ici[4], ici_count, dcn[4], dcn_count; /* T5X's ici_mesh_shape, dcn_mesh_shape: replica, data, model */
    bool tile_by_host_if_needed;              /* T5X's default is true */
    /* A mesh of named axes in the device order of jax.experimental.mesh_utils; count 0: not given. It takes
     * precedence over the other settings. dcn_mesh: over slices or, on GPUs and CPUs, over processes; its axes are
     * axes of ici_mesh. */
    struct topo_axes ici_mesh, dcn_mesh;
    bool split_physical_axes, contiguous_submeshes; /* arguments of create_device_mesh */
    enum topo_jax jax;
    /* T5X's MoE partitioner (t5x/contrib/moe/partitioning.py): the mesh of a submesh or of num_partitions, with its
     * data axis split into data and expert. num_expert_partitions is as configured: it need not divide. */
    bool has_experts;
    int64_t num_expert_partitions;
};
/* T5X's default_mesh, or JAX's mesh of named axes. BASE_INPUT: rejected; the message has the condition. The tuner
 * asks for thousands of shapes, hence TOPO_SHAPE_ALONE. */
enum topo_extent { TOPO_WITH_DEVICES, TOPO_SHAPE_ALONE /* leaves out the devices */ };
enum base_status topo_mesh_build(struct base_arena *arena, const struct topo_topology *topology,
                                 const struct topo_mesh_request *request, enum topo_extent extent,
                                 struct topo_mesh *out, struct base_error *error);

/* The devices that ici_mesh covers: of one slice or process if dcn_mesh is given, otherwise all. */
enum topo_dcn_mesh { TOPO_WITHOUT_DCN_MESH, TOPO_WITH_DCN_MESH };
int topo_ici_device_count(const struct topo_topology *topology, enum topo_dcn_mesh dcn_mesh);

/* ---- data layout (data_layout.c): the part of a global batch that each host reads ---- */

/* The input of one process (host). Processes are numbered host by host, x fastest, slice by slice; on nodes in node
 * order. */
struct topo_process_layout {
    int shard_id;              /* its part of the batch, from 0 */
    bool first_in_replica_set; /* first of the processes with the same part; T5X saves the data position of this one */
};

struct topo_data_layout {
    bool has_batch_size; /* false: the batch is not sharded and no size was requested */
    int64_t batch_size;  /* sequences of the global batch */
    int num_shards;      /* parts of the batch; each has batch_size / num_shards sequences */
    int process_count;
    const struct topo_process_layout *processes; /* owned by the arena */
};

/* T5X's PjitPartitioner.get_data_layout for all processes at once. axes: the mesh axes that shard the batch, in the
 * rule's order; none: every process reads the whole batch. batch_size 0: the number of devices along those axes. The
 * mesh must have its devices. BASE_INPUT: an unknown or duplicate axis, an indivisible batch size, or a process
 * whose devices are not a contiguous box of the mesh. */
enum base_status topo_data_layout_find(struct base_arena *arena, const struct topo_topology *topology,
                                       const struct topo_mesh *mesh, const char *const *axes, int axis_count,
                                       int64_t batch_size, struct topo_data_layout *out, struct base_error *error);

/* ---- routes on a torus (routes.c) ---- */

static inline int topo_chips_of_slice(const struct topo_topology *t)
{
    return t->bounds[0] * t->bounds[1] * t->bounds[2];
}
bool topo_closes(const struct topo_topology *topology, int dimension); /* its last chip links to its first */
/* Moves to the neighbour along a dimension, up (0) or down (1), with wraparound. */
void topo_step(const struct topo_topology *topology, int at[3], int dimension, int direction);

/* The shortest routes between two chips, as signed steps along x, y and z in this order. Messages use all of them in
 * equal shares. There are several if both directions of a ring are equally long, or if a twist makes two
 * combinations of wraps equally long. A torus of ranks then goes up: its routes are static. */
enum { TOPO_MOST_WAYS = 32 };
struct topo_ways {
    int count, length, steps[TOPO_MOST_WAYS][3];
};
void topo_shortest_ways(const struct topo_topology *topology, const int from[3], const int to[3],
                        struct topo_ways *out);

/* ---- the network, link by link (network.c) ---- */

enum topo_link_kind { TOPO_LINK_ICI, TOPO_LINK_NVLINK, TOPO_LINK_NIC, TOPO_LINK_HOST, TOPO_LINK_DCN };
enum { TOPO_LINK_KINDS = TOPO_LINK_DCN + 1 };

/* One direction of a link. Node numbers: first device nodes (a chip for its cores, x fastest; a GPU, node by node),
 * then hosts, switches and network cards. */
struct topo_link {
    int from, to;
    enum topo_link_kind kind;
    unsigned char dimension; /* ICI: its dimension */
    bool down;               /* ICI: towards smaller coordinates */
    double width;            /* in units of its kind: a host's uplink counts once for each of its chips */
};

struct topo_network {
    struct topo_topology topology;
    struct base_arena *arena;
    bool torus;
    int device_nodes, node_count;
    struct topo_link *links;
    int link_count, link_capacity;
    /* private to network.c: index of the first link of each kind */
    int *torus_links, *host_of;
    int first_host_link, first_uplink, cards;
};
bool topo_has_torus(const struct topo_topology *topology); /* a TPU slice or a torus of ranks */
void topo_network_build(struct base_arena *arena, const struct topo_topology *topology, struct topo_network *out);
/* The node of a mesh's device. Cores of one chip share a node: messages between them cross no link. */
int topo_network_node(const struct topo_network *network, const int *device, int coordinate_count);
void topo_network_place(const struct topo_network *network, int node, int *slice, int at[3]); /* of a chip on a torus */

/* The routes of a message, in equal shares. The links of path i are end[i-1] (0 for the first) to end[i]. Zero it
 * before the first use, then reuse it; its memory comes from the network's arena. */
struct topo_paths {
    int count, end[TOPO_MOST_WAYS], *links, capacity;
};
/* Routes between device nodes; none if they are the same node. */
void topo_network_paths(const struct topo_network *network, int from, int to, struct topo_paths *paths);

/* ---- links (links.c) ---- */

/* The load that one ring collective of every group of a mesh axis puts on the torus, all groups at once. A load is
 * the number of ring edges that cross a directed link; an edge stands for the bytes of one ring step. */
struct topo_ring_load {
    int group_size;
    int hops;               /* along one group's closed ring, all steps together */
    int walk_hops;          /* the same if a box-shaped group goes dimension by dimension; at most hops */
    double busiest_link;    /* half of the bytes in each direction */
    double busiest_one_way; /* all bytes in one direction */
    double mean_link;       /* mean over the directed links of the dimensions that the groups span */
    double exchange_link;   /* all-to-all: operands of a device on a directed link at the busiest place of the busiest
                               dimension. Messages take the shortest routes, by dimension; the mean over the lines along
                               it. Twisted torus: the mean over all its links */
    int exchange_hops;      /* links crossed by the farthest message of an all-to-all */
    int dimension_count;    /* number of these dimensions */
    bool has_all_chips;     /* a group has all chips of these dimensions */
    bool has_whole_rings;   /* and all of these dimensions wrap around */
    bool is_equal_sided;    /* these dimensions have equally many chips */
};
/* axes: a set of mesh axes. The mesh must have its devices. Only for TPU slices and tori of ranks. */
void topo_ring_loads(struct base_arena *arena, const struct topo_topology *topology, const struct topo_mesh *mesh,
                     unsigned axes, struct topo_ring_load *out);

#endif
