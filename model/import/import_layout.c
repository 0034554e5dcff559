/* Degrees of parallelism and batch sizes of software of PyTorch, as its own launcher works them out. */
#include "model/import/import_draft.h"

#include <string.h>

/* Number of devices: the topology's, else the processes that the files start. 0: unknown. */
static enum base_status find_world(struct import_draft *draft, int64_t *world)
{
    int64_t nodes, gpus, all;
    BASE_TRY(model_import_int(draft, ".nodes", 1, &nodes));
    BASE_TRY(model_import_int(draft, ".gpus", 0, &gpus));
    BASE_TRY(model_import_int(draft, ".world", gpus && gpus <= 4096 && nodes <= 100000 ? gpus * nodes : 0, &all));
    const struct import_slot *slot = model_import_slot(draft, ".gpus");
    if (!slot) slot = model_import_slot(draft, ".world");
    if (draft->device_count && all && all != draft->device_count && slot)
        model_import_warn(draft, slot->place, "the files start %lld devices, but the topology has %lld, which are used",
                          (long long)all, (long long)draft->device_count);
    *world = draft->device_count ? draft->device_count : all;
    return BASE_OK;
}

/* One of two degrees whose product is the rest; -1 means all that the other leaves. */
static enum base_status fill(struct import_draft *draft, const char *name, int64_t rest, int64_t *out)
{
    const struct import_slot *slot = model_import_slot(draft, name);
    if (!slot || strcmp(slot->value, "-1") != 0) return model_import_int(draft, name, 1, out);
    if (!rest)
        return model_import_fail(
            draft, slot, "-1 depends on the number of devices, which is unknown; give --topology, as in h100:4x8");
    *out = rest;
    return BASE_OK;
}

static enum base_status find_batch(struct import_draft *draft, int64_t data, int64_t stages)
{
    int64_t micro, batch, count;
    BASE_TRY(model_import_int(draft, ".micro_batch", 0, &micro));
    BASE_TRY(model_import_int(draft, "batch_size", 0, &batch));
    BASE_TRY(model_import_int(draft, ".accumulation", 0, &count));
    const struct import_slot *slot = model_import_slot(draft, "batch_size");
    if (!strcmp(draft->kind, "fsdp") && batch && batch / data < micro) micro = batch / data; /* as LLM Foundry does */
    if (batch && batch % data && slot && !micro)
        return model_import_fail(draft, slot, "%lld is no multiple of %lld data-parallel replicas; %lld would be",
                                 (long long)batch, (long long)data, (long long)(base_ceil_div(batch, data) * data));
    const bool is_uneven = !strcmp(draft->kind, "fsdp"); /* what Composer makes of it */
    if (batch && micro && slot) {
        if (batch % (micro * data))
            return model_import_fail(draft, slot,
                                     "%lld is no multiple of the micro batch %lld times %lld data-parallel replicas%s; "
                                     "%lld would be",
                                     (long long)batch, (long long)micro, (long long)data,
                                     is_uneven ? ", and microbatches of several sizes are not modelled" : "",
                                     (long long)(base_ceil_div(batch, micro * data) * micro * data));
        if (count && batch != micro * data * count)
            return model_import_fail(draft, slot, "%lld is not micro batch %lld x accumulation %lld x replicas %lld",
                                     (long long)batch, (long long)micro, (long long)count, (long long)data);
        count = batch / (micro * data);
    }
    if (!batch && micro && data) model_import_put_int(draft, "batch_size", micro * data * (count ? count : 1));
    if (count > 1 || (count && stages > 1)) model_import_put_int(draft, "num_microbatches", count);
    return BASE_OK;
}

/* Sharded over the devices of a node, whole on each node. */
static void put_hybrid(struct import_draft *draft, int64_t data)
{
    const int64_t nodes = draft->is_gpu && data % draft->slice_count == 0 ? draft->slice_count : 1;
    model_import_put(draft, ".zero", "3");
    if (nodes == 1 || nodes == data) return;
    model_import_put_int(draft, ".replicate", nodes);
    model_import_put_int(draft, ".shard", data / nodes);
}

enum base_status model_import_layout(struct import_draft *draft)
{
    int64_t world, tensor, stages, context, replicate, shard, data;
    BASE_TRY(find_world(draft, &world));
    BASE_TRY(model_import_int(draft, ".tensor", 1, &tensor));
    BASE_TRY(model_import_int(draft, "pipeline_stages", 1, &stages));
    BASE_TRY(model_import_int(draft, "context_parallel", 1, &context));
    if (tensor > 65536 || stages > 65536 || context > 65536)
        return base_fail(draft->error, BASE_INPUT, "the degrees of parallelism are larger than any cluster");
    const int64_t group = tensor * stages * context;
    const struct import_slot *slot = model_import_slot(draft, ".tensor");
    if (!slot) slot = model_import_slot(draft, "pipeline_stages");
    if (world % group && slot)
        return model_import_fail(
            draft, slot,
            "%lld devices are no multiple of tensor %lld x pipeline %lld x context %lld = %lld, and "
            "%s refuses that",
            (long long)world, (long long)tensor, (long long)stages, (long long)context, (long long)group, draft->kind);
    data = world / group;
    const struct import_slot *copies = model_import_slot(draft, ".replicate");
    if (copies && !strcmp(copies->value, "-1"))
        return model_import_fail(draft, copies, "-1 fills the sharded degree alone; give the number of replicas");
    if (!strcmp(model_import_said(draft, ".zero", ""), "hybrid")) put_hybrid(draft, data);
    BASE_TRY(fill(draft, ".replicate", data, &replicate));
    BASE_TRY(fill(draft, ".shard", replicate ? data / replicate : 0, &shard));
    const struct import_slot *said = model_import_slot(draft, ".data");
    if (said) BASE_TRY(model_import_int(draft, ".data", 1, &shard));
    if (said || model_import_slot(draft, ".shard")) {
        if (data && replicate * shard != data)
            return model_import_fail(draft, said ? said : model_import_slot(draft, ".shard"),
                                     "%lld x %lld data-parallel devices times %lld are not the %lld of the topology",
                                     (long long)replicate, (long long)shard, (long long)group, (long long)world);
        data = replicate * shard;
    }
    if (!data && model_import_slot(draft, ".micro_batch") && !model_import_slot(draft, "batch_size"))
        return base_fail(draft->error, BASE_INPUT,
                         "%.300s: the batch is a micro batch for each device, and the number of devices is unknown; "
                         "give --topology, as in h100:4x8",
                         model_import_slot(draft, ".micro_batch")->place.file);
    if (tensor > 1) model_import_put_int(draft, "num_partitions", tensor);
    if (replicate > 1 && shard > 1 && group == 1)
        model_import_put(draft, "ici_mesh",
                         base_print(draft->arena, "data=%lld,fsdp=%lld", (long long)replicate, (long long)shard));
    else if (replicate > 1 && shard > 1)
        model_import_warn(
            draft, model_import_slot(draft, ".replicate")->place,
            "%lld sharded devices per replica, with other degrees: parameters are modelled as sharded over all devices",
            (long long)shard);
    if (replicate > 1 && shard == 1) model_import_put(draft, ".zero", "0");
    return data ? find_batch(draft, data, stages) : BASE_OK;
}

/* DeepSpeed's dtype: one of two, which it refuses together; float32 where both are off. */
static enum base_status put_dtype(struct import_draft *draft)
{
    const char *brain = model_import_said(draft, ".bf16", NULL), *half = model_import_said(draft, ".fp16", NULL);
    const bool is_brain = brain && strcmp(brain, "float32") != 0, is_half = half && strcmp(half, "float32") != 0;
    if (is_brain && is_half)
        return model_import_fail(draft, model_import_slot(draft, ".fp16"),
                                 "bf16 is enabled, too, and DeepSpeed refuses both; disable one");
    if (is_brain || is_half) model_import_put(draft, "dtype", is_brain ? brain : half);
    else if (brain && half) model_import_default(draft, "dtype", "float32");
    return BASE_OK;
}

enum base_status model_import_shards(struct import_draft *draft)
{
    BASE_TRY(put_dtype(draft));
    const char *zero = model_import_said(draft, ".zero", "0");
    const struct import_slot *slot = model_import_slot(draft, ".offload_parameters");
    const bool offloads = slot && model_import_is_true(slot->value),
               fsdp = offloads && strstr(slot->from, "offload_params"), /* which takes the optimizer along */
        whole = fsdp || (offloads && *zero == '3');
    if (offloads && !whole)
        model_import_warn(draft, slot->place, "DeepSpeed offloads parameters at stage 3 alone; left out");
    if (*zero == '3')
        model_import_put(draft, "logical_axis_rules", model_import_slot(draft, "ici_mesh") ? "maxtext" : "zero3");
    else if (!strcmp(draft->kind, "transformers") || !strcmp(draft->kind, "deepspeed") ||
             !strcmp(draft->kind, "fsdp") || !strcmp(draft->kind, "torchtitan"))
        model_import_default(draft, "logical_axis_rules", "data_only");
    if (*zero == '1') model_import_put(draft, "optimizer_partitioning", "data");
    if (*zero == '2') model_import_put(draft, "optimizer_partitioning", "data+gradients");
    if (whole && !fsdp && !model_import_slot(draft, "cpu_offload"))
        model_import_warn(draft, slot->place,
                          "parameters alone are offloaded; the prediction offloads the optimizer, too");
    if (whole) model_import_put(draft, "cpu_offload", "optimizer+parameters");
    return BASE_OK;
}
