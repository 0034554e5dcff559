/* PCG32 (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms", 2014): output
 * permutation XSH-RR of a 64-bit congruential state. */
#include "base/random.h"

enum { ROTATE_BITS = 32 };

uint32_t base_random_next(struct base_random *random)
{
    uint64_t old = random->state;
    random->state = old * 6364136223846793005ULL + (random->stream | 1);
    uint32_t mixed = (uint32_t)(((old >> 18) ^ old) >> 27), turn = (uint32_t)(old >> 59);
    return (mixed >> turn) | (mixed << ((ROTATE_BITS - turn) & 31));
}

void base_random_seed(struct base_random *random, uint64_t seed)
{
    *random = (struct base_random){.state = 0, .stream = 0xda3e39cb94b95bdbULL};
    base_random_next(random);
    random->state += seed;
    base_random_next(random);
}

int64_t base_random_below(struct base_random *random, int64_t bound)
{
    /* One draw per statement: the operands of | may be evaluated in either order. */
    uint64_t high = base_random_next(random), low = base_random_next(random);
    return (int64_t)((high << 32 | low) % (uint64_t)bound);
}

uint64_t base_mix_text(uint64_t key, const char *text)
{
    for (; *text; text++) key = base_mix(key ^ (unsigned char)*text);
    return key;
}
