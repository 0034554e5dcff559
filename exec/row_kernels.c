/* Runs row kernels: loops over all labels except the last and applies the kernel's operations to each row. Values
 * that only the kernel reads stay in row scratch; bfloat16 operands are widened when loaded. */
#include "exec/kernels.h"
#include "exec/row.h"
#include "exec/row_functions.csv.h"

#include <string.h>

enum { MOST_OPS = 8, MOST_OUTER = EXEC_MOST_LETTERS };

static const struct exec_row_function functions[MODEL_FUNCTION_COUNT] = {ROW_FUNCTIONS_ROWS};

const struct exec_row_function *exec_row_function_of(enum model_function function)
{
    return functions[function].run ? &functions[function] : NULL;
}

/* An operand or result as the loops see it. */
struct bound {
    char *at; /* NULL: only in scratch */
    enum model_dtype dtype;
    int64_t outer_strides[MOST_OUTER]; /* in elements */
    int64_t stride;                    /* along the row; 0: one number per row */
    float *slot;                       /* a row of scratch */
    bool varies;                       /* n numbers per row */
    bool spread;                       /* one number that the function needs n times */
};

struct row_op {
    const struct sim_op *op;
    const struct exec_row_function *function;
    struct bound in[MODEL_MAX_INPUTS], out[MODEL_MAX_OUTPUTS];
    float *values;    /* of a reduction: the values to combine */
    int exponentials; /* the operation of this kernel that just made them, or -1 */
    double divisor;
    struct base_key key; /* of a dropout mask */
};

struct row_kernel {
    const struct exec_machine *machine;
    struct exec_space space;
    char outer[MOST_OUTER + 1];
    int64_t outer_valid[MOST_OUTER], outer_start[MOST_OUTER];
    int64_t outer_step[MOST_OUTER], count; /* row-major in the whole array: elements between neighbours, and in total */
    char row_letter;
    int64_t row_valid, row_start, slot_floats;
    struct row_op ops[MOST_OPS];
    int op_count;
    struct exec_scratch scratch;
};

/* ---- binding ---- */

static float *new_slot(struct row_kernel *k)
{
    return exec_scratch_take(&k->scratch, k->slot_floats * (int64_t)sizeof(float));
}

/* The unstored result of an earlier operation of this kernel. */
static const struct bound *find_inside(const struct row_kernel *k, int value)
{
    int root = sim_root(k->machine->s, value);
    if (k->machine->s->values[root].stored) return NULL;
    for (int i = 0; i < k->op_count; i++)
        if (k->ops[i].op->outputs[0] == root) return &k->ops[i].out[0];
    return NULL;
}

static void bind_view(struct row_kernel *k, int value, const char *letters, int device, struct bound *out)
{
    struct exec_view view;
    exec_view_of(k->machine, value, letters, &k->space, device, &view);
    out->at = view.at;
    out->dtype = view.dtype;
    for (int i = 0; k->outer[i]; i++) out->outer_strides[i] = exec_stride(&view, k->outer[i]);
    out->stride = exec_stride(&view, k->row_letter);
}

static bool has_row(const struct row_kernel *k, const char *letters)
{
    return k->row_letter && strchr(letters, k->row_letter);
}

static void bind_op(struct row_kernel *k, const struct sim_op *op, int device)
{
    struct row_op *r = &k->ops[k->op_count];
    memset(r, 0, sizeof *r);
    r->op = op;
    r->function = exec_row_function_of(op->op->function);
    r->exponentials = -1;
    for (int i = 0; i < op->input_count; i++) {
        const struct bound *inside = find_inside(k, op->inputs[i]);
        if (inside) r->in[i].slot = inside->slot, r->in[i].dtype = MODEL_FLOAT32;
        else bind_view(k, op->inputs[i], op->op->input_labels[i], device, &r->in[i]);
        r->in[i].varies = has_row(k, op->op->input_labels[i]) && r->function->operands[i] == 'v';
        if (!r->in[i].varies) r->in[i].stride = 0; /* a broadcast in memory has its number n times */
        r->in[i].spread = r->function->operands[i] == 'v' && !r->in[i].varies;
        if (!inside) r->in[i].slot = new_slot(k);
    }
    for (int o = 0; o < op->output_count; o++) {
        if (k->machine->s->values[op->outputs[o]].stored)
            bind_view(k, op->outputs[o], op->op->output_labels, device, &r->out[o]);
        r->out[o].varies = has_row(k, op->op->output_labels);
        r->out[o].slot = new_slot(k);
    }
    k->op_count++;
}

/* Finds softmaxes whose exponentials an earlier operation of the kernel has summed. */
static void find_exponentials(struct row_kernel *k)
{
    const struct sim_sharded *s = k->machine->s;
    for (int i = 0; i < k->op_count; i++) {
        const struct sim_op *softmax = k->ops[i].op;
        for (int j = 0; j < i && softmax->op->function == MODEL_SOFTMAX; j++) {
            const struct sim_op *sum = k->ops[j].op;
            bool same = sum->op->function == MODEL_SUM_EXP && sum->input_count == 2 &&
                        sim_root(s, sum->inputs[0]) == sim_root(s, softmax->inputs[0]) &&
                        sim_root(s, sum->inputs[1]) == sim_root(s, softmax->inputs[1]);
            if (same) k->ops[i].exponentials = j;
        }
    }
}

static bool is_merged_by(const struct bound *b, int last, int64_t valid)
{
    if (!b->at) return b->varies;
    return b->stride == 0 ? b->outer_strides[last] == 0 : b->stride == 1 && b->outer_strides[last] == valid;
}

/* Merges rows that are contiguous for every operand. */
static void merge_rows(struct row_kernel *k)
{
    for (int last = (int)strlen(k->outer) - 1; last >= 0; last--) {
        for (int i = 0; i < k->op_count; i++) {
            const struct row_op *r = &k->ops[i];
            if (r->function->positional || r->function->combine != EXEC_NONE) return;
            for (int j = 0; j < r->op->input_count; j++)
                if (!is_merged_by(&r->in[j], last, k->row_valid)) return;
            for (int j = 0; j < r->op->output_count; j++)
                if (!is_merged_by(&r->out[j], last, k->row_valid)) return;
        }
        k->row_valid *= k->outer_valid[last];
        k->outer[last] = '\0';
    }
}

/* letters: outer ones in loop order, then the row's; "" for scalars. */
static void begin_kernel(struct row_kernel *k, const struct exec_machine *machine, const struct sim_op *first,
                         int device, const char *letters)
{
    memset(k, 0, sizeof *k);
    k->machine = machine;
    k->scratch = exec_scratch_of(machine, device);
    exec_space_of(machine, first, device, &k->space);
    size_t length = strlen(letters);
    k->row_valid = k->count = 1;
    if (!length) return;
    memcpy(k->outer, letters, length - 1);
    k->row_letter = letters[length - 1];
    const struct exec_range *row = exec_space_range(&k->space, k->row_letter);
    k->row_valid = row->valid;
    k->row_start = row->start;
    k->count = machine->sizes[sim_label_size(machine->s, first, k->row_letter)];
    for (int i = (int)length - 2; i >= 0; i--) {
        k->outer_valid[i] = exec_space_range(&k->space, k->outer[i])->valid;
        k->outer_start[i] = exec_space_range(&k->space, k->outer[i])->start;
        k->outer_step[i] = k->count;
        k->count *= machine->sizes[sim_label_size(machine->s, first, k->outer[i])];
    }
}

/* ---- running ---- */

static int64_t offset_at(const struct bound *b, const int64_t *index, int outer_count, int64_t piece)
{
    int64_t offset = piece * b->stride;
    for (int i = 0; i < outer_count; i++) offset += index[i] * b->outer_strides[i];
    return offset;
}

static const float *fetch(const struct bound *b, int64_t offset, int64_t n)
{
    if (b->at && b->dtype == MODEL_FLOAT32 && !b->spread && (b->stride == 1 || !b->varies))
        return (const float *)(const void *)b->at + offset;
    if (b->at) exec_load(b->dtype, b->at + offset * model_dtype_bytes(b->dtype), b->stride, b->slot, b->varies ? n : 1);
    if (!b->spread) return b->slot;
    for (int64_t i = 1; i < n; i++) b->slot[i] = b->slot[0];
    return b->slot;
}

static bool is_direct(const struct bound *b)
{
    return b->at && b->dtype == MODEL_FLOAT32 && b->stride == 1;
}

static void store(const struct bound *b, int64_t offset, int64_t n)
{
    exec_store(b->dtype, b->slot, b->at + offset * model_dtype_bytes(b->dtype), b->stride, n);
}

static float combined(const struct row_op *r, const float *values, int64_t n)
{
    if (r->function->combine == EXEC_MAX) return exec_row_max(values, n);
    return exec_row_sum(values, n) / (float)r->divisor;
}

static void run_row(struct row_kernel *k, struct exec_row *row, struct row_op *r, const int64_t *index, int outer_count,
                    int64_t piece)
{
    row->op = r->op->op;
    row->key = r->key;
    for (int i = 0; i < r->op->input_count; i++)
        row->in[i] = fetch(&r->in[i], offset_at(&r->in[i], index, outer_count, piece), row->n);
    bool reduces = r->function->combine != EXEC_NONE;
    for (int o = 0; o < r->op->output_count; o++) {
        const struct bound *b = &r->out[o];
        row->out[o] =
            is_direct(b) && !reduces ? (float *)(void *)b->at + offset_at(b, index, outer_count, piece) : b->slot;
    }
    row->exponentials = r->exponentials >= 0 ? k->ops[r->exponentials].values : NULL;
    bool as_it_is = reduces && r->function->run == exec_row_copy;
    if (reduces) row->out[0] = r->values;
    if (!as_it_is) r->function->run(row);
    if (reduces) r->out[0].slot[0] = combined(r, as_it_is ? row->in[0] : r->values, row->n);
    for (int o = 0; o < r->op->output_count; o++) {
        const struct bound *b = &r->out[o];
        if (b->at && (reduces || !is_direct(b)))
            store(b, offset_at(b, index, outer_count, piece), b->varies ? row->n : 1);
    }
}

static bool next_index(const struct row_kernel *k, int64_t *index, int outer_count)
{
    int i = outer_count - 1;
    while (i >= 0 && ++index[i] == k->outer_valid[i]) index[i--] = 0;
    return i >= 0;
}

static bool is_empty(const struct row_kernel *k, int outer_count)
{
    for (int i = 0; i < outer_count; i++)
        if (k->outer_valid[i] == 0) return true;
    return false;
}

static bool is_length(const struct row_kernel *k, char letter)
{
    return model_dimension_of(k->machine->s->program, letter)->axis == MODEL_AXIS_LENGTH;
}

/* Whether the letter is a whole sequence, not its blocks. */
static bool is_of_sequence(const struct row_kernel *k, char letter)
{
    const struct model_dimension *dimension = letter ? model_dimension_of(k->machine->s->program, letter) : NULL;
    return dimension && dimension->size == MODEL_TARGETS_LENGTH;
}

static void run_rows(struct row_kernel *k, bool in_pieces)
{
    int outer_count = (int)strlen(k->outer);
    int64_t index[MOST_OUTER] = {0}, piece_size = in_pieces ? SIM_ROW_CHUNK : k->row_valid;
    if (is_empty(k, outer_count)) return;
    struct exec_row row = {.machine = k->machine, .count = k->count, .of_sequence = is_of_sequence(k, k->row_letter)};
    do {
        int64_t before = 0;
        row.first = outer_count ? k->outer_start[0] + index[0] : 0;
        for (int i = 0; i < outer_count; i++) {
            int64_t at = k->outer_start[i] + index[i];
            if (is_of_sequence(k, k->outer[i])) at = exec_row_sequence_position(&row, at);
            if (is_length(k, k->outer[i])) row.position = at;
            before += at * k->outer_step[i];
        }
        row.before = outer_count ? k->outer_start[outer_count - 1] + index[outer_count - 1] : 0;
        for (int64_t piece = 0; piece == 0 || piece < k->row_valid; piece += piece_size) {
            row.n = k->row_valid - piece < piece_size ? k->row_valid - piece : piece_size;
            row.start = k->row_start + piece;
            row.number = before + row.start;
            for (int i = 0; i < k->op_count; i++) run_row(k, &row, &k->ops[i], index, outer_count, piece);
            if (piece_size == 0) break;
        }
    } while (next_index(k, index, outer_count));
}

/* Number of elements that one result of a reduction combines, on all devices. */
static double reduced_count(const struct exec_machine *machine, const struct sim_op *op)
{
    double count = 1;
    for (const char *letter = sim_space(op->op); *letter; letter++)
        if (!strchr(op->op->output_labels, *letter))
            count *= (double)machine->sizes[sim_label_size(machine->s, op, *letter)];
    return count;
}

static void prepare_reduction(struct row_kernel *k, struct row_op *r)
{
    r->divisor = r->function->combine == EXEC_MEAN ? reduced_count(k->machine, r->op) : 1;
    if (r->function->combine != EXEC_NONE) r->values = new_slot(k);
}

void exec_rows(struct exec_machine *machine, int kernel, int device)
{
    const struct sim_sharded *s = machine->s;
    const struct sim_kernel *parts = &s->kernels[kernel];
    struct row_kernel k;
    bool reduces = false;
    begin_kernel(&k, machine, &s->ops[parts->op], device, sim_space(s->ops[parts->op].op));
    for (int i = parts->op; i <= parts->last; i++)
        reduces = reduces || (s->ops[i].kernel == kernel && sim_needs_whole_rows(s->ops[i].op));
    int64_t row = k.row_valid;
    k.slot_floats = reduces || row < SIM_ROW_CHUNK ? row : SIM_ROW_CHUNK;
    for (int i = 0; k.outer[i] && !reduces && k.slot_floats < SIM_ROW_CHUNK; i++) {
        int64_t longer = k.slot_floats * k.outer_valid[i];
        k.slot_floats = longer < SIM_ROW_CHUNK ? longer : SIM_ROW_CHUNK;
    }
    if (k.slot_floats < 1) k.slot_floats = 1;
    for (int i = parts->op; i <= parts->last; i++)
        if (s->ops[i].kernel == kernel) bind_op(&k, &s->ops[i], device);
    for (int i = 0; i < k.op_count; i++) {
        prepare_reduction(&k, &k.ops[i]);
        if (k.ops[i].op->op->function == MODEL_DROPOUT_MASK) k.ops[i].key = exec_mask_key(machine, k.ops[i].op);
    }
    find_exponentials(&k);
    merge_rows(&k);
    run_rows(&k, !reduces);
}

/* ---- reductions over other labels than the last ---- */

static void order_letters(const struct sim_op *op, char *letters, int *kept_count)
{
    const char *space = sim_space(op->op);
    size_t length = strlen(space), count = 0;
    for (size_t i = 0; i + 1 < length; i++)
        if (strchr(op->op->output_labels, space[i])) letters[count++] = space[i];
    *kept_count = (int)count;
    for (size_t i = 0; i + 1 < length; i++)
        if (!strchr(op->op->output_labels, space[i])) letters[count++] = space[i];
    if (length) letters[count++] = space[length - 1];
    letters[count] = '\0';
}

/* One result: a row of sums if the row's label is kept, otherwise a number. */
static void reduce_one(struct row_kernel *k, int kept_count, int64_t *index, struct exec_row *row)
{
    struct row_op *r = &k->ops[0];
    struct bound *out = &r->out[0];
    int outer_count = (int)strlen(k->outer);
    float *values = r->values, *sums = out->slot;
    double sum = 0;
    memset(sums, 0, (size_t)k->slot_floats * sizeof *sums);
    for (int i = kept_count; i < outer_count; i++) index[i] = 0;
    bool empty = is_empty(k, outer_count);
    for (bool more = !empty; more;) {
        for (int i = 0; i < r->op->input_count; i++)
            row->in[i] = fetch(&r->in[i], offset_at(&r->in[i], index, outer_count, 0), row->n);
        row->out[0] = values;
        r->function->run(row);
        if (out->varies)
            for (int64_t i = 0; i < row->n; i++) sums[i] += values[i];
        else sum += (double)exec_row_sum(values, row->n);
        int i = outer_count - 1;
        while (i >= kept_count && ++index[i] == k->outer_valid[i]) index[i--] = 0;
        more = i >= kept_count;
    }
    if (!out->varies) sums[0] = (float)(sum / r->divisor);
    for (int64_t i = 0; out->varies && i < row->n; i++) sums[i] = (float)((double)sums[i] / r->divisor);
    store(out, offset_at(out, index, kept_count, 0), out->varies ? row->n : 1);
}

void exec_reduction(struct exec_machine *machine, int kernel, int device)
{
    const struct sim_op *op = &machine->s->ops[machine->s->kernels[kernel].op];
    struct row_kernel k;
    char letters[EXEC_MOST_LETTERS + 1];
    int kept_count;
    order_letters(op, letters, &kept_count);
    begin_kernel(&k, machine, op, device, letters);
    k.slot_floats = k.row_valid > 0 ? k.row_valid : 1;
    bind_op(&k, op, device);
    prepare_reduction(&k, &k.ops[0]);
    struct exec_row row = {.machine = machine, .op = op->op, .n = k.row_valid, .start = k.row_start};
    int64_t index[MOST_OUTER] = {0};
    for (int i = 0; i < kept_count; i++)
        if (k.outer_valid[i] == 0) return;
    for (bool more = true; more;) {
        reduce_one(&k, kept_count, index, &row);
        int i = kept_count - 1;
        while (i >= 0 && ++index[i] == k.outer_valid[i]) index[i--] = 0;
        more = i >= 0;
    }
    if (!exec_is_first_of(machine, device, k.space.axes)) return;
    bool routes = op->op->function == MODEL_BALANCE_LOSS || op->op->function == MODEL_ROUTER_Z_LOSS;
    if (routes) machine->router_loss_sum += (double)k.ops[0].out[0].slot[0];
    if (op->op->function != MODEL_LOSS) return;
    machine->loss_sum += (double)k.ops[0].out[0].slot[0];
    machine->weight_sum += row.extra;
}
