/* Parameters of T5X and Optax that no plan key holds. A binding other than the plan's assumption is a warning if time
 * or memory would differ, else a note if values would. */
#include "sim/plan/gin_draft.h"
#include "sim/plan/gin_unheld.csv.h"

#include <string.h>

enum owner { OF_TRAINER, OF_MODEL, OF_NETWORK, OF_OPTIMIZER, OF_CLASS };
enum matter { VALUES, PRICE };

/* taken: the plan's assumption; None is equivalent. */
static const struct unheld {
    enum owner owner;
    const char *class; /* of OF_OPTIMIZER and OF_CLASS: the name without its modules */
    const char *parameter, *taken;
    enum matter matter;
    bool trains; /* says nothing of inference */
    const char *effect;
} rows[] = {GIN_UNHELD_ROWS};

/* The callee, or one without a name if the run lacks it or has another. */
static struct sim_gin_callee owner_of(struct sim_gin_draft *draft, const struct unheld *row)
{
    const struct model_gin_value *value = row->owner == OF_MODEL       ? draft->model.model
                                          : row->owner == OF_NETWORK   ? draft->model.network_config
                                          : row->owner == OF_OPTIMIZER ? draft->optimizer
                                                                       : NULL;
    if (row->owner == OF_CLASS) return (struct sim_gin_callee){"", row->class};
    if (row->owner == OF_TRAINER) return sim_gin_find_callee(draft, "trainer_cls", "", "Trainer");
    if (!value || (row->class && strcmp(model_gin_last_part(value->text), row->class) != 0))
        return (struct sim_gin_callee){"", NULL};
    return (struct sim_gin_callee){value->scope, value->text};
}

static bool is_taken(const struct model_gin_value *value, const char *taken)
{
    double a, b;
    struct base_error ignored;
    if (!value || value->kind == MODEL_GIN_NONE) return true;
    if (!taken || !value->text) return false;
    if (value->kind == MODEL_GIN_REFERENCE) return !strcmp(model_gin_last_part(value->text), taken);
    if (value->kind != MODEL_GIN_NUMBER) return !strcmp(value->text, taken);
    return base_parse_double(value->text, "", -1e300, 1e300, &a, &ignored) == BASE_OK &&
           base_parse_double(taken, "", -1e300, 1e300, &b, &ignored) == BASE_OK && !(a < b || a > b);
}

static void say(struct sim_gin_draft *draft, const struct unheld *row)
{
    struct model_gin_place place = {0};
    const struct sim_gin_callee owner = owner_of(draft, row);
    if (!owner.name) return;
    const struct model_gin_value *value = sim_gin_get(draft, owner, row->parameter, &place);
    if (is_taken(value, row->taken)) return;
    const char *text = value->text ? value->text : sim_gin_kind_name(value->kind);
    if (row->matter == PRICE)
        model_gin_warn(draft->gin, place, "%s is %.60s, which no plan key holds: %s", row->parameter, text,
                       row->effect);
    else
        model_gin_differ(draft->gin, place, "%s is %.60s, which no plan key holds: %s", row->parameter, text,
                         row->effect);
}

/* ---- Flaxformer's layers with experts ---- */

/* The last part of a constant of the code that macros lead to, MIXED of moe_enums.LayerLayout.MIXED; NULL: none. */
static const char *constant_of(struct model_gin *gin, const struct model_gin_binding *binding)
{
    enum { LONGEST_CHAIN = 32 };
    for (int i = 0; binding && binding->value->kind == MODEL_GIN_MACRO && i < LONGEST_CHAIN; i++) {
        if (strchr(binding->value->text, '.')) return model_gin_last_part(binding->value->text);
        binding = model_gin_find(gin, binding->value->scope, "", binding->value->text);
    }
    return NULL;
}

/* Positions of MoE layers in a stack. */
static void say_of_layout(struct sim_gin_draft *draft, const char *stack, const char *macro)
{
    const struct model_gin_binding *binding = model_gin_find(draft->gin, "", stack, "sparse_layout");
    if (!binding) binding = model_gin_find(draft->gin, "", "", macro);
    const char *layout = constant_of(draft->gin, binding);
    if (layout && strcmp(layout, "MIXED") != 0)
        model_gin_warn(
            draft->gin, binding->place,
            "%s is %.60s, which no plan key holds: the plan spaces layers with experts evenly, as MIXED does",
            binding->parameter, layout);
}

/* moe.gin gives the experts the model's own rate. */
static void say_of_expert_dropout(struct sim_gin_draft *draft)
{
    static const struct sim_gin_callee expert = {"expert", "dense.MlpBlock"};
    struct model_gin_place place = {0};
    const char *held = draft->plan.text.values[SIM_DROPOUT_RATE];
    const struct model_gin_value *value =
        sim_gin_get_or_macro(draft, expert, "intermediate_dropout_rate", "EXPERT_DROPOUT_RATE", &place);
    if (value && !is_taken(value, held ? held : "0"))
        model_gin_warn(draft->gin, place,
                       "the experts' dropout rate is %.60s, which no plan key holds: the plan's experts use that of "
                       "other layers, %s",
                       value->text ? value->text : sim_gin_kind_name(value->kind), held ? held : "nothing");
}

/* One plan key sets the parameter of partitioner, trainer and layers. */
static void say_of_partitions(struct sim_gin_draft *draft, struct sim_gin_callee owner, const char *parameter,
                              const char *held, const char *what)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *value = sim_gin_get(draft, owner, parameter, &place);
    if (!held) held = "1";
    if (is_taken(value, held)) return;
    model_gin_warn(draft->gin, place, "%s is %.60s, but %s of the plan's partitioner, whose value a plan uses: %s",
                   parameter, value->text ? value->text : sim_gin_kind_name(value->kind), held, what);
}

/* Devices per copy of the model, a parameter of T5X's MoE layers; NULL: not in the plan. */
static const char *model_partitions(struct sim_gin_draft *draft)
{
    const char *submesh = draft->plan.text.values[SIM_SUBMESH];
    int64_t product = 1, number;
    struct base_error ignored;
    if (!submesh || !*submesh) return draft->plan.text.values[SIM_NUM_PARTITIONS];
    for (const char *at = submesh; *at;) {
        const size_t length = strcspn(at, ",");
        const char *part = base_copy_bytes(draft->arena, at, length);
        if (base_parse_int(part, "", 1, 1 << 20, &number, &ignored) != BASE_OK) return NULL;
        product *= number;
        at += length + (at[length] == ',');
    }
    return base_print(draft->arena, "%lld", (long long)product);
}

static void say_of_experts(struct sim_gin_draft *draft)
{
    static const struct sim_gin_callee layer = {"", "MoeLayer"};
    if (!draft->has_model || !draft->model.config.experts.count) return;
    const char *experts = draft->plan.text.values[SIM_NUM_EXPERT_PARTITIONS];
    say_of_partitions(draft, layer, "num_expert_partitions", experts, "layers would send tokens in other groups");
    say_of_partitions(draft, layer, "num_model_partitions", model_partitions(draft),
                      "layers would send tokens in other groups");
    say_of_partitions(draft, sim_gin_find_callee(draft, "trainer_cls", "", "MoeTrainer"), "num_expert_partitions",
                      experts, "the trainer would multiply experts' gradients by another number");
    say_of_layout(draft, "moe_architecture.SparseEncoder", "ENCODER_SPARSE_LAYOUT");
    say_of_layout(draft, "moe_architecture.SparseDecoder", "DECODER_SPARSE_LAYOUT");
    if (!sim_gin_infers(draft)) say_of_expert_dropout(draft);
}

/* A run of no steps tests the code around them. */
static void say_of_steps(struct sim_gin_draft *draft)
{
    struct model_gin_place place = {0};
    const struct model_gin_value *steps =
        sim_gin_get(draft, (struct sim_gin_callee){"", draft->script}, "total_steps", &place);
    if (steps && steps->kind == MODEL_GIN_NUMBER && !strcmp(steps->text, "0"))
        model_gin_warn(
            draft->gin, place,
            "total_steps: T5X trains no step of this run and only evaluates; the plan is of the step that it "
            "would train");
}

enum base_status sim_gin_say_unheld(struct sim_gin_draft *draft)
{
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (!rows[i].trains || !sim_gin_infers(draft)) say(draft, &rows[i]);
    say_of_experts(draft);
    if (!sim_gin_infers(draft)) say_of_steps(draft);
    return BASE_OK;
}
