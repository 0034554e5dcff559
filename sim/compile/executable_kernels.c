/* The executor's kernels and stored values. This file claims no more than the executor does:
 * - A value with the bytes of another (a reshape, a cast to its own dtype) is an alias.
 * - A one-hot that only contractions read is never materialized. They look rows up and scatter into them.
 * - Dequantized int8 weights that only contractions read are never materialized. Contractions read weight and scales.
 * - Consecutive elementwise operations and reductions along the last label, over one index space, are one kernel. It
 *   runs row by row, and its internal values stay in a scratch row.
 * - Any other operation is a kernel with a stored result. */
#include "sim/compile/passes.h"

#include <string.h>

struct rows {
    struct base_arena *arena;
    struct sim_sharded *s;
    int *first, *count; /* per kernel: its first operation and their number */
    bool *outside;      /* per value: read outside the kernel that computes it */
    bool *read;         /* per value: has any reader */
    bool *seen;         /* per value: already counted among the reads of the current kernel */
};

enum { MOST_OPS_A_KERNEL = 8 };

static const struct model_op *maker(const struct sim_sharded *s, int value)
{
    int definition = s->values[value].definition;
    return definition >= 0 && s->ops[definition].kind == SIM_COMPUTE ? s->ops[definition].op : NULL;
}

int sim_root(const struct sim_sharded *s, int value)
{
    while (s->values[value].alias >= 0) value = s->values[value].alias;
    return value;
}

bool sim_sums_in_place(const struct sim_sharded *s, const struct sim_op *op)
{
    if (op->kind != SIM_COMMUNICATE) return false;
    const struct sim_value *from = &s->values[op->inputs[0]], *to = &s->values[op->outputs[0]];
    return (op->axes & from->partial & ~(unsigned)to->partial) && !memcmp(from->spec, to->spec, sizeof from->spec);
}

bool sim_is_one_hot(const struct sim_sharded *s, int value)
{
    const struct model_op *op = maker(s, value);
    return !s->values[value].stored && op && model_function_is(op->function, MODEL_IS_GENERATED);
}

bool sim_is_dequantized(const struct sim_sharded *s, int value)
{
    const struct model_op *op = maker(s, value);
    return !s->values[value].stored && op && op->function == MODEL_DEQUANTIZE;
}

/* A dimension that a reshape splits is identified by its first part. */
static void look_through(const struct model_op *op, signed char *dims, int rank)
{
    signed char through[MODEL_MAX_RANK];
    for (int d = 0; op->output_labels[d]; d++)
        through[d] = op->kind != MODEL_RESHAPE   ? (signed char)d
                     : op->reshaped_from[d] >= 0 ? op->reshaped_from[d]
                     : d > 0                     ? through[d - 1]
                                                 : 0;
    for (int d = 0; d < rank; d++) dims[d] = through[dims[d]];
}

void sim_scaled_letters(const struct sim_sharded *s, const struct sim_op *op, int input, char *letters)
{
    signed char dims[MODEL_MAX_RANK];
    int value = op->inputs[input], count = 0;
    const int rank = (int)strlen(op->op->input_labels[input]);
    for (int d = 0; d < rank; d++) dims[d] = (signed char)d;
    for (; s->values[value].alias >= 0; value = s->values[value].alias) look_through(maker(s, value), dims, rank);
    const struct model_op *made = maker(s, value);
    for (int d = 0; d < rank && sim_is_dequantized(s, value); d++)
        if (strchr(made->input_labels[1], made->output_labels[dims[d]]))
            letters[count++] = op->op->input_labels[input][d];
    letters[count] = '\0';
}

bool sim_looks_up(const struct sim_sharded *s, const struct sim_op *op)
{
    for (int i = 0; i < op->input_count; i++)
        if (sim_is_one_hot(s, op->inputs[i])) return true;
    return false;
}

const char *sim_space(const struct model_op *op)
{
    const char *space = op->output_labels;
    for (int i = 0; i < op->input_count; i++)
        if (strlen(op->input_labels[i]) > strlen(space)) space = op->input_labels[i];
    return space;
}

sim_order sim_label_axes(const struct sim_sharded *s, const struct sim_op *op, char letter)
{
    for (int i = 0; i < op->label_count; i++)
        if (op->labels[i].letter == letter) return op->labels[i].axes;
    const char *labels = op->op->output_labels, *at = strchr(labels, letter);
    return !op->label_count && op->output_count && at ? s->values[op->outputs[0]].spec[at - labels] : 0;
}

/* ---- aliases and values that are never materialized ---- */

static bool is_renaming(const struct sim_sharded *s, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE) return false;
    if (op->op->kind == MODEL_RESHAPE) return op->op->function == MODEL_NO_FUNCTION;
    if (op->op->kind != MODEL_MAP || op->op->function != MODEL_CAST) return false;
    const struct sim_value *in = &s->values[op->inputs[0]], *out = &s->values[op->outputs[0]];
    return in->dtype == out->dtype && !memcmp(in->spec, out->spec, sizeof in->spec) &&
           !strcmp(op->op->input_labels[0], op->op->output_labels);
}

static void find_aliases(struct rows *r)
{
    struct sim_sharded *s = r->s;
    for (int v = 0; v < s->value_count; v++) {
        s->values[v].alias = -1;
        s->values[v].stored = true;
    }
    for (int i = 0; i < s->op_count; i++) {
        if (!is_renaming(s, &s->ops[i])) continue;
        struct sim_value *out = &s->values[s->ops[i].outputs[0]];
        out->alias = s->ops[i].inputs[0];
        out->stored = false;
    }
}

/* True if a dequantization's operand is sharded like the result, and the scales like the matching part of it. */
static bool dequantizes_in_place(const struct sim_sharded *s, const struct sim_op *op)
{
    const struct sim_value *weight = &s->values[op->inputs[0]], *scales = &s->values[op->inputs[1]],
                           *out = &s->values[op->outputs[0]];
    bool same = !memcmp(weight->spec, out->spec, sizeof out->spec);
    for (int d = 0; op->op->input_labels[1][d]; d++)
        same = same && scales->spec[d] ==
                           out->spec[strchr(op->op->output_labels, op->op->input_labels[1][d]) - op->op->output_labels];
    return same;
}

static bool need_not_be_made(const struct sim_sharded *s, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE) return false;
    return model_function_is(op->op->function, MODEL_IS_GENERATED) ||
           (op->op->function == MODEL_DEQUANTIZE && dequantizes_in_place(s, op));
}

/* Readers of an alias read the value itself: a weight that is split into heads is still the weight. */
static void find_unmade(struct rows *r)
{
    struct sim_sharded *s = r->s;
    for (int i = 0; i < s->op_count; i++)
        if (need_not_be_made(s, &s->ops[i])) s->values[s->ops[i].outputs[0]].stored = false;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        bool contracts = op->kind == SIM_COMPUTE && op->op->kind == MODEL_EINSUM;
        for (int j = 0; j < op->input_count && !contracts; j++) {
            const int root = sim_root(s, op->inputs[j]);
            if (!is_renaming(s, op) || sim_is_one_hot(s, root)) s->values[root].stored = true;
        }
    }
}

static bool is_unmade(const struct sim_sharded *s, int value)
{
    return sim_is_one_hot(s, value) || sim_is_dequantized(s, value);
}

/* ---- kernels ---- */

bool sim_is_row_operation(const struct model_op *op)
{
    if (model_function_is(op->function, MODEL_IS_BY_EXAMPLE) || model_function_is(op->function, MODEL_IS_PERMUTATION) ||
        sim_joins_keys(op))
        return false;
    const char *space = sim_space(op);
    size_t length = strlen(space);
    if (op->kind == MODEL_MAP) return strlen(op->output_labels) == length;
    return op->kind == MODEL_REDUCE && length > 0 && strlen(op->output_labels) == length - 1 &&
           !strncmp(op->output_labels, space, length - 1);
}

bool sim_needs_whole_rows(const struct model_op *op)
{
    return op->kind == MODEL_REDUCE || op->of_chosen || model_function_is(op->function, MODEL_IS_OF_ROWS);
}

/* True for whole rows, or one number per row: a kernel can pass such values internally. */
static bool is_by_row(const char *labels, const char *space)
{
    size_t length = strlen(space);
    return !strcmp(labels, space) || (strlen(labels) == length - 1 && !strncmp(labels, space, length - 1));
}

static bool same_space(const struct sim_sharded *s, const struct sim_op *a, const struct sim_op *b)
{
    const char *space = sim_space(a->op);
    if (strcmp(space, sim_space(b->op)) != 0 || a->loop != b->loop) return false;
    for (const char *letter = space; *letter; letter++)
        if (sim_label_axes(s, a, *letter) != sim_label_axes(s, b, *letter)) return false;
    return true;
}

/* A message from another stage arrives whole, not row by row. */
static bool is_received(const struct sim_op *op)
{
    return op->op->function == MODEL_RECEIVE;
}

static bool can_join(const struct rows *r, int kernel, const struct sim_op *op)
{
    const struct sim_sharded *s = r->s;
    const struct sim_op *first = &s->ops[r->first[kernel]];
    if (!sim_is_row_operation(op->op) || !sim_is_row_operation(first->op)) return false;
    if (op->op->not_in_last != first->op->not_in_last || is_received(op) || is_received(first)) return false;
    if (r->count[kernel] == MOST_OPS_A_KERNEL || !same_space(s, first, op)) return false;
    for (int i = 0; i < op->input_count; i++) {
        int root = sim_root(s, op->inputs[i]), definition = s->values[root].definition;
        bool inside = definition >= 0 && s->ops[definition].kernel == kernel;
        if (inside && !is_by_row(op->op->input_labels[i], sim_space(op->op))) return false;
    }
    return true;
}

/* A kernel's operations are consecutive, except for aliases and values that are never materialized. */
static void find_kernels(struct rows *r)
{
    struct sim_sharded *s = r->s;
    int open = -1;
    s->kernels = base_new(r->arena, struct sim_kernel, s->op_count + 1);
    r->first = base_new(r->arena, int, s->op_count + 1);
    r->count = base_new(r->arena, int, s->op_count + 1);
    for (int i = 0; i < s->op_count; i++) {
        struct sim_op *op = &s->ops[i];
        op->kernel = -1;
        if (op->kind != SIM_COMPUTE) open = -1;
        if (op->kind != SIM_COMPUTE || is_renaming(s, op) || is_unmade(s, op->outputs[0])) continue;
        if (open < 0 || !can_join(r, open, op)) {
            open = s->kernel_count++;
            s->kernels[open] = (struct sim_kernel){.op = i, .loop = op->loop, .traffic_scale = 1};
            r->first[open] = i;
        }
        op->kernel = open;
        s->kernels[open].last = i;
        r->count[open]++;
    }
}

/* ---- stored values ---- */

static void note_reader(struct rows *r, int at, int value)
{
    const struct sim_sharded *s = r->s;
    int root = sim_root(s, value), definition = s->values[root].definition;
    const struct sim_op *reader = &s->ops[at];
    r->read[root] = true;
    bool inside = definition >= 0 && s->ops[definition].kind == SIM_COMPUTE && reader->kind == SIM_COMPUTE &&
                  s->ops[definition].kernel == reader->kernel;
    if (!inside) r->outside[root] = true;
}

static void note_uses(struct rows *r)
{
    struct sim_sharded *s = r->s;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        for (int j = 0; j < op->input_count; j++) {
            struct sim_value *value = &s->values[op->inputs[j]];
            value->last_use = i;
            value->saved = value->saved || (op->loop != value->loop && op->kind != SIM_LOOP_END && !value->persistent);
            if (!is_renaming(s, op)) note_reader(r, i, op->inputs[j]);
        }
    }
}

/* A value whose readers are all in its own kernel stays in a scratch row. A value without readers is a result. */
static void find_stored(struct rows *r)
{
    struct sim_sharded *s = r->s;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->kernel < 0 || r->count[op->kernel] < 2) continue;
        int v = op->outputs[0];
        bool is_result = s->program->tensors[s->values[v].tensor].is_result;
        if (!s->values[v].persistent && r->read[v] && !r->outside[v] && !is_result) s->values[v].stored = false;
    }
}

/* ---- a kernel's reads and writes, for its cost ---- */

struct sums {
    int *reads, *writes, *dots, read_count, write_count, dot_count;
};

static void count_read(struct rows *r, struct sums *sums, int kernel, int value)
{
    struct sim_sharded *s = r->s;
    int root = sim_root(s, value), definition = s->values[root].definition;
    if (r->seen[root]) return;
    r->seen[root] = true;
    if (is_unmade(s, root)) { /* tokens are read instead, or the weight and its scales */
        const struct sim_op *made = &s->ops[definition];
        for (int i = 0; i < made->input_count; i++) count_read(r, sums, kernel, made->inputs[i]);
        return;
    }
    bool inside = definition >= 0 && s->ops[definition].kind == SIM_COMPUTE && s->ops[definition].kernel == kernel;
    if (!inside) sums->reads[sums->read_count++] = s->values[root].shape;
}

static void sum_up_kernel(struct rows *r, struct sums *sums, int k)
{
    struct sim_sharded *s = r->s;
    struct sim_kernel *kernel = &s->kernels[k];
    kernel->first_read = sums->read_count, kernel->first_write = sums->write_count, kernel->first_dot = sums->dot_count;
    memset(r->seen, 0, (size_t)s->value_count * sizeof *r->seen);
    for (int i = kernel->op; i <= kernel->last; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kernel != k) continue;
        for (int j = 0; j < op->input_count; j++) count_read(r, sums, k, op->inputs[j]);
        for (int j = 0; j < op->output_count; j++)
            if (s->values[op->outputs[j]].stored) sums->writes[sums->write_count++] = s->values[op->outputs[j]].shape;
        if (op->op->kind == MODEL_EINSUM && !sim_looks_up(s, op)) sums->dots[sums->dot_count++] = i;
    }
    kernel->read_count = sums->read_count - kernel->first_read;
    kernel->write_count = sums->write_count - kernel->first_write;
    kernel->dot_count = sums->dot_count - kernel->first_dot;
}

static void sum_up(struct rows *r)
{
    struct sim_sharded *s = r->s;
    struct sums sums = {.reads = base_new(r->arena, int, (s->op_count + 1) * MODEL_MAX_INPUTS),
                        .writes = base_new(r->arena, int, (s->op_count + 1) * MODEL_MAX_OUTPUTS),
                        .dots = base_new(r->arena, int, s->op_count + 1)};
    for (int k = 0; k < s->kernel_count; k++) sum_up_kernel(r, &sums, k);
    s->reads = sums.reads, s->read_count = sums.read_count;
    s->writes = sums.writes, s->write_count = sums.write_count;
    s->dots = sums.dots, s->dot_count = sums.dot_count;
}

void sim_fuse_rows(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded)
{
    (void)compiler;
    struct rows r = {.arena = arena, .s = sharded};
    r.outside = base_new(arena, bool, sharded->value_count);
    r.read = base_new(arena, bool, sharded->value_count);
    r.seen = base_new(arena, bool, sharded->value_count);
    find_aliases(&r);
    find_unmade(&r);
    find_kernels(&r);
    note_uses(&r);
    find_stored(&r);
    sum_up(&r);
}
