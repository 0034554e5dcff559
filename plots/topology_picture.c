/* The picture of a topology as a whole: heading, a key of what is drawn how, and the machine itself. */
#include "plots/torus.h"

#include <math.h>
#include <string.h>

/* Beyond these, chips would be too small to see or the page too long to read. */
enum { MOST_DEVICES = 32768, LONGEST_LINE = 128, HIGHEST_PAGE_PX = 12000 };

/* ---- the key ---- */

struct key {
    struct plots_canvas *canvas;
    double x, y;
};

static const double swatch_px = 22, swatch_height_px = 11, key_row_px = 18, key_gap_px = 18;

/* Room for one entry; on the next line if this one is full. Returns where its swatch stands. */
static struct plots_box key_entry(struct key *key, const char *words)
{
    double width_px = swatch_px + 7 + plots_text_width(PLOTS_SMALL, words);
    if (key->x > PLOTS_MARGIN_PX && key->x + width_px > PLOTS_PAGE_WIDTH_PX - PLOTS_MARGIN_PX) {
        key->x = PLOTS_MARGIN_PX;
        key->y += key_row_px;
    }
    struct plots_box swatch = {key->x, key->y - swatch_height_px / 2, swatch_px, swatch_height_px};
    const char *shown = plots_fit(key->canvas->arena, PLOTS_SMALL, words,
                                  PLOTS_PAGE_WIDTH_PX - PLOTS_MARGIN_PX - key->x - swatch_px - 7);
    plots_text(key->canvas, key->x + swatch_px + 7, key->y, PLOTS_LEFT, PLOTS_SMALL, PLOTS_INK, shown);
    key->x += width_px + key_gap_px;
    return swatch;
}

static void key_groups(struct key *key, const struct plots_machine *machine)
{
    struct base_arena *arena = key->canvas->arena;
    const struct plots_tiles *tiles = machine->tiles;
    const char *others =
        tiles->tile_count == 2 ? "the other one" : base_print(arena, "the other %d", tiles->tile_count - 1);
    plots_rect(key->canvas,
               key_entry(key, base_print(arena, "a %s group: %s", tiles->group, plots_group_words(arena, machine))),
               plots_tile_look(tiles, 0));
    if (tiles->tile_count == 2) plots_rect(key->canvas, key_entry(key, others), plots_tile_look(tiles, 1));
    if (tiles->tile_count > 2) {
        struct plots_box swatch = key_entry(key, others), half = {swatch.x, swatch.y, swatch.width / 2, swatch.height};
        plots_rect(key->canvas, half, plots_tile_tint(PLOTS_EVEN));
        half.x += half.width;
        plots_rect(key->canvas, half, plots_tile_tint(PLOTS_ODD));
    }
    if (tiles->tile_count == 1 || tiles->tile_size == 1) return;
    struct plots_box swatch =
        key_entry(key, base_print(arena, "a %s group: the first of each of the %d", tiles->across, tiles->tile_count));
    plots_circle(key->canvas, swatch.x + swatch.width / 2, key->y, 4.5, plots_data_group_look);
}

/* Lines as thin as an idle link and as wide as the busiest one. A load of 1/2 is one pass of a ring that goes half each
 * way. */
static void key_links(struct key *key, const struct plots_machine *machine)
{
    struct base_arena *arena = key->canvas->arena;
    const struct topo_chip *chip = &machine->topology->chip;
    const char *rate = chip->link_oneway_bytes_per_s > 0
                           ? base_print(arena, "link: %s each way", plots_rate(arena, chip->link_oneway_bytes_per_s))
                           : "link";
    bool loaded = machine->busiest_load > 0;
    const char *width =
        base_print(arena, "share of time busy, at most %.0f %%; red from 90 %% of that, purple from 50 %%, blue below",
                   100 * machine->busiest_load);
    if (loaded && !machine->by_share)
        width = machine->rings_by_dimension
                    ? base_print(arena, "rings of %s groups, along all their dimensions at once", machine->tiles->group)
                    : base_print(arena, "how often rings of %s groups pass it, at most %.3g", machine->tiles->group,
                                 2 * machine->busiest_load);
    struct plots_box swatch = key_entry(
        key, loaded ? base_print(arena, machine->rings_by_dimension ? "%s; thick: %s" : "%s; width: %s", rate, width)
                    : rate);
    plots_line(key->canvas, swatch.x, key->y, swatch.x + swatch.width, key->y, plots_link_look);
    if (loaded)
        plots_line(key->canvas, swatch.x + swatch.width / 2, key->y, swatch.x + swatch.width, key->y,
                   (struct plots_look){.colour = machine->by_share ? PLOTS_ALARM : PLOTS_INK, .stroke_px = 3.4});
}

static void key_cores(struct key *key, const struct topo_topology *topology)
{
    struct plots_box swatch =
        key_entry(key, base_print(key->canvas->arena, "chip: its %d cores are a JAX device each", topology->bounds[3]));
    plots_rect(key->canvas, (struct plots_box){swatch.x + 3, swatch.y, swatch.width - 6, swatch.height},
               plots_chip_look);
}

static void key_wraps(struct key *key)
{
    struct plots_box swatch = key_entry(key, "wrap: closes a line to a ring");
    double low = key->y + 4, high = key->y - 7;
    const struct plots_point points[4] = {
        {swatch.x, low}, {swatch.x - 1, high}, {swatch.x + swatch.width + 1, high}, {swatch.x + swatch.width, low}};
    plots_curve(key->canvas, points, plots_link_look);
}

static double draw_key(const struct plots_machine *machine, double y)
{
    struct key key = {machine->canvas, PLOTS_MARGIN_PX, y + key_row_px / 2};
    const struct topo_topology *topology = machine->topology;
    const bool torus = topology->chip.torus_rank > 0;
    bool wraps = false;
    for (int i = 0; i < topology->chip.torus_rank; i++) wraps = wraps || (topology->wrap[i] && topology->bounds[i] > 1);
    if (machine->tiles) key_groups(&key, machine);
    if (torus) {
        const char *host = base_print(key.canvas->arena, "host: %s chips",
                                      plots_joined(key.canvas->arena, topology->host, topology->chip.torus_rank, "×"));
        if (topology->kind == TOPO_TPU) plots_rect(key.canvas, key_entry(&key, host), plots_host_look);
        if (topology->bounds[3] > 1) key_cores(&key, topology);
        if (topology->device_count > topology->slice_count) key_links(&key, machine);
        if (wraps) key_wraps(&key);
    }
    if (topology->slice_count > 1) {
        double rate = topology->chip.dcn_bytes_per_s;
        const char *words = rate > 0 ? base_print(key.canvas->arena, "data-centre network: %s a chip",
                                                  plots_rate(key.canvas->arena, rate))
                                     : "data-centre network";
        struct plots_box swatch = key_entry(&key, words);
        plots_line(key.canvas, swatch.x, key.y, swatch.x + swatch.width, key.y, plots_trunk_look);
    }
    return machine->tiles || torus ? key.y + key_row_px / 2 : y;
}

/* ---- the whole ---- */

static enum base_status check_size(const struct topo_topology *topology, struct base_error *error)
{
    if (topology->device_count > MOST_DEVICES)
        return base_fail(error, BASE_INPUT,
                         "%.60s: a picture holds at most %d devices, and this has %d; use a part of it", topology->name,
                         MOST_DEVICES, topology->device_count);
    struct plots_view view = {.columns = 1};
    plots_view_axes(topology, &view);
    if (topology->chip.torus_rank > 0 && view.size[0] > LONGEST_LINE)
        return base_fail(
            error, BASE_INPUT,
            "%.60s: a picture holds at most %d chips in a line, and this has %d along %c; use a part of it",
            topology->name, LONGEST_LINE, view.size[0], "xyz"[view.axis[0]]);
    return BASE_OK;
}

/* Whether the link that leads up from a chip joins two chips of one group. */
static bool is_inside_group(const struct plots_machine *machine, int chip, int dimension)
{
    const struct topo_topology *t = machine->topology;
    const int *b = t->bounds, *box = machine->tiles->box;
    const int at[] = {chip % b[0], chip / b[0] % b[1], chip / (b[0] * b[1])};
    const int size = box[dimension], place = at[dimension] % size;
    if (size == 1) return false;
    return place + 1 < size || (size == b[dimension] && size > 2 && topo_closes(t, dimension));
}

/* Collectives of a group that is a box are priced as rings along all of its dimensions at once, which share its links
 * evenly (sim/machine/placement.c); the device order's one ring would show some of them twice as busy. */
static void spread_loads(struct plots_machine *machine, int count)
{
    double *spread = base_new(machine->canvas->arena, double, count), sum = 0;
    int inside = 0;
    if (!machine->tiles->boxed || machine->topology->twisted) return;
    for (int i = 0; i < count; i++) {
        sum += machine->loads[i];
        inside += is_inside_group(machine, i / 3, i % 3);
    }
    if (!inside) return;
    for (int i = 0; i < count; i++) spread[i] = is_inside_group(machine, i / 3, i % 3) ? sum / inside : 0;
    machine->loads = spread;
    machine->rings_by_dimension = true;
}

/* Rings are loaded by a mesh over one torus; the network between slices is no part of it. */
void plots_find_loads(struct plots_machine *machine)
{
    const struct topo_topology *topology = machine->topology;
    if (!machine->mesh || topology->chip.torus_rank == 0 || topology->slice_count > 1) return;
    int count = topology->bounds[0] * topology->bounds[1] * topology->bounds[2] * 3;
    machine->loads = topo_link_loads(machine->canvas->arena, topology, machine->mesh, machine->axes);
    spread_loads(machine, count);
    for (int i = 0; i < count; i++) machine->busiest_load = fmax(machine->busiest_load, machine->loads[i]);
}

static void take_shares(struct plots_machine *machine, const double *busy_frac)
{
    const int *b = machine->topology->bounds;
    machine->loads = busy_frac;
    machine->by_share = true;
    for (int i = 0; i < 3 * b[0] * b[1] * b[2]; i++) machine->busiest_load = fmax(machine->busiest_load, busy_frac[i]);
}

/* Of named axes the last that has several devices. */
static unsigned last_axis(const struct topo_axes *axes)
{
    int last = axes->count - 1;
    bool t5x = axes->count == 2 && !strcmp(axes->names[last], "model");
    while (!t5x && last > 0 && axes->sizes[last] == 1) last--;
    return 1u << last;
}

enum base_status plots_machine_lay_out(struct plots_canvas *canvas, const struct plots_topology *request,
                                       struct base_error *error)
{
    struct plots_machine machine = {.canvas = canvas, .topology = request->topology, .mesh = request->mesh};
    const char *title = request->title, *subtitle = request->subtitle;
    BASE_TRY(check_size(request->topology, error));
    unsigned axes = request->axes || !request->mesh ? request->axes : last_axis(&request->mesh->axes);
    if (request->mesh && request->topology->slice_count > 1)
        return base_fail(error, BASE_INPUT,
                         "%.60s: the groups of several slices are not drawn; without a mesh they are",
                         request->topology->name);
    machine.axes = axes;
    machine.tiles = plots_tiles_find(canvas->arena, request->topology, request->mesh, axes);
    if (request->busy_frac) take_shares(&machine, request->busy_frac);
    else plots_find_loads(&machine);
    double y = plots_heading(canvas, title ? title : plots_machine_title(canvas->arena, &machine),
                             subtitle ? subtitle : plots_machine_subtitle(canvas->arena, &machine));
    y = draw_key(&machine, y + 10) + 12;
    y = request->topology->chip.torus_rank > 0 ? plots_torus(&machine, y) : plots_nodes(&machine, y);
    if (request->topology->chip.torus_rank > 0 && !machine.by_share) y = plots_torus_tile(&machine, y + 14);
    if (y > HIGHEST_PAGE_PX)
        return base_fail(error, BASE_INPUT,
                         "%.60s: its picture would be %.0f px high, and at most %d are drawn; use a part of it",
                         request->topology->name, y, HIGHEST_PAGE_PX);
    canvas->height_px = y + PLOTS_MARGIN_PX;
    return BASE_OK;
}

enum base_status plots_topology_draw(struct base_arena *arena, const struct plots_topology *request,
                                     enum plots_format format, struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = {.arena = arena};
    struct base_text bytes = {.arena = arena};
    BASE_TRY(plots_machine_lay_out(&canvas, request, error));
    if (format == PLOTS_SVG) plots_put_svg(&canvas, &bytes);
    else BASE_TRY(plots_render(&canvas, format, &bytes, error));
    *out = (struct plots_picture){canvas.title, canvas.subtitle, request->topology->device_count, bytes};
    return BASE_OK;
}
