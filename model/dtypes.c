/* Names and sizes of dtypes. */
#include "model/model.h"

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
    [MODEL_FLOAT32] = {"float32", 4}, [MODEL_BFLOAT16] = {"bfloat16", 2}, [MODEL_FLOAT16] = {"float16", 2},
    [MODEL_FP8] = {"fp8", 1},         [MODEL_INT32] = {"int32", 4},       [MODEL_BOOL] = {"bool", 1},
    [MODEL_INT8] = {"int8", 1},       [MODEL_UINT32] = {"uint32", 4},     [MODEL_MXFP8] = {"mxfp8", 1},
    [MODEL_NVFP4] = {"nvfp4", 1}, /* two elements per byte, and scales; only operands are stored in it */
};

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
