/* Recomputation by blocks of layers. Software that repeats several kinds of layers, as Gemma 2's pairs and Gemma 3's
 * sixes, checkpoints a block: it saves one input per block and recomputes the whole block. Layers beyond whole blocks
 * are outside the loop. There XLA merges recomputation with the forward pass, so these layers keep everything that they
 * read (dumps of MaxText by libtpu 0.0.42: 4 of 34 layers). */
#include "sim/compile/compiled_buffers.h"

#include <math.h>

/* The number of layers of a loop whose input is saved. */
static double remaining_layers(const struct sim_assigner *a, int loop)
{
    return fmod(sim_layers_of(a, loop), a->options->block_layers);
}

double sim_saved_inputs(const struct sim_assigner *a, int loop)
{
    if (a->options->block_layers <= 1) return sim_layers_of(a, loop);
    return floor(sim_layers_of(a, loop) / a->options->block_layers) + remaining_layers(a, loop);
}

/* True if a layer recomputes the value for gradients that follow all recomputation. */
static bool is_recomputed_for_gradients(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    const struct sim_op *made = value->definition >= 0 ? &a->s->ops[value->definition] : NULL,
                        *last = value->last_use >= 0 ? &a->s->ops[value->last_use] : NULL;
    return made && made->kind == SIM_COMPUTE && made->op->recomputed && value->stored &&
           sim_is_over_layers(a, value->loop) && last->kind == SIM_COMPUTE && !last->op->recomputed;
}

static int loop_before(const struct sim_assigner *a, int backward)
{
    for (int i = 0; i < backward; i++)
        if (a->s->ops[i].kind == SIM_LOOP_BEGIN && sim_is_over_layers(a, i) && a->backward_loop[i] == backward)
            return i;
    return backward;
}

void sim_add_blocks(struct sim_assigner *a)
{
    for (int v = 0; a->options->block_layers > 1 && v < a->s->value_count; v++) {
        if (!is_recomputed_for_gradients(a, v)) continue;
        const int loop = a->s->values[v].loop, end = a->s->ops[loop].match;
        const double bytes = sim_stacked_bytes(a, v), beside = (a->options->block_layers - 1) * bytes,
                     kept = remaining_layers(a, loop) * bytes;
        sim_add_buffer(a, loop + 1, end - 1, beside, beside, MODEL_TEMPORARY);
        if (a->options->scanned)
            sim_add_buffer(a, a->s->ops[loop_before(a, loop)].match, loop, kept, kept, MODEL_ACTIVATION);
    }
}
