/* Reads the document that `tune --json` wrote. */
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

static const char *string_of(const struct base_json *object, const char *key, const char *fallback)
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
    base_putf(&text, " · %s", string_of(plan, "logical_axis_rules", "own rules"));
    if (microbatches > 1) base_putf(&text, " · %.0f microbatches", microbatches);
    if (strcmp(string_of(plan, "remat_policy", "none"), "none") != 0)
        base_putf(&text, " · remat %s", string_of(plan, "remat_policy", ""));
    return plots_clean(arena, text.data);
}

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
                           plots_clean(arena, string_of(best, "model", "?")),
                           plots_clean(arena, string_of(best, "topology", "?")), plots_number(best, "batch_size"),
                           plots_number(search, "space_count"));
    *out = document;
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
