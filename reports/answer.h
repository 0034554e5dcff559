/* Private to reports/: reading a document that a command gave (answer_parts.c). */
#ifndef REPORTS_ANSWER_H
#define REPORTS_ANSWER_H

#include "reports/reports.h"

const struct base_json *reports_member(const struct base_json *object, const char *key, enum base_json_kind kind);
double reports_number(const struct base_json *object, const char *key);      /* NAN: there is none */
const char *reports_string(const struct base_json *object, const char *key); /* "": there is none */
/* A member's value in words: "4, 2, 2, 1"; "": there is none. */
const char *reports_value_words(struct base_arena *arena, const struct base_json *object, const char *key);

#endif
