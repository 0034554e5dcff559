/* Private to model/: a config.json of Hugging Face's transformers while it is translated to a line of our grammar. */
#ifndef MODEL_READING_H
#define MODEL_READING_H

#include "model/model.h"

#include <string.h>

/* A row per family. */
struct family {
    const char *model_type, *line; /* line: keys that all its models share */
    const char *attention_bias;    /* the biases that attention_bias switches on; "": no such key */
    const char *own_bias;          /* a key, and the biases that it switches on if true or absent: "use_bias:mlp" */
    const char *fixed_bias;        /* biases of all its models */
    const char *activation;        /* without a key */
    bool attends_with_bias /* without attention_bias */, gated, tied /* without tie_word_embeddings */;
    int window_every; /* if windows are not given by layer: all layers except each window_every-th have one; 0: all
                         layers */
    const char *expert_keys;                      /* those of its models with experts */
    double rope_theta, rotary_part, norm_epsilon; /* without keys */
};

/* A config.json while it is translated to a line. */
struct reading {
    struct base_arena *arena;
    const struct base_json *object;
    const struct family *family;
    struct base_text line;
    enum base_status status; /* of the first failure; what is read behind it does not count */
    struct base_error *error;
};

static inline bool is_of(const struct reading *r, const char *model_type)
{
    return !strcmp(r->family->model_type, model_type);
}

static inline void put(struct reading *r, const char *key, int64_t value)
{
    base_putf(&r->line, "%s=%lld,", key, (long long)value);
}

/* The first member of the names joined by | that exists and is not null. */
const struct base_json *model_reading_member(const struct base_json *object, const char *names);
bool model_reading_flag(const struct reading *r, const char *name, bool otherwise);
/* BASE_INPUT, unless something failed before. */
void model_reading_fail(struct reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A whole number from 0 to 2^30, or the given default; a negative default: required. */
int64_t model_reading_number(struct reading *r, const char *names, int64_t otherwise);
/* A number above 0, or the given default. */
double model_reading_real(struct reading *r, const char *names, double otherwise);

/* Keys of the line. */
void model_reading_put_real(struct reading *r, const char *from, const char *to);
void model_reading_put_number_unless(struct reading *r, const char *key, double value, double usual);
void model_reading_put_attention_scale(struct reading *r, int64_t head_dim, double factor);
/* The factor of scores that comes with scaled angles is multiplied to *scores. */
void model_reading_put_rotary(struct reading *r, int64_t head_dim, double *scores);
void model_reading_put_local_rotary(struct reading *r); /* of layers with windows */
void model_reading_put_scales(struct reading *r);
void model_reading_put_epsilon(struct reading *r);

#endif
