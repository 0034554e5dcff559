/* Private to reports/: the pages of answers, each made from the JSON document that the command gives. */
#ifndef REPORTS_ANSWER_H
#define REPORTS_ANSWER_H

#include "reports/html.h"
#include "reports/reports.h"

/* ---- reading a document (answer_parts.c) ---- */

const struct base_json *reports_member(const struct base_json *object, const char *key, enum base_json_kind kind);
double reports_number(const struct base_json *object, const char *key);      /* NAN: there is none */
const char *reports_string(const struct base_json *object, const char *key); /* "": there is none */

/* ---- parts of a page (answer_parts.c) ---- */

/* A fact with what stands below it ("": nothing). */
enum reports_mark { REPORTS_PLAIN, REPORTS_BAD };
void reports_put_fact(struct base_text *out, const char *name, const char *value, const char *note,
                      enum reports_mark mark);
/* Buttons that copy the command and what launches the plan, and both as text. */
void reports_put_tools(struct base_text *out, const struct reports_answer *answer);
/* Title, what it is about, buttons that copy, the plan. */
void reports_put_answer_head(struct base_text *out, const struct reports_answer *answer, const char *kicker,
                             const char *title, const struct base_json *plan, const struct base_json *mesh);
/* Where the constants are from, and what was passed over. */
void reports_put_sources(struct base_text *out, const struct base_json *document);

/* The plans of "looked_at", for the script that lets a reader look around in them, which stands at the end of the page.
 */
void reports_put_looked_data(struct base_text *out, const struct base_json *looked);
extern const char *const reports_explore_script;

/* A number in words, copied into the arena: "1.5 GiB", "290 k", "12.3 ms". */
const char *reports_bytes_words(struct base_arena *arena, double bytes);
const char *reports_count_words(struct base_arena *arena, double count);
const char *reports_seconds_words(struct base_arena *arena, double seconds);
/* A member's value in words: "4, 2, 2, 1"; "": there is none. */
const char *reports_value_words(struct base_arena *arena, const struct base_json *object, const char *key);

/* "90 %: 265 k to 291 k" of a pair of numbers; "": there is none. */
const char *reports_interval_words(struct base_arena *arena, const struct base_json *object, const char *key,
                                   const char *(*words)(struct base_arena *, double));

/* ---- parts that predictions, runs and inference share (predicted_parts.c) ---- */

/* Memory at the peak, by what it is. */
void reports_put_peak(struct base_text *out, const struct base_json *document);
/* The machine with its groups, and the document's collectives below it. */
void reports_put_network(struct base_text *out, const struct reports_answer *answer, const struct base_json *document);

/* ---- pages ---- */

enum base_status reports_served_html(const struct reports_answer *answer, struct base_text *out,
                                     struct base_error *error);
enum base_status reports_compared_html(const struct reports_answer *answer, struct base_text *out,
                                       struct base_error *error);
enum base_status reports_swept_html(const struct reports_answer *answer, struct base_text *out,
                                    struct base_error *error);
enum base_status reports_tuned_html(const struct reports_answer *answer, struct base_text *out,
                                    struct base_error *error);
/* What the reader has to know of the input, at the head of a page. */
void reports_put_warnings(struct base_text *out, const struct base_json *document);
enum base_status reports_beside_html(const struct reports_answer *answer, struct base_text *out,
                                     struct base_error *error);

#endif
