/* Tests of the heap of a compiled step (sim/compile/compiled_heap.c): it goes over layers by their operations, and
 * takes what is alike in them once. Here each array of each layer is written out and placed by itself. */
#include "sim/compile/compiled_buffers.h"
#include "tests/test.h"

#include <math.h>

enum { OPS = 30, MOST_ITEMS = 24, MOST_PLACES = 40000 };

/* Two loops over the same layers, and one over others, with operations between them. */
static const struct loop {
    int begin, end;
    enum model_size trips;
} loops[] = {{3, 9, MODEL_ENCODER_LAYERS}, {11, 19, MODEL_ENCODER_LAYERS}, {21, 26, MODEL_DECODER_LAYERS}};

static int draw(struct base_random *r, int from, int until) /* both included */
{
    return from + (int)base_random_below(r, until - from + 1);
}

/* ---- written out ---- */

struct written {
    const struct sim_assigner *a;
    int times[OPS], time_count;
    struct {
        int birth, death;
        double bytes, offset;
    } * places;
    int count;
};

static int time_in(const struct written *w, int loop, int op, int layer)
{
    const int last = w->a->s->ops[loop].match - 1, at = op <= loop ? loop + 1 : op > last ? last : op;
    return w->times[at] + layer * (last - loop);
}

static int loop_around(const struct written *w, int op)
{
    return op < 0 ? -1 : w->a->s->ops[op].loop;
}

static void write_place(struct written *w, int birth, int death, double bytes)
{
    if (bytes <= 0 || death < birth) return;
    assert_in_range(w->count, 0, MOST_PLACES - 1);
    w->places[w->count].birth = birth, w->places[w->count].death = death;
    w->places[w->count++].bytes = floor(bytes);
}

static void write_buffer(struct written *w, const struct sim_buffer *b)
{
    const int made_in = loop_around(w, b->birth), used_in = loop_around(w, b->death),
              of = made_in >= 0 ? made_in : used_in, n = of >= 0 ? (int)sim_layers_of(w->a, of) : 1;
    if (made_in < 0) {
        write_place(w, b->birth < 0 ? 0 : w->times[b->birth],
                    used_in < 0 ? w->times[b->death] : time_in(w, used_in, b->death, n - 1),
                    fmax(b->first_bytes, b->last_bytes));
        return;
    }
    for (int layer = 0; layer < n; layer++) {
        const bool stays = layer == n - 1 && b->death > w->a->s->ops[made_in].match;
        write_place(w, time_in(w, made_in, b->birth, layer),
                    stays ? w->times[b->death] : time_in(w, made_in, b->death, layer),
                    b->first_bytes + (n > 1 ? layer * (b->last_bytes - b->first_bytes) / (n - 1) : 0));
    }
}

static void write_arrays(struct written *w, const struct sim_layer_arrays *arrays)
{
    const int n = (int)sim_layers_of(w->a, arrays->user >= 0 ? arrays->user : arrays->made_in);
    for (int layer = arrays->from; layer < arrays->until; layer++) {
        const int contrary = n - 1 - layer, made = arrays->made_in == arrays->user ? contrary : layer;
        write_place(
            w, arrays->made_in < 0 ? w->times[arrays->made_at] : time_in(w, arrays->made_in, arrays->made_at, made),
            arrays->user < 0 ? w->times[arrays->used_at] : time_in(w, arrays->user, arrays->used_at, contrary),
            arrays->bytes);
    }
}

/* The first smallest gap with room between those that are there, or at the end, from the gap that may be there. */
static double place(const struct written *w, int at, double *end)
{
    const double bytes = w->places[at].bytes;
    double best = -1, best_bytes = INFINITY, from = 0;
    while (from < *end) {
        double next = *end, behind = *end;
        for (int i = w->count - 1; i >= 0; i--) {
            if (isnan(w->places[i].offset) || w->places[i].offset < from || w->places[i].offset >= next) continue;
            next = w->places[i].offset, behind = next + w->places[i].bytes;
        }
        if (next - from >= bytes && next - from < best_bytes) best = from, best_bytes = next - from;
        if (next == *end && best < 0) best = from;
        from = behind;
    }
    if (best < 0) best = *end;
    *end = fmax(*end, best + bytes);
    return best;
}

static double written_out_bytes(struct base_arena *arena, const struct sim_assigner *a)
{
    struct written w = {.a = a, .places = base_alloc(arena, MOST_PLACES, sizeof *w.places)};
    double end = 0;
    for (int i = 0; i < OPS; i++) {
        const struct sim_op *op = &a->s->ops[i];
        if (op->kind == SIM_LOOP_END) w.time_count += (int)(sim_layers_of(a, op->match) - 1) * (i - op->match - 1);
        w.times[i] = w.time_count++;
    }
    for (int i = a->array_count - 1; i >= 0; i--) write_arrays(&w, &a->arrays[i]);
    for (int i = a->count - 1; i >= 0; i--)
        if (!a->buffers[i].of_arrays) write_buffer(&w, &a->buffers[i]);
    for (int i = 0; i < w.count; i++) w.places[i].offset = (double)NAN; /* not there */
    for (int now = 0; now < w.time_count; now++) {
        for (int i = w.count - 1; i >= 0; i--)
            if (w.places[i].birth == now) w.places[i].offset = place(&w, i, &end);
        for (int i = 0; i < w.count; i++)
            if (w.places[i].death == now) w.places[i].offset = (double)NAN;
    }
    return end;
}

/* ---- drawn ---- */

static double draw_bytes(struct base_random *r)
{
    static const double bytes[] = {0, 8, 8, 16, 24, 24, 40, 100, 256.5, 1000};
    return bytes[draw(r, 0, BASE_COUNT(bytes) - 1)];
}

static void draw_buffer(struct base_random *r, struct sim_assigner *a)
{
    const int birth = draw(r, -1, OPS - 1),
              death = draw(r, birth < 0 ? 0 : birth, draw(r, 0, 1) || birth > 24 ? OPS - 1 : birth + 4);
    const double first_bytes = draw_bytes(r), last_bytes = draw(r, 0, 3) ? first_bytes : draw_bytes(r);
    a->of_arrays = !draw(r, 0, 7);
    sim_add_buffer(a, birth, death, first_bytes, last_bytes, MODEL_TEMPORARY);
}

/* From the first loop to the second, from one to behind both, from before one into it, or within one. */
static void draw_arrays(struct base_random *r, struct sim_assigner *a)
{
    const int n = (int)sim_layers_of(a, loops[0].begin), from = draw(r, 0, n - 1), kind = draw(r, 0, 3);
    const bool made_outside = kind == 2, used_outside = kind == 1;
    const struct loop *made = &loops[kind == 3], *used = &loops[kind == 3 ? 1 : draw(r, kind != 2, 1)];
    sim_add_arrays(a, &(struct sim_layer_arrays){made_outside ? -1 : made->begin,
                                                 made_outside ? draw(r, 0, 2) : draw(r, made->begin, made->end),
                                                 used_outside ? -1 : used->begin,
                                                 used_outside ? draw(r, 27, OPS - 1) : draw(r, used->begin, used->end),
                                                 from, draw(r, from, n), draw_bytes(r)});
}

static void layers_written_out_take_the_same(struct base_arena *arena)
{
    struct base_random r;
    struct sim_op ops[OPS];
    base_random_seed(&r, 1);
    for (int i = 0; i < OPS; i++) ops[i] = (struct sim_op){.kind = SIM_COMPUTE, .loop = -1};
    for (int l = 0; l < BASE_COUNT(loops); l++) {
        for (int i = loops[l].begin + 1; i < loops[l].end; i++) ops[i].loop = loops[l].begin;
        ops[loops[l].begin].kind = SIM_LOOP_BEGIN, ops[loops[l].begin].match = loops[l].end;
        ops[loops[l].end].kind = SIM_LOOP_END, ops[loops[l].end].match = loops[l].begin;
        ops[loops[l].begin].trips = (unsigned char)loops[l].trips;
    }
    for (int round = 0; round < 400; round++) {
        TEST_ROW("round %d", round);
        int64_t sizes[MODEL_SIZE_COUNT] = {
            [MODEL_ENCODER_LAYERS] = draw(&r, 1, 7), [MODEL_DECODER_LAYERS] = draw(&r, 1, 5)};
        const struct sim_compiled_options options = {.sizes = sizes, .limit_bytes = INFINITY}; /* there is room */
        const struct sim_sharded sharded = {.ops = ops, .op_count = OPS};
        struct sim_assigner a = {.s = &sharded, .options = &options, .arena = arena};
        for (int i = draw(&r, 1, MOST_ITEMS); i > 0; i--) draw_buffer(&r, &a);
        for (int i = draw(&r, 0, MOST_ITEMS); i > 0; i--) draw_arrays(&r, &a);
        assert_true(sim_heap_bytes(&a, 0) == written_out_bytes(arena, &a));
    }
}

static const struct test tests[] = {
    TEST(layers_written_out_take_the_same),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
