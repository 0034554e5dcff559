/* Bounds for all rule sets of a cell. A choice of rules has a price and a weight, both sums over parts, and saved
 * memory limits the weight. The cheapest choice is an integer program. */
#include "tuner/relax.h"

#include <math.h>
#include <string.h>

struct tuner_table tuner_table_new(struct base_arena *arena, int context_count, int component_count,
                                   const int *option_counts)
{
    struct tuner_table table = {.context_count = context_count, .component_count = component_count};
    table.context_s = base_new(arena, double, context_count);
    table.context_bytes = base_new(arena, double, context_count);
    for (int c = 0; c < component_count; c++) {
        table.option_counts[c] = option_counts[c];
        table.option_s[c] = base_new(arena, double, (int64_t)context_count *option_counts[c]);
        table.option_bytes[c] = base_new(arena, double, (int64_t)context_count *option_counts[c]);
    }
    return table;
}

/* An option is useless if another one of its context is at least as good in both. */
static bool is_beaten(const double *s, const double *bytes, int count, int option)
{
    for (int i = 0; i < count; i++) {
        bool as_good = s[i] <= s[option] && bytes[i] <= bytes[option];
        if (i != option && as_good && (s[i] < s[option] || bytes[i] < bytes[option] || i < option)) return true;
    }
    return false;
}

/* The context's own part belongs to the context's option, so components only add differences. */
static void add_component(struct tuner_choices *choices, const struct tuner_table *table, int component,
                          const int *contexts)
{
    int group = tuner_choices_group(choices), count = table->option_counts[component];
    for (int context = 0; context < table->context_count; context++) {
        const double *s = table->option_s[component] + (size_t)context * (size_t)count,
                     *bytes = table->option_bytes[component] + (size_t)context * (size_t)count;
        for (int i = 0; i < count && contexts[context] >= 0; i++) {
            if (!isfinite(s[i]) || is_beaten(s, bytes, count, i)) continue;
            int option = tuner_choices_option(choices, group);
            tuner_choices_set(choices, option, s[i], bytes[i]);
            tuner_choices_need(choices, option, &contexts[context], 1);
        }
    }
}

static bool is_open(const struct tuner_table *table, int context)
{
    bool open = isfinite(table->context_s[context]);
    for (int c = 0; open && c < table->component_count; c++) {
        bool any = false;
        for (int i = 0; i < table->option_counts[c]; i++)
            any = any || isfinite(table->option_s[c][context * table->option_counts[c] + i]);
        open = any;
    }
    return open;
}

enum tuner_choices_outcome tuner_table_least(struct base_arena *arena, const struct tuner_table *table,
                                             double limit_bytes, double *least_s)
{
    struct tuner_choices *choices = tuner_choices_new(arena);
    int group = tuner_choices_group(choices), *contexts = base_new(arena, int, table->context_count), open = 0;
    *least_s = 0;
    for (int context = 0; context < table->context_count; context++) {
        contexts[context] = -1;
        if (!is_open(table, context)) continue;
        contexts[context] = tuner_choices_option(choices, group);
        tuner_choices_set(choices, contexts[context], table->context_s[context], table->context_bytes[context]);
        open++;
    }
    if (!open) return TUNER_NOTHING_WITHIN_LIMIT;
    for (int c = 0; c < table->component_count; c++) add_component(choices, table, c, contexts);
    enum tuner_choices_outcome outcome = tuner_choices_solve(choices, limit_bytes, least_s);
    tuner_choices_free(choices);
    return outcome;
}

double tuner_relaxed_s(const struct tuner_relaxed_program *relaxed, const unsigned char (*any)[MODEL_MAX_RANK],
                       const struct sim_placement *placement, int64_t batch, int64_t microbatches,
                       struct tuner_charges charges)
{
    struct tuner_work w;
    double s = 0;
    tuner_work_begin(&w, relaxed, any, placement, batch, microbatches, charges);
    w.exact = 0;
    for (int k = 0; k < relaxed->kernel_count; k++) s += tuner_work_kernel_s(&w, k);
    return s;
}
