/* Memory: an arena hands out pieces of chunks and gives all of them back at once. */
#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The chunk's memory follows its header. */
struct base_chunk {
    struct base_chunk *older;
    size_t size_bytes;
};

enum {
    ALIGNMENT = 16,
    FIRST_CHUNK_BYTES = 64 * 1024,
    HEADER_BYTES = (sizeof(struct base_chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
};

static void exhausted(struct base_arena *arena)
{
    longjmp(*arena->exhausted, 1);
}

static char *chunk_start(struct base_chunk *chunk)
{
    return (char *)chunk + HEADER_BYTES;
}

static void use_chunk(struct base_arena *arena, struct base_chunk *chunk)
{
    arena->chunk = chunk;
    arena->at = chunk_start(chunk);
    arena->end = arena->at + chunk->size_bytes;
}

/* Chunks double, so that a command of any size makes few of them. */
static void grow(struct base_arena *arena, size_t need_bytes)
{
    size_t size_bytes = arena->chunk ? 2 * arena->chunk->size_bytes : FIRST_CHUNK_BYTES;
    if (size_bytes < need_bytes) size_bytes = need_bytes;
    struct base_chunk *chunk = size_bytes > SIZE_MAX / 2 ? NULL : malloc(HEADER_BYTES + size_bytes);
    if (!chunk) exhausted(arena);
    chunk->older = arena->chunk;
    chunk->size_bytes = size_bytes;
    use_chunk(arena, chunk);
}

void *base_alloc(struct base_arena *arena, size_t count, size_t size_bytes)
{
    arena->allocation_count++;
    if (arena->allocation_count == arena->fail_after_count) exhausted(arena);
    if (size_bytes != 0 && count > (SIZE_MAX / 4) / size_bytes) exhausted(arena);
    size_t need = (count * size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if ((size_t)(arena->end - arena->at) < need || !arena->chunk) grow(arena, need);
    char *result = arena->at;
    arena->at += need;
    arena->allocated_bytes += (int64_t)need;
    return memset(result, 0, need);
}

char *base_copy_bytes(struct base_arena *arena, const char *bytes, size_t length)
{
    char *copy = base_alloc(arena, length + 1, 1);
    if (length) memcpy(copy, bytes, length);
    return copy;
}

char *base_copy(struct base_arena *arena, const char *text)
{
    return base_copy_bytes(arena, text, strlen(text));
}

char *base_print(struct base_arena *arena, const char *format, ...)
{
    va_list first, second;
    va_start(first, format);
    va_copy(second, first);
    int length = vsnprintf(NULL, 0, format, first);
    va_end(first);
    char *text = base_alloc(arena, (size_t)(length < 0 ? 0 : length) + 1, 1);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, second);
    va_end(second);
    return text;
}

void base_arena_reset(struct base_arena *arena)
{
    struct base_chunk *newest = arena->chunk;
    if (!newest) return;
    for (struct base_chunk *chunk = newest->older, *older; chunk; chunk = older) {
        older = chunk->older;
        free(chunk);
    }
    newest->older = NULL;
    use_chunk(arena, newest);
    arena->allocated_bytes = 0;
}

void base_arena_free(struct base_arena *arena)
{
    base_arena_reset(arena);
    free(arena->chunk);
    arena->chunk = NULL;
    arena->at = arena->end = NULL;
}

void *base_grown(struct base_arena *arena, void *old, int count, int *capacity, size_t size_bytes)
{
    if (count < *capacity) return old;
    int larger = *capacity ? 2 * *capacity : 64;
    void *table = base_alloc(arena, (size_t)larger, size_bytes); /* may jump: the table is the old one until then */
    if (count) memcpy(table, old, (size_t)count * size_bytes);
    *capacity = larger;
    return table;
}
