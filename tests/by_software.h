/* Plans that are of the compiler of their software's date where they name none: tests of what that one does. */
#ifndef TESTS_BY_SOFTWARE_H
#define TESTS_BY_SOFTWARE_H

#include "sim/program/program.h"

static inline enum base_status check_by_software(struct sim_cache *cache, struct base_arena *arena,
                                                 const struct sim_plan_text *text, enum model_step step,
                                                 enum sim_form form, struct sim_plan *out, struct base_error *error)
{
    struct sim_plan_text dated = *text;
    const bool said = sim_key_is_given(text, SIM_COMPILER) || sim_key_is_given(text, SIM_MEMORY_MODEL) ||
                      sim_key_is_given(text, SIM_MEMORY_KIND);
    const char *topology = text->values[SIM_TOPOLOGY];
    if (!said && topology && (*topology == 'v' || *topology == 't')) dated.values[SIM_COMPILER] = "software";
    return sim_plan_check(cache, arena, &dated, step, form, out, error);
}

#endif
