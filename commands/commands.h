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
    const char *usage;      /* "mesh --topology T …"; one line a form of the command */
    const char *examples;   /* command lines, two at least; a test runs them, in a folder that holds a copy of examples/ */
    const struct base_option *options;
    int option_count;
    int positional_limit;
    /* For completion: what the first argument can be, separated by spaces, or "@topology" or "@model"; NULL: a file. */
    const char *(*first_words)(struct base_arena *arena);
    commands_run *run;
    bool writes_out;        /* the command itself writes what --out names (a table, a picture); else the document goes there */
};

/* Every file of this room offers its commands as one of these; commands.c lists them all. */
extern const struct commands_command commands_mesh, commands_layout, commands_topology, commands_rules, commands_models, commands_params,
    commands_predict, commands_sweep, commands_batch, commands_plot, commands_partition;

const struct commands_command *const *commands_all(int *count);

/* Parses the arguments after the command's name, runs it, and writes --out. Shared by the command line and `batch`.
 * BASE_NO_FIT comes with its document. */
enum base_status commands_execute(struct commands_context *context, const char *name, int argument_count, const char *const *arguments,
                                  struct base_text *out, struct base_error *error);
/* Reads what --profile names into the cache; every command that prices has the option. */
enum base_status commands_profile(struct commands_context *context, const struct base_arguments *arguments, struct base_error *error);

/* ---- what the tables say (manual.c) ---- */

void commands_help(struct base_text *out);                                             /* meshwright --help */
void commands_help_on(const struct commands_command *command, struct base_text *out);  /* meshwright COMMAND --help */
void commands_man(const char *version, struct base_text *out);                         /* the man page, as roff */
enum base_status commands_bash_completion(struct base_text *out, struct base_error *error);

/* --params-axes-names-override: a JSON list, or the file that holds one. NULL where it is absent. */
enum base_status commands_overrides_text(struct commands_context *context, const struct base_arguments *arguments, const char **out, struct base_error *error);
/* The two options that change what is known of parameters. */
#define COMMANDS_PARAMETERS                                                                                                              \
    {"--params-axes-names-override", "FILE.json", "logical axes for parameters: a list of [pattern of paths, [axis, …] or null]", NULL}, \
    {"--adafactor", "OPTIONS", "as T5X's gin names them: factored=0,beta1=0.9,…, or a JSON object", "T5X's"}

/* What COMMANDS_MESH asked for; nothing that divides the model is BASE_USAGE. */
struct topo_mesh_request;
enum base_status commands_mesh_request(const struct base_arguments *arguments, struct topo_mesh_request *request, struct base_error *error);
/* The options that say which mesh on which devices. */
#define COMMANDS_MESH                                                                                                            \
    {"--topology", "T", "what the devices are: v4-512, v4:4x8x8, a100-80g:32x8, local:4, …", NULL},                               \
    {"--model-parallel-submesh", "X,Y,Z,C", "the box of devices that holds one copy of the model; [node,local] on GPUs", NULL},   \
    {"--num-partitions", "N", "how many devices hold one copy, placed by T5X's table", NULL},                                     \
    {"--ici-mesh-shape", "R,D,M", "replica, data and model inside a slice; with --dcn-mesh-shape", NULL},                         \
    {"--dcn-mesh-shape", "R,D,M", "replica, data and model over slices", NULL},                                                   \
    {"--tile-by-host-if-needed", "0|1", "0 lists devices without regard to hosts", "1"}

/* "--json" and "--out" stand in every table through this. */
#define COMMANDS_COMMON                                                             \
    {"--json", NULL, "one JSON document on stdout, nothing else there", NULL},      \
    {"--out", "FILE", "write the document to FILE (beside it, then renamed)", NULL}, \
    {"--help", NULL, "this text", NULL}

#endif
