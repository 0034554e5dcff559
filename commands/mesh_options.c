/* A mesh as the command line asks for it: T5X's submesh or partitions, or named axes in JAX's order. */
#include "commands/commands.h"
#include "topo/topo.h"

static enum base_status read_flag(const struct base_arguments *arguments, const char *option, bool otherwise, bool *out,
                                  struct base_error *error)
{
    int64_t flag = otherwise;
    BASE_TRY(commands_option_int(arguments, option, 0, 1, &flag, error));
    *out = flag == 1;
    return BASE_OK;
}

static enum base_status read_named_mesh(struct base_arena *arena, const struct base_arguments *arguments,
                                        struct topo_mesh_request *request, struct base_error *error)
{
    static const char *const t5x_options[] = {"--model-parallel-submesh", "--num-partitions",
                                              "--num-expert-partitions",  "--ici-mesh-shape",
                                              "--dcn-mesh-shape",         "--tile-by-host-if-needed"};
    const char *dcn = base_argument(arguments, "--dcn-mesh"), *jax = base_argument(arguments, "--jax");
    BASE_TRY(commands_refuse_options(arguments, t5x_options, BASE_COUNT(t5x_options), BASE_USAGE,
                                     " cannot be used: --ici-mesh is the whole mesh", error));
    BASE_TRY(topo_axes_parse(arena, base_argument(arguments, "--ici-mesh"), "--ici-mesh", &request->ici_mesh, error));
    if (dcn) BASE_TRY(topo_axes_parse(arena, dcn, "--dcn-mesh", &request->dcn_mesh, error));
    if (jax) BASE_TRY(topo_jax_parse(jax, "--jax", &request->jax, error));
    BASE_TRY(read_flag(arguments, "--split-physical-axes", false, &request->split_physical_axes, error));
    return read_flag(arguments, "--contiguous-submeshes", false, &request->contiguous_submeshes, error);
}

static enum base_status read_request(struct base_arena *arena, const struct base_arguments *arguments,
                                     struct topo_mesh_request *request, struct base_error *error)
{
    static const char *const named_options[] = {"--dcn-mesh", "--split-physical-axes", "--contiguous-submeshes",
                                                "--jax"};
    if (base_argument(arguments, "--ici-mesh")) return read_named_mesh(arena, arguments, request, error);
    BASE_TRY(commands_refuse_options(arguments, named_options, BASE_COUNT(named_options), BASE_USAGE,
                                     " cannot be used: --ici-mesh is missing", error));
    BASE_TRY(commands_read_numbers(arguments, "--model-parallel-submesh", BASE_COUNT(request->submesh),
                                   request->submesh, &request->submesh_count, error));
    BASE_TRY(commands_read_numbers(arguments, "--ici-mesh-shape", BASE_COUNT(request->ici), request->ici,
                                   &request->ici_count, error));
    BASE_TRY(commands_read_numbers(arguments, "--dcn-mesh-shape", BASE_COUNT(request->dcn), request->dcn,
                                   &request->dcn_count, error));
    BASE_TRY(commands_option_int(arguments, "--num-partitions", 0, INT32_MAX, &request->num_partitions, error));
    request->has_experts = base_argument(arguments, "--num-expert-partitions") != NULL;
    BASE_TRY(commands_option_int(arguments, "--num-expert-partitions", INT32_MIN, INT32_MAX,
                                 &request->num_expert_partitions, error));
    BASE_TRY(read_flag(arguments, "--tile-by-host-if-needed", true, &request->tile_by_host_if_needed, error));
    if (request->ici_count > 0 && request->dcn_count > 0) return BASE_OK;
    if (request->submesh_count > 0 || base_argument(arguments, "--num-partitions")) return BASE_OK;
    return base_fail(
        error, BASE_USAGE,
        "the mesh is missing: --model-parallel-submesh X,Y,Z,C, --num-partitions N, --ici-mesh axis=size,… or "
        "--ici-mesh-shape and --dcn-mesh-shape are needed");
}

enum base_status commands_read_mesh(struct base_arena *arena, const struct base_arguments *arguments,
                                    struct commands_mesh *out, struct base_error *error)
{
    const char *name = base_argument(arguments, "--topology");
    if (!name) return base_fail(error, BASE_USAGE, "--topology is missing; use --topology v4-512");
    out->request = (struct topo_mesh_request){.submesh_count = 0};
    BASE_TRY(read_request(arena, arguments, &out->request, error));
    BASE_TRY(topo_parse(arena, name, &out->topology, error));
    return topo_mesh_build(arena, &out->topology, &out->request, TOPO_WITH_DEVICES, &out->mesh, error);
}
