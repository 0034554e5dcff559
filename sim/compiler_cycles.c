/* What the TPU compiler's cost model says of one product. It splits the product into windows: of rows, columns,
 * contraction and batch. Each step fetches the windows that changed and multiplies them; the last step along the
 * contraction writes a window of the result. Fetching and writing share the way to HBM and hide behind the matrix
 * units, or these behind them. Of all windows that fit its vector memory it takes those with which that ends first.
 * Constants: compiler_cycles.csv, from the compiler's own answers. */
#include "sim/compiler_chips.h"
#include "sim/sim.h"

#include <math.h>

extern const char embedded_sim_compiler_cycles_csv[];
static struct base_table table = {.name = "compiler_cycles.csv", .text = embedded_sim_compiler_cycles_csv};

/* Of one core: cycles, bytes a cycle, multiplications a cycle; cycles for 1024 elements of a result (one vector
 * register of float32), and for 1024 of a window of the second operand, which the matrix units have to take up. */
struct constants {
    double clock_hz, cores, multiply_rate, narrow_rate, vmem_bytes, launch, fetch_rate, step, pass, store_narrow,
        store_wide, take_up;
};

static enum base_status read_constants(const char *chip, struct constants *out, struct base_error *error)
{
    const struct sim_chip_constant constants[] = {{"clock_hz", &out->clock_hz},
                                                  {"cores", &out->cores},
                                                  {"multiplications_per_cycle", &out->multiply_rate},
                                                  {"byte_operand_speedup", &out->narrow_rate},
                                                  {"vmem_bytes", &out->vmem_bytes},
                                                  {"launch_cycles", &out->launch},
                                                  {"fetch_bytes_per_cycle", &out->fetch_rate},
                                                  {"step_cycles", &out->step},
                                                  {"pass_cycles", &out->pass},
                                                  {"store_narrow_cycles", &out->store_narrow},
                                                  {"store_wide_cycles", &out->store_wide},
                                                  {"take_up_cycles", &out->take_up}};
    return sim_chip_constants_read(&table, chip, constants, BASE_COUNT(constants), error);
}

/* ---- windows ---- */

/* A register has 8 sublanes of 128 lanes. Which of a product's extents lie along lanes depends on the layouts that the
 * compiler gives its arrays; the others are tiled, and padded, by sublanes. */
enum { LAYOUTS = 4 };
static const struct sim_product layouts[LAYOUTS] = {{1, SIM_SUBLANES, SIM_LANES, SIM_LANES},
                                                    {1, SIM_SUBLANES, SIM_LANES, SIM_SUBLANES},
                                                    {1, SIM_LANES, SIM_SUBLANES, SIM_LANES},
                                                    {1, SIM_LANES, SIM_SUBLANES, SIM_SUBLANES}};

/* The next larger size that splits an extent into equal windows; INFINITY behind the whole. Every such size up to STEPS
 * granules, and beyond them one in each STEPS-th of the size before: so there are few, and none of the small is lost.
 */
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

/* ---- cycles ---- */

struct question {
    const struct sim_compiled_product *of;
    struct constants c;
    double operand_bytes, result_bytes; /* of an element */
};

static double whole_lanes(double extent)
{
    return SIM_LANES * ceil(extent / SIM_LANES);
}

/* Windows are fetched while others are multiplied, so there are two of each, and sums in float32. What the compiler had
 * brought to vector memory before needs no window. */
static bool fits(const struct question *q, const struct sim_product *s)
{
    const double one = q->of->is_fetched[0] ? 0 : s->rows * s->contracted * q->operand_bytes,
                 other = q->of->is_fetched[1] ? 0 : s->contracted * s->columns * q->operand_bytes,
                 result = s->rows * s->columns;
    /* the share of vector memory that windows may have: of 0.93, 0.97 and 1 the best on the rows that gave the
     * constants */
    static const double share = 0.93;
    return s->batch * (2 * (one + other + result * q->result_bytes) + result * (double)sizeof(float)) <=
           share * q->c.vmem_bytes;
}

static double cycles_of(const struct question *q, const struct window *w, enum split split)
{
    enum { REGISTER = SIM_SUBLANES * SIM_LANES };
    const struct constants *c = &q->c;
    const struct sim_product *s = &w->size, n = trips_of_core(w, split);
    const bool is_narrow = q->operand_bytes == 1, stays_wide = q->result_bytes >= (double)sizeof(float);
    const double one = q->of->is_fetched[0] ? 0 : s->batch * s->rows * s->contracted * q->operand_bytes / c->fetch_rate,
                 other = q->of->is_fetched[1]
                             ? 0
                             : s->batch * s->contracted * s->columns * q->operand_bytes / c->fetch_rate,
                 store = s->batch * s->rows * s->columns / REGISTER * (stays_wide ? c->store_wide : c->store_narrow),
                 multiply = s->batch * s->rows * whole_lanes(s->columns) * whole_lanes(s->contracted) /
                            (c->multiply_rate * (is_narrow ? c->narrow_rate : 1)),
                 take_up = c->take_up * s->batch * s->contracted * s->columns / REGISTER,
                 compute = fmax(multiply, take_up) + c->pass;
    /* Steps that end a window of the result, and steps before them: along the contraction, or with the same columns. */
    const bool is_summed = n.contracted > 1, moves = n.rows > 1 || n.batch > 1;
    const double windows = n.batch * n.columns * n.rows,
                 inner = is_summed ? windows * (n.contracted - 1) : n.batch * n.columns * (n.rows - 1),
                 outer = is_summed ? windows : n.batch * n.columns,
                 inner_wait = (is_summed ? one + other : one + store) + c->step,
                 outer_wait = (is_summed || moves ? one : 0) + other + store + c->step;
    /* The first windows are waited for; behind the last step there is nothing to fetch, and its result to write. */
    return c->launch + one + other + store + inner * fmax(compute, inner_wait) +
           (outer - 1) * fmax(compute, outer_wait) + compute;
}

/* Of windows with the same cycles the largest, which come last. */
static void try_window(const struct question *q, const struct sim_product *size, const struct sim_product *all,
                       struct sim_compiler_cycles *best)
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

/* Whether a window is one of the product, and fits: of sizes that grow, the first that is not is the last to look at.
 */
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
static void try_layout(const struct question *q, const struct sim_product *granule, struct sim_compiler_cycles *best)
{
    const struct sim_product all = whole_granules(&q->of->extents, granule);
    for (struct sim_product b = *granule; goes_on(q, &b, &all); b.batch = larger_size(b.batch, all.batch, 1))
        for (struct sim_product r = b; goes_on(q, &r, &all); r.rows = larger_size(r.rows, all.rows, granule->rows))
            for (struct sim_product c = r; goes_on(q, &c, &all);
                 c.columns = larger_size(c.columns, all.columns, granule->columns))
                for (struct sim_product k = c; goes_on(q, &k, &all);
                     k.contracted = larger_size(k.contracted, all.contracted, granule->contracted))
                    try_window(q, &k, &all, best);
}

enum base_status sim_compiler_product(const char *chip, const struct sim_compiled_product *product,
                                      struct sim_compiler_cycles *out, struct base_error *error)
{
    struct question q = {.of = product,
                         .operand_bytes = (double)model_dtype_bytes(product->operands),
                         .result_bytes = (double)model_dtype_bytes(product->result)};
    BASE_TRY(read_constants(chip, &q.c, error));
    *out = (struct sim_compiler_cycles){.cycles = INFINITY};
    for (int i = LAYOUTS - 1; i >= 0; i--) try_layout(&q, &layouts[i], out);
    if (!(out->cycles < INFINITY))
        return base_fail(error, BASE_INPUT, "no window of the product fits the vector memory of %.40s", chip);
    out->time_s = out->cycles / q.c.clock_hz;
    return BASE_OK;
}
