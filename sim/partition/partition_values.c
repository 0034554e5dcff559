/* The lists of a sharded program: shapes, values, operations. */
#include "sim/partition/partitioner.h"

#include <string.h>

/* Where a shape stands in the table of its list: a number more than its index; else 0, where it would. */
static int *slot_of_shape(const struct sim_sharded *sharded, const struct sim_shape *shape)
{
    uint32_t words[sizeof *shape / sizeof(uint32_t)], hash = 0;
    memcpy(words, shape, sizeof words);
    for (int i = 0; i < BASE_COUNT(words); i++)
        hash = (hash ^ words[i]) * 0x9e3779b1u; /* the golden ratio's, as Knuth has it */
    int mask = sharded->shape_slot_count - 1, at = (int)(hash >> 16) & mask;
    while (sharded->shape_slots[at] &&
           memcmp(&sharded->shapes[sharded->shape_slots[at] - 1], shape, sizeof *shape) != 0)
        at = (at + 1) & mask;
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
    sharded->shapes =
        base_grown(arena, sharded->shapes, sharded->shape_count, &sharded->shape_capacity, sizeof *sharded->shapes);
    sharded->shapes[sharded->shape_count] = *shape;
    return (*slot = ++sharded->shape_count) - 1;
}

int sim_stack_of(struct base_arena *arena, struct sim_sharded *sharded, int shape, int layers)
{
    struct sim_shape stack = sharded->shapes[shape];
    stack.layers = (unsigned char)layers;
    return sim_shape_of(arena, sharded, &stack);
}

int sim_part_new_value(struct sim_partitioner *p, int tensor, const unsigned char *spec, unsigned partial)
{
    struct sim_sharded *out = p->out;
    const struct model_tensor *t = sim_part_tensor_of(p, tensor);
    out->values = base_grown(p->arena, out->values, out->value_count, &out->value_capacity, sizeof *out->values);
    struct sim_value *value = &out->values[out->value_count];
    *value = (struct sim_value){.tensor = tensor,
                                .partial = (unsigned char)partial,
                                .dtype = t->dtype,
                                .definition = -1,
                                .last_use = -1,
                                .loop = p->loop,
                                .persistent = t->block < 0};
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

void sim_part_set_dtype(struct sim_partitioner *p, int value, enum model_dtype dtype)
{
    struct sim_value *v = &p->out->values[value];
    struct sim_shape shape = p->out->shapes[v->shape];
    v->dtype = shape.dtype = dtype;
    v->shape = sim_shape_of(p->arena, p->out, &shape);
}

struct sim_op *sim_part_new_op(struct sim_partitioner *p, enum sim_op_kind kind, const struct model_op *source)
{
    struct sim_sharded *out = p->out;
    out->ops = base_grown(p->arena, out->ops, out->op_count, &out->op_capacity, sizeof *out->ops);
    struct sim_op *op = &out->ops[out->op_count++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->op = source;
    op->loop = p->loop;
    op->kernel = -1;
    return op;
}
