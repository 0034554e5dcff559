/* Nodes on a network: GPUs with what joins them inside a node and the adapters that lead out of it, hosts of CPU
 * devices, ranks of one machine. The first node is large, with its parts named; the others are alike and small. */
#include "plots/torus.h"

#include <math.h>

enum { MOST_IN_ROW = 8, LONGEST_ROW = 64, MOST_ADAPTERS = 32 };

static const double left_px = PLOTS_MARGIN_PX, trunk_left_px = PLOTS_MARGIN_PX + 6,
                    page_px = PLOTS_PAGE_WIDTH_PX - 2 * PLOTS_MARGIN_PX;

/* Of a large node: rows of devices under their bars, adapters on the lower edge. */
static const double large_pitch_px = 76, large_radius_frac = 0.17, large_width_px = 450, pad_px = 14, name_px = 24,
                    bar_px = 22, bar_gap_px = 20, adapter_px = 11, bus_px = 42, bus_rise_px = 17, foot_px = 16;

/* Of the small ones. */
static const double smallest_pitch_px = 4.5, largest_pitch_px = 26, small_gap_px = 12, crowded_gap_px = 4,
                    tallest_px = 440, trunk_px = 27, stub_px = 10;

/* Of links that join several nodes: a rail below them, and one at the page's edge that joins the rails. */
static const double rail_px = 6, rail_room_px = 12, edge_px = PLOTS_PAGE_WIDTH_PX - 8;
static const struct plots_look rail_look = {.colour = PLOTS_OVERHEAD, .stroke_px = 3};

/* A node's devices in rows, its first one at `first`. */
struct node {
    const struct plots_machine *machine;
    int index, in_row;
    struct plots_point first;
    double pitch_px, row_px, radius_px;
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int devices_of_node(const struct topo_topology *topology)
{
    return topology->kind == TOPO_LOCAL ? topology->device_count : topology->bounds[1];
}

static int node_count(const struct topo_topology *topology)
{
    return topology->device_count / devices_of_node(topology);
}

/* Nodes whose devices links of their own join: one, but where a domain reaches over several, as NVL72 does. */
static int nodes_of_domain(const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    const int reached = chip->link_count > 0 ? chip->domain_size / devices_of_node(topology) : 1;
    return reached < 1 ? 1 : least(reached, node_count(topology));
}

/* Devices of a node that links of their own join; 0: none are. */
static int joined(const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    int count = least(chip->domain_size, devices_of_node(topology));
    return count > 1 && chip->link_count > 0 ? count : 0;
}

/* Whether each row of a large node has a bar of its own: one a domain, where a node has several that fit. */
static bool has_several_domains(const struct topo_topology *topology)
{
    return joined(topology) > 0 && joined(topology) < devices_of_node(topology) && joined(topology) <= LONGEST_ROW;
}

static int row_count(const struct node *node)
{
    return (devices_of_node(node->machine->topology) + node->in_row - 1) / node->in_row;
}

/* ---- devices and the areas of their groups ---- */

static struct plots_point device_place(const struct node *node, int local)
{
    return (struct plots_point){node->first.x + local % node->in_row * node->pitch_px,
                                node->first.y + local / node->in_row * node->row_px};
}

static int tile_at(const struct node *node, int local)
{
    int device[4] = {node->index, local, 0, 0};
    return node->machine->tiles->tile_of[plots_device_index(node->machine->topology, device)];
}

/* Neighbours in a row that belong to one group share one area. */
static void draw_groups(const struct node *node)
{
    int count = devices_of_node(node->machine->topology);
    double pad = 0.46 * node->pitch_px, half = fmin(0.46 * node->row_px, 1.7 * node->radius_px);
    for (int from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && to % node->in_row != 0 && tile_at(node, to) == tile_at(node, from);) to++;
        struct plots_point first = device_place(node, from), last = device_place(node, to - 1);
        plots_rect(node->machine->canvas,
                   (struct plots_box){first.x - pad, first.y - half, last.x - first.x + 2 * pad, 2 * half},
                   plots_tile_look(node->machine->tiles, tile_at(node, from)));
    }
}

static void draw_devices(const struct node *node)
{
    for (int local = 0; local < devices_of_node(node->machine->topology); local++)
        plots_device(node->machine, device_place(node, local), node->radius_px, 0, (int[]){node->index, local, 0, 0},
                     node->machine->tiles != NULL ? PLOTS_ON_AREA : PLOTS_ON_PAGE);
}

/* ---- the first node ---- */

static const char *join_words(struct base_arena *arena, const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    double rate = chip->link_oneway_bytes_per_s;
    const int nodes = nodes_of_domain(topology);
    const char *reach = nodes > 1 ? base_print(arena, "; %d nodes", nodes) : "";
    if (joined(topology) && rate > 0)
        return base_print(arena, "%s: %d links a %s, %s one way%s", chip->fabric, chip->link_count,
                          plots_device_noun(topology), plots_rate(arena, chip->link_count * rate), reach);
    return rate > 0 ? base_print(arena, "%s: %s one way", chip->fabric, plots_rate(arena, rate)) : chip->fabric;
}

/* What leads from a bar to the devices of the rows that hang on it. */
static void draw_bar(const struct node *node, struct plots_box bar, int first_row, int rows)
{
    const struct topo_topology *topology = node->machine->topology;
    struct plots_canvas *canvas = node->machine->canvas;
    bool own = joined(topology) > 0;
    struct plots_look line = plots_link_look, box = plots_host_look;
    if (own) line = (struct plots_look){.colour = PLOTS_OVERHEAD, .stroke_px = 3}, box.stroke_px = 1.4;
    int last = least((first_row + rows) * node->in_row, devices_of_node(topology));
    for (int local = first_row * node->in_row; local < last; local++) {
        struct plots_point at = device_place(node, local);
        plots_line(canvas, at.x, bar.y + bar.height, at.x, at.y, line);
    }
    const char *words = join_words(canvas->arena, topology);
    plots_rect(canvas, bar, box);
    plots_text(canvas, bar.x + bar.width / 2, bar.y + bar.height / 2, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_INK,
               plots_fit(canvas->arena, PLOTS_SMALL, words, bar.width - 12));
    plots_hover(canvas, bar, words);
}

static bool has_bar(const struct topo_topology *topology)
{
    return topology->kind != TOPO_CPU && devices_of_node(topology) > 1;
}

/* Where a domain reaches over nodes, its rail begins at the bar of the first. */
static void draw_bars(const struct node *node, struct plots_box frame)
{
    struct plots_box bar = {frame.x + pad_px, node->first.y - node->radius_px - bar_gap_px - bar_px,
                            frame.width - 2 * pad_px, bar_px};
    bool several = has_several_domains(node->machine->topology);
    if (!has_bar(node->machine->topology)) return;
    if (nodes_of_domain(node->machine->topology) > 1)
        plots_line(node->machine->canvas, bar.x + bar.width, bar.y + bar_px / 2, edge_px, bar.y + bar_px / 2,
                   rail_look);
    for (int row = 0; row < row_count(node); row += several ? 1 : row_count(node), bar.y += node->row_px)
        draw_bar(node, bar, row, several ? 1 : row_count(node));
}

/* Adapters on the lower edge, each with a line down to the network; devices reach them over a common line. */
static void draw_adapters(const struct node *node, struct plots_box frame, double network_y)
{
    const struct topo_chip *chip = &node->machine->topology->chip;
    struct plots_canvas *canvas = node->machine->canvas;
    struct plots_look port = {.colour = PLOTS_COMMUNICATION_DATA, .fill_frac = 0.45, .stroke_px = 1};
    double edge = frame.y + frame.height, bus = edge - bus_rise_px;
    int shown = chip->nics_per_node <= MOST_ADAPTERS ? chip->nics_per_node : 1,
        last_row = (row_count(node) - 1) * node->in_row;
    if (shown < 1 && node_count(node->machine->topology) > 1)
        plots_line(canvas, frame.x + frame.width / 2, edge, frame.x + frame.width / 2, network_y, plots_link_look);
    if (shown < 1) return;
    for (int local = last_row; local < devices_of_node(node->machine->topology); local++) {
        struct plots_point at = device_place(node, local);
        plots_line(canvas, at.x, at.y, at.x, bus, plots_link_look);
    }
    plots_line(canvas, frame.x + pad_px, bus, frame.x + frame.width - pad_px, bus, plots_link_look);
    for (int i = 0; i < shown; i++) {
        double x = frame.x + pad_px + (i + 0.5) * (frame.width - 2 * pad_px) / shown,
               side = chip->nics_per_node == shown ? adapter_px : 4 * adapter_px;
        plots_line(canvas, x, bus, x, node_count(node->machine->topology) > 1 ? network_y : edge, plots_link_look);
        plots_rect(canvas, (struct plots_box){x - side / 2, edge - adapter_px / 2, side, adapter_px}, port);
    }
}

static const char *network_words(struct base_arena *arena, const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    if (topology->kind == TOPO_CPU) return chip->fabric;
    if (chip->nics_per_node < 1) return "network: its adapters are not known";
    const char *plural = chip->nics_per_node == 1 ? "adapter" : "adapters";
    if (!(chip->nic_bytes_per_s > 0))
        return base_print(arena, "%d network %s a node, of unknown rate", chip->nics_per_node, plural);
    return base_print(arena, "%d network %s a node, %s one way%s", chip->nics_per_node, plural,
                      plots_rate(arena, chip->nic_bytes_per_s), chip->nics_per_node == 1 ? "" : " each");
}

/* Of a large node: short rows are seen at a glance, long ones keep it on the page. */
static int row_length(int devices)
{
    static const struct {
        int devices, in_row;
    } lengths[] = {{32, MOST_IN_ROW}, {128, 16}, {1024, 32}};
    for (int i = 0; i < BASE_COUNT(lengths); i++)
        if (devices <= lengths[i].devices) return least(devices, lengths[i].in_row);
    return LONGEST_ROW;
}

static struct node large_node(const struct plots_machine *machine)
{
    struct node node = {.machine = machine};
    int devices = devices_of_node(machine->topology);
    bool several = has_several_domains(machine->topology);
    node.in_row = several ? joined(machine->topology) : row_length(devices);
    node.pitch_px = fmin(large_pitch_px, (page_px - 2 * pad_px - trunk_px) / node.in_row);
    node.radius_px = large_radius_frac * node.pitch_px;
    node.row_px = several ? 2 * (node.radius_px + bar_gap_px) + bar_px : 0.6 * node.pitch_px;
    return node;
}

static const char *box_name(const struct topo_topology *topology)
{
    static const char *const names[] = {[TOPO_GPU] = "node", [TOPO_CPU] = "process", [TOPO_LOCAL] = "host"};
    return names[topology->kind];
}

static double bar_y(double y)
{
    return y + name_px + bar_px / 2;
}

/* Returns where the network begins under it: the lower end of the adapters' lines. */
static double draw_large(const struct plots_machine *machine, double y)
{
    struct node node = large_node(machine);
    struct plots_canvas *canvas = machine->canvas;
    const struct topo_topology *topology = machine->topology;
    bool alone = node_count(topology) == 1;
    double inner_px = fmax(node.in_row * node.pitch_px, has_bar(topology) ? large_width_px - 2 * pad_px : 140);
    struct plots_box frame = {left_px + (alone ? 0 : trunk_px), y, inner_px + 2 * pad_px, 0};
    if (alone) frame.x += (page_px - frame.width) / 2;
    node.first = (struct plots_point){frame.x + pad_px + inner_px / 2 - (node.in_row - 1) * node.pitch_px / 2,
                                      y + name_px + (has_bar(topology) ? bar_px + bar_gap_px : 4) + node.radius_px};
    frame.height = node.first.y - y + (row_count(&node) - 1) * node.row_px + node.radius_px +
                   (topology->chip.nics_per_node > 0 ? bus_px : foot_px);
    double network_y = y + frame.height + 26;
    plots_rect(canvas, frame, (struct plots_look){.colour = PLOTS_MUTED, .fill_frac = 0.03, .stroke_px = 1});
    const char *noun = plots_device_noun(topology);
    plots_text(canvas, frame.x + pad_px, y + name_px / 2 + 1, PLOTS_LEFT, PLOTS_STRONG, PLOTS_INK,
               base_print(canvas->arena, "%s 0", box_name(topology)));
    plots_text(canvas, frame.x + frame.width - pad_px, y + name_px / 2 + 1, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_MUTED,
               base_print(canvas->arena, "%d %s%s", devices_of_node(topology), noun,
                          devices_of_node(topology) == 1 ? "" : "s"));
    draw_adapters(&node, frame, network_y);
    draw_bars(&node, frame);
    if (machine->tiles) draw_groups(&node);
    draw_devices(&node);
    return alone ? y + frame.height + adapter_px : network_y;
}

/* ---- the others ---- */

struct rack {
    double pitch_px, gap_px, width_px, height_px;
    int columns;
};

static struct rack rack_of(const struct topo_topology *topology, int columns)
{
    enum { FEW = 8 };
    struct rack rack = {.columns = columns, .gap_px = columns > FEW ? crowded_gap_px : small_gap_px};
    int devices = devices_of_node(topology), in_row = least(devices, MOST_IN_ROW);
    rack.pitch_px =
        fmin(largest_pitch_px, (page_px - trunk_px - (columns - 1) * rack.gap_px) / (columns * (in_row + 0.5)));
    rack.width_px = (in_row + 0.5) * rack.pitch_px;
    rack.height_px = ((devices + in_row - 1) / in_row + 0.5) * rack.pitch_px;
    return rack;
}

/* The largest pitch on a page of good height, in as few rows as it allows; where there are too many nodes, as many in a
 * row as can be seen. */
static struct rack fit_rack(const struct topo_topology *topology, int nodes)
{
    struct rack best = {.columns = 0}, rack = rack_of(topology, 1), narrowest = rack;
    for (int columns = 1; columns <= nodes && rack.pitch_px >= smallest_pitch_px; rack = rack_of(topology, ++columns)) {
        int rows = (nodes + columns - 1) / columns;
        narrowest = rack;
        if (rows * (rack.height_px + trunk_px) <= tallest_px && rack.pitch_px >= best.pitch_px) best = rack;
    }
    return best.columns ? best : narrowest;
}

static void draw_small(const struct plots_machine *machine, const struct rack *rack, int index,
                       struct plots_point corner)
{
    struct node node = {.machine = machine,
                        .index = index,
                        .in_row = least(devices_of_node(machine->topology), MOST_IN_ROW),
                        .pitch_px = rack->pitch_px,
                        .row_px = rack->pitch_px,
                        .radius_px = 0.27 * rack->pitch_px};
    struct plots_box frame = {corner.x, corner.y, rack->width_px, rack->height_px};
    node.first = (struct plots_point){corner.x + 0.75 * node.pitch_px, corner.y + 0.75 * node.pitch_px};
    plots_rect(machine->canvas, frame, plots_host_look);
    if (machine->tiles) draw_groups(&node);
    if (joined(machine->topology))
        for (int local = 0; local < devices_of_node(machine->topology); local += node.in_row) {
            int last = least(local + node.in_row, devices_of_node(machine->topology)) - 1;
            struct plots_point from = device_place(&node, local), to = device_place(&node, last);
            plots_line(machine->canvas, from.x, from.y, to.x, to.y, plots_link_look);
        }
    draw_devices(&node);
}

static const char *nodes_name(struct base_arena *arena, const struct topo_topology *topology, int first, int last)
{
    const char *name = box_name(topology), *plural = topology->kind == TOPO_CPU ? "es" : "s";
    if (first == last) return base_print(arena, "%s %d", name, first);
    return base_print(arena, "%s%s %d %s %d", name, plural, first, last == first + 1 ? "and" : "to", last);
}

/* The rail of a row of nodes that links join with others, up to the page's edge. */
static void draw_rail(struct plots_canvas *canvas, const double *centres, int count, double bottom)
{
    for (int i = 0; i < count; i++) plots_line(canvas, centres[i], bottom, centres[i], bottom + rail_px, rail_look);
    plots_line(canvas, centres[0], bottom + rail_px, edge_px, bottom + rail_px, rail_look);
}

static const char *row_name(struct base_arena *arena, const struct topo_topology *topology, int first, int last)
{
    const char *name = nodes_name(arena, topology, first, last);
    const int domain = nodes_of_domain(topology);
    return domain > 1 ? base_print(arena, "%s, in domain %d", name, first / domain) : name;
}

/* rail_from_y: where the rail of the first domain begins, at its first node. */
static double draw_others(const struct plots_machine *machine, double rail_from_y, double from_y, double y)
{
    struct plots_canvas *canvas = machine->canvas;
    int nodes = node_count(machine->topology), domain = nodes_of_domain(machine->topology);
    struct rack rack = fit_rack(machine->topology, nodes - 1);
    double *centres = base_new(canvas->arena, double, rack.columns);
    for (int index = 1; index < nodes; y += rack.height_px + trunk_px) {
        int count = 0, begin = index;
        do {
            struct plots_point corner = {left_px + trunk_px + count * (rack.width_px + rack.gap_px), y + trunk_px};
            centres[count++] = corner.x + rack.width_px / 2;
            draw_small(machine, &rack, index++, corner);
        } while (count < rack.columns && index < nodes && (domain == 1 || index % domain));
        plots_text(canvas, left_px + trunk_px, y + trunk_px - stub_px - 9, PLOTS_LEFT, PLOTS_SMALL, PLOTS_MUTED,
                   row_name(canvas->arena, machine->topology, begin, index - 1));
        plots_trunk(canvas, trunk_left_px, from_y, y + trunk_px - stub_px, centres, count, stub_px);
        if (domain == 1) continue;
        const double bottom = y + trunk_px + rack.height_px;
        draw_rail(canvas, centres, count, bottom);
        if (begin % domain) plots_line(canvas, edge_px, rail_from_y, edge_px, bottom + rail_px, rail_look);
        rail_from_y = bottom + rail_px;
        y += rail_room_px;
    }
    return y + 8;
}

double plots_nodes(const struct plots_machine *machine, double y)
{
    const struct topo_topology *topology = machine->topology;
    struct plots_canvas *canvas = machine->canvas;
    double words_px = plots_line_height(PLOTS_LABEL), network_y = draw_large(machine, y);
    const char *words = network_words(canvas->arena, topology);
    if (node_count(topology) > 1) {
        plots_trunk(canvas, trunk_left_px, network_y, network_y, NULL, 0, 0);
        plots_text(canvas, left_px + trunk_px, network_y + words_px / 2 + 3, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, words);
        return draw_others(machine, bar_y(y), network_y, network_y + words_px + 4);
    }
    if (topology->chip.nics_per_node < 1) return network_y;
    plots_text(canvas, PLOTS_PAGE_WIDTH_PX / 2.0, network_y + words_px / 2 + 3, PLOTS_CENTRE, PLOTS_LABEL, PLOTS_INK,
               words);
    return network_y + words_px + 6;
}
