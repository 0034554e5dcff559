/* `partition`: the partitioner's decisions for one operation, and the TPU compiler's cost of its product. */
#include "lab/lab.h"
#include "sim/predict/predict.h"

#include <math.h>
#include <string.h>

enum { LARGEST_EXTENT = 1 << 30, OPERANDS = 2 };

/* ---- reading ---- */

/* named: all axes. Of more than a sharding holds those of one device shard nothing, and are left out of the mesh. */
static enum base_status read_mesh(struct commands_context *context, const char *text, struct topo_axes *named,
                                  struct topo_axes *mesh, struct base_error *error)
{
    if (!text) return base_fail(error, BASE_USAGE, "--mesh is missing: as in --mesh data=2,model=4");
    BASE_TRY(topo_axes_parse(context->arena, text, "mesh", named, error));
    *mesh = *named;
    if (named->count <= SIM_MOST_AXES) return BASE_OK;
    mesh->count = 0;
    for (int i = 0; i < named->count; i++) {
        if (named->sizes[i] == 1) continue;
        mesh->names[mesh->count] = named->names[i];
        mesh->sizes[mesh->count++] = named->sizes[i];
    }
    if (mesh->count <= SIM_MOST_AXES) return BASE_OK;
    return base_fail(error, BASE_INPUT, "--mesh: %d axes of several devices; use up to %d", mesh->count, SIM_MOST_AXES);
}

/* Cuts at a separator; returns what comes after it, or NULL at the end. */
static char *cut(char *text, char separator)
{
    char *at = strchr(text, separator);
    if (!at) return NULL;
    *at = '\0';
    return at + 1;
}

static enum base_status read_shape(const char *text, struct lab_operation *o, int operand, struct base_error *error)
{
    int64_t extents[MODEL_MAX_RANK];
    int count;
    BASE_TRY(base_parse_ints(text, "--shapes", 1, LARGEST_EXTENT, MODEL_MAX_RANK, extents, &count, error));
    if (o->operand_count == 1) o->rank[0] = o->rank[2] = count;
    if (count != o->rank[operand])
        return base_fail(error, BASE_INPUT, "--shapes: operand %d has %d dimensions, its labels are %d", operand, count,
                         o->rank[operand]);
    memcpy(o->shape[operand], extents, (size_t)count * sizeof *extents);
    return BASE_OK;
}

static enum base_status read_shapes(struct commands_context *context, const char *text, struct lab_operation *o,
                                    struct base_error *error)
{
    if (!text) return base_fail(error, BASE_USAGE, "--shapes is missing: as in --shapes '16,32,64;64,128'");
    char *at = base_copy(context->arena, text);
    for (int i = 0; i < o->operand_count; i++) {
        if (!at)
            return base_fail(error, BASE_INPUT, "--shapes: %d shapes are needed, separated by ;", o->operand_count);
        char *next = cut(at, ';');
        BASE_TRY(read_shape(at, o, i, error));
        at = next;
    }
    return at ? base_fail(error, BASE_INPUT, "--shapes: more than %d shapes", o->operand_count) : BASE_OK;
}

/* One more axis of the dimension, if it is one of the mesh. */
static enum base_status read_axis(const struct topo_axes *named, const char *name, const char *what, unsigned *used,
                                  struct lab_operation *o, int operand, int d, struct base_error *error)
{
    int axis = topo_axis_named(named, name);
    if (axis < 0) {
        topo_axis_unknown(named, name, error);
        return base_fail_in(error, "%s", what);
    }
    if (*used >> axis & 1u)
        return base_fail(error, BASE_INPUT, "%s: %s shards one array twice; name it once", what, name);
    *used |= 1u << axis;
    axis = topo_axis_named(&o->mesh, name);
    if (axis >= 0) o->axes[operand][d][o->axis_count[operand][d]++] = (unsigned char)axis;
    return BASE_OK;
}

/* "data,-,data+model" */
static enum base_status read_spec(char *text, const struct topo_axes *named, const char *what, struct lab_operation *o,
                                  int operand, struct base_error *error)
{
    unsigned used = 0;
    int d = 0;
    for (char *next; text; text = next, d++) {
        next = cut(text, ',');
        if (d == o->rank[operand])
            return base_fail(error, BASE_INPUT, "%s: more entries than the array has dimensions, %d", what,
                             o->rank[operand]);
        o->axis_count[operand][d] = 0;
        if (!strcmp(text, "-")) continue;
        for (char *name = text, *rest; name; name = rest) {
            rest = cut(name, '+');
            BASE_TRY(read_axis(named, name, what, &used, o, operand, d, error));
        }
    }
    return d == o->rank[operand]
               ? BASE_OK
               : base_fail(error, BASE_INPUT, "%s: %d entries for %d dimensions", what, d, o->rank[operand]);
}

static enum base_status read_specs(struct commands_context *context, const char *text, const struct topo_axes *named,
                                   struct lab_operation *o, struct base_error *error)
{
    if (!text) return base_fail(error, BASE_USAGE, "--specs is missing: as in --specs 'data,-,-;-,model'");
    char *at = base_copy(context->arena, text);
    for (int i = 0; i < o->operand_count; i++) {
        if (!at) return base_fail(error, BASE_INPUT, "--specs: %d specs are needed, separated by ;", o->operand_count);
        char *next = cut(at, ';');
        BASE_TRY(read_spec(at, named, "--specs", o, i, error));
        at = next;
    }
    return at ? base_fail(error, BASE_INPUT, "--specs: more than %d specs", o->operand_count) : BASE_OK;
}

static enum base_status read_dtypes(struct commands_context *context, const char *text, struct lab_operation *o,
                                    struct base_error *error)
{
    static const enum model_dtype known[] = {MODEL_FLOAT32, MODEL_BFLOAT16, MODEL_FLOAT16,
                                             MODEL_FP8,     MODEL_INT8,     MODEL_INT32};
    bool is_result_given = false;
    for (int i = 0; i < 3; i++) o->dtypes[i] = MODEL_BFLOAT16;
    char *at = text ? base_copy(context->arena, text) : NULL;
    for (int i = 0; at; i++) {
        char *next = cut(at, ',');
        if (i > OPERANDS) return base_fail(error, BASE_INPUT, "--dtypes: more than two operands and a result");
        int k = 0;
        while (k < BASE_COUNT(known) && strcmp(model_dtype_name(known[k]), at) != 0) k++;
        if (k == BASE_COUNT(known))
            return base_fail(error, BASE_INPUT,
                             "--dtypes: \"%.40s\" is unknown; use float32, bfloat16, float16, fp8, int8 and int32", at);
        is_result_given = is_result_given || i == OPERANDS;
        o->dtypes[i] = known[k];
        at = next;
    }
    if (!is_result_given) o->dtypes[OPERANDS] = o->dtypes[0];
    return BASE_OK;
}

/* The surroundings of the product or, as "1" or "0,1", the operands already in vector memory. */
static enum base_status read_fetched(const char *chip, const char *text, struct lab_compiled_product *out,
                                     struct base_error *error)
{
    static const char *const words[] = {"weights", "others", "alone", "none"}; /* enum lab_surroundings */
    int64_t which[OPERANDS];
    int count = 0;
    for (int i = 0; i < BASE_COUNT(words); i++)
        if (!strcmp(text ? text : words[0], words[i]))
            return lab_compiler_fetches(chip, (enum lab_surroundings)i, out, error);
    if (!strchr("01", *text) || !*text)
        return base_fail(error, BASE_INPUT,
                         "--fetched: \"%.40s\" is unknown; use weights, others, alone, none, 0, 1 or 0,1", text);
    BASE_TRY(base_parse_ints(text, "--fetched", 0, OPERANDS - 1, OPERANDS, which, &count, error));
    for (int i = 0; i < count; i++) out->is_fetched[which[i]] = true;
    return BASE_OK;
}

/* ---- the compiler's estimate of the product that every device makes ---- */

/* Of the arrays with the label, the longest extent on one device: others are gathered before, or scattered after. 0:
 * the array lacks it. */
static double extent_of(const struct lab_operation *o, int array, char letter)
{
    const char *at = strchr(o->letters[array], letter);
    return at ? (double)o->local_shape[array][at - o->letters[array]] : 0;
}

static struct sim_product product_of(const struct lab_operation *o)
{
    struct sim_product product = {1, 1, 1, 1};
    for (char letter = 'a'; letter <= 'z'; letter++) {
        const double one = extent_of(o, 0, letter), other = extent_of(o, 1, letter),
                     result = extent_of(o, OPERANDS, letter), most = fmax(fmax(one, other), result);
        if (one > 0 && other > 0 && result > 0) product.batch *= most;
        else if (one > 0 && other > 0) product.contracted *= most;
        else if (one > 0) product.rows *= most;
        else if (other > 0) product.columns *= most;
    }
    return product;
}

/* True if the array's last dimension is the contraction. */
static bool ends_contracted(const struct lab_operation *o, int array)
{
    if (o->rank[array] == 0) return false;
    const char letter = o->letters[array][o->rank[array] - 1];
    return strchr(o->letters[1 - array], letter) && !strchr(o->letters[OPERANDS], letter);
}

static enum base_status estimate(const struct base_arguments *arguments, const struct lab_operation *o,
                                 struct lab_compiler_cycles *out, struct base_error *error)
{
    const char *chip = base_argument(arguments, "--chip");
    struct lab_compiled_product product = {.operands = o->dtypes[0], .result = o->dtypes[OPERANDS]};
    if (!chip && base_argument(arguments, "--fetched"))
        return base_fail(error, BASE_USAGE, "--fetched is of the compiler's estimate: name the --chip, too");
    if (!chip) return BASE_OK;
    if (o->operand_count < OPERANDS)
        return base_fail(error, BASE_INPUT,
                         "--chip: the compiler's cost model prices products, and a reshard has none; leave it out, or "
                         "use `collective` for its time");
    if (o->dtypes[0] != o->dtypes[1])
        return base_fail(error, BASE_INPUT,
                         "--chip: the compiler's cost model is known for operands of one dtype, not of %s and %s; give "
                         "--dtypes %s,%s",
                         model_dtype_name(o->dtypes[0]), model_dtype_name(o->dtypes[1]), model_dtype_name(o->dtypes[0]),
                         model_dtype_name(o->dtypes[0]));
    product.extents = product_of(o);
    product.is_transposed[0] = !ends_contracted(o, 0);
    product.is_transposed[1] = ends_contracted(o, 1);
    BASE_TRY(read_fetched(chip, base_argument(arguments, "--fetched"), &product, error));
    return lab_compiler_product(chip, &product, out, error);
}

/* ---- writing ---- */

static void put_entry(struct base_json_writer *w, const struct lab_operation *o, int operand, int d)
{
    int count = o->axis_count[operand][d];
    if (count == 0) base_json_put_null(w);
    if (count == 1) base_json_put_string(w, o->mesh.names[o->axes[operand][d][0]]);
    if (count < 2) return;
    base_json_open_inline(w, '[');
    for (int i = 0; i < count; i++) base_json_put_string(w, o->mesh.names[o->axes[operand][d][i]]);
    base_json_close(w, ']');
}

static void put_spec(struct base_json_writer *w, const struct lab_operation *o, int operand)
{
    base_json_open_inline(w, '[');
    for (int d = 0; d < o->rank[operand]; d++) put_entry(w, o, operand, d);
    base_json_close(w, ']');
}

static void put_shape(struct base_json_writer *w, const struct lab_operation *o, int operand)
{
    base_json_open_inline(w, '[');
    for (int d = 0; d < o->rank[operand]; d++) base_json_put_int(w, o->local_shape[operand][d]);
    base_json_close(w, ']');
}

static int count_equal(const struct lab_operation *o, int which)
{
    const struct lab_operation_collective *c = &o->collectives[which];
    int count = 0;
    for (int i = 0; i < o->collective_count; i++) {
        const struct lab_operation_collective *d = &o->collectives[i];
        bool same = d->kind == c->kind && d->axes == c->axes && d->dtype == c->dtype && d->bytes == c->bytes;
        if (same && i < which) return 0; /* already printed */
        count += same;
    }
    return count;
}

static void put_estimate(struct base_json_writer *w, const struct lab_compiler_cycles *c)
{
    const struct {
        const char *key;
        double value;
    } parts[] = {{"batch", c->window.batch},
                 {"rows", c->window.rows},
                 {"contracted", c->window.contracted},
                 {"columns", c->window.columns}};
    base_json_member_open_inline(w, "compiler", '{');
    base_json_member_int(w, "cycles", llround(c->cycles));
    base_json_member_double(w, "time_s", c->time_s);
    base_json_member_open_inline(w, "fetched", '[');
    for (int i = 0; i < OPERANDS; i++)
        if (c->is_fetched[i]) base_json_put_int(w, i);
    base_json_close(w, ']');
    base_json_member_open_inline(w, "window", '{');
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        base_json_member_int(w, parts[i].key, llround(parts[i].value));
    }
    base_json_close(w, '}');
    base_json_close(w, '}');
}

static void put_json(const struct lab_operation *o, const struct lab_compiler_cycles *cycles,
                     enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    base_json_open(&w, '{');
    base_json_key(&w, "output_spec");
    put_spec(&w, o, 2);
    base_json_member_open_inline(&w, "local_shapes", '[');
    for (int i = 0; i < o->operand_count; i++) put_shape(&w, o, i);
    base_json_close(&w, ']');
    base_json_key(&w, "local_output_shape");
    put_shape(&w, o, 2);
    base_json_member_open(&w, "collectives", '[');
    for (int i = 0; i < o->collective_count; i++) {
        int count = count_equal(o, i);
        if (!count) continue;
        base_json_open_inline(&w, '{');
        base_json_member_string(&w, "kind", sim_collective_name(o->collectives[i].kind));
        base_json_member_string(&w, "mesh_axis", topo_axes_spell(out->arena, &o->mesh, o->collectives[i].axes));
        base_json_member_string(&w, "dtype", model_dtype_name(o->collectives[i].dtype));
        base_json_member_int(&w, "count", count);
        base_json_member_int(&w, "bytes", o->collectives[i].bytes);
        base_json_close(&w, '}');
    }
    base_json_close(&w, ']');
    if (cycles->cycles > 0) put_estimate(&w, cycles);
    base_json_close(&w, '}');
}

static void put_array(const struct lab_operation *o, int operand, struct base_text *out)
{
    base_put(out, "[");
    for (int d = 0; d < o->rank[operand]; d++) {
        base_putf(out, "%s%lld", d ? ", " : "", (long long)o->shape[operand][d]);
        for (int i = 0; i < o->axis_count[operand][d]; i++)
            base_putf(out, "%s%s", i ? "+" : "/", o->mesh.names[o->axes[operand][d][i]]);
    }
    base_put(out, "], on one device [");
    for (int d = 0; d < o->rank[operand]; d++)
        base_putf(out, "%s%lld", d ? ", " : "", (long long)o->local_shape[operand][d]);
    base_put(out, "]\n");
}

static void put_text(const struct lab_operation *o, const struct lab_compiler_cycles *cycles, struct base_text *out)
{
    static const char *const fetched[] = {"", ", operand 0 fetched before", ", operand 1 fetched before",
                                          ", both operands fetched before"};
    for (int i = 0; i < o->operand_count; i++) {
        base_putf(out, "operand %d: ", i);
        put_array(o, i, out);
    }
    base_put(out, "result:    ");
    put_array(o, 2, out);
    if (!o->collective_count) base_put(out, "no collective: every device has its operands\n");
    for (int i = 0; i < o->collective_count; i++)
        base_putf(out, "%d. %s over %s of %s %s\n", i + 1, sim_collective_name(o->collectives[i].kind),
                  topo_axes_spell(out->arena, &o->mesh, o->collectives[i].axes), base_bytes(o->collectives[i].bytes),
                  model_dtype_name(o->collectives[i].dtype));
    if (cycles->cycles > 0)
        base_putf(
            out,
            "the product: %.0f cycles (%s) by the TPU compiler's cost model%s, in windows of %.0f x %.0f x %.0f x "
            "%.0f (batch, rows, contracted, columns)\n",
            cycles->cycles, base_seconds(cycles->time_s), fetched[cycles->is_fetched[0] + 2 * cycles->is_fetched[1]],
            cycles->window.batch, cycles->window.rows, cycles->window.contracted, cycles->window.columns);
}

enum base_status lab_partition_run(struct commands_context *context, const struct base_arguments *arguments,
                                   struct base_text *out, struct base_error *error)
{
    struct lab_operation *o = base_new(context->arena, struct lab_operation, 1);
    struct topo_axes named;
    if (!arguments->positional_count)
        return base_fail(error, BASE_USAGE,
                         "partition needs an operation: meshwright-lab partition 'ble,ef->blf' --mesh …, or meshwright "
                         "partition reshard --mesh …");
    BASE_TRY(lab_operation_parse(arguments->positional[0], o, error));
    BASE_TRY(read_mesh(context, base_argument(arguments, "--mesh"), &named, &o->mesh, error));
    BASE_TRY(read_shapes(context, base_argument(arguments, "--shapes"), o, error));
    BASE_TRY(read_specs(context, base_argument(arguments, "--specs"), &named, o, error));
    BASE_TRY(read_dtypes(context, base_argument(arguments, "--dtypes"), o, error));
    const char *wanted = base_argument(arguments, "--output-spec");
    o->free = !wanted;
    if (!wanted && o->operand_count == 1)
        return base_fail(error, BASE_USAGE, "reshard needs --output-spec: the target sharding");
    if (wanted) BASE_TRY(read_spec(base_copy(context->arena, wanted), &named, "--output-spec", o, 2, error));
    BASE_TRY(lab_operation_partition(o, error));
    struct lab_compiler_cycles cycles = {.cycles = 0};
    BASE_TRY(estimate(arguments, o, &cycles, error));
    if (context->json) put_json(o, &cycles, context->layout, out);
    else put_text(o, &cycles, out);
    return BASE_OK;
}
