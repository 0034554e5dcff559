/* Changes that make a plan fit: usual ones, singly, then in pairs if none does (or if more microbatches in addition are
 * faster), then in threes and more. Then a smaller batch, and the same on larger topologies, whose devices an axis of a
 * named mesh gets. Every proposed change is predicted. */
#include "sim/predict/remedies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FACTOR = 32, MOST_TOPOLOGIES = 8 };

static bool try_changes(struct sim_remedy_trial *t, const struct sim_remedy *const *changed, int count)
{
    return sim_remedy_try(t, changed, count, NULL);
}

/* The fewest microbatches that make the plan fit, with up to two other changes. */
static void try_microbatches(struct sim_remedy_trial *t, const struct sim_remedy *beside,
                             const struct sim_remedy *other)
{
    int64_t batch = t->plan->batch_size, now = t->plan->num_microbatches;
    for (int64_t n = base_next_divisor(batch, now); n && n <= LARGEST_FACTOR * now; n = base_next_divisor(batch, n)) {
        struct sim_remedy microbatches = {SIM_NUM_MICROBATCHES, base_print(t->arena, "%lld", (long long)n)};
        const struct sim_remedy *all[] = {&microbatches, beside, other};
        if (try_changes(t, all, 1 + (beside != NULL) + (other != NULL))) return;
    }
}

/* The largest half, quarter, … of the batch that makes the plan fit, with another change or alone. */
static bool try_batches(struct sim_remedy_trial *t, const struct sim_remedy *beside)
{
    for (int64_t n = t->plan->batch_size; n % 2 == 0 && LARGEST_FACTOR * n > t->plan->batch_size;) {
        struct sim_remedy batch = {SIM_BATCH_SIZE, base_print(t->arena, "%lld", (long long)(n /= 2))};
        const struct sim_remedy *both[] = {&batch, beside};
        if (try_changes(t, both, beside ? 2 : 1)) return true;
    }
    return false;
}

/* ---- the changes ---- */

/* What a sharded program can do, for T5X and software without a row of choices. */
static void add_words(struct sim_remedy_trial *t)
{
    static const struct sim_remedy words[] = {{SIM_REMAT_POLICY, "selective"},
                                              {SIM_REMAT_POLICY, "minimal"},
                                              {SIM_REMAT_POLICY, "full"},
                                              {SIM_OPTIMIZER, "adafactor"},
                                              {SIM_OPTIMIZER_PARTITIONING, "data"}};
    for (int i = 0; i < BASE_COUNT(words); i++) sim_remedy_add(t, words[i].key, words[i].value);
}

static void add_standard_rules(struct sim_remedy_trial *t)
{
    static const char *const rules[] = {"standard:2,1", "standard:1,2", "standard:2,2"};
    for (int i = 0; i < BASE_COUNT(rules) && !t->already; i++) sim_remedy_add(t, SIM_RULES, rules[i]);
}

/* The software's own words of a key, except the one for saving nothing. */
static void add_choices(struct sim_remedy_trial *t, enum sim_key key)
{
    const char *words = sim_software_choice(t->plan->software, sim_plan_keys[key].name, false);
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        const char *word = base_copy_bytes(t->arena, words, length);
        if (strcmp(word, "none") != 0 && strcmp(word, "0") != 0) sim_remedy_add(t, key, word);
    }
}

/* Powers of two that divide the layers. */
static void add_stages(struct sim_remedy_trial *t)
{
    const int64_t layers = t->plan->config->num_decoder_layers;
    const char *searched = sim_software_choice(t->plan->software, sim_plan_keys[SIM_PIPELINE_STAGES].name, false);
    if (!searched || !*searched || t->plan->config->encoder) return;
    for (int64_t n = 2 * t->plan->pipeline.stages; n <= LARGEST_FACTOR && layers % n == 0; n *= 2)
        sim_remedy_add(t, SIM_PIPELINE_STAGES, base_print(t->arena, "%lld", (long long)n));
}

/* Whether the software has a row of choices; T5X's words have none of their own. */
static bool has_choices(const struct sim_remedy_trial *t)
{
    return strcmp(t->plan->software, sim_plan_keys[SIM_SOFTWARE].fallback) != 0 &&
           sim_software_choice(t->plan->software, sim_plan_keys[SIM_RULES].name, false);
}

/* Powers of two that divide the experts, where the software shares them out. */
static void add_expert_parallel(struct sim_remedy_trial *t)
{
    const int64_t experts = t->plan->config->experts.count;
    const char *searched = sim_software_choice(t->plan->software, sim_plan_keys[SIM_EXPERT_PARALLEL].name, false);
    for (int64_t n = 2; searched && *searched && n <= experts && experts % n == 0; n *= 2)
        sim_remedy_add(t, SIM_EXPERT_PARALLEL, base_print(t->arena, "%lld", (long long)n));
}

static void add_own(struct sim_remedy_trial *t)
{
    static const enum sim_key keys[] = {SIM_REMAT_POLICY,      SIM_OPTIMIZER,   SIM_OPTIMIZER_PARTITIONING,
                                        SIM_SEQUENCE_PARALLEL, SIM_CPU_OFFLOAD, SIM_RULES};
    const bool is_own = has_choices(t);
    const char *rules = t->text->values[SIM_RULES];
    if (!is_own) add_words(t);
    /* A named mesh may have any set of rules. */
    if (!is_own || (t->plan->request.ici_mesh.count && rules && !strncmp(rules, "standard", strlen("standard"))))
        add_standard_rules(t);
    if (sim_replays_torch(t->plan)) sim_remedy_add(t, SIM_EXPANDABLE_SEGMENTS, "1");
    for (int i = 0; i < BASE_COUNT(keys) && is_own; i++)
        if (keys[i] != SIM_RULES || !t->already) add_choices(t, keys[i]);
}

/* The software's usual values of keys that the plan sets otherwise. */
static void add_usual(struct sim_remedy_trial *t)
{
    static const enum sim_key keys[] = {SIM_ATTENTION, SIM_RULES};
    for (int i = 0; i < BASE_COUNT(keys); i++) {
        const char *usual = sim_usual_value(t->plan->software, keys[i]);
        if (usual && (keys[i] != SIM_RULES || !t->already)) sim_remedy_add(t, keys[i], usual);
    }
}

/* Twice as many devices along one dimension of the tile; as num_partitions all powers of two that are more. */
static void add_tiles(struct sim_remedy_trial *t)
{
    const struct topo_mesh_request *request = &t->plan->request;
    for (int dim = 0; dim < request->submesh_count; dim++) {
        struct base_text value = {.arena = t->arena};
        for (int i = 0; i < request->submesh_count; i++)
            base_putf(&value, "%s%d", i ? "," : "", request->submesh[i] * (i == dim ? 2 : 1));
        sim_remedy_add(t, SIM_SUBMESH, value.data);
    }
    if (request->submesh_count || request->ici_mesh.count) return;
    const struct topo_axes *axes = &t->plan->placement->axes;
    int now = topo_axes_product(axes, sim_model_axis(axes)), most = t->plan->placement->topology.device_count;
    for (int n = 2 * now; n <= most && n <= LARGEST_FACTOR * now; n *= 2)
        sim_remedy_add(t, SIM_NUM_PARTITIONS, base_print(t->arena, "%d", n));
}

/* For a named mesh: half as many devices along one axis, twice as many along another. */
static void add_meshes(struct sim_remedy_trial *t)
{
    for (int from = 0; from < t->plan->request.ici_mesh.count; from++)
        for (int to = 0; to < t->plan->request.ici_mesh.count; to++) {
            struct topo_axes mesh = t->plan->request.ici_mesh;
            if (to == from || mesh.sizes[from] % 2 != 0) continue;
            mesh.sizes[from] /= 2;
            mesh.sizes[to] *= 2;
            sim_remedy_add(t, SIM_ICI_MESH, topo_axes_sizes(t->arena, &mesh));
        }
}

/* ---- one, two, and elsewhere ---- */

static void try_single(struct sim_remedy_trial *t)
{
    for (int i = 0; i < t->atom_count; i++) try_changes(t, (const struct sim_remedy *[]){&t->atoms[i]}, 1);
    try_microbatches(t, NULL, NULL);
}

/* A pipeline of one microbatch is idle for most of its time. */
static void try_staged_pairs(struct sim_remedy_trial *t)
{
    for (int j = 0; j < t->atom_count; j++)
        for (int i = 0; i < t->atom_count; i++)
            if (t->atoms[j].key == SIM_PIPELINE_STAGES && t->atoms[i].key != SIM_PIPELINE_STAGES)
                try_microbatches(t, &t->atoms[j], &t->atoms[i]);
}

static void try_pairs(struct sim_remedy_trial *t)
{
    for (int i = 0; i < t->atom_count; i++) {
        for (int j = i + 1; j < t->atom_count; j++)
            if (t->atoms[i].key != t->atoms[j].key)
                try_changes(t, (const struct sim_remedy *[]){&t->atoms[j], &t->atoms[i]}, 2);
        try_microbatches(t, &t->atoms[i], NULL);
    }
    if (!t->found_count) try_staged_pairs(t);
}

static const struct sim_remedy all_recomputed = {SIM_REMAT_POLICY, "full"};

/* More microbatches with full remat, and each other change. */
static void try_triples(struct sim_remedy_trial *t)
{
    for (int i = 0; i < t->atom_count; i++)
        if (t->atoms[i].key != all_recomputed.key) try_microbatches(t, &t->atoms[i], &all_recomputed);
}

/* ---- which to keep ---- */

/* A change ready to use: the software supports it, and the headroom stays. */
static bool is_ready(const struct sim_change *change)
{
    return !change->t5x_lacks && !change->tight;
}

/* The pairs after the first `single` changes that are ready and faster than all ready single changes. */
static void keep_faster_pairs(struct sim_remedy_trial *t, int single)
{
    double fastest = 0;
    int kept = single;
    for (int i = 0; i < single; i++)
        if (is_ready(&t->found[i])) fastest = fmax(fastest, t->found[i].prediction.tokens_per_s);
    for (int i = single; i < t->found_count; i++)
        if (is_ready(&t->found[i]) && t->found[i].prediction.tokens_per_s > fastest) t->found[kept++] = t->found[i];
    t->found_count = kept;
}

static void try_here(struct sim_remedy_trial *t)
{
    try_single(t);
    const int single = t->found_count;
    if (!single) try_pairs(t);
    for (int i = 0; i < t->atom_count && single; i++) try_microbatches(t, &t->atoms[i], NULL);
    if (single) keep_faster_pairs(t, single);
}

static void try_there(struct sim_remedy_trial *t)
{
    try_changes(t, NULL, 0);
    if (!t->found_count) try_here(t);
    if (!t->found_count) sim_remedies_in_sets(t);
}

/* One axis of the mesh gets the additional devices, the longest first. */
static void try_longer_axes(struct sim_remedy_trial *t, int times)
{
    const struct topo_axes *mesh = &t->plan->request.ici_mesh;
    bool tried[TOPO_MOST_AXES] = {false};
    for (int n = 0; n < mesh->count && !t->found_count; n++) {
        struct topo_axes longer = *mesh;
        int longest = -1;
        for (int i = 0; i < mesh->count; i++)
            if (!tried[i] && (longest < 0 || mesh->sizes[i] > mesh->sizes[longest])) longest = i;
        tried[longest] = true;
        longer.sizes[longest] *= times;
        t->mesh = topo_axes_sizes(t->arena, &longer);
        try_there(t);
    }
}

/* A batch that would leave some devices without rows grows with them. */
static void try_devices(struct sim_remedy_trial *t, int devices)
{
    const int times = devices / t->plan->placement->topology.device_count;
    if (t->plan->request.ici_mesh.count) try_longer_axes(t, times);
    else try_there(t);
    if (t->found_count || t->plan->batch_size >= devices) return;
    t->batch = base_print(t->arena, "%lld", (long long)t->plan->batch_size * times);
    if (t->plan->request.ici_mesh.count) try_longer_axes(t, times);
    else try_there(t);
    t->batch = NULL;
}

static void append(struct sim_remedy_trial *t, const struct sim_remedy_trial *other)
{
    for (int i = 0; i < other->found_count && t->found_count < SIM_REMEDIES_MOST_FOUND; i++)
        t->found[t->found_count++] = other->found[i];
}

/* A device there holds no less than its part of the least that any try needed here. */
static bool could_share(const struct sim_remedy_trial *t, int devices)
{
    const struct sim_placement *here = t->plan->placement;
    return t->least_peak_bytes * here->topology.device_count <=
           here->profile.constants[SIM_CAPACITY_BYTES] * (double)devices;
}

/* Beside what was found here. */
static void try_larger(struct sim_remedy_trial *here)
{
    struct sim_remedy_trial larger = *here, *t = &larger;
    larger.found = base_new(here->arena, struct sim_change, SIM_REMEDIES_MOST_FOUND);
    larger.found_count = 0;
    const struct topo_topology *topology = &t->plan->placement->topology;
    int devices = topology->device_count;
    for (int i = 0; i < MOST_TOPOLOGIES && !t->found_count; i++) {
        t->topology = topo_next_larger(t->arena, topology, &devices);
        if (!t->topology) break;
        t->doublings = (int)ceil(log2((double)devices / topology->device_count));
        if (could_share(t, devices)) try_devices(t, devices);
    }
    append(here, &larger);
}

/* Experts replicated on every device: T5X's rules for them, over as many devices as possible, then further changes. */
static void try_experts(struct sim_remedy_trial *t)
{
    const int64_t experts = t->plan->config->experts.count;
    struct sim_plan_text text = *t->text;
    struct sim_remedy_trial sharded = *t;
    struct sim_plan plan;
    struct base_error ignored;
    int64_t n = experts;
    if (!experts || has_choices(t) || t->plan->request.ici_mesh.count ||
        sim_key_is_given(&text, SIM_NUM_EXPERT_PARTITIONS))
        return;
    text.values[SIM_RULES] = "standard_moe:1,1";
    for (; n > 1; n--) {
        text.values[SIM_NUM_EXPERT_PARTITIONS] = base_print(t->arena, "%lld", (long long)n);
        if (sim_plan_check_another(t->cache, &text, t->plan->options.step, t->plan->form, &plan, &ignored) == BASE_OK)
            break;
    }
    if (n <= 1) return;
    sharded.text = &text;
    sharded.plan = &plan;
    sharded.already =
        base_print(t->arena, "num_expert_partitions %lld, logical_axis_rules standard_moe:1,1", (long long)n);
    sharded.found_count = sharded.atom_count = 0;
    sharded.found = base_new(t->arena, struct sim_change, SIM_REMEDIES_MOST_FOUND);
    sharded.atoms = base_new(t->arena, struct sim_remedy, SIM_REMEDIES_MOST_ATOMS);
    add_words(&sharded);
    add_tiles(&sharded);
    try_changes(&sharded, NULL, 0);
    if (!sharded.found_count) try_here(&sharded);
    append(t, &sharded);
}

/* The fewest changes first; of equally many, the fastest. */
static int smaller_first(const void *a, const void *b)
{
    const struct sim_change *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? -1 : 1;
    if (x->prediction.tokens_per_s != y->prediction.tokens_per_s)
        return x->prediction.tokens_per_s > y->prediction.tokens_per_s ? -1 : 1;
    return strcmp(x->what, y->what);
}

/* Of the whole model; 0: unknown. */
static double count_parameters(struct base_arena *arena, const struct sim_plan *plan)
{
    const struct model_parameter *parameters;
    struct model_device_state whole;
    struct base_error ignored;
    int count;
    if (model_parameters(arena, plan->config, &parameters, &count, &ignored) != BASE_OK ||
        model_whole_state(parameters, count, MODEL_SGD, NULL, &whole, &ignored) != BASE_OK)
        return 0;
    return (double)whole.parameter_count;
}

int sim_changes_that_fit(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                         const struct sim_plan *plan, struct sim_change changes[SIM_MOST_CHANGES])
{
    struct sim_remedy_trial trial = {.cache = cache,
                                     .arena = arena,
                                     .plan = plan,
                                     .text = text,
                                     .parameter_count = count_parameters(arena, plan),
                                     .least_peak_bytes = INFINITY};
    trial.atoms = base_new(arena, struct sim_remedy, SIM_REMEDIES_MOST_ATOMS);
    trial.found = base_new(arena, struct sim_change, SIM_REMEDIES_MOST_FOUND);
    add_own(&trial);
    add_usual(&trial);
    add_tiles(&trial);
    add_meshes(&trial);
    add_stages(&trial);
    add_expert_parallel(&trial);
    try_here(&trial);
    try_experts(&trial);
    if (!trial.found_count) {
        try_triples(&trial);
        if (!trial.found_count) sim_remedies_in_sets(&trial);
        try_larger(&trial);
        if (!try_batches(&trial, NULL)) try_batches(&trial, &all_recomputed);
    }
    qsort(trial.found, (size_t)trial.found_count, sizeof *trial.found, smaller_first);
    const int count = trial.found_count < SIM_MOST_CHANGES ? trial.found_count : SIM_MOST_CHANGES;
    memcpy(changes, trial.found, (size_t)count * sizeof *changes);
    return count;
}
