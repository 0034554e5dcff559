/* One plan of a search in words: its mesh and rules, or its stages, and other searched values. */
#include "reports/tuned.h"

#include <string.h>

static const char *value_of(const struct sim_plan_text *text, enum sim_key key)
{
    return text->values[key] ? text->values[key] : "";
}

/* "16 stages of 3 chunks, num_microbatches 96, remat_policy selective" */
static void put_staged(const struct reports_tuned *r, const struct sim_plan_text *text, struct base_text *out)
{
    const char *chunks = value_of(text, SIM_VIRTUAL_STAGES), *stages = value_of(text, SIM_PIPELINE_STAGES);
    base_putf(out, "%s stage%s", stages, strcmp(stages, "1") ? "s" : "");
    if (*chunks && strcmp(chunks, "1") != 0) base_putf(out, " of %s chunks", chunks);
    for (int d = r->space->dimension_count - 1; d >= 0; d--) {
        const enum sim_key key = r->space->keys[d];
        const bool said = key == SIM_PIPELINE_STAGES || key == SIM_VIRTUAL_STAGES;
        if (!said && text->values[key] && r->space->values[d].count > 1)
            base_putf(out, ", %s %s", sim_plan_keys[key].name, text->values[key]);
    }
    if (text->values[SIM_PIPELINE_LAYERS])
        base_putf(out, ", %s %s", sim_plan_keys[SIM_PIPELINE_LAYERS].name, text->values[SIM_PIPELINE_LAYERS]);
}

static void put_varying(const struct reports_tuned *r, const struct sim_plan_text *text, struct base_text *out)
{
    for (int d = 0; d < TUNER_SUBMESH; d++)
        if (r->space->values[d].count > 1)
            base_putf(out, ", %s %s", sim_plan_keys[r->space->keys[d]].name, value_of(text, r->space->keys[d]));
}

void reports_tuned_put_plan(const struct reports_tuned *r, const struct tuner_found *found, struct base_text *out)
{
    const struct tuner_space *space = r->space;
    const struct sim_plan_text text = tuner_plan_text(space, found->plan);
    if (space->stages) {
        put_staged(r, &text, out);
        return;
    }
    const char *mesh = topo_axes_describe(r->arena, &space->shapes[space->groups[found->plan.group].shape].axes),
               *microbatches = value_of(&text, SIM_NUM_MICROBATCHES);
    if (space->mesh_key == SIM_ICI_MESH) base_putf(out, "mesh %s", mesh);
    else
        base_putf(out, "%s %s (%s)", space->mesh_key == SIM_SUBMESH ? "submesh" : sim_plan_keys[space->mesh_key].name,
                  value_of(&text, space->mesh_key), mesh);
    base_putf(out, ", rules %s", reports_rule_words(r->arena, value_of(&text, SIM_RULES)));
    if (!model_infers(space->step))
        base_putf(out, ", %s microbatch%s", microbatches, strcmp(microbatches, "1") ? "es" : "");
    put_varying(r, &text, out);
    int64_t remade = found->prediction.memory.rematerialized_layer_count;
    if (remade > 0)
        base_putf(out, ", if the compiler recomputes %lld of %lld layers", (long long)remade,
                  (long long)space->layer_count);
}

const char *reports_tuned_words(const struct reports_tuned *r, const struct tuner_found *found)
{
    struct base_text words = {.arena = r->arena};
    reports_tuned_put_plan(r, found, &words);
    return words.data;
}

void reports_put_found(struct base_arena *arena, const struct tuner_space *space, const struct tuner_found *found,
                       struct base_text *out)
{
    reports_tuned_put_plan(&(struct reports_tuned){.arena = arena, .space = space}, found, out);
}

const char *reports_tuned_axes_name(const struct reports_tuned *r, unsigned axes)
{
    return topo_axes_spell(r->arena, &r->plans[0].prediction->mesh, axes);
}
