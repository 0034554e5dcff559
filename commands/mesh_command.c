/* `mesh`: which device stands where in a mesh of T5X, or of named axes as JAX orders it. */
#include "commands/commands.h"
#include "commands/table.h"

#include <string.h>

/* ---- the answer ---- */

static void mesh_json(const struct topo_mesh *mesh, struct base_json_writer *writer)
{
    base_json_open(writer, '{');
    base_json_member_strings(writer, "axes", mesh->axes.names, mesh->axes.count);
    base_json_member_ints(writer, "shape", mesh->axes.sizes, mesh->axes.count);
    if (mesh->submesh_count)
        base_json_member_ints(writer, "model_parallel_submesh", mesh->submesh, mesh->submesh_count);
    base_json_member_string(writer, "order", mesh->order);
    base_json_member_open(writer, "devices", '[');
    for (int i = 0; i < mesh->device_count; i++) base_json_put_ints(writer, mesh->devices[i], mesh->coordinate_count);
    base_json_close(writer, ']');
    base_json_close(writer, '}');
}

static const char *order_meaning(const char *order)
{
    static const char *const meanings[][2] = {
        {"host_tiled", "hosts first, then the devices of a host"},
        {"zmajor_yz", "z before y, since the submesh spans whole dimensions; hosts are not tiled"},
        {"zmajor_xz", "z before x, since the submesh spans whole dimensions; hosts are not tiled"},
        {"row_major", "the first coordinate slowest"},
        {"node_by_node", "the model axis fills a node, then spans nodes"},
        {"process_by_process", "one row a process; T5X ignores num_partitions on CPU hosts"},
        {"torus", "each mesh axis uses whole dimensions of the torus"},
        {"split_torus", "mesh axes share dimensions of the torus"},
        {"contiguous", "whole dimensions of the torus, in compact boxes"},
        {"ring", "JAX's ring order of this slice"},
        {"listed", "the devices as JAX lists them, process by process"},
    };
    for (int i = 0; i < BASE_COUNT(meanings); i++)
        if (!strcmp(meanings[i][0], order)) return meanings[i][1];
    return order;
}

/* People see a corner of a large mesh; --json has all of it. */
enum { ROWS_SHOWN = 16, COLUMNS_SHOWN = 16 };

static void mesh_rows(const struct topo_mesh *mesh, struct base_text *out)
{
    int columns = mesh->axes.sizes[mesh->axes.count - 1], rows = mesh->device_count / columns;
    unsigned slower = topo_axes_all(&mesh->axes) >> 1;
    const char *names = topo_axes_join(out->arena, &mesh->axes, slower, ",");
    for (int r = 0; r < rows && r < ROWS_SHOWN; r++) {
        struct base_text label = {.arena = out->arena};
        int at[TOPO_MOST_AXES];
        for (int i = mesh->axes.count - 2, rest = r; i >= 0; rest /= mesh->axes.sizes[i--])
            at[i] = rest % mesh->axes.sizes[i];
        base_putf(&label, "%s ", names);
        commands_join_numbers(&label, at, mesh->axes.count - 1, ",");
        base_putf(out, "  %-16s", label.data);
        for (int c = 0; c < columns && c < COLUMNS_SHOWN; c++) {
            base_put(out, "  ");
            commands_join_numbers(out, mesh->devices[r * columns + c], mesh->coordinate_count, ",");
        }
        base_put(out, columns > COLUMNS_SHOWN ? "  …\n" : "\n");
    }
    if (rows > ROWS_SHOWN || columns > COLUMNS_SHOWN)
        base_putf(out, "  … (%d rows of %d in all: --json lists them)\n", rows, columns);
}

static const char *coordinate_names(const struct topo_topology *topology, const struct topo_mesh *mesh)
{
    if (mesh->coordinate_count == 5) return "slice,x,y,z,core";
    if (mesh->coordinate_count == 4) return "x,y,z,core";
    if (mesh->coordinate_count == 3) return "x,y,z";
    return topology->chip.torus_rank ? "x,y" : topology->kind == TOPO_GPU ? "node,GPU" : "process,device";
}

static void mesh_text(const struct topo_topology *topology, const struct topo_mesh *mesh, struct base_text *out)
{
    base_putf(out, "%s: %d device%s\nmesh: %s\n", topology->name, mesh->device_count,
              mesh->device_count == 1 ? "" : "s", topo_axes_describe(out->arena, &mesh->axes));
    if (mesh->submesh_count) {
        base_put(out, "model_parallel_submesh: ");
        commands_join_numbers(out, mesh->submesh, mesh->submesh_count, ",");
        base_put(out, "\n");
    }
    base_putf(out, "order: %s (%s)\n\ndevices (%s), one line a %s group:\n", mesh->order, order_meaning(mesh->order),
              coordinate_names(topology, mesh), mesh->axes.names[mesh->axes.count - 1]);
    mesh_rows(mesh, out);
}

enum base_status commands_mesh_run(struct commands_context *context, const struct base_arguments *arguments,
                                   struct base_text *out, struct base_error *error)
{
    struct commands_mesh asked;
    BASE_TRY(commands_read_mesh(context->arena, arguments, &asked, error));
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) mesh_json(&asked.mesh, &writer);
    else mesh_text(&asked.topology, &asked.mesh, out);
    return BASE_OK;
}
