/* An answer as a page: which kind it is follows from what the document holds. */
#include "reports/answer.h"

enum base_status reports_answer_page(const struct reports_answer *answer, struct base_text *out,
                                     struct base_error *error)
{
    static const struct {
        const char *member;
        enum base_json_kind kind;
        enum base_status (*put)(const struct reports_answer *answer, struct base_text *out, struct base_error *error);
    } pages[] = {{"sweep", BASE_JSON_OBJECT, reports_swept_html},
                 {"latency_front", BASE_JSON_ARRAY, reports_served_html},
                 {"answers", BASE_JSON_ARRAY, reports_compared_html},
                 {"search", BASE_JSON_OBJECT, reports_tuned_html},
                 {"predicted_step_s", BASE_JSON_NUMBER, reports_beside_html}};
    for (int i = 0; i < BASE_COUNT(pages); i++)
        if (reports_member(answer->document, pages[i].member, pages[i].kind)) return pages[i].put(answer, out, error);
    return base_fail(error, BASE_INPUT, "no page shows this answer; use JSON or text");
}
