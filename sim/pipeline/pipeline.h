/* sim/pipeline: how a model's layers are split into stages, in which order each stage runs its passes, how long that
 * takes and how much of it is in flight at once. It knows of no program and no device: costs are given. */
#ifndef SIM_PIPELINE_H
#define SIM_PIPELINE_H

#include "base/base.h"
#include "model/model.h"

/* Models of 2024 have up to 126 layers (Llama 3.1 405B): no stages of a layer each meet these. */
enum { SIM_MOST_STAGES = 512, SIM_MOST_CHUNKS = 64, SIM_MOST_STAGE_CHUNKS = 2048 /* chunks of all stages */ };

/* 1F1B: Narayanan et al., PipeDream, and Megatron-LM. Interleaved: Narayanan et al., arXiv:2104.04473, 2.2. GPipe:
 * arXiv:1811.06965. */
enum sim_schedule_kind { SIM_ONE_FORWARD_ONE_BACKWARD, SIM_INTERLEAVED, SIM_GPIPE, SIM_SCHEDULE_KINDS };
enum sim_cut { SIM_BY_LAYERS, SIM_BY_LAYERS_AND_EMBEDDINGS, SIM_BY_COMPUTE_COST, SIM_BY_TORCHTITAN, SIM_CUT_COUNT };

/* What a plan says of its pipeline. */
struct sim_pipeline {
    int64_t stages, chunks; /* of layers on each stage: virtual stages */
    enum sim_schedule_kind schedule;
    enum sim_cut partition;
    int64_t split_rank;    /* first stage of the decoder behind an encoder; 0: half of the stages */
    int64_t first_layers;  /* of the first stage, where the partition leaves it open; 0: as it usually comes out */
    const int64_t *layers; /* of each piece, where a plan says them; NULL: as the software shares them out */
    bool forward_alone;    /* an evaluation: there are no backward passes */
};

/* ---- software (traits.c, pipelines.csv) ---- */

/* Layers that stages do not divide are refused, or the last stages get fewer, or every few stages get one less, even
 * none. */
enum sim_division { SIM_DIVIDES_EVENLY, SIM_DIVIDES_UNEVENLY, SIM_DIVIDES_FINELY, SIM_DIVISION_COUNT };

/* What was sent is freed; or stays until its gradient is there, whole or as the part that each device of a model group
 * sent; or until the step ends, beside buffers for what all microbatches will receive. */
enum sim_outputs { SIM_FREED, SIM_UNTIL_GRADIENT, SIM_PART_UNTIL_GRADIENT, SIM_UNTIL_STEP_ENDS, SIM_OUTPUTS_COUNT };

struct sim_pipeline_traits {
    enum sim_division division; /* of layers among stages */
    bool takes_layers;          /* it can be told how many each stage has */
    unsigned schedules;         /* bits of enum sim_schedule_kind that it can be told */
    const char *schedule_words; /* the same, as in "1f1b or gpipe" */
    bool scatters_messages;     /* each device of a model group sends its part, and the receivers gather them */
    bool hides_messages;        /* the sender computes on */
    bool overlaps_interleaved;  /* the same, of the interleaved schedule, since there is fp8 */
    enum sim_outputs outputs;   /* what becomes of what was sent */
    bool keeps_weights;         /* that were gathered, until the step ends; their gradients whole, too */
    double flat_float16_bytes, flat_bfloat16_bytes; /* a parameter, by compute dtype: the update's own flat arrays */
    double held_in_flight_frac; /* of what the allocator holds because the host is ahead: what each other microbatch in
                                   flight has of its own, since its blocks were split while it was */
    double message_latency_s;   /* of the host, for each message, beside what the link takes */
};
/* BASE_INPUT: the software has no pipelines. */
enum base_status sim_pipeline_traits_find(const char *software, struct sim_pipeline_traits *out,
                                          struct base_error *error);

/* ---- what a plan says of its pieces (layout_text.c) ---- */

/* Into the layers, or the partition, of a pipeline whose stages and chunks are known; the arena holds the layers, with
 * those of multi-token prediction among the last piece's. BASE_INPUT: no such layout, or not of so many layers. */
enum base_status sim_layout_read(struct base_arena *arena, const char *text, int64_t layers, int64_t mtp_layers,
                                 struct sim_pipeline *pipeline, struct base_error *error);

/* ---- stages (stages.c) ---- */

/* What one chunk of one stage has of the model. A pipeline's pieces stand in the order in which a microbatch passes
 * them: piece = chunk * stages + stage. */
struct sim_stage_chunk {
    unsigned parts;                                       /* bits of enum model_part */
    int64_t encoder_layers, decoder_layers, dense_layers; /* the last: of the decoder, the first of them */
};
/* Fills pieces[stages * chunks]. Division is how the software shares layers out.
 * BASE_INPUT names the key of what does not go. */
enum base_status sim_split_model(const struct model_config *config, const struct sim_pipeline *pipeline,
                                 enum sim_division division, struct sim_stage_chunk *pieces, struct base_error *error);

/* ---- timetables (timetable.c) ---- */

const char *sim_schedule_name(enum sim_schedule_kind kind); /* as plans and pipelines.csv say it */

/* One microbatch goes through one chunk of one stage, one way. */
struct sim_pass_of {
    short stage, chunk;
    int microbatch;
    bool backward;
};
/* Each stage's passes in the order in which it runs them: those of stage i stand from first[i] to first[i + 1]. */
struct sim_timetable {
    int stages, chunks, microbatches;
    int *first; /* stages + 1 */
    struct sim_pass_of *passes;
};
/* Lists live in the arena. BASE_INPUT: such a schedule cannot be, or has too many passes. */
enum base_status sim_timetable_make(struct base_arena *arena, const struct sim_pipeline *pipeline, int64_t microbatches,
                                    struct sim_timetable *out, struct base_error *error);

/* The same of one stage alone: other stages have no passes. */
enum base_status sim_timetable_of_stage(struct base_arena *arena, const struct sim_pipeline *pipeline,
                                        int64_t microbatches, int stage, struct sim_timetable *out,
                                        struct base_error *error);

/* ---- one order for all stages (event_order.c) ---- */

/* A pass, or the message that it has made on its way to the piece that needs it. */
struct sim_event_of {
    struct sim_pass_of pass;
    bool is_message;
};
struct sim_event_order {
    struct sim_event_of *events;
    int count;
};
/* An order in which all passes can run one after the other, each message just before the pass that needs it. A piece
 * has room for one message each way, so that it runs no further pass that way before that one is gone. Stages that each
 * take their own events in this order, and wait for each other at messages, never wait for ever. BASE_INPUT: there is
 * none. */
enum base_status sim_event_order_make(struct base_arena *arena, const struct sim_timetable *timetable,
                                      struct sim_event_order *out, struct base_error *error);

/* ---- time (pipeline_time.c) ---- */

struct sim_pipeline_costs {
    const double *forward_s, *backward_s; /* of one microbatch, by piece */
    const double *send_s, *send_back_s;   /* from each piece to the next one, and the gradient back; by the first */
    bool hidden;                          /* messages go while the sender computes on; else it waits for them */
};
struct sim_pipeline_time {
    double *start_s, *end_s; /* of each pass of the schedule; without its message */
    double *busy_s;          /* of each stage: its passes alone */
    double *waited_s;        /* of each stage: for its own messages */
    double total_s;          /* to the end of the last pass */
};
/* Each pass begins as soon as its stage is done with the one before and what it needs has come. BASE_INPUT: stages
 * that wait for each other for ever, or passes that are missing. */
enum base_status sim_pipeline_run(struct base_arena *arena, const struct sim_timetable *timetable,
                                  const struct sim_pipeline_costs *costs, struct sim_pipeline_time *out,
                                  struct base_error *error);

/* ---- memory (in_flight.c) ---- */

/* What a pass holds beside what other microbatches have left, by piece. */
struct sim_pass_memory {
    double saved;    /* from its forward pass to its backward pass */
    double forward;  /* at the most during its forward pass, what it will save included */
    double backward; /* the same during its backward pass */
    double left;     /* from its backward pass to the end of the step */
};
struct sim_stage_peak {
    double bytes;
    int pass;                       /* of the schedule */
    int in_flight[SIM_MOST_CHUNKS]; /* microbatches whose forward pass is done there and whose backward pass is not,
                                       without the one that runs */
    int done[SIM_MOST_CHUNKS];      /* those whose backward pass is */
};
/* At the most on one stage. memory: by its chunks. */
void sim_stage_peak_find(const struct sim_timetable *timetable, int stage, const struct sim_pass_memory *memory,
                         struct sim_stage_peak *out);
/* Places for what a microbatch saves from its forward pass to its backward pass on one piece, each used again as soon
 * as it is free: slots[microbatch] of piece chunk * stages + stage. Returns how many there are. */
int sim_slots_assign(struct base_arena *arena, const struct sim_timetable *timetable, int stage, int chunk, int *slots);
/* The most microbatches that a stage holds at once, in chunks of 1/chunks each. */
double sim_most_in_flight(const struct sim_timetable *timetable, int stage);

#endif
