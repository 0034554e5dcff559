/* The scope of CUDA graphs, in Megatron-LM's terms: an implementation (local, transformer_engine), modules of a layer,
 * or the whole iteration. */
#include "sim/plan/plan_parts.h"

#include <string.h>

static const struct word {
    const char *name;
    unsigned holds;
} words[] = {
    {"none", 0},
    {"full_iteration", SIM_GRAPHED_STEP},
    {"attn", SIM_GRAPHED_ATTENTION},
    {"mlp", SIM_GRAPHED_MLP},
    {"moe", SIM_GRAPHED_EXPERTS | SIM_GRAPHED_ROUTER},
    {"moe_router", SIM_GRAPHED_ROUTER},
    {"moe_preprocess", 0}, /* included in the router, whose kernels precede it */
};

static const struct word *named(const char *at, size_t length)
{
    for (int i = 0; i < BASE_COUNT(words); i++)
        if (strlen(words[i].name) == length && !memcmp(words[i].name, at, length)) return &words[i];
    return NULL;
}

static const char *behind_implementation(const char *text)
{
    static const char *const names[] = {"local:", "transformer_engine:"};
    for (int i = 0; i < BASE_COUNT(names); i++)
        if (!strncmp(text, names[i], strlen(names[i]))) return text + strlen(names[i]);
    return text;
}

enum base_status sim_plan_read_graphs(struct base_arena *arena, const char *text, struct sim_plan *plan,
                                      struct base_error *error)
{
    static const char *const between = " ,+";
    plan->cuda_graphs = 0;
    plan->cuda_graphs_text = text && *text ? base_copy(arena, text) : "none";
    for (const char *at = behind_implementation(plan->cuda_graphs_text); *(at += strspn(at, between));) {
        const size_t length = strcspn(at, between);
        const struct word *word = named(at, length);
        if (!word)
            return base_fail(error, BASE_INPUT,
                             "cuda_graphs: %.*s is no module of Megatron-LM; use none, full_iteration, or some of "
                             "attn, mlp, moe, moe_router, moe_preprocess",
                             (int)(length < 40 ? length : 40), at);
        plan->cuda_graphs |= word->holds;
        at += length;
    }
    if (!plan->cuda_graphs || plan->placement->profile.traits >> MODEL_TRAIT_ENGINE_CASTS & 1) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "cuda_graphs: is modelled of software megatron, software_version Megatron-Bridge; leave it out");
}
