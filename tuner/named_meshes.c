/* All meshes for a search. Of named axes: the given ones and, for axes without a size, one for each way to split the
 * devices among these axes. */
#include "tuner/space.h"

#include <string.h>

enum { MOST_MESHES = 1 << 14, MOST_SUBMESHES = 1 << 16 };

struct sharing {
    struct tuner_space *space;
    struct topo_axes axes; /* 0: open */
    struct tuner_values *out;
    int sizes[TOPO_MOST_AXES];
};

/* "data=1,fsdp,tensor" */
static enum base_status read_open(struct base_arena *arena, const char *text, struct topo_axes *out,
                                  struct base_error *error)
{
    struct base_text filled = {.arena = arena};
    unsigned open = 0;
    int axis = 0;
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL, axis++) {
        int length = (int)strcspn(at, ",");
        end = at + length;
        bool has_size = memchr(at, '=', (size_t)length) != NULL;
        if (!has_size && axis < TOPO_MOST_AXES) open |= 1u << axis;
        base_putf(&filled, "%s%.*s%s", axis ? "," : "", length, at, has_size ? "" : "=1");
    }
    BASE_TRY(topo_axes_parse(arena, *text == '{' ? text : filled.data, "ici_mesh", out, error));
    for (int i = 0; i < out->count && *text != '{'; i++)
        if (open >> i & 1u) out->sizes[i] = 0;
    return BASE_OK;
}

static enum base_status add_mesh(struct sharing *s, struct base_error *error)
{
    struct topo_axes axes = s->axes;
    memcpy(axes.sizes, s->sizes, sizeof axes.sizes);
    if (s->out->count == MOST_MESHES)
        return base_fail(error, BASE_INPUT, "ici_mesh: more than %d meshes; give some axes their sizes", MOST_MESHES);
    s->out->values[s->out->count++] = topo_axes_sizes(s->space->arena, &axes);
    return BASE_OK;
}

/* Tries every size of the open axes from this one on, the last one fastest. The last open axis takes the rest. */
static enum base_status share(struct sharing *s, int axis, int64_t left, struct base_error *error)
{
    int later = 0;
    if (axis == s->axes.count) return add_mesh(s, error);
    for (int i = axis + 1; i < s->axes.count; i++) later += s->axes.sizes[i] == 0;
    if (s->axes.sizes[axis] > 0 || !later) {
        s->sizes[axis] = s->axes.sizes[axis] > 0 ? s->axes.sizes[axis] : (int)left;
        return share(s, axis + 1, left, error);
    }
    for (int64_t size = base_next_divisor(left, 0); size; size = base_next_divisor(left, size)) {
        s->sizes[axis] = (int)size;
        BASE_TRY(share(s, axis + 1, left / size, error));
    }
    return BASE_OK;
}

static enum base_status add_meshes(struct sharing *s, const char *text, int device_count, struct base_error *error)
{
    int64_t left = device_count;
    bool open = false;
    BASE_TRY(read_open(s->space->arena, text, &s->axes, error));
    for (int i = 0; i < s->axes.count; i++) {
        if (s->axes.sizes[i] == 0) open = true;
        else left = left % s->axes.sizes[i] == 0 ? left / s->axes.sizes[i] : 0;
    }
    if (open && left == 0)
        return base_fail(error, BASE_INPUT,
                         "ici_mesh: the sizes of \"%.80s\" do not divide %d devices; use sizes whose product does",
                         text, device_count);
    return share(s, 0, left, error);
}

enum base_status tuner_named_meshes(struct tuner_space *space, const struct topo_topology *topology,
                                    struct tuner_values *meshes, struct topo_axes *axes, struct base_error *error)
{
    bool has_dcn = sim_key_is_given(&space->plan, SIM_DCN_MESH);
    struct tuner_values out = {base_new(space->arena, const char *, MOST_MESHES), 0};
    struct sharing s = {.space = space, .out = &out};
    if (space->search_rules)
        return base_fail(error, BASE_INPUT,
                         "--search rules: looks for rules of T5X's axes data and model; leave out ici_mesh");
    for (int i = 0; i < meshes->count; i++)
        BASE_TRY(add_meshes(&s, meshes->values[i],
                            topo_ici_device_count(topology, has_dcn ? TOPO_WITH_DCN_MESH : TOPO_WITHOUT_DCN_MESH),
                            error));
    *axes = s.axes;
    for (int i = 0; i < axes->count; i++) axes->sizes[i] = 1;
    *meshes = out;
    return BASE_OK;
}

/* ---- the axes of the software ---- */

/* "fsdp,tensor" from "fsdp=*,tensor=1": the axes without their sizes. */
static const char *open_axes(struct base_arena *arena, const char *mesh)
{
    struct base_text open = {.arena = arena};
    for (const char *at = mesh; *at;) {
        base_putf(&open, "%s%.*s", open.length ? "," : "", (int)strcspn(at, "="), at);
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return open.data;
}

void tuner_take_named_axes(struct tuner_space *space, const struct tuner_software *choices, struct tuner_values *meshes)
{
    const bool said = meshes->count || sim_key_is_given(&space->plan, SIM_ICI_MESH) ||
                      sim_key_is_given(&space->plan, SIM_NUM_PARTITIONS) || sim_key_is_given(&space->plan, SIM_SUBMESH);
    if (choices->mesh != TUNER_NAMED_AXES || said || space->search_rules) return;
    const char *usual = sim_usual_value(space->plan.values[SIM_SOFTWARE], SIM_ICI_MESH),
               **open = base_new(space->arena, const char *, 1);
    if (!usual) return;
    *open = space->plan.values[SIM_ICI_MESH] = open_axes(space->arena, usual);
    *meshes = (struct tuner_values){open, 1};
}

enum base_status tuner_every_submesh(struct base_arena *arena, const struct topo_topology *topology,
                                     struct tuner_values *out, struct base_error *error)
{
    int64_t at[4] = {1, 1, 1, 1};
    out->values = base_new(arena, const char *, MOST_SUBMESHES);
    for (out->count = 0;;) {
        struct base_text text = {.arena = arena};
        for (int i = 0; i < topology->bounds_count; i++) base_putf(&text, "%s%lld", i ? "," : "", (long long)at[i]);
        if (out->count == MOST_SUBMESHES)
            return base_fail(error, BASE_INPUT,
                             "topology: %s has more than %d submeshes; list those to try in --model-parallel-submesh",
                             topology->name, MOST_SUBMESHES);
        out->values[out->count++] = text.data;
        int i = topology->bounds_count - 1;
        for (; i >= 0; i--) {
            int64_t next = base_next_divisor(topology->bounds[i], at[i]);
            at[i] = next ? next : 1;
            if (next) break;
        }
        if (i < 0) return BASE_OK;
    }
}
