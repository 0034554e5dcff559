/* Threefry-2x32 with 20 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011) as JAX uses it:
 * keys, bits in the order of its default implementation, and Gumbel noise. */
#include "base/random.h"

#include <math.h>
#include <string.h>

static uint32_t turned(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

static void encrypt(const struct base_key *key, uint32_t x[2])
{
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t parity = UINT32_C(0x1BD11BDA),
                   schedule[3] = {key->words[0], key->words[1], key->words[0] ^ key->words[1] ^ parity};
    x[0] += schedule[0];
    x[1] += schedule[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            x[0] += x[1];
            x[1] = turned(x[1], turns[group % 2][round]) ^ x[0];
        }
        x[0] += schedule[(group + 1) % 3];
        x[1] += schedule[(group + 2) % 3] + group + 1;
    }
}

struct base_key base_key_of_seed(int64_t seed)
{
    return (struct base_key){{(uint32_t)((uint64_t)seed >> 32), (uint32_t)seed}};
}

/* Counters 0 … count-1 form two halves, one for each word of a block; an odd count is padded with a 0. */
uint32_t base_key_bits(const struct base_key *key, int64_t count, int64_t at)
{
    int64_t half = (count + 1) / 2, low = at < half ? at : at - half, high = low + half;
    uint32_t block[2] = {(uint32_t)low, high < count ? (uint32_t)high : 0};
    encrypt(key, block);
    return block[at >= half];
}

struct base_key base_key_split(const struct base_key *key, int64_t count, int64_t at)
{
    return (struct base_key){{base_key_bits(key, 2 * count, 2 * at), base_key_bits(key, 2 * count, 2 * at + 1)}};
}

struct base_key base_key_fold_in(const struct base_key *key, uint32_t data)
{
    struct base_key folded = {{0, data}};
    encrypt(key, folded.words);
    return folded;
}

/* The upper 23 bits are the fraction of a float in [1, 2). Logarithms are computed in double and rounded, so that
 * every machine agrees. */
float base_gumbel(uint32_t bits)
{
    const float tiny = 0x1p-126F;
    uint32_t word = bits >> 9 | UINT32_C(0x3f800000);
    float uniform;
    memcpy(&uniform, &word, sizeof uniform);
    uniform = uniform - 1 + tiny;
    if (uniform < tiny) uniform = tiny;
    float inner = (float)-log((double)uniform);
    return (float)-log((double)inner);
}
