/* A plan in a line or two of words, which distinguish saved answers. */
#include "reports/reports.h"

#include <stdlib.h>
#include <string.h>

/* Keys shown first and always; others follow if they are not at their default. */
static bool is_told(enum sim_key key)
{
    static const enum sim_key told[] = {SIM_MODEL,         SIM_TOPOLOGY,       SIM_BATCH_SIZE,  SIM_NUM_MICROBATCHES,
                                        SIM_INPUTS_LENGTH, SIM_TARGETS_LENGTH, SIM_SUBMESH,     SIM_NUM_PARTITIONS,
                                        SIM_ICI_MESH,      SIM_DCN_MESH,       SIM_RULES,       SIM_OPTIMIZER,
                                        SIM_DTYPE,         SIM_REMAT_POLICY,   SIM_MEMORY_KIND, SIM_SEED,
                                        SIM_LEARNING_RATE, SIM_DECODE_FN,      SIM_STEP,        SIM_PARAMETER_DTYPE};
    for (int i = 0; i < BASE_COUNT(told); i++)
        if (told[i] == key) return true;
    return false;
}

static void put_mesh(const struct sim_plan_text *plan, struct base_text *out)
{
    static const struct {
        enum sim_key key;
        const char *before;
    } ways[] = {{SIM_ICI_MESH, "mesh"}, {SIM_SUBMESH, "submesh"}, {SIM_NUM_PARTITIONS, "partitions"}};
    for (int i = 0; i < BASE_COUNT(ways); i++) {
        if (!sim_key_is_given(plan, ways[i].key)) continue;
        base_putf(out, ", %s %s", ways[i].before, plan->values[ways[i].key]);
        break;
    }
    if (sim_key_is_given(plan, SIM_DCN_MESH)) base_putf(out, " over slices %s", plan->values[SIM_DCN_MESH]);
}

/* dtypes of parameters and activations, and the sampling of tokens. */
static void put_decoding(const struct sim_plan *plan, const char *dtype, struct base_text *out)
{
    const char *parameters = model_dtype_name(plan->options.parameter_dtype);
    base_putf(out, ", %s", dtype);
    if (strcmp(parameters, dtype) != 0) base_putf(out, " with %s parameters", parameters);
    if (plan->options.step == MODEL_STEP_GENERATE)
        base_put(out, plan->decoding.function == MODEL_BEAM_SEARCH ? ", beam_search" : ", temperature_sample");
}

const char *reports_plan_words(struct base_arena *arena, const struct sim_plan *checked)
{
    const struct sim_plan_text plan = sim_plan_filled(arena, checked);
    const char *const *v = plan.values;
    struct base_text out = {.arena = arena};
    const bool infers = model_infers(checked->options.step);
    if (infers) base_putf(&out, "%s, ", reports_step_name(checked->options.step));
    base_putf(&out, "batch %s", v[SIM_BATCH_SIZE]);
    if (v[SIM_NUM_MICROBATCHES] && atoi(v[SIM_NUM_MICROBATCHES]) > 1)
        base_putf(&out, " in %s microbatches", v[SIM_NUM_MICROBATCHES]);
    if (sim_key_is_given(&plan, SIM_INPUTS_LENGTH))
        base_putf(&out, ", lengths %s and %s", v[SIM_INPUTS_LENGTH], v[SIM_TARGETS_LENGTH]);
    else base_putf(&out, ", length %s", v[SIM_TARGETS_LENGTH]);
    put_mesh(&plan, &out);
    base_putf(&out, ", rules %s", reports_rule_words(arena, v[SIM_RULES]));
    if (infers) put_decoding(checked, v[SIM_DTYPE], &out);
    else base_putf(&out, ", %s, %s, remat %s", v[SIM_OPTIMIZER], v[SIM_DTYPE], v[SIM_REMAT_POLICY]);
    bool local = checked->placement->topology.kind == TOPO_LOCAL;
    for (int k = 0; k < SIM_KEY_COUNT; k++) {
        const char *usual =
            sim_key_fallback((enum sim_key)k, (struct sim_key_setting){checked->config->scan_layers, local, NULL});
        if (is_told((enum sim_key)k) || !sim_key_is_given(&plan, (enum sim_key)k) || (usual && !strcmp(v[k], usual)))
            continue;
        base_putf(&out, ", %s %.80s", sim_plan_keys[k].name, v[k]);
    }
    return out.data;
}

const char *reports_assumed_words(struct base_arena *arena, const struct sim_plan_text *given,
                                  const struct sim_plan *checked)
{
    struct base_text out = {.arena = arena};
    const struct sim_plan_text filled = sim_plan_filled(arena, checked);
    for (int k = 0; k < SIM_KEY_COUNT; k++)
        if (sim_is_assumed(given, (enum sim_key)k) && sim_key_is_given(&filled, (enum sim_key)k))
            base_putf(&out, "%s%s %s", out.length ? ", " : "", sim_plan_keys[k].option.name, filled.values[k]);
    return out.length ? out.data : NULL;
}

void reports_put_assumed(struct base_arena *arena, const struct sim_plan_text *given, const struct sim_plan *checked,
                         struct base_json_writer *w)
{
    const struct sim_plan_text filled = sim_plan_filled(arena, checked);
    struct sim_plan_text assumed = {{0}};
    bool any = false;
    for (int k = 0; k < SIM_KEY_COUNT; k++)
        if (sim_is_assumed(given, (enum sim_key)k)) assumed.values[k] = filled.values[k], any = true;
    if (!any) return;
    sim_plan_put_member(w, "assumed", &assumed);
}

const char *reports_compiler_words(struct base_arena *arena, const struct sim_plan *plan)
{
    const bool is_date = plan->compiler && strspn(plan->compiler, "0123456789-") == strlen(plan->compiler);
    if (plan->placement->topology.kind != TOPO_TPU) return NULL;
    if (!plan->compiler_since) return base_print(arena, "XLA:TPU of %s", plan->placement->profile.software_date);
    if (is_date && *plan->compiler && !plan->compiled) return base_print(arena, "XLA:TPU of %s", plan->compiler);
    return base_print(arena, "XLA:TPU of %s%s%s%s", plan->compiler_since, *plan->compiler_libtpu ? " (libtpu " : "",
                      plan->compiler_libtpu, *plan->compiler_libtpu ? ")" : "");
}

/* ---- of several plans ---- */

static const enum sim_key always_said[] = {SIM_RULES, SIM_OPTIMIZER, SIM_DTYPE, SIM_REMAT_POLICY};

void reports_put_shared(const struct sim_plan_text *shared, struct base_text *out)
{
    const char *between = "all with ";
    for (int k = 0; k < SIM_KEY_COUNT; k++) {
        const char *usual = sim_plan_keys[k].fallback;
        bool said = false;
        for (int i = 0; i < BASE_COUNT(always_said); i++) said = said || always_said[i] == (enum sim_key)k;
        if (k == SIM_MODEL || k == SIM_TOPOLOGY || !sim_key_is_given(shared, (enum sim_key)k)) continue;
        if (usual && !strcmp(shared->values[k], usual) && !said) continue;
        base_putf(out, "%s%s %s", between, sim_plan_keys[k].name,
                  k == SIM_RULES ? reports_rule_words(out->arena, shared->values[k]) : shared->values[k]);
        between = ", ";
    }
    base_put(out, *between == ',' ? "\n" : "");
}

struct sim_plan_text reports_plan_said(struct base_arena *arena, const struct sim_plan_text *given,
                                       const struct sim_plan *checked)
{
    const struct sim_plan_text filled = sim_plan_filled(arena, checked);
    struct sim_plan_text said = *given;
    for (int i = 0; i < BASE_COUNT(always_said); i++) said.values[always_said[i]] = filled.values[always_said[i]];
    return said;
}

struct sim_plan_text reports_said_filled(struct sim_plan_text plan)
{
    static const enum sim_key filled[] = {SIM_OPTIMIZER, SIM_DTYPE, SIM_ATTENTION};
    const char *topology = plan.values[SIM_TOPOLOGY];
    const struct sim_key_setting setting = {.is_local = topology && !strncmp(topology, "local", strlen("local")),
                                            .software = plan.values[SIM_SOFTWARE]};
    for (int i = 0; i < BASE_COUNT(filled); i++)
        if (!sim_key_is_given(&plan, filled[i])) plan.values[filled[i]] = sim_key_fallback(filled[i], setting);
    return plan;
}

const char *reports_step_name(enum model_step step)
{
    static const char *const names[] = {
        [MODEL_STEP_TRAIN] = "train",       [MODEL_STEP_GRADIENT] = "gradient", [MODEL_STEP_FORWARD] = "forward",
        [MODEL_STEP_EVALUATE] = "evaluate", [MODEL_STEP_ENCODE] = "encode",     [MODEL_STEP_PREFILL] = "prefill",
        [MODEL_STEP_DECODE] = "decode",     [MODEL_STEP_GENERATE] = "generate", [MODEL_STEP_SCORE] = "score"};
    return names[step];
}
