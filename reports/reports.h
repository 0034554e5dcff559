/* reports: answers as text for people and as JSON for scripts. Humane units are made here and in plots/ alone. */
#ifndef REPORTS_H
#define REPORTS_H

#include "base/base.h"
#include "sim/predict/predict.h"
#include "tuner/tuner.h"

/* ---- a plan in words (plan_words.c) ---- */

/* "batch 896 in 4 microbatches, lengths 512 and 512, submesh 4,2,2,1, …": the plan's line in every answer. */
const char *reports_plan_words(struct base_arena *arena, const struct sim_plan *plan);
/* The plan in its software's words, "TP 4, DP 32, micro batch 1, 64 microbatches"; NULL: none known (software_words.c).
 */
const char *reports_software_words(struct base_arena *arena, const struct sim_plan *plan);
/* Devices that parameters are sharded over where each such group is a replica (a mesh of data and fsdp alone); else 1
 * (launch_torch.c). */
int64_t reports_hybrid_shards(const struct sim_plan *plan);
/* MaxText's settings of a plan but for its model, KEY=VALUE each (launch_maxtext.c). */
void reports_put_maxtext_plan(const struct sim_plan *plan, const char *between, struct base_text *out);
/* "meshwright predict --model …": a command line that asks for the same plan again. */
const char *reports_plan_command(struct base_arena *arena, const struct sim_plan *checked);
void reports_put_shell_word(const char *word, struct base_text *out); /* between quotes where a shell wants them */
/* Options that the plan as it was given leaves to its software, as "--optimizer adamw, …"; NULL: none. */
const char *reports_assumed_words(struct base_arena *arena, const struct sim_plan_text *given,
                                  const struct sim_plan *checked);
/* The same as a member "assumed" of an object; no member if there is none. */
void reports_put_assumed(struct base_arena *arena, const struct sim_plan_text *given, const struct sim_plan *checked,
                         struct base_json_writer *w);
/* The compiler of a plan on TPUs, "XLA:TPU of 2026-06 (libtpu 0.0.42)"; NULL elsewhere. */
const char *reports_compiler_words(struct base_arena *arena, const struct sim_plan *plan);
/* "generate" and the like, as --step has them. */
const char *reports_step_name(enum model_step step);

/* "all with batch_size 896, optimizer adamw, dtype bfloat16": given keys without model and topology, if not at their
 * default; a line, or nothing. */
void reports_put_shared(const struct sim_plan_text *shared, struct base_text *out);
/* Given keys, and the plan's rules, optimizer, dtype and remat if none are given. */
struct sim_plan_text reports_plan_said(struct base_arena *arena, const struct sim_plan_text *given,
                                       const struct sim_plan *checked);
/* With the optimizer and the dtype that it has where it says none. */
struct sim_plan_text reports_said_filled(struct sim_plan_text plan);

/* ---- rules in words (rule_words.c) ---- */

/* "megatron but vocab->data, batch->data+model": a JSON list as the nearest documented set with differences; a name
 * stays. Logical axes that a set never shards are omitted. */
const char *reports_rule_words(struct base_arena *arena, const char *rules);

/* ---- a training run as a whole (training.c) ---- */

struct reports_training {
    double train_tokens;      /* target tokens, as T5X counts them; 0: nobody asked */
    double device_hour_price; /* of one JAX device, in the currency of whoever gives it; 0: not given, and none is made
                                 up */
};
struct reports_run_length {
    double steps, wall_s, device_hours, price;
};
struct reports_run_length reports_length_of_run(const struct reports_training *training,
                                                const struct sim_prediction *prediction);
/* The member "training" of a document. */
void reports_put_training(struct base_json_writer *writer, const struct reports_training *training,
                          const struct sim_prediction *prediction);
void reports_training_text(const struct reports_training *training, const struct sim_prediction *prediction,
                           struct base_text *out);
const char *reports_wall_words(struct base_arena *arena, double wall_s); /* "41.6 days" */
const char *reports_price_words(struct base_arena *arena, double price); /* "52.30", "189.5 k" */

/* ---- totals of a step, and its checkpoint (totals.c) ---- */

/* A gap of costs (share of the best's, below 1) as a gain of speed, in percent: half the time is 100 %. */
double reports_faster_percent(double gap_frac);
/* tokens_per_s of a prediction counts targets alone, as T5X does; these count the encoder's inputs, too. */
double reports_all_tokens_per_s(const struct sim_plan *plan, const struct sim_prediction *prediction);
/* "278.2 k target tokens/s, 556.4 k with inputs"; plan may be NULL: targets alone. */
const char *reports_tokens_words(struct base_arena *arena, const struct sim_plan *plan,
                                 const struct sim_prediction *prediction);

void reports_put_totals(struct base_json_writer *writer, const struct sim_prediction *prediction);
void reports_totals_text(const struct sim_prediction *prediction, struct base_text *out);
/* offloaded_bytes: in the host's memory for each device */
void reports_put_checkpoint(struct base_json_writer *writer, const struct sim_checkpoint *checkpoint,
                            int64_t offloaded_bytes);
void reports_checkpoint_text(const struct sim_checkpoint *checkpoint, int64_t offloaded_bytes, struct base_text *out);

/* ---- inference (served.c) ---- */

/* Inference: verdict, time of a token and an answer, and bars of time, in place of a training step's. */
struct reports_prediction;
void reports_served_verdict(const struct reports_prediction *report, struct base_text *out);
void reports_served_time(const struct reports_prediction *report, struct base_text *out);
/* The members "latency_s", "first_token_s", "decode_steps" and "inference". */
void reports_put_served(struct base_json_writer *writer, const struct reports_prediction *report);

/* ---- why a plan does not fit (shortage.c) ---- */

/* Bytes per device. limit_bytes: capacity for needed_bytes, without the compiler's reserved bytes if those are not
 * counted. missing_*: 0 if there is enough. */
struct reports_shortage {
    double needed_bytes, limit_bytes, missing_bytes, host_bytes, missing_host_bytes;
};
struct reports_shortage reports_shortage_of(const struct sim_prediction *prediction);
/* The member "missing_bytes", and "missing_host_bytes" where it is the host that lacks memory. */
void reports_put_shortage(struct base_json_writer *writer, const struct sim_prediction *prediction);
/* "2.5 GiB over", of the device, of the host's memory, or of both. */
const char *reports_missing_words(struct base_arena *arena, const struct reports_shortage *shortage);
/* "needs 34.5 GiB on each device; 32 GiB available (2.5 GiB over)" */
const char *reports_shortage_words(struct base_arena *arena, const struct reports_shortage *shortage);
/* The verdict of an answer, by its likelihood where that is known, and in words: "tight"; "It fits, but it is tight";
 * what follows a speed: "", ", if it fit"; and "14 % likely to run out of memory". */
enum sim_verdict reports_verdict(const struct reports_prediction *report);
const char *reports_verdict_name(enum sim_verdict verdict);
const char *reports_verdict_words(enum sim_verdict verdict);
const char *reports_verdict_brief(enum sim_verdict verdict); /* in a table: "fits", "probably not" */
const char *reports_if_fits(const struct reports_prediction *report);
const char *reports_risk_words(struct base_arena *arena, const struct sim_confidence *confidence);
/* The sentence that every view of an answer begins with: "It fits: needs 28 GiB on each device; …" */
const char *reports_headline(const struct reports_prediction *report, struct base_arena *arena);

/* ---- one prediction (prediction.c: text, prediction_json.c: the document) ---- */

/* text_bars.c. A line a part: name, amount, share of the whole, and a bar of that share. */
struct reports_part {
    const char *name;
    double size;
};
/* Right-aligned in columns of the screen: "%10s" counts bytes, of which the µ of µs has two. */
char *reports_format_right(char buffer[BASE_HUMANE], int width, const char *words);
#define reports_right(width, words) reports_format_right((char[BASE_HUMANE]){0}, width, words)
/* A row of a table of predicted against measured, or compiled, values; ratio: of the first to the second, 0: none. */
void reports_put_against(struct base_text *out, const char *what, const char *predicted, const char *measured,
                         double ratio);
void reports_put_bytes_against(struct base_text *out, const char *what, double predicted, double measured);
void reports_put_bars(const struct reports_part *parts, int count, double whole, char *(*format)(char *, double),
                      struct base_text *out);

/* A run's steps; its other measurements are in the prediction's fields. */
struct reports_measured {
    int rank_count; /* 0: all devices in one process */
    int64_t first_step, step_count;
    const double *loss, *gradient_norm, *step_s;
    const double *processor_s;              /* CPU seconds of all ranks in each step */
    const double *accuracy, *weight;        /* of a run that evaluates; else NULL */
    const struct sim_timeline *timeline;    /* may be NULL */
    bool stopped;                           /* by a signal, before its last step */
    const struct base_json *hosts;          /* as the executor lists them; NULL: not known */
    const char *failure;                    /* why it ended before its end; NULL: it did not */
    const struct sim_prediction *predicted; /* if collectives overlap with computation; else NULL */
};
/* Overlapped time of collectives. */
double reports_hidden_s(const struct sim_prediction *prediction);

/* Loss and token accuracy of all batches, by weight; 0 of none. */
struct reports_evaluation {
    double loss, accuracy, weight;
};
struct reports_evaluation reports_evaluate(const struct reports_measured *measured);

/* The plan by another memory model, or by a version of the software that the plan does not say. */
struct reports_otherwise {
    const char *version; /* NULL: by liveness */
    struct sim_prediction prediction;
    const struct sim_confidence *confidence;
};

struct reports_prediction {
    struct sim_plan_text plan;
    const struct sim_plan *checked;
    const char *again; /* the command line that gives this answer; NULL: it is not shown */
    const struct sim_prediction *prediction;
    const struct sim_collective_row *collectives;
    int collective_count;
    const struct sim_timeline *timeline;  /* may be NULL */
    const struct sim_memory_curve *curve; /* may be NULL */
    const struct sim_passes *passes;      /* of a pipeline, each; may be NULL */
    const struct sim_peak_buffers *peak;  /* buffers at the peak; may be NULL */
    const struct sim_moment *moment;      /* --buffers-at; or NULL */
    const struct sim_change *changes;     /* changes that make it fit; see sim_changes_that_fit. NULL: nobody asked */
    int change_count;
    bool by_op;                                /* --collectives-by-op */
    const struct reports_measured *measured;   /* NULL: it is a prediction */
    const struct sim_confidence *confidence;   /* NULL: it was not asked for, or measured */
    struct reports_training training;          /* --train-tokens */
    const struct sim_checkpoint *checkpoint;   /* NULL: nobody asked */
    const struct sim_serving *serving;         /* of steps of inference; else NULL */
    const struct reports_otherwise *otherwise; /* whose verdict is another; NULL: none's */
    /* of a network simulated link by link, the step otherwise priced; 0: it was not */
    double analytic_step_s;
    const struct sim_collective_row *analytic_collectives; /* and its collectives */
    int analytic_collective_count;
};
/* The buffers at the peak, or at another time (peak_report.c): the members "peak_buffers" and "buffers_at", and lines
 * of text. */
void reports_put_peak_buffers(struct base_json_writer *writer, const char *key, const struct sim_peak_buffers *peak);
void reports_put_moment(struct base_json_writer *writer, const struct sim_moment *moment);
void reports_peak_text(const char *heading, const struct sim_peak_buffers *peak, struct base_text *out);
void reports_moment_text(const struct sim_moment *moment, struct base_text *out);
/* Time of a collective by link load alone, by its index in the list; -1: not simulated, or not found. prediction.c */
double reports_analytic_s(const struct reports_prediction *report, int collective);
void reports_prediction_json(const struct reports_prediction *report, enum base_json_layout layout,
                             struct base_text *out);
void reports_prediction_text(const struct reports_prediction *report, struct base_text *out);
/* The same document as a member of another, without the plan and without the constants. */
void reports_put_answer(struct base_json_writer *writer, const char *key, const struct reports_prediction *report);
/* A run as text: its steps, then time, memory and collectives as measured (run.c). */
void reports_run_text(const struct reports_prediction *report, struct base_text *out);
/* The step as a Chrome trace for Perfetto: a track of computation and one of links. A prediction has every iteration on
 * the step's clock, which ends at step_s, with arrows from collectives to their waits (spans; NULL or none: each
 * operation with its repetitions, end to end, as for a measured run, or NULL). Further a counter of memory, whose curve
 * has the spans' times (NULL: none); and a track per pipeline stage with its passes, predicted and measured (NULL:
 * none). traces.c */
struct reports_trace_parts {
    const struct sim_timeline *predicted, *measured;
    const struct sim_spans *spans;
    double step_s;
    const struct sim_memory_curve *curve;
    const struct sim_passes *predicted_passes, *measured_passes;
};
void reports_trace(const struct reports_trace_parts *parts, struct base_text *out);
/* A pipeline's schedule as a list of passes, in a document (pipelines.c). */
void reports_put_pipeline(struct base_json_writer *w, const struct sim_prediction *prediction,
                          const struct sim_passes *passes);
void reports_put_run_of_pipeline(struct base_json_writer *w, const struct sim_passes *passes); /* as measured */
/* By pass, the one that waits for what it sends: of the next chunk of layers, or of the one before. -1: none. */
int *reports_receivers(struct base_arena *arena, const struct sim_passes *passes);
/* Members of one row of "collectives", predicted or measured; where (a region of inference) may be NULL. */
void reports_put_collective(struct base_json_writer *writer, const struct topo_axes *mesh,
                            const struct sim_collective_row *row, const char *where);
const char *reports_phase_name(enum model_phase phase);
/* Each measured entry with its predicted one, or NULL; measured->count of them, in the arena. */
struct reports_pair {
    const struct sim_entry *measured, *predicted;
};
struct reports_pair *reports_join(struct base_arena *arena, const struct sim_timeline *measured,
                                  const struct sim_timeline *predicted);

/* ---- a search (tuned.c) ---- */

/* Maximum number of explored plans in a search's page. */
enum { REPORTS_MOST_LOOKED = 20000 };
/* The plans that a search looked at by themselves: tuner_options.looked and its `where`. Of more than
 * REPORTS_MOST_LOOKED those that fit are kept before others, predicted ones before those that a bound decided, faster
 * ones before slower ones. */
struct reports_looked *reports_looked_new(struct base_arena *arena);
void reports_looked_add(void *where, const struct tuner_looked *plan);
/* "cut_from_count" says how many plans there were, where not all of them are kept. */
void reports_put_looked(struct base_json_writer *w, struct reports_looked *looked, const struct tuner_space *space,
                        const struct tuner_options *asked, int64_t capacity_bytes);

/* The real compiler's answer for a plan (verify_report.c), and the prediction as compiled. */
struct reports_judged {
    const struct sim_plan *plan;
    const struct sim_prediction *predicted;
    const struct sim_collective_row *collectives; /* of the prediction */
    int collective_count;
    bool answered; /* it gave a verdict; if not, message has the reason, and the rest is 0 */
    bool fits;
    int64_t peak_bytes, argument_bytes, output_bytes, temp_bytes;
    int64_t rematerialized_count; /* instructions that the compiler recomputed, or changed the layout of */
    const char *message;
    double seconds;
    const struct base_json *compiled_collectives; /* rows of kind, mesh_axis, count and bytes; or NULL */
};
/* Members of an object that the caller has opened. */
void reports_put_judged(struct base_arena *arena, const struct reports_judged *judged, struct base_json_writer *writer);
void reports_judged_text(struct base_arena *arena, const struct reports_judged *judged, struct base_text *out);

/* A run on the plan's devices (run_report.c), with its prediction: the document that the exported program prints, with
 * step_s, loss and bytes. */
struct reports_ran {
    const struct sim_plan *plan;
    const struct sim_prediction *predicted;
    const struct base_json *measured;
};
enum reports_ran_verdict { REPORTS_RAN, REPORTS_RAN_OUT_OF_MEMORY, REPORTS_RAN_NOT };
/* NOT: it says nothing of the plan, but why, in message. */
enum reports_ran_verdict reports_ran_verdict(const struct reports_ran *ran, const char **message);
/* Members of an object that the caller has opened. */
void reports_put_ran(const struct reports_ran *ran, struct base_json_writer *writer);
void reports_ran_text(const struct reports_ran *ran, struct base_text *out);

struct reports_tuned {
    struct base_arena *arena;
    const struct tuner_space *space;
    const struct tuner_result *result;
    const struct tuner_options *options;
    struct reports_training training;             /* --train-tokens, --device-hour-price */
    const struct reports_prediction *plans;       /* of result->plans, with collectives */
    const struct tuner_comparison *why;           /* comparison of the best with the second; or NULL */
    const struct tuner_alternative *alternatives; /* the best with one choice changed */
    int alternative_count;
    const struct tuner_wider *wider; /* where nothing fits: where something does */
    int wider_count;
    const char *launch_format, *launch;     /* --emit, or NULL */
    struct reports_looked *looked;          /* --detail, or NULL */
    bool warned;                            /* some features are not modelled: "no plan fits" is then unproven */
    bool simulated;                         /* --network simulated: ranked with collectives sent link by link */
    const struct sim_confidence *guarantee; /* of the best, with --risk; or NULL */
};
void reports_tuned_json(const struct reports_tuned *report, enum base_json_layout layout, struct base_text *out);
void reports_tuned_text(const struct reports_tuned *report, struct base_text *out);
/* --fit: how large the model axis has to be. */
void reports_fit_json(const struct reports_tuned *report, const struct tuner_fit_row *rows, int count,
                      enum base_json_layout layout, struct base_text *out);
void reports_fit_text(const struct reports_tuned *report, const struct tuner_fit_row *rows, int count,
                      struct base_text *out);
/* Every plan of the space as rows of a sweep, whose predicted_fits includes the headroom. */
void reports_space_csv(const struct tuner_space *space, double headroom_frac,
                       void (*put)(void *where, const char *bytes, size_t length), void *where);

/* ---- answers side by side (compared.c) ---- */

enum reports_format { REPORTS_TEXT, REPORTS_MARKDOWN };
/* "answers" of a document, each with its name. BASE_INPUT: there are not two. */
enum base_status reports_compared(const struct base_json *document, enum reports_format format, struct base_text *out,
                                  struct base_error *error);

/* ---- one question asked of several topologies (choices.c) ---- */

struct reports_choice {
    const char *topology, *refused;  /* refused: why there is no answer; or NULL */
    struct sim_plan_text plan, said; /* said: given keys, without searched ones */
    struct reports_prediction prediction;
    const char *words;                    /* of the plan */
    int64_t space_count, evaluated_count; /* of a search; else 0 */
    bool proven, tight;                   /* tight: it fits without the headroom, and is not the best */
};
int reports_best_choice(const struct reports_choice *choices, int count, enum tuner_objective objective); /* -1: none */
void reports_choices_text(const struct reports_choice *choices, int count, enum tuner_objective objective,
                          struct base_text *out);
void reports_choices_json(const struct reports_choice *choices, int count, enum tuner_objective objective,
                          enum base_json_layout layout, struct base_text *out);
/* Common keys of all plans of a space (tuned.c). */
struct sim_plan_text reports_space_said(const struct tuner_space *space);
/* "submesh 4,2,2,1 (data 16 x model 16), rules standard:2,1, …" (tuned.c) */
void reports_put_found(struct base_arena *arena, const struct tuner_space *space, const struct tuner_found *found,
                       struct base_text *out);

/* ---- a run against its prediction (compare_run.c) ---- */

struct reports_beside {
    const struct sim_plan_text *text;
    const struct sim_plan *plan;
    const struct sim_prediction *run, *predicted; /* run: measurements, in that form */
    const struct reports_measured *measured;      /* with its timeline */
    const struct sim_timeline *predicted_timeline;
};
/* Time by part, the operations that differ most, memory. One page; all operations in JSON. */
void reports_beside_page(const struct reports_beside *beside, enum reports_format format, struct base_text *out);
void reports_beside_json(const struct reports_beside *beside, enum base_json_layout layout, struct base_text *out);

/* ---- accuracy of a sweep (accuracy.c) ---- */

struct reports_row {
    const char *id, *model, *topology, *error;
    struct sim_plan_text plan;
    double measured_step_s, measured_tokens_per_s, measured_peak_memory_bytes; /* NaN: not measured */
    int measured_oom;                                                          /* -1: not known */
    bool predicted;
    struct sim_prediction prediction;
};

/* A measured row for the table and the order. */
struct reports_kept_row {
    int alike; /* the first kept row of this model and topology */
    bool timed;
    struct reports_row row;
};

enum { REPORTS_KEPT_ROWS = 1000, REPORTS_MOST_GROUPS = 64 };

struct reports_accuracy {
    struct base_arena *arena;
    struct reports_kept_row *rows; /* the first measured ones */
    int kept_count, kept_capacity;
    int64_t row_count, unpredicted_count, step_count, memory_count, oom_count, oom_right_count, verdict_count,
        verdict_right_count, false_fit_count;
    double step_error_sum, step_bias_sum, memory_error_sum;
    struct reports_group {
        const char *model, *topology;
        int64_t count;
        double error_sum, bias_sum;
    } groups[REPORTS_MOST_GROUPS];
    int group_count;
    char first_error[400];
    int64_t unread_count; /* cells of measured columns that hold something, but nothing measured */
    char first_unread[200];
};
void reports_accuracy_begin(struct reports_accuracy *accuracy, struct base_arena *arena);
void reports_accuracy_add(struct reports_accuracy *accuracy, const struct reports_row *row);
void reports_accuracy_unread(struct reports_accuracy *accuracy, int64_t line_number, const char *why);
void reports_accuracy_text(const struct reports_accuracy *accuracy, const char *path, struct base_text *out);
void reports_accuracy_json(const struct reports_accuracy *accuracy, enum base_json_layout layout,
                           struct base_text *out);

/* ---- calibration (calibration_report.c) ---- */

struct reports_calibration {
    const struct sim_calibration *calibration;
    const struct sim_measurement *measurements;
    int measurement_count;
    const struct base_json *start; /* the profile that was calibrated further, or NULL */
    const char *name;              /* of the profile; NULL: the chip's */
};
/* The document is a profile: --profile takes it. */
void reports_calibration_json(const struct reports_calibration *report, enum base_json_layout layout,
                              struct base_text *out);
void reports_calibration_text(const struct reports_calibration *report, const char *path, struct base_text *out);

/* ---- launchers of a plan (launch_gin.c, launch_jax.c, launch_slurm.c, launch_torch.c) ---- */

/* True if --format slurm writes settings and launch line of the plan's own PyTorch software, instead of a T5X run file.
 */
bool reports_launches_itself(const struct sim_plan *plan);
/* Features of the plan that its software lacks, of partitions, stages, chunks, context and sequence parallelism,
 * sharded state and quantized products: number of sentences, in the arena. */
enum { REPORTS_MOST_UNTOLD = 8 };
int reports_untold(struct base_arena *arena, const struct sim_plan *plan, const char *out[REPORTS_MOST_UNTOLD]);
/* Why the plan's software would refuse its batch, which here is padded; NULL: it divides. */
const char *reports_undivided(struct base_arena *arena, const struct sim_plan *plan);
/* gin: a run file of T5X, which model_gin_read and sim_plan_from_gin turn into the same plan again; what gin has no
 * word for stands in comment lines. jax: the mesh and the shardings in plain JAX. slurm: a job script for GPU nodes,
 * gcloud: one for TPU VMs, that hold the run file. text is the plan as given, plan the same checked. BASE_USAGE: an
 * unknown format; BASE_INPUT: a plan that the format cannot say. */
enum base_status reports_launch(struct base_arena *arena, const char *format, const struct sim_plan_text *text,
                                const struct sim_plan *plan, struct base_text *out, struct base_error *error);
/* One as a member of a document (tuned_json.c). */
void reports_put_launcher(struct base_json_writer *writer, const char *key, const char *format, const char *text);
/* Formats of jobs first, as they take a command; the last are files of other software, which import reads back. */
#define REPORTS_LAUNCH_FORMATS                                                                                         \
    "slurm", "gcloud", "gin", "jax", "aot", "maxtext", "deepspeed", "megatron", "torchtitan", "nanotron"
/* The same, with a command in place of T5X: one line, which finds the plan as JSON in $PLAN_FILE; NULL: T5X. */
enum base_status reports_launch_command(struct base_arena *arena, const char *format, const struct sim_plan_text *text,
                                        const struct sim_plan *plan, const char *command, struct base_text *out,
                                        struct base_error *error);

/* ---- the page (live_page.c) ---- */

/* data: a JSON object with the initial plan, by names of options, the plan's keys, names of models and topologies.
 * held: content without a server: {"document", "around", "machine", "command"}; NULL: the page asks a server. */
void reports_live_page(const struct base_text *data, const struct base_json *held, struct base_text *out);

#endif
