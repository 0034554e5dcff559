/* A plan as one Python file that compiles it with the real XLA:TPU compiler, without a TPU, or runs it on its devices.
 * The plan's values are JSON at its head; the program below is the same for all: the step (aot_step.py), its driver
 * (aot_run.py), and a reader of the compiler's dumps (aot_dumps.py). For a MaxText plan the step is MaxText's own
 * train_compile (aot_maxtext.py). */
#include "reports/launch.h"

#include <string.h>

extern const char embedded_reports_aot_step_py[], embedded_reports_aot_run_py[], embedded_reports_aot_dumps_py[],
    embedded_reports_aot_maxtext_py[];

/* A value that the program cannot have, by plan key. */
struct lack {
    bool lacks;
    const char *key, *what, *use;
};

static enum base_status refuse_lacks(const struct lack *lacks, int count, const char *program, struct base_error *error)
{
    for (int i = 0; i < count; i++)
        if (lacks[i].lacks)
            return base_fail(error, BASE_INPUT, "%s: %s cannot be written for %s; use %s", lacks[i].key, lacks[i].what,
                             program, lacks[i].use);
    return BASE_OK;
}

static enum base_status refuse_inference(const struct sim_plan *plan, struct base_error *error)
{
    if (plan->options.step == MODEL_STEP_TRAIN) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "step: the compiler can be asked about training steps alone; leave the step out");
}

/* The program is T5X's step and no more: without quantized products, state in bfloat16, masks, lists of tensors. */
static enum base_status check(const struct sim_plan *plan, struct base_error *error)
{
    const struct topo_topology *topology = &plan->placement->topology;
    const struct model_config *c = plan->config;
    const enum model_remat remat = plan->options.remat;
    const char *dtype = model_dtype_name(plan->options.dtype), *weights = model_dtype_name(plan->options.weight_dtype);
    const bool of_t5 = c->position_encoding == MODEL_POSITION_RELATIVE_BIAS && c->norm == MODEL_NORM_RMS &&
                       !c->biases && !c->qk_norm && !c->sliding_window,
               other_factor = plan->loss_normalizing_factor > 0 || plan->options.normalizes_by_tokens;
    const struct lack lacks[] = {
        {topology->kind == TOPO_CPU, "topology", plan->topology_text, "TPUs, GPUs or local:4, as in v4-16"},
        {topology->slice_count > 1, "topology", "a mesh over several slices", "one slice"},
        {topology->twisted, "topology", "a twisted torus", "one that is not"},
        {strcmp(plan->software, "t5x") != 0, "software", plan->software, "t5x"},
        {plan->sequence_parallel, "sequence_parallel", "1", "0"},
        {plan->optimizer_partitioning != SIM_REPLICATED, "optimizer_partitioning", "sharded optimizer state", "none"},
        {!of_t5, "model", plan->model_text, "one with T5's norms and relative positions, without biases and windows"},
        {plan->options.flash_attention, "attention", "flash", "unfused"},
        {other_factor, "loss_normalizing_factor", "a value other than T5X's default", "leaving it out"},
        {*plan->adafactor_text, "adafactor", "a value other than T5X's default", "leaving it out"},
        {model_dtype_is_quantized(plan->options.dtype), "dtype", dtype, "bfloat16"},
        {plan->options.weight_dtype != MODEL_FLOAT32, "weight_dtype", weights, "float32"},
        {plan->options.moment_dtype == MODEL_MOMENT_BFLOAT16, "moment_dtype", "bfloat16", "float32"},
        {plan->dropout_rate > 0, "dropout_rate", "a rate above 0", "0"},
        {remat == MODEL_REMAT_SELECTIVE, "remat_policy", "selective", "minimal"},
        {remat == MODEL_REMAT_TENSORS && plan->options.saved.layers, "remat_policy", "a number of layers",
         "all of them"},
        {remat == MODEL_REMAT_TENSORS, "remat_policy", "a list of tensors", "minimal or full"}};
    BASE_TRY(refuse_inference(plan, error));
    return refuse_lacks(lacks, BASE_COUNT(lacks), "the compiler", error);
}

static enum base_status check_maxtext(struct base_arena *arena, const struct sim_plan *plan, struct base_error *error)
{
    const bool is_type = plan->placement->topology.kind == TOPO_TPU && !strchr(plan->topology_text, ':'),
               is_remat =
                   plan->options.remat != MODEL_REMAT_SELECTIVE && !plan->remat_every && !plan->options.saved.layers;
    const struct lack lacks[] = {
        {plan->config->experts.count, "model", "a model with experts", "a dense one"},
        {!reports_maxtext_model(arena, plan->model_text), "model", plan->model_text,
         "a zoo name that MaxText has, as llama3_8b"},
        {!is_type, "topology", plan->topology_text, "an accelerator type of a TPU, as v5e-32"},
        {!plan->request.ici_mesh.count, "ici_mesh", "none", "a mesh, as data=1,fsdp=32"},
        {strcmp(plan->rules_text, "maxtext") != 0, "logical_axis_rules", "a list of rules", "maxtext"},
        {plan->options.optimizer != MODEL_ADAMW, "optimizer", model_optimizer_name(plan->options.optimizer), "adamw"},
        {!plan->options.flash_attention, "attention", "unfused", "flash"},
        {plan->options.dtype != MODEL_BFLOAT16, "dtype", model_dtype_name(plan->options.dtype), "bfloat16"},
        {!is_remat, "remat_policy", "this one", "full, minimal, or tensors of all layers"}};
    BASE_TRY(refuse_inference(plan, error));
    return refuse_lacks(lacks, BASE_COUNT(lacks), "MaxText's train_compile", error);
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

static void put_limit(const struct sim_plan *plan, struct base_json_writer *w)
{
    const double *c = plan->placement->profile.constants;
    base_json_member_int(w, "limit_bytes", (int64_t)(c[SIM_CAPACITY_BYTES] - c[SIM_RESERVED_BYTES]));
}

static void put_numbers(const struct sim_plan *plan, struct base_json_writer *w)
{
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
    put_limit(plan, w);
    base_json_key(w, "model");
    model_config_put(plan->config, w);
}

/* Arguments of MaxText's train_compile: those of its train, and the slice that is not there. */
static void put_arguments(const struct sim_plan *plan, struct base_arena *arena, struct base_json_writer *w)
{
    struct base_text lines = {.arena = arena};
    base_putf(&lines,
              "run_name=verify\nbase_output_directory=.\nenable_checkpointing=false\ndataset_type=synthetic\n"
              "compile_topology=%.*s\ncompile_topology_num_slices=%d\nmodel_name=%s\nweight_dtype=%s\n"
              "scan_layers=%s\n",
              (int)strcspn(plan->topology_text, "@"), plan->topology_text, plan->placement->topology.slice_count,
              reports_maxtext_model(arena, plan->model_text), model_dtype_name(plan->options.weight_dtype),
              plan->config->scan_layers ? "true" : "false");
    reports_put_maxtext_plan(plan, "\n", &lines);
    base_json_member_open(w, "arguments", '[');
    for (const char *at = lines.data; *at; at += strcspn(at, "\n"), at += *at == '\n')
        base_json_put_string(w, base_copy_bytes(arena, at, strcspn(at, "\n")));
    base_json_close(w, ']');
}

/* "PLAN" of MaxText's program. */
static void put_maxtext(const struct sim_plan *plan, struct base_arena *arena, struct base_json_writer *w)
{
    const struct topo_axes *axes = &plan->placement->axes;
    base_json_member_open(w, "topology", '{');
    base_json_member_string(w, "platform", "tpu");
    base_json_member_string(w, "name", plan->topology_text);
    base_json_close(w, '}');
    base_json_member_open(w, "mesh", '{');
    base_json_member_strings(w, "axes", axes->names, axes->count);
    base_json_member_ints(w, "shape", axes->sizes, axes->count);
    base_json_close(w, '}');
    put_limit(plan, w);
    put_arguments(plan, arena, w);
}

static enum base_status put_t5x(const struct sim_plan *plan, struct base_arena *arena, struct base_json_writer *w,
                                struct base_error *error)
{
    put_topology(plan, arena, w);
    BASE_TRY(put_mesh(plan, arena, w, error));
    put_rules(plan->rules, w);
    put_numbers(plan, w);
    return put_parameters(plan, arena, w, error);
}

enum base_status reports_launch_aot(struct base_arena *arena, const struct sim_plan_text *text,
                                    const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const bool maxtext = !strcmp(plan->software, "maxtext");
    struct base_json_writer w = {.text = out};
    (void)text;
    BASE_TRY(maxtext ? check_maxtext(arena, plan, error) : check(plan, error));
    base_putf(out, "# The training step of %s, for %s; written by meshwright export.\n",
              reports_launch_line(arena, plan), maxtext ? "MaxText's train_compile" : "the compiler and for devices");
    base_put(out, "import json\n\nPLAN = json.loads(r\"\"\""); /* JSON has no three quotes in a row */
    base_json_open(&w, '{');
    if (maxtext) put_maxtext(plan, arena, &w);
    else BASE_TRY(put_t5x(plan, arena, &w, error));
    base_json_close(&w, '}');
    base_put(out, "\"\"\")\n\n");
    base_put(out, maxtext ? embedded_reports_aot_maxtext_py : embedded_reports_aot_step_py);
    if (!maxtext) base_put(out, embedded_reports_aot_run_py);
    base_put(out, embedded_reports_aot_dumps_py);
    return BASE_OK;
}
