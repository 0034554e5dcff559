/* torchtitan: its stages, their batches, activation checkpointing and converters. */
#include "model/import/import_draft.h"

#include <stdlib.h>
#include <string.h>

/* torchtitan's activation checkpointing and converters. */
void model_import_torch(struct import_draft *draft)
{
    const char *mode = model_import_said(draft, ".granularity_titan", NULL),
               *option = model_import_said(draft, ".selective_option", "2"),
               *converters = model_import_said(draft, ".converters", "");
    if (mode && !strcmp(mode, "selective") && strcmp(option, "op") != 0)
        model_import_put(draft, "remat_policy",
                         strcmp(option, "1") != 0 ? base_print(draft->arena, "full;every:%.20s", option) : "full");
    else if (mode) model_import_put(draft, "remat_policy", mode);
    if (strstr(converters, "float8")) model_import_put(draft, "dtype", "fp8");
    const struct import_slot *whole = model_import_slot(draft, ".whole_gathers");
    if (whole && !strcmp(model_import_said(draft, "dtype", ""), "fp8"))
        model_import_warn(draft, whole->place, "%.100s = %.60s changes the answer and is not modelled", whole->from,
                          whole->value);
}

/* torchtitan cuts a replica's batch for its stages: into so many, or such of 1 sequence (0.2.2) or as many as stages.
 */
enum base_status model_import_stage_batches(struct import_draft *draft)
{
    int64_t stages, local, each, count, accumulation;
    BASE_TRY(model_import_int(draft, "pipeline_stages", 1, &stages));
    BASE_TRY(model_import_int(draft, ".micro_batch", 1, &local));
    BASE_TRY(model_import_int(draft, ".stage_microbatch", 1, &each));
    BASE_TRY(model_import_int(draft, ".stage_microbatches", base_ceil_div(local, each), &count));
    if (stages > 1 && local % count)
        return model_import_fail(draft, model_import_slot(draft, ".micro_batch"),
                                 "%lld sequences are no multiple of %lld microbatches", (long long)local,
                                 (long long)count);
    BASE_TRY(model_import_int(draft, "num_microbatches", 1, &accumulation)); /* of such replica's batches */
    if (stages > 1) model_import_put_int(draft, "num_microbatches", count * accumulation);
    return BASE_OK;
}

/* ---- layers of each stage chunk ---- */

enum { MOST_CHUNKS = 1024 };
struct chunks {
    int64_t stages, count, layers[MOST_CHUNKS];
};

/* [["tok_embeddings", "layers.0"], ["layers.1", "norm", "output"]]: counts the layers, which stand in order. */
static enum base_status read_parts(struct import_draft *draft, const struct import_slot *slot, struct chunks *out)
{
    const struct base_json *list = NULL;
    struct base_error ignored;
    int64_t layer = 0;
    if (base_json_parse(draft->arena, slot->value, strlen(slot->value), &list, &ignored) != BASE_OK ||
        list->kind != BASE_JSON_ARRAY || !list->count || list->count > MOST_CHUNKS)
        return model_import_fail(draft, slot,
                                 "a list of the modules of each part is needed, as [[\"tok_embeddings\", "
                                 "\"layers.0\"], [\"layers.1\", \"norm\", \"output\"]]");
    out->count = 0;
    for (const struct base_json *part = list->child; part; part = part->next, out->count++) {
        out->layers[out->count] = 0;
        if (part->kind != BASE_JSON_ARRAY)
            return model_import_fail(draft, slot, "part %lld is no list of modules; [\"layers.0\"] would be",
                                     (long long)out->count);
        for (const struct base_json *name = part->child; name; name = name->next) {
            if (name->kind != BASE_JSON_STRING || strncmp(name->string, "layers.", 7) != 0) continue;
            if (strcmp(name->string + 7, base_print(draft->arena, "%lld", (long long)layer++)) != 0)
                return model_import_fail(draft, slot, "%.40s is out of order; layers.%lld is next", name->string,
                                         (long long)layer - 1);
            out->layers[out->count]++;
        }
    }
    return BASE_OK;
}

/* Until 2025: "layers.8", "layers.16": where the stages after the first begin. */
static enum base_status read_split_points(struct import_draft *draft, const struct import_slot *slot, int64_t layers,
                                          struct chunks *out)
{
    int64_t before = 0;
    out->count = 0;
    for (const char *at = strstr(slot->value, "layers."); at; at = strstr(at, "layers.")) {
        const int64_t first = strtoll(at += 7, NULL, 10);
        if (first <= before || first >= layers || out->count + 1 >= MOST_CHUNKS)
            return model_import_fail(draft, slot, "layers.%lld is none of the %lld layers after layers.%lld",
                                     (long long)first, (long long)layers, (long long)before);
        out->layers[out->count++] = first - before, before = first;
    }
    out->layers[out->count++] = layers - before;
    return BASE_OK;
}

/* generate_llm_fqn_per_model_part: embedding and output count as the layers that the first and last parts have less. */
static enum base_status share_out(struct import_draft *draft, int64_t layers, const int64_t less[2], struct chunks *out)
{
    const int64_t all = layers + less[0] + less[1], share = all / out->count;
    const struct import_slot *slot = model_import_slot(draft, "pipeline_stages");
    if (out->count > MOST_CHUNKS || share < 1 || less[0] > share || less[1] > share)
        return model_import_fail(draft, slot,
                                 "%lld layers, with %lld and %lld for embedding and output, are too few "
                                 "for %lld parts, and torchtitan refuses that",
                                 (long long)layers, (long long)less[0], (long long)less[1], (long long)out->count);
    for (int64_t i = 0; i < out->count; i++)
        out->layers[i] = share + (i < all % out->count) - (i == 0 ? less[0] : 0) - (i == out->count - 1 ? less[1] : 0);
    return BASE_OK;
}

/* Layers as the plan says them, where they are not shared out evenly, as by default. */
static void put_chunks(struct import_draft *draft, const struct chunks *chunks)
{
    struct base_text layout = {.arena = draft->arena}, layers = {.arena = draft->arena};
    int64_t sum = 0, rest, empty = 0;
    bool even = true;
    for (int64_t i = 0; i < chunks->count; i++) sum += chunks->layers[i];
    rest = sum;
    for (int64_t i = 0; i < chunks->count; i++) {
        const int64_t share = base_ceil_div(sum, chunks->count), n = chunks->layers[i];
        even = even && n == (share < rest ? share : rest);
        rest -= n;
        empty += !n;
        base_putf(&layers, "%s%lld", i ? "," : "", (long long)n);
        base_putf(&layout, "%s%s", i ? "|" : "E", n ? base_print(draft->arena, "t*%lld", (long long)n) : "");
    }
    base_put(&layout, "L");
    if (chunks->count > chunks->stages) model_import_put_int(draft, "virtual_stages", chunks->count / chunks->stages);
    if (even && !empty) return;
    if (chunks->count == chunks->stages && !empty) model_import_put(draft, "pipeline_layers", layers.data);
    else model_import_put(draft, "pipeline_layout", layout.data);
}

/* How many parts of the model each stage has; torchtitan refuses several where the schedule has one. */
static enum base_status check_chunks(struct import_draft *draft, const struct import_slot *slot,
                                     const struct chunks *chunks, bool several)
{
    const int64_t each = chunks->count / chunks->stages;
    if (chunks->count % chunks->stages == 0 && (several ? each >= 2 : each == 1)) return BASE_OK;
    return model_import_fail(draft, slot,
                             "makes %lld parts of the model, which are not %s for each of %lld stages, and "
                             "torchtitan refuses that",
                             (long long)chunks->count, several ? "two or more" : "one", (long long)chunks->stages);
}

/* pipeline_parallel.py of torchtitan: parts given by name, or by their layers; default: two for each stage of a
 * schedule that has several, else one. */
enum base_status model_import_chunks(struct import_draft *draft)
{
    const char *first = model_import_said(draft, ".less_first", "1"),
               *last = model_import_said(draft, ".less_last", "1");
    const struct import_slot *parts = model_import_slot(draft, ".model_parts"),
                             *points = model_import_slot(draft, ".split_points"),
                             *each_slot = model_import_slot(draft, ".layers_of_chunk"),
                             *stages = model_import_slot(draft, "pipeline_stages");
    struct chunks *chunks = base_new(draft->arena, struct chunks, 1);
    int64_t each, less[2] = {1, 1}, layers = 0;
    struct model_config config;
    struct base_error ignored;
    BASE_TRY(model_import_int(draft, "pipeline_stages", 1, &chunks->stages));
    BASE_TRY(model_import_int(draft, ".layers_of_chunk", 0, &each));
    BASE_TRY(base_parse_int(first, "pipeline_parallel_first_stage_less_layers", 0, 4096, &less[0], draft->error));
    BASE_TRY(base_parse_int(last, "pipeline_parallel_last_stage_less_layers", 0, 4096, &less[1], draft->error));
    if (chunks->stages == 1) {
        model_import_put(draft, "pipeline_schedule", "");
        return BASE_OK;
    }
    const bool several = !strcmp(model_import_said(draft, "pipeline_schedule", ""), "interleaved");
    chunks->count = chunks->stages * (several ? 2 : 1);
    if (parts) {
        BASE_TRY(read_parts(draft, parts, chunks));
        BASE_TRY(check_chunks(draft, parts, chunks, several));
        return put_chunks(draft, chunks), BASE_OK;
    }
    if (!strncmp(stages->from, "experimental.", 13) && !points) { /* releases that counted layers alone */
        model_import_put(draft, "pipeline_partition", "torchtitan");
        if (several) model_import_put_int(draft, "virtual_stages", 2);
        return BASE_OK;
    }
    if (model_config_parse(draft->arena, model_import_said(draft, "model", ""), &config, &ignored) == BASE_OK)
        layers = config.num_decoder_layers;
    if (!layers) {
        if (several) model_import_put_int(draft, "virtual_stages", 2);
        model_import_warn(draft, stages->place,
                          "the layers of each stage depend on the model, which is not known: "
                          "stages are taken as even");
        return BASE_OK;
    }
    if (points) BASE_TRY(read_split_points(draft, points, layers, chunks));
    else if (each) chunks->count = base_ceil_div(layers + less[0] + less[1], each);
    if (points || each) BASE_TRY(check_chunks(draft, points ? points : each_slot, chunks, several));
    if (!points) BASE_TRY(share_out(draft, layers, less, chunks));
    return put_chunks(draft, chunks), BASE_OK;
}
