/* The mesh that a plan asks for: a tile of T5X's, a number of partitions, or named axes. */
#include "sim/plan/plan_parts.h"

#include <string.h>

/* ---- the mesh ---- */

static enum base_status read_flag(const struct sim_plan_text *text, enum sim_key key, bool *out,
                                  struct base_error *error)
{
    int64_t flag = *out;
    BASE_TRY(sim_plan_read_number(text, key, 0, 1, &flag, error));
    *out = flag == 1;
    return BASE_OK;
}

/* A mesh of named axes; other mesh keys are refused. */
static enum base_status read_named_mesh(struct base_arena *arena, const struct sim_plan_text *text,
                                        struct topo_mesh_request *request, struct base_error *error)
{
    static const enum sim_key others[] = {SIM_SUBMESH, SIM_NUM_PARTITIONS};
    for (int i = 0; i < BASE_COUNT(others); i++)
        if (sim_key_is_given(text, others[i]))
            return base_fail(error, BASE_INPUT, "%s: contradicts ici_mesh, which is the whole mesh; keep one",
                             sim_plan_keys[others[i]].name);
    const char *ici = text->values[SIM_ICI_MESH], *dcn = text->values[SIM_DCN_MESH];
    const bool over_slices = sim_key_is_given(text, SIM_DCN_MESH);
    if (strstr(ici, "-1") || (over_slices && strstr(dcn, "-1"))) {
        struct topo_topology topology;
        BASE_TRY(topo_parse(arena, text->values[SIM_TOPOLOGY], &topology, error));
        const int devices = topo_ici_device_count(&topology, over_slices ? TOPO_WITH_DCN_MESH : TOPO_WITHOUT_DCN_MESH);
        BASE_TRY(topo_axes_fill(arena, ici, "ici_mesh", devices, &ici, error));
        if (over_slices) BASE_TRY(topo_axes_fill(arena, dcn, "dcn_mesh", topology.device_count / devices, &dcn, error));
    }
    BASE_TRY(topo_axes_parse(arena, ici, "ici_mesh", &request->ici_mesh, error));
    if (over_slices) BASE_TRY(topo_axes_parse(arena, dcn, "dcn_mesh", &request->dcn_mesh, error));
    if (sim_key_is_given(text, SIM_JAX)) BASE_TRY(topo_jax_parse(text->values[SIM_JAX], "jax", &request->jax, error));
    BASE_TRY(read_flag(text, SIM_SPLIT_PHYSICAL_AXES, &request->split_physical_axes, error));
    return read_flag(text, SIM_CONTIGUOUS_SUBMESHES, &request->contiguous_submeshes, error);
}

/* "4x2x2": as topologies are written, and without the cores. */
static enum base_status refuse_x(struct base_arena *arena, const char *submesh, struct base_error *error)
{
    char *commas = base_copy(arena, submesh);
    int count = 1;
    if (!strchr(commas, 'x')) return BASE_OK;
    for (char *at = commas; *at; at++)
        if (*at == 'x' || *at == ',') *at = ',', count++;
    return base_fail(error, BASE_INPUT, "model_parallel_submesh: \"%.40s\" is written with x; use %.40s%s", submesh,
                     commas, count == 3 ? ",1, for x, y, z and cores" : "");
}

/* Experts are over whole groups that share a sequence, before data; those that no devices share over whole
 * tensor-parallel groups, too. The mesh has an axis of so many of these. */
static enum base_status spread_experts(const struct sim_plan_text *text, struct topo_mesh_request *request,
                                       struct base_error *error)
{
    const char *said = text->values[SIM_EXPERT_TENSOR_PARALLEL];
    const int64_t tensor = request->num_partitions, experts = request->num_expert_partitions;
    int64_t sharing = 0, context = 1;
    if (!sim_key_is_given(text, SIM_EXPERT_PARALLEL) || experts <= 1) return BASE_OK;
    BASE_TRY(sim_plan_read_number(text, SIM_CONTEXT_PARALLEL, 1, 1 << 20, &context, error));
    if (experts % context)
        return base_fail(error, BASE_INPUT,
                         "expert_parallel: %lld is no multiple of context_parallel, %lld, over which experts go before "
                         "data; use a multiple",
                         (long long)experts, (long long)context);
    request->num_expert_partitions = experts / context;
    if (tensor <= 1) return BASE_OK;
    if (!said || !*said || !strcmp(said, "0")) said = sim_version_setting(text, "expert_tensor_parallel");
    if (said) BASE_TRY(base_parse_int(said, "expert_tensor_parallel", 0, INT32_MAX, &sharing, error));
    if (sharing > 1 && sharing != tensor)
        return base_fail(error, BASE_INPUT, "expert_tensor_parallel: %lld is modelled as 1 or num_partitions; use %lld",
                         (long long)sharing, (long long)tensor);
    if (sharing != 1) return BASE_OK;
    if (experts % (context * tensor))
        return base_fail(error, BASE_INPUT,
                         "expert_parallel: %lld is no multiple of num_partitions, %lld%s, over which experts go before "
                         "data with expert_tensor_parallel 1; use a multiple, or expert_tensor_parallel %lld",
                         (long long)experts, (long long)tensor, context > 1 ? " times context_parallel" : "",
                         (long long)tensor);
    request->num_expert_partitions /= tensor;
    return BASE_OK;
}

enum base_status sim_plan_mesh_request(struct base_arena *arena, const struct sim_plan_text *text,
                                       struct topo_mesh_request *request, struct base_error *error)
{
    *request = (struct topo_mesh_request){.tile_by_host_if_needed = true};
    const char *submesh = text->values[SIM_SUBMESH], *experts = text->values[SIM_NUM_EXPERT_PARTITIONS];
    if (sim_key_is_given(text, SIM_EXPERT_PARALLEL) && strcmp(text->values[SIM_EXPERT_PARALLEL], "1") != 0)
        experts = text->values[SIM_EXPERT_PARALLEL];
    request->has_experts = experts && *experts;
    if (request->has_experts)
        BASE_TRY(base_parse_int(experts, "num_expert_partitions", INT32_MIN, INT32_MAX, &request->num_expert_partitions,
                                error));
    int64_t numbers[8];
    if (sim_key_is_given(text, SIM_ICI_MESH)) return read_named_mesh(arena, text, request, error);
    for (int key = SIM_ICI_MESH + 1; key <= SIM_JAX; key++)
        if (sim_key_is_given(text, (enum sim_key)key) && strcmp(text->values[key], "0") != 0)
            return base_fail(error, BASE_INPUT, "%s: requires ici_mesh; use ici_mesh, too", sim_plan_keys[key].name);
    if (submesh && *submesh) {
        BASE_TRY(refuse_x(arena, submesh, error));
        BASE_TRY(base_parse_ints(submesh, "model_parallel_submesh", INT32_MIN, INT32_MAX, 8, numbers,
                                 &request->submesh_count, error));
        for (int i = 0; i < request->submesh_count; i++) request->submesh[i] = (int)numbers[i];
    }
    request->num_partitions = request->submesh_count ? 0 : 1;
    BASE_TRY(sim_plan_read_number(text, SIM_NUM_PARTITIONS, 1, INT32_MAX, &request->num_partitions, error));
    return spread_experts(text, request, error);
}

/* True if the plan gives at most a number of partitions, and its rules match the software's own mesh. */
static bool leaves_mesh(const struct sim_plan_text *text, const char *software)
{
    const char *rules = sim_usual_value(software, SIM_RULES);
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (sim_plan_keys[key].type == SIM_OF_MESH && key != SIM_NUM_PARTITIONS &&
            sim_key_is_given(text, (enum sim_key)key) &&
            strcmp(text->values[key], sim_plan_keys[key].fallback ? sim_plan_keys[key].fallback : "") != 0)
            return false;
    return !sim_key_is_given(text, SIM_RULES) || (rules && !strcmp(text->values[SIM_RULES], rules));
}

enum base_status sim_plan_usual_mesh(struct base_arena *arena, const struct sim_plan_text *text,
                                     const struct sim_plan *plan, const struct topo_topology *topology,
                                     struct topo_mesh_request *request, struct base_error *error)
{
    const char *mesh = sim_usual_value(plan->software, SIM_ICI_MESH);
    const int slices = topology->slice_count;
    const int64_t partitions = request->num_partitions ? request->num_partitions : 1;
    if (!mesh || topology->kind != TOPO_TPU || !leaves_mesh(text, plan->software) ||
        topology->devices_per_slice % partitions)
        return BASE_OK;
    const size_t before = strcspn(mesh, "*"), behind = strlen(mesh) - 1 - before;
    const char *sizes =
        base_print(arena, "%s%.*s%lld%.*s%lld", slices > 1 && strncmp(mesh, "data", 4) != 0 ? "data=1," : "",
                   (int)before, mesh, (long long)(topology->devices_per_slice / partitions), (int)behind - 1,
                   mesh + before + 1, (long long)partitions);
    *request = (struct topo_mesh_request){.tile_by_host_if_needed = true};
    BASE_TRY(topo_axes_parse(arena, sizes, "ici_mesh", &request->ici_mesh, error));
    return slices > 1 ? topo_axes_add(&request->dcn_mesh, "data", slices, error) : BASE_OK;
}
