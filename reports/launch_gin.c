/* A plan as a run file of T5X (t5x_train_gin.txt, t5x_infer_gin.txt). Comment lines hold the keys that gin lacks. The
 * file is read back before it is printed, and a plan that comes back different is refused. */
#include "reports/launch.h"
#include "reports/template.h"

#include <string.h>

extern const char embedded_reports_t5x_train_gin_txt[], embedded_reports_t5x_infer_gin_txt[];

void reports_launch_title(const struct sim_plan *plan, struct base_text *out)
{
    base_putf(out, "%s on %s, batch %lld", plan->model_text, plan->topology_text, (long long)plan->batch_size);
    if (plan->num_microbatches > 1) base_putf(out, " in %lld microbatches", (long long)plan->num_microbatches);
}

const char *reports_launch_line(struct base_arena *arena, const struct sim_plan *plan)
{
    struct base_text title = {.arena = arena};
    reports_launch_title(plan, &title);
    for (char *at = title.data; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
    return title.data;
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

static void add_model(struct reports_values *v, const struct sim_plan *plan)
{
    const char *source = find_source(v->arena, plan->model_text), *remat = remat_name(plan->options.remat);
    const char *dtype =
        model_dtype_is_quantized(plan->options.dtype) ? "bfloat16" : model_dtype_name(plan->options.dtype);
    const struct model_config *c = plan->config;
    struct base_text network = {.arena = v->arena};
    if (source) model_gin_put_network(c, dtype, remat, &network);
    else {
        base_put(&network, "VOCABULARY = %gin.REQUIRED  # a seqio vocabulary of at most vocab_size tokens\nZ_LOSS = "
                           "0.0001\nLOSS_NORMALIZING_FACTOR = None\n");
        model_gin_put_model(c, dtype, remat, &network);
    }
    reports_value(v, "source", source);
    reports_value_lines(v, "network", network.data);
    reports_value(v, "activation_dtype",
                  c->experts.count && c->encoder && plan->options.dtype != MODEL_BFLOAT16 ? dtype : NULL);
    reports_value_if(v, "experts", c->experts.count > 0 || plan->request.has_experts);
}

/* ---- the run ---- */

static void add_data(struct reports_values *v, const struct sim_plan_text *text, const struct sim_plan *plan)
{
    /* Only if given: T5X's model files have values of their own. */
    static const struct {
        enum sim_key key;
        const char *name;
    } given[] = {{SIM_SEED, "seed"}, {SIM_Z_LOSS, "z_loss"}, {SIM_LOSS_NORMALIZING_FACTOR, "loss_normalizing_factor"}};
    const bool has_inputs = sim_key_is_given(text, SIM_INPUTS_LENGTH) && plan->config->encoder;
    reports_value(v, "lengths",
                  base_print(v->arena, "%s'targets': %lld",
                             has_inputs ? base_print(v->arena, "'inputs': %lld, ", (long long)plan->inputs_length) : "",
                             (long long)plan->targets_length));
    reports_value_int(v, "batch", plan->batch_size);
    if (plan->options.dropout) reports_value_double(v, "dropout", plan->dropout_rate);
    else reports_value(v, "dropout", "0.0");
    for (int i = 0; i < BASE_COUNT(given); i++)
        reports_value(v, given[i].name, sim_key_is_given(text, given[i].key) ? text->values[given[i].key] : NULL);
}

static void add_optimizer(struct reports_values *v, const struct sim_plan *plan)
{
    struct model_adafactor defaults = model_adafactor_defaults();
    const struct model_adafactor *own = plan->options.adafactor;
    const bool adafactor = plan->options.optimizer == MODEL_ADAFACTOR,
               own_rules = own && (own->factor_rules || !own->logical_factor_rules);
    struct base_text settings = {.arena = v->arena};
    if (adafactor) model_adafactor_put_gin(own ? own : &defaults, &settings);
    reports_value_if(v, "adafactor", adafactor);
    if (adafactor) reports_value_lines(v, "adafactor_settings", settings.data);
    else reports_value(v, "adafactor_settings", NULL);
    reports_value_if(v, "factor_rules", adafactor && plan->config->experts.count && !own_rules);
    reports_value(v, "optimizer", model_optimizer_name(plan->options.optimizer));
    reports_value_double(v, "learning_rate", plan->learning_rate);
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

static void add_partitioner(struct reports_values *v, const struct sim_plan_text *text, const struct sim_plan *plan)
{
    const struct topo_mesh_request *request = &plan->request;
    const bool experts = request->has_experts;
    struct base_text submesh = {.arena = v->arena}, rules = {.arena = v->arena};
    int64_t model = request->num_partitions ? request->num_partitions : 1;
    for (int i = 0; i < request->submesh_count; i++) {
        model *= request->submesh[i];
        base_putf(&submesh, "%s%d", i ? ", " : "(", request->submesh[i]);
    }
    base_put(&submesh, request->submesh_count > 1 ? ")" : request->submesh_count ? ",)" : "None");
    put_rules(plan, &rules);
    reports_value(v, "trainer", experts ? "moe_trainer.MoeTrainer" : "trainer.Trainer");
    reports_value(v, "partitioner", experts ? "moe_partitioning.MoePjitPartitioner" : "partitioning.PjitPartitioner");
    reports_value(v, "microbatches",
                  sim_key_is_given(text, SIM_NUM_MICROBATCHES) ? text->values[SIM_NUM_MICROBATCHES] : "None");
    if (experts) reports_value_int(v, "expert_partitions", request->num_expert_partitions);
    else reports_value(v, "expert_partitions", NULL);
    reports_value_int(v, "model_partitions", model); /* the layers group their tokens by these */
    reports_value(v, "partitions", sim_key_is_given(text, SIM_NUM_PARTITIONS) ? text->values[SIM_NUM_PARTITIONS] : "1");
    reports_value(v, "submesh", submesh.data);
    reports_value_lines(v, "rules", rules.data);
}

static enum base_status put_body(struct base_arena *arena, const struct sim_plan_text *text,
                                 const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const enum model_step step = plan->options.step;
    const bool infers = model_infers(step);
    struct reports_values values = {.arena = arena};
    struct base_text title = {.arena = arena}, inference = {.arena = arena};
    if (infers && step != MODEL_STEP_GENERATE && step != MODEL_STEP_SCORE)
        return base_fail(error, BASE_INPUT, "step: T5X's infer.py predicts or scores; use generate or score, not %s",
                         reports_step_name(step));
    reports_launch_title(plan, &title);
    reports_value(&values, "title", title.data);
    add_model(&values, plan);
    add_data(&values, text, plan);
    if (!infers) add_optimizer(&values, plan);
    if (infers) reports_launch_put_infer(text, plan, &inference);
    if (infers) reports_value_lines(&values, "inference", inference.data);
    add_partitioner(&values, text, plan);
    reports_put_template(infers ? embedded_reports_t5x_infer_gin_txt : embedded_reports_t5x_train_gin_txt, &values,
                         out);
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
