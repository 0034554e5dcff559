/* What the executor may refuse to run: programs in which some dimension does not divide by what cuts it. */
#ifndef UNEVEN_H
#define UNEVEN_H

#include "sim/sim.h"

static inline bool is_uneven(const struct sim_executable *executable)
{
    const struct sim_sharded *s = executable->sharded;
    for (int v = 0; v < s->value_count; v++) {
        const struct model_tensor *t = &s->program->tensors[s->values[v].tensor];
        for (int i = 0; i < t->rank; i++)
            if (executable->sizes[t->dims[i]] % executable->shards[s->values[v].spec[i]]) return true;
    }
    return false;
}

#endif
