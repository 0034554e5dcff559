/* Reads and writes a plan's defaults, words and numbers by the rows of plan_keys.csv. */
#include "sim/plan/plan_parts.h"

#include <stddef.h>
#include <string.h>

#define FIELD(member) .offset = offsetof(struct sim_plan, member), .size = sizeof(((struct sim_plan *)0)->member)

const struct sim_plan_key sim_plan_keys[] = {SIM_KEY_ROWS};

int sim_plan_key_named(const char *name)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (!strcmp(sim_plan_keys[key].name, name)) return key;
    return -1;
}

bool sim_key_is_given(const struct sim_plan_text *text, enum sim_key key)
{
    return text->values[key] && *text->values[key];
}

/* ---- tables by training software ----
 *
 * software_usual.csv: its defaults of keys, since predicting FSDP with replicated parameters would mislead; keys
 * without a row have T5X's default. software_choices.csv: options of its own, which a search varies and which are tried
 * for a plan that does not fit. */

extern const struct base_table embedded_sim_plan_software_usual_csv, embedded_sim_plan_software_choices_csv;
static const struct base_table *const defaults = &embedded_sim_plan_software_usual_csv,
                                      *const choices = &embedded_sim_plan_software_choices_csv;

const char *sim_usual_value(const char *software, enum sim_key key)
{
    for (int row = 0; row < defaults->row_count; row++)
        if (!strcmp(base_table_value(defaults, row, "software"), software) &&
            !strcmp(base_table_value(defaults, row, "key"), sim_plan_keys[key].name))
            return base_table_value(defaults, row, "value");
    return NULL;
}

/* The last matching row: rows beyond the usual scope follow the usual ones. -1: none. */
static int find_row(const char *software, bool beyond)
{
    int found = -1;
    for (int row = 0; row < choices->row_count; row++)
        if (!strcmp(base_table_value(choices, row, "software"), software) &&
            (beyond || !strcmp(base_table_value(choices, row, "scope"), "usual")))
            found = row;
    return found;
}

const char *sim_software_choice(const char *software, const char *column, bool beyond)
{
    const int row = find_row(software && *software ? software : sim_plan_keys[SIM_SOFTWARE].fallback, beyond);
    return row < 0 ? NULL : base_table_value(choices, row, column);
}

const char *sim_key_fallback(enum sim_key key, struct sim_key_setting setting)
{
    const struct sim_plan_key *row = &sim_plan_keys[key];
    const char *own = setting.software ? sim_usual_value(setting.software, key) : NULL;
    if (own) return own;
    if (setting.is_scanned && row->fallback_scanned) return row->fallback_scanned;
    return setting.is_local && row->fallback_on_local ? row->fallback_on_local : row->fallback;
}

bool sim_is_assumed(const struct sim_plan_text *text, enum sim_key key)
{
    return sim_key_is_given(text, SIM_SOFTWARE) && !sim_key_is_given(text, key) &&
           sim_usual_value(text->values[SIM_SOFTWARE], key);
}

enum base_status sim_plan_read_number(const struct sim_plan_text *text, enum sim_key key, int64_t low, int64_t high,
                                      int64_t *out, struct base_error *error)
{
    if (!sim_key_is_given(text, key)) return BASE_OK;
    return base_parse_int(text->values[key], sim_plan_keys[key].name, low, high, out, error);
}

/* ---- the fields of a checked plan ---- */

static void store(struct sim_plan *plan, const struct sim_plan_key *row, int64_t value)
{
    char *field = (char *)plan + row->offset;
    bool truth = value != 0;
    int word = (int)value;
    if (row->size == sizeof value) memcpy(field, &value, sizeof value);
    else if (row->size == sizeof word) memcpy(field, &word, sizeof word);
    else memcpy(field, &truth, sizeof truth);
}

static int64_t load(const struct sim_plan *plan, const struct sim_plan_key *row)
{
    const char *field = (const char *)plan + row->offset;
    bool truth;
    int word;
    int64_t value;
    if (row->size == sizeof value) return memcpy(&value, field, sizeof value), value;
    if (row->size == sizeof word) return memcpy(&word, field, sizeof word), word;
    return memcpy(&truth, field, sizeof truth), truth;
}

static enum base_status read_word(const char *text, const struct sim_plan_key *row, struct sim_plan *plan,
                                  struct base_error *error)
{
    const char *names[SIM_MOST_WORDS];
    int count = 0, found;
    for (; count < SIM_MOST_WORDS && row->words[count].name; count++) { /* most say the key's own word */
        names[count] = row->words[count].name;
        if (!strcmp(names[count], text)) return store(plan, row, row->words[count].value), BASE_OK;
    }
    const char *meant = base_synonym(row->name, text, strlen(text), BASE_TAKEN);
    enum base_status status = base_parse_word(meant ? meant : text, row->name, names, count, &found, error);
    if (status != BASE_OK && row == &sim_plan_keys[SIM_REMAT_POLICY]) {
        const struct base_error words = *error;
        return base_fail(error, status,
                         "%s, a name of MaxText's, as save_qkv_proj, or tensors by name, as in "
                         "device:query_proj+key_proj;offload:out_proj",
                         words.text);
    }
    BASE_TRY(status);
    store(plan, row, row->words[found].value);
    return BASE_OK;
}

/* A word, or layers, modules or tensors by name. */
static enum base_status read_remat(const char *text, const struct sim_plan_key *row, struct sim_plan *plan,
                                   struct base_error *error)
{
    struct model_options *options = &plan->options;
    if (model_is_of_some_layers(text)) {
        options->remat = MODEL_REMAT_FULL;
        return model_some_layers_parse(text, &plan->remat_every, &plan->remat_layers, error);
    }
    if (model_is_modules(text)) {
        options->remat = MODEL_REMAT_NONE;
        return model_modules_parse(text, &options->recomputed_modules, error);
    }
    const char *const tensors = model_policy_tensors(text);
    if (!tensors && !strchr(text, ':')) return read_word(text, row, plan, error);
    options->remat = MODEL_REMAT_TENSORS;
    return model_saved_parse(tensors ? tensors : text, &options->saved, error);
}

static enum base_status read_value(const char *text, const struct sim_plan_key *row, struct sim_plan *plan,
                                   struct base_error *error)
{
    int64_t whole;
    double real;
    if (row == &sim_plan_keys[SIM_REMAT_POLICY]) return read_remat(text, row, plan, error);
    if (row->type == SIM_OF_WORD) return read_word(text, row, plan, error);
    if (row->type == SIM_OF_WHOLE) {
        BASE_TRY(base_parse_int(text, row->name, (int64_t)row->low, (int64_t)row->high, &whole, error));
        store(plan, row, whole);
    }
    if (row->type == SIM_OF_REAL) {
        BASE_TRY(base_parse_double(text, row->name, row->low, row->high, &real, error));
        memcpy((char *)plan + row->offset, &real, sizeof real);
    }
    return BASE_OK;
}

enum base_status sim_plan_read_usual(struct sim_key_setting setting, struct sim_plan *usual, struct base_error *error)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *value = sim_key_fallback((enum sim_key)key, setting);
        if (value) BASE_TRY(read_value(value, &sim_plan_keys[key], usual, error));
    }
    return BASE_OK;
}

static bool has_value(const struct sim_plan_key *row)
{
    return row->type == SIM_OF_WORD || row->type == SIM_OF_WHOLE || row->type == SIM_OF_REAL;
}

enum base_status sim_plan_read_values(const struct sim_plan *usual, const struct sim_plan_text *text,
                                      struct sim_plan *plan, struct base_error *error)
{
    static const enum sim_key_type types[] = {SIM_OF_WORD, SIM_OF_WHOLE, SIM_OF_REAL};
    int given[SIM_KEY_COUNT], given_count = 0;
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const struct sim_plan_key *row = &sim_plan_keys[key];
        if (!has_value(row)) continue;
        if (sim_key_is_given(text, (enum sim_key)key)) given[given_count++] = key;
        else memcpy((char *)plan + row->offset, (const char *)usual + row->offset, row->size);
    }
    if (!sim_key_is_given(text, SIM_REMAT_POLICY)) { /* which may be more than its word */
        plan->options.saved = usual->options.saved;
        plan->options.recomputed_modules = usual->options.recomputed_modules;
        plan->remat_every = usual->remat_every;
        plan->remat_layers = usual->remat_layers;
    }
    for (int type = 0; type < BASE_COUNT(types); type++)
        for (int i = 0; i < given_count; i++) {
            const struct sim_plan_key *row = &sim_plan_keys[given[i]];
            if (row->type == types[type]) BASE_TRY(read_value(text->values[given[i]], row, plan, error));
        }
    return BASE_OK;
}

/* ---- the plan as text again ---- */

/* NULL: a word says it. */
static const char *remat_text(struct base_arena *arena, const struct sim_plan *plan)
{
    const struct model_options *options = &plan->options;
    return options->remat == MODEL_REMAT_TENSORS ? model_saved_text(arena, &options->saved)
           : options->recomputed_modules         ? model_modules_text(arena, options->recomputed_modules)
           : plan->remat_every                   ? base_print(arena, "full;every:%d", plan->remat_every)
           : plan->remat_layers                  ? base_print(arena, "full;layers:%d", plan->remat_layers)
                                                 : NULL;
}

static const char *value_text(struct base_arena *arena, const struct sim_plan *plan, const struct sim_plan_key *row)
{
    struct base_text out = {.arena = arena};
    const char *text = NULL;
    double real;
    switch (row->type) {
    case SIM_OF_TEXT: return memcpy(&text, (const char *)plan + row->offset, sizeof text), text;
    case SIM_OF_WORD:
        if (row == &sim_plan_keys[SIM_REMAT_POLICY]) text = remat_text(arena, plan);
        if (text) return text;
        for (int i = 0; i < SIM_MOST_WORDS && row->words[i].name; i++)
            if (row->words[i].value == load(plan, row)) text = row->words[i].name;
        return text;
    case SIM_OF_WHOLE: return base_print(arena, "%lld", (long long)load(plan, row));
    case SIM_OF_REAL:
        memcpy(&real, (const char *)plan + row->offset, sizeof real);
        base_put_double(&out, real);
        return out.data;
    case SIM_OF_MESH: return NULL;
    }
    return NULL;
}

static void fill_mesh(struct base_arena *arena, const struct sim_plan *plan, struct sim_plan_text *out)
{
    const struct topo_mesh_request *request = &plan->request;
    struct base_text submesh = {.arena = arena};
    for (int i = 0; i < request->submesh_count; i++) base_putf(&submesh, "%s%d", i ? "," : "", request->submesh[i]);
    out->values[SIM_SUBMESH] = submesh.data;
    if (request->ici_mesh.count) out->values[SIM_ICI_MESH] = topo_axes_sizes(arena, &request->ici_mesh);
    if (request->dcn_mesh.count) out->values[SIM_DCN_MESH] = topo_axes_sizes(arena, &request->dcn_mesh);
    if (request->split_physical_axes) out->values[SIM_SPLIT_PHYSICAL_AXES] = "1";
    if (request->contiguous_submeshes) out->values[SIM_CONTIGUOUS_SUBMESHES] = "1";
    out->values[SIM_JAX] = topo_jax_release(request->jax);
    if (plan->expert_parallel > 1)
        out->values[SIM_EXPERT_PARALLEL] = base_print(arena, "%lld", (long long)plan->expert_parallel);
    else if (request->has_experts)
        out->values[SIM_NUM_EXPERT_PARTITIONS] = base_print(arena, "%lld", (long long)request->num_expert_partitions);
    if (plan->pipeline.stages > 1)
        out->values[SIM_PIPELINE_STAGES] = base_print(arena, "%lld", (long long)plan->pipeline.stages);
    if (plan->context_parallel > 1)
        out->values[SIM_CONTEXT_PARALLEL] = base_print(arena, "%lld", (long long)plan->context_parallel);
    if (request->num_partitions)
        out->values[SIM_NUM_PARTITIONS] = base_print(arena, "%lld", (long long)request->num_partitions);
}

int64_t sim_plan_replicas(const struct sim_plan *plan)
{
    const struct topo_axes *axes = &plan->placement->axes;
    static const char *const others[] = {"expert", "fsdp"};
    int64_t count = topo_axes_product(axes, sim_data_axis(axes)) / plan->context_parallel;
    if (count < 1) count = 1;
    for (int i = 0; i < BASE_COUNT(others); i++) {
        const int at = topo_axis_named(axes, others[i]);
        if (at >= 0) count *= axes->sizes[at];
    }
    return count;
}

struct sim_plan_text sim_plan_filled(struct base_arena *arena, const struct sim_plan *plan)
{
    struct sim_plan_text out;
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const struct sim_plan_key *row = &sim_plan_keys[key];
        const char *value = value_text(arena, plan, row);
        const struct sim_key_setting setting = {.software = plan->software};
        bool unsaid = row->default_unsaid && value && !strcmp(value, sim_key_fallback((enum sim_key)key, setting));
        out.values[key] = unsaid ? NULL : value;
    }
    fill_mesh(arena, plan, &out);
    if (plan->options.dropout == sim_drops_out_unsaid(plan)) out.values[SIM_DROPOUT_RATE] = NULL;
    if (!plan->is_unrolled) out.values[SIM_SCANNED] = NULL;
    if (!plan->placement->profile.compile.is_one) out.values[SIM_COMPILE] = NULL;
    for (int i = SIM_OVERLAP_TENSOR; i <= SIM_OVERLAP_PARAMETERS; i++) {
        const enum sim_switch usual = plan->placement->profile.overlaps[i];
        const bool shares = i == SIM_OVERLAP_TENSOR || plan->optimizer_partitioning != SIM_REPLICATED,
                   unsaid = plan->overlaps[i] == (usual == SIM_SWITCHED_ON && shares);
        if (usual == SIM_HAS_NO_SWITCH || unsaid) out.values[SIM_TP_COMM_OVERLAP + i] = NULL;
    }
    if (!sim_has_zero_buckets(plan) || plan->zero.overlaps == sim_shards_parameters(plan->rules))
        out.values[SIM_OVERLAP_COMM] = NULL;
    if (!plan->config->encoder) out.values[SIM_INPUTS_LENGTH] = NULL;
    if (plan->num_microbatches <= 1) out.values[SIM_NUM_MICROBATCHES] = "0";
    if (*plan->pipeline_layout_text) out.values[SIM_PIPELINE_PARTITION] = NULL; /* the layout says it */
    return out;
}
