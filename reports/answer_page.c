/* An answer as a page: which kind it is follows from what the document holds. */
#include "reports/answer.h"

#include <math.h>

const struct base_json *reports_member(const struct base_json *object, const char *key, enum base_json_kind kind)
{
    const struct base_json *member = object && object->kind == BASE_JSON_OBJECT ? base_json_get(object, key) : NULL;
    return member && member->kind == kind ? member : NULL;
}

double reports_number(const struct base_json *object, const char *key)
{
    const struct base_json *member = reports_member(object, key, BASE_JSON_NUMBER);
    return member ? member->number : (double)NAN;
}

const char *reports_string(const struct base_json *object, const char *key)
{
    const struct base_json *member = reports_member(object, key, BASE_JSON_STRING);
    return member ? member->string : "";
}

void reports_put_warnings(struct base_text *out, const struct base_json *document)
{
    const struct base_json *list = reports_member(document, "warnings", BASE_JSON_ARRAY);
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
        if (item->kind != BASE_JSON_STRING) continue;
        base_put(out, "<p role=\"note\"><strong>Warning:</strong> ");
        reports_html_text(out, item->string);
        base_put(out, "</p>\n");
    }
}

enum base_status reports_answer_page(const struct reports_answer *answer, struct base_text *out,
                                     struct base_error *error)
{
    static const struct {
        const char *member;
        enum base_json_kind kind;
        enum base_status (*put)(const struct reports_answer *answer, struct base_text *out, struct base_error *error);
    } pages[] = {
        {"mode", BASE_JSON_STRING, reports_inferred_html},          {"sweep", BASE_JSON_OBJECT, reports_swept_html},
        {"latency_front", BASE_JSON_ARRAY, reports_served_html},    {"answers", BASE_JSON_ARRAY, reports_compared_html},
        {"time", BASE_JSON_OBJECT, reports_prediction_html},        {"search", BASE_JSON_OBJECT, reports_tuned_html},
        {"predicted_step_s", BASE_JSON_NUMBER, reports_beside_html}};
    for (int i = 0; i < BASE_COUNT(pages); i++)
        if (reports_member(answer->document, pages[i].member, pages[i].kind)) return pages[i].put(answer, out, error);
    return base_fail(error, BASE_INPUT, "no page shows this answer; use JSON or text");
}
