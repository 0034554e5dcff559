/* Counts through the digits of a device order. */
#include "topo/device_order.h"

#include <string.h>

void topo_order_add(struct topo_order *order, int coordinate, int radix, int weight)
{
    if (radix > 1) order->digits[order->count++] = (struct topo_digit){coordinate, radix, weight};
}

static void enumerate(const struct topo_order *order, int device_count, int (*devices)[TOPO_COORDINATES])
{
    int at[TOPO_MOST_DIGITS] = {0}, now[TOPO_COORDINATES] = {0};
    for (int n = 0; n < device_count; n++) {
        memcpy(devices[n], now, sizeof now);
        for (int d = order->count - 1; d >= 0; d--) {
            const struct topo_digit *digit = &order->digits[d];
            now[digit->coordinate] += digit->weight;
            if (++at[d] < digit->radix) break;
            now[digit->coordinate] -= digit->radix * digit->weight;
            at[d] = 0;
        }
    }
}

void topo_order_put(struct base_arena *arena, const struct topo_order *order, struct topo_mesh *mesh)
{
    mesh->devices = base_alloc(arena, (size_t)mesh->device_count, sizeof *mesh->devices);
    enumerate(order, mesh->device_count, mesh->devices);
}

const char *topo_tuple(char buffer[TOPO_TUPLE], const int *numbers, int count)
{
    size_t used = 0;
    for (int i = 0; i < count && used < TOPO_TUPLE - 16; i++)
        used += (size_t)snprintf(buffer + used, TOPO_TUPLE - used, "%s%d", i ? ", " : "(", numbers[i]);
    snprintf(buffer + used, TOPO_TUPLE - used, count == 1 ? ",)" : count ? ")" : "()");
    return buffer;
}
