/* Operations that only move elements: microbatch slices, repeated heads, and their transposes; and the factor of a
 * product's result. */
#include "exec/kernels.h"
#include "exec/row.h"

#include <string.h>

struct move {
    struct exec_space space;
    struct exec_view from, to;
    int64_t index[MODEL_MAX_RANK]; /* of the result's element in the device's part */
};

/* A space over the result's labels and the operand's other labels. */
static void plan_move(const struct exec_machine *machine, const struct sim_op *op, int device, struct move *m)
{
    memset(m, 0, sizeof *m);
    exec_space_of(machine, op, device, &m->space);
    const struct sim_value *in = &machine->s->values[op->inputs[0]];
    const struct model_tensor *tensor = &machine->s->program->tensors[in->tensor];
    for (int d = 0; d < tensor->rank; d++) { /* the operand is not sliced, except by its labels */
        char letter = op->op->input_labels[0][d];
        struct exec_range *range = &m->space.ranges[strchr(m->space.letters, letter) - m->space.letters];
        if (!strchr(op->op->output_labels, letter))
            *range = exec_range_of(machine, device, machine->sizes[tensor->dims[d]], in->spec[d]);
    }
}

static void bind_views(const struct exec_machine *machine, const struct sim_op *op, int device, struct move *m)
{
    exec_view_of(machine, op->inputs[0], op->op->input_labels[0], &m->space, device, &m->from);
    exec_view_of(machine, op->outputs[0], op->op->output_labels, &m->space, device, &m->to);
}

static bool next_element(struct move *m)
{
    int d = m->to.rank - 1;
    while (d >= 0 && ++m->index[d] == exec_space_range(&m->space, m->to.letters[d])->valid) m->index[d--] = 0;
    return d >= 0;
}

static bool is_empty(const struct move *m, const char *letters)
{
    for (; *letters; letters++)
        if (exec_space_range(&m->space, *letters)->valid == 0) return true;
    return false;
}

static int64_t result_offset(const struct move *m)
{
    int64_t offset = 0;
    for (int d = 0; d < m->to.rank; d++) offset += m->index[d] * m->to.strides[d];
    return offset;
}

/* Offset of the operand's element with the result's labels, without the operand's own label. */
static int64_t common_offset(const struct move *m)
{
    int64_t offset = 0;
    for (int d = 0; d < m->to.rank; d++) offset += m->index[d] * exec_stride(&m->from, m->to.letters[d]);
    return offset;
}

/* The label that only one side has: B and b, g and h. */
static char own_letter(const char *letters, const char *others)
{
    while (*letters && strchr(others, *letters)) letters++;
    return *letters;
}

static void copy_element(const struct move *m, int64_t from, int64_t to)
{
    size_t bytes = (size_t)model_dtype_bytes(m->from.dtype);
    memcpy(m->to.at + to * (int64_t)bytes, m->from.at + from * (int64_t)bytes, bytes);
}

/* Sums over the heads that share one key or value. */
static void add_group(const struct move *m, char head, int64_t group, int64_t group_size, int64_t offset)
{
    const struct exec_range *heads = exec_space_range(&m->space, head);
    float sum = 0, part;
    for (int64_t h = group * group_size; h < (group + 1) * group_size; h++) {
        int64_t at = offset + (h - heads->start) * exec_stride(&m->from, head);
        exec_load(m->from.dtype, m->from.at + at * model_dtype_bytes(m->from.dtype), 1, &part, 1);
        sum += part;
    }
    exec_store(m->to.dtype, &sum, m->to.at + result_offset(m) * model_dtype_bytes(m->to.dtype), 1, 1);
}

/* The device's part of the label that is sliced, repeated or summed covers what it has to make. */
static int64_t whole_size(const struct exec_machine *machine, char letter)
{
    return machine->sizes[model_dimension_of(machine->s->program, letter)->size];
}

/* Number of heads per group. */
static int64_t heads_a_group(const struct exec_machine *machine, char from, char to)
{
    int64_t a = whole_size(machine, from), b = whole_size(machine, to);
    return a > b ? a / b : b / a;
}

bool exec_can_move(const struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct move m;
    plan_move(machine, op, device, &m);
    if (is_empty(&m, op->op->output_labels)) return true;
    char to = own_letter(op->op->output_labels, op->op->input_labels[0]),
         from = own_letter(op->op->input_labels[0], op->op->output_labels);
    const struct exec_range *result = exec_space_range(&m.space, to), *operand = exec_space_range(&m.space, from);
    int64_t group_size = heads_a_group(machine, from, to), first = result->start,
            last = result->start + result->valid - 1;
    if (op->op->kind == MODEL_SLICE) return operand->valid == whole_size(machine, from);
    bool adds = op->op->function == MODEL_REPEAT_GRAD;
    first = adds ? first * group_size : first / group_size;
    last = adds ? (last + 1) * group_size - 1 : last / group_size;
    return first >= operand->start && last < operand->start + operand->valid;
}

void exec_move(struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct move m;
    plan_move(machine, op, device, &m);
    if (is_empty(&m, op->op->output_labels)) return;
    bind_views(machine, op, device, &m);
    char to = own_letter(op->op->output_labels, op->op->input_labels[0]),
         from = own_letter(op->op->input_labels[0], op->op->output_labels);
    int64_t group_size = heads_a_group(machine, from, to);
    const struct exec_range *result = exec_space_range(&m.space, to), *operand = exec_space_range(&m.space, from);
    int at = (int)(strchr(op->op->output_labels, to) - op->op->output_labels);
    do {
        int64_t global = result->start + m.index[at], offset = common_offset(&m);
        if (op->op->function == MODEL_REPEAT_GRAD) {
            add_group(&m, from, global, group_size, offset);
            continue;
        }
        /* A microbatch's rows follow those of the previous one; a head reads its group's key or value. */
        int64_t source = op->op->kind == MODEL_SLICE
                             ? machine->index[MODEL_MICROBATCHES] * whole_size(machine, to) + global
                             : global / group_size;
        copy_element(&m, offset + (source - operand->start) * exec_stride(&m.from, from), result_offset(&m));
    } while (next_element(&m));
}

/* ---- zeros behind rows of tokens ---- */

/* Both sides as one line of tokens, zeros included: how many of it each row or group has. */
struct refit {
    int64_t from, to;
    int64_t length; /* of a row or group of the operand, without zeros */
    int64_t count;  /* of these */
};

static struct refit refit_of(const struct exec_machine *machine, const struct sim_op *op)
{
    const char *in = op->op->input_labels[0], *out = op->op->output_labels;
    const int64_t in_count = whole_size(machine, in[0]), in_length = whole_size(machine, in[1]),
                  out_count = whole_size(machine, out[0]), out_length = whole_size(machine, out[1]);
    switch (op->op->function) {
    case MODEL_PAD_LENGTH: return (struct refit){out_count * out_length / in_count, out_length, in_length, in_count};
    case MODEL_CUT_LENGTH: return (struct refit){in_length, in_count * in_length / out_count, in_length, in_count};
    default: return (struct refit){in_length, out_length, in_length, in_count};
    }
}

/* Where the operand has the token, in its device's part; false: it is a zero. */
static bool source_of(const struct move *m, const struct refit *r, const char *in, int64_t token, int64_t *offset)
{
    const struct exec_range *major = exec_space_range(&m->space, in[0]), *minor = exec_space_range(&m->space, in[1]);
    const int64_t row = token / r->from, at = token % r->from;
    *offset = (row - major->start) * exec_stride(&m->from, in[0]) + (at - minor->start) * exec_stride(&m->from, in[1]);
    return row < r->count && at < r->length;
}

/* The device has each of its result's tokens: those from the first to the last, of whole rows or groups. */
bool exec_can_pad(const struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct move m;
    const char *in = op->op->input_labels[0], *out = op->op->output_labels;
    const struct refit r = refit_of(machine, op);
    plan_move(machine, op, device, &m);
    if (is_empty(&m, out)) return true;
    const struct exec_range *made = exec_space_range(&m.space, out[0]), *had = exec_space_range(&m.space, in[0]);
    int64_t last = ((made->start + made->valid) * r.to - 1) / r.from;
    if (last >= r.count) last = r.count - 1;
    return exec_space_range(&m.space, in[1])->valid == whole_size(machine, in[1]) &&
           made->start * r.to / r.from >= had->start && last < had->start + had->valid;
}

void exec_pad(struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct move m;
    const char *in = op->op->input_labels[0], *out = op->op->output_labels;
    const struct refit r = refit_of(machine, op);
    plan_move(machine, op, device, &m);
    if (is_empty(&m, out)) return;
    bind_views(machine, op, device, &m);
    const struct exec_range *major = exec_space_range(&m.space, out[0]), *minor = exec_space_range(&m.space, out[1]);
    const int64_t bytes = model_dtype_bytes(m.to.dtype);
    do {
        int64_t from, to = result_offset(&m);
        const int64_t token = (major->start + m.index[0]) * r.to + minor->start + m.index[1];
        if (source_of(&m, &r, in, token, &from)) copy_element(&m, from + m.index[2] * exec_stride(&m.from, out[2]), to);
        else memset(m.to.at + to * bytes, 0, (size_t)bytes);
    } while (next_element(&m));
}

/* ---- keys of latent attention ---- */

/* Copies between a head's key, or query, and an array of a part of it: the part that positions turn is the last. One
 * that all heads have has a label less: it goes to each key, or is added up over the heads. */
static void move_part(const struct exec_machine *machine, const struct sim_op *op, int device, int key, int part,
                      const char *key_labels, const char *part_labels)
{
    enum { PIECE = 256 };
    const bool joins = op->op->function == MODEL_JOIN_KEYS, shared = strlen(part_labels) < strlen(key_labels);
    struct move m = {.index = {0}};
    exec_space_of(machine, op, device, &m.space);
    if (is_empty(&m, key_labels)) return;
    exec_view_of(machine, key, key_labels, &m.space, device, &m.to);
    exec_view_of(machine, part, part_labels, &m.space, device, &m.from);
    m.to.rank--; /* its last label is the row's */
    const int heads = m.to.rank - 1;
    const char last = m.from.letters[m.from.rank - 1];
    const bool turned = model_dimension_of(machine->s->program, last)->size == MODEL_ROPE_DIM;
    const int64_t length = exec_space_range(&m.space, last)->valid,
                  first = turned ? exec_space_range(&m.space, m.to.letters[m.to.rank])->valid - length : 0,
                  key_stride = m.to.strides[m.to.rank], part_stride = m.from.strides[m.from.rank - 1],
                  bytes = model_dtype_bytes(m.to.dtype),
                  added = joins    ? 0
                          : shared ? exec_space_range(&m.space, m.to.letters[heads])->valid
                                   : 1;
    do
        for (int64_t i = 0; i < length && (added <= 1 || m.index[heads] == 0); i += PIECE) {
            float row[PIECE] = {0}, of_head[PIECE];
            const int64_t n = length - i < PIECE ? length - i : PIECE;
            char *in_key = m.to.at + (result_offset(&m) + (first + i) * key_stride) * bytes,
                 *in_part = m.from.at + (common_offset(&m) + i * part_stride) * bytes;
            if (joins) exec_load(m.to.dtype, in_part, part_stride, row, n);
            for (int64_t h = 0; h < added; h++) { /* in float32, whatever the key's dtype */
                exec_load(m.to.dtype, in_key + h * m.to.strides[heads] * bytes, key_stride, of_head, n);
                for (int64_t j = 0; j < n; j++) row[j] += of_head[j];
            }
            exec_store(m.to.dtype, row, joins ? in_key : in_part, joins ? key_stride : part_stride, n);
        }
    while (next_element(&m));
}

void exec_join_keys(struct exec_machine *machine, const struct sim_op *op, int device)
{
    const bool joins = op->op->function == MODEL_JOIN_KEYS;
    if (!joins)
        move_part(machine, op, device, op->inputs[0], op->outputs[0], op->op->input_labels[0], op->op->output_labels);
    for (int i = 0; joins && i < op->input_count; i++)
        move_part(machine, op, device, op->outputs[0], op->inputs[i], op->op->output_labels, op->op->input_labels[i]);
}

/* ---- factors ---- */

void exec_scale(struct exec_machine *machine, const struct sim_op *op, int device)
{
    enum { PART = 256 };
    const float factor = (float)op->op->factor;
    const char *labels = op->op->output_labels;
    struct move m = {.index = {0}};
    exec_space_of(machine, op, device, &m.space);
    if (is_empty(&m, labels)) return;
    exec_view_of(machine, op->outputs[0], labels, &m.space, device, &m.to);
    m.to.rank--; /* its last label is the row's */
    const int64_t stride = m.to.strides[m.to.rank], length = exec_space_range(&m.space, m.to.letters[m.to.rank])->valid;
    do
        for (int64_t i = 0; i < length; i += PART) {
            float part[PART];
            const int64_t n = length - i < PART ? length - i : PART;
            char *at = m.to.at + (result_offset(&m) + i * stride) * model_dtype_bytes(m.to.dtype);
            exec_load(m.to.dtype, at, stride, part, n);
            for (int64_t j = 0; j < n; j++) part[j] *= factor;
            exec_store(m.to.dtype, part, at, stride, n);
        }
    while (next_element(&m));
}
