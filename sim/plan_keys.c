/* The keys of a plan, one row each, and what goes by the rows alone: defaults, words and numbers read and written. */
#include "sim/plan_keys.h"

#include <stddef.h>
#include <string.h>

enum { LONGEST_LENGTH = 1 << 24, LARGEST_BATCH = 1 << 30 };

enum {
    TEXT = 1 << BASE_JSON_STRING,
    NUMBER = 1 << BASE_JSON_NUMBER,
    LIST = 1 << BASE_JSON_ARRAY,
    OBJECT = 1 << BASE_JSON_OBJECT
};

#define FIELD(member) .offset = offsetof(struct sim_plan, member), .size = sizeof(((struct sim_plan *)0)->member)

const struct sim_plan_key sim_plan_keys[SIM_KEY_COUNT] = {
    [SIM_MODEL] = {.name = "model",
                   .json = TEXT,
                   .option = {"--model", "MODEL", "zoo name, one line, @model.json, or @model.gin", NULL},
                   .example = "t5_1_1_xxl",
                   .type = SIM_OF_TEXT,
                   FIELD(model_text)},
    [SIM_TOPOLOGY] = {.name = "topology",
                      .json = TEXT,
                      .option = {"--topology", "T", "v4-512, v4:4x8x8, h100:16x8, local:4, …", NULL},
                      .example = "v4-512",
                      .type = SIM_OF_TEXT,
                      FIELD(topology_text)},
    [SIM_SUBMESH] = {.name = "model_parallel_submesh",
                     .json = LIST,
                     .option = {"--model-parallel-submesh", "X,Y,Z,C", "the tile of one model group", NULL},
                     .type = SIM_OF_MESH,
                     .chart = {1, "submesh", "submesh ", ""}},
    [SIM_NUM_PARTITIONS] = {.name = "num_partitions",
                            .json = NUMBER,
                            .option = {"--num-partitions", "N", "or T5X's table of tiles", NULL},
                            .fallback = "1",
                            .gin_binds = true,
                            .type = SIM_OF_MESH,
                            .chart = {2, "partitions", "", " partitions"}},
    [SIM_ICI_MESH] = {.name = "ici_mesh",
                      .json = OBJECT | TEXT,
                      .option = {"--ici-mesh", "SIZES",
                                 "or a mesh of named axes in JAX's device order: data=2,fsdp=4,tensor=2", NULL},
                      .t5x_lacks = "ici_mesh",
                      .type = SIM_OF_MESH,
                      .chart = {17, "mesh", "mesh ", ""}},
    [SIM_DCN_MESH] = {.name = "dcn_mesh",
                      .json = OBJECT | TEXT,
                      .option = {"--dcn-mesh", "SIZES", "slices, or processes, along the axes of --ici-mesh: data=2",
                                 NULL},
                      .type = SIM_OF_MESH,
                      .chart = {18, "over slices", "over slices ", ""}},
    [SIM_SPLIT_PHYSICAL_AXES] = {.name = "split_physical_axes",
                                 .json = NUMBER,
                                 .option = {"--split-physical-axes", "0|1",
                                            "1 lets axes of --ici-mesh share a dimension of the torus", NULL},
                                 .type = SIM_OF_MESH},
    [SIM_CONTIGUOUS_SUBMESHES] = {.name = "contiguous_submeshes",
                                  .json = NUMBER,
                                  .option = {"--contiguous-submeshes", "0|1",
                                             "1 asks JAX for compact boxes of the last axis of --ici-mesh", NULL},
                                  .type = SIM_OF_MESH},
    [SIM_NUM_EXPERT_PARTITIONS] = {.name = "num_expert_partitions",
                                   .json = NUMBER,
                                   .option = {"--num-expert-partitions", "N",
                                              "T5X's experts: cut the data axis into data and expert", NULL},
                                   .type = SIM_OF_MESH,
                                   .chart = {19, "expert partitions", "", " expert partitions"}},
    [SIM_RULES] = {.name = "logical_axis_rules",
                   .json = TEXT | LIST,
                   .option = {"--logical-axis-rules",
                              "standard:A,P|data_only|zero3|megatron|optimus|gshard|maxtext|JSON",
                              "which mesh axis shards a logical axis; standard_moe:A,P with experts; JSON: a list of "
                              "[logical axis, mesh axis]",
                              NULL},
                   .fallback = "standard:1,1",
                   .gin_binds = true,
                   .type = SIM_OF_TEXT,
                   FIELD(rules_text),
                   .chart = {7, "rules", "rules ", ""}},
    [SIM_OVERRIDES] = {.name = "params_axes_names_override",
                       .json = LIST,
                       .option = {"--params-axes-names-override", "FILE.json",
                                  "logical axes for parameters: a list of [pattern of paths, [axis, …] or null]", NULL},
                       .type = SIM_OF_TEXT,
                       FIELD(overrides_text)},
    [SIM_INPUTS_LENGTH] = {.name = "inputs_length",
                           .feature = "inputs",
                           .json = NUMBER,
                           .fallback = "1",
                           .type = SIM_OF_WHOLE,
                           FIELD(inputs_length),
                           .low = 1,
                           .high = LONGEST_LENGTH,
                           .chart = {5, "inputs", "inputs ", ""}},
    [SIM_TARGETS_LENGTH] = {.name = "targets_length",
                            .feature = "targets",
                            .json = NUMBER,
                            .option = {"--task-feature-lengths", "I,T",
                                       "lengths of inputs and targets; decoder-only models: T", NULL},
                            .example = "512,512",
                            .type = SIM_OF_WHOLE,
                            FIELD(targets_length),
                            .low = 1,
                            .high = LONGEST_LENGTH,
                            .chart = {6, "targets", "targets ", ""}},
    [SIM_BATCH_SIZE] = {.name = "batch_size",
                        .json = NUMBER,
                        .option = {"--batch-size", "B", "sequences in a global batch", NULL},
                        .example = "128",
                        .type = SIM_OF_WHOLE,
                        FIELD(batch_size),
                        .low = 1,
                        .high = LARGEST_BATCH,
                        .chart = {3, "batch", "batch ", ""}},
    [SIM_NUM_MICROBATCHES] = {.name = "num_microbatches",
                              .json = NUMBER,
                              .option = {"--num-microbatches", "N", "0 and 1 are off", NULL},
                              .fallback = "0",
                              .gin_binds = true,
                              .type = SIM_OF_WHOLE,
                              FIELD(num_microbatches),
                              .low = 0,
                              .high = LARGEST_BATCH,
                              .chart = {4, "microbatches", "", " microbatches"}},
    [SIM_OPTIMIZER] = {.name = "optimizer",
                       .json = TEXT,
                       .option = {"--optimizer", NULL, "what updates the parameters", NULL},
                       .fallback = "adafactor",
                       .gin_binds = true,
                       .type = SIM_OF_WORD,
                       FIELD(options.optimizer),
                       .words = {{"adafactor", MODEL_ADAFACTOR, false},
                                 {"adamw", MODEL_ADAMW, false},
                                 {"lion", MODEL_LION, false},
                                 {"sgd", MODEL_SGD, false}},
                       .chart = {11, "optimizer", "", ""}},
    [SIM_ADAFACTOR] = {.name = "adafactor",
                       .json = TEXT | OBJECT,
                       .option = {"--adafactor", "OPTIONS",
                                  "as T5X's gin names them: factored=0,beta1=0.9,…, or a JSON object", "T5X's"},
                       .type = SIM_OF_TEXT,
                       FIELD(adafactor_text)},
    [SIM_REMAT_POLICY] = {.name = "remat_policy",
                          .json = TEXT,
                          .option = {"--remat-policy", "none|minimal|selective|full|device:A+B;offload:C+D",
                                     "what the backward pass recomputes; by name: all but what is saved on the device "
                                     "or the host",
                                     "minimal for scanned models, else none"},
                          .fallback = "none",
                          .fallback_scanned = "minimal",
                          .gin_binds = true,
                          .type = SIM_OF_WORD,
                          FIELD(options.remat),
                          .words = {{"none", MODEL_REMAT_NONE, false},
                                    {"minimal", MODEL_REMAT_MINIMAL, false},
                                    {"selective", MODEL_REMAT_SELECTIVE, true},
                                    {"full", MODEL_REMAT_FULL, false}}, /* or tensors by name */
                          .chart = {10, "remat", "remat ", ""}},
    [SIM_DTYPE] = {.name = "dtype",
                   .json = TEXT,
                   .option = {"--dtype", NULL, "what is computed in", "bfloat16; float32 on local topologies"},
                   .fallback = "bfloat16",
                   .fallback_on_local = "float32",
                   .gin_binds = true,
                   .type = SIM_OF_WORD,
                   FIELD(options.dtype),
                   .words = {{"bfloat16", MODEL_BFLOAT16, false},
                             {"float32", MODEL_FLOAT32, false},
                             {"float16", MODEL_FLOAT16, false},
                             {"fp8", MODEL_FP8, true},
                             {"int8", MODEL_INT8, true}},
                   .chart = {12, "dtype", "", ""}},
    [SIM_WEIGHT_DTYPE] = {.name = "weight_dtype",
                          .json = TEXT,
                          .option = {"--weight-dtype", NULL, "of the stored parameters", NULL},
                          .fallback = "float32",
                          .default_unsaid = true,
                          .t5x_lacks = "weight_dtype",
                          .type = SIM_OF_WORD,
                          FIELD(options.weight_dtype),
                          .words = {{"float32", MODEL_FLOAT32, false}, {"bfloat16", MODEL_BFLOAT16, false}}},
    [SIM_MOMENT_DTYPE] = {.name = "moment_dtype",
                          .json = TEXT,
                          .option = {"--moment-dtype", NULL, "of Adam's first moment", NULL},
                          .fallback = "as_weights",
                          .default_unsaid = true,
                          .t5x_lacks = "moment_dtype",
                          .type = SIM_OF_WORD,
                          FIELD(options.moment_dtype),
                          .words = {{"as_weights", MODEL_MOMENT_AS_WEIGHTS, false},
                                    {"float32", MODEL_MOMENT_FLOAT32, false},
                                    {"bfloat16", MODEL_MOMENT_BFLOAT16, false}}},
    [SIM_ATTENTION] = {.name = "attention",
                       .json = TEXT,
                       .option = {"--attention", NULL, "whether attention scores are materialised", NULL},
                       .fallback = "unfused",
                       .t5x_lacks = "flash attention",
                       .type = SIM_OF_WORD,
                       FIELD(options.flash_attention),
                       .words = {{"unfused", false, false}, {"flash", true, false}},
                       .chart = {13, "attention", "", " attention"}},
    [SIM_DROPOUT_RATE] = {.name = "dropout_rate",
                          .json = NUMBER,
                          .option = {"--dropout-rate", "R", "share of elements that dropout sets to 0",
                                     "the software's"},
                          .type = SIM_OF_REAL,
                          FIELD(dropout_rate),
                          .low = 0,
                          .high = 0.999},
    [SIM_OPTIMIZER_PARTITIONING] = {.name = "optimizer_partitioning",
                                    .json = TEXT,
                                    .option = {"--optimizer-partitioning", NULL,
                                               "what is sharded over the data axis: optimizer state (ZeRO-1), "
                                               "gradients too (ZeRO-2)",
                                               NULL},
                                    .fallback = "none",
                                    .t5x_lacks = "optimizer_partitioning",
                                    .type = SIM_OF_WORD,
                                    FIELD(optimizer_partitioning),
                                    .words = {{"none", SIM_REPLICATED, false},
                                              {"data", SIM_STATE_OVER_DATA, false},
                                              {"data+gradients", SIM_STATE_AND_GRADIENTS_OVER_DATA, false}},
                                    .chart = {8, "state over", "optimizer state over ", ""}},
    [SIM_SEQUENCE_PARALLEL] = {.name = "sequence_parallel",
                               .json = NUMBER,
                               .option = {"--sequence-parallel", "0|1", "shard the length between model-parallel parts",
                                          NULL},
                               .fallback = "0",
                               .t5x_lacks = "sequence_parallel",
                               .type = SIM_OF_WHOLE,
                               FIELD(sequence_parallel),
                               .low = 0,
                               .high = 1,
                               .chart = {9, "sequence par.", "sequence_parallel ", ""}},
    [SIM_PIPELINE_STAGES] = {.name = "pipeline_stages",
                             .json = NUMBER,
                             .option = {"--pipeline-stages", "P", "stages that the layers are cut into", NULL},
                             .fallback = "1",
                             .default_unsaid = true,
                             .t5x_lacks = "pipeline_stages",
                             .type = SIM_OF_MESH},
    [SIM_VIRTUAL_STAGES] = {.name = "virtual_stages",
                            .json = NUMBER,
                            .option = {"--virtual-stages", "V", "chunks of layers that each stage has", NULL},
                            .fallback = "1",
                            .default_unsaid = true,
                            .type = SIM_OF_WHOLE,
                            FIELD(pipeline.chunks),
                            .low = 1,
                            .high = SIM_MOST_CHUNKS},
    [SIM_PIPELINE_SCHEDULE] = {.name = "pipeline_schedule",
                               .json = TEXT,
                               .option = {"--pipeline-schedule", NULL, "in which order a stage runs its microbatches",
                                          "1f1b; interleaved with virtual stages"},
                               .fallback = "1f1b",
                               .default_unsaid = true,
                               .type = SIM_OF_WORD,
                               FIELD(pipeline.schedule),
                               .words = {{"1f1b", SIM_ONE_FORWARD_ONE_BACKWARD, false},
                                         {"interleaved", SIM_INTERLEAVED, false},
                                         {"gpipe", SIM_GPIPE, false}}},
    [SIM_PIPELINE_PARTITION] = {.name = "pipeline_partition",
                                .json = TEXT,
                                .option = {"--pipeline-partition", NULL,
                                           "what is counted when layers are cut into stages", NULL},
                                .fallback = "layers",
                                .default_unsaid = true,
                                .type = SIM_OF_WORD,
                                FIELD(pipeline.partition),
                                .words = {{"layers", SIM_BY_LAYERS, false},
                                          {"layers+embeddings", SIM_BY_LAYERS_AND_EMBEDDINGS, false},
                                          {"compute_cost", SIM_BY_COMPUTE_COST, false},
                                          {"torchtitan", SIM_BY_TORCHTITAN, false}}},
    [SIM_PIPELINE_SPLIT_RANK] = {.name = "pipeline_split_rank",
                                 .json = NUMBER,
                                 .option = {"--pipeline-split-rank", "S",
                                            "the first stage of the decoder, where there is an encoder",
                                            "half of the stages"},
                                 .fallback = "0",
                                 .default_unsaid = true,
                                 .type = SIM_OF_WHOLE,
                                 FIELD(pipeline.split_rank),
                                 .low = 0,
                                 .high = SIM_MOST_STAGES},
    [SIM_CONTEXT_PARALLEL] = {.name = "context_parallel",
                              .json = NUMBER,
                              .option = {"--context-parallel", "C", "devices that a sequence is sharded over", NULL},
                              .fallback = "1",
                              .default_unsaid = true,
                              .t5x_lacks = "context_parallel",
                              .type = SIM_OF_MESH},
    [SIM_SOFTWARE] = {.name = "software",
                      .json = TEXT,
                      .option = {"--software", "S",
                                 "training software (and the date of its row) whose behaviour is predicted", NULL},
                      .fallback = "t5x",
                      .type = SIM_OF_TEXT,
                      FIELD(software),
                      .chart = {14, "software", "", ""}},
    [SIM_COMPILER] = {.name = "compiler",
                      .json = TEXT,
                      .option = {"--compiler", "today|DATE|VERSION",
                                 "whose layouts and rematerialisation: of a date (2023-01) or a libtpu (0.0.42)",
                                 "the software's date; today's for memory as compiled"},
                      .type = SIM_OF_TEXT,
                      FIELD(compiler),
                      .chart = {15, "compiler", "compiler ", ""}},
    [SIM_MEMORY_KIND] = {.name = "memory_kind",
                         .json = TEXT,
                         .option = {"--memory-kind", NULL, "what memory.peak_bytes counts", NULL},
                         .fallback = "device",
                         .default_unsaid = true,
                         .type = SIM_OF_WORD,
                         FIELD(memory_kind),
                         .words = {{"device", SIM_DEVICE, false},
                                   {"reserved", SIM_RESERVED, false},
                                   {"allocated", SIM_ALLOCATED, false},
                                   {"compiled", SIM_COMPILED, false}},
                         .chart = {16, "memory kind", "memory ", ""}},
    [SIM_MEMORY_STAGE] = {.name = "memory_stage",
                          .json = TEXT,
                          .option = {"--memory-stage", NULL, "which pipeline stage's memory is reported", NULL},
                          .fallback = "max",
                          .default_unsaid = true,
                          .type = SIM_OF_WORD,
                          FIELD(first_stage_memory),
                          .words = {{"max", false, false}, {"first", true, false}}},
    [SIM_LEARNING_RATE] = {.name = "learning_rate",
                           .json = NUMBER,
                           .option = {"--learning-rate", "R", "constant", NULL},
                           .fallback = "1e-3",
                           .gin_binds = true,
                           .type = SIM_OF_REAL,
                           FIELD(learning_rate),
                           .low = 0,
                           .high = 1e6},
    [SIM_Z_LOSS] = {.name = "z_loss",
                    .json = NUMBER,
                    .option = {"--z-loss", "R", "T5X's: times the square of the logits' logarithm of sums", NULL},
                    .fallback = "0.0001",
                    .default_unsaid = true,
                    .type = SIM_OF_REAL,
                    FIELD(z_loss),
                    .low = 0,
                    .high = 1e6},
    [SIM_LOSS_NORMALIZING_FACTOR] = {.name = "loss_normalizing_factor",
                                     .json = NUMBER | TEXT,
                                     .option = {"--loss-normalizing-factor", "R|NUM_REAL_TARGET_TOKENS",
                                                "what the loss is divided by: a number, or a microbatch's tokens",
                                                "batch size times targets length"},
                                     .type = SIM_OF_TEXT,
                                     FIELD(normalizing_text)},
    [SIM_SEED] = {.name = "seed",
                  .json = NUMBER,
                  .option = {"--seed", "N", "initial values and data", NULL},
                  .fallback = "0",
                  .gin_binds = true,
                  .type = SIM_OF_WHOLE,
                  FIELD(seed),
                  .low = 0,
                  .high = 9007199254740992.0 /* 2^53: every whole number up to it is a double */},
    [SIM_STEP] = {.name = "step",
                  .json = TEXT,
                  .option = {NULL, NULL, "what the plan is of", NULL},
                  .fallback = "train",
                  .default_unsaid = true,
                  .type = SIM_OF_WORD,
                  FIELD(options.step),
                  .words = {{"train", MODEL_STEP_TRAIN, false},
                            {"evaluate", MODEL_STEP_EVALUATE, false},
                            {"encode", MODEL_STEP_ENCODE, false},
                            {"prefill", MODEL_STEP_PREFILL, false},
                            {"decode", MODEL_STEP_DECODE, false},
                            {"generate", MODEL_STEP_GENERATE, false},
                            {"score", MODEL_STEP_SCORE, false}}},
    [SIM_DECODE_FN] =
        {
            .name = "decode_fn",
            .json = TEXT,
            .option = {"--decode-fn", NULL,
                       "how answers are decoded; models with an encoder search by beams, others sample", NULL},
            .fallback = "model_default",
            .default_unsaid = true,
            .type = SIM_OF_WORD,
            FIELD(decoding.word),
            .words = {{"model_default", SIM_MODEL_DEFAULT, false},
                      {"temperature_sample", SIM_TEMPERATURE_SAMPLE, false},
                      {"beam_search", SIM_BEAM_SEARCH, false}},
        },
    [SIM_NUM_DECODES] =
        {
            .name = "num_decodes",
            .json = NUMBER,
            .option = {"--num-decodes", "K", "decodes of each example: beams, or samples", NULL},
            .fallback = "1",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.num_decodes),
            .low = 1,
            .high = 4096,
        },
    [SIM_TEMPERATURE] =
        {
            .name = "temperature",
            .json = NUMBER | TEXT | LIST,
            .option = {"--temperature", "T", "of sampling; 0 takes the most probable token; one an example: 0,0.5,1",
                       NULL},
            .fallback = "1",
            .default_unsaid = true,
            .type = SIM_OF_TEXT,
            FIELD(temperature_text),
        },
    [SIM_TOPK] =
        {
            .name = "topk",
            .json = NUMBER,
            .option = {"--topk", "N", "draw from so many of the most probable tokens; 0: from all", NULL},
            .fallback = "1",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.topk),
            .low = 0,
            .high = 16777216,
        },
    [SIM_TOPP] =
        {
            .name = "topp",
            .json = NUMBER,
            .option = {"--topp", "P", "draw from the most probable tokens that have this much probability; 0: from all",
                       NULL},
            .fallback = "0",
            .default_unsaid = true,
            .type = SIM_OF_REAL,
            FIELD(decoding.topp),
            .low = 0,
            .high = 1,
        },
    [SIM_ALPHA] =
        {
            .name = "alpha",
            .json = NUMBER,
            .option = {"--alpha", "A", "of beam search: how much longer answers are favoured", NULL},
            .fallback = "0.6",
            .default_unsaid = true,
            .type = SIM_OF_REAL,
            FIELD(decoding.alpha),
            .low = 0,
            .high = 100,
        },
    [SIM_EOS_ID] =
        {
            .name = "eos_id",
            .json = NUMBER,
            .option = {"--eos-id", "N", "the token that ends an answer; -1: none does", NULL},
            .fallback = "1",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.eos_id),
            .low = -1,
            .high = 16777216,
        },
    [SIM_RESCALE_LOG_PROBS] =
        {
            .name = "rescale_log_probs",
            .json = NUMBER,
            .option = {"--rescale-log-probs", "0|1",
                       "scores count probabilities of what is drawn from; 0: of all tokens", NULL},
            .fallback = "1",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.rescale_log_probs),
            .low = 0,
            .high = 1,
        },
    [SIM_MAX_DECODE_LEN] =
        {
            .name = "max_decode_len",
            .json = NUMBER,
            .option = {"--max-decode-len", "N",
                       "of beam search: tokens of an answer, prompt and all; 0: the length of the targets", NULL},
            .fallback = "0",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.max_decode_len),
            .low = 0,
            .high = 16777216,
        },
    [SIM_MAX_DECODE_STEP] =
        {
            .name = "max_decode_step",
            .json = NUMBER,
            .option = {"--max-decode-step", "N", "of beam search: rounds at most; 0: no bound", NULL},
            .fallback = "0",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.max_decode_step),
            .low = 0,
            .high = 16777216,
        },
    [SIM_MIN_LOG_PROB] =
        {
            .name = "min_log_prob",
            .json = NUMBER,
            .option = {"--min-log-prob", "P", "of beam search: less probable answers are given up; 0: none is", NULL},
            .fallback = "0",
            .default_unsaid = true,
            .type = SIM_OF_REAL,
            FIELD(decoding.min_log_prob),
            .low = -10000000.0,
            .high = 0,
        },
    [SIM_MAX_DECODE_STEPS] =
        {
            .name = "max_decode_steps",
            .json = NUMBER,
            .option = {"--max-decode-steps", "N",
                       "of sampling: tokens behind the prompt; 0: up to the length of the targets", NULL},
            .fallback = "0",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.max_decode_steps),
            .low = 0,
            .high = 16777216,
        },
    [SIM_MAX_DECODE_STEPS_HARD_LIMIT] =
        {
            .name = "max_decode_steps_hard_limit",
            .json = NUMBER,
            .option = {"--max-decode-steps-hard-limit", "N",
                       "of sampling: what --max-decode-steps is cut to; 0: nothing", NULL},
            .fallback = "0",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.max_decode_steps_hard_limit),
            .low = 0,
            .high = 16777216,
        },
    [SIM_PROMPT_WITH_TARGETS] =
        {
            .name = "prompt_with_targets",
            .json = NUMBER,
            .option = {"--prompt-with-targets", "0|1", "1: answers begin with the targets, fed token by token", NULL},
            .fallback = "0",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.prompt_with_targets),
            .low = 0,
            .high = 1,
        },
    [SIM_INPUTS_BIDIRECTIONAL_ATTENTION] =
        {
            .name = "inputs_bidirectional_attention",
            .json = NUMBER,
            .option = {"--inputs-bidirectional-attention", "0|1",
                       "1: the tokens of a decoder's prompt see each other whole", NULL},
            .fallback = "0",
            .default_unsaid = true,
            .type = SIM_OF_WHOLE,
            FIELD(decoding.inputs_bidirectional_attention),
            .low = 0,
            .high = 1,
        },
    [SIM_PARAMETER_DTYPE] =
        {
            .name = "parameter_dtype",
            .json = TEXT,
            .option = {"--parameter-dtype", NULL,
                       "what parameters are restored as for inference; int8: kernels and embeddings, beyond T5X", NULL},
            .fallback = "as_computed",
            .default_unsaid = true,
            .type = SIM_OF_WORD,
            FIELD(decoding.parameter_dtype),
            .words = {{"as_computed", SIM_AS_COMPUTED, false},
                      {"bfloat16", MODEL_BFLOAT16, false},
                      {"float32", MODEL_FLOAT32, false},
                      {"int8", MODEL_INT8, true}},
        },
};

int sim_plan_key_named(const char *name)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (!strcmp(sim_plan_keys[key].name, name)) return key;
    return -1;
}

bool sim_key_is_given(const struct sim_plan_text *text, enum sim_key key)
{
    return text->values[key] && *text->values[key];
}

const char *sim_key_fallback(enum sim_key key, bool is_scanned, bool is_local)
{
    const struct sim_plan_key *row = &sim_plan_keys[key];
    if (is_scanned && row->fallback_scanned) return row->fallback_scanned;
    return is_local && row->fallback_on_local ? row->fallback_on_local : row->fallback;
}

/* ---- the fields of a checked plan ---- */

static void store(struct sim_plan *plan, const struct sim_plan_key *row, int64_t value)
{
    char *field = (char *)plan + row->offset;
    bool truth = value != 0;
    int word = (int)value;
    if (row->size == sizeof value) memcpy(field, &value, sizeof value);
    else if (row->size == sizeof word) memcpy(field, &word, sizeof word);
    else memcpy(field, &truth, sizeof truth);
}

static int64_t load(const struct sim_plan *plan, const struct sim_plan_key *row)
{
    const char *field = (const char *)plan + row->offset;
    bool truth;
    int word;
    int64_t value;
    if (row->size == sizeof value) return memcpy(&value, field, sizeof value), value;
    if (row->size == sizeof word) return memcpy(&word, field, sizeof word), word;
    return memcpy(&truth, field, sizeof truth), truth;
}

/* What people write for words of these keys. */
static const char *word_meant(const char *text)
{
    static const struct {
        const char *written, *meant;
    } words[] = {
        {"bf16", "bfloat16"}, {"fp32", "float32"}, {"f32", "float32"}, {"fp16", "float16"}, {"f16", "float16"}};
    for (int i = 0; i < BASE_COUNT(words); i++)
        if (!strcmp(text, words[i].written)) return words[i].meant;
    return text;
}

static enum base_status read_word(const char *text, const struct sim_plan_key *row, struct sim_plan *plan,
                                  struct base_error *error)
{
    const char *names[SIM_MOST_WORDS];
    int count = 0, found;
    while (count < SIM_MOST_WORDS && row->words[count].name) names[count] = row->words[count].name, count++;
    BASE_TRY(base_parse_word(word_meant(text), row->name, names, count, &found, error));
    store(plan, row, row->words[found].value);
    return BASE_OK;
}

static enum base_status read_value(const char *text, const struct sim_plan_key *row, struct sim_plan *plan,
                                   struct base_error *error)
{
    int64_t whole;
    double real;
    if (row == &sim_plan_keys[SIM_REMAT_POLICY] && strchr(text, ':')) {
        plan->options.remat = MODEL_REMAT_TENSORS;
        return model_saved_parse(text, &plan->options.saved, error);
    }
    if (row->type == SIM_OF_WORD) return read_word(text, row, plan, error);
    if (row->type == SIM_OF_WHOLE) {
        BASE_TRY(base_parse_int(text, row->name, (int64_t)row->low, (int64_t)row->high, &whole, error));
        store(plan, row, whole);
    }
    if (row->type == SIM_OF_REAL) {
        BASE_TRY(base_parse_double(text, row->name, row->low, row->high, &real, error));
        memcpy((char *)plan + row->offset, &real, sizeof real);
    }
    return BASE_OK;
}

enum base_status sim_plan_read_values(const struct sim_plan_text *text, enum sim_key_type type, bool is_scanned,
                                      bool is_local, struct sim_plan *plan, struct base_error *error)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *value =
            sim_key_is_given(text, key) ? text->values[key] : sim_key_fallback((enum sim_key)key, is_scanned, is_local);
        if (value && sim_plan_keys[key].type == type) BASE_TRY(read_value(value, &sim_plan_keys[key], plan, error));
    }
    return BASE_OK;
}

/* ---- the plan as text again ---- */

static const char *value_text(struct base_arena *arena, const struct sim_plan *plan, const struct sim_plan_key *row)
{
    struct base_text out = {.arena = arena};
    const char *text = NULL;
    double real;
    switch (row->type) {
    case SIM_OF_TEXT: return memcpy(&text, (const char *)plan + row->offset, sizeof text), text;
    case SIM_OF_WORD:
        if (row == &sim_plan_keys[SIM_REMAT_POLICY] && plan->options.remat == MODEL_REMAT_TENSORS)
            return model_saved_text(arena, &plan->options.saved);
        for (int i = 0; i < SIM_MOST_WORDS && row->words[i].name; i++)
            if (row->words[i].value == load(plan, row)) text = row->words[i].name;
        return text;
    case SIM_OF_WHOLE: return base_print(arena, "%lld", (long long)load(plan, row));
    case SIM_OF_REAL:
        memcpy(&real, (const char *)plan + row->offset, sizeof real);
        base_put_double(&out, real);
        return out.data;
    case SIM_OF_MESH: return NULL;
    }
    return NULL;
}

static void fill_mesh(struct base_arena *arena, const struct sim_plan *plan, struct sim_plan_text *out)
{
    const struct topo_mesh_request *request = &plan->request;
    struct base_text submesh = {.arena = arena};
    for (int i = 0; i < request->submesh_count; i++) base_putf(&submesh, "%s%d", i ? "," : "", request->submesh[i]);
    out->values[SIM_SUBMESH] = submesh.data;
    if (request->ici_mesh.count) out->values[SIM_ICI_MESH] = topo_axes_sizes(arena, &request->ici_mesh);
    if (request->dcn_mesh.count) out->values[SIM_DCN_MESH] = topo_axes_sizes(arena, &request->dcn_mesh);
    if (request->split_physical_axes) out->values[SIM_SPLIT_PHYSICAL_AXES] = "1";
    if (request->contiguous_submeshes) out->values[SIM_CONTIGUOUS_SUBMESHES] = "1";
    if (request->has_experts)
        out->values[SIM_NUM_EXPERT_PARTITIONS] = base_print(arena, "%lld", (long long)request->num_expert_partitions);
    if (plan->pipeline.stages > 1)
        out->values[SIM_PIPELINE_STAGES] = base_print(arena, "%lld", (long long)plan->pipeline.stages);
    if (plan->context_parallel > 1)
        out->values[SIM_CONTEXT_PARALLEL] = base_print(arena, "%lld", (long long)plan->context_parallel);
    if (request->num_partitions)
        out->values[SIM_NUM_PARTITIONS] = base_print(arena, "%lld", (long long)request->num_partitions);
}

struct sim_plan_text sim_plan_filled(struct base_arena *arena, const struct sim_plan *plan)
{
    struct sim_plan_text out;
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const struct sim_plan_key *row = &sim_plan_keys[key];
        const char *value = value_text(arena, plan, row);
        bool unsaid = row->default_unsaid && value && !strcmp(value, row->fallback);
        out.values[key] = unsaid ? NULL : value;
    }
    fill_mesh(arena, plan, &out);
    if (plan->options.dropout == sim_drops_out_unsaid(plan)) out.values[SIM_DROPOUT_RATE] = NULL;
    if (!plan->config->encoder) out.values[SIM_INPUTS_LENGTH] = NULL;
    if (plan->num_microbatches <= 1) out.values[SIM_NUM_MICROBATCHES] = "0";
    return out;
}
