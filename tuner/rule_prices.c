/* Prices of rule sets, class by class. */
#include "tuner/rule_space.h"

#include <math.h>
#include <string.h>

/* ---- prices ---- */

static struct tuner_rule_cell *new_cell(struct base_arena *arena, const struct tuner_coding *coding)
{
    struct tuner_rule_cell *cell = base_new(arena, struct tuner_rule_cell, 1);
    *cell = (struct tuner_rule_cell){.coding = coding,
                                     .context_s = base_new(arena, double, coding->context_count),
                                     .context_bytes = base_new(arena, double, coding->context_count)};
    for (int j = 0; j < coding->component_count; j++) {
        const int64_t count = (int64_t)coding->context_count * coding->components[j].option_count;
        cell->option_s[j] = base_new(arena, double, count);
        cell->option_bytes[j] = base_new(arena, double, count);
        cell->equals[j] = base_new(arena, int, count);
    }
    return cell;
}

double tuner_rule_space_s(const struct tuner_coding *coding, const struct sim_placement *placement, int64_t batch,
                          int64_t microbatches, bool links)
{
    struct tuner_work w;
    double s = 0;
    tuner_work_begin(&w, coding->o, coding->any, placement, batch, microbatches, links);
    w.exact = 0;
    for (int k = 0; k < coding->o->kernel_count; k++) s += tuner_work_kernel_s(&w, k);
    return s;
}

/* A relaxed program with some digits fixed. */
struct pricer {
    const struct tuner_coding *coding;
    struct tuner_work work;
    unsigned char spec[TUNER_MOST_CLASSES][MODEL_MAX_RANK];
    int digits[TUNER_MOST_DIGITS];
    const struct topo_axes *mesh;
};

/* Classes with all digits fixed get exactly their shards; others those of any choice of the open digits. */
static void settle(struct pricer *p, unsigned settled, unsigned touched)
{
    const struct tuner_coding *coding = p->coding;
    uint64_t changed = 0;
    for (int c = 0; c < coding->o->class_count; c++) {
        const struct coded_class *class = &coding->classes[c];
        if (touched && !(class->scope & touched)) continue;
        changed |= UINT64_C(1) << c;
        unsigned open = class->scope & ~settled;
        if (open) p->work.exact &= ~(UINT64_C(1) << c);
        else p->work.exact |= UINT64_C(1) << c;
        int all[TUNER_MOST_DIGITS], count = tuner_rules_count_of(coding->space, open);
        memcpy(all, p->digits, sizeof all);
        memset(p->spec[c], 0, sizeof p->spec[c]);
        for (int i = 0; i < count; i++) {
            tuner_rules_put_digits(coding->space, open, i, all);
            const unsigned char *spec = tuner_rules_spec_under(coding, c, all);
            for (int d = 0; d < MODEL_MAX_RANK; d++) p->spec[c][d] |= spec[d];
        }
    }
    tuner_work_size(&p->work, changed);
}

/* Time of the context's kernels (scope 0) or a component's. The sum may stop once it reaches limit_s. */
static double kernels_s(const struct pricer *p, unsigned scope, double limit_s)
{
    const struct tuner_coding *coding = p->coding;
    double s = 0;
    for (int k = 0; k < coding->o->kernel_count && s < limit_s; k++) {
        unsigned own = coding->kernel_scopes[k] & ~coding->context_scope;
        if (scope ? own & scope : !own) s += tuner_work_kernel_s(&p->work, k);
    }
    return s;
}

/* Bytes of the train state in the context (scope 0) or in a single component. */
static double bytes_of(const struct pricer *p, unsigned scope)
{
    uint64_t classes = 0;
    for (int c = 0; c < p->coding->o->class_count; c++) {
        const unsigned own = p->coding->classes[c].scope & ~p->coding->context_scope;
        if (scope ? own & scope : !own) classes |= UINT64_C(1) << c;
    }
    return tuner_work_state_bytes(&p->work, classes);
}

/* One component in one context: the useful time limit of its options, and the fastest of them. */
struct component_search {
    struct pricer *p;
    struct tuner_rule_cell *cell;
    int context, j;
    double limit_s, least_s;
};

/* Options at or above the limit are excluded. */
static void price_option(struct component_search *search, int option)
{
    struct pricer *p = search->p;
    const struct component *component = &p->coding->components[search->j];
    const int at = search->context * component->option_count + option;
    const unsigned settled = p->coding->context_scope | component->scope;
    settle(p, settled, component->scope);
    const double s = kernels_s(p, component->scope, search->limit_s);
    if (s >= search->limit_s) return;
    search->cell->option_s[search->j][at] = s;
    search->cell->option_bytes[search->j][at] = bytes_of(p, component->scope);
    search->least_s = fmin(search->least_s, s);
}

/* Returns the least time of an option below limit_s; INFINITY: none. */
static double price_component(struct pricer *p, struct tuner_rule_cell *cell, int context, int j, double limit_s)
{
    const struct component *component = &p->coding->components[j];
    struct component_search search = {p, cell, context, j, limit_s, INFINITY};
    for (int i = 0; i < component->option_count; i++) {
        const int at = context * component->option_count + i, alike = p->coding->alike[j][at];
        cell->option_s[j][at] = cell->option_bytes[j][at] = INFINITY;
        tuner_rules_put_digits(p->coding->space, component->scope, i, p->digits);
        if (!tuner_rules_all_divide(p->coding, component->scope, TUNER_OWN_AXES, p->digits, p->mesh)) continue;
        cell->equals[j][context * component->option_count + alike]++;
        if (alike == i) price_option(&search, i);
    }
    settle(p, p->coding->context_scope, component->scope);
    return search.least_s;
}

/* Components with few options come first: if they are too slow, the others need no prices. */
static void order_components(const struct tuner_coding *coding, int order[TUNER_MOST_COMPONENTS])
{
    for (int j = 0; j < coding->component_count; j++) {
        int at = j;
        for (; at > 0 && coding->components[order[at - 1]].option_count > coding->components[j].option_count; at--)
            order[at] = order[at - 1];
        order[at] = j;
    }
}

static void price_context(struct pricer *p, struct tuner_rule_cell *cell, int context, int64_t batch, double limit_s)
{
    const struct tuner_coding *coding = p->coding;
    const double *c = p->work.placement->profile.constants;
    int order[TUNER_MOST_COMPONENTS];
    memset(p->digits, 0, sizeof p->digits);
    tuner_rules_put_digits(coding->space, coding->context_scope, context, p->digits);
    cell->context_s[context] = cell->context_bytes[context] = INFINITY;
    if (!tuner_rules_batch_divides(coding, p->digits, p->mesh, batch) ||
        !tuner_rules_all_divide(coding, 0, TUNER_AXES_IN_CONTEXT, p->digits, p->mesh))
        return;
    settle(p, coding->context_scope, 0);
    const double own_s = kernels_s(p, 0, limit_s), bytes = bytes_of(p, 0) + c[SIM_RESERVED_BYTES];
    /* The time left for the components. None is counted before it is priced: with open digits a kernel's bound may
     * exceed its time with some digits fixed. */
    double room_s = limit_s - own_s;
    order_components(coding, order);
    for (int i = 0; i < coding->component_count && room_s > 0; i++)
        room_s -= price_component(p, cell, context, order[i], room_s);
    if (!(room_s > 0)) return;
    cell->context_s[context] = own_s;
    cell->context_bytes[context] = bytes;
}

struct tuner_rule_cell *tuner_rule_cell_price(struct base_arena *arena, const struct tuner_coding *coding,
                                              const struct sim_placement *placement, int64_t batch,
                                              int64_t microbatches, bool links, double limit_s)
{
    struct tuner_rule_cell *cell = new_cell(arena, coding);
    struct pricer *p = base_new(arena, struct pricer, 1);
    p->coding = coding;
    p->mesh = &placement->axes;
    memcpy(p->spec, coding->any, sizeof p->spec);
    tuner_work_begin(&p->work, coding->o, (const unsigned char(*)[MODEL_MAX_RANK])p->spec, placement, batch,
                     microbatches, links);
    for (int context = 0; context < coding->context_count; context++) price_context(p, cell, context, batch, limit_s);
    return cell;
}
