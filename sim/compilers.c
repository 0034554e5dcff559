/* Which compiler a plan means: XLA:TPU of a date, or a version of libtpu, the library that holds it. */
#include "sim/plan_keys.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* In the order of their dates. libtpu 0.0.40 is of April 2026; memory as compiled is read off the dumps of 0.0.42.1. */
static const struct compiler {
    const char *since, *libtpu;
    bool lays_out;   /* sim_compiled_memory is its memory; else liveness in program order is */
    unsigned passes; /* bits of enum sim_pass that it runs beside those of the software's date */
    unsigned gone;   /* Passes of the software that this compiler does not run. */
} compilers[] = {{"2019-06", NULL, false, 0, 0},
                 {"2024-05", NULL, false, 1u << SIM_PASS_SPREAD_THROUGH_UPDATES, 0},
                 {"2026-06", "0.0.42", true,
                  1u << SIM_PASS_SPREAD_THROUGH_UPDATES | 1u << SIM_PASS_MERGE_GATHERS | 1u << SIM_PASS_REGROUP_SUMS |
                      1u << SIM_PASS_REASSOCIATE_ALL_REDUCE | 1u << SIM_PASS_SUM_BEHIND_LAYERS |
                      1u << SIM_PASS_NARROW_ALL_REDUCES | 1u << SIM_PASS_HOIST_LONE_ALL_REDUCE |
                      1u << SIM_PASS_SCATTER_WHOLE_TILES | 1u << SIM_PASS_NARROW_GATHERS |
                      1u << SIM_PASS_MOVE_BROADCASTS,
                  1u << SIM_PASS_HOIST_GRADIENT_ALL_REDUCE | 1u << SIM_PASS_KEEP_SUM_DTYPE}};

const char *sim_compiler_since(enum sim_pass pass)
{
    for (int i = 0; i < BASE_COUNT(compilers); i++)
        if (compilers[i].passes >> pass & 1) return compilers[i].since;
    return NULL;
}

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

/* Nobody knows a compiler of a year after that of the newest one here; a date later in its year means that one. */
static bool is_unknown_future(const char *text)
{
    return is_date(text) && atoi(text) > atoi(compilers[BASE_COUNT(compilers) - 1].since);
}

static const struct compiler *compiler_named(const char *text)
{
    const struct compiler *found = NULL;
    for (int i = 0; i < BASE_COUNT(compilers); i++) {
        const struct compiler *c = &compilers[i];
        size_t length = c->libtpu ? strlen(c->libtpu) : 0;
        bool version = length && !strncmp(text, c->libtpu, length) && (!text[length] || text[length] == '.');
        if (version || !strcmp(text, "today") || (is_date(text) && strcmp(c->since, text) <= 0)) found = c;
    }
    return found;
}

enum base_status sim_plan_read_compiler(struct sim_plan *plan, struct base_error *error)
{
    bool tpu = plan->placement->topology.kind == TOPO_TPU;
    const struct compiler *today = &compilers[BASE_COUNT(compilers) - 1];
    plan->compiled = tpu && plan->memory_kind == SIM_COMPILED;
    if (plan->compiled) plan->compiler_passes = today->passes, plan->gone_passes = today->gone;
    if (!plan->compiler || !*plan->compiler) return BASE_OK;
    const struct compiler *found = compiler_named(plan->compiler);
    if (is_unknown_future(plan->compiler))
        return base_fail(
            error, BASE_INPUT,
            "compiler: %s is after the newest one that is known, of %s (libtpu %s); use today for that one",
            plan->compiler, today->since, today->libtpu);
    if (!found)
        return base_fail(error, BASE_INPUT,
                         "compiler: \"%s\" is not known; use today, a date from 2019-06 on or libtpu %s",
                         plan->compiler, today->libtpu);
    if (!tpu && found->lays_out)
        return base_fail(error, BASE_INPUT, "compiler: %s is a compiler for TPUs, and %s has none; leave it out",
                         plan->compiler, plan->topology_text);
    plan->compiled = tpu && found->lays_out;
    plan->compiler_passes = tpu ? found->passes : 0;
    plan->gone_passes = tpu ? found->gone : 0;
    return BASE_OK;
}
