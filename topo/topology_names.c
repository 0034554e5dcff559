/* Names of chips and accelerator types: catalogue look-ups, and suggestions for unknown names. */
#include "topo/topology_names.h"

#include <ctype.h>
#include <string.h>

enum { MOST_NAMES = 2048 };

const struct topo_chip *topo_chip_named(const char *name, size_t length)
{
    int count;
    const struct topo_chip *chips = topo_chips(&count);
    for (int i = 0; i < count; i++)
        if (!strncmp(chips[i].name, name, length) && !chips[i].name[length]) return &chips[i];
    return NULL;
}

const struct topo_slice *topo_slice_named(const char *accelerator_type)
{
    int count;
    const struct topo_slice *slices = topo_slices(&count);
    for (int i = 0; i < count; i++)
        if (!strcmp(slices[i].accelerator_type, accelerator_type)) return &slices[i];
    return NULL;
}

/* "v9-64": lists the accelerator types that end in "-64". */
static void list_of_size(const char *name, char *out, size_t size)
{
    int count;
    const struct topo_slice *slices = topo_slices(&count);
    const char *wanted = strrchr(name, '-');
    size_t used = 0;
    for (int i = 0; wanted && i < count; i++) {
        const char *has = strrchr(slices[i].accelerator_type, '-');
        if (!has || strcmp(has, wanted) != 0 || used + strlen(slices[i].accelerator_type) + 3 > size) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", slices[i].accelerator_type);
    }
}

static enum base_status unknown_name(const char *name, struct base_error *error)
{
    const char *names[MOST_NAMES];
    int count = 0, chip_count, slice_count;
    const struct topo_chip *chips = topo_chips(&chip_count);
    const struct topo_slice *slices = topo_slices(&slice_count);
    for (int i = 0; i < chip_count && count < MOST_NAMES; i++) names[count++] = chips[i].name;
    for (int i = 0; i < slice_count && count < MOST_NAMES; i++) names[count++] = slices[i].accelerator_type;
    const char *meant = base_synonym("topology", name, strlen(name), BASE_SUGGESTED),
               *nearest = meant ? meant : base_nearest(name, names, count);
    char of_size[200] = "";
    list_of_size(name, of_size, sizeof of_size);
    if (*of_size && !meant)
        return base_fail(error, BASE_INPUT,
                         "no such accelerator type; use one of that size, %s, or a shape of chips such as v4:4x4x8",
                         of_size);
    return base_fail(
        error, BASE_INPUT,
        "unknown name%s%s%sUse an accelerator type (v4-512), a generation and a shape (v4:4x8x8), GPU nodes "
        "(a100-80g:32x8) or ranks of "
        "this machine (local:4)",
        nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "? " : ". ");
}

/* Names the chip that is meant, or lists all chips. */
static enum base_status unknown_chip(const char *name, struct base_error *error)
{
    const char *names[MOST_NAMES];
    char all[500] = "";
    int count;
    const struct topo_chip *chips = topo_chips(&count);
    for (int i = 0; i < count && i < MOST_NAMES; i++) {
        const size_t used = strlen(all);
        names[i] = chips[i].name;
        snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", chips[i].name);
    }
    const char *nearest = base_nearest(name, names, count < MOST_NAMES ? count : MOST_NAMES);
    if (nearest) return base_fail(error, BASE_INPUT, "\"%.40s\" is no chip; did you mean %s?", name, nearest);
    return base_fail(error, BASE_INPUT, "\"%.40s\" is no chip; use one of %s", name, all);
}

/* "a100" starts the names of several chips with different memory, so it is ambiguous. */
enum base_status topo_refuse_name(const char *name, bool is_chip, struct base_error *error)
{
    char known[200] = "";
    int count;
    const struct topo_chip *chips = topo_chips(&count);
    size_t length = strlen(name);
    for (int i = 0; i < count; i++)
        if (!strncmp(chips[i].name, name, length) && chips[i].name[length] == '-') {
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", used ? " or " : "", chips[i].name);
        }
    if (*known) return base_fail(error, BASE_INPUT, "\"%.40s\" may be several chips; use %s", name, known);
    return is_chip ? unknown_chip(name, error) : unknown_name(name, error);
}

/* Other spellings of catalogue names, by gcloud and by people: "v5litepod-16", "tpu_v4:2x2x2", "V4-512". */
void topo_as_catalogued(char *name)
{
    static const struct {
        const char *theirs, *ours;
    } beginnings[] = {{"tpu_v", "v"},       {"tpu-v", "v"},    {"tpuv", "v"},       {"tpu v", "v"},
                      {"v5litepod", "v5e"}, {"v5lite", "v5e"}, {"trillium", "v6e"}, {"ironwood", "tpu7x"}};
    for (char *at = name; *at && *at != ':'; at++) *at = (char)tolower((unsigned char)*at);
    for (int i = 0; i < BASE_COUNT(beginnings); i++) {
        size_t theirs = strlen(beginnings[i].theirs), ours = strlen(beginnings[i].ours);
        if (strncmp(name, beginnings[i].theirs, theirs) != 0) continue;
        memcpy(name, beginnings[i].ours, ours);
        memmove(name + ours, name + theirs, strlen(name + theirs) + 1);
    }
}

/* "v4-513": a known chip with an unknown size. The message names the nearest sizes. */
enum base_status topo_refuse_size(const struct topo_chip *chip, const char *digits, struct base_error *error)
{
    const struct topo_slice *below = NULL, *above = NULL;
    int count;
    const struct topo_slice *slices = topo_slices_of(chip->name, &count);
    size_t prefix = strlen(chip->name) + 1, width = strlen(digits);
    for (int i = 0; i < count; i++) {
        const char *size = slices[i].accelerator_type + prefix;
        bool less = strlen(size) != width ? strlen(size) < width : strcmp(size, digits) < 0;
        if (less) below = &slices[i];
        else if (!above) above = &slices[i];
    }
    if (!below && !above)
        return base_fail(error, BASE_INPUT, "no accelerator type of %s is listed; use a shape such as %s:2x2",
                         chip->full_name, chip->name);
    return base_fail(error, BASE_INPUT, "no such accelerator type; use %s%s%s, or a shape of chips such as %s:%s",
                     below ? below->accelerator_type : "", below && above ? " or " : "",
                     above ? above->accelerator_type : "", chip->name, chip->torus_rank == 2 ? "4x8" : "4x4x8");
}
