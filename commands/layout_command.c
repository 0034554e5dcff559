/* `layout`: which part of a global batch each host reads. */
#include "commands/commands.h"
#include "commands/table.h"

#include <string.h>

enum { PROCESSES_SHOWN = 32, LARGEST_BATCH = 1 << 30 };

/* The question, and the answer. */
struct reading {
    struct commands_mesh on;
    struct model_axes data_axis; /* mesh axes that shard the batch */
    struct topo_data_layout layout;
};

/* ---- the question ---- */

/* The mesh axes of the logical axis batch, as T5X's partitioner resolves them. */
static enum base_status find_data_axis(struct base_arena *arena, const char *text, bool over_slices,
                                       struct model_axes *out, struct base_error *error)
{
    static const char *const batch[] = {"batch"};
    struct model_rules rules;
    BASE_TRY(model_rules_parse(arena, text ? text : "standard:1,1", &rules, error));
    if (over_slices) rules = model_rules_over_slices(arena, &rules);
    BASE_TRY(model_resolve(&rules, batch, 1, MODEL_AXIS_IS_UNSHARDED, out, NULL, error));
    if (!out->unconstrained) return BASE_OK;
    return base_fail(error, BASE_INPUT, "logical_axis_rules: batch uses %s, which is no mesh axis; use data or null",
                     MODEL_UNCONSTRAINED);
}

static enum base_status read_layout(struct base_arena *arena, const struct base_arguments *arguments,
                                    struct reading *out, struct base_error *error)
{
    const struct topo_mesh_request *request = &out->on.request;
    int64_t batch_size = 0;
    BASE_TRY(commands_read_mesh(arena, arguments, &out->on, error));
    BASE_TRY(commands_option_int(arguments, "--batch-size", 1, LARGEST_BATCH, &batch_size, error));
    if (request->has_experts) out->data_axis = (struct model_axes){.count = 2, .names = {"expert", "data"}};
    else
        BASE_TRY(find_data_axis(arena, base_argument(arguments, "--logical-axis-rules"),
                                request->ici_count > 0 && request->dcn_count > 0, &out->data_axis, error));
    return topo_data_layout_find(arena, &out->on.topology, &out->on.mesh, out->data_axis.names, out->data_axis.count,
                                 batch_size, &out->layout, error);
}

/* ---- JSON ---- */

static void put_process(struct base_json_writer *writer, int process, const struct topo_process_layout *layout)
{
    base_json_open_inline(writer, '{');
    base_json_member_int(writer, "process", process);
    base_json_member_int(writer, "shard_id", layout->shard_id);
    base_json_member_bool(writer, "first_in_replica_set", layout->first_in_replica_set);
    base_json_close(writer, '}');
}

static void layout_json(const struct reading *reading, struct base_json_writer *writer)
{
    const struct topo_data_layout *layout = &reading->layout;
    base_json_open(writer, '{');
    base_json_key(writer, "data_axis");
    commands_put_axes(writer, &reading->data_axis);
    topo_axes_put_member(writer, "mesh", &reading->on.mesh.axes);
    base_json_key(writer, "batch_size");
    if (layout->has_batch_size) base_json_put_int(writer, layout->batch_size);
    else base_json_put_null(writer);
    base_json_member_int(writer, "num_shards", layout->num_shards);
    base_json_member_open(writer, "processes", '[');
    for (int i = 0; i < layout->process_count; i++) put_process(writer, i, &layout->processes[i]);
    base_json_close(writer, ']');
    base_json_close(writer, '}');
}

/* ---- text ---- */

static const char *joined_axes(struct base_arena *arena, const struct model_axes *axes)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < axes->count; i++) base_putf(&text, "%s%s", i ? " and " : "", axes->names[i]);
    return text.data ? text.data : "no mesh axis";
}

/* "sequences 16 to 31"; shards are contiguous parts of the batch, in the order of their numbers. */
static const char *sequences(struct base_arena *arena, const struct topo_data_layout *layout, int shard_id)
{
    int64_t each = layout->batch_size / layout->num_shards, first = each * shard_id;
    if (!layout->has_batch_size) return "all";
    return base_print(arena, "%lld to %lld", (long long)first, (long long)(first + each - 1));
}

static void layout_text(const struct reading *reading, struct base_text *out)
{
    const struct topo_data_layout *layout = &reading->layout;
    const int devices = reading->on.mesh.device_count;
    base_putf(out, "%s: %d device%s on %d host%s, mesh %s", reading->on.topology.name, devices, devices == 1 ? "" : "s",
              layout->process_count, layout->process_count == 1 ? "" : "s",
              topo_axes_describe(out->arena, &reading->on.mesh.axes));
    base_putf(out, "\nthe batch is sharded over %s", joined_axes(out->arena, &reading->data_axis));
    if (layout->has_batch_size)
        base_putf(out, ": %lld sequences in %d shard%s of %lld", (long long)layout->batch_size, layout->num_shards,
                  layout->num_shards == 1 ? "" : "s", (long long)(layout->batch_size / layout->num_shards));
    base_put(out, "\n\nprocess  shard  first  sequences\n");
    for (int i = 0; i < layout->process_count && i < PROCESSES_SHOWN; i++) {
        const struct topo_process_layout *process = &layout->processes[i];
        base_putf(out, "%7d  %5d  %-5s  %s\n", i, process->shard_id, process->first_in_replica_set ? "yes" : "-",
                  sequences(out->arena, layout, process->shard_id));
    }
    if (layout->process_count > PROCESSES_SHOWN)
        base_putf(out, "… (%d processes in all: --json lists them)\n", layout->process_count);
    base_put(out, "\nfirst: of the processes that read the same shard, the one whose position in the data T5X saves\n");
}

enum base_status commands_layout_run(struct commands_context *context, const struct base_arguments *arguments,
                                     struct base_text *out, struct base_error *error)
{
    struct reading *reading = base_new(context->arena, struct reading, 1);
    BASE_TRY(read_layout(context->arena, arguments, reading, error));
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) layout_json(reading, &writer);
    else layout_text(reading, out);
    return BASE_OK;
}
