/* The relaxed program: the program of one device, as bounds need it. The simulator prices the same program on a mesh
 * of one device: kernels with bytes read and written, and contractions. */
#include "tuner/relaxed_parts.h"

#include <assert.h>
#include <string.h>

/* A dimension that is part of another, or repeated into it, is represented by the other. */
static const struct model_dimension *carrier_of(const struct model_program *program, const struct model_dimension *d)
{
    for (int i = 0; i < program->dimension_count; i++) {
        const struct model_dimension *other = &program->dimensions[i];
        if (other->repeats == d->letter) return other;
        if (other->inner == d->letter) return carrier_of(program, model_dimension_of(program, other->outer));
    }
    return d->outer ? carrier_of(program, model_dimension_of(program, d->outer)) : d;
}

static void find_carriers(const struct model_program *program, unsigned char carriers[MODEL_SIZE_COUNT])
{
    for (int size = 0; size < MODEL_SIZE_COUNT; size++) carriers[size] = (unsigned char)size;
    carriers[MODEL_GLOBAL_BATCH] = MODEL_BATCH;
    for (int i = 0; i < program->dimension_count; i++) {
        const struct model_dimension *d = &program->dimensions[i], *carrier = carrier_of(program, d);
        if (carrier != d) carriers[d->size] = (unsigned char)carrier->size;
    }
}

static_assert(MODEL_SIZE_COUNT <= 64, "sizes are bits of a uint64_t");

static void find_sizes(struct drafter *d)
{
    const struct model_program *program = d->s->program;
    for (int t = 0; t < program->tensor_count; t++) {
        const struct model_tensor *root = tuner_tensor_at(d, d->root[t]);
        for (int i = 0; i < root->rank; i++)
            d->out->sizes_of_class[d->class_of[t]][i] |= UINT64_C(1) << d->out->carriers[root->dims[i]];
    }
}

/* A contraction's result that is cast to a wider type on the fly is not stored before the cast. If a collective
 * comes between, it is stored, and its readers do the cast: fewer bytes. */
static void find_narrow(struct drafter *d)
{
    const struct sim_sharded *s = d->s;
    for (int v = 0; v < s->value_count; v++) {
        const struct sim_value *value = &s->values[v];
        const struct sim_op *made = value->definition >= 0 ? &s->ops[value->definition] : NULL;
        d->narrow[v] = -1;
        if (!made || !value->stored || made->kind != SIM_COMPUTE || made->op->kind != MODEL_MAP ||
            made->op->function != MODEL_CAST)
            continue;
        const struct sim_value *operand = &s->values[made->inputs[0]];
        if (!operand->stored && model_dtype_bytes(operand->dtype) < model_dtype_bytes(value->dtype))
            d->narrow[v] = operand->shape;
    }
}

/* The narrowest dtype of a value and its summands: a sum over devices may happen at any point between them. */
static enum model_dtype narrowest_dtype(const struct drafter *d, int value)
{
    enum model_dtype narrowest = d->s->values[value].dtype;
    const int definition = d->s->values[value].definition;
    const struct sim_op *made = definition >= 0 ? &d->s->ops[definition] : NULL;
    const bool adds_up = made && made->kind == SIM_COMPUTE &&
                         (made->op->kind == MODEL_RESHAPE ||
                          (made->op->kind == MODEL_MAP && model_function_is(made->op->function, MODEL_IS_LINEAR)));
    for (int i = 0; adds_up && i < made->input_count; i++) {
        const enum model_dtype dtype = narrowest_dtype(d, made->inputs[i]);
        if (model_dtype_bytes(dtype) < model_dtype_bytes(narrowest)) narrowest = dtype;
    }
    return narrowest;
}

static bool accumulates(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE && op->op->function == MODEL_ACCUMULATE;
}

static int add_shape(struct tuner_relaxed_program *out, int like, enum model_dtype dtype)
{
    out->shapes[out->shape_count] = out->shapes[like];
    out->shapes[out->shape_count].dtype = dtype;
    out->shape_classes[out->shape_count] = out->shape_classes[like];
    out->shape_followers[out->shape_count] = out->shape_followers[like];
    return out->shape_count++;
}

static int count_readers(const struct drafter *d, int accumulator)
{
    int count = 0;
    for (int i = 0; i < d->s->op_count; i++)
        for (int j = 0; j < d->s->ops[i].input_count && !accumulates(&d->s->ops[i]); j++)
            count += d->s->ops[i].kind == SIM_COMPUTE && d->s->ops[i].inputs[j] == accumulator;
    return count;
}

/* An accumulator that is summed after the loop over microbatches may be summed in its summands' dtype
 * (keep_sum_dtype), so readers of the sum read fewer bytes. The cast is not charged; if it costs more than the
 * readers save, they count as readers of the accumulator. */
static void find_summed(struct drafter *d, const struct sim_plan *plan)
{
    const bool keeps_dtype = sim_passes_of(plan) >> SIM_PASS_KEEP_SUM_DTYPE & 1;
    for (int v = 0; v < d->s->value_count; v++) d->summed[v] = -1;
    for (int i = 0; keeps_dtype && i < d->s->op_count; i++) {
        const struct sim_op *op = &d->s->ops[i];
        if (!accumulates(op) || d->summed[op->inputs[0]] >= 0) continue;
        const struct sim_value *accumulator = &d->s->values[op->inputs[0]];
        const enum model_dtype dtype = narrowest_dtype(d, op->inputs[1]);
        const int64_t wide = model_dtype_bytes(accumulator->dtype), narrow = model_dtype_bytes(dtype);
        if (count_readers(d, op->inputs[0]) * (wide - narrow) > wide + narrow)
            d->summed[op->inputs[0]] = add_shape(d->out, accumulator->shape, dtype);
    }
}

static void copy_shapes(struct drafter *d)
{
    const struct sim_sharded *s = d->s;
    struct tuner_relaxed_program *out = d->out;
    out->shape_count = s->shape_count;
    int room = s->shape_count + 2 * s->program->tensor_count; /* with persistent tensors and their sums */
    out->shapes = base_new(d->arena, struct sim_shape, room);
    out->shape_classes = base_new(d->arena, uint64_t, room);
    out->shape_followers = base_new(d->arena, uint64_t, room);
    memcpy(out->shapes, s->shapes, (size_t)s->shape_count * sizeof *s->shapes);
    for (int v = 0; v < s->value_count; v++) {
        int tensor = s->values[v].tensor;
        bool own_dims = !strcmp(tuner_tensor_at(d, tensor)->labels, tuner_tensor_at(d, d->root[tensor])->labels);
        (own_dims ? out->shape_classes : out->shape_followers)[s->values[v].shape] |= UINT64_C(1)
                                                                                      << d->class_of[tensor];
    }
    /* A shape for several layers has the classes of the same shape for one layer. */
    for (int i = 0; i < s->shape_count; i++) {
        struct sim_shape one = s->shapes[i];
        one.layers = MODEL_ONE;
        for (int j = 0; j < s->shape_count; j++)
            if (s->shapes[i].layers != MODEL_ONE && !memcmp(&s->shapes[j], &one, sizeof one))
                out->shape_classes[i] |= out->shape_classes[j], out->shape_followers[i] |= out->shape_followers[j];
    }
}

/* Parameters, optimizer state, accumulators and the batch. */
static void find_persistent(struct drafter *d)
{
    struct tuner_relaxed_program *out = d->out;
    const struct sim_sharded *s = d->s;
    out->persistent_shapes = base_new(d->arena, int, s->program->tensor_count);
    out->persistent_classes = base_new(d->arena, int, s->program->tensor_count);
    for (int t = 0; t < s->program->tensor_count; t++) {
        const struct model_tensor *tensor = tuner_tensor_at(d, t);
        struct sim_shape shape;
        if (tensor->block >= 0) continue;
        memset(&shape, 0, sizeof shape);
        shape.rank = (unsigned char)tensor->rank;
        shape.layers = (unsigned char)tensor->layers;
        shape.dtype = tensor->dtype;
        memcpy(shape.dims, tensor->dims, sizeof shape.dims);
        out->shapes[out->shape_count] = shape;
        out->shape_classes[out->shape_count] = UINT64_C(1) << d->class_of[t];
        out->persistent_classes[out->persistent_count] = d->class_of[t];
        out->persistent_shapes[out->persistent_count++] = out->shape_count++;
        if (tensor->category != MODEL_INPUT) out->classes[d->class_of[t]].state = true;
    }
}

static void add_operand(struct drafter *d, struct tuner_relaxed_dot *dot, const struct sim_op *op, int input)
{
    int value = op->inputs[input], tensor = op->op->inputs[input], root = d->root[tensor];
    const struct model_tensor *r = tuner_tensor_at(d, root);
    bool weight = tuner_is_weight(d, tensor), own_dims = !strcmp(tuner_tensor_at(d, tensor)->labels, r->labels);
    if (dot->operand_count == BASE_COUNT(dot->operands) ||
        (!weight && (!own_dims || tuner_is_generated(d, value) || !tuner_tensor_at(d, tensor)->constrained)))
        return;
    struct tuner_relaxed_operand *operand = &dot->operands[dot->operand_count++];
    *operand = (struct tuner_relaxed_operand){.shape = d->s->values[value].shape,
                                              .class = weight ? d->class_of[root] : d->class_of[tensor],
                                              .rank = r->rank,
                                              .weight = weight};
    const int sharers = tuner_count_sharers(d, op->loop, weight ? -1 : value, root);
    operand->divisor = sharers > 0 ? sharers : 1;
    for (int dim = 0; dim < r->rank; dim++) {
        int found = 0;
        const char *letters = op->op->input_labels[input];
        operand->label_of_dim[dim][0] = operand->label_of_dim[dim][1] = -1;
        for (int i = 0; i < op->label_count && found < 2; i++) {
            bool here = weight ? strchr(letters, op->labels[i].letter) &&
                                     model_is_part_of(d->s->program, r->labels[dim], op->labels[i].letter)
                               : letters[dim] == op->labels[i].letter;
            if (here) operand->label_of_dim[dim][found++] = i;
        }
    }
}

static void draft_dot(struct drafter *d, const struct sim_op *op, struct tuner_relaxed_dot *dot)
{
    int out = op->op->outputs[0];
    memset(dot, 0, sizeof *dot);
    dot->label_count = op->label_count;
    dot->attention = op->op->group > 0, dot->causal = op->op->causal;
    for (int i = 0; i < op->label_count; i++) {
        dot->labels[i].size = op->labels[i].size;
        dot->labels[i].contracted = op->contracted_labels >> i & 1;
        dot->labels[i].in_result = !dot->labels[i].contracted;
        dot->labels[i].role = op->batch_labels >> i & 1    ? TUNER_BATCH_LABEL
                              : op->row_labels >> i & 1    ? TUNER_ROW_LABEL
                              : op->column_labels >> i & 1 ? TUNER_COLUMN_LABEL
                                                           : TUNER_CONTRACTED_LABEL;
    }
    for (int i = 0; i < op->input_count; i++) {
        dot->classes |= UINT64_C(1) << d->class_of[d->root[op->op->inputs[i]]];
        add_operand(d, dot, op, i);
    }
    dot->classes |= UINT64_C(1) << d->class_of[d->root[out]];
    dot->result_shape = d->s->values[op->outputs[0]].shape;
    dot->result_class = d->class_of[out];
    dot->result_divisor = d->sum_size[tuner_find_sum(d, out)];
    dot->hoistable = tuner_tensor_at(d, out)->category == MODEL_GRADIENT;
    dot->settled =
        tuner_tensor_at(d, out)->constrained || (dot->hoistable && tuner_tensor_at(d, d->root[out])->block < 0);
}

/* ---- kernels ---- */

static bool same_kernel(const struct tuner_relaxed_program *o, const struct tuner_relaxed_kernel *a,
                        const struct tuner_relaxed_kernel *b)
{
    if (a->read_count != b->read_count || a->write_count != b->write_count || a->dot_count != b->dot_count ||
        memcmp(a->trips, b->trips, sizeof a->trips) != 0 || a->classes != b->classes)
        return false;
    return !memcmp(o->reads + a->first_read, o->reads + b->first_read, (size_t)a->read_count * sizeof *o->reads) &&
           !memcmp(o->writes + a->first_write, o->writes + b->first_write,
                   (size_t)a->write_count * sizeof *o->writes) &&
           !memcmp(o->dots + a->first_dot, o->dots + b->first_dot, (size_t)a->dot_count * sizeof *o->dots);
}

static void find_trips(const struct sim_sharded *s, int loop, unsigned char trips[TUNER_MOST_TRIPS])
{
    for (int i = 0; i < TUNER_MOST_TRIPS; i++) {
        trips[i] = loop >= 0 ? (unsigned char)s->ops[loop].trips : MODEL_ONE;
        loop = loop >= 0 ? s->ops[loop].loop : -1;
    }
}

static uint64_t classes_of(const struct tuner_relaxed_program *relaxed, int shape)
{
    return relaxed->shape_classes[shape] | relaxed->shape_followers[shape];
}

/* A kernel that recomputes a contraction's result, because nothing stored it, could read it if a collective needs it
 * stored. Only its writes are certain. */
static bool repeats_a_dot(const struct drafter *d, const struct sim_kernel *kernel)
{
    for (int i = 0; i < kernel->dot_count; i++)
        if (d->charged[d->s->dots[kernel->first_dot + i]]) return true;
    return false;
}

static void draft_dots(struct drafter *d, const struct sim_kernel *from, struct tuner_relaxed_kernel *kernel)
{
    for (int i = 0; i < from->dot_count; i++) {
        int op = d->s->dots[from->first_dot + i];
        if (d->charged[op]) continue;
        d->charged[op] = true;
        d->dot_ops[kernel->dot_count] = &d->s->ops[op];
        struct tuner_relaxed_dot *dot = &d->out->dots[kernel->first_dot + kernel->dot_count++];
        draft_dot(d, &d->s->ops[op], dot);
        kernel->classes |= dot->classes;
    }
}

static void replace(int *shapes, int count, int from, int to)
{
    for (int i = 0; i < count; i++) {
        if (shapes[i] != from) continue;
        shapes[i] = to;
        return;
    }
}

/* Narrows the values that an operation reads, directly or through fused operations. */
static void narrow_reads(struct drafter *d, const struct sim_op *op, int *reads, int count)
{
    for (int i = 0; i < op->input_count; i++) {
        int v = op->inputs[i];
        const struct sim_value *value = &d->s->values[v];
        if (d->seen[v]) continue;
        d->seen[v] = true;
        if (d->narrow[v] >= 0) replace(reads, count, value->shape, d->narrow[v]);
        if (d->summed[v] >= 0 && !accumulates(op)) replace(reads, count, value->shape, d->summed[v]);
        if (!value->stored && value->definition >= 0) narrow_reads(d, &d->s->ops[value->definition], reads, count);
    }
}

static void narrow_kernel(struct drafter *d, int kernel, const struct tuner_relaxed_kernel *k)
{
    const struct sim_sharded *s = d->s;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->kernel != kernel) continue;
        memset(d->seen, 0, (size_t)s->value_count * sizeof *d->seen);
        narrow_reads(d, op, d->out->reads + k->first_read, k->read_count);
        for (int o = 0; o < op->output_count; o++)
            if (d->narrow[op->outputs[o]] >= 0)
                replace(d->out->writes + k->first_write, k->write_count, s->values[op->outputs[o]].shape,
                        d->narrow[op->outputs[o]]);
    }
}

static void draft_kernels(struct drafter *d)
{
    const struct sim_sharded *s = d->s;
    struct tuner_relaxed_program *out = d->out;
    int dot_count = 0, read_count = 0, write_count = 0;
    out->kernels = base_new(d->arena, struct tuner_relaxed_kernel, s->kernel_count + 1);
    out->dots = base_new(d->arena, struct tuner_relaxed_dot, s->dot_count + 1);
    out->contractions = base_new(d->arena, struct tuner_relaxed_contraction, s->dot_count + 1);
    d->dot_ops = base_new(d->arena, const struct sim_op *, s->dot_count + 1);
    out->reads = base_new(d->arena, int, s->read_count + 1);
    out->writes = base_new(d->arena, int, s->write_count + 1);
    for (int k = 0; k < s->kernel_count; k++) {
        const struct sim_kernel *from = &s->kernels[k];
        struct tuner_relaxed_kernel *kernel = &out->kernels[out->kernel_count];
        int reads = repeats_a_dot(d, from) ? 0 : from->read_count;
        *kernel = (struct tuner_relaxed_kernel){.first_read = read_count,
                                                .read_count = reads,
                                                .first_write = write_count,
                                                .write_count = from->write_count,
                                                .first_dot = dot_count,
                                                .copies = 1};
        find_trips(s, from->loop, kernel->trips);
        for (int i = 0; i < reads; i++) out->reads[read_count + i] = s->reads[from->first_read + i];
        for (int i = 0; i < from->write_count; i++) out->writes[write_count + i] = s->writes[from->first_write + i];
        for (int i = 0; i < from->read_count; i++) kernel->classes |= classes_of(out, s->reads[from->first_read + i]);
        for (int i = 0; i < from->write_count; i++) kernel->classes |= classes_of(out, out->writes[write_count + i]);
        narrow_kernel(d, k, kernel);
        draft_dots(d, from, kernel);
        int same = 0;
        while (same < out->kernel_count && !same_kernel(out, &out->kernels[same], kernel)) same++;
        tuner_draft_contractions(d, same);
        if (same < out->kernel_count) {
            out->kernels[same].copies++;
            continue;
        }
        out->kernel_count++;
        read_count += kernel->read_count, write_count += kernel->write_count, dot_count += kernel->dot_count;
    }
}

enum base_status tuner_relaxed_program_build(struct base_arena *arena, struct sim_cache *cache,
                                             const struct sim_plan *plan, enum tuner_batch batch,
                                             const struct tuner_relaxed_program **relaxed, struct base_error *error)
{
    struct tuner_relaxed_program *out = base_new(arena, struct tuner_relaxed_program, 1);
    int64_t sizes[MODEL_SIZE_COUNT];
    struct sim_placement *one = base_new(arena, struct sim_placement, 1);
    struct sim_plan alone = *plan;
    struct drafter d = {.arena = arena, .out = out, .partitioning = sim_most_zero_stage(plan)};
    *one = *plan->placement;
    for (int i = 0; i < one->axes.count; i++) one->axes.sizes[i] = 1;
    alone.placement = one;
    alone.options.microbatches = batch == TUNER_IN_MICROBATCHES;
    alone.num_microbatches = 1;
    BASE_TRY(sim_sharded_program(cache, &alone, &d.s, sizes, error));
    int tensors = d.s->program->tensor_count;
    d.class_of = base_new(arena, int, tensors);
    d.root = base_new(arena, int, tensors);
    d.sum = base_new(arena, int, tensors);
    d.sum_size = base_new(arena, int, tensors);
    d.charged = base_new(arena, bool, d.s->op_count);
    d.narrow = base_new(arena, int, d.s->value_count);
    d.summed = base_new(arena, int, d.s->value_count);
    d.seen = base_new(arena, bool, d.s->value_count);
    find_carriers(d.s->program, out->carriers);
    find_narrow(&d);
    tuner_find_roots(&d);
    BASE_TRY(tuner_find_classes(&d, plan, error));
    find_sizes(&d);
    copy_shapes(&d);
    find_persistent(&d);
    find_summed(&d, plan);
    if (out->shape_count > TUNER_MOST_SHAPES)
        return base_fail(error, BASE_INTERNAL, "a program of more than %d local shapes", TUNER_MOST_SHAPES);
    tuner_find_sums(&d);
    draft_kernels(&d);
    struct model_config *config = base_new(arena, struct model_config, 1);
    *config = *plan->config;
    out->config = config;
    out->dtype = plan->options.dtype;
    out->hides_collectives = sim_hides_collectives(plan);
    out->inputs_length = plan->inputs_length;
    out->targets_length = plan->targets_length;
    *relaxed = out;
    return BASE_OK;
}
