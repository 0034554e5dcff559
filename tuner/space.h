/* Private to tuner/. */
#ifndef TUNER_SPACE_H
#define TUNER_SPACE_H

#include "tuner/tuner.h"

void tuner_refuse(struct tuner_space *space, const char *message, int64_t plan_count);

#endif
