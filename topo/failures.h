/* Private to topo/: what is broken or slow on a topology, as @key=value says it. */
#ifndef TOPO_FAILURES_H
#define TOPO_FAILURES_H

#include "topo/topo.h"

/* "x:0.1.2+z:3.0.0": links that lead up from a chip along a dimension. */
enum base_status topo_read_dead_links(struct topo_topology *topology, const char *value, struct base_error *error);
/* "NODE:NUMBER", such as 3:0.1. */
enum base_status topo_read_at_node(const char *value, const char *key, int *node, double *number,
                                   struct base_error *error);
/* Once bounds and wraps are known: do those links and nodes exist? */
enum base_status topo_check_failures(const struct topo_topology *topology, struct base_error *error);

#endif
