/* libmeshwright: one door to all rooms, for programs that want answers without starting a process. */
#include "commands/commands.h"
#include "library/meshwright.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"
#include "tuner/tuner.h"

#include <stddef.h>
#include <stdlib.h>

struct meshwright {
    struct base_arena lasting, question; /* kept by the session; needed by one question */
    struct sim_cache *cache;
    jmp_buf exhausted;
    struct base_error error; /* of the last typed question */
};

static const char out_of_memory[] = "{\"exit\":1,\"error\":\"out of memory\"}\n";

struct meshwright *meshwright_open(void)
{
    struct meshwright *volatile session = calloc(1, sizeof(struct meshwright)); /* it outlives a jump */
    if (!session) return NULL;
    session->lasting.exhausted = session->question.exhausted = &session->exhausted;
    if (setjmp(session->exhausted)) {
        meshwright_close(session);
        return NULL;
    }
    session->cache = sim_cache_new(&session->lasting);
    return session;
}

void meshwright_close(struct meshwright *session)
{
    if (!session) return;
    if (session->cache) sim_cache_free(session->cache);
    base_arena_free(&session->question);
    base_arena_free(&session->lasting);
    free(session);
}

int meshwright_ask(struct meshwright *session, int word_count, const char *const *words, const char **answer)
{
    if (setjmp(session->exhausted)) {
        base_output_abandon_all();
        base_arena_reset(&session->question);
        *answer = out_of_memory;
        return BASE_INTERNAL;
    }
    base_arena_reset(&session->question);
    struct base_text text = {.arena = &session->question};
    enum base_status status = commands_answer(session->cache, &session->question, word_count, words, &text);
    *answer = text.data;
    return (int)status;
}

/* ---- typed ---- */

enum { MOST_OTHERS = 4 * SIM_KEY_COUNT };
static const struct {
    enum sim_key key;
    size_t offset;
    bool is_text;
} members[] = {
#define TEXT(key, member)                                                                                              \
    {                                                                                                                  \
        key, offsetof(struct mw_plan, member), true                                                                    \
    }
#define WHOLE(key, member)                                                                                             \
    {                                                                                                                  \
        key, offsetof(struct mw_plan, member), false                                                                   \
    }
    TEXT(SIM_MODEL, model),
    TEXT(SIM_TOPOLOGY, topology),
    TEXT(SIM_SOFTWARE, software),
    TEXT(SIM_RULES, logical_axis_rules),
    TEXT(SIM_OPTIMIZER, optimizer),
    TEXT(SIM_REMAT_POLICY, remat_policy),
    TEXT(SIM_DTYPE, dtype),
    TEXT(SIM_ATTENTION, attention),
    TEXT(SIM_SUBMESH, model_parallel_submesh),
    TEXT(SIM_ICI_MESH, ici_mesh),
    WHOLE(SIM_BATCH_SIZE, batch_size),
    WHOLE(SIM_NUM_MICROBATCHES, num_microbatches),
    WHOLE(SIM_INPUTS_LENGTH, inputs_length),
    WHOLE(SIM_TARGETS_LENGTH, targets_length),
    WHOLE(SIM_NUM_PARTITIONS, num_partitions),
    WHOLE(SIM_PIPELINE_STAGES, pipeline_stages),
    WHOLE(SIM_VIRTUAL_STAGES, virtual_stages),
    WHOLE(SIM_CONTEXT_PARALLEL, context_parallel),
    WHOLE(SIM_EXPERT_PARALLEL, expert_parallel),
#undef TEXT
#undef WHOLE
};

static enum base_status take_plan(struct base_arena *arena, const struct mw_plan *plan, struct sim_plan_text *out,
                                  struct base_error *error)
{
    *out = (struct sim_plan_text){.values = {NULL}};
    for (int i = 0; i < BASE_COUNT(members); i++) {
        const void *member = (const char *)plan + members[i].offset;
        const int64_t whole = members[i].is_text ? 0 : *(const int64_t *)member;
        if (whole) out->values[members[i].key] = base_print(arena, "%lld", (long long)whole);
        if (members[i].is_text) out->values[members[i].key] = *(const char *const *)member;
    }
    if (plan->other_count < 0 || plan->other_count > MOST_OTHERS || (plan->other_count && !plan->others))
        return base_fail(error, BASE_INPUT, "other_count: %lld keys are no list of keys", (long long)plan->other_count);
    for (int64_t i = 0; i < plan->other_count; i++) {
        const struct mw_key *given = &plan->others[i];
        const int key = given->name ? sim_plan_key_named(given->name) : -1;
        if (key < 0)
            return base_fail(error, BASE_INPUT, "others: a plan has no key \"%.60s\"", given->name ? given->name : "");
        out->values[key] = given->value;
    }
    static const enum sim_key needed[] = {SIM_MODEL, SIM_TOPOLOGY, SIM_BATCH_SIZE, SIM_TARGETS_LENGTH};
    for (int i = 0; i < BASE_COUNT(needed); i++)
        if (!sim_key_is_given(out, needed[i]))
            return base_fail(error, BASE_INPUT, "%s: is missing; as in %s", sim_plan_keys[needed[i]].name,
                             sim_plan_keys[needed[i]].example);
    return BASE_OK;
}

/* The same back: keys without a member are among the others. */
static struct mw_plan plan_of(struct base_arena *arena, const struct sim_plan_text *text)
{
    struct mw_plan plan = {.model = NULL};
    struct mw_key *others = base_new(arena, struct mw_key, SIM_KEY_COUNT);
    bool has_member[SIM_KEY_COUNT] = {false};
    for (int i = 0; i < BASE_COUNT(members); i++) {
        const char *value = text->values[members[i].key];
        void *member = (char *)&plan + members[i].offset;
        has_member[members[i].key] = true;
        if (members[i].is_text) *(const char **)member = value;
        else *(int64_t *)member = value ? strtoll(value, NULL, 10) : 0;
    }
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (!has_member[key] && text->values[key])
            others[plan.other_count++] = (struct mw_key){sim_plan_keys[key].name, text->values[key]};
    plan.others = others;
    return plan;
}

static struct mw_prediction prediction_of(const struct sim_prediction *p, const struct sim_confidence *sure)
{
    const struct sim_memory *memory = &p->memory;
    return (struct mw_prediction){.fits_probability_frac = sure->fits_probability_frac,
                                  .step_s = p->step_s,
                                  .step_low_s = sure->step_s.low,
                                  .step_high_s = sure->step_s.high,
                                  .compute_s = p->compute_s,
                                  .memory_bound_s = p->memory_bound_s,
                                  .exposed_communication_s = p->exposed_communication_s,
                                  .overhead_s = p->overhead_s,
                                  .tokens_per_s = p->tokens_per_s,
                                  .mfu_frac = p->mfu_frac,
                                  .capacity_bytes = memory->capacity_bytes,
                                  .peak_bytes = memory->peak_bytes,
                                  .peak_low_bytes = (int64_t)sure->peak_bytes.low,
                                  .peak_high_bytes = (int64_t)sure->peak_bytes.high,
                                  .parameter_bytes = memory->parameter_bytes,
                                  .optimizer_state_bytes = memory->optimizer_state_bytes,
                                  .gradient_bytes = memory->gradient_bytes,
                                  .activation_bytes = memory->activation_bytes,
                                  .temporary_bytes = memory->temporary_bytes,
                                  .reserved_bytes = memory->reserved_bytes,
                                  .fits = p->fits};
}

static enum base_status predict(mw_session *session, const struct sim_plan_text *text, struct mw_prediction *out)
{
    struct base_arena *arena = &session->question;
    struct base_error *error = &session->error;
    struct sim_plan plan;
    enum model_step step;
    struct sim_prediction prediction;
    sim_cache_next_question(session->cache, NULL);
    BASE_TRY(sim_plan_step(text, &step, error));
    BASE_TRY(sim_plan_check(session->cache, arena, text, step, SIM_AS_COMPILED, &plan, error));
    BASE_TRY(sim_predict(session->cache, &plan, &prediction, NULL, error));
    const struct sim_confidence confidence = sim_confidence_of(NULL, &plan, &prediction);
    *out = prediction_of(&prediction, &confidence);
    return prediction.fits ? BASE_OK : BASE_NO_FIT;
}

static int out_of_session_memory(mw_session *session)
{
    base_arena_reset(&session->question);
    return (int)base_fail(&session->error, BASE_INTERNAL, "out of memory");
}

int mw_predict(mw_session *session, const struct mw_plan *plan, struct mw_prediction *out)
{
    struct sim_plan_text text;
    session->error = (struct base_error){0};
    if (setjmp(session->exhausted)) return out_of_session_memory(session);
    base_arena_reset(&session->question);
    const enum base_status status = take_plan(&session->question, plan, &text, &session->error);
    return (int)(status == BASE_OK ? predict(session, &text, out) : status);
}

/* ---- a search ---- */

enum { USUAL_TOP = 5 };

/* The caller's functions, behind the program's own. */
struct told {
    const struct mw_tuning *how;
    mw_session *session;
    const struct commands_context *context;
    struct mw_search *out;
    bool stops;
};

static void tell(void *where, const struct base_progress *said)
{
    struct told *told = where;
    const struct mw_progress progress = {said->what, said->done, said->total, said->best_tokens_per_s, said->gap_frac};
    if (told->how->progress) told->stops = told->how->progress(told->how->where, &progress) || told->stops;
}

static bool stops(void *where)
{
    return ((const struct told *)where)->stops;
}

/* The plan and the settings as `tune` takes them. */
static int words_of(struct base_arena *arena, const struct sim_plan_text *text, const struct mw_tuning *how,
                    const char **words)
{
    const char *const *values = text->values, *inputs = values[SIM_INPUTS_LENGTH],
                      *targets = values[SIM_TARGETS_LENGTH];
    int count = 0;
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const bool is_length = key == SIM_INPUTS_LENGTH || key == SIM_TARGETS_LENGTH;
        if (!values[key] || is_length || !sim_plan_keys[key].option.name) continue;
        words[count++] = sim_plan_keys[key].option.name;
        words[count++] = values[key];
    }
    if (targets) words[count++] = "--task-feature-lengths";
    if (targets) words[count++] = base_print(arena, "%s%s%s", inputs ? inputs : "", inputs ? "," : "", targets);
    words[count++] = "--top";
    words[count++] = base_print(arena, "%lld", (long long)(how->top ? how->top : USUAL_TOP));
    if (how->objective) words[count++] = "--objective", words[count++] = how->objective;
    if (how->headroom_frac > 0)
        words[count++] = "--headroom", words[count++] = base_print(arena, "%.17g%%", 100 * how->headroom_frac);
    return count;
}

/* What a search found, as structs: plans with the defaults that they were predicted with. */
static enum base_status take_found(void *where, const struct tuner_space *space, const struct tuner_result *result,
                                   struct base_error *error)
{
    struct told *told = where;
    mw_session *session = told->session;
    struct base_arena *arena = &session->question;
    struct mw_found *found = base_new(arena, struct mw_found, result->plan_count + 1);
    const int64_t most = told->how->top ? told->how->top : USUAL_TOP;
    int64_t count = 0;
    for (; count < result->plan_count && count < most; count++) {
        struct sim_plan plan;
        const struct sim_prediction *prediction = &result->plans[count].prediction;
        const struct sim_plan_text text = tuner_plan_text(space, result->plans[count].plan);
        BASE_TRY(sim_plan_check(session->cache, arena, &text, space->step, SIM_AS_COMPILED, &plan, error));
        BASE_TRY(commands_refuse_impossible(told->context, &plan, prediction, error));
        const struct sim_confidence confidence = sim_confidence_of(NULL, &plan, prediction);
        const struct sim_plan_text said = reports_plan_said(arena, &text, &plan);
        found[count] = (struct mw_found){plan_of(arena, &said), prediction_of(prediction, &confidence)};
    }
    *told->out = (struct mw_search){.found = found,
                                    .found_count = count,
                                    .space_count = space->plan_count,
                                    .evaluated_count = result->counts.evaluated,
                                    .gap_frac = result->gap_frac,
                                    .proven_optimal = result->proven_optimal};
    return count ? BASE_OK : BASE_NO_FIT;
}

static enum base_status tune(mw_session *session, const struct mw_plan *plan, const struct mw_tuning *how,
                             struct mw_search *out)
{
    struct base_arena *arena = &session->question;
    struct sim_plan_text text;
    struct told told = {.how = how, .session = session, .out = out};
    struct base_text none = {.arena = arena};
    const char *words[2 * SIM_KEY_COUNT + 8];
    struct commands_context context = {.arena = arena,
                                       .cache = session->cache,
                                       .progress = tell,
                                       .progress_where = &told,
                                       .found = take_found,
                                       .found_where = &told,
                                       .stop = stops,
                                       .clock_where = &told};
    told.context = &context;
    BASE_TRY(take_plan(arena, plan, &text, &session->error));
    const int count = words_of(arena, &text, how, words);
    return commands_execute(&context, "tune", count, words, &none, &session->error);
}

int mw_tune(mw_session *session, const struct mw_plan *plan, const struct mw_tuning *how, struct mw_search *out)
{
    static const struct mw_tuning usual = {.top = 0};
    session->error = (struct base_error){0};
    if (setjmp(session->exhausted)) return out_of_session_memory(session);
    base_arena_reset(&session->question);
    return (int)tune(session, plan, how ? how : &usual, out);
}

const char *mw_message(const mw_session *session)
{
    return session->error.text;
}

int mw_abi_version(void)
{
    return MW_ABI_VERSION;
}

const char *meshwright_version(void)
{
    return MESHWRIGHT_VERSION;
}

int meshwright_api_version(void)
{
    return MESHWRIGHT_API_VERSION;
}
