/* Result of a search: ranked plans, the number decided by each means, and invalid plans. */
#include "reports/tuned.h"

#include <math.h>
#include <string.h>

/* ---- the space as a table ---- */

struct table {
    void (*put)(void *where, const char *bytes, size_t length);
    void *where;
    double headroom_frac;
    int64_t id;
    struct base_text line;
};

static void flush(struct table *table)
{
    table->put(table->where, table->line.data, table->line.length);
    table->line.length = 0;
}

static void put_row(const struct tuner_space *space, struct tuner_plan plan, struct table *table)
{
    const struct sim_plan_text text = tuner_plan_text(space, plan);
    base_putf(&table->line, "%lld", (long long)table->id++);
    for (int k = 0; k < SIM_KEY_COUNT; k++) {
        base_put(&table->line, ",");
        if (text.values[k]) base_put_csv(&table->line, text.values[k]);
    }
    base_put(&table->line, ",");
    base_put_double(&table->line, table->headroom_frac);
    base_put(&table->line, "\n");
    flush(table);
}

void reports_space_csv(const struct tuner_space *space, double headroom_frac,
                       void (*put)(void *where, const char *bytes, size_t length), void *where)
{
    struct table table = {put, where, headroom_frac, 0, {.arena = space->arena}};
    base_put(&table.line, "id");
    for (int k = 0; k < SIM_KEY_COUNT; k++) base_putf(&table.line, ",%s", sim_plan_keys[k].name);
    base_put(&table.line, ",headroom_frac\n");
    flush(&table);
    for (int i = 0; i < space->plan_count && space->stages; i++)
        put_row(space, (struct tuner_plan){i, 0, 0, 0}, &table);
    for (int g = 0; g < space->group_count; g++)
        for (int s = 0; s < tuner_group_submesh_count(space, g); s++)
            for (int m = 0; m < tuner_group_microbatch_count(space, g); m++)
                if (tuner_group_takes(space, g, m)) put_row(space, (struct tuner_plan){g, s, m, 0}, &table);
}

/* The batches of a search over them. */
static const struct tuner_values *batches_of(const struct tuner_space *space)
{
    int d = 0;
    while (space->keys[d] != SIM_BATCH_SIZE) d++;
    return &space->values[d];
}

static void put_heading_of_table(const struct reports_tuned *r, struct base_text *out)
{
    if (model_infers(r->space->step)) {
        reports_tuned_served_heading(out);
        return;
    }
    base_putf(out, "      %15s %10s %11s %11s %8s  ", "target tokens/s", "step", "peak", "free", "MFU");
    if (r->training.device_hour_price > 0) base_putf(out, "%12s  ", "price");
    base_put(out, "plan\n");
}

static void put_line_of_table(const struct reports_tuned *r, const char *rank, const struct tuner_found *f,
                              struct base_text *out)
{
    if (model_infers(r->space->step)) {
        reports_tuned_served_row(r, rank, f, out);
        return;
    }
    base_putf(out, "%5s %15s %s %11s %11s %6.1f %%  ", rank, base_count(f->prediction.tokens_per_s),
              reports_right(10, base_seconds(f->prediction.step_s)), base_bytes(tuner_needed_bytes(&f->prediction)),
              base_bytes(f->prediction.free_bytes), 100 * f->prediction.mfu_frac);
    if (r->training.device_hour_price > 0)
        base_putf(out, "%12s  ",
                  reports_price_words(r->arena, reports_length_of_run(&r->training, &f->prediction).price));
    reports_tuned_put_plan(r, f, out);
    base_put(out, "\n");
}

/* To the simulator they are one plan: the same time, memory, mesh and microbatches, whatever the rules are called. */
static bool is_alike(const struct reports_tuned *r, const struct tuner_found *a, const struct tuner_found *b)
{
    struct sim_plan_text x = tuner_plan_text(r->space, a->plan), y = tuner_plan_text(r->space, b->plan);
    const double s = a->prediction.step_s;
    bool alike = fabs(s - b->prediction.step_s) <= 1e-12 * s &&
                 a->prediction.memory.peak_bytes == b->prediction.memory.peak_bytes;
    for (int key = 0; alike && key < SIM_KEY_COUNT; key++) {
        const char *p = x.values[key] ? x.values[key] : "", *q = y.values[key] ? y.values[key] : "";
        alike = key == SIM_RULES || !strcmp(p, q);
    }
    return alike;
}

static const char *words_of(const struct reports_tuned *r, const struct tuner_found *f)
{
    struct sim_plan_text text = tuner_plan_text(r->space, f->plan);
    return text.values[SIM_RULES] ? reports_rule_words(r->arena, text.values[SIM_RULES]) : "";
}

/* The other rules of plans that are alike, each name once: rule sets without a name may read the same. */
static void put_other_rules(const struct reports_tuned *r, const struct tuner_found *plans, int count,
                            const char *ranks, struct base_text *out)
{
    bool any = false;
    for (int i = 1; i < count; i++) {
        const char *words = words_of(r, &plans[i]);
        bool known = false;
        for (int before = 0; before < i; before++) known = known || !strcmp(words, words_of(r, &plans[before]));
        if (known) continue;
        base_putf(out, "%5s %s%s\n", any ? "" : ranks, any ? "   or " : "identical sharding under rules ", words);
        any = true;
    }
}

enum plans_that { ARE_TIGHT, ARE_RANKED };

/* Plans that are alike are one line. */
static void put_lines(const struct reports_tuned *r, const struct tuner_found *plans, int count, enum plans_that that,
                      struct base_text *out)
{
    for (int i = 0, last; i < count; i = last + 1) {
        for (last = i; last + 1 < count && is_alike(r, &plans[i], &plans[last + 1]);) last++;
        put_line_of_table(r, that == ARE_RANKED ? base_print(r->arena, "%d.", i + 1) : "", &plans[i], out);
        put_other_rules(r, plans + i, last - i + 1, that == ARE_RANKED ? base_print(r->arena, "to %d.", last + 1) : "",
                        out);
    }
}

/* The verdict on plans that were found: the newest compiler's, where the search uses that of the software's date. */
static void put_left_out(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_result *result = r->result;
    if (result->plan_count && result->newest_peak_bytes > 0)
        base_putf(out,
                  "The search uses the compiler of the software's date; with the newest one the best plan needs %s.\n",
                  base_bytes(result->newest_peak_bytes));
    if (!result->refused_count) return;
    const bool newest = r->space->by_software;
    base_putf(out, "%s left out, since %s: %lld; the best of these: ",
              result->plan_count ? "Plans"
              : newest           ? "No plan found fits with the newest compiler. Plans"
                                 : "No plan that was found is likely to fit. Plans",
              newest ? "it refuses them" : "they probably do not fit", (long long)result->refused_count);
    base_putf(out, "%s, which needs %s\n", result->refused_words, base_bytes(result->refused_peak_bytes));
}

static void put_table(const struct reports_tuned *r, struct base_text *out)
{
    base_put(out, "\n");
    put_heading_of_table(r, out);
    put_lines(r, r->result->plans, r->result->plan_count, ARE_RANKED, out);
    if (!model_infers(r->space->step)) reports_tuned_apart_text(r, out);
}

static void put_tight(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_result *result = r->result;
    base_putf(out, "\n%s, but tight: under %.3g %% of a device's memory stays free (--headroom 0 ranks these, too)\n",
              result->plan_count ? "Faster" : "They fit", 100 * r->options->headroom_frac);
    put_lines(r, result->tight, result->tight_count, ARE_TIGHT, out);
    if (result->tight_as_met)
        base_put(out, "The search found these by the way; --headroom 0 searches for the fastest of them.\n");
}

/* The reason why the plan is not ranked: memory, or the headroom. */
static void put_missing(const struct reports_tuned *r, const struct sim_prediction *p, struct base_text *out)
{
    double headroom = r->options->headroom_frac * (double)p->memory.capacity_bytes, left = (double)p->free_bytes;
    const struct reports_shortage shortage = reports_shortage_of(p);
    if (!p->fits) base_put(out, reports_missing_words(r->arena, &shortage));
    else
        base_putf(out, "it fits, but leaves %s less than the headroom of %.3g %%", base_bytes(headroom - left),
                  100 * r->options->headroom_frac);
}

/* A long front is thinned out, with its ends. */
static void put_front(const struct reports_tuned *r, struct base_text *out)
{
    enum { MOST_SHOWN = 16 };
    const int count = r->result->front_count, shown = count < MOST_SHOWN ? count : MOST_SHOWN;
    const bool infers = model_infers(r->space->step);
    if (!count) return;
    if (infers) base_put(out, "\nLatency/throughput Pareto front");
    else
        base_putf(out, "\nSpeed against peak memory: each of these plans %s than all%s that need no more",
                  r->options->objective == TUNER_STEP_S ? "takes less time per step" : "does more target tokens/s",
                  r->result->counts.open ? " decided ones" : "");
    base_put(out, shown < count ? base_print(r->arena, " (%d of %d)\n", shown, count) : "\n");
    put_heading_of_table(r, out);
    for (int i = 0; i < shown; i++)
        put_line_of_table(r, "", &r->result->front[shown > 1 ? (int)((int64_t)i * (count - 1) / (shown - 1)) : 0], out);
}

/* What decided the plans of the space. */
static void put_counts(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_counts *c = &r->result->counts;
    const int64_t predicted = c->evaluated - c->looked_at;
    base_putf(out,
              "Of %lld plans %lld were predicted in full (%.1f %%); bounds on time decided %lld, bounds on memory %lld",
              (long long)r->space->plan_count, (long long)predicted,
              100 * (double)predicted / (double)r->space->plan_count, (long long)c->by_time, (long long)c->by_memory);
    if (c->programs || c->by_program) base_putf(out, ", choices of remat policies %lld", (long long)c->by_program);
    if (!r->space->stages) base_putf(out, ", a plan of the same mesh in another order %lld", (long long)c->by_sibling);
    if (c->open) base_putf(out, "; %lld are open", (long long)c->open);
    base_put(out, ".\n");
    if (c->looked_at > c->for_tight)
        base_putf(out, "%lld more were predicted before a bound was dropped and the search restarted.\n",
                  (long long)(c->looked_at - c->for_tight));
    if (c->for_tight)
        base_putf(out, "%lld more were predicted by a second search, of plans that fit and leave less.\n",
                  (long long)c->for_tight);
    if (!c->assignments) return;
    base_putf(out, "Layers went to stages in %lld ways that were predicted; the others cannot be better",
              (long long)c->assignments);
    base_putf(out, c->undecided ? ", except in %lld %s.\n" : ".\n", (long long)c->undecided,
              c->undecided == 1 ? "plan" : "plans");
}

static void put_proof(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_result *result = r->result;
    if (result->unasked)
        base_putf(out, "Not proven: only %s that were found were checked %s.\n",
                  result->plan_count ? "the fastest plans" : "plans",
                  r->space->by_software ? "against the newest compiler" : "for how likely they fit");
    else if (!result->proven_optimal && result->proven_within_frac < 1 && result->plan_count)
        base_putf(out, "Proven within %.3g %%: no plan of the space is better by more.\n", 100 * result->gap_frac);
    else if (result->proven_optimal && result->plan_count)
        base_putf(out, "Proven: no plan of the space%s is better.\n",
                  !result->refused_count  ? ""
                  : r->space->by_software ? " that the newest compiler takes"
                                          : " that likely fits");
    else if (result->proven_optimal && result->counts.out_of_bounds)
        base_putf(out, "Proven: none of the %lld plans that fit is within them.\n",
                  (long long)result->counts.out_of_bounds);
    else if (result->proven_optimal && r->warned)
        base_put(out, "No plan of the space fits, subject to the warnings above.\n");
    else if (result->proven_optimal)
        base_put(out, result->tight_count ? "Proven: no plan of the space leaves the headroom.\n"
                                          : "Proven: no plan of the space fits.\n");
    else if (r->space->stages && result->bound_violations)
        base_put(out, "Not proven: a prediction undercut its bound.\n");
    else if (result->plan_count && result->gap_frac < 1)
        base_putf(out, "Not proven: %s; the best plan is at most %.3g %% better.\n",
                  result->counts.undecided ? "other layers of stages were not all tried"
                                           : "the search was ended before its end",
                  reports_faster_percent(result->gap_frac));
    else if (result->plan_count)
        base_put(out, "Not proven: the search ended early, before it had a bound on better plans.\n");
    else base_put(out, "The search was ended before it found a plan that fits.\n");
    if (r->space->search_rules && result->plan_count > 1)
        base_put(out, "Of unnamed rule sets only the best was searched for: other good ones may be missing.\n");
    if (r->space->saved.value) base_put(out, "Of remat by tensor the best policy of each plan is ranked.\n");
    (model_infers(r->space->step) ? reports_tuned_served_counts : put_counts)(r, out);
}

/* A topology where a plan fits. */
static void put_wider(const struct reports_tuned *r, struct base_text *out)
{
    for (int i = 0; i < r->wider_count; i++) {
        const struct tuner_wider *wider = &r->wider[i];
        struct reports_tuned there = {.arena = r->arena, .space = wider->space};
        base_putf(out, "Fits%s%s%s%s: ", wider->topology ? " on " : "", wider->topology ? wider->topology : "",
                  wider->freed ? " without the limits on " : "", wider->freed ? wider->freed : "");
        reports_tuned_put_plan(&there, &wider->best, out);
        base_putf(out, ", %s target tokens/s, %s\n", base_count(wider->best.prediction.tokens_per_s),
                  base_bytes(wider->best.prediction.memory.peak_bytes));
    }
}

static void put_verdict(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_result *result = r->result;
    if (result->plan_count) {
        base_put(out, "Best: ");
        reports_tuned_put_plan(r, &result->plans[0], out);
        if (reports_verdict(&r->plans[0]) != SIM_FITS)
            base_putf(out, "\n%s: %s%s", reports_verdict_words(reports_verdict(&r->plans[0])),
                      reports_risk_words(out->arena, r->plans[0].confidence),
                      r->guarantee ? "" : "; --risk 10% ranks plans that are 90 % likely to fit");
        base_put(out, "\n");
        const struct tuner_values *batches = batches_of(r->space);
        const struct sim_plan_text best = tuner_plan_text(r->space, result->plans[0].plan);
        if (r->space->batch_auto && !strcmp(best.values[SIM_BATCH_SIZE], batches->values[batches->count - 1]))
            base_put(out, "That is the largest batch of the search; a larger one may be faster.\n");
        return;
    }
    if (result->counts.out_of_bounds) {
        base_put(out, "No plan is within the bounds.\n");
        return;
    }
    if (result->tight_count) base_putf(out, "Nothing fits with %.3g %% headroom.\n", 100 * r->options->headroom_frac);
    else base_put(out, result->proven_optimal ? "Nothing fits.\n" : "No plan that fits was found.\n");
    if (!result->has_nearest) return;
    base_put(out, "Nearest: ");
    reports_tuned_put_plan(r, &result->nearest, out);
    const struct reports_shortage shortage = reports_shortage_of(&result->nearest.prediction);
    base_putf(out, "\n         needs %s%s of %s on each device, ", result->nearest_is_bound ? "at least " : "",
              base_bytes(shortage.needed_bytes), base_bytes(shortage.limit_bytes));
    put_missing(r, &result->nearest.prediction, out);
    base_put(out, "\n");
    if (result->nearest_again) base_putf(out, "Reproduce the nearest: %s\n", result->nearest_again);
    put_wider(r, out);
}

/* ---- further results ---- */

static void put_unfit_text(const struct reports_tuned *r, struct base_text *out)
{
    const struct sim_prediction *unfit = &r->result->unfit.prediction, *best = &r->result->plans[0].prediction;
    if (unfit->tokens_per_s <= best->tokens_per_s) return;
    base_putf(out, "\n%.1f %% faster with %s more per device: ", 100 * (unfit->tokens_per_s / best->tokens_per_s - 1),
              base_bytes((double)-unfit->free_bytes));
    reports_tuned_put_plan(r, &r->result->unfit, out);
    base_put(out, "\n");
}

static int best_alternative(const struct reports_tuned *r, enum tuner_dimension d, const bool *done)
{
    int best = -1;
    for (int i = 0; i < r->alternative_count; i++) {
        const struct tuner_alternative *a = &r->alternatives[i];
        if (a->dimension != d || a->refused || done[i]) continue;
        if (best < 0 || a->prediction.tokens_per_s > r->alternatives[best].prediction.tokens_per_s) best = i;
    }
    return best;
}

static void put_sensitivity_text(const struct reports_tuned *r, struct base_text *out)
{
    enum { SHOWN = 3 };
    bool *done = base_new(r->arena, bool, r->alternative_count + 1);
    double best = r->result->plans[0].prediction.tokens_per_s;
    base_put(out, "\nThe best with one choice changed\n");
    for (int d = 0; d < TUNER_PLAN_DIMENSIONS; d++) {
        const enum sim_key key = r->space->keys[d];
        int shown = 0;
        for (int i; shown < SHOWN && (i = best_alternative(r, (enum tuner_dimension)d, done)) >= 0; shown++) {
            const struct tuner_alternative *a = &r->alternatives[i];
            done[i] = true;
            base_putf(out, "    %-24s %-16s %+7.1f %%%s\n", shown ? "" : sim_plan_keys[key].name, a->value,
                      100 * (a->prediction.tokens_per_s / best - 1),
                      !a->prediction.fits                                          ? ", but does not fit"
                      : sim_leaves_free(&a->prediction, r->options->headroom_frac) ? ""
                                                                                   : ", but tight");
        }
    }
}

/* Common keys of all plans; a searched key has no value here, not even its default. */
struct sim_plan_text reports_space_said(const struct tuner_space *space)
{
    struct sim_plan_text shared = space->plan;
    for (int d = 0; d < space->dimension_count; d++)
        if (space->values[d].count == 1) shared.values[space->keys[d]] = space->values[d].values[0];
    if (model_infers(space->step)) /* remat is of training */
        shared.values[SIM_REMAT_POLICY] = NULL;
    else shared = reports_said_filled(shared);
    for (int d = 0; d < space->dimension_count; d++)
        if (space->values[d].count > 1) shared.values[space->keys[d]] = NULL;
    return shared;
}

static void put_shared(const struct tuner_space *space, struct base_text *out)
{
    const struct sim_plan_text said = reports_space_said(space);
    reports_put_shared(&said, out);
    const struct tuner_values *batches = batches_of(space);
    if (space->batch_auto) base_put(out, "batch_size is one of");
    for (int i = 0; i < batches->count && space->batch_auto; i++)
        base_putf(out, "%s %s", i ? "," : "", batches->values[i]);
    base_put(out, space->batch_auto ? "; --batch-size lists others\n\n" : "\n");
}

static void put_heading(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_space *space = r->space;
    base_putf(out, "%s on %s: %lld plan%s", space->plan.values[SIM_MODEL], space->plan.values[SIM_TOPOLOGY],
              (long long)space->plan_count, space->plan_count == 1 ? "" : "s");
    if (space->stages) base_put(out, " with stages\n");
    else if (model_infers(space->step))
        base_putf(out, " of inference, step %s, by %s\n", reports_step_name(space->step),
                  tuner_objective_name(r->options->objective));
    else base_putf(out, ", %lld rule set%s\n", (long long)space->rule_set_count, space->rule_set_count == 1 ? "" : "s");
}

void reports_tuned_text(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_space *space = r->space;
    put_heading(r, out);
    put_shared(space, out);
    put_verdict(r, out);
    put_proof(r, out);
    if (r->result->plan_count && r->training.train_tokens > 0) {
        base_put(out, "By the best ");
        reports_training_text(&r->training, &r->result->plans[0].prediction, out);
    }
    if (r->result->plan_count) put_table(r, out);
    if (r->result->plan_count) base_putf(out, "Reproduce the best: %s\n", r->plans[0].again);
    put_left_out(r, out);
    if (r->result->tight_count) put_tight(r, out);
    reports_uncertain_text(r, out);
    if (r->result->front) put_front(r, out);
    if (r->why) reports_tuned_why_text(r, out);
    if (r->result->plan_count && r->result->has_unfit) put_unfit_text(r, out);
    if (r->alternatives) put_sensitivity_text(r, out);
    reports_refusals_text(space, out);
}

/* ---- --fit ---- */

static int smallest_fit(const struct tuner_fit_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        if (rows[i].fits) return i;
    return -1;
}

/* --fit considers only T5X's meshes, whose last axis is the model's. */
static int model_axis(const struct tuner_fit_row *row)
{
    return row->shape.axes.sizes[row->shape.axes.count - 1];
}

void reports_fit_json(const struct reports_tuned *r, const struct tuner_fit_row *rows, int count,
                      enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    int smallest = smallest_fit(rows, count);
    base_json_open(&w, '{');
    base_json_key(&w, "smallest_model_axis");
    if (smallest >= 0) base_json_put_int(&w, model_axis(&rows[smallest]));
    else base_json_put_null(&w);
    base_json_member_double(&w, "headroom_frac", r->options->headroom_frac); /* of a device's memory that stays free */
    base_json_member_open(&w, "sizes", '[');
    for (int i = 0; i < count; i++) {
        const struct sim_prediction *p = &rows[i].best.prediction;
        struct sim_plan_text text = tuner_plan_text(r->space, rows[i].best.plan);
        base_json_open(&w, '{');
        for (int a = 0; a < rows[i].shape.axes.count; a++)
            base_json_member_int(&w, rows[i].shape.axes.names[a], rows[i].shape.axes.sizes[a]);
        base_json_member_bool(&w, "fits", p->fits);
        if (p->fits && !rows[i].fits) base_json_member_bool(&w, "tight", true);
        base_json_member_bool(&w, "proven", rows[i].proven);
        sim_plan_put_member(&w, "plan", &text);
        if (p->fits) base_json_member_double(&w, "tokens_per_s", p->tokens_per_s);
        base_json_member_int(&w, "peak_bytes", p->memory.peak_bytes);
        base_json_member_int(&w, "free_bytes", p->free_bytes);
        base_json_close(&w, '}');
    }
    base_json_close(&w, ']');
    base_json_close(&w, '}');
}

void reports_fit_text(const struct reports_tuned *r, const struct tuner_fit_row *rows, int count, struct base_text *out)
{
    int smallest = smallest_fit(rows, count);
    const char *model = r->space->plan.values[SIM_MODEL], *topology = r->space->plan.values[SIM_TOPOLOGY];
    const int least = smallest >= 0 ? model_axis(&rows[smallest]) : 0;
    if (smallest >= 0)
        base_putf(out, "%s fits on %s with %d device%s or more to a copy of the model.\n", model, topology, least,
                  least == 1 ? "" : "s");
    else base_putf(out, "%s does not fit on %s, however it is partitioned.\n", model, topology);
    put_shared(r->space, out);
    base_putf(out, "The prediction of memory decides, with %.3g %% headroom (--headroom).\n\n",
              100 * r->options->headroom_frac);
    base_putf(out, "    %-20s %15s  %s\n", "mesh", "target tokens/s", "the fastest plan that fits there");
    for (int i = 0; i < count; i++) {
        const struct sim_prediction *p = &rows[i].best.prediction;
        const char *mesh = base_print(r->arena, "%d x %d", rows[i].shape.axes.sizes[0], model_axis(&rows[i]));
        base_putf(out, "    %-20s %15s  ", mesh, p->fits ? base_count(p->tokens_per_s) : "-");
        if (!rows[i].fits) put_missing(r, p, out);
        if (!rows[i].fits) base_put(out, ": ");
        reports_tuned_put_plan(r, &rows[i].best, out);
        base_put(out, "\n");
    }
}
