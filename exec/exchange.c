/* Collectives between ranks, with the algorithms that the simulator prices: rings in mesh order, recursive doubling
 * where latency dominates (Thakur, Rabenseifner, Gropp, 2005), pairwise exchange for all-to-all. All data goes in
 * segments through two fixed buffers, so no plan needs memory beyond its arena. Size and group fix the order of
 * additions, so every run gives the same bits. */
#include "exec/collective.h"
#include "exec/row.h"

#include <string.h>

enum { PIECE = 1024 };

/* The ranks of a group in mesh order, and this rank's index. */
struct group {
    const struct exec_transport *transport;
    char *const *buffers;
    int count, own;
    int members[EXEC_MOST_DEVICES];
};

static int member(const struct group *g, int place)
{
    return g->members[((place % g->count) + g->count) % g->count];
}

static void find_group(const struct exec_collective *c, unsigned axes, struct group *g)
{
    struct exec_machine *machine = c->machine;
    g->transport = machine->transport;
    g->buffers = machine->buffers;
    g->count = exec_group_of(machine, machine->first_device, axes, g->members);
    g->own = 0;
    while (g->members[g->own] != machine->first_device) g->own++;
}

/* ---- parts of this rank's memory ---- */

/* A box in memory with row-major elements; `run` elements are contiguous. */
struct part {
    int rank;
    int64_t size[EXEC_BOX_RANK], stride[EXEC_BOX_RANK], elements, run, bytes;
    char *at;
    enum model_dtype dtype;
    bool maximum;
};

static struct part make_part(const struct exec_collective *c, const struct exec_box *box, const int64_t *strides,
                             char *at)
{
    struct part p = {.rank = box->rank,
                     .elements = 1,
                     .run = 1,
                     .at = at,
                     .dtype = c->from->dtype,
                     .bytes = model_dtype_bytes(c->from->dtype),
                     .maximum = c->takes_maximum};
    for (int d = box->rank - 1; d >= 0; d--) {
        p.size[d] = box->size[d];
        p.stride[d] = strides[d];
        if (p.run == p.elements && (strides[d] == p.elements || box->size[d] == 1)) p.run *= box->size[d];
        p.elements *= box->size[d];
    }
    return p;
}

static struct part nothing(const struct exec_collective *c)
{
    return (struct part){.dtype = c->from->dtype, .run = 1, .bytes = model_dtype_bytes(c->from->dtype)};
}

/* This rank's data for `target`; zero elements: none. */
static struct part outgoing(const struct exec_collective *c, int target)
{
    struct exec_box box;
    int own = c->machine->first_device;
    if (!exec_intersect(c, own, target, &box)) return nothing(c);
    return make_part(c, &box, box.from_stride, exec_address(c->machine, c->op->inputs[0], own) + box.from_offset_bytes);
}

/* The place for `source`'s data on this rank. */
static struct part incoming(const struct exec_collective *c, int source)
{
    struct exec_box box;
    int own = c->machine->first_device;
    if (!exec_intersect(c, source, own, &box)) return nothing(c);
    return make_part(c, &box, box.to_stride, exec_address(c->machine, c->op->outputs[0], own) + box.to_offset_bytes);
}

/* Between memory and a dense buffer; sums go into the buffer (THERE) or into memory (HERE). */
enum act { PACK, UNPACK, SUM_THERE, SUM_HERE };

/* sum = sum + part, or their maximum; always computed in float32. */
static void add_run(const struct part *p, char *sum, const char *part, int64_t n, enum exec_reduction reduction)
{
    float wide[PIECE], other[PIECE];
    if (p->dtype == MODEL_FLOAT32) {
        exec_combine((float *)(void *)sum, (const float *)(const void *)part, n, reduction);
        return;
    }
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = n - i < PIECE ? n - i : PIECE;
        exec_load(p->dtype, sum + i * p->bytes, 1, wide, count);
        exec_load(p->dtype, part + i * p->bytes, 1, other, count);
        exec_combine(wide, other, count, reduction);
        exec_store(p->dtype, wide, sum + i * p->bytes, 1, count);
    }
}

static void act_on_run(const struct part *p, char *at, char *buffer, int64_t n, enum act act)
{
    switch (act) {
    case PACK: memcpy(buffer, at, (size_t)(n * p->bytes)); return;
    case UNPACK: memcpy(at, buffer, (size_t)(n * p->bytes)); return;
    case SUM_THERE: add_run(p, buffer, at, n, p->maximum ? EXEC_MAXIMUM : EXEC_ADDITION); return;
    case SUM_HERE: add_run(p, at, buffer, n, p->maximum ? EXEC_MAXIMUM : EXEC_ADDITION); return;
    }
}

/* Processes elements first … first+n-1 of the part, between memory and a dense buffer. */
static void walk(const struct part *p, int64_t first, int64_t n, char *buffer, enum act act)
{
    while (n > 0) {
        int64_t rest = first, offset = 0, count = p->run - first % p->run;
        for (int d = p->rank - 1; d >= 0; d--) {
            offset += rest % p->size[d] * p->stride[d];
            rest /= p->size[d];
        }
        if (count > n) count = n;
        act_on_run(p, p->at + offset * p->bytes, buffer, count, act);
        buffer += count * p->bytes;
        first += count;
        n -= count;
    }
}

static int64_t at_most(int64_t value, int64_t bound)
{
    return value < 0 ? 0 : value < bound ? value : bound;
}

static int64_t segment_elements(const struct part *p)
{
    return EXEC_SEGMENT_BYTES / p->bytes;
}

/* The segment as contiguous bytes: in place if it is dense, otherwise packed into the buffer. */
static const char *dense(const struct part *p, int64_t first, int64_t n, char *buffer)
{
    if (p->run == p->elements) return p->at + first * p->bytes;
    walk(p, first, n, buffer, PACK);
    return buffer;
}

/* Sends a part to one rank and receives one from another, in segments that both ends know. */
static void pass(const struct group *g, const struct part *out, int to, const struct part *in, int from,
                 int64_t segment)
{
    int64_t most = out->elements > in->elements ? out->elements : in->elements;
    bool in_place = in->run == in->elements;
    for (int64_t first = 0; first < most; first += segment) {
        int64_t out_count = at_most(out->elements - first, segment), in_count = at_most(in->elements - first, segment);
        const char *outgoing_bytes = out_count ? dense(out, first, out_count, g->buffers[0]) : NULL;
        char *landing = in_place && in_count ? in->at + first * in->bytes : g->buffers[1];
        exec_swap(g->transport, to, outgoing_bytes, out_count * out->bytes, from, landing, in_count * in->bytes);
        if (!in_place) walk(in, first, in_count, g->buffers[1], UNPACK);
    }
}

/* ---- copying ---- */

static void copy_own(const struct exec_collective *c)
{
    struct exec_box box;
    int own = c->machine->first_device;
    if (exec_intersect(c, own, own, &box)) exec_copy_box(c, &box, own, own);
}

/* If all parts are dense in the result, and it is the same on all ranks, no buffer is needed. Each part is then one
 * message, which MPI copies at once. MPI's own collectives were measured on two and four ranks of one machine (Open
 * MPI 4.1.4, shared memory, 1 to 64 MiB), and none is worth using. MPI_Allgather takes as long as this; segments of
 * 256 KiB took 1.2 times as long. MPI_Alltoall takes as long as whole messages by pairs, but parts of an all-to-all
 * are never dense at both ends, so it would need a copy of the operand outside of the arena. MPI_Allreduce took 1.0
 * to 4.5 times as long from 4 MiB on. It also adds in its own order, so that the bits of a sum would depend on its
 * version. */
static int64_t gather_segment(const struct exec_collective *c, const struct group *g)
{
    enum { LONGEST_MESSAGE_BYTES = 1 << 30 };
    struct part part = nothing(c);
    for (int i = 0; i < g->count; i++) {
        part = incoming(c, g->members[i]);
        if (part.elements && part.run != part.elements) return segment_elements(&part);
    }
    return LONGEST_MESSAGE_BYTES / part.bytes;
}

/* In step s each rank forwards what it received in the step before. */
static void gather_round_ring(const struct exec_collective *c, const struct group *g)
{
    const int64_t segment = gather_segment(c, g);
    copy_own(c);
    for (int step = 0; step < g->count - 1; step++) {
        struct part out = incoming(c, member(g, g->own - step)), in = incoming(c, member(g, g->own - step - 1));
        pass(g, &out, member(g, g->own + 1), &in, member(g, g->own - 1), segment);
    }
}

static void exchange_pairwise(const struct exec_collective *c, const struct group *g)
{
    copy_own(c);
    for (int distance = 1; distance < g->count; distance++) {
        int to = member(g, g->own + distance), from = member(g, g->own - distance);
        struct part out = outgoing(c, to), in = incoming(c, from);
        pass(g, &out, to, &in, from, segment_elements(&out));
    }
}

/* All ranks of the group get the same result, so a ring can forward it. */
static bool gathers_everything(const struct exec_collective *c)
{
    unsigned sharded = 0;
    for (int d = 0; d < c->tensor->rank; d++) sharded |= sim_set_of(c->to->spec[d]);
    return c->op->collective == SIM_ALL_GATHER && !(sharded & c->copied);
}

/* ---- summing ---- */

/* The part for rank r starts at r+1 and goes around the ring; each rank adds its own, r last. */
static void scatter_segment(const struct exec_collective *c, const struct group *g, int64_t first)
{
    struct part own = outgoing(c, member(g, g->own - 1));
    int64_t segment = segment_elements(&own), count = at_most(own.elements - first, segment);
    char *sum = g->buffers[0], *next = g->buffers[1];
    walk(&own, first, count, sum, PACK);
    for (int step = 0; step < g->count - 1; step++) {
        struct part mine = outgoing(c, member(g, g->own - step - 2));
        int64_t coming = at_most(mine.elements - first, segment);
        exec_swap(g->transport, member(g, g->own + 1), sum, count * own.bytes, member(g, g->own - 1), next,
                  coming * own.bytes);
        walk(&mine, first, coming, next, SUM_THERE);
        char *sent = sum;
        sum = next, next = sent, count = coming;
    }
    struct part result = incoming(c, c->machine->first_device);
    walk(&result, first, count, sum, UNPACK);
}

static void scatter_round_ring(const struct exec_collective *c, const struct group *g)
{
    int64_t most = 0, segment = 1;
    for (int i = 0; i < g->count; i++) {
        struct part p = outgoing(c, g->members[i]);
        segment = segment_elements(&p);
        if (p.elements > most) most = p.elements;
    }
    for (int64_t first = 0; first < most; first += segment) scatter_segment(c, g, first);
}

/* Adds another rank's n elements to p's; that rank gets p's elements. */
static void trade(const struct group *g, const struct part *p, int64_t first, int64_t n, int with)
{
    char *at = p->at + first * p->bytes;
    exec_swap(g->transport, with, at, n * p->bytes, with, g->buffers[0], n * p->bytes);
    walk(p, first, n, g->buffers[0], SUM_HERE);
}

static void send_segment(const struct group *g, const struct part *p, int64_t first, int64_t n, int to)
{
    exec_swap(g->transport, to, p->at + first * p->bytes, n * p->bytes, to, NULL, 0);
}

static void receive_segment(const struct group *g, const struct part *p, int64_t first, int64_t n, int from)
{
    exec_swap(g->transport, from, NULL, 0, from, p->at + first * p->bytes, n * p->bytes);
}

/* Pairs at distances 1, 2, 4, … exchange their sums. Ranks beyond the largest power of two send theirs first and get
 * the result at the end. Both ranks of a pair add the same two numbers, so all end with the same bits. */
static void double_segment(const struct group *g, const struct part *p, int64_t first, int64_t n)
{
    int power = 1;
    while (power * 2 <= g->count) power *= 2;
    int partner = g->own >= power ? g->own - power : g->own + power;
    if (g->own >= power) {
        send_segment(g, p, first, n, g->members[partner]);
        receive_segment(g, p, first, n, g->members[partner]);
        return;
    }
    if (partner < g->count) {
        exec_swap(g->transport, g->members[partner], NULL, 0, g->members[partner], g->buffers[0], n * p->bytes);
        walk(p, first, n, g->buffers[0], SUM_HERE);
    }
    for (int distance = 1; distance < power; distance *= 2) trade(g, p, first, n, g->members[g->own ^ distance]);
    if (partner < g->count) send_segment(g, p, first, n, g->members[partner]);
}

/* Reduce-scatter, then all-gather, of n elements in one chunk per rank. */
static void ring_slab(const struct group *g, const struct part *p, int64_t first, int64_t n)
{
    int64_t chunk = base_ceil_div(n, g->count);
    int right = member(g, g->own + 1), left = member(g, g->own - 1);
    for (int pass_number = 0; pass_number < 2; pass_number++)
        for (int step = 0; step < g->count - 1; step++) {
            bool sums = pass_number == 0;
            int sent = (g->own - step - (sums ? 1 : 0) + 2 * g->count) % g->count,
                got = (sent + g->count - 1) % g->count;
            int64_t out = sent * chunk, in = got * chunk, out_count = at_most(n - out, chunk),
                    in_count = at_most(n - in, chunk);
            char *landing = sums ? g->buffers[0] : p->at + (first + in) * p->bytes;
            exec_swap(g->transport, right, p->at + (first + out) * p->bytes, out_count * p->bytes, left, landing,
                      in_count * p->bytes);
            if (sums) walk(p, first + in, in_count, g->buffers[0], SUM_HERE);
        }
}

/* The whole operand with padding as one row, summed in the result's place. */
static struct part whole(const struct exec_collective *c)
{
    int own = c->machine->first_device;
    struct part p = {.rank = 1,
                     .stride = {1},
                     .elements = 1,
                     .dtype = c->from->dtype,
                     .bytes = model_dtype_bytes(c->from->dtype),
                     .maximum = c->takes_maximum};
    for (int d = 0; d < c->tensor->rank; d++)
        p.elements *= exec_range_of(c->machine, own, c->machine->sizes[c->tensor->dims[d]], c->from->spec[d]).extent;
    p.size[0] = p.run = p.elements;
    p.at = exec_address(c->machine, c->op->outputs[0], own);
    const char *from = exec_address(c->machine, c->op->inputs[0], own);
    if (from != p.at && !c->placed) memmove(p.at, from, (size_t)(p.elements * p.bytes));
    return p;
}

void exec_place_operand(struct exec_collective *c)
{
    if (c->sums_in_place) whole(c);
    c->placed = true;
}

static void sum_everywhere(const struct exec_collective *c, const struct group *g)
{
    struct part p = whole(c);
    bool doubles = sim_all_reduce_doubles(c->machine->plan->placement, c->reduced, (double)(p.elements * p.bytes));
    int64_t segment = segment_elements(&p), slab = doubles ? segment : segment * g->count;
    for (int64_t first = 0; first < p.elements; first += slab) {
        int64_t n = at_most(p.elements - first, slab);
        if (doubles) double_segment(g, &p, first, n);
        else ring_slab(g, &p, first, n);
    }
}

void exec_exchange(const struct exec_collective *c)
{
    struct group g;
    find_group(c, c->reduced ? c->reduced : c->copied, &g);
    if (c->sums_in_place) sum_everywhere(c, &g);
    else if (c->reduced) scatter_round_ring(c, &g);
    else if (gathers_everything(c)) gather_round_ring(c, &g);
    else exchange_pairwise(c, &g);
}
