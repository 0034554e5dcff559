/* `predict --what-if`: the plan's neighbours, each with one changed key. Refused ones give the reason. */
#include "commands/what_if.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 24 };

struct values {
    struct base_arena *arena;
    enum sim_key key;
    const struct sim_plan *plan;
    const char *now; /* the plan's value, spelled as an option; NULL: not given */
    const char *all[MOST_VALUES];
    int count;
};

static void add(struct values *v, const char *value)
{
    for (int i = 0; i < v->count; i++)
        if (!strcmp(v->all[i], value)) return;
    if (v->count < MOST_VALUES) v->all[v->count++] = value;
}

static void add_number(struct values *v, int64_t number)
{
    add(v, base_print(v->arena, "%lld", (long long)number));
}

/* ---- values of each kind of key ---- */

static void list_words(struct values *v)
{
    for (int i = 0; i < SIM_MOST_WORDS && sim_plan_keys[v->key].words[i].name; i++)
        add(v, sim_plan_keys[v->key].words[i].name);
}

static void list_switch(struct values *v)
{
    add(v, "0"), add(v, "1");
}

static void list_doubles(struct values *v)
{
    const int64_t now = v->now ? strtoll(v->now, NULL, 10) : strtoll(sim_plan_keys[v->key].fallback, NULL, 10);
    if (now < 1) return;
    if (now % 2 == 0) add_number(v, now / 2);
    add_number(v, now);
    add_number(v, 2 * now);
}

/* Those that divide the batch, on both sides. */
static void list_microbatches(struct values *v)
{
    enum { EACH_SIDE = 3, LARGEST = 1 << 20 };
    const int64_t batch = v->plan->batch_size, now = v->plan->num_microbatches > 0 ? v->plan->num_microbatches : 1;
    int64_t below[EACH_SIDE] = {0};
    for (int64_t n = 1; n && n < now && n < LARGEST; n = base_next_divisor(batch, n)) {
        memmove(below, below + 1, sizeof below - sizeof below[0]);
        below[EACH_SIDE - 1] = n;
    }
    for (int i = 0; i < EACH_SIDE; i++)
        if (below[i]) add_number(v, below[i]);
    add(v, v->now ? v->now : base_print(v->arena, "%lld", (long long)now));
    int64_t above = now;
    for (int i = 0; i < EACH_SIDE && above && above < LARGEST; i++)
        if ((above = base_next_divisor(batch, above)) != 0) add_number(v, above);
}

static const char *spell_tile(struct base_arena *arena, const int *sizes, int count)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < count; i++) base_putf(&text, "%s%d", i ? "," : "", sizes[i]);
    return text.data;
}

/* Half or twice along a dimension, and half along one with twice along another. */
static void list_tiles(struct values *v)
{
    const struct topo_mesh_request *now = &v->plan->request;
    const int count = now->submesh_count;
    int tile[BASE_COUNT(now->submesh)];
    if (count) add(v, spell_tile(v->arena, now->submesh, count));
    for (int halved = -1; halved < count; halved++)
        for (int doubled = -1; doubled < count; doubled++) {
            memcpy(tile, now->submesh, sizeof tile);
            if (halved == doubled || (halved >= 0 && tile[halved] % 2)) continue;
            if (halved >= 0) tile[halved] /= 2;
            if (doubled >= 0) tile[doubled] *= 2;
            if (doubled >= 0 && tile[doubled] > v->plan->placement->topology.bounds[doubled]) continue;
            add(v, spell_tile(v->arena, tile, count));
        }
}

/* A tile has as many as its devices. */
static void list_partitions(struct values *v)
{
    const struct topo_mesh_request *now = &v->plan->request;
    int64_t devices = 1;
    for (int i = 0; i < now->submesh_count; i++) devices *= now->submesh[i];
    if (now->submesh_count) v->now = base_print(v->arena, "%lld", (long long)devices);
    if (!now->ici_mesh.count) list_doubles(v);
}

/* Half as many devices along one axis, twice as many along another. */
static void list_meshes(struct values *v)
{
    const struct topo_axes *now = &v->plan->request.ici_mesh;
    if (now->count) add(v, topo_axes_sizes(v->arena, now));
    for (int from = 0; from < now->count; from++)
        for (int to = 0; to < now->count; to++) {
            struct topo_axes mesh = *now;
            if (to == from || mesh.sizes[from] % 2 != 0) continue;
            mesh.sizes[from] /= 2, mesh.sizes[to] *= 2;
            add(v, topo_axes_sizes(v->arena, &mesh));
        }
}

static void list_rules(struct values *v)
{
    static const char *const t5x[] = {"standard:1,1", "standard:1,2", "standard:2,1", "standard:2,2"},
                             *const others[] = {"data_only", "zero3", "megatron", "optimus", "gshard", "maxtext"};
    for (int i = 0; i < BASE_COUNT(t5x); i++) add(v, t5x[i]);
    for (int i = 0; i < BASE_COUNT(others); i++) add(v, others[i]);
}

static void list_software(struct values *v)
{
    v->count += sim_software_names(sim_platform_name(v->plan->placement->topology.kind), v->all, MOST_VALUES);
}

/* The sizes next to it: of TPUs the accelerator types, of nodes half and twice as many. */
static void list_topologies(struct values *v)
{
    const struct topo_topology *now = &v->plan->placement->topology;
    const struct topo_slice *smaller = NULL, *larger = NULL;
    int count;
    const struct topo_slice *slices = topo_slices_of(now->chip.name, &count);
    for (int i = 0; i < count; i++) {
        if (slices[i].device_count < now->device_count) smaller = &slices[i];
        if (slices[i].device_count > now->device_count && !larger) larger = &slices[i];
    }
    const bool is_nodes = now->kind == TOPO_GPU;
    if (smaller) add(v, smaller->accelerator_type);
    if (is_nodes && now->bounds[0] % 2 == 0)
        add(v, base_print(v->arena, "%s:%dx%d", now->chip.name, now->bounds[0] / 2, now->bounds[1]));
    add(v, now->name);
    if (larger) add(v, larger->accelerator_type);
    if (is_nodes) add(v, base_print(v->arena, "%s:%dx%d", now->chip.name, 2 * now->bounds[0], now->bounds[1]));
}

static const struct {
    enum sim_key key;
    void (*list)(struct values *v);
} kinds[] = {{SIM_NUM_MICROBATCHES, list_microbatches},
             {SIM_BATCH_SIZE, list_doubles},
             {SIM_SUBMESH, list_tiles},
             {SIM_NUM_PARTITIONS, list_partitions},
             {SIM_ICI_MESH, list_meshes},
             {SIM_RULES, list_rules},
             {SIM_REMAT_POLICY, list_words},
             {SIM_OPTIMIZER, list_words},
             {SIM_DTYPE, list_words},
             {SIM_ATTENTION, list_words},
             {SIM_OPTIMIZER_PARTITIONING, list_words},
             {SIM_SEQUENCE_PARALLEL, list_switch},
             {SIM_PIPELINE_STAGES, list_doubles},
             {SIM_VIRTUAL_STAGES, list_doubles},
             {SIM_CONTEXT_PARALLEL, list_doubles},
             {SIM_EXPERT_PARALLEL, list_doubles},
             {SIM_CPU_OFFLOAD, list_words},
             {SIM_TOPOLOGY, list_topologies},
             {SIM_SOFTWARE, list_software}};

/* ---- the document ---- */

static void put_prediction(struct base_json_writer *w, const struct sim_plan *plan, const struct sim_prediction *p)
{
    const struct sim_confidence confidence = sim_confidence_of(w->text->arena, plan, p);
    const struct reports_prediction report = {.checked = plan, .prediction = p, .confidence = &confidence};
    reports_put_answer(w, "answer", &report);
}

static void put_neighbour(struct base_json_writer *w, struct sim_cache *cache, const struct commands_what_if *asked,
                          enum sim_key key, const char *value, bool is_now)
{
    struct sim_plan_text text = *asked->text;
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    /* One of the ways to a mesh. */
    for (int k = SIM_SUBMESH; k <= SIM_ICI_MESH && !is_now && key >= SIM_SUBMESH && key <= SIM_ICI_MESH; k++)
        text.values[k] = NULL;
    if (!is_now) text.values[key] = value;
    base_json_open_inline(w, '{');
    base_json_member_string(w, "key", sim_plan_keys[key].name);
    base_json_member_string(w, "value", value);
    if (is_now) base_json_key(w, "now"), base_json_put_bool(w, true);
    enum base_status status =
        sim_plan_check_another(cache, &text, asked->plan->options.step, asked->plan->form, &plan, &error);
    if (status == BASE_OK) status = sim_predict(cache, &plan, &prediction, NULL, &error);
    if (status == BASE_OK) put_prediction(w, &plan, &prediction);
    else base_json_member_string(w, "refused", error.text);
    base_json_close(w, '}');
}

static bool is_asked(const char *keys, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = keys; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (!strcmp(keys, "all") || (!strncmp(at, name, length) && strchr(",", at[length]))) return true;
    return false;
}

static bool is_now(const struct values *v, const char *value)
{
    const char *now = v->now ? v->now : sim_plan_keys[v->key].fallback;
    return now && !strcmp(now, value);
}

static void put_key(struct base_json_writer *w, struct sim_cache *cache, struct base_arena *arena,
                    const struct commands_what_if *asked, int kind)
{
    const struct sim_plan_text filled = sim_plan_filled(arena, asked->plan);
    const enum sim_key key = kinds[kind].key;
    const char *given = asked->text->values[key];
    struct values v = {
        .arena = arena, .key = key, .plan = asked->plan, .now = given && *given ? given : filled.values[key]};
    kinds[kind].list(&v);
    for (int i = 0; i < v.count; i++) put_neighbour(w, cache, asked, key, v.all[i], is_now(&v, v.all[i]));
}

enum base_status commands_put_what_if(struct commands_context *context, const struct commands_what_if *asked,
                                      struct base_text *out, struct base_error *error)
{
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    const char *names[BASE_COUNT(kinds)];
    bool any = false;
    for (int i = 0; i < BASE_COUNT(kinds); i++) {
        names[i] = sim_plan_keys[kinds[i].key].name;
        any = any || is_asked(asked->keys, names[i]);
    }
    if (!any) return base_fail_unknown(error, BASE_USAGE, "--what-if: key", asked->keys, names, BASE_COUNT(names));
    base_json_open(&writer, '{');
    base_json_member_open(&writer, "what_if", '[');
    for (int i = 0; i < BASE_COUNT(kinds); i++)
        if (is_asked(asked->keys, names[i])) put_key(&writer, context->cache, context->arena, asked, i);
    base_json_close(&writer, ']');
    base_json_close(&writer, '}');
    return BASE_OK;
}
