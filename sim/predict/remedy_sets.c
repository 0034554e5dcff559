/* Changes of a plan that fit together where none, and no two, do alone: a search of sets, by memory. */
#include "sim/predict/remedies.h"

#include <math.h>
#include <string.h>

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
