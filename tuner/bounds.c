/* From a relaxed program, rules and sizes to lower bounds on seconds and bytes. Each part is a minimum on its own:
 * - an operation's shards are no smaller than the mesh axes of its tensors' rules allow;
 * - a kernel takes its launch, plus the longer of its arithmetic and its bytes;
 * - a sum over a sharded label is reduced; a parameter needed in another sharding is moved. */
#include "tuner/bounds.h"

#include <math.h>
#include <string.h>

/* ---- local sizes ---- */

static unsigned axes_of_classes(const struct tuner_work *w, uint64_t classes)
{
    unsigned axes = 0;
    for (; classes; classes &= classes - 1)
        for (int i = 0; i < MODEL_MAX_RANK; i++) axes |= w->spec[__builtin_ctzll(classes)][i];
    return axes;
}

/* The smallest possible shard of a tensor with this shape: each dimension as its classes shard it or, if they
 * disagree, by all their axes. */
static void size_shape(struct tuner_work *w, int s)
{
    const struct sim_shape *shape = &w->o->shapes[s];
    unsigned spec[MODEL_MAX_RANK] = {0}, seen = 0, twice = 0;
    for (uint64_t rest = w->o->shape_classes[s]; rest; rest &= rest - 1)
        for (int i = 0; i < shape->rank; i++) spec[i] |= w->spec[__builtin_ctzll(rest)][i];
    for (int i = 0; i < shape->rank; i++) {
        twice |= seen & spec[i];
        seen |= spec[i];
    }
    double elements = (double)w->sizes[shape->layers];
    for (int i = 0; i < shape->rank; i++) elements *= w->local[shape->dims[i]][spec[i] & ~twice];
    unsigned followed = axes_of_classes(w, w->o->shape_followers[s]), divided = twice | (followed & ~seen);
    w->bytes[s] = elements / w->shards[divided] * (double)model_dtype_bytes(shape->dtype);
    w->axes[s] = seen | followed;
}

/* Propagation may shard a dimension like any tensor with such a dimension, by one or all of that tensor's axes. */
static void size_unannotated(struct tuner_work *w)
{
    memset(w->axes_of_size, 0, sizeof w->axes_of_size);
    for (int c = 0; c < w->o->class_count; c++)
        for (int i = 0; i < w->o->classes[c].rank; i++)
            for (int size = 0; w->spec[c][i] && w->o->sizes_of_class[c][i] >> size; size++)
                if (w->o->sizes_of_class[c][i] >> size & 1) w->axes_of_size[size] |= w->spec[c][i];
    for (int s = 0; s < w->o->shape_count; s++) {
        const struct sim_shape *shape = &w->o->shapes[s];
        double whole = (double)w->sizes[shape->layers], cut = whole;
        unsigned axes = 0, twice = 0;
        for (int i = 0; i < shape->rank; i++) {
            unsigned own = w->axes_of_size[w->o->carriers[shape->dims[i]]];
            whole *= (double)w->sizes[shape->dims[i]];
            cut *= w->local[shape->dims[i]][own];
            twice |= axes & own;
            axes |= own;
        }
        w->least_axes[s] = axes;
        w->least_bytes[s] = (twice ? whole / w->shards[axes] : cut) * (double)model_dtype_bytes(shape->dtype);
    }
}

static double bytes_with(const struct tuner_work *w, int shape, unsigned axes)
{
    return w->least_bytes[shape] / w->shards[axes & ~w->least_axes[shape]];
}

enum counting { EACH_TIME, IN_ONE_MICROBATCH };

static double repeats(const struct tuner_work *w, const unsigned char *trips, enum counting counting)
{
    double count = 1;
    for (int i = 0; i < TUNER_MOST_TRIPS; i++)
        if (counting == EACH_TIME || trips[i] != MODEL_MICROBATCHES) count *= (double)w->sizes[trips[i]];
    return count;
}

/* ---- links ---- */

static double collective_s(const struct tuner_work *w, enum sim_collective kind, unsigned axes, double bytes)
{
    return sim_collective_s(w->placement, kind, axes, bytes);
}

/* If the compiler combines gradient reductions, a single one is charged only for its bytes, at the rate of a huge
 * reduction. */
static double gradient_s(const struct tuner_work *w, enum sim_collective kind, unsigned axes, double bytes)
{
    static const double many_bytes = 1e15;
    bool together = w->placement->profile.passes >> SIM_PASS_COMBINE_COLLECTIVES & 1;
    return together ? collective_s(w, kind, axes, many_bytes) * (bytes / many_bytes)
                    : collective_s(w, kind, axes, bytes);
}

static bool class_has(const struct tuner_work *w, int class, unsigned axis)
{
    for (int i = 0; i < MODEL_MAX_RANK; i++)
        if (w->spec[class][i] & axis) return true;
    return false;
}

static bool is_scattered(const struct tuner_work *w, const struct tuner_relaxed_dot *dot, unsigned axis)
{
    return !dot->settled || class_has(w, dot->result_class, axis);
}

/* Executions of a contraction: in total, and in one microbatch. */
struct turns {
    double each, once;
};

/* A sum into an accumulator may wait until all microbatches are done (hoist_gradient_all_reduce and similar passes).
 * It cannot if the accumulator is sharded over the axis, since each device then sums only its own part. */
static bool waits(const struct tuner_work *w, const struct tuner_relaxed_dot *dot, unsigned axes)
{
    if (!dot->hoistable) return false;
    const bool known = dot->settled && w->exact >> dot->result_class & 1;
    return !known || !class_has(w, dot->result_class, axes);
}

/* Bytes of a contraction's result, sharded over at most these axes. */
static double result_bytes(const struct tuner_work *w, const struct tuner_relaxed_dot *dot,
                           const struct tuner_dot_choice *choice, unsigned axes)
{
    double bytes = (double)model_dtype_bytes(w->o->shapes[dot->result_shape].dtype);
    for (int i = 0; i < dot->label_count; i++)
        if (dot->labels[i].in_result) bytes *= w->local[dot->labels[i].size][choice->axes[i] & axes];
    return bytes;
}

/* Instead of a reduce-scatter, an all-reduce and a slice may be faster, if the all-reduce uses more links than a
 * ring. */
static double summing_s(const struct tuner_work *w, const struct tuner_relaxed_dot *dot, bool scattered, unsigned axes,
                        double bytes)
{
    double s = (dot->hoistable ? gradient_s : collective_s)(w, SIM_ALL_REDUCE, axes, bytes);
    if (scattered) s = fmin(s, (dot->hoistable ? gradient_s : collective_s)(w, SIM_REDUCE_SCATTER, axes, bytes));
    return s / dot->result_divisor;
}

/* Summing over a sharded label leaves partial sums. If that axis shards the result, each device needs only its part,
 * otherwise all of it. Another axis may scatter the result first, so that only a part is left. */
static double reduction_s(const struct tuner_work *w, const struct tuner_relaxed_dot *dot,
                          const struct tuner_dot_choice *choice, int index)
{
    int label = choice->label[index];
    unsigned axis = 1u << index, other = (topo_axes_all(&w->placement->axes) & SIM_ALL_AXES) ^ axis;
    if (label < 0 || !dot->labels[label].contracted) return 0;
    double bytes = result_bytes(w, dot, choice, other);
    for (int i = 0; i < choice->axis_count; i++) {
        bool is_summed = i != index && choice->label[i] >= 0 && dot->labels[choice->label[i]].contracted;
        if (is_summed && is_scattered(w, dot, 1u << i)) bytes /= w->shards[1u << i];
    }
    return summing_s(w, dot, is_scattered(w, dot, axis), axis, bytes);
}

/* One axis after another, or all axes in one reduction. */
static double reductions_s(const struct tuner_work *w, const struct tuner_relaxed_dot *dot,
                           const struct tuner_dot_choice *choice, const struct turns *turns)
{
    const unsigned all = topo_axes_all(&w->placement->axes) & SIM_ALL_AXES;
    double s = 0;
    unsigned summed = 0;
    bool scattered = false;
    for (int axis = 0; axis < w->placement->axes.count; axis++) {
        double axis_s = w->placement->axes.sizes[axis] > 1 ? reduction_s(w, dot, choice, axis) : 0;
        if (axis_s > 0) summed |= 1u << axis;
        scattered = scattered || (axis_s > 0 && is_scattered(w, dot, 1u << axis));
        s += axis_s * (waits(w, dot, 1u << axis) ? turns->once : turns->each);
    }
    if (!(summed & (summed - 1))) return s;
    const double at_once_s = summing_s(w, dot, scattered, summed, result_bytes(w, dot, choice, all & ~summed));
    return fmin(s, at_once_s * (waits(w, dot, summed) ? turns->once : turns->each));
}

/* The dimension of an operand that its rules shard over the axis; -1: none. */
static int dim_with(const struct tuner_work *w, const struct tuner_relaxed_operand *operand, unsigned axis)
{
    int dim = -1;
    for (int i = 0; i < operand->rank; i++)
        if (w->spec[operand->class][i] & axis) dim = i;
    return dim;
}

/* The operand has the sharding of its rules; if the contraction needs the axis elsewhere, it must move. */
static double fetching_s(const struct tuner_work *w, const struct tuner_relaxed_operand *operand,
                         const struct tuner_dot_choice *choice, int index)
{
    int label = choice->label[index];
    unsigned axis = 1u << index;
    if (!(w->exact >> operand->class & 1)) return 0;
    const int dim = dim_with(w, operand, axis);
    if (dim < 0 || (label >= 0 && (label == operand->label_of_dim[dim][0] || label == operand->label_of_dim[dim][1])))
        return 0;
    bool moves = false;
    for (int i = 0; i < operand->rank; i++)
        moves = moves || (label >= 0 && (label == operand->label_of_dim[i][0] || label == operand->label_of_dim[i][1]));
    return collective_s(w, moves ? SIM_ALL_TO_ALL : SIM_ALL_GATHER, axis, w->bytes[operand->shape]) / operand->divisor;
}

/* One axis after another or, if several move, all in one collective, which may use more links. */
static double operand_s(const struct tuner_work *w, const struct tuner_relaxed_operand *operand,
                        const struct tuner_dot_choice *choice)
{
    double s = 0;
    unsigned moved = 0;
    for (int axis = 0; axis < w->placement->axes.count; axis++) {
        if (w->placement->axes.sizes[axis] <= 1) continue;
        double axis_s = fetching_s(w, operand, choice, axis);
        if (axis_s > 0) moved |= 1u << axis;
        s += axis_s;
    }
    if (!(moved & (moved - 1))) return s;
    double bytes = w->bytes[operand->shape];
    double at_once_s =
        fmin(collective_s(w, SIM_ALL_GATHER, moved, bytes), collective_s(w, SIM_ALL_TO_ALL, moved, bytes));
    return fmin(s, at_once_s / operand->divisor);
}

/* No compiler hoists a weight's all-gathers out of the loop over microbatches, because the gathered weight would
 * stay in memory. */
static double links_s(const struct tuner_work *w, const struct tuner_relaxed_dot *dot,
                      const struct tuner_dot_choice *choice, const struct turns *turns)
{
    double s = reductions_s(w, dot, choice, turns);
    for (int i = 0; i < dot->operand_count; i++) s += operand_s(w, &dot->operands[i], choice) * turns->each;
    return s;
}

/* ---- kernels ---- */

/* These axes plus idle ones that may replace them. If axes conflict, the partitioner may use an idle axis with as
 * many devices, or a multiple. With three or more mesh axes, an idle axis may hold a part of the shards, whatever
 * its size. */
static unsigned with_stand_in(const struct tuner_work *w, unsigned axes)
{
    const struct topo_axes *mesh = &w->placement->axes;
    unsigned idle = axes ^ topo_axes_all(mesh);
    if (mesh->count > 2) return axes | idle;
    bool one = axes && idle;
    return one && fmod(w->shards[idle], w->shards[axes]) == 0 ? axes | idle : axes;
}

/* Bit 0: no label; bit i + 1: label i, if some tensor shards such a dimension over the axis. */
static unsigned labels_with(const struct tuner_work *w, const struct tuner_relaxed_dot *dot, unsigned axis)
{
    unsigned allowed = 1;
    for (int i = 0; i < dot->label_count; i++)
        if (w->axes_of_size[w->o->carriers[dot->labels[i].size]] & axis) allowed |= 2u << i;
    return w->shards[axis] > 1 ? allowed : 1;
}

static unsigned allowed_labels(const struct tuner_work *w, const struct tuner_relaxed_dot *dot, unsigned axis)
{
    unsigned own = labels_with(w, dot, axis), others = (topo_axes_all(&w->placement->axes) & SIM_ALL_AXES) ^ axis,
             allowed = 1;
    if (own != 1 || w->shards[axis] <= 1 || !(with_stand_in(w, others) & axis)) return own;
    for (unsigned rest = others; rest; rest &= rest - 1) allowed |= labels_with(w, dot, rest & -rest);
    return allowed;
}

/* The search for a contraction's cheapest sharding, axis by axis: the allowed labels, and the best choice so far. */
struct dot_search {
    const struct tuner_work *w;
    const struct tuner_relaxed_dot *dot;
    double fastest; /* relative to the bfloat16 rate */
    double bytes_s, best_s;
    struct turns turns;
    double extents; /* product of the labels' local extents, except for rounding */
    unsigned allowed[TOPO_MOST_AXES];
    struct tuner_dot_choice choice;
};

/* The longer of its arithmetic and the kernel's bytes, for all executions. */
static double work_s(const struct dot_search *search)
{
    const struct tuner_work *w = search->w;
    const struct sim_profile *profile = &w->placement->profile;
    double extent[TUNER_ROLE_COUNT] = {1, 1, 1, 1};
    for (int i = 0; i < search->dot->label_count; i++)
        extent[search->dot->labels[i].role] *= w->local[search->dot->labels[i].size][search->choice.axes[i]];
    const struct sim_product product = {extent[TUNER_BATCH_LABEL], extent[TUNER_ROW_LABEL], extent[TUNER_COLUMN_LABEL],
                                        extent[TUNER_CONTRACTED_LABEL]};
    const double s = sim_matmul_s(profile, sim_product_flop(profile, &product) / search->fastest);
    return (s > search->bytes_s ? s : search->bytes_s) * search->turns.each;
}

static void price_choice(struct dot_search *search)
{
    const struct tuner_work *w = search->w;
    const double unpadded_flop = 2 * search->extents * (1 - 1e-12),
                 least_s = sim_matmul_s(&w->placement->profile, unpadded_flop / search->fastest);
    if (least_s * search->turns.each >= search->best_s) return;
    double s = work_s(search);
    if (s < search->best_s && w->links) s += links_s(w, search->dot, &search->choice, &search->turns);
    if (s < search->best_s) search->best_s = s;
}

/* Tries choices that shard over more axes first: they compute least, so they exclude most others. */
static void try_labels(struct dot_search *search, int axis)
{
    if (axis == search->choice.axis_count) {
        price_choice(search);
        return;
    }
    const double extents = search->extents;
    const double least_s = search->bytes_s * search->turns.each; /* a lower bound for all choices */
    for (int label = search->dot->label_count; label >= 0 && search->best_s > least_s; label--) {
        if (!(search->allowed[axis] >> label & 1u)) continue;
        search->choice.label[axis] = label - 1;
        if (label) {
            unsigned *axes = &search->choice.axes[label - 1];
            const double *local = search->w->local[search->dot->labels[label - 1].size];
            search->extents = extents * local[*axes | 1u << axis] / local[*axes];
            *axes |= 1u << axis;
        }
        try_labels(search, axis + 1);
        if (label) search->choice.axes[label - 1] &= ~(1u << axis);
        search->extents = extents;
    }
}

/* The price with the partitioner's actual choice. */
static double done_s(struct dot_search *search, const struct tuner_done *done)
{
    search->choice = done->choice;
    return work_s(search) + done->moved_s * search->turns.each +
           reductions_s(search->w, search->dot, &search->choice, &search->turns);
}

/* The cheapest choice: the longer of the kernel's bytes and the contraction's arithmetic, plus links. done: the only
 * choice to price; NULL: all. */
static double dot_s(const struct tuner_work *w, const struct tuner_relaxed_dot *dot, double bytes_s, struct turns turns,
                    const struct tuner_done *done)
{
    const struct sim_profile *profile = &w->placement->profile;
    double fastest = fmax(1, sim_rate_frac(profile, w->o->dtype));
    if (dot->attention) fastest /= sim_attention_share(profile, dot->causal ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL);
    struct dot_search search = {.w = w,
                                .dot = dot,
                                .fastest = fastest,
                                .bytes_s = bytes_s,
                                .turns = turns,
                                .best_s = INFINITY,
                                .extents = 1,
                                .choice.axis_count = w->placement->axes.count};
    if (done && done->known && w->links) return done_s(&search, done);
    for (int axis = 0; axis < search.choice.axis_count; axis++)
        search.allowed[axis] = allowed_labels(w, dot, 1u << axis);
    for (int i = 0; i < dot->label_count; i++) search.extents *= w->local[dot->labels[i].size][0];
    try_labels(&search, 0);
    return search.best_s;
}

double tuner_work_kernel_s(const struct tuner_work *w, int index)
{
    const struct tuner_relaxed_kernel *kernel = &w->o->kernels[index];
    const struct sim_profile *profile = &w->placement->profile;
    unsigned axes = axes_of_classes(w, kernel->classes);
    if (kernel->dot_count) axes = with_stand_in(w, axes);
    const struct turns turns = {repeats(w, kernel->trips, EACH_TIME), repeats(w, kernel->trips, IN_ONE_MICROBATCH)};
    double bytes = 0, dots_s = 0;
    for (int i = 0; i < kernel->read_count; i++) bytes += bytes_with(w, w->o->reads[kernel->first_read + i], axes);
    for (int i = 0; i < kernel->write_count; i++) bytes += bytes_with(w, w->o->writes[kernel->first_write + i], axes);
    const double bytes_s = sim_memory_s(profile, bytes);
    for (int i = 0; i < kernel->dot_count; i++)
        dots_s += dot_s(w, &w->o->dots[kernel->first_dot + i], kernel->dot_count == 1 ? bytes_s : 0, turns,
                        w->done ? &w->done[i] : NULL);
    if (kernel->dot_count != 1) dots_s = fmax(dots_s, bytes_s * turns.each);
    return (dots_s + sim_launches_s(profile, 1) * turns.each) * kernel->copies;
}

/* ---- both ---- */

void tuner_work_begin(struct tuner_work *w, const struct tuner_relaxed_program *relaxed,
                      const unsigned char (*spec)[MODEL_MAX_RANK], const struct sim_placement *placement, int64_t batch,
                      int64_t microbatches, bool links)
{
    w->o = relaxed;
    w->spec = spec;
    w->exact = UINT64_MAX;
    w->placement = placement;
    w->links = links && !relaxed->hides_collectives;
    model_sizes(relaxed->config, batch, microbatches, relaxed->inputs_length, relaxed->targets_length, w->sizes);
    for (unsigned axes = 0; axes <= (topo_axes_all(&placement->axes) & SIM_ALL_AXES); axes++) {
        w->shards[axes] = topo_axes_product(&placement->axes, axes);
        for (int size = 0; size < MODEL_SIZE_COUNT; size++)
            w->local[size][axes] = (double)topo_shard_extent(&placement->axes, axes, w->sizes[size]);
    }
    w->done = NULL;
    for (int s = 0; s < relaxed->shape_count; s++) size_shape(w, s);
    size_unannotated(w);
}

void tuner_work_size(struct tuner_work *w, uint64_t classes)
{
    for (int s = 0; s < w->o->shape_count; s++)
        if ((w->o->shape_classes[s] | w->o->shape_followers[s]) & classes) size_shape(w, s);
    size_unannotated(w);
}

/* Persistent tensors of these classes, each with the shards of its own class. */
double tuner_work_state_bytes(const struct tuner_work *w, uint64_t classes)
{
    double bytes = 0;
    for (int i = 0; i < w->o->persistent_count; i++) {
        const struct sim_shape *shape = &w->o->shapes[w->o->persistent_shapes[i]];
        const int class = w->o->persistent_classes[i];
        double own = (double)(w->sizes[shape->layers] * model_dtype_bytes(shape->dtype));
        for (int d = 0; d < shape->rank; d++) own *= w->local[shape->dims[d]][w->spec[class][d]];
        bytes += classes >> class & 1 ? own : 0;
    }
    return bytes;
}

struct tuner_bound tuner_bound_of(const struct tuner_relaxed_program *relaxed, const struct tuner_ruled *ruled,
                                  const struct sim_placement *placement, int64_t batch, int64_t microbatches,
                                  bool links)
{
    struct tuner_work w;
    struct tuner_bound bound = {0, placement->profile.constants[SIM_RESERVED_BYTES]};
    tuner_work_begin(&w, relaxed, ruled->spec, placement, batch, microbatches, links);
    for (int k = 0; k < relaxed->kernel_count; k++) bound.step_s += tuner_work_kernel_s(&w, k);
    bound.state_bytes += tuner_work_state_bytes(&w, UINT64_MAX);
    return bound;
}
