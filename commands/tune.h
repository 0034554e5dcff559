/* Private to commands/: shared by searches of training and of inference. */
#ifndef COMMANDS_TUNE_H
#define COMMANDS_TUNE_H

#include "commands/commands.h"
#include "reports/reports.h"
#include "tuner/tuner.h"

/* ---- options that searches of all kinds have (tune_options.c) ---- */

/* Splits a list at its separator, but not inside JSON; the same value twice is one. BASE_INPUT: an empty value, or too
 * many. */
enum base_status commands_tune_values(struct base_arena *arena, const char *option, const char *text, char separator,
                                      struct tuner_values *out, struct base_error *error);
/* The separator of the key's values: a comma, or a semicolon if values contain commas. */
char commands_tune_separator(struct base_arena *arena, enum sim_key key, const char *text);
/* In percent of a device's memory, with or without the sign, or in bytes of that topology's; NULL: the default. */
#define COMMANDS_DEFAULT_HEADROOM "2"
enum base_status commands_tune_headroom(struct base_arena *arena, const char *given, const char *topology, double *out,
                                        struct base_error *error);

enum base_status commands_tune_percent(struct base_arena *arena, const char *given, const char *what, double least,
                                       double most, double *out, struct base_error *error);

/* --objective; a search of plans may ask for latency, too. BASE_USAGE: a price is asked for, and none is given. */
enum commands_search { COMMANDS_OF_STAGES, COMMANDS_OF_PLANS };
enum base_status commands_tune_objective(const struct base_arguments *arguments, enum commands_search search,
                                         enum tuner_objective *out, struct base_error *error);
/* --train-tokens and --device-hour-price of a plan's one topology; zeros where it lists several. */
enum base_status commands_tune_training(struct base_arena *arena, const struct base_arguments *arguments,
                                        const struct sim_plan_text *plan, struct reports_training *out,
                                        struct base_error *error);
/* --time-limit; 0: not given. --gap; 0: none. */
enum base_status commands_tune_limits(const struct commands_context *context, const struct base_arguments *arguments,
                                      double *time_limit_s, double *gap_frac, struct base_error *error);
/* --emit; NULL: not given. */
enum base_status commands_tune_emit_format(const struct base_arguments *arguments, const char **out,
                                           struct base_error *error);
/* The best plan's launcher; BASE_INPUT names a feature that it lacks. */
enum base_status commands_tune_launch(struct commands_context *context, const struct sim_plan_text *best,
                                      const char *format, struct base_text *out, struct base_error *error);

/* tune_uncertain.c. --risk: a chance that a plan does not fit is a share of memory that its prediction leaves free. */
enum base_status commands_tune_take_risk(struct commands_context *context, const struct base_arguments *arguments,
                                         const struct tuner_space *space, struct tuner_options *options,
                                         struct base_error *error);
/* The same of a space that such a plan is of, where the option is given. */
enum base_status commands_tune_risk_of(struct commands_context *context, const struct base_arguments *arguments,
                                       const struct sim_plan_text *text, double *risk_frac, double *headroom_frac,
                                       struct base_error *error);
/* The confidence of that plan's prediction, in the report. */
enum base_status commands_tune_confidence(struct commands_context *context, const struct tuner_space *space,
                                          struct tuner_plan chosen, struct reports_prediction *report,
                                          struct base_error *error);
/* The best plan at an accepted risk (--risk). */
enum base_status commands_tune_add_uncertain(struct commands_context *context, const struct tuner_space *space,
                                             const struct tuner_result *result, struct reports_tuned *report,
                                             struct base_error *error);

/* tune_detail.c. Predicts a plan again, with details for the report; passes: filled with its schedule, unless NULL. */
enum base_status commands_tune_detail(struct commands_context *context, const struct sim_plan_text *text,
                                      enum model_step step, struct sim_passes *passes, struct reports_prediction *out,
                                      struct base_error *error);
/* The same of all ranked plans of a search of training; plans has room for them. */
enum base_status commands_tune_detail_ranked(struct commands_context *context, const struct tuner_space *space,
                                             const struct tuner_result *result, struct reports_prediction *plans,
                                             struct base_error *error);

/* A search. If no plan leaves the headroom and some fit without it, a second search, in the remaining time, finds the
 * fastest of these. */
enum base_status commands_tune_search_once(struct tuner_space *space, const struct tuner_options *options,
                                           struct tuner_result *out, struct base_error *error);
/* tune_newest.c. The same; plans on TPUs that the newest compiler refuses are dropped and counted, and the search goes
 * on, over the request's space built again. */
enum base_status commands_tune_search(struct commands_context *context, const struct tuner_request *request,
                                      struct tuner_space *space, const struct tuner_options *options,
                                      struct tuner_result *out, struct base_error *error);

/* tune_stages.c: whether a search is one of plans with stages, and its answer. */
bool commands_tunes_stages(const struct sim_plan_text *plan);
/* An option asks for what a search of plans with stages lacks. */
bool commands_tune_lacks_stages(const struct base_arguments *arguments);
/* BASE_INPUT: several values of a key that varies with stages alone. */
enum base_status commands_tune_refuse_lists(const struct sim_plan_text *plan, struct base_error *error);
enum base_status commands_tune_stages(struct commands_context *context, const struct base_arguments *arguments,
                                      const struct sim_plan_text *plan, struct base_text *out,
                                      struct base_error *error);

/* tune_topologies.c: the answer of a search on several topologies. */
struct commands_tune_asked {
    struct commands_context *context;
    const struct tuner_request *request;
    const struct tuner_options *options;
};
enum base_status commands_tune_topologies(struct commands_context *context, const struct base_arguments *arguments,
                                          struct commands_tune_asked *asked, struct base_text *out,
                                          struct base_error *error);

/* The same of plans with stages; request: but for the topology. */
enum base_status commands_tune_stages_topologies(struct commands_context *context,
                                                 const struct base_arguments *arguments,
                                                 const struct tuner_stages_request *request, struct base_text *out,
                                                 struct base_error *error);

/* tune_serving.c: whether a search is one of inference, and its answer. */
bool commands_tunes_serving(const struct base_arguments *arguments, const struct sim_plan_text *plan);
enum base_status commands_tune_serving(struct commands_context *context, const struct base_arguments *arguments,
                                       const struct tuner_request *request, struct base_text *out,
                                       struct base_error *error);

#endif
