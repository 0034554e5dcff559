/* Reads the documents that commands write: a search, a prediction. */
#include "plots/search_document.h"

#include <math.h>
#include <string.h>

enum { LARGEST_DOCUMENT_BYTES = 64 << 20 };

const struct base_json *plots_member(const struct base_json *object, const char *key, enum base_json_kind kind)
{
    const struct base_json *member = object && object->kind == BASE_JSON_OBJECT ? base_json_get(object, key) : NULL;
    return member && member->kind == kind ? member : NULL;
}

double plots_number(const struct base_json *object, const char *key)
{
    const struct base_json *member = plots_member(object, key, BASE_JSON_NUMBER);
    return member ? member->number : (double)NAN;
}

static void put_list(struct base_text *out, const struct base_json *list)
{
    for (const struct base_json *item = list->child; item; item = item->next)
        base_putf(out, "%s%.4g", item == list->child ? "" : ",", item->number);
}

const char *plots_string(const struct base_json *object, const char *key, const char *fallback)
{
    const struct base_json *member = plots_member(object, key, BASE_JSON_STRING);
    return member ? member->string : fallback;
}

const char *plots_plan_words(struct base_arena *arena, const struct base_json *plan)
{
    struct base_text text = {.arena = arena};
    const struct base_json *submesh = plots_member(plan, "model_parallel_submesh", BASE_JSON_ARRAY);
    double partitions = plots_number(plan, "num_partitions"), microbatches = plots_number(plan, "num_microbatches");
    if (submesh) put_list(&text, submesh);
    else if (!isnan(partitions)) base_putf(&text, "%.0f partitions", partitions);
    base_putf(&text, " · %s", plots_string(plan, "logical_axis_rules", "own rules"));
    if (microbatches > 1) base_putf(&text, " · %.0f microbatches", microbatches);
    if (strcmp(plots_string(plan, "remat_policy", "none"), "none") != 0)
        base_putf(&text, " · remat %s", plots_string(plan, "remat_policy", ""));
    return plots_clean(arena, text.data);
}

/* ---- answers ---- */

const char *plots_mesh_words(struct base_arena *arena, const struct base_json *mesh)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "");
    for (const struct base_json *axis = mesh ? mesh->child : NULL; axis; axis = axis->next)
        if (axis->kind == BASE_JSON_NUMBER)
            base_putf(&text, "%s%s %.0f", text.length ? " × " : "", plots_clean(arena, axis->key), axis->number);
    return text.data;
}

/* Of the plan what a reader tells two answers apart by; what is as usual is left out. */
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
    const struct base_json *plan = plots_member(document, "plan", BASE_JSON_OBJECT);
    struct base_text text = {.arena = arena};
    base_putf(&text, "%s on %s", plots_clean(arena, plots_string(plan, "model", "?")),
              plots_clean(arena, plots_string(plan, "topology", "?")));
    const char *mesh = plots_mesh_words(arena, plots_member(document, "mesh", BASE_JSON_OBJECT));
    if (*mesh) base_putf(&text, ", mesh %s", mesh);
    if (plots_number(plan, "batch_size") > 0) base_putf(&text, ", batch %.0f", plots_number(plan, "batch_size"));
    if (plots_number(plan, "num_microbatches") > 1)
        base_putf(&text, " in %.0f microbatches", plots_number(plan, "num_microbatches"));
    for (int i = 0; i < BASE_COUNT(words); i++) {
        const char *value = plots_string(plan, words[i].key, words[i].usual);
        if (strcmp(value, words[i].usual) != 0) base_putf(&text, ", %s%s", words[i].before, plots_clean(arena, value));
    }
    return text.data;
}

struct plots_canvas plots_canvas_of(struct base_arena *arena, const struct plots_request *request)
{
    return (struct plots_canvas){
        .arena = arena, .width_px = request->width_px, .embedded = request->format == PLOTS_EMBEDDED};
}

/* ---- searches ---- */

enum base_status plots_search_read(struct base_arena *arena, const char *path, const struct base_json **out,
                                   const char **subtitle, struct base_error *error)
{
    const char *text;
    size_t length;
    const struct base_json *document;
    BASE_TRY(base_read_file(arena, path, LARGEST_DOCUMENT_BYTES, &text, &length, error));
    if (base_json_parse(arena, text, length, &document, error) != BASE_OK) return base_fail_in(error, "%s", path);
    const struct base_json *search = plots_member(document, "search", BASE_JSON_OBJECT),
                           *best = plots_member(document, "best", BASE_JSON_OBJECT);
    if (!search)
        return base_fail(error, BASE_INPUT,
                         "%s: is no answer of a search; `meshwright tune … --json --out FILE` writes one", path);
    if (!best)
        return base_fail(error, BASE_INPUT, "%s: the search found no plan that fits, so that there is nothing to draw",
                         path);
    *subtitle = base_print(arena, "%s on %s, batch %.0f: %.0f plans searched",
                           plots_clean(arena, plots_string(best, "model", "?")),
                           plots_clean(arena, plots_string(best, "topology", "?")), plots_number(best, "batch_size"),
                           plots_number(search, "space_count"));
    *out = document;
    return BASE_OK;
}

enum base_status plots_finish(struct plots_canvas *canvas, enum plots_format format, int row_count,
                              struct plots_picture *out, struct base_error *error)
{
    struct base_text bytes = {.arena = canvas->arena};
    if (format == PLOTS_SVG || format == PLOTS_EMBEDDED) plots_put_svg(canvas, &bytes);
    else BASE_TRY(plots_render(canvas, format, &bytes, error));
    *out = (struct plots_picture){canvas->title, canvas->subtitle, row_count, bytes};
    return BASE_OK;
}
