/* Scaling recipes of fp8 operands, and the software that uses each. */
#include "sim/plan/plan_parts.h"

#include <string.h>

/* NVIDIA/TransformerEngine docs/features/low_precision_training; pytorch/torchtitan docs/float8.md. */
static const struct {
    const char *name, *software;
} recipes[] = {[SIM_FP8_DELAYED] = {"delayed", "megatron"},
               [SIM_FP8_CURRENT] = {"current", "megatron"},
               [SIM_FP8_BLOCKWISE] = {"blockwise", "megatron"},
               [SIM_FP8_TENSORWISE] = {"tensorwise", "torchtitan"},
               [SIM_FP8_ROWWISE] = {"rowwise", "torchtitan"}};

enum base_status sim_plan_check_recipe(const struct sim_plan *plan, struct base_error *error)
{
    const enum sim_fp8_recipe recipe = plan->fp8_recipe;
    if (recipe == SIM_FP8_AS_SOFTWARE) return BASE_OK;
    if (plan->options.dtype != MODEL_FP8)
        return base_fail(error, BASE_INPUT, "fp8_recipe: requires dtype fp8; use it, or leave fp8_recipe out");
    if (!strcmp(plan->software, recipes[recipe].software)) return BASE_OK;
    return base_fail(error, BASE_INPUT, "fp8_recipe: %s is %s's, and %s has %s; leave it out", recipes[recipe].name,
                     recipes[recipe].software, plan->software,
                     !strcmp(plan->software, "torchtitan") ? "tensorwise and rowwise"
                     : !strcmp(plan->software, "megatron") ? "delayed, current and blockwise"
                                                           : "none");
}
