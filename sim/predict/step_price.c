/* The price of one program at a plan's sizes: the time of its step, then the peak bytes of a device. */
#include "sim/predict/step_price.h"

#include <string.h>

static void begin_detail(struct sim_detail *detail, const struct sim_program *program)
{
    if (!detail) return;
    detail->collectives.count = 0;
    if (detail->peak) detail->peak->count = 0;
    if (detail->spans) detail->spans->count = 0;
    if (!detail->timeline) return;
    detail->timeline->entries = base_new(detail->arena, struct sim_entry, program->prices.step_count + 1);
    detail->timeline->count = 0;
}

static void take_time(const struct sim_cost_context *p, struct sim_priced *out)
{
    *out = (struct sim_priced){.communication_s = p->totals_s[SIM_BY_COMMUNICATION],
                               .needed_flop = p->needed_flop,
                               .masked_flop = p->masked_flop,
                               .work_flop = p->work_flop,
                               .work_bytes = p->work_bytes};
    memcpy(out->time_s, p->totals_s, sizeof out->time_s);
    out->time_s[SIM_BY_COMMUNICATION] = p->exposed_s;
    out->host_bytes = sim_offloaded_bytes(p) / (double)p->sizes[MODEL_MICROBATCHES] + sim_on_host_bytes(p);
}

enum base_status sim_price_step(struct sim_cache *cache, const struct sim_plan *plan,
                                const struct sim_recomputed *recomputed, struct sim_cost_context *p,
                                struct sim_detail *detail, struct sim_priced *out, struct base_error *error)
{
    const bool lays_out = sim_is_executed(plan) || sim_uses_compiled_memory(plan) || (detail && detail->peak);
    const struct sim_program *program;
    BASE_TRY(sim_program_find(cache, plan, recomputed->remat, recomputed->dropped_roles,
                              lays_out ? SIM_WHOLE_PROGRAM : SIM_PRICES_ALONE, &program, error));
    BASE_TRY(sim_cost_context_begin(p, plan, &program->prices, error));
    p->dropped_roles = recomputed->dropped_roles;
    p->by_peak_priority = recomputed->by_peak_priority;
    begin_detail(detail, program);
    sim_price_time(p, detail);
    take_time(p, out);
    sim_price_peak(cache, program, p, detail, out);
    return sim_price_device(p, out, error);
}
