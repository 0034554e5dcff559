/* A run as JSON documents: the protocol between the command line and the executor, two programs. */
#include "exec/checkpoint.h"
#include "exec/infer_answer.h"
#include "exec/ranks.h"

#include <string.h>

/* Reads a plan as text by key, exactly as the command line read it. */
static enum base_status read_plan(struct base_arena *arena, struct sim_cache *cache, const struct base_json *document,
                                  enum model_step step, struct sim_plan *out, struct base_error *error)
{
    struct sim_plan_text *text = base_new(arena, struct sim_plan_text, 1);
    BASE_TRY(exec_read_plan(document, text, error));
    return sim_plan_check(cache, arena, text, step, SIM_AS_EXECUTED, out, error);
}

static void put_memory(struct base_json_writer *w, const struct sim_memory *m)
{
    base_json_member_open(w, "memory", '{');
    base_json_put_fields(w, sim_memory_fields, SIM_MEMORY_FIELD_COUNT, m);
    base_json_close(w, '}');
}

static void put_hosts(struct base_json_writer *w, const struct exec_result *r)
{
    base_json_member_open(w, "hosts", '[');
    for (int i = 0; i < r->host_count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "host", r->hosts[i].name);
        base_json_member_string(w, "kernel", r->hosts[i].kernel);
        base_json_member_int(w, "rank_count", r->hosts[i].rank_count);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_timeline(struct base_json_writer *w, const struct sim_timeline *timeline)
{
    base_json_member_open(w, "timeline", '[');
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "name", e->name);
        base_json_put_fields(w, exec_entry_fields, EXEC_ENTRY_FIELD_COUNT, e);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

/* In timetable order; both programs build the same timetable. */
static void put_passes(struct base_json_writer *w, const struct sim_passes *passes)
{
    if (!passes->count) return;
    base_json_member_doubles(w, "pass_start_s", passes->start_s, passes->count);
    base_json_member_doubles(w, "pass_end_s", passes->end_s, passes->count);
    base_json_member_int64s(w, "stage_bytes", passes->stage_bytes, passes->stage_count);
}

static void put_result(const struct exec_result *r, const char *failure, struct base_text *out)
{
    struct base_json_writer w = {.text = out};
    base_json_open(&w, '{');
    if (failure) base_json_member_string(&w, "error", failure);
    base_json_member_int(&w, "first_step", r->first_step);
    base_json_member_int(&w, "stopped", r->stopped);
    base_json_member_doubles(&w, "loss", r->loss, r->step_count);
    base_json_member_doubles(&w, "gradient_norm", r->gradient_norm, r->step_count);
    base_json_member_doubles(&w, "accuracy", r->accuracy, r->step_count);
    base_json_member_doubles(&w, "weight", r->weight, r->step_count);
    base_json_member_doubles(&w, "step_s", r->step_s, r->step_count);
    base_json_member_doubles(&w, "processor_s", r->processor_s, r->step_count);
    base_json_member_double(&w, "contraction_s", r->contraction_s);
    base_json_member_double(&w, "elementwise_s", r->elementwise_s);
    base_json_member_double(&w, "communication_s", r->communication_s);
    base_json_member_double(&w, "exposed_s", r->exposed_s);
    put_hosts(&w, r);
    put_memory(&w, &r->memory);
    exec_put_collectives(&w, r->collectives, r->collective_count, EXEC_WITHOUT_REGIONS);
    put_timeline(&w, &r->timeline);
    put_passes(&w, &r->passes);
    base_json_close(&w, '}');
}

/* "infer": scores targets if requested, otherwise decodes. */
static enum base_status infer(struct base_arena *arena, struct sim_cache *cache, const struct exec_request *way,
                              const struct base_json *document, struct base_text *out, struct base_error *error)
{
    struct exec_infer_request request = {.transport = way->transport,
                                         .stop = way->stop,
                                         .warn = way->warn,
                                         .ready = way->ready,
                                         .progress = way->progress};
    struct exec_infer_result result;
    struct sim_plan plan;
    const struct base_json *mode = base_json_get(document, "infer");
    if (mode->kind != BASE_JSON_STRING)
        return base_fail(error, BASE_INPUT, "infer: is %s; a string is needed", base_json_kind_name(mode->kind));
    BASE_TRY(exec_read_infer_request(document, &request, error));
    sim_cache_override(cache, base_json_get(document, "profile"));
    BASE_TRY(read_plan(arena, cache, document, !strcmp(mode->string, "score") ? MODEL_STEP_SCORE : MODEL_STEP_GENERATE,
                       &plan, error));
    if (request.chunks) {
        const enum base_status status = exec_infer_chunks(arena, cache, &plan, &request, error);
        if (status == BASE_OK || status == BASE_STOPPED) base_put(out, "{}");
        return status;
    }
    BASE_TRY(exec_infer(arena, cache, &plan, &request, &result, error));
    exec_put_infer_result(&(struct base_json_writer){.text = out}, &result);
    return result.stopped ? BASE_STOPPED : BASE_OK;
}

static enum base_status answer(struct base_arena *arena, struct sim_cache *cache, const struct exec_request *way,
                               const char *text, size_t length, struct base_text *out, struct base_error *error)
{
    const struct base_json *document;
    struct exec_request request = *way;
    struct exec_result result = {.step_count = 0};
    struct sim_plan plan;
    BASE_TRY(base_json_parse(arena, text, length, &document, error));
    const struct base_json *verified = base_json_get(document, "verify_checkpoint");
    if (verified && verified->kind == BASE_JSON_STRING)
        return exec_verify_checkpoint(arena, verified->string, out, error);
    if (base_json_get(document, "infer")) return infer(arena, cache, way, document, out, error);
    BASE_TRY(exec_read_request(document, &request, error));
    sim_cache_override(cache, base_json_get(document, "profile"));
    BASE_TRY(
        read_plan(arena, cache, document, request.evaluates ? MODEL_STEP_EVALUATE : MODEL_STEP_TRAIN, &plan, error));
    enum base_status status = exec_run(arena, cache, &plan, &request, &result, error);
    if (status == BASE_OK || result.step_count) put_result(&result, status == BASE_OK ? NULL : error->text, out);
    return status == BASE_OK && result.stopped ? BASE_STOPPED : status;
}

/* Rank 0 has the request; the others receive it. */
static void share_request(struct base_arena *arena, const struct exec_transport *transport, const char **text,
                          size_t *length)
{
    int64_t bytes = (int64_t)*length;
    if (exec_is_alone(transport)) return;
    exec_broadcast(transport, &bytes, sizeof bytes);
    char *copy = base_alloc(arena, (size_t)bytes + 1, 1);
    if (transport->rank == 0) memcpy(copy, *text, (size_t)bytes);
    exec_broadcast(transport, copy, bytes);
    *text = copy;
    *length = (size_t)bytes;
}

enum base_status exec_answer(struct base_arena *arena, const struct exec_request *way, const char *text, size_t length,
                             struct base_text *out, struct base_error *error)
{
    struct sim_cache *cache = sim_cache_new(arena);
    share_request(arena, way->transport, &text, &length);
    enum base_status status = answer(arena, cache, way, text, length, out, error);
    sim_cache_free(cache);
    return status;
}
