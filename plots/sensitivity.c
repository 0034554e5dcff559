/* The value of each choice of the best plan: the plan with that choice changed. */
#include "plots/search_document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_FITTING = 4, SHOWN_OTHERS = 2, MOST_CHANGES = 1024 };
static const struct plots_look fitting = {PLOTS_THROUGHPUT, 1, 0, false},
                               tight_look = {PLOTS_THROUGHPUT, 0.25, 1.2, false}, unfit = {PLOTS_ALARM, 0, 1.2, false};

struct change {
    const char *key, *value;
    double change_frac;
    bool fits, tight, refused, shown; /* tight: it fits, but leaves less free than the search asks for */
    int order;
};

struct changes {
    struct change *list;
    int count;
    const char *best; /* what is changed */
};

static enum base_status read_changes(struct base_arena *arena, const struct plots_request *r, struct changes *out,
                                     struct base_error *error)
{
    const char *path = r->path;
    const struct base_json *list = base_json_find(r->document, "sensitivity", BASE_JSON_ARRAY);
    if (!list || !list->count || list->count > MOST_CHANGES)
        return base_fail(error, BASE_INPUT,
                         "%s: has no sensitivity of 1 to %d changes; use a search over more than one plan", path,
                         MOST_CHANGES);
    out->list = base_new(arena, struct change, list->count);
    for (const struct base_json *item = list->child; item; item = item->next) {
        const struct base_json *key = base_json_find(item, "key", BASE_JSON_STRING),
                               *value = base_json_find(item, "value", BASE_JSON_STRING);
        struct change *c = &out->list[out->count];
        if (!key || !value)
            return base_fail(error, BASE_INPUT, "%s: sensitivity[%d]: key and value are needed", path, out->count);
        *c = (struct change){plots_clean(arena, key->string),
                             plots_clean(arena, value->string),
                             base_json_real(item, "change_frac"),
                             base_json_find(item, "fits", BASE_JSON_TRUE) != NULL,
                             base_json_find(item, "tight", BASE_JSON_TRUE) != NULL,
                             base_json_find(item, "refused", BASE_JSON_TRUE) != NULL,
                             false,
                             out->count};
        if (!c->refused && !isfinite(c->change_frac))
            return base_fail(error, BASE_INPUT, "%s: sensitivity[%d]: change_frac is needed", path, out->count);
        out->count++;
    }
    return BASE_OK;
}

/* Of neighbours, as `predict --what-if` has them, without those that are refused and the plan itself. */
static enum base_status read_neighbours(struct base_arena *arena, const struct plots_request *r,
                                        const struct base_json *list, struct changes *out, struct base_error *error)
{
    double now = 0;
    if (list->count > MOST_CHANGES)
        return base_fail(error, BASE_INPUT, "%s: what_if has more than %d changes", r->path, MOST_CHANGES);
    out->list = base_new(arena, struct change, list->count + 1);
    out->best = "this plan";
    for (int pass = 0; pass <= 1; pass++)
        for (const struct base_json *item = list->child; item; item = item->next) {
            const struct base_json *answer = base_json_find(item, "answer", BASE_JSON_OBJECT);
            const double tokens =
                base_json_real(base_json_find(answer, "throughput", BASE_JSON_OBJECT), "tokens_per_s");
            const bool is_now = base_json_find(item, "now", BASE_JSON_TRUE) != NULL;
            if (!pass && is_now) now = tokens;
            if (!pass || is_now || !answer) continue;
            if (!isfinite(tokens / now))
                return base_fail(error, BASE_INPUT, "%s: what_if: tokens_per_s of each answer above 0 is needed",
                                 r->path);
            out->list[out->count] = (struct change){.key = plots_clean(arena, base_json_string(item, "key", "?")),
                                                    .value = plots_clean(arena, base_json_string(item, "value", "?")),
                                                    .change_frac = tokens / now - 1,
                                                    .fits = base_json_find(answer, "fits", BASE_JSON_TRUE) != NULL,
                                                    .tight = base_json_find(answer, "tight", BASE_JSON_TRUE) != NULL,
                                                    .order = out->count};
            out->count++;
        }
    if (out->count) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: nothing of the plan can be changed: nothing to draw", r->path);
}

/* The best value of a key first, invalid ones last. */
static int nearest_first(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->refused != y->refused) return x->refused ? 1 : -1;
    if (!x->refused && x->change_frac != y->change_frac) return x->change_frac > y->change_frac ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Keys stay in their order; the changes of each are sorted. */
static void sort_changes(struct changes *c)
{
    for (int first = 0, end; first < c->count; first = end) {
        for (end = first; end < c->count && !strcmp(c->list[end].key, c->list[first].key); end++) {
        }
        qsort(c->list + first, (size_t)(end - first), sizeof *c->list, nearest_first);
    }
}

/* The keys of which no other value fits: the plan hangs on them. "" if there is none. */
static const char *keys_it_hangs_on(struct base_arena *arena, const struct changes *c)
{
    enum { NAMED = 3 };
    struct base_text names = {.arena = arena};
    int count = 0;
    for (int first = 0, end; first < c->count; first = end) {
        bool any = false, fits = false;
        for (end = first; end < c->count && !strcmp(c->list[end].key, c->list[first].key); end++) {
            any = any || !c->list[end].refused;
            fits = fits || (!c->list[end].refused && c->list[end].fits);
        }
        if (any && !fits && count++ < NAMED) base_putf(&names, "%s%s", names.length ? ", " : "", c->list[first].key);
    }
    if (count > NAMED) base_putf(&names, " and %d more", count - NAMED);
    return names.length ? names.data : "";
}

/* The title names the keys that make the plan fit, and of the others the key whose second-best value costs most. */
static const char *title_of(struct base_arena *arena, const struct changes *c)
{
    const struct change *most = NULL, *gain = NULL;
    for (int i = 0; i < c->count; i++) {
        bool first = i == 0 || strcmp(c->list[i].key, c->list[i - 1].key) != 0;
        const struct change *best = NULL;
        for (int j = i; first && j < c->count && !strcmp(c->list[j].key, c->list[i].key); j++)
            if (!best && !c->list[j].refused && c->list[j].fits && !c->list[j].tight) best = &c->list[j];
        if (best && best->change_frac < (most ? most->change_frac : -0.0005)) most = best;
        if (best && best->change_frac > (gain ? gain->change_frac : 0.0005)) gain = best;
    }
    if (gain)
        return base_print(arena, "%s %s fits, and is %.1f %% faster", gain->key, gain->value, 100 * gain->change_frac);
    if (!most) return "No change of a single choice is faster and fits";
    const char *keys = keys_it_hangs_on(arena, c);
    return base_print(arena, "%s%s%s matters most: its next best value, %s, costs %.1f %%",
                      *keys ? "It fits only with its " : "Of plans that fit, ",
                      *keys ? base_print(arena, "%s; else ", keys) : "", most->key, most->value,
                      -100 * most->change_frac);
}

static const char *signed_percent(struct base_arena *arena, double frac)
{
    if (fabs(frac) < 0.0005) return "the same";
    return base_print(arena, "%s%.1f %%", frac > 0 ? "+" : "−", fabs(100 * frac));
}

static const char *change_words(struct base_arena *arena, const struct change *c)
{
    return base_print(arena, "%s%s", signed_percent(arena, c->change_frac),
                      !c->fits   ? ", does not fit"
                      : c->tight ? ", tight"
                                 : "");
}

/* Per key: the best and the worst value that fit, and the fastest that do not fit. */
static void choose_shown(struct changes *c)
{
    for (int first = 0, end; first < c->count; first = end) {
        int fitting_count = 0, others = 0, worst = -1;
        for (end = first; end < c->count && !strcmp(c->list[end].key, c->list[first].key); end++) {
            struct change *change = &c->list[end];
            bool fits = change->fits && !change->refused;
            change->shown = fits ? fitting_count++ < SHOWN_FITTING : others++ < SHOWN_OTHERS;
            if (fits) worst = end; /* they are sorted */
        }
        if (worst >= 0) c->list[worst].shown = true;
    }
}

/* Values not drawn: their number, their range, and the number of invalid ones. */
static const char *hidden_words(struct base_arena *arena, const struct changes *all, int first, int end)
{
    int fitting_count = 0, unfit_count = 0, refused = 0;
    double high = -HUGE_VAL, low = HUGE_VAL;
    for (int i = first; i < end; i++) {
        const struct change *c = &all->list[i];
        if (c->shown) continue;
        refused += c->refused;
        unfit_count += !c->refused && !c->fits;
        if (c->refused || !c->fits) continue;
        fitting_count++;
        high = fmax(high, c->change_frac), low = fmin(low, c->change_frac);
    }
    struct base_text text = {.arena = arena};
    const char *between = "and ";
    base_put(&text, "");
    if (fitting_count) {
        const char *best = signed_percent(arena, high), *worst = signed_percent(arena, low);
        if (!strcmp(best, worst)) base_putf(&text, "and %d at %s", fitting_count, best);
        else base_putf(&text, "and %d from %s to %s", fitting_count, best, worst);
        between = ", ";
    }
    if (unfit_count) {
        base_putf(&text, "%s%d that do%s not fit", between, unfit_count, unfit_count == 1 ? "es" : "");
        between = ", ";
    }
    if (refused) base_putf(&text, "%s%d that %s invalid", between, refused, refused == 1 ? "is" : "are");
    return text.data;
}

static int longest_first(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

/* The longest loss that is drawn whole: one that is far beyond most would flatten all others, and is cut. */
static double longest_whole(struct base_arena *arena, const struct changes *c)
{
    const double far = 4;
    double *losses = base_new(arena, double, c->count + 1);
    int count = 0;
    for (int k = 0; k < c->count; k++)
        if (!c->list[k].refused && c->list[k].shown && c->list[k].change_frac < 0)
            losses[count++] = -c->list[k].change_frac;
    qsort(losses, (size_t)count, sizeof *losses, longest_first);
    return fmin(losses[0], far * losses[count / 2]);
}

static struct plots_bar bar_of(struct base_arena *arena, const struct change *c, double whole_frac)
{
    const bool is_cut = c->change_frac < -whole_frac;
    const char *words = c->refused ? "invalid" : change_words(arena, c);
    return (struct plots_bar){.label = c->value,
                              .amount = is_cut ? base_print(arena, "%s (cut)", words) : words,
                              .hover = base_print(arena, "%s %s: %s", c->key, c->value, words),
                              .value = c->refused ? 0 : fmax(c->change_frac, -whole_frac),
                              .look = !c->fits || c->refused ? unfit
                                      : c->tight             ? tight_look
                                                             : fitting};
}

/* Rows: each key, its values that are shown, and what is not. */
static int fill_rows(struct base_arena *arena, const struct changes *c, struct plots_bar *rows)
{
    const double whole_frac = longest_whole(arena, c);
    int count = 0;
    for (int first = 0, end; first < c->count; first = end) {
        rows[count++] = (struct plots_bar){.label = c->list[first].key, .look = {.colour = PLOTS_INK}};
        for (end = first; end < c->count && !strcmp(c->list[end].key, c->list[first].key); end++)
            if (c->list[end].shown) rows[count++] = bar_of(arena, &c->list[end], whole_frac);
        const char *hidden = hidden_words(arena, c, first, end);
        if (*hidden) rows[count++] = (struct plots_bar){.label = hidden, .look = {.colour = PLOTS_MUTED}};
    }
    return count;
}

enum base_status plots_sensitivity(struct base_arena *arena, const struct plots_request *request,
                                   struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct changes c = {.best = "the best"};
    const struct base_json *around = base_json_find(request->document, "what_if", BASE_JSON_ARRAY),
                           *plan = base_json_find(request->document, around ? "plan" : "best", BASE_JSON_OBJECT);
    if (around) BASE_TRY(read_neighbours(arena, request, around, &c, error));
    else BASE_TRY(plots_search_check(arena, request, &canvas.subtitle, error));
    if (!around) BASE_TRY(read_changes(arena, request, &c, error));
    sort_changes(&c);
    choose_shown(&c);
    canvas.title = title_of(arena, &c);
    if (around)
        canvas.subtitle = base_print(arena, "%s on %s", plots_clean(arena, base_json_string(plan, "model", "a plan")),
                                     plots_clean(arena, base_json_string(plan, "topology", "its machine")));
    if (base_json_get(plan, "logical_axis_rules")) /* a plan as it was written says little of itself */
        canvas.subtitle = base_print(arena, "%s; %s is %s", canvas.subtitle, c.best, plots_plan_words(arena, plan));
    struct plots_bar *rows = base_new(arena, struct plots_bar, 3 * c.count);
    const double top = plots_heading(&canvas, canvas.title, canvas.subtitle);
    canvas.height_px = plots_put_bars(&canvas, top + 8, rows, fill_rows(arena, &c, rows), PLOTS_PERCENT,
                                      "change of tokens per second", NULL);
    return plots_finish(&canvas, request->format, c.count, out, error);
}
