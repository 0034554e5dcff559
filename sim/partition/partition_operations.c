/* Partitions every operation except loops: assigns mesh axes to its labels, and reshards its operands. */
#include "sim/partition/partitioner.h"

#include <string.h>

/* ---- labels ---- */

/* An operation under construction: its labels, the index of each letter, and sets of labels of operands and result,
 * with a bit per label. */
struct labelled {
    struct sim_label labels[SIM_MOST_LABELS];
    int label_count;
    unsigned in[MODEL_MAX_INPUTS], out;
    signed char at[SIM_LETTERS];
};

static struct sim_label *find_label(struct labelled *labelled, char letter)
{
    return &labelled->labels[labelled->at[letter % SIM_LETTERS]];
}

static bool is_of_result(const struct labelled *labelled, char letter)
{
    return labelled->out >> labelled->at[letter % SIM_LETTERS] & 1;
}

static unsigned collect_labels(struct labelled *labelled, const char *letters, const struct model_tensor *tensor)
{
    unsigned set = 0;
    for (int i = 0; letters[i]; i++) {
        signed char *at = &labelled->at[letters[i] % SIM_LETTERS];
        if (*at < 0) {
            *at = (signed char)labelled->label_count;
            labelled->labels[labelled->label_count++] = (struct sim_label){letters[i], tensor->dims[i], 0};
        }
        set |= 1u << *at;
    }
    return set;
}

static void begin_labels(struct labelled *labelled)
{
    labelled->label_count = 0;
    memset(labelled->at, -1, sizeof labelled->at);
}

static void take_labels(struct sim_op *op, const struct labelled *labelled)
{
    memcpy(op->labels, labelled->labels, (size_t)labelled->label_count * sizeof *op->labels);
    op->label_count = labelled->label_count;
}

static void spec_for(struct labelled *labelled, const char *letters, sim_order *spec)
{
    memset(spec, 0, MODEL_MAX_RANK * sizeof *spec);
    for (int i = 0; letters[i]; i++) spec[i] = find_label(labelled, letters[i])->axes;
}

/* ---- elementwise operations, reductions, contractions ---- */

static void einsum_roles(struct sim_op *op, const struct labelled *labelled)
{
    unsigned a = labelled->in[0], b = labelled->in[1];
    op->contracted_labels = (a | b) & ~labelled->out;
    op->batch_labels = labelled->out & a & b;
    op->row_labels = labelled->out & a & ~b;
    op->column_labels = labelled->out & ~a;
}

/* A widening cast is computed in its constraint's sharding, so that the narrower operand moves. So is a slice. */
static const sim_order *done_as(const struct sim_partitioner *p, const struct model_op *source)
{
    int in = source->inputs[0], out = source->outputs[0];
    bool widens =
        source->kind == MODEL_MAP && (source->function == MODEL_CAST || source->function == MODEL_DEQUANTIZE) &&
        model_dtype_bytes(sim_part_tensor_of(p, out)->dtype) > model_dtype_bytes(sim_part_tensor_of(p, in)->dtype);
    return widens || source->kind == MODEL_SLICE ? sim_part_used_as(p, out) : sim_part_computed_as(p, out);
}

/* True if the result needs steps other than sums to reach its sharding. Sums alone wait for the first user. */
static bool moves_result(const struct sim_contraction *c)
{
    for (int i = 0; i < c->steps.count; i++)
        if (c->steps.steps[i].operand == SIM_RESULT && c->steps.steps[i].kind != SIM_ALL_REDUCE) return true;
    return false;
}

/* Sets the result's computed, then its propagated sharding. A partial sum is not reduced before its first user. */
static void finish_output(struct sim_partitioner *p, const struct model_op *source, struct labelled *labelled,
                          int op_index, unsigned partial, const struct sim_contraction *contraction)
{
    int tensor = source->outputs[0];
    sim_order spec[MODEL_MAX_RANK];
    spec_for(labelled, source->output_labels, spec);
    int value = sim_part_new_value(p, tensor, spec, partial);
    struct sim_op *op = &p->out->ops[op_index];
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = op_index;
    if (contraction && moves_result(contraction))
        value = sim_part_take_steps(p, source, SIM_RESULT, value, &contraction->steps, sim_part_computed_as(p, tensor),
                                    SIM_PART_OWN_COPIES);
    else if (contraction && partial) sim_part_leave_sums(p, value, &contraction->steps);
    else if (!partial) value = sim_part_reshard(p, source, value, done_as(p, source));
    *sim_part_current(p, tensor) = value;
}

/* ---- contractions (contraction.c chooses their axes) ---- */

/* Between contractions, sequences that are sharded over context are sharded over the model axis, too. As in
 * Megatron-LM, they are gathered before each contraction, and its sums are scattered. This excludes experts and groups
 * of tokens, which are leading dimensions, and heads, which the model axis shards before context. */
static void leave_model_axis(const struct sim_partitioner *p, int rank, sim_order *spec)
{
    const unsigned model = p->options->joins_gradients ? p->options->model_axis : 0;
    for (int d = 1; d < rank; d++) {
        const unsigned axes = sim_set_of(spec[d]);
        if (axes & model && axes & ~model && 1u << sim_order_axis(spec[d], 0) != model)
            spec[d] = sim_order_without(spec[d], model);
    }
}

/* Assigns axes to the operation's labels and reshards its operands. Returns the axes of the partial sum. */
static unsigned place_contraction(struct sim_partitioner *p, const struct model_op *source, int *inputs,
                                  struct labelled *labelled, struct sim_contraction *contraction)
{
    struct sim_contraction c = {.letters = {source->input_labels[0], source->input_labels[1], source->output_labels},
                                .result = source->phase == MODEL_BACKWARD && !source->recomputed ? SIM_GRADIENT
                                                                                                 : SIM_PROPAGATED,
                                .keeps_shards = p->options->keeps_shards};
    unsigned partial = 0;
    for (int i = 0; i < 3; i++) {
        int tensor = i < 2 ? source->inputs[i] : source->outputs[0];
        const struct model_tensor *t = sim_part_tensor_of(p, tensor);
        c.shapes[i] = (struct sim_shape){.rank = (unsigned char)t->rank, .layers = MODEL_ONE, .dtype = t->dtype};
        memcpy(c.shapes[i].dims, t->dims, sizeof c.shapes[i].dims);
        sim_order spec[MODEL_MAX_RANK] = {0};
        memcpy(spec, i < 2 ? sim_part_found_as(p, tensor) : sim_part_computed_as(p, tensor),
               (size_t)t->rank * sizeof *spec);
        leave_model_axis(p, t->rank, spec);
        if (i < 2) inputs[i] = sim_part_ready(p, source, inputs[i], spec);
        c.layouts[i] = sim_layout_of(spec, t->rank);
    }
    if (p->options->known) sim_contract_again(p->options->known, &p->options->extents, p->options->asked, &c);
    else sim_contract(&p->options->extents, &c);
    for (int i = 0; i < 2; i++) {
        for (const char *letter = source->input_labels[i]; *letter; letter++) {
            struct sim_label *label = find_label(labelled, *letter);
            label->axes = sim_join(label->axes, c.split[i].of[letter - source->input_labels[i]]);
            if (!is_of_result(labelled, *letter)) partial |= sim_set_of(label->axes);
        }
    }
    for (int i = 0; i < 2; i++) {
        sim_order needed[MODEL_MAX_RANK];
        spec_for(labelled, source->input_labels[i], needed);
        inputs[i] = sim_part_ready(
            p, source, sim_part_take_steps(p, source, i, inputs[i], &c.steps, needed, SIM_PART_SHARED_COPIES),
            needed); /* a shard over model alone is not one over both */
    }
    *contraction = c;
    return partial;
}

/* ---- broadcasts ---- */

/* XLA has an explicit broadcast with a single user. It keeps its operand's sharding if that has more tiles than the
 * user's, even if it must then be resharded. Sets the broadcast's sharding. */
static bool keeps_tiles(const struct sim_partitioner *p, const struct labelled *labelled, const char *letters,
                        const sim_order *spec, const char *own_letters, sim_order *kept)
{
    const struct sim_extents *extents = &p->options->extents;
    const struct sim_label *labels = labelled->labels;
    unsigned taken = 0, used = 0;
    bool clashes = false;
    memset(kept, 0, MODEL_MAX_RANK * sizeof *kept);
    for (int d = 0; letters[d]; d++) {
        const char *own = strchr(own_letters, letters[d]);
        const sim_order wanted = labels[labelled->at[letters[d] % SIM_LETTERS]].axes;
        kept[d] = own ? spec[own - own_letters] : 0;
        clashes = clashes || (kept[d] && wanted && kept[d] != wanted) || (taken & (kept[d] | wanted));
        taken |= sim_set_of(kept[d] | wanted);
        used |= sim_set_of(kept[d]);
    }
    unsigned wanted = 0;
    for (int i = 0; i < labelled->label_count; i++) wanted |= sim_set_of(labels[i].axes);
    return clashes && sim_fewer(extents, wanted, used);
}

/* Broadcasts a value with some letters of an operation to all of them. */
static int broadcast(struct sim_partitioner *p, const struct model_op *why, const char *own_letters, int value,
                     int tensor, const char *letters, const sim_order *spec)
{
    const struct model_tensor *t = sim_part_tensor_of(p, tensor);
    struct model_op *copy = base_new(p->arena, struct model_op, 1);
    *copy = (struct model_op){.kind = MODEL_MAP,
                              .function = MODEL_CAST,
                              .name = why->name,
                              .phase = why->phase,
                              .input_count = 1,
                              .output_count = 1,
                              .inputs = {p->out->values[value].tensor},
                              .outputs = {tensor}};
    memcpy(copy->input_labels[0], own_letters, sizeof copy->input_labels[0]);
    memcpy(copy->output_labels, letters, sizeof copy->output_labels);
    int result = sim_part_new_value(p, tensor, spec, 0);
    sim_part_set_dtype(p, result, p->out->values[value].dtype);
    struct sim_op *op = sim_part_new_op(p, SIM_COMPUTE, copy);
    for (int d = 0; d < t->rank; d++)
        op->labels[op->label_count++] = (struct sim_label){letters[d], t->dims[d], spec[d]};
    op->inputs[op->input_count++] = value;
    op->outputs[op->output_count++] = result;
    p->out->values[result].definition = p->out->op_count - 1;
    return result;
}

/* Replaces one of the operation's operands by its broadcast. */
static const struct model_op *with_broadcast(struct sim_partitioner *p, const struct model_op *source, int input)
{
    struct model_op *copy = base_new(p->arena, struct model_op, 1);
    *copy = *source;
    memcpy(copy->input_labels[input], source->kind == MODEL_REDUCE ? source->input_labels[0] : source->output_labels,
           sizeof copy->input_labels[input]);
    return copy;
}

/* Other operations are computed in their result's sharding, a reduction in its operand's. */
static unsigned place_labels(struct sim_partitioner *p, const struct model_op **at, int *inputs,
                             struct labelled *labelled)
{
    const struct model_op *source = *at;
    bool reduces = source->kind == MODEL_REDUCE;
    const char *letters = reduces ? source->input_labels[0] : source->output_labels;
    const sim_order *spec = !reduces                  ? done_as(p, source)
                            : source->input_count > 1 ? p->space[sim_part_slot_of(p, source->outputs[0])]
                                                      : sim_part_found_as(p, source->inputs[0]);
    unsigned partial = 0;
    const bool of_rows = source->of_chosen || model_function_is(source->function, MODEL_IS_OF_ROWS);
    for (int d = 0; letters[d]; d++) {
        find_label(labelled, letters[d])->axes = of_rows && !letters[d + 1] ? 0 : spec[d];
        if (reduces && !is_of_result(labelled, letters[d])) partial |= sim_set_of(spec[d]);
    }
    for (int i = 0; i < source->input_count; i++) {
        sim_order own[MODEL_MAX_RANK], kept[MODEL_MAX_RANK];
        spec_for(labelled, source->input_labels[i], own);
        /* Each user reshapes a broadcast separately, and XLA identifies copies by their operands. */
        bool is_broadcast = strlen(source->input_labels[i]) != strlen(letters);
        const sim_order *found = sim_part_found_as(p, source->inputs[i]);
        bool is_had = sim_part_tensor_of(p, source->outputs[0])->recomputed_of >= 0; /* XLA has it already */
        if (is_broadcast && !is_had && keeps_tiles(p, labelled, letters, found, source->input_labels[i], kept)) {
            int tensor = reduces ? source->inputs[0] : source->outputs[0];
            inputs[i] = broadcast(p, source, source->input_labels[i], inputs[i], tensor, letters, kept);
            spec_for(labelled, letters, own);
            *at = with_broadcast(p, *at, i);
        }
        inputs[i] =
            (is_broadcast && !source->recomputed ? sim_part_made_ready : sim_part_ready)(p, source, inputs[i], own);
    }
    return partial;
}

static enum base_status partition_compute(struct sim_partitioner *p, const struct model_op *source)
{
    if (sim_partition_examples(p, source) || sim_partition_noise(p, source)) return BASE_OK;
    int inputs[MODEL_MAX_INPUTS], tensor = source->outputs[0];
    for (int i = 0; i < source->input_count; i++) inputs[i] = sim_part_settled(p, source, source->inputs[i]);
    struct labelled labelled;
    begin_labels(&labelled);
    for (int i = 0; i < source->input_count; i++)
        labelled.in[i] = collect_labels(&labelled, source->input_labels[i], sim_part_tensor_of(p, source->inputs[i]));
    labelled.out = collect_labels(&labelled, source->output_labels, sim_part_tensor_of(p, tensor));
    struct sim_contraction contraction;
    const bool contracts = source->kind == MODEL_EINSUM;
    unsigned partial = contracts ? place_contraction(p, source, inputs, &labelled, &contraction)
                                 : place_labels(p, &source, inputs, &labelled);
    struct sim_op *op = sim_part_new_op(p, SIM_COMPUTE, source);
    int index = p->out->op_count - 1;
    take_labels(op, &labelled);
    op->input_count = source->input_count;
    memcpy(op->inputs, inputs, (size_t)op->input_count * sizeof *op->inputs);
    if (contracts) einsum_roles(op, &labelled);
    finish_output(p, source, &labelled, index, partial, contracts ? &contraction : NULL);
    return BASE_OK;
}

/* True if rows become groups, or groups rows. Each group has one device's rows, with each sequence on devices that
 * dispatch tokens to experts separately. Sequences are the major part of groups. Rows and groups are leading
 * dimensions, then lengths. */
static bool is_of_groups(const struct sim_partitioner *p, const struct model_op *source, int tensor)
{
    const int other = tensor == source->inputs[0] ? source->outputs[0] : source->inputs[0];
    return p->options->sent_parts && sim_part_tensor_of(p, tensor)->dims[0] == MODEL_DECODER_GROUPS &&
           sim_part_tensor_of(p, other)->dims[0] == MODEL_BATCH;
}

static void join_parts(const struct sim_partitioner *p, sim_order *spec)
{
    const unsigned parts = p->options->sent_parts;
    spec[0] = sim_join(spec[0], sim_order_without(spec[1], ~parts));
    spec[1] = sim_order_without(spec[1], parts);
}

static void split_parts(const struct sim_partitioner *p, sim_order *spec)
{
    const unsigned parts = p->options->sent_parts;
    spec[1] = sim_join(sim_order_without(spec[0], ~parts), spec[1]);
    spec[0] = sim_order_without(spec[0], parts);
}

/* The operand's sharding that gives the result's. */
static void before_reshape(const struct sim_partitioner *p, const struct model_op *source, const sim_order *spec,
                           sim_order *out)
{
    memset(out, 0, MODEL_MAX_RANK * sizeof *out);
    for (int d = 0; source->output_labels[d]; d++)
        if (source->reshaped_from[d] >= 0) out[source->reshaped_from[d]] = spec[d];
    if (is_of_groups(p, source, source->outputs[0])) split_parts(p, out);
    if (!is_of_groups(p, source, source->inputs[0])) return;
    out[1] = spec[1];
    join_parts(p, out);
}

/* The result's sharding that the operand's gives. */
static void behind_reshape(const struct sim_partitioner *p, const struct model_op *source, const sim_order *in,
                           sim_order *spec)
{
    for (int d = 0; source->output_labels[d]; d++)
        spec[d] = source->reshaped_from[d] < 0 ? 0 : in[source->reshaped_from[d]];
    if (is_of_groups(p, source, source->inputs[0])) split_parts(p, spec);
    if (!is_of_groups(p, source, source->outputs[0])) return;
    spec[1] = in[1];
    join_parts(p, spec);
}

static bool is_joined(const struct sim_partitioner *p, char letter)
{
    return model_dimension_of(p->program, letter)->outer;
}

/* Shards of a joined dimension are whole heads only if heads divide. Otherwise the dimension is gathered, and split or
 * joined on every device. */
static bool gather_uneven_heads(const struct sim_partitioner *p, const struct model_op *source, sim_order *needed)
{
    bool gathered = false;
    const struct model_tensor *in = sim_part_tensor_of(p, source->inputs[0]),
                              *out = sim_part_tensor_of(p, source->outputs[0]);
    for (int d = 0; source->output_labels[d]; d++) {
        const int i = source->reshaped_from[d];
        const char made = source->output_labels[d], of = i < 0 ? made : source->input_labels[0][i];
        if (made == of || !needed[i] || is_of_groups(p, source, source->inputs[0])) continue;
        bool uneven = (!is_joined(p, of) && sim_part_is_uneven(p, in->dims[i], needed[i])) ||
                      (!is_joined(p, made) && sim_part_is_uneven(p, out->dims[d], needed[i]));
        if (!uneven) continue;
        needed[i] = 0;
        gathered = true;
    }
    return gathered;
}

/* A token's place counts the earlier tokens of its group, of which every device then has all. */
static bool gather_routed(const struct sim_partitioner *p, const struct model_op *source, sim_order *needed)
{
    const bool routes =
        model_function_is(source->function, MODEL_IS_CHOICE) && !is_of_groups(p, source, source->inputs[0]);
    bool gathered = false;
    for (int d = 1; routes && source->input_labels[0][d]; d++) {
        gathered = gathered || needed[d];
        needed[d] = 0;
    }
    return gathered;
}

/* The devices that shard the blocks exchange them. */
static void partition_roll(struct sim_partitioner *p, const struct model_op *source)
{
    const int tensor = source->outputs[0];
    const sim_order *spec = sim_part_computed_as(p, tensor);
    const char *blocks = source->output_labels;
    sim_order moved = 0;
    for (int d = 0; blocks[d]; d++)
        if (sim_part_tensor_of(p, tensor)->dims[d] == MODEL_SEQUENCE_BLOCKS) moved = spec[d];
    int input = sim_part_ready(p, source, sim_part_settled(p, source, source->inputs[0]), spec);
    if (!sim_part_is_sharded_as(p, input, spec)) input = sim_part_cut(p, source, input, spec);
    const int value = sim_part_new_value(p, tensor, spec, 0);
    struct sim_op *op = sim_part_new_op(p, SIM_COMMUNICATE, source);
    op->collective = SIM_COLLECTIVE_PERMUTE;
    op->axes = sim_set_of(moved);
    op->inputs[op->input_count++] = input;
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = p->out->op_count - 1;
    *sim_part_current(p, tensor) = sim_part_reshard(p, source, value, sim_part_used_as(p, tensor));
}

static enum base_status partition_reshape(struct sim_partitioner *p, const struct model_op *source)
{
    int tensor = source->outputs[0];
    if (source->function == MODEL_ROLL) {
        partition_roll(p, source);
        return BASE_OK;
    }
    sim_order needed[MODEL_MAX_RANK], spec[MODEL_MAX_RANK] = {0};
    before_reshape(p, source, sim_part_computed_as(p, tensor), needed);
    const bool routed = gather_routed(p, source, needed), gathered = gather_uneven_heads(p, source, needed) || routed;
    int input = sim_part_ready(p, source, sim_part_settled(p, source, source->inputs[0]), needed);
    behind_reshape(p, source, p->out->values[input].spec, spec);
    if (model_function_is(source->function, MODEL_IS_OF_WHOLE))
        memcpy(spec, sim_part_computed_as(p, tensor), sizeof spec);
    if (gathered) sim_part_found_unsharded(p, tensor, spec);
    int value = sim_part_new_value(p, tensor, spec, 0);
    struct sim_op *op = sim_part_new_op(p, SIM_COMPUTE, source);
    op->inputs[op->input_count++] = input;
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = p->out->op_count - 1;
    *sim_part_current(p, tensor) = sim_part_reshard(p, source, value, sim_part_computed_as(p, tensor));
    return BASE_OK;
}

/* A parameter that is sharded less than its state is gathered after its update (ZeRO-1). */
static void gather_updated(struct sim_partitioner *p, const struct model_op *source, int slice, int stack)
{
    int first = p->out->op_count, whole = sim_part_reshard(p, source, slice, sim_part_used_as(p, source->inputs[0]));
    p->out->values[whole].persistent = true;
    sim_part_move_stacks(p, first, stack);
}

/* Scanned layers have one array per parameter. It is gathered as a whole, after the loop over its layers. */
void sim_gather_updated_stacks(struct sim_partitioner *p, int begin)
{
    for (int i = begin + 1; i < p->out->ops[begin].match; i++) {
        const struct sim_op *op = &p->out->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_UPDATE || p->out->values[op->outputs[0]].persistent)
            continue;
        gather_updated(p, op->op, op->outputs[0], p->out->ops[begin].trips);
    }
}

/* In-place updates of whole arrays are computed in the state's sharding. */
static enum base_status partition_update(struct sim_partitioner *p, const struct model_op *source)
{
    int inputs[MODEL_MAX_INPUTS];
    sim_order spec[MODEL_MAX_RANK] = {0};
    const struct model_tensor *first = sim_part_tensor_of(p, source->inputs[0]);
    for (int i = 0; i < source->input_count; i++) {
        inputs[i] = *sim_part_current(p, source->inputs[i]);
        bool same_shape = !strcmp(source->input_labels[i], source->input_labels[0]) &&
                          sim_part_tensor_of(p, source->inputs[i])->block < 0;
        for (int d = 0; same_shape && d < first->rank; d++)
            spec[d] = sim_join(spec[d], sim_part_used_as(p, source->inputs[i])[d]);
    }
    for (int i = 0; i < source->input_count; i++) {
        bool same_shape = !strcmp(source->input_labels[i], source->input_labels[0]);
        sim_order own[MODEL_MAX_RANK];
        memcpy(own, same_shape ? spec : sim_part_used_as(p, source->inputs[i]), sizeof own);
        inputs[i] = sim_part_ready(p, source, inputs[i], own);
    }
    struct sim_op *op = sim_part_new_op(p, SIM_COMPUTE, source);
    op->input_count = source->input_count;
    memcpy(op->inputs, inputs, sizeof op->inputs);
    op->output_count = source->output_count;
    for (int i = 0; i < source->output_count; i++) op->outputs[i] = *sim_part_current(p, source->outputs[i]);
    unsigned missing = 0;
    for (int d = 0; d < first->rank; d++) missing |= sim_set_of(spec[d] & ~sim_part_used_as(p, source->inputs[0])[d]);
    if (!missing || source->function == MODEL_ACCUMULATE) return BASE_OK;
    int slice = sim_part_new_value(p, source->inputs[0], spec, 0);
    p->out->values[slice].persistent = false;
    p->out->values[slice].definition = p->out->op_count - 1;
    p->out->ops[p->out->op_count - 1].outputs[0] = slice;
    bool stacked = p->options->scanned && first->layers != MODEL_ONE;
    if (!stacked) gather_updated(p, source, slice, MODEL_ONE);
    return BASE_OK;
}

/* ---- all operations ---- */

enum base_status sim_partition_operation(struct sim_partitioner *p, const struct model_op *source)
{
    switch (source->kind) {
    case MODEL_RESHAPE: return partition_reshape(p, source);
    case MODEL_UPDATE: return partition_update(p, source);
    case MODEL_EINSUM:
    case MODEL_MAP:
    case MODEL_REDUCE:
    case MODEL_SLICE: return partition_compute(p, source);
    case MODEL_LOOP: break;
    }
    return base_fail(p->error, BASE_INTERNAL, "an operation of no kind");
}
