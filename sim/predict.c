/* Prices a plan: sizes to local shapes, shapes to bytes, kernels and collectives to seconds, events to the peak. */
#include "sim/cache.h"
#include "sim/sharded.h"

#include <math.h>
#include <string.h>

enum { MOST_SHAPES = 1024, MOST_DEPTH = 8, ROW_TILE = 8 };

/* ---- programs ---- */

/* A program, sharded. Choices that depended on sizes are kept with it: for other sizes it serves if they come out the
 * same, else another one is made and stands behind it. */
struct sharded_entry {
    struct model_program program;
    struct sim_sharded sharded;
    struct sim_decisions decisions;
    struct sharded_entry *next;
};

static bool decisions_hold(const struct sim_decisions *decisions, const struct sim_extents *extents)
{
    for (int i = 0; i < decisions->count; i++)
        if (sim_is_larger(extents, &decisions->made[i].left, &decisions->made[i].right) != decisions->made[i].larger) return false;
    return decisions->count < SIM_MOST_DECISIONS;
}

static struct model_options program_options(const struct sim_plan *plan, enum model_remat remat, unsigned dropped_roles)
{
    struct model_options options;
    memset(&options, 0, sizeof options); /* the key holds its padding, too */
    options.step = plan->options.step, options.remat = remat, options.optimizer = plan->options.optimizer, options.dtype = plan->options.dtype;
    options.dropped_roles = dropped_roles, options.microbatches = plan->options.microbatches, options.flash_attention = plan->options.flash_attention;
    options.adafactor = plan->options.adafactor, options.parameters = plan->options.parameters, options.parameter_count = plan->options.parameter_count;
    return options;
}

static struct sim_sharding_options sharding_options(const struct sim_plan *plan)
{
    const struct sim_profile *profile = &plan->placement->profile;
    struct sim_sharding_options sharding;
    memset(&sharding, 0, sizeof sharding);
    for (int a = 0; a < 2; a++) sharding.one[a] = plan->placement->axis_sizes[a] == 1;
    sharding.sequence_parallel = plan->sequence_parallel;
    sharding.as_partitioned = plan->as_partitioned;
    sharding.optimizer_partitioning = plan->optimizer_partitioning;
    sharding.hoist_gradient_all_reduce = profile->hoist_gradient_all_reduce && plan->options.microbatches && !plan->as_partitioned;
    sharding.reduce_scatter = profile->reduce_scatter;
    sharding.reassociate_all_reduce = profile->reassociate_all_reduce && !plan->as_partitioned;
    sharding.executable = plan->executable;
    return sharding;
}

/* What is stored, what runs together and when it dies: by what the executor does, or by what a compiler would. */
static void lay_out(struct base_arena *arena, const struct sim_plan *plan, struct sim_sharded *sharded)
{
    if (plan->executable) {
        sim_fuse_rows(arena, sharded);
        return;
    }
    sim_fuse(arena, sharded);
    sim_liveness(arena, sharded, plan->config->scan_layers);
}

static enum base_status find_sharded(struct sim_cache *cache, const struct sim_plan *plan, enum model_remat remat, unsigned dropped_roles, const struct sharded_entry **out,
                                     struct base_error *error)
{
    struct model_options options = program_options(plan, remat, dropped_roles);
    struct sim_sharding_options sharding = sharding_options(plan);
    const int *mesh = plan->placement->axis_sizes;
    const bool relation[] = {mesh[0] == mesh[1], mesh[0] % mesh[1] == 0, mesh[1] % mesh[0] == 0}; /* what a contraction asks of the mesh */
    int64_t sizes[MODEL_SIZE_COUNT];
    model_sizes(plan->config, plan->batch_size, plan->num_microbatches, plan->inputs_length, plan->targets_length, sizes);
    sim_key_begin(cache, 's');
    sim_key_text(cache, plan->model_text);
    sim_key_text(cache, plan->rules_text);
    sim_key_bytes(cache, &options, sizeof options);
    sim_key_bytes(cache, &sharding, sizeof sharding);
    sim_key_bytes(cache, relation, sizeof relation);
    struct sim_extents extents = {sizes, mesh, NULL};
    struct sharded_entry *first = sim_cache_find(cache), *entry = first;
    while (entry && !decisions_hold(&entry->decisions, &extents)) entry = entry->next;
    if (!entry) {
        entry = base_new(&cache->arena, struct sharded_entry, 1);
        extents.decisions = &entry->decisions;
        sharding.rules = plan->rules;
        sharding.extents = extents;
        model_program_build(&cache->arena, plan->config, &options, &entry->program);
        BASE_TRY(sim_partition(&cache->arena, &entry->program, &sharding, &entry->sharded, error));
        lay_out(&cache->arena, plan, &entry->sharded);
        if (entry->sharded.shape_count > MOST_SHAPES) return base_fail(error, BASE_INTERNAL, "a program of more than %d local shapes", MOST_SHAPES);
        entry->next = first;
        sim_cache_store(cache, entry);
    }
    *out = entry;
    return BASE_OK;
}

/* ---- one pricing ---- */

/* Bytes by category, and their sum. */
struct holding { double total_bytes, bytes[MODEL_CATEGORY_COUNT]; };

struct pricing {
    const struct sim_sharded *s;
    const struct sim_plan *plan;
    const struct sim_placement *placement;
    int64_t sizes[MODEL_SIZE_COUNT];
    int64_t shards[SIM_AXES];               /* devices in a group of each set of axes */
    double bytes[MOST_SHAPES];
    double flop_per_s, hbm_bytes_per_s, kernel_latency_s, matrix_unit_dim;
    double totals_s[SIM_BOUND_COUNT], needed_flop;
    struct holding peak;
    int peak_op;
};

static int64_t local_size(const struct pricing *p, int size, unsigned axes)
{
    int64_t shards = p->shards[axes];
    return shards == 1 ? p->sizes[size] : base_ceil_div(p->sizes[size], shards);
}

/* Byte counts are whole numbers in the answer, so a plan beyond their range is refused. */
static const double largest_bytes = (double)(INT64_C(1) << 62);

static enum base_status refuse_size(const struct pricing *p, struct base_error *error)
{
    return base_fail(error, BASE_INPUT, "batch_size: %lld sequences of %s need more than 4 EiB on one device; a smaller batch, shorter lengths or a smaller model would do",
                     (long long)p->plan->batch_size, p->plan->model_text);
}

static enum base_status price_shapes(struct pricing *p, struct base_error *error)
{
    for (int i = 0; i < p->s->shape_count; i++) {
        const struct sim_shape *shape = &p->s->shapes[i];
        double elements = (double)p->sizes[shape->layers];
        for (int d = 0; d < shape->rank; d++) elements *= (double)local_size(p, shape->dims[d], shape->spec[d]);
        p->bytes[i] = elements * (double)model_dtype_bytes(shape->dtype);
        if (!(p->bytes[i] < largest_bytes)) return refuse_size(p, error);
    }
    return BASE_OK;
}

static double padded(double size, double tile)
{
    return tile > 1 ? ceil(size / tile) * tile : size;
}

static double product_of(const struct pricing *p, const struct sim_op *op, unsigned set, bool local)
{
    double product = 1;
    for (int i = 0; i < op->label_count; i++)
        if (set & (1u << i)) product *= (double)(local ? local_size(p, op->labels[i].size, op->labels[i].axes) : p->sizes[op->labels[i].size]);
    return product;
}

/* Matrix units hold a tile of one operand and stream rows of the other: contraction and columns are padded to the
 * unit's side, rows to the vector registers' eight. Which operand stays is the compiler's choice; it takes the cheaper. */
static double dot_flop(const struct pricing *p, const struct sim_op *op)
{
    double batch = product_of(p, op, op->batch_labels, true), rows = product_of(p, op, op->row_labels, true), columns = product_of(p, op, op->column_labels, true);
    double unit = p->matrix_unit_dim, contracted = padded(product_of(p, op, op->contracted_labels, true), unit), tile = unit > 1 ? ROW_TILE : 1;
    double one = padded(rows, tile) * padded(columns, unit), other = padded(rows, unit) * padded(columns, tile);
    return 2 * batch * contracted * (one < other ? one : other);
}

static int64_t repeats(const struct pricing *p, int loop)
{
    int64_t count = 1;
    for (; loop >= 0; loop = p->s->ops[loop].loop) count *= p->sizes[p->s->ops[loop].trips];
    return count;
}

static void note_entry(struct sim_detail *detail, const struct sim_entry *entry)
{
    if (!detail || !detail->timeline) return;
    detail->timeline->entries[detail->timeline->count++] = *entry;
}

static void price_kernel(struct pricing *p, const struct sim_kernel *kernel, struct sim_detail *detail)
{
    const struct sim_sharded *s = p->s;
    double flop = 0, bytes = 0;
    for (int i = 0; i < kernel->dot_count; i++) {
        const struct sim_op *dot = &s->ops[s->dots[kernel->first_dot + i]];
        flop += dot_flop(p, dot);
    }
    for (int i = 0; i < kernel->read_count; i++) bytes += p->bytes[s->reads[kernel->first_read + i]];
    for (int i = 0; i < kernel->write_count; i++) bytes += p->bytes[s->writes[kernel->first_write + i]];
    double compute_s = flop / p->flop_per_s, memory_s = bytes / p->hbm_bytes_per_s;
    double busy_s = compute_s > memory_s ? compute_s : memory_s;
    int64_t count = repeats(p, kernel->loop);
    enum sim_bound bound = compute_s > memory_s ? SIM_BY_COMPUTE : SIM_BY_MEMORY;
    p->totals_s[bound] += busy_s * (double)count;
    p->totals_s[SIM_BY_LATENCY] += p->kernel_latency_s * (double)count;
    if (busy_s < p->kernel_latency_s) bound = SIM_BY_LATENCY;
    note_entry(detail, &(struct sim_entry){s->ops[kernel->op].op->name, s->ops[kernel->op].op->phase, bound, count, busy_s + p->kernel_latency_s, flop, bytes});
}

static void note_collective(struct sim_detail *detail, const struct sim_op *op, enum model_dtype dtype, int64_t count, double bytes, double time_s)
{
    if (!detail || !detail->collectives) return;
    for (int i = 0; i <= detail->collective_count && i < SIM_MOST_COLLECTIVES; i++) {
        struct sim_collective_row *row = &detail->collectives[i];
        if (i == detail->collective_count) {
            *row = (struct sim_collective_row){.kind = op->collective, .axes = op->axes, .dtype = dtype, .bytes = (int64_t)bytes, .first_op = op->op->name};
            detail->collective_count++;
        }
        if (row->kind != op->collective || row->axes != op->axes || row->dtype != dtype || row->bytes != (int64_t)bytes) continue;
        row->count += count;
        row->time_s += time_s * (double)count;
        if (row->op_count < SIM_MOST_OPS_A_ROW) row->ops[row->op_count++] = op->op->name;
        return;
    }
}

static void price_collective(struct pricing *p, const struct sim_op *op, struct sim_detail *detail)
{
    const struct sim_value *value = &p->s->values[op->inputs[0]];
    double bytes = p->bytes[value->shape], time_s = sim_collective_s(p->placement, op->collective, op->axes, bytes);
    int64_t count = repeats(p, op->loop);
    p->totals_s[SIM_BY_COMMUNICATION] += time_s * (double)count;
    note_collective(detail, op, value->dtype, count, bytes, time_s);
    note_entry(detail, &(struct sim_entry){op->op->name, op->op->phase, SIM_BY_COMMUNICATION, count, time_s, 0, bytes});
}

static void price_time(struct pricing *p, struct sim_detail *detail)
{
    const struct sim_sharded *s = p->s;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind == SIM_COMMUNICATE) price_collective(p, op, detail);
        if (op->kind != SIM_COMPUTE) continue;
        if (op->op->needed) p->needed_flop += 2 * product_of(p, op, ~0u, false) * (double)repeats(p, op->loop);
        if (op->kernel >= 0 && s->kernels[op->kernel].op == i) price_kernel(p, &s->kernels[op->kernel], detail);
    }
}

/* ---- memory ---- */

static void add_holding(struct holding *to, const struct holding *a, const struct holding *b, double times)
{
    to->total_bytes += (a->total_bytes - b->total_bytes) * times;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) to->bytes[c] += (a->bytes[c] - b->bytes[c]) * times;
}

/* A loop that is being walked: what there was when it began, and the most that there was in one iteration. */
struct frame { struct holding at_begin, peak; int peak_op; };

static void close_loop(struct frame *frame, double trips, struct holding *now, struct frame *outer)
{
    struct holding peak = frame->peak;
    double left_bytes = now->total_bytes - frame->at_begin.total_bytes;
    if (left_bytes > 0) add_holding(&peak, now, &frame->at_begin, trips - 1);
    struct holding after = *now;
    add_holding(&after, now, &frame->at_begin, trips - 1);
    *now = after;
    if (peak.total_bytes <= outer->peak.total_bytes) return;
    outer->peak = peak;
    outer->peak_op = frame->peak_op;
}

/* A loop's iterations differ by a constant: what one leaves behind, or takes away. So the peak of the whole is that of
 * the first or of the last one. */
static void price_memory(struct pricing *p)
{
    const struct sim_sharded *s = p->s;
    struct frame frames[MOST_DEPTH];
    struct holding now = {0};
    int depth = 0;
    frames[0] = (struct frame){.peak_op = -1};
    for (int i = 0; i < s->event_count; i++) {
        const struct sim_event *event = &s->events[i];
        if (event->bracket > 0) {
            frames[++depth] = (struct frame){now, now, event->op};
        } else if (event->bracket < 0) {
            close_loop(&frames[depth], (double)p->sizes[event->trips], &now, &frames[depth - 1]);
            depth--;
        } else {
            double bytes = event->sign * p->bytes[event->shape];
            now.total_bytes += bytes;
            now.bytes[event->category] += bytes;
            if (now.total_bytes <= frames[depth].peak.total_bytes) continue;
            frames[depth].peak = now;
            frames[depth].peak_op = event->op;
        }
    }
    p->peak = frames[0].peak;
    p->peak_op = frames[0].peak_op;
}

static void price_persistent(const struct pricing *p, double categories_bytes[MODEL_CATEGORY_COUNT])
{
    for (int i = 0; i < p->s->persistent_count; i++) categories_bytes[p->s->persistent_categories[i]] += p->bytes[p->s->persistent_shapes[i]];
}

static enum base_status start_pricing(struct pricing *p, const struct sim_plan *plan, const struct sim_sharded *sharded, struct base_error *error)
{
    const struct sim_placement *placement = plan->placement;
    const double *c = placement->profile.constants;
    memset(p, 0, offsetof(struct pricing, bytes));
    memset(p->totals_s, 0, sizeof *p - offsetof(struct pricing, totals_s));
    p->s = sharded;
    p->plan = plan;
    p->placement = placement;
    model_sizes(plan->config, plan->batch_size, plan->num_microbatches, plan->inputs_length, plan->targets_length, p->sizes);
    for (unsigned axes = 0; axes < SIM_AXES; axes++) p->shards[axes] = (axes & SIM_DATA ? placement->axis_sizes[0] : 1) * (axes & SIM_TENSOR ? placement->axis_sizes[1] : 1);
    p->flop_per_s = c[SIM_FLOP_PER_S] * c[SIM_MATMUL_EFFICIENCY_FRAC];
    p->hbm_bytes_per_s = c[SIM_HBM_BYTES_PER_S] * c[SIM_HBM_EFFICIENCY_FRAC];
    p->kernel_latency_s = c[SIM_KERNEL_LATENCY_S];
    p->matrix_unit_dim = c[SIM_MATRIX_UNIT_DIM];
    return price_shapes(p, error);
}

/* ---- what the executor's arena holds ---- */

static const struct sim_memory_map *find_memory_map(struct sim_cache *cache, const struct pricing *p)
{
    sim_key_begin(cache, 'a');
    sim_key_bytes(cache, &p->s, sizeof p->s);
    sim_key_bytes(cache, p->sizes, sizeof p->sizes);
    sim_key_bytes(cache, p->shards, sizeof p->shards);
    struct sim_memory_map *map = sim_cache_find(cache);
    if (map) return map;
    map = base_new(&cache->arena, struct sim_memory_map, 1);
    sim_memory_map_build(&cache->arena, p->s, p->sizes, p->shards, map);
    sim_cache_store(cache, map);
    return map;
}

/* The arena as it is laid out, in place of the walk over the events. */
static void price_arena(const struct sim_memory_map *map, struct pricing *p, double persistent_bytes[MODEL_CATEGORY_COUNT])
{
    p->peak = (struct holding){.total_bytes = 0};
    p->peak_op = map->peak_op;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) persistent_bytes[c] = 0;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) p->peak.bytes[c] = (double)map->category_bytes[c];
    persistent_bytes[MODEL_INPUT] = p->peak.bytes[MODEL_INPUT];
    p->peak.bytes[MODEL_INPUT] = 0;
    p->peak.total_bytes = (double)map->arena_bytes - persistent_bytes[MODEL_INPUT];
}

/* ---- the answer ---- */

struct priced { double time_s[SIM_BOUND_COUNT], needed_flop, peak_bytes, persistent_bytes[MODEL_CATEGORY_COUNT], categories_bytes[MODEL_CATEGORY_COUNT]; int peak_op; };

static enum base_status price(struct sim_cache *cache, struct pricing *p, struct sim_detail *detail, struct priced *out, struct base_error *error)
{
    price_time(p, detail);
    memset(out, 0, sizeof *out);
    memcpy(out->time_s, p->totals_s, sizeof out->time_s);
    out->needed_flop = p->needed_flop;
    if (p->plan->executable) {
        price_arena(find_memory_map(cache, p), p, out->persistent_bytes);
    } else {
        price_memory(p);
        price_persistent(p, out->persistent_bytes);
    }
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) out->peak_bytes += out->persistent_bytes[c];
    const double *c = p->placement->profile.constants;
    double fragments_bytes = floor(p->peak.total_bytes * c[SIM_FRAGMENTATION_FRAC]);
    out->peak_bytes += p->peak.total_bytes + fragments_bytes + c[SIM_RESERVED_BYTES];
    memcpy(out->categories_bytes, p->peak.bytes, sizeof out->categories_bytes);
    out->categories_bytes[MODEL_TEMPORARY] += fragments_bytes;
    out->peak_op = p->peak_op;
    return out->peak_bytes < largest_bytes ? BASE_OK : refuse_size(p, error);
}

static double total_s(const struct priced *priced)
{
    double sum = 0;
    for (int b = 0; b < SIM_BOUND_COUNT; b++) sum += priced->time_s[b];
    return sum;
}

/* Where the peak stands, as a person would say it: loops over layers by the number of the layer. */
static void name_peak(const struct pricing *p, const struct priced *priced, char *out, size_t size)
{
    static const char *const phases[] = {"", " backward", " update"};
    if (priced->peak_op < 0) {
        snprintf(out, size, "between steps");
        return;
    }
    const struct sim_op *op = &p->s->ops[priced->peak_op];
    const char *name = op->op->name, *layers = strstr(name, "/layers/");
    int loop = op->loop;
    if (!layers || loop < 0) {
        snprintf(out, size, "%s%s", name, phases[op->op->phase]);
        return;
    }
    int64_t layer = p->sizes[p->s->ops[loop].trips] - 1;
    snprintf(out, size, "%.*s/layers_%lld/%s%s", (int)(layers - name), name, (long long)layer, layers + strlen("/layers/"), phases[op->op->phase]);
}

static void fill_memory(const struct pricing *p, const struct priced *priced, struct sim_memory *out)
{
    const double *c = p->placement->profile.constants, *there = priced->categories_bytes, *always = priced->persistent_bytes;
    out->capacity_bytes = (int64_t)c[SIM_CAPACITY_BYTES];
    out->reserved_bytes = (int64_t)c[SIM_RESERVED_BYTES];
    out->parameter_bytes = (int64_t)(always[MODEL_PARAMETER] + there[MODEL_PARAMETER]);
    out->optimizer_state_bytes = (int64_t)(always[MODEL_OPTIMIZER_STATE] + there[MODEL_OPTIMIZER_STATE]);
    out->gradient_bytes = (int64_t)(always[MODEL_GRADIENT] + there[MODEL_GRADIENT]);
    out->activation_bytes = (int64_t)(always[MODEL_INPUT] + there[MODEL_ACTIVATION]);
    out->temporary_bytes = (int64_t)there[MODEL_TEMPORARY];
    out->peak_bytes = (int64_t)priced->peak_bytes;
    name_peak(p, priced, out->peak_at, sizeof out->peak_at);
}

/* What XLA's own rematerialisation may drop of what "none" keeps. It takes the largest tensors first, none below a size,
 * and makes each again by one contraction from tensors that stay: attention weights (from queries and keys), the MLP's
 * hidden layer and the values (from the layer norm's input). Queries and keys stay, since the weights are made of them.
 * Inside the microbatch loop it is only seen to drop what needs no parameter: the attention weights. */
static unsigned droppable_roles(const struct pricing *p)
{
    unsigned candidates = 1u << MODEL_ROLE_SOFTMAX, dropped = 0;
    if (!p->plan->options.microbatches) candidates |= 1u << MODEL_ROLE_MLP_HIDDEN | 1u << MODEL_ROLE_VALUE;
    for (int v = 0; v < p->s->value_count; v++) {
        const struct sim_value *value = &p->s->values[v];
        unsigned role = 1u << p->s->program->tensors[value->tensor].role;
        if (value->kept && (role & candidates) && p->bytes[value->shape] >= p->placement->profile.constants[SIM_REMATERIALIZATION_MIN_BYTES]) dropped |= role;
    }
    return dropped;
}

/* XLA recomputes what it must so that a program fits. It goes layer by layer, so what it saves and what it costs grow
 * with the number of layers it takes. */
static enum base_status rematerialize(struct sim_cache *cache, const struct sim_plan *plan, struct pricing *p, struct priced *priced, struct sim_detail *detail,
                                      int64_t *layers, struct base_error *error)
{
    double capacity_bytes = p->placement->profile.constants[SIM_CAPACITY_BYTES];
    bool trains = plan->options.step == MODEL_STEP_TRAIN || plan->options.step == MODEL_STEP_GRADIENT;
    bool applies = p->placement->profile.rematerialize && !plan->executable && plan->options.remat == MODEL_REMAT_NONE && trains && !plan->options.flash_attention && !plan->config->scan_layers;
    unsigned dropped_roles = applies && priced->peak_bytes > capacity_bytes ? droppable_roles(p) : 0;
    if (!dropped_roles) return BASE_OK;
    const struct sharded_entry *entry;
    BASE_TRY(find_sharded(cache, plan, MODEL_REMAT_COMPILER, dropped_roles, &entry, error));
    struct priced all;
    BASE_TRY(start_pricing(p, plan, &entry->sharded, error));
    if (detail) detail->collective_count = 0;
    if (detail && detail->timeline) detail->timeline->count = 0;
    BASE_TRY(price(cache, p, detail, &all, error));
    double saved_bytes = priced->peak_bytes - all.peak_bytes;
    if (saved_bytes <= 0) return BASE_OK;
    int64_t count = plan->config->num_encoder_layers + plan->config->num_decoder_layers;
    double needed = ceil((double)count * (priced->peak_bytes - capacity_bytes) / saved_bytes), share = needed < (double)count ? needed / (double)count : 1;
    for (int b = 0; b < SIM_BOUND_COUNT; b++) priced->time_s[b] += share * (all.time_s[b] - priced->time_s[b]);
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) priced->categories_bytes[c] += share * (all.categories_bytes[c] - priced->categories_bytes[c]);
    priced->peak_bytes -= share * saved_bytes;
    priced->peak_op = all.peak_op;
    *layers = (int64_t)(share * (double)count);
    return BASE_OK;
}

enum base_status sim_predict(struct sim_cache *cache, const struct sim_plan *plan, struct sim_prediction *out, struct sim_detail *detail, struct base_error *error)
{
    const struct sharded_entry *entry;
    struct pricing p;
    struct priced priced;
    struct sim_prediction answer = {.profile = plan->placement->profile.name, .mesh = {plan->placement->axis_sizes[0], plan->placement->axis_sizes[1]}};
    BASE_TRY(find_sharded(cache, plan, plan->options.remat, 0, &entry, error));
    BASE_TRY(start_pricing(&p, plan, &entry->sharded, error));
    if (detail && detail->timeline) {
        detail->timeline->entries = base_new(detail->arena, struct sim_entry, 2 * entry->sharded.op_count + 1);
        detail->timeline->count = 0;
    }
    BASE_TRY(price(cache, &p, detail, &priced, error));
    BASE_TRY(rematerialize(cache, plan, &p, &priced, detail, &answer.memory.rematerialized_layer_count, error));
    fill_memory(&p, &priced, &answer.memory);
    answer.fits = answer.memory.peak_bytes <= answer.memory.capacity_bytes;
    answer.compute_s = priced.time_s[SIM_BY_COMPUTE];
    answer.memory_bound_s = priced.time_s[SIM_BY_MEMORY];
    answer.exposed_communication_s = answer.communication_s = priced.time_s[SIM_BY_COMMUNICATION];
    answer.overhead_s = priced.time_s[SIM_BY_LATENCY];
    answer.step_s = total_s(&priced);
    double devices = (double)plan->placement->topology.device_count;
    answer.samples_per_s = (double)plan->batch_size / answer.step_s;
    answer.tokens_per_s = answer.samples_per_s * (double)plan->targets_length;
    answer.tokens_per_s_per_device = answer.tokens_per_s / devices;
    answer.mfu_frac = priced.needed_flop / (devices * plan->placement->profile.constants[SIM_FLOP_PER_S] * answer.step_s);
    *out = answer;
    return BASE_OK;
}

enum base_status sim_sharded_program(struct sim_cache *cache, const struct sim_plan *plan, const struct sim_sharded **out, int64_t sizes[MODEL_SIZE_COUNT], struct base_error *error)
{
    const struct sharded_entry *entry;
    BASE_TRY(find_sharded(cache, plan, plan->options.remat, 0, &entry, error));
    model_sizes(plan->config, plan->batch_size, plan->num_microbatches, plan->inputs_length, plan->targets_length, sizes);
    *out = &entry->sharded;
    return BASE_OK;
}

enum base_status sim_executable_program(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan, struct sim_executable *out, struct base_error *error)
{
    struct sim_plan executable = *plan;
    const struct sharded_entry *entry;
    struct pricing p;
    executable.executable = true;
    BASE_TRY(find_sharded(cache, &executable, plan->options.remat, 0, &entry, error));
    BASE_TRY(start_pricing(&p, &executable, &entry->sharded, error));
    out->sharded = &entry->sharded;
    memcpy(out->sizes, p.sizes, sizeof out->sizes);
    memcpy(out->shards, p.shards, sizeof out->shards);
    sim_memory_map_build(arena, &entry->sharded, out->sizes, out->shards, &out->map);
    return BASE_OK;
}

enum base_status sim_program_print(struct sim_cache *cache, const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const struct sim_sharded *sharded;
    int64_t sizes[MODEL_SIZE_COUNT];
    BASE_TRY(sim_sharded_program(cache, plan, &sharded, sizes, error));
    sim_sharded_print(sharded, sizes, out);
    return BASE_OK;
}
