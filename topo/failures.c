/* Dead links, a slow network card, a host that comes late. */
#include "topo/failures.h"

#include <string.h>

static enum base_status read_dead_link(const struct topo_chip *chip, const char *text, struct topo_dead_link *out,
                                       struct base_error *error)
{
    int64_t at[3];
    int count = 0;
    char list[48];
    size_t length = strlen(text);
    bool good = length > 2 && length < sizeof list && *text >= 'x' && *text <= 'z' && text[1] == ':' &&
                strspn(text + 2, "0123456789.") == length - 2;
    for (size_t i = 0; i <= length && good; i++) list[i] = text[i] == '.' ? ',' : text[i];
    if (!good)
        return base_fail(
            error, BASE_INPUT,
            "dead_links: \"%.40s\" is not understood; use x:0.1.2, the link up along x from chip (0, 1, 2), "
            "several joined by +",
            text);
    BASE_TRY(base_parse_ints(list + 2, "dead_links", 0, INT32_MAX, 3, at, &count, error));
    if (count < chip->torus_rank)
        return base_fail(
            error, BASE_INPUT,
            "dead_links: \"%.40s\" has %d coordinate%s, and a chip of %s has %d; name them all, as in x:%s", text,
            count, count == 1 ? "" : "s", chip->name, chip->torus_rank, chip->torus_rank == 3 ? "0.1.2" : "0.1");
    for (int i = 0; i < 3; i++) out->at[i] = i < count ? (int)at[i] : 0;
    out->dimension = *text - 'x';
    return BASE_OK;
}

enum base_status topo_read_dead_links(struct topo_topology *topology, const char *value, struct base_error *error)
{
    char words[TOPO_MOST_DEAD_LINKS * 48];
    if (strlen(value) >= sizeof words)
        return base_fail(error, BASE_INPUT, "dead_links: more than %d; name fewer", TOPO_MOST_DEAD_LINKS);
    memcpy(words, value, strlen(value) + 1);
    topology->dead_link_count = 0;
    for (char *at = words, *next; at; at = next) {
        char *plus = strchr(at, '+');
        next = plus ? plus + 1 : NULL;
        if (plus) *plus = '\0';
        if (topology->dead_link_count == TOPO_MOST_DEAD_LINKS)
            return base_fail(error, BASE_INPUT, "dead_links: more than %d; name fewer", TOPO_MOST_DEAD_LINKS);
        BASE_TRY(read_dead_link(&topology->chip, at, &topology->dead_links[topology->dead_link_count++], error));
    }
    return BASE_OK;
}

enum base_status topo_read_at_node(const char *value, const char *key, int *node, double *number,
                                   struct base_error *error)
{
    char words[48];
    int64_t which;
    char *colon = strlen(value) < sizeof words ? strcpy(words, value), strchr(words, ':') : NULL;
    if (!colon)
        return base_fail(error, BASE_INPUT, "%s: \"%.40s\" is not understood; use NODE:NUMBER, such as 3:0.1", key,
                         value);
    *colon = '\0';
    BASE_TRY(base_parse_int(words, key, 0, INT32_MAX, &which, error));
    BASE_TRY(base_parse_double(colon + 1, key, 1e-9, 1e9, number, error));
    *node = (int)which;
    return BASE_OK;
}

static int node_count(const struct topo_topology *t)
{
    int nodes = t->slice_count;
    for (int i = 0; i < 4; i++) nodes *= t->bounds[i] / t->host[i];
    return nodes;
}

enum base_status topo_check_failures(const struct topo_topology *t, struct base_error *error)
{
    for (int i = 0; i < t->dead_link_count; i++) {
        const struct topo_dead_link *dead = &t->dead_links[i];
        bool inside = dead->dimension < t->chip.torus_rank;
        for (int d = 0; d < 3; d++) inside = inside && dead->at[d] < t->bounds[d];
        bool leads =
            inside && (topo_closes(t, dead->dimension) || dead->at[dead->dimension] + 1 < t->bounds[dead->dimension]);
        if (!leads)
            return base_fail(error, BASE_INPUT, "dead_links: no link leads up along %c from chip (%d, %d, %d)",
                             "xyz"[dead->dimension], dead -> at[0], dead -> at[1], dead -> at[2]);
    }
    if (t->slow_nic_frac > 1)
        return base_fail(error, BASE_INPUT, "slow_nic: %g is no share of its rate; use a number up to 1, such as 0.1",
                         t->slow_nic_frac);
    int nodes = node_count(t);
    if (t->slow_nic_node >= nodes || t->straggler_node >= nodes)
        return base_fail(error, BASE_INPUT, "there are %d nodes, counted from 0; use a smaller number", nodes);
    return BASE_OK;
}

bool topo_has_failures(const struct topo_topology *t)
{
    return t->dead_link_count > 0 || t->slow_nic_frac > 0 || t->straggler_s > 0 || t->oversubscription > 1;
}

struct topo_topology topo_mended(const struct topo_topology *t)
{
    struct topo_topology mended = *t;
    mended.dead_link_count = 0;
    mended.slow_nic_frac = mended.straggler_s = mended.oversubscription = 0;
    return mended;
}

const char *topo_without_failures(struct base_arena *arena, const char *name)
{
    static const char *const keys[] = {"dead_links=", "slow_nic=", "straggler=", "oversubscription="};
    const char *at = *name == '@' ? NULL : strchr(name, '@');
    struct base_text out = {.arena = arena};
    if (!at) return name;
    base_put_bytes(&out, name, (size_t)(at - name));
    for (bool first = true; at && *at;) {
        size_t length = strcspn(++at, ",");
        bool fails = false;
        for (int i = 0; i < BASE_COUNT(keys); i++) fails = fails || !strncmp(at, keys[i], strlen(keys[i]));
        if (!fails) {
            base_put(&out, first ? "@" : ",");
            base_put_bytes(&out, at, length);
            first = false;
        }
        at += length;
    }
    return out.data;
}
