/* Tests of gin: values and statements by tables, includes on files of tests/data/gin, plans that bindings describe,
 * plans that go out as a run file and come back, the mesh that the JAX lines build, and hostile texts. */
#include "tests/test.h"

#include <stdlib.h>

#include "model/import/import.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

/* ---- asking ---- */

static struct model_gin *parsed(struct base_arena *arena, const char *text)
{
    struct model_gin *gin;
    struct base_error error;
    assert_ok(model_gin_parse(arena, "x.gin", text, &gin, &error), &error);
    return gin;
}

/* A value in one spelling: tuples as (1,2,), references as @scope/name(). */
static void put_value(const struct model_gin_value *value, struct base_text *out)
{
    static const char *const brackets[] = {[MODEL_GIN_LIST] = "[]", [MODEL_GIN_TUPLE] = "()", [MODEL_GIN_DICT] = "{}"};
    bool list = value->kind == MODEL_GIN_LIST || value->kind == MODEL_GIN_TUPLE || value->kind == MODEL_GIN_DICT;
    if (value->kind == MODEL_GIN_STRING) base_putf(out, "'%s'", value->text);
    else if (value->kind == MODEL_GIN_REFERENCE)
        base_putf(out, "@%s%s%s%s", value->scope, *value->scope ? "/" : "", value->text, value->called ? "()" : "");
    else if (value->kind == MODEL_GIN_MACRO) base_putf(out, "%%%s", value->text);
    else if (!list) base_put(out, value->text);
    if (!list) return;
    base_put_bytes(out, &brackets[value->kind][0], 1);
    for (const struct model_gin_value *item = value->child; item; item = item->next) {
        put_value(item, out);
        base_put(out, ",");
    }
    base_put_bytes(out, &brackets[value->kind][1], 1);
}

static const char *notes_of(struct base_arena *arena, const struct model_gin *gin)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "");
    for (int i = 0; i < gin->note_count; i++) base_putf(&text, "%s\n", gin->notes[i]);
    for (int i = 0; i < gin->warning_count; i++) base_putf(&text, "warning: %s\n", gin->warnings[i]);
    for (int i = 0; i < gin->difference_count; i++) base_putf(&text, "values: %s\n", gin->differences[i]);
    return text.data;
}

static const char *plan_json(struct base_arena *arena, const struct sim_plan_text *plan)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    sim_plan_put_json(arena, plan, &writer);
    text.data[text.length - 1] = '\0';
    return text.data;
}

#define DYNAMIC "from __gin__ import dynamic_registration\n"
#define BASE_FILE "include 't5x/examples/t5/t5_1_1/base.gin'\n" /* imports t5x.models */

/* ---- values and statements ---- */

static void values_are_read_as_python_writes_them(struct base_arena *arena)
{
    static const struct {
        const char *written, *read;
    } rows[] = {
        {"12", "12"},
        {"-12", "-12"},
        {"1_000_000", "1000000"},
        {"0x40", "64"},
        {"0b101", "5"},
        {"0o17", "15"},
        {"1e-3", "1e-3"},
        {".5", "0.5"},
        {"1.", "1.0"},
        {"- 3", "-3"},
        {"None", "None"},
        {"True", "True"},
        {"False", "False"},
        {"'a'", "'a'"},
        {"\"a'b\"", "'a'b'"},
        {"'a' \"b\"", "'ab'"},
        {"('a'\n  'b')", "'ab'"},
        {"'a\\tb\\x41\\u00e9'", "'a\tbA\xc3\xa9'"},
        {"r'a\\d'", "'a\\d'"},
        {"'layers_\\d'", "'layers_\\d'"},
        {"'''a\nb'''", "'a\nb'"},
        {"''", "''"},
        {"'# no comment'", "'# no comment'"},
        {"'a\\\nb'", "'ab'"},
        {"()", "()"},
        {"(1,)", "(1,)"},
        {"(1)", "1"},
        {"(1, 2)", "(1,2,)"},
        {"[1, [2, (3, 4)],]", "[1,[2,(3,4,),],]"},
        {"[]", "[]"},
        {"{}", "{}"},
        {"{'inputs': 512, 'targets': 114}", "{'inputs',512,'targets',114,}"},
        {"{'a':{'b':None}}", "{'a',{'b',None,},}"},
        {"[  # first\n 1,\n\n 2  # last\n]", "[1,2,]"},
        {"1 + \\\n", NULL},
        {"@f", "@f"},
        {"@f()", "@f()"},
        {"@a/b/m.f()", "@a/b/m.f()"},
        {"@f( )", "@f()"},
        {"[@f, @g()]", "[@f,@g(),]"},
        {"%M", "%M"},
        {"%gin.REQUIRED", "%gin.REQUIRED"},
        {"\\\n 7", "7"},
        {"7  # seven", "7"},
        {"7\r", "7"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_gin *gin;
        struct base_error error;
        struct base_text got = {.arena = arena};
        const char *text = base_print(arena, "c.p = %s\nnext.p = 1\n", rows[i].written);
        TEST_ROW("%s", rows[i].written);
        enum base_status status = model_gin_parse(arena, "x.gin", text, &gin, &error);
        assert_int_equal(status, rows[i].read ? BASE_OK : BASE_INPUT);
        if (!rows[i].read) continue;
        assert_int_equal(gin->binding_count, 2);
        put_value(gin->bindings[0].value, &got);
        assert_string_equal(got.data, rows[i].read);
    }
}

static void statements_that_are_none_are_refused_with_their_line(struct base_arena *arena)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"a = 1\nb 2\n", "x.gin:2: '=' is missing after b"},
        {"a =\nb = 2\n", "x.gin:1: the line ends before a value"},
        {"a = {", "x.gin:1: the line ends before a value"},
        {"a = 1 2\n", "x.gin:1: \"2\" follows the end"},
        {"\n\n = 3", "x.gin:3: a name is needed"},
        {"a = [1, 2\nb = 3\n", "x.gin:2: ',' or ']' is needed in the value that begins in line 1"},
        {"a = [1", "x.gin:1: ',' or ']'"},
        {"a = {1}", "x.gin:1: a dict needs key: value"},
        {"a = 'x\nb = 1", "x.gin:1: the string does not end on its line"},
        {"a = '''x\n", "does not end"},
        {"a = f(3)", "x.gin:1: no value begins with \"f(3)\""},
        {"a = @f(3)", "x.gin:1: @f(…: a reference takes no arguments"},
        {"a = 1.2.3", "\"1.2.3\" is no number"},
        {"a = 12abc", "\"12abc\" is no number"},
        {"a = 0xfg", "\"0xfg\" is no number"},
        {"a = 1e999", "is no number"},
        {"a = '\\0'", "cannot hold a NUL"},
        {"a = '\\x0'", "needs 2 hexadecimal"},
        {"a = '\\ud800'", "cannot hold the character"},
        {"m.f:\nm.g = 1", "x.gin:2: the block of m.f is empty"},
        {"m.f:\n  a.b = 1", "x.gin:2: a.b: in a block"},
        {"m.f:\n  s/a = 1", "a scope is not allowed"},
        {"from t5x\n", "x.gin:1: from t5x: \"import NAME\" is missing"},
        {"import 5", "a name is needed"},
        {"include models.gin", "no value begins with \"models.gin\""},
        {"include ''", "include needs the name"},
        {"a/b.c", "'=' is missing"},
        {"a..b = 1", "a name is needed"},
        {"a. = 1", "a name is needed"},
        {"a = 1\n\xff = 1", "x.gin:2: not UTF-8"},
        {"a = -", "the line ends before a value"},
        {"a = -'x'", "no value begins"},
        {"a = %", "a name is needed"},
        {"a = @", "a name is needed"},
        {"a = 1,\n", "follows the end"},
        {"a = ]", "no value begins"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_gin *gin;
        struct base_error error;
        TEST_ROW("%s", rows[i].text);
        assert_fails(model_gin_parse(arena, "x.gin", rows[i].text, &gin, &error), BASE_INPUT, &error, rows[i].message);
    }
}

/* What c.p is in a scope, in the spelling of put_value. */
static void bindings_are_found_as_gin_finds_them(struct base_arena *arena)
{
    static const struct {
        const char *text, *scope, *configurable, *value;
    } rows[] = {
        {"m.c.p = 1\nm.c.p = 2\n", "", "c", "2"},
        {"m.c.p = 1\nn.c.p = 2\n", "", "m.c", "1"},
        {"c.p = 1\n", "", "a.m.c", "1"},
        {"xc.p = 1\nm.c.p = 2\n", "", "c", "2"},
        {"m.xc.p = 1\n", "", "c", NULL},
        {"c.p = 1\ns/c.p = 2\n", "", "c", "1"},
        {"c.p = 1\ns/c.p = 2\n", "s", "c", "2"},
        {"s/c.p = 2\nc.p = 1\n", "s", "c", "2"},
        {"s/c.p = 2\ns/t/c.p = 3\n", "s/t/u", "c", "3"},
        {"s/c.p = 2\n", "st", "c", NULL},
        {"M = 5\nc.p = %M\nM = 6\n", "", "c", "6"},
        {"A = %B\nB = (%C, 1)\nc.p = %A\n", "", "c", "(%C,1,)"},
        {"c.p = %NO\n", "", "c", NULL},
        {"A = %B\nB = %A\nc.p = %A\n", "", "c", NULL},
        {"c.p = %gin.REQUIRED\n", "", "c", NULL},
        {"from a.b import m\nm.c.p = @m.f\n", "", "a.b.m.c", "@a.b.m.f"},
        {"from a.b import m as n\nn.c.p = 3\n", "", "a.b.m.c", "3"},
        {"import a.b as n\nn.c.p = 3\n", "", "a.b.c", "3"},
        {"import a.b\na.b.c.p = 3\n", "", "a.b.c", "3"},
        {"from a import m\nfrom b import m\nm.c.p = 3\n", "", "a.m.c", NULL},
        {DYNAMIC "from a import models\n" BASE_FILE "models.c.p = 3\n", "", "a.models.c", "3"},
        {DYNAMIC "from a import m\n" BASE_FILE "models.c.p = 3\n", "", "t5x.models.c", "3"},
        {BASE_FILE "models.c.p = @models.f\n", "", "t5x.models.c", "@t5x.models.f"},
        {"c:\n  q = 1\n  # between\n\n  p = 2\nd.p = 3\n", "", "c", "2"},
        {"s/m.c:\n\tp = [\n1,\n  2]\n", "s", "c", "[1,2,]"},
        {"  c.p = 4\n", "", "c", "4"},
        {"\xef\xbb\xbf"
         "c.p = 4",
         "", "c", "4"},
        {"c.p = 4 # meshwright: no key\n", "", "c", "4"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_gin_place place;
        struct base_text got = {.arena = arena};
        TEST_ROW("%s", rows[i].text);
        const struct model_gin_value *value =
            model_gin_get(parsed(arena, rows[i].text), rows[i].scope, rows[i].configurable, "p", &place);
        if (!rows[i].value) assert_null(value);
        if (!rows[i].value) continue;
        assert_non_null(value);
        put_value(value, &got);
        assert_string_equal(got.data, rows[i].value);
    }
}

static void places_are_those_of_the_file(struct base_arena *arena)
{
    struct model_gin *gin =
        parsed(arena, "\n# one\nm.c:  # two\n  a = [\n    1,\n  ]\n\n  b = '''x\ny'''\nD = \\\n  4\ninclude "
                      "'t5x/configs/runs/pretrain.gin'\n# meshwright:  topology =  v4-8 \nE = 5");
    static const struct {
        const char *parameter;
        int line;
    } rows[] = {{"a", 4}, {"b", 8}, {"D", 10}, {"E", 14}, {"num_partitions", 12}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const struct model_gin_binding *found = NULL;
        TEST_ROW("%s", rows[i].parameter);
        for (int j = 0; j < gin->binding_count; j++)
            if (!strcmp(gin->bindings[j].parameter, rows[i].parameter)) found = &gin->bindings[j];
        assert_non_null(found);
        assert_int_equal(found->place.line, rows[i].line);
        assert_string_equal(found->place.file, "x.gin");
    }
    TEST_ROW("comment");
    assert_int_equal(gin->comment_count, 1);
    assert_string_equal(gin->comments[0].key, "topology");
    assert_string_equal(gin->comments[0].value, "v4-8");
    assert_int_equal(gin->comments[0].place.line, 13);
}

/* ---- files ---- */

static void includes_are_searched(struct base_arena *arena)
{
    struct model_gin *gin;
    struct base_error error;
    struct model_gin_place place;
    assert_ok(model_gin_read(arena, "tests/data/gin/house/translate.gin", NULL, &gin, &error), &error);
    assert_string_equal(model_gin_get(gin, "", "T5Config", "emb_dim", &place)->text, "640");
    assert_string_equal(place.file, "tests/data/gin/house/models/translator.gin");
    assert_string_equal(model_gin_get(gin, "", "", "BATCH_SIZE", &place)->text, "512");
    assert_int_equal(gin->note_count, 0);
    assert_ok(model_gin_parse(arena, "x.gin", "include 'models/translator.gin'\nA = 1\n", &gin, &error), &error);
    assert_null(model_gin_find(gin, "", "T5Config", "emb_dim")); /* no file is opened for a text */
    assert_non_null(
        strstr(notes_of(arena, gin),
               "x.gin:1: include 'models/translator.gin': is not on the search path; its bindings are missing"));
    assert_ok(model_gin_read(arena, "tests/data/gin/elsewhere.gin", "nowhere,tests/data/gin/house", &gin, &error),
              &error);
    assert_string_equal(model_gin_get(gin, "", "T5Config", "emb_dim", &place)->text, "640");
    assert_fails(model_gin_read(arena, "tests/data/gin/loop_a.gin", NULL, &gin, &error), BASE_INPUT, &error,
                 "loop_b.gin:2: include 'tests/data/gin/loop_a.gin': the file includes itself");
    assert_fails(model_gin_read(arena, "tests/data/gin", NULL, &gin, &error), BASE_INPUT, &error, "is a directory");
    assert_fails(model_gin_read(arena, "tests/data/gin/none.gin", NULL, &gin, &error), BASE_INPUT, &error,
                 "none.gin: cannot be read");
}

/* ---- plans ---- */

#define RUN "include 't5x/configs/runs/pretrain.gin'\n"
#define SMALL "include 't5x/examples/t5/t5_1_1/small.gin'\n" RUN
#define SCANNED "include 't5x/examples/scalable_t5/t5_1_1/small.gin'\n" RUN
#define STANDARD ",\"optimizer\":\"adafactor\",\"dtype\":\"bfloat16\"}"
#define BASE                                                                                                           \
    "{\"model\":\"t5_1_1_small\",\"num_partitions\":1,\"logical_axis_rules\":\"standard:1,1\",\"batch_size\":"         \
    "128" STANDARD
#define PARTITIONER "from t5x import partitioning\npartitioning.PjitPartitioner."
#define OPTAX "import optax\nfrom t5x import optimizers\n"

#define MODELS "from t5x import models\nMODEL = @models.EncoderDecoderModel()\n"
/* T5 1.1 base as Flaxformer's dense layers build it. */
#define FLAXFORMER                                                                                                     \
    MODELS                                                                                                             \
    "from flaxformer.architectures.t5 import t5_architecture\nfrom flaxformer.components import dense\nfrom "          \
    "flaxformer.components import embedding\nfrom flaxformer.components.attention import dense_attention\n"            \
    "models.EncoderDecoderModel.module = @t5_architecture.EncoderDecoder()\nt5_architecture.EncoderDecoder.dtype "     \
    "= 'bfloat16'\nt5_architecture.Encoder.num_layers = 12\nt5_architecture.Decoder:\n  num_layers = 12\n  "           \
    "output_logits_factory = @logits/dense.DenseGeneral\nembedding.Embed:\n  num_embeddings = 32128\n  features "      \
    "= 768\nNUM_HEADS = 12\ndense_attention.MultiHeadDotProductAttention:\n  num_heads = %NUM_HEADS\n  head_dim "      \
    "= 64\n  use_bias = False\ndense.MlpBlock:\n  intermediate_dim = 2048\n  activations = ('gelu', 'linear')\n"
#define NETWORK                                                                                                        \
    "from t5x.examples.t5 import network\nnetwork.Transformer.config = @network.T5Config()\nnetwork.T5Config.vocab_"   \
    "size = 8\n"

/* text holds what the JSON of the plan must hold, in its order; note what a note must say. */
static const struct plan_row {
    const char *text, *plan, *note;
} plan_rows[] = {
    {SMALL, BASE, "built-in values are used"},
    {RUN SMALL "BATCH_SIZE = 64\n", "\"batch_size\":64,", NULL},
    {SMALL "train/utils.DatasetConfig.batch_size = 32\ntrain_eval/utils.DatasetConfig.batch_size = 4\n",
     "\"batch_size\":32,", "x.gin:4: train_eval/utils.DatasetConfig.batch_size: no part of a plan; ignored"},
    {SMALL "DatasetConfig.batch_size = 32\n", "\"batch_size\":128,", NULL},
    {SMALL "from t5x import utils\nimport __main__ as train_script\ntrain_script.train.train_dataset_cfg = "
           "@other/utils.DatasetConfig()\nother/utils.DatasetConfig.batch_size = 7\n",
     "\"batch_size\":7,", NULL},
    {SMALL "TASK_FEATURE_LENGTHS = {'inputs': 512, 'targets': 114}\n",
     "\"task_feature_lengths\":{\"inputs\":512,\"targets\":114},\"batch_size\"", NULL},
    {SMALL "N = 9\nTASK_FEATURE_LENGTHS = {'inputs': %N, 'targets': %N, 'suffixes': 3}\n",
     "{\"inputs\":9,\"targets\":9}", "task_feature_lengths: suffixes is no feature of these models"},
    {SMALL "TASK_FEATURE_LENGTHS = None\n", BASE, NULL},
    {SMALL "trainer.Trainer.num_microbatches = 8\n", "\"num_microbatches\":8,", NULL},
    {SMALL "RANDOM_SEED = 3\n", "\"seed\":3}", NULL},
    {"include 't5x/configs/runs/pretrain_deterministic.gin'\n", "\"seed\":0}", NULL},
    {"include '/home/me/t5x/t5x/configs/runs/finetune.gin'\n", "\"learning_rate\":0.001}", NULL},
    {SMALL "utils.create_learning_rate_scheduler.factors = "
           "'constant'\nutils.create_learning_rate_scheduler.base_learning_rate = 2e-4\n",
     "\"learning_rate\":0.0002}", NULL},
    {SMALL, "\"dtype\":\"bfloat16\"}",
     "values: x.gin:2: learning rate: a plan's is constant, 1e-3, and this is 'constant * rsqrt_decay'"},
    {SMALL PARTITIONER "num_partitions = 4\n", "\"num_partitions\":4,", NULL},
    {SMALL PARTITIONER "model_parallel_submesh = (4, 2, 1, 1)\n", "\"model_parallel_submesh\":[4,2,1,1],\"logical",
     NULL},
    {SMALL "include 't5x/examples/x.gin'\n" PARTITIONER "model_parallel_submesh = ()\n", "\"num_partitions\":1,",
     "warning: x.gin:3: include 't5x/examples/x.gin': is not on the search path"},
    {SMALL PARTITIONER "num_partitions = 4\n" PARTITIONER "model_parallel_submesh = [2, 1, 1, 2]\n",
     "\"model_parallel_submesh\":[2,1,1,2],\"logical", "T5X uses that; ignored"},
    {"partitioning.ModelBasedPjitPartitioner.num_partitions = 8\n", "{\"num_partitions\":8}", NULL},
    {SMALL PARTITIONER "ici_mesh_shape = (1, 2, 3)\n", BASE,
     "x.gin:4: partitioning.PjitPartitioner.ici_mesh_shape: no part of a plan; ignored"},
    {SMALL "from t5x import partitioning\npartitioning.standard_logical_axis_rules:\n  activation_partitioning_dims = "
           "2\n  parameter_partitioning_dims = 2\n",
     "\"standard:2,2\"", NULL},
    {SMALL "partitioning.standard_logical_axis_rules.additional_rules = [('expert', 'data'), ('rows', ('data', "
           "'model')), ('x', None)]\n",
     "[\"mlp_activations\",null],[\"expert\",\"data\"],[\"rows\",[\"data\",\"model\"]],[\"x\",null]],\"batch", NULL},
    {SMALL PARTITIONER "logical_axis_rules = [('batch', 'data'), ('embed', 'model')]\n",
     "\"logical_axis_rules\":[[\"batch\",\"data\"],[\"embed\",\"model\"]],", NULL},
    {SMALL PARTITIONER "logical_axis_rules = None\n", "\"num_partitions\":1,\"batch_size\"", NULL},
    {SMALL PARTITIONER "logical_axis_rules = @tasks.rules()\n# meshwright: logical_axis_rules = zero3\n",
     "\"logical_axis_rules\":\"zero3\"", NULL},
    {SMALL PARTITIONER
     "logical_axis_rules = "
     "(('batch','data'),('mlp','model'),('heads','model'),('vocab','model'),('embed',None),('kv',None),('joined_kv',"
     "None),('relpos_buckets',None),"
     "('abspos_buckets',None),('length',None),('layers',None),('stack',None),('mlp_activations',None))\n",
     "\"logical_axis_rules\":\"megatron\",", NULL},
    {SMALL OPTAX
     "OPTIMIZER = @optimizers.adamw()\noptimizers.adamw.learning_rate = 0.01\noptimizers.adamw.weight_decay = 0.1\n",
     "\"optimizer\":\"adamw\",\"dtype\":\"bfloat16\",\"learning_rate\":0.01}",
     "weight_decay is 0.1, which no plan key holds"},
    {SMALL "include 't5x/examples/t5/t5_1_1/adamw_opt.gin'\n",
     "\"optimizer\":\"adamw\",\"dtype\":\"bfloat16\",\"learning_rate\":0.0001}",
     "@optax.clip_by_global_norm: has no plan key"},
    {SMALL OPTAX "OPTIMIZER = @optimizers.sgd()\noptimizers.sgd.learning_rate = "
                 "@utils.create_learning_rate_scheduler()\nutils.create_learning_rate_scheduler.factors = 'constant'\n",
     "\"optimizer\":\"sgd\",\"dtype\":\"bfloat16\",\"learning_rate\":1}", NULL},
    {SMALL OPTAX "OPTIMIZER = @optimizers.adam()\n", "\"optimizer\":\"adamw\"", "adam is modelled as adamw"},
    {SMALL OPTAX "OPTIMIZER = @optimizers.lamb()\n", "\"optimizer\":\"lamb\"", NULL},
    {SMALL OPTAX "OPTIMIZER = @optimizers.lion()\n", "\"optimizer\":\"lion\"", NULL},
    {SMALL "from t5x import adafactor\nadafactor.Adafactor.beta1 = 0.9\nadafactor.Adafactor.decay_rate = "
           "0.8\nadafactor.Adafactor.factored = False\n",
     "\"adafactor\":{\"factored\":false,\"beta1\":0.9},\"dtype\"", NULL},
    {SMALL "from t5x import adafactor\nadafactor.Adafactor.logical_factor_rules = {'embed': 'row', 'mlp': "
           "@adafactor.FactorDim.COLUMN, 'layers': None}\n",
     "\"adafactor\":{\"logical_factor_rules\":{\"embed\":\"row\",\"mlp\":\"COLUMN\",\"layers\":null}},\"dtype\"", NULL},
    {SMALL "from t5x import adafactor\nadafactor.Adafactor.epsilon1 = [1]\n", STANDARD,
     "epsilon1: is a list, which has no plan key"},
    {SCANNED, "\"remat_policy\":\"minimal\",\"dtype\"", NULL},
    {SCANNED "from t5x.examples.scalable_t5 import network\nnetwork.T5Config.remat_policy = 'full'\n",
     "\"remat_policy\":\"full\",\"dtype\"", NULL},
    {SCANNED "from t5x.examples.scalable_t5 import network\nnetwork.T5Config.remat_policy = None\n",
     "\"remat_policy\":\"none\",\"dtype\"", NULL},
    {SCANNED "T5Config.remat_policy = 'most'\n", "\"remat_policy\":\"full\",\"dtype\"", "'most' is unknown to T5X"},
    {SCANNED "T5Config.scan_layers = False\n", "\"scalable_t5_1_1_small\"",
     "warning: x.gin:3: scan_layers: a plan's scalable models are scanned"},
    {SMALL "T5Config.dtype = 'float32'\n", "\"dtype\":\"float32\"}", NULL},
    {SMALL "T5Config.dtype = @jax.numpy.float16\n", "\"dtype\":\"float16\"}", NULL},
    {SMALL "T5Config.num_heads = 8\n",
     "{\"model\":\"encoder_decoder:vocab_size=32128,emb_dim=512,num_heads=8,head_dim=64,mlp_dim=1024,num_encoder_"
     "layers=8,num_decoder_layers=8,"
     "mlp_activations=gelu+linear,logits_via_embedding=0\"",
     NULL},
    {"from t5x.examples.t5 import network\nnetwork.T5Config:\n  vocab_size = 100\n  float32_attention_logits = True\n",
     "{\"model\":\"encoder_decoder:vocab_size=100,emb_dim=512,num_heads=8,head_dim=64,mlp_dim=2048,num_encoder_layers="
     "6,num_decoder_layers=6,mlp_activations=relu,"
     "logits_via_embedding=0,float32_attention_logits=1\",\"dtype\":\"float32\"}",
     "emb_dim is not bound; T5X's default is 512"},
    {"network.TransformerConfig.vocab_size = 7\n",
     "\"decoder_only:vocab_size=7,emb_dim=512,num_heads=8,head_dim=64,mlp_dim=2048,num_layers=6,",
     "is not imported; t5x.examples.decoder_only is assumed"},
    {"include 't5x/examples/decoder_only/models/base.gin'\n" RUN "TASK_FEATURE_LENGTHS = {'inputs': 5, 'targets': 6}\n",
     "{\"model\":\"decoder_only_base\",", "inputs and targets joined, 5 and 6: the plan's length is 11"},
    {"from t5x.contrib.gpu.t5 import network\nnetwork.T5Config.vocab_size = 7\n",
     "{\"model\":\"encoder_decoder:vocab_size=7,", "looks embeddings up"},
    {SMALL "# meshwright: topology = v4-8\n# meshwright: attention = flash\n",
     "{\"model\":\"t5_1_1_small\",\"topology\":\"v4-8\",\"num_partitions\":1,", NULL},
    {SMALL "# meshwright: topologie = v4-8\n", BASE,
     "x.gin:3: # meshwright: \"topologie\" is no key of a plan; did you mean topology?"},
    {SMALL "# meshwright: batch_size = 128\n# meshwright: logical_axis_rules = standard\n",
     "\"logical_axis_rules\":\"standard\",\"batch_size\":128,", NULL},
    {SMALL "# meshwright: defaults = optimizer, num_partitions,batch_size , nothing\n",
     "{\"model\":\"t5_1_1_small\",\"logical_axis_rules\":\"standard:1,1\",\"batch_size\":128,\"dtype\"", NULL},
    {SMALL PARTITIONER "num_partitions = 2\n# meshwright: defaults = num_partitions\n", "\"num_partitions\":2,", NULL},
    {SCANNED "# meshwright: remat_policy = selective\n# meshwright: dtype = fp8\n",
     "\"remat_policy\":\"selective\",\"dtype\":\"fp8\"}", NULL},
    {SCANNED "# meshwright: defaults = remat_policy, dtype\n# meshwright: topology = local:1\n",
     "\"optimizer\":\"adafactor\",\"dtype\":\"bfloat16\"}", NULL},
    {"include 't5x/examples/decoder_only/models/base.gin'\n# meshwright: model = "
     "decoder_only:emb_dim=768,num_heads=12,num_kv_heads=3,head_dim=64,mlp_dim=2048,num_layers=12,vocab_size=32128,"
     "mlp_activations=gelu+linear,logits_via_embedding=1\n",
     "{\"model\":\"decoder_only:emb_dim=768,num_heads=12,num_kv_heads=3,", NULL},
    {SMALL "# meshwright: model = @tests/data/model_gqa.json\n", "{\"model\":\"t5_1_1_small\"",
     "model = @tests/data/model_gqa.json: file not found"},
    {"# meshwright: model_parallel_submesh = [2, 1, 1, 1]\n", "{\"model_parallel_submesh\":[2,1,1,1]}", NULL},
    {SMALL "DROPOUT_RATE = 0.1\n", "\"dropout_rate\":0.1", NULL},
    {SMALL "DROPOUT_RATE = 0.0\n", BASE, NULL},
    {SMALL "models.EncoderDecoderModel.z_loss = 0.0\n", "\"z_loss\":0", NULL},
    {SMALL "models.EncoderDecoderModel.z_loss = None\n", "\"z_loss\":0", NULL},
    {SMALL "Z_LOSS = 0.001\n", "\"z_loss\":0.001", NULL},
    {SMALL "models.EncoderDecoderModel.label_smoothing = 0.1\n", BASE,
     "values: x.gin:3: label_smoothing is 0.1, which no plan key holds"},
    {SMALL "models.EncoderDecoderModel.label_smoothing = 0.0\n", BASE, NULL},
    {SMALL "LOSS_NORMALIZING_FACTOR = 'NUM_REAL_TARGET_TOKENS'\n", BASE,
     "values: x.gin:3: loss_normalizing_factor is 'NUM_REAL_TARGET_TOKENS'"},
    {SMALL "T5Config.scale_attn_logits = True\n", BASE, "values: x.gin:3: scale_attn_logits is True"},
    {SMALL "Trainer.weight_metrics_computer = @trainer.WeightMetricsComputer()\n", BASE,
     "warning: x.gin:3: weight_metrics_computer is t5x.trainer.WeightMetricsComputer, which no plan key holds: the "
     "norms"},
    {SMALL "Trainer.weight_metrics_computer = None\n", BASE, NULL},
    {SMALL OPTAX "OPTIMIZER = @optax.adamw()\noptax.adamw.weight_decay = 0.01\n", "\"optimizer\":\"adamw\"",
     "values: x.gin:6: weight_decay is 0.01"},
    {SMALL OPTAX "OPTIMIZER = @optax.adamw()\noptax.adamw.mu_dtype = @jax.numpy.bfloat16\n", "\"optimizer\":\"adamw\"",
     "warning: x.gin:6: mu_dtype is jax.numpy.bfloat16, which no plan key holds"},
    {SMALL OPTAX "OPTIMIZER = @optax.sgd()\noptax.sgd.momentum = 0.9\n", "\"optimizer\":\"sgd\"",
     "warning: x.gin:6: momentum is 0.9, which no plan key holds: the plan's sgd keeps no moments"},
    {SMALL "train.total_steps = 0\n", BASE, "warning: x.gin:3: total_steps: T5X trains no step of this run"},
    {SMALL "TASK_FEATURE_LENGTHS = None\n", BASE, "warning: x.gin:3: task_feature_lengths: None: T5X uses the longest"},
    {DYNAMIC SMALL "partitioning.PjitPartitioner.num_partitions = 2\n", "\"num_partitions\":2",
     "warning: x.gin:4: partitioning.PjitPartitioner.num_partitions: this file imports no partitioning, "
     "and gin would fail"},
    {DYNAMIC "from t5x import models\n" SMALL "models.EncoderDecoderModel.z_loss = 0.0\n", "\"z_loss\":0", NULL},
    {"include 't5x/contrib/gpu/t5/t5_1_1/small.gin'\ninclude 't5x/configs/runs/pretrain.gin'\n", BASE,
     "warning: x.gin:1: t5x.contrib.gpu.t5.network.T5Config: looks embeddings up"},
    {"include 't5x/examples/t5/t5_1_1/base.gin'\ninclude 't5x/configs/runs/precompile.gin'\n"
     "Trainer.num_microbatches = 4\n",
     "{\"model\":\"t5_1_1_base\",\"num_partitions\":1,\"logical_axis_rules\":\"standard:1,1\",\"batch_size\":128,"
     "\"optimizer\"",
     "warning: x.gin:3: num_microbatches: T5X's precompile has none"},
    {"infer_script.infer.model = @models.EncoderDecoderModel()\nmodels.EncoderDecoderModel.module = "
     "@net.Transformer()\nnet.Transformer.config = "
     "@t5x.examples.t5.network.T5Config()\nT5Config.vocab_size = 7\nMODEL = @models.None()\n",
     "\"model\":\"encoder_decoder:vocab_size=7,", NULL},
    {FLAXFORMER, "{\"model\":\"t5_1_1_base\",\"dtype\":\"bfloat16\",\"z_loss\":0}", NULL},
    {FLAXFORMER "dense.MlpBlock.intermediate_dropout_rate = 0.1\n", "\"dropout_rate\":0.1", NULL},
    {FLAXFORMER "t5_architecture.Decoder.output_logits_factory = None\nNUM_HEADS = 6\n",
     "{\"model\":\"encoder_decoder:vocab_size=32128,emb_dim=768,num_heads=6,head_dim=64,mlp_dim=2048,num_encoder_"
     "layers="
     "12,num_decoder_layers=12,mlp_activations=gelu+linear,logits_via_embedding=1\"",
     NULL},
    {"from my import models\nMODEL = @models.Mine()\nmodels.Mine.module = @models.Net()\n# meshwright: model = "
     "t5_1_1_base\n",
     "{\"model\":\"t5_1_1_base\"", NULL},
    {SMALL "from my import t\nimport __main__ as script\nscript.train.trainer_cls = @t.Trainer\n", BASE,
     "warning: x.gin:5: trainer_cls: my.t.Trainer is no class of T5X; the step of T5X is predicted"},
    {SMALL "BATCH_SIZE2 = 64\n", BASE, "warning: x.gin:3: BATCH_SIZE2: unknown, and ignored; did you mean BATCH_SIZE"},
    {SMALL "BATCH_SIZE2 = 64\nutils.SaveCheckpointConfig.period = %BATCH_SIZE2\n", BASE,
     "x.gin:3: BATCH_SIZE2: no part of a plan; ignored"},
    {SMALL "from my import trainer as mine\nmine.Trainer.num_microbatches = 4\n", BASE,
     "warning: x.gin:4: mine.Trainer.num_microbatches: ignored, as by T5X: this run calls t5x.trainer.Trainer"},
    {SMALL "from t5x.contrib.moe import partitioning as moe\nmoe.MoePjitPartitioner.num_partitions = 4\n", BASE,
     "warning: x.gin:4: moe.MoePjitPartitioner.num_partitions: ignored, as by T5X: this run calls "
     "t5x.partitioning.PjitPartitioner"},
    {DYNAMIC "from t5x.contrib.gpu.t5 import network\n" SMALL "network.T5Config.emb_dim = 4\n", BASE,
     "warning: x.gin:5: network.T5Config.emb_dim: ignored, as by T5X: this run calls "
     "t5x.examples.t5.network.T5Config"},
    {"include 'flaxformer/t5x/configs/moe/models/switch_base.gin'\n" RUN "ACTIVATION_DTYPE = 'float32'\n",
     "\"dtype\":\"float32\"", NULL},
    {SMALL "from t5x.examples.t5 import network\nnetwork.T5Config.dropout_rate = 0.25\n", "\"dropout_rate\":0.25",
     NULL},
    {SMALL
     "TASK_FEATURE_LENGTHS = {'decoder_target_tokens': 626, 'decoder_positions': 626, 'encoder_input_tokens': 512, "
     "'targets': 620}\n",
     "\"task_feature_lengths\":{\"inputs\":512,\"targets\":620}", NULL},
    {SMALL "TASK_FEATURE_LENGTHS = {'inputs': 7, 'targets': 8, 'pictures': 9}\n",
     "\"task_feature_lengths\":{\"inputs\":7,\"targets\":8}", "warning: x.gin:3: task_feature_lengths: pictures is no"},
    {SMALL "from t5x import models\nmodels.EncoderDecoderModel.loss_normalizing_factor = 233_472\n",
     "\"loss_normalizing_factor\":233472", NULL},
    {SMALL "DROPOUT_RATE = 0.0\nseqio.Evaluator:\n  logger_cls = [@seqio.TensorBoardLogger]\n", BASE,
     "x.gin:5: seqio.Evaluator.logger_cls: no part of a plan; ignored"},
    {SMALL "TASK_FEATURE_LENGTHS = @tasks.lengths()\n", BASE,
     "task_feature_lengths: @tasks.lengths computes it when the run starts"},
    {SMALL "BATCH_SIZE = %NOWHERE\n", "\"logical_axis_rules\":\"standard:1,1\",\"optimizer\"",
     "x.gin:3: %NOWHERE is bound nowhere"},
};

static void bindings_become_a_plan(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(plan_rows); i++) {
        struct sim_gin_plan plan;
        struct base_error error;
        struct model_gin *gin = parsed(arena, plan_rows[i].text);
        TEST_ROW("%d: %s", i, plan_rows[i].text);
        assert_ok(sim_plan_from_gin(gin, &plan, &error), &error);
        const char *json = plan_json(arena, &plan.text), *notes = notes_of(arena, gin);
        if (!strstr(json, plan_rows[i].plan)) fail_msg("%s is not in %s", plan_rows[i].plan, json);
        if (plan_rows[i].note && !strstr(notes, plan_rows[i].note))
            fail_msg("\"%s\" is not in the notes:\n%s", plan_rows[i].note, notes);
        for (int key = 0; key < SIM_KEY_COUNT; key++)
            if (plan.text.values[key]) assert_non_null(plan.places[key].file);
    }
}

static void what_cannot_be_is_refused_with_its_line(struct base_arena *arena)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "x.gin: binds no key of a plan"},
        {"A = 1\n", "binds no key of a plan"},
        {SMALL "BATCH_SIZE = 'many'\n", "x.gin:3: batch_size: is a string; a whole number is needed"},
        {SMALL "BATCH_SIZE = 0\n", "x.gin:3: batch_size: 0 is out of range"},
        {SMALL "BATCH_SIZE = 12.5\n", "x.gin:3: batch_size: \"12.5\" is not a whole number"},
        {SMALL "BATCH_SIZE = 99999999999999999999\n", "out of range"},
        {SMALL "TASK_FEATURE_LENGTHS = [512, 512]\n", "x.gin:3: task_feature_lengths: is a list; a dict"},
        {SMALL "TASK_FEATURE_LENGTHS = {'inputs': -1}\n", "x.gin:3: inputs_length: -1 is out of range"},
        {SMALL "trainer.Trainer.num_microbatches = -2\n", "x.gin:3: num_microbatches: -2 is out of range"},
        {SMALL "network.T5Config.num_heads = 0\n", "x.gin:3: num_heads: 0 is out of range"},
        {SMALL "network.T5Config.mlp_activations = ('gelu', 'cosine')\n",
         "x.gin:3: mlp_activations: \"cosine\" is unknown"},
        {SMALL "network.T5Config.mlp_activations = ('gelu', 'gelu', 'gelu')\n",
         "x.gin:3: mlp_activations: more than 2"},
        {SMALL "network.T5Config.emb_dim = {}\n", "x.gin:3: emb_dim: a number"},
        {SMALL "network.T5Config.dtype = 3\n", "x.gin:3: dtype: is a number; a string"},
        {"from flaxformer import t5\nMODEL = @models.EncoderDecoderModel()\nmodels.EncoderDecoderModel.module = "
         "@t5.Encoder()\n",
         "x.gin:3: \"flaxformer.t5.Encoder\" is an unknown network"},
        {"from my import models\nMODEL = @models.EncoderDecoderModel()\nmodels.EncoderDecoderModel.module = "
         "@network.Transformer()\n" NETWORK,
         "x.gin:2: model: my.models.EncoderDecoderModel is no class of T5X"},
        {SMALL "MODEL = @models.Distilled()\n", "x.gin:3: model: t5x.models.Distilled is no class of T5X"},
        {SMALL "network.T5Config.use_rotary_embedding = True\n",
         "x.gin:3: network.T5Config.use_rotary_embedding: T5Config has no such parameter, and gin would fail"},
        {SMALL "network.T5Config.emb_dimm = 1024\n", "did you mean emb_dim?"},
        {SMALL "import __main__ as script\nscript.distil.model = %MODEL\n",
         "x.gin:4: script.distil.model: no script of T5X has this function"},
        {SMALL "import __main__ as script\nscript.train.teacher = %MODEL\n",
         "x.gin:4: script.train.teacher: T5X's train has no such parameter"},
        {FLAXFORMER "dense.MlpBlock.use_bias = True\n", "dense.MlpBlock.use_bias is True"},
        {FLAXFORMER "from my import layers\nt5_architecture.EncoderLayer.attention = @layers.Sparse()\n",
         "t5_architecture.EncoderLayer.attention is my.layers.Sparse"},
        {FLAXFORMER "embedding.Embed.features = %gin.REQUIRED\n", "embedding.Embed.features is not bound to a number"},
        {"from t5x.contrib.moe import network\nnetwork.T5Config.vocab_size = 3\n",
         "x.gin:2: \"t5x.contrib.moe.network.T5Config\" is an unknown network"},
        {"from t5x.examples.t5 import network\nnetwork.T5Config.emb_dim = 3\n",
         "x.gin:2: t5x.examples.t5.network.T5Config.vocab_size is not bound"},
        {"include 't5x/examples/decoder_only/models/base.gin'\n" RUN
         "MODEL = @models.EncoderDecoderModel()\nmodels.EncoderDecoderModel.module = @network.DecoderWrapper()\n",
         "x.gin:3: contradiction: EncoderDecoderModel has no parameter t5x.examples.decoder_only.network."
         "TransformerConfig"},
        {SMALL "# meshwright: batch_size = 64\n", "x.gin:3: contradiction: batch_size is 64 here, and 128 by x.gin:2"},
        {SMALL "# meshwright: logical_axis_rules = megatron\n",
         "contradiction: logical_axis_rules is megatron here, and standard:1,1"},
        {SMALL "# meshwright: model = t5_1_1_base\n", "contradiction: emb_dim is another in the comment x.gin:3"},
        {SMALL "# meshwright: model = scalable_t5_1_1_small\n", "contradiction: its architecture is another"},
        {SMALL "# meshwright: model = t6\n", "x.gin:3: model: \"t6\""},
        {SMALL "# meshwright: topology\n", "x.gin:3: # meshwright: topology has no value"},
        {SMALL PARTITIONER "model_parallel_submesh = 4\n", "x.gin:4: model_parallel_submesh: is a number; a tuple"},
        {SMALL PARTITIONER "model_parallel_submesh = (0, 1)\n", "0 is out of range"},
        {SMALL PARTITIONER "logical_axis_rules = [('batch',)]\n", "x.gin:4: logical_axis_rules: pairs"},
        {SMALL PARTITIONER "logical_axis_rules = 'standard'\n", "x.gin:4: logical_axis_rules: pairs"},
        {SMALL PARTITIONER "logical_axis_rules = [('batch', 3)]\n", "x.gin:4: logical_axis_rules: pairs"},
        {SMALL "partitioning.standard_logical_axis_rules.parameter_partitioning_dims = 3\n",
         "x.gin:3: parameter_partitioning_dims: 3 is not supported; use 1 or 2"},
        {SMALL PARTITIONER "logical_axis_rules = @tasks.rules()\n",
         "x.gin:4: logical_axis_rules: @tasks.rules computes them when the run starts; add a line"},
        {SMALL "T5Config.dtype = 'int4'\n", "x.gin:3: dtype: a plan's is"},
        {SMALL "T5Config.scan_layers = True\n", "x.gin:3: scan_layers: t5x.examples.t5.network.T5Config has no such"},
        {"include 't5x/examples/t5/t5_1_1/small.gin'\nexport_lib.save.model = %MODEL\n",
         "x.gin:2: the file exports a model for serving"},
        {"infer_script.infer.mode = 'guess'\n", "x.gin:1: mode: is guess; predict"},
        {"infer_script.infer.mode = 'predict'\nutils.RestoreCheckpointConfig.dtype = 'float8'\n",
         "x.gin:2: dtype: parameters are restored as"},
        {"infer_script.infer.mode = 'predict'\ndecoding.temperature_sample.topk = 'many'\n",
         "x.gin:2: topk: is a string"},
        {"infer_script.infer.mode = 'predict'\ndecoding.beam_search.alpha = -3\n",
         "x.gin:2: alpha: -3 is out of range"},
        {SMALL "adafactor.Adafactor.beta1 = 7\n", "x.gin:3: adafactor: beta1: 7 is out of range"},
        {SMALL "utils.create_learning_rate_scheduler.factors = "
               "'constant'\nutils.create_learning_rate_scheduler.base_learning_rate = -1\n",
         "x.gin:4: learning_rate: -1 is out of range"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_gin_plan plan;
        struct base_error error;
        TEST_ROW("%d: %s", i, rows[i].text);
        assert_fails(sim_plan_from_gin(parsed(arena, rows[i].text), &plan, &error), BASE_INPUT, &error,
                     rows[i].message);
    }
}

static void a_house_of_files_becomes_a_plan(struct base_arena *arena)
{
    struct model_gin *gin;
    struct sim_gin_plan plan;
    struct model_config config;
    struct base_error error;
    assert_ok(model_gin_read(arena, "tests/data/gin/house/translate.gin", NULL, &gin, &error), &error);
    assert_ok(sim_plan_from_gin(gin, &plan, &error), &error);
    assert_string_equal(plan_json(arena, &plan.text),
                        "{\"model\":\"scalable_encoder_decoder:vocab_size=32000,emb_dim=640,num_heads=10,head_dim=64,"
                        "mlp_dim=1920,num_encoder_layers=9,num_decoder_layers=3,"
                        "mlp_activations=silu+linear,logits_via_embedding=0\",\"topology\":\"v4-64\",\"model_parallel_"
                        "submesh\":[2,2,1,1],\"logical_axis_rules\":\"standard:2,2\","
                        "\"task_feature_lengths\":{\"inputs\":384,\"targets\":256},\"batch_size\":512,\"num_"
                        "microbatches\":4,\"optimizer\":\"adafactor\","
                        "\"adafactor\":{\"factored\":false,\"beta1\":0.9},\"remat_policy\":\"full\","
                        "\"dtype\":\"bfloat16\",\"dropout_rate\":0.1,\"seed\":17}");
    assert_ok(model_gin_config_parse(arena, "@tests/data/gin/house/translate.gin", NULL, &config, &error), &error);
    assert_int_equal(config.emb_dim, 640);
    assert_int_equal(config.num_decoder_layers, 3);
    assert_true(config.scan_layers && config.encoder);
    assert_fails(model_gin_config_parse(arena, "@tests/data/gin/loop_a.gin", NULL, &config, &error), BASE_INPUT, &error,
                 "includes itself");
    assert_fails(model_gin_config_parse(arena, "@tests/data/gin/house/runs/train.gin", NULL, &config, &error),
                 BASE_INPUT, &error, "train.gin: describes no model");
}

/* Each model of the zoo, written as gin and named by its file, is that model. */
static void the_zoo_comes_back(struct base_arena *arena)
{
    struct base_error error;
    int count;
    const struct model_zoo_model *models = model_zoo(arena, &count);
    assert_true(count > 30);
    for (int i = 0; i < count; i++) {
        struct model_config config;
        struct model_gin_model found, named;
        struct base_text text = {.arena = arena};
        bool any;
        TEST_ROW("%s", models[i].name);
        if (strncmp(models[i].source, "t5x/", strlen("t5x/")) != 0) continue; /* T5X has no gin file of it */
        assert_ok(model_config_parse(arena, models[i].name, &config, &error), &error);
        if (config.experts.count && !config.encoder) continue; /* no gin says a decoder's experts */
        model_gin_put_model(&config, "bfloat16", "minimal", &text);
        assert_ok(model_gin_model(parsed(arena, text.data), &found, &any, &error), &error);
        assert_true(any);
        memcpy(found.config.name, config.name, sizeof config.name);
        assert_memory_equal(&found.config, &config, sizeof config);
        assert_ok(
            model_gin_model(parsed(arena, base_print(arena, "include '%s'\n", models[i].source)), &named, &any, &error),
            &error);
        assert_string_equal(named.text, models[i].name);
    }
}

/* ---- out and back ---- */

static const char *exported(struct base_arena *arena, struct sim_cache *cache, const char *format,
                            const struct sim_plan_text *text)
{
    struct sim_plan plan;
    struct base_error error;
    struct base_text out = {.arena = arena};
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(reports_launch(arena, format, text, &plan, &out, &error), &error);
    return out.data;
}

/* A run file, or a job that holds one: all lines of gin. */
static struct model_gin *read_again(struct base_arena *arena, const char *format, const char *text)
{
    struct model_gin_lines lines = {.files = {.arena = arena}, .bindings = {.arena = arena}};
    struct base_held held = {"job.sh", text, strlen(text)};
    struct model_gin *gin;
    struct base_error error;
    if (!strcmp(format, "gin")) return parsed(arena, text);
    arena->held = &held;
    assert_ok(model_import_gin_script(arena, held.name, &lines, &error), &error);
    arena->held = NULL;
    if (lines.binding_count) base_put(&lines.files, lines.bindings.data);
    assert_ok(model_gin_read_lines(arena, held.name, lines.files.data, NULL, &gin, &error), &error);
    return gin;
}

static void check_comes_back_as(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan_text *text,
                                const char *format)
{
    struct sim_gin_plan back;
    struct base_error error;
    struct model_gin *gin = read_again(arena, format, exported(arena, cache, format, text));
    assert_ok(sim_plan_from_gin(gin, &back, &error), &error);
    if (strstr(notes_of(arena, gin), "gin would fail")) fail_msg("gin would stop: %s", notes_of(arena, gin));
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *given = text->values[key] && *text->values[key] ? text->values[key] : "(none)",
                   *got = back.text.values[key] ? back.text.values[key] : "(none)";
        if (strcmp(given, got) != 0) fail_msg("%s: %s was %s and is %s", format, sim_plan_keys[key].name, given, got);
    }
}

static void check_comes_back(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan_text *text)
{
    static const struct {
        const char *chip, *format;
    } jobs[] = {{"h100:", "slurm"}, {"a100-80g:", "slurm"}, {"v4", "gcloud"}, {"v3-32", "gcloud"}, {"v5e", "gcloud"}};
    check_comes_back_as(arena, cache, text, "gin");
    for (int i = 0; i < BASE_COUNT(jobs); i++)
        if (!strncmp(text->values[SIM_TOPOLOGY], jobs[i].chip, strlen(jobs[i].chip)))
            check_comes_back_as(arena, cache, text, jobs[i].format);
}

static struct sim_plan_text plan_of_json(struct base_arena *arena, const char *text)
{
    const struct base_json *document;
    struct sim_plan_text plan;
    struct base_error error;
    assert_ok(base_json_parse(arena, text, strlen(text), &document, &error), &error);
    assert_ok(sim_plan_from_json(arena, document, &plan, &error), &error);
    return plan;
}

#define LENGTHS "\"task_feature_lengths\":{\"inputs\":64,\"targets\":32},\"batch_size\":64"

static const char *const plans[] = {
    "{\"model\":\"t5_1_0_11B\",\"topology\":\"v4-512\",\"model_parallel_submesh\":[4,2,2,1],\"logical_axis_rules\":"
    "\"standard:1,1\",\"task_feature_lengths\":{\"inputs\":512,\"targets\":512},"
    "\"batch_size\":896,\"num_microbatches\":4,\"optimizer\":\"adamw\",\"remat_policy\":\"none\",\"dtype\":"
    "\"bfloat16\"}",
    "{\"model\":\"t5_1_1_small\",\"topology\":\"v4:2x2x2\"," LENGTHS "}",
    "{\"model\":\"t5_1_1_small\",\"topology\":\"v4:2x2x2\",\"num_partitions\":2,\"model_parallel_submesh\":[1,1,2,1]"
    "," LENGTHS ",\"num_microbatches\":1}",
    "{\"model\":\"scalable_t5_1_1_small\",\"topology\":\"h100:2x8\",\"num_partitions\":2,\"logical_axis_rules\":"
    "\"standard\"," LENGTHS ",\"remat_policy\":\"selective\",\"dtype\":\"fp8\"}",
    "{\"model\":\"scalable_umt5_xxl\",\"topology\":\"v4-512\",\"num_partitions\":8,\"logical_axis_rules\":\"standard:1,"
    "2\"," LENGTHS ",\"remat_policy\":\"full\",\"learning_rate\":0.01,\"seed\":42}",
    "{\"model\":\"scalable_t5_1_1_small\",\"topology\":\"local:4\"," LENGTHS
    ",\"remat_policy\":\"none\",\"optimizer\":\"sgd\"}",
    "{\"model\":\"t5_1_1_tiny\",\"topology\":\"local:2x2\",\"model_parallel_submesh\":[1,2]," LENGTHS
    ",\"dtype\":\"bfloat16\"}",
    "{\"model\":\"decoder_only:emb_dim=256,num_heads=8,num_kv_heads=2,head_dim=32,mlp_dim=512,num_layers=3,vocab_size="
    "512,parallel_block=1\",\"topology\":\"h100:4x8\",\"num_partitions\":2,"
    "\"task_feature_lengths\":{\"targets\":128},\"batch_size\":64,\"attention\":\"flash\",\"optimizer_partitioning\":"
    "\"data\",\"sequence_parallel\":1}",
    "{\"model\":\"scalable_decoder_only:emb_dim=256,num_heads=8,head_dim=32,mlp_dim=512,num_layers=3,vocab_size=512\","
    "\"topology\":\"a100-80g:2x8@nics=8,nic_gbps=200\","
    "\"task_feature_lengths\":{\"inputs\":7,\"targets\":128},\"batch_size\":64,\"memory_kind\":\"reserved\"}",
    "{\"model\":\"encoder_decoder:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=96,num_encoder_layers=2,num_decoder_"
    "layers=1,vocab_size=128,float32_attention_logits=1\",\"topology\":\"v5e:4x8\","
    "\"model_parallel_submesh\":[2,2,1,1],\"logical_axis_rules\":[[\"batch\",\"data\"],[\"embed\",[\"model\"]],[\"x\\n'"
    "\\\\\",null]]," LENGTHS "}",
    "{\"model\":\"t5_1_1_small\",\"topology\":\"v4:2x2x2\",\"logical_axis_rules\":[[\"batch\",[\"data\",\"model\"]],["
    "null,\"model\"],[\"length\",\"__UNCONSTRAINED__\"]]," LENGTHS "}",
    "{\"model\":\"t5_1_1_small\",\"topology\":\"v4:2x2x2\",\"logical_axis_rules\":\"zero3\"," LENGTHS
    ",\"adafactor\":{\"factored\":false,\"beta1\":0.9,\"clipping_threshold\":null,\"epsilon1\":1e-20}}",
    "{\"model\":\"t5_1_1_small\",\"topology\":\"v4:2x2x2\",\"logical_axis_rules\":\"gshard\"," LENGTHS
    ",\"adafactor\":\"min_dim_size_to_factor=64,dtype_momentum=bfloat16\"}",
    "{\"model\":\"scalable_t5_1_1_small\",\"topology\":\"v4:2x2x2\",\"num_partitions\":2," LENGTHS
    ",\"params_axes_names_override\":[[\"decoder/.*/layer_norm/"
    "scale\",null],[\".*relpos.*\",[\"heads\",\"layers\",\"relpos_buckets\"]]]}",
    "{\"model\":\"@tests/data/"
    "model_gqa.json\",\"topology\":\"h100:1x1\",\"task_feature_lengths\":{\"targets\":128},\"batch_size\":8}",
};

static void exported_plans_come_back(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(plans); i++) {
        struct sim_plan_text text = plan_of_json(arena, plans[i]);
        TEST_ROW("%s", plans[i]);
        if (*text.values[SIM_MODEL] != '@') check_comes_back(arena, cache, &text);
        /* Through JSON, too, the plan is what it was. */
        struct sim_plan_text again = plan_of_json(arena, plan_json(arena, &text));
        assert_string_equal(plan_json(arena, &again), plan_json(arena, &text));
    }
    sim_cache_free(cache);
}

static void the_example_table_comes_back(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    bool more;
    int rows = 0;
    assert_ok(base_csv_open(&csv, arena, "examples/tpu_v4_tuning.csv", &error), &error);
    for (;;) {
        struct sim_plan_text text = {{0}};
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        for (int key = 0; key < SIM_KEY_COUNT; key++)
            text.values[key] = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, sim_plan_keys[key].name)));
        TEST_ROW("line %lld", (long long)csv.line_number);
        check_comes_back(arena, cache, &text);
        rows++;
    }
    base_csv_close(&csv);
    assert_true(rows >= 20);
    sim_cache_free(cache);
}

/* A value of each key, or none of it. */
static struct sim_plan_text any_plan(struct base_arena *arena, struct base_random *random)
{
    static const struct {
        enum sim_key key;
        const char *values[10];
    } choices[] = {
        {SIM_MODEL,
         {"t5_1_1_small", "scalable_t5_1_1_small", "decoder_only_base", "mt5_base", "byt5_small",
          "encoder_decoder:emb_dim=64,num_heads=8,head_dim=16,mlp_dim=128,num_layers=2,vocab_size=256",
          "decoder_only:emb_dim=128,num_heads=8,num_kv_heads=4,head_dim=16,mlp_dim=128,num_layers=2,vocab_size=256,mlp_"
          "activations=silu+linear"}},
        {SIM_TOPOLOGY, {"v4:2x2x2", "v3-32", "h100:2x8", "local:4"}},
        {SIM_NUM_PARTITIONS, {"", "1", "2", "4"}},
        {SIM_RULES,
         {"", "standard", "standard:1,1", "standard:2,1", "standard:1,2", "standard:2,2", "data_only", "zero3",
          "megatron", "[[\"batch\",\"data\"],[\"mlp\",\"model\"]]"}},
        {SIM_BATCH_SIZE, {"64", "128"}},
        {SIM_INPUTS_LENGTH, {"64", "96"}},
        {SIM_TARGETS_LENGTH, {"32"}},
        {SIM_NUM_MICROBATCHES, {"", "0", "1", "2", "8"}},
        {SIM_OPTIMIZER, {"", "adafactor", "adamw", "lion", "sgd"}},
        {SIM_REMAT_POLICY, {"", "none", "minimal", "selective", "full"}},
        {SIM_DTYPE, {"", "bfloat16", "float32", "float16"}},
        {SIM_ATTENTION, {"", "unfused", "flash"}},
        {SIM_OPTIMIZER_PARTITIONING, {"", "none", "data"}},
        {SIM_SEQUENCE_PARALLEL, {"", "0"}},
        {SIM_LEARNING_RATE, {"", "0.001", "1e-05", "3"}},
        {SIM_SEED, {"", "0", "7"}},
        {SIM_SOFTWARE, {"", "t5x"}},
    };
    struct sim_plan_text text = {{0}};
    (void)arena;
    for (int i = 0; i < BASE_COUNT(choices); i++) {
        int count = 0;
        while (count < BASE_COUNT(choices[i].values) && choices[i].values[count]) count++;
        text.values[choices[i].key] = choices[i].values[base_random_below(random, count)];
    }
    return text;
}

static void any_plan_that_stands_comes_back(struct base_arena *arena)
{
    const char *trips = getenv("IMPORT_TRIPS");
    const int64_t plan_count = trips ? 10 * strtoll(trips, NULL, 10) : 400;
    struct sim_cache *cache = sim_cache_new(arena);
    jmp_buf exhausted;
    struct base_arena own = {.exhausted = &exhausted};
    struct base_random random;
    int good = 0;
    if (setjmp(exhausted)) fail_msg("the arena is exhausted");
    base_random_seed(&random, 11);
    for (int64_t i = 0; i < plan_count; i++) {
        struct sim_plan_text text = any_plan(&own, &random);
        struct sim_plan plan;
        struct base_error error;
        TEST_ROW("plan %lld of model %s, rules %s", (long long)i, text.values[SIM_MODEL], text.values[SIM_RULES]);
        if (sim_plan_check(cache, &own, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_OK) {
            check_comes_back(&own, cache, &text);
            good++;
        }
        base_arena_reset(&own);
    }
    TEST_ROW("%d of %lld plans stand", good, (long long)plan_count);
    assert_true(good > plan_count / 4);
    base_arena_free(&own);
    sim_cache_free(cache);
}

static void what_gin_cannot_say_is_refused(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = plan_of_json(arena, plans[1]);
    struct sim_plan plan;
    struct base_error error;
    struct base_text out = {.arena = arena};
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    text.values[SIM_BATCH_SIZE] = "+64";
    text.values[SIM_MEMORY_KIND] = "device\n# meshwright: seed = 1";
    assert_fails(reports_launch(arena, "gin", &text, &plan, &out, &error), BASE_INPUT, &error,
                 "memory_kind: contains a line break");
    text.values[SIM_MEMORY_KIND] = " device";
    assert_fails(reports_launch(arena, "gin", &text, &plan, &out, &error), BASE_INPUT, &error,
                 "memory_kind: gin would read  device back as device");
    assert_fails(reports_launch(arena, "slurm", &text, &plan, &out, &error), BASE_INPUT, &error,
                 "v4:2x2x2 has no GPU nodes");
    assert_fails(reports_launch(arena, "yaml", &text, &plan, &out, &error), BASE_USAGE, &error, "yaml");
    assert_int_equal(out.length, 0);
    sim_cache_free(cache);
}

/* ---- JAX ---- */

/* The numbers behind a word, up to the bracket that closes. */
static int numbers_after(const char *text, const char *word, int *out, int limit)
{
    const char *at = strstr(text, word);
    int count = 0;
    if (!at) return 0;
    for (at += strlen(word); *at != ')' && *at && count < limit;) {
        char *end;
        out[count++] = (int)strtol(at, &end, 10);
        at = end + strspn(end, ", ");
    }
    return count;
}

/* Works the script's reshape and transpose out as NumPy does, and compares with the mesh's devices. */
static void check_order(struct base_arena *arena, const char *script, const struct topo_topology *topology,
                        const struct topo_mesh *mesh)
{
    enum { MOST = 32 };
    int sizes[MOST], places[MOST], strides[MOST];
    int count = numbers_after(script, "grid = grid.reshape(", sizes, MOST),
        listed = numbers_after(script, ".transpose(", places, MOST);
    assert_int_equal(count, listed);
    assert_null(strstr(script, "reshape(-1)"));
    for (int i = count, stride = 1; i-- > 0; stride *= sizes[i]) strides[i] = stride;
    int *index = base_new(arena, int, MOST);
    for (int rank = 0; rank < mesh->device_count; rank++) {
        int flat = count ? 0 : rank, expected = 0;
        for (int i = 0; i < count; i++) flat += index[i] * strides[places[i]];
        for (int i = 0; i < topology->bounds_count; i++)
            expected = expected * topology->bounds[i] + mesh->devices[rank][i];
        assert_int_equal(flat, expected);
        for (int i = count; i-- > 0 && ++index[i] == sizes[places[i]];) index[i] = 0;
    }
}

static void the_mesh_in_jax_is_that_of_t5x(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh, *partitions;
    } rows[] = {
        {"v4-512", "4,2,2,1", ""},   {"v4-512", "2,4,2,1", ""},
        {"v3-32", "2,1,1,2", ""},    {"v3-32", "", "8"},
        {"v4:4x4x4", "4,1,1,1", ""}, {"v4:4x4x8", "1,4,8,1", ""},
        {"v4:4x8x8", "4,8,8,1", ""}, {"v4:2x2x2", "", "1"},
        {"v5e:4x8", "2,4,1,1", ""},  {"v5e:16x16", "4,4,1,1", ""},
        {"a100-80g:8x8", "2,2", ""}, {"h100:8x8", "", "16"},
        {"h100:1x1", "", "1"},       {"local:4", "", "2"},
        {"local:2x2", "2,1", ""},    {"v4:12x12x12", "4,6,2,1", ""},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = {{0}};
        struct sim_plan plan;
        struct topo_mesh mesh;
        struct base_error error;
        struct topo_mesh_request request = {.tile_by_host_if_needed = true};
        TEST_ROW("%s %s%s", rows[i].topology, rows[i].submesh, rows[i].partitions);
        text.values[SIM_MODEL] = "t5_1_1_tiny";
        text.values[SIM_TOPOLOGY] = rows[i].topology;
        text.values[SIM_SUBMESH] = rows[i].submesh;
        text.values[SIM_NUM_PARTITIONS] = rows[i].partitions;
        text.values[SIM_RULES] = "data_only";
        text.values[SIM_BATCH_SIZE] = "55296";
        text.values[SIM_INPUTS_LENGTH] = text.values[SIM_TARGETS_LENGTH] = "16";
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        const char *script = exported(arena, cache, "jax", &text);
        request.submesh_count = plan.request.submesh_count;
        memcpy(request.submesh, plan.request.submesh, sizeof request.submesh);
        request.num_partitions = plan.request.num_partitions;
        assert_ok(topo_mesh_build(arena, &plan.placement->topology, &request, TOPO_WITH_DEVICES, &mesh, &error),
                  &error);
        check_order(arena, script, &plan.placement->topology, &mesh);
        assert_non_null(strstr(script, base_print(arena, "grid.reshape(%d, %d), ('data', 'model'))", mesh.axes.sizes[0],
                                                  mesh.axes.sizes[1])));
    }
    sim_cache_free(cache);
}

/* ---- hostile texts ---- */

static const char *repeated(struct base_arena *arena, const char *piece, int count, const char *before,
                            const char *after)
{
    struct base_text text = {.arena = arena};
    base_put(&text, before);
    for (int i = 0; i < count; i++) base_put(&text, piece);
    base_put(&text, after);
    return text.data;
}

static void limits_hold(struct base_arena *arena)
{
    const struct {
        const char *text, *message;
    } rows[] = {
        {repeated(arena, "[", 100000, "a = ", ""), "more than 64 levels"},
        {repeated(arena, "{'a':", 1000, "a = ", "1"), "more than 64 levels"},
        {repeated(arena, "1,", 70000, "a = [", "]"), "more than 65536 values"},
        {repeated(arena, "a.b = 1\n", 5000, "", ""), "more than 4096 bindings"},
        {repeated(arena, "import a.b\n", 2000, "", ""), "more than 1024 imports"},
        {repeated(arena, "9", 100, "a = ", ""), "a number of more than 63 digits"},
        {repeated(arena, "include 't5x/configs/runs/pretrain.gin'\n", 300, "", ""), "more than"},
        {repeated(arena, "-", 100, "a = ", "1"), "no value begins"},
        {repeated(arena, "x", 3000, "include '", "'"), "include needs the name of a file"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct model_gin *gin;
        struct base_error error;
        TEST_ROW("%d: %s", i, rows[i].message);
        assert_fails(model_gin_parse(arena, "x.gin", rows[i].text, &gin, &error), BASE_INPUT, &error, rows[i].message);
    }
    /* Long names, many comments and many notes are kept within bounds. */
    struct sim_gin_plan plan;
    struct base_error error;
    struct model_gin *gin = parsed(arena, repeated(arena, "a.b.c_", 5000, "BATCH_SIZE = 3\n", "d = 1\n"));
    assert_ok(sim_plan_from_gin(gin, &plan, &error), &error);
    gin = parsed(arena, repeated(arena, "# meshwright: nothing = 1\n", 5000, "BATCH_SIZE = 3\n", ""));
    assert_ok(sim_plan_from_gin(gin, &plan, &error), &error);
    assert_true(gin->note_count <= 256);
}

/* One of: a byte changed, a piece cut out, doubled, or taken from another place. */
static char *mutated(struct base_arena *arena, struct base_random *random, const char *text)
{
    static const char *const pieces[] = {"\n",
                                         "  ",
                                         "#",
                                         "'",
                                         "\"\"\"",
                                         "(",
                                         ")",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         ":",
                                         ",",
                                         "=",
                                         "%",
                                         "@",
                                         "/",
                                         ".",
                                         "\\",
                                         "\\\n",
                                         "None",
                                         "True",
                                         "-1",
                                         "0",
                                         "1e400",
                                         "%gin.REQUIRED",
                                         "include 'x.gin'\n",
                                         "# meshwright: model = @x.gin\n",
                                         "# meshwright: defaults = ",
                                         "9999999999",
                                         "\xff",
                                         "\r",
                                         "\t"};
    struct base_text out = {.arena = arena};
    int64_t length = (int64_t)strlen(text), at = base_random_below(random, length + 1),
            count = base_random_below(random, length - at + 1 < 40 ? length - at + 1 : 40);
    base_put_bytes(&out, text, (size_t)at);
    switch (base_random_below(random, 4)) {
    case 0:
        base_put(&out, pieces[base_random_below(random, BASE_COUNT(pieces))]);
        count = 0;
        break;
    case 1: base_put(&out, pieces[base_random_below(random, BASE_COUNT(pieces))]); break;
    case 2:
        base_put_bytes(&out, text + at, (size_t)count);
        count = 0;
        break;
    default: break;
    }
    base_put(&out, text + at + count);
    return out.data;
}

static enum base_status read_all(struct base_arena *arena, const char *text, const char **json,
                                 struct base_error *error)
{
    struct model_gin *gin;
    struct sim_gin_plan plan;
    BASE_TRY(model_gin_parse(arena, "x.gin", text, &gin, error));
    BASE_TRY(sim_plan_from_gin(gin, &plan, error));
    *json = base_print(arena, "%s\n%s", plan_json(arena, &plan.text), notes_of(arena, gin));
    return BASE_OK;
}

/* Whatever it reads, it ends, says where, and says the same again. */
static void mutated_files_end_in_a_plan_or_a_message(struct base_arena *arena)
{
    enum { ROUNDS = 1500, LARGEST_BYTES = 1 << 20 };
    static const char *const seeds[] = {"tests/data/gin/house/models/translator.gin",
                                        "tests/data/gin/house/runs/train.gin", "tests/data/gin/house/translate.gin",
                                        "examples/wmt_two_way.gin"};
    const char *texts[BASE_COUNT(seeds) + 1];
    size_t length;
    struct base_error error, again;
    struct base_random random;
    jmp_buf exhausted;
    struct base_arena own = {.exhausted = &exhausted};
    if (setjmp(exhausted)) fail_msg("the arena is exhausted");
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text plan = plan_of_json(arena, plans[7]);
    for (int i = 0; i < BASE_COUNT(seeds); i++)
        assert_ok(base_read_file(arena, seeds[i], LARGEST_BYTES, &texts[i], &length, &error), &error);
    texts[BASE_COUNT(seeds)] = exported(arena, cache, "gin", &plan);
    base_random_seed(&random, 5);
    int good = 0, bad = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const char *text = texts[round % BASE_COUNT(texts)], *first = "", *second = "";
        for (int64_t edits = 1 + base_random_below(&random, 4); edits > 0; edits--) text = mutated(&own, &random, text);
        TEST_ROW("round %d", round);
        enum base_status status = read_all(&own, text, &first, &error);
        assert_true(status == BASE_OK || status == BASE_INPUT);
        assert_int_equal(read_all(&own, text, &second, &again), status);
        assert_string_equal(status == BASE_OK ? first : error.text, status == BASE_OK ? second : again.text);
        if (status == BASE_OK) good++;
        else assert_true(error.status == BASE_INPUT && *error.text), bad++;
        base_arena_reset(&own);
    }
    TEST_ROW("%d read, %d refused", good, bad);
    assert_true(good > ROUNDS / 20 && bad > ROUNDS / 20);
    base_arena_free(&own);
    sim_cache_free(cache);
}

int main(int argument_count, char **arguments)
{
    static const struct test tests[] = {
        TEST(values_are_read_as_python_writes_them),
        TEST(statements_that_are_none_are_refused_with_their_line),
        TEST(bindings_are_found_as_gin_finds_them),
        TEST(places_are_those_of_the_file),
        TEST(includes_are_searched),
        TEST(bindings_become_a_plan),
        TEST(what_cannot_be_is_refused_with_its_line),
        TEST(a_house_of_files_becomes_a_plan),
        TEST(the_zoo_comes_back),
        TEST(exported_plans_come_back),
        TEST(the_example_table_comes_back),
        TEST(any_plan_that_stands_comes_back),
        TEST(what_gin_cannot_say_is_refused),
        TEST(the_mesh_in_jax_is_that_of_t5x),
        TEST(limits_hold),
        TEST(mutated_files_end_in_a_plan_or_a_message),
    };
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
