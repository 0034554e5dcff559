/* `models --model M`: every parameter of a model, its sharding, and its optimizer state. */
#include "commands/commands.h"
#include "commands/table.h"
#include "model/gin/gin.h"
#include "sim/program/program.h"

#include <string.h>

/* One model, its optimizer and, if asked, one device's share of both. */
struct inventory {
    struct model_config config;
    struct model_rules rules;
    struct topo_axes mesh;
    bool has_mesh;
    const char *optimizer_name;
    enum model_optimizer optimizer;
    struct model_adafactor adafactor;
    const struct model_parameter *parameters;
    int count;
    struct model_device_state whole, device;
};

/* The model's parameters, with the axes that the user gives them. */
static enum base_status read_parameters(struct commands_context *context, const struct base_arguments *arguments,
                                        struct inventory *out, struct base_error *error)
{
    const char *text;
    struct model_overrides overrides;
    BASE_TRY(model_parameters(context->arena, &out->config, &out->parameters, &out->count, error));
    BASE_TRY(commands_overrides_text(context, arguments, &text, error));
    if (!text) return BASE_OK;
    BASE_TRY(model_overrides_parse(context->arena, text, &overrides, error));
    return model_overrides_apply(context->arena, &overrides, out->parameters, out->count, &out->parameters, error);
}

static enum base_status read_optimizer(struct base_arena *arena, const struct base_arguments *arguments,
                                       struct inventory *out, struct base_error *error)
{
    const char *optimizer = base_argument(arguments, "--optimizer"),
               *adafactor = base_argument(arguments, "--adafactor");
    if (optimizer) out->optimizer_name = optimizer;
    BASE_TRY(model_optimizer_parse(out->optimizer_name, &out->optimizer, error));
    if (!adafactor) return BASE_OK;
    if (out->optimizer != MODEL_ADAFACTOR)
        return base_fail(error, BASE_INPUT,
                         "--adafactor has options, but the optimizer is %s; use --optimizer adafactor",
                         out->optimizer_name);
    return model_adafactor_parse(arena, adafactor, &out->adafactor, error);
}

/* The plan of a file says model, rules, optimizer and mesh. One that is a model alone says the model. */
static enum base_status take_plan(struct commands_context *context, const char *path, const char **model,
                                  struct inventory *out, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    enum model_step step;
    BASE_TRY(commands_read_plan(context, path, &text, error));
    *model = text.values[SIM_MODEL];
    if (!text.values[SIM_TOPOLOGY] || !text.values[SIM_BATCH_SIZE]) return BASE_OK;
    BASE_TRY(sim_plan_step(&text, &step, error));
    BASE_TRY(sim_plan_check(context->cache, context->arena, &text, step, SIM_AS_COMPILED, &plan, error));
    out->rules = *plan.rules;
    out->optimizer_name = sim_plan_keys[SIM_OPTIMIZER].words[plan.options.optimizer].name;
    if (plan.options.adafactor) out->adafactor = *plan.options.adafactor;
    out->mesh = plan.placement->axes;
    out->has_mesh = plan.pipeline.stages == 1 && plan.optimizer_partitioning == SIM_REPLICATED;
    if (!out->has_mesh)
        commands_note(context, "one device's share is not counted: the plan divides it by stages, or its optimizer's "
                               "state by replicas; `meshwright predict` has its bytes");
    return BASE_OK;
}

static enum base_status take_inventory(struct commands_context *context, const struct base_arguments *arguments,
                                       struct inventory *out, struct base_error *error)
{
    struct base_arena *arena = context->arena;
    const char *model = NULL, *rules = base_argument(arguments, "--logical-axis-rules"),
               *mesh = base_argument(arguments, "--mesh");
    out->optimizer_name = "adafactor";
    out->adafactor = model_adafactor_defaults();
    BASE_TRY(model_rules_parse(arena, "standard", &out->rules, error));
    if (arguments->positional_count) BASE_TRY(take_plan(context, arguments->positional[0], &model, out, error));
    if (base_argument(arguments, "--model")) model = base_argument(arguments, "--model");
    if (!model)
        return base_fail(error, BASE_USAGE,
                         "PLAN or --model is needed, as in --model t5_1_1_base; `meshwright models` lists them");
    out->has_mesh = out->has_mesh || mesh;
    BASE_TRY(model_gin_config_parse(arena, model, context->gin_search_path, &out->config, error));
    commands_note_model(context, model);
    if (*out->config.left_out) commands_warn_of_left_out(context, out->config.left_out);
    if (rules) BASE_TRY(model_rules_parse(arena, rules, &out->rules, error));
    BASE_TRY(read_optimizer(arena, arguments, out, error));
    if (mesh) BASE_TRY(topo_axes_parse(arena, mesh, "mesh", &out->mesh, error));
    BASE_TRY(read_parameters(context, arguments, out, error));
    BASE_TRY(model_whole_state(out->parameters, out->count, out->optimizer, &out->adafactor, &out->whole, error));
    if (!out->has_mesh) return BASE_OK;
    return model_device_state(out->parameters, out->count, &out->rules, &out->mesh, MODEL_EXACT, out->optimizer,
                              &out->adafactor, &out->device, error);
}

static enum base_status put_optimizer_state(struct base_json_writer *writer, const struct inventory *inventory,
                                            const struct model_parameter *parameter, struct base_error *error)
{
    struct model_factoring f;
    base_json_member_open_inline(writer, "optimizer_state", '{');
    const char *const *moments;
    int moment_count = model_moments_of(inventory->optimizer, parameter->path,
                                        model_dims_of_one(parameter->rank, parameter->axes), &moments);
    for (int i = 0; i < moment_count; i++)
        base_json_member_int64s(writer, moments[i], parameter->shape, parameter->rank);
    if (inventory->optimizer == MODEL_ADAFACTOR) {
        BASE_TRY(model_factor(&inventory->adafactor, parameter->rank, parameter->shape, parameter->axes, &f, error));
        base_json_member_int64s(writer, "v_row", f.v_row, f.v_row_rank);
        base_json_member_int64s(writer, "v_col", f.v_col, f.v_col_rank);
        base_json_member_int64s(writer, "v", f.v, f.v_rank);
        base_json_member_int64s(writer, "m", f.m, f.m_rank);
    }
    base_json_close(writer, '}');
    return BASE_OK;
}

static enum base_status put_parameter(struct base_json_writer *writer, const struct inventory *inventory,
                                      const struct model_parameter *parameter, struct base_error *error)
{
    struct model_axes spec[MODEL_MAX_RANK];
    BASE_TRY(
        model_resolve(&inventory->rules, parameter->axes, parameter->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    base_json_open_inline(writer, '{');
    base_json_member_string(writer, "path", parameter->path);
    base_json_member_int64s(writer, "shape", parameter->shape, parameter->rank);
    base_json_member_strings(writer, "axes", parameter->axes, parameter->rank);
    commands_put_spec(writer, parameter->rank, spec);
    BASE_TRY(put_optimizer_state(writer, inventory, parameter, error));
    base_json_close(writer, '}');
    return BASE_OK;
}

static enum base_status put_inventory(struct base_json_writer *writer, const struct inventory *inventory,
                                      struct base_error *error)
{
    base_json_open(writer, '{');
    base_json_member_int(writer, "parameter_count", inventory->whole.parameter_count);
    base_json_member_int(writer, "optimizer_state_count", inventory->whole.optimizer_state_count);
    base_json_member_open(writer, "parameters", '[');
    for (int i = 0; i < inventory->count; i++)
        BASE_TRY(put_parameter(writer, inventory, &inventory->parameters[i], error));
    base_json_close(writer, ']');
    if (inventory->has_mesh) {
        base_json_member_open(writer, "per_device", '{');
        base_json_member_int(writer, "parameter_count", inventory->device.parameter_count);
        base_json_member_int(writer, "parameter_bytes", inventory->device.parameter_bytes);
        base_json_member_int(writer, "optimizer_state_count", inventory->device.optimizer_state_count);
        base_json_member_int(writer, "optimizer_state_bytes", inventory->device.optimizer_state_bytes);
        base_json_close(writer, '}');
    }
    base_json_close(writer, '}');
    return BASE_OK;
}

/* Layers of one stack are alike unless the user's axes say otherwise, so people see the first that has a parameter, and
 * those that differ. */
static bool is_shown(struct base_arena *arena, const struct inventory *inventory,
                     const struct model_parameter *parameter)
{
    return model_of_first_layer(arena, inventory->parameters, inventory->count, parameter) == parameter ||
           !model_is_like_first_layer(arena, inventory->parameters, inventory->count, parameter);
}

/* Number of arrays that a row represents: the first layer's, and those of equal layers. */
static int64_t arrays_alike(struct base_arena *arena, const struct inventory *inventory,
                            const struct model_parameter *parameter)
{
    const char *layer = strstr(parameter->path, "/layers_"), *own = layer ? strchr(layer + 1, '/') : NULL;
    int64_t alike = 0;
    if (!own || model_of_first_layer(arena, inventory->parameters, inventory->count, parameter) != parameter) return 1;
    for (int i = 0; i < inventory->count; i++) {
        const struct model_parameter *other = &inventory->parameters[i];
        const char *at = strstr(other->path, "/layers_"), *rest = at ? strchr(at + 1, '/') : NULL;
        bool same = rest && at - other->path == layer - parameter->path &&
                    !strncmp(other->path, parameter->path, (size_t)(at - other->path)) && !strcmp(rest, own);
        alike += same && model_is_like_first_layer(arena, inventory->parameters, inventory->count, other);
    }
    return alike;
}

static const char *path_of_all_layers(struct base_arena *arena, const char *path)
{
    const char *layer = strstr(path, "/layers_"), *rest = layer ? strchr(layer + 1, '/') : NULL;
    return rest ? base_print(arena, "%.*s/layers_*%s", (int)(layer - path), path, rest) : path;
}

static enum base_status state_text(struct base_arena *arena, const struct inventory *inventory,
                                   const struct model_parameter *parameter, const char **out, struct base_error *error)
{
    struct model_factoring f;
    const char *const *moments;
    int moment_count = model_moments_of(inventory->optimizer, parameter->path,
                                        model_dims_of_one(parameter->rank, parameter->axes), &moments);
    *out = moment_count ? moments[0] : "-";
    for (int i = 1; i < moment_count; i++) *out = base_print(arena, "%s, %s", *out, moments[i]);
    if (inventory->optimizer != MODEL_ADAFACTOR) return BASE_OK;
    BASE_TRY(model_factor(&inventory->adafactor, parameter->rank, parameter->shape, parameter->axes, &f, error));
    const char *momentum = inventory->adafactor.has_beta1 ? ", m" : "";
    if (f.factored)
        *out = base_print(arena, "v_row %s, v_col %s%s", commands_shape_text(arena, f.v_row_rank, f.v_row),
                          commands_shape_text(arena, f.v_col_rank, f.v_col), momentum);
    else *out = base_print(arena, "v%s", momentum);
    return BASE_OK;
}

static enum base_status write_parameter(struct commands_table *table, const struct inventory *inventory,
                                        const struct model_parameter *parameter, struct base_error *error)
{
    struct base_arena *arena = table->arena;
    struct base_text names = {.arena = arena};
    struct model_axes spec[MODEL_MAX_RANK];
    const char *state;
    if (!is_shown(arena, inventory, parameter)) return BASE_OK;
    BASE_TRY(
        model_resolve(&inventory->rules, parameter->axes, parameter->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    BASE_TRY(state_text(arena, inventory, parameter, &state, error));
    for (int i = 0; i < parameter->rank; i++)
        base_putf(&names, "%s%s", i ? ", " : "", parameter->axes[i] ? parameter->axes[i] : "null");
    bool is_first = model_of_first_layer(arena, inventory->parameters, inventory->count, parameter) == parameter;
    commands_table_row(table, is_first ? path_of_all_layers(arena, parameter->path) : parameter->path,
                       base_print(arena, "%lld", (long long)arrays_alike(arena, inventory, parameter)),
                       commands_shape_text(arena, parameter->rank, parameter->shape), names.data ? names.data : "",
                       commands_spec_text(arena, parameter->rank, spec), state, NULL);
    return BASE_OK;
}

static enum base_status write_inventory(const struct inventory *inventory, struct base_text *out,
                                        struct base_error *error)
{
    const struct model_device_state *whole = &inventory->whole, *device = &inventory->device;
    struct base_arena *arena = out->arena;
    struct commands_table table = commands_table_new(arena, "lrllll", inventory->count + 1);
    commands_table_row(&table, "parameter", "arrays", "shape", "logical axes", "mesh axes", "optimizer state", NULL);
    for (int i = 0; i < inventory->count; i++)
        BASE_TRY(write_parameter(&table, inventory, &inventory->parameters[i], error));
    base_putf(out, "%s: %s parameters in %d arrays, %s elements of %s state\n\n", inventory->config.name,
              commands_grouped(arena, whole->parameter_count), inventory->count,
              commands_grouped(arena, whole->optimizer_state_count), inventory->optimizer_name);
    commands_table_write(&table, out);
    if (!inventory->has_mesh) return BASE_OK;
    base_putf(out, "\nOn one device of %s: %s parameters (%s bytes), %s elements of optimizer state (%s bytes)\n",
              topo_axes_describe(arena, &inventory->mesh), commands_grouped(arena, device->parameter_count),
              commands_grouped(arena, device->parameter_bytes), commands_grouped(arena, device->optimizer_state_count),
              commands_grouped(arena, device->optimizer_state_bytes));
    return BASE_OK;
}

enum base_status commands_list_parameters(struct commands_context *context, const struct base_arguments *arguments,
                                          struct base_text *out, struct base_error *error)
{
    struct inventory *inventory = base_new(context->arena, struct inventory, 1);
    BASE_TRY(take_inventory(context, arguments, inventory, error));
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    return context->json ? put_inventory(&writer, inventory, error) : write_inventory(inventory, out, error);
}
