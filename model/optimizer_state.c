/* Optimizer state per parameter. Adafactor's factored second moments follow T5X: logical factor rules for three and
 * more dimensions and for stacked layers, a size heuristic for the rest. */
#include "model/factor_rules.csv.h"
#include "model/model.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *name, *moments[MODEL_MOST_MOMENTS];
    bool bytes, predicted_alone;
} optimizers[] = {MODEL_OPTIMIZER_ROWS};

bool model_moments_are_bytes(enum model_optimizer optimizer)
{
    return optimizers[optimizer].bytes;
}

bool model_optimizer_is_run(enum model_optimizer optimizer)
{
    return !optimizers[optimizer].predicted_alone;
}

const char *model_optimizer_name(enum model_optimizer optimizer)
{
    return optimizers[optimizer].name;
}

int model_optimizer_moments(enum model_optimizer optimizer, const char *const **names)
{
    int count = 0;
    while (count < MODEL_MOST_MOMENTS && optimizers[optimizer].moments[count]) count++;
    *names = optimizers[optimizer].moments;
    return count;
}

bool model_is_orthogonalised(enum model_optimizer optimizer, const char *path, int dims)
{
    static const char *const others[] = {"embed", "logits", "bias"};
    bool matrix = optimizer == MODEL_MUON && dims >= 2;
    for (int i = 0; i < BASE_COUNT(others); i++) matrix = matrix && !strstr(path, others[i]);
    return matrix;
}

int model_dims_of_one(int rank, const char *const *axes)
{
    int dims = 0;
    for (int i = 0; i < rank; i++) dims += !axes[i] || strcmp(axes[i], "layers") != 0;
    return dims;
}

int model_moments_of(enum model_optimizer optimizer, const char *path, int dims, const char *const **names)
{
    const int count = model_optimizer_moments(optimizer, names);
    return model_is_orthogonalised(optimizer, path, dims) ? 1 : count;
}

enum base_status model_optimizer_parse(const char *text, enum model_optimizer *out, struct base_error *error)
{
    static const char *const names[] = {MODEL_OPTIMIZER_NAMES};
    int optimizer;
    BASE_TRY(base_parse_word(text, "optimizer", names, BASE_COUNT(names), &optimizer, error));
    *out = (enum model_optimizer)optimizer;
    return BASE_OK;
}

struct model_adafactor model_adafactor_defaults(void)
{
    return (struct model_adafactor){.factored = true,
                                    .multiply_by_parameter_scale = true,
                                    .logical_factor_rules = true,
                                    .decay_rate = 0.8,
                                    .clipping_threshold = 1,
                                    .epsilon1 = 1e-30,
                                    .epsilon2 = 1e-3,
                                    .min_dim_size_to_factor = 128,
                                    .dtype_momentum = MODEL_FLOAT32};
}

/* ---- factor rules ---- */

enum factor_kind { ROW, COLUMN, BATCH, UNFACTORED, KIND_COUNT };

/* T5X's standard_logical_factor_rules; those that the gins of flaxformer/t5x/configs/moe add, by which each expert's
 * kernel is factored separately; and our own of axes that T5X lacks: the rank of multi-head latent attention is to its
 * heads as embed is, and that of an adapter is too small to factor. */
enum rules_of { T5X, FLAXFORMER, OURS };
static const struct {
    const char *logical, *kind;
    enum rules_of of;
} usual_rules[] = {FACTOR_RULES_ROWS};

/* Only models of those gins have these axes, but for biases of experts, which no model of T5X has. */
static bool is_of_flaxformer(int rank, const char *const *axes)
{
    bool flaxformers = false, experts = false, embed = false;
    for (int i = 0; i < rank; i++) {
        flaxformers = flaxformers || (axes[i] && (!strcmp(axes[i], "mlp_embed") || !strcmp(axes[i], "unmodeled")));
        experts = experts || (axes[i] && !strcmp(axes[i], "expert"));
        embed = embed || (axes[i] && !strcmp(axes[i], "embed"));
    }
    return flaxformers || (experts && !embed);
}

static enum base_status kind_named(const char *name, enum factor_kind *out, struct base_error *error)
{
    static const struct {
        const char *name;
        enum factor_kind kind;
    } kinds[] = {{"row", ROW},     {"column", COLUMN},   {"col", COLUMN},
                 {"batch", BATCH}, {"none", UNFACTORED}, {"unfactorized", UNFACTORED}};
    for (int i = 0; i < BASE_COUNT(kinds); i++) {
        if (strcasecmp(name, kinds[i].name) != 0) continue;
        *out = kinds[i].kind;
        return BASE_OK;
    }
    return base_fail(error, BASE_INPUT, "logical_factor_rules: \"%.60s\" is unknown; use row, column, batch or none",
                     name);
}

static enum base_status kind_of_axis(const struct model_adafactor *options, const char *axis, bool with_experts,
                                     enum factor_kind *out, struct base_error *error)
{
    for (int i = 0; axis && i < options->factor_rule_count; i++)
        if (!strcmp(options->factor_rules[i].logical, axis))
            return kind_named(options->factor_rules[i].kind, out, error);
    for (int i = 0; axis && !options->factor_rules && i < BASE_COUNT(usual_rules); i++)
        if (!strcmp(usual_rules[i].logical, axis) && (with_experts || usual_rules[i].of != FLAXFORMER))
            return kind_named(usual_rules[i].kind, out, error);
    return base_fail(
        error, BASE_INPUT,
        "adafactor: the logical axis %.60s has no factor rule; name one of row, column, batch or none for it in "
        "logical_factor_rules",
        axis ? axis : "None");
}

/* Dimensions of each kind, a bit each. */
struct kinds {
    unsigned dims[KIND_COUNT];
};

static enum base_status find_kinds(const struct model_adafactor *options, int rank, const char *const *axes,
                                   struct kinds *out, struct base_error *error)
{
    struct kinds kinds = {{0}};
    for (int i = 0; i < rank; i++) {
        enum factor_kind kind = UNFACTORED;
        BASE_TRY(kind_of_axis(options, axes[i], is_of_flaxformer(rank, axes), &kind, error));
        kinds.dims[kind] |= 1u << i;
    }
    if (kinds.dims[ROW] && kinds.dims[COLUMN] && kinds.dims[UNFACTORED])
        return base_fail(
            error, BASE_INPUT,
            "adafactor: a parameter with row and column dimensions cannot have one of kind none, too; make that one "
            "row, column or batch");
    if (!kinds.dims[ROW] || !kinds.dims[COLUMN]) kinds.dims[ROW] = kinds.dims[COLUMN] = 0;
    *out = kinds;
    return BASE_OK;
}

/* ---- one parameter ---- */

/* By size: two dimensions, both of some size. The larger is averaged away in v_row; of equal ones, the second. */
static void factor_by_size(const struct model_adafactor *options, int rank, const int64_t *shape,
                           struct model_factoring *out)
{
    if (rank != 2 || shape[0] < options->min_dim_size_to_factor || shape[1] < options->min_dim_size_to_factor) return;
    bool second_is_smaller = shape[1] < shape[0];
    out->factored = true;
    out->row_dims = second_is_smaller ? 2 : 1;
    out->column_dims = second_is_smaller ? 1 : 2;
}

static enum base_status choose_factors(const struct model_adafactor *options, int rank, const int64_t *shape,
                                       const char *const *axes, struct model_factoring *out, struct base_error *error)
{
    struct kinds kinds = {{0}};
    if (options->logical_factor_rules) BASE_TRY(find_kinds(options, rank, axes, &kinds, error));
    if (!options->factored) return BASE_OK;
    if (rank <= 2 && !kinds.dims[BATCH]) {
        factor_by_size(options, rank, shape, out);
        return BASE_OK;
    }
    if (!options->logical_factor_rules)
        return base_fail(
            error, BASE_INPUT,
            "adafactor: a parameter of %d dimensions needs logical_factor_rules; without them at most two can be "
            "factored",
            rank);
    unsigned all = (1u << rank) - 1;
    out->factored = kinds.dims[ROW] != 0;
    out->row_dims = out->factored ? all & ~kinds.dims[COLUMN] : 0;
    out->column_dims = out->factored ? all & ~kinds.dims[ROW] : 0;
    return BASE_OK;
}

/* Writes the chosen dimensions of shape, or T5X's placeholder {1} when there is nothing to keep. Returns the rank. */
static int keep(bool kept, unsigned dims, int rank, const int64_t *shape, int64_t *out)
{
    int count = 0;
    if (!kept) {
        out[0] = 1;
        return 1;
    }
    for (int i = 0; i < rank; i++)
        if (dims >> i & 1) out[count++] = shape[i];
    return count;
}

enum base_status model_factor(const struct model_adafactor *options, int rank, const int64_t *shape,
                              const char *const *axes, struct model_factoring *out, struct base_error *error)
{
    struct model_factoring found = {0};
    if (rank > MODEL_MAX_RANK)
        return base_fail(error, BASE_INPUT, "adafactor: a parameter of %d dimensions; at most %d are supported", rank,
                         MODEL_MAX_RANK);
    BASE_TRY(choose_factors(options, rank, shape, axes, &found, error));
    unsigned all = (1u << rank) - 1;
    found.v_row_rank = keep(found.factored, found.row_dims, rank, shape, found.v_row);
    found.v_col_rank = keep(found.factored, found.column_dims, rank, shape, found.v_col);
    found.v_rank = keep(!found.factored, all, rank, shape, found.v);
    found.m_rank = keep(options->has_beta1, all, rank, shape, found.m);
    found.v_sharded = !(found.v_rank == 1 && found.v[0] == 1); /* T5X tells a placeholder by its shape alone */
    found.m_sharded = options->has_beta1 && options->beta1 != 0;
    *out = found;
    return BASE_OK;
}
