/* Layout decisions that depend on available memory. Each records the range of limits with the same outcome, so that
 * other plans can reuse a layout. */
#include "sim/compile/compiled_buffers.h"

#include <math.h>

bool sim_has_room(struct sim_assigner *a, double bytes)
{
    const bool has = bytes <= a->options->limit_bytes;
    if (has) a->from_limit_bytes = fmax(a->from_limit_bytes, bytes);
    else a->to_limit_bytes = fmin(a->to_limit_bytes, nextafter(bytes, 0));
    return has;
}

double sim_remat_cost(struct sim_assigner *a, double freed_bytes)
{
    enum { SURE = 1 << 30 }; /* relative precision; rounding is far smaller */
    const double limit_bytes = a->options->limit_bytes;
    if (freed_bytes <= 0) return INFINITY;
    const double cost = floor(limit_bytes / freed_bytes), margin_bytes = fabs(limit_bytes) / SURE,
                 from = cost * freed_bytes + margin_bytes, to = (cost + 1) * freed_bytes - margin_bytes;
    a->from_limit_bytes = fmax(a->from_limit_bytes, fmin(from, limit_bytes));
    a->to_limit_bytes = fmin(a->to_limit_bytes, fmax(to, limit_bytes));
    return cost;
}
