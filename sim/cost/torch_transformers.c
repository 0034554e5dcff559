/* A training step of Hugging Face's transformers on one device, or under DistributedDataParallel, through PyTorch's
 * caching allocator: weights, steps of AdamW, the loss of all logits (loss/loss_utils.py). */
#include "sim/cost/torch_modules.h"

enum { STEPS = 3, HALF = 2, WIDE = 4, BUCKET_BYTES = 25 << 20 };

/* ---- weights ---- */

static int new_weight(struct torch_transformer *m, int64_t elements, int width, bool trained)
{
    struct torch_tape *t = &m->tape;
    const int weight = sim_tape_new(t, elements, width, trained);
    t->values[weight].is_weight = true;
    m->weights =
        base_grown(t->storages->allocator.arena, m->weights, m->weight_count, &m->weight_capacity, sizeof *m->weights);
    m->weights[m->weight_count++] = weight;
    return weight;
}

static int weight_of(struct torch_transformer *m, int64_t elements)
{
    return new_weight(m, elements, m->stream_width, !m->lora_rank);
}

/* bitsandbytes: two elements per byte, and a one-byte maximum per block; the maxima have float32 maxima of their own.
 */
static int four_bits(struct torch_transformer *m, int64_t elements)
{
    enum { BLOCK = 64, BLOCKS = 256 };
    const int weight = new_weight(m, elements / 2, 1, false);
    new_weight(m, elements / BLOCK, 1, false);
    new_weight(m, elements / (BLOCK * BLOCKS) + 1, WIDE, false);
    return weight;
}

static struct torch_linear new_linear(struct torch_transformer *m, int64_t in, int64_t out, bool biased, bool adapted)
{
    struct torch_linear made = {m->four_bits ? four_bits(m, in * out) : weight_of(m, in * out),
                                biased ? weight_of(m, out) : TORCH_NONE, TORCH_NONE, TORCH_NONE, out};
    if (m->lora_rank && adapted) {
        made.low = new_weight(m, in * m->lora_rank, WIDE, true);
        made.high = new_weight(m, out * m->lora_rank, WIDE, true);
    }
    return made;
}

static const struct torch_linear no_linear = {TORCH_NONE, TORCH_NONE, TORCH_NONE, TORCH_NONE, 0};

static void make_norm(struct torch_transformer *m, int *weight, int *bias)
{
    *weight = weight_of(m, m->config->emb_dim);
    *bias = m->config->norm == MODEL_NORM_LAYER ? weight_of(m, m->config->emb_dim) : TORCH_NONE;
}

static struct torch_attention new_attention(struct torch_transformer *m)
{
    const struct model_config *c = m->config;
    const int64_t e = c->emb_dim, q = c->num_heads * c->head_dim, kv = c->num_kv_heads * c->head_dim;
    const bool joined = c->norm == MODEL_NORM_LAYER, biased = c->biases & MODEL_BIAS_QKV;
    struct torch_attention made = {.query_norm = TORCH_NONE, .key_norm = TORCH_NONE};
    make_norm(m, &made.norm, &made.norm_bias);
    made.query = new_linear(m, e, joined ? q + 2 * kv : q, biased, true);
    made.key = joined ? no_linear : new_linear(m, e, kv, biased, true);
    made.value = joined ? no_linear : new_linear(m, e, kv, biased, true);
    made.result = new_linear(m, q, e, c->biases & MODEL_BIAS_OUT, true);
    if (c->qk_norm) made.query_norm = weight_of(m, c->head_dim), made.key_norm = weight_of(m, c->head_dim);
    return made;
}

static struct torch_block new_block(struct torch_transformer *m, bool crosses)
{
    const struct model_config *c = m->config;
    const int64_t e = c->emb_dim, f = c->mlp_dim, x = c->experts.count, inner = c->experts.mlp_dim;
    const bool biased = c->biases & MODEL_BIAS_MLP, adapted = !m->lora_attention_only;
    struct torch_block made = {.experts_in = TORCH_NONE, .experts_out = TORCH_NONE};
    made.itself = new_attention(m);
    if (crosses) made.cross = new_attention(m);
    make_norm(m, &made.norm, &made.norm_bias);
    if (x) {
        made.router = new_linear(m, e, x, false, false);
        made.experts_in = weight_of(m, x * e * 2 * inner), made.experts_out = weight_of(m, x * e * inner);
        return made;
    }
    made.gate = new_linear(m, e, f, biased, adapted);
    made.up = c->mlp_activation_count == 2 ? new_linear(m, e, f, biased, adapted) : no_linear;
    made.down = new_linear(m, f, e, biased, adapted);
    return made;
}

static void make_weights(struct torch_transformer *m)
{
    enum { BUCKETS = 32 };
    const struct model_config *c = m->config;
    struct base_arena *arena = m->tape.storages->allocator.arena;
    m->tape.category = MODEL_PARAMETER;
    m->embedding = weight_of(m, c->vocab_size * c->emb_dim);
    m->positions = c->num_positions ? weight_of(m, c->num_positions * c->emb_dim) : TORCH_NONE;
    m->encoder = base_new(arena, struct torch_block, c->num_encoder_layers + 1);
    m->decoder = base_new(arena, struct torch_block, c->num_decoder_layers + 1);
    for (int i = 0; i < 2; i++) m->relative[i] = c->encoder ? weight_of(m, BUCKETS * c->num_heads) : TORCH_NONE;
    for (int i = 0; i < c->num_encoder_layers; i++) m->encoder[i] = new_block(m, false);
    for (int i = 0; i < c->num_decoder_layers; i++) m->decoder[i] = new_block(m, c->encoder);
    make_norm(m, &m->last_norm[1], &m->last_bias);
    if (c->encoder) make_norm(m, &m->last_norm[0], &m->last_bias);
    /* T5ForConditionalGeneration ties its logits to the table, whatever a checkpoint has (configuration_t5.py). */
    m->head = c->logits_via_embedding || c->encoder ? m->embedding : weight_of(m, c->vocab_size * c->emb_dim);
}

/* ---- a step ---- */

static void checkpointed_backward(void *model, int number, int input, int gradient)
{
    struct torch_transformer *m = model;
    struct torch_tape *t = &m->tape;
    const int from = t->node_count;
    const bool autocast = t->autocast;
    t->records = t->stops = true, t->autocast = m->stream_width == WIDE;
    const int out = sim_torch_block(m, number, input);
    sim_tape_forget_casts(t);
    t->stops = t->stopped = false, t->autocast = autocast;
    sim_tape_drop(t, out);
    t->values[out].gradient = gradient;
    sim_tape_backward(t, from);
}

/* The encoder's, or the decoder's. */
static int run_layers(struct torch_transformer *m, int stack, int x)
{
    struct torch_tape *t = &m->tape;
    const struct model_config *c = m->config;
    const int64_t count = stack ? c->num_decoder_layers : c->num_encoder_layers;
    int number = stack ? (int)c->num_encoder_layers : 0;
    for (int64_t i = 0; i < count; i++, number++) {
        t->records = !m->checkpoints;
        const int out = sim_torch_block(m, number, x);
        t->records = true;
        if (m->checkpoints) {
            t->values[x].wants = true; /* of adapters, too: enable_input_require_grads */
            sim_tape_note(t, TORCH_CHECKPOINT, out, &x, 1, (const int[]){x, m->encoded, m->bias[stack]}, 3);
            t->nodes[t->node_count - 1].layer = number;
        }
        sim_tape_drop(t, x);
        x = out;
    }
    return x;
}

static int looked_up(struct torch_transformer *m, int table, int64_t elements)
{
    const int out = sim_tape_new(&m->tape, elements, m->stream_width, false);
    sim_tape_note(&m->tape, TORCH_LOOKUP, out, &table, 1, NULL, 0);
    return out;
}

static int embedded(struct torch_transformer *m, int64_t rows)
{
    struct torch_tape *t = &m->tape;
    const int64_t e = m->config->emb_dim;
    int x = looked_up(m, m->embedding, rows * e);
    if (m->positions != TORCH_NONE) {
        const int place = looked_up(m, m->positions, m->length * e), sum = sim_tape_add(t, x, place);
        sim_tape_drop(t, x), sim_tape_drop(t, place);
        x = sum;
    }
    return m->config->norm == MODEL_NORM_LAYER || m->config->encoder ? sim_torch_dropout(m, x) : x;
}

static int normed(struct torch_transformer *m, int stack, int x, int64_t rows)
{
    const int out = sim_torch_norm(m, x, m->last_norm[stack], m->last_bias, rows);
    sim_tape_drop(&m->tape, x);
    return m->config->encoder ? sim_torch_dropout(m, out) : out;
}

static void encode(struct torch_transformer *m)
{
    const struct model_config *c = m->config;
    if (!c->encoder) return;
    m->bias[0] = looked_up(m, m->relative[0], c->num_heads * m->encoder_length * m->encoder_length);
    const int x = run_layers(m, 0, embedded(m, m->encoder_rows));
    m->encoded = normed(m, 0, x, m->encoder_rows);
}

/* Cross entropy in float32, except for T5's bfloat16 logits. Releases the hidden states. */
static int loss_of(struct torch_transformer *m, int x)
{
    struct torch_tape *t = &m->tape;
    const int64_t words = m->config->vocab_size;
    if (m->fuses_loss) {
        const int fused =
            sim_tape_fused_loss(t, x, m->head, (m->rows + m->loss_tiles - 1) / m->loss_tiles * words, m->loss_tiles);
        sim_tape_drop(t, x);
        return fused;
    }
    const int logits = sim_tape_linear(t, x, m->head, TORCH_NONE, m->rows * words);
    sim_tape_drop(t, x);
    const int wide = sim_tape_as(t, logits, m->config->encoder && !t->autocast ? t->values[logits].width : WIDE);
    const int logarithms = sim_tape_new(t, t->values[wide].elements, t->values[wide].width, false);
    sim_tape_note(t, TORCH_CROSS_ENTROPY, logarithms, &wide, 1, &logarithms, 1);
    sim_tape_drop(t, wide), sim_tape_drop(t, logits);
    return logarithms;
}

static void forward_and_backward(struct torch_transformer *m)
{
    struct torch_tape *t = &m->tape;
    const struct model_config *c = m->config;
    t->storages->phase = MODEL_FORWARD, t->storages->where = "forward", t->category = MODEL_ACTIVATION;
    t->autocast = m->stream_width == WIDE, t->records = true, t->node_count = 0;
    m->bias[0] = m->bias[1] = m->encoded = TORCH_NONE;
    encode(m);
    if (c->encoder) m->bias[1] = looked_up(m, m->relative[1], c->num_heads * m->length * m->length);
    const int first = embedded(m, m->rows);
    const int x = normed(m, 1, run_layers(m, 1, first), m->rows);
    t->storages->where = "loss";
    const int logarithms = loss_of(m, x);
    for (int i = 0; i < 2; i++) sim_tape_drop(t, m->bias[i]);
    sim_tape_drop(t, m->encoded);
    sim_tape_forget_casts(t);
    t->autocast = false;
    t->storages->phase = MODEL_BACKWARD, t->storages->where = "backward", t->category = MODEL_TEMPORARY;
    t->values[logarithms].gradient = sim_tape_new(t, 1, WIDE, false);
    sim_tape_drop(t, logarithms);
    sim_tape_backward(t, 0);
    sim_tape_drop(t, t->values[first].gradient);
    t->values[first].gradient = TORCH_NONE;
}

static void take_states(struct torch_transformer *m, int moments)
{
    struct torch_tape *t = &m->tape;
    t->category = MODEL_OPTIMIZER_STATE;
    for (int i = 0; i < m->weight_count; i++) {
        const struct torch_value of = t->values[m->weights[i]];
        if (!of.wants) continue;
        sim_tape_new(t, 1, WIDE, false); /* its count of steps */
        for (int a = 0; a < moments; a++) sim_tape_new(t, of.elements, of.width, false);
    }
}

/* DistributedDataParallel copies gradients into buckets, which stand all the time. */
static void take_buckets(struct torch_transformer *m)
{
    int64_t bytes = 0;
    m->tape.storages->where = "buckets of DDP", m->tape.category = MODEL_GRADIENT;
    for (int i = 0; i < m->weight_count; i++) {
        const struct torch_value *of = &m->tape.values[m->weights[i]];
        bytes += of->wants ? of->elements * of->width : 0;
    }
    for (; bytes > 0; bytes -= BUCKET_BYTES)
        sim_tape_new(&m->tape, bytes < BUCKET_BYTES ? bytes : BUCKET_BYTES, 1, false);
}

static void forget_gradients(struct torch_transformer *m)
{
    struct torch_tape *t = &m->tape;
    for (int i = 0; i < m->weight_count; i++) {
        sim_tape_drop(t, t->values[m->weights[i]].gradient);
        t->values[m->weights[i]].gradient = TORCH_NONE;
    }
}

static void run_steps(struct torch_transformer *m, int64_t microbatches, int moments, int replicas)
{
    struct torch_tape *t = &m->tape;
    t->storages->where = "parameters";
    make_weights(m);
    t->weights_end = t->value_count;
    if (replicas > 1) take_buckets(m);
    for (int i = 0; i < 2; i++) /* cuBLAS: of forward's thread and autograd's */
        sim_torch_take(t->storages, 32 << 20, MODEL_TEMPORARY);
    for (int step = 0; step < STEPS; step++) {
        forget_gradients(m);
        for (int64_t i = 0; i < (microbatches < 2 ? microbatches : 2); i++) {
            const int tokens = sim_torch_take(t->storages, 8 * (m->rows + m->encoder_rows), MODEL_INPUT);
            forward_and_backward(m);
            int given = tokens;
            TORCH_DROP(t->storages, &given);
        }
        if (step == 0) take_states(m, moments);
    }
}

void sim_torch_replay_transformers(const struct sim_cost_context *p, struct torch_step *s, int replicas)
{
    const struct sim_plan *plan = p->plan;
    const char *const *names;
    const int64_t sequences = (p->sizes[MODEL_BATCH] + replicas - 1) / replicas;
    struct torch_transformer m = {.tape = {.storages = s, .again = checkpointed_backward},
                                  .config = plan->config,
                                  .lora_rank = plan->options.lora_rank,
                                  .lora_attention_only = plan->options.lora_attention_only,
                                  .batch = sequences,
                                  .length = plan->targets_length,
                                  .encoder_length = plan->inputs_length,
                                  .rows = sequences * plan->targets_length,
                                  .encoder_rows = plan->config->encoder ? sequences * plan->inputs_length : 0,
                                  .fuses_loss = plan->fuses_loss,
                                  .loss_tiles = plan->loss_tiles,
                                  .drops_out = plan->options.dropout,
                                  .checkpoints = plan->options.remat == MODEL_REMAT_FULL,
                                  .stream_width = plan->options.weight_dtype != MODEL_FLOAT32 ? HALF : WIDE,
                                  .four_bits = plan->options.weight_dtype == MODEL_INT8};
    m.tape.model = &m;
    run_steps(&m, plan->num_microbatches, model_optimizer_moments(plan->options.optimizer, &names), replicas);
}
