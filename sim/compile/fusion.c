/* Stored values and kernels. The rules of XLA's fusion, in outline:
 * - Readers recompute an elementwise result that is not stored. Such a result is not saved for the backward pass,
 *   crosses no loop, meets no collective, and has at most one contraction among its readers.
 * - An elementwise operation that is the only reader of a contraction runs in its epilogue.
 * - Elementwise operations and reductions join the preceding elementwise kernel that computes their operand.
 * - Reshapes move no data.
 * Library calls fuse neither operands nor results. Eager software (eager_kernels) stores every result, except inside
 * its own fused kernels. A library's contraction may accumulate into its result. */
#include "sim/compile/passes.h"

#include <string.h>

struct fuser {
    struct base_arena *arena;
    struct sim_sharded *s;
    bool library_dots, eager, aten, adds_up, copies_stacks, row_softmax, scales_logits, copies_units;
    int *consumers, *contractions,
        *barriers; /* per value: number of readers, of contractions among them, and of readers that need it stored */
    int *seen;     /* per value: the last operation, plus one, whose kernel reads it */
    int *read_by;  /* eager: per value, the last kernel, plus one, that reads it */
    int *done_by;  /* eager: per contraction, the last kernel, plus one, that computes it */
};

static bool is_elementwise(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE && (op->op->kind == MODEL_MAP || op->op->kind == MODEL_REDUCE);
}

static bool generates(const struct sim_op *op)
{
    return model_function_is(op->op->function, MODEL_IS_GENERATED);
}

/* True for exp. It is stored if more than one consumer would have to repeat it. */
static bool is_expensive(const struct sim_op *op)
{
    return model_function_is(op->op->function, MODEL_IS_EXPENSIVE);
}

/* A reshape moves no data, so its readers read its operand. Runs backward, so that its readers are known. */
static void count_reshape(struct fuser *f, const struct sim_op *op)
{
    int in = op->inputs[0], out = op->outputs[0];
    f->consumers[in] += f->consumers[out];
    f->contractions[in] += f->contractions[out];
    f->barriers[in] += f->barriers[out];
    f->s->values[in].saved = f->s->values[in].saved || f->s->values[out].saved;
}

static void count_consumers(struct fuser *f)
{
    for (int i = f->s->op_count - 1; i >= 0; i--) {
        const struct sim_op *op = &f->s->ops[i];
        for (int j = 0; j < op->input_count; j++) {
            int v = op->inputs[j];
            struct sim_value *value = &f->s->values[v];
            bool same_loop = op->loop == value->loop, uses_ring = op->kind == SIM_LOOP_END;
            if (value->last_use < i) value->last_use = i;
            value->saved = value->saved || (!same_loop && !uses_ring && !value->persistent);
            if (op->kind == SIM_COMPUTE && op->op->kind == MODEL_RESHAPE) {
                count_reshape(f, op);
                continue;
            }
            f->consumers[v]++;
            f->contractions[v] += op->kind == SIM_COMPUTE && op->op->kind == MODEL_EINSUM;
            f->barriers[v] += op->kind != SIM_COMPUTE || !same_loop || op->op->kind == MODEL_SLICE;
        }
    }
}

static bool in_one_group(const struct fuser *f, int value)
{
    const struct sim_op *made = &f->s->ops[f->s->values[value].definition];
    const int last = f->s->values[value].last_use; /* nobody reads it later */
    if (made->kind != SIM_COMPUTE || !made->op->group || !f->consumers[value]) return false;
    for (int i = f->s->values[value].definition + 1; i < f->s->op_count && i <= last; i++)
        for (int j = 0; j < f->s->ops[i].input_count; j++)
            if (f->s->ops[i].inputs[j] == value &&
                (f->s->ops[i].kind != SIM_COMPUTE || f->s->ops[i].op->group != made->op->group ||
                 f->s->ops[i].loop != made->loop))
                return false;
    return true;
}

/* Number of inputs as large as the result. With two of them, reading the result twice is cheaper than computing it
 * twice. */
static int whole_inputs(const struct fuser *f, const struct sim_op *op)
{
    int count = 0, rank = (int)strlen(op->op->output_labels);
    for (int i = 0; i < op->input_count; i++)
        count += f->s->program->tensors[f->s->values[op->inputs[i]].tensor].rank == rank;
    return count;
}

static bool is_stored(const struct fuser *f, int v)
{
    const struct sim_value *value = &f->s->values[v];
    if (value->persistent || value->definition < 0) return true;
    const struct sim_op *made = &f->s->ops[value->definition];
    if (made->kind != SIM_COMPUTE) return true;
    if (model_function_is(made->op->function, MODEL_IS_PERMUTATION)) return true;
    if (f->eager && f->aten && made->op->function == MODEL_NORM_GRAD_SCALE) return true;
    if (in_one_group(f, v)) return false;
    if (f->eager)
        return !generates(made) && made->op->kind != MODEL_RESHAPE &&
               !(f->copies_units && sim_is_cast_into_unit(f->s, v));
    if (made->op->apart || made->op->function == MODEL_SHIFT) return true;
    const bool rows = made->op->lookup && made->op->kind == MODEL_MAP; /* a lookup: no one-hot is stored */
    if (f->library_dots && f->contractions[v] && made->op->kind == MODEL_MAP && !rows) return true;
    if (generates(made) || made->op->kind == MODEL_RESHAPE) return false;
    if (made->op->kind != MODEL_MAP || model_function_is(made->op->function, MODEL_IS_CONSTANT)) return true;
    bool whole_gradient = f->consumers[v] == 0;
    if (f->barriers[v] || whole_gradient) return true;
    if (f->consumers[v] > 1 && (is_expensive(made) || whole_inputs(f, made) > 1)) return true;
    return f->contractions[v] > 1 || (f->consumers[v] > 1 && f->contractions[v] > 0);
}

/* True for a cast from a narrower value with several readers. The narrower value is stored instead. */
static bool widens_for_many(const struct fuser *f, const struct sim_op *op)
{
    const struct sim_value *in = &f->s->values[op->inputs[0]], *out = &f->s->values[op->outputs[0]];
    return op->op->function == MODEL_CAST && f->consumers[op->outputs[0]] > 1 && !f->barriers[op->outputs[0]] &&
           !f->contractions[op->outputs[0]] && model_dtype_bytes(out->dtype) > model_dtype_bytes(in->dtype);
}

static bool is_contraction(const struct fuser *f, int op)
{
    return op >= 0 && f->s->ops[op].kind == SIM_COMPUTE && f->s->ops[op].op->kind == MODEL_EINSUM;
}

/* A kernel of several operations may be one library call, as attention is. It stores its own results. */
static bool leaves_group(const struct fuser *f, int value, const struct sim_op *reader)
{
    const struct model_op *made = f->s->ops[f->s->values[value].definition].op;
    return f->library_dots && made->group && made->group != reader->op->group;
}

/* True if the operation can be the epilogue of the contraction that computes its input j. */
static bool ends_contraction(const struct fuser *f, const struct sim_op *op, int j)
{
    const int v = op->inputs[j];
    return is_contraction(f, f->s->values[v].definition) && f->consumers[v] == 1 && op->loop == f->s->values[v].loop &&
           !op->op->apart && !widens_for_many(f, op) && !leaves_group(f, v, op) &&
           strcmp(op->op->input_labels[j], op->op->output_labels) == 0;
}

/* Epilogues. A contraction with a single elementwise reader of the same shape does not store its raw result. Neither do
 * the readers that follow, as long as each has a single elementwise reader (a bias is added, then rotated; a gradient
 * is cast, then accumulated). The last result is stored. A kernel ends only one contraction: a product's operand is not
 * another's epilogue. */
static void find_epilogues(struct fuser *f)
{
    bool *in_epilogue = base_new(f->arena, bool, f->s->value_count);
    for (int i = 0; i < f->s->op_count; i++) {
        const struct sim_op *op = &f->s->ops[i];
        bool ends_one = false;
        if (op->kind != SIM_COMPUTE || (op->op->kind != MODEL_MAP && op->op->function != MODEL_ACCUMULATE)) continue;
        for (int j = 0; j < op->input_count; j++) {
            struct sim_value *value = &f->s->values[op->inputs[j]];
            const bool follows = in_epilogue[op->inputs[j]] && !value->stored;
            if (!follows && !ends_contraction(f, op, j)) continue;
            if (follows || !ends_one) value->stored = ends_one;
            ends_one = true;
        }
        if (!ends_one || op->op->kind != MODEL_MAP) continue;
        const int out = op->outputs[0];
        if (in_one_group(f, out)) continue;
        in_epilogue[out] = true;
        bool elementwise_next = f->consumers[out] == 1 && !f->contractions[out];
        if (!elementwise_next) f->s->values[out].stored = true;
    }
}

/* Finds contractions that are added in their own loop, to another contraction's result or to a gradient's
 * accumulator. */
static void find_sums(struct fuser *f)
{
    for (int i = 0; i < f->s->op_count; i++) {
        const struct sim_op *op = &f->s->ops[i];
        if (op->kind != SIM_COMPUTE || op->input_count != 2) continue;
        bool biases = op->op->kind == MODEL_MAP && op->op->function == MODEL_BIAS && f->aten;
        bool sum = op->op->kind == MODEL_MAP && op->op->function == MODEL_ADD && !f->aten,
             accumulates = op->op->function == MODEL_ACCUMULATE && f->adds_up;
        const struct sim_value *first = &f->s->values[op->inputs[0]], *last = &f->s->values[op->inputs[1]];
        int v = op->inputs[biases || (sum && first->definition > last->definition) ? 0 : 1];
        if (v < 0 || !(sum || accumulates || biases) || !is_contraction(f, f->s->values[v].definition)) continue;
        if (f->consumers[v] == 1 && op->loop == f->s->values[v].loop && !leaves_group(f, v, op))
            f->s->values[v].stored = false;
    }
}

/* ---- kernels ---- */

static void push(struct fuser *f, int **list, int *count, int item)
{
    enum { FIRST = 8 };
    /* The list's size is bounded by all operations' operands, repeated by fusion. It grows by doubling. */
    if (!*count || (*count >= FIRST && (*count & (*count - 1)) == 0)) {
        int *larger = base_reserve(f->arena, *count ? 2 * (size_t)*count : FIRST, sizeof *larger);
        if (*count) memcpy(larger, *list, (size_t)*count * sizeof **list);
        *list = larger;
    }
    (*list)[(*count)++] = item;
}

/* True if the operand or result must be copied. A library's batched product uses one stride for the whole batch, so
 * batch dimensions must be adjacent and first. Operands in another order are copied into this order, results out of
 * it. */
static bool is_copied(const struct sim_op *op, const char *labels)
{
    unsigned batch = 0;
    for (int i = 0; i < op->label_count; i++) batch += op->batch_labels >> i & 1;
    for (unsigned d = 0; d < batch; d++)
        for (int i = 0; i < op->label_count; i++)
            if (op->labels[i].letter == labels[d] && !(op->batch_labels >> i & 1)) return true;
    return false;
}

/* Adds the copies' traffic to the product's own. */
static void read_copies(struct fuser *f, const struct sim_op *op, struct sim_kernel *k)
{
    for (int i = 0; i <= op->input_count; i++) {
        bool result = i == op->input_count;
        if (!is_copied(op, result ? op->op->output_labels : op->op->input_labels[i])) continue;
        for (int times = 0; times < 2; times++)
            push(f, &f->s->reads, &f->s->read_count, f->s->values[result ? op->outputs[0] : op->inputs[i]].shape);
        k->read_count += 2;
    }
}

/* The gradients of a gated MLP's two halves read the same three arrays in one pass. */
static bool is_second_gate_gradient(const struct fuser *f, const struct sim_op *op)
{
    const bool second = f->aten && !f->eager && op->kind == SIM_COMPUTE && op->op->function == MODEL_GATE_GRAD_1;
    return second && op[-1].kind == SIM_COMPUTE && op[-1].op->function == MODEL_GATE_GRAD_0 && op[-1].kernel >= 0;
}

/* Such a kernel runs each of its operations, and reads each operand, once for all results. */
static bool shares_kernel(const struct fuser *f, const struct sim_op *op)
{
    return f->eager || is_second_gate_gradient(f, op) || (f->library_dots && op->kind == SIM_COMPUTE && op->op->group);
}

/* The slice that an in-place update writes; -1 for other operations. */
static int slice_of(const struct fuser *f, const struct sim_op *op, int value)
{
    const bool updated = op->kind == SIM_COMPUTE && op->op->in_place && op->input_count > 1 &&
                         f->s->values[value].tensor == f->s->values[op->inputs[0]].tensor;
    return updated ? op->inputs[1] : -1;
}

/* Adds everything that is read to compute an operation: stored inputs, and recursively those of fused inputs. Extends a
 * stored value's live range to the kernel that reads it. */
static void read_inputs(struct fuser *f, const struct sim_op *op, int at, int kernel, struct sim_kernel *k)
{
    const bool lookup = op->kind == SIM_COMPUTE && op->op->lookup;
    const int number = (int)(op - f->s->ops);
    const bool done = shares_kernel(f, op) && f->done_by[number] == kernel + 1;
    f->done_by[number] = kernel + 1;
    if (op->kind == SIM_COMPUTE && op->op->kind == MODEL_EINSUM && !lookup && !done) {
        push(f, &f->s->dots, &f->s->dot_count, (int)(op - f->s->ops));
        k->dot_count++;
        if (f->library_dots && !op->op->group) read_copies(f, op, k);
    }
    for (int i = 0; i < op->input_count; i++) {
        int v = op->inputs[i];
        struct sim_value *value = &f->s->values[v];
        if (f->seen[v] == at + 1) continue;
        f->seen[v] = at + 1;
        if (!value->stored) {
            read_inputs(f, &f->s->ops[value->definition], at, kernel, k);
            continue;
        }
        if (value->last_use < at) value->last_use = at;
        bool just_made = value->definition >= 0 && f->s->ops[value->definition].kernel == kernel &&
                         f->s->ops[value->definition].kind == SIM_COMPUTE;
        const bool of_rows = f->row_softmax && f->s->ops[at].kind == SIM_COMPUTE && f->s->ops[at].op->group;
        if (just_made || ((of_rows || shares_kernel(f, op)) && f->read_by[v] == kernel + 1)) continue;
        f->read_by[v] = kernel + 1;
        bool table = lookup && f->s->program->tensors[value->tensor].role == MODEL_ROLE_WEIGHT;
        const int written = slice_of(f, op, v);
        push(f, &f->s->reads, &f->s->read_count,
             table          ? f->s->values[op->outputs[0]].shape
             : written >= 0 ? f->s->values[written].shape
                            : value->shape);
        k->read_count++;
    }
}

static bool available_before(const struct fuser *f, const struct sim_op *op, int root, int kernel)
{
    for (int i = 0; i < op->input_count; i++) {
        const struct sim_value *value = &f->s->values[op->inputs[i]];
        if (value->definition < root) continue;
        const struct sim_op *made = &f->s->ops[value->definition];
        if (value->stored && made->kernel == kernel && made->op->kind == MODEL_MAP) continue;
        if (!value->stored && made->kind == SIM_COMPUTE && made->op->kind == MODEL_MAP &&
            available_before(f, made, root, kernel))
            continue;
        return false;
    }
    return true;
}

/* True if the operation's index space is exactly that of the input. */
static bool covers(const struct model_op *op, const char *labels)
{
    for (int i = 0; i < op->input_count; i++)
        if (strlen(op->input_labels[i]) > strlen(labels)) return false;
    return strlen(op->output_labels) <= strlen(labels);
}

/* The preceding elementwise kernel that computes `reads`, or its fused operands. All other inputs of the operation must
 * precede the kernel. */
static int kernel_through(const struct fuser *f, const struct sim_op *op, const struct sim_op *reads)
{
    for (int i = 0; i < reads->input_count; i++) {
        const struct sim_value *value = &f->s->values[reads->inputs[i]];
        if (value->definition < 0 || value->loop != op->loop || !covers(op->op, reads->op->input_labels[i])) continue;
        const struct sim_op *made = &f->s->ops[value->definition];
        if (made->kind != SIM_COMPUTE || made->op->kind != MODEL_MAP || made->op->group < 0) continue;
        if (!value->stored) {
            int through = kernel_through(f, op, made);
            if (through >= 0) return through;
            continue;
        }
        if (made->kernel < 0 || strlen(made->op->output_labels) != strlen(reads->op->input_labels[i])) continue;
        const struct sim_kernel *kernel = &f->s->kernels[made->kernel];
        if (kernel->dot_count == 0 && kernel->loop == op->loop && available_before(f, op, kernel->op, made->kernel))
            return made->kernel;
    }
    return -1;
}

/* The kernel of the same group, in the same loop and direction. Contractions are kernels of their own. */
static int kernel_of_group(const struct fuser *f, const struct sim_op *op)
{
    for (int i = (int)(op - f->s->ops) - 1; i >= 0 && op->op->group; i--) {
        const struct sim_op *other = &f->s->ops[i];
        if (other->kind == SIM_COMPUTE && other->op->group == op->op->group && other->loop == op->loop &&
            other->op->phase == op->op->phase && other->op->recomputed == op->op->recomputed && other->kernel >= 0)
            return other->kernel;
    }
    return -1;
}

/* The gradient of a norm's scale, with its cast: a separate kernel over all rows. */
static bool is_scale_gradient(const struct sim_op *op)
{
    return op->op->group && op->op->phase == MODEL_BACKWARD && !op->op->recomputed &&
           (op->op->function == MODEL_NORM_GRAD_SCALE || op->op->function == MODEL_CAST);
}

static int kernel_to_join(const struct fuser *f, const struct sim_op *op)
{
    if (f->aten && (f->eager ? is_scale_gradient(op) : op->op->apart)) return -1;
    if (is_second_gate_gradient(f, op)) return op[-1].kernel;
    if (shares_kernel(f, op)) return kernel_of_group(f, op);
    return is_elementwise(op) ? kernel_through(f, op, op) : -1;
}

static bool runs(const struct fuser *f, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE) return false;
    if (op->output_count == 0) return true;
    return f->s->values[op->outputs[0]].stored;
}

/* A library stores its whole result, and a copy moves it into the stack for the backward pass. */
static bool is_copied_to_stack(const struct fuser *f, const struct sim_op *op, int value)
{
    return f->copies_stacks && op->loop >= 0 && op->op->kind == MODEL_EINSUM && f->s->values[value].saved;
}

/* The gradient of tied logits is scaled again for each of the two products that read it. */
static bool is_scaled_again(const struct fuser *f, const struct sim_op *op, int value)
{
    return f->scales_logits && op->op->function == MODEL_SCALE && f->contractions[value] > 1;
}

static void copy_once(struct fuser *f, struct sim_kernel_parts *kernel, int value)
{
    push(f, &kernel->writes, &kernel->write_count, f->s->values[value].shape);
    push(f, &kernel->writes, &kernel->write_count, f->s->values[value].shape);
}

static void copy_units(struct fuser *f, const struct sim_op *op, struct sim_kernel_parts *kernel)
{
    int shapes[SIM_MOST_UNIT_COPIES];
    const int count = sim_unit_copies(f->s, op, shapes);
    for (int i = 0; i < count; i++) push(f, &kernel->writes, &kernel->write_count, shapes[i]);
}

/* Kernels are built in order, but a later kernel may join an earlier one and add parts. So parts are kept by kernel,
 * and become consecutive at the end. */
static void build_kernels(struct fuser *f)
{
    struct sim_sharded *s = f->s;
    struct sim_kernel_parts *parts = base_new(f->arena, struct sim_kernel_parts, s->op_count + 1);
    s->kernels = base_reserve(f->arena, (size_t)s->op_count + 1, sizeof *s->kernels);
    for (int i = 0; i < s->op_count; i++) {
        struct sim_op *op = &s->ops[i];
        if (!runs(f, op)) continue;
        int k = kernel_to_join(f, op);
        if (k < 0) {
            k = s->kernel_count++;
            s->kernels[k] = (struct sim_kernel){.op = i, .loop = op->loop, .traffic_scale = 1};
        }
        op->kernel = k;
        s->reads = parts[k].reads, s->read_count = parts[k].read_count, s->dots = parts[k].dots,
        s->dot_count = parts[k].dot_count;
        read_inputs(f, op, i, k, &s->kernels[k]);
        parts[k].reads = s->reads, parts[k].read_count = s->read_count, parts[k].dots = s->dots,
        parts[k].dot_count = s->dot_count;
        for (int o = 0; o < op->output_count; o++) {
            const int written = slice_of(f, op, op->outputs[o]);
            push(f, &parts[k].writes, &parts[k].write_count, s->values[written >= 0 ? written : op->outputs[o]].shape);
            if (is_scaled_again(f, op, op->outputs[o])) {
                push(f, &parts[k].writes, &parts[k].write_count, s->values[op->inputs[0]].shape);
                push(f, &parts[k].writes, &parts[k].write_count, s->values[op->outputs[o]].shape);
            }
            if (is_copied_to_stack(f, op, op->outputs[o])) copy_once(f, &parts[k], op->outputs[o]);
        }
        if (f->copies_units && op->output_count) copy_units(f, op, &parts[k]);
    }
    sim_lay_out_kernels(f->arena, s, parts);
}

/* Collectives and loop brackets read the operands of fused values, and extend their live ranges. */
static void extend_lives(struct fuser *f)
{
    for (int i = 0; i < f->s->op_count; i++) {
        const struct sim_op *op = &f->s->ops[i];
        if (op->kind == SIM_COMPUTE) continue;
        for (int j = 0; j < op->input_count; j++) {
            struct sim_value *value = &f->s->values[op->inputs[j]];
            while (!value->stored) value = &f->s->values[f->s->ops[value->definition].inputs[0]];
            if (value->last_use < i) value->last_use = i;
        }
    }
}

enum kernels { COMPILED, EAGER };

static void fuse(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded,
                 enum kernels kernels)
{
    bool library_dots = compiler->traits >> MODEL_TRAIT_LIBRARY_DOTS & 1;
    struct fuser f = {.arena = arena,
                      .s = sharded,
                      .library_dots = library_dots,
                      .eager = kernels == EAGER,
                      .aten = compiler->traits >> MODEL_TRAIT_ATEN_KERNELS & 1,
                      .copies_units = compiler->traits >> MODEL_TRAIT_UNIT_COPIES & 1,
                      .row_softmax = compiler->traits >> MODEL_TRAIT_ROW_SOFTMAX & 1,
                      .scales_logits = compiler->traits >> MODEL_TRAIT_SCALED_LOGITS & 1,
                      .copies_stacks = compiler->is_scanned && (compiler->traits >> MODEL_TRAIT_COPIED_STACKS & 1),
                      .adds_up = compiler->traits >> MODEL_TRAIT_FUSED_ACCUMULATION & 1};
    f.read_by = base_new(arena, int, sharded->value_count);
    f.done_by = base_new(arena, int, sharded->op_count + 1);
    f.consumers = base_new(arena, int, sharded->value_count);
    f.contractions = base_new(arena, int, sharded->value_count);
    f.barriers = base_new(arena, int, sharded->value_count);
    f.seen = base_new(arena, int, sharded->value_count);
    count_consumers(&f);
    for (int v = 0; v < sharded->value_count; v++) sharded->values[v].stored = is_stored(&f, v);
    if (!library_dots) find_epilogues(&f);
    if (kernels == EAGER) find_sums(&f);
    build_kernels(&f);
    extend_lives(&f);
}

void sim_fuse_kernels(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded)
{
    fuse(arena, compiler, sharded, COMPILED);
}

void sim_eager_kernels(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded)
{
    fuse(arena, compiler, sharded, EAGER);
}
