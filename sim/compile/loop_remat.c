/* XLA:TPU's rematerialization of a step with scanned layers that does not fit. This is peak_priority.c's pass
 * (hlo_rematerialization of OpenXLA), applied in the loop with the peak, or outside all loops. Stacks cross the loop
 * and are not candidates. Candidates are computed in this computation and read after the peak, such as the tensors that
 * a backward layer recomputes under remat_policy full. The pass drops the one that frees most: its result, less
 * operands that must live longer instead. It is recomputed right before its next reader, or before the loop that reads
 * it. Reductions are not recomputed. Gathers of weights outside layers are, such as the head's (all-gather.remat in its
 * dumps), if gathers are synchronous. */
#include "sim/compile/compiled_buffers.h"

#include <math.h>

enum { MOST_ROUNDS = 64 };

struct body {
    struct sim_assigner *a;
    int loop, end; /* the loop and its last operation; outside loops: -1, and the end of the program */
    struct uses {
        int *at, count;
    } * uses; /* per value: operations of the body that read its array, in program order */
    int *operands, operand_count, *seen, stamp;
};

/* ---- readers of an array ---- */

static bool is_array(const struct sim_assigner *a, int value)
{
    const struct sim_value *v = &a->s->values[value];
    return v->stored || v->persistent || v->definition < 0;
}

/* The operation itself, or the loop of this body that contains it. */
static int stands_at(const struct body *b, int op)
{
    while (b->a->s->ops[op].loop != b->loop && b->a->s->ops[op].loop >= 0) op = b->a->s->ops[op].loop;
    return op;
}

static void note_use(struct body *b, int value, int at)
{
    const struct sim_sharded *s = b->a->s;
    if (!is_array(b->a, value) && s->ops[s->values[value].definition].kind == SIM_COMPUTE) {
        const struct sim_op *op = &s->ops[s->values[value].definition]; /* its readers compute it */
        for (int j = 0; j < op->input_count; j++) note_use(b, op->inputs[j], at);
        return;
    }
    struct uses *uses = &b->uses[value];
    if (uses->count && uses->at[uses->count - 1] >= at) return;
    if (!uses->at) uses->at = base_new(b->a->arena, int, b->end - b->loop + 1);
    uses->at[uses->count++] = at;
}

static void find_uses(struct body *b)
{
    const struct sim_sharded *s = b->a->s;
    for (int i = b->loop + 1; i <= b->end && i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        bool makes_array = op->kind != SIM_COMPUTE;
        for (int o = 0; o < op->output_count; o++) makes_array = makes_array || is_array(b->a, op->outputs[o]);
        for (int j = 0; makes_array && j < op->input_count; j++) note_use(b, op->inputs[j], stands_at(b, i));
    }
}

static int last_use_until(const struct body *b, int value, int at)
{
    int last = b->a->s->values[value].definition;
    for (int i = 0; i < b->uses[value].count && b->uses[value].at[i] <= at; i++) last = b->uses[value].at[i];
    return last;
}

static int first_use_behind(const struct body *b, int value, int at)
{
    for (int i = 0; i < b->uses[value].count; i++)
        if (b->uses[value].at[i] > at) return b->uses[value].at[i];
    return -1;
}

/* ---- candidates ---- */

static const struct sim_gap *gap_at(const struct sim_assigner *a, int value, int at)
{
    for (const struct sim_gap *gap = a->gaps[value]; gap; gap = gap->next)
        if (gap->from < at && at < gap->until) return gap;
    return NULL;
}

/* True if the float32 logits are recomputed themselves, from the gathered weight. The weight stays allocated for
 * that. */
static bool makes_wide_logits(const struct sim_sharded *s, int weight)
{
    for (int i = s->values[weight].definition + 1; i < s->op_count; i++)
        for (int j = 0; j < s->ops[i].input_count; j++)
            if (s->ops[i].inputs[j] == weight && s->ops[i].kind == SIM_COMPUTE && s->ops[i].op->phase == MODEL_FORWARD)
                return s->values[s->ops[i].outputs[0]].dtype == MODEL_FLOAT32;
    return false;
}

/* Computations in layers; outside layers, gathers of weights. */
static bool is_repeatable(const struct body *b, const struct sim_op *op)
{
    if (sim_is_over_layers(b->a, b->loop)) return op->kind == SIM_COMPUTE;
    return op->kind == SIM_COMMUNICATE && op->collective == SIM_ALL_GATHER && !b->a->options->async_gathers &&
           !sim_has_batch(b->a->s, op->outputs[0]) && !makes_wide_logits(b->a->s, op->outputs[0]);
}

/* True if the value is computed in the body, does not leave it, and is its fusion's only result. */
static bool can_be_made_again(const struct body *b, int value)
{
    const struct sim_sharded *s = b->a->s;
    const struct sim_value *v = &s->values[value];
    return v->stored && !v->persistent && v->loop == b->loop && v->definition > b->loop &&
           is_repeatable(b, &s->ops[v->definition]) && v->last_use < b->end && b->a->carried_out[value] < 0;
}

/* True for a softmax's quotient, which its readers compute from the array of scores. */
static bool is_made_with(const struct body *b, int value, int operand)
{
    const struct sim_sharded *s = b->a->s;
    const struct sim_op *op = &s->ops[s->values[value].definition];
    return op->kind == SIM_COMPUTE && op->op->function == MODEL_SOFTMAX && operand == op->inputs[0] &&
           can_be_made_again(b, operand);
}

/* Lists the arrays of this body that a copy reads, through operations of its own kernel. */
static void collect_operands(struct body *b, int value)
{
    const struct sim_sharded *s = b->a->s;
    const struct sim_op *op = &s->ops[s->values[value].definition];
    for (int j = 0; (op->kind == SIM_COMPUTE || is_repeatable(b, op)) && j < op->input_count; j++) {
        const int from = op->inputs[j];
        const struct sim_value *v = &s->values[from];
        if (v->persistent || v->loop != b->loop || v->definition <= b->loop || b->seen[from] == b->stamp) continue;
        b->seen[from] = b->stamp;
        if (!is_array(b->a, from) || is_made_with(b, value, from)) collect_operands(b, from);
        else b->operands[b->operand_count++] = from;
    }
}

static void find_operands(struct body *b, int value)
{
    b->stamp++;
    b->operand_count = 0;
    collect_operands(b, value);
}

/* Bytes that a copy before operation `at` would keep alive: operands not alive at the peak, or freed before `at`. */
static double waiting_bytes(struct body *b, int value, int peak_op, int at)
{
    double bytes = 0;
    find_operands(b, value);
    for (int i = 0; i < b->operand_count; i++) {
        const int operand = b->operands[i];
        const bool stays = first_use_behind(b, operand, at - 1) >= 0 || b->a->until[operand] >= at;
        if (!stays || gap_at(b->a, operand, peak_op)) bytes += sim_value_bytes(b->a, &b->a->s->values[operand]);
    }
    return bytes;
}

static void keep_operands(struct body *b, int value, int at)
{
    find_operands(b, value);
    for (int i = 0; i < b->operand_count; i++) {
        int *const until = &b->a->until[b->operands[i]];
        if (*until < at) *until = at;
        for (struct sim_gap *gap = b->a->gaps[b->operands[i]]; gap; gap = gap->next)
            if (gap->from < at && at < gap->until) gap->until = at;
    }
}

struct choice {
    int value, from, until;
};

static struct choice choose(struct body *b, int peak_op)
{
    const struct sim_sharded *s = b->a->s;
    struct choice best = {-1, 0, 0};
    double least_cost = INFINITY;
    for (int v = 0; v < s->value_count; v++) {
        if (!can_be_made_again(b, v) || s->values[v].definition >= peak_op || gap_at(b->a, v, peak_op)) continue;
        const int from = last_use_until(b, v, peak_op), until = first_use_behind(b, v, peak_op);
        const double bytes = sim_value_bytes(b->a, &s->values[v]);
        if (from >= peak_op || until < 0 || bytes < b->a->options->least_recomputed_bytes) continue;
        const double freed = bytes - waiting_bytes(b, v, peak_op, until), cost = sim_remat_cost(b->a, freed);
        if (cost >= least_cost) continue;
        least_cost = cost;
        best = (struct choice){v, from, until};
    }
    return best;
}

static void drop(struct body *b, const struct choice *choice)
{
    struct sim_gap *gap = base_new(b->a->arena, struct sim_gap, 1), **at = &b->a->gaps[choice->value];
    while (*at && (*at)->from < choice->from) at = &(*at)->next;
    *gap = (struct sim_gap){choice->from, choice->until, *at};
    *at = gap;
    keep_operands(b, choice->value, choice->until);
}

void sim_rematerialize_in_loops(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    const int values = a->s->value_count;
    a->gaps = base_new(a->arena, struct sim_gap *, values + 1);
    a->until = base_new(a->arena, int, values + 1);
    for (int round = 0; round < MOST_ROUNDS && !sim_has_room(a, out->peak_bytes); round++) {
        struct body b = {.a = a, .loop = a->s->ops[out->peak_op].loop};
        b.end = b.loop >= 0 ? a->s->ops[b.loop].match : a->s->op_count;
        b.uses = base_new(a->arena, struct uses, values + 1);
        b.operands = base_new(a->arena, int, values + 1);
        b.seen = base_new(a->arena, int, values + 1);
        find_uses(&b);
        const struct choice choice = choose(&b, out->peak_op);
        if (choice.value < 0) return;
        drop(&b, &choice);
        sim_assign_buffers(a, a->schedule, SIM_AS_LAID_OUT, out);
    }
}
