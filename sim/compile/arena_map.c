/* Assigns static offsets in a device's arena: persistent tensors, then transient ones, then kernel scratch.
 *
 * A value's live range goes from the kernel that computes it to its last reader. A value that a loop reads from outside
 * lives until the loop ends. A value that leaves its loop (saved for the backward pass, or a gradient for the update)
 * has one slot per layer. These slots live from the start of the first loop to the end of the second. Loop-carried
 * values share one buffer where live ranges permit. An elementwise kernel or an all-reduce overwrites an operand that
 * it reads last. The largest values are placed first, each at the lowest offset that is free during its live range. */
#include "sim/compile/local_sizes.h"
#include "sim/compile/passes.h"

#include <stdlib.h>
#include <string.h>

/* A buffer. Values that share it are linked by `joined`. */
struct place {
    int joined;       /* the buffer that this one was merged into, or itself */
    int birth, death; /* indices of operations */
    int64_t slice_bytes, slices;
    int64_t offset_bytes;
    enum model_category category;
    bool used, stacked;
    bool alone; /* a message: its bytes are never shared with another buffer */
};

struct mapper {
    struct base_arena *arena;
    const struct sim_sharded *s;
    struct sim_local local; /* the same program and its sizes */
    struct place *places;   /* per value; only the entry of a value's root counts */
    int *tensor_value;      /* per persistent tensor: one of its values */
    struct sim_memory_map *out;
};

static struct place *place_of(const struct mapper *l, int value)
{
    int at = sim_root(l->s, value);
    while (l->places[at].joined != at) at = l->places[at].joined;
    return &l->places[at];
}

/* ---- live ranges ---- */

/* The bracket of the outermost loop around `loop` that does not contain `home`. `loop` must be nested in `home`. */
static int loop_below(const struct sim_sharded *s, int home, int loop)
{
    while (s->ops[loop].loop != home) loop = s->ops[loop].loop;
    return loop;
}

/* A kernel's operations run together, so its operands live until its last operation. */
static int time_of_use(const struct sim_sharded *s, int op)
{
    int kernel = s->ops[op].kernel;
    return s->ops[op].kind == SIM_COMPUTE && kernel >= 0 ? s->kernels[kernel].last : op;
}

static int time_of_definition(const struct sim_sharded *s, const struct sim_value *value)
{
    if (value->definition < 0) return value->loop; /* the loop carries it in */
    int kernel = s->ops[value->definition].kernel;
    return s->ops[value->definition].kind == SIM_COMPUTE && kernel >= 0 ? s->kernels[kernel].op : value->definition;
}

static void begin_lives(struct mapper *l)
{
    const struct sim_sharded *s = l->s;
    for (int v = 0; v < s->value_count; v++) {
        const struct sim_value *value = &s->values[v];
        struct place *place = &l->places[v];
        const struct model_tensor *tensor = &s->program->tensors[value->tensor];
        *place = (struct place){.joined = v,
                                .slices = 1,
                                .category = tensor->category == MODEL_GRADIENT ? MODEL_GRADIENT : MODEL_TEMPORARY};
        place->used = value->stored && !value->persistent;
        if (!place->used) continue;
        place->birth = place->death = time_of_definition(s, value);
        place->alone = sim_is_message(s, value);
        place->slice_bytes = sim_slice_bytes(&l->local, v);
    }
}

/* A loop that the value's own loop does not enclose reads the value. One instance per layer is kept. */
static void keep_stacked(struct mapper *l, struct place *place, int home, int reader_loop, int at)
{
    const struct sim_sharded *s = l->s;
    int common = s->ops[home].loop;
    while (!sim_encloses(s, common, reader_loop)) common = s->ops[common].loop;
    int first = loop_below(s, common, home),
        death = reader_loop == common ? at : s->ops[loop_below(s, common, reader_loop)].match;
    if (first < place->birth) place->birth = first;
    if (death > place->death) place->death = death;
    place->stacked = true;
    place->slices = l->local.sizes[s->ops[home].trips];
    if (place->category == MODEL_TEMPORARY) place->category = MODEL_ACTIVATION;
}

static void extend_life(struct mapper *l, int value, int op)
{
    const struct sim_sharded *s = l->s;
    int root = sim_root(s, value), home = s->values[root].loop, at = time_of_use(s, op);
    struct place *place = &l->places[root];
    if (sim_is_one_hot(s, root) || sim_is_dequantized(s, root)) {
        const struct sim_op *made = &s->ops[s->values[root].definition];
        for (int i = 0; i < made->input_count; i++) extend_life(l, made->inputs[i], op);
        return;
    }
    if (!place->used) return;
    int loop = s->ops[op].kind == SIM_LOOP_END ? s->ops[op].match : s->ops[op].loop;
    if (!sim_encloses(s, home, loop)) {
        keep_stacked(l, place, home, loop, at);
        return;
    }
    int death = loop == home ? at : s->ops[loop_below(s, home, loop)].match;
    if (death > place->death) place->death = death;
}

/* An asynchronous collective keeps operand and result allocated until its wait. */
static void keep_until_done(struct mapper *l, const struct sim_op *op)
{
    const bool in_place = sim_sums_in_place(l->s, op);
    for (int i = 0; i < 2; i++) {
        struct place *place = &l->places[sim_root(l->s, i ? op->outputs[0] : op->inputs[0])];
        if (place->used && !(in_place && !i) && place->death < op->done - 1) place->death = op->done - 1;
    }
}

static void extend_lives(struct mapper *l)
{
    const struct sim_sharded *s = l->s;
    for (int i = 0; i < s->op_count; i++) {
        for (int j = 0; j < s->ops[i].input_count; j++) extend_life(l, s->ops[i].inputs[j], i);
        if (s->ops[i].kind == SIM_COMMUNICATE && s->ops[i].done) keep_until_done(l, &s->ops[i]);
    }
    /* The end of each iteration writes loop-carried values again. */
    for (int i = 0; i < s->op_count; i++)
        for (int j = 0; s->ops[i].kind == SIM_LOOP_BEGIN && j < s->ops[i].output_count; j++) {
            struct place *place = place_of(l, s->ops[i].outputs[j]);
            if (place->used && place->death < s->ops[i].match) place->death = s->ops[i].match;
        }
}

/* ---- sharing ---- */

static bool alike(const struct place *a, const struct place *b)
{
    return a != b && a->used && b->used && !a->stacked && !b->stacked && !a->alone && !b->alone &&
           a->slice_bytes == b->slice_bytes;
}

static void join(struct mapper *l, struct place *to, struct place *from)
{
    from->joined = (int)(to - l->places);
    if (from->birth < to->birth) to->birth = from->birth;
    if (from->death > to->death) to->death = from->death;
    if (from->category != MODEL_TEMPORARY) to->category = from->category;
}

/* The last operation that reads the value or one of its aliases. */
static int last_read(const struct sim_sharded *s, int value)
{
    int root = sim_root(s, value), last = -1;
    for (int i = 0; i < s->op_count; i++) {
        const int at = s->ops[i].kind == SIM_COMMUNICATE && s->ops[i].done ? s->ops[i].done - 1 : time_of_use(s, i);
        for (int j = 0; j < s->ops[i].input_count; j++)
            if (sim_root(s, s->ops[i].inputs[j]) == root && at > last) last = at;
    }
    return last;
}

/* Merges a loop-carried value's input, output and result with its initial value, where live ranges permit. */
static void join_carries(struct mapper *l)
{
    const struct sim_sharded *s = l->s;
    for (int b = 0; b < s->op_count; b++) {
        const struct sim_op *begin = &s->ops[b];
        if (begin->kind != SIM_LOOP_BEGIN) continue;
        const struct sim_op *end = &s->ops[begin->match];
        for (int i = 0; i < begin->output_count; i++) {
            int in = begin->outputs[i], out = sim_root(s, end->inputs[i]), init = sim_root(s, begin->inputs[i]);
            bool made_inside =
                s->values[out].loop == b && s->values[out].definition >= 0 && l->places[out].joined == out;
            if (made_inside && alike(place_of(l, in), place_of(l, out)) && last_read(s, in) < l->places[out].birth)
                join(l, place_of(l, in), place_of(l, out));
            if (alike(place_of(l, in), place_of(l, end->outputs[i])))
                join(l, place_of(l, in), place_of(l, end->outputs[i]));
            if (alike(place_of(l, in), place_of(l, init)) && place_of(l, init)->death == b)
                join(l, place_of(l, in), place_of(l, init));
        }
    }
}

static bool reads_later(const struct sim_sharded *s, int kernel, int after, int root)
{
    for (int i = after + 1; i <= s->kernels[kernel].last; i++)
        for (int j = 0; s->ops[i].kernel == kernel && j < s->ops[i].input_count; j++)
            if (sim_root(s, s->ops[i].inputs[j]) == root) return true;
    return false;
}

/* True if the operation may overwrite the operand. Its live range must end here, no later operation of the kernel may
 * read it, and all its readers must be elementwise. */
static bool can_overwrite(const struct mapper *l, const struct sim_op *op, int at, int input)
{
    const struct sim_sharded *s = l->s;
    int out = op->outputs[0], root = sim_root(s, op->inputs[input]);
    const struct place *to = place_of(l, out), *from = place_of(l, root);
    bool begins_here = to->birth >= (op->kind == SIM_COMMUNICATE ? at : s->kernels[op->kernel].op);
    if (!begins_here || !alike(to, from) || s->values[root].shape != s->values[out].shape ||
        s->values[root].loop != s->values[out].loop)
        return false;
    if (op->kind == SIM_COMMUNICATE) return sim_sums_in_place(s, op) && from->death == at;
    if (model_function_is(op->op->function, MODEL_IS_BY_EXAMPLE)) return false;
    if (op->op->kind != MODEL_MAP || strcmp(op->op->input_labels[input], op->op->output_labels) != 0) return false;
    if (from->death != s->kernels[op->kernel].last || reads_later(s, op->kernel, at, root)) return false;
    for (int i = 0; i < op->input_count; i++)
        if (sim_root(s, op->inputs[i]) == root && strcmp(op->op->input_labels[i], op->op->output_labels) != 0)
            return false;
    return true;
}

static void join_in_place(struct mapper *l)
{
    const struct sim_sharded *s = l->s;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        bool writes = op->kind == SIM_COMMUNICATE || (op->kind == SIM_COMPUTE && op->kernel >= 0);
        if (!writes || op->output_count != 1 || !place_of(l, op->outputs[0])->used) continue;
        for (int j = 0; j < op->input_count; j++) {
            if (!can_overwrite(l, op, i, j)) continue;
            join(l, place_of(l, op->inputs[j]), place_of(l, op->outputs[0]));
            break;
        }
    }
}

/* ---- offsets ---- */

static int larger_first(const void *a, const void *b)
{
    const struct place *x = *(struct place *const *)a, *y = *(struct place *const *)b;
    int64_t xb = x->slice_bytes * x->slices, yb = y->slice_bytes * y->slices;
    if (xb != yb) return xb > yb ? -1 : 1;
    if (x->birth != y->birth) return x->birth < y->birth ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Finds the lowest gap that takes the bytes, among buffers alive at the same time. placed is sorted by offset. */
static int64_t find_gap(struct place *const *placed, int count, const struct place *place)
{
    int64_t offset_bytes = 0, bytes = place->slice_bytes * place->slices;
    for (int i = 0; i < count; i++) {
        const struct place *other = placed[i];
        if (other->death < place->birth || other->birth > place->death) continue;
        if (other->offset_bytes >= offset_bytes + bytes) break;
        int64_t end = other->offset_bytes + other->slice_bytes * other->slices;
        if (end > offset_bytes) offset_bytes = end;
    }
    return offset_bytes;
}

static void insert(struct place **placed, int *count, struct place *place)
{
    int at = (*count)++;
    for (; at > 0 && placed[at - 1]->offset_bytes > place->offset_bytes; at--) placed[at] = placed[at - 1];
    placed[at] = place;
}

static int64_t put_places(struct mapper *l, int64_t start_bytes, struct place **sorted, int count)
{
    struct place **placed = base_new(l->arena, struct place *, count + 1);
    int64_t top_bytes = 0;
    int placed_count = 0;
    for (int i = 0; i < count; i++) {
        sorted[i]->offset_bytes = find_gap(placed, placed_count, sorted[i]);
        insert(placed, &placed_count, sorted[i]);
        int64_t end_bytes = sorted[i]->offset_bytes + sorted[i]->slice_bytes * sorted[i]->slices;
        if (end_bytes > top_bytes) top_bytes = end_bytes;
    }
    for (int i = 0; i < count; i++) sorted[i]->offset_bytes += start_bytes;
    return top_bytes;
}

/* Finds the operation with the most live bytes. Gaps between buffers count as temporaries. */
static void find_peak(struct mapper *l, struct place *const *places, int count, int64_t region_bytes)
{
    struct sim_memory_map *out = l->out;
    int64_t best_bytes = -1, at_best[MODEL_CATEGORY_COUNT] = {0};
    out->peak_op = -1;
    for (int op = 0; op < l->s->op_count; op++) {
        int64_t bytes[MODEL_CATEGORY_COUNT] = {0}, total_bytes = 0;
        for (int i = 0; i < count; i++) {
            if (places[i]->birth > op || places[i]->death < op) continue;
            bytes[places[i]->category] += places[i]->slice_bytes * places[i]->slices;
            total_bytes += places[i]->slice_bytes * places[i]->slices;
        }
        if (total_bytes <= best_bytes) continue;
        best_bytes = total_bytes;
        out->peak_op = op;
        memcpy(at_best, bytes, sizeof at_best);
    }
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) out->category_bytes[c] += at_best[c];
    out->category_bytes[MODEL_TEMPORARY] += region_bytes - (best_bytes > 0 ? best_bytes : 0) + out->scratch_bytes;
}

/* ---- persistent tensors ---- */

static int64_t put_persistent(struct mapper *l)
{
    const struct sim_sharded *s = l->s;
    int64_t at_bytes = 0;
    for (int v = 0; v < s->value_count; v++) {
        const struct sim_value *value = &s->values[v];
        if (!value->persistent || value->alias >= 0) continue;
        const struct model_tensor *tensor = &s->program->tensors[value->tensor];
        int of = l->tensor_value[value->tensor];
        if (of < 0) {
            of = l->tensor_value[value->tensor] = v;
            l->out->offset_bytes[v] = at_bytes;
            l->out->slice_bytes[v] = sim_slice_bytes(&l->local, v);
            int64_t bytes = sim_times(l->out->slice_bytes[v], l->local.sizes[tensor->layers]);
            l->out->category_bytes[tensor->category] += bytes;
            at_bytes += bytes;
        }
        l->out->offset_bytes[v] = l->out->offset_bytes[of];
        l->out->slice_bytes[v] = l->out->slice_bytes[of];
        l->out->slice_size[v] = (unsigned char)tensor->layers;
    }
    return at_bytes;
}

/* ---- the whole map ---- */

static enum sim_lifetime lifetime_of(const struct sim_pass_bounds *b, const struct place *place)
{
    const bool before = place->birth < b->loop;
    const bool behind = place->death > b->end;
    if (place->alone || (before && place->death >= b->loop) || (behind && place->birth <= b->end)) return SIM_LIVES_ON;
    if (before || behind) return SIM_LIVES_IN_PASS;
    return place->birth < b->backward && place->death >= b->backward ? SIM_LIVES_IN_FLIGHT : SIM_LIVES_IN_PASS;
}

static int collect(struct mapper *l, struct place **sorted)
{
    int count = 0;
    for (int v = 0; v < l->s->value_count; v++)
        if (l->places[v].used && l->places[v].joined == v) sorted[count++] = &l->places[v];
    qsort(sorted, (size_t)count, sizeof *sorted, larger_first);
    return count;
}

/* Moves the buffers of one lifetime to the front. */
static int collect_of(struct mapper *l, const struct sim_pass_bounds *bounds, enum sim_lifetime lifetime,
                      struct place **sorted)
{
    int count = collect(l, sorted), kept = 0;
    for (int i = 0; i < count; i++)
        if (lifetime_of(bounds, sorted[i]) == lifetime) sorted[kept++] = sorted[i];
    return kept;
}

static void publish(struct mapper *l)
{
    const struct sim_sharded *s = l->s;
    for (int v = 0; v < s->value_count; v++) {
        const struct place *place = place_of(l, v);
        if (s->values[v].alias >= 0 || !l->places[v].used) continue;
        l->out->offset_bytes[v] = place->offset_bytes;
        l->out->slice_bytes[v] = place->stacked ? place->slice_bytes : 0;
        if (place->stacked) l->out->slice_size[v] = (unsigned char)s->ops[s->values[v].loop].trips;
    }
}

static void begin(struct mapper *l)
{
    struct sim_memory_map *out = l->out;
    const struct sim_sharded *s = l->s;
    memset(out, 0, sizeof *out);
    out->offset_bytes = base_new(l->arena, int64_t, s->value_count);
    out->slice_bytes = base_new(l->arena, int64_t, s->value_count);
    out->slice_size = base_new(l->arena, unsigned char, s->value_count);
    l->places = base_new(l->arena, struct place, s->value_count);
    l->tensor_value = base_new(l->arena, int, s->program->tensor_count);
    for (int v = 0; v < s->value_count; v++) out->offset_bytes[v] = -1;
    for (int t = 0; t < s->program->tensor_count; t++) l->tensor_value[t] = -1;
    begin_lives(l);
    extend_lives(l);
    join_carries(l);
    join_in_place(l);
}

void sim_memory_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                          const struct topo_axes *mesh, struct sim_memory_map *out)
{
    struct mapper l = {.arena = arena, .s = sharded, .local = {sharded, sizes, mesh}, .out = out};
    begin(&l);
    struct place **sorted = base_new(arena, struct place *, sharded->value_count + 1);
    int count = collect(&l, sorted);
    int64_t persistent_bytes = put_persistent(&l), region_bytes = put_places(&l, persistent_bytes, sorted, count);
    out->scratch_bytes = sim_scratch_bytes(&l.local);
    out->scratch_offset_bytes = persistent_bytes + region_bytes;
    out->arena_bytes = out->scratch_offset_bytes + out->scratch_bytes;
    find_peak(&l, sorted, count, region_bytes);
    publish(&l);
}

/* ---- a stage chunk's map ---- */

static void put_lifetime(struct mapper *l, const struct sim_pass_bounds *bounds, enum sim_lifetime lifetime,
                         struct sim_piece_map *out)
{
    struct place **sorted = base_new(l->arena, struct place *, l->s->value_count + 1);
    int count = collect_of(l, bounds, lifetime, sorted);
    if (lifetime == SIM_LIVES_IN_PASS) {
        out->bytes[lifetime] = put_places(l, 0, sorted, count);
        find_peak(l, sorted, count, out->bytes[lifetime]);
        return;
    }
    for (int i = 0; i < count; i++) {
        const int64_t bytes = sorted[i]->slice_bytes * sorted[i]->slices;
        sorted[i]->offset_bytes = out->bytes[lifetime];
        out->bytes[lifetime] += bytes;
        out->category_bytes[lifetime][sorted[i]->category] += bytes;
    }
}

void sim_piece_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                         const struct topo_axes *mesh, const struct sim_pass_bounds *bounds, struct sim_piece_map *out)
{
    struct mapper l = {.arena = arena, .s = sharded, .local = {sharded, sizes, mesh}, .out = &out->map};
    memset(out, 0, sizeof *out);
    begin(&l);
    out->lifetime = base_new(arena, unsigned char, sharded->value_count);
    out->bytes[SIM_LIVES_ALWAYS] = put_persistent(&l);
    memcpy(out->category_bytes[SIM_LIVES_ALWAYS], out->map.category_bytes, sizeof out->map.category_bytes);
    memset(out->map.category_bytes, 0, sizeof out->map.category_bytes);
    for (int lifetime = SIM_LIVES_ON; lifetime < SIM_LIFETIME_COUNT; lifetime++)
        put_lifetime(&l, bounds, (enum sim_lifetime)lifetime, out);
    memcpy(out->category_bytes[SIM_LIVES_IN_PASS], out->map.category_bytes, sizeof out->map.category_bytes);
    out->map.scratch_bytes = sim_scratch_bytes(&l.local);
    publish(&l);
    for (int v = 0; v < sharded->value_count; v++)
        if (l.places[v].used) out->lifetime[v] = (unsigned char)lifetime_of(bounds, place_of(&l, v));
}
