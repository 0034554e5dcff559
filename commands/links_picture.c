/* The links of a plan's torus by what a whole step puts on them: all collectives, each along the rings that it is
 * priced by. */
#include "commands/plot_documents.h"
#include "sim/predict/predict.h"

static enum base_status check(struct commands_context *context, const char *path, struct sim_plan *plan,
                              struct base_error *error)
{
    struct sim_plan_text text = {{0}};
    enum model_step step;
    BASE_TRY(commands_read_plan(context, path, &text, error));
    enum base_status status = sim_plan_step(&text, &step, error);
    if (status == BASE_OK)
        status = sim_plan_check(context->cache, context->arena, &text, step, SIM_AS_COMPILED, plan, error);
    if (status != BASE_OK) return base_fail_in(error, "%s", path);
    const struct topo_topology *topology = &plan->placement->topology;
    if (!topo_has_torus(topology) || topology->slice_count > 1)
        return base_fail(error, BASE_INPUT, "%s: links are drawn of one torus, and %s is none; use predict --trace",
                         path, topology->name);
    return BASE_OK;
}

static const char *sum_up(struct base_arena *arena, const struct sim_plan *plan, const struct sim_prediction *p,
                          const struct sim_step_links *links, const struct sim_alike *busiest)
{
    char bytes[BASE_HUMANE], step[BASE_HUMANE];
    return base_print(arena, "%s, mesh %s, a step of %s; the busiest is %s, with %s. Each link by its busier direction",
                      plan->topology_text, topo_axes_describe(arena, &p->mesh), base_format_seconds(step, p->step_s),
                      topo_link_words(arena, &links->network.links, busiest->link),
                      base_format_bytes(bytes, links->step_bytes[busiest->link]));
}

enum base_status commands_draw_links(struct commands_context *context, const char *path, enum plots_format format,
                                     struct plots_picture *out, struct base_error *error)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct sim_timeline timeline = {0};
    struct sim_detail detail = {.timeline = &timeline, .arena = context->arena};
    struct sim_step_links links;
    struct sim_alike *alike;
    BASE_TRY(check(context, path, &plan, error));
    BASE_TRY(sim_predict(context->cache, &plan, &prediction, &detail, error));
    enum base_status status = sim_step_links_find(context->arena, &plan, &timeline, &links, error);
    if (status != BASE_OK) return base_fail_in(error, "%s", path);
    const struct topo_topology *topology = &plan.placement->topology;
    if (sim_links_alike(context->arena, &links, SIM_LINKS_TOGETHER, &alike) == 0)
        return base_fail(error, BASE_INPUT, "%s: a step sends nothing over a link; use a plan of several devices",
                         path);
    const struct plots_topology request = {
        .topology = topology,
        .mesh = &links.mesh,
        .busy_frac = sim_link_shares(context->arena, &links.network, links.step_bytes, prediction.step_s),
        .title = base_print(context->arena, "A step keeps its busiest link busy %.0f %% of the time",
                            100 * alike->busy_s / prediction.step_s),
        .subtitle = sum_up(context->arena, &plan, &prediction, &links, alike)};
    return plots_topology_draw(context->arena, &request, format, out, error);
}
