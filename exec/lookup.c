/* Contractions with an implicit one-hot: rows of the other operand are looked up, or summed by row. Tokens select
 * rows of the embedding; distances select buckets of the relative position table. */
#include "exec/kernels.h"
#include "exec/row.h"

#include <math.h>
#include <string.h>

enum { MOST_BUCKETS = 64 };

int exec_relpos_bucket(int64_t query, int64_t key, enum model_direction direction)
{
    const int buckets = direction == MODEL_CAUSAL ? 32 : 16, exact = buckets / 2;
    const float most_distance = 128.0f, epsilon = 1.1920929e-07f;
    int64_t distance = query - key, side = 0;
    if (direction == MODEL_BIDIRECTIONAL && distance < 0) side = buckets;
    distance = distance < 0 ? direction == MODEL_CAUSAL ? 0 : -distance : distance;
    if (distance < exact) return (int)(side + distance);
    float scaled = logf((float)distance / (float)exact + epsilon) / (float)log((double)(most_distance / (float)exact)) *
                   (float)(buckets - exact);
    int bucket = exact + (int)scaled;
    return (int)side + (bucket < buckets ? bucket : buckets - 1);
}

struct lookup {
    const struct sim_op *op, *made; /* the contraction, and the operation that would make the one-hot */
    int one_hot, other;             /* operands of op */
    char hot;                       /* the label of the one-hot's classes: tokens or buckets */
    char where[MODEL_MAX_RANK + 1]; /* its other labels */
    char row[MODEL_MAX_RANK + 1];   /* labels of the selected row */
    bool scatters;                  /* the classes are in the result */
    int pieces;                     /* parts of a sequence in device order */
    int64_t length;                 /* of the sequence */
    struct exec_space space;
    struct exec_view tokens, source, scales, result;
};

static void plan_lookup(const struct exec_machine *machine, const struct sim_op *op, int device, struct lookup *l)
{
    const struct sim_sharded *s = machine->s;
    memset(l, 0, sizeof *l);
    l->op = op;
    l->pieces = s->program->sequence_pieces;
    l->length = machine->sizes[MODEL_TARGETS_LENGTH];
    l->one_hot = sim_is_one_hot(s, op->inputs[1]);
    l->other = 1 - l->one_hot;
    l->made = &s->ops[s->values[sim_root(s, op->inputs[l->one_hot])].definition];
    bool tokens = l->made->op->function != MODEL_RELPOS_ONE_HOT; /* otherwise consecutive positions */
    const char *labels = op->op->input_labels[l->one_hot];
    size_t rank = strlen(labels);
    l->hot = tokens ? labels[rank - 1] : labels[0];
    memcpy(l->where, tokens ? labels : labels + 1, rank - 1);
    l->scatters = strchr(op->op->output_labels, l->hot) != NULL;
    const char *selected = l->scatters ? op->op->output_labels : op->op->input_labels[l->other];
    for (size_t count = 0; *selected; selected++)
        if (*selected != l->hot) l->row[count++] = *selected;
    exec_space_of(machine, op, device, &l->space);
    if (l->made->op->function == MODEL_ONE_HOT)
        exec_view_of(machine, l->made->inputs[0], l->where, &l->space, device, &l->tokens);
    exec_view_of(machine, op->inputs[l->other], op->op->input_labels[l->other], &l->space, device, &l->source);
    exec_scales_of(machine, op, l->other, &l->space, device, &l->scales);
    exec_view_of(machine, op->outputs[0], op->op->output_labels, &l->space, device, &l->result);
}

/* ---- elements and rows of any dtype ---- */

static void read_row(const struct exec_view *view, int64_t offset, int64_t stride, float *row, int64_t n)
{
    exec_load(view->dtype, view->at + offset * model_dtype_bytes(view->dtype), stride, row, n);
}

static void write_row(const struct exec_view *view, int64_t offset, int64_t stride, const float *row, int64_t n)
{
    exec_store(view->dtype, row, view->at + offset * model_dtype_bytes(view->dtype), stride, n);
}

static float read_one(const struct exec_view *view, int64_t offset)
{
    float value;
    read_row(view, offset, 1, &value, 1);
    return value;
}

/* ---- tokens ---- */

/* Offset of token `position` of the device's part; positions are row-major over the labels `where`. */
static int64_t offset_of(const struct lookup *l, const struct exec_view *view, int64_t position)
{
    int64_t offset = 0;
    for (int i = (int)strlen(l->where) - 1; i >= 0; i--) {
        int64_t valid = exec_space_range(&l->space, l->where[i])->valid;
        offset += position % valid * exec_stride(view, l->where[i]);
        position /= valid;
    }
    return offset;
}

static int64_t token_count(const struct lookup *l)
{
    int64_t count = 1;
    for (const char *letter = l->where; *letter; letter++) count *= exec_space_range(&l->space, *letter)->valid;
    return count;
}

/* The token's class on this device; -1: another device has it. */
static int64_t class_of(const struct lookup *l, int64_t position)
{
    const struct exec_range *classes = exec_space_range(&l->space, l->hot);
    const int32_t *tokens = (const void *)l->tokens.at;
    int64_t token = tokens ? tokens[offset_of(l, &l->tokens, position)]
                           : model_sequence_position(l->pieces, l->length,
                                                     exec_space_range(&l->space, l->where[0])->start + position);
    token -= classes->start;
    return token >= 0 && token < classes->valid ? token : -1;
}

/* Offset of a row in a view, by its outer labels. */
static int64_t outer_offset(const struct lookup *l, const struct exec_view *view, int64_t at)
{
    int64_t offset = 0;
    for (int i = (int)strlen(l->row) - 2; i >= 0; i--) {
        int64_t valid = exec_space_range(&l->space, l->row[i])->valid;
        offset += at % valid * exec_stride(view, l->row[i]);
        at /= valid;
    }
    return offset;
}

static void gather_tokens(const struct lookup *l, struct exec_scratch scratch)
{
    const size_t rank = strlen(l->row);
    const char inner = l->row[rank - 1];
    int64_t count = token_count(l), width = exec_space_range(&l->space, inner)->valid, outer = 1;
    for (size_t i = 0; i + 1 < rank; i++) outer *= exec_space_range(&l->space, l->row[i])->valid;
    float *row = exec_scratch_take(&scratch, (width + 1) * (int64_t)sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        int64_t class = class_of(l, i), from = class * exec_stride(&l->source, l->hot),
                to = offset_of(l, &l->result, i);
        for (int64_t o = 0; o < outer; o++) {
            if (class >= 0) {
                read_row(&l->source, from + outer_offset(l, &l->source, o), exec_stride(&l->source, inner), row, width);
                exec_dequantize(&l->scales, class * exec_stride(&l->scales, l->hot) + outer_offset(l, &l->scales, o),
                                exec_stride(&l->scales, inner), row, width);
            } else memset(row, 0, (size_t)width * sizeof *row);
            write_row(&l->result, to + outer_offset(l, &l->result, o), exec_stride(&l->result, inner), row, width);
        }
    }
}

/* Tokens sorted by class (each class in order), so that every row is summed once, in float32. */
static void scatter_tokens(const struct lookup *l, struct exec_scratch scratch)
{
    int64_t count = token_count(l), classes = exec_space_range(&l->space, l->hot)->valid,
            width = exec_space_range(&l->space, l->row[0])->valid;
    int32_t *starts = exec_scratch_take(&scratch, (classes + 2) * (int64_t)sizeof *starts),
            *sorted = exec_scratch_take(&scratch, count * (int64_t)sizeof *sorted);
    float *sum = exec_scratch_take(&scratch, width * (int64_t)sizeof *sum);
    int64_t stride = exec_stride(&l->source, l->row[0]);
    memset(starts, 0, (size_t)(classes + 2) * sizeof *starts);
    for (int64_t i = 0; i < count; i++)
        starts[class_of(l, i) + 2]++; /* [0] and [1]: other devices' tokens, and the start of class 0 */
    starts[1] = 0;
    for (int64_t c = 2; c < classes + 2; c++) starts[c] += starts[c - 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t class = class_of(l, i);
        if (class >= 0) sorted[starts[class + 1]++] = (int32_t)i;
    }
    for (int64_t c = 0; c < classes; c++) {
        memset(sum, 0, (size_t)width * sizeof *sum);
        for (int32_t j = c ? starts[c] : 0; j < starts[c + 1]; j++) {
            int64_t from = offset_of(l, &l->source, sorted[j]);
            for (int64_t i = 0; i < width; i++) sum[i] += read_one(&l->source, from + i * stride);
        }
        write_row(&l->result, c * exec_stride(&l->result, l->hot), exec_stride(&l->result, l->row[0]), sum, width);
    }
}

/* ---- relative positions ---- */

struct distances {
    const int32_t *buckets;
    int64_t queries, keys, classes;
};

/* The bucket of each distance, starting at the first query's last key; -1: another device has it. */
static struct distances make_distances(const struct lookup *l, struct exec_scratch *scratch)
{
    const struct exec_range *queries = exec_space_range(&l->space, l->where[0]),
                            *keys = exec_space_range(&l->space, l->where[1]),
                            *hot = exec_space_range(&l->space, l->hot);
    int64_t count = queries->valid + keys->valid;
    int32_t *buckets = exec_scratch_take(scratch, count * (int64_t)sizeof *buckets);
    for (int64_t i = 0; i + 1 < count; i++) {
        int64_t bucket = exec_relpos_bucket(queries->start + i, keys->start + keys->valid - 1,
                                            l->made->op->causal ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL) -
                         hot->start;
        buckets[i] = bucket >= 0 && bucket < hot->valid ? (int32_t)bucket : -1;
    }
    return (struct distances){buckets, queries->valid, keys->valid, hot->valid};
}

static int64_t bucket_at(const struct distances *d, int64_t query, int64_t key)
{
    return d->buckets[query + d->keys - 1 - key];
}

static void gather_distances(const struct lookup *l, const struct distances *d, int64_t from, int64_t to)
{
    int64_t class_stride = exec_stride(&l->source, l->hot), query_stride = exec_stride(&l->result, l->where[0]),
            key_stride = exec_stride(&l->result, l->where[1]);
    for (int64_t q = 0; q < d->queries; q++)
        for (int64_t k = 0; k < d->keys; k++) {
            int64_t bucket = bucket_at(d, q, k);
            float value = bucket < 0 ? 0 : read_one(&l->source, from + bucket * class_stride);
            write_row(&l->result, to + q * query_stride + k * key_stride, 1, &value, 1);
        }
}

static void scatter_distances(const struct lookup *l, const struct distances *d, int64_t from, int64_t to)
{
    int64_t class_stride = exec_stride(&l->result, l->hot), query_stride = exec_stride(&l->source, l->where[0]),
            key_stride = exec_stride(&l->source, l->where[1]);
    double sums[MOST_BUCKETS] = {0};
    for (int64_t q = 0; q < d->queries; q++)
        for (int64_t k = 0; k < d->keys; k++) {
            int64_t bucket = bucket_at(d, q, k);
            if (bucket >= 0) sums[bucket] += (double)read_one(&l->source, from + q * query_stride + k * key_stride);
        }
    for (int64_t c = 0; c < d->classes && c < MOST_BUCKETS; c++) {
        float sum = (float)sums[c];
        write_row(&l->result, to + c * class_stride, 1, &sum, 1);
    }
}

static void look_up_distances(const struct lookup *l, struct exec_scratch scratch)
{
    struct distances d = make_distances(l, &scratch);
    int64_t heads = exec_space_range(&l->space, l->row[0])->valid, source_stride = exec_stride(&l->source, l->row[0]),
            result_stride = exec_stride(&l->result, l->row[0]);
    for (int64_t head = 0; head < heads; head++)
        (l->scatters ? scatter_distances : gather_distances)(l, &d, head * source_stride, head * result_stride);
}

void exec_lookup(struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct lookup l;
    struct exec_scratch scratch = exec_scratch_of(machine, device);
    plan_lookup(machine, op, device, &l);
    if (l.made->op->function == MODEL_RELPOS_ONE_HOT) look_up_distances(&l, scratch);
    else if (l.scatters) scatter_tokens(&l, scratch);
    else gather_tokens(&l, scratch);
}
