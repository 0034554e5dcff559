/* Private to sim/: a plan while it is read from gin. */
#ifndef SIM_GIN_DRAFT_H
#define SIM_GIN_DRAFT_H

#include "sim/plan/plan.h"

/* The plan as read so far. */
struct sim_gin_draft {
    struct model_gin *gin;
    struct base_arena *arena;
    struct sim_gin_plan plan;
    struct model_gin_model model;
    bool has_model;
    const char *script; /* the entry point with the parameters: train, precompile, infer or evaluate */
    const struct model_gin_value *optimizer; /* the reference that is the optimizer, out of its chain; or NULL */
};

/* A callee: a reference that train() is bound to, or the class that T5X's own run files bind. */
struct sim_gin_callee {
    const char *scope, *name;
};

/* ---- values and callees (gin_draft.c) ---- */

void sim_gin_set(struct sim_gin_draft *draft, enum sim_key key, const char *text, struct model_gin_place place);
const char *sim_gin_kind_name(enum model_gin_kind kind); /* "a number" */
/* True if nothing can be read of it: not bound, None, or made by code that runs later. */
bool sim_gin_is_open(struct sim_gin_draft *draft, const char *what, const struct model_gin_value *value,
                     struct model_gin_place place);
enum base_status sim_gin_wrong_kind(const struct sim_gin_draft *draft, const char *what, const char *needed,
                                    const struct model_gin_value *value, struct model_gin_place place);
enum base_status sim_gin_read_whole(const struct sim_gin_draft *draft, const char *what,
                                    const struct model_gin_value *value, struct model_gin_place place, int64_t low,
                                    int64_t *out);
enum base_status sim_gin_set_whole(struct sim_gin_draft *draft, enum sim_key key, const struct model_gin_value *value,
                                   struct model_gin_place place, int64_t low);
enum base_status sim_gin_set_number(struct sim_gin_draft *draft, enum sim_key key, const struct model_gin_value *value,
                                    struct model_gin_place place);
struct sim_gin_callee sim_gin_find_callee(struct sim_gin_draft *draft, const char *parameter, const char *scope,
                                          const char *name);
const struct model_gin_value *sim_gin_get(struct sim_gin_draft *draft, struct sim_gin_callee callee,
                                          const char *parameter, struct model_gin_place *place);
/* The parameter of a class; where that is not bound, the macro that T5X's run files bind it to. */
const struct model_gin_value *sim_gin_get_or_macro(struct sim_gin_draft *draft, struct sim_gin_callee callee,
                                                   const char *parameter, const char *macro,
                                                   struct model_gin_place *place);
/* Closes JSON inside a plan, without the line end of a document. */
void sim_gin_close_value(struct base_json_writer *writer, char bracket);

/* ---- the parts of a run (gin_data.c, gin_partitioning.c, gin_optimizer.c) ---- */

/* BASE_INPUT: the file is for a script that trains nothing. */
enum base_status sim_gin_check_script(struct sim_gin_draft *draft);
enum base_status sim_gin_read_dataset(struct sim_gin_draft *draft);
enum base_status sim_gin_read_trainer(struct sim_gin_draft *draft);

enum base_status sim_gin_read_partitioner(struct sim_gin_draft *draft);
bool sim_gin_same_rules(const struct model_rules *a, const struct model_rules *b);
enum base_status sim_gin_read_optimizer(struct sim_gin_draft *draft);
/* gin_inference.c: whether the file is for train.py, infer.py or eval.py; and the decoding of the latter two. */
enum base_status sim_gin_find_script(struct sim_gin_draft *draft);
bool sim_gin_infers(const struct sim_gin_draft *draft);
enum base_status sim_gin_read_inference(struct sim_gin_draft *draft);
/* gin_unheld.c: warns of bindings that have no plan key. */
enum base_status sim_gin_say_unheld(struct sim_gin_draft *draft);
/* Options of Adafactor in one spelling, so that two texts can be compared; NULL: they are none. */
const char *sim_gin_canonical_adafactor(struct base_arena *arena, const char *text, struct base_error *error);

#endif
