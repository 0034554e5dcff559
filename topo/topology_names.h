/* Private to topo/: names as users write them, and the catalogue. */
#ifndef TOPO_TOPOLOGY_NAMES_H
#define TOPO_TOPOLOGY_NAMES_H

#include "topo/topo.h"

/* The first length characters of name; NULL: the catalogue has no such chip. */
const struct topo_chip *topo_chip_named(const char *name, size_t length);
const struct topo_slice *topo_slice_named(const char *accelerator_type); /* NULL: there is none */
/* By its words, "H100 SXM", "a100-80gb"; NULL: no chip, or several, have them all. */
const struct topo_chip *topo_chip_spelled(const char *text, size_t length);
void topo_as_catalogued(char *name); /* rewrites another spelling of a catalogued name in place */

/* These return BASE_INPUT and say what to use: for a name that is neither a chip's nor an accelerator type's, and for
 * the size behind a known chip's name. */
enum base_status topo_refuse_name(const char *name, struct base_error *error);
enum base_status topo_refuse_counted(struct base_arena *arena, const char *text,
                                     struct base_error *error); /* "33 v4" */
enum base_status topo_refuse_size(const struct topo_chip *chip, const char *digits, struct base_error *error);

#endif
