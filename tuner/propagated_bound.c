/* A time bound for one rule set. Its rules are propagated through the program, and the partitioner's function says
 * how each contraction is partitioned and which moves its operands need. This covers most link traffic, at a
 * fraction of the cost of partitioning. Everything between contractions is bounded as for any rules (bounds.c). */
#include "tuner/bounds.h"

#include <string.h>

enum { MOST_DONE = 8 };

struct propagated {
    struct sim_cache *cache;
    const struct tuner_relaxed_program *relaxed;
    struct tuner_work work;
    struct sim_shardings shardings;
    struct sim_extents extents;
    bool keeps_shards;
};

/* The spec in which the operation finds an operand or leaves its result (sim_part_found_as). */
static sim_spec spec_of(const struct sim_shardings *s, const struct tuner_relaxed_contraction *c, int operand,
                        int instance)
{
    const int tensor = c->tensors[operand], block = c->blocks[operand];
    const bool in_layer = block >= 0 && s->is_layer[block];
    const int slot = in_layer ? instance * s->tensor_count + tensor : tensor;
    if (operand == 2) return s->computed[slot];
    return block >= 0 && block != c->blocks[2] && !in_layer ? s->saved[tensor] : s->used[slot];
}

static bool is_uneven(const struct tuner_work *w, const struct tuner_relaxed_contraction *c, int operand,
                      const sim_order *spec)
{
    bool uneven = false;
    for (int d = 0; d < c->shapes[operand].rank; d++)
        uneven = uneven || w->sizes[c->shapes[operand].dims[d]] % (int64_t)w->shards[sim_set_of(spec[d])];
    return uneven;
}

/* False: the operands' shardings may differ from these. */
static bool ask(const struct propagated *p, const struct tuner_relaxed_contraction *c, int instance,
                struct sim_contraction_done *out)
{
    struct sim_contraction_asked asked = {.gradient = c->gradient, .keeps_shards = p->keeps_shards};
    for (int i = 0; i < BASE_COUNT(asked.specs); i++) {
        const sim_spec spec = spec_of(&p->shardings, c, i, instance);
        asked.letters[i] = c->letters[i];
        asked.shapes[i] = c->shapes[i];
        for (int d = 0; d < c->shapes[i].rank; d++) asked.specs[i][d] = sim_order_of_dim(&p->shardings.orders, spec, d);
        if (c->reshaped[i] && is_uneven(&p->work, c, i, asked.specs[i])) return false;
    }
    sim_ask_contraction(sim_cache_contractions(p->cache), &p->extents, &asked, out);
    return true;
}

/* Labels are numbered as found: those of the left operand, then those only in the right one. */
static int label_of(const struct tuner_relaxed_contraction *c, int operand, int dim)
{
    const char *left = c->letters[0], *found = strchr(left, c->letters[operand][dim]);
    if (found) return (int)(found - left);
    int label = (int)strlen(left);
    for (int d = 0; d < dim; d++) label += !strchr(left, c->letters[1][d]);
    return label;
}

/* False: an axis shards several labels. */
static bool choose(const struct propagated *p, const struct tuner_relaxed_contraction *c,
                   const struct sim_contraction_done *done, struct tuner_dot_choice *choice)
{
    *choice = (struct tuner_dot_choice){.axis_count = p->extents.mesh->count};
    for (int axis = 0; axis < choice->axis_count; axis++) choice->label[axis] = -1;
    for (int i = 0; i < BASE_COUNT(done->axes); i++)
        for (int d = 0; d < c->shapes[i].rank; d++)
            for (unsigned rest = done->axes[i][d]; rest; rest &= rest - 1) {
                const int label = label_of(c, i, d), axis = __builtin_ctz(rest);
                if (choice->label[axis] >= 0 && choice->label[axis] != label) return false;
                choice->label[axis] = label;
                choice->axes[label] |= rest & -rest;
            }
    return true;
}

static double move_s(const struct tuner_work *w, const struct sim_move *move, enum model_dtype dtype)
{
    const struct sim_shape *shape = &move->before;
    double bytes = (double)model_dtype_bytes(dtype);
    for (int d = 0; d < shape->rank; d++) bytes *= w->local[shape->dims[d]][shape->spec[d]];
    return sim_collective_s(w->placement, move->kind, move->axes, bytes);
}

static struct tuner_done done_in(const struct propagated *p, const struct tuner_relaxed_contraction *c, int instance)
{
    struct sim_contraction_done done;
    struct tuner_done out = {.known = ask(p, c, instance, &done)};
    out.known = out.known && choose(p, c, &done, &out.choice);
    for (int i = 0; out.known && i < done.move_count; i++) {
        const struct sim_move *move = &done.moves[i];
        const int divisor = c->divisors[move->operand];
        if (divisor) out.moved_s += move_s(&p->work, move, c->moved_as[move->operand]) / divisor;
    }
    return out;
}

/* The time of one copy of a relaxed kernel; `first` is its first contraction. */
static double kernel_s(struct propagated *p, const struct tuner_relaxed_contraction *first, int instance)
{
    struct tuner_done done[MOST_DONE];
    const struct tuner_relaxed_kernel *kernel = &p->relaxed->kernels[first->kernel];
    for (int i = 0; i < kernel->dot_count && i < BASE_COUNT(done); i++) done[i] = done_in(p, &first[i], instance);
    p->work.done = kernel->dot_count <= BASE_COUNT(done) ? done : NULL;
    const double s = tuner_work_kernel_s(&p->work, first->kernel) / kernel->copies;
    p->work.done = NULL;
    return s;
}

/* Without scan, the first layer may be sharded differently from the rest. */
static double layers_s(struct propagated *p, const struct tuner_relaxed_contraction *first)
{
    const unsigned char *trips = p->relaxed->kernels[first->kernel].trips;
    const double later_s = kernel_s(p, first, SIM_LATER_LAYERS);
    for (int i = 0; i < TUNER_MOST_TRIPS; i++) {
        const double share = 1 / (double)p->work.sizes[trips[i]];
        if (p->shardings.first_differs[trips[i]])
            return later_s * (1 - share) + kernel_s(p, first, SIM_FIRST_LAYER) * share;
    }
    return later_s;
}

enum base_status tuner_propagated_s(struct sim_cache *cache, const struct tuner_relaxed_program *relaxed,
                                    const struct tuner_ruled *ruled, const struct sim_placement *placement,
                                    const struct sim_plan *plan, int64_t batch, int64_t microbatches, bool links,
                                    double limit_s, double *out, struct base_error *error)
{
    struct propagated p = {.cache = cache, .relaxed = relaxed, .keeps_shards = sim_keeps_shards(plan)};
    double s = 0;
    BASE_TRY(sim_propagated_shardings(cache, plan, &p.shardings, error));
    tuner_work_begin(&p.work, relaxed, ruled->spec, placement, batch, microbatches, links);
    p.extents = (struct sim_extents){p.work.sizes, &placement->axes, NULL};
    for (int i = 0; i < relaxed->contraction_count && s < limit_s;
         i += relaxed->kernels[relaxed->contractions[i].kernel].dot_count)
        s += layers_s(&p, &relaxed->contractions[i]);
    for (int k = 0; k < relaxed->kernel_count && s < limit_s; k++)
        if (!relaxed->kernels[k].dot_count) s += tuner_work_kernel_s(&p.work, k);
    *out = s;
    return BASE_OK;
}
