/* Documents for charts of a plan: an answer with its detail, its mesh, and predictions of the plan with other batches
 * or on other slices. */
#include "commands/plot_documents.h"
#include "sim/predict/predict.h"

#include <string.h>

enum { LARGEST_DOCUMENT_BYTES = 64 << 20, MOST_SLICES = 8 };

/* ---- an answer ---- */

/* A command's document, asked as a user would. */
static enum base_status ask(struct commands_context *context, const char *command, const char *const *words, int count,
                            const struct base_json **out, struct base_error *error)
{
    struct base_text text = {.arena = context->arena};
    struct commands_context inner = *context;
    inner.json = true;
    inner.layout = BASE_JSON_ONE_LINE;
    inner.page = false;
    enum base_status status = commands_execute(&inner, command, count, words, &text, error);
    if (status != BASE_OK && status != BASE_NO_FIT) return status;
    return base_json_parse(context->arena, text.data, text.length, out, error);
}

static bool is_gin(const char *path)
{
    return commands_ends_in(path, "gin");
}

enum base_status commands_saved_document(struct commands_context *context, const char *path,
                                         const struct base_json **out, struct base_error *error)
{
    return base_json_read_file(context->arena, path, LARGEST_DOCUMENT_BYTES, out, error);
}

enum base_status commands_answer_document(struct commands_context *context, const char *path,
                                          const struct base_json **out, struct base_error *error)
{
    if (!is_gin(path)) BASE_TRY(commands_saved_document(context, path, out, error));
    if (!is_gin(path) && base_json_get(*out, "memory")) return BASE_OK;
    const char *const words[] = {path, "--detail"};
    return ask(context, "predict", words, BASE_COUNT(words), out, error);
}

/* ---- what every choice of a plan is worth ---- */

enum base_status commands_choices_document(struct commands_context *context, const char *path,
                                           const struct base_json **out, struct base_error *error)
{
    static const char keys[] = "num_microbatches,model_parallel_submesh,num_partitions,logical_axis_rules,remat_policy,"
                               "optimizer_partitioning,sequence_parallel,pipeline_stages,virtual_stages,"
                               "context_parallel,attention";
    const struct base_held *before = context->arena->held;
    const struct base_json *saved = NULL, *around;
    struct base_text text = {.arena = context->arena};
    struct base_json_writer w = {.text = &text};
    if (!is_gin(path)) BASE_TRY(commands_saved_document(context, path, &saved, error));
    const struct base_json *best = base_json_find(saved, "best", BASE_JSON_OBJECT);
    *out = saved;
    if (saved && (base_json_get(saved, "sensitivity") || (base_json_get(saved, "search") && !best))) return BASE_OK;
    if (best) base_json_put_value(&w, best);
    const struct base_held held = {"the best plan", text.data, text.length};
    if (best) context->arena->held = &held;
    const char *const words[] = {best ? held.name : path, "--what-if", keys};
    const enum base_status status = ask(context, "predict", words, BASE_COUNT(words), &around, error);
    context->arena->held = before;
    if (status == BASE_OK)
        *out = best || saved ? base_json_with(context->arena, around, "plan", best ? best : saved) : around;
    return status;
}

/* ---- the mesh of a plan ---- */

/* A pipeline's mesh, stages first: each stage has the next devices in rank order. Ranks count through the nodes, or a
 * stage's part of them, so that a stage's ranks are consecutive in the whole. */
static void put_mesh(const struct topo_mesh *mesh, const struct topo_topology *stage, int stages, int node,
                     struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = BASE_JSON_ONE_LINE};
    base_json_open(&w, '{');
    base_json_member_open(&w, "axes", '[');
    if (stages > 1) base_json_put_string(&w, "stage");
    for (int a = 0; a < mesh->axes.count; a++) base_json_put_string(&w, mesh->axes.names[a]);
    base_json_close(&w, ']');
    base_json_member_open(&w, "shape", '[');
    if (stages > 1) base_json_put_int(&w, stages);
    for (int a = 0; a < mesh->axes.count; a++) base_json_put_int(&w, mesh->axes.sizes[a]);
    base_json_close(&w, ']');
    base_json_member_open(&w, "devices", '[');
    for (int d = 0; d < stages * mesh->device_count; d++) {
        const int *at = mesh->devices[d % mesh->device_count],
                  rank = d / mesh->device_count * mesh->device_count + at[0] * stage->bounds[1] + at[1];
        base_json_open(&w, '[');
        if (stages > 1) base_json_put_int(&w, rank / node), base_json_put_int(&w, rank % node);
        for (int c = 0; stages == 1 && c < mesh->coordinate_count; c++) base_json_put_int(&w, at[c]);
        base_json_close(&w, ']');
    }
    base_json_close(&w, ']');
    base_json_close(&w, '}');
}

static enum base_status build_mesh(struct base_arena *arena, const struct sim_plan *plan, struct base_text *out,
                                   struct base_error *error)
{
    const struct topo_topology *topology = &plan->placement->topology;
    const int stages = topology->device_count / plan->placement->stage_devices;
    struct topo_topology stage = *topology;
    struct topo_mesh_request request = plan->request;
    struct topo_mesh mesh;
    if (stages > 1) BASE_TRY(sim_stage_topology(topology, stages, &stage, error));
    if (stages > 1)
        BASE_TRY(sim_context_mesh(&stage, &plan->request, plan->context_parallel, plan->expert_parallel > 1, &request,
                                  error));
    BASE_TRY(topo_mesh_build(arena, &stage, &request, TOPO_WITH_DEVICES, &mesh, error));
    put_mesh(&mesh, &stage, stages, topology->bounds[1], out);
    return BASE_OK;
}

enum base_status commands_mesh_document(struct commands_context *context, const char *path,
                                        const struct base_json **out, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct base_text document = {.arena = context->arena};
    if (!is_gin(path)) BASE_TRY(commands_saved_document(context, path, out, error));
    if (!is_gin(path) && (*out)->kind == BASE_JSON_OBJECT && base_json_get(*out, "devices")) return BASE_OK;
    BASE_TRY(commands_read_plan(context, path, &text, error));
    enum base_status status =
        sim_plan_check(context->cache, context->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error);
    if (status == BASE_OK) status = build_mesh(context->arena, &plan, &document, error);
    if (status != BASE_OK) return base_fail_in(error, "%s", path);
    return base_json_parse(context->arena, document.data, document.length, out, error);
}

/* ---- many predictions ---- */

struct grid {
    struct commands_context *context;
    struct sim_plan_text text;
    struct base_json_writer w;
    int row_count;
    int64_t batch_size, num_microbatches, device_count; /* of the plan that is asked about */
};

/* A row, unless the plan is one that T5X or JAX refuses. */
static void add_row(struct grid *g, const char *series)
{
    struct sim_plan plan;
    struct sim_prediction p;
    struct base_error refused;
    struct sim_cache *cache = g->context->cache;
    if (sim_plan_check(cache, g->context->arena, &g->text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &refused) !=
            BASE_OK ||
        sim_predict(cache, &plan, &p, NULL, &refused) != BASE_OK)
        return;
    base_json_open(&g->w, '{');
    base_json_member_string(&g->w, "series", series);
    base_json_member_string(&g->w, "topology", plan.topology_text);
    base_json_member_int(&g->w, "device_count", plan.placement->topology.device_count);
    base_json_member_int(&g->w, "batch_size", plan.batch_size);
    base_json_member_double(&g->w, "tokens_per_s", p.tokens_per_s);
    base_json_member_int(&g->w, "peak_bytes", p.memory.peak_bytes);
    base_json_member_int(&g->w, "available_bytes", (int64_t)sim_limit_bytes(&p));
    base_json_member_bool(&g->w, "fits", p.fits);
    base_json_member_bool(&g->w, "asked",
                          plan.batch_size == g->batch_size && plan.num_microbatches == g->num_microbatches &&
                              plan.placement->topology.device_count == g->device_count);
    base_json_close(&g->w, '}');
    g->row_count++;
}

/* The plan itself comes first: the subject of the document, and the reference of its numbers. */
static enum base_status begin_grid(struct grid *g, struct commands_context *context, const char *path,
                                   struct base_text *text, struct sim_plan *plan, struct base_error *error)
{
    *g = (struct grid){.context = context, .w = {.text = text, .layout = BASE_JSON_ONE_LINE}};
    BASE_TRY(commands_read_plan(context, path, &g->text, error));
    if (sim_plan_check(context->cache, context->arena, &g->text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, plan, error) !=
        BASE_OK)
        return base_fail_in(error, "%s", path);
    g->batch_size = plan->batch_size, g->num_microbatches = plan->num_microbatches;
    g->device_count = plan->placement->topology.device_count;
    base_json_open(&g->w, '{');
    sim_plan_put_member(&g->w, "plan", &g->text);
    base_json_member_open(&g->w, "rows", '[');
    return BASE_OK;
}

static enum base_status end_grid(struct grid *g, const char *path, const struct base_json **out,
                                 struct base_error *error)
{
    base_json_close(&g->w, ']');
    base_json_close(&g->w, '}');
    if (!g->row_count) return base_fail(error, BASE_INPUT, "%s: none of the plans around it is valid", path);
    return base_json_parse(g->context->arena, g->w.text->data, g->w.text->length, out, error);
}

enum base_status commands_batch_document(struct commands_context *context, const char *path,
                                         const struct base_json **out, struct base_error *error)
{
    static const int microbatches[] = {1, 2, 4, 8, 16, 32};
    struct base_text text = {.arena = context->arena};
    struct sim_plan plan;
    struct grid g;
    BASE_TRY(begin_grid(&g, context, path, &text, &plan, error));
    int64_t batch = plan.batch_size;
    for (int halvings = 0; halvings < 4 && batch % 2 == 0; halvings++) batch /= 2;
    for (int m = 0; m < BASE_COUNT(microbatches); m++)
        for (int64_t b = batch, step = 0; step < 9; b *= 2, step++) {
            g.text.values[SIM_BATCH_SIZE] = base_print(context->arena, "%lld", (long long)b);
            g.text.values[SIM_NUM_MICROBATCHES] = base_print(context->arena, "%d", microbatches[m]);
            add_row(&g,
                    base_print(context->arena, "%d microbatch%s", microbatches[m], microbatches[m] == 1 ? "" : "es"));
        }
    return end_grid(&g, path, out, error);
}

/* Slices of the same chip, from an eighth of the plan's to eight times that; of GPUs so many nodes. */
static int find_slices(struct commands_context *context, const struct topo_topology *now, const char **names,
                       int *devices)
{
    int count, shown = 0;
    const struct topo_slice *slices = topo_slices_of(now->chip.name, &count);
    for (int i = 0; i < count && shown < MOST_SLICES; i++) {
        const int size = slices[i].device_count;
        const bool power = !(size & (size - 1)); /* the usual sizes */
        if (!power || size * 8 < now->device_count || size > 8 * now->device_count) continue;
        names[shown] = slices[i].accelerator_type, devices[shown++] = size;
    }
    for (int nodes = now->bounds[0] > 8 ? now->bounds[0] / 8 : 1;
         now->kind == TOPO_GPU && nodes <= 8 * now->bounds[0] && shown < MOST_SLICES; nodes *= 2) {
        names[shown] = base_print(context->arena, "%s:%dx%d", now->chip.name, nodes, now->bounds[1]);
        devices[shown++] = nodes * now->bounds[1];
    }
    return shown;
}

enum base_status commands_scaling_document(struct commands_context *context, const char *path,
                                           const struct base_json **out, struct base_error *error)
{
    static const char *const series[] = {"the same batch", "the same batch a device"};
    struct base_text text = {.arena = context->arena};
    struct sim_plan plan;
    struct grid g;
    const char *names[MOST_SLICES];
    int devices[MOST_SLICES];
    BASE_TRY(begin_grid(&g, context, path, &text, &plan, error));
    struct topo_topology now = plan.placement->topology;
    int count = find_slices(context, &now, names, devices);
    const struct topo_mesh_request *mesh = &plan.request;
    const bool is_assumed = mesh->ici_mesh.count && !g.text.values[SIM_ICI_MESH]; /* of each slice, its software's */
    if (mesh->ici_mesh.count && !is_assumed)
        return base_fail(error, BASE_INPUT,
                         "%s: ici_mesh: a mesh of given sizes has no larger or smaller slice; "
                         "use num_partitions",
                         path);
    int64_t batch = plan.batch_size, partitions = mesh->submesh_count ? 1 : mesh->num_partitions;
    for (int i = 0; i < mesh->submesh_count; i++) partitions *= mesh->submesh[i];
    g.text.values[SIM_SUBMESH] =
        NULL; /* a tile that fits one slice may not fit another; T5X's table has one for each */
    if (!is_assumed) g.text.values[SIM_NUM_PARTITIONS] = base_print(context->arena, "%lld", (long long)partitions);
    for (int s = 0; s < BASE_COUNT(series); s++)
        for (int i = 0; i < count; i++) {
            int64_t scaled = s ? batch * devices[i] / now.device_count : batch;
            g.text.values[SIM_TOPOLOGY] = names[i];
            g.text.values[SIM_BATCH_SIZE] = base_print(context->arena, "%lld", (long long)(scaled ? scaled : 1));
            add_row(&g, series[s]);
        }
    return end_grid(&g, path, out, error);
}
