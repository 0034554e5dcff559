#include "sim/cache.h"

#include <string.h>

enum { LARGEST_CACHE_BYTES = 256 << 20, FIRST_ENTRIES = 256 };

struct sim_cache *sim_cache_new(struct base_arena *arena)
{
    return base_new(arena, struct sim_cache, 1);
}

void sim_cache_free(struct sim_cache *cache)
{
    base_arena_free(&cache->arena);
}

void sim_cache_override(struct sim_cache *cache, const struct base_json *overrides)
{
    cache->overrides = overrides;
}

void sim_cache_begin(struct sim_cache *cache, struct base_arena *arena)
{
    cache->arena.exhausted = arena->exhausted;
    if (cache->arena.allocated_bytes < LARGEST_CACHE_BYTES) return;
    base_arena_reset(&cache->arena);
    cache->entries = NULL;
    cache->capacity = cache->count = 0;
}

void sim_key_bytes(struct sim_cache *cache, const void *bytes, size_t length)
{
    if (cache->key_length + length > sizeof cache->key) {
        cache->key_overflows = true;
        return;
    }
    memcpy(cache->key + cache->key_length, bytes, length);
    cache->key_length += length;
}

void sim_key_begin(struct sim_cache *cache, char kind)
{
    cache->key_length = 0;
    cache->key_overflows = false;
    sim_key_bytes(cache, &kind, 1);
}

void sim_key_text(struct sim_cache *cache, const char *text)
{
    sim_key_bytes(cache, text, strlen(text) + 1);
}

/* FNV-1a. */
static uint64_t hash_key(const struct sim_cache *cache)
{
    uint64_t hash = 14695981039346656037ULL;
    for (size_t i = 0; i < cache->key_length; i++) hash = (hash ^ (unsigned char)cache->key[i]) * 1099511628211ULL;
    return hash;
}

static struct cache_entry *slot_of(struct sim_cache *cache, uint64_t hash)
{
    for (int at = (int)(hash % (uint64_t)cache->capacity);; at = (at + 1) % cache->capacity) {
        struct cache_entry *entry = &cache->entries[at];
        bool same = entry->key && entry->hash == hash && entry->length == cache->key_length && !memcmp(entry->key, cache->key, entry->length);
        if (!entry->key || same) return entry;
    }
}

void *sim_cache_find(struct sim_cache *cache)
{
    return cache->count && !cache->key_overflows ? slot_of(cache, hash_key(cache))->value : NULL;
}

static void enlarge(struct sim_cache *cache)
{
    struct cache_entry *old = cache->entries;
    int old_capacity = cache->capacity;
    cache->capacity = old_capacity ? 2 * old_capacity : FIRST_ENTRIES;
    cache->entries = base_new(&cache->arena, struct cache_entry, cache->capacity);
    for (int i = 0; i < old_capacity; i++) {
        if (!old[i].key) continue;
        int at = (int)(old[i].hash % (uint64_t)cache->capacity);
        while (cache->entries[at].key) at = (at + 1) % cache->capacity;
        cache->entries[at] = old[i];
    }
}

void sim_cache_store(struct sim_cache *cache, void *value)
{
    if (cache->key_overflows) return;
    if (2 * (cache->count + 1) > cache->capacity) enlarge(cache);
    uint64_t hash = hash_key(cache);
    struct cache_entry *entry = slot_of(cache, hash);
    if (!entry->key) cache->count++;
    *entry = (struct cache_entry){hash, base_copy_bytes(&cache->arena, cache->key, cache->key_length), cache->key_length, value};
}
