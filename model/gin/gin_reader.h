/* Shared by the gin reader's files: a position in a text, and its advance. */
#ifndef MODEL_GIN_READER_H
#define MODEL_GIN_READER_H

#include "model/gin/gin.h"

enum model_gin_source { MODEL_GIN_OF_USER, MODEL_GIN_OF_T5X }; /* origin of the file */

struct model_gin_reader {
    struct model_gin *gin;
    const char *at;               /* NUL-terminated */
    struct model_gin_place place; /* of `at` */
    bool known;                   /* built-in knowledge of a file, placed entirely where it was included */
    int file;                     /* which of the files and texts that are read, from 0 */
    bool dynamic; /* from __gin__ import dynamic_registration: names are those of this file's own imports */
};

/* At the place of the reader. */
#define model_gin_fail(reader, ...) model_gin_fail_at((reader)->gin, (reader)->place, __VA_ARGS__)
enum model_gin_where { MODEL_GIN_ONE_LINE, MODEL_GIN_IN_BRACKETS };
/* Passes blanks, joined lines and comments; inside brackets ends of lines, too. */
void model_gin_skip(struct model_gin_reader *reader, enum model_gin_where where);
void model_gin_next_line(struct model_gin_reader *reader); /* past the end of this one */
/* "scope/module.name"; scope is "" if there is none. */
enum base_status model_gin_read_name(struct model_gin_reader *reader, const char **scope, const char **name);
enum base_status model_gin_read_value(struct model_gin_reader *reader, const struct model_gin_value **out);
bool model_gin_starts_with_word(const char *at, const char *word); /* and blanks or a quotation mark behind it */
/* Reads one word and the following blanks; false if there is another. */
bool model_gin_pass_word(struct model_gin_reader *reader, const char *word);
enum base_status model_gin_read_plain_name(struct model_gin_reader *reader, const char **name); /* without a scope */
/* gin_names.c: a.b.c with the import of a expanded; warns if gin would not find it. */
const char *model_gin_expand(const struct model_gin_reader *reader, const char *name);
enum base_status model_gin_read_import(struct model_gin_reader *reader);
enum base_status model_gin_read_from_import(struct model_gin_reader *reader);
/* A comment's text, from behind its '#': "meshwright: key = value" is kept. */
void model_gin_keep_comment(struct model_gin_reader *reader, const char *text, size_t length);
/* The zoo model whose gin file has that name in T5X, as gin text; none: nothing is written. */
enum base_status model_gin_put_zoo(struct base_arena *arena, const char *name, struct base_text *out,
                                   struct base_error *error);
/* gin_model.c: model_gin_put_model with the network of another package ("t5x.contrib.gpu.t5"); NULL: the model's own.
 */
void model_gin_put_model_of(const struct model_config *config, const char *package, const char *dtype,
                            const char *remat_policy, struct base_text *out);
bool model_gin_has_experts(struct model_gin *gin); /* gin_experts.c: macros of Flaxformer's files say so */
/* gin_experts.c: a model of Flaxformer with experts, by the macros of its files. *any is false where there is none. */
enum base_status model_gin_read_experts(struct model_gin *gin, struct model_gin_model *out, bool *any);
/* T5 of its dense layers, as one line. BASE_INPUT: layers that T5 has not, or a size that is not bound; place is the
 * module's. */
enum base_status model_gin_read_flaxformer(struct model_gin *gin, struct model_gin_place place, const char **out);
/* gin_own_code.c: BASE_INPUT if the model is a custom class, or a class of sizes has a parameter that it lacks. A
 * comment line "# meshwright: model = …" replaces the former. */
enum base_status model_gin_check_model_class(const struct model_gin *gin, const struct model_gin_value *model,
                                             struct model_gin_place place);
enum base_status model_gin_check_parameters(const struct model_gin *gin, const struct model_gin_value *config);
void model_gin_put_experts(const struct model_config *config, struct base_text *out); /* its sizes alone */
void model_gin_put_expert_model(const struct model_config *config, struct base_text *out);
/* One of the names may leave out the modules before it: network.T5Config is t5x.examples.t5.network.T5Config. */
bool model_gin_same_configurable(const char *a, const char *b);
/* One of the two paths ends with the other, whole folders at a time. */
bool model_gin_same_file(const char *a, const char *b);

#endif
