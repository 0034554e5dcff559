/* Private to model/import: settings translated to plan keys. */
#ifndef MODEL_IMPORT_DRAFT_H
#define MODEL_IMPORT_DRAFT_H

#include "model/import/import_settings.h"

enum { IMPORT_MOST_SLOTS = 192, IMPORT_MOST_NOTES = 400, IMPORT_MOST_WARNINGS = 60 };

/* A plan's key ("batch_size"), a size of the model ("model.emb_dim"), or an intermediate value (".tensor"). */
struct import_slot {
    const char *name, *value;
    struct model_gin_place place;
    const char *from; /* the setting's name, for messages */
};
struct import_draft {
    struct base_arena *arena;
    struct import_settings settings;
    const char *kind, *topology;
    int64_t device_count, slice_count; /* 0: nobody says; of GPUs slices are nodes */
    bool is_gpu;
    const char *base_file; /* that a script starts MaxText with, where it is not base.yml; NULL: none */
    bool has_yaml, has_toml;
    struct import_shell shell; /* of all scripts */
    int body_count;            /* of its files, read so far */
    struct import_slot slots[IMPORT_MOST_SLOTS];
    int slot_count;
    const char *notes[IMPORT_MOST_NOTES], *warnings[IMPORT_MOST_WARNINGS];
    int note_count, warning_count;
    struct base_error *error;
};

/* ---- import_slots.c ---- */

const struct import_slot *model_import_slot(const struct import_draft *draft, const char *name); /* NULL: not said */
const char *model_import_said(const struct import_draft *draft, const char *name, const char *fallback);
void model_import_put(struct import_draft *draft, const char *name, const char *value); /* replaces an earlier value */
void model_import_put_from(struct import_draft *draft, const char *name, const char *value,
                           struct model_gin_place place);
void model_import_default(struct import_draft *draft, const char *name, const char *value); /* where nothing was */
void model_import_put_int(struct import_draft *draft, const char *name, int64_t value);
/* The slot as a whole number from 1 on; fallback where it is not said. BASE_INPUT names file, line and key. */
enum base_status model_import_int(const struct import_draft *draft, const char *name, int64_t fallback, int64_t *out);
bool model_import_is_true(const char *value); /* "True", "true", "1", "yes", "on" */
void model_import_warn(struct import_draft *draft, struct model_gin_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum base_status model_import_fail(const struct import_draft *draft, const struct import_slot *slot, const char *format,
                                   ...) __attribute__((format(printf, 3, 4)));
/* True if a setting is one of a plan or a model, by the rows of import_keys.csv. */
bool model_import_says_plan(const struct import_settings *settings);
/* Each setting by its row of import_keys.csv. BASE_INPUT: a value that its row does not know. */
enum base_status model_import_take(struct import_draft *draft);
/* Fills omitted values from the rows of import_defaults.csv. */
void model_import_defaults(struct import_draft *draft);

/* ---- from slots to plan keys ---- */

enum base_status model_import_maxtext(struct import_draft *draft);  /* import_maxtext.c: mesh, rules, remat */
enum base_status model_import_easylm(struct import_draft *draft);   /* import_jax.c: mesh, batch */
enum base_status model_import_axlearn(struct import_draft *draft);  /* import_jax.c: mesh, the MLP's width */
void model_import_rules(struct import_draft *draft);                /* import_rules.c: MaxText's axis rules */
enum base_status model_import_layout(struct import_draft *draft);   /* import_layout.c: degrees and batch, of PyTorch */
enum base_status model_import_megatron(struct import_draft *draft); /* import_megatron.c: its defaults */
void model_import_bridge(struct import_draft *draft);               /* import_megatron.c: NeMo 2 and Megatron-Bridge */
void model_import_torch(struct import_draft *draft);                /* import_torchtitan.c: remat, dtype */
enum base_status model_import_stage_batches(struct import_draft *draft); /* import_torchtitan.c */
enum base_status model_import_chunks(struct import_draft *draft);        /* import_torchtitan.c: layers of stages */
enum base_status model_import_shards(struct import_draft *draft);        /* import_layout.c: ZeRO's stages as rules */
enum base_status model_import_model(struct import_draft *draft); /* import_model.c: a name, or one line of sizes */

#endif
