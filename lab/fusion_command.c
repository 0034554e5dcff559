/* `fusion`: cycles of a fused kernel without products, by the TPU compiler's cost model. */
#include "lab/lab.h"
#include "sim/predict/predict.h"

#include <math.h>

static enum base_status read_arrays(struct commands_context *context, const struct base_arguments *arguments,
                                    const char *option, struct lab_compiled_arrays *out, struct base_error *error)
{
    const char *text = base_argument(arguments, option);
    if (!text) return base_fail(error, BASE_USAGE, "%s is missing: as in %s 'float32[1024,4096]'", option, option);
    if (lab_compiled_arrays_parse(context->arena, text, out, error) == BASE_OK) return BASE_OK;
    return base_fail_in(error, "%s", option);
}

static void put_json(const struct lab_compiler_cycles *cycles, enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    base_json_open(&w, '{');
    base_json_member_int(&w, "cycles", llround(cycles->cycles));
    base_json_member_double(&w, "time_s", cycles->time_s);
    base_json_close(&w, '}');
}

enum base_status lab_fusion_run(struct commands_context *context, const struct base_arguments *arguments,
                                struct base_text *out, struct base_error *error)
{
    struct lab_compiled_fusion *fusion = base_new(context->arena, struct lab_compiled_fusion, 1);
    const char *chip = base_argument(arguments, "--chip");
    struct lab_compiler_cycles cycles;
    if (!chip) return base_fail(error, BASE_USAGE, "--chip is missing: as in --chip v4");
    BASE_TRY(read_arrays(context, arguments, "--operands", &fusion->operands, error));
    BASE_TRY(read_arrays(context, arguments, "--results", &fusion->results, error));
    fusion->is_alone = base_argument(arguments, "--alone") != NULL;
    fusion->is_summing = base_argument(arguments, "--sums-rows") != NULL;
    if (fusion->is_alone && fusion->is_summing)
        return base_fail(error, BASE_USAGE, "--alone is for one operation, --sums-rows for several that were fused");
    BASE_TRY(lab_compiler_fusion(chip, fusion, &cycles, error));
    if (context->json) put_json(&cycles, context->layout, out);
    else
        base_putf(out, "%.0f cycles (%s) by the TPU compiler's cost model\n", cycles.cycles,
                  base_seconds(cycles.time_s));
    return BASE_OK;
}
