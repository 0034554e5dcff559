/* Training software of PyTorch: the settings of a plan, and the command that starts it on a node. */
#ifndef REPORTS_LAUNCH_TORCH_H
#define REPORTS_LAUNCH_TORCH_H

#include "reports/reports.h"

/* Degrees of parallelism, common to all of these programs. */
struct reports_torch_sizes {
    int64_t nodes, gpus /* of a node */, tensor, data, shards /* of data, where replicas are sharded;
        else 1 */
        ,
        context, stages, micro_batch /* sequences of one replica */;
};
struct reports_torch_job {
    const char *software, *extension /* of the settings' file */, *answers /* that a job needs, separated by blanks */,
        *command; /* after torchrun's own options; the settings are in $PLAN_FILE */
    unsigned can; /* bits of enum reports_torch_feature */
    void (*put)(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, struct base_text *out);
    bool (*has)(struct base_arena *arena, const char *model); /* of a row for named models; NULL: for all */
};
enum reports_torch_feature {
    REPORTS_TORCH_TENSOR = 1 << 0,
    REPORTS_TORCH_SEQUENCE = 1 << 1,
    REPORTS_TORCH_STAGES = 1 << 2,
    REPORTS_TORCH_CHUNKS = 1 << 3,
    REPORTS_TORCH_CONTEXT = 1 << 4,
    REPORTS_TORCH_SELECTIVE = 1 << 5,
    REPORTS_TORCH_FLOAT16 = 1 << 6,
    REPORTS_TORCH_FP8 = 1 << 7,
    REPORTS_TORCH_STATE = 1 << 8,     /* sharded over replicas: ZeRO-1 */
    REPORTS_TORCH_GRADIENTS = 1 << 9, /* and gradients: ZeRO-2 */
    REPORTS_TORCH_SHARDS = 1 << 10,   /* and parameters: ZeRO-3, the rules zero3 */
    REPORTS_TORCH_WHOLE = 1 << 11,    /* parameters of each replica: the rules standard:1,1 */
    REPORTS_TORCH_GATED = 1 << 12,    /* silu+linear */
    REPORTS_TORCH_GELU = 1 << 13,
    REPORTS_TORCH_GROUPS = 1 << 14, /* of queries, fewer keys and values than heads */
    REPORTS_TORCH_HEADS = 1 << 15,  /* of any size, not emb_dim / num_heads alone */
    REPORTS_TORCH_TIED = 1 << 16,
    REPORTS_TORCH_UNTIED = 1 << 17,
    REPORTS_TORCH_QK_NORM = 1 << 18,
    REPORTS_TORCH_GPIPE = 1 << 19,
    REPORTS_TORCH_PLAIN = 1 << 20,       /* attention that is no kernel */
    REPORTS_TORCH_FLASH = 1 << 21,       /* attention as a kernel */
    REPORTS_TORCH_ACCUMULATES = 1 << 22, /* gradients of several microbatches, without stages */
    REPORTS_TORCH_MLP = 1 << 23,         /* of any mlp_dim, not multiples of emb_dim alone */
    REPORTS_TORCH_INT8 = 1 << 24,
    REPORTS_TORCH_HYBRID = 1 << 25, /* replicas of sharded devices */
    REPORTS_TORCH_EXPERTS = 1 << 26,
    REPORTS_TORCH_SMALL_STATE =
        1 << 27, /* an optimizer whose state is smaller than Adam's, and whose update is adaptive */
    REPORTS_TORCH_LATENT = 1 << 28,
    REPORTS_TORCH_FIRST_DENSE = 1 << 29
};

/* The job of a plan's software, or NULL: there is none (launch_torch.c). */
const struct reports_torch_job *reports_torch_job_of(struct base_arena *arena, const struct sim_plan *plan);
/* The settings file; BASE_INPUT names a feature of the plan that the software lacks. */
enum base_status reports_torch_put(const struct reports_torch_job *job, const struct sim_plan *plan,
                                   struct reports_torch_sizes *sizes, struct base_text *out, struct base_error *error);

/* ---- launch_settings.c, launch_torchtitan.c: settings of each software ---- */

struct reports_number {
    const char *name;
    int64_t value;
};
static const int64_t reports_left_out = INT64_MIN; /* a value that is not written */
/* form takes a name and a number: "--%s %lld\n". */
void reports_put_numbers(const char *form, const struct reports_number *numbers, int count, struct base_text *out);
void reports_put_real(const char *before, double value, struct base_text *out);
void reports_put_settings_title(const struct sim_plan *plan, struct base_text *out);
/* A plan without a word on positions has T5's relative bias, which none of these has: they take their own. */
void reports_note_differences(const struct sim_plan *plan, enum model_position_encoding own, enum model_norm norm,
                              struct base_text *out);
void reports_note_vocabulary(const struct sim_plan *plan, struct base_text *out);
bool reports_is_full(const struct sim_plan *plan);
bool reports_is_selective(const struct sim_plan *plan);
/* Whether torchtitan has the model among its own configurations (torchtitan_flavors.csv). */
bool reports_torchtitan_has(struct base_arena *arena, const char *model);

typedef void reports_torch_settings(const struct sim_plan *plan, const struct reports_torch_sizes *sizes,
                                    struct base_text *out);
/* model_training.c: training parameters of the plan's model that no plan key holds, as Megatron-LM's options. */
void reports_put_megatron_training(const struct sim_plan *plan, struct base_text *out);

reports_torch_settings reports_put_megatron, reports_put_deepspeed, reports_put_nemo, reports_put_nanotron,
    reports_put_torchtitan, reports_put_foundry;

#endif
