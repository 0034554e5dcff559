/* Names and properties of what tables enumerate: functions of programs, dtypes, logical axes, traits of software. A
 * function's gradient is a row of backward.c, its kernel a row of exec/row_kernels.c. */
#include "model/model.h"

static const struct {
    const char *name;
    unsigned properties; /* bits of enum model_property */
} functions[] = {MODEL_FUNCTION_ROWS};

const char *model_function_name(enum model_function function)
{
    return functions[function].name;
}

bool model_function_is(enum model_function function, enum model_property property)
{
    return functions[function].properties & (unsigned)property;
}

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {MODEL_DTYPE_ROWS};

int64_t model_dtype_bytes(enum model_dtype dtype)
{
    return dtypes[dtype].bytes;
}

bool model_dtype_is_small_float(enum model_dtype dtype)
{
    return dtype == MODEL_FP8 || dtype == MODEL_MXFP8 || dtype == MODEL_NVFP4;
}

bool model_dtype_is_quantized(enum model_dtype dtype)
{
    return dtype == MODEL_INT8 || model_dtype_is_small_float(dtype);
}

const char *model_dtype_name(enum model_dtype dtype)
{
    return dtypes[dtype].name;
}

const char *model_axis_name(enum model_axis axis)
{
    static const char *const names[] = {MODEL_AXIS_NAMES};
    return axis ? names[axis] : NULL;
}

_Static_assert(MODEL_TRAIT_COUNT <= 8 * sizeof(model_trait_set), "sets of traits need a wider type");

const char *model_trait_name(enum model_trait trait)
{
    static const char *const names[] = {MODEL_TRAIT_NAMES};
    return names[trait];
}
