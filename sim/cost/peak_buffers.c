/* The peak explained: buffers alive at the peak, their sizes and reasons. Walks the events of a program again, value by
 * value. */
#include "sim/cost/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 90, ANY_PHASE = -1 };

void sim_add_peak_buffer(struct base_arena *arena, struct sim_peak_buffers *out, const struct sim_peak_buffer *row)
{
    if (!(row->bytes > 0)) return;
    out->rows = base_grown(arena, out->rows, out->count, &out->capacity, sizeof *out->rows);
    out->rows[out->count++] = *row;
}

/* ---- where the peak is ---- */

struct loop_frame {
    double at_begin_bytes, peak_bytes;
    int peak_event;
};

static double bytes_of(const struct sim_cost_context *p, const struct sim_event *event)
{
    return event->sign * sim_standing_bytes(p, event->shape);
}

static bool is_of(const struct sim_sharded *s, const struct sim_event *event, int phase)
{
    return phase == ANY_PHASE || (int)s->ops[event->op].op->phase == phase;
}

/* The event at the peak of one phase or of all, found as price_memory.c does: each loop once, with the growth of its
 * other iterations. -1: no event. */
static int find_peak_event(const struct sim_cost_context *p, const struct sim_sharded *s, int phase)
{
    struct loop_frame frames[SIM_MOST_LOOPS] = {{0, 0, -1}};
    double now_bytes = 0;
    int depth = 0;
    for (int i = 0; i < s->event_count; i++) {
        const struct sim_event *event = &s->events[i];
        struct loop_frame *frame = &frames[depth];
        if (event->bracket > 0 && depth + 1 < SIM_MOST_LOOPS) {
            frames[++depth] = is_of(s, event, phase) ? (struct loop_frame){now_bytes, now_bytes, i}
                                                     : (struct loop_frame){now_bytes, -HUGE_VAL, -1};
        } else if (event->bracket < 0 && depth > 0) {
            const double trips = (double)p->sizes[event->trips],
                         growth_bytes = sim_growth_of_loop(frame->at_begin_bytes, now_bytes, trips);
            if (growth_bytes > 0) frame->peak_bytes += growth_bytes;
            now_bytes += growth_bytes;
            depth--;
            if (frame->peak_bytes > frames[depth].peak_bytes)
                frames[depth].peak_bytes = frame->peak_bytes, frames[depth].peak_event = frame->peak_event;
        } else {
            now_bytes += bytes_of(p, event);
            if (now_bytes <= frame->peak_bytes || !is_of(s, event, phase)) continue;
            frame->peak_bytes = now_bytes, frame->peak_event = i;
        }
    }
    return frames[0].peak_event;
}

/* ---- buffers alive at the peak ---- */

struct alive {
    const struct sim_cost_context *p;
    const struct sim_sharded *s;
    double *now, *peak, *growth, *at_begin[SIM_MOST_LOOPS]; /* bytes by value; growth of an iteration */
    enum model_category *categories;
    const int *iterations; /* of the loops around the place, the outermost first; NULL: where the most is alive */
    bool grows;            /* the peak is in the last iteration of a loop */
    int64_t microbatch;    /* of the place */
};

static double sum_of(const double *bytes, int count)
{
    double sum = 0;
    for (int v = 0; v < count; v++) sum += bytes[v];
    return sum;
}

/* Merges values that changed their name (around a loop, in place): allocated as one, freed as another. alike: of one
 * category. */
static void settle(const struct alive *a, double *bytes, bool alike)
{
    for (int v = 0; v < a->s->value_count; v++)
        for (int w = 0; w < a->s->value_count && bytes[v] < 0; w++) {
            if (bytes[w] <= 0 || a->s->values[w].shape != a->s->values[v].shape) continue;
            if (alike && a->categories[w] != a->categories[v]) continue;
            const double merged_bytes = fmin(bytes[w], -bytes[v]);
            bytes[w] -= merged_bytes, bytes[v] += merged_bytes;
        }
}

/* At the end of a loop, its other iterations leave the same bytes behind; at a place within, those before it. */
static void close_loop(struct alive *a, int depth, const struct sim_event *end, bool has_place)
{
    const int count = a->s->value_count;
    const double *at_begin = a->at_begin[depth], trips = (double)a->p->sizes[end->trips];
    const bool grows = sum_of(a->now, count) > sum_of(at_begin, count);
    const double iteration = a->iterations ? a->iterations[depth] : grows ? trips - 1 : 0;
    for (int v = 0; v < count; v++) a->growth[v] = a->now[v] - at_begin[v];
    settle(a, a->growth, true);
    for (int v = 0; v < count; v++) {
        if (has_place) a->peak[v] += iteration * a->growth[v];
        a->now[v] += (trips - 1) * a->growth[v];
    }
    a->grows = a->grows || (has_place && grows && trips > 1);
    if (has_place && a->iterations && end->trips == MODEL_MICROBATCHES) a->microbatch = (int64_t)iteration;
}

static void walk_values(struct alive *a, int place)
{
    const struct sim_sharded *s = a->s;
    const size_t size = (size_t)s->value_count * sizeof *a->now;
    int begins[SIM_MOST_LOOPS], depth = 0;
    for (int i = 0; i < s->event_count; i++) {
        const struct sim_event *event = &s->events[i];
        if (event->bracket > 0 && depth + 1 < SIM_MOST_LOOPS) {
            begins[depth] = i;
            memcpy(a->at_begin[depth++], a->now, size);
        } else if (event->bracket < 0 && depth > 0) {
            depth--;
            if (i == place) memcpy(a->peak, a->now, size);
            close_loop(a, depth, event, begins[depth] <= place && place <= i);
        } else {
            a->now[event->value] += bytes_of(a->p, event);
            a->categories[event->value] = event->category;
        }
        if (i == place && event->bracket >= 0) memcpy(a->peak, a->now, size);
    }
    if (!a->iterations && a->grows) a->microbatch = a->p->sizes[MODEL_MICROBATCHES] - 1;
}

/* ---- why ---- */

static const char *op_words(const struct sim_sharded *s, int op)
{
    const struct sim_op *o = op >= 0 ? &s->ops[op] : NULL;
    return o && o->op && o->op->name ? o->op->name : "the loop's end";
}

static int layers_of(const struct sim_sharded *s, const struct sim_cost_context *p, int loop)
{
    while (loop >= 0 && s->ops[loop].trips == MODEL_MICROBATCHES) loop = s->ops[loop].loop;
    return loop >= 0 ? (int)p->sizes[s->ops[loop].trips] : 0;
}

static const char *why(const struct sim_cost_context *p, struct base_arena *arena, const struct sim_sharded *s, int v,
                       int peak_op)
{
    const struct sim_value *value = &s->values[v];
    const char *last = op_words(s, value->last_use);
    if (s->program->tensors[value->tensor].category == MODEL_GRADIENT) return "gradient, kept until its update";
    if (value->definition == peak_op) return "made here";
    if (value->last_use == peak_op) return "read here for the last time";
    if (value->saved && layers_of(s, p, value->loop) && sim_stacks_layers(p->plan))
        return base_print(arena, "saved for the backward pass in one array of all layers, last read by %s", last);
    if (value->saved) return base_print(arena, "saved for the backward pass, last read by %s", last);
    if (s->program->tensors[value->tensor].role == MODEL_ROLE_WEIGHT)
        return base_print(arena, "a copy of a weight, last read by %s", last);
    return base_print(arena, "last read by %s", last);
}

static int64_t microbatch_of(const struct alive *a, int loop)
{
    while (loop >= 0 && a->s->ops[loop].trips != MODEL_MICROBATCHES) loop = a->s->ops[loop].loop;
    return loop < 0 ? -1 : a->microbatch;
}

enum listed { ALL_ALIVE, ACTIVATIONS_ALONE };

static void add_values(const struct alive *a, int peak_op, enum listed listed, struct base_arena *arena,
                       struct sim_peak_buffers *out)
{
    for (int v = 0; v < a->s->value_count; v++) {
        const struct sim_value *value = &a->s->values[v];
        if (listed == ACTIVATIONS_ALONE && a->categories[v] != MODEL_ACTIVATION) continue;
        const int layers = layers_of(a->s, a->p, value->loop);
        const double one_bytes = sim_standing_bytes(a->p, value->shape);
        const int alive = layers && one_bytes > 0 ? (int)fmin(layers, round(a->peak[v] / one_bytes)) : 0;
        sim_add_peak_buffer(
            arena, out,
            &(struct sim_peak_buffer){.name = base_copy(arena, a->s->program->tensors[value->tensor].name),
                                      .why = why(a->p, arena, a->s, v, peak_op),
                                      .category = a->categories[v],
                                      .bytes = a->peak[v],
                                      .layer = alive == 1 ? layers - 1 : -1,
                                      .layers = alive,
                                      .microbatch = microbatch_of(a, value->loop)});
    }
}

/* Values alive at an event. iterations: of the loops around it, or NULL, as above. */
static void list_alive(const struct sim_cost_context *p, const struct sim_sharded *s, int place, const int *iterations,
                       enum listed listed, struct base_arena *arena, struct sim_peak_buffers *out)
{
    if (place < 0) return;
    struct alive a = {.p = p,
                      .s = s,
                      .iterations = iterations,
                      .now = base_new(arena, double, s->value_count),
                      .peak = base_new(arena, double, s->value_count),
                      .growth = base_new(arena, double, s->value_count),
                      .categories = base_new(arena, enum model_category, s->value_count)};
    for (int d = 0; d < SIM_MOST_LOOPS; d++) a.at_begin[d] = base_new(arena, double, s->value_count);
    walk_values(&a, place);
    settle(&a, a.peak, false);
    add_values(&a, listed == ALL_ALIVE ? s->events[place].op : -1, listed, arena, out);
}

void sim_list_lasting(const struct sim_cost_context *p, const struct sim_sharded *s, struct base_arena *arena,
                      struct sim_peak_buffers *out)
{
    static const char *const whys[MODEL_CATEGORY_COUNT] = {
        [MODEL_PARAMETER] = "a parameter, from step to step",
        [MODEL_OPTIMIZER_STATE] = "optimizer state, from step to step",
        [MODEL_GRADIENT] = "sum of the microbatches' gradients, until the update",
        [MODEL_INPUT] = "the batch",
        [MODEL_CACHE] = "keys and values of decoded tokens"};
    for (int i = 0; i < s->persistent_count; i++) {
        const struct sim_persistent *held = &s->persistent[i];
        const int layers = s->shapes[held->shape].layers;
        const bool is_copy = held->category == MODEL_PARAMETER &&
                             s->shapes[held->shape].dtype != s->program->tensors[held->tensor].dtype;
        const char *because = is_copy ? "a quantized copy of a parameter" : whys[held->category];
        sim_add_peak_buffer(arena, out,
                            &(struct sim_peak_buffer){.name = base_copy(arena, s->program->tensors[held->tensor].name),
                                                      .why = because ? because : "from step to step",
                                                      .category = held->category,
                                                      .bytes = p->bytes[held->shape],
                                                      .layer = -1,
                                                      .layers = layers == MODEL_ONE ? 0 : (int)p->sizes[layers],
                                                      .microbatch = -1});
    }
}

static const char *name_of(const struct sim_sharded *s, const struct sim_alive_array *array)
{
    if (array->value >= 0) return s->program->tensors[s->values[array->value].tensor].name;
    return op_words(s, array->birth);
}

static void list_layout(const struct sim_cost_context *p, const struct sim_sharded *s,
                        const struct sim_compiled_memory *memory, struct base_arena *arena,
                        struct sim_peak_buffers *out)
{
    for (int i = 0; i < memory->alive_count; i++) {
        const struct sim_alive_array *array = &memory->alive[i];
        const int loop = array->value >= 0 ? s->values[array->value].loop : -1;
        sim_add_peak_buffer(arena, out,
                            &(struct sim_peak_buffer){
                                .name = base_copy(arena, name_of(s, array)),
                                .why = array->value >= 0
                                           ? why(p, arena, s, array->value, memory->peak_op)
                                           : base_print(arena, "laid out from here to %s", op_words(s, array->death)),
                                .category = array->category,
                                .bytes = array->bytes,
                                .layer = -1,
                                .layers = array->category == MODEL_ACTIVATION ? layers_of(s, p, loop) : 0,
                                .microbatch = -1});
    }
}

void sim_list_peak(const struct sim_cost_context *p, const struct sim_sharded *s,
                   const struct sim_compiled_memory *layout, struct sim_detail *detail)
{
    if (!detail || !detail->peak) return;
    if (layout) list_layout(p, s, layout, detail->arena, detail->peak);
    else list_alive(p, s, find_peak_event(p, s, ANY_PHASE), NULL, ALL_ALIVE, detail->arena, detail->peak);
    sim_list_lasting(p, s, detail->arena, detail->peak);
}

void sim_list_moment(const struct sim_cost_context *p, const struct sim_sharded *s,
                     const struct sim_memory_point *point, struct base_arena *arena, struct sim_peak_buffers *out)
{
    list_alive(p, s, point->event, point->iterations, ALL_ALIVE, arena, out);
}

void sim_list_pass(const struct sim_cost_context *p, const struct sim_sharded *s, enum model_phase phase, bool runs,
                   struct base_arena *arena, struct sim_peak_buffers *out)
{
    int place = -1;
    for (int i = 0; i < s->event_count && !runs; i++)
        if (!s->events[i].bracket && is_of(s, &s->events[i], MODEL_FORWARD)) place = i;
    if (runs) place = find_peak_event(p, s, (int)phase);
    list_alive(p, s, place, NULL, runs ? ALL_ALIVE : ACTIVATIONS_ALONE, arena, out);
}

/* ---- rows that add up ---- */

static int by_bytes(const void *a, const void *b)
{
    const struct sim_peak_buffer *x = a, *y = b;
    if (x->bytes > y->bytes || x->bytes < y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (strcmp(x->name, y->name) != 0) return strcmp(x->name, y->name);
    if (strcmp(x->why, y->why) != 0) return strcmp(x->why, y->why);
    return x->category != y->category ? (int)x->category - (int)y->category : x->layer - y->layer;
}

static int by_name(const void *a, const void *b)
{
    const struct sim_peak_buffer *x = a, *y = b;
    if (strcmp(x->name, y->name) != 0) return strcmp(x->name, y->name);
    return x->category != y->category ? (int)x->category - (int)y->category : strcmp(x->why, y->why);
}

static int by_name_and_bytes(const void *a, const void *b)
{
    return by_name(a, b) ? by_name(a, b) : by_bytes(a, b);
}

/* Each chunk of a stage lists the buffers of its own layers. They become one row of all the stage's layers. */
static void merge_chunks(struct sim_peak_buffers *out)
{
    int count = 0;
    if (out->count) qsort(out->rows, (size_t)out->count, sizeof *out->rows, by_name_and_bytes);
    for (int i = 0; i < out->count; i++) {
        struct sim_peak_buffer *last = count ? &out->rows[count - 1] : NULL, row = out->rows[i];
        const bool alike = last && !by_name(last, &row) && last->microbatch == row.microbatch;
        if (alike) last->bytes += row.bytes, last->layers += row.layers, last->layer = -1;
        else out->rows[count++] = row;
    }
    out->count = count;
}

/* The answer's category that includes this one. */
static enum model_category part_of(enum model_category category)
{
    return category == MODEL_INPUT ? MODEL_ACTIVATION : category;
}

static void close_part(enum model_category part, double bytes, const char *rest, struct base_arena *arena,
                       struct sim_peak_buffers *out)
{
    static const char *const names[MODEL_CATEGORY_COUNT] = {
        [MODEL_PARAMETER] = "parameters",   [MODEL_OPTIMIZER_STATE] = "optimizer state", [MODEL_GRADIENT] = "gradients",
        [MODEL_ACTIVATION] = "activations", [MODEL_TEMPORARY] = "temporaries",           [MODEL_CACHE] = "cache"};
    static const double negligible_frac = 1e-9;
    double listed_bytes = 0;
    for (int i = 0; i < out->count; i++)
        if (part_of(out->rows[i].category) == part) listed_bytes += out->rows[i].bytes;
    const double share = listed_bytes > bytes ? bytes / listed_bytes : 1;
    for (int i = 0; i < out->count; i++)
        if (part_of(out->rows[i].category) == part) out->rows[i].bytes *= share;
    if (bytes - listed_bytes <= negligible_frac * bytes) return;
    sim_add_peak_buffer(arena, out,
                        &(struct sim_peak_buffer){.name = names[part] ? names[part] : "others",
                                                  .why = rest,
                                                  .category = part,
                                                  .bytes = bytes - listed_bytes,
                                                  .layer = -1,
                                                  .microbatch = -1});
}

/* Merges all but the largest rows into one row per category. */
static void add_up_small(struct base_arena *arena, struct sim_peak_buffers *out)
{
    struct sim_peak_buffer small[MODEL_CATEGORY_COUNT] = {{0}};
    int counts[MODEL_CATEGORY_COUNT] = {0}, largest = out->count < MOST_ROWS ? out->count : MOST_ROWS;
    for (int i = largest; i < out->count; i++) {
        const enum model_category c = out->rows[i].category;
        if (out->rows[i].is_reserved) {
            out->rows[largest++] = out->rows[i];
            continue;
        }
        small[c].bytes += out->rows[i].bytes, counts[c]++;
    }
    out->count = largest;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) {
        if (!counts[c]) continue;
        small[c].name = base_print(arena, "%d smaller", counts[c]),
        small[c].why = "each smaller than any of the others";
        small[c].category = (enum model_category)c, small[c].layer = -1, small[c].microbatch = -1;
        sim_add_peak_buffer(arena, out, &small[c]);
    }
}

/* Describes bytes that no buffer of the program explains. */
static const char *rest_words(const struct sim_plan *plan)
{
    if (plan->pipeline.stages > 1) return "messages of the stage, and tensors it keeps outside its chunks";
    if (sim_is_executed(plan)) return "in the arena that the executor lays out";
    return sim_plan_traits(plan) >> MODEL_TRAIT_ATEN_KERNELS & 1 || plan->placement->topology.kind == TOPO_GPU
               ? "the allocator's bytes beyond live tensors: free blocks, buckets, copies"
               : "fragments: holes between buffers";
}

/* Tensors saved by one microbatch exist once for each microbatch in flight. */
static void take_all_in_flight(double bytes, double in_flight, struct base_arena *arena, struct sim_peak_buffers *out)
{
    double listed_bytes = 0;
    for (int i = 0; i < out->count; i++)
        if (out->rows[i].category == MODEL_ACTIVATION) listed_bytes += out->rows[i].bytes;
    for (int i = 0; i < out->count && listed_bytes > 0; i++) {
        struct sim_peak_buffer *row = &out->rows[i];
        if (row->category != MODEL_ACTIVATION) continue;
        row->bytes *= bytes / listed_bytes, row->microbatch = -1;
        row->why =
            base_print(arena, "of %.3g microbatch%s in flight: %s", in_flight, in_flight == 1 ? "" : "es", row->why);
    }
}

void sim_close_peak(const struct sim_plan *plan, const struct sim_memory *memory, double in_flight,
                    struct base_arena *arena, struct sim_peak_buffers *out)
{
    const char *rest = rest_words(plan);
    if (in_flight > 0) take_all_in_flight((double)memory->activation_bytes, in_flight, arena, out);
    const double parts[MODEL_CATEGORY_COUNT] = {[MODEL_PARAMETER] = (double)memory->parameter_bytes,
                                                [MODEL_OPTIMIZER_STATE] = (double)memory->optimizer_state_bytes,
                                                [MODEL_GRADIENT] = (double)memory->gradient_bytes,
                                                [MODEL_ACTIVATION] = (double)memory->activation_bytes,
                                                [MODEL_TEMPORARY] = (double)memory->temporary_bytes,
                                                [MODEL_CACHE] = (double)memory->cache_bytes};
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++)
        if (c != MODEL_INPUT) close_part((enum model_category)c, parts[c], rest, arena, out);
    sim_add_peak_buffer(arena, out,
                        &(struct sim_peak_buffer){.name = "reserved",
                                                  .why = "reserved by runtime and compiler",
                                                  .category = MODEL_TEMPORARY,
                                                  .is_reserved = true,
                                                  .bytes = (double)memory->reserved_bytes,
                                                  .layer = -1,
                                                  .microbatch = -1});
    if (plan->pipeline.stages > 1) merge_chunks(out);
    if (out->count) qsort(out->rows, (size_t)out->count, sizeof *out->rows, by_bytes);
    add_up_small(arena, out);
}
