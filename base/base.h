/* base: the foundation of every room. Status codes and messages, memory, text, numbers, strict JSON and CSV, option
 * tables, files, child processes, hashes, seeded random numbers.
 *
 * Rules for the whole project:
 * - A function that can fail on its input returns a base_status and fills a base_error. It sets its outputs last and
 *   leaves them untouched on error. A base_status is also the program's exit code.
 * - Memory comes from an arena that the caller passes in. An arena that cannot grow jumps to the handler that the
 *   command installed (base_arena.exhausted), so no caller checks for NULL. Single allocations are never freed.
 * - Strings are UTF-8 and NUL-terminated. Inputs are never modified.
 * - Internal units are seconds, bytes and FLOP; a name's suffix says which. Only base_format_* makes human-readable
 *   units. */
#ifndef BASE_H
#define BASE_H

#include "base/random.h"

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
    BASE_STOPPED = 6 /* by a signal; its work is saved */
};

struct base_error {
    enum base_status status;
    char text[1200]; /* "place: what is wrong; use what is right"; truncated if too long */
};

/* Fills error with a formatted message and returns status, so that a failure is one `return base_fail(...)`. */
enum base_status base_fail(struct base_error *error, enum base_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "place: " before the message in error and returns its status. */
enum base_status base_fail_in(struct base_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the failure of a call to the caller. */
#define BASE_TRY(call)                                                                                                 \
    do {                                                                                                               \
        enum base_status base_try_ = (call);                                                                           \
        if (base_try_ != BASE_OK) return base_try_;                                                                    \
    } while (0)

struct base_progress {
    const char *what;                   /* is counted: "plans decided" */
    int64_t done, total;                /* total 0: unknown */
    double best_tokens_per_s, gap_frac; /* of a search: 0: none yet; at most this share below the optimum, 1: unknown */
};
typedef void base_tell(void *where, const struct base_progress *progress);

/* ---- memory (arena.c) ---- */

/* A file that stands in memory: what is read under this name in place of any on a disk. */
struct base_held {
    const char *name, *text;
    size_t length;
};
struct base_arena {
    struct base_chunk *chunk; /* newest first */
    char *at, *end;           /* free part of the newest chunk */
    jmp_buf *exhausted;       /* jump target when memory runs out; set it before the first allocation */
    int64_t allocated_bytes;  /* since the last reset */
    int64_t fail_after_count; /* for tests: the allocation with this number fails; 0: none */
    int64_t allocation_count;
    const struct base_held *held; /* NULL: files are read from where they are */
};

void *base_alloc(struct base_arena *arena, size_t count, size_t size_bytes);   /* zeroed, 16-byte aligned */
void *base_reserve(struct base_arena *arena, size_t count, size_t size_bytes); /* not zeroed: all is written */
/* A table with room for at least count + 1 items: the old one, or a copy twice as large. The first has room for 16. */
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
    char *data; /* NUL-terminated after the first put */
    size_t length, capacity;
};

void base_put(struct base_text *text, const char *string);
void base_put_bytes(struct base_text *text, const char *bytes, size_t length);
void base_putf(struct base_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void base_put_double(struct base_text *text, double value); /* %g with the fewest digits that read back exactly */
void base_put_int(struct base_text *text, int64_t value);
void base_put_python_string(struct base_text *text, const char *string); /* quoted for Python and gin */
/* Replaces control characters that a terminal would obey with question marks; keeps line feeds and tabs. */
void base_text_disarm(struct base_text *text);
const char *base_bad_utf8(const char *bytes, size_t length);  /* the first invalid byte, or NULL */
int base_utf8_length(const char *text, const char *text_end); /* of a character, in bytes; 0: invalid by RFC 3629 */
void base_drop_cut_utf8(char *text);   /* removes, in place, characters that a precision such as %.60s has cut */
int base_text_width(const char *text); /* columns on the screen: UTF-8's following bytes take no room */
bool base_ends_in(const char *text, const char *end);
bool base_matches(const char *pattern, size_t length, const char *text); /* * is anything; case does not count */
bool base_lists_like(const char *patterns, const char *text);            /* one that matches, between spaces */
bool base_has_word(int count, const char *const *words, const char *word);
bool base_lists(const char *list, const char *word, size_t length); /* "a b c": words between spaces */

/* ---- numbers (number.c) ---- */

/* The whole text must be one number within the bounds. `what` names it in the message, for example "batch_size". */
enum base_status base_parse_int(const char *text, const char *what, int64_t low, int64_t high, int64_t *out,
                                struct base_error *error);
enum base_status base_parse_double(const char *text, const char *what, double low, double high, double *out,
                                   struct base_error *error);
/* Counts in common notations: "300000000000", "300_000_000_000", "3e11", "300B", "1.4 trillion"; k, M, B (G) and T
 * in either case. The number must be whole; high is at most 1e18. */
enum base_status base_parse_count(const char *text, const char *what, int64_t low, int64_t high, int64_t *out,
                                  struct base_error *error);
/* "1048576", "1MiB", "1.5 GB" -> bytes, at least 0, rounded to the nearest. */
enum base_status base_parse_bytes(const char *text, const char *what, int64_t high, int64_t *out,
                                  struct base_error *error);
/* "4,2,2,1" -> {4,2,2,1}; 1 to limit entries, each within the bounds. */
enum base_status base_parse_ints(const char *text, const char *what, int64_t low, int64_t high, int limit, int64_t *out,
                                 int *count, struct base_error *error);
int base_by_value(const void *a, const void *b);          /* orders doubles for qsort */
int64_t base_ceil_div(int64_t a, int64_t b);              /* b > 0, a >= 0 */
int64_t base_common_divisor(int64_t a, int64_t b);        /* the greatest; of 0 and b, b */
int64_t base_next_divisor(int64_t number, int64_t after); /* the smallest above it, or 0; in sqrt(number) steps */

/* Human-readable forms, only for reports/ and plots/: "30.75 GiB", "1.51 s", "304.4 k", "45 GB/s". Returns buffer. */
enum { BASE_HUMANE = 32 };
char *base_format_bytes(char buffer[BASE_HUMANE], double bytes);
char *base_format_seconds(char buffer[BASE_HUMANE], double seconds);
char *base_format_count(char buffer[BASE_HUMANE], double count);
/* The same in a buffer of their own, which lasts as long as the block that they stand in: for arguments of a call. */
#define base_bytes(bytes) base_format_bytes((char[BASE_HUMANE]){0}, (double)(bytes))
#define base_seconds(seconds) base_format_seconds((char[BASE_HUMANE]){0}, (double)(seconds))
#define base_count(count) base_format_count((char[BASE_HUMANE]){0}, (double)(count))

/* Edits (insert, delete, replace, swap neighbours) between two texts; 64 if either is longer than 64 characters. */
int base_edit_distance(const char *a, const char *b);
/* The name closest to text, or NULL if none is near. */
const char *base_nearest(const char *text, const char *const *names, int count);
/* Our word for another software's word in any spelling (synonyms.csv). what: "option", "key", "column", or the key
 * whose value it is. BASE_TAKEN: only words that are accepted as synonyms. NULL: none. */
enum base_synonym_use { BASE_TAKEN, BASE_SUGGESTED };
const char *base_synonym(const char *what, const char *given, size_t given_length, enum base_synonym_use use);
/* The synonym of the text, or else the nearest name; NULL: none. */
const char *base_meant(const char *what, const char *text, const char *const *names, int count);
/* "what: "given" is unknown; did you mean NEAREST? Use NAME, NAME or NAME" */
enum base_status base_fail_unknown(struct base_error *error, enum base_status status, const char *what,
                                   const char *given, const char *const *names, int count);
/* The index of text in names; otherwise fails with that message as BASE_INPUT. */
enum base_status base_parse_word(const char *text, const char *what, const char *const *names, int count, int *out,
                                 struct base_error *error);

/* ---- JSON (json.c, the only user of cJSON) ---- */

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
    const char *key; /* for a member of an object */
    const char *string;
    double number;
    int count; /* children */
    const struct base_json *child, *next;
};

/* Strict RFC 8259: one document, no trailing text, no duplicate keys, no NUL byte (escaped or not), valid UTF-8,
 * numbers within double range, at most 64 levels. Nothing after text[length - 1] is read. */
enum base_status base_json_parse(struct base_arena *arena, const char *text, size_t length,
                                 const struct base_json **out, struct base_error *error);
/* NULL if absent, or if object is NULL or of another kind. */
const struct base_json *base_json_get(const struct base_json *object, const char *key);
/* The member if it is of that kind; else NULL. */
const struct base_json *base_json_find(const struct base_json *object, const char *key, enum base_json_kind kind);
/* The same; BASE_INPUT: there is none. */
enum base_status base_json_need(const struct base_json *object, const char *key, enum base_json_kind kind,
                                const struct base_json **out, struct base_error *error);
double base_json_number(const struct base_json *object, const char *key); /* 0 if it is none */
double base_json_real(const struct base_json *object, const char *key);   /* NAN if it is none */
const char *base_json_string(const struct base_json *object, const char *key, const char *otherwise);
/* Parses a file of at most that size; errors name it. */
enum base_status base_json_read_file(struct base_arena *arena, const char *path, size_t limit_bytes,
                                     const struct base_json **out, struct base_error *error);
const char *base_json_kind_name(enum base_json_kind kind);
/* The object, NULL: an empty one, with this member in place of one of that name. Shares the other members' values. */
const struct base_json *base_json_with(struct base_arena *arena, const struct base_json *object, const char *key,
                                       const struct base_json *value);
/* The value as a whole number; otherwise fails and names what was found. */
enum base_status base_json_int(const struct base_json *value, const char *what, int64_t low, int64_t high, int64_t *out,
                               struct base_error *error);

/* ---- writing JSON: the writer adds commas and escapes ---- */
enum { BASE_JSON_LEVELS = 96 }; /* deeper than the parser's limit, so that a parsed document fits inside one of ours */
enum base_json_layout { BASE_JSON_INDENTED, BASE_JSON_ONE_LINE };
struct base_json_writer {
    struct base_text *text;
    enum base_json_layout layout;
    int depth;
    bool any[BASE_JSON_LEVELS];     /* something was written at this depth */
    bool inline_[BASE_JSON_LEVELS]; /* this array or object is on one line */
    bool after_key;
};
void base_json_open(struct base_json_writer *writer, char bracket);        /* '{' or '[' */
void base_json_open_inline(struct base_json_writer *writer, char bracket); /* the whole array or object on one line */
void base_json_close(struct base_json_writer *writer, char bracket);       /* '}' or ']' */
void base_json_key(struct base_json_writer *writer, const char *key);
void base_json_put_string(struct base_json_writer *writer, const char *value); /* NULL: null; not UTF-8: U+FFFD */
void base_json_put_int(struct base_json_writer *writer, int64_t value);
void base_json_put_double(struct base_json_writer *writer, double value); /* infinities and NaN become null */
void base_json_put_bool(struct base_json_writer *writer, bool value);
void base_json_put_null(struct base_json_writer *writer);
void base_json_put_value(struct base_json_writer *writer, const struct base_json *value);
/* A key and its value. */
void base_json_member_string(struct base_json_writer *writer, const char *key, const char *value);
void base_json_member_int(struct base_json_writer *writer, const char *key, int64_t value);
void base_json_member_double(struct base_json_writer *writer, const char *key, double value);
void base_json_member_bool(struct base_json_writer *writer, const char *key, bool value);
void base_json_member_value(struct base_json_writer *writer, const char *key, const struct base_json *value);
void base_json_member_open(struct base_json_writer *writer, const char *key, char bracket);
void base_json_member_open_inline(struct base_json_writer *writer, const char *key, char bracket);
/* Arrays on one line. */
void base_json_put_ints(struct base_json_writer *writer, const int *values, int64_t count);
void base_json_member_ints(struct base_json_writer *writer, const char *key, const int *values, int64_t count);
void base_json_member_int64s(struct base_json_writer *writer, const char *key, const int64_t *values, int64_t count);
void base_json_member_doubles(struct base_json_writer *writer, const char *key, const double *values, int64_t count);
void base_json_member_strings(struct base_json_writer *writer, const char *key, const char *const *values,
                              int64_t count);

/* Numeric fields of a struct as members of an object; writing and reading share one table. */
enum base_number_type { BASE_INT /* int, unsigned or an enum */, BASE_INT64, BASE_DOUBLE };
struct base_json_field {
    const char *key;
    enum base_number_type type;
    size_t offset;
};
void base_json_put_fields(struct base_json_writer *writer, const struct base_json_field *fields, int count,
                          const void *record);
/* Members that are absent or not numbers become 0; object may be NULL. */
void base_json_read_fields(const struct base_json *object, const struct base_json_field *fields, int count,
                           void *record);

/* ---- CSV (csv.c): RFC 4180, a header line, one row in memory at a time ---- */

struct base_csv {
    const char *path; /* for messages */
    int file;         /* file descriptor; -1 when reading from text */
    const char *text; /* unread input, NUL-terminated; for a file, the current block */
    const char *text_end;
    char *window; /* the block of a file */
    int failed;   /* errno of a failed read */
    char *buffer; /* the current row, fields NUL-terminated in place */
    size_t buffer_length, buffer_capacity;
    const char **names; /* header */
    int column_count;
    const char **fields; /* current row */
    int field_count;     /* of the current row; may differ from column_count */
    int field_capacity;
    int64_t line_number; /* where the current row starts, from 1 */
    int64_t next_line_number;
    struct base_arena *arena;
};
/* Opens a file (or a NUL-terminated text) and reads its header. */
enum base_status base_csv_open(struct base_csv *csv, struct base_arena *arena, const char *path,
                               struct base_error *error);
enum base_status base_csv_open_text(struct base_csv *csv, struct base_arena *arena, const char *name, const char *text,
                                    struct base_error *error);
/* Reads the next row; *more is false at the end. Rows may be ragged: compare field_count. */
enum base_status base_csv_next(struct base_csv *csv, bool *more, struct base_error *error);
int base_csv_column(const struct base_csv *csv, const char *name);  /* -1 if absent */
const char *base_csv_field(const struct base_csv *csv, int column); /* "" if absent */
void base_csv_close(struct base_csv *csv);
/* Quotes the field if needed; an apostrophe precedes what a spreadsheet would run as a formula. */
void base_put_csv(struct base_text *text, const char *field);

/* ---- tables built into the program (embedded_table.c): CSV files as constants ---- */

struct base_table {
    const char *name;         /* "nccl.csv", for messages */
    const char *const *cells; /* row by row, header first */
    int column_count, row_count;
};
int base_table_column(const struct base_table *table, const char *name);                   /* -1 if absent */
const char *base_table_field(const struct base_table *table, int row, int column);         /* "" if absent */
const char *base_table_value(const struct base_table *table, int row, const char *column); /* "" if absent */

/* ---- large pages (heap.c): they change speed, not results ---- */

void base_heap_begin(void); /* sets up the heap of a short-lived program; call before the first allocation */
/* Asks for large pages for untouched memory; never affects a page beyond its end. */
void base_prefer_large_pages(void *at, size_t bytes);

/* ---- files (file.c) ---- */

bool base_is_file(const char *path);   /* a regular file, so that reading it ends */
bool base_is_there(const char *path);  /* anything, including a dangling link */
bool base_is_stream(const char *path); /* a pipe, socket or device: opening it may block and has side effects */
enum base_status base_read_file(struct base_arena *arena, const char *path, size_t limit_bytes, const char **text,
                                size_t *length, struct base_error *error);
/* The same, but only for regular files: a pipe or a device could block its reader, so it is rejected. */
enum base_status base_read_stored_file(struct base_arena *arena, const char *path, size_t limit_bytes,
                                       const char **text, size_t *length, struct base_error *error);

/* An output file is written under a temporary name beside its target, with the target's permissions, and renamed on
 * commit. An abandoned file leaves no trace; a committed one survives a power failure. */
struct base_output {
    FILE *file;
    char path[3072], partial[3104];
};
enum base_status base_output_open(struct base_output *output, const char *path, struct base_error *error);
enum base_status base_output_commit(struct base_output *output, struct base_error *error);
void base_output_abandon(struct base_output *output);
void base_output_abandon_all(void); /* removes all partial files of this thread */
void base_output_unlink_all(void);  /* of all threads, for signal handlers: calls only async-signal-safe functions */
enum base_status base_write_file(const char *path, const char *bytes, size_t length, struct base_error *error);
/* Writes a new file in place, for directories that are renamed as a whole. On return its bytes are on disk; its name
 * is only after its directory is synchronised. */
enum base_status base_write_new_file(const char *path, const char *bytes, size_t length, struct base_error *error);

/* ---- directories (directory.c) ---- */

enum base_status base_directory_make(const char *path, struct base_error *error); /* succeeds if it exists */
/* Writes the whole file system to disk, removals included. Without a journal, a removed name that survives a power
 * failure could refer to newer data. */
void base_directory_sync_system(const char *path);
enum base_status base_directory_make_durable(const char *path, struct base_error *error); /* survives a power failure */
bool base_directory_exists(const char *path);
enum base_status base_directory_rename(const char *from, const char *to, struct base_error *error);
enum base_status base_directory_sync(const char *path, struct base_error *error); /* writes its names to disk */
/* A file that the kernel unlocks when this process ends, in any way. It names the holder and stays. */
struct base_lock {
    int descriptor; /* -1: not held */
};
/* BASE_INPUT: another process holds it (the message names which), or it cannot be made. *supported: there are locks. */
enum base_status base_lock_take(struct base_lock *lock, const char *path, const char *who, bool *supported,
                                struct base_error *error);
void base_lock_release(struct base_lock *lock);
void base_process_name(long process, char *out, size_t size); /* "HOST-PID", unique among those that run; 0: this one */
bool base_process_lives(long process);                        /* on this machine, and is no zombie */
int64_t base_machine_memory_bytes(void);                      /* installed memory of this machine; 0: unknown */
/* Names without "." and "..", sorted bytewise. */
enum base_status base_directory_list(struct base_arena *arena, const char *path, const char *const **names, int *count,
                                     struct base_error *error);
void base_directory_remove(struct base_arena *arena, const char *path); /* with its contents, where permitted */

/* ---- child processes (process.c) ---- */

struct base_child {
    const char *program;          /* path, or a name to look up in PATH */
    const char *const *arguments; /* argv, terminated by NULL */
    const char *text;             /* its stdin */
    size_t length;
    struct base_text *answer;                    /* its stdout is appended here */
    void (*line)(void *where, const char *line); /* gets each line of its stderr; NULL: it inherits our stderr */
    void *where;
    bool deaf; /* its children handle SIGTERM, SIGINT and SIGHUP; these signals would only kill the program itself */
    /* A child that prints nothing for this long is ended: BASE_RUN. May change while it runs; NULL: no limit. */
    const int *longest_silence_s;
    void (*silent)(void *where); /* called when that happens; may be NULL */
    bool alone;   /* run it in a separate network namespace if the system allows it; otherwise a line says so */
    bool patient; /* on SIGUSR1 it finishes in its own time, or ends at once if its work has not started */
    void (*died)(void *where, int number); /* with the signal that ended it, or N of the code 128 + N; may be NULL */
};
/* Runs a program until it ends. Exit codes 0 to 6 are the status, without a message: its own output says why.
 * Another code, or a signal, is BASE_RUN with a message. The program runs in its own process group and ends if this
 * program dies. */
enum base_status base_run_child(const struct base_child *child, struct base_error *error);
/* The child has started its work; call this from the line callback. A patient child that has not started is told to
 * stop at once one second after it was asked to end, and killed a second later. */
void base_child_is_ready(void);
/* This program will start a patient child later. A request to end before then is remembered, and the child is not
 * started (BASE_RUN). */
void base_child_is_to_come(void);
/* For signal handlers: asks the running child to end. A patient child first ends in its own time; a second request
 * ends it at once, then by force. False: no child runs, and none is announced. Async-signal-safe. */
bool base_stop_child(void);
/* The child has reported its failure: what is left of it is asked to end after one second and killed after two. */
void base_child_is_failing(void);
/* Moves this process, and what it starts, to a network namespace with only a loopback (own_network.c). False: not
 * allowed, and nothing has changed. */
bool base_leave_network(void);
bool base_parent_is(const char *name); /* short name of this process's parent */
bool base_may_map(size_t bytes);       /* this process and its children may map that much address space (ulimit -v) */
bool base_may_write(size_t bytes);     /* they may write a file that large (ulimit -f) */
/* They may open so many files each (ulimit -n); raises the soft limit if the hard limit allows it. */
bool base_may_open(int count);

/* ---- processes that answer line by line (answerer.c) ---- */

struct base_answerer {
    int64_t pid; /* 0: none runs */
    int to, from;
};
/* Starts this program again, with arguments (argv, terminated by NULL). It ends when this one ends. BASE_RUN: it
 * cannot be started; *answerer stays empty. */
enum base_status base_answerer_start(struct base_answerer *answerer, const char *const *arguments,
                                     struct base_error *error);
void base_answerer_end(struct base_answerer *answerer); /* kills it; no effect if none runs */
/* Sends bytes that end with a line feed. False: the process is gone. */
bool base_answerer_tell(const struct base_answerer *answerer, const char *bytes, size_t length);
/* Appends whole lines to line. NOTHING: no line was complete, and it was silent for wait_ms. */
enum base_heard { BASE_HEARD_LINE, BASE_HEARD_NOTHING, BASE_HEARD_END };
enum base_heard base_answerer_hear(struct base_answerer *answerer, int wait_ms, struct base_text *line);
/* A copy of this process that answers one question, a line, at a time. */
struct base_worker {
    /* Called in the copy: writes the answer, whole lines, to out, whose arena is reset before the next question. */
    void (*answer)(void *where, const char *question, size_t length, struct base_text *out);
    void *where;
    int patience_s;            /* time limit of an answer; 0: none */
    struct base_answerer copy; /* none: the next question forks this process as it is then */
};
/* Appends the answer to out. BASE_INTERNAL: the copy died or timed out; the next question starts a new copy. */
enum base_status base_worker_ask(struct base_worker *worker, const char *question, size_t length, struct base_text *out,
                                 struct base_error *error);
void base_worker_end(struct base_worker *worker);
/* From now on this process opens no file and its address space is limited. False: the limits cannot be set. */
bool base_seal(int64_t most_bytes);

/* Path of a program in the directory of the running one. BASE_RUN: not found. */
enum base_status base_find_beside(struct base_arena *arena, const char *name, const char **out,
                                  struct base_error *error);

/* ---- options (options.c): one table for parsing, help, man page and completion ---- */

struct base_option {
    const char *name;  /* "--batch-size" */
    const char *value; /* "B" as help shows it, or the accepted words, "none|full|N" (capitals are placeholders); NULL:
                          a flag */
    const char *help;
    const char *fallback; /* default as help shows it, or NULL */
};

struct base_arguments {
    const struct base_option *options;
    int option_count;
    const char **values; /* one per option: NULL absent, "" a flag that is set, otherwise its value */
    const char **positional;
    int positional_count;
};
/* arguments start after the command's name. BASE_USAGE: an unknown option (the message names the nearest) or a
 * missing value. */
enum base_status base_arguments_parse(struct base_arena *arena, const struct base_option *options, int option_count,
                                      int positional_limit, int argument_count, const char *const *arguments,
                                      struct base_arguments *out, struct base_error *error);
const char *base_argument(const struct base_arguments *arguments, const char *name); /* NULL: absent; it must exist */

/* ---- hashes (hash.c) ---- */

/* Continues another hash over these bytes; FNV-1a's constants, one word per step. */
#define BASE_HASH_START UINT64_C(14695981039346656037)
uint64_t base_hash(uint64_t hash, const void *bytes, size_t size_bytes);

/* A hash index of the caller's list. An empty index is all zero. */
struct base_index {
    uint64_t *hashes; /* by item */
    int *slots;       /* item number + 1; 0: empty */
    int slot_count, count;
};
/* The next item with this hash, -1 after the last. *at starts as the hash and increases by one per call. */
int base_index_next(const struct base_index *index, uint64_t hash, unsigned *at);
void base_index_add(struct base_arena *arena, struct base_index *index, uint64_t hash); /* adds the list's next item */

/* ---- memo.c: what was worked out before, by key (any bytes). A key is begun, looked for, and stored under. ---- */

struct base_memo {
    struct base_arena *arena; /* of the entries, and of what is stored */
    struct base_index index;
    struct base_memo_entry *entries;
    int capacity;
    size_t key_length, hashed_length; /* key_hash is of the key when it was so long */
    uint64_t key_hash;
    bool key_overflows; /* too long to be looked up: worked out anew each time */
    char key[4096];     /* under construction */
};
void base_memo_begin(struct base_memo *memo, unsigned char kind); /* the first byte of the key */
void base_memo_text(struct base_memo *memo, const char *text);    /* NULL as "" */
void base_memo_bytes(struct base_memo *memo, const void *bytes, size_t length);
void *base_memo_find(struct base_memo *memo);              /* what stands under the key, or NULL */
void base_memo_store(struct base_memo *memo, void *value); /* under the key that was last looked for */
void base_memo_forget(struct base_memo *memo);             /* when its arena is emptied */

#endif
