/* A step as a list of kernels and collectives, measured against predicted. */
#include "reports/reports.h"

#include <string.h>

const char *reports_phase_name(enum model_phase phase)
{
    static const char *const phases[] = {"forward", "backward", "optimizer"};
    return phases[phase];
}

static bool is_same(const struct sim_entry *a, const struct sim_entry *b)
{
    return a->phase == b->phase && (a->bound == SIM_BY_COMMUNICATION) == (b->bound == SIM_BY_COMMUNICATION) &&
           !strcmp(a->name, b->name);
}

/* Both lists are of one program, in its order: the match is the next of that name. */
struct reports_pair *reports_join(struct base_arena *arena, const struct sim_timeline *measured,
                                  const struct sim_timeline *predicted)
{
    struct reports_pair *pairs = base_new(arena, struct reports_pair, measured->count + 1);
    for (int i = 0, from = 0; i < measured->count; i++) {
        int at = from;
        pairs[i].measured = &measured->entries[i];
        while (at < predicted->count && !is_same(&measured->entries[i], &predicted->entries[at])) at++;
        if (at == predicted->count) continue;
        pairs[i].predicted = &predicted->entries[at];
        from = at + 1;
    }
    return pairs;
}
