/* From a program to what one device does. Propagation gives every tensor a sharding; here each operation is put where its
 * result is: operands that are sharded otherwise are gathered or moved, those that are sharded less are sliced for nothing;
 * a label that is contracted leaves a partial sum, which is reduced where it is first used. */
#include "sim/propagation.h"

#include <string.h>

enum { MOST_COPIES = 512, NO_TWIN = -2, RESULT = 2 /* of a contraction, beside its operands */ };

struct partitioner {
    struct base_arena *arena;
    const struct model_program *program;
    const struct sim_sharding_options *options;
    struct sim_sharded *out;
    struct base_error *error;
    const struct sim_shardings *shardings;
    unsigned char (*computed)[MODEL_MAX_RANK], (*used)[MODEL_MAX_RANK], (*kept)[MODEL_MAX_RANK], (*stacked)[MODEL_MAX_RANK], (*space)[MODEL_MAX_RANK]; /* the same, a byte a dimension, by slot */
    int *current;                       /* value of each tensor, or -1, by slot */
    int instance;                       /* of the layers that are being partitioned */
    int block;
    int loop;
    struct copy { int from, to; unsigned group; } copies[MOST_COPIES]; /* resharded values that may serve again, for operations grouped alike */
    bool has_copies[MOST_COPIES];       /* by value, modulo: some, now or before */
    int copy_count, outer_copies;       /* of them from before the loop that is being made */
    struct kept_copies { int loop, count; struct copy *copies; } forward[MODEL_SIZE_COUNT]; /* of the loop over a stack's layers, by trips */
    int twin;                           /* while a backward loop is partitioned: the forward loop of the same layers, or NO_TWIN */
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

/* Where a shape stands in the table of its list: a number more than its index; else 0, where it would. */
static int *slot_of_shape(const struct sim_sharded *sharded, const struct sim_shape *shape)
{
    uint32_t words[sizeof *shape / sizeof(uint32_t)], hash = 0;
    memcpy(words, shape, sizeof words);
    for (int i = 0; i < BASE_COUNT(words); i++) hash = (hash ^ words[i]) * 0x9e3779b1u; /* the golden ratio's, as Knuth has it */
    int mask = sharded->shape_slot_count - 1, at = (int)(hash >> 16) & mask;
    while (sharded->shape_slots[at] && memcmp(&sharded->shapes[sharded->shape_slots[at] - 1], shape, sizeof *shape) != 0) at = (at + 1) & mask;
    return &sharded->shape_slots[at];
}

static void grow_shape_slots(struct base_arena *arena, struct sim_sharded *sharded)
{
    sharded->shape_slot_count = sharded->shape_slot_count ? 2 * sharded->shape_slot_count : 512;
    sharded->shape_slots = base_new(arena, int, sharded->shape_slot_count);
    for (int i = 0; i < sharded->shape_count; i++) *slot_of_shape(sharded, &sharded->shapes[i]) = i + 1;
}

int sim_shape_of(struct base_arena *arena, struct sim_sharded *sharded, const struct sim_shape *shape)
{
    if (2 * sharded->shape_count >= sharded->shape_slot_count) grow_shape_slots(arena, sharded);
    int *slot = slot_of_shape(sharded, shape);
    if (*slot) return *slot - 1;
    sharded->shapes = grown(arena, sharded->shapes, sharded->shape_count, &sharded->shape_capacity, sizeof *sharded->shapes);
    sharded->shapes[sharded->shape_count] = *shape;
    return (*slot = ++sharded->shape_count) - 1;
}

int sim_stack_of(struct base_arena *arena, struct sim_sharded *sharded, int shape, int layers)
{
    struct sim_shape stack = sharded->shapes[shape];
    stack.layers = (unsigned char)layers;
    return sim_shape_of(arena, sharded, &stack);
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

/* ---- the sharding that propagation gave a tensor ---- */

static int slot_of(const struct partitioner *p, int tensor)
{
    int block = tensor_of(p, tensor)->block;
    return block >= 0 && p->shardings->is_layer[block] ? p->instance * p->program->tensor_count + tensor : tensor;
}

static const unsigned char *used_as(const struct partitioner *p, int tensor)
{
    return p->used[slot_of(p, tensor)];
}

static const unsigned char *computed_as(const struct partitioner *p, int tensor)
{
    return p->computed[slot_of(p, tensor)];
}

static int *current(const struct partitioner *p, int tensor)
{
    return &p->current[slot_of(p, tensor)];
}

/* Into what is all 0. */
static void unpack(sim_spec spec, unsigned char *out)
{
    for (; spec; out++, spec >>= 2) *out = spec & 3u;
}

/* ---- collectives ---- */

/* Layers that are not scanned share what they all need of a value from outside: it is made before their loop. */
static bool belongs_outside(const struct partitioner *p, int value)
{
    const struct sim_value *v = &p->out->values[value];
    if (p->loop < 0 || p->options->scanned || !p->options->shares_gathers || tensor_of(p, v->tensor)->layers != MODEL_ONE) return false;
    const struct sim_op *begin = &p->out->ops[p->loop];
    return begin->trips != MODEL_MICROBATCHES && begin->op->phase != MODEL_OPTIMIZER && v->loop == begin->loop;
}

static void step_on(int *index, int from)
{
    if (*index >= from) ++*index;
}

/* The last operation goes before the loop that is being made. */
static void move_outside(struct partitioner *p)
{
    struct sim_sharded *out = p->out;
    int to = p->loop, last = out->op_count - 1;
    struct sim_op moved = out->ops[last];
    for (int v = 0; v < out->value_count; v++) {
        step_on(&out->values[v].definition, to);
        step_on(&out->values[v].loop, to);
    }
    memmove(&out->ops[to + 1], &out->ops[to], (size_t)(last - to) * sizeof *out->ops);
    for (int i = to + 1; i <= last; i++) {
        step_on(&out->ops[i].loop, to);
        step_on(&out->ops[i].match, to);
    }
    p->loop = to + 1;
    moved.loop = out->ops[p->loop].loop;
    out->ops[to] = moved;
    out->values[moved.outputs[0]].definition = to;
    out->values[moved.outputs[0]].loop = moved.loop;
}

static int communicate(struct partitioner *p, const struct model_op *why, enum sim_collective kind, int axes, int value,
                       const unsigned char *spec, unsigned partial)
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
    if (belongs_outside(p, value)) move_outside(p);
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

static bool is_sharded_as(const struct partitioner *p, int value, const unsigned char *spec)
{
    return !memcmp(p->out->values[value].spec, spec, (size_t)rank_of(p, value));
}

/* Sums a partial value over its axes. Where the result wants one of them on a dimension, each device keeps its slice. */
static int reduce(struct partitioner *p, const struct model_op *why, int value, const unsigned char *to)
{
    for (unsigned axis = 1; axis < SIM_AXES; axis <<= 1) {
        const struct sim_value *v = &p->out->values[value];
        if (!(v->partial & axis)) continue;
        unsigned char spec[MODEL_MAX_RANK];
        memcpy(spec, v->spec, sizeof spec);
        int kept = -1, rank = rank_of(p, value);
        for (int i = 0; i < rank && to; i++)
            if ((to[i] & axis) && slices(spec[i], spec[i] | axis)) kept = i;
        if (kept >= 0) spec[kept] |= (unsigned char)axis;
        value = communicate(p, why, SIM_ALL_REDUCE, (int)axis, value, spec, v->partial & ~axis);
    }
    return value;
}

/* Moves an axis between dimensions, or gathers it, until no dimension has an axis that `to` lacks there; the inner axis
 * first. */
static int reshard_axes(struct partitioner *p, const struct model_op *why, int value, const unsigned char *to)
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

static int cut(struct partitioner *p, const struct model_op *why, int value, const unsigned char *spec);

/* The value that the forward pass has of what is made again in the backward pass because that costs nothing; or the value itself. */
static int original(const struct partitioner *p, int value)
{
    int of = p->options->shares_gathers ? tensor_of(p, p->out->values[value].tensor)->remade_of : -1;
    return of < 0 || *current(p, of) < 0 ? value : *current(p, of);
}

/* exactly: not one that a slice of would do. */
static int find_copy(const struct partitioner *p, int from, const unsigned char *spec, unsigned group, bool exactly)
{
    int first = original(p, from), rank = rank_of(p, from);
    if (!p->has_copies[from % MOST_COPIES] && !p->has_copies[first % MOST_COPIES]) return -1;
    for (int i = p->copy_count - 1; i >= 0; i--) {
        if ((p->copies[i].from != from && p->copies[i].from != first) || p->copies[i].group != group) continue;
        const struct sim_value *to = &p->out->values[p->copies[i].to];
        bool serves = to->loop == p->loop || to->loop == p->twin || tensor_of(p, to->tensor)->layers == MODEL_ONE; /* else it is one layer's */
        for (int d = 0; serves && d < rank; d++) serves = exactly ? to->spec[d] == spec[d] : slices(to->spec[d], spec[d]);
        if (serves) return p->copies[i].to;
    }
    return -1;
}

/* What was made before the loop serves behind it, too. */
static void note_copy(struct partitioner *p, struct copy copy)
{
    if (p->copy_count == MOST_COPIES) return;
    p->has_copies[copy.from % MOST_COPIES] = true;
    bool outside = p->out->values[copy.to].loop != p->loop && p->loop >= 0;
    int at = outside ? p->outer_copies++ : p->copy_count;
    memmove(&p->copies[at + 1], &p->copies[at], (size_t)(p->copy_count - at) * sizeof copy);
    p->copies[at] = copy;
    p->copy_count++;
}

/* What a step cuts before it moves anything is cut for itself. */
static int take_step(struct partitioner *p, const struct model_op *why, const struct sim_step *step, int value)
{
    unsigned partial = p->out->values[value].partial;
    if (step->kind == SIM_ALL_REDUCE) partial &= ~(unsigned)step->axes;
    else if (!is_sharded_as(p, value, step->before.spec)) value = cut(p, why, value, step->before.spec);
    return communicate(p, why, step->kind, step->axes, value, step->after, partial);
}

/* One operand's steps to a sharding, or the result's; shares: what others' steps have made serves. Where a step has a sharding
 * that values of programs have not, sums are made and the axes go one by one. */
static int take_steps(struct partitioner *p, const struct model_op *why, int operand, int value, const struct sim_steps *steps, const unsigned char *to, bool shares)
{
    for (int i = 0; i < steps->count; i++)
        if (steps->steps[i].operand == operand && !steps->steps[i].plain) return reshard_axes(p, why, reduce(p, why, value, to), to);
    for (int i = 0; i < steps->count; i++) {
        const struct sim_step *step = &steps->steps[i];
        bool only_parts = step->kind == SIM_COLLECTIVE_PERMUTE && !memcmp(step->before.spec, step->after, sizeof step->after);
        if (step->operand != operand || only_parts) continue;
        int from = value, made = shares ? find_copy(p, from, step->after, step->groups, true) : -1;
        value = made >= 0 ? made : take_step(p, why, step, from);
        if (shares && made < 0) note_copy(p, (struct copy){from, value, step->groups});
    }
    return value;
}

/* Until no dimension has an axis that `to` lacks there. What `to` has more is a local slice. */
static int reshard(struct partitioner *p, const struct model_op *why, int value, const unsigned char *to)
{
    if (is_sharded_as(p, value, to)) return value;
    const struct sim_value *v = &p->out->values[value];
    struct sim_layout target = sim_layout_of(to, rank_of(p, value));
    struct sim_steps steps = {.count = 0};
    struct sim_array array = {.extents = &p->options->extents, .steps = &steps, .axes = sim_mesh_axes(&p->options->extents),
                              .shape = p->out->shapes[v->shape], .tiles = sim_layout_of(v->spec, rank_of(p, value))};
    sim_array_reshard(&array, &target);
    return take_steps(p, why, 0, value, &steps, to, false);
}

static bool serves_as(const struct partitioner *p, int value, const unsigned char *spec)
{
    const struct sim_value *v = &p->out->values[value];
    bool serves = !v->partial;
    if (serves && is_sharded_as(p, value, spec)) return true;
    for (int i = 0; i < rank_of(p, value); i++) serves = serves && slices(v->spec[i], spec[i]);
    return serves;
}

/* A value as one operation needs it. */
static int made_ready(struct partitioner *p, const struct model_op *why, int value, const unsigned char *spec)
{
    if (serves_as(p, value, spec)) return value;
    int copy = reshard(p, why, reduce(p, why, value, spec), spec);
    note_copy(p, (struct copy){value, copy, 0});
    return copy;
}

/* The same, made once however many ask. */
static int ready(struct partitioner *p, const struct model_op *why, int value, const unsigned char *spec)
{
    if (serves_as(p, value, spec)) return value;
    int copy = find_copy(p, value, spec, 0, false);
    return copy >= 0 ? copy : made_ready(p, why, value, spec);
}

/* ---- operations ---- */

/* The labels of an operation under construction, where each letter stands among them, and which of them the operands and
 * the result have: sets, a bit a label. */
struct draft {
    struct sim_label labels[SIM_MOST_LABELS];
    int label_count;
    unsigned in[MODEL_MAX_INPUTS], out;
    signed char at[SIM_LETTERS];
};

static struct sim_label *find_label(struct draft *draft, char letter)
{
    return &draft->labels[draft->at[letter % SIM_LETTERS]];
}

static bool is_of_result(const struct draft *draft, char letter)
{
    return draft->out >> draft->at[letter % SIM_LETTERS] & 1;
}

static unsigned collect_labels(struct draft *draft, const char *letters, const struct model_tensor *tensor)
{
    unsigned set = 0;
    for (int i = 0; letters[i]; i++) {
        signed char *at = &draft->at[letters[i] % SIM_LETTERS];
        if (*at < 0) {
            *at = (signed char)draft->label_count;
            draft->labels[draft->label_count++] = (struct sim_label){letters[i], tensor->dims[i], 0};
        }
        set |= 1u << *at;
    }
    return set;
}

static void begin_draft(struct draft *draft)
{
    draft->label_count = 0;
    memset(draft->at, -1, sizeof draft->at);
}

static void take_labels(struct sim_op *op, const struct draft *draft)
{
    memcpy(op->labels, draft->labels, (size_t)draft->label_count * sizeof *op->labels);
    op->label_count = draft->label_count;
}

static int dim_of(const char *letters, char letter)
{
    const char *at = strchr(letters, letter);
    return at && letter ? (int)(at - letters) : -1;
}

static void spec_for(struct draft *draft, const char *letters, unsigned char *spec)
{
    memset(spec, 0, MODEL_MAX_RANK);
    for (int i = 0; letters[i]; i++) spec[i] = find_label(draft, letters[i])->axes;
}

/* A copy of a slice. */
static int cut(struct partitioner *p, const struct model_op *why, int value, const unsigned char *spec)
{
    int tensor = p->out->values[value].tensor, result = new_value(p, tensor, spec, 0);
    const struct model_tensor *t = tensor_of(p, tensor);
    struct model_op *copy = base_new(p->arena, struct model_op, 1);
    struct sim_op *op = new_op(p, SIM_COMPUTE, copy);
    struct draft draft;
    *copy = (struct model_op){.kind = MODEL_MAP, .function = MODEL_CAST, .name = why->name, .phase = why->phase, .input_count = 1, .output_count = 1, .inputs = {tensor}, .outputs = {tensor}};
    memcpy(copy->input_labels[0], t->labels, sizeof copy->input_labels[0]);
    memcpy(copy->output_labels, t->labels, sizeof copy->output_labels);
    p->out->values[result].dtype = p->out->values[value].dtype;
    p->out->values[result].persistent = false;
    begin_draft(&draft);
    collect_labels(&draft, t->labels, t);
    for (int d = 0; d < t->rank; d++) find_label(&draft, t->labels[d])->axes = spec[d];
    take_labels(op, &draft);
    op->inputs[op->input_count++] = value;
    op->outputs[op->output_count++] = result;
    p->out->values[result].definition = p->out->op_count - 1;
    return result;
}

static void einsum_roles(struct sim_op *op, const struct draft *draft)
{
    unsigned a = draft->in[0], b = draft->in[1];
    op->contracted_labels = (a | b) & ~draft->out;
    op->batch_labels = draft->out & a & b;
    op->row_labels = draft->out & a & ~b;
    op->column_labels = draft->out & ~a;
}

/* A cast to a wider type is done where its constraint wants it: what moves is the narrower operand. So is a slice. */
static const unsigned char *done_as(const struct partitioner *p, const struct model_op *source)
{
    int in = source->inputs[0], out = source->outputs[0];
    bool widens = source->kind == MODEL_MAP && source->function == MODEL_CAST &&
                  model_dtype_bytes(tensor_of(p, out)->dtype) > model_dtype_bytes(tensor_of(p, in)->dtype);
    return widens || source->kind == MODEL_SLICE ? used_as(p, out) : computed_as(p, out);
}

/* The result as it was computed, then as propagation has it. A partial sum stays one until somebody uses it. */
static void finish_output(struct partitioner *p, const struct model_op *source, struct draft *draft, int op_index, unsigned partial,
                          const struct sim_steps *steps)
{
    int tensor = source->outputs[0];
    unsigned char spec[MODEL_MAX_RANK];
    spec_for(draft, source->output_labels, spec);
    int value = new_value(p, tensor, spec, partial);
    struct sim_op *op = &p->out->ops[op_index];
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = op_index;
    if (steps) value = take_steps(p, source, RESULT, value, steps, computed_as(p, tensor), false);
    else if (!partial) value = reshard(p, source, value, done_as(p, source));
    *current(p, tensor) = value;
}

/* How the operation that is being partitioned finds a tensor: what a forward loop left to the backward loop is stacked. */
static const unsigned char *found_as(const struct partitioner *p, int tensor)
{
    int block = tensor_of(p, tensor)->block;
    return block >= 0 && block != p->block && !p->shardings->is_layer[block] ? p->kept[tensor] : used_as(p, tensor);
}

/* The collectives from an operation on move the arrays of all layers. */
static void move_stacks(struct partitioner *p, int first, int layers)
{
    for (int i = first; i < p->out->op_count; i++) {
        p->out->ops[i].stack = layers;
        sim_stack_of(p->arena, p->out, p->out->values[p->out->ops[i].inputs[0]].shape, layers); /* listed, so that it has a price */
    }
}

/* Where the backward loop's slices are sharded otherwise than their stack, the stack is moved as a whole in every turn.
 * Compilers take that out of the loop, since it is always the same; then it moves what moving each slice in its turn moves,
 * and that is what plans are priced by and what runs. */
static int slice_of(struct partitioner *p, const struct model_op *why, int tensor, int value)
{
    int forward = p->out->values[value].loop, first;
    value = ready(p, why, value, p->stacked[tensor]);
    first = p->out->op_count;
    value = ready(p, why, value, p->kept[tensor]);
    if (p->options->shares_gathers && forward >= 0) move_stacks(p, first, p->out->ops[forward].trips);
    return value;
}

/* A tensor as its users find it: summed, and past its constraint. Whoever comes later, in the backward loop too, finds the sum. */
static int settled(struct partitioner *p, const struct model_op *why, int tensor)
{
    int value = *current(p, tensor);
    const struct sim_value *v = &p->out->values[value];
    if (v->partial) {
        bool own = v->loop == p->loop;
        value = ready(p, why, value, computed_as(p, tensor));
        if (own) *current(p, tensor) = value;
    }
    return found_as(p, tensor) == p->kept[tensor] ? slice_of(p, why, tensor, value) : ready(p, why, value, used_as(p, tensor));
}

/* ---- contractions (contraction.c says where their axes go) ---- */

/* The result is summed, and put into its sharding by more than that. Sums alone wait until somebody uses them. */
static bool moves_result(const struct sim_contraction *c)
{
    for (int i = 0; i < c->steps.count; i++)
        if (c->steps.steps[i].operand == RESULT && c->steps.steps[i].kind != SIM_ALL_REDUCE) return true;
    return false;
}

/* Gives the operation's labels their axes and moves its operands; returns the axes of the partial sum. */
static unsigned place_contraction(struct partitioner *p, const struct model_op *source, int *inputs, struct draft *draft, struct sim_contraction *contraction)
{
    struct sim_contraction c = {.letters = {source->input_labels[0], source->input_labels[1], source->output_labels}, .result = source->phase == MODEL_BACKWARD && !source->remade ? SIM_GRADIENT : SIM_PROPAGATED};
    unsigned partial = 0;
    for (int i = 0; i < 3; i++) {
        int tensor = i < 2 ? source->inputs[i] : source->outputs[0];
        const struct model_tensor *t = tensor_of(p, tensor);
        c.shapes[i] = (struct sim_shape){.rank = (unsigned char)t->rank, .layers = MODEL_ONE, .dtype = t->dtype};
        memcpy(c.shapes[i].dims, t->dims, sizeof c.shapes[i].dims);
        memcpy(c.shapes[i].spec, i < 2 ? found_as(p, tensor) : computed_as(p, tensor), sizeof c.shapes[i].spec);
    }
    if (p->options->cache) sim_contract_again(p->options->cache, &p->options->extents, p->options->asked, &c);
    else sim_contract(&p->options->extents, &c);
    for (unsigned axis = 1; axis < SIM_AXES - 1; axis++) {
        if (!c.label[axis]) continue;
        find_label(draft, c.label[axis])->axes |= (unsigned char)axis;
        if (!is_of_result(draft, c.label[axis])) partial |= axis;
    }
    for (int i = 0; i < 2; i++) {
        unsigned char needed[MODEL_MAX_RANK];
        spec_for(draft, source->input_labels[i], needed);
        inputs[i] = ready(p, source, take_steps(p, source, i, inputs[i], &c.steps, needed, true), needed); /* a part over model is none over both */
    }
    *contraction = c;
    return partial;
}

/* Everything else is done as its result is sharded, a reduction as what it reduces. */
static unsigned place_labels(struct partitioner *p, const struct model_op *source, int *inputs, struct draft *draft)
{
    bool reduces = source->kind == MODEL_REDUCE;
    const char *letters = reduces ? source->input_labels[0] : source->output_labels;
    const unsigned char *spec = !reduces                  ? done_as(p, source)
                                : source->input_count > 1 ? p->space[slot_of(p, source->outputs[0])]
                                                          : found_as(p, source->inputs[0]);
    unsigned partial = 0;
    for (int d = 0; letters[d]; d++) {
        find_label(draft, letters[d])->axes = spec[d];
        if (reduces && !is_of_result(draft, letters[d])) partial |= spec[d];
    }
    for (int i = 0; i < source->input_count; i++) {
        unsigned char own[MODEL_MAX_RANK];
        spec_for(draft, source->input_labels[i], own);
        /* What is broadcast comes to each user by a reshape of its own, and XLA knows copies by what they are made of. */
        bool broadcast = strlen(source->input_labels[i]) != strlen(letters) && !source->remade;
        inputs[i] = (broadcast ? made_ready : ready)(p, source, inputs[i], own);
    }
    return partial;
}

static enum base_status partition_compute(struct partitioner *p, const struct model_op *source)
{
    int inputs[MODEL_MAX_INPUTS], tensor = source->outputs[0];
    for (int i = 0; i < source->input_count; i++) inputs[i] = settled(p, source, source->inputs[i]);
    struct draft draft;
    begin_draft(&draft);
    for (int i = 0; i < source->input_count; i++)
        draft.in[i] = collect_labels(&draft, source->input_labels[i], tensor_of(p, source->inputs[i]));
    draft.out = collect_labels(&draft, source->output_labels, tensor_of(p, tensor));
    struct sim_contraction contraction;
    const bool contracts = source->kind == MODEL_EINSUM;
    unsigned partial = contracts ? place_contraction(p, source, inputs, &draft, &contraction) : place_labels(p, source, inputs, &draft);
    struct sim_op *op = new_op(p, SIM_COMPUTE, source);
    int index = p->out->op_count - 1;
    take_labels(op, &draft);
    op->input_count = source->input_count;
    memcpy(op->inputs, inputs, (size_t)op->input_count * sizeof *op->inputs);
    if (contracts) einsum_roles(op, &draft);
    finish_output(p, source, &draft, index, partial, contracts && moves_result(&contraction) ? &contraction.steps : NULL);
    return BASE_OK;
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

/* The operand's sharding that makes the result's. */
static void before_reshape(const struct model_op *source, const unsigned char *spec, unsigned char *out)
{
    memset(out, 0, MODEL_MAX_RANK);
    for (int d = 0; source->output_labels[d]; d++)
        for (int i = 0; source->input_labels[0][i]; i++) {
            unsigned char one[MODEL_MAX_RANK] = {0};
            one[i] = 1;
            if (reshaped_axes(source, one, source->output_labels[d])) out[i] = spec[d];
        }
}

/* Heads that do not divide by what cuts them. */
static bool is_uneven(const struct partitioner *p, int size, unsigned axes)
{
    struct sim_decision question;
    memset(&question, 0, sizeof question);
    question.left.rank = 1, question.left.dims[0] = (unsigned char)size, question.left.layers = MODEL_ONE;
    question.right = question.left;
    question.left.spec[0] = question.left_times = (unsigned char)axes;
    return sim_decide(&p->options->extents, &question); /* all parts with their padding are more than the whole */
}

/* Parts of a joined dimension are whole heads only if heads divide; else it is gathered, and split or joined on every device. */
static void gather_uneven_heads(const struct partitioner *p, const struct model_op *source, unsigned char *needed)
{
    const struct model_tensor *in = tensor_of(p, source->inputs[0]), *out = tensor_of(p, source->outputs[0]);
    for (int i = 0; source->input_labels[0][i]; i++) {
        const char letter = source->input_labels[0][i];
        unsigned axes = needed[i];
        if (!axes || dim_of(source->output_labels, letter) >= 0) continue;
        if (strchr("hg", letter) && is_uneven(p, in->dims[i], axes)) needed[i] = 0;
        for (int d = 0; source->output_labels[d] && needed[i]; d++) {
            const char made = source->output_labels[d];
            bool of_it = strchr("hg", made) && dim_of(source->input_labels[0], made) < 0;
            if (of_it && is_uneven(p, out->dims[d], axes)) needed[i] = 0;
        }
    }
}

static enum base_status partition_reshape(struct partitioner *p, const struct model_op *source)
{
    int tensor = source->outputs[0];
    const struct model_tensor *t = tensor_of(p, tensor);
    unsigned char needed[MODEL_MAX_RANK], spec[MODEL_MAX_RANK] = {0};
    before_reshape(source, computed_as(p, tensor), needed);
    gather_uneven_heads(p, source, needed);
    int input = ready(p, source, settled(p, source, source->inputs[0]), needed);
    for (int i = 0; i < t->rank; i++) spec[i] = (unsigned char)reshaped_axes(source, p->out->values[input].spec, source->output_labels[i]);
    int value = new_value(p, tensor, spec, 0);
    struct sim_op *op = new_op(p, SIM_COMPUTE, source);
    op->inputs[op->input_count++] = input;
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = p->out->op_count - 1;
    *current(p, tensor) = reshard(p, source, value, computed_as(p, tensor));
    return BASE_OK;
}

/* A parameter that is sharded less than its state is gathered when it is new (ZeRO-1). */
static void gather_updated(struct partitioner *p, const struct model_op *source, int slice, int stack)
{
    int first = p->out->op_count, whole = reshard(p, source, slice, used_as(p, source->inputs[0]));
    p->out->values[whole].persistent = true;
    move_stacks(p, first, stack);
}

/* Scanned layers have one array of each parameter: it is gathered as a whole, behind the loop over its layers. */
static void gather_updated_stacks(struct partitioner *p, int begin)
{
    for (int i = begin + 1; i < p->out->ops[begin].match; i++) {
        const struct sim_op *op = &p->out->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_UPDATE || p->out->values[op->outputs[0]].persistent) continue;
        gather_updated(p, op->op, op->outputs[0], p->out->ops[begin].trips);
    }
}

/* Whole-array updates in place, computed as the state is sharded. */
static enum base_status partition_update(struct partitioner *p, const struct model_op *source)
{
    int inputs[MODEL_MAX_INPUTS];
    unsigned char spec[MODEL_MAX_RANK] = {0};
    const struct model_tensor *first = tensor_of(p, source->inputs[0]);
    for (int i = 0; i < source->input_count; i++) {
        inputs[i] = *current(p, source->inputs[i]);
        bool same_shape = !strcmp(source->input_labels[i], source->input_labels[0]) && tensor_of(p, source->inputs[i])->block < 0;
        for (int d = 0; same_shape && d < first->rank; d++) spec[d] |= used_as(p, source->inputs[i])[d];
    }
    for (int i = 0; i < source->input_count; i++) {
        bool same_shape = !strcmp(source->input_labels[i], source->input_labels[0]);
        unsigned char own[MODEL_MAX_RANK];
        memcpy(own, same_shape ? spec : used_as(p, source->inputs[i]), sizeof own);
        inputs[i] = ready(p, source, inputs[i], own);
    }
    struct sim_op *op = new_op(p, SIM_COMPUTE, source);
    op->input_count = source->input_count;
    memcpy(op->inputs, inputs, sizeof op->inputs);
    op->output_count = source->output_count;
    for (int i = 0; i < source->output_count; i++) op->outputs[i] = *current(p, source->outputs[i]);
    unsigned missing = 0;
    for (int d = 0; d < first->rank; d++) missing |= (unsigned)(spec[d] & ~used_as(p, source->inputs[0])[d]);
    if (!missing || source->function == MODEL_ACCUMULATE) return BASE_OK;
    int slice = new_value(p, source->inputs[0], spec, 0);
    p->out->values[slice].persistent = false;
    p->out->values[slice].definition = p->out->op_count - 1;
    p->out->ops[p->out->op_count - 1].outputs[0] = slice;
    bool stacked = p->options->scanned && first->layers != MODEL_ONE;
    if (!stacked) gather_updated(p, source, slice, MODEL_ONE);
    return BASE_OK;
}

/* ---- blocks ---- */

static enum base_status partition_block(struct partitioner *p, int block);

static void bind(struct partitioner *p, int tensor, const unsigned char *spec)
{
    *current(p, tensor) = new_value(p, tensor, spec, 0);
}

/* A value in exactly this sharding, if need be by a copy of a slice. */
static int exactly(struct partitioner *p, const struct model_op *why, int value, const unsigned char *spec)
{
    value = ready(p, why, value, spec);
    return is_sharded_as(p, value, spec) ? value : cut(p, why, value, spec);
}

/* Layers that are not scanned are all one computation, in which what was gathered forward serves backward, too. */
static void keep_copies(struct partitioner *p, const struct model_op *source, int trips, int loop, int first)
{
    struct kept_copies *kept = &p->forward[trips];
    if (!p->options->shares_gathers || p->options->scanned || source->reversed || source->phase != MODEL_FORWARD ||
        trips == MODEL_MICROBATCHES)
        return;
    *kept = (struct kept_copies){loop, p->copy_count - first, base_new(p->arena, struct copy, p->copy_count - first + 1)};
    memcpy(kept->copies, p->copies + first, (size_t)kept->count * sizeof *kept->copies);
}

static void find_kept_copies(struct partitioner *p, const struct model_op *source, int trips)
{
    const struct kept_copies *kept = &p->forward[trips];
    p->twin = NO_TWIN;
    if (!source->reversed || !kept->copies) return;
    p->twin = kept->loop;
    for (int i = 0; i < kept->count && p->copy_count < MOST_COPIES; i++) p->copies[p->copy_count++] = kept->copies[i];
}

/* What goes round a loop has one sharding: at its start, inside and at its end; once round, it may end in another. */
static enum base_status partition_loop(struct partitioner *p, const struct model_op *source, enum model_size trips, int *carried)
{
    bool once = p->options->extents.sizes && p->options->extents.sizes[trips] == 1 && trips != source->trips;
    for (int i = 0; i < source->carry_count; i++) carried[i] = exactly(p, source, carried[i], computed_as(p, source->carries[i].in));
    struct sim_op *begin = new_op(p, SIM_LOOP_BEGIN, source);
    int begin_index = p->out->op_count - 1, outer = p->loop, copies = p->outer_copies, ins[MODEL_MAX_CARRIES];
    p->outer_copies = p->copy_count;
    begin->trips = (int)trips;
    for (int i = 0; i < source->carry_count; i++) begin->inputs[begin->input_count++] = carried[i];
    p->loop = begin_index;
    for (int i = 0; i < source->carry_count; i++) {
        bind(p, source->carries[i].in, p->out->values[carried[i]].spec);
        p->out->ops[begin_index].outputs[p->out->ops[begin_index].output_count++] = *current(p, source->carries[i].in);
    }
    find_kept_copies(p, source, trips);
    BASE_TRY(partition_block(p, source->body));
    begin_index = p->loop; /* something may have gone before it */
    keep_copies(p, source, trips, begin_index, p->outer_copies);
    for (int i = 0; i < source->carry_count; i++) {
        int out = source->carries[i].out;
        ins[i] = settled(p, source, out);
        if (!once) ins[i] = exactly(p, source, ins[i], computed_as(p, source->carries[i].in));
    }
    struct sim_op *end = new_op(p, SIM_LOOP_END, source);
    end->trips = (int)trips;
    end->match = begin_index;
    end->loop = outer;
    for (int i = 0; i < source->carry_count; i++) end->inputs[end->input_count++] = ins[i];
    int end_index = p->out->op_count - 1;
    p->out->ops[begin_index].match = end_index;
    p->loop = outer;
    p->copy_count = p->outer_copies;
    p->outer_copies = copies;
    p->twin = NO_TWIN;
    for (int i = 0; i < source->carry_count; i++) {
        carried[i] = new_value(p, source->carries[i].result, p->out->values[ins[i]].spec, 0);
        p->out->values[carried[i]].definition = end_index;
        struct sim_op *closing = &p->out->ops[end_index];
        closing->outputs[closing->output_count++] = carried[i];
    }
    if (p->options->scanned && source->phase == MODEL_OPTIMIZER) gather_updated_stacks(p, begin_index);
    return BASE_OK;
}

/* The layers of a stack: one loop, or the first layer by itself and a loop over the rest. */
static enum base_status partition_layers(struct partitioner *p, const struct model_op *source, int *carried)
{
    int order[SIM_INSTANCES] = {SIM_FIRST_LAYER, SIM_LATER_LAYERS};
    if (source->reversed) order[0] = SIM_LATER_LAYERS, order[1] = SIM_FIRST_LAYER;
    for (int turn = 0; turn < SIM_INSTANCES; turn++) {
        p->instance = order[turn];
        if (p->instance == SIM_LATER_LAYERS) {
            BASE_TRY(partition_loop(
                p, source, source->trips == MODEL_ENCODER_LAYERS ? MODEL_LATER_ENCODER_LAYERS : MODEL_LATER_DECODER_LAYERS, carried));
            continue;
        }
        for (int i = 0; i < source->carry_count; i++)
            *current(p, source->carries[i].in) = ready(p, source, carried[i], computed_as(p, source->carries[i].in));
        BASE_TRY(partition_block(p, source->body));
        for (int i = 0; i < source->carry_count; i++) carried[i] = settled(p, source, source->carries[i].out);
    }
    p->instance = SIM_LATER_LAYERS;
    return BASE_OK;
}

static enum base_status partition_repeated(struct partitioner *p, const struct model_op *source)
{
    int carried[MODEL_MAX_CARRIES];
    for (int i = 0; i < source->carry_count; i++) carried[i] = settled(p, source, source->carries[i].init);
    bool peeled = p->shardings->is_layer[source->body] && p->shardings->first_differs[source->trips];
    BASE_TRY(peeled ? partition_layers(p, source, carried) : partition_loop(p, source, source->trips, carried));
    for (int i = 0; i < source->carry_count; i++) *current(p, source->carries[i].result) = carried[i];
    return BASE_OK;
}

static enum base_status partition_op(struct partitioner *p, const struct model_op *source)
{
    switch (source->kind) {
    case MODEL_LOOP: return partition_repeated(p, source);
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
            int value = *current(p, op->outputs[o]);
            if (p->out->values[value].persistent || !p->out->values[value].partial || is_used(p, value)) continue;
            *current(p, op->outputs[o]) = ready(p, op, ready(p, op, value, computed_as(p, op->outputs[o])), used_as(p, op->outputs[o]));
        }
    }
}

static enum base_status partition_block(struct partitioner *p, int block)
{
    const struct model_block *b = &p->program->blocks[block];
    int outer = p->block;
    p->block = block;
    for (int i = 0; i < b->op_count; i++) BASE_TRY(partition_op(p, &b->ops[i]));
    finish_results(p, b);
    p->block = outer;
    return BASE_OK;
}

static enum base_status hold(struct partitioner *p, int tensor)
{
    struct sim_sharded *out = p->out;
    if (out->persistent_count == BASE_COUNT(out->persistent_shapes))
        return base_fail(p->error, BASE_INTERNAL, "more than %d persistent tensors", out->persistent_count);
    int shape = out->values[*current(p, tensor)].shape, layers = p->program->tensors[tensor].layers;
    out->persistent_shapes[out->persistent_count] = sim_stack_of(p->arena, out, shape, layers);
    out->persistent_categories[out->persistent_count++] = p->program->tensors[tensor].category;
    return BASE_OK;
}

static enum base_status bind_persistent(struct partitioner *p)
{
    for (int i = 0; i < p->program->tensor_count; i++) {
        if (p->program->tensors[i].block >= 0) continue;
        bind(p, i, used_as(p, i));
        BASE_TRY(hold(p, i));
    }
    return BASE_OK;
}

static void take_shardings(struct partitioner *p)
{
    int tensors = p->program->tensor_count, slots = SIM_INSTANCES * tensors;
    p->current = base_new(p->arena, int, slots);
    p->computed = base_alloc(p->arena, (size_t)slots, sizeof *p->computed);
    p->used = base_alloc(p->arena, (size_t)slots, sizeof *p->used);
    p->space = base_alloc(p->arena, (size_t)slots, sizeof *p->space);
    p->kept = base_alloc(p->arena, (size_t)tensors, sizeof *p->kept);
    p->stacked = base_alloc(p->arena, (size_t)tensors, sizeof *p->stacked);
    for (int i = 0; i < slots; i++) {
        p->current[i] = -1;
        unpack(p->shardings->computed[i], p->computed[i]);
        unpack(p->shardings->used[i], p->used[i]);
        unpack(p->shardings->space[i], p->space[i]);
        if (i >= tensors) continue;
        unpack(p->shardings->kept[i], p->kept[i]);
        unpack(p->shardings->stacked[i], p->stacked[i]);
    }
}

enum base_status sim_partition(struct base_arena *arena, const struct model_program *program, const struct sim_sharding_options *options,
                               const struct sim_shardings *shardings, struct sim_sharded *out, struct base_error *error)
{
    struct partitioner *p = base_new(arena, struct partitioner, 1);
    *p = (struct partitioner){.arena = arena, .program = program, .options = options, .shardings = shardings, .out = out, .error = error};
    take_shardings(p);
    memset(out, 0, sizeof *out);
    out->program = program;
    p->loop = -1;
    p->twin = NO_TWIN;
    BASE_TRY(bind_persistent(p));
    return partition_block(p, 0);
}
