/* The sharded program as text: one operation a line, loops as indented blocks, each tensor with its local shape and the
 * mesh axes over its dimensions. */
#include "lab/lab.h"
#include "sim/partition/sharding_tiles.h"

struct printer {
    struct base_text *out;
    const struct sim_sharded *s;
    const struct topo_axes *mesh;
    const int64_t *sizes;
    const struct lab_why *why; /* or NULL */
};

static const char *axes_text(const struct printer *p, unsigned axes)
{
    return topo_axes_spell(p->out->arena, p->mesh, axes);
}

/* 16/data */
static void put_dim(const struct printer *p, int size, sim_order axes)
{
    base_putf(p->out, "%lld%s%s", (long long)p->sizes[size], axes ? "/" : "",
              sim_order_text(p->out->arena, p->mesh, axes, "+"));
}

static void put_indent(struct base_text *out, int depth)
{
    for (int i = 0; i < depth; i++) base_put(out, "  ");
}

/* bfloat16[16/data, 512, 8/model]: global sizes, and the mesh axes that shard them. */
static void put_value(const struct printer *p, int value)
{
    const struct sim_value *v = &p->s->values[value];
    const struct model_tensor *t = &p->s->program->tensors[v->tensor];
    struct base_text *out = p->out;
    base_putf(out, "%s[", model_dtype_name(v->dtype));
    for (int d = 0; d < t->rank; d++) {
        if (d) base_put(out, ", ");
        put_dim(p, t->dims[d], v->spec[d]);
    }
    base_putf(out, "]%s%s", v->partial ? " partial over " : "", axes_text(p, v->partial));
}

/* Layers of two kinds: outside their loop stands the first one. */
static int instance_of(const struct sim_sharded *s, const struct sim_op *op, const struct sim_causes *causes,
                       int tensor)
{
    int block = s->program->tensors[tensor].block;
    if (block < 0 || !causes->is_layer[block]) return 0;
    for (int loop = op->loop; loop >= 0; loop = s->ops[loop].loop)
        if (s->ops[loop].trips != MODEL_MICROBATCHES) return SIM_LATER_LAYERS;
    return SIM_FIRST_LAYER;
}

static void put_why(const struct printer *p, const struct sim_op *op)
{
    const struct sim_sharded *s = p->s;
    const struct lab_why *why = p->why;
    struct base_text *out = p->out, reason = {.arena = out->arena};
    if (!why || !op->output_count || op->op->kind == MODEL_UPDATE) return;
    int tensor = s->values[op->outputs[0]].tensor;
    int instance = instance_of(s, op, why->causes, tensor), slot = instance * why->causes->tensor_count + tensor;
    sim_spec spec = why->causes->spec[why->causes->computed[slot]];
    bool differs = false; /* partial sums, and values resharded by a collective */
    const struct model_tensor *t = &s->program->tensors[tensor];
    for (int d = 0; d < t->rank; d++)
        differs = differs || sim_order_of_dim(&why->causes->orders, spec, d) != s->values[op->outputs[0]].spec[d];
    base_put(&reason, "");
    lab_put_reason(&reason, s->program, why->rules, why->causes, instance, tensor);
    if (!reason.length) return;
    base_put(out, "  <- ");
    for (int d = 0; d < t->rank && differs; d++) {
        base_put(out, d ? ", " : "[");
        put_dim(p, t->dims[d], sim_order_of_dim(&why->causes->orders, spec, d));
    }
    base_putf(out, "%s%s", differs ? "]: " : "", reason.data);
}

/* The one-hot that an indexed read is written with: nobody makes it. */
static bool is_index(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE && op->op->lookup && op->op->kind == MODEL_MAP;
}

static bool is_of_index(const struct sim_sharded *s, int value)
{
    const int definition = s->values[value].definition;
    return definition >= 0 && is_index(&s->ops[definition]);
}

static const char *verb(const struct sim_op *op)
{
    static const char *const kinds[] = {
        [MODEL_EINSUM] = "einsum", [MODEL_MAP] = "map",       [MODEL_REDUCE] = "reduce", [MODEL_RESHAPE] = "reshape",
        [MODEL_SLICE] = "slice",   [MODEL_UPDATE] = "update", [MODEL_LOOP] = "loop"};
    if (op->op->lookup) return op->op->phase == MODEL_FORWARD ? "lookup" : "scatter_add";
    return kinds[op->op->kind];
}

static void put_compute(const struct printer *p, const struct sim_op *op)
{
    const char *function = model_function_name(op->op->function);
    const struct sim_sharded *s = p->s;
    struct base_text *out = p->out;
    base_putf(out, "%s%s%s %s: ", verb(op), *function ? " " : "", function, op->op->name);
    for (int i = 0, put = 0; i < op->input_count; i++)
        if (!op->op->lookup || !is_of_index(s, op->inputs[i]))
            base_putf(out, "%s%s", put++ ? "," : "", op->op->input_labels[i]);
    base_putf(out, "->%s = ", op->op->output_labels);
    for (int i = 0; i < op->output_count; i++) {
        if (i) base_put(out, ", ");
        put_value(p, op->outputs[i]);
    }
    if (op->output_count && !s->values[op->outputs[0]].stored) base_put(out, "  (fused)");
    else if (op->output_count && s->values[op->outputs[0]].saved) base_put(out, "  (saved)");
    put_why(p, op);
    base_put(out, "\n");
}

static void put_communicate(const struct printer *p, const struct sim_op *op)
{
    struct base_text *out = p->out;
    if (op->done) base_put(out, "start ");
    base_putf(out, "%s over %s for %s: ", sim_collective_name(op->collective), axes_text(p, op->axes), op->op->name);
    for (int result = 0; result < 2; result++) {
        if (result) base_put(out, " = ");
        if (op->stack != MODEL_ONE) base_putf(out, "%lld x ", (long long)p->sizes[op->stack]);
        put_value(p, result ? op->outputs[0] : op->inputs[0]);
    }
    base_put(out, "\n");
}

/* The collectives that are waited for before an operation. */
static void put_waits(const struct printer *p, int before, int depth)
{
    const struct sim_sharded *s = p->s;
    struct base_text *out = p->out;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMMUNICATE || op->done != before || !before) continue;
        put_indent(out, depth);
        base_putf(out, "done %s over %s for %s\n", sim_collective_name(op->collective), axes_text(p, op->axes),
                  op->op->name);
    }
}

/* Arguments of the step: parameters, state, batch. */
static void put_arguments(const struct printer *p)
{
    const struct sim_sharded *s = p->s;
    const struct lab_why *why = p->why;
    struct base_text *out = p->out;
    static const char *const categories[MODEL_CATEGORY_COUNT] = {[MODEL_PARAMETER] = "parameter",
                                                                 [MODEL_OPTIMIZER_STATE] = "state",
                                                                 [MODEL_GRADIENT] = "accumulator",
                                                                 [MODEL_INPUT] = "batch",
                                                                 [MODEL_CACHE] = "cache"};
    for (int v = 0; v < s->value_count; v++) {
        const struct sim_value *value = &s->values[v];
        const struct model_tensor *t = &s->program->tensors[value->tensor];
        struct base_text reason = {.arena = out->arena};
        if (!value->persistent || value->definition >= 0 || !categories[t->category]) continue;
        base_putf(out, "%s %s: ", categories[t->category], t->name);
        if (t->layers != MODEL_ONE) base_putf(out, "%lld x ", (long long)p->sizes[t->layers]);
        put_value(p, v);
        base_put(&reason, "");
        lab_put_reason(&reason, s->program, why->rules, why->causes, 0, value->tensor);
        base_putf(out, "%s%s\n", reason.length ? "  <- " : "", reason.data);
    }
}

void lab_put_program(const struct sim_sharded *s, const struct topo_axes *mesh, const int64_t *sizes,
                     const struct lab_why *why, struct base_text *out)
{
    const struct printer p = {out, s, mesh, sizes, why};
    int depth = 0;
    if (why) put_arguments(&p);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        put_waits(&p, i, depth);
        if (op->kind == SIM_LOOP_END) depth--;
        if (is_index(op)) continue;
        put_indent(out, depth);
        switch (op->kind) {
        case SIM_COMPUTE: put_compute(&p, op); break;
        case SIM_COMMUNICATE: put_communicate(&p, op); break;
        case SIM_LOOP_BEGIN: base_putf(out, "repeat %lld x %s {\n", (long long)sizes[op->trips], op->op->name); break;
        case SIM_LOOP_END: base_put(out, "}\n"); break;
        }
        if (op->kind == SIM_LOOP_BEGIN) depth++;
    }
    put_waits(&p, s->op_count, depth);
}
