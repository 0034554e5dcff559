/* libmeshwright: the program's answers inside another program. A session answers command lines one after the other, as
 * `meshwright batch` does; what it learned from one question (programs, shardings, routes) it keeps for the next.
 *
 *     struct meshwright *session = meshwright_open();
 *     const char *question[] = {"predict", "plan.json"}, *answer;
 *     int exit_code = meshwright_ask(session, 2, question, &answer);
 *     meshwright_close(session);
 *
 * Documents are those of the command line with --json: fields may be added, none changes its meaning or disappears.
 * Build with `cc example.c $(pkg-config --cflags --libs meshwright)`. */
#ifndef MESHWRIGHT_H
#define MESHWRIGHT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header; it changes when a function changes its meaning. */
#define MESHWRIGHT_API_VERSION 1
/* Of the program and of the library. */
#define MESHWRIGHT_VERSION "0.2.0"

/* A session is used by one thread at a time. Several sessions share nothing. */
struct meshwright;

/* NULL: out of memory. */
struct meshwright *meshwright_open(void);
/* Gives back all that the session holds, its last answer included. NULL is allowed. */
void meshwright_close(struct meshwright *session);

/* Answers `meshwright WORDS…`: *answer is {"exit": 0, "result": {…}}, or {"exit": 3, "error": "…"}. It belongs to the
 * session and lives until the next question. Returns the exit code of the command line: 0 done; 1 internal (out of
 * memory, too); 2 usage; 3 a value that cannot be accepted; 4 the plan does not fit (with its result); 5 the run
 * failed. The words are copied where they are kept. Prints nothing, and opens only files that the words name. */
int meshwright_ask(struct meshwright *session, int word_count, const char *const *words, const char **answer);

/* "0.1.0", and the MESHWRIGHT_API_VERSION that the library was built with. */
const char *meshwright_version(void);
int meshwright_api_version(void);

#ifdef __cplusplus
}
#endif

#endif
