/* A plan as one Python file that compiles it with the real XLA:TPU compiler, without a TPU, or runs it on its devices.
 * The plan's values are JSON at its head; the program below is the same for all: the step (aot_step.py), its driver
 * (aot_run.py), and a reader of the compiler's dumps (aot_dumps.py). */
#include "reports/launch.h"

#include <string.h>

extern const char embedded_reports_aot_step_py[], embedded_reports_aot_run_py[], embedded_reports_aot_dumps_py[];

static enum base_status refuse(const char *key, const char *what, const char *would, struct base_error *error)
{
    return base_fail(error, BASE_INPUT, "%s: %s cannot be written for the compiler; use %s", key, what, would);
}

/* Refuses keys that the program lacks: quantized products, state in bfloat16, masks, lists of tensors. */
static enum base_status check_numbers(const struct sim_plan *plan, struct base_error *error)
{
    const enum model_remat remat = plan->options.remat;
    if (model_dtype_is_quantized(plan->options.dtype))
        return refuse("dtype", model_dtype_name(plan->options.dtype), "bfloat16", error);
    if (plan->options.weight_dtype != MODEL_FLOAT32)
        return refuse("weight_dtype", model_dtype_name(plan->options.weight_dtype), "float32", error);
    if (plan->options.moment_dtype == MODEL_MOMENT_BFLOAT16)
        return refuse("moment_dtype", "bfloat16", "float32", error);
    if (plan->dropout_rate > 0) return refuse("dropout_rate", "a rate above 0", "0", error);
    if (remat == MODEL_REMAT_SELECTIVE) return refuse("remat_policy", "selective", "minimal", error);
    if (remat != MODEL_REMAT_TENSORS) return BASE_OK;
    return plan->options.saved.layers ? refuse("remat_policy", "a number of layers", "all of them", error)
                                      : refuse("remat_policy", "a list of tensors", "minimal or full", error);
}

/* The program is T5X's step and no more. */
static enum base_status check(const struct sim_plan *plan, struct base_error *error)
{
    const struct topo_topology *topology = &plan->placement->topology;
    if (plan->options.step != MODEL_STEP_TRAIN)
        return base_fail(error, BASE_INPUT,
                         "step: the compiler can be asked about training steps alone; leave the step out");
    if (topology->kind == TOPO_CPU)
        return refuse("topology", plan->topology_text, "TPUs, GPUs or local:4, as in v4-16", error);
    if (topology->slice_count > 1) return refuse("topology", "a mesh over several slices", "one slice", error);
    if (topology->twisted) return refuse("topology", "a twisted torus", "one that is not", error);
    if (strcmp(plan->software, "t5x") != 0) return refuse("software", plan->software, "t5x", error);
    if (plan->sequence_parallel) return refuse("sequence_parallel", "1", "0", error);
    if (plan->optimizer_partitioning != SIM_REPLICATED)
        return refuse("optimizer_partitioning", "sharded optimizer state", "none", error);
    if (plan->config->position_encoding != MODEL_POSITION_RELATIVE_BIAS || plan->config->norm != MODEL_NORM_RMS ||
        plan->config->biases || plan->config->qk_norm || plan->config->sliding_window)
        return refuse("model", plan->model_text,
                      "one with T5's norms and relative positions, without biases and windows", error);
    if (plan->options.flash_attention) return refuse("attention", "flash", "unfused", error);
    if (plan->loss_normalizing_factor > 0 || plan->options.normalizes_by_tokens)
        return refuse("loss_normalizing_factor", "a value other than T5X's default", "leaving it out", error);
    if (*plan->adafactor_text) return refuse("adafactor", "a value other than T5X's default", "leaving it out", error);
    return check_numbers(plan, error);
}

/* libtpu has names of its own for two generations. */
static const char *compiler_name(const char *chip)
{
    return !strcmp(chip, "v5p") ? "v5" : chip;
}

/* libtpu's description of an absent slice. */
static void put_slice(const struct topo_topology *t, struct base_arena *arena, struct base_json_writer *w)
{
    bool flat = t->chip.torus_rank == 2, megacore = t->chip.cores_per_chip > t->chip.jax_devices_per_chip;
    const char *name = compiler_name(t->chip.name),
               *sizes = flat ? base_print(arena, "%dx%d", t->bounds[0], t->bounds[1])
                             : base_print(arena, "%dx%dx%d", t->bounds[0], t->bounds[1], t->bounds[2]);
    base_json_member_string(w, "name", base_print(arena, "%s:%s", name, sizes));
    base_json_member_string(w, "chip_config_name", megacore ? "megacore" : "default");
    base_json_member_ints(w, "chips_per_host_bounds", t->host, 3);
    base_json_member_int(w, "num_slices", 1);
}

static void put_topology(const struct sim_plan *plan, struct base_arena *arena, struct base_json_writer *w)
{
    const struct topo_topology *t = &plan->placement->topology;
    base_json_member_open(w, "topology", '{');
    base_json_member_string(w, "platform", t->kind == TOPO_TPU ? "tpu" : t->kind == TOPO_GPU ? "gpu" : "cpu");
    if (t->kind == TOPO_TPU) put_slice(t, arena, w);
    else base_json_member_string(w, "name", plan->topology_text);
    base_json_close(w, '}');
}

static enum base_status put_mesh(const struct sim_plan *plan, struct base_arena *arena, struct base_json_writer *w,
                                 struct base_error *error)
{
    struct topo_mesh mesh;
    BASE_TRY(topo_mesh_build(arena, &plan->placement->topology, &plan->request, TOPO_WITH_DEVICES, &mesh, error));
    base_json_member_open(w, "mesh", '{');
    base_json_member_strings(w, "axes", mesh.axes.names, mesh.axes.count);
    base_json_member_ints(w, "shape", mesh.axes.sizes, mesh.axes.count);
    base_json_member_open_inline(w, "devices", '[');
    for (int d = 0; d < mesh.device_count; d++) {
        base_json_open_inline(w, '[');
        for (int i = 0; i < mesh.coordinate_count; i++) base_json_put_int(w, mesh.devices[d][i]);
        base_json_close(w, ']');
    }
    base_json_close(w, ']');
    base_json_close(w, '}');
    return BASE_OK;
}

static void put_name(const char *name, struct base_json_writer *w)
{
    if (name) base_json_put_string(w, name);
    else base_json_put_null(w);
}

static void put_rules(const struct model_rules *rules, struct base_json_writer *w)
{
    base_json_member_open(w, "logical_axis_rules", '[');
    for (int i = 0; i < rules->count; i++) {
        const struct model_rule *rule = &rules->rules[i];
        base_json_open_inline(w, '[');
        base_json_put_string(w, rule->logical);
        base_json_open_inline(w, '[');
        for (int j = 0; j < rule->value.count; j++) base_json_put_string(w, rule->value.names[j]);
        base_json_close(w, ']');
        base_json_close(w, ']');
    }
    base_json_close(w, ']');
}

/* The dimensions that v_row averages over, and those of v_col; null where the state is not factored. */
static void put_factoring(const struct model_factoring *factoring, int rank, struct base_json_writer *w)
{
    const unsigned kept[] = {factoring->row_dims, factoring->column_dims};
    base_json_key(w, "factored");
    if (!factoring->factored) {
        base_json_put_null(w);
        return;
    }
    base_json_open_inline(w, '[');
    for (int i = 0; i < BASE_COUNT(kept); i++) {
        base_json_open_inline(w, '[');
        for (int d = 0; d < rank; d++)
            if (!(kept[i] >> d & 1)) base_json_put_int(w, d);
        base_json_close(w, ']');
    }
    base_json_close(w, ']');
}

static enum base_status put_parameters(const struct sim_plan *plan, struct base_arena *arena,
                                       struct base_json_writer *w, struct base_error *error)
{
    const struct model_parameter *parameters;
    const struct model_adafactor adafactor = model_adafactor_defaults();
    int count;
    BASE_TRY(model_parameters(arena, plan->config, &parameters, &count, error));
    if (plan->options.parameters) parameters = plan->options.parameters;
    base_json_member_open(w, "parameters", '{');
    for (int i = 0; i < count; i++) {
        const struct model_parameter *parameter = &parameters[i];
        struct model_factoring factoring = {.factored = false};
        if (plan->options.optimizer == MODEL_ADAFACTOR)
            BASE_TRY(model_factor(&adafactor, parameter->rank, parameter->shape, parameter->axes, &factoring, error));
        base_json_member_open_inline(w, parameter->path, '{');
        base_json_member_int64s(w, "shape", parameter->shape, parameter->rank);
        base_json_member_open_inline(w, "axes", '[');
        for (int d = 0; d < parameter->rank; d++) put_name(parameter->axes[d], w);
        base_json_close(w, ']');
        put_factoring(&factoring, parameter->rank, w);
        base_json_close(w, '}');
    }
    base_json_close(w, '}');
    return BASE_OK;
}

static void put_numbers(const struct sim_plan *plan, struct base_json_writer *w)
{
    const double *c = plan->placement->profile.constants;
    base_json_member_int(w, "batch_size", plan->batch_size);
    base_json_member_int(w, "num_microbatches", plan->num_microbatches);
    base_json_member_open_inline(w, "task_feature_lengths", '{');
    if (plan->config->encoder) base_json_member_int(w, "inputs", plan->inputs_length);
    base_json_member_int(w, "targets", plan->targets_length);
    base_json_close(w, '}');
    base_json_member_string(w, "optimizer", model_optimizer_name(plan->options.optimizer));
    base_json_member_double(w, "learning_rate", plan->learning_rate);
    base_json_member_string(w, "remat_policy",
                            plan->options.remat == MODEL_REMAT_NONE   ? "none"
                            : plan->options.remat == MODEL_REMAT_FULL ? "full"
                                                                      : "minimal");
    base_json_member_double(w, "z_loss", plan->z_loss);
    base_json_member_int(w, "seed", plan->seed);
    base_json_member_string(w, "dtype", model_dtype_name(plan->options.dtype));
    base_json_member_int(w, "limit_bytes", (int64_t)(c[SIM_CAPACITY_BYTES] - c[SIM_RESERVED_BYTES]));
    base_json_key(w, "model");
    model_config_put(plan->config, w);
}

enum base_status reports_launch_aot(struct base_arena *arena, const struct sim_plan_text *text,
                                    const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    struct base_text title = {.arena = arena};
    struct base_json_writer w = {.text = out};
    (void)text;
    if (!strcmp(plan->software, "maxtext")) return reports_launch_train_compile(arena, plan, out, error);
    BASE_TRY(check(plan, error));
    reports_launch_title(plan, &title);
    for (char *at = title.data; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' '; /* it is part of a comment */
    base_putf(out, "# The training step of %s, for the compiler and for devices; written by meshwright export.\n",
              title.data);
    base_put(out, "import json\n\n");
    base_put(out, "PLAN = json.loads(r\"\"\""); /* JSON has no three quotes in a row */
    base_json_open(&w, '{');
    put_topology(plan, arena, &w);
    BASE_TRY(put_mesh(plan, arena, &w, error));
    put_rules(plan->rules, &w);
    put_numbers(plan, &w);
    BASE_TRY(put_parameters(plan, arena, &w, error));
    base_json_close(&w, '}');
    base_put(out, "\"\"\")\n\n");
    base_put(out, embedded_reports_aot_step_py);
    base_put(out, embedded_reports_aot_run_py);
    base_put(out, embedded_reports_aot_dumps_py);
    return BASE_OK;
}
