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
#define COMMANDS_DEFAULT_HEADROOM "2"
/* Takes the key's values out of the request's plan; "auto": the default range. BASE_INPUT as above, or two keys of the
 * mesh. */
enum base_status commands_tune_dimension(struct base_arena *arena, enum tuner_dimension d,
                                         struct tuner_request *request, struct base_error *error);
/* With or without the sign. */
enum base_status commands_tune_percent(struct base_arena *arena, const char *given, const char *what, double least,
                                       double most, double *out, struct base_error *error);

/* How plans are searched, but for inference's bounds. BASE_USAGE: a price is asked for, and none is given. */
enum commands_search { COMMANDS_OF_PLANS, COMMANDS_OF_STAGES, COMMANDS_OF_INFERENCE };
enum base_status commands_tune_options(const struct commands_context *context, const struct base_arguments *arguments,
                                       enum commands_search search, const char *topology, struct tuner_options *out,
                                       struct base_error *error);
/* What is asked, of a search of any kind. */
struct commands_tune_asked {
    struct commands_context *context;
    const struct base_arguments *arguments;
    enum commands_search search;
    struct tuner_request request; /* but for the topology, where several are listed */
    struct tuner_options options;
    struct reports_training training;
};

/* ---- tune_detail.c ---- */

/* The space of one topology. options: of the search to come; NULL: none. */
enum base_status commands_tune_space(const struct commands_tune_asked *asked, const char *topology,
                                     const struct tuner_options *options, struct tuner_space *out,
                                     struct base_error *error);
/* --risk: a chance that a plan does not fit is a share of memory that its prediction leaves free. */
enum base_status commands_tune_take_risk(struct commands_context *context, const struct base_arguments *arguments,
                                         const struct tuner_space *space, struct tuner_options *options,
                                         struct base_error *error);
/* Predicts a plan again, with details for the report; passes: filled with its schedule, unless NULL. */
enum base_status commands_tune_detail(struct commands_context *context, const struct sim_plan_text *text,
                                      enum model_step step, struct sim_passes *passes, struct reports_prediction *out,
                                      struct base_error *error);
/* The same of all ranked plans of a search. */
enum base_status commands_tune_detail_ranked(const struct commands_tune_asked *asked, const struct tuner_space *space,
                                             const struct tuner_result *result, const struct reports_prediction **out,
                                             struct base_error *error);

/* tune_search.c: a search. Plans that do not likely fit, on TPUs also those that the newest compiler refuses, are
 * dropped and counted, and the search goes on, over the request's space built again. */
enum base_status commands_tune_search(struct commands_context *context, const struct tuner_request *request,
                                      struct tuner_space *space, const struct tuner_options *options,
                                      struct tuner_result *out, struct base_error *error);

/* ---- tune_stages.c ---- */

bool commands_tunes_stages(const struct sim_plan_text *plan); /* a search is one of plans with stages */
/* An option asks for what a search of plans with stages lacks. */
bool commands_tune_lacks_stages(const struct base_arguments *arguments);
/* BASE_INPUT: several values of a key that varies with stages alone. */
enum base_status commands_tune_refuse_lists(const struct sim_plan_text *plan, struct base_error *error);
enum base_status commands_tune_read_stages(struct commands_context *context, const struct base_arguments *arguments,
                                           const struct sim_plan_text *plan, struct commands_tune_asked *out,
                                           struct base_error *error);

/* tune_topologies.c: the answer of a search on several topologies. */
enum base_status commands_tune_topologies(struct commands_tune_asked *asked, struct base_text *out,
                                          struct base_error *error);

/* tune_serving.c: whether a search is one of inference; its step and bounds. */
bool commands_tunes_serving(const struct base_arguments *arguments, const struct sim_plan_text *plan);
enum base_status commands_tune_read_serving(const struct base_arguments *arguments, struct commands_tune_asked *asked,
                                            struct base_error *error);

#endif
