/* Private to sim/ and the rooms in it: a table from keys (any bytes) to what was worked out for them. */
#ifndef SIM_MEMO_H
#define SIM_MEMO_H

#include "sim/partition/partition.h"

/* What an entry is; the first byte of its key. */
enum sim_stored {
    SIM_STORED_CONFIG,
    SIM_STORED_UNROLLED,
    SIM_STORED_SCANNED_CONFIG,
    SIM_STORED_RULES,
    SIM_STORED_ADAFACTOR,
    SIM_STORED_OVERRIDES,
    SIM_STORED_MACHINE,
    SIM_STORED_PLACEMENT,
    SIM_STORED_PARAMETERS,
    SIM_STORED_VERDICT,
    SIM_STORED_USUAL_PLAN,
    SIM_STORED_MODEL_PROGRAM,
    SIM_STORED_GRAPH,
    SIM_STORED_CONTRACTION,
    SIM_STORED_PLANS_ALIKE,
    SIM_STORED_PROGRAM,
    SIM_STORED_MEMORY_MAP,
    SIM_STORED_LAYOUT,
    SIM_STORED_PIECE_PRICE
};

struct sim_cache {
    struct base_arena arena;
    struct base_arena scratch; /* for what is needed until an entry is made */
    struct base_arena notes;   /* for the choices that lead to a program, until it is found or made */
    struct base_index index;   /* of entries, by key */
    struct cache_entry {
        const char *key;
        size_t length;
        void *value;
    } * entries;
    int capacity;
    struct sim_workspace *workspace; /* what programs are priced with; NULL: none was */
    int64_t question;                /* the number of the one that is asked */
    int64_t held_bytes;              /* after so many it is emptied; 0: the usual limit */
    const struct base_json *overrides;
    uint64_t overrides_hash;          /* of its content; 0 without */
    char key[4096];                   /* under construction */
    size_t key_length, hashed_length; /* key_hash is of the key when it was so long */
    uint64_t key_hash;
    bool key_overflows;          /* too long to be looked up: worked out anew each time */
    const char *gin_search_path; /* of the question, or NULL */
    bool read_files;             /* an entry was read from a file, which may change until the next question */
};

/* Empties the table when it has grown too large, and takes the caller's way out of memory. Before each question. */
void sim_cache_begin(struct sim_cache *cache, struct base_arena *arena);
void sim_key_begin(struct sim_cache *cache, enum sim_stored kind);
void sim_key_text(struct sim_cache *cache, const char *text);
void sim_key_bytes(struct sim_cache *cache, const void *bytes, size_t length);
void *sim_cache_find(struct sim_cache *cache);              /* what stands under the key, or NULL */
void sim_cache_store(struct sim_cache *cache, void *value); /* under the key that was last looked for */

#endif
