/* How far each operation is from the end of its computation, in instructions of XLA's graph: xla::HloInstruction's
 * height as ScheduleAwareCollectiveOpsCSE counts it (xla/service/spmd/schedule_aware_collective_ops_cse.cc). A user
 * counts one more than the tallest one, and each further user one more still. */
#include "sim/compile/near_gathers.h"

/* Instructions of an operation on the longest way through it from an input (of those behind the third: as from that),
 * as JAX writes T5X's networks; counted in dumps of libtpu 0.0.42.1 from before that pass. A value that has other
 * numbers of users in XLA's graph than in the program has the difference in them, and so do those behind which users
 * stand in an order that is not the tallest first. All others are one. */
static const struct {
    enum model_function function;
    signed char from[3];
} instructions[] = {
    {MODEL_MEAN_SQUARE, {1, 1, 1}},  {MODEL_NORM, {8, 8, 8}},    {MODEL_NORM_GRAD, {5, 5, 5}},
    {MODEL_MAX, {0, 0, 0}}, /* beside the difference to it */
    {MODEL_SUM_EXP, {6, 6, 6}},      {MODEL_SOFTMAX, {2, 2, 2}}, {MODEL_PRODUCT_SUM, {2, 2, 2}},
    {MODEL_SOFTMAX_GRAD, {4, 4, 4}}, {MODEL_GATE, {12, 12, 1}},  {MODEL_GATE_GRAD_0, {11, 19, 10}},
    {MODEL_GATE_GRAD_1, {1, 10, 0}},
};
/* Where a computation ends: a stacked result is put into its stack, an accumulated gradient is added up and read by the
 * update. */
enum { STACKED = 2, UPDATED = 2, LOOP = 2, SCATTERED = 2, MANY_INSTRUCTIONS = 1 << 16 };

struct walk {
    const struct sim_sharded *s;
    bool scanned;
    struct sim_readers {
        int count, *ops;
    } * readers; /* per value, in the order of the program */
    int *height; /* per value */
    struct sim_layers_behind behind;
};

static bool is_of_layers(const struct sim_sharded *s, int loop)
{
    const int trips = s->ops[loop].trips;
    return trips != MODEL_MICROBATCHES && trips != MODEL_DECODE_STEPS;
}

int sim_computation_of(const struct sim_sharded *s, bool scanned, int loop)
{
    while (loop >= 0 && !scanned && is_of_layers(s, loop)) loop = s->ops[loop].loop;
    return loop;
}

/* Whether an einsum's result has its labels in the order in which a dot leaves them: batch, then one operand's, then
 * the other's. */
static bool is_in_order(const struct sim_op *op)
{
    unsigned order[3] = {op->batch_labels, op->row_labels, op->column_labels & ~op->batch_labels};
    for (int first = 1; first <= 2; first++) {
        int part = 0;
        bool follows = true;
        const int parts[3] = {0, first, 3 - first};
        for (const char *letter = op->op->output_labels; *letter; letter++) {
            unsigned label = 0;
            for (int i = 0; i < op->label_count; i++)
                if (op->labels[i].letter == *letter) label = 1u << i;
            while (part < 3 && !(order[parts[part]] & label)) part++;
            follows = follows && part < 3;
        }
        if (follows) return true;
    }
    return false;
}

static int instructions_of(const struct sim_sharded *s, const struct sim_op *op, int input)
{
    if (op->kind == SIM_COMMUNICATE) return op->collective == SIM_REDUCE_SCATTER ? SCATTERED : 1;
    if (op->op->kind == MODEL_EINSUM) return is_in_order(op) ? 1 : 2;
    /* A sum that leaves the loop over microbatches does so behind that pass. */
    if (op->op->function == MODEL_ACCUMULATE && s->values[op->inputs[input]].partial) return 2;
    for (int i = 0; i < BASE_COUNT(instructions); i++)
        if (instructions[i].function == op->op->function) return instructions[i].from[input < 2 ? input : 2];
    return 1;
}

static int tallest_result(const struct walk *w, const struct sim_op *op)
{
    int tallest = 0;
    for (int i = 0; i < op->output_count; i++)
        if (w->height[op->outputs[i]] > tallest) tallest = w->height[op->outputs[i]];
    return tallest;
}

/* Of the first instruction of an operation that reads this. */
static int entry(const struct walk *w, int at, int value)
{
    const struct sim_op *op = &w->s->ops[at];
    int tallest = 0;
    if (op->op && op->op->phase == MODEL_OPTIMIZER) return UPDATED;
    for (int j = 0; j < op->input_count; j++) {
        if (op->inputs[j] != value) continue;
        const int height = tallest_result(w, op) + instructions_of(w->s, op, j) - 1;
        if (height > tallest) tallest = height;
    }
    return tallest;
}

/* The loop of a computation in which an operation stands, or -1: it stands in the computation itself. */
static int loop_around(const struct walk *w, int at, int computation)
{
    int around = -1;
    for (int loop = sim_computation_of(w->s, w->scanned, w->s->ops[at].loop); loop >= 0 && loop != computation;
         loop = sim_computation_of(w->s, w->scanned, w->s->ops[loop].loop))
        around = loop;
    return around;
}

/* Of users the tallest comes first mostly, since those of the forward pass are made first. */
struct users {
    int tallest, count, below; /* below: what takes no part of the count */
};

static void one_more(struct users *users, int user)
{
    if (user > users->tallest) users->tallest = user;
    users->count++;
}

/* What goes round a loop of the program that is none of XLA's, from its beginning on or out of its end. */
static int passed_on(const struct sim_op *bracket, int value)
{
    for (int j = 0; j < bracket->input_count && j < bracket->output_count; j++)
        if (bracket->inputs[j] == value) return bracket->outputs[j];
    return -1;
}

static bool is_bracket(const struct sim_op *op)
{
    return op->kind == SIM_LOOP_BEGIN || op->kind == SIM_LOOP_END;
}

/* A bracket's own loop, and whether it is one in XLA's program, too. */
static int loop_of_bracket(const struct sim_sharded *s, int at)
{
    return s->ops[at].kind == SIM_LOOP_BEGIN ? at : s->ops[at].match;
}

/* What comes behind a layer of further ones of its stack: nothing, one, or many. */
static int further_layers(const struct walk *w, const struct sim_op *end, int passed)
{
    const struct sim_op *begin = &w->s->ops[end->match];
    if (end->trips != w->behind.trips) return MANY_INSTRUCTIONS;
    for (int j = 0; w->behind.one && j < end->output_count && j < begin->output_count; j++)
        if (end->outputs[j] == passed)
            return w->behind.one->of_value[begin->outputs[j]] - w->behind.one->of_value[passed];
    return 0;
}

static void read_by(const struct walk *w, int at, int value, int computation, struct users *users, int *last_loop)
{
    const struct sim_op *op = &w->s->ops[at];
    if (is_bracket(op)) {
        const int loop = loop_of_bracket(w->s, at), passed = passed_on(op, value);
        const bool is_loop = sim_computation_of(w->s, w->scanned, loop) == loop;
        const int further = op->kind == SIM_LOOP_END && !is_loop ? further_layers(w, op, passed) : 0;
        if (!is_loop && passed >= 0 && w->height[passed] + further > users->below)
            users->below = w->height[passed] + further;
        if (is_loop && op->kind == SIM_LOOP_END) one_more(users, 0);
        if (is_loop && op->kind == SIM_LOOP_BEGIN)
            one_more(users, tallest_result(w, &w->s->ops[op->match]) + LOOP), *last_loop = loop;
        return;
    }
    const int own = sim_computation_of(w->s, w->scanned, op->loop), around = loop_around(w, at, computation);
    const bool aside = !w->scanned && op->op && op->op->function == MODEL_NORM_GRAD_SCALE;
    if (own == computation && !aside) one_more(users, entry(w, at, value));
    else if (own == computation) return; /* where layers are no loops that user stands before the tallest */
    else if (around < 0) users->below = users->below > STACKED ? users->below : STACKED + 1; /* read behind its loop */
    else if (around != *last_loop)
        one_more(users, tallest_result(w, &w->s->ops[w->s->ops[around].match]) + LOOP), *last_loop = around;
}

/* All that reads a gather reads one of its own there. */
static void read_gather(const struct walk *w, int at, struct users *users)
{
    const struct sim_op *gather = &w->s->ops[at];
    const struct sim_readers *readers = &w->readers[gather->outputs[0]];
    for (int i = 0; i < readers->count; i++)
        if (!is_bracket(&w->s->ops[readers->ops[i]]))
            one_more(users, entry(w, readers->ops[i], gather->outputs[0]) + 1);
}

static int height_of(const struct walk *w, int value, int computation)
{
    const struct sim_readers *readers = &w->readers[value];
    struct users users = {.count = 0};
    int last_loop = -1;
    for (int i = 0; i < readers->count; i++) {
        const int at = readers->ops[i];
        if (sim_is_gather(&w->s->ops[at]) && sim_computation_of(w->s, w->scanned, w->s->ops[at].loop) == computation)
            read_gather(w, at, &users);
        else read_by(w, at, value, computation, &users, &last_loop);
    }
    const int height = users.tallest + users.count;
    return height > users.below ? height : users.below;
}

static struct sim_readers *list_readers(struct base_arena *arena, const struct sim_sharded *s)
{
    struct sim_readers *readers = base_new(arena, struct sim_readers, s->value_count + 1);
    int total = 0;
    for (int i = 0; i < s->op_count; i++)
        for (int j = 0; j < s->ops[i].input_count; j++) readers[s->ops[i].inputs[j]].count++, total++;
    int *ops = base_new(arena, int, total + 1);
    for (int v = 0; v < s->value_count; v++) readers[v].ops = ops, ops += readers[v].count, readers[v].count = 0;
    for (int i = 0; i < s->op_count; i++)
        for (int j = 0; j < s->ops[i].input_count; j++) {
            struct sim_readers *of = &readers[s->ops[i].inputs[j]];
            if (!of->count || of->ops[of->count - 1] != i) of->ops[of->count++] = i;
        }
    return readers;
}

struct sim_heights sim_hlo_heights(struct base_arena *arena, const struct sim_sharded *s, bool scanned,
                                   struct sim_layers_behind behind)
{
    struct walk w = {.s = s, .scanned = scanned, .readers = list_readers(arena, s), .behind = behind};
    w.height = base_new(arena, int, s->value_count + 1);
    for (int i = s->op_count - 1; i >= 0; i--) {
        const struct sim_op *op = &s->ops[i];
        const int loop = op->kind == SIM_LOOP_BEGIN ? i : op->loop;
        for (int k = 0; k < op->output_count; k++)
            w.height[op->outputs[k]] = height_of(&w, op->outputs[k], sim_computation_of(s, scanned, loop));
    }
    return (struct sim_heights){.s = s, .readers = w.readers, .of_value = w.height, .scanned = scanned};
}

int sim_height_of_reader(const struct sim_heights *heights, int op, int value)
{
    const struct walk w = {heights->s, heights->scanned, heights->readers, heights->of_value, {0}};
    return entry(&w, op, value);
}
