/* The TPU compiler's cost model of a fusion without products: elementwise chains, reductions, norms, updates. It
 * processes arrays in windows, of as many registers as fit vector memory twice: fetch operands, compute and write
 * results, with a latency per window. Elementwise work in between does not count. A reduction has the work of its
 * operand, in float32. Constants: compiler_fusions.csv, from the compiler's own answers. */
#include "lab/lab.h"

#include <math.h>
#include <string.h>

extern const struct base_table embedded_sim_machine_compiler_fusions_csv;
static const struct base_table *const table = &embedded_sim_machine_compiler_fusions_csv;

/* One core: cycles, bytes per cycle; cycles per result register of 1024 elements, for elements of 4 bytes or fewer. */
struct constants {
    double clock_hz, cores, vmem_bytes, launch, window, fetch_rate, narrow, wide;
};

static enum base_status read_constants(const char *chip, struct constants *out, struct base_error *error)
{
    const struct lab_chip_constant constants[] = {
        {"clock_hz", &out->clock_hz},    {"cores", &out->cores},          {"vmem_bytes", &out->vmem_bytes},
        {"launch_cycles", &out->launch}, {"window_cycles", &out->window}, {"fetch_bytes_per_cycle", &out->fetch_rate},
        {"narrow_cycles", &out->narrow}, {"wide_cycles", &out->wide}};
    return lab_chip_constants_read(table, chip, constants, BASE_COUNT(constants), error);
}

enum { REGISTER = SIM_SUBLANES * SIM_LANES };

/* ---- arrays ---- */

/* "float32[1024,4096]" */
static enum base_status read_array(char *text, struct lab_compiled_array *out, struct base_error *error)
{
    static const double largest = 1LL << 40;
    char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close || close[1]) return base_fail(error, BASE_INPUT, "\"%.60s\" is no array; use float32[1024,4096]", text);
    *open = *close = '\0';
    out->dtype = MODEL_FLOAT32;
    while (out->dtype <= MODEL_UINT32 && strcmp(model_dtype_name(out->dtype), text) != 0) out->dtype++;
    if (out->dtype > MODEL_UINT32)
        return base_fail(error, BASE_INPUT, "the dtype \"%.40s\" is unknown; use float32, bfloat16, int8, …", text);
    out->rank = 0;
    if (open[1])
        BASE_TRY(
            base_parse_ints(open + 1, "an array's shape", 1, 1 << 30, MODEL_MAX_RANK, out->shape, &out->rank, error));
    double elements = 1;
    for (int d = 0; d < out->rank; d++) elements *= (double)out->shape[d];
    return elements <= largest
               ? BASE_OK
               : base_fail(error, BASE_INPUT, "an array of %.3g elements; use up to %.3g", elements, largest);
}

enum base_status lab_compiled_arrays_parse(struct base_arena *arena, const char *text, struct lab_compiled_arrays *out,
                                           struct base_error *error)
{
    out->count = 0;
    for (char *at = base_copy(arena, text), *next; at; at = next) {
        next = strchr(at, ';');
        if (next) *next++ = '\0';
        if (out->count == LAB_MOST_COMPILED_ARRAYS)
            return base_fail(error, BASE_INPUT, "more than %d arrays", LAB_MOST_COMPILED_ARRAYS);
        BASE_TRY(read_array(at, &out->of[out->count++], error));
    }
    return BASE_OK;
}

/* Its two last dimensions are padded to whole registers; one alone fills them row by row. */
static double registers_of(const struct lab_compiled_array *a)
{
    double registers = 1;
    for (int d = 0; d < a->rank - 2; d++) registers *= (double)a->shape[d];
    if (a->rank == 1) return ceil((double)a->shape[0] / REGISTER);
    if (a->rank > 1)
        registers *=
            ceil((double)a->shape[a->rank - 2] / SIM_SUBLANES) * ceil((double)a->shape[a->rank - 1] / SIM_LANES);
    return registers;
}

static double bytes_of(const struct lab_compiled_array *a)
{
    return registers_of(a) * REGISTER * (double)model_dtype_bytes(a->dtype);
}

/* ---- cycles ---- */

struct work {
    double registers;                   /* of the largest array, which the windows cover */
    double fetched_bytes, narrow, wide; /* registers of results, or of reduced operands */
    double window_bytes;                /* of all arrays that go through windows, for one register of them */
};

/* Vectors next to matrices, and results of reductions, are not covered by windows. */
static bool is_small(const struct work *w, const struct lab_compiled_array *a)
{
    static const double share = 1.0 / 16;
    return registers_of(a) <= share * w->registers;
}

static struct work work_of(const struct lab_compiled_fusion *fusion)
{
    struct work w = {0};
    for (int i = 0; i < fusion->operands.count; i++) {
        w.registers = fmax(w.registers, registers_of(&fusion->operands.of[i]));
        w.fetched_bytes += bytes_of(&fusion->operands.of[i]);
    }
    for (int i = 0; i < fusion->results.count; i++)
        w.registers = fmax(w.registers, registers_of(&fusion->results.of[i]));
    for (int i = 0; i < fusion->operands.count; i++) {
        const struct lab_compiled_array *a = &fusion->operands.of[i];
        if (!is_small(&w, a)) w.window_bytes += REGISTER * (double)model_dtype_bytes(a->dtype);
    }
    for (int i = 0; i < fusion->results.count; i++) {
        const struct lab_compiled_array *a = &fusion->results.of[i];
        const double bytes = (double)model_dtype_bytes(a->dtype);
        if (is_small(&w, a)) continue;
        w.window_bytes += REGISTER * bytes;
        *(bytes >= (double)sizeof(float) ? &w.wide : &w.narrow) += registers_of(a);
    }
    if (w.narrow + w.wide > 0) return w;
    w.wide = w.registers;
    w.window_bytes += REGISTER * (double)sizeof(float);
    return w;
}

/* One core. All at once if it fits, double-buffered; else 128 registers for an unfused operation, and up to 1024 for a
 * fusion: from the compiler's answers. */
static double windows_of(const struct constants *c, const struct work *w, bool is_alone)
{
    static const double alone = 128, most = 1024;
    const double registers = w->registers / c->cores, room = c->vmem_bytes / (2 * w->window_bytes);
    if (registers <= room) return 1;
    return ceil(registers / (is_alone ? alone : fmin(most, fmax(room, 1))));
}

static double elements_of(const struct lab_compiled_array *a)
{
    double elements = 1;
    for (int d = 0; d < a->rank; d++) elements *= (double)a->shape[d];
    return elements;
}

/* A fusion covers one range of elements: the largest array's. A result is of this size, or a reduction; if a result is
 * the largest, operands are broadcast. */
static enum base_status check_results(const struct lab_compiled_fusion *fusion, struct base_error *error)
{
    double range = 0, largest_read = 0;
    for (int i = 0; i < fusion->operands.count; i++)
        largest_read = fmax(largest_read, elements_of(&fusion->operands.of[i]));
    for (int i = 0; i < fusion->results.count; i++) range = fmax(range, elements_of(&fusion->results.of[i]));
    if (largest_read > 0 && fmod(fmax(range, largest_read), fmin(range, largest_read)) != 0)
        return base_fail(error, BASE_INPUT,
                         "--results: no fusion makes %.0f elements of %.0f; a result has as many as the largest "
                         "operand, is a reduction of them, or repeats them",
                         range, largest_read);
    for (int i = 0; i < fusion->results.count; i++)
        if (fmod(fmax(range, largest_read), elements_of(&fusion->results.of[i])) != 0)
            return base_fail(error, BASE_INPUT,
                             "--results: array %d has %.0f elements, which no fusion over %.0f makes; a result has as "
                             "many, or is a reduction of them",
                             i + 1, elements_of(&fusion->results.of[i]), fmax(range, largest_read));
    return BASE_OK;
}

static enum base_status find_summing(const char *chip, const struct lab_compiled_fusion *fusion, const struct work *w,
                                     struct lab_compiler_cycles *out, struct base_error *error)
{
    struct lab_summing kernel = {.registers = w->registers};
    for (int i = 0; i < fusion->operands.count; i++) {
        const struct lab_compiled_array *a = &fusion->operands.of[i];
        if (is_small(w, a)) continue;
        if (kernel.operand_count++ == 0) kernel.summed_bytes = (double)model_dtype_bytes(a->dtype);
        kernel.operand_bytes += (double)model_dtype_bytes(a->dtype);
    }
    for (int i = 0; i < fusion->results.count; i++) {
        const struct lab_compiled_array *a = &fusion->results.of[i];
        if (is_small(w, a)) continue;
        kernel.result_count++;
        kernel.result_bytes += (double)model_dtype_bytes(a->dtype);
        kernel.narrow_count += model_dtype_bytes(a->dtype) < (int64_t)sizeof(float);
    }
    if (kernel.operand_count == 0 || kernel.result_count == 0)
        return base_fail(error, BASE_INPUT,
                         "--sums-rows: a kernel that sums rows and reads them again has operands and results of "
                         "their size; a reduction is one without");
    return lab_compiler_summing(chip, &kernel, out, error);
}

enum base_status lab_compiler_fusion(const char *chip, const struct lab_compiled_fusion *fusion,
                                     struct lab_compiler_cycles *out, struct base_error *error)
{
    struct constants c;
    BASE_TRY(check_results(fusion, error));
    BASE_TRY(read_constants(chip, &c, error));
    const struct work w = work_of(fusion);
    if (fusion->is_summing) return find_summing(chip, fusion, &w, out, error);
    const double windows = windows_of(&c, &w, fusion->is_alone);
    *out = (struct lab_compiler_cycles){
        .cycles = c.launch + windows * c.window +
                  (w.fetched_bytes / c.fetch_rate + w.narrow * c.narrow + w.wide * c.wide) / c.cores};
    out->time_s = out->cycles / c.clock_hz;
    return BASE_OK;
}
