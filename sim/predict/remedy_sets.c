/* Tries changes of a plan: predicts it, and keeps it if it fits. Where no change and no two fit, sets of more are
 * searched by memory. */
#include "sim/predict/remedies.h"

#include <math.h>
#include <string.h>

/* A mesh that the torus refuses is asked for again with axes that share its dimensions. */
static bool check_changed(struct sim_remedy_trial *t, struct sim_plan_text *text, struct sim_plan *out)
{
    struct base_error ignored;
    const enum model_step step = t->plan->options.step;
    if (sim_plan_check_another(t->cache, text, step, t->plan->form, out, &ignored) == BASE_OK) return true;
    if (!t->plan->request.ici_mesh.count || sim_key_is_given(text, SIM_SPLIT_PHYSICAL_AXES)) return false;
    text->values[SIM_SPLIT_PHYSICAL_AXES] = "1";
    return sim_plan_check_another(t->cache, text, step, t->plan->form, out, &ignored) == BASE_OK;
}

static bool splits_anew(const struct sim_remedy_trial *t, const struct sim_plan_text *text)
{
    return sim_key_is_given(text, SIM_SPLIT_PHYSICAL_AXES) && !sim_key_is_given(t->text, SIM_SPLIT_PHYSICAL_AXES);
}

static const char *words_of(const struct sim_remedy_trial *t, const struct sim_remedy *const *changed, int count,
                            bool splits)
{
    struct base_text words = {.arena = t->arena};
    if (t->already) base_put(&words, t->already);
    if (t->topology) base_putf(&words, "%stopology %s", words.length ? ", " : "", t->topology);
    if (t->mesh) base_putf(&words, ", ici_mesh %s", t->mesh);
    if (t->batch) base_putf(&words, ", batch_size %s", t->batch);
    for (int i = 0; i < count; i++)
        base_putf(&words, "%s%s %s", words.length ? ", " : "", sim_plan_keys[changed[i]->key].name, changed[i]->value);
    if (splits) base_put(&words, ", split_physical_axes 1");
    return words.data;
}

/* Parameters in four bits, sharded over all devices, do not fit: no change of the plan helps there. */
static bool is_beyond_all(const struct sim_remedy_trial *t, const struct sim_plan *plan)
{
    static const double least_parameter_bytes = 0.5;
    const struct topo_topology *topology = &plan->placement->topology;
    return !plan->cpu_offload && least_parameter_bytes * t->parameter_count >
                                     topology->device_count * plan->placement->profile.constants[SIM_CAPACITY_BYTES];
}

/* The least of all tries on the plan's own topology. */
static void note_peak(struct sim_remedy_trial *t, double bytes)
{
    if (!t->topology && !t->already) t->least_peak_bytes = fmin(t->least_peak_bytes, bytes);
}

/* Sets whose state alone is too large come behind all others, those with less of it first. */
static const double least_free_bytes = -1e18;

/* Refused plans are no advice; only a plan that fits is kept. free_bytes: of the plan so changed, also where it does
 * not fit; or NULL. */
bool sim_remedy_try(struct sim_remedy_trial *t, const struct sim_remedy *const *changed, int count, double *free_bytes)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error ignored;
    struct sim_plan_text text = *t->text;
    if (t->topology) text.values[SIM_TOPOLOGY] = t->topology;
    if (t->mesh) text.values[SIM_ICI_MESH] = t->mesh;
    if (t->batch) text.values[SIM_BATCH_SIZE] = t->batch;
    for (int i = 0; i < count; i++) text.values[changed[i]->key] = changed[i]->value;
    if (t->found_count == SIM_REMEDIES_MOST_FOUND) return false;
    if (!check_changed(t, &text, &plan)) return false;
    if (is_beyond_all(t, &plan)) return false;
    const double state_bytes = sim_least_state_bytes(t->arena, &plan),
                 capacity_bytes = plan.placement->profile.constants[SIM_CAPACITY_BYTES];
    if (state_bytes > capacity_bytes) {
        if (free_bytes) *free_bytes = least_free_bytes - state_bytes;
        note_peak(t, state_bytes);
        return false;
    }
    if (sim_predict(t->cache, &plan, &prediction, NULL, &ignored) != BASE_OK) return false;
    if (free_bytes) *free_bytes = (double)prediction.free_bytes;
    note_peak(t, capacity_bytes - (double)prediction.free_bytes);
    const enum sim_verdict verdict = sim_confidence_of(NULL, &plan, &prediction).verdict;
    if (sim_wants_changes(verdict)) return false;
    const bool splits = splits_anew(t, &text);
    bool is_t5x = !strcmp(plan.software, sim_plan_keys[SIM_SOFTWARE].fallback);
    t->found[t->found_count++] =
        (struct sim_change){words_of(t, changed, count, splits),
                            is_t5x ? sim_t5x_lacks(t->arena, &plan, t->plan) : NULL, verdict == SIM_FITS_TIGHTLY,
                            count + splits + t->doublings + (t->batch != NULL) + (t->already ? 2 : 0), prediction};
    return true;
}

void sim_remedy_add(struct sim_remedy_trial *t, enum sim_key key, const char *value)
{
    const char *given = t->text->values[key], *usual = sim_usual_value(t->plan->software, key),
               *now = given   ? given
                      : usual ? usual
                              : sim_plan_keys[key].fallback;
    for (int i = 0; i < t->atom_count; i++)
        if (t->atoms[i].key == key && !strcmp(t->atoms[i].value, value)) return;
    if (t->atom_count < SIM_REMEDIES_MOST_ATOMS && !(now && !strcmp(now, value)))
        t->atoms[t->atom_count++] = (struct sim_remedy){key, value};
}

/* ---- sets ---- */

enum { KEPT_SETS = 4, MOST_CHANGED = 6, MOST_MICROBATCHES = 1024 };

/* Atoms of a set, by the bits of their indices. */
struct set {
    uint64_t atoms;
    double free_bytes;
};

/* True if the set has an atom of that one's key. */
static bool has_key(const struct sim_remedy_trial *t, uint64_t atoms, int atom)
{
    for (int i = 0; i < t->atom_count; i++)
        if ((atoms >> i & 1) && t->atoms[i].key == t->atoms[atom].key) return true;
    return false;
}

static bool try_atoms(struct sim_remedy_trial *t, uint64_t atoms, double *free_bytes)
{
    const struct sim_remedy *changed[MOST_CHANGED];
    int count = 0;
    for (int i = 0; i < t->atom_count; i++)
        if (atoms >> i & 1) changed[count++] = &t->atoms[i];
    return sim_remedy_try(t, changed, count, free_bytes);
}

/* The sets with most memory free, most first. */
static void keep(struct set kept[KEPT_SETS], int *count, struct set set)
{
    int at = *count;
    while (at > 0 && kept[at - 1].free_bytes < set.free_bytes) at--;
    if (at == KEPT_SETS) return;
    if (*count < KEPT_SETS) ++*count;
    memmove(kept + at + 1, kept + at, (size_t)(*count - at - 1) * sizeof *kept);
    kept[at] = set;
}

/* Twice as many at least from one to the next. */
static void add_microbatches(struct sim_remedy_trial *t)
{
    const int64_t batch = t->plan->batch_size, now = t->plan->num_microbatches > 0 ? t->plan->num_microbatches : 1;
    int64_t last = now;
    for (int64_t n = now; (n = base_next_divisor(batch, n)) && n <= MOST_MICROBATCHES * now;)
        if (n >= 2 * last) sim_remedy_add(t, SIM_NUM_MICROBATCHES, base_print(t->arena, "%lld", (long long)(last = n)));
}

/* Of as many changes from `first` on, those that none is faster and smaller than. */
static void drop_dominated(struct sim_remedy_trial *t, int first)
{
    bool *is_dominated = base_new(t->arena, bool, t->found_count);
    int kept = first;
    for (int i = first; i < t->found_count; i++)
        for (int k = first; k < t->found_count; k++) {
            const struct sim_prediction *a = &t->found[i].prediction, *b = &t->found[k].prediction;
            is_dominated[i] |= a->tokens_per_s < b->tokens_per_s && a->free_bytes <= b->free_bytes &&
                               (t->found[i].t5x_lacks || !t->found[k].t5x_lacks);
        }
    for (int i = first; i < t->found_count; i++)
        if (!is_dominated[i]) t->found[kept++] = t->found[i];
    t->found_count = kept;
}

/* From the sets of so many changes that leave most memory free, one change more, until some fit. */
void sim_remedies_in_sets(struct sim_remedy_trial *t)
{
    struct set kept[KEPT_SETS] = {{0, 0}};
    uint64_t tried[KEPT_SETS * SIM_REMEDIES_MOST_ATOMS];
    const int before = t->found_count, atom_count = t->atom_count;
    int kept_count = 1;
    add_microbatches(t);
    for (int count = 1; count <= MOST_CHANGED && t->found_count == before && kept_count; count++) {
        struct set next[KEPT_SETS];
        int next_count = 0, tried_count = 0;
        for (int k = 0; k < kept_count; k++)
            for (int i = 0; i < t->atom_count; i++) {
                struct set set = {kept[k].atoms | 1ULL << i, -INFINITY};
                bool is_new = !has_key(t, kept[k].atoms, i);
                for (int n = 0; n < tried_count && is_new; n++) is_new = tried[n] != set.atoms;
                if (!is_new) continue;
                tried[tried_count++] = set.atoms;
                if (!try_atoms(t, set.atoms, &set.free_bytes) && set.free_bytes > -INFINITY)
                    keep(next, &next_count, set);
            }
        memcpy(kept, next, (size_t)next_count * sizeof *next);
        kept_count = next_count;
    }
    t->atom_count = atom_count;
    drop_dominated(t, before);
}
