/* The compiler of a plan: XLA:TPU of a date, or of a libtpu version. */
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
    plan->compiled = release->lays_out && plan->memory_model != SIM_MODEL_LIVENESS;
    plan->compiler_passes = release->passes, plan->gone_passes = release->gone;
    plan->compiler_since = release->since, plan->compiler_libtpu = release->libtpu;
}

static enum base_status check_model(struct sim_plan *plan, bool tpu, struct base_error *error)
{
    const bool old_word = plan->memory_kind == SIM_KIND_COMPILED;
    if (old_word && plan->memory_model == SIM_MODEL_LIVENESS)
        return base_fail(error, BASE_INPUT,
                         "memory_kind: compiled is the old word for memory_model compiled, which contradicts "
                         "memory_model liveness; leave one out");
    if (old_word) plan->memory_model = SIM_MODEL_COMPILED;
    if (tpu || plan->memory_model != SIM_MODEL_COMPILED) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "memory_model: compiled requires XLA:TPU, and %s has another compiler; use liveness",
                     plan->topology_text);
}

static enum base_status find_release(const struct sim_plan *plan, bool tpu, struct sim_release *out,
                                     struct base_error *error)
{
    struct sim_release newest;
    BASE_TRY(sim_release_find("latest", SIM_RELEASE_BY_LIBTPU, &newest, error));
    BASE_TRY(sim_release_find(plan->compiler, is_date(plan->compiler) ? SIM_RELEASE_BY_DATE : SIM_RELEASE_BY_LIBTPU,
                              out, error));
    if (is_unknown_future(plan->compiler, &newest))
        return base_fail(
            error, BASE_INPUT,
            "compiler: %s is later than the newest known release, of %s (libtpu %s); use latest for that one",
            plan->compiler, newest.since, newest.libtpu);
    if (!out->since)
        return base_fail(
            error, BASE_INPUT,
            "compiler: \"%s\" is unknown; use latest, software (as of its date), a date from 2019-06 on or libtpu %s",
            plan->compiler, newest.libtpu);
    if (!tpu && out->lays_out)
        return base_fail(error, BASE_INPUT, "compiler: %s is a compiler for TPUs, which %s does not use; leave it out",
                         plan->compiler, plan->topology_text);
    return BASE_OK;
}

enum base_status sim_plan_read_compiler(struct sim_plan *plan, struct base_error *error)
{
    const bool tpu = plan->placement->topology.kind == TOPO_TPU, is_given = *plan->compiler;
    const bool trains = plan->options.step == MODEL_STEP_TRAIN || plan->options.step == MODEL_STEP_GRADIENT;
    struct sim_release release;
    BASE_TRY(check_model(plan, tpu, error));
    const bool by_software = !strcmp(plan->compiler, "software");
    if (by_software && plan->memory_model == SIM_MODEL_COMPILED)
        return base_fail(error, BASE_INPUT,
                         "memory_model: compiled is available for the newest compiler alone, not for software; leave "
                         "compiler out, or use liveness");
    if (by_software) return BASE_OK;
    if (is_given) BASE_TRY(find_release(plan, tpu, &release, error));
    else if (tpu && (trains || plan->memory_model == SIM_MODEL_COMPILED))
        BASE_TRY(sim_release_find("latest", SIM_RELEASE_BY_LIBTPU, &release, error));
    else return BASE_OK;
    if (plan->memory_model == SIM_MODEL_COMPILED && !release.lays_out)
        return base_fail(error, BASE_INPUT,
                         "memory_model: compiled is available for the newest compiler alone, not for %s; leave "
                         "compiler out, or use liveness",
                         plan->compiler);
    /* On GPUs, too, XLA propagates shardings if the compiler's date is given. */
    const bool propagates = plan->placement->profile.passes >> SIM_PASS_PROPAGATE_SHARDINGS & 1;
    if (tpu) run_by(plan, &release);
    else if (plan->placement->topology.kind == TOPO_GPU && propagates) plan->compiler_passes = release.passes;
    return BASE_OK;
}
