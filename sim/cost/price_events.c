/* A step's allocations and frees as events of a cost program. Bytes between two candidates for the peak are added up;
 * loops are brackets. */
#include "sim/cost/cost.h"

/* A walk through the program's events. */
struct walk {
    const struct sim_sharded *s;
    struct sim_cost_program *out;
    const int *steps_before;                        /* per operation */
    int phase, first_of_phase[MODEL_OPTIMIZER + 1]; /* of events; and the first operation of each phase */
};

/* Adds an event to the stretch: allocations and frees of the same shape and category are one entry with a count. */
static void merge_event(struct sim_cost_program *out, int first, const struct sim_event *event)
{
    for (int i = first; i < out->event_count; i++) {
        struct sim_price_event *listed = &out->events[i];
        int count = listed->count + event->sign;
        if (listed->shape != event->shape || listed->category != event->category || count < INT8_MIN ||
            count > INT8_MAX)
            continue;
        listed->count = (signed char)count;
        return;
    }
    out->events[out->event_count++] = (struct sim_price_event){
        .shape = (short)event->shape, .count = event->sign, .category = (unsigned char)event->category};
}

/* Drops entries that cancel out. */
static void close_stretch(struct sim_cost_program *out, int first)
{
    int kept = first;
    for (int i = first; i < out->event_count; i++)
        if (out->events[i].count) out->events[kept++] = out->events[i];
    out->event_count = kept;
}

static void name_event(struct walk *w, struct sim_price_event *listed, int place, int trips)
{
    const struct sim_op *op = &w->s->ops[w->s->events[place].op];
    int step = w->steps_before[op - w->s->ops];
    listed->step = (short)(step < INT16_MAX ? step : INT16_MAX);
    listed->named = (unsigned short)w->out->event_name_count;
    w->out->event_places[w->out->event_name_count] = place;
    w->out->event_names[w->out->event_name_count++] = op->op->name;
    listed->phase = (unsigned char)op->op->phase;
    listed->trips = (unsigned char)trips;
}

/* Records the first event of the backward pass and of the update; a stretch of events ends there. */
static bool note_phase(struct walk *w, int op, int first)
{
    int *places[] = {NULL, &w->out->backward_event, &w->out->update_event}, before = w->phase;
    while (w->phase < MODEL_OPTIMIZER && op >= w->first_of_phase[w->phase + 1]) {
        if (w->phase == before) close_stretch(w->out, first);
        *places[++w->phase] = w->out->event_count;
    }
    return w->phase != before;
}

static void find_phases(struct walk *w)
{
    const int count = w->s->op_count;
    w->phase = MODEL_FORWARD;
    w->first_of_phase[MODEL_BACKWARD] = w->first_of_phase[MODEL_OPTIMIZER] = count;
    for (int i = count - 1; i >= 0; i--) {
        const struct sim_op *op = &w->s->ops[i];
        if (op->kind == SIM_COMPUTE && op->op->phase == MODEL_BACKWARD) w->first_of_phase[MODEL_BACKWARD] = i;
        if (op->kind == SIM_LOOP_END && op->trips == MODEL_MICROBATCHES) w->first_of_phase[MODEL_OPTIMIZER] = i;
    }
}

/* Memory can be at its peak only after an allocation that a free follows. Events between two such schedule_events are
 * added up in one stretch. */
void sim_list_events(struct base_arena *scratch, const struct sim_sharded *s, const int *steps_before,
                     struct sim_cost_program *out)
{
    struct walk w = {.s = s, .out = out, .steps_before = steps_before};
    int first = 0;
    find_phases(&w);
    out->backward_event = out->update_event = -1;
    out->events = base_reserve(scratch, (size_t)s->event_count + 1, sizeof *out->events);
    out->event_names = base_reserve(scratch, (size_t)s->event_count + 1, sizeof *out->event_names);
    out->event_places = base_reserve(scratch, (size_t)s->event_count + 1, sizeof *out->event_places);
    for (int i = 0; i < s->event_count; i++) {
        const struct sim_event *event = &s->events[i];
        const struct sim_op *op = &s->ops[event->op];
        bool may_peak = event->sign > 0 && (i + 1 == s->event_count || s->events[i + 1].sign <= 0);
        if (note_phase(&w, event->op, first)) first = out->event_count;
        if (!event->bracket) merge_event(out, first, event);
        if (!event->bracket && !may_peak) continue;
        close_stretch(out, first);
        if (event->bracket) {
            struct sim_price_event *listed = &out->events[out->event_count++];
            *listed = (struct sim_price_event){.bracket = event->bracket};
            name_event(&w, listed, i, event->trips);
        } else if (out->event_count > first) {
            struct sim_price_event *listed = &out->events[out->event_count - 1];
            listed->may_peak = true;
            name_event(&w, listed, i, op->loop >= 0 ? s->ops[op->loop].trips : MODEL_ONE);
        }
        first = out->event_count;
    }
    close_stretch(out, first);
}
