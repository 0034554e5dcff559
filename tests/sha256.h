/* SHA-256 (FIPS 180-4), for the device lists of meshes. */
#ifndef SHA256_H
#define SHA256_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline uint32_t rotate(uint32_t word, int by)
{
    return word >> by | word << (32 - by);
}

/* The first 32 bits of the fractional part of the cube (or square) root of the n-th prime. */
static inline uint32_t root_bits(int n, double (*root)(double))
{
    int prime = 1;
    for (int found = 0; found <= n;) {
        prime++;
        bool divisible = false;
        for (int d = 2; d * d <= prime; d++) divisible = divisible || prime % d == 0;
        found += !divisible;
    }
    double value = root((double)prime);
    return (uint32_t)((value - floor(value)) * 4294967296.0);
}

static inline void sha256_block(uint32_t state[8], const uint32_t constants[64], const unsigned char block[64])
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
        uint32_t two =
            (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

static inline void sha256(const char *text, size_t length, char hex[65])
{
    static uint32_t constants[64], initial[8];
    for (int i = 0; i < 64 && !constants[63]; i++) constants[i] = root_bits(i, cbrt);
    for (int i = 0; i < 8 && !initial[7]; i++) initial[i] = root_bits(i, sqrt);
    uint32_t state[8];
    memcpy(state, initial, sizeof state);
    unsigned char block[64];
    for (size_t at = 0; at < length + 9; at += 64) {
        memset(block, 0, sizeof block);
        if (at < length) memcpy(block, text + at, length - at < 64 ? length - at : 64);
        if (at <= length && length - at < 64) block[length - at] = 0x80;
        if (at + 64 >= length + 9)
            for (int i = 0; i < 8; i++) block[63 - i] = (unsigned char)((uint64_t)length * 8 >> 8 * i);
        sha256_block(state, constants, block);
    }
    for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", state[i]);
}

#endif
