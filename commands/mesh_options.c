/* A mesh as the command line asks for it: T5X's submesh or partitions, or named axes in JAX's order. */
#include "commands/commands.h"
#include "topo/topo.h"

enum base_status commands_read_numbers(const struct base_arguments *arguments, const char *option, int limit, int *out,
                                       int *count, struct base_error *error)
{
    int64_t numbers[8];
    const char *text = base_argument(arguments, option);
    if (!text) return BASE_OK;
    BASE_TRY(base_parse_ints(text, option, 0, INT32_MAX, limit, numbers, count, error));
    for (int i = 0; i < *count; i++) out[i] = (int)numbers[i];
    return BASE_OK;
}

static enum base_status read_flag(const struct base_arguments *arguments, const char *option, bool otherwise, bool *out,
                                  struct base_error *error)
{
    const char *text = base_argument(arguments, option);
    int64_t flag = otherwise;
    if (text) BASE_TRY(base_parse_int(text, option, 0, 1, &flag, error));
    *out = flag == 1;
    return BASE_OK;
}

static const char *const named_options[] = {"--ici-mesh", "--dcn-mesh", "--split-physical-axes",
                                            "--contiguous-submeshes", "--jax"},
                         *const t5x_options[] = {"--model-parallel-submesh", "--num-partitions",
                                                 "--num-expert-partitions",  "--ici-mesh-shape",
                                                 "--dcn-mesh-shape",         "--tile-by-host-if-needed"};

static enum base_status refuse_options(const struct base_arguments *arguments, const char *const *options, int count,
                                       const char *why, struct base_error *error)
{
    for (int i = 0; i < count; i++)
        if (base_argument(arguments, options[i]))
            return base_fail(error, BASE_USAGE, "%s cannot be used: %s", options[i], why);
    return BASE_OK;
}

static enum base_status read_named_mesh(struct base_arena *arena, const struct base_arguments *arguments,
                                        struct topo_mesh_request *request, struct base_error *error)
{
    const char *dcn = base_argument(arguments, "--dcn-mesh"), *jax = base_argument(arguments, "--jax");
    BASE_TRY(refuse_options(arguments, t5x_options, BASE_COUNT(t5x_options), "--ici-mesh is the whole mesh", error));
    BASE_TRY(topo_axes_parse(arena, base_argument(arguments, "--ici-mesh"), "--ici-mesh", &request->ici_mesh, error));
    if (dcn) BASE_TRY(topo_axes_parse(arena, dcn, "--dcn-mesh", &request->dcn_mesh, error));
    if (jax) BASE_TRY(topo_jax_parse(jax, "--jax", &request->jax, error));
    BASE_TRY(read_flag(arguments, "--split-physical-axes", false, &request->split_physical_axes, error));
    return read_flag(arguments, "--contiguous-submeshes", false, &request->contiguous_submeshes, error);
}

enum base_status commands_mesh_request(struct base_arena *arena, const struct base_arguments *arguments,
                                       struct topo_mesh_request *request, struct base_error *error)
{
    const char *partitions = base_argument(arguments, "--num-partitions"),
               *experts = base_argument(arguments, "--num-expert-partitions");
    if (base_argument(arguments, "--ici-mesh")) return read_named_mesh(arena, arguments, request, error);
    BASE_TRY(
        refuse_options(arguments, named_options + 1, BASE_COUNT(named_options) - 1, "--ici-mesh is missing", error));
    BASE_TRY(commands_read_numbers(arguments, "--model-parallel-submesh", BASE_COUNT(request->submesh),
                                   request->submesh, &request->submesh_count, error));
    BASE_TRY(commands_read_numbers(arguments, "--ici-mesh-shape", BASE_COUNT(request->ici), request->ici,
                                   &request->ici_count, error));
    BASE_TRY(commands_read_numbers(arguments, "--dcn-mesh-shape", BASE_COUNT(request->dcn), request->dcn,
                                   &request->dcn_count, error));
    if (partitions)
        BASE_TRY(base_parse_int(partitions, "--num-partitions", 0, INT32_MAX, &request->num_partitions, error));
    request->has_experts = experts != NULL;
    if (experts)
        BASE_TRY(base_parse_int(experts, "--num-expert-partitions", INT32_MIN, INT32_MAX,
                                &request->num_expert_partitions, error));
    BASE_TRY(read_flag(arguments, "--tile-by-host-if-needed", true, &request->tile_by_host_if_needed, error));
    if (request->ici_count > 0 && request->dcn_count > 0) return BASE_OK;
    if (request->submesh_count > 0 || partitions) return BASE_OK;
    return base_fail(
        error, BASE_USAGE,
        "the mesh is missing: --model-parallel-submesh X,Y,Z,C, --num-partitions N, --ici-mesh axis=size,… or "
        "--ici-mesh-shape and --dcn-mesh-shape are needed");
}
