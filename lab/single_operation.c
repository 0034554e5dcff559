/* A single operation, for `partition`. The same code places the contractions of whole programs. */
#include "lab/lab.h"
#include "sim/partition/sharding_tiles.h"

#include <ctype.h>
#include <string.h>

static const double largest_bytes = 9007199254740992.0; /* 2^53: sums of doubles are exact up to here */

static enum base_status read_letters(const char *text, size_t length, char *out, const char *what,
                                     struct base_error *error)
{
    if (length < 1 || length > MODEL_MAX_RANK)
        return base_fail(error, BASE_INPUT, "%s: has %zu dimensions; use 1 to %d", what, length, MODEL_MAX_RANK);
    for (size_t i = 0; i < length; i++) {
        if (!islower((unsigned char)text[i]))
            return base_fail(error, BASE_INPUT, "%s: \"%c\" is no label; small letters are, as in ble,ef->blf", what,
                             text[i]);
        if (memchr(text, text[i], i))
            return base_fail(error, BASE_INPUT,
                             "%s: the label %c is a duplicate; the diagonal of an operand cannot be partitioned", what,
                             text[i]);
        out[i] = text[i];
    }
    out[length] = '\0';
    return BASE_OK;
}

enum base_status lab_operation_parse(const char *equation, struct lab_operation *out, struct base_error *error)
{
    memset(out, 0, sizeof *out);
    if (!strcmp(equation, "reshard")) {
        out->operand_count = 1;
        return BASE_OK;
    }
    const char *comma = strchr(equation, ','), *arrow = strstr(equation, "->");
    if (!comma || !arrow || arrow < comma || strchr(comma + 1, ','))
        return base_fail(error, BASE_INPUT,
                         "\"%.60s\": a contraction of two operands is needed, as in ble,ef->blf; or reshard", equation);
    BASE_TRY(read_letters(equation, (size_t)(comma - equation), out->letters[0], "the first operand", error));
    BASE_TRY(read_letters(comma + 1, (size_t)(arrow - comma - 1), out->letters[1], "the second operand", error));
    BASE_TRY(read_letters(arrow + 2, strlen(arrow + 2), out->letters[2], "the result", error));
    for (const char *letter = out->letters[2]; *letter; letter++)
        if (!strchr(out->letters[0], *letter) && !strchr(out->letters[1], *letter))
            return base_fail(error, BASE_INPUT, "the result has the label %c, which no operand has", *letter);
    for (int i = 0; i < 2; i++)
        for (const char *letter = out->letters[i]; *letter; letter++)
            if (!strchr(out->letters[1 - i], *letter) && !strchr(out->letters[2], *letter))
                return base_fail(error, BASE_INPUT, "only one operand has the label %c; sum over it first", *letter);
    out->operand_count = 2;
    for (int i = 0; i < 3; i++) out->rank[i] = (int)strlen(out->letters[i]);
    return BASE_OK;
}

/* Sizes by letter; the first place that has a letter decides. */
static enum base_status collect_sizes(struct lab_operation *o, int64_t *sizes, struct base_error *error)
{
    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < o->rank[i]; d++) {
            int64_t *size = &sizes[1 + o->letters[i][d] - 'a'];
            if (*size && *size != o->shape[i][d])
                return base_fail(error, BASE_INPUT,
                                 "the label %c has %lld elements in one operand and %lld in the other",
                                 o->letters[i][d], (long long)*size, (long long)o->shape[i][d]);
            *size = o->shape[i][d];
        }
    }
    for (int d = 0; d < o->rank[2]; d++) o->shape[2][d] = sizes[1 + o->letters[2][d] - 'a'];
    return BASE_OK;
}

static enum base_status check_bytes(const struct lab_operation *o, int operand, struct base_error *error)
{
    double bytes = (double)model_dtype_bytes(o->dtypes[operand]);
    for (int d = 0; d < o->rank[operand]; d++) bytes *= (double)o->shape[operand][d];
    if (bytes <= largest_bytes) return BASE_OK;
    return base_fail(error, BASE_INPUT, "the %s has %.3g bytes; use up to %.3g",
                     operand == 2 ? "result"
                     : operand    ? "second operand"
                                  : "first operand",
                     bytes, largest_bytes);
}

static struct sim_shape shape_of(const struct lab_operation *o, int operand, const unsigned char *dims)
{
    struct sim_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.rank = (unsigned char)o->rank[operand];
    shape.dtype = o->dtypes[operand];
    memcpy(shape.dims, dims, sizeof shape.dims);
    return shape;
}

static enum base_status note_steps(struct lab_operation *o, const struct sim_extents *extents,
                                   const struct sim_steps *steps, struct base_error *error)
{
    if (steps->too_many)
        return base_fail(error, BASE_INPUT,
                         "the operation moves its arrays more than %d times, which are all that is kept; use fewer "
                         "mesh axes",
                         SIM_MOST_STEPS);
    for (int i = 0; i < steps->count; i++) {
        const struct sim_step *step = &steps->steps[i];
        o->collectives[o->collective_count++] = (struct lab_operation_collective){
            step->kind, step->axes, step->before.dtype, (int64_t)sim_local_bytes(extents, &step->before)};
    }
    return BASE_OK;
}
_Static_assert((int)LAB_MOST_OPERATION_COLLECTIVES >= (int)SIM_MOST_STEPS, "one operation has no more steps");

static sim_order order_of(const struct lab_operation *o, int operand, int d)
{
    sim_order order = 0;
    for (int i = 0; i < o->axis_count[operand][d]; i++) order = sim_join(order, 1u << o->axes[operand][d][i]);
    return order;
}

static void note_local_shape(struct lab_operation *o, int operand)
{
    for (int d = 0; d < o->rank[operand]; d++) {
        o->local_shape[operand][d] =
            topo_shard_extent(&o->mesh, sim_set_of(order_of(o, operand, d)), o->shape[operand][d]);
    }
}

/* Axes of one device shard nothing. */
static struct sim_layout layout_of(const struct lab_operation *o, const struct sim_extents *extents, int operand)
{
    struct sim_layout layout = {{0}};
    for (int d = 0; d < o->rank[operand]; d++)
        layout.of[d] = sim_order_without(order_of(o, operand, d), ~sim_mesh_axes(extents));
    return layout;
}

static enum base_status partition_reshard(struct lab_operation *o, struct base_error *error)
{
    int64_t sizes[MODEL_MAX_RANK + 1] = {1};
    unsigned char dims[MODEL_MAX_RANK] = {0};
    for (int d = 0; d < o->rank[0]; d++) {
        sizes[d + 1] = o->shape[2][d] = o->shape[0][d];
        dims[d] = (unsigned char)(d + 1);
    }
    struct sim_extents extents = {sizes, &o->mesh, NULL};
    struct sim_layout to = layout_of(o, &extents, 2);
    struct sim_steps steps = {.count = 0};
    struct sim_array array = {.extents = &extents,
                              .steps = &steps,
                              .axes = sim_mesh_axes(&extents),
                              .shape = shape_of(o, 0, dims),
                              .tiles = layout_of(o, &extents, 0)};
    sim_array_reshard(&array, &to);
    return note_steps(o, &extents, &steps, error);
}

static enum base_status partition_contraction(struct lab_operation *o, struct base_error *error)
{
    enum { LETTERS = 27 };
    int64_t sizes[LETTERS] = {0};
    sizes[0] = 1;
    BASE_TRY(collect_sizes(o, sizes, error));
    BASE_TRY(check_bytes(o, 2, error));
    struct sim_extents extents = {sizes, &o->mesh, NULL};
    struct sim_contraction contraction = {.result = o->free ? SIM_FREE : SIM_WANTED};
    for (int i = 0; i < 3; i++) {
        unsigned char dims[MODEL_MAX_RANK] = {0};
        for (int d = 0; d < o->rank[i]; d++) dims[d] = (unsigned char)(1 + o->letters[i][d] - 'a');
        contraction.letters[i] = o->letters[i];
        contraction.shapes[i] = shape_of(o, i, dims);
        contraction.layouts[i] = layout_of(o, &extents, i);
    }
    sim_contract(&extents, &contraction);
    BASE_TRY(note_steps(o, &extents, &contraction.steps, error));
    for (int d = 0; d < o->rank[2] && o->free; d++) {
        const sim_order order = contraction.propagated.of[d];
        o->axis_count[2][d] = (unsigned char)__builtin_popcount(sim_set_of(order));
        for (int i = 0; i < o->axis_count[2][d]; i++) o->axes[2][d][i] = (unsigned char)sim_order_axis(order, i);
    }
    return BASE_OK;
}

enum base_status lab_operation_partition(struct lab_operation *o, struct base_error *error)
{
    o->collective_count = 0;
    for (int i = 0; i < o->operand_count; i++) BASE_TRY(check_bytes(o, i, error));
    for (int i = 0; i < o->operand_count; i++) note_local_shape(o, i);
    BASE_TRY(o->operand_count == 1 ? partition_reshard(o, error) : partition_contraction(o, error));
    note_local_shape(o, 2);
    return BASE_OK;
}
