/* `models`: the zoo. */
#include "commands/commands.h"
#include "commands/table.h"

#include <string.h>

struct zoo_row {
    const struct model_zoo_model *model;
    struct model_config config;
    int64_t parameter_count, adafactor_bytes, adamw_bytes; /* the last two: optimizer state */
};

static enum base_status fill_zoo_row(struct base_arena *arena, struct zoo_row *row, struct base_error *error)
{
    const struct model_parameter *parameters;
    struct model_device_state adafactor, adamw;
    struct model_adafactor defaults = model_adafactor_defaults();
    int count;
    BASE_TRY(model_config_parse(arena, row->model->name, &row->config, error));
    BASE_TRY(model_parameters(arena, &row->config, &parameters, &count, error));
    BASE_TRY(model_whole_state(parameters, count, MODEL_ADAFACTOR, &defaults, &adafactor, error));
    BASE_TRY(model_whole_state(parameters, count, MODEL_ADAMW, &defaults, &adamw, error));
    row->parameter_count = adafactor.parameter_count;
    row->adafactor_bytes = adafactor.optimizer_state_bytes;
    row->adamw_bytes = adamw.optimizer_state_bytes;
    return BASE_OK;
}

static void put_zoo_row(struct base_json_writer *writer, const struct zoo_row *row)
{
    const struct model_config *config = &row->config;
    base_json_open_inline(writer, '{');
    base_json_member_string(writer, "model", row->model->name);
    base_json_member_string(writer, "architecture", model_architecture(config));
    base_json_member_int(writer, "emb_dim", config->emb_dim);
    base_json_member_int(writer, "num_heads", config->num_heads);
    base_json_member_int(writer, "num_kv_heads", config->num_kv_heads);
    base_json_member_int(writer, "head_dim", config->head_dim);
    base_json_member_int(writer, "mlp_dim", config->mlp_dim);
    if (config->encoder) base_json_member_int(writer, "num_encoder_layers", config->num_encoder_layers);
    base_json_member_int(writer, "num_decoder_layers", config->num_decoder_layers);
    base_json_member_int(writer, "vocab_size", config->vocab_size);
    base_json_member_open_inline(writer, "mlp_activations", '[');
    for (int i = 0; i < config->mlp_activation_count; i++)
        base_json_put_string(writer, model_activation_name(config->mlp_activations[i]));
    base_json_close(writer, ']');
    base_json_member_bool(writer, "logits_via_embedding", config->logits_via_embedding);
    base_json_member_int(writer, "parameter_count", row->parameter_count);
    base_json_member_int(writer, "adafactor_state_bytes", row->adafactor_bytes);
    base_json_member_int(writer, "adamw_state_bytes", row->adamw_bytes);
    base_json_member_string(writer, "about", row->model->about);
    base_json_member_string(writer, "source", row->model->source);
    base_json_close(writer, '}');
}

static const char *layers_text(struct base_arena *arena, const struct model_config *config)
{
    if (!config->encoder) return base_print(arena, "%lld", (long long)config->num_decoder_layers);
    return base_print(arena, "%lld+%lld", (long long)config->num_encoder_layers, (long long)config->num_decoder_layers);
}

/* Within 80 columns; --json has the rest. */
static void write_zoo(const struct zoo_row *rows, int count, struct base_text *out)
{
    struct base_arena *arena = out->arena;
    struct commands_table table = commands_table_new(arena, "lrrrrrr", count + 1);
    commands_table_row(&table, "model", "parameters", "layers", "emb_dim", "heads", "mlp_dim", "vocab_size", NULL);
    for (int i = 0; i < count; i++) {
        const struct model_config *config = &rows[i].config;
        const int64_t sizes[] = {config->emb_dim, config->num_heads, config->mlp_dim, config->vocab_size};
        commands_table_row(&table, rows[i].model->name, base_copy(arena, base_count(rows[i].parameter_count)),
                           layers_text(arena, config), NULL);
        for (int j = 0; j < BASE_COUNT(sizes); j++)
            commands_table_put(&table, base_print(arena, "%lld", (long long)sizes[j]));
    }
    commands_table_write(&table, out);
    base_put(out, "\n`--json` adds what each is and its optimizer's state; `--model M`: parameters.\n"
                  "Any other model: decoder_only:emb_dim=…,num_heads=…,head_dim=…,mlp_dim=…,\n"
                  "num_layers=…,vocab_size=…; the same after encoder_decoder:,\n"
                  "scalable_encoder_decoder: or scalable_decoder_only:; or @FILE.json.\n");
}

/* The one that a file describes, by the name that plans give it. */
static const struct model_zoo_model *model_of_file(struct base_arena *arena, const char *path)
{
    struct model_zoo_model *model = base_new(arena, struct model_zoo_model, 1);
    *model = (struct model_zoo_model){
        .name = base_print(arena, "@%s", path), .source = path, .about = "as this file describes it"};
    return model;
}

enum base_status commands_models_run(struct commands_context *context, const struct base_arguments *arguments,
                                     struct base_text *out, struct base_error *error)
{
    const struct model_zoo_model *models;
    const char *from = base_argument(arguments, "--from");
    int count = 1;
    if (from && (base_argument(arguments, "--model") || arguments->positional_count))
        return base_fail(error, BASE_USAGE, "--from: contradicts --model and PLAN; leave one out");
    if (base_argument(arguments, "--model") || arguments->positional_count)
        return commands_list_parameters(context, arguments, out, error);
    if (from) models = model_of_file(context->arena, from);
    else models = model_zoo(context->arena, &count);
    struct zoo_row *rows = base_new(context->arena, struct zoo_row, count);
    for (int i = 0; i < count; i++) {
        rows[i].model = &models[i];
        BASE_TRY(fill_zoo_row(context->arena, &rows[i], error));
        if (*rows[i].config.left_out) commands_warn_of_left_out(context, rows[i].config.left_out);
    }
    if (!context->json) {
        write_zoo(rows, count, out);
        return BASE_OK;
    }
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    base_json_open(&writer, '{');
    base_json_member_open(&writer, "models", '[');
    for (int i = 0; i < count; i++) put_zoo_row(&writer, &rows[i]);
    base_json_close(&writer, ']');
    base_json_close(&writer, '}');
    return BASE_OK;
}
