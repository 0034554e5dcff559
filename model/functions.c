/* One table of all functions of programs: name and properties. A function's gradient is a row of backward.c, its
 * kernel a row of exec/row_kernels.c. */
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
