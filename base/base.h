/* base: what every room stands on. Status codes and messages, memory, text, numbers, strict JSON and CSV,
 * option tables, files, seeded random numbers.
 *
 * Rules for the whole project, said once:
 * - A function that can fail on its input returns a base_status and fills a base_error; outputs are set last and
 *   are untouched on error. A base_status is also the exit code of the contract.
 * - Memory comes from an arena that the caller passes in. An arena that cannot grow jumps to the handler that the
 *   command installed (base_arena.exhausted), so no caller checks for NULL. Nothing is freed one by one.
 * - Strings are UTF-8 and NUL-terminated. Inputs are never modified.
 * - Inside: seconds, bytes, FLOP; the suffix of a name says which. Only base_format_* makes humane units. */
#ifndef BASE_H
#define BASE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BASE_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- status and message (error.c) ---- */

enum base_status {
    BASE_OK = 0,
    BASE_INTERNAL = 1,
    BASE_USAGE = 2,
    BASE_INPUT = 3,
    BASE_NO_FIT = 4,
    BASE_RUN = 5,
    BASE_STOPPED = 6 /* by a signal, its work saved */
};

struct base_error {
    enum base_status status;
    char text[1200]; /* "place: what is wrong; use what is right"; cut, never overrun */
};

/* Fills error with a formatted message and returns status, so that `return base_fail(...)` reads as one thought. */
enum base_status base_fail(struct base_error *error, enum base_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "place: " before the message that error holds already, and returns its status. */
enum base_status base_fail_in(struct base_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Passes a failure up. */
#define BASE_TRY(call)                                                                                                 \
    do {                                                                                                               \
        enum base_status base_try_ = (call);                                                                           \
        if (base_try_ != BASE_OK) return base_try_;                                                                    \
    } while (0)

/* ---- memory (arena.c) ---- */

struct base_arena {
    struct base_chunk *chunk; /* newest first */
    char *at, *end;           /* free part of the newest chunk */
    jmp_buf *exhausted;       /* where to go when memory runs out; must be set before the first allocation */
    int64_t allocated_bytes;  /* handed out since the last reset */
    int64_t fail_after_count; /* tests: the allocation of this number fails; 0 never */
    int64_t allocation_count;
};

void *base_alloc(struct base_arena *arena, size_t count, size_t size_bytes); /* zeroed, 16-byte aligned */
void *base_reserve(struct base_arena *arena, size_t count,
                   size_t size_bytes); /* not zeroed: for what is written whole */
/* A table with room for one more than count: the old one, or a copy twice as large; an empty one has room for 64. */
void *base_grown(struct base_arena *arena, void *old, int count, int *capacity, size_t size_bytes);
#define base_new(arena, type, count) ((type *)base_alloc((arena), (size_t)(count), sizeof(type)))
char *base_copy(struct base_arena *arena, const char *text);
char *base_copy_bytes(struct base_arena *arena, const char *bytes, size_t length); /* adds the NUL */
char *base_print(struct base_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void base_arena_reset(struct base_arena *arena); /* forgets all allocations, keeps the largest chunk */
void base_arena_free(struct base_arena *arena);

/* ---- growing text (text.c) ---- */

struct base_text {
    struct base_arena *arena;
    char *data; /* NUL-terminated once anything was put */
    size_t length, capacity;
};

void base_put(struct base_text *text, const char *string);
void base_put_bytes(struct base_text *text, const char *bytes, size_t length);
void base_putf(struct base_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void base_put_double(struct base_text *text, double value); /* decimal.c: 15 to 17 digits, the fewest that read back
                                                             * as the same double, as %g writes them */
void base_put_int(struct base_text *text, int64_t value);
void base_put_python_string(struct base_text *text, const char *string); /* quoted, as Python and gin read it */
/* What a terminal would obey, in a text for people, becomes a question mark: controls but for new lines and tabs. */
void base_text_disarm(struct base_text *text);
const char *base_bad_utf8(const char *bytes, size_t length); /* the first byte that is not UTF-8, or NULL */
/* Bytes of the character at text, or 0 if there is none of RFC 3629: no overlong forms, no surrogates. */
int base_utf8_length(const char *text, const char *text_end);
void base_drop_cut_utf8(char *text); /* takes out, in place, characters whose ends %.60s has cut off */

/* ---- numbers (number.c) ---- */

/* Whole text must be one number within the bounds. `what` names it in the message: "batch_size". */
enum base_status base_parse_int(const char *text, const char *what, int64_t low, int64_t high, int64_t *out,
                                struct base_error *error);
enum base_status base_parse_double(const char *text, const char *what, double low, double high, double *out,
                                   struct base_error *error);
/* As people write counts: "300000000000", "300_000_000_000", "3e11", "300B", "1.4 trillion"; k, M, B (G) and T in
 * either case. It has to be whole; high is at most 1e18. */
enum base_status base_parse_count(const char *text, const char *what, int64_t low, int64_t high, int64_t *out,
                                  struct base_error *error);
/* "1048576", "1MiB", "1.5 GB" -> bytes, from 0 on, to the nearest. */
enum base_status base_parse_bytes(const char *text, const char *what, int64_t high, int64_t *out,
                                  struct base_error *error);
/* "4,2,2,1" -> {4,2,2,1}; between 1 and limit entries, each within the bounds. */
enum base_status base_parse_ints(const char *text, const char *what, int64_t low, int64_t high, int limit, int64_t *out,
                                 int *count, struct base_error *error);
int64_t base_ceil_div(int64_t a, int64_t b); /* b > 0, a >= 0 */
int64_t base_next_divisor(int64_t number,
                          int64_t after); /* the smallest divisor above `after`, or 0; in root(number) steps */

/* Humane forms, for reports/ and plots/ alone: "30.75 GiB", "1.51 s", "304.4 k", "45 GB/s". buffer is returned. */
enum { BASE_HUMANE = 32 };
char *base_format_bytes(char buffer[BASE_HUMANE], double bytes);
char *base_format_seconds(char buffer[BASE_HUMANE], double seconds);
char *base_format_count(char buffer[BASE_HUMANE], double count);

/* How many letters have to be added, left out or changed to make one text of the other; 64 where one of them has more
 * than 64. */
int base_edit_distance(const char *a, const char *b);
/* Name in names that is closest to text, or NULL if none is near. */
const char *base_nearest(const char *text, const char *const *names, int count);
/* Other software's word for one of ours (synonyms.csv), however it is spelled: what is "option", "key", "column" or the
 * key whose value it is. BASE_TAKEN: only words that are taken for it; NULL: there is none. */
enum base_synonym_use { BASE_TAKEN, BASE_SUGGESTED };
const char *base_synonym(const char *what, const char *given, size_t given_length, enum base_synonym_use use);
/* The synonym of the text, else the name that is nearest; or NULL. */
const char *base_meant(const char *what, const char *text, const char *const *names, int count);
/* "what: "given" is unknown; did you mean NEAREST? Use NAME, NAME or NAME" */
enum base_status base_fail_unknown(struct base_error *error, enum base_status status, const char *what,
                                   const char *given, const char *const *names, int count);
/* Which of the names the text is; otherwise that message, as BASE_INPUT. */
enum base_status base_parse_word(const char *text, const char *what, const char *const *names, int count, int *out,
                                 struct base_error *error);

/* ---- JSON (json.c, the door to cJSON) ---- */

enum base_json_kind {
    BASE_JSON_NULL,
    BASE_JSON_FALSE,
    BASE_JSON_TRUE,
    BASE_JSON_NUMBER,
    BASE_JSON_STRING,
    BASE_JSON_ARRAY,
    BASE_JSON_OBJECT
};

struct base_json {
    enum base_json_kind kind;
    const char *key; /* of a member of an object */
    const char *string;
    double number;
    int count; /* children */
    const struct base_json *child, *next;
};

/* Strict RFC 8259: one document, no trailing text, no duplicate keys, no NUL byte (escaped or not), valid UTF-8,
 * numbers that a double holds, at most 64 levels. text[length] must be NUL. */
enum base_status base_json_parse(struct base_arena *arena, const char *text, size_t length,
                                 const struct base_json **out, struct base_error *error);
const struct base_json *base_json_get(const struct base_json *object, const char *key); /* NULL if absent */
const char *base_json_kind_name(enum base_json_kind kind);
/* The member's value as a whole number, or a message that says what was found. */
enum base_status base_json_int(const struct base_json *value, const char *what, int64_t low, int64_t high, int64_t *out,
                               struct base_error *error);

/* Writing: commas and escapes are the writer's business. */
enum { BASE_JSON_LEVELS = 96 }; /* a parsed document of the deepest kind fits inside one of ours */
enum base_json_layout { BASE_JSON_INDENTED, BASE_JSON_ONE_LINE };
struct base_json_writer {
    struct base_text *text;
    enum base_json_layout layout;
    int depth;
    bool any[BASE_JSON_LEVELS];     /* something was written at this depth */
    bool inline_[BASE_JSON_LEVELS]; /* this array or object stands on one line */
    bool after_key;
};
void base_json_open(struct base_json_writer *writer, char bracket);        /* '{' or '[' */
void base_json_open_inline(struct base_json_writer *writer, char bracket); /* the whole of it on one line */
void base_json_close(struct base_json_writer *writer, char bracket);       /* '}' or ']' */
void base_json_key(struct base_json_writer *writer, const char *key);
void base_json_put_string(struct base_json_writer *writer,
                          const char *value); /* NULL becomes null, bytes that are not UTF-8 U+FFFD */
void base_json_put_int(struct base_json_writer *writer, int64_t value);
void base_json_put_double(struct base_json_writer *writer, double value); /* not finite becomes null */
void base_json_put_bool(struct base_json_writer *writer, bool value);
void base_json_put_null(struct base_json_writer *writer);
void base_json_put_value(struct base_json_writer *writer, const struct base_json *value);
/* A key and its value in one. */
void base_json_member_string(struct base_json_writer *writer, const char *key, const char *value);
void base_json_member_int(struct base_json_writer *writer, const char *key, int64_t value);
void base_json_member_double(struct base_json_writer *writer, const char *key, double value);
void base_json_member_bool(struct base_json_writer *writer, const char *key, bool value);
void base_json_member_doubles(struct base_json_writer *writer, const char *key, const double *values,
                              int64_t count); /* an array on one line */

/* Numbers of a struct that are members of an object: who writes it and who reads it go by one table. */
enum base_number_type { BASE_INT /* int, unsigned or an enum */, BASE_INT64, BASE_DOUBLE };
struct base_json_field {
    const char *key;
    enum base_number_type type;
    size_t offset;
};
void base_json_put_fields(struct base_json_writer *writer, const struct base_json_field *fields, int count,
                          const void *record);
/* What the object does not have, or has as no number, is 0; object may be NULL. */
void base_json_read_fields(const struct base_json *object, const struct base_json_field *fields, int count,
                           void *record);
double base_json_number(const struct base_json *object, const char *key); /* the same of one member */

/* ---- CSV (csv.c): RFC 4180, a header line, one row in memory at a time ---- */

struct base_csv {
    const char *path; /* for messages */
    int file;         /* a descriptor; -1 when reading from text */
    const char *text; /* what comes next, NUL-terminated: of a file, as much of it as was read at once */
    const char *text_end;
    char *window; /* of a file, where that stands */
    int failed;   /* errno of what could not be read */
    char *buffer; /* the current row, fields NUL-terminated in place */
    size_t buffer_length, buffer_capacity;
    const char **names; /* header */
    int column_count;
    const char **fields; /* current row */
    int field_count;     /* fields of the current row (a ragged row differs from column_count) */
    int field_capacity;
    int64_t line_number; /* of the start of the current row, from 1 */
    int64_t next_line_number;
    struct base_arena *arena;
};
/* Opens a file (or, with path == NULL in text form, a NUL-terminated text) and reads its header. */
enum base_status base_csv_open(struct base_csv *csv, struct base_arena *arena, const char *path,
                               struct base_error *error);
enum base_status base_csv_open_text(struct base_csv *csv, struct base_arena *arena, const char *name, const char *text,
                                    struct base_error *error);
/* Reads the next row; *more is false at the end. Ragged rows are returned as they are: compare field_count. */
enum base_status base_csv_next(struct base_csv *csv, bool *more, struct base_error *error);
int base_csv_column(const struct base_csv *csv, const char *name);  /* -1 if absent */
const char *base_csv_field(const struct base_csv *csv, int column); /* "" if absent */
void base_csv_close(struct base_csv *csv);
/* Quoted where it must be; what a spreadsheet would run as a formula begins with an apostrophe. */
void base_put_csv(struct base_text *text, const char *field);

/* ---- tables that are part of the program (embedded_table.c): a CSV that the build made constant ---- */

struct base_table {
    const char *name;         /* "nccl.csv", for messages */
    const char *const *cells; /* row by row, the header first */
    int column_count, row_count;
};
int base_table_column(const struct base_table *table, const char *name);           /* -1 if absent */
const char *base_table_field(const struct base_table *table, int row, int column); /* "" if absent */

/* ---- large pages (heap.c): answers are the same without them ---- */

void base_heap_begin(void); /* the heap of a short-lived program, before anything is allocated */
/* For memory that has not been touched yet; it takes no page beyond its own end. */
void base_prefer_large_pages(void *at, size_t bytes);

/* ---- files (file.c) ---- */

bool base_is_file(const char *path);   /* a regular file: reading it ends */
bool base_is_there(const char *path);  /* something, be it a link that leads nowhere */
bool base_is_stream(const char *path); /* a pipe, a socket or a device: opening it may wait, and is seen elsewhere */
enum base_status base_read_file(struct base_arena *arena, const char *path, size_t limit_bytes, const char **text,
                                size_t *length, struct base_error *error);
/* The same of what lies on a disk alone: a pipe or a device, which could keep its reader waiting, is refused. */
enum base_status base_read_stored_file(struct base_arena *arena, const char *path, size_t limit_bytes,
                                       const char **text, size_t *length, struct base_error *error);

/* An output file is written beside its place, with the permissions of what stood there, and renamed at the end; what is
 * not committed leaves no trace, what is survives a power cut. */
struct base_output {
    FILE *file;
    char path[3072], partial[3104];
};
enum base_status base_output_open(struct base_output *output, const char *path, struct base_error *error);
enum base_status base_output_commit(struct base_output *output, struct base_error *error);
void base_output_abandon(struct base_output *output);
void base_output_abandon_all(void); /* removes every partial file of this thread */
void base_output_unlink_all(void);  /* of all threads, from a signal handler: calls only async-signal-safe functions */
enum base_status base_write_file(const char *path, const char *bytes, size_t length, struct base_error *error);
/* Writes a file where none is, in place: for directories that are renamed as a whole. Its bytes are on the disk when
 * this returns; its name is, once its directory is synchronised. */
enum base_status base_write_new_file(const char *path, const char *bytes, size_t length, struct base_error *error);

/* ---- directories (directory.c) ---- */

enum base_status base_directory_make(const char *path, struct base_error *error); /* one that is there is as good */
/* All of its file system is on the disk, what was removed too. Without a journal, a name that is still there after a
 * power cut could else stand for what was made since in its place. */
void base_directory_sync_system(const char *path);
enum base_status base_directory_make_durable(const char *path, struct base_error *error); /* it survives a power cut */
bool base_directory_exists(const char *path);
enum base_status base_directory_rename(const char *from, const char *to, struct base_error *error);
enum base_status base_directory_sync(const char *path, struct base_error *error); /* its names are on the disk */
/* What holds a lock: a file in a directory, which the kernel unlocks when this process ends, however it does. The file
 * names who holds it and stays. */
struct base_lock {
    int descriptor; /* -1: not held */
};
/* BASE_INPUT: another process holds it, and the message says which, or the file cannot be made. *supported false: this
 * file system knows no locks. */
enum base_status base_lock_take(struct base_lock *lock, const char *path, const char *who, bool *supported,
                                struct base_error *error);
void base_lock_release(struct base_lock *lock);
void base_process_name(char *out, size_t size); /* "HOST-PID": no other process that runs has it */
int64_t base_machine_memory_bytes(void);        /* of this machine, as installed; 0: it does not say */
/* Names without "." and "..", sorted by their bytes. */
enum base_status base_directory_list(struct base_arena *arena, const char *path, const char *const **names, int *count,
                                     struct base_error *error);
void base_directory_remove(struct base_arena *arena,
                           const char *path); /* with what is in it, as far as that is allowed */

/* ---- programs (process.c) ---- */

struct base_child {
    const char *program;          /* path, or a name to be found on PATH */
    const char *const *arguments; /* argv, ended by NULL */
    const char *text;             /* its stdin */
    size_t length;
    struct base_text *answer;                    /* what it prints is appended here */
    void (*line)(void *where, const char *line); /* gets each line of its stderr; NULL: its stderr is ours */
    void *where;
    bool deaf; /* SIGTERM, SIGINT and SIGHUP reach us and its own children in its place: for one that would end them */
    /* What says nothing for so long, neither answer nor line, is ended: BASE_RUN. It may change meanwhile; NULL: it may
     * be silent. */
    const int *longest_silence_s;
    void (*silent)(void *where); /* is told of that; NULL: need not be */
    bool patient; /* it answers SIGUSR1 by ending in its own time, or at once where it has not come to its work yet */
    void (*died)(void *where, int number); /* is told of the signal that ended it; NULL: need not be */
};
/* Runs a program until it ends. Its exit code 0-6 is the status, without a message: what it printed says why. Another
 * code or a signal is BASE_RUN, with one. It stands in a process group of its own and is asked to end if this program
 * dies. */
enum base_status base_run_child(const struct base_child *child, struct base_error *error);
/* It has come to its work; said by whoever listens to its lines. One that is patient and has not, a second after it was
 * asked to end, is told to end at once, and a second later killed. */
void base_child_is_ready(void);
/* This program works for the sake of a patient one that it will start: who asks it to end before then is heard, and
 * that one is not started (BASE_RUN). */
void base_child_is_to_come(void);
/* From a signal handler: asks the program that runs to end: in its own time if it is patient, the second time at once,
 * then by force. False: none runs, and none that is to come has to hear of it. Async-signal-safe. */
bool base_stop_child(void);
/* It said why it failed: what is left of it after a second is asked to end, and killed after two. */
void base_child_is_failing(void);
/* A copy of this process that answers questions, one at a time (worker.c). */
struct base_worker {
    /* In the copy: puts the answer into out, whose arena is emptied before the next question. */
    void (*answer)(void *where, const char *question, size_t length, struct base_text *out);
    void *where;
    int patience_s; /* an answer that takes longer is given up; 0: none is */
    long pid;       /* 0: the next question starts a copy of what this process is by then */
    int to, from;
};
/* Appends the answer to out. BASE_INTERNAL: the question ended the copy, or was given up; the next one gets another. */
enum base_status base_worker_ask(struct base_worker *worker, const char *question, size_t length, struct base_text *out,
                                 struct base_error *error);
void base_worker_end(struct base_worker *worker);
bool base_parent_is(const char *name); /* the process that started this one, by its short name */
bool base_may_map(size_t bytes);       /* this process and its children may have that much address space (ulimit -v) */
bool base_may_write(size_t bytes);     /* they may make a file that large (ulimit -f) */
/* They may have so many files open each (ulimit -n): the soft limit is raised to that where the hard one allows it. */
bool base_may_open(int count);
/* ---- a program that answers lines (answerer.c) ---- */

struct base_answerer {
    int64_t pid; /* 0: none runs */
    int to, from;
};
/* Starts this program once more, with arguments (argv, ended by NULL). It goes when this one goes. BASE_RUN: it cannot
 * be started, and *answerer has none. */
enum base_status base_answerer_start(struct base_answerer *answerer, const char *const *arguments,
                                     struct base_error *error);
void base_answerer_end(struct base_answerer *answerer); /* at once; where none runs, nothing */
/* Bytes that end with a line's end. False: it is gone. */
bool base_answerer_tell(const struct base_answerer *answerer, const char *bytes, size_t length);
/* What it writes is appended to line, whole lines; NOTHING: none was complete, and it was silent for wait_ms. */
enum base_heard { BASE_HEARD_LINE, BASE_HEARD_NOTHING, BASE_HEARD_END };
enum base_heard base_answerer_hear(struct base_answerer *answerer, int wait_ms, struct base_text *line);
/* From here on this process opens no file and has at most so many bytes of address space. False: it cannot be. */
bool base_seal(int64_t most_bytes);

/* Path of a program in the folder of the one that is running. BASE_RUN: it is not there. */
enum base_status base_find_beside(struct base_arena *arena, const char *name, const char **out,
                                  struct base_error *error);

/* ---- options (options.c): one table gives parsing, help, man page and completion ---- */

struct base_option {
    const char *name;  /* "--batch-size" */
    const char *value; /* "B" as help shows it, or words to choose from, "none|full|N" (capitals stand for something);
                          NULL: a flag */
    const char *help;
    const char *fallback; /* default as help shows it, or NULL */
};

struct base_arguments {
    const struct base_option *options;
    int option_count;
    const char **values; /* one per option: NULL absent, "" a flag that is set, else its value */
    const char **positional;
    int positional_count;
};
/* arguments start after the command's name. An unknown option or a missing value is BASE_USAGE and names the nearest.
 */
enum base_status base_arguments_parse(struct base_arena *arena, const struct base_option *options, int option_count,
                                      int positional_limit, int argument_count, const char *const *arguments,
                                      struct base_arguments *out, struct base_error *error);
const char *base_argument(const struct base_arguments *arguments,
                          const char *name); /* NULL if absent; asserts that the table has it */

/* ---- hashes (hash.c) ---- */

/* Of bytes, going on from another hash; FNV-1a's constants, a word a step. */
#define BASE_HASH_START UINT64_C(14695981039346656037)
uint64_t base_hash(uint64_t hash, const void *bytes, size_t size_bytes);

/* Where the items of a list are found by hash; the list is the caller's. All zero is an empty one. */
struct base_index {
    uint64_t *hashes; /* by item */
    int *slots;       /* a number more than an item; 0: nothing */
    int slot_count, count;
};
/* The next item with this hash, -1 behind the last; *at begins as the hash, and goes up by one behind each. */
int base_index_next(const struct base_index *index, uint64_t hash, unsigned *at);
void base_index_add(struct base_arena *arena, struct base_index *index, uint64_t hash); /* the list's next item */

/* ---- random numbers (random.c): PCG32, seeded, the same on every machine ---- */

struct base_random {
    uint64_t state, stream;
};
void base_random_seed(struct base_random *random, uint64_t seed);
uint32_t base_random_next(struct base_random *random);
int64_t base_random_below(struct base_random *random, int64_t bound); /* 0 .. bound-1 */

/* ---- JAX's generator (threefry.c): Threefry-2x32, the default implementation, bit for bit ---- */

struct base_key {
    uint32_t words[2];
};
struct base_key base_key_of_seed(int64_t seed);
/* Number `at` of jax.random.split(key, count). */
struct base_key base_key_split(const struct base_key *key, int64_t count, int64_t at);
struct base_key base_key_fold_in(const struct base_key *key, uint32_t data);
uint32_t base_key_bits(const struct base_key *key, int64_t count, int64_t at); /* number `at` of count in all */
float base_gumbel(uint32_t bits); /* what jax.random.gumbel makes of them, to the last bit but for its logarithms */

#endif
