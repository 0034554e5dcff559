/* Part of model/model.h: how a training software writes the model down, where it differs from T5X. Bits of
 * model_options.traits. enum model_trait is made of traits.csv, which describes each. */
#ifndef MODEL_TRAITS_H
#define MODEL_TRAITS_H

#include "model/traits.csv.h"

#include <stdint.h>

typedef uint64_t model_trait_set;
#define MODEL_TRAIT_BIT(trait) ((model_trait_set)1 << (trait))
const char *model_trait_name(enum model_trait trait); /* as in sim/compile/software.csv */

#endif
