/* Degrees of parallelism and batches as people name them: --gpus, --gpu, --dp, --fsdp, --micro-batch-size and
 * --zero-stage, translated into a plan's own keys. */
#include "commands/commands.h"
#include "sim/predict/predict.h"

#include <string.h>

struct degrees {
    struct base_arena *arena;
    struct sim_plan_text *plan;
    int64_t devices, tensor, stages, context; /* devices 0: nobody says */
    int64_t dp, fsdp;                         /* 0: not given, -1: all that the others leave */
};

static enum base_status read_number(const struct base_arguments *arguments, const char *option, int64_t least,
                                    int64_t *out, struct base_error *error)
{
    const char *given = commands_option_given(arguments, option);
    if (given) BASE_TRY(base_parse_int(given, option, least, 1 << 20, out, error));
    if (given && least < 0 && *out == 0)
        return base_fail(error, BASE_INPUT, "%s: 0 is no degree; use 1, or -1 for all that the others leave", option);
    return BASE_OK;
}

static enum base_status key_number(const struct sim_plan_text *plan, enum sim_key key, int64_t *out,
                                   struct base_error *error)
{
    if (!sim_key_is_given(plan, key)) return BASE_OK;
    return base_parse_int(plan->values[key], sim_plan_keys[key].name, 1, 1 << 20, out, error);
}

static void put_number(struct degrees *d, enum sim_key key, int64_t value)
{
    d->plan->values[key] = base_print(d->arena, "%lld", (long long)value);
}

enum base_status commands_topology_given(struct base_arena *arena, const struct base_arguments *arguments,
                                         const char **out, struct base_error *error)
{
    const char *name = commands_option_given(arguments, "--gpu"), *count = commands_option_given(arguments, "--gpus");
    const struct topo_chip *chip;
    int64_t devices;
    *out = commands_option_given(arguments, "--topology");
    if (!name && !count) return BASE_OK;
    if (*out)
        return base_fail(error, BASE_USAGE, "%s: contradicts --topology; leave one out", count ? "--gpus" : "--gpu");
    if (!name) return base_fail(error, BASE_USAGE, "--gpus: needs the kind of GPU; give --gpu h100, too");
    if (!count) return base_fail(error, BASE_USAGE, "--gpu: how many? Give --gpus 64, too");
    BASE_TRY(base_parse_int(count, "--gpus", 1, 1 << 20, &devices, error));
    if (topo_chip_called(arena, name, &chip, error) != BASE_OK) return base_fail_in(error, "--gpu");
    *out = topo_devices_name(arena, chip, devices);
    if (*out) return BASE_OK;
    return base_fail(error, BASE_INPUT, "--gpus: %lld of %s are no whole nodes, or no listed slice; use --topology",
                     (long long)devices, chip->full_name);
}

static enum base_status find_devices(struct degrees *d, struct base_error *error)
{
    struct topo_topology topology;
    const char *text = d->plan->values[SIM_TOPOLOGY];
    int64_t tile[8];
    int count = 0;
    d->tensor = d->stages = d->context = 1;
    if (text && !strchr(text, ';')) {
        BASE_TRY(topo_parse(d->arena, text, &topology, error));
        d->devices = topology.device_count;
    }
    if (sim_key_is_given(d->plan, SIM_SUBMESH))
        BASE_TRY(
            base_parse_ints(d->plan->values[SIM_SUBMESH], "model_parallel_submesh", 1, 4096, 8, tile, &count, error));
    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(d->tensor, tile[i], &d->tensor) || d->tensor > 1 << 20)
            return base_fail(error, BASE_INPUT, "model_parallel_submesh: is larger than any machine");
    BASE_TRY(key_number(d->plan, SIM_NUM_PARTITIONS, &d->tensor, error));
    BASE_TRY(key_number(d->plan, SIM_PIPELINE_STAGES, &d->stages, error));
    return key_number(d->plan, SIM_CONTEXT_PARALLEL, &d->context, error);
}

/* True for software whose meshes have an fsdp axis. */
static bool has_named_mesh(const struct sim_plan_text *plan)
{
    const char *rules = plan->values[SIM_RULES], *software = plan->values[SIM_SOFTWARE];
    if (!rules && software) rules = sim_usual_value(software, SIM_RULES);
    return rules && !strcmp(rules, "maxtext");
}

/* --dp, --fsdp and --tp as the mesh that MaxText makes of ici_*_parallelism. */
static void put_named_mesh(struct degrees *d)
{
    const int64_t fsdp = d->fsdp ? d->fsdp : d->dp < 0 ? 1 : -1, dp = d->dp ? d->dp : 1;
    struct base_text mesh = {.arena = d->arena};
    base_putf(&mesh, "data=%lld,fsdp=%lld,tensor=%lld", (long long)dp, (long long)fsdp, (long long)d->tensor);
    if (d->stages > 1) base_putf(&mesh, ",stage=%lld", (long long)d->stages);
    if (d->context > 1) base_putf(&mesh, ",context=%lld", (long long)d->context);
    d->plan->values[SIM_ICI_MESH] = mesh.data;
    d->plan->values[SIM_NUM_PARTITIONS] = d->plan->values[SIM_SUBMESH] = NULL;
    if (!sim_key_is_given(d->plan, SIM_RULES)) d->plan->values[SIM_RULES] = "maxtext";
}

/* A given data-parallel degree must equal the devices that the other degrees leave. */
static enum base_status check_data(struct commands_context *context, struct degrees *d, int64_t *data,
                                   struct base_error *error)
{
    const int64_t group = d->tensor * d->stages * d->context;
    *data = d->devices && d->devices % group == 0 ? d->devices / group : 0;
    if (!d->dp && !d->fsdp) return BASE_OK;
    const char *option = d->fsdp ? "--fsdp" : "--dp";
    if (!d->devices)
        return base_fail(error, BASE_USAGE, "%s: one --topology is needed, as in --topology h100:8x8", option);
    if (!*data)
        return base_fail(error, BASE_INPUT, "%s: tensor %lld x pipeline %lld x context %lld do not divide %lld devices",
                         option, (long long)d->tensor, (long long)d->stages, (long long)d->context,
                         (long long)d->devices);
    const int64_t dp = d->dp > 0                  ? d->dp
                       : d->dp < 0 && d->fsdp > 0 ? *data / d->fsdp
                       : d->dp < 0                ? *data
                                                  : 1,
                  fsdp = d->fsdp > 0   ? d->fsdp
                         : d->fsdp < 0 ? *data / (dp ? dp : 1)
                         : d->dp       ? 1
                                       : *data;
    if (dp * fsdp != *data)
        return base_fail(error, BASE_INPUT,
                         "%s: %lld devices are not dp %lld x fsdp %lld x tensor %lld x pipeline %lld x context %lld; "
                         "dp x fsdp is %lld here",
                         option, (long long)d->devices, (long long)dp, (long long)fsdp, (long long)d->tensor,
                         (long long)d->stages, (long long)d->context, (long long)*data);
    const bool hybrid = fsdp > 1 && dp > 1 && group == 1;
    if (hybrid)
        d->plan->values[SIM_ICI_MESH] = base_print(d->arena, "data=%lld,fsdp=%lld", (long long)dp, (long long)fsdp);
    if (fsdp > 1 && !sim_key_is_given(d->plan, SIM_RULES)) d->plan->values[SIM_RULES] = hybrid ? "maxtext" : "zero3";
    if (fsdp > 1 && dp > 1 && !hybrid)
        commands_warn(context, base_print(d->arena,
                                          "%lld sharded devices per replica are not modelled with other degrees: "
                                          "parameters are sharded over all %lld",
                                          (long long)fsdp, (long long)*data));
    return BASE_OK;
}

static enum base_status take_micro_batch(struct degrees *d, int64_t micro, int64_t data, struct base_error *error)
{
    int64_t batch = 0, steps = 1;
    if (!micro) return BASE_OK;
    if (!data)
        return base_fail(error, BASE_INPUT,
                         "--micro-batch-size: is per data-parallel device, and their number is unknown; give one "
                         "--topology whose devices the other degrees divide");
    BASE_TRY(key_number(d->plan, SIM_BATCH_SIZE, &batch, error));
    if (sim_key_is_given(d->plan, SIM_NUM_MICROBATCHES))
        BASE_TRY(base_parse_int(d->plan->values[SIM_NUM_MICROBATCHES], "num_microbatches", 0, 1 << 20, &steps, error));
    if (!batch) return put_number(d, SIM_BATCH_SIZE, micro * data * (steps > 1 ? steps : 1)), BASE_OK;
    if (batch % (micro * data))
        return base_fail(error, BASE_INPUT,
                         "--micro-batch-size: batch %lld is no multiple of %lld on each of %lld data-parallel devices; "
                         "%lld would be",
                         (long long)batch, (long long)micro, (long long)data,
                         (long long)(base_ceil_div(batch, micro * data) * micro * data));
    if (sim_key_is_given(d->plan, SIM_NUM_MICROBATCHES) && (steps > 1 ? steps : 1) != batch / (micro * data))
        return base_fail(
            error, BASE_INPUT,
            "--micro-batch-size: batch %lld in %lld microbatches is not %lld on each of %lld data-parallel "
            "devices; leave one of the three out",
            (long long)batch, (long long)(steps > 1 ? steps : 1), (long long)micro, (long long)data);
    put_number(d, SIM_NUM_MICROBATCHES, batch / (micro * data));
    return BASE_OK;
}

/* True if a search tries degrees: one that is not given, or several values of one. */
static bool searches_degrees(const struct commands_context *context, const struct sim_plan_text *plan)
{
    static const enum sim_key keys[] = {SIM_NUM_PARTITIONS, SIM_SUBMESH, SIM_PIPELINE_STAGES, SIM_CONTEXT_PARALLEL};
    bool several = false;
    for (int i = 0; i < BASE_COUNT(keys); i++) {
        const char *value = plan->values[keys[i]];
        several = several || (value && (!strcmp(value, "auto") || strpbrk(value, keys[i] == SIM_SUBMESH ? ";" : ",")));
    }
    return context->searches && !sim_key_is_given(plan, SIM_NUM_MICROBATCHES) &&
           (several || (!sim_key_is_given(plan, SIM_NUM_PARTITIONS) && !sim_key_is_given(plan, SIM_SUBMESH) &&
                        !sim_key_is_given(plan, SIM_ICI_MESH)));
}

/* ZeRO's stages: optimizer state, gradients too, parameters too. */
static void put_zero_stage(struct sim_plan_text *plan, int64_t stage)
{
    static const char *const partitionings[] = {"none", "data", "data+gradients"};
    const char *software = plan->values[SIM_SOFTWARE], *rules = software ? sim_usual_value(software, SIM_RULES) : NULL;
    if (stage == 3) plan->values[SIM_RULES] = "zero3";
    else {
        plan->values[SIM_OPTIMIZER_PARTITIONING] = partitionings[stage];
        if (rules && !sim_key_is_given(plan, SIM_RULES)) plan->values[SIM_RULES] = "data_only";
    }
}

/* Values given twice must agree. */
static enum base_status refuse_contradictions(const struct degrees *d, int64_t stage, int64_t micro,
                                              struct base_error *error)
{
    const char *degree = d->fsdp ? "--fsdp" : "--dp";
    const struct {
        bool clashes;
        const char *option, *key;
    } pairs[] = {{(d->dp || d->fsdp) && sim_key_is_given(d->plan, SIM_ICI_MESH), degree, "--ici-mesh"},
                 {micro && sim_key_is_given(d->plan, SIM_ICI_MESH) && !has_named_mesh(d->plan), "--micro-batch-size",
                  "--ici-mesh"},
                 {stage == 3 && sim_key_is_given(d->plan, SIM_RULES), "--zero-stage", "--logical-axis-rules"},
                 {stage >= 0 && sim_key_is_given(d->plan, SIM_OPTIMIZER_PARTITIONING), "--zero-stage",
                  "--optimizer-partitioning"},
                 {stage >= 0 && stage < 3 && d->fsdp, "--zero-stage", "--fsdp"}};
    for (int i = 0; i < BASE_COUNT(pairs); i++)
        if (pairs[i].clashes)
            return base_fail(error, BASE_USAGE, "%s: duplicates %s; leave one out", pairs[i].option, pairs[i].key);
    if (stage >= 0 && has_named_mesh(d->plan))
        return base_fail(error, BASE_INPUT, "--zero-stage: MaxText shards over a mesh; use --fsdp N");
    return BASE_OK;
}

enum base_status commands_take_degrees(struct commands_context *context, const struct base_arguments *arguments,
                                       struct sim_plan_text *plan, struct base_error *error)
{
    struct degrees d = {.arena = context->arena, .plan = plan};
    const char *topology, *chunks = commands_option_given(arguments, "--virtual-stages"),
                          *software = plan->values[SIM_SOFTWARE];
    int64_t micro = 0, stage = -1, data;
    /* Chunks of a stage take turns in that schedule alone; a list of tune has its own. */
    if (chunks && strcmp(chunks, "1") != 0 && !strchr(chunks, ',') && software && !strcmp(software, "megatron") &&
        !sim_key_is_given(plan, SIM_PIPELINE_SCHEDULE))
        plan->values[SIM_PIPELINE_SCHEDULE] = "interleaved";
    BASE_TRY(commands_topology_given(context->arena, arguments, &topology, error));
    if (topology && !commands_option_given(arguments, "--topology")) plan->values[SIM_TOPOLOGY] = topology;
    BASE_TRY(read_number(arguments, "--dp", -1, &d.dp, error));
    BASE_TRY(read_number(arguments, "--fsdp", -1, &d.fsdp, error));
    BASE_TRY(read_number(arguments, "--micro-batch-size", 1, &micro, error));
    BASE_TRY(read_number(arguments, "--zero-stage", 0, &stage, error));
    if (stage > 3) return base_fail(error, BASE_INPUT, "--zero-stage: %lld is none of 0, 1, 2 and 3", (long long)stage);
    BASE_TRY(refuse_contradictions(&d, stage, micro, error));
    if (stage >= 0) put_zero_stage(plan, stage);
    if (!d.dp && !d.fsdp && !micro) return BASE_OK;
    if (!d.dp && !d.fsdp && !has_named_mesh(plan) && searches_degrees(context, plan)) {
        context->micro_batch = micro;
        return sim_key_is_given(plan, SIM_BATCH_SIZE)
                   ? BASE_OK
                   : base_fail(error, BASE_USAGE,
                               "--micro-batch-size: how many devices share the batch is searched; give "
                               "--global-batch-size, too, or --tp");
    }
    BASE_TRY(find_devices(&d, error));
    if (!has_named_mesh(plan)) {
        BASE_TRY(check_data(context, &d, &data, error));
        return take_micro_batch(&d, micro, data, error);
    }
    if (d.dp || d.fsdp) put_named_mesh(&d);
    return take_micro_batch(&d, micro, d.devices, error); /* MaxText counts sequences by the device */
}
