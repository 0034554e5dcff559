/* Private to sim/program/: what the questions of a session share. */
#ifndef SIM_SESSION_CACHE_H
#define SIM_SESSION_CACHE_H

#include "sim/program/program.h"

struct sim_cache {
    struct base_memo memo; /* by kind (enum sim_stored), then its key */
    struct sim_known_contractions contractions;
    struct base_arena arena;         /* of all that is known */
    struct base_arena scratch;       /* for what is needed until an entry is made */
    struct sim_workspace *workspace; /* buffers for pricing; NULL until the first price */
    int64_t question;                /* the number of the current question */
    int64_t held_bytes;              /* emptied after that many; 0: the usual limit */
    const struct base_json *overrides;
    uint64_t overrides_hash;     /* of its content; 0 without */
    const char *gin_search_path; /* of the question, or NULL */
    bool read_files;             /* an entry was read from a file, which may change before the next question */
};
/* Before each question: empties a table that has grown too large, and sets where to jump when memory runs out. */
void sim_cache_begin(struct sim_cache *cache, struct base_arena *arena);

#endif
