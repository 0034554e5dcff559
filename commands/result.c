/* What the executor answers, read back. */
#include "commands/result.h"

#include <string.h>

static double number(const struct base_json *document, const char *key)
{
    const struct base_json *value = document ? base_json_get(document, key) : NULL;
    return value && value->kind == BASE_JSON_NUMBER ? value->number : 0;
}

static const double *numbers(struct base_arena *arena, const struct base_json *document, const char *key,
                             int64_t *count)
{
    const struct base_json *list = base_json_get(document, key);
    *count = list ? list->count : 0;
    double *values = base_new(arena, double, *count);
    int64_t at = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) values[at++] = item->number;
    return values;
}

static int read_collectives(struct base_arena *arena, const struct base_json *document, struct sim_collective_row **out)
{
    const struct base_json *list = base_json_get(document, "collectives");
    int count = 0;
    *out = base_new(arena, struct sim_collective_row, list ? list->count : 0);
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
        const struct base_json *first = base_json_get(item, "first_op");
        (*out)[count++] = (struct sim_collective_row){.kind = (enum sim_collective)number(item, "kind"),
                                                      .axes = (unsigned)number(item, "axes"),
                                                      .dtype = (enum model_dtype)number(item, "dtype"),
                                                      .count = (int64_t)number(item, "count"),
                                                      .bytes = (int64_t)number(item, "bytes"),
                                                      .time_s = number(item, "time_s"),
                                                      .first_op = first && first->string ? first->string : ""};
    }
    return count;
}

static void read_memory(const struct base_json *document, struct sim_memory *out)
{
    const struct base_json *m = base_json_get(document, "memory");
    *out = (struct sim_memory){.capacity_bytes = (int64_t)number(m, "capacity_bytes"),
                               .peak_bytes = (int64_t)number(m, "peak_bytes"),
                               .parameter_bytes = (int64_t)number(m, "parameter_bytes"),
                               .optimizer_state_bytes = (int64_t)number(m, "optimizer_state_bytes"),
                               .gradient_bytes = (int64_t)number(m, "gradient_bytes"),
                               .activation_bytes = (int64_t)number(m, "activation_bytes"),
                               .temporary_bytes = (int64_t)number(m, "temporary_bytes")};
}

static enum base_status read_timeline(struct base_arena *arena, const struct base_json *document,
                                      struct sim_timeline *out)
{
    const struct base_json *list = base_json_get(document, "timeline");
    out->entries = base_new(arena, struct sim_entry, list ? list->count : 0);
    out->count = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
        const struct base_json *name = base_json_get(item, "name");
        out->entries[out->count++] = (struct sim_entry){.name = name && name->string ? name->string : "",
                                                        .phase = (enum model_phase)number(item, "phase"),
                                                        .bound = (enum sim_bound)number(item, "bound"),
                                                        .count = (int64_t)number(item, "count"),
                                                        .time_s = number(item, "time_s")};
    }
    return BASE_OK;
}

enum base_status commands_read_result(struct base_arena *arena, const struct base_text *answer, int rank_count,
                                      bool evaluates, struct commands_result *out, struct base_error *error)
{
    const struct base_json *document;
    if (base_json_parse(arena, answer->data ? answer->data : "", answer->length, &document, error) != BASE_OK)
        return base_fail(error, BASE_RUN, "meshwright-rank: did not answer with a result");
    const struct base_json *failure = base_json_get(document, "error");
    *out = (struct commands_result){.contraction_s = number(document, "contraction_s"),
                                    .elementwise_s = number(document, "elementwise_s"),
                                    .communication_s = number(document, "communication_s")};
    out->steps.stopped = number(document, "stopped") != 0;
    out->steps.failure = failure ? failure->string : NULL;
    out->steps.rank_count = rank_count;
    out->steps.first_step = (int64_t)number(document, "first_step");
    out->steps.loss = numbers(arena, document, "loss", &out->steps.step_count);
    out->steps.gradient_norm = numbers(arena, document, "gradient_norm", &out->steps.step_count);
    out->steps.step_s = numbers(arena, document, "step_s", &out->steps.step_count);
    if (evaluates) {
        out->steps.accuracy = numbers(arena, document, "accuracy", &out->steps.step_count);
        out->steps.weight = numbers(arena, document, "weight", &out->steps.step_count);
    }
    out->row_count = read_collectives(arena, document, &out->rows);
    read_memory(document, &out->memory);
    return read_timeline(arena, document, &out->timeline);
}

/* What was measured, in the form of a prediction; the FLOP that the model needs are the prediction's. */
void commands_result_prediction(const struct commands_result *result, const struct sim_plan *plan,
                                const struct sim_prediction *predicted, struct sim_prediction *out)
{
    const struct reports_measured *m = &result->steps;
    *out = *predicted;
    out->step_s = 0;
    for (int64_t i = 0; i < m->step_count; i++) out->step_s += m->step_s[i] / (double)m->step_count;
    out->compute_s = result->contraction_s;
    out->memory_bound_s = result->elementwise_s;
    out->exposed_communication_s = out->communication_s = result->communication_s;
    double rest_s = out->step_s - out->compute_s - out->memory_bound_s - out->communication_s;
    out->overhead_s = rest_s > 0 ? rest_s : 0;
    out->samples_per_s = out->step_s > 0 ? (double)plan->batch_size / out->step_s : 0;
    out->tokens_per_s = out->samples_per_s * (double)plan->targets_length;
    out->tokens_per_s_per_device = out->tokens_per_s / (double)plan->placement->topology.device_count;
    out->mfu_frac = out->step_s > 0 ? predicted->mfu_frac * predicted->step_s / out->step_s : 0;
    const char *peak_at = predicted->memory.peak_at;
    out->memory = result->memory;
    snprintf(out->memory.peak_at, sizeof out->memory.peak_at, "%s", peak_at);
}
