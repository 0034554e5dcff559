/* The lists of a sharded program: shapes, values, operations. */
#include "sim/partition/partitioner.h"

#include <string.h>

int sim_shape_of(struct base_arena *arena, struct sim_sharded *sharded, const struct sim_shape *shape)
{
    const uint64_t hash = base_hash(BASE_HASH_START, shape, sizeof *shape);
    unsigned at = (unsigned)hash;
    for (int found; (found = base_index_next(&sharded->shape_index, hash, &at)) >= 0; at++)
        if (!memcmp(&sharded->shapes[found], shape, sizeof *shape)) return found;
    sharded->shapes =
        base_grown(arena, sharded->shapes, sharded->shape_count, &sharded->shape_capacity, sizeof *sharded->shapes);
    sharded->shapes[sharded->shape_count] = *shape;
    base_index_add(arena, &sharded->shape_index, hash);
    return sharded->shape_count++;
}

int sim_stack_of(struct base_arena *arena, struct sim_sharded *sharded, int shape, int layers)
{
    struct sim_shape stack = sharded->shapes[shape];
    stack.layers = (unsigned char)layers;
    return sim_shape_of(arena, sharded, &stack);
}

void sim_hold(struct base_arena *arena, struct sim_sharded *s, int shape, enum model_category category, int tensor)
{
    s->persistent =
        base_grown(arena, s->persistent, s->persistent_count, &s->persistent_capacity, sizeof *s->persistent);
    s->persistent[s->persistent_count++] = (struct sim_persistent){shape, category, tensor};
}

int sim_part_new_value(struct sim_partitioner *p, int tensor, const sim_order *spec, unsigned partial)
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
    for (int d = 0; d < t->rank; d++) {
        value->spec[d] = spec[d];
        shape.spec[d] = (unsigned char)sim_set_of(spec[d]);
    }
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

const char *sim_collective_name(enum sim_collective kind)
{
    static const char *const names[SIM_COLLECTIVE_COUNT] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                            "collective_permute"};
    return names[kind];
}

bool sim_is_of_logits(const struct sim_shape *shape)
{
    bool rows = false, words = false;
    for (int d = 0; d < shape->rank; d++) {
        rows = rows || model_counted_by(shape->dims[d]) == MODEL_COUNTS_ROWS;
        words = words || shape->dims[d] == MODEL_VOCAB;
    }
    return rows && words;
}
