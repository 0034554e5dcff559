/* A torchtitan training step under FSDP2 as a sequence of allocations through PyTorch's caching allocator: parameters,
 * a first step without optimizer states, then two with them (pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard,
 * torchtitan 0.2.2). */
#include "sim/cost/torch_step.h"

#include <string.h>

enum { STEPS = 3, ROWS_OF_AN_EXPERT = 8 /* which its rows are padded to a multiple of */ };

/* ---- FSDP's groups ---- */

static int64_t shard_sum(const struct torch_group *group)
{
    int64_t sum = 0;
    for (int i = 0; i < group->count; i++) sum += group->shard_elements[i];
    return sum;
}

/* The flat all-gather of bfloat16 copies of the shards; on one rank there is none. */
static void gather(struct torch_step *s, struct torch_group *group)
{
    if (s->shards == 1) return;
    int shards = sim_torch_take_on(s, 2 * shard_sum(group), MODEL_TEMPORARY, TORCH_GATHER_STREAM);
    group->flat = sim_torch_take_on(s, 2 * shard_sum(group) * s->shards, MODEL_TEMPORARY, TORCH_GATHER_STREAM);
    TORCH_DROP(s, &shards);
}

/* Each parameter is copied out into a storage of its own. */
static void copy_out(struct torch_step *s, struct torch_group *group)
{
    int cast = TORCH_NONE;
    for (int i = 0; i < group->count; i++) {
        const int64_t bytes = 2 * group->shard_elements[i] * s->shards;
        const int next = s->shards == 1 ? sim_torch_take(s, bytes, MODEL_TEMPORARY) : TORCH_NONE;
        TORCH_DROP(s, &cast);
        cast = next;
        group->gathered[i] = sim_torch_take(s, bytes, MODEL_TEMPORARY);
    }
    TORCH_DROP(s, &cast);
}

static void reshard(struct torch_step *s, struct torch_group *group)
{
    for (int i = 0; i < group->count; i++) TORCH_DROP(s, &group->gathered[i]);
}

/* Gradients to float32 and to their shards. The last one of the list is referred to until the result stands, and the
 * input of the reduction until the next group's; a lone rank, which scatters nothing, keeps none. */
static void reduce(struct torch_step *s, struct torch_group *group)
{
    const int64_t bytes = 4 * shard_sum(group);
    const int last = s->shards == 1 ? group->count : group->count - 1;
    reshard(s, group);
    TORCH_DROP(s, &s->reduce_input);
    s->reduce_input = sim_torch_take(s, bytes * s->shards, MODEL_GRADIENT);
    for (int i = 0; i < last; i++) TORCH_DROP(s, &group->gradients[i]);
    int result = sim_torch_take_on(s, bytes, MODEL_GRADIENT, TORCH_REDUCE_STREAM);
    if (s->shards == 1) {
        int divided = sim_torch_take_on(s, bytes, MODEL_GRADIENT, TORCH_REDUCE_STREAM);
        TORCH_DROP(s, &divided);
    }
    if (last < group->count) TORCH_DROP(s, &group->gradients[last]);
    if (group->flat_gradient != TORCH_NONE) TORCH_DROP(s, &result); /* added to an earlier microbatch's */
    else group->flat_gradient = result;
}

/* ---- the model ---- */

struct torch_model {
    struct torch_group *groups; /* embedding, layers, last norm and logits */
    struct torch_layer *layers;
    int layer_count, first_sparse /* layer; all behind it are, too */, embedded, last_norm, last_rstd, last_gathered,
        logits, head_input_gradient; /* of a loss in tiles, which leaves it */
    int64_t microbatches, loss_tiles;
    enum torch_keeps keeps;
    int every; /* 0: of all layers; else of one of so many */
};

static enum torch_keeps keeps_of(const struct torch_model *m, int layer)
{
    return m->every && (layer + 1) % m->every ? TORCH_KEEPS_ALL : m->keeps;
}

static int *input_of(struct torch_model *m, int layer)
{
    return layer ? &m->layers[layer - 1].out : &m->embedded;
}

static void embed(struct torch_step *s, struct torch_model *m)
{
    int tokens = TORCH_NONE, looked_up, pieces = TORCH_NONE;
    if (s->tensor == 1) {
        m->embedded = sim_torch_take(s, s->residual, MODEL_ACTIVATION);
        return;
    }
    tokens = sim_torch_take(s, 8 * s->rows, MODEL_TEMPORARY);
    looked_up = sim_torch_take(s, s->whole, MODEL_TEMPORARY);
    TORCH_DROP(s, &tokens);
    pieces = sim_torch_take(s, s->whole, MODEL_TEMPORARY);
    m->embedded = sim_torch_take(s, s->residual, MODEL_ACTIVATION);
    TORCH_DROP(s, &pieces, &looked_up);
}

static void forward(struct torch_step *s, struct torch_model *m)
{
    struct torch_group *head = &m->groups[m->layer_count + 1];
    s->phase = MODEL_FORWARD, s->where = "forward";
    gather(s, &m->groups[0]);
    copy_out(s, &m->groups[0]);
    embed(s, m);
    reshard(s, &m->groups[0]);
    for (int i = 0; i < m->layer_count; i++) {
        gather(s, &m->groups[i + 1]);
        copy_out(s, &m->groups[i + 1]);
        TORCH_DROP(s, &m->groups[i].flat);
        s->sparse = i >= m->first_sparse;
        sim_torch_layer_forward(s, &m->layers[i], keeps_of(m, i));
        reshard(s, &m->groups[i + 1]);
    }
    gather(s, head);
    copy_out(s, head);
    TORCH_DROP(s, &m->groups[m->layer_count].flat);
    m->last_norm = sim_torch_take(s, s->residual, MODEL_ACTIVATION);
    m->last_rstd = sim_torch_take(s, s->rstd, MODEL_ACTIVATION);
    if (s->tensor > 1) {
        m->last_gathered = sim_torch_take(s, s->whole, MODEL_ACTIVATION);
        TORCH_DROP(s, &m->last_norm);
    }
    if (m->loss_tiles == 1) m->logits = sim_torch_take(s, s->logits, MODEL_ACTIVATION);
    TORCH_DROP(s, &head->flat);
}

/* Cross entropy in float32, or with parallel logits by hand (torch/distributed/tensor/parallel/loss.py); m->logits
 * becomes the gradient in bfloat16. */
static void eager_loss(struct torch_step *s, struct torch_model *m)
{
    const int64_t wide = 2 * s->logits;
    s->where = "loss";
    int copy = sim_torch_take(s, wide, MODEL_TEMPORARY), shifted = TORCH_NONE, exponentials = TORCH_NONE;
    if (s->tensor > 1) {
        shifted = sim_torch_take(s, wide, MODEL_TEMPORARY);
        exponentials = sim_torch_take(s, wide, MODEL_TEMPORARY);
        TORCH_DROP(s, &exponentials);
    }
    int probabilities = sim_torch_take(s, wide, MODEL_ACTIVATION);
    TORCH_DROP(s, &shifted, &copy, &m->logits);
    s->phase = MODEL_BACKWARD;
    int target = sim_torch_take(s, wide, MODEL_TEMPORARY), sum = TORCH_NONE;
    if (s->tensor > 1) {
        exponentials = sim_torch_take(s, wide, MODEL_TEMPORARY);
        sum = sim_torch_take(s, wide, MODEL_TEMPORARY);
        TORCH_DROP(s, &exponentials);
    }
    int gradient = sim_torch_take(s, wide, MODEL_TEMPORARY);
    TORCH_DROP(s, &sum, &target, &probabilities);
    m->logits = sim_torch_take(s, s->logits, MODEL_TEMPORARY);
    TORCH_DROP(s, &gradient);
}

/* Its float32 stays inside of kernels. */
static void compiled_loss(struct torch_step *s, struct torch_model *m)
{
    s->where = "loss", s->phase = MODEL_BACKWARD;
    int gradient = sim_torch_take(s, s->logits, MODEL_TEMPORARY);
    TORCH_DROP(s, &m->logits);
    m->logits = gradient;
}

static void loss(struct torch_step *s, struct torch_model *m)
{
    (s->compiles ? compiled_loss : eager_loss)(s, m);
}

/* One tile at a time: logits, loss and gradients. The weight's gradients are added up; each tile's gradient of the
 * hidden states is copied into its place. From the third tile on, the allocator is in the same state. */
static void loss_in_tiles(struct torch_step *s, struct torch_model *m)
{
    struct torch_group *head = &m->groups[m->layer_count + 1];
    m->head_input_gradient = sim_torch_take(s, s->whole, MODEL_TEMPORARY);
    for (int tile = 0; tile < 2; tile++) {
        s->phase = MODEL_FORWARD;
        m->logits = sim_torch_take(s, s->logits, MODEL_ACTIVATION);
        loss(s, m);
        int again = tile ? sim_torch_take(s, 2 * head->elements[1], MODEL_GRADIENT) : TORCH_NONE;
        if (!tile) sim_torch_take_gradient(s, head, 1);
        int piece = sim_torch_take(s, (s->whole + m->loss_tiles - 1) / m->loss_tiles, MODEL_TEMPORARY);
        TORCH_DROP(s, &again, &piece, &m->logits);
    }
}

static int backward_of_head(struct torch_step *s, struct torch_model *m)
{
    struct torch_group *head = &m->groups[m->layer_count + 1];
    if (m->loss_tiles == 1) sim_torch_take_gradient(s, head, 1);
    int of_norm = m->loss_tiles == 1 ? sim_torch_take(s, s->whole, MODEL_TEMPORARY) : m->head_input_gradient,
        pieces = TORCH_NONE;
    TORCH_DROP(s, &m->logits, &m->last_norm, &m->last_gathered);
    if (s->tensor > 1) {
        pieces = sim_torch_take(s, s->whole, MODEL_TEMPORARY);
        int scattered = sim_torch_take(s, s->residual, MODEL_TEMPORARY);
        TORCH_DROP(s, &pieces, &of_norm);
        of_norm = scattered;
    }
    const int gradient = sim_torch_take(s, s->residual, MODEL_TEMPORARY);
    sim_torch_take_gradient(s, head, 0);
    TORCH_DROP(s, &of_norm, input_of(m, m->layer_count), &m->last_rstd);
    s->where = "reduction of the logits' gradient";
    reduce(s, head);
    return gradient;
}

static void backward(struct torch_step *s, struct torch_model *m)
{
    (m->loss_tiles == 1 ? loss : loss_in_tiles)(s, m);
    s->where = "backward";
    gather(s, &m->groups[m->layer_count]);
    int gradient = backward_of_head(s, m);
    for (int i = m->layer_count - 1; i >= 0; i--) {
        struct torch_group *group = &m->groups[i + 1];
        s->where = "layers backward";
        copy_out(s, group);
        TORCH_DROP(s, &group->flat);
        gather(s, &m->groups[i]);
        s->sparse = i >= m->first_sparse;
        if (keeps_of(m, i) != TORCH_KEEPS_ALL) {
            sim_torch_layer_forward(s, &m->layers[i], TORCH_KEEPS_ALL);
            TORCH_DROP(s, &m->layers[i].out);
        }
        sim_torch_layer_backward(s, &m->layers[i], group, input_of(m, i), &gradient);
        s->where = "reduction of a layer's gradients";
        reduce(s, group);
    }
    s->where = "embedding backward";
    copy_out(s, &m->groups[0]);
    TORCH_DROP(s, &m->groups[0].flat);
    int whole = s->tensor > 1 ? sim_torch_take(s, s->whole, MODEL_TEMPORARY) : TORCH_NONE;
    /* of all rows, of which this rank's are copied */
    int rows = s->tensor > 1 ? sim_torch_take(s, 2 * s->tensor * m->groups[0].elements[0], MODEL_GRADIENT) : TORCH_NONE;
    if (s->tensor > 1) TORCH_DROP(s, &gradient, &whole);
    sim_torch_take_gradient(s, &m->groups[0], 0);
    TORCH_DROP(s, &gradient, &rows);
    s->where = "reduction of the embedding's gradient";
    reduce(s, &m->groups[0]);
    TORCH_DROP(s, &s->reduce_input);
}

/* ---- from a plan ---- */

static struct torch_group new_group(void)
{
    struct torch_group group = {.flat = TORCH_NONE, .flat_gradient = TORCH_NONE};
    for (int i = 0; i < TORCH_MOST_PARAMETERS; i++) group.gathered[i] = group.gradients[i] = TORCH_NONE;
    return group;
}

/* Shards are of the first dimension, rounded up. */
static void add_parameter(const struct torch_step *s, struct torch_group *group, int64_t rows, int64_t columns)
{
    group->elements[group->count] = rows * columns;
    group->shard_elements[group->count++] = (rows + s->shards - 1) / s->shards * columns;
}

/* Latent attention has a matrix down to its latent vector in the place of keys', and one up in that of values'. */
static void add_attention(const struct torch_step *s, const struct model_config *c, struct torch_group *group)
{
    const struct model_latent *l = &c->latent;
    const int64_t e = c->emb_dim, heads = c->num_heads / s->tensor, kv = c->num_kv_heads * c->head_dim / s->tensor,
                  q = heads * c->head_dim, up = heads * (c->head_dim - l->rope_dim + l->value_dim);
    const bool latent = l->key_value_rank > 0;
    add_parameter(s, group, q, e);
    add_parameter(s, group, latent ? l->key_value_rank + l->rope_dim : kv, e);
    add_parameter(s, group, latent ? up : kv, latent ? l->key_value_rank : e);
    add_parameter(s, group, e, latent ? heads * l->value_dim : q);
}

static void add_mlp(const struct torch_step *s, const struct model_config *c, struct torch_group *group)
{
    const int64_t e = c->emb_dim, f = c->mlp_dim / s->tensor;
    add_parameter(s, group, f, e);
    add_parameter(s, group, e, f);
    add_parameter(s, group, f, e);
}

/* Shards are of whole experts. */
static void add_experts(const struct torch_step *s, const struct model_config *c, struct torch_group *group)
{
    const int64_t e = c->emb_dim, f = c->experts.mlp_dim, shared = c->experts.shared_mlp_dim;
    for (int i = 0; i < 3; i++) add_parameter(s, group, c->experts.count, f * e);
    add_parameter(s, group, c->experts.count, e);
    for (int i = 0; i < 3 && shared; i++) add_parameter(s, group, i == 1 ? e : shared, i == 1 ? shared : e);
}

static void make_groups(const struct torch_step *s, const struct model_config *c, struct torch_model *m)
{
    const int64_t e = c->emb_dim, v = c->vocab_size / s->tensor;
    for (int i = 0; i < m->layer_count + 2; i++) m->groups[i] = new_group();
    add_parameter(s, &m->groups[0], v, e);
    for (int i = 0; i < m->layer_count; i++) {
        add_attention(s, c, &m->groups[i + 1]);
        (i < m->first_sparse ? add_mlp : add_experts)(s, c, &m->groups[i + 1]);
        for (int half = 0; half < 2; half++) add_parameter(s, &m->groups[i + 1], e, 1);
    }
    add_parameter(s, &m->groups[m->layer_count + 1], e, 1);
    add_parameter(s, &m->groups[m->layer_count + 1], v, e);
}

static void take_for_each_parameter(struct torch_step *s, const struct torch_model *m, enum model_category category,
                                    int arrays, int width)
{
    for (int g = 0; g < m->layer_count + 2; g++)
        for (int i = 0; i < m->groups[g].count; i++) {
            if (category == MODEL_OPTIMIZER_STATE) sim_torch_take(s, 4, category); /* its count of steps */
            for (int a = 0; a < arrays; a++) sim_torch_take(s, width * m->groups[g].shard_elements[i], category);
        }
}

/* Values are a part of the latent vector's projection. Positions rotate a part of the queries, and one key for all
 * heads. */
static void set_latent_sizes(struct torch_step *s, const struct model_config *c)
{
    const struct model_latent *l = &c->latent;
    const int64_t rows = 2 * s->rows, heads = c->num_heads / s->tensor;
    s->keys = rows * heads * c->head_dim, s->values = rows * heads * (c->head_dim - l->rope_dim + l->value_dim);
    s->context = rows * heads * l->value_dim, s->turned_queries = rows * heads * l->rope_dim;
    s->turned_keys = rows * l->rope_dim;
}

static void set_expert_sizes(struct torch_step *s, const struct model_config *c)
{
    const int64_t rows = s->rows * c->experts.selected, padded = rows + ROWS_OF_AN_EXPERT * c->experts.count;
    s->scores = 4 * s->rows * c->experts.count;
    s->routed = 2 * rows * c->emb_dim, s->padded = 2 * padded * c->emb_dim, s->hidden = 2 * padded * c->experts.mlp_dim;
    s->shared = 2 * s->rows * c->experts.shared_mlp_dim;
}

static void set_sizes(struct torch_step *s, const struct sim_cost_context *p, int replicas)
{
    const struct model_config *c = p->plan->config;
    const int64_t sequences = (p->sizes[MODEL_BATCH] + replicas - 1) / replicas, length = p->plan->targets_length,
                  rows = sequences * length, t = s->tensor;
    s->rows = rows, s->joins = sequences > 1;
    s->whole = 2 * rows * c->emb_dim, s->residual = s->whole / t, s->rstd = 4 * rows / t;
    s->queries = 2 * rows * c->num_heads * c->head_dim / t, s->keys = 2 * rows * c->num_kv_heads * c->head_dim / t;
    s->values = s->keys, s->context = s->queries, s->turned_queries = s->queries, s->turned_keys = s->keys;
    s->norms_queries = c->qk_norm;
    if (c->latent.key_value_rank) set_latent_sizes(s, c);
    if (c->experts.count) set_expert_sizes(s, c);
    s->mlp = 2 * rows * c->mlp_dim / t;
    s->logits = 2 * ((rows + p->plan->loss_tiles - 1) / p->plan->loss_tiles) * c->vocab_size / t;
    s->logsumexp = 4 * rows * c->num_heads / t, s->rotations = 4 * length * c->head_dim;
}

static void run_steps(struct torch_step *s, struct torch_model *m, enum model_optimizer optimizer)
{
    const char *const *names;
    int tokens, inputs, targets;
    s->where = "parameters";
    take_for_each_parameter(s, m, MODEL_PARAMETER, 1, 4);
    sim_torch_take(s, s->rotations, MODEL_INPUT);
    for (int i = 0; i < 2; i++)
        sim_torch_take(s, 32 << 20, MODEL_TEMPORARY); /* cuBLAS: of forward's thread and autograd's */
    for (int step = 0; step < STEPS; step++) {
        for (int g = 0; g < m->layer_count + 2; g++) TORCH_DROP(s, &m->groups[g].flat_gradient);
        for (int64_t i = 0; i < (m->microbatches < 2 ? m->microbatches : 2); i++) {
            tokens = sim_torch_take(s, 8 * s->rows, MODEL_INPUT);
            inputs = sim_torch_take(s, 8 * s->rows, MODEL_INPUT), targets = sim_torch_take(s, 8 * s->rows, MODEL_INPUT);
            TORCH_DROP(s, &tokens);
            forward(s, m);
            backward(s, m);
            TORCH_DROP(s, &inputs, &targets);
        }
        if (step == 0)
            take_for_each_parameter(s, m, MODEL_OPTIMIZER_STATE, model_optimizer_moments(optimizer, &names),
                                    model_moments_are_bytes(optimizer) ? 1 : 4);
    }
}

static struct torch_layer nothing(void)
{
    struct torch_layer layer;
    int *storages = (int *)&layer;
    for (size_t i = 0; i < sizeof layer / sizeof(int); i++) storages[i] = TORCH_NONE;
    return layer;
}

/* Through a fresh allocator. */
static void replay(struct base_arena *scratch, struct torch_step *s, const struct sim_cost_context *p, int replicas)
{
    const struct sim_plan *plan = p->plan;
    const double *c = p->placement->profile.constants;
    const struct model_experts *e = &plan->config->experts;
    struct torch_model m = {.layer_count = (int)plan->config->num_decoder_layers,
                            .first_sparse = (int)(e->count ? e->first_dense_layers : plan->config->num_decoder_layers),
                            .microbatches = plan->num_microbatches,
                            .loss_tiles = plan->loss_tiles,
                            .every = plan->remat_every};
    sim_allocator_begin(&s->allocator, scratch, (int64_t)(c[SIM_CAPACITY_BYTES] - c[SIM_RESERVED_BYTES]));
    s->allocator.expands = plan->expandable_segments;
    if (sim_torch_is_transformers(plan)) {
        sim_torch_replay_transformers(p, s, replicas);
        return;
    }
    set_sizes(s, p, replicas);
    m.keeps = plan->options.remat == MODEL_REMAT_SELECTIVE                   ? TORCH_KEEPS_LISTED
              : plan->options.remat == MODEL_REMAT_FULL || plan->remat_every ? TORCH_KEEPS_INPUT
                                                                             : TORCH_KEEPS_ALL;
    m.groups = base_new(scratch, struct torch_group, m.layer_count + 2);
    m.layers = base_new(scratch, struct torch_layer, m.layer_count);
    for (int i = 0; i < m.layer_count; i++) m.layers[i] = nothing();
    m.embedded = m.last_norm = m.last_rstd = m.last_gathered = m.logits = m.head_input_gradient = TORCH_NONE;
    make_groups(s, plan->config, &m);
    run_steps(s, &m, plan->options.optimizer);
}

bool sim_torch_replay(struct base_arena *scratch, struct sim_cost_context *p, const struct sim_detail *detail,
                      struct sim_torch_memory *out)
{
    const struct sim_plan *plan = p->plan;
    struct torch_step s = {.compiles = plan->compiles, .reduce_input = TORCH_NONE};
    struct torch_degrees degrees;
    if (!sim_replays_torch(plan) || sim_torch_unreplayed(plan) || !sim_torch_degrees(plan, &degrees)) return false;
    s.shards = degrees.shards, s.tensor = degrees.tensor;
    struct torch_step again = s;
    replay(scratch, &s, p, degrees.replicas);
    if (detail && detail->peak) {
        again.explained = detail->peak, again.explained_arena = detail->arena;
        again.explained_bytes = s.most_allocated_bytes;
        replay(scratch, &again, p, degrees.replicas);
    }
    out->allocated_bytes = (double)s.most_allocated_bytes;
    out->reserved_bytes = (double)s.allocator.most_reserved_bytes;
    for (int i = 0; i < MODEL_CATEGORY_COUNT; i++) out->bytes[i] = (double)s.peak_bytes[i];
    p->peak.name = s.peak_name, p->peak.phase = s.peak_phase, p->peak.trips = MODEL_ONE;
    return true;
}
