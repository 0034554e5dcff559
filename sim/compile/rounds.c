/* Ring attention overlaps the next block's transfer with the current block's computation. A permute starts once its
 * operand exists. Its wait is at the first read of its result, which starts the next round. Transformer Engine's
 * context parallelism does the same (transformer_engine/pytorch/attention.py: AttnFuncWithCPAndKVP2P). */
#include "sim/compile/passes.h"

#include <string.h>

struct rounds {
    struct sim_sharded *s;
    int *next;            /* per permute: the next one moved to the same position */
    int *before, *behind; /* per operation: the first permute that is moved before or after it, or -1 */
    int *ends;            /* per permute: the operation that waits for it, or -1 */
    int *first, *last;    /* operations of each kernel */
};

static bool is_round(const struct sim_op *op)
{
    return op->kind == SIM_COMMUNICATE && op->op->function == MODEL_ROLL;
}

/* The first operation after a permute, in its loop, that reads its result; -1: none. */
static int reader_of(const struct rounds *r, int op, bool of_rounds)
{
    const struct sim_op *permute = &r->s->ops[op];
    for (int i = op + 1; i < r->s->op_count && r->s->ops[i].kind != SIM_LOOP_END; i++)
        if (is_round(&r->s->ops[i]) == of_rounds && sim_reads(&r->s->ops[i], permute->outputs[0])) return i;
    return -1;
}

/* The position of an operation: a fused value's is its first reader's, a kernel's is its first operation's. */
static int place_of(const struct rounds *r, int op)
{
    const struct sim_op *ops = r->s->ops;
    for (int kernel = ops[op].kernel; op >= 0;) {
        if (kernel >= 0) return r->first[kernel];
        int reader = -1;
        for (int i = op + 1; i < r->s->op_count && reader < 0; i++)
            if (ops[op].output_count && sim_reads(&ops[i], ops[op].outputs[0])) reader = i;
        if (reader < 0 || ops[reader].kind != SIM_COMPUTE || ops[reader].loop != ops[op].loop) return op;
        op = reader, kernel = ops[reader].kernel;
    }
    return op;
}

static void put(struct rounds *r, int *list, int at, int permute)
{
    int *end = &list[at];
    while (*end >= 0) end = &r->next[*end];
    *end = permute;
}

static bool has_blocks(const struct rounds *r, int tensor)
{
    const struct model_tensor *t = &r->s->program->tensors[tensor];
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] == MODEL_SEQUENCE_BLOCKS) return true;
    return false;
}

/* True in the last round, which returns gradients to their device. No computation is left to overlap. */
static bool goes_home(const struct rounds *r, int reader)
{
    const struct model_op *op = r->s->ops[reader].op;
    return op->kind == MODEL_RESHAPE && op->phase == MODEL_BACKWARD && !has_blocks(r, op->outputs[0]);
}

static void place_round(struct rounds *r, int at)
{
    const struct sim_op *op = &r->s->ops[at];
    const int reader = reader_of(r, at, false), next = reader_of(r, at, true),
              made = r->s->values[op->inputs[0]].definition;
    r->ends[at] = -1;
    if (reader < 0 || made < 0 || r->s->ops[made].loop != op->loop) {
        put(r, r->before, at + 1, at);
        return;
    }
    if (!goes_home(r, reader)) r->ends[at] = next >= 0 ? next : place_of(r, reader);
    if (is_round(&r->s->ops[made])) put(r, r->before, place_of(r, reader_of(r, made, false)), at);
    else put(r, r->behind, r->s->ops[made].kernel >= 0 ? r->last[r->s->ops[made].kernel] : made, at);
}

static void find_kernels(struct base_arena *arena, struct rounds *r)
{
    r->first = base_new(arena, int, r->s->kernel_count + 1);
    r->last = base_new(arena, int, r->s->kernel_count + 1);
    for (int k = 0; k < r->s->kernel_count; k++) r->first[k] = -1;
    for (int i = 0; i < r->s->op_count; i++) {
        const int kernel = r->s->ops[i].kernel;
        if (kernel < 0) continue;
        if (r->first[kernel] < 0) r->first[kernel] = i;
        r->last[kernel] = i;
    }
}

static int take(const struct rounds *r, const int *list, int at, int *order, int count)
{
    for (int permute = list[at]; permute >= 0; permute = r->next[permute]) order[count++] = permute;
    return count;
}

void sim_overlap_rounds(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded)
{
    const int count = sharded->op_count;
    struct rounds r = {.s = sharded,
                       .next = base_new(arena, int, count + 1),
                       .before = base_new(arena, int, count + 1),
                       .behind = base_new(arena, int, count + 1),
                       .ends = base_new(arena, int, count + 1)};
    int *order = base_new(arena, int, count + 1), *done = base_new(arena, int, count + 1),
        *place = base_new(arena, int, count + 1), placed = 0, rounds = 0;
    for (int i = 0; i <= count; i++) r.next[i] = r.before[i] = r.behind[i] = -1;
    find_kernels(arena, &r);
    for (int i = 0; i < count; i++)
        if (is_round(&sharded->ops[i])) place_round(&r, i), rounds++;
    for (int i = 0; i <= count && rounds; i++) {
        placed = take(&r, r.before, i, order, placed);
        if (i < count && !is_round(&sharded->ops[i])) order[placed++] = i;
        placed = take(&r, r.behind, i, order, placed);
    }
    for (int i = 0; i < placed; i++) place[order[i]] = i;
    for (int i = 0; i < count && rounds; i++) {
        const bool later = is_round(&sharded->ops[i]) && r.ends[i] >= 0 && place[r.ends[i]] > place[i] + 1;
        done[i] = later ? place[r.ends[i]] : 0;
    }
    if (rounds) sim_reorder_operations(arena, sharded, order, done);
    (void)compiler;
}
