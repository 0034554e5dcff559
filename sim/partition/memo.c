/* What predictions share: topologies, models, rules and programs that were read or built before, until
 * memory is used up. */
#include "sim/partition/memo.h"

#include <string.h>

enum { LARGEST_CACHE_BYTES = 256 << 20, FIRST_ENTRIES = 256 };

struct sim_cache *sim_cache_new(struct base_arena *arena)
{
    return base_new(arena, struct sim_cache, 1);
}

void sim_cache_free(struct sim_cache *cache)
{
    base_arena_free(&cache->arena);
    base_arena_free(&cache->scratch);
}

/* FNV-1a. */
static const uint64_t hash_start = 14695981039346656037ULL;

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211ULL;
    return hash;
}

/* Documents of one content have one hash, wherever they stand: the next one may stand where the last one stood. The
 * parser bounds the depth. */
static uint64_t hash_document(uint64_t hash, const struct base_json *value)
{
    hash = hash_bytes(hash, &value->kind, sizeof value->kind);
    if (value->key) hash = hash_bytes(hash, value->key, strlen(value->key) + 1);
    if (value->string) hash = hash_bytes(hash, value->string, strlen(value->string) + 1);
    hash = hash_bytes(hash, &value->number, sizeof value->number);
    for (const struct base_json *child = value->child; child; child = child->next) hash = hash_document(hash, child);
    return hash_bytes(hash, &value->count, sizeof value->count);
}

void sim_cache_override(struct sim_cache *cache, const struct base_json *overrides)
{
    cache->overrides = overrides;
    cache->overrides_hash = overrides ? hash_document(hash_start, overrides) : 0;
}

static void forget(struct sim_cache *cache)
{
    base_arena_reset(&cache->arena);
    cache->entries = NULL;
    cache->capacity = cache->count = 0;
    cache->read_files = false;
}

void sim_cache_next_question(struct sim_cache *cache)
{
    sim_cache_override(cache, NULL);
    if (cache->read_files) forget(cache);
}

void sim_cache_begin(struct sim_cache *cache, struct base_arena *arena)
{
    cache->arena.exhausted = cache->scratch.exhausted = arena->exhausted;
    if (cache->arena.allocated_bytes >= LARGEST_CACHE_BYTES) forget(cache);
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

static uint64_t hash_key(const struct sim_cache *cache)
{
    return hash_bytes(hash_start, cache->key, cache->key_length);
}

static struct cache_entry *slot_of(struct sim_cache *cache, uint64_t hash)
{
    for (int at = (int)(hash % (uint64_t)cache->capacity);; at = (at + 1) % cache->capacity) {
        struct cache_entry *entry = &cache->entries[at];
        bool same = entry->key && entry->hash == hash && entry->length == cache->key_length &&
                    !memcmp(entry->key, cache->key, entry->length);
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
    int old_capacity = cache->capacity, capacity = old_capacity ? 2 * old_capacity : FIRST_ENTRIES;
    cache->entries =
        base_new(&cache->arena, struct cache_entry, capacity); /* may jump: the table is whole until then */
    cache->capacity = capacity;
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
    char *key =
        base_copy_bytes(&cache->arena, cache->key, cache->key_length); /* may jump, so nothing is counted before */
    if (!entry->key) cache->count++;
    *entry = (struct cache_entry){hash, key, cache->key_length, value};
}

const struct base_json *sim_cache_overrides(const struct sim_cache *cache)
{
    return cache->overrides;
}
