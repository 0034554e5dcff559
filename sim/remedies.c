/* What would make a plan fit: every single change that a person would try, priced in full. */
#include "sim/priced_program.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_FACTOR = 32 };

struct trial {
    struct sim_cache *cache;
    struct base_arena *arena;
    const struct sim_plan *plan;
    struct sim_change *changes;
    int *count;
};

/* Refused plans are no advice; only a plan that fits is kept. */
static void try_change(struct trial *t, struct sim_plan_text text, enum sim_key key, const char *value,
                       const char *what)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error ignored;
    text.values[key] = value;
    if (*t->count == SIM_MOST_CHANGES) return;
    if (sim_plan_check_another(t->cache, &text, t->plan->options.step, t->plan->form, &plan, &ignored) != BASE_OK)
        return;
    if (sim_predict(t->cache, &plan, &prediction, NULL, &ignored) != BASE_OK || !prediction.fits) return;
    t->changes[(*t->count)++] = (struct sim_change){what, prediction};
}

static void try_microbatches(struct trial *t, const struct sim_plan_text *text)
{
    int before = *t->count;
    int64_t batch = t->plan->batch_size, now = t->plan->num_microbatches;
    for (int64_t n = base_next_divisor(batch, now); n && n <= LARGEST_FACTOR * now && *t->count == before;
         n = base_next_divisor(batch, n)) {
        const char *value = base_print(t->arena, "%lld", (long long)n);
        try_change(t, *text, SIM_NUM_MICROBATCHES, value, base_print(t->arena, "num_microbatches %s", value));
    }
}

static void try_submeshes(struct trial *t, const struct sim_plan_text *text)
{
    for (int dim = 0; dim < t->plan->request.submesh_count; dim++) {
        struct base_text value = {.arena = t->arena};
        for (int i = 0; i < t->plan->request.submesh_count; i++)
            base_putf(&value, "%s%d", i ? "," : "", t->plan->request.submesh[i] * (i == dim ? 2 : 1));
        try_change(t, *text, SIM_SUBMESH, value.data, base_print(t->arena, "model_parallel_submesh %s", value.data));
    }
}

/* Of a mesh of named axes: half as many devices along one axis, twice as many along another. */
static void try_meshes(struct trial *t, const struct sim_plan_text *text)
{
    for (int from = 0; from < t->plan->request.ici_mesh.count; from++)
        for (int to = 0; to < t->plan->request.ici_mesh.count; to++) {
            struct topo_axes mesh = t->plan->request.ici_mesh;
            if (to == from || mesh.sizes[from] % 2 != 0) continue;
            mesh.sizes[from] /= 2;
            mesh.sizes[to] *= 2;
            const char *value = topo_axes_sizes(t->arena, &mesh);
            try_change(t, *text, SIM_ICI_MESH, value, base_print(t->arena, "ici_mesh %s", value));
        }
}

static int faster_first(const void *a, const void *b)
{
    const struct sim_change *x = a, *y = b;
    if (x->prediction.tokens_per_s != y->prediction.tokens_per_s)
        return x->prediction.tokens_per_s > y->prediction.tokens_per_s ? -1 : 1;
    return strcmp(x->what, y->what);
}

enum base_status sim_changes_that_fit(struct sim_cache *cache, struct base_arena *arena,
                                      const struct sim_plan_text *text, const struct sim_plan *plan,
                                      struct sim_change changes[SIM_MOST_CHANGES], int *count, struct base_error *error)
{
    static const struct {
        enum sim_key key;
        const char *value, *what;
    } words[] = {{SIM_REMAT_POLICY, "selective", "remat_policy selective"},
                 {SIM_REMAT_POLICY, "minimal", "remat_policy minimal"},
                 {SIM_REMAT_POLICY, "full", "remat_policy full"},
                 {SIM_OPTIMIZER, "adafactor", "optimizer adafactor"},
                 {SIM_OPTIMIZER_PARTITIONING, "data", "optimizer_partitioning data"}};
    struct trial trial = {cache, arena, plan, changes, count};
    (void)error;
    *count = 0;
    for (int i = 0; i < BASE_COUNT(words); i++) try_change(&trial, *text, words[i].key, words[i].value, words[i].what);
    try_microbatches(&trial, text);
    try_submeshes(&trial, text);
    try_meshes(&trial, text);
    qsort(changes, (size_t)*count, sizeof *changes, faster_first);
    return BASE_OK;
}
