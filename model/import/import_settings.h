/* Private to model/import/: settings of files, as a flat list of names and values. */
#ifndef MODEL_IMPORT_SETTINGS_H
#define MODEL_IMPORT_SETTINGS_H

#include "model/import/import.h"

enum { IMPORT_MOST_SETTINGS = 20000, IMPORT_DEEPEST = 48, IMPORT_LARGEST_BYTES = 1 << 20 };

/* parallelism.tensor_parallel_degree = 2. Of a command line, --micro-batch-size 1 is micro_batch_size = 1, and a flag's
 * value is "true". A list of scalars is JSON. A null is "". */
struct import_setting {
    const char *name, *value, *kind; /* kind: of its file */
    struct model_gin_place place;
};
struct import_settings {
    struct base_arena *arena;
    struct import_setting *items;
    int count, capacity;
    struct base_index index;
    int reference_count; /* that were followed: a bound on the work */
};

/* ---- import_settings.c ---- */

/* A later one of that name takes the earlier one's place. BASE_INPUT: there are too many. */
enum base_status model_import_set(struct import_settings *settings, const char *name, const char *value,
                                  const char *kind, struct model_gin_place place, struct base_error *error);
const struct import_setting *model_import_find(const struct import_settings *settings, const char *name); /* or NULL */
/* "key=value" of a command line, with "--", "++" or "+" before it or not. BASE_USAGE: there is no "=". */
enum base_status model_import_override(struct import_settings *settings, const char *text, const char *kind,
                                       struct base_error *error);
/* Replaces ${a.b} in values by a.b, and evaluates NeMo's multiply and divide_ceil. Others stay. */
void model_import_interpolate(struct import_settings *settings);
/* "micro-batch-size" as "micro_batch_size". */
const char *model_import_name(struct base_arena *arena, const char *text, size_t length);

/* ---- readers: each fills settings; BASE_INPUT names the line of a syntax error ---- */

typedef enum base_status import_reader(struct import_settings *settings, const char *kind, const char *file,
                                       const char *text, size_t length, struct base_error *error);
import_reader model_import_yaml;    /* yaml_reader.c, the door to libyaml; JSON, too */
import_reader model_import_toml;    /* toml_reader.c */
import_reader model_import_printed; /* import_jax.c: AXLearn's configuration */

/* ---- shell: the command that a script starts (shell.c), its words (shell_words.c), variables and $(( )) ---- */

enum { IMPORT_MOST_WORDS = 8192, IMPORT_MOST_WORK_BYTES = 1 << 24 };
struct import_word {
    const char *text;
    int line;
};
struct import_words {
    struct import_word *items;
    int count, capacity;
};
struct import_variable {
    const char *name;
    struct import_words words; /* one, or those of an array */
};
/* A function, or a file that the script writes by "cat > FILE <<EOF". */
struct import_body {
    const char *name, *text;
    int line;
    bool is_document;
};
struct import_shell {
    struct base_arena *arena;
    const char *file;
    struct import_body *bodies;
    int body_count, body_capacity;
    struct import_variable *variables;
    int variable_count, variable_capacity;
    struct base_index index; /* of variables */
    struct import_words *commands;
    int command_count, command_capacity;
    size_t work_bytes; /* expanded so far: bounds exponential growth */
    int depth;         /* of commands in $( ) */
    struct base_error *error;
};
/* Adds the commands of the script, whose first line is so numbered, each with its variables, arrays and arithmetic
 * expanded; nothing is run. Its functions and the files that it writes are read where they are called. A variable that
 * the script does not set is empty, or its default in ${X:-default}. Conditions that only a running shell can know are
 * false. BASE_INPUT: the script is larger than the bounds, or a quote does not end. */
enum base_status model_import_shell(struct import_shell *shell, const char *text, int line);

/* A pattern of files, where * and ? are special. */
bool model_import_shell_matches(const char *pattern, const char *text);
/* Of a command: [ ], [[ ]], test, let, true. in_condition: what only a running shell can know is false, else true. */
bool model_import_shell_holds(struct import_shell *shell, const struct import_word *words, int count,
                              bool in_condition);

/* shell_words.c. Expands the word at *at to none, one or several words, which are appended. *at moves after it. */
enum base_status model_import_shell_word(struct import_shell *shell, const char **at, int *line,
                                         struct import_words *words);
/* The text of a here-document, its variables expanded. */
enum base_status model_import_shell_text(struct import_shell *shell, const char *text, int line, const char **out);
/* After "<<" at *at. The document's text, its variables expanded unless the tag is quoted; NULL: there
 * is no tag. *end: after it; *line_count: lines up to there. */
enum base_status model_import_shell_document(struct import_shell *shell, const char **at, int line, const char **text,
                                             const char **end, int *line_count);
/* shell_variables.c */
const struct import_body *model_import_shell_body(const struct import_shell *shell, const char *name); /* NULL: none */
void model_import_shell_keep(struct import_shell *shell, struct import_body body);
enum base_status model_import_shell_set(struct import_shell *shell, const char *name, const char *value, int line);
/* BASE_INPUT, with the script's name and line. */
enum base_status model_import_shell_fail(const struct import_shell *shell, int line, const char *what);
enum base_status model_import_shell_add(struct import_shell *shell, struct import_words *words, const char *text,
                                        size_t length, int line);
const struct import_words *model_import_variable(const struct import_shell *shell, const char *name); /* NULL: unset */
enum base_status model_import_assign(struct import_shell *shell, const char *name, const struct import_words *words);
/* shell_arithmetic.c: the value of an expression in $(( )), names included. false: not a number. */
bool model_import_arithmetic(const struct import_shell *shell, const char *text, int64_t *out);
/* let: an expression, or "NAME=EXPRESSION", "NAME+=…", "NAME++", which assigns. */
enum base_status model_import_let(struct import_shell *shell, const char *text, int line, int64_t *out);

#endif
