/* `rules`, `models` and `params`: what the model room knows, asked directly. */
#include "commands/commands.h"
#include "model/model.h"

#include <string.h>

/* ---- a table for people ---- */

enum { MOST_COLUMNS = 12 };

struct table {
    struct base_arena *arena;
    const char **cells; /* row by row */
    int columns, count, capacity;
    const char *align; /* a letter a column: l, r */
};

static struct table new_table(struct base_arena *arena, const char *align, int rows)
{
    int columns = (int)strlen(align), capacity = columns * rows;
    return (struct table){arena, base_new(arena, const char *, capacity), columns, 0, capacity, align};
}

static void put_cell(struct table *table, const char *text)
{
    if (table->count < table->capacity) table->cells[table->count++] = text;
}

/* Width on the screen: UTF-8's following bytes take no room. */
static int width(const char *text)
{
    int columns = 0;
    for (; *text; text++) columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static void write_table(const struct table *table, struct base_text *out)
{
    int widths[MOST_COLUMNS] = {0};
    for (int i = 0; i < table->count; i++)
        if (width(table->cells[i]) > widths[i % table->columns]) widths[i % table->columns] = width(table->cells[i]);
    for (int i = 0; i < table->count; i++) {
        int column = i % table->columns, padding = widths[column] - width(table->cells[i]);
        bool last = column == table->columns - 1, right = table->align[column] == 'r';
        base_putf(out, "%*s%s%*s%s", right ? padding : 0, "", table->cells[i], right || last ? 0 : padding, "", last ? "\n" : "  ");
    }
}

/* 11135332352 -> "11,135,332,352" */
static const char *grouped(struct base_arena *arena, int64_t value)
{
    const char *digits = base_print(arena, "%lld", (long long)value);
    struct base_text text = {.arena = arena};
    size_t length = strlen(digits);
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && digits[i - 1] != '-') base_put(&text, ",");
        base_put_bytes(&text, &digits[i], 1);
    }
    return text.data;
}

static const char *shape_text(struct base_arena *arena, int rank, const int64_t *shape)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < rank; i++) base_putf(&text, "%s%lld", i ? " x " : "", (long long)shape[i]);
    return text.data ? text.data : "scalar";
}

/* ---- mesh axes, shapes and names in both forms ---- */

static const char *axes_text(struct base_arena *arena, const struct model_axes *axes)
{
    struct base_text text = {.arena = arena};
    if (axes->unconstrained) return MODEL_UNCONSTRAINED;
    for (int i = 0; i < axes->count; i++) base_putf(&text, "%s%s", i ? "+" : "", axes->names[i] ? axes->names[i] : "null");
    return text.data ? text.data : "-";
}

static const char *spec_text(struct base_arena *arena, int rank, const struct model_axes *spec)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < rank; i++) base_putf(&text, "%s%s", i ? ", " : "", axes_text(arena, &spec[i]));
    return text.data ? text.data : "";
}

static void put_axes(struct base_json_writer *writer, const struct model_axes *axes)
{
    if (axes->unconstrained) {
        base_json_put_string(writer, MODEL_UNCONSTRAINED);
        return;
    }
    if (axes->count < 2) {
        base_json_put_string(writer, axes->count ? axes->names[0] : NULL);
        return;
    }
    base_json_open_inline(writer, '[');
    for (int i = 0; i < axes->count; i++) base_json_put_string(writer, axes->names[i]);
    base_json_close(writer, ']');
}

static void put_spec(struct base_json_writer *writer, int rank, const struct model_axes *spec)
{
    base_json_key(writer, "spec");
    base_json_open_inline(writer, '[');
    for (int i = 0; i < rank; i++) put_axes(writer, &spec[i]);
    base_json_close(writer, ']');
}

static void put_shape(struct base_json_writer *writer, const char *key, int rank, const int64_t *shape)
{
    base_json_key(writer, key);
    base_json_open_inline(writer, '[');
    for (int i = 0; i < rank; i++) base_json_put_int(writer, shape[i]);
    base_json_close(writer, ']');
}

static void put_int(struct base_json_writer *writer, const char *key, int64_t value)
{
    base_json_key(writer, key);
    base_json_put_int(writer, value);
}

static void put_string(struct base_json_writer *writer, const char *key, const char *value)
{
    base_json_key(writer, key);
    base_json_put_string(writer, value);
}

/* ---- rules ---- */

enum { MOST_DIMS = 64 };

/* What was asked of a set of rules, and its answer. */
struct resolution {
    struct model_rules rules;
    struct model_mesh mesh;
    bool has_mesh, has_fallback;
    int rank, shape_rank;
    const char *names[MOST_DIMS];
    int64_t shape[MOST_DIMS], local_shape[MOST_DIMS];
    struct model_axes spec[MOST_DIMS];
    enum model_fallback fallback;
    enum model_outcome outcome;
};

static void put_rules(struct base_json_writer *writer, const struct model_rules *rules)
{
    base_json_open(writer, '{');
    base_json_key(writer, "rules");
    base_json_open(writer, '[');
    for (int i = 0; i < rules->count; i++) {
        base_json_open_inline(writer, '[');
        base_json_put_string(writer, rules->rules[i].logical);
        put_axes(writer, &rules->rules[i].value);
        base_json_close(writer, ']');
    }
    base_json_close(writer, ']');
    base_json_close(writer, '}');
}

static void write_rules(const struct model_rules *rules, struct base_text *out)
{
    struct table table = new_table(out->arena, "ll", rules->count + 1);
    put_cell(&table, "logical axis");
    put_cell(&table, "mesh axis");
    for (int i = 0; i < rules->count; i++) {
        put_cell(&table, rules->rules[i].logical ? rules->rules[i].logical : "null");
        put_cell(&table, axes_text(out->arena, &rules->rules[i].value));
    }
    write_table(&table, out);
}

/* "batch,null,embed" */
static enum base_status parse_names(struct base_arena *arena, const char *text, struct resolution *out, struct base_error *error)
{
    for (char *at = base_copy(arena, text), *next; at; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        if (!*at) return base_fail(error, BASE_INPUT, "--axes: an empty name in \"%.60s\"; null is a dimension without a name", text);
        if (out->rank == MOST_DIMS) return base_fail(error, BASE_INPUT, "--axes: more than %d dimensions", MOST_DIMS);
        out->names[out->rank++] = strcmp(at, "null") ? at : NULL;
    }
    return BASE_OK;
}

static enum base_status parse_fallback(const char *text, enum model_fallback *out, struct base_error *error)
{
    static const char *const names[] = {
        [MODEL_AXIS_IS_UNSHARDED] = "axis_is_unsharded", [MODEL_RAISE_ERROR] = "raise_error", [MODEL_NO_CONSTRAINT] = "no_constraint"};
    int fallback;
    BASE_TRY(base_parse_word(text, "--fallback", names, BASE_COUNT(names), &fallback, error));
    *out = (enum model_fallback)fallback;
    return BASE_OK;
}

static enum base_status parse_shape(const char *text, struct resolution *out, struct base_error *error)
{
    const int64_t largest = INT64_C(1) << 53;
    BASE_TRY(base_parse_ints(text, "--shape", 1, largest, MOST_DIMS, out->shape, &out->shape_rank, error));
    if (out->shape_rank != out->rank)
        return base_fail(error, BASE_INPUT, "--shape: %d dimensions, but --axes names %d; one size for each would do", out->shape_rank, out->rank);
    if (!out->has_mesh) return base_fail(error, BASE_USAGE, "--shape needs --mesh, as in --mesh data=4,model=2");
    return BASE_OK;
}

static enum base_status parse_rules_arguments(struct base_arena *arena, const struct base_arguments *arguments, struct resolution *out,
                                              struct base_error *error)
{
    const char *rules = base_argument(arguments, "--logical-axis-rules"), *mesh = base_argument(arguments, "--mesh");
    const char *axes = base_argument(arguments, "--axes"), *shape = base_argument(arguments, "--shape"), *fallback = base_argument(arguments,
                                                            "--fallback");
    if (!axes && (mesh || shape || fallback)) return base_fail(error, BASE_USAGE, "--mesh, --shape and --fallback need --axes, as in --axes "
                                                            "batch,length,embed");
    BASE_TRY(model_rules_parse(arena, rules ? rules : "standard", &out->rules, error));
    out->has_mesh = mesh != NULL;
    out->has_fallback = fallback != NULL;
    if (axes) BASE_TRY(parse_names(arena, axes, out, error));
    if (mesh) BASE_TRY(model_mesh_parse(arena, mesh, &out->mesh, error));
    if (shape) BASE_TRY(parse_shape(shape, out, error));
    if (fallback) BASE_TRY(parse_fallback(fallback, &out->fallback, error));
    return BASE_OK;
}

/* Without --shape the mesh still has to know every axis: any shape shows that. */
static enum base_status resolve(struct resolution *r, struct base_error *error)
{
    BASE_TRY(model_resolve(&r->rules, r->names, r->rank, r->fallback, r->spec, r->has_fallback ? &r->outcome : NULL, error));
    if (!r->has_mesh) return BASE_OK;
    return model_local_shape(&r->mesh, r->rank, r->shape, r->names, r->spec, false, r->local_shape, error);
}

static void put_resolution(struct base_json_writer *writer, const struct resolution *r)
{
    base_json_open(writer, '{');
    put_spec(writer, r->rank, r->spec);
    if (r->shape_rank) {
        base_json_key(writer, "local_shape");
        base_json_open_inline(writer, '[');
        for (int i = 0; i < r->rank; i++) {
            if (r->spec[i].unconstrained) base_json_put_null(writer); /* the partitioner chooses */
            else base_json_put_int(writer, r->local_shape[i]);
        }
        base_json_close(writer, ']');
    }
    if (r->has_fallback) put_string(writer, "outcome", r->outcome == MODEL_CONSTRAINT ? "constraint" : "noop");
    base_json_close(writer, '}');
}

static void write_resolution(const struct resolution *r, struct base_text *out)
{
    struct table table = new_table(out->arena, r->shape_rank ? "llrr" : "ll", r->rank + 1);
    put_cell(&table, "logical axis");
    put_cell(&table, "mesh axis");
    if (r->shape_rank) {
        put_cell(&table, "size");
        put_cell(&table, "on one device");
    }
    for (int i = 0; i < r->rank; i++) {
        put_cell(&table, r->names[i] ? r->names[i] : "null");
        put_cell(&table, axes_text(out->arena, &r->spec[i]));
        if (!r->shape_rank) continue;
        put_cell(&table, grouped(out->arena, r->shape[i]));
        put_cell(&table, r->spec[i].unconstrained ? "any" : grouped(out->arena, r->local_shape[i]));
    }
    write_table(&table, out);
    if (r->has_fallback && r->outcome == MODEL_NOOP) base_put(out, "no-op: no constraint is made\n");
}

static enum base_status run_rules(struct commands_context *context, const struct base_arguments *arguments, struct base_text *out,
                                  struct base_error *error)
{
    struct base_json_writer writer = {.text = out, .compact = context->compact};
    struct resolution *r = base_new(context->arena, struct resolution, 1);
    BASE_TRY(parse_rules_arguments(context->arena, arguments, r, error));
    if (!base_argument(arguments, "--axes")) {
        if (context->json) put_rules(&writer, &r->rules);
        else write_rules(&r->rules, out);
        return BASE_OK;
    }
    BASE_TRY(resolve(r, error));
    if (context->json) put_resolution(&writer, r);
    else write_resolution(r, out);
    return BASE_OK;
}

static const struct base_option rules_options[] = {
    {"--logical-axis-rules", "RULES", "standard, standard:A,P, data_only, zero3, megatron, optimus, gshard, or a JSON list [[logical, mesh axis or "
     "null or list], …]", "standard:1,1"},
    {"--axes", "NAMES", "logical axes of an array, in order; null is one without a name", "the rules themselves are printed"},
    {"--mesh", "SIZES", "mesh axes and sizes, as in data=4,model=2", NULL},
    {"--shape", "SIZES", "sizes of the array's dimensions; with --mesh, gives the shape on one device", NULL},
    {"--fallback", "axis_is_unsharded|raise_error|no_constraint", "resolve a constraint, and do this where no rule applies", NULL},
    COMMANDS_COMMON,
};

const struct commands_command commands_rules = {
    .name = "rules",
    .summary = "which mesh axes shard an array with these logical axes",
    .usage = "rules [--logical-axis-rules RULES] [--axes NAMES [--shape SIZES --mesh SIZES] [--fallback WHAT]]",
    .examples = "  meshwright rules --logical-axis-rules standard:2,1\n"
                "  meshwright rules --axes batch,length,embed --shape 8,512,1024 --mesh data=4,model=2\n",
    .options = rules_options,
    .option_count = BASE_COUNT(rules_options),
    .run = run_rules,
};

/* ---- models ---- */

struct zoo_row {
    const struct model_zoo_model *model;
    struct model_config config;
    int64_t parameter_count, adafactor_bytes, adamw_bytes; /* the last two: optimizer state */
};

/* Elements and bytes of all parameters and of the optimizer's state, nothing sharded. */
static enum base_status count_whole(const struct model_parameter *parameters, int count, enum model_optimizer optimizer,
                                    const struct model_adafactor *adafactor, struct model_device_state *out, struct base_error *error)
{
    return model_device_state(parameters, count, &(struct model_rules){0}, &(struct model_mesh){0}, optimizer, adafactor, out, error);
}

static enum base_status fill_zoo_row(struct base_arena *arena, struct zoo_row *row, struct base_error *error)
{
    const struct model_parameter *parameters;
    struct model_device_state adafactor, adamw;
    struct model_adafactor defaults = model_adafactor_defaults();
    int count;
    BASE_TRY(model_config_parse(arena, row->model->name, &row->config, error));
    BASE_TRY(model_parameters(arena, &row->config, &parameters, &count, error));
    BASE_TRY(count_whole(parameters, count, MODEL_ADAFACTOR, &defaults, &adafactor, error));
    BASE_TRY(count_whole(parameters, count, MODEL_ADAMW, &defaults, &adamw, error));
    row->parameter_count = adafactor.parameter_count;
    row->adafactor_bytes = adafactor.optimizer_state_bytes;
    row->adamw_bytes = adamw.optimizer_state_bytes;
    return BASE_OK;
}

static void put_zoo_row(struct base_json_writer *writer, const struct zoo_row *row)
{
    const struct model_config *config = &row->config;
    base_json_open_inline(writer, '{');
    put_string(writer, "model", row->model->name);
    put_string(writer, "architecture", row->model->architecture);
    put_int(writer, "emb_dim", config->emb_dim);
    put_int(writer, "num_heads", config->num_heads);
    put_int(writer, "num_kv_heads", config->num_kv_heads);
    put_int(writer, "head_dim", config->head_dim);
    put_int(writer, "mlp_dim", config->mlp_dim);
    if (config->encoder) put_int(writer, "num_encoder_layers", config->num_encoder_layers);
    put_int(writer, "num_decoder_layers", config->num_decoder_layers);
    put_int(writer, "vocab_size", config->vocab_size);
    base_json_key(writer, "mlp_activations");
    base_json_open_inline(writer, '[');
    for (int i = 0; i < config->mlp_activation_count; i++) base_json_put_string(writer, model_activation_name(config->mlp_activations[i]));
    base_json_close(writer, ']');
    base_json_key(writer, "logits_via_embedding");
    base_json_put_bool(writer, config->logits_via_embedding);
    put_int(writer, "parameter_count", row->parameter_count);
    put_int(writer, "adafactor_state_bytes", row->adafactor_bytes);
    put_int(writer, "adamw_state_bytes", row->adamw_bytes);
    put_string(writer, "about", row->model->about);
    put_string(writer, "source", row->model->source);
    base_json_close(writer, '}');
}

static const char *layers_text(struct base_arena *arena, const struct model_config *config)
{
    if (!config->encoder) return base_print(arena, "%lld", (long long)config->num_decoder_layers);
    return base_print(arena, "%lld+%lld", (long long)config->num_encoder_layers, (long long)config->num_decoder_layers);
}

static const char *bytes_text(struct base_arena *arena, int64_t bytes)
{
    char shown[BASE_HUMANE];
    return base_copy(arena, base_format_bytes(shown, (double)bytes));
}

static void write_zoo(const struct zoo_row *rows, int count, struct base_text *out)
{
    static const char *const titles[] = {"model", "parameters", "adafactor state", "adamw state", "layers", "emb_dim", "heads", "head_dim", "mlp_dim", "vocab_size", "what it is"};
    struct table table = new_table(out->arena, "lrrrrrrrrrl", count + 1);
    for (int i = 0; i < BASE_COUNT(titles); i++) put_cell(&table, titles[i]);
    for (int i = 0; i < count; i++) {
        const struct model_config *config = &rows[i].config;
        const int64_t sizes[] = {config->emb_dim, config->num_heads, config->head_dim, config->mlp_dim, config->vocab_size};
        put_cell(&table, rows[i].model->name);
        put_cell(&table, grouped(out->arena, rows[i].parameter_count));
        put_cell(&table, bytes_text(out->arena, rows[i].adafactor_bytes));
        put_cell(&table, bytes_text(out->arena, rows[i].adamw_bytes));
        put_cell(&table, layers_text(out->arena, config));
        for (int j = 0; j < BASE_COUNT(sizes); j++) put_cell(&table, base_print(out->arena, "%lld", (long long)sizes[j]));
        put_cell(&table, rows[i].model->about);
    }
    write_table(&table, out);
    base_put(out, "\nParameters are float32. adafactor is T5X's, factored; `meshwright params --adafactor …` counts its other options.\n"
                  "Any other model: decoder_only:emb_dim=…,num_heads=…,head_dim=…,mlp_dim=…,num_layers=…,vocab_size=…; the same after\n"
                  "encoder_decoder:, scalable_encoder_decoder: or scalable_decoder_only:; or @FILE.json.\n");
}

static enum base_status run_models(struct commands_context *context, const struct base_arguments *arguments, struct base_text *out,
                                   struct base_error *error)
{
    (void)arguments;
    const struct model_zoo_model *models;
    int count;
    BASE_TRY(model_zoo(context->arena, &models, &count, error));
    struct zoo_row *rows = base_new(context->arena, struct zoo_row, count);
    for (int i = 0; i < count; i++) {
        rows[i].model = &models[i];
        BASE_TRY(fill_zoo_row(context->arena, &rows[i], error));
    }
    if (!context->json) {
        write_zoo(rows, count, out);
        return BASE_OK;
    }
    struct base_json_writer writer = {.text = out, .compact = context->compact};
    base_json_open(&writer, '{');
    base_json_key(&writer, "models");
    base_json_open(&writer, '[');
    for (int i = 0; i < count; i++) put_zoo_row(&writer, &rows[i]);
    base_json_close(&writer, ']');
    base_json_close(&writer, '}');
    return BASE_OK;
}

static const struct base_option models_options[] = {COMMANDS_COMMON};

const struct commands_command commands_models = {
    .name = "models",
    .summary = "the models that are known by name, and how to describe another",
    .usage = "models",
    .examples = "  meshwright models\n"
                "  meshwright models --json\n",
    .options = models_options,
    .option_count = BASE_COUNT(models_options),
    .run = run_models,
};

/* ---- params ---- */

/* One model, its optimizer and, if asked, what one device of a mesh holds of both. */
struct inventory {
    struct model_config config;
    struct model_rules rules;
    struct model_mesh mesh;
    bool has_mesh;
    const char *optimizer_name;
    enum model_optimizer optimizer;
    struct model_adafactor adafactor;
    const struct model_parameter *parameters;
    int count;
    struct model_device_state whole, device;
};

enum { LARGEST_OVERRIDES_BYTES = 1 << 20 };

enum base_status commands_overrides_text(struct commands_context *context, const struct base_arguments *arguments, const char **out, struct base_error *error)
{
    const char *given = base_argument(arguments, "--params-axes-names-override");
    size_t length;
    *out = given;
    if (!given || *given == '[') return BASE_OK;
    return base_read_file(context->arena, given, LARGEST_OVERRIDES_BYTES, out, &length, error);
}

/* The model's parameters, with the axes that the user gives them. */
static enum base_status read_parameters(struct commands_context *context, const struct base_arguments *arguments, struct inventory *out, struct base_error *error)
{
    const char *text;
    struct model_overrides overrides;
    BASE_TRY(model_parameters(context->arena, &out->config, &out->parameters, &out->count, error));
    BASE_TRY(commands_overrides_text(context, arguments, &text, error));
    if (!text) return BASE_OK;
    BASE_TRY(model_overrides_parse(context->arena, text, &overrides, error));
    return model_overrides_apply(context->arena, &overrides, out->parameters, out->count, &out->parameters, error);
}

static enum base_status read_optimizer(struct base_arena *arena, const struct base_arguments *arguments, struct inventory *out, struct base_error *error)
{
    const char *optimizer = base_argument(arguments, "--optimizer"), *adafactor = base_argument(arguments, "--adafactor");
    out->optimizer_name = optimizer ? optimizer : "adafactor";
    out->adafactor = model_adafactor_defaults();
    BASE_TRY(model_optimizer_parse(out->optimizer_name, &out->optimizer, error));
    if (!adafactor) return BASE_OK;
    if (out->optimizer != MODEL_ADAFACTOR) return base_fail(error, BASE_INPUT, "--adafactor has options, but the optimizer is %s; --optimizer adafactor would do", out->optimizer_name);
    return model_adafactor_parse(arena, adafactor, &out->adafactor, error);
}

static enum base_status take_inventory(struct commands_context *context, const struct base_arguments *arguments, struct inventory *out,
                                       struct base_error *error)
{
    struct base_arena *arena = context->arena;
    const char *model = base_argument(arguments, "--model"), *rules = base_argument(arguments, "--logical-axis-rules"), *mesh = base_argument(arguments, "--mesh");
    if (!model) return base_fail(error, BASE_USAGE, "--model is needed, as in --model t5_1_1_base; `meshwright models` lists them");
    out->has_mesh = mesh != NULL;
    BASE_TRY(model_config_parse(arena, model, &out->config, error));
    BASE_TRY(model_rules_parse(arena, rules ? rules : "standard", &out->rules, error));
    BASE_TRY(read_optimizer(arena, arguments, out, error));
    if (mesh) BASE_TRY(model_mesh_parse(arena, mesh, &out->mesh, error));
    BASE_TRY(read_parameters(context, arguments, out, error));
    BASE_TRY(count_whole(out->parameters, out->count, out->optimizer, &out->adafactor, &out->whole, error));
    if (!mesh) return BASE_OK;
    return model_device_state(out->parameters, out->count, &out->rules, &out->mesh, out->optimizer, &out->adafactor, &out->device, error);
}

static enum base_status put_optimizer_state(struct base_json_writer *writer, const struct inventory *inventory,
                                            const struct model_parameter *parameter, struct base_error *error)
{
    struct model_factoring f;
    base_json_key(writer, "optimizer_state");
    base_json_open_inline(writer, '{');
    if (inventory->optimizer == MODEL_ADAMW) {
        put_shape(writer, "mu", parameter->rank, parameter->shape);
        put_shape(writer, "nu", parameter->rank, parameter->shape);
    }
    if (inventory->optimizer == MODEL_ADAFACTOR) {
        BASE_TRY(model_factor(&inventory->adafactor, parameter->rank, parameter->shape, parameter->axes, &f, error));
        put_shape(writer, "v_row", f.v_row_rank, f.v_row);
        put_shape(writer, "v_col", f.v_col_rank, f.v_col);
        put_shape(writer, "v", f.v_rank, f.v);
        put_shape(writer, "m", f.m_rank, f.m);
    }
    base_json_close(writer, '}');
    return BASE_OK;
}

static enum base_status put_parameter(struct base_json_writer *writer, const struct inventory *inventory, const struct model_parameter *parameter,
                                      struct base_error *error)
{
    struct model_axes spec[MODEL_MAX_RANK];
    BASE_TRY(model_resolve(&inventory->rules, parameter->axes, parameter->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    base_json_open_inline(writer, '{');
    put_string(writer, "path", parameter->path);
    put_shape(writer, "shape", parameter->rank, parameter->shape);
    base_json_key(writer, "axes");
    base_json_open_inline(writer, '[');
    for (int i = 0; i < parameter->rank; i++) base_json_put_string(writer, parameter->axes[i]);
    base_json_close(writer, ']');
    put_spec(writer, parameter->rank, spec);
    BASE_TRY(put_optimizer_state(writer, inventory, parameter, error));
    base_json_close(writer, '}');
    return BASE_OK;
}

static enum base_status put_inventory(struct base_json_writer *writer, const struct inventory *inventory, struct base_error *error)
{
    base_json_open(writer, '{');
    put_int(writer, "parameter_count", inventory->whole.parameter_count);
    put_int(writer, "optimizer_state_count", inventory->whole.optimizer_state_count);
    base_json_key(writer, "parameters");
    base_json_open(writer, '[');
    for (int i = 0; i < inventory->count; i++) BASE_TRY(put_parameter(writer, inventory, &inventory->parameters[i], error));
    base_json_close(writer, ']');
    if (inventory->has_mesh) {
        base_json_key(writer, "per_device");
        base_json_open(writer, '{');
        put_int(writer, "parameter_count", inventory->device.parameter_count);
        put_int(writer, "parameter_bytes", inventory->device.parameter_bytes);
        put_int(writer, "optimizer_state_count", inventory->device.optimizer_state_count);
        put_int(writer, "optimizer_state_bytes", inventory->device.optimizer_state_bytes);
        base_json_close(writer, '}');
    }
    base_json_close(writer, '}');
    return BASE_OK;
}

/* Layers of one stack are alike unless the user's axes say otherwise, so people see the first, and those that differ. */
static bool is_shown(struct base_arena *arena, const struct inventory *inventory, const struct model_parameter *parameter)
{
    const char *layer = strstr(parameter->path, "/layers_");
    bool first = !layer || !strncmp(layer, "/layers_0/", 10);
    return first || !model_is_like_first_layer(arena, inventory->parameters, inventory->count, parameter);
}

/* How many arrays a row stands for: with the first layer's, those of the layers like it. */
static int64_t arrays_alike(struct base_arena *arena, const struct inventory *inventory, const struct model_parameter *parameter)
{
    const char *layer = strstr(parameter->path, "/layers_0/");
    int64_t alike = 0;
    if (!layer) return 1;
    for (int i = 0; i < inventory->count; i++) {
        const struct model_parameter *other = &inventory->parameters[i];
        const char *at = strstr(other->path, "/layers_"), *rest = at ? strchr(at + 1, '/') : NULL;
        bool same = rest && at - other->path == layer - parameter->path && !strncmp(other->path, parameter->path, (size_t)(at - other->path)) && !strcmp(rest + 1, layer + 10);
        alike += same && model_is_like_first_layer(arena, inventory->parameters, inventory->count, other);
    }
    return alike;
}

static const char *path_of_all_layers(struct base_arena *arena, const char *path)
{
    const char *layer = strstr(path, "/layers_0/");
    return layer ? base_print(arena, "%.*s/layers_*/%s", (int)(layer - path), path, layer + 10) : path;
}

static enum base_status state_text(struct base_arena *arena, const struct inventory *inventory, const struct model_parameter *parameter,
                                   const char **out, struct base_error *error)
{
    struct model_factoring f;
    *out = inventory->optimizer == MODEL_ADAMW ? "mu, nu" : "-";
    if (inventory->optimizer != MODEL_ADAFACTOR) return BASE_OK;
    BASE_TRY(model_factor(&inventory->adafactor, parameter->rank, parameter->shape, parameter->axes, &f, error));
    const char *momentum = inventory->adafactor.has_beta1 ? ", m" : "";
    if (f.factored) *out = base_print(arena, "v_row %s, v_col %s%s", shape_text(arena, f.v_row_rank, f.v_row), shape_text(arena, f.v_col_rank, f.v_col), momentum);
    else *out = base_print(arena, "v%s", momentum);
    return BASE_OK;
}

static enum base_status write_parameter(struct table *table, const struct inventory *inventory, const struct model_parameter *parameter,
                                        struct base_error *error)
{
    struct base_arena *arena = table->arena;
    struct base_text names = {.arena = arena};
    struct model_axes spec[MODEL_MAX_RANK];
    const char *state;
    if (!is_shown(arena, inventory, parameter)) return BASE_OK;
    BASE_TRY(model_resolve(&inventory->rules, parameter->axes, parameter->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    BASE_TRY(state_text(arena, inventory, parameter, &state, error));
    for (int i = 0; i < parameter->rank; i++) base_putf(&names, "%s%s", i ? ", " : "", parameter->axes[i] ? parameter->axes[i] : "null");
    put_cell(table, path_of_all_layers(arena, parameter->path));
    put_cell(table, base_print(arena, "%lld", (long long)arrays_alike(arena, inventory, parameter)));
    put_cell(table, shape_text(arena, parameter->rank, parameter->shape));
    put_cell(table, names.data);
    put_cell(table, spec_text(arena, parameter->rank, spec));
    put_cell(table, state);
    return BASE_OK;
}

static enum base_status write_inventory(const struct inventory *inventory, struct base_text *out, struct base_error *error)
{
    static const char *const titles[] = {"parameter", "arrays", "shape", "logical axes", "mesh axes", "optimizer state"};
    const struct model_device_state *whole = &inventory->whole, *device = &inventory->device;
    struct base_arena *arena = out->arena;
    struct table table = new_table(arena, "lrllll", inventory->count + 1);
    for (int i = 0; i < BASE_COUNT(titles); i++) put_cell(&table, titles[i]);
    for (int i = 0; i < inventory->count; i++) BASE_TRY(write_parameter(&table, inventory, &inventory->parameters[i], error));
    base_putf(out, "%s: %s parameters in %d arrays, %s elements of %s state\n\n", inventory->config.name, grouped(arena, whole->parameter_count),
              inventory->count, grouped(arena, whole->optimizer_state_count), inventory->optimizer_name);
    write_table(&table, out);
    if (!inventory->has_mesh) return BASE_OK;
    base_put(out, "\nOn one device of ");
    for (int i = 0; i < inventory->mesh.axis_count; i++)
        base_putf(out, "%s%s %lld", i ? " x " : "", inventory->mesh.axes[i].name, (long long)inventory->mesh.axes[i].size);
    base_putf(out, ": %s parameters (%s bytes), %s elements of optimizer state (%s bytes)\n", grouped(arena, device->parameter_count),
              grouped(arena, device->parameter_bytes), grouped(arena, device->optimizer_state_count), grouped(arena, device->optimizer_state_bytes));
    return BASE_OK;
}

static enum base_status run_params(struct commands_context *context, const struct base_arguments *arguments, struct base_text *out,
                                   struct base_error *error)
{
    struct inventory *inventory = base_new(context->arena, struct inventory, 1);
    BASE_TRY(take_inventory(context, arguments, inventory, error));
    struct base_json_writer writer = {.text = out, .compact = context->compact};
    return context->json ? put_inventory(&writer, inventory, error) : write_inventory(inventory, out, error);
}

static const struct base_option params_options[] = {
    {"--model", "MODEL", "a zoo name, ARCHITECTURE:key=value,… or @FILE.json", NULL},
    {"--logical-axis-rules", "RULES", "as in `meshwright rules`", "standard:1,1"},
    {"--mesh", "SIZES", "mesh axes and sizes, as in data=4,model=2; adds what one device holds", NULL},
    {"--optimizer", "adafactor|adamw|sgd", "whose state is counted", "adafactor"},
    COMMANDS_PARAMETERS,
    COMMANDS_COMMON,
};

const struct commands_command commands_params = {
    .name = "params",
    .summary = "every parameter of a model: shape, logical axes, sharding, optimizer state",
    .usage = "params --model MODEL [--logical-axis-rules RULES] [--mesh SIZES] [--optimizer NAME]",
    .examples = "  meshwright params --model t5_1_1_base\n"
                "  meshwright params --model t5_1_1_xxl --mesh data=64,model=16 --optimizer adamw\n",
    .options = params_options,
    .option_count = BASE_COUNT(params_options),
    .run = run_params,
};
