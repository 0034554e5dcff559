/* The part of a global batch that each host reads: T5X's get_data_layout (t5x/partitioning.py), applied to the boxes
 * that the hosts' devices form in the mesh (JAX's local mesh). A shard's number follows the mesh, not the process
 * number. */
#include "topo/topo.h"

#include <string.h>

enum { AXES = TOPO_MOST_AXES };

/* The mesh positions of one process's devices. */
struct box {
    int low[AXES], high[AXES], device_count;
};

/* ---- boxes ---- */

static int process_of(const struct topo_topology *topology, const struct topo_mesh *mesh, int device)
{
    bool sliced = mesh->coordinate_count == 5;
    const int *place = mesh->devices[device] + sliced, *bounds = topology->bounds, *host = topology->host;
    int process = 0, weight = 1;
    for (int i = 0; i < topology->bounds_count; i++) {
        process += place[i] / host[i] * weight;
        weight *= bounds[i] / host[i];
    }
    return sliced ? process + mesh->devices[device][0] * weight : process;
}

static int count_processes(const struct topo_topology *topology)
{
    int per_host = 1;
    for (int i = 0; i < topology->bounds_count; i++) per_host *= topology->host[i];
    return topology->device_count / per_host;
}

static struct box *find_boxes(struct base_arena *arena, const struct topo_topology *topology,
                              const struct topo_mesh *mesh, int process_count)
{
    struct box *boxes = base_new(arena, struct box, process_count);
    for (int device = 0; device < mesh->device_count; device++) {
        struct box *box = &boxes[process_of(topology, mesh, device)];
        for (int axis = mesh->axes.count - 1, rest = device; axis >= 0; rest /= mesh->axes.sizes[axis], axis--) {
            int at = rest % mesh->axes.sizes[axis];
            if (box->device_count == 0 || at < box->low[axis]) box->low[axis] = at;
            if (box->device_count == 0 || at > box->high[axis]) box->high[axis] = at;
        }
        box->device_count++;
    }
    return boxes;
}

static int extent(const struct box *box, int axis)
{
    return box->high[axis] - box->low[axis] + 1;
}

static enum base_status check_boxes(const struct topo_mesh *mesh, const struct box *boxes, int process_count,
                                    struct base_error *error)
{
    for (int process = 0; process < process_count; process++) {
        const struct box *box = &boxes[process];
        int64_t volume = 1;
        bool alike = true;
        for (int axis = 0; axis < mesh->axes.count; axis++) {
            volume *= extent(box, axis);
            alike = alike && extent(box, axis) == extent(&boxes[0], axis);
        }
        if (volume != box->device_count)
            return base_fail(error, BASE_INPUT,
                             "layout: devices connected to a single host must form a contiguous subcube of the global "
                             "device mesh, and the %d devices of "
                             "process %d do not; use a mesh that tiles by hosts",
                             box->device_count, process);
        if (!alike)
            return base_fail(error, BASE_INPUT,
                             "layout: process %d holds another box of the mesh than process 0, so that they count "
                             "their shards differently; use "
                             "a mesh that tiles by hosts",
                             process);
    }
    return BASE_OK;
}

/* ---- shards ---- */

static enum base_status find_axes(const struct topo_mesh *mesh, const char *const *names, int count, int axes[AXES],
                                  struct base_error *error)
{
    unsigned taken = 0;
    for (int i = 0; i < count; i++) {
        const char *name = names[i] ? names[i] : "None";
        int axis = topo_axis_named(&mesh->axes, name);
        if (axis < 0) {
            topo_axis_unknown(&mesh->axes, name, error);
            return base_fail_in(error, "logical_axis_rules: batch");
        }
        if (taken >> axis & 1)
            return base_fail(error, BASE_INPUT,
                             "logical_axis_rules: batch uses the mesh axis %.60s twice; name it once", name);
        taken |= 1u << axis;
        axes[i] = axis;
    }
    return BASE_OK;
}

static enum base_status refuse_batch(int64_t batch_size, int64_t divisor, const char *what, struct base_error *error)
{
    int64_t lower = batch_size / divisor * divisor, upper = lower + divisor;
    if (lower == 0)
        return base_fail(error, BASE_INPUT,
                         "batch_size: batch size (%lld) must be divisible by corresponding %s (%lld); use %lld",
                         (long long)batch_size, what, (long long)divisor, (long long)upper);
    return base_fail(error, BASE_INPUT,
                     "batch_size: batch size (%lld) must be divisible by corresponding %s (%lld); use %lld or %lld",
                     (long long)batch_size, what, (long long)divisor, (long long)lower, (long long)upper);
}

/* The number of a process among those that differ along the axes: row-major, first axis slowest. */
static int number_along(const struct topo_mesh *mesh, const struct box *box, const int *axes, int count)
{
    int number = 0;
    for (int i = 0; i < count; i++)
        number = number * (mesh->axes.sizes[axes[i]] / extent(box, axes[i])) + box->low[axes[i]] / extent(box, axes[i]);
    return number;
}

static int remaining_axes(const struct topo_mesh *mesh, const int *axes, int count, int rest[AXES])
{
    int rest_count = 0;
    for (int axis = 0; axis < mesh->axes.count; axis++) {
        bool taken = false;
        for (int i = 0; i < count; i++) taken = taken || axes[i] == axis;
        if (!taken) rest[rest_count++] = axis;
    }
    return rest_count;
}

/* If no axis shards the batch, every process reads all of it, and T5X checks nothing. */
static void read_whole(struct topo_process_layout *processes, struct topo_data_layout *layout)
{
    layout->num_shards = 1;
    layout->has_batch_size = layout->batch_size > 0;
    processes[0].first_in_replica_set = true;
}

enum base_status topo_data_layout_find(struct base_arena *arena, const struct topo_topology *topology,
                                       const struct topo_mesh *mesh, const char *const *axes, int axis_count,
                                       int64_t batch_size, struct topo_data_layout *out, struct base_error *error)
{
    int at[AXES], rest[AXES];
    int64_t mesh_size = 1;
    struct topo_data_layout layout = {
        .has_batch_size = true, .batch_size = batch_size, .num_shards = 1, .process_count = count_processes(topology)};
    struct topo_process_layout *processes = base_new(arena, struct topo_process_layout, layout.process_count);
    layout.processes = processes;
    if (axis_count == 0) {
        read_whole(processes, &layout);
        *out = layout;
        return BASE_OK;
    }
    BASE_TRY(find_axes(mesh, axes, axis_count, at, error));
    struct box *boxes = find_boxes(arena, topology, mesh, layout.process_count);
    BASE_TRY(check_boxes(mesh, boxes, layout.process_count, error));
    for (int i = 0; i < axis_count; i++) {
        mesh_size *= mesh->axes.sizes[at[i]];
        layout.num_shards *= mesh->axes.sizes[at[i]] / extent(&boxes[0], at[i]);
    }
    if (batch_size == 0) layout.batch_size = mesh_size;
    if (layout.batch_size % mesh_size != 0) return refuse_batch(layout.batch_size, mesh_size, "data mesh size", error);
    if (layout.batch_size % layout.num_shards != 0)
        return refuse_batch(layout.batch_size, layout.num_shards, "number of data shards", error);
    int rest_count = remaining_axes(mesh, at, axis_count, rest);
    for (int process = 0; process < layout.process_count; process++) {
        processes[process].shard_id = number_along(mesh, &boxes[process], at, axis_count);
        processes[process].first_in_replica_set = number_along(mesh, &boxes[process], rest, rest_count) == 0;
    }
    *out = layout;
    return BASE_OK;
}
