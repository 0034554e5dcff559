/* Inference: runs batches through a plan's program and collects each example's results in order. */
#include "exec/checkpoint.h"
#include "exec/collective.h"
#include "exec/gemm.h"
#include "exec/infer_arrays.h"
#include "exec/kernels.h"
#include "exec/onednn.h"

#include <string.h>

struct infer {
    struct base_arena *arena;
    const struct sim_plan *plan;
    const struct exec_infer_request *request;
    struct exec_machine machine;
    struct sim_executable program;
    struct exec_batch *batches;
    struct exec_watch watch;
    struct exec_infer_result *result;
    int64_t first; /* first example of the current batch */
    struct base_error *error;
};

/* ---- results of a batch ---- */

/* Drops padding rows, which are the last. */
static int64_t kept(const struct infer *r, int64_t count)
{
    const int64_t each = count / r->plan->batch_size, left = r->result->example_count - r->first;
    return (left < r->plan->batch_size ? left : r->plan->batch_size) * each;
}

/* An array of the result; its elements have four bytes. */
struct filled {
    const struct infer *r;
    char *array;
};

static void see(void *where, const float *values, int64_t count)
{
    const struct filled *filled = where;
    const int64_t each = count / filled->r->plan->batch_size;
    const size_t bytes = sizeof *values;
    memcpy(filled->array + (size_t)(filled->r->first * each) * bytes, values, (size_t)kept(filled->r, count) * bytes);
}

static void watch(struct infer *r, const char *name, void *array)
{
    struct filled *filled = base_new(r->arena, struct filled, 1);
    int tensor = exec_tensor_named(&r->machine, name);
    *filled = (struct filled){r, array};
    if (tensor >= 0) r->watch.watched[r->watch.count++] = (struct exec_watched){tensor, see, filled};
}

/* ---- before the first batch ---- */

static void make_room(struct infer *r, int64_t batches)
{
    struct exec_infer_result *out = r->result;
    const int64_t *sizes = r->machine.sizes;
    const bool scores = r->plan->options.step == MODEL_STEP_SCORE;
    out->batch_count = batches;
    for (int64_t b = 0; b < batches; b++) out->example_count += r->batches[b].rows;
    out->decodes = scores ? 1 : sizes[MODEL_NUM_DECODES];
    out->length = scores ? sizes[MODEL_TARGETS_LENGTH] : sizes[MODEL_ANSWER_LENGTH];
    out->scores = base_new(r->arena, float, out->example_count * out->decodes);
    if (scores) out->token_scores = base_new(r->arena, float, out->example_count * out->length);
    else out->tokens = base_new(r->arena, int32_t, out->example_count * out->decodes * out->length);
    out->batch_s = base_new(r->arena, double, batches);
    out->rounds = base_new(r->arena, int64_t, batches);
}

/* Selects the requested batches. */
static enum base_status take_range(struct infer *r, int64_t *batches)
{
    const int64_t first = r->request->first_batch, limit = r->request->batch_limit, total = *batches;
    if (first >= total)
        return base_fail(r->error, BASE_INPUT, "%s: has %lld batches, but batch %lld is needed", r->request->data,
                         (long long)total, (long long)first);
    r->batches += first;
    *batches = limit && limit < total - first ? limit : total - first;
    r->result->batch_total = total;
    return BASE_OK;
}

static enum base_status prepare(struct infer *r, struct sim_cache *cache, int64_t *batches)
{
    const struct exec_infer_request *request = r->request;
    BASE_TRY(exec_check_plan(r->plan, r->error));
    BASE_TRY(sim_executable_program(cache, r->arena, r->plan, &r->program, r->error));
    r->machine.transport = request->transport;
    r->machine.processor_time = request->processor_time;
    BASE_TRY(exec_machine_begin(r->arena, &r->program, r->plan, &r->machine, r->error));
    if (!request->data) return base_fail(r->error, BASE_USAGE, "--data: is missing; a .jsonl with a batch a line");
    BASE_TRY(exec_inference_batches(r->arena, r->plan, request->data, &r->batches, batches, r->error));
    BASE_TRY(take_range(r, batches));
    return exec_gemm_begin(r->error);
}

static enum base_status take_parameters(struct infer *r)
{
    const struct exec_infer_request *request = r->request;
    struct exec_restoring restoring = {.path = request->restore, .evaluates = true, .warn = request->warn};
    int64_t step = 0;
    BASE_TRY(exec_home_latest(r->arena, request->transport, request->restore, &restoring.path, r->error));
    if (!request->restore || r->plan->options.lora_rank) /* a base has no adapters */
        BASE_TRY(exec_set_initial_values(r->arena, &r->machine));
    return request->restore ? exec_restore(r->arena, &r->machine, &restoring, &step, r->error) : BASE_OK;
}

/* ---- a batch ---- */

static void clear_caches(struct exec_machine *m)
{
    memset(m->index, 0, sizeof m->index);
    for (int v = 0; v < m->s->value_count; v++) {
        const struct sim_value *value = &m->s->values[v];
        const struct model_tensor *tensor = &m->s->program->tensors[value->tensor];
        if (tensor->category != MODEL_CACHE || !value->persistent || value->alias >= 0) continue;
        for (int device = m->first_device; device < m->end_device; device++)
            memset(exec_address(m, v, device), 0, (size_t)(m->map.slice_bytes[v] * m->sizes[tensor->layers]));
    }
}

/* The first batch uses the seed's own key, as T5X's predict does. Others fold in their number, so that a resumed job
 * draws the same. */
static struct base_key key_of(const struct sim_plan *plan, int64_t batch)
{
    struct base_key key = base_key_of_seed(plan->seed);
    return batch ? base_key_fold_in(&key, (uint32_t)batch) : key;
}

static bool run_batch(struct infer *r, int64_t b)
{
    struct exec_machine *m = &r->machine;
    struct exec_infer_result *out = r->result;
    clear_caches(m);
    m->key = key_of(r->plan, r->request->first_batch + b);
    m->rounds = 0;
    exec_feed(m, &r->batches[b]);
    double start_s = exec_seconds(m);
    exec_step(m);
    out->batch_s[b] = exec_seconds(m) - start_s;
    out->rounds[b] = m->rounds;
    out->contraction_s += m->contraction_s, out->elementwise_s += m->elementwise_s;
    out->communication_s += m->communication_s;
    r->first += r->batches[b].rows;
    double stops = r->request->stop && *r->request->stop;
    exec_sum_numbers(r->request->transport, &stops, 1);
    return stops > 0;
}

static void fill_result(struct infer *r)
{
    struct exec_infer_result *out = r->result;
    const int64_t *bytes = r->program.map.category_bytes;
    double parts[] = {out->contraction_s, out->elementwise_s, out->communication_s};
    exec_largest_numbers(r->request->transport, parts, BASE_COUNT(parts));
    out->contraction_s = parts[0], out->elementwise_s = parts[1], out->communication_s = parts[2];
    for (int64_t b = 0; b < out->batch_count; b++) exec_largest_numbers(r->request->transport, &out->batch_s[b], 1);
    out->memory =
        (struct sim_memory){.capacity_bytes = (int64_t)r->plan->placement->profile.constants[SIM_CAPACITY_BYTES],
                            .peak_bytes = r->program.map.arena_bytes,
                            .parameter_bytes = bytes[MODEL_PARAMETER],
                            .cache_bytes = bytes[MODEL_CACHE],
                            .activation_bytes = bytes[MODEL_ACTIVATION] + bytes[MODEL_INPUT],
                            .temporary_bytes = bytes[MODEL_TEMPORARY]};
    out->collectives = r->machine.collectives.rows;
    out->collective_count = r->machine.collectives.count;
}

static enum base_status run_batches(struct infer *r)
{
    struct exec_infer_result *out = r->result;
    struct exec_arrays_kept arrays = {.directory = r->request->arrays};
    if (r->plan->options.dtype == MODEL_BFLOAT16) r->machine.narrow = exec_onednn_begin(r->arena, MODEL_BFLOAT16);
    r->machine.watch = &r->watch;
    watch(r, "decodes", out->tokens);
    watch(r, "scores", out->scores);
    watch(r, "token_scores", out->token_scores);
    if (arrays.directory) exec_arrays_watch(r->arena, &r->machine, &r->watch, &arrays);
    if (r->request->progress && exec_rank(r->request->transport) == 0)
        r->request->progress(&(struct exec_progress){.steps = out->batch_count});
    int64_t b = 0;
    for (; b < out->batch_count && !out->stopped; b++) out->stopped = run_batch(r, b) && b + 1 < out->batch_count;
    out->batch_count = b, out->example_count = r->first; /* a stopped run answers what it has */
    exec_onednn_end(r->machine.narrow);
    exec_flight_end(&r->machine);
    fill_result(r);
    return arrays.directory ? exec_arrays_write(&arrays, r->error) : BASE_OK;
}

enum base_status exec_infer(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                            const struct exec_infer_request *request, struct exec_infer_result *out,
                            struct base_error *error)
{
    struct exec_infer_result result = {.batch_count = 0};
    struct infer *r = base_new(arena, struct infer, 1);
    int64_t batches = 0;
    *r = (struct infer){.arena = arena, .plan = plan, .request = request, .result = &result, .error = error};
    BASE_TRY(exec_agree(request->transport, prepare(r, cache, &batches), error));
    make_room(r, batches);
    enum base_status taken = take_parameters(r);
    if (request->ready) request->ready();
    BASE_TRY(exec_agree(request->transport, taken, error));
    BASE_TRY(exec_agree(request->transport, run_batches(r), error));
    *out = result;
    return BASE_OK;
}
