/* Splits a model into stage chunks as training software does: runs of whole layers, with the embedding first and the
 * output head last. */
#include "sim/pipeline/pipeline.h"

#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The parts after the decoder's layers. */
enum { BEHIND = MODEL_PART_FINAL_NORM | MODEL_PART_LOGITS | MODEL_PART_LOSS };

static enum base_status refuse_layers(const char *key, int64_t layers, const char *of, int64_t stage_chunk_count,
                                      struct base_error *error)
{
    return base_fail(error, BASE_INPUT, "%s: %lld %slayers do not divide by %lld %s; use a number that divides them",
                     key, (long long)layers, of, (long long)stage_chunk_count,
                     stage_chunk_count == 1 ? "stage" : "stages");
}

/* Refuses the layer count of decoder stages. They may have chunks, or layer counts per stage if the software accepts
 * them. */
static enum base_status refuse_shares(int64_t layers, const struct sim_pipeline *pipeline, struct base_error *error)
{
    if (pipeline->chunks > 1)
        return base_fail(error, BASE_INPUT,
                         "virtual_stages: %lld layers do not divide by %lld stages of %lld chunks; use numbers whose "
                         "product divides them",
                         (long long)layers, (long long)pipeline->stages, (long long)pipeline->chunks);
    if (layers < pipeline->stages) return refuse_layers("pipeline_stages", layers, "", pipeline->stages, error);
    enum { MOST_LISTED = 32 };
    char counts[8 * MOST_LISTED] = "one number for each stage";
    const int64_t more = layers % pipeline->stages, least = layers / pipeline->stages;
    for (int64_t i = 0, at = 0; i < pipeline->stages && pipeline->stages <= MOST_LISTED; i++)
        at +=
            snprintf(counts + at, sizeof counts - (size_t)at, "%s%lld", i ? "," : "", (long long)(least + (i < more)));
    return base_fail(error, BASE_INPUT,
                     "pipeline_stages: %lld layers do not divide by %lld stages; use a number that divides them, or, "
                     "where the software has it, --pipeline-layers %s",
                     (long long)layers, (long long)pipeline->stages, counts);
}

static bool is_cut_evenly(int64_t layers, int64_t stage_chunk_count, enum sim_division division)
{
    return layers % stage_chunk_count == 0 ||
           (division != SIM_DIVIDES_EVENLY &&
            base_ceil_div(layers, stage_chunk_count) * (stage_chunk_count - 1) < layers);
}

/* Equal shares. If they do not divide, full shares until no layers are left. */
static enum base_status cut_evenly(int64_t layers, int64_t stage_chunk_count, enum sim_division division,
                                   const char *of, int64_t *counts, struct base_error *error)
{
    const int64_t share = base_ceil_div(layers, stage_chunk_count);
    if (!is_cut_evenly(layers, stage_chunk_count, division))
        return refuse_layers("pipeline_stages", layers, of, stage_chunk_count, error);
    for (int64_t i = 0; i < stage_chunk_count; i++) {
        counts[i] = smaller(share, layers);
        layers -= counts[i];
    }
    return BASE_OK;
}

/* Alpa's stages are runs of operations that read about equally many weights, and may end inside a layer. Here a stage
 * has whole layers, as evenly as possible. The first stages get more, since the last one has the head. With more stages
 * than layers, embedding and head have their own stages, and some stages have no layer. The slowest stage, with one
 * whole layer, is then as slow as Alpa's, whose clusters do not end between the products of a sublayer. */
static enum base_status cut_finely(int64_t layers, int64_t stage_chunk_count, int64_t *counts, struct base_error *error)
{
    const int64_t ends = stage_chunk_count > layers ? 1 : 0, stages = stage_chunk_count - 2 * ends;
    if (stages < layers && ends) return refuse_layers("pipeline_stages", layers, "", stage_chunk_count, error);
    counts[0] = counts[stage_chunk_count - 1] = 0;
    for (int64_t i = 0; i < stages; i++)
        counts[ends + i] = base_ceil_div((i + 1) * layers, stages) - base_ceil_div(i * layers, stages);
    return BASE_OK;
}

/* Embedding and head count as one layer each. */
static enum base_status cut_with_embeddings(int64_t layers, int64_t stage_chunk_count, enum sim_division division,
                                            int64_t *counts, struct base_error *error)
{
    if (layers + 2 < stage_chunk_count) return refuse_layers("pipeline_stages", layers, "", stage_chunk_count, error);
    BASE_TRY(cut_evenly(layers + 2, stage_chunk_count, division, "(with embedding and head) ", counts, error));
    counts[0]--;
    counts[stage_chunk_count - 1]--;
    return BASE_OK;
}

/* As evenly as possible: the stages after the first get the remainder, and the last gets the rest. */
static enum base_status cut_torchtitan(int64_t layers, int64_t stage_chunk_count, int64_t *counts,
                                       struct base_error *error)
{
    const int64_t share = layers / stage_chunk_count;
    int64_t more = layers % stage_chunk_count;
    if (!share) return refuse_layers("pipeline_stages", layers, "", stage_chunk_count, error);
    for (int64_t i = 0; i < stage_chunk_count; i++) {
        counts[i] = i > 0 && more > 0 ? share + 1 : share;
        more -= counts[i] - share;
    }
    return BASE_OK;
}

/* As in huggingface/nanotron (models/base.py), blocks go in order to the current stage. The next stage becomes current
 * when the costs so far exceed the share of the stages so far. nanotron's costs are 4 embed^2 + 3 embed mlp per layer,
 * for any number of heads, and embed vocab for the head. Everything else costs nothing. */
struct costs {
    double sum, total;
    int64_t stages, at;
    bool ties_end; /* a stage with exactly its share is full; otherwise it gets one more block */
};

static int64_t place_block(struct costs *c, double cost)
{
    const int64_t here = c->at;
    c->sum += cost;
    const double had = c->sum * (double)c->stages, share = c->total * (double)(c->at + 1);
    if ((had > share || (c->ties_end && had == share)) && c->at + 1 < c->stages) c->at++;
    return here;
}

enum ties { TIES_GO_ON, TIES_END_STAGES };

static void cut_by_cost(const struct model_config *config, int64_t stages, enum ties ties,
                        struct sim_stage_chunk *stage_chunks)
{
    const double embed = (double)config->emb_dim, layer = 4 * embed * embed + 3 * embed * (double)config->mlp_dim,
                 head = embed * (double)config->vocab_size;
    struct costs c = {0, layer * (double)config->num_decoder_layers + head, stages, 0, ties == TIES_END_STAGES};
    memset(stage_chunks, 0, (size_t)stages * sizeof *stage_chunks);
    stage_chunks[place_block(&c, 0)].parts |= MODEL_PART_EMBEDDING;
    for (int64_t i = 0; i < config->num_decoder_layers; i++) stage_chunks[place_block(&c, layer)].decoder_layers++;
    stage_chunks[place_block(&c, 0)].parts |= MODEL_PART_FINAL_NORM;
    stage_chunks[place_block(&c, head)].parts |= MODEL_PART_LOGITS;
    stage_chunks[place_block(&c, 0)].parts |= MODEL_PART_LOSS; /* the cast before the loss */
}

static enum base_status cut_decoder(const struct model_config *config, const struct sim_pipeline *pipeline,
                                    enum sim_division division, struct sim_stage_chunk *stage_chunks,
                                    struct base_error *error)
{
    const int64_t count = pipeline->stages * pipeline->chunks, layers = config->num_decoder_layers;
    int64_t counts[SIM_MOST_STAGE_CHUNKS];
    if (pipeline->layers && pipeline->partition != SIM_BY_LAYERS)
        return base_fail(error, BASE_INPUT, "pipeline_layers: contradicts pipeline_partition; leave one of them out");
    if (pipeline->partition == SIM_BY_COMPUTE_COST) {
        if (pipeline->chunks > 1)
            return base_fail(error, BASE_INPUT,
                             "pipeline_partition: compute_cost is nanotron's, which has one chunk a stage; use "
                             "virtual_stages 1");
        cut_by_cost(config, count, TIES_GO_ON, stage_chunks);
        if (pipeline->first_layers && stage_chunks[0].decoder_layers != pipeline->first_layers)
            cut_by_cost(config, count, TIES_END_STAGES, stage_chunks);
        return BASE_OK;
    }
    if (pipeline->layers) memcpy(counts, pipeline->layers, (size_t)count * sizeof *counts);
    else if (pipeline->partition == SIM_BY_TORCHTITAN) BASE_TRY(cut_torchtitan(layers, count, counts, error));
    else if (pipeline->partition == SIM_BY_LAYERS && division == SIM_DIVIDES_FINELY)
        BASE_TRY(cut_finely(layers, count, counts, error));
    else if (pipeline->partition == SIM_BY_LAYERS && !is_cut_evenly(layers, count, division))
        return refuse_shares(layers, pipeline, error);
    else if (pipeline->partition == SIM_BY_LAYERS) BASE_TRY(cut_evenly(layers, count, division, "", counts, error));
    else BASE_TRY(cut_with_embeddings(layers, count, division, counts, error));
    for (int64_t i = 0; i < count; i++) stage_chunks[i].decoder_layers = counts[i];
    stage_chunks[0].parts |= MODEL_PART_EMBEDDING;
    stage_chunks[count - 1].parts |= BEHIND;
    return BASE_OK;
}

/* Encoder and decoder have separate stages. The decoder's first stage embeds its inputs. */
static enum base_status cut_encoder_decoder(const struct model_config *config, const struct sim_pipeline *pipeline,
                                            enum sim_division division, struct sim_stage_chunk *stage_chunks,
                                            struct base_error *error)
{
    const int64_t stages = pipeline->stages, split = pipeline->split_rank ? pipeline->split_rank : stages / 2;
    int64_t counts[SIM_MOST_STAGE_CHUNKS];
    if (pipeline->chunks > 1 || pipeline->partition != SIM_BY_LAYERS)
        return base_fail(error, BASE_INPUT, "%s: a model with an encoder is split by layers, one chunk a stage; use %s",
                         pipeline->chunks > 1 ? "virtual_stages" : "pipeline_partition",
                         pipeline->chunks > 1 ? "1" : "layers");
    if (split >= stages)
        return base_fail(error, BASE_INPUT,
                         "pipeline_split_rank: stage %lld begins the decoder, but there are %lld stages; use 1 to %lld",
                         (long long)split, (long long)stages, (long long)stages - 1);
    BASE_TRY(cut_evenly(config->num_encoder_layers, split, division, "encoder ", counts, error));
    BASE_TRY(cut_evenly(config->num_decoder_layers, stages - split, division, "decoder ", counts + split, error));
    for (int64_t i = 0; i < stages; i++) {
        if (i < split) stage_chunks[i].encoder_layers = counts[i];
        else stage_chunks[i].decoder_layers = counts[i];
    }
    stage_chunks[0].parts |= MODEL_PART_ENCODER_EMBEDDING;
    stage_chunks[split - 1].parts |= MODEL_PART_ENCODER_NORM;
    stage_chunks[split].parts |= MODEL_PART_EMBEDDING;
    stage_chunks[stages - 1].parts |= BEHIND;
    return BASE_OK;
}

/* Layers without experts come first, in the order in which microbatches pass the stage chunks. */
static void share_dense_layers(const struct model_config *config, struct sim_stage_chunk *stage_chunks, int64_t count)
{
    int64_t left = config->experts.first_dense_layers;
    for (int64_t i = 0; i < count; i++) {
        stage_chunks[i].dense_layers = smaller(left, stage_chunks[i].decoder_layers);
        left -= stage_chunks[i].dense_layers;
    }
}

/* A run of layers that ends with an expert layer must be on one stage. */
static enum base_status check_blocks(const struct model_config *config, const struct sim_stage_chunk *stage_chunk,
                                     struct base_error *error)
{
    const int64_t encoder = model_layers_per_block(config, MODEL_ENCODER_STACK),
                  decoder = model_layers_per_block(config, MODEL_DECODER_STACK);
    const bool cuts = stage_chunk->encoder_layers % encoder != 0;
    const int64_t layers = cuts ? stage_chunk->encoder_layers : stage_chunk->decoder_layers;
    if (!cuts && (stage_chunk->decoder_layers - stage_chunk->dense_layers) % decoder == 0) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "pipeline_stages: a stage would have %lld layer%s, and one in %lld has experts; use stages of whole "
        "runs of %lld",
        (long long)layers, layers == 1 ? "" : "s", (long long)(cuts ? encoder : decoder),
        (long long)(cuts ? encoder : decoder));
}

enum base_status sim_split_model(const struct model_config *config, const struct sim_pipeline *pipeline,
                                 enum sim_division division, struct sim_stage_chunk *stage_chunks,
                                 struct base_error *error)
{
    const int64_t count = pipeline->stages * pipeline->chunks;
    if (count > SIM_MOST_STAGE_CHUNKS)
        return base_fail(error, BASE_INPUT,
                         "virtual_stages: %lld stages of %lld chunks exceed %d chunks; use up to %lld",
                         (long long)pipeline->stages, (long long)pipeline->chunks, SIM_MOST_STAGE_CHUNKS,
                         (long long)(SIM_MOST_STAGE_CHUNKS / pipeline->stages));
    if (pipeline->layers && config->encoder)
        return base_fail(error, BASE_INPUT,
                         "pipeline_layers: a model with an encoder is split by pipeline_split_rank; leave it out");
    if (pipeline->split_rank && !config->encoder)
        return base_fail(error, BASE_INPUT, "pipeline_split_rank: %s has no encoder to be split from; leave it out",
                         config->name);
    memset(stage_chunks, 0, (size_t)count * sizeof *stage_chunks);
    BASE_TRY((config->encoder ? cut_encoder_decoder : cut_decoder)(config, pipeline, division, stage_chunks, error));
    for (int64_t i = 0; i < count; i++) {
        if (stage_chunks[i].encoder_layers) stage_chunks[i].parts |= MODEL_PART_ENCODER_LAYERS;
        if (stage_chunks[i].decoder_layers || !stage_chunks[i].parts)
            stage_chunks[i].parts |= MODEL_PART_LAYERS; /* a stage chunk may have no layers */
    }
    share_dense_layers(config, stage_chunks, count);
    for (int64_t i = 0; i < count; i++) BASE_TRY(check_blocks(config, &stage_chunks[i], error));
    const int64_t first = stage_chunks[0].encoder_layers + stage_chunks[0].decoder_layers;
    if (!pipeline->first_layers || pipeline->first_layers == first) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "first_stage_layers: the first of %lld stages has %lld layer%s with this pipeline_partition; use "
                     "that, or leave it out",
                     (long long)pipeline->stages, (long long)first, first == 1 ? "" : "s");
}
