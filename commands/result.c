/* Reads the executor's answer. */
#include "commands/result.h"
#include "exec/exec.h"

#include <string.h>

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
        struct sim_collective_row *row = &(*out)[count++];
        base_json_read_fields(item, exec_collective_fields, EXEC_COLLECTIVE_FIELD_COUNT, row);
        row->first_op = first && first->string ? first->string : "";
    }
    return count;
}

static enum base_status read_timeline(struct base_arena *arena, const struct base_json *document,
                                      struct sim_timeline *out)
{
    const struct base_json *list = base_json_get(document, "timeline");
    out->entries = base_new(arena, struct sim_entry, list ? list->count : 0);
    out->count = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
        const struct base_json *name = base_json_get(item, "name");
        struct sim_entry *entry = &out->entries[out->count++];
        base_json_read_fields(item, exec_entry_fields, EXEC_ENTRY_FIELD_COUNT, entry);
        entry->name = name && name->string ? name->string : "";
    }
    return BASE_OK;
}

static void read_passes(struct base_arena *arena, const struct base_json *document, struct sim_passes *out)
{
    int64_t count, ends, stages;
    *out = (struct sim_passes){.start_s = numbers(arena, document, "pass_start_s", &count)};
    out->end_s = numbers(arena, document, "pass_end_s", &ends);
    const double *bytes = numbers(arena, document, "stage_bytes", &stages);
    int64_t *whole = base_new(arena, int64_t, stages);
    for (int64_t i = 0; i < stages; i++) whole[i] = (int64_t)bytes[i];
    out->count = ends == count ? (int)count : 0;
    out->stage_bytes = whole, out->stage_count = (int)stages;
}

enum base_status commands_read_result(struct base_arena *arena, const struct base_text *answer, int rank_count,
                                      enum commands_run_of of, struct commands_result *out, struct base_error *error)
{
    const struct base_json *document;
    if (base_json_parse(arena, answer->data ? answer->data : "", answer->length, &document, error) != BASE_OK)
        return base_fail(error, BASE_RUN, "meshwright-rank: did not answer with a result");
    const struct base_json *failure = base_json_get(document, "error");
    *out = (struct commands_result){.contraction_s = base_json_number(document, "contraction_s"),
                                    .elementwise_s = base_json_number(document, "elementwise_s"),
                                    .communication_s = base_json_number(document, "communication_s"),
                                    .exposed_s = base_json_number(document, "exposed_s")};
    out->steps.hosts = base_json_get(document, "hosts");
    out->steps.stopped = base_json_number(document, "stopped") != 0;
    out->steps.failure = failure ? failure->string : NULL;
    out->steps.rank_count = rank_count;
    out->steps.first_step = (int64_t)base_json_number(document, "first_step");
    out->steps.loss = numbers(arena, document, "loss", &out->steps.step_count);
    out->steps.gradient_norm = numbers(arena, document, "gradient_norm", &out->steps.step_count);
    out->steps.step_s = numbers(arena, document, "step_s", &out->steps.step_count);
    out->steps.processor_s = numbers(arena, document, "processor_s", &out->steps.step_count);
    if (of == COMMANDS_RUN_EVALUATES) {
        out->steps.accuracy = numbers(arena, document, "accuracy", &out->steps.step_count);
        out->steps.weight = numbers(arena, document, "weight", &out->steps.step_count);
    }
    out->row_count = read_collectives(arena, document, &out->rows);
    base_json_read_fields(base_json_get(document, "memory"), sim_memory_fields, SIM_MEMORY_FIELD_COUNT, &out->memory);
    read_passes(arena, document, &out->passes);
    return read_timeline(arena, document, &out->timeline);
}

/* Measurements in the form of a prediction; the model's FLOPs are the prediction's. */
void commands_result_prediction(const struct commands_result *result, const struct sim_plan *plan,
                                const struct sim_prediction *predicted, struct sim_prediction *out)
{
    const struct reports_measured *m = &result->steps;
    *out = *predicted;
    out->step_s = 0;
    for (int64_t i = 0; i < m->step_count; i++) out->step_s += m->step_s[i] / (double)m->step_count;
    out->compute_s = result->contraction_s;
    out->memory_bound_s = result->elementwise_s;
    out->communication_s = result->communication_s;
    out->exposed_communication_s = result->exposed_s;
    double rest_s = out->step_s - out->compute_s - out->memory_bound_s - out->exposed_communication_s;
    out->overhead_s = rest_s > 0 ? rest_s : 0;
    out->samples_per_s = out->step_s > 0 ? (double)plan->batch_size / out->step_s : 0;
    out->tokens_per_s = out->samples_per_s * (double)plan->targets_length;
    out->tokens_per_s_per_device = out->tokens_per_s / (double)plan->placement->topology.device_count;
    out->mfu_frac = out->step_s > 0 ? predicted->mfu_frac * predicted->step_s / out->step_s : 0;
    const char *peak_at = predicted->memory.peak_at;
    out->memory = result->memory;
    snprintf(out->memory.peak_at, sizeof out->memory.peak_at, "%s", peak_at);
}
