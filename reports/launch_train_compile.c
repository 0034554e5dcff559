/* A MaxText plan as one Python file that compiles the step with MaxText's train_compile, without a TPU: the arguments
 * (aot_maxtext.py), and a reader of the compiler's dumps (aot_dumps.py). */
#include "reports/launch.h"

#include <string.h>

extern const char embedded_reports_aot_maxtext_py[], embedded_reports_aot_dumps_py[];

static enum base_status refuse(const char *key, const char *what, const char *would, struct base_error *error)
{
    return base_fail(error, BASE_INPUT, "%s: %s cannot be written for MaxText's train_compile; use %s", key, what,
                     would);
}

static enum base_status check(struct base_arena *arena, const struct sim_plan *plan, struct base_error *error)
{
    if (plan->options.step != MODEL_STEP_TRAIN)
        return base_fail(error, BASE_INPUT,
                         "step: the compiler can be asked about training steps alone; leave the step out");
    if (plan->config->experts.count) return refuse("model", "a model with experts", "a dense one", error);
    if (!reports_maxtext_model(arena, plan->model_text))
        return refuse("model", plan->model_text, "a zoo name that MaxText has, as llama3_8b", error);
    if (plan->placement->topology.kind != TOPO_TPU || strchr(plan->topology_text, ':'))
        return refuse("topology", plan->topology_text, "an accelerator type of a TPU, as v5e-32", error);
    if (!plan->request.ici_mesh.count) return refuse("ici_mesh", "none", "a mesh, as data=1,fsdp=32", error);
    if (strcmp(plan->rules_text, "maxtext") != 0)
        return refuse("logical_axis_rules", "a list of rules", "maxtext", error);
    if (plan->options.optimizer != MODEL_ADAMW)
        return refuse("optimizer", model_optimizer_name(plan->options.optimizer), "adamw", error);
    if (!plan->options.flash_attention) return refuse("attention", "unfused", "flash", error);
    if (plan->options.dtype != MODEL_BFLOAT16)
        return refuse("dtype", model_dtype_name(plan->options.dtype), "bfloat16", error);
    if (plan->options.remat == MODEL_REMAT_SELECTIVE || plan->remat_every || plan->options.saved.layers)
        return refuse("remat_policy", "this one", "full, minimal, or tensors of all layers", error);
    return BASE_OK;
}

static void put_argument(struct base_arena *arena, struct base_json_writer *w, const char *name, const char *value)
{
    base_json_put_string(w, base_print(arena, "%s=%s", name, value));
}

static void put_axes(const struct topo_axes *mesh, const char *network, struct base_arena *arena,
                     struct base_json_writer *w)
{
    for (int i = 0; i < mesh->count; i++)
        put_argument(arena, w, base_print(arena, "%s_%s_parallelism", network, mesh->names[i]),
                     base_print(arena, "%lld", (long long)mesh->sizes[i]));
}

static void put_remat(const struct sim_plan *plan, struct base_arena *arena, struct base_json_writer *w)
{
    const enum model_remat remat = plan->options.remat;
    const bool by_tensor = remat == MODEL_REMAT_TENSORS;
    put_argument(arena, w, "remat_policy",
                 by_tensor                      ? "custom"
                 : remat == MODEL_REMAT_MINIMAL ? "minimal"
                 : remat == MODEL_REMAT_NONE    ? "none"
                                                : "full");
    for (int name = MODEL_SAVED_LAYER_INPUT; by_tensor && name <= MODEL_SAVED_WO; name++) {
        const bool device = plan->options.saved.device >> name & 1, host = plan->options.saved.host >> name & 1;
        if (device || host)
            put_argument(arena, w, model_saved_name_of((enum model_saved_name)name), host ? "offload" : "device");
    }
}

static void put_arguments(const struct sim_plan *plan, struct base_arena *arena, struct base_json_writer *w)
{
    const struct topo_topology *t = &plan->placement->topology;
    const double devices = (double)topo_axes_product(&plan->placement->axes, topo_axes_all(&plan->placement->axes)),
                 each = (double)plan->batch_size / (double)plan->num_microbatches / devices;
    static const char *const always[] = {"run_name=verify", "base_output_directory=.", "enable_checkpointing=false",
                                         "dataset_type=synthetic"};
    base_json_member_open(w, "arguments", '[');
    for (int i = 0; i < BASE_COUNT(always); i++) base_json_put_string(w, always[i]);
    put_argument(arena, w, "compile_topology",
                 base_print(arena, "%.*s", (int)strcspn(plan->topology_text, "@"), plan->topology_text));
    put_argument(arena, w, "compile_topology_num_slices", base_print(arena, "%d", t->slice_count));
    put_argument(arena, w, "model_name", reports_maxtext_model(arena, plan->model_text));
    put_argument(arena, w, "weight_dtype", model_dtype_name(plan->options.weight_dtype));
    if (plan->request.split_physical_axes) put_argument(arena, w, "allow_split_physical_axes", "true");
    put_argument(arena, w, "per_device_batch_size", base_print(arena, "%.17g", each));
    put_argument(arena, w, "max_target_length", base_print(arena, "%lld", (long long)plan->targets_length));
    put_argument(arena, w, "gradient_accumulation_steps", base_print(arena, "%lld", (long long)plan->num_microbatches));
    put_argument(arena, w, "scan_layers", plan->config->scan_layers ? "true" : "false");
    put_axes(&plan->request.ici_mesh, "ici", arena, w);
    put_axes(&plan->request.dcn_mesh, "dcn", arena, w);
    put_remat(plan, arena, w);
    base_json_close(w, ']');
}

static void put_mesh(const struct topo_axes *axes, struct base_json_writer *w)
{
    base_json_member_open(w, "mesh", '{');
    base_json_member_strings(w, "axes", axes->names, axes->count);
    base_json_member_ints(w, "shape", axes->sizes, axes->count);
    base_json_close(w, '}');
}

enum base_status reports_launch_train_compile(struct base_arena *arena, const struct sim_plan *plan,
                                              struct base_text *out, struct base_error *error)
{
    struct base_text title = {.arena = arena};
    struct base_json_writer w = {.text = out};
    const double *c = plan->placement->profile.constants;
    BASE_TRY(check(arena, plan, error));
    reports_launch_title(plan, &title);
    base_putf(out, "# The training step of %s, for MaxText's train_compile; written by meshwright export.\n",
              title.data);
    base_put(out, "import json\n\nPLAN = json.loads(r\"\"\"");
    base_json_open(&w, '{');
    base_json_member_open(&w, "topology", '{');
    base_json_member_string(&w, "platform", "tpu");
    base_json_member_string(&w, "name", plan->topology_text);
    base_json_close(&w, '}');
    put_mesh(&plan->placement->axes, &w);
    base_json_member_int(&w, "limit_bytes", (int64_t)(c[SIM_CAPACITY_BYTES] - c[SIM_RESERVED_BYTES]));
    put_arguments(plan, arena, &w);
    base_json_close(&w, '}');
    base_put(out, "\"\"\")\n\n");
    base_put(out, embedded_reports_aot_maxtext_py);
    base_put(out, embedded_reports_aot_dumps_py);
    return BASE_OK;
}
