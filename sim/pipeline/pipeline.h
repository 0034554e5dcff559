/* sim/pipeline: splits a model's layers into stages, orders each stage's passes, and computes a schedule's time and its
 * microbatches in flight. It knows no program and no device: the caller provides the costs. */
#ifndef SIM_PIPELINE_H
#define SIM_PIPELINE_H

#include "base/base.h"
#include "model/model.h"

/* Models of 2024 have up to 126 layers (Llama 3.1 405B), so one layer per stage stays within these limits. */
enum { SIM_MOST_STAGES = 512, SIM_MOST_CHUNKS = 64, SIM_MOST_STAGE_CHUNKS = 2048 /* in a whole pipeline */ };

/* 1F1B: Narayanan et al., PipeDream, and Megatron-LM. Interleaved: Narayanan et al., arXiv:2104.04473, 2.2. GPipe:
 * arXiv:1811.06965. */
enum sim_schedule_kind { SIM_ONE_FORWARD_ONE_BACKWARD, SIM_INTERLEAVED, SIM_GPIPE, SIM_SCHEDULE_KINDS };
enum sim_cut { SIM_BY_LAYERS, SIM_BY_LAYERS_AND_EMBEDDINGS, SIM_BY_COMPUTE_COST, SIM_BY_TORCHTITAN, SIM_CUT_COUNT };

/* The pipeline settings of a plan. */
struct sim_pipeline {
    int64_t stages, chunks; /* chunks: per stage, Megatron-LM's virtual stages */
    enum sim_schedule_kind schedule;
    enum sim_cut partition;
    int64_t split_rank;    /* first decoder stage of an encoder-decoder model; 0: half of the stages */
    int64_t first_layers;  /* on the first stage, unless the partition says; 0: the default split */
    const int64_t *layers; /* per stage chunk, if the plan gives them; NULL: the software's own split */
    bool forward_alone;    /* evaluation: no backward passes */
};

/* ---- software (pipeline_traits.c, pipelines.csv) ---- */

/* How software treats layer counts that the stages do not divide. Evenly: it rejects them. Unevenly: the last stages
 * get fewer layers. Finely: every few stages get one layer less, or none. */
enum sim_division { SIM_DIVIDES_EVENLY, SIM_DIVIDES_UNEVENLY, SIM_DIVIDES_FINELY, SIM_DIVISION_COUNT };

/* How long a stage keeps an output after sending it. Freed: not at all. Until its gradient arrives: whole, or only the
 * part that each device of a tensor-parallel group sent. Until the step ends: with receive buffers for all
 * microbatches. */
enum sim_outputs { SIM_FREED, SIM_UNTIL_GRADIENT, SIM_PART_UNTIL_GRADIENT, SIM_UNTIL_STEP_ENDS, SIM_OUTPUTS_COUNT };

struct sim_pipeline_traits {
    const char *software;
    enum sim_division division; /* how it divides layers among stages */
    bool takes_layers;          /* it accepts layer counts per stage */
    unsigned schedules;         /* bits of enum sim_schedule_kind that it accepts */
    const char *schedule_words; /* the same in words, for example "1f1b or gpipe" */
    bool scatters_messages;     /* each device of a tensor-parallel group sends its part; receivers gather the parts */
    bool hides_messages;        /* the sender computes while it sends */
    bool overlaps_interleaved;  /* likewise for the interleaved schedule, in versions since fp8 */
    enum sim_outputs outputs;   /* how long it keeps sent outputs */
    bool keeps_weights;         /* keeps gathered weights and whole gradients until the step ends */
    double flat_float16_bytes, flat_bfloat16_bytes; /* optimizer arrays, per parameter, by compute dtype */
    double held_in_flight_frac; /* fraction of scattered bytes that the allocator still holds for each other microbatch
                                   in flight, because the host runs ahead */
    double message_latency_s;   /* host latency per message, in addition to the link time */
};
/* BASE_INPUT: the software has no pipeline parallelism. */
enum base_status sim_pipeline_traits_find(const char *software, struct sim_pipeline_traits *out,
                                          struct base_error *error);

/* ---- a plan's layout of stage chunks (layout_text.c) ---- */

/* Reads a layout into the pipeline's layers or partition. Its stages and chunks must be set. The arena owns the layers,
 * which count multi-token prediction layers in the last stage chunk. BASE_INPUT: invalid layout, or another number of
 * layers. */
enum base_status sim_layout_read(struct base_arena *arena, const char *text, int64_t layers, int64_t mtp_layers,
                                 struct sim_pipeline *pipeline, struct base_error *error);

/* ---- stages (stages.c) ---- */

/* The part of the model on one chunk of one stage. Stage chunks are listed in the order in which a microbatch passes
 * them: index = chunk * stages + stage. */
struct sim_stage_chunk {
    unsigned parts;                                       /* bits of enum model_part */
    int64_t encoder_layers, decoder_layers, dense_layers; /* dense: leading decoder layers without experts */
};
/* Fills stage_chunks[stages * chunks]. division: how the software divides layers. BASE_INPUT names the key to
 * change. */
enum base_status sim_split_model(const struct model_config *config, const struct sim_pipeline *pipeline,
                                 enum sim_division division, struct sim_stage_chunk *stage_chunks,
                                 struct base_error *error);

/* ---- timetables (timetable.c) ---- */

/* The forward or backward pass of one microbatch through one chunk of one stage. */
struct sim_pass_of {
    short stage, chunk;
    int microbatch;
    bool backward;
};
/* Each stage's passes in execution order: those of stage i are first[i] to first[i + 1] - 1. */
struct sim_timetable {
    int stages, chunks, microbatches;
    int *first; /* stages + 1 */
    struct sim_pass_of *passes;
};
/* The arena owns the lists. BASE_INPUT: the schedule is impossible or has too many passes. */
enum base_status sim_timetable_make(struct base_arena *arena, const struct sim_pipeline *pipeline, int64_t microbatches,
                                    struct sim_timetable *out, struct base_error *error);

/* The timetable of a single stage. Other stages have no passes. */
enum base_status sim_timetable_of_stage(struct base_arena *arena, const struct sim_pipeline *pipeline,
                                        int64_t microbatches, int stage, struct sim_timetable *out,
                                        struct base_error *error);

/* ---- one order for all stages (event_order.c) ---- */

/* A pass, or the message that carries its result to the stage chunk that needs it. */
struct sim_event_of {
    struct sim_pass_of pass;
    bool is_message;
};
struct sim_event_order {
    struct sim_event_of *events;
    int count;
};
/* An order in which all passes can run one after another, with each message just before the pass that needs it. A stage
 * chunk buffers one message per direction, so its next pass in that direction waits until that message is received.
 * Stages that run their own events in this order, and block on messages, never deadlock. BASE_INPUT: no such order
 * exists. */
enum base_status sim_event_order_make(struct base_arena *arena, const struct sim_timetable *timetable,
                                      struct sim_event_order *out, struct base_error *error);

/* ---- time (pipeline_time.c) ---- */

struct sim_pipeline_costs {
    const double *forward_s, *backward_s; /* one microbatch, per stage chunk */
    const double *send_s, *send_back_s;   /* from each stage chunk to the next, and its gradient back; indexed by the
                                             sender of the activation */
    bool hidden;   /* messages overlap the sender's computation; otherwise the sender waits for them */
    bool streamed; /* overlapped messages also overlap their own pass: they arrive when it ends, unless earlier ones
                      still use the link */
};
struct sim_pipeline_time {
    double *start_s, *end_s; /* per pass of the schedule, without its message */
    double *busy_s;          /* per stage: its passes alone */
    double *waited_s;        /* per stage: waiting for its own messages */
    double total_s;          /* to the end of the last pass */
};
/* Each pass starts as soon as its stage is free and its input has arrived. BASE_INPUT: the stages deadlock, or
 * passes are missing. */
enum base_status sim_pipeline_run(struct base_arena *arena, const struct sim_timetable *timetable,
                                  const struct sim_pipeline_costs *costs, struct sim_pipeline_time *out,
                                  struct base_error *error);

/* ---- memory (in_flight.c) ---- */

/* Memory that a pass needs in addition to that of other microbatches, per stage chunk. */
struct sim_pass_memory {
    double saved;    /* from its forward pass to its backward pass */
    double forward;  /* peak during its forward pass, with what it will save */
    double backward; /* peak during its backward pass */
    double left;     /* from its backward pass to the end of the step */
};
struct sim_stage_peak {
    double bytes;
    int pass;                       /* index into the schedule */
    int in_flight[SIM_MOST_CHUNKS]; /* microbatches between forward and backward pass, without the running one */
    int done[SIM_MOST_CHUNKS];      /* microbatches after their backward pass */
};
/* The peak of one stage. memory: indexed by its chunks. */
void sim_stage_peak_find(const struct sim_timetable *timetable, int stage, const struct sim_pass_memory *memory,
                         struct sim_stage_peak *out);
/* Assigns slots for what a microbatch saves from its forward to its backward pass on one stage chunk. Free slots are
 * reused. Fills slots[microbatch]; returns the number of slots. */
int sim_slots_assign(struct base_arena *arena, const struct sim_timetable *timetable, int stage, int chunk, int *slots);
/* The most microbatches that a stage holds at once. Each of its chunks counts as 1/chunks. */
double sim_most_in_flight(const struct sim_timetable *timetable, int stage);

#endif
