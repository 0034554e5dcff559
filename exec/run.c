/* A run: devices with their arenas, initial values, steps, and measurements. */
#include "exec/checkpoint.h"
#include "exec/collective.h"
#include "exec/gemm.h"
#include "exec/kernels.h"
#include "exec/onednn.h"
#include "exec/stage_machines.h"

#include <math.h>
#include <string.h>
#include <time.h>

struct run {
    struct base_arena *arena;
    struct exec_machine **machines; /* of this process: one, or one per stage chunk */
    int machine_count;
    struct exec_stages *stages; /* NULL: no pipeline */
    struct sim_executable program;
    struct sim_collective_list collectives; /* of one device, per step */
    const struct exec_request *request;
    struct exec_data data;
    struct exec_home home;
    int64_t first_row, end_row; /* rows of a batch for devices of this process */
    struct exec_result *result;
    struct base_error *error;
};

/* ---- unsupported plans ---- */

static bool is_plain_adafactor(const struct sim_plan *plan)
{
    return plan->options.optimizer != MODEL_ADAFACTOR || !plan->adafactor_text || !*plan->adafactor_text;
}

enum base_status exec_check_plan(const struct sim_plan *plan, struct base_error *error)
{
    const int64_t most_tokens = 1 << 24; /* token ids pass through float32 */
    bool runs = plan->options.dtype == MODEL_FLOAT32 || plan->options.dtype == MODEL_BFLOAT16;
    if (!runs)
        return base_fail(error, BASE_INPUT, "dtype: %s cannot be run here; use float32 or bfloat16",
                         model_dtype_name(plan->options.dtype));
    if (plan->options.flash_attention)
        return base_fail(error, BASE_INPUT,
                         "attention: the executor has no fused kernel for flash attention; use unfused");
    if (plan->options.ring_devices && plan->options.dropout)
        return base_fail(error, BASE_INPUT,
                         "dropout_rate: round a ring attention draws other masks than on one device, and is not run; "
                         "use 0, or cp_comm_type all_gather");
    if (plan->options.ring_devices && (plan->config->attention_softcap > 0 || plan->config->attention_sinks))
        return base_fail(error, BASE_INPUT, "%s: is not run round a ring; use cp_comm_type all_gather or a2a",
                         plan->config->attention_sinks ? "attention_sinks" : "attention_softcap");
    if (!is_plain_adafactor(plan))
        return base_fail(
            error, BASE_INPUT,
            "adafactor: the executor supports T5X's defaults alone; leave the options out, or use adamw or sgd");
    if (plan->config->vocab_size > most_tokens)
        return base_fail(error, BASE_INPUT, "model: a vocabulary of more than %lld tokens cannot be run",
                         (long long)most_tokens);
    if (plan->batch_size > INT32_MAX / plan->targets_length || plan->batch_size > INT32_MAX / plan->inputs_length)
        return base_fail(error, BASE_INPUT, "batch_size: more than 2^31 tokens in a batch cannot be run");
    return BASE_OK;
}

/* ---- initial values ---- */

/* From the run's own checkpoint, otherwise from the given one, otherwise initial values. */
static enum base_status begin(struct run *run, int64_t *first_step)
{
    const struct exec_request *request = run->request;
    const struct exec_home *home = &run->home;
    struct exec_restoring restoring = {.path = request->restore,
                                       .resumes = home->latest_step >= 0 && !request->evaluates,
                                       .evaluates = request->evaluates,
                                       .data = run->data.content,
                                       .allowed = request->allow_changed,
                                       .warn = request->warn};
    enum base_status status = BASE_OK;
    *first_step = 0;
    if (home->latest_step < 0)
        BASE_TRY(exec_home_latest(run->arena, request->transport, request->restore, &restoring.path, run->error));
    if (home->latest_step >= 0) restoring.path = exec_home_path(run->arena, home, home->latest_step);
    if (request->evaluates && request->checkpoint && !restoring.path)
        return base_fail(run->error, BASE_INPUT,
                         "--checkpoint: %s: contains no checkpoint to evaluate; give the folder of a run's "
                         "checkpoints, or --restore CHECKPOINT",
                         request->checkpoint);
    const bool draws = !restoring.path || run->machines[0]->plan->options.lora_rank; /* a base has no adapters */
    for (int i = 0; i < run->machine_count && draws; i++)
        BASE_TRY(exec_set_initial_values(run->arena, run->machines[i]));
    if (restoring.path) BASE_TRY(exec_restore(run->arena, run->machines[0], &restoring, first_step, run->error));
    if (!request->evaluates) status = exec_home_check(home, *first_step, request->steps, run->error);
    if (request->ready) request->ready();
    return exec_agree(request->transport, status, run->error);
}

/* ---- a step ---- */

/* Sums the ranks' tokens and parameters, and combines their stop requests. */
static bool sum_step(const struct run *run, bool stops)
{
    struct exec_machine *m = run->machines[0];
    for (int i = 1; i < run->machine_count; i++) exec_add_sums(m, run->machines[i]);
    double sums[] = {m->loss_sum, m->weight_sum, m->gradient_square_sum, m->right_sum, m->router_loss_sum, stops};
    exec_sum_numbers(run->request->transport, sums, BASE_COUNT(sums));
    m->loss_sum = sums[0], m->weight_sum = sums[1], m->gradient_square_sum = sums[2], m->right_sum = sums[3];
    m->router_loss_sum = sums[4];
    return sums[5] > 0;
}

/* The loss as T5X reports it: divided by the plan's loss_normalizing_factor, or per token. If each microbatch
 * divided by its own tokens, no division is left. */
static double loss_of(const struct exec_machine *m)
{
    if (m->plan->options.normalizes_by_tokens) return m->loss_sum;
    double factor = m->plan->loss_normalizing_factor > 0 ? m->plan->loss_normalizing_factor : m->weight_sum;
    return factor > 0 ? m->loss_sum / factor : 0;
}

static enum base_status run_step(struct run *run, struct base_arena *scratch, int64_t step, int64_t at)
{
    struct exec_machine *m = run->machines[0];
    struct exec_result *out = run->result;
    struct exec_batch batch;
    base_arena_reset(scratch);
    exec_data_batch(scratch, &run->data, step, run->first_row, run->end_row, &batch);
    for (int i = 0; i < run->machine_count; i++) {
        run->machines[i]->step = step;
        exec_feed(run->machines[i], &batch);
    }
    double start_s = exec_seconds(m);
    if (run->stages) exec_stages_step(run->stages);
    else exec_step(m);
    out->step_s[at] = exec_seconds(m) - start_s;
    out->stopped = sum_step(run, run->request->stop && *run->request->stop);
    out->loss[at] = loss_of(m) + m->router_loss_sum;
    out->gradient_norm[at] = sqrt(m->gradient_square_sum);
    out->accuracy[at] = m->weight_sum > 0 ? m->right_sum / m->weight_sum : 0;
    out->weight[at] = m->weight_sum;
    out->contraction_s += m->contraction_s;
    out->elementwise_s += m->elementwise_s;
    out->communication_s += m->communication_s;
    out->exposed_s += m->exposed_s;
    if (!isfinite(out->loss[at]) || !isfinite(out->gradient_norm[at]))
        return base_fail(
            run->error, BASE_RUN,
            "step %lld: the loss or a gradient is no longer a finite number; a smaller learning_rate would help",
            (long long)step);
    return BASE_OK;
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void tell(const struct run *run, int64_t done, double passed_s)
{
    const struct exec_request *request = run->request;
    const struct exec_result *out = run->result;
    if (!request->progress || exec_rank(request->transport) != 0) return;
    double step_s = done ? passed_s / (double)done : 0,
           tokens = (double)run->machines[0]->plan->batch_size * (double)run->machines[0]->plan->targets_length;
    int64_t all = out->first_step + done;
    request->progress(&(struct exec_progress){.done = all,
                                              .steps = request->steps,
                                              .loss = done ? out->loss[done - 1] : 0,
                                              .tokens_per_s = step_s > 0 ? tokens / step_s : 0,
                                              .left_s = step_s * (double)(request->steps - all)});
}

static enum base_status save(struct run *run, int64_t step)
{
    const struct exec_request *request = run->request;
    bool first = exec_rank(request->transport) == 0;
    if (exec_save(run->arena, run->machines[0], &run->home, step, run->error) != BASE_OK)
        return run->error->status = BASE_RUN;
    if (first) exec_home_add(run->arena, &run->home, step);
    if (first && request->keep) exec_home_forget(run->arena, &run->home, request->keep);
    return BASE_OK;
}

/* The last step always saves, also if the run was stopped. */
static bool is_time_to_save(const struct exec_request *request, int64_t step, bool last)
{
    return request->checkpoint && !request->evaluates &&
           (last || (request->checkpoint_every && step % request->checkpoint_every == 0));
}

static enum base_status run_steps(struct run *run, int64_t first_step, int64_t count)
{
    struct exec_result *out = run->result;
    enum base_status status = BASE_OK;
    struct base_arena scratch = {.exhausted = run->arena->exhausted};
    double start_s = exec_seconds(run->machines[0]);
    tell(run, 0, 0);
    for (int64_t i = 0; i < count && status == BASE_OK && !out->stopped; i++) {
        const double begun_s = processor_seconds();
        status = run_step(run, &scratch, first_step + i, i);
        out->processor_s[i] = processor_seconds() - begun_s;
        if (status != BASE_OK) break;
        out->step_count = i + 1;
        if (is_time_to_save(run->request, first_step + i + 1, i + 1 == count || out->stopped))
            status = save(run, first_step + i + 1);
        tell(run, i + 1, exec_seconds(run->machines[0]) - start_s);
    }
    out->stopped = out->stopped && out->step_count < count;
    base_arena_free(&scratch);
    return status;
}

/* Turns sums over all steps into means per step. */
static void divide_by_steps(struct run *run)
{
    struct exec_result *out = run->result;
    double count = out->step_count ? (double)out->step_count : 1;
    out->contraction_s /= count, out->elementwise_s /= count, out->communication_s /= count, out->exposed_s /= count;
    for (int i = 0; i < run->collectives.count; i++) {
        struct sim_collective_row *row = &run->collectives.rows[i];
        row->time_s /= count;
        row->count /= (int64_t)count;
    }
}

/* Kernels and collectives in program order, as in a prediction. */
static void add_entries(const struct run *run, const struct exec_machine *m, struct sim_timeline *out)
{
    int64_t steps = run->result->step_count;
    for (int i = 0; i < m->s->op_count && steps; i++) {
        const struct sim_op *op = &m->s->ops[i];
        if (!m->op_runs[i]) continue;
        enum sim_bound bound = op->kind == SIM_COMMUNICATE    ? SIM_BY_COMMUNICATION
                               : op->op->kind == MODEL_EINSUM ? SIM_BY_COMPUTE
                                                              : SIM_BY_MEMORY;
        out->entries[out->count++] = (struct sim_entry){.name = op->op->name,
                                                        .phase = op->op->phase,
                                                        .bound = bound,
                                                        .count = m->op_runs[i] / steps,
                                                        .time_s = m->op_s[i] / (double)m->op_runs[i]};
    }
}

/* The operations of one device: of the model's machine, or of one stage's machines. */
static void list_operations(struct run *run, struct exec_machine *const *machines, int count)
{
    struct sim_timeline *out = &run->result->timeline;
    int capacity = 1;
    for (int i = 0; i < count; i++) capacity += machines[i]->s->op_count;
    *out = (struct sim_timeline){base_new(run->arena, struct sim_entry, capacity), 0};
    for (int i = 0; i < count; i++) {
        add_entries(run, machines[i], out);
        for (int k = 0; k < machines[i]->collectives.count; k++) {
            const struct sim_collective_row *from = &machines[i]->collectives.rows[k];
            struct sim_collective_row like = *from, *row;
            like.count = 0, like.time_s = 0;
            row = sim_collective_row_of(run->arena, &run->collectives, &like);
            row->count += from->count;
            row->time_s += from->time_s;
        }
    }
}

static void fill_memory(const struct run *run, const struct sim_plan *plan, struct sim_memory *out)
{
    const struct sim_executable_stage *stage = run->stages ? exec_worst_stage(run->stages) : NULL;
    const int64_t *bytes = stage ? stage->category_bytes : run->program.map.category_bytes;
    *out = (struct sim_memory){.capacity_bytes = (int64_t)plan->placement->profile.constants[SIM_CAPACITY_BYTES],
                               .peak_bytes = stage ? stage->arena_bytes : run->program.map.arena_bytes};
    out->parameter_bytes = bytes[MODEL_PARAMETER];
    out->optimizer_state_bytes = bytes[MODEL_OPTIMIZER_STATE];
    out->gradient_bytes = bytes[MODEL_GRADIENT];
    out->activation_bytes = bytes[MODEL_ACTIVATION] + bytes[MODEL_INPUT];
    out->temporary_bytes = bytes[MODEL_TEMPORARY];
}

static enum base_status begin_machine(struct run *run, struct sim_cache *cache, const struct sim_plan *plan)
{
    BASE_TRY(sim_executable_program(cache, run->arena, plan, &run->program, run->error));
    run->machines = base_new(run->arena, struct exec_machine *, run->machine_count = 1);
    run->machines[0] = base_new(run->arena, struct exec_machine, 1);
    run->machines[0]->processor_time = run->request->processor_time;
    run->machines[0]->transport = run->request->transport;
    return exec_machine_begin(run->arena, &run->program, plan, run->machines[0], run->error);
}

static enum base_status begin_stages(struct run *run, struct sim_cache *cache, const struct sim_plan *plan)
{
    const struct exec_request *request = run->request;
    run->stages = base_new(run->arena, struct exec_stages, 1);
    run->stages->transport = request->transport;
    BASE_TRY(exec_stages_begin(run->arena, cache, plan,
                               request->processor_time ? EXEC_PROCESSOR_CLOCK : EXEC_WALL_CLOCK, run->stages,
                               run->error));
    run->machines = exec_own_machines(run->arena, run->stages, &run->machine_count);
    return BASE_OK;
}

/* Everything that can fail before the first step. */
static enum base_status prepare(struct run *run, struct sim_cache *cache, const struct sim_plan *plan)
{
    const struct exec_request *request = run->request;
    struct base_error *error = run->error;
    BASE_TRY(exec_check_plan(plan, error));
    BASE_TRY((plan->pipeline.stages > 1 ? begin_stages : begin_machine)(run, cache, plan));
    BASE_TRY(exec_data_open(run->arena, plan, request->data, request->steps,
                            request->evaluates ? EXEC_HELD_OUT : EXEC_OF_TRAINING, &run->data, error));
    run->first_row = plan->batch_size;
    for (int i = 0; i < run->machine_count; i++) exec_fed_rows(run->machines[i], &run->first_row, &run->end_row);
    return exec_gemm_begin(error);
}

/* The mean over all ranks with the same program. */
static void agree_on_operations(struct exec_machine *m)
{
    if (exec_is_alone(m->transport)) return;
    for (int i = 0; i < m->s->op_count; i += EXEC_MOST_NUMBERS) {
        int count = m->s->op_count - i < EXEC_MOST_NUMBERS ? m->s->op_count - i : EXEC_MOST_NUMBERS;
        exec_sum_numbers(m->transport, m->op_s + i, count);
        for (int j = i; j < i + count; j++) m->op_s[j] /= m->transport->rank_count;
    }
}

/* A step's time is the slowest rank's; its parts are means over ranks. */
static void agree_on_times(struct run *run)
{
    struct exec_result *r = run->result;
    const struct exec_transport *t = run->request->transport;
    double parts[] = {r->contraction_s, r->elementwise_s, r->communication_s, r->exposed_s};
    if (exec_is_alone(t)) return;
    for (int64_t i = 0; i < r->step_count; i++) exec_largest_numbers(t, &r->step_s[i], 1);
    for (int64_t i = 0; i < r->step_count; i++) exec_sum_numbers(t, &r->processor_s[i], 1);
    exec_sum_numbers(t, parts, BASE_COUNT(parts));
    r->contraction_s = parts[0] / t->rank_count, r->elementwise_s = parts[1] / t->rank_count,
    r->communication_s = parts[2] / t->rank_count, r->exposed_s = parts[3] / t->rank_count;
}

static void fill_result(struct run *run, const struct sim_plan *plan)
{
    struct exec_result *result = run->result;
    struct exec_machine **reported = run->machines;
    int count = 1;
    for (int i = 0; i < run->machine_count; i++) agree_on_operations(run->machines[i]);
    if (run->stages) reported = exec_reported_machines(run->arena, run->stages, &count);
    list_operations(run, reported, count);
    divide_by_steps(run);
    agree_on_times(run);
    fill_memory(run, plan, &result->memory);
    result->arena_bytes = result->memory.peak_bytes;
    result->collectives = run->collectives.rows;
    result->collective_count = run->collectives.count;
    if (run->stages) exec_list_passes(run->arena, run->stages, &result->passes);
}

/* Prepares matrix products; returns the names of the kernels. */
static const char *begin_products(struct run *run, const struct sim_plan *plan)
{
    struct exec_machine *m = run->machines[0];
    if (plan->options.dtype == MODEL_BFLOAT16) m->narrow = exec_onednn_begin(run->arena, MODEL_BFLOAT16);
    for (int i = 1; i < run->machine_count; i++) run->machines[i]->narrow = m->narrow;
    const char *wide = exec_gemm_kernel(run->arena);
    if (!m->narrow) return wide;
    return base_print(run->arena, "%s, %s", wide, exec_onednn_kernel(m->narrow));
}

/* If a step or a checkpoint fails, earlier measurements are kept: all ranks fail alike. */
static enum base_status run_and_measure(struct run *run, const struct sim_plan *plan)
{
    struct exec_result *result = run->result;
    int64_t first_step = 0;
    BASE_TRY(begin(run, &first_step));
    if (!run->request->evaluates) result->first_step = first_step; /* held-out batches start at 0 */
    int64_t steps = run->request->steps, count = steps > result->first_step ? steps - result->first_step : 0;
    result->loss = base_new(run->arena, double, count);
    result->gradient_norm = base_new(run->arena, double, count);
    result->step_s = base_new(run->arena, double, count);
    result->processor_s = base_new(run->arena, double, count);
    result->accuracy = base_new(run->arena, double, count);
    result->weight = base_new(run->arena, double, count);
    const char *kernel = begin_products(run, plan);
    exec_meet_hosts(run->arena, run->request, kernel, result);
    exec_flight_check(run->machines[0], run->request->warn);
    enum base_status status = run_steps(run, result->first_step, count);
    exec_onednn_end(run->machines[0]->narrow);
    for (int i = 0; i < run->machine_count; i++) exec_flight_end(run->machines[i]);
    fill_result(run, plan);
    return status;
}

enum base_status exec_run(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                          const struct exec_request *request, struct exec_result *out, struct base_error *error)
{
    struct exec_result result = {.first_step = 0};
    struct run *run = base_new(arena, struct run, 1);
    *run = (struct run){.arena = arena, .request = request, .result = &result, .error = error};
    BASE_TRY(exec_agree(request->transport, prepare(run, cache, plan), error));
    BASE_TRY(exec_home_open(arena, request, &run->home, error));
    run->home.data = run->data.content;
    enum base_status status = run_and_measure(run, plan);
    exec_home_close(&run->home);
    if (status == BASE_OK || result.step_count) *out = result;
    return status;
}
