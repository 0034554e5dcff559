/* commands: one function a subcommand. It reads its arguments, asks the rooms, and writes one document: text for
 * people, or JSON. It never prints, exits or looks at the clock: meshwright.c does. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "base/base.h"
#include "model/model.h"

#include <signal.h>

struct commands_context {
    struct base_arena *arena; /* for this one command (batch: this one question); reset by the caller */
    struct sim_cache *cache;  /* what questions share: programs, shardings, routes; lives as long as the process; NULL
                                 for commands that price nothing */
    bool json;                /* the document is JSON */
    enum base_json_layout layout; /* of JSON: batch answers in one line */
    bool answers;                 /* set by a command: its document is worth showing although it failed */
    bool page;                    /* the document becomes a page: JSON with all that a page shows */
    /* Where `batch` sends an answer at once, since the asker may wait for it. */
    enum base_status (*answer)(void *where, const char *bytes, size_t length, struct base_error *error);
    void *answer_where;
    void (*progress)(void *where, const char *what, int64_t done, int64_t total); /* NULL: nobody looks */
    void *progress_where;
    double (*now_s)(void *where); /* a clock, for limits and for what took how long; NULL: there is none */
    bool (*stop)(void *where);    /* whether the user has asked to end early, with what there is; NULL: nobody can */
    void *clock_where;
    void (*note)(void *where, const char *text); /* what was passed over in an input; NULL: nobody looks */
    void *note_where;
    const char *gin_search_path; /* --gin-search-path of this command, or NULL */
    const char *beside_plan;     /* " --profile FILE" and what else of its options an answer goes by beside the plan */
    bool lists_notes;            /* its --notes */
    bool searches;               /* a degree of parallelism that nobody gives is searched (tune) */
    int64_t micro_batch;   /* sequences of each replica that a search is held to, by --micro-batch-size; 0: none */
    bool sealed;           /* `batch` for a page: see base_seal */
    bool computes;         /* this command's answer holds values that a plan computes, not its price alone */
    const char **warnings; /* of this command, for its answer (warnings.c) */
    int warning_count;
    bool launches; /* its text is a file that a shell or Python reads: warnings stand beside it */
    bool launched; /* an mpirun or srun started this process as this rank of several; what is no run does not care */
    int launched_rank;
    bool has_network;           /* Open MPI is told by the environment which one to use between hosts */
    const char *launch_problem; /* why ranks that were started so cannot find each other; NULL: they can */
    bool silent;                /* set by a command: another rank speaks for this one */
    const volatile sig_atomic_t *stop_signal; /* the signal that asked a run to end; 0, or NULL: none */
};

typedef enum base_status commands_run(struct commands_context *context, const struct base_arguments *arguments,
                                      struct base_text *out, struct base_error *error);

struct commands_command {
    const char *name;  /* "mesh" */
    const char *alias; /* another name that is answered but not listed, by alias_run; or NULL */
    commands_run *alias_run;
    const char *summary; /* one line for `meshwright --help` */
    const char *usage;   /* "mesh --topology T …"; one line a form of the command */
    const char
        *examples; /* command lines, two at least; a test runs them, in a folder that holds a copy of examples/ */
    const struct base_option *options; /* rows of COMMANDS_PLAN and COMMANDS_PLAN_KEY stand for others */
    int option_count;
    int positional_limit;
    /* For completion: what the first argument can be, separated by spaces, or "@topology" or "@model"; NULL: a file. */
    const char *(*first_words)(struct base_arena *arena);
    commands_run *run;
    const char *endings; /* of names that --out may have: "json txt html"; NULL: json and txt. .html is a page */
    bool computes;       /* it runs the plan: what changes values alone is worth a warning */
    bool warns;          /* its document has a place for warnings: a text, or an object that is no plan */
    const char *(*input)(struct base_arena *arena); /* what help says of what it reads; NULL: nothing */
    bool writes_out; /* the command itself writes what --out names (a table, a picture); else the document goes there */
};

/* Every file of this room offers its commands as one of these; command_table.c lists them all. */
extern const struct commands_command commands_mesh, commands_layout, commands_topology, commands_rules, commands_models,
    commands_predict, commands_tune, commands_compare, commands_run_plan, commands_report, commands_sweep,
    commands_import, commands_export, commands_batch, commands_plot, commands_calibrate, commands_verify,
    commands_checkpoint, commands_collective, commands_infer, commands_serve;

/* Lists the chips and accelerator types (topologies_command.c), the parameters of a model (params_command.c). */
commands_run commands_list_topologies, commands_list_parameters;

const struct commands_command *const *commands_all(int *count);
/* A command's options, those of a plan put in where its table asks for them. */
const struct base_option *commands_options(struct base_arena *arena, const struct commands_command *command,
                                           int *count);

/* Parses the arguments after the command's name, runs it, and writes --out. Shared by the command line and `batch`.
 * BASE_NO_FIT comes with its document. */
enum base_status commands_execute(struct commands_context *context, const char *name, int argument_count,
                                  const char *const *arguments, struct base_text *out, struct base_error *error);
/* One question of `batch`, as libmeshwright asks them, too: {"exit":…,"result":…} on a line. Returns that exit. */
enum base_status commands_answer(struct sim_cache *cache, struct base_arena *arena, int count, const char *const *words,
                                 struct base_text *out);
/* Reads what --profile names into the cache; every command that prices has the option. */
enum base_status commands_profile(struct commands_context *context, const struct base_arguments *arguments,
                                  struct base_error *error);
/* And what --network says, over it; NULL: nothing. */
enum base_status commands_network(struct commands_context *context, const char *network, struct base_error *error);

/* ---- the form of a document (form.c, page.c) ---- */

/* The ending of --out's name decides between text, JSON and a page (context->json, ->page); one that the command does
 * not write is refused, and so is --json with another. A name without an ending is as asked for. */
enum base_status commands_form(struct commands_context *context, const struct commands_command *command,
                               const struct base_arguments *arguments, struct base_error *error);
bool commands_ends_in(const char *path, const char *endings); /* in one of "json txt" */
/* Turns a JSON document into its page. */
enum base_status commands_put_page(struct commands_context *context, const char *name, int argument_count,
                                   const char *const *arguments, struct base_text *out, struct base_error *error);

/* What will be written when the work is through can be written: asked before it begins. A pipe or a device is left
 * alone, since whoever reads it would see it end. */
const char *commands_option_given(const struct base_arguments *arguments, const char *name); /* NULL: it is not */
enum base_status commands_check_outputs(const struct commands_context *context, const struct base_arguments *arguments,
                                        struct base_error *error);
/* Writes the document to the file that --out names and empties it; without --out it stays. */
enum base_status commands_write_out(const struct base_arguments *arguments, struct base_text *out,
                                    struct base_error *error);
/* What is said of a picture that was written to path: its title and subtitle, or JSON with them. */
struct plots_picture;
void commands_put_picture(const struct commands_context *context, const char *kind, const char *path,
                          const struct plots_picture *picture, struct base_text *out);

/* ---- a document on a terminal (terminal.c) ---- */

struct commands_terminal {
    bool colour, blocks; /* blocks: it shows UTF-8 */
};
void commands_dress(const struct base_text *document, const struct commands_terminal *terminal, struct base_text *out);
/* A message to the user on a line of its own. It may quote its input: what a terminal would obey becomes a question
 * mark. */
void commands_say(FILE *stream, const char *what);

/* ---- plans in files (plan_file.c) ---- */

struct sim_plan_text;
struct sim_gin_plan;
struct sim_plan;
/* BASE_INPUT: the format is a run file of T5X, and the plan's prediction rests on what T5X lacks (gin_command.c). */
enum base_status commands_refuse_drops(struct base_arena *arena, const char *format, const struct sim_plan *plan,
                                       struct base_error *error);
/* A plan from JSON, or from gin if the name ends so, read as the options of COMMANDS_GIN say. */
enum base_status commands_read_plan(struct commands_context *context, const char *path, struct sim_plan_text *out,
                                    struct base_error *error);
/* A plan from what stands on the command line: a plan's JSON, a model's config.json, gin with T5X's own options, or
 * files of other software (of the kind from, or as their content says) with KEY=VALUE behind them. */
enum { COMMANDS_MOST_FILES = 64 };
enum base_status commands_read_files(struct commands_context *context, const struct base_arguments *arguments,
                                     const char *from, struct sim_gin_plan *out, struct base_error *error);
/* How a gin file, which has no word for it, says the topology; NULL: the plan of that file has one, or is no gin. */
const char *commands_topology_wanted(struct commands_context *context, const char *path,
                                     const struct sim_plan_text *plan);
#define COMMANDS_GIN                                                                                                   \
    {"--gin-search-path", "DIR", "where included gin files are; several directories are joined by commas",             \
     "here, and beside the file"},                                                                                     \
    {                                                                                                                  \
        "--notes", NULL, "list what a gin file says and no plan holds, line by line", NULL                             \
    }

/* ---- what an answer's reader has to know of its input (warnings.c) ---- */

struct model_gin;
/* What the answer does otherwise than it was asked: stands in the answer itself, once. */
void commands_warn(struct commands_context *context, const char *text);
/* What was passed over and changes no answer. */
void commands_note(const struct commands_context *context, const char *text);
/* Both of a gin file; several notes are counted, or each is listed. */
enum commands_notes { COMMANDS_NOTES_COUNTED, COMMANDS_NOTES_LISTED };
void commands_note_gin(struct commands_context *context, const struct model_gin *gin, enum commands_notes notes);
/* Both of a model that is @FILE.gin; of another, nothing. */
void commands_note_model(struct commands_context *context, const char *model);
struct model_config;
struct sim_prediction;
/* Of a software_version that no row begins; arena: of the search for one, a warning is copied. */
void commands_warn_of_version(struct commands_context *context, struct base_arena *arena,
                              const struct sim_plan_text *text);
/* Of what takes time or memory otherwise and the plan's software cannot be told (reports_untold). */
void commands_warn_of_untold(struct commands_context *context, struct base_arena *arena, const struct sim_plan *plan);
/* Of copies of weights that Megatron-LM's engine keeps beside those that are counted. */
void commands_warn_of_copies(struct commands_context *context, const struct sim_plan *plan,
                             const struct sim_prediction *p);
/* That a training step is faster than most that are measured; BASE_INTERNAL: it is faster than any could be. */
void commands_warn_of_speed(struct commands_context *context, const struct sim_plan *plan,
                            const struct sim_prediction *p);
enum base_status commands_refuse_impossible(const struct commands_context *context, const struct sim_plan *plan,
                                            const struct sim_prediction *p, struct base_error *error);
/* Says that the batch does not divide, which the software of PyTorch would refuse. */
void commands_note_undivided(struct commands_context *context, const struct sim_plan *plan);
/* Of experts that rules leave whole on every device, or that are T5X's under other software. */
void commands_warn_of_experts(struct commands_context *context, const struct sim_plan_text *text,
                              const struct model_config *config);
/* What a plan leaves out of what was asked. */
void commands_warn_of_plan(struct commands_context *context, const struct sim_plan_text *text,
                           const struct model_config *config);
/* Puts the warnings into the document; where it has no place for them they are notes. */
void commands_put_warnings(struct commands_context *context, const struct commands_command *command,
                           struct base_text *out);

/* ---- what the tables say (manual.c) ---- */

const struct base_option *commands_global(int *count); /* options that stand before any command */
/* meshwright --help, and meshwright COMMAND --help. */
void commands_help(struct base_text *out);
void commands_help_on(const struct commands_command *command, struct base_text *out);
/* Of a command with many options those that are mostly used, by groups; --help all shows the others, too. */
void commands_help_briefly(const struct commands_command *command, struct base_text *out);
/* The table itself, for programs that write bindings (command_options.c): {"command", "summary", "options": [{"name",
 * "value", "help", "default", "type"}]}. type stands at keys of a plan: whole, real, word (with its "words"), text. */
void commands_help_json(const struct commands_command *command, struct base_text *out);
void commands_man(const char *version, struct base_text *out); /* the man page, as roff */
void commands_bash_completion(struct base_text *out);

/* --params-axes-names-override: a JSON list, or the file that holds one. NULL where it is absent. */
enum base_status commands_overrides_text(struct commands_context *context, const struct base_arguments *arguments,
                                         const char **out, struct base_error *error);
/* A plan: the file that stands as the first argument, if there is one, and what the options of COMMANDS_PLAN say over
 * it. lengths_default is what --task-feature-lengths is when nothing says it, or NULL. BASE_USAGE: neither a file nor
 * all that a plan needs. */
enum base_status commands_plan_text(struct commands_context *context, const struct base_arguments *arguments,
                                    const char *lengths_default, struct sim_plan_text *out, struct base_error *error);
/* Has a message about a plan's key name the option that gave its value; false: no option did. */
bool commands_blame_option(const struct base_arguments *arguments, struct base_error *error);
/* Says of a refused plan where the value that is wrong stands: in an option of the command line, or in the plan's file.
 * Returns error's status. */
enum base_status commands_plan_refused(const struct base_arguments *arguments, struct base_error *error);
/* What the options of COMMANDS_PLAN say, over what the plan has. */
enum base_status commands_plan_options(struct commands_context *context, const struct base_arguments *arguments,
                                       struct sim_plan_text *plan, struct base_error *error);
/* commands_plan_text without that check: the command has defaults of its own. */
enum base_status commands_plan_given(struct commands_context *context, const struct base_arguments *arguments,
                                     const char *lengths_default, struct sim_plan_text *out, struct base_error *error);
#define COMMANDS_PLAN_KEY(name)                                                                                        \
    {                                                                                                                  \
        name, NULL, NULL, NULL                                                                                         \
    } /* as the table of a plan's keys has it (sim/plan/plan_keys.c) */
/* How much of a step: as the option says, or else the plan. */
#define COMMANDS_STEP                                                                                                  \
    {                                                                                                                  \
        "--step", "train|gradient|forward|evaluate|encode|prefill|decode|generate|score",                              \
            "how much of the step; from encode on: of inference", "the plan's, or train"                               \
    }
enum base_status commands_read_step(const struct base_arguments *arguments, struct sim_plan_text *text,
                                    enum model_step *out, struct base_error *error);
#define COMMANDS_PLAN COMMANDS_PLAN_KEY(NULL), COMMANDS_DEGREES, COMMANDS_GIN /* those of all keys */

/* The command line that asks for the plan's prediction again, with what this command was told beside the plan. */
const char *commands_again(struct commands_context *context, const struct sim_plan *plan);
/* What people say of degrees and batches, put into the plan's own keys (degrees.c). */
enum base_status commands_take_degrees(struct commands_context *context, const struct base_arguments *arguments,
                                       struct sim_plan_text *plan, struct base_error *error);
/* What --topology, or --gpus and --gpu, say; NULL: nothing does. */
enum base_status commands_topology_given(struct base_arena *arena, const struct base_arguments *arguments,
                                         const char **out, struct base_error *error);
#define COMMANDS_DEGREES                                                                                               \
    {"--gpus", "N", "GPUs, or TPU chips, instead of --topology; with --gpu", NULL},                                    \
        {"--gpu", "NAME", "their kind: h100, a100-80g, v5e", NULL},                                                    \
        {"--dp", "N", "data-parallel replicas; -1: what the other degrees leave", NULL},                               \
        {"--fsdp", "N", "devices that parameters are sharded over (rules zero3; MaxText's fsdp axis); -1 fills",       \
         NULL},                                                                                                        \
        {"--micro-batch-size", "B", "sequences that a data-parallel device takes at once; of MaxText: a device",       \
         NULL},                                                                                                        \
    {                                                                                                                  \
        "--zero-stage", "0|1|2|3", "ZeRO: 1 shards optimizer state, 2 gradients too, 3 parameters too", NULL           \
    }

/* What --train-tokens and --device-hour-price say of each topology (training_options.c); zeros where they are absent. A
 * price alone is that of a thousand million tokens. */
struct reports_training;
enum base_status commands_training(struct base_arena *arena, const struct base_arguments *arguments,
                                   const char *const *topologies, int count, struct reports_training *out,
                                   struct base_error *error);
#define COMMANDS_TRAINING                                                                                              \
    {"--train-tokens", "N", "target tokens of the whole run (300B, 1.4T), for its steps, time and device-hours",       \
     NULL},                                                                                                            \
    {                                                                                                                  \
        "--device-hour-price", "P|P;P|NAME=P;NAME=P",                                                                  \
            "of one JAX device, in any currency, for the run's price; of several topologies one each, in their order " \
            "or by topology or chip, as in 'v4=3.2;v5e=1.2'",                                                          \
            NULL                                                                                                       \
    }

/* The integers, at most limit, of an option "X,Y,Z"; none where the option is absent. */
enum base_status commands_read_numbers(const struct base_arguments *arguments, const char *option, int limit, int *out,
                                       int *count, struct base_error *error);
/* What COMMANDS_MESH asked for; nothing that divides the model is BASE_USAGE. */
struct topo_mesh_request;
enum base_status commands_mesh_request(struct base_arena *arena, const struct base_arguments *arguments,
                                       struct topo_mesh_request *request, struct base_error *error);
/* The options that say which mesh on which devices. */
#define COMMANDS_MESH                                                                                                  \
    {"--topology", "T", "what the devices are: v4-512, v4:4x8x8, a100-80g:32x8, local:4, …", NULL},                    \
        {"--model-parallel-submesh", "X,Y,Z,C",                                                                        \
         "the box of devices that holds one copy of the model; [node,local] on GPUs", NULL},                           \
        {"--num-partitions", "N", "how many devices hold one copy, placed by T5X's table", NULL},                      \
        {"--num-expert-partitions", "N", "T5X's experts: split the data axis into data and expert", NULL},             \
        {"--ici-mesh-shape", "R,D,M", "replica, data and model inside a slice; with --dcn-mesh-shape", NULL},          \
        {"--dcn-mesh-shape", "R,D,M", "replica, data and model over slices", NULL},                                    \
        {"--ici-mesh", "SIZES",                                                                                        \
         "a mesh of named axes in JAX's device order, inside a slice or over all devices: data=2,fsdp=4,tensor=2",     \
         NULL},                                                                                                        \
        {"--dcn-mesh", "SIZES", "how many slices, or processes, along the axes of --ici-mesh: data=2", NULL},          \
        {"--split-physical-axes", "0|1", "1 lets axes of --ici-mesh share a dimension of the torus", "0"},             \
        {"--contiguous-submeshes", "0|1", "1 asks JAX for compact boxes of --ici-mesh's last axis", "0"},              \
        {"--jax", "RELEASE", "whose device order --ici-mesh has: 0.8.2 to 0.11.1", "the newest"},                      \
    {                                                                                                                  \
        "--tile-by-host-if-needed", "0|1", "0 lists devices without regard to hosts", "1"                              \
    }

/* "--json" and "--out" stand in every table through this. */
#define COMMANDS_COMMON                                                                                                \
    {"--json", NULL, "one JSON document on stdout, nothing else there", NULL},                                         \
        {"--out", "FILE", "write the document to FILE (beside it, then renamed)", NULL},                               \
    {                                                                                                                  \
        "--help", NULL, "this text", NULL                                                                              \
    }

#endif
