/* Private to sim/program/: what the questions of a session share. */
#ifndef SIM_SESSION_CACHE_H
#define SIM_SESSION_CACHE_H

#include "sim/program/program.h"

struct sim_cache {
    struct base_memo memo; /* by what it is (enum sim_stored), then its key */
    struct sim_known_contractions contractions;
    struct base_arena arena;         /* of all that is known */
    struct base_arena scratch;       /* for what is needed until an entry is made */
    struct sim_workspace *workspace; /* what programs are priced with; NULL: none was */
    int64_t question;                /* the number of the one that is asked */
    int64_t held_bytes;              /* after so many it is emptied; 0: the usual limit */
    const struct base_json *overrides;
    uint64_t overrides_hash;     /* of its content; 0 without */
    const char *gin_search_path; /* of the question, or NULL */
    bool read_files;             /* an entry was read from a file, which may change until the next question */
};
/* Empties the table when it has grown too large, and takes the caller's way out of memory. Before each question. */
void sim_cache_begin(struct sim_cache *cache, struct base_arena *arena);

#endif
