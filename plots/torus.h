/* What the pieces of a topology's picture share: the groups of a mesh, where a chip stands on the page, how things
 * look. */
#ifndef PLOTS_TORUS_H
#define PLOTS_TORUS_H

#include "plots/canvas.h"

/* ---- groups (tiles.c) ---- */

/* Devices are numbered row-major over the topology's bounds, the last coordinate fastest. */
struct plots_tiles {
    int tile_count, tile_size;  /* groups, and devices of one */
    const int *tile_of;         /* [device] its group: the index on the other axes */
    const int *place_of;        /* [device] its place in the group: the index on the group's axes */
    const char *group, *across; /* the two sets of axes by name: "model" and "data" */
    const bool *odd;            /* [tile] neighbours differ, so that two tints tell them apart */
    bool boxed;                 /* a group is the box below, every core of its chips included */
    int box[4];
};

int plots_device_index(const struct topo_topology *topology, const int at[4]);
/* The groups of a set of axes of a mesh with its devices; NULL for NULL. In the arena. */
const struct plots_tiles *plots_tiles_find(struct base_arena *arena, const struct topo_topology *topology,
                                           const struct topo_mesh *mesh, unsigned axes);
/* Of the area under a group: the first one stands out, the others alternate between two tints. */
struct plots_look plots_tile_look(const struct plots_tiles *tiles, int tile);
enum plots_parity { PLOTS_EVEN, PLOTS_ODD };
struct plots_look plots_tile_tint(enum plots_parity parity); /* of those others */

/* ---- the picture as a whole (topology_picture.c) ---- */

struct plots_machine {
    struct plots_canvas *canvas;
    const struct topo_topology *topology;
    const struct topo_mesh *mesh;    /* NULL: no groups */
    unsigned axes;                   /* whose groups they are */
    const struct plots_tiles *tiles; /* NULL: no groups */
    const double *loads;     /* of the rings of the groups, at 3 chip + dimension; NULL: no groups, or no torus */
    bool rings_by_dimension; /* they go along each dimension at once, as they are priced */
    double busiest_load;
    bool enlarged; /* the first group once more: its devices are squares with their places in it */
    bool by_share; /* loads are shares of time: coloured by them, too */
};

/* What the rings of the machine's groups load its links with; nothing where there is no torus, or no mesh. */
void plots_find_loads(struct plots_machine *machine);
/* Puts the whole picture on a fresh canvas. BASE_INPUT as plots_topology_draw. */
enum base_status plots_machine_lay_out(struct plots_canvas *canvas, const struct plots_topology *request,
                                       struct base_error *error);

/* ---- parts that several kinds of machine share (machine_parts.c) ---- */

/* One device: a dot, with a ring where it belongs to the first data group, and its words for a viewer of the SVG.
 * On an area, that of the group; otherwise the dot itself has the group's colour. slice counts from 0. */
enum plots_ground { PLOTS_ON_PAGE, PLOTS_ON_AREA };
void plots_device(const struct plots_machine *machine, struct plots_point at, double radius_px, int slice,
                  const int device[4], enum plots_ground ground);
/* A line that boxes hang on, at y, from left_px on, with a stub down to each box; lines of several rows meet at their
 * left ends, from from_y on. */
void plots_trunk(struct plots_canvas *canvas, double left_px, double from_y, double y, const double *x_px, int count,
                 double stub_px);

extern const struct plots_look plots_host_look, plots_chip_look, plots_link_look, plots_trunk_look,
    plots_data_group_look;

/* ---- words (topology_words.c) ---- */

const char *plots_joined(struct base_arena *arena, const int *numbers, int count, const char *separator);
int plots_chip_count(const struct topo_topology *topology); /* of all slices */
int plots_host_count(const struct topo_topology *topology);
/* "45 GB/s" */
const char *plots_rate(struct base_arena *arena, double bytes_per_s);
/* "GPU", "device", "rank", "chip" */
const char *plots_device_noun(const struct topo_topology *topology);
const char *plots_machine_title(struct base_arena *arena, const struct plots_machine *machine);
const char *plots_machine_subtitle(struct base_arena *arena, const struct plots_machine *machine);
/* What a group looks like on this machine: "4×2×2 chips". */
const char *plots_group_words(struct base_arena *arena, const struct plots_machine *machine);

/* ---- tori (torus.c, torus_view.c) ---- */

/* Where the chips of a slice stand. Dimensions are those of the page: along it, into it, and from plane to plane. */
struct plots_view {
    int axis[3], size[3]; /* which dimension of the torus each of them is, and its chips */
    bool closed[3];       /* dimensions that wrap */
    bool stacked;         /* planes above each other in perspective; otherwise side by side, seen from above */
    bool labelled;        /* room is left for the names of the dimensions and of the planes */
    double pitch_px;      /* from chip to chip along the page */
    int columns;          /* side by side: planes in a row */
    double width_px, height_px;
};

/* Fills axis, size and closed: planes lie across a dimension of one chip if there is one, else across z; the longer of
 * the other two goes along the page. */
void plots_view_axes(const struct topo_topology *topology, struct plots_view *view);
/* The view with the largest pitch that fits. The height gives way where the chips would be too small to see. */
enum plots_labels { PLOTS_PLAIN, PLOTS_LABELLED };
struct plots_view plots_view_fit(const struct topo_topology *topology, double width_px, double height_px,
                                 enum plots_labels labels);
/* Where a chip, or a place between chips, stands in a view with that top left corner. */
struct plots_point plots_view_at(const struct plots_view *view, struct plots_point corner, double along, double into,
                                 int plane);
double plots_view_chip_radius_px(const struct plots_view *view);
/* A look for lines of a view: thinner where chips are close. */
struct plots_look plots_thinner(struct plots_look look, const struct plots_view *view);
/* How far the arc of a wrap is pulled out; it goes three quarters of that. */
double plots_view_arc_px(const struct plots_view *view);
/* The names of the dimensions stand around the planes, not in a caption. */
bool plots_view_is_framed(const struct plots_view *view);
/* One slice, all planes. */
void plots_slice(const struct plots_machine *machine, const struct plots_view *view, struct plots_point corner,
                 int slice);
/* All slices, from y on; returns the bottom. */
double plots_torus(const struct plots_machine *machine, double y);

/* The first group by itself, with its ranks, below a slice whose chips are too many to tell apart (torus_tile.c); y
 * where there is nothing to enlarge. */
double plots_torus_tile(const struct plots_machine *machine, double y);

/* ---- nodes of GPUs, CPU hosts, ranks of one machine (nodes.c) ---- */

double plots_nodes(const struct plots_machine *machine, double y);

#endif
