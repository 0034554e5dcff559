/* Rows of tokens sorted by expert, without products: each token's row is copied to each of its experts, and the results
 * are added up. A buffer of an expert has a row for each token of a group, so that none is dropped. */
#include "exec/kernels.h"
#include "exec/row.h"

#include <string.h>

/* An operand as rows: of a group's tokens, or of its experts. A token that has one number for each expert has rows of
 * one element, which are told apart by expert. */
struct rows {
    struct exec_view view;
    char second, third; /* labels besides the group's; third 0: the row's own label is next */
    int64_t stride;     /* of a row's elements */
};

struct sorting {
    struct rows tokens, experts, places;
    int64_t token_count, expert_count, elements;
};

static char *row_of(const struct rows *rows, int64_t group, int64_t i, int64_t j)
{
    const struct exec_view *v = &rows->view;
    const int64_t at =
        group * v->strides[0] + i * exec_stride(v, rows->second) + (rows->third ? j * exec_stride(v, rows->third) : 0);
    return v->at + at * model_dtype_bytes(v->dtype);
}

/* The row that an expert has of a token; NULL: the token did not choose it. */
static char *chosen_row(const struct sorting *s, int64_t group, int64_t token, int64_t expert)
{
    float place;
    exec_load(s->places.view.dtype, row_of(&s->places, group, token, expert), 1, &place, 1);
    return place < 0 ? NULL : row_of(&s->experts, group, expert, (int64_t)place);
}

static void dispatch(const struct sorting *s, int64_t group, int64_t token)
{
    enum { PART = 256 };
    float part[PART];
    const int64_t from_bytes = s->tokens.stride * model_dtype_bytes(s->tokens.view.dtype),
                  to_bytes = s->experts.stride * model_dtype_bytes(s->experts.view.dtype);
    for (int64_t e = 0; e < s->expert_count; e++) {
        char *to = chosen_row(s, group, token, e);
        const char *from = row_of(&s->tokens, group, token, e);
        for (int64_t i = 0; to && i < s->elements; i += PART) {
            const int64_t n = s->elements - i < PART ? s->elements - i : PART;
            exec_load(s->tokens.view.dtype, from + i * from_bytes, s->tokens.stride, part, n);
            exec_store(s->experts.view.dtype, part, to + i * to_bytes, s->experts.stride, n);
        }
    }
}

/* Experts in order, in float32. */
static void combine(const struct sorting *s, int64_t group, int64_t token, int64_t first, int64_t end)
{
    enum { PART = 256 };
    float part[PART], sum[PART];
    const int64_t from_bytes = s->experts.stride * model_dtype_bytes(s->experts.view.dtype),
                  to_bytes = s->tokens.stride * model_dtype_bytes(s->tokens.view.dtype);
    for (int64_t i = 0; i < s->elements; i += PART) {
        const int64_t n = s->elements - i < PART ? s->elements - i : PART;
        memset(sum, 0, sizeof sum);
        for (int64_t e = first; e < end; e++) {
            const char *from = chosen_row(s, group, token, e);
            if (!from) continue;
            exec_load(s->experts.view.dtype, from + i * from_bytes, s->experts.stride, part, n);
            for (int64_t j = 0; j < n; j++) sum[j] += part[j];
        }
        exec_store(s->tokens.view.dtype, sum, row_of(&s->tokens, group, token, first) + i * to_bytes, s->tokens.stride,
                   n);
    }
}

static struct rows rows_as(const struct exec_machine *machine, int value, const char *letters, char element,
                           const struct exec_space *space, int device)
{
    struct rows rows = {.second = letters[1], .third = letters[2] == element ? '\0' : letters[2], .stride = 1};
    exec_view_of(machine, value, letters, space, device, &rows.view);
    if (element) rows.stride = exec_stride(&rows.view, element);
    return rows;
}

void exec_permute(struct exec_machine *machine, const struct sim_op *op, int device)
{
    const struct model_op *of = op->op;
    const bool out = of->function == MODEL_DISPATCH;
    const char *experts = out ? of->output_labels : of->input_labels[0],
               *tokens = out ? of->input_labels[0] : of->output_labels;
    const char element = experts[3]; /* none: numbers */
    struct exec_space space;
    exec_space_of(machine, op, device, &space);
    const struct sorting s = {
        .tokens = rows_as(machine, out ? op->inputs[0] : op->outputs[0], tokens, element, &space, device),
        .experts = rows_as(machine, out ? op->outputs[0] : op->inputs[0], experts, element, &space, device),
        .places = rows_as(machine, op->inputs[1], of->input_labels[1], '\0', &space, device),
        .token_count = exec_space_range(&space, tokens[1])->valid,
        .expert_count = exec_space_range(&space, experts[1])->valid,
        .elements = element ? exec_space_range(&space, element)->valid : 1};
    if (out)
        memset(exec_address(machine, op->outputs[0], device), 0,
               (size_t)(exec_part_elements(machine, op->outputs[0], device, EXEC_WITH_PADDING) *
                        model_dtype_bytes(s.experts.view.dtype)));
    for (int64_t g = 0; g < exec_space_range(&space, tokens[0])->valid; g++)
        for (int64_t t = 0; t < s.token_count; t++)
            if (out) dispatch(&s, g, t);
            else if (element) combine(&s, g, t, 0, s.expert_count);
            else
                for (int64_t e = 0; e < s.expert_count; e++) combine(&s, g, t, e, e + 1);
}
