/* model/import: files that start other training software, read as the keys of a plan. MaxText's YAML, Megatron-LM's
 * scripts, torchtitan's TOML, nanotron's YAML, DeepSpeed's JSON and more; nothing in them is run. */
#ifndef MODEL_IMPORT_H
#define MODEL_IMPORT_H

#include "model/gin/gin.h"

/* One key of a plan as the files say it. */
struct model_imported {
    const char *key, *value; /* "batch_size", "256" */
    struct model_gin_place place;
};

/* The merged content of the files; all of it lives in the arena. */
struct model_import {
    const char *kind; /* a row of model_import_kinds: "maxtext" */
    const struct model_imported *values;
    int value_count;
    const char **notes; /* "FILE:LINE: no plan key", and no effect on the answer */
    int note_count;
    const char **warnings; /* likewise: changes the answer, but is not modelled */
    int warning_count;
};

struct model_import_request {
    const char *const *paths; /* files, in their order: a later one says its keys over an earlier */
    int path_count;
    const char *const *overrides; /* "ici_tensor_parallelism=4", as the software's command line takes them */
    int override_count;
    const char *from; /* a kind; NULL: the files' content decides */
    const char
        *topology; /* TOPOLOGY of the devices, which -1 and batch sizes depend on; NULL: from the files, or unknown */
};

/* Names of the kinds, as --from takes them. */
enum { MODEL_IMPORT_KINDS = 14 };
extern const char *const model_import_kinds[MODEL_IMPORT_KINDS];

/* True if the file's content starts a supported software. JSON plans and gin do not count. */
bool model_import_recognises(struct base_arena *arena, const char *path);
/* ---- T5X: files and bindings as gin, in their order (import_gin.c) ---- */

struct model_gin_lines {
    struct base_text files, bindings; /* "include 'FILE'", or a file's own lines; "NAME = VALUE" */
    int file_count, binding_count;
};
/* --gin_file=FILE, --gin_bindings=NAME=VALUE and --gin.NAME=VALUE, as T5X spells them; false: it is neither. */
bool model_import_gin_argument(const char *given, struct model_gin_lines *out);
/* True for a script that starts T5X, or has its gin in a here-document. */
bool model_import_starts_gin(struct base_arena *arena, const char *path);
/* Adds what it starts T5X with; values that it leaves to its environment are left out. BASE_INPUT: a quote does not
 * end. */
enum base_status model_import_gin_script(struct base_arena *arena, const char *path, struct model_gin_lines *out,
                                         struct base_error *error);

/* The JSON of a plan in a here-document of a job, as export --command writes it; NULL: the file has none. */
const char *model_import_plan_json(struct base_arena *arena, const char *path);
/* BASE_INPUT names file, line and key of an unreadable value, a value that the software refuses, or a missing one. */
enum base_status model_import_read(struct base_arena *arena, const struct model_import_request *request,
                                   struct model_import *out, struct base_error *error);

#endif
