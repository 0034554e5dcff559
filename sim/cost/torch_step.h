/* Private to the replay of a PyTorch step: tensors' storages, and a block of the model. */
#ifndef SIM_TORCH_STEP_H
#define SIM_TORCH_STEP_H

#include "sim/cost/caching_allocator.h"
#include "sim/cost/cost.h"

enum { TORCH_MAIN_STREAM, TORCH_GATHER_STREAM, TORCH_REDUCE_STREAM };
enum { TORCH_NONE = -1, TORCH_MOST_PARAMETERS = 13 };
/* Parameters of a layer; its norms come last. */
enum {
    TORCH_QUERY,
    TORCH_KEY,
    TORCH_VALUE,
    TORCH_OUT,
    TORCH_GATE,
    TORCH_DOWN,
    TORCH_UP,
    TORCH_ROUTER,
    TORCH_SHARED_GATE,
    TORCH_SHARED_DOWN,
    TORCH_SHARED_UP
};

/* Storages of one layer that its backward pass needs, or TORCH_NONE; [0] of the attention half, [1] of the MLP's. */
struct torch_layer {
    int norm[2], rstd[2], gathered[2], scattered[2], query_product, key_product, query, key, value, context, logsumexp,
        seed[2], attention_sum, gate_product, gate, up, product, down, out;
    int scores, padded, wide,
        shared[4]; /* experts: rows of the products, their float32 results, shared experts' results */
};
/* Tensors of a layer's forward pass that autograd saves: all; the input alone; the input and the operators on selective
 * checkpointing's list (torchtitan/distributed/activation_checkpoint.py). */
enum torch_keeps { TORCH_KEEPS_ALL, TORCH_KEEPS_INPUT, TORCH_KEEPS_LISTED };

/* Parameters that FSDP gathers together, in the order of the module. */
struct torch_group {
    int count;
    int64_t shard_elements[TORCH_MOST_PARAMETERS] /* of this rank, padded */, elements[TORCH_MOST_PARAMETERS];
    int gathered[TORCH_MOST_PARAMETERS], gradients[TORCH_MOST_PARAMETERS];
    int flat, flat_gradient; /* the all-gather's result; the reduce-scatter's, which gradients are views of */
};

struct torch_storage {
    enum model_category category;
    const char *where; /* in which part of the step it was taken; NULL: it is free */
};

struct torch_step {
    struct sim_allocator allocator;
    struct torch_storage *storages;       /* of each block that was ever handed out */
    int storage_capacity, shards, tensor; /* devices that parameters are sharded over, and layers */
    struct sim_peak_buffers *explained;   /* filled where explained_bytes are allocated; or NULL */
    struct base_arena *explained_arena;
    int64_t explained_bytes;
    int64_t most_allocated_bytes, live_bytes[MODEL_CATEGORY_COUNT], peak_bytes[MODEL_CATEGORY_COUNT];
    const char *where, *peak_name;
    enum model_phase phase, peak_phase;
    bool sparse /* the layer that runs */, norms_queries, compiles,
        joins /* several sequences: pieces of a gathered length are copied behind each other */;
    /* bytes of a rank's activations: residual stream shard, whole residual stream, queries, keys, MLP, a norm's
     * reciprocal roots, attention's logsumexp, and the rotary table */
    int64_t residual, whole, queries, keys, mlp, rstd, logsumexp, rotations, logits, rows;
    int64_t values, context, turned_queries, turned_keys; /* those that positions turn */
    int64_t scores, routed, padded, hidden, shared;       /* of experts: rows, those padded, and of their products */
    int reduce_input;                                     /* of the group before, until the next one reduces */
};

/* torch_storages.c */
int sim_torch_take(struct torch_step *s, int64_t bytes, enum model_category category);
int sim_torch_take_on(struct torch_step *s, int64_t bytes, enum model_category category, int stream);
void sim_torch_drop(struct torch_step *s, int *const *storages,
                    int count); /* those that stand; each is TORCH_NONE then */
#define TORCH_DROP(s, ...)                                                                                             \
    sim_torch_drop(s, (int *const[]){__VA_ARGS__}, (int)(sizeof((int *[]){__VA_ARGS__}) / sizeof(int *)))

/* torch_replayed.c: devices that a weight's two dimensions and the batch are sharded over; false: others idle, or
 * replicas are no multiple of shards. */
struct torch_degrees {
    int shards, tensor, replicas;
};
bool sim_torch_degrees(const struct sim_plan *plan, struct torch_degrees *out);
bool sim_torch_is_transformers(const struct sim_plan *plan);
void sim_torch_take_gradient(struct torch_step *s, struct torch_group *group, int parameter);

/* torch_transformers.c: the steps of Hugging Face's models, on one device or as replicas. */
void sim_torch_replay_transformers(const struct sim_cost_context *p, struct torch_step *s, int replicas);

/* torch_layer.c. layer->out is the result. A second forward pass of a checkpointed layer keeps all. */
void sim_torch_layer_forward(struct torch_step *s, struct torch_layer *layer, enum torch_keeps keeps);
/* gradient: of the result, which becomes that of the input; input: its storage, dropped with the last reader. */
void sim_torch_layer_backward(struct torch_step *s, struct torch_layer *layer, struct torch_group *group, int *input,
                              int *gradient);
/* torch_experts.c: the MoE half of a layer after its norm. out: the tensor added to the stream; its gradient is that of
 * the norm's result, over the whole length. */
int sim_torch_experts_forward(struct torch_step *s, struct torch_layer *layer, enum torch_keeps keeps);
int sim_torch_experts_backward(struct torch_step *s, struct torch_layer *layer, struct torch_group *group);

#endif
