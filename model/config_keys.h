/* Private to model/: the keys of a model's description, and those given so far. */
#ifndef MODEL_CONFIG_KEYS_H
#define MODEL_CONFIG_KEYS_H

#include "model/config_keys.csv.h"
#include "model/model.h"

/* The description, and which keys were given so far. */
struct model_draft {
    struct model_config config;
    int64_t num_layers, moe_every;
    bool given[KEY_COUNT];
};

enum key_kind {
    SIZE,
    COUNT /* may be 0 */,
    FLAG,
    REAL,
    WORD,
    SET /* of words, joined by +; or 0, 1 */,
    ACTIVATIONS,
    ROUTER
};

/* Bounds far above any model that was trained, so low that no count of parameters or bytes overflows 64 bits. */
struct model_config_key {
    const char *name;
    enum key_kind kind;
    size_t offset; /* in struct model_draft */
    int64_t high;
    const char *const *words; /* high of them */
};
extern const struct model_config_key model_config_keys[KEY_COUNT]; /* rows of config_keys.csv */

static inline bool has(const struct model_draft *draft, enum key key)
{
    return draft->given[key];
}

/* BASE_INPUT: there is no such key, it was given before, or it takes no such value. */
enum base_status model_config_set_key(struct model_draft *draft, const char *name, const char *value,
                                      struct base_error *error);
/* Names joined by +. */
enum base_status model_config_set_activations(struct model_config *config, const char *text, struct base_error *error);
/* The words of a set that are bits, joined by +. */
const char *model_config_bits_text(enum key key, unsigned bits, char *text, size_t size);
bool model_config_is_default(const struct model_draft *draft, enum key key);
/* BASE_INPUT: keys that do not go together, or one that has no effect without another. */
enum base_status model_config_check_features(const struct model_draft *draft, struct base_error *error);

#endif
