/* How fast the executor trains, in tokens per second of one core, beside the time that the matrix products alone take,
 * and where the rest goes. Times are this process's own, so that a busy machine does not matter much. */
#include "exec/exec.h"
#include "exec/gemm.h"
#include "sim/predict/predict.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 3, SHOWN = 12 };

#define REFERENCE                                                                                                      \
    "decoder_only:emb_dim=512,num_heads=8,head_dim=64,mlp_dim=2048,num_layers=8,vocab_size=8192,mlp_activations=gelu," \
    "logits_via_embedding=1"
static const char *const reference[SIM_KEY_COUNT] = {
    [SIM_MODEL] = REFERENCE, [SIM_TOPOLOGY] = "local:1", [SIM_TARGETS_LENGTH] = "256",
    [SIM_BATCH_SIZE] = "8",  [SIM_OPTIMIZER] = "adamw",  [SIM_DTYPE] = "float32"};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int64_t extent(const struct sim_executable *program, const struct sim_op *op, unsigned set)
{
    int64_t product = 1;
    for (int i = 0; i < op->label_count; i++)
        if (set & (1u << i)) product *= program->sizes[op->labels[i].size];
    return product;
}

/* The best of three, with operands that lie as BLAS likes them best. */
static double product_s(struct base_arena *arena, int64_t rows, int64_t columns, int64_t depth)
{
    float *a = base_new(arena, float, rows *depth), *b = base_new(arena, float, depth *columns),
          *c = base_new(arena, float, rows *columns);
    double best_s = 1e9;
    for (int64_t i = 0; i < rows * depth; i++) a[i] = 1e-3f * (float)(i % 97);
    for (int64_t i = 0; i < depth * columns; i++) b[i] = 1e-3f * (float)(i % 89);
    for (int i = 0; i < 3; i++) {
        double start_s = seconds_now();
        exec_gemm(arena, rows, columns, depth, (struct exec_matrix){a, depth, 1}, (struct exec_matrix){b, columns, 1},
                  (struct exec_matrix){c, columns, 1}, EXEC_OVERWRITE);
        double time_s = seconds_now() - start_s;
        if (time_s < best_s) best_s = time_s;
    }
    return best_s;
}

/* Every contraction of the step, each as one product of its shape. */
static double products_of_step_s(struct base_arena *arena, const struct sim_executable *program, double *flop)
{
    const struct sim_sharded *s = program->sharded;
    double sum_s = 0;
    for (int k = 0; k < s->kernel_count; k++) {
        const struct sim_op *op = &s->ops[s->kernels[k].op];
        if (!s->kernels[k].dot_count) continue;
        struct base_arena scratch = {.exhausted = arena->exhausted};
        int64_t times = extent(program, op, op->batch_labels), rows = extent(program, op, op->row_labels),
                columns = extent(program, op, op->column_labels), depth = extent(program, op, op->contracted_labels);
        for (int loop = op->loop; loop >= 0; loop = s->ops[loop].loop) times *= program->sizes[s->ops[loop].trips];
        sum_s += (double)times * product_s(&scratch, rows, columns, depth);
        *flop += 2.0 * (double)times * (double)rows * (double)columns * (double)depth;
        base_arena_free(&scratch);
    }
    return sum_s;
}

static double total_s(const struct sim_entry *entry)
{
    return entry->time_s * (double)entry->count;
}

static int longest_first(const void *a, const void *b)
{
    double x = total_s(a), y = total_s(b);
    return x > y ? -1 : x < y;
}

static void print_rest(struct exec_result *result)
{
    static const char *const phases[] = {"", " (backward)", " (update)"};
    struct sim_timeline *t = &result->timeline;
    qsort(t->entries, (size_t)t->count, sizeof *t->entries, longest_first);
    for (int i = 0, shown = 0; i < t->count && shown < SHOWN; i++) {
        const struct sim_entry *e = &t->entries[i];
        if (e->bound == SIM_BY_COMPUTE) continue;
        printf("    %8.1f ms  %s%s\n", 1e3 * total_s(e), e->name, phases[e->phase]);
        shown++;
    }
}

static enum base_status bench(struct base_arena *arena, struct sim_cache *cache, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_executable program;
    struct exec_result result;
    struct exec_request request = {.steps = STEPS, .processor_time = true};
    double step_s = 1e9, flop = 0;
    memcpy(text.values, reference, sizeof reference);
    BASE_TRY(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, error));
    BASE_TRY(sim_executable_program(cache, arena, &plan, &program, error));
    BASE_TRY(exec_run(arena, cache, &plan, &request, &result, error));
    double products_s = products_of_step_s(arena, &program, &flop),
           tokens = (double)plan.batch_size * (double)plan.targets_length;
    for (int i = 0; i < STEPS; i++)
        if (result.step_s[i] < step_s) step_s = result.step_s[i];
    printf("executor: %s\n  %.0f tokens a CPU second (the best step of %d: %.2f s); the matrix products alone would "
           "give %.0f (%.2f s, "
           "%.0f GFLOP/s)\n",
           REFERENCE, tokens / step_s, STEPS, step_s, tokens / products_s, products_s, 1e-9 * flop / products_s);
    printf("  that is %.0f %% of the bound; contractions as they lie take %.2f s, everything else %.2f s, of it\n",
           100 * products_s / step_s, result.contraction_s, step_s - result.contraction_s);
    print_rest(&result);
    return BASE_OK;
}

/* ---- decoding ---- */

#define TALKER                                                                                                         \
    "decoder_only:emb_dim=512,num_heads=8,head_dim=64,mlp_dim=2048,num_layers=8,vocab_size=8192,mlp_activations=gelu," \
    "logits_via_embedding=1"
enum { DECODED = 64, PASSES = 5 };

/* The fastest of a few searches of as many bytes for one that is not there, which reads them all as fast as there is.
 */
static double reading_s(struct base_arena *arena, int64_t bytes)
{
    char *memory = base_new(arena, char, bytes);
    double best_s = 1e9;
    memset(memory, 1, (size_t)bytes);
    for (int pass = 0; pass < PASSES; pass++) {
        const double start_s = seconds_now();
        if (memchr(memory, pass + 2, (size_t)bytes)) printf("a byte was found\n");
        const double time_s = seconds_now() - start_s;
        if (time_s < best_s) best_s = time_s;
    }
    return best_s;
}

/* Greedy decoding of one answer, beside the time that its weights alone take to be read once a token. */
static enum base_status bench_decoding(struct base_arena *arena, struct sim_cache *cache, const char *parameters,
                                       struct base_error *error)
{
    static const char path[] = "build/bench_prompt.txt";
    struct sim_plan_text text = {.values = {[SIM_MODEL] = TALKER,
                                            [SIM_TOPOLOGY] = "local:1",
                                            [SIM_TARGETS_LENGTH] = "64",
                                            [SIM_BATCH_SIZE] = "1",
                                            [SIM_TEMPERATURE] = "0",
                                            [SIM_EOS_ID] = "-1",
                                            [SIM_PARAMETER_DTYPE] = parameters}};
    struct sim_plan plan;
    struct exec_infer_result result;
    const struct exec_infer_request request = {.data = path, .processor_time = true};
    double token_s = 1e9;
    BASE_TRY(base_write_file(path, "a\n", 2, error));
    BASE_TRY(sim_plan_check(cache, arena, &text, MODEL_STEP_GENERATE, SIM_AS_EXECUTED, &plan, error));
    for (int i = 0; i < STEPS; i++) {
        BASE_TRY(exec_infer(arena, cache, &plan, &request, &result, error));
        const double this_s = result.batch_s[0] / (double)result.rounds[0];
        if (this_s < token_s) token_s = this_s;
    }
    const double weights_s = reading_s(arena, result.memory.parameter_bytes);
    printf("decoding: %s\n  %s: %.2f ms of a CPU a token, greedily (the best of %d answers); reading its %.0f MB of "
           "weights "
           "alone would take %.2f ms: %.0f %% of that speed\n",
           TALKER, parameters, 1e3 * token_s, STEPS, 1e-6 * (double)result.memory.parameter_bytes, 1e3 * weights_s,
           100 * weights_s / token_s);
    return BASE_OK;
}

/* An argument: of decoding alone. */
int main(int count, char **arguments)
{
    (void)arguments;
    jmp_buf exhausted;
    struct base_error error;
    struct base_arena arena = {.exhausted = &exhausted};
    if (setjmp(exhausted)) return 1;
    struct sim_cache *cache = sim_cache_new(&arena);
    enum base_status status = count > 1 ? BASE_OK : bench(&arena, cache, &error);
    if (status == BASE_OK) status = bench_decoding(&arena, cache, "float32", &error);
    if (status == BASE_OK) status = bench_decoding(&arena, cache, "int8", &error);
    if (status != BASE_OK) fprintf(stderr, "%s\n", error.text);
    sim_cache_free(cache);
    base_arena_free(&arena);
    return (int)status;
}
