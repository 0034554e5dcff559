/* A contraction as matrix products. Its labels form four classes: batch (in both operands and the result), rows
 * (left and result), columns (right and result), contracted (both operands). In each class except batch, labels that
 * are adjacent in all operands form one matrix dimension. The other labels, and the batch, are loops around the
 * product. */
#include "exec/gemm.h"
#include "exec/kernels.h"
#include "exec/onednn.h"
#include "exec/row.h"

#include <string.h>

enum class { BATCH, ROW, COLUMN, DEPTH, CLASS_COUNT };

/* The operands, the result and the int8 scales, and which classes they have. Scales may vary along any class; if
 * they do not, their strides are 0. */
enum { LEFT, RIGHT, RESULT, LEFT_SCALES, RIGHT_SCALES, OPERANDS };
static const bool has_class[CLASS_COUNT][OPERANDS] = {[BATCH] = {true, true, true, true, true},
                                                      [ROW] = {true, false, true, true, true},
                                                      [COLUMN] = {false, true, true, true, true},
                                                      [DEPTH] = {true, true, false, true, true}};

struct loop {
    int64_t valid, strides[OPERANDS];
    bool contracted;
};

struct contraction {
    struct base_arena *arena; /* of the run */
    struct exec_view views[OPERANDS];
    struct loop loops[EXEC_MOST_LETTERS];
    int loop_count, free_count;   /* contracted loops come last */
    int64_t extents[CLASS_COUNT]; /* of the matrices */
    int64_t strides[CLASS_COUNT][OPERANDS];
};

static enum class class_of(const struct contraction *c, char letter) {
    bool left = strchr(c->views[LEFT].letters, letter),
    right = strchr(c->views[RIGHT].letters, letter),
    result = strchr(c->views[RESULT].letters, letter);
    return !result         ? DEPTH
           : left && right ? BATCH
           : left          ? ROW
                           : COLUMN;
}

static struct loop loop_over(const struct contraction *c, const struct exec_space *space, char letter, enum class class)
{
    struct loop loop = {.valid = exec_space_range(space, letter)->valid, .contracted = class == DEPTH};
    for (int o = 0; o < OPERANDS; o++) loop.strides[o] = exec_stride(&c->views[o], letter);
    return loop;
}

/* The letters of a class, ordered as in an operand that has them all, innermost last. */
static int letters_of(const struct contraction *c, enum class class, char *letters)
{
    const struct exec_view *view = &c->views[class == DEPTH ? LEFT : class == COLUMN ? RIGHT : LEFT];
    int count = 0;
    for (int d = 0; d < view->rank; d++)
        if (class_of(c, view->letters[d]) == class) letters[count++] = view->letters[d];
    letters[count] = '\0';
    return count;
}

/* Merges the innermost labels into one dimension while each is adjacent to the next in all operands that have it.
 * One of a matrix's two strides must be 1. If the innermost label's stride is not 1 in some operand, the other
 * dimension's must be. Otherwise BLAS cannot express it, and this dimension becomes loops. */
static void take_class(struct contraction *c, const struct exec_space *space, enum class class)
{
    char letters[EXEC_MOST_LETTERS + 1];
    int count = letters_of(c, class, letters);
    int64_t extent = 1;
    for (int i = count - 1; i >= 0; i--) {
        struct loop loop = loop_over(c, space, letters[i], class);
        bool joins = true;
        for (int o = 0; o < OPERANDS && i < count - 1; o++)
            if (has_class[class][o] && loop.strides[o] != c->strides[class][o] * extent) joins = false;
        if (i == count - 1) memcpy(c->strides[class], loop.strides, sizeof loop.strides);
        if (joins) extent *= loop.valid;
        else c->loops[c->loop_count++] = loop;
    }
    c->extents[class] = extent;
}

/* Turns a dimension of a matrix without a unit stride, its rows or depth, into a loop. */
static void leave_to_loops(struct contraction *c, enum class class)
{
    struct loop loop = {.valid = c->extents[class], .contracted = class == DEPTH};
    if (c->extents[class] == 1) return;
    memcpy(loop.strides, c->strides[class], sizeof loop.strides);
    c->loops[c->loop_count++] = loop;
    c->extents[class] = 1;
}

static bool fits(const struct contraction *c, enum class rows, enum class columns, int operand)
{
    return c->extents[rows] <= 1 || c->extents[columns] <= 1 || c->strides[rows][operand] == 1 ||
           c->strides[columns][operand] == 1;
}

static void make_matrices(struct contraction *c)
{
    if (!fits(c, ROW, DEPTH, LEFT)) leave_to_loops(c, ROW);
    if (!fits(c, DEPTH, COLUMN, RIGHT)) leave_to_loops(c, COLUMN);
    if (!fits(c, ROW, COLUMN, RESULT)) leave_to_loops(c, ROW);
}

static void sort_loops(struct contraction *c)
{
    struct loop sorted[EXEC_MOST_LETTERS];
    int count = 0;
    for (int contracted = 0; contracted < 2; contracted++) {
        for (int i = 0; i < c->loop_count; i++)
            if (c->loops[i].contracted == (contracted == 1)) sorted[count++] = c->loops[i];
        if (!contracted) c->free_count = count;
    }
    memcpy(c->loops, sorted, (size_t)count * sizeof *sorted);
}

static void plan_contraction(const struct exec_machine *machine, const struct sim_op *op, int device,
                             struct contraction *c)
{
    struct exec_space space;
    memset(c, 0, sizeof *c);
    exec_space_of(machine, op, device, &space);
    exec_view_of(machine, op->inputs[0], op->op->input_labels[0], &space, device, &c->views[LEFT]);
    exec_view_of(machine, op->inputs[1], op->op->input_labels[1], &space, device, &c->views[RIGHT]);
    exec_view_of(machine, op->outputs[0], op->op->output_labels, &space, device, &c->views[RESULT]);
    exec_scales_of(machine, op, 0, &space, device, &c->views[LEFT_SCALES]);
    exec_scales_of(machine, op, 1, &space, device, &c->views[RIGHT_SCALES]);
    char batch[EXEC_MOST_LETTERS + 1];
    int batch_count = letters_of(c, BATCH, batch);
    for (int i = 0; i < batch_count; i++) c->loops[c->loop_count++] = loop_over(c, &space, batch[i], BATCH);
    c->extents[BATCH] = 1;
    for (int class = ROW; class < CLASS_COUNT; class ++) take_class(c, &space, (enum class) class);
    make_matrices(c);
    sort_loops(c);
}

static struct exec_matrix matrix(const struct contraction *c, int operand, enum class rows, enum class columns,
                                 const int64_t *offsets)
{
    int64_t row_stride = c->extents[rows] > 1 ? c->strides[rows][operand] : 0,
            column_stride = c->extents[columns] > 1 ? c->strides[columns][operand] : 0;
    if (c->extents[columns] <= 1) column_stride = row_stride == 1 && c->extents[rows] > 1 ? c->extents[rows] : 1;
    if (c->extents[rows] <= 1) row_stride = column_stride == 1 ? c->extents[columns] : 1;
    return (struct exec_matrix){(float *)(void *)c->views[operand].at + offsets[operand], row_stride, column_stride};
}

/* Advances the loops from `first` on; false at the end. */
static bool next(const struct contraction *c, int first, int last, int64_t *index, int64_t *offsets)
{
    for (int i = last - 1; i >= first; i--) {
        const struct loop *loop = &c->loops[i];
        for (int o = 0; o < OPERANDS; o++) offsets[o] += loop->strides[o];
        if (++index[i] < loop->valid) return true;
        for (int o = 0; o < OPERANDS; o++) offsets[o] -= loop->strides[o] * loop->valid;
        index[i] = 0;
    }
    return false;
}

static bool is_empty(const struct contraction *c, int first, int last)
{
    for (int i = first; i < last; i++)
        if (c->loops[i].valid == 0) return true;
    return false;
}

static void multiply(const struct contraction *c, const int64_t *offsets, int64_t depth, enum exec_writing store)
{
    exec_gemm(c->arena, c->extents[ROW], c->extents[COLUMN], depth, matrix(c, LEFT, ROW, DEPTH, offsets),
              matrix(c, RIGHT, DEPTH, COLUMN, offsets), matrix(c, RESULT, ROW, COLUMN, offsets), store);
}

static void contract_wide(const struct contraction *c)
{
    int64_t index[EXEC_MOST_LETTERS] = {0}, offsets[OPERANDS] = {0};
    bool nothing = is_empty(c, c->free_count, c->loop_count);
    if (is_empty(c, 0, c->free_count)) return;
    do {
        bool add = false;
        do {
            multiply(c, offsets, nothing ? 0 : c->extents[DEPTH], add ? EXEC_ACCUMULATE : EXEC_OVERWRITE);
            add = true;
        } while (!nothing && next(c, c->free_count, c->loop_count, index, offsets));
    } while (next(c, 0, c->free_count, index, offsets));
}

/* ---- via float32 tiles ---- */

struct tile {
    int64_t row, rows, column, columns;
};
/* Operands as float32, or as native bfloat16 if the processor multiplies it. The latter takes half of the memory,
 * and the rest is the workspace of the product. */
struct tiles {
    float *left, *right, *result;
    struct exec_onednn *narrow; /* NULL: use float32 */
    uint16_t *narrow_left, *narrow_right;
    void *workspace;
    size_t workspace_bytes;
    size_t whole_bytes; /* of all three, which are contiguous */
};

static char *element(const struct contraction *c, int operand, int64_t offset)
{
    return c->views[operand].at + offset * model_dtype_bytes(c->views[operand].dtype);
}

/* A part of an operand: start and number of elements of two classes. */
struct part {
    enum class rows, columns;
    int64_t row, row_count, column, column_count;
};

static int64_t offset_of(const struct contraction *c, int operand, const int64_t *offsets, const struct part *p)
{
    return offsets[operand] + p->row * c->strides[p->rows][operand] + p->column * c->strides[p->columns][operand];
}

/* Copies a part of an operand to a dense tile in the operand's memory order. BLAS reads either order equally fast,
 * and only contiguous elements are converted with vectors. */
static struct exec_matrix load_tile(const struct contraction *c, int operand, const int64_t *offsets,
                                    const struct part *p, float *to)
{
    const int scales = operand == LEFT ? LEFT_SCALES : RIGHT_SCALES;
    const bool across = c->strides[p->rows][operand] == 1 && c->strides[p->columns][operand] != 1;
    const enum class along = across ? p->rows : p->columns, over = across ? p->columns : p->rows;
    const int64_t lines = across ? p->column_count : p->row_count, length = across ? p->row_count : p->column_count,
                  offset = offset_of(c, operand, offsets, p), scale_offset = offset_of(c, scales, offsets, p);
    for (int64_t i = 0; i < lines; i++) {
        exec_load(c->views[operand].dtype, element(c, operand, offset + i * c->strides[over][operand]),
                  c->strides[along][operand], to + i * length, length);
        exec_dequantize(&c->views[scales], scale_offset + i * c->strides[over][scales], c->strides[along][scales],
                        to + i * length, length);
    }
    return across ? (struct exec_matrix){to, 1, p->row_count} : (struct exec_matrix){to, p->column_count, 1};
}

/* The result tile in the result's memory order; bfloat16 products write row by row. */
static struct exec_matrix result_tile(const struct contraction *c, const struct tile *t, const struct tiles *tiles)
{
    const bool across = !tiles->narrow && c->strides[ROW][RESULT] == 1 && c->strides[COLUMN][RESULT] != 1;
    return across ? (struct exec_matrix){tiles->result, 1, t->rows}
                  : (struct exec_matrix){tiles->result, t->columns, 1};
}

static void store_tile(const struct contraction *c, int64_t offset, const struct tile *t, struct exec_matrix from)
{
    const bool across = from.column_stride != 1;
    const int64_t row_stride = c->strides[ROW][RESULT], column_stride = c->strides[COLUMN][RESULT],
                  lines = across ? t->columns : t->rows, length = across ? t->rows : t->columns,
                  line_stride = across ? column_stride : row_stride, stride = across ? row_stride : column_stride;
    for (int64_t i = 0; i < lines; i++)
        exec_store(c->views[RESULT].dtype, from.at + i * length,
                   element(c, RESULT, offset + t->row * row_stride + t->column * column_stride + i * line_stride),
                   stride, length);
}

static void copy_tile(const struct contraction *c, int operand, int64_t offset, int64_t rows, int64_t row_stride,
                      int64_t columns, int64_t column_stride, uint16_t *to)
{
    for (int64_t i = 0; i < rows; i++) {
        const uint16_t *from = (const uint16_t *)(const void *)element(c, operand, offset + i * row_stride);
        if (column_stride == 1) memcpy(to + i * columns, from, (size_t)columns * sizeof *to);
        else
            for (int64_t j = 0; j < columns; j++) to[i * columns + j] = from[j * column_stride];
    }
}

/* False: use float32. */
static bool multiply_narrow(const struct contraction *c, const int64_t *offsets, const struct tile *t, int64_t depth,
                            int64_t size, const struct tiles *tiles, enum exec_writing store)
{
    if (!tiles->narrow) return false;
    copy_tile(c, LEFT, offsets[LEFT] + t->row * c->strides[ROW][LEFT] + depth * c->strides[DEPTH][LEFT], t->rows,
              c->strides[ROW][LEFT], size, c->strides[DEPTH][LEFT], tiles->narrow_left);
    copy_tile(c, RIGHT, offsets[RIGHT] + depth * c->strides[DEPTH][RIGHT] + t->column * c->strides[COLUMN][RIGHT], size,
              c->strides[DEPTH][RIGHT], t->columns, c->strides[COLUMN][RIGHT], tiles->narrow_right);
    const struct exec_onednn_operand left = {tiles->narrow_left, size, 1}, right = {tiles->narrow_right, t->columns, 1},
                                     result = {tiles->result, t->columns, 1};
    return exec_onednn_gemm(tiles->narrow, t->rows, t->columns, size, &left, &right, &result, MODEL_FLOAT32, store,
                            tiles->workspace, tiles->workspace_bytes);
}

static void multiply_tile(const struct contraction *c, const int64_t *offsets, const struct tile *t,
                          const struct tiles *tiles, enum exec_writing store)
{
    for (int64_t depth = 0; depth < c->extents[DEPTH]; depth += SIM_TILE_DEPTH) {
        int64_t size = c->extents[DEPTH] - depth < SIM_TILE_DEPTH ? c->extents[DEPTH] - depth : SIM_TILE_DEPTH;
        const enum exec_writing part = depth > 0 ? EXEC_ACCUMULATE : store;
        if (multiply_narrow(c, offsets, t, depth, size, tiles, part)) continue;
        const struct part left_part = {ROW, DEPTH, t->row, t->rows, depth, size},
                          right_part = {DEPTH, COLUMN, depth, size, t->column, t->columns};
        const struct exec_matrix left = load_tile(c, LEFT, offsets, &left_part, tiles->left),
                                 right = load_tile(c, RIGHT, offsets, &right_part, tiles->right);
        exec_gemm(c->arena, t->rows, t->columns, size, left, right, result_tile(c, t, tiles), part);
    }
}

static void contract_tile(const struct contraction *c, int64_t *index, int64_t *offsets, const struct tile *t,
                          const struct tiles *tiles)
{
    memset(tiles->result, 0, (size_t)(t->rows * t->columns) * sizeof(float));
    bool nothing = is_empty(c, c->free_count, c->loop_count);
    for (bool more = !nothing; more; more = next(c, c->free_count, c->loop_count, index, offsets))
        multiply_tile(c, offsets, t, tiles, EXEC_ACCUMULATE);
    store_tile(c, offsets[RESULT], t, result_tile(c, t, tiles));
}

static int64_t at_most(int64_t value, int64_t bound)
{
    return value < bound ? value : bound;
}

static struct tiles take_tiles(const struct exec_machine *machine, const struct contraction *c, int device,
                               int64_t rows, int64_t columns, int64_t depth)
{
    enum { ALIGNMENT = 64 };
    struct exec_scratch scratch = exec_scratch_of(machine, device);
    struct tiles tiles = {.left = exec_scratch_take(&scratch, rows * depth * (int64_t)sizeof(float)),
                          .right = exec_scratch_take(&scratch, depth * columns * (int64_t)sizeof(float)),
                          .result = exec_scratch_take(&scratch, rows * columns * (int64_t)sizeof(float))};
    tiles.whole_bytes = (size_t)(scratch.at - (char *)tiles.left);
    if (c->views[LEFT].dtype != MODEL_BFLOAT16 || c->views[RIGHT].dtype != MODEL_BFLOAT16) return tiles;
    tiles.narrow = machine->narrow;
    tiles.narrow_left = (uint16_t *)(void *)tiles.left;
    tiles.narrow_right = tiles.narrow_left + base_ceil_div(rows * depth, ALIGNMENT) * ALIGNMENT;
    char *rest = (char *)(tiles.narrow_right + base_ceil_div(depth * columns, ALIGNMENT) * ALIGNMENT),
         *end = (char *)tiles.result;
    tiles.workspace = rest;
    tiles.workspace_bytes = rest < end ? (size_t)(end - rest) : 0;
    if (rest > end) tiles.narrow = NULL; /* too small to be worthwhile */
    return tiles;
}

/* As stored in memory. */
static struct exec_onednn_operand narrow_matrix(const struct contraction *c, int operand, enum class rows,
                                                enum class columns, const int64_t *offsets)
{
    const struct exec_matrix m = matrix(c, operand, rows, columns, offsets);
    return (struct exec_onednn_operand){element(c, operand, offsets[operand]), m.row_stride, m.column_stride};
}

static struct exec_onednn_operand across(const struct exec_onednn_operand *m)
{
    return (struct exec_onednn_operand){m->at, m->column_stride, m->row_stride};
}

/* One product for the whole contraction, or c' = b' a' for a transposed result, rounded directly into the result.
 * Requires bfloat16 operands and no sums over loops. The tiles' memory is its workspace. False: nothing was done. */
static bool multiply_whole(const struct contraction *c, const int64_t *offsets, const struct tiles *tiles)
{
    if (!tiles->narrow || c->free_count < c->loop_count) return false;
    const struct exec_onednn_operand left = narrow_matrix(c, LEFT, ROW, DEPTH, offsets),
                                     right = narrow_matrix(c, RIGHT, DEPTH, COLUMN, offsets),
                                     result = narrow_matrix(c, RESULT, ROW, COLUMN, offsets);
    const int64_t rows = c->extents[ROW], columns = c->extents[COLUMN], depth = c->extents[DEPTH];
    const enum model_dtype dtype = c->views[RESULT].dtype;
    if (result.column_stride == 1)
        return exec_onednn_gemm(tiles->narrow, rows, columns, depth, &left, &right, &result, dtype, EXEC_OVERWRITE,
                                tiles->left, tiles->whole_bytes);
    const struct exec_onednn_operand left_across = across(&left), right_across = across(&right),
                                     result_across = across(&result);
    return exec_onednn_gemm(tiles->narrow, columns, rows, depth, &right_across, &left_across, &result_across, dtype,
                            EXEC_OVERWRITE, tiles->left, tiles->whole_bytes);
}

/* A few vectors times an int8 weight, summed in one pass. False: it is another kind of product, or its weights are
 * rounded first. */
static bool multiply_bytes(const struct contraction *c, const int64_t *offsets)
{
    const struct exec_view *views = c->views;
    const bool is_whole = c->free_count == c->loop_count && views[RIGHT].dtype == MODEL_INT8 &&
                          views[RIGHT_SCALES].rank > 0 && views[RIGHT_SCALES].dtype == MODEL_FLOAT32 &&
                          views[LEFT].dtype == MODEL_FLOAT32 && views[RESULT].dtype == MODEL_FLOAT32;
    const struct exec_streamed weight = {
        .at = element(c, RIGHT, offsets[RIGHT]),
        .depth = c->extents[DEPTH],
        .columns = c->extents[COLUMN],
        .depth_stride = c->strides[DEPTH][RIGHT],
        .column_stride = c->strides[COLUMN][RIGHT],
        .scales = (const float *)(const void *)views[RIGHT_SCALES].at + offsets[RIGHT_SCALES],
        .scale_stride = c->strides[COLUMN][RIGHT_SCALES],
    };
    if (!is_whole || c->strides[DEPTH][RIGHT_SCALES] || c->strides[ROW][RIGHT_SCALES]) return false;
    return exec_multiply_streamed(&weight, c->extents[ROW], matrix(c, LEFT, ROW, DEPTH, offsets),
                                  matrix(c, RESULT, ROW, COLUMN, offsets), EXEC_OVERWRITE);
}

static void contract_narrow(const struct exec_machine *machine, const struct contraction *c, int device)
{
    int64_t index[EXEC_MOST_LETTERS] = {0}, offsets[OPERANDS] = {0}, rows = at_most(c->extents[ROW], SIM_TILE),
            columns = at_most(c->extents[COLUMN], SIM_TILE);
    int64_t depth = at_most(c->extents[DEPTH], SIM_TILE_DEPTH);
    if (is_empty(c, 0, c->free_count)) return;
    struct tiles tiles = take_tiles(machine, c, device, rows, columns, depth);
    do {
        if (multiply_whole(c, offsets, &tiles) || multiply_bytes(c, offsets)) continue;
        for (int64_t row = 0; row < c->extents[ROW]; row += SIM_TILE)
            for (int64_t column = 0; column < c->extents[COLUMN]; column += SIM_TILE) {
                struct tile t = {row, at_most(c->extents[ROW] - row, SIM_TILE), column,
                                 at_most(c->extents[COLUMN] - column, SIM_TILE)};
                contract_tile(c, index, offsets, &t, &tiles);
            }
    } while (next(c, 0, c->free_count, index, offsets));
}

void exec_contract(struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct contraction c;
    plan_contraction(machine, op, device, &c);
    c.arena = machine->arena;
    bool wide = true;
    for (int o = 0; o < OPERANDS; o++) wide = wide && c.views[o].dtype == MODEL_FLOAT32;
    if (wide) contract_wide(&c);
    else contract_narrow(machine, &c, device);
}
