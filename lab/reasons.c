/* The reason for a tensor's sharding in words: the axis rules that gave it, or the neighbour and operation that
 * propagated it. */
#include "lab/lab.h"
#include "sim/partition/sharding_tiles.h"

#include <string.h>

enum { MOST_HOPS = 4 };

struct explanation {
    struct base_text *out;
    const struct model_program *program;
    const struct model_rules *rules;
    const struct sim_causes *causes;
    int tensor;
};

static int kind_of(const struct explanation *q, int node)
{
    return node / q->causes->tensor_count;
}

static int tensor_of(const struct explanation *q, int node)
{
    return node % q->causes->tensor_count;
}

/* The part of a name that the tensor in question lacks: "key/kernel" next to "decoder/layers/self_attention/key". */
static void put_name(const struct explanation *q, const char *name)
{
    const char *own = q->program->tensors[q->tensor].name, *shown = name;
    for (size_t i = 0; name[i] && name[i] == own[i]; i++)
        if (name[i] == '/') shown = name + i + 1;
    base_put(q->out, shown);
}

static const char *axes_text(const struct explanation *q, sim_order axes)
{
    return sim_order_text(q->out->arena, q->causes->mesh, axes, "+");
}

static unsigned axes_by_rules(const struct explanation *q, const struct model_axes *axes)
{
    unsigned set = 0;
    for (int i = 0; i < axes->count; i++) {
        int axis = topo_axis_named(q->causes->mesh, axes->names[i]);
        set |= axis < 0 ? 0 : 1u << axis;
    }
    return set;
}

/* "batch->data, embed->model": dimensions sharded by rules, and those sharded without a rule. */
static void put_rules(const struct explanation *q, sim_spec spec)
{
    const struct model_tensor *of = &q->program->tensors[q->causes->axes_of[q->tensor]];
    const char *names[MODEL_MAX_RANK] = {NULL}, *comma = "";
    struct model_axes given[MODEL_MAX_RANK];
    struct base_error ignored; /* propagation has resolved them before */
    bool persistent = q->program->tensors[q->tensor].block < 0;
    sim_axis_names(of, names);
    if (model_resolve(q->rules, names, of->rank, MODEL_AXIS_IS_UNSHARDED, given, NULL, &ignored) != BASE_OK) return;
    for (int d = 0; d < of->rank; d++) {
        const sim_order has = sim_order_of_dim(&q->causes->orders, spec, d);
        const unsigned rules = axes_by_rules(q, &given[d]);
        const sim_order by_rules = sim_order_without(has, ~rules), beside = sim_order_without(has, rules);
        if (by_rules) base_putf(q->out, "%s%s->%s", comma, names[d], axes_text(q, by_rules)), comma = ", ";
        if (beside)
            base_putf(q->out, "%s%s", comma, persistent ? "optimizer_partitioning" : "sequence_parallel"), comma = ", ";
    }
}

/* A reduction of several operands gets its sharding through its reduced operand. */
static struct sim_cause cause_of(const struct explanation *q, int node, int axis)
{
    const int count = q->causes->mesh->count;
    struct sim_cause cause = q->causes->of_node[node * count + axis];
    for (int hop = 0; hop < MOST_HOPS && cause.way != SIM_BY_NOBODY; hop++) {
        int kind = kind_of(q, cause.node);
        if (kind < SIM_NODE_SPACE || kind >= SIM_NODE_STACK) break;
        cause = q->causes->of_node[cause.node * count + axis];
    }
    return cause;
}

static void put_cause(const struct explanation *q, const struct sim_cause *cause)
{
    const char *name = q->program->tensors[tensor_of(q, cause->node)].name;
    int kind = kind_of(q, cause->node);
    if (cause->way == SIM_BY_NOBODY) return;
    if (!cause->op && kind >= SIM_NODE_CONSTRAINED && kind < SIM_NODE_SPACE && tensor_of(q, cause->node) == q->tensor) {
        base_put(q->out, "constraint ");
        put_rules(q, q->causes->spec[cause->node]);
        return;
    }
    if (cause->way == SIM_BY_USER && cause->op) base_put(q->out, "its user ");
    put_name(q, name);
    if (kind >= SIM_NODE_STACK) base_put(q->out, ", stacked over layers");
    else if (!cause->op) base_put(q->out, ", round the loop");
    if (cause->way == SIM_BY_OTHER) {
        base_put(q->out, " next to it in ");
        put_name(q, cause->op->name);
    }
}

static bool same_cause(const struct sim_cause *a, const struct sim_cause *b)
{
    return a->op == b->op && a->way == b->way && a->node == b->node;
}

static void put_causes(const struct explanation *q, int node)
{
    unsigned axes = 0;
    for (int d = 0; d < MODEL_MAX_RANK; d++) axes |= sim_spec_of_dim(q->causes->spec[node], d);
    const unsigned all = axes;
    while (axes) {
        struct sim_cause cause = cause_of(q, node, __builtin_ctz(axes));
        unsigned same = 0;
        for (unsigned rest = axes; rest; rest &= rest - 1) {
            struct sim_cause other = cause_of(q, node, __builtin_ctz(rest));
            if (same_cause(&cause, &other)) same |= rest & ~(rest - 1);
        }
        if (same != all) base_putf(q->out, "%s%s: ", axes == all ? "" : "; ", axes_text(q, same));
        put_cause(q, &cause);
        axes &= ~same;
    }
}

void lab_put_reason(struct base_text *out, const struct model_program *program, const struct model_rules *rules,
                    const struct sim_causes *causes, int instance, int tensor)
{
    struct explanation q = {out, program, rules, causes, tensor};
    int slot = instance * causes->tensor_count + tensor, node = causes->computed[slot], read = causes->read[slot];
    bool given = causes->axes_of[tensor] >= 0, constrained = read != node || program->tensors[tensor].constrained;
    if (!given || read != node) put_causes(&q, node);
    if (!given || (read != node && causes->spec[read] == causes->spec[node])) return;
    if (!causes->spec[read]) {
        if (causes->spec[node]) base_put(out, "; then constraint, unsharded");
        return;
    }
    base_putf(out, "%s%s ", read != node && causes->spec[node] ? "; then " : "", constrained ? "constraint" : "rules");
    put_rules(&q, causes->spec[read]);
}
