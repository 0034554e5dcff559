/* Edits of a sharded program by a pass: removed operations, inserted collectives, and the final layout once all edits
 * are known. */
#include "sim/compile/rewriting.h"

#include <string.h>

struct sim_rewriting sim_rewriting_begin(struct base_arena *arena, struct sim_sharded *s)
{
    struct sim_rewriting r = {.arena = arena, .s = s};
    r.removed = base_new(arena, bool, s->op_count + 1);
    r.use_counts = base_new(arena, int, s->value_count);
    r.users = base_new(arena, int, s->value_count);
    for (int i = 0; i < s->op_count; i++) {
        for (int j = 0; j < s->ops[i].input_count; j++) {
            r.use_counts[s->ops[i].inputs[j]]++;
            r.users[s->ops[i].inputs[j]] = i;
        }
    }
    return r;
}

int sim_rewriting_copy(struct sim_rewriting *r, int value)
{
    struct sim_sharded *s = r->s;
    s->values = base_grown(r->arena, s->values, s->value_count, &s->value_capacity, sizeof *s->values);
    s->values[s->value_count] = s->values[value];
    return s->value_count++;
}

/* Inserts an operation with one operand and one result before another one, in its loop. Returns the result. */
static int insert(struct sim_rewriting *r, int before, struct sim_op op, int value)
{
    struct sim_sharded *s = r->s;
    const int made = sim_rewriting_copy(r, value);
    s->values[made].persistent = false;
    s->values[made].loop = op.loop = s->ops[before].loop;
    s->values[made].definition = -2 - r->insertion_count; /* until sim_rewriting_apply() knows its position */
    op.kernel = -1;
    op.inputs[op.input_count++] = value;
    op.outputs[op.output_count++] = made;
    r->insertions =
        base_grown(r->arena, r->insertions, r->insertion_count, &r->insertion_capacity, sizeof *r->insertions);
    r->insertions[r->insertion_count++] = (struct sim_insertion){before, op};
    r->changed = true;
    return made;
}

int sim_rewriting_insert_all_reduce(struct sim_rewriting *r, int before, const struct model_op *why, unsigned axes,
                                    int value)
{
    const struct sim_op op = {.kind = SIM_COMMUNICATE, .op = why, .collective = SIM_ALL_REDUCE, .axes = axes};
    const int sum = insert(r, before, op, value);
    r->s->values[sum].partial = (unsigned char)(r->s->values[value].partial & ~axes);
    return sum;
}

int sim_rewriting_insert_cast(struct sim_rewriting *r, int before, const struct model_op *why, int value,
                              enum model_dtype dtype)
{
    struct sim_sharded *s = r->s;
    const int tensor = s->values[value].tensor;
    const struct model_tensor *t = &s->program->tensors[tensor];
    struct model_op *cast = base_new(r->arena, struct model_op, 1);
    struct sim_op op = {.kind = SIM_COMPUTE, .op = cast};
    *cast = (struct model_op){.kind = MODEL_MAP,
                              .function = MODEL_CAST,
                              .name = base_print(s->lasting ? s->lasting : r->arena, "%s cast", why->name),
                              .phase = why->phase,
                              .input_count = 1,
                              .output_count = 1,
                              .inputs = {tensor},
                              .outputs = {tensor}};
    memcpy(cast->input_labels[0], t->labels, sizeof cast->input_labels[0]);
    memcpy(cast->output_labels, t->labels, sizeof cast->output_labels);
    for (int d = 0; d < t->rank; d++)
        op.labels[op.label_count++] = (struct sim_label){t->labels[d], t->dims[d], s->values[value].spec[d]};
    const int made = insert(r, before, op, value);
    struct sim_shape shape = s->shapes[s->values[made].shape];
    s->values[made].dtype = shape.dtype = dtype;
    s->values[made].shape = sim_shape_of(r->arena, s, &shape);
    return made;
}

void sim_rewriting_remove(struct sim_rewriting *r, int op)
{
    r->removed[op] = true;
    r->changed = true;
}

/* The insertions before each operation, as lists: first[i] is the head, next[j] follows insertion j; -1 ends a list. */
struct insertions {
    int *first, *next;
};

static struct insertions insertions_by_place(const struct sim_rewriting *r)
{
    struct insertions by = {base_reserve(r->arena, (size_t)r->s->op_count + 1, sizeof(int)),
                            base_reserve(r->arena, (size_t)r->insertion_count + 1, sizeof(int))};
    for (int i = 0; i <= r->s->op_count; i++) by.first[i] = -1;
    for (int j = r->insertion_count - 1; j >= 0; j--) {
        by.next[j] = by.first[r->insertions[j].before];
        by.first[r->insertions[j].before] = j;
    }
    return by;
}

/* Removes operations and their results. Insertions before one operation keep their order. moved: new index of each
 * operation. inserted: index of each insertion. */
static void lay_out_operations(struct sim_rewriting *r, int *moved, int *inserted)
{
    struct sim_sharded *s = r->s;
    const struct insertions by = insertions_by_place(r);
    struct sim_op *ops = base_reserve(r->arena, (size_t)(s->op_count + r->insertion_count), sizeof *ops);
    int count = 0;
    for (int i = 0; i < s->op_count; i++) {
        for (int j = by.first[i]; j >= 0; j = by.next[j]) {
            inserted[j] = count;
            ops[count++] = r->insertions[j].op;
        }
        moved[i] = count;
        if (!r->removed[i]) ops[count++] = s->ops[i];
    }
    for (int i = 0; i < count; i++) {
        if (ops[i].loop >= 0) ops[i].loop = moved[ops[i].loop];
        if (ops[i].kind == SIM_LOOP_BEGIN || ops[i].kind == SIM_LOOP_END) ops[i].match = moved[ops[i].match];
    }
    s->ops = ops;
    s->op_count = s->op_capacity = count;
}

/* Drops the values of removed operations. renamed: new index of the others. */
static void lay_out_values(struct sim_rewriting *r, const int *moved, const int *inserted, int *renamed)
{
    struct sim_sharded *s = r->s;
    int count = 0;
    for (int v = 0; v < s->value_count; v++) {
        struct sim_value value = s->values[v];
        if (value.definition >= 0 && r->removed[value.definition]) continue;
        if (value.definition <= -2) value.definition = inserted[-2 - value.definition];
        else if (value.definition >= 0) value.definition = moved[value.definition];
        if (value.loop >= 0) value.loop = moved[value.loop];
        renamed[v] = count;
        s->values[count++] = value;
    }
    s->value_count = count;
    for (int i = 0; i < s->op_count; i++) {
        for (int j = 0; j < s->ops[i].input_count; j++) s->ops[i].inputs[j] = renamed[s->ops[i].inputs[j]];
        for (int j = 0; j < s->ops[i].output_count; j++) s->ops[i].outputs[j] = renamed[s->ops[i].outputs[j]];
    }
}

void sim_rewriting_apply(struct sim_rewriting *r)
{
    if (!r->changed) return;
    int *moved = base_new(r->arena, int, r->s->op_count + 1),
        *inserted = base_new(r->arena, int, r->insertion_count + 1),
        *renamed = base_new(r->arena, int, r->s->value_count);
    lay_out_operations(r, moved, inserted);
    lay_out_values(r, moved, inserted, renamed);
}

bool sim_same_spec(const struct sim_value *a, const struct sim_value *b)
{
    return !memcmp(a->spec, b->spec, sizeof a->spec);
}

int sim_reduction_of(const struct sim_rewriting *r, int value, unsigned axes)
{
    const struct sim_sharded *s = r->s;
    int at = s->values[value].definition;
    if (at < 0 || r->use_counts[value] != 1 || s->values[value].persistent) return -1;
    const struct sim_op *op = &s->ops[at];
    bool plain = op->kind == SIM_COMMUNICATE && op->collective == SIM_ALL_REDUCE && (!axes || op->axes == axes);
    return plain ? at : -1;
}

int sim_all_reduce_of(const struct sim_rewriting *r, int value, unsigned axes)
{
    int at = sim_reduction_of(r, value, axes);
    return at >= 0 && sim_same_spec(&r->s->values[r->s->ops[at].inputs[0]], &r->s->values[value]) ? at : -1;
}
