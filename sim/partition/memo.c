/* What predictions share: topologies, models, rules and programs that were read or built before, until
 * memory is used up. */
#include "sim/partition/memo.h"

#include <string.h>

enum { LARGEST_CACHE_BYTES = 256 << 20 };

struct sim_cache *sim_cache_new(struct base_arena *arena)
{
    return base_new(arena, struct sim_cache, 1);
}

void sim_cache_free(struct sim_cache *cache)
{
    base_arena_free(&cache->arena);
    base_arena_free(&cache->scratch);
    base_arena_free(&cache->notes);
}

/* Documents of one content have one hash, wherever they stand: the next one may stand where the last one stood. The
 * parser bounds the depth. */
static uint64_t hash_document(uint64_t hash, const struct base_json *value)
{
    hash = base_hash(hash, &value->kind, sizeof value->kind);
    if (value->key) hash = base_hash(hash, value->key, strlen(value->key) + 1);
    if (value->string) hash = base_hash(hash, value->string, strlen(value->string) + 1);
    hash = base_hash(hash, &value->number, sizeof value->number);
    for (const struct base_json *child = value->child; child; child = child->next) hash = hash_document(hash, child);
    return base_hash(hash, &value->count, sizeof value->count);
}

void sim_cache_override(struct sim_cache *cache, const struct base_json *overrides)
{
    cache->overrides = overrides;
    cache->overrides_hash = overrides ? hash_document(BASE_HASH_START, overrides) : 0;
}

static void forget(struct sim_cache *cache)
{
    base_arena_reset(&cache->arena);
    cache->index = (struct base_index){.count = 0};
    cache->entries = NULL;
    cache->capacity = 0;
    cache->workspace = NULL;
    cache->read_files = false;
}

const char *sim_cache_gin_search_path(const struct sim_cache *cache)
{
    return cache->gin_search_path;
}

void sim_cache_next_question(struct sim_cache *cache, const char *gin_search_path)
{
    sim_cache_override(cache, NULL);
    cache->question++;
    cache->gin_search_path = gin_search_path;
    if (cache->read_files) forget(cache);
}

void sim_cache_hold(struct sim_cache *cache, int64_t most_bytes)
{
    cache->held_bytes = most_bytes;
}

void sim_cache_begin(struct sim_cache *cache, struct base_arena *arena)
{
    cache->arena.exhausted = cache->scratch.exhausted = cache->notes.exhausted = arena->exhausted;
    const int64_t most = cache->held_bytes ? cache->held_bytes : LARGEST_CACHE_BYTES;
    if ((int64_t)cache->arena.allocated_bytes >= most) forget(cache);
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

void sim_key_begin(struct sim_cache *cache, enum sim_stored kind)
{
    const unsigned char first = (unsigned char)kind;
    cache->key_length = cache->hashed_length = 0;
    cache->key_overflows = false;
    sim_key_bytes(cache, &first, 1);
}

void sim_key_text(struct sim_cache *cache, const char *text)
{
    sim_key_bytes(cache, text, strlen(text) + 1);
}

/* Whoever finds nothing stores under the same key. */
static uint64_t hash_key(struct sim_cache *cache)
{
    if (cache->hashed_length != cache->key_length) {
        cache->key_hash = base_hash(BASE_HASH_START, cache->key, cache->key_length);
        cache->hashed_length = cache->key_length;
    }
    return cache->key_hash;
}

static struct cache_entry *find_entry(const struct sim_cache *cache, uint64_t hash)
{
    unsigned at = (unsigned)hash;
    for (int i; (i = base_index_next(&cache->index, hash, &at)) >= 0; at++) {
        struct cache_entry *entry = &cache->entries[i];
        if (entry->length == cache->key_length && !memcmp(entry->key, cache->key, entry->length)) return entry;
    }
    return NULL;
}

void *sim_cache_find(struct sim_cache *cache)
{
    const struct cache_entry *entry = cache->key_overflows ? NULL : find_entry(cache, hash_key(cache));
    return entry ? entry->value : NULL;
}

/* Each allocation may jump: the index, which counts, comes last. */
void sim_cache_store(struct sim_cache *cache, void *value)
{
    if (cache->key_overflows) return;
    uint64_t hash = hash_key(cache);
    struct cache_entry *entry = find_entry(cache, hash);
    if (entry) {
        entry->value = value;
        return;
    }
    const char *key = base_copy_bytes(&cache->arena, cache->key, cache->key_length);
    cache->entries =
        base_grown(&cache->arena, cache->entries, cache->index.count, &cache->capacity, sizeof *cache->entries);
    cache->entries[cache->index.count] = (struct cache_entry){key, cache->key_length, value};
    base_index_add(&cache->arena, &cache->index, hash);
}

const struct base_json *sim_cache_overrides(const struct sim_cache *cache)
{
    return cache->overrides;
}
