/* Reads the documents that commands write: a search, a prediction. */
#include "plots/search_document.h"

#include <math.h>
#include <string.h>

static void put_list(struct base_text *out, const struct base_json *list)
{
    for (const struct base_json *item = list->child; item; item = item->next)
        base_putf(out, "%s%.4g", item == list->child ? "" : ",", item->number);
}

static void put_axes(struct base_text *out, const struct base_json *mesh)
{
    for (const struct base_json *axis = mesh->child; axis; axis = axis->next)
        base_putf(out, "%s%s %.0f", axis == mesh->child ? "" : " × ", axis->key, axis->number);
}

static void put_mesh_and_rules(struct base_text *text, const struct base_json *plan)
{
    const struct base_json *submesh = base_json_find(plan, "model_parallel_submesh", BASE_JSON_ARRAY),
                           *mesh = base_json_find(plan, "ici_mesh", BASE_JSON_OBJECT);
    double partitions = base_json_real(plan, "num_partitions");
    if (submesh) put_list(text, submesh);
    else if (mesh) put_axes(text, mesh);
    else if (!isnan(partitions)) base_putf(text, "%.0f partitions", partitions);
    base_putf(text, " · %s", base_json_string(plan, "logical_axis_rules", "own rules"));
}

static void put_remat(struct base_text *text, const struct base_json *plan)
{
    const char *remat = base_json_string(plan, "remat_policy", "none");
    if (strcmp(remat, "none") != 0) base_putf(text, " · remat %s", remat);
}

const char *plots_plan_words(struct base_arena *arena, const struct base_json *plan)
{
    struct base_text text = {.arena = arena};
    double microbatches = base_json_real(plan, "num_microbatches");
    put_mesh_and_rules(&text, plan);
    if (microbatches > 1) base_putf(&text, " · %.0f microbatches", microbatches);
    put_remat(&text, plan);
    return plots_clean(arena, text.data);
}

const char *plots_batch_and_plan_words(struct base_arena *arena, const struct base_json *plan)
{
    struct base_text text = {.arena = arena};
    double microbatches = base_json_real(plan, "num_microbatches");
    base_putf(&text, "batch %.0f", base_json_real(plan, "batch_size"));
    if (microbatches > 1) base_putf(&text, " in %.0f", microbatches);
    base_put(&text, " · ");
    put_mesh_and_rules(&text, plan);
    put_remat(&text, plan);
    return plots_clean(arena, text.data);
}

/* ---- answers ---- */

static const char *mesh_words(struct base_arena *arena, const struct base_json *mesh)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "");
    for (const struct base_json *axis = mesh ? mesh->child : NULL; axis; axis = axis->next)
        if (axis->kind == BASE_JSON_NUMBER)
            base_putf(&text, "%s%s %.0f", text.length ? " × " : "", plots_clean(arena, axis->key), axis->number);
    return text.data;
}

/* A model that is written out is one word, longer than any line: how it begins says which it is. */
static const char *model_words(struct base_arena *arena, const char *model)
{
    enum { LONGEST = 48 };
    const char *clean = plots_clean(arena, model);
    size_t length = LONGEST;
    if (strlen(clean) <= LONGEST || !strchr(clean, ',')) return clean;
    while (length > 0 && clean[length] != ',') length--;
    return length ? base_print(arena, "%s,…", base_copy_bytes(arena, clean, length)) : clean;
}

double plots_available_bytes(const struct base_json *memory)
{
    const double available_bytes = base_json_real(memory, "available_bytes");
    return available_bytes > 0 ? available_bytes : base_json_real(memory, "capacity_bytes");
}

/* Keys of the plan that distinguish two answers; usual values are omitted. */
const char *plots_answer_words(struct base_arena *arena, const struct base_json *document)
{
    static const struct {
        const char *key, *usual, *before;
    } words[] = {{"logical_axis_rules", "standard:1,1", "rules "},
                 {"optimizer", "", ""},
                 {"remat_policy", "none", "remat "},
                 {"dtype", "bfloat16", ""},
                 {"attention", "unfused", "attention "},
                 {"software", "t5x", ""}};
    const struct base_json *plan = base_json_find(document, "plan", BASE_JSON_OBJECT);
    struct base_text text = {.arena = arena};
    base_putf(&text, "%s on %s", model_words(arena, base_json_string(plan, "model", "?")),
              plots_clean(arena, base_json_string(plan, "topology", "?")));
    const char *mesh = mesh_words(arena, base_json_find(document, "mesh", BASE_JSON_OBJECT));
    if (*mesh) base_putf(&text, ", mesh %s", mesh);
    if (base_json_real(plan, "batch_size") > 0) base_putf(&text, ", batch %.0f", base_json_real(plan, "batch_size"));
    if (base_json_real(plan, "num_microbatches") > 1)
        base_putf(&text, " in %.0f microbatches", base_json_real(plan, "num_microbatches"));
    for (int i = 0; i < BASE_COUNT(words); i++) {
        const char *value = base_json_string(plan, words[i].key, words[i].usual);
        if (strcmp(value, words[i].usual) != 0) base_putf(&text, ", %s%s", words[i].before, plots_clean(arena, value));
    }
    return text.data;
}

const char *plots_whole(const struct base_json *document, double *whole_s)
{
    const struct base_json *inference = base_json_find(document, "inference", BASE_JSON_OBJECT);
    const bool generates = !strcmp(base_json_string(inference, "step", ""), "generate");
    *whole_s = generates ? base_json_real(document, "latency_s")
                         : base_json_real(base_json_find(document, "time", BASE_JSON_OBJECT), "step_s");
    return generates ? "answer" : "step";
}

struct plots_canvas plots_canvas_of(struct base_arena *arena, const struct plots_request *request)
{
    return (struct plots_canvas){.arena = arena, .width_px = request->width_px};
}

/* ---- searches ---- */

/* "64 to 4096" of the plans that the answer lists, or the one that they share. */
static const char *batch_words(struct base_arena *arena, const struct base_json *document)
{
    static const char *const lists[] = {"pareto", "latency_front", "plans"};
    const struct base_json *best = base_json_find(document, "best", BASE_JSON_OBJECT);
    double low = base_json_real(best, "batch_size"), high = low;
    for (int l = 0; l < BASE_COUNT(lists); l++) {
        const struct base_json *list = base_json_find(document, lists[l], BASE_JSON_ARRAY);
        for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
            double batch = base_json_real(base_json_find(item, "plan", BASE_JSON_OBJECT), "batch_size");
            if (batch > 0) low = fmin(low, batch), high = fmax(high, batch);
        }
    }
    if (low < high) return base_print(arena, "batches of %.0f to %.0f", low, high);
    return base_print(arena, "batch %.0f", low);
}

enum base_status plots_search_check(struct base_arena *arena, const struct plots_request *request,
                                    const char **subtitle, struct base_error *error)
{
    const struct base_json *search = base_json_find(request->document, "search", BASE_JSON_OBJECT),
                           *best = base_json_find(request->document, "best", BASE_JSON_OBJECT);
    if (!search)
        return base_fail(error, BASE_INPUT,
                         "%s: is no answer of a search; `meshwright tune … --json --out FILE` writes one",
                         request->path);
    if (!best)
        return base_fail(error, BASE_INPUT, "%s: the search found no plan that fits: nothing to draw", request->path);
    *subtitle =
        base_print(arena, "%s on %s, %s: %.0f plans searched", plots_clean(arena, base_json_string(best, "model", "?")),
                   plots_clean(arena, base_json_string(best, "topology", "?")), batch_words(arena, request->document),
                   base_json_real(search, "space_count"));
    return BASE_OK;
}

enum base_status plots_finish(struct plots_canvas *canvas, enum plots_format format, int row_count,
                              struct plots_picture *out, struct base_error *error)
{
    struct base_text bytes = {.arena = canvas->arena};
    if (format == PLOTS_SVG) plots_put_svg(canvas, &bytes);
    else BASE_TRY(plots_render(canvas, format, &bytes, error));
    *out = (struct plots_picture){canvas->title, canvas->subtitle, row_count, bytes};
    return BASE_OK;
}
