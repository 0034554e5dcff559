/* The heap of a compiled step: each array has one offset for its live range. XLA:TPU takes arrays in order of their
 * start. It puts each into the smallest hole that fits, or after all others. Placed so in its own order, its own arrays
 * give its heap within 2 % (75 dumps of libtpu 0.0.42.1: 2.75 of 2.76 GiB, with 2.04 alive at once). Arrays of layers
 * start and end one by one, and leave holes too small for later arrays. If such a heap has little room to spare, the
 * compiler packs it again by size. That leaves hardly any holes (its FAST_MERGE_WITH_FALLBACK; 27 dumps). */
#include "sim/compile/compiled_buffers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct place {
    double offset, bytes;
};

/* When an array is allocated or freed. Inside a loop this happens in some of its layers, with one offset per layer, or
 * at the same time for all. Outside layers it happens once. */
struct moment {
    int op;
    bool ends;
    int from_layer, until_layer; /* range of layers; until is excluded */
    struct place *place;         /* layer 0's */
    int stride;                  /* offset from one layer's array to the next */
    int steps;                   /* number of layer steps if allocations grow with them, first to last; otherwise 0 */
    double bytes, grown_bytes;   /* allocated bytes: in the first layer, and growth from it to the last */
};

struct hole {
    double offset, bytes;
};

struct heap {
    const struct sim_assigner *a;
    struct moment *moments;
    int count;
    struct hole *holes; /* sorted by offset; adjacent holes are merged */
    int hole_count;
    double end;
};

/* ---- moments of allocation and release ---- */

static int layer_count(const struct heap *h, int loop)
{
    return loop >= 0 ? (int)sim_layers_of(h->a, loop) : 1;
}

/* The loop over layers that contains an operation, or -1. */
static int layers_around(const struct heap *h, int op)
{
    const int loop = op < 0 ? -1 : h->a->s->ops[op].loop;
    return sim_is_over_layers(h->a, loop) ? loop : -1;
}

/* The operation of a loop's body that is nearest to the given one. */
static int within(const struct heap *h, int loop, int op)
{
    const int last = loop >= 0 ? h->a->s->ops[loop].match - 1 : op;
    return op <= loop ? loop + 1 : op > last ? last : op;
}

static void add(struct heap *h, const struct moment *moment)
{
    if (moment->from_layer < moment->until_layer) h->moments[h->count++] = *moment;
}

/* A buffer that starts in a layer exists in each. The last layer's buffer lives to its last use if that is after the
 * loop. A buffer from before the loop that is used inside lives until the last layer. */
static void add_buffer(struct heap *h, const struct sim_buffer *b, struct place *place)
{
    const int birth = b->birth < 0 ? 0 : b->birth, made_in = layers_around(h, b->birth),
              used_in = made_in >= 0 ? made_in : layers_around(h, b->death), n = layer_count(h, used_in),
              gone = within(h, used_in, b->death);
    const bool stays = made_in >= 0 && b->death > h->a->s->ops[made_in].match;
    struct moment born = {.op = within(h, made_in, birth), .until_layer = made_in >= 0 ? n : 1, .place = place};
    born.grown_bytes = b->last_bytes - b->first_bytes;
    born.steps = made_in >= 0 && born.grown_bytes != 0 ? n - 1 : 0;
    born.bytes =
        born.steps ? b->first_bytes : floor(made_in >= 0 ? b->first_bytes : fmax(b->first_bytes, b->last_bytes));
    if (gone < born.op) return;
    add(h, &born);
    add(h, &(struct moment){gone, true, made_in >= 0 ? 0 : n - 1, stays ? n - 1 : n, .place = place});
    if (stays) add(h, &(struct moment){b->death, true, 0, 1, .place = place});
}

/* One per layer if the arrays belong to layers that the loop visits, forward or backward; otherwise all at once. */
static void add_in_loop(struct heap *h, int loop, bool backward, const struct sim_layer_arrays *arrays, int n,
                        struct moment moment)
{
    struct place *const places = moment.place;
    moment.from_layer = backward ? n - arrays->until : arrays->from;
    moment.until_layer = backward ? n - arrays->from : arrays->until;
    moment.place += backward ? n - 1 : 0;
    moment.stride = backward ? -1 : 1;
    if (loop >= 0) add(h, &moment);
    for (int i = arrays->until - 1; loop < 0 && i >= arrays->from; i--) {
        moment.from_layer = 0, moment.until_layer = 1, moment.place = places + i;
        add(h, &moment);
    }
}

static void add_arrays(struct heap *h, const struct sim_layer_arrays *arrays)
{
    const int n = layer_count(h, arrays->user >= 0 ? arrays->user : arrays->made_in),
              made_at = within(h, arrays->made_in, arrays->made_at), used_at = within(h, arrays->user, arrays->used_at);
    struct place *places = base_new(h->a->arena, struct place, n);
    if (used_at < made_at) return;
    add_in_loop(h, arrays->made_in, arrays->made_in == arrays->user, arrays, n,
                (struct moment){made_at, .place = places, .bytes = floor(arrays->bytes)});
    add_in_loop(h, arrays->user, true, arrays, n, (struct moment){used_at, true, .place = places});
}

/* By operation, then allocations before releases, then in the order of insertion. */
static void sort_moments(struct heap *h)
{
    const int key_count = 2 * h->a->s->op_count;
    struct moment *sorted = base_reserve(h->a->arena, (size_t)h->count + 1, sizeof *sorted);
    int *next = base_new(h->a->arena, int, key_count + 1);
    for (int i = 0; i < h->count; i++) next[2 * h->moments[i].op + h->moments[i].ends + 1]++;
    for (int key = 0; key < key_count; key++) next[key + 1] += next[key];
    for (int i = 0; i < h->count; i++) sorted[next[2 * h->moments[i].op + h->moments[i].ends]++] = h->moments[i];
    h->moments = sorted;
}

/* Arrays allocated together get offsets in the order in which they were added, buffers first. */
static void add_moments(struct heap *h)
{
    const struct sim_assigner *a = h->a;
    int places = a->count;
    for (int i = 0; i < a->array_count; i++) places += a->arrays[i].until - a->arrays[i].from;
    h->moments = base_reserve(a->arena, 3 * (size_t)places + 1, sizeof *h->moments);
    h->holes = base_reserve(a->arena, (size_t)places + 1, sizeof *h->holes);
    struct place *place = base_new(a->arena, struct place, a->count);
    for (int i = 0; i < a->count; i++)
        if (!a->buffers[i].of_arrays) add_buffer(h, &a->buffers[i], place++);
    for (int i = 0; i < a->array_count; i++) add_arrays(h, &a->arrays[i]);
    sort_moments(h);
}

/* ---- offsets ---- */

static void remove_hole(struct heap *h, int i)
{
    h->hole_count--;
    memmove(&h->holes[i], &h->holes[i + 1], (size_t)(h->hole_count - i) * sizeof *h->holes);
}

/* Appends to the heap, using a hole at its end if there is one. */
static double take_at_end(struct heap *h, double bytes)
{
    const struct hole *last = h->hole_count ? &h->holes[h->hole_count - 1] : NULL;
    double offset = h->end;
    if (last && last->offset + last->bytes == h->end) {
        offset = last->offset;
        h->hole_count--;
    }
    h->end = offset + bytes;
    return offset;
}

/* Takes the smallest hole that fits, the first among equals. An exact fit ends the search, as layers leave such
 * holes. */
static double take(struct heap *h, double bytes)
{
    struct hole *best = NULL;
    double best_bytes = INFINITY;
    for (struct hole *hole = h->holes, *const end = hole + h->hole_count; hole < end; hole++) {
        if (hole->bytes < bytes || hole->bytes >= best_bytes) continue;
        best = hole, best_bytes = hole->bytes;
        if (best_bytes == bytes) break;
    }
    if (!best) return take_at_end(h, bytes);
    const double offset = best->offset;
    best->offset += bytes;
    best->bytes -= bytes;
    if (best->bytes == 0) remove_hole(h, (int)(best - h->holes));
    return offset;
}

static int first_behind(const struct heap *h, double offset)
{
    int low = 0, high = h->hole_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (h->holes[middle].offset < offset) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Merges the released range with adjacent holes. */
static void give_back(struct heap *h, double offset, double bytes)
{
    const int i = first_behind(h, offset);
    struct hole *const before = i > 0 ? &h->holes[i - 1] : NULL;
    struct hole *const behind = i < h->hole_count ? &h->holes[i] : NULL;
    const bool joins_before = before && before->offset + before->bytes == offset,
               joins_behind = behind && offset + bytes == behind->offset;
    if (joins_before) {
        before->bytes += bytes + (joins_behind ? behind->bytes : 0);
        if (joins_behind) remove_hole(h, i);
        return;
    }
    if (joins_behind) {
        *behind = (struct hole){offset, bytes + behind->bytes};
        return;
    }
    memmove(&h->holes[i + 1], &h->holes[i], (size_t)(h->hole_count - i) * sizeof *h->holes);
    h->holes[i] = (struct hole){offset, bytes};
    h->hole_count++;
}

static void pass(struct heap *h, const struct moment *moment, int layer)
{
    if (layer < moment->from_layer || layer >= moment->until_layer) return;
    struct place *const place = moment->place + moment->stride * layer;
    if (!moment->ends) {
        place->bytes = moment->bytes;
        if (moment->steps) place->bytes = floor(moment->bytes + layer * moment->grown_bytes / moment->steps);
    }
    if (place->bytes <= 0) return;
    if (moment->ends) give_back(h, place->offset, place->bytes);
    else place->offset = take(h, place->bytes);
}

/* True if everything allocated in one of the loop's layers is released there, equally in each layer. */
static bool layers_are_alike(const struct heap *h, int first, int end, int n)
{
    for (int i = first; i < end; i++) {
        const struct moment *m = &h->moments[i];
        if (m->stride || m->steps || m->from_layer || m->until_layer != n) return false;
    }
    return true;
}

/* True if the heap overflows in a step without checkpoints. Then it is packed again, and its exact excess does not
 * matter. */
static bool is_decided(const struct heap *h)
{
    const struct sim_compiled_options *options = h->a->options;
    return !options->checkpoints && h->end - options->in_order_over_bytes > options->limit_bytes;
}

/* Loops over layers are unrolled. If layers are alike and one fits into the holes, the others fit, too. */
static double unrolled_heap_bytes(const struct sim_assigner *a)
{
    const struct sim_op *ops = a->s->ops;
    struct heap h = {.a = a};
    add_moments(&h);
    for (int first = 0, end; first < h.count && !is_decided(&h); first = end) {
        const int op = h.moments[first].op, loop = layers_around(&h, op), n = layer_count(&h, loop);
        for (end = first; end < h.count && h.moments[end].op < (loop < 0 ? op + 1 : ops[loop].match);) end++;
        const bool alike = layers_are_alike(&h, first, end, n);
        double before = -1;
        for (int layer = 0; layer < n && !(alike && h.end == before); layer++) {
            before = h.end;
            for (int i = first; i < end; i++) pass(&h, &h.moments[i], layer);
        }
    }
    return h.end;
}

/* ---- scanned layers ---- */

struct span {
    int birth, death; /* moments, both included */
    int place;        /* index in the list, to keep the sort stable */
    double bytes, offset;
};

/* The times of an operation in the first iteration of a loop over layers and in the others. A peeled iteration runs
 * before the loop. */
struct moments {
    int *first, *last;
};

static struct moments find_moments(const struct sim_assigner *a)
{
    const struct sim_op *ops = a->s->ops;
    const int count = a->s->op_count;
    struct moments at = {base_new(a->arena, int, count + 1), base_new(a->arena, int, count + 1)};
    int now = 0, behind = 0, until = -1; /* length and end of the last peeled loop's body */
    for (int i = 0; i < count; i++) {
        at.first[i] = now++;
        at.last[i] = at.first[i] + behind;
        if (ops[i].kind == SIM_LOOP_BEGIN && sim_is_over_layers(a, i) && sim_is_peeled(a, i))
            until = ops[i].match - 1, behind = until - i;
        if (i == until) now += behind, behind = 0;
    }
    return at;
}

static int list_spans(const struct sim_assigner *a, struct span *spans)
{
    const struct moments at = find_moments(a);
    int count = 0;
    for (int i = 0; i < a->count; i++) {
        const struct sim_buffer *b = &a->buffers[i];
        const int birth = b->birth < 0 ? 0 : b->birth, death = b->death;
        const bool in_first = b->first_bytes > 0, in_last = b->last_bytes > 0,
                   twice = at.first[birth] < at.last[birth] && at.first[death] < at.last[death];
        if (twice) spans[count++] = (struct span){at.first[birth], at.first[death], .bytes = floor(b->first_bytes)};
        spans[count++] = (struct span){twice      ? at.last[birth]
                                       : in_first ? at.first[birth]
                                                  : at.last[birth + 1],
                                       twice || in_last ? at.last[death] : at.first[death - 1],
                                       .bytes = floor(twice ? b->last_bytes : fmax(b->first_bytes, b->last_bytes))};
    }
    return count;
}

static int earlier_first(const void *x, const void *y)
{
    const struct span *a = x, *b = y;
    if (a->birth != b->birth) return a->birth < b->birth ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->place - b->place;
}

/* The smallest gap that fits, among arrays alive at the same time. placed is sorted by offset. */
static double find_gap(struct span *const *placed, int count, const struct span *span)
{
    double offset = -1, least_bytes = INFINITY, end = 0;
    for (int i = 0; i < count; i++) {
        const struct span *other = placed[i];
        if (other->death < span->birth) continue;
        const double gap_bytes = other->offset - end;
        if (gap_bytes >= span->bytes && gap_bytes < least_bytes) offset = end, least_bytes = gap_bytes;
        end = fmax(end, other->offset + other->bytes);
    }
    return offset < 0 ? end : offset;
}

static double looped_heap_bytes(const struct sim_assigner *a)
{
    struct span *spans = base_new(a->arena, struct span, 2 * a->count + 1),
                **placed = base_new(a->arena, struct span *, 2 * a->count + 1);
    const int count = list_spans(a, spans);
    double end = 0;
    for (int i = 0; i < count; i++) spans[i].place = i;
    qsort(spans, (size_t)count, sizeof *spans, earlier_first);
    for (int i = 0; i < count; i++) {
        int at = i;
        spans[i].offset = find_gap(placed, i, &spans[i]);
        for (; at > 0 && placed[at - 1]->offset > spans[i].offset; at--) placed[at] = placed[at - 1];
        placed[at] = &spans[i];
        end = fmax(end, spans[i].offset + spans[i].bytes);
    }
    return end;
}

/* Recomputation in unscanned layers leaves as many holes when packed by size: 9 and 11 % in two dumps. */
double sim_heap_bytes(struct sim_assigner *a, double alive_bytes)
{
    const struct sim_compiled_options *options = a->options;
    const double bytes = options->scanned ? looped_heap_bytes(a) : unrolled_heap_bytes(a);
    if (sim_has_room(a, bytes - options->in_order_over_bytes)) return bytes;
    if (options->scanned) return alive_bytes;
    return options->checkpoints ? bytes : alive_bytes / (1 - options->settings->packed_holes_frac);
}
