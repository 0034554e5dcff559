/* The executor's requests as JSON: the command line writes them and meshwright-rank reads them, with one table per
 * request. In a separate file because the command line uses nothing else of the executor. */
#include "exec/exec.h"

#include <stddef.h>

enum { MOST_COUNT = 1 << 30 };

enum kind { NEEDED_COUNT, COUNT /* absent: 0 */, FLAG, TEXT };

struct member {
    const char *key;
    enum kind kind;
    size_t offset;
};

#define OF_RUN(name) offsetof(struct exec_request, name)
#define OF_INFERENCE(name) offsetof(struct exec_infer_request, name)

static const struct member run_members[] = {
    {"steps", NEEDED_COUNT, OF_RUN(steps)},
    {"checkpoint_every", COUNT, OF_RUN(checkpoint_every)},
    {"keep", COUNT, OF_RUN(keep)},
    {"evaluates", FLAG, OF_RUN(evaluates)},
    {"data", TEXT, OF_RUN(data)},
    {"restore", TEXT, OF_RUN(restore)},
    {"checkpoint", TEXT, OF_RUN(checkpoint)},
    {"allow_changed", TEXT, OF_RUN(allow_changed)},
    {"owner", TEXT, OF_RUN(owner)},
};
static const struct member infer_members[] = {
    {"data", TEXT, OF_INFERENCE(data)},
    {"restore", TEXT, OF_INFERENCE(restore)},
    {"arrays", TEXT, OF_INFERENCE(arrays)},
    {"first_batch", COUNT, OF_INFERENCE(first_batch)},
    {"batch_limit", COUNT, OF_INFERENCE(batch_limit)},
    {"chunks", TEXT, OF_INFERENCE(chunks)},
    {"identity", TEXT, OF_INFERENCE(identity)},
    {"chunk_batches", COUNT, OF_INFERENCE(chunk_batches)},
};

/* ---- writing ---- */

static void put_text(struct base_json_writer *w, const char *key, const char *text)
{
    if (text) base_json_member_string(w, key, text);
}

static void put_members(struct base_json_writer *w, const struct member *members, int count, const void *request)
{
    for (int i = 0; i < count; i++) {
        const void *at = (const char *)request + members[i].offset;
        switch (members[i].kind) {
        case NEEDED_COUNT:
        case COUNT: base_json_member_int(w, members[i].key, *(const int64_t *)at); break;
        case FLAG: base_json_member_int(w, members[i].key, *(const bool *)at); break;
        case TEXT: put_text(w, members[i].key, *(const char *const *)at); break;
        }
    }
}

void exec_put_request(struct base_json_writer *w, const struct exec_request *request)
{
    put_members(w, run_members, BASE_COUNT(run_members), request);
}

void exec_put_infer_request(struct base_json_writer *w, const struct exec_infer_request *request)
{
    put_members(w, infer_members, BASE_COUNT(infer_members), request);
}

const char *exec_chunk_path(struct base_arena *arena, const char *directory, int64_t chunk)
{
    return base_print(arena, "%s/chunk-%05lld.json", directory, (long long)chunk);
}

void exec_put_plan(struct base_json_writer *w, const struct sim_plan_text *plan, const struct base_json *profile)
{
    base_json_member_open(w, "plan", '{');
    for (int i = 0; i < SIM_KEY_COUNT; i++) put_text(w, sim_plan_keys[i].name, plan->values[i]);
    base_json_close(w, '}');
    if (!profile) return;
    base_json_member_value(w, "profile", profile);
}

/* ---- reading ---- */

static enum base_status read_text(const struct base_json *document, const char *key, const char **out,
                                  struct base_error *error)
{
    const struct base_json *value = base_json_get(document, key);
    *out = NULL;
    if (!value || value->kind == BASE_JSON_NULL) return BASE_OK;
    if (value->kind != BASE_JSON_STRING)
        return base_fail(error, BASE_INPUT, "%s: is %s; a string is needed", key, base_json_kind_name(value->kind));
    *out = value->string;
    return BASE_OK;
}

static enum base_status read_member(const struct base_json *document, const struct member *member, void *at,
                                    struct base_error *error)
{
    const struct base_json *value = base_json_get(document, member->key);
    int64_t count = 0;
    if (member->kind == TEXT) return read_text(document, member->key, at, error);
    if (!value && member->kind == NEEDED_COUNT) return base_fail(error, BASE_INPUT, "%s: is missing", member->key);
    if (value) BASE_TRY(base_json_int(value, member->key, 0, MOST_COUNT, &count, error));
    if (member->kind == FLAG) *(bool *)at = count != 0;
    else *(int64_t *)at = count;
    return BASE_OK;
}

static enum base_status read_members(const struct base_json *document, const struct member *members, int count,
                                     void *request, struct base_error *error)
{
    for (int i = 0; i < count; i++)
        BASE_TRY(read_member(document, &members[i], (char *)request + members[i].offset, error));
    return BASE_OK;
}

enum base_status exec_read_request(const struct base_json *document, struct exec_request *out, struct base_error *error)
{
    return read_members(document, run_members, BASE_COUNT(run_members), out, error);
}

enum base_status exec_read_infer_request(const struct base_json *document, struct exec_infer_request *out,
                                         struct base_error *error)
{
    return read_members(document, infer_members, BASE_COUNT(infer_members), out, error);
}

enum base_status exec_read_plan(const struct base_json *document, struct sim_plan_text *out, struct base_error *error)
{
    const struct base_json *plan = base_json_get(document, "plan");
    if (!plan) return base_fail(error, BASE_INPUT, "plan: is missing");
    for (int i = 0; i < SIM_KEY_COUNT; i++) BASE_TRY(read_text(plan, sim_plan_keys[i].name, &out->values[i], error));
    return BASE_OK;
}
