/* Seeded random numbers, those of this program and JAX's; included by base.h. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* ---- random numbers (random.c): PCG32, seeded, identical on every machine ---- */

struct base_random {
    uint64_t state, stream;
};
void base_random_seed(struct base_random *random, uint64_t seed);
uint32_t base_random_next(struct base_random *random);
int64_t base_random_below(struct base_random *random, int64_t bound); /* 0 .. bound-1 */
/* A step of splitmix64 (Steele, Lea, Flood, 2014): a bijection of 64 bits without visible patterns. */
static inline uint64_t base_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}
uint64_t base_mix_text(uint64_t key, const char *text); /* one step for each byte */

/* ---- JAX's default generator (threefry.c): Threefry-2x32, bit for bit ---- */

struct base_key {
    uint32_t words[2];
};
struct base_key base_key_of_seed(int64_t seed);
/* Element `at` of jax.random.split(key, count). */
struct base_key base_key_split(const struct base_key *key, int64_t count, int64_t at);
struct base_key base_key_fold_in(const struct base_key *key, uint32_t data);
uint32_t base_key_bits(const struct base_key *key, int64_t count, int64_t at); /* element `at` of count random words */
float base_gumbel(uint32_t bits); /* jax.random.gumbel; only its logarithms may round differently */

#endif
