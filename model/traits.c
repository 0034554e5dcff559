/* Names of a software's traits in its row. */
#include "model/traits.h"

_Static_assert(MODEL_TRAIT_COUNT <= 8 * sizeof(model_trait_set), "sets of traits need a wider type");

const char *model_trait_name(enum model_trait trait)
{
    static const char *const names[] = {MODEL_TRAIT_NAMES};
    return names[trait];
}
