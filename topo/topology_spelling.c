/* Common spellings of topologies: "8xH100", "64 x H100 SXM", "32 v4 chips", "h100-80gb:1x8", "8 x v5e-256",
 * "v5p:4x4x4 x 2", "2 x p5.48xlarge". */
#include "topo/topology_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 12, LONGEST_TOKEN = 24, LONGEST = 96, MOST_COUNT = 1 << 20 };

struct tokens {
    char words[MOST_TOKENS][LONGEST_TOKEN];
    int count;
};

/* Splits text into runs of letters and digits; "80gb" equals "80g", and "sxm5" equals "sxm". False: too many. */
static bool split(const char *text, size_t length, struct tokens *out)
{
    out->count = 0;
    for (size_t i = 0; i < length;) {
        size_t n = 0;
        while (i + n < length && isalnum((unsigned char)text[i + n])) n++;
        if (n && (n >= LONGEST_TOKEN || out->count == MOST_TOKENS)) return false;
        char *word = out->words[out->count];
        for (size_t j = 0; j < n; j++) word[j] = (char)tolower((unsigned char)text[i + j]);
        word[n] = '\0';
        if (n > 2 && isdigit((unsigned char)*word) && !strcmp(word + n - 2, "gb")) word[n - 1] = '\0';
        if (!strncmp(word, "sxm", 3)) word[3] = '\0';
        out->count += n > 0;
        i += n + (n == 0);
    }
    return true;
}

static bool holds(const struct tokens *tokens, const char *word)
{
    for (int i = 0; i < tokens->count; i++)
        if (!strcmp(tokens->words[i], word)) return true;
    return false;
}

/* Words that do not identify a chip. */
static bool is_filler(const char *word)
{
    static const char *const fillers[] = {"x",     "nvidia", "google", "cloud", "tpu",  "tpus",    "gpu", "gpus",
                                          "chips", "chip",   "amd",    "dgx",   "hgx",  "cores",   "of",  "geforce",
                                          "tesla", "hbm3",   "hbm2e",  "hbm3e", "core", "instinct"};
    return base_has_word(BASE_COUNT(fillers), fillers, word);
}

/* Words of a chip's names that alone name none: a memory size, a socket, a short number ("4090" is none). */
static bool is_descriptor(const char *word)
{
    static const char *const descriptors[] = {"sxm", "pcie", "nvl", "nvl72", "gcd", "per", "lite"};
    enum { SHORT_NUMBER = 3 };
    const size_t digits = strspn(word, "0123456789");
    if (base_has_word(BASE_COUNT(descriptors), descriptors, word)) return true;
    return digits && (word[digits] ? !strcmp(word + digits, "g") : digits <= SHORT_NUMBER);
}

static bool is_called(const struct topo_chip *chip, const struct tokens *given)
{
    struct tokens name, full;
    bool any = false;
    if (!split(chip->name, strlen(chip->name), &name) || !split(chip->full_name, strlen(chip->full_name), &full))
        return false;
    for (int i = 0; i < given->count; i++) {
        char word[LONGEST_TOKEN];
        const size_t last = strlen(strcpy(word, given->words[i])) - 1;
        if (is_filler(word)) continue;
        if (word[last] == 's' && !holds(&name, word) && !holds(&full, word)) word[last] = '\0'; /* "8 H100s" */
        if (!holds(&name, word) && !holds(&full, word)) return false;
        any = any || !is_descriptor(word);
    }
    return any;
}

/* The only chip whose names contain all these words; of several, the one that has a word as its name. */
static const struct topo_chip *chip_of(const struct tokens *given)
{
    int count;
    const struct topo_chip *chips = topo_chips(&count), *found = NULL;
    bool several = false;
    for (int i = 0; i < count; i++) {
        if (!is_called(&chips[i], given)) continue;
        char plural[LONGEST_TOKEN + 1];
        snprintf(plural, sizeof plural, "%ss", chips[i].name);
        if (holds(given, chips[i].name) || holds(given, plural)) return &chips[i];
        several = several || found;
        found = &chips[i];
    }
    return several ? NULL : found;
}

/* The only chip whose names contain all these words: "H100 SXM", "a100-80gb". NULL: none or several. */
static const struct topo_chip *chip_spelled(const char *text, size_t length)
{
    struct tokens given;
    return split(text, length, &given) ? chip_of(&given) : NULL;
}

enum base_status topo_chip_called(struct base_arena *arena, const char *name, const struct topo_chip **out,
                                  struct base_error *error)
{
    char *called = base_copy(arena, name);
    topo_as_catalogued(called);
    *out = topo_chip_named(called, strlen(called));
    if (!*out) *out = chip_spelled(called, strlen(called));
    return *out ? BASE_OK : topo_refuse_name(called, true, error);
}

/* The smallest accelerator type with this many chips or cores; NULL: none is listed. */
static const struct topo_slice *slice_of(const struct topo_chip *chip, int64_t chips)
{
    int count;
    const struct topo_slice *slices = topo_slices_of(chip->name, &count);
    for (int i = 0; i < count; i++)
        if (slices[i].chip_count == chips) return &slices[i];
    return NULL;
}

/* Usual number of GPUs per host of these chips. */
static int gpus_of_host(const struct topo_chip *chip)
{
    if (chip->domain_size > 16 && chip->chips_per_host > 0) return chip->chips_per_host;
    return chip->domain_size > 1 && chip->domain_size <= 16 ? chip->domain_size : 8;
}

const char *topo_devices_name(struct base_arena *arena, const struct topo_chip *chip, int64_t count)
{
    if (count < 1 || count > MOST_COUNT) return NULL;
    if (chip->kind == TOPO_TPU) {
        const struct topo_slice *slice = slice_of(chip, count);
        return slice ? slice->accelerator_type : NULL;
    }
    const int each = gpus_of_host(chip);
    if (chip->kind != TOPO_GPU || (count > each && count % each)) return NULL;
    return base_print(arena, "%s:%lldx%lld", chip->name, (long long)(count > each ? count / each : 1),
                      (long long)(count > each ? each : count));
}

/* "8xH100", "64 x H100", "32 v4 chips", "H100x8", "H200 SXM 8": the count, and the name next to it; 0: none. */
static int64_t count_beside(struct base_arena *arena, const char *text, const char **name)
{
    const size_t length = strlen(text), digits = strspn(text, "0123456789");
    const char *at = text + digits + strspn(text + digits, " "), *end = text + length;
    if (digits && digits < 8) {
        const bool times = (*at == 'x' || *at == 'X' || *at == '*') && at[1];
        if (!times && at == text + digits) return 0;
        at += times;
        *name = at + strspn(at, " ");
        return **name ? atoi(text) : 0;
    }
    while (end > text && isdigit((unsigned char)end[-1])) end--;
    const char *number = end;
    while (end > text && end[-1] == ' ') end--;
    if (!*number || strlen(number) > 7 || end - text < 3) return 0;
    const bool times = strchr("xX*", end[-1]) && (end == number || end[-2] == ' '), bare = end < number && !times;
    if (!times && !bare) return 0;
    if (bare) {
        *name = base_copy_bytes(arena, text, (size_t)(end - text));
        const struct topo_chip *chip = chip_spelled(*name, (size_t)(end - text));
        const bool is_memory = chip && strstr(chip->full_name, base_print(arena, "%sGB", number)); /* "H100 80" */
        return is_memory || chip_spelled(text, length) ? 0 : atoi(number);                         /* "RTX 4090" */
    }
    for (end--; end > text && end[-1] == ' ';) end--;
    *name = base_copy_bytes(arena, text, (size_t)(end - text));
    return atoi(number);
}

enum base_status topo_refuse_counted(struct base_arena *arena, const char *text, struct base_error *error)
{
    const char *name = text;
    const int64_t count = count_beside(arena, text, &name);
    const struct topo_chip *chip = count ? chip_spelled(name, strlen(name)) : NULL;
    if (chip && chip->kind == TOPO_TPU)
        return topo_refuse_size(chip, base_print(arena, "%lld", (long long)count * chip->cores_per_chip), error);
    if (!chip) return topo_refuse_name(isdigit((unsigned char)*text) ? name : text, false, error);
    const int each = gpus_of_host(chip);
    return base_fail(error, BASE_INPUT, "%lld GPUs are no whole nodes of %d; use %s:%lldx%d, or %s:NODESxGPUS",
                     (long long)count, each, chip->name, (long long)(count / each), each, chip->name);
}

/* "2x8 H100", "16 nodes of 8 H100", "2 nodes x 8xA100-80GB"; NULL: it is no such. */
static const char *nodes_of(struct base_arena *arena, const char *text)
{
    char *at;
    const long nodes = strtol(text, &at, 10);
    if (!isdigit((unsigned char)*text) || nodes < 1 || nodes > MOST_COUNT) return NULL;
    at += strspn(at, " ");
    const bool said = !strncmp(at, "node", 4);
    if (said) at += strcspn(at, " "), at += strspn(at, " ");
    if (said && !strncmp(at, "of ", 3)) at += 3;
    if (*at == 'x' || *at == '*') at++;
    else if (!said) return NULL;
    at += strspn(at, " ");
    if (!isdigit((unsigned char)*at)) return NULL;
    const long each = strtol(at, &at, 10);
    at += strspn(at, " ");
    if (*at == 'x' || *at == '*') at++;
    const struct topo_chip *chip = each < 1 || each > 1024 ? NULL : chip_spelled(at, strlen(at));
    return chip && chip->kind == TOPO_GPU ? base_print(arena, "%s:%ldx%ld", chip->name, nodes, each) : NULL;
}

/* "v5p:4x4x4", "v4-32", "h100:2x8" and "p5.48xlarge", so many times: slices, or nodes. NULL: it is none of these. */
static const char *times_machine(struct base_arena *arena, const char *name, int64_t count)
{
    const char *node = base_synonym("topology", name, strlen(name), BASE_SUGGESTED);
    if (node && strchr(node, ':')) name = node;
    const char *colon = strchr(name, ':'), *x = colon ? strchr(colon, 'x') : NULL;
    const struct topo_chip *chip = colon ? chip_spelled(name, (size_t)(colon - name)) : NULL;
    if (!x || !chip || strchr(name, '@')) return NULL;
    if (chip->kind == TOPO_TPU) return base_print(arena, "%s%s@slices=%lld", chip->name, colon, (long long)count);
    const int64_t nodes = strtol(colon + 1, NULL, 10);
    if (chip->kind != TOPO_GPU || nodes < 1 || nodes > MOST_COUNT || strspn(x + 1, "0123456789") != strlen(x + 1))
        return NULL;
    return base_print(arena, "%s:%lld%s", chip->name, (long long)(nodes * count), x);
}

/* DGX and HGX are hosts, and NVL72 is a rack, of which there are so many; NULL: the name has none of these words. */
static const char *hosts_of(struct base_arena *arena, const char *name, int64_t count)
{
    struct tokens given;
    const struct topo_chip *chip = split(name, strlen(name), &given) ? chip_of(&given) : NULL;
    if (!chip || chip->kind != TOPO_GPU || count < 1 || count > MOST_COUNT) return NULL;
    if (!holds(&given, "dgx") && !holds(&given, "hgx") && !holds(&given, "nvl72")) return NULL;
    return base_print(arena, "%s:%lldx%d", chip->name, (long long)count,
                      chip->domain_size > 16 ? chip->domain_size : gpus_of_host(chip));
}

/* The counted items as a topology, for example the slices of "8 x v5e-256"; NULL: not a count. */
static const char *counted(struct base_arena *arena, const char *text)
{
    const char *name, *nodes = nodes_of(arena, text);
    if (nodes) return nodes;
    const int64_t count = count_beside(arena, text, &name);
    if (!count) name = text;
    if (!strncmp(name, "slices of ", 10)) name += 10;
    const char *machine = times_machine(arena, name, count ? count : 1);
    if (!machine) machine = hosts_of(arena, name, count ? count : 1);
    if (!count) return machine;
    if (machine) return machine;
    char *lower = base_copy(arena, name);
    topo_as_catalogued(lower);
    const bool is_count = isdigit((unsigned char)*text) || strchr(text, ' '); /* "v6e-8x4" is a shape */
    if (topo_slice_named(lower)) return is_count ? base_print(arena, "%s@slices=%lld", lower, (long long)count) : NULL;
    struct tokens given;
    const struct topo_chip *chip = split(lower, strlen(lower), &given) ? chip_of(&given) : NULL;
    if (!chip) return NULL;
    if (chip->kind == TOPO_TPU && holds(&given, "cores"))
        return count % chip->cores_per_chip ? NULL : topo_devices_name(arena, chip, count / chip->cores_per_chip);
    return topo_devices_name(arena, chip, count);
}

const char *topo_spelled(struct base_arena *arena, const char *text)
{
    const size_t length = strcspn(text, ":@");
    const bool counts = !text[length] || (strchr(text, ' ') && !strchr(text, '@')); /* "v5p:4x4x4 x 2" */
    if (*text == '@' || strlen(text) >= LONGEST || !length || text[length] == '@' ||
        (!counts && topo_chip_named(text, length)) || topo_slice_named(text))
        return text;
    char lower[LONGEST]; /* not in the arena: a session must not keep rejected names */
    memcpy(lower, text, length);
    lower[length] = '\0';
    topo_as_catalogued(lower);
    const char *meant = counts ? counted(arena, text) : NULL;
    if (meant) return meant;
    if (topo_chip_named(lower, strlen(lower)) || topo_slice_named(lower)) return text;
    const struct topo_chip *chip = chip_spelled(text, length);
    if (!chip || (!text[length] && !strcmp(chip->name, text))) return text;
    return base_print(arena, "%s%s", chip->name, text + length);
}
