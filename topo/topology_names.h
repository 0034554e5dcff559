/* Private to topo/: names as users write them, and their catalogue entries. */
#ifndef TOPO_TOPOLOGY_NAMES_H
#define TOPO_TOPOLOGY_NAMES_H

#include "topo/topo.h"

/* Looks up the first length characters of name; NULL: no such chip. */
const struct topo_chip *topo_chip_named(const char *name, size_t length);
const struct topo_slice *topo_slice_named(const char *accelerator_type); /* NULL: none */
void topo_as_catalogued(char *name); /* rewrites other spellings of a catalogue name in place */

/* These return BASE_INPUT and suggest a name: for a name that is neither a chip nor an accelerator type, and for an
 * unknown size of a known chip. */
enum base_status topo_refuse_name(const char *name, bool is_chip, struct base_error *error); /* else a topology */
enum base_status topo_refuse_counted(struct base_arena *arena, const char *text,
                                     struct base_error *error); /* "33 v4" */
enum base_status topo_refuse_size(const struct topo_chip *chip, const char *digits, struct base_error *error);

#endif
