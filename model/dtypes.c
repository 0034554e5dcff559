/* Names and sizes of dtypes. */
#include "model/model.h"

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
