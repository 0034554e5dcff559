/* Questions for tests of the search: random small spaces, and given ones. */
#ifndef RANDOM_SPACE_H
#define RANDOM_SPACE_H

#include "tests/test.h"
#include "tuner/bounds.h"
#include "tuner/tuner.h"

static const char *const models[] = {
    "encoder_decoder:emb_dim=256,num_heads=8,head_dim=32,mlp_dim=1024,num_encoder_layers=2,num_decoder_layers=3,vocab_"
    "size=512,mlp_activations=gelu+linear,logits_via_embedding=0",
    "encoder_decoder:emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=16384,num_encoder_layers=12,num_decoder_layers=12,"
    "vocab_size=32128",
    "decoder_only:emb_dim=8192,num_heads=64,num_kv_heads=8,head_dim=128,mlp_dim=28672,num_layers=16,vocab_size=32128,"
    "mlp_activations=silu+linear,logits_via_embedding=0",
    "decoder_only:emb_dim=512,num_heads=4,head_dim=64,mlp_dim=2048,num_layers=2,vocab_size=1024,parallel_block=1",
    "scalable_decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=6,vocab_size=4096,logits_via_"
    "embedding=1",
    "t5_1_1_xl"};
static const char *const topologies[] = {"v4:2x2x1", "v4:2x2x4",     "v3-32",   "v5e-16",   "v5p:2x2x4",
                                         "h100:2x4", "a100-80g:1x4", "local:4", "v4:4x4x4", "v2-8"};
static const char *const batches[] = {"12", "16", "24", "32", "48", "64"};
static const char *const optimizers[] = {"adafactor", "adamw", "sgd"};
static const char *const lengths[] = {"64", "256", "1024"};

/* A small random space. It may turn out to be empty, or to hold nothing that fits. */
static inline struct tuner_request random_request(struct base_arena *arena, struct base_random *random)
{
    struct tuner_request request;
    memset(&request, 0, sizeof request);
    const char **values = request.plan.values, **batch = base_new(arena, const char *, 1);
    values[SIM_MODEL] = PICK(random, models);
    values[SIM_TOPOLOGY] = PICK(random, topologies);
    values[SIM_OPTIMIZER] = PICK(random, optimizers);
    values[SIM_INPUTS_LENGTH] = PICK(random, lengths);
    values[SIM_TARGETS_LENGTH] = PICK(random, lengths);
    batch[0] = PICK(random, batches);
    request.given[TUNER_BATCH] = (struct tuner_values){batch, 1};
    request.beyond_t5x = base_random_below(random, 3) == 0;
    TEST_ROW("%s on %s, batch %s, %s, lengths %s and %s%s", values[SIM_MODEL], values[SIM_TOPOLOGY], batch[0],
             values[SIM_OPTIMIZER], values[SIM_INPUTS_LENGTH], values[SIM_TARGETS_LENGTH],
             request.beyond_t5x ? ", beyond T5X" : "");
    return request;
}

static inline struct tuner_request request_of(struct base_arena *arena, const char *model, const char *topology,
                                              const char *batch, const char *inputs_length, const char *targets_length)
{
    struct tuner_request request;
    memset(&request, 0, sizeof request);
    const char **batches_given = base_new(arena, const char *, 1);
    batches_given[0] = batch;
    request.plan.values[SIM_MODEL] = model;
    request.plan.values[SIM_TOPOLOGY] = topology;
    request.plan.values[SIM_INPUTS_LENGTH] = inputs_length;
    request.plan.values[SIM_TARGETS_LENGTH] = targets_length;
    request.given[TUNER_BATCH] = (struct tuner_values){batches_given, 1};
    return request;
}

static inline struct tuner_values given(struct base_arena *arena, int count, ...)
{
    struct tuner_values values = {base_new(arena, const char *, count), count};
    va_list list;
    va_start(list, count);
    for (int i = 0; i < count; i++) values.values[i] = va_arg(list, const char *);
    va_end(list);
    return values;
}

typedef void visit_plan(void *where, const struct tuner_space *space, struct tuner_plan plan,
                        const struct sim_prediction *prediction);

static inline void predict_all(const struct tuner_space *space, visit_plan *visit, void *where)
{
    struct base_error error;
    for (int g = 0; g < space->group_count; g++)
        for (int s = 0; s < tuner_group_submesh_count(space, g); s++)
            for (int m = 0; m < tuner_group_microbatch_count(space, g); m++) {
                struct sim_prediction prediction;
                struct tuner_plan plan = {g, s, m, 0};
                assert_ok(tuner_predict(space, plan, &prediction, NULL, &error), &error);
                visit(where, space, plan, &prediction);
            }
}

/* A policy whose place is kept in mind: of equals that which offloads least, then the smaller. */
struct ranked_policy {
    double step_s;
    int64_t host_bytes, peak_bytes;
    const char *policy;
    struct tuner_plan plan;
};

/* The best policy of one plan of the space, mlpwo aside, which nothing reads again; step_s INFINITY: none fits. */
static inline struct ranked_policy best_policy(struct base_arena *arena, const struct tuner_space *space,
                                               struct tuner_plan plan, double headroom_frac)
{
    struct ranked_policy best = {.step_s = (double)INFINITY, .plan = plan};
    const unsigned input = 1u << MODEL_SAVED_LAYER_INPUT, names = space->saved.names & ~(1u << MODEL_SAVED_WO);
    int64_t count = 2;
    for (unsigned rest = names; rest; rest &= rest - 1) count *= 3;
    for (int64_t i = 0; i < count; i++) {
        struct base_error error;
        struct sim_plan checked;
        struct sim_prediction p;
        struct sim_plan_text text = tuner_plan_text(space, plan);
        struct model_saved policy = {i & 1 ? input : 0, i & 1 ? 0 : input, 0};
        int64_t left = i / 2;
        for (unsigned rest = names; rest; rest &= rest - 1, left /= 3) {
            if (left % 3 == 1) policy.device |= rest & -rest;
            if (left % 3 == 2) policy.host |= rest & -rest;
        }
        text.values[SIM_REMAT_POLICY] = model_saved_text(arena, &policy);
        assert_ok(sim_plan_check(space->cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &checked, &error),
                  &error);
        assert_ok(sim_predict(space->cache, &checked, &p, NULL, &error), &error);
        const struct sim_memory *m = &p.memory;
        bool first =
            p.step_s < best.step_s ||
            (p.step_s == best.step_s &&
             (m->host_bytes < best.host_bytes ||
              (m->host_bytes == best.host_bytes &&
               (m->peak_bytes < best.peak_bytes ||
                (m->peak_bytes == best.peak_bytes && strcmp(text.values[SIM_REMAT_POLICY], best.policy) < 0)))));
        if (!sim_leaves_free(&p, headroom_frac) || !first) continue;
        best = (struct ranked_policy){p.step_s, m->host_bytes, m->peak_bytes, text.values[SIM_REMAT_POLICY], plan};
    }
    return best;
}

/* A plan of a space with what bounds of it go by. */
struct bounded_plan {
    struct sim_plan checked;
    struct tuner_ruled ruled;
    const struct tuner_relaxed_program *relaxed;
};
static inline void begin_bound(struct base_arena *arena, const struct tuner_space *space, struct tuner_plan plan,
                               struct bounded_plan *out)
{
    struct base_error error;
    struct sim_plan *checked = &out->checked;
    struct sim_plan_text text = tuner_plan_text(space, plan);
    assert_ok(sim_plan_check(space->cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, checked, &error), &error);
    assert_ok(tuner_relaxed_program_build(arena, space->cache, checked,
                                          checked->num_microbatches > 1 ? TUNER_IN_MICROBATCHES : TUNER_WHOLE_BATCH,
                                          &out->relaxed, &error),
              &error);
    assert_ok(tuner_rule_classes(out->relaxed, checked->rules, checked, &out->ruled, &error), &error);
}

/* The bound of a plan on its own links: step and train state. */
static inline struct tuner_bound bound_of_plan(struct base_arena *arena, const struct tuner_space *space,
                                               struct tuner_plan plan, bool links)
{
    struct bounded_plan b;
    begin_bound(arena, space, plan, &b);
    return tuner_bound_of(b.relaxed, &b.ruled, b.checked.placement, b.checked.batch_size, b.checked.num_microbatches,
                          links);
}

/* The same of its time, with what propagation makes of its rules. */
static inline double propagated_bound_of_plan(struct base_arena *arena, const struct tuner_space *space,
                                              struct tuner_plan plan, bool links)
{
    struct base_error error;
    struct bounded_plan b;
    double step_s;
    begin_bound(arena, space, plan, &b);
    assert_ok(tuner_propagated_s(space->cache, b.relaxed, &b.ruled, b.checked.placement, &b.checked,
                                 b.checked.batch_size, b.checked.num_microbatches, links, INFINITY, &step_s, &error),
              &error);
    return step_s;
}

#endif
