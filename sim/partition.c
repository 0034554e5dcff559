/* From a program to what one device does. Every tensor has the sharding that the axis rules give its logical axes
 * (gradients that of their primal). For each operation, each mesh axis is given to one label of the operation; operands
 * that are sharded otherwise are gathered or moved, those that are not sharded are sliced for nothing; a label that is
 * contracted leaves a partial sum, which is reduced where it is first used. */
#include "sim/sharded.h"

#include <string.h>

enum { MOST_COPIES = 512, AXIS_COUNT = 2 };

struct partitioner {
    struct base_arena *arena;
    const struct model_program *program;
    const struct sim_sharding_options *options;
    struct sim_sharded *out;
    struct base_error *error;
    int *current;                       /* value of each tensor, or -1 */
    unsigned char (*wanted)[MODEL_MAX_RANK]; /* sharding of each tensor by rules; wanted_known tells which are worked out */
    bool *wanted_known;
    int loop;
    struct copy { int from, to; } copies[MOST_COPIES]; /* resharded values that may serve again */
    int copy_count;
};

/* ---- tables that grow ---- */

static void *grown(struct base_arena *arena, void *old, int count, int *capacity, size_t size_bytes)
{
    if (count < *capacity) return old;
    *capacity = *capacity ? 2 * *capacity : 64;
    void *table = base_alloc(arena, (size_t)*capacity, size_bytes);
    if (count) memcpy(table, old, (size_t)count * size_bytes);
    return table;
}

int sim_shape_of(struct base_arena *arena, struct sim_sharded *sharded, const struct sim_shape *shape)
{
    for (int i = 0; i < sharded->shape_count; i++)
        if (!memcmp(&sharded->shapes[i], shape, sizeof *shape)) return i;
    sharded->shapes = grown(arena, sharded->shapes, sharded->shape_count, &sharded->shape_capacity, sizeof *sharded->shapes);
    sharded->shapes[sharded->shape_count] = *shape;
    return sharded->shape_count++;
}

static const struct model_tensor *tensor_of(const struct partitioner *p, int tensor)
{
    return &p->program->tensors[tensor];
}

static int new_value(struct partitioner *p, int tensor, const unsigned char *spec, unsigned partial)
{
    struct sim_sharded *out = p->out;
    const struct model_tensor *t = tensor_of(p, tensor);
    out->values = grown(p->arena, out->values, out->value_count, &out->value_capacity, sizeof *out->values);
    struct sim_value *value = &out->values[out->value_count];
    *value = (struct sim_value){.tensor = tensor, .partial = (unsigned char)partial, .dtype = t->dtype, .definition = -1, .last_use = -1, .loop = p->loop, .persistent = t->block < 0};
    struct sim_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.rank = (unsigned char)t->rank;
    memcpy(shape.dims, t->dims, sizeof shape.dims);
    if (t->rank) memcpy(shape.spec, spec, (size_t)t->rank);
    memcpy(value->spec, shape.spec, sizeof value->spec);
    shape.layers = MODEL_ONE;
    shape.dtype = t->dtype;
    value->shape = sim_shape_of(p->arena, out, &shape);
    return out->value_count++;
}

static struct sim_op *new_op(struct partitioner *p, enum sim_op_kind kind, const struct model_op *source)
{
    struct sim_sharded *out = p->out;
    out->ops = grown(p->arena, out->ops, out->op_count, &out->op_capacity, sizeof *out->ops);
    struct sim_op *op = &out->ops[out->op_count++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->op = source;
    op->loop = p->loop;
    op->kernel = -1;
    return op;
}

/* ---- the sharding that a tensor wants ---- */

static unsigned axis_bit(const char *name)
{
    return !strcmp(name, "data") ? SIM_DATA : !strcmp(name, "model") ? SIM_TENSOR : 0;
}

/* Mesh axes of one device shard nothing: they would only add collectives of one. */
static unsigned live(const struct partitioner *p, unsigned axes)
{
    return axes & ~(unsigned)((p->options->one[0] ? SIM_DATA : 0) | (p->options->one[1] ? SIM_TENSOR : 0));
}

/* Scores have the length twice; no annotation could say that, and the second stays unsharded. */
static void axis_names(const struct model_tensor *tensor, const char **names)
{
    for (int i = 0; i < tensor->rank; i++) {
        names[i] = tensor->given_axes ? tensor->given_axes[i] : model_axis_name((enum model_axis)tensor->axes[i]);
        for (int j = 0; j < i && names[i] && !tensor->given_axes; j++)
            if (tensor->axes[j] == tensor->axes[i]) names[i] = NULL;
    }
}

static bool is_residual_stream(const struct model_tensor *tensor)
{
    return tensor->rank == 3 && tensor->axes[0] == MODEL_AXIS_BATCH && tensor->axes[1] == MODEL_AXIS_LENGTH && tensor->axes[2] == MODEL_AXIS_EMBED && tensor->block >= 0;
}

static enum base_status resolve(struct partitioner *p, const struct model_tensor *tensor, unsigned char *wanted)
{
    const char *names[MODEL_MAX_RANK];
    struct model_axes spec[MODEL_MAX_RANK];
    axis_names(tensor, names);
    BASE_TRY(model_resolve(p->options->rules, names, tensor->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, p->error));
    unsigned used = 0;
    for (int i = 0; i < tensor->rank; i++) {
        wanted[i] = 0;
        for (int j = 0; j < spec[i].count; j++) wanted[i] |= (unsigned char)axis_bit(spec[i].names[j]);
        used |= wanted[i];
        wanted[i] = (unsigned char)live(p, wanted[i]);
    }
    if (p->options->sequence_parallel && is_residual_stream(tensor) && !(used & SIM_TENSOR)) wanted[1] |= (unsigned char)live(p, SIM_TENSOR);
    return BASE_OK;
}

/* JAX demands that state divides evenly. */
static bool divides(const struct partitioner *p, int size)
{
    const struct sim_extents *extents = &p->options->extents;
    return !extents->sizes || extents->sizes[size] % extents->mesh[0] == 0;
}

/* ZeRO: the first dimension that the data axis can still cut. */
static void add_data_axis(struct partitioner *p, const struct model_tensor *tensor, unsigned char *wanted)
{
    unsigned used = 0;
    for (int i = 0; i < tensor->rank; i++) used |= wanted[i];
    if (used & SIM_DATA) return;
    for (int i = 0; i < tensor->rank; i++) {
        if (wanted[i] || !divides(p, tensor->dims[i])) continue;
        wanted[i] = (unsigned char)live(p, SIM_DATA);
        return;
    }
}

static enum base_status want(struct partitioner *p, int tensor)
{
    const struct model_tensor *t = tensor_of(p, tensor);
    unsigned char *wanted = p->wanted[tensor];
    if (p->wanted_known[tensor]) return BASE_OK;
    if (t->like >= 0) {
        BASE_TRY(want(p, t->like));
        memcpy(wanted, p->wanted[t->like], sizeof p->wanted[0]);
    } else {
        BASE_TRY(resolve(p, t, wanted));
    }
    bool state = t->category == MODEL_OPTIMIZER_STATE && t->like >= 0, accumulated = t->category == MODEL_GRADIENT && t->block < 0;
    enum sim_optimizer_partitioning zero = p->options->optimizer_partitioning;
    if ((state && zero != SIM_REPLICATED) || (accumulated && zero == SIM_STATE_AND_GRADIENTS_OVER_DATA)) add_data_axis(p, t, wanted);
    p->wanted_known[tensor] = true;
    return BASE_OK;
}

/* ---- collectives ---- */

static int communicate(struct partitioner *p, const struct model_op *why, enum sim_collective kind, int axes, int value, const unsigned char *spec, unsigned partial)
{
    int result = new_value(p, p->out->values[value].tensor, spec, partial);
    p->out->values[result].dtype = p->out->values[value].dtype;
    p->out->values[result].persistent = false;
    struct sim_op *op = new_op(p, SIM_COMMUNICATE, why);
    op->collective = kind;
    op->axes = axes;
    op->inputs[op->input_count++] = value;
    op->outputs[op->output_count++] = result;
    p->out->values[result].definition = p->out->op_count - 1;
    return result;
}

static int rank_of(const struct partitioner *p, int value)
{
    return tensor_of(p, p->out->values[value].tensor)->rank;
}

/* The data axis cuts a dimension first, the model axis within it. So a part over model alone is no part over both. */
static bool slices(unsigned has, unsigned wanted)
{
    return !(has & ~wanted) && !(has == SIM_TENSOR && (wanted & SIM_DATA));
}

/* Where data has to leave a dimension from above model, or to come above it, model is gathered before. */
static int clear_model(struct partitioner *p, const struct model_op *why, int value, const unsigned char *to)
{
    for (int d = 0; d < rank_of(p, value); d++) {
        unsigned char spec[MODEL_MAX_RANK];
        memcpy(spec, p->out->values[value].spec, sizeof spec);
        bool leaves = spec[d] == (SIM_DATA | SIM_TENSOR) && !(to[d] & SIM_DATA), comes = spec[d] == SIM_TENSOR && (to[d] & SIM_DATA);
        if (!leaves && !comes) continue;
        spec[d] = (unsigned char)(spec[d] & ~(unsigned)SIM_TENSOR);
        value = communicate(p, why, SIM_ALL_GATHER, SIM_TENSOR, value, spec, p->out->values[value].partial);
    }
    return value;
}

/* Moves an axis between dimensions, or gathers it, until no dimension has an axis that `to` lacks there; the inner axis
 * first. What `to` has more is a local slice. */
static int reshard(struct partitioner *p, const struct model_op *why, int value, const unsigned char *to)
{
    for (unsigned axis = SIM_TENSOR; axis; axis >>= 1) {
        int from_dim = -1, to_dim = -1, rank = rank_of(p, value);
        unsigned char spec[MODEL_MAX_RANK];
        if (axis == SIM_DATA) value = clear_model(p, why, value, to);
        memcpy(spec, p->out->values[value].spec, sizeof spec);
        for (int i = 0; i < rank; i++) {
            if (spec[i] & axis) from_dim = i;
            if (to[i] & axis) to_dim = i;
        }
        if (from_dim < 0 || from_dim == to_dim) continue;
        spec[from_dim] = (unsigned char)(spec[from_dim] & ~axis);
        if (to_dim >= 0) spec[to_dim] |= (unsigned char)axis;
        value = communicate(p, why, to_dim >= 0 ? SIM_ALL_TO_ALL : SIM_ALL_GATHER, (int)axis, value, spec, p->out->values[value].partial);
    }
    return value;
}

/* Sums a partial value over its axes. Where the result wants one of them on a dimension, that is a reduce-scatter if the
 * compiler has the pass; the partitioner itself emits an all-reduce, of which each device keeps its slice. */
static int reduce(struct partitioner *p, const struct model_op *why, int value, const unsigned char *to)
{
    bool scatters = p->options->reduce_scatter && !p->options->as_partitioned;
    for (unsigned axis = 1; axis < SIM_AXES; axis <<= 1) {
        const struct sim_value *v = &p->out->values[value];
        if (!(v->partial & axis)) continue;
        unsigned char spec[MODEL_MAX_RANK];
        memcpy(spec, v->spec, sizeof spec);
        int kept = -1, rank = rank_of(p, value);
        for (int i = 0; i < rank && to; i++)
            if ((to[i] & axis) && slices(spec[i], spec[i] | axis)) kept = i;
        if (kept >= 0) spec[kept] |= (unsigned char)axis;
        value = communicate(p, why, kept >= 0 && scatters ? SIM_REDUCE_SCATTER : SIM_ALL_REDUCE, (int)axis, value, spec, v->partial & ~axis);
    }
    return value;
}

static int find_copy(const struct partitioner *p, int from, const unsigned char *spec)
{
    for (int i = p->copy_count - 1; i >= 0; i--) {
        const struct sim_value *to = &p->out->values[p->copies[i].to];
        bool serves = p->copies[i].from == from && to->loop == p->loop;
        for (int d = 0; serves && d < rank_of(p, from); d++) serves = slices(to->spec[d], spec[d]);
        if (serves) return p->copies[i].to;
    }
    return -1;
}

/* A value as an operation needs it, made once however many ask. */
static int ready(struct partitioner *p, const struct model_op *why, int value, const unsigned char *spec)
{
    const struct sim_value *v = &p->out->values[value];
    bool gathers = v->partial;
    for (int i = 0; i < rank_of(p, value); i++) gathers = gathers || !slices(v->spec[i], spec[i]);
    if (!gathers) return value;
    int copy = find_copy(p, value, spec);
    if (copy >= 0) return copy;
    copy = reshard(p, why, reduce(p, why, value, spec), spec);
    if (p->copy_count < MOST_COPIES) p->copies[p->copy_count++] = (struct copy){value, copy};
    return copy;
}

/* ---- operations ---- */

static struct sim_label *find_label(struct sim_op *op, char letter)
{
    for (int i = 0; i < op->label_count; i++)
        if (op->labels[i].letter == letter) return &op->labels[i];
    return NULL;
}

static void collect_labels(struct sim_op *op, const char *letters, const struct model_tensor *tensor)
{
    for (int i = 0; letters[i]; i++) {
        if (find_label(op, letters[i])) continue;
        op->labels[op->label_count++] = (struct sim_label){letters[i], tensor->dims[i], 0};
    }
}

static int dim_of(const char *letters, char letter)
{
    const char *at = strchr(letters, letter);
    return at && letter ? (int)(at - letters) : -1;
}

/* How one mesh axis shards the operands and the wanted result of an operation. */
struct use {
    char contracted_by_all;   /* a label that is summed over and sharded in every operand that has it */
    char wanted;              /* the result's label that wants it */
    char contracted_by_some;
    char natural;             /* a label of the result that an operand has sharded */
};

static struct use survey(const struct partitioner *p, const struct model_op *op, const int *inputs, const unsigned char *wanted, unsigned axis)
{
    struct use use = {0};
    for (int i = 0; op->output_labels[i] && wanted; i++)
        if (wanted[i] & axis) use.wanted = op->output_labels[i];
    for (int i = 0; i < op->input_count; i++) {
        const struct sim_value *value = &p->out->values[inputs[i]];
        for (int d = 0; op->input_labels[i][d]; d++) {
            char letter = op->input_labels[i][d];
            if (!(value->spec[d] & axis)) continue;
            if (dim_of(op->output_labels, letter) >= 0) {
                use.natural = letter;
                continue;
            }
            bool all = true;
            for (int j = 0; j < op->input_count; j++) {
                int other = dim_of(op->input_labels[j], letter);
                all = all && (other < 0 || (p->out->values[inputs[j]].spec[other] & axis));
            }
            if (all && op->kind != MODEL_SLICE) use.contracted_by_all = letter;
            else if (op->kind != MODEL_SLICE) use.contracted_by_some = letter;
        }
    }
    return use;
}

/* Which label gets a mesh axis. A sum over a label that all operands have sharded costs least. Then the result decides.
 * A label that only some operands have sharded is summed over, too: the others are sliced for nothing. */
static char choose(const struct use *use)
{
    if (use->contracted_by_all) return use->contracted_by_all;
    if (use->wanted) return use->wanted;
    if (use->contracted_by_some) return use->contracted_by_some;
    return use->natural;
}

static void spec_for(struct sim_op *op, const char *letters, unsigned char *spec)
{
    memset(spec, 0, MODEL_MAX_RANK);
    for (int i = 0; letters[i]; i++) spec[i] = find_label(op, letters[i])->axes;
}

static bool shards(const unsigned char *spec, unsigned axis)
{
    for (int i = 0; i < MODEL_MAX_RANK; i++)
        if (spec[i] & axis) return true;
    return false;
}

/* Sums that only meet other sums need no reduction yet: a + b of two partial sums is a partial sum. Which operations
 * may wait is what the compiler's passes decide. */
static bool may_stay_partial(const struct partitioner *p, const struct model_op *op, const int *inputs)
{
    const struct sim_sharding_options *o = p->options;
    if (o->as_partitioned) return false;
    const struct sim_value *first = &p->out->values[inputs[0]];
    if (op->kind == MODEL_MAP && op->function == MODEL_ADD) {
        const struct sim_value *second = &p->out->values[inputs[1]];
        bool alike = first->partial && first->partial == second->partial && !memcmp(first->spec, second->spec, sizeof first->spec);
        bool accumulates = o->hoist_gradient_all_reduce && tensor_of(p, op->outputs[0])->category == MODEL_GRADIENT && first->partial == SIM_DATA && !shards(p->wanted[op->outputs[0]], SIM_DATA);
        return alike && (o->reassociate_all_reduce || accumulates);
    }
    /* A gradient on its way into an accumulator that is whole on every data shard: the accumulator is reduced after the loop. */
    bool passes = (op->kind == MODEL_MAP && op->function == MODEL_CAST) || (op->kind == MODEL_RESHAPE && op->function == MODEL_NO_FUNCTION);
    bool gradient = tensor_of(p, op->outputs[0])->category == MODEL_GRADIENT;
    return passes && gradient && o->hoist_gradient_all_reduce && first->partial == SIM_DATA && !shards(p->wanted[op->outputs[0]], SIM_DATA);
}

static void einsum_roles(struct sim_op *op, const struct model_op *source)
{
    for (int i = 0; i < op->label_count; i++) {
        char letter = op->labels[i].letter;
        bool a = dim_of(source->input_labels[0], letter) >= 0, b = dim_of(source->input_labels[1], letter) >= 0, out = dim_of(source->output_labels, letter) >= 0;
        unsigned *set = !out ? &op->contracted_labels : a && b ? &op->batch_labels : a ? &op->row_labels : &op->column_labels;
        *set |= 1u << i;
    }
}

/* The result as it was computed, then as it is wanted. A partial sum stays one until somebody uses it. */
static enum base_status finish_output(struct partitioner *p, const struct model_op *source, int op_index, unsigned partial, bool bind_to_wanted)
{
    int tensor = source->outputs[0];
    unsigned char computed[MODEL_MAX_RANK];
    spec_for(&p->out->ops[op_index], source->output_labels, computed);
    int value = new_value(p, tensor, computed, partial);
    struct sim_op *op = &p->out->ops[op_index];
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = op_index;
    if (bind_to_wanted && !partial) value = reshard(p, source, value, p->wanted[tensor]);
    p->current[tensor] = value;
    return BASE_OK;
}

static void partial_inputs(struct partitioner *p, const struct model_op *source, int *inputs)
{
    for (int i = 0; i < source->input_count; i++) {
        const struct sim_value *value = &p->out->values[inputs[i]];
        if (!value->partial) continue;
        const unsigned char *wanted = p->wanted[value->tensor];
        bool own = inputs[i] == p->current[source->inputs[i]] && value->loop == p->loop;
        inputs[i] = ready(p, source, inputs[i], wanted);
        if (own) p->current[source->inputs[i]] = inputs[i]; /* whoever comes later, in the backward loop too, finds the sum */
    }
}

/* ---- contractions (contraction.c says where their axes go) ---- */

static struct sim_shape shape_of_value(const struct partitioner *p, int value)
{
    return p->out->shapes[p->out->values[value].shape];
}

/* The copy of an operand that the steps make; made once however many contractions ask. */
static int take_steps(struct partitioner *p, const struct model_op *source, int operand, int value, const struct sim_contraction *contraction)
{
    const unsigned char *end = contraction->shapes[operand].spec;
    int first = value, copy = find_copy(p, value, end);
    bool any = false;
    for (int i = 0; i < contraction->steps.count; i++) any = any || contraction->steps.steps[i].operand == operand;
    if (!any) return value;
    if (copy >= 0) return copy;
    for (int i = 0; i < contraction->steps.count; i++) {
        const struct sim_step *step = &contraction->steps.steps[i];
        if (step->operand == operand) value = communicate(p, source, step->kind, step->axes, value, step->after, 0);
    }
    if (p->copy_count < MOST_COPIES) p->copies[p->copy_count++] = (struct copy){first, value};
    return value;
}

/* Gives the operation's labels their axes and moves its operands; returns the axes of the partial sum. */
static unsigned place_contraction(struct partitioner *p, const struct model_op *source, int *inputs, const unsigned char *wanted, struct sim_op *draft)
{
    struct sim_contraction c = {.letters = {source->input_labels[0], source->input_labels[1], source->output_labels}, .free = !wanted};
    unsigned partial = 0;
    for (int i = 0; i < 2; i++) {
        c.shapes[i] = shape_of_value(p, inputs[i]);
        c.adapts[i] = tensor_of(p, source->inputs[i])->from_producer; /* casts and reshapes of a parameter carry no annotation */
    }
    const struct model_tensor *result = tensor_of(p, source->outputs[0]);
    c.shapes[2] = (struct sim_shape){.rank = (unsigned char)result->rank, .layers = MODEL_ONE, .dtype = result->dtype};
    memcpy(c.shapes[2].dims, result->dims, sizeof c.shapes[2].dims);
    if (wanted) memcpy(c.shapes[2].spec, wanted, (size_t)result->rank);
    sim_contract(&p->options->extents, &c);
    for (unsigned axis = 1; axis < SIM_AXES - 1; axis++) {
        if (!c.label[axis]) continue;
        find_label(draft, c.label[axis])->axes |= (unsigned char)axis;
        if (dim_of(source->output_labels, c.label[axis]) < 0) partial |= axis;
    }
    for (int i = 0; i < 2; i++) inputs[i] = take_steps(p, source, i, inputs[i], &c);
    return partial;
}

/* Everything else: the labels by survey, the operands made ready. */
static unsigned place_labels(struct partitioner *p, const struct model_op *source, int *inputs, const unsigned char *wanted, struct sim_op *draft)
{
    unsigned partial = 0;
    for (unsigned axis = 1; axis < SIM_AXES; axis <<= 1) {
        struct use use = survey(p, source, inputs, wanted, axis);
        char letter = choose(&use);
        if (!letter) continue;
        find_label(draft, letter)->axes |= (unsigned char)axis;
        if (dim_of(source->output_labels, letter) < 0) partial |= axis;
    }
    for (int i = 0; i < source->input_count; i++) {
        unsigned char spec[MODEL_MAX_RANK];
        spec_for(draft, source->input_labels[i], spec);
        inputs[i] = ready(p, source, inputs[i], spec);
    }
    return partial;
}

/* A partial sum that may wait passes through as it is. */
static void place_carried(struct partitioner *p, const struct model_op *source, const int *inputs, struct sim_op *draft)
{
    const struct sim_value *value = &p->out->values[inputs[0]];
    for (int d = 0; source->input_labels[0][d]; d++) find_label(draft, source->input_labels[0][d])->axes |= value->spec[d];
}

static enum base_status partition_compute(struct partitioner *p, const struct model_op *source)
{
    int inputs[MODEL_MAX_INPUTS], tensor = source->outputs[0];
    for (int i = 0; i < source->input_count; i++) {
        BASE_TRY(want(p, source->inputs[i]));
        inputs[i] = p->current[source->inputs[i]];
    }
    const struct model_tensor *t = tensor_of(p, tensor);
    BASE_TRY(want(p, tensor));
    unsigned carried = source->input_count && may_stay_partial(p, source, inputs) ? p->out->values[inputs[0]].partial : 0;
    if (!carried) partial_inputs(p, source, inputs);

    struct sim_op draft = {.label_count = 0};
    for (int i = 0; i < source->input_count; i++) collect_labels(&draft, source->input_labels[i], tensor_of(p, source->inputs[i]));
    collect_labels(&draft, source->output_labels, t);
    const unsigned char *wanted = t->from_producer ? NULL : p->wanted[tensor];
    unsigned partial = carried;
    if (carried) place_carried(p, source, inputs, &draft);
    else if (source->kind == MODEL_EINSUM) partial = place_contraction(p, source, inputs, wanted, &draft);
    else partial = place_labels(p, source, inputs, wanted, &draft);
    struct sim_op *op = new_op(p, SIM_COMPUTE, source);
    int index = p->out->op_count - 1;
    memcpy(op->labels, draft.labels, sizeof op->labels);
    op->label_count = draft.label_count;
    op->input_count = source->input_count;
    memcpy(op->inputs, inputs, sizeof op->inputs);
    if (source->kind == MODEL_EINSUM) einsum_roles(op, source);
    if (t->from_producer) spec_for(op, source->output_labels, p->wanted[tensor]);
    return finish_output(p, source, index, partial, !t->from_producer && !carried);
}

/* Splitting j into h and d, joining them, repeating a group of heads: the outer letter carries the shards. */
static char outer_letter(char letter)
{
    static const char pairs[][2] = {{'j', 'h'}, {'i', 'g'}, {'h', 'j'}, {'g', 'i'}};
    for (int i = 0; i < BASE_COUNT(pairs); i++)
        if (pairs[i][0] == letter) return pairs[i][1];
    return 0;
}

static unsigned reshaped_axes(const struct model_op *source, const unsigned char *spec, char letter)
{
    int dim = dim_of(source->input_labels[0], letter);
    if (dim < 0) dim = dim_of(source->input_labels[0], outer_letter(letter));
    if (dim < 0 && letter == 'h') dim = dim_of(source->input_labels[0], 'g'); /* repeated heads */
    if (dim < 0 && letter == 'g') dim = dim_of(source->input_labels[0], 'h');
    return dim < 0 ? 0 : spec[dim];
}

static enum base_status partition_reshape(struct partitioner *p, const struct model_op *source)
{
    int tensor = source->outputs[0], input = p->current[source->inputs[0]];
    const struct model_tensor *t = tensor_of(p, tensor);
    BASE_TRY(want(p, tensor));
    BASE_TRY(want(p, source->inputs[0]));
    bool stays = may_stay_partial(p, source, &input);
    if (!stays) input = ready(p, source, input, p->out->values[input].partial ? p->wanted[source->inputs[0]] : p->out->values[input].spec);
    unsigned char spec[MODEL_MAX_RANK] = {0};
    for (int i = 0; i < t->rank; i++) spec[i] = (unsigned char)reshaped_axes(source, p->out->values[input].spec, source->output_labels[i]);
    int value = new_value(p, tensor, spec, p->out->values[input].partial);
    struct sim_op *op = new_op(p, SIM_COMPUTE, source);
    op->inputs[op->input_count++] = input;
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = p->out->op_count - 1;
    if (t->from_producer) memcpy(p->wanted[tensor], spec, sizeof spec);
    else if (!stays) value = reshard(p, source, value, p->wanted[tensor]);
    p->current[tensor] = value;
    return BASE_OK;
}

/* Whole-array updates in place. They are computed as the state is sharded; a parameter that is sharded less is gathered
 * when it is new (ZeRO-1). */
static enum base_status partition_update(struct partitioner *p, const struct model_op *source)
{
    int inputs[MODEL_MAX_INPUTS];
    unsigned char spec[MODEL_MAX_RANK] = {0};
    const struct model_tensor *first = tensor_of(p, source->inputs[0]);
    for (int i = 0; i < source->input_count; i++) {
        BASE_TRY(want(p, source->inputs[i]));
        inputs[i] = p->current[source->inputs[i]];
        bool same_shape = !strcmp(source->input_labels[i], source->input_labels[0]) && tensor_of(p, source->inputs[i])->block < 0;
        for (int d = 0; same_shape && d < first->rank; d++) spec[d] |= p->wanted[source->inputs[i]][d];
    }
    bool accumulate = source->function == MODEL_ACCUMULATE, partial = accumulate && p->options->hoist_gradient_all_reduce && p->out->values[inputs[1]].partial == SIM_DATA && !shards(spec, SIM_DATA);
    for (int i = 0; i < source->input_count; i++) {
        bool same_shape = !strcmp(source->input_labels[i], source->input_labels[0]);
        unsigned char own[MODEL_MAX_RANK];
        memcpy(own, same_shape ? spec : p->wanted[source->inputs[i]], sizeof own);
        inputs[i] = partial && i < 2 ? reshard(p, source, inputs[i], own) : ready(p, source, inputs[i], own);
    }
    struct sim_op *op = new_op(p, SIM_COMPUTE, source);
    op->input_count = source->input_count;
    memcpy(op->inputs, inputs, sizeof op->inputs);
    op->output_count = source->output_count;
    for (int i = 0; i < source->output_count; i++) op->outputs[i] = p->current[source->outputs[i]];
    if (partial) p->out->values[p->current[source->outputs[0]]].partial = p->out->values[inputs[1]].partial;
    unsigned missing = 0;
    for (int d = 0; d < first->rank; d++) missing |= (unsigned)(spec[d] & ~p->wanted[source->inputs[0]][d]);
    if (!missing || accumulate) return BASE_OK;
    int slice = new_value(p, source->inputs[0], spec, 0);
    p->out->values[slice].persistent = false;
    p->out->values[slice].definition = p->out->op_count - 1;
    p->out->ops[p->out->op_count - 1].outputs[0] = slice;
    int whole = reshard(p, source, slice, p->wanted[source->inputs[0]]);
    p->out->values[whole].persistent = true;
    return BASE_OK;
}

/* ---- blocks ---- */

static enum base_status partition_block(struct partitioner *p, int block);

static void bind(struct partitioner *p, int tensor, const unsigned char *spec)
{
    p->current[tensor] = new_value(p, tensor, spec, 0);
}

/* What goes round a loop has one sharding: the wanted one, at its start, inside and at its end. */
static enum base_status partition_loop(struct partitioner *p, const struct model_op *source)
{
    for (int i = 0; i < source->carry_count; i++) {
        int init = source->carries[i].init;
        BASE_TRY(want(p, init));
        p->current[init] = ready(p, source, p->current[init], p->wanted[init]);
    }
    struct sim_op *begin = new_op(p, SIM_LOOP_BEGIN, source);
    int begin_index = p->out->op_count - 1, outer = p->loop, copies = p->copy_count;
    begin->trips = (int)source->trips;
    for (int i = 0; i < source->carry_count; i++) begin->inputs[begin->input_count++] = p->current[source->carries[i].init];
    p->loop = begin_index;
    for (int i = 0; i < source->carry_count; i++) {
        BASE_TRY(want(p, source->carries[i].in));
        bind(p, source->carries[i].in, p->out->values[p->current[source->carries[i].init]].spec);
        p->out->ops[begin_index].outputs[p->out->ops[begin_index].output_count++] = p->current[source->carries[i].in];
    }
    BASE_TRY(partition_block(p, source->body));
    int ins[MODEL_MAX_CARRIES];
    for (int i = 0; i < source->carry_count; i++) {
        int out = source->carries[i].out;
        BASE_TRY(want(p, out));
        p->current[out] = ready(p, source, p->current[out], p->wanted[source->carries[i].in]);
        ins[i] = p->current[out];
    }
    struct sim_op *end = new_op(p, SIM_LOOP_END, source);
    end->trips = (int)source->trips;
    end->match = begin_index;
    end->loop = outer;
    for (int i = 0; i < source->carry_count; i++) end->inputs[end->input_count++] = ins[i];
    int end_index = p->out->op_count - 1;
    p->out->ops[begin_index].match = end_index;
    p->loop = outer;
    p->copy_count = copies;
    for (int i = 0; i < source->carry_count; i++) {
        bind(p, source->carries[i].result, p->out->values[ins[i]].spec);
        p->out->values[p->current[source->carries[i].result]].definition = end_index;
        struct sim_op *closing = &p->out->ops[end_index];
        closing->outputs[closing->output_count++] = p->current[source->carries[i].result];
    }
    return BASE_OK;
}

static enum base_status partition_op(struct partitioner *p, const struct model_op *source)
{
    switch (source->kind) {
    case MODEL_LOOP: return partition_loop(p, source);
    case MODEL_RESHAPE: return partition_reshape(p, source);
    case MODEL_UPDATE: return partition_update(p, source);
    case MODEL_EINSUM:
    case MODEL_MAP:
    case MODEL_REDUCE:
    case MODEL_SLICE: return partition_compute(p, source);
    }
    return base_fail(p->error, BASE_INTERNAL, "an operation of no kind");
}

static bool is_used(const struct partitioner *p, int value)
{
    for (int i = p->out->values[value].definition + 1; i < p->out->op_count; i++)
        for (int j = 0; j < p->out->ops[i].input_count; j++)
            if (p->out->ops[i].inputs[j] == value) return true;
    return false;
}

/* What leaves a block without having been used in it (a loss, a metric, a gradient that nobody updates with) is summed
 * and put into its sharding there. */
static void finish_results(struct partitioner *p, const struct model_block *block)
{
    for (int i = 0; i < block->op_count; i++) {
        const struct model_op *op = &block->ops[i];
        for (int o = 0; o < op->output_count; o++) {
            int value = p->current[op->outputs[o]];
            if (p->out->values[value].persistent || !p->out->values[value].partial || is_used(p, value)) continue;
            p->current[op->outputs[o]] = ready(p, op, value, p->wanted[op->outputs[o]]);
        }
    }
}

static enum base_status partition_block(struct partitioner *p, int block)
{
    const struct model_block *b = &p->program->blocks[block];
    for (int i = 0; i < b->op_count; i++) BASE_TRY(partition_op(p, &b->ops[i]));
    finish_results(p, b);
    return BASE_OK;
}

static enum base_status hold(struct partitioner *p, int tensor)
{
    struct sim_sharded *out = p->out;
    struct sim_shape whole = out->shapes[out->values[p->current[tensor]].shape];
    whole.layers = (unsigned char)p->program->tensors[tensor].layers;
    if (out->persistent_count == BASE_COUNT(out->persistent_shapes)) return base_fail(p->error, BASE_INTERNAL, "more than %d persistent tensors", out->persistent_count);
    out->persistent_shapes[out->persistent_count] = sim_shape_of(p->arena, out, &whole);
    out->persistent_categories[out->persistent_count++] = p->program->tensors[tensor].category;
    return BASE_OK;
}

/* The pass that moves gradient all-reduces behind the loop adds up in a new buffer there and keeps the accumulator that
 * the program had, to which it adds the reduced sum (openxla/xla while_loop_all_reduce_code_motion.h). So there are two. */
static bool has_twin(const struct partitioner *p, int tensor)
{
    const struct model_tensor *t = &p->program->tensors[tensor];
    return t->category == MODEL_GRADIENT && p->options->hoist_gradient_all_reduce && !p->options->one[0] && !shards(p->wanted[tensor], SIM_DATA);
}

static enum base_status bind_persistent(struct partitioner *p)
{
    for (int i = 0; i < p->program->tensor_count; i++) {
        p->current[i] = -1;
        if (p->program->tensors[i].block >= 0) continue;
        BASE_TRY(want(p, i));
        bind(p, i, p->wanted[i]);
        BASE_TRY(hold(p, i));
        if (has_twin(p, i)) BASE_TRY(hold(p, i));
    }
    return BASE_OK;
}

enum base_status sim_partition(struct base_arena *arena, const struct model_program *program, const struct sim_sharding_options *options,
                               struct sim_sharded *out, struct base_error *error)
{
    memset(out, 0, sizeof *out);
    out->program = program;
    struct partitioner *p = base_new(arena, struct partitioner, 1);
    *p = (struct partitioner){.arena = arena, .program = program, .options = options, .out = out, .error = error, .loop = -1};
    p->current = base_new(arena, int, program->tensor_count);
    p->wanted = base_alloc(arena, (size_t)program->tensor_count, sizeof *p->wanted);
    p->wanted_known = base_new(arena, bool, program->tensor_count);
    BASE_TRY(bind_persistent(p));
    return partition_block(p, 0);
}
