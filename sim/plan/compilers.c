/* Which compiler a plan means: XLA:TPU of a date, or a version of libtpu, the library that holds it. */
#include "sim/plan/plan_keys.h"
#include "sim/plan/plan_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_date(const char *text)
{
    static const char pattern[] = "0000-00-00";
    size_t length = strlen(text);
    if (length != 4 && length != 7 && length != 10) return false;
    for (size_t i = 0; i < length; i++)
        if (pattern[i] == '0' ? !isdigit((unsigned char)text[i]) : text[i] != pattern[i]) return false;
    const int month = length > 4 ? atoi(text + 5) : 1, day = length > 7 ? atoi(text + 8) : 1;
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

const char *sim_plan_software_date(const struct sim_plan *plan)
{
    const char *said[] = {plan->software_version, plan->compiler};
    for (int i = 0; i < BASE_COUNT(said); i++)
        if (said[i] && is_date(said[i])) return said[i];
    return NULL;
}

/* Nobody knows a compiler of a year after that of the newest one here; a date later in its year means that one. */
static bool is_unknown_future(const char *text, const struct sim_release *newest)
{
    return is_date(text) && atoi(text) > atoi(newest->since);
}

static void run_by(struct sim_plan *plan, const struct sim_release *release)
{
    plan->compiled = release->lays_out;
    plan->compiler_passes = release->passes, plan->gone_passes = release->gone;
}

enum base_status sim_plan_read_compiler(struct sim_plan *plan, struct base_error *error)
{
    const bool tpu = plan->placement->topology.kind == TOPO_TPU, is_given = plan->compiler && *plan->compiler;
    struct sim_release today, found;
    plan->compiled = tpu && plan->memory_kind == SIM_COMPILED;
    if (!plan->compiled && !is_given) return BASE_OK;
    BASE_TRY(sim_release_find("today", SIM_RELEASE_BY_LIBTPU, &today, error));
    if (plan->compiled) run_by(plan, &today);
    if (!is_given) return BASE_OK;
    BASE_TRY(sim_release_find(plan->compiler, is_date(plan->compiler) ? SIM_RELEASE_BY_DATE : SIM_RELEASE_BY_LIBTPU,
                              &found, error));
    if (is_unknown_future(plan->compiler, &today))
        return base_fail(
            error, BASE_INPUT,
            "compiler: %s is after the newest one that is known, of %s (libtpu %s); use today for that one",
            plan->compiler, today.since, today.libtpu);
    if (!found.since)
        return base_fail(error, BASE_INPUT,
                         "compiler: \"%s\" is not known; use today, a date from 2019-06 on or libtpu %s",
                         plan->compiler, today.libtpu);
    if (!tpu && found.lays_out)
        return base_fail(error, BASE_INPUT, "compiler: %s is a compiler for TPUs, and %s has none; leave it out",
                         plan->compiler, plan->topology_text);
    run_by(plan, tpu ? &found : &(struct sim_release){.since = NULL});
    return BASE_OK;
}
