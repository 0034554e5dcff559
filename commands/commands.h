/* commands: one function a subcommand. It reads its arguments, asks the rooms, and writes one document: text for
 * people, or JSON. It never prints, exits or looks at the clock: meshwright.c does. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "base/base.h"

struct commands_context {
    struct base_arena *arena;        /* for this one command (batch: this one question); reset by the caller */
    struct sim_cache *cache;         /* what questions share: programs, shardings, routes; lives as long as the process */
    bool json;                       /* the document is JSON */
    bool compact;                    /* JSON on one line (batch) */
    /* Where `batch` sends an answer at once, since the asker may wait for it. */
    enum base_status (*answer)(void *where, const char *bytes, size_t length, struct base_error *error);
    void *answer_where;
    void (*progress)(void *where, const char *what, int64_t done, int64_t total); /* NULL: nobody looks */
    void *progress_where;
};

typedef enum base_status commands_run(struct commands_context *context, const struct base_arguments *arguments,
                                      struct base_text *out, struct base_error *error);

struct commands_command {
    const char *name;       /* "mesh" */
    const char *summary;    /* one line for `meshwright --help` */
    const char *usage;      /* "mesh --topology T …" */
    const char *examples;   /* two lines, for --help */
    const struct base_option *options;
    int option_count;
    int positional_limit;
    commands_run *run;
    bool writes_out;        /* the command itself writes what --out names (a table, a picture); else the document goes there */
};

/* Every file of this room offers its commands as one of these; commands.c lists them all. */
extern const struct commands_command commands_mesh, commands_topology, commands_rules, commands_models, commands_params,
    commands_predict, commands_sweep, commands_batch, commands_plot;

const struct commands_command *const *commands_all(int *count);

/* Parses the arguments after the command's name, runs it, and writes --out. Shared by the command line and `batch`.
 * BASE_NO_FIT comes with its document. */
enum base_status commands_execute(struct commands_context *context, const char *name, int argument_count, const char *const *arguments,
                                  struct base_text *out, struct base_error *error);
/* Reads what --profile names into the cache; every command that prices has the option. */
enum base_status commands_profile(struct commands_context *context, const struct base_arguments *arguments, struct base_error *error);
/* The text of `meshwright --help`. */
void commands_help(struct base_text *out);

/* "--json" and "--out" stand in every table through this. */
#define COMMANDS_COMMON                                                             \
    {"--json", NULL, "one JSON document on stdout, nothing else there", NULL},      \
    {"--out", "FILE", "write the document to FILE (beside it, then renamed)", NULL}, \
    {"--help", NULL, "this text", NULL}

#endif
