/* Lower bounds on memory: the step's allocations and frees in program order, and the persistent train state. */
#include "tuner/bounds.h"

#include <string.h>

struct level {
    double at_begin, peak;
};

/* Follows the simulator's allocations and frees of saved tensors, sharded as far as propagation might. Transient
 * buffers are ignored: their lifetimes depend on the collectives between their users. */
static double peak_of_events(const struct tuner_work *w)
{
    enum { DEPTH = 8 };
    struct level levels[DEPTH] = {{0, 0}};
    double now = 0;
    int depth = 0;
    for (int i = 0; i < w->o->event_count; i++) {
        const struct sim_event *event = &w->o->events[i];
        if (event->bracket > 0) {
            levels[++depth] = (struct level){now, now};
        } else if (event->bracket < 0) {
            double more = sim_growth_of_loop(levels[depth].at_begin, now, (double)w->sizes[event->trips]),
                   peak = levels[depth].peak + (more > 0 ? more : 0);
            now += more;
            depth--;
            if (peak > levels[depth].peak) levels[depth].peak = peak;
        } else if (event->category != MODEL_TEMPORARY) {
            now += event->sign * w->least_bytes[event->shape];
            if (now > levels[depth].peak) levels[depth].peak = now;
        }
    }
    return levels[0].peak;
}

/* Each tensor with the shards of its own class. */
static double state_bytes(const struct tuner_work *w, int i)
{
    const struct sim_shape *shape = &w->o->shapes[w->o->persistent_shapes[i]];
    double elements = (double)w->sizes[shape->layers];
    for (int d = 0; d < shape->rank; d++) elements *= w->local[shape->dims[d]][w->spec[w->o->persistent_classes[i]][d]];
    return elements * (double)model_dtype_bytes(shape->dtype);
}

double tuner_work_peak_bytes(const struct tuner_work *w)
{
    const struct sim_profile *profile = &w->placement->profile;
    double bytes = profile->constants[SIM_RESERVED_BYTES];
    for (int i = 0; i < w->o->persistent_count; i++) bytes += state_bytes(w, i);
    if (w->o->executable || !w->charges.lifetimes) return bytes;
    const double peak_bytes = peak_of_events(w);
    return bytes + peak_bytes + sim_fragments_bytes(profile, peak_bytes);
}

static double weight_of(const struct tuner_work *w, const double *counts)
{
    double bytes = 0;
    for (int i = 0; i < w->o->shape_count; i++) bytes += counts[i] * w->least_bytes[i];
    return bytes;
}

/* Treats loops over layers as a whole. */
void tuner_work_saved(const struct tuner_work *w, double most[TUNER_MOST_SHAPES])
{
    enum { DEPTH = 8 };
    static const size_t size = sizeof(double) * TUNER_MOST_SHAPES;
    double now[TUNER_MOST_SHAPES] = {0}, begin_of[DEPTH][TUNER_MOST_SHAPES], most_bytes = 0;
    int depth = 0, layers = 0; /* layers: enclosing loops, except those over microbatches */
    memset(most, 0, size);
    for (int i = 0; i < w->o->event_count; i++) {
        const struct sim_event *event = &w->o->events[i];
        if (event->bracket > 0) {
            memcpy(begin_of[++depth], now, size);
            layers += event->trips != MODEL_MICROBATCHES;
        } else if (event->bracket < 0) {
            for (int j = 0; j < w->o->shape_count; j++)
                now[j] += sim_growth_of_loop(begin_of[depth][j], now[j], (double)w->sizes[event->trips]);
            depth--;
            layers -= event->trips != MODEL_MICROBATCHES;
        } else if (event->category != MODEL_TEMPORARY) {
            now[event->shape] += event->sign;
        }
        bool alone = layers == 0 && (event->bracket < 0 || event->sign > 0);
        if (!alone || weight_of(w, now) <= most_bytes) continue;
        most_bytes = weight_of(w, now);
        memcpy(most, now, size);
    }
}

double tuner_work_state_bytes(const struct tuner_work *w, uint64_t classes)
{
    double bytes = 0;
    for (int i = 0; i < w->o->persistent_count; i++)
        if (classes >> w->o->persistent_classes[i] & 1) bytes += state_bytes(w, i);
    return bytes;
}
