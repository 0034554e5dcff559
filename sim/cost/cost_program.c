/* A sharded program as flat lists. A step repeats a few kernels, shapes and collectives (forward, backward, each
 * stack), and a sweep prices one program at many sizes. Each distinct item is therefore listed once, and the steps
 * refer to it. */
#include "sim/cost/cost.h"

#include <string.h>

struct maker {
    struct base_arena *scratch;
    const struct sim_sharded *s;
    struct sim_cost_program *out;
    const struct sim_price_choices *choices;
    int *dot_of;              /* per operation: its distinct contraction, or -1 */
    int *repeats_of;          /* per operation, as a loop: the distinct count of repetitions inside it */
    int *kernel_of;           /* per kernel: the distinct one */
    int *softmax_of;          /* per kernel: 1 + its softmax operation, negative in the backward pass; 0: none */
    unsigned char *number_of; /* [size * sets + axes]: of a factor, and 1 more; 0: not listed */
    unsigned sets;            /* of mesh axes that the program may have */
    int *steps_before;        /* per operation: steps listed before it */
    bool *is_cast;            /* per value: quantised by a kernel that is listed */
    int *sent_as;             /* per operation: the distinct collective; -1: it is none */
    const struct sim_product_window *windows; /* per operation */
    int *window_of; /* per operation: the product of the windowed einsum that it belongs to, or -1 */
    struct base_index repeats_seen, dots_seen, kernels_seen, collectives_seen, products_seen, saved_seen;
};

static unsigned char factor(const struct maker *m, unsigned size, unsigned axes)
{
    unsigned char *number = &m->number_of[size * m->sets + axes];
    if (*number) return (unsigned char)(*number - 1);
    int at = m->out->factor_count++;
    if (at >= SIM_MOST_FACTORS - 1) return 0;
    m->out->factors[at] = (struct sim_factor){(unsigned char)size, (unsigned char)axes};
    return (unsigned char)((*number = (unsigned char)(at + 1)) - 1);
}

static void multiply(const struct maker *m, struct sim_factors *factors, unsigned size, unsigned axes)
{
    factors->of[factors->count++] = factor(m, size, axes);
}

/* Room for up to `most` items, before the list is copied to its final size. */
static void *room(const struct maker *m, int most, size_t size_bytes)
{
    return base_reserve(m->scratch, (size_t)most + 1, size_bytes);
}

/* The index of an item in a list without duplicates; a new item is appended. */
static int distinct(struct maker *m, void *list, struct base_index *seen, int *count, const void *item,
                    size_t size_bytes)
{
    char *items = list;
    const uint64_t hash = base_hash(BASE_HASH_START, item, size_bytes);
    unsigned at = (unsigned)hash;
    for (int found; (found = base_index_next(seen, hash, &at)) >= 0; at++)
        if (!memcmp(items + (size_t)found * size_bytes, item, size_bytes)) return found;
    memcpy(items + (size_t)*count * size_bytes, item, size_bytes);
    base_index_add(m->scratch, seen, hash);
    return (*count)++;
}

static void list_shapes(struct maker *m)
{
    m->out->shape_count = m->s->shape_count;
    m->out->shapes = base_new(m->scratch, struct sim_price_shape, m->s->shape_count + 1);
    for (int i = 0; i < m->s->shape_count; i++) {
        const struct sim_shape *shape = &m->s->shapes[i];
        struct sim_price_shape *listed = &m->out->shapes[i];
        multiply(m, &listed->elements, shape->layers, 0);
        for (int d = 0; d < shape->rank; d++) multiply(m, &listed->elements, shape->dims[d], shape->spec[d]);
        listed->element_bytes = (double)model_dtype_bytes(shape->dtype);
        listed->is_of_logits = sim_is_of_logits(shape);
    }
}

/* ---- repetitions ---- */

static int repeats_in(struct maker *m, int loop)
{
    struct sim_factors trips;
    memset(&trips, 0, sizeof trips);
    for (; loop >= 0; loop = m->s->ops[loop].loop) multiply(m, &trips, (unsigned)m->s->ops[loop].trips, 0);
    return distinct(m, m->out->repeats, &m->repeats_seen, &m->out->repeat_count, &trips, sizeof trips);
}

/* Only loops and the outermost level are ever looked up, so each has one count. */
static void list_repeats(struct maker *m)
{
    int loops = 1;
    for (int i = 0; i < m->s->op_count; i++) loops += m->s->ops[i].kind == SIM_LOOP_BEGIN;
    m->out->repeats = base_new(m->scratch, struct sim_factors, 3 * loops);
    m->repeats_of = base_new(m->scratch, int, m->s->op_count + 1);
    m->repeats_of[m->s->op_count] = repeats_in(m, -1);
    for (int i = 0; i < m->s->op_count; i++)
        if (m->s->ops[i].kind == SIM_LOOP_BEGIN) m->repeats_of[i] = repeats_in(m, i);
}

static int repeats_of(const struct maker *m, int loop)
{
    return m->repeats_of[loop >= 0 ? loop : m->s->op_count];
}

/* Executions of an operation that the last layer of its loop omits. */
static int repeats_but_last(struct maker *m, const struct sim_op *op)
{
    if (op->loop < 0) return repeats_of(m, op->loop);
    const struct sim_op *layers = &m->s->ops[op->loop];
    struct sim_factors trips;
    memset(&trips, 0, sizeof trips);
    multiply(m, &trips, (unsigned)model_all_but_last((enum model_size)layers->trips), 0);
    for (int loop = layers->loop; loop >= 0; loop = m->s->ops[loop].loop)
        multiply(m, &trips, (unsigned)m->s->ops[loop].trips, 0);
    return distinct(m, m->out->repeats, &m->repeats_seen, &m->out->repeat_count, &trips, sizeof trips);
}

static int repeats_of_op(struct maker *m, const struct sim_op *op)
{
    return op->op && op->op->not_in_last ? repeats_but_last(m, op) : repeats_of(m, op->loop);
}

static enum sim_region region_of(const struct maker *m, const struct sim_op *op)
{
    for (int loop = op->loop; loop >= 0; loop = m->s->ops[loop].loop)
        if (m->s->ops[loop].trips == MODEL_DECODE_STEPS) return op->op->condition ? SIM_LOOP_CONDITION : SIM_LOOP_BODY;
    return SIM_OUTSIDE;
}

/* ---- contractions ---- */

/* One device's part, or the whole. */
enum share { LOCAL, WHOLE };

static struct sim_factors product_of(const struct maker *m, const struct sim_op *op, unsigned set, enum share share)
{
    struct sim_factors product;
    memset(&product, 0, sizeof product);
    for (int i = 0; i < op->label_count; i++)
        if (set & (1u << i))
            multiply(m, &product, op->labels[i].size, share == LOCAL ? sim_set_of(op->labels[i].axes) : 0);
    return product;
}

static bool is_of_weight(const struct maker *m, int value)
{
    const struct model_tensor *tensor = &m->s->program->tensors[m->s->values[value].tensor];
    return tensor->role == MODEL_ROLE_WEIGHT || tensor->from_producer || tensor->category == MODEL_GRADIENT;
}

/* Products that PyTorch runs in float32 under any dtype: experts under autocast, whose lists lack grouped products, and
 * attention with a learnt bias, which no fused kernel accepts. */
static bool is_wide(const struct maker *m, const struct sim_op *op)
{
    const char *name = op->op->name ? op->op->name : "";
    if (m->choices->wide_experts && strstr(name, "/expert/")) return true;
    return m->choices->wide_scores && !strstr(name, "encoder_decoder_attention") &&
           (strstr(name, "attention/scores") || strstr(name, "attention/context"));
}

/* Training in fp8 or int8 casts the operands of layers' projections, forward and backward; attention and float32 logits
 * stay.
 */
static enum model_dtype units_dtype(const struct maker *m, const struct sim_op *op)
{
    enum model_dtype dtype = m->s->values[op->inputs[0]].dtype;
    if (is_wide(m, op)) return MODEL_FLOAT32;
    if (!model_dtype_is_quantized(m->choices->dtype)) return dtype;
    bool weight = is_of_weight(m, op->inputs[0]) || is_of_weight(m, op->inputs[1]) || is_of_weight(m, op->outputs[0]);
    bool in_layer = op->op->name && strstr(op->op->name, "layers/");
    const bool casts = dtype == MODEL_BFLOAT16 || dtype == MODEL_FP8; /* to be cast, or cast already */
    return weight && casts && in_layer ? m->choices->dtype : dtype;
}

static void list_dots(struct maker *m)
{
    int count = 0;
    for (int i = 0; i < m->s->dot_count; i++) m->dot_of[m->s->dots[i]] = -2;
    for (int i = 0; i < m->s->op_count; i++) count += m->dot_of[i] == -2;
    m->out->dots = room(m, count, sizeof *m->out->dots);
    for (int i = 0; i < m->s->op_count; i++) {
        const struct sim_op *op = &m->s->ops[i];
        if (m->dot_of[i] != -2) continue;
        struct sim_price_dot dot;
        memset(&dot, 0, sizeof dot); /* compared with its padding */
        dot.batch = product_of(m, op, op->batch_labels, LOCAL), dot.rows = product_of(m, op, op->row_labels, LOCAL),
        dot.columns = product_of(m, op, op->column_labels, LOCAL);
        dot.contracted = product_of(m, op, op->contracted_labels, LOCAL), dot.dtype = units_dtype(m, op);
        dot.attention = op->op->group > 0, dot.causal = op->op->causal;
        dot.weight_gradient = is_of_weight(m, op->outputs[0]) && op->op->phase == MODEL_BACKWARD && !op->op->recomputed;
        m->dot_of[i] = distinct(m, m->out->dots, &m->dots_seen, &m->out->dot_count, &dot, sizeof dot);
    }
}

/* ---- kernels ---- */

static int distinct_kernel(struct maker *m, const struct sim_price_kernel *kernel)
{
    struct sim_cost_program *out = m->out;
    uint64_t hash = base_hash(BASE_HASH_START, out->touched + kernel->first_shape,
                              (size_t)kernel->shape_count * sizeof *out->touched);
    hash = base_hash(hash, out->kernel_dots + kernel->first_dot, (size_t)kernel->dot_count * sizeof *out->kernel_dots);
    unsigned at = (unsigned)hash;
    for (int found; (found = base_index_next(&m->kernels_seen, hash, &at)) >= 0; at++) {
        const struct sim_price_kernel *other = &out->kernels[found];
        if (other->shape_count != kernel->shape_count || other->dot_count != kernel->dot_count ||
            other->attention != kernel->attention || other->laid_out != kernel->laid_out ||
            other->cast_count != kernel->cast_count || other->backward != kernel->backward ||
            other->traffic != kernel->traffic || other->rows != kernel->rows ||
            memcmp(&other->chain, &kernel->chain, sizeof kernel->chain) != 0 ||
            memcmp(&other->fours, &kernel->fours, sizeof kernel->fours) != 0 ||
            memcmp(&other->einsum, &kernel->einsum, sizeof kernel->einsum) != 0)
            continue;
        if (!memcmp(out->touched + other->first_shape, out->touched + kernel->first_shape,
                    (size_t)kernel->shape_count * sizeof *out->touched) &&
            !memcmp(out->kernel_dots + other->first_dot, out->kernel_dots + kernel->first_dot,
                    (size_t)kernel->dot_count * sizeof *out->kernel_dots))
            return found;
    }
    out->kernels[out->kernel_count] = *kernel;
    base_index_add(m->scratch, &m->kernels_seen, hash);
    out->touched_count += kernel->shape_count;
    out->kernel_dot_count += kernel->dot_count;
    return out->kernel_count++;
}

/* A kernel quantizes an operand once for both layouts that products read: a weight's gradient and the next product with
 * the same operand share it. Weights are quantized once per step. */
static void touch_casts_once(struct maker *m, const struct sim_op *op, struct sim_price_kernel *listed)
{
    if (is_of_weight(m, op->outputs[0])) return;
    for (int i = 0; i < op->input_count; i++) {
        const int value = op->inputs[i];
        if (is_of_weight(m, value) || m->is_cast[value]) continue;
        m->is_cast[value] = true;
        m->out->touched[listed->first_shape + listed->shape_count++] = m->s->values[value].shape;
        listed->cast_count++;
    }
}

/* A separate kernel casts operands: 2 bytes read, 1 written and 1 read, where the contraction alone would read 2. */
static void touch_casts(struct maker *m, const struct sim_op *op, struct sim_price_kernel *listed)
{
    if (!m->choices->casts_apart || !model_dtype_is_quantized(units_dtype(m, op))) return;
    if (m->choices->casts_once) {
        touch_casts_once(m, op, listed);
        return;
    }
    for (int i = 0; i < op->input_count; i++)
        m->out->touched[listed->first_shape + listed->shape_count++] = m->s->values[op->inputs[i]].shape;
    if (m->choices->casts_before) listed->cast_count += op->input_count;
}

/* Queries and keys are cast, scaled and laid out by kernels of their own before such a product, and so are their
 * gradients behind it. */
static enum sim_laid_out laid_out_of(const struct maker *m, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE || !is_wide(m, op) || !strstr(op->op->name, "attention/scores")) return SIM_AS_THEY_ARE;
    return strstr(op->op->name, "gradient") ? SIM_WRITES_LAID_OUT : SIM_READS_LAID_OUT;
}

/* Scores have sequences and heads before their two lengths. */
static void list_softmaxes(struct maker *m)
{
    for (int i = 0; i < m->s->op_count && (m->choices->softmax_in_fours || m->choices->row_softmax); i++) {
        const struct sim_op *op = &m->s->ops[i];
        const bool backward = op->kind == SIM_COMPUTE && op->op->function == MODEL_SOFTMAX_GRAD,
                   forward = op->kind == SIM_COMPUTE && op->op->function == MODEL_SOFTMAX;
        if ((!forward && !backward) || op->kernel < 0) continue;
        const struct sim_shape *scores = &m->s->shapes[m->s->values[op->outputs[0]].shape];
        if (scores->rank == 4) m->softmax_of[op->kernel] = backward ? -i - 1 : i + 1;
    }
}

static void take_four(const struct maker *m, int softmax, struct sim_price_kernel *listed)
{
    listed->backward = softmax < 0;
    if (!softmax || m->choices->row_softmax) return;
    const struct sim_op *op = &m->s->ops[(softmax < 0 ? -softmax : softmax) - 1];
    const struct sim_shape *scores = &m->s->shapes[m->s->values[op->outputs[0]].shape];
    for (int d = 0; d < 2; d++) multiply(m, &listed->fours, scores->dims[d], scores->spec[d]);
}

/* A kernel of one product may be a windowed einsum. */
static void take_window(const struct maker *m, const struct sim_kernel *kernel, struct sim_price_kernel *out)
{
    const int dot = kernel->dot_count == 1 ? m->s->dots[kernel->first_dot] : -1;
    const struct sim_product_window *window = dot >= 0 ? &m->windows[dot] : NULL;
    if (!window || !window->axes) return;
    const struct sim_op *op = &m->s->ops[dot];
    out->einsum.axes = (unsigned char)window->axes, out->einsum.again_count = (unsigned char)window->value_count;
    out->einsum.rows = product_of(m, op, window->row_labels, LOCAL);
    out->einsum.element_bytes = (unsigned char)model_dtype_bytes(window->dtype);
    for (int i = 0; i < window->value_count; i++) out->einsum.again[i] = (short)m->s->values[window->values[i]].shape;
    out->einsum.split = op->contracted_labels >> window->label & 1 ? SIM_SPLITS_CONTRACTED
                        : op->row_labels >> window->label & 1      ? SIM_SPLITS_ROWS
                        : op->column_labels >> window->label & 1   ? SIM_SPLITS_COLUMNS
                                                                   : SIM_SPLITS_BATCH;
}

static void list_kernels(struct maker *m)
{
    const struct sim_sharded *s = m->s;
    struct sim_cost_program *out = m->out;
    out->kernels = room(m, s->kernel_count, sizeof *out->kernels);
    out->touched = room(m, s->read_count + s->write_count + 2 * s->dot_count, sizeof *out->touched);
    out->kernel_dots = room(m, s->dot_count, sizeof *out->kernel_dots);
    m->softmax_of = base_new(m->scratch, int, s->kernel_count + 1);
    list_softmaxes(m);
    for (int k = 0; k < s->kernel_count; k++) {
        const struct sim_kernel *kernel = &s->kernels[k];
        struct sim_price_kernel listed;
        memset(&listed, 0, sizeof listed); /* compared with its padding */
        listed.first_shape = out->touched_count, listed.first_dot = out->kernel_dot_count,
        listed.dot_count = kernel->dot_count, listed.read_count = kernel->read_count,
        listed.write_count = kernel->write_count;
        for (int i = 0; i < kernel->read_count; i++)
            out->touched[listed.first_shape + listed.shape_count++] = s->reads[kernel->first_read + i];
        for (int i = 0; i < kernel->write_count; i++)
            out->touched[listed.first_shape + listed.shape_count++] = s->writes[kernel->first_write + i];
        for (int i = 0; i < kernel->dot_count; i++) touch_casts(m, &s->ops[s->dots[kernel->first_dot + i]], &listed);
        for (int i = 0; i < kernel->dot_count; i++)
            out->kernel_dots[listed.first_dot + i] = m->dot_of[s->dots[kernel->first_dot + i]];
        if (m->choices->flash) sim_attention_of_kernel(s, kernel, &listed);
        listed.laid_out = laid_out_of(m, &s->ops[kernel->op]);
        take_four(m, m->softmax_of[k], &listed);
        sim_take_torch_kernels(m->choices, s->ops[kernel->op].op, &listed);
        if (m->choices->windows_products) take_window(m, kernel, &listed);
        m->kernel_of[k] = distinct_kernel(m, &listed);
    }
}

/* ---- steps ---- */

/* One device's operand: a value, or all layers' instances of it. A permute's is its result: a slice of the value where
 * slices are exchanged. */
static int operand_shape(const struct maker *m, const struct sim_op *op)
{
    const bool permutes = op->collective == SIM_COLLECTIVE_PERMUTE && op->stack == MODEL_ONE;
    int one = m->s->values[permutes ? op->outputs[0] : op->inputs[0]].shape, i = 0;
    if (op->stack == MODEL_ONE) return one;
    struct sim_shape stack = m->s->shapes[one];
    stack.layers = (unsigned char)op->stack;
    while (memcmp(&m->s->shapes[i], &stack, sizeof stack) != 0) i++; /* the partitioner listed it */
    return i;
}

static void note_window(const struct maker *m, const struct sim_op *op, struct sim_price_collective *out)
{
    const int product = m->window_of ? m->window_of[op - m->s->ops] : -1;
    if (product < 0) return;
    out->may_use_ring = true;
    out->sums_like_another = m->windows[product].sums_like_another;
    out->window_rows = product_of(m, &m->s->ops[product], m->windows[product].row_labels, LOCAL);
}

static int collective_of(struct maker *m, const struct sim_op *op)
{
    const struct sim_value *value = &m->s->values[op->inputs[0]];
    struct sim_price_collective collective;
    memset(&collective, 0, sizeof collective);
    collective.kind = op->collective, collective.axes = op->axes, collective.shape = operand_shape(m, op),
    collective.dtype = value->dtype;
    collective.gradient = m->s->program->tensors[value->tensor].category == MODEL_GRADIENT;
    collective.updated = op->collective == SIM_ALL_GATHER && op->op->phase == MODEL_OPTIMIZER;
    note_window(m, op, &collective);
    return distinct(m, m->out->collectives, &m->collectives_seen, &m->out->collective_count, &collective,
                    sizeof collective);
}

static void add_step(const struct maker *m, const struct sim_op *op, int what, int repeats)
{
    struct sim_cost_program *out = m->out;
    const unsigned char region = (unsigned char)region_of(m, op);
    out->steps[out->step_count++] = (struct sim_price_step){.name = op->op->name,
                                                            .what = (unsigned short)what,
                                                            .repeats = (unsigned short)repeats,
                                                            .phase = (unsigned char)op->op->phase,
                                                            .region = region,
                                                            .section = (unsigned char)op->op->section,
                                                            .communicates = op->kind == SIM_COMMUNICATE};
}

static void list_steps(struct maker *m)
{
    const struct sim_sharded *s = m->s;
    struct sim_cost_program *out = m->out;
    out->steps = room(m, s->op_count, sizeof *out->steps);
    out->collectives = room(m, s->op_count, sizeof *out->collectives);
    out->needs = room(m, s->op_count, sizeof *out->needs);
    out->products = room(m, s->op_count, sizeof *out->products);
    m->steps_before = base_new(m->scratch, int, s->op_count + 1);
    m->sent_as = base_new(m->scratch, int, s->op_count + 1);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        m->steps_before[i] = out->step_count, m->sent_as[i] = -1;
        int repeats = repeats_of_op(m, op);
        if (op->kind == SIM_COMMUNICATE) add_step(m, op, m->sent_as[i] = collective_of(m, op), repeats);
        if (op->kind != SIM_COMPUTE) continue;
        if (op->op->needed) {
            struct sim_factors whole = product_of(m, op, ~0u, WHOLE);
            int product = distinct(m, out->products, &m->products_seen, &out->product_count, &whole, sizeof whole);
            out->needs[out->need_count++] = (struct sim_price_need){product, repeats, op->op->group && op->op->causal};
        }
        if (op->kernel >= 0 && s->kernels[op->kernel].op == i) add_step(m, op, m->kernel_of[op->kernel], repeats);
    }
}

/* ---- memory and messages ---- */

static void list_persistent(struct maker *m)
{
    struct sim_cost_program *out = m->out;
    out->persistent_count = m->s->persistent_count;
    out->persistent_shapes = base_new(m->scratch, int, out->persistent_count + 1);
    out->persistent_categories = base_new(m->scratch, unsigned char, out->persistent_count + 1);
    for (int i = 0; i < out->persistent_count; i++) {
        out->persistent_shapes[i] = m->s->persistent[i].shape;
        out->persistent_categories[i] = (unsigned char)m->s->persistent[i].category;
    }
}

static void list_matrices(struct maker *m)
{
    struct sim_cost_program *out = m->out;
    out->matrices = base_new(m->scratch, struct sim_shape, m->s->persistent_count + 1);
    for (int i = 0; i < m->s->persistent_count; i++) {
        const struct sim_persistent *held = &m->s->persistent[i];
        const struct model_tensor *of = &m->s->program->tensors[held->tensor];
        const struct sim_shape *shape = &m->s->shapes[held->shape];
        if (held->category == MODEL_PARAMETER && !of->frozen && !model_dtype_is_quantized(shape->dtype) &&
            model_is_orthogonalised(m->choices->optimizer, of->name, shape->rank))
            out->matrices[out->matrix_count++] = *shape;
    }
}

/* Shapes received from other pipeline stages. */
static void list_received(struct maker *m)
{
    for (int i = 0; i < m->s->op_count; i++) {
        const struct sim_op *op = &m->s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->function != MODEL_RECEIVE) continue;
        int way = op->op->phase == MODEL_BACKWARD, *count = &m->out->received_count[way];
        m->out->received[way][(*count)++] = (short)m->s->values[op->outputs[0]].shape;
    }
}

static void list_saved(struct maker *m)
{
    const struct sim_sharded *s = m->s;
    struct sim_price_saved saved;
    int count = 0;
    for (int v = 0; v < s->value_count; v++) count += s->values[v].saved;
    m->out->saved = base_new(m->scratch, struct sim_price_saved, count + 1);
    for (int v = 0; v < s->value_count; v++) {
        if (!s->values[v].saved) continue;
        memset(&saved, 0, sizeof saved);
        saved.shape = (short)s->values[v].shape;
        saved.role = (unsigned char)s->program->tensors[s->values[v].tensor].role;
        distinct(m, m->out->saved, &m->saved_seen, &m->out->saved_count, &saved, sizeof saved);
    }
}

/* The mesh axes that some dimension is sharded over. */
static unsigned axes_of(const struct sim_sharded *s)
{
    unsigned axes = 0;
    for (int i = 0; i < s->shape_count; i++)
        for (int d = 0; d < s->shapes[i].rank; d++) axes |= s->shapes[i].spec[d];
    return axes;
}

void sim_cost_program_make(struct base_arena *arena, struct base_arena *scratch, const struct sim_sharded *sharded,
                           const struct sim_price_choices *choices, struct sim_cost_program *out)
{
    struct maker m = {.scratch = scratch, .s = sharded, .choices = choices, .out = out, .sets = axes_of(sharded) + 1};
    memset(out, 0, sizeof *out);
    out->factors = base_new(arena, struct sim_factor, SIM_MOST_FACTORS);
    m.number_of = base_new(scratch, unsigned char, MODEL_SIZE_COUNT *(int)m.sets);
    m.dot_of = base_new(scratch, int, sharded->op_count + 1);
    m.is_cast = base_new(scratch, bool, sharded->value_count + 1);
    m.kernel_of = base_new(scratch, int, sharded->kernel_count + 1);
    const struct sim_op *last = sharded->op_count ? &sharded->ops[sharded->op_count - 1] : NULL;
    out->result_shape = last && last->output_count ? sharded->values[last->outputs[0]].shape : -1;
    if (choices->windows_products) {
        m.window_of = base_new(scratch, int, sharded->op_count + 1);
        m.windows = sim_product_windows(scratch, sharded, choices->scanned, m.window_of);
    }
    list_shapes(&m);
    list_repeats(&m);
    list_dots(&m);
    list_kernels(&m);
    list_steps(&m);
    sim_list_schedule_events(scratch, sharded, m.sent_as, m.kernel_of, out);
    sim_list_events(scratch, sharded, m.steps_before, out);
    list_persistent(&m);
    list_matrices(&m);
    list_saved(&m);
    list_received(&m);
    sim_list_offloaded(scratch, sharded, m.repeats_of, out);
    sim_cost_program_keep(arena, out);
}
