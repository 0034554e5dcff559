/* Messages about an answer's input: warnings at the head of the answer; notes on ignored input in one line on stderr,
 * or all of them with --notes. */
#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

#include <math.h>
#include <string.h>

void commands_warn(struct commands_context *context, const char *text)
{
    enum { MOST_WARNINGS = 64 };
    if (!context->warnings) context->warnings = base_new(context->arena, const char *, MOST_WARNINGS);
    for (int i = 0; i < context->warning_count; i++)
        if (!strcmp(context->warnings[i], text)) return;
    if (context->warning_count < MOST_WARNINGS)
        context->warnings[context->warning_count++] = base_copy(context->arena, text);
}

void commands_note(const struct commands_context *context, const char *text)
{
    if (context->note) context->note(context->note_where, text);
}

void commands_note_model(struct commands_context *context, const char *model)
{
    const struct model_gin *gin =
        model ? model_gin_config_notes(context->arena, model, context->gin_search_path) : NULL;
    if (gin) commands_note_gin(context, gin);
}

/* Differences in values alone matter to commands that compute; elsewhere they are notes. */
void commands_note_gin(struct commands_context *context, const struct model_gin *gin)
{
    const int notes = gin->note_count + (context->computes ? 0 : gin->difference_count);
    for (int i = 0; i < gin->warning_count; i++) commands_warn(context, gin->warnings[i]);
    for (int i = 0; i < gin->difference_count; i++) {
        if (context->computes) commands_warn(context, gin->differences[i]);
        else if (context->lists_notes || notes == 1) commands_note(context, gin->differences[i]);
    }
    for (int i = 0; i < gin->note_count && (context->lists_notes || notes == 1); i++)
        commands_note(context, gin->notes[i]);
    if (context->lists_notes || notes < 2) return;
    commands_note(context,
                  base_print(context->arena, "%.300s: %d gin settings were ignored (no effect); --notes lists them",
                             gin->name, notes));
}

void commands_warn_of_version(struct commands_context *context, struct base_arena *arena,
                              const struct sim_plan_text *text)
{
    const char *unknown;
    struct base_error broken; /* a table that cannot be read is said by whoever prices the plan */
    if (sim_version_unknown(arena, text, &unknown, &broken) == BASE_OK && unknown) commands_warn(context, unknown);
}

void commands_warn_of_untold(struct commands_context *context, struct base_arena *arena, const struct sim_plan *plan)
{
    const char *untold[REPORTS_MOST_UNTOLD];
    const int count = reports_untold(arena, plan, untold);
    const char *idle = sim_plan_idle_axes(arena, plan);
    const char *unjoined = topo_unjoined_hosts(arena, &plan->placement->topology);
    if (idle) commands_warn(context, idle);
    if (unjoined) commands_warn(context, unjoined);
    for (int i = 0; i < count; i++) commands_warn(context, untold[i]);
    const char *unreplayed = sim_torch_unreplayed(plan);
    if (unreplayed)
        commands_warn(context, base_print(arena,
                                          "PyTorch's allocations are not replayed for this %s: memory is that of live "
                                          "tensors, plus the allocator's overhead by constants of %s%s",
                                          unreplayed, plan->software,
                                          plan->expandable_segments ? "; expandable_segments has no effect" : ""));
    if (plan->expandable_segments && !unreplayed)
        commands_warn(context, "expandable_segments: is replayed by the rules of PyTorch's allocator; no run with it "
                               "was measured");
}

/* Share of the peak rate of products in the plan's dtype; 0: no judgement, since a local device's rate is measured on
 * its products. */
static double products_frac(const struct sim_plan *plan, const struct sim_prediction *p)
{
    if (plan->options.step != MODEL_STEP_TRAIN || sim_is_executed(plan)) return 0;
    return p->products_frac / fmax(1, sim_rate_frac(&plan->placement->profile, plan->options.dtype));
}

void commands_warn_of_speed(struct commands_context *context, const struct sim_plan *plan,
                            const struct sim_prediction *p)
{
    static const double published_frac = 0.65;
    const double frac = products_frac(plan, p);
    if (frac <= published_frac) return;
    commands_warn(context, base_print(context->arena,
                                      "%.1f %% of the peak of products is above %.0f %%, which few published runs "
                                      "reach: the plan may be slower than predicted",
                                      100 * frac, 100 * published_frac));
}

void commands_warn_of_copies(struct commands_context *context, const struct sim_plan *plan,
                             const struct sim_prediction *p)
{
    const struct sim_profile *profile = &plan->placement->profile;
    const bool is_megatron = profile->bucket_parameters > 0;
    if (!is_megatron || !model_dtype_is_small_float(plan->options.dtype) || sim_saves_quantised(plan)) return;
    if (plan->options.step != MODEL_STEP_TRAIN) return;
    commands_warn(context,
                  base_print(context->arena,
                             "memory counts weights and saved tensors in bfloat16: Transformer Engine saves "
                             "the latter in %s, and keeps copies of weights of up to %s here unless "
                             "--fp8-param-gather replaces them; use --software-version core or NeMo",
                             model_dtype_name(plan->options.dtype), base_bytes((double)p->memory.parameter_bytes)));
}

enum base_status commands_refuse_impossible(const struct commands_context *context, const struct sim_plan *plan,
                                            const struct sim_prediction *p, struct base_error *error)
{
    static const double possible_frac = 0.75;
    const double frac = products_frac(plan, p);
    const bool own_constants = sim_cache_overrides(context->cache) != NULL;
    if (!p->fits || own_constants || frac <= possible_frac) return BASE_OK;
    return base_fail(error, BASE_INTERNAL,
                     "no answer: it would be %.1f %% of the peak of products, and no training step reaches %.0f %%; "
                     "that is a fault of the prediction: please report the plan",
                     100 * frac, 100 * possible_frac);
}

void commands_note_undivided(struct commands_context *context, const struct sim_plan *plan)
{
    const char *why = reports_undivided(context->arena, plan);
    if (why) commands_note(context, why);
}

/* Experts are modelled as T5X's under any software; and rules without their axes replicate every expert, which is
 * rarely intended. */
void commands_warn_of_experts(struct commands_context *context, const struct sim_plan_text *text,
                              const struct model_config *config)
{
    const char *given = text->values[SIM_RULES] ? text->values[SIM_RULES] : sim_plan_keys[SIM_RULES].fallback,
               *software = text->values[SIM_SOFTWARE];
    const bool is_t5x = !software || !*software || !strcmp(software, sim_plan_keys[SIM_SOFTWARE].fallback);
    struct model_rules rules;
    struct base_error unread;
    if (!config->experts.count || !is_t5x || sim_key_is_given(text, SIM_EXPERT_PARALLEL)) return;
    if (model_rules_parse(context->arena, given, &rules, &unread) == BASE_OK && !model_rules_name(&rules, "expert"))
        commands_warn(context,
                      base_print(context->arena,
                                 "no rule of %.60s covers the axes of experts, so that each device holds all %lld of "
                                 "each layer; use standard_moe:1,1 with num_expert_partitions to shard them",
                                 *given == '[' ? "this list" : given, (long long)config->experts.count));
}

void commands_warn_of_left_out(struct commands_context *context, const char *part)
{
    commands_warn(context, base_print(context->arena, "%.40s is not modelled: this is the text model alone", part));
}

void commands_warn_of_unrun(struct commands_context *context, const char *members)
{
    if (context->computes && *members)
        commands_warn(context, base_print(context->arena,
                                          "the config.json's %.95s: not computed here, so that losses are those of a "
                                          "model without",
                                          members));
}

void commands_warn_of_plan(struct commands_context *context, const struct sim_plan_text *text,
                           const struct model_config *config)
{
    const char *inputs = text->values[SIM_INPUTS_LENGTH], *dtype = text->values[SIM_PARAMETER_DTYPE], *unsaid;
    struct base_error broken; /* said by whoever prices the plan */
    commands_warn_of_version(context, context->arena, text);
    if (sim_version_unsaid(context->arena, text, &unsaid, &broken) == BASE_OK && unsaid) commands_warn(context, unsaid);
    if (*config->left_out) commands_warn_of_left_out(context, config->left_out);
    commands_warn_of_unrun(context, config->unrun);
    if (dtype && !strcmp(dtype, "int8"))
        commands_warn(context, "parameter_dtype int8 is beyond T5X, which restores weights in float32 or bfloat16; "
                               "`infer` here runs it");
    if (config->encoder || !inputs || !*inputs) return;
    commands_warn(context, base_print(context->arena,
                                      "inputs_length %.20s is left out: %.80s has no encoder, and its sequences are of "
                                      "%.20s targets; give the length of inputs and targets joined as one number",
                                      inputs, text->values[SIM_MODEL], text->values[SIM_TARGETS_LENGTH]));
}

/* At the head of a text, or as the first member of an object. */
static void put_before(const struct commands_context *context, struct base_text *out)
{
    struct base_text whole = {.arena = out->arena};
    struct base_json_writer list = {.text = &whole, .layout = BASE_JSON_ONE_LINE};
    bool object = context->json && out->length && *out->data == '{', spread = object && out->data[1] == '\n';
    if (object) base_putf(&whole, spread ? "{\n  \"warnings\": " : "{\"warnings\":");
    if (object) base_json_open(&list, '[');
    for (int i = 0; i < context->warning_count; i++) {
        if (object) base_json_put_string(&list, context->warnings[i]);
        else base_putf(&whole, "Warning: %s\n", context->warnings[i]);
    }
    if (object) base_json_close(&list, ']');
    while (object && whole.data[whole.length - 1] == '\n') whole.data[--whole.length] = '\0';
    if (object) base_put(&whole, ",");
    size_t skipped = object ? 1 : 0;
    base_put_bytes(&whole, out->data + skipped, out->length - skipped);
    *out = whole;
}

void commands_put_warnings(struct commands_context *context, const struct commands_command *command,
                           struct base_text *out)
{
    bool inside =
        command->warns && out->length && *out->data != '<' && (context->json ? *out->data == '{' : !context->launches);
    if (!context->warning_count) return;
    if (inside) put_before(context, out);
    for (int i = 0; i < context->warning_count && !inside; i++)
        commands_note(context, base_print(context->arena, "warning: %s", context->warnings[i]));
    context->warning_count = 0;
}
