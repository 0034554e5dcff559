/* Titles, labels and notes of a comparison. */
#include "lab/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Beyond it, a figure says no more than that it is absurd. */
#define MOST_FRAC 99.99

static const char *percent_size(struct base_arena *arena, double frac)
{
    double percent = 100 * fabs(frac);
    if (percent > 100 * MOST_FRAC) return base_print(arena, ">%.0f %%", 100 * MOST_FRAC);
    return base_print(arena, "%.*f %%", percent < 99.95 ? 1 : 0, percent);
}

static const char *noun(struct base_arena *arena, int count, const char *one, const char *many)
{
    return base_print(arena, "%d %s", count, count == 1 ? one : many);
}

/* ---- the finding ---- */

double lab_step_error_frac(const struct lab_comparison_row *row)
{
    if (row->measured == LAB_MEMORY_EXCEEDED) return NAN;
    double error_frac = row->predicted_step_s / row->measured_step_s - 1;
    return isnan(error_frac) ? row->measured_tokens_per_s / row->predicted_tokens_per_s - 1 : error_frac;
}

const double lab_large_error_frac = 0.1;

/* 1.1 over 1.0 is an error of 10 %, whatever its last bit says. */
bool lab_error_is_large(double error_frac)
{
    return fabs(error_frac) > lab_large_error_frac * (1 + 1e-9);
}

static void count_verdicts(struct lab_finding *finding, const struct lab_comparison_row *row)
{
    bool exceeded = row->measured == LAB_MEMORY_EXCEEDED && row->predicted != LAB_MEMORY_UNKNOWN;
    finding->exceeded_count += exceeded;
    finding->exceeded_right_count += exceeded && row->predicted == LAB_MEMORY_EXCEEDED;
    finding->false_alarm_count += row->measured == LAB_MEMORY_FITS && row->predicted == LAB_MEMORY_EXCEEDED;
    finding->unpredicted_count += row->predicted == LAB_MEMORY_UNKNOWN;
    finding->unmeasured_count += row->measured == LAB_MEMORY_UNKNOWN;
}

struct lab_finding lab_find(struct base_arena *arena, const struct lab_comparison *comparison)
{
    struct lab_finding finding = {0};
    double *errors = base_new(arena, double, comparison->count), sum = 0;
    for (int i = 0; i < comparison->count; i++) {
        double error_frac = lab_step_error_frac(&comparison->rows[i]);
        count_verdicts(&finding, &comparison->rows[i]);
        if (isnan(error_frac)) continue;
        errors[finding.pair_count++] = error_frac;
        sum += fabs(error_frac);
        if (fabs(error_frac) > fabs(finding.worst_error_frac)) finding.worst_error_frac = error_frac;
    }
    if (finding.pair_count == 0) return finding;
    int n = finding.pair_count;
    qsort(errors, (size_t)n, sizeof *errors, base_by_value);
    finding.mean_error_frac = sum / n;
    finding.median_error_frac = (errors[(n - 1) / 2] + errors[n / 2]) / 2;
    return finding;
}

const char *lab_finding_title(struct base_arena *arena, const struct lab_finding *finding)
{
    struct base_text title = {.arena = arena};
    if (finding->pair_count == 1)
        base_putf(&title, "Predicted step time is within %s of the one measured run",
                  percent_size(arena, finding->mean_error_frac));
    if (finding->pair_count > 1)
        base_putf(&title, "Predicted step time is within %s of %d measured runs on average",
                  percent_size(arena, finding->mean_error_frac), finding->pair_count);
    if (finding->exceeded_count)
        base_putf(&title, "%s%d of %d out-of-memory verdicts right", title.length ? "; " : "",
                  finding->exceeded_right_count, finding->exceeded_count);
    if (finding->false_alarm_count)
        base_putf(&title, "%s%s wrongly predicted not to fit", title.length ? "; " : "",
                  noun(arena, finding->false_alarm_count, "run", "runs"));
    return title.length ? title.data : "No plan has both a prediction and a measurement";
}

/* ---- the subtitle ---- */

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int distinct_count(const char **strings, int count)
{
    int distinct = 0;
    qsort(strings, (size_t)count, sizeof *strings, compare_strings);
    for (int i = 0; i < count; i++) distinct += i == 0 || strcmp(strings[i], strings[i - 1]) != 0;
    return distinct;
}

const char *lab_comparison_subtitle(struct base_arena *arena, const struct lab_comparison *comparison,
                                    const struct lab_finding *finding)
{
    const char **models = base_new(arena, const char *, comparison->count),
               **topologies = base_new(arena, const char *, comparison->count);
    for (int i = 0; i < comparison->count; i++) {
        models[i] = comparison->rows[i].model;
        topologies[i] = comparison->rows[i].topology;
    }
    struct base_text text = {.arena = arena};
    base_putf(&text, "%s: %s on %s.", noun(arena, comparison->count, "plan", "plans"),
              noun(arena, distinct_count(models, comparison->count), "model", "models"),
              noun(arena, distinct_count(topologies, comparison->count), "topology", "topologies"));
    if (finding->pair_count > 1)
        base_putf(&text, " Error of step time: median %s, worst %s; plus means predicted slower than measured.",
                  lab_percent(arena, finding->median_error_frac), lab_percent(arena, finding->worst_error_frac));
    if (finding->unpredicted_count)
        base_putf(&text, " %s without a prediction.", noun(arena, finding->unpredicted_count, "plan", "plans"));
    if (finding->unmeasured_count)
        base_putf(&text, " %s without a measurement.", noun(arena, finding->unmeasured_count, "plan", "plans"));
    return text.data;
}

/* ---- rows ---- */

void lab_put_key(struct base_text *out, const struct lab_comparison_row *row, int place, const char *separator)
{
    const char *value = row->plan[place], *after = lab_plan_key(place)->chart.after;
    size_t length = strlen(after);
    if (!*value) return;
    if (!strcmp(value, "1") && length > 2 && after[length - 1] == 's')
        length -= after[length - 3] == 'h' && after[length - 2] == 'e' ? 2 : 1; /* batches, partitions */
    base_putf(out, "%s%s%s%.*s", separator, lab_plan_key(place)->chart.before, value, (int)length, after);
}

const char *lab_percent(struct base_arena *arena, double frac)
{
    const char *sign = fabs(frac) < 0.0005 ? "" : frac < 0 ? "−" : "+";
    return base_print(arena, "%s%s", frac > MOST_FRAC ? "" : sign, percent_size(arena, frac));
}

static const char *memory_words(struct base_arena *arena, double bytes)
{
    return isnan(bytes) ? "" : base_print(arena, ", %s a device", base_bytes(bytes));
}

static struct lab_note verdict_note(struct base_arena *arena, enum lab_memory_verdict measured,
                                    enum lab_memory_verdict predicted)
{
    enum { KINDS = LAB_MEMORY_EXCEEDED + 1 };
    static const char *const measured_words[KINDS] = {
        [LAB_MEMORY_UNKNOWN] = "not measured", [LAB_MEMORY_FITS] = "ran", [LAB_MEMORY_EXCEEDED] = "ran out of memory"};
    static const char *const predicted_words[KINDS] = {[LAB_MEMORY_UNKNOWN] = "no prediction",
                                                       [LAB_MEMORY_FITS] = "predicted to fit",
                                                       [LAB_MEMORY_EXCEEDED] = "predicted not to fit"};
    bool judged = measured != LAB_MEMORY_UNKNOWN && predicted != LAB_MEMORY_UNKNOWN;
    return (struct lab_note){
        .text = base_print(arena, "%s; %s", measured_words[measured], predicted_words[predicted]),
        .verdict = !judged                 ? ""
                   : measured == predicted ? "agree"
                                           : "disagree",
        .disagrees = judged && measured != predicted,
    };
}

struct lab_note lab_row_note(struct base_arena *arena, const struct lab_comparison_row *row)
{
    if (row->measured == LAB_MEMORY_FITS && row->predicted == LAB_MEMORY_FITS) return (struct lab_note){0};
    struct lab_note note = verdict_note(arena, row->measured, row->predicted);
    if (row->predicted != LAB_MEMORY_UNKNOWN)
        note.text = base_print(arena, "%s%s", note.text, memory_words(arena, row->predicted_peak_memory_bytes));
    else if (*row->error) note.text = base_print(arena, "%s: %s", note.text, row->error);
    return note;
}

static void put_side(struct base_text *text, const char *side, double tokens_per_s, double step_s, double memory_bytes)
{
    const char *separator = " ";
    base_putf(text, "\n%s:", side);
    if (!isnan(tokens_per_s))
        base_putf(text, "%s%s target tokens/s", separator, base_count(tokens_per_s)), separator = ", ";
    if (!isnan(step_s)) base_putf(text, "%s%s a step", separator, base_seconds(step_s)), separator = ", ";
    if (!isnan(memory_bytes)) base_putf(text, "%s%s a device", separator, base_bytes(memory_bytes)), separator = ", ";
    if (*separator == ' ') base_put(text, " –");
}

const char *lab_row_words(struct base_arena *arena, const struct lab_comparison_row *row)
{
    struct base_text text = {.arena = arena};
    base_putf(&text, "%s: %s on %s", row->id, row->model, row->topology);
    for (int i = 0; lab_plan_key(i); i++) lab_put_key(&text, row, i, ", ");
    put_side(&text, "measured", row->measured_tokens_per_s, row->measured_step_s, row->measured_peak_memory_bytes);
    put_side(&text, "predicted", row->predicted_tokens_per_s, row->predicted_step_s, row->predicted_peak_memory_bytes);
    double error_frac = lab_step_error_frac(row);
    if (!isnan(error_frac)) base_putf(&text, "\nerror of step time: %s", lab_percent(arena, error_frac));
    struct lab_note note = lab_row_note(arena, row);
    if (note.text) base_putf(&text, "\n%s%s%s", note.text, *note.verdict ? ": " : "", note.verdict);
    return text.data;
}

/* Sizes that distinguish models come first: "num_layers=64" becomes "64 layers". */
static const struct {
    const char *key, *before, *after;
} main_keys[] = {
    {"num_layers=", "", " layers"},
    {"num_encoder_layers=", "", " encoder layers"},
    {"num_decoder_layers=", "", " decoder layers"},
    {"emb_dim=", "emb_dim ", ""},
    {"mlp_dim=", "mlp_dim ", ""},
    {"num_heads=", "", " heads"},
};

static bool is_main_key(const char *assignment)
{
    for (int i = 0; i < BASE_COUNT(main_keys); i++)
        if (!strncmp(assignment, main_keys[i].key, strlen(main_keys[i].key))) return true;
    return false;
}

static void put_main_key(struct base_text *text, const char *keys, int which)
{
    size_t length = strlen(main_keys[which].key);
    for (const char *at = keys; at; at = strchr(at + 1, ',')) {
        const char *value = at + 1 + length;
        if (strncmp(at + 1, main_keys[which].key, length) != 0) continue;
        base_putf(text, ", %s%.*s%s", main_keys[which].before, (int)strcspn(value, ","), value, main_keys[which].after);
        return;
    }
}

const char *lab_model_words(struct base_arena *arena, const char *model, const char **rest)
{
    const char *keys = strchr(model, ':');
    *rest = "";
    if (!keys || *model == '@' || !strchr(keys, '=')) return model;
    struct base_text main_text = {.arena = arena}, rest_text = {.arena = arena};
    for (int i = 0; i < BASE_COUNT(main_keys); i++) put_main_key(&main_text, keys, i);
    for (const char *at = keys; at; at = strchr(at + 1, ','))
        if (!is_main_key(at + 1)) base_putf(&rest_text, ", %.*s", (int)strcspn(at + 1, ","), at + 1);
    if (rest_text.length) *rest = rest_text.data + 2;
    return base_print(arena, "%.*s%s%s", (int)(keys - model), model, main_text.length ? ": " : "",
                      main_text.length ? main_text.data + 2 : "");
}
