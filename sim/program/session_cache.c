/* What predictions share: topologies, models, rules and programs that were read or built before, until
 * memory is used up. */
#include "sim/program/session_cache.h"

#include <string.h>

enum { LARGEST_CACHE_BYTES = 256 << 20 };

struct sim_cache *sim_cache_new(struct base_arena *arena)
{
    struct sim_cache *cache = base_new(arena, struct sim_cache, 1);
    cache->memo.arena = cache->contractions.memo.arena = &cache->arena;
    return cache;
}

void sim_cache_free(struct sim_cache *cache)
{
    base_arena_free(&cache->arena);
    base_arena_free(&cache->scratch);
    base_arena_free(&cache->contractions.notes);
}

/* Hashes a document's content, not its address, which the next document may reuse. The parser bounds the depth. */
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
    base_memo_forget(&cache->memo);
    base_memo_forget(&cache->contractions.memo);
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
    cache->arena.exhausted = cache->scratch.exhausted = cache->contractions.notes.exhausted = arena->exhausted;
    const int64_t most = cache->held_bytes ? cache->held_bytes : LARGEST_CACHE_BYTES;
    if ((int64_t)cache->arena.allocated_bytes >= most) forget(cache);
}

const struct base_json *sim_cache_overrides(const struct sim_cache *cache)
{
    return cache->overrides;
}

struct base_memo *sim_cache_memo(struct sim_cache *cache, enum sim_stored kind)
{
    base_memo_begin(&cache->memo, (unsigned char)kind);
    return &cache->memo;
}

struct sim_known_contractions *sim_cache_contractions(struct sim_cache *cache)
{
    return &cache->contractions;
}

struct base_arena *sim_cache_scratch(struct sim_cache *cache)
{
    base_arena_reset(&cache->scratch);
    return &cache->scratch;
}

struct base_arena sim_cache_own_arena(const struct sim_cache *cache)
{
    return (struct base_arena){.exhausted = cache->scratch.exhausted};
}

struct sim_workspace *sim_workspace_of(struct sim_cache *cache)
{
    if (cache->workspace) return cache->workspace;
    struct sim_workspace *workspace = base_reserve(&cache->arena, 1, sizeof *workspace);
    workspace->recent = sim_recent_prices_new(&cache->arena, &cache->question);
    return cache->workspace = workspace;
}
