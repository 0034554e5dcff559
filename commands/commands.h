/* commands: one function a subcommand. It reads its arguments, asks the rooms, and writes one document: text for
 * people, or JSON. It never prints, exits or looks at the clock: meshwright.c does. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "base/base.h"
#include "model/model.h"
#include "topo/topo.h"

#include <signal.h>

struct tuner_space;
struct tuner_result;

struct commands_context {
    struct base_arena *arena; /* for this one command (batch: this one question); reset by the caller */
    struct sim_cache *cache; /* shared by questions: programs, shardings, routes; lives as long as the process; NULL for
                                commands that price nothing */
    bool json;               /* the document is JSON */
    enum base_json_layout layout; /* of JSON: batch answers in one line */
    bool answers;                 /* set by a command: its document is worth showing although it failed */
    bool page;                    /* the document becomes a page: JSON with all that a page shows */
    /* Sends an answer of `batch` at once, since the other side may wait for it. */
    enum base_status (*answer)(void *where, const char *bytes, size_t length, struct base_error *error);
    void *answer_where;
    base_tell *progress; /* NULL: nobody looks */
    void *progress_where;
    double (*now_s)(void *where); /* a clock, for limits and durations; NULL: none */
    bool (*stop)(void *where);    /* true if the user has asked to stop early; NULL: never */
    void *clock_where;
    void (*note)(void *where, const char *text); /* receives notes on ignored input; NULL: dropped */
    void *note_where;
    const char *gin_search_path; /* --gin-search-path of this command, or NULL */
    const char *beside_plan;     /* " --profile FILE" and other options, besides the plan, that the answer depends on */
    bool lists_notes;            /* its --notes */
    bool searches;               /* a degree of parallelism that nobody gives is searched (tune) */
    int64_t micro_batch;   /* sequences of each replica that a search is held to, by --micro-batch-size; 0: none */
    bool sealed;           /* `batch` for a page: see base_seal */
    bool tells;            /* `batch`: of a search's progress, before its answer */
    bool computes;         /* this command's answer holds values that a plan computes, not its price alone */
    const char **warnings; /* of this command, for its answer (warnings.c) */
    int warning_count;
    /* Takes what `tune` found, which then writes no document; NULL: it writes one. */
    enum base_status (*found)(void *where, const struct tuner_space *space, const struct tuner_result *result,
                              struct base_error *error);
    void *found_where;
    bool launches; /* its text is a file for a shell or Python: warnings go to stderr */
    bool launched; /* an mpirun or srun started this process as one of several ranks; matters only for runs */
    int launched_rank;
    bool has_network;           /* an environment variable selects Open MPI's network between hosts */
    const char *launch_problem; /* why ranks that were started so cannot find each other; NULL: they can */
    bool silent;                /* set by a command: another rank speaks for this one */
    const volatile sig_atomic_t *stop_signal; /* the signal that asked a run to end; 0, or NULL: none */
};

typedef enum base_status commands_function(struct commands_context *context, const struct base_arguments *arguments,
                                           struct base_text *out, struct base_error *error);

struct commands_command {
    const char *name;  /* "mesh" */
    const char *alias; /* another name that is answered but not listed, by alias_run; or NULL */
    commands_function *alias_run;
    const char *summary; /* one line for `meshwright --help` */
    const char *usage;   /* "mesh --topology T …"; one line a form of the command */
    const char
        *examples; /* command lines, two at least; a test runs them, in a folder that holds a copy of examples/ */
    const struct base_option
        *options; /* "@plan" is a group of commands_groups; without help: a key of a plan, or all */
    int option_count;
    int positional_limit;
    /* For completion: values of the first argument, separated by spaces, or "@topology" or "@model"; NULL: a file. */
    const char *first_words;
    commands_function *run; /* commands_NAME_run, of NAME_command.c */
    const char *endings;    /* of names that --out may have: "json txt html"; NULL: json and txt. .html is a page */
    bool computes;          /* it runs the plan: differences in values alone are worth a warning */
    bool warns;             /* its document has a place for warnings: a text, or an object that is no plan */
    const char *(*input)(struct base_arena *arena); /* help text about its input; NULL: none */
    bool writes_out; /* the command itself writes --out's file (a table, a picture); else the document goes there */
};

/* Rows of commands.csv, one command after the other; command_table.c lists them all. */
extern const struct commands_command commands_mesh, commands_layout, commands_topology, commands_rules, commands_models,
    commands_predict, commands_tune, commands_compare, commands_run, commands_report, commands_sweep, commands_import,
    commands_export, commands_batch, commands_plot, commands_calibrate, commands_verify, commands_checkpoint,
    commands_collective, commands_infer, commands_serve;

/* Lists the chips and accelerator types (topologies_command.c), the parameters of a model (params_command.c). */
commands_function commands_list_topologies, commands_list_parameters;
const char *commands_sweep_columns(struct base_arena *arena); /* that a table of sweep needs, and may have */

const struct commands_command *const *commands_all(int *count);
/* Options that several commands have, "@plan", and words of documentation in the same form: "@exit". The last is empty.
 */
extern const struct commands_command commands_groups[];
const struct commands_command *commands_group(const char *name);
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
/* Reads the file of --profile into the cache; every command that prices has the option. */
enum base_status commands_profile(struct commands_context *context, const struct base_arguments *arguments,
                                  struct base_error *error);
/* Applies --network over it; NULL: no effect. */
enum base_status commands_network(struct commands_context *context, const char *network, struct base_error *error);

/* ---- the form of a document (form.c, page.c) ---- */

/* The extension of --out's name selects text, JSON or a page (context->json, ->page). An extension that the command
 * does not write is refused, and so is --json with another one. A name without extension follows the options. */
enum base_status commands_form(struct commands_context *context, const struct commands_command *command,
                               const struct base_arguments *arguments, struct base_error *error);
bool commands_ends_in(const char *path, const char *endings); /* in one of "json txt" */
/* Turns a JSON document into its page. */
enum base_status commands_put_page(struct commands_context *context, const char *name, int argument_count,
                                   const char *const *arguments, struct base_text *out, struct base_error *error);

/* Checks in advance that the output can be written. A pipe or a device is skipped, since opening it would be visible to
 * its reader. */
enum base_status commands_check_outputs(const struct commands_context *context, const struct base_arguments *arguments,
                                        struct base_error *error);
/* The report on a picture written to path: its title and subtitle, or JSON with them. */
struct plots_picture;
void commands_put_picture(const struct commands_context *context, const char *kind, const char *path,
                          const struct plots_picture *picture, struct base_text *out);

/* ---- a document on a terminal (terminal.c) ---- */

struct commands_terminal {
    bool colour, blocks; /* blocks: it shows UTF-8 */
};
void commands_dress(const struct base_text *document, const struct commands_terminal *terminal, struct base_text *out);
/* A message to the user on a line of its own. Control characters of quoted input become question marks. */
void commands_say(FILE *stream, const char *what);

/* ---- plans in files (plan_file.c) ---- */

struct sim_plan_text;
struct sim_gin_plan;
struct sim_plan;
/* BASE_INPUT: the format is a T5X run file, and the prediction depends on a feature that T5X lacks (gin_command.c). */
enum base_status commands_refuse_drops(struct base_arena *arena, const char *format, const struct sim_plan *plan,
                                       struct base_error *error);
/* A plan from JSON, or from gin if the name ends so, read as the options of @gin say. */
enum base_status commands_read_plan(struct commands_context *context, const char *path, struct sim_plan_text *out,
                                    struct base_error *error);
/* A plan from the command line: a plan's JSON, a model's config.json, gin with T5X's own options, or files of other
 * software (of the kind from, or detected by content) followed by KEY=VALUE. */
enum { COMMANDS_MOST_FILES = 64 };
enum base_status commands_read_files(struct commands_context *context, const struct base_arguments *arguments,
                                     const char *from, struct sim_gin_plan *out, struct base_error *error);
/* The comment line that gives a gin file its topology; NULL: the file has one, or is no gin. */
const char *commands_topology_wanted(struct commands_context *context, const char *path,
                                     const struct sim_plan_text *plan);

/* ---- messages about an answer's input (warnings.c) ---- */

struct model_gin;
/* A warning that the answer differs from the request: part of the answer, once. */
void commands_warn(struct commands_context *context, const char *text);
/* A note on ignored input that does not affect the answer. */
void commands_note(const struct commands_context *context, const char *text);
/* Both of a gin file; several notes are counted, or with --notes each is listed. */
void commands_note_gin(struct commands_context *context, const struct model_gin *gin);
/* Both of a model that is @FILE.gin; of another, nothing. */
void commands_note_model(struct commands_context *context, const char *model);
struct model_config;
struct sim_prediction;
/* Warns of a software_version without a row; arena: for the search for one, a warning is copied. */
void commands_warn_of_version(struct commands_context *context, struct base_arena *arena,
                              const struct sim_plan_text *text);
/* Warns of features that affect time or memory and that the plan's software lacks (reports_untold). */
void commands_warn_of_untold(struct commands_context *context, struct base_arena *arena, const struct sim_plan *plan);
/* Warns of weight copies that Megatron-LM's engine keeps in addition to the predicted ones. */
void commands_warn_of_copies(struct commands_context *context, const struct sim_plan *plan,
                             const struct sim_prediction *p);
/* Warns of a training step faster than most measured ones; BASE_INTERNAL: it is impossibly fast. */
void commands_warn_of_speed(struct commands_context *context, const struct sim_plan *plan,
                            const struct sim_prediction *p);
enum base_status commands_refuse_impossible(const struct commands_context *context, const struct sim_plan *plan,
                                            const struct sim_prediction *p, struct base_error *error);
/* Says that the batch does not divide, which the software of PyTorch would refuse. */
void commands_note_undivided(struct commands_context *context, const struct sim_plan *plan);
/* Of experts that rules leave whole on every device, or that are T5X's under other software. */
void commands_warn_of_experts(struct commands_context *context, const struct sim_plan_text *text,
                              const struct model_config *config);
/* Of a part of a multimodal model's config.json, such as vision_config. */
void commands_warn_of_left_out(struct commands_context *context, const char *part);
/* Where numbers are computed: members of a config.json that are not (model_huggingface_unrun). */
void commands_warn_of_unrun(struct commands_context *context, const char *members);
/* Warns of parts of the request that the plan omits. */
void commands_warn_of_plan(struct commands_context *context, const struct sim_plan_text *text,
                           const struct model_config *config);
/* Puts the warnings into the document; where it has no place for them they are notes. */
void commands_put_warnings(struct commands_context *context, const struct commands_command *command,
                           struct base_text *out);

/* ---- documentation from the tables (manual.c) ---- */

/* meshwright --help, and meshwright COMMAND --help. */
void commands_help(struct base_text *out);
void commands_help_on(const struct commands_command *command, struct base_text *out);
/* The most used of a command's many options, by groups; --help all shows the others, too. */
void commands_help_briefly(const struct commands_command *command, struct base_text *out);
/* The table for generators of bindings (command_options.c): {"command", "summary", "options": [{"name", "value",
 * "help", "default", "type"}]}. Keys of a plan have a type: whole, real, word (with its "words"), text. */
void commands_help_json(const struct commands_command *command, struct base_text *out);
void commands_man(const char *version, struct base_text *out); /* the man page, as roff */
void commands_bash_completion(struct base_text *out);

/* ---- values of options (option_values.c) ---- */

/* NULL: it is not given, or the command has no such option. */
const char *commands_option_given(const struct base_arguments *arguments, const char *name);
/* The option's value as a number or as one of the words (its index); *out stays where the option is absent. */
enum base_status commands_option_int(const struct base_arguments *arguments, const char *name, int64_t low,
                                     int64_t high, int64_t *out, struct base_error *error);
enum base_status commands_option_double(const struct base_arguments *arguments, const char *name, double low,
                                        double high, double *out, struct base_error *error);
enum base_status commands_option_word(const struct base_arguments *arguments, const char *name,
                                      const char *const *words, int count, int *out, struct base_error *error);
/* Fails with that status if one of the options is given: "--fit: is of one topology; give one", of why ": is of …". */
enum base_status commands_refuse_options(const struct base_arguments *arguments, const char *const *names, int count,
                                         enum base_status status, const char *why, struct base_error *error);
/* The integers, at most limit, of an option "X,Y,Z"; none where the option is absent. */
enum base_status commands_read_numbers(const struct base_arguments *arguments, const char *option, int limit, int *out,
                                       int *count, struct base_error *error);

/* --params-axes-names-override: a JSON list, or the file that holds one. NULL where it is absent. */
enum base_status commands_overrides_text(struct commands_context *context, const struct base_arguments *arguments,
                                         const char **out, struct base_error *error);
/* A plan: the file given as first argument, if any, with the options of @plan over it. lengths_default is the
 * default of --task-feature-lengths, or NULL. BASE_USAGE: neither a file nor all required options. */
enum base_status commands_plan_text(struct commands_context *context, const struct base_arguments *arguments,
                                    const char *lengths_default, struct sim_plan_text *out, struct base_error *error);
/* Has a message about a plan's key name the option that gave its value; false: no option did. */
bool commands_blame_option(const struct base_arguments *arguments, struct base_error *error);
/* Says of a refused plan where the value that is wrong stands: in an option of the command line, or in the plan's file.
 * Returns error's status. */
enum base_status commands_plan_refused(const struct base_arguments *arguments, struct base_error *error);
/* The options of @plan, over the plan's values. */
enum base_status commands_plan_options(struct commands_context *context, const struct base_arguments *arguments,
                                       struct sim_plan_text *plan, struct base_error *error);
/* commands_plan_text without that check: the command has defaults of its own. */
enum base_status commands_plan_given(struct commands_context *context, const struct base_arguments *arguments,
                                     const char *lengths_default, struct sim_plan_text *out, struct base_error *error);
/* The step: from the option, or else from the plan. */
enum base_status commands_read_step(const struct base_arguments *arguments, struct sim_plan_text *text,
                                    enum model_step *out, struct base_error *error);

/* The command line that repeats the plan's prediction, with this command's other options. */
const char *commands_again(struct commands_context *context, const struct sim_plan *plan);
/* Translates degrees and batches into the plan's own keys (degrees.c). */
enum base_status commands_take_degrees(struct commands_context *context, const struct base_arguments *arguments,
                                       struct sim_plan_text *plan, struct base_error *error);
/* The topology of --topology, or of --gpus and --gpu; NULL: none given. */
enum base_status commands_topology_given(struct base_arena *arena, const struct base_arguments *arguments,
                                         const char **out, struct base_error *error);

/* --train-tokens and --device-hour-price of each topology (training_options.c); zeros if absent. A price alone is for a
 * thousand million tokens. */
struct reports_training;
enum base_status commands_training(struct base_arena *arena, const struct base_arguments *arguments,
                                   const char *const *topologies, int count, struct reports_training *out,
                                   struct base_error *error);

/* The machine and the mesh of the options of @mesh; BASE_USAGE: nothing divides the model. */
struct commands_mesh {
    struct topo_topology topology;
    struct topo_mesh_request request;
    struct topo_mesh mesh; /* with its devices */
};
enum base_status commands_read_mesh(struct base_arena *arena, const struct base_arguments *arguments,
                                    struct commands_mesh *out, struct base_error *error);

#endif
