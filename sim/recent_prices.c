/* Prices that were asked for lately: pieces of a pipeline, and rows of a table, ask for the same again and again. */
#include "sim/priced_program.h"

#include <stddef.h>
#include <string.h>

enum { SLOT_BITS = 10 };

struct sim_recent_prices {
    struct {
        struct sim_price_question question;
        double answer;
    } slots[1 << SLOT_BITS];
};

struct sim_recent_prices *sim_recent_prices_new(struct base_arena *arena)
{
    return base_new(arena, struct sim_recent_prices, 1);
}

double *sim_recent_price(struct sim_recent_prices *recent, const struct sim_price_question *question, bool *known)
{
    const size_t said = offsetof(struct sim_price_question, of) + (size_t)question->count * sizeof question->of[0];
    const uint64_t hash = base_hash(BASE_HASH_START, question, said);
    const unsigned slot = (unsigned)(hash >> (64 - SLOT_BITS)); /* numbers differ in high bits */
    struct sim_price_question *stands = &recent->slots[slot].question;
    *known = !memcmp(stands, question, said);
    if (!*known) *stands = *question;
    return &recent->slots[slot].answer;
}
