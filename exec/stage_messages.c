/* Messages between pipeline stages: a message stays at its sender's place until the pass that needs it takes it. */
#include "exec/stage_machines.h"

#include <string.h>

/* ---- beginning ---- */

int exec_stage_chunk_count(const struct exec_stages *stages)
{
    return stages->program.stages * stages->program.chunks;
}

bool exec_is_own_stage_chunk(const struct exec_stages *stages, int stage_chunk)
{
    return stages->own_stage < 0 || stage_chunk % stages->program.stages == stages->own_stage;
}

/* ---- messages ---- */

int exec_stage_chunk_of(const struct exec_stages *stages, const struct sim_pass_of *pass)
{
    return pass->chunk * stages->program.stages + pass->stage;
}

enum pass { FORWARD, BACKWARD };

/* The operation that sends (or receives) a pass's n-th message; -1: no more. */
static int message_at(const struct exec_machine *m, enum pass pass, enum model_function function, int n)
{
    const struct sim_pass_bounds *b = &m->stages->program.pieces[m - m->stages->machines].bounds;
    for (int i = pass == BACKWARD ? b->backward : b->loop; i < (pass == BACKWARD ? b->end : b->backward); i++)
        if (m->s->ops[i].kind == SIM_COMPUTE && m->s->ops[i].op->function == function && n-- == 0) return i;
    return -1;
}

static int64_t message_bytes(const struct exec_machine *m, int value)
{
    return exec_part_elements(m, value, m->first_device, EXEC_WITH_PADDING) *
           model_dtype_bytes(m->s->values[value].dtype);
}

/* Sends or receives in segments that are small enough for any transport. */
static void pass_on(const struct exec_stages *stages, int peer_stage, char *out, char *in, int64_t bytes)
{
    const int peer = peer_stage * stages->device_count + stages->inside.rank;
    for (int64_t at = 0; at < bytes; at += EXEC_SEGMENT_BYTES) {
        const int64_t n = bytes - at < EXEC_SEGMENT_BYTES ? bytes - at : EXEC_SEGMENT_BYTES;
        exec_swap(stages->transport, peer, out ? out + at : NULL, out ? n : 0, peer, in ? in + at : NULL, in ? n : 0);
    }
}

void exec_send(struct exec_stages *stages, const struct sim_pass_of *pass)
{
    const int stage_chunk = exec_stage_chunk_of(stages, pass), to = pass->backward ? stage_chunk - 1 : stage_chunk + 1;
    struct exec_machine *m = &stages->machines[stage_chunk];
    const double start_s = exec_seconds(m);
    for (int n = 0, at; (at = message_at(m, pass->backward ? BACKWARD : FORWARD, MODEL_SEND, n)) >= 0; n++) {
        const int value = m->s->ops[at].outputs[0];
        pass_on(stages, to % stages->program.stages, exec_address(m, value, m->first_device), NULL,
                message_bytes(m, value));
    }
    m->communication_s += exec_seconds(m) - start_s;
    m->exposed_s += exec_seconds(m) - start_s;
}

/* The number of a message within its pass. */
static int number_of(const struct exec_machine *m, const struct sim_op *op, enum pass pass)
{
    int n = 0;
    while (message_at(m, pass, MODEL_RECEIVE, n) != op - m->s->ops) n++;
    return n;
}

void exec_receive(struct exec_machine *m, const struct sim_op *op)
{
    struct exec_stages *stages = m->stages;
    const bool backward = op->op->phase == MODEL_BACKWARD;
    const int stage_chunk = (int)(m - stages->machines), from = backward ? stage_chunk + 1 : stage_chunk - 1,
              value = op->outputs[0];
    const int64_t bytes = message_bytes(m, value);
    const double start_s = exec_seconds(m);
    if (stages->transport) {
        pass_on(stages, from % stages->program.stages, NULL, exec_address(m, value, m->first_device), bytes);
    } else {
        const struct exec_machine *sender = &stages->machines[from];
        const int sent = sender->s
                             ->ops[message_at(sender, backward ? BACKWARD : FORWARD, MODEL_SEND,
                                              number_of(m, op, backward ? BACKWARD : FORWARD))]
                             .outputs[0];
        for (int d = 0; d < m->device_count; d++)
            memcpy(exec_address(m, value, d), exec_address(sender, sent, d), (size_t)bytes);
    }
    stages->start_s[stages->running] = exec_seconds(m) - stages->step_start_s; /* waiting does not belong to the pass */
    m->communication_s += exec_seconds(m) - start_s;
    m->exposed_s += exec_seconds(m) - start_s;
    m->op_s[op - m->s->ops] += exec_seconds(m) - start_s;
    m->op_runs[op - m->s->ops]++;
}

/* Whether one chunk's messages match what the other receives. */
static bool fits(const struct exec_stages *stages, int from, int to, enum pass pass)
{
    const struct exec_machine *sender = &stages->machines[from], *receiver = &stages->machines[to];
    for (int n = 0;; n++) {
        const int out = message_at(sender, pass, MODEL_SEND, n), in = message_at(receiver, pass, MODEL_RECEIVE, n);
        if (out < 0 || in < 0) return out == in;
        const struct sim_value *sent = &sender->s->values[sender->s->ops[out].outputs[0]],
                               *received = &receiver->s->values[receiver->s->ops[in].outputs[0]];
        const struct model_tensor *a = &sender->s->program->tensors[sent->tensor],
                                  *b = &receiver->s->program->tensors[received->tensor];
        if (sent->dtype != received->dtype || memcmp(sent->spec, received->spec, sizeof sent->spec) != 0 ||
            sent->partial || strcmp(a->labels, b->labels) != 0)
            return false;
    }
}

enum base_status exec_check_messages(const struct exec_stages *stages, struct base_error *error)
{
    for (int i = 0; i + 1 < exec_stage_chunk_count(stages); i++)
        if (!fits(stages, i, i + 1, FORWARD) || !fits(stages, i + 1, i, BACKWARD))
            return base_fail(error, BASE_INPUT,
                             "pipeline_stages: stage %d sends other messages than stage %d receives; use other stages",
                             i % stages->program.stages, (i + 1) % stages->program.stages);
    return BASE_OK;
}
