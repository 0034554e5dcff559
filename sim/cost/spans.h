/* When each kernel and collective of a step runs, and each pass of a pipeline. Included by cost.h. */
#ifndef SIM_SPANS_H
#define SIM_SPANS_H

/* In program order; an iteration of a loop encloses its spans. Plans with pipeline stages have none. */
enum sim_span_kind {
    SIM_SPAN_KERNEL,
    SIM_SPAN_COLLECTIVE,
    SIM_SPAN_BESIDE /* on a stream of its own */,
    SIM_SPAN_ITERATION
};
struct sim_span {
    enum sim_span_kind kind;
    int step; /* its entry of the timeline; of an iteration the first inside */
    double start_s, end_s;
    double serial_s;               /* the time at this point if nothing overlapped, which a memory curve uses */
    int trips;                     /* enum model_size: of an iteration's loop */
    int64_t iteration, iterations; /* its number; iterations it represents: a long step omits the others */
    int first, last; /* its inner spans; where it represents others: those of the one recorded iteration */
    int waiter;      /* the kernel that waits for a collective, or -1 */
};
struct sim_spans {
    struct sim_span *spans;
    int count;
    double end_s; /* the step's end on this clock, which leaves out waits for the host and recomputed layers */
};

/* When each pass of a pipeline's schedule begins and ends; all microbatches, stage by stage. */
struct sim_passes {
    const struct sim_pass_of *passes;
    const double *start_s, *end_s;
    int count;
    const int64_t *stage_bytes; /* by stage: the maximum over its devices */
    int stage_count;
    /* By pass: the maximum bytes of a device of its stage while it runs, and the bytes after it. NULL: memory does not
     * change over the step, or is not known. */
    const int64_t *pass_bytes, *behind_bytes;
    int slowest_stage, chunk_count; /* the stage shown; its chunks follow one another */
    const int *first_entries;       /* [chunk_count + 1] */
};

/* exposure.c: the clock of sim_exposed_s, with every iteration recorded. hidden_frac: per step of the list, the share
 * of a synchronous collective that overlaps with earlier work. */
void sim_record_spans(const struct sim_cost_context *p, const double *kernels_s, struct sim_unit_costs *prices,
                      const double *hidden_frac, struct base_arena *arena, struct sim_spans *out);
/* step_spans.c: the events of a list without asynchronous collectives: each is started and waited for at once. Returns
 * their number. */
int sim_synchronous_moments(const struct sim_cost_context *p, struct sim_schedule_event *out);
/* step_spans.c: the curve's times by the spans' clock. */
void sim_curve_by_spans(struct sim_memory_curve *curve, const struct sim_spans *spans);

#endif
