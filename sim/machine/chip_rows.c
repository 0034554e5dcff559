/* Selects a chip's rows of a table. */
#include "sim/machine/machine.h"

#include <string.h>

bool sim_is_named_chip(const char *cell, const char *chip)
{
    const size_t length = strlen(cell);
    return !length || (!strncmp(cell, chip, length) && (!chip[length] || chip[length] == '-'));
}

/* A chip of the same generation with at least its links: the source of unmeasured values. */
static const char *like_of(const char *chip)
{
    static const char *const like[][2] = {{"a800", "a100"},  {"h800", "h100"}, {"h20", "h100"},
                                          {"gh200", "h100"}, {"b300", "b200"}, {"gb300", "gb200"}};
    for (int i = 0; i < BASE_COUNT(like); i++)
        if (!strcmp(chip, like[i][0])) return like[i][1];
    return "";
}

bool sim_is_of_chip(const char *cell, const char *chip)
{
    return sim_is_named_chip(cell, chip) || sim_is_named_chip(cell, like_of(chip));
}
