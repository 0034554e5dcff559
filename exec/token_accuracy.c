/* Token accuracy as in T5X's metrics: the weights of targets with the largest logit, over all weights. The program
 * marks these targets; with a sharded vocabulary, on the device that has the target. */
#include "exec/kernels.h"

static const struct sim_op *find_loss(const struct sim_sharded *s)
{
    for (int i = 0; i < s->op_count; i++)
        if (s->ops[i].kind == SIM_COMPUTE && s->ops[i].op->function == MODEL_LOSS) return &s->ops[i];
    return NULL;
}

/* The marks, [batch, length], times the weights of the loss. */
static double weigh(const struct exec_machine *machine, const struct sim_op *op, const struct sim_op *loss, int device)
{
    enum { WEIGHTS = 3, RANK = 2 };
    struct exec_space space;
    struct exec_view marks, weights;
    double sum = 0;
    exec_space_of(machine, op, device, &space);
    if (!exec_is_first_of(machine, device, space.axes)) return 0;
    exec_view_of(machine, op->outputs[0], op->op->output_labels, &space, device, &marks);
    exec_view_of(machine, loss->inputs[WEIGHTS], op->op->output_labels, &space, device, &weights);
    const struct exec_range *rows = exec_space_range(&space, marks.letters[0]),
                            *columns = exec_space_range(&space, marks.letters[RANK - 1]);
    for (int64_t r = 0; r < rows->valid; r++)
        for (int64_t c = 0; c < columns->valid; c++) {
            float mark = ((const float *)(const void *)marks.at)[r * marks.strides[0] + c * marks.strides[1]];
            sum += (double)mark *
                   ((const int32_t *)(const void *)weights.at)[r * weights.strides[0] + c * weights.strides[1]];
        }
    return sum;
}

void exec_note_accuracy(struct exec_machine *machine, int kernel, int device)
{
    const struct sim_sharded *s = machine->s;
    if (machine->plan->options.step != MODEL_STEP_EVALUATE) return;
    for (int i = s->kernels[kernel].op; i <= s->kernels[kernel].last; i++)
        if (s->ops[i].kernel == kernel && s->ops[i].kind == SIM_COMPUTE && s->ops[i].op->function == MODEL_ARGMAX)
            machine->right_sum += weigh(machine, &s->ops[i], find_loss(s), device);
}
