/* Memory: an arena hands out parts of large chunks and frees all of them at once. */
#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The header of a chunk; its memory follows. */
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

/* Chunks double in size, so that even a large command needs few. */
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

void *base_reserve(struct base_arena *arena, size_t count, size_t size_bytes)
{
    arena->allocation_count++;
    if (arena->allocation_count == arena->fail_after_count) exhausted(arena);
    if (size_bytes != 0 && count > (SIZE_MAX / 4) / size_bytes) exhausted(arena);
    size_t need = (count * size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if ((size_t)(arena->end - arena->at) < need || !arena->chunk) grow(arena, need);
    char *result = arena->at;
    arena->at += need;
    arena->allocated_bytes += (int64_t)need;
    return result;
}

void *base_alloc(struct base_arena *arena, size_t count, size_t size_bytes)
{
    return memset(base_reserve(arena, count, size_bytes), 0, count * size_bytes);
}

char *base_copy_bytes(struct base_arena *arena, const char *bytes, size_t length)
{
    char *copy = base_reserve(arena, length + 1, 1);
    if (length) memcpy(copy, bytes, length);
    copy[length] = 0;
    return copy;
}

char *base_copy(struct base_arena *arena, const char *text)
{
    return base_copy_bytes(arena, text, strlen(text));
}

/* A fast path for formats that hold only text and %s: plans build thousands of names. Returns the length of the
 * result and writes it to text unless that is NULL; -1: the format has other conversions. */
static int64_t join(const char *format, va_list arguments, char *text)
{
    int64_t length = 0;
    for (const char *at = format; *at; at++) {
        const char *piece = at;
        size_t size = strcspn(at, "%");
        if (*at == '%' && at[1] != 's') return -1;
        if (*at == '%') {
            piece = va_arg(arguments, const char *);
            if (!piece) piece = "(null)"; /* as printf does */
            size = strlen(piece);
            at++;
        } else {
            at += size - 1;
        }
        if (text) memcpy(text + length, piece, size);
        length += (int64_t)size;
    }
    return length;
}

char *base_print(struct base_arena *arena, const char *format, ...)
{
    va_list first, second, third;
    va_start(first, format);
    va_copy(second, first);
    va_copy(third, first);
    int64_t length = join(format, first, NULL);
    bool is_joined = length >= 0;
    if (!is_joined) length = vsnprintf(NULL, 0, format, second);
    char *text = base_alloc(arena, (size_t)(length < 0 ? 0 : length) + 1, 1);
    if (is_joined) join(format, third, text);
    else if (length > 0) vsnprintf(text, (size_t)length + 1, format, third);
    va_end(first);
    va_end(second);
    va_end(third);
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
    int larger = count > 8 ? 2 * count : 16;
    char *table =
        base_reserve(arena, (size_t)larger, size_bytes); /* may longjmp: the old table stays until it returns */
    const size_t used_bytes = (size_t)count * size_bytes;
    if (count) memcpy(table, old, used_bytes);
    memset(table + used_bytes, 0, (size_t)larger * size_bytes - used_bytes);
    *capacity = larger;
    return table;
}
