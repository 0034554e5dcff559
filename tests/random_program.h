/* Random programs for tests/test_sharded.c: contractions, elementwise operations that broadcast, reductions, softmax
 * and norms, reshapes that split and join, repeated heads, lookups and their scatters, in and around loops over layers,
 * forward and backward; any tensor may be constrained to any sharding, evenly or not. */
#ifndef RANDOM_PROGRAM_H
#define RANDOM_PROGRAM_H

#include "model/builder.h"
#include "sim/partition/sharding_tiles.h"
#include "tests/test.h"

/* ---- recipes ---- */

enum { MOST_AXES = 4 };
static const char *const axis_names[MOST_AXES] = {"data", "model", "fsdp", "expert"};

/* What a program is made from; one that fails is made simpler for as long as it fails. */
struct recipe {
    uint64_t seed;
    int op_count;     /* of them some cannot be made, and some make several */
    int loop_count;   /* 0, 1: a loop over layers behind the first half, 2: and a backward loop, which reads what the
                         first left */
    uint64_t dropped; /* bit i: the i-th sharding is not asked for */
    int axis_count, mesh[MOST_AXES]; /* devices along each mesh axis */
};

enum { MOST_TENSORS = 256, MOST_ELEMENTS = 20000, MOST_LETTERS = 5 };

struct draft {
    struct base_arena *arena;
    struct builder builder;
    struct model_program program;
    const struct recipe *recipe;
    struct base_random random;
    int64_t sizes[MODEL_SIZE_COUNT];
    int asked_count;
    int pool[MOST_TENSORS], pool_count; /* what operations may read */
};

static int64_t below(struct draft *d, int64_t bound)
{
    return base_random_below(&d->random, bound);
}

static bool chance(struct draft *d, int percent)
{
    return below(d, 100) < percent;
}

static const char *letters_of(const struct draft *d, int tensor)
{
    return d->program.tensors[tensor].labels;
}

static bool has(const char *letters, char letter)
{
    return letter && strchr(letters, letter);
}

/* Behind the seed of the whole a number for each part: what is left out of one changes nothing in the others. */
static void reseed(struct draft *d, int part)
{
    base_random_seed(&d->random, d->recipe->seed * 1000 + (uint64_t)part);
}

/* ---- sizes ---- */

static const struct {
    char letter;
    enum model_size size;
} letters[] = {
    {'b', MODEL_BATCH},    {'l', MODEL_INPUTS_LENGTH}, {'t', MODEL_TARGETS_LENGTH},  {'e', MODEL_EMBED},
    {'f', MODEL_MLP},      {'v', MODEL_VOCAB},         {'h', MODEL_HEADS},           {'g', MODEL_KV_HEADS},
    {'d', MODEL_HEAD_DIM}, {'j', MODEL_JOINED_KV},     {'i', MODEL_JOINED_KV_HEADS},
};

static int64_t extent_of(const struct draft *d, char letter)
{
    for (int i = 0; i < BASE_COUNT(letters); i++)
        if (letters[i].letter == letter) return d->sizes[letters[i].size];
    fail_msg("no letter %c", letter);
    return 0;
}

static bool is_small(const struct draft *d, const char *text)
{
    int64_t elements = 1;
    for (const char *at = text; *at; at++) elements *= extent_of(d, *at);
    return elements <= MOST_ELEMENTS && strlen(text) <= MOST_LETTERS;
}

static void choose_sizes(struct draft *d)
{
    static const int extents[] = {2, 3, 4, 5, 6, 7, 8, 12};
    for (int i = 0; i < BASE_COUNT(letters); i++) d->sizes[letters[i].size] = extents[below(d, BASE_COUNT(extents))];
    int64_t kv_heads = 1 + below(d, 4), head_dim = 2 + below(d, 3), heads = kv_heads * (1 + below(d, 3));
    d->sizes[MODEL_ONE] = d->sizes[MODEL_MICROBATCHES] = 1;
    d->sizes[MODEL_GLOBAL_BATCH] = d->sizes[MODEL_BATCH];
    d->sizes[MODEL_HEADS] = heads, d->sizes[MODEL_KV_HEADS] = kv_heads, d->sizes[MODEL_HEAD_DIM] = head_dim;
    d->sizes[MODEL_JOINED_KV] = heads * head_dim, d->sizes[MODEL_JOINED_KV_HEADS] = kv_heads * head_dim;
    d->sizes[MODEL_DECODER_LAYERS] = 1 + below(d, 3);
    d->sizes[MODEL_LATER_DECODER_LAYERS] = d->sizes[MODEL_DECODER_LAYERS] - 1;
    d->sizes[MODEL_SECOND_DECODER_LAYER] = d->sizes[MODEL_DECODER_LAYERS] > 1;
}

/* ---- shardings ---- */

static inline struct topo_axes mesh_of(const struct recipe *recipe)
{
    struct topo_axes mesh = {.count = recipe->axis_count};
    for (int i = 0; i < mesh.count; i++) mesh.names[i] = axis_names[i], mesh.sizes[i] = recipe->mesh[i];
    return mesh;
}

/* Names that say a set of mesh axes outright (S5), and T5X's own, for whoever has no others, sharded at random. */
static inline struct model_rules choose_rules(struct draft *d)
{
    static const char *const axes[] = {"batch", "length", "embed", "heads", "kv", "joined_kv", "mlp", "vocab"};
    struct base_text text = {.arena = d->arena};
    struct model_rules rules;
    struct base_error error;
    const int count = d->recipe->axis_count;
    for (int set = 1; set < 1 << count; set++) {
        base_putf(&text, "%s[\"S%d\",[", set == 1 ? "[" : ",", set);
        for (int a = 0, first = 1; a < count; a++)
            if (set >> a & 1) base_putf(&text, "%s\"%s\"", first ? "" : ",", axis_names[a]), first = 0;
        base_put(&text, "]]");
    }
    for (int i = 0; i < BASE_COUNT(axes); i++) {
        int64_t choice = below(d, 2 * count);
        if (choice < count) base_putf(&text, ",[\"%s\",\"%s\"]", axes[i], axis_names[choice]);
    }
    base_put(&text, "]");
    assert_ok(model_rules_parse(d->arena, text.data, &rules, &error), &error);
    return rules;
}

/* Asks for any sharding; of arguments only for what divides, as JAX demands. */
static void ask(struct draft *d, int tensor)
{
    struct model_tensor *t = &d->program.tensors[tensor];
    const char **names = base_new(d->arena, const char *, MODEL_MAX_RANK);
    bool persistent = t->block < 0, dropped = d->recipe->dropped >> d->asked_count++ % 64 & 1;
    const struct topo_axes mesh = mesh_of(d->recipe);
    unsigned sets[MODEL_MAX_RANK] = {0};
    for (int axis = 0; axis < mesh.count; axis++) {
        int dim = (int)below(d, t->rank + 1) - 1;
        if (dim < 0 || dropped) continue;
        unsigned set = sets[dim] | 1u << axis;
        if (persistent && d->sizes[t->dims[dim]] % topo_axes_product(&mesh, set) != 0) continue;
        sets[dim] = set;
        names[dim] = base_print(d->arena, "S%u", set);
    }
    if (persistent || !dropped) t->given_axes = names;
    t->constrained = !persistent && !dropped;
}

/* ---- tensors and operations ---- */

static int given(struct draft *d, const char *text, enum model_category category)
{
    const char *name = base_print(d->arena, "given_%d", d->program.tensor_count);
    enum model_dtype dtype = category == MODEL_INPUT ? MODEL_INT32 : MODEL_FLOAT32;
    int tensor = model_builder_tensor(&d->builder, name, text, dtype, category, MODEL_ROLE_WEIGHT);
    ask(d, tensor);
    return tensor;
}

/* "ble,ef->blf"; the result may be constrained. */
static int apply(struct draft *d, enum model_op_kind kind, enum model_function function, const char *equation,
                 const int *inputs)
{
    const char *name = base_print(d->arena, "made_%d", d->program.tensor_count);
    int tensor = model_builder_apply(&d->builder, kind, function, name, equation, NULL, MODEL_FLOAT32,
                                     MODEL_ROLE_PROJECTION, inputs);
    if (chance(d, 35)) ask(d, tensor);
    return tensor;
}
#define APPLY(d, kind, function, equation, ...) apply((d), (kind), (function), (equation), (int[]){__VA_ARGS__})

static int offer(struct draft *d, int tensor)
{
    assert_in_range(d->pool_count, 0, MOST_TENSORS - 1);
    return d->pool[d->pool_count++] = tensor;
}

/* The later ones more often, so that programs are deep. */
static int pick(struct draft *d)
{
    int64_t a = below(d, d->pool_count), b = below(d, d->pool_count);
    return d->pool[a > b ? a : b];
}

/* Whose letters are all among these, and if need be no others; -1: there is none at hand. */
static int pick_among(struct draft *d, const char *text, bool all)
{
    for (int tries = 0; tries < 12; tries++) {
        int tensor = pick(d);
        const char *own = letters_of(d, tensor);
        if (strspn(own, text) == strlen(own) && (!all || strlen(own) == strlen(text))) return tensor;
    }
    return -1;
}

static void shuffle(struct draft *d, char *text)
{
    for (size_t i = strlen(text); i > 1; i--) {
        int64_t other = below(d, (int64_t)i);
        char letter = text[i - 1];
        text[i - 1] = text[other], text[other] = letter;
    }
}

static const char *without_last(struct draft *d, const char *text)
{
    return base_copy_bytes(d->arena, text, strlen(text) - 1);
}

/* Each makes something of what is there and returns it, or -1 if it cannot. */
typedef int make(struct draft *d);

static int make_contraction(struct draft *d)
{
    int a = pick(d), b = pick(d);
    char out[2 * MODEL_MAX_RANK + 1] = "";
    size_t count = 0;
    for (const char *at = letters_of(d, a); *at; at++)
        if (!has(letters_of(d, b), *at) || chance(d, 50)) out[count++] = *at;
    for (const char *at = letters_of(d, b); *at; at++)
        if (!has(letters_of(d, a), *at)) out[count++] = *at;
    if (chance(d, 30)) shuffle(d, out);
    if (!count || !is_small(d, out)) return -1;
    return APPLY(d, MODEL_EINSUM, MODEL_NO_FUNCTION,
                 base_print(d->arena, "%s,%s->%s", letters_of(d, a), letters_of(d, b), out), a, b);
}

static int make_sum_of_two(struct draft *d)
{
    int a = pick(d), b = pick_among(d, letters_of(d, a), false);
    if (b < 0) return -1;
    return APPLY(d, MODEL_MAP, MODEL_ADD,
                 base_print(d->arena, "%s,%s->%s", letters_of(d, a), letters_of(d, b), letters_of(d, a)), a, b);
}

static int make_copy(struct draft *d)
{
    int x = pick(d);
    return APPLY(d, MODEL_MAP, MODEL_CAST, base_print(d->arena, "%s->%s", letters_of(d, x), letters_of(d, x)), x);
}

static int make_reduction(struct draft *d)
{
    int x = pick(d);
    char out[MODEL_MAX_RANK + 1] = "";
    size_t count = 0;
    for (const char *at = letters_of(d, x); *at; at++)
        if (chance(d, 60)) out[count++] = *at;
    if (!count || count == strlen(letters_of(d, x))) return -1;
    return APPLY(d, MODEL_REDUCE, chance(d, 50) ? MODEL_SUM : MODEL_MEAN,
                 base_print(d->arena, "%s->%s", letters_of(d, x), out), x);
}

/* Of one number a row it would be the sign, which rounding decides near zero. */
static int norm_of(struct draft *d, int x)
{
    const char *row = letters_of(d, x);
    if (strlen(row) < 2 || extent_of(d, row[strlen(row) - 1]) < 2) return -1;
    const char *rest = without_last(d, row), *last = row + strlen(rest);
    int square = APPLY(d, MODEL_REDUCE, MODEL_MEAN_SQUARE, base_print(d->arena, "%s->%s", row, rest), x);
    int scale = given(d, last, MODEL_PARAMETER);
    return APPLY(d, MODEL_MAP, MODEL_NORM, base_print(d->arena, "%s,%s,%s->%s", row, rest, last, row), x, square,
                 scale);
}

static int make_norm(struct draft *d)
{
    return norm_of(d, pick(d));
}

/* Of numbers near one: rounding errors of larger ones would be all that it shows. */
static int make_softmax(struct draft *d)
{
    int x = norm_of(d, pick(d));
    if (x < 0) return -1;
    const char *row = letters_of(d, x);
    const char *rest = without_last(d, row);
    int most = APPLY(d, MODEL_REDUCE, MODEL_MAX, base_print(d->arena, "%s->%s", row, rest), x);
    int sum = APPLY(d, MODEL_REDUCE, MODEL_SUM_EXP, base_print(d->arena, "%s,%s->%s", row, rest, rest), x, most);
    return APPLY(d, MODEL_MAP, MODEL_SOFTMAX, base_print(d->arena, "%s,%s,%s->%s", row, rest, rest, row), x, most, sum);
}

static int make_product_sum(struct draft *d)
{
    int a = pick(d), b = pick_among(d, letters_of(d, a), true);
    if (b < 0 || strcmp(letters_of(d, a), letters_of(d, b)) != 0 || strlen(letters_of(d, a)) < 2) return -1;
    const char *row = letters_of(d, a);
    return APPLY(d, MODEL_REDUCE, MODEL_PRODUCT_SUM, base_print(d->arena, "%s,%s->%s", row, row, without_last(d, row)),
                 a, b);
}

/* j is h times d, i is g times d. */
static int make_reshape(struct draft *d)
{
    static const char *const pairs[][2] = {{"j", "hd"}, {"i", "gd"}, {"hd", "j"}, {"gd", "i"}};
    int x = pick(d);
    const char *text = letters_of(d, x);
    for (int p = 0; p < BASE_COUNT(pairs); p++) {
        const char *at = strstr(text, pairs[p][0]), *to = pairs[p][1];
        if (!at || strlen(text) + strlen(to) > MOST_LETTERS + 1) continue;
        const char *rest = base_print(d->arena, "%.*s%s", (int)(at - text), text, at + strlen(pairs[p][0]));
        if (strpbrk(rest, "hgdji")) continue; /* heads stand in a tensor once */
        const char *out = base_print(d->arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(pairs[p][0]));
        return APPLY(d, MODEL_RESHAPE, MODEL_NO_FUNCTION, base_print(d->arena, "%s->%s", text, out), x);
    }
    return -1;
}

/* Keys and values serve several heads; gradients add up over them. */
static int make_repetition(struct draft *d)
{
    int x = pick(d);
    const char *text = letters_of(d, x);
    if (has(text, 'h') == has(text, 'g') || strpbrk(text, "ji")) return -1;
    bool adds = has(text, 'h');
    char *out = base_copy(d->arena, text);
    *strchr(out, adds ? 'h' : 'g') = adds ? 'g' : 'h';
    if (!is_small(d, out)) return -1;
    return APPLY(d, MODEL_RESHAPE, adds ? MODEL_REPEAT_GRAD : MODEL_REPEAT, base_print(d->arena, "%s->%s", text, out),
                 x);
}

/* Tokens look rows of a table up, or what belongs to them is added up by token. */
static int make_lookup(struct draft *d)
{
    int tokens = given(d, "bl", MODEL_INPUT), one_hot = APPLY(d, MODEL_MAP, MODEL_ONE_HOT, "bl->blv", tokens);
    bool scatters = chance(d, 50);
    int table = given(d, scatters ? "ble" : "ve", MODEL_PARAMETER);
    return APPLY(d, MODEL_EINSUM, MODEL_NO_FUNCTION, scatters ? "blv,ble->ve" : "blv,ve->ble", one_hot, table);
}

static int make_operand(struct draft *d)
{
    char text[MODEL_MAX_RANK + 1] = "";
    size_t count = 0, wanted = 1 + (size_t)below(d, 4);
    while (count < wanted) {
        char letter = letters[below(d, BASE_COUNT(letters))].letter;
        if (!has(text, letter)) text[count++] = letter;
    }
    return is_small(d, text) ? given(d, text, MODEL_PARAMETER) : -1;
}

static make *const makes[] = {
    make_contraction, make_contraction, make_contraction, make_sum_of_two,  make_sum_of_two, make_copy,
    make_reduction,   make_softmax,     make_norm,        make_product_sum, make_reshape,    make_reshape,
    make_repetition,  make_lookup,      make_operand,     make_operand,
};

static void make_operations(struct draft *d, int first, int end)
{
    for (int i = first; i < end; i++) {
        reseed(d, 100 + i);
        int tensor = makes[below(d, BASE_COUNT(makes))](d);
        if (tensor >= 0) offer(d, tensor);
    }
}

/* ---- loops ---- */

/* A loop that carries a tensor through operations of its own; parameters made in it are one a layer. What it leaves
 * behind but its result only a backward loop may read. */
static int make_loop(struct draft *d, int init, int first, int end, bool reversed)
{
    int outer = d->builder.block;
    const char *text = letters_of(d, init);
    d->builder.block = model_builder_block(&d->builder, reversed ? "backward" : "forward", outer);
    d->builder.layers = MODEL_DECODER_LAYERS;
    d->builder.phase = reversed ? MODEL_BACKWARD : MODEL_FORWARD;
    int body = d->builder.block;
    int in =
        model_builder_tensor(&d->builder, "carried in", text, MODEL_FLOAT32, MODEL_ACTIVATION, MODEL_ROLE_LAYER_INPUT);
    if (chance(d, 50)) ask(d, in);
    offer(d, in);
    make_operations(d, first, end);
    reseed(d, 50 + reversed);
    int more = pick_among(d, text, false);
    if (more < 0) more = in;
    int out =
        APPLY(d, MODEL_MAP, MODEL_ADD, base_print(d->arena, "%s,%s->%s", text, letters_of(d, more), text), in, more);
    d->builder.block = outer;
    d->builder.layers = MODEL_ONE;
    int result =
        model_builder_tensor(&d->builder, "carried out", text, MODEL_FLOAT32, MODEL_ACTIVATION, MODEL_ROLE_LAYER_INPUT);
    struct model_op *loop =
        model_builder_op(&d->builder, MODEL_LOOP, MODEL_NO_FUNCTION, reversed ? "backward" : "forward");
    loop->body = body;
    loop->trips = MODEL_DECODER_LAYERS;
    loop->reversed = reversed;
    loop->carry_count = 1;
    loop->carries[0] = (struct model_carry){init, in, out, result};
    return result;
}

/* ---- the whole program ---- */

static bool is_read(const struct draft *d, int tensor)
{
    for (int b = 0; b < d->program.block_count; b++)
        for (int i = 0; i < d->program.blocks[b].op_count; i++) {
            const struct model_op *op = &d->program.blocks[b].ops[i];
            for (int j = 0; j < op->input_count; j++)
                if (op->inputs[j] == tensor) return true;
            for (int c = 0; c < op->carry_count; c++)
                if (op->carries[c].init == tensor) return true;
        }
    return false;
}

/* A parameter takes each result in: it is zero and loses what the step computed. */
static void keep_results(struct draft *d)
{
    int count = d->program.tensor_count;
    reseed(d, 60);
    d->builder.phase = MODEL_OPTIMIZER;
    for (int tensor = 0; tensor < count; tensor++) {
        const struct model_tensor *t = &d->program.tensors[tensor];
        if (t->block != 0 || t->dtype != MODEL_FLOAT32 || is_read(d, tensor)) continue;
        const char *name = base_print(d->arena, "result of %s", t->name);
        int result =
            model_builder_tensor(&d->builder, name, t->labels, MODEL_FLOAT32, MODEL_OPTIMIZER_STATE, MODEL_ROLE_WEIGHT);
        ask(d, result);
        struct model_op *op = model_builder_op(&d->builder, MODEL_UPDATE, MODEL_SGD_UPDATE, name);
        model_builder_input(&d->builder, op, result, NULL);
        model_builder_input(&d->builder, op, tensor, NULL);
        model_builder_output(&d->builder, op, result, NULL);
    }
}

static inline struct draft *new_draft(struct base_arena *arena, const struct recipe *recipe)
{
    static const struct model_config config; /* of which operations alone ask nothing */
    struct draft *d = base_new(arena, struct draft, 1);
    d->arena = arena;
    d->recipe = recipe;
    d->program.arena = arena;
    model_builder_dimensions(&d->program);
    d->builder =
        (struct builder){.arena = arena, .program = &d->program, .config = &config, .scope = "", .layers = MODEL_ONE};
    reseed(d, 1);
    choose_sizes(d);
    return d;
}

static inline void make_program(struct draft *d)
{
    const struct recipe *r = d->recipe;
    d->builder.block = model_builder_block(&d->builder, "step", -1);
    reseed(d, 2);
    for (int i = 0; i < 3; i++) {
        int operand = make_operand(d);
        if (operand >= 0) offer(d, operand);
    }
    if (!d->pool_count) offer(d, given(d, "be", MODEL_PARAMETER));
    int first = r->loop_count ? r->op_count / 2 : r->op_count, results[2];
    make_operations(d, 0, first);
    int before = d->pool_count, inits[2] = {pick(d), pick(d)};
    if (r->loop_count) results[0] = make_loop(d, inits[0], first, r->op_count, false);
    if (r->loop_count > 1) results[1] = make_loop(d, inits[1], r->op_count, r->op_count + r->op_count / 2, true);
    d->pool_count = before;
    for (int i = 0; i < r->loop_count; i++) offer(d, results[i]);
    make_operations(d, 300, r->loop_count ? 302 : 300);
    keep_results(d);
}

#endif
