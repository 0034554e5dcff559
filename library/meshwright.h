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

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header; it changes with a function's meaning. */
#define MESHWRIGHT_API_VERSION 1
/* Version of the program and of the library. */
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

/* ---- typed: plain structs in and out (typed.c) ---- */

/* Version of these structs: a program built with another number must not use them (mw_abi_version). The shared library
 * is libmeshwright.so.1. */
#define MW_ABI_VERSION 1
typedef struct meshwright mw_session;

/* A key that mw_plan has no member for, named and valued as `meshwright predict` has them in a plan's JSON. */
struct mw_key {
    const char *name, *value;
};
/* NULL and 0: the default of an omitted key. Strings are the caller's and are copied. */
struct mw_plan {
    const char *model, *topology; /* "llama3_8b", "v5e-256" */
    const char *software, *logical_axis_rules, *optimizer, *remat_policy, *dtype, *attention;
    const char *model_parallel_submesh, *ici_mesh; /* "4,2,2,1"; "fsdp=16,tensor=4" */
    int64_t batch_size, num_microbatches, inputs_length, targets_length;
    int64_t num_partitions, pipeline_stages, virtual_stages, context_parallel, expert_parallel;
    const struct mw_key *others;
    int64_t other_count;
};
/* Values of the prediction's document; low and high are its 90 % interval. Memory is that of one device. */
struct mw_prediction {
    double fits_probability_frac;
    double step_s, step_low_s, step_high_s;
    double compute_s, memory_bound_s, exposed_communication_s, overhead_s; /* they add up to step_s */
    double tokens_per_s, mfu_frac;
    int64_t capacity_bytes, peak_bytes, peak_low_bytes, peak_high_bytes;
    int64_t parameter_bytes, optimizer_state_bytes, gradient_bytes, activation_bytes, temporary_bytes, reserved_bytes;
    int64_t fits; /* 1 or 0 */
};

/* Returns the exit code of `meshwright predict`: 0, and 4 if the plan does not fit, both with *out. Any other leaves
 * *out unchanged; mw_message has the reason. */
int mw_predict(mw_session *session, const struct mw_plan *plan, struct mw_prediction *out);
/* How far a search is. */
struct mw_progress {
    const char *what; /* "plans decided" */
    int64_t done, total;
    double best_tokens_per_s; /* of the best plan so far; 0: none yet */
    double gap_frac;          /* the best is at most this share below the optimum; 1: not known */
};
/* NULL and 0: the usual. */
struct mw_tuning {
    const char *objective; /* "tokens_per_s", "step_s", "tokens_per_device_hour" */
    int64_t top;           /* plans to return; 0: 5 */
    double headroom_frac;  /* share of a device's memory that stays free; 0: the usual one */
    /* Called often, by the thread that asks; it returns 1 to end the search with what it has, or 0. May be NULL. */
    int (*progress)(void *where, const struct mw_progress *progress);
    void *where;
};
struct mw_found {
    struct mw_plan plan;
    struct mw_prediction prediction;
};
/* Plans, best first. They and their strings belong to the session and live until its next question. */
struct mw_search {
    const struct mw_found *found;
    int64_t found_count, space_count, evaluated_count;
    double gap_frac;
    int64_t proven_optimal; /* 1 or 0 */
};
/* The best plans of a space, as `meshwright tune` has them: members that are given are fixed; among the others a value
 * may be a list ("1,2,4"). how may be NULL. Returns its exit code, and 4 with found_count 0 where nothing fits. */
int mw_tune(mw_session *session, const struct mw_plan *plan, const struct mw_tuning *how, struct mw_search *out);
/* The error of the last question; "" if it succeeded. It lives until the next question. */
const char *mw_message(const mw_session *session);
int mw_abi_version(void);

/* "0.1.0", and the MESHWRIGHT_API_VERSION that the library was built with. */
const char *meshwright_version(void);
int meshwright_api_version(void);

#ifdef __cplusplus
}
#endif

#endif
