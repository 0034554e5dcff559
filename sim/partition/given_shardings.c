/* Start and end of propagation: the given shardings of parameters, state, batch and constraints, and the propagated
 * shardings of all tensors. */
#include "sim/partition/spread.h"

#include <string.h>

/* ---- given shardings ---- */

/* Scores have two length dimensions. No annotation can distinguish them, so the second stays unsharded. */
void sim_axis_names(const struct model_tensor *tensor, const char **names)
{
    for (int i = 0; i < tensor->rank; i++) {
        names[i] = tensor->given_axes ? tensor->given_axes[i] : model_axis_name((enum model_axis)tensor->axes[i]);
        for (int j = 0; j < i && names[i] && !tensor->given_axes; j++)
            if (tensor->axes[j] == tensor->axes[i]) names[i] = NULL;
    }
}

/* T5X's MoE partitioner shards rows over experts, then data. It reshapes rows so that those of one expert index are a
 * dimension. Programs here have no such dimension. Rows are sharded over data first, so that the same data moves. */
static bool is_batch_over_experts(const char *logical, const struct model_axes *of)
{
    return logical && !strcmp(logical, "batch") && of->count == 2 && !strcmp(of->names[0], "expert") &&
           !strcmp(of->names[1], "data");
}

/* A rule's mesh axes, in the rule's order. */
static sim_order order_of(const struct sim_graph *g, const char *logical, const struct model_axes *of)
{
    sim_order order = 0;
    for (int j = 0; j < of->count; j++) {
        int axis = topo_axis_named(g->options->extents.mesh, of->names[j]);
        order = sim_join(order, axis < 0 ? 0 : 1u << axis);
    }
    return is_batch_over_experts(logical, of) ? sim_set_of(order) : order;
}

static enum base_status shard(struct sim_graph *g, int dim, sim_order axes, sim_spec *spec)
{
    unsigned number;
    if (!sim_order_number(&g->orders, axes, &number))
        return base_fail(g->error, BASE_INPUT,
                         "logical_axis_rules: %s is one more order of these mesh axes than a prediction supports; use "
                         "an order that another rule has",
                         sim_order_text(g->arena, g->options->extents.mesh, axes, ", "));
    *spec |= (sim_spec)(sim_set_of(axes) | number << SIM_MOST_AXES) << (DIM * dim);
    return BASE_OK;
}

static enum base_status resolve_axes(struct sim_graph *g, struct sim_graph_memo *memo)
{
    struct model_axes spec[MODEL_MAX_RANK];
    BASE_TRY(model_resolve(g->options->rules, memo->names, memo->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, g->error));
    const unsigned live = g->options->live, model_axis = g->options->model_axis;
    sim_order orders[MODEL_MAX_RANK];
    unsigned used = 0;
    memo->spec = 0;
    for (int i = 0; i < memo->rank; i++) {
        orders[i] = order_of(g, memo->names[i], &spec[i]);
        used |= sim_set_of(orders[i]);
    }
    if (memo->stream)
        orders[SIM_LENGTH_OF_STREAM] = sim_join(orders[SIM_LENGTH_OF_STREAM], sim_stream_axes(used, model_axis));
    for (int i = 0; i < memo->rank; i++) BASE_TRY(shard(g, i, sim_order_without(orders[i], ~live), &memo->spec));
    return BASE_OK;
}

/* Many tensors have the same logical axes. */
static enum base_status resolve(struct sim_graph *g, const struct model_tensor *tensor, sim_spec *out)
{
    struct sim_graph_memo asked = {.rank = tensor->rank,
                                   .stream = g->options->sequence_parallel && model_is_of_stream(g->program, tensor)};
    sim_axis_names(tensor, asked.names);
    for (int i = 0; i < g->memo_count; i++) {
        const struct sim_graph_memo *memo = &g->memo[i];
        bool same = memo->rank == asked.rank && memo->stream == asked.stream &&
                    !memcmp(memo->names, asked.names, sizeof asked.names);
        *out = memo->spec;
        if (same) return BASE_OK;
    }
    BASE_TRY(resolve_axes(g, &asked));
    *out = asked.spec;
    if (g->memo_count < MEMO) g->memo[g->memo_count++] = asked;
    return BASE_OK;
}

bool sim_is_shared_over_data(const struct model_tensor *tensor, enum sim_optimizer_partitioning partitioning)
{
    bool state = tensor->block < 0 && tensor->category == MODEL_OPTIMIZER_STATE && tensor->like >= 0,
         accumulated = tensor->block < 0 && tensor->category == MODEL_GRADIENT,
         parameter = tensor->block < 0 && tensor->category == MODEL_PARAMETER;
    return (state && partitioning != SIM_REPLICATED) ||
           (accumulated && partitioning >= SIM_STATE_AND_GRADIENTS_OVER_DATA) ||
           (parameter && partitioning == SIM_PARAMETERS_TOO_OVER_DATA);
}

/* Decisions by size are recorded as in resharding, so that models of other sizes can share the result. */
static struct sim_shape vector_of(int size, unsigned axes)
{
    return (struct sim_shape){.rank = 1, .dims = {(unsigned char)size}, .spec = {(unsigned char)axes}};
}

/* JAX requires that state divides evenly: padded shards add up to more than the whole. */
static bool divides(const struct sim_graph *g, int size, unsigned char axes)
{
    const struct sim_extents *extents = &g->options->extents;
    const struct sim_decision padded = {vector_of(size, axes), vector_of(size, 0), .left_times = axes};
    return !extents->sizes || !sim_decide(extents, &padded);
}

/* The largest unsharded dimension, or -1. */
static int largest_whole(const struct sim_graph *g, const struct model_tensor *tensor, sim_spec spec)
{
    int largest = -1;
    for (int i = 0; i < tensor->rank && g->options->extents.sizes; i++) {
        if (sim_spec_of_dim(spec, i)) continue;
        const struct sim_shape one = vector_of(tensor->dims[i], 0),
                               other = vector_of(tensor->dims[largest < 0 ? i : largest], 0);
        if (largest < 0 || sim_is_larger(&g->options->extents, &one, &other)) largest = i;
    }
    return largest;
}

/* ZeRO shards the first dimension that the data axis still divides. Tensors that are equal in all expert groups count
 * as replicas. If experts are sharded over the devices of a sequence, replicas on these devices do not count. Flat
 * arrays are sharded at any size. Their largest dimension represents the flat array, since its padding is smallest. */
static sim_spec with_data_axis(const struct sim_graph *g, const struct model_tensor *tensor, sim_spec spec)
{
    const unsigned replicas = spec & each_dim * g->options->expert_axis ? 0 : g->options->expert_axis,
                   experts = g->options->sent_parts & sim_spec_axes(spec),
                   all = (g->options->data_axis | replicas) & ~experts, data_axis = all & g->options->live;
    if (spec & each_dim * data_axis) return spec;
    for (int i = 0; i < tensor->rank; i++)
        if (!sim_spec_of_dim(spec, i) && divides(g, tensor->dims[i], (unsigned char)all))
            return spec | (sim_spec)data_axis << (DIM * i);
    const int flat = g->options->cuts_flat_state ? largest_whole(g, tensor, spec) : -1;
    return flat < 0 ? spec : spec | (sim_spec)data_axis << (DIM * flat);
}

/* Scales are sharded like their channels. Rules may shard a single dimension by other axes. */
static enum base_status resolve_scales(struct sim_graph *g, const struct model_tensor *scales, sim_spec *out)
{
    const struct model_tensor *of = sim_graph_tensor_of(g, scales->scales);
    sim_spec spec;
    BASE_TRY(resolve(g, of, &spec));
    *out = 0;
    for (int d = 0; d < scales->rank; d++)
        *out |= (sim_spec)sim_spec_of_dim(spec, sim_dim_labelled(of->labels, scales->labels[d])) << (DIM * d);
    return BASE_OK;
}

static enum base_status give(struct sim_graph *g, const struct sim_graph_given *given)
{
    const struct model_tensor *t = sim_graph_tensor_of(g, given->tensor);
    sim_spec spec;
    BASE_TRY(t->scales >= 0 ? resolve_scales(g, t, &spec) : resolve(g, sim_graph_tensor_of(g, given->axes_of), &spec));
    if (sim_is_shared_over_data(t, g->options->optimizer_partitioning)) spec = with_data_axis(g, t, spec);
    for (int i = 0; i < SIM_INSTANCES; i++) g->spec[given->nodes[i]] = spec;
    return BASE_OK;
}

/* ---- the propagated shardings ---- */

static void place_parts(struct sim_shardings *s)
{
    int slots = SIM_INSTANCES * s->tensor_count;
    s->computed = s->specs;
    s->used = s->computed + slots;
    s->space = s->used + slots;
    s->saved = s->space + slots;
    s->stacked = s->saved + s->tensor_count;
}

/* The index of a spec among the distinct ones; a new spec is appended. */
static int place_of(struct base_arena *arena, struct base_index *seen, sim_spec *distinct, sim_spec spec)
{
    const uint64_t hash = base_hash(BASE_HASH_START, &spec, sizeof spec);
    unsigned at = (unsigned)hash;
    for (int i; (i = base_index_next(seen, hash, &at)) >= 0; at++)
        if (distinct[i] == spec) return i;
    distinct[seen->count] = spec;
    base_index_add(arena, seen, hash);
    return seen->count - 1;
}

bool sim_shardings_keep(struct base_arena *arena, struct base_arena *scratch, const struct sim_shardings *shardings,
                        struct sim_stored_shardings *out)
{
    const int count = shardings->spec_count;
    struct base_index seen = {.count = 0};
    sim_spec *met = base_reserve(scratch, (size_t)count, sizeof *met), last = 0;
    uint16_t *of = base_reserve(arena, (size_t)count, sizeof *of);
    for (int i = 0, place = -1; i < count && seen.count <= SIM_MOST_SPECS; i++) {
        if (place < 0 || shardings->specs[i] != last) place = place_of(scratch, &seen, met, shardings->specs[i]);
        last = shardings->specs[i];
        of[i] = (uint16_t)place;
    }
    sim_spec *distinct = base_reserve(arena, (size_t)seen.count, sizeof *distinct);
    memcpy(distinct, met, (size_t)seen.count * sizeof *distinct);
    *out = (struct sim_stored_shardings){*shardings, distinct, of};
    return seen.count <= SIM_MOST_SPECS;
}

bool sim_shardings_are(const struct sim_stored_shardings *stored, const struct sim_shardings *shardings)
{
    const struct sim_orders *own = &stored->all.orders, *other = &shardings->orders;
    if (own->count != other->count || memcmp(own->met, other->met, (size_t)own->count * sizeof *own->met) != 0)
        return false;
    for (int i = 0; i < shardings->spec_count; i++)
        if (stored->distinct[stored->of[i]] != shardings->specs[i]) return false;
    return true;
}

struct sim_shardings sim_shardings_of(struct base_arena *arena, const struct sim_stored_shardings *stored)
{
    struct sim_shardings all = stored->all;
    all.specs = base_reserve(arena, (size_t)all.spec_count, sizeof *all.specs);
    for (int i = 0; i < all.spec_count; i++) all.specs[i] = stored->distinct[stored->of[i]];
    place_parts(&all);
    return all;
}

static void write_out(const struct sim_graph *g, struct sim_shardings *out)
{
    int tensors = g->tensor_count, slots = SIM_INSTANCES * tensors;
    *out = (struct sim_shardings){
        .tensor_count = tensors, .spec_count = 3 * slots + 2 * tensors, .orders = g->orders, .is_layer = g->is_layer};
    out->specs = base_new(g->arena, sim_spec, out->spec_count);
    place_parts(out);
    for (int i = 0; i < slots; i++) {
        out->computed[i] = g->spec[g->computed[i]];
        out->used[i] = g->spec[g->read[i]];
        out->space[i] = g->spec[2 * slots + i];
    }
    for (int t = 0; t < tensors; t++) {
        int block = sim_graph_tensor_of(g, t)->block;
        out->saved[t] = g->is_saved[t] ? g->spec[sim_saved_node(g, t)] : out->used[t];
        out->stacked[t] = g->is_saved[t] ? g->spec[sim_stack_node(g, t)] : out->used[t];
        if (block < 0 || !g->is_layer[block]) continue;
        bool differs = out->used[t] != out->used[tensors + t] || out->computed[t] != out->computed[tensors + t] ||
                       out->space[t] != out->space[tensors + t];
        if (differs) out->first_differs[g->trips_of_block[block]] = true;
    }
}

static void write_causes(const struct sim_graph *g, struct sim_causes *out)
{
    *out = (struct sim_causes){.mesh = g->options->extents.mesh,
                               .of_node = g->causes,
                               .spec = g->spec,
                               .orders = g->orders,
                               .computed = g->computed,
                               .read = g->read};
    out->is_layer = g->is_layer;
    out->tensor_count = g->tensor_count;
    out->axes_of = base_new(g->arena, int, g->tensor_count);
    for (int t = 0; t < g->tensor_count; t++) out->axes_of[t] = -1;
    for (int i = 0; i < g->given_count; i++) out->axes_of[g->given[i].tensor] = g->given[i].axes_of;
}

enum base_status sim_propagate(struct base_arena *arena, const struct sim_graph *graph,
                               const struct sim_sharding_options *options, struct sim_shardings *out,
                               struct base_error *error)
{
    struct sim_graph g = *graph;
    const struct topo_axes *mesh = options->extents.mesh;
    g.arena = arena, g.options = options, g.error = error;
    g.spec = base_new(arena, sim_spec, g.node_count);
    g.memo = base_new(arena, struct sim_graph_memo, MEMO);
    g.forward = base_new(arena, uint64_t, g.step_count / WORD + 1);
    g.backward = base_new(arena, uint64_t, g.step_count / WORD + 1);
    if (options->causes) g.causes = base_new(arena, struct sim_cause, g.node_count * mesh->count);
    for (int i = 0; i < g.given_count; i++) BASE_TRY(give(&g, &g.given[i]));
    sim_spread_sharding(&g);
    write_out(&g, out);
    if (options->causes) write_causes(&g, options->causes);
    return BASE_OK;
}
