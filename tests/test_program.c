/* Tests of model/'s program of one training step: its forward contractions against those that T5X's examples make
 * (tests/data/einsums.json), and what must hold of every program: definitions before uses, labels that fit their
 * tensors, transposes, counted FLOP, sizes that no layer count changes, and what a remat policy keeps. */
#include "tests/test.h"

#include "model/model.h"

#define INLINE_SIZES "emb_dim=64,num_heads=4,head_dim=24,mlp_dim=96,vocab_size=512"
#define ENCODER_DECODER                                                                                                \
    "encoder_decoder:" INLINE_SIZES ",num_encoder_layers=3,num_decoder_layers=2,mlp_activations=gelu+linear"
#define SCALABLE "scalable_" ENCODER_DECODER
#define DECODER_ONLY "decoder_only:" INLINE_SIZES ",num_layers=2,logits_via_embedding=1"
#define GROUPED "decoder_only:" INLINE_SIZES ",num_layers=2,num_kv_heads=2,mlp_activations=silu+linear,parallel_block=1"
#define SCALABLE_DECODER "scalable_" DECODER_ONLY

static const char *const architectures[] = {ENCODER_DECODER, SCALABLE, DECODER_ONLY, GROUPED, SCALABLE_DECODER};

static struct model_config configure(struct base_arena *arena, const char *model)
{
    struct model_config config;
    struct base_error error;
    assert_ok(model_config_parse(arena, model, &config, &error), &error);
    return config;
}

static struct model_program build(struct base_arena *arena, const char *model, struct model_options options)
{
    struct model_config config = configure(arena, model);
    struct model_program program;
    model_program_build(arena, &config, &options, &program);
    return program;
}

static const struct model_tensor *tensor_of(const struct model_program *program, int tensor)
{
    assert_in_range(tensor, 0, program->tensor_count - 1);
    return &program->tensors[tensor];
}

static const char *name_of(const struct model_program *program, int tensor)
{
    return tensor_of(program, tensor)->name;
}

/* The operation that makes a tensor, or NULL for what is there from the start or goes round a loop. */
static const struct model_op *producer_of(const struct model_program *program, int tensor)
{
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b].op_count; i++) {
            const struct model_op *op = &program->blocks[b].ops[i];
            for (int o = 0; op->kind != MODEL_UPDATE && o < op->output_count; o++)
                if (op->outputs[o] == tensor) return op;
        }
    return NULL;
}

/* Every program that a plan can ask for, as far as its structure goes. */
struct variant {
    const char *model;
    struct model_options options;
};
enum { MOST_VARIANTS = 2000 };

static int all_variants(struct variant *out)
{
    static const enum model_dtype dtypes[] = {MODEL_BFLOAT16, MODEL_FLOAT32};
    int count = 0;
    for (int m = 0; m < BASE_COUNT(architectures); m++)
        for (int step = MODEL_STEP_TRAIN; step <= MODEL_STEP_EVALUATE; step++)
            for (int remat = MODEL_REMAT_NONE; remat <= MODEL_REMAT_FULL; remat++)
                for (int optimizer = MODEL_ADAFACTOR; optimizer <= MODEL_SGD; optimizer++)
                    for (int bits = 0; bits < 8; bits++)
                        out[count++] = (struct variant){architectures[m],
                                                        {.step = (enum model_step)step,
                                                         .remat = (enum model_remat)remat,
                                                         .optimizer = (enum model_optimizer)optimizer,
                                                         .dtype = dtypes[bits & 1],
                                                         .microbatches = bits & 2,
                                                         .flash_attention = bits & 4}};
    assert_in_range(count, 1, MOST_VARIANTS);
    return count;
}

/* Runs a check on each variant's program, in an arena of its own so that the memory stays small. */
static void for_all_programs(struct base_arena *arena,
                             void (*check)(struct base_arena *arena, const struct variant *variant,
                                           const struct model_program *program))
{
    struct variant *variants = base_new(arena, struct variant, MOST_VARIANTS);
    struct base_arena each = {.exhausted = arena->exhausted};
    int count = all_variants(variants);
    for (int i = 0; i < count; i++) {
        const struct model_options *o = &variants[i].options;
        TEST_ROW("%s: step %d, remat %d, optimizer %d, dtype %d, microbatches %d, flash %d", variants[i].model,
                 (int)o->step, (int)o->remat, (int)o->optimizer, (int)o->dtype, o->microbatches, o->flash_attention);
        struct model_program program = build(&each, variants[i].model, *o);
        check(&each, &variants[i], &program);
        base_arena_reset(&each);
    }
    base_arena_free(&each);
    TEST_ROW("%s", "");
}

/* ---- T5X's contractions ---- */

enum { MOST_DOTS = 64, LONGEST_DOT = 400 };

/* One contraction as one line of text, however its operands' dimensions are ordered in memory. */
struct dots {
    char lines[MOST_DOTS][LONGEST_DOT];
    int count;
};

static const char *size_symbol(int size)
{
    static const char *const symbols[MODEL_SIZE_COUNT] = {
        [MODEL_BATCH] = "B", [MODEL_INPUTS_LENGTH] = "Le", [MODEL_TARGETS_LENGTH] = "Ld",
        [MODEL_EMBED] = "E", [MODEL_HEADS] = "H",          [MODEL_HEAD_DIM] = "D",
        [MODEL_MLP] = "F",   [MODEL_VOCAB] = "V",          [MODEL_RELPOS_BUCKETS] = "R"};
    assert_non_null(symbols[size]);
    return symbols[size];
}

/* Dimensions of an operand with what becomes of each (b batch, c contracted, f free), sorted: T5X transposes a tied
 * table before it contracts, we do not. */
struct operand {
    char words[MODEL_MAX_RANK][8];
    int count;
};

static void sort_words(struct operand *operand)
{
    for (int i = 0; i < operand->count; i++)
        for (int j = i + 1; j < operand->count; j++)
            if (strcmp(operand->words[j], operand->words[i]) < 0) {
                char swapped[8];
                memcpy(swapped, operand->words[i], sizeof swapped);
                memcpy(operand->words[i], operand->words[j], sizeof swapped);
                memcpy(operand->words[j], swapped, sizeof swapped);
            }
}

static const char *operand_text(struct base_arena *arena, struct operand *operand)
{
    struct base_text text = {.arena = arena};
    sort_words(operand);
    for (int i = 0; i < operand->count; i++) base_putf(&text, "%s%s", i ? " " : "", operand->words[i]);
    return text.data;
}

static void add_dot(struct dots *dots, const char *path, int times, const char *left, const char *left_dtype,
                    const char *right, const char *right_dtype, const char *result, const char *result_dtype)
{
    assert_in_range(dots->count, 0, MOST_DOTS - 1);
    snprintf(dots->lines[dots->count++], LONGEST_DOT, "%d x %s: %s [%s] . %s [%s] -> %s [%s]", times, path, left_dtype,
             left, right_dtype, right, result_dtype, result);
}

static bool has_letter(const char *letters, char letter)
{
    return strchr(letters, letter) != NULL;
}

static const char *our_operand(struct base_arena *arena, const struct model_program *program, const struct model_op *op,
                               int input)
{
    const struct model_tensor *tensor = tensor_of(program, op->inputs[input]);
    struct operand operand = {.count = tensor->rank};
    for (int d = 0; d < tensor->rank; d++) {
        char letter = op->input_labels[input][d];
        bool result = has_letter(op->output_labels, letter), other = has_letter(op->input_labels[1 - input], letter);
        snprintf(operand.words[d], sizeof operand.words[d], "%s%s", size_symbol(tensor->dims[d]),
                 result && other ? ".b"
                 : result        ? ".f"
                                 : ".c");
    }
    return operand_text(arena, &operand);
}

/* The dtype before exact widening: where T5X contracts bfloat16 with float32, the program casts first. */
static const char *dtype_before_widening(const struct model_program *program, int tensor)
{
    const struct model_op *made = producer_of(program, tensor);
    while (made && made->kind == MODEL_MAP && (made->function == MODEL_CAST || made->function == MODEL_SCALE) &&
           model_dtype_bytes(tensor_of(program, made->inputs[0])->dtype) <=
               model_dtype_bytes(tensor_of(program, tensor)->dtype)) {
        tensor = made->inputs[0];
        made = producer_of(program, tensor);
    }
    return model_dtype_name(tensor_of(program, tensor)->dtype);
}

/* T5X names a contraction by the module of its parameter, or by the module that contracts. */
static const char *module_of(struct base_arena *arena, const struct model_program *program, const struct model_op *op)
{
    const char *name = op->name;
    for (int i = 0; i < op->input_count; i++) {
        int at = op->inputs[i];
        const struct model_op *made;
        while ((made = producer_of(program, at)) != NULL &&
               (made->kind == MODEL_RESHAPE || made->function == MODEL_CAST))
            at = made->inputs[0];
        if (tensor_of(program, at)->category == MODEL_PARAMETER) name = name_of(program, at);
    }
    const char *last = strrchr(name, '/');
    return base_copy_bytes(arena, name, last ? (size_t)(last - name) : strlen(name));
}

static void our_dots(struct base_arena *arena, const struct model_program *program, int block,
                     const struct model_config *config, int times, bool tied_dtype, struct dots *out)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    model_sizes(config, 1, 1, 1, 1, sizes);
    for (int i = 0; i < program->blocks[block].op_count; i++) {
        const struct model_op *op = &program->blocks[block].ops[i];
        if (op->kind == MODEL_LOOP) {
            int trips = (int)sizes[op->trips], walks = config->scan_layers ? 1 : trips;
            for (int walk = 0; walk < walks; walk++)
                our_dots(arena, program, op->body, config, config->scan_layers ? trips : 1, tied_dtype, out);
        }
        if (op->kind != MODEL_EINSUM) continue;
        const struct model_tensor *result = tensor_of(program, op->outputs[0]);
        struct base_text shape = {.arena = arena};
        for (int d = 0; d < result->rank; d++) base_putf(&shape, "%s%s", d ? " " : "", size_symbol(result->dims[d]));
        bool mixed = tied_dtype && result->axes[result->rank - 1] == MODEL_AXIS_VOCAB;
        const char *left_dtype = mixed ? dtype_before_widening(program, op->inputs[0])
                                       : model_dtype_name(tensor_of(program, op->inputs[0])->dtype);
        add_dot(out, module_of(arena, program, op), times, our_operand(arena, program, op, 0), left_dtype,
                our_operand(arena, program, op, 1), model_dtype_name(tensor_of(program, op->inputs[1])->dtype),
                shape.data, model_dtype_name(result->dtype));
    }
}

/* "encoder/layers_1/…" and "encoder/encoder/…" (scanned) are "encoder/layers/…" here. */
static const char *our_path(struct base_arena *arena, const char *path)
{
    const char *slash = strchr(path, '/');
    if (!slash) return path;
    size_t stack = (size_t)(slash - path);
    const char *rest = slash + 1, *next = strchr(rest, '/');
    bool layer = !strncmp(rest, "layers_", strlen("layers_")),
         scanned = !strncmp(rest, path, stack) && rest[stack] == '/';
    return next && (layer || scanned) ? base_print(arena, "%.*s/layers%s", (int)stack, path, next) : path;
}

static const struct base_json *cell(const struct base_json *row, int column)
{
    const struct base_json *at = row->child;
    while (at && column-- > 0) at = at->next;
    assert_non_null(at);
    return at;
}

static bool has_number(const struct base_json *list, int number)
{
    for (const struct base_json *at = list->child; at; at = at->next)
        if ((int)at->number == number) return true;
    return false;
}

static const char *their_operand(struct base_arena *arena, const struct base_json *row, int column, int side)
{
    char shape[40];
    struct operand operand = {.count = 0};
    snprintf(shape, sizeof shape, "%s", cell(row, column)->string);
    for (char *word = strtok(shape, " "); word; word = strtok(NULL, " "), operand.count++) {
        bool contracted = has_number(cell(cell(row, 6), side), operand.count),
             batch = has_number(cell(cell(row, 7), side), operand.count);
        snprintf(operand.words[operand.count], sizeof operand.words[0], "%s%s", word,
                 contracted ? ".c"
                 : batch    ? ".b"
                            : ".f");
    }
    return operand_text(arena, &operand);
}

/* A row that stood before is the same module called again on constants (T5's shared relative positions): once suffices.
 */
static bool stood_before(const struct base_json *rows, const struct base_json *row)
{
    for (const struct base_json *at = rows->child; at != row; at = at->next)
        if (!strcmp(cell(at, 0)->string, cell(row, 0)->string) && !strcmp(cell(at, 2)->string, cell(row, 2)->string) &&
            !strcmp(cell(at, 4)->string, cell(row, 4)->string))
            return true;
    return false;
}

static void their_dots(struct base_arena *arena, const struct base_json *rows, struct dots *out)
{
    for (const struct base_json *row = rows->child; row; row = row->next) {
        if (stood_before(rows, row)) continue;
        add_dot(out, our_path(arena, cell(row, 0)->string), (int)cell(row, 1)->number, their_operand(arena, row, 2, 0),
                cell(row, 3)->string, their_operand(arena, row, 4, 1), cell(row, 5)->string, cell(row, 8)->string,
                cell(row, 9)->string);
    }
}

static void program_contracts_as_t5x_does(struct base_arena *arena)
{
    const struct base_json *document = test_read_json(arena, "einsums.json");
    int example_count = 0;
    for (const struct base_json *example = base_json_get(document, "examples")->child; example;
         example = example->next, example_count++) {
        const char *model = base_json_get(example, "model")->string;
        struct model_config config = configure(arena, model);
        struct model_program program =
            build(arena, model, (struct model_options){.step = MODEL_STEP_FORWARD, .dtype = MODEL_BFLOAT16});
        struct dots *ours = base_new(arena, struct dots, 1), *theirs = base_new(arena, struct dots, 1);
        their_dots(arena, base_json_get(example, "dots"), theirs);
        our_dots(arena, &program, 0, &config, 1, config.logits_via_embedding, ours);
        for (int i = 0; i < ours->count && i < theirs->count; i++) {
            TEST_ROW("%s: contraction %d", model, i);
            assert_string_equal(ours->lines[i], theirs->lines[i]);
        }
        assert_int_equal(ours->count, theirs->count);
    }
    assert_int_equal(example_count, 5);
}

/* ---- definitions and uses ---- */

struct definitions {
    const struct model_program *program;
    bool *defined, *finished; /* tensors; blocks whose loop has ended */
    enum model_size *trips;   /* of the loop around each block */
};

/* A use is right in the block of the definition, inside it, or, for what the backward pass reads of the forward one,
 * in a loop of as many iterations after the defining loop. */
static void check_use(const struct definitions *d, int tensor, int block)
{
    const struct model_tensor *t = tensor_of(d->program, tensor);
    if (t->block < 0) return;
    if (!d->defined[tensor]) fail_msg("%s is used before it is made", t->name);
    for (int at = block; at >= 0; at = d->program->blocks[at].parent)
        if (at == t->block) return;
    if (!d->finished[t->block] || d->trips[t->block] != d->trips[block])
        fail_msg("%s is used out of its loop", t->name);
}

static void define(const struct definitions *d, int tensor, int block)
{
    const struct model_tensor *t = tensor_of(d->program, tensor);
    if (d->defined[tensor]) fail_msg("%s is made twice", t->name);
    if (t->block != block) fail_msg("%s says that block %d makes it; block %d does", t->name, t->block, block);
    d->defined[tensor] = true;
}

static void check_definitions_in(struct definitions *d, int block);

static void check_loop(struct definitions *d, const struct model_op *loop, int block)
{
    for (int c = 0; c < loop->carry_count; c++) check_use(d, loop->carries[c].init, block);
    for (int c = 0; c < loop->carry_count; c++) define(d, loop->carries[c].in, loop->body);
    d->trips[loop->body] = loop->trips;
    check_definitions_in(d, loop->body);
    for (int c = 0; c < loop->carry_count; c++) check_use(d, loop->carries[c].out, loop->body);
    d->finished[loop->body] = true;
    for (int c = 0; c < loop->carry_count; c++) define(d, loop->carries[c].result, block);
}

static void check_definitions_in(struct definitions *d, int block)
{
    const struct model_block *b = &d->program->blocks[block];
    for (int i = 0; i < b->op_count; i++) {
        const struct model_op *op = &b->ops[i];
        if (op->kind == MODEL_LOOP) {
            assert_int_equal(d->program->blocks[op->body].parent, block);
            check_loop(d, op, block);
            continue;
        }
        for (int j = 0; j < op->input_count; j++) check_use(d, op->inputs[j], block);
        for (int j = 0; j < op->output_count; j++) {
            if (op->kind == MODEL_UPDATE) assert_int_equal(op->outputs[j], op->inputs[j]); /* in place */
            else define(d, op->outputs[j], block);
        }
    }
}

static void check_definitions(struct base_arena *arena, const struct variant *variant,
                              const struct model_program *program)
{
    (void)variant;
    struct definitions d = {program, base_new(arena, bool, program->tensor_count),
                            base_new(arena, bool, program->block_count),
                            base_new(arena, enum model_size, program->block_count)};
    check_definitions_in(&d, 0);
    for (int i = 0; i < program->tensor_count; i++)
        if (tensor_of(program, i)->block >= 0 && !d.defined[i]) fail_msg("%s is never made", name_of(program, i));
    for (int i = 0; i < program->block_count; i++)
        if (i && !d.finished[i]) fail_msg("nothing runs the block %s", program->blocks[i].name);
}

static void program_defines_before_use(struct base_arena *arena)
{
    for_all_programs(arena, check_definitions);
}

/* ---- labels ---- */

/* What a letter stands for, as the program's own tensors say. */
static void learn_letters(const struct model_program *program, int letters[128])
{
    for (int i = 0; i < 128; i++) letters[i] = -1;
    for (int i = 0; i < program->tensor_count; i++) {
        const struct model_tensor *t = tensor_of(program, i);
        assert_int_equal(strlen(t->labels), t->rank);
        for (int d = 0; d < t->rank; d++) {
            int *known = &letters[(unsigned char)t->labels[d]];
            if (*known >= 0 && *known != t->dims[d])
                fail_msg("%s: the letter %c stands for two sizes", t->name, t->labels[d]);
            *known = t->dims[d];
        }
    }
}

static void check_term(const struct model_program *program, const struct model_op *op, int tensor, const char *labels,
                       const int letters[128])
{
    const struct model_tensor *t = tensor_of(program, tensor);
    if ((int)strlen(labels) != t->rank) fail_msg("%s: \"%s\" does not fit %s", op->name, labels, t->name);
    for (int d = 0; d < t->rank; d++) {
        if (letters[(unsigned char)labels[d]] != t->dims[d])
            fail_msg("%s: letter %d of \"%s\" does not fit %s", op->name, d, labels, t->name);
        if (strchr(labels + d + 1, labels[d])) fail_msg("%s: \"%s\" has a letter twice", op->name, labels);
    }
}

static int inputs_with(const struct model_op *op, char letter)
{
    int count = 0;
    for (int i = 0; i < op->input_count; i++) count += has_letter(op->input_labels[i], letter);
    return count;
}

/* Every letter of the result comes from an input, unless the operation makes it; contracted letters are in both
 * operands; elementwise operations drop nothing. */
static void check_letters(const struct model_op *op)
{
    bool creates =
        op->input_count == 0 || op->function == MODEL_ONE_HOT || op->kind == MODEL_RESHAPE || op->kind == MODEL_SLICE;
    for (const char *at = op->output_labels; *at; at++)
        if (!creates && op->kind != MODEL_UPDATE && !inputs_with(op, *at))
            fail_msg("%s: nothing gives %c", op->name, *at);
    for (int i = 0; i < op->input_count; i++)
        for (const char *at = op->input_labels[i]; *at; at++) {
            if (op->kind == MODEL_MAP && !has_letter(op->output_labels, *at))
                fail_msg("%s: an elementwise operation drops %c", op->name, *at);
            if (op->kind == MODEL_EINSUM && !has_letter(op->output_labels, *at) && inputs_with(op, *at) != 2)
                fail_msg("%s: %c is summed over in one operand alone", op->name, *at);
        }
}

static void check_labels(struct base_arena *arena, const struct variant *variant, const struct model_program *program)
{
    (void)arena, (void)variant;
    int letters[128];
    learn_letters(program, letters);
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b].op_count; i++) {
            const struct model_op *op = &program->blocks[b].ops[i];
            if (op->kind == MODEL_LOOP) continue;
            assert_true(op->kind != MODEL_EINSUM || (op->input_count == 2 && op->output_count == 1));
            for (int j = 0; j < op->input_count; j++)
                check_term(program, op, op->inputs[j], op->input_labels[j], letters);
            if (op->output_count) check_term(program, op, op->outputs[0], op->output_labels, letters);
            check_letters(op);
        }
}

static void program_labels_fit_tensors(struct base_arena *arena)
{
    for_all_programs(arena, check_labels);
}

/* ---- transposes ---- */

static bool is_one_hot(const struct model_program *program, int tensor)
{
    const struct model_op *made = producer_of(program, tensor);
    return made && (made->function == MODEL_ONE_HOT || made->function == MODEL_RELPOS_ONE_HOT);
}

/* Contractions of the backward pass that make the gradient of one operand of a forward contraction. */
static int count_transposes(const struct model_program *program, const struct model_op *of, int input)
{
    int count = 0;
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b].op_count; i++) {
            const struct model_op *op = &program->blocks[b].ops[i];
            if (op->kind != MODEL_EINSUM || op->phase != MODEL_BACKWARD) continue;
            bool labels = !strcmp(op->input_labels[0], of->output_labels) &&
                          !strcmp(op->input_labels[1], of->input_labels[1 - input]) &&
                          !strcmp(op->output_labels, of->input_labels[input]);
            bool operands = tensor_of(program, op->outputs[0])->like == of->inputs[input] &&
                            !strcmp(name_of(program, op->inputs[1]), name_of(program, of->inputs[1 - input]));
            count += labels && operands && op->needed == of->needed &&
                     tensor_of(program, op->outputs[0])->dtype == tensor_of(program, of->inputs[input])->dtype;
        }
    return count;
}

static int count_einsums(const struct model_program *program, enum model_phase phase)
{
    int count = 0;
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b].op_count; i++)
            count += program->blocks[b].ops[i].kind == MODEL_EINSUM && program->blocks[b].ops[i].phase == phase;
    return count;
}

static int check_transposes(const struct model_program *program)
{
    int expected = 0;
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b].op_count; i++) {
            const struct model_op *op = &program->blocks[b].ops[i];
            if (op->kind != MODEL_EINSUM || op->phase != MODEL_FORWARD) continue;
            for (int j = 0; j < op->input_count; j++) {
                int wanted = !is_one_hot(program, op->inputs[j]);
                TEST_ROW("%s, operand %d", op->name, j);
                assert_int_equal(count_transposes(program, op, j), wanted);
                expected += wanted;
            }
        }
    return expected;
}

/* Nothing is recomputed where all is saved, so the transposes are all that the backward pass contracts. */
static void program_transposes_every_contraction_once(struct base_arena *arena)
{
    for (int m = 0; m < BASE_COUNT(architectures); m++)
        for (int microbatches = 0; microbatches < 2; microbatches++) {
            struct model_program program =
                build(arena, architectures[m],
                      (struct model_options){
                          .step = MODEL_STEP_TRAIN, .dtype = MODEL_BFLOAT16, .microbatches = microbatches});
            int expected = check_transposes(&program);
            TEST_ROW("%s", architectures[m]);
            assert_int_equal(count_einsums(&program, MODEL_BACKWARD), expected);
            assert_int_equal(count_einsums(&program, MODEL_OPTIMIZER), 0);
        }
}

/* Contractions of one encoder and one decoder layer that a policy recomputes. The last one of a layer, wo, only feeds
 * the next layer's input, which is saved. */
static void program_recomputes_what_the_policy_drops(struct base_arena *arena)
{
    static const struct {
        enum model_remat remat;
        int again;
    } rows[] = {
        {MODEL_REMAT_NONE, 0},
        {MODEL_REMAT_SELECTIVE, 3}, /* scores of three attentions */
        {MODEL_REMAT_MINIMAL, 6},   /* scores and contexts */
        {MODEL_REMAT_FULL, 24},     /* all of the 10 and the 16 but wo */
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_program saved =
            build(arena, SCALABLE, (struct model_options){.step = MODEL_STEP_GRADIENT, .dtype = MODEL_BFLOAT16});
        struct model_program program =
            build(arena, SCALABLE,
                  (struct model_options){.step = MODEL_STEP_GRADIENT, .dtype = MODEL_BFLOAT16, .remat = rows[i].remat});
        TEST_ROW("policy %d", (int)rows[i].remat);
        assert_int_equal(count_einsums(&program, MODEL_FORWARD), count_einsums(&saved, MODEL_FORWARD));
        assert_int_equal(count_einsums(&program, MODEL_BACKWARD) - count_einsums(&saved, MODEL_BACKWARD),
                         rows[i].again);
    }
}

/* ---- what is saved ---- */

static bool inside(const struct model_program *program, int block, int outer)
{
    for (; block >= 0; block = program->blocks[block].parent)
        if (block == outer) return true;
    return false;
}

/* Names, shapes and dtypes of what a loop over layers makes and a later loop reads, in the order in which it is made.
 */
static const char *saved_by(struct base_arena *arena, const struct model_program *program, const char *loop)
{
    struct base_text text = {.arena = arena};
    int block = 0;
    while (strcmp(program->blocks[block].name, loop) != 0) block++;
    base_put(&text, "");
    for (int i = 0; i < program->tensor_count; i++) {
        const struct model_tensor *t = tensor_of(program, i);
        bool saved = false;
        for (int b = 0; t->block == block && b < program->block_count; b++)
            for (int o = 0; !inside(program, b, block) && o < program->blocks[b].op_count; o++)
                for (int j = 0; j < program->blocks[b].ops[o].input_count; j++)
                    saved = saved || program->blocks[b].ops[o].inputs[j] == i;
        if (!saved || t->role == MODEL_ROLE_WEIGHT) continue;
        base_putf(&text, "%s%s %s", text.length ? ", " : "", t->name + strlen(loop) + 1, model_dtype_name(t->dtype));
    }
    return text.data;
}

/* T5X's lists. In place of an attention's output the sum with the residual stream is saved, which is as large. */
static void program_keeps_what_the_policy_says(struct base_arena *arena)
{
    static const struct {
        const char *model;
        enum model_remat remat;
        const char *loop, *saved;
    } rows[] = {
        {SCALABLE, MODEL_REMAT_FULL, "encoder/layers", "input bfloat16"},
        {SCALABLE, MODEL_REMAT_FULL, "decoder/layers", "input bfloat16"},
        {SCALABLE, MODEL_REMAT_MINIMAL, "encoder/layers",
         "input bfloat16, relpos_bias bfloat16, attention/query bfloat16, attention/key bfloat16, attention/value "
         "bfloat16, self_attention residual bfloat16, "
         "mlp/wi_0 bfloat16, mlp/wi_1 bfloat16"},
        {SCALABLE, MODEL_REMAT_MINIMAL, "decoder/layers",
         "input bfloat16, relpos_bias bfloat16, self_attention/query bfloat16, self_attention/key bfloat16, "
         "self_attention/value bfloat16, self_attention residual bfloat16, "
         "encoder_decoder_attention/query bfloat16, encoder_decoder_attention/key bfloat16, "
         "encoder_decoder_attention/value bfloat16, "
         "encoder_decoder_attention residual bfloat16, mlp/wi_0 bfloat16, mlp/wi_1 bfloat16"},
        {SCALABLE, MODEL_REMAT_SELECTIVE, "encoder/layers",
         "relpos_bias bfloat16, pre_attention_layer_norm float32 float32, pre_attention_layer_norm mean_square "
         "float32, attention/query bfloat16, attention/key bfloat16, "
         "attention/value bfloat16, attention/context bfloat16, pre_mlp_layer_norm float32 float32, pre_mlp_layer_norm "
         "mean_square float32, mlp/wi_0 bfloat16, mlp/wi_1 bfloat16"},
        {SCALABLE, MODEL_REMAT_NONE, "encoder/layers",
         "pre_attention_layer_norm float32 float32, pre_attention_layer_norm mean_square float32, "
         "pre_attention_layer_norm bfloat16, attention/query bfloat16, "
         "attention/key bfloat16, attention/value bfloat16, attention/softmax bfloat16, attention/context bfloat16, "
         "pre_mlp_layer_norm float32 float32, "
         "pre_mlp_layer_norm mean_square float32, pre_mlp_layer_norm bfloat16, mlp/wi_0 bfloat16, mlp/wi_1 bfloat16, "
         "mlp/activation bfloat16"},
        {DECODER_ONLY, MODEL_REMAT_NONE, "decoder/layers",
         "pre_self_attention_layer_norm float32 float32, pre_self_attention_layer_norm mean_square float32, "
         "self_attention/query bfloat16, self_attention/key bfloat16, "
         "self_attention/value bfloat16, self_attention/softmax bfloat16, self_attention/context bfloat16, "
         "pre_mlp_layer_norm float32 float32, "
         "pre_mlp_layer_norm mean_square float32, mlp/wi bfloat16"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_program program =
            build(arena, rows[i].model,
                  (struct model_options){.step = MODEL_STEP_GRADIENT, .dtype = MODEL_BFLOAT16, .remat = rows[i].remat});
        TEST_ROW("%s of %.60s: policy %d", rows[i].loop, rows[i].model, (int)rows[i].remat);
        assert_string_equal(saved_by(arena, &program, rows[i].loop), rows[i].saved);
    }
}

/* ---- updates ---- */

static bool updates_parameter(const struct model_op *op)
{
    return op->function == MODEL_SGD_UPDATE || op->function == MODEL_ADAMW_UPDATE ||
           op->function == MODEL_ADAFACTOR_UPDATE;
}

/* Every parameter is updated once in a training step, and in no other; where nothing needs all gradients at once (no
 * microbatches, layers not stacked), in the block that makes the gradient. */
static void check_updates(struct base_arena *arena, const struct variant *variant, const struct model_program *program)
{
    struct model_config config = configure(arena, variant->model);
    const struct model_options *options = &variant->options;
    bool trains = options->step == MODEL_STEP_TRAIN, at_once = !options->microbatches && !config.scan_layers;
    int *updates = base_new(arena, int, program->tensor_count);
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b].op_count; i++) {
            const struct model_op *op = &program->blocks[b].ops[i];
            if (!updates_parameter(op)) continue;
            updates[op->outputs[0]]++;
            for (int j = 0; at_once && j < op->input_count; j++) {
                const struct model_tensor *input = tensor_of(program, op->inputs[j]);
                if (input->category == MODEL_GRADIENT) assert_int_equal(input->block, b);
            }
        }
    for (int i = 0; i < program->tensor_count; i++)
        if (tensor_of(program, i)->category == MODEL_PARAMETER) assert_int_equal(updates[i], trains);
}

static void program_updates_every_parameter_once(struct base_arena *arena)
{
    for_all_programs(arena, check_updates);
}

/* ---- FLOP ---- */

static double product_of_labels(const struct model_program *program, const struct model_op *op, const int64_t *sizes)
{
    double product = 1;
    char seen[4 * MODEL_MAX_RANK + 1] = "";
    for (int i = 0; i < op->input_count; i++)
        for (int d = 0; op->input_labels[i][d]; d++) {
            char letter = op->input_labels[i][d];
            if (strchr(seen, letter)) continue;
            strncat(seen, &letter, 1);
            product *= (double)sizes[tensor_of(program, op->inputs[i])->dims[d]];
        }
    return product;
}

static double needed_flop(const struct model_program *program, int block, const int64_t *sizes)
{
    double sum = 0;
    for (int i = 0; i < program->blocks[block].op_count; i++) {
        const struct model_op *op = &program->blocks[block].ops[i];
        if (op->kind == MODEL_LOOP) sum += (double)sizes[op->trips] * needed_flop(program, op->body, sizes);
        if (op->kind == MODEL_EINSUM && op->needed) sum += 2 * product_of_labels(program, op, sizes);
    }
    return sum;
}

/* Two FLOP a parameter of the kernels a token passes, four a key and query and head dimension; twice more backward. */
static double closed_flop(const struct model_config *c, double batch, double inputs, double targets)
{
    double queries = (double)(c->num_heads * c->head_dim), keys = (double)(c->num_kv_heads * c->head_dim),
           embed = (double)c->emb_dim;
    double mlp = (c->mlp_activation_count + 1) * embed * (double)c->mlp_dim,
           attention = 2 * embed * queries + 2 * embed * keys;
    double encoder = (double)c->num_encoder_layers, decoder = (double)c->num_decoder_layers;
    double per_input = encoder * (attention + mlp) + (c->encoder ? decoder * 2 * embed * keys : 0);
    double per_target =
        decoder * (attention + mlp + (c->encoder ? 2 * embed * queries : 0)) + embed * (double)c->vocab_size;
    double core =
        2 * queries *
        (encoder * inputs * inputs + decoder * targets * targets + (c->encoder ? decoder * inputs * targets : 0));
    return 3 * 2 * batch * (inputs * per_input + targets * per_target + core);
}

static void program_counts_the_flop_that_a_model_needs(struct base_arena *arena)
{
    static const char *const models[] = {
        "t5_1_1_base",       "t5_1_0_11B",         "mt5_xl",        "byt5_large", "scalable_t5_1_1_xl",
        "scalable_umt5_xxl", "decoder_only_large", ENCODER_DECODER, GROUPED,      SCALABLE_DECODER};
    static const struct {
        int64_t batch, microbatches, inputs, targets;
    } plans[] = {{16, 1, 512, 114}, {96, 8, 100, 700}};
    for (int m = 0; m < BASE_COUNT(models); m++)
        for (int p = 0; p < BASE_COUNT(plans); p++)
            for (int remat = MODEL_REMAT_NONE; remat <= MODEL_REMAT_FULL; remat++) {
                struct model_config config = configure(arena, models[m]);
                struct model_program program = build(arena, models[m],
                                                     (struct model_options){.dtype = MODEL_BFLOAT16,
                                                                            .remat = (enum model_remat)remat,
                                                                            .microbatches = plans[p].microbatches > 1});
                int64_t sizes[MODEL_SIZE_COUNT];
                TEST_ROW("%s, %d microbatches, remat %d", models[m], (int)plans[p].microbatches, remat);
                model_sizes(&config, plans[p].batch, plans[p].microbatches, plans[p].inputs, plans[p].targets, sizes);
                assert_near(
                    needed_flop(&program, 0, sizes),
                    closed_flop(&config, (double)plans[p].batch, (double)plans[p].inputs, (double)plans[p].targets),
                    1e-12);
            }
}

/* Six FLOP a parameter and token is the rule of thumb; attention's core comes on top. */
static void program_flop_is_near_six_a_parameter(struct base_arena *arena)
{
    struct model_config config = configure(
        arena, "decoder_only:emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=16384,num_layers=32,vocab_size=32000");
    struct model_program program =
        build(arena, "decoder_only:emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=16384,num_layers=32,vocab_size=32000",
              (struct model_options){.dtype = MODEL_BFLOAT16});
    int64_t sizes[MODEL_SIZE_COUNT];
    double parameters = 32.0 * (4 * 4096.0 * 4096 + 2 * 4096.0 * 16384) + 4096.0 * 32000;
    model_sizes(&config, 8, 1, 1, 128, sizes);
    assert_near(needed_flop(&program, 0, sizes), 6 * parameters * 8 * 128, 0.01);
}

/* ---- size ---- */

static int count_ops(const struct model_program *program)
{
    int count = 0;
    for (int b = 0; b < program->block_count; b++) count += program->blocks[b].op_count;
    return count;
}

static void program_does_not_grow_with_layers(struct base_arena *arena)
{
    static const char *const architectures_of_layers[] = {"", "scalable_"};
    for (int i = 0; i < BASE_COUNT(architectures_of_layers); i++)
        for (int microbatches = 0; microbatches < 2; microbatches++) {
            struct model_options options = {.dtype = MODEL_BFLOAT16, .microbatches = microbatches};
            struct model_program programs[2];
            for (int large = 0; large < 2; large++)
                programs[large] = build(
                    arena,
                    base_print(arena, "%sencoder_decoder:" INLINE_SIZES ",num_encoder_layers=%d,num_decoder_layers=%d",
                               architectures_of_layers[i], large ? 96 : 1, large ? 48 : 2),
                    options);
            TEST_ROW("%sencoder_decoder, microbatches %d", architectures_of_layers[i], microbatches);
            assert_int_equal(count_ops(&programs[1]), count_ops(&programs[0]));
            assert_int_equal(programs[1].tensor_count, programs[0].tensor_count);
            assert_int_equal(programs[1].block_count, programs[0].block_count);
        }
}

/* Also of gradients and of what is recomputed: sections are where names are of these modules. */
static void program_tells_sections_apart(struct base_arena *arena)
{
    static const struct {
        const char *in;
        enum model_section section;
    } rows[] = {{"self_attention", MODEL_BESIDE_MLP},
                {"/pre_mlp_layer_norm", MODEL_BESIDE_MLP},
                {"/mlp/expert/returned", MODEL_OF_RETURN},
                {"/mlp/", MODEL_OF_MLP}};
    const struct model_options options = {
        .step = MODEL_STEP_TRAIN, .remat = MODEL_REMAT_FULL, .optimizer = MODEL_ADAMW, .sorts_tokens = true};
    const struct model_program program =
        build(arena, DECODER_ONLY ",num_experts=4,num_selected_experts=2,moe_every=1", options);
    int seen[BASE_COUNT(rows)][MODEL_OPTIMIZER + 1] = {{0}};
    for (int b = 0; b < program.block_count; b++)
        for (int i = 0; i < program.blocks[b].op_count; i++) {
            const struct model_op *op = &program.blocks[b].ops[i];
            for (int r = 0; op->phase != MODEL_OPTIMIZER && r < BASE_COUNT(rows); r++) {
                if (!strstr(op->name, rows[r].in)) continue;
                TEST_ROW("%s", op->name);
                assert_int_equal(op->section, rows[r].section);
                seen[r][op->phase]++;
                break;
            }
        }
    test_row[0] = '\0';
    for (int r = 0; r < BASE_COUNT(rows); r++) assert_true(seen[r][MODEL_FORWARD] > 0 && seen[r][MODEL_BACKWARD] > 0);
}

static const struct test tests[] = {
    TEST(program_contracts_as_t5x_does),
    TEST(program_defines_before_use),
    TEST(program_labels_fit_tensors),
    TEST(program_transposes_every_contraction_once),
    TEST(program_recomputes_what_the_policy_drops),
    TEST(program_keeps_what_the_policy_says),
    TEST(program_updates_every_parameter_once),
    TEST(program_counts_the_flop_that_a_model_needs),
    TEST(program_flop_is_near_six_a_parameter),
    TEST(program_does_not_grow_with_layers),
    TEST(program_tells_sections_apart),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
