/* The TPU compiler's cost model of one product. It splits the product into windows: of rows, columns, contraction and
 * batch. Each step copies the changed windows from HBM, each copy with its latency, and multiplies them; the last step
 * along the contraction copies a result window back. Copies are sequential, and overlap with the matrix units. Operands
 * already in vector memory are not copied. It chooses the fastest windows that fit its vector memory. Constants:
 * compiler_cycles.csv, from the compiler's own answers. */
#include "lab/lab.h"

#include <math.h>

extern const struct base_table embedded_lab_compiler_cycles_csv;
static const struct base_table *const table = &embedded_lab_compiler_cycles_csv;

/* One core: cycles, bytes per cycle, multiplications per cycle; array_side: rows and columns that its matrix units
 * multiply at once, and pad to; near_rate: of copies from CMEM, 0 if operands are placed in vector memory. */
struct constants {
    double clock_hz, cores, multiply_rate, array_side, narrow_rate, vmem_bytes, launch, latency, fetch_rate, near_rate,
        store_rate, pass;
    double room_bytes, held_bytes; /* for prefetched operands; the part of it for a large weight */
};

static enum base_status read_constants(const char *chip, struct constants *out, struct base_error *error)
{
    const struct lab_chip_constant constants[] = {{"clock_hz", &out->clock_hz},
                                                  {"cores", &out->cores},
                                                  {"multiplications_per_cycle", &out->multiply_rate},
                                                  {"array_side", &out->array_side},
                                                  {"byte_operand_speedup", &out->narrow_rate},
                                                  {"vmem_bytes", &out->vmem_bytes},
                                                  {"launch_cycles", &out->launch},
                                                  {"latency_cycles", &out->latency},
                                                  {"fetch_bytes_per_cycle", &out->fetch_rate},
                                                  {"near_bytes_per_cycle", &out->near_rate},
                                                  {"store_bytes_per_cycle", &out->store_rate},
                                                  {"pass_cycles", &out->pass},
                                                  {"operand_room_bytes", &out->room_bytes},
                                                  {"held_bytes", &out->held_bytes}};
    return lab_chip_constants_read(table, chip, constants, BASE_COUNT(constants), error);
}

/* ---- windows ---- */

/* A register has 8 sublanes of 128 lanes. An array's last dimension is along lanes, unless the other way needs less
 * padding. An extent along lanes in any array is split by lanes, the others by sublanes. */
enum which_array { ARRAY_ONE, ARRAY_OTHER, ARRAY_RESULT, ARRAY_COUNT };

static double padded(double sublanes, double lanes)
{
    return SIM_SUBLANES * ceil(sublanes / SIM_SUBLANES) * SIM_LANES * ceil(lanes / SIM_LANES);
}

/* Index of the extent that is along lanes in the array. */
static double *extent_along_lanes(const struct lab_compiled_product *p, enum which_array array,
                                  struct sim_product *granule)
{
    const struct sim_product *e = &p->extents;
    const struct {
        double first, last;
        double *first_granule, *last_granule;
        bool is_transposed;
    } arrays[ARRAY_COUNT] =
        {
            {e->rows, e->contracted, &granule->rows, &granule->contracted, p->is_transposed[0]},
            {e->contracted, e->columns, &granule->contracted, &granule->columns, p->is_transposed[1]},
            {e->rows, e->columns, &granule->rows, &granule->columns, false},
        },
      *a = &arrays[array];
    const double as_named = padded(a->first, a->last), turned = padded(a->last, a->first);
    const bool is_last = a->is_transposed ? as_named < turned : as_named <= turned;
    return is_last ? a->last_granule : a->first_granule;
}

static struct sim_product granules_of(const struct lab_compiled_product *p)
{
    struct sim_product granule = {1, SIM_SUBLANES, SIM_SUBLANES, SIM_SUBLANES};
    for (enum which_array a = 0; a < ARRAY_COUNT; a++) *extent_along_lanes(p, a, &granule) = SIM_LANES;
    return granule;
}

/* The next larger size that splits an extent into equal windows; INFINITY after the whole. Sizes up to STEPS granules
 * are all tried, larger ones in relative steps of 1/STEPS: few sizes, and no small one is lost. */
static double larger_size(double size, double extent, double granule)
{
    enum { STEPS = 64 };
    const double granules = extent / granule, before = size / granule;
    if (before >= granules) return INFINITY;
    const double passed = before + fmax(floor(before / STEPS), 1) - 1;
    const double parts = fmax(ceil(granules / passed) - 1, 1);
    return ceil(granules / parts) * granule;
}

/* Two cores halve the number of windows along one extent; the contraction only where there is nothing else to halve. */
enum split { SPLIT_NONE, SPLIT_COLUMNS, SPLIT_ROWS, SPLIT_CONTRACTED, SPLIT_BATCH, SPLIT_COUNT };

struct window {
    struct sim_product size;
    struct sim_product trips; /* windows along each extent */
};

static bool can_split(const struct window *w, enum split split, double cores)
{
    const struct sim_product *n = &w->trips;
    if (cores < 2) return split == SPLIT_NONE;
    return split == SPLIT_COLUMNS      ? n->columns > 1
           : split == SPLIT_ROWS       ? n->rows > 1
           : split == SPLIT_BATCH      ? n->batch > 1
           : split == SPLIT_CONTRACTED ? n->contracted > 1 && n->rows <= 1 && n->columns <= 1
                                       : n->rows <= 1 && n->columns <= 1 && n->contracted <= 1 && n->batch <= 1;
}

static struct sim_product trips_of_core(const struct window *w, enum split split)
{
    struct sim_product n = w->trips;
    double *halved[SPLIT_COUNT] = {NULL, &n.columns, &n.rows, &n.contracted, &n.batch};
    if (halved[split]) *halved[split] = ceil(*halved[split] / 2);
    return n;
}

/* ---- prefetch to vector memory ---- */

/* In whole registers, turned as it pads least. */
static double bytes_of_operand(const struct lab_compiled_product *p, int operand)
{
    const double free = operand == 0 ? p->extents.rows : p->extents.columns, contracted = p->extents.contracted;
    return p->extents.batch * fmin(padded(free, contracted), padded(contracted, free)) *
           (double)model_dtype_bytes(p->operands);
}

/* XLA's memory space assignment, as far as a product shows it. One operand that the program reads first, the largest
 * that fits, may be prefetched after the previous program; it stays until its last use. Others are prefetched during
 * earlier work, the largest first, while there is room. */
enum base_status lab_compiler_fetches(const char *chip, enum lab_surroundings surroundings,
                                      struct lab_compiled_product *product, struct base_error *error)
{
    struct constants c;
    BASE_TRY(read_constants(chip, &c, error));
    const int most = surroundings == LAB_SURROUNDED_IN_HBM       ? 0
                     : surroundings == LAB_SURROUNDED_BY_NOTHING ? 1
                                                                 : 2,
              larger = bytes_of_operand(product, 1) > bytes_of_operand(product, 0), order[] = {larger, 1 - larger};
    double room = c.room_bytes - (surroundings == LAB_SURROUNDED_BY_WEIGHTS ? c.held_bytes : 0);
    for (int i = 0, fetched = 0; i < BASE_COUNT(order); i++) {
        const double bytes = bytes_of_operand(product, order[i]);
        product->is_fetched[order[i]] = fetched < most && bytes <= room;
        if (!product->is_fetched[order[i]]) continue;
        fetched++;
        room -= bytes;
    }
    return BASE_OK;
}

/* ---- cycles ---- */

struct question {
    const struct lab_compiled_product *of;
    struct constants c;
    double operand_bytes, result_bytes; /* of an element */
    struct sim_product granule;
    bool has_rows_in_lanes; /* of its result */
    bool has_rows_first;    /* its first operand has them along lanes, not the contraction: bytes are no faster then */
};

static double up_to(double extent, double whole)
{
    return whole * ceil(extent / whole);
}

static bool is_in_place(const struct question *q, int operand)
{
    return q->of->is_fetched[operand] && q->c.near_rate == 0;
}

/* Windows are double-buffered, except for an operand in vector memory; sums along the contraction are float32 if the
 * result is narrower. */
static bool fits(const struct question *q, const struct sim_product *s)
{
    const double one = s->rows * s->contracted * q->operand_bytes * (is_in_place(q, 0) ? 1 : 2),
                 other = s->contracted * s->columns * q->operand_bytes * (is_in_place(q, 1) ? 1 : 2),
                 sum = (double)sizeof(float), result = s->rows * s->columns;
    const bool has_sums = s->contracted < q->of->extents.contracted && q->result_bytes < sum;
    /* the share of vector memory that windows may have: of 0.7, 0.75, 0.78, 0.82 and 0.86 the best on the rows that
     * gave the constants */
    static const double share = 0.75;
    return s->batch * (one + other + result * (2 * q->result_bytes + (has_sums ? sum : 0))) <= share * q->c.vmem_bytes;
}

static double multiply_cycles(const struct question *q, const struct sim_product *s)
{
    const struct constants *c = &q->c;
    const double in_lanes = q->has_rows_in_lanes ? s->rows : s->columns,
                 others = q->has_rows_in_lanes ? s->columns : s->rows;
    return s->batch * up_to(s->contracted, c->array_side) * up_to(in_lanes, c->array_side) *
           up_to(others, SIM_SUBLANES) /
           (c->multiply_rate * (q->operand_bytes == 1 && !q->has_rows_first ? c->narrow_rate : 1));
}

/* A result narrower than the sums was read and written as sums before. */
static double store_cycles(const struct question *q, const struct sim_product *s)
{
    const double sum = (double)sizeof(float), bytes = q->result_bytes < sum ? sum + q->result_bytes : q->result_bytes;
    return s->batch * s->rows * s->columns * bytes / q->c.store_rate + q->c.latency;
}

static double fetch_cycles(const struct question *q, int operand, double elements)
{
    const double bytes = elements * q->operand_bytes;
    return is_in_place(q, operand)      ? 0
           : q->of->is_fetched[operand] ? bytes / q->c.near_rate
                                        : bytes / q->c.fetch_rate + q->c.latency;
}

static double cycles_of(const struct question *q, const struct window *w, enum split split)
{
    const struct sim_product *s = &w->size, n = trips_of_core(w, split);
    const double one = fetch_cycles(q, 0, s->batch * s->rows * s->contracted),
                 other = fetch_cycles(q, 1, s->batch * s->contracted * s->columns), store = store_cycles(q, s),
                 compute = multiply_cycles(q, s) + q->c.pass;
    /* Steps that end a window of the result, and steps before them: along the contraction, or with the same columns. */
    const bool is_summed = n.contracted > 1, moves = n.rows > 1 || n.batch > 1;
    const double windows = n.batch * n.columns * n.rows,
                 inner = is_summed ? windows * (n.contracted - 1) : n.batch * n.columns * (n.rows - 1),
                 outer = is_summed ? windows : n.batch * n.columns, inner_wait = is_summed ? one + other : one + store,
                 outer_wait = (is_summed || moves ? one : 0) + other + store;
    /* The first windows are waited for; behind the last step there is nothing to copy but its result. */
    return q->c.launch + one + other + store + inner * fmax(compute, inner_wait) +
           (outer - 1) * fmax(compute, outer_wait) + compute;
}

/* Of windows with equal cycles the largest, which come last. */
static void try_window(const struct question *q, const struct sim_product *size, const struct sim_product *all,
                       struct lab_compiler_cycles *best)
{
    const struct window w = {*size,
                             {ceil(all->batch / size->batch), ceil(all->rows / size->rows),
                              ceil(all->columns / size->columns), ceil(all->contracted / size->contracted)}};
    for (enum split split = SPLIT_NONE; split < SPLIT_COUNT; split++) {
        if (!can_split(&w, split, q->c.cores)) continue;
        const double cycles = cycles_of(q, &w, split);
        if (cycles <= best->cycles) {
            best->cycles = cycles;
            best->window = w.size;
        }
    }
}

/* True if a window belongs to the product, and fits: with growing sizes, the first failure ends the loop. */
static bool goes_on(const struct question *q, const struct sim_product *size, const struct sim_product *whole)
{
    return size->batch <= whole->batch && size->rows <= whole->rows && size->columns <= whole->columns &&
           size->contracted <= whole->contracted && fits(q, size);
}

static struct sim_product whole_granules(const struct sim_product *extents, const struct sim_product *granule)
{
    return (struct sim_product){extents->batch, granule->rows * ceil(extents->rows / granule->rows),
                                granule->columns * ceil(extents->columns / granule->columns),
                                granule->contracted * ceil(extents->contracted / granule->contracted)};
}

/* Each loop begins with one granule of the extents of those inside it. */
static void try_windows(const struct question *q, struct lab_compiler_cycles *best)
{
    const struct sim_product *granule = &q->granule, all = whole_granules(&q->of->extents, granule);
    for (struct sim_product b = *granule; goes_on(q, &b, &all); b.batch = larger_size(b.batch, all.batch, 1))
        for (struct sim_product r = b; goes_on(q, &r, &all); r.rows = larger_size(r.rows, all.rows, granule->rows))
            for (struct sim_product c = r; goes_on(q, &c, &all);
                 c.columns = larger_size(c.columns, all.columns, granule->columns))
                for (struct sim_product k = c; goes_on(q, &k, &all);
                     k.contracted = larger_size(k.contracted, all.contracted, granule->contracted))
                    try_window(q, &k, &all, best);
}

enum base_status lab_compiler_product(const char *chip, const struct lab_compiled_product *product,
                                      struct lab_compiler_cycles *out, struct base_error *error)
{
    struct question q = {.of = product,
                         .operand_bytes = (double)model_dtype_bytes(product->operands),
                         .result_bytes = (double)model_dtype_bytes(product->result)};
    BASE_TRY(read_constants(chip, &q.c, error));
    q.granule = granules_of(product);
    q.has_rows_in_lanes = extent_along_lanes(product, ARRAY_RESULT, &q.granule) == &q.granule.rows;
    q.has_rows_first = extent_along_lanes(product, ARRAY_ONE, &q.granule) == &q.granule.rows;
    *out = (struct lab_compiler_cycles){.cycles = INFINITY,
                                        .is_fetched = {product->is_fetched[0], product->is_fetched[1]}};
    try_windows(&q, out);
    if (!(out->cycles < INFINITY))
        return base_fail(error, BASE_INPUT, "no window of the product fits the vector memory of %.40s", chip);
    out->time_s = out->cycles / q.c.clock_hz;
    return BASE_OK;
}

/* ---- kernels that sum ---- */

/* Windows as for products, each array with its latency; a narrow result was a sum before, and several operands'
 * elementwise result is written once in their dtype before it is summed. Computation of one window is not overlapped:
 * its time is assumed to be that of the window's copies, which overlap with those of others. */
enum base_status lab_compiler_summing(const char *chip, const struct lab_summing *kernel,
                                      struct lab_compiler_cycles *out, struct base_error *error)
{
    struct constants c;
    BASE_TRY(read_constants(chip, &c, error));
    *out = (struct lab_compiler_cycles){0};
    const double elements = SIM_SUBLANES * SIM_LANES, registers = kernel->registers / c.cores,
                 buffers = 4 * elements * (kernel->operand_bytes + kernel->result_bytes),
                 windows = ceil(registers / fmax(c.vmem_bytes / buffers, 1)),
                 made = kernel->operand_count > 1 ? kernel->summed_bytes : 0,
                 stored = kernel->result_bytes + kernel->narrow_count * (double)sizeof(float) + made,
                 copies = registers * elements * (kernel->operand_bytes / c.fetch_rate + stored / c.store_rate),
                 waits = windows * ((kernel->operand_count + kernel->result_count) * c.latency + c.pass);
    out->cycles = c.launch + (1 + 1 / windows) * (copies + waits);
    out->time_s = out->cycles / c.clock_hz;
    return BASE_OK;
}
