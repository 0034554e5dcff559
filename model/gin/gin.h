/* model/gin: the configuration files of T5X. Reads files, includes, macros and bindings, and knows which model they
 * describe and how to write one. */
#ifndef MODEL_GIN_H
#define MODEL_GIN_H

#include "model/model.h"

/* ---- gin (gin_files.c, gin_value.c, gin_known.csv): the configuration files of T5X ---- */

struct model_gin_place {
    const char *file;
    int line;
};

enum model_gin_kind {
    MODEL_GIN_NONE,
    MODEL_GIN_BOOL,
    MODEL_GIN_NUMBER,
    MODEL_GIN_STRING,
    MODEL_GIN_LIST,
    MODEL_GIN_TUPLE,
    MODEL_GIN_DICT,
    MODEL_GIN_REFERENCE,
    MODEL_GIN_MACRO
};

/* A value as it is written. */
struct model_gin_value {
    enum model_gin_kind kind;
    const char *text;  /* True or False, a number, a string, a macro's name, or a reference's target with its modules */
    const char *scope; /* of a reference or macro; "" */
    bool called;       /* a reference with () */
    int count;         /* children; those of a dict are key, value, key, value, … */
    const struct model_gin_value *child, *next;
};

/* scope/configurable.parameter = value; a macro has the configurable "". */
struct model_gin_binding {
    const char *scope, *configurable, *parameter;
    const char *name; /* all of it, as it is written */
    const struct model_gin_value *value;
    struct model_gin_place place;
    bool overridden; /* a later one takes its place */
    bool used;       /* model_gin_find gave it out */
    bool known;      /* of a file that is absent: from gin_known.csv and the zoo */
};

/* A parameter that a reader looked for, bound or not. */
struct model_gin_asked {
    const char *configurable, *parameter;
};

struct model_gin_comment {
    const char *key, *value;
    struct model_gin_place place;
}; /* # meshwright: key = value */
struct model_gin_import {
    const char *name, *module;
    int file; /* which of the files that are read; gin knows an import in its own file alone */
};
struct model_gin_include {
    const char *path;
    struct model_gin_place place;
};

/* The merged content of files, in order; all of it lives in the arena. */
struct model_gin {
    struct base_arena *arena;
    struct base_error *error; /* of the call that reads it, or reads from it */
    struct model_gin_binding *bindings;
    struct model_gin_comment *comments;
    struct model_gin_import *imports;
    struct model_gin_include *includes;
    int binding_count, comment_count, import_count, include_count, value_count;
    int file_count;                /* files and texts that were read */
    struct model_gin_asked *asked; /* each once; at most MODEL_GIN_MOST_ASKED */
    int asked_count;
    const char **notes; /* "FILE:LINE: skipped, with the reason": no plan key, and no effect on the answer */
    int note_count;
    const char **warnings; /* likewise: the plan holds another value, which may change the answer */
    int warning_count;
    const char **differences; /* likewise: changes values (loss, weights), but neither time nor memory */
    int difference_count;
    const char *name;        /* of the file or text, for messages */
    const char *search_path; /* directories joined by commas, or NULL */
    bool without_files;      /* includes are those that are known */
    const char **stack;      /* files that are being read */
    int depth;
    size_t read_bytes;
};

/* Reads a file and its includes: as named, in a directory of search_path (joined by commas; may be NULL), or next to
 * the including file. Built-in knowledge replaces an absent file, else it is skipped with a note. BASE_INPUT names file
 * and line of invalid gin, a cycle of includes, or an exceeded limit. */
enum base_status model_gin_read(struct base_arena *arena, const char *path, const char *search_path,
                                struct model_gin **out, struct base_error *error);
/* The same of a text that includes files, as a command line says several and binds over them. */
enum base_status model_gin_read_lines(struct base_arena *arena, const char *name, const char *text,
                                      const char *search_path, struct model_gin **out, struct base_error *error);
/* The same of a text; no file is opened. */
enum base_status model_gin_parse(struct base_arena *arena, const char *name, const char *text, struct model_gin **out,
                                 struct base_error *error);
enum {
    MODEL_GIN_MOST_NOTES = 200,
    MODEL_GIN_MOST_WARNINGS = 50,
    MODEL_GIN_MOST_ASKED = 1000,
    MODEL_GIN_MOST_COMMENTS = 256
};
/* BASE_INPUT with "FILE:LINE: " before the message, or before the message that is there. */
enum base_status model_gin_fail_at(const struct model_gin *gin, struct model_gin_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum base_status model_gin_fail_in(const struct model_gin *gin, struct model_gin_place place);
void model_gin_note(struct model_gin *gin, struct model_gin_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void model_gin_warn(struct model_gin *gin, struct model_gin_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void model_gin_differ(struct model_gin *gin, struct model_gin_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The binding that a configurable called in that scope sees, or NULL. Modules before its name may be left out. */
const struct model_gin_binding *model_gin_find(struct model_gin *gin, const char *scope, const char *configurable,
                                               const char *parameter);
/* The likely intent of an unused binding: a known parameter at most two letters away, as "configurable.parameter" in
 * the arena; NULL: none. Short names match exactly; a name that another value refers to is no mistake. */
const char *model_gin_meant(const struct model_gin *gin, const struct model_gin_binding *binding);
/* Follows a value's macros, and gives the location; NULL: gin.REQUIRED, or undefined (with a note). */
const struct model_gin_value *model_gin_follow(struct model_gin *gin, const struct model_gin_value *value,
                                               struct model_gin_place *place);
/* Both; NULL: not bound. */
const struct model_gin_value *model_gin_get(struct model_gin *gin, const char *scope, const char *configurable,
                                            const char *parameter, struct model_gin_place *place);

/* ---- models in gin (gin_model.c; gin_config.c: files) ---- */

struct model_gin_model {
    const char *text; /* a zoo name or one line, as model_config_parse reads it */
    struct model_config config;
    struct model_gin_place place;
    const struct model_gin_value *model,
        *network_config; /* references, or NULL: who has optimizer_def; who has dtype and remat_policy */
};
/* The model that the bindings describe; *found is false if they speak of none. BASE_INPUT: a network that is not known,
 * sizes out of bounds, or a contradiction. */
enum base_status model_gin_model(struct model_gin *gin, struct model_gin_model *out, bool *found,
                                 struct base_error *error);
/* True if a model's module is T5 in Flaxformer's dense layers. */
bool model_gin_is_flaxformer(const struct model_gin_value *module);
/* MODEL of the contract: @FILE.gin, whose model is read as T5X reads it (none is BASE_INPUT), with search_path as in
 * model_gin_read; or any text that model_config_parse accepts. */
enum base_status model_gin_config_parse(struct base_arena *arena, const char *text, const char *search_path,
                                        struct model_config *out, struct base_error *error);
/* Notes on the files of a MODEL @FILE.gin, including misspelt bindings; NULL: no such MODEL, or unreadable. */
const struct model_gin *model_gin_config_notes(struct base_arena *arena, const char *text, const char *search_path);
const char *model_gin_last_part(const char *name); /* T5Config of network.T5Config */
bool model_gin_is_gin(const char *path);           /* the name ends with .gin */
/* The bindings that make T5X build the model, with imports, except keys that T5X lacks. remat_policy is for scanned
 * models and may be NULL. */
void model_gin_put_network(const struct model_config *config, const char *dtype, const char *remat_policy,
                           struct base_text *out); /* those two alone */
void model_gin_put_model(const struct model_config *config, const char *dtype, const char *remat_policy,
                         struct base_text *out);

#endif
