/* A plan as a run file of T5X. Comment lines hold the keys that gin lacks. The file is read back before it is printed,
 * and a plan that comes back different is refused. */
#include "reports/launch.h"

#include <string.h>

void reports_launch_title(const struct sim_plan *plan, struct base_text *out)
{
    base_putf(out, "%s on %s, batch %lld", plan->model_text, plan->topology_text, (long long)plan->batch_size);
    if (plan->num_microbatches > 1) base_putf(out, " in %lld microbatches", (long long)plan->num_microbatches);
}

/* ---- the model ---- */

/* T5X has three policies; selective recomputation saves about as much as minimal. */
static const char *remat_name(enum model_remat remat)
{
    return remat == MODEL_REMAT_NONE ? "none" : remat == MODEL_REMAT_FULL ? "full" : "minimal";
}

/* T5X's gin file of a zoo name; NULL: no zoo name. */
static const char *find_source(struct base_arena *arena, const char *name)
{
    int count;
    const struct model_zoo_model *models = model_zoo(arena, &count);
    const char *source = NULL, *row = model_zoo_name(arena, name);
    for (int i = 0; i < count && row; i++)
        if (!strcmp(models[i].name, row) && model_gin_is_gin(models[i].source)) source = models[i].source;
    return source;
}

static void put_model(struct base_arena *arena, const struct sim_plan *plan, struct base_text *out)
{
    const char *source = find_source(arena, plan->model_text), *remat = remat_name(plan->options.remat);
    const char *dtype =
        model_dtype_is_quantized(plan->options.dtype) ? "bfloat16" : model_dtype_name(plan->options.dtype);
    if (source) base_putf(out, "include '%s'\n", source);
    base_putf(out, "include 't5x/configs/runs/%s.gin'\n\n", model_infers(plan->options.step) ? "infer" : "pretrain");
    if (source) model_gin_put_network(plan->config, dtype, remat, out);
    else
        base_put(out, "VOCABULARY = %gin.REQUIRED  # a seqio vocabulary of at most vocab_size tokens\nZ_LOSS = "
                      "0.0001\nLOSS_NORMALIZING_FACTOR = None\n");
    if (!source) model_gin_put_model(plan->config, dtype, remat, out);
    if (plan->config->experts.count && plan->config->encoder && plan->options.dtype != MODEL_BFLOAT16)
        base_putf(out, "ACTIVATION_DTYPE = '%s'\n", dtype);
}

/* ---- the run ---- */

/* Only given keys: T5X's model files have values of their own. */
static void put_loss(const struct sim_plan_text *text, struct base_text *out)
{
    static const struct {
        enum sim_key key;
        const char *macro;
    } rows[] = {{SIM_Z_LOSS, "Z_LOSS"}, {SIM_LOSS_NORMALIZING_FACTOR, "LOSS_NORMALIZING_FACTOR"}};
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (sim_key_is_given(text, rows[i].key)) base_putf(out, "%s = %s\n", rows[i].macro, text->values[rows[i].key]);
}

static void put_data(const struct sim_plan_text *text, const struct sim_plan *plan, struct base_text *out)
{
    const char *inputs = text->values[SIM_INPUTS_LENGTH], *seed = text->values[SIM_SEED];
    base_put(out, "\nTASK_FEATURE_LENGTHS = {");
    if (inputs && *inputs && plan->config->encoder) base_putf(out, "'inputs': %lld, ", (long long)plan->inputs_length);
    base_putf(out, "'targets': %lld}\nBATCH_SIZE = %lld\nDROPOUT_RATE = ", (long long)plan->targets_length,
              (long long)plan->batch_size);
    base_put_double(out, plan->options.dropout ? plan->dropout_rate : 0);
    base_put(out, plan->options.dropout ? "\n" : ".0\n");
    if (model_infers(plan->options.step)) {
        base_put(out, "utils.DatasetConfig.batch_size = %BATCH_SIZE\n");
        return;
    }
    if (seed && *seed) base_putf(out, "RANDOM_SEED = %lld\n", (long long)plan->seed);
    put_loss(text, out);
    base_put(out, "train/utils.DatasetConfig.batch_size = %BATCH_SIZE\ntrain_eval/utils.DatasetConfig.batch_size = "
                  "%BATCH_SIZE\n");
}

static void put_optimizer(const struct sim_plan *plan, struct base_text *out)
{
    struct model_adafactor defaults = model_adafactor_defaults();
    const char *name = model_optimizer_name(plan->options.optimizer);
    bool adafactor = plan->options.optimizer == MODEL_ADAFACTOR;
    if (adafactor) {
        base_put(out, "\nOPTIMIZER = @adafactor.Adafactor()\nadafactor.Adafactor:\n");
        model_adafactor_put_gin(plan->options.adafactor ? plan->options.adafactor : &defaults, out);
        bool own_rules = plan->options.adafactor &&
                         (plan->options.adafactor->factor_rules || !plan->options.adafactor->logical_factor_rules);
        if (plan->config->experts.count && !own_rules)
            base_put(out, "adafactor.Adafactor.logical_factor_rules = @adafactor_utils.logical_factor_rules()\n");
    } else {
        base_putf(out,
                  "\nOPTIMIZER = @optimizers.chain()\noptimizers.chain.transformations = "
                  "[@optax.%s()]\noptax.%s.learning_rate = ",
                  name, name);
        base_put_double(out, plan->learning_rate);
        base_put(out, "\n");
    }
    base_put(out, "\nutils.create_learning_rate_scheduler:\n  factors = 'constant'\n  base_learning_rate = ");
    base_put_double(out, plan->learning_rate);
    base_put(out, "\n");
}

static void put_axes(const struct model_axes *axes, struct base_text *out)
{
    if (!axes->count) base_put(out, "None");
    if (axes->count > 1) base_put(out, "(");
    for (int i = 0; i < axes->count; i++) {
        if (i) base_put(out, ", ");
        if (axes->names[i]) base_put_python_string(out, axes->names[i]);
        else base_put(out, "None");
    }
    if (axes->count > 1) base_put(out, ")");
}

/* gin has no word for JAX's UNCONSTRAINED, and none for a rule or a mesh axis without a name. */
static bool can_be_said(const struct model_rules *rules)
{
    bool can = true;
    for (int i = 0; i < rules->count; i++) {
        const struct model_axes *axes = &rules->rules[i].value;
        can = can && rules->rules[i].logical && !axes->unconstrained;
        for (int j = 0; j < axes->count; j++) can = can && axes->names[j];
    }
    return can;
}

static void put_rules(const struct sim_plan *plan, struct base_text *out)
{
    const char *name = plan->rules_text;
    bool standard = !strncmp(name, "standard", strlen("standard")), moe = !strncmp(name, "standard_moe", 12);
    const char *dims = strchr(name, ':'), *module = moe ? "moe_partitioning" : "partitioning";
    if (standard) {
        base_putf(out, "@%s.standard_logical_axis_rules()\n%s.standard_logical_axis_rules:\n", module, module);
        base_putf(out, "  activation_partitioning_dims = %c\n  parameter_partitioning_dims = %c\n",
                  dims  ? dims[1]
                  : moe ? '2'
                        : '1',
                  dims ? dims[strlen(dims) - 1] : '1');
        return;
    }
    if (!can_be_said(plan->rules)) {
        base_put(out, "%gin.REQUIRED  # the comment below has rules that need Python code\n");
        return;
    }
    base_put(out, "[\n");
    for (int i = 0; i < plan->rules->count; i++) {
        base_put(out, "      (");
        base_put_python_string(out, plan->rules->rules[i].logical);
        base_put(out, ", ");
        put_axes(&plan->rules->rules[i].value, out);
        base_put(out, "),\n");
    }
    base_put(out, "  ]\n");
}

/* The layers group their tokens by these, which nothing else tells them. */
static void put_layer_partitions(const struct sim_plan *plan, struct base_text *out)
{
    int64_t model = plan->request.num_partitions ? plan->request.num_partitions : 1;
    for (int i = 0; i < plan->request.submesh_count; i++) model *= plan->request.submesh[i];
    base_putf(out,
              "moe_layers.MoeLayer.num_expert_partitions = %lld\nmoe_layers.MoeLayer.num_model_partitions = %lld\n",
              (long long)plan->request.num_expert_partitions, (long long)model);
}

static void put_partitioner(const struct sim_plan_text *text, const struct sim_plan *plan, struct base_text *out)
{
    const char *microbatches = text->values[SIM_NUM_MICROBATCHES], *partitions = text->values[SIM_NUM_PARTITIONS];
    const char *class =
        plan->request.has_experts ? "moe_partitioning.MoePjitPartitioner" : "partitioning.PjitPartitioner",
               *trainer = plan->request.has_experts ? "moe_trainer.MoeTrainer" : "trainer.Trainer";
    const bool infers = model_infers(plan->options.step);
    if (!infers)
        base_putf(out, "\n%s.num_microbatches = %s\n", trainer, microbatches && *microbatches ? microbatches : "None");
    if (plan->request.has_experts && !infers)
        base_putf(out,
                  "train_script.train.trainer_cls = @%s\n%s.learning_rate_fn = "
                  "@utils.create_learning_rate_scheduler()\n%s.num_expert_partitions = %lld\n",
                  trainer, trainer, trainer, (long long)plan->request.num_expert_partitions);
    if (plan->request.has_experts) put_layer_partitions(plan, out);
    base_putf(out, "\n%s.partitioner = @%s()\n%s:\n", infers ? "infer_script.infer" : "train_script.train", class,
              class);
    if (plan->request.has_experts)
        base_putf(out, "  num_expert_partitions = %lld\n", (long long)plan->request.num_expert_partitions);
    base_putf(out, "  num_partitions = %s\n  model_parallel_submesh = ", partitions && *partitions ? partitions : "1");
    for (int i = 0; i < plan->request.submesh_count; i++)
        base_putf(out, "%s%d", i ? ", " : "(", plan->request.submesh[i]);
    base_put(out, plan->request.submesh_count > 1 ? ")\n" : plan->request.submesh_count ? ",)\n" : "None\n");
    base_put(out, "  logical_axis_rules = ");
    put_rules(plan, out);
}

/* Imports for a MoE model's bindings; gin resolves an import in its own file alone. */
static void put_expert_imports(const struct sim_plan *plan, struct base_text *out)
{
    const bool experts = plan->config->experts.count > 0;
    if (experts || plan->request.has_experts)
        base_put(out, "from flaxformer.architectures.moe import moe_layers\n"
                      "from t5x.contrib.moe import partitioning as moe_partitioning\n");
    if (!model_infers(plan->options.step) && (experts || plan->request.has_experts))
        base_put(out, "from t5x.contrib.moe import adafactor_utils\n"
                      "from t5x.contrib.moe import trainer as moe_trainer\n");
}

static enum base_status put_inference(struct base_arena *arena, const struct sim_plan_text *text,
                                      const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const enum model_step step = plan->options.step;
    if (step != MODEL_STEP_GENERATE && step != MODEL_STEP_SCORE)
        return base_fail(error, BASE_INPUT, "step: T5X's infer.py predicts or scores; use generate or score, not %s",
                         reports_step_name(step));
    base_put(out, "# ");
    reports_launch_title(plan, out);
    base_put(out,
             ": a run file of T5X's infer.py, written by meshwright export\n"
             "#   python3 -m t5x.infer --gin_file=FILE --gin.CHECKPOINT_PATH='\"…\"' "
             "--gin.INFER_OUTPUT_DIR='\"…\"' --gin.MIXTURE_OR_TASK_NAME='\"…\"'\n"
             "from __gin__ import dynamic_registration\n\nimport __main__ as infer_script\n"
             "from t5x import decoding\nfrom t5x import models\nfrom t5x import partitioning\nfrom t5x import utils\n");
    put_expert_imports(plan, out);
    base_put(out, "\n");
    put_model(arena, plan, out);
    put_data(text, plan, out);
    reports_launch_put_infer(text, plan, out);
    put_partitioner(text, plan, out);
    return BASE_OK;
}

static enum base_status put_body(struct base_arena *arena, const struct sim_plan_text *text,
                                 const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    bool adafactor = plan->options.optimizer == MODEL_ADAFACTOR;
    if (model_infers(plan->options.step)) return put_inference(arena, text, plan, out, error);
    base_put(out, "# ");
    reports_launch_title(plan, out);
    base_put(out, ": a run file of T5X, written by meshwright export\n"
                  "#   python3 -m t5x.train --gin_file=FILE --gin.MODEL_DIR='\"…\"' --gin.MIXTURE_OR_TASK_NAME='\"…\"' "
                  "--gin.TRAIN_STEPS=…\n"
                  "from __gin__ import dynamic_registration\n\nimport __main__ as train_script\n");
    base_put(out, adafactor ? "from t5x import adafactor\n" : "import optax\nfrom t5x import optimizers\n");
    base_put(out, "from t5x import partitioning\nfrom t5x import trainer\nfrom t5x import utils\n");
    put_expert_imports(plan, out);
    base_put(out, "\n");
    put_model(arena, plan, out);
    put_data(text, plan, out);
    put_optimizer(plan, out);
    put_partitioner(text, plan, out);
    return BASE_OK;
}

/* ---- keys that gin lacks ---- */

static enum base_status read_back(struct base_arena *arena, const struct base_text *body, struct sim_plan_text *out,
                                  struct base_error *error)
{
    struct model_gin *gin;
    struct sim_gin_plan plan;
    BASE_TRY(model_gin_parse(arena, "export", body->data, &gin, error));
    BASE_TRY(sim_plan_from_gin(gin, &plan, error));
    *out = plan.text;
    return BASE_OK;
}

/* A model in a file of its own is said by the bindings, in the words of its sizes. */
static bool is_model_file(const struct sim_plan_text *text, int key)
{
    return key == SIM_MODEL && *text->values[key] == '@';
}

static enum base_status refuse_breaks(const struct sim_plan_text *text, struct base_error *error)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        for (const char *at = sim_key_is_given(text, (enum sim_key)key) ? text->values[key] : ""; *at; at++)
            if ((unsigned char)*at < ' ')
                return base_fail(
                    error, BASE_INPUT,
                    "%s: contains a line break or another control character, which a line of gin cannot express",
                    sim_plan_keys[key].name);
    return BASE_OK;
}

static void put_warnings(const struct sim_plan *plan, struct base_text *out)
{
    const char *lacks = sim_t5x_lacks(out->arena, plan, NULL);
    if (lacks) base_putf(out, "\n# T5X lacks these, and trains without them: %s\n", lacks);
}

static void put_comments(const struct sim_plan_text *text, const struct sim_plan_text *said, struct base_text *out)
{
    bool any = false;
    base_put(out, "\n# The rest of the plan; T5X passes over it, and meshwright import reads it.\n");
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        bool is_said = !sim_key_is_given(text, (enum sim_key)key) ||
                       (said->values[key] && !strcmp(text->values[key], said->values[key]));
        bool unreadable = key == SIM_MODEL && model_gin_is_gin(text->values[key]);
        if (!is_said && !unreadable)
            base_putf(out, "# meshwright: %s = %s\n", sim_plan_keys[key].name, text->values[key]);
    }
    /* These are bound above even if not given, since T5X's own files may bind another value. */
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const bool bound = !sim_key_is_given(text, SIM_STEP) || sim_key_is_given(said, (enum sim_key)key);
        if (!sim_plan_keys[key].gin_binds || sim_key_is_given(text, (enum sim_key)key) || !bound) continue;
        base_putf(out, "%s%s", any ? ", " : "# meshwright: defaults = ", sim_plan_keys[key].name);
        any = true;
    }
    if (any) base_put(out, "\n");
}

static enum base_status check_whole(const struct sim_plan_text *text, const struct sim_plan_text *back,
                                    struct base_error *error)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *given = sim_key_is_given(text, (enum sim_key)key) ? text->values[key] : "",
                   *got = back->values[key] ? back->values[key] : "";
        const bool bound_anyway = key == SIM_PARAMETER_DTYPE && !*given; /* infer.gin always binds the restored dtype */
        if (!bound_anyway && strcmp(given, got) != 0 && !is_model_file(text, key))
            return base_fail(error, BASE_INPUT, "%s: gin would read %.200s back as %.200s; use another spelling",
                             sim_plan_keys[key].name, *given ? given : "nothing", *got ? got : "nothing");
    }
    return BASE_OK;
}

enum base_status reports_launch_gin(struct base_arena *arena, const struct sim_plan_text *given,
                                    const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    struct base_text body = {.arena = arena};
    struct sim_plan_text said, back, own = *given, *text = &own;
    const char *parameter_dtype = own.values[SIM_PARAMETER_DTYPE];
    if (parameter_dtype && !strcmp(parameter_dtype, sim_plan_keys[SIM_PARAMETER_DTYPE].fallback))
        own.values[SIM_PARAMETER_DTYPE] = NULL; /* as computed, which gin spells out in either case */
    BASE_TRY(refuse_breaks(text, error));
    BASE_TRY(put_body(arena, text, plan, &body, error));
    BASE_TRY(read_back(arena, &body, &said, error));
    put_warnings(plan, &body);
    put_comments(text, &said, &body);
    BASE_TRY(read_back(arena, &body, &back, error));
    BASE_TRY(check_whole(text, &back, error));
    base_put_bytes(out, body.data, body.length);
    return BASE_OK;
}
