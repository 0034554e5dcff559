/* Sizes of local arrays, and decisions that depend on them. */
#include "sim/partition/sharding_tiles.h"

#include <string.h>

double sim_local_bytes(const struct sim_extents *extents, const struct sim_shape *shape)
{
    double elements = (double)(shape->layers == MODEL_ONE ? 1 : extents->sizes[shape->layers]);
    for (int d = 0; d < shape->rank; d++)
        elements *= (double)base_ceil_div(extents->sizes[shape->dims[d]], sim_ways(extents, shape->spec[d]));
    return elements * (double)model_dtype_bytes(shape->dtype);
}

static bool is_same_question(const struct sim_decision *a, const struct sim_decision *b)
{
    return a->left_times == b->left_times && a->right_times == b->right_times &&
           !memcmp(&a->left, &b->left, sizeof a->left) && !memcmp(&a->right, &b->right, sizeof a->right);
}

/* Equal layers repeat a decision, so it is noted once. */
void sim_note_decision(struct sim_decisions *log, const struct sim_decision *made)
{
    for (int i = 0; log && i < log->count; i++)
        if (is_same_question(&log->made[i], made)) return;
    if (!log) return;
    log->made = base_grown(log->arena, log->made, log->count, &log->capacity, sizeof *log->made);
    log->made[log->count++] = *made;
}

bool sim_decide(const struct sim_extents *extents, const struct sim_decision *question)
{
    double left = sim_local_bytes(extents, &question->left) * sim_ways(extents, question->left_times);
    double right = sim_local_bytes(extents, &question->right) * sim_ways(extents, question->right_times);
    struct sim_decision made = *question;
    made.larger = left > right;
    sim_note_decision(extents->decisions, &made);
    return made.larger;
}

bool sim_is_larger(const struct sim_extents *extents, const struct sim_shape *left, const struct sim_shape *right)
{
    struct sim_decision question = {.left = *left, .right = *right};
    return sim_decide(extents, &question);
}
