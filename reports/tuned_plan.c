/* One plan of a search in words: its mesh, its rules, and other searched values. */
#include "reports/tuned.h"

#include <string.h>

/* ---- plans ---- */

static bool varies(const struct tuner_space *space, enum tuner_dimension d)
{
    return space->values[d].count > 1;
}

const char *reports_tuned_value(const struct tuner_space *space, const struct sim_plan_text *text,
                                enum tuner_dimension d)
{
    enum sim_key key = d == TUNER_SUBMESH ? space->mesh_key : tuner_key(d);
    return text->values[key] ? text->values[key] : "";
}

static struct tuner_shape shape_of(const struct tuner_space *space, struct tuner_plan plan)
{
    return space->shapes[space->groups[plan.group].shape];
}

/* ---- text ---- */

static void put_varying(const struct reports_tuned *r, struct tuner_plan plan, struct base_text *out)
{
    struct sim_plan_text text = tuner_plan_text(r->space, plan);
    for (int d = 0; d < TUNER_SUBMESH; d++)
        if (varies(r->space, (enum tuner_dimension)d))
            base_putf(out, ", %s %s", sim_plan_keys[tuner_key((enum tuner_dimension)d)].name,
                      reports_tuned_value(r->space, &text, (enum tuner_dimension)d));
}

void reports_tuned_put_plan(const struct reports_tuned *r, const struct tuner_found *found, struct base_text *out)
{
    struct sim_plan_text text = tuner_plan_text(r->space, found->plan);
    struct tuner_shape shape = shape_of(r->space, found->plan);
    const char *mesh = topo_axes_describe(r->arena, &shape.axes),
               *microbatches = reports_tuned_value(r->space, &text, TUNER_MICROBATCHES);
    if (r->space->mesh_key == SIM_ICI_MESH) base_putf(out, "mesh %s", mesh);
    else
        base_putf(out, "%s %s (%s)",
                  r->space->mesh_key == SIM_SUBMESH ? "submesh" : sim_plan_keys[r->space->mesh_key].name,
                  reports_tuned_value(r->space, &text, TUNER_SUBMESH), mesh);
    base_putf(out, ", rules %s, %s microbatch%s",
              reports_rule_words(r->arena, reports_tuned_value(r->space, &text, TUNER_RULES)), microbatches,
              strcmp(microbatches, "1") ? "es" : "");
    put_varying(r, found->plan, out);
    int64_t remade = found->prediction.memory.rematerialized_layer_count;
    if (remade > 0)
        base_putf(out, ", if the compiler recomputes %lld of %lld layers", (long long)remade,
                  (long long)r->space->layer_count);
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
