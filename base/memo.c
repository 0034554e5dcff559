/* What was worked out before, by key. */
#include "base/base.h"

#include <string.h>

struct base_memo_entry {
    const char *key;
    size_t length;
    void *value;
};

void base_memo_forget(struct base_memo *memo)
{
    memo->index = (struct base_index){.count = 0};
    memo->entries = NULL;
    memo->capacity = 0;
}

void base_memo_bytes(struct base_memo *memo, const void *bytes, size_t length)
{
    if (memo->key_length + length > sizeof memo->key) {
        memo->key_overflows = true;
        return;
    }
    memcpy(memo->key + memo->key_length, bytes, length);
    memo->key_length += length;
}

void base_memo_begin(struct base_memo *memo, unsigned char kind)
{
    memo->key_length = memo->hashed_length = 0;
    memo->key_overflows = false;
    base_memo_bytes(memo, &kind, 1);
}

void base_memo_text(struct base_memo *memo, const char *text)
{
    base_memo_bytes(memo, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* Keeps the hash: after a miss the caller stores under the same key. */
static uint64_t hash_key(struct base_memo *memo)
{
    if (memo->hashed_length != memo->key_length) {
        memo->key_hash = base_hash(BASE_HASH_START, memo->key, memo->key_length);
        memo->hashed_length = memo->key_length;
    }
    return memo->key_hash;
}

static struct base_memo_entry *find_entry(const struct base_memo *memo, uint64_t hash)
{
    unsigned at = (unsigned)hash;
    for (int i; (i = base_index_next(&memo->index, hash, &at)) >= 0; at++) {
        struct base_memo_entry *entry = &memo->entries[i];
        if (entry->length == memo->key_length && !memcmp(entry->key, memo->key, entry->length)) return entry;
    }
    return NULL;
}

void *base_memo_find(struct base_memo *memo)
{
    const struct base_memo_entry *entry = memo->key_overflows ? NULL : find_entry(memo, hash_key(memo));
    return entry ? entry->value : NULL;
}

/* An allocation may longjmp out, so the index is extended last. */
void base_memo_store(struct base_memo *memo, void *value)
{
    if (memo->key_overflows) return;
    uint64_t hash = hash_key(memo);
    struct base_memo_entry *entry = find_entry(memo, hash);
    if (entry) {
        entry->value = value;
        return;
    }
    const char *key = base_copy_bytes(memo->arena, memo->key, memo->key_length);
    memo->entries = base_grown(memo->arena, memo->entries, memo->index.count, &memo->capacity, sizeof *memo->entries);
    memo->entries[memo->index.count] = (struct base_memo_entry){key, memo->key_length, value};
    base_index_add(memo->arena, &memo->index, hash);
}
