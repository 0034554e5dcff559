/* Tests of models as Hugging Face's config.json has them, of the zoo's names as people write them, and of changes to a
 * model of the zoo. Counts are those of transformers 5.24 (tests/data/huggingface_configs.json). */
#include "tests/test.h"

#include "model/model.h"

#include <unistd.h>

static int64_t count_of(struct base_arena *arena, const struct model_config *config)
{
    const struct model_parameter *parameters;
    struct base_error error;
    int64_t elements = 0;
    int count;
    assert_ok(model_parameters(arena, config, &parameters, &count, &error), &error);
    for (int i = 0; i < count; i++) {
        int64_t of = 1;
        for (int d = 0; d < parameters[i].rank; d++) of *= parameters[i].shape[d];
        elements += of;
    }
    return elements;
}

static const struct base_json *read_json(struct base_arena *arena, const char *text)
{
    const struct base_json *value;
    struct base_error error;
    assert_ok(base_json_parse(arena, text, strlen(text), &value, &error), &error);
    return value;
}

static void configs_have_the_parameters_of_transformers(struct base_arena *arena)
{
    const char *line;
    struct base_error error;
    for (const struct base_json *at = test_read_json(arena, "huggingface_configs.json")->child; at; at = at->next) {
        const struct base_json *config = base_json_get(at, "config");
        struct model_config read;
        TEST_ROW("%s", base_json_get(at, "name")->string);
        assert_true(model_is_huggingface(config));
        assert_ok(model_huggingface_line(arena, config, &line, &error), &error);
        assert_ok(model_config_parse(arena, line, &read, &error), &error);
        assert_true(count_of(arena, &read) == (int64_t)base_json_get(at, "parameter_count")->number);
    }
}

/* A multimodal model's text model is read, and the member that is left out is told. */
static void multimodal_parts_are_told(struct base_arena *arena)
{
    static const char text[] = "{\"model_type\":\"qwen3_vl\",\"vision_config\":{\"depth\":2},\"text_config\":{"
                               "\"model_type\":\"qwen3_vl_text\",\"vocab_size\":64,\"hidden_size\":8,"
                               "\"intermediate_size\":16,\"num_hidden_layers\":4,\"num_attention_heads\":2}}";
    const char *path = base_print(arena, "/tmp/meshwright_multimodal_%ld.json", (long)getpid());
    struct base_output output;
    struct model_config config;
    struct base_error error;
    assert_ok(base_output_open(&output, path, &error), &error);
    fputs(text, output.file);
    assert_ok(base_output_commit(&output, &error), &error);
    assert_ok(model_config_parse(arena, base_print(arena, "@%s", path), &config, &error), &error);
    remove(path);
    assert_string_equal(config.left_out, "vision_config");
    assert_null(model_huggingface_left_out(read_json(arena, "{\"model_type\":\"qwen3\"}")));
}

#define LLAMA                                                                                                          \
    "\"model_type\":\"llama\",\"vocab_size\":64,\"hidden_size\":8,\"intermediate_size\":16,\"num_hidden_layers\":4,"   \
    "\"num_attention_heads\":2"

static void configs_that_are_not_modelled_are_told_by_name(struct base_arena *arena)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"{\"model_type\":\"lama\"}", "did you mean llama"},
        {"{\"model_type\":\"llama4_text\"}", "llama4_text is not modelled: it has attention in chunks"},
        {"{\"model_type\":3}", "model_type: is no name"},
        {"{\"text_config\":{}}", "model_type: is no name"},
        {"{\"model_type\":\"llama\"}", "num_hidden_layers|n_layer: missing"},
        {"{" LLAMA ",\"hidden_act\":\"snake\"}", "hidden_act: \"snake\" is an activation"},
        {"{" LLAMA ",\"hidden_act\":[]}", "hidden_act: is no name"},
        {"{" LLAMA ",\"num_key_value_heads\":1.5}", "num_key_value_heads: is no whole number"},
        {"{" LLAMA ",\"num_key_value_heads\":-1}", "num_key_value_heads: is no whole number"},
        {"{" LLAMA ",\"head_dim\":1e300}", "head_dim: is no whole number"},
        {"{" LLAMA ",\"sliding_window\":8,\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\","
         "\"full_attention\"]}",
         "layer_types: windows in layers"},
        {"{" LLAMA ",\"sliding_window\":8,\"layer_types\":[1]}", "layer_types: attention other than"},
        {"{" LLAMA ",\"num_experts\":4,\"num_experts_per_tok\":2,\"mlp_only_layers\":[2]}", "mlp_only_layers: dense"},
        {"{" LLAMA ",\"rope_theta\":0}", "rope_theta: is 0, not above 0"},
        {"{" LLAMA ",\"residual_multiplier\":0}", "residual_multiplier: is 0"},
        {"{" LLAMA ",\"embedding_multiplier\":0}", "embedding_multiplier: is 0"},
        {"{" LLAMA ",\"attention_multiplier\":0}", "attention_multiplier: is 0"},
        {"{" LLAMA ",\"logits_scaling\":-3}", "logits_scaling: is -3"},
        {"{" LLAMA ",\"rms_norm_eps\":0}", "rms_norm_eps: is 0"},
        {"{" LLAMA ",\"partial_rotary_factor\":-0.5}", "partial_rotary_factor: is -0.5"},
        {"{" LLAMA ",\"partial_rotary_factor\":1e300}", "partial_rotary_factor|rotary_pct: is above 1"},
        {"{" LLAMA ",\"rope_scaling\":7}", "rope_scaling: is no object"},
        {"{\"model_type\":\"smollm3\",\"vocab_size\":64,\"hidden_size\":8,\"intermediate_size\":16,"
         "\"num_hidden_layers\":4,\"num_attention_heads\":2,\"no_rope_layers\":7}",
         "no_rope_layers: other than a list"},
        {"{" LLAMA ",\"rope_parameters\":{\"full_attention\":7}}", "full_attention: is no object"},
        {"{\"model_type\":\"t5\",\"d_model\":8,\"d_kv\":4,\"d_ff\":16,\"num_heads\":2,\"vocab_size\":64,"
         "\"num_layers\":2,\"relative_attention_num_buckets\":16}",
         "relative_attention_num_buckets: a table"},
        {"{\"model_type\":\"opt\",\"hidden_size\":8,\"ffn_dim\":16,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
         "\"vocab_size\":64,\"max_position_embeddings\":16,\"do_layer_norm_before\":false}",
         "do_layer_norm_before: norms after"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *line;
        struct base_error error;
        TEST_ROW("%s", rows[i].text);
        assert_fails(model_huggingface_line(arena, read_json(arena, rows[i].text), &line, &error), BASE_INPUT, &error,
                     rows[i].part);
    }
}

#define SIZES                                                                                                          \
    "\"vocab_size\":64,\"hidden_size\":64,\"intermediate_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":2," \
    "\"head_dim\":64"
#define EXPERTS SIZES ",\"num_local_experts\":4,\"num_experts_per_tok\":2"

/* Without keys, numbers are those of the family's configuration class in transformers 5.24. */
static void numbers_are_those_of_transformers(struct base_arena *arena)
{
    static const struct {
        const char *text, *part, *lacks;
    } rows[] = {
        {"{\"model_type\":\"llama\"," SIZES "}", "attention_scale=0.125,", "rope_theta="},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":null}", "attention_scale=0.125,", "rotary_dim="},
        {"{\"model_type\":\"smollm3\"," SIZES "}", "rope_theta=2000000,", "norm_epsilon="},
        {"{\"model_type\":\"smollm3\"," SIZES ",\"rope_parameters\":{\"rope_theta\":1e4}}", "rotary", "rope_theta="},
        {"{\"model_type\":\"olmo2\"," SIZES "}", "norm_epsilon=1e-05,", "rope_theta="},
        {"{\"model_type\":\"smollm3\"," SIZES "}", "no_rope_every=4,", "norm_epsilon="},
        {"{\"model_type\":\"gpt_neox\"," SIZES ",\"hidden_act\":\"gelu\"}", "exact_gelu=1,", "rope_theta="},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
         "\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}}",
         "rope_scaling=llama3,rope_factor=8,rope_length=8192,rope_slow=1,rope_fast=4,", "rope_gain="},
        {"{\"model_type\":\"glm\"," SIZES "}", "rotary_dim=32,norm_epsilon=1.5625e-07,", "rope_theta="},
        {"{\"model_type\":\"gpt_neox\"," SIZES "}", "rotary_dim=16,norm_epsilon=1e-05,", "rope_theta="},
        {"{\"model_type\":\"gpt_neox\"," SIZES ",\"rotary_pct\":1}", "rotary", "rotary_dim="},
        {"{\"model_type\":\"gpt_oss\"," EXPERTS "}", "rope_theta=150000,norm_epsilon=1e-05,gate_limit=7,",
         "rotary_dim="},
        {"{\"model_type\":\"gemma3_text\"," SIZES ",\"sliding_window\":8}", "rope_local_theta=10000,", "rotary_dim="},
        {"{\"model_type\":\"gemma3_text\"," SIZES "}", "rope_theta=1000000,", "rope_local_theta="},
        {"{\"model_type\":\"minimax_m2\"," EXPERTS ",\"rotary_dim\":32}", "rope_theta=5000000,rotary_dim=32,", "zzz"},
        {"{\"model_type\":\"minimax_m2\"," EXPERTS "}", "router_score=sigmoid", "rotary_dim="},
        {"{\"model_type\":\"dots1\"," EXPERTS ",\"first_k_dense_replace\":2}", "rotary", "router_score="},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *line;
        struct model_config config;
        struct base_error error;
        TEST_ROW("%s", rows[i].text);
        assert_ok(model_huggingface_line(arena, read_json(arena, rows[i].text), &line, &error), &error);
        assert_ok(model_config_parse(arena, line, &config, &error), &error);
        if (!strstr(line, rows[i].part) || strstr(line, rows[i].lacks)) fail_msg("%s", line);
    }
}

/* What is no number, no model or too long ends in a message. */
static void configs_with_random_values_parse_or_are_refused(struct base_arena *arena)
{
    static const char *const values[] = {"0", "-1", "1e9", "1e308", "null", "true", "[]", "{}", "\"x\"", "3"},
                             *const keys[] = {"head_dim",
                                              "num_key_value_heads",
                                              "sliding_window",
                                              "layer_types",
                                              "num_experts",
                                              "num_experts_per_tok",
                                              "kv_lora_rank",
                                              "mlp_only_layers",
                                              "decoder_sparse_step",
                                              "rope_theta",
                                              "rope_scaling",
                                              "partial_rotary_factor",
                                              "logits_scaling",
                                              "attn_logit_softcapping",
                                              "original_max_position_embeddings"};
    for (int i = 0; i < BASE_COUNT(keys); i++)
        for (int j = 0; j < BASE_COUNT(values); j++) {
            const char *scaled = strstr(keys[i], "position") ? ",\"rope_scaling\":{\"rope_type\":\"yarn\"}" : "",
                       *text = base_print(arena, "{" LLAMA "%s,\"%s\":%s}", scaled, keys[i], values[j]), *line;
            struct model_config config;
            struct base_error error;
            TEST_ROW("%s", text);
            if (model_huggingface_line(arena, read_json(arena, text), &line, &error) != BASE_OK) continue;
            if (model_config_parse(arena, line, &config, &error) == BASE_OK) count_of(arena, &config);
        }
}

/* Members that a run does not compute are named; others are not. */
static void what_no_run_computes_is_named(struct base_arena *arena)
{
    static const char *const rows[][2] = {
        {"{" LLAMA ",\"attention_dropout\":0.1,\"clip_qkv\":8,\"rope_scaling\":{\"rope_type\":\"longrope\"}}",
         "rope_scaling, attention_dropout, clip_qkv"},
        {"{" LLAMA ",\"attention_dropout\":0.0,\"clip_qkv\":null,\"rope_scaling\":{\"type\":\"yarn\"},"
         "\"output_router_logits\":false}",
         ""},
        {"{\"model_type\":\"gpt2\",\"scale_attn_weights\":false,\"output_router_logits\":true}",
         "output_router_logits, scale_attn_weights"},
        {"{\"text_config\":{\"model_type\":\"llama\",\"attention_dropout\":0.5}}", "attention_dropout"},
        {"{\"attn_pdrop\":1,\"resid_pdrop\":1,\"residual_dropout\":1,\"embd_pdrop\":1,\"embedding_dropout\":1,"
         "\"hidden_dropout\":1,\"activation_dropout\":1,\"dropout\":1}",
         "attn_pdrop, resid_pdrop, residual_dropout, embd_pdrop, embedding_dropout, hidden_dropout, …"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        char named[96], short_of_room[8];
        TEST_ROW("%s", rows[i][0]);
        model_huggingface_unrun(read_json(arena, rows[i][0]), named, sizeof named);
        assert_string_equal(named, rows[i][1]);
        model_huggingface_unrun(read_json(arena, rows[i][0]), short_of_room, sizeof short_of_room);
    }
}

static void models_are_found_as_people_write_them(struct base_arena *arena)
{
    static const char *const rows[][2] = {{"meta-llama/Llama-3.1-8B", "llama3_8b"},
                                          {"meta-llama/Llama-3.1-70B-Instruct", "llama3_70b"},
                                          {"meta-llama/Meta-Llama-3-8B", "llama3_8b"},
                                          {"meta-llama/Llama-3.2-1B", "llama3_2_1b"},
                                          {"meta-llama/Llama-2-7b-hf", "llama2_7b"},
                                          {"llama3.1-8b", "llama3_8b"},
                                          {"Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3_30b_a3b"},
                                          {"Qwen/Qwen2.5-7B", "qwen2_5_7b"},
                                          {"mistralai/Mixtral-8x7B-v0.1", "mixtral_8x7b"},
                                          {"deepseek-ai/DeepSeek-V3-0324", "deepseek_v3"},
                                          {"deepseek-ai/DeepSeek-V2-Lite", "deepseek_v2_lite"},
                                          {"openai/gpt-oss-120b", "gpt_oss_120b"},
                                          {"google/gemma-2-9b-it", "gemma2_9b"},
                                          {"google/gemma-3-4b-pt", "gemma3_4b"},
                                          {"allenai/OLMo-2-1124-7B", "olmo2_7b"},
                                          {"microsoft/phi-4", "phi4_14b"},
                                          {"bigscience/bloom", "bloom_176b"},
                                          {"facebook/opt-2.7b", "opt_2_7b"},
                                          {"mosaicml/mpt-7b", "mpt_7b"},
                                          {"databricks/dbrx-instruct", "dbrx_132b"}};
    const struct model_zoo_model *models;
    int count;
    models = model_zoo(arena, &count);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i][0]);
        const char *found = model_zoo_meant(models, count, rows[i][0]);
        assert_non_null(found);
        assert_string_equal(found, rows[i][1]);
    }
}

static void models_of_the_zoo_take_changes(struct base_arena *arena)
{
    struct model_config config, whole;
    struct base_error error;
    assert_ok(model_config_parse(arena, "mixtral_8x7b", &whole, &error), &error);
    assert_ok(model_config_parse(arena, "mixtral_8x7b:num_layers=1", &config, &error), &error);
    assert_int_equal(config.num_decoder_layers, 1);
    assert_int_equal(config.experts.count, whole.experts.count);
    assert_string_equal(config.name, "mixtral_8x7b:num_layers=1");
    assert_ok(model_config_parse(arena, "deepseek-ai/DeepSeek-V2-Lite:num_layers=4,vocab_size=128", &config, &error),
              &error);
    assert_int_equal(config.vocab_size, 128);
    assert_int_equal(config.experts.decoder_sparse_layers, 3);
    assert_fails(model_config_parse(arena, "deepseek_v2_lite:num_layers=1", &config, &error), BASE_INPUT, &error,
                 "leave none with experts");
    assert_fails(model_config_parse(arena, "mixtral_8x7b:num_layer=1", &config, &error), BASE_INPUT, &error,
                 "did you mean num_layers");
    assert_fails(model_config_parse(arena, "mixtral_8x7:num_layers=1", &config, &error), BASE_INPUT, &error,
                 "did you mean mixtral_8x7b");
}

static const struct test tests[] = {
    TEST(configs_have_the_parameters_of_transformers),
    TEST(multimodal_parts_are_told),
    TEST(configs_that_are_not_modelled_are_told_by_name),
    TEST(configs_with_random_values_parse_or_are_refused),
    TEST(what_no_run_computes_is_named),
    TEST(models_are_found_as_people_write_them),
    TEST(models_of_the_zoo_take_changes),
    TEST(numbers_are_those_of_transformers),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
