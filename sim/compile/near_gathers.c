/* Pass merge_near_gathers: xla::spmd::ScheduleAwareCollectiveOpsCSE, which XLA:TPU runs behind its partitioner. That
 * gathers anew for each product. Of gathers of one array to one sharding in a computation the tallest comes first
 * (hlo_heights.c); a later one goes if the lowest user of the first is at most so much higher, and stays otherwise, and
 * then others are still compared with the first alone. */
#include "sim/compile/near_gathers.h"
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

#include <stdlib.h>

/* How many layers the stack has in which they stand. */
enum distance { ONE_LAYER, TWO_LAYERS, MANY_LAYERS, DISTANCE_COUNT };

/* One of XLA's gathers. */
struct instance {
    int op, place;              /* the operation that it is of; its place among all, so that an order is one */
    int height[DISTANCE_COUNT]; /* of its user */
    bool forward;
};

struct pass {
    const struct sim_sharded *s;
    bool scanned;
    const int *window_of;
    int most_height;
    struct sim_heights (*heights)[DISTANCE_COUNT]; /* by enum model_size, where there are such stacks */
};

static bool stands_in_layers(const struct pass *p, const struct sim_op *op)
{
    return !p->scanned && op->loop >= 0 && sim_computation_of(p->s, false, op->loop) != op->loop;
}

static const struct sim_heights *heights_around(const struct pass *p, const struct sim_op *op)
{
    return p->heights[stands_in_layers(p, op) ? p->s->ops[op->loop].trips : MODEL_ONE];
}

/* What two gathers have to be of: a weight, whatever it is cast to; or an array, of which the backward pass of layers
 * that are no loops makes no second one. */
static int array_of(const struct pass *p, int value)
{
    const struct sim_sharded *s = p->s;
    const int weight = sim_weight_of(s, value);
    const int tensor = s->values[value].tensor, of = s->program->tensors[tensor].recomputed_of;
    if (weight >= 0) return s->program->tensor_count + weight;
    return !p->scanned && of >= 0 ? of : tensor;
}

/* What goes round in pieces beside a product is no gather to XLA, nor is what moves a whole stack one in the loop. */
static bool takes_part(const struct pass *p, int at)
{
    const struct sim_op *op = &p->s->ops[at];
    return sim_is_gather(op) && op->stack == MODEL_ONE && (!p->window_of || p->window_of[at] < 0);
}

static bool are_alike(const struct pass *p, const struct sim_op *a, const struct sim_op *b)
{
    const struct sim_value *one = &p->s->values[a->outputs[0]], *other = &p->s->values[b->outputs[0]];
    return a->axes == b->axes && one->dtype == other->dtype && sim_same_spec(one, other) &&
           array_of(p, a->inputs[0]) == array_of(p, b->inputs[0]) && stands_in_layers(p, a) == stands_in_layers(p, b) &&
           sim_computation_of(p->s, p->scanned, a->loop) == sim_computation_of(p->s, p->scanned, b->loop);
}

static int by_height(const void *a, const void *b)
{
    const struct instance *one = a, *other = b;
    if (one->height[0] != other->height[0]) return one->height[0] < other->height[0] ? 1 : -1;
    return one->place < other->place ? -1 : 1;
}

/* Each product has its own; whatever else reads the array shares one, as does what only goes round a loop. */
static int list_instances(const struct pass *p, int at, struct instance *out)
{
    const struct sim_sharded *s = p->s;
    const int value = s->ops[at].outputs[0];
    int count = 0, others = -1;
    for (int i = at + 1; i < s->op_count; i++)
        for (int j = 0; j < s->ops[i].input_count; j++) {
            const struct sim_op *user = &s->ops[i];
            if (user->inputs[j] != value || user->kind == SIM_LOOP_BEGIN || user->kind == SIM_LOOP_END) continue;
            const bool product = user->kind == SIM_COMPUTE && user->op->kind == MODEL_EINSUM;
            if (!product && others >= 0) continue;
            if (!product) others = count;
            out[count] = (struct instance){.op = at, .forward = user->op->phase == MODEL_FORWARD};
            for (int d = 0; d < DISTANCE_COUNT; d++)
                out[count].height[d] = sim_height_of_reader(&heights_around(p, &s->ops[at])[d], i, value);
            count++;
        }
    if (!count) out[count++] = (struct instance){.op = at};
    return count;
}

/* What is made before the layers is gathered for all of their forward passes at once. */
static bool serves_all_layers(const struct pass *p, const struct instance *instance)
{
    const struct sim_op *op = &p->s->ops[instance->op];
    const struct sim_value *value = &p->s->values[op->inputs[0]];
    return instance->forward && stands_in_layers(p, op) && p->s->program->tensors[value->tensor].layers == MODEL_ONE &&
           value->loop != op->loop;
}

/* Where it is merged: with so many layers at the most behind it; -1: nowhere. */
static int merged_within(const struct pass *p, const struct instance *it, const int *lowest)
{
    int within = -1;
    for (int d = 0; d < DISTANCE_COUNT && lowest[d] - (it->height[d] + 1) <= p->most_height; d++) within = d;
    return within;
}

static void merge(const struct pass *p, struct instance *instances, int count, struct sim_gathered *left)
{
    int lowest[DISTANCE_COUNT];
    bool once = false;
    qsort(instances, (size_t)count, sizeof *instances, by_height);
    for (int i = 0; i < count; i++) {
        const struct instance *it = &instances[i];
        const int within = i ? merged_within(p, it, lowest) : -1;
        struct sim_gathered *of = &left[it->op];
        for (int d = 0; d < DISTANCE_COUNT; d++)
            if (i == 0 || (d <= within && it->height[d] < lowest[d])) lowest[d] = it->height[d];
        if (within == MANY_LAYERS) continue;
        if (within >= 0 && stands_in_layers(p, &p->s->ops[it->op])) of->but_in_last[within]++;
        else if (serves_all_layers(p, it)) of->once += !once, once = true;
        else of->in_each++;
    }
}

/* All of one array's, which are done then. */
static int list_alike(const struct pass *p, int first, bool *done, struct instance *out)
{
    int count = 0;
    for (int i = first; i < p->s->op_count; i++) {
        if (done[i] || !takes_part(p, i) || !are_alike(p, &p->s->ops[first], &p->s->ops[i])) continue;
        count += list_instances(p, i, out + count);
        done[i] = true;
    }
    for (int k = 0; k < count; k++) out[k].place = k;
    return count;
}

static void list_heights_of(struct base_arena *arena, struct pass *p, int trips)
{
    struct sim_heights *heights = p->heights[trips];
    if (heights[ONE_LAYER].s) return;
    heights[ONE_LAYER] = sim_hlo_heights(arena, p->s, p->scanned, (struct sim_layers_behind){trips, NULL});
    heights[TWO_LAYERS] =
        sim_hlo_heights(arena, p->s, p->scanned, (struct sim_layers_behind){trips, &heights[ONE_LAYER]});
    heights[MANY_LAYERS] = p->heights[MODEL_ONE][MANY_LAYERS];
}

static void list_heights(struct base_arena *arena, struct pass *p)
{
    const struct sim_heights many =
        sim_hlo_heights(arena, p->s, p->scanned, (struct sim_layers_behind){MODEL_ONE, NULL});
    p->heights =
        (struct sim_heights(*)[DISTANCE_COUNT])base_new(arena, struct sim_heights, MODEL_SIZE_COUNT * DISTANCE_COUNT);
    for (int d = 0; d < DISTANCE_COUNT; d++) p->heights[MODEL_ONE][d] = many;
    for (int i = 0; i < p->s->op_count; i++)
        if (takes_part(p, i) && stands_in_layers(p, &p->s->ops[i]))
            list_heights_of(arena, p, p->s->ops[p->s->ops[i].loop].trips);
}

struct sim_gathered *sim_gathers_left(struct base_arena *arena, const struct sim_sharded *s, bool scanned,
                                      const int *window_of, int most_height)
{
    struct pass p = {.s = s, .scanned = scanned, .window_of = window_of, .most_height = most_height};
    list_heights(arena, &p);
    struct sim_gathered *left = base_new(arena, struct sim_gathered, s->op_count + 1);
    bool *done = base_new(arena, bool, s->op_count + 1);
    struct instance *instances = base_new(arena, struct instance, MODEL_MAX_INPUTS * s->op_count + 1);
    for (int i = 0; i < s->op_count; i++) left[i].in_each = !takes_part(&p, i);
    for (int i = 0; i < s->op_count; i++)
        if (takes_part(&p, i) && !done[i]) merge(&p, instances, list_alike(&p, i, done, instances), left);
    return left;
}
